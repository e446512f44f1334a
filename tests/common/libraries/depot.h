#pragma once

static_assert(World::most_rows<Place>() == u32(Constants::most));
static_assert(World::most_rows<Weight, const Place>() == u32(Constants::loads));
static_assert(World::most_rows<Summary>() == 0);

// A plain system: one thread on every device.
TBS_SYSTEM void list_all(World &world, Sheet &sheet, Summary &summary) {
    u32 count = 0;
    world.tables<const Place, Optional<const Weight>>([&](auto table, auto places, auto weights) {
        for (u32 i = 0; i < table.count; ++i) {
            sheet.x[table.first + i] = places[i].x * weights.value_or(i, Weight{-1}).kilos;
            sheet.kind[table.first + i] = u8(table.number);
        }
        count += table.count;
    });
    summary.count = i32(count);
    summary.hash = 0;
    for (u32 i = 0; i < count; ++i) summary.hash = (31 * summary.hash + sheet.x[i] + i32(sheet.kind[i])) % 1000003;
}

template <class Group>
TBS_FUNCTION u32 gather(const World &world, Ledger &ledger, Group &group) {
    u32 count = 0;
    world.tables<const Weight, const Place>([&](const auto &table, Rows<const Weight> weights, auto places) {
        group.for_each(table.count, [&](u32 i) {
            ledger.x[table.first + i] = places[i].x;
            ledger.kilos[table.first + i] = weights[i].kilos;
        });
        count = table.first + table.count;
    });
    return count;
}

// Loads move by the weight of what is to the left of them.
TBS_SYSTEM void sort_loads(World &world, Ledger &ledger, Warp &warp) {
    const u32 count = gather(world, ledger, warp);
    warp.for_each(count, [&](u32 i) {
        i32 rank = 0;
        for (u32 k = 0; k < count; ++k) rank += ledger.x[k] < ledger.x[i] ? ledger.kilos[k] : 0;
        ledger.rank[i] = rank;
    });
    world.tables<Place, const Weight, Optional<Mark>>([&](auto table, auto places, auto, auto marks) {
        warp.for_each(table.count, [&](u32 i) {
            const i32 rank = ledger.rank[table.first + i];
            places[i].x = (places[i].x + rank) % 101;
            if (marks.there) marks[i] = Mark{rank, table.entity(i)};
        });
    });
}

TBS_SYSTEM void pull(World &world, Summary &summary) {
    summary.pulled = -1;
    for (const Rope &rope : world.rows<Note, const Rope>()) {
        world.tables<const Place, const Weight>([&](auto table, auto, auto) {
            const u32 row = table.index_of(rope.load);
            if (row != no_row) summary.pulled = i32(table.first + row);
        });
    }
}

TBS_SYSTEM void weigh(World &world, Ledger &ledger, Summary &summary, Block &block) {
    const u32 count = gather(world, ledger, block);
    const i32 total = block.sum(count, [&](u32 i) { return ledger.kilos[i]; });
    block.for_each(count, [&](u32 i) { ledger.share[i] = f32(ledger.kilos[i]) / f32(total) * f32(ledger.x[i]); });
    const f32 mean = block.sum(count, [&](u32 i) { return ledger.share[i]; });
    block.once([&] {
        summary.weighed = total;
        summary.mean = mean;
    });
}

// Three worlds at a time: the loads of each lie behind those of the worlds before.
TBS_SYSTEM void compare(Worlds<3> &worlds, Board &board, Warp &warp) {
    u32 count = 0;
    for (u32 k = 0; k < worlds.count; ++k) {
        const World world = worlds[k];
        const u32 first = count;
        world.tables<const Place, const Weight>([&](auto table, auto places, auto weights) {
            warp.for_each(table.count, [&](u32 i) {
                const u32 at = first + table.first + i;
                board.world[at] = k;
                board.x[at] = places[i].x;
                board.kilos[at] = weights[i].kilos;
            });
            count = first + table.first + table.count;
        });
        warp.once([&] {
            board.first[k] = first;
            board.first[k + 1] = count;
        });
    }
    warp.for_each(count, [&](u32 i) {  // of all worlds
        const u32 k = board.world[i];
        i32 score = 0;
        for (u32 other = board.first[k]; other < board.first[k + 1]; ++other) {
            score += board.x[other] > board.x[i] ? board.kilos[other] : 0;
        }
        board.score[i] = score + worlds[k].random(i - board.first[k]).integer(0, 3);
    });
    for (u32 k = 0; k < worlds.count; ++k) {
        const u32 first = board.first[k];
        const i32 total = warp.sum(board.first[k + 1] - first, [&](u32 i) { return board.score[first + i]; });
        warp.once([&] {
            Tally &tally = worlds[k].get<Tally>();
            tally.score = (3 * tally.score + total + i32(worlds.repetition())) % 10007;
        });
    }
}
