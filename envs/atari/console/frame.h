// A console's life: power, and one frame after another.
#pragma once

TBS_FUNCTION void begin_clocks(Machine &machine) {
    Tia &tia = machine.tia;
    const bool pal = machine.facts.pal && !machine.finds_out;
    const i32 lines = machine.facts.pal && !pal ? 210 : machine.facts.lines;
    machine.stop = tia.frame + LINE * (machine.facts.first_line + lines);
    machine.cycle_limit = (tia.frame + LINE * (pal ? 343 : 291) + 2) / 3;
    machine.due = tia.last;
    touch(machine, EVERY_OBJECT);
    machine.over = false;
    machine.jam = 0;
}

TBS_FUNCTION void begin_lines(Machine &machine) {
    Tia &tia = machine.tia;
    tia.last = tia.frame + LINE * machine.facts.first_line;
    tia.left = LINE;
    tia.line = 0;
}

TBS_FUNCTION void blank_pictures(Machine &machine) {
    if (!machine.pictures) return;
    if (machine.logs) {
        empty_log(machine, true);
    } else {
        for (i32 i = 0; i < 2 * Constants::lines * WIDTH; ++i) machine.pictures[i] = 0;
    }
}

// Switches the console on: `draw` is a number of the console's generator. RAM stays as it is.
TBS_FUNCTION void power(Machine &machine, u32 draw) {
    machine.riot = Riot{};
    machine.riot.value = u8(25 + draw % 75);
    machine.riot.shift = 6;
    const i32 paddle = machine.tia.paddle;
    machine.tia = Tia{};
    machine.tia.paddle = paddle;
    machine.tia.sync_end = NEVER;
    begin_lines(machine);
    reset_cartridge(machine);
    plug_in(machine);
    machine.cpu = Cpu{};
    machine.cpu.sp = 0xFF;
    machine.cpu.flags = 0x30;
    const u32 first = read(machine, 0xFFFC, 0, 0);
    machine.cpu.pc = u16(first | u32{read(machine, 0xFFFD, first, 0)} << 8);
    blank_pictures(machine);
}

// The time begins anew with each frame.
TBS_FUNCTION void begin_frame(Machine &machine) {
    Tia &tia = machine.tia;
    const i32 cycle = machine.cpu.cycle, clock = 3 * cycle;
    tia.picture ^= 1;
    machine.riot.set -= cycle;
    machine.riot.late_cycle -= cycle;
    tia.dump_end -= cycle;
    tia.sync_end = i32(u32(tia.sync_end) - u32(clock));
    tia.moved = i32(u32(tia.moved) - u32(clock));
    tia.frame = -clock_of_line(tia, clock);
    machine.cpu.cycle = 0;
    begin_lines(machine);
    if (machine.facts.pal) {
        for (u32 i = 0; i < 4; ++i) tia.colors[i] = u8((tia.colors[i] & 0xFE) | (tia.lines & 1));
    }
}

// Runs a frame. Returns whether its picture is complete: else lines show what they did two frames before.
TBS_CALLED bool run_frame(Machine &machine) {
    Tia &tia = machine.tia;
    if (!tia.unfinished) begin_frame(machine);
    plug_in(machine);
    begin_clocks(machine);
    if (machine.logs && machine.drawing) open_frame(machine);
    execute(machine);
    catch_up(machine);
    const i32 lines = (3 * machine.cpu.cycle - tia.frame) / LINE;
    // After too many instructions what the beam has not reached turns grey, once.
    const i32 grey = machine.over || tia.unfinished ? NEVER : lines - machine.facts.first_line;
    if (machine.logs) {
        log_end(machine, grey);
    } else if (machine.pictures) {
        grey_rest(picture_of(machine), grey, machine.facts.lines, 0, WIDTH);
    }
    if (machine.over) {
        tia.lines = u16(lines);
        tia.unfinished = 0;
    } else {
        tia.unfinished = u16(min(tia.unfinished + 1, MOST_UNFINISHED));
    }
    return tia.last == machine.stop;
}
