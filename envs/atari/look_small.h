// The screen in greys, 84 x 84, and a stack of those.
#pragma once

#include "look_screen.h"

constexpr u32 FRAMES = Constants::stack, SMALL_SIZE = SMALL * SMALL;

TBS_SYSTEM void shrink_first(World &world, const Picture &picture, const Tia &tia, const Session &session,
                             const Plugs &plugs, const Palette &palette, Stack &stack, Warp &warp) {
    const Shown all = shown(picture, tia, session, plugs.games[world.id % Constants::games], palette);
    shrink(all.before, all.now, all.shades, all.lines, stack.pixels, warp);
    begin_stack<FRAMES>(stack.pixels, 0, Constants::fills_stack, warp);
    warp.once([&] { stack.newest[0] = 0; });
}

TBS_SYSTEM void shrink_next(World &world, const Picture &picture, const Tia &tia, const Session &session,
                            const Plugs &plugs, const Palette &palette, Stack &stack, Warp &warp) {
    const Shown all = shown(picture, tia, session, plugs.games[world.id % Constants::games], palette);
    const u32 place = place_after<FRAMES>(stack.newest[0]);
    shrink(all.before, all.now, all.shades, all.lines, stack.pixels + place * SMALL_SIZE, warp);
    warp.once([&] { stack.newest[0] = u8(place); });
}

TBS_SYSTEM void look_at_stack(World &world, const Stack &stack, View &view, Warp &warp) {
    show_stack<FRAMES>(stack.pixels, stack.newest[0], &view.pixels[0][0][0], warp);
}
