// How an episode starts: what the reference presses until a game can be played.
#pragma once

// A console whose frames the rules judge.
struct Play {
    Machine &machine;
    Game &game;
    i32 mode;
    u32 difficulty;
    bool judged;
    Random &random;

    TBS_METHOD bool frame(u32 action) {
        press(machine, action, difficulty);
        const bool complete = run_frame(machine);
        if (judged) judge_frame(memory(), game);
        return complete;
    }
    TBS_METHOD void frames(u32 action, u32 count) {
        for (u32 i = 0; i < count; ++i) frame(action);
    }
    TBS_METHOD Memory memory() const { return {machine.ram.bytes, machine.extra.bytes}; }
};

constexpr u32 MOST_PRESSES = 600;  // of SELECT, until a game shows its mode; no game needs as many

// The reference holds SELECT of Adventure for frames whose number it draws, and waits for two. The start "ale" has the
// draws of its first episode with `random_seed` 1.
TBS_FUNCTION u32 drawn_presses(Play &play, const Starts &starts, u32 i) {
    return 2 + (Constants::start_of_ale ? starts.holds[i % Constants::holds] : play.random.below(256));
}

TBS_FUNCTION void select_mode(Play &play, const Starts &starts) {
    const Plug &facts = play.machine.facts;
    const bool draws = facts.title == ADVENTURE;
    for (u32 i = 0; i < MOST_PRESSES; ++i) {
        if (mode_of(play.memory(), Title(play.game.title), facts.shown_at) == play.mode) return;
        play.frames(PRESS_SELECT, draws ? drawn_presses(play, starts, i) : facts.presses);
        play.frames(0, draws ? 2 : 1);
    }
}

// Double Dunk has a menu: four lines, each of which is on or off.
TBS_FUNCTION void next_line_of_menu(Play &play) {
    const u8 before = play.machine.ram.bytes[0x30];
    for (u32 i = 0; i < MOST_PRESSES && play.machine.ram.bytes[0x30] == before; ++i) {
        play.frame(5);
        play.frame(0);
    }
}

TBS_FUNCTION void choose_from_menu(Play &play) {
    constexpr u8 bits[4] = {0x08, 0x10, 0x04, 0x20};
    play.frame(PRESS_SELECT);
    play.frame(0);
    next_line_of_menu(play);
    next_line_of_menu(play);
    for (u32 line = 0; line < 4; ++line) {
        const bool wanted = play.mode >> line & 1;
        for (u32 i = 0; i < MOST_PRESSES && bool(play.machine.ram.bytes[0] & bits[line]) != wanted; ++i) {
            play.frame(wanted ? 3 : 4);
            play.frame(0);
        }
        if (line < 3) next_line_of_menu(play);
    }
    play.frames(PRESS_RESET, 4);
    play.frame(10);
    play.frame(0);
}

// Video Cube: SELECT, released in every third frame, changes the kind of game; RIGHT the cube. Cubes count from 1.
TBS_FUNCTION void choose_cube(Play &play) {
    constexpr u8 kinds[3] = {0, 2, 8};
    const i32 cube = max(play.mode / 100, 1);
    play.frames(PRESS_RESET, 4);
    const u8 kind = kinds[play.mode % 100];
    const bool pressed = (play.machine.ram.bytes[0x7B] & 31) != kind;
    for (u32 i = 0; i < MOST_PRESSES && (play.machine.ram.bytes[0x7B] & 31) != kind; ++i) {
        play.frame(i % 3 < 2 ? PRESS_SELECT : 0);
    }
    if (pressed) play.frame(PRESS_RESET);
    for (u32 i = 0; i < 2 * MOST_PRESSES && play.memory().decimal(0x9F) != cube; ++i) play.frame(3);
}

// From a console that has just been switched on.
TBS_FUNCTION void start_game(Play &play, const Starts &starts, u32 which) {
    const Plug &facts = play.machine.facts;
    play.judged = false;
    play.frames(0, 60);
    play.frames(PRESS_RESET, 4);
    begin_rules(play.game, Title(facts.title));
    play.judged = true;
    for (u32 i = 0; i < starts.before[which].count; ++i) play.frame(starts.before[which].actions[i]);
    if (facts.title == DOUBLE_DUNK) {
        choose_from_menu(play);
    } else if (facts.title == VIDEO_CUBE) {
        choose_cube(play);
    } else if (facts.shown_at != 0) {
        select_mode(play, starts);
    }
    if (facts.has_modes) play.frames(PRESS_RESET, 4);
    play.frames(PRESS_RESET, 4);
    for (u32 i = 0; i < starts.after[which].count; ++i) {
        play.frames(starts.after[which].actions[i], starts.after[which].frames[i]);
    }
}
