"""The synthetic environment Micro computes what it says."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
import torch
from micro import Micro
from support import compiled, random_actions

from torch_batchsim import TorchVectorEnv
from torch_batchsim.build import jit

f32 = np.float32
Sincos = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def sincos() -> Sincos:
    """The engine's sine and cosine for numpy, to the bit; numpy's own round differently."""
    source = (
        '#include "tbs/math.h"\n'
        'extern "C" void sincos_of(const float *x, float *sine, float *cosine, long n) {\n'
        "    for (long i = 0; i < n; ++i) tbs::sincos(x[i], sine[i], cosine[i]);\n"
        "}\n"
    )
    flags = ["-std=c++20", "-ffp-contract=off", "-fPIC", "-shared", f"-I{jit.CSRC}"]
    function = ctypes.CDLL(str(compiled(source, flags, jit._engine_sources()))).sincos_of

    def call(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.ascontiguousarray(x)
        sine, cosine = np.empty_like(x), np.empty_like(x)
        function(*(array.ctypes.data_as(ctypes.c_void_p) for array in (x, sine, cosine)), ctypes.c_long(x.size))
        for got, exact in ((sine, np.sin(x.astype(np.float64))), (cosine, np.cos(x.astype(np.float64)))):
            np.testing.assert_allclose(got, exact, rtol=0, atol=2**-24)
        return sine, cosine

    return call


def swing(pendulums: np.ndarray, actions: np.ndarray, work: int, sincos: Sincos) -> np.ndarray:
    """The model of a step: ``pendulums`` ``[rows, 2]`` are angles and speeds."""
    angle, speed = pendulums.T
    dt, torque = f32(0.05) / f32(work), f32(0.5) * (actions - 1).astype(f32)
    for _ in range(work):
        speed = speed + dt * (sincos(angle)[0] + torque - f32(0.1) * speed)
        angle = angle + dt * speed
    return np.stack([angle, speed], axis=1)


def observe(pendulums: np.ndarray, sincos: Sincos) -> np.ndarray:
    return np.stack([*sincos(pendulums[:, 0]), pendulums[:, 1]], axis=1)


@pytest.mark.full
def test_micro_is_its_model(sincos: Sincos) -> None:
    agents, worlds, work, length = 3, 900, 9, 5  # enough rows for two threads
    env = TorchVectorEnv(Micro(agents=agents, work=work, max_episode_steps=length), num_worlds=worlds, num_threads=2)
    generator = np.random.default_rng(3)

    def pendulums() -> np.ndarray:
        return env.sim.tensor("Agent.Pendulum").reshape(-1, 2).numpy().copy()

    observations, _ = env.reset(seed=4)
    state = check_start(pendulums(), observations, sincos)
    for step in range(1, 13):
        actions = random_actions(env, generator)
        observations, rewards, terminations, truncations, infos = env.step(actions)
        state = swing(state, actions.numpy(), work, sincos)
        np.testing.assert_array_equal(rewards, sincos(state[:, 0])[1])
        assert not terminations.any()
        if step % length:
            assert not truncations.any()
            np.testing.assert_array_equal(pendulums(), state)
            np.testing.assert_array_equal(observations, observe(state, sincos))
        else:
            assert truncations.all()
            np.testing.assert_array_equal(infos["final_obs"], observe(state, sincos))
            state = check_start(pendulums(), observations, sincos)


def check_start(pendulums: np.ndarray, observations: torch.Tensor, sincos: Sincos) -> np.ndarray:
    angle, speed = pendulums.T
    assert (abs(angle - np.pi) <= 0.5).all() and angle.std() > 0.2 and (speed == 0).all()
    np.testing.assert_array_equal(observations, observe(pendulums, sincos))
    return pendulums
