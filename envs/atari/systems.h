// Systems of a console: it starts, and runs a frame.

#include "console/machine.h"
#include "console/riot.h"
#include "console/objects.h"
#include "console/beam.h"
#include "console/inputs.h"
#include "console/tia.h"
#include "console/cartridge.h"
#include "console/bus.h"
#include "console/processor.h"
#include "console/frame.h"

constexpr u8 START_GAME = 32, START_MODE = 33, START_END = 34;

TBS_FUNCTION u32 game_of(World &world) { return world.id % Constants::games; }

TBS_FUNCTION u32 next_draw(const Generator &generator, Resets &resets) {
    const u32 draw = generator.draws[resets.draws];
    resets.draws = resets.draws + 1 < Constants::draws ? resets.draws + 1 : 132;
    return draw;
}

TBS_FUNCTION void power_up(Machine &machine, const Generator &generator, Resets &resets) {
    power(machine, next_draw(generator, resets));
    if (machine.facts.extra_ram) {
        for (u32 i = 0; i < 128; ++i) machine.extra.bytes[i] = u8(next_draw(generator, resets));
    }
}

TBS_FUNCTION void run_start(Machine &machine, const Starts &starts, u32 game, const Generator &generator, Resets &resets) {
    machine.tia.paddle = middle_of_paddle(machine.facts);
    power_up(machine, generator, resets);
    for (u32 i = 0; starts.what[game][i] != START_END; ++i) {
        const u8 what = starts.what[game][i];
        const u32 frames = starts.frames[game][i];
        if (what == START_MODE) {
            const u32 wanted = frames & 0xFF, presses = frames >> 8;
            for (u32 tries = 0; machine.ram.bytes[machine.facts.shown_at & 0x7F] != wanted && tries < 256; ++tries) {
                for (u32 k = 0; k < presses; ++k) {
                    press(machine, PRESS_SELECT, machine.facts.difficulty);
                    run_frame(machine);
                }
                press(machine, 0, machine.facts.difficulty);
                run_frame(machine);
            }
        } else if (what < START_GAME) {
            for (u32 k = 0; k < frames; ++k) {
                press(machine, what, machine.facts.difficulty);
                run_frame(machine);
            }
        }
    }
}

TBS_SYSTEM void begin(World &world, Cpu &cpu, Ram &ram, Riot &riot, Tia &tia, Cartridge &cartridge, CartridgeRam &extra,
                      Resets &resets, const Games &games, const Roms &roms, const Starts &starts,
                      const Generator &generator) {
    const u32 game = game_of(world);
    Machine machine{cpu, ram, riot, tia, cartridge, extra, games.facts[game], roms.bytes[game], nullptr};
    if (resets.count == 0) {
        for (u32 i = 0; i < 128; ++i) ram.bytes[i] = u8(next_draw(generator, resets));
        next_draw(generator, resets);
        power_up(machine, generator, resets);
        for (u32 i = 0; i < 60; ++i) {
            press(machine, 0, machine.facts.native_difficulty);
            run_frame(machine);
        }
        power_up(machine, generator, resets);
        run_start(machine, starts, game, generator, resets);
    }
    resets.count += 1;
    run_start(machine, starts, game, generator, resets);
}

TBS_SYSTEM void run(World &world, Cpu &cpu, Ram &ram, Riot &riot, Tia &tia, Cartridge &cartridge, CartridgeRam &extra,
                    const Games &games, const Roms &roms, const Choice &choice) {
    const u32 game = game_of(world);
    Machine machine{cpu, ram, riot, tia, cartridge, extra, games.facts[game], roms.bytes[game], nullptr};
    press(machine, u32(choice.action), machine.facts.difficulty);
    run_frame(machine);
    if (machine.jam) world.fail(Fault::instruction_halts, machine.jam);
}

TBS_SYSTEM void look(World &world, const Ram &ram, View &view) {
    for (u32 i = 0; i < 128; ++i) view.bytes[i] = ram.bytes[i];
}
