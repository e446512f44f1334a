"""Roles of columns: agents that leave, their own ends, teams, and the table that describes all roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from environments.duel import Duel
from environments.melee import FIGHTERS
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from melee_model import Bout
from support import COMPILED, declare, emulated_cuda, full_but

import torch_batchsim
from torch_batchsim import (
    AgentEnd,
    Archetype,
    Component,
    Environment,
    EpisodeStatistics,
    Reward,
    SchemaError,
    TaskGraph,
    TorchVectorEnv,
    boolean,
    component,
    f32,
    i32,
    u32,
)
from torch_batchsim.declare.roles import ROLES
from torch_batchsim.resolve.program import Program
from torch_batchsim.vector.single_env import SingleEnv

MODES = list(AutoresetMode)
RUNS = {
    "batch": {"num_threads": 1},
    "two threads": {"num_threads": 2},
    "per_world": {"executor": "per_world"},
    "cuda": {"executor": "graph"},
    "megakernel": {"executor": "megakernel"},
}


def melee(worlds: int, run: str, **kwargs: Any) -> TorchVectorEnv:
    arguments = dict(RUNS[run])
    if run in ("cuda", "megakernel"):
        arguments = {"_library": emulated_cuda("melee", arguments["executor"])}
    return TorchVectorEnv(COMPILED["melee"](max_episode_steps=7), num_worlds=worlds, **arguments, **kwargs)


def bouts(env: TorchVectorEnv) -> list[Bout]:
    """Models of worlds that have just begun."""
    return [Bout(points, 7) for points in env.sim.tensor("Fighter.Body.points").tolist()]


def rows(models: list[Bout], what: str, like: torch.Tensor) -> torch.Tensor:
    """By the models, of all rows."""
    return torch.tensor([row for model in models for row in getattr(model, what)], dtype=like.dtype)


# ---- against a model in plain Python -------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("run", full_but(["batch", "two threads"], RUNS))
def test_agents_leave_one_after_another(run: str, mode: AutoresetMode) -> None:
    """Inactive rows may be given anything; rows end with their world or before; finals are kept at both ends."""
    worlds = 40
    env = melee(worlds, run, autoreset_mode=mode)
    generator = np.random.default_rng(0)
    seen, infos = env.reset(seed=3)
    models, over = bouts(env), [False] * worlds  # over: ended before, not begun anew
    kinds = set()
    for _ in range(30):
        assert torch.equal(seen, rows(models, "seen", seen))
        assert torch.equal(env.active, rows(models, "active", env.active)) and env.active is infos["active"]
        assert torch.equal(env.by_world(env.team), torch.tensor([0, 1, 0, 1], dtype=torch.int8).expand(worlds, -1))
        rubbish = torch.from_numpy(generator.choice([-(2**40), -1, 4, 99], env.num_envs))
        actions = torch.from_numpy(generator.integers(0, FIGHTERS, env.num_envs))
        actions = torch.where(env.active, actions, rubbish)
        seen, rewards, terminations, truncations, infos = env.step(actions)

        taken = [None if over[w] else models[w].step(a) for w, a in enumerate(env.by_world(actions).tolist())]
        column = env.sim.tensor("Fighter.Choice").tolist()
        assert all(mine is None or mine == theirs for mine, theirs in zip(taken, column, strict=True))
        for world, model in enumerate(models):
            if over[world]:
                model.rewards = [0.0] * FIGHTERS
                if mode is AutoresetMode.NEXT_STEP:
                    models[world] = bouts(env)[world]
        assert torch.equal(rewards, rows(models, "rewards", rewards))
        assert torch.equal(terminations, rows(models, "terminated", terminations))
        assert torch.equal(truncations, rows(models, "truncated", truncations))
        assert torch.equal(env.sim.tensor("Agents.done").flatten(), terminations | truncations)
        for model in models:
            own = [fallen or gone for fallen, gone in zip(model.fallen, model.gone, strict=True)]
            kinds |= {(model.over, model.late, any(model.fallen), any(model.gone), all(own))}
        if mode is AutoresetMode.SAME_STEP:
            ended = terminations | truncations
            assert torch.equal(infos["_final_obs"], ended) and torch.equal(infos["_final_info"], ended)
            assert torch.equal(infos["final_obs"][ended], rows(models, "seen", seen)[ended])
            active = rows(models, "active", env.active)
            assert torch.equal(infos["final_info"]["active"][ended], active[ended])
            fresh = bouts(env)
            models = [fresh[w] if model.ended else model for w, model in enumerate(models)]
        else:
            assert "final_obs" not in infos
            over = [model.ended for model in models]
    for kind in ((False, False, True), (True, False, True)):  # an own end, also with that of the world
        assert any(found[:3] == kind for found in kinds), kind
    assert any(gone for *_, gone, _ in kinds) and any(late for _, late, *_ in kinds)


def test_resets_by_mask_clear_the_flags_of_agents() -> None:
    env = melee(20, "batch", autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=1)
    while not env.sim.tensor("Fighter.AgentEnd").any(-1).any():
        _, _, terminations, truncations, _ = env.step(torch.ones(80, dtype=torch.int64))
    assert (terminations | truncations).any()
    mask = torch.arange(20) < 10
    env.reset(options={"reset_mask": mask})
    flags = env.sim.tensor("Agents.terminated") | env.sim.tensor("Agents.truncated")
    assert not flags[mask].any() and flags[~mask].any()
    assert not env.sim.tensor("Fighter.AgentEnd")[mask].any()


# ---- actions -------------------------------------------------------------------------------------------------------


def test_illegal_actions_of_active_rows_are_found_among_rubbish() -> None:
    """In rows of several blocks of the check, of which the first hold rubbish of inactive rows only."""
    env = melee(3000, "two threads")
    env.reset(seed=0)
    actions = torch.where(env.active, 0, -5)
    env.step(actions)
    actions = torch.where(env.active, 0, 2**40)
    row = int(env.active.nonzero()[-1])
    actions[row] = 4
    before = env.sim.tensor("World.step").clone()
    says = f"action 4 of world {row // 4}, agent {row % 4} is not in Discrete"
    with pytest.raises(ValueError, match=says):
        env.step(actions)
    assert torch.equal(env.sim.tensor("World.step"), before)
    env.sim.tensor("Fighter.Standing")[row // 4, row % 4] = False  # what is there now counts
    env.step(actions)


def test_environments_without_active_take_no_rubbish() -> None:
    env = TorchVectorEnv(Duel(), num_worlds=2)
    env.reset(seed=0)
    assert env.active is None and env.team is None
    with pytest.raises(ValueError, match="active cannot be bound: this environment has none"):
        env.bind(active=torch.zeros(4, dtype=torch.bool))


class Thrust(Component):
    force: f32[1]


class Glide(Component):
    x: f32
    felt: f32
    idle: f32  # steps on the ground


class Up(Component):
    yes: boolean


GLIDER = """
TBS_SYSTEM void fly(World &world, Glide &glide, const Thrust &thrust, const Up &up, Reward &reward, AgentEnd &end) {
    glide.felt = thrust.force[0];
    reward.value = 1.0f;
    glide.idle = up.yes ? 0.0f : glide.idle + 1.0f;
    if (!up.yes) return;
    glide.x += thrust.force[0];
    end.terminated = glide.x > 4.0f;
}
TBS_SYSTEM void tire(World &world, Episode &episode) { episode.truncated = episode.step >= 10; }
TBS_SYSTEM void look(World &world, const Glide &glide, Up &up) { up.yes = glide.x <= 4.0f; }
"""


def glider() -> Environment:
    """One agent a world, which flies until it is out of sight while its world goes on to step 10."""
    return declare(
        GLIDER,
        archetypes=[Archetype("Glider", Glide, Thrust, Up, Reward, AgentEnd, count=1)],
        step=TaskGraph("fly", "tire"),
        observe=TaskGraph("look"),
        observation="Glider.Glide",
        action="Glider.Thrust",
        action_space=Box(0.5, 2.0, (1,)),
        active="Glider.Up",
    )()


def test_the_only_agent_of_a_world_ends_while_its_world_goes_on() -> None:
    """Flags of its own beside the world's; actions that are not numbers; the idle one is the legal one nearest to 0."""
    env = TorchVectorEnv(glider(), num_worlds=3)
    stored = {key: torch.zeros(10, 3, dtype=torch.bool) for key in ("terminations", "truncations", "active")}
    env.reset(seed=0)
    thrust = torch.tensor([[0.5], [1.0], [2.0]])
    for t in range(10):
        env.bind(**{key: tensor[t] for key, tensor in stored.items()})
        env.step(torch.where(env.active[:, None], thrust, torch.nan))
    assert (~stored["active"][:9]).sum(0).tolist() == [1, 5, 7]
    assert stored["terminations"].nonzero().tolist() == [[2, 2], [4, 1], [8, 0]]
    assert stored["truncations"].nonzero().tolist() == [[9, 0], [9, 1], [9, 2]]
    assert env.active.all() and env.sim.tensor("World.truncated").all()

    bound = torch.ones(3, 1)
    env.bind(actions=bound)
    for _ in range(6):
        bound.copy_(torch.tensor([[1.0], [1.5], [2.0]]))
        env.step(bound)
    assert bound.flatten().tolist() == [0.5] * 3  # in place too
    assert env.sim.tensor("Glider.Glide.felt").flatten().tolist() == [0.5] * 3
    with pytest.raises(ValueError, match="action nan of world 0"):
        env.reset()
        env.step(torch.full((3, 1), torch.nan))


def test_a_single_environment_returns_the_end_of_its_agent() -> None:
    env = SingleEnv(glider())
    env.reset(seed=0)
    flags = [env.step(np.ones(1, np.float32))[2:4] for _ in range(10)]
    assert flags == [(False, False)] * 4 + [(True, False)] + [(False, False)] * 4 + [(False, True)]


# ---- statistics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_statistics_count_an_agents_episode_to_its_own_end(mode: AutoresetMode) -> None:
    worlds = 30
    env = EpisodeStatistics(melee(worlds, "batch", autoreset_mode=mode))
    generator = np.random.default_rng(2)
    env.reset(seed=5)
    vector = env.unwrapped
    sums = np.zeros((2, vector.num_envs))  # of the episode under way: rewards, steps
    played, idle_ends, stood = [], 0, np.zeros(worlds, bool)
    for _ in range(40):
        active = vector.active.numpy().copy() & ~stood.repeat(FIGHTERS)
        actions = torch.from_numpy(generator.integers(0, FIGHTERS, vector.num_envs))
        _, rewards, terminations, truncations, infos = env.step(actions)
        sums += np.stack([rewards.numpy(), np.ones(vector.num_envs)]) * active
        flags = (terminations | truncations).numpy() & ~stood.repeat(FIGHTERS)
        ended = flags & (sums[1] > 0)
        idle_ends += int((flags & ~ended).sum())
        assert np.array_equal(infos["_episode"], ended)
        assert np.array_equal(infos["episode"]["r"], sums[0] * ended)
        assert np.array_equal(infos["episode"]["l"], sums[1] * ended)
        played += [tuple(sums[:, row]) for row in ended.nonzero()[0]]
        sums[:, flags] = 0
        if mode is not AutoresetMode.SAME_STEP:
            sim = vector.sim
            stood = (sim.tensor("World.terminated") | sim.tensor("World.truncated")).numpy().copy()
        if mode is AutoresetMode.DISABLED and stood.sum() > 10:
            env.reset(options={"reset_mask": stood})
            stood[:] = False
    assert idle_ends > 20 and len(played) > 200
    returns, lengths = np.mean(played, axis=0)
    assert env.totals() == (pytest.approx(returns), pytest.approx(lengths), len(played))


# ---- declarations --------------------------------------------------------------------------------------------------


class Spot(Component):
    x: f32


class Step(Component):
    towards: i32


class Flags(Component):
    values: boolean[2]


class Side(Component):
    code: u32


WALK = """
TBS_SYSTEM void walk(World &world, Spot &spot, const Step &step) { spot.x += f32(step.towards); }
TBS_SYSTEM void fall(World &world, AgentEnd &end) { end.terminated = true; }
TBS_SYSTEM void pay(World &world, const Step &step, Reward &reward) { reward.value = f32(step.towards); }
TBS_SYSTEM void stop(World &world, Episode &episode) { episode.truncated = true; }
"""
PARTS = (Spot, Step, Up, Flags, Side, Reward)
STONE = Archetype("Stone", Up, component("Rank", number=i32), count=1)


def walk(*, parts: tuple = PARTS, others: tuple = (STONE,), **changes: Any) -> Environment:
    attributes = {
        "archetypes": (Archetype("Walker", *parts, count=2), *others),
        "step": TaskGraph("walk"),
        "observation": "Walker.Spot",
        "action": "Walker.Step.towards",
        "action_space": Discrete(2),
    }
    return declare(WALK, **(attributes | changes))()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"active": "Walker.Spot"}, "active 'Walker.Spot' must hold one boolean"),
        ({"active": "Walker.Side"}, "active 'Walker.Side' must hold one boolean"),
        ({"active": "Walker.Flags"}, "active 'Walker.Flags' must hold one boolean"),
        ({"active": "Stone.Up"}, "active 'Stone.Up' must be of the agents' archetype Walker"),
        ({"active": "Walker.Op"}, "active 'Walker.Op' does not exist (did you mean 'Walker.Up'?)"),
        ({"active": 1}, "active must be a name, got 1"),
        ({"active": ["Walker.Up"]}, "active must be a name, got ['Walker.Up']"),
        ({"team": "Walker.Spot"}, "team 'Walker.Spot' must hold one integer"),
        ({"team": "Walker.Side"}, "team 'Walker.Side' must hold one integer"),
        ({"team": "Walker.Up"}, "team 'Walker.Up' must hold one integer"),
        ({"team": "Stone.Rank"}, "team 'Stone.Rank' must be of the agents' archetype Walker"),
        ({"info": {"active": "Walker.Up"}}, "info 'active'"),
        ({"info": {"team": "Walker.Up"}}, "info 'team'"),
        ({"info": {"up": 3}}, "info 'up' must be the name of a column, got 3"),
        ({"info": None}, "info must be a dict, got None"),
        ({"others": (Archetype("Stone", AgentEnd, count=1),)}, "Stone has the component AgentEnd"),
        ({"parts": (*PARTS, AgentEnd), "observation": "Walker.AgentEnd"}, "Walker.AgentEnd cannot be an observation"),
        ({"singletons": (AgentEnd,)}, "a singleton or resource has the component AgentEnd, but only the archetype"),
        ({"parts": (*PARTS, component("AgentEnd", terminated=boolean))}, "take torch_batchsim.AgentEnd"),
        ({"step": TaskGraph("walk", "fall")}, "system 'fall' names component 'AgentEnd', which no archetype has"),
        ({"parts": (*PARTS, AgentEnd), "start": TaskGraph("fall")}, "systems.h:3: system 'fall' of 'start'"),
        ({"parts": (*PARTS, AgentEnd), "observe": TaskGraph("fall")}, "system 'fall' of 'observe' takes AgentEnd"),
        ({"start": TaskGraph("pay")}, "systems.h:4: system 'pay' of 'start' writes Reward, which only"),
        ({"observe": TaskGraph("pay")}, "system 'pay' of 'observe' writes Reward, which only systems of 'step' may"),
        ({"start": TaskGraph("stop")}, "system 'stop' of 'start' ends the episode, which only systems of 'step' may"),
        ({"step": TaskGraph("wlk")}, "names system 'wlk', which systems.h does not define (did you mean 'walk'?)"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_bad_roles(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaError) as raised:
        Program(walk(**changes))
    text = str(raised.value)
    assert says in text and "\n" not in text


def test_good_roles() -> None:
    program = Program(walk(active="Walker.Up.yes", parts=(*PARTS, AgentEnd), step=TaskGraph("walk", "fall")))
    assert program.active.name == "Walker.Up" and program.agent_end.name == "Walker.AgentEnd"
    assert list(program.info) == ["active"] and program.agent_flags


def test_the_page_has_all_roles() -> None:
    """Each in the words of its record, and its attribute exists."""
    page = " ".join((Path(torch_batchsim.__file__).parents[1] / "docs" / "authoring.md").read_text().split())
    for role in ROLES:
        assert f"- `{role.name}`: {role.meaning}. Column: {role.holds}. Delivered as {role.delivered}." in page
        assert role.component or hasattr(Environment, role.name)
