"""Infos that are one field of several, or of a singleton."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from gymnasium.vector import AutoresetMode
from support import assert_same_bits, declare, first_worlds, full_but, snapshot

from torch_batchsim import (
    AgentsVectorEnv,
    Archetype,
    BuildWarning,
    Component,
    Environment,
    Reward,
    SchemaError,
    Struct,
    TaskGraph,
    TorchVectorEnv,
    between,
    boolean,
    f32,
    i32,
    u8,
    vec2,
)
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import check_env


class Leg(Struct):
    angle: f32
    steps: i32[2]


class Move(Component):
    direction: i32 = between(0, 2)


class Body(Component):
    x: f32 = between(0, 50)
    lives: i32
    legs: Leg[3]
    at: vec2
    marks: u8[2, 2]
    hurt: boolean


class Seen(Component):
    x: f32


class Weather(Component):
    wind: f32
    day: i32


class Pair(Component):
    a: f32
    b: f32[2]


class Clock(Component):
    time: i32


TEXT = """
TBS_SYSTEM void go(World &world, Body &body, const Move &move, Row row, Reward &reward) {
    body.x += 1.0f + f32(move.direction);
    body.lives = i32(row.index) + i32(world.id);
    for (u32 i = 0; i < 3; ++i) {
        body.legs[i].angle = 0.5f * f32(i) * body.x;
        body.legs[i].steps[1] = i32(i) + move.direction;
    }
    body.at = vec2{body.x, 2.0f};
    body.marks[1][0] = u8(world.step());
    body.hurt = world.random().chance(0.5f);
    reward.value = 1.0f;
}
TBS_SYSTEM void look(World &world, const Body &body, Seen &seen) { seen.x = body.x + f32(world.step()); }
TBS_SYSTEM void blow(World &world, Weather &weather, Pair &pair, Clock &clock) {
    weather.wind += 0.5f * f32(world.id);
    weather.day += 1;
    pair.a = 3.0f;
    pair.b[1] = weather.wind;
    clock.time = i32(world.step());
}
TBS_SYSTEM void stop(World &world, Episode &episode) { episode.truncated = episode.step >= 3u + world.id % 2u; }
"""
INFO = {
    "x": "Walker.Body.x",
    "angles": "Walker.Body.legs.angle",
    "steps": "Walker.Body.legs.steps",
    "at": "Walker.Body.at",
    "marks": "Walker.Body.marks",
    "hurt": "Walker.Body.hurt",
    "wind": "Weather.wind",
    "pair": "Pair",
    "time of day": "Clock.time",
    "clock": "Clock",
}


def environment(**attributes: Any) -> type[Environment]:
    given: dict[str, Any] = {
        "archetypes": [Archetype("Walker", Move, Body, Seen, Reward, count=2)],
        "singletons": [Weather, Pair, Clock],
        "step": TaskGraph("go", "blow", "stop"),
        "observe": TaskGraph("look"),
        "observation": "Walker.Seen",
        "action": "Walker.Move",
        "info": INFO,
        "critic": {"lives": "Walker.Body.lives", "day": "Weather.day", "place": "Walker.Body.x"},
        "metadata": {"score": "wind"},
        **attributes,
    }
    return declare(TEXT, **given)


def state(env: TorchVectorEnv, name: str) -> torch.Tensor:
    """What the rows should get: ``[rows, ...]``."""
    sim = env.sim
    if name.startswith("Walker"):
        return sim.tensor(name).flatten(0, 1)
    values = torch.cat([sim.tensor("Pair.a")[:, None], sim.tensor("Pair.b")], 1) if name == "Pair" else sim.tensor(name)
    return values.repeat_interleave(2, 0)


NAMES = {**INFO, "lives": "Walker.Body.lives", "day": "Weather.day", "place": "Walker.Body.x"}


@pytest.mark.parametrize("run", full_but(["batch"], ["batch", "per_world", "graph", "checks"]))
def test_each_row_gets_the_field(run: str) -> None:
    arguments: dict[str, Any] = {"executor": run}
    if run == "graph":
        arguments = {"_library": emulation.load(Program(environment()()), "graph")}
    elif run == "checks":
        arguments = {"checks": True}
    env = TorchVectorEnv(environment()(), num_worlds=5, autoreset_mode=AutoresetMode.DISABLED, **arguments)
    _, infos = env.reset(seed=0)
    for step in range(3):
        for key, name in NAMES.items():
            assert torch.equal(infos[key], state(env, name)), (key, step)
            assert infos[key].is_contiguous()
        _, _, _, _, infos = env.step(torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 0]))
    assert infos["angles"].shape == (10, 3) and infos["steps"].shape == (10, 3, 2) and infos["pair"].shape == (10, 3)
    assert infos["hurt"].dtype == torch.bool and infos["marks"].dtype == torch.uint8


def test_final_infos_are_those_of_the_ended_episode() -> None:
    env = TorchVectorEnv(environment()(), num_worlds=2)
    env.reset(seed=0)
    for _ in range(3):
        *_, truncations, infos = env.step(torch.zeros(4, dtype=torch.int64))
    assert truncations.tolist() == [True, True, False, False]
    assert infos["final_info"]["x"][:2].tolist() == [3.0, 3.0] and infos["x"].tolist() == [0.0, 0.0, 3.0, 3.0]
    assert infos["time of day"].tolist() == [0, 0, 3, 3] and infos["final_info"]["time of day"][:2].tolist() == [3, 3]


def test_agents_get_theirs_and_critics_keep_the_range() -> None:
    env = TorchVectorEnv(environment()(), num_worlds=3)
    assert float(env.single_critic_space["place"].high) == 50.0
    agents = AgentsVectorEnv(TorchVectorEnv(environment()(), num_worlds=3))
    _, infos = agents.reset(seed=0)
    assert all(infos[agent]["wind"].shape == (3,) for agent in agents.agents)


def test_worlds_do_not_depend_on_their_number() -> None:
    few, many = (TorchVectorEnv(environment()(), num_worlds=n, num_threads=t) for n, t in ((3, 1), (40, 2)))
    for env in (few, many):
        env.reset(seed=0)
        for _ in range(5):
            env.step(torch.ones(env.num_envs, dtype=torch.int64))
    assert_same_bits(snapshot(few.sim), first_worlds(many.sim, 3))


@pytest.mark.full
def test_the_checks_of_environments_hold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", BuildWarning)
        check_env(environment(), worlds=8, steps=60, skip=("observations", "actions", "rewards", "seeds"))


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"info": {"w": "Weather"}}, r"info 'w' is 'Weather', whose fields have several.*'wind': 'Weather\.wind'"),
        ({"info": {"w": "Weather.wnd"}}, r"info 'Weather\.wnd': component Weather has no field 'wnd'"),
        ({"info": {"w": "Walker.Body"}}, r"info 'Walker\.Body' has fields of several types"),
        ({"info": {"w": "Walker.Body.legs"}}, r"legs has fields of different types.*ask for legs\.angle, legs\.steps"),
        ({"active": "Walker.Body.hurt"}, r"active 'Walker\.Body\.hurt' is one of the 7 fields of Walker\.Body"),
        ({"observation": "Weather.wind"}, r"observation 'Weather\.wind' must be of the agents' archetype"),
        ({"metadata": {"score": "pair"}}, r"score 'pair', which must be an info with one number a row"),
    ],
)
def test_what_is_still_rejected(attributes: dict[str, Any], says: str) -> None:
    given = {"critic": {}, "metadata": {}, **attributes}
    with pytest.raises(SchemaError, match=says):
        Program(environment(**given)())
