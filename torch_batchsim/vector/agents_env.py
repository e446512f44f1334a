"""The vector environment by agent: dicts from an agent's name to tensors with a row for each world."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

from ..base.modes import in_plain_torch, not_compiled
from ..declare.environment import FixedOptions
from ..errors import WorldFault
from ..run.actions import dense_tensor
from ..run.simulator import Simulator
from .step_infos import StepInfos
from .vector_env import TorchVectorEnv
from .vector_inputs import agent_names

ByAgent = dict[str, Any]  # a tensor or array [worlds, ...] for each agent, a dict of them, or what there is for all


class _Joined(NamedTuple):
    """The actions of all agents in the same memory."""

    by_world: torch.Tensor  # [worlds, agents, ...]
    by_row: torch.Tensor  # [rows, ...]


@not_compiled
class AgentsVectorEnv(FixedOptions):
    """A vector environment whose calls take and return dicts by the names of the agents of a world.

    Made by ``gymnasium.make_vec(id, by_agent=True, num_worlds=...)``, or from an environment of rows.

    Args:
        env: a ``TorchVectorEnv``, or wrappers around one whose outputs are by row, such as ``EpisodeStatistics``.

    ``reset`` returns ``(observations, infos)`` and ``step`` takes actions and returns ``(observations, rewards,
    terminations, truncations, infos)``, as PettingZoo's ``ParallelEnv`` and Isaac Lab's ``DirectMARLEnv`` do: each is a
    dict with an entry for every agent of ``possible_agents``, in every step. The entries are tensors ``[worlds, ...]``,
    strided views of the rows' memory, and stay as long as the rows do (see ``TorchVectorEnv``). ``infos[agent]`` holds
    what the infos of rows do, ``action_mask``, ``active``, ``team``, ``final_obs`` and ``_final_obs`` among them.

    Attributes:
        vector_env: the environment of rows. ``bind``, ``state_dict``, ``tune`` and all that is not here is there, by
            row; tensors that are bound there are returned here, as views.
        possible_agents: ``["agent_0", "agent_1", ...]``; agent ``i`` is row ``world * max_num_agents + i``.
        num_envs, num_worlds: the number of worlds, both.
        observation_spaces, action_spaces: a space of its own for each agent, without a dimension for worlds.
        state_space: of ``state()``, without a dimension for worlds; ``state_spaces``: the same for each agent.
        device, metadata, render_mode, autoreset_mode, spec: as those of the environment of rows.
    """

    def __init__(self, env: VectorEnv) -> None:
        rows = getattr(env, "unwrapped", None)
        if not isinstance(rows, TorchVectorEnv):
            raise TypeError(f"AgentsVectorEnv needs a TorchVectorEnv, wrapped or not, got {env!r}")
        if env.num_envs != rows.num_envs:
            raise ValueError(f"AgentsVectorEnv needs {rows.num_envs} rows, got a wrapper with {env.num_envs}")
        self.vector_env, self._own = env, rows
        self.num_envs = self.num_worlds = rows.num_worlds
        self.device, self.autoreset_mode, self.render_mode = rows.device, rows.autoreset_mode, rows.render_mode
        self.metadata, self.spec = dict(env.metadata), rows.spec
        self.possible_agents = agent_names(rows.num_agents)
        self.observation_spaces = self._own_spaces(env.single_observation_space)
        self.action_spaces = self._own_spaces(env.single_action_space)
        self.state_space = _concatenated(rows.single_observation_space, rows.num_agents)
        self.state_spaces = dict.fromkeys(self.possible_agents, self.state_space)
        self._shape = torch.Size((rows.num_worlds, *env.single_action_space.shape))  # of the actions of one agent
        self._by_world = rows.num_worlds, rows.num_agents
        self._places: dict[torch.dtype, list[_Joined]] = {}
        self._fix_options(rows.environment)
        # Whether results are the same tensors again and again.
        self._stays = env is rows and not rows.copies and rows.output == "torch"

    def _own_spaces(self, space: gymnasium.Space) -> dict[str, gymnasium.Space]:
        """A copy for each agent, with a random stream of its own."""
        spaces = {agent: deepcopy(space) for agent in self.possible_agents}
        for own in spaces.values():
            own.seed(None)
        return spaces

    # ---- the contract ------------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ByAgent, ByAgent]:
        """Begin new episodes and return ``(observations, infos)``; arguments as those of ``TorchVectorEnv.reset``."""
        return self._each_by_agent(self.vector_env.reset(seed=seed, options=options))

    def step(self, actions: Mapping[str, torch.Tensor]) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Advance all worlds by one step.

        Args:
            actions: for each agent by name a tensor ``[worlds, ...]`` of what its action space holds, on ``device``, or
                a numpy array. Of a ``Discrete`` space ``[worlds, 1]`` too, and with one world the action as it is.
                Whom ``agents`` does not have may be left out.

        Raises TypeError or ValueError for names, shapes, dtypes, devices and values that do not fit; no world has
        stepped then. A ``WorldFault`` has in ``outputs`` the dicts that this would have returned.
        """
        parts = self._parts(actions)
        joined = self._place_for(parts[0].dtype)
        try:
            _join(parts, joined.by_world)
            results = self.vector_env.step(joined.by_row)
        except WorldFault as fault:
            if fault.outputs is not None:
                fault.outputs = self._split_results(fault.outputs)
            raise
        finally:
            self._places[parts[0].dtype].append(joined)
        return self._split_results(results)

    def state(self) -> torch.Tensor | np.ndarray:
        """The observations of all agents one after the other, ``[worlds, n]``, of the last step or reset.

        For centralised critics. They are those of the ``TorchVectorEnv``, before wrappers. Parts of a dict follow each
        other by key; they are float32 if their dtypes differ. One tensor is not copied: the state is then a view of its
        memory.
        """
        self._own.check_open()
        self._own.check_ready("state()")
        observations = self._own.observations
        if isinstance(observations, dict):
            parts = [observations[key].reshape(*self._by_world, -1) for key in sorted(observations)]
            if len({part.dtype for part in parts}) > 1:
                parts = [part.float() for part in parts]
            state = torch.cat(parts, dim=2).view(self.num_worlds, -1)
        else:
            state = observations.view(self.num_worlds, -1)
            state = state.clone() if self._own.copies else state
        return state.numpy() if self._own.output == "numpy" else state

    def observation_space(self, agent: str) -> gymnasium.Space:
        """The space of one agent's observations, without a dimension for worlds; the same object each time."""
        return self.observation_spaces[self._checked_name(agent)]

    def action_space(self, agent: str) -> gymnasium.Space:
        """The space of one agent's actions, without a dimension for worlds; the same object each time."""
        return self.action_spaces[self._checked_name(agent)]

    @property
    def agents(self) -> list[str]:
        """All possible agents; with DISABLED those whose episode is under way in a world at least.

        An episode ends with the world's, and is not under way while ``active`` is false. With DISABLED waits for the
        device.
        """
        if self.autoreset_mode is not AutoresetMode.DISABLED or not self._own.has_begun:
            return list(self.possible_agents)
        rows = self._own
        under_way = ~torch.as_tensor(rows.ended_worlds())[:, None]
        if rows.active is not None:
            under_way = rows.by_world(rows.active) & under_way
        there = under_way.any(0).expand(len(self.possible_agents)).tolist()
        return [agent for agent, is_there in zip(self.possible_agents, there, strict=True) if is_there]

    @property
    def num_agents(self) -> int:
        """How many ``agents`` there are now."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """How many ``possible_agents`` there are, rows of a world."""
        return len(self.possible_agents)

    def render(self) -> tuple[np.ndarray, ...] | tuple[str, ...] | None:
        """A picture uint8 ``[height, width, 3]``, or a text with "ansi", of each world.

        With ``render_worlds`` (an argument, and an attribute of ``vector_env.unwrapped``) of each of the first so many.
        Raises ValueError where it is None and there are more than 64 worlds.
        """
        frames = self.vector_env.render()
        if frames is None or self._own.render_worlds is not None:
            return frames
        return frames[:: self.max_num_agents]  # agents of a world share its picture

    def close(self, **kwargs: Any) -> None:
        """Close the worlds; everything but ``close`` raises from then on."""
        self.vector_env.close(**kwargs)

    # ---- beyond the contract -----------------------------------------------------------------------------------------

    @property
    def unwrapped(self) -> AgentsVectorEnv:
        """This; ``vector_env.unwrapped`` is the ``TorchVectorEnv``."""
        return self

    @property
    def sim(self) -> Simulator:
        """The simulator, whose tensors may be read and written between steps."""
        return self._own.sim

    @property
    def closed(self) -> bool:
        return self._own.closed

    @property
    def action_mask(self) -> ByAgent | None:
        """Legal actions of each agent, bool ``[worlds, n]``, as last returned, or None without masks."""
        return self._if_any(self._own.action_mask)

    @property
    def active(self) -> ByAgent | None:
        """Where each agent takes part, bool ``[worlds]``, as last returned, or None if all always do."""
        return self._if_any(self._own.active)

    @property
    def team(self) -> ByAgent | None:
        """The team of each agent, integers ``[worlds]``, or None without teams."""
        return self._if_any(self._own.team)

    def by_world(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of rows ``[rows, ...]`` as a view ``[worlds, agents, ...]``."""
        return self._own.by_world(tensor)

    def split(self, value: Any) -> ByAgent:
        """A tensor or array ``[rows, ...]`` as a view ``[worlds, ...]`` for each agent; of a dict, what is in it.

        Anything else goes to all agents as it is. Raises ValueError for another number of rows.
        """
        self._check_rows(value)
        return self._by_agent(value)

    def _check_rows(self, value: Any, where: str = "") -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                self._check_rows(part, f"{where}[{key!r}]")
        elif isinstance(value, (torch.Tensor, np.ndarray)) and tuple(value.shape[:1]) != (self._own.num_envs,):
            at = f" at {where}" if where else ""
            raise ValueError(
                f"split needs {self._own.num_envs} rows, {self.max_num_agents} agents in each of {self.num_worlds} "
                f"worlds, got shape {list(value.shape)}{at}"
            )

    def _by_agent(self, value: Any) -> ByAgent:
        """As ``split``; infos of wrappers may hold tensors that are not by row, which go to all agents as they are."""
        if isinstance(value, dict):
            split: ByAgent = {agent: {} for agent in self.possible_agents}
            for key, part in dict.items(value):
                for agent, own in self._by_agent(part).items():
                    split[agent][key] = own
            return split
        worlds, agents = self._by_world
        if isinstance(value, torch.Tensor) and value.shape[:1] == (worlds * agents,):
            return dict(zip(self.possible_agents, value.view(worlds, agents, *value.shape[1:]).unbind(1), strict=True))
        if isinstance(value, np.ndarray) and value.shape[:1] == (worlds * agents,):
            return {agent: value[i::agents] for i, agent in enumerate(self.possible_agents)}
        return dict.fromkeys(self.possible_agents, value)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(TorchVectorEnv, name):
            raise AttributeError(f"AgentsVectorEnv has no {name!r}: it is by row, use env.vector_env.{name}")
        raise AttributeError(f"AgentsVectorEnv has no {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """Without memory that is kept only for the next step."""
        return {**self.__dict__, "_places": {}}

    def __repr__(self) -> str:
        return f"AgentsVectorEnv({self.vector_env!r}, {self.max_num_agents} agents in each of {self.num_worlds} worlds)"

    # ---- inside ------------------------------------------------------------------------------------------------------

    @in_plain_torch
    def _each_by_agent(self, results: tuple[Any, Any]) -> tuple[ByAgent, ByAgent]:
        return self._by_agent(results[0]), self._by_agent(results[1])

    @in_plain_torch
    def _split_results(self, results: tuple[Any, ...]) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Results of a step by agent. Views of the same place are made once."""
        place = self._own.sim.memory.outputs.present
        if place.by_agent is not None and _same(results, place.by_agent[0]):
            by_agent = place.by_agent[1]
        else:
            by_agent = tuple(self._by_agent(part) for part in results)
            if self._stays:
                place.by_agent = (*results[:4], dict(dict.items(results[4]))), by_agent
                place.watch()
        observations, *others, infos = by_agent
        if isinstance(self.observation_spaces[self.possible_agents[0]], gymnasium.spaces.Dict):
            observations = {agent: dict(own) for agent, own in observations.items()}
        infos = {agent: _fresh(own) for agent, own in infos.items()}
        for own in infos.values():
            own.results = getattr(results[4], "results", None)  # not so where a wrapper returns a dict of its own
        return dict(observations), *(dict(part) for part in others), infos

    def _if_any(self, value: torch.Tensor | None) -> ByAgent | None:
        return None if value is None else self.split(value)

    def _parts(self, actions: Any) -> list[torch.Tensor]:
        """The actions of each agent, tensors of one dtype and ``self._shape``, or TypeError, ValueError."""
        if not isinstance(actions, Mapping):
            raise TypeError(f"actions must be a dict with an entry for each agent, got {type(actions).__name__}")
        if len(actions) != len(self.possible_agents) or not all(agent in actions for agent in self.possible_agents):
            actions = self._with_those_who_are_gone(actions)
        parts = [self._of_agent(agent, actions[agent]) for agent in self.possible_agents]
        dtype = parts[0].dtype
        if any(part.dtype is not dtype for part in parts):
            self._check_whole_numbers(parts)
            dtype = torch.float64 if any(part.is_floating_point() for part in parts) else torch.int64
            parts = [part.to(dtype) for part in parts]
        return parts

    def _check_whole_numbers(self, parts: list[torch.Tensor]) -> None:
        """Where one agent's are floats and another's are not, the environment could not name the agent."""
        for agent, part in zip(self.possible_agents, parts, strict=True):
            if part.is_floating_point() and not isinstance(self.vector_env.single_action_space, Box):
                raise TypeError(f"actions of {agent} must be integers, got {part.dtype}")

    @in_plain_torch
    def _place_for(self, dtype: torch.dtype) -> _Joined:
        """Memory for the actions of a step, taken until that has ended: another thread does not write there."""
        try:
            return self._places.setdefault(dtype, []).pop()
        except IndexError:
            by_world = torch.empty((*self._by_world, *self._shape[1:]), dtype=dtype, device=self.device)
            return _Joined(by_world, by_world.view(-1, *self._shape[1:]))

    def _of_agent(self, agent: str, actions: Any) -> torch.Tensor:
        """The actions of one agent as a tensor of ``self._shape`` on the device, or TypeError, ValueError."""
        if (
            type(actions) is torch.Tensor
            and actions.shape == self._shape
            and actions.layout is torch.strided
            and actions.device == self.device
        ):
            return actions.detach() if actions.requires_grad else actions
        what, shapes = f"actions of {agent}", self._shapes()
        given = dense_tensor(actions, what, f"shape {shapes}", self.device)
        one_world = self.num_worlds == 1 and given.shape == self._shape[1:]
        if given.shape != self._shape and not one_world and (len(self._shape) > 1 or given.shape != (*self._shape, 1)):
            raise ValueError(f"{what} must have shape {shapes}, got {list(given.shape)}")
        return given.detach().reshape(self._shape)

    def _shapes(self) -> str:
        """The shapes of one agent's actions that are allowed, in words."""
        allowed = [list(self._shape)]
        if len(self._shape) == 1:
            allowed.append([*self._shape, 1])
        if self.num_worlds == 1:
            allowed.append(list(self._shape[1:]))
        return " or ".join(map(str, allowed))

    def _with_those_who_are_gone(self, actions: Mapping[str, Any]) -> dict[str, Any]:
        """With a legal action for agents that may be left out. Raises ValueError for unknown or missing names."""
        for agent in actions:
            self._checked_name(agent)
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(f"actions must have an entry for each agent, got none for {', '.join(missing)}")
        space = next(iter(self.action_spaces.values()))
        least = np.clip(0, space.low, space.high) if isinstance(space, Box) else space.start
        action = torch.as_tensor(np.broadcast_to(least, space.shape).copy(), device=self.device)
        return {agent: actions.get(agent, action.expand(self._shape)) for agent in self.possible_agents}

    def _checked_name(self, agent: Any) -> str:
        if agent not in self.action_spaces:
            raise ValueError(f"there is no agent {agent!r}; there are {', '.join(self.possible_agents)}")
        return agent


@in_plain_torch
def _join(parts: list[torch.Tensor], by_world: torch.Tensor) -> None:
    torch.stack(parts, 1, out=by_world)


def _same(results: tuple[Any, ...], known: tuple[Any, ...]) -> bool:
    """Whether they consist of the same tensors, dicts of them included."""
    return all(
        one is other or (isinstance(one, dict) and isinstance(other, dict) and _same_entries(one, other))
        for one, other in zip(results, known, strict=True)
    )


def _same_entries(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and _same(tuple(dict.values(one)), tuple(other[key] for key in one))


def _fresh(infos: dict[str, Any]) -> StepInfos:
    """A dict of the user's own, those in it included."""
    return StepInfos({key: dict(part) if isinstance(part, dict) else part for key, part in infos.items()})


def _concatenated(space: gymnasium.Space, agents: int) -> Box:
    """The space of the observations of all agents one after the other, parts of a dict by key."""
    parts = [part for _, part in sorted(space.spaces.items())] if isinstance(space, gymnasium.spaces.Dict) else [space]
    dtypes = {np.dtype(part.dtype) for part in parts}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.float32)
    lows, highs = zip(*map(_limits, parts), strict=True)
    low, high = (np.concatenate([bound.reshape(-1) for bound in bounds]).astype(dtype) for bounds in (lows, highs))
    return Box(np.tile(low, agents), np.tile(high, agents), dtype=dtype.type)


def _limits(space: gymnasium.Space) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest values of a space."""
    if isinstance(space, Box):
        return space.low, space.high
    least = np.broadcast_to(getattr(space, "start", 0), space.shape)
    choices = getattr(space, "nvec", getattr(space, "n", 2))
    return least, least + (1 if isinstance(space, gymnasium.spaces.MultiBinary) else np.asarray(choices) - 1)
