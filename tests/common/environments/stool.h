// The ground, a stool 1 cm above it, and in every second world a ball that falls on the edge of its seat.
TBS_SYSTEM void put(World &world, const physics::Hulls &hulls) {
    world.rows<Ground, physics::Pose>()[0u] = physics::pose({0.0f, 0.0f, 0.0f});
    world.rows<Ground, physics::Shape>()[0u] = physics::plane();
    const physics::Shape leg = physics::capsule(0.05f, 0.25f), seat = physics::box({0.35f, 0.3f, 0.05f});
    const vec3 feet[3] = {{0.3f, 0.0f, 0.3f}, {-0.2f, 0.25f, 0.3f}, {-0.2f, -0.25f, 0.3f}}, top{0.05f, 0.0f, 0.6f};
    const quat turn = rotation_about(vec3{0.0f, 0.0f, 1.0f}, 0.5f);
    physics::Assembly all;
    for (const vec3 foot : feet) all.add(hulls, leg, 0.5f, foot);
    all.add(hulls, seat, 2.0f, top, turn);
    const Entity stool = world.entity<Stool>(0);
    const physics::Pose at = physics::pose(all.centre + vec3{0.0f, 0.0f, 0.01f});
    world.rows<Stool, physics::Pose>()[0u] = at;
    world.rows<Stool, physics::Shape>()[0u] = physics::no_shape();
    world.rows<Stool, physics::Mass>()[0u] = all.mass();
    world.rows<Stool, physics::Motion>()[0u] = physics::dynamic();
    world.rows<Seat, physics::Part>()[0u] = physics::part(stool, top - all.centre, turn);
    world.rows<Seat, physics::Shape>()[0u] = seat;
    for (const vec3 foot : feet) {
        const physics::Part part = physics::part(stool, foot - all.centre);
        world.create<Leg>(part, physics::pose_of(part, at), leg);
    }
    if (world.id % 2 == 0) return;
    const physics::Shape ball = physics::sphere(0.1f);
    world.create<Ball>(physics::pose({world.random().uniform(-0.25f, 0.35f), 1.5f, 0.1f}), ball,
                       physics::mass_of(hulls, ball, 1.0f), physics::dynamic(),
                       physics::Velocity{{0.0f, -3.0f, 0.0f}, {}});
}

TBS_SYSTEM void push(World &, const Push &push, physics::Force &force) {
    force.force = {3.0f * f32(push.which - 1), 0.0f, 0.0f};
}

TBS_FUNCTION rays::Ray along_x() { return {{2.0f, 0.0f, 0.3f}, {-1.0f, 0.0f, 0.0f}, 5.0f, ~0u}; }

TBS_SYSTEM void glance(World &, const rays::Scene &scene, Glance &glance) {
    glance.distance = rays::cast(scene, along_x()).distance;
}

TBS_SYSTEM void look(World &world, const rays::Scene &scene, const physics::Hulls &hulls, View &view) {
    const rays::Hit hit = rays::cast(scene, along_x());
    view.values[0] = hit.distance;
    view.values[1] = world.find<Leg, const physics::Part>(rays::entity_of(scene, hit.body)) != nullptr ? 1.0f : 0.0f;
    f32 legs = 0.0f;
    physics::overlaps(world, hulls, physics::sphere(0.02f), {0.3f, 0.0f, 0.1f}, {1, 0, 0, 0}, ~0u,
                      [&](Entity found, f32) { legs += world.find<Leg, const physics::Part>(found) != nullptr; });
    view.values[2] = legs;
    f32 touches = 0.0f;
    const Entity stool = world.entity<Stool>(0);
    for (const physics::Contact &contact : world.rows<physics::Touch, const physics::Contact>()) {
        const bool on_ground = contact.a == world.entity<Ground>(0) || contact.b == world.entity<Ground>(0);
        touches += on_ground && (contact.a == stool || contact.b == stool);
    }
    view.values[3] = touches;
}
