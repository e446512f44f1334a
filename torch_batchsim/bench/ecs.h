// Particles that fly, expire and are replaced. ecs_baseline.cpp computes the same to the bit: change both or neither.

TBS_FUNCTION u32 xorshift(u32 state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ state << 5;
}

// From the world's number, and by whole numbers: drawing from world.random() would cost more than creating.
TBS_SYSTEM void prepare(World &world, Source &source) {
    source.state = (world.id + 1) * 0x9E3779B9u | 1u;
}

TBS_SYSTEM void move(World &world, Place &place, Motion &motion, Dice &dice) {
    constexpr f32 dt = 0.05f, fall = 9.81f * dt, bounce = -0.875f;
    motion.y -= fall;
    place.x += motion.x * dt;
    place.z += motion.z * dt;
    const f32 height = place.y + motion.y * dt;
    const bool below = height < 0.0f;
    place.y = below ? -height : height;
    motion.y = below ? motion.y * bounce : motion.y;
    dice.state = xorshift(dice.state);
}

TBS_SYSTEM void expire(World &world, const Dice &dice, Entity self) {
    if (dice.state < 429496730u) world.destroy(self);  // one in ten
}

// A draw for each particle; the factor parts its dice from the world's numbers.
TBS_SYSTEM void emit(World &world, Source &source) {
    u32 state = source.state;
    for (u32 missing = u32(Constants::rows) - world.count<Particle>(); missing > 0; --missing) {
        state = xorshift(state);
        const f32 across = f32(i32(state)) * 0x1p-31f;
        const f32 up = f32(i32(state & 0xffffu)) * 0x1p-16f;
        const Motion motion{up, 2.0f * up, -across};
        world.create<Particle>(Place{across, up, across * up}, motion, Dice{state * 0x9E3779B9u});
    }
    source.state = state;
}

// Heights are summed as whole numbers, in any order: a sum of floats in order would take longer than the rest.
TBS_SYSTEM void look(World &world, View &view) {
    const Rows<const Place> places = world.rows<Particle, const Place>();
    i32 sum = 0;
    for (u32 i = 0; i < places.count; ++i) sum += i32(places[i].y * 256.0f);
    view = View{f32(i32(places.count)), f32(sum) * 0x1p-8f};
}
