// The systems of Swarm that call the grid, which is in C++.

TBS_SYSTEM void sort_drones(World &world, grid::Cells &cells, Warp &warp) {
    const Rows<const Place> drones = world.rows<Drone, const Place>();
    grid::build(cells, drones.count, warp, [&](u32 i) { return drones[i]; });
}

// Targets that a bullet may have hit in this step: drones for bullets of ships, ships for all others. Only the eight
// oldest in reach are compared, which bounds the table of pairs.
TBS_SYSTEM void find_contacts(World &world, const Place &place, const Shot &shot, Entity self, const grid::Cells &cells,
                              Warp &warp) {
    const Parameters &p = world.parameters;
    const f32 reach = p.radius + p.bullet_speed + max(p.ship_speed, p.drone_speed);
    const auto close = [&](const Place &target) {
        return abs(target.x - place.x) <= reach && abs(target.y - place.y) <= reach;
    };
    const auto pair = [&](Entity target, u32 before) {
        if (before < 8) world.create_at<Contact>(before, Pair{self, target, 0});
    };
    if (world.index_of<Ship>(shot.owner) != no_row) {
        const Rows<const Place> drones = world.rows<Drone, const Place>();
        grid::scan(
            grid::near(world, cells, drones.count, place.x, place.y, reach), warp,
            [&](u32 i) { return close(drones[i]); },
            [&](u32 i, u32 before) { pair(world.entity<Drone>(i), before); });
    } else {
        const Rows<const Place> ships = world.rows<Ship, const Place>();
        const Rows<const Hull> hulls = world.rows<Ship, const Hull>();
        const auto reached = [&](u32 i) { return hulls[i].left > 0 && close(ships[i]); };
        warp.scan(
            ships.count, [&](u32 i) { return reached(i) ? 1u : 0u; },
            [&](u32 i, u32 before) {
                if (reached(i)) pair(world.entity<Ship>(i), before);
            });
    }
}
