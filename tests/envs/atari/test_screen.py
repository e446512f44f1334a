"""Views of pictures beside NumPy's, cv2's and ale-py's: colours, greys, the brighter of two frames, 84 x 84, stacks."""

from __future__ import annotations

import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_batchsim.envs import atari
from torch_batchsim.envs.atari.games import GAMES
from torch_batchsim.envs.atari.palette import palette
from torch_batchsim.envs.atari.screen import Palette

from torch_batchsim import Archetype, Component, Environment, Reward, Simulator, TaskGraph, between, boolean, u8

MOST = 250  # lines


class Choice(Component):
    none: u8 = between(0, 0)


class Picture(Component):
    pictures: u8[2, MOST, 160]


class View(Component):
    lines: u8
    pal: u8
    fills: boolean


class Rgb(Component):
    pixels: u8[MOST, 160, 3]


class Grey(Component):
    pixels: u8[MOST, 160]


class Stack(Component):
    frames: u8[4, 84, 84]
    newest: u8


class Small(Component):
    frames: u8[4, 84, 84]


class Screen(Environment):
    systems = "shown.h"
    include = (str(Path(atari.__file__).parent),)
    archetypes = [Archetype("Console", Choice, Picture, View, Rgb, Grey, Stack, Small, Reward, count=1)]
    resources = [Palette]
    step = TaskGraph("show")
    action, observation = "Console.Choice", "Console.Small"

    def resource_values(self) -> dict[str, Any]:
        return {"Palette.shades": palette()}


def shown(
    pictures: np.ndarray, lines: int, pal: bool = False, fills: bool = False, **run: Any
) -> dict[str, np.ndarray]:
    """Views after pictures ``[steps, 2, lines, 160]``, each of one step; they are padded by noise."""
    sim = Simulator(Screen(), 1, **{"num_threads": 1, **run})
    sim.reset()
    sim.tensor("Console.Picture.pictures")[:] = 77
    for name, value in (("lines", lines), ("pal", pal), ("fills", fills)):
        sim.tensor(f"Console.View.{name}")[:] = value
    for pair in pictures:
        sim.tensor("Console.Picture.pictures")[0, 0, :, :lines] = torch.from_numpy(pair)
        sim.step()
        sim.tensor("Console.View.fills")[:] = False
    rgb, grey = (sim.tensor(f"Console.{name}.pixels")[0, 0, :lines].numpy().copy() for name in ("Rgb", "Grey"))
    return {"rgb": rgb, "grey": grey, "small": sim.tensor("Console.Small.frames")[0, 0].numpy().copy()}


def drawn(seed: int, lines: int, steps: int = 1, noise: bool = False) -> np.ndarray:
    """Pictures as of a game: bands of a few lines, and objects that move from one frame to the next; or noise."""
    rng = np.random.default_rng(seed)
    if noise:
        return rng.integers(0, 256, (steps, 2, lines, 160), dtype=np.uint8)
    bands = np.repeat(rng.integers(0, 128, 40, dtype=np.uint8) * 2, rng.integers(1, 14, 40))[:lines]
    background = np.zeros((lines, 160), np.uint8)
    background[: len(bands)] = bands[:, None]
    pictures = np.tile(background, (steps, 2, 1, 1))
    for picture in pictures.reshape(-1, lines, 160):
        for _ in range(6):
            y, x = rng.integers(0, lines - 20), rng.integers(0, 150)
            picture[y : y + 12, x : x + 8] = rng.integers(0, 128) * 2
    return pictures


def overlaps(many: int, few: int) -> np.ndarray:
    """``[few, many]``: the share of each of ``many`` pixels in each of ``few`` that cover them, as whole numbers."""
    weights = np.zeros((few, many), np.int64)
    for small in range(few):
        for large in range(many):
            low = max(Fraction(small * many), Fraction(large * few))
            weights[small, large] = max(0, min((small + 1) * many, (large + 1) * few) - low)
    assert (weights.sum(1) == many).all()
    return weights


def area_mean(grey: np.ndarray) -> np.ndarray:
    """84 x 84, halves rounded up."""
    lines, columns = grey.shape
    sums = overlaps(lines, 84) @ grey.astype(np.int64) @ overlaps(columns, 84).T
    return ((2 * sums + lines * columns) // (2 * lines * columns)).astype(np.uint8)


@pytest.mark.parametrize("pal", [False, True])
@pytest.mark.parametrize("noise", [False, True])
def test_colours_and_greys_are_the_brighter_ones_of_two_frames(pal: bool, noise: bool) -> None:
    pair = drawn(1, 210, noise=noise)
    colours = palette()[int(pal)]
    both = np.maximum(colours[pair[0, 0]], colours[pair[0, 1]])
    views = shown(pair, 210, pal)
    assert (views["rgb"] == both[..., :3]).all() and (views["grey"] == both[..., 3]).all()


@pytest.mark.crossed
@pytest.mark.parametrize("lines", [210, 214, 220, 230, 250])
@pytest.mark.parametrize("noise", [False, True])
def test_the_small_picture_is_the_mean_of_areas(lines: int, noise: bool) -> None:
    pair = drawn(lines, lines, noise=noise)
    views = shown(pair, lines)
    assert (views["small"][3] == area_mean(views["grey"])).all()


@pytest.mark.parametrize("lines", [210, 214, 220, 230, 250])
def test_the_small_picture_is_cv2s_but_for_its_rounding(lines: int) -> None:
    cv2 = pytest.importorskip("cv2", reason="cv2 is not installed: small pictures are not compared with it")
    for noise in (False, True):
        views = shown(drawn(lines + 1, lines, noise=noise), lines)
        theirs = cv2.resize(views["grey"], (84, 84), interpolation=cv2.INTER_AREA)
        differences = np.abs(views["small"][3].astype(int) - theirs)
        assert differences.max() <= 1 and (differences > 0).mean() < 0.02


def test_extremes_do_not_overflow() -> None:
    brightest = int(palette()[0, ::2, 3].argmax()) * 2
    for lines in (210, 250):
        white = np.full((1, 2, lines, 160), brightest, np.uint8)
        assert (shown(white, lines)["small"][3] == palette()[0, brightest, 3]).all()
    assert (shown(np.zeros((1, 2, 210, 160), np.uint8), 210)["small"] == 0).all()


def test_a_stack_has_the_oldest_frame_first() -> None:
    pictures = drawn(5, 210, steps=6)
    apart = [shown(pair[None], 210)["small"][3] for pair in pictures]
    assert (shown(pictures, 210)["small"] == np.stack(apart[2:])).all()
    begun = shown(pictures[:2], 210)["small"]  # as ale-py's AtariVectorEnv does
    assert (begun == np.stack([np.zeros_like(apart[0]), np.zeros_like(apart[0]), apart[0], apart[1]])).all()
    filled = shown(pictures[:2], 210, fills=True)["small"]  # as OpenAI's, gymnasium's and EnvPool's do
    assert (filled == np.stack([apart[0], apart[0], apart[0], apart[1]])).all()


@pytest.mark.full
def test_executors_and_checked_builds_agree() -> None:
    pictures = drawn(6, 214, steps=2)
    expected = shown(pictures, 214)
    for run in ({"executor": "per_world"}, {"checks": True}):
        for name, view in shown(pictures, 214, **run).items():
            assert (view == expected[name]).all(), (run, name)
    assert zlib.crc32(expected["small"].tobytes()) == 594638225


@pytest.mark.full
@pytest.mark.parametrize("name", ["air_raid", "breakout", "carnival", "journey_escape", "ms_pacman", "pooyan"])
def test_colours_and_greys_are_ale_pys(name: str) -> None:
    module = pytest.importorskip("ale_py", reason="ale-py is not installed: colours are not compared with it")
    module.ALEInterface.setLoggerMode(module.LoggerMode.Error)
    console = module.ALEInterface()
    console.setInt("random_seed", 1)
    console.loadROM(module.roms.get_rom_path(name))
    odd = False
    for frame in range(120):
        console.act(frame % 4)
        if frame % 20 == 19:
            indices = console.getScreen()
            odd |= bool((indices & 1).any())
            pair = np.stack([indices, indices])[None]
            views = shown(pair, len(indices), pal=GAMES[name].pal)
            assert (views["rgb"] == console.getScreenRGB()).all()
            assert (views["grey"] == console.getScreenGrayscale()).all()
    assert odd or name != "air_raid"  # a television that loses colours
