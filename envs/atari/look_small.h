// The screen in greys, 84 x 84, and a stack of those.
#pragma once

#include "look_screen.h"

constexpr u32 FRAMES = Constants::stack, SMALL_SIZE = SMALL * SMALL;

TBS_FUNCTION u8 *newest_of(Stack &stack) { return stack.pixels + (FRAMES - 1) * SMALL_SIZE; }

TBS_SYSTEM void shrink_first(World &world, const Picture &picture, const Tia &tia, const Session &session,
                             const Plugs &plugs, const Palette &palette, Stack &stack, Warp &warp) {
    const Shown all = shown(picture, tia, session, plugs.games[world.id % Constants::games], palette);
    shrink(all.before, all.now, all.shades, all.lines, newest_of(stack), warp);
    if (Constants::fills_stack) {
        fill_stack<FRAMES>(stack.pixels, warp);
    } else {
        warp.for_each((FRAMES - 1) * SMALL_SIZE, [&](u32 i) { stack.pixels[i] = 0; });
    }
}

TBS_SYSTEM void shrink_next(World &world, const Picture &picture, const Tia &tia, const Session &session,
                            const Plugs &plugs, const Palette &palette, Stack &stack, Warp &warp) {
    const Shown all = shown(picture, tia, session, plugs.games[world.id % Constants::games], palette);
    shift_stack<FRAMES>(stack.pixels, warp);
    shrink(all.before, all.now, all.shades, all.lines, newest_of(stack), warp);
}

TBS_SYSTEM void look_at_stack(World &world, const Stack &stack, View &view, Warp &warp) {
    copy_elements<FRAMES * SMALL_SIZE>(&view.pixels[0][0][0], stack.pixels, warp);
}
