// All observations in one array.
#pragma once

TBS_SYSTEM void describe(World &world, const physics::Pose &pose, const Travel &travel, const Team &team,
                         const physics::Joint &grip, const Sight &sight, const Lidar &lidar, View &view, Row row) {
    const Views views{view.agents[0], view.boxes[0], view.ramps[0], view.sees_agents, view.sees_boxes, view.sees_ramps,
                      view.box_exists, view.ramp_exists};
    describe_self(world, view.own, pose, travel, team, grip);
    describe_others(world, views, eye_of(pose), team, sight, row.index, world.parameters.see_all);
    describe_masks(world, views, sight);
    for (u32 i = 0; i < u32(Constants::beams); ++i) view.lidar[i] = lidar.distance[i];
}
