"""Declarations: signatures of systems, the nodes they become, what they may write, and the checks of options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st
from support import declare
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Environment,
    Option,
    Parameters,
    Reward,
    SchemaError,
    TaskGraph,
    TorchVectorEnv,
    boolean,
    component,
    f32,
    f64,
    i32,
    u8,
    vec3,
)
from torch_batchsim.read.systems import Parameter, Unit, read_systems
from torch_batchsim.resolve.program import Program


class Spot(Component):
    x: f32


class Step(Component):
    towards: i32


class Clock(Component):
    time: i32


class Name(Component):
    letters: u8[5]


def systems_of(folder: Path, text: str) -> dict[str, Any]:
    (folder / "systems.h").write_text(text)
    return read_systems(Unit(folder / "systems.h"))


def program(folder: Path, text: str, **changes: Any) -> Program:
    attributes = {
        "archetypes": (Archetype("Walker", Spot, Step, Reward, count=3), Archetype("Stone", Spot, Name, count=2)),
        "singletons": (Clock,),
        "step": TaskGraph("run"),
        "observation": "Walker.Spot",
        "action": "Walker.Step.towards",
        "action_space": Discrete(2),
    }
    return Program(declare(text, folder, **(attributes | changes))())


# ---- signatures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "parameter"),
    [
        ("Spot &spot", Parameter("Spot", True)),
        ("Spot& spot", Parameter("Spot", True)),
        ("Spot&spot", Parameter("Spot", True)),
        ("Spot &", Parameter("Spot", True)),
        ("const Spot &spot", Parameter("Spot", False)),
        ("Spot const &spot", Parameter("Spot", False)),
        ("Spot const& spot", Parameter("Spot", False)),
        ("const   Spot\n    &spot", Parameter("Spot", False)),
        ("const\tSpot &spot", Parameter("Spot", False)),
        ("grid::Spot &spot", Parameter("grid::Spot", True)),
        ("const tbs::Episode &episode", Parameter("Episode", False)),
        ("const Spot & /* where, it is (now) */ spot", Parameter("Spot", False)),
        ("const Spot &spot  // a, b)\n", Parameter("Spot", False)),
        ("constSpot &spot", Parameter("constSpot", True)),
        ("Row row", Parameter("Row", False)),
        ("const Row row", Parameter("Row", False)),
        ("Row", Parameter("Row", False)),
        ("Episode &episode", Parameter("Episode", True)),
        ("const Episode &", Parameter("Episode", False)),
    ],
)
def test_parameters(tmp_path: Path, written: str, parameter: Parameter) -> None:
    for text in (
        f"TBS_SYSTEM void run(World &world, {written}) {{}}",
        f"TBS_SYSTEM void run(World &, {written}, Clock &clock) {{}}",
        f"TBS_SYSTEM\nvoid\nrun\n(World &world,\n{written}\n)\n{{}}",
    ):
        assert systems_of(tmp_path, text)["run"].parameters[0] == parameter


@pytest.mark.parametrize(
    "written",
    ["Spot *spot", "Spot &&spot", "Spot<3> &spot", "Spot &a b", "volatile Spot &spot", "...", "int", "f32 &foo"],
)
def test_parameters_that_are_refused(tmp_path: Path, written: str) -> None:
    with pytest.raises(SchemaError, match=r"systems.h:2: .*'run'.* 'World &world' fi"):
        systems_of(tmp_path, f"\nTBS_SYSTEM void run(World &world, {written}) {{}}")


def test_comments_and_functions_are_not_read_as_systems(tmp_path: Path) -> None:
    text = """
// TBS_SYSTEM void one(World &world) {}
/* TBS_SYSTEM void two(World &world) {}
   TBS_SYSTEM void three(World &world) {} */
TBS_FUNCTION f32 four(f32 x) { return x; }
constexpr const char *five = "TBS_SYSTEM void five(World &world) {}  // no comment \\" here";
TBS_SYSTEM void six(World &world) { helper(world); } // TBS_SYSTEM
TBS_SYSTEM inline void seven(World &world, Spot &spot) {}
"""
    with pytest.raises(SchemaError, match=r"systems.h:8: system 'seven' must return void"):
        systems_of(tmp_path, text)
    text = text.replace("TBS_SYSTEM inline", "TBS_SYSTEM")
    systems = systems_of(tmp_path, text)
    assert list(systems) == ["six", "seven"]
    assert systems["six"].place == "systems.h:7"
    assert systems["seven"].place == "systems.h:8"


def test_includes_are_followed_from_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.h").write_text('#include "b.h"\nTBS_SYSTEM void a(World &world) {}\n')
    (tmp_path / "parts" / "b.h").write_text('#include "../c.h"\n\nTBS_SYSTEM void b(World &world) {}\n')
    (tmp_path / "c.h").write_text("#ifndef C_H\n#define C_H\nTBS_SYSTEM void d(World &world) {}\n#endif\n")
    includes = '#pragma once\n  # include "parts/a.h"\n// #include "none.h"\n#include "c.h"\n'
    text = includes + "TBS_SYSTEM void c(World &) {}"
    systems = systems_of(tmp_path, text)
    assert set(systems) == {"a", "b", "c", "d"}
    assert systems["b"].place == "b.h:3"
    (tmp_path / "parts" / "b.h").write_text("TBS_SYSTEM void c(World &world) {}\n")
    with pytest.raises(SchemaError, match=r"systems.h:5: system 'c' is defined twice, first at b.h:1"):
        systems_of(tmp_path, text)


@given(st.dictionaries(st.sampled_from(["Spot", "Step", "Clock", "Name", "Reward"]), st.booleans()))
def test_signatures_of_any_length(tmp_path_factory: pytest.TempPathFactory, query: dict[str, bool]) -> None:
    parameters = list(query.items())
    written = [f"{'' if writes else 'const '}{name} &p_{name}" for name, writes in parameters]
    text = f"TBS_SYSTEM void run({', '.join(['World &world', *written])}) {{}}"
    system = systems_of(tmp_path_factory.getbasetemp(), text)["run"]
    assert [(p.type, p.writes) for p in system.parameters] == parameters


# ---- from systems to nodes -----------------------------------------------------------------------------------------


def nodes(found: Program, graph: str = "step") -> list[tuple[str, str | None]]:
    return [(node.system.name, node.table.name if node.table else None) for node in found.graphs[graph]]


@pytest.mark.parametrize(
    ("parameters", "tables"),
    [
        ("", [None]),
        ("Clock &clock", [None]),
        ("Episode &episode", [None]),
        ("const Clock &clock, const Episode &episode", [None]),
        ("Spot &spot", ["Walker", "Stone"]),
        ("const Spot &spot, Row row", ["Walker", "Stone"]),
        ("Spot &spot, const Step &step", ["Walker"]),
        ("const Name &name", ["Stone"]),
        ("const Name &name, Spot &spot, const Clock &clock", ["Stone"]),
        ("Reward &reward", ["Walker"]),
    ],
)
def test_a_signature_is_its_query(tmp_path: Path, parameters: str, tables: list[str | None]) -> None:
    comma = ", " if parameters else ""
    found = program(tmp_path, f"TBS_SYSTEM void run(World &world{comma}{parameters}) {{}}")
    assert nodes(found) == [("run", table) for table in tables]


def test_nodes_are_numbered_through_all_graphs(tmp_path: Path) -> None:
    text = "TBS_SYSTEM void run(World &world, Spot &spot) {}\nTBS_SYSTEM void tick(World &world, Clock &clock) {}\n"
    graphs = {"start": TaskGraph("run"), "step": TaskGraph("tick", "run", "tick"), "observe": TaskGraph("tick")}
    found = program(tmp_path, text, **graphs)
    assert nodes(found, "start") == [("run", "Walker"), ("run", "Stone")]
    assert nodes(found) == [("tick", None), ("run", "Walker"), ("run", "Stone"), ("tick", None)]
    everything = found.nodes
    assert [node.number for node in everything] == list(range(7))
    assert [node.occurrence for node in found.graphs["step"]] == [0, 0, 0, 1]


def test_reads_and_writes_of_a_node(tmp_path: Path) -> None:
    text = "TBS_SYSTEM void run(World &world, Spot &spot, const Step &s, const Clock &c, Row row, const Episode &e) {}"
    (node,) = program(tmp_path, text).graphs["step"]
    assert (node.reads, node.writes) == ({"Walker.Step", "Clock", "Episode"}, {"Walker.Spot"})


def test_a_system_that_no_graph_runs_is_not_checked(tmp_path: Path) -> None:
    """Half-written systems are no obstacle to those that run."""
    text = "TBS_SYSTEM void run(World &world) {}\nTBS_SYSTEM void later(World &world, Planned &planned) {}"
    assert nodes(program(tmp_path, text)) == [("run", None)]


# ---- conflicts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["Clock", "Episode"])
def test_many_rows_may_not_write_a_singleton(tmp_path: Path, shared: str) -> None:
    text = f"TBS_SYSTEM void run(World &world, const Spot &spot, {shared} &shared) {{}}"
    with pytest.raises(SchemaError, match=f"systems.h:1: .*'run'.* {shared}, .* 3 rows of Walker"):
        program(tmp_path, text)
    program(tmp_path, text.replace(f"{shared} &", f"const {shared} &"))
    one_row = (Archetype("Walker", Spot, Step, Reward, count=1), Archetype("Stone", Name, count=2))
    program(tmp_path, text, archetypes=one_row)


def test_a_row_without_rows(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"systems.h:1: system 'run' runs once per world and so has no Row"):
        program(tmp_path, "TBS_SYSTEM void run(World &world, Clock &clock, Row row) {}")


def test_too_many_nodes(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="at most 1023"):
        program(tmp_path, "TBS_SYSTEM void run(World &world) {}", step=TaskGraph(*["run"] * 1024))
    program(tmp_path, "TBS_SYSTEM void run(World &world) {}", step=TaskGraph(*["run"] * 1000))


# ---- roles ---------------------------------------------------------------------------------------------------------


def test_roles_of_the_known_environments() -> None:
    cartpole, duel, drift = Program(CartPole()), Program(Duel(fighters=4)), Program(Drift())
    assert cartpole.agents.count == 1
    assert duel.agents.count == 4
    assert list(duel.observations) == ["self", "cells"]
    assert set(duel.info) == {"hits", "action_mask"}
    assert drift.action.value_shape == (3,)
    assert cartpole.observations[""].value_shape == (4,)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (f32, Box(-np.inf, np.inf, (), np.float32)),
        (f64[2], Box(-np.inf, np.inf, (2,), np.float64)),
        (vec3, Box(-np.inf, np.inf, (3,), np.float32)),
        (vec3[2], Box(-np.inf, np.inf, (2, 3), np.float32)),
        (u8[2, 2], Box(0, 255, (2, 2), np.uint8)),
        (i32, Box(-(2**31), 2**31 - 1, (), np.int32)),
        (boolean[4], Box(0, 1, (4,), np.bool_)),
    ],
    ids=str,
)
def test_an_observation_space_follows_from_the_column(tmp_path: Path, kind: Any, expected: Box) -> None:
    seen = type("Seen", (Component,), {"__annotations__": {"it": kind}})
    tables = (Archetype("Walker", Spot, Step, Reward, seen, count=1),)
    text = "TBS_SYSTEM void run(World &world) {}"
    found = program(tmp_path, text, archetypes=tables, observation="Walker.Seen")
    assert found.observation_space == expected
    found = program(tmp_path, text, archetypes=tables, observation={"a": "Walker.Seen", "b": "Walker.Spot"})
    assert found.observation_space == Dict({"a": expected, "b": Box(-np.inf, np.inf, (), np.float32)})


def test_an_action_of_several_fields(tmp_path: Path) -> None:
    push = type("Push", (Component,), {"__annotations__": {"a": i32, "b": i32}})
    tables = (Archetype("Walker", Spot, push, Reward, count=1),)
    text = "TBS_SYSTEM void run(World &world) {}"
    found = program(tmp_path, text, archetypes=tables, action="Walker.Push", action_space=MultiDiscrete([2, 3]))
    assert (found.action.value_shape, found.action.dtype) == ((2,), torch.int32)
    with pytest.raises(SchemaError, match=r"action 'Walker.Push.a' is one of the 2 fields of Walker.Push, and must"):
        program(tmp_path, text, archetypes=tables, action="Walker.Push.a", action_space=Discrete(2))


# ---- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        (Option(1.0), [0, -2, 3.5, np.float32(0.25), np.int64(3), 3e38], ["1", True, None, 1j, np.bool_(True)]),
        (Option(1), [0, -5, 2**31 - 1, np.int64(7)], [1.0, "1", True, None, 2**31, -(2**31) - 1]),
        (Option(True), [False, np.bool_(True)], [0, 1, "yes", None, 1.0]),
        (Option("a"), ["", "b"], [1, None, True]),
        (Option(1.0, above=0.0), [1e-30, 2], [0, -1, -0.0, 1e-60, float("nan"), float("inf")]),
        (Option(1, minimum=1, maximum=3), [1, 2, 3], [0, 4]),
        (Option("a", choices=("a", "b")), ["a", "b"], ["c"]),
        (Option(2, choices=(2, 4)), [4], [3]),
    ],
    ids=str,
)
def test_options_check_values(option: Option, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        checked = option.checked("wind", value)
        assert type(checked) is type(option.default)
        assert checked == value
    for value in bad:
        with pytest.raises((TypeError, ValueError), match=r"^option wind must "):
            option.checked("wind", value)


class Optional_(Drift):
    parameters = Parameters(max_episode_steps=9, wind=Option(1.5, minimum=0), calm=False)
    constants = Constants(cells=Option(3, minimum=1), name="plain")


def test_options_become_attributes_of_the_instance_alone() -> None:
    environment = Optional_(wind=2, cells=5, name="other")
    assert environment.parameters == {"max_episode_steps": 9, "wind": 2.0, "calm": False}
    assert environment.parameters.wind == 2.0
    assert environment.constants == {"cells": 5, "name": "other"}
    with pytest.raises(AttributeError):
        _ = environment.parameters.gusts
    assert Optional_().parameters.wind == 1.5
    assert isinstance(Optional_.parameters, Parameters)
    with pytest.raises(TypeError, match=r"'winds' .*'wind'\?.* cells, name, max_episode_steps, "):
        Optional_(winds=1)


def test_constants_that_follow_from_options() -> None:
    environment = Optional_(cells=4)
    environment.add_constants(area=16, share=0.25)
    assert environment.constants == {"cells": 4, "name": "plain", "area": 16, "share": 0.25}
    for name in ("cells", "no good"):
        with pytest.raises(SchemaError, match=f"'{name}'"):
            environment.add_constants(**{name: 5})
    with pytest.raises(ValueError, match="option huge must fit 32 bits"):
        environment.add_constants(huge=2**40)
    assert "area" not in Optional_(cells=4).constants


def test_fields_and_their_places() -> None:
    mixed = type("Mixed", (Component,), {"__annotations__": {"a": u8, "b": f64, "c": bool, "d": vec3[2], "e": u8[3]}})
    assert {field.name: field.offset for field in mixed.fields} == {"a": 0, "b": 8, "c": 16, "d": 20, "e": 44}
    assert (mixed.size, mixed.alignment) == (48, 16)
    assert mixed.fields[2].type is boolean


MARK = """
TBS_SYSTEM void mark(World &world, Cells &cells, const Mark &mark) {
    cells.content[Constants::rows - 1][mark.cell] += 1;
}
"""


def test_a_component_that_depends_on_an_option() -> None:
    class Grid(Environment):
        systems = declare(MARK).systems
        constants = Constants(rows=2, columns=3)
        step = TaskGraph("mark")
        observation, action, action_space = "Board.Cells", "Board.Mark.cell", Discrete(2)

        @property
        def archetypes(self) -> list[Archetype]:
            cells = component("Cells", content=u8[self.constants.rows, self.constants.columns])
            return [Archetype("Board", cells, component("Mark", cell=i32), Reward, count=1)]

    env = TorchVectorEnv(Grid(rows=4), 2)
    env.reset(seed=0)
    observations = env.step(torch.tensor([0, 1]))[0]
    assert observations.shape == (2, 4, 3)
    assert observations.nonzero().tolist() == [[0, 3, 0], [1, 3, 1]]
