"""dm_env: one world as a ``dm_env.Environment``, NumPy in and out.

>>> from torch_batchsim.adapters.dm_env import DmEnvironment
>>> env = DmEnvironment("torch_batchsim/CartPole-v0", seed=0)
>>> timestep = env.reset()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from ..declare.environment import Environment
from ..declare.spaces import choices
from ..memory.inputs import checked_seed
from ..vector.vector_env import TorchVectorEnv
from .dm_specs import spec_of
from .one_world import OneWorld, fits, mapped
from .records import ADAPTERS, Played

RECORD = ADAPTERS["dm_env"]
RECORD.require()

import dm_env  # noqa: E402
from dm_env import specs  # noqa: E402


class DmEnvironment(dm_env.Environment):
    """One world. With one agent values are the agent's; with several they have a row for each, ``[agents, ...]``.

    Args:
        env: an id such as ``"torch_batchsim/CartPole-v0"``, or a declared environment.
        seed: of the first episode; the later ones follow from it. None draws one.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own.

    Attributes: ``vector_env``, the ``TorchVectorEnv`` of one world, whose ``sim`` has the state.

    ``observation`` is an array (or a dict of them). Where the environment has masks of actions or inactive agents, it
    is a dict: ``"observation"``, ``"action_mask"`` (bool ``[n]``) and ``"active"`` (bool, of each agent).

    An episode ends with its world's: LAST. ``discount`` is 0 at a termination, 1 at a truncation and everywhere else.
    With several agents reward and discount are float32 ``[agents]``: the discount of an agent is 0 in the step of its
    own end, and as long as it is inactive.
    """

    def __init__(self, env: str | Environment, *, seed: int | None = None, **options: Any) -> None:
        self._seed = checked_seed(seed)
        self._world = OneWorld(env, RECORD.interface("DmEnvironment"), **options)
        self._one = self._world.agents == 1
        self._over = True
        self._observation_spec = self._specs()
        self._action_spec = spec_of(self._world.action_space, "action", self._rows)

    @property
    def _rows(self) -> tuple[int, ...]:
        return () if self._one else (self._world.agents,)

    @property
    def vector_env(self) -> TorchVectorEnv:
        """The vector environment of one world."""
        return self._world.vector

    def _specs(self) -> Any:
        space, environment = self._world.observation_space, self._world.vector.environment
        spaces = space.spaces if isinstance(space, gymnasium.spaces.Dict) else None
        if spaces is None:
            seen: Any = spec_of(space, "observation", self._rows)
        else:
            seen = {key: spec_of(part, key, self._rows) for key, part in spaces.items()}
        shapes = {"action_mask": (*self._rows, choices(self._world.action_space)), "active": self._rows}
        self._more = [name for name in shapes if getattr(environment, name) is not None]
        masks = {name: specs.Array(shapes[name], bool, name) for name in self._more}
        return {"observation": seen, **masks} if masks else seen

    # ---- the contract ----------------------------------------------------------------------------------------------

    def observation_spec(self) -> Any:
        """A ``BoundedArray``, or a dict of specs."""
        return self._observation_spec

    def action_spec(self) -> specs.BoundedArray:
        """A ``DiscreteArray`` for one agent with a ``Discrete`` space, else a ``BoundedArray`` ``[agents, ...]``."""
        return self._action_spec

    def reward_spec(self) -> specs.Array:
        """Float64 ``[]`` with one agent, float32 ``[agents]`` with several."""
        return super().reward_spec() if self._one else specs.Array(self._rows, np.float32, "reward")

    def discount_spec(self) -> specs.BoundedArray:
        """As the reward, from 0 to 1."""
        return super().discount_spec() if self._one else specs.BoundedArray(self._rows, np.float32, 0, 1, "discount")

    def reset(self, options: Mapping[str, Any] | None = None) -> dm_env.TimeStep:
        """Begin an episode. ``options``: the environment's ``reset_options``, without a dimension for worlds."""
        self._world.reset(self._seed, dict(options or {}))
        self._seed, self._over = None, False
        return dm_env.restart(self._observation())

    def step(self, action: Any) -> dm_env.TimeStep:
        """Take one step; after the end of an episode, and at first, begin one instead.

        ``action``: a number, array or list of the spec's shape, of integers unless the space is a Box. Raises
        ValueError for anything else, and nothing has changed.
        """
        if self._over:
            return self.reset()
        world = self._world
        self._act(action)
        world.step()
        self._over = world.ended
        kind = dm_env.StepType.LAST if self._over else dm_env.StepType.MID
        if self._one:
            reward, discount = world.rewards.item(), 0.0 if world.terminations.item() else 1.0
        else:
            reward, discount = world.rewards.copy(), 1 - world.terminations.astype(np.float32)
            if world.active is not None:
                discount *= world.active | world.truncations
        return dm_env.TimeStep(kind, reward, discount, self._observation())

    def close(self) -> None:
        """Close the world."""
        self._world.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _observation(self) -> Any:
        def copied(rows: np.ndarray) -> np.ndarray:
            return rows[0].copy() if self._one else rows.copy()

        world = self._world
        seen = mapped(copied, world.observations)
        return (
            {"observation": seen} | {name: copied(getattr(world, name)) for name in self._more} if self._more else seen
        )

    def _act(self, action: Any) -> None:
        if not fits(action, self._world.action_space, self._rows):
            raise ValueError(f"action must fit {self._action_spec}, got {action!r}")
        self._world.actions[:] = action


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """One world."""
    env = DmEnvironment(environment, seed=0, **options)
    env.reset()
    return Played(env, DmEnvironment.step, [0, 1] * 8)
