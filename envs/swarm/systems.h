// Rows of one system run at once, so a row writes only itself, and an event of two rows (a bullet and its target)
// becomes a Pair, which is tested with all pairs at once and settled once per world.

TBS_FUNCTION f32 squared_distance(f32 x, f32 y) { return x * x + y * y; }

TBS_SYSTEM void place_ships(World &world, Place &place, Hull &hull, const Gun &) {
    Random &random = world.random();
    place = Place{random.uniform(-0.5f, 0.5f), random.uniform(-0.5f, 0.5f)};
    hull.left = world.parameters.hull;
}

// How far east a step in one of eight directions leads: 0 is east, 1 north-east. Selections, because a table would be
// memory.
TBS_FUNCTION f32 eastward(i32 direction) {
    const f32 length = direction % 4 == 0 ? 1.0f : direction % 4 == 2 ? 0.0f : 0.70710678f;
    return direction >= 3 && direction <= 5 ? -length : length;
}

TBS_SYSTEM void steer(World &world, const Place &place, const Hull &hull, const Choice &choice, Motion &motion,
                      Gun &gun, Score &score, Entity self) {
    const Parameters &p = world.parameters;
    score = Score{0, 0};
    motion = Motion{0.0f, 0.0f};
    if (hull.left == 0) return;
    motion.x = clamp(place.x + p.ship_speed * (f32(choice.move == 2) - f32(choice.move == 1)), -1.0f, 1.0f) - place.x;  // walls
    motion.y = clamp(place.y + p.ship_speed * (f32(choice.move == 4) - f32(choice.move == 3)), -1.0f, 1.0f) - place.y;
    gun.wait = max(gun.wait - 1, 0);
    if (choice.fire == 0 || gun.wait > 0) return;
    gun.wait = p.reload;
    const i32 direction = choice.fire - 1;
    const Motion flight{p.bullet_speed * eastward(direction), p.bullet_speed * eastward((direction + 6) % 8)};
    world.create<Bullet>(place, flight, Shot{self, p.bullet_life});
}

TBS_SYSTEM void spawn_drones(World &world) {
    Random &random = world.random();
    const f32 rate = world.parameters.spawn_rate + world.parameters.spawn_growth * f32(world.step() - 1);
    const i32 room = Constants::drones - i32(world.count<Drone>());
    const i32 number = min(to_i32(min(rate, 4.0f) + random.uniform()), min(4, room));  // `rate` on average
    for (i32 i = 0; i < number; ++i) {
        const f32 along = random.uniform(-1.0f, 1.0f), side = random.chance(0.5f) ? 1.0f : -1.0f;
        world.create<Drone>(random.chance(0.5f) ? Place{along, side} : Place{side, along}, Hull{1});
    }
}

TBS_SYSTEM void choose_target(World &world, const Place &place, Mind &mind) {
    const Rows<const Place> ships = world.rows<Ship, const Place>();
    const Rows<const Hull> hulls = world.rows<Ship, const Hull>();
    mind.target = Entity{};
    f32 least = 1e30f;
    for (u32 i = 0; i < ships.count; ++i) {
        const f32 distance = squared_distance(ships[i].x - place.x, ships[i].y - place.y);
        if (hulls[i].left == 0 || !(distance < least)) continue;
        least = distance;
        mind.target = world.entity<Ship>(i);
    }
}

TBS_SYSTEM void chase(World &world, const Place &place, const Mind &mind, Motion &motion, Row row, Entity self) {
    const Parameters &p = world.parameters;
    const Place *ship = world.find<Ship, const Place>(mind.target);
    motion = Motion{0.0f, 0.0f};
    if (!ship) return;
    const f32 x = ship->x - place.x, y = ship->y - place.y;
    const f32 distance = max(sqrt(squared_distance(x, y)), 1e-6f), speed = min(p.drone_speed, distance);
    motion = Motion{speed * (x / distance), speed * (y / distance)};
    // Drones fire in turns, which bounds the number of bullets in a step (see env.py).
    const u32 reload = u32(p.drone_reload);
    if (row.index % reload != world.step() % reload) return;
    const Motion flight{p.bullet_speed * (x / distance), p.bullet_speed * (y / distance)};
    world.create<Bullet>(place, flight, Shot{self, p.bullet_life});
}

TBS_SYSTEM void move(World &world, Place &place, const Motion &motion) {  // ships, drones and bullets
    place.x += motion.x;
    place.y += motion.y;
}

TBS_SYSTEM void expire(World &world, const Place &place, Shot &shot, Entity self) {
    shot.left -= 1;
    if (shot.left <= 0 || abs(place.x) > 1.0f || abs(place.y) > 1.0f) world.destroy(self);
}

TBS_SYSTEM void sort_drones(World &world, grid::Cells &cells, Warp &warp) {
    const Rows<const Place> drones = world.rows<Drone, const Place>();
    grid::build(cells, drones.count, warp, [&](u32 i) { return drones[i]; });
}

// Targets that a bullet may have hit in this step: drones for bullets of ships, ships for all others. Only the eight
// oldest in reach are compared, which bounds the table of pairs.
TBS_SYSTEM void find_contacts(World &world, const Place &place, const Shot &shot, Entity self, const grid::Cells &cells,
                              Warp &warp) {
    const Parameters &p = world.parameters;
    const f32 reach = p.radius + p.bullet_speed + max(p.ship_speed, p.drone_speed);
    const auto close = [&](const Place &target) {
        return abs(target.x - place.x) <= reach && abs(target.y - place.y) <= reach;
    };
    const auto pair = [&](Entity target, u32 before) {
        if (before < 8) world.create_at<Contact>(before, Pair{self, target, 0});
    };
    if (world.index_of<Ship>(shot.owner) != no_row) {
        const Rows<const Place> drones = world.rows<Drone, const Place>();
        grid::scan(
            grid::near(world, cells, drones.count, place.x, place.y, reach), warp,
            [&](u32 i) { return close(drones[i]); },
            [&](u32 i, u32 before) { pair(world.entity<Drone>(i), before); });
    } else {
        const Rows<const Place> ships = world.rows<Ship, const Place>();
        const Rows<const Hull> hulls = world.rows<Ship, const Hull>();
        const auto reached = [&](u32 i) { return hulls[i].left > 0 && close(ships[i]); };
        warp.scan(
            ships.count, [&](u32 i) { return reached(i) ? 1u : 0u; },
            [&](u32 i, u32 before) {
                if (reached(i)) pair(world.entity<Ship>(i), before);
            });
    }
}

// Whether the bullet came as near as `radius` on its way, seen from the target, which moved too.
TBS_SYSTEM void resolve(World &world, Pair &pair) {
    const bool drone = world.index_of<Drone>(pair.target) != no_row;
    const u32 target = drone ? world.index_of<Drone>(pair.target) : world.index_of<Ship>(pair.target);
    const Place place = (drone ? world.rows<Drone, const Place>() : world.rows<Ship, const Place>())[target];
    const Motion drift = (drone ? world.rows<Drone, const Motion>() : world.rows<Ship, const Motion>())[target];
    const Place bullet = *world.find<Bullet, const Place>(pair.bullet);
    const Motion flight = *world.find<Bullet, const Motion>(pair.bullet);
    const f32 x = bullet.x - place.x, y = bullet.y - place.y;
    const f32 u = flight.x - drift.x, v = flight.y - drift.y;
    // The time in this step since it was nearest.
    const f32 ago = clamp((x * u + y * v) / max(squared_distance(u, v), 1e-12f), 0.0f, 1.0f);
    const f32 radius = world.parameters.radius;
    pair.hit = squared_distance(x - ago * u, y - ago * v) <= radius * radius;
}

// In order: of two bullets for one drone the older one counts. This system still sees destroyed rows, so it marks them.
TBS_SYSTEM void strike(World &world) {
    for (const Pair &pair : world.rows<Contact, const Pair>()) {
        if (!pair.hit) continue;
        Shot &shot = *world.find<Bullet, Shot>(pair.bullet);
        Hull *const drone = world.find<Drone, Hull>(pair.target);
        Hull &hull = drone ? *drone : *world.find<Ship, Hull>(pair.target);
        if (shot.left == 0 || hull.left == 0) continue;
        if (drone) {
            const u32 owner = world.index_of<Ship>(shot.owner);
            if (world.rows<Ship, const Hull>()[owner].left > 0) world.rows<Ship, Score>()[owner].kills += 1;
            world.destroy(pair.target);
        } else {
            world.find<Ship, Score>(pair.target)->hits += 1;
        }
        hull.left -= 1;
        shot.left = 0;
        world.destroy(pair.bullet);
    }
}

// Drones that touch a ship are destroyed by it: once, also where they touch two.
TBS_SYSTEM void ram(World &world, const Place &place, Hull &hull, Score &score, Warp &warp) {
    const Rows<const Place> drones = world.rows<Drone, const Place>();
    const f32 reach = 2.0f * world.parameters.radius;
    const auto touches = [&](u32 i) {
        return squared_distance(drones[i].x - place.x, drones[i].y - place.y) <= reach * reach;
    };
    if (hull.left == 0) return;
    const i32 hits = min(i32(warp.count(drones.count, touches)), hull.left);
    warp.for_each(drones.count, [&](u32 i) {
        if (touches(i)) world.destroy(world.entity<Drone>(i));
    });
    warp.once([&] {
        hull.left -= hits;
        score.hits += hits;
    });
}

TBS_SYSTEM void pay(World &world, const Score &score, Tally &tally, Reward &reward) {
    reward.value = f32(score.kills - score.hits);
    tally.kills += score.kills;
    tally.hits += score.hits;
}

TBS_SYSTEM void judge(World &world, Episode &episode) {
    bool over = true;
    for (const Hull &hull : world.rows<Ship, const Hull>()) over = over && hull.left == 0;
    episode.terminated = over;
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

// Keeps the five nearest, nearest first; of two equally near the one that came first.
TBS_FUNCTION void keep_nearest(f32 (&seen)[5][5], f32 x, f32 y, f32 u, f32 v) {
    const f32 distance = squared_distance(x, y);
    u32 k = 5;
    for (; k > 0; --k) {
        f32 (&nearer)[5] = seen[k - 1];
        if (nearer[0] != 0.0f && !(distance < squared_distance(nearer[1], nearer[2]))) break;
        for (u32 j = 0; k < 5 && j < 5; ++j) seen[k][j] = nearer[j];
    }
    if (k == 5) return;
    f32 (&own)[5] = seen[k];
    own[0] = 1.0f;
    own[1] = clamp(x, -2.0f, 2.0f), own[2] = clamp(y, -2.0f, 2.0f);
    own[3] = clamp(u, -1.0f, 1.0f), own[4] = clamp(v, -1.0f, 1.0f);
}

TBS_SYSTEM void look(World &world, const Place &place, const Motion &motion, const Gun &gun, const Hull &hull,
                     View &view) {
    const Parameters &p = world.parameters;
    view = View{};
    view.place[0] = place.x, view.place[1] = place.y;
    view.velocity[0] = clamp(motion.x / p.ship_speed, -1.0f, 1.0f);
    view.velocity[1] = clamp(motion.y / p.ship_speed, -1.0f, 1.0f);
    view.wait = f32(gun.wait) / f32(p.reload);
    view.hull = f32(hull.left) / f32(p.hull);
    const Rows<const Place> drones = world.rows<Drone, const Place>(), bullets = world.rows<Bullet, const Place>();
    const Rows<const Motion> chases = world.rows<Drone, const Motion>(), flights = world.rows<Bullet, const Motion>();
    const Rows<const Shot> shots = world.rows<Bullet, const Shot>();
    for (u32 i = 0; i < drones.count; ++i) {
        keep_nearest(view.drones, drones[i].x - place.x, drones[i].y - place.y, chases[i].x / p.drone_speed,
                     chases[i].y / p.drone_speed);
    }
    for (u32 i = 0; i < bullets.count; ++i) {
        if (world.index_of<Ship>(shots[i].owner) != no_row) continue;
        keep_nearest(view.bullets, bullets[i].x - place.x, bullets[i].y - place.y, flights[i].x / p.bullet_speed,
                     flights[i].y / p.bullet_speed);
    }
}
