// The beam of the TIA: what it draws, and which objects it sees collide. It follows the processor late: registers that
// change what it draws let it catch up first.
#pragma once

// Bits of Tia::collisions: bit 2r is bit 7 of the register r, bit 2r + 1 its bit 6.
TBS_FUNCTION u32 collisions_of(const u64 (&lit)[OBJECTS]) {
    const u64 p0 = lit[PLAYER0], p1 = lit[PLAYER1], m0 = lit[MISSILE0], m1 = lit[MISSILE1], ball = lit[BALL];
    const u64 field = lit[PLAYFIELD];
    u32 found = u32{(m0 & p1) != 0} | u32{(m0 & p0) != 0} << 1 | u32{(m1 & p0) != 0} << 2 | u32{(m1 & p1) != 0} << 3;
    found |= u32{(p0 & field) != 0} << 4 | u32{(p0 & ball) != 0} << 5;
    found |= u32{(p1 & field) != 0} << 6 | u32{(p1 & ball) != 0} << 7;
    found |= u32{(m0 & field) != 0} << 8 | u32{(m0 & ball) != 0} << 9;
    found |= u32{(m1 & field) != 0} << 10 | u32{(m1 & ball) != 0} << 11;
    found |= u32{(ball & field) != 0} << 12;
    found |= u32{(p0 & p1) != 0} << 14 | u32{(m0 & m1) != 0} << 15;
    return found;
}

// By sets of objects that show, as bits, the pairs: all but those with an object that does not show.
struct Pairs {
    u16 of[1u << OBJECTS] = {};

    TBS_METHOD constexpr Pairs() {
        constexpr u32 of_object[OBJECTS] = {0x4036, 0x40C9, 0x8303, 0x8C0C, 0x1AA0, 0x1550};
        for (u32 on = 0; on < 1u << OBJECTS; ++on) {
            u32 pairs = 0xDFFF;
            for (u32 i = 0; i < OBJECTS; ++i) pairs &= ~of_object[i] | (0 - (on >> i & 1));
            of[on] = u16(pairs);
        }
    }
};

TBS_FUNCTION u32 pairs_of(u32 on) {
    TBS_CONSTANT Pairs pairs;
    return pairs.of[on];
}

// The bits [first, end) of the columns of a word, which begins at column 64 * word.
TBS_FUNCTION u64 part_of(i32 first, i32 end, i32 word) {
    const i32 low = max(first - 64 * word, 0), high = min(end - 64 * word, 64);
    return low >= high ? 0 : (~u64{0} << low) & (~u64{0} >> (64 - high));
}

TBS_FUNCTION void collide(Machine &machine, i32 first, i32 end) {
    for (i32 word = first >> 6; word <= (end - 1) >> 6; ++word) {
        const u64 part = part_of(first, end, word) & machine.several.words[word];
        if (!part) continue;
        u64 lit[OBJECTS];
        for (u32 i = 0; i < OBJECTS; ++i) lit[i] = machine.columns[i].words[word] & part;
        machine.tia.collisions = u16(machine.tia.collisions | collisions_of(lit));
    }
}

// Each of the lowest 8 bits as a byte of zeros or ones, the lowest first.
struct Spread {
    u64 of[256] = {};

    TBS_METHOD constexpr Spread() {
        for (u32 bits = 0; bits < 256; ++bits) {
            for (u32 i = 0; i < 8; ++i) of[bits] |= u64{bits >> i & 1} * 0xFF << (8 * i);
        }
    }
};

TBS_FUNCTION u64 bytes_of(u64 bits) {
#ifdef TBS_ON_DEVICE  // where lanes would read a table one after the other
    const u64 spread = (bits & 0x7F) * 0x0002040810204081 | (bits & 0x80) << 49;
    return (spread & 0x0101010101010101) * 0xFF;
#else
    TBS_CONSTANT Spread spread;
    return spread.of[bits & 0xFF];
#endif
}

// Bits of what shows, of some columns: players with their missiles, and playfield and ball.
template <class Bits>
struct Layers {
    Bits first_player, second_player, behind;
};

// `part` of the columns are drawn, `left` lie in the left half.
template <class Bits>
TBS_FUNCTION Layers<Bits> layers_of(const Tia &tia, Layers<Bits> lit, Bits field, Bits part, Bits left) {
    const bool priority = tia.control >> 2 & 1, score = !priority && (tia.control >> 1 & 1);
    lit.first_player &= part;
    lit.second_player &= part;
    lit.behind &= part;
    if (priority) {
        lit.first_player &= ~lit.behind;
        lit.second_player &= ~lit.behind & ~lit.first_player;
    } else if (score) {
        left &= part;
        lit.first_player |= field & left;
        lit.second_player = (lit.second_player | (field & part & ~left)) & ~lit.first_player;
        lit.behind &= ~(lit.first_player | lit.second_player);
    } else {
        lit.second_player &= ~lit.first_player;
        lit.behind &= ~(lit.first_player | lit.second_player);
    }
    return lit;
}

// Colours of eight columns: the background, and by which bits the others differ from it.
struct Paint {
    u64 background, first_player, second_player, behind;

    TBS_METHOD explicit Paint(const Tia &tia) {
        const u64 every = 0x0101010101010101;
        background = tia.colors[3] * every;
        first_player = (tia.colors[0] * every) ^ background;
        second_player = (tia.colors[1] * every) ^ background;
        behind = (tia.colors[2] * every) ^ background;
    }
    // By the lowest eight bits of layers.
    template <class Bits>
    TBS_METHOD u64 differences(const Layers<Bits> &lit) const {
        const u64 players = (first_player & bytes_of(lit.first_player)) ^ (second_player & bytes_of(lit.second_player));
        return players ^ (behind & bytes_of(lit.behind));
    }
};

TBS_FUNCTION u8 *picture_of(const auto &machine) {
    return machine.pictures + machine.tia.picture * Constants::lines * WIDTH;
}
TBS_FUNCTION u8 *current_line(const auto &machine) { return picture_of(machine) + machine.tia.line * WIDTH; }

// The background, then what is lit, eight columns at a time.
TBS_CALLED void draw(const auto &machine, i32 first, i32 end) {
    const Tia &tia = machine.tia;
    u8 *line = current_line(machine);
    const u8 color = tia.blanked ? 0 : tia.colors[3];
    if (end - first == WIDTH) {
        for (i32 x = 0; x < WIDTH; ++x) line[x] = color;
    } else {
        for (i32 x = first; x < end; ++x) line[x] = color;
    }
    if (tia.blanked || !machine.on) return;
    const Paint paint(tia);
    for (i32 word = first >> 6; word <= (end - 1) >> 6; ++word) {
        const u64 part = part_of(first, end, word);
        const u64 first_player = machine.columns[PLAYER0].words[word] | machine.columns[MISSILE0].words[word];
        const u64 second_player = machine.columns[PLAYER1].words[word] | machine.columns[MISSILE1].words[word];
        const u64 field = machine.columns[PLAYFIELD].words[word], behind = field | machine.columns[BALL].words[word];
        u64 lit = (first_player | second_player | behind) & part;
        if (!lit) continue;
        Layers<u64> layers{first_player, second_player, behind};
        layers = layers_of(tia, layers, field, part, part_of(0, WIDTH / 2, word));
        for (u8 *to = line + 64 * word; lit; to += 8) {
            if (lit & 0xFF) store_eight(to, load_eight(to) ^ paint.differences(layers));
            lit >>= 8;
            layers.first_player >>= 8;
            layers.second_player >>= 8;
            layers.behind >>= 8;
        }
    }
}

TBS_FUNCTION void draw_piece(auto &machine, i32 first, i32 end) {
    draw(machine, first, end);
    if (!machine.tia.comb) return;
    u8 *line = current_line(machine);
    for (i32 i = first; i < min(end, 8); ++i) line[i] = 0;
}

// The same of a strip, which is in memory once its last column is drawn.
TBS_FUNCTION void draw_piece(Strip &strip, i32 first, i32 end) {
    const Tia &tia = strip.tia;
    const i32 low = max(first - strip.first, 0), high = min(end - strip.first, STRIP);
    if (low >= high) return;
    const u32 part = (0xFFu << low) & (0xFFu >> (STRIP - high)), *lit = strip.lit;
    Layers<u32> layers{lit[PLAYER0] | lit[MISSILE0], lit[PLAYER1] | lit[MISSILE1], lit[PLAYFIELD] | lit[BALL]};
    layers = layers_of(tia, layers, lit[PLAYFIELD], part, strip.first < WIDTH / 2 ? part : 0);
    const Paint paint(tia);
    const u64 drawn = bytes_of(part), combed = tia.comb && strip.first == 0;
    const u64 pixels = tia.blanked || combed ? 0 : paint.background ^ paint.differences(layers);
    strip.pixels = (strip.pixels & ~drawn) | (pixels & drawn);
    if (high == STRIP) store_eight(current_line(strip) + strip.first, strip.pixels);
}

// The clocks [first, end) of a line.
template <class Pass>
TBS_FUNCTION void piece(Pass &machine, i32 first, i32 end) {
    if (end <= BLANK) return;
    Tia &tia = machine.tia;
    const i32 x = max(first - BLANK, 0), to = end - BLANK;
    const bool may_collide = Pass::collides && !tia.blanked && machine.pairs & ~u32{tia.collisions};
    if (machine.dirty && (may_collide || machine.shows())) update_columns(machine);
    if constexpr (Pass::collides) {
        if (may_collide) collide(machine, x, to);
    }
    if (machine.shows()) draw_piece(machine, x, to);
    if (tia.comb && x < 8 && to >= 8) tia.comb = 0;
}

TBS_FUNCTION void star_step(auto &machine) {
    constexpr i32 moves[4] = {18, 33, 0, 17};
    Tia &tia = machine.tia;
    tia.star_phase = (tia.star_phase + 1) & 3;
    const i32 x = tia.x[MISSILE0] - moves[tia.star_phase];
    tia.x[MISSILE0] = u8(x < 0 ? x + WIDTH : x);
    tia.star_shape = tia.star_phase == 1 ? 1 : tia.star_phase == 2 ? 2 : 0;
    machine.dirty |= 1u << MISSILE0;
}

TBS_FUNCTION void end_line(auto &machine) {
    Tia &tia = machine.tia;
    tia.left = LINE;
    tia.line += 1;
    if (tia.mirrored != (tia.control & 1)) {
        tia.mirrored = tia.control & 1;
        machine.dirty |= 1u << PLAYFIELD;
    }
    for (u32 i = 0; i < 2; ++i) {
        machine.dirty |= u32{tia.skip_first[i]} << (PLAYER0 + i);
        tia.skip_first[i] = 0;
    }
    if (tia.star) star_step(machine);
}

// Lines that are as the one before.
TBS_FUNCTION void copy_line(const auto &machine) {
    u8 *to = current_line(machine);
    const u8 *from = to - WIDTH;
    for (i32 x = 0; x < WIDTH; ++x) to[x] = from[x];
}
TBS_FUNCTION void copy_line(const Strip &strip) { store_eight(current_line(strip) + strip.first, strip.pixels); }

TBS_CALLED void draw_and_collide(auto &machine, i32 clock) {
    Tia &tia = machine.tia;
    while (clock > tia.last + i32(tia.left)) {
        piece(machine, LINE - tia.left, LINE);
        tia.last += tia.left;
        end_line(machine);
        bool first = true;  // of the whole lines that follow
        while (clock > tia.last + LINE && !tia.comb && !tia.star) {
            if (first) {
                piece(machine, 0, LINE);
            } else if (machine.shows()) {
                copy_line(machine);
            }
            first = false;
            tia.last += LINE;
            tia.line += 1;
        }
    }
    piece(machine, LINE - tia.left, LINE - tia.left + (clock - tia.last));
    tia.left = u8(tia.left - (clock - tia.last));
    tia.last = clock;
}

// Moves the beam where it draws nothing and no objects can collide.
TBS_FUNCTION void pass(auto &machine, i32 clock) {
    Tia &tia = machine.tia;
    constexpr i32 combed = BLANK + 8;
    while (clock > tia.last + i32(tia.left)) {
        if (tia.left > LINE - combed) tia.comb = 0;
        tia.last += tia.left;
        end_line(machine);
    }
    const i32 from = LINE - tia.left, to = from + (clock - tia.last);
    if (from < combed && to >= combed) tia.comb = 0;
    tia.left = u8(LINE - to);
    tia.last = clock;
}

TBS_CALLED void move_beam(auto &machine) {
    const Tia &tia = machine.tia;
    const i32 clock = min(machine.due, machine.stop);
    if (clock <= tia.last) return;
    if (machine.changed) {
        machine.changed = false;
        machine.on = objects_on(tia);
        machine.pairs = machine.collides ? pairs_of(machine.on) : 0;
    }
    if (machine.shows() || (machine.pairs & ~u32{tia.collisions})) {
        draw_and_collide(machine, clock);
    } else {
        pass(machine, clock);
    }
}

// Lets the beam reach `due`. While that lies in the blank of its line, there is nothing to see and time to do so later.
TBS_FUNCTION void catch_up(auto &machine) {
    const Tia &tia = machine.tia;
    if (machine.due - tia.last > i32(tia.left) - WIDTH) move_beam(machine);
}
