"""Scenes as data of a page: styles once, positions as differences from moment to moment.

A shape is a style (its kind, colour and all that seldom changes) and integers (its places, in fractions of a pixel or
metre). A frame is a layout, the list of its styles, and the integers of all of them. What stands still is a row of
zeros, of which a compressed page holds next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..draw import Scene, Sprite
from ..physics.hulls import LAYOUT
from ..physics.shapes import ShapeKind
from ..rays import BodyScene
from ..rays.picture import IN_SPACE

PIXEL, TURN = 16, 8192  # integers in a pixel, and in the 1 of a quaternion
_MOST = 1 << 30


class Film:
    """Collects the scenes of one world. ``data`` is JSON; page.html reads it."""

    def __init__(self) -> None:
        self._ids: dict[Any, int] = {}
        self._styles: list[Any] = []
        self._layouts: dict[tuple[int, ...], int] = {}
        self._frames: list[Any] = []
        self._before: list[int] = []
        self._metre, self._size = 1.0, (0, 0)
        self._hulls: dict[int, Any] = {}
        self._sprites: list[Sprite] = []  # kept, so that no other one gets the id of one

    def add(self, scene: Scene) -> None:
        """One more moment."""
        styles: list[int] = []
        numbers: list[int] = []
        self._size = scene.width, scene.height
        parts = self._bodies(scene) if isinstance(scene, BodyScene) else []
        for style, places in [(("background", _hex(scene.background)), []), *parts, *self._shapes(scene)]:
            styles.append(self._style(style))
            numbers += places
        layout = self._layouts.setdefault(tuple(styles), len(self._layouts))
        same = len(numbers) == len(self._before)
        changes = [a - b for a, b in zip(numbers, self._before, strict=True)] if same else numbers
        self._frames.append([layout, int(same), 0 if same and not any(changes) else changes])
        self._before = numbers

    @property
    def data(self) -> dict[str, Any]:
        """All of it."""
        return {
            "kind": "scenes", "width": self._size[0], "height": self._size[1], "pixel": PIXEL, "metre": self._metre,
            "turn": TURN, "styles": self._styles, "layouts": [list(layout) for layout in self._layouts],
            "frames": self._frames, "hulls": self._hulls,
        }  # fmt: skip

    def _style(self, style: Any) -> int:
        if style not in self._ids:
            self._ids[style] = len(self._styles)
            self._styles.append(list(style))
        return self._ids[style]

    def _shapes(self, scene: Scene) -> Iterable[tuple[Any, list[int]]]:
        style: tuple[Any, ...]
        for kind, *given in scene.shapes:
            if kind == "rectangle":
                style, points = (kind, _hex(given[2])), given[:2]
            elif kind == "circle":
                style, points = (kind, _hex(given[2]), round(float(given[1]), 2)), given[:1]
            elif kind == "line":
                style, points = (kind, _hex(given[3]), round(float(given[2]), 2)), given[:2]
            elif kind in ("polygon", "area"):
                style, points = (kind, _hex(given[1]), len(given[0]), round(float(given[2]), 3)), given[0]
            elif kind in ("text", "label"):
                style, points = (kind, _hex(given[2]), given[1], given[3], given[4]), given[:1]
            elif kind == "layer":
                style, points = (kind, *given), []
            elif kind in ("path", "beams"):
                style, points = (kind, _hex(given[2]), len(given[0]), round(float(given[1]), 2)), given[0]
            else:
                style, points = (kind, self._sprite(given[0])), given[1:]
            places = [float(number) for point in points for number in point]
            if all(map(math.isfinite, places)):
                yield style, _whole(places, self._metre if kind in IN_SPACE else PIXEL)

    def _sprite(self, sprite: Sprite) -> int:
        """The style of a drawing: its size, and its shapes as styles with their places."""
        key = ("sprite", id(sprite))
        if key not in self._ids:
            shapes = tuple((self._style(style), *places) for style, places in self._shapes(sprite.scene))
            self._ids[key] = self._style(("sprite", sprite.scene.width, sprite.scene.height, shapes))
            self._sprites.append(sprite)
        return self._ids[key]

    def _bodies(self, scene: BodyScene) -> Iterable[tuple[Any, list[int]]]:
        camera = scene.camera
        if not self._frames:
            distance = math.dist(camera["eye"], camera["target"])
            self._metre = 10.0 ** math.ceil(math.log10(8000 / distance))  # an eight thousandth of the view
        fixed = ("up", "light", "field_of_view", "ambient", "tile", "shadows", "sky", "width", "height")
        style = ("camera", *(_frozen(camera[name]) for name in fixed))
        yield style, _whole([*camera["eye"], *camera["target"]], self._metre)
        bodies = scene.bodies
        columns = (bodies[name].tolist() for name in ("kind", "size", "hull", "colour", "position", "rotation"))
        for kind, size, hull, colour, position, rotation in zip(*columns, strict=True):
            if not 0 <= kind <= ShapeKind.PLANE or not all(map(math.isfinite, [*position, *rotation])):
                continue
            if kind == ShapeKind.HULL and hull not in self._hulls:
                self._hulls[hull] = _polyhedron(bodies["hulls"].reshape(-1)[hull])
            name = ShapeKind(kind).name.lower()
            style = (name, f"#{colour:06x}", tuple(round(part, 5) for part in size), hull)
            yield style, [*_whole(position, self._metre), *(round(TURN * part) for part in rotation)]


def _whole(places: list[float], unit: float) -> list[int]:
    return [round(min(max(unit * place, -_MOST), _MOST)) for place in places]


def _polyhedron(record: np.ndarray) -> dict[str, Any]:
    """Vertices, and the corners of each face, counter-clockwise from outside."""
    assert record.dtype == LAYOUT
    vertices, faces = int(record["vertices"]), int(record["faces"])
    points = np.stack([record[axis][:vertices] for axis in "xyz"], -1)
    starts = record["start"].tolist()
    loops = [record["loop"][starts[i] : starts[i + 1]].tolist() for i in range(faces)]
    return {"vertices": [[round(part, 5) for part in point] for point in points.tolist()], "faces": loops}


def _hex(colour: Any) -> str:
    return "#{:02x}{:02x}{:02x}".format(*(min(255, max(0, int(part))) for part in colour))


def _frozen(value: Any) -> Any:
    return tuple(round(part, 5) for part in value) if isinstance(value, list) else value
