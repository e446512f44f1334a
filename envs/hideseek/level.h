// Levels: walls with doors that make rooms, and free places of things and agents. See env.py.
#pragma once

// ---- walls -----------------------------------------------------------------------------------------------------------

// A straight wall along x or y with its doors: `at` is the place of its middle across, `low` and `high` its ends.
struct WallLine {
    f32 at, low, high;
    bool upright;  // along y
};
struct Door {
    u32 line;
    f32 low, high;
};
// The place at which the end of another wall meets a line.
struct Junction {
    u32 line;
    f32 at;
};
// The floor between four lines: left, bottom, right, top, and the numbers of these lines.
struct Room {
    f32 side[4];
    u32 line[4];
};

inline constexpr u32 outer_walls = 4, most_lines = outer_walls + u32(Constants::max_walls),
                     most_doors = u32(Constants::max_walls + Constants::max_doors),
                     most_rooms = 1 + u32(Constants::max_walls);
inline constexpr f32 half_thickness = 0.5f * Constants::wall_thickness, stub = 0.4f;  // metres of wall beside a door

struct Walls {
    WallLine lines[most_lines];
    Door doors[most_doors + 1];
    Junction junctions[2 * most_lines];
    Room rooms[most_rooms];
    u32 line_count, door_count, junction_count, room_count;
};

TBS_FUNCTION bool overlap(f32 low, f32 high, f32 other_low, f32 other_high) { return low < other_high && other_low < high; }

// Whether a door from low to high touches no other door of its line, and the end of no wall.
TBS_FUNCTION bool is_free(const Walls &walls, u32 line, f32 low, f32 high) {
    for (u32 i = 0; i < walls.door_count; ++i) {
        const Door &door = walls.doors[i];
        if (door.line == line && overlap(low - stub, high + stub, door.low, door.high)) return false;
    }
    const f32 room = half_thickness + stub;
    for (u32 i = 0; i < walls.junction_count; ++i) {
        const Junction &end = walls.junctions[i];
        if (end.line == line && overlap(low, high, end.at - room, end.at + room)) return false;
    }
    return true;
}

// A place for the end of a wall, outside of doors.
TBS_FUNCTION bool can_end_at(const Walls &walls, u32 line, f32 at) {
    const f32 room = half_thickness + stub;
    for (u32 i = 0; i < walls.door_count; ++i) {
        const Door &door = walls.doors[i];
        if (door.line == line && overlap(at - room, at + room, door.low, door.high)) return false;
    }
    return true;
}

// Cuts a door into a line; false without a free place.
TBS_CALLED bool cut_door(Walls &walls, u32 line, Random &random) {
    const f32 side = 2.0f * Constants::half_size, low = walls.lines[line].low + stub, high = walls.lines[line].high - stub;
    for (u32 attempt = 0; attempt < 16; ++attempt) {
        const f32 width = (random.chance(0.5f) ? Constants::wide_door : Constants::narrow_door) * side;
        const f32 at = random.uniform(low, high - width);
        if (high - low < width || !is_free(walls, line, at, at + width)) continue;
        walls.doors[walls.door_count++] = {line, at, at + width};
        return true;
    }
    return false;
}

// Parts a room by a wall with a door, which so connects two walls; false without a free place.
TBS_CALLED bool part_room(Walls &walls, Random &random) {
    for (u32 attempt = 0; attempt < 16; ++attempt) {
        const u32 number = random.below(walls.room_count);
        const Room room = walls.rooms[number];
        const u32 across = random.below(2), along = 1 - across;  // across 0: a wall along y, somewhere between left and right
        const f32 low = room.side[across] + Constants::narrowest_room, high = room.side[across + 2] - Constants::narrowest_room;
        const f32 at = random.uniform(low, high);
        const u32 from = room.line[along], to = room.line[along + 2];
        if (high <= low || !can_end_at(walls, from, at) || !can_end_at(walls, to, at)) continue;
        const u32 line = walls.line_count;
        walls.lines[line] = {at, room.side[along], room.side[along + 2], across == 0};
        if (!cut_door(walls, line, random)) continue;
        ++walls.line_count;
        walls.junctions[walls.junction_count++] = {from, at};
        walls.junctions[walls.junction_count++] = {to, at};
        Room &before = walls.rooms[number], &behind = walls.rooms[walls.room_count++];
        behind = room;
        before.side[across + 2] = at - half_thickness;
        before.line[across + 2] = line;
        behind.side[across] = at + half_thickness;
        behind.line[across] = line;
        return true;
    }
    return false;
}

TBS_FUNCTION void begin_walls(Walls &walls) {
    const f32 half = Constants::half_size, middle = half + half_thickness;
    walls.lines[0] = {-middle, -half, half, true};
    walls.lines[1] = {-middle, -half - Constants::wall_thickness, half + Constants::wall_thickness, false};
    walls.lines[2] = {middle, -half, half, true};
    walls.lines[3] = {middle, -half - Constants::wall_thickness, half + Constants::wall_thickness, false};
    walls.rooms[0] = {{-half, -half, half, half}, {0, 1, 2, 3}};
    walls.line_count = 4;
    walls.room_count = 1;
    walls.door_count = walls.junction_count = 0;
    // The corners are the ends of walls as well.
    for (u32 i = 0; i < 4; ++i) walls.junctions[walls.junction_count++] = {i < 2 ? 1u : 3u, i % 2 == 0 ? -middle : middle};
}

// ---- places ----------------------------------------------------------------------------------------------------------

// A turned rectangle on the floor.
struct Plot {
    f32 x, y, cosine, sine, half_x, half_y;
};

// Whether the sides of `a` part it from `b` by more than the clearance.
TBS_FUNCTION bool parts(const Plot &a, const Plot &b) {
    const f32 x = b.x - a.x, y = b.y - a.y;
    const f32 along = fma(x, a.cosine, y * a.sine), aside = fma(y, a.cosine, -(x * a.sine));
    const f32 c = abs(fma(a.cosine, b.cosine, a.sine * b.sine)), s = abs(fma(a.cosine, b.sine, -(a.sine * b.cosine)));
    const f32 reach_x = fma(b.half_x, c, b.half_y * s), reach_y = fma(b.half_x, s, b.half_y * c);
    return abs(along) > a.half_x + reach_x + Constants::clearance || abs(aside) > a.half_y + reach_y + Constants::clearance;
}

TBS_FUNCTION Plot plot_of(f32 x, f32 y, f32 yaw, f32 half_x, f32 half_y) {
    f32 sine, cosine;
    sincos(yaw, sine, cosine);
    return {x, y, cosine, sine, half_x, half_y};
}
TBS_FUNCTION f32 yaw_of(const Plot &plot) { return atan2(plot.sine, plot.cosine); }

TBS_FUNCTION Plot plot_at(const Ground &ground, u32 i) {
    const f32(&p)[6] = ground.plots[i];
    return {p[0], p[1], p[2], p[3], p[4], p[5]};
}

TBS_FUNCTION bool is_inside(const Plot &plot) {
    const f32 reach_x = fma(plot.half_x, abs(plot.cosine), plot.half_y * abs(plot.sine));
    const f32 reach_y = fma(plot.half_x, abs(plot.sine), plot.half_y * abs(plot.cosine));
    const f32 most = Constants::half_size - Constants::clearance;
    return abs(plot.x) + reach_x <= most && abs(plot.y) + reach_y <= most;
}

TBS_FUNCTION bool is_free(const Ground &ground, const Plot &plot, Warp &warp) {
    return is_inside(plot) && warp.all(ground.count, [&](u32 i) {
        const Plot other = plot_at(ground, i);
        return parts(plot, other) || parts(other, plot);
    });
}

TBS_FUNCTION void put(Ground &ground, u32 i, const Plot &plot) {
    f32(&p)[6] = ground.plots[i];
    p[0] = plot.x, p[1] = plot.y, p[2] = plot.cosine, p[3] = plot.sine, p[4] = plot.half_x, p[5] = plot.half_y;
}
// Only one lane may take a plot.
TBS_FUNCTION void take(Ground &ground, const Plot &plot) { put(ground, ground.count++, plot); }

// A free place at random; false after all tries. All lanes draw the same.
TBS_CALLED bool find_place(const Ground &ground, Random &random, Warp &warp, f32 half_x, f32 half_y, Plot &found) {
    for (u32 attempt = 0; attempt < u32(Constants::tries); ++attempt) {
        const f32 x = random.uniform(-Constants::half_size, Constants::half_size);
        const f32 y = random.uniform(-Constants::half_size, Constants::half_size);
        found = plot_of(x, y, random.uniform(-pi, pi), half_x, half_y);
        if (is_free(ground, found, warp)) return true;
    }
    return false;
}

// A free place of a lattice, from a corner drawn at random on.
TBS_CALLED bool find_any_place(const Ground &ground, Random &random, Warp &warp, f32 half_x, f32 half_y, Plot &found) {
    constexpr u32 steps = 72;
    const u32 start = random.below(steps * steps);
    for (u32 i = 0; i < steps * steps; ++i) {
        const u32 place = (start + i) % (steps * steps);
        const f32 step = 2.0f * Constants::half_size / f32(steps);
        const f32 x = fma(f32(place % steps) + 0.5f, step, -Constants::half_size);
        const f32 y = fma(f32(place / steps) + 0.5f, step, -Constants::half_size);
        found = {x, y, 1.0f, 0.0f, half_x, half_y};
        if (is_free(ground, found, warp)) return true;
    }
    return false;
}

// ---- what start does, in this order ------------------------------------------------------------------------------------

TBS_FUNCTION quat turned(f32 yaw) { return rotation_about({0.0f, 0.0f, 1.0f}, yaw); }

// The lines of a level's walls, and their doors.
TBS_SYSTEM void build_walls(World &world, const Given &given, Layout &layout, Tally &tally) {
    layout.lines = layout.doors = 0;
    if (given.given) return;
    Random &random = world.random();
    Walls walls;
    begin_walls(walls);
    i32 parts = random.integer(world.parameters.min_walls, Constants::max_walls);
    i32 doors = random.integer(world.parameters.min_doors, Constants::max_doors);
    while (parts + doors > 0) {
        const bool part = i32(random.below(u32(parts + doors))) < parts;
        const bool found = part ? part_room(walls, random) : cut_door(walls, random.below(walls.line_count), random);
        (part ? parts : doors) -= 1;
        tally.left_out += found ? 0 : 1;
    }
    layout.lines = walls.line_count;
    layout.doors = walls.door_count;
    for (u32 i = 0; i < walls.line_count; ++i) {
        const WallLine &line = walls.lines[i];
        f32(&to)[4] = layout.line[i];
        to[0] = line.at, to[1] = line.low, to[2] = line.high, to[3] = line.upright ? 1.0f : 0.0f;
    }
    for (u32 i = 0; i < walls.door_count; ++i) {
        const Door &door = walls.doors[i];
        layout.door_line[i] = door.line;
        layout.door[i][0] = door.low, layout.door[i][1] = door.high;
    }
}

// A piece of wall: its middle, half its extents, and how many pieces come before it.
struct Piece {
    f32 x, y, half_x, half_y;
    u32 before;
};

// Item i of a layout: the last piece of line i; then those that end at a door. Pieces come in the order of lines, each
// from its low end on.
TBS_FUNCTION Piece piece_of(const Layout &layout, u32 i) {
    const bool is_last = i < layout.lines;
    const u32 number = is_last ? i : layout.door_line[i - layout.lines];
    const f32(&line)[4] = layout.line[number];
    const f32 to = is_last ? line[2] : layout.door[i - layout.lines][0];
    f32 from = line[1];
    u32 before = number;  // the last pieces of lines before
    for (u32 k = 0; k < layout.doors; ++k) {
        const f32 low = layout.door[k][0], high = layout.door[k][1];
        const bool earlier = layout.door_line[k] == number && low < to;
        before += earlier || layout.door_line[k] < number;
        from = earlier ? max(from, high) : from;
    }
    const f32 middle = 0.5f * (from + to), half = 0.5f * (to - from), at = line[0];
    if (line[3] > 0.5f) return {at, middle, half_thickness, half, before};
    return {middle, at, half, half_thickness, before};
}

TBS_SYSTEM void raise_walls(World &world, const Given &given, const Layout &layout, Ground &ground, Warp &warp) {
    const auto raise = [&](const Piece &piece) {
        const f32 half_height = 0.5f * Constants::wall_height;
        put(ground, piece.before, {piece.x, piece.y, 1.0f, 0.0f, piece.half_x, piece.half_y});
        world.create_at<Wall>(piece.before, physics::pose({piece.x, piece.y, half_height}),
                              physics::box({piece.half_x, piece.half_y, half_height}));
    };
    u32 count = layout.lines + layout.doors;
    if (given.given) {
        const auto is_there = [&](u32 i) { return given.walls[i][2] > 0.0f ? 1u : 0u; };
        count = warp.scan(u32(Constants::pieces), is_there, [&](u32 i, u32 before) {
            const f32(&piece)[4] = given.walls[i];
            if (is_there(i) > 0) raise({piece[0], piece[1], piece[2], piece[3], before});
        });
    } else {
        warp.for_each(count, [&](u32 i) { raise(piece_of(layout, i)); });
    }
    warp.once([&] { ground.count = count; });
}

// Takes a free place, or counts a thing that is left out; true where there is one.
TBS_FUNCTION bool take_place(Ground &ground, Tally &tally, Random &random, Warp &warp, f32 half_x, f32 half_y) {
    Plot plot;
    const bool found = find_place(ground, random, warp, half_x, half_y, plot);
    warp.once([&] {
        if (found) take(ground, plot);
        tally.left_out += found ? 0 : 1;
    });
    return found;
}

TBS_FUNCTION void put_box(World &world, const physics::Hulls &hulls, u32 item, f32 x, f32 y, f32 yaw, bool elongated) {
    const vec3 half = elongated ? vec3{Constants::long_x, Constants::long_y, Constants::long_z}
                                : vec3{Constants::cube, Constants::cube, Constants::cube};
    const physics::Shape shape = physics::box(half);
    world.create_at<Box>(item, physics::pose({x, y, half.z}, turned(yaw)), shape,
                         physics::mass_of(hulls, shape, Constants::thing_mass), physics::dynamic(),
                         physics::Material{Constants::box_static, Constants::box_dynamic, 0.0f}, Thing{NOBODY, 0, {x, y}});
}

TBS_SYSTEM void place_boxes(World &world, const Given &given, Ground &ground, Tally &tally, const physics::Hulls &hulls,
                            Warp &warp) {
    if (given.given) {
        warp.for_each(u32(Constants::box_rows), [&](u32 i) {
            const f32(&box)[4] = given.boxes[i];  // x, y, yaw, and 0 nothing, 1 a cube, 2 elongated
            if (box[3] > 0.5f) put_box(world, hulls, i, box[0], box[1], box[2], box[3] > 1.5f);
        });
        return;
    }
    Random random = world.random(0);  // for all lanes the same
    const i32 boxes = random.integer(world.parameters.min_boxes, world.parameters.max_boxes);
    const i32 most = max(boxes, 0), least = min(world.parameters.min_long_boxes, most);
    const i32 elongated = random.integer(least, most);
    const u32 first = ground.count;
    u32 placed = 0, placed_long = 0;
    for (i32 i = 0; i < boxes; ++i) {
        const bool is_long = i < elongated;
        const f32 half_x = is_long ? Constants::long_x : Constants::cube, half_y = is_long ? Constants::long_y : Constants::cube;
        const bool found = take_place(ground, tally, random, warp, half_x, half_y);
        placed += found;
        placed_long += found && is_long;
    }
    warp.for_each(placed, [&](u32 i) {
        const Plot plot = plot_at(ground, first + i);
        put_box(world, hulls, i, plot.x, plot.y, yaw_of(plot), i < placed_long);
    });
}

// A ramp's place is that of the rectangle below it; its body's centre is the wedge's centroid, a third of its height up
// and a sixth of its length towards the high side, along its y.
TBS_FUNCTION void put_ramp(World &world, const physics::Hulls &hulls, u32 item, f32 x, f32 y, f32 yaw) {
    const physics::Shape shape = physics::hull(physics::Constants::ramp);
    const quat rotation = turned(yaw);
    const vec3 off = rotate(vec3{0.0f, Constants::ramp_length / 6.0f, Constants::ramp_height / 3.0f}, rotation);
    world.create_at<Ramp>(item, physics::pose({x + off.x, y + off.y, off.z}, rotation), shape,
                          physics::mass_of(hulls, shape, Constants::thing_mass), physics::dynamic(),
                          physics::Material{Constants::ramp_static, Constants::ramp_dynamic, 0.0f},
                          Thing{NOBODY, 0, {x + off.x, y + off.y}});
}

TBS_SYSTEM void place_ramps(World &world, const Given &given, Ground &ground, Tally &tally, const physics::Hulls &hulls,
                            Warp &warp) {
    if (given.given) {
        warp.for_each(u32(Constants::ramp_rows), [&](u32 i) {
            const f32(&ramp)[4] = given.ramps[i];
            if (ramp[3] > 0.5f) put_ramp(world, hulls, i, ramp[0], ramp[1], ramp[2]);
        });
        return;
    }
    Random random = world.random(0);  // for all lanes the same
    const u32 first = ground.count;
    u32 placed = 0;
    for (i32 i = 0; i < world.parameters.ramps; ++i) {
        const f32 half_x = Constants::ramp_width / 2.0f, half_y = Constants::ramp_length / 2.0f;
        placed += take_place(ground, tally, random, warp, half_x, half_y);
    }
    warp.for_each(placed, [&](u32 i) {
        const Plot plot = plot_at(ground, first + i);
        put_ramp(world, hulls, i, plot.x, plot.y, yaw_of(plot));
    });
}

TBS_SYSTEM void place_agents(World &world, Given &given, Ground &ground, Tally &tally, Warp &warp) {
    Random random = world.random(0);  // for all lanes the same
    const Rows<physics::Pose> poses = world.rows<Agent, physics::Pose>();
    const f32 half = Constants::agent;
    const bool is_given = given.given;
    for (u32 i = 0; i < poses.count; ++i) {
        f32 x = given.agents[i][0], y = given.agents[i][1], yaw = given.agents[i][2];
        if (!is_given) {
            Plot plot;
            const bool found = find_place(ground, random, warp, half, half, plot);
            const bool fits = found || find_any_place(ground, random, warp, half, half, plot);
            x = plot.x, y = plot.y, yaw = yaw_of(plot);
            warp.once([&] {
                tally.left_out += found ? 0 : 1;
                if (fits) {
                    take(ground, plot);
                } else {
                    world.fail(Fault::no_room, i32(i));
                }
            });
        }
        warp.once([&] { poses[i] = physics::pose({x, y, half}, turned(yaw)); });
    }
    warp.once([&] { given.given = false; });
}

TBS_SYSTEM void dress_agents(World &world, physics::Shape &shape, physics::Mass &mass, physics::Motion &motion,
                             physics::Material &material, Team &team, const physics::Hulls &hulls, Row row) {
    shape = physics::box({Constants::agent, Constants::agent, Constants::agent});
    mass = physics::mass_of(hulls, shape, Constants::agent_mass);
    motion = physics::dynamic(physics::LOCK_TURN_X | physics::LOCK_TURN_Y);
    material = {Constants::agent_static, Constants::agent_dynamic, 0.0f};
    team.side = i32(row.index) < Constants::hiders ? HIDERS : SEEKERS;
}

TBS_SYSTEM void lay_floor(World &world) {
    for (physics::Shape &shape : world.rows<Floor, physics::Shape>()) shape = physics::plane();
    for (physics::Pose &pose : world.rows<Floor, physics::Pose>()) pose = physics::pose({0.0f, 0.0f, 0.0f});
    for (physics::Material &material : world.rows<Floor, physics::Material>()) {
        material = {Constants::floor_static, Constants::floor_dynamic, 0.0f};
    }
}
