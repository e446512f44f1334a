"""Searches for settings with which an environment is learned best: many trainings, their settings chosen by Optuna.

``python -m torch_batchsim.train sweep cartpole --trials 20``
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torch_batchsim import command_line
from torch_batchsim.base.extras import command_needs

from ..algorithms.trainer import Trainer
from ..base.config import Config
from ..base.errors import RunError, UsageError
from ..run_folder import checkpoint, disk
from ..run_folder.disk import made, new_folder, short_name
from ..run_folder.learning import End
from ..run_folder.lock import locked
from ..run_folder.report import Report
from ..run_folder.tracking import trackers
from . import processes, settings_file, training
from .arguments import settled
from .idle import refuse_idle
from .options import Options, default_threads, parse_env_options
from .ranges import Range, ranges_for

if TYPE_CHECKING:
    import optuna

PROGRAM = "python -m torch_batchsim.train sweep"
STUDY, BEST, TABLE, SETTINGS = "study.log", "best.toml", "trials.csv", "config.toml"
SHOWN = 10
"""Trials of the table that is printed."""
LOOKS = 10
"""Parts of a training, after which it is compared with the others, and may be ended."""


def main(arguments: Sequence[str]) -> int:
    """Begins or continues a sweep; returns the exit status."""
    parser = command_line.Parser(PROGRAM, description=__doc__, epilog=_EPILOG)
    parser.add_argument("environment", help="as for a training: cartpole, or an id")
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="trainings in all (20)")
    parser.add_argument("--range", action="append", default=[], metavar="NAME=VALUES", dest="ranges",
                        help="a setting and its values: LOW:HIGH, LOW:HIGH:log or A,B,C; in place of the "
                        "environment's range for it; may be given several times")  # fmt: skip
    parser.add_argument("--run-dir", type=Path, help="folder of the sweep; runs/<environment>-sweep-<time>")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="continue a sweep, to --trials in all")
    parser.add_argument("--no-prune", action="store_true", help="train to the end in bad trials too")
    options, others = parser.parse_known_args(arguments)
    command_needs("optuna", extra="sweep")
    processes.require_one("a sweep")
    if options.trials < 1:
        raise UsageError(f"--trials is {options.trials}, but must be at least 1")
    if options.resume:
        env_id, training_options, ranges = _before(options, others)
    else:
        env_id, training_options, _, rest = settled(options.environment, others, PROGRAM)
        _refuse(training_options)
        ranges = ranges_for(env_id, options.ranges, rest, training_options.config)
        refuse_idle(training_options, rest, {name: each.ends() for name, each in ranges.items()})
    trackers(training_options.track)  # to report mistakes at once
    if threads := training_options.threads or default_threads(training_options):
        torch.set_num_threads(threads)
    return _run(env_id, training_options, ranges, options)


_EPILOG = (
    "All other options are those of python -m torch_batchsim.train and hold for every trial, such as --total-steps "
    "100000. The first trial is that of the settings as they are."
)


def _refuse(options: Options) -> None:
    for name in ("eval", "video", "video_every", "record", "view", "seeds", "show", "tune", "summary", "max_hours"):
        if getattr(options, name):
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} is not for a sweep: give it to a training with --config best.toml")
    if not options.eval_episodes:
        raise UsageError("--eval-episodes is 0, but a sweep compares evaluations")


def _before(options: argparse.Namespace, others: Sequence[str]) -> tuple[str, Options, dict[str, Range]]:
    """The first settings of the sweep that `--resume` names."""
    folder = options.resume
    if others or options.ranges or options.run_dir:
        given = next(iter(others), "--range" if options.ranges else "--run-dir")
        raise UsageError(f"{given} and --resume exclude each other: {folder} has the settings of its sweep")
    if not (folder / STUDY).is_file():
        raise UsageError(f"{folder} is not the folder of a sweep: it has no {STUDY}")
    env_id, settings, *_ = settled(options.environment, [], PROGRAM, folder / SETTINGS)
    begun = _study(folder, settings, options).user_attrs
    if begun["env"] != env_id:
        raise UsageError(f"the sweep in {folder} is of {begun['env']}, not of {env_id}")
    return env_id, settings, {name: Range(**each) for name, each in begun["ranges"].items()}


def _study(folder: Path, options: Options, given: argparse.Namespace) -> optuna.Study:
    """The study of a folder, which continues with other random numbers."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(folder / STUDY)))
    study = optuna.create_study(storage=storage, study_name="sweep", direction="maximize", load_if_exists=True)
    study.sampler = optuna.samplers.TPESampler(seed=(options.config.seed + len(study.trials)) % 2**32)
    study.pruner = optuna.pruners.NopPruner() if given.no_prune else optuna.pruners.MedianPruner(5, LOOKS // 5)
    return study


@disk.errors()
def _run(env_id: str, options: Options, ranges: Mapping[str, Range], given: argparse.Namespace) -> int:
    folder = given.resume or given.run_dir
    folder = folder or new_folder(f"{short_name(env_id)}-sweep")
    if not given.resume:
        if (folder / STUDY).exists():
            raise UsageError(f"folder {folder} has another sweep; --resume {folder} continues it")
        made(folder)
    with locked(folder):
        return _search(env_id, options, ranges, given, folder)


def _search(
    env_id: str, options: Options, ranges: Mapping[str, Range], given: argparse.Namespace, folder: Path
) -> int:
    if not given.resume:
        settings_file.write(folder / SETTINGS, env_id, options, parse_env_options(options.env_option))
    options = replace(options, load=checkpoint.find(options.load, env_id))
    loaded = checkpoint.load(options.load, env_id) if options.load else None
    study = _study(folder, options, given)
    if not given.resume:
        study.set_user_attr("env", env_id)
        study.set_user_attr("ranges", {name: asdict(each) for name, each in ranges.items()})
        usual = {name: each.written(getattr(options.config, name)) for name, each in ranges.items()}
        if all(each.holds(usual[name]) for name, each in ranges.items()):
            study.enqueue_trial(usual)
    _repeat_what_was_stopped(study)
    print(f"Sweep of {env_id}, {given.trials} trials in {folder}, over")
    for name, each in ranges.items():
        print(f"  {name:16} {each}")
    finished = True
    while finished and len(_ended(study)) < given.trials:
        finished = _trial(env_id, options, loaded, ranges, study, folder)
    print(_table(study, ranges))
    _write_table(folder / TABLE, study, ranges)
    if _complete(study):
        best = replace(options, config=_config(options.config, ranges, study.best_trial.params))
        settings_file.write(folder / BEST, env_id, best, parse_env_options(options.env_option))
        print(f"best settings   {folder / BEST}, for --config")
    print(f"all trials      {folder / TABLE}")
    if not finished:
        print(f"Stopped early. Go on with --resume {folder}")
        return 130
    if not _complete(study):
        errors = [each.user_attrs["error"] for each in _ended(study) if "error" in each.user_attrs]
        why = errors[0] if errors else "all were pruned"
        raise RunError(f"no trial has come to its end: {why}")
    return 0


def _repeat_what_was_stopped(study: optuna.Study) -> None:
    """Repeats first the settings of a trial that a signal ended."""
    from optuna.trial import TrialState

    for each in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(each.number, state=TrialState.FAIL)
        study.enqueue_trial(each.params)


def _ended(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Those that were trained to the end, pruned, or failed by themselves."""
    from optuna.trial import TrialState

    ended = study.get_trials(states=[TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL])
    return [each for each in ended if each.state != TrialState.FAIL or "error" in each.user_attrs]


def _complete(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The best first."""
    from optuna.trial import TrialState

    return sorted(study.get_trials(states=[TrialState.COMPLETE]), key=lambda each: -each.value)


def _config(config: Config, ranges: Mapping[str, Range], params: Mapping[str, Any]) -> Config:
    return replace(config, **{name: ranges[name].read(value) for name, value in params.items()})


def _trial(
    env_id: str,
    options: Options,
    loaded: dict[str, Any] | None,
    ranges: Mapping[str, Range],
    study: optuna.Study,
    folder: Path,
) -> bool:
    """One training and its evaluation; False if a signal ended it."""
    from optuna.trial import TrialState

    trial = study.ask()
    for name, each in ranges.items():
        each.suggest(trial, name)
    own = folder / f"trial{trial.number:03}"
    title = f"trial {trial.number:<4}"
    pruned = []

    def give_up(trainer: Trainer, report: Report) -> bool:
        """At each tenth, if the curve has begun."""
        done, whole = trainer.iteration * LOOKS, trainer.num_iterations
        look = done // whole
        if look == (done - LOOKS) // whole or look == LOOKS:
            return False
        report.read()
        if report.curve:
            trial.report(report.curve[-1][1], look)
        if report.curve and trial.should_prune():
            pruned.append(look)
        return bool(pruned)

    try:
        config = _config(options.config, ranges, trial.params)
        settings = replace(options, config=config, run_dir=own)
        made(own)
        with open(own / "output.txt", "w") as file, redirect_stdout(file):
            finished = training.train(env_id, settings, loaded, [give_up]) is End.FINISHED
    except Exception as error:
        if type(error.__cause__) is KeyboardInterrupt:  # before its first step, or behind the last
            return False
        if isinstance(error, disk.NotWritten) or isinstance(error.__cause__, (KeyboardInterrupt, disk.NotWritten)):
            raise
        if not isinstance(error, (UsageError, ValueError, RunError)):
            traceback.print_exc()
        trial.set_user_attr("error", str(error))
        study.tell(trial, state=TrialState.FAIL)
        print(f"{title} failed: {error}", file=sys.stderr)
        return True
    if pruned:
        study.tell(trial, state=TrialState.PRUNED)
        print(f"{title} pruned after {pruned[0] * 100 // LOOKS} %   {_said(trial.params)}", flush=True)
        return True
    if not finished:
        return False
    outcome = json.loads((own / training.SUMMARY).read_text("utf-8"))
    value = outcome[f"eval_{outcome['measure']}_mean"]
    trial.set_user_attr("train_seconds", outcome["train_seconds"])
    study.tell(trial, value)
    print(f"{title} mean {outcome['measure']} {value:.2f}   {_said(trial.params)}", flush=True)
    return True


def _said(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_short(value)}" for name, value in params.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _table(study: optuna.Study, ranges: Mapping[str, Range]) -> str:
    """The best trials in Markdown."""
    rows = [["trial", "mean", "seconds", *ranges]]
    for each in _complete(study)[:SHOWN]:
        seconds = f"{each.user_attrs['train_seconds']:.1f}"
        rows.append([str(each.number), f"{each.value:.2f}", seconds, *(_short(each.params[name]) for name in ranges)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"| {' | '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    lines.insert(1, f"|{'|'.join('-' * (width + 1) + ':' for width in widths)}|")
    counts = Counter(each.state.name for each in _ended(study))
    summary = f"{counts['COMPLETE']} trials to the end, {counts['PRUNED']} pruned, {counts['FAIL']} failed"
    return "\n".join(["", *lines, summary])


def _write_table(path: Path, study: optuna.Study, ranges: Mapping[str, Range]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", "state", "mean", *ranges, "error"])
        for each in _ended(study):
            params = [each.params.get(name) for name in ranges]
            error = each.user_attrs.get("error", "")
            writer.writerow([each.number, each.state.name.lower(), each.value, *params, error])
