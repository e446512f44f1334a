"""EnvPool's interface: ``send`` and ``recv`` with ``batch_size < num_envs``. Its scripts run with another import.

>>> from torch_batchsim.adapters import envpool
>>> env = envpool.make("torch_batchsim/CartPole-v0", env_type="gymnasium", num_envs=64, batch_size=16, seed=1)
>>> env.async_reset()
>>> while True:
...     observations, rewards, terminated, truncated, info = env.recv()
...     env.send(policy(observations), info["env_id"])

EnvPool itself is unnecessary. The worlds step in groups, see ``torch_batchsim.vector.grouped_env``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from ..declare.run_options import RUN_ARGUMENTS
from ..memory.inputs import bool_tensor, number_tensor
from ..testing import random_actions
from ..vector.grouped_env import Batch, GroupedEnv
from ..vector.registration import environment_ids
from .envpool_spec import EnvSpec, checked_ids, dm_env, listed, make_spec, time_step
from .records import Played


def make(task_id: str, env_type: str = "gymnasium", **kwargs: Any) -> Any:
    """An ``EnvPool``, or a ``DMEnvPool`` with ``env_type="dm"``.

    Args:
        task_id: an environment of ours by its short name, or any that was registered with ``torch_batchsim`` by its id.
        env_type: ``"gymnasium"``, ``"gym"`` (the same) or ``"dm"``, which needs ``dm_env``.
        **kwargs: ``num_envs``: worlds (an environment with several agents has several rows for each);
            ``batch_size``: worlds that ``recv`` returns, by default all; ``seed`` of all worlds; ``num_threads``: by
            default torch's; ``device``; ``output``: ``"numpy"``, arrays that stay for ever, or ``"torch"``, tensors on
            the device that stay until the next step but one of their group; ``executor``, ``checks`` and so on as for
            ``make_vec``, of whose environments ``env.grouped`` is one; ``render_mode`` and ``render_env_id``; and the
            environment's own options. (An option with the name of one of these arguments keeps its default.)

    Worlds step in groups of the greatest number that divides both ``num_envs`` and ``batch_size``, at most 64 groups.
    """
    if env_type not in ("gymnasium", "gym", "dm"):
        raise ValueError(f"env_type must be 'gymnasium', 'gym' or 'dm', got {env_type!r}")
    cls = _dm_class() if env_type == "dm" else EnvPool
    return cls(make_spec(task_id, **kwargs))


def make_gymnasium(task_id: str, **kwargs: Any) -> EnvPool:
    """``make`` with ``env_type="gymnasium"``."""
    return make(task_id, "gymnasium", **kwargs)


make_gym = make_gymnasium


def make_dm(task_id: str, **kwargs: Any) -> Any:
    """``make`` with ``env_type="dm"``."""
    return make(task_id, "dm", **kwargs)


def list_all_envs() -> list[str]:
    """The ids of the environments that come with ``torch_batchsim``."""
    return list(environment_ids().values())


class _Pool:
    """The protocol; ``_to`` of a subclass makes the results."""

    def __init__(self, spec: EnvSpec) -> None:
        self.closed = True  # until it is whole
        self.spec, config = spec, spec.config
        self.num_envs, self._batch = config.num_envs, config.batch_size
        self._of_group = math.gcd(self.num_envs, self._batch)  # worlds
        self._numpy, self._seed = config.output == "numpy", int(config.seed)
        self.render_mode = config.render_mode
        self.grouped = GroupedEnv(
            spec.environment,
            num_worlds=self.num_envs,
            groups=self.num_envs // self._of_group,
            device=config.device,
            autoreset_mode=AutoresetMode.NEXT_STEP,
            output=config.output,
            copy=True if self._numpy else None,
            render_mode=config.render_mode,
            **{name: getattr(config, name) for name in RUN_ARGUMENTS} | {"num_threads": config.num_threads or None},
        )
        self.all_env_ids = np.arange(self.num_envs, dtype=np.int32)
        self._every = np.arange(self.num_envs)
        self._agents = self.grouped.num_agents
        self._begun = False
        self._acting = np.zeros(self.num_envs, np.bool_)  # worlds with actions or a reset that recv() has not returned
        self._parts: list[dict[str, Any]] = []  # received, but not returned
        self._sent: dict[int, np.ndarray | None] = {}  # groups with the worlds to return, None: all in their order
        self._waiting: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # groups that lack actions: those, and of whom
        self.closed = False

    # ---- the protocol ----------------------------------------------------------------------------------------------

    def async_reset(self, env_id: Any = None) -> None:
        """Let worlds begin new episodes, all or those of ``env_id``; ``recv`` returns them.

        A reset of all drops results that were not received. A reset of some with ``batch_size < num_envs`` returns the
        other worlds of their groups too, unchanged.
        """
        self._reset(None if env_id is None else self._ids(env_id))

    def send(self, action: Any, env_id: Any = None) -> None:
        """Let worlds step, all or those of ``env_id``; does not wait.

        Args:
            action: ``[envs * agents, ...]``, in the order of ``env_id``; or a dict, see ``spec.action_array_spec``.
                A tensor is read until ``recv`` returns those worlds; an array is copied.
            env_id: integers ``[envs]``, each at most once; worlds that ``recv`` has returned since their last actions.

        With ``batch_size < num_envs`` a group steps when all of its worlds have actions. Before a reset, actions for
        all worlds begin their episodes, as in EnvPool. Raises TypeError or ValueError before anything has changed.
        """
        self._check_open()
        actions, ids = self._given(action, env_id)
        if not self._begun:
            if len(ids) < self.num_envs:
                raise gymnasium.error.ResetNeeded("call reset() or async_reset() before actions of some envs are sent")
            self._reset(None)
        elif self.is_async:
            self._send_groups(actions, ids)
        else:
            self._collect()
            actions, worlds, order = self._of_all(actions, ids)
            self.grouped.send(0, actions, worlds)
            self._sent[0] = order
        self._acting[ids] = True

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """The next ``batch_size`` worlds that are ready; with ``batch_size == num_envs`` all that were sent.

        Returns ``(observations, rewards, terminated, truncated, info)``, with ``reset`` ``(observations, info)``.
        ``info["env_id"]`` has their worlds. A world that has ended begins anew with its next action, whatever it is.

        Raises RuntimeError where it would wait for ever, ValueError for actions outside the space, ``GroupFault``.
        """
        self._check_open()
        wanted = self._batch // self._of_group if self.is_async else 1
        if len(self._parts) + len(self._sent) < wanted or not (self._parts or self._sent):
            lacking = "".join(f"; group {g} lacks actions of some of its envs" for g in self._waiting)
            raise RuntimeError(
                f"recv() would wait for ever: it returns {self._batch} envs, and fewer were sent{lacking}"
            )
        while self._sent and (len(self._parts) < wanted or not self.is_async):
            self._receive()
        parts, self._parts = self._parts[:wanted], self._parts[wanted:]
        if not self.is_async:
            parts, self._parts = parts + self._parts, []
        joined = _joined(parts)
        self._acting[joined["env_id"]] = False
        return self._to(joined, reset)

    def step(self, action: Any, env_id: Any = None) -> Any:
        """``send`` and ``recv``."""
        if self.is_async or not self._begun or self._sent or self._parts:
            self.send(action, env_id)
            return self.recv()
        actions, worlds, order = self._of_all(*self._given(action, env_id))
        return self._to(self._part(self.grouped.step(0, actions, worlds), order), False)

    def reset(self, env_id: Any = None, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """``async_reset`` and ``recv``: of ``batch_size`` worlds, or of ``env_id``.

        Args:
            seed: a new one of all worlds that are reset; ``None`` goes on with the present one.
            options: ``{"reset_mask": bool [num_envs]}`` for ``env_id``, and the environment's own, ``[worlds, ...]``.
        """
        options = dict(options or {})
        mask = options.pop("reset_mask", None)
        if mask is not None:
            if env_id is not None:
                raise ValueError("give env_id or options['reset_mask'], not both")
            mask = bool_tensor(mask, "reset_mask").cpu().numpy()
            if mask.shape != (self.num_envs,):
                raise ValueError(f"reset_mask must have shape [{self.num_envs}], got {list(mask.shape)}")
            env_id = mask.nonzero()[0]
        self._reset(None if env_id is None else self._ids(env_id), seed, options)
        return self.recv(reset=True)

    @property
    def is_async(self) -> bool:
        """Whether ``recv`` returns fewer worlds than there are."""
        return self._batch != self.num_envs

    @property
    def config(self) -> dict[str, Any]:
        """Its arguments and options."""
        return self.spec.config._asdict()

    def __len__(self) -> int:
        return self.num_envs

    def seed(self, seed: int | None = None) -> None:
        """Only warns, as in EnvPool."""
        gymnasium.logger.warn("seed() does nothing: give the seed to make(), or to reset()")

    def xla(self) -> Any:
        """Raises RuntimeError."""
        raise RuntimeError(
            "xla() is of torch_batchsim.adapters.jax.JaxEnv, which steps all worlds at once: a compiled program needs "
            "to know whose results it gets"
        )

    def render(self, env_ids: Any = None, camera_id: int | None = None) -> np.ndarray:
        """Pictures ``uint8 [envs, height, width, 3]`` of ``env_ids``, by default of ``render_env_id``.

        Waits for worlds that step, and draws them after their step, which ``recv`` still returns; raises the errors of
        ``recv``.
        """
        if self.render_mode is None:
            raise RuntimeError("render() needs render_mode='rgb_array', given to make()")
        ids = self._ids(self.spec.config.render_env_id if env_ids is None else env_ids)
        places = [divmod(int(env), self._of_group) for env in ids]
        while not self._sent.keys().isdisjoint(group for group, _ in places):
            self._receive()
        return np.stack([self.grouped.environments[group].render_world(world) for group, world in places])

    def _check_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError("this pool is closed; make a new one")

    def close(self, **kwargs: Any) -> None:
        """Wait for worlds that step, and end the threads."""
        if not self.closed:
            self.closed = True
            self.grouped.close()

    def __reduce__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied, because its worlds step beside its caller")

    def __repr__(self) -> str:
        return f"{type(self.spec.environment).__name__}{type(self).__name__}({listed(self.config)})"

    __str__ = __repr__

    # ---- sending ---------------------------------------------------------------------------------------------------

    def _ids(self, env_id: Any) -> np.ndarray:
        return checked_ids(env_id, self.num_envs)

    def _given(self, action: Any, env_id: Any) -> tuple[torch.Tensor, np.ndarray]:
        """Actions of the right shape, and their worlds."""
        if isinstance(action, Mapping):
            env_id = action.get("env_id") if env_id is None else env_id
            action = {**{f"players.{name}": value for name, value in (action.get("players") or {}).items()}, **action}
            if action.keys().isdisjoint(("action", "players.action")):
                given = ", ".join(map(repr, action)) or "nothing"
                raise TypeError(f"a dict of actions must have 'action' or 'players.action', got {given}")
            players = action.get("players.env_id")
            action = action.get("action", action.get("players.action"))
        else:
            players = None
        ids = self._every if env_id is None else self._ids(env_id)
        if players is not None and not np.array_equal(players, ids.repeat(self._agents)):
            raise ValueError("players.env_id must name each env of env_id once for each of its agents, in this order")
        actions = action if isinstance(action, torch.Tensor) else number_tensor(np.array(action), "actions")
        shape = (len(ids) * self._agents, *self.spec.action_space.shape)
        if tuple(actions.shape) != shape:
            raise ValueError(f"actions of {len(ids)} envs must have shape {list(shape)}, got {list(actions.shape)}")
        if actions.dtype.is_floating_point and not isinstance(self.spec.action_space, gymnasium.spaces.Box):
            raise TypeError(f"actions must be integers, got {str(actions.dtype).removeprefix('torch.')}")
        self._check_returned(ids)
        return actions.to(self.grouped.device), ids

    def _check_returned(self, ids: np.ndarray) -> None:
        if not (self._sent or self._parts or self._waiting):
            return
        acting = ids[self._acting[ids]]
        if len(acting):
            raise ValueError(f"env {acting[0]} has actions already: recv() must return it before the next ones")

    def _send_groups(self, actions: torch.Tensor, ids: np.ndarray) -> None:
        """Step each group that has all of its actions; keep the actions of the others."""
        n, rows = self._of_group, self._of_group * self._agents
        whole = len(ids) % n == 0 and ids.reshape(-1, n)
        if whole is not False and (whole == whole[:, :1] + np.arange(n)).all() and not (whole[:, 0] % n).any():
            for i, group in enumerate(whole[:, 0] // n):
                self._send_group(int(group), actions[i * rows : (i + 1) * rows])
            return
        actions = actions.to(torch.float64 if actions.dtype.is_floating_point else torch.int64)
        per_env = actions.view(len(ids), self._agents, *actions.shape[1:])
        for group in np.unique(ids // n).tolist():
            mine = (ids // n == group).nonzero()[0]
            worlds = torch.from_numpy(ids[mine] - group * n)
            if group not in self._waiting:
                self._waiting[group] = per_env.new_empty((n, *per_env.shape[1:])), torch.zeros(n, dtype=torch.bool)
            kept, have = self._waiting[group]
            kept[worlds.to(kept.device)], have[worlds] = per_env[torch.from_numpy(mine).to(kept.device)], True
            if have.all():
                self._send_group(group, kept.flatten(0, 1))
                del self._waiting[group]

    def _send_group(self, group: int, actions: torch.Tensor) -> None:
        self.grouped.send(group, actions)
        self._sent[group] = None

    def _of_all(self, actions: torch.Tensor, ids: np.ndarray) -> tuple[torch.Tensor, torch.Tensor | None, Any]:
        """With one group: actions of all rows, the mask of the worlds that step, and the order of the results."""
        if ids is self._every or np.array_equal(ids, self._every):
            return actions, None, None
        rows = torch.from_numpy(self._rows(ids)).to(actions.device)
        of_all = actions.new_zeros((self.num_envs * self._agents, *actions.shape[1:]))
        of_all[rows] = actions
        worlds = torch.zeros(self.num_envs, dtype=torch.bool)
        worlds[torch.from_numpy(ids)] = True
        return of_all, None if worlds.all() else worlds.to(actions.device), ids

    def _reset(self, ids: np.ndarray | None, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        if ids is None:
            seed = self._seed if seed is None and not self._begun else seed
            self.grouped.async_reset(seed=seed, options=options)
            self._parts, self._waiting = [], {}
            self._sent, self._begun = dict.fromkeys(range(self.grouped.num_groups)), True
            self._acting[:] = True
            return
        self._check_returned(ids)
        mask = torch.zeros(self.num_envs, dtype=torch.bool)
        mask[torch.from_numpy(ids)] = True
        if not self.is_async:
            self._collect()
        self.grouped.async_reset(seed=seed, mask=mask, options=options)
        groups = np.unique(ids // self._of_group)
        self._sent |= {int(group): None if self.is_async else ids for group in groups}
        self._acting[np.isin(self.all_env_ids // self._of_group, groups) if self.is_async else ids] = True

    # ---- receiving -------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Receive all results of earlier calls, because a group takes one call at a time."""
        while self._sent:
            self._receive()

    def _receive(self) -> None:
        try:
            batch = self.grouped.recv()
        except Exception:
            busy = self.grouped.busy_groups
            for group in set(self._sent) - set(busy):  # the one that failed
                del self._sent[group]
                self._acting[group * self._of_group : (group + 1) * self._of_group] = False
            raise
        self._parts.append(self._part(batch, self._sent.pop(batch.group)))

    def _rows(self, worlds: np.ndarray) -> np.ndarray:
        return (worlds[:, None] * self._agents + np.arange(self._agents)).reshape(-1)

    def _part(self, batch: Batch, order: np.ndarray | None) -> dict[str, Any]:
        """The results of a group, in the order in which its worlds were sent."""
        sim = self.grouped.environments[batch.group].sim
        by_world = {"elapsed_step": sim.tensor("World.step")}
        # Without gymnasium's masks, which EnvPool does not have.
        infos = {name: value for name, value in batch.infos.items() if not name.startswith("_")}
        by_row = {"obs": batch.observations, "reward": batch.rewards, "info": infos}
        flags = {"terminated": batch.terminations, "truncated": batch.truncations}
        if self._agents > 1:
            by_world |= {name: sim.tensor(f"World.{name}") for name in flags}
            by_row["players"] = flags
        else:
            by_row |= flags
        by_world = {name: tensor.numpy().copy() if self._numpy else tensor.clone() for name, tensor in by_world.items()}
        ids = self.all_env_ids[batch.group * self._of_group :][: self._of_group]
        if order is not None:
            by_row, by_world, ids = _taken(by_row, self._rows(order)), _taken(by_world, order), ids[order]
        return {**by_row, **by_world, "env_id": ids.copy()}

    def _info(self, part: dict[str, Any]) -> dict[str, Any]:
        own, players = part["info"], {"env_id": part["env_id"].repeat(self._agents)}
        if self._agents > 1:
            own, players = {}, {**own, **part["players"], **players}
        return {**own, "env_id": part["env_id"], "players": players, "elapsed_step": part["elapsed_step"]}


class EnvPool(_Pool, VectorEnv, gymnasium.Env):
    """EnvPool's gymnasium interface, see ``make``.

    ``observation_space`` and ``action_space`` are those of one agent, as in EnvPool. ``num_envs`` and ``env_id`` are of
    worlds. Observations and rewards have a row for each agent, ``terminated``, ``truncated``, ``info["env_id"]`` and
    ``info["elapsed_step"]`` an entry for each world. ``info["players"]["env_id"]`` has the world of each row. With
    several agents the environment's own infos are in ``info["players"]`` too, beside ``"terminated"`` and
    ``"truncated"`` of each agent.
    """

    metadata = {"render_modes": ["rgb_array"], "autoreset_mode": AutoresetMode.NEXT_STEP}
    is_vector_env = True

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec)
        self.observation_space = self.single_observation_space = spec.observation_space
        self.action_space = self.single_action_space = spec.action_space

    def _to(self, part: dict[str, Any], reset: bool) -> tuple[Any, ...]:
        info = self._info(part)
        if reset:
            return part["obs"], info
        return part["obs"], part["reward"], part["terminated"], part["truncated"], info


class _DMPool(_Pool):
    """EnvPool's ``dm_env`` interface: a ``TimeStep`` of arrays, whose observation is a namedtuple."""

    def observation_spec(self) -> Any:
        return self.spec.observation_spec()

    def action_spec(self) -> Any:
        return self.spec.action_spec()

    def _to(self, part: dict[str, Any], reset: bool) -> Any:
        return time_step(part, self._info(part))


@cache
def _dm_class() -> type:
    return type("DMEnvPool", (_DMPool, dm_env().Environment), {"__doc__": _DMPool.__doc__})


def _taken(value: Any, rows: np.ndarray) -> Any:
    """These rows of an array or tensor, or of each in a dict."""
    if isinstance(value, dict):
        return {key: _taken(part, rows) for key, part in value.items()}
    return value[torch.from_numpy(rows).to(value.device)] if isinstance(value, torch.Tensor) else value[rows]


def _joined(parts: list[Any]) -> Any:
    """One after the other, in dicts by key."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {key: _joined([part[key] for part in parts]) for key in parts[0]}
    return torch.cat(parts) if isinstance(parts[0], torch.Tensor) else np.concatenate(parts)


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Worlds with random actions."""
    env = make(environment, num_envs=num_envs, seed=0, **options)
    env.reset()
    return Played(env, EnvPool.step, [actions.numpy() for actions in random_actions(env.grouped.environments[0])])
