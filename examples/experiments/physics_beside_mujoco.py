"""Our physics beside MuJoCo: the levels of ``python -m torch_batchsim.bench physics``, in turns in one run.

MuJoCo steps the levels by ``mujoco.rollout``, its own way to step many worlds on several threads, with a time step of
1/120 s and four of them in a step, on as many threads as ours: once with its default options, and once with fewer
iterations of its solver. Options are those of ``bench physics``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mujoco_scenes import mjcf, mujoco

from torch_batchsim.bench.levels import AGENTS, FORCE, HOLD, TORQUE, agents, level
from torch_batchsim.bench.physics import LEVELS, SETTLING, Contender, Options, report, threads_of
from torch_batchsim.bench.scenes import Scene
from torch_batchsim.command_line import parsed

STEPS = 30  # of each timed call
MUJOCO_WORLDS = 64  # more change nothing: each thread takes them one by one
# Attributes of MJCF's <option>: MuJoCo's defaults (Newton's method, pyramidal cones, Euler's integrator), and few
# iterations; with 4 of them some levels burst apart.
SOLVERS = {"as it comes": "", "at most 10 iterations": 'iterations="10" ls_iterations="10"'}


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    report(parsed(Options, "python examples/experiments/physics_beside_mujoco.py", arguments), contenders)


def contenders(options: Options) -> Iterator[Contender]:
    """MuJoCo with each solver, with all agents pushed and with one."""
    levels = [level(seed) for seed in range(LEVELS)]
    for label, solver in SOLVERS.items():
        for pushed in (AGENTS, 1):
            run = MuJoCoRollout(levels, MUJOCO_WORLDS, threads_of(options), solver, pushed)
            for _ in range(-(-SETTLING // STEPS)):
                run.advance(run.controls())
            figures = {
                "engine": f"mujoco {run.version}: {label}", "worlds": MUJOCO_WORLDS, "pushed": pushed, "rays": "no",
                "contacts": run.contacts(),
            }  # fmt: skip
            yield Contender(figures, run.advance, [run.controls() for _ in range(4)], MUJOCO_WORLDS * STEPS)


class MuJoCoRollout:
    """Worlds of MuJoCo that go on from call to call; world ``w`` has level ``w % len(levels)``.

    Args:
        levels: with the same bodies in the same order, so that states have one size.
        worlds: how many.
        threads: of the rollout.
        options: further attributes of ``<option>``.
        pushed: how many of the agents; the others stand still.
    """

    def __init__(self, levels: Sequence[Scene], worlds: int, threads: int, options: str, pushed: int) -> None:
        self._mujoco = mujoco()
        from mujoco import rollout

        scene = levels[0]
        self._substeps, self._pushed = scene.substeps, pushed
        self.version = self._mujoco.__version__
        texts = [mjcf(s, s.dt / s.substeps, options, stiff=False, pushed=agents()) for s in levels]
        models = [self._mujoco.MjModel.from_xml_string(text) for text in texts]
        self._models = [models[w % len(models)] for w in range(worlds)]
        self._threads = [self._mujoco.MjData(models[0]) for _ in range(threads)]
        self._rollout = rollout.Rollout(nthread=threads)
        self._random = np.random.default_rng(0)
        full = self._mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.states = np.empty((worlds, self._mujoco.mj_stateSize(models[0], full)))
        self._warm = np.zeros((worlds, models[0].nv))
        for state, model in zip(self.states, self._models, strict=True):
            data = self._mujoco.MjData(model)
            self._mujoco.mj_forward(model, data)
            self._mujoco.mj_getState(model, data, state, full)
        self._made: Any = None

    def controls(self) -> np.ndarray:
        """``[worlds, STEPS * substeps, actuators]``: pushes that last for some steps each."""
        worlds, count = len(self._models), self._models[0].nu
        pushes = self._random.uniform(-1, 1, (worlds, -(-STEPS // HOLD), count))
        pushes *= np.tile((FORCE, FORCE, TORQUE), count // 3)
        pushes[..., 3 * self._pushed :] = 0.0
        return np.repeat(pushes, HOLD * self._substeps, axis=1)[:, : STEPS * self._substeps].copy()

    def advance(self, controls: np.ndarray) -> None:
        """All worlds by STEPS steps of the levels' dt."""
        states, _ = self._rollout.rollout(
            self._models, self._threads, self.states, controls, initial_warmstart=self._warm
        )
        self.states = states[:, -1].copy()

    def contacts(self) -> float:
        """Points of contact in a world, on average."""
        full, found = self._mujoco.mjtState.mjSTATE_FULLPHYSICS, []
        for state, model in zip(self.states[:64], self._models, strict=False):
            data = self._mujoco.MjData(model)
            self._mujoco.mj_setState(model, data, state, full)
            self._mujoco.mj_forward(model, data)
            found.append(data.ncon)
        return float(np.mean(found))

    def close(self) -> None:
        """End the threads."""
        self._rollout.close()


if __name__ == "__main__":
    main(sys.argv[1:])
