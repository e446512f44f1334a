// A walk that is broken in one way, by the parameter `broken`: what the checks have to find.
TBS_FUNCTION bool is(const World &world, i32 broken) { return world.parameters.broken == broken; }

TBS_SYSTEM void begin(World &world, Place &place) {
    place.x = is(world, SEEDLESS) ? 0.5f : world.random().uniform(-1.0f, 1.0f);
}

TBS_SYSTEM void walk(World &world, Place &place, const Move &move, Total &total, Sheet &sheet) {
    const f32 by = is(world, DEAD) ? 0.1f : f32(move.by - 1) * 0.25f;
    place.x = clamp(place.x + by, -2.0f, 2.0f);
    if (is(world, ADDRESS)) place.x += f32((u64(&place) >> 12) & 4095) * 1e-5f;
    if (!is(world, SCRATCH)) total.steps = 0;
    total.steps += is(world, SCRATCH) ? move.by : 1;
    if (!is(world, WORKSPACE)) sheet.steps = 0;
    sheet.steps += 1;
    place.time += (total.steps & 7) + (sheet.steps & 7) - 1;
    if (is(world, FAILS) && place.x > 1.2f) world.fail(Fault::too_far, 12);
}

TBS_SYSTEM void judge(World &world, const Place &place, Reward &reward, Episode &episode) {
    const u32 limit = u32(world.parameters.max_episode_steps);
    const bool endless = is(world, ENDLESS), same = is(world, SAME_REWARD);
    episode.terminated = is(world, AT_ONCE) || (!endless && !same && abs(place.x) > 1.5f);
    episode.truncated = !endless && episode.step >= limit;
    reward.value = is(world, NO_REWARD) ? 0.0f : same ? 1.0f : place.x;
}

TBS_SYSTEM void look(World &world, const Place &place, const Looks &looks, View &view, Legal &legal) {
    view.values[0] = is(world, BOUNDS) ? place.x : is(world, NOT_A_NUMBER) ? sqrt(1.0f - place.x) : place.x * 0.5f;
    if (!is(world, HOLES) || (world.step() & 1) == 0) view.values[1] = f32(place.time & 15) / 16.0f;
    if (is(world, LOOKING)) view.values[1] = f32(looks.count & 15) / 16.0f;
    if (is(world, STILL)) view.values[0] = view.values[1] = 0.25f;
    for (i32 i = 0; i < 3; ++i) legal.choices[i] = !is(world, ILLEGAL) || place.x < 1.0f;
}

TBS_SYSTEM void count_looks(World &world, Looks &looks) {
    looks.count = is(world, LOOKING) ? looks.count + 1 : 0;
}
