"""Repeat: systems that run several times a step, as a loop.

tests/torch_batchsim/resolve/test_executors.py shows that all executors give the same bits (environment "forge").
"""

from __future__ import annotations

from pathlib import Path

import messages
import numpy as np
import pytest
import torch
from environments.forge import Forge
from gymnasium.spaces import Discrete
from support import assert_same_bits, declare, emulated_simulator, snapshot

from torch_batchsim import Archetype, Component, Repeat, Reward, SchemaError, Simulator, TaskGraph, WorldFault, f32, i32
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.graph import Graph
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import Group, check_plan, finest_plan, fused, possible_cuts, step_tasks
from torch_batchsim.run.tuning import choose_groups


class Choice(Component):
    number: i32


class Drawn(Component):
    times: i32
    numbers: f32[4]


DRAWS = """
TBS_SYSTEM void draw(World &world, Drawn &drawn) {
    drawn.numbers[world.repetition()] = world.random().uniform();
    drawn.times += 1;
}
TBS_SYSTEM void fail_at_last(World &world, const Drawn &drawn) {
    if (drawn.times == 4) world.fail(Fault::nan, i32(world.repetition()));
}
"""


def drawing(folder: Path, *items: str | Repeat) -> Simulator:
    environment = declare(
        DRAWS,
        folder,
        archetypes=(Archetype("One", Choice, Drawn, Reward, count=2),),
        step=TaskGraph(*items),
        observation="One.Choice",
        action="One.Choice",
        action_space=Discrete(2),
    )
    sim = Simulator(environment(), 5)
    sim.reset(seed=3)
    return sim


def play(environment: Forge, worlds: int = 40, steps: int = 30, **kwargs: object) -> Simulator:
    sim = Simulator(environment, worlds, **kwargs)
    sim.reset(seed=2)
    generator = torch.Generator().manual_seed(4)
    for _ in range(steps):
        sim.act_and_step(torch.randint(3, (worlds, 1), generator=generator))
    return sim


def test_a_loop_is_the_systems_written_out() -> None:
    """In start, step and observe, nested, with rows that come and go, lanes and settling within."""
    loop, written = (play(Forge(noise=False, written_out=out)) for out in (False, True))
    assert len(step_tasks(written.program)) > 2 * len(step_tasks(loop.program))
    assert_same_bits(snapshot(loop), snapshot(written))
    assert loop.tensor("World.episode").float().mean() > 1


@pytest.mark.full
def test_each_repetition_has_its_own_random_numbers(tmp_path: Path) -> None:
    four, one, plain = (tmp_path / name for name in ("four", "one", "plain"))
    for folder in (four, one, plain):
        folder.mkdir()
    sims = [drawing(four, Repeat(2, Repeat(2, "draw"))), drawing(one, Repeat(1, "draw")), drawing(plain, "draw")]
    for _ in range(3):
        for sim in sims:
            sim.step()
        repeated, once, never = (sim.tensor("One.Drawn.numbers").clone() for sim in sims)
        assert (repeated != 0).all() and len(repeated.unique()) == repeated.numel()
        assert torch.equal(repeated[..., 0], never[..., 0]) and torch.equal(once, never)
    assert sims[0].tensor("One.Drawn.times").unique().tolist() == [12]


@pytest.mark.full
def test_a_fault_names_the_system(tmp_path: Path) -> None:
    sim = drawing(tmp_path, Repeat(4, "draw", "fail_at_last"))
    with pytest.raises(WorldFault) as raised:
        sim.step()
        sim.check_faults()
    fault = raised.value.faults[0]
    assert (fault.system, fault.cause, fault.value) == ("fail_at_last", "nan", 3)


@pytest.mark.full
def test_a_loop_is_as_large_as_it_is_long(tmp_path: Path) -> None:
    sizes = [Simulator(Forge(times=times), 1).execution.library.path.stat().st_size for times in (2, 64)]
    assert abs(sizes[1] - sizes[0]) < 0.01 * sizes[0] + 4096  # a section begins at a page
    few, many = (generate(Program(Forge(times=n)), Target("cuda", "megakernel")).count("Run<") for n in (2, 64))
    assert few == many


def test_kernels_hold_loops_as_a_whole() -> None:
    program = Program(Forge())
    tasks = step_tasks(program)
    in_loops = [task.number for task in tasks if task.node.loops]
    places = possible_cuts(tasks)
    assert all(tasks[i].node.loops[:1] != tasks[i - 1].node.loops[:1] for i in places[1:-1] if tasks[i].node.loops)
    check_plan(program, finest_plan(tasks))
    with pytest.raises(ValueError, match=r"must not cut a Repeat: task \d+, 'settle Spark', must be in the group of"):
        cut = next(i for i in in_loops if tasks[i].node.name == "settle Spark" and i not in places)
        check_plan(program, (Group(0, cut), Group(cut, len(tasks))))
    for run in fused(tasks):
        assert len({task.node.loops for task in run}) == 1
    times = np.random.default_rng(0).random((2, len(tasks))).tolist()
    plan, _ = choose_groups({1: times[0], 8: times[1]}, 0.1, places)
    check_plan(program, plan)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["cpu batch", "cpu per_world", "cuda megakernel"])
def test_a_trace_has_a_record_for_each_repetition(kind: str, tmp_path: Path) -> None:
    device, executor = kind.split()
    if device == "cuda":
        sim = emulated_simulator("forge", 8, executor)
    else:
        sim = Simulator(Forge(), 8, executor=executor, num_threads=1)
    sim.reset(seed=0)
    with sim.tracing() as trace:
        sim.step()
    tiles = 8 if executor == "per_world" else -(-8 // sim.execution.choice().tile)
    records = np.bincount(trace.records["task"], minlength=len(trace.tasks)) // tiles
    counted = {(task.segment, task.node.name): records[task.number] for task in step_tasks(sim.program)}
    step = {name: count for (segment, name), count in counted.items() if segment == "step"}
    assert (step["strike"], step["glow"], step["note"], step["gather"], step["settle Ash"]) == (1, 3, 3, 6, 6)
    assert counted["observe", "clear"] == 1 and counted["observe", "look"] == 2


def test_the_graph_shows_repeats(tmp_path: Path) -> None:
    graph = Graph(Program(Forge()))
    text = str(graph)
    assert "step     3 times:\nstep       glow over Spark\n" in text
    assert "step       2 times:\nstep         split over Spark\n" in text
    assert "step       note over each world\n" in text and "step     judge over Smith\n" in text
    graph.draw(tmp_path / "graph.svg")
    drawing = (tmp_path / "graph.svg").read_text()
    assert drawing.count("stroke-dasharray") == 4
    assert drawing.count(">2 times<") == 3 and drawing.count(">3 times<") == 1


def test_refused_repeats() -> None:
    messages.refused("repeats", lambda line: eval(line))


def test_a_misspelt_system_in_a_repeat(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"names system 'drew', which systems.h does not define"):
        drawing(tmp_path, Repeat(2, "draw", "drew"))
