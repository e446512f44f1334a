"""Both environments of tag, step by step: a model with the same bits, and WarpDrive's NumPy classes where installed.

WarpDrive divides observations and adds rewards of the grid in float64, and NumPy's cosine differs in the last bit, so
that places drift apart by some 1e-7 a step. All decisions are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from support import TAG, emulated_simulator
from tag_model import ContinuousModel, GridModel, WarpDrive
from torch_batchsim.envs.tag import TagContinuous, TagGrid

import torch_batchsim
from torch_batchsim import Simulator, TorchVectorEnv
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.testing import assert_same_bits, snapshot

KINDS = {"grid": (TagGrid, GridModel), "continuous": (TagContinuous, ContinuousModel)}
FULL = pytest.mark.full
OPTIONS: list[Any] = [
    ("grid", {"num_taggers": 4, "grid_length": 5, "use_full_observation": False, "tag_penalty_for_runner": 5.0}),
    ("continuous", {  # the constants of TAG, which have one build
        "num_taggers": 3, "num_runners": 15, "grid_length": 4.0, "tagging_distance": 0.1, "episode_length": 20,
        "use_full_observation": False, "num_other_agents_observed": 3, "edge_hit_penalty": -0.1,
        "step_penalty_for_tagger": -0.01, "step_reward_for_runner": 0.3, "min_acceleration": -0.1,
        "max_acceleration": 0.1, "num_turn_levels": 20, "max_turn": 2.35, "tag_reward_for_tagger": 10.0,
        "tag_penalty_for_runner": -7.0, "skill_level_runner": 1.2, "skill_level_tagger": 0.7,
    }),
    *(pytest.param(kind, options, marks=FULL) for kind, options in [
        ("grid", {"grid_length": 3}),
        ("grid", {"num_taggers": 1, "grid_length": 1, "episode_length": 7, "wall_hit_penalty": 0.3}),
        ("grid", {"num_taggers": 30, "grid_length": 40, "use_full_observation": False}),
        ("continuous", {"num_taggers": 2, "num_runners": 5, "grid_length": 3.0, "tagging_distance": 0.1}),
        ("continuous", {
            "runner_exits_game_after_tagged": False, "num_runners": 3, "episode_length": 9, "grid_length": 1.5,
            "tagging_distance": 0.3, "num_acceleration_levels": 0,
        }),
        ("continuous", {"num_runners": 1, "use_full_observation": False, "num_turn_levels": 1}),
        ("continuous", {
            "num_taggers": 5, "num_runners": 100, "use_full_observation": False, "num_other_agents_observed": 10,
            "grid_length": 20.0, "tagging_distance": 0.02,
        }),
    ]),
]  # fmt: skip


def starts(kind: str, env: TorchVectorEnv, generator: np.random.Generator) -> dict[str, np.ndarray]:
    shape = env.num_worlds, env.num_agents
    if kind == "grid":
        length = env.unwrapped.environment.constants.grid_length
        return {axis: generator.integers(0, length + 1, shape, dtype=np.int32) for axis in "xy"}
    length = env.unwrapped.environment.parameters.grid_length
    places = {axis: generator.uniform(0, length, shape).astype(np.float32) for axis in "xy"}
    return places | {"heading": generator.choice(np.arange(4) * (math.pi / 2), shape).astype(np.float32)}


def compare(kind: str, options: dict[str, Any], steps: int, worlds: int, original: bool) -> tuple[int, int]:
    """Episodes that ended, and those of them that were terminated."""
    cls, model = KINDS[kind]
    generator = np.random.default_rng(5)
    env = TorchVectorEnv(cls(**options), num_worlds=worlds)
    start, defaults = starts(kind, env, generator), env.unwrapped.environment
    chosen = {**defaults.constants, **defaults.parameters}
    env.hold({name: torch.from_numpy(values) for name, values in start.items()})
    seen, _ = env.reset(seed=0)
    references = []
    for w in range(worlds):
        own = {name: values[w] for name, values in start.items()}
        references.append(WarpDrive(kind, own, options) if original else model(own, chosen))

    def agree(found: Any, expected: Any, near: float) -> None:
        np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=near if original else 0)

    agree(env.by_world(seen), [each.reset() for each in references], 1e-6)
    ended = terminated = 0
    for _ in range(steps):
        actions = random_actions_of(env, generator)
        seen, rewards, terminations, _, infos = env.step(torch.from_numpy(actions))
        of_world = env.by_world(torch.from_numpy(actions)).numpy()
        after, paid, done = zip(*(each.step(a) for each, a in zip(references, of_world, strict=True)), strict=True)
        over = np.array(done)
        np.testing.assert_array_equal(env.ended_worlds(), over)
        agree(env.by_world(rewards), paid, 1e-6)
        last = infos["final_obs"] if over.any() else seen
        shown = np.where(over[:, None, None], env.by_world(last), env.by_world(seen))
        agree(shown, after, 3e-5)
        ended, terminated = ended + over.sum(), terminated + int(env.by_world(terminations)[over, 0].sum())
        if over.any():
            firsts = [references[w].reset() for w in np.flatnonzero(over)]
            agree(env.by_world(seen)[over], firsts, 1e-6)
    env.close()
    return int(ended), terminated


def random_actions_of(env: TorchVectorEnv, generator: np.random.Generator) -> np.ndarray:
    space = env.action_space
    space._np_random = generator
    return np.asarray(space.sample())


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_every_step_is_the_models(kind: str, options: dict[str, Any]) -> None:
    ended, _ = compare(kind, options, 120 if options.get("num_runners", 0) < 50 else 30, 5, original=False)
    assert ended or options.get("num_runners") == 100


@pytest.mark.parametrize(("kind", "options"), OPTIONS)
def test_every_step_is_warp_drives(kind: str, options: dict[str, Any]) -> None:
    pytest.importorskip("example_envs.tag_gridworld")
    compare(kind, options, 120 if options.get("num_runners", 0) < 50 else 6, 2, original=True)


@FULL
@pytest.mark.parametrize("executor", EXECUTORS["cuda"])
def test_lanes_compute_the_same_bits(executor: str) -> None:
    worlds, agents = 5, 18
    sims = [Simulator(TAG(), worlds), emulated_simulator("tag", worlds, executor)]
    generator = np.random.default_rng(2)
    for sim in sims:
        sim.reset(seed=3)
    for _ in range(25):
        actions = generator.integers(0, 11, (worlds, agents, 2), dtype=np.int32)
        for sim in sims:
            for i, name in enumerate(("acceleration", "turn")):
                sim.tensor(f"Agent.Act.{name}")[:] = torch.from_numpy(actions[..., i])
            sim.step()
        assert_same_bits(snapshot(sims[0]), snapshot(sims[1]))


@pytest.mark.full
@pytest.mark.parametrize("cls", [pytest.param(TagGrid, marks=FULL), TAG])
def test_python_computes_the_same_bits(cls: Any) -> None:
    envs = [TorchVectorEnv(cls(), num_worlds=2, executor=name) for name in ("batch", "python")]
    generator = np.random.default_rng(4)
    for env in envs:
        env.reset(seed=1)
    for _ in range(4):
        actions = torch.from_numpy(random_actions_of(envs[0], generator))
        for env in envs:
            env.step(actions)
    assert_same_bits(*(snapshot(env.unwrapped.sim) for env in envs))


@FULL
def test_a_runner_leaves_and_its_row_ends() -> None:
    """Observations are of the moment before the tag: others see it leave one step later."""
    env = torch_batchsim.make_vec(
        TagContinuous, num_worlds=1, num_runners=2, grid_length=10.0, num_acceleration_levels=0, num_turn_levels=0
    )
    start = {"x": [1.0, 1.05, 9.0], "y": [1.0, 1.0, 9.0], "heading": [0.0, 0.0, 0.0]}
    env.reset(seed=0, options={name: torch.tensor(values) for name, values in start.items()})
    stay = torch.zeros(3, 2, dtype=torch.int64)
    seen, rewards, terminations, _, infos = env.step(stay)
    assert rewards.tolist() == [1, -1, 0] and terminations.tolist() == [False, True, False]
    assert infos["active"].tolist() == [True, False, True] and infos["team"].tolist() == [0, 1, 1]
    assert infos["runners"].tolist() == [1, 1, 1]
    assert seen[0, 12:14].tolist() == [1, 1]
    seen, rewards, terminations, _, _ = env.step(stay)
    assert rewards.tolist() == [0, 0, 0] and not terminations.any()
    assert seen[0, 12:14].tolist() == [0, 1]
    assert seen[1].tolist() == [0] * 10 + [1, 0, 1, 1, 0]


def test_starts_fill_the_square() -> None:
    """Uniform places, and each of four headings as often; each episode draws anew."""
    env = TorchVectorEnv(TAG(), num_worlds=1000)
    places = []
    for _ in range(2):
        env.reset(seed=0) if not places else env.reset()
        places.append(torch.stack([env.unwrapped.sim.tensor(f"Agent.Place.{axis}").clone() for axis in "xy"]))
    x = places[0].flatten() / 3.0
    assert abs(x.mean() - 1 / 2) < 4 * (1 / 12 / x.numel()) ** 0.5
    assert abs(x.var() - 1 / 12) < 0.003 and x.min() >= 0 and x.max() <= 1
    assert (places[0] == places[1]).float().mean() < 1e-3
    headings, counts = env.unwrapped.sim.tensor("Agent.Motion.heading").unique(return_counts=True)
    np.testing.assert_allclose(headings, np.arange(4) * np.pi / 2, rtol=1e-6)
    assert (abs(counts / counts.sum() - 0.25) < 4 * (0.1875 / counts.sum()) ** 0.5).all()


def test_equally_near_agents_go_by_number() -> None:
    env = TorchVectorEnv(TAG(), num_worlds=1)
    x = torch.full((18,), 0.25)
    x[17], x[5] = 1.5, 1.0
    x[[2, 9, 16]] = torch.tensor([2.0, 1.0, 2.0])  # with the fifth agent, all half a length away
    seen, _ = env.reset(options={"x": x, "y": torch.full((18,), 1.5), "heading": torch.zeros(18)})
    assert (env.unwrapped.sim.tensor("Agent.Near.key")[0, 17] & 0xFFFF).tolist() == [2, 5, 9]
    assert seen[17, :3].sign().tolist() == [1, -1, -1]
    assert seen[17, 15:].tolist() == [1, 0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (TagContinuous, {"num_taggers": 501, "num_runners": 500}, "are 1001; a world has at most 1000"),
        (TagContinuous, {"num_other_agents_observed": 12}, "num_other_agents_observed is 12; there are 11"),
        (TagContinuous, {"num_taggers": 0}, "num_taggers"),
        (TagContinuous, {"edge_hit_penalty": 0.5}, "edge_hit_penalty"),
        (TagContinuous, {"tagging_distance": 1.5}, "tagging_distance"),
        (TagGrid, {"num_taggers": 0}, "num_taggers"),
        (TagGrid, {"wall_hit_penalty": -1.0}, "wall_hit_penalty"),
    ],
)
def test_bad_options_are_rejected(cls: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**options)


def test_bad_starts_are_rejected() -> None:
    env = TorchVectorEnv(TAG(), num_worlds=2)
    good = {name: torch.full((18,), 3.0) for name in ("x", "y", "heading")}
    env.reset(options=good)
    with pytest.raises(ValueError, match="heading is missing"):
        env.reset(options={"x": good["x"], "y": good["y"]})
    for name, wrong, message in (("x", 3.1, "x of a start"), ("y", math.nan, "y of a start"), ("heading", -1, "head")):
        with pytest.raises(ValueError, match=message):
            env.reset(options=good | {name: torch.full((18,), wrong)})
    with pytest.raises(ValueError, match="x"):
        env.reset(options=good | {"x": torch.zeros(17)})


@FULL
def test_bad_starts_of_the_grid_are_rejected() -> None:
    env = torch_batchsim.make_vec(TagGrid, num_worlds=2)
    good = torch.zeros(11, dtype=torch.int32)
    with pytest.raises(ValueError, match="both x and y"):
        env.reset(options={"x": good})
    with pytest.raises(ValueError, match="x of a start must be within 0 and 10"):
        env.reset(options={"x": good + 11, "y": good})


@pytest.mark.parametrize("cls", [pytest.param(TagGrid, marks=FULL), TAG])
def test_pictures_show_both_teams(cls: Any) -> None:
    env = TorchVectorEnv(cls(), num_worlds=2, render_mode="rgb_array")
    env.reset(seed=0)
    colours = {tuple(c) for c in np.unique(np.asarray(env.render()[0]).reshape(-1, 3), axis=0).tolist()}
    assert {(206, 62, 56), (48, 112, 190)} <= colours
