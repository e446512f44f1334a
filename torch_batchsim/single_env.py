"""One world as a plain gymnasium environment, for code that steps single environments and for gymnasium's checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from .environment import Environment
from .inputs import checked_options, checked_seed, number_tensor
from .simulator import Simulator
from .vector_env import TorchVectorEnv
from .vector_inputs import agents_per_world


class SingleEnv(gymnasium.Env):
    """One world with one agent: numpy observations, plain numbers.

    Raises ValueError for an environment with several agents in a world; ``JointEnv`` and ``OneAgentEnv`` are for those.
    """

    def __init__(self, environment: Environment, *, render_mode: str | None = None, device: str = "cpu") -> None:
        self._check_agents(environment.name, agents_per_world(environment))
        self._vector = TorchVectorEnv(
            environment,
            num_worlds=1,
            device=device,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
            num_threads=1,
            copy=False,  # each result is copied out at once
        )
        self.render_mode = render_mode
        self.metadata = {key: value for key, value in self._vector.metadata.items() if key != "autoreset_mode"}
        self.action_space = self._vector.single_action_space
        self.observation_space = self._vector.single_observation_space

    def _check_agents(self, name: str, agents: int) -> None:
        if agents != 1:
            raise ValueError(
                f"{name} has {agents} agents in a world; use gymnasium.make, which gives a dict of their actions or "
                "as_agent=0 with a partner, or gymnasium.make_vec, where each is a row"
            )

    @property
    def sim(self) -> Simulator:
        """The simulator of the one world."""
        return self._vector.sim

    @property
    def environment(self) -> Environment:
        """The declaration."""
        return self._vector.environment

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode. ``options``: the environment's ``reset_options``, without a dimension for worlds."""
        observations, infos = self._begin(seed, options)
        return first(observations), first(infos)

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        """What the vector environment returns of a reset."""
        options = checked_options(options, tuple(self._vector.environment.reset_options), " here")
        seed = checked_seed(seed)
        given = {name: number_tensor(value, name)[None] for name, value in options.items()}
        results = self._vector.reset(seed=seed, options=given)
        super().reset(seed=seed)
        return results

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step. After the end of an episode the world stands still until ``reset``.

        The flags are those of the only row: after its own end (``AgentEnd``) its world goes on, if it is stepped.
        """
        actions = np.asarray(action)[None]
        observation, rewards, terminations, truncations, infos = self._vector.step(actions)
        return first(observation), rewards.item(), terminations.item(), truncations.item(), first(infos)

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """Call it for what is legal now, bool ``[n]``, as ``info["action_mask"]`` told last; sb3_contrib does so.

        Raises AttributeError where the environment has no masks, so that ``hasattr`` tells.
        """
        if "action_mask" not in self._vector.sim.program.info:
            raise AttributeError(f"{self.environment.name} has no action masks: every action is legal")
        return self._masks

    def _masks(self) -> np.ndarray:
        return first(self._vector.action_mask)

    def render(self) -> np.ndarray | str | None:
        """A picture ``uint8 [height, width, 3]`` with ``render_mode="rgb_array"``, a text with "ansi"."""
        frames = self._vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the world; everything but ``close`` raises from then on."""
        self._vector.close()


def first(value: Any) -> Any:
    """The first row or world of tensors, also in dicts, as arrays of their own."""
    if isinstance(value, dict):
        return {key: first(part) for key, part in value.items()}
    return value[0].cpu().numpy().copy()
