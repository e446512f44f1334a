"""One world as a plain gymnasium environment, for code that steps single environments and for gymnasium's checkers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium import Space, Wrapper
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TimeLimit

from ..declare.environment import Environment, FixedOptions
from ..declare.run_options import RunKeywords, RunOptions
from ..memory.inputs import checked_options, checked_seed, number_tensor
from ..run.simulator import Simulator
from .vector_env import TorchVectorEnv
from .vector_inputs import agents_per_world

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SingleEnv(FixedOptions, gymnasium.Env):
    """One world with one agent: numpy observations, plain numbers.

    Args:
        environment: the declaration.
        render_mode, device: see ``TorchVectorEnv``.
        **run: how its simulator runs, see ``declare.run_options.RunOptions``; by default on one thread.

    Raises ValueError for an environment with several agents in a world; ``JointEnv`` and ``OneAgentEnv`` are for those.

    Attributes:
        follows_time_limit: whether systems see the limit of gymnasium's ``TimeLimit`` as ``max_episode_steps``, from
            the first reset by it on. ``gymnasium.make`` sets it, because only the wrapper knows that limit.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        render_mode: str | None = None,
        device: str = "cpu",
        **run: Unpack[RunKeywords],
    ) -> None:
        options = RunOptions.of(run, SingleEnv)
        self._check_agents(environment.name, agents_per_world(environment))
        self._vector = TorchVectorEnv(
            environment,
            num_worlds=1,
            device=device,
            autoreset_mode=AutoresetMode.DISABLED,
            render_mode=render_mode,
            copy=False,  # each result is copied out at once
            **(options if options.num_threads is not None else replace(options, num_threads=1)),
        )
        self.render_mode = render_mode
        self.follows_time_limit, self._limit = False, None
        self.metadata = {key: value for key, value in self._vector.metadata.items() if key != "autoreset_mode"}
        self.action_space = self._vector.single_action_space
        self.observation_space = self._vector.single_observation_space
        self._fix_options(environment)

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

    def hold(self, options: dict[str, Any] | None) -> None:
        """Let all later episodes begin with ``options``, until others are held; ``None`` releases them.

        They are as for ``reset``. Raises ValueError or TypeError before anything has changed.
        """
        self._vector.hold(None if options is None else self._one_world(options))

    def _one_world(self, options: dict[str, Any] | None) -> dict[str, torch.Tensor]:
        """Options of a reset with a dimension for worlds."""
        options = checked_options(options, tuple(self._vector.environment.reset_options), " here")
        return {name: number_tensor(value, name)[None] for name, value in options.items()}

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        """Reset, and return the vector environment's results."""
        self._follow_time_limit()
        given = self._one_world(options)
        seed = checked_seed(seed)
        results = self._vector.reset(seed=seed, options=given)
        super().reset(seed=seed)
        return results

    def _follow_time_limit(self) -> None:
        """Look for the wrapper by which this is reset."""
        if self.follows_time_limit and self._limit is None:
            limits = (wrapper for wrapper in _resetting_wrappers(self) if isinstance(wrapper, TimeLimit))
            self._set_limit(next((wrapper._max_episode_steps for wrapper in limits), None))

    def _set_limit(self, limit: int | None) -> None:
        self._limit = limit
        if limit is not None:
            self.sim.memory.context.parameters.max_episode_steps = limit

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy's simulator is made by its options, which do not have the limit."""
        self.__dict__.update(state)
        self._set_limit(self._limit)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step. After the end of an episode the world stands still until ``reset``.

        The flags are those of the only row: after its own end (``AgentEnd``) its world goes on, if it is stepped.
        Raises TypeError or ValueError for an action that is not in the action space; the world has not stepped then.
        """
        actions = checked_action(action, self.action_space)[None]
        observation, rewards, terminations, truncations, infos = self._vector.step(actions.to(self._vector.device))
        return first(observation), rewards.item(), terminations.item(), truncations.item(), first(infos)

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """A function that returns the legal actions, bool ``[n]``, as last in ``info["action_mask"]``; for sb3_contrib.

        Raises AttributeError where the environment has no masks, so that ``hasattr`` is False.
        """
        if "action_mask" not in self._vector.sim.program.info:
            raise AttributeError(f"{self.environment.name} has no action masks: every action is legal")
        return self._masks

    def _masks(self) -> np.ndarray:
        return first(self._vector.action_masks())

    def render(self) -> np.ndarray | str | None:
        """A picture ``uint8 [height, width, 3]`` with ``render_mode="rgb_array"``, a text with "ansi"."""
        frames = self._vector.render()
        return None if frames is None else frames[0]

    def close(self) -> None:
        """Close the world; everything but ``close`` raises from then on."""
        self._vector.close()


def checked_action(action: Any, space: Space) -> torch.Tensor:
    """One action as a tensor of the space's shape. TypeError or ValueError name the given and the allowed.

    The simulator checks whether its numbers are in the space.
    """
    what = f"the action must be an element of {space}"
    try:
        given = number_tensor(action if isinstance(action, torch.Tensor) else np.asarray(action), "the action")
    except (TypeError, ValueError):
        raise TypeError(f"{what}, got {_in_short(action)}") from None
    if given.shape != space.shape:
        allowed = f"{list(space.shape)}" if space.shape else "[] (a number)"
        raise ValueError(f"{what}, got {_in_short(action)} of shape {list(given.shape)}; the shape must be {allowed}")
    if given.is_floating_point() and not isinstance(space, Box):
        raise TypeError(f"{what}, which holds integers, got {_in_short(action)}")
    return given


def _resetting_wrappers(env: gymnasium.Env) -> Iterator[Wrapper]:
    """Gymnasium's wrappers around ``env`` in whose ``reset`` this call lies, the innermost first.

    Only ``reset``, and functions that it calls, may call it. It does not read the locals of other frames: until Python
    3.13 reading them keeps them alive as long as the frame.
    """
    frame, last = sys._getframe(1), None
    while frame is not None and frame.f_code.co_name != "reset":
        frame = frame.f_back
    while frame is not None:
        of_gymnasium = frame.f_globals.get("__name__", "").startswith("gymnasium.")
        if frame.f_code.co_name != "reset" and not of_gymnasium:
            return
        outer = frame.f_locals.get("self") if of_gymnasium else None
        if isinstance(outer, Wrapper) and outer is not last and outer.unwrapped is env:
            yield outer
            last = outer
        frame = frame.f_back


def _in_short(value: Any) -> str:
    return shorten(repr(value), 80, placeholder=" ...")


def first(value: Any) -> Any:
    """The first row or world of tensors, also in dicts, as arrays of their own."""
    if isinstance(value, dict):
        return {key: first(part) for key, part in value.items()}
    return value[0].cpu().numpy().copy()
