TBS_SYSTEM void start_drift(World &world, Body &body) {
    Random &random = world.random();
    for (u32 draws = 0; draws < 1 + world.id % 7; ++draws) body.position.x = random.normal();
    body.position.y = sin(f32(world.id)) + exp(random.uniform());
}

TBS_SYSTEM void drift(World &world, Body &body, Trail &trail, const Thrust &thrust, Reward &reward, Episode &episode) {
    const vec3 before = body.position;
    body.position = body.position + thrust.force;
    body.position.z += world.random().normal() * 0.01f;
    trail.flips += before.x * body.position.x < 0.0f ? 1 : 0;
    trail.length += f64(length(body.position - before));
    trail.last = body.position.x;
    if (isnan(body.position.x)) world.fail(Fault::nan);
    reward.value = -length(body.position);
    episode.terminated = body.position.x > 4.0f;
    episode.truncated = world.step() >= u32(world.parameters.max_episode_steps);
}
