// The six objects of the TIA as bits of columns: where on a line each one shows.
#pragma once

TBS_FUNCTION u32 reversed(u32 byte) {
    byte = (byte & 0x55) << 1 | (byte >> 1 & 0x55);
    byte = (byte & 0x33) << 2 | (byte >> 2 & 0x33);
    return (byte & 0x0F) << 4 | byte >> 4;
}

// Each of the lowest 16 bits four times.
TBS_FUNCTION u64 four_times(u64 bits) {
    bits = (bits | bits << 24) & 0x000000FF000000FF;
    bits = (bits | bits << 12) & 0x000F000F000F000F;
    bits = (bits | bits << 6) & 0x0303030303030303;
    bits = (bits | bits << 3) & 0x1111111111111111;
    return bits * 15;
}

TBS_FUNCTION u64 twice(u64 byte) {
    byte = (byte | byte << 4) & 0x0F0F;
    byte = (byte | byte << 2) & 0x3333;
    byte = (byte | byte << 1) & 0x5555;
    return byte * 3;
}

// Up to 32 columns at x, which may reach beyond column 159.
TBS_FUNCTION void put(Columns &columns, u64 bits, u32 x) {
    x = x >= WIDTH ? x - WIDTH : x;
    const u32 word = x >> 6, shift = x & 63;
    columns.words[word] |= bits << shift;
    if (word < 2) columns.words[word + 1] |= (bits >> 1) >> (63 - shift);
}

// What reaches beyond column 159 shows at column 0.
TBS_FUNCTION void wrap(Columns &columns) {
    columns.words[0] |= columns.words[2] >> 32;
    columns.words[2] &= 0xFFFFFFFF;
}

// The same of a strip.
TBS_FUNCTION void put(StripColumns &columns, u64 bits, u32 x) {
    const u32 low = u32(bits);
    const i32 shift = i32(x >= WIDTH ? x - WIDTH : x) - columns.first, wrapped = shift - WIDTH;
    if (shift >= 0 && shift < STRIP) columns.bits |= low << shift;
    if (shift < 0 && shift > -32) columns.bits |= low >> -shift;
    if (wrapped > -32) columns.bits |= low >> -wrapped;
}
TBS_FUNCTION void wrap(StripColumns &columns) { columns.bits &= (1u << STRIP) - 1; }

// The offsets of copies 1 and 2 by NUSIZ; 0: none.
TBS_FUNCTION u32 second_copy(u32 mode) {
    return mode == 1 || mode == 3 ? 16 : mode == 2 || mode == 6 ? 32 : mode == 4 ? 64 : 0;
}
TBS_FUNCTION u32 third_copy(u32 mode) { return mode == 3 ? 32 : mode == 6 ? 64 : 0; }

TBS_FUNCTION u8 graphics_of(const Tia &tia, u32 player) {
    return tia.vertical_delay[player] ? tia.delayed[player] : tia.graphics[player];
}

TBS_FUNCTION bool missile_shows(const Tia &tia, u32 missile) { return tia.missile_on[missile] && !tia.locked[missile]; }

TBS_FUNCTION bool ball_shows(const Tia &tia) { return tia.vertical_delay[2] ? tia.ball_delayed : tia.ball_on; }

TBS_FUNCTION u32 objects_on(const Tia &tia) {
    u32 on = 0;
    on |= u32{graphics_of(tia, 0) != 0} << PLAYER0 | u32{graphics_of(tia, 1) != 0} << PLAYER1;
    on |= u32{missile_shows(tia, 0)} << MISSILE0 | u32{missile_shows(tia, 1)} << MISSILE1;
    on |= u32{ball_shows(tia)} << BALL;
    on |= u32{(tia.playfield[0] | tia.playfield[1] | tia.playfield[2]) != 0} << PLAYFIELD;
    return on;
}

// Where an object shows, of the columns that `columns` has, a whole line or a strip; none of them is set before.
template <class Some>
TBS_FUNCTION Some copies(Some columns, u64 bits, u32 x, u32 mode, bool first) {
    const u32 second = second_copy(mode), third = third_copy(mode);
    if (first) put(columns, bits, x);
    if (second) put(columns, bits, x + second);
    if (third) put(columns, bits, x + third);
    wrap(columns);
    return columns;
}

template <class Some>
TBS_FUNCTION Some player_columns(Some none, const Tia &tia, u32 player) {
    const u32 graphics = graphics_of(tia, player), mode = tia.copies[player] & 7;
    const u32 bits = tia.reflected[player] ? graphics : reversed(graphics);
    const bool first = !tia.skip_first[player];
    if (mode == 5) return copies(none, twice(bits), u32(tia.x[player]) + 1, mode, first);
    if (mode == 7) return copies(none, four_times(bits), u32(tia.x[player]) + 1, mode, first);
    return copies(none, bits, tia.x[player], mode, first);
}

template <class Some>
TBS_FUNCTION Some missile_columns(Some none, const Tia &tia, u32 missile) {
    u32 width = 1u << (tia.copies[missile] >> 4 & 3);
    if (missile == 0 && tia.star_shape == 1 && width < 2) width = 2;
    const u64 bits = (u64{1} << width) - 1;
    return copies(none, bits, tia.x[MISSILE0 + missile], tia.copies[missile] & 7, true);
}

template <class Some>
TBS_FUNCTION Some ball_columns(Some none, const Tia &tia) {
    const u64 bits = (u64{1} << (1u << (tia.control >> 4 & 3))) - 1;
    return copies(none, bits, tia.x[BALL], 0, true);
}

// Twenty cells of four columns in each half.
TBS_FUNCTION void put_cells(Columns &columns, u32 left, u32 right) {
    columns.words[0] = four_times(left & 0xFFFF);
    columns.words[1] = four_times(left >> 16) | four_times(right & 0xFFF) << 16;
    columns.words[2] = four_times(right >> 12);
}
TBS_FUNCTION void put_cells(StripColumns &columns, u32 left, u32 right) {
    const u32 half = WIDTH / 2, first = u32(columns.first);
    const u32 cells = first < half ? left >> first / 4 : right >> (first - half) / 4;
    columns.bits = (cells & 1) * 0x0F | (cells & 2) * 0x78;
}

// The left half, and it again or reversed.
template <class Some>
TBS_FUNCTION Some playfield_columns(Some columns, const Tia &tia) {
    const u32 low = tia.playfield[0] >> 4, middle = reversed(tia.playfield[1]), high = tia.playfield[2];
    const u32 cells = low | middle << 4 | high << 12;
    const u32 mirrored = reversed(high) | u32(tia.playfield[1]) << 8 | (reversed(tia.playfield[0]) & 15) << 16;
    const u32 right = tia.mirrored ? mirrored : cells;
    put_cells(columns, cells, right);
    return columns;
}

// These objects look different, and it may be that they show now, or do no more.
TBS_FUNCTION void touch(auto &machine, u32 objects) {
    machine.dirty |= objects;
    machine.changed = true;
}

TBS_FUNCTION void find_several(Machine &machine) {
    for (u32 word = 0; word < 4; ++word) {
        u64 any = 0, several = 0;
        TBS_UNROLL
        for (u32 i = 0; i < OBJECTS; ++i) {
            several |= any & machine.columns[i].words[word];
            any |= machine.columns[i].words[word];
        }
        machine.several.words[word] = several;
    }
}

template <class Pass>
TBS_CALLED void update_columns(Pass &machine) {
    const Tia &tia = machine.tia;
    const u32 dirty = machine.dirty;
    const auto none = machine.none();
    for (u32 i = 0; i < 2; ++i) {
        if (dirty >> (PLAYER0 + i) & 1) {
            machine.show(PLAYER0 + i, machine.on >> (PLAYER0 + i) & 1 ? player_columns(none, tia, i) : none);
        }
        if (dirty >> (MISSILE0 + i) & 1) {
            machine.show(MISSILE0 + i, machine.on >> (MISSILE0 + i) & 1 ? missile_columns(none, tia, i) : none);
        }
    }
    if (tia.star_shape == 2) machine.show(MISSILE0, none);  // hidden for this line
    if (dirty >> BALL & 1) machine.show(BALL, machine.on >> BALL & 1 ? ball_columns(none, tia) : none);
    if (dirty >> PLAYFIELD & 1) {
        machine.show(PLAYFIELD, machine.on >> PLAYFIELD & 1 ? playfield_columns(none, tia) : none);
    }
    machine.dirty = 0;
    if constexpr (Pass::collides) find_several(machine);
}
