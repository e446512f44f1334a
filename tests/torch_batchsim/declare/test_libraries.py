"""Libraries of systems: two of them in two environments, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from environments.hall import Hall
from environments.street import Street
from gymnasium.spaces import Discrete
from libraries.buckets import Body, Buckets, Near
from libraries.pushes import Pushes
from support import assert_same_bits, declare, emulated_cuda, of_worlds, snapshot, spoil

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Bundle,
    Component,
    Constants,
    Environment,
    Library,
    Parameters,
    Repeat,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    component,
    f32,
    i32,
)
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target
from torch_batchsim.command_line import parse_env_options
from torch_batchsim.resolve.program import BUILTIN_FAULTS, Program

WORLDS = 30


def run(steps: int = 50, hall: Hall | None = None, **kwargs: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(hall or Hall(), num_worlds=WORLDS, **kwargs)
    env.reset(seed=3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        spoil(env.sim)
        env.step(torch.randint(2, (3 * WORLDS,), generator=generator))
    return env


def test_systems_of_a_library_run_over_every_archetype_with_its_components() -> None:
    sim = run(43).sim
    carts = sim.ragged("Cart.buckets.Body.x")
    assert sim.tensor("World.episode").unique().tolist() == [1, 2]
    for world in range(WORLDS):
        x = torch.cat([sim.tensor("Guest.buckets.Body.x")[world], carts.world(world)])
        near = torch.cat([sim.tensor("Guest.buckets.Near")[world], sim.ragged("Cart.buckets.Near").world(world)])
        cells = (x / 0.25).floor().long()
        assert sim.tensor("buckets.Cells.Cell.count")[world].tolist() == torch.bincount(cells, minlength=4).tolist()
        assert near.tolist() == torch.bincount(cells)[cells].tolist()
        assert sim.tensor("buckets.Load.bodies")[world] == 3 + len(carts.world(world))
        assert sim.tensor("buckets.Load.weight")[world] == 1 + 2 + 3 + 2 * len(carts.world(world))
    assert {len(carts.world(world)) for world in range(WORLDS)} > {1}
    assert sim.tensor("Cells.Cell.visits").sum() > 0  # the author's own of that name


@pytest.mark.full
def test_every_executor_gives_the_same_bits() -> None:
    expected = snapshot(run(num_threads=1).sim)
    assert_same_bits(expected, snapshot(run(num_threads=2).sim))
    assert_same_bits(expected, snapshot(run(executor="per_world").sim))
    assert_same_bits(expected, snapshot(run(_library=emulated_cuda("hall")).sim))


def test_names_of_tensors_and_their_attributes() -> None:
    sim = Simulator(Hall(), 2)
    assert {"Guest.pushes.Push", "Cart.buckets.Body", "buckets.Cells.Cell", "Cells.Cell", "pushes.Wind"} <= set(
        sim.program.columns
    )
    assert sim.Guest.buckets.Body.x.data_ptr() == sim.tensor("Guest.buckets.Body.x").data_ptr()
    assert sim.buckets.Cells.Cell.count.shape == (2, 4)
    sim.pushes.Wind.strength = 2.0
    assert sim.tensor("pushes.Wind").tolist() == [2.0, 2.0]
    with pytest.raises(AttributeError, match=r"tensor 'Guest\.buckets\.Bdoy' does not exist"):
        _ = sim.Guest.buckets.Bdoy
    sim.reset(seed=0)
    handles = sim.create("Cart", [0, 1], {"buckets.Body.x": 0.3})
    assert sim.find([0, 1], handles).tolist() == [0, 0]


def test_graph_and_random_streams_use_qualified_names() -> None:
    program = Program(Hall())
    assert [node.system.name for node in program.graphs["start"]][:3] == ["enter", "pushes.draw_wind", "buckets.clear"]
    text = str(Simulator(Hall(), 1).graph)
    assert "start    buckets.insert over Cart\n         reads Cart.buckets.Body\n" in text
    nodes = program.nodes
    assert len({node.random_key for node in nodes}) == len(nodes)
    assert program.faults == (*BUILTIN_FAULTS, "crowded", "buckets.outside")


def test_options_of_libraries_reach_systems() -> None:
    hall = Hall(buckets={"width": 0.125, "cells": 8}, pushes={"gain": 0.0, "pattern": (1.0, 0.5, 0.25)})
    assert (hall.libraries.buckets.parameters.width, hall.libraries["buckets"].constants.cells) == (0.125, 8)
    assert hall.libraries.pushes.libraries.buckets is hall.libraries.buckets
    sim = run(4, hall).sim
    x = sim.tensor("Guest.buckets.Body.x")
    assert torch.equal(sim.tensor("Guest.View")[..., 3], (x / 0.125).floor() / 8)
    assert sim.tensor("buckets.Cells.Cell.count").shape == (WORLDS, 8)
    assert Street().libraries.buckets.constants.cells == 8  # the environment's choice
    assert Street(buckets={"cells": 6}).libraries.buckets.constants.cells == 6
    resolved = Program(hall)
    assert resolved.parameters == {"max_episode_steps": 20, "buckets.width": 0.125, "pushes.gain": 0.0}
    assert resolved.constants == {"buckets.cells": 8, "pushes.beats": 3, "pushes.first": 1.0, "pushes.last": 0.25}


@pytest.mark.full
def test_options_through_gymnasium_and_on_the_command_line() -> None:
    torch_batchsim.register("tests/Hall-v0", Hall, max_episode_steps=5)
    try:
        given = parse_env_options(["buckets.width=0.5", "buckets.cells=2", "pushes.gain=2", "max_episode_steps=7"], {})
        assert given == {"buckets": {"width": 0.5, "cells": 2}, "pushes": {"gain": 2}, "max_episode_steps": 7}
        env = gymnasium.make_vec("tests/Hall-v0", num_envs=3, **given)
        assert env.unwrapped.environment.libraries.buckets.parameters.width == 0.5
        assert torch_batchsim.option_names("tests/Hall-v0") == ("max_episode_steps", "buckets", "pushes")
    finally:
        del gymnasium.registry["tests/Hall-v0"]
    with pytest.raises(ValueError, match=r"the option buckets\.width of the environment was given twice"):
        parse_env_options(["buckets.width=1", "buckets.width=2"], {})
    with pytest.raises(ValueError, match=r"options of library buckets are given one by one, as buckets\.name=value"):
        parse_env_options(["buckets.width=1", "buckets=2"], {})


def test_states_copies_and_kept_singletons() -> None:
    sim = run().sim
    state, before = sim.state_dict(), snapshot(sim)
    sim.step()
    sim.load_state_dict(state)
    assert_same_bits(before, snapshot(sim))
    sim.copy_worlds([0], [5])
    sim.step()
    held = {name: tensor for name, tensor in snapshot(sim).items() if not name.startswith("final_")}
    assert_same_bits(*(of_worlds(held, torch.arange(WORLDS) == world) for world in (0, 5)))
    sim.Guest.buckets.Body.x = 9.0
    sim.reset(seed=1, options={"wind": torch.arange(1.0, WORLDS + 1)})
    assert sim.tensor("pushes.Wind").tolist() == list(range(1, WORLDS + 1))  # kept, and so not drawn
    assert sim.tensor("Guest.buckets.Body.x").max() < 1.0
    with pytest.raises(torch_batchsim.CheckpointError, match=r"its buckets\.width is 0\.25, here 0\.125"):
        Simulator(Hall(buckets={"width": 0.125}), WORLDS).load_state_dict(state)


@pytest.mark.full
def test_a_resource_and_faults_of_a_library() -> None:
    sim = Simulator(Street(), 3)
    sim.reset(seed=0)
    sim.buckets.Ground.factor[0] = 5.0
    sim.step()
    assert sim.tensor("buckets.Load.weight").tolist() == [10.0] * 3  # two walkers of weight 1
    sim.Walker.Stride.direction[1, 1] = 9
    says = r"world 1: system 'buckets\.insert' failed at row 1: buckets\.outside \(value 9\)"
    with pytest.raises(WorldFault, match=says):
        sim.step()


def test_headers_of_libraries_are_part_of_a_build() -> None:
    program = Program(Hall())
    names = ["sums.h", "buckets.h", "pushes.h", "wind.h", "hall.h"]
    assert sorted(path.name for path in program.files) == sorted(names)
    assert all(text in jit.program_sources(program) for text in program.files.values())


# ---- what is refused ------------------------------------------------------------------------------------------------


class Push(Component):
    side: i32


def library(folder: Path, text: str = "", **attributes: Any) -> type[Library]:
    """A small library class, by default of the name ``grid``."""
    name = attributes.setdefault("name", "grid")
    header = folder / f"{name}_{len(list(folder.iterdir()))}.h"
    header.write_text("#pragma once\n" + text)
    return type(name.title(), (Library,), {"systems": str(header), **attributes})


def program(folder: Path, *libraries: type[Library], text: str = "", **attributes: Any) -> Program:
    """An environment of one row with these libraries, checked."""
    held = {
        "libraries": libraries,
        "archetypes": [Archetype("Cart", Push, Reward, count=1)],
        "observation": "Cart.Push",
        "action": "Cart.Push",
        "action_space": Discrete(2),
        "step": TaskGraph(),
        **attributes,
    }
    return Program(declare(text, folder, **held)())


def refused(facts: str, call: Callable[[], Any], error: type[Exception] = SchemaError) -> None:
    """``call`` raises, and the message has each word of ``facts``."""
    with pytest.raises(error) as raised:
        call()
    assert all(word in str(raised.value) for word in facts.split()), raised.value


SPIN = "TBS_SYSTEM void spin(World &world, {} &mass) {{}}\n"


def with_mass(folder: Path, text: str = SPIN.format("Mass"), **attributes: Any) -> type[Library]:
    """A library with a component of its own, a bundle and a fragment."""
    mass = component("Mass", value=f32)
    held = {"components": (mass,), "heavy": Bundle(mass), "turn": TaskGraph("spin"), **attributes}
    return library(folder, text, **held)


def test_names_of_libraries(tmp_path: Path) -> None:
    first, second = library(tmp_path), library(tmp_path)
    refused("two 'grid'", lambda: program(tmp_path, first, second))
    for name in ("no name", "systems", "World", "clamp", "device", "Push", "Cart"):
        taken = type("Taken", (Library,), {"name": name})
        refused(name, lambda taken=taken: program(tmp_path, taken))
    refused("option library 'grid'", lambda: program(tmp_path, first, parameters=Parameters(grid=1.0)))
    refused("'buckets'", lambda: type("Fine", (Buckets,), {"name": "fine"}))
    refused("libraries tuple", lambda: program(tmp_path, Buckets()))
    refused("Buckets twice", lambda: program(tmp_path, Buckets, Buckets))


def test_libraries_in_a_circle(tmp_path: Path) -> None:
    first = library(tmp_path, name="first")
    second = library(tmp_path, name="second", uses=(first,))
    first.uses = (second,)
    refused("libraries use each other in a circle: first -> second -> first", lambda: program(tmp_path, first))
    first.uses = (first,)
    refused("in a circle: first -> first", lambda: program(tmp_path, second))


def test_a_subclass_stands_for_its_library() -> None:
    wide = type("Wide", (Buckets,), {"parameters": Parameters(width=0.5)})
    hall = type("WideHall", (Hall,), {"libraries": (Pushes, wide), "systems": str(Hall().sources[0])})()
    assert type(hall.libraries.buckets) is wide and list(hall.libraries) == ["buckets", "pushes"]
    assert Program(hall).parameters["buckets.width"] == 0.5


def test_options_of_libraries_are_checked() -> None:
    for call, error, facts in (
        (lambda: Hall(buckets={"widht": 1}), TypeError, "Buckets 'widht' 'width'? cells, width"),
        (lambda: Hall(buckets=0.5), TypeError, "buckets dict"),
        (lambda: Hall(bukets={}), TypeError, "Hall 'bukets' 'buckets'?"),
        (lambda: Hall(buckets={"width": -1}), ValueError, "buckets.width 0.0 -1.0"),
        (lambda: Hall(width=1), TypeError, "Hall 'width' buckets=dict(width=...)"),
        (lambda: Hall().libraries.bukets, AttributeError, "'bukets' 'buckets'? pushes"),
        (type("Odd", (Street,), {"library_options": {"buckts": {}}}), SchemaError, "'buckts' 'buckets'?"),
    ):
        refused(facts, call, error)


def test_components_of_libraries_that_are_not_listed(tmp_path: Path) -> None:
    guest = Archetype("Guest", Push, Reward, Pushes.pushed, count=1)
    refused("Declared Push Pushes libraries", lambda: program(tmp_path, Buckets, archetypes=[guest]))
    thieves = library(tmp_path, name="thieves", own=Bundle(Body))
    refused("thieves Body Buckets uses", lambda: program(tmp_path, Buckets, thieves))
    refused("fragment Declared Buckets libraries", lambda: program(tmp_path, step=TaskGraph(Buckets.build)))
    thieves = library(tmp_path, name="other", take=TaskGraph(Buckets.build))
    refused("other Buckets uses", lambda: program(tmp_path, Buckets, thieves, step=TaskGraph(thieves.take)))


def test_a_bundle_that_is_missing(tmp_path: Path) -> None:
    half = [Archetype("Cart", Push, Body, Reward, count=1)]
    text = Buckets().sources[0].read_text()
    line = text[: text.index("TBS_SYSTEM void count_near")].count("\n") + 1
    facts = f"buckets.h:{line}: 'buckets.count_near' Body, Near Buckets.body"
    refused(facts, lambda: program(tmp_path, Buckets, archetypes=half, step=TaskGraph(Buckets.build)))
    refused("bundle components", Bundle)
    refused("Cart twice", lambda: Archetype("Cart", Body, Body, count=1))
    assert Archetype("Cart", Body, Buckets.body, Pushes.pushed, count=1).components[:2] == (Body, Near)


def test_names_in_texts(tmp_path: Path) -> None:
    own, other = with_mass(tmp_path), library(tmp_path, SPIN.format("grid::Mass"), name="other", turn=TaskGraph("spin"))
    cart = {"archetypes": [Archetype("Cart", Push, own.heavy, Reward, count=1)]}
    wrong = with_mass(tmp_path, turn=TaskGraph("spni"))
    plain, qualified = SPIN.format("Mass"), SPIN.format("grid::Mass")
    both = program(tmp_path, own, text=qualified, step=TaskGraph("spin", own.turn), **cart)
    assert [node.system.name for node in both.graphs["step"]] == ["spin", "grid.spin"]
    assert len(program(tmp_path, own, step=TaskGraph("grid.spin"), **cart).graphs["step"]) == 1
    for facts, call in (
        ("'Mass' 'grid::Mass'?", lambda: program(tmp_path, own, text=plain, step=TaskGraph("spin"), **cart)),
        ("'grid.spni' 'grid.spin'?", lambda: program(tmp_path, own, step=TaskGraph("grid.spni"), **cart)),
        ("'spin' 'grid.spin'?", lambda: program(tmp_path, own, step=TaskGraph("spin"), **cart)),
        ("'step' Declared 'grid.spni'", lambda: program(tmp_path, wrong, step=TaskGraph(wrong.turn))),
        ("'other.spin' 'grid::Mass' grid,", lambda: program(tmp_path, own, other, step=TaskGraph(other.turn), **cart)),
    ):
        refused(facts, call)


def test_headers_have_one_namespace(tmp_path: Path) -> None:
    (tmp_path / "shared.h").write_text("#pragma once\n")
    first = library(tmp_path, '#include "shared.h"\n', name="first")
    second = library(tmp_path, '#include "shared.h"\n', name="second")
    says = "includes shared.h, which is of library first: leave the include out"
    refused(says, lambda: program(tmp_path, first, second))
    refused("the folder", lambda: program(tmp_path, library(tmp_path, name="third", include=("none",))))
    held = with_mass(tmp_path, name="held", singletons=(component("Mass", value=i32),))
    refused("library held: the name held.Mass is used twice", lambda: program(tmp_path, held))
    fourth = library(tmp_path, name="fourth", faults=("a", "a"))
    refused("fourth 'a' twice", lambda: program(tmp_path, fourth))


SUM = "TBS_SYSTEM void add(World &world, Total &total) {{ total.value += f32({}()) + f32(shared_half()); }}\n"


def with_headers(folder: Path, name: str, number: str) -> type[Library]:
    """A library with headers of names, and one of a text, that others have too, and with a macro."""
    headers = folder / f"headers_{name}"
    headers.mkdir()
    (headers / "detail.h").write_text(f"#ifndef DETAIL_H\n#define DETAIL_H\n#define TWICE(x) {number}\n#endif\n")
    (headers / "util.h").write_text("#pragma once\nTBS_FUNCTION i32 shared_half() { return 1; }\n")
    text = '#include "util.h"  // of the folder\n#include "detail.h"\n#include "util.h"\n'
    text += f"TBS_FUNCTION i32 {name}_number() {{ return TWICE(3); }}\n" + SUM.format(f"{name}_number")
    total = component("Total", value=f32)
    held = {"include": (str(headers),), "singletons": (total,), "turn": TaskGraph("add")}
    return library(folder, text, name=name, **held)


@pytest.mark.full
def test_headers_and_macros_are_a_librarys_own(tmp_path: Path) -> None:
    first = with_headers(tmp_path, "first", "(2 * (x))")
    second = with_headers(tmp_path, "second", "(20 * (x))")
    text = "TBS_FUNCTION i32 TWICE() { return 5; }\n"
    text += "TBS_SYSTEM void act(World &world, Push &push) { push.side = TWICE(); }\n"
    graph = TaskGraph(first.turn, second.turn, "act")
    made = program(tmp_path, first, second, text=text, step=graph)
    kept = {path: path.read_text() for path in made.files}
    for path in kept:  # what is compiled is what was read
        path.write_text("this does not compile\n")
    built = jit.load(made, Target())
    for path, was in kept.items():
        path.write_text(was)
    sim = Simulator(made.environment, 2, _library=built)
    sim.reset(seed=0)
    sim.step()
    assert [sim.tensor(name).tolist() for name in ("first.Total", "second.Total")] == [[7.0] * 2, [61.0] * 2]
    assert sim.tensor("Cart.Push").tolist() == [[5], [5]]


def test_a_subclass_that_is_made_first_does_not_take_the_components(tmp_path: Path) -> None:
    mass = component("Mass", value=f32)
    made = {"archetypes": property(lambda self: [Archetype("Cells", mass, count=2)])}
    base = library(tmp_path, **made)
    for each in (type("Sub", (base,), {}), type("Other", (base,), made), base):
        assert "grid.Cells.Mass" in program(tmp_path, each).columns
    assert mass.library is base


def test_a_fragment_is_repeated_as_an_option_says(tmp_path: Path) -> None:
    class Turning(with_mass(tmp_path)):
        constants = Constants(turns=3)
        many = property(lambda self: TaskGraph(Repeat(self.constants.turns, type(self).turn)))

    cart = [Archetype("Cart", Push, Turning.heavy, Reward, count=1)]
    step = property(lambda self: TaskGraph(self.libraries.grid.many))
    held = {"step": step, "archetypes": cart, "library_options": {"grid": {"turns": 7}}}
    (node,) = program(tmp_path, Turning, **held).graphs["step"]
    assert (node.system.name, node.loops[0].times) == ("grid.spin", 7)


def test_attributes_that_mean_nothing_are_refused() -> None:
    for name, meant in (("activ", "'active'?"), ("library", "'libraries'?"), ("uses", "Library")):
        refused(f"'{name}' {meant}", lambda name=name: type("Wrong", (Environment,), {name: ()}))
    for name, meant in (("step", "Environment"), ("parameter", "'parameters'?")):
        refused(f"'{name}' {meant}", lambda name=name: type("Wrong", (Library,), {"name": "wrong", name: 1}))
    own = {"action": "Cart.Push", "actions": 5, "use": lambda self: 1, "width": 3}  # 'action' is there: no misspelling
    assert type("Right", (Environment,), own).actions == 5
