"""Sentences that a declaration gives to its faults: they name archetype, row and field on every executor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare, full_but

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Environment,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    WorldFault,
    f32,
    i32,
    vec3,
)
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program


class Push(Component):
    side: i32


class Speed(Component):
    along: f32
    turn: f32
    at: vec3


class Clock(Component):
    time: i32


TEXT = """
TBS_SYSTEM void begin(World &world) {
    for (u32 i = 0; i < 3; ++i) world.create<Egg>(Speed{1.0f, 0.0f, {}});
}
TBS_SYSTEM void each(World &world, const Push &push, const Speed &speed) {
    if (speed.along < 0.0f) world.fail(Fault::backwards, push.side);
}
TBS_SYSTEM void all(World &world, Warp &warp) {
    world.tables<const Speed>([&](auto table, auto speeds) {
        warp.for_each(table.count, [&](u32 i) {
            if (speeds[i].along > 9.0f) world.fail(Fault::too_fast, table.place(i));
            if (speeds[i].turn > 9.0f) world.fail(Fault::too_fast, table.place(i, 1));
        });
    });
}
TBS_SYSTEM void tick(World &world, Clock &clock) {
    clock.time += 1;
    if (clock.time > 3) world.fail(Fault::late, clock.time);
}
"""
FAULTS = {
    "backwards": "{row}.Speed.along is below 0 (m/s), {Speed.along} with side {Push.side} and at {Speed.at}",
    "too_fast": ("{row}.Speed.along is above {most} m/s: {Speed.along}", "{row}.Speed.turn is above {most} rad/s"),
    "late": "the time is {value}, with {most} allowed",
}


def environment(**attributes: Any) -> type[Environment]:
    given = {
        "archetypes": (Archetype("Runner", Push, Speed, Reward, count=2), Archetype("Egg", Speed, capacity=8)),
        "singletons": (Clock,),
        "constants": Constants(most=9),
        "start": TaskGraph("begin"),
        "step": TaskGraph("each", "all", "tick"),
        "observation": "Runner.Speed",
        "action": "Runner.Push",
        "action_space": Discrete(2),
        "faults": FAULTS,
        **attributes,
    }
    return declare(TEXT, **given)


EXECUTORS = full_but(["batch"], ["batch", "per_world", "graph", "megakernel"])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_sentence_names_archetype_row_and_field(executor: str) -> None:
    made = environment()()
    if executor in ("batch", "per_world"):
        sim = Simulator(made, 3, executor=executor)
    else:
        sim = Simulator(made, 3, _library=emulation.load(Program(environment()()), executor))

    def fault() -> Any:
        with pytest.raises(WorldFault) as raised:
            sim.step()
            sim.check_faults()
        assert len(raised.value.faults) == 1
        return raised.value.faults[0]

    def reset() -> None:
        sim.reset(seed=0)

    reset()
    sim.Runner.Speed.along[1, 1], sim.Runner.Speed.at[1, 1] = -1.25, torch.tensor([1.0, 0.5, float("nan")])
    found = fault()
    says = "Runner[1].Speed.along is below 0 (m/s), -1.25 with side 0 and at (1, 0.5, nan) (backwards)"
    assert f"world 1: system 'each' failed: {says}" in str(found) and (found.table, found.value) == ("Runner", 0)
    reset()
    sim.Runner.Speed.turn[2, 1] = 10.0
    found = fault()
    assert "world 2: system 'all' failed: Runner[1].Speed.turn is above 9 rad/s (too_fast)" in str(found)
    reset()
    sim.Runner.Speed.turn[2, 1] = 10.0  # of several the least is reported, on every executor: dynamic tables come first
    sim.ragged("Egg.Speed.along").world(2)[1:] = torch.tensor([10.0, 11.0])
    found = fault()
    assert "world 2: system 'all' failed: Egg[1].Speed.along is above 9 m/s: 10 (too_fast)" in str(found)
    assert (found.table, found.value, found.row) == ("Egg", 1, 0)
    reset()
    sim.Clock.time[0] = 3
    found = fault()
    assert "world 0: system 'tick' failed: the time is 4, with 9 allowed (late)" in str(found)
    assert (found.table, found.value) == (None, 4)


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ({"late": "it is {tme}"}, r"faults: 'late' names \{tme\} in 'it is \{tme\}'; it may name row, value, most"),
        ({"late": "{Speed.alog}"}, r"\(did you mean 'Speed.along'\?\); it may name .*, and \{Component.field\}"),
        ({"late": "{Clock.time}"}, r"names \{Clock.time\}"),  # a singleton is in no row
        ({"late": "it is {value"}, r"faults: 'late': .* in 'it is \{value'"),
        ({"late": "it is {value:q}"}, r"faults: 'late': .* in 'it is \{value:q\}'"),
        ({"late": ()}, r"faults: 'late' needs a sentence, or 1 to 32 of them, got \(\)"),
        ({"late": 3}, r"faults: 'late' needs a sentence, or 1 to 32 of them, got 3"),
        ({"late": ("a", 3)}, r"faults: 'late' needs a sentence, or 1 to 32 of them, got \('a', 3\)"),
        ("late", r"faults must be a list or tuple, got 'late'"),
        ({"nan": "none"}, r"'nan' is a fault of the engine's own"),
    ],
)
def test_sentences_that_are_rejected(faults: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        Program(environment(faults=faults)())
