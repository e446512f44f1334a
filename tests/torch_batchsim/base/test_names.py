"""An author's names are the author's own: none collides with the engine's, but for the few that have a meaning."""

from __future__ import annotations

import re
from typing import Any

import pytest
import support
import torch
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import Archetype, Component, Environment, Reward, SchemaError, Simulator, TaskGraph, component, i32
from torch_batchsim.build import jit
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.scopes import RESERVED_NAMES
from torch_batchsim.types import FIELD_TYPES

_PARTS = 6


class Act(Component):
    kind: i32


class Act_Spot(Component):
    value: i32


class Spot(Component):
    value: i32


class Seen(Component):
    value: i32


def engine_names() -> list[str]:
    """Every type, concept and free function of the engine's headers, but for what the systems below have to write."""
    texts = [path.read_text() for path in sorted((jit.CSRC / "tbs").rglob("*.*h"))]  # libraries have namespaces
    types = re.compile(
        r"^(?:struct|class|enum class|using|concept)\s+(?:alignas\(\w+\)\s+)?(\w+)\b(?![;(])", re.MULTILINE
    )
    functions = re.compile(r"^TBS_FUNCTION [\w<>:,&* ]*?(\w+)\(", re.MULTILINE)
    found = {name for text in texts for pattern in (types, functions) for name in pattern.findall(text)}
    assert {"Vector", "Float64", "Birth", "Settle", "BasicWorld", "given_or_zero", "find_birth"} <= found
    found |= {"Context", "Program", "Table1", "Node0_count", "ZeroReward", "executors", "fence", "systems", "tbs"}
    return sorted(found - RESERVED_NAMES - FIELD_TYPES.keys() - {"Reward", "AgentEnd", "namespace", "operator"})


def crowded(part: int) -> tuple[type[Environment], list[str]]:
    """An environment whose components have names of the engine, its archetypes and helpers too; the components' names.

    Components have one in ``_PARTS`` of the names, because a compiler's time grows faster than their number.

    System 'count' adds i + 1 to component i.
    """
    archetypes = ["DynamicTable", "Nodes", "NodeRows"]
    helpers = ["run_all", "run_world", "for_each_node", "swap_rows", "compress_rows", "given_or_zero", "report_fault"]
    above = [Act.__name__, Act_Spot.__name__, Spot.__name__, Seen.__name__]
    free = [name for name in engine_names() if name not in (*archetypes, *helpers, *above)]
    names = sorted({"Vector", "Random", "Settle", "Birth", "NodeKey", *free[part::_PARTS]})
    components = {name: component(name, value=i32) for name in names}
    own = [name for name in names if name != "NodeKey"]  # which is of the dynamic table only
    parameters = ", ".join(f"{name} &own_{i}" for i, name in enumerate(own))
    counts = " ".join(f"own_{i}.value += {i} + 1;" for i in range(len(own)))
    text = f"TBS_SYSTEM void count(World &world, {parameters}) {{ {counts} }}\n"
    text += "".join(f"template <class... T> TBS_FUNCTION i32 {name}(T...) {{ return 1; }}\n" for name in helpers)
    text += """
    TBS_SYSTEM void breed(World &world, const Vector &vector, const Random &draws) {
        if (vector.value % 2 == 0) world.create<DynamicTable>(Settle{vector.value}, Birth{draws.value});
    }
    TBS_SYSTEM void expire(World &world, const Birth &birth, const NodeKey &, Entity self) {
        if (birth.value % 3 == 0) world.destroy(self);
    }
    TBS_SYSTEM void look(World &world, const Act &act, Seen &seen) {
        ::tbs::Random &random = world.random();
        seen.value = i32(random.below(100)) + act.kind + run_all(seen) + i32(world.count<DynamicTable>());
        for (const Settle &settle : world.rows<DynamicTable, const Settle>()) seen.value += settle.value;
        for (const Vector &vector : world.rows<Nodes, const Vector>()) seen.value += vector.value;
    }
    """
    every = [components[name] for name in own]
    come_and_go = [components[name] for name in ("Settle", "Birth", "NodeKey")]
    environment = declare(
        text,
        archetypes=(
            Archetype("Nodes", *every, Act, Seen, Reward, count=2),
            Archetype("DynamicTable", *come_and_go, capacity=16, limit=64),
            Archetype("NodeRows", Spot, Act_Spot, count=1),
        ),
        start=TaskGraph("count"),
        step=TaskGraph("count", "breed", "expire", "look"),
        observation="Nodes.Seen",
        action="Nodes.Act.kind",
        action_space=Discrete(2),
    )
    return environment, own


@pytest.mark.full
@pytest.mark.parametrize("part", range(_PARTS))
def test_all_names_of_the_engine_are_free(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, names = crowded(part)
    monkeypatch.setitem(support.COMPILED, f"crowded_{part}", environment)
    sims = [Simulator(environment(), 3), support.emulated_simulator(f"crowded_{part}", 3, "graph")]
    seen = []
    for sim in sims:
        sim.reset(seed=1)
        for _ in range(3):
            sim.step()
        seen.append(sim.tensor("Nodes.Seen.value").clone())
    assert sims[0].tensor("Nodes.Vector.value").tolist() == [[4 * (names.index("Vector") + 1)] * 2] * 3
    assert torch.equal(*seen) and len(set(seen[0].flatten().tolist())) > 1


def test_columns_of_alike_names_are_distinct() -> None:
    pair = (
        Archetype("A", component("B_C", x=i32), Act, Reward, count=1),
        Archetype("A_B", component("C", x=i32), count=1),
    )
    roles = {"observation": "A.Act", "action": "A.Act.kind", "action_space": Discrete(2)}
    attributes: dict[str, Any] = {"step": TaskGraph(), **roles}
    columns = Program(declare("", archetypes=pair, **attributes)()).columns
    assert columns["A.B_C"].c_name != columns["A_B.C"].c_name


@pytest.mark.parametrize("name", ["Row", "World", "Warp", "Parameters", "final", "Reward"])
def test_names_that_have_a_meaning_are_refused(name: str) -> None:
    archetypes = (Archetype("A", component(name, x=i32), Act, count=1),)
    with pytest.raises(SchemaError, match=name):
        Program(declare("", archetypes=archetypes)())


def test_a_system_named_as_a_component() -> None:
    archetypes = (Archetype("A", Spot, Act, Reward, count=1),)
    with pytest.raises(SchemaError, match=r"systems\.h:1: system 'Spot' would hide what has this name already"):
        Program(declare("TBS_SYSTEM void Spot(World &world) {}", archetypes=archetypes)())
