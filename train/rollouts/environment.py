"""What training and evaluation ask of a vector environment."""

from __future__ import annotations

from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode, VectorEnv


def num_agents(env: VectorEnv) -> int:
    """Agents in each world; row r is agent r % num_agents."""
    return getattr(env, "num_agents", 1)


def critic_space_of(env: VectorEnv) -> Dict | None:
    """The spaces of what the environment names for a critic only, if it does."""
    return getattr(getattr(env, "unwrapped", env), "single_critic_space", None)


def measure(env: VectorEnv) -> str:
    """Which number an episode is judged by: "score", where the environment names one, else "return"."""
    return "score" if env.metadata.get("score") else "return"


def check_faults(env: VectorEnv) -> None:
    """Raises the faults that on CUDA would be raised by a later step, if the environment knows faults."""
    if hasattr(env, "check_faults"):
        env.check_faults()


def require_trainable(env: VectorEnv) -> None:
    """Raises ValueError for environments that a trainer of one policy for all rows, in tensors, cannot train."""
    if getattr(env, "possible_agents", None):
        raise ValueError(
            f"the environment is by agent, with a policy for each of {list(env.possible_agents)}, but this trainer has "
            "one policy for all rows: give it the environment of rows (env.vector_env, or by_agent=False)"
        )
    if getattr(env, "output", "torch") != "torch":
        raise ValueError(f"the environment has output={env.output!r}, but the trainer needs output='torch'")
    if not hasattr(env, "bind_slots"):
        raise ValueError(
            f"{type(env).__name__} has no bind_slots(), by which steps write into the storage of a rollout: "
            "the trainer needs an environment of torch_batchsim, or one with its interface"
        )
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ValueError(f"autoreset_mode is {mode}, but the trainer needs {AutoresetMode.SAME_STEP}")
