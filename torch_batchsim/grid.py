"""The library ``grid``: a uniform grid in two dimensions, in which rows find their neighbours."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import Any

from .declare.library import Library
from .declare.options import Constants, Option
from .declare.schema import Component, component
from .types import u32

MOST_CELLS = 256  # in a column or a line


class Grid(Library):
    """Finds the rows of a table near a place: ``grid::build``, ``grid::near``, ``grid::scan`` of ``csrc/grid/grid.h``.

    An environment lists it in ``libraries``, with options ``library_options = {"grid": {"cell": 0.2}}`` or
    ``make_vec(..., grid=dict(cell=0.2))``. They change the speed, never the result.

    Options:
        left, right, bottom, top: the arena. Rows outside of it belong to the nearest cell.
        cell: the side of a cell, about the reach of the searches; at most 256 cells in a column or a line.
        rows: the number that the grid holds; rows behind them are near to everything.
        least: with fewer rows no grid is built, and all are near to everything.

    It takes (columns + lines) * rows / 8 bytes of scratch in a world. Raises ValueError for an arena without extent and
    for more cells.
    """

    name = "grid"
    systems = "grid/grid.h"
    faults = {"stale": "near() is given {value} rows, and build() had another number: build the grid again before it"}
    constants = Constants(
        left=Option(-1.0, help="of the arena"),
        right=Option(1.0),
        bottom=Option(-1.0),
        top=Option(1.0),
        cell=Option(0.125, above=0.0, help="side of a cell"),
        rows=Option(128, minimum=1, maximum=4096, help="that the grid holds"),
        least=Option(16, minimum=0, help="the fewest rows for which it is built"),
    )

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        columns, lines = self._cells("left", "right"), self._cells("bottom", "top")
        words = -(-self.constants.rows // 32)
        self.add_constants(columns=columns, lines=lines, words=words, cells_per_unit=1.0 / self.constants.cell)

    def _cells(self, low: str, high: str) -> int:
        """Number of cells from one side of the arena to the other."""
        start, end, cell = self.constants[low], self.constants[high], self.constants.cell
        if not start < end:
            raise ValueError(f"grid: {low} must be less than {high}, got {low}={start} and {high}={end}")
        cells = ceil((end - start) / cell)
        if cells > MOST_CELLS:
            raise ValueError(
                f"grid: {low}={start} to {high}={end} has {cells} cells of cell={cell}; at most {MOST_CELLS} are "
                "allowed, give larger cells"
            )
        return cells

    @cached_property
    def cells(self) -> type[Component]:
        """The cells of rows, while a task graph runs."""
        c = self.constants
        return component("Cells", count=u32, words=u32, column=u32[c.words, c.columns], line=u32[c.words, c.lines])

    @property
    def singletons(self) -> list[type[Component]]:
        return [self.cells]

    @property
    def scratch(self) -> list[type[Component]]:
        return [self.cells]
