// The rules of Overcooked-AI (class OvercookedGridworld of overcooked_ai_py/mdp/overcooked_mdp.py), in its order: chefs
// interact at their old places, one after another; then all move at once; then soups cook.
//
// A cell's number is x * height + y, so that cells lie as in the observation [width, height, layers].

enum Ground : u8 { FLOOR, POT, COUNTER, ONIONS, TOMATOES, DISHES, SERVING, OUTSIDE };
enum ItemKind : u8 { NOTHING, ONION, TOMATO, DISH, SOUP };
enum Action : i32 { NORTH, SOUTH, EAST, WEST, STAY, INTERACT };
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

// From a cell to the next one in a direction; 0 for the actions that do not move.
TBS_FUNCTION i32 step_towards(i32 direction) {
    constexpr i32 steps[6] = {-1, 1, Constants::height, -Constants::height, 0, 0};
    return steps[direction];
}

// Start --------------------------------------------------------------------------------------------------------------

TBS_SYSTEM void open_kitchen(World &world, Kitchen &kitchen, const Layouts &layouts) {
    Random &random = world.random();
    kitchen.layout = Constants::layouts > 1 ? i32(random.below(Constants::layouts)) : 0;
    kitchen.timestep = layouts.timestep[kitchen.layout];
}

TBS_SYSTEM void furnish(World &world, Terrain &terrain, Item &item, Cooking &cooking, const Kitchen &kitchen,
                        const Layouts &layouts, Row row) {
    const u8 (&there)[3] = layouts.items[kitchen.layout][row.index];
    terrain.kind = layouts.terrain[kitchen.layout][row.index];
    item = Item{there[0], there[1], there[2]};
    cooking.left = layouts.left[kitchen.layout][row.index];
}

TBS_SYSTEM void place_chefs(World &world, Place &place, Item &hand, const Kitchen &kitchen, const Layouts &layouts,
                            Row row) {
    const u8 (&held)[3] = layouts.held[kitchen.layout][row.index];
    place = Place{layouts.cell[kitchen.layout][row.index], layouts.facing[kitchen.layout][row.index]};
    hand = Item{held[0], held[1], held[2]};
}

// Random places: each chef takes one of the free cells that are left, so that all ways to stand are equally likely.
TBS_SYSTEM void scatter_chefs(World &world) {
    if (!world.parameters.random_start) return;
    Random &random = world.random();
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

// Interactions -------------------------------------------------------------------------------------------------------

// A dish is of use while fewer of them are held than soups await one, and none lies about. Two chefs only, as in the
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

// Soups in pots that are ready, or cook, or may still be added to.
TBS_FUNCTION u32 soups_in_pots(Rows<const Terrain> terrain, Rows<Item> items, Rows<Cooking> cooking, i32 most) {
    u32 soups = 0;
    for (u32 cell = 0; cell < items.count; ++cell) {
        const Item &item = items[cell];
        if (terrain[cell].kind != POT || item.kind != SOUP) continue;
        soups += cooking[cell].left != IDLE || item.onions + item.tomatoes < most;
    }
    return soups;
}

// What an interact with a pot does; returns the shaped reward.
TBS_FUNCTION f32 use_pot(Item &hand, Item &soup, Cooking &cooking, const Layouts &layouts, i32 layout, bool by_hand) {
    const i32 ingredients = soup.onions + soup.tomatoes;
    if (hand.kind == NOTHING && by_hand && soup.kind == SOUP && cooking.left == IDLE) {
        cooking.left = layouts.cook_time[layout][soup.onions][soup.tomatoes];
    } else if (hand.kind == DISH && soup.kind == SOUP && cooking.left == 0) {
        hand = soup;
        soup = Item{};
        return layouts.soup_reward[layout];
    } else if (hand.kind == ONION || hand.kind == TOMATO) {
        const bool has_room = soup.kind == NOTHING || (cooking.left == IDLE && ingredients < layouts.most[layout]);
        if (!has_room) return 0.0f;
        soup = Item{SOUP, u8(soup.onions + (hand.kind == ONION)), u8(soup.tomatoes + (hand.kind == TOMATO))};
        cooking.left = IDLE;
        hand = Item{};
        return layouts.placement_reward[layout];
    }
    return 0.0f;
}

// In the order of chefs: a later one finds what the earlier ones have left.
TBS_SYSTEM void interact(World &world, const Kitchen &kitchen, const Layouts &layouts) {
    const Rows<const Place> places = world.rows<Chef, const Place>();
    const Rows<const Choice> choices = world.rows<Chef, const Choice>();
    const Rows<Item> hands = world.rows<Chef, Item>(), items = world.rows<Cell, Item>();
    const Rows<const Terrain> terrain = world.rows<Cell, const Terrain>();
    const Rows<Cooking> cooking = world.rows<Cell, Cooking>();
    const Rows<SparseReward> sparse = world.rows<Chef, SparseReward>();
    const Rows<ShapedReward> shaped = world.rows<Chef, ShapedReward>();
    const i32 layout = kitchen.layout;
    const bool by_hand = !world.parameters.old_dynamics;

    bool takes_dish = false;
    for (u32 i = 0; i < Constants::agents; ++i) {
        sparse[i].value = shaped[i].value = 0.0f;
        const u8 ground = terrain[places[i].cell + step_towards(places[i].facing)].kind;
        takes_dish |= choices[i].action == INTERACT && ground == DISHES && hands[i].kind == NOTHING;
    }
    // How many there were before anybody acted, as in the reference.
    const u32 soups = takes_dish ? soups_in_pots(terrain, items, cooking, layouts.most[layout]) : 0;

    for (u32 i = 0; i < Constants::agents; ++i) {
        if (choices[i].action != INTERACT) continue;
        const i32 cell = places[i].cell + step_towards(places[i].facing);
        Item &hand = hands[i], &item = items[cell];
        const bool empty = hand.kind == NOTHING;
        switch (terrain[cell].kind) {
            case COUNTER:
                if (empty != (item.kind == NOTHING)) {
                    const Item passed = empty ? item : hand;
                    hand = empty ? passed : Item{};
                    item = empty ? Item{} : passed;
                }
                break;
            case ONIONS:
                if (empty) hand = Item{ONION, 0, 0};
                break;
            case TOMATOES:
                if (empty) hand = Item{TOMATO, 0, 0};
                break;
            case DISHES:
                if (!empty) break;
                if (is_dish_useful(terrain, items, hands, soups)) shaped[i].value = layouts.dish_reward[layout];
                hand = Item{DISH, 0, 0};
                break;
            case POT:
                shaped[i].value = use_pot(hand, item, cooking[cell], layouts, layout, by_hand);
                break;
            case SERVING:
                if (hand.kind != SOUP) break;
                sparse[i].value = layouts.value[layout][hand.onions][hand.tomatoes];
                hand = Item{};
                break;
            default:
                break;
        }
    }
}

// Movement -----------------------------------------------------------------------------------------------------------

TBS_SYSTEM void aim(World &world, Place &place, const Choice &choice, Aim &aim) {
    const i32 ahead = place.cell + step_towards(choice.action);
    place.facing = choice.action < STAY ? choice.action : place.facing;
    aim.cell = world.rows<Cell, const Terrain>()[ahead].kind == FLOOR ? ahead : place.cell;
}

// Where two would end in one cell, or change places, nobody moves.
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
    cooking.left = layouts.cook_time[kitchen.layout][item.onions][item.tomatoes];
}

TBS_SYSTEM void cook(World &world, Cooking &cooking) { cooking.left = i16(cooking.left - (cooking.left > 0)); }

TBS_SYSTEM void pay(World &world, const SparseReward &sparse, const ShapedReward &shaped, SparseReturn &sparse_return,
                    ShapedReturn &shaped_return, TeamReturn &team_return, Reward &reward, const Shaping &shaping) {
    f32 team = 0.0f;
    for (const SparseReward &of_chef : world.rows<Chef, const SparseReward>()) team += of_chef.value;
    reward.value = team + shaping.factor * shaped.value;
    sparse_return.value += sparse.value;
    shaped_return.value += shaped.value;
    team_return.value += team;
}

TBS_SYSTEM void tick(World &world, Kitchen &kitchen, Episode &episode) {
    kitchen.timestep += 1;
    episode.truncated = kitchen.timestep >= world.parameters.horizon;
}

// Observation --------------------------------------------------------------------------------------------------------

// Layers of what lies in a cell or is held in it. `left` is 0 outside of pots.
template <class Value>
TBS_FUNCTION void encode_item(Value *layers, const Item &item, i16 left) {
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
    const auto *const background = &layouts.background[kitchen.layout][0][0];
    const Rows<const Item> items = world.rows<Cell, const Item>(), hands = world.rows<Chef, const Item>();
    const Rows<const Cooking> cooking = world.rows<Cell, const Cooking>();
    const Rows<const Place> places = world.rows<Chef, const Place>();
    const bool urgent = world.parameters.horizon - kitchen.timestep < URGENT_STEPS;
    warp.for_each(Constants::cells * LAYERS, [&](u32 i) { layers[i] = background[i]; });
    warp.for_each(Constants::cells, [&](u32 cell) {
        auto *const here = layers + cell * LAYERS;
        encode_item(here, items[cell], cooking[cell].left);
    });
    if (urgent) warp.for_each(Constants::cells, [&](u32 cell) { layers[cell * LAYERS + URGENCY] = 1; });
    warp.for_each(Constants::agents, [&](u32 seen) {
        const u32 chef = seen == 0 ? row.index : seen - (seen <= row.index);
        auto *const here = layers + u32(places[chef].cell) * LAYERS;
        here[seen] = 1;
        here[Constants::agents + 4 * seen + u32(places[chef].facing)] = 1;
        encode_item(here, hands[chef], i16(0));
    });
}
