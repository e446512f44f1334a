"""Loops of once-per-world systems over all archetypes that have given components, and how many rows these can have.

tests/torch_batchsim/resolve/test_executors.py runs the environment "yard", which has such loops, on all executors.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import messages
import pytest
import torch
from environments.yard import Order, Yard
from gymnasium.spaces import Discrete
from libraries.depot import Depot, Mark, Place, Rope
from support import declare

from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Library,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    i32,
)
from torch_batchsim.read.reaches import Reach, Wanted
from torch_batchsim.read.systems import Unit, read_systems
from torch_batchsim.resolve.program import Program


class Shed(Environment):
    systems = ()
    libraries = (Depot,)
    archetypes = (
        Archetype("Porter", Order, Reward, count=1),
        Archetype("Crate", Depot.load, count=2),
        Archetype("Cart", Mark, Depot.load, capacity=4, limit=8),
        Archetype("Rail", Place, capacity=3),
    )
    step = TaskGraph(Depot.take_stock)
    observation, action = "Porter.Order", "Porter.Order"
    action_space = Discrete(2)


def _rows(sim: Simulator, name: str, world: int) -> list[Any]:
    table = name.partition(".")[0]
    dynamic = table in ("Cart", "Rail")
    return (sim.ragged(name).world(world) if dynamic else sim.tensor(name)[world]).tolist()


def expected(sim: Simulator, world: int) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The summary of a world, and its places, after a step."""
    tables = ("Crate", "Cart", "Rail", "depot.Posts")  # in the order of declaration, the library's own last
    prefix = {name: f"{name}.Place.x" if name.startswith("depot") else f"{name}.depot.Place.x" for name in tables}
    places = {name: _rows(sim, prefix[name], world) for name in tables}
    kilos = {name: _rows(sim, f"{name}.depot.Weight.kilos", world) for name in ("Crate", "Cart")}
    numbers, value = {a.name: a.number for a in sim.program.archetypes}, 0
    for name in tables:
        for i, x in enumerate(places[name]):
            kilo = kilos[name][i] if name in kilos else -1
            value = int(math.fmod(31 * value + x * kilo + numbers[name], 1000003))
    loads = [(x, k) for name in kilos for x, k in zip(places[name], kilos[name], strict=True)]
    moved = [(x + sum(k for other, k in loads if other < x)) % 101 for x, _ in loads]
    after = places | {"Crate": moved[:2], "Cart": moved[2:]}
    summary = {"count": sum(map(len, places.values())), "hash": value, "weighed": sum(k for _, k in loads)}
    return summary, after


def test_it_goes_through_all_archetypes_with_the_components() -> None:
    sim = Simulator(Shed(), 5)
    sim.reset(seed=0)
    generator = torch.Generator().manual_seed(3)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randint(0, 101, shape, generator=generator, dtype=torch.int32)

    sim.tensor("Crate.depot.Place.x").copy_(drawn(5, 2))
    sim.tensor("Crate.depot.Weight.kilos").copy_(drawn(5, 2))
    sim.tensor("depot.Posts.Place.x").copy_(drawn(5, 2))
    carts = sim.create("Cart", [1, 1, 2, 4, 4, 4], {"depot.Place.x": drawn(6), "depot.Weight.kilos": drawn(6)})
    sim.create("Rail", [0, 4], {"depot.Place.x": drawn(2)})
    sim.create("depot.Note", [1, 2, 4], {"Rope.load": carts[[1, 0, 4]]})  # that of world 2 is of another world
    for _ in range(3):
        models = [expected(sim, world) for world in range(5)]
        sim.step()
        for world, (summary, places) in enumerate(models):
            assert {name: sim.tensor(f"depot.Summary.{name}")[world].item() for name in summary} == summary
            assert _rows(sim, "Crate.depot.Place.x", world) == places["Crate"]
            assert _rows(sim, "Cart.depot.Place.x", world) == places["Cart"]
    assert sim.tensor("depot.Summary.pulled").tolist() == [-1, 2 + 1, -1, -1, 2 + 1]
    handles, marks = sim.entities("Cart"), sim.ragged("Cart.depot.Mark.of")
    assert torch.equal(torch.cat([handles.world(w) for w in range(5)]), torch.cat([marks.world(w) for w in range(5)]))


# ---- what the reader makes of it -----------------------------------------------------------------------------------


def test_it_is_read(tmp_path: Path) -> None:
    source = tmp_path / "systems.h"
    source.write_text(
        "TBS_SYSTEM void run(World &world) {\n"
        "    world.tables<const a::Pose, Optional<const Force>, tbs::Optional<Drag>, Speed>([](auto...) {});\n}\n"
    )
    wanted = (
        Wanted("a::Pose", False),
        Wanted("Force", False, optional=True),
        Wanted("Drag", True, optional=True),
        Wanted("Speed", True),
    )
    (reach,) = read_systems(Unit(source))["run"].reaches
    assert reach == Reach("tables", wanted=wanted)
    assert str(reach) == "tables<const a::Pose, Optional<const Force>, Optional<Drag>, Speed>"


def test_what_nodes_read_and_write() -> None:
    nodes = {node.system.name: node for node in Program(Yard()).graphs["step"]}
    loads = {f"{name}.depot.{part}" for name in ("Cart", "Crate", "Barrel") for part in ("Place", "Weight")}
    rows = {"Cart", "Rail"}
    listed = nodes["depot.list_all"]
    assert listed.reads == loads | rows | {"Rail.depot.Place", "depot.Posts.Place"}
    assert listed.writes == {"depot.Summary"}
    sorted_ = nodes["depot.sort_loads"]
    written = {name for name in loads if name.endswith("Place")}
    assert sorted_.writes == written | {"Cart.depot.Mark", "Barrel.depot.Mark"}
    assert sorted_.reads == loads - written | {"Cart"}


class Spot(Component):
    x: i32


class Act(Component):
    kind: i32


class Clock(Component):
    time: i32


def environment(folder: Path, text: str) -> Environment:
    archetypes = (
        Archetype("Walker", Act, Reward, count=2),
        Archetype("Stone", Spot, count=2),
        Archetype("Item", Spot, capacity=8),
    )
    own = {"observation": "Walker.Act", "action": "Walker.Act", "action_space": Discrete(3)}
    return declare(text, folder, archetypes=archetypes, singletons=(Clock,), step=TaskGraph("run"), **own)()


def test_refused_loops(tmp_path: Path) -> None:
    def declared(line: str) -> None:
        Program(environment(tmp_path, f"TBS_SYSTEM void run{line}\n"))

    messages.refused("loops over archetypes", declared)


def test_lanes_write_in_operations_within_a_loop(tmp_path: Path) -> None:
    for body in ("warp.for_each(1, [&](u32 i) { spots[i].x = 1; });", "warp.once([&] { spots[0].x = 2; });"):
        text = f"world.tables<const Act, Spot>([&](auto table, const auto &acts, auto spots) {{ {body} }});"
        Program(environment(tmp_path, f"TBS_SYSTEM void run(World &world, Warp &warp) {{ {text} }}\n"))


HIDDEN = """
#define QUIET(name) name
template <class C> TBS_FUNCTION i32 rows_with(World &world) {
    i32 count = 0;
    world.tables<const C>([&](auto table, auto spots) { count += i32(table.count) * spots[0].x; });  // line 5
    return count;
}
"""


@pytest.mark.full
def test_a_template_declares_its_loop(tmp_path: Path) -> None:
    text = HIDDEN + "TBS_SYSTEM {}void run(World &world, Clock &clock) {{ clock.time = rows_with<Spot>(world); }}\n"
    text = text.replace("TBS_SYSTEM {}", "TBS_SYSTEM @").replace("{{", "{").replace("}}", "}")
    says = "asks for tables<const C>, in which a template .*: TBS_SYSTEM TBS_REACHES(tables<const Component, ...>) void"
    with pytest.raises(SchemaError, match=says.replace("(", r"\(").replace(")", r"\)").replace("...", r"\.\.\.")):
        Program(environment(tmp_path, text.replace("@", "")))
    made = environment(tmp_path, text.replace("@", "TBS_REACHES(tables<const Spot>) "))
    sim = Simulator(made, 1)
    sim.reset(seed=0)
    sim.create("Item", [0, 0, 0], {"Spot.x": 7})
    sim.tensor("Stone.Spot.x").fill_(2)
    sim.step()
    assert sim.tensor("Clock.time").item() == 2 * 2 + 3 * 7


# ---- how many rows there can be ------------------------------------------------------------------------------------


def test_most_rows() -> None:
    program = Program(Yard())
    constants = program.scopes.libraries["depot"].constants
    assert constants == {"most": 40 + 3 + 3 + 35 + 2, "loads": 40 + 3 + 35}
    assert next(a for a in program.archetypes if a.name == "depot.Note").capacity == 40 + 3 + 35
    environment = Yard()
    assert Program(environment).constants == Program(environment).constants  # prepared once
    depot = environment.libraries.depot
    assert (depot.most_rows(Mark), depot.most_rows(Mark, Rope), depot.most_rows(Rope)) == (75, 0, 78)


def test_most_rows_is_refused() -> None:
    messages.refused("most_rows", lambda line: eval(line))


class Dot(Component):
    x: i32


def test_archetypes_do_not_depend_on_their_own_number(tmp_path: Path) -> None:
    (tmp_path / "loop.h").write_text("#pragma once\n")

    class Loop(Library):
        name = "loop"
        systems = str(tmp_path / "loop.h")
        components = (Dot,)

        @property
        def archetypes(self) -> list[Archetype]:
            return [Archetype("Spots", Dot, count=1 + self.most_rows(Dot))]

    class Looped(Shed):
        libraries = (Depot, Loop)

    says = "library loop: most_rows of Dot is asked for while archetype Spots is made"
    with pytest.raises(SchemaError, match=says):
        Program(Looped())


@pytest.mark.full
def test_an_archetype_without_any_is_no_error(tmp_path: Path) -> None:
    text = "TBS_SYSTEM void run(World &world, Clock &clock) {\n"
    text += "world.tables<const Spot, const Act>([&](auto, auto, auto) { clock.time += 1; }); }\n"
    sim = Simulator(environment(tmp_path, text), 2)
    sim.reset(seed=0)
    sim.step()
    assert sim.tensor("Clock.time").tolist() == [0, 0]
