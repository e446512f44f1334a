// The view of a centralised critic: all rows, seen or not.
#pragma once

TBS_SYSTEM void describe_all(World &world, const physics::Pose &pose, const Team &team, const Sight &sight, Row row,
                             AllAgents &agents, AllBoxes &boxes, AllRamps &ramps) {
    Views views{};
    views.agents = agents.rows[0], views.boxes = boxes.rows[0], views.ramps = ramps.rows[0];
    describe_others(world, views, eye_of(pose), team, sight, row.index, true);
}
