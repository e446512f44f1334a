"""Pictures of worlds: a scene is a list of shapes; a canvas draws them, with smooth edges, in numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

Point = tuple[float, float]  # pixels, x to the right and y down, from the top left corner
Colour = tuple[int, int, int]  # red, green, blue, 0 to 255


class Canvas:
    """A picture ``pixels``: ``uint8 [height, width, 3]``. Drawing outside of it is clipped."""

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

    def polygon(self, corners: Sequence[Point], colour: Colour, opacity: float = 1.0) -> None:
        """Fill a polygon of three corners or more, convex or not. Where its edges cross, fill every other part.

        What is behind shows through, the more the lower the ``opacity``, 1 to 0.
        """
        points = np.asarray(corners, float)
        if len(points) < 3:
            raise ValueError(f"a polygon needs at least 3 corners, got {len(points)}")

        def coverage(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            px, py = points.T[:, :, None, None]
            ex, ey = (np.roll(points, -1, axis=0) - points).T[:, :, None, None]
            dx, dy = x - px, y - py  # from the first corner of each edge [edges, height, width]
            along = np.clip((dx * ex + dy * ey) / np.maximum(ex * ex + ey * ey, 1e-12), 0, 1)
            distance = np.hypot(dx - along * ex, dy - along * ey).min(axis=0)
            spans = (dy >= 0) != (dy - ey >= 0)  # edges that a ray to the right may cross
            crossed = spans & ((dx * ey - dy * ex < 0) == (ey > 0))
            return opacity * np.clip(np.where(crossed.sum(axis=0) % 2, 0.5 + distance, 0.5 - distance), 0.0, 1.0)

        self._shape(tuple(points.min(axis=0)), tuple(points.max(axis=0)), colour, coverage)

    def text(self, place: Point, text: str, colour: Colour, scale: int = 1, align: float = 0.0) -> None:
        """Write a line of plain text: A to Z (small letters become capitals), digits, space and ``+-*/.,:!?()%=_<>#``.

        Letters are 7 ``scale`` pixels high and take 6 ``scale`` to the right, see ``text_width``. ``place`` is the left
        end of the line at half the height of the letters; with ``align`` 0.5 its middle, with 1 its right end. Other
        signs become a box.
        """
        mask = _written(text.upper(), scale)
        height, width = mask.shape
        here, there = self._overlap(round(place[0] - align * width), round(place[1] - height / 2), width, height)
        self.pixels[here][mask[there]] = colour

    def stamp(self, sprite: Sprite, centre: Point) -> None:
        """Lay a sprite over the picture, its middle at ``centre`` (rounded, so that it looks the same everywhere)."""
        height, width = sprite.colours.shape[:2]
        here, there = self._overlap(round(centre[0] - width / 2), round(centre[1] - height / 2), width, height)
        region = self.pixels[here]
        region[:] = np.rint(region * sprite.through[there] + sprite.colours[there])

    def _overlap(self, left: int, top: int, width: int, height: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Where a box overlaps the picture: rows and columns of the picture, and of the box."""
        rows, columns = self.pixels.shape[:2]
        y0, y1 = (min(max(y, 0), rows) for y in (top, top + height))
        x0, x1 = (min(max(x, 0), columns) for x in (left, left + width))
        return (slice(y0, y1), slice(x0, x1)), (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))

    def _shape(
        self, low: Point, high: Point, colour: Colour, coverage: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> None:
        """Blend ``colour`` in by ``coverage(x, y)`` (clipped to 0..1) at the pixel centres of a box."""
        if not np.all(np.isfinite([*low, *high])):
            return
        height, width, _ = self.pixels.shape
        x0, x1 = (int(np.clip(v, 0, width)) for v in (np.floor(low[0]) - 1, np.ceil(high[0]) + 1))
        y0, y1 = (int(np.clip(v, 0, height)) for v in (np.floor(low[1]) - 1, np.ceil(high[1]) + 1))
        if x0 >= x1 or y0 >= y1:
            return
        x, y = np.arange(x0, x1)[None, :] + 0.5, np.arange(y0, y1)[:, None] + 0.5
        share = np.clip(coverage(x, y), 0.0, 1.0)[..., None]
        region = self.pixels[y0:y1, x0:x1]
        region[:] = np.rint(region * (1 - share) + np.asarray(colour) * share)


class Scene:
    """A world as shapes, back to front: what ``Environment.scene`` returns.

    Its methods are those of ``Canvas``, in pixels of a picture ``width`` by ``height``. Pictures and replays draw the
    same scene: ``pixels`` is the picture, ``shapes`` has ``(method, arguments...)`` of each shape. Bodies in three
    dimensions are behind the shapes: see ``rays.BodyScene``.
    """

    def __init__(self, width: int, height: int, background: Colour = (255, 255, 255)) -> None:
        self.width, self.height, self.background = width, height, background
        self.shapes: list[tuple[Any, ...]] = []
        self._rows: list[tuple[int, str, int]] = []  # how many shapes there were before those of a row

    def rectangle(self, corner: Point, opposite: Point, colour: Colour) -> None:
        """See ``Canvas.rectangle``."""
        self.shapes.append(("rectangle", corner, opposite, _checked(colour)))

    def circle(self, centre: Point, radius: float, colour: Colour) -> None:
        """See ``Canvas.circle``."""
        self.shapes.append(("circle", centre, radius, _checked(colour)))

    def line(self, start: Point, end: Point, width: float, colour: Colour) -> None:
        """See ``Canvas.line``."""
        self.shapes.append(("line", start, end, width, _checked(colour)))

    def polygon(self, corners: Sequence[Point], colour: Colour, opacity: float = 1.0) -> None:
        """See ``Canvas.polygon``."""
        self.shapes.append(("polygon", tuple(corners), _checked(colour), opacity))

    def text(self, place: Point, text: str, colour: Colour, scale: int = 1, align: float = 0.0) -> None:
        """See ``Canvas.text``."""
        self.shapes.append(("text", place, text, _checked(colour), scale, align))

    def stamp(self, sprite: Sprite, centre: Point) -> None:
        """See ``Canvas.stamp``."""
        self.shapes.append(("stamp", sprite, centre))

    def layer(self, name: str = "", shown: bool = True) -> None:
        """Put all shapes from here on into a layer: pages have a button that shows or hides it.

        Pictures have only the layers with ``shown``, with which pages begin too. Shapes of ``""`` always show.
        """
        self.shapes.append(("layer", name, shown or not name))

    def row(self, table: str = "", row: int = 0) -> None:
        """Let all shapes from here on belong to a row of a table, ``row("Chef", 1)``: a click on the live page finds
        it. ``row()``: to none."""
        self._rows.append((len(self.shapes), table, row))

    def hit(self, x: float, y: float) -> tuple[str, int] | None:
        """The row whose shape is at a pixel, of several the one in front; None where there is none.

        Shapes of rows only, in layers with ``shown``. A line counts as 4 pixels wide at least.
        """
        found, shown, owner, following = None, True, ("", 0), 0
        for i, (kind, *arguments) in enumerate(self.shapes):
            while following < len(self._rows) and self._rows[following][0] <= i:
                owner, following = self._rows[following][1:], following + 1
            if kind == "layer":
                shown = arguments[1]
            elif shown and owner[0] and _is_at(kind, arguments, x, y):
                found = owner
        return found

    @property
    def has_rows(self) -> bool:
        """Whether any shapes belong to rows."""
        return bool(self._rows)

    @property
    def pixels(self) -> np.ndarray:
        """The picture, ``uint8 [height, width, 3]``."""
        canvas = Canvas(self.width, self.height, self.background)
        self.draw_on(canvas)
        return canvas.pixels

    def draw_on(self, canvas: Canvas) -> None:
        """Draw the shapes of layers that are shown."""
        shown = True
        for kind, *arguments in self.shapes:
            if kind == "layer":
                shown = arguments[1]
            elif shown:
                self._draw(canvas, kind, arguments)

    def _draw(self, canvas: Canvas, kind: str, arguments: list[Any]) -> None:
        getattr(canvas, kind)(*arguments)


def _is_at(kind: str, arguments: list[Any], x: float, y: float) -> bool:
    """Whether a flat shape covers a pixel; of texts and sprites the box around them."""
    if kind in ("rectangle", "stamp", "text"):
        if kind == "rectangle":
            (left, top), (right, bottom) = arguments[:2]
        elif kind == "stamp":
            (middle, height), sprite = arguments[1], arguments[0]
            left, right = middle - sprite.scene.width / 2, middle + sprite.scene.width / 2
            top, bottom = height - sprite.scene.height / 2, height + sprite.scene.height / 2
        else:
            (place, height), text, _, scale, align = arguments
            width = text_width(text, scale)
            left, right = place - align * width, place + (1 - align) * width
            top, bottom = height - 3.5 * scale, height + 3.5 * scale
        return min(left, right) <= x <= max(left, right) and min(top, bottom) <= y <= max(top, bottom)
    if kind == "circle":
        (left, top), radius = arguments[:2]
        return math.hypot(x - left, y - top) <= radius
    if kind == "line":
        (left, top), (right, bottom), width = arguments[:3]
        along = (right - left, bottom - top)
        length = along[0] ** 2 + along[1] ** 2
        share = 0.0 if length == 0 else ((x - left) * along[0] + (y - top) * along[1]) / length
        share = min(max(share, 0.0), 1.0)
        return math.hypot(x - left - share * along[0], y - top - share * along[1]) <= max(width / 2, 2.0)
    if kind == "polygon":
        corners, inside = arguments[0], False
        for (ax, ay), (bx, by) in zip(corners, (*corners[1:], corners[0]), strict=True):
            if (ay > y) != (by > y) and x < ax + (bx - ax) * (y - ay) / (by - ay):
                inside = not inside
        return inside
    return False  # at a point in space


class Sprite:
    """A drawing of ``draw``, made once and stamped many times; the picture shows through its empty parts.

    It calls ``draw`` once, with an empty scene.
    """

    def __init__(self, width: int, height: int, draw: Callable[[Scene], None]) -> None:
        self.scene = Scene(width, height)
        draw(self.scene)

    @cached_property
    def colours(self) -> np.ndarray:
        """float32 ``[height, width, 3]``, times how much they cover."""
        return self._on((0, 0, 0)).astype(np.float32)

    @cached_property
    def through(self) -> np.ndarray:
        """The share of the picture that shows, as ``colours``."""
        return (self._on((255, 255, 255)) - self.colours) / 255

    def _on(self, background: Colour) -> np.ndarray:
        canvas = Canvas(self.scene.width, self.scene.height, background)
        self.scene.draw_on(canvas)
        return canvas.pixels


def tiled(
    pictures: Sequence[np.ndarray], columns: int | None = None, gap: int = 4, colour: Colour = (255, 255, 255)
) -> np.ndarray:
    """One picture of several of one size, row by row: ``tiled(env.render())``; ``uint8 [height, width, 3]`` all.

    Args:
        columns: pictures side by side; by default about a square.
        gap: pixels between them, of ``colour``, which also fills places without a picture.

    Raises ValueError without pictures, or for several sizes.
    """
    sizes = sorted({picture.shape for picture in pictures})
    if len(sizes) != 1 or len(sizes[0]) != 3:
        raise ValueError(f"pictures must be of one size [height, width, 3], and at least one, got {sizes}")
    if (columns is not None and columns < 1) or gap < 0:
        raise ValueError(f"columns must be at least 1 and gap at least 0, got {columns} and {gap}")
    height, width, _ = sizes[0]
    across = columns or max(1, round((len(pictures) * height / width) ** 0.5))
    across = min(across, len(pictures))
    down = -(-len(pictures) // across)
    canvas = Canvas(across * (width + gap) - gap, down * (height + gap) - gap, colour)
    for i, picture in enumerate(pictures):
        top, left = i // across * (height + gap), i % across * (width + gap)
        canvas.pixels[top : top + height, left : left + width] = picture
    return canvas.pixels


def mixed(colour: Colour, other: Colour, share: float) -> Colour:
    """A colour with a share, 0 to 1, of another one."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(colour, other, strict=True))
    return red, green, blue


def text_width(text: str, scale: int = 1) -> int:
    """The width of ``Canvas.text`` in pixels."""
    return max(0, 6 * len(text) - 1) * scale


def _inside(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 inside an interval, 0 outside, linear over the pixel at its ends."""
    return np.clip(value - low + 0.5, 0, 1) * np.clip(high - value + 0.5, 0, 1)


@lru_cache(maxsize=1024)
def _written(text: str, scale: int) -> np.ndarray:
    """The pixels of a line of text, bool ``[7 scale, text_width]``."""
    if not text:
        return np.zeros((7 * scale, 0), bool)
    letters = [np.pad(_letter(sign), ((0, 0), (0, 1))) for sign in text]
    return np.kron(np.hstack(letters)[:, :-1], np.ones((scale, scale), bool))


def _letter(sign: str) -> np.ndarray:
    """bool ``[7, 5]``."""
    columns = np.frombuffer(bytes.fromhex(_LETTERS.get(sign, "7f4141417f")), np.uint8)
    return (columns >> np.arange(7)[:, None] & 1).astype(bool)


_LETTERS = {" ": "0000000000"} | {
    pair[0]: pair[2:]
    for pair in """
        0:3e4141413e 1:00427f4000 2:4261514946 3:2141454b31 4:1814127f10 5:2745454539 6:3c4a494930 7:0171090503
        8:3649494936 9:064949291e A:7e1111117e B:7f49494936 C:3e41414122 D:7f4141221c E:7f49494941 F:7f09090901
        G:3e4149497a H:7f0808087f I:00417f4100 J:2040413f01 K:7f08142241 L:7f40404040 M:7f020c027f N:7f0408107f
        O:3e4141413e P:7f09090906 Q:3e4151215e R:7f09192946 S:4649494931 T:01017f0101 U:3f4040403f V:1f2040201f
        W:3f4038403f X:6314081463 Y:0708700807 Z:6151494543 +:08083e0808 -:0808080808 *:14083e0814 /:2010080402
        .:0060600000 ,:0050300000 ::0036360000 !:00005f0000 ?:0201510906 (:001c224100 ):0041221c00 %:2313086462
        =:1414141414 _:4040404040 <:0814224100 >:0041221408 #:147f147f14
    """.split()
}
"""Five columns of each, from left to right; bit 0 is the top row."""


def _checked(colour: Colour) -> Colour:
    if isinstance(colour, str) or len(colour) != 3:
        raise ValueError(f"a colour is (red, green, blue), each from 0 to 255, got {colour!r}")
    return colour
