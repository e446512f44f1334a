"""Options that change nothing, or exclude each other: refused, so that nobody waits for their effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.config import Config
from ..base.errors import UsageError
from ..run_folder import video
from . import processes
from .options import AUTO, Options

NEEDS = {"memory_size": "memory", "past_every": "past_share", "anneal_from": "anneal", "anneal_until": "anneal"}
"""Settings that change nothing unless another one is on."""
OF_TRAINING = ("run_dir", "track", "checkpoint_every", "show", "tune", "keep", "keep_best", "evaluate_every")
OF_TRAINING += ("stop_at", "max_hours", "view", "port")
"""Options that change nothing in an evaluation."""


def refuse_together(options: Options) -> None:
    """Refuses options that exclude each other, or lack another one."""
    again = options.resume == AUTO
    given = [name for name in ("resume", "load", "eval") if getattr(options, name)]
    if again and given == ["resume", "load"]:  # which a new run begins with
        given.remove("resume")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(f'--{name}' for name in given)} exclude each other")
    for name in ("resume", "eval", "video", "record"):
        if options.seeds and getattr(options, name) and not (name == "resume" and again):
            why = {
                "video": ": --eval of one of its folders shows it",
                "record": ": --eval of one of its folders records it",
                "resume": f": {options.resume} is a single run, not the folder of several seeds",
                "eval": ", which names one run",
            }
            raise UsageError(f"--seeds and --{name} exclude each other{why[name]}")
    if options.settings and (options.resume or options.eval) and not again:
        raise UsageError(f"--config and --{given[0]} exclude each other: settings are in the checkpoint")
    types, episodes, every = video.file_types(), options.eval_episodes, options.video_every
    refusals = (
        (
            again and not options.run_dir,
            "--resume auto needs --run-dir: a folder that is named by the time would not be found again",
        ),
        (options.evaluate_every and not episodes, "--eval-episodes is 0, but --evaluate-every needs at least 1"),
        (options.tune and options.executor, f"--tune chooses the executor: leave out --executor {options.executor}"),
        (options.eval and not episodes, "--eval-episodes is 0, but --eval needs at least 1"),
        (
            options.view and options.config.capture_rollouts,
            "--view and --capture-rollouts exclude each other: within a CUDA graph no step can be shown",
        ),
        (options.video and not episodes, "--eval-episodes is 0, but --video shows an episode of the evaluation"),
        (options.record and not episodes, "--eval-episodes is 0, but --record is of the evaluation"),
        (
            options.video and options.video.suffix.lower() not in types,
            f"--video writes {', '.join(types)}, but {options.video} was given",
        ),
        (every and not options.video, f"--video-every {every} needs --video, which names the files"),
        (every and options.eval, "--video-every and --eval exclude each other: an evaluation shows one episode"),
    )
    for refused, sentence in refusals:
        if refused:
            raise UsageError(sentence)


def refuse_idle(
    options: Options, arguments: Sequence[str], searched: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Refuses an option among the arguments that changes nothing, so that nobody waits for its effect.

    A file of settings or an environment may declare it: these hold all settings. `searched` are values of a sweep.
    """
    given = [word.partition("=")[0].removeprefix("--").replace("-", "_") for word in arguments if word[:2] == "--"]
    for name in given:
        if needed := lacking(name, options.config, searched or {}):
            raise UsageError(f"--{name.replace('_', '-')} changes nothing without --{needed.replace('_', '-')}")
        if name == "process_timeout" and not processes.are_launched():
            raise UsageError("--process-timeout changes nothing with one process, which waits for no other")
        if name == "port" and not options.view and not options.eval:
            raise UsageError("--port changes nothing without --view, whose page it is of")
        if options.eval and name in OF_TRAINING and (name, options.track) != ("track", ("none",)):
            raise UsageError(f"--{name.replace('_', '-')} changes nothing with --eval, which trains nothing")


def lacking(name: str, config: Config, searched: Mapping[str, Sequence[Any]]) -> str | None:
    """The setting without which another one changes nothing, if it is off, and so in all trials of a sweep."""
    needed = NEEDS.get(name)
    if needed is None:
        return None
    values = searched.get(needed, [getattr(config, needed)])
    return needed if all(value in ("none", 0, ()) for value in values) else None
