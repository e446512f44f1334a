"""A page that shows worlds while they run: ``python -m torch_batchsim.watch cartpole``.

It shows many worlds at once and one in full, pauses and steps, resets worlds, and changes their state. A recording,
``watch hunt.tbs``, is played, and two of one environment, ``watch a.tbs b.tbs``, side by side. Over ssh forward the
port: ``ssh -L 8765:127.0.0.1:8765 machine``.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..base.extras import command_needs
from ..command_line import Parser
from ..errors import BuildWarning, MissingExtra, SchemaError
from ..gallery import (
    GalleryError,
    Policy,
    add_environment,
    check_limits,
    check_policy,
    checkpoint_of,
    long_arguments,
    made_environment,
    offered_by,
    random_play,
    trained_play,
)
from ..replay import Recording, RecordingError
from ..vector import rendering
from .beside import check_pair
from .session import Playback, Session
from .viewer import MOST_SHOWN, Viewer

PROGRAM = "python -m torch_batchsim.watch"
_OWN = ("checkpoint", "policy", "worlds", "show", "speed", "turn_seconds", "seed", "port", "host", "env_option", "help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command until Ctrl-C: 0 then, 2 for a mistake in the command."""
    command_needs("websockets", extra="view")
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        is_recording = bool(given) and given[0].endswith(".tbs")
        options = _parser().parse_args(given if is_recording else long_arguments(given, _OWN, PROGRAM))
        _check(options)
        with torch.no_grad():
            viewer, run = _playback(options) if is_recording else _session(options)
            print(f"{viewer.url}  (Ctrl-C ends it)", flush=True)
            with viewer:
                run()
    except (GalleryError, RecordingError, SchemaError, MissingExtra, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ended")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("environment", help="cartpole, an id, module:id or file.py; or a recording, hunt.tbs")
    parser.add_argument("other", nargs="?", metavar="other.tbs", help="a second recording, shown beside the first")
    parser.add_argument("--checkpoint", metavar="RUN", help="a run of torch_batchsim.train that plays: its folder or "
                        "its checkpoint.pt (default: random actions)")  # fmt: skip
    parser.add_argument("--policy", metavar="NAME", help="plays at first: checkpoint, random, or one that the "
                        "environment offers (default: checkpoint, or random without one)")  # fmt: skip
    parser.add_argument("--worlds", type=int, default=64, metavar="N", help="how many run (default: 64)")
    parser.add_argument("--show", type=int, default=16, metavar="N", help="how many are shown at first (default: 16)")
    parser.add_argument("--speed", default="", metavar="N", help="steps a second, or full (default: the environment's)")
    parser.add_argument("--turn-seconds", type=float, metavar="N", help="so long a world waits for a human who has "
                        "to choose, then the policy does (default: as long as it takes)")  # fmt: skip
    parser.add_argument("--port", type=int, metavar="N", help="(default: the first free one from 8765 on)")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS",
                        help="where to listen; 0.0.0.0 lets anyone look and edit (default: this machine)")  # fmt: skip
    add_environment(parser)
    return parser


def _check(options: argparse.Namespace) -> None:
    if options.other is not None and not (options.environment.endswith(".tbs") and options.other.endswith(".tbs")):
        raise GalleryError(f"two arguments must be recordings, a.tbs b.tbs, got {options.environment} {options.other}")
    check_limits(options, {"worlds": (1, 2**24), "show": (1, MOST_SHOWN), "port": (0, 65_535)})
    if options.turn_seconds is not None and not 0 < options.turn_seconds < math.inf:
        raise GalleryError(f"--turn-seconds must be a number above 0, got {options.turn_seconds:g}")
    if options.speed not in ("", "full"):
        try:
            valid = 0 < float(options.speed) <= 1e6
        except ValueError:
            valid = False
        if not valid:
            raise GalleryError(f"--speed must be full or a number of steps a second, got {options.speed}")


def _viewer(options: argparse.Namespace, env: Any) -> Viewer:
    """Listens; ``main`` says where when the page is whole."""
    environment = env.unwrapped.environment
    if not rendering.has_scene(environment) and "rgb_array" not in rendering.render_modes(environment):
        raise GalleryError(f"{environment.name} defines neither scene() nor render(): there is nothing to see")
    fps = float(env.metadata.get("render_fps", 30))
    speed = None if options.speed == "full" else float(options.speed or fps)
    edits = not options.environment.endswith(".tbs")
    viewer = Viewer(env, options.port, host=options.host, shown=options.show, speed=speed, edits=edits)
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        print(f"warning: anyone who reaches {options.host} can look and edit: there is no password", file=sys.stderr)
    return viewer


def _session(options: argparse.Namespace) -> tuple[Viewer, Callable[[], None]]:
    if options.checkpoint is not None:
        command_needs("tqdm")  # of what train has, this is all that a policy imports
    contents = checkpoint_of(options, options.checkpoint, "--checkpoint")
    if options.policy is not None:
        own = ("random",) if contents is None else ("checkpoint", "random")
        check_policy(options, *own, of_train="--checkpoint a run of torch_batchsim.train")
    env = made_environment(options, contents, render_mode=None)
    policies: dict[str, Callable[[], Policy]] = {"random": partial(random_play, env, options.seed)}
    if contents is not None:
        policies = {"checkpoint": partial(trained_play, env, contents, options.seed), **policies}
    policies |= {name: partial(lambda policy: policy, policy) for name, policy in offered_by(env).items()}
    if options.policy is not None:
        if options.policy not in policies:
            raise GalleryError(f"--policy must be one of {', '.join(policies)}, got {options.policy}")
        policies = {options.policy: policies[options.policy], **policies}
    viewer = _viewer(options, env)
    return viewer, Session(viewer, policies, options.seed, options.turn_seconds).run


def _playback(options: argparse.Namespace) -> tuple[Viewer, Callable[[], None]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BuildWarning)
        recordings = [Recording(Path(name)) for name in (options.environment, options.other) if name is not None]
        env = recordings[0].seek(0)
        if len(recordings) == 2:
            check_pair(*recordings)
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    viewer = _viewer(options, env)
    return viewer, Playback(viewer, *recordings).run


if __name__ == "__main__":
    sys.exit(main())
