// The screen in colours, or in greys. Lines that a game of the batch lacks are black.
#pragma once

#include "look_screen.h"

TBS_SYSTEM void look_at_screen(World &world, const Picture &picture, const Tia &tia, const Session &session,
                               const Plugs &plugs, const Palette &palette, View &view, Warp &warp) {
    const Shown all = shown(picture, tia, session, plugs.games[world.id % Constants::games], palette);
    const u32 size = all.lines * COLUMNS * Constants::channels;
    u8 *to = static_cast<u8 *>(static_cast<void *>(&view));  // [lines][160], or [lines][160][3]
    if (Constants::channels == 3) {
        show_rgb(all.before, all.now, all.shades, all.lines, to, warp);
    } else {
        show_grey(all.before, all.now, all.shades, all.lines, to, warp);
    }
    warp.for_each(PICTURE * Constants::channels - size, [&](u32 i) { to[size + i] = 0; });
}
