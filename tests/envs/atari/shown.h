// Views of pictures that a test gives.
#include "screen.h"

TBS_SYSTEM void show(World &world, const Picture &picture, const View &view, const Palette &palette, Rgb &rgb,
                     Grey &grey, Small &small, Warp &warp) {
    const u8 *first = picture.pictures[0][0], *last = picture.pictures[1][0];
    const Shade *shades = palette.shades[view.pal];
    show_rgb(first, last, shades, view.lines, rgb.pixels[0][0], warp);
    show_grey(first, last, shades, view.lines, grey.pixels[0], warp);
    shift_stack<4>(small.frames[0][0], warp);
    shrink(first, last, shades, view.lines, small.frames[3][0], warp);
    if (view.fills) fill_stack<4>(small.frames[0][0], warp);
}
