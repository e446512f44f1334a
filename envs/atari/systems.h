// Systems of a console: it starts, and plays a step of several frames.

#include "eight.h"
#include "rules.h"
#include "console/machine.h"
#include "console/riot.h"
#include "console/objects.h"
#include "console/beam.h"
#include "console/inputs.h"
#include "console/tia.h"
#include "console/log.h"
#include "console/dpc.h"
#include "console/cartridge.h"
#include "console/bus.h"
#include "console/processor.h"
#include "console/frame.h"
#include "console/start.h"

constexpr u8 BEGUN = 0, PLAYED = 1, LIFE_LOST = 2;  // phases of a session
constexpr u32 EXTRA_RAM = Constants::cartridge_ram ? 128 : 0;
constexpr u32 FIRST_RESET = 129;  // the draw of the generator of ale-py's consoles for the second time they are reset

// ale-py's generator; after some thousand episodes it begins anew.
TBS_FUNCTION u32 next_draw(const Generator &generator, Past &past) {
    const u32 draw = generator.draws[past.draws];
    past.draws = past.draws + 1 < Constants::draws ? past.draws + 1 : FIRST_RESET;
    return draw;
}

TBS_FUNCTION void switch_on_as_ale(Machine &machine, const Generator &generator, Past &past) {
    power(machine, next_draw(generator, past));
    const u32 extra = machine.facts.extra_ram ? EXTRA_RAM : 0;
    for (u32 i = 0; i < extra; ++i) machine.extra.bytes[i] = u8(next_draw(generator, past));
}

TBS_FUNCTION void switch_on(Machine &machine, Random &random) {
    for (u32 i = 0; i < 128; ++i) machine.ram.bytes[i] = u8(random.below(256));
    power(machine, random.below(75));
    const u32 extra = machine.facts.extra_ram ? EXTRA_RAM : 0;
    for (u32 i = 0; i < extra; ++i) machine.extra.bytes[i] = u8(random.below(256));
}

// What the reference does with a console before its first episode: it finds out the television, and resets once.
TBS_FUNCTION void construct_as_ale(Play &play, const Starts &starts, u32 which, const Generator &generator,
                                   Past &past) {
    Machine &machine = play.machine;
    for (u32 i = 0; i < 128; ++i) machine.ram.bytes[i] = u8(next_draw(generator, past));
    next_draw(generator, past);
    switch_on_as_ale(machine, generator, past);
    const i32 mode = play.mode;
    const u32 difficulty = play.difficulty;
    play.judged = false;
    play.difficulty = machine.facts.difficulty_of_rom;
    machine.finds_out = true;
    play.frames(0, 60);
    machine.finds_out = false;
    play.difficulty = 0;
    play.mode = machine.facts.first_mode;
    switch_on_as_ale(machine, generator, past);
    machine.tia.paddle = middle_of_paddle(machine.facts);
    switch_on_as_ale(machine, generator, past);
    start_game(play, starts, which);
    play.mode = mode;
    play.difficulty = difficulty;
}

// A console between two frames.
struct Saved {
    u32 filled;
    Cpu cpu;
    Ram ram;
    Riot riot;
    Tia tia;
    Cartridge cartridge;
    Game game;
    CartridgeRam extra;
};
static_assert(sizeof(Saved) == Constants::saved_bytes, "env.py packs consoles as this struct has them");

struct SavedConsoles {  // the memory of Cache: world i's, as it began, for each i
    Saved of_world[Constants::cached];
};

TBS_FUNCTION Saved saved(const Play &play) {
    const Machine &machine = play.machine;
    return {1, machine.cpu, machine.ram, machine.riot, machine.tia, machine.cartridge, play.game, machine.extra};
}

TBS_FUNCTION void restore(Play &play, const Saved &from) {
    Machine &machine = play.machine;
    machine.cpu = from.cpu;
    machine.riot = from.riot;
    machine.tia = from.tia;
    play.game = from.game;
    machine.ram = from.ram;
    machine.cartridge = from.cartridge;
    machine.extra = from.extra;
}

TBS_FUNCTION void report(World &world, const Machine &machine) {
    if (machine.jam) world.fail(Fault::instruction_halts, machine.jam);
    if (machine.tia.unfinished == MOST_UNFINISHED) world.fail(Fault::frames_never_end, MOST_UNFINISHED);
}

TBS_FUNCTION u8 *pictures_of(Picture &picture) { return Constants::pictures ? &picture.pixels[0][0][0] : nullptr; }

// Where frames are drawn by draw_pictures, they are logged from here on.
template <class Pass>
TBS_FUNCTION void begin_log([[maybe_unused]] Pass &machine, [[maybe_unused]] Log &log) {
    if constexpr (Pass::logs) {
        machine.log = &workspace_as<FrameLog>(log);
        empty_log(machine, false);
    }
}

TBS_SYSTEM void begin(World &world, Cpu &cpu, Ram &ram, Riot &riot, Tia &tia, Cartridge &cartridge, CartridgeRam &extra,
                      Picture &picture, Game &game, Past &past, Session &session, const Plugs &plugs, const Roms &roms,
                      const Starts &starts, const Generator &generator, const Cache &cache, Log &log) {
    Random &random = world.random();
    const u32 which = world.id % Constants::games;
    Machine machine{cpu, ram, riot, tia, cartridge, extra, plugs.games[which], roms.bytes[which], pictures_of(picture),
                    which};
    machine.drawing = Constants::pictures;
    begin_log(machine, log);
    Play play{machine, game, machine.facts.mode, machine.facts.difficulty, true, random};
    const Saved *cached = memory_as<SavedConsoles>(cache).of_world;
    const bool copies = Constants::start_cached && cached->filled;
    bool goes_on = session.phase == LIFE_LOST;
    if (Constants::start_of_ale && past.episodes == 0) construct_as_ale(play, starts, which, generator, past);
    // A cached console has no picture yet, so that it plays one frame at least.
    const u32 idle = world.parameters.noop_max > 0 ? random.integer(1, world.parameters.noop_max) : copies ? 1 : 0;
    for (u32 tries = 0; tries < 8; ++tries) {
        if (!goes_on) session.frames = 0;
        if (copies && !goes_on) {
            const u32 drawn = random.below(Constants::cached / Constants::games);
            restore(play, cached[drawn * Constants::games + which]);
            blank_pictures(machine);
        } else if (!goes_on) {
            machine.tia.paddle = middle_of_paddle(machine.facts);
            if (Constants::start_of_ale) {
                switch_on_as_ale(machine, generator, past);
            } else {
                switch_on(machine, random);
            }
            start_game(play, starts, which);
            if (Constants::start_cached) break;  // to be copied
        }
        for (u32 i = 0; i < idle && !game.over; ++i) play.frame(0);
        if (world.parameters.fire_at_reset && machine.facts.fires && !game.over) play.frame(1);
        if (!game.over || Constants::start_of_ale) break;
        goes_on = false;
    }
    past.episodes += 1;
    session.action = 0;
    session.phase = BEGUN;
    session.lives = game.lives;
    report(world, machine);
}

TBS_SYSTEM void play(World &world, Cpu &cpu, Ram &ram, Riot &riot, Tia &tia, Cartridge &cartridge, CartridgeRam &extra,
                     Picture &picture, Game &game, Session &session, const Plugs &plugs, const Roms &roms,
                     const Choice &choice, Reward &reward, Episode &episode, Log &log) {
    constexpr i32 skip = Constants::frame_skip;
    Random &random = world.random();
    const u32 which = world.id % Constants::games;
    const Plug &plug = plugs.games[which];
    Machine machine{cpu, ram, riot, tia, cartridge, extra, plug, roms.bytes[which], pictures_of(picture), which};
    begin_log(machine, log);
    Play play{machine, game, plug.mode, plug.difficulty, true, random};
    const u32 chosen = plug.actions[u32(choice.action) % 18];

    // Pictures of all but the last two frames show only where a game ends early, or a picture has less lines than the
    // screen. Then the step is played once more.
    const Saved before = saved(play);
    u8 actions[skip];
    i32 sum = 0, ran = 0;
    bool complete = true;
    const bool draws_all = tia.draws_all;
    for (i32 i = 0; i < skip && !game.over; ++i) {
        if (!random.chance(world.parameters.sticky_actions)) session.action = u8(chosen);
        actions[i] = session.action;
        machine.drawing = Constants::pictures && (draws_all || i >= skip - 2);
        const bool whole = play.frame(session.action);
        complete = complete && (whole || !machine.drawing);
        sum += game.reward;
        ran += 1;
        if (session.frames + ran >= world.parameters.max_episode_frames) break;
    }
    session.frames += ran;
    session.phase = PLAYED;
    if (Constants::pictures && !draws_all && (ran < skip || !complete)) {
        restore(play, before);
        machine.drawing = true;
        for (i32 i = 0; i < ran; ++i) play.frame(actions[i]);
    }
    tia.draws_all = Constants::pictures && !complete;

    reward.value = world.parameters.clip_rewards ? f32((sum > 0) - (sum < 0)) : f32(sum);
    episode.terminated = game.over;
    if (Constants::episodic_life && !game.over && game.lives < session.lives && game.lives > 0) {
        episode.terminated = true;
        session.phase = LIFE_LOST;
    }
    session.lives = game.lives;
    episode.truncated = !episode.terminated && session.frames >= world.parameters.max_episode_frames;
    report(world, machine);
}
