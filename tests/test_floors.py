"""No floor of the house imports from above: docs/design.md says in which order they lie, and is read here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "torch_batchsim"
COMMANDS = ("bench", "gallery", "gpu_check")  # the floor above envs
# What others may know of the engine, beside the names of torch_batchsim itself.
KNOWN_TO = {
    "envs": {"draw", "grid", "physics", "rays", "types"},
    "train": {"command_line", "errors", "extras", "jit", "openmp"},
}


def bottom_to_top() -> list[str]:
    """The engine's modules, as the page lists them."""
    page = (ROOT / "docs" / "design.md").read_text()
    paragraph = page.partition("Within `torch_batchsim/`, bottom to top: ")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)`", paragraph)


def imports(path: Path, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted name of all that a file imports when it is run, late imports included."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            origin = (*start, *(node.module.split(".") if node.module else ()))
            yield from ((node.lineno, (*origin, alias.name)) for alias in node.names)


def part_of(name: tuple[str, ...]) -> str | None:
    """Which part of torch_batchsim a dotted name belongs to; None for what is not a module of it."""
    if name[0] != "torch_batchsim" or len(name) < 2:
        return None
    part = name[1]
    known = (ENGINE / part).is_dir() or (ENGINE / f"{part}.py").is_file() or part in ("envs", "train")
    return part if known else None


def test_the_page_lists_every_module() -> None:
    modules = {path.stem for path in ENGINE.glob("*.py") if path.stem != "__init__"}
    packages = {path.parent.name for path in ENGINE.glob("*/__init__.py")}
    order = bottom_to_top()
    assert sorted(order) == sorted(modules | packages)
    assert tuple(order[-len(COMMANDS) :]) == COMMANDS


def test_modules_of_the_engine_import_from_below() -> None:
    order = bottom_to_top()
    wrong = []
    for path in sorted(set(ENGINE.rglob("*.py")) - set(ENGINE.glob("template/*.py"))):  # an author's files
        inner = path.relative_to(ENGINE)
        own = inner.parts[0].removesuffix(".py")
        if own == "__init__":  # which hands out what there is
            continue
        for line, name in imports(path, ("torch_batchsim", *inner.parts[:-1])):
            part = part_of(name)
            below = order[: order.index(own) + 1] + (["envs", "train"] if own in COMMANDS else [])
            if part is not None and part not in below:
                wrong.append(f"torch_batchsim/{inner}:{line} imports {part}, which lies above {own}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("floor", KNOWN_TO)
def test_what_environments_and_training_know(floor: str) -> None:
    wrong = []
    for path in sorted((ROOT / floor).rglob("*.py")):
        for line, name in imports(path, ("torch_batchsim", *path.relative_to(ROOT).parts[:-1])):
            part = part_of(name)
            if part is not None and part not in {floor, *KNOWN_TO[floor]}:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports torch_batchsim.{part}")
    assert not wrong, "\n".join(wrong)


def test_the_engines_headers_include_each_other_only() -> None:
    """No header of csrc/tbs includes what libraries bring, nor itself by way of others."""
    below = {path.resolve() for path in (ROOT / "csrc" / "tbs").glob("*.*")}
    graph = {}
    for path in sorted((ROOT / "csrc" / "tbs").glob("*.*")):
        named = re.findall(r'^\s*#include "([^"]+)"', path.read_text(), re.MULTILINE)
        graph[path] = {(path.parent / name).resolve() for name in named}
        assert graph[path] <= below, f"{path.name} includes what is not the engine's: {graph[path] - below}"
    TopologicalSorter(graph).prepare()  # raises CycleError
