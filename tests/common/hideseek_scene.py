"""Scenes of hide and seek that are set up by hand: a world, where everything is, and what agents do in a step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import pi
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from support import emulated_cuda
from torch_batchsim.envs.hideseek import HideSeek, Level

from torch_batchsim import TorchVectorEnv

HIDER, OTHER_HIDER, SEEKER, OTHER_SEEKER = 0, 1, 3, 4
# Agents that a scene does not place: side by side at the lower edge, looking out.
PARKED = [(-16.0, -16.5, pi), (-13.0, -16.5, pi), (-10.0, -16.5, pi), (-7.0, -16.5, pi), (-4.0, -16.5, pi)]
GRAB, LOCK = (5, 5, 5, 1, 0), (5, 5, 5, 0, 1)
NOTHING = (5, 5, 5, 0, 0)
FORWARD, BACK = (5, 10, 5, 0, 0), (5, 0, 5, 0, 0)
LEFT, RIGHT = (5, 5, 10, 0, 0), (5, 5, 0, 0, 0)  # turns
FREE, FIXED = 2, 0  # kinds of motion
BY_NOBODY, BY_HIDERS, BY_SEEKERS = 0, 1, 2
# An agent in the middle with a cube ahead, half a metre away.
MIDDLE, AHEAD = (0.0, 0.0, 0.0), (0.0, 2.5, 0.0, False)
ROOM = ((-18.2, 0.0, 0.2, 18.4), (18.2, 0.0, 0.2, 18.4), (0.0, -18.2, 18.0, 0.2), (0.0, 18.2, 18.0, 0.2))


@cache
def _world(on_lanes: bool, **options: Any) -> TorchVectorEnv:
    how = {"_library": emulated_cuda("hideseek")} if on_lanes else {"num_threads": 1}
    return TorchVectorEnv(HideSeek(critic=True, **options), num_worlds=1, autoreset_mode=AutoresetMode.DISABLED, **how)


class Scene:
    """One world with the level that is given; agents by number, the others are parked.

    Scenes with the same options share an environment: one is over when the next begins.

    Args:
        agents: x, y, yaw by number; 0 to 2 are hiders, 3 and 4 seekers.
        boxes, ramps, walls: as ``Level`` has them.
        preparation: steps.
        on_lanes: on emulated CUDA, where a warp does what one thread does else.
        options: of the environment; only parameters, or it takes another build.
    """

    def __init__(
        self,
        agents: dict[int, tuple[float, float, float]] | None = None,
        *,
        boxes: Sequence[tuple[float, float, float, bool]] = (),
        ramps: Sequence[tuple[float, float, float]] = (),
        walls: Sequence[tuple[float, float, float, float]] = (),
        preparation: int = 0,
        on_lanes: bool = False,
        **options: Any,
    ) -> None:
        self.env = _world(on_lanes, preparation_steps=preparation, **options)
        self.sim = self.env.sim
        places = [(agents or {}).get(i, PARKED[i]) for i in range(len(PARKED))]
        level = Level(walls=walls, boxes=boxes, ramps=ramps, agents=places)
        self.views, self.infos = self.env.reset(seed=0, options=Level.options([level], self.env.environment))
        self.rewards, self.truncated = [0.0] * len(places), False

    def step(self, acts: dict[int, tuple[int, ...]] | None = None, times: int = 1) -> Scene:
        """Each agent does what is said, or nothing."""
        chosen = torch.tensor([(acts or {}).get(i, NOTHING) for i in range(len(PARKED))])
        for _ in range(times):
            self.views, rewards, _, truncated, self.infos = self.env.step(chosen)
            self.rewards, self.truncated = rewards.tolist(), bool(truncated[0])
        return self

    def rows(self, name: str) -> torch.Tensor:
        """A column of the world's agents, boxes or ramps, which may be written in: ``rows("Box.Thing.locked")``."""
        return self.sim.tensor(name)[0] if name.startswith("Agent") else self.sim.ragged(name).world(0)

    def place(self, table: str, row: int = 0) -> np.ndarray:
        return self.rows(f"{table}.physics.Pose.position")[row].numpy().astype(float)

    def put(self, table: str, row: int, *position: float) -> None:
        self.rows(f"{table}.physics.Pose.position")[row] = torch.tensor(position)

    def lock(self, table: str, row: int, side: int) -> None:
        """As if an agent of that side had locked it."""
        self.rows(f"{table}.Thing.locked")[row], self.rows(f"{table}.physics.Motion.kind")[row] = side, FIXED

    def thing(self, table: str = "Box", row: int = 0) -> tuple[int, int, int]:
        """By whom it is locked, 1 + who holds it, and its kind of motion."""
        names = ("Thing.locked", "Thing.holder", "physics.Motion.kind")
        locked, holder, motion = (int(self.rows(f"{table}.{name}")[row]) for name in names)
        return locked, holder, motion

    def holding(self) -> list[bool]:
        return [bool(joint.any()) for joint in self.rows("Agent.physics.Joint.b")]

    def sees(self, agent: int, what: str, row: int = 0) -> bool:
        """``what``: agents, boxes or ramps; of agents ``row`` is the number of another one."""
        column = row - (row > agent) if what == "agents" else row
        return bool(self.views[f"sees_{what}"][agent, column])

    def figure(self, name: str) -> float:
        values = self.infos[name].tolist()
        assert len(set(values)) == 1
        return values[0]
