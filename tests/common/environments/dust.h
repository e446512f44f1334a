TBS_SYSTEM void scatter(World &world) {
    const u32 grains = u32(world.parameters.grains);
    Random &random = world.random();
    for (u32 i = 0; i < grains; ++i) {
        const Place place{random.uniform(-0.2f, 3.2f), random.uniform(0.8f, 2.2f)};  // some outside
        world.create<Grain>(place, Search{world.parameters.reach});
    }
}

TBS_SYSTEM void drift(World &world, Place &place) {
    Random &random = world.random();
    place.x += world.parameters.drift * random.normal();
    place.y += world.parameters.drift * random.normal();
}

TBS_SYSTEM void sort(World &world, grid::Cells &cells, Block &block) {
    const Rows<const Place> grains = world.rows<Grain, const Place>();
    grid::build(cells, grains.count, block, [&](u32 i) { return grains[i]; });
}

// On one lane.
TBS_SYSTEM void count(World &world, const Place &place, const Search &search, Company &company,
                      const grid::Cells &cells, Row row) {
    const Rows<const Place> grains = world.rows<Grain, const Place>();
    const f32 reach = search.reach;
    company = Company{0, -1, 0};
    for (const u32 i : grid::near(world, cells, grains.count, place.x, place.y, reach)) {
        company.looked += 1;
        const f32 x = grains[i].x - place.x, y = grains[i].y - place.y;
        if (i == row.index || !(x * x + y * y <= reach * reach)) continue;
        company.last = i32(i);
        company.neighbours += 1;
    }
}

// On many: the third of those in the square, oldest first.
TBS_SYSTEM void choose(World &world, const Place &place, const Search &search, Third &third,
                       const grid::Cells &cells, Warp &warp) {
    const Rows<const Place> grains = world.rows<Grain, const Place>();
    const f32 reach = search.reach;
    Third &own = warp.shared<Third>();
    warp.once([&] { own.row = -1; });
    const u32 found = grid::scan(
        grid::near(world, cells, grains.count, place.x, place.y, reach), warp,
        [&](u32 i) { return abs(grains[i].x - place.x) <= reach && abs(grains[i].y - place.y) <= reach; },
        [&](u32 i, u32 before) {
            if (before == 2) own.row = i32(i);
        });
    warp.once([&] { third = Third{own.row, i32(found)}; });
}

TBS_SYSTEM void sweep(World &world, const Choice &choice) {
    if (choice.early && world.count<Grain>() > 0) world.destroy<Grain>(world.entity<Grain>(0));
}
