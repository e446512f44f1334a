"""The live page of a training: its worlds are shown while they learn."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv
from torch import Tensor

from torch_batchsim import TorchVectorWrapper, Viewer


class Viewed(TorchVectorWrapper):
    """Shows the environment of a training on a page at `viewer.url`, which may pause it but changes none of its state.

    Raises OSError for a port in use.
    """

    def __init__(self, env: VectorEnv, port: int | None) -> None:
        super().__init__(env)
        self.viewer = Viewer(env, port, edits=False)
        self._own, self._after_step = env, self.viewer.after_step

    def step(self, actions: Tensor) -> tuple[Any, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Step the environment."""
        results = self._own.step(actions)
        self._after_step()
        return results

    def close(self, **kwargs: Any) -> None:
        """Close the page and the environment."""
        self.viewer.close()
        super().close(**kwargs)
