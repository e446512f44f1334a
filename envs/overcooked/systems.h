// The rules of Overcooked-AI (class OvercookedGridworld of overcooked_ai_py/mdp/overcooked_mdp.py), in its order: chefs
// interact at their old places, one after another; then all move at once; then soups cook.
//
// A cell's number is x * height + y, so that cells lie as in the observation [width, height, layers]. Ground, ItemKind
// and Action are in codes.py.

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

// Interactions -------------------------------------------------------------------------------------------------------

// A dish is useful while fewer of them are held than soups await one, and none lies about. Two chefs only, as in the
// reference (is_dish_pickup_useful).
TBS_FUNCTION bool is_dish_useful(Rows<const Terrain> terrain, Rows<Item> items, Rows<Item> hands, u32 soups) {
    u32 held = 0;
    for (const Item &hand : hands) held += hand.kind == DISH;
    if (Constants::agents != 2 || held >= soups) return false;
    for (u32 cell = 0; cell < items.count; ++cell) {
        if (items[cell].kind == DISH && terrain[cell].kind == COUNTER) return false;
    }
    return true;
}

// Soups in pots that are ready, cook, or take more ingredients.
TBS_FUNCTION u32 soups_in_pots(Rows<const Terrain> terrain, Rows<Item> items, Rows<Cooking> cooking, i32 most) {
    u32 soups = 0;
    for (u32 cell = 0; cell < items.count; ++cell) {
        const Item &item = items[cell];
        if (terrain[cell].kind != POT || item.kind != SOUP) continue;
        soups += cooking[cell].left != IDLE || item.onions + item.tomatoes < most;
    }
    return soups;
}

// The rewards of an interact.
struct Earned {
    f32 sparse, shaped;
};

TBS_FUNCTION Earned use_pot(Item &hand, Item &soup, Cooking &cooking, const Layouts &layouts, u32 layout, bool by_hand) {
    const i32 ingredients = soup.onions + soup.tomatoes;
    if (hand.kind == NOTHING && by_hand && soup.kind == SOUP && cooking.left == IDLE) {
        cooking.left = layouts.cook_time[layout][soup.onions & 7][soup.tomatoes & 7];
    } else if (hand.kind == DISH && soup.kind == SOUP && cooking.left == 0) {
        hand = soup;
        soup = Item{};
        return {0.0f, layouts.soup_reward[layout]};
    } else if (hand.kind == ONION || hand.kind == TOMATO) {
        const bool has_room = soup.kind == NOTHING || (cooking.left == IDLE && ingredients < layouts.most[layout]);
        if (!has_room) return {};
        soup = Item{SOUP, u8(soup.onions + (hand.kind == ONION)), u8(soup.tomatoes + (hand.kind == TOMATO))};
        cooking.left = IDLE;
        hand = Item{};
        return {0.0f, layouts.placement_reward[layout]};
    }
    return {};
}

// Interacts with all other cells.
TBS_FUNCTION Earned use_cell(u8 ground, Item &hand, Item &item, const Layouts &layouts, u32 layout, bool dish_useful) {
    const bool empty = hand.kind == NOTHING;
    if (ground == COUNTER && empty != (item.kind == NOTHING)) {
        const Item passed = empty ? item : hand;
        hand = empty ? passed : Item{};
        item = empty ? Item{} : passed;
    } else if (ground == SERVING && hand.kind == SOUP) {
        const f32 value = layouts.value[layout][hand.onions & 7][hand.tomatoes & 7];
        hand = Item{};
        return {value, 0.0f};
    } else if (empty && (ground == ONIONS || ground == TOMATOES || ground == DISHES)) {
        hand = Item{u8(ground == ONIONS ? ONION : ground == TOMATOES ? TOMATO : DISH), 0, 0};
        return {0.0f, dish_useful ? layouts.dish_reward[layout] : 0.0f};
    }
    return {};
}

// In the order of chefs: a later one finds the changes of the earlier ones.
TBS_SYSTEM void interact(World &world, const Kitchen &kitchen, const Layouts &layouts) {
    const Rows<const Place> places = world.rows<Chef, const Place>();
    const Rows<const Choice> choices = world.rows<Chef, const Choice>();
    const Rows<Item> hands = world.rows<Chef, Item>(), items = world.rows<Cell, Item>();
    const Rows<const Terrain> terrain = world.rows<Cell, const Terrain>();
    const Rows<Cooking> cooking = world.rows<Cell, Cooking>();
    const Rows<SparseReward> sparse = world.rows<Chef, SparseReward>();
    const Rows<ShapedReward> shaped = world.rows<Chef, ShapedReward>();
    const u32 layout = layout_of(kitchen, layouts);
    const auto ahead = [&](u32 i) { return next_cell(places[i].cell, places[i].facing); };
    const auto takes_dish = [&](u32 i) {
        return choices[i].action == INTERACT && terrain[ahead(i)].kind == DISHES && hands[i].kind == NOTHING;
    };

    bool any_takes_dish = false;
    for (u32 i = 0; i < Constants::agents; ++i) {
        any_takes_dish |= takes_dish(i);
        const Place &place = places[i];
        if (place.cell != i32(inside(place.cell))) world.fail(Fault::no_such_cell, place.cell);
        if (u32(place.facing) > WEST) world.fail(Fault::no_such_direction, place.facing);
    }
    if (kitchen.layout != i32(layout)) world.fail(Fault::no_such_layout, kitchen.layout);
    // Counted before anybody acted, as in the reference.
    const u32 soups = any_takes_dish ? soups_in_pots(terrain, items, cooking, layouts.most[layout]) : 0;

    for (u32 i = 0; i < Constants::agents; ++i) {
        Earned earned{};
        if (choices[i].action == INTERACT) {
            const i32 cell = ahead(i);
            const u8 ground = terrain[cell].kind;
            const bool useful = takes_dish(i) && is_dish_useful(terrain, items, hands, soups);
            earned = ground == POT ? use_pot(hands[i], items[cell], cooking[cell], layouts, layout,
                                             !world.parameters.old_dynamics)
                                   : use_cell(ground, hands[i], items[cell], layouts, layout, useful);
        }
        sparse[i].value = earned.sparse;
        shaped[i].value = earned.shaped;
    }
}

// Movement -----------------------------------------------------------------------------------------------------------

TBS_SYSTEM void aim(World &world, Place &place, const Choice &choice, Aim &aim) {
    const i32 ahead = next_cell(place.cell, choice.action);
    place.facing = choice.action < STAY ? choice.action : place.facing;
    aim.cell = world.rows<Cell, const Terrain>()[ahead].kind == FLOOR ? ahead : place.cell;
}

// If two would end in one cell, or change places, nobody moves.
TBS_SYSTEM void walk(World &world, Warp &warp) {
    const Rows<Place> places = world.rows<Chef, Place>();
    const Rows<const Aim> aims = world.rows<Chef, const Aim>();
    const bool collision = warp.any(Constants::agents, [&](u32 i) {
        bool hit = false;
        for (u32 j = 0; j < i; ++j) {
            const bool swap = aims[i].cell == places[j].cell && aims[j].cell == places[i].cell;
            hit |= aims[i].cell == aims[j].cell || swap;
        }
        return hit;
    });
    if (collision) return;
    warp.for_each(Constants::agents, [&](u32 i) { places[i].cell = aims[i].cell; });
}

// The kitchen --------------------------------------------------------------------------------------------------------

// Old dynamics: a pot with three ingredients starts by itself.
TBS_SYSTEM void start_full_pots(World &world, const Item &item, Cooking &cooking, const Kitchen &kitchen,
                                const Layouts &layouts) {
    if (!world.parameters.old_dynamics || cooking.left != IDLE || item.onions + item.tomatoes != 3) return;
    cooking.left = layouts.cook_time[layout_of(kitchen, layouts)][item.onions][item.tomatoes];
}

TBS_SYSTEM void cook(World &world, Cooking &cooking) { cooking.left = i16(cooking.left - (cooking.left > 0)); }

TBS_SYSTEM void pay(World &world, const SparseReward &sparse, const ShapedReward &shaped, SparseReturn &sparse_return,
                    ShapedReturn &shaped_return, TeamReturn &team_return, Reward &reward, const Shaping &shaping) {
    f32 team = 0.0f, all_shaped = 0.0f;
    for (const SparseReward &of_chef : world.rows<Chef, const SparseReward>()) team += of_chef.value;
    for (const ShapedReward &of_chef : world.rows<Chef, const ShapedReward>()) all_shaped += of_chef.value;
    reward.value = team + shaping.factor * (shaped.value + shaping.shared * (all_shaped - shaped.value));
    sparse_return.value += sparse.value;
    shaped_return.value += shaped.value;
    team_return.value += team;
}

TBS_SYSTEM void tick(World &world, Kitchen &kitchen, Episode &episode) {
    kitchen.timestep += 1;
    episode.truncated = kitchen.timestep >= world.parameters.horizon;
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
