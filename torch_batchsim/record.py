"""A recording of a run: ``python -m torch_batchsim.record hideseek --steps 240 --out hunt.tbs``.

Worlds take random legal actions, those of a policy of the environment, or of ``torch_batchsim.train``.
``python -m torch_batchsim.replay`` shows the recording.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from .base.extras import command_needs
from .command_line import Parser
from .errors import WorldFault
from .gallery import (
    GalleryError,
    add_play,
    check_limits,
    check_out,
    checkpoint_of,
    long_arguments,
    made_environment,
    play_of,
    run_of,
)
from .replay import Recorder, RecordingError

PROGRAM = "python -m torch_batchsim.record"
_OWN = ("steps", "worlds", "policy", "seed", "env_option", "out", "help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when the file is written, 1 after a world's fault, 2 for a mistake in the command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(long_arguments(given, _OWN, PROGRAM))
        check_limits(options, {"steps": (0, None), "worlds": (1, None)})
        if run_of(options) is not None:
            command_needs("PIL", "tyro", "tqdm", "tensorboard", "matplotlib")
        check_out(options)
        with torch.no_grad():
            size = _run(options)
    except (GalleryError, RecordingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except WorldFault as fault:
        print(f"error: {fault.faults[0]}; {options.out} ends with it", file=sys.stderr)
        return 1
    each = f", {size / options.steps:.1f} a step" if options.steps else ""
    print(f"{options.out}: {options.worlds} worlds, {options.steps} steps, {size:,} bytes{each}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("environment", help="cartpole, an id, module:id or file.py")
    add_play(parser, worlds=(1, "how many are recorded"), steps=(240, "of each world"))
    parser.add_argument("--out", type=Path, default=Path("recording.tbs"), metavar="FILE",
                        help="the recording, which is replaced (default: recording.tbs)")  # fmt: skip
    return parser


def _run(options: argparse.Namespace) -> int:
    """Play and record. Returns the bytes of the file."""
    contents = checkpoint_of(options, run_of(options))
    env = made_environment(options, contents, render_mode=None)
    act = play_of(options, env, contents)
    with Recorder(env, options.out) as recorder:
        observations, infos = recorder.reset(seed=options.seed)
        for _ in range(options.steps):
            observations, *_, infos = recorder.step(act(observations, infos))
    return options.out.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
