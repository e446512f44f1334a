"""From the first iteration to the last: curve, checkpoints, signals, and early ends."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from torch_batchsim import StepInterrupted, StepTimeout, SystemCrash, WorldFault, command_line

from ..algorithms.trainer import Trainer
from ..base import signals
from ..base.ranks import RankFailed, RankLost
from ..rollouts.environment import check_faults, measure
from ..rollouts.evaluation import UNMEASURED, evaluate
from ..rollouts.finite import NoLegalAction, NotFinite
from . import checkpoint, disk
from .report import Report
from .tracking import Tracker
from .video import Recorder

FAILURES = (WorldFault, NotFinite, NoLegalAction, StepInterrupted, StepTimeout, SystemCrash, RankFailed)
"""Errors that end a training and leave its networks intact."""


Hook = Callable[[Trainer, Report], bool]
"""Called after each iteration; true ends the training. Its time does not count as the training's."""

EVALUATIONS = "charts/evaluation"
"""The metric of evaluations during a training, NaN in iterations without one."""
LEAGUE = "league"
"""The folder in a run's with the policies that were kept."""


@dataclass(frozen=True)
class Filming:
    """Called after each iteration; writes `game-000128000.gif` beside `game.gif` every so many, but for the last.

    `make_env` makes an environment of one world that draws, apart from that of the training.
    """

    make_env: Callable[[], VectorEnv]
    path: Path
    every: int
    seed: int
    deterministic: bool

    def __call__(self, trainer: Trainer, report: Report) -> bool:
        if trainer.iteration % self.every or trainer.iteration == trainer.num_iterations:
            return False
        path = self.path.with_name(f"{self.path.stem}-{trainer.global_step:09}{self.path.suffix}")
        env = self.make_env()
        recorder = Recorder(env)
        try:
            evaluate(env, trainer.agents, self.seed, self.deterministic, recorder)
            path.parent.mkdir(parents=True, exist_ok=True)
            recorder.write(path)
        except (*UNMEASURED, OSError) as error:  # the training goes on
            report.bar.write(f"no video after {trainer.global_step:,} steps: {error}")
        else:
            report.bar.write(f"video           {path}")
        finally:
            env.close()
        return False


@dataclass(frozen=True)
class Evaluating:
    """Evaluates the policy after every so many iterations, in worlds of its own.

    `make_env` makes these worlds. The seed differs from that of the last evaluation, so that a checkpoint which is the
    best of many by these episodes is not measured by them.
    """

    make_env: Callable[[], VectorEnv]
    every: int
    seed: int
    deterministic: bool
    keep_best: bool
    stop_at: float | None

    def __call__(self, trainer: Trainer, report: Report) -> float:
        """The mean return, or score; NaN where it has none."""
        env = self.make_env()
        try:
            returns, lengths = evaluate(env, trainer.agents, self.seed, self.deterministic)
            mean = returns[lengths > 0].mean().item()
            report.bar.write(f"evaluation      mean {measure(env)} {mean:.2f} after {trainer.global_step:,} steps")
            return mean if math.isfinite(mean) else math.nan
        except UNMEASURED as error:  # the training goes on
            report.bar.write(f"no evaluation after {trainer.global_step:,} steps: {error}")
            return math.nan
        finally:
            env.close()


def is_reached(stop_at: float | None, evaluations: Sequence[tuple[int, float]], steps: int) -> bool:
    """Whether the evaluation after so many steps is one that ends the training."""
    return stop_at is not None and any(at == steps and mean >= stop_at for at, mean in evaluations[-1:])


@dataclass(frozen=True)
class Plan:
    """When a training saves, evaluates and ends.

    `deadline` is a time of `time.monotonic()`. `released` are called by signals that end the training: what they call
    lets go of a step that waits.
    """

    checkpoint_every: int
    evaluating: Evaluating | None = None
    deadline: float = math.inf
    hooks: Sequence[Hook] = ()
    released: Sequence[Callable[[], None]] = ()


class End(Enum):
    """Why a training has ended without a fault, and the exit status of its command."""

    FINISHED = auto()
    STOPPED = auto()
    OUT_OF_TIME = auto()

    @property
    def status(self) -> int:
        return 130 if self is End.STOPPED else 0


def learn(
    trainer: Trainer,
    run: dict[str, Any],
    keeper: checkpoint.Keeper | None,
    plan: Plan,
    tracked: Sequence[Tracker],
) -> End | BaseException:
    """Iterates to the end or until a signal or a fault; extends the run's curve and seconds, leaves a checkpoint.

    Only the first of several processes has a keeper.

    After a fault, or where there is NaN to learn from, which is returned, the checkpoint has the networks of the last
    whole iteration and new episodes. Parameters that are not finite are never saved: the checkpoint before stays.
    So it does where another process is lost, and its worlds with it.
    """
    total_steps, shown = trainer.num_iterations * trainer.batch_size, trainer.ranks.first
    report = Report(tracked, total_steps, trainer.global_step, run["curve"], measure(trainer.env), shown=shown)
    with closing(report), stop_on_signal(plan.released) as stopped:
        try:
            return _Learning(trainer, run, keeper, plan, report).to_the_end(stopped)
        except RankLost as lost:
            return lost


class _Learning:
    """See `learn`."""

    def __init__(
        self, trainer: Trainer, run: dict[str, Any], keeper: checkpoint.Keeper | None, plan: Plan, report: Report
    ) -> None:
        self.trainer, self.run, self.keeper, self.report, self.plan = trainer, run, keeper, report, plan
        self.folder = None if keeper is None else keeper.folder
        self.seconds_before, self.start = run["train_seconds"], time.perf_counter()
        self.is_best = False
        """Whether the policy is the best so far, and has not been saved as that."""

    def to_the_end(self, stopped: Callable[[], bool]) -> End | BaseException:
        trainer, end = self.trainer, End.STOPPED
        failure: BaseException | None = None
        try:
            end = self.iterate(stopped)
            with trainer.ranks.together():
                check_faults(trainer.env)
                trainer.check_finite()
        except disk.NotWritten as error:
            failure = error
            self.report.forget()
        except FAILURES as fault:
            failure, self.is_best = _cause(trainer, fault), False
            self.print_notes()
            with suppress(*FAILURES):
                trainer.begin_new_episodes()
        if all(group.learner.parameters.isfinite().all() for group in trainer.groups):
            try:
                self.save()
            except (disk.NotWritten, RankFailed) as error:
                failure = failure or error
                self.report.forget()
        return failure or end

    def iterate(self, stopped: Callable[[], bool]) -> End:
        trainer, ranks, plan = self.trainer, self.trainer.ranks, self.plan
        while trainer.iteration < trainer.num_iterations:
            if ranks.any(stopped()):
                return End.STOPPED
            if plan.deadline < math.inf and ranks.any(time.monotonic() > plan.deadline):
                return End.OUT_OF_TIME
            command_line.noted(trainer.env)  # of the iteration before
            metrics = trainer.iterate()
            if trainer.iteration.bit_count() == 1:
                self.print_notes()
            self.evaluate(metrics)
            to_save = trainer.iteration % plan.checkpoint_every == 0 and trainer.iteration < trainer.num_iterations
            with ranks.together(), disk.errors(self.folder):
                _keep_past(trainer, self.run, self.folder)
                reading = self.report.log(trainer.global_step, metrics)
            if ranks.any(reading) or to_save or self.is_best:
                with ranks.together():
                    trainer.check_finite()
            if to_save or self.is_best:
                self.save(newest=to_save)
            stop_at = None if plan.evaluating is None else plan.evaluating.stop_at
            if stop_at is not None and ranks.any(is_reached(stop_at, self.run["evaluations"], trainer.global_step)):
                return End.FINISHED
            began = time.perf_counter()
            if ranks.any(any(hook(trainer, self.report) for hook in plan.hooks)):
                return End.STOPPED
            self.start += time.perf_counter() - began
        return End.FINISHED

    def evaluate(self, metrics: dict[str, torch.Tensor]) -> None:
        """Evaluates where it is time to.

        Its time does not count as the training's. The first of several processes evaluates, and the others wait.
        """
        trainer, evaluating = self.trainer, self.plan.evaluating
        if evaluating is None:
            return
        mean, best = math.nan, False
        if trainer.iteration % evaluating.every == 0:
            began = time.perf_counter()
            with trainer.ranks.together():
                if trainer.ranks.first:
                    mean = evaluating(trainer, self.report)
            if not math.isnan(mean):
                best = all(mean > other for _, other in self.run["evaluations"])
                self.run["evaluations"].append((trainer.global_step, mean))
            self.is_best = trainer.ranks.any(best) and evaluating.keep_best
            self.start += time.perf_counter() - began
        metrics[EVALUATIONS] = torch.tensor(mean)

    def save(self, newest: bool = True) -> None:
        """A checkpoint, which the first of all processes writes: as the newest, as the best, or both.

        The best goes first, because the newest knows its evaluation and does not repeat it.
        """
        trainer = self.trainer
        with trainer.ranks.together(), disk.errors(self.folder):
            state = trainer.state_dict()  # first: all processes give theirs, whatever becomes of files
            self.report.read()
            self.run["train_seconds"] = self.seconds_before + time.perf_counter() - self.start
            if self.keeper is not None:
                contents = self.run | {"steps": trainer.global_step, "trainer": state}
                if self.is_best:
                    self.keeper.save_best(contents)
                if newest:
                    self.keeper.save(contents)
            self.is_best = False

    def print_notes(self) -> None:
        """Prints the lines that systems logged in the last iteration."""
        if lines := command_line.noted(self.trainer.env):
            self.report.bar.write(f"logs of iteration {self.trainer.iteration}:\n{lines}")


def _keep_past(trainer: Trainer, run: dict[str, Any], folder: Path | None) -> None:
    """Writes the policy that was kept before this iteration, if one was, for matches of the whole league."""
    league, iteration = trainer.league, trainer.iteration - 1
    if folder is None or league is None or league.members[-1]["iteration"] != iteration:
        return
    (folder / LEAGUE).mkdir(exist_ok=True)
    steps = iteration * trainer.batch_size
    kept = {"env": run["env"], "env_options": run["env_options"], "steps": steps}
    kept["trainer"] = league.latest([group.acting.team for group in trainer.groups])
    checkpoint.save(folder / LEAGUE / f"{steps:012}.pt", kept)


def forget_later(folder: Path, steps: int) -> None:
    """Removes the policies of the league's folder that were kept after so many steps, or by another run if there were
    none: this run keeps its own, and a match of the whole folder is not to mix them."""
    for path in (folder / LEAGUE).glob("*.pt"):
        if path.stem.isdigit() and int(path.stem) >= steps:
            path.unlink()


def _cause(trainer: Trainer, fault: BaseException) -> BaseException:
    """An earlier cause of a fault: a value that was not finite, or a missing legal action."""
    try:
        trainer.check_finite()
    except (NotFinite, NoLegalAction) as cause:
        return cause
    return fault


SECONDS_OF_ONE_CTRL_C = 0.5
"""Within these a second SIGINT is of the same one: terminal and torchrun both send it."""


@contextmanager
def stop_on_signal(released: Sequence[Callable[[], None]] = ()) -> Iterator[Callable[[], bool]]:
    """Lets Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end the training after an iteration; a second Ctrl-C ends it at once.

    Others may come twice, from a launcher and from the system, and must not cut the last checkpoint short: after one
    all are ignored, until the command ends.
    """
    received: list[float] = []

    def receive(number: int, frame: object) -> None:
        now = time.monotonic()
        received.append(now)
        for let_go in released:
            let_go()
        if number != signal.SIGINT:
            before.update(dict.fromkeys(before.keys() - {signal.SIGINT}, signal.SIG_IGN))
        if number == signal.SIGINT and now - received[0] > SECONDS_OF_ONE_CTRL_C:
            signal.signal(signal.SIGINT, before[signal.SIGINT])
            signal.raise_signal(signal.SIGINT)

    before = {number: signal.signal(number, receive) for number in [signal.SIGINT, *signals.endings()]}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
