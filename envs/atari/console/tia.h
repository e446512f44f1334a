// The registers of the TIA. A write acts at the end of its instruction, some registers some clocks later.
// Most writes change nothing, so that each register has a function, which first asks for that.
#pragma once

TBS_FUNCTION i32 clock_of_line(const Tia &tia, i32 clock) { return i32(u32(clock - tia.frame) % u32(LINE)); }

// The beam sees the registers as they are up to this clock, whatever changes now.
TBS_FUNCTION void hold_until(auto &machine, i32 clock) { machine.due = max(machine.due, clock); }

TBS_FUNCTION void change(auto &machine, u32 objects) {
    catch_up(machine);
    touch(machine, objects);
}

TBS_FUNCTION u8 add_columns(i32 x, i32 move) {
    x += move;
    return u8(x < 0 ? x + WIDTH : x >= WIDTH ? x - WIDTH : x);
}

// What HMOVE makes of a motion: it adds `more`, and keeps within `least` and `most`.
struct Motions {
    i32 more, least, most;
};

// By the cycle of the line: late ones move less far.
TBS_FUNCTION Motions motions_at(i32 cycle) {
    TBS_CONSTANT i8 low[21] = {-7, -7, -7, -7, -6, -5, -5, -4, -3, -2, -2, -1, 0, 1, 1, 2, 3, 4, 4, 5, 6};
    TBS_CONSTANT i8 late[20] = {6, 5, 4, 4, 3, 2, 1, 1, 0, -1, -2, -2, -3, -4, -5, -5, -6, -7, -8, -8};
    if (cycle <= 20) return {0, low[cycle], 8};
    if (cycle == 75) return {0, -8, 8};
    if (cycle > 54) return {late[cycle - 55], -16, 0};
    return {0, 0, 0};
}

TBS_CALLED void move_objects(auto &machine, i32 clock) {
    Tia &tia = machine.tia;
    const i32 cycle = clock_of_line(tia, clock) / 3;
    hold_until(machine, clock);
    catch_up(machine);
    if (machine.facts.comb && (cycle <= 20 || cycle == 75)) tia.comb = 1;
    const Motions motions = motions_at(cycle);
    const bool rest = motions.least <= 0 && motions.more == 0;  // those without motion
    TBS_UNROLL
    for (u32 i = 0; i < 5; ++i) {
        if (rest && tia.motion[i] == 0) continue;
        const i32 whole = tia.motion[i] < 8 ? -i32(tia.motion[i]) : 16 - i32(tia.motion[i]);
        const i32 motion = clamp(whole + motions.more, motions.least, motions.most);
        if (motion == 0) continue;
        tia.x[i] = add_columns(tia.x[i], motion);
        machine.dirty |= 1u << i;
    }
    if (tia.skip_first[0] | tia.skip_first[1] | tia.star | tia.star_shape) {
        machine.dirty |= 1u << PLAYER0 | 1u << PLAYER1 | 1u << MISSILE0;
        tia.skip_first[0] = tia.skip_first[1] = 0;
        tia.star = tia.star_shape = 0;
    }
    tia.moved = clock;
}

// RESP: whether the first copy shows on this line depends on where the new place falls on the old copies.
TBS_CALLED void place_player(auto &machine, u32 player, i32 clock) {
    Tia &tia = machine.tia;
    const i32 h = clock_of_line(tia, clock), x = h < BLANK ? 3 : (h - BLANK + 5) % WIDTH;
    const u32 mode = tia.copies[player] & 7;
    const i32 width = mode == 5 ? 16 : mode == 7 ? 32 : 8;
    const i32 offsets[3] = {0, i32(second_copy(mode)), i32(third_copy(mode))};
    bool begins = false, within = false;
    for (u32 i = 0; i < 3; ++i) {
        if (i > 0 && offsets[i] == 0) continue;
        i32 behind = x - (tia.x[player] + offsets[i]) % WIDTH;
        if (behind < 0) behind += WIDTH;
        begins = begins || behind < 4;
        within = within || (behind >= 4 && behind < 4 + width);
    }
    hold_until(machine, within ? clock + 11 : clock);
    change(machine, 1u << (PLAYER0 + player));
    tia.x[player] = u8(x);
    tia.skip_first[player] = within || !begins;
}

// RESM and RESBL, with the places that a recent HMOVE disturbs.
TBS_CALLED void place_small(auto &machine, u32 object, i32 clock) {
    Tia &tia = machine.tia;
    const i32 h = clock_of_line(tia, clock), since = clock - tia.moved;
    hold_until(machine, object == BALL ? clock : clock + 8);
    i32 x = h < BLANK ? 2 : (h - BLANK + 4) % WIDTH;
    if (object == MISSILE0 && since == 60 && h == 69) x = 8;
    if (object == MISSILE1 && since == 9 && h == 18) x = 3;
    if (object == BALL) {
        if (since == 54 && (h == 60 || h == 69)) x = 10;
        if (since == 9 && h == 18) x = 3;
        if (since == 21 && h == 30) x = 6;
        if (since == 18 && h == 27) x = 5;
    }
    if (tia.x[object] == x && !tia.star_shape) return;
    change(machine, 1u << object);
    tia.x[object] = u8(x);
    if (object == MISSILE0) tia.star_shape = 0;
}

// GRP0 or GRP1, where `objects` will look different.
template <u32 player>
TBS_FUNCTION void keep_graphics(Tia &tia, u8 value) {
    constexpr u32 other = 1 - player;
    tia.graphics[player] = value;
    tia.delayed[other] = tia.graphics[other];
    if (player == 1) tia.ball_delayed = tia.ball_on;
}

template <u32 player>
TBS_CALLED void change_graphics(auto &machine, u32 objects, u8 value) {
    change(machine, objects);
    keep_graphics<player>(machine.tia, value);
}

template <u32 player>
TBS_CALLED void set_graphics(auto &machine, u8 value, i32 clock) {
    Tia &tia = machine.tia;
    constexpr u32 other = 1 - player;
    hold_until(machine, clock + 1);
    const u32 own = u32{tia.graphics[player] != value} & ~u32{tia.vertical_delay[player]};
    const u32 late = u32{tia.delayed[other] != tia.graphics[other]} & tia.vertical_delay[other];
    const u32 ball = player == 1 ? u32{tia.ball_delayed != tia.ball_on} & tia.vertical_delay[2] : 0;
    const u32 objects = own << (PLAYER0 + player) | late << (PLAYER0 + other) | ball << BALL;
    if (objects) return change_graphics<player>(machine, objects, value);
    keep_graphics<player>(tia, value);
}

// A register of one byte that objects depend on.
TBS_CALLED void set(auto &machine, u8 &byte, u8 value, u32 objects, i32 clock) {
    hold_until(machine, clock);
    if (byte == value) return;
    change(machine, objects);
    byte = value;
}

TBS_CALLED void set_playfield(auto &machine, u32 part, u8 value, i32 clock) {
    const u32 cycle = u32(clock - machine.tia.frame) / 3 & 3;  // as in the line, which has 76
    const i32 later = 0x3254 >> (4 * cycle) & 15;              // by the cycle 4, 5, 2, 3
    set(machine, machine.tia.playfield[part], value, 1u << PLAYFIELD, clock + later);
}

TBS_CALLED void set_color(auto &machine, u32 which, u8 value, i32 clock) {
    Tia &tia = machine.tia;
    hold_until(machine, clock);
    value = (value & 0xFE) | (machine.facts.pal && (tia.lines & 1));
    if (tia.colors[which] == value) return;
    if (machine.is_shown()) catch_up(machine);
    tia.colors[which] = value;
}

TBS_CALLED void set_control(auto &machine, u8 value, i32 clock) {
    Tia &tia = machine.tia;
    hold_until(machine, clock);
    if (tia.control == value) return;
    change(machine, 1u << BALL);
    tia.control = value;
    if (clock_of_line(tia, clock) < 147 && tia.mirrored != (value & 1)) {
        tia.mirrored = value & 1;
        touch(machine, 1u << PLAYFIELD);
    }
}

TBS_CALLED void set_copies(auto &machine, u32 player, u8 value, i32 clock) {
    Tia &tia = machine.tia;
    hold_until(machine, clock + 8);
    if (tia.copies[player] == value && !tia.skip_first[player] && !tia.star_shape) return;
    change(machine, 1u << (PLAYER0 + player) | 1u << (MISSILE0 + player));
    tia.copies[player] = value;
    tia.skip_first[player] = 0;
    if (player == 0) tia.star_shape = 0;
}

// RESMP: a missile that is released lies in the middle of its player.
TBS_CALLED void lock_missile(auto &machine, u32 missile, u8 locked, i32 clock) {
    Tia &tia = machine.tia;
    hold_until(machine, clock);
    if (tia.locked[missile] == locked && !tia.star_shape) return;
    change(machine, 1u << (MISSILE0 + missile));
    if (tia.locked[missile] && !locked) {
        const u32 mode = tia.copies[missile] & 7;
        tia.x[MISSILE0 + missile] = add_columns(tia.x[missile], mode == 5 ? 8 : mode == 7 ? 16 : 4);
    }
    tia.locked[missile] = locked;
    if (missile == 0) tia.star_shape = 0;
}

TBS_CALLED void set_motion(auto &machine, u32 object, u8 value, i32 clock) {
    Tia &tia = machine.tia;
    hold_until(machine, clock);
    if (object == MISSILE0 && clock == tia.moved + 63 && tia.motion[object] == 7 && value == 6) {
        change(machine, 1u << MISSILE0);
        tia.star = 1;
        tia.star_phase = 0;
    }
    tia.motion[object] = value;
}

TBS_CALLED void set_blank(auto &machine, u8 value, i32 cycle) {
    Tia &tia = machine.tia;
    hold_until(machine, 3 * cycle + 1);
    const u8 blanked = value >> 1 & 1, dumped = value >> 7;
    if (tia.blanked != blanked) catch_up(machine);
    tia.blanked = blanked;
    if (tia.dumped && !dumped) tia.dump_end = cycle;
    tia.dumped = dumped;
}

TBS_CALLED void set_sync(auto &machine, u8 value, i32 clock) {
    Tia &tia = machine.tia;
    hold_until(machine, clock);
    if (value & 2) {
        tia.sync_end = clock + LINE;
    } else if (clock >= tia.sync_end) {
        tia.sync_end = NEVER;
        machine.over = true;
    }
}

TBS_CALLED void clear_collisions(auto &machine, i32 clock) {
    hold_until(machine, clock);
    catch_up(machine);
    machine.tia.collisions = 0;
}

// WSYNC: the next instruction begins with a line.
TBS_FUNCTION i32 next_line(const Machine &machine, i32 cycle) {
    const i32 past = clock_of_line(machine.tia, 3 * cycle) / 3;
    return past == 0 ? cycle : cycle + 76 - past;
}

// All registers but WSYNC.
template <class Pass>
TBS_FUNCTION void write_register(Pass &machine, u32 number, u8 value, i32 cycle) {
    Tia &tia = machine.tia;
    const i32 clock = 3 * cycle;
    if constexpr (Pass::logs) log_write(machine, number, value, cycle);
    switch (number) {
        case 0x00: return set_sync(machine, value, clock);
        case 0x01: return set_blank(machine, value, cycle);
        case 0x04:
        case 0x05: return set_copies(machine, number - 0x04, value, clock);
        case 0x06:
        case 0x07:
        case 0x08:
        case 0x09: return set_color(machine, number - 0x06, value, clock);
        case 0x0A: return set_control(machine, value, clock);
        case 0x0B:
        case 0x0C: {
            const u32 player = number - 0x0B;
            return set(machine, tia.reflected[player], value >> 3 & 1, 1u << (PLAYER0 + player), clock + 1);
        }
        case 0x0D:
        case 0x0E:
        case 0x0F: return set_playfield(machine, number - 0x0D, value, clock);
        case 0x10:
        case 0x11: return place_player(machine, number - 0x10, clock);
        case 0x12:
        case 0x13:
        case 0x14: return place_small(machine, MISSILE0 + number - 0x12, clock);
        case 0x1B: return set_graphics<0>(machine, value, clock);
        case 0x1C: return set_graphics<1>(machine, value, clock);
        case 0x1D:
        case 0x1E: {
            const u32 missile = number - 0x1D;
            return set(machine, tia.missile_on[missile], value >> 1 & 1, 1u << (MISSILE0 + missile), clock);
        }
        case 0x1F: return set(machine, tia.ball_on, value >> 1 & 1, 1u << BALL, clock);
        case 0x20:
        case 0x21: tia.motion[number - 0x20] = value >> 4; break;
        case 0x22:
        case 0x23:
        case 0x24: return set_motion(machine, number - 0x20, value >> 4, clock);
        case 0x25:
        case 0x26:
        case 0x27: {
            const u32 which = number - 0x25, object = which == 2 ? BALL : PLAYER0 + which;
            return set(machine, tia.vertical_delay[which], value & 1, 1u << object, clock);
        }
        case 0x28:
        case 0x29: return lock_missile(machine, number - 0x28, value >> 1 & 1, clock);
        case 0x2A: return move_objects(machine, clock);
        case 0x2B:
            for (u32 i = 0; i < 5; ++i) tia.motion[i] = 0;
            break;
        case 0x2C: return clear_collisions(machine, clock);
        default: break;
    }
}

template <class Pass>
TBS_CALLED void write_tia(Pass &machine, u32 number, u8 value, i32 cycle) {
    write_register(machine, number, value, cycle);
}

// Whether the capacitor of a paddle has charged since the end of VBLANK's dump; resistance in ohms.
TBS_FUNCTION u8 paddle_charged(const Tia &tia, u32 charge_cycles, i32 cycle) {
    if (tia.dumped) return 0;
    return u32(cycle) > u32(tia.dump_end) + charge_cycles ? 0x80 : 0;
}

// The cycles for which a paddle's capacitor charges: 1.6 * resistance * 0.01e-6 F * 1.19e6 Hz.
TBS_FUNCTION u32 charge_cycles_of(i32 resistance) { return u32(i64{resistance} * 1904 / 100000); }

TBS_FUNCTION u8 input_of(const Machine &machine, u32 input, i32 cycle) {
    const Tia &tia = machine.tia;
    if (input >= 4) return (machine.inputs.fires >> (input - 4) & 1) << 7;
    const bool left = input < 2;
    if (left ? !machine.facts.left_paddles : !machine.facts.right_paddles) return 0;
    if (!left) return 0x80;
    const u32 paddle = input ^ machine.facts.swapped_paddles;
    return paddle_charged(tia, charge_cycles_of(paddle == 0 ? tia.paddle : middle_of_paddle(machine.facts)), cycle);
}

TBS_CALLED u8 read_tia(Machine &machine, u32 address, u8 bus, i32 cycle) {
    const u32 number = address & 0x0F, noise = bus & 0x3F;
    hold_until(machine, 3 * cycle);
    if (number < 8) {
        catch_up(machine);
        const u32 pair = machine.tia.collisions >> (2 * number) & 3;
        return u8((pair & 1) << 7 | (pair & 2) << 5 | noise);
    }
    return u8(number < 14 ? input_of(machine, number - 8, cycle) | noise : noise);
}
