"""MinAtar's games against `minatar` 1.0.15, step by step: observations, rewards, terminations.

The original draws no numbers here: it gets those that our worlds have drawn, read from their state. Where it is not
installed (`pip install --no-deps minatar==1.0.15`), digests of games that were equal to its take its place.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support import assert_same_bits, full_but, snapshot
from torch_batchsim.envs.minatar import Asterix, Breakout, Freeway, Seaquest, SpaceInvaders
from torch_batchsim.envs.minatar.common import MinAtar

import torch_batchsim
from torch_batchsim import Simulator, TorchVectorEnv, WorldFault
from torch_batchsim.build import emulation
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program

Columns = Callable[[str], np.ndarray]  # of all worlds, by the name after "Game."; what is written there is the state


class Replay:
    """In place of NumPy's random object: returns what it is given, in order."""

    def __init__(self) -> None:
        self.numbers: list[Any] = []

    def rand(self, *shape: int) -> Any:
        return self.numbers.pop(0)

    def randint(self, *args: Any, **kwargs: Any) -> Any:
        return self.numbers.pop(0)


@dataclass(frozen=True)
class Game:
    """How the original gets what chance has drawn in a world, and how situations are set up that are rare otherwise."""

    environment: type[MinAtar]
    name: str
    at_start: Callable[[Columns, int], Iterable[Any]] = lambda columns, world: ()
    in_step: Callable[[Columns, int], Iterable[Any]] = lambda columns, world: ()
    vary: Callable[[Any, Columns, int, np.random.Generator], None] = lambda *_: None


def speeds(columns: Columns, world: int) -> list[Any]:
    drawn = columns("Cars.speed")[world, 0]
    return [abs(drawn), (drawn > 0).astype(float)]


def arrival(columns: Columns, world: int) -> list[Any]:
    right, gold, place = (columns(f"Arrival.{name}")[world, 0] for name in ("right", "gold", "place"))
    return [0.0 if right else 0.9, 0.0 if gold else 0.9, int(place)]


def arrivals(columns: Columns, world: int) -> list[Any]:
    names = ("right", "sub", "row", "diver_right", "diver_row")
    right, sub, row, diver_right, diver_row = (int(columns(f"Arrivals.{name}")[world, 0]) for name in names)
    return [0.0 if right else 0.9, 0.0 if sub else 0.9, row, 0.0 if diver_right else 0.9, diver_row]


def few_bricks(oracle: Any, columns: Columns, world: int, generator: np.random.Generator) -> None:
    oracle.brick_map[1:4] = generator.random((3, 10)) < 0.1
    bits = oracle.brick_map[1:4].astype(np.int64).reshape(-1)
    columns("Bricks.bits")[world] = int((bits << np.arange(30)).sum())


def hurry(oracle: Any, columns: Columns, world: int, generator: np.random.Generator) -> None:
    oracle.spawn_speed, oracle.move_speed, oracle.ramp_timer = (int(n) for n in generator.integers(1, (11, 6, 20)))
    columns("Clock.spawn_every")[world], columns("Clock.move_every")[world] = oracle.spawn_speed, oracle.move_speed
    columns("Clock.ramp")[world] = oracle.ramp_timer


def crowd(oracle: Any, columns: Columns, world: int, generator: np.random.Generator) -> None:
    oracle.e_spawn_speed, oracle.move_speed = int(generator.integers(1, 6)), int(generator.integers(2, 6))
    oracle.ramp_index, oracle.diver_count = int(generator.integers(0, 2)), int(generator.choice([-1, 0, 2, 6]))
    oracle.oxygen, oracle.e_spawn_timer = int(generator.integers(20, 201)), 0
    oracle.sub_y = int(generator.integers(0, 9))
    written = {
        "Clock.enemy_every": oracle.e_spawn_speed, "Clock.move_every": oracle.move_speed, "Clock.enemy": 0,
        "Clock.level": oracle.ramp_index, "Sub.divers": oracle.diver_count, "Sub.oxygen": oracle.oxygen,
        "Sub.y": oracle.sub_y,
    }  # fmt: skip
    for name, value in written.items():
        columns(name)[world] = value


def few_aliens(oracle: Any, columns: Columns, world: int, generator: np.random.Generator) -> None:
    top = int(generator.integers(0, 6))
    oracle.alien_map[:] = 0
    oracle.alien_map[top : top + 4, 2:8] = generator.random((4, 6)) < 0.15
    oracle.alien_map[top, 4] = 1
    oracle.alien_move_timer = int(generator.integers(0, 3))
    columns("Aliens.rows")[world] = (oracle.alien_map.astype(np.int64) << np.arange(10)).sum(1)
    columns("Aliens.count")[world], columns("Aliens.wait")[world] = oracle.alien_map.sum(), oracle.alien_move_timer


GAMES = {
    "asterix": Game(Asterix, "Asterix", in_step=arrival, vary=hurry),
    "breakout": Game(
        Breakout, "Breakout", at_start=lambda columns, world: [int(columns("Ball.x")[world, 0] == 9)], vary=few_bricks
    ),
    "freeway": Game(Freeway, "Freeway", at_start=speeds, in_step=speeds),
    "seaquest": Game(Seaquest, "Seaquest", in_step=arrivals, vary=crowd),
    "space_invaders": Game(SpaceInvaders, "SpaceInvaders", vary=few_aliens),
}
WORLDS = 32
SOME = full_but(["breakout", "seaquest"], GAMES)


def chosen(name: str, observations: np.ndarray, random: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Random actions; in Breakout a paddle that mostly follows the ball, so that it comes to many bricks; in Freeway a
    chicken that mostly goes up."""
    skilled = np.arange(len(random)) % 4 != 0
    skilled &= generator.random(len(random)) < 0.8
    if name == "breakout":
        paddle = observations[:, 9, :, 0].argmax(1)
        ball = observations[:, :, :, 1].any(1).argmax(1)
        return np.where(skilled, np.where(ball < paddle, 1, np.where(ball > paddle, 3, 0)), random)
    return np.where(skilled, 2, random) if name == "freeway" else random


def start(oracle: Any, game: Game, columns: Columns, world: int, generator: np.random.Generator, varied: bool) -> None:
    oracle.random.numbers[:] = game.at_start(columns, world)
    oracle.reset()
    oracle.last_action = 0  # the original goes on with that of the last episode
    assert not oracle.random.numbers
    if varied and world % 2:
        game.vary(oracle.env, columns, world, generator)


def step(oracle: Any, game: Game, columns: Columns, world: int, wanted: int) -> tuple[float, bool]:
    """A step of the original, with the draws of the same step of ours."""
    done = int(columns("Move.action")[world, 0])
    assert done in (wanted, oracle.last_action)
    game_numbers, env = list(game.in_step(columns, world)), oracle.env
    if game is GAMES["seaquest"]:  # an enemy and a diver may come in one step
        spawns = env.e_spawn_timer == 0, env.d_spawn_timer == 0
        game_numbers = game_numbers[:3] * spawns[0] + game_numbers[3:] * spawns[1]
    oracle.random.numbers[:] = [0.99 if done == wanted else 0.0, *game_numbers]
    reward, terminated = oracle.act(wanted)
    assert oracle.last_action == done
    return float(reward), bool(terminated)


def play(name: str, steps: int, varied: bool, **options: Any) -> SimpleNamespace:
    """Steps of all worlds beside originals: what has been seen."""
    minatar = pytest.importorskip("minatar", reason="pip install --no-deps minatar==1.0.15")
    game = GAMES[name]
    env = TorchVectorEnv(
        game.environment(minimal_actions=False, max_episode_steps=10**9, **options), WORLDS,
        autoreset_mode="NextStep", output="numpy",
    )  # fmt: skip
    ramping = options.get("difficulty_ramping", True)
    sticky = options.get("sticky_action_prob", 0.1)
    oracles = [minatar.Environment(name, sticky_action_prob=sticky, difficulty_ramping=ramping) for _ in range(WORLDS)]
    for oracle in oracles:
        oracle.random = oracle.env.random = Replay()
    generator = np.random.default_rng(0)

    @cache  # a look-up takes longer than a step of the original
    def columns(column: str) -> np.ndarray:
        return env.sim.tensor(f"Game.{column}").numpy()

    observations, _ = env.reset(seed=1)
    for world, oracle in enumerate(oracles):
        start(oracle, game, columns, world, generator, varied)
    ended = np.zeros(WORLDS, bool)
    seen = SimpleNamespace(episodes=0, reward=0.0, repeated=0, repeatable=0)
    for t in range(steps):
        wanted = chosen(name, observations, generator.integers(0, 6, WORLDS), generator)
        last = np.array([oracle.last_action for oracle in oracles])
        observations, rewards, terminations, truncations, _ = env.step(wanted)
        assert not truncations.any()
        repeatable = ~ended & (last != wanted)
        seen.repeatable += repeatable.sum()
        seen.repeated += (repeatable & (columns("Move.action")[:, 0] == last)).sum()
        for world, oracle in enumerate(oracles):
            if ended[world]:
                start(oracle, game, columns, world, generator, varied)
                if varied and world % 2:
                    continue  # the situation is in the observation of the next step
            else:
                given = step(oracle, game, columns, world, int(wanted[world]))
                expected = float(rewards[world]), bool(terminations[world])
                assert given == expected, f"world {world} in step {t}"
            assert np.array_equal(oracle.state(), observations[world]), f"world {world} in step {t}"
        seen.episodes += int(terminations.sum())
        seen.reward += float(rewards.sum())
        ended = terminations.copy()
    return seen


@pytest.mark.parametrize("name", SOME)
def test_games_are_the_originals(name: str) -> None:
    seen = play(name, 150, varied=True)
    assert seen.reward > 20
    assert seen.episodes > 20 or name == "freeway"


@pytest.mark.full
@pytest.mark.parametrize("name", SOME)
def test_100000_steps_are_the_originals(name: str) -> None:
    seen = play(name, 100_000 // WORLDS, varied=False)
    assert seen.episodes > 30
    assert abs(seen.repeated / seen.repeatable - 0.1) < 5 * np.sqrt(0.09 / seen.repeatable)


@pytest.mark.full
@pytest.mark.parametrize("name", SOME)
def test_rare_situations_are_the_originals(name: str) -> None:
    ramps = GAMES[name].environment.parameters.options.keys() & {"difficulty_ramping"}
    options = {"difficulty_ramping": False} if ramps else {}
    assert play(name, 400, varied=True).reward > 50
    assert play(name, 150, varied=True, sticky_action_prob=0.5, **options).reward > 10


# ---- without the original ------------------------------------------------------------------------------------------

DIGESTS = {
    "asterix": 2091065754, "breakout": 3300823299, "freeway": 1979813831, "seaquest": 4102730715,
    "space_invaders": 857923033,
}  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_games_are_those_that_were_compared(name: str) -> None:
    env = TorchVectorEnv(GAMES[name].environment(minimal_actions=False), WORLDS, output="numpy")
    observations, _ = env.reset(seed=1)
    generator = np.random.default_rng(0)
    digest = zlib.crc32(observations.tobytes())
    for _ in range(300):
        actions = chosen(name, observations, generator.integers(0, 6, WORLDS), generator)
        observations, rewards, terminations, _, infos = env.step(actions)
        for array in (observations, rewards, terminations, infos["final_obs"]):
            digest = zlib.crc32(array.tobytes(), digest)
    assert digest == DIGESTS[name]


@pytest.mark.full
def test_observations_in_floats_are_the_same() -> None:
    games = [TorchVectorEnv(GAMES["freeway"].environment(obs_dtype=dtype), 5) for dtype in ("uint8", "float32")]
    for env in games:
        env.reset(seed=1)
    assert games[1].single_observation_space.dtype == np.float32
    for actions in np.random.default_rng(0).integers(0, 3, (40, 5)):
        bytes_, floats = (env.step(torch.tensor(actions))[0] for env in games)
        assert floats.dtype == torch.float32 and torch.equal(floats.to(torch.uint8), bytes_)


@pytest.mark.parametrize("name", SOME)
def test_spaces_and_minimal_actions(name: str) -> None:
    game = GAMES[name]
    minimal = TorchVectorEnv(game.environment(sticky_action_prob=0), 4)
    full = TorchVectorEnv(game.environment(sticky_action_prob=0, minimal_actions=False), 4)
    assert minimal.single_observation_space == full.single_observation_space
    assert minimal.single_observation_space.shape == (10, 10, len(game.environment.channels))
    assert minimal.single_observation_space.high.max() == 1
    assert (minimal.single_action_space.n, full.single_action_space.n) == (len(game.environment.used), 6)
    minimal.reset(seed=3)
    full.reset(seed=3)
    used = np.array(game.environment.used)
    for actions in np.random.default_rng(0).integers(0, len(used), (60, 4)):
        given, expected = minimal.step(actions), full.step(used[actions])
        for mine, theirs in zip(given[:4], expected[:4], strict=True):
            assert (mine == theirs).all()


def test_actions_stick_within_an_episode() -> None:
    env = TorchVectorEnv(Breakout(sticky_action_prob=1), 8, autoreset_mode="NextStep")
    env.reset(seed=0)
    paddle = env.sim.tensor("Game.Paddle.x")
    for _ in range(5):
        env.step(np.full(8, 2))
        assert (paddle == 4).all()  # nothing, over and over
    env = TorchVectorEnv(Breakout(sticky_action_prob=0), 8, autoreset_mode="NextStep")
    env.reset(seed=0)
    for step in range(5):
        env.step(np.full(8, 2))
        assert (env.sim.tensor("Game.Paddle.x") == 5 + step).all()


def test_episodes_end_at_the_limit_of_steps() -> None:
    env = TorchVectorEnv(Freeway(max_episode_steps=7), 3)
    env.reset(seed=0)
    flags = [env.step(np.zeros(3, np.int64))[2:4] for _ in range(14)]
    assert [bool(truncations.all()) for _, truncations in flags] == [False] * 6 + [True] + [False] * 6 + [True]
    assert not any(terminations.any() for terminations, _ in flags)
    env = TorchVectorEnv(Freeway(), 3)
    env.reset(seed=0)
    env.episode_steps = torch.full((3,), 2500)
    _, _, terminations, truncations, _ = env.step(np.zeros(3, np.int64))
    assert terminations.all() and not truncations.any()


def test_a_sea_that_is_full_is_a_fault() -> None:
    env = TorchVectorEnv(Seaquest(), 2)
    env.reset(seed=0)
    env.sim.tensor("Game.Sea.count")[1] = 48
    with pytest.raises(WorldFault, match="full"):
        env.step(np.full(2, 5))


BAD = {"sticky_action_prob": 1.5, "difficulty_ramping": True, "minimal_actions": 3, "max_episode_steps": 0}


@pytest.mark.parametrize("options", [{name: value} for name, value in BAD.items()], ids=BAD)
def test_bad_options(options: dict[str, Any]) -> None:
    name = next(iter(options))
    with pytest.raises((ValueError, TypeError), match=name):
        torch_batchsim.make_vec("torch_batchsim/MinAtar-Breakout-v0", num_envs=2, **options)


def test_unknown_games() -> None:
    with pytest.raises(Exception, match="MinAtar-Pong"):
        torch_batchsim.make_vec("torch_batchsim/MinAtar-Pong-v0", num_envs=2)


@pytest.mark.full
@pytest.mark.parametrize("name", full_but(["breakout"], GAMES))
def test_python_has_the_same_bits(name: str) -> None:
    made = GAMES[name].environment()
    check_same_bits(Simulator(made, 2), Simulator(made, 2, executor="python"), steps=12)


@pytest.mark.full
@pytest.mark.parametrize("name", SOME)
def test_other_executors_have_the_same_bits(name: str) -> None:
    made = GAMES[name].environment()
    program = Program(made)
    emulated = [Simulator(made, 3, _library=emulation.load(program, executor)) for executor in EXECUTORS["cuda"]]
    check_same_bits(Simulator(made, 3), Simulator(made, 3, executor="per_world"), *emulated, steps=60)


def check_same_bits(*sims: Simulator, steps: int) -> None:
    for sim in sims:
        sim.reset(seed=5)
    actions = sims[0].tensor("Game.Choice.action")
    choices = len(type(sims[0].environment).used)
    for wanted in np.random.default_rng(0).integers(0, choices, (steps, *actions.shape)):
        for sim in sims:
            sim.tensor("Game.Choice.action").copy_(torch.from_numpy(wanted))
            sim.step()
    for sim in sims[1:]:
        assert_same_bits(snapshot(sim), snapshot(sims[0]))


@pytest.mark.parametrize("name", SOME)
def test_a_picture_shows_every_cell(name: str) -> None:
    env = TorchVectorEnv(GAMES[name].environment(), 2, render_mode="rgb_array")
    observations, _ = env.reset(seed=0)
    first, _ = env.render()
    assert first.shape == (160, 160, 3)
    cells = first[8::16, 8::16]
    lit = (cells != cells[0, 5] if name == "breakout" else cells != (28, 31, 46)).any(-1)
    assert np.array_equal(lit, observations[0].numpy().any(-1))
