"""What systems read and write, in signature and body, and the picture of it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import messages
import pytest
from environments.duel import Duel
from environments.forge import Forge
from gymnasium.spaces import Discrete
from support import declare
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.swarm import Swarm

from torch_batchsim import Archetype, Component, Environment, Reward, SchemaError, Simulator, TaskGraph, f32, i32
from torch_batchsim.resolve.graph import Graph
from torch_batchsim.resolve.program import Program


class Spot(Component):
    x: f32


class Step(Component):
    towards: i32


class Clock(Component):
    ticks: i32


def walk(body: str, folder: Path, signature: str = "Spot &spot, const Step &step", count: int = 2) -> type[Environment]:
    return declare(
        f"TBS_SYSTEM void walk(World &world, {signature}) {{\n{body}\n}}\n",
        folder,
        archetypes=(Archetype("Walker", Spot, Step, Reward, count=count), Archetype("Tree", Spot, count=3)),
        singletons=(Clock,),
        step=TaskGraph("walk"),
        observation="Walker.Spot",
        action="Walker.Step",
        action_space=Discrete(2),
    )


def test_cartpole_reads_and_writes() -> None:
    start, push, judge = Graph(Program(CartPole())).nodes
    assert (start.graph, start.system, start.writes) == ("start", "start_episode", ("Cart.CartState",))
    assert (push.table, push.reads, push.writes) == ("Cart", ("Cart.Push",), ("Cart.CartState",))
    assert (judge.reads, judge.writes) == (("Cart.CartState",), ("Cart.Reward", "Episode"))


def test_bodies_count() -> None:
    nodes = {(n.system, n.table): n for n in Graph(Program(Duel())).nodes}
    assert nodes["strike", "Fighter"].reads == ("Fighter.Choice", "Fighter.Place")
    assert nodes["look_around", "Fighter"].reads == ("Fighter.Place", "Stone.Place")
    assert nodes["look", "Fighter"].reads == ("Fighter.Place", "Weather")


def test_dependencies_are_those_of_reads_and_writes() -> None:
    graph = Graph(Program(Duel()))
    names = [f"{n.system} {n.table}" for n in graph.nodes]
    pairs = {(names[a], names[b]) for a, b in graph.dependencies()}
    assert ("blow None", "move Fighter") in pairs  # Weather: written, read
    assert ("move Fighter", "strike Fighter") in pairs  # Place: written, read
    assert ("blow None", "finish None") in pairs
    assert ("strike Fighter", "finish None") not in pairs  # nothing in common
    assert not any(a.startswith("enter") and not b.startswith("enter") for a, b in pairs)  # another graph


def test_rows_that_run_at_once_do_not_meet(tmp_path: Path) -> None:
    def declared(body: str) -> None:
        environment = walk(body, tmp_path)()
        environment.archetypes = environment.archetypes[:1]  # so that only walkers match
        Program(environment)

    messages.refused("what rows reach", declared)


def test_a_reach_is_reported_with_the_place_of_its_call(tmp_path: Path) -> None:
    """In a function that the system calls too, and in a macro."""
    helper = "TBS_FUNCTION f32 first(World &world) {\n    return world.rows<Tree, const Step>()[0].towards;\n}\n"
    macro = "#define FIRST \\\n    world.rows<Tree, const Step>()[0].towards\n"
    for front, call, line, name in ((helper, "first(world)", 2, "first"), (macro, "FIRST", 1, "FIRST")):
        text = f"{front}TBS_SYSTEM void walk(World &world, Spot &spot, const Step &step) {{\n spot.x = {call};\n}}\n"
        system = front.count("\n") + 1
        environment = walk("", tmp_path)()
        Path(environment.systems).write_text(text)
        says = (
            f"systems.h:{line}: system 'walk' (systems.h:{system}, through '{name}') asks for rows<Tree, const Step>, "
            "which does not exist: Tree has no Step, only Spot; Walker has it: write rows<Walker, const Step>"
        )
        with pytest.raises(SchemaError) as raised:
            Program(environment)
        assert str(raised.value) == says


def test_what_is_allowed(tmp_path: Path) -> None:
    once = "for (Spot &spot : world.rows<Walker, Spot>()) spot.x += 1.0f;\nworld.get<Clock>().ticks += 1;"
    reading = "// world.rows<Walker, Spot>() in a comment\nspot.x = world.rows<Tree, const Spot>()[2].x;"
    alone = "spot.x = f32(world.get<Clock>().ticks++) + world.rows<Walker, Spot>()[0].x;"
    Program(walk(once, tmp_path, "Clock &clock")())
    assert Graph(Program(walk(once, tmp_path, "const Clock &clock")())).nodes[0].writes == ("Clock", "Walker.Spot")
    Program(walk(reading, tmp_path)())
    simulator = Simulator(walk(alone, tmp_path, count=1)(), 3)  # one row in a world: nothing runs beside it
    simulator.reset(seed=0)
    for _ in range(3):
        simulator.step()
    assert simulator.tensor("Clock.ticks").tolist() == [3, 3, 3]
    assert simulator.tensor("Walker.Spot.x").flatten().tolist() == [3.0, 3.0, 3.0]


def _thick_lines(root: ElementTree.Element) -> int:
    return sum(e.get("stroke-width") == "3" for e in root.iter("{http://www.w3.org/2000/svg}path"))


def _waits(graph: Graph) -> int:
    """Writes that a later node of the same graph reads or writes over."""
    count = 0
    for first, writer in enumerate(graph.nodes):
        for name in writer.writes:
            later = [node for node in graph.nodes[first + 1 :] if node.graph == writer.graph]
            count += any(name in (*node.reads, *node.writes) for node in later)
    return count


@pytest.mark.parametrize("environment", [Swarm, Forge])
def test_the_picture_of_many_nodes_keeps_its_parts_apart(environment: type[Environment], tmp_path: Path) -> None:
    graph = Graph(Program(environment()))
    graph.draw(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [(float(t.get("x", 0)), t.get("y"), t.text) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert _thick_lines(root) == _waits(graph)
    marks = [(c.get("cx"), c.get("cy")) for c in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(marks) == len(set(marks))  # none hides another
    nodes = {node.system for node in graph.nodes}
    places = [place for place in texts if place[2] in nodes]
    assert len({y for _, y, _ in places}) == len(places) == len(graph.nodes)
    middle = min(x for x, _, text in texts if text.startswith("over "))
    assert all(x + 7 * len(name) < middle for x, _, name in places)  # names end before what they run over


def test_the_picture(tmp_path: Path) -> None:
    graph = Graph(Program(Duel()))
    graph.draw(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {node.system for node in graph.nodes} <= set(texts)
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    done = [f"{n.system} {kind} {name}" for n in graph.nodes for kind in ("reads", "writes", "creates", "destroys")
            for name in getattr(n, kind)]  # fmt: skip
    assert set(done) == set(titles) - {"reads", "writes", "creates rows", "destroys rows"}
    assert {f"{n.graph}" for n in graph.nodes} <= set(texts) and "Fighter.Place" in texts
    assert _thick_lines(root) == _waits(graph)
    assert "blow over each world" in str(graph)
    with pytest.raises(ValueError, match=r"must end in \.svg, got '.*graph\.png'"):
        graph.draw(tmp_path / "graph.png")
