"""A training from its first step to its summary."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch_batchsim import WorldFault, command_line

from ..algorithms.trainer import Trainer
from ..base import signals
from ..base.errors import RunError, UsageError
from ..base.ranks import RankFailed, RankLost
from ..rollouts import baseline
from ..rollouts.environment import measure
from ..rollouts.evaluation import SEED_OFFSET
from ..run_folder import checkpoint, disk, provenance
from ..run_folder.disk import check_writable, made, new_folder, short_name
from ..run_folder.learning import End, Evaluating, Filming, Hook, Plan, forget_later, is_reached, learn
from ..run_folder.lock import locked
from ..run_folder.report import draw_curve, show_picture, text_curve
from ..run_folder.tracking import Tracker, trackers
from . import processes, settings_file
from .environments import DRAWN, check_outputs, make_env, make_part, tune, user_errors, viewed, with_whole_worlds
from .evaluating import evaluate_checkpoint, evaluated, raise_if_failed, random_baseline, summary_of, write_summary
from .options import Options, parse_env_options

SUMMARY = "summary.json"
"""Of a finished run, in its folder unless another file is named."""


@disk.errors()
def train(
    env_id: str,
    options: Options,
    contents: dict[str, Any] | None,
    hooks: Sequence[Hook] = (),
) -> End:
    """Trains from the start, or from the contents of a checkpoint.

    With `--load` only the networks are those of the checkpoint. Of several processes the first has the random policy,
    the files and the evaluation.

    Whatever happens in the evaluation, the outcome of the training has been written before it.
    """
    deadline = time.monotonic() + (math.inf if options.max_hours is None else 3600 * options.max_hours)
    resumed = None if options.load else contents
    env_options = resumed["env_options"] if resumed else parse_env_options(options.env_option)
    check_writable(options.summary, options.video, options.record)
    with _before_the_first_step(resumed, options):
        with _lost():
            ranks, options = processes.meet(options)
            processes.require_same(ranks, env_id, options, resumed["steps"] if resumed else None)
            with ranks.together():
                options = with_whole_worlds(env_id, options, env_options)
                env = make_part(env_id, options, env_options, ranks)
                check_outputs(env_id, env, options)
                if options.view and ranks.first:
                    env = viewed(env, options.port)
        if warning := command_line.unheard(env, options.log):
            print(warning)
        if options.tune:
            tune(env)
        with user_errors(), _lost():
            trainer = Trainer(env, options.config, ranks)
            if resumed:
                trainer.load_state_dict(resumed["trainer"])
            elif contents:
                _take_networks(trainer, options.load, contents)
        if resumed and is_finished(resumed, options):
            raise UsageError(
                f"{options.resume} is the end of a training of {trainer.global_step:,} steps; raise --total-steps"
            )
    run: dict[str, Any] = {"env": env_id, "env_options": env_options, "train_seconds": 0.0}
    run |= {"curve": [], "evaluations": []}
    keeper, tracked = None, []
    with ExitStack() as held:
        with _before_the_first_step(resumed, options), _lost(), ranks.together():
            if ranks.first:
                folder = _run_folder(env_id, options)
                held.enter_context(locked(folder))
                _refuse_another_run(folder, options)
                tracked = _begin(env_id, options, folder, trainer, run, resumed)
                newest = (folder / checkpoint.NAME).resolve()
                steps = trainer.global_step if options.resume and options.resume.resolve() == newest else None
                if resumed and steps is None and checkpoint.set_later_aside(folder, trainer.global_step):
                    print(f"Checkpoints of more steps are now in {folder / checkpoint.LATER}.")
                keeper = checkpoint.Keeper(folder, options.keep, steps)
        plan = _plan(env_id, options, env_options, trainer, deadline, hooks)
        end = learn(trainer, run, keeper, plan, tracked)
        env.close()
        if isinstance(end, RankLost):
            processes.let_an_error_be_printed()
        else:
            processes.leave(ranks)
        if keeper is not None:
            with _behind_the_last_step(end, keeper.folder, trainer.global_step):
                _conclude(env_id, options, trainer, run, keeper.folder, tracked, end)
        elif isinstance(end, RankLost):
            raise RunError(f"training failed after {trainer.global_step:,} steps: {end}") from end
    return end if isinstance(end, End) else End.FINISHED  # the first reports the fault


def is_finished(contents: dict[str, Any], options: Options) -> bool:
    """Whether a checkpoint is the end of a training with these options."""
    config, trained = options.config, contents["trainer"]["iteration"]
    at_the_end = trained >= config.total_steps // (config.num_steps * config.num_envs)
    return at_the_end or is_reached(options.stop_at, contents["evaluations"], contents["steps"])


def conclude_again(env_id: str, options: Options, contents: dict[str, Any]) -> None:
    """Of a training that had ended before: evaluates if it was stopped before its summary was written."""
    folder = options.resume.parent
    print(f"finished before, in {folder}")
    summary = options.summary or folder / SUMMARY
    if not _is_of(summary, contents["steps"]) and (options.summary or os.access(folder, os.W_OK)):
        with _behind_the_last_step(End.FINISHED, folder, contents["steps"]):
            evaluate_checkpoint(env_id, replace(options, eval=options.resume, summary=summary), contents)


def _is_of(summary: Path, steps: int) -> bool:
    """Whether a summary is of a training of so many steps: one that was prolonged has left another."""
    try:
        return json.loads(summary.read_text("utf-8"))["steps"] == steps
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _plan(
    env_id: str,
    options: Options,
    env_options: dict[str, Any],
    trainer: Trainer,
    deadline: float,
    hooks: Sequence[Hook],
) -> Plan:
    seed, deterministic, films = trainer.config.seed + SEED_OFFSET, not options.eval_stochastic, []
    if options.video_every and trainer.ranks.first:
        film = partial(make_env, env_id, options, env_options, num_worlds=1, **DRAWN)
        films = [Filming(film, options.video, options.video_every, seed, deterministic)]
    evaluating = None
    if options.evaluate_every:
        worlds = partial(make_env, env_id, options, env_options, num_worlds=options.eval_episodes)
        how = options.evaluate_every, seed + SEED_OFFSET, deterministic
        evaluating = Evaluating(worlds, *how, options.keep_best, options.stop_at)
    viewer = getattr(trainer.env, "viewer", None)
    released = [viewer.resume] if viewer else []
    return Plan(options.checkpoint_every, evaluating, deadline, [*hooks, *films], released)


def _conclude(
    env_id: str,
    options: Options,
    trainer: Trainer,
    run: dict[str, Any],
    folder: Path,
    tracked: Sequence[Tracker],
    end: End | BaseException,
) -> None:
    """Draws the curve, evaluates a finished training, and reports."""
    fault = None if isinstance(end, End) else end
    if isinstance(fault, disk.NotWritten):
        raise RunError(f"training stopped after {trainer.global_step:,} steps: {fault}") from fault
    judged = measure(trainer.env)
    picture, title = folder / "learning_curve.png", f"{env_id}, seed {trainer.config.seed}"
    shown = {"measure": judged, "random": run["random"]["mean"], "steps": trainer.global_step}
    draw = partial(draw_curve, run["curve"], title=title, path=picture, **shown)
    draw(evaluation=None)
    print(text_curve(run["curve"], random=run["random"]["mean"]))
    print(f"trained         {trainer.global_step:,} steps in {run['train_seconds']:.2f} s")
    print(f"learning curve  {picture}")
    saved = (folder / "checkpoint.pt").exists()
    print(f"checkpoint      {folder / 'checkpoint.pt' if saved else 'none: no iteration was completed'}")
    evaluation = {}
    if end is End.FINISHED:
        evaluation = evaluated(env_id, options, run["env_options"], trainer.agents, trainer.config.seed)
        draw(evaluation=evaluation.get(f"eval_{judged}_mean"))
        summary = summary_of(run, trainer.config, trainer.global_step, evaluation, judged)
        write_summary(options.summary or folder / SUMMARY, summary)
    outcome = {name: value for name, value in evaluation.items() if name.endswith(("_mean", "_std", "_min"))}
    for tracker in tracked:
        tracker.close({name: value for name, value in outcome.items() if value is not None})
    if options.show and (problem := show_picture(picture)):
        print(problem)
    if end is not End.FINISHED and trainer.iteration < trainer.num_iterations and saved:
        why = "Stopped early" if end is not End.OUT_OF_TIME else f"Stopped after {options.max_hours:g} hours"
        print(f"{why}. Go on with --resume {folder / 'checkpoint.pt'}")
    if fault:
        reason = fault.faults[0] if isinstance(fault, WorldFault) else fault
        if isinstance(fault, RankLost) and saved:
            steps = checkpoint.load(folder / "checkpoint.pt", env_id)["steps"]
            reason = f"{reason}; the last checkpoint is of {steps:,} steps"
        raise RunError(f"training failed after {trainer.global_step:,} steps: {reason}") from fault
    raise_if_failed(evaluation)


def _begin(
    env_id: str,
    options: Options,
    folder: Path,
    trainer: Trainer,
    run: dict[str, Any],
    resumed: dict[str, Any] | None,
) -> list[Tracker]:
    """Measures the random policy unless a checkpoint has it, and reports and writes the settings of the run."""
    if resumed:
        run |= {name: resumed[name] for name in ("curve", "evaluations", "train_seconds", "random")}
    else:
        run["random"] = random_baseline(env_id, options, run["env_options"])
    judged = measure(trainer.env)
    _print_random(run["random"], judged)
    if judged == "return" and getattr(trainer.env, "team", None) is not None:
        print("A mean over teams hides who wins: see charts/episodic_return/agent_<i>.")
    steps, count = trainer.num_iterations * trainer.batch_size, trainer.ranks.count
    among = f" in {count} processes" if count > 1 else ""
    print(f"Training {env_id} for {steps:,} steps on {trainer.device}{among}.")
    forget_later(folder, trainer.global_step)
    described = _describe(folder, env_id, options, run["env_options"], trainer)
    return [tracker(folder, described, trainer.global_step) for tracker in trackers(options.track)]


def _print_random(random: baseline.Baseline, judged: str) -> None:
    if random["error"]:
        print(f"random policy   not measured: {random['error']}")
    else:
        print(f"random policy   mean {judged} {random['mean']:.2f}, {random['episodes']} episodes")


OF_NETWORKS = ("hidden_sizes", "encoders", "memory", "memory_size", "central_critic", "norm_obs", "policies")
"""Settings on which names and shapes of the networks' parameters depend."""


def _take_networks(trainer: Trainer, path: Path | None, contents: dict[str, Any]) -> None:
    """Begin with the networks of another run."""
    try:
        for group, state in zip(trainer.groups, contents["trainer"]["groups"], strict=True):
            group.agent.load_state_dict(state["agent"])
    except (RuntimeError, ValueError) as error:  # names or shapes of layers, the number of policies
        shown = f"--load {path}: its networks are not those of these settings"
        made = contents["trainer"]["config"]
        changed = [name for name in OF_NETWORKS if made.get(name) != getattr(trainer.config, name)]
        if changed:
            pairs = [(name, made.get(name), getattr(trainer.config, name)) for name in changed]
            differences = " and ".join(f"{name} {made_with}, not {own}" for name, made_with, own in pairs)
            raise UsageError(f"{shown}: they were made with {differences}") from error
        raise UsageError(f"{shown}, or of this environment with other options") from error


def _describe(
    folder: Path, env_id: str, options: Options, env_options: dict[str, Any], trainer: Trainer
) -> dict[str, Any]:
    """Writes settings and origin of the run into its folder; returns the settings."""
    settings_file.write(folder / "config.toml", env_id, options, env_options)
    file = folder / "run.json"
    before = json.loads(file.read_text("utf-8"))["runs"] if options.resume and file.exists() else []
    facts = provenance.facts(trainer.device) | {"from_step": trainer.global_step, "processes": trainer.ranks.count}
    disk.write_text(file, json.dumps({"env": env_id, "runs": [*before, facts]}, indent=2) + "\n")
    options_of_env = {f"env.{name}": value for name, value in env_options.items()}
    return {"env": env_id, **asdict(trainer.config), **options_of_env}


def _run_folder(env_id: str, options: Options) -> Path:
    if options.run_dir:
        return made(options.run_dir)
    if options.resume:
        return options.resume.parent
    return new_folder(f"{short_name(env_id)}-seed{options.config.seed}")


def _refuse_another_run(folder: Path, options: Options) -> None:
    """Only who resumes a checkpoint of this folder may go on in it."""
    own = options.resume is not None and options.resume.resolve().parent == folder.resolve()
    if (folder / checkpoint.NAME).exists() and not own:
        raise UsageError(f"folder {folder} has the checkpoint of another run; resume it or name another folder")


@contextmanager
def _before_the_first_step(resumed: dict[str, Any] | None, options: Options) -> Iterator[None]:
    """Where a signal comes in the meantime: says that it has cost nothing."""
    try:
        yield
    except KeyboardInterrupt as error:
        left = "nothing was trained yet, and --resume auto begins"
        if resumed:
            left = f"--resume auto goes on from {options.resume} of {resumed['steps']:,} steps, as before"
        raise RunError(f"interrupted before the training{signals.cause(error)}; {left}") from error


@contextmanager
def _behind_the_last_step(end: End | BaseException, folder: Path, steps: int) -> Iterator[None]:
    """Where a signal comes in the meantime: says what is saved, and what is missing."""
    try:
        yield
    except KeyboardInterrupt as error:
        left = "evaluates it" if end is End.FINISHED else "goes on from it"
        saved = f"{folder / checkpoint.NAME} has all {steps:,} steps, and --resume auto {left}"
        raise RunError(f"interrupted after the training{signals.cause(error)}; {saved}") from error


@contextmanager
def _lost() -> Iterator[None]:
    """Turns the loss of another process into a RunError."""
    try:
        yield
    except RankLost as error:
        processes.let_an_error_be_printed()
        raise RunError(str(error)) from error
    except RankFailed as error:
        raise RunError(str(error)) from error
