"""CartPole of other public libraries beside ours, measured in one run on one machine.

Those that are not installed are left out with a note; ``pip install gymnax envpool`` brings them. All step with
autoreset and deliver observations, rewards and flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .throughput import measure, random_action_batches

Peer = Callable[[int], tuple[Callable[[Any], Any], list[Any]]]


def measure_peers(batch_sizes: Sequence[int], seconds: float, runs: int) -> list[dict[str, Any]]:
    """Steps per second of every library at every batch size (EnvPool up to 16,384, where its own threads end)."""
    peers: dict[str, Peer] = {
        "torch_batchsim": _ours,
        "gymnasium CartPoleVectorEnv": _gymnasium,
        "gymnax, jitted": _gymnax,
        "envpool": _envpool,
    }
    rows = []
    for name, prepare in peers.items():
        for num_envs in batch_sizes:
            if name == "envpool" and num_envs > 16384:
                continue
            try:
                step, actions = prepare(num_envs)
            except ImportError as error:
                print(f"{name}: left out ({error})")
                break
            rate = measure(step, actions, num_envs, seconds, runs)
            rows.append({"library": name, "num_envs": num_envs, "steps_per_second": rate.median})
    return rows


def _ours(num_envs: int) -> tuple[Callable[[Any], Any], list[Any]]:
    import gymnasium

    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=num_envs)
    env.reset(seed=0)
    return env.step, random_action_batches(env)


def _numpy_actions(num_envs: int, dtype: type = np.int64) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 2, num_envs).astype(dtype) for _ in range(16)]


def _gymnasium(num_envs: int) -> tuple[Callable[[Any], Any], list[Any]]:
    import gymnasium

    env = gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    return env.step, _numpy_actions(num_envs)


def _envpool(num_envs: int) -> tuple[Callable[[Any], Any], list[Any]]:
    import envpool

    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=num_envs)
    env.reset()
    return env.step, _numpy_actions(num_envs, np.int32)


def _gymnax(num_envs: int) -> tuple[Callable[[Any], Any], list[Any]]:
    import gymnax
    import jax

    env, parameters = gymnax.make("CartPole-v1")
    reset = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
    step_all = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    @jax.jit
    def advance(key: Any, state: Any, actions: Any) -> Any:
        key, sub = jax.random.split(key)
        return key, *step_all(jax.random.split(sub, num_envs), state, actions, parameters)

    key = jax.random.PRNGKey(0)
    _, state = reset(jax.random.split(key, num_envs), parameters)
    held = {"key": key, "state": state}

    def step(actions: Any) -> Any:
        # Versions differ in what follows the state: reward and end, as one flag or two, and infos.
        held["key"], observations, held["state"], *rest = advance(held["key"], held["state"], actions)
        return jax.block_until_ready((observations, rest))

    return step, [jax.numpy.asarray(a) for a in _numpy_actions(num_envs, np.int32)]
