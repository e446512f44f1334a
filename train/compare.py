"""Draws the learning curves of several runs in one picture; runs that differ only in their seed are a mean and a band.

``python -m torch_batchsim.train.compare runs/a runs/b --output curves.png``
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torch_batchsim.base.extras import command_needs
from torch_batchsim.command_line import Parser, UsageError

PROGRAM = "python -m torch_batchsim.train.compare"
MEASURES = ("charts/score", "charts/episodic_return")
NOT_LEARNING = "seed seeds threads executor tune log watchdog track".split()
NOT_LEARNING += ("checkpoint_every", "eval_episodes", "eval_stochastic")
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
    """Raises ValueError where files are not there or not those of a run."""
    from .commands.options import UsageError
    from .commands.settings_file import read as read_settings

    try:
        settings, of_env = read_settings(folder / "config.toml")
        env = json.loads((folder / "run.json").read_text())["env"]
        with open(folder / "metrics.csv", newline="") as file:
            names, *rows = csv.reader(file)
    except (OSError, ValueError, KeyError, UsageError) as error:
        told = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        raise ValueError(f"{folder} is not the folder of a run: {told}") from error
    settings |= {"env": env, **{f"env.{name}": value for name, value in of_env.items()}}
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
        told = ", ".join(f"{name}={group[0].settings[name]}" for name in differ if name in group[0].settings)
        label = told or (group[0].folder.name if len(group) == 1 else "")
        found.append(Band(label, len(group), steps, values.mean(0), values.min(0), values.max(0)))
    return found


def draw(found: Sequence[Band], measure: str, path: Path, title: str = "", random: float | None = None) -> None:
    """Writes the picture; needs no display. A dashed line shows what the `random` policy reaches."""
    from .run_folder.report import draw_random, save_curves, steps_axes

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, and print the last numbers. Raises UsageError."""
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs, or of several seeds")
    parser.add_argument("--output", type=Path, default=Path("curves.png"), help="the picture (curves.png)")
    parser.add_argument("--measure", help="a column of metrics.csv; the score, or where there is none the return")
    options = parser.parse_args(arguments)
    try:
        folders = [folder for given in options.runs for folder in runs_in(given)]
        places = [folder.resolve() for folder in folders]
        if again := [str(folder) for n, folder in enumerate(folders) if places[n] in places[:n]]:
            raise ValueError(f"{', '.join(again)} would count twice: give each run once")
        runs = [read(folder) for folder in folders]
        shared = set.intersection(*(set(run.columns) for run in runs)) - {"step"}
        measure = options.measure or next((name for name in MEASURES if name in shared), "")
        if measure not in shared:
            wanted = measure or "a score or return"
            raise ValueError(f"not all runs have {wanted}; what all have is {', '.join(sorted(shared))}")
        found = bands(runs, measure)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        draw(found, measure, options.output)
    except OSError as error:
        raise UsageError(f"{options.output} cannot be written: {error.strerror or error}") from None
    except ValueError as error:  # a type of file that is not known
        raise UsageError(f"{options.output} cannot be written: {error}") from None
    for band in found:
        spread = f" ({band.low[-1]:.2f} to {band.high[-1]:.2f} of {band.runs} runs)" if band.runs > 1 else ""
        print(f"{band.mean[-1]:10.2f}{spread} after {int(band.steps[-1]):,} steps  {band.label}".rstrip())
    print(f"curves  {options.output}")


if __name__ == "__main__":
    command_needs("tyro", "tqdm", "tensorboard", "matplotlib", "PIL")
    main()
