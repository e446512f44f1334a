"""Scratch: memory that systems use within a task graph, and that is no part of a world.

tests/torch_batchsim/resolve/test_executors.py runs the environment "forge" with its scratch spoiled before each step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import messages
import pytest
import torch
from environments.forge import Forge, Link  # noqa: F401
from gymnasium.spaces import Discrete
from support import assert_same_bits, declare, snapshot, spoil_scratch

from torch_batchsim import Archetype, Component, Reward, Simulator, TaskGraph, i32
from torch_batchsim.resolve.program import Program

WORLDS = 30
SCRATCH = {"Spark.Rank", "Bin.Load", "Chain.Link", "Total"}


def step(sims: list[Simulator], steps: int, spoiled: Simulator | None = None) -> None:
    """The same actions in all of them."""
    generator = torch.Generator().manual_seed(8)
    for _ in range(steps):
        actions = torch.randint(3, (WORLDS, 1), generator=generator)
        if spoiled is not None:
            spoil_scratch(spoiled)
        for sim in sims:
            sim.act_and_step(actions)


def begun(seed: int) -> Simulator:
    sim = Simulator(Forge(), WORLDS)
    sim.reset(seed=seed)
    return sim


def test_nothing_depends_on_what_scratch_held() -> None:
    plain, spoiled = begun(1), begun(1)
    step([plain, spoiled], 25, spoiled)
    assert_same_bits(snapshot(plain), snapshot(spoiled))
    assert plain.tensor("World.episode").float().mean() > 0.5
    assert plain.ragged("Chain.Link.rank").counts.sum() > 0  # rows can be looked at until the next step


def test_a_state_does_not_hold_it() -> None:
    sim, other = begun(1), begun(2)
    step([sim, other], 7)
    state = sim.state_dict()
    assert {"Total", "Bin", "Chain"}.isdisjoint(state["tables"]) and "Spark.Rank" not in state["tables"]["Spark"]
    assert not {f"column_{name.replace('.', '_')}" for name in SCRATCH} & state["tensors"].keys()
    assert {name for name, column in sim.program.columns.items() if column.scratch} == SCRATCH
    spoil_scratch(other)
    other.load_state_dict(state)
    assert other.ragged("Chain.Link").counts.sum() == 0
    step([sim, other], 15)
    assert_same_bits(snapshot(sim), snapshot(other))


def test_a_copied_world_has_none() -> None:
    sim = begun(1)
    step([sim], 7)
    counts = sim.ragged("Chain.Link").counts.clone()
    assert counts[:4].all()
    sim.tensor("Total.weight").copy_(torch.arange(WORLDS))
    sim.copy_worlds([0, 1], [2, 3])
    expected = torch.cat([counts[:2], torch.zeros(2, dtype=torch.int32), counts[4:]])
    assert torch.equal(sim.ragged("Chain.Link").counts, expected)
    assert torch.equal(sim.tensor("Total.weight"), torch.arange(WORLDS, dtype=torch.int32))
    for _ in range(10):
        sim.step()
    assert torch.equal(sim.tensor("Anvil.Metal.size")[0], sim.tensor("Anvil.Metal.size")[2])


def test_a_new_episode_does_not_zero_it() -> None:
    sim = begun(1)
    sim.tensor("Total.weight").fill_(7)
    sim.tensor("Bin.Load.weight").fill_(8)
    sim.reset()
    assert (sim.tensor("Total.weight") == 7).all() and (sim.tensor("Bin.Load.weight") == 8).all()


def test_rows_are_not_created_from_outside() -> None:
    with pytest.raises(ValueError, match="Chain is a scratch table, whose rows the next step drops"):
        begun(1).create("Chain", [0])


# ---- what is refused -----------------------------------------------------------------------------------------------


class Spot(Component):
    x: i32


class Move(Component):
    x: i32


class Sum(Component):
    x: i32


class Mark(Component):
    x: i32


class Name(Component):
    x: i32


class Seat(Component):
    x: i32


TEXT = """
TBS_SYSTEM void add(World &world, Sum &sum) { sum.x = 1; }
TBS_SYSTEM void use(World &world, Spot &spot, const Sum &sum) { spot.x += sum.x; }
TBS_SYSTEM void get(World &world, Spot &spot) { spot.x += world.get<const Sum>().x; }
TBS_SYSTEM void mark(World &world) { world.create<Notes>(Mark{1}); }
TBS_SYSTEM void read(World &world, Spot &spot) { spot.x += i32(world.count<Notes>()); }
TBS_SYSTEM void sit(World &world, Seat &seat) { seat.x = 1; }
TBS_SYSTEM void call(World &world, Name &name, const Seat &seat) { name.x = seat.x; }
TBS_SYSTEM void each(World &world, Mark &mark) { mark.x += 1; }
"""


NOT_READ = {"step": TaskGraph("add"), "observe": TaskGraph()}


def environment(folder: Path, **changes: Any) -> Program:
    agents = Archetype("Agent", Spot, Move, Reward, count=2)
    attributes = {
        "archetypes": [
            agents,
            Archetype("Notes", Mark, capacity=4, scratch=True),
            Archetype("Guest", Name, Seat, capacity=4),
        ],
        "singletons": [Sum],
        "scratch": [Sum, Seat],
        "step": TaskGraph("mark", "each", "read", "add", "use", "get", "sit", "call"),
        "observe": TaskGraph("add", "use"),
        "observation": "Agent.Spot",
        "action": "Agent.Move",
        "action_space": Discrete(2),
    }
    return Program(declare(TEXT, folder, **(attributes | changes))())


def test_what_is_written_first_may_be_read(tmp_path: Path) -> None:
    environment(tmp_path)


def test_refused_scratch(tmp_path: Path) -> None:
    messages.refused("scratch", lambda line: environment(tmp_path, **eval(f"dict({line})")))
    messages.refused("scratch archetypes", lambda line: eval(f"Archetype('Notes', Mark, {line})"))
