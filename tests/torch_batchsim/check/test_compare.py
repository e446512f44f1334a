"""torch_batchsim.testing.compare: an environment beside another implementation of it, the first difference named."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from support import COMPILED

from torch_batchsim import EpisodeStatistics, TorchVectorEnv
from torch_batchsim.testing import Mismatch, compare

CARTPOLE = "torch_batchsim/CartPole-v0"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "authoring.md"
MODES = list(AutoresetMode)


def put(reference: Any, world: int, values: Any) -> None:
    """Ours into gymnasium's CartPole, of whatever kind."""
    state = values["Cart.CartState"][0].astype(float)
    if isinstance(reference, SyncVectorEnv):
        reference.envs[world].unwrapped.state = state
    elif isinstance(reference, VectorEnv):
        reference.unwrapped.state[:, world] = state
    else:
        reference.unwrapped.state = state


def of_several(mode: AutoresetMode, make: Callable[[], gymnasium.Env], count: int = 4) -> SyncVectorEnv:
    return SyncVectorEnv([make] * count, autoreset_mode=mode)


def cartpoles(mode: AutoresetMode = AutoresetMode.SAME_STEP, count: int = 4, **options: Any) -> TorchVectorEnv:
    return gymnasium.make_vec(CARTPOLE, num_envs=count, autoreset_mode=mode, **options)


@pytest.mark.parametrize("mode", MODES)
def test_cartpole_is_gymnasiums(mode: AutoresetMode) -> None:
    reference = of_several(mode, lambda: gymnasium.make("CartPole-v1", max_episode_steps=20))
    found = compare(cartpoles(mode, max_episode_steps=20), reference, state=put, steps=300, atol=1e-4)
    assert found.steps == 300 and found.rows == 4 and found.episodes > 50
    assert 0 < found.largest["observation"] < 1e-5
    assert ("final_observation" in found.largest) == (mode is AutoresetMode.SAME_STEP)
    alone = compare(
        cartpoles(mode, 1), gymnasium.make("CartPole-v1"), state=put, before_each_step=True, steps=300, seed=3
    )
    assert alone.episodes > 5
    assert str(alone).startswith(f"300 steps of 1 rows agree, {alone.episodes} episodes ended; largest differences: ")


def test_a_vector_environment_in_numpy() -> None:
    """Gymnasium's own CartPole of many rows, whose state is one array."""
    env = EpisodeStatistics(cartpoles(AutoresetMode.NEXT_STEP, 16, max_episode_steps=30))
    reference = gymnasium.make_vec("CartPole-v1", num_envs=16, max_episode_steps=30)
    assert compare(env, reference, state=put, before_each_step=True, steps=200).episodes > 100


class Mutant(CartPoleEnv):
    """Wrong in one step of an episode."""

    def __init__(self, at: int, gravity: float = 9.8, reward: float = 1.0, falls: bool = False) -> None:
        super().__init__()
        self._wrong = at, gravity, reward, falls

    def reset(self, **arguments: Any) -> Any:
        self._steps = 0
        return super().reset(**arguments)

    def step(self, action: Any) -> Any:
        at, gravity, reward, falls = self._wrong
        self._steps += 1
        wrong = self._steps == at
        self.gravity = gravity if wrong else 9.8
        observation, expected, terminated, truncated, infos = super().step(action)
        return observation, reward if wrong else expected, terminated or (wrong and falls), truncated, infos


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "mutant", "expected"),
    [("observation", {"gravity": 30}, None), ("reward", {"reward": 0.5}, 0.5), ("termination", {"falls": True}, True)],
)
def test_a_mutant_is_found_in_the_step_in_which_it_is_wrong(
    mode: AutoresetMode, name: str, mutant: dict[str, Any], expected: Any
) -> None:
    makes = [lambda: Mutant(0), lambda: Mutant(0), lambda: Mutant(6, **mutant), lambda: Mutant(0)]
    reference = SyncVectorEnv(makes, autoreset_mode=mode)
    with pytest.raises(Mismatch, match=rf"^{name}.* in step 6 \(step 6 of the episode\), world 2: ") as raised:
        compare(cartpoles(mode), reference, state=put, actions=[np.arange(4) % 2 ^ (step % 2) for step in range(9)])
    difference = raised.value.difference
    assert (difference.name, difference.row, difference.agent) == (name, 2, None)
    assert difference.others == {name: 1}
    assert difference.action == 1
    assert difference.before == ("step 4: action 1, reward 1", "step 5: action 0, reward 1")
    if expected is not None:
        assert (difference.expected, difference.element) == (expected, ())
    else:
        assert difference.element == (1,)  # the cart's velocity
        assert difference.seen["observation"].shape == (4,)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_an_end_is_seen_in_the_final_observation() -> None:
    """With SAME_STEP the observation at the end of an episode is compared by itself."""

    class Blurred(Mutant):
        def step(self, action: Any) -> Any:
            observation, reward, terminated, *rest = super().step(action)
            return observation + terminated, reward, terminated, *rest

    reference = of_several(AutoresetMode.SAME_STEP, lambda: Blurred(0))
    with pytest.raises(Mismatch, match=r"^final_observation\[0\] differs first in step ") as raised:
        compare(cartpoles(), reference, state=put)
    assert raised.value.difference.expected == pytest.approx(raised.value.difference.found + 1, abs=1e-4)
    for ignored in ("final_observation", "observation"):
        compare(cartpoles(), reference, state=put, steps=100, ignore=[ignored])


def test_episodes_must_begin_alike_where_no_state_is_put() -> None:
    with pytest.raises(Mismatch, match=r"^observation\[0\] .*first reset, world 0: .*\n.*\nepisodes begin") as raised:
        compare(cartpoles(), of_several(AutoresetMode.SAME_STEP, lambda: Mutant(0)))
    assert raised.value.difference.action is None


class Changed(VectorWrapper):
    """Ours again as the reference, in NumPy, and wrong in one place of one step."""

    def __init__(self, env: VectorEnv, step: int, change: Callable[[Any], None]) -> None:
        super().__init__(env)
        self._left, self._change = step, change

    def step(self, actions: np.ndarray) -> Any:
        assert isinstance(actions, np.ndarray)
        results = self.env.step(actions)
        self._left -= 1
        if self._left == 0:
            self._change(results)
        return results


def twins(name: str, step: int, change: Callable[[Any], None], **arguments: Any) -> tuple[VectorEnv, VectorEnv]:
    env = TorchVectorEnv(COMPILED[name](), num_worlds=3, **arguments)
    reference = TorchVectorEnv(COMPILED[name](), num_worlds=3, output="numpy", copy=True, **arguments)
    return env, Changed(reference, step, change)


@pytest.mark.parametrize("mode", MODES)
def test_agents_that_leave_are_compared_until_they_have_left(mode: AutoresetMode) -> None:
    def spoil(results: Any) -> None:
        results[1][~active] = 99.0
        results[0][~active] = 99.0

    active = np.zeros(12, bool)
    env, reference = twins("melee", 4, spoil, autoreset_mode=mode)
    seen = []

    def actions(_: Any, infos: dict[str, Any]) -> torch.Tensor:
        seen.append(infos["active"].numpy().copy())
        active[:] = seen[-1]
        return torch.full((12,), 2)

    compare(env, reference, actions=actions, steps=40, infos=["team"])
    assert not seen[3].all(), "nobody had left when rows of those who had were spoilt"
    active[:] = True
    reference._left, reference._change = 3, lambda results: results[1].__setitem__(5, 7.0)
    with pytest.raises(Mismatch, match=r"^reward differs first in step 3 .*, world 1, agent 1: expected 7.0"):
        compare(env, reference, steps=40)


def test_parts_of_observations_and_infos_have_names() -> None:
    def spoil(results: Any) -> None:
        results[0]["cells"][4].reshape(-1)[-1] += 1

    env, reference = twins("duel", 5, spoil)
    with pytest.raises(Mismatch, match=r"^observation\.cells\[.*\] .*step 5 .*, world 2, agent 0: ") as raised:
        compare(env, reference)
    assert sorted(raised.value.difference.seen) == ["observation.cells", "observation.self"]
    reference._left = 5
    compare(env, reference, ignore=["observation.cells"], steps=20)
    reference._left = 5
    compare(env, reference, tolerances={"observation.cells": 1.5}, steps=20)


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ({"atol": "x"}, ValueError, "atol must be a finite number from 0 on, got 'x'"),
        ({"rtol": float("nan")}, ValueError, "rtol must be a finite number from 0 on, got nan"),
        ({"tolerances": {"reward": -1}}, ValueError, r"tolerances\['reward'\] must be a finite number .*, got -1"),
        ({"tolerances": "x"}, TypeError, "tolerances must be a dict of numbers by name, got 'x'"),
        ({"infos": "score"}, TypeError, r"infos must be a sequence of names, got 'score'; write \('score',\)"),
        ({"ignore": "reward"}, TypeError, "ignore must be a sequence of names"),
        ({"state": 3}, TypeError, r"state must be a function of \(reference_env, world, values\), got 3"),
    ],
)
def test_arguments_are_looked_at_first(argument: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compare(None, None, **argument)


def test_sides_that_do_not_fit_together_are_refused() -> None:
    env, reference = cartpoles(), of_several(AutoresetMode.SAME_STEP, lambda: Mutant(0))
    other_mode = of_several(AutoresetMode.NEXT_STEP, lambda: Mutant(0))
    for error, message, arguments in (
        (TypeError, "env must be a vector environment of torch_batchsim", (reference, reference)),
        (TypeError, "reference_env must be a gymnasium environment", (env, 3)),
        (ValueError, "a single reference_env has one row, env has 4", (env, Mutant(0))),
        (ValueError, "reference_env has 4 rows, env has 2", (cartpoles(count=2), reference)),
        (ValueError, "env resets itself with SAME_STEP, reference_env with NEXT_STEP", (env, other_mode)),
    ):
        with pytest.raises(error, match=message):
            compare(*arguments)
    for message, options in (
        ("steps must be a positive integer, got 0", {"steps": 0}),
        ("the number of actions must be a positive integer, got 0", {"actions": []}),
        ("before_each_step needs state", {"before_each_step": True}),
        ("names that are compared are reward, termination, .*, got 'rewards'", {"ignore": ["rewards"]}),
        ("names that are compared are .*, got 'place'", {"tolerances": {"place": 1.0}}),
        ("info 'score' is missing on one side", {"infos": ["score"], "state": put}),
    ):
        with pytest.raises(ValueError, match=message):
            compare(env, reference, **options)
    wide = of_several(AutoresetMode.SAME_STEP, lambda: gymnasium.make("MountainCar-v0"))
    with pytest.raises(ValueError, match=r"observation has shape \[4, 4\] in env, \[4, 2\] in reference_env"):
        compare(env, wide)


class Returns(gymnasium.Env):
    """Observes what it is given."""

    def __init__(self, space: gymnasium.Space, observation: Any) -> None:
        self.observation_space, self.action_space = space, gymnasium.spaces.Discrete(2)
        self._observation = observation

    def reset(self, **arguments: Any) -> Any:
        return self._observation, {}

    def step(self, action: Any) -> Any:
        return self._observation, 1.0, False, False, {}


FOUR = gymnasium.spaces.Box(-9, 9, (4,))
NUMBERS = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("space", "observation", "error", "message"),
    [
        (gymnasium.spaces.Box(-9, 9, (3,)), NUMBERS[:3], ValueError, r"has shape \[1, 4\] in env, \[1, 3\] in ref"),
        (FOUR, NUMBERS[:3], ValueError, r"returns shape \[3\] as observation, and its .*space has shape \[4\]"),
        (FOUR, None, ValueError, r"returns shape \[\] as observation, and its observation_space has shape \[4\]"),
        (FOUR, [[0], [1, 2]], TypeError, "reference_env returns list with parts of several shapes"),
        (gymnasium.spaces.Dict(cart=FOUR), {"cart": NUMBERS}, ValueError, "other parts: .*observation.cart"),
        (gymnasium.spaces.Dict(cart=FOUR), {"pole": NUMBERS}, ValueError, "returns nothing as observation.cart, and"),
        (gymnasium.spaces.Text(4), "left", TypeError, "observation must be an array of numbers .* dtype <U4 in ref"),
        (gymnasium.spaces.Box(-9, 9, (4,), np.int64), NUMBERS.astype(np.int64), Mismatch, "float32 in env, int64 in"),
    ],
    ids=str,
)
def test_observations_of_another_kind(space: Any, observation: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compare(cartpoles(AutoresetMode.NEXT_STEP, 1), Returns(space, observation))


def test_the_state_of_a_world_has_all_its_fields() -> None:
    """Those of dynamic tables too, and copies."""
    env, reference = twins("zoo", 99, lambda _: None)
    kept: list[tuple[np.ndarray, np.ndarray]] = []

    def note(_: Any, world: int, values: Any) -> None:
        assert len(values) == len(dict(values)) > 5
        for name, rows in values.items():
            dynamic = env.sim.program.columns[name.rpartition(".")[0]].dynamic
            expected = env.sim.ragged(name).world(world) if dynamic else env.sim.tensor(name)[world]
            assert rows.tolist() == expected.tolist()
            kept.append((rows, rows.copy()))
        with pytest.raises(KeyError):
            values["Animal.nothing"]

    compare(env, reference, state=note, before_each_step=True, steps=3)
    assert all(np.array_equal(rows, then) for rows, then in kept)


def test_the_example_of_the_page(capsys: pytest.CaptureFixture) -> None:
    section = PAGE.read_text().partition("### A port beside its original\n")[2].partition("\n## ")[0]
    script, printed, message = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    exec(script, names)
    agree = re.compile(r"(\d+ steps of \d+ rows agree, \d+ episodes ended); largest")
    assert agree.match(capsys.readouterr().out)[1] == agree.match(printed)[1]
    names["reference"].envs[2].unwrapped.gravity = 9.9
    with pytest.raises(Mismatch) as raised:
        compare(names["env"], names["reference"], state=names["put"], before_each_step=True)
    assert str(raised.value).split() == message.split()
