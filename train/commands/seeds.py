"""Several seeds in one command: a run for each, in a folder of its own, with one curve, one band and one summary."""

from __future__ import annotations

import json
import shutil
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..algorithms import config_of
from ..base.errors import RunError, UsageError
from ..run_folder import checkpoint, curves, disk
from ..run_folder.disk import check_writable, made, new_folder, short_name, write_text
from ..run_folder.learning import End
from ..run_folder.lock import locked
from ..run_folder.report import show_picture, text_curve
from . import settings_file, training
from .options import Options, parse_env_options
from .training import SUMMARY

SETTINGS, PICTURE = "config.toml", "learning_curve.png"


def is_folder(path: Path) -> bool:
    """Whether a folder is that of several seeds, whose settings say how many."""
    return (path / SETTINGS).is_file() and "seeds" in settings_file.read(path / SETTINGS)[0]


@disk.errors()
def train(env_id: str, options: Options, loaded: dict[str, Any] | None, again: Path | None) -> int:
    """Trains with `options.seeds` seeds, one after the other, and returns the exit status.

    The summary reports a seed whose training or evaluation fails, and the next one begins. A signal ends them all.

    Args:
        loaded: the contents of the checkpoint that `--load` names.
        again: the folder of a command that was stopped, or ended: finished seeds are not repeated.
    """
    first = options.config.seed
    numbers = range(first, first + options.seeds)
    try:
        replace(options.config, seed=numbers[-1])
    except ValueError as error:
        raise UsageError(f"--seeds {options.seeds} from --seed {first} on: {error}") from error
    check_writable(options.summary)
    folder = again or _new_folder(env_id, options, numbers)
    with locked(folder):
        return _train_all(env_id, options, loaded, numbers, folder, is_new=again is None)


def _train_all(
    env_id: str, options: Options, loaded: dict[str, Any] | None, numbers: range, folder: Path, is_new: bool
) -> int:
    began, first = time.monotonic(), options.config.seed
    settings_file.write(folder / SETTINGS, env_id, options, parse_env_options(options.env_option))
    done: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for seed in numbers:
        print(f"\nSeed {seed}, {seed - first + 1} of {options.seeds}")
        own = replace(options, tune=options.tune and seed == first)
        if options.max_hours:
            left = options.max_hours - (time.monotonic() - began) / 3600
            own = replace(own, max_hours=max(left, 1e-9))
        try:
            end = _one(env_id, own, loaded, seed, folder)
        except UsageError:  # the same for all of them
            if is_new and not any(each.is_dir() for each in folder.iterdir()):
                shutil.rmtree(folder)
            raise
        except Exception as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                _print_left(seed, folder)
                raise
            if not isinstance(error, (RunError, disk.NotWritten, checkpoint.CheckpointError)):
                traceback.print_exc()
            print(f"seed {seed} failed: {error}", file=sys.stderr)
            failed.append({"seed": seed, "error": str(error)})
        else:
            if end is not End.FINISHED:
                _print_left(seed, folder)
                return end.status
            done.append(json.loads((folder / f"seed{seed}" / SUMMARY).read_text("utf-8")))
        _write_summary(options.summary or folder / SUMMARY, done, failed)
    _report(folder, options.summary or folder / SUMMARY, done)
    if options.show and done and (problem := show_picture(folder / PICTURE)):
        print(problem)
    if failed:
        reasons = "; ".join(f"seed {each['seed']}: {each['error']}" for each in failed)
        raise RunError(f"{len(failed)} of {options.seeds} seeds failed: {reasons}")
    return 0


def _print_left(seed: int, folder: Path) -> None:
    print(f"The seeds from {seed} on are left. Go on with --resume {folder}")


def _new_folder(env_id: str, options: Options, numbers: range) -> Path:
    folder = options.run_dir or new_folder(f"{short_name(env_id)}-seeds{numbers[0]}-{numbers[-1]}")
    if is_folder(folder):
        raise UsageError(f"folder {folder} has other runs; --resume {folder} continues them, or name another folder")
    if (folder / checkpoint.NAME).exists() or any(folder.glob(f"seed*/{checkpoint.NAME}")):
        raise UsageError(f"folder {folder} has the checkpoint of another run; name another folder")
    return made(folder)


def _one(env_id: str, options: Options, loaded: dict[str, Any] | None, seed: int, folder: Path) -> End:
    """Trains with one seed, from where it was left, and evaluates."""
    folder = folder / f"seed{seed}"
    config = replace(options.config, seed=seed)
    own = replace(options, seeds=None, config=config, run_dir=folder, summary=None, show=False)
    found = checkpoint.last_good(folder, env_id)
    if found is None:
        return training.train(env_id, replace(own, resume=None), loaded)
    path, contents = found
    checkpoint.require_same_version(path, contents)
    config = replace(config_of(contents["trainer"]["config"]), total_steps=options.config.total_steps)
    own = replace(own, config=config, resume=path, load=None)
    if not training.is_finished(contents, own):
        return training.train(env_id, own, contents)
    training.conclude_again(env_id, own, contents)
    return End.FINISHED


def _write_summary(path: Path, done: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
    """Mean, least and greatest of the evaluations and training times, and the summary of each seed."""
    outcome: dict[str, Any] = {"failed": failed, "seeds": done}
    if done:
        judged = f"eval_{done[0]['measure']}_mean"
        same = {name: done[0][name] for name in ("env", "env_options", "measure")}
        outcome = {**same, judged: _spread(done, judged), "train_seconds": _spread(done, "train_seconds"), **outcome}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(outcome, indent=2) + "\n")


def _spread(done: list[dict[str, Any]], name: str) -> dict[str, float] | None:
    values = [each[name] for each in done if each.get(name) is not None]
    return {"mean": sum(values) / len(values), "min": min(values), "max": max(values)} if values else None


def _report(folder: Path, summary: Path, done: list[dict[str, Any]]) -> None:
    """Draws the curve of all finished seeds and prints their results."""
    if done:
        found = [curves.read(folder / f"seed{each['seed']}") for each in done]
        column = curves.MEASURES[done[0]["measure"] != "score"]
        drawn = [each for each in found if len(each.curve(column)[0])]
        if not drawn:
            print("no learning curve: with no seed has every world ended an episode")
        else:
            (band,) = curves.bands(drawn, column)
            random = _spread(done, f"random_{done[0]['measure']}_mean")
            level = random and random["mean"]
            title = f"{done[0]['env']}, seeds {', '.join(str(each['seed']) for each in done)}"
            curves.draw([band], column, folder / PICTURE, title, level)
            print(f"\nmean of {len(drawn)} seeds")
            print(text_curve(list(zip(map(int, band.steps), band.mean.tolist(), strict=True)), random=level))
            print(f"learning curve  {folder / PICTURE}")
        name = f"eval_{done[0]['measure']}_mean"
        for each in done:
            reached = "not evaluated" if each[name] is None else f"mean {each['measure']} {each[name]:.2f}"
            print(f"{'seed ' + str(each['seed']):<14}  {reached}")
        if spread := _spread(done, name):
            print(f"all seeds       {spread['mean']:.2f}, from {spread['min']:.2f} to {spread['max']:.2f}")
    print(f"summary         {summary}")
