"""docs/reference.md: what the headers offer, and nothing that does not compile."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import Archetype, Component, Entity, Reward, TaskGraph, i32, physics, reference
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


class Walk(Component):
    steps: i32


class Shot(Component):
    owner: Entity


# In which members are named, and what takes the place of a template's parameters.
OWNERS = {
    "BasicWorld": "World",
    "BasicWorlds": "BasicWorlds<Context, 4>",
    "Rows": "Rows<const Walk>",
    "NoRows": "NoRows<const Walk>",
    "WorldTable": "WorldTable<World, Walker>",
    "Lanes": "Warp",
    "Bits": "Bits<8>",
}
VALUES = {
    "f32": "1.0f", "f64": "1.0", "u32": "1u", "u64": "u64{1}", "i32": "1", "bool": "true", "vecN": "vec3{}",
    "vec2": "vec2{}", "vec3": "vec3{}", "vec4": "vec4{}", "quat": "quat{}", "f32 &": "number", "vecN &": "vector",
    "Entity": "Entity{}", "A": "1.0f", "B": "1.0f", "X": "1.0f", "Low": "1.0f", "High": "1.0f",
}  # fmt: skip


def test_the_page_is_that_of_the_headers() -> None:
    assert PAGE.read_text() == reference.page(), "python -m torch_batchsim.reference > docs/reference.md"


@pytest.mark.parametrize("section", reference.SECTIONS, ids=lambda section: section.header)
def test_hidden_names_exist(section: reference.Section) -> None:
    assert set(section.hidden) <= reference.offered_names(section)


def test_every_header_for_systems_is_on_the_page() -> None:
    """Those that tbs.h includes, but for checked_types.h with names of others, and headers of the engine's own."""
    included = set(re.findall(r'#include "(\w+\.h)"', (jit.CSRC / "tbs" / "tbs.h").read_text()))
    assert included - {"fault.h", "checked_types.h", "integers.h"} == {section.header for section in reference.SECTIONS}


@pytest.mark.parametrize("library", reference.LIBRARIES, ids=lambda library: library.title)
def test_shown_names_of_a_library_exist(library: reference.LibrarySection) -> None:
    for section in library.headers:
        assert section.shown is not None and set(section.shown) <= reference.offered_names(section)


def test_kinds_that_fields_name_are_public() -> None:
    kinds = set(re.findall(r"# an? (\w+Kind)\b", PAGE.read_text()))
    assert kinds == {"JointKind", "MotionKind", "ShapeKind"} and all(hasattr(physics, kind) for kind in kinds)


def test_names_that_pages_and_environments_use_are_on_the_page() -> None:
    """Beside what is an option's or an enumeration's name, a column, or declared by the engine's own Python."""
    root, page = PAGE.parents[1], PAGE.read_text()
    texts = [path.read_text() for folder in ("docs", "envs") for path in sorted((root / folder).rglob("*.[mh]*"))]
    used = {name for text in texts for name in re.findall(r"\b(?:physics|rays)::([a-z_]+)\b(?=\()", text)}
    assert {"box", "cast", "lidar"} <= used
    assert [name for name in sorted(used) if not re.search(rf"\b{name}\(", page)] == []


def uses() -> list[str]:
    """Statements of a system that use every name of the page: functions by calls where their types are plain."""
    lines = []
    for section in reference.SECTIONS:
        for entry in reference.entries(section):
            for name, kind, signature in zip(entry.names, entry.kinds, entry.signatures, strict=True):
                if name == "operator" or kind == "macro":
                    continue
                if entry.owner:
                    owner = OWNERS.get(entry.owner, entry.owner)
                    lines.append(f"{{ struct Its : {owner} {{ using {owner}::{name}; }}; }}")
                elif kind == "variable":
                    lines.append(f"(void)({name});")
                elif kind != "function":
                    lines.append(f"{{ using tbs::{name}; }}")
                elif call := called(name, signature):
                    lines.append(f"(void){call};")
                else:
                    lines.append(f"{{ using tbs::{name}; }}")
    return lines


def called(name: str, signature: str) -> str:
    """A call of a function without the namespace; empty where its parameters are more than plain values."""
    parameters = re.search(rf"\b{name}\((.*)\)$", signature)
    assert parameters, signature
    types = [re.sub(r" ?\w+$", "", each) if each else "" for each in parameters[1].split(", ")]
    if not all(each in VALUES for each in types):
        return ""
    given = "<f32>" if signature.startswith("template <class F>") else ""
    return f"{name}{given}({', '.join(VALUES[each] for each in types)})"


@pytest.mark.skipif("g++" not in jit.cpp_compiler(), reason="members are named as g++ allows it")
def test_each_name_compiles(tmp_path: Path) -> None:
    text = "TBS_SYSTEM void walk(World &world, Walk &walk) { walk.steps += 1; }\n"
    environment = declare(
        text,
        archetypes=(Archetype("Walker", Walk, Reward, count=1), Archetype("Bullet", Shot, capacity=4)),
        step=TaskGraph("walk"),
        observation="Walker.Walk",
        action="Walker.Walk",
        action_space=Discrete(3),
    )
    statements = uses()
    assert len(statements) > 150
    assert sum("(void)" in each for each in statements) > 60
    for needed in ("dot(", "length(", "normalize(", "::rows;", "::uniform;", "::for_each;"):
        assert any(needed in each for each in statements), needed
    unit = tmp_path / "unit.cpp"
    body = "\n    ".join(statements)
    unit.write_text(
        generate(Program(environment()), Target())
        + "namespace tbs::fence::systems {\n[[maybe_unused]] static void all_names(f32 &number, vec3 &vector) {\n    "
        + f"(void)number, (void)vector;\n    {body}\n}}\n}}\n"
    )
    command = [jit.cpp_compiler(), *jit.compiler_flags("cpu"), "-fsyntax-only", "-w", f"-I{jit.CSRC}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
