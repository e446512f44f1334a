// Draws the frames that a world has logged, on CUDA: a lane draws a strip of the columns. Elsewhere they are drawn as they
// run (console/machine.h).
#pragma once

template <class Group>
TBS_FUNCTION void draw_strips(const FrameLog &log, const Plug &facts, Picture &picture, Group &group) {
    group.for_each(WIDTH / STRIP, [&](u32 i) {
        Strip strip(facts, &picture.pixels[0][0][0], STRIP * i32(i));
        draw_log(strip, log);
    });
}

TBS_SYSTEM void draw_pictures(World &world, Picture &picture, const Plugs &plugs, Log &log, Warp &warp) {
    if constexpr (KEEPS_LOG) {
        draw_strips(workspace_as<FrameLog>(log, warp), plugs.games[world.id % Constants::games], picture, warp);
    }
}
