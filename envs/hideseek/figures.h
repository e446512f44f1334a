// Figures of an episode, which show the phases of emergent play. See env.py.
#pragma once

// The floor as cells in which the middle of an agent may be: a bit each, with a ring of them outside of the square.
inline constexpr u32 cells = 62;
inline constexpr f32 cells_begin = -(Constants::half_size + 2.25f), cell_size = -2.0f * cells_begin / f32(cells);

// Rows of cells; `next` is for passes of lanes.
struct Chart {
    u64 free[cells], reached[cells], next[cells];
};

TBS_FUNCTION i32 cell_of(f32 at) {
    return clamp(to_i32(floor(divide(at - cells_begin, cell_size))), 0, i32(cells) - 1);
}

// Removes the cells in which an agent would overlap a standing body, with some slack: each lane those of a row.
TBS_CALLED void block(Chart &chart, const physics::Pose &pose, vec3 half, Warp &warp) {
    const vec3 x = rotate(vec3{1.0f, 0.0f, 0.0f}, pose.rotation);
    const f32 room = 0.9f * Constants::agent, reach = abs(half.x) + abs(half.y) + 2.0f * room;
    const i32 first_x = cell_of(pose.position.x - reach), last_x = cell_of(pose.position.x + reach);
    const i32 first_y = cell_of(pose.position.y - reach), last_y = cell_of(pose.position.y + reach);
    warp.for_each(u32(last_y - first_y) + 1, [&](u32 row) {
        const i32 j = first_y + i32(row);
        u64 blocked = 0;
        for (i32 i = first_x; i <= last_x; ++i) {
            const f32 dx = fma(f32(i) + 0.5f, cell_size, cells_begin) - pose.position.x;
            const f32 dy = fma(f32(j) + 0.5f, cell_size, cells_begin) - pose.position.y;
            const f32 along = abs(fma(dx, x.x, dy * x.y)), aside = abs(fma(dy, x.x, -(dx * x.y)));
            if (along < half.x + room && aside < half.y + room) blocked |= u64(1) << i;
        }
        chart.free[j] &= ~blocked;
    });
}

// Row j with what is reached beside it.
TBS_FUNCTION u64 spread_row(const Chart &chart, const u64 (&reached)[cells], u32 j) {
    const u64 row = reached[j], below = j > 0 ? reached[j - 1] : 0, above = j + 1 < cells ? reached[j + 1] : 0;
    return (row | row << 1 | row >> 1 | below | above) & chart.free[j];
}

// Until nothing more is reached: one thread row after row, so that a pass goes far; lanes each two rows, all at once,
// from one array to the other. Both end with the same cells.
TBS_CALLED void spread(Chart &chart, Warp &warp) {
    if constexpr (Warp::group_threads == 1) {
        for (bool more = true; more;) {
            more = false;
            for (u32 j = 0; j < cells; ++j) {
                const u64 next = spread_row(chart, chart.reached, j);
                more = more || next != chart.reached[j];
                chart.reached[j] = next;
            }
        }
    } else {
        static_assert(cells % 2 == 0 && cells < 64);
        const auto pass = [&](const u64(&from)[cells], u64(&to)[cells]) {
            return warp.ballot(cells / 2, [&](u32 i) {
                const u64 first = spread_row(chart, from, 2 * i), second = spread_row(chart, from, 2 * i + 1);
                to[2 * i] = first, to[2 * i + 1] = second;
                return first != from[2 * i] || second != from[2 * i + 1];
            });
        };
        for (bool more = true; more;) {
            pass(chart.reached, chart.next);
            more = pass(chart.next, chart.reached) != 0;
        }
    }
}

// Whether no seeker can walk to an agent, past walls and locked things.
TBS_FUNCTION bool is_enclosed(const Chart &chart, const physics::Pose &agent) {
    const u32 x = u32(cell_of(agent.position.x)), y = u32(cell_of(agent.position.y));
    u64 near = 0;  // the agent's cell may be blocked: then those around it
    for (u32 j = y > 0 ? y - 1 : 0; j <= min(y + 1, cells - 1); ++j) near |= chart.reached[j];
    return ((chart.free[y] >> x & 1) != 0 ? chart.reached[y] & u64(1) << x : near & (u64(7) << x) >> 1) == 0;
}

// After the last step: the share of hiders that are enclosed.
TBS_SYSTEM void find_forts(World &world, Tally &tally, Warp &warp) {
    if (i32(world.step()) != world.parameters.max_episode_steps) return;
    Chart &chart = warp.shared<Chart>();
    warp.for_each(cells, [&](u32 j) { chart.free[j] = (u64(1) << cells) - 1, chart.reached[j] = 0; });
    const Rows<const physics::Pose> walls = world.rows<Wall, const physics::Pose>();
    const Rows<const physics::Shape> wall_shapes = world.rows<Wall, const physics::Shape>();
    for (u32 i = 0; i < walls.count; ++i) block(chart, walls[i], wall_shapes[i].size, warp);
    const Rows<const physics::Pose> boxes = world.rows<Box, const physics::Pose>();
    const Rows<const physics::Shape> box_shapes = world.rows<Box, const physics::Shape>();
    const Rows<const Thing> box_things = world.rows<Box, const Thing>();
    for (u32 i = 0; i < boxes.count; ++i) {
        if (box_things[i].locked != NOBODY) block(chart, boxes[i], box_shapes[i].size, warp);
    }
    const Rows<const physics::Pose> ramps = world.rows<Ramp, const physics::Pose>();
    const Rows<const Thing> ramp_things = world.rows<Ramp, const Thing>();
    const vec3 ramp{0.5f * Constants::ramp_width, 0.5f * Constants::ramp_length, 0.5f * Constants::ramp_height};
    for (u32 i = 0; i < ramps.count; ++i) {
        if (ramp_things[i].locked == NOBODY) continue;
        const vec3 off{0.0f, Constants::ramp_length / 6.0f, 0.0f};  // from the middle of its rectangle to its centroid
        block(chart, {ramps[i].position - rotate(off, ramps[i].rotation), ramps[i].rotation}, ramp, warp);
    }
    const Rows<const physics::Pose> agents = world.rows<Agent, const physics::Pose>();
    warp.once([&] {
        for (u32 i = u32(Constants::hiders); i < agents.count; ++i) {
            const u32 x = u32(cell_of(agents[i].position.x)), y = u32(cell_of(agents[i].position.y));
            chart.free[y] |= u64(1) << x;
            chart.reached[y] |= u64(1) << x;
        }
    });
    spread(chart, warp);
    const u32 enclosed = warp.count(u32(Constants::hiders), [&](u32 i) { return is_enclosed(chart, agents[i]); });
    warp.once([&] { tally.forts = divide(f32(enclosed), f32(Constants::hiders)); });
}

TBS_FUNCTION bool has_moved(const Thing &thing, const physics::Pose &pose) {
    const f32 x = pose.position.x - thing.start[0], y = pose.position.y - thing.start[1];
    return fma(x, x, y * y) > 1.0f;
}

TBS_SYSTEM void keep_tally(World &world, Tally &tally) {
    f32 moved = 0.0f, locked = 0.0f, by_hiders = 0.0f;
    const Rows<const Thing> boxes = world.rows<Box, const Thing>(), ramps = world.rows<Ramp, const Thing>();
    const Rows<const physics::Pose> box_poses = world.rows<Box, const physics::Pose>();
    for (u32 i = 0; i < boxes.count; ++i) {
        moved += f32(has_moved(boxes[i], box_poses[i]));
        locked += f32(boxes[i].locked != NOBODY);
    }
    for (u32 i = 0; i < ramps.count; ++i) by_hiders += f32(ramps[i].locked == HIDERS);
    tally.boxes_moved = moved;
    tally.boxes_locked = locked;
    tally.ramps_locked = by_hiders;
    const Rows<const physics::Pose> agents = world.rows<Agent, const physics::Pose>();
    for (u32 i = u32(Constants::hiders); i < agents.count; ++i) {
        tally.climbs += agents[i].position.z > Constants::agent + 0.5f ? 1 : 0;
    }
    if (!is_preparing(world)) tally.seen += is_any_seen(world) ? 1 : 0;
}

TBS_SYSTEM void report(World &world, const Tally &tally, BoxesMoved &moved, BoxesLocked &locked, RampsLocked &ramps, RampsUsed &used,
                       HidersSeen &seen, Forts &forts, LeftOut &left_out, Preparing &preparing) {
    const i32 judged = i32(world.step()) - world.parameters.preparation_steps;
    moved.count = tally.boxes_moved;
    locked.count = tally.boxes_locked;
    ramps.count = tally.ramps_locked;
    used.steps = f32(tally.climbs);
    seen.share = judged > 0 ? divide(f32(tally.seen), f32(judged)) : 0.0f;
    forts.share = tally.forts;
    left_out.count = f32(tally.left_out);
    preparing.yes = i32(world.step()) < world.parameters.preparation_steps;
}
