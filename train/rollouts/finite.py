"""Stops a training at the first NaN, infinity or missing legal action, and names the observation, reward, parameter or
agent, its world and step.

One NaN in a rollout makes all parameters NaN with the first update, and nothing after it says why. Where a mask allows
no action, the likeliest of the allowed ones is any, and its probability is that of a choice among all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import torch
from gymnasium.spaces import MultiDiscrete
from gymnasium.vector import VectorEnv
from torch import Tensor, nn

from ..base.kernels import can_compute, library
from .rollout import Rollout, Storage


class NotFinite(RuntimeError):
    """An observation, a reward, a loss or a parameter is NaN or infinite; the text names it, its place and a remedy."""


class NoLegalAction(RuntimeError):
    """An action mask allows a row nothing; the text names world, agent and step."""


Says = Callable[[list[int]], tuple[str, str]]
"""The name of an index, and its time: "observation[2] of world 3", "after step 12 of"."""


class _Part(NamedTuple):
    """Numbers that a check has seen."""

    shape: torch.Size
    says: Says
    by_environment: bool  # and not by the training
    chooses: bool = False  # an element is a choice, and whether there is one


class FiniteCheck:
    """Looks for NaN and infinity, and for rows without a legal action. Remembers the first one, on the device of the
    numbers.

    Looking waits for nothing: a handful of operations for a whole rollout. `raise_found` reads the result, and so
    waits for the device.

    Rows `[N]` that are not active may hold anything, and so may final observations of episodes that were not truncated:
    nothing is learned from these.
    """

    def __init__(self, env: VectorEnv, num_agents: int, first_world: int = 0) -> None:
        self.env, self.num_agents, self.first_world = env, num_agents, first_world
        space = env.single_action_space
        self.choices = space.nvec.reshape(-1).tolist() if isinstance(space, MultiDiscrete) else None  # None: one
        self.parts: list[_Part] = []
        self.learned_from: tuple[Tensor, Tensor] | None = None
        self.evaluates = False  # else there are updates
        # Which part (-1: none yet), the index into its elements, the update, the value, and how many are not finite.
        self.found = torch.tensor([-1.0, 0, 0, 0, 0], dtype=torch.float64, device=env.device)

    def look_at_rollout(self, update: int, rollout: Storage | Rollout) -> None:
        """Takes a rollout; `update` counts them, from 1."""
        self.parts.clear()  # described anew in the same order
        active, action_masks = rollout.active, rollout.action_masks
        acted = None if active is None else active[:-1]
        for name, leaf in _leaves(rollout.obs):
            self._look(update, leaf, active, self._observation(name, "observation", 0))
        for name, leaf in (rollout.critic_obs or {}).items():
            self._look(update, leaf, active, self._observation(name, "info", 0, by_name=False))
        self._look(update, rollout.rewards, acted, self._reward())
        counts = rollout.truncations if acted is None else rollout.truncations & acted
        for name, leaf in _leaves(rollout.final_obs):
            self._look(update, leaf, counts, self._observation(name, "final observation", 1))
        for name, leaf in (rollout.final_critic_obs or {}).items():
            self._look(update, leaf, counts, self._observation(name, "final info", 1, by_name=False))
        if action_masks is not None:
            self._look_at_choices(update, action_masks, active)

    def look_at_step(
        self,
        step: int,
        observation: Tensor | dict[str, Tensor],
        action_mask: Tensor | None,
        counts: Tensor | None,
    ) -> None:
        """Takes the inputs of rows `[N]` in an evaluation; `step` counts the steps before it.

        `counts` bool `[N]`: the rows that count; None for all."""
        self.parts.clear()  # described anew in the same order
        self.evaluates = True
        counts = None if counts is None else counts.unsqueeze(0)
        for name, leaf in _leaves(observation):
            self._look(step, leaf.unsqueeze(0), counts, self._observation(name, "observation", 0))
        if action_mask is not None:
            self._look_at_choices(step, action_mask.unsqueeze(0), counts)

    def look_at_update(
        self,
        update: int,
        parameters: Tensor,
        module: nn.Module,
        losses: dict[str, Tensor],
        learned_from: tuple[Tensor, Tensor],
    ) -> None:
        """Takes all parameters as one vector, in the order of the module's, and losses `[]` by name.

        `learned_from` are the observations and returns of the update, whose size the message states.
        """
        self.learned_from = learned_from

        def which(index: list[int]) -> tuple[str, str]:
            names, parameters = zip(*module.named_parameters(), strict=True)
            ends = accumulate(each.numel() for each in parameters)
            return f"parameter {next(name for name, end in zip(names, ends, strict=True) if index[0] < end)}", "after"

        each = torch.stack(list(losses.values()))
        self._look(update, each, None, lambda index: (list(losses)[index[0]], "in"), False)
        self._look(update, parameters.detach(), None, which, False)

    def raise_found(self) -> None:
        """Raises NotFinite or NoLegalAction for the first that was found; waits for the device."""
        part, index, update, value, count = self.found.tolist()
        if part < 0:
            return
        found, value, update = self.parts[int(part)], float(value), int(update)
        what, when = found.says([int(i) for i in torch.unravel_index(torch.tensor(int(index)), found.shape)])
        if self.evaluates:
            when = f"after step {update}" if update else "before the first step"
        else:
            when = f"{when} update {update}"
        of = "step" if self.evaluates else "rollout"
        if found.chooses:
            others = f" ({int(count):,} such choices in this {of})" if count > 1 else ""
            raise NoLegalAction(
                f"{what} {when}{others}: its action_mask must allow at least one action, a pass "
                "for one that does not act"
            )
        shown = "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
        others = f" ({int(count):,} values there are not finite)" if count > 1 else ""
        raise NotFinite(f"{what} is {shown} {when}{others}: {self._remedy(found)}")

    def _remedy(self, part: _Part) -> str:
        if part.by_environment:
            return "correct the value that the environment writes there"
        seen, returns = ((values.abs().max().item() if len(values) else 0.0) for values in self.learned_from)
        if not math.isfinite(returns):
            return f"rewards were finite, but returns made of them are {returns:.3g}: let the environment scale them"
        return (
            f"observations (up to {seen:.3g}) and returns (up to {returns:.3g}) were finite; lower --learning-rate, or "
            "let the environment scale large numbers"
        )

    def _look_at_choices(self, update: int, action_masks: Tensor, active: Tensor | None) -> None:
        parts = [action_masks] if self.choices is None else action_masks.split(self.choices, dim=-1)
        allowed = torch.stack([part.any(-1) for part in parts], dim=-1)  # [T, N, choices]
        counts = None if active is None else active.unsqueeze(-1)
        self._remember(update, allowed, ~allowed if counts is None else ~allowed & counts, self._choice(), True)

    def _look(
        self, update: int, values: Tensor, counts: Tensor | None, says: Says, by_environment: bool = True
    ) -> None:
        nothing_counts = counts is not None and values.device.type == "cpu" and not counts.any()
        if not values.is_floating_point() or nothing_counts or _finite_at_once(values):
            self.parts.append(_Part(values.shape, says, by_environment))
            return
        bad = ~values.isfinite()
        if counts is not None:
            bad &= counts.view(*counts.shape, *[1] * (values.dim() - counts.dim()))
        self._remember(update, values, bad, says, by_environment)

    def _remember(self, update: int, values: Tensor, bad: Tensor, says: Says, by_environment: bool) -> None:
        """The first element that is bad, of a part that is new."""
        number, some = len(self.parts), bad.any()
        self.parts.append(_Part(values.shape, says, by_environment, values.dtype == torch.bool))
        if values.device.type == "cpu" and not some:
            return
        index = bad.flatten().to(torch.uint8).argmax()
        seen = [torch.full_like(index, number), index, torch.full_like(index, update)]
        entry = torch.stack([*(part.double() for part in seen), torch.take(values, index).double(), bad.sum().double()])
        self.found = torch.where(some & (self.found[0] < 0), entry, self.found)

    # ---- places in words ----

    def _observation(self, name: str, kind: str, first_step: int, by_name: bool = True) -> Says:
        """`by_name`: the environment may have a name for the number."""

        def says(index: list[int]) -> tuple[str, str]:
            step, row, *within = index
            key = f"[{name!r}]" if name else ""
            place = f"[{', '.join(map(str, within))}]" if within else ""
            known = getattr(getattr(self.env, "unwrapped", None), "observation_name", None)
            called = f" ({known(within, name)})" if known and by_name else ""
            step += first_step
            when = f"after step {step} of" if step else "before the first step of"
            return f"{kind}{key}{place}{called} of {self._row(row)}", when

        return says

    def _choice(self) -> Says:
        def says(index: list[int]) -> tuple[str, str]:
            step, row, choice = index
            which = "" if self.choices is None else f" in choice {choice} of {len(self.choices)}"
            when = f"after step {step} of" if step else "before the first step of"
            return f"{self._row(row)} has no legal action{which}", when

        return says

    def _reward(self) -> Says:
        return lambda index: (f"the reward of {self._row(index[1])}", f"in step {index[0] + 1} of")

    def _row(self, row: int) -> str:
        world, agent = divmod(row, self.num_agents)
        world += self.first_world
        of_all = world * self.num_agents + agent  # of all processes, as the world is
        return f"world {world}" + (f", agent {agent} (row {of_all})" if self.num_agents > 1 else "")


def _leaves(observation: Tensor | dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    return list(observation.items()) if isinstance(observation, dict) else [("", observation)]


def _finite_at_once(values: Tensor) -> bool:
    """Whether all values are known to be finite without torch's operations, each a pass over them."""
    if values.dtype != torch.float32 or not values.is_contiguous() or not can_compute(values):
        return False
    return bool(library().all_finite(values.data_ptr(), values.numel()))  # type: ignore[union-attr]
