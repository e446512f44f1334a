"""For tests of environments: what worlds hold, compared to the bit, random actions, and ports beside their originals.

>>> from torch_batchsim.testing import assert_same_bits, random_actions, snapshot
>>> for actions in random_actions(env, 100):
...     env.step(actions)
>>> assert_same_bits(snapshot(env.unwrapped.sim), snapshot(other.unwrapped.sim))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .check import CheckFailed, check_env
from .check.compare import compare
from .check.differences import Comparison, Difference, Mismatch
from .run.legal import batches_of_actions
from .run.snapshots import Tensors, assert_same_bits, first_worlds, of_worlds, snapshot
from .run.world_state import WorldState

__all__ = [
    "CheckFailed",
    "Comparison",
    "Difference",
    "Mismatch",
    "Tensors",
    "WorldState",
    "assert_same_bits",
    "check_env",
    "compare",
    "ended_worlds",
    "first_worlds",
    "of_worlds",
    "random_actions",
    "snapshot",
]


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
