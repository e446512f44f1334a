"""The settings of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ACTIVATIONS = ("tanh", "relu")


@dataclass(frozen=True)
class Config:
    """The settings of a training; together with the environment they determine a run on CPU to the bit."""

    seed: int = 1
    """Seed of networks, exploration and environment."""
    algorithm: Literal["ppo", "a2c"] = "ppo"
    """PPO, or A2C with V-trace, which clip_coef does not change, and which refuses clip_vloss and target_kl."""
    total_steps: int = 10_000_000
    """Steps to train for, all rows together; a last rollout that does not fit whole is not begun."""
    num_envs: int = 1024
    """Rows stepped side by side: worlds, times the agents in each; of all processes together."""
    num_steps: int = 32
    """Steps of each row in one rollout."""
    num_minibatches: int = 4
    """Minibatches that a rollout is cut into."""
    update_epochs: int = 4
    """Passes over a rollout."""
    learning_rate: float = 2.5e-4
    """Adam's step size at the start."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate, and of V-trace."""
    norm_adv: bool = True
    """Normalise the advantages of each minibatch."""
    norm_obs: bool = False
    """Normalise observations by their running mean and standard deviation, but for parts that encoders name."""
    norm_reward: bool = False
    """Divide rewards by the running standard deviation of their discounted sum."""
    norm_returns: bool = False
    """Let the critic learn returns in running standard deviations, without a change of the values (PopArt)."""
    clip_coef: float = 0.2
    """How far the probability ratio may move from 1 before the objective is clipped."""
    clip_vloss: bool = False
    """Clip the move of the values by the same coefficient."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus, at first."""
    ent_coef_end: float | None = None
    """That weight at the end, to which it goes in a straight line; the same all along if not given."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """A longer gradient is scaled down to this length."""
    target_kl: float | None = None
    """End the updates of a rollout after an epoch with a larger approximate KL divergence than this."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the actor, and of the critic."""
    activation: Literal["tanh", "relu"] = "tanh"
    """What follows each hidden layer."""
    encoders: tuple[str, ...] = ()
    """How parts of the observation are read, as name=kind, or only the kind where the observation is one Box: conv for
    pictures and grids [height, width, channels], attention for sets [entities, features] (name=attention:mask with the
    part that says which entities there are), embedding for small integers; all others are taken as they are."""
    conv_channels: tuple[int, ...] = (32, 64)
    """Channels of the convolutions, 3 x 3 each."""
    embedding_size: int = 16
    """Numbers that stand for a small integer."""
    attention_size: int = 64
    """Numbers that stand for an entity."""
    attention_heads: int = 4
    """Heads of the attention."""
    memory: Literal["none", "lstm", "gru"] = "none"
    """What is behind the hidden layers and remembers earlier steps of the episode. Minibatches are then of rows, each
    with the whole rollout, through which gradients go back."""
    memory_size: int = 64
    """Units of the memory."""
    squash: bool = False
    """Actions of a Box are the tanh of a Gaussian within the bounds, rather than a Gaussian clipped to them."""
    central_critic: bool = False
    """The critic reads, beside the observation, what the environment names for it (Environment.critic) and the policy
    does not see, as in MAPPO; without, only the observation, as in IPPO."""
    policies: Literal["shared", "teams"] = "shared"
    """One policy for all rows, or one for each team (infos["team"]), which learns from the rows of its team."""
    past_share: float = 0.0
    """Share of the worlds in which one of two teams is played by a past policy, from which nothing is learned."""
    past_every: int = 50
    """Iterations from one policy that is kept for that to the next."""
    past_most: int = 20
    """Policies that are kept, the latest."""
    past_players: int = 4
    """Past policies that play at a time, each in its part of those worlds."""
    anneal: tuple[str, ...] = ()
    """Numbers of the simulator's, such as Shaping.factor, that go from 1 (whatever the environment set them to) to 0
    in a straight line."""
    anneal_from: float = 0.0
    """The part of the training before which these numbers are 1."""
    anneal_until: float = 0.5
    """The part of the training after which these numbers are 0."""
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    """How exact matrix products are while a policy learns: medium multiplies in bfloat16 where CPU (Intel's AMX) or GPU
    has units for that, and is up to twice as fast on such a CPU; see torch.set_float32_matmul_precision."""
    compile_updates: bool = False
    """Let torch.compile fuse the loss of updates and its gradient, for half a minute or so at the start: for CUDA, and
    networks with more than layers. Perceptrons with a policy of choices are faster on the CPU as they are."""

    capture_rollouts: bool = False
    """On CUDA, take rollouts as one CUDA graph from the third on: policy, sampling and simulator. Not with a memory,
    past policies, or tables that grow."""

    def __post_init__(self) -> None:
        for name in ("total_steps", "num_envs", "num_steps", "num_minibatches", "update_epochs"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("learning_rate", "clip_coef", "max_grad_norm"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "greater than 0")
        _require(0 < self.anneal_until <= 1, "anneal_until", self.anneal_until, "greater than 0 and at most 1")
        _require(0 <= self.anneal_from < self.anneal_until, "anneal_from", self.anneal_from, "from 0 to anneal_until")
        _require(0 <= self.past_share < 1, "past_share", self.past_share, "from 0 to less than 1")
        for name in ("past_every", "past_most", "past_players"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("gamma", "gae_lambda"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        for name in ("ent_coef", "vf_coef"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        # Simulator and torch take 64 bits, and the evaluation adds to the seed.
        _require(0 <= self.seed < 2**63, "seed", self.seed, "from 0 to 2**63 - 1")
        _require(self.target_kl is None or self.target_kl > 0, "target_kl", self.target_kl, "greater than 0")
        end = self.ent_coef_end
        _require(end is None or end >= 0, "ent_coef_end", end, "0 or more")
        _require(self.algorithm in ("ppo", "a2c"), "algorithm", self.algorithm, "one of ('ppo', 'a2c')")
        if self.algorithm == "a2c" and (self.clip_vloss or self.target_kl is not None):
            name = "clip_vloss" if self.clip_vloss else "target_kl"
            raise ValueError(f"{name} is of PPO, and algorithm is 'a2c': give one of them")
        if self.norm_reward and self.norm_returns:
            raise ValueError("norm_reward and norm_returns both scale what the critic learns: choose one of them")
        _require(self.activation in ACTIVATIONS, "activation", self.activation, f"one of {ACTIVATIONS}")
        precisions = ("highest", "high", "medium")
        _require(self.matmul_precision in precisions, "matmul_precision", self.matmul_precision, f"one of {precisions}")
        _require(self.policies in ("shared", "teams"), "policies", self.policies, "one of ('shared', 'teams')")
        memories = ("none", "lstm", "gru")
        _require(self.memory in memories, "memory", self.memory, f"one of {memories}")
        for name in ("hidden_sizes", "conv_channels"):
            _require(all(n >= 1 for n in getattr(self, name)), name, getattr(self, name), "at least 1 each")
        _require(bool(self.conv_channels), "conv_channels", self.conv_channels, "one number or more")
        for name in ("embedding_size", "attention_size", "attention_heads", "memory_size"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        whole = self.attention_size % self.attention_heads == 0
        _require(whole, "attention_size", self.attention_size, f"a multiple of attention_heads {self.attention_heads}")


def _require(condition: bool, name: str, given: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {given}, but must be {allowed}")
