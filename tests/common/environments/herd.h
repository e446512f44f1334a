// Each creates its row in an order that has nothing to do with its place among the lanes.
TBS_SYSTEM void lamb(World &world, const Choice &choice, Block &block) {
    const u32 born = u32(choice.born);
    block.for_each(born, [&](u32 i) {
        Random random = world.random(i);
        world.create_at<Sheep>((i * 7919u) % 8191u, Wool{random.uniform(-1.0f, 1.0f), i32(i), 0});
    });
}

template <class Group, class Sums>
TBS_FUNCTION void weigh(World &world, Group &group, Sums &sums) {
    const Rows<const Wool> wool = world.rows<Sheep, const Wool>();
    Sums own{};
    own.sum = group.sum(wool.count, [&](u32 i) { return wool[i].weight; });
    own.least = group.min(wool.count, 2.0f, [&](u32 i) { return wool[i].weight; });
    own.most = group.max(wool.count, -2.0f, [&](u32 i) { return wool[i].weight; });
    own.odd = group.count(wool.count, [&](u32 i) { return wool[i].number % 2 == 1; });
    own.any = group.any(wool.count, [&](u32 i) { return wool[i].weight > 0.99f; });
    own.all = group.all(wool.count, [&](u32 i) { return wool[i].weight > -0.99f; });
    own.ballot = group.ballot(wool.count, [&](u32 i) { return wool[i].weight > 0.0f; });
    if (wool.count > 0) own.told = group.broadcast(wool.count * 2 / 3, [&](u32 i) { return wool[i].weight; });
    group.once([&] { sums = own; });
}

TBS_SYSTEM void weigh_by_warp(World &world, Warp &warp, WarpSums &sums) { weigh(world, warp, sums); }

TBS_SYSTEM void weigh_by_block(World &world, Block &block, BlockSums &sums) { weigh(world, block, sums); }

TBS_SYSTEM void cull(World &world, const Wool &wool, Entity self) {
    if ((u32(wool.number) + world.step()) % 3 == 0) world.destroy(self);
}

TBS_SYSTEM void number_off(World &world, Warp &warp, WarpSums &sums) {
    const Rows<Wool> wool = world.rows<Sheep, Wool>();
    const i32 total = warp.scan(
        wool.count, [&](u32 i) { return wool[i].number; }, [&](u32 i, i32 before) { wool[i].before = before; });
    warp.once([&] { sums.total = total; });
}

// All lanes read the last sheep before any of them writes it.
TBS_SYSTEM void shift(World &world, Warp &warp) {
    const Rows<Wool> wool = world.rows<Sheep, Wool>();
    if (wool.count == 0) return;
    const i32 last = wool[wool.count - 1].before;
    warp.for_each(wool.count, [&](u32 i) { wool[i].before += last; });
}

TBS_SYSTEM void judge(World &world, Reward &reward, Episode &episode) {
    reward.value = f32(world.count<Sheep>());
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void look(World &world, View &view) { view.sheep = i32(world.count<Sheep>()); }
