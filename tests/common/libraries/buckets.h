#pragma once
#include "tbs/tbs.h"  // for the sake of editors: it is there already
#include "buckets/sums.h"

TBS_FUNCTION i32 cell_of(f32 x, f32 width) { return i32(floor(x / width)); }

TBS_SYSTEM void clear(World &world, Cell &cell) { cell = Cell{}; }

TBS_SYSTEM void insert(World &world, const Body &body, Entity self) {
    const i32 cell = cell_of(body.x, world.parameters.buckets.width);
    if (cell < 0 || cell >= Constants::cells) {
        world.fail(Fault::outside, cell);
    } else {
        world.create<Items>(Item{self, cell, body.weight * world.get<const Ground>().factor[cell]});
    }
}

TBS_SYSTEM void gather(World &world, Load &load) {
    const Rows<Cell> cells = world.rows<Cells, Cell>();
    load = Load{};
    for (const Item &item : world.rows<Items, const Item>()) {
        cells[u32(item.cell)].count += 1;
        cells[u32(item.cell)].heaviest = larger(cells[u32(item.cell)].heaviest, item.weight);
        load.weight += item.weight;
        const Body *body = world.find<const Body>(item.body);  // a guest's or a cart's: the library does not know
        load.bodies += i32(body != nullptr && body->weight > 0.0f);
    }
    for (u32 i = 0; i < world.count<Items>(); ++i) world.destroy<Items>(world.entity<Items>(i));
}

TBS_SYSTEM void count_near(World &world, const Body &body, Near &near) {
    const i32 cell = clamp(cell_of(body.x, world.parameters.buckets.width), 0, Constants::cells - 1);
    near.count = world.rows<Cells, const Cell>()[u32(cell)].count;
}
