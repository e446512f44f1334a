// The ant with all angles at 0: torso at the origin, legs stretched out level. Leg i points to (side_x, side_y).
struct LegAtZero {
    vec3 hip, knee;          // of the torso's frame, metres
    vec3 ankle_axis;         // unit
    physics::Pose leg, foot;  // centres, the capsules' z axes along the leg
};

TBS_FUNCTION LegAtZero leg_at_zero(u32 i) {
    constexpr f32 side_x[4] = {1.0f, -1.0f, -1.0f, 1.0f}, side_y[4] = {1.0f, 1.0f, -1.0f, -1.0f};
    const vec3 side{side_x[i], side_y[i], 0.0f}, up{0.0f, 0.0f, 1.0f};
    const quat along = rotation_about(normalize(cross(up, side)), 0.5f * pi);
    // Legs opposite to each other bend about the same axis, so that their angles have opposite signs, as in ant.xml.
    const vec3 ankle_axis = normalize(i % 2 == 0 ? vec3{-1.0f, 1.0f, 0.0f} : vec3{1.0f, 1.0f, 0.0f});
    return {Constants::hip * side, Constants::knee * side, ankle_axis,
            physics::pose(0.5f * (Constants::hip + Constants::knee) * side, along),
            physics::pose(0.5f * (Constants::knee + Constants::toe) * side, along)};
}

// 1 where a positive angle of the ankle bends the foot down, else -1.
TBS_FUNCTION f32 bend_of(u32 i) { return i == 0 || i == 3 ? 1.0f : -1.0f; }

// A body turned about an axis through a point: what a hinge at this angle does to all behind it.
TBS_FUNCTION physics::Pose turned(const physics::Pose &pose, vec3 anchor, vec3 axis, f32 angle) {
    const quat turn = rotation_about(axis, angle);
    return {anchor + rotate(pose.position - anchor, turn), turn * pose.rotation};
}

// The velocity of a body that hangs on another one by a hinge.
TBS_FUNCTION physics::Velocity carried(const physics::Velocity &by, vec3 by_position, vec3 anchor, vec3 axis, f32 rate,
                                       vec3 position) {
    const vec3 angular = by.angular + rate * axis;
    return {by.linear + cross(by.angular, anchor - by_position) + cross(angular, position - anchor), angular};
}

// Hinges and shapes are made at 0, then all is put where the noise has it.
TBS_SYSTEM void stand(World &world, physics::Pose &torso, physics::Velocity &velocity, physics::Shape &shape,
                      physics::Mass &mass, physics::Motion &motion, physics::Filter &filter, Facts &facts, Entity self,
                      const physics::Hulls &hulls) {
    const Parameters &p = world.parameters;
    Random &random = world.random();
    const auto uniform = [&] { return random.uniform(-p.reset_noise_scale, p.reset_noise_scale); };
    const auto normal = [&] { return p.reset_noise_scale * random.normal(); };
    const auto noise = [&](auto draw) {
        const f32 x = draw(), y = draw(), z = draw();
        return vec3{x, y, z};
    };
    shape = physics::sphere(Constants::torso_radius);
    mass = physics::mass_of_density(hulls, shape, p.density);
    motion = physics::dynamic();
    filter = physics::Filter{Constants::ant_group, Constants::ground_group};
    const physics::Pose zero = physics::world_pose();
    torso.position = vec3{0.0f, 0.0f, p.start_height} + noise(uniform);
    const f32 w = 1.0f + uniform();
    const vec3 tilt = noise(uniform);
    torso.rotation = normalize(quat{w, tilt.x, tilt.y, tilt.z});
    velocity.linear = noise(normal);
    velocity.angular = rotate(noise(normal), torso.rotation);

    const Rows<physics::Pose> legs = world.rows<Leg, physics::Pose>(), feet = world.rows<Foot, physics::Pose>();
    const Rows<physics::Joint> hips = world.rows<Leg, physics::Joint>(), ankles = world.rows<Foot, physics::Joint>();
    f32 lowest = torso.position.z - Constants::torso_radius;
    for (u32 i = 0; i < 4; ++i) {
        const LegAtZero at = leg_at_zero(i);
        const vec3 up{0.0f, 0.0f, 1.0f};
        const Entity leg = world.entity<Leg>(i), foot = world.entity<Foot>(i);
        physics::Joint hip = physics::hinge(self, zero, leg, at.leg, at.hip, up);
        physics::Joint ankle = physics::hinge(leg, at.leg, foot, at.foot, at.knee, at.ankle_axis);
        const f32 bend = bend_of(i), one = bend * p.ankle_lower, other = bend * p.ankle_upper;
        hip.lower = -p.hip_range, hip.upper = p.hip_range;
        ankle.lower = min(one, other), ankle.upper = max(one, other);
        hip.limited = ankle.limited = 1;
        hip.damping = ankle.damping = p.damping;
        hip.armature = ankle.armature = p.armature;
        hip.angle = clamp(uniform(), hip.lower, hip.upper);
        ankle.angle = clamp(bend * p.start_bend + uniform(), ankle.lower, ankle.upper);
        hip.rate = normal();
        ankle.rate = normal();

        // Outwards: foot about the ankle, both about the hip, all with the torso.
        const auto placed = [&](physics::Pose pose) {
            pose = turned(pose, at.hip, up, hip.angle);
            const vec3 place = torso.position + rotate(pose.position, torso.rotation);
            return physics::Pose{place, torso.rotation * pose.rotation};
        };
        legs[i] = placed(at.leg);
        feet[i] = placed(turned(at.foot, at.knee, at.ankle_axis, ankle.angle));
        const vec3 hip_place = torso.position + rotate(at.hip, torso.rotation);
        const vec3 hip_axis = rotate(up, torso.rotation);
        const physics::Pose knee = placed(physics::pose(at.knee));
        const vec3 ankle_axis = rotate(at.ankle_axis, knee.rotation);
        physics::Velocity &of_leg = world.rows<Leg, physics::Velocity>()[i];
        of_leg = carried(velocity, torso.position, hip_place, hip_axis, hip.rate, legs[i].position);
        world.rows<Foot, physics::Velocity>()[i] =
            carried(of_leg, legs[i].position, knee.position, ankle_axis, ankle.rate, feet[i].position);
        const f32 half = 0.5f * (Constants::toe - Constants::knee) * sqrt(2.0f);
        const vec3 toe = feet[i].position + rotate(vec3{0.0f, 0.0f, half}, feet[i].rotation);
        lowest = min(lowest, toe.z - Constants::leg_radius);
        hips[i] = hip;
        ankles[i] = ankle;
    }
    // Nothing begins in the ground.
    const f32 lift = max(0.0f, -lowest);
    torso.position.z += lift;
    for (u32 i = 0; i < 4; ++i) legs[i].position.z += lift, feet[i].position.z += lift;
    facts.x_position = torso.position.x;
    facts.y_position = torso.position.y;
    facts.distance_from_origin = length(vec2{torso.position.x, torso.position.y});
}

TBS_SYSTEM void dress(World &world, const physics::Hulls &hulls) {
    for (u32 i = 0; i < 4; ++i) {
        const physics::Shape leg = physics::capsule(Constants::leg_radius,
                                                    0.5f * (Constants::knee - Constants::hip) * sqrt(2.0f));
        const physics::Shape foot = physics::capsule(Constants::leg_radius,
                                                     0.5f * (Constants::toe - Constants::knee) * sqrt(2.0f));
        world.rows<Leg, physics::Shape>()[i] = leg;
        world.rows<Foot, physics::Shape>()[i] = foot;
        world.rows<Leg, physics::Mass>()[i] = physics::mass_of_density(hulls, leg, world.parameters.density);
        world.rows<Foot, physics::Mass>()[i] = physics::mass_of_density(hulls, foot, world.parameters.density);
        world.rows<Leg, physics::Motion>()[i] = world.rows<Foot, physics::Motion>()[i] = physics::dynamic();
        const physics::Filter filter{Constants::ant_group, Constants::ground_group};
        world.rows<Leg, physics::Filter>()[i] = world.rows<Foot, physics::Filter>()[i] = filter;
    }
    world.rows<Ground, physics::Pose>()[0] = physics::world_pose();
    world.rows<Ground, physics::Shape>()[0] = physics::plane();
    world.rows<Ground, physics::Filter>()[0] = physics::Filter{Constants::ground_group, Constants::ant_group};
}

// The number of a hinge among the actions, which are in the order of Gymnasium's motors: leg 4 first.
TBS_FUNCTION u32 motor_of(u32 leg, u32 joint) { return 2 * ((leg + 1) % 4) + joint; }

TBS_SYSTEM void drive(World &world, const physics::Pose &torso, const Torques &torques, Before &before) {
    before.position = torso.position;
    for (u32 i = 0; i < 4; ++i) {
        world.rows<Leg, physics::Joint>()[i].torque = world.parameters.gear * torques.share[motor_of(i, 0)];
        world.rows<Foot, physics::Joint>()[i].torque = world.parameters.gear * torques.share[motor_of(i, 1)];
    }
}

TBS_FUNCTION bool is_finite(vec3 v) { return isfinite(v.x) && isfinite(v.y) && isfinite(v.z); }

TBS_SYSTEM void judge(World &world, const physics::Pose &torso, const physics::Velocity &velocity,
                      const Torques &torques, const Before &before, Facts &facts, Reward &reward, Episode &episode) {
    const Parameters &p = world.parameters;
    const vec3 at = torso.position;
    bool healthy = is_finite(at) && is_finite(velocity.linear) && is_finite(velocity.angular) &&
                   at.z >= p.healthy_z_low && at.z <= p.healthy_z_high;
    for (u32 i = 0; i < 4; ++i) {
        const physics::Joint &hip = world.rows<Leg, const physics::Joint>()[i];
        const physics::Joint &ankle = world.rows<Foot, const physics::Joint>()[i];
        healthy = healthy && isfinite(hip.angle) && isfinite(hip.rate) && isfinite(ankle.angle) && isfinite(ankle.rate);
    }
    f32 effort = 0.0f;
    for (u32 i = 0; i < 8; ++i) effort += torques.share[i] * torques.share[i];
    facts.x_position = at.x;
    facts.y_position = at.y;
    facts.distance_from_origin = length(vec2{at.x, at.y});
    facts.x_velocity = (at.x - before.position.x) / p.physics.time;
    facts.y_velocity = (at.y - before.position.y) / p.physics.time;
    facts.reward_forward = p.forward_reward_weight * facts.x_velocity;
    facts.reward_survive = healthy ? p.healthy_reward : 0.0f;
    facts.reward_ctrl = -p.ctrl_cost_weight * effort;
    facts.reward_contact = -p.contact_cost_weight * contact_effort(world);
    reward.value = facts.reward_forward + facts.reward_survive + facts.reward_ctrl + facts.reward_contact;
    episode.terminated = p.terminate_when_unhealthy && !healthy;
    episode.truncated = episode.step >= u32(p.max_episode_steps);
}

TBS_SYSTEM void look(World &world, const physics::Pose &torso, const physics::Velocity &velocity, View &view) {
    const vec3 turning = rotate(velocity.angular, conjugate(torso.rotation));  // in the torso's frame, as MuJoCo has it
    const f32 body[5] = {torso.position.z, torso.rotation.w, torso.rotation.x, torso.rotation.y, torso.rotation.z};
    const f32 motion[6] = {velocity.linear.x, velocity.linear.y, velocity.linear.z, turning.x, turning.y, turning.z};
    for (u32 i = 0; i < 5; ++i) view.values[i] = body[i];
    for (u32 i = 0; i < 6; ++i) view.values[13 + i] = motion[i];
    for (u32 i = 0; i < 4; ++i) {
        const physics::Joint &hip = world.rows<Leg, const physics::Joint>()[i];
        const physics::Joint &ankle = world.rows<Foot, const physics::Joint>()[i];
        view.values[5 + 2 * i] = hip.angle;
        view.values[6 + 2 * i] = ankle.angle;
        view.values[19 + 2 * i] = hip.rate;
        view.values[20 + 2 * i] = ankle.rate;
    }
    show_contacts(world, view.values);
}
