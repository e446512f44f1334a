"""Draws the learning curves of several runs in one picture; runs that differ only in their seed are a mean and a band.

``python -m torch_batchsim.train.compare runs/a runs/b --output curves.png``
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch_batchsim.base.extras import command_needs
from torch_batchsim.command_line import Parser, UsageError

PROGRAM = "python -m torch_batchsim.train.compare"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, and print the last numbers. Raises UsageError."""
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs, or of several seeds")
    parser.add_argument("--output", type=Path, default=Path("curves.png"), help="the picture (curves.png)")
    parser.add_argument("--measure", help="a column of metrics.csv; by default the score, else the return")
    options = parser.parse_args(arguments)
    from .run_folder import curves

    try:
        folders = [folder for given in options.runs for folder in curves.runs_in(given)]
        places = [folder.resolve() for folder in folders]
        if again := [str(folder) for n, folder in enumerate(folders) if places[n] in places[:n]]:
            raise ValueError(f"{', '.join(again)} would count twice: give each run once")
        runs = [curves.read(folder) for folder in folders]
        shared = set.intersection(*(set(run.columns) for run in runs)) - {"step"}
        measure = options.measure or next((name for name in curves.MEASURES if name in shared), "")
        if measure not in shared:
            wanted = measure or "a score or return"
            raise ValueError(f"not all runs have {wanted}; they share {', '.join(sorted(shared))}")
        found = curves.bands(runs, measure)
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        curves.draw(found, measure, options.output)
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
