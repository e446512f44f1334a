"""For tests of environments: what worlds hold, compared to the bit, random actions, and ports beside their originals.

>>> from torch_batchsim.testing import assert_same_bits, random_actions, snapshot
>>> for actions in random_actions(env, 100):
...     env.step(actions)
>>> assert_same_bits(snapshot(env.unwrapped.sim), snapshot(other.unwrapped.sim))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .compare import compare
from .differences import Comparison, Difference, Mismatch
from .legal import batches_of_actions
from .simulator import Simulator
from .world_state import WorldState

__all__ = [
    "Comparison",
    "Difference",
    "Mismatch",
    "WorldState",
    "assert_same_bits",
    "compare",
    "ended_worlds",
    "first_worlds",
    "of_worlds",
    "random_actions",
    "snapshot",
]

Tensors = dict[str, torch.Tensor]


def snapshot(sim: Simulator, *, final: bool = True) -> Tensors:
    """Copies of all that worlds hold, on the host; free slots, resources and scratch are left out.

    Args:
        final: with the values that were kept at the end of episodes, in the rows that ended in the last step.

    Returns tensors by name: one entry a world or row in the first dimension. Those of a dynamic table are called
    ``"<table> <what>"``; how many of their rows are of which world says ``"<table> counts"``.
    """
    apart = {f"column_{c.c_name}" for c in sim.program.columns.values() if c.dynamic or c.resource or c.scratch}
    held = {}
    for name, tensor in sim.memory.columns.items():
        scratch = name == "phase" or name in apart or name.startswith("table_")
        if not scratch and (final or not name.startswith("final_")):
            held[name] = tensor.detach().clone().cpu()
    ended = held["agent_done"].bool()
    for name in held:
        if name.startswith("final_"):  # other rows hold what was in memory before
            held[name].view(len(ended), -1)[~ended] = 0
    for name, table in sim.memory.tables.items():
        if not table.archetype.scratch:
            held |= {f"{name} {part}": tensor.cpu() for part, tensor in table.state().items()}
    return held


def of_worlds(held: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> Tensors:
    """The part of a snapshot that belongs to some worlds, given as a bool mask ``[worlds]``."""
    part = {}
    worlds = worlds.cpu()
    for name, tensor in held.items():
        table, _, what = name.partition(" ")
        if what and what not in ("rooms", "counts", "crowded"):  # an entry a row
            part[name] = tensor[worlds.repeat_interleave(held[f"{table} counts"])]
        else:
            part[name] = tensor.reshape(len(worlds), -1)[worlds].reshape(-1)
    return part


def first_worlds(sim: Simulator, count: int, *, final: bool = True) -> Tensors:
    """The part of a snapshot that belongs to the first ``count`` worlds."""
    return of_worlds(snapshot(sim, final=final), torch.arange(sim.num_worlds) < count)


def assert_same_bits(expected: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor], where: str = "") -> None:
    """Raise AssertionError with the names and bytes that differ, after the words ``where``; shapes do not count."""
    missing = [*(name for name in expected if name not in found), *(name for name in found if name not in expected)]
    if missing:
        raise AssertionError(f"{where}only one side has {', '.join(missing)}")
    wrong = []
    for name, tensor in expected.items():
        a, b = (t.cpu().contiguous().view(-1).view(torch.uint8) for t in (tensor, found[name]))
        if a.shape != b.shape:
            wrong.append(f"{name} has {b.numel()} bytes for {a.numel()}")
        elif not torch.equal(a, b):
            at = (a != b).nonzero().flatten()
            wrong.append(f"{name} differs in {len(at)} of {len(a)} bytes, first at {at[:4].tolist()}")
    if wrong:
        raise AssertionError(where + "; ".join(wrong[:8]) + ("; ..." if len(wrong) > 8 else ""))


def ended_worlds(env: Any) -> torch.Tensor:
    """``env.ended_worlds()`` of a ``TorchVectorEnv``, wrapped or not, as a tensor."""
    return torch.as_tensor(env.unwrapped.ended_worlds())


def random_actions(
    env: Any, batches: int = 16, *, seed: int = 0, most_worlds: int | None = None
) -> Sequence[torch.Tensor]:
    """Random actions for ``env.step``: legal ones where the environment has masks, else drawn from the action space.

    Args:
        env: a ``TorchVectorEnv``, wrapped or not.
        batches: how many are prepared. Where there are masks, each is drawn when it is asked for, by the masks of that
            moment (see ``LegalActions``).
        most_worlds: of the largest environment that is to be played with them: a world's actions are then the same
            beside fewer others. They do not depend on the device either.

    Returns a sequence of tensors ``[rows, ...]`` on the environment's device, of the action space's dtype.
    """
    own = env.unwrapped
    rows = (most_worlds or own.num_worlds) * own.num_agents
    mask = None if own.action_mask is None else lambda: own.action_mask
    return batches_of_actions(
        own.single_action_space, own.num_envs, batches, mask=mask, device=own.device, seed=seed, drawn_rows=rows
    )
