// What agents sense in the levels: see physics_levels.py.

TBS_SYSTEM void sense(World &world, const physics::Pose &pose, const rays::Scene &scene, Senses &senses, Row row, Warp &warp) {
    const i32 own = i32(row.index);  // agents are the first bodies, things the next ones
    const vec3 eye = pose.position;
    const rays::Fan fan{.origin = eye, .rotation = pose.rotation, .reach = Constants::reach, .ignored = own};
    rays::lidar<rays::Nearest>(scene, warp, u32(Constants::beams), fan,
                               [&](u32 i, const rays::Nearest &hit) { senses.distance[i] = hit.distance; });
    const Rows<const physics::Pose> agents = world.rows<Agent, const physics::Pose>();
    const Rows<const physics::Pose> things = world.rows<Thing, const physics::Pose>();
    rays::see_all(
        scene, warp, u32(Constants::agents + Constants::things),
        [&](u32 i) {
            const vec3 target = i < agents.count ? agents[i].position : things[i - agents.count].position;
            return rays::Sight{eye, target, own, i32(i)};
        },
        [&](u32 i, bool clear) { senses.sees[i] = clear; });
}
