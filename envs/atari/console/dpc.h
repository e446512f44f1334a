// The DPC of Pitfall II: eight fetchers read 2 KiB of data, and a shift register makes random numbers, a step for each
// access to the DPC's registers or the last 64 bytes of the cartridge. The cartridge's RAM holds the registers.
#pragma once

constexpr u32 DPC_TOPS = 0, DPC_BOTTOMS = 8, DPC_LOWS = 16, DPC_HIGHS = 24, DPC_FLAGS = 32, DPC_MUSIC = 40;
constexpr u32 DPC_RANDOM = 43;
constexpr u32 DPC_DATA = 0x2000;  // in the ROM, the last byte first

TBS_FUNCTION void reset_dpc(Machine &machine) {
    for (u32 i = 0; i < 44; ++i) machine.extra.bytes[i] = 0;
    machine.extra.bytes[DPC_RANDOM] = 1;
}

TBS_FUNCTION void shift_dpc(Machine &machine) {
    u8 &random = machine.extra.bytes[DPC_RANDOM];
    const u32 bit = ~(random >> 7 ^ random >> 5 ^ random >> 4 ^ random >> 3) & 1;
    random = u8(random << 1 | bit);
}

TBS_FUNCTION u8 read_dpc(Machine &machine, u32 low) {
    u8 *bytes = machine.extra.bytes;
    const u32 i = low & 7, function = low >> 3 & 7;
    u8 &flag = bytes[DPC_FLAGS + i];
    if (bytes[DPC_LOWS + i] == bytes[DPC_TOPS + i]) {
        flag = 0xFF;
    } else if (bytes[DPC_LOWS + i] == bytes[DPC_BOTTOMS + i]) {
        flag = 0;
    }
    const bool music = i >= 5 && bytes[DPC_MUSIC + i - 5];
    const u32 counter = u32{bytes[DPC_HIGHS + i]} << 8 | bytes[DPC_LOWS + i];
    const u8 data = machine.rom[DPC_DATA + (0x7FF - (counter & 0x7FF))];
    u8 value = 0;
    switch (function) {
        case 0: value = i < 4 ? bytes[DPC_RANDOM] : 0; break;
        case 1: value = data; break;
        case 2: value = data & flag; break;
        case 7: value = flag; break;
        default: break;
    }
    if (!music) {
        const u32 next = (counter - 1) & 0x7FF;
        bytes[DPC_LOWS + i] = u8(next);
        bytes[DPC_HIGHS + i] = u8(next >> 8);
    }
    return value;
}

TBS_FUNCTION void write_dpc(Machine &machine, u32 low, u8 value) {
    u8 *bytes = machine.extra.bytes;
    const u32 i = low & 7;
    switch (low >> 3 & 7) {
        case 0:
            bytes[DPC_TOPS + i] = value;
            bytes[DPC_FLAGS + i] = 0;
            break;
        case 1: bytes[DPC_BOTTOMS + i] = value; break;
        case 2: bytes[DPC_LOWS + i] = i >= 5 && bytes[DPC_MUSIC + i - 5] ? bytes[DPC_TOPS + i] : value; break;
        case 3:
            bytes[DPC_HIGHS + i] = value & 7;
            if (i >= 5) bytes[DPC_MUSIC + i - 5] = value >> 4 & 1;
            break;
        case 6: bytes[DPC_RANDOM] = 1; break;
        default: break;
    }
}
