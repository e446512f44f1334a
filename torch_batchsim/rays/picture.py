"""Pictures of worlds with bodies, by the camera of the library ``rays``: for ``Environment.render``."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..build import jit
from ..draw import Canvas, Scene
from ..draw import Colour as Rgb
from ..physics.hulls import LAYOUT
from ..physics.shapes import ShapeKind

World = Mapping[str, np.ndarray]  # as ``Environment.render`` gets it
Colour = int | Sequence[int] | Callable[[World], ArrayLike] | None
Point = Sequence[float]  # x, y, z

PALETTE = (0xD9A441, 0x4C78A8, 0xC44E52, 0x59A14F, 0x9C6ADE, 0x8C6D4F, 0x3FA7A0, 0xB0B4B8)
"""Colours of archetypes without one, in turns; as in csrc/rays/library.h."""

GROUND = 0xCDCFC8
"""The colour of planes without one."""

_POSE = ".physics.Pose.position"
_MOST_PIXELS = 4096  # of a side
_CONTRAST = 0.1  # of the squares on planes


class Picture:
    """Draws the bodies of a world as a camera sees them. It is an environment's ``render``, or what that calls::

        class Tower(Environment):
            render = Picture(eye=(7, -9, 6), target=(0, 0, 2.5), colours={"Ball": 0xC44E52})

    A call draws all rows with a ``physics.Pose`` and a ``physics.Shape``, on CPU; the simulation holds nothing of it.
    The first picture compiles for a few seconds. See docs/rays.md.

    Args:
        eye: where the camera is, in metres: in the world's frame, or in that of ``follow``.
        target: the point in the middle of the picture, in the same frame.
        width, height: of the picture, pixels, up to 4,096.
        follow: an archetype: the camera goes with its first row, and turns with it about the vertical. The origin is
            the row's position, y its forward axis. Without rows the camera is in the world's frame.
        turn: False: the camera goes with the row of ``follow``, and does not turn.
        field_of_view: from bottom to top, radians, above 0, below pi.
        up: the direction that is up in the picture; y if the camera looks straight down or up.
        colours: by archetype: 0xRRGGBB; or a sequence of such, which rows take in turns; or a function that gets the
            world as ``render`` does and returns integers ``[rows]``; or None: it is not drawn. The default is
            ``rays.Paint`` of rows that have it, then ``PALETTE``, and ``GROUND`` for planes.
        ground: the height of a plane drawn below everything, metres; None: without one.
        shadows: bodies throw shadows, which takes half as long again.
        light: the direction towards the light.
        ambient: the share of light from everywhere, 0 to 1.
        tile: metres, the side of the squares on planes.
        sky: colours without a body: straight up, at the horizon, straight down.
        samples: rays in a pixel, across and down, whose mean it shows: 1 is fastest, 2 smooths edges.

    Raises TypeError or ValueError for values out of range; a call raises KeyError for unknown archetypes.
    """

    def __init__(
        self,
        eye: Point,
        target: Point,
        *,
        width: int = 480,
        height: int = 360,
        follow: str | None = None,
        turn: bool = True,
        field_of_view: float = 0.8,
        up: Point = (0.0, 0.0, 1.0),
        colours: Mapping[str, Colour] | None = None,
        ground: float | None = None,
        shadows: bool = True,
        light: Point = (-0.35, -0.6, 0.72),
        ambient: float = 0.62,
        tile: float = 1.0,
        sky: tuple[int, int, int] = (0x5B8FD0, 0xDFE9F2, 0xA8A49C),
        samples: int = 2,
    ) -> None:
        self.eye, self.target = _point("eye", eye), _point("target", target)
        self._up, self._light = _direction("up", up), _direction("light", light)
        if np.array_equal(self.eye, self.target):
            raise ValueError(f"eye and target must be different points, got {tuple(eye)} for both")
        for name, value in (("width", width), ("height", height), ("samples", samples)):
            most = 8 if name == "samples" else _MOST_PIXELS
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
                raise ValueError(f"{name} must be an integer from 1 to {most}, got {value!r}")
        if not 0 < field_of_view < math.pi:
            raise ValueError(f"field_of_view must be more than 0 and less than pi, in radians, got {field_of_view!r}")
        if not 0 <= ambient <= 1:
            raise ValueError(f"ambient must be from 0 to 1, got {ambient!r}")
        if not tile > 0:
            raise ValueError(f"tile must be positive, in metres, got {tile!r}")
        if ground is not None and not math.isfinite(ground):
            raise ValueError(f"ground must be a finite height or None, got {ground!r}")
        self.width, self.height, self._samples = int(width), int(height), int(samples)
        self._follow, self._turn, self._ground = follow, turn, ground
        self._colours = dict(colours or {})
        for name, colour in self._colours.items():
            if not callable(colour) and colour is not None:
                _colour_rows(name, colour, 1)
        self._fixed = (field_of_view, ambient, tile, shadows, *(_colour("sky", one) for one in sky))

    def __call__(self, world: World) -> np.ndarray:
        """``uint8 [height, width, 3]`` of a world, whose columns ``world`` has by name, as ``Environment.render``."""
        return self.scene(world).pixels

    def scene(self, world: World) -> BodyScene:
        """What ``__call__`` draws, as data; its methods draw shapes in front of it. For ``Environment.scene``."""
        bodies = self._bodies(world)
        return BodyScene(self._view(*self._placed(world)), bodies, self._samples)

    def _bodies(self, world: World) -> dict[str, np.ndarray]:
        """Arrays ``[bodies, ...]`` of all drawn bodies, and the hulls."""
        tables = [name.removesuffix(_POSE) for name in world if name.endswith(_POSE)]
        tables = [table for table in tables if f"{table}.physics.Shape.kind" in world]
        for table in (*self._colours, *([] if self._follow is None else [self._follow])):
            if table not in tables:
                raise KeyError(f"the picture names {table!r}, but archetypes with a pose and a shape are {tables}")
        rows = [self._rows(world, table, i) for i, table in enumerate(tables)]
        rows.append(_plane(self._ground))
        bodies = {name: np.concatenate([part[name] for part in rows]) for name in rows[0]}
        hulls = world.get("physics.Hulls.hull", np.zeros((1, LAYOUT.itemsize // 4), np.uint32))
        records = np.ascontiguousarray(hulls).view(LAYOUT)
        unknown = (bodies["kind"] == ShapeKind.HULL) & (bodies["hull"] >= len(records))
        bodies["kind"] = np.where(unknown, -1, bodies["kind"]).astype(np.int32)
        bodies["hull"] = np.where(bodies["kind"] == ShapeKind.HULL, bodies["hull"], 0).astype(np.uint32)
        return {**bodies, "hulls": records}

    def _rows(self, world: World, table: str, number: int) -> dict[str, np.ndarray]:
        """Of one archetype."""

        def column(name: str, dtype: Any) -> np.ndarray:
            return np.asarray(world[f"{table}.physics.{name}"]).astype(dtype)

        kind = column("Shape.kind", np.int32)
        colour = np.where(kind == ShapeKind.PLANE, GROUND, PALETTE[number % len(PALETTE)])
        given = self._colours.get(table, False)
        if given is None:
            kind, colour = kind[:0], colour[:0]
        elif given is not False:
            colour = _colour_rows(table, given(world) if callable(given) else given, len(kind))
        elif f"{table}.rays.Paint.colour" in world:
            colour = world[f"{table}.rays.Paint.colour"]
        n = len(kind)
        return {
            "kind": kind,
            "hull": column("Shape.hull", np.uint32)[:n],
            "size": column("Shape.size", np.float32)[:n],
            "position": column("Pose.position", np.float32)[:n],
            "rotation": column("Pose.rotation", np.float32)[:n],
            "colour": np.asarray(colour).astype(np.uint32),
        }

    def _placed(self, world: World) -> tuple[np.ndarray, np.ndarray]:
        """Eye and target in the world's frame."""
        if self._follow is None or len(world[f"{self._follow}{_POSE}"]) == 0:
            return self.eye, self.target
        position = np.asarray(world[f"{self._follow}{_POSE}"][0], np.float64)
        w, x, y, z = (float(part) for part in world[f"{self._follow}.physics.Pose.rotation"][0])
        forward = (2 * (x * y - w * z), 1 - 2 * (x * x + z * z))  # where the row's y axis points to, seen from above
        size = math.hypot(*forward)
        sine, cosine = (-forward[0] / size, forward[1] / size) if self._turn and size > 1e-6 else (0.0, 1.0)
        turn = np.array([(cosine, -sine, 0), (sine, cosine, 0), (0, 0, 1)])
        return position + turn @ self.eye, position + turn @ self.target

    def _view(self, eye: np.ndarray, target: np.ndarray) -> _View:
        field_of_view, ambient, tile, shadows, *sky = self._fixed
        way = target - eye
        distance = float(np.linalg.norm(way))
        (x, y, z), (a, b, c) = (way / distance).tolist(), self._up.tolist()
        upright = math.hypot(y * c - z * b, z * a - x * c, x * b - y * a) > 1e-4
        up = self._up if upright else np.array([0.0, 1.0, 0.0])
        view = _View(
            field_of_view=field_of_view, near=0.01 * distance, far=40 * distance, ambient=ambient,
            tile=tile, contrast=_CONTRAST,
            width=self.width * self._samples, height=self.height * self._samples, shadows=shadows,
            zenith=sky[0], horizon=sky[1], ground=sky[2],
        )  # fmt: skip
        for name, vector in (("eye", eye), ("target", target), ("up", up), ("light", self._light)):
            setattr(view, name, (ctypes.c_float * 3)(*vector))
        return view


class BodyScene(Scene):
    """Bodies as a camera sees them, with the shapes of a ``Scene`` in front of them; made by ``Picture.scene``.

    ``label``, ``path``, ``beams`` and ``area`` are shapes at points in space, in metres: bodies do not hide them, and
    what is behind the camera is not drawn.

    Attributes:
        bodies: arrays ``[bodies, ...]``: ``kind`` (of ``physics.ShapeKind``; others are not drawn), ``size``,
            ``position`` and ``rotation`` as in physics.Shape and Pose, ``colour`` 0xRRGGBB, ``hull``: an index of
            ``hulls``, whose records are of ``physics.hulls.LAYOUT``.
        width, height: of the whole picture. At first it is the camera's; a larger height leaves room below.
    """

    def __init__(self, view: _View, bodies: Mapping[str, np.ndarray], samples: int) -> None:
        super().__init__(view.width // samples, view.height // samples)
        self.bodies, self._view, self._samples = bodies, view, samples

    @property
    def camera(self) -> dict[str, Any]:
        """``eye``, ``target``, ``up``, ``light`` (directions of length 1), ``field_of_view``, ``width``, ``height`` and
        so on, as the arguments of ``Picture``; plain numbers and lists.
        """
        view, samples = self._view, self._samples
        camera = {name: list(getattr(view, name)) for name in ("eye", "target", "up", "light")}
        camera |= {name: getattr(view, name) for name in ("field_of_view", "ambient", "tile", "contrast")}
        size = {"width": view.width // samples, "height": view.height // samples}
        return {**camera, **size, "shadows": bool(view.shadows), "sky": [view.zenith, view.horizon, view.ground]}

    def label(self, place: Point, text: str, colour: Rgb, scale: int = 1, align: float = 0.5) -> None:
        """Write a line at a point in space, as ``Canvas.text`` does."""
        self.shapes.append(("label", place, text, colour, scale, align))

    def path(self, points: Sequence[Point], width: float, colour: Rgb) -> None:
        """Draw straight lines from point to point, ``width`` pixels wide."""
        self.shapes.append(("path", tuple(points), width, colour))

    def beams(self, points: Sequence[Point], width: float, colour: Rgb) -> None:
        """Draw straight lines from the first point to each of the others, ``width`` pixels wide."""
        self.shapes.append(("beams", tuple(points), width, colour))

    def area(self, corners: Sequence[Point], colour: Rgb, opacity: float = 1.0) -> None:
        """Fill a polygon, as ``Canvas.polygon`` does."""
        self.shapes.append(("area", tuple(corners), colour, opacity))

    @property
    def pixels(self) -> np.ndarray:
        """The picture, ``uint8 [height, width, 3]``."""
        canvas, samples, view = Canvas(self.width, self.height, self.background), self._samples, self._view
        drawn = _draw(view, self.bodies, view.width, view.height)
        parts = drawn.astype("<u4", copy=False).view(np.uint8)  # blue, green, red, 0
        parts = parts.reshape(view.height // samples, samples, view.width // samples, samples, 4)[..., 2::-1]
        sums = parts.sum(axis=(1, 3), dtype=np.uint32)
        count = samples**2
        means = ((2 * sums + count) // (2 * count)).astype(np.uint8)
        canvas.pixels[: len(means), : means.shape[1]] = means
        self.draw_on(canvas)
        return canvas.pixels

    def _draw(self, canvas: Canvas, kind: str, arguments: list[Any]) -> None:
        if kind not in IN_SPACE:
            super()._draw(canvas, kind, arguments)
            return
        places, *others = arguments
        points = np.asarray(places, np.float64).reshape(-1, 3)
        if not np.isfinite(points).all():
            return
        there = Canvas(0, 0)
        there.pixels = canvas.pixels[: self._view.height // self._samples, : self._view.width // self._samples]
        seen = self._turned(points)
        if kind == "area":
            corners = []
            for start, end in _pairs(seen, closed=True):
                cut = self._cut(start, end)
                corners += cut if end[2] <= self._view.near else cut[:1]  # else the next line begins with it
            if corners:
                there.polygon([self._at(corner) for corner in corners], *others)
        elif kind == "label":
            if seen[0, 2] > self._view.near:
                text, colour, scale, align = others
                there.text(self._at(seen[0]), text, colour, scale, align)
        else:
            pairs = _pairs(seen) if kind == "path" else [(seen[0], end) for end in seen[1:]]
            for cut in (self._cut(*pair) for pair in pairs):
                if cut:
                    there.line(self._at(cut[0]), self._at(cut[-1]), *others)

    def _turned(self, points: np.ndarray) -> np.ndarray:
        """Points in the camera's frame: to the right, up, ahead."""
        eye, target, up = (np.array(getattr(self._view, name), np.float64) for name in ("eye", "target", "up"))
        ahead = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(ahead, up)
        right /= np.linalg.norm(right)
        return (points - eye) @ np.stack([right, np.cross(right, ahead), ahead], -1)

    def _cut(self, start: np.ndarray, end: np.ndarray) -> list[np.ndarray]:
        """The ends of the part of a line that is before the camera."""
        a, b = (float(point[2]) - self._view.near for point in (start, end))
        if a <= 0 and b <= 0:
            return []
        between = start + (a / (a - b) if a != b else 0.0) * (end - start)
        return [between if a <= 0 else start, between if b <= 0 else end]

    def _at(self, point: np.ndarray) -> tuple[float, float]:
        """Pixels of a point in the camera's frame."""
        width, height = self._view.width / self._samples, self._view.height / self._samples
        x, y, ahead = (float(part) for part in point)
        scale = height / 2 / math.tan(self._view.field_of_view / 2) / ahead
        return width / 2 + scale * x, height / 2 - scale * y


IN_SPACE = ("label", "path", "beams", "area")
"""Shapes of a ``BodyScene`` whose points are in space."""


def _pairs(points: np.ndarray, closed: bool = False) -> list[tuple[np.ndarray, np.ndarray]]:
    """Neighbours; also the last and the first."""
    ends = np.roll(points, -1, axis=0)
    return list(zip(points, ends, strict=True))[: None if closed else -1]


class _View(ctypes.Structure):
    """As csrc/rays/picture.cpp has it."""

    _fields_ = [
        *((name, ctypes.c_float * 3) for name in ("eye", "target", "up", "light")),
        *((name, ctypes.c_float) for name in ("field_of_view", "near", "far", "ambient", "tile", "contrast")),
        *((name, ctypes.c_uint32) for name in ("width", "height", "shadows", "zenith", "horizon", "ground")),
    ]


def _draw(view: _View, bodies: Mapping[str, np.ndarray], width: int, height: int) -> np.ndarray:
    """0xRRGGBB for each pixel, ``uint32 [height, width]``."""
    count = len(bodies["kind"])
    used = bodies["hull"][bodies["kind"] == ShapeKind.HULL]
    faces = int(bodies["hulls"]["faces"][used].sum())
    library = _library(_room(count), _room(faces))
    arrays = [np.ascontiguousarray(bodies[name]) for name in _COLUMNS]
    record = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    scene = np.empty(library.tbs_scene_bytes() + 64, np.uint8)
    memory = ctypes.c_void_p(scene.ctypes.data + -scene.ctypes.data % 64)
    pixels = np.empty((height, width), np.uint32)
    library.tbs_picture(memory, record, ctypes.c_uint32(count), ctypes.byref(view), ctypes.c_void_p(pixels.ctypes.data))
    return pixels


_COLUMNS = ("kind", "hull", "size", "position", "rotation", "colour", "hulls")


@cache
def _library(bodies: int, faces: int) -> ctypes.CDLL:
    source = jit.CSRC / "rays" / "picture.cpp"
    library = jit.load_shared(source, f"-DTBS_BODIES={bodies}", f"-DTBS_FACES={faces}")
    library.tbs_scene_bytes.restype = ctypes.c_uint64
    library.tbs_picture.restype = None
    return library


def _room(count: int) -> int:
    """64, or a power of two times it: worlds of about the same size share what is compiled."""
    room = 64
    while room < count:
        room *= 2
    return room


def _plane(height: float | None) -> dict[str, np.ndarray]:
    """The ground: one body, or none."""
    n = 0 if height is None else 1
    return {
        "kind": np.full(n, ShapeKind.PLANE, np.int32),
        "hull": np.zeros(n, np.uint32),
        "size": np.ones((n, 3), np.float32),
        "position": np.array([(0.0, 0.0, height or 0.0)] * n, np.float32).reshape(n, 3),
        "rotation": np.array([(1.0, 0.0, 0.0, 0.0)] * n, np.float32).reshape(n, 4),
        "colour": np.full(n, GROUND, np.uint32),
    }


def _point(name: str, value: Point) -> np.ndarray:
    point = np.asarray(value, np.float64)
    if point.shape != (3,) or not np.isfinite(point).all():
        raise ValueError(f"{name} must be three finite numbers x, y, z, got {value!r}")
    return point


def _direction(name: str, value: Point) -> np.ndarray:
    point = _point(name, value)
    size = np.linalg.norm(point)
    if size == 0:
        raise ValueError(f"{name} must be a direction, got {value!r}")
    return point / size


def _colour(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value <= 0xFFFFFF:
        raise ValueError(f"{name}: a colour must be an integer from 0 to 0xFFFFFF, got {value!r}")
    return int(value)


def _colour_rows(table: str, given: ArrayLike, rows: int) -> np.ndarray:
    """A colour for each row of an archetype; those of a sequence in turns."""
    colours = np.atleast_1d(np.asarray(given))
    if colours.ndim != 1 or len(colours) == 0 or colours.dtype.kind not in "iu":
        raise ValueError(f"colours[{table!r}] must be integers 0xRRGGBB, got {given!r}")
    if colours.min() < 0 or colours.max() > 0xFFFFFF:
        raise ValueError(f"colours[{table!r}] must be from 0 to 0xFFFFFF, got {given!r}")
    return colours.astype(np.uint32)[np.arange(rows) % len(colours)]
