"""The palettes that screen.h shows pictures in."""

from __future__ import annotations

from torch_batchsim import Component, u8


class Palette(Component):  # a resource, whose first values are `palette()`
    shades: u8[2, 256, 4]  # NTSC and PAL, by index: red, green, blue, grey
