// A new episode makes a terrain of 1,024 heights, each from many draws: what a generator of levels takes.
TBS_SYSTEM void raise(World &world, Ground &ground, Place &place) {
    Random &random = world.random();
    for (i32 i = 0; i < 1024; ++i) {
        f32 height = 0.0f;
        for (i32 k = 0; k < world.parameters.detail; ++k) height += random.uniform(-1.0f, 1.0f);
        ground.heights[i] = height;
    }
    place.cell = random.below(1024);
}

TBS_SYSTEM void walk(World &world, const Ground &ground, Place &place, const Move &move, Reward &reward) {
    const f32 before = ground.heights[place.cell];
    place.cell = (place.cell + u32(move.to) + 1023) % 1024;
    reward.value = ground.heights[place.cell] - before;
}

TBS_SYSTEM void look(World &world, const Ground &ground, const Place &place, View &view) {
    f32 sum = 0.0f;
    for (i32 pass = 0; pass < world.parameters.sight; ++pass)
        for (u32 i = 0; i < 1024; ++i) sum = 0.5f * sum + ground.heights[(place.cell + i) % 1024];
    view.around = sum;
}

TBS_SYSTEM void fall(World &world, Episode &episode) {
    episode.terminated = world.random().chance(1.0f / world.parameters.steps);
}
