// A floor, a wall, and five things in a row that touch: held by one joint of each kind, one of which breaks soon.
TBS_SYSTEM void put(World &world, const physics::Hulls &hulls) {
    const Rows<physics::Pose> boards = world.rows<Board, physics::Pose>();
    const Rows<physics::Shape> shapes = world.rows<Board, physics::Shape>();
    boards[0u] = physics::pose({0.0f, 0.0f, 0.0f});
    shapes[0u] = physics::plane();
    boards[1u] = physics::pose({-1.6f, 0.0f, 0.5f});
    shapes[1u] = physics::box({0.2f, 2.0f, 0.5f});
    const Rows<physics::Pose> poses = world.rows<Thing, physics::Pose>();
    const Rows<physics::Mass> masses = world.rows<Thing, physics::Mass>();
    const Rows<physics::Motion> motions = world.rows<Thing, physics::Motion>();
    const Rows<physics::Shape> kinds = world.rows<Thing, physics::Shape>();
    const auto make = [&](u32 i, const physics::Shape &shape, f32 height) {
        kinds[i] = shape;
        poses[i] = physics::pose({f32(i) - 1.0f, world.random().uniform(-0.1f, 0.1f), height});
        masses[i] = physics::mass_of_density(hulls, shape, 1.0f);
        motions[i] = physics::dynamic(i == 0 ? physics::LOCK_TURN_X : 0);
    };
    make(0, physics::box({0.5f, 0.6f, 0.4f}), 0.4f);
    make(1, physics::sphere(0.5f), 0.5f);
    make(2, physics::capsule(0.5f, 0.3f), 0.8f);
    make(3, physics::hull(physics::Constants::wedge, {0.5f, 0.4f, 0.4f}), 0.4f);
    make(4, physics::box({0.5f, 0.5f, 0.5f}), 0.5f);
    const auto thing = [&](u32 i) { return world.entity<Thing>(i); };
    physics::Joint weld = physics::weld(thing(0), poses[0u], thing(1), poses[1u]);
    weld.break_force = 0.01f;
    world.create<Link>(weld);
    // Of bodies as they are made: at 0 their frames are the same.
    const vec3 y{0.0f, 1.0f, 0.0f};
    const quat along_y = physics::frame_of_axis(y);
    physics::Joint hinge = physics::joint(physics::HINGE, thing(1), {0.5f, 0.0f, 0.0f}, along_y, thing(2),
                                          {-0.5f, 0.0f, 0.0f}, along_y);
    hinge.drive_stiffness = 20.0f;
    hinge.drive_damping = 5.0f;
    hinge.drive_target = 0.5f;
    hinge.drive_limit = 5.0f;
    hinge.friction = 0.1f;
    hinge.armature = 0.05f;
    world.create<Link>(hinge);
    physics::Joint slider = physics::joint(physics::SLIDER, Entity{}, {2.0f, 0.0f, 1.0f}, along_y, thing(3),
                                           {0.0f, 0.0f, 0.6f}, along_y);
    slider.limited = 1;
    slider.lower = -0.1f;
    slider.upper = 0.1f;
    world.create<Link>(slider);
    physics::Joint ball = physics::joint(physics::BALL, thing(3), {0.5f, 0.0f, 0.0f}, along_y, thing(4), {-0.5f, 0.0f, 0.0f},
                                         along_y);
    ball.limited = 1;
    ball.cone = 0.2f;
    world.create<Link>(ball);
}

TBS_SYSTEM void push(World &world, const Push &push, physics::Force &force) {
    force = physics::Force{{20.0f * f32(push.which - 1), 3.0f, 0.0f}, {0.0f, 0.0f, f32(push.which)}};
}

TBS_SYSTEM void judge(World &world, Episode &episode) {
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps) + world.id % 3;
}

TBS_SYSTEM void look(World &world, const physics::Pose &pose, const physics::Velocity &velocity, View &view) {
    view.values[0] = pose.position.x;
    view.values[1] = pose.position.z;
    view.values[2] = velocity.linear.x;
    view.values[3] = velocity.angular.y;
}
