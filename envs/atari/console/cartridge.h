// Cartridges: windows of 1 KiB into the ROM, which accesses to hot spots move.
#pragma once

// All windows from the numbers of 1 KiB slices. FE has its first bank where bit 13 of the address is set.
TBS_FUNCTION void set_windows(Machine &machine) {
    machine.code_size = 0;
    for (u32 i = 0; i < 4; ++i) {
        machine.windows[i] = u16(machine.cartridge.slices[i] << 10);
        machine.windows[8 + i] = machine.facts.mapper == MAPPER_FE ? u16(i << 10) : machine.windows[i];
        if (machine.facts.mapper == MAPPER_FE) machine.windows[i] = u16((4 + i) << 10);
    }
}

TBS_FUNCTION void select_bank(Machine &machine, u32 bank) {
    for (u32 i = 0; i < 4; ++i) machine.cartridge.slices[i] = u8(4 * bank + i);
    set_windows(machine);
}

TBS_FUNCTION void plug_in(Machine &machine) {
    const u8 mapper = machine.facts.mapper;
    machine.plain_first = machine.facts.extra_ram ? 0x100 : mapper == MAPPER_DPC ? 0x80 : 0;
    const u32 end = mapper == MAPPER_E0    ? 0xFE0
                    : mapper == MAPPER_F6  ? 0xFF6
                    : mapper == MAPPER_F8  ? 0xFF8
                    : mapper == MAPPER_DPC ? 0xFC0
                                           : 0x1000;
    machine.plain_count = end - machine.plain_first;
    set_windows(machine);
}

TBS_FUNCTION void reset_cartridge(Machine &machine) {
    const u8 mapper = machine.facts.mapper;
    select_bank(machine, mapper == MAPPER_F8 || mapper == MAPPER_DPC ? 1 : 0);
    if (Constants::dpc && mapper == MAPPER_DPC) reset_dpc(machine);
    if (mapper == MAPPER_E0) {
        for (u32 i = 0; i < 4; ++i) machine.cartridge.slices[i] = u8(4 + i);
        set_windows(machine);
    }
}

TBS_FUNCTION void touch_hot_spot(Machine &machine, u32 low) {
    const u8 mapper = machine.facts.mapper;
    if (Constants::dpc && mapper == MAPPER_DPC && (low < 0x80 || low >= 0xFC0)) shift_dpc(machine);
    if (mapper == MAPPER_F8 || mapper == MAPPER_DPC) {
        if (low == 0xFF8 || low == 0xFF9) select_bank(machine, low - 0xFF8);
    } else if (mapper == MAPPER_F6) {
        if (low >= 0xFF6 && low <= 0xFF9) select_bank(machine, low - 0xFF6);
    } else if (mapper == MAPPER_E0 && low >= 0xFE0 && low <= 0xFF7) {
        machine.cartridge.slices[(low - 0xFE0) >> 3] = u8(low & 7);
        set_windows(machine);
    }
}

TBS_FUNCTION u8 rom_byte(const Machine &machine, u32 address) {
    return machine.rom[machine.windows[address >> 10 & 11] + (address & 0x3FF)];
}

// Any read of the cartridge.
TBS_CALLED u8 read_cartridge(Machine &machine, u32 address) {
    const u32 low = address & 0xFFF;
    touch_hot_spot(machine, low);
    if (Constants::dpc && machine.facts.mapper == MAPPER_DPC && low < 0x40) return read_dpc(machine, low);
    const bool extra = Constants::cartridge_ram && machine.facts.extra_ram && low >= 0x80 && low < 0x100;
    if (extra) return machine.extra.bytes[low & 0x7F];
    return rom_byte(machine, address);
}

TBS_CALLED void write_cartridge(Machine &machine, u32 address, u8 value) {
    const u32 low = address & 0xFFF;
    touch_hot_spot(machine, low);
    const bool dpc = Constants::dpc && machine.facts.mapper == MAPPER_DPC && low >= 0x40 && low < 0x80;
    if (dpc) write_dpc(machine, low, value);
    if (Constants::cartridge_ram && machine.facts.extra_ram && low < 0x80) machine.extra.bytes[low] = value;
}
