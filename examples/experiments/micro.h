// `work` small steps of semi-implicit Euler. Over the rows g++ vectorises this only because `work` is a constant.
TBS_SYSTEM void swing(World &world, Pendulum &pendulum, const Push &push) {
    constexpr f32 dt = 0.05f / f32(Constants::work);
    const f32 torque = 0.5f * f32(push.direction - 1);
    f32 angle = pendulum.angle, speed = pendulum.speed;
    for (i32 i = 0; i < Constants::work; ++i) {
        speed += dt * (sin(angle) + torque - 0.1f * speed);
        angle += dt * speed;
    }
    pendulum = Pendulum{angle, speed};
}

TBS_SYSTEM void judge(World &world, const Pendulum &pendulum, Reward &reward) { reward.value = cos(pendulum.angle); }

TBS_SYSTEM void end_episode(World &world, Episode &episode) {
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void hang(World &world, Pendulum &pendulum) {
    Random &random = world.random();
    pendulum.angle = pi + random.uniform(-0.5f, 0.5f);
}

TBS_SYSTEM void look(World &world, const Pendulum &pendulum, View &view) {
    sincos(pendulum.angle, view.sine, view.cosine);
    view.speed = pendulum.speed;
}
