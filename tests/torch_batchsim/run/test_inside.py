"""One system at a time: a step in parts is a step, and the changes of each system are reported."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import messages
import pytest
import torch
from environments.hall import Hall
from gymnasium.spaces import Discrete
from libraries.pushes import Pushes
from support import (
    ENVIRONMENTS,
    assert_same_bits,
    declare,
    emulated_simulator,
    full_but,
    snapshot,
)

from torch_batchsim import (
    Archetype,
    Component,
    Repeat,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    f32,
    i32,
    u8,
    vec2,
)
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program
from torch_batchsim.run import inspection
from torch_batchsim.testing import random_actions

SPARKS = """
TBS_SYSTEM void light(World &world, Place &place) {
    Random &random = world.random();
    place.at = vec2{random.uniform(), 0.0f};
}
TBS_SYSTEM void push(World &world, Place &place, const Move &move) {
    Random &random = world.random();
    place.at.x += random.uniform() * 0.1f + 0.1f * f32(move.to);
    place.marks[world.step() % 6] += u8(1);
}
TBS_SYSTEM void emit(World &world) {
    Random &random = world.random();
    world.create<Spark>(Ember{random.integer(1, 3), i32(world.repetition())});
}
TBS_SYSTEM void burn(World &world, Ember &ember, Entity self) {
    if (--ember.heat <= 0) world.destroy<Spark>(self);
}
TBS_SYSTEM void judge(World &world, const Place &place, Reward &reward, Episode &episode) {
    reward.value += 1.0f;
    episode.terminated = place.at.x > 2.0f;
    if (place.at.x > 100.0f) world.fail(Fault::lost, i32(place.at.x));
}
TBS_SYSTEM void look(World &world, const Place &place, View &view) { view.x = place.at.x; }
"""


class Place(Component):
    at: vec2
    marks: u8[6]


class Move(Component):
    to: i32


class View(Component):
    x: f32


class Ember(Component):
    heat: i32
    born: i32


SPARKS_DECLARATION = {
    "archetypes": [Archetype("Game", Place, Move, View, Reward, count=1), Archetype("Spark", Ember, capacity=64)],
    "start": TaskGraph("light"),
    "step": TaskGraph("push", Repeat(3, "emit", "burn"), "judge", "push"),
    "observe": TaskGraph("look"),
    "observation": "Game.View",
    "action": "Game.Move.to",
    "action_space": Discrete(3),
    "faults": ("lost",),
}


def sparks(worlds: int = 5, **arguments: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(declare(SPARKS, **SPARKS_DECLARATION)(), worlds, **arguments)
    env.reset(seed=3)
    return env


def whole_and_in_parts(whole: TorchVectorEnv, parts: TorchVectorEnv, steps: int, mode: str) -> None:
    """Steps both alike, one by systems one after the other, with masks of worlds, and compares them to the bit."""
    worlds = whole.num_worlds
    for number, actions in enumerate(random_actions(whole, steps)):
        whole.step(actions)
        with parts.sim.inside_step(actions) as step:
            if number % 3 == 0:
                for _ in step:
                    pass
            elif number % 3 == 1:
                for system in step.left:  # the first world, then the others
                    parts.sim.run(system.system, worlds=0)
                    parts.sim.run(system.system, worlds=torch.arange(worlds) > 0)
            else:
                parts.sim.run([system.system for system in step.left][:2])
        assert_same_bits(snapshot(whole.sim), snapshot(parts.sim), f"step {number}: ")
        if mode == "Disabled" and bool(whole.ended_worlds().any()):
            for env in (whole, parts):
                env.reset(options={"reset_mask": env.ended_worlds()})


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_a_step_in_parts_is_a_step(mode: str) -> None:
    """Random numbers, a Repeat, rows that come and go, episodes that end, both turns of the outputs, two threads."""
    whole = sparks(autoreset_mode=mode)
    parts = sparks(autoreset_mode=mode, num_threads=2)
    whole_and_in_parts(whole, parts, 30, mode)


@pytest.mark.crossed
@pytest.mark.full
@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.parametrize("name", full_but([], [name for name in ENVIRONMENTS if name != "hideseek"]))
def test_a_step_in_parts_is_a_step_in_all_environments(name: str, mode: str) -> None:
    whole, parts = (TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=7, autoreset_mode=mode) for _ in range(2))
    for env in (whole, parts):
        env.reset(seed=1)
    whole_and_in_parts(whole, parts, 12, mode)


@pytest.mark.crossed
@pytest.mark.full
@pytest.mark.parametrize("name", ["cartpole", "zoo", "forge", "melee"])
@pytest.mark.parametrize("executor", ["graph", "per_world"])
def test_a_step_in_parts_on_an_emulated_device(name: str, executor: str) -> None:
    sims = [emulated_simulator(name, 5, executor) for _ in range(2)]
    for sim in sims:
        sim.reset(seed=1)
    for number in range(8):
        sims[0].step()
        with sims[1].inside_step() as step:
            for run in step.left[: number % 3]:
                sims[1].run(run.system)
        assert_same_bits(snapshot(sims[0]), snapshot(sims[1]), f"step {number}: ")


def test_one_system_for_some_worlds() -> None:
    sim = sparks().sim
    sim.mark()
    assert [str(run) for run in sim.run("push", worlds=torch.tensor([False, True, False, True, False]))] == ["push"]
    assert [len(sim.diff(world)) > 0 for world in range(5)] == [False, True, False, True, False]
    (at, mark) = sim.diff(1)
    assert (at.name, at.row, at.old[1], at.new[1]) == ("Game.Place.at", 0, 0.0, 0.0)
    assert at.old[0] < at.new[0]
    assert (mark.place, mark.old, mark.new, str(mark)) == ("Game.Place.marks[0] (0)", 0, 1, "0 -> 1")
    assert not any(change.name.startswith("World") for change in sim.diff(1))

    sim.mark()
    sim.run(Repeat(3, "emit"), worlds=[2])
    created = sim.diff(2)
    assert [(c.kind, c.name, c.row, c.new["Ember.born"]) for c in created] == [
        ("created", "Spark", row, row) for row in range(3)
    ]
    assert "Spark[0]  created: Ember.heat " in str(created) and str(created).startswith("world 2: 3 changes\n")
    sim.run("emit", worlds=2, repetition=2)
    assert sim.ragged("Spark.Ember.born").world(2).tolist() == [0, 1, 2, 2]

    old = sim.mark()
    for _ in range(3):
        sim.run("burn")
    assert {(c.kind, c.row) for c in sim.diff(2, since=old) if c.kind != "changed"} == {
        ("destroyed", row) for row in range(4)
    }
    assert len(sim.ragged("Spark.Ember.heat").world(2)) == 0


def test_a_system_draws_in_each_run_as_in_a_step() -> None:
    """The first 'push' of a graph and the second draw different numbers, those that a step draws."""
    one, again, step = sparks().sim, sparks().sim, sparks().sim
    one.run("push", repetition=0)
    again.run("push", repetition=1)
    assert not torch.equal(one.tensor("Game.Place.at"), again.tensor("Game.Place.at"))
    for sim in (one, again):
        with sim.inside_step():
            sim.run("push")
            sim.run("push")
    step.step()
    before = sparks().sim.tensor("Game.Place.at")
    gained = step.tensor("Game.Place.at") - before
    for sim, number in ((one, 0), (again, 1)):
        other = sparks().sim
        other.run("push", repetition=number)
        torch.testing.assert_close(sim.tensor("Game.Place.at") - other.tensor("Game.Place.at"), gained)


def test_observe_shows_what_was_written() -> None:
    env = sparks()
    observations = env.step(torch.zeros(5, dtype=torch.long))[0]
    env.sim.tensor("Game.Place.at")[:, :, 0] = 0.25
    env.sim.observe(worlds=[1, 2])
    assert (observations == 0.25).tolist() == [False, True, True, False, False]
    env.sim.observe()
    assert bool((observations == 0.25).all())


def test_the_trace_of_a_world() -> None:
    env, other = sparks(), sparks()
    out = io.StringIO()
    changes = env.sim.trace_world(3, [1, 1, 1, 2, 1], file=out)
    other.step(torch.tensor([1, 1, 1, 2, 1]))
    assert_same_bits(snapshot(other.sim), snapshot(env.sim))
    assert list(changes) == [
        "(begin of the step)", "push", "emit", "burn", "emit[1]", "burn[1]", "emit[2]", "burn[2]", "judge", "push[1]",
        "observe: look",
    ]  # fmt: skip
    assert [(c.name, c.new) for c in changes["judge"]] == [("Game.Reward.value", 1.0)]
    assert [c.name for c in changes["observe: look"]] == ["Game.View.x"]
    text = out.getvalue()
    assert text.startswith("world 3, step 1:\n  (begin of the step)   World.step       0 -> 1\n")
    assert "Spark[0]  created: Ember.heat" in text

    env.sim.tensor("Game.Place.at")[3, :, 0] = 99.95
    with pytest.raises(WorldFault, match="lost") as caught:
        env.sim.trace_world(3, [2] * 5, file=(out := io.StringIO()))
    assert caught.value.mask.tolist() == [False, False, False, True, False]
    assert "start: light" in out.getvalue()  # the world has ended, and goes on with its next episode
    env.step(torch.zeros(5, dtype=torch.long))


@pytest.mark.full
def test_the_trace_of_a_world_says_which_rows_are_agents() -> None:
    env = TorchVectorEnv(ENVIRONMENTS["duel"](), num_worlds=2)
    env.reset(seed=0)
    out = io.StringIO()
    env.sim.trace_world(1, torch.zeros(4, 2, dtype=torch.int64), file=out)
    assert out.getvalue().startswith("world 1, step 1 (Fighter[i]: agent i):\n")
    assert "Fighter.Place.strength[1]" in out.getvalue()


def test_faults_of_one_system() -> None:
    sim = sparks().sim
    sim.tensor("Game.Place.at")[2, :, 0] = 200
    with pytest.raises(WorldFault, match="world 2: system 'judge' failed at row 0: lost") as caught:
        sim.run("judge")
    assert caught.value.mask.tolist() == [False, False, True, False, False]
    sim.run("judge", worlds=[0, 1, 3, 4])
    with pytest.raises(WorldFault, match="lost"), sim.inside_step():
        sim.run("judge")
        sim.run("push", worlds=2)
    sim.step()


@pytest.mark.full
def test_in_a_checked_build() -> None:
    wrong = SPARKS.replace("world.step() % 6", "place.at.y > 5.0f ? 9 : world.step() % 6")
    declared = declare(wrong, **SPARKS_DECLARATION)
    whole, parts = (TorchVectorEnv(declared(), 5, checks=True) for _ in range(2))
    for env in (whole, parts):
        env.reset(seed=1)
    whole_and_in_parts(whole, parts, 9, "SameStep")
    parts.sim.tensor("Game.Place.at")[3, :, 1] = 9.0
    for call in (lambda: parts.sim.run("push"), lambda: parts.sim.trace_world(2, file=io.StringIO())):
        with pytest.raises(WorldFault, match=r"systems.h:\d+: place.marks\[9\] of u8\[6\].*world 3, row 0.*'push'"):
            call()


@pytest.mark.full
def test_a_fragment_of_a_library() -> None:
    whole, parts = (Simulator(Hall(), 3) for _ in range(2))
    for sim in (whole, parts):
        sim.reset(seed=0)
        for _ in range(5):
            sim.step()
    ran = whole.run(Pushes.advance, graph="step")
    assert [run.system for run in ran] == [run.system for run in whole._inspection.inside.runs["step"][2:-3]]
    parts.run([run.system for run in ran])
    assert_same_bits(snapshot(parts), snapshot(whole))


def test_a_capture_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = sparks().sim
    monkeypatch.setattr(inspection, "is_capturing", lambda device: True)
    with pytest.raises(RuntimeError, match=r"run\(\) cannot be captured in a CUDA graph"):
        sim.run("push")
    with pytest.raises(RuntimeError, match=r"inside_step\(\) cannot be captured"), sim.inside_step():
        pass


def test_what_is_refused() -> None:
    unstarted = Simulator(declare(SPARKS, **SPARKS_DECLARATION)(), 2)
    with pytest.raises(RuntimeError, match=r"call reset\(\) before run\(\)"):
        unstarted.run("push")
    sim = sparks().sim
    before = snapshot(sim)
    messages.refused("one system at a time", lambda line: eval(line, globals(), {"sim": sim}))
    assert_same_bits(before, snapshot(sim))
    with sim.inside_step() as step:
        for call in (sim.step, sim.reset, sim.state_dict):
            with pytest.raises(RuntimeError, match="a step is under way"):
                call()
        with pytest.raises(RuntimeError, match="a step is under way"), sim.inside_step():
            pass
        with pytest.raises(ValueError, match="systems of 'step' only"):
            sim.run("light", graph="start")
        for _ in step:
            pass
        with pytest.raises(ValueError, match="and has done so: give repetition=0"):
            sim.run("push")
        sim.run("push", repetition=0)
    sim.step()


def test_a_large_array_is_shown_in_part() -> None:
    sim = sparks().sim
    sim.mark()
    sim.tensor("Game.Place.marks")[0] = 7
    assert [c.index for c in sim.diff()] == [(i,) for i in range(6)]
    assert str(sim.diff()).splitlines()[1] == "  Game.Place.marks[0] (0)  0 -> 7"


def test_other_units_have_nothing_of_it() -> None:
    program = Program(declare(SPARKS, **SPARKS_DECLARATION)())
    for target in (Target(), Target("cuda")):
        text = generate(program, target)
        assert "inside" not in text and "run_node" not in text


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "debugging.md").read_text()
    parts = re.findall(r"```python title=inside.py\n(.*?)```", page, re.DOTALL)
    shown = page.partition("```\nworld 3, step 1:\n")[2].partition("```")[0]
    exec(compile("".join(parts), "inside.py", "exec"), {})
    assert capsys.readouterr().out.startswith(f"world 3, step 1:\n{shown}")
