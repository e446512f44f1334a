"""Convex hulls for rigid bodies: faces, edges, volume and inertia of up to 32 points, and their layout in C++."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_VERTICES = 32  # the room of csrc/physics/shapes.h
_SAME = 1e-5  # of the extent: points closer than this to a plane are in it, closer to each other are one

# One hull as ``struct Hull`` of csrc/physics/shapes.h, which explains the fields.
LAYOUT = np.dtype(
    [
        *((name, np.float32, 32) for name in ("x", "y", "z")),
        *((name, np.float32, 64) for name in ("normal_x", "normal_y", "normal_z", "offset")),
        *((name, np.uint32) for name in ("vertices", "faces", "edges")),
        ("start", np.uint8, 64),
        ("loop", np.uint8, 192),
        *((name, np.uint8, 96) for name in ("tail", "head", "left", "right")),
        *((name, np.float32, 96) for name in ("edge_x", "edge_y", "edge_z")),
    ]
)


@dataclass(frozen=True)
class ConvexHull:
    """A convex polyhedron whose centroid is the origin; all arrays f64.

    Attributes:
        vertices: [v, 3]. faces: for each face its vertices, counter-clockwise seen from outside.
        normals: [f, 3], unit, outward. offsets: [f]; a point p is inside where ``normals @ p <= offsets``.
        edges: [e, 4] integers: first and last vertex, the face to the left (whose loop has them in this order) and the
            one to the right.
        volume: of the polyhedron. moments: [3, 3], the integral of x x^T over it.
        centroid: [3], the place of the origin among the given points.
    """

    vertices: NDArray[np.float64]
    faces: tuple[tuple[int, ...], ...]
    normals: NDArray[np.float64]
    offsets: NDArray[np.float64]
    edges: NDArray[np.int64]
    volume: float
    moments: NDArray[np.float64]
    centroid: NDArray[np.float64]


def convex_hull(points: ArrayLike) -> ConvexHull:
    """The convex hull of 4 to 32 points [n, 3].

    Drops points inside of the hull, its faces or its edges, and joins triangles in one plane to one face. Tries every
    triple of points as a face (at most 4960): slow with many points, exact enough with few.

    Raises:
        ValueError: another shape, NaN or infinite numbers, more than 32 points, points in a plane, or too near
            to one to distinguish faces.
    """
    given = np.asarray(points, np.float64)
    if given.ndim != 2 or given.shape[1:] != (3,):
        raise ValueError(f"a hull is made of points [n, 3], got an array of shape {list(given.shape)}")
    if not np.isfinite(given).all():
        row = int(np.argmin(np.isfinite(given).all(axis=1)))
        raise ValueError(f"the points of a hull must be finite, got {given[row].tolist()} as point {row}")
    if not 4 <= len(given) <= MOST_VERTICES:
        raise ValueError(f"a hull has 4 to {MOST_VERTICES} points, got {len(given)}")
    middle = (given.min(axis=0) + given.max(axis=0)) / 2
    extent = float(np.ptp(given, axis=0).max())
    if not extent > 0:
        raise ValueError(f"a hull needs points apart from each other, got {given[0].tolist()} {len(given)} times")
    unit = _distinct((given - middle) / extent)
    loops = _faces(unit)
    used = sorted({vertex for loop in loops for vertex in loop})
    place = {vertex: index for index, vertex in enumerate(used)}
    vertices = unit[used]
    faces = tuple(sorted(_first_lowest([place[v] for v in loop]) for loop in loops))
    edges = _edges(faces, len(vertices))
    volume, centroid, moments = _integrals(vertices, faces)
    vertices = vertices - centroid
    normals, offsets = _planes(vertices, faces)
    return ConvexHull(
        vertices=vertices * extent,
        faces=faces,
        normals=normals,
        offsets=offsets * extent,
        edges=edges,
        volume=volume * extent**3,
        moments=moments * extent**5,
        centroid=centroid * extent + middle,
    )


def pack(hulls: Iterable[ConvexHull]) -> NDArray[np.void]:
    """The cube and then ``hulls``, [1 + n] of ``LAYOUT``, as C++ reads them.

    The cube of vertices +-1 is the hull of every box (``Geometry::hull``). Raises ValueError if f32 cannot hold one.
    """
    rows = [_row(hull) for hull in (cube(), *hulls)]
    return np.stack(rows)


@cache
def cube() -> ConvexHull:
    """The cube of vertices +-1."""
    return convex_hull([(x, y, z) for z in (-1, 1) for y in (-1, 1) for x in (-1, 1)])


def _distinct(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points without repetitions."""
    kept: list[NDArray[np.float64]] = []
    for point in points:
        if all(np.abs(point - other).max() > _SAME for other in kept):
            kept.append(point)
    return np.array(kept)


def _faces(points: NDArray[np.float64]) -> list[list[int]]:
    """The corners of each face, counter-clockwise seen from outside."""
    flat = ValueError(
        f"a hull has a volume: these {len(points)} points lie in a plane, to within {_SAME} of their extent, or too "
        "close to one to distinguish faces"
    )
    if len(points) < 4:
        raise flat
    triples = np.array(list(combinations(range(len(points)), 3)))
    a, b, c = (points[triples[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    area = np.linalg.norm(normals, axis=1)
    longest = np.max([np.linalg.norm(side, axis=1) for side in (b - a, c - b, a - c)], axis=0)
    wide = area > 10 * _SAME * longest  # else rounding decides where the plane lies
    triples, a = triples[wide], a[wide]
    normals, area = normals[wide] / area[wide, None], area[wide]
    heights = normals @ points.T - (normals * a).sum(axis=1)[:, None]
    below, above = (heights <= _SAME).all(axis=1), (heights >= -_SAME).all(axis=1)
    if (below & above).any() or not len(triples):
        raise flat
    normals = np.where(above[:, None], -normals, normals)
    found: list[set[int]] = []
    loops = []
    supporting = np.flatnonzero(below | above)
    widest_first = supporting[np.argsort(-area[supporting], kind="stable")]  # wide triangles have the most exact planes
    for k in widest_first:
        inside = set(np.flatnonzero(np.abs(heights[k]) <= _SAME).tolist())
        if not any(inside <= other for other in found):
            found.append(inside)
            loops.append(_corners(points, sorted(inside), normals[k]))
    edges = {edge for loop in loops for edge in zip(loop, loop[1:] + loop[:1], strict=True)}
    count = sum(len(loop) for loop in loops)
    used = {vertex for loop in loops for vertex in loop}
    closed = len(edges) == count and all((head, tail) in edges for tail, head in edges)
    if not closed or len(used) - count // 2 + len(loops) != 2:  # Euler's formula
        raise flat
    return loops


def _corners(points: NDArray[np.float64], inside: list[int], normal: NDArray[np.float64]) -> list[int]:
    """The corners of the convex hull of points in a plane, counter-clockwise (Andrew's monotone chain)."""
    u = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    u /= np.linalg.norm(u)
    plane = points @ np.stack([u, np.cross(normal, u)], axis=1)
    order = sorted(inside, key=lambda i: (plane[i][0], plane[i][1]))

    def chain(indices: Iterable[int]) -> list[int]:
        kept: list[int] = []
        for i in indices:
            while len(kept) >= 2:
                base, step = plane[kept[-1]] - plane[kept[-2]], plane[i] - plane[kept[-2]]
                if base[0] * step[1] - base[1] * step[0] > _SAME * np.linalg.norm(step):
                    break
                kept.pop()
            kept.append(i)
        return kept[:-1]

    return chain(order) + chain(reversed(order))


def _first_lowest(loop: Sequence[int]) -> tuple[int, ...]:
    first = loop.index(min(loop))
    return (*loop[first:], *loop[:first])


def _edges(faces: Sequence[Sequence[int]], vertices: int) -> NDArray[np.int64]:
    left = {edge: face for face, loop in enumerate(faces) for edge in zip(loop, (*loop[1:], loop[0]), strict=True)}
    rows = [(tail, head, face, left[head, tail]) for (tail, head), face in left.items() if tail < head]
    return np.array(sorted(rows))


def _planes(
    vertices: NDArray[np.float64], faces: Sequence[Sequence[int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normals by Newell's method, and how far the furthest corner is out along each."""
    normals = []
    for loop in faces:
        corners = vertices[list(loop)]
        normal = np.cross(corners - corners[0], np.roll(corners, -1, axis=0) - corners[0]).sum(axis=0)
        normals.append(normal / np.linalg.norm(normal))
    stacked = np.array(normals)
    return stacked, np.array([(vertices[list(loop)] @ n).max() for loop, n in zip(faces, stacked, strict=True)])


def _integrals(
    vertices: NDArray[np.float64], faces: Sequence[Sequence[int]]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Volume, centroid, and the integral of x x^T about it: sums over tetrahedra from an inner point."""
    origin = vertices.mean(axis=0)
    inner = vertices - origin
    tetrahedra = np.array([inner[[loop[0], loop[k], loop[k + 1]]] for loop in faces for k in range(1, len(loop) - 1)])
    volumes = np.linalg.det(tetrahedra) / 6
    volume = float(volumes.sum())
    sums = tetrahedra.sum(axis=1)
    centroid = (volumes[:, None] * sums).sum(axis=0) / (4 * volume)
    # Over a tetrahedron with one corner at the origin: V / 20 (s s^T + sum of c c^T), s the sum of its corners c.
    squares = np.einsum("ti,tj->tij", sums, sums) + np.einsum("tki,tkj->tij", tetrahedra, tetrahedra)
    moments = (volumes[:, None, None] * squares).sum(axis=0) / 20 - volume * np.outer(centroid, centroid)
    return volume, centroid + origin, moments


def _row(hull: ConvexHull) -> NDArray[np.void]:
    row = np.zeros((), LAYOUT)
    vertices, faces = len(hull.vertices), len(hull.faces)
    for axis, name in enumerate("xyz"):
        row[name] = hull.vertices[0, axis]
        row[name][:vertices] = hull.vertices[:, axis]
        row[f"normal_{name}"] = hull.normals[0, axis]
        row[f"normal_{name}"][:faces] = hull.normals[:, axis]
    row["offset"] = hull.offsets[0]
    row["offset"][:faces] = hull.offsets
    row["vertices"], row["faces"], row["edges"] = vertices, faces, len(hull.edges)
    starts = np.cumsum([0, *(len(loop) for loop in hull.faces)])
    row["start"][: faces + 1] = starts
    row["loop"][: starts[-1]] = [vertex for loop in hull.faces for vertex in loop]
    for column, name in enumerate(("tail", "head", "left", "right")):
        row[name][: len(hull.edges)] = hull.edges[:, column]
    for axis, name in enumerate("xyz"):
        row[f"edge_{name}"][: len(hull.edges)] = (hull.vertices[hull.edges[:, 1]] - hull.vertices[hull.edges[:, 0]])[
            :, axis
        ]
    size = np.abs(hull.vertices).max()
    if not 1e-12 < size < 1e12:
        raise ValueError(f"a hull's vertices must be between 1e-12 and 1e12 from its centroid, got {size:g}")
    return row
