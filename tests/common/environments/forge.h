TBS_SYSTEM void light(World &world) { world.create<Spark>(Heat{101}); }

TBS_SYSTEM void shape(World &world, Metal &metal, Row row) {
    metal.size = 3 * metal.size + i32(row.index) + 1;
    if (world.parameters.noise) metal.draws[world.repetition()] = world.random().uniform();
}

TBS_SYSTEM void catch_fire(World &world, const Metal &metal) {
    if (metal.size % 2 == 1) world.create<Spark>(Heat{metal.size}, Life{1});
}

TBS_SYSTEM void strike(World &world, const Blows &blows) {
    for (i32 i = 0; i < blows.count; ++i) world.create<Spark>(Heat{i32(world.step()) * 14 + 31 * i});
}

TBS_SYSTEM void glow(World &world, Heat &heat, Row row) {  // sparks and anvils
    heat.value = (5 * heat.value + i32(row.index) + 1) % 97;
    if (world.parameters.noise) heat.value += world.random().integer(0, 1);
}

TBS_SYSTEM void rank(World &world, Rank &rank, Row row) { rank.number = i32(row.count - row.index); }

TBS_SYSTEM void chain(World &world, const Rank &rank, Entity self) {
    if (rank.number % 2 == 1) world.create<Chain>(Link{self, rank.number});
}

// After some sparks have died, and new ones have come.
TBS_SYSTEM void fill_bins(World &world) {
    const Rows<Load> bins = world.rows<Bin, Load>();
    for (Load &bin : bins) bin = Load{};
    for (const Rank &rank : world.rows<Spark, const Rank>()) bins[u32(rank.number) % bins.count].weight += rank.number;
}

TBS_SYSTEM void add_up(World &world, Total &total) {
    total = Total{};
    for (const Load &bin : world.rows<Bin, const Load>()) total.weight = 3 * total.weight + bin.weight;
    for (const Link &link : world.rows<Chain, const Link>()) total.weight += world.alive(link.spark) ? link.rank : 100;
}

TBS_SYSTEM void weigh_down(World &world, Metal &metal, const Total &total) { metal.size += total.weight; }

TBS_SYSTEM void split(World &world, const Heat &heat, const Life &life) {
    if (life.age == 2 && heat.value % 2 == 1) world.create<Spark>(Heat{heat.value / 2});
}

TBS_SYSTEM void fade(World &world, const Heat &heat, Life &life, Entity self) {
    life.age += 1;
    if (life.age > 7 || heat.value % 13 == 0) world.destroy<Spark>(self);
}

// An ash for each spark that is about to die, the last one first.
TBS_SYSTEM void gather(World &world, Log &log, Warp &warp) {
    const Rows<const Heat> heats = world.rows<Spark, const Heat>();
    const Rows<const Life> lives = world.rows<Spark, const Life>();
    warp.for_each(heats.count, [&](u32 i) {
        const i32 noise = world.parameters.noise ? i32(world.random(i).below(100)) : 0;
        if (lives[i].age == 7) world.create_at<Ash>(heats.count - i, Dead{world.entity<Spark>(i), heats[i].value + noise});
    });
    const i32 total = warp.sum(heats.count, [&](u32 i) { return heats[i].value; });
    warp.once([&] {
        log.heat += total;
        if (world.parameters.noise) log.inner[world.repetition()] = world.random(0).uniform();
    });
}

TBS_SYSTEM void note(World &world, Log &log) {
    if (world.parameters.noise) log.outer[world.repetition()] = world.random().uniform();
}

TBS_SYSTEM void copy(World &world, const Heat &heat, Metal &metal) { metal.size += heat.value % 3; }

TBS_SYSTEM void judge(World &world, Log &log, Reward &reward, Episode &episode) {
    reward.value = f32(log.heat % 1000);
    episode.terminated = world.count<Spark>() == 0;
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void clear(World &world, View &view) { view = View{}; }

TBS_SYSTEM void look(World &world, View &view) {
    view.sparks += i32(world.count<Spark>());
    view.ashes += i32(world.count<Ash>());
    for (const Heat &heat : world.rows<Anvil, const Heat>()) view.heat += heat.value;
    view.looks = 10 * view.looks + (world.parameters.noise ? i32(world.repetition()) : 1);
}
