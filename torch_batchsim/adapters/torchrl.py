"""TorchRL: the worlds of a vector environment as one ``EnvBase``, tensors on the simulator's device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium.vector import AutoresetMode, VectorWrapper

from ..declare.environment import Environment
from ..memory.inputs import checked_seed
from ..testing import random_actions
from ..vector.vector_env import TorchVectorEnv
from ..vector.vector_inputs import agent_names
from .episodes import stepped
from .records import ADAPTERS, Played
from .source import vector_env
from .stepping import first_choice

RECORD = ADAPTERS["torchrl"]
RECORD.require()

from tensordict import TensorDict, TensorDictBase  # noqa: E402
from torchrl.data import Composite, TensorSpec  # noqa: E402
from torchrl.envs import EnvBase  # noqa: E402

from .torchrl_specs import (  # noqa: E402
    Group,
    GroupMap,
    Path,
    action_spec,
    composite,
    flag_specs,
    from_one_hot,
    grouping_of,
    groups_of,
    not_one_hot,
    number_spec,
    observation_specs,
    one_hot_sizes,
)

_BESIDE = ("action_mask", "active")  # infos that policies and losses read: they lie beside the observation


@dataclass
class _Kept:
    """State that changes in each call: an attribute of an ``EnvBase``, a module, would take microseconds to set.

    Attributes:
        last: observations and infos of the last call; None before the first reset.
        seed: for the next reset of all worlds.
    """

    last: tuple[Any, dict[str, Any]] | None = None
    seed: int | None = None


class TorchRLEnv(EnvBase):
    """Worlds as a TorchRL environment with ``batch_size [num_worlds]``.

    Every call returns new tensors, because rollouts and collectors of TorchRL keep them and stack them later.

    Args:
        env: an id such as ``"torch_batchsim/CartPole-v0"``, a declared environment, or a ``TorchVectorEnv`` with
            ``output="torch"``, without wrappers.
        num_envs: rows, where it is made here; ``num_worlds`` may be given instead.
        options: arguments of ``TorchVectorEnv`` such as ``device`` and ``autoreset_mode`` (by default ``DISABLED``
            here), and with an id the environment's own.
        group_map: how the agents ``"agent_0"``, ``"agent_1"``, ... of a world are grouped: a ``MarlGroupMapType``, a
            dict of names of groups to names of agents, or ``"team"`` for ``"team_0"``, ``"team_1"``, ... by
            ``infos["team"]`` (resets the environment to read it). By default worlds with several agents have one group
            ``"agents"``, and those with one agent none.
        categorical_actions: discrete actions are integers; with False one-hot vectors. Of these the place of the
            greatest value counts; on the CPU a wrong number of 1s raises ValueError.

    Keys, at the root or, with groups, within each of them, whose batch size is ``[num_worlds, agents]``: ``"action"``,
    ``"observation"`` (nested where observations are dicts), ``"reward"``, ``"action_mask"``, ``"active"``, and
    ``("info", name)`` for other infos; single values have a last dimension of 1. ``"done"``, ``"terminated"`` and
    ``"truncated"``, bool ``[num_worlds, 1]``, at the root are the world's; where agents have ends of their own, these
    lie in the groups too. Action indices begin at 0, whatever the ``start`` of the action space.

    Autoreset modes: TorchRL resets worlds that are done, by ``"_reset"`` masks. ``DISABLED`` and ``NEXT_STEP`` reset
    these then. With ``SAME_STEP`` they have begun anew within the step; ``"next"`` holds the final values, and the
    reset returns the first ones of the new episodes. Worlds that are done must be reset before the next step, as
    TorchRL does; ``rollout(break_when_all_done=True)``, which leaves them, needs ``DISABLED``.

    Action masks are in the action spec, so that ``rand_action`` is legal. A row without a legal action (its episode has
    ended, or it is inactive) allows all, because distributions need one; its action is ignored. Transforms work with a
    copy of the spec: give them ``ActionMask`` too.

    ``set_seed`` holds from the next reset of all worlds on. ``reset(options=...)`` takes the environment's
    ``reset_options``. ``to(device)`` moves the results, not the simulation. ``render()`` returns the frames of
    the vector environment.

    Observations that are not a Box in the environment are integers within their bounds.

    Attributes: ``vector_env``; with groups ``agent_names`` and ``group_map``.

    Raises TypeError or ValueError for another ``env``, for groups that do not fit, and, before anything steps, for
    actions and masks that are missing or do not fit.
    """

    def __init__(
        self,
        env: str | Environment | TorchVectorEnv,
        num_envs: int | None = None,
        *,
        group_map: GroupMap | None = None,
        categorical_actions: bool = True,
        **options: Any,
    ) -> None:
        if isinstance(env, VectorWrapper) and isinstance(env.unwrapped, TorchVectorEnv):
            raise TypeError(
                f"TorchRLEnv needs a TorchVectorEnv without wrappers, got {env!r}; transforms of TorchRL do the same, "
                "such as TransformedEnv(env, Compose(RewardSum(), StepCounter())) for returns and lengths of episodes"
            )
        if isinstance(env, (str, Environment)):
            options = {"autoreset_mode": AutoresetMode.DISABLED, **options}
        made = vector_env(env, RECORD.interface("TorchRLEnv"), options, num_envs)
        names = agent_names(made.num_agents)
        grouping = grouping_of(made, group_map, names)
        super().__init__(device=made.device, batch_size=[made.num_worlds])
        self.vector_env = made
        self.is_closed, self._owned = False, env is not made  # who has made it closes it
        if grouping is not None:
            self.agent_names, self.group_map = names, grouping
        self._groups = groups_of(grouping, names, made.num_worlds)
        self._leading = (made.num_worlds, made.num_agents)[: 1 if grouping is None else 2]
        self._categorical_actions = categorical_actions
        self._one_hot_sizes = None if categorical_actions else one_hot_sizes(made.single_action_space)
        self._same_step = made.autoreset_mode is AutoresetMode.SAME_STEP
        self._own_ends = made.sim.program.agent_end is not None
        parts = len(self._one_hot_sizes or ())
        self._one_hot_counts = {group.name: parts * group.shape.numel() for group in self._groups}
        self._first = first_choice(made.single_action_space, made.device)
        infos = made.sim.program.info
        self._info_paths = {name: (name,) if name in _BESIDE else ("info", name) for name in infos}
        self._kept = _Kept()
        self._moves = False  # whether to another device
        self._set_specs()

    def _set_specs(self) -> None:
        env, sim, device = self.vector_env, self.vector_env.sim, self.device
        infos = {name: sim.tensor(f"output.{column.name}") for name, column in sim.program.info.items()}
        observation, action, reward = {}, {}, {}
        done = flag_specs(self.batch_size, device)
        for group in self._groups:
            shape = group.shape
            filed: dict[Path, TensorSpec] = observation_specs(env.single_observation_space, shape, device)
            for name, path in self._info_paths.items():
                filed[path] = number_spec((*shape, *(infos[name].shape[2:] or (1,))), infos[name].dtype, device)
            acts = action_spec(env.single_action_space, shape, device, self._categorical_actions)
            paid = number_spec((*shape, 1), torch.float32, device)
            observation |= self._filed(group, filed, composite)
            action |= self._filed(group, {("action",): acts}, composite)
            reward |= self._filed(group, {("reward",): paid}, composite)
            if self._own_ends:
                flags = {(name,): spec for name, spec in flag_specs(shape, device).items()}
                done |= self._filed(group, flags, composite)
        self.observation_spec = Composite(observation, shape=self.batch_size, device=device)
        self.action_spec = Composite(action, shape=self.batch_size, device=device)
        self.reward_spec = Composite(reward, shape=self.batch_size, device=device)
        self.done_spec = Composite(done, shape=self.batch_size, device=device)
        self._find_action_specs()

    def _find_action_specs(self) -> None:
        """The specs of each group, and the places of actions; kept, because a look-up takes as long as many steps."""
        self._action_specs = [self.full_action_spec[group.key("action")] for group in self._groups]
        self._action_places = [
            (group.key("action"), spec.shape) for group, spec in zip(self._groups, self._action_specs, strict=True)
        ]

    # ---- TorchRL's contract ----------------------------------------------------------------------------------------

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """As ``EnvBase.step``, without its checks of ``_step``'s results, which take longer than many steps."""
        special = tensordict.get("_step", None) is not None or tensordict.get("next", None) is not None
        if special or tensordict.batch_size != self.batch_size:
            return super().step(tensordict)
        return tensordict.set("next", self._step(tensordict))

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        if (stepping := tensordict.get("_step", None)) is not None:
            self._check_partial(stepping)
        return stepped(self.vector_env, self._actions(tensordict), self._delivered)

    def _delivered(
        self,
        observations: Any,
        rewards: torch.Tensor,
        terminations: torch.Tensor,
        truncations: torch.Tensor,
        infos: dict[str, Any],
    ) -> TensorDict:
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
        filed = self._shaped(copies)
        terminated = filed["terminated"] = self._of_worlds(terminations)
        truncated = filed["truncated"] = self._of_worlds(truncations)
        filed["done"] = terminated | truncated
        return TensorDict._new_unsafe(filed, batch_size=self.batch_size, device=self.device)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None and tensordict is not None:
            self._check_no_other_masks(tensordict)
        options = dict(kwargs.pop("options", None) or {})
        kept = self._kept
        seed = kwargs.pop("seed", kept.seed if mask is None else None)
        if kwargs:
            name = next(iter(kwargs))
            raise TypeError(f"reset() got an unexpected keyword argument {name!r}; it takes seed and options")
        if mask is not None:
            mask = self._checked_mask(mask, "_reset").to(self.vector_env.device)
            if self._same_step and kept.last is not None:
                mask = mask & ~self.vector_env.ended_worlds()  # they have just begun
            options["reset_mask"] = mask
        if mask is None or kept.last is None or mask.any():
            kept.last = self.vector_env.reset(seed=seed, options=options or None)
            kept.seed = None if mask is None else kept.seed
        copies = {path: self._new(rows) for path, rows in self._by_path(*kept.last).items()}
        if (legal := copies.get(("action_mask",))) is not None:
            legal |= ~legal.any(-1, keepdim=True)  # slower than in a step, and right for all rows
        filed = self._shaped(copies)
        return TensorDict._new_unsafe(filed, batch_size=self.batch_size, device=self.device)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """As ``EnvBase.set_seed``: for the next reset of all worlds. Raises TypeError or ValueError."""
        return super().set_seed(checked_seed(seed), static_seed=static_seed)

    def _set_seed(self, seed: int | None) -> None:
        self._kept.seed = seed

    def to(self, device: torch.device | str | int) -> TorchRLEnv:
        """Deliver tensors on ``device`` and take actions from there; the simulation does not move."""
        super().to(device)
        self._moves = self.device != self.vector_env.device
        self._find_action_specs()
        return self

    def render(self) -> Any:
        """The frames of the vector environment, see ``TorchVectorEnv.render``; needs a ``render_mode``."""
        return self.vector_env.render()

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the vector environment, if this has made it."""
        if self._owned:
            self.vector_env.close()
        super().close(raise_if_closed=raise_if_closed)

    def __repr__(self) -> str:
        name, batch_size = self.vector_env.environment.name, list(self.batch_size)
        return f"{type(self).__name__}({name}, batch_size={batch_size}, device={str(self.device)!r})"

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _actions(self, tensordict: TensorDictBase) -> torch.Tensor:
        """``[rows, ...]`` as the vector environment takes them. Raises ValueError for missing and misshapen ones."""
        given = []
        for key, shape in self._action_places:
            actions = tensordict.get(key, None)
            if actions is None or actions.shape != shape:
                there = "none" if actions is None else f"shape {list(actions.shape)}"
                raise ValueError(f"step() needs actions of shape {list(shape)} at {key!r}, got {there}")
            given.append(actions)
        if self._one_hot_sizes is not None:
            given = [self._chosen(*parts) for parts in zip(self._groups, given, strict=True)]
        actions = given[0]
        if self._groups[0].agents is not None:
            actions = actions.new_empty((*self._leading, *actions.shape[2:]))
            for group, part in zip(self._groups, given, strict=True):
                actions[:, group.agents] = part
        if self._moves:
            actions = actions.to(self.vector_env.device)
        actions = actions.reshape(self.vector_env.action_space.shape)
        return actions if self._first is None else actions + self._first

    def _chosen(self, group: Group, actions: torch.Tensor) -> torch.Tensor:
        """One-hot actions as integers: the place of the greatest value of each part.

        On the CPU raises ValueError for a wrong number of 1s. A check of each part would take as long as the step, and
        on a GPU any check would wait for it.
        """
        sizes = self._one_hot_sizes
        if actions.dtype is torch.bool:
            actions = actions.view(torch.uint8)  # which has an argmax
        if actions.device.type != "cpu" or actions.count_nonzero() == self._one_hot_counts[group.name]:
            return from_one_hot(actions, sizes)
        wrong = not_one_hot(actions, sizes)
        active = self._kept.last[1].get("active") if self._kept.last else None
        if active is not None:
            active = active.view(self._leading).to(wrong.device)
            wrong &= active if group.agents is None else active[:, group.agents]
        if wrong.any():
            first = wrong.nonzero()[0].tolist()
            parts = f"one 1 in each of its parts of {sizes} choices" if len(sizes) > 1 else "one 1"
            where, got = f"{group.key('action')!r} {first}", actions[tuple(first)].tolist()
            raise ValueError(f"a one-hot action has {parts} and 0 elsewhere; that at {where} is {got}")
        return from_one_hot(actions, sizes)

    def _checked_mask(self, mask: torch.Tensor, name: str) -> torch.Tensor:
        """Bool ``[worlds]``. Raises TypeError, ValueError."""
        worlds = self.batch_size[0]
        if mask.dtype is not torch.bool:
            raise TypeError(f"{name!r} must have dtype bool, got {str(mask.dtype).removeprefix('torch.')}")
        if tuple(mask.shape) not in ((worlds, 1), (worlds,)):
            raise ValueError(f"{name!r} must have shape [{worlds}, 1] or [{worlds}], got {list(mask.shape)}")
        return mask.reshape(self.batch_size)

    def _check_no_other_masks(self, tensordict: TensorDictBase) -> None:
        """Raise ValueError for masks of agents without one of worlds, because all worlds would be reset."""
        for group in self._groups:
            if group.name is not None and tensordict.get(group.key("_reset"), None) is not None:
                raise ValueError(f"worlds are reset by '_reset' at the root, got {group.key('_reset')!r} without it")

    def _check_partial(self, stepping: torch.Tensor) -> None:
        """Raise ValueError unless the worlds that ``"_step"`` leaves out have ended."""
        if self.vector_env.autoreset_mode is not AutoresetMode.DISABLED:
            raise ValueError("'_step' masks and break_when_all_done=True need autoreset_mode='Disabled'")
        stepping = self._checked_mask(stepping, "_step").to(self.vector_env.device)
        if not bool((stepping | self.vector_env.ended_worlds()).all()):
            raise ValueError("'_step' may leave out only worlds that are done, because the others step together")

    def _by_path(self, observations: Any, infos: Mapping[str, torch.Tensor]) -> dict[Path, torch.Tensor]:
        """Outputs ``[rows, ...]`` by their path."""
        if isinstance(observations, dict):
            values = {("observation", key): rows for key, rows in observations.items()}
        else:
            values = {("observation",): observations}
        for name, path in self._info_paths.items():
            values[path] = infos[name]
        return values

    def _put_final(self, copies: dict[Path, torch.Tensor], infos: Mapping[str, Any]) -> None:
        """Write final values into the rows whose episode has ended."""
        ended = infos["_final_obs"].nonzero().flatten()
        if len(ended):  # seldom many rows: torch.where over all may take longer than the step
            there = ended.to(self.device)
            for path, final in self._by_path(infos["final_obs"], infos["final_info"]).items():
                copies[path][there] = final.index_select(0, ended).to(self.device)

    def _of_worlds(self, flags: torch.Tensor) -> torch.Tensor:
        """New ``[worlds, 1]`` from flags of worlds, or of rows, where a world's first agent counts."""
        flags = flags.view(self.batch_size[0], -1)
        return self._new(flags if flags.shape[1] == 1 else flags[:, :1])

    def _shaped(self, copies: Mapping[Path, torch.Tensor]) -> dict[str, Any]:
        """Rows as ``[worlds, ...]`` or ``[worlds, agents, ...]``, by key. Masks go to the action specs too."""
        shaped = {path: rows.view(*self._leading, *(rows.shape[1:] or (1,))) for path, rows in copies.items()}
        filed: dict[str, Any] = {}
        for group, spec in zip(self._groups, self._action_specs, strict=True):
            parts = shaped
            if group.agents is not None:
                parts = {path: tensor[:, group.agents] for path, tensor in shaped.items()}
            filed |= self._filed(group, parts, TensorDict._new_unsafe)
            if ("action_mask",) in parts:
                spec.update_mask(parts["action_mask",])
        return filed

    def _filed(self, group: Group, values: Mapping[Path, Any], made: Callable[..., Any]) -> dict[str, Any]:
        """Values by path as nested ``made(dict, ...)``, for the root."""
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


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions, which begin anew as in the vector environment by itself."""
    env = TorchRLEnv(environment, num_envs, **{"autoreset_mode": AutoresetMode.SAME_STEP, **options})
    env.set_seed(0)
    env.reset()
    spec = env.full_action_spec
    key = next(iter(spec.keys(True, True)))
    shaped = [{key: actions.view(spec[key].shape)} for actions in random_actions(env.vector_env)]
    prepared = [TensorDict(actions, env.batch_size) for actions in shaped]
    return Played(env, lambda env, tensordict: env.step(tensordict).pop("next"), prepared)
