// What a thread that runs frames leaves to the warp that draws them: the TIA as it was, and each write that the picture
// depends on. Collisions are found while frames run, so that drawing needs none.
//
// Frames of which a later one has drawn each line anew are dropped. Where more frames or writes would be kept than the
// log has room for, the thread itself draws those that it keeps, and goes on with an empty log.
#pragma once

constexpr u32 MOST_LOGGED = Constants::logged_frames, LOG_ROOM = Constants::logged_writes;

// A frame, or a part of one.
struct Logged {
    Tia tia;              // when it began
    i32 stop, begin, end;  // clocks: of the picture's end, and up to which registers were valid at first and at last
    i32 grey;             // the line from which on the picture turns grey
    u32 first, count;     // writes
    u32 whole;            // every line is drawn anew
    u32 padding;
};

struct FrameLog {
    u32 first, count;  // of frames
    u32 blank;         // before them both pictures are black
    u32 padding;
    Logged frames[MOST_LOGGED];  // a ring, as the writes
    u32 writes[LOG_ROOM];        // the cycle of the frame, 6 bits of the register, 8 of the value

    TBS_METHOD Logged &frame(u32 i) { return frames[(first + i) % MOST_LOGGED]; }
    TBS_METHOD const Logged &frame(u32 i) const { return frames[(first + i) % MOST_LOGGED]; }
};

static_assert(!Constants::pictures || sizeof(FrameLog) == sizeof(Log), "env.py has its size");

constexpr i32 LAST_LOGGED_CYCLE = (1 << 18) - 1;  // pictures have ended long before

// Registers that pictures depend on: all but VSYNC, WSYNC, those of sound, and CXCLR.
TBS_FUNCTION bool is_drawn(u32 number) { return u64{0x00000FFFF81FFFF2} >> number & 1; }

// Drawing ------------------------------------------------------------------------------------------------------------

// From its eights of columns on, what the beam has not reached turns grey.
TBS_FUNCTION void grey_rest(u8 *picture, i32 line, i32 lines, i32 first, i32 end) {
    for (i32 y = max(line, 0); y < lines; ++y) {
        for (i32 x = first; x < end; x += STRIP) {
            u8 *eight = picture + y * WIDTH + x;
            store_eight(eight, (load_eight(eight) & 0x0E0E0E0E0E0E0E0E) >> 1);
        }
    }
}

TBS_FUNCTION void begin_drawing(Lines &) {}
TBS_FUNCTION void end_drawing(Lines &) {}

// A strip that is drawn in part keeps what it has beyond.
TBS_FUNCTION void begin_drawing(Strip &strip) {
    if (strip.tia.left != LINE) strip.pixels = load_eight(current_line(strip) + strip.first);
}
TBS_FUNCTION void end_drawing(Strip &strip) {
    const i32 drawn = LINE - strip.tia.left - BLANK - strip.first;
    if (drawn <= 0 || drawn >= STRIP) return;
    u8 *eight = current_line(strip) + strip.first;
    const u64 mask = bytes_of((1u << drawn) - 1);
    store_eight(eight, (load_eight(eight) & ~mask) | (strip.pixels & mask));
}

template <class Pass>
TBS_FUNCTION void draw_frame(Pass &pass, const FrameLog &log, const Logged &frame) {
    pass.tia = frame.tia;
    pass.stop = frame.stop;
    pass.due = frame.begin;
    touch(pass, EVERY_OBJECT);
    begin_drawing(pass);
    u32 place = frame.first;
    for (u32 i = 0; i < frame.count; ++i) {
        const u32 write = log.writes[place];
        place = place + 1 < LOG_ROOM ? place + 1 : 0;
        write_tia(pass, write >> 8 & 63, u8(write), i32(write >> 14));
    }
    hold_until(pass, frame.end);
    move_beam(pass);
    end_drawing(pass);
    grey_rest(picture_of(pass), frame.grey, pass.facts.lines, pass.first, pass.first + pass.columns_drawn);
}

// All that the log has, columns that a Strip or Lines has of them.
template <class Pass>
TBS_FUNCTION void draw_log(Pass &pass, const FrameLog &log) {
    if (log.blank) {
        for (i32 y = 0; y < 2 * Constants::lines; ++y) {
            for (i32 x = 0; x < pass.columns_drawn; x += STRIP) store_eight(pass.pictures + y * WIDTH + pass.first + x, 0);
        }
    }
    for (u32 i = 0; i < log.count; ++i) draw_frame(pass, log, log.frame(i));
}

// Writing ------------------------------------------------------------------------------------------------------------

TBS_FUNCTION void empty_log(Machine &machine, bool blank) {
    machine.log->first = machine.log->count = 0;
    machine.log->blank = blank;
    machine.log_place = 0;
    machine.log_room = LOG_ROOM;
}

TBS_CALLED void draw_now(Machine &machine) {
    Lines lines(machine.facts, machine.pictures);
    draw_log(lines, *machine.log);
    empty_log(machine, false);
}

// A frame that is to be shown begins, or goes on in an empty log.
TBS_FUNCTION void open_frame(Machine &machine) {
    FrameLog &log = *machine.log;
    if (log.count == MOST_LOGGED) draw_now(machine);
    log.count += 1;
    log.frame(log.count - 1) = {machine.tia, machine.stop, machine.due, 0, NEVER, machine.log_place, machine.log_room, 0, 0};
}

TBS_FUNCTION Logged &close_frame(Machine &machine) {
    FrameLog &log = *machine.log;
    Logged &own = log.frame(log.count - 1);
    own.end = machine.due;
    own.count -= machine.log_room;  // of as much room as there was
    return own;
}

// The frame is over; `grey` as in Logged.
TBS_FUNCTION void log_end(Machine &machine, i32 grey) {
    FrameLog &log = *machine.log;
    if (!machine.drawing) {
        if (grey == NEVER) return;
        open_frame(machine);
    }
    Logged &own = close_frame(machine);
    own.grey = grey;
    if (!machine.drawing) own.end = own.begin = own.tia.last;
    const bool began = own.tia.line == 0 && own.tia.left == LINE;
    own.whole = machine.drawing && began && machine.tia.last == machine.stop;
    for (u32 i = 1; i < log.count; ++i) {
        if (!log.frame(i).whole || log.frame(i).tia.picture != log.frame(0).tia.picture) continue;
        machine.log_room += log.frame(0).count;
        log.first = (log.first + 1) % MOST_LOGGED;
        log.count -= 1;
        i = 0;
    }
}

TBS_CALLED void go_on_in_empty_log(Machine &machine) {
    move_beam(machine);
    close_frame(machine);
    draw_now(machine);
    open_frame(machine);
}

TBS_FUNCTION void log_write(Machine &machine, u32 number, u8 value, i32 cycle) {
    if (!machine.drawing || !is_drawn(number)) return;
    if (machine.log_room == 0) [[unlikely]] go_on_in_empty_log(machine);
    machine.log->writes[machine.log_place] = u32(min(cycle, LAST_LOGGED_CYCLE)) << 14 | number << 8 | value;
    machine.log_place = machine.log_place + 1 < LOG_ROOM ? machine.log_place + 1 : 0;
    machine.log_room -= 1;
}
