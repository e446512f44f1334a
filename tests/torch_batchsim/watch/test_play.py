"""Humans on the live page: what is pressed becomes the actions of one agent, beside policies."""

from __future__ import annotations

import importlib
import threading
import time
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from live_page import LIMIT, Page, running
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hideseek import HideSeek
from torch_batchsim.envs.overcooked import Overcooked

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Control,
    Environment,
    Episode,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    Viewer,
    World,
    between,
    f32,
    i32,
    system,
)
from torch_batchsim.declare.controls import composed, controls_of
from torch_batchsim.draw import Scene
from torch_batchsim.errors import SchemaError, WorldFault
from torch_batchsim.run.snapshots import of_worlds, snapshot
from torch_batchsim.vector.partial_step import step_around
from torch_batchsim.watch.session import Session


def spied(env: Any) -> list[torch.Tensor]:
    """The actions of each step, from here on."""
    taken, step = [], env.step

    def note(actions: torch.Tensor) -> Any:
        taken.append(torch.as_tensor(actions).clone())
        return step(actions)

    env.step = note
    return taken


def steps(page: Page, viewer: Any, count: int) -> dict[str, Any]:
    """Take so many, and return the frame behind them."""
    end = viewer.steps + count
    page.send("step", count=count)
    return page.frame(lambda frame: frame["step"] == end)[0]


def test_keys_push_the_cart() -> None:
    env = TorchVectorEnv(CartPole(), 4)
    with running(env) as viewer:
        taken, page = spied(env), Page(viewer.url)
        assert [control["label"] for control in page.hello["controls"]] == ["Left", "Right"]
        assert page.hello["controls"][0] == {"label": "Left", "key": "ArrowLeft"}
        assert {"human", "press"} <= set(page.hello["can"])
        seat = {"world": 2, "agent": 0}
        page.send("policy", name="still")
        page.send("human", **seat, on=True)
        frame = page.frame(lambda frame: "humans" in frame)[0]  # also while the run is paused
        assert frame["step"] == 0 and frame["humans"] == [{**seat, "waits": True, "legal": [True, True]}]
        page.send("press", **seat, control=1, on=True)
        steps(page, viewer, 3)
        assert [actions.tolist() for actions in taken] == 3 * [[0, 0, 1, 0]]
        page.send("press", **seat, control=1, on=False)
        page.send("press", **seat, control=0, on=True)
        page.send("press", **seat, control=0, on=False)
        steps(page, viewer, 2)
        assert [actions[2].item() for actions in taken[3:]] == [0, 0]  # the last one goes on
        page.send("press", **seat, control=1, on=True)
        page.send("press", **seat, control=0, on=True)  # of two, the later
        page.send("press", **seat, control=0, on=False)
        steps(page, viewer, 1)
        steps(page, viewer, 1)
        assert [actions[2].item() for actions in taken[5:]] == [0, 1]  # a tap counts, then what is held
        page.send("policy", name="still")
        page.send("human", **seat, on=False)
        assert page.text("done")["text"] == "the policy plays agent 0 of world 2"
        frame = steps(page, viewer, 1)
        assert taken[-1].tolist() == [0, 0, 0, 0] and "humans" not in frame
        page.send("press", **seat, control=1, on=True)
        assert page.text("error")["text"] == "no human plays agent 0 of world 2"


@pytest.mark.parametrize("worlds", [1, 3])
def test_a_world_waits_for_a_human_as_long_as_a_page_is_open(worlds: int) -> None:
    """Others go on, if there are any."""
    env = TorchVectorEnv(CartPole(), worlds)
    with running(env, speed=None) as viewer:
        page, own = Page(viewer.url), worlds - 1
        page.send("human", world=own, agent=0, on=True)
        frame = page.frame(lambda frame: frame.get("humans", [{}])[0].get("waits"))[0]
        assert frame["humans"] == [{"world": own, "agent": 0, "waits": True, "legal": [True, True]}]
        stands, state = viewer.steps, env.sim.tensor("Cart.CartState")[own].clone()
        counted = [world[-2:-4:-1] for world in frame["worlds"]][own]
        for _ in range(3):  # of nothing but frames: a page that is greeted begins anew
            frame = page.receive()[0]
            assert frame["kind"] == "frame" and frame["worlds"][own][-2:-4:-1] == counted
        assert (viewer.steps > stands) == (worlds > 1)
        assert torch.equal(env.sim.tensor("Cart.CartState")[own], state)
        page.send("press", world=own, agent=0, control=0, on=True)
        page.frame(lambda frame: frame["step"] > stands and not frame["humans"][0]["waits"])
        page.socket.close()
        seen, goes_on = viewer.steps, threading.Event()
        for _ in range(100 * LIMIT):
            if viewer.steps > seen + 10 and not viewer.session.play.hands:
                goes_on.set()
                break
            goes_on.wait(0.01)
        assert goes_on.is_set()


class Age(Component):
    steps: i32


class Choice(Component):
    direction: i32 = between(0, 1)


@system
def grow(world: World, age: Age, choice: Choice, reward: Reward, episode: Episode) -> None:
    age.steps += 1 + choice.direction + (1 if world.random.chance(0.5) else 0)
    reward.value = f32(age.steps)
    episode.truncated = age.steps >= 9
    if age.steps == 8 and choice.direction == 1:
        world.fail("eight", age.steps)


class Growing(Environment):
    archetypes = [Archetype("Walker", Age, Choice, Reward, count=1)]
    step, faults = TaskGraph(grow), ("eight",)
    observation, action, systems = "Walker.Age", "Walker.Choice.direction", ()
    info = {"age": "Walker.Age"}


@pytest.mark.parametrize("compiled", [True, False])
def test_a_world_that_is_held_stands_still_and_goes_on_as_it_was(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others step to the bit as without it; of all worlds the steps that they have taken are counted."""
    if not compiled:
        monkeypatch.setattr("torch_batchsim.watch.counts._module", lambda: None)
    choices, held = torch.from_numpy(np.random.default_rng(2).integers(0, 2, (60, 4))), 2
    seen: dict[bool, list[Any]] = {False: [], True: []}
    totals, ends = [], []
    for holds in (False, True):
        env = TorchVectorEnv(Growing(), 4)
        with Viewer(env, 0) as viewer:
            session = Session(viewer, {"own": lambda: None}, 3)  # type: ignore[dict-item, return-value]
            viewer._counts.show(range(4), True)
            viewer._counter.counting = True
            taken = 0
            for step in range(60):
                chosen = choices[step].clone()
                chosen[held] = choices[taken, held]
                session._policy = lambda _, infos, chosen=chosen: (ends.append(infos.get("_final_obs")), chosen)[1]
                holding = holds and (step % 5 < 2)
                session.step([held] if holding else ())
                viewer.after_step()
                taken += not holding
                observed, clock = session.observations.flatten().tolist(), env.sim.tensor("World.step").tolist()
                seen[holds].append((taken, observed, clock, env.sim.tensor("World.episode").tolist()))
            totals.append(viewer._counts.totals()[1:])
            faults = len(viewer._faults)
    others = [world for world in range(4) if world != held]
    for plain, around in zip(seen[False], seen[True], strict=True):
        assert [[each[i] for i in others] for each in plain[1:]] == [[each[i] for i in others] for each in around[1:]]
        own = seen[False][around[0] - 1] if around[0] else None
        assert own is None or [each[held] for each in own[1:]] == [each[held] for each in around[1:]]
    assert any(each is not None and each.any() for each in ends) and faults > 0
    (steps, sums), (fewer, others_sums) = totals
    assert fewer.tolist() == [60, 60, 36, 60] and steps.tolist() == [60] * 4
    for name, each in sums.items():
        assert [each[i] for i in others] == [others_sums[name][i] for i in others], name


@system
def walk(world: World, age: Age, choice: Choice, reward: Reward) -> None:
    age.steps += 1
    reward.value = f32(choice.direction)


@system
def end(world: World, episode: Episode) -> None:
    episode.truncated = episode.step >= 3


@system
def begin(world: World, age: Age) -> None:
    age.steps = 0
    if world.random.chance(0.2):
        world.fail("unlucky", age.steps)


class Pair(Environment):
    archetypes = [Archetype("Walker", Age, Choice, Reward, count=2)]
    step = TaskGraph(walk, end)
    observation, action, systems = "Walker.Age", "Walker.Choice.direction", ()
    info = {"final_age": "Walker.Age"}


class Unlucky(Pair):
    start, faults = TaskGraph(begin), ("unlucky",)


def played(session: Session) -> bool:
    """As ``Session.run``: whether a step was made in which world 0 took part."""
    play = session.play
    if waits := not play.ready(session.infos):
        session.step(play.held())
    else:
        session.step()
    return not waits


def test_two_humans_of_one_world_may_take_their_time() -> None:
    """What one has pressed is kept until the other has; time that is over stays so."""
    env, now = TorchVectorEnv(Pair(), num_worlds=3), [100.0]
    with Viewer(env, 0) as viewer:
        viewer.clock = lambda: now[0]  # type: ignore[method-assign]
        session = Session(viewer, {"none": lambda: lambda *_: torch.zeros(6, dtype=torch.int64)}, 3, turn_seconds=5.0)
        page, play = Page(viewer.url), session.play
        assert page.hello["worlds"] == 3
        play._take(0, 0, True)
        play._take(0, 1, True)
        play._press(0, 0, True, 1)
        play._press(0, 0, False, 1)
        assert not played(session) and not played(session)
        play._press(0, 1, True, 1)
        play._press(0, 1, False, 1)
        assert played(session) and env.sim.tensor("Walker.Choice.direction").flatten().tolist()[:2] == [1, 1]
        assert not played(session)
        now[0] += 3.0
        play._take(0, 1, False)
        play._take(0, 1, True)  # begins to wait later
        assert not played(session)
        now[0] += 2.5
        assert not played(session)
        now[0] += 3.0
        assert played(session)


@pytest.mark.parametrize("held", [(), (0,)])
def test_worlds_that_fail_as_they_begin_begin_again(held: tuple[int, ...]) -> None:
    env = TorchVectorEnv(Unlucky(), num_worlds=6)
    with Viewer(env, 0) as viewer:
        for seed in range(50):
            with suppress(WorldFault):  # which a first reset raises
                session = Session(viewer, {"none": lambda: lambda *_: torch.zeros(12, dtype=torch.int64)}, seed)
                break
        for _ in range(40):
            session.step(held)
            viewer.after_step()
        assert viewer._faults and "final_age" in session.infos


@pytest.mark.full
@pytest.mark.parametrize("name", ["hanabi", "hideseek", "overcooked", "swarm", "tagcontinuous"])
def test_worlds_of_all_kinds_can_be_held(name: str) -> None:
    """One world lags behind by the steps in which it was held; that is all."""
    envs = [torch_batchsim.make_vec(name, num_worlds=3).unwrapped for _ in range(2)]
    plain, around = envs
    agents, rows = plain.num_agents, slice(plain.num_agents, 2 * plain.num_agents)
    for env in envs:
        env.reset(seed=1)
    plain.action_space.seed(1)
    taken, states = [], [snapshot(plain.sim, final=False)]
    for _ in range(30):
        taken.append(plain.sample_actions())
        plain.step(taken[-1])
        states.append(snapshot(plain.sim, final=False))
    held, own = torch.tensor([False, True, False]), 0
    for step, actions in enumerate(taken):
        chosen = actions.clone()
        chosen[rows] = taken[own][rows]
        if step % 3 == 1:
            step_around(around, chosen, held, lambda fault: None)
        else:
            around.step(chosen)
            own += 1
        now = snapshot(around.sim, final=False)
        for worlds, wanted in ((~held, states[step + 1]), (held, states[own])):
            one, two = of_worlds(now, worlds), of_worlds(wanted, worlds)
            differ = {each for each in one if not torch.equal(one[each], two[each])}
            if step % 3 == 1:  # what a step has returned
                differ = {each for each in differ if not each.endswith(("terminated", "truncated", "done", "Reward"))}
            assert not differ, (step, worlds.tolist())
    assert own == 20 and agents > 0


def test_chefs_of_humans_and_policies_cook_together() -> None:
    env = TorchVectorEnv(Overcooked(layout="cramped_room"), num_worlds=2)
    with running(env) as viewer:
        taken, page = spied(env), Page(viewer.url)
        page.send("policy", name="still")  # north
        page.send("human", world=1, agent=1, on=True)
        steps(page, viewer, 1)
        assert taken[-1].tolist() == [0, 0, 0, 4]  # stays
        page.send("press", world=1, agent=1, control=4, on=True)
        page.send("press", world=1, agent=1, control=2, on=True)
        steps(page, viewer, 3)
        names = [viewer.session.play.controls.each[i].label for i in (4, 2)]
        assert names == ["Use", "Left"]
        assert [actions[3].item() for actions in taken[1:]] == [5, 3, 3]  # a single use is not lost
        page.send("press", world=1, agent=1, control=2, on=False)
        page.send("press", world=1, agent=1, control=4, on=True)
        steps(page, viewer, 2)
        assert [actions[3].item() for actions in taken[4:]] == [5, 4]  # held, but used once


def test_parts_of_an_action_are_pressed_together() -> None:
    environment = HideSeek()
    controls = controls_of(environment, environment.action_space)
    named = {control.label: control for control in controls.each}
    ahead, left, grab = (named[name] for name in ("Ahead", "Turn left", "Grab or let go"))
    assert composed([], controls.idle, environment.action_space).tolist() == [5, 5, 5, 0, 0]
    assert composed([ahead, left, grab], controls.idle, environment.action_space).tolist() == [5, 10, 7, 1, 0]
    assert composed([ahead, named["Back"]], controls.idle, environment.action_space).tolist()[1] == 0


def test_hanabi_is_played_by_its_legal_moves() -> None:
    env = gymnasium.make_vec("torch_batchsim/Hanabi-v0", num_worlds=1, turns="all")
    with running(env.unwrapped, speed=None) as viewer:
        taken, page = spied(env.unwrapped), Page(viewer.url)
        labels = [control["label"] for control in page.hello["controls"]]
        assert labels[:2] == ["Discard card 0", "Discard card 1"] and labels[9:11] == ["Play card 4", "Hint red"]
        page.send("human", world=0, agent=1, on=True)
        moves = []
        for _ in range(3):
            frame = page.frame(lambda frame: frame.get("humans", [{}])[0].get("waits"))[0]
            legal = frame["humans"][0]["legal"]
            mask = env.unwrapped.action_mask[1].tolist()
            assert legal == mask[:-1] and not mask[-1] and len(labels) == 20
            if not all(legal):
                before = viewer.steps
                page.send("press", world=0, agent=1, control=legal.index(False), on=True)  # does nothing
                page.send("press", world=0, agent=1, control=legal.index(False), on=False)
                page.frame()
                assert viewer.steps == before
            moves.append(legal.index(True))
            page.send("press", world=0, agent=1, control=moves[-1], on=True)
            page.send("press", world=0, agent=1, control=moves[-1], on=False)
            stands = frame["step"]
            page.frame(lambda frame, stands=stands: frame["step"] > stands and frame["humans"][0]["waits"])
        own = [actions[1].item() for actions in taken[-8:]]
        assert [move for move in own if move != 20][-3:] == moves and 20 in own  # the no-op while the other one moves


def test_a_human_who_thinks_too_long_is_played_for() -> None:
    env = gymnasium.make_vec("torch_batchsim/Hanabi-v0", num_worlds=2, turns="all").unwrapped
    env.action_space.seed(1)
    now = [100.0]
    with Viewer(env, 0) as viewer:
        viewer.clock = lambda: now[0]  # type: ignore[method-assign]
        session = Session(viewer, {"random": lambda: lambda *_: env.sample_actions()}, 3, turn_seconds=5.0)
        page, play = Page(viewer.url), session.play
        assert page.hello["worlds"] == 2
        play._take(0, 0, True)
        for later, left in ((0.0, 5.0), (3.0, 2.0), (1.9, 0.1)):
            now[0] += later
            assert not play.ready(session.infos) and viewer.beside["humans"][0]["left"] == left
        now[0] += 0.2
        assert play.ready(session.infos) and "left" not in viewer.beside["humans"][0]
        mover = env.sim.tensor("Table.mover")
        session.step()
        assert mover.flatten().tolist() == [1, 1]  # the policy has moved
        assert play.ready(session.infos)  # the other player's turn
        session.step()
        assert not play.ready(session.infos) and viewer.beside["humans"][0]["left"] == 5.0  # anew


def test_time_does_not_run_while_a_run_is_paused() -> None:
    with running(TorchVectorEnv(CartPole(), 2)) as viewer:
        page = Page(viewer.url)
        page.frame()
        before, began = viewer.clock(), time.perf_counter()
        time.sleep(0.2)
        page.send("step", count=1)
        page.frame(lambda frame: frame["step"] == 1)
        page.send("step", count=1)
        page.frame(lambda frame: frame["step"] == 2)
        assert viewer._stood >= 0.2 and viewer.clock() - before <= time.perf_counter() - began - 0.2


def test_pictures_hide_what_a_human_does_not_see() -> None:
    class Cards(CartPole):
        def scene_for(self, world: Any, agents: Any) -> Any:
            scene = Scene(10, 10)
            scene.text((0, 0), f"seen by {list(agents)}", (0, 0, 0))
            return scene

    with running(TorchVectorEnv(Cards(), 3)) as viewer:
        page = Page(viewer.url)
        page.send("human", world=1, agent=0, on=True)
        frame = page.frame(lambda frame: "humans" in frame)[0]
        texts = {
            world: [page.styles[i][2] for i in page.layouts[layout] if page.styles[i][0] == "text"]
            for world, layout, *_ in frame["worlds"]
        }
        assert texts == {0: [], 1: ["seen by [0]"], 2: []}


class Plain(CartPole):
    """Without controls of its own."""

    controls, idle_action = (), None


@pytest.mark.parametrize(
    ("space", "labels", "keys"),
    [
        (Discrete(3), ["0", "1", "2"], ["0", "1", "2"]),
        (Discrete(11, start=2), [str(i) for i in range(2, 13)], [*map(str, range(10)), ""]),
        (MultiDiscrete([2, 3]), ["0: 0", "0: 1", "1: 0", "1: 1", "1: 2"], 5 * [""]),
        (Box(-1.0, 1.0, (2,)), [], []),
    ],
)
def test_other_environments_have_a_button_for_each_choice(space: Any, labels: list[str], keys: list[str]) -> None:
    each, idle = controls_of(Plain(), space)
    assert [control.label for control in each] == labels and [control.key for control in each] == keys and idle is None
    assert all(control.action == i + int(space.start) for i, control in enumerate(each) if isinstance(space, Discrete))


@pytest.mark.parametrize(
    ("controls", "idle", "message"),
    [
        ((Control("Up", 2),), None, r"Plain\.controls, 'Up' must be an action of Discrete\(2\), got 2"),
        ((Control("Up", {0: 1}),), None, r"must be an action of Discrete\(2\), got \{0: 1\}"),
        ((Control("A", 0, "a"), Control("B", 1, "a")), None, "has the key 'a' more than once"),
        ((), 5, r"Plain\.idle_action must be an action of Discrete\(2\), got 5"),
        ((), "again", r"Plain\.idle_action must be an action of Discrete\(2\), got 'again'"),
    ],
)
def test_controls_go_with_the_action_space(controls: Any, idle: Any, message: str) -> None:
    environment = Plain()
    environment.controls, environment.idle_action = controls, idle  # type: ignore[misc]
    with pytest.raises(SchemaError, match=message):
        controls_of(environment, environment.action_space)


IDS = torch_batchsim.environment_ids()


@pytest.mark.parametrize("name", IDS)
def test_all_environments_have_controls_of_their_space(name: str) -> None:
    if name == "atari":
        pytest.importorskip("ale_py")  # whose ROMs are read
    module, _, kind = gymnasium.spec(IDS[name]).kwargs["environment"].partition(":")
    environment = getattr(importlib.import_module(module), kind)()
    space = environment.action_space or torch_batchsim.make_vec(name, num_worlds=1).unwrapped.single_action_space
    each, _ = controls_of(environment, space)
    assert bool(each) == (not isinstance(space, Box) or name == "cartpolecontinuous")
