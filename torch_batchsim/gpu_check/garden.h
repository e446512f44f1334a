TBS_SYSTEM void settle_in(World &world, Hand &hand, Duty &duty, Entity self) {
    Random &random = world.random();
    hand.at[0] = random.normal();
    hand.at[1] = random.uniform(-1.0f, 1.0f);
    hand.skill = exp(random.uniform(-1.0f, 1.0f));
    duty.left = random.integer(4, 30);
    for (u32 i = 0; i < 3; ++i) world.create<Plant>(Kin{self, i}, Stem{random.uniform(), 0, 0});
}

TBS_SYSTEM void shine(World &world, Sky &sky) {
    sky.days += 1;
    sky.warmth += f64(sin(0.3f * f32(world.step())) + 0.1f * world.random().normal());
}

TBS_SYSTEM void tend(World &world, Hand &hand, const Water &water, const Sky &sky, Reward &reward) {
    for (u32 i = 0; i < 2; ++i) hand.at[i] = tanh(hand.at[i] + 0.25f * water.pour[i]) + 0.01f * f32(sky.warmth);
    hand.skill = sqrt(hand.skill * hand.skill + hand.at[0] * hand.at[0]);
    reward.value = hand.at[0] - 0.1f * abs(water.pour[1]);
    if (isnan(hand.skill)) world.fail(Fault::nan);
    if (hand.skill > 1e6f) world.fail(Fault::flood, i32(min(hand.skill, 2e9f)));
}

TBS_SYSTEM void go_home(World &world, Duty &duty, AgentEnd &end) {
    if (duty.left == 0) return;
    duty.left -= 1;
    end.terminated = duty.left == 0 && world.step() % 2 == 0;
    end.truncated = duty.left == 0 && !end.terminated;
}

TBS_SYSTEM void grow(World &world, Stem &stem) {
    stem.age += 1;
    stem.height += world.random().uniform(0.0f, 0.2f) / (1.0f + stem.height * stem.height);
}

TBS_SYSTEM void sow(World &world, const Stem &stem, Row row, Entity self) {
    Random &random = world.random();
    constexpr u32 births = Constants::room / 4;
    const bool room = world.count<Plant>() + births <= u32(Constants::limit);
    const i32 usual = room && row.index < births && stem.age % 2 == 1 ? 1 : 0;
    for (i32 i = 0; i < usual + stem.extra; ++i) {
        const Kin kin{self, random.below(1000)};  // not among the arguments: which one comes first, C++ leaves open
        world.create<Plant>(Stem{0.1f * random.uniform(), 0, 0}, kin);
    }
}

// Each gardener blows pollen from the plants that are taller than the mean, in an order of its own.
TBS_SYSTEM void pollinate(World &world, const Hand &hand, Block &block) {
    const Rows<const Stem> stems = world.rows<Plant, const Stem>();
    if (stems.count == 0) return;
    const f32 mean = block.sum(stems.count, [&](u32 i) { return stems[i].height; }) / f32(stems.count);
    block.scan(stems.count, [&](u32 i) { return stems[i].height > mean ? 1u : 0u; }, [&](u32 i, u32 before) {
        if (!(stems[i].height > mean)) return;
        Random random = world.random(i);
        world.create_at<Pollen>(4095 - before, Grain{world.entity<Plant>(i), random.uniform() * hand.skill, 0});
    });
}

TBS_SYSTEM void land(World &world, Grain &grain) {
    const Stem *stem = world.find<Plant, const Stem>(grain.plant);
    const Kin *kin = world.find<Plant, const Kin>(grain.plant);
    if (stem && kin) grain.landed = stem->age + (world.alive(kin->parent) ? 100 : 0);
}

TBS_SYSTEM void tally(World &world, Sky &sky, Warp &warp) {
    const Rows<const Stem> stems = world.rows<Plant, const Stem>();
    const Rows<const Grain> grains = world.rows<Pollen, const Grain>();
    const f32 tallest = warp.max(stems.count, 0.0f, [&](u32 i) { return stems[i].height; });
    const u32 odd = warp.ballot(grains.count, [&](u32 i) { return grains[i].landed % 2 == 1; });
    warp.once([&] {
        sky.tallest = tallest;
        sky.odd = odd;
    });
}

TBS_SYSTEM void wither(World &world, const Stem &stem, Entity self) {
    if (stem.age > world.parameters.lifetime || world.random().chance(0.05f)) world.destroy(self);
}

TBS_SYSTEM void try_edges(World &world, Edge &edge) {
    constexpr u32 edges[] = {0u,          0x80000000u, 0x7fc00000u, 0xffc00000u,   // zeros, NaN
                             0x7f800000u, 0xff800000u, 0x4f000000u, 0xcf000001u};  // infinities, around i32
    const f32 x = from_bits(edges[world.step() % 8]);
    edge = Edge{x, min(0.0f, x), max(-0.0f, x), clamp(x, 0.0f, 1.0f), max(0.0f, min(1.0f, x)), to_i32(x), to_u32(x)};
}

TBS_SYSTEM void judge(World &world, const Sky &sky, Episode &episode) {
    episode.terminated = world.count<Plant>() == 0 || (sky.odd % 32 == 7 && world.step() > 3);
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void see_who_is_there(World &world, const Duty &duty, Present &present, Shift &shift, Row row) {
    present.yes = duty.left > 0;
    shift.number = u8(row.index);
}

TBS_SYSTEM void look(World &world, const Hand &hand, const Sky &sky, Senses &senses, Plot &plot, Tally &tally, Row row) {
    const Rows<const Grain> grains = world.rows<Pollen, const Grain>();
    tally = Tally{i32(world.count<Plant>()), i32(grains.count)};
    senses.values[0] = hand.at[0];
    senses.values[1] = hand.at[1] - f32(row.index);
    senses.values[2] = sky.tallest;
    senses.values[3] = log(1.0f + hand.skill);
    for (u32 i = 0; i < 6; ++i) plot.cells[i / 3][i % 3] = 0;
    for (u32 i = 0; i < grains.count; ++i) plot.cells[i % 2][i % 3] += u8(grains[i].landed);
}
