"""Hide and seek: thousands of random steps beside a second implementation of its rules; the same bits in any run."""

from __future__ import annotations

from typing import Any

import hideseek_model as model
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from hideseek_state import Array, State, matrices, read
from support import all_tests, of_today
from torch_batchsim.envs.hideseek import HideSeek

from torch_batchsim import TorchVectorEnv
from torch_batchsim.testing import assert_same_bits, first_worlds, random_actions, snapshot

GROWN = 1e-4  # metres by which shapes are made larger and smaller, where a ray grazes an edge
WIDENED = 1e-3  # degrees, of the cone
CLOSE = 3e-5


def make(worlds: int, seed: int = 0, mode: AutoresetMode = AutoresetMode.DISABLED, **options: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(HideSeek(**{"critic": True, **options}), num_worlds=worlds, num_threads=1, autoreset_mode=mode)
    env.reset(seed=seed)
    return env


def eager_actions(state: State, generator: np.random.Generator) -> Array:
    """``[W, A, 5]``: mostly random, but most agents run and turn towards what is nearest, and use their hands there."""
    worlds, agents = state.agents.there.shape
    choices = np.concatenate([generator.integers(0, 11, (worlds, agents, 3)), np.zeros((worlds, agents, 2), int)], -1)
    choices[..., 3:] = generator.random((worlds, agents, 2)) < 0.1
    things = state.things
    way = things.position[:, None] - state.agents.position[:, :, None]
    distance = np.where(things.there[:, None], np.linalg.norm(way, axis=-1), np.inf)
    nearest = np.take_along_axis(way, distance.argmin(-1)[..., None, None], 2)[:, :, 0]
    local = np.einsum("...ji,...j->...i", matrices(state.agents.rotation), nearest)
    angle = np.arctan2(-local[..., 0], local[..., 1])
    eager = (generator.random((worlds, agents)) < 0.6) & things.there.any(-1)[:, None]
    forward = np.where(np.abs(angle) < 0.5, 8, 5)
    turning = np.clip(np.rint(5 + 6 * angle), 0, 10).astype(int)
    choices[..., 1] = np.where(eager, forward, choices[..., 1])
    choices[..., 2] = np.where(eager, turning, choices[..., 2])
    return choices


class Beside:
    """An environment, and what the model says of each step of it; ``doubts`` counts what depends on a grazed edge."""

    def __init__(self, env: TorchVectorEnv) -> None:
        self.env, self.options = env, env.environment.parameters
        self.state = read(env.sim)
        self.figures = model.Figures(self.state)
        self.uses: dict[str, int] = {}
        self.doubts = self.judged = 0

    def step(self, actions: Array) -> None:
        env, before = self.env, self.state
        observations, rewards, ended, truncated, infos = env.step(torch.from_numpy(actions.reshape(-1, 5)))
        self.state = after = read(env.sim, before)
        assert (after.step == before.step + 1).all()
        self._check_actions(before, after, actions)
        views = {name: self._by_world(values) for name, values in observations.items()}
        seen = self._checked_sight(np.concatenate([views[f"sees_{name}"] for name in ("agents", "boxes", "ramps")], -1))
        distances = self._checked_lidar(views["lidar"])
        for name, expected in model.observation(after, seen, distances).items():
            assert_close(views[name], expected, f"{name} in step {after.step}")
        for name, expected in model.all_rows(after).items():
            assert_close(self._by_world(infos[f"all_{name}"]), expected, f"all_{name}")
        assert_close(self._by_world(rewards), model.rewards(after, seen), f"rewards of step {after.step}")
        assert not ended.any()
        assert (self._by_world(truncated) == (after.step >= self.options.max_episode_steps)[:, None]).all()
        assert (self._by_world(infos["team"]) == after.seeker).all()
        for name, expected in self.figures.after(after, seen).items():
            assert_close(self._by_world(infos[name]), np.repeat(expected[:, None], env.num_agents, 1), name)
        if truncated.any():
            self._check_forts(self._by_world(infos["forts"]))
        else:
            assert (infos["forts"] == 0).all()

    def _by_world(self, values: torch.Tensor) -> Array:
        return values.numpy().reshape(self.env.num_worlds, self.env.num_agents, *values.shape[1:]).astype(np.float64)

    def _check_actions(self, before: State, after: State, actions: Array) -> None:
        names = ("Agent.physics.Force.force", "Agent.physics.Force.torque")
        for name, expected in zip(names, model.forces(before, actions), strict=True):
            assert_close(self.env.sim.tensor(name).numpy() / 480, expected / 480, name)
        hands = model.use_hands(before, actions)

        def agrees(result: model.Hands, world: int) -> bool:
            found = {"locked": after.locked, "holder": after.holder, "grip": after.grip, "motion": after.things.motion}
            return all(np.array_equal(getattr(result, name)[world], rows[world]) for name, rows in found.items())

        for world in range(before.worlds):
            if not agrees(hands, world):
                self.doubts += 1
                others = (model.use_hands(before, actions, grown) for grown in (GROWN, -GROWN))
                assert any(agrees(other, world) for other in others), f"hands in world {world}, step {before.step}"
        for name, count in hands.uses.items():
            self.uses[name] = self.uses.get(name, 0) + count

    def _checked_sight(self, seen: Array) -> Array:
        expected = model.sight(self.state)
        self.judged += expected.size
        wrong = expected != seen
        if wrong.any():
            variants = [model.sight(self.state, g, w) for g in (0, GROWN, -GROWN) for w in (0, WIDENED, -WIDENED)]
            doubtful = np.any([variant != expected for variant in variants], 0)
            assert doubtful[wrong].all(), f"sight of {np.argwhere(wrong & ~doubtful)} in step {self.state.step}"
            self.doubts += int(wrong.sum())
        return seen.astype(bool)

    def _checked_lidar(self, distances: Array) -> Array:
        expected = model.lidar(self.state)
        self.judged += expected.size
        wrong = np.abs(expected - distances) > CLOSE
        if wrong.any():
            variants = np.stack([expected, model.lidar(self.state, GROWN), model.lidar(self.state, -GROWN)])
            low, high = variants.min(0) - CLOSE, variants.max(0) + CLOSE
            assert ((low <= distances) & (distances <= high))[wrong].all(), f"lidar in step {self.state.step}"
            self.doubts += int(wrong.sum())
        return distances

    def _check_forts(self, forts: Array) -> None:
        hiders = self.state.hiders
        for world, share in enumerate(forts):
            surely, perhaps = model.enclosed(self.state, world)
            assert (share == share[0]).all()
            assert surely <= round(share[0] * hiders) <= perhaps


def assert_close(found: Array, expected: Array, what: str) -> None:
    wrong = ~np.isclose(found, expected, rtol=CLOSE, atol=CLOSE)
    assert not wrong.any(), f"{what}: at {np.argwhere(wrong)[:3].tolist()} {found[wrong][:3]} for {expected[wrong][:3]}"


def beside(worlds: int, steps: int, seed: int = 0, **options: Any) -> Beside:
    pair = Beside(make(worlds, seed, **options))
    generator = np.random.default_rng(seed)
    for _ in range(steps):
        pair.step(eager_actions(pair.state, generator))
    return pair


def test_all_but_motion_is_as_the_model_says() -> None:
    pair = beside(5, 120, seed=4, preparation_steps=20, max_episode_steps=120)
    assert pair.doubts < 1e-4 * pair.judged, (pair.doubts, pair.judged)
    few = {name: count for name, count in pair.uses.items() if count < 5}
    assert not few, f"{few}, of {pair.uses}: or little has been shown"
    assert (pair.state.step == 120).all()


def test_rows_of_what_is_not_in_sight_by_option() -> None:
    beside(4, 24, seed=1, see_all=True, preparation_steps=10)


@pytest.mark.full
def test_many_more_steps() -> None:
    pair = beside(40 if all_tests() else 20, 240 if all_tests() else 200, seed=2, preparation_steps=80)
    assert pair.doubts < 1e-4 * pair.judged, (pair.doubts, pair.judged)


OTHERS = {
    "alone": {"hiders": 1, "seekers": 1, "max_boxes": 0, "min_boxes": 0, "min_long_boxes": 0, "ramps": 0},
    "a crowd": {
        "hiders": 6, "seekers": 8, "box_rows": 12, "max_boxes": 12, "min_boxes": 12, "ramp_rows": 3, "ramps": 3,
    },
    "small": {"hiders": 2, "seekers": 3, "half_size": 13.0, "beams": 7, "lidar_range": 5.0, "cone_angle": 120.0},
    "flat ramps": {
        "ramp_width": 3.0, "ramp_length": 5.0, "ramp_height": 1.5, "hand_height": -0.2, "cube": 0.6, "min_boxes": 6,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", of_today(OTHERS, 2))  # all in two days
def test_other_worlds(name: str) -> None:
    pair = beside(6 if all_tests() else 4, 240 if all_tests() else 160, 7, preparation_steps=30, **OTHERS[name])
    assert pair.doubts < 1e-4 * pair.judged


# ---- flat, and the same bits -----------------------------------------------------------------------------------------


def played(steps: int = 40, worlds: int = 24, **kwargs: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(HideSeek(critic=True, preparation_steps=10, max_episode_steps=30), num_worlds=worlds, **kwargs)
    env.reset(seed=3)
    for actions in random_actions(env, steps, most_worlds=60):
        env.step(actions)
    return env


@pytest.mark.full
def test_threads_and_the_number_of_worlds_change_no_bit() -> None:
    one = snapshot(played(num_threads=1).sim)
    assert_same_bits(one, snapshot(played(num_threads=2).sim), "2 threads: ")
    assert_same_bits(one, first_worlds(played(worlds=60).sim, 24), "60 worlds: ")


@pytest.mark.full
def test_worlds_by_themselves_and_other_numbers_have_the_same_bits() -> None:
    one = snapshot(played(num_threads=1).sim)
    for worlds in (25, 41):
        assert_same_bits(one, first_worlds(played(worlds=worlds).sim, 24), f"{worlds} worlds: ")
    for threads in (1, 2):
        assert_same_bits(one, snapshot(played(num_threads=threads, executor="per_world").sim), f"{threads} threads: ")


@pytest.mark.full
def test_a_flat_observation_is_the_parts_in_order() -> None:
    parts = make(4, 5)
    flat = make(4, 5, flat=True, critic=False)
    slices = flat.environment.slices
    for actions in random_actions(parts, 120):
        views, view = parts.step(actions)[0], flat.step(actions)[0]
        joined = torch.cat([values.flatten(1) for values in views.values()], 1)
        assert torch.equal(joined, view)
        for name, values in views.items():
            assert torch.equal(view[:, slices[name]].reshape(values.shape), values)
    assert [*slices] == [*views] and slices["lidar"].stop == view.shape[1]
