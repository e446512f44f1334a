TBS_SYSTEM void hang(World &world) {
    Random &random = world.random();
    const Rows<physics::Pose> stones = world.rows<Stone, physics::Pose>();
    const Rows<physics::Shape> shapes = world.rows<Stone, physics::Shape>();
    for (u32 i = 0; i < stones.count; ++i) {
        const vec3 place{random.uniform(-8.0f, 8.0f), random.uniform(-8.0f, 8.0f), random.uniform(0.5f, 1.5f)};
        const vec3 axis = normalize(vec3{random.normal(), random.normal(), random.normal()});
        stones[i] = physics::pose(place, rotation_about(axis, random.uniform(0.0f, 6.0f)));
        const f32 size = random.uniform(0.4f, 1.0f);
        const u32 kind = i % 4;
        shapes[i] = kind == 0   ? physics::sphere(size)
                    : kind == 1 ? physics::capsule(0.5f * size, size)
                    : kind == 2 ? physics::box({size, 0.7f * size, 0.5f * size})
                                : physics::hull(physics::Constants::wedge, {size, size, size});
    }
    const Rows<physics::Pose> walls = world.rows<Wall, physics::Pose>();
    const Rows<physics::Shape> wall_shapes = world.rows<Wall, physics::Shape>();
    for (u32 i = 0; i < walls.count; ++i) {
        walls[i] = physics::pose({i == 1 ? 10.0f : i == 2 ? -10.0f : 0.0f, 0.0f, i == 0 ? 0.0f : 1.0f});
        wall_shapes[i] = i == 0 ? physics::plane() : physics::box({0.2f, 10.0f, 1.0f});
    }
}

TBS_SYSTEM void enter(World &world, physics::Pose &pose, physics::Shape &shape, rays::View &view, Row row) {
    pose = physics::pose({3.0f * f32(row.index) - 3.0f, -9.0f, 1.0f});
    shape = physics::sphere(0.5f);
    view = rays::View{{0.0f, 0.0f, 0.3f}, rays::looking({0.0f, 1.0f, -0.1f}), 1.0f, 0.05f, 40.0f, 0};
}

TBS_SYSTEM void walk(World &world, physics::Pose &pose, const Step &step) {
    pose.rotation = normalize(pose.rotation * rotation_about({0.0f, 0.0f, 1.0f}, 0.2f * f32(step.turn - 1)));
    pose.position = pose.position + rotate(vec3{0.0f, 0.3f, 0.0f}, pose.rotation);
}

TBS_SYSTEM void drop(World &world) {
    Random &random = world.random();
    if (world.count<Coin>() < 6 && random.chance(0.5f)) {
        const f32 x = random.uniform(-5.0f, 5.0f);
        world.create<Coin>(physics::pose({x, 0.0f, 1.0f}), physics::box({1.5f, 0.3f, 0.4f}), physics::Filter{2, 0},
                           rays::Paint{0xffd700});
    } else if (world.count<Coin>() > 2) {
        world.destroy<Coin>(world.entity<Coin>(0));
    }
}

TBS_SYSTEM void sweep(World &world, const physics::Pose &pose, const rays::Scene &scene, Entity self, Sensors &sensors,
                      Warp &warp) {
    const i32 own = rays::body_of(scene, self);
    const rays::Fan fan{.origin = pose.position, .rotation = pose.rotation, .reach = 12.0f, .ignored = own};
    rays::lidar(scene, warp, 20, fan, [&](u32 i, const rays::Hit &hit) {
        sensors.distance[i] = hit.distance;
        sensors.body[i] = hit.body;
        sensors.normal[i] = hit.normal;
    });
    const Rows<const physics::Pose> visitors = world.rows<Visitor, const physics::Pose>();
    const auto sight = [&](u32 i) { return rays::Sight{pose.position, visitors[i].position, own, i32(i)}; };
    rays::see_all(scene, warp, 3, sight, [&](u32 i, bool clear) { sensors.clear[i] = clear; });
}

TBS_SYSTEM void survey(World &world, const rays::Scene &scene, Warp &warp) {
    const Rows<const physics::Pose> visitors = world.rows<Visitor, const physics::Pose>();
    const Rows<Survey> surveys = world.rows<Visitor, Survey>();
    rays::look(
        scene, warp, visitors.count, 20,
        [&](u32 eye) {
            return rays::Fan{.origin = visitors[eye].position, .rotation = visitors[eye].rotation, .reach = 12.0f,
                             .ignored = i32(eye)};
        },
        [&](u32 eye, u32 i, const rays::Hit &hit) {
            surveys[eye].distance[i] = hit.distance;
            surveys[eye].body[i] = hit.body;
            surveys[eye].normal[i] = hit.normal;
        },
        3, [&](u32 eye, u32 i) { return rays::Sight{visitors[eye].position, visitors[i].position, i32(eye), i32(i)}; },
        [&](u32 eye, u32 i, bool clear) { surveys[eye].clear[i] = clear; });
}

TBS_SYSTEM void point(World &world, const physics::Pose &pose, const rays::Scene &scene, Entity self, Ahead &ahead) {
    const vec3 forward = rotate(vec3{0.0f, 1.0f, 0.0f}, pose.rotation);
    const rays::Hit hit = rays::cast(scene, pose.position, forward, 15.0f, 2, rays::body_of(scene, self));
    ahead.found = rays::entity_of(scene, hit.body);
    ahead.distance = hit.distance;
    ahead.is_coin = world.index_of<Coin>(ahead.found) != no_row;
}

TBS_SYSTEM void close(World &world, Episode &episode) { episode.truncated = episode.step >= 30 + world.id % 3; }

TBS_SYSTEM void look(World &world, const Sensors &sensors, Seen &seen) {
    for (u32 i = 0; i < 20; ++i) seen.distance[i] = sensors.distance[i];
}
