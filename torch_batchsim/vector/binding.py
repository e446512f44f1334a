"""Outputs of a vector environment that go to tensors of a user's, or to the slots of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.vector import VectorEnv

from ..base.names import suggestion
from ..resolve.program import Program


class OutputBinding(VectorEnv):
    """Calls of ``TorchVectorEnv`` that say where outputs go."""

    def bind(
        self,
        *,
        observations: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        rewards: torch.Tensor | None = None,
        terminations: torch.Tensor | None = None,
        truncations: torch.Tensor | None = None,
        final_obs: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        actions: torch.Tensor | None = None,
        **infos: torch.Tensor | None,
    ) -> None:
        """Let outputs go to the given tensors: the next ``step`` or ``reset`` writes there, and returns them.

        Each tensor is contiguous and has the shape, dtype and device of what ``step`` returns. Other keywords are names
        of infos, such as ``action_mask``. Nothing is copied: what the last call returned lies where it was until then.
        Only ``actions``, the action column, moves at once. For a rollout with a place for each step see ``bind_slots``.
        """
        self.check_open()
        flags, final = (terminations, truncations), self.delivers_final
        given = named_outputs(self.sim.program, observations, final_obs, rewards, *flags, infos, final)
        if actions is not None:
            given[self.sim.program.action.name] = actions
        self.sim.memory.bind(given)

    def bind_slots(
        self,
        *,
        observations: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        rewards: torch.Tensor | None = None,
        terminations: torch.Tensor | None = None,
        truncations: torch.Tensor | None = None,
        final_obs: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        **infos: torch.Tensor | None,
    ) -> None:
        """Prepare slots for outputs: tensors ``[slots, rows, ...]``, contiguous, the same number of slots each.

        ``select_slot(t)`` lets the next ``step`` write to slot ``t`` of all of them; slot 0 is selected at first. State
        does not move, and nothing is copied. Resets do not write to slots. Other keywords are names of infos::

            env.bind_slots(observations=storage.observations[1:], rewards=storage.rewards)
            for t in range(len(storage.rewards)):
                env.select_slot(t)
                env.step(actions)  # writes storage.observations[t + 1] and storage.rewards[t]

        ``unbind`` ends it. Raises TypeError or ValueError before anything has changed: of shapes and dtypes that do
        not fit, of memory that outputs would share, and while other slots are bound.
        """
        self.check_open()
        flags, final = (terminations, truncations), self.delivers_final
        given = named_outputs(self.sim.program, observations, final_obs, rewards, *flags, infos, final)
        self.sim.memory.bind_slots(given)

    def select_slot(self, slot: int) -> None:
        """Let the next ``step`` write to this slot of ``bind_slots``. Raises IndexError."""
        self._outputs.select(slot)

    def unbind(self) -> None:
        """Let all outputs go to the simulator's own memory again, from the next ``step`` or ``reset`` on."""
        self.check_open()
        self._outputs.unbind()


def named_outputs(
    program: Program,
    observations: Any,
    final_obs: Any,
    rewards: Any,
    terminations: Any,
    truncations: Any,
    infos: Mapping[str, Any],
    final: bool,
) -> dict[str, Any]:
    """Those tensors that are given (not None), by the simulator's names of the outputs.

    Raises ValueError for an output that the environment does not have, or does not deliver.
    """
    if final_obs is not None and not final:
        raise ValueError("final_obs cannot be bound: it is delivered with SAME_STEP and final_obs=True only")
    given_infos = {name: tensor for name, tensor in infos.items() if tensor is not None}
    for name in given_infos:
        if name not in program.info:
            known = ["observations", "final_obs", "rewards", "terminations", "truncations", *program.info]
            raise ValueError(
                f"{name} cannot be bound: this environment has none{suggestion(name, known)}; what can be is "
                f"{', '.join(known)}"
            )
    given = _keyed(observations, {key: f"output.{column.name}" for key, column in program.observations.items()})
    given |= _keyed(final_obs, {key: f"final.{column.name}" for key, column in program.observations.items()})
    single = {
        program.reward.name: rewards,
        "Agents.terminated": terminations,
        "Agents.truncated": truncations,
        **{f"output.{program.info[name].name}": tensor for name, tensor in given_infos.items()},
    }
    return given | {name: tensor for name, tensor in single.items() if tensor is not None}


def _keyed(given: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """Tensors by name of their column, from one tensor (or None) or a dict of them by key of the observation space."""
    if given is None:
        return {}
    keyed = dict(given) if isinstance(given, Mapping) else {"": given}
    for key in keyed:
        if key not in names:
            keys = ", ".join(repr(name) for name in names if name)
            expected = f"a dict with keys of {keys}" if keys else "one tensor"
            raise ValueError(f"bind of observations needs {expected}, got {repr(key) if key else 'one tensor'}")
    return {names[key]: tensor for key, tensor in keyed.items()}
