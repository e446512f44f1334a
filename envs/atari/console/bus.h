// What the processor reads and writes, by address: cartridge, TIA, RAM, RIOT.
#pragma once

TBS_FUNCTION u8 read_other(Machine &machine, u32 address, u8 bus, i32 cycle) {
    if (address & 0x1000) return read_cartridge(machine, address);
    if (!(address & 0x80)) return read_tia(machine, address, bus, cycle);
    return address & 0x200 ? read_riot(machine, address, cycle) : machine.ram.bytes[address & 0x7F];
}

TBS_CALLED u8 read_device(Machine &machine, u32 address, u8 bus, i32 cycle) {
    return read_other(machine, address, bus, cycle);
}

// `bus` is the byte that was on the data bus before.
TBS_FUNCTION u8 read(Machine &machine, u32 address, u32 bus, i32 cycle) {
    const bool plain = (address & 0xFFF) - machine.plain_first < machine.plain_count;
    if (address & 0x1000 && plain) [[likely]] return rom_byte(machine, address);
    return read_device(machine, address, u8(bus), cycle);
}

TBS_FUNCTION u8 read_zero_page(Machine &machine, u32 address, u32 bus, i32 cycle) {
    return address & 0x80 ? machine.ram.bytes[address & 0x7F] : read_tia(machine, address, u8(bus), cycle);
}

// All but registers of the TIA.
TBS_CALLED void write_device(Machine &machine, u32 address, u8 value, i32 cycle) {
    if (address & 0x1000) {
        write_cartridge(machine, address, value);
    } else if (address & 0x200) {
        write_riot(machine, address, value, cycle);
    } else {
        machine.ram.bytes[address & 0x7F] = value;
    }
}
