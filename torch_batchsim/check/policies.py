"""Actions of checks: random and extreme ones, by a world's own episode and step, so that runs can be compared."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Box

from ..declare.spaces import bounds
from ..run.legal import legal_actions
from ..vector.vector_env import TorchVectorEnv

STYLES = {
    "random": "random actions",
    "held": "random actions, each held for 16 steps",
    "lowest": "the lowest action always",
    "highest": "the highest action always",
    "corners": "lowest and highest actions at random",
}
_DRAWN = 64  # different ones for each row
_HELD = 16  # steps
_FAR = 1e6  # in place of an infinite bound


class Policy:
    """Actions for ``env.step``, which depend only on a world's number, episode and step.

    Args:
        env: of the same environment as those that it will play.
        worlds: of the largest of those.
        style: one of ``STYLES``. With masks it takes only legal choices.
        seed: of the draws.
    """

    def __init__(self, env: TorchVectorEnv, worlds: int, style: str = "random", seed: int = 0) -> None:
        self._space, self._agents, self._style = env.single_action_space, env.num_agents, style
        generator = np.random.default_rng(seed)
        rows = worlds * self._agents
        masked = env.action_mask is not None
        draw = self._scores if masked else self._values
        self._drawn, self._masked = torch.from_numpy(draw(rows, generator)), masked

    def __call__(self, env: TorchVectorEnv, worlds: torch.Tensor | None = None) -> torch.Tensor:
        """``[rows, ...]`` on the environment's device; ``worlds [worlds]``: the world whose actions each takes."""
        worlds = torch.arange(env.num_worlds) + env.sim.first_world if worlds is None else worlds
        episode, step = (env.sim.tensor(f"World.{name}").cpu().long() for name in ("episode", "step"))
        moment = episode * 7 + (step // _HELD if self._style == "held" else step)
        rows = (worlds[:, None] * self._agents + torch.arange(self._agents)).reshape(-1)
        drawn = self._drawn[moment.repeat_interleave(self._agents) % _DRAWN, rows]
        if self._masked:
            drawn = legal_actions(self._space, env.action_mask.cpu(), drawn)
        return drawn.to(env.device)

    def _scores(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """``[drawn, rows, choices]``: the legal choice with the greatest score is taken, in each part."""
        parts = np.asarray(getattr(self._space, "nvec", getattr(self._space, "n", 0))).reshape(-1)
        rising = np.concatenate([np.arange(1, count + 1) for count in parts]).astype(np.int16)
        falling = np.concatenate([np.arange(count, 0, -1) for count in parts]).astype(np.int16)
        shape = (_DRAWN, rows, len(rising))
        if self._style == "highest":
            return np.broadcast_to(rising, shape).copy()
        if self._style == "lowest":
            return np.broadcast_to(falling, shape).copy()
        if self._style == "corners":
            return np.where(generator.random((_DRAWN, rows, 1)) < 0.5, rising, falling)
        return generator.integers(1, 2**15, shape, dtype=np.int16)

    def _values(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        low, high = (np.asarray(end) for end in bounds(self._space))
        if isinstance(self._space, Box):
            low, high = np.clip(low, -_FAR, _FAR), np.clip(high, -_FAR, _FAR)
        shape = (_DRAWN, rows, *self._space.shape)
        dtype = self._space.dtype
        if self._style in ("lowest", "highest"):
            return np.broadcast_to(low if self._style == "lowest" else high, shape).astype(dtype)
        if self._style == "corners":
            return np.where(generator.random(shape) < 0.5, low, high).astype(dtype)
        if not isinstance(self._space, Box):
            return generator.integers(low, high + 1, shape).astype(dtype)
        near = np.clip(low, -3.0, None), np.clip(high, None, 3.0)  # the range of draws where the space is unbounded
        low, high = (np.where(np.abs(end) < _FAR, end, other) for end, other in zip((low, high), near, strict=True))
        return np.clip(generator.uniform(low, np.maximum(low, high), shape).astype(dtype), low, high).astype(dtype)
