TBS_SYSTEM void place_players(World &world, physics::Pose &pose, physics::Shape &shape, physics::Mass &mass,
                              physics::Motion &motion, const Push &, const physics::Hulls &hulls, Row row) {
    Random &random = world.random();
    pose = physics::pose({4.0f * f32(row.index) - 2.0f + random.uniform(-0.5f, 0.5f), random.uniform(-1.0f, 1.0f), 1.0f});
    shape = physics::box({1.0f, 1.0f, 1.0f});
    mass = physics::mass_of(hulls, shape, 1.0f);
    motion = physics::dynamic(physics::LOCK_TURN_X | physics::LOCK_TURN_Y);
}

TBS_SYSTEM void build(World &world, const physics::Hulls &hulls) {
    const Rows<physics::Pose> walls = world.rows<Wall, physics::Pose>();
    const Rows<physics::Shape> shapes = world.rows<Wall, physics::Shape>();
    walls[0u] = physics::pose({0.0f, 0.0f, 0.0f});
    shapes[0u] = physics::plane();
    for (u32 i = 1; i < 3; ++i) {
        walls[i] = physics::pose({i == 1 ? -6.0f : 6.0f, 0.0f, 1.0f});
        shapes[i] = physics::box({0.2f, 6.0f, 1.0f});
    }
    // A ball hangs from the sky, and a capsule from the ball.
    const physics::Shape ball = physics::sphere(0.4f), rod = physics::capsule(0.2f, 0.5f);
    const physics::Material soft{0.4f, 0.3f, 0.5f};
    const physics::Pose high = physics::pose({0.0f, 0.0f, 5.0f}), low = physics::pose({0.0f, 0.0f, 3.9f});
    const Entity bob = world.create<Thing>(high, ball, physics::mass_of(hulls, ball, 2.0f),
                                           physics::dynamic(), soft);
    const Entity tail = world.create<Thing>(low, rod, physics::mass_of(hulls, rod, 1.0f),
                                            physics::dynamic(), soft);
    world.create<Rope>(physics::ball(Entity{}, physics::world_pose(), bob, high, {0.0f, 0.0f, 6.0f}));
    const vec3 axis{world.parameters.axis, 0.0f, 0.0f};
    physics::Joint hinge = physics::hinge(bob, high, tail, low, {0.0f, 0.0f, 4.4f}, axis);
    hinge.drive_damping = 100.0f;
    hinge.drive_rate = 3.0f;
    hinge.drive_limit = 2.0f;
    world.create<Rope>(hinge);
}

TBS_SYSTEM void throw_things(World &world, const physics::Hulls &hulls) {
    Random &random = world.random();
    const u32 kind = random.below(4);
    const vec3 place{random.uniform(-4.0f, 4.0f), random.uniform(-3.0f, 3.0f), random.uniform(2.0f, 5.0f)};
    const vec3 speed{random.uniform(-4.0f, 4.0f), random.uniform(-4.0f, 4.0f), random.uniform(-6.0f, 0.0f)};
    const f32 size = random.uniform(0.3f, 0.7f);
    if (world.count<Thing>() == 8) {  // the oldest one that hangs on nothing
        world.destroy<Thing>(world.entity<Thing>(2));
    } else if (world.step() % 3 == 1) {
        const physics::Shape shape = kind == 0   ? physics::sphere(size)
                                     : kind == 1 ? physics::capsule(0.5f * size, size)
                                     : kind == 2 ? physics::box({size, 0.7f * size, 0.5f * size})
                                                 : physics::hull(physics::Constants::wedge, {size, 0.6f * size, 0.5f * size});
        world.create<Thing>(physics::Pose{place, rotation_about({0.6f, 0.0f, 0.8f}, 3.0f * size)}, shape,
                            physics::mass_of_density(hulls, shape, 1.0f), physics::dynamic(),
                            physics::Velocity{speed, {size, 0.0f, 1.0f}}, physics::Material{0.6f, 0.4f, 0.3f});
    }
}

// Each player pushes, or holds what it is next to, and lets go again: of what is gone, too.
TBS_SYSTEM void push(World &world, const physics::Hulls &hulls) {
    const Rows<const Push> pushes = world.rows<Player, const Push>();
    const Rows<physics::Force> forces = world.rows<Player, physics::Force>();
    const Rows<const physics::Pose> players = world.rows<Player, const physics::Pose>();
    const Rows<physics::Joint> grips = world.rows<Grip, physics::Joint>();
    for (u32 i = 0; i < 2; ++i) {
        if (grips[i].a && !world.alive(grips[i].b)) grips[i] = physics::Joint{};
        const f32 along = pushes[i].which == 1 ? 12.0f : pushes[i].which == 2 ? -12.0f : 0.0f;
        forces[i] = physics::Force{{along, 0.3f * along, 0.0f}, {0.0f, 0.0f, 0.5f * along}};
        if (pushes[i].which != 3) continue;
        if (grips[i].a) {
            grips[i] = physics::Joint{};
            continue;
        }
        Entity near{};
        physics::overlaps(world, hulls, physics::box({1.5f, 1.5f, 1.0f}), players[i].position, players[i].rotation, 1,
                          [&](Entity found, f32) {
                              if (!near && world.index_of<Thing>(found) != no_row) near = found;
                          });
        if (!near) continue;
        const physics::Pose *const held = world.find<Thing, const physics::Pose>(near);
        grips[i] = physics::weld(world.entity<Player>(i), players[i], near, *held);
        grips[i].break_force = 100.0f;
    }
}

TBS_SYSTEM void count_touches(World &world, Told &told) {
    told = Told{};
    for (const physics::Contact &contact : world.rows<physics::Touch, const physics::Contact>()) {
        told.touches += 1;
        told.impulse += contact.impulse;
    }
    for (const physics::Joint &grip : world.rows<Grip, const physics::Joint>()) told.held |= grip.a && grip.broken == 0;
}

TBS_SYSTEM void judge(World &world, Episode &episode) {
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps) + world.id % 3;
}

TBS_SYSTEM void look(World &world, const physics::Pose &pose, const physics::Velocity &velocity, const Told &told, View &view) {
    view.values[0] = pose.position.x;
    view.values[1] = pose.position.y;
    view.values[2] = pose.position.z;
    view.values[3] = velocity.linear.x;
    view.values[4] = f32(told.touches);
    view.values[5] = told.impulse;
}
