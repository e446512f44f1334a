// What an agent sees: the screen, the brighter one of the last two frames.
#pragma once

#include "screen.h"

constexpr u32 PICTURE = Constants::lines * COLUMNS;

struct Shown {
    const u8 *before, *now;  // pictures
    const Shade *shades;
    u32 lines;
};

// After a start, and where a step has one frame, only the last picture counts.
TBS_FUNCTION Shown shown(const Picture &picture, const Tia &tia, const Session &session, const Plug &plug,
                         const Palette &palette) {
    const u8 *pixels = &picture.pixels[0][0][0];
    const u32 now = tia.picture, before = Constants::two_frames && session.phase != BEGUN ? 1 - now : now;
    return {pixels + before * PICTURE, pixels + now * PICTURE, palette.shades[plug.pal], u32(plug.lines)};
}
