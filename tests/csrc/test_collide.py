"""csrc/physics/collide.h against MuJoCo, against separating axes in float64, and against itself moved and scaled."""

import ctypes

import numpy as np
import pytest
from conftest import pointer
from shape_pairs import (
    BODY,
    BOX,
    CAPSULE,
    HULL,
    MANIFOLD,
    PLANE,
    SPHERE,
    apart_along,
    best_axis,
    core,
    hulls,
    packed,
    product,
    random_bodies,
    random_pairs,
    rotation_matrix,
)
from support import of_today

from torch_batchsim.physics.hulls import LAYOUT
from torch_batchsim.physics.shapes import ShapeKind

f32, f64 = np.float32, np.float64
MARGIN = 0.5
NAMES = {SPHERE: "sphere", CAPSULE: "capsule", BOX: "box", HULL: "hull", PLANE: "plane"}


@pytest.fixture(scope="module")
def library(compiler):
    return compiler.library("collide_library.cpp", "-Og", "-DTBS_FRAMES", "-march=native")[0]


@pytest.fixture
def collide(library):
    return lambda a, b, margin=MARGIN: run(library, a, b, margin)


def run(library, a, b, margin):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    margins = np.ascontiguousarray(np.broadcast_to(np.asarray(margin, f32), len(a)))
    out = np.zeros(len(a), MANIFOLD)
    library.collide_pairs(*(pointer(array) for array in (a, b, margins, packed(), out)), ctypes.c_int64(len(a)))
    return out


def body(kind, size, position=(0, 0, 0), rotation=(1, 0, 0, 0), hull=0):
    out = np.zeros(1, BODY)
    rotation = np.array(rotation, f64)
    out[0] = (kind, hull, np.resize(size, 3), position, rotation / np.linalg.norm(rotation))
    return out


def about(axis, angle):
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * np.array(axis, f64)])


def extent(one):
    """The length by which csrc/physics measures tolerances."""
    if one["kind"] < BOX:
        return np.inf
    return one["size"].min() * (np.linalg.norm(hulls()[one["hull"]].vertices[0]) if one["kind"] == HULL else 3**0.5)


def outside(one, anchors):
    """How far points, given from a body's position, are out of it at most."""
    local = anchors @ rotation_matrix(one["rotation"])
    if one["kind"] < BOX:
        half = one["size"][1] if one["kind"] == CAPSULE else 0.0
        local[:, 2] -= np.clip(local[:, 2], -half, half)
        return (np.linalg.norm(local, axis=1) - one["size"][0]).max()
    hull = hulls()[one["hull"] if one["kind"] == HULL else 0]
    normals = hull.normals / one["size"].astype(f64)
    lengths = np.linalg.norm(normals, axis=1)
    return ((local @ normals.T - hull.offsets) / lengths).max()


def check(a, b, manifold, expected, overlapping, margin):
    """What is wrong with a manifold, of two shapes whose signed distance is `expected`; None if nothing."""
    first, second = core(a), core(b)
    points = manifold["points"][: manifold["count"]]
    normal = manifold["normal"].astype(f64)
    if manifold["count"] > 4 or not np.isfinite(normal).all() or abs(np.linalg.norm(normal) - 1) > 1e-5:
        return "not a manifold"
    if expected > margin * 1.0001:
        return "points too far away" if len(points) else None
    if not len(points):
        return "no points" if expected < margin * 0.999 else None
    if len(set(points["feature"].tolist())) < len(points):
        return "features are not distinct"
    separation = points["separation"].astype(f64)
    offset = b["position"].astype(f64) - a["position"].astype(f64)
    gap = offset + points["anchor_b"] - points["anchor_a"]
    largest = max(a["size"].max(), b["size"].max(), np.abs(gap).max())
    if not np.abs(gap @ normal - separation).max() <= 4e-6 * largest:
        return "separations do not fit the points"
    if not (separation <= margin).all():
        return "beyond the margin"
    rounding = 1e-4 * abs(expected) + 2e-5 * max(a["size"].max(), b["size"].max())
    # Faces are preferred to edges, and one shape's to the other's; a core just beyond the end of a face counts as over
    # it, which is nothing for the distance, but is something for a normal that is as long as the shapes.
    round_one = min(a["kind"], b["kind"]) < BOX
    bias = 2.1e-3 * (max(a["size"].max(), b["size"].max()) if round_one else min(extent(a), extent(b)))
    for one, anchors in ((a, points["anchor_a"]), (b, points["anchor_b"])):
        by_faces = (points["feature"] < 0x4000).all()  # points of edges are across them where they are nearest
        if by_faces and outside(one, anchors) > rounding + 3e-5 * one["size"].max():
            return f"a point is {outside(one, anchors)} outside of its shape"
    along = apart_along(first, second, normal)
    if along < expected - bias - 3 * rounding:
        return f"another normal is better: {expected} along it, {along} along this one"
    if not overlapping and abs(separation.min() - expected) > rounding:
        return f"distance {separation.min()}, not {expected}"
    if overlapping and not along - 3 * rounding <= separation.min() <= along + bias + 3 * rounding:
        return f"depth {separation.min()}, not {along}"
    return None


def compare(library, seed, count):
    from mujoco_distance import Distances

    a, b = random_pairs(seed, count)
    found = run(library, a, b, MARGIN)
    distances = Distances()
    wrong, met = [], 0
    for i in range(count):
        first, second = core(a[i]), core(b[i])
        axis = best_axis(first, second)
        overlapping = axis <= 1e-6 and (len(first.points) > 2 or len(second.points) > 2)
        # MuJoCo's depth is an upper bound that its algorithm improves step by step; axes are exact.
        expected = axis - first.radius - second.radius if overlapping else distances(a[i], b[i], 2 * MARGIN)
        met += found[i]["count"] > 0
        said = check(a[i], b[i], found[i], expected, overlapping or expected < 0, MARGIN)
        if said:
            wrong.append(f"pair {i} of seed {seed}, {NAMES[int(a[i]['kind'])]} and {NAMES[int(b[i]['kind'])]}: {said}")
    assert met > count / 2
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
def test_python_and_cpp_mean_the_same_by_kinds_and_hulls(library):
    touching = {kind.name.lower(): kind.value for kind in ShapeKind if kind != ShapeKind.NOTHING}
    assert touching == {name: kind for kind, name in NAMES.items()}
    library.size_of_hull.restype = ctypes.c_int64
    assert library.size_of_hull() == LAYOUT.itemsize == packed().itemsize


def test_random_pairs_agree_with_mujoco_and_with_separating_axes(library):
    compare(library, 0, 1500)


@pytest.mark.parametrize("seed", of_today(range(1, 11), 1))
def test_many_random_pairs_agree_with_mujoco_and_with_separating_axes(library, seed):
    compare(library, seed, 10_000)


@pytest.mark.full
def test_every_optimisation_gives_the_same_bits(compiler, library):
    a, b = random_pairs(5, 5000)
    fast = compiler.library("collide_library.cpp", "-O3", "-march=native", "-mprefer-vector-width=512")[0]
    plain = compiler.library("collide_library.cpp", "-O0", "-mfma")[0]
    slow = run(library, a, b, MARGIN)
    for other in (fast, plain):
        assert used(run(other, a, b, MARGIN)) == used(slow)


@pytest.mark.full
def test_hulls_in_parts_as_on_a_gpu_give_the_same_bits(compiler, library):
    a, b = random_pairs(5, 3000, kinds_a=(CAPSULE, HULL), kinds_b=(HULL,))
    other = compiler.library("collide_library.cpp", "-O1", "-march=native", "-DTBS_ON_DEVICE")[0]
    assert used(run(library, a, b, MARGIN)) == used(run(other, a, b, MARGIN))


@pytest.mark.full
def test_it_compiles_for_cuda(compiler):
    text = """
#include "tbs/vector.h"
namespace tbs::physics {
#include "physics/collide.h"
}
using namespace tbs::physics;
__global__ void pairs(const Geometry *a, const Transform *at_a, const Geometry *b, const Transform *at_b,
                      Manifold *out) {
    const int i = threadIdx.x;
    collide(a[i], at_a[i], b[i], at_b[i], 0.1f, out[i]);
}
"""
    result = compiler.nvcc(text)
    assert result.returncode == 0, result.stderr


def used(manifolds):
    """The bits of manifolds, without the points that are not used."""
    kept = manifolds.copy()
    for k in range(4):
        kept["points"][:, k][kept["count"] <= k] = np.zeros((), kept["points"].dtype)
    return kept.tobytes()


def test_shapes_on_a_plane(collide):
    random = np.random.default_rng(2)
    n = 1000
    a, b = random_bodies(random, n, [SPHERE, CAPSULE, BOX, HULL]), random_bodies(random, n, [PLANE])
    b["position"] = random.normal(size=(n, 3))
    flat = random.random(n) < 0.4
    a["rotation"][flat] = b["rotation"][flat]
    for i in range(n):
        up = rotation_matrix(b["rotation"][i])[:, 2]
        lowest = (core(a[i]).points @ up).min() - core(a[i]).radius
        height = random.choice([0.0, -0.1, 0.3, 0.6])
        a["position"][i] = b["position"][i] + random.normal() * np.cross(up, [1, 2, 3]) + up * (height - lowest)
    found = collide(a, b)
    for i in range(n):
        normal = -rotation_matrix(b["rotation"][i])[:, 2]
        heights = -(core(a[i]).points - b["position"][i]) @ normal - core(a[i]).radius
        points = found["points"][i][: found["count"][i]]
        if heights.min() > MARGIN + 1e-5:
            assert not len(points)
            continue
        np.testing.assert_allclose(found["normal"][i], normal, atol=1e-6)
        assert abs(points["separation"].min() - heights.min()) < 2e-5
        assert (points["separation"] <= MARGIN).all() and len(set(points["feature"].tolist())) == len(points)
        on_plane = a["position"][i].astype(f64) * 0 + b["position"][i] + points["anchor_b"] - b["position"][i]
        assert np.abs(on_plane @ normal).max() < 2e-5
        gap = b["position"][i].astype(f64) + points["anchor_b"] - points["anchor_a"] - a["position"][i]
        np.testing.assert_allclose(gap @ normal, points["separation"], atol=2e-5)
        if flat[i] and a["kind"][i] == BOX:
            assert len(points) == 4
    upside_down = collide(b, a)
    assert used(upside_down) == used(turned_round(found))
    assert (collide(b, b)["count"] == 0).all()


def least_separation(manifolds):
    """Of each manifold; 9 where there is none."""
    return np.where(np.arange(4) < manifolds["count"][:, None], manifolds["points"]["separation"], 9).min(axis=1)


def turned_round(manifolds):
    other = manifolds.copy()
    other["points"]["anchor_a"], other["points"]["anchor_b"] = (
        manifolds["points"]["anchor_b"],
        manifolds["points"]["anchor_a"],
    )
    there = manifolds["count"] > 0
    other["normal"][there] *= -1
    return other


def test_swapped_shapes_give_the_manifold_seen_from_the_other_side(collide):
    a, b = random_pairs(6, 4000)
    there, back = collide(a, b), collide(b, a)
    kinds = a["kind"] != b["kind"]
    assert used(back[kinds]) == used(turned_round(there)[kinds])
    same = ~kinds
    scale = np.minimum(a["size"].min(axis=1), b["size"].min(axis=1))[same]
    assert ((there["count"] > 0) == (back["count"] > 0))[same].mean() > 0.999
    both = (there["count"] > 0)[same] & (back["count"] > 0)[same]
    depth = [least_separation(m) for m in (there, back)]
    assert (np.abs(depth[0] - depth[1])[same][both] < 0.01 * scale[both] + 1e-4).all()


def moved(bodies, turn, shift):
    """Bodies moved by one rotation and shift."""
    out = bodies.copy()
    out["rotation"] = product(np.broadcast_to(turn, (len(bodies), 4)), bodies["rotation"].astype(f64))
    out["position"] = bodies["position"].astype(f64) @ rotation_matrix(turn).T + shift
    return out


def generic(seed, n):
    """Pairs in which no two features are equally good: without parallel faces and the like."""
    random = np.random.default_rng(seed)
    a, b = (random_bodies(random, n, [SPHERE, CAPSULE, BOX, HULL]) for _ in "ab")
    direction = random.normal(size=(n, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    b["position"] = direction * random.uniform(0.8, 3, size=(n, 1))
    return a, b


def test_moving_both_shapes_moves_the_manifold(collide):
    a, b = generic(7, 3000)
    turn = np.array([0.5, -0.1, 0.7, 0.5])
    turn /= np.linalg.norm(turn)
    before, after = collide(a, b), collide(moved(a, turn, [3, -2, 1]), moved(b, turn, [3, -2, 1]))
    same = before["count"] == after["count"]
    features = np.where(np.arange(4) < before["count"][:, None], before["points"]["feature"], 0)
    same &= (features == np.where(np.arange(4) < after["count"][:, None], after["points"]["feature"], 0)).all(axis=1)
    assert same.mean() > 0.99  # where rounding decides, another feature may be taken
    matrix = rotation_matrix(turn)
    for m, k in ((m, k) for m, k in zip(np.flatnonzero(same), before["count"][same], strict=True) if k):
        np.testing.assert_allclose(after["normal"][m], matrix @ before["normal"][m], atol=2e-3)
        for name in ("anchor_a", "anchor_b"):
            expected = before["points"][name][m, :k] @ matrix.T
            np.testing.assert_allclose(after["points"][name][m, :k], expected, atol=2e-3)
        np.testing.assert_allclose(
            after["points"]["separation"][m, :k], before["points"]["separation"][m, :k], atol=1e-4
        )


def test_mirrored_shapes_give_the_mirrored_manifold(collide):
    a, b = generic(8, 3000)
    for bodies in (a, b):
        bodies["hull"] = np.where(bodies["kind"] == HULL, 1, 0)  # the wedge, which is its own mirror image

    def mirrored(bodies):
        out = bodies.copy()
        out["position"][:, 0] *= -1
        out["rotation"][:, 2:] *= -1
        return out

    before, after = collide(a, b), collide(mirrored(a), mirrored(b))
    np.testing.assert_allclose(least_separation(before), least_separation(after), atol=1e-4)
    flipped = after["normal"] * [-1, 1, 1]
    alike = np.abs(before["normal"] - flipped).max(axis=1) < 2e-3
    assert alike.mean() > 0.99


def test_sizes_and_distances_may_be_any_power_of_two_to_the_bit(collide):
    a, b = random_pairs(9, 3000)
    before = collide(a, b)
    for power in (-24, -10, 10, 24):
        scaled = []
        for bodies in (a, b):
            out = bodies.copy()
            out["size"] *= 2.0**power
            out["position"] *= 2.0**power
            scaled.append(out)
        after = collide(*scaled, MARGIN * 2.0**power)
        for name in ("anchor_a", "anchor_b", "separation"):
            after["points"][name] *= 2.0**-power
        assert used(after) == used(before)


def test_far_from_the_origin_only_the_difference_of_positions_counts(collide):
    a, b = random_pairs(10, 2000)
    for bodies in (a, b):
        bodies["position"] = np.round(bodies["position"] * 16) / 16 + 0.0  # and no -0
    before = collide(a, b)
    for bodies in (a, b):
        bodies["position"] += f32(2.0**19)
    assert used(collide(a, b)) == used(before)
    for bodies in (a, b):
        bodies["position"] *= f32(3e6)  # 1e12 m: coarse, and still finite
    assert np.isfinite(collide(a, b)["normal"]).all()


def test_degenerate_pairs_have_unit_normals_and_true_depths(collide):
    turns = [(1, 0, 0, 0), (1, 1, 0, 0), (0, 1, 0, 0), (0.3, 0.1, -0.5, 0.8)]
    shapes = [
        (SPHERE, 0.5),
        (CAPSULE, (0.5, 1.0, 0)),
        (CAPSULE, (0.5, 0.0, 0)),
        (CAPSULE, (0.5, 1e-6, 0)),
        (BOX, (1, 0.5, 2)),
        (HULL, (1, 1, 1)),
    ]
    places = [
        (0, 0, 0),
        (0, 0, 1e-20),
        (1e-7, 0, 0),
        (0, 0, 1e-3),
        (0, 0, 1),
        (0, 0.5, 0),
        (1, 0.5, 2),
        (0, 0, 2),
        (1, 1, 0),
    ]
    pairs = [
        (body(*one, rotation=turn), body(*other, position=place, hull=int(other[0] == HULL)))
        for one in shapes
        for other in shapes
        for turn in turns
        for place in places
    ]
    a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
    a["hull"] = a["kind"] == HULL
    found = collide(a, b)
    assert (np.abs(np.linalg.norm(found["normal"].astype(f64), axis=1) - 1) < 1e-5).all()
    for i in range(len(a)):
        first, second = core(a[i]), core(b[i])
        axis = best_axis(first, second)
        if axis < 1e-6 and max(len(first.points), len(second.points)) > 2:
            assert check(a[i], b[i], found[i], axis - first.radius - second.radius, True, MARGIN) is None, i
        elif found["count"][i]:
            least = found["points"]["separation"][i][: found["count"][i]].min()
            assert least >= apart_along(first, second, found["normal"][i].astype(f64)) - 1e-5
            assert least >= -1.0001  # both radii


def test_a_number_that_is_none_gives_no_more_than_four_points(collide):
    a, b = random_pairs(12, 500)
    a["position"][::2, 0] = np.nan
    b["rotation"][::3, 1] = np.inf
    b["size"][::5] = np.nan
    assert (collide(a, b)["count"] <= 4).all()


@pytest.mark.parametrize("kind, hull", [(BOX, 0), (HULL, 0), (HULL, 1)])
def test_a_resting_shape_keeps_its_features(collide, kind, hull):
    random = np.random.default_rng(3)
    n = 300
    a, b = np.repeat(body(BOX, (2, 2, 0.5)), n), np.repeat(body(kind, (1, 1, 1), hull=hull), n)
    lowest = core(b[0]).points[:, 2].min()
    b["position"] = [0.3, 0.2, 0.5 - lowest]
    b["position"] += random.normal(size=(n, 3)) * [1e-3, 1e-3, 3e-4]
    b["rotation"] = about([0, 0, 1], 0.4) + random.normal(size=(n, 4)) * 1e-4
    found = collide(a, b, 0.02)
    assert (found["count"] == 4).all()
    assert (np.sort(found["points"]["feature"], axis=1) == np.sort(found["points"]["feature"][0])).all()
    area = np.ptp(found["points"]["anchor_a"], axis=1)[:, :2].min(axis=1)
    assert (area > 1.8).all()  # as wide as the shape


def test_a_turning_box_keeps_its_features_for_most_steps(collide):
    n = 600
    a, b = np.repeat(body(BOX, (2, 2, 0.5)), n), np.repeat(body(BOX, (0.7, 0.4, 0.3), (0.2, -0.1, 0.8)), n)
    b["rotation"] = [about([0, 0, 1], 0.01 * step) for step in range(n)]
    found = collide(a, b, 0.02)
    assert (found["count"] == 4).all()
    moved_on = np.abs(np.diff(found["points"]["anchor_a"], axis=0)).max(axis=2) > 0.05
    assert moved_on.mean() < 0.02  # a corner is in another slot four times a turn
    assert (found["points"]["feature"][1:] == found["points"]["feature"][:-1]).all()


def test_boxes_of_the_same_size_touch_with_their_corners(collide):
    random = np.random.default_rng(4)
    n = 200
    a, b = np.repeat(body(BOX, (1, 1, 1)), n), np.repeat(body(BOX, (1, 1, 1), position=(0, 0, 2)), n)
    b["position"] += random.normal(size=(n, 3)) * 10.0 ** random.uniform(-9, -5, size=(n, 1))
    b["rotation"][:, 1:] += random.normal(size=(n, 3)) * 10.0 ** random.uniform(-9, -5, size=(n, 1))
    found = collide(a, b, 0.01)
    assert (found["count"] == 4).all()
    np.testing.assert_allclose(np.abs(found["points"]["anchor_a"]), 1, atol=1e-4)


def test_the_points_are_those_of_the_overlap_of_two_faces(collide):
    a = body(BOX, (2, 1, 1))
    b = body(BOX, (1, 1, 1), position=(1.5, 0.5, 1.99))
    found = collide(a, b, 0.0)[0]
    assert found["count"] == 4
    np.testing.assert_array_equal(found["normal"], [0, 0, 1])
    corners = sorted(np.round(found["points"]["anchor_a"], 4).tolist())
    assert corners == [[0.5, -0.5, 1], [0.5, 1, 1], [2, -0.5, 1], [2, 1, 1]]
    np.testing.assert_allclose(found["points"]["separation"], -0.01, atol=1e-6)


def test_a_box_beside_the_end_of_a_wall_does_not_meet_a_ghost_of_the_wall(collide):
    wall = body(BOX, (4, 0.2, 1.25))
    for y in (0.0, 0.5, 0.9, 1.5):  # along the wall's face and beyond its end, by 0.5 in x
        box = body(BOX, (0.5, 0.5, 0.5), position=(5, y, 0))
        found = collide(wall, box, 3.0)[0]
        across = max(y - 0.7, 0.0)
        assert found["count"] > 0
        least = found["points"]["separation"][: found["count"]].min()
        np.testing.assert_allclose(least, np.hypot(0.5, across), rtol=1e-5)
        np.testing.assert_allclose(found["normal"], [0.5 / least, across / least, 0], atol=1e-5)
        assert collide(wall, box, 0.999 * least)["count"][0] == 0


def test_parallel_capsules_and_edges_touch_in_a_line(collide):
    lying = about([0, 1, 0], np.pi / 2)
    a, b = body(CAPSULE, (0.2, 1, 0), rotation=lying), body(CAPSULE, (0.2, 0.6, 0), (0.2, 0, 0.39), lying)
    found = collide(a, b, 0.1)[0]
    assert found["count"] == 2
    np.testing.assert_allclose(sorted(found["points"]["anchor_a"][:2, 0]), [-0.4, 0.8], atol=1e-5)
    edge_up = body(BOX, (2, 1, 1), (0, 0, -(2**0.5) - 0.19), about([1, 0, 0], np.pi / 4))
    found = collide(a, edge_up, 0.1)[0]
    assert found["count"] == 2
    np.testing.assert_allclose(sorted(found["points"]["anchor_a"][:2, 0]), [-1, 1], atol=1e-5)
    np.testing.assert_allclose(found["points"]["separation"][:2], -0.01, atol=1e-5)
    floor = body(BOX, (2, 2, 1), (0, 0, -1.19))
    found = collide(a, floor, 0.1)[0]
    assert found["count"] == 2
    np.testing.assert_allclose(sorted(found["points"]["anchor_a"][:2, 0]), [-1, 1], atol=1e-5)


def test_bounds_hold_every_point_and_are_tight(library):
    random = np.random.default_rng(5)
    bodies = random_bodies(random, 1000, [SPHERE, CAPSULE, BOX, HULL])
    bodies["position"] = random.normal(size=(1000, 3)) * 3
    out = np.zeros((1000, 2, 3), f32)
    library.bounds_of(pointer(bodies), pointer(packed()), pointer(out), ctypes.c_int64(1000))
    for one, (low, high) in zip(bodies, out, strict=True):
        own = core(one)
        np.testing.assert_allclose(low, own.points.min(axis=0) - own.radius, atol=1e-5)
        np.testing.assert_allclose(high, own.points.max(axis=0) + own.radius, atol=1e-5)
    plane = body(PLANE, 1)
    library.bounds_of(pointer(plane), pointer(packed()), pointer(out), ctypes.c_int64(1))
    assert (out[0] == [[-np.inf] * 3, [np.inf] * 3]).all()
