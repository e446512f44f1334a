"""csrc/rays/camera.h: pictures are what single rays through their pixels meet; the same from tiles and from lanes."""

import numpy as np
import pytest
from conftest import pointer
from ray_support import (
    BOX,
    CAMERA,
    CAPSULE,
    HULL,
    PLANE,
    RAY,
    SPHERE,
    Bodies,
    Scene,
    f32,
    hull_record,
    matrices,
    random_bodies,
    random_rotations,
    records,
    wedge,
)

STILL = (1, 0, 0, 0)

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def library(rays_library):
    return rays_library


@pytest.fixture
def random():
    return np.random.default_rng(5)


def camera(position=(0, 0, 0), rotation=STILL, width=64, height=48, view=1.0, near=0.1, far=50.0):
    fields = {"position": position, "rotation": rotation, "width": width, "height": height}
    return records(CAMERA, 1, field_of_view=view, near=near, far=far, **fields)[0]


def looking(library, forward, up=(0, 0, 1)):
    forward, up, out = np.array([forward], f32), np.array([up], f32), np.empty((1, 4), f32)
    library.look_along(pointer(forward), pointer(up), pointer(out), 1)
    return out[0]


def pixel_rays(view):
    """Rays [height, width] through the middles of pixels, of length 1 along the axis, from the pinhole."""
    height, width = int(view["height"]), int(view["width"])
    top = np.tan(view["field_of_view"] / 2)
    pixel = 2 * top / height
    across = pixel * (np.arange(width) + 0.5 - width / 2)
    above = top - pixel * (np.arange(height) + 0.5)
    local = np.stack(np.broadcast_arrays(across, np.ones((height, 1)), above[:, None]), 2)
    return local @ matrices(view["rotation"][None])[0].T


@pytest.mark.parametrize("width,height", [(64, 48), (13, 9), (1, 1), (8, 100)])
def test_pixels_are_rays(library, random, width, height):
    bodies = random_bodies(random, 40, 10.0, [SPHERE, CAPSULE, BOX, HULL])
    scene = Scene(library, bodies)
    for _ in range(3):
        view = camera(random.uniform(-3, 3, 3), random_rotations(random, 1)[0], width, height, random.uniform(0.3, 2))
        in_tiles, by_lanes = scene.draw(view, shadows=True)
        assert in_tiles.tobytes() == by_lanes.tobytes()
        directions = pixel_rays(view).reshape(-1, 3)
        origin = view["position"] + view["near"] * directions
        rays = records(RAY, width * height, origin=origin, direction=directions, reach=view["far"] - view["near"])
        hits = scene.cast("singly", rays).reshape(height, width)
        same = hits["body"] == in_tiles["body"]
        assert same.mean() > 0.99  # but at outlines
        depth = np.where(hits["body"] >= 0, view["near"] + hits["distance"], view["far"])
        assert np.allclose(depth[same], in_tiles["depth"][same], rtol=1e-3)
        archetype = np.where(hits["body"] >= 0, bodies.archetype[hits["body"]], -1)
        assert (archetype[same] == in_tiles["archetype"][same]).all()


def test_depth_is_along_the_axis(library):
    """A wall across the view has one depth in every pixel; a floor that of its rows."""
    wall = Scene(library, Bodies([BOX], [(50, 1, 50)], [(0, 6, 0)], [STILL]))
    assert np.allclose(wall.draw(camera())[0]["depth"], 5, atol=1e-4)
    floor = Scene(library, Bodies([PLANE], [(1, 1, 1)], [(0, 0, -1)], [STILL]))
    view = camera(width=8, height=8, view=np.pi / 2)
    depth = floor.draw(view)[0]["depth"]
    assert (depth[:4] == view["far"]).all()
    assert np.allclose(depth[4:], (1 / (np.array([0.5, 1.5, 2.5, 3.5]) / 4))[:, None], rtol=1e-5)


def test_near_and_far(library):
    scene = Scene(library, Bodies([SPHERE, BOX], [(1, 1, 1), (9, 1, 9)], [(0, 3, 0), (0, 10, 0)], [STILL] * 2))
    middle = (24, 32)
    assert scene.draw(camera())[0]["body"][middle] == 0
    assert scene.draw(camera(near=4.5))[0]["body"][middle] == 1
    inside = scene.draw(camera(near=3))[0][middle]  # a body cut open by the near plane begins there
    assert inside["body"] == 0 and inside["depth"] == 3
    assert scene.draw(camera(far=1.9))[0]["body"][middle] == -1
    nothing = scene.draw(camera(near=4.5, far=8))[0]
    assert (nothing["body"] == -1).all() and (nothing["archetype"] == -1).all() and (nothing["depth"] == 8).all()


def test_what_is_left_and_up(library):
    places = [(-1, 5, 0), (1, 5, 0), (0, 5, 1), (0, 5, -1)]
    scene = Scene(library, Bodies([SPHERE] * 4, np.full((4, 3), 0.3), places, [STILL] * 4))
    body = scene.draw(camera())[0]["body"]
    rows, columns = (np.array([np.argwhere(body == i)[:, axis].mean() for i in range(4)]) for axis in (0, 1))
    assert columns[0] < 31 < 32 < columns[1] and rows[2] < 23 < 24 < rows[3]
    assert columns[0] + columns[1] == pytest.approx(63, abs=0.1) and rows[2] + rows[3] == pytest.approx(47, abs=0.1)


def test_looking(library, random):
    """The axis goes forward, the right is level; straight up and down too."""
    for forward in [*random.normal(size=(50, 3)), (0, 0, 1), (0, 0, -3), (1, 0, 0), (-1, 0, 0), (0, -1, 0), (0, 2, 0)]:
        turn = matrices(looking(library, forward)[None])[0]
        assert np.allclose(turn[:, 1], np.array(forward) / np.linalg.norm(forward), atol=1e-6)
        assert np.allclose(turn.T @ turn, np.eye(3), atol=1e-6) and np.linalg.det(turn) > 0
        assert abs(turn[2, 0]) < 1e-6 and turn[2, 2] > -1e-6


def test_light_and_shadow(library):
    """Below a floating ball the floor is darker; faces towards the light are brighter than those away from it."""
    bodies = Bodies(
        [PLANE, SPHERE, BOX], [(1, 1, 1), (0.5,) * 3, (1, 1, 1)], [(0, 0, 0), (0, 6, 1.2), (4, 8, 1)], [STILL] * 3
    )
    scene = Scene(library, bodies)
    view = camera((0, 0, 2), looking(library, (0, 6, -2)))
    plain, shaded = (scene.draw(view, shadows)[0] for shadows in (False, True))
    assert (plain["body"] == shaded["body"]).all() and (plain["depth"] == shaded["depth"]).all()

    def grey(picture):
        return sum((picture["colour"] >> shift & 255).astype(float) for shift in (0, 8, 16)) / 3

    floor = plain["body"] == 0
    darker = grey(shaded) < grey(plain) - 20
    assert 20 < (darker & floor).sum() < 0.3 * floor.sum()
    assert not darker[plain["body"] == -1].any() and (grey(shaded) <= grey(plain)).all()
    # A point of the floor is dark exactly where a ray to the light meets a body.
    directions = pixel_rays(view)
    points = view["position"] + directions * plain["depth"][..., None]
    light = np.array((0.36, -0.48, 0.8), f32)
    rays = records(RAY, int(floor.sum()), origin=points[floor], direction=light, ignored=0)
    blocked = scene.cast("in_packets", rays)["body"] >= 0
    assert (blocked == darker[floor]).mean() > 0.995


def test_an_ignored_body_is_not_drawn(library):
    scene = Scene(library, Bodies([SPHERE, BOX], np.ones((2, 3)), [(0, 0, 0), (0, 5, 0)], [STILL] * 2))
    view = camera()
    assert (scene.draw(view)[0]["body"] == 0).all()  # the eye is in it
    view["ignored"] = 0
    assert set(scene.draw(view)[0]["body"].ravel()) == {-1, 1}
    view["mask"] = 2
    assert (scene.draw(view)[0]["body"] == -1).all()


def test_the_wedge_has_its_faces(library):
    """Five faces of a hull in five tones or less, and flat ones: each face one tone."""
    scene = Scene(library, Bodies([HULL], [(1, 1, 1)], [(0, 0, 0)], [STILL], [hull_record(wedge())]))
    place = np.array((4.0, -5.0, 4.0))
    pixels = scene.draw(camera(place, looking(library, -place), far=1000.0))[0]
    on = pixels["body"] == 0
    tones, count = np.unique(pixels["colour"][on], return_counts=True)
    assert on.sum() > 100 and 2 <= len(tones) <= 3 and (count > 20).all()
