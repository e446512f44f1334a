"""Facts of a vector environment that training and evaluation need, and the refusal of unsuitable ones."""

from __future__ import annotations

from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode, VectorEnv

from ..base.config import Config
from ..base.ranks import Ranks


def num_agents(env: VectorEnv) -> int:
    """Agents in each world; row r is agent r % num_agents."""
    return getattr(env, "num_agents", 1)


def critic_space_of(env: VectorEnv) -> Dict | None:
    """The spaces of the columns that the environment names for a critic only; None without."""
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


def require_parts(env: VectorEnv, config: Config, ranks: Ranks) -> None:
    """Raises ValueError where several processes cannot train this together."""
    if ranks.count == 1:
        return
    if config.past_share:
        raise ValueError(
            f"past_share is {config.past_share}, but with {ranks.count} processes it must be 0: past policies play in "
            "the last worlds, which would leave the last process nothing to learn from"
        )
    sim = getattr(env.unwrapped, "sim", None)
    if not hasattr(sim, "join_states"):
        raise ValueError(
            f"{ranks.count} processes train environments of torch_batchsim only, and {type(env).__name__} has no "
            "first_world"
        )
    sizes = (env.num_envs, sim.num_worlds)
    if not ranks.same(sizes):
        raise ValueError(f"{sizes[0]} rows are not those of each of {ranks.count} processes: all have as many")
    if sim.first_world != ranks.rank * sim.num_worlds:
        raise ValueError(
            f"first_world is {sim.first_world}, but of process {ranks.rank} with {sim.num_worlds} worlds it must be "
            f"{ranks.rank * sim.num_worlds}"
        )
