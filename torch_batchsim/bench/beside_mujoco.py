"""MuJoCo as a contender of ``python -m torch_batchsim.bench physics``.

MuJoCo steps the scenes by ``mujoco.rollout``, its own way to step many worlds on several threads, on as many threads as
ours and with a time step of a substep: levels once with its default options and once with fewer iterations of its
solver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import ants
from .contenders import LEVELS, SETTLING, Contender, Options, threads_of
from .levels import AGENTS, FORCE, HOLD, TORQUE, agents, level
from .mujoco_scenes import mjcf, mujoco

STEPS = 30  # of each timed call
WORLDS = 64  # more change nothing: each thread takes them one by one
# Attributes of MJCF's <option>: MuJoCo's defaults (Newton's method, pyramidal cones, Euler's integrator), and few
# iterations; with 4 of them some levels burst apart.
SOLVERS = {"as it comes": "", "at most 10 iterations": 'iterations="10" ls_iterations="10"'}
REFERENCE = 1e-4  # seconds, the time step that both are compared with


def levels_beside(options: Options) -> Iterator[Contender]:
    """Levels with each solver, with all agents pushed and with one."""
    levels = [level(seed) for seed in range(LEVELS)]
    substeps = levels[0].substeps
    for label, solver in SOLVERS.items():
        for pushed in (AGENTS, 1):
            texts = [mjcf(s, s.dt / substeps, solver, stiff=False, pushed=agents()) for s in levels]
            run, random = MuJoCoRollout(texts, WORLDS, threads_of(options), substeps), np.random.default_rng(0)
            for _ in range(-(-SETTLING // STEPS)):
                run.advance(pushes(random, WORLDS, pushed))
            figures = {
                "engine": f"mujoco {run.version}: {label}", "worlds": WORLDS, "pushed": pushed, "rays": "no",
                "contacts": run.contacts(),
            }  # fmt: skip
            batches = [pushes(random, WORLDS, pushed) for _ in range(4)]
            yield Contender(figures, run.advance, batches, WORLDS * STEPS)


def pushes(random: np.random.Generator, worlds: int, pushed: int) -> np.ndarray:
    """``[worlds, STEPS, 3 * agents]``: forces and torques that last for some steps each."""
    drawn = random.uniform(-1, 1, (worlds, -(-STEPS // HOLD), 3 * AGENTS)) * np.tile((FORCE, FORCE, TORQUE), AGENTS)
    drawn[..., 3 * pushed :] = 0.0
    return np.repeat(drawn, HOLD, axis=1)[:, :STEPS]


def ants_beside(options: Options) -> Iterator[Contender]:
    """Ants with its default options."""
    scene, in_air = ants.ant(), ants.ant(in_air=True)
    text = mjcf(scene, scene.dt / scene.substeps, stiff=False)
    run = MuJoCoRollout([text], WORLDS, threads_of(options), scene.substeps)
    random = np.random.default_rng(0)

    def torques() -> np.ndarray:
        return random.uniform(-ants.TORQUE, ants.TORQUE, (WORLDS, STEPS, 8))

    for _ in range(-(-SETTLING // STEPS)):
        run.advance(torques())
    figures = {"engine": f"mujoco {run.version}: as it comes", "worlds": WORLDS}

    def kept() -> dict[str, Any]:
        depth = ants.depth_below_floor(*run.poses())
        places = flown(mjcf(in_air, in_air.dt / in_air.substeps, stiff=False), in_air.substeps)
        return {"penetration_mm": float(depth.max()) * 1e3, "separation_mm": 0.0, "places": places}

    yield Contender(figures, run.advance, [torques() for _ in range(4)], WORLDS * STEPS, kept=kept)


def flown(text: str, substeps: int) -> np.ndarray:
    """``[ants, bodies, 3]``: places after the flights of ants.py."""
    torques = ants.flights()
    run = MuJoCoRollout([text], len(torques), 1, substeps)
    run.advance(torques)
    places = run.poses()[0]
    run.close()
    return places


def drift(places: np.ndarray) -> float:
    """The median distance after the flights, m, from MuJoCo with small time steps and hard limits."""
    scene = ants.ant(in_air=True)
    reference = flown(mjcf(scene, REFERENCE, 'integrator="implicitfast"'), round(scene.dt / REFERENCE))
    return float(np.median(np.linalg.norm(places - reference, axis=-1)))


class MuJoCoRollout:
    """Worlds of MuJoCo that go on from call to call; world ``w`` has model ``w % len(texts)``.

    Args:
        texts: MJCF of models with the same bodies in the same order, so that states have one size.
        worlds: how many.
        threads: of the rollout.
        substeps: time steps of a step.
    """

    def __init__(self, texts: Sequence[str], worlds: int, threads: int, substeps: int) -> None:
        self._mujoco = mujoco()
        from mujoco import rollout

        self._substeps = substeps
        self.version = self._mujoco.__version__
        models = [self._mujoco.MjModel.from_xml_string(text) for text in texts]
        self._models = [models[w % len(models)] for w in range(worlds)]
        self._threads = [self._mujoco.MjData(models[0]) for _ in range(threads)]
        self._rollout = rollout.Rollout(nthread=threads)
        full = self._mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.states = np.empty((worlds, self._mujoco.mj_stateSize(models[0], full)))
        self._warm = np.zeros((worlds, models[0].nv))
        for state, model in zip(self.states, self._models, strict=True):
            data = self._mujoco.MjData(model)
            self._mujoco.mj_forward(model, data)
            self._mujoco.mj_getState(model, data, state, full)

    def advance(self, controls: np.ndarray) -> None:
        """All worlds by the steps of controls ``[worlds, steps, actuators]``."""
        states, _ = self._rollout.rollout(
            self._models,
            self._threads,
            self.states,
            np.repeat(controls, self._substeps, axis=1),
            initial_warmstart=self._warm,
        )
        self.states = states[:, -1].copy()

    def _forward(self) -> Iterator[Any]:
        full = self._mujoco.mjtState.mjSTATE_FULLPHYSICS
        for state, model in zip(self.states, self._models, strict=True):
            data = self._mujoco.MjData(model)
            self._mujoco.mj_setState(model, data, state, full)
            self._mujoco.mj_forward(model, data)
            yield data

    def contacts(self) -> float:
        """Points of contact in a world, on average."""
        return float(np.mean([data.ncon for data in self._forward()]))

    def poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Of bodies: centres of mass ``[worlds, bodies, 3]``, rotations ``[worlds, bodies, 4]`` of their shapes."""
        shapes = self._models[0].body_geomadr[1:]  # each has one
        places, rotations = [], np.empty((len(self._models), len(shapes), 4))
        for world, data in enumerate(self._forward()):
            places.append(data.xipos[1:].copy())
            for row, matrix in zip(rotations[world], data.geom_xmat[shapes], strict=True):
                self._mujoco.mju_mat2Quat(row, matrix)
        return np.stack(places), rotations

    def close(self) -> None:
        """End the threads."""
        self._rollout.close()
