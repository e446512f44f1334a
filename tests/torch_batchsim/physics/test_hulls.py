"""Convex hulls and mass properties: closed forms, and MuJoCo's compiler for what has none."""

import numpy as np
import pytest

from torch_batchsim.physics.hulls import LAYOUT, convex_hull, cube, pack
from torch_batchsim.physics.shapes import ShapeKind, mass_properties

WEDGE = [(x, y, z) for x in (-1, 1) for y, z in ((-1.5, -1), (1.5, -1), (1.5, 1))]


def ball_of(n, seed=0):
    points = np.random.default_rng(seed).normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def turned(points, seed):
    return points @ np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0].T


def check(hull):
    """Invariants of every convex polyhedron."""
    v, f, e = len(hull.vertices), len(hull.faces), len(hull.edges)
    assert v - e + f == 2
    heights = hull.vertices @ hull.normals.T - hull.offsets
    scale = np.abs(hull.vertices).max()
    assert heights.max() < 1e-5 * scale
    assert (hull.offsets > 0).all()
    for face, loop in enumerate(hull.faces):
        assert np.abs(heights[list(loop), face]).max() < 2e-5 * scale
        corners = hull.vertices[list(loop)]
        for a, b, c in zip(corners, np.roll(corners, -1, 0), np.roll(corners, -2, 0), strict=True):
            assert np.cross(b - a, c - b) @ hull.normals[face] > 0  # counter-clockwise, convex
    for tail, head, left, right in hull.edges:
        loops = [hull.faces[side] for side in (left, right)]
        after = [loop[(loop.index(vertex) + 1) % len(loop)] for loop, vertex in zip(loops, (tail, head), strict=True)]
        assert after == [head, tail]


def test_a_cube():
    hull = cube()
    check(hull)
    assert (len(hull.vertices), len(hull.faces), len(hull.edges)) == (8, 6, 12)
    np.testing.assert_allclose(hull.volume, 8)
    np.testing.assert_allclose(hull.moments, 8 / 3 * np.eye(3), atol=1e-12)


def test_a_wedge_is_centred_and_its_quadrilaterals_are_one_face_each():
    hull = convex_hull(WEDGE)
    check(hull)
    assert sorted(len(loop) for loop in hull.faces) == [3, 3, 4, 4, 4]
    np.testing.assert_allclose(hull.centroid, [0, 0.5, -1 / 3], atol=1e-12)
    np.testing.assert_allclose(hull.volume, 6)
    np.testing.assert_allclose(sorted(map(tuple, hull.vertices)), sorted(map(tuple, np.array(WEDGE) - hull.centroid)))


def test_points_inside_of_faces_edges_and_the_hull_and_double_ones_are_left_out():
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    more = [(0, 0, 0), (0, 0, 1), (1, 1, 0), (-1, 0.3, 1), (1, 1, 1), (1, 1, 1 + 1e-7), (0.2, 0.2, 0.2)]
    for turn in range(5):
        hull = convex_hull(turned(np.array(more + corners), turn).astype(np.float32))
        check(hull)
        assert (len(hull.vertices), len(hull.faces), len(hull.edges)) == (8, 6, 12)


@pytest.mark.parametrize("n", [4, 5, 8, 16, 32])
def test_random_hulls(n):
    for seed in range(4):
        hull = convex_hull(ball_of(n, seed) * [1, 3, 0.2] + [5, -7, 100])
        check(hull)
        assert len(hull.vertices) == n and len(hull.faces) == 2 * n - 4 and len(hull.edges) == 3 * n - 6


def test_a_prism_of_sixteen_sides():
    turn = np.linspace(0, 2 * np.pi, 17)[:-1]
    hull = convex_hull([(np.cos(t), np.sin(t), z) for t in turn for z in (-1, 1)])
    check(hull)
    assert (len(hull.vertices), len(hull.faces), len(hull.edges)) == (32, 18, 48)
    assert pack([hull])[1]["loop"][:16].max() < 32


def test_sizes_from_micrometres_to_light_years():
    for scale in (1e-9, 1e-3, 1e9):
        hull = convex_hull(np.array(WEDGE) * scale)
        check(hull)
        np.testing.assert_allclose(hull.volume, 6 * scale**3)


@pytest.mark.parametrize(
    "points, message",
    [
        (np.zeros((5, 2)), r"points \[n, 3\], got an array of shape \[5, 2\]"),
        (WEDGE[:3], "4 to 32 points, got 3"),
        (ball_of(33), "4 to 32 points, got 33"),
        ([*WEDGE, (0, np.nan, 0)], "must be finite, got .* as point 6"),
        ([*WEDGE, (0, np.inf, 0)], "must be finite"),
        ([(1, 2, 3)] * 6, "apart from each other"),
        ([(1, 2, 3), (4, 5, 6)] * 3, "lie in a plane"),
        ([(x, 2 * x, 3 * x) for x in range(8)], "lie in a plane"),
        ([(x, y, 0) for x in range(3) for y in range(3)], "lie in a plane"),
        (np.array(WEDGE) * [1, 1, 1e-7], "lie in a plane"),
    ],
)
def test_bad_points_are_refused(points, message):
    with pytest.raises(ValueError, match=message):
        convex_hull(points)


def test_packed_hulls_are_padded_with_the_first_vertex_and_face():
    hull = convex_hull(WEDGE)
    rows = pack([hull])
    assert rows.dtype == LAYOUT and len(rows) == 2
    assert rows[0]["vertices"] == 8 and (np.abs([rows[0][axis][:8] for axis in "xyz"]) == 1).all()  # the cube
    row = rows[1]
    assert (row["vertices"], row["faces"], row["edges"]) == (6, 5, 9)
    assert (row["x"][6:] == row["x"][0]).all() and (row["offset"][5:] == row["offset"][0]).all()
    for face, loop in enumerate(hull.faces):
        assert tuple(row["loop"][row["start"][face] : row["start"][face + 1]]) == loop
    for k, (tail, head, _, _) in enumerate(hull.edges):
        edge = [row[f"edge_{axis}"][k] for axis in "xyz"]
        np.testing.assert_allclose(edge, hull.vertices[head] - hull.vertices[tail], rtol=1e-6)
    with pytest.raises(ValueError, match="from its centroid"):
        pack([convex_hull(np.array(WEDGE) * 1e20)])


def test_mass_of_a_box_and_of_the_hull_that_it_is():
    mass, inertia = mass_properties(ShapeKind.BOX, (1, 2, 3), 10)
    assert mass == 480
    np.testing.assert_allclose(inertia, np.diag([480 / 3 * (4 + 9), 480 / 3 * (1 + 9), 480 / 3 * (1 + 4)]))
    other, as_hull = mass_properties(ShapeKind.HULL, (1, 2, 3), 10, cube())
    np.testing.assert_allclose(other, mass)
    np.testing.assert_allclose(as_hull, inertia, atol=1e-9)


def test_mass_of_a_sphere_and_of_capsules():
    mass, inertia = mass_properties(ShapeKind.SPHERE, 2.0, 3.0)
    np.testing.assert_allclose(mass, 32 * np.pi)
    np.testing.assert_allclose(inertia, 0.4 * mass * 4 * np.eye(3))
    short, same = mass_properties(ShapeKind.CAPSULE, (2.0, 0.0), 3.0)
    np.testing.assert_allclose(short, mass)
    np.testing.assert_allclose(same, inertia)


def test_masses_agree_with_mujoco():
    import mujoco

    hulls = [convex_hull(WEDGE), *(convex_hull(turned(ball_of(n, n) * [1, 2, 0.5], n)) for n in (6, 12, 32))]
    meshes, geoms = "", '<body><geom type="capsule" size="0.7 1.3" density="50"/></body>'
    for number, hull in enumerate(hulls):
        numbers = " ".join(f"{x:.17g}" for x in (hull.vertices * [1, 2, 0.5]).ravel())
        meshes += f'<mesh name="m{number}" vertex="{numbers}" inertia="exact"/>'
        geoms += f'<body><geom type="mesh" mesh="m{number}" density="50"/></body>'
    model = mujoco.MjModel.from_xml_string(f"<mujoco><asset>{meshes}</asset><worldbody>{geoms}</worldbody></mujoco>")
    ours = [mass_properties(ShapeKind.CAPSULE, (0.7, 1.3), 50)]
    ours += [mass_properties(ShapeKind.HULL, (1, 2, 0.5), 50, hull) for hull in hulls]
    for body, (mass, inertia) in enumerate(ours, start=1):
        np.testing.assert_allclose(mass, model.body_mass[body], rtol=1e-5)
        np.testing.assert_allclose(np.linalg.eigvalsh(inertia), np.sort(model.body_inertia[body]), rtol=1e-5)


@pytest.mark.parametrize(
    "kind, size, density, message",
    [
        (ShapeKind.SPHERE, 0.0, 1.0, "radius of a SPHERE must be finite and above 0, got 0"),
        (ShapeKind.SPHERE, -1.0, 1.0, "got -1"),
        (ShapeKind.CAPSULE, (1.0, -1.0), 1.0, "half length of a CAPSULE must be finite and at least 0"),
        (ShapeKind.CAPSULE, 1.0, 1.0, r"size of a CAPSULE is \(radius, half length\), got \[1.0\]"),
        (ShapeKind.BOX, (1, np.nan, 1), 1.0, "half extent along y of a BOX must be finite"),
        (ShapeKind.HULL, (1, 1, np.inf), 1.0, "scale along z of a HULL"),
        (ShapeKind.HULL, (1, 1, 1), 1.0, "needs its hull"),
        (ShapeKind.BOX, (1, 1, 1), 0.0, "density of a body must be finite and above 0, got 0"),
        (ShapeKind.BOX, (1, 1, 1), np.nan, "density"),
        (ShapeKind.PLANE, (), 1.0, "a PLANE is always static"),
    ],
)
def test_bad_masses_are_refused(kind, size, density, message):
    with pytest.raises(ValueError, match=message):
        mass_properties(kind, size, density)
