"""What the tests of csrc/rays share: records as C++ has them, random shapes and rays, where they meet in float64."""

from __future__ import annotations

import ctypes
from itertools import combinations

import numpy as np
from conftest import pointer

from torch_batchsim.physics.hulls import LAYOUT as HULL_RECORD

f32, f64 = np.float32, np.float64
SPHERE, CAPSULE, BOX, HULL, PLANE = range(5)
EVERYTHING = 0xFFFFFFFF

RAY = np.dtype(
    [("origin", f32, 3), ("direction", f32, 3), ("reach", f32)]
    + [("mask", "u4"), ("ignored", "i4"), ("ignored_too", "i4")]
)
HIT = np.dtype([("distance", f32), ("body", "i4"), ("normal", f32, 3)])
SIGHT = np.dtype([("start", f32, 3), ("end", f32, 3), ("a", "i4"), ("b", "i4"), ("mask", "u4")])
FAN = np.dtype(
    [("origin", f32, 3), ("rotation", f32, 4), ("reach", f32), ("mask", "u4"), ("ignored", "i4"), ("axis", f32, 3)]
    + [("forward", f32, 3), ("first", f32), ("step", f32)]
)
CAMERA = np.dtype(
    [("position", f32, 3), ("rotation", f32, 4), ("field_of_view", f32), ("width", "u4"), ("height", "u4")]
    + [("near", f32), ("far", f32), ("mask", "u4"), ("ignored", "i4")]
)
PLACES, FACES = 64, 512
_BY_PLACE = [(name, "u4", PLACES) for name in ("x", "y", "z", "low_x", "low_y", "low_z", "high_x", "high_y", "high_z")]
SCENE = np.dtype(  # the words of rays_library.cpp's Scene
    [("count", "u4"), ("aligned", "u4", PLACES // 16), *_BY_PLACE, ("groups", "u4", PLACES), ("kind", "u4", PLACES)]
    + [("radius", "u4", PLACES), ("length", "u4", PLACES), ("frame", "u4", (9, PLACES)), ("first_face", "u4", PLACES)]
    + [("faces", "u4", PLACES), ("face", "u4", (FACES, 4)), ("archetype", "u4", PLACES), ("colour", "u4", PLACES)]
)
PIXEL = np.dtype([("depth", f32), ("body", "i4"), ("archetype", "i4"), ("colour", "u4")])


def faces_of(vertices: np.ndarray) -> np.ndarray:
    """Faces ``[f, 4]`` (outward unit normal, offset) of the convex hull of points ``[n, 3]``.

    They are all planes through three points that have the rest on one side.
    """
    found: list[np.ndarray] = []
    for a, b, c in combinations(vertices.astype(f64), 3):
        normal = np.cross(b - a, c - a)
        size = np.linalg.norm(normal)
        if size < 1e-9:
            continue
        for sign in (1, -1):
            n = sign * normal / size
            plane = np.array([*n, n @ a])
            if (vertices @ n <= plane[3] + 1e-6).all() and not any(np.allclose(plane, one, atol=1e-5) for one in found):
                found.append(plane)
    return np.array(found)


def hull_record(vertices: np.ndarray) -> np.ndarray:
    """A ``Hull`` with what rays read of it: vertices and faces. The centroid must be near the origin."""
    faces = faces_of(vertices)
    record = np.zeros((), HULL_RECORD)
    for axis, name in enumerate("xyz"):
        record[name] = vertices[0, axis]
        record[name][: len(vertices)] = vertices[:, axis]
    for column, name in enumerate(("normal_x", "normal_y", "normal_z", "offset")):
        record[name] = faces[0, column]
        record[name][: len(faces)] = faces[:, column]
    record["vertices"], record["faces"] = len(vertices), len(faces)
    return record


def wedge() -> np.ndarray:
    """A ramp, 2 wide, 3 long, 2 high, about its centroid: ``[6, 3]``."""
    corners = [(-1, -1.5, 0), (1, -1.5, 0), (-1, 1.5, 0), (1, 1.5, 0), (-1, 1.5, 2), (1, 1.5, 2)]
    return np.array(corners, f32) - np.array([0, 0.5, 2 / 3], f32)


def ball(points: int, random: np.random.Generator) -> np.ndarray:
    """So many points on the unit sphere, evenly enough that the origin is well inside: ``[points, 3]``."""
    i = np.arange(points) + 0.5
    height, angle = 1 - 2 * i / points, np.pi * (1 + 5**0.5) * i + random.uniform(0, 6)
    side = np.sqrt(1 - height * height)
    return np.stack([side * np.cos(angle), side * np.sin(angle), height], 1).astype(f32)


class Bodies:
    """Shapes at places, as arrays ``[n]`` and as the struct that C++ reads."""

    def __init__(self, kind, size, position, rotation, hulls=(), hull=None, groups=None, colour=None, archetype=None):
        n = len(kind)

        def column(values, dtype, default):
            return np.ascontiguousarray(np.full(n, default) if values is None else values, dtype)

        self.kind, self.hull = column(kind, np.int32, 0), column(hull, np.int32, 0)
        self.size, self.position = (np.ascontiguousarray(a, f32).reshape(n, 3) for a in (size, position))
        self.rotation = np.ascontiguousarray(rotation, f32).reshape(n, 4)
        self.groups, self.colour = column(groups, np.uint32, 1), column(colour, np.uint32, 0x808080)
        self.archetype = column(archetype, np.int32, 0)
        self.hulls = np.array(list(hulls) or [np.zeros((), HULL_RECORD)], HULL_RECORD)
        arrays = (self.kind, self.hull, self.size, self.position, self.rotation, self.groups, self.colour)
        self.record = (ctypes.c_void_p * 9)(*(a.ctypes.data for a in (*arrays, self.archetype, self.hulls)))

    def __len__(self) -> int:
        return len(self.kind)

    def chosen(self, index: np.ndarray) -> Bodies:
        """Those at some places, in that order."""
        names = ("kind", "size", "position", "rotation", "hull", "groups", "colour", "archetype")
        return Bodies(hulls=self.hulls, **{name: getattr(self, name)[index] for name in names})

    def faces(self, i: int) -> np.ndarray:
        """Of a hull, ``[f, 4]``, without its scale."""
        hull = self.hulls[self.hull[i]]
        columns = [hull[name][: hull["faces"]] for name in ("normal_x", "normal_y", "normal_z", "offset")]
        return np.stack(columns, 1).astype(f64)


def matrices(q: np.ndarray) -> np.ndarray:
    """Rotation matrices ``[n, 3, 3]`` of unit quaternions ``[n, 4]``, real part first."""
    w, x, y, z = q.astype(f64).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1)


def random_rotations(random: np.random.Generator, n: int) -> np.ndarray:
    q = random.normal(size=(n, 4))
    q[random.random(n) < 0.2] = (1, 0, 0, 0)
    return (q / np.linalg.norm(q, axis=1, keepdims=True)).astype(f32)


def random_bodies(random: np.random.Generator, n: int, spread: float, kinds=tuple(range(5))) -> Bodies:
    hulls = [hull_record(wedge()), *(hull_record(ball(points, random)) for points in (6, 8, 12))]
    return Bodies(
        random.choice(kinds, n),
        random.uniform(0.2, 2, (n, 3)),
        random.uniform(-spread, spread, (n, 3)),
        random_rotations(random, n),
        hulls,
        random.integers(0, len(hulls), n),
        archetype=random.integers(0, 5, n),
        colour=random.integers(0, 1 << 24, n),
    )


def local_rays(bodies: Bodies, origin: np.ndarray, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ray i in the frame of body i, float64."""
    back = matrices(bodies.rotation).transpose(0, 2, 1)
    o, d = origin.astype(f64) - bodies.position, direction.astype(f64)
    return np.einsum("nij,nj->ni", back, o), np.einsum("nij,nj->ni", back, d)


def entries(bodies: Bodies, origin: np.ndarray, direction: np.ndarray, grow: float = 0.0) -> np.ndarray:
    """Where ray i enters body i made larger by ``grow``: distances ``[n]`` in float64, infinity for none."""
    o, d = local_rays(bodies, origin, direction)
    size = bodies.size.astype(f64)
    found = np.full(len(bodies), np.inf)
    with np.errstate(all="ignore"):
        for kind in range(5):
            at = bodies.kind == kind
            if kind == SPHERE:
                found[at] = _sphere(o[at], d[at], size[at, 0] + grow)
            elif kind == CAPSULE:
                found[at] = _capsule(o[at], d[at], size[at, 0] + grow, size[at, 1])
            elif kind == PLANE:
                found[at] = _half_spaces(o[at], d[at], np.array([[[0, 0, 1, grow]]]))
            elif kind == BOX:
                axes = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], f64)
                planes = np.zeros((at.sum(), 6, 4))
                planes[:, :, :3] = axes
                planes[:, :, 3] = np.repeat(size[at], 2, 1) + grow
                found[at] = _half_spaces(o[at], d[at], planes)
            else:
                for i in np.flatnonzero(at):
                    faces = bodies.faces(i)
                    planes = np.c_[faces[:, :3] / size[i], faces[:, 3:]]
                    planes /= np.linalg.norm(planes[:, :3], axis=1, keepdims=True)
                    planes[:, 3] += grow
                    found[i] = _half_spaces(o[i : i + 1], d[i : i + 1], planes[None])[0]
    return found


def _half_spaces(o: np.ndarray, d: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """Rays ``[n, 3]`` against bodies that are the intersection of planes ``[n or 1, f, 4]``."""
    gap = planes[..., 3] - np.einsum("nfi,ni->nf", np.broadcast_to(planes[..., :3], (len(o), *planes.shape[1:2], 3)), o)
    speed = np.einsum("nfi,ni->nf", np.broadcast_to(planes[..., :3], (len(o), *planes.shape[1:2], 3)), d)
    t = gap / speed
    enter = np.where(speed < 0, t, np.where((speed == 0) & (gap < 0), np.inf, -np.inf)).max(1).clip(0)
    leave = np.where(speed > 0, t, np.inf).min(1)
    return np.where(enter <= leave, enter, np.inf)


def _sphere(o: np.ndarray, d: np.ndarray, radius: np.ndarray) -> np.ndarray:
    a, b, c = (d * d).sum(1), (o * d).sum(1), (o * o).sum(1) - radius**2
    rest = b * b - a * c
    t = (-b - np.sqrt(rest)) / a
    return np.where(c <= 0, 0, np.where((rest >= 0) & (t >= 0), t, np.inf))


def _capsule(o: np.ndarray, d: np.ndarray, radius: np.ndarray, half: np.ndarray) -> np.ndarray:
    """The least of both end spheres and the side."""
    up = np.array([0, 0, 1]) * half[:, None]
    ends = np.minimum(_sphere(o - up, d, radius), _sphere(o + up, d, radius))
    a, b = (d[:, :2] ** 2).sum(1), (o[:, :2] * d[:, :2]).sum(1)
    c = (o[:, :2] ** 2).sum(1) - radius**2
    t = (-b - np.sqrt(b * b - a * c)) / a
    side = (t >= 0) & (abs(o[:, 2] + t * d[:, 2]) <= half)
    inside = (c <= 0) & (abs(o[:, 2]) <= half)
    return np.where(inside, 0, np.minimum(ends, np.where(side, t, np.inf)))


def aimed_rays(random: np.random.Generator, bodies: Bodies, distance: float = 8.0) -> tuple[np.ndarray, np.ndarray]:
    """Ray i begins somewhere about body i, one in twelve close to its middle, and goes past a point near it."""
    n = len(bodies)
    away = random.normal(size=(n, 3))
    away *= (random.uniform(0, distance, n) * (random.random(n) > 1 / 12))[:, None] / np.linalg.norm(
        away, axis=1, keepdims=True
    )
    reach = bodies.size.max(1, keepdims=True)
    origin = (bodies.position + away + random.uniform(-0.1, 0.1, (n, 3)) * reach).astype(f32)
    target = bodies.position + random.uniform(-1.2, 1.2, (n, 3)) * reach
    direction = target - origin
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return origin, (direction * random.uniform(0.5, 2, (n, 1))).astype(f32)


def records(dtype: np.dtype, n: int, **fields) -> np.ndarray:
    """An array of records, fields given, what is seen and ignored as by default."""
    made = np.zeros(n, dtype)
    defaults = {"mask": EVERYTHING, "ignored": -1, "ignored_too": -1, "a": -1, "b": -1, "reach": np.inf}
    for name, value in {**{k: v for k, v in defaults.items() if k in dtype.names}, **fields}.items():
        made[name] = value
    return made


def cast_each(library, bodies: Bodies, origin, direction, reach=np.inf) -> np.ndarray:
    """Ray i against body i."""
    n = len(bodies)
    out = np.empty(n, HIT)
    origin, direction = (np.ascontiguousarray(np.broadcast_to(a, (n, 3)), f32) for a in (origin, direction))
    reach = np.ascontiguousarray(np.broadcast_to(reach, n), f32)
    library.cast_each(bodies.record, pointer(origin), pointer(direction), pointer(reach), pointer(out), n)
    return out


class Scene:
    """Bodies made ready for rays by the C++ library."""

    def __init__(self, library, bodies: Bodies, by_lanes: bool = False) -> None:
        self.library, self.bodies = library, bodies
        self.memory = np.random.default_rng(0).integers(0, 256, library.scene_bytes(), np.uint8)  # anything
        self.wanted = np.zeros(2, np.uint32)
        library.fill(pointer(self.memory), bodies.record, len(bodies), int(by_lanes), pointer(self.wanted))

    def filled(self) -> list[object]:
        """What bodies have filled, field by field, but `aligned`, which lanes leave."""
        words = self.memory.view(SCENE)[0]
        faces = min(int(self.wanted[1]), FACES)
        if int(self.wanted[1]) > FACES:  # the last hull that has room ends before
            ends = (words["first_face"] + words["faces"])[: words["count"]]
            faces = int(ends[ends <= FACES].max(initial=0))
        rest = {name: words[name][..., : words["count"]] for name in SCENE.names[2:] if name != "face"}
        rest["face"] = words["face"][:faces]
        return [words["count"], self.wanted.tolist(), *((name, part.tobytes()) for name, part in sorted(rest.items()))]

    def cast(self, how: str, rays: np.ndarray) -> np.ndarray:
        """``how``: singly, in_packets, by_lanes."""
        out = np.empty(len(rays), HIT)
        getattr(self.library, f"cast_{how}")(pointer(self.memory), pointer(rays), pointer(out), len(rays))
        return out

    def cast_by_force(self, rays: np.ndarray) -> np.ndarray:
        out = np.empty(len(rays), HIT)
        self.library.cast_by_force(self.bodies.record, len(self.bodies), pointer(rays), pointer(out), len(rays))
        return out

    def see(self, sights: np.ndarray) -> np.ndarray:
        """bool ``[3, n]``: singly, in packets, by lanes."""
        out = np.empty((3, len(sights)), np.uint8)
        self.library.see(pointer(self.memory), pointer(sights), *(pointer(row) for row in out), len(sights))
        return out.astype(bool)

    def look(self, fans: np.ndarray, beams: int, sights: np.ndarray, by_lanes: bool) -> tuple[np.ndarray, np.ndarray]:
        """Hits ``[eyes, beams]`` of fans ``[eyes]``, and whether lines of sight ``[eyes, lines]`` are clear."""
        hits, clear = np.empty((len(fans), beams), HIT), np.empty(sights.shape, bool)
        sizes = (len(fans), beams, pointer(sights), sights.shape[1])
        self.library.look(pointer(self.memory), pointer(fans), *sizes, pointer(hits), pointer(clear), int(by_lanes))
        return hits, clear

    def sectors(self, rays: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Whether ray i looks at body k, ``[rays, bodies]``, from an eye with a reach at its origin."""
        words, wanted = np.empty((len(rays), len(self.bodies)), np.uint32), np.empty((len(rays), 1), np.uint32)
        reach = np.ascontiguousarray(reach, f32)
        places = (pointer(self.memory), pointer(rays), pointer(reach), pointer(words), pointer(wanted))
        self.library.sector_words(*places, len(rays))
        return (wanted & ~words) == 0

    def lidar(self, beams: int, fan: np.ndarray) -> np.ndarray:
        """Hits ``[2, beams]``: in packets, by lanes."""
        out = np.empty((2, beams), HIT)
        self.library.lidar(pointer(self.memory), pointer(fan), *(pointer(row) for row in out), beams)
        return out

    def draw(self, camera: np.ndarray, shadows: bool = False) -> np.ndarray:
        """Pixels ``[2, height, width]``: in tiles, by lanes."""
        out = np.empty((2, int(camera["height"]), int(camera["width"])), PIXEL)
        out["body"] = -2
        view = np.array([camera])
        self.library.draw(pointer(self.memory), pointer(view), int(shadows), pointer(out[0]), pointer(out[1]))
        return out
