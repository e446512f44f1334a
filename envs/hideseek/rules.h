// The acts of agents in a step, and their rewards. See env.py.
#pragma once

TBS_FUNCTION bool is_preparing(World &world) { return i32(world.step()) <= world.parameters.preparation_steps; }

// Seekers do nothing while the hiders prepare.
TBS_FUNCTION bool may_act(World &world, const Team &team) { return team.side == HIDERS || !is_preparing(world); }

TBS_SYSTEM void push(World &world, const Act &act, const Team &team, const physics::Pose &pose, physics::Force &force) {
    const f32 unit = may_act(world, team) ? world.parameters.force : 0.0f;
    const f32 turn = may_act(world, team) ? world.parameters.torque : 0.0f;
    force.force = rotate(vec3{unit * f32(act.choice[0] - 5), unit * f32(act.choice[1] - 5), 0.0f}, pose.rotation);
    force.torque = {0.0f, 0.0f, turn * f32(act.choice[2] - 5)};
}

TBS_FUNCTION bool is_holding(const physics::Joint &grip) { return bool(grip.b); }

// The thing that an agent's hand reaches: the first ahead, half a metre above its centre; an empty entity unless it is
// a box or ramp.
TBS_FUNCTION Entity ahead(World &world, const rays::Scene &scene, const physics::Pose &pose, u32 agent) {
    const vec3 eye = pose.position + vec3{0.0f, 0.0f, Constants::hand_height};
    const vec3 forward = rotate(vec3{0.0f, 1.0f, 0.0f}, pose.rotation);
    const i32 own = rays::body_of(scene, world.entity<Agent>(agent));
    const Entity met = rays::entity_of(scene, rays::cast(scene, eye, forward, world.parameters.reach, ~0u, own).body);
    return world.find<const Thing>(met) != nullptr ? met : Entity{};
}

TBS_FUNCTION void let_go(World &world, physics::Joint &grip) {
    if (Thing *thing = world.find<Thing>(grip.b)) thing->holder = 0;
    grip = physics::Joint{};
}

// Locks a free thing, which its holder lets go; unlocks one that the own team has locked.
TBS_FUNCTION void turn_key(World &world, Entity met, i32 side) {
    Thing *const thing = world.find<Thing>(met);
    physics::Motion *const motion = world.find<physics::Motion>(met);
    if (thing == nullptr || motion == nullptr) return;
    if (thing->locked == NOBODY) {
        if (thing->holder > 0) let_go(world, world.rows<Agent, physics::Joint>()[u32(thing->holder - 1)]);
        thing->locked = u8(side);
        *motion = physics::fixed();
        *world.find<physics::Velocity>(met) = {};
    } else if (thing->locked == side) {
        thing->locked = NOBODY;
        *motion = physics::dynamic();
    }
}

TBS_FUNCTION void grab(World &world, Entity met, u32 agent) {
    Thing *const thing = world.find<Thing>(met);
    if (thing == nullptr || thing->locked != NOBODY || thing->holder > 0) return;
    const physics::Pose *const there = world.find<const physics::Pose>(met);
    if (there == nullptr) return;
    const physics::Pose own = world.rows<Agent, const physics::Pose>()[agent];
    thing->holder = u8(agent + 1);
    world.rows<Agent, physics::Joint>()[agent] = physics::weld(world.entity<Agent>(agent), own, met, *there);
}

// Agents use their hands one after the other, so that the first of two has the thing: first the key, then the grip,
// which opens if it holds something.
TBS_SYSTEM void use_hands(World &world, const rays::Scene &scene) {
    const Rows<const Act> acts = world.rows<Agent, const Act>();
    const Rows<const Team> teams = world.rows<Agent, const Team>();
    const Rows<const physics::Pose> poses = world.rows<Agent, const physics::Pose>();
    for (u32 i = 0; i < acts.count; ++i) {
        const bool grabs = acts[i].choice[3] == 1, locks = acts[i].choice[4] == 1;
        if (!(grabs || locks) || !may_act(world, teams[i])) continue;
        physics::Joint &grip = world.rows<Agent, physics::Joint>()[i];
        const bool holds = is_holding(grip);
        const Entity met = locks || !holds ? ahead(world, scene, poses[i], i) : Entity{};
        if (locks && met) turn_key(world, met, teams[i].side);
        if (!grabs) continue;
        if (holds) {
            let_go(world, grip);
        } else if (met) {
            grab(world, met, i);
        }
    }
}

TBS_SYSTEM void mark_origin(World &, const physics::Pose &pose, Origin &origin) { origin.position = pose.position; }

// A body's motion as others see it is how far it comes in a step. The solver leaves another velocity to what pushes or
// is held, and the drag of agents takes most of theirs.
TBS_SYSTEM void measure_travel(World &world, const physics::Pose &pose, const Origin &origin, Travel &travel) {
    travel.velocity = (pose.position - origin.position) * divide(1.0f, world.parameters.physics.time);
}

// Whether an agent pulls itself up on a wall: its feet are just below the height of walls, and what it pushes against
// has stopped it.
TBS_FUNCTION bool is_climbing(World &world, const physics::Pose &pose, const physics::Force &force, const Travel &travel) {
    constexpr f32 stopped = 1.0f;  // m/s
    const f32 below = Constants::wall_height - (pose.position.z - Constants::agent), push = length(force.force);
    return below > 0.0f && below < world.parameters.climb_height && push > 0.0f &&
           dot(travel.velocity, force.force) < stopped * push;
}

// Air and feet: an agent's speed along the floor and its turning fall by a given share a second. It keeps no speed
// upwards, which on a ramp comes from how fast it runs and would throw it over walls.
TBS_SYSTEM void slow_down(World &world, const physics::Pose &pose, const physics::Force &force, const Travel &travel,
                          physics::Velocity &velocity, const Team &) {
    const f32 keep = exp(-world.parameters.drag * world.parameters.physics.time);
    const f32 rise = is_climbing(world, pose, force, travel) ? world.parameters.climb_speed
                                                             : min(velocity.linear.z, world.parameters.upward_speed);
    velocity.linear = {keep * velocity.linear.x, keep * velocity.linear.y, rise};
    velocity.angular.z *= keep;
}

// Agents that run against boxes and ramps do not throw them either.
TBS_SYSTEM void hold_down(World &world, physics::Velocity &velocity, const Thing &) {
    velocity.linear.z = min(velocity.linear.z, world.parameters.upward_speed);
}

TBS_FUNCTION bool is_outside(const physics::Pose &pose) {
    return abs(pose.position.x) >= Constants::half_size || abs(pose.position.y) >= Constants::half_size;
}

// Whether any seeker sees any hider.
TBS_FUNCTION bool is_any_seen(World &world) {
    const Rows<const Sight> sights = world.rows<Agent, const Sight>();
    for (u32 i = u32(Constants::hiders); i < sights.count; ++i) {
        for (u32 k = 0; k < u32(Constants::hiders); ++k) {
            if (sights[i].agents[k]) return true;
        }
    }
    return false;
}

TBS_SYSTEM void pay(World &world, const Team &team, const physics::Pose &pose, Reward &reward) {
    if (is_preparing(world)) return;
    const bool seekers_win = is_any_seen(world);
    reward.value = seekers_win == (team.side == SEEKERS) ? 1.0f : -1.0f;
    if (is_outside(pose)) reward.value -= world.parameters.outside_penalty;
}

TBS_SYSTEM void end_in_time(World &world, Episode &episode) {
    episode.truncated = i32(episode.step) >= world.parameters.max_episode_steps;
}
