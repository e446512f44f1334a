"""Reports of a run: progress bar, scalars for trackers, learning curve as a picture and as text."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from tqdm import tqdm

from ..rollouts.clock import PARTS
from .tracking import Tracker

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = list[tuple[int, float]]
"""Points of a learning curve: steps taken, and the mean over rows of the return of their latest episodes, or the mean
score of the episodes that ended since the point before."""

CURVE_STARTS = "when every world has ended an episode"
"""Before that only the short episodes have ended, and a mean would be theirs."""

SECONDS_BETWEEN_READS = 0.25
SECONDS_BETWEEN_LINES = 10.0
"""Of progress, where the output is no terminal, such as a file."""


class Report:
    """Collects metrics as tensors and reads them a few times a second, so that the device is not held up."""

    def __init__(
        self,
        trackers: Sequence[Tracker],
        total_steps: int,
        start_step: int,
        curve: Curve,
        measure: str = "return",
        shown: bool = True,
    ) -> None:
        self.trackers, self.curve, self.measure, self.shown = trackers, curve, measure, shown
        self.bar = tqdm(
            total=total_steps,
            initial=start_step,
            unit=" steps",
            unit_scale=True,
            dynamic_ncols=True,
            disable=None if shown else True,  # None: off where the output is no terminal
        )
        self.start_step, self.start_time = start_step, time.perf_counter()
        self.last_read = self.last_line = self.start_time
        self.pending: list[tuple[int, float, dict[str, Tensor]]] = []

    def log(self, step: int, metrics: dict[str, Tensor]) -> bool:
        """Takes the metrics of one iteration, tensors `[]`, after `step` steps of all rows.

        True if this was a time to read them, which waits for the device.
        """
        now = time.perf_counter()
        self.pending.append((step, now, metrics))
        if now - self.last_read <= SECONDS_BETWEEN_READS:
            return False
        self.read()
        self.last_read = time.perf_counter()
        return True

    def read(self, write: bool = True) -> None:
        """Extends the curve by pending metrics, with one transfer from the device, and writes them out."""
        if not self.pending:
            return
        device = self.pending[-1][2]["charts/episodic_return"].device
        table = torch.stack(
            [torch.stack([value.to(device) for value in metrics.values()]) for _, _, metrics in self.pending]
        ).tolist()
        rows: list[tuple[int, dict[str, float]]] = []
        for (step, at, metrics), values in zip(self.pending, table, strict=True):
            scalars = dict(zip(metrics, values, strict=True))
            scalars["charts/SPS"] = (step - self.start_step) / (at - self.start_time)
            value = scalars.get("charts/score", scalars["charts/episodic_return"])
            if math.isfinite(value):
                self.curve.append((step, value))
            rows.append((step, scalars))
        self.pending.clear()  # whatever becomes of trackers, the curve of the checkpoint has no gap
        for step, scalars in rows if write else ():
            for tracker in self.trackers:
                tracker.scalars(step, scalars)
        shown = [f"{self.measure} {self.curve[-1][1]:.1f}"] if self.curve else []
        shown += [f"{100 * scalars[f'time/{part}']:.0f} % {part}" for part in PARTS if f"time/{part}" in scalars]
        self.bar.set_postfix_str(", ".join(shown), refresh=False)
        self.bar.update(step - self.bar.n)
        now = time.perf_counter()
        if self.shown and self.bar.disable and now - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = now
            speed = f"{scalars['charts/SPS']:,.0f} steps/s"
            print(f"{step:,} of {self.bar.total:,} steps", speed, *shown, sep=", ", flush=True)

    def forget(self) -> None:
        """Leaves pending metrics to the curve only, because they cannot be written."""
        self.read(write=False)

    def close(self) -> None:
        self.read()
        self.bar.close()


def steps_axes(**texts: str) -> Axes:
    """Axes for curves over steps, in a figure that needs no display; texts are `title` and `ylabel`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # only here: its import takes a third of a second
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot(xlabel="steps", **texts)


def save_curves(axes: Axes, path: Path, steps: int | None = None) -> None:
    """Writes the figure once all is drawn, over so many steps, or those of the curves."""
    axes.set_xlim(0, steps)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.locator_params(axis="x", nbins=6)  # room for numbers of seven digits
    axes.grid(alpha=0.3)
    axes.figure.savefig(path)


def draw_random(axes: Axes, random: float | None) -> None:
    """A dashed line at the mean of the random policy, if known."""
    if random is not None:
        axes.axhline(random, color="0.35", linewidth=1, linestyle="--", label=f"random policy: {random:.1f}")


def draw_curve(
    curve: Curve,
    evaluation: float | None,
    title: str,
    path: Path,
    measure: str = "return",
    random: float | None = None,
    steps: int | None = None,
) -> None:
    """Writes the learning curve as a PNG, the mean of the evaluation at its end; needs no display.

    `measure` is "return" or "score". A dashed line shows the mean of the `random` policy. `steps` are those that were
    taken: where the curve has no point, the picture says why.
    """
    axes = steps_axes(title=title, ylabel=f"mean {measure}")
    if curve:
        axes.plot([step for step, _ in curve], [value for _, value in curve], label="training")
    else:
        axes.text(0.5, 0.6, NO_CURVE, horizontalalignment="center", transform=axes.transAxes)
    if curve and evaluation is not None:
        axes.plot(curve[-1][0], evaluation, "o", color="C1", label=f"evaluation: {evaluation:.1f}")
    draw_random(axes, random)
    if curve or random is not None:
        axes.legend(loc="best")
    save_curves(axes, path, None if curve else steps or None)


NO_CURVE = "no curve: not every world has ended an episode"


def text_curve(curve: Curve, width: int = 60, height: int = 8, random: float | None = None) -> str:
    """The learning curve for a terminal, `height` lines of at most `width` columns, each column a mean.

    A line of dashes shows the mean of the `random` policy.
    """
    if not curve:
        return NO_CURVE
    columns = min(width, len(curve))
    cuts = [i * len(curve) // columns for i in range(columns + 1)]
    means = [sum(value for _, value in curve[a:b]) / (b - a) for a, b in pairwise(cuts)]
    shown = means if random is None else [*means, random]
    low, high = min(shown), max(shown)
    spread = high - low
    if spread > 1e-6 * max(abs(low), abs(high)):
        levels = [round((value - low) / spread * (height - 1)) for value in shown]
        decimals = max(1, 1 - math.floor(math.log10(spread)))  # so that the two labels differ
        labels = {0: f"{low:.{decimals}f}", height - 1: f"{high:.{decimals}f}"}
    else:
        levels = [height // 2] * len(shown)
        labels = {height // 2: f"{high:.1f}"}
    margin = max(10, *map(len, labels.values()))
    dashes = None if random is None else levels.pop()
    lines = []
    for level in reversed(range(height)):
        marks = "".join("*" if at == level else "-" if level == dashes else " " for at in levels)
        end = "- random policy" if level == dashes else ""
        lines.append(f"{labels.get(level, ''):>{margin}} |{marks}{end}".rstrip())
    first, last = f"{curve[0][0]:,}", f"{curve[-1][0]:,}"
    ends = first + last.rjust(max(columns - len(first), len(last) + 1)) if len(curve) > 1 else last
    return "\n".join([*lines, f"{' ' * margin} +{'-' * columns}", f"{'steps':>{margin}}  {ends}"])


def show_picture(path: Path) -> str | None:
    """Opens a window with the picture until it is closed; returns a sentence where a display is missing."""
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not has_display:
        return "--show: no display was found; open the PNG instead"
    from matplotlib import pyplot  # only here: it looks for a display

    pyplot.figure(figsize=(7, 4), layout="constrained")
    pyplot.imshow(pyplot.imread(path))
    pyplot.axis("off")
    pyplot.show()
    return None
