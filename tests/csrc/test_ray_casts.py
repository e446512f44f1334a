"""csrc/rays: where rays enter shapes, against closed formulas in float64; scenes against single casts, to the bit."""

import numpy as np
import pytest
from ray_support import (
    BOX,
    CAPSULE,
    EVERYTHING,
    FAN,
    HULL,
    HULL_RECORD,
    PLANE,
    RAY,
    SIGHT,
    SPHERE,
    Bodies,
    Scene,
    aimed_rays,
    cast_each,
    entries,
    f32,
    f64,
    hull_record,
    matrices,
    random_bodies,
    records,
    wedge,
)

STILL = (1, 0, 0, 0)
HOW = ("singly", "in_packets", "by_lanes")


@pytest.fixture(scope="module")
def library(rays_library):
    assert rays_library.hull_bytes() == HULL_RECORD.itemsize
    return rays_library


@pytest.fixture
def random():
    return np.random.default_rng(11)


def one(kind, size=(1, 1, 1), position=(0, 0, 0), rotation=STILL):
    hulls = [hull_record(wedge())] if kind == HULL else []
    return Bodies([kind], [size], [position], [rotation], hulls)


def cast_one(library, body, origin, direction, reach=np.inf):
    hit = cast_each(library, body, origin, direction, reach)[0]
    return float(hit["distance"]), int(hit["body"]), hit["normal"]


def check_entries(library, random, bodies, distance):
    """Distances within the rounding of coordinates, more where a ray grazes; hits and misses differ only for those that
    distinguish a shape a little larger or smaller. Normals point out and lie on the surface."""
    origin, direction = aimed_rays(random, bodies, distance)
    hits = cast_each(library, bodies, origin, direction)
    expected = entries(bodies, origin, direction)
    hit = hits["body"] == 0
    size = np.linalg.norm(direction, axis=1)
    rounding = 1e-6 * (2 + np.linalg.norm(origin - bodies.position, axis=1) + np.abs(origin).max(1))
    grown = np.array([entries(bodies, origin, direction, s * rounding.max()) for s in (-1, 1)])
    assert (hit <= np.isfinite(grown[1])).all() and (hit >= np.isfinite(grown[0])).all()
    assert 0.3 < hit.mean() < 0.98 and (hits["distance"][hit] == 0).mean() > 0.01

    both = hit & np.isfinite(expected)
    assert both.sum() > 0.999 * hit.sum()
    slant = np.abs((hits["normal"] * direction).sum(1)) / size
    distance, grown, rounding = hits["distance"][both], grown[:, both], rounding[both]
    rounding = np.maximum(rounding, 1e-6 * distance * size[both])  # a plane may be met far away
    error = np.abs(distance - expected[both]) * (size * slant)[both]  # across the surface
    # A grazing ray that comes in near an edge may be given to the other face.
    grown = np.where(np.isfinite(grown), grown, 1e9)
    bounded = np.minimum(error, np.abs(grown - distance).min(0) * size[both] + rounding)
    assert (bounded <= 4 * rounding).all()
    assert (error <= 4 * rounding).mean() > 0.999

    assert (hits["distance"][~hit] == np.inf).all() and (hits["normal"][~hit] == 0).all()
    assert np.allclose(np.linalg.norm(hits["normal"][hit], axis=1), 1, atol=1e-5)
    assert ((hits["normal"] * direction).sum(1)[hit] <= 1e-6 * size[hit]).all()


@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, BOX, HULL, PLANE])
def test_rays_enter_where_closed_formulas_say(library, random, kind):
    check_entries(library, random, random_bodies(random, 3000, 5.0, [kind]), 8.0)


@pytest.mark.full
@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, BOX, HULL, PLANE])
@pytest.mark.parametrize("distance", [2.0, 100.0])
def test_a_hundred_thousand_rays_enter_where_closed_formulas_say(library, random, kind, distance):
    check_entries(library, random, random_bodies(random, 20_000 if kind == HULL else 100_000, 5.0, [kind]), distance)


def test_normals(library, random):
    """Of points on the surface, by the gradient of closed formulas."""
    bodies = random_bodies(random, 2000, 3.0, [SPHERE, CAPSULE, BOX, PLANE])
    origin, direction = aimed_rays(random, bodies)
    hits = cast_each(library, bodies, origin, direction)
    on = (hits["body"] == 0) & (hits["distance"] > 0)
    turn = matrices(bodies.rotation)
    point = origin + direction * hits["distance"][:, None].astype(f64)
    with np.errstate(invalid="ignore"):
        p = np.einsum("nji,nj->ni", turn, point - bodies.position)
    size = bodies.size.astype(f64)
    normal = np.zeros_like(p)
    round_ones = np.isin(bodies.kind, (SPHERE, CAPSULE))
    core = np.zeros_like(p)
    core[:, 2] = np.where(bodies.kind == CAPSULE, np.clip(p[:, 2], -size[:, 1], size[:, 1]), 0)
    normal[round_ones] = (p - core)[round_ones] / size[round_ones, :1]
    boxes = np.flatnonzero((bodies.kind == BOX) & on)
    face = np.abs(p[boxes] / size[boxes])
    clear = np.sort(face, 1)[:, 1] < 0.999  # at an edge there are two
    axis = face.argmax(1)
    normal[boxes, axis] = np.sign(p[boxes, axis])
    normal[bodies.kind == PLANE] = (0, 0, 1)
    on[boxes[~clear]] = False
    assert np.allclose(hits["normal"][on], np.einsum("nij,nj->ni", turn, normal)[on], atol=2e-5)


def test_inside_is_distance_zero_and_a_normal_against_the_ray(library):
    for kind in (SPHERE, CAPSULE, BOX, HULL):
        assert cast_one(library, one(kind), (0, 0.1, 0), (0, 0, 5))[:2] == (0, 0)
        assert (cast_one(library, one(kind), (0, 0.1, 0), (0, 0, 5))[2] == (0, 0, -1)).all()
    assert cast_one(library, one(PLANE), (7, 8, -3), (0, 0, 1))[:2] == (0, 0)


def test_a_direction_of_length_zero_asks_whether_the_origin_is_inside(library):
    for kind in (SPHERE, CAPSULE, BOX, HULL, PLANE):
        for body in (one(kind), one(kind, rotation=(0.6, 0, 0.8, 0))):
            distance, found, normal = cast_one(library, body, (0, 0, 0), (0, 0, 0))
            assert (distance, found) == (0, 0) and (normal == 0).all()
        assert cast_one(library, one(kind), (0, 0, 2.5), (0, 0, 0))[:2] == (np.inf, -1)


def test_what_only_touches_is_a_hit(library):
    box = one(BOX)
    for sign in (1, -1):
        for zero in (0.0, -0.0):  # in a face, along it, and along an edge
            assert cast_one(library, box, (-4, sign, 0.5), (1, zero, zero))[:2] == (3, 0)
            assert cast_one(library, box, (-4, sign, -1), (1, zero, zero))[:2] == (3, 0)
            outside = np.nextafter(f32(sign), f32(2 * sign))
            assert cast_one(library, box, (-4, 1.000001 * outside, 0), (1, zero, zero))[1] == -1
        assert cast_one(library, box, (0, 0, sign), (0, 0, sign))[:2] == (0, 0)  # begins on a face and leaves
        assert cast_one(library, box, (sign, 1, 1), (sign, 1, 1))[:2] == (0, 0)
    assert cast_one(library, one(SPHERE), (-3, 1, 0), (1, 0, 0))[:2] == (3, 0)
    assert cast_one(library, one(SPHERE), (0, 0, 1), (0, 0, 1))[:2] == (0, 0)
    assert cast_one(library, one(SPHERE), (-3, 1.00001, 0), (1, 0, 0))[1] == -1
    assert cast_one(library, one(CAPSULE), (1, 0, -5), (0, 0, 1))[:2] == (4, 0)  # along the side
    assert cast_one(library, one(CAPSULE), (-5, 1, 0.5), (1, 0, 0))[:2] == (5, 0)
    assert cast_one(library, one(CAPSULE), (-5, 0, 2), (1, 0, 0))[:2] == (5, 0)  # the pole of an end
    assert cast_one(library, one(PLANE), (0, 0, 0), (1, 0, 0))[:2] == (0, 0)
    for z, expected in ((f32(-2 / 3), 3.5), (-0.67, None)):  # along the wedge's floor
        body = cast_one(library, one(HULL), (0, -5.5, z), (0, 1, 0))
        assert body[:2] == ((pytest.approx(expected, rel=1e-6), 0) if expected else (np.inf, -1))


def test_parallel_rays_outside_miss(library):
    for kind in (SPHERE, CAPSULE, BOX, HULL):
        assert cast_one(library, one(kind), (-6, 0, 2.2), (1, 0, 0))[1] == -1
        assert cast_one(library, one(kind), (-6, 0, 2.2), (1, -0.0, -0.0))[1] == -1
    assert cast_one(library, one(PLANE), (0, 0, 1e-6), (1, 0, 0))[1] == -1
    assert cast_one(library, one(PLANE), (0, 0, 1), (0, 0, 1))[1] == -1


def test_reach(library):
    for kind in (SPHERE, BOX, PLANE):
        body = one(kind)
        assert cast_one(library, body, (0, 0, 3), (0, 0, -1), 3 if kind == PLANE else 2)[1] == 0  # just there
        assert cast_one(library, body, (0, 0, 3), (0, 0, -1), 1.999)[:2] == (f32(1.999), -1)
        assert cast_one(library, body, (0, 0, 0), (0, 0, -1), 0)[:2] == (0, 0)
        assert cast_one(library, body, (0, 0, 0), (0, 0, -1), -1)[1] == -1
    assert cast_one(library, one(BOX), (0, 0, 30), (0, 0, -10))[0] == pytest.approx(2.9)  # lengths of the direction


@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, BOX, HULL, PLANE])
def test_what_is_not_finite_or_has_no_size_meets_nothing(library, kind):
    origin, direction = (0.0, 0.0, 3.0), (0.0, 0.0, -1.0)
    assert cast_one(library, one(kind), origin, direction)[1] == 0
    for bad in (np.nan, -np.nan, np.inf, -np.inf):
        for axis in range(3):
            wrong = [np.where(np.arange(3) == axis, bad, v) for v in (origin, direction)]
            assert cast_one(library, one(kind), wrong[0], direction)[1] == -1
            assert cast_one(library, one(kind), origin, wrong[1])[1] == -1
            assert cast_one(library, one(kind, position=wrong[0] - origin), origin, direction)[1] == -1
        assert cast_one(library, one(kind, rotation=(1, 0, bad, 0)), origin, direction)[1] == -1
        if kind != PLANE:
            assert cast_one(library, one(kind, size=(bad, 1, 1)), origin, direction)[1] == -1
    assert cast_one(library, one(kind), origin, direction, np.nan)[1] == -1
    if kind != PLANE:
        assert cast_one(library, one(kind, size=(0, 1, 1)), origin, direction)[1] == -1
        assert cast_one(library, one(kind, size=(-1, 1, 1)), origin, direction)[1] == -1


@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, BOX, HULL])
def test_small_and_far(library, kind):
    """A millimetre, a place a thousand kilometres away, and directions of any length."""
    small = one(kind, size=(1e-3,) * 3, position=(1, 2, 3))
    distance, found, _ = cast_one(library, small, (1, 2, 3.5), (0, 0, -1))
    assert found == 0 and distance == pytest.approx(0.5, abs=3e-3)
    far = one(kind, position=(1e6, 0, 0))
    distance, found, _ = cast_one(library, far, (1e6 - 10, 0, 0), (1, 0, 0))
    assert found == 0 and distance == pytest.approx(9, abs=0.1)
    distance, found, _ = cast_one(library, far, (0, 0, 0), (1, 0, 0))
    assert found == 0 and distance == pytest.approx(1e6, abs=2)
    for size in (1e-6, 1e6):
        distance, found, _ = cast_one(library, one(kind), (0, 0, 10), (0, 0, -size))
        assert found == 0 and distance * size == pytest.approx(8 if kind == CAPSULE else 9, abs=0.4)


def scene_rays(random, bodies, n):
    """Rays of all sorts through a scene; some along axes, some with masks and bodies left out, some without length."""
    direction = random.normal(size=(n, 3))
    along = random.random(n) < 0.2
    direction[along] = np.eye(3)[random.integers(0, 3, along.sum())] * random.choice([-1, 1], (along.sum(), 1))
    direction[random.random(n) < 0.01] = 0
    rays = records(RAY, n, origin=random.uniform(-9, 9, (n, 3)), direction=direction)
    start = random.random(n) < 0.1
    rays["origin"][start] = bodies.position[random.integers(0, len(bodies), start.sum())]
    rays["reach"] = np.where(random.random(n) < 0.5, np.inf, random.uniform(0, 10, n))
    rays["mask"] = random.choice([EVERYTHING, 1, 2, 4, 0], n, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    rays["ignored"] = random.integers(-1, len(bodies), n)
    rays["ignored_too"] = random.integers(-1, len(bodies), n)
    rays["origin"][random.random(n) < 0.01, 1] = np.nan
    return rays


def random_scene(random, n, kinds=(SPHERE, CAPSULE, BOX, BOX, HULL, HULL, PLANE)):
    bodies = random_bodies(random, n, 8.0, kinds)
    bodies.groups[:] = random.choice([1, 2, 3, 8, 0], n)
    twins = random.integers(0, n, (2, n // 8))  # bodies at the same place, between which the first is to be found
    for name in ("kind", "hull", "size", "position", "rotation"):
        getattr(bodies, name)[twins[0]] = getattr(bodies, name)[twins[1]]
    if n > 20:
        planes = np.flatnonzero(bodies.kind == PLANE)[1:]  # or most rays begin in one
        bodies.kind[planes] = SPHERE
    return bodies


@pytest.mark.parametrize("n", [1, 15, 16, 17, 36, 64])
def test_scenes_give_the_bits_of_single_casts(library, random, n):
    for _ in range(4):
        bodies = random_scene(random, n)
        scene = Scene(library, bodies)
        assert (scene.wanted == [n, sum(len(bodies.faces(i)) for i in np.flatnonzero(bodies.kind == HULL))]).all()
        assert scene.filled() == Scene(library, bodies, by_lanes=True).filled()
        rays = scene_rays(random, bodies, 1000)
        expected = scene.cast_by_force(rays)
        assert n < 15 or (expected["body"] >= 0).mean() > 0.03
        for how in HOW:
            assert scene.cast(how, rays).tobytes() == expected.tobytes(), how


@pytest.mark.full
def test_scenes_give_the_bits_of_single_casts_for_a_hundred_thousand_rays(library, random):
    for n in (16, 40, 64) * 4:
        bodies = random_scene(random, n)
        scene = Scene(library, bodies)
        rays = scene_rays(random, bodies, 10_000)
        expected = scene.cast_by_force(rays)
        for how in HOW:
            assert scene.cast(how, rays).tobytes() == expected.tobytes(), how


def bundles(random, bodies, n):
    """``n`` times 16 rays that begin at one point with one mask: fans, lines to bodies, rays of all lengths; some along
    axes, without length, or not finite."""
    origin = np.where(random.random((n, 1)) < 0.3, bodies.position[random.integers(0, len(bodies), n)], 0)
    origin = origin + random.uniform(-9, 9, (n, 3)) * random.choice([0, 1e-3, 1], (n, 1))
    kind = random.integers(0, 4, n)
    turn = random.uniform(0, 6, (n, 1)) + np.linspace(0, 1, 16) * random.choice([0.1, 2.9, 3.1, 6], (n, 1))
    fan = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)], 2)
    to_bodies = bodies.position[random.integers(0, len(bodies), (n, 16))] - origin[:, None]
    axes = np.eye(3)[random.integers(0, 3, (n, 16))] * random.choice([-1, 1], (n, 16, 1))
    any_way = random.normal(size=(n, 16, 3)) * random.choice([1e-3, 1, 1e3], (n, 16, 1))
    chosen = np.stack([fan, to_bodies, axes, any_way])[kind, np.arange(n)]
    rays = records(RAY, 16 * n, direction=chosen.reshape(-1, 3))
    rays["origin"] = np.repeat(origin, 16, 0)
    alike = random.choice([0.0, 1.0, 7.0, 18.0, np.inf], n)
    rays["reach"] = np.where(np.repeat(kind == 0, 16), np.repeat(alike, 16), random.choice([1, 3, np.inf], 16 * n))
    rays["reach"][np.repeat(kind == 1, 16)] = 1
    rays["mask"] = np.repeat(random.choice([EVERYTHING, 1, 2], n), 16)
    rays["ignored"] = np.repeat(random.integers(-1, len(bodies), n), 16)
    rays["ignored_too"] = np.where(random.random(16 * n) < 0.5, -1, random.integers(0, len(bodies), 16 * n))
    odd = random.random(16 * n) < 0.02
    rays["direction"][odd] = random.choice([0, np.nan, np.inf, 1e30], (odd.sum(), 1))
    return rays


@pytest.mark.parametrize("n", [16, 37, 64])
def test_rays_from_one_point_give_the_bits_of_single_casts(library, random, n):
    """What leaves out shapes for a bundle leaves out none that a ray meets."""
    for _ in range(3):
        bodies = random_scene(random, n)
        plane = bodies.kind == PLANE
        bodies.rotation[plane | (random.random(n) < 0.4)] = STILL  # boxes along the axes
        bodies.position[plane, 2] = -7  # below most of them, or most rays begin in it
        scene = Scene(library, bodies)
        rays = bundles(random, bodies, 100)
        expected = scene.cast_by_force(rays)
        assert 0.1 < (expected["body"] >= 0).mean() < 0.95
        assert scene.cast("in_packets", rays).tobytes() == expected.tobytes()
        sights = records(SIGHT, len(rays), start=rays["origin"], end=rays["origin"] + rays["direction"])
        sights["a"], sights["b"], sights["mask"] = rays["ignored"], rays["ignored_too"], rays["mask"]
        singly, in_packets, by_lanes = scene.see(sights)
        assert (singly == in_packets).all() and (singly == by_lanes).all() and 0.02 < singly.mean() < 0.98


@pytest.mark.full
def test_rays_from_one_point_touch_what_they_touch(library, random):
    """Boxes that just touch a ray, its end, or the plane behind which a fan sees nothing; at every scale."""
    for scale in (1e-3, 1.0, 1e3):
        centre, half = np.round(random.uniform(-8, 8, (48, 3))), random.integers(1, 4, (48, 3)) / 2
        bodies = Bodies(np.full(48, BOX), half * scale, centre * scale, [STILL] * 48)
        scene = Scene(library, bodies)
        corner = (centre + half * random.choice([-1, 0, 1], (48, 3)))[random.integers(0, 48, (4000, 16))]
        origin = np.round(2 * random.uniform(-9, 9, (4000, 1, 3))) / 2
        rays = records(RAY, 64_000, direction=((corner - origin) * scale).reshape(-1, 3))
        rays["origin"] = np.repeat(origin[:, 0] * scale, 16, 0)
        rays["reach"] = np.where(random.random(64_000) < 0.5, 1, np.inf)
        expected = scene.cast_by_force(rays)
        assert (expected["body"] >= 0).mean() > 0.8
        assert scene.cast("in_packets", rays).tobytes() == expected.tobytes()


def eyes_of(random, bodies, eyes):
    """Fans ``[eyes]``, most about z, and lines of sight ``[eyes, 20]`` to bodies, from the eye or from elsewhere."""
    n = len(bodies)
    own = random.integers(0, n, eyes)
    inside = random.random((eyes, 1)) < 0.5
    turn = random.uniform(-np.pi, np.pi, eyes) / 2
    fans = records(FAN, eyes, axis=(0, 0, 1), forward=(0, 1, 0), ignored=np.where(inside[:, 0], own, -1))
    fans["origin"] = np.where(inside, bodies.position[own], random.uniform(-9, 9, (eyes, 3)))
    fans["rotation"][:, 0], fans["rotation"][:, 3] = np.cos(turn), np.sin(turn)
    tilted = random.random(eyes) < 0.2
    fans["rotation"][tilted] = random.normal(size=(tilted.sum(), 4))  # of any length
    fans["reach"] = random.choice([0.0, 2.0, 18.0, np.inf], eyes)
    fans["mask"] = random.choice([EVERYTHING, 1, 2], eyes)
    other = random.integers(0, n, (eyes, 20))
    sights = records(SIGHT, 20 * eyes).reshape(eyes, 20)
    sights["start"], sights["end"] = fans["origin"][:, None], bodies.position[other]
    sights["a"], sights["b"], sights["mask"] = fans["ignored"][:, None], other, fans["mask"][:, None]
    odd = random.random((eyes, 20)) < 0.1
    sights["start"][odd] = random.uniform(-9, 9, (odd.sum(), 3))
    sights["end"][random.random((eyes, 20)) < 0.1, :2] = 0
    sights["end"][random.random((eyes, 20)) < 0.02, 0] = np.nan
    above = random.random((eyes, 20)) < 0.1  # along z
    sights["end"][above, :2] = sights["start"][above, :2]
    return fans, sights


def check_eyes(library, random, n, eyes):
    bodies = random_scene(random, n)
    plane = bodies.kind == PLANE
    bodies.rotation[plane | (random.random(n) < 0.4)] = STILL
    bodies.position[plane, 2] = -7
    scene = Scene(library, bodies)
    fans, sights = eyes_of(random, bodies, eyes)
    hits, clear = scene.look(fans, 30, sights, by_lanes=False)
    found, free = scene.look(fans, 30, sights, by_lanes=True)
    assert hits.tobytes() == found.tobytes() and (clear == free).all()
    assert hits[0].tobytes() == scene.lidar(30, fans[:1])[1].tobytes()
    assert (clear.reshape(-1) == scene.see(sights.reshape(-1))[0]).all()
    return (hits["body"] >= 0).mean(), clear.mean()


@pytest.mark.parametrize("n", [1, 31, 33, 64])
def test_eyes_see_side_by_side_what_they_see_one_by_one(library, random, n):
    """Sectors leave out no shape that a ray meets: the bits of packets, also in several passes of eyes."""
    means = np.mean([check_eyes(library, random, n, eyes) for eyes in (1, 5, 30)], 0)
    assert n == 1 or ((means > 0.1) & (means < 0.95)).all()


@pytest.mark.full
def test_many_eyes_see_side_by_side_what_they_see_one_by_one(library, random):
    for n in (8, 29, 32, 48, 64) * 20:
        check_eyes(library, random, n, 40)


def touching(random, scale, offset, n):
    """Boxes on a lattice, and rays from points of it to corners of boxes, so that most rays just touch something."""
    centre, half = np.round(random.uniform(-8, 8, (48, 3))), random.integers(1, 4, (48, 3)) / 2
    corner = (centre + half * random.choice([-1, 0, 1], (48, 3)))[random.integers(0, 48, n)]
    origin = np.round(2 * random.uniform(-9, 9, (n, 3))) / 2
    rays = records(RAY, n, origin=origin * scale + offset, direction=(corner - origin) * scale)
    rays["reach"] = np.where(random.random(n) < 0.5, 1, np.inf)
    return Bodies(np.full(48, BOX), half * scale, centre * scale + offset, [STILL] * 48), rays


def check_sectors(library, bodies, rays):
    """A ray that meets a box looks at it, whatever the eye's reach; returns the share of boxes that rays look at."""
    scene = Scene(library, bodies)
    pairs = np.repeat(np.arange(len(rays)), len(bodies)), np.tile(np.arange(len(bodies)), len(rays))
    ray = rays[pairs[0]]
    meets = cast_each(library, bodies.chosen(pairs[1]), ray["origin"], ray["direction"], ray["reach"])["body"] == 0
    meets = meets.reshape(len(rays), len(bodies))
    size = np.linalg.norm(rays["direction"].astype(f64), axis=1)
    for reach in (np.full(len(rays), np.inf), size, 0.5 * size):
        looks = scene.sectors(rays, np.minimum(reach, 1e18))
        assert (looks | ~meets).all()
    return meets.mean(), looks.mean()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_sectors_leave_out_no_box_that_a_ray_touches(library, random, scale):
    meets, looks = check_sectors(library, *touching(random, scale, 0.0, 400))
    assert 0.02 < meets < looks < 0.35


@pytest.mark.full
@pytest.mark.parametrize("scale", [1e-36, 1e-18, 1e-9, 1e-3, 0.3, 1.0, 1e3, 1e9, 1e18, 1e36])
@pytest.mark.parametrize("offset", [0.0, 1e-2, 1e2, 1e5])
def test_sectors_leave_out_no_box_at_any_scale(library, random, scale, offset):
    """Also with places that rounding moves, and with directions of odd lengths, along axes and nearly so."""
    for _ in range(5):
        bodies, rays = touching(random, scale, offset, 1000)
        check_sectors(library, bodies, rays)
        lengths = random.choice([1e-30, 1e-12, 1.0, 1e12, 1e30], (1000, 1))
        along = np.where(random.random((1000, 3)) < 0.3, random.choice([0.0, -0.0, 1e-30, 1e-8], (1000, 3)), 1.0)
        with np.errstate(over="ignore"):
            rays["direction"] = rays["direction"] * lengths * along
        rays["reach"] = random.choice([1.0, 1e10, np.inf], 1000)
        check_sectors(library, bodies, rays)


def test_a_scene_without_bodies(library):
    scene = Scene(library, Bodies([], np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 4))))
    rays = records(RAY, 20, direction=(0, 0, 1), reach=5)
    for how in HOW:
        hits = scene.cast(how, rays)
        assert (hits["body"] == -1).all() and (hits["distance"] == 5).all()
    assert scene.see(records(SIGHT, 20, end=(1, 0, 0))).all()


@pytest.mark.parametrize("by_lanes", [False, True])
def test_a_scene_reports_bodies_without_room(library, random, by_lanes):
    """And leaves it out: more bodies than places, more faces than it holds."""
    bodies = random_bodies(random, 80, 8.0, [HULL])
    scene = Scene(library, bodies, by_lanes)
    faces = np.array([len(bodies.faces(i)) for i in range(80)])
    assert scene.wanted[0] == 80 and scene.wanted[1] == faces[:64].sum() > 512
    first = int((faces.cumsum() <= 512).argmin())  # the first hull that does not fit
    rays = records(RAY, 64, origin=bodies.position[:64], direction=(0, 0, 1), reach=0)
    assert (scene.cast("singly", rays)["body"][:first] >= 0).all()
    alone = records(RAY, 1, origin=bodies.position[first], direction=(0, 0, 1), reach=0)
    assert scene.cast("singly", alone)["body"][0] != first


def test_relabelled_bodies_are_hit_at_the_same_distance(library, random):
    bodies = random_scene(random, 40)
    order = random.permutation(40)
    rays = scene_rays(random, bodies, 2000)
    rays["ignored"] = rays["ignored_too"] = -1
    hits = Scene(library, bodies).cast("in_packets", rays)
    others = Scene(library, bodies.chosen(order)).cast("in_packets", rays)
    assert (hits["distance"].view(np.int32) == others["distance"].view(np.int32)).all()
    found = (hits["body"] >= 0) & (hits["distance"] > 0)  # of bodies around the origin, the first
    places = bodies.position[hits["body"][found]], bodies.position[order[others["body"][found]]]
    assert found.mean() > 0.05 and (places[0] == places[1]).all()


def test_lines_of_sight(library, random):
    """The line between two points is clear if a ray from one finds nothing before the other."""
    bodies = random_scene(random, 30, (SPHERE, CAPSULE, BOX, HULL))
    scene = Scene(library, bodies)
    n = 3000
    a, b = random.integers(0, 30, (2, n))
    sights = records(SIGHT, n, start=bodies.position[a], end=bodies.position[b], a=a, b=b)
    sights["end"][: n // 2] = random.uniform(-9, 9, (n // 2, 3))
    sights["b"][: n // 2] = -1
    rays = records(RAY, n, origin=sights["start"], direction=sights["end"] - sights["start"], reach=1)
    rays["ignored"], rays["ignored_too"] = sights["a"], sights["b"]
    clear = scene.cast("singly", rays)["body"] == -1
    assert 0.1 < clear.mean() < 0.9
    assert (scene.see(sights) == clear).all()


def test_a_body_behind_glass_is_seen(library):
    """Bodies of a group that the line does not look at do not stand in its way."""
    places = [(0, 0, 0), (3, 0, 0), (6, 0, 0)]
    scene = Scene(library, Bodies([BOX] * 3, np.full((3, 3), 0.5), places, [STILL] * 3, groups=[1, 2, 1]))
    sights = records(SIGHT, 2, start=(0, 0, 0), end=(6, 0, 0), a=0, b=2, mask=[EVERYTHING, 1])
    assert (scene.see(sights) == [False, True]).all()


def test_lidar_turns_from_forward(library):
    """Four posts around: beams 0, 1, 2, 3 of 4 look forward, left, back, right."""
    places = [(0, 5, 0), (-4, 0, 0), (0, -3, 0), (2, 0, 0)]
    scene = Scene(library, Bodies([SPHERE] * 4, np.full((4, 3), 0.5), places, [STILL] * 4))
    fan = records(FAN, 1, rotation=STILL, reach=4, axis=(0, 0, 1), forward=(0, 1, 0))
    for hits in scene.lidar(4, fan):
        assert hits["distance"] == pytest.approx([4, 3.5, 2.5, 1.5], abs=1e-5)
        assert hits["body"].tolist() == [-1, 1, 2, 3]
    fan["rotation"] = (np.sqrt(0.5), 0, 0, np.sqrt(0.5))  # a quarter to the left
    assert scene.lidar(4, fan)[0]["body"].tolist() == [1, 2, 3, -1]
    fan["first"], fan["step"] = -np.pi / 2, np.pi / 2
    assert scene.lidar(3, fan)[0]["body"].tolist() == [-1, 1, 2]


def test_lidar_is_a_cast_for_each_beam(library, random):
    bodies = random_scene(random, 36, (SPHERE, CAPSULE, BOX, HULL))
    scene = Scene(library, bodies)
    fan = records(FAN, 1, origin=(1, 2, 3), rotation=(0.8, 0, 0.6, 0), reach=18, axis=(0, 0, 1), forward=(0, 1, 0))
    in_packets, by_lanes = scene.lidar(30, fan)
    assert in_packets.tobytes() == by_lanes.tobytes()
    angle = 2 * np.pi * np.arange(30) / 30
    beams = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], 1) @ matrices(fan["rotation"])[0].T
    hits = scene.cast("singly", records(RAY, 30, origin=fan["origin"], direction=beams, reach=18))
    assert (hits["body"] == in_packets["body"]).mean() > 0.9
    same = hits["body"] == in_packets["body"]
    assert np.allclose(hits["distance"][same], in_packets["distance"][same], rtol=1e-4)
    assert (hits["body"] >= 0).any()
