"""TorchRL: the worlds of a vector environment as one ``EnvBase``, tensors on the simulator's device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode

from ..extras import needed
from ..testing import ended_worlds
from ..vector_env import TorchVectorEnv

needed("tensordict", "torchrl", extra="torchrl")

from tensordict import TensorDict, TensorDictBase  # noqa: E402
from torchrl.data import (  # noqa: E402
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from torchrl.envs import EnvBase, MarlGroupMapType  # noqa: E402
from torchrl.envs.utils import check_marl_grouping  # noqa: E402

GroupMap = MarlGroupMapType | Mapping[str, Sequence[str]] | str
_Path = tuple[str, ...]
_BESIDE = ("action_mask", "active")  # infos that policies and losses read: they lie beside the observation
_FLAGS = ("done", "terminated", "truncated")


@dataclass(frozen=True)
class _Group:
    """Agents whose tensors are stacked.

    Attributes:
        name: key of their tensordict; None where worlds have one agent, whose tensors lie at the root.
        agents: their places among the agents of a world; None for all in order.
        shape: batch size of their tensordict.
    """

    name: str | None
    agents: torch.Tensor | slice | None
    shape: torch.Size

    def key(self, name: str) -> str | _Path:
        """Where something of the group lies."""
        return name if self.name is None else (self.name, name)


@dataclass
class _Kept:
    """What changes from call to call; attributes of an ``EnvBase``, a module, take microseconds to set.

    Attributes:
        last: observations and infos of the last call; None before the first reset.
        seed: for the next reset of all worlds.
    """

    last: tuple[Any, dict[str, Any]] | None = None
    seed: int | None = None


class TorchRLEnv(EnvBase):
    """Worlds as a TorchRL environment with ``batch_size [num_worlds]``.

    Every call returns new tensors, since rollouts and collectors of TorchRL keep what they get and stack it later.

    Args:
        env: a registered id such as ``"torch_batchsim/CartPole-v0"``, or a ``TorchVectorEnv`` with ``output="torch"``.
        num_envs: rows, for an id; further keywords are those of ``gymnasium.make_vec`` and the environment's options,
            such as ``num_worlds``, ``device`` and ``autoreset_mode``, here ``DISABLED`` by default.
        group_map: how the agents ``"agent_0"``, ``"agent_1"``, ... of a world are grouped: a ``MarlGroupMapType``, a
            dict of names of groups to names of agents, or ``"team"`` for ``"team_0"``, ``"team_1"``, ... by
            ``infos["team"]`` (resets the environment to read it). By default worlds with several agents have one group
            ``"agents"``, and those with one agent none.
        categorical_actions: discrete actions are integers; with False one-hot vectors.

    Keys, at the root or, with groups, within each of them, whose batch size is ``[num_worlds, agents]``: ``"action"``,
    ``"observation"`` (nested where observations are dicts), ``"reward"``, ``"action_mask"``, ``"active"``, and
    ``("info", name)`` for other infos; single values have a last dimension of 1. ``"done"``, ``"terminated"`` and
    ``"truncated"``, bool ``[num_worlds, 1]``, at the root are the world's; where agents have ends of their own, these
    lie in the groups too. Action indices begin at 0, whatever the ``start`` of the action space.

    Autoreset modes: TorchRL resets worlds that are done, by ``"_reset"`` masks. ``DISABLED`` and ``NEXT_STEP`` reset
    these then. With ``SAME_STEP`` they have begun anew within the step; ``"next"`` holds what was final, and the reset
    hands out what has begun. Worlds that are done must be reset before the next step, as TorchRL does;
    ``rollout(break_when_all_done=True)``, which leaves them, needs ``DISABLED``.

    Action masks are in the action spec, so that ``rand_action`` is legal. A row where nothing is legal (its episode has
    ended, or it is inactive) allows everything, for distributions need something; its action is ignored. Transforms
    work with a copy of the spec: give them ``ActionMask`` too.

    ``set_seed`` holds from the next reset of all worlds on. ``reset(options=...)`` takes the environment's
    ``reset_options``. ``to(device)`` moves what is delivered, not the simulation.

    Attributes: ``vector_env``; with groups ``agent_names`` and ``group_map``.

    Raises TypeError or ValueError for an ``env`` that it cannot take, and for groups that do not fit.
    """

    def __init__(
        self,
        env: str | TorchVectorEnv,
        num_envs: int | None = None,
        *,
        group_map: GroupMap | None = None,
        categorical_actions: bool = True,
        **options: Any,
    ) -> None:
        vector_env = _vector_env(env, num_envs, options)
        names = [f"agent_{agent}" for agent in range(vector_env.num_agents)]
        grouping = _grouping(vector_env, group_map, names)
        super().__init__(device=vector_env.device, batch_size=[vector_env.num_worlds])
        self.vector_env = vector_env
        self.is_closed = isinstance(env, TorchVectorEnv)  # what others have made is theirs to close
        if grouping is not None:
            self.agent_names, self.group_map = names, grouping
        self._groups = _groups(grouping, names, vector_env.num_worlds)
        self._leading = (vector_env.num_worlds, vector_env.num_agents)[: 1 if grouping is None else 2]
        self._categorical_actions = categorical_actions
        self._same_step = vector_env.autoreset_mode is AutoresetMode.SAME_STEP
        self._own_ends = vector_env.sim.program.agent_end is not None
        self._first = _first_choice(vector_env.single_action_space, vector_env.device)
        infos = vector_env.sim.program.info
        self._info_paths = {name: (name,) if name in _BESIDE else ("info", name) for name in infos}
        self._kept = _Kept()
        self._moves = False  # whether to another device
        self._set_specs()

    def _set_specs(self) -> None:
        env, sim, device = self.vector_env, self.vector_env.sim, self.device
        infos = {name: sim.tensor(f"output.{column.name}") for name, column in sim.program.info.items()}
        observation, action, reward = {}, {}, {}
        done = _flag_specs(self.batch_size, device)
        for group in self._groups:
            shape = group.shape
            told: dict[_Path, TensorSpec] = _observation_specs(env.single_observation_space, shape, device)
            for name, path in self._info_paths.items():
                told[path] = _number_spec((*shape, *(infos[name].shape[2:] or (1,))), infos[name].dtype, device)
            acts = _action_spec(env.single_action_space, shape, device, self._categorical_actions)
            paid = _number_spec((*shape, 1), torch.float32, device)
            observation |= self._filed(group, told, _composite)
            action |= self._filed(group, {("action",): acts}, _composite)
            reward |= self._filed(group, {("reward",): paid}, _composite)
            if self._own_ends:
                flags = {(name,): spec for name, spec in _flag_specs(shape, device).items()}
                done |= self._filed(group, flags, _composite)
        self.observation_spec = Composite(observation, shape=self.batch_size, device=device)
        self.action_spec = Composite(action, shape=self.batch_size, device=device)
        self.reward_spec = Composite(reward, shape=self.batch_size, device=device)
        self.done_spec = Composite(done, shape=self.batch_size, device=device)
        self._find_action_specs()

    def _find_action_specs(self) -> None:
        """Of each group; kept, since looking one up takes as long as many steps."""
        self._action_specs = [self.full_action_spec[group.key("action")] for group in self._groups]

    # ---- TorchRL's contract ----------------------------------------------------------------------------------------

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """As ``EnvBase.step``, without its checks of what ``_step`` returns, which take longer than many steps."""
        special = tensordict.get("_step", None) is not None or tensordict.get("next", None) is not None
        if special or tensordict.batch_size != self.batch_size:
            return super().step(tensordict)
        return tensordict.set("next", self._step(tensordict))

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        if (stepping := tensordict.get("_step", None)) is not None:
            self._check_partial(stepping)
        observations, rewards, terminations, truncations, infos = self.vector_env.step(self._actions(tensordict))
        self._kept.last = observations, infos
        copies = {path: self._new(rows) for path, rows in self._by_path(observations, infos).items()}
        if self._same_step:
            self._put_final(copies, infos)
        if ("action_mask",) in copies:
            idle = terminations | truncations
            idle = idle | ~infos["active"] if "active" in infos else idle
            copies["action_mask",].index_fill_(0, idle.nonzero().flatten().to(self.device), True)
        copies["reward",] = self._new(rewards)
        if self._own_ends:
            copies |= {("terminated",): self._new(terminations), ("truncated",): self._new(truncations)}
            copies["done",] = copies["terminated",] | copies["truncated",]
            sim = self.vector_env.sim
            terminations, truncations = sim.tensor("World.terminated"), sim.tensor("World.truncated")
        told = self._told(copies)
        terminated = told["terminated"] = self._of_worlds(terminations)
        truncated = told["truncated"] = self._of_worlds(truncations)
        told["done"] = terminated | truncated
        return TensorDict._new_unsafe(told, batch_size=self.batch_size, device=self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        options = dict(kwargs.pop("options", None) or {})
        kept = self._kept
        seed = kwargs.pop("seed", kept.seed if mask is None else None)
        if kwargs:
            name = next(iter(kwargs))
            raise TypeError(f"reset() got an unexpected keyword argument {name!r}; it takes seed and options")
        if mask is not None:
            mask = mask.reshape(self.batch_size).to(self.vector_env.device)
            if self._same_step and kept.last is not None:
                mask = mask & ~ended_worlds(self.vector_env)  # which have just begun
            options["reset_mask"] = mask
        if mask is None or kept.last is None or mask.any():
            kept.last = self.vector_env.reset(seed=seed, options=options or None)
            kept.seed = None if mask is None else kept.seed
        copies = {path: self._new(rows) for path, rows in self._by_path(*kept.last).items()}
        if (legal := copies.get(("action_mask",))) is not None:
            legal |= ~legal.any(-1, keepdim=True)  # slower than in a step, and right whoever has begun
        told = self._told(copies)
        return TensorDict._new_unsafe(told, batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        self._kept.seed = seed

    def to(self, device: torch.device | str | int) -> TorchRLEnv:
        """Deliver tensors on ``device`` and take actions from there; worlds stay where they are simulated."""
        super().to(device)
        self._moves = self.device != self.vector_env.device
        self._find_action_specs()
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the vector environment, if this has made it."""
        if not self.is_closed:
            self.vector_env.close()
        super().close(raise_if_closed=raise_if_closed)

    def __repr__(self) -> str:
        name, batch_size = self.vector_env.environment.name, list(self.batch_size)
        return f"{type(self).__name__}({name}, batch_size={batch_size}, device={str(self.device)!r})"

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _actions(self, tensordict: TensorDictBase) -> torch.Tensor:
        """``[rows, ...]`` as the vector environment takes them."""
        given = [tensordict.get(group.key("action")) for group in self._groups]
        if not self._categorical_actions:
            given = [
                spec.to_categorical(actions, safe=False) if isinstance(spec, OneHot) else actions
                for spec, actions in zip(self._action_specs, given, strict=True)
            ]
        actions = given[0]
        if self._groups[0].agents is not None:
            actions = actions.new_empty((*self._leading, *actions.shape[2:]))
            for group, part in zip(self._groups, given, strict=True):
                actions[:, group.agents] = part
        if self._moves:
            actions = actions.to(self.vector_env.device)
        if self._first is not None:
            actions = actions + self._first
        return actions.reshape(self.vector_env.action_space.shape)

    def _check_partial(self, stepping: torch.Tensor) -> None:
        """Raise ValueError unless the worlds that ``"_step"`` leaves out stand still anyway."""
        if self.vector_env.autoreset_mode is not AutoresetMode.DISABLED:
            raise ValueError("'_step' masks and break_when_all_done=True need autoreset_mode='Disabled'")
        stepping = stepping.reshape(self.batch_size).to(self.vector_env.device)
        if not bool((stepping | ended_worlds(self.vector_env)).all()):
            raise ValueError("'_step' may leave out only worlds that are done; the others step together")

    def _by_path(self, observations: Any, infos: Mapping[str, torch.Tensor]) -> dict[_Path, torch.Tensor]:
        """Outputs ``[rows, ...]`` by where they are told."""
        if isinstance(observations, dict):
            values = {("observation", key): rows for key, rows in observations.items()}
        else:
            values = {("observation",): observations}
        for name, path in self._info_paths.items():
            values[path] = infos[name]
        return values

    def _put_final(self, copies: dict[_Path, torch.Tensor], infos: Mapping[str, Any]) -> None:
        """Write what was final into the rows whose episode has ended."""
        ended = infos["_final_obs"].nonzero().flatten()
        if len(ended):  # seldom many rows: torch.where over all would take longer than many a step
            there = ended.to(self.device)
            for path, final in self._by_path(infos["final_obs"], infos["final_info"]).items():
                copies[path][there] = final.index_select(0, ended).to(self.device)

    def _of_worlds(self, flags: torch.Tensor) -> torch.Tensor:
        """New ``[worlds, 1]`` from flags of worlds, or of rows, of whose world the first agent tells."""
        flags = flags.view(self.batch_size[0], -1)
        return self._new(flags if flags.shape[1] == 1 else flags[:, :1])

    def _told(self, copies: Mapping[_Path, torch.Tensor]) -> dict[str, Any]:
        """Rows as ``[worlds, ...]`` or ``[worlds, agents, ...]``, by key. Masks go to the action specs too."""
        shaped = {path: rows.view(*self._leading, *(rows.shape[1:] or (1,))) for path, rows in copies.items()}
        told: dict[str, Any] = {}
        for group, action_spec in zip(self._groups, self._action_specs, strict=True):
            parts = shaped
            if group.agents is not None:
                parts = {path: tensor[:, group.agents] for path, tensor in shaped.items()}
            told |= self._filed(group, parts, TensorDict._new_unsafe)
            if ("action_mask",) in parts:
                action_spec.update_mask(parts["action_mask",])
        return told

    def _filed(self, group: _Group, values: Mapping[_Path, Any], made: Callable[..., Any]) -> dict[str, Any]:
        """Values by path as nested ``made(dict, ...)``, to be put at the root."""
        within: dict[str, Any] = {}
        for (first, *rest), value in values.items():
            if rest:
                within.setdefault(first, {})[rest[0]] = value
            else:
                within[first] = value
        for key, value in within.items():
            if type(value) is dict:
                within[key] = made(value, batch_size=group.shape, device=self.device)
        if group.name is None:
            return within
        return {group.name: made(within, batch_size=group.shape, device=self.device)}

    def _new(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device) if self._moves else tensor.clone()


# ---- arguments -------------------------------------------------------------------------------------------------------


def _vector_env(env: Any, num_envs: int | None, options: dict[str, Any]) -> TorchVectorEnv:
    """The vector environment that is meant. Raises TypeError, ValueError."""
    if isinstance(env, str):
        made = gymnasium.make_vec(env, num_envs, **{"autoreset_mode": AutoresetMode.DISABLED} | options)
    elif num_envs is not None or options:
        given = ", ".join(["num_envs"] * (num_envs is not None) + list(options))
        raise TypeError(f"{given} can be given with the id of an environment only")
    else:
        made = env
    if not isinstance(made, TorchVectorEnv):
        raise TypeError(f"env must be a registered id or a TorchVectorEnv, without wrappers, got {env!r}")
    if made.output != "torch":
        raise ValueError(f"env must have output='torch', got output={made.output!r}")
    if made.autoreset_mode is AutoresetMode.SAME_STEP and not made._delivers_final:
        raise ValueError("with autoreset_mode='SameStep' env must have final_obs=True")
    return made


def _grouping(env: TorchVectorEnv, group_map: GroupMap | None, names: list[str]) -> dict[str, list[str]] | None:
    """Names of agents by group; None without groups. Raises TypeError, ValueError."""
    if group_map is None:
        return None if len(names) == 1 else MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(names)
    if isinstance(group_map, MarlGroupMapType):
        return group_map.get_group_map(names)
    if group_map == "team":
        return _by_team(env, names)
    if not isinstance(group_map, Mapping):
        raise TypeError(f"group_map must be a MarlGroupMapType, a dict, 'team' or None, got {group_map!r}")
    grouping = {name: list(agents) for name, agents in group_map.items()}
    check_marl_grouping(grouping, names)
    return grouping


def _by_team(env: TorchVectorEnv, names: list[str]) -> dict[str, list[str]]:
    if env.team is None:
        raise ValueError(f"group_map='team' needs teams, and {env.environment.name} has none")
    env.reset()
    teams = env.by_world(env.team)
    if not bool((teams == teams[0]).all()):
        raise ValueError(f"group_map='team' needs the same teams in all worlds of {env.environment.name}")
    numbers = teams[0].tolist()
    return {
        f"team_{team}": [name for name, number in zip(names, numbers, strict=True) if number == team]
        for team in sorted(set(numbers))
    }


def _groups(grouping: dict[str, list[str]] | None, names: list[str], worlds: int) -> list[_Group]:
    if grouping is None:
        return [_Group(None, None, torch.Size([worlds]))]
    groups = []
    for name, agents in grouping.items():
        places = [names.index(agent) for agent in agents]
        dense = places == list(range(places[0], places[0] + len(places)))
        chosen = slice(places[0], places[0] + len(places)) if dense else torch.tensor(places)
        chosen = None if places == list(range(len(names))) else chosen
        groups.append(_Group(name, chosen, torch.Size([worlds, len(places)])))
    return groups


# ---- specs -----------------------------------------------------------------------------------------------------------


def _observation_specs(space: gymnasium.Space, shape: torch.Size, device: torch.device) -> dict[_Path, TensorSpec]:
    if isinstance(space, Dict):
        return {("observation", key): _box_spec(part, shape, device) for key, part in space.items()}
    return {("observation",): _box_spec(space, shape, device)}


def _box_spec(space: Box, shape: torch.Size, device: torch.device) -> TensorSpec:
    low, high = (torch.as_tensor(bound.copy(), device=device) for bound in (space.low, space.high))
    whole = (*shape, *(space.shape or (1,)))
    if low.is_floating_point() and bool((low.isinf() & high.isinf()).all()):
        return Unbounded(whole, device=device, dtype=low.dtype)
    return Bounded(low.expand(whole), high.expand(whole), whole, device=device, dtype=low.dtype)


def _number_spec(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> TensorSpec:
    if dtype is torch.bool:
        return Binary(shape[-1], shape=torch.Size(shape), dtype=dtype, device=device)
    return Unbounded(torch.Size(shape), device=device, dtype=dtype)


def _flag_specs(shape: torch.Size, device: torch.device) -> dict[str, TensorSpec]:
    return {name: Categorical(2, shape=(*shape, 1), dtype=torch.bool, device=device) for name in _FLAGS}


def _action_spec(space: gymnasium.Space, shape: torch.Size, device: torch.device, categorical: bool) -> TensorSpec:
    if isinstance(space, Discrete):
        if categorical:
            return Categorical(int(space.n), shape=shape, device=device)
        return OneHot(int(space.n), shape=(*shape, int(space.n)), device=device)
    if isinstance(space, MultiDiscrete):
        choices = torch.as_tensor(space.nvec.reshape(-1))
        if categorical:
            return MultiCategorical(choices, shape=(*shape, len(choices)), device=device)
        return MultiOneHot(choices.tolist(), shape=(*shape, int(choices.sum())), device=device)
    return _box_spec(space, shape, device)


def _first_choice(space: gymnasium.Space, device: torch.device) -> int | torch.Tensor | None:
    """What a choice of 0 means, where that is not 0."""
    first = np.asarray(getattr(space, "start", 0)).reshape(-1)
    if not first.any():
        return None
    return int(first[0]) if isinstance(space, Discrete) else torch.from_numpy(first).to(device)


def _composite(values: dict[str, TensorSpec], batch_size: torch.Size, device: torch.device) -> Composite:
    return Composite(values, shape=batch_size, device=device)
