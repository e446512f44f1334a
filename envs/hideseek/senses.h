// The senses of agents. See env.py.
#pragma once

// The number of the other agent in place j of agent i's rows, which leave out i.
TBS_FUNCTION u32 other(u32 i, u32 j) { return j < i ? j : j + 1; }

// Lidar, and sight: in the cone ahead, with nothing before the centre. Missing things are out of sight.
TBS_SYSTEM void look_around(World &world, const rays::Scene &scene, Warp &warp) {
    // A scene has agents, boxes, ramps, in the order of rows.
    const Rows<const physics::Pose> agents = world.rows<Agent, const physics::Pose>();
    const Rows<const physics::Pose> boxes = world.rows<Box, const physics::Pose>();
    const Rows<const physics::Pose> ramps = world.rows<Ramp, const physics::Pose>();
    const Rows<Sight> sights = world.rows<Agent, Sight>();
    const Rows<Lidar> lidars = world.rows<Agent, Lidar>();
    const u32 others = agents.count - 1, things = others + boxes.count, all = things + ramps.count;
    const auto place = [&](u32 agent, u32 i) {
        return i < others ? agents[other(agent, i)].position
                          : i < things ? boxes[i - others].position : ramps[i - things].position;
    };
    warp.for_each(agents.count * u32(Constants::box_rows), [&](u32 i) {
        const u32 row = i % u32(Constants::box_rows);
        if (row >= boxes.count) sights[i / u32(Constants::box_rows)].boxes[row] = false;
    });
    warp.for_each(agents.count * u32(Constants::ramp_rows), [&](u32 i) {
        const u32 row = i % u32(Constants::ramp_rows);
        if (row >= ramps.count) sights[i / u32(Constants::ramp_rows)].ramps[row] = false;
    });
    rays::look<rays::Nearest>(
        scene, warp, agents.count, u32(Constants::beams),
        [&](u32 agent) {
            const physics::Pose &pose = agents[agent];
            return rays::Fan{.origin = pose.position, .rotation = pose.rotation, .reach = Constants::lidar_range,
                             .ignored = i32(agent)};
        },
        [&](u32 agent, u32 i, const rays::Nearest &hit) {
            lidars[agent].distance[i] = divide(hit.distance, Constants::lidar_range);
        },
        all,
        [&](u32 agent, u32 i) {
            const i32 body = i < others ? i32(other(agent, i)) : i32(i) + 1;
            return rays::Sight{agents[agent].position, place(agent, i), i32(agent), body};
        },
        [&](u32 agent, u32 i, bool clear) {
            const vec3 way = place(agent, i) - agents[agent].position;
            const vec3 forward = rotate(vec3{0.0f, 1.0f, 0.0f}, agents[agent].rotation);
            const bool seen = clear && dot(way, forward) >= Constants::cone * length(way);
            if (i < others) {
                sights[agent].agents[i] = seen;
            } else if (i < things) {
                sights[agent].boxes[i - others] = seen;
            } else {
                sights[agent].ramps[i - things] = seen;
            }
        });
}

// An agent's view of something else: place, speed and rotation, in its own frame.
struct Eye {
    vec3 position;
    quat back;  // from the world's frame to its own

    TBS_METHOD vec3 place(vec3 there) const { return rotate(there - position, back); }
    TBS_METHOD vec3 speed(vec3 velocity) const { return rotate(velocity, back); }
};

TBS_FUNCTION void put(f32 *to, vec3 value) { to[0] = value.x, to[1] = value.y, to[2] = value.z; }

// Sine and cosine of the turn about the vertical: the direction of the x axis, seen from above.
TBS_FUNCTION void put_yaw(f32 *to, quat rotation) {
    const vec3 x = rotate(vec3{1.0f, 0.0f, 0.0f}, rotation);
    const f32 size = sqrt(fma(x.x, x.x, x.y * x.y));
    to[0] = size > 1e-6f ? divide(x.y, size) : 0.0f;
    to[1] = size > 1e-6f ? divide(x.x, size) : 1.0f;
}

// Position, velocity and yaw, relative to an eye: eight numbers.
TBS_FUNCTION void put_body(f32 *to, const Eye &eye, const physics::Pose &pose, const Travel &travel) {
    put(to, eye.place(pose.position));
    put(to + 3, eye.speed(travel.velocity));
    put_yaw(to + 6, eye.back * pose.rotation);
}
// Whether it is locked, by the own team, held.
TBS_FUNCTION void put_state(f32 *to, const Thing &thing, const Team &team) {
    to[0] = thing.locked != NOBODY ? 1.0f : 0.0f;
    to[1] = thing.locked == team.side ? 1.0f : 0.0f;
    to[2] = thing.holder > 0 ? 1.0f : 0.0f;
}

template <u32 width>
TBS_FUNCTION void clear(f32 *to) {
    for (u32 k = 0; k < width; ++k) to[k] = 0.0f;
}

inline constexpr u32 self_width = 12, agent_width = 10, box_width = 14, ramp_width = 11;

TBS_FUNCTION void describe_self(World &world, f32 *to, const physics::Pose &pose, const Travel &travel,
                                const Team &team, const physics::Joint &grip) {
    const f32 total = f32(world.parameters.max_episode_steps), first = f32(world.parameters.preparation_steps);
    const f32 step = f32(world.step());
    put(to, pose.position * divide(1.0f, Constants::half_size));
    put(to + 3, rotate(travel.velocity, conjugate(pose.rotation)));
    put_yaw(to + 6, pose.rotation);
    to[8] = f32(team.side == SEEKERS);
    to[9] = f32(is_holding(grip));
    to[10] = max(divide(total - step, total), 0.0f);
    to[11] = first > 0.0f ? max(divide(first - step, first), 0.0f) : 0.0f;
}

// A row of another agent, a box, a ramp.
TBS_FUNCTION void describe_agent(World &world, f32 *to, const Eye &eye, u32 i) {
    const Rows<const physics::Joint> grips = world.rows<Agent, const physics::Joint>();
    put_body(to, eye, world.rows<Agent, const physics::Pose>()[i], world.rows<Agent, const Travel>()[i]);
    to[8] = f32(world.rows<Agent, const Team>()[i].side == SEEKERS);
    to[9] = f32(is_holding(grips[i]));
}
TBS_FUNCTION void describe_box(World &world, f32 *to, const Eye &eye, const Team &team, u32 i) {
    put_body(to, eye, world.rows<Box, const physics::Pose>()[i], world.rows<Box, const Travel>()[i]);
    put(to + 8, 2.0f * world.rows<Box, const physics::Shape>()[i].size);
    put_state(to + 11, world.rows<Box, const Thing>()[i], team);
}
TBS_FUNCTION void describe_ramp(World &world, f32 *to, const Eye &eye, const Team &team, u32 i) {
    put_body(to, eye, world.rows<Ramp, const physics::Pose>()[i], world.rows<Ramp, const Travel>()[i]);
    put_state(to + 8, world.rows<Ramp, const Thing>()[i], team);
}

// The places of the parts of an observation, row after row.
struct Views {
    f32 *agents, *boxes, *ramps, *sees_agents, *sees_boxes, *sees_ramps, *box_exists, *ramp_exists;
};

// All rows. Missing ones are zero, and those out of sight unless `all` are shown.
TBS_FUNCTION void describe_others(World &world, const Views &out, const Eye &eye, const Team &team, const Sight &sight,
                                  u32 own, bool all) {
    for (u32 j = 0; j < u32(Constants::agents - 1); ++j) {
        f32 *const to = out.agents + j * agent_width;
        if (all || sight.agents[j]) {
            describe_agent(world, to, eye, other(own, j));
        } else {
            clear<agent_width>(to);
        }
    }
    const u32 boxes = world.count<Box>(), ramps = world.count<Ramp>();
    for (u32 i = 0; i < u32(Constants::box_rows); ++i) {
        f32 *const to = out.boxes + i * box_width;
        if (i < boxes && (all || sight.boxes[i])) {
            describe_box(world, to, eye, team, i);
        } else {
            clear<box_width>(to);
        }
    }
    for (u32 i = 0; i < u32(Constants::ramp_rows); ++i) {
        f32 *const to = out.ramps + i * ramp_width;
        if (i < ramps && (all || sight.ramps[i])) {
            describe_ramp(world, to, eye, team, i);
        } else {
            clear<ramp_width>(to);
        }
    }
}

TBS_FUNCTION Eye eye_of(const physics::Pose &pose) { return {pose.position, conjugate(pose.rotation)}; }

TBS_FUNCTION void describe_masks(World &world, const Views &out, const Sight &sight) {
    for (u32 i = 0; i < u32(Constants::agents - 1); ++i) out.sees_agents[i] = f32(sight.agents[i]);
    for (u32 i = 0; i < u32(Constants::box_rows); ++i) {
        out.sees_boxes[i] = f32(sight.boxes[i]);
        out.box_exists[i] = f32(i < world.count<Box>());
    }
    for (u32 i = 0; i < u32(Constants::ramp_rows); ++i) {
        out.sees_ramps[i] = f32(sight.ramps[i]);
        out.ramp_exists[i] = f32(i < world.count<Ramp>());
    }
}

TBS_SYSTEM void tell_team(World &, const Team &team, TeamNumber &number) { number.number = team.side == SEEKERS ? 1 : 0; }
