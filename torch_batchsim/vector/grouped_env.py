"""A vector environment whose worlds step in groups, so that a policy works on one group while others step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from ..base.modes import not_compiled
from ..declare.environment import Environment, FixedOptions
from ..declare.run_options import RunKeywords, RunOptions
from ..errors import GroupFault, StepInterrupted, StepTimeout, SystemCrash, WorldFault
from ..memory.inputs import checked_count, checked_device, checked_mask, checked_options, checked_seed
from ..memory.reset_options import reset_options
from .partial_step import check_mode, reset_as_step, step_some
from .results import Observation
from .side_by_side import Outcome, Stopped, Streams, Threads
from .vector_env import TorchVectorEnv
from .vector_inputs import agents_per_world, number_of_worlds

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Batch(NamedTuple):
    """The results of a step or reset of a group, as ``TorchVectorEnv.step`` returns them.

    After a reset ``rewards`` are 0 and flags false. Of a masked one, other rows are as they were returned before.
    """

    group: int
    observations: Observation
    rewards: torch.Tensor
    terminations: torch.Tensor
    truncations: torch.Tensor
    infos: dict[str, Any]


@not_compiled
class GroupedEnv(FixedOptions):
    """Worlds in groups of equal size that step one by one, while the caller does something else::

        env = GroupedEnv(Overcooked(), num_envs=4096, groups=4)
        env.async_reset(seed=0)
        for _ in range(steps):
            batch = env.recv()                                      # of the group that is ready first
            env.send(batch.group, policy(batch.observations))       # returns at once

    Worlds ``[i * n, (i + 1) * n)`` are group ``i``. What happens in a world does not depend on the order in which
    groups step: it is to the bit as in one ``TorchVectorEnv`` of all worlds. (But each group has resources of its own.)

    Args:
        environment: the declaration, options included.
        num_envs, num_worlds: of all groups together, see ``TorchVectorEnv``. Each group has as many worlds.
        groups: how many.
        device: on CPU groups step on threads; on CUDA each on a stream of its own, where only what takes a mask waits
            for the device.
        autoreset_mode, final_obs, output, copy, render_mode: see ``TorchVectorEnv``. Without copies, what ``recv``
            returns stays as it is until the next step but one of the same group.
        render_worlds: of each group, for ``environments[group].render()``.
        **run: how simulators run, see ``declare.run_options.RunOptions``. ``num_threads`` are those of all groups
            together: each group that steps has one, or more where there are fewer groups than threads.

    Attributes: ``environments`` (a ``TorchVectorEnv`` for each group; do not touch those that step), ``num_envs``,
    ``num_worlds``, ``num_agents``, ``num_groups``, ``group_envs`` (rows of a group), ``group_worlds``, ``device``,
    ``single_observation_space``, ``single_action_space``.
    """

    def __init__(
        self,
        environment: Environment,
        num_envs: int | None = None,
        *,
        num_worlds: int | None = None,
        groups: int,
        device: str | torch.device = "cpu",
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        final_obs: bool = True,
        output: str = "torch",
        copy: bool | None = None,
        render_mode: str | None = None,
        render_worlds: int | None = None,
        _make: Callable[..., TorchVectorEnv] = TorchVectorEnv,
        **run: Unpack[RunKeywords],
    ) -> None:
        self.closed = True  # until it is whole
        options = RunOptions.of(run, GroupedEnv)
        self.num_groups = checked_count(groups, "groups")
        self.num_agents = agents_per_world(environment)
        self.num_worlds = number_of_worlds(num_envs, num_worlds, self.num_agents)
        self.group_worlds, rest = divmod(self.num_worlds, self.num_groups)
        if rest:
            below = self.num_worlds - rest
            nearest = " or ".join(str(count) for count in (below, below + self.num_groups) if count)
            raise ValueError(
                f"num_worlds must be a multiple of {self.num_groups} groups, such as {nearest}, got {self.num_worlds}"
            )
        self.num_envs, self.group_envs = self.num_worlds * self.num_agents, self.group_worlds * self.num_agents
        on_cpu = checked_device(device).type == "cpu"
        threads = options.num_threads
        threads = torch.get_num_threads() if threads is None else checked_count(threads, "num_threads")
        workers = min(threads, self.num_groups)
        self.environments = tuple(
            _make(
                environment,
                num_worlds=self.group_worlds,
                device=device,
                autoreset_mode=autoreset_mode,
                final_obs=final_obs,
                output=output,
                copy=copy,
                render_mode=render_mode,
                render_worlds=render_worlds,
                **replace(
                    options,
                    num_threads=threads // workers if on_cpu else None,
                    first_world=options.first_world + group * self.group_worlds,
                ),
            )
            for group in range(self.num_groups)
        )
        for group, env in enumerate(self.environments):
            env._actions.first_world = group * self.group_worlds
        first = self.environments[0]
        self.environment, self.device, self.autoreset_mode = environment, first.device, first.autoreset_mode
        self.single_observation_space = first.single_observation_space
        self.single_action_space = first.single_action_space
        on_streams = first.sim.memory.cuda  # an emulated device too
        self._calls = Streams(self.num_groups, self.device) if on_streams else Threads(workers)
        self._busy = [False] * self.num_groups  # sent, and not received
        self._process = os.getpid()
        self._fix_options(environment)
        self.closed = False

    # ---- the protocol ------------------------------------------------------------------------------------------------

    def async_reset(
        self,
        *,
        seed: int | None = None,
        mask: torch.Tensor | np.ndarray | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Let worlds begin new episodes; ``recv`` returns their groups.

        Args:
            seed: of all worlds, or of those of the mask; ``None`` goes on with the present seed (the first reset draws
                one from the system).
            mask: bool ``[worlds]``: only these, in groups that ``recv`` has returned; ``recv`` returns the groups of
                these worlds, none where the mask is false everywhere. Without, all worlds of all groups; those that
                step are awaited, and their results dropped.
            options: the environment's ``reset_options``, for all worlds alike or ``[worlds, ...]``, as for
                ``TorchVectorEnv.reset``.
        """
        self._check_usable()
        seed = checked_seed(seed)
        options = checked_options(options, tuple(self.environment.reset_options))
        if mask is None:
            while any(self._busy):
                self._next()
            groups = range(self.num_groups)
        else:
            mask = checked_mask(mask, "mask", self.num_worlds, self.device)
            groups = mask.view(self.num_groups, -1).any(1).nonzero().flatten().tolist()
            for group in groups:
                self._check_idle(group)
        if not all(map(self._has_begun, groups)):  # none of them steps; others may be within their first reset
            if mask is not None:
                raise gymnasium.error.ResetNeeded("the first reset must be of all worlds; call it without a mask")
            seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        parts = self._by_group(options)
        for group in groups:
            worlds = slice(group * self.group_worlds, (group + 1) * self.group_worlds)
            own = parts[group]
            if mask is not None:
                own["reset_mask"] = mask[worlds]
            tensors = [value for value in own.values() if isinstance(value, torch.Tensor)]
            self._start(group, partial(reset_as_step, self.environments[group], seed, own), tensors)

    def hold(self, options: Mapping[str, Any] | None, mask: torch.Tensor | np.ndarray | None = None) -> None:
        """Let all later episodes begin with ``options``, see ``TorchVectorEnv.hold``; while no group steps.

        ``mask``: bool ``[worlds]``.
        """
        self._check_usable()
        for group in range(self.num_groups):
            self._check_idle(group)
        parts = self._by_group(checked_options(options, tuple(self.environment.reset_options)))
        masks = None if mask is None else checked_mask(mask, "mask", self.num_worlds, self.device)
        for group, env in enumerate(self.environments):
            worlds = slice(group * self.group_worlds, (group + 1) * self.group_worlds)
            env.sim.hold(parts[group], None if masks is None else masks[worlds])

    def _by_group(self, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The part of each group: its rows, or values for all worlds alike. Raises TypeError or ValueError."""
        known = reset_options(self.environments[0].sim.program)
        given = {name: known[name].checked(value, self.num_worlds) for name, value in options.items()}
        ends = range(0, self.num_worlds, self.group_worlds)
        return [
            {name: t[first : first + self.group_worlds] if by_world else t for name, (t, by_world) in given.items()}
            for first in ends
        ]

    def send(
        self, group: int, actions: torch.Tensor | np.ndarray, worlds: torch.Tensor | np.ndarray | None = None
    ) -> None:
        """Let a group step; returns at once.

        Args:
            group: one that ``recv`` has returned.
            actions: ``[group_envs, ...]``, see ``TorchVectorEnv.step``. They are read until ``recv`` returns the group.
            worlds: a mask, bool ``[group_worlds]``, that is true somewhere: only these step, and the others stand
                still, in rows that are not worth reading (``step_some``). Not with SAME_STEP.

        Wrong shapes, dtypes and masks raise here; on CPU an action outside the action space raises ValueError in
        ``recv``.
        """
        call, tensors = self._step_call(group, actions, worlds)
        self._start(group, call, tensors)

    def recv(self) -> Batch:
        """The outputs of the group that is ready first; waits for it on CPU.

        Raises GroupFault if systems of the group have reported faults, ValueError for actions outside the action
        space, and RuntimeError where no group has been sent. Other groups go on, and this one may be sent again.
        """
        self._check_usable()
        if not any(self._busy):
            raise RuntimeError("recv() would wait for ever: no group steps; call send() or async_reset() before")
        return self._delivered(self._next())

    def step(
        self, group: int, actions: torch.Tensor | np.ndarray, worlds: torch.Tensor | np.ndarray | None = None
    ) -> Batch:
        """As ``send`` and ``recv`` of this group, without another thread."""
        call, _ = self._step_call(group, actions, worlds)
        return self._delivered(Outcome(group, call))

    @property
    def busy_groups(self) -> list[int]:
        """Groups that step, or wait for ``recv``."""
        return [group for group, busy in enumerate(self._busy) if busy]

    def close(self) -> None:
        """Wait for groups that step, drop their results, and end the threads."""
        if not self.closed:
            self.closed = True
            self._calls.close()
            for env in self.environments:
                env.close()

    def __reduce__(self) -> NoReturn:
        """Raises TypeError."""
        raise TypeError(
            "GroupedEnv cannot be pickled or copied, because its groups step beside its caller; make a new one, and "
            "load the state_dict() of each of its environments there"
        )

    def __enter__(self) -> GroupedEnv:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _step_call(self, group: int, actions: Any, worlds: Any) -> tuple[Callable[[], Any], list[torch.Tensor]]:
        """The call that steps the group, and the tensors that it reads."""
        self._check_usable()
        self._check_idle(group)
        env = self.environments[group]
        if not self._has_begun(group):
            raise gymnasium.error.ResetNeeded(f"call async_reset() before actions are sent to group {group}")
        actions = env.checked_actions(actions)
        if worlds is None:
            return partial(env.step, actions), [actions]
        check_mode(self.autoreset_mode)
        worlds = checked_mask(worlds, "worlds", self.group_worlds, self.device)
        if not worlds.any():
            raise ValueError(
                f"worlds must name at least one world of group {group}, got a mask that is false everywhere"
            )
        return partial(step_some, env, actions, worlds), [actions, worlds]

    def _has_begun(self, group: int) -> bool:
        """Whether an idle group has been reset."""
        return self.environments[group].has_begun

    def _start(self, group: int, call: Callable[[], Any], tensors: list[torch.Tensor]) -> None:
        self._calls.start(group, call, tensors)
        self._busy[group] = True

    def _next(self) -> Outcome:
        try:
            outcome = self._calls.next()
        except Stopped:
            self._check_usable()
            raise
        self._busy[outcome.group] = False
        return outcome

    def _delivered(self, outcome: Outcome) -> Batch:
        if outcome.error is not None:
            self._raise(outcome.group, outcome.error)
        return Batch(outcome.group, *outcome.value)

    def _raise(self, group: int, error: BaseException) -> NoReturn:
        """The error of a group, in words of the whole batch, where it is about worlds."""
        first = group * self.group_worlds
        worlds = f"worlds {first} to {first + self.group_worlds - 1}"
        if isinstance(error, (StepInterrupted, StepTimeout, SystemCrash)):
            raise type(error)(f"group {group} ({worlds}, which count from 0 here): {error}") from None
        if not isinstance(error, Exception) or isinstance(error, gymnasium.error.Error):
            raise error
        if isinstance(error, WorldFault):
            mask = torch.zeros(self.num_worlds, dtype=torch.bool, device=error.mask.device)
            mask[first : first + self.group_worlds] = error.mask
            faults = [replace(fault, world=fault.world + first) for fault in error.faults]
            fault = GroupFault(faults, mask, error.stepped, group)
            fault.outputs = None if error.outputs is None else Batch(group, *error.outputs)
            raise fault from None
        kind = next((kind for kind in (ValueError, TypeError) if isinstance(error, kind)), RuntimeError)
        raise kind(f"group {group} ({worlds}): {error}") from error

    def _check_idle(self, group: Any) -> None:
        if isinstance(group, bool) or not isinstance(group, (int, np.integer)) or not 0 <= group < self.num_groups:
            raise ValueError(f"group must be an integer from 0 to {self.num_groups - 1}, got {group!r}")
        if self._busy[group]:
            raise RuntimeError(f"group {group} has been sent already: recv() must return it before the next actions")

    def _check_usable(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError("this environment is closed; make a new one")
        if os.getpid() != self._process:
            raise RuntimeError("the threads of groups stayed with the parent of this process; make a new environment")
