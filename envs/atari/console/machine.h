// One console while it runs a frame: its components, and what they are computed from, which no state holds.
#pragma once

constexpr i32 LINE = 228, BLANK = 68, WIDTH = 160;  // colour clocks of a line, of its blank part, of what is seen
constexpr i32 NEVER = 0x7FFFFFFF;
constexpr i32 MOST_INSTRUCTIONS = 25000;  // of a frame
constexpr i32 MOST_UNFINISHED = 3600;  // frames in a row that so many end; games that think have some dozens

constexpr u32 PLAYER0 = 0, PLAYER1 = 1, MISSILE0 = 2, MISSILE1 = 3, BALL = 4, PLAYFIELD = 5, OBJECTS = 6;
constexpr u32 EVERY_OBJECT = (1u << OBJECTS) - 1;

constexpr u32 VSYNC = 0x00, WSYNC = 0x02;  // of the TIA: its end ends the frame; waits for the next line

constexpr u8 MAPPER_PLAIN = 0, MAPPER_F8 = 1, MAPPER_F6 = 2, MAPPER_E0 = 3, MAPPER_FE = 4, MAPPER_DPC = 5;

// Where lanes are threads, the thread that runs frames draws none: it keeps a log, from which a warp draws (log.h).
#ifdef TBS_LANES_ARE_THREADS
constexpr bool KEEPS_LOG = Constants::pictures;
#else
constexpr bool KEEPS_LOG = false;
#endif

// A bit for each column of a line.
struct Columns {
    u64 words[4];  // of which the last stays 0, so that a line is one vector
};

// Eight columns of a line, which a lane draws.
constexpr i32 STRIP = 8;
struct StripColumns {
    i32 first;
    u32 bits;
};

// What is held and pressed during a frame.
struct Inputs {
    u8 joysticks;  // SWCHA
    u8 console;    // SWCHB
    u8 fires;      // bit 7 of INPT4, INPT5 in bits 0, 1
};

struct FrameLog;

// A pass over frames: the functions of the TIA take a Machine, which runs them, or one of log.h, which only draws them.
struct Machine {
    static constexpr bool logs = KEEPS_LOG, draws = !KEEPS_LOG, collides = true;

    Cpu &cpu;
    Ram &ram;
    Riot &riot;
    Tia &tia;
    Cartridge &cartridge;
    CartridgeRam &extra;
    const Plug &facts;
    const u8 *rom;
    u8 *pictures;  // two, or nullptr where no picture is drawn
    u32 which;     // of the batch's games
    Inputs inputs{};

    // Cartridge: offsets into the ROM of windows of 1 KiB, by bits 10, 11 and 13 of the address.
    u16 windows[12] = {};
    u32 plain_first = 0, plain_count = 0;  // addresses, of 4 KiB, that only read the ROM
    // Where instructions are fetched now: `code` is the byte at the address code_first, a multiple of 256. From
    // code_size bytes on, and after a change, it must be found anew.
    const u8 *code = nullptr;
    u32 code_first = 0, code_size = 0;

    // Beam
    i32 stop = 0;         // the clock at which the picture ends
    i32 due = 0;          // the clock up to which the registers are valid as they are
    i32 cycle_limit = 0;  // the cycle at which a frame without VSYNC ends
    bool changed = false;  // `on` and `pairs` are out of date
    u32 dirty = 0;         // objects whose columns are
    u32 on = 0;            // objects that show at all
    u32 pairs = 0;         // of these, as bits of Tia::collisions
    Columns columns[OBJECTS] = {};
    Columns several = {};  // where two of them or more are lit
    bool drawing = false, over = false;  // whether the frame is to be shown; has ended
    bool finds_out = false;  // which television it needs, as an American one
    u8 jam = 0;  // an opcode that halts
    FrameLog *log = nullptr;  // where it keeps one; behind all else, or a CPU takes 6 % longer for a frame
    u32 log_place = 0, log_room = 0;  // of the next write, and how many more the log takes

    // Whether it draws the frame as it runs it.
    TBS_METHOD bool shows() const { return draws && drawing; }
    // Whether anybody does, from its log too: the beam stands where it does on all executors.
    TBS_METHOD bool is_shown() const { return drawing; }
    TBS_METHOD Columns none() const { return {}; }
    TBS_METHOD void show(u32 object, const Columns &part) { columns[object] = part; }
};

// A pass that draws what has run before: lines, by one thread, or a strip of each, by a lane.
struct Redrawing {
    static constexpr bool logs = false, draws = true, collides = false;

    const Plug &facts;
    u8 *pictures;
    Tia tia{};
    i32 stop = 0, due = 0;
    bool changed = false, over = false;
    u32 dirty = 0, on = 0, pairs = 0;

    TBS_METHOD Redrawing(const Plug &of, u8 *to) : facts(of), pictures(to) {}
    TBS_METHOD bool shows() const { return true; }
    TBS_METHOD bool is_shown() const { return true; }
};

struct Lines : Redrawing {
    static constexpr i32 first = 0, columns_drawn = WIDTH;
    Columns columns[OBJECTS] = {};

    TBS_METHOD Lines(const Plug &of, u8 *to) : Redrawing(of, to) {}
    TBS_METHOD Columns none() const { return {}; }
    TBS_METHOD void show(u32 object, const Columns &part) { columns[object] = part; }
};

struct Strip : Redrawing {
    static constexpr i32 columns_drawn = STRIP;
    i32 first;                // column
    u32 lit[OBJECTS] = {};    // of its columns, as bits
    u64 pixels = 0;           // of the line, once they are drawn

    TBS_METHOD Strip(const Plug &of, u8 *to, i32 column) : Redrawing(of, to), first(column) {}
    TBS_METHOD StripColumns none() const { return {first, 0}; }
    TBS_METHOD void show(u32 object, const StripColumns &part) { lit[object] = part.bits; }
};
