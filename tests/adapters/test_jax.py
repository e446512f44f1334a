"""JAX: the same bits outside of jit, within it and without JAX; memory that is shared and kept; PPO in one program."""

from __future__ import annotations

import gc
import os
import runpy
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from environments.melee import Melee
from environments.signs import Signs
from environments.walkers import Walkers
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from libraries_of_others import library, run_script
from support import declare

from torch_batchsim import (
    Archetype,
    Component,
    EpisodeStatistics,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    f64,
    i32,
    i64,
    u64,
)
from torch_batchsim.errors import WorldFault

library(__file__, "jax")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from torch_batchsim.adapters import jax as adapter  # noqa: E402
from torch_batchsim.adapters.jax import GymnaxEnv, JaxEnv  # noqa: E402

CARTPOLE, HANABI, OVERCOOKED = (f"torch_batchsim/{name}-v0" for name in ("CartPole", "Hanabi", "Overcooked"))
EXAMPLE = Path(__file__).parents[2] / "examples" / "ppo_jax.py"
WORLDS, STEPS = 4, 20


class Choice(Component):
    value: i32


class Count(Component):
    value: u64


class Below(Component):
    value: i64[2]


class Length(Component):
    value: f64


WIDE = """
TBS_SYSTEM void advance(World &world, const Choice &choice, Count &count, Below &below, Length &length, Reward &reward,
                        Episode &episode) {
    count.value = (u64(7) << 40) + u64(episode.step);
    below.value[choice.value] = -i64(3) * i64(episode.step);
    length.value = 0.1 * f64(episode.step);
    reward.value = 1;
    episode.truncated = episode.step >= 7;
}
"""


def wide() -> TorchVectorEnv:
    """Observations and infos of 64 bits."""
    declared = declare(
        WIDE,
        archetypes=(Archetype("Counter", Choice, Count, Below, Length, Reward, count=1),),
        step=TaskGraph("advance"),
        observation="Counter.Length",
        observation_space=Box(-np.inf, np.inf, (), np.float64),
        info={"count": "Counter.Count", "below": "Counter.Below"},
        action="Counter.Choice",
        action_space=Discrete(2),
    )
    return TorchVectorEnv(declared(), WORLDS)


KINDS: dict[str, Callable[[], TorchVectorEnv]] = {
    "one number": lambda: gymnasium.make_vec(CARTPOLE, num_envs=WORLDS, max_episode_steps=7).unwrapped,
    "real actions": lambda: TorchVectorEnv(Drift(), WORLDS),
    "64 bits": wide,
    "from another number": lambda: TorchVectorEnv(Signs(), WORLDS),
    "agents": lambda: gymnasium.make_vec(OVERCOOKED, num_worlds=WORLDS, horizon=7).unwrapped,
    "ends of agents": lambda: TorchVectorEnv(Melee(max_episode_steps=7), num_worlds=WORLDS),
    "dicts": lambda: TorchVectorEnv(Walkers(max_episode_steps=7), num_worlds=WORLDS),
    "several choices": lambda: TorchVectorEnv(Duel(max_episode_steps=7), num_worlds=WORLDS),
    "masks": lambda: gymnasium.make_vec(HANABI, num_worlds=WORLDS).unwrapped,
    "NEXT_STEP": lambda: TorchVectorEnv(Walkers(max_episode_steps=7), num_worlds=WORLDS, autoreset_mode="NextStep"),
}
of_all_kinds = pytest.mark.parametrize("kind", KINDS)


def tree(results: Any) -> Any:
    """Copies of tensors and arrays in tuples and dicts, as arrays of the dtypes that JAX has for them."""
    if isinstance(results, dict):
        return {name: tree(part) for name, part in results.items()}
    if isinstance(results, tuple):
        return tuple(map(tree, results))
    array = np.array(results.numpy() if isinstance(results, torch.Tensor) else results)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))


def assert_same(found: Any, expected: Any) -> None:
    """To the bit; found may hold more dicts than tuples of the engine's."""
    found, expected = tree(found), tree(expected)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def played(env: TorchVectorEnv) -> tuple[Any, list[np.ndarray], list[Any]]:
    """What the plain environment returns: of its reset; random legal actions; and of its steps."""
    first = tree(env.reset(seed=3))
    env.action_space.seed(0)
    actions, results = [], []
    for _ in range(STEPS):
        drawn = env.sample_actions()
        actions.append(drawn.numpy().copy())
        observations, *flags, infos = env.step(drawn)
        results.append(tree((observations, *flags, dict(infos))))
    return first, actions, results


# ---- the same bits ---------------------------------------------------------------------------------------------------


@of_all_kinds
def test_steps_outside_of_jit_are_those_of_the_plain_environment(kind: str) -> None:
    first, actions, results = played(KINDS[kind]())
    env = JaxEnv(KINDS[kind](), seed=3)
    assert_same(env.reset(), first)
    for given, expected in zip(actions, results, strict=True):
        found = env.step(jnp.asarray(given))
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(found))
        assert_same(found, expected)
    assert any(np.any(part[2] | part[3]) for part in results) or kind == "masks"


@pytest.mark.parametrize(
    ("calls", "kind"),
    [*(("of XLA", kind) for kind in KINDS), ("of JAX", "dicts"), ("of JAX", "64 bits")]
    + [pytest.param("of JAX", kind, marks=pytest.mark.full) for kind in KINDS if kind not in ("dicts", "64 bits")],
)
def test_steps_within_jit_are_those_of_the_plain_environment(
    kind: str, calls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the foreign function for the CPU, and by the callback that programs for other devices make."""
    if calls == "of JAX":
        monkeypatch.setattr(adapter, "_by_xla", adapter._by_host)
    _, actions, results = played(KINDS[kind]())
    env = JaxEnv(KINDS[kind]())
    handle, recv, send, step = env.xla()
    env.reset(seed=3)

    @jax.jit
    def rollout(handle: jax.Array, actions: jax.Array) -> Any:
        return jax.lax.scan(step, handle, actions)

    half = STEPS // 2
    handle, found = rollout(handle, jnp.asarray(np.stack(actions[:half])))
    for given in actions[half:]:
        handle = jax.jit(send)(handle, jnp.asarray(given))
        handle, later = recv(handle)
        found = jax.tree.map(lambda all, new: jnp.concatenate([all, new[None]]), found, later)
    assert_same(found, jax.tree.map(lambda *parts: np.stack(parts), *results))
    assert handle == half + 2 * half


def test_all_control_flow_steps() -> None:
    plain, env = (gymnasium.make_vec(CARTPOLE, num_envs=2).unwrapped for _ in range(2))
    plain.reset(seed=0)
    env = JaxEnv(env)
    handle, _, send, _ = env.xla()
    env.reset(seed=0)
    right = jnp.ones(2, jnp.int32)

    @jax.jit
    def several(handle: jax.Array) -> Any:
        handle = jax.lax.fori_loop(0, 3, lambda _, handle: send(handle, right), handle)
        handle = jax.lax.while_loop(lambda handle: handle < 5, lambda handle: send(handle, right), handle)
        handle = jax.lax.cond(handle == 5, lambda handle: send(handle, right), lambda handle: handle, handle)
        handle = jax.lax.cond(handle == 5, lambda handle: send(handle, right), lambda handle: handle, handle)
        send(handle, right)  # whose results nobody reads
        return handle

    assert several(handle) == 6
    for _ in range(7):
        plain.step(torch.ones(2, dtype=torch.int32))
    for _ in range(3000):  # until the last step is made, for which nothing waits
        if env.xla()[0] == 7:
            break
        time.sleep(0.01)
    assert torch.equal(plain.observations, env.vector_env.observations)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "bool"])
def test_integers_of_any_width_are_actions(dtype: str) -> None:
    seen = []
    for make in (lambda env: env.step, lambda env: lambda actions: env.xla()[3](env.xla()[0], actions)[1]):
        env = JaxEnv(CARTPOLE, num_envs=8, seed=0)
        env.reset()
        seen.append(make(env)(jnp.arange(8, dtype=dtype) % 2 if dtype != "bool" else jnp.arange(8) % 2 == 1)[0])
    plain = gymnasium.make_vec(CARTPOLE, num_envs=8)
    plain.reset(seed=0)
    expected = plain.step(torch.arange(8) % 2)[0]
    assert all(np.array_equal(each, expected) for each in seen)


def test_real_numbers_of_any_width_are_actions() -> None:
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32):
        seen = []
        for within in (False, True):
            env = JaxEnv(TorchVectorEnv(Drift(), 4), seed=0)
            env.reset()
            actions = jnp.linspace(-1, 1, 12).reshape(4, 3).astype(dtype)
            seen.append(env.xla()[3](env.xla()[0], actions)[1][0] if within else env.step(actions)[0])
        assert np.array_equal(*seen) and np.isfinite(seen[0]).all()


def test_64_bits_stay_with_x64() -> None:
    with jax.enable_x64(True):
        plain, env = KINDS["64 bits"](), JaxEnv(KINDS["64 bits"](), seed=3)
        plain.reset(seed=3), env.reset()
        for step in range(9):
            actions = torch.arange(WORLDS) % 2
            *expected, infos = plain.step(actions)
            by_xla = (env.xla()[0], jnp.asarray(actions))
            found = env.step(jnp.asarray(actions)) if step % 2 else jax.jit(env.xla()[3])(*by_xla)[1]
            assert found[0].dtype == np.float64 and found[4]["count"].dtype == np.uint64
            assert_same(found, (*expected, dict(infos)))


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_no_copy_is_made_in_either_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    env = JaxEnv(OVERCOOKED, num_worlds=6, seed=0)
    own, read = env.vector_env, []
    observations, infos = env.reset()
    assert observations.unsafe_buffer_pointer() == own.observations.data_ptr()
    step = own.step
    monkeypatch.setattr(own, "step", lambda actions: read.append(actions.data_ptr()) or step(actions))
    for _ in range(5):
        actions = jax.random.randint(jax.random.key(0), (12,), 0, 6)
        *found, infos = env.step(actions)
        assert read.pop() == actions.unsafe_buffer_pointer()
        *expected, tensors = own.step_results()
        assert [each.unsafe_buffer_pointer() for each in found] == [each.data_ptr() for each in expected]
        assert infos["team_return"].unsafe_buffer_pointer() == tensors["team_return"].data_ptr()
        assert found[0].dtype == np.uint8 and found[2].dtype == bool


def test_where_a_copy_cannot_be_avoided() -> None:
    """Memory between multiples of 64 bytes, and 64 bits without x64; the values are those."""
    numbers = torch.arange(64, dtype=torch.float32)
    for tensor in (numbers[1:], torch.arange(64), numbers.double()):
        array = adapter._array(tensor)
        assert array.unsafe_buffer_pointer() != tensor.data_ptr() and np.array_equal(array, tensor)
        assert array.dtype == jax.dtypes.canonicalize_dtype(tensor.numpy().dtype)


def test_arrays_that_are_held_are_never_overwritten() -> None:
    env = JaxEnv(CARTPOLE, num_envs=16, seed=0, max_episode_steps=7)
    observations, _ = env.reset()
    held, copies = [observations], [np.array(observations)]
    for step in range(150):  # more than there are spare sets
        *results, infos = env.step(jnp.full(16, step % 2))
        held += [*results, infos["final_obs"]]
        copies += [np.array(each) for each in held[-5:]]
        if step == 40:
            env.reset()
    assert all(np.array_equal(*pair) for pair in zip(held, copies, strict=True))
    views = [each.reshape(-1) for each in held[:50]]  # which may be of the same memory
    del held[:50]
    gc.collect()
    for step in range(50):
        env.step(jnp.full(16, step % 2))
    assert all(np.array_equal(view, copy.reshape(-1)) for view, copy in zip(views, copies, strict=False))


def test_what_a_computation_has_yet_to_read_is_not_overwritten() -> None:
    """The array itself is gone when the next steps are made; actions are of torch, so that they wait for nothing."""
    env = JaxEnv(CARTPOLE, num_envs=256, seed=0)

    @jax.jit
    def slow(seen: jax.Array, weights: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 20, lambda _, w: jnp.tanh(w @ w), weights)[0, 0] * 0 + seen

    weights = jnp.full((400, 400), 0.01)
    slow(env.reset()[0], weights).block_until_ready()
    pending, copies = [], []
    for step in range(8):
        observations = env.step(torch.full((256,), step % 2))[0]
        copies.append(np.array(observations))
        pending.append(slow(observations, weights))
        del observations
    for step in range(4):
        env.step(torch.full((256,), step % 2))
    assert all(np.array_equal(*pair) for pair in zip(pending, copies, strict=True))
    assert not np.array_equal(copies[0], copies[2])


def test_memory_that_a_program_takes_over_stays_the_engines() -> None:
    env, plain = JaxEnv(CARTPOLE, num_envs=64, seed=0), gymnasium.make_vec(CARTPOLE, num_envs=64)
    observations, _ = env.reset()
    plain.reset(seed=0)
    spoil = jax.jit(lambda seen: seen * 0 - 7, donate_argnums=0)
    for step in range(10):
        own = env.vector_env.observations
        before = own.clone()
        spoil(observations).block_until_ready()
        assert torch.equal(own, before)
        observations = env.step(jnp.full(64, step % 2))[0]
        assert np.array_equal(observations, plain.step(torch.full((64,), step % 2))[0])


def test_sets_that_jax_lets_go_of_are_written_again() -> None:
    env = JaxEnv(CARTPOLE, num_envs=8, seed=0)
    env.reset()
    addresses = set()
    for step in range(20):
        addresses.add(env.step(jnp.full(8, step % 2))[0].unsafe_buffer_pointer())
    assert len(addresses) <= 3


def test_a_program_leaves_arrays_that_are_held_alone() -> None:
    env = JaxEnv(CARTPOLE, num_envs=8, seed=0)
    env.reset()
    observations = env.step(jnp.zeros(8, int))[0]
    copy, (handle, _, send, _) = np.array(observations), env.xla()
    jax.block_until_ready(jax.jit(lambda h: jax.lax.fori_loop(0, 9, lambda _, h: send(h, jnp.ones(8, int)), h))(handle))
    assert np.array_equal(observations, copy)


# ---- handles, threads and errors -------------------------------------------------------------------------------------


def test_each_handle_is_used_once() -> None:
    env = JaxEnv(CARTPOLE, num_envs=2, seed=0)
    zeros = jnp.zeros(2, int)
    handle, recv, send, step = env.xla()
    with pytest.raises(jax.errors.JaxRuntimeError, match="ResetNeeded: call reset"):
        jax.block_until_ready(step(handle, zeros))
    env.reset()
    later = send(handle, zeros)
    stale = "ValueError: this is handle 0, and the environment is at 1: each call needs the handle that the call before"
    for call in (lambda: send(handle, zeros), lambda: recv(handle), lambda: jax.jit(step)(handle, zeros)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=stale):
            jax.block_until_ready(call())
    env.step(zeros)  # outside, so that the program's view of the worlds is old
    with pytest.raises(jax.errors.JaxRuntimeError, match="this is handle 1, and the environment is at 2"):
        jax.block_until_ready(send(later, zeros))
    send(env.xla()[0], zeros)
    env.reset()
    assert send(handle, zeros) == 1
    assert env.vector_env.episode_steps.tolist() == [1, 1]


def test_a_fault_within_jit_reaches_the_user() -> None:
    env = JaxEnv(TorchVectorEnv(Drift(), 3), seed=5)
    env.reset()
    handle, _, _, step = env.xla()
    step, still = jax.jit(step), jnp.zeros((3, 3))
    handle, _ = jax.block_until_ready(step(handle, still))
    env.vector_env.sim.tensor("Particle.Body.position")[1] = torch.nan
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"WorldFault: drift.h:\d+: world 1: system 'drift' failed .*nan"
    ):
        jax.block_until_ready(step(handle, still))
    assert isinstance(env.fault, WorldFault) and env.fault.mask.tolist() == [False, True, False]
    assert env.vector_env.episode_steps.tolist() == [2, 2, 2]
    env.reset(options={"reset_mask": jnp.asarray(env.fault.mask)})
    handle, _ = jax.block_until_ready(step(handle, still))
    assert env.fault is None and env.vector_env.episode_steps.tolist() == [3, 1, 3]


def test_a_fault_outside_of_jit_has_arrays_of_the_other_worlds() -> None:
    envs = JaxEnv(TorchVectorEnv(Drift(), 3), seed=5), TorchVectorEnv(Drift(), 3)
    outputs = []
    for env, actions in zip(envs, (jnp.zeros((3, 3)), torch.zeros(3, 3)), strict=True):
        env.reset(seed=5)
        getattr(env, "vector_env", env).sim.tensor("Particle.Body.position")[1] = torch.nan
        with pytest.raises(WorldFault, match="world 1") as caught:
            env.step(actions)
        *results, infos = caught.value.outputs
        outputs.append((*results, dict(infos)))
    assert isinstance(outputs[0][0], jax.Array)
    assert_same(*outputs)


def test_bad_actions_raise_before_a_world_steps() -> None:
    env = JaxEnv(CARTPOLE, num_envs=2, seed=0)
    env.reset()
    handle, _, _, step = env.xla()
    for call in (env.step, lambda actions: jax.jit(step)(handle, actions)):
        with pytest.raises(ValueError, match=r"actions must have shape \[2\], got \[3\]"):
            call(jnp.zeros(3, int))
        with pytest.raises(TypeError, match=r"actions must have dtype .*, got float32"):
            call(jnp.zeros(2))
    with pytest.raises(TypeError, match="actions must be numbers that torch has too, got key<fry>"):
        step(handle, jax.random.split(jax.random.key(0), 2))
    with pytest.raises(ValueError, match=r"action 5 of world 1 is not in Discrete\(2\); no world has stepped"):
        env.step(jnp.array([0, 5]))
    with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: action 5 of world 1 is not in Discrete"):
        jax.block_until_ready(step(env.xla()[0], jnp.array([0, 5])))
    with pytest.raises(TypeError, match=r"step\(\) and reset\(\) are for arrays; within jit take the functions of xla"):
        jax.jit(env.step)(jnp.zeros(2, int))
    with pytest.raises(TypeError, match=r"a handle is uint32 \[\], got float32 \[2\]"):
        step(jnp.zeros(2), jnp.zeros(2, int))
    assert not env.vector_env.episode_steps.any()


def test_batches_and_derivatives_are_refused() -> None:
    env = JaxEnv(TorchVectorEnv(Drift(), 2), seed=0)
    env.reset()
    handle, _, _, step = env.xla()
    still = jnp.zeros((2, 3))

    def loss(weight: jax.Array, cut: Callable[[Any], Any]) -> jax.Array:
        return weight * step(handle, cut(still + weight))[1][0].sum()

    for wrapped in (lambda function: function, jax.jit):
        with pytest.raises(NotImplementedError, match=r"jax.vmap cannot batch steps and resets: the rows of the env"):
            wrapped(jax.vmap(step, (None, 0)))(handle, jnp.zeros((5, 2, 3)))
        with pytest.raises(TypeError, match=r"steps have no derivatives: put jax.lax.stop_gradient around actions"):
            wrapped(jax.grad(lambda weight: loss(weight, lambda actions: actions)))(0.5)
    assert not env.vector_env.episode_steps.any()
    assert jnp.isfinite(jax.jit(jax.grad(lambda weight: loss(weight, jax.lax.stop_gradient)))(0.5))


def test_a_program_keeps_its_environment_until_that_is_closed() -> None:
    def stepped() -> Any:
        env = JaxEnv(CARTPOLE, num_envs=2, seed=0)
        env.reset()
        handle, _, _, step = env.xla()
        return jax.jit(step).lower(handle, jnp.zeros(2, int)).compile(), weakref.ref(env.vector_env), env.close

    compiled, environment, close = stepped()
    jax.clear_caches()
    gc.collect()
    handle, _ = jax.block_until_ready(compiled(jnp.uint32(0), jnp.zeros(2, int)))
    close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="ClosedEnvironmentError: the environment of this program is"):
        jax.block_until_ready(compiled(handle, jnp.zeros(2, int)))
    del close
    gc.collect()
    assert environment() is None


def test_an_environment_without_programs_goes_with_its_last_reference() -> None:
    env = JaxEnv(CARTPOLE, num_envs=2, seed=0)
    env.reset(), env.step(jnp.zeros(2, int)), env.xla()
    environment = weakref.ref(env.vector_env)
    del env
    gc.collect()
    assert environment() is None


def test_closed_environments_refuse_programs() -> None:
    env = JaxEnv(CARTPOLE, num_envs=2, seed=0)
    env.reset()
    handle, _, _, step = env.xla()
    jax.jit(step)(handle, jnp.zeros(2, int))
    env.close()
    for call in (lambda: step(handle, jnp.zeros(2, int)), lambda: env.step(jnp.zeros(2, int)), env.reset):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError):
            call()


def rolled(env: JaxEnv, steps: int, found: dict[str, Any]) -> None:
    handle, _, _, step = env.xla()
    observations, _ = env.reset(seed=0)

    def turn(carry: Any, _: None) -> Any:
        handle, seen = carry
        handle, (seen, rewards, *_) = step(handle, (seen[:, 2] > 0).astype(int))
        return (handle, seen), rewards

    found["carry"], found["rewards"] = jax.block_until_ready(
        jax.jit(lambda carry: jax.lax.scan(turn, carry, length=steps))((handle, observations))
    )


def test_programs_run_on_other_threads_and_side_by_side() -> None:
    """Of torch's threads too: each of XLA's has a team of its own."""
    expected: dict[str, Any] = {}
    rolled(JaxEnv(CARTPOLE, num_envs=3000), 60, expected)
    threads, wide = torch.get_num_threads(), torch.get_num_threads() + 1
    try:
        for number in (1, wide):
            torch.set_num_threads(number)
            found: list[dict[str, Any]] = [{} for _ in range(2)]
            envs = [JaxEnv(CARTPOLE, num_envs=3000) for _ in found]
            runs = [
                threading.Thread(target=rolled, args=(env, 60, each)) for env, each in zip(envs, found, strict=True)
            ]
            for run in runs:
                run.start()
            for run in runs:
                run.join()
            for each in found:
                assert_same(each["carry"][1], expected["carry"][1])
                assert_same(each["rewards"], expected["rewards"])
    finally:
        torch.set_num_threads(threads)


def in_a_process(script: str, **environment: str) -> str:
    """What a script prints; a hang is an error."""
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


PENDING = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jax, jax.numpy as jnp
from torch_batchsim.adapters import jax as adapter
if by_host: adapter._by_xla = adapter._by_host
env = adapter.JaxEnv("cartpole", num_envs=30_000)
handle, _, _, step = env.xla()
seen, _ = env.reset(seed=0)
def turn(carry, _):
    handle, seen = carry
    handle, (seen, *_) = step(handle, (seen @ jnp.ones((4, 256))).max(1).astype(bool))
    return (handle, seen), None
rollout = jax.jit(lambda carry: jax.lax.scan(turn, carry, length=40)[0])
handle, seen = jax.block_until_ready(rollout((handle, seen)))
print(handle)
rollout((handle, seen))  # which is still under way at the end of the process
"""


@pytest.mark.full
@pytest.mark.parametrize("by_host", [False, True])
def test_one_core_is_enough_and_a_process_can_end_at_any_time(by_host: bool) -> None:
    assert in_a_process(f"by_host = {by_host}\n{PENDING}").split() == ["40"]


DEVICES = """
import jax, jax.numpy as jnp
from torch_batchsim.adapters.jax import JaxEnv
jax.config.update("jax_num_cpu_devices", 2)
first, second = jax.devices()
env = JaxEnv("cartpole", num_envs=4, seed=0)
env.reset()
handle, _, _, step = env.xla()
zeros = jnp.zeros(4, int)
handle, (seen, *_) = jax.jit(step)(jax.device_put(handle, second), jax.device_put(zeros, second))
assert seen.devices() == {second} and handle == 1
assert env.step(jax.device_put(zeros, second))[0].devices() == {first}  # where the environment is
mesh = jax.make_mesh((2,), ("x",))
split = jax.device_put(zeros, jax.NamedSharding(mesh, jax.P("x")))
for call in (lambda: env.step(split), lambda: jax.block_until_ready(jax.jit(step)(env.xla()[0], split))):
    try:
        call()
        raise SystemExit("it has stepped")
    except (BufferError, jax.errors.JaxRuntimeError) as error:
        print(error)
print(env.vector_env.episode_steps.tolist())
"""


@pytest.mark.full
def test_programs_run_on_any_one_device() -> None:
    assert in_a_process(DEVICES).splitlines()[-1] == "[2, 2, 2, 2]"


# ---- gymnax's functions ----------------------------------------------------------------------------------------------


def test_keys_are_seeds() -> None:
    env = GymnaxEnv(CARTPOLE, num_envs=4)
    reset = jax.jit(env.reset)
    expected, _ = gymnasium.make_vec(CARTPOLE, num_envs=4).reset(seed=7)
    keys = jax.random.key(7), jax.random.PRNGKey(7), jnp.stack([jax.random.PRNGKey(k) for k in (7, 8, 9, 10)])
    for key in keys:
        assert np.array_equal(reset(key)[0], expected)
    assert not np.array_equal(reset(jax.random.split(jax.random.key(7), 4))[0], expected)
    with pytest.raises(TypeError, match=r"key must be of jax.random, got int32 \[\]"):
        env.reset(7)


@pytest.mark.parametrize("kind", ["one number", "ends of agents"])
def test_statistics_are_those_of_the_wrapper(kind: str) -> None:
    _, actions, _ = played(KINDS[kind]())
    plain, env = EpisodeStatistics(KINDS[kind]()), GymnaxEnv(KINDS[kind]())
    plain.reset(seed=3)
    assert env.action_space(None) == plain.single_action_space and env.default_params is None
    assert env.observation_space().shape == plain.single_observation_space.shape

    @jax.jit
    def rollout(key: jax.Array, actions: jax.Array) -> Any:
        _, state = env.reset(key, env.default_params)

        def turn(state: Any, action: jax.Array) -> Any:
            observations, state, reward, done, info = env.step(key, state, action, None)
            return state, (observations, reward, done, info)

        return jax.lax.scan(turn, state, actions)

    for _ in range(2):  # the same key, the same episodes
        state, (observations, rewards, done, info) = rollout(jax.random.key(3), jnp.asarray(np.stack(actions)))
    episodes = 0
    for step, given in enumerate(actions):
        following, reward, terminated, truncated, infos = plain.step(torch.from_numpy(given))
        assert np.array_equal(observations[step], following) and np.array_equal(rewards[step], reward)
        assert np.array_equal(done[step], terminated | truncated)
        ended = infos["_episode"].numpy()
        assert np.array_equal(info["returned_episode"][step], ended)
        for name, of in (("returned_episode_returns", "r"), ("returned_episode_lengths", "l")):
            assert np.array_equal(info[name][step][ended], infos["episode"][of].numpy()[ended])
        episodes += ended.sum()
    assert episodes > 4 and state.timestep == STEPS == info["timestep"][-1]


def test_states_are_used_once() -> None:
    env = GymnaxEnv(CARTPOLE, num_envs=2)
    key, zeros = jax.random.key(0), jnp.zeros(2, int)
    _, state = env.reset(key)
    env.step(key, state, zeros)
    with pytest.raises(jax.errors.JaxRuntimeError, match="this is handle 1, and the environment is at 2"):
        jax.block_until_ready(env.step(key, state, zeros)[0])
    made = gymnasium.make_vec(CARTPOLE, num_envs=2, autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match="GymnaxEnv needs autoreset_mode=SAME_STEP"):
        GymnaxEnv(made)


# ---- scripts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def example() -> Iterator[dict[str, Any]]:
    """The names of the example, which is not run."""
    yield runpy.run_path(str(EXAMPLE))


def test_the_example_trains_twice_alike(example: dict[str, Any]) -> None:
    small = {"num_envs": 16, "num_steps": 24, "num_minibatches": 2, "total_steps": 3 * 16 * 24, "update_epochs": 2}
    args = example["Args"](**small)
    train = jax.jit(example["make_train"](args, GymnaxEnv(args.env_id, num_envs=16)))
    first, again = (train(jax.random.key(args.seed)) for _ in range(2))
    for one, other in zip(*(jax.tree.leaves(out["parameters"]) for out in (first, again)), strict=True):
        assert np.array_equal(one, other) and np.isfinite(one).all()
        assert np.any(one)  # biases are zero at first
    assert first["metrics"]["returned_episode"].sum() > 10
    with pytest.raises(SystemExit, match="--num-minibatches must divide the 384 samples of a rollout, got 5"):
        example["make_train"](example["Args"](**{**small, "num_minibatches": 5}), None)


@pytest.mark.full
def test_the_example_learns_cartpole(example: dict[str, Any]) -> None:
    """The last updates' episodes, and then those of the trained policy, at its best choice."""
    args = example["Args"](seed=1)
    env = GymnaxEnv(args.env_id, num_envs=args.num_envs)
    out = jax.jit(example["make_train"](args, env))(jax.random.key(args.seed))
    returns = example["mean_returns"](out["metrics"])
    assert np.nanmean(returns[:5]) < 60 and np.nanmean(returns[-15:]) >= 475
    policy, parameters = example["policy"], out["parameters"]

    @jax.jit
    def evaluated(key: jax.Array) -> jax.Array:
        observations, state = env.reset(key)

        def turn(carry: Any, _: None) -> Any:
            observations, state = carry
            observations, state, *_ = env.step(key, state, policy(parameters, observations).argmax(-1))
            return (observations, state), None

        return jax.lax.scan(turn, (observations, state), length=500)[0][1].returned_episode_returns

    assert evaluated(jax.random.key(11)).mean() >= 475


def test_the_page() -> None:
    assert run_script("JAX")["rewards"].shape == (100, 64)
