TBS_SYSTEM void enter(World &world, buckets::Body &body, Row row, Choice &) {
    body.x = world.random().uniform();
    body.weight = f32(row.index + 1);
}

TBS_SYSTEM void choose(World &world, const Choice &choice, pushes::Push &push) {
    push.by = choice.side == 0 ? -0.05f : 0.05f;
}

// A cart each third step, which the library sorts as it does the guests.
TBS_SYSTEM void roll_in(World &world) {
    if (world.step() % 3 == 1 && world.count<Cart>() < 8) {
        world.create<Cart>(buckets::Body{0.5f * world.random().uniform(), 2.0f});
    }
}

TBS_SYSTEM void visit(World &world, Cell &cell, Row row) {
    cell.visits += world.rows<buckets::Cells, const buckets::Cell>()[row.index].count;
}

TBS_SYSTEM void judge(World &world, const buckets::Near &near, Reward &reward) {
    reward.value = f32(near.count) / f32(world.get<const buckets::Load>().bodies);
    if (near.count > 10) world.fail(Fault::crowded, near.count);
}

TBS_SYSTEM void look(World &world, const buckets::Body &body, const buckets::Near &near, View &view) {
    view.values[0] = body.x;
    view.values[1] = f32(near.count);
    view.values[2] = world.get<const buckets::Load>().weight;
    view.values[3] = f32(buckets::cell_of(body.x, world.parameters.buckets.width)) / f32(buckets::Constants::cells);
}

TBS_SYSTEM void end(World &world, Episode &episode) {
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps) + world.id % 5;
}
