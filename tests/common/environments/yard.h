TBS_SYSTEM void stack(World &world, depot::Place &place, depot::Weight &weight, Row row) {  // crates and barrels
    place.x = world.random().integer(0, 100);
    weight.kilos = 5 + i32(row.index);
}

TBS_SYSTEM void fill_barrels(World &world) {
    for (depot::Weight &weight : world.rows<Barrel, depot::Weight>()) weight.kilos = 1;
}

TBS_SYSTEM void order(World &world, const Order &order) {
    for (i32 i = 0; i < order.carts; ++i) {
        const i32 x = world.random().integer(0, 100);
        const Entity cart = world.create<Cart>(depot::Place{x}, depot::Weight{1 + i});
        if (i == 1 && world.count<depot::Note>() < 30) world.create<depot::Note>(depot::Rope{cart});
    }
    if (order.carts == 0 && world.count<Rail>() < 3) world.create<Rail>(depot::Place{i32(world.step())});
}

TBS_SYSTEM void roll(World &world, depot::Place &place, depot::Mark &mark, Row row) {
    place.x = (place.x + 3 + mark.number % 5) % 101;
    mark.number += i32(row.index);
}

TBS_SYSTEM void leave(World &world, const depot::Place &place, const depot::Mark &mark, Entity self) {
    if (place.x % 3 == 0 && world.index_of<Cart>(mark.of) != no_row && world.index_of<Barrel>(self) == no_row) {
        world.destroy<Cart>(self);
    }
}

TBS_SYSTEM void judge(World &world, const depot::Summary &summary, Reward &reward, Episode &episode) {
    reward.value = f32(summary.hash % 100);
    episode.terminated = world.count<Cart>() > 30;
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps) + world.id % 3;
}

TBS_SYSTEM void look(World &world, const depot::Summary &summary, View &view) {
    view.values[0] = f32(summary.count);
    view.values[1] = f32(summary.weighed);
    view.values[2] = f32(summary.pulled);
    view.values[3] = summary.mean;
}
