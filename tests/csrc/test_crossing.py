"""csrc/physics/crossing.h against distances in float64: where a point's way enters a shape, and how deep it gets."""

import ctypes

import numpy as np
import pytest
from conftest import pointer
from shape_pairs import BOX, CAPSULE, HULL, PLANE, SPHERE, f32, f64, hulls, packed, random_bodies
from support import full_but

CROSSING = np.dtype([("enter", f32), ("before", f32), ("after", f32)])
KINDS = {"sphere": SPHERE, "capsule": CAPSULE, "box": BOX, "hull": HULL, "plane": PLANE}
WAYS = 4000


@pytest.fixture(scope="module")
def library(compiler):
    return compiler.library("crossing_library.cpp", "-O1")[0]


def crossings(library, bodies, start, end):
    start, end = (np.ascontiguousarray(ends, f32) for ends in (start, end))
    out = np.zeros(len(bodies), CROSSING)
    arrays = (bodies, start, end, packed(), out)
    library.crossings(*(pointer(array) for array in arrays), ctypes.c_int64(len(bodies)))
    return out


def faces(body):
    """Unit normals ``[f, 3]`` and offsets ``[f]`` of a box, hull or plane."""
    if body["kind"] == PLANE:
        return np.array([[0, 0, 1.0]]), np.zeros(1)
    hull = hulls()[body["hull"] if body["kind"] == HULL else 0]
    normals = hull.normals / body["size"].astype(f64)
    lengths = np.linalg.norm(normals, axis=1)
    return normals / lengths[:, None], hull.offsets / lengths


def distance(body, points):
    """How far points ``[..., 3]`` in the shape's frame are out of it: of polyhedra, out of the furthest face."""
    points = np.asarray(points, f64)
    if body["kind"] <= CAPSULE:
        half = float(body["size"][1]) if body["kind"] == CAPSULE else 0.0
        core = points * [1, 1, 1]
        core[..., 2] -= np.clip(points[..., 2], -half, half)
        return np.linalg.norm(core, axis=-1) - float(body["size"][0])
    normals, offsets = faces(body)
    return (points @ normals.T - offsets).max(axis=-1)


def ways(kind, seed):
    """Shapes of a kind, and ways near them: some along axes, along faces, of no length, from or to the surface."""
    random = np.random.default_rng(seed)
    bodies = random_bodies(random, WAYS, (kind,))
    size = bodies["size"].astype(f64) if kind in (BOX, HULL) else bodies["size"].max(axis=1)[:, None].astype(f64)
    start, end = (random.normal(size=(WAYS, 3)) * size for _ in range(2))
    short = random.random(WAYS) < 0.3
    end[short] = start[short] + 0.1 * (end - start)[short]
    still = random.random((WAYS, 3)) < 0.2
    end[still] = start[still]
    on_face = (random.random(WAYS) < 0.1) & (kind == BOX)
    start[on_face, 0] = bodies["size"][on_face, 0]
    return bodies, start.astype(f32), end.astype(f32)


@pytest.mark.parametrize("name", full_but(["hull"], KINDS))
def test_a_way_enters_where_its_first_point_is_inside(library, name):
    bodies, start, end = ways(KINDS[name], seed=KINDS[name])
    share = np.linspace(0, 1, 2001)
    entered = 0
    for body, a, b, found in zip(bodies, start, end, crossings(library, bodies, start, end), strict=True):
        tolerance = 2e-6 * float(np.abs(a).max() + np.abs(b).max() + body["size"].max())
        along = distance(body, a.astype(f64) + share[:, None] * (b.astype(f64) - a))
        if found["enter"] > 1:
            assert along.min() > -tolerance
            continue
        entered += 1
        assert found["enter"] >= 0
        at = a.astype(f64) + f64(found["enter"]) * (b.astype(f64) - a)
        # nothing of the way up to there is inside, and it is on the surface, or inside at the begin
        assert along[share < found["enter"]].min(initial=np.inf) > -tolerance
        if found["enter"] > 0:
            assert abs(distance(body, at)) <= tolerance
        else:
            assert along[0] <= tolerance
            assert found["before"] == pytest.approx(-along[0], abs=tolerance)
        # the depth is that behind a plane through that place, with the whole shape behind it
        assert found["after"] >= -along[-1] - tolerance
        at_depth = f64(found["before"]) + f64(found["enter"]) * (f64(found["after"]) - found["before"])
        assert at_depth == pytest.approx(max(found["before"], 0.0), abs=3 * tolerance)
    assert WAYS / 10 < entered < WAYS


def test_a_wall_that_is_crossed_gives_its_whole_thickness(library):
    bodies, _, _ = ways(BOX, seed=9)
    bodies["size"] = [1, 1, 0.05]
    out = crossings(library, bodies[:2], [[0, 0.5, 1], [0, 0.5, -0.04]], [[0, 0.5, -3], [0, 0.5, 0.2]])
    assert out["enter"] == pytest.approx([0.95 / 4, 0])
    assert out["before"] == pytest.approx([-0.95, 0.01])
    assert out["after"] == pytest.approx([3.05, 0.25])


@pytest.mark.parametrize("name", KINDS)
def test_the_inner_ball_is_within_the_shape(library, name):
    bodies, _, _ = ways(KINDS[name], seed=3)
    radii = np.zeros(WAYS, f32)
    library.inner_radii(pointer(bodies), pointer(packed()), pointer(radii), ctypes.c_int64(WAYS))
    if name == "plane":
        assert np.isinf(radii).all()
        return
    least = -np.array([distance(body, np.zeros(3)) for body in bodies])
    assert (radii > 0).all()
    assert (radii <= least * (1 + 1e-6)).all()
    even = np.ptp(bodies["size"], axis=1) == 0
    exact = even | (name != "hull")
    np.testing.assert_allclose(radii[exact], least[exact], rtol=1e-6)
