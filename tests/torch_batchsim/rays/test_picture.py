"""torch_batchsim.rays.Picture: pixels that must have known colours; an environment that draws itself."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from support import folder_of, write
from torch_batchsim.train.run_folder.video import has_pictures

from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.draw import tiled
from torch_batchsim.physics.hulls import convex_hull, pack
from torch_batchsim.rays import Picture
from torch_batchsim.rays.picture import GROUND, PALETTE
from torch_batchsim.resolve.program import Program

ROOT = Path(__file__).resolve().parents[3]
SPHERE, CAPSULE, BOX, HULL, PLANE = range(5)
STILL = (1.0, 0.0, 0.0, 0.0)
RED, GREEN, BLUE, WHITE = 0xFF0000, 0x00FF00, 0x0000FF, 0xFFFFFF
FLAT = {"shadows": False, "ambient": 1.0, "samples": 1, "width": 64, "height": 48}  # what faces up has its own colour


def bodies(kind, position, size=(0.5, 0.5, 0.5), rotation=STILL, hull=0):
    """An archetype's columns, as ``render`` gets them; one kind and size for all."""
    n = len(position)
    return {
        "physics.Pose.position": np.array(position, np.float32).reshape(n, 3),
        "physics.Pose.rotation": np.array([rotation] * n, np.float32).reshape(n, 4),
        "physics.Shape.kind": np.full(n, kind, np.int32),
        "physics.Shape.hull": np.full(n, hull, np.int32),
        "physics.Shape.size": np.array([size] * n, np.float32).reshape(n, 3),
    }


def world(**archetypes):
    return {f"{table}.{name}": column for table, columns in archetypes.items() for name, column in columns.items()}


def number(pixel):
    return int(pixel[0]) << 16 | int(pixel[1]) << 8 | int(pixel[2])


def close_to(pixel, colour, bright=1.0, error=1.6):
    parts = np.array([colour >> 16 & 255, colour >> 8 & 255, colour & 255])
    return np.abs(pixel.astype(float) - bright * parts).max() < error


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eye": (0, 0, 0)}, "must be different points"),
        ({"eye": (0, 0)}, "eye must be three finite numbers"),
        ({"target": (0, 0, np.nan)}, "target must be three finite numbers"),
        ({"width": 0}, "width must be an integer from 1 to 4096, got 0"),
        ({"height": 5000}, "height must be an integer from 1 to 4096, got 5000"),
        ({"samples": 9}, "samples must be an integer from 1 to 8, got 9"),
        ({"field_of_view": 3.2}, "field_of_view must be more than 0 and less than pi"),
        ({"ambient": 2.0}, "ambient must be from 0 to 1, got 2.0"),
        ({"tile": 0.0}, "tile must be positive"),
        ({"light": (0, 0, 0)}, "light must be a direction"),
        ({"ground": np.inf}, "ground must be a finite height or None"),
        ({"sky": (0, -1, 0)}, "a colour must be an integer from 0 to 0xFFFFFF, got -1"),
        ({"colours": {"Box": 0x1000000}}, r"colours\['Box'\] must be from 0 to 0xFFFFFF"),
        ({"colours": {"Box": "red"}}, r"colours\['Box'\] must be integers"),
    ],
)
def test_values_out_of_range_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Picture(**{"eye": (5, 0, 0), "target": (0, 0, 0), **wrong})


def spots(*shapes, shown=(), **camera):
    """Where a picture is red, once with these shapes ``(method, arguments...)`` and once with bodies."""
    fixed = {**FLAT, "sky": (BLUE, BLUE, BLUE), "colours": {"Thing": RED}, **camera}
    scene = Picture(**fixed).scene(world(Thing=bodies(SPHERE, shown, (0.15,) * 3)))
    for method, *arguments in shapes:
        getattr(scene, method)(*arguments)
    return np.argwhere((scene.pixels[..., 0] > 128) & (scene.pixels[..., 2] < 128))


def test_shapes_in_space_are_where_bodies_are():
    for camera in ({"eye": (3, -8, 5), "target": (0, 0, 1)}, {"eye": (0, 0, 9), "target": (0, 0, 0)},
                   {"eye": (-6, 4, 2), "target": (1, 2, 0), "up": (1, 0, 1), "field_of_view": 0.6}):  # fmt: skip
        camera |= {"width": 160, "height": 120}
        for x, y, z in ((0.0, 0.0, 1.0), (0.7, 0.4, 0.3), (-0.8, 0.9, 0.5)):
            body = spots(shown=[(x, y, z)], **camera).mean(0)
            red, steps = (255, 0, 0), ((-0.1, 0, 0), (0.1, 0, 0))
            ends = [(x + a, y + b, z + c) for a, b, c in steps]
            corners = [(x + a, y + b, z) for a, b in ((-0.1, -0.1), (0.1, -0.1), (0.1, 0.1), (-0.1, 0.1))]
            for shape in (("path", ends, 3, red), ("beams", [(x, y, z), *ends], 3, red), ("area", corners, red),
                          ("label", (x, y, z), "#", red)):  # fmt: skip
                assert np.abs(spots(shape, **camera).mean(0) - body).max() < 0.8, shape


def test_what_is_behind_the_camera_is_not_drawn():
    camera, red = {"eye": (0, 0, 0), "target": (0, 4, 0)}, (255, 0, 0)
    behind = [(-1, -3, 0), (1, -3, 0), (0, -2, 1)]
    shapes = [(kind, behind, *width, red) for kind, *width in (("path", 2), ("beams", 2), ("area",))]
    shapes.append(("label", behind[0], "#", red))
    assert all(len(spots(shape, **camera)) == 0 for shape in shapes)
    for shape in (("path", [(0.5, -3, 0), (0.5, 3, 0)], 2, red), ("beams", [(0.5, 3, 0), (0.5, -3, 0)], 2, red)):
        columns = spots(shape, **camera)[:, 1]  # it comes in from the right
        assert columns.max() == 63 and 36 <= columns.min() <= 44
    floor = spots(("area", [(-9, -9, -1), (9, -9, -1), (9, 9, -1), (-9, 9, -1)], red), **camera)
    assert floor[:, 0].max() == 47 and 24 < floor[:, 0].min() < 35  # all below the horizon
    assert len(spots(("path", [(float("nan"), 3, 0), (0, 3, 0)], 2, red), **camera)) == 0


def test_shapes_in_space_stay_in_the_camera_s_part():
    scene = Picture(eye=(0, -4, 0), target=(0, 0, 0), **FLAT).scene(world(Thing=bodies(SPHERE, [])))
    scene.height += 10
    scene.area([(-9, 0, -9), (9, 0, -9), (9, 0, 9), (-9, 0, 9)], (255, 0, 0))
    scene.rectangle((0, 48), (64, 50), (0, 0, 255))
    red = scene.pixels[..., 0] > scene.pixels[..., 1]
    assert red[:48].all() and not red[48:].any()
    assert (scene.pixels[48:50] == (0, 0, 255)).all() and (scene.pixels[50:] == 255).all()


def test_unknown_archetypes_are_refused():
    for picture in (Picture((5, 0, 0), (0, 0, 0), follow="Bax"), Picture((5, 0, 0), (0, 0, 0), colours={"Bax": RED})):
        with pytest.raises(KeyError, match=r"names 'Bax', but archetypes with a pose and a shape are \['Box'\]"):
            picture(world(Box=bodies(BOX, [(0, 0, 0)])))


def test_the_palette_is_that_of_cameras():
    text = (ROOT / "csrc" / "rays" / "library.h").read_text()
    found = re.search(r"colours\[8\] = \{(.*?)\}", text).group(1)
    assert tuple(int(part, 16) for part in found.split(",")) == PALETTE


def test_pictures_beside_each_other():
    made = [np.full((2, 3, 3), i, np.uint8) for i in range(3)]
    grid = tiled(made, columns=2, gap=1)
    assert grid.shape == (5, 7, 3)
    assert grid[..., 0].tolist()[0] == [0, 0, 0, 255, 1, 1, 1]
    assert grid[..., 0].tolist()[3] == [2, 2, 2, 255, 255, 255, 255]
    assert tiled(made[:1], gap=9).shape == (2, 3, 3) and tiled(made * 5).shape == (5 * 2 + 4 * 4, 3 * 3 + 2 * 4, 3)
    for wrong in ([], [made[0], made[0][1:]]):
        with pytest.raises(ValueError, match="pictures must be of one size"):
            tiled(wrong)


@pytest.mark.full
def test_from_above_x_is_right_and_y_is_up():
    """What faces up under light from everywhere has its colour, but for haze; rows in turns, by a function."""
    there = world(
        Box=bodies(BOX, [(2, 0, 0), (-2, 0, 0), (0, 0, 0)]),
        Post=bodies(CAPSULE, [(0, 2, 0)], size=(0.5, 0.5, 0)),
        Coin=bodies(SPHERE, [(0, -2, 0)]),
    )
    blue = lambda seen: np.full(len(seen["Post.physics.Shape.kind"]), BLUE)  # noqa: E731
    colours = {"Box": [RED, GREEN], "Post": blue, "Coin": WHITE}
    pixels = Picture((0, 0, 10), (0, 0, 0), colours=colours, ground=-0.5, **FLAT)(there)
    assert pixels.shape == (48, 64, 3) and pixels.dtype == np.uint8
    per_metre = 48 / (2 * 10 * np.tan(0.4))
    middle = np.array([23.5, 31.5])

    def at(x, y):
        row, column = np.rint(middle + per_metre * np.array([-y, x])).astype(int)
        return pixels[row, column]

    assert close_to(at(2, 0), RED) and close_to(at(-2, 0), GREEN) and close_to(at(0, 0), RED)
    assert close_to(at(0, 2), BLUE, error=9) and close_to(at(0, -2), WHITE, error=9)  # nearly their highest points
    tones = {number(at(x, y)) for x, y in ((1.5, 1.5), (2.5, 1.5), (1.5, -1.5), (-1.5, 1.5))}
    assert len(tones) == 2  # checkered
    for tone, bright in zip(sorted(tones), (0.9, 1.0), strict=True):
        assert close_to(np.array([tone >> 16, tone >> 8 & 255, tone & 255]), GROUND, bright)


@pytest.mark.full
def test_light_from_the_side():
    """A face towards the light, a face away from it, sky above."""
    there = world(Box=bodies(BOX, [(0, 0, 0)], size=(1, 1, 1)))
    given = {**FLAT, "ambient": 0.4, "colours": {"Box": 0xC08040}, "sky": (BLUE, WHITE, RED)}
    front = Picture((0, -10, 0), (0, 0, 0), light=(0, -2, 0), **given)(there)
    assert close_to(front[24, 32], 0xC08040, 0.6 + 0.4 * 0.75)
    back = Picture((0, 10, 0), (0, 0, 0), light=(0, -2, 0), **given)(there)
    assert close_to(back[24, 32], 0xC08040, 0.4 * 0.75)
    assert (front[0, :, 2] == 255).all() and (front[0, :, 0] < 180).all()  # towards the zenith
    assert (front[-1, :, 0] == 255).all() and (front[-1, :, 2] < 180).all()
    upside_down = Picture((0, 10, 0), (0, 0, 0), up=(0, 0, -1), light=(0, -2, 0), **given)(there)
    assert np.abs(back.astype(int) - upside_down[::-1, ::-1]).max() <= 1


@pytest.mark.full
def test_shadows_and_smooth_edges():
    there = world(Box=bodies(BOX, [(0, 0, 2)]))
    given = {"colours": {"Box": RED}, "ground": 0.0, "light": (0, 0, 1), "width": 160, "height": 120, "tile": 1e6}
    lit = Picture((8, 0, 3), (0, 0, 0), shadows=False, samples=1, **given)(there).astype(int)
    dark = Picture((8, 0, 3), (0, 0, 0), shadows=True, samples=1, **given)(there).astype(int)
    less = (dark < lit - 20).all(axis=2)
    rows, columns = np.nonzero(less)
    assert 60 < less.sum() < 120 and abs(columns.mean() - 79.5) < 1 and rows.min() > 40  # a square metre under the box
    smooth = Picture((8, 0, 3), (0, 0, 0), samples=4, **given)(there).astype(int)
    assert smooth.shape == dark.shape
    assert len(np.unique(smooth.reshape(-1, 3), axis=0)) > len(np.unique(dark.reshape(-1, 3), axis=0))
    assert np.abs(smooth - dark).mean() < 8


@pytest.mark.full
def test_a_camera_that_follows():
    """Ahead of a row that looks along -x there is a red box; behind it, 2 m higher, is the eye."""
    quarter = (np.sqrt(0.5), 0, 0, np.sqrt(0.5))  # y becomes -x
    agent = bodies(SPHERE, [(7, 5, 1), (0, 0, 0)], rotation=quarter)
    there = world(Agent=agent, Box=bodies(BOX, [(3, 5, 1), (7, 9, 1)]))
    given = {**FLAT, "follow": "Agent", "colours": {"Box": [RED, GREEN], "Agent": None}}
    third_person = Picture((0, -4, 2), (0, 4, 0), **given)
    assert close_to(third_person(there)[24, 32], RED, 0.75)
    assert close_to(Picture((0, -4, 2), (0, 4, 0), turn=False, **given)(there)[24, 32], GREEN, 0.75)
    none = {name: column[:0] if name.startswith("Agent") else column for name, column in there.items()}
    assert third_person(none).shape == (48, 64, 3)  # the row has gone


@pytest.mark.full
def test_hulls_paint_and_unknown_shapes():
    points = [(x, y, z) for x in (-1, 1) for y, z in ((-1.5, -1), (1.5, -1), (1.5, 1))]
    records = pack([convex_hull(points)])
    there = world(
        Ramp=bodies(HULL, [(0, 0, 0)], size=(1, 1, 1), hull=1),
        Lost=bodies(HULL, [(0, 0, 5)], size=(1, 1, 1), hull=9),
        Coin={**bodies(BOX, [(4, 0, 0)]), "rays.Paint.colour": np.array([0xFFD700], np.uint32)},
    )
    there["physics.Hulls.hull"] = records.view(np.uint32).reshape(len(records), -1)
    pixels = Picture((0, 0, 20), (0, 0, 0), **{**FLAT, "field_of_view": 0.5})(there)
    assert close_to(pixels[24, 32 + 19], 0xFFD700)
    slope = 0.75 + 0.25 * 3 / np.sqrt(13)
    assert close_to(pixels[24, 32], PALETTE[0], slope)
    side = Picture((20, 0, 0), (0, 0, 0), **{**FLAT, "field_of_view": 0.3})(there)  # y to the right, the ramp rises
    ramp = np.array([[close_to(pixel, PALETTE[0], 0.75) for pixel in row] for row in side])
    assert ramp[:, 34:39].sum() > 2 * ramp[:, 18:23].sum() > 0


@pytest.mark.full
def test_the_tower_draws_itself(monkeypatch):
    """The example of docs/physics.md with the lines of docs/rays.md, which change nothing of what is simulated."""
    found = dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", (ROOT / "docs" / "physics.md").read_text(), re.DOTALL))
    page = (ROOT / "docs" / "rays.md").read_text()
    line = re.search(r"^    render = Picture\(.*?\)$", page, re.DOTALL | re.MULTILINE)
    drawn = found["tower.py"].replace("    start = TaskGraph", f"{line.group(0)}\n    start = TaskGraph", 1)
    folder = folder_of(found["tower.h"])  # test_physics_page.py builds it too
    write(folder / "tower.h", found["tower.h"])
    write(folder / "drawn_tower.py", "from torch_batchsim.rays import Picture\n" + drawn)
    monkeypatch.syspath_prepend(folder)
    try:
        tower = importlib.import_module("drawn_tower")
        plain = type("Tower", (tower.Tower,), {"render": None})
        assert generate(Program(tower.Tower()), Target()) == generate(Program(plain()), Target())
        env = gymnasium.make_vec("my_project/Tower-v0", num_envs=4, render_mode="rgb_array")
        assert env.metadata["render_modes"] == ["rgb_array"]
        env.reset(seed=0)
        for _ in range(30):
            env.step(torch.tensor([0, 3, 6, 9]))
        pictures = env.render()
        assert has_pictures(env) and (env.unwrapped.render_world(3) == pictures[3]).all()  # what --video of train takes
        assert len(pictures) == 4 and all(picture.shape == pictures[0].shape for picture in pictures)
        red = [(picture[..., 0] > 1.5 * picture[..., 2].astype(float)).sum() for picture in pictures]
        assert min(red) > 100  # the ball, the tower
        assert tiled(pictures).ndim == 3 and (pictures[0] != pictures[3]).any()
    finally:
        gymnasium.registry.pop("my_project/Tower-v0", None)
        sys.modules.pop("drawn_tower", None)
