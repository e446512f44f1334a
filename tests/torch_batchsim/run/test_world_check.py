"""world.check: a condition that fails is a fault with its place in the text."""

from __future__ import annotations

import pytest
from gymnasium.spaces import Discrete
from support import assert_same_bits, declare, of_worlds, snapshot

from torch_batchsim import (
    Archetype,
    BuildError,
    Component,
    Environment,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    WorldFault,
    f32,
    i32,
)
from torch_batchsim.build import emulation
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program

TEXT = """
// of a function that systems share
TBS_FUNCTION void bounded(const World &world, f32 x) {
    world.check(x < 10.0f, x);
}
TBS_SYSTEM void move(World &world, Place &place, const Move &move, Row row) {
    place.x += f32(move.to);
    bounded(world, place.x);
    if (!world.check(clamp(place.x, 0.0f, 5.0f) == place.x,
                     "left the, floor", place.x)) return;
    place.steps += 1; world.check(place.steps != 100);
    world.check(row.index < 2u, "third row", -7);
}
"""
LINE = {"bounded": 4, "floor": 9, "steps": 11, "row": 12}


class Place(Component):
    x: f32
    steps: i32


class Move(Component):
    to: i32


class Seen(Component):
    x: f32


DECLARATION = {
    "archetypes": [Archetype("Walker", Place, Move, Seen, Reward, count=2)],
    "step": TaskGraph("move"),
    "start": TaskGraph(),
    "observe": TaskGraph(),
    "observation": "Walker.Seen",
    "action": "Walker.Move.to",
    "action_space": Discrete(3),
    "faults": ("own",),
}


def walk() -> Environment:
    return declare(TEXT, **DECLARATION)()


def check_all(sim: Simulator, other: Simulator) -> None:
    """Each check, in world 2 of ``sim``; ``other`` goes on without."""
    for one in (sim, other):
        one.reset(seed=0)
        one.step()
    for x, steps, line, text in (
        (12.5, 0, LINE["bounded"], "check failed: `x < 10.0f`, `x` is 12.5"),
        (-0.5, 0, LINE["floor"],
         "check failed: `clamp(place.x, 0.0f, 5.0f) == place.x`: left the, floor, `place.x` is -0.5"),
        (1.0, 99, LINE["steps"], "check failed: `place.steps != 100`"),
    ):  # fmt: skip
        sim.tensor("Walker.Place.x")[2, 1] = x
        sim.tensor("Walker.Place.steps")[2, 1] = steps
        with pytest.raises(WorldFault) as caught:
            sim.step()
            sim.check_faults()
        other.step()
        (fault,) = caught.value.faults
        step = int(other.tensor("World.step")[2])
        assert str(fault) == f"systems.h:{line}: {text} (world 2, row 1, step {step}, system 'move')"
        assert (fault.cause, fault.finding.line, fault.finding.step) == ("check", line, step)
        assert caught.value.mask.tolist() == [False, False, True]
        others = ~caught.value.mask
        assert_same_bits(of_worlds(snapshot(other), others), of_worlds(snapshot(sim), others))
        sim.reset(caught.value.mask)
        other.reset(caught.value.mask)


def test_a_check_that_fails_is_a_fault_with_its_place() -> None:
    check_all(Simulator(walk(), 3), Simulator(walk(), 3))


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "megakernel", "per_world"])
def test_on_an_emulated_device(executor: str) -> None:
    library = emulation.load(Program(walk()), executor)
    check_all(*(Simulator(walk(), 3, _library=library) for _ in range(2)))


@pytest.mark.full
def test_in_a_checked_build_and_by_run() -> None:
    check_all(Simulator(walk(), 3, checks=True), Simulator(walk(), 3))
    sim = Simulator(walk(), 3)
    sim.reset(seed=0)
    sim.tensor("Walker.Place.x")[1] = 20
    with pytest.raises(WorldFault, match=r"systems.h:4: check failed: `x < 10.0f`, `x` is 20 \(world 1, row 0, step 0"):
        sim.run("move", worlds=1)


def test_what_the_reader_finds() -> None:
    sites = Program(walk()).check_sites
    assert [site.line for site in sites] == list(LINE.values())
    assert [site.last_line - site.line for site in sites] == [0, 1, 0, 0]
    assert (sites[3].condition, sites[3].message, sites[3].value) == ("row.index < 2u", "third row", "-7")
    without = TEXT.replace("world.check", "bool").replace("bool(place.steps", "(void)(place.steps")
    text = generate(Program(declare(without, **DECLARATION)()), Target())
    assert "check_code" not in text and "check_steps" not in text


@pytest.mark.full
def test_what_is_refused() -> None:
    head = "TBS_SYSTEM void move(World &world, Place &place) {"
    in_macro = f"#define MUST(condition) world.check(condition)\n{head} MUST(place.x < 1.0f); }}"
    with pytest.raises(BuildError, match="called in a macro"):
        Simulator(declare(in_macro, **DECLARATION)(), 1)
    many = head + "\n world.check(place.x < 1.0f);" * 140 + "}"
    with pytest.raises(SchemaError, match=r"calls world.check at 140 places; with so many faults at most 1\d\d are"):
        Simulator(declare(many, **DECLARATION)(), 1)
