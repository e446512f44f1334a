// What an action presses: joystick or paddle, fire, and the console's switches, which starts press.
#pragma once

constexpr u32 PRESS_RESET = 18, PRESS_SELECT = 19;
constexpr i32 PADDLE_TURN = 23000, PADDLE_LEAST = 27450;  // ohms

// Directions of an action as bits: up, down, left, right.
TBS_FUNCTION u32 directions_of(u32 action) {
    constexpr u8 directions[18] = {0, 0, 1, 8, 4, 2, 9, 5, 10, 6, 1, 8, 4, 2, 9, 5, 10, 6};
    return action < 18 ? directions[action] : 0;
}

TBS_FUNCTION bool fires(u32 action) { return action == 1 || (action >= 10 && action < 18); }

TBS_FUNCTION i32 middle_of_paddle(const Plug &facts) { return (PADDLE_LEAST + facts.most_turn) / 2; }

// Presses the action for a frame; `difficulty` are the switches, bit 0 left, bit 1 right.
TBS_FUNCTION void press(Machine &machine, u32 action, u32 difficulty) {
    const Plug &facts = machine.facts;
    Inputs &inputs = machine.inputs;
    const u32 directions = directions_of(action);
    const bool fire = fires(action);
    inputs.console = u8(0x3F | difficulty << 6);
    if (action == PRESS_RESET) inputs.console &= 0xFE;
    if (action == PRESS_SELECT) inputs.console &= 0xFD;
    inputs.joysticks = 0xFF;
    inputs.fires = 3;
    if (facts.left_paddles) {
        Tia &tia = machine.tia;
        const i32 turn = directions & 8 ? -PADDLE_TURN : directions & 4 ? PADDLE_TURN : 0;
        tia.paddle = clamp(tia.paddle + turn, PADDLE_LEAST, facts.most_turn);
        if (fire) inputs.joysticks &= facts.swapped_paddles ? 0xBF : 0x7F;
    } else if (facts.swapped_ports) {
        inputs.joysticks = u8(~directions);
        inputs.fires = fire ? 1 : 3;
    } else {
        inputs.joysticks = u8(~(directions << 4));
        inputs.fires = fire ? 2 : 3;
    }
}
