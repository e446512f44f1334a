// Writes the last bytes of each column of a world.
TBS_SYSTEM void store(World &world, Hoard &hoard) {
    constexpr u32 last_mark = sizeof(Hoard) - 1;
    hoard.marks[last_mark] = u8(hoard.marks[last_mark] + 1);
    const Rows<Book> books = world.rows<Shelf, Book>();
    books[books.size() - 1].text[4095] = u8(10 * (world.id + 1) + world.step());
    Crate crate{};
    crate.number[1023] = i32(100 * world.id + world.step());
    world.create<Crates>(crate);
}

TBS_SYSTEM void age(World &, Crate &crate) { crate.number[0] += 1; }

TBS_SYSTEM void drop(World &world, Entity self, const Crate &crate) {
    if (crate.number[0] == 3) world.destroy<Crates>(self);
}

TBS_SYSTEM void look(World &world, const Hoard &hoard, const Dial &dial, Sight &sight) {
    const Rows<const Book> books = world.rows<Shelf, const Book>();
    const Rows<const Crate> crates = world.rows<Crates, const Crate>();
    sight.seen[0] = hoard.marks[sizeof(Hoard) - 1];
    sight.seen[1] = books[books.size() - 1].text[4095];
    sight.seen[2] = i32(crates.size());
    sight.seen[3] = crates[0].number[1023];
    sight.seen[4] = i32(dial.turns[1999]);
}
