"""A small canvas for pictures of worlds: a few shapes with smooth edges, in numpy alone."""

from __future__ import annotations

import numpy as np

Point = tuple[float, float]  # pixels, x to the right and y down, from the top left corner
Colour = tuple[int, int, int]  # red, green, blue, 0 to 255


class Canvas:
    """A picture ``pixels``: ``uint8 [height, width, 3]``. What lies outside is clipped."""

    def __init__(self, width: int, height: int, background: Colour = (255, 255, 255)) -> None:
        self.pixels = np.empty((height, width, 3), np.uint8)
        self.pixels[:] = background

    def rectangle(self, corner: Point, opposite: Point, colour: Colour) -> None:
        """Fill the axis-parallel rectangle between two corners."""
        left, right = sorted((corner[0], opposite[0]))
        top, bottom = sorted((corner[1], opposite[1]))
        self._shape(
            (left, top), (right, bottom), colour, lambda x, y: _inside(x, left, right) * _inside(y, top, bottom)
        )

    def circle(self, centre: Point, radius: float, colour: Colour) -> None:
        """Fill a disc."""
        low, high = (centre[0] - radius, centre[1] - radius), (centre[0] + radius, centre[1] + radius)
        self._shape(low, high, colour, lambda x, y: radius + 0.5 - np.hypot(x - centre[0], y - centre[1]))

    def line(self, start: Point, end: Point, width: float, colour: Colour) -> None:
        """Draw a straight line with square ends, ``width`` pixels wide."""
        if not np.all(np.isfinite([*start, *end])):
            return
        along = np.subtract(end, start)
        length = float(np.hypot(*along))
        if length == 0:
            return
        unit = along / length
        low = np.minimum(start, end) - width
        high = np.maximum(start, end) + width

        def coverage(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            forward = (x - start[0]) * unit[0] + (y - start[1]) * unit[1]
            aside = (y - start[1]) * unit[0] - (x - start[0]) * unit[1]
            return _inside(forward, 0.0, length) * _inside(aside, -width / 2, width / 2)

        self._shape(tuple(low), tuple(high), colour, coverage)

    def _shape(self, low: Point, high: Point, colour: Colour, coverage: object) -> None:
        """Blend ``colour`` in by ``coverage(x, y)`` (clipped to 0..1) at the pixel centres of a box."""
        if not np.all(np.isfinite([*low, *high])):
            return
        height, width, _ = self.pixels.shape
        x0, x1 = (int(np.clip(v, 0, width)) for v in (np.floor(low[0]) - 1, np.ceil(high[0]) + 1))
        y0, y1 = (int(np.clip(v, 0, height)) for v in (np.floor(low[1]) - 1, np.ceil(high[1]) + 1))
        if x0 >= x1 or y0 >= y1:
            return
        x, y = np.arange(x0, x1)[None, :] + 0.5, np.arange(y0, y1)[:, None] + 0.5
        share = np.clip(coverage(x, y), 0.0, 1.0)[..., None]  # type: ignore[operator]
        region = self.pixels[y0:y1, x0:x1]
        region[:] = np.rint(region * (1 - share) + np.asarray(colour) * share)


def _inside(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 inside an interval, 0 outside, linear over the pixel at its ends."""
    return np.clip(value - low + 0.5, 0, 1) * np.clip(high - value + 0.5, 0, 1)
