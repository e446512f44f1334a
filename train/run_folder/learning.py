"""From the first iteration to the last: curve, checkpoints, signals, and early ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv

from torch_batchsim import StepInterrupted, StepTimeout, SystemCrash, WorldFault, command_line

from ..algorithms.trainer import Trainer
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


def learn(
    trainer: Trainer,
    run: dict[str, Any],
    folder: Path | None,
    checkpoint_every: int,
    tracked: Sequence[Tracker],
    hooks: Sequence[Hook] = (),
) -> BaseException | None:
    """Iterates to the end or until a signal or a fault; extends the run's curve and seconds, leaves a checkpoint.

    After a fault, or where there is NaN to learn from, which is returned, the checkpoint has the networks of the last
    whole iteration and new episodes. Parameters that are not finite are never saved: the checkpoint before stays.
    So it does where another process is lost, and its worlds with it.
    """
    total_steps, shown = trainer.num_iterations * trainer.batch_size, trainer.ranks.first
    report = Report(tracked, total_steps, trainer.global_step, run["curve"], measure(trainer.env), shown=shown)
    with closing(report), stop_on_signal() as stopped:
        try:
            return _Learning(trainer, run, folder, checkpoint_every, report, hooks).to_the_end(stopped)
        except RankLost as lost:
            return lost


class _Learning:
    """See `learn`."""

    def __init__(
        self,
        trainer: Trainer,
        run: dict[str, Any],
        folder: Path | None,
        checkpoint_every: int,
        report: Report,
        hooks: Sequence[Hook],
    ) -> None:
        self.trainer, self.run, self.folder, self.report = trainer, run, folder, report
        self.checkpoint_every, self.hooks = checkpoint_every, hooks
        self.seconds_before, self.start = run["train_seconds"], time.perf_counter()

    def to_the_end(self, stopped: Callable[[], bool]) -> BaseException | None:
        trainer, failure = self.trainer, None
        try:
            self.iterate(stopped)
            with trainer.ranks.together():
                check_faults(trainer.env)
                trainer.check_finite()
        except disk.NotWritten as error:
            failure = error
            self.report.forget()
        except FAILURES as fault:
            failure = _cause(trainer, fault)
            self.print_notes()
            with suppress(*FAILURES):
                trainer.begin_new_episodes()
        if all(group.learner.parameters.isfinite().all() for group in trainer.groups):
            try:
                self.save()
            except (disk.NotWritten, RankFailed) as error:
                failure = failure or error
                self.report.forget()
        return failure

    def iterate(self, stopped: Callable[[], bool]) -> None:
        trainer, ranks = self.trainer, self.trainer.ranks
        while trainer.iteration < trainer.num_iterations and not ranks.any(stopped()):
            command_line.noted(trainer.env)  # of the iteration before
            metrics = trainer.iterate()
            if trainer.iteration.bit_count() == 1:
                self.print_notes()
            to_save = trainer.iteration % self.checkpoint_every == 0 and trainer.iteration < trainer.num_iterations
            with ranks.together(), disk.errors(self.folder):
                _keep_past(trainer, self.run, self.folder)
                reading = self.report.log(trainer.global_step, metrics)
            if ranks.any(reading) or to_save:
                with ranks.together():
                    trainer.check_finite()
            if to_save:
                self.save()
            began = time.perf_counter()
            if ranks.any(any(hook(trainer, self.report) for hook in self.hooks)):
                break
            self.start += time.perf_counter() - began

    def save(self) -> None:
        """A checkpoint, which the first of all processes writes."""
        trainer = self.trainer
        with trainer.ranks.together(), disk.errors(self.folder):
            state = trainer.state_dict()  # first: all processes give theirs, whatever becomes of files
            self.report.read()
            self.run["train_seconds"] = self.seconds_before + time.perf_counter() - self.start
            if trainer.ranks.first:
                contents = self.run | {"steps": trainer.global_step, "trainer": state}
                checkpoint.save(self.folder / checkpoint.NAME, contents)

    def print_notes(self) -> None:
        """Prints the lines that systems logged in the last iteration."""
        if lines := command_line.noted(self.trainer.env):
            self.report.bar.write(f"logs of iteration {self.trainer.iteration}:\n{lines}")


def _keep_past(trainer: Trainer, run: dict[str, Any], folder: Path) -> None:
    """Writes the policy that was kept before this iteration, if one was, for matches of the whole league."""
    league, iteration = trainer.league, trainer.iteration - 1
    if league is None or league.members[-1]["iteration"] != iteration:
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


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Lets Ctrl-C and SIGTERM end the training after an iteration; a second one ends it at once."""
    received = []

    def receive(number: int, frame: object) -> None:
        received.append(number)
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
