"""CartPole of other public libraries beside ours, measured in one run on one machine.

Those that are not installed are left out with a note; ``pip install gymnax envpool`` brings them. All step with
autoreset and deliver observations, rewards and flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .throughput import measure, random_action_batches

# From a batch size: a function of one batch of actions, such batches, and how many steps one call takes.
Peer = Callable[[int], tuple[Callable[[Any], Any], list[Any], int]]
_SCAN_STEPS = 64


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
                step, actions, steps = prepare(num_envs)
            except ImportError as error:
                print(f"{name}: left out ({error})")
                break
            rate = measure(step, actions, num_envs * steps, seconds, runs)
            rows.append({"library": name, "num_envs": num_envs, "steps_per_second": rate.median})
    return rows


def _ours(num_envs: int) -> tuple[Callable[[Any], Any], list[Any], int]:
    import gymnasium

    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=num_envs)
    env.reset(seed=0)
    return env.step, random_action_batches(env), 1


def _numpy_actions(num_envs: int, dtype: type = np.int64) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.integers(0, 2, num_envs).astype(dtype) for _ in range(16)]


def _gymnasium(num_envs: int) -> tuple[Callable[[Any], Any], list[Any], int]:
    import gymnasium

    env = gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    return env.step, _numpy_actions(num_envs), 1


def _envpool(num_envs: int) -> tuple[Callable[[Any], Any], list[Any], int]:
    import envpool

    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=num_envs)
    env.reset()
    return env.step, _numpy_actions(num_envs, np.int32), 1


def _gymnax(num_envs: int) -> tuple[Callable[[Any], Any], list[Any], int]:
    """Many steps in one compiled call, as its users run it; a call for each step is slower at most sizes."""
    import gymnax
    import jax

    env, parameters = gymnax.make("CartPole-v1")
    reset = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))
    step_all = jax.vmap(env.step, in_axes=(0, 0, 0, None))

    def advance(carry: Any, actions: Any) -> Any:
        key, sub = jax.random.split(carry[0])
        # Versions differ in what follows the state: reward and end, as one flag or two, and infos.
        observations, state, *rest = step_all(jax.random.split(sub, num_envs), carry[1], actions, parameters)
        return (key, state), (observations, rest[:-1])

    rollout = jax.jit(lambda carry, actions: jax.lax.scan(advance, carry, actions))
    key = jax.random.PRNGKey(0)
    held = (key, reset(jax.random.split(key, num_envs), parameters)[1])

    def step(actions: Any) -> Any:
        nonlocal held
        held, outputs = jax.block_until_ready(rollout(held, actions))
        return outputs

    draw = np.random.default_rng(0).integers
    batches = [jax.numpy.asarray(draw(0, 2, (_SCAN_STEPS, num_envs)).astype(np.int32)) for _ in range(4)]
    return step, batches, _SCAN_STEPS
