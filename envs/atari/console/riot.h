// The RIOT 6532: timer, joysticks and switches.
#pragma once

// The timer counts down from the value written, one step each 1 << shift cycles; after its expiry, one each cycle.
TBS_FUNCTION i32 timer_of(const Riot &riot, i32 cycle) {
    const u32 since = u32(cycle - 1) - u32(riot.set);
    return i32(riot.value) - i32(since >> riot.shift) - 1;
}

TBS_FUNCTION u8 read_timer(Riot &riot, i32 cycle) {
    const i32 left = timer_of(riot, cycle);
    if (left >= 0) return u8(left);
    const u32 since = u32(cycle - 1) - u32(riot.set);
    const i32 written = i32(riot.value) << riot.shift;
    const i32 past = i32(u32(written) - since - 1);
    if (past <= -2 && !riot.late) {
        riot.late = 1;
        riot.late_cycle = cycle;
    }
    if (!riot.late) return u8(past);
    return u8(i32(riot.value) - i32(since >> riot.shift) - (riot.late_cycle - (riot.set + written)));
}

TBS_CALLED u8 read_riot(Machine &machine, u32 address, i32 cycle) {
    Riot &riot = machine.riot;
    switch (address & 7) {
        case 0: return machine.inputs.joysticks;
        case 1: return riot.direction;
        case 2: return machine.inputs.console;
        case 3: return 0;
        case 4:
        case 6: return read_timer(riot, cycle);
        default: return timer_of(riot, cycle) >= 0 || riot.late ? 0 : 0x80;
    }
}

TBS_CALLED void write_riot(Machine &machine, u32 address, u8 value, i32 cycle) {
    Riot &riot = machine.riot;
    if ((address & 0x14) == 0x14) {
        const u32 divider = address & 3;
        riot.shift = divider == 0 ? 0 : divider == 1 ? 3 : divider == 2 ? 6 : 10;
        riot.value = value;
        riot.set = cycle;
        riot.late = 0;
    } else if ((address & 7) == 1) {
        riot.direction = value;
    }
}
