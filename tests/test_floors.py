"""No package imports from above, and no modules import each other in a circle.

docs/design.md lists the packages from the bottom to the top; this reads the list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ROOT / "torch_batchsim"
GROUND = ["errors", "base", "types", "draw"]  # below all packages
# What environments and trainers may know of the engine, beside the names of torch_batchsim itself.
KNOWN_TO = {
    "envs": {"base.names", "draw", "grid", "math", "physics", "rays", "types"},
    "train": {"command_line", "errors", "base.extras", "base.modes", "base.openmp", "base.shared", "build.jit"},
}


def order() -> list[str]:
    """The ground and the packages above it, bottom to top, as the page lists them: ``1. `declare/` ...``."""
    return [*GROUND, *re.findall(r"^\d+\. `(\w+)/`", (ROOT / "docs" / "design.md").read_text(), re.MULTILINE)]


@cache
def modules() -> dict[str, Path]:
    """All modules below torch_batchsim by their names there: ``declare.fields``, ``envs.cartpole.env``."""
    found = {}
    for folder, prefix in ((ENGINE, ()), (ROOT / "envs", ("envs",)), (ROOT / "train", ("train",))):
        for path in sorted(set(folder.rglob("*.py")) - set(ENGINE.glob("template/*.py"))):  # an author's files
            parts = [*prefix, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str, path: Path, for_types: bool = True) -> tuple[tuple[int, str], ...]:
    """Line and name of each module that a file imports, late imports included."""
    return tuple(_imports(module, path, for_types))


def _imports(module: str, path: Path, for_types: bool) -> Iterator[tuple[int, str]]:
    package = ["torch_batchsim", *module.split(".")] if module else ["torch_batchsim"]
    package = package if path.name == "__init__.py" else package[:-1]
    tree = ast.parse(path.read_text())
    conditions = (n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    left_out = set() if for_types else {id(part) for node in conditions for part in ast.walk(node)}
    for node in ast.walk(tree):
        names: list[str] = []
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        for name in names:
            inner = name.removeprefix("torch_batchsim.")
            if inner == name:
                continue
            found = next((part for part in (inner, inner.rpartition(".")[0]) if part in modules()), "")
            if found and found != module:
                yield node.lineno, found


def test_the_page_lists_nine_packages_that_exist() -> None:
    assert len(order()) == len(GROUND) + 8  # base, the ninth, is on the ground
    assert all((ENGINE / name).is_dir() or (ENGINE / f"{name}.py").is_file() for name in order())


def test_the_page_lists_all_modules() -> None:
    beside = (ROOT / "docs" / "design.md").read_text().partition("Beside them stand")[2]
    listed = {*order(), *re.findall(r"`(\w+)/?`", beside.partition(" may import")[0])}
    found = {path.stem for path in ENGINE.iterdir() if (path / "__init__.py").is_file() or path.suffix == ".py"}
    assert found | {"template"} == listed | {"__init__", "__main__", "_version"}


def test_packages_import_from_below() -> None:
    known = order()
    wrong = []
    for module, path in modules().items():
        own = module.partition(".")[0]
        if own not in known:
            continue
        for line, name in imports(module, path):
            if name.partition(".")[0] not in known[: known.index(own) + 1]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}, which lies above {own}")
    assert not wrong, "\n".join(wrong)


def test_packages_of_training_import_from_below() -> None:
    listed = re.findall(r"^\d+\. `(\w+)/`", (ROOT / "train" / "__init__.py").read_text(), re.MULTILINE)
    assert listed and set(listed) == {path.parent.name for path in (ROOT / "train").glob("*/__init__.py")}
    wrong = []
    for module, path in modules().items():
        own = module.split(".")[1] if module.startswith("train.") else ""
        for line, name in imports(module, path) if own in listed else ():
            package = name.removeprefix("train.").partition(".")[0]
            if name.partition(".")[0] == "train" and package not in listed[: listed.index(own) + 1]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}, which lies above {own}")
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    graph = {module: {name for _, name in imports(module, path)} for module, path in modules().items() if module}
    TopologicalSorter(graph).prepare()  # raises CycleError


@pytest.mark.parametrize("floor", KNOWN_TO)
def test_what_environments_and_training_know(floor: str) -> None:
    wrong = []
    for module, path in modules().items():
        if module.partition(".")[0] != floor:
            continue
        for line, name in imports(module, path):
            if name.partition(".")[0] != floor and name not in KNOWN_TO[floor]:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports torch_batchsim.{name}")
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
