"""Videos during a training: an episode of the policy as it is by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gymnasium.vector import VectorEnv

from ..algorithms.trainer import Trainer
from ..rollouts.evaluation import UNMEASURED, evaluate
from .report import Report
from .video import Recorder


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
