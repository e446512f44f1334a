"""Random pairs of shapes, degenerate ones among them, and their distances in float64; for test_collide.py."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from torch_batchsim.physics.hulls import convex_hull, cube, pack

SPHERE, CAPSULE, BOX, HULL, PLANE = range(5)
f32, f64 = np.float32, np.float64

BODY = np.dtype(
    [
        ("kind", np.int32),
        ("hull", np.int32),
        ("size", f32, 3),
        ("position", f32, 3),
        ("rotation", f32, 4),
    ]
)
POINT = np.dtype([("anchor_a", f32, 3), ("anchor_b", f32, 3), ("separation", f32), ("feature", np.uint32)])
MANIFOLD = np.dtype([("normal", f32, 3), ("count", np.uint32), ("corners", np.uint32), ("points", POINT, 4)])


@cache
def hulls():
    """Hulls of few and of many vertices: the cube, a wedge, others, and some too large for small lanes."""
    random = np.random.default_rng(11)
    ball = random.normal(size=(32, 3))
    ball /= np.linalg.norm(ball, axis=1)[:, None]
    five, six = (
        [(np.cos(t), np.sin(t), z) for t in np.linspace(0, 2 * np.pi, n + 1)[:-1] for z in (-1, 1)] for n in (5, 6)
    )
    wedge = [(x, y, z) for x in (-1, 1) for y, z in ((-1.5, -1), (1.5, -1), (1.5, 1))]
    return (
        cube(),
        convex_hull(wedge),
        convex_hull([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]),
        convex_hull(np.vstack([np.eye(3), -np.eye(3)])),
        convex_hull(ball),
        convex_hull(six),
        convex_hull(random.normal(size=(12, 3))),
        convex_hull(five),  # small, with faces of more than four corners
    )


@cache
def packed():
    return pack(hulls()[1:])


def rotation_matrix(q):
    w, x, y, z = (np.asarray(q, f64) / np.linalg.norm(np.asarray(q, f64), axis=-1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def product(a, b):
    """The rotation b followed by a, of quaternions [n, 4]."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def quarter_turns(random, n):
    """Rotations that turn axes into axes."""
    turns = np.array(
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0], [1, 1, 1, 1], [1, -1, 1, 1]]
    )
    return (turns / np.linalg.norm(turns, axis=1)[:, None])[random.integers(len(turns), size=n)]


def random_bodies(random, n, kinds):
    bodies = np.zeros(n, BODY)
    bodies["kind"] = random.choice(kinds, size=n)
    bodies["hull"] = np.where(bodies["kind"] == HULL, random.integers(len(hulls()), size=n), 0)
    bodies["size"] = 2.0 ** random.uniform(-2, 2, size=(n, 3))
    even = random.random(n) < 0.3
    bodies["size"][even] = np.array([0.5, 1.0, 2.0])[random.integers(3, size=(even.sum(), 3))]
    points = (bodies["kind"] == CAPSULE) & (random.random(n) < 0.1)
    bodies["size"][points, 1] = 0.0
    q = random.normal(size=(n, 4))
    bodies["rotation"] = q / np.linalg.norm(q, axis=1)[:, None]
    return bodies


def random_pairs(seed, n, kinds_a=(SPHERE, CAPSULE, BOX, HULL), kinds_b=(SPHERE, CAPSULE, BOX, HULL)):
    """Pairs near contact: a third of them with rotations that make faces, edges or both parallel, or nearly so."""
    random = np.random.default_rng(seed)
    a, b = random_bodies(random, n, kinds_a), random_bodies(random, n, kinds_b)
    special = random.random(n) < 0.35
    tilt = random.normal(size=(n, 4)) * 10.0 ** random.uniform(-7, -1, size=(n, 1)) * (random.random((n, 1)) < 0.5)
    tilted = quarter_turns(random, n) + tilt
    tilted /= np.linalg.norm(tilted, axis=1)[:, None]
    eighth = np.array([np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8)])
    eighths = np.where((random.random(n) < 0.3)[:, None], product(quarter_turns(random, n), eighth[None]), tilted)
    b["rotation"] = np.where(special[:, None], product(a["rotation"].astype(f64), eighths), b["rotation"])
    simple = special & (random.random(n) < 0.3)
    a["rotation"][simple] = [1, 0, 0, 0]
    b["rotation"][simple] = tilted[simple]
    direction = random.normal(size=(n, 3))
    axes = random.random(n) < 0.3
    direction[axes] = np.eye(3)[random.integers(3, size=axes.sum())] * random.choice([-1, 1], size=(axes.sum(), 1))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    touching = np.array([reach(a[i], direction[i]) + reach(b[i], -direction[i]) for i in range(n)])
    factor = random.choice([0.0, 0.3, 0.8, 0.95, 1.0, 1.001, 1.1, 1.4], size=n) + random.normal(size=n) * 0.02 * (
        random.random(n) < 0.7
    )
    b["position"] = direction * (touching * np.abs(factor))[:, None]
    shift = random.choice([0.0, 0.2, 1.0], size=n)[:, None] * random.normal(size=(n, 3))
    a["position"] = shift
    b["position"] += shift
    return a, b


@dataclass
class Core:
    """A shape as points in the world, in float64, the directions in which it may part from another, and a radius."""

    points: np.ndarray
    normals: np.ndarray
    edges: np.ndarray
    radius: float


def core(body):
    turn, position = rotation_matrix(body["rotation"]), body["position"].astype(f64)
    size = body["size"].astype(f64)
    none = np.zeros((0, 3))
    if body["kind"] == SPHERE:
        return Core(position[None], none, none, size[0])
    if body["kind"] == CAPSULE:
        arm = turn @ [0, 0, size[1]]
        return Core(np.array([position - arm, position + arm]), none, (turn @ [0, 0, 1.0])[None], size[0])
    hull = hulls()[body["hull"] if body["kind"] == HULL else 0]
    normals = hull.normals / size
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    edges = (hull.vertices[hull.edges[:, 1]] - hull.vertices[hull.edges[:, 0]]) * size
    edges /= np.linalg.norm(edges, axis=1)[:, None]
    return Core((hull.vertices * size) @ turn.T + position, normals @ turn.T, edges @ turn.T, 0.0)


def reach(body, direction):
    """How far a body at the origin reaches in a direction."""
    at_origin = body.copy()
    at_origin["position"] = 0
    own = core(at_origin)
    return (own.points @ direction).max() + own.radius


def apart_along(a, b, normal):
    """The separation of two cores with their radii along a unit normal from a to b."""
    return (b.points @ normal).min() - (a.points @ normal).max() - a.radius - b.radius


def best_axis(a, b):
    """The greatest separation of the two cores (without radii) along any axis that can be the best."""
    crossed = np.cross(a.edges[:, None], b.edges[None]).reshape(-1, 3)
    sizes = np.linalg.norm(crossed, axis=1)
    crossed = crossed[sizes > 1e-9] / sizes[sizes > 1e-9][:, None]
    axes = np.vstack([a.normals, -b.normals, crossed, -crossed])
    if not len(axes):
        return -np.inf
    return ((axes @ b.points.T).min(axis=1) - (axes @ a.points.T).max(axis=1)).max()
