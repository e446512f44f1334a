"""CartPole against gymnasium's CartPole-v1, which computes in float64: step by step, free, and with every option.

The reference is gymnasium's ``CartPoleEnv``; ``reference_step`` is the same arithmetic over arrays, because the scalar
environment takes 20 µs a step, and is itself compared with it to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.vector import AutoresetMode
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim
from torch_batchsim import TorchVectorEnv

ULP = 2.0**-24  # the greatest relative error of one rounding to float32

DEFAULTS: dict[str, Any] = {name: option.default for name, option in CartPole.parameters.options.items()}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"force_mag": 3.0},
    {"force_mag": -7.5},
    {"masscart": 0.35},
    {"masspole": 0.75},
    {"length": 1.25},
    {"gravity": 1.62},
    {"gravity": -9.8},
    {"tau": 0.005},
    {"x_threshold": 0.11},
    {"theta_threshold_radians": 0.07},
    {"sutton_barto_reward": True},
    {"max_episode_steps": 17},
    {
        "force_mag": 15.0, "masscart": 2.0, "masspole": 0.3, "length": 0.8, "gravity": 3.7, "tau": 0.03,
        "x_threshold": 0.8, "theta_threshold_radians": 0.5, "sutton_barto_reward": True, "max_episode_steps": 40,
    },
]  # fmt: skip


def name_of(options: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items()) if len(options) < 3 else "many"


def gymnasium_env(options: dict[str, Any]) -> CartPoleEnv:
    """Gymnasium's own scalar environment with these attributes."""
    options = DEFAULTS | options
    env = CartPoleEnv(sutton_barto_reward=options["sutton_barto_reward"])
    for name in options.keys() - {"sutton_barto_reward", "max_episode_steps"}:
        assert hasattr(env, name)
        setattr(env, name, options[name])
    env.total_mass = env.masspole + env.masscart
    env.polemass_length = env.masspole * env.length
    return env


def reference_step(state: np.ndarray, actions: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """``CartPoleEnv.step`` over ``state`` ``float64 [4, worlds]``: the next state."""
    p = DEFAULTS | options
    total_mass, polemass_length = p["masspole"] + p["masscart"], p["masspole"] * p["length"]
    x, x_dot, theta, theta_dot = state
    force = np.where(actions == 1, p["force_mag"], -p["force_mag"])
    costheta, sintheta = np.cos(theta), np.sin(theta)
    temp = (force + polemass_length * np.square(theta_dot) * sintheta) / total_mass
    thetaacc = (p["gravity"] * sintheta - costheta * temp) / (
        p["length"] * (4.0 / 3.0 - p["masspole"] * np.square(costheta) / total_mass)
    )
    xacc = temp - polemass_length * thetaacc * costheta / total_mass
    return np.stack(
        (x + p["tau"] * x_dot, x_dot + p["tau"] * xacc, theta + p["tau"] * theta_dot, theta_dot + p["tau"] * thetaacc)
    )


class Rounded:
    """A value with a bound on the error of its float32 twin: every operation adds its own rounding (running error)."""

    def __init__(self, value: Any, error: Any = 0.0) -> None:
        self.value, self.error = value, error

    @classmethod
    def option(cls, value: float) -> Rounded:
        return cls(value, abs(value - float(np.float32(value))))

    def rounded(self, roundings: int = 1) -> Rounded:
        return Rounded(self.value, self.error + roundings * ULP * (np.abs(self.value) + self.error))

    def __add__(self, other: Rounded) -> Rounded:
        return Rounded(self.value + other.value, self.error + other.error).rounded()

    def __sub__(self, other: Rounded) -> Rounded:
        return Rounded(self.value - other.value, self.error + other.error).rounded()

    def __mul__(self, other: Rounded) -> Rounded:
        error = np.abs(self.value) * other.error + np.abs(other.value) * self.error + self.error * other.error
        return Rounded(self.value * other.value, error).rounded()

    def __truediv__(self, other: Rounded) -> Rounded:
        inverse = Rounded(1 / other.value, other.error / (np.abs(other.value) * (np.abs(other.value) - other.error)))
        product = self * inverse  # rounds once, as the division does
        return Rounded(product.value, product.error)


def step_error(state: np.ndarray, actions: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """The greatest error ``[4, worlds]`` of one step in float32 from a state that float32 holds exactly.

    Options are rounded to float32 too; sine and cosine are within 1 ulp (docs/math.md), which is 2 roundings.
    """
    p = {name: Rounded.option(float(value)) for name, value in (DEFAULTS | options).items()}
    x, x_dot, theta, theta_dot = (Rounded(component) for component in state)
    sine, cosine = Rounded(np.sin(theta.value)).rounded(2), Rounded(np.cos(theta.value)).rounded(2)
    force = Rounded(np.where(actions == 1, 1, -1) * p["force_mag"].value, p["force_mag"].error)
    inverse_mass = Rounded(1.0) / (p["masscart"] + p["masspole"])
    pole_moment = p["masspole"] * p["length"]
    swing = (force + pole_moment * (theta_dot * theta_dot) * sine) * inverse_mass
    pole = (p["gravity"] * sine - cosine * swing) / (
        p["length"] * (Rounded(4.0 / 3.0).rounded() - p["masspole"] * (cosine * cosine) * inverse_mass)
    )
    cart = swing - pole_moment * pole * cosine * inverse_mass
    tau = p["tau"]
    following = (x + tau * x_dot, x_dot + tau * cart, theta + tau * theta_dot, theta_dot + tau * pole)
    return np.stack([component.error for component in following])


def off_limits(state: np.ndarray, options: dict[str, Any], error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which worlds have left their range, and which are so near its border that the error decides it."""
    p = DEFAULTS | options
    over_x = np.abs(state[0]) - p["x_threshold"]
    over_theta = np.abs(state[2]) - p["theta_threshold_radians"]
    near = (np.abs(over_x) <= error[0] + ULP * p["x_threshold"]) | (
        np.abs(over_theta) <= error[2] + ULP * p["theta_threshold_radians"]
    )
    return (over_x > 0) | (over_theta > 0), near


def balancing_actions(state: np.ndarray, chaos: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Pushes that keep the pole up, replaced by random ones with a probability per world."""
    x, x_dot, theta, theta_dot = state
    balancing = theta + 0.5 * theta_dot + 0.05 * x + 0.1 * x_dot > 0
    random = generator.random(theta.shape) < 0.5
    return np.where(generator.random(theta.shape) < chaos, random, balancing).astype(np.int64)


def compare_step_by_step(options: dict[str, Any], worlds: int, steps: int) -> Iterator[dict[str, np.ndarray]]:
    """Every step of every world from the reference's state; yields what has been seen.

    Worlds that end go on from the simulator's start state, so that episodes of all lengths are compared whole.
    """
    p = DEFAULTS | options
    env = TorchVectorEnv(CartPole(**options), worlds)
    generator = np.random.default_rng(3)
    chaos = np.where(np.arange(worlds) < worlds // 2, 0.0, np.linspace(0.1, 1.0, worlds))
    observations, _ = env.reset(seed=1)
    state = observations.numpy().T.astype(np.float64)  # of the reference, in float64 from here on
    elapsed = np.zeros(worlds, np.int64)
    injected = env.sim.tensor("Cart.CartState")
    for _ in range(steps):
        injected.copy_(torch.from_numpy(np.ascontiguousarray(state.T, np.float32))[:, None])
        actions = balancing_actions(state, chaos, generator)
        rounded = state.astype(np.float32).astype(np.float64)
        expected, error = reference_step(rounded, actions, options), step_error(rounded, actions, options)
        state = reference_step(state, actions, options)
        elapsed += 1
        observations, rewards, terminations, truncations, infos = env.step(torch.from_numpy(actions))
        terminated, truncated, done = terminations.numpy(), truncations.numpy(), infos["_final_obs"].numpy()
        reached = np.where(done, infos["final_obs"].numpy().T, observations.numpy().T)
        excess = np.abs(reached - expected) - error
        assert np.all(excess <= 0), f"{excess.max()} at component, world {np.argwhere(excess == excess.max())[0]}"
        fell, near = off_limits(expected, options, error)
        assert np.array_equal(terminated[~near], fell[~near])
        assert np.array_equal(truncated, elapsed >= p["max_episode_steps"])
        assert np.array_equal(done, terminated | truncated)
        expected_rewards = -terminated.astype(float) if p["sutton_barto_reward"] else np.ones(worlds)
        assert np.array_equal(rewards.numpy(), expected_rewards)
        yield {"near": near, "terminated": terminated.copy(), "truncated": truncated.copy(), "elapsed": elapsed.copy()}
        state = np.where(done, observations.numpy().T, state)
        elapsed[done] = 0


# ---- the reference itself ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_the_reference_over_arrays_is_gymnasiums_to_the_last_bit(options: dict[str, Any]) -> None:
    env = gymnasium_env(options)
    p = DEFAULTS | options
    generator = np.random.default_rng(0)
    states = generator.uniform(-1, 1, (4, 60)) * np.array([[1.2], [2.0], [0.15], [2.0]])
    actions = generator.integers(0, 2, 60)
    following = reference_step(states, actions, options)
    fell, _ = off_limits(following, options, np.zeros((4, 60)))
    for world in range(60):
        env.reset(seed=0)
        env.state = states[:, world]
        observation, reward, terminated, _, _ = env.step(int(actions[world]))
        assert np.array_equal(env.state, following[:, world])
        assert np.array_equal(observation, following[:, world].astype(np.float32))
        assert terminated == fell[world]
        assert reward == (-float(terminated) if p["sutton_barto_reward"] else 1.0)


# ---- trajectories --------------------------------------------------------------------------------------------------


def test_every_step_of_500_step_episodes_from_1000_starts() -> None:
    seen = list(compare_step_by_step({}, worlds=1000, steps=500))
    total = {key: np.stack([one[key] for one in seen]) for key in seen[0]}
    assert total["near"].sum() <= 5  # of half a million: hardly ever does rounding decide
    assert total["truncated"].sum() >= 400  # balanced to the end
    assert np.all(total["elapsed"][total["truncated"]] == 500)
    lengths = total["elapsed"][total["terminated"]]
    assert len(lengths) >= 1000
    assert lengths.min() < 15 < 100 < lengths.max()


@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_options_mean_what_gymnasiums_attributes_mean(options: dict[str, Any]) -> None:
    seen = compare_step_by_step(options, worlds=300, steps=150)
    assert sum((one["terminated"] | one["truncated"]).sum() for one in seen) > 0


def test_next_step_agrees_with_gymnasiums_vector_env() -> None:
    """Rewards and flags of gymnasium's ``CartPoleVectorEnv``, whose worlds begin anew in the step after the end."""
    worlds = 64
    reference = CartPoleVectorEnv(worlds, max_episode_steps=30)
    env = TorchVectorEnv(CartPole(max_episode_steps=30), worlds, autoreset_mode="NextStep", output="numpy")
    reference.reset(seed=0)
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    injected = env.sim.tensor("Cart.CartState")
    ends = 0
    for _ in range(200):
        injected.copy_(torch.from_numpy(reference.state.T.astype(np.float32))[:, None])
        resetting = reference.prev_done.copy()
        actions = balancing_actions(reference.state, np.linspace(0, 1, worlds), generator)
        error = step_error(reference.state, actions, {}) + 4 * ULP * np.abs(reference.state)  # the state was rounded
        expected, given = reference.step(actions), env.step(actions)
        assert np.all(np.abs(given[0] - expected[0]).T[:, ~resetting] <= 2 * error[:, ~resetting])
        for mine, theirs in zip(given[1:4], expected[1:4], strict=True):
            assert np.array_equal(mine, theirs)
        assert np.all(np.abs(given[0][resetting]) <= np.float32(0.05))
        ends += resetting.sum()
    assert ends > 200
    for key in ("render_modes", "render_fps", "autoreset_mode"):
        assert env.metadata[key] == reference.metadata[key]


# ---- spaces, starts, limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"x_threshold": 1.0, "theta_threshold_radians": 0.1}], ids=name_of)
def test_spaces_are_gymnasiums(options: dict[str, float]) -> None:
    high = np.array([2 * DEFAULTS["x_threshold"], np.inf, 2 * DEFAULTS["theta_threshold_radians"], np.inf])
    if options:
        high = np.array([2.0, np.inf, 0.2, np.inf])
    box = gymnasium.spaces.Box(-high.astype(np.float32), high.astype(np.float32), dtype=np.float32)
    env = TorchVectorEnv(CartPole(**options), 3)
    assert env.single_observation_space == box
    if not options:
        assert env.single_observation_space == gymnasium_env({}).observation_space
        assert env.single_action_space == gymnasium_env({}).action_space
        vector = CartPoleVectorEnv(3)
        assert env.observation_space == vector.observation_space
        assert env.action_space == vector.action_space


def test_defaults_are_gymnasiums() -> None:
    reference = CartPoleEnv()
    for name in DEFAULTS.keys() - {"sutton_barto_reward", "max_episode_steps"}:
        assert DEFAULTS[name] == getattr(reference, name)
    assert DEFAULTS["max_episode_steps"] == gymnasium.spec("CartPole-v1").max_episode_steps == 500
    spec = gymnasium.spec("torch_batchsim/CartPole-v0")
    assert (spec.max_episode_steps, spec.reward_threshold) == (500, 475)
    assert gymnasium.spec("CartPole-v1").reward_threshold == spec.reward_threshold


def starts(worlds: int, episodes: int) -> np.ndarray:
    """Start states ``[episodes, worlds, 4]``, scaled to [-1, 1)."""
    env = TorchVectorEnv(CartPole(), worlds)
    first, _ = env.reset(seed=123)
    seen = [first.numpy().copy()]
    for _ in range(episodes - 1):
        seen.append(env.reset()[0].numpy().copy())
    return np.stack(seen).astype(np.float64) / np.float32(0.05)


def test_starts_are_uniform_and_independent() -> None:
    values = starts(5000, 3)
    assert values.min() >= -1
    assert values.max() < 1
    n = 15000
    grid = (np.arange(n) + 0.5) / n
    for component in range(4):
        sample = (np.sort(values[..., component].reshape(-1)) + 1) / 2
        kolmogorov = np.abs(sample - grid).max() + 0.5 / n
        assert kolmogorov < 1.95 / np.sqrt(n)  # exceeded by chance once in a thousand
    columns = np.concatenate([values[..., c] for c in range(4)])  # 4 components x 3 episodes, of 5000 worlds
    correlation = np.corrcoef(columns) - np.eye(12)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(5000)
    neighbours = np.corrcoef(values[0, :-1, 0], values[0, 1:, 0])[0, 1]
    assert abs(neighbours) < 4.5 / np.sqrt(5000)
    assert len(np.unique(values[..., 0])) > 0.99 * n


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_max_episode_steps_by_make_and_make_vec(steps: int) -> None:
    id = "torch_batchsim/CartPole-v0"
    vector = gymnasium.make_vec(id, num_envs=5, max_episode_steps=steps)
    single = gymnasium.make(id, max_episode_steps=steps)
    vector.reset(seed=0)
    single.reset(seed=0)
    for step in range(1, steps + 1):
        action = step % 2
        _, _, terminations, truncations, _ = vector.step(torch.full((5,), action))
        _, _, terminated, truncated, _ = single.step(action)
        assert truncations.tolist() == [step == steps] * 5
        assert truncated is (step == steps)
        assert not terminated
        assert not terminations.any()
    vector.close()
    single.close()


def test_a_fall_in_the_last_step_is_termination_and_truncation() -> None:
    """Gymnasium's ``TimeLimit`` reports both; a fall is no end of time, and its value is zero."""
    env = TorchVectorEnv(CartPole(max_episode_steps=1), 2)
    env.reset(seed=0)
    env.sim.Cart.CartState.theta[0] = 0.5
    _, _, terminations, truncations, _ = env.step(torch.tensor([0, 0]))
    assert terminations.tolist() == [True, False]
    assert truncations.tolist() == [True, True]


def test_exactly_on_the_threshold_goes_on() -> None:
    """Gymnasium ends an episode beyond the threshold, not on it."""
    limits = {"x_threshold": 0.5, "theta_threshold_radians": 0.125}
    env = TorchVectorEnv(CartPole(**limits), 5, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    env.sim.Cart.CartState.tensor.zero_()
    beyond = float(np.nextafter(np.float32(0.5), np.float32(1)))
    env.sim.Cart.CartState.x[:, 0] = torch.tensor([0.5, -0.5, beyond, -beyond, 0.0])
    env.sim.Cart.CartState.theta[4, 0] = 0.125
    _, _, terminations, _, _ = env.step(torch.ones(5, dtype=torch.int64))
    assert terminations.tolist() == [False, False, True, True, False]


# ---- the picture ---------------------------------------------------------------------------------------------------


def cart_and_pole(picture: np.ndarray) -> tuple[float, float, float]:
    """Where the black cart and the brown pole are (mean x), and the highest row of the pole."""
    assert picture.shape == (400, 600, 3)
    assert picture.dtype == np.uint8
    below_line = picture[306:]  # the cart's lower half, without the track
    cart = np.argwhere(below_line.sum(-1) < 60)[:, 1].mean()
    brown = np.argwhere(np.abs(picture.astype(int) - (202, 152, 101)).sum(-1) < 30)
    return cart, brown[:, 1].mean(), brown[:, 0].min()


def test_the_picture_shows_cart_and_pole() -> None:
    env = TorchVectorEnv(CartPole(), 4, render_mode="rgb_array")
    env.reset(seed=0)
    state = env.sim.Cart.CartState
    state.tensor.zero_()
    state.x[:, 0] = torch.tensor([-1.2, 0.0, 1.2, 0.0])
    state.theta[3, 0] = 0.2
    pictures = [cart_and_pole(picture) for picture in env.render()]
    (left, left_pole, top), (middle, pole, _), (right, _, _), (_, leaning, leaning_top) = pictures
    assert (left, middle, right) == pytest.approx((150, 300, 450), abs=1.0)  # 125 pixels a metre
    assert left_pole == pytest.approx(150, abs=1.0)
    assert pole == pytest.approx(300, abs=1.0)
    assert leaning > 305  # positive angles lean to the right
    assert leaning_top > top
    assert 300 - 7.5 - top == pytest.approx(125, abs=3)  # twice the half length, at 125 pixels a metre


def test_the_picture_survives_any_state() -> None:
    env = TorchVectorEnv(CartPole(), 1, render_mode="rgb_array")
    env.reset(seed=0)
    for x, theta in ((float("nan"), float("nan")), (float("inf"), 0.0), (-1e30, 1e30), (3.0, 3.0)):
        env.sim.Cart.CartState.x.fill_(x)
        env.sim.Cart.CartState.theta.fill_(theta)
        assert env.render()[0].shape == (400, 600, 3)


def test_gymnasium_make_renders_the_same_picture() -> None:
    env = gymnasium.make("torch_batchsim/CartPole-v0", render_mode="rgb_array")
    env.reset(seed=4)
    vector = torch_batchsim.make_vec(CartPole, 1, render_mode="rgb_array")
    vector.reset(seed=4)
    assert np.array_equal(env.render(), vector.render()[0])
    env.close()


@pytest.mark.parametrize(
    ("share", "action", "force"), [(1.0, 1, 10.0), (-1.0, 0, 10.0), (0.5, 1, 5.0), (-0.25, 0, 2.5)]
)
def test_a_continuous_push_is_that_of_a_discrete_one_of_the_same_force(share: float, action: int, force: float) -> None:
    shares, pushes = TorchVectorEnv(CartPole(continuous=True), 9), TorchVectorEnv(CartPole(force_mag=force), 9)
    seen = [env.reset(seed=8)[0] for env in (shares, pushes)]
    for step in range(40):
        assert torch.equal(*seen)
        sign = 1 if step % 3 else -1  # and pushes to the other side
        results = shares.step(torch.full((9, 1), sign * share)), pushes.step(torch.full((9,), (1 - sign) // 2 ^ action))
        assert all(torch.equal(*parts) for parts in zip(*(result[1:4] for result in results), strict=True))
        seen = [result[0] for result in results]


def test_the_continuous_one_has_an_id() -> None:
    env_id = "torch_batchsim/CartPoleContinuous-v0"
    by_id, by_option = gymnasium.make_vec(env_id, num_envs=5), TorchVectorEnv(CartPole(continuous=True), 5)
    assert by_id.single_action_space == by_option.single_action_space == gymnasium.make(env_id).action_space
    assert gymnasium.spec(env_id).max_episode_steps == 500
    seen = [env.reset(seed=8)[0] for env in (by_id, by_option)]
    for _ in range(60):
        assert torch.equal(*seen)
        actions = by_id.sample_actions()
        results = [env.step(actions) for env in (by_id, by_option)]
        assert all(torch.equal(*parts) for parts in zip(*(result[1:4] for result in results), strict=True))
        seen = [result[0] for result in results]
    with pytest.raises(ValueError, match="option continuous must be one of True, got False"):
        gymnasium.make(env_id, continuous=False)


def test_continuous_actions_beyond_the_box_count_as_its_ends() -> None:
    envs = [gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=2, continuous=True) for _ in range(2)]
    assert envs[0].single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    for env in envs:
        env.reset(seed=0)
    near, far = (env.step(torch.tensor([[-most], [most]]))[0] for env, most in zip(envs, (1.0, 1e30), strict=True))
    assert torch.equal(near, far)
    for neither in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"action {neither} of world 1 is not in Box"):
            envs[1].step(torch.tensor([[1.0], [neither]]))
