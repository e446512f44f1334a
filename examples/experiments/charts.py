"""Line charts with logarithmic axes, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from torch_batchsim.base.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES, _MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")


@dataclass(frozen=True)
class Line:
    """Points ``(x, y, low, high)`` in the order of x; the chart is shaded between low and high."""

    label: str
    points: Sequence[tuple[float, float, float, float]]
    colour: int = 0  # the first, the second, ...
    style: int = 0  # drawn through, dashed, dotted, ...


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]


def draw(panels: Sequence[Panel], title: str, path: Path, columns: int = 3) -> None:
    """Write ``panels`` side by side, ``columns`` in a row at most; needs no display. Raises MissingExtra."""
    needed("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5 * columns, 0.8 + 3.6 * rows), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    for i, panel in enumerate(panels):
        _draw_panel(figure.add_subplot(rows, columns, i + 1), panel)
    figure.savefig(path)


def _draw_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label, xscale="log", yscale="log")
    lines = [line for line in panel.lines if line.points]
    for line in lines:
        x, y, low, high = zip(*line.points, strict=True)
        look = {"color": f"C{line.colour}", "linestyle": _STYLES[line.style % len(_STYLES)]}
        marker = {"marker": _MARKERS[line.colour % len(_MARKERS)], "markersize": 5, "markerfacecolor": "none"}
        axes.plot(x, y, label=line.label, **look, **marker)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    places = sorted({point[0] for line in lines for point in line.points})
    axes.set_xticks(places, [in_k(int(x)) for x in places])
    axes.xaxis.set_minor_locator(NullLocator())
    if lines:  # whole decades, so that a small difference looks small
        least = floor(log10(min(low for line in lines for _, _, low, _ in line.points)))
        most = max(ceil(log10(max(high for line in lines for *_, high in line.points))), least + 1)
        axes.set_ylim(10.0**least, 10.0**most)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most - least <= 2 else (1,)))
        axes.legend(fontsize=8, handlelength=3.5)
    axes.yaxis.set_major_formatter(EngFormatter())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)


def in_k(number: int) -> str:
    """``"64"``, ``"16K"``, ``"1024K"``: in 1024s where it is a multiple, as the paper writes batch sizes."""
    return f"{number // 1024}K" if number and number % 1024 == 0 else str(number)
