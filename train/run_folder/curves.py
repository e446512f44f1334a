"""Learning curves of several runs: runs that differ only in their seed are a mean and a band."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torch_batchsim.command_line import RUN_FLAGS

from ..base import toml
from ..base.errors import UsageError
from .report import draw_random, save_curves, steps_axes

MEASURES = ("charts/score", "charts/episodic_return")
NOT_LEARNING = ["seed", "seeds", "threads", "tune", "track", *RUN_FLAGS]
NOT_LEARNING += ("checkpoint_every", "keep", "keep_best", "evaluate_every", "stop_at", "eval_episodes")
NOT_LEARNING += ("eval_stochastic",)
"""Settings in a config.toml by which runs of the same learning may differ."""


@dataclass(frozen=True)
class Run:
    """A run's folder: its environment and the settings in its config.toml by which it learned, without the seed, and
    columns of its metrics.csv."""

    folder: Path
    settings: dict[str, Any]
    columns: dict[str, np.ndarray]

    def curve(self, measure: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps and numbers, float64 `[n]` each, from the first that is there."""
        known = np.isfinite(self.columns[measure])
        return self.columns["step"][known], self.columns[measure][known]


@dataclass(frozen=True)
class Band:
    """Runs of the same settings: steps, and mean, least and greatest of the runs at them, float64 `[n]` each."""

    label: str
    runs: int
    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def read(folder: Path) -> Run:
    """Raises ValueError where files of a run are missing or damaged."""
    try:
        settings = toml.read(folder / "config.toml")
        env = json.loads((folder / "run.json").read_text("utf-8"))["env"]
        with open(folder / "metrics.csv", newline="") as file:
            names, *rows = csv.reader(file)
    except (OSError, ValueError, KeyError, UsageError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        raise ValueError(f"{folder} is not the folder of a run: {reason}") from error
    settings |= {f"env.{name}": value for name, value in settings.pop("env", {}).items()} | {"env": env}
    settings = {name: value for name, value in settings.items() if name not in NOT_LEARNING}
    cells = [[float(cell or "nan") for cell in row] for row in rows if len(row) == len(names)]
    columns = dict(zip(names, np.array(cells, dtype=np.float64).reshape(-1, len(names)).T, strict=True))
    return Run(folder, settings, columns)


def runs_in(folder: Path) -> list[Path]:
    """The folder itself, or those in it if it is of several seeds."""
    inside = [each.parent for each in folder.glob("seed*/metrics.csv")]
    return inside if inside and not (folder / "metrics.csv").exists() else [folder]


def bands(runs: Sequence[Run], measure: str) -> list[Band]:
    """Runs of the same settings together, named by the settings in which they differ from others.

    Steps are those of the first run of each, where all of them have a number; between their own, others are
    interpolated. Raises ValueError where a run has no number.
    """
    groups: list[list[Run]] = []
    for run in runs:
        group = next((group for group in groups if group[0].settings == run.settings), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    names = {name for group in groups for name in group[0].settings}
    differ = [n for n in sorted(names) if len({repr(group[0].settings.get(n)) for group in groups}) > 1]
    found = []
    for group in groups:
        curves = [run.curve(measure) for run in group]
        for run, (steps, _) in zip(group, curves, strict=True):
            if not len(steps):
                raise ValueError(f"{run.folder} has no {measure}: no world, or not every one, has ended an episode")
        first, last = max(steps[0] for steps, _ in curves), min(steps[-1] for steps, _ in curves)
        steps = curves[0][0]
        steps = steps[(steps >= first) & (steps <= last)]
        values = np.stack([np.interp(steps, *curve) for curve in curves])
        named = ", ".join(f"{name}={group[0].settings[name]}" for name in differ if name in group[0].settings)
        label = named or (group[0].folder.name if len(group) == 1 else "")
        found.append(Band(label, len(group), steps, values.mean(0), values.min(0), values.max(0)))
    return found


def draw(found: Sequence[Band], measure: str, path: Path, title: str = "", random: float | None = None) -> None:
    """Writes the picture; needs no display. A dashed line shows what the `random` policy reaches."""
    axes = steps_axes(title=title, ylabel=measure.rpartition("/")[2].replace("episodic_", "mean ").replace("_", " "))
    for number, band in enumerate(found):
        many = f"{band.runs} runs, least to greatest" if band.runs > 1 else ""
        label = ": ".join(filter(None, (band.label, many)))
        (line,) = axes.plot(band.steps, band.mean, color=f"C{number % 10}", label=label)
        if band.runs > 1:
            axes.fill_between(band.steps, band.low, band.high, color=line.get_color(), alpha=0.2, linewidth=0)
    draw_random(axes, random)
    axes.legend(loc="best", fontsize="small")
    save_curves(axes, path)
