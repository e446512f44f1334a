"""The pictures of the README, made anew: ``pictures.py hideseek``, ``worlds``, or ``curves RUNS...``.

They need ``pip install -e ".[train]"``. ``curves`` draws a panel for each environment of the runs given, which are
folders of ``python -m torch_batchsim.train``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib import pyplot
from PIL import Image
from torch_batchsim.train.run_folder import curves

import torch_batchsim
from torch_batchsim.draw import tiled
from torch_batchsim.run.world_state import WorldState

DOCS = Path(__file__).parents[2] / "docs"
ROWS = (
    ["hideseek"], ["ant"], ["overcooked"], ["hanabi"], ["cartpole"], ["taggrid", "tagcontinuous"],
    ["minatar-breakout", "minatar-spaceinvaders", "minatar-seaquest", "minatar-asterix"], ["swarm"],
)  # fmt: skip
ACROSS, CELL, GAP = 8, (146, 100), 4


def played(name: str, worlds: int, steps: int, seed: int, **options: Any) -> Any:
    """An environment after random actions."""
    env = gymnasium.make_vec(
        torch_batchsim.environment_ids()[name], num_worlds=worlds, render_mode="rgb_array", **options
    )
    env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(steps):
        env.step(env.sample_actions())
    return env


def hideseek() -> np.ndarray:
    """The two of many worlds in which most is seen: one with cones and lines of sight, one with beams of the lidars."""
    sim = played("hideseek", 128, 130, 5, camera="aside").unwrapped.sim
    scenes = [sim.environment.scene(WorldState(sim, world)) for world in range(128)]
    seen = [sum(kind == "path" for kind, *_ in scene.shapes) for scene in scenes]
    first, second = (scenes[i] for i in np.argsort(seen)[::-1][:2])
    other = {"Sight": False, "Lidar": True}
    second.shapes = [(*shape[:2], other.get(shape[1], shape[2])) if shape[0] == "layer" else shape
                     for shape in second.shapes]  # fmt: skip
    return tiled([first.pixels, second.pixels], columns=2)


def worlds() -> np.ndarray:
    """Eight worlds of each of eight environments."""
    cells = []
    for names in ROWS:
        options = {"camera": "aside"} if names == ["hideseek"] else {}
        each = ACROSS // len(names)
        for name in names:
            env = played(name, each, 60, 1, **options).unwrapped
            cells += [_in_cell(env.render_world(world)) for world in range(each)]
    return tiled(cells, columns=ACROSS, gap=GAP)


def _in_cell(picture: np.ndarray) -> np.ndarray:
    """A picture in the middle of a cell of its own background."""
    height, width = picture.shape[:2]
    scale = min(CELL[0] / width, CELL[1] / height)
    small = Image.fromarray(picture).resize((round(width * scale), round(height * scale)), Image.Resampling.BOX)
    cell = Image.new("RGB", CELL, tuple(picture[-1 if height > width else 0, 0]))
    cell.paste(small, ((CELL[0] - small.width) // 2, (CELL[1] - small.height) // 2))
    return np.asarray(cell)


def write_curves(folders: Sequence[Path], path: Path) -> None:
    """A panel for each environment."""
    runs = [curves.read(run) for folder in folders for run in curves.runs_in(folder)]
    names = list(dict.fromkeys(run.settings["env"] for run in runs))
    figure, panels = pyplot.subplots(1, len(names), figsize=(3.0 * len(names), 2.3), dpi=100, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        own = [run for run in runs if run.settings["env"] == name]
        measure = next(one for one in curves.MEASURES if one in own[0].columns)
        for band in curves.bands(own, measure):
            panel.plot(band.steps / 1e6, band.mean)
            panel.fill_between(band.steps / 1e6, band.low, band.high, alpha=0.25, linewidth=0)
        seeds = f", {len(own)} seeds" if len(own) > 1 else ""
        panel.set_title(name.rpartition("/")[2].removesuffix("-v0") + seeds, fontsize="medium")
        panel.set_xlabel("million steps")
    panels[0, 0].set_ylabel("mean return")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Write one of the pictures into docs/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", choices=("hideseek", "worlds", "curves"))
    parser.add_argument("runs", nargs="*", type=Path, help="of curves")
    options = parser.parse_args()
    if options.picture == "curves":
        path = DOCS / "curves.png"
        write_curves(options.runs, path)
    else:
        picture, path = (hideseek(), DOCS / "hideseek.png") if options.picture == "hideseek" else (
            worlds(), DOCS / "gallery.png"
        )  # fmt: skip
        image = Image.fromarray(picture).quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        image.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
