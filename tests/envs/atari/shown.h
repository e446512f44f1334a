// Views of pictures that a test gives.
#include "screen.h"

TBS_SYSTEM void show(World &world, const Picture &picture, const View &view, const Palette &palette, Rgb &rgb,
                     Grey &grey, Stack &stack, Small &small, Warp &warp) {
    const u8 *first = picture.pictures[0][0], *last = picture.pictures[1][0];
    const Shade *shades = palette.shades[view.pal];
    show_rgb(first, last, shades, view.lines, rgb.pixels[0][0], warp);
    show_grey(first, last, shades, view.lines, grey.pixels[0], warp);
    const u32 place = place_after<4>(stack.newest);
    shrink(first, last, shades, view.lines, stack.frames[place][0], warp);
    if (view.fills) begin_stack<4>(stack.frames[0][0], place, true, warp);
    warp.once([&] { stack.newest = u8(place); });
    show_stack<4>(stack.frames[0][0], place, small.frames[0][0], warp);
}
