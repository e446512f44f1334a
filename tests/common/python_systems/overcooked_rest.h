// The systems of Overcooked that start episodes and observe; its rules are in Python.

enum Layer : u32 {  // behind those of chefs and terrain
    ONIONS_IN_POT = 5 * Constants::agents + 6,
    TOMATOES_IN_POT,
    ONIONS_IN_SOUP,
    TOMATOES_IN_SOUP,
    TIME_LEFT,
    SOUP_DONE,
    DISH_LAYER,
    ONION_LAYER,
    TOMATO_LAYER,
    URGENCY,
    LAYERS,
};
constexpr i16 IDLE = -1;  // Cooking::left of a soup that does not cook yet; 0: it is ready
constexpr i32 URGENT_STEPS = 40;

// The next cell in a direction; the same one for actions that do not move. A user may have written any number into the
// state, so numbers of cells and layouts are limited to their range where they index memory.
TBS_FUNCTION u32 inside(i32 cell) { return min(u32(cell), u32(Constants::cells - 1)); }
TBS_FUNCTION i32 next_cell(i32 cell, i32 direction) {
    const i32 way = direction & 7;  // selections, because a table would be memory
    const i32 across = way == EAST ? Constants::height : way == WEST ? -Constants::height : 0;
    const i32 step = way == NORTH ? -1 : way == SOUTH ? 1 : across;
    return i32(inside(i32(u32(cell) + u32(step))));
}
TBS_FUNCTION u32 layout_of(const Kitchen &kitchen, const Layouts &layouts) {
    return min(u32(kitchen.layout), u32(layouts.last));
}

// Start --------------------------------------------------------------------------------------------------------------

TBS_SYSTEM void open_kitchen(World &world, Kitchen &kitchen, const Layouts &layouts) {
    Random &random = world.random();
    kitchen.layout = Constants::layouts > 1 ? i32(random.below(Constants::layouts)) : 0;
    kitchen.timestep = layouts.timestep[layout_of(kitchen, layouts)];
}

TBS_SYSTEM void furnish(World &world, Terrain &terrain, Item &item, Cooking &cooking, const Kitchen &kitchen,
                        const Layouts &layouts, Row row) {
    const u32 layout = layout_of(kitchen, layouts);
    const u8 (&there)[3] = layouts.items[layout][row.index];
    terrain.kind = layouts.terrain[layout][row.index];
    item = Item{there[0], there[1], there[2]};
    cooking.left = layouts.left[layout][row.index];
}

TBS_SYSTEM void place_chefs(World &world, Place &place, Item &hand, const Kitchen &kitchen, const Layouts &layouts,
                            Row row) {
    const u32 layout = layout_of(kitchen, layouts);
    const u8 (&held)[3] = layouts.held[layout][row.index];
    place = Place{layouts.cell[layout][row.index], layouts.facing[layout][row.index]};
    hand = Item{held[0], held[1], held[2]};
}

// An event of the given probability; certain and impossible ones draw nothing.
TBS_FUNCTION bool happens(Random &random, f32 probability) {
    return probability > 0.0f && (probability >= 1.0f || random.uniform() < probability);
}

// Random places: each chef takes one of the free cells left, so that all placements are equally likely.
TBS_SYSTEM void scatter_chefs(World &world, const Start &start) {
    Random &random = world.random();
    if (!happens(random, start.random_places)) return;
    const Rows<const Terrain> terrain = world.rows<Cell, const Terrain>();
    const Rows<Place> places = world.rows<Chef, Place>();
    u64 taken[Constants::cells / 64 + 1] = {};
    u32 free = 0;
    for (const Terrain &cell : terrain) free += cell.kind == FLOOR;
    for (Place &place : places) {
        u32 skipped = random.below(free--), cell = 0;
        for (;; ++cell) {
            const bool is_free = terrain[cell].kind == FLOOR && !(taken[cell / 64] >> cell % 64 & 1);
            if (is_free && skipped-- == 0) break;
        }
        taken[cell / 64] |= u64{1} << cell % 64;
        place.cell = i32(cell);
    }
}

// One of the soups that pay in this kitchen, all equally likely; nothing without any.
TBS_FUNCTION Item random_soup(Random &random, const Layouts &layouts, u32 layout) {
    const u32 paid = min(u32(layouts.paid_recipes[layout]), u32(Constants::recipes));
    if (paid == 0) return Item{};
    const u8 (&recipe)[2] = layouts.paid[layout][random.below(paid)];
    return Item{SOUP, u8(recipe[0] & 7), u8(recipe[1] & 7)};
}

// Random objects: the midst of a game. A pot in four has a soup that does not cook yet, cooks or is ready; a chef in
// four holds a dish, an ingredient or a soup. The layout's own things stay.
TBS_SYSTEM void deal_objects(World &world, const Start &start, const Kitchen &kitchen, const Layouts &layouts) {
    Random &random = world.random();
    if (!happens(random, start.random_objects)) return;
    const u32 layout = layout_of(kitchen, layouts);
    const Rows<const Terrain> terrain = world.rows<Cell, const Terrain>();
    const Rows<Item> items = world.rows<Cell, Item>();
    const Rows<Cooking> cooking = world.rows<Cell, Cooking>();
    for (u32 cell = 0; cell < items.count; ++cell) {
        if (terrain[cell].kind != POT || items[cell].kind != NOTHING || random.below(4)) continue;
        items[cell] = random_soup(random, layouts, layout);
        if (items[cell].kind == NOTHING) continue;
        const i32 time = layouts.cook_time[layout][items[cell].onions][items[cell].tomatoes];
        cooking[cell].left = random.below(2) ? IDLE : i16(random.below(u32(time) + 1));
    }
    for (Item &hand : world.rows<Chef, Item>()) {
        if (hand.kind != NOTHING || random.below(4)) continue;
        const Item soup = random_soup(random, layouts, layout);
        if (soup.kind == NOTHING) continue;
        const ItemKind ingredient = random.below(soup.onions + soup.tomatoes) < soup.onions ? ONION : TOMATO;
        const u32 kind = random.below(3);
        hand = kind == 0 ? Item{DISH, 0, 0} : kind == 1 ? Item{u8(ingredient), 0, 0} : soup;
    }
}

// Observation --------------------------------------------------------------------------------------------------------

// Layers of things that lie in a cell or are held in it. `left` is 0 outside of pots.
template <class Value>
TBS_FUNCTION void encode_item(Value *layers, Item item, i16 left) {  // a copy: layers do not alias it
    if (item.kind == SOUP) {
        const bool idle = left == IDLE;
        layers[idle ? ONIONS_IN_POT : ONIONS_IN_SOUP] = Value(item.onions);
        layers[idle ? TOMATOES_IN_POT : TOMATOES_IN_SOUP] = Value(item.tomatoes);
        if (idle) return;
        layers[TIME_LEFT] = Value(left);
        layers[SOUP_DONE] = Value(left == 0);
    } else if (item.kind != NOTHING) {
        layers[item.kind == DISH ? DISH_LAYER : item.kind == ONION ? ONION_LAYER : TOMATO_LAYER] = Value(1);
    }
}

// The reference's lossless_state_encoding, for any number of chefs: oneself first, then the others in order.
TBS_SYSTEM void encode(World &world, View &view, const Kitchen &kitchen, const Layouts &layouts, Row row,
                       Warp &warp) {
    auto *const layers = &view.layers[0][0][0];
    const auto *const background = &layouts.background[layout_of(kitchen, layouts)][0][0];
    const Rows<const Item> items = world.rows<Cell, const Item>(), hands = world.rows<Chef, const Item>();
    const Rows<const Cooking> cooking = world.rows<Cell, const Cooking>();
    const Rows<const Place> places = world.rows<Chef, const Place>();
    const bool urgent = world.parameters.horizon - kitchen.timestep < URGENT_STEPS;
    copy_elements<Constants::cells * LAYERS>(layers, background, warp);
    warp.for_each(Constants::cells, [&](u32 cell) {
        auto *const here = layers + cell * LAYERS;
        encode_item(here, items[cell], cooking[cell].left);
    });
    if (urgent) warp.for_each(Constants::cells, [&](u32 cell) { layers[cell * LAYERS + URGENCY] = 1; });
    warp.for_each(Constants::agents, [&](u32 seen) {
        const u32 chef = seen == 0 ? row.index : seen - (seen <= row.index);
        auto *const here = layers + inside(places[chef].cell) * LAYERS;
        here[seen] = 1;
        here[Constants::agents + 4 * seen + (u32(places[chef].facing) & 3)] = 1;
        encode_item(here, hands[chef], i16(0));
    });
}
