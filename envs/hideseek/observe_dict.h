// Observations as columns of their own.
#pragma once

TBS_SYSTEM void describe(World &world, const physics::Pose &pose, const Travel &travel, const Team &team,
                         const physics::Joint &grip, const Sight &sight, Row row, OwnView &own,
                         AgentView &agents, BoxView &boxes, RampView &ramps, SeesAgents &sees_agents, SeesBoxes &sees_boxes,
                         SeesRamps &sees_ramps, BoxExists &box_exists, RampExists &ramp_exists) {
    const Views views{agents.rows[0], boxes.rows[0], ramps.rows[0], sees_agents.mask, sees_boxes.mask, sees_ramps.mask,
                      box_exists.mask, ramp_exists.mask};
    describe_self(world, own.values, pose, travel, team, grip);
    describe_others(world, views, eye_of(pose), team, sight, row.index, world.parameters.see_all);
    describe_masks(world, views, sight);
}
