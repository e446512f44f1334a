// The view of a centralised critic: the hand that its player does not see.
#pragma once

TBS_SYSTEM void show_own_hand(World &world, OwnHand &shown, const Table &table, Row row, Warp &warp) {
    const Rows<const Card> hands = world.rows<Held, const Card>();
    const i32 observer = ONE_ROW ? mover_of(table) : i32(row.index);
    warp.for_each(H * KINDS, [&](u32 i) {
        shown.cards[i / KINDS][i % KINDS] = hands[place_of(observer, i32(i / KINDS))].kind == i % KINDS;
    });
}
