"""``python -m torch_batchsim``: the commands of this package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .base.names import suggestion
from .command_line import Parser, UsageError

COMMANDS = {
    "train": "trains an environment, evaluates what was learned, writes curve, summary and video",
    "train.compare": "draws the learning curves of several runs in one picture",
    "train.export": "writes a trained policy as a file that torch runs without this package",
    "train.match": "lets checkpoints play each other, and rates them",
    "train.teams": "trains with several seeds, and reports the learning of each team",
    "bench": "measures steps per second of an environment, and of other libraries beside it",
    "gpu_check": "checks and measures on a GPU, and writes a report",
    "check": "runs an environment in all ways, and reports broken promises",
    "new": "writes the folder of a new environment: declaration, systems, model, tests, page",
    "reference": "writes the page of all that systems can use, from the headers",
    "record": "records a run of an environment in a small file",
    "replay": "computes a recording again, and writes a page or a video that shows it",
    "watch": "shows worlds on a page while they run, pauses, steps and changes them; plays a recording",
    "gallery": "draws many worlds side by side, or an animation of them",
    "envs.hideseek.sheet": "draws 64 levels of hide and seek in a picture",
}
"""What follows ``python -m torch_batchsim.``, with a line that says what the command does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the commands, or the version; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and not given[0].startswith("-"):
        name = given[0]
        if name in COMMANDS:
            raise UsageError(f"write it with a dot: python -m torch_batchsim.{name} {' '.join(given[1:])}".rstrip())
        raise UsageError(f"there is no command {name!r}{suggestion(name, COMMANDS)}; there are: {', '.join(COMMANDS)}")
    width = max(map(len, COMMANDS))
    commands = [f"  python -m torch_batchsim.{name:{width}}  {text}" for name, text in COMMANDS.items()]
    parser = Parser(
        "python -m torch_batchsim",
        usage="python -m torch_batchsim.COMMAND [arguments]",
        description="\n".join(
            [
                "Simulates many worlds at once for reinforcement learning. The commands are:",
                "",
                *commands,
                "",
                "Each has --help: python -m torch_batchsim.train cartpole --help",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(given)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
