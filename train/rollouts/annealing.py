"""Numbers of the simulator that fall in a straight line during a training."""

from __future__ import annotations

from gymnasium.vector import VectorEnv
from torch import Tensor

from ..base.config import Config


class Annealing:
    """The numbers that `anneal` names; raises ValueError where the environment lacks one."""

    def __init__(self, env: VectorEnv, config: Config) -> None:
        self.config, self.numbers = config, [_tensor(env, name) for name in config.anneal]

    def begin(self, iteration: int, iterations: int) -> None:
        """Before an iteration of so many."""
        first, last = (iterations * part for part in (self.config.anneal_from, self.config.anneal_until))
        for number in self.numbers:
            number.fill_(min(1.0, max(0.0, 1 - (iteration - first) / (last - first))))


def _tensor(env: VectorEnv, name: str) -> Tensor:
    try:
        tensor = env.unwrapped.sim.tensor(name)
    except (AttributeError, KeyError, TypeError) as error:
        text = f"anneal names {name!r}, which is not a tensor of this environment: {error.args[0]}"
        raise ValueError(text) from error
    if tensor.ndim or not tensor.is_floating_point():
        given = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        raise ValueError(f"anneal names {name!r}, which is {given}; it must be one float for all worlds")
    return tensor
