"""The settings that every training has; each algorithm adds its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

ACTIVATIONS = ("tanh", "relu")


@dataclass(frozen=True)
class Config:
    """The settings that every training has.

    Each algorithm derives its own from it, such as `PPOConfig`. Together with the environment they determine a run on
    the CPU to the bit. Raises ValueError for a value outside of its range.
    """

    seed: int = 1
    """Seed of networks, exploration and environment."""
    algorithm: str = ""
    """The algorithm, which decides on the settings of its own: --algorithm NAME --help lists them."""
    total_steps: int = 10_000_000
    """Steps of the training, all rows together. A last rollout that does not fit whole is left out."""
    num_envs: int = 1024
    """Rows stepped side by side: worlds times the agents in each, of all processes together."""
    num_steps: int = 32
    """Steps of each row in one rollout."""
    learning_rate: float = 2.5e-4
    """Adam's step size at the start."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    max_grad_norm: float = 0.5
    """Greatest norm of the gradient. A longer gradient is scaled down to it."""
    gamma: float = 0.99
    """Discount."""
    norm_obs: bool = False
    """Normalise observations by their running mean and standard deviation, except for parts that encoders name."""
    norm_reward: bool = False
    """Divide rewards by the running standard deviation of their discounted sum."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the actor, and of the critic."""
    activation: Literal["tanh", "relu"] = "tanh"
    """The function behind each hidden layer."""
    encoders: tuple[str, ...] = ()
    """Layers in front of parts of a Dict observation, as name=kind; of a Box only the kind.
    conv reads pictures and grids [height, width, channels].
    attention reads sets [entities, features]; name=attention:mask names the part that marks entities that exist.
    embedding reads small integers.
    All other parts enter as they are."""
    memory: Literal["none", "lstm", "gru"] = "none"
    """Recurrent layer behind the hidden layers, which remembers earlier steps of the episode.
    Minibatches then consist of rows, each with the whole rollout, through which gradients flow back."""
    memory_size: int = 64
    """Units of the memory."""
    central_critic: bool = False
    """Let the critic also read the columns that the environment names for it (Environment.critic), as in MAPPO.
    Without, it reads the observation only, as in IPPO."""
    policies: Literal["shared", "teams"] = "shared"
    """One policy for all rows, or one for each team (infos["team"]), which learns from the rows of its team."""
    past_share: float = 0.0
    """Share of the worlds in which a past policy plays one of two teams. Nothing is learned from its rows."""
    past_every: int = 50
    """Iterations between two policies that are kept for that."""
    anneal: tuple[str, ...] = ()
    """Numbers of the simulator, such as Shaping.factor, that fall linearly from 1 to 0, whatever they were."""
    anneal_from: float = 0.0
    """Part of the training before which these numbers are 1."""
    anneal_until: float = 0.5
    """Part of the training after which these numbers are 0."""
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    """Precision of matrix products: see torch.set_float32_matmul_precision.
    medium multiplies in bfloat16 where the CPU (Intel's AMX) or GPU has units for it, at up to twice the speed."""
    capture_rollouts: bool = False
    """On CUDA, replay rollouts as one CUDA graph from the third on: policy, sampling and simulator.
    Excludes a memory, past policies, and tables that grow."""

    def __post_init__(self) -> None:
        self.require(lambda name: name == type(self).algorithm, repr(type(self).algorithm), "algorithm")
        self.require(lambda n: n >= 1, "at least 1", "total_steps", "num_envs", "num_steps")
        self.require(lambda n: n >= 1, "at least 1", "past_every", "memory_size")
        self.require(lambda x: x > 0, "greater than 0", "learning_rate", "max_grad_norm")
        self.require(lambda x: 0 <= x <= 1, "between 0 and 1", "gamma")
        self.require(lambda x: 0 < x <= 1, "greater than 0 and at most 1", "anneal_until")
        self.require(lambda x: 0 <= x < self.anneal_until, "from 0 to anneal_until", "anneal_from")
        self.require(lambda x: 0 <= x < 1, "from 0 to less than 1", "past_share")
        # Simulator and torch take 64 bits, and the evaluation adds to the seed.
        self.require(lambda n: 0 <= n < 2**63, "from 0 to 2**63 - 1", "seed")
        self.require(lambda sizes: all(n >= 1 for n in sizes), "at least 1 each", "hidden_sizes")
        choices = {
            "activation": ACTIVATIONS,
            "matmul_precision": ("highest", "high", "medium"),
            "policies": ("shared", "teams"),
            "memory": ("none", "lstm", "gru"),
        }
        for name, allowed in choices.items():
            self.require(allowed.__contains__, f"one of {allowed}", name)

    def require(self, holds: Callable[[Any], bool], allowed: str, *names: str) -> None:
        """Raises ValueError for the first of these settings that is not as allowed."""
        for name in names:
            if not holds(given := getattr(self, name)):
                raise ValueError(f"{name} is {given}, but must be {allowed}")
