// The force to the right, in N: one of two pushes, or a share of the greatest force.
TBS_FUNCTION f32 force_of(i32 direction, f32 greatest) { return direction == 1 ? greatest : -greatest; }
TBS_FUNCTION f32 force_of(const f32 (&share)[1], f32 greatest) { return clamp(share[0], -1.0f, 1.0f) * greatest; }

// One step of the physics, by explicit Euler. Equations (23) and (24) of Florian (2005).
TBS_SYSTEM void push_cart(World &world, CartState &cart, const Push &push) {
    const Parameters &p = world.parameters;
    const f32 inverse_mass = 1.0f / (p.masscart + p.masspole);  // one division for all worlds
    const f32 pole_moment = p.masspole * p.length;
    const f32 force = force_of(push.direction, p.force_mag);
    f32 sin_theta, cos_theta;
    sincos(cart.theta, sin_theta, cos_theta);

    const f32 swing = (force + pole_moment * (cart.theta_dot * cart.theta_dot) * sin_theta) * inverse_mass;
    const f32 theta_acceleration = (p.gravity * sin_theta - cos_theta * swing) /
                                   (p.length * (4.0f / 3.0f - p.masspole * (cos_theta * cos_theta) * inverse_mass));
    const f32 x_acceleration = swing - pole_moment * theta_acceleration * cos_theta * inverse_mass;

    cart.x += p.tau * cart.x_dot;
    cart.x_dot += p.tau * x_acceleration;
    cart.theta += p.tau * cart.theta_dot;
    cart.theta_dot += p.tau * theta_acceleration;
}

TBS_SYSTEM void judge(World &world, const CartState &cart, Reward &reward, Episode &episode) {
    const Parameters &p = world.parameters;
    const bool fell = (abs(cart.x) > p.x_threshold) | (abs(cart.theta) > p.theta_threshold_radians);
    episode.terminated = fell;
    episode.truncated = episode.step >= u32(p.max_episode_steps);
    reward.value = p.sutton_barto_reward ? (fell ? -1.0f : 0.0f) : 1.0f;
}

TBS_SYSTEM void start_episode(World &world, CartState &cart) {
    Random &random = world.random();
    cart.x = random.uniform(-0.05f, 0.05f);
    cart.x_dot = random.uniform(-0.05f, 0.05f);
    cart.theta = random.uniform(-0.05f, 0.05f);
    cart.theta_dot = random.uniform(-0.05f, 0.05f);
}
