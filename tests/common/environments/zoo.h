TBS_SYSTEM void settle_in(World &world) {
    const Entity first = world.create<Animal>(Body{i32(world.episode()), 0});
    world.create<Animal>(Kin{first, 7});
}

TBS_SYSTEM void obey(World &world, const Order &order, Answer &answer) {
    answer = Answer{};
    if (order.kind == 1) answer.made = world.create<Animal>(Body{order.value, 0}, Kin{Entity{}, 1});
    if (order.kind == 2) world.destroy(order.target);
    if (order.kind == 3 && world.alive(order.target)) world.destroy(order.target);
    if (order.kind == 4) {
        const Body *body = world.find<Animal, const Body>(order.target);
        answer.alive = world.alive(order.target);
        answer.value = body ? body->value : -1;
    }
    if (order.kind == 5) answer.made = world.create<Animal>(Kin{order.target, 2}, Body{order.value, 1});
    if (order.kind == 6) {
        for (i32 i = 0; i < order.value; ++i) world.create<Event>(Note{Entity{}, i, 0});
    }
}

TBS_SYSTEM void hatch(World &world, const Choice &choice) {
    Random &random = world.random();
    for (i32 i = 0; i < choice.eggs; ++i) world.create<Animal>(Body{random.integer(0, 20), 0});
}

TBS_FUNCTION void die(World &world, Entity self, const Body &body) {
    world.destroy(self);
    world.create<Event>(Note{self, body.value, 0});
}

TBS_SYSTEM void live(World &world, Body &body, Entity self) {
    body.age += 1;
    if (body.value % 2 == 1 && body.age > world.parameters.lifetime) die(world, self, body);
    if (body.value % 2 == 0 && body.age > 2 * world.parameters.lifetime) world.destroy<Animal>(self);
}

TBS_SYSTEM void breed(World &world, const Body &body, Entity self) {
    if (body.value % 5 == 0 && body.age == 2) world.create<Animal>(Body{body.value + 1, 0}, Kin{self, 3});
}

TBS_SYSTEM void read_notes(World &world, Note &note) {  // events and trails
    note.seen += world.alive(note.animal) ? 1 : 100;
}

TBS_SYSTEM void fade(World &world, const Note &note, const Kin &, Entity self) {  // trails
    if (note.seen % 100 > 1 || note.seen >= 100) world.destroy(self);
}

// A trail of each animal, the youngest first.
TBS_SYSTEM void follow(World &world, Warp &warp) {
    const Rows<const Body> bodies = world.rows<Animal, const Body>();
    warp.for_each(bodies.count, [&](u32 i) {
        const u32 noise = world.random(i).below(1000);
        world.create_at<Trail>(bodies.count - i, Note{world.entity<Animal>(i), bodies[i].age, 0}, Kin{Entity{}, i32(noise)});
    });
}

TBS_SYSTEM void add_by_warp(World &world, Sums &sums, Warp &warp) {
    const Rows<const Body> bodies = world.rows<Animal, const Body>();
    Sums own{};
    own.by_warp = warp.sum(bodies.count, [&](u32 i) { return bodies[i].value; });
    own.ballot = i32(warp.ballot(bodies.count, [&](u32 i) { return bodies[i].value % 2 == 1; }));
    own.oldest = warp.max(bodies.count, -1, [&](u32 i) { return bodies[i].age; });
    if (bodies.count > 0) {
        own.middle = warp.broadcast(bodies.count / 2, [&](u32 i) { return bodies[i].value; });
    }
    warp.once([&] { sums = own; });
}

// Each animal's age is added to those of the animals before it, which are then summed.
TBS_SYSTEM void add_by_block(World &world, Sums &sums, Block &block) {
    const Rows<const Body> bodies = world.rows<Animal, const Body>();
    struct Before {
        i32 age[64];
    };
    Before &before = block.shared<Before>();
    block.scan(bodies.count, [&](u32 i) { return bodies[i].age; }, [&](u32 i, i32 sum) { before.age[i % 64] = sum; });
    const i32 total = block.sum(bodies.count, [&](u32 i) { return before.age[i % 64]; });
    block.once([&] { sums.by_block = total; });
}

TBS_SYSTEM void judge(World &world, Reward &reward, Episode &episode) {
    reward.value = f32(world.count<Animal>());
    episode.terminated = world.count<Animal>() == 0;
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void look(World &world, View &view) {
    view = View{i32(world.count<Animal>()), i32(world.count<Event>()), 0, 0};
    const Rows<const Body> bodies = world.rows<Animal, const Body>();
    const Rows<const Kin> kin = world.rows<Animal, const Kin>();
    for (u32 i = 0; i < bodies.count; ++i) {
        view.total += bodies[i].value;
        view.orphans += kin[i].parent && !world.alive(kin[i].parent);
    }
}
