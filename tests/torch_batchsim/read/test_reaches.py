"""What a system reaches beyond its row is what its text shows, or declares: the compiler refuses all else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import support
from gymnasium.spaces import Discrete
from support import declare

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
    i32,
)
from torch_batchsim.build.compile_errors import undeclared_accesses
from torch_batchsim.resolve.program import Program


class Spot(Component):
    x: i32


class Act(Component):
    kind: i32


class Clock(Component):
    time: i32


# The access by a name that a macro gives, so that the reader of the text does not see it.
HIDDEN = """
#define QUIET(name) name
template <class A> TBS_FUNCTION i32 first(World &world) {
    return world.rows<A, const Spot>()[0].x;  // line 4
}
struct Maker {
    World &world;
    TBS_METHOD void operator()() const {
        world.create<Item>(Spot{1});  // line 9
    }
    TBS_METHOD void unmake(Entity row) const {
        world.QUIET(destroy)(row);  // line 12
    }
};
"""
# Body, and the line and what it does, as the message has them. Each body begins in line 1 of its system.
MUTATIONS = {
    "macro": ("act.kind = world.QUIET(rows)<Stone, const Spot>()[0].x;", 1, "rows<Stone, const Spot>"),
    "written": ("world.QUIET(rows)<Walker, Act>()[0].kind = act.kind;", 1, "rows<Walker, Act>"),
    "method": ("Maker{world}();", 9, "create<Item>"),
    "unmake": ("Maker{world}.unmake(Entity{});", 12, "destroy"),
    "lambda": (
        "const auto f = [&](i32 n) { for (i32 i = 0; i < n; ++i) world.QUIET(create)<Item>(Spot{i}); };"
        " f(2); f(act.kind);",
        1,
        "create<Item>",
    ),
    "draw": ("act.kind = i32(world.QUIET(random)().below(3));", 1, "random"),
    "get": ("act.kind = world.QUIET(get)<const Clock>().time;", 1, "get<const Clock>"),
    "find": ("act.kind = world.QUIET(find)<Item, const Spot>(Entity{}) != nullptr;", 1, "find<Item, const Spot>"),
    "count": ("act.kind = i32(world.QUIET(count)<Item>());", 1, "count<Item>"),
    "alive": ("act.kind = world.QUIET(alive)(Entity{});", 1, "alive"),
    "tables": (
        "world.QUIET(tables)<const Spot, Optional<Act>>([&](auto, auto spots, auto) { act.kind = spots[0].x; });",
        1,
        "tables<const Spot, Optional<Act>>",
    ),
}


def environment(folder: Path, text: str, *systems: str, **changes: Any) -> Environment:
    attributes = {
        "archetypes": (
            Archetype("Walker", Act, Reward, count=1),
            Archetype("Stone", Spot, count=2),
            Archetype("Item", Spot, capacity=8),
        ),
        "singletons": (Clock,),
        "step": TaskGraph(*systems),
        "observation": "Walker.Act",
        "action": "Walker.Act",
        "action_space": Discrete(3),
    }
    return declare(text, folder, **(attributes | changes))()


def test_a_hidden_access_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message has file and line, the system, the access, and the remedy; the first is in front."""
    monkeypatch.delenv("TBS_DEBUG")  # quick builds do not inline systems, which the compiler's check needs
    text = (
        HIDDEN
        + "TBS_SYSTEM TBS_REACHES(random) void by_template(World &world, Act &act) { act.kind = first<Item>(world); }\n"
    )
    expected = [(4, "by_template", "rows<Item, const Spot>")]
    for name, (body, line, method) in MUTATIONS.items():
        at = text.count("\n") + 1 if line == 1 else line
        text += f"TBS_SYSTEM void {name}(World &world, Act &act) {{ {body} }}\n"
        expected.append((at, name, method))
    wrong = environment(tmp_path, text, "by_template", *MUTATIONS)
    with pytest.raises(BuildError) as raised:
        Simulator(wrong, 1)
    assert raised.value.log is not None
    found = undeclared_accesses(Program(wrong), raised.value.log.read_text())
    first, second, *others, _ = str(raised.value).splitlines()
    assert [first, second, *others] == [found[0], "(while compiling the systems of Declared)", *found[1:]]
    for line, name, method in expected:
        says = (
            f"systems.h:{line}: system '{name}' (systems.h:{_line_of(text, name)}) does {method}, which "
            "the engine has not read in its text: write it out, without macros that put names together, or declare it: "
            f"TBS_SYSTEM TBS_REACHES({method}) void {name}(...)"
        )
        assert says in found, (says, found)


def _line_of(text: str, system: str) -> int:
    return text[: text.index(f" {system}(World")].count("\n") + 1


@pytest.mark.full
@pytest.mark.parametrize("cast", ["((R)act).kind = 1", "P(&act)->kind = 1"])
def test_const_is_not_cast_away_by_an_alias(cast: str, tmp_path: Path) -> None:
    text = "using R = Act &;\nusing P = Act *;\n"
    text += f"TBS_SYSTEM void run(World &world, const Act &act) {{\n    {cast};\n}}\n"
    with pytest.raises(BuildError, match=r"systems\.h:4: .*cast from type .* casts away qualifiers"):
        Simulator(environment(tmp_path, text, "run"), 1)


def test_what_is_const_in_the_text_is_const_for_the_compiler(tmp_path: Path) -> None:
    text = "#define QUIETLY(type) type &\nTBS_SYSTEM void run(World &world, const Act &act) { act.kind = 1; }\n"
    with pytest.raises(BuildError, match=r"systems\.h:2: take `Act &act` .*assignment of .* in read-only object"):
        Simulator(environment(tmp_path, text, "run"), 1)


DECLARED = (
    HIDDEN
    + """
TBS_SYSTEM TBS_REACHES(rows<Stone, const Spot>, create<Item>, get<Clock>, count<Item>, random) void run(World &world) {
    const auto make = [&](i32 x) { world.QUIET(create)<Item>(Spot{first<Stone>(world) + x}); };
    make(1);
    make(2);
    const i32 drawn = world.QUIET(random)().chance(2.0f) ? 10 : 0;
    world.QUIET(get)<Clock>().time += drawn + i32(world.QUIET(count)<Item>());
}
"""
)


@pytest.mark.full
def test_what_is_declared_compiles_and_is_known(tmp_path: Path) -> None:
    sim = Simulator(environment(tmp_path, DECLARED, "run"), 2)
    (node,) = sim.program.graphs["step"]
    assert (node.creates, node.reads) == (("Item",), {"Stone.Spot"})
    assert node.writes == {"Item", "Clock"}
    sim.reset(seed=0)
    sim.tensor("Stone.Spot.x").fill_(5)
    sim.step()
    sim.step()
    assert sim.ragged("Item.Spot.x").world(1).tolist() == [6, 7, 6, 7]
    assert sim.tensor("Clock.time").tolist() == [10 + 12] * 2


def test_a_template_without_a_declaration_is_rejected_by_the_reader(tmp_path: Path) -> None:
    text = HIDDEN + "TBS_SYSTEM void run(World &world, Act &act) { act.kind = first<Stone>(world); }\n"
    says = (
        "systems.h:15: system 'run' asks for rows<A, const Spot>, in which a template or a macro fills in a name; "
        "declare it: TBS_SYSTEM TBS_REACHES(rows<Archetype, const Component>) void run(...)"
    )
    with pytest.raises(SchemaError) as raised:
        Program(environment(tmp_path, text, "run"))
    assert str(raised.value) == says
    misspelt = text.replace("TBS_SYSTEM", "TBS_SYSTEM TBS_REACHES(rows<Stone, const Spt>)")
    says = "systems.h:15: system 'run' asks for rows<Stone, const Spt>, which does not exist: Spt is not a component"
    with pytest.raises(SchemaError, match=re.escape(says)):
        Program(environment(tmp_path, misspelt, "run"))


@pytest.mark.full
def test_without_a_compiler_that_checks_it_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with nvcc, or without optimisation. Nothing is created, for it would not be settled."""
    text = HIDDEN + "TBS_SYSTEM void run(World &world) { if (world.step() == 2) Maker{world}(); }\n"
    made = environment(tmp_path, text, "run")
    monkeypatch.setitem(support.COMPILED, "hidden", lambda: made)
    sim = Simulator(made, 2, _library=support.unoptimised("hidden"))
    sim.reset(seed=0)
    sim.step()
    with pytest.raises(
        WorldFault, match=r"system 'run' failed at row 0: undeclared_access: .* declare that by TBS_SYS"
    ):
        sim.step()
    assert sim.ragged("Item.Spot.x").counts.tolist() == [0, 0]
