"""Scenes as data of a page: styles once, places as integers.

A shape is a style (its kind, colour and all that seldom changes) and integers (its places, in fractions of a pixel or
metre). A moment of a world is a layout, the list of its styles, and the integers of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..draw import Scene, Sprite
from ..physics.hulls import LAYOUT
from ..physics.shapes import ShapeKind
from ..rays import BodyScene

PIXEL, TURN = 16, 8192  # integers in a pixel, and in the 1 of a quaternion
_MOST = 1 << 30
_MOST_KNOWN = 4096  # lists of bodies whose styles are remembered
_MANY = 10_000  # styles or layouts: scenes whose texts change always make new ones
_DIGITS = {"circle": 2, "line": 2, "polygon": 3, "path": 3, "beams": 3, "area": 3}
_FIXED_BY_CAMERA = ("up", "light", "field_of_view", "ambient", "tile", "shadows", "sky", "width", "height")


class Encoded(NamedTuple):
    """Scenes: the layout of each, its integers ``numbers[ends[i - 1] : ends[i]]``, and its width and height."""

    layouts: list[int]
    numbers: np.ndarray  # int32
    ends: list[int]
    sizes: list[tuple[int, int]]


class Encoder:
    """Turns scenes into integers. ``styles``, ``layouts`` and ``hulls`` grow as new ones are met.

    It takes many scenes at once, because a page of many worlds needs them often: of each shape little is done in
    Python, and all numbers are scaled together.
    """

    def __init__(self) -> None:
        self.styles: list[list[Any]] = []
        self.layouts: list[tuple[int, ...]] = []
        self.hulls: dict[int, Any] = {}
        self._style_ids: dict[Any, int] = {}  # by the style itself
        self._known: dict[Any, int] = {}  # by a shape's arguments
        self._layout_ids: dict[tuple[int, ...], int] = {}
        self._metre: float | None = None
        self._bodies_known: dict[bytes, list[int]] = {}
        self._sprites: list[Sprite] = []  # kept, so that no other one gets the id of one

    @property
    def units(self) -> dict[str, float]:
        """Integers in a pixel, a metre, and the 1 of a quaternion."""
        return {"pixel": PIXEL, "metre": self._metre or 1.0, "turn": TURN}

    @property
    def is_full(self) -> bool:
        """Whether another one should follow, where it is used for long."""
        return max(len(self.styles), len(self.layouts)) > _MANY

    def encode(self, scenes: Sequence[Scene]) -> Encoded:
        """All of them; shapes and bodies with a place that is no number are left out, as pictures do."""
        if len(self._known) > _MANY:
            self._known, self._sprites = {}, []
        styles, numbers, ends = self._scaled(scenes, finite=False)
        if not np.isfinite(numbers).all():
            styles, numbers, ends = self._scaled(scenes, finite=True)
        integers = np.rint(np.clip(numbers, -_MOST, _MOST)).astype(np.int32)
        sizes = [(scene.width, scene.height) for scene in scenes]
        return Encoded([self._layout(each) for each in styles], integers, ends, sizes)

    def _scaled(self, scenes: Sequence[Scene], finite: bool) -> tuple[list[tuple[int, ...]], np.ndarray, list[int]]:
        """The styles of each scene, all numbers as floats, and where those of each end.

        ``finite``: shapes with a place that is no number are left out.
        """
        parts: list[np.ndarray] = []
        flat: list[float] = []
        listed, ends, end = [], [], 0
        known, number = self._known, self._number
        read = self._read_finite if finite else self._read
        for scene in scenes:
            styles = [number(("background", scene.background))]
            if isinstance(scene, BodyScene):
                numbers = self._bodies(scene, styles)
                parts += [np.array(flat, np.float64) * PIXEL, numbers]
                flat, end = [], end + len(numbers)
            before = len(flat)
            for shape in scene.shapes:
                kind = shape[0]
                key: tuple[Any, ...] | None
                if kind == "rectangle" and not finite:  # these two are most of all shapes
                    _, corner, opposite, colour = shape
                    flat += corner
                    flat += opposite
                    key = kind, colour
                elif kind == "line" and not finite:
                    _, start, stop, width, colour = shape
                    flat += start
                    flat += stop
                    key = kind, colour, width
                else:
                    key = read(shape, flat)
                    if key is None:
                        continue
                try:
                    styles.append(known[key])
                except (KeyError, TypeError):
                    styles.append(number(key))
            end += len(flat) - before
            ends.append(end)
            listed.append(tuple(styles))
        parts.append(np.array(flat, np.float64) * PIXEL)
        return listed, np.concatenate(parts), ends

    # ---- flat shapes -------------------------------------------------------------------------------------------------

    def _read(self, shape: tuple[Any, ...], places: list[float]) -> tuple[Any, ...]:
        """Add the places of a shape. Returns the rest of it."""
        kind = shape[0]
        if kind == "rectangle":
            places += shape[1]
            places += shape[2]
            return kind, shape[3]
        if kind == "circle":
            places += shape[1]
            return kind, shape[3], shape[2]
        if kind == "line":
            places += shape[1]
            places += shape[2]
            return kind, shape[4], shape[3]
        if kind == "polygon":
            for corner in shape[1]:
                places += corner
            return kind, shape[2], len(shape[1]), shape[3]
        if kind == "text":
            places += shape[1]
            return kind, shape[3], shape[2], shape[4], shape[5]
        if kind == "stamp":
            places += shape[2]
            return kind, id(self._kept(shape[1]))
        if kind == "layer":
            return shape
        unit = (self._metre or 1.0) / PIXEL  # of a point in space, among pixels
        places += (unit * np.ravel(shape[1])).tolist()
        if kind == "label":
            return kind, shape[3], shape[2], shape[4], shape[5]
        colour, more = (shape[2], shape[3]) if kind == "area" else (shape[3], shape[2])
        return kind, colour, len(shape[1]), more

    def _read_finite(self, shape: tuple[Any, ...], places: list[float]) -> tuple[Any, ...] | None:
        """``_read``, or None for a shape that has no place."""
        before = len(places)
        key = self._read(shape, places)
        finite = all(map(math.isfinite, places[before:]))
        if not finite or (key[0] in _DIGITS and not math.isfinite(key[-1])):
            del places[before:]
            return None
        return key

    def _number(self, key: tuple[Any, ...]) -> int:
        """The style of a shape's arguments, which are remembered if they can be."""
        try:
            return self._known[key]
        except TypeError:  # a colour as a list
            return self._style(_style_of(key))
        except KeyError:
            number = self._known[key] = self._style(_style_of(key))
            return number

    def _kept(self, sprite: Sprite) -> Sprite:
        """The sprite, whose style is written when it is met first: its size, and its shapes as styles with places."""
        key = ("stamp", id(sprite))
        if key not in self._known:
            self._sprites.append(sprite)
            shapes = []
            for shape in sprite.scene.shapes:
                places: list[float] = []
                own = self._read_finite(shape, places)
                if own is not None:
                    rounded = [round(min(max(PIXEL * float(place), -_MOST), _MOST)) for place in places]
                    shapes.append((self._number(own), *rounded))
            drawing = self._style(("sprite", sprite.scene.width, sprite.scene.height, tuple(shapes)))
            self._known[key] = self._style(("stamp", drawing))
        return sprite

    def _style(self, style: tuple[Any, ...]) -> int:
        number = self._style_ids.get(style)
        if number is None:
            number = self._style_ids[style] = len(self.styles)
            self.styles.append(list(style))
        return number

    def _layout(self, styles: tuple[int, ...]) -> int:
        number = self._layout_ids.get(styles)
        if number is None:
            number = self._layout_ids[styles] = len(self.layouts)
            self.layouts.append(styles)
        return number

    # ---- bodies ------------------------------------------------------------------------------------------------------

    def _bodies(self, scene: BodyScene, styles: list[int]) -> np.ndarray:
        """Add the styles of camera and bodies. Returns their places, scaled."""
        camera, bodies = scene.camera, scene.bodies
        if self._metre is None:
            distance = math.dist(camera["eye"], camera["target"])
            self._metre = 10.0 ** math.ceil(math.log10(8000 / distance))  # an eight thousandth of the view
        styles.append(self._style(("camera", *(_frozen(camera[name]) for name in _FIXED_BY_CAMERA))))
        places = np.concatenate([bodies["position"], bodies["rotation"]], axis=1, dtype=np.float64)
        drawn = (bodies["kind"] >= 0) & (bodies["kind"] <= ShapeKind.PLANE) & np.isfinite(places).all(axis=1)
        styles += self._styles_of(bodies, drawn)
        places = places[drawn] * ([self._metre] * 3 + [TURN] * 4)
        return np.concatenate([self._metre * np.array([*camera["eye"], *camera["target"]]), places.ravel()])

    def _styles_of(self, bodies: Any, drawn: np.ndarray) -> list[int]:
        """Those of the drawn bodies: the same ones again and again."""
        columns = [bodies[name][drawn] for name in ("kind", "size", "hull", "colour")]
        key = b"".join(column.tobytes() for column in columns)
        if key not in self._bodies_known:
            if len(self._bodies_known) >= _MOST_KNOWN:
                self._bodies_known.clear()
            self._bodies_known[key] = [
                self._body(bodies, *values) for values in zip(*(column.tolist() for column in columns), strict=True)
            ]
        return self._bodies_known[key]

    def _body(self, bodies: Any, kind: int, size: Iterable[float], hull: int, colour: int) -> int:
        if kind == ShapeKind.HULL and hull not in self.hulls:
            self.hulls[hull] = _polyhedron(bodies["hulls"].reshape(-1)[hull])
        name = ShapeKind(kind).name.lower()
        return self._style((name, f"#{colour:06x}", tuple(round(part, 5) for part in size), hull))


class Film:
    """Collects the scenes of one world; a frame is written as what has changed since the one before.

    What stands still is a row of zeros, of which a compressed page holds next to nothing. ``data`` is JSON.
    """

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._frames: list[Any] = []
        self._before: list[int] = []
        self._size = (0, 0)

    def add(self, scene: Scene) -> None:
        """One more moment."""
        encoded = self._encoder.encode([scene])
        numbers = encoded.numbers.tolist()
        same = len(numbers) == len(self._before)
        changes = [a - b for a, b in zip(numbers, self._before, strict=True)] if same else numbers
        self._frames.append([encoded.layouts[0], int(same), 0 if same and not any(changes) else changes])
        self._before, self._size = numbers, encoded.sizes[0]

    @property
    def data(self) -> dict[str, Any]:
        """All of it."""
        encoder = self._encoder
        return {
            "kind": "scenes", "width": self._size[0], "height": self._size[1], **encoder.units,
            "styles": encoder.styles, "layouts": [list(layout) for layout in encoder.layouts],
            "frames": self._frames, "hulls": encoder.hulls,
        }  # fmt: skip


def _polyhedron(record: np.ndarray) -> dict[str, Any]:
    """Vertices, and the corners of each face, counter-clockwise from outside."""
    assert record.dtype == LAYOUT
    vertices, faces = int(record["vertices"]), int(record["faces"])
    points = np.stack([record[axis][:vertices] for axis in "xyz"], -1)
    starts = record["start"].tolist()
    loops = [record["loop"][starts[i] : starts[i + 1]].tolist() for i in range(faces)]
    return {"vertices": [[round(part, 5) for part in point] for point in points.tolist()], "faces": loops}


def _style_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The colour as a text, and the last number of some kinds with few digits: a size that changes a little is one."""
    if key[0] == "layer":
        return key
    rest = key[2:]
    if key[0] in _DIGITS:
        size = float(rest[-1])
        rest = *rest[:-1], round(size, _DIGITS[key[0]]) if math.isfinite(size) else 0.0
    return key[0], _hex(key[1]), *rest


def _hex(colour: Any) -> str:
    return "#{:02x}{:02x}{:02x}".format(*(min(255, max(0, int(part))) for part in colour))


def _frozen(value: Any) -> Any:
    return tuple(round(part, 5) for part in value) if isinstance(value, list) else value
