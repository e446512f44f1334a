"""The pages of the reference of Python, and the public names on each. Nothing is imported: names are read from text."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "torch_batchsim"


@dataclass
class PythonPage:
    """A page: its file's name, its title, and by module the names that it shows."""

    file: str
    title: str
    names: dict[str, list[str]] = field(default_factory=dict)


# The names of torch_batchsim itself, by the modules in which they are written.
_TOP = (
    ("declare", "Declaring environments", ("declare", "base")),
    ("types", "Types of fields", ("types",)),
    ("systems", "Systems in Python", ("declare.python_systems",)),
    ("vector", "Vector environments", ("vector", "_version")),
    ("simulator", "Simulator", ("run",)),
    ("replay", "Recordings, the live page", ("replay", "watch")),
    ("errors", "Errors", ("errors",)),
)
# Names that users meet, and import from where they are written.
_BESIDE = {
    "simulator": {"declare.run_options": ["RunOptions"]},
    "errors": {"errors": ["MissingExtra", "UnalignedMemory"]},
}
_MODULES = ("math", "grid", "physics", "rays", "draw", "testing", "check", "train")
_NO_ADAPTERS = {"dm_specs", "envpool_spec", "episodes", "one_world", "records", "source", "stepping", "torchrl_specs"}
"""What adapters share; users import nothing of it."""
_OF_ALL_ADAPTERS = {"RECORD", "Ids", "play"}  # for tests and benchmarks, and of annotations


def python_pages() -> list[PythonPage]:
    """All pages, in the order of the navigation."""
    pages = {file: PythonPage(file, title, {PACKAGE: []}) for file, title, _ in _TOP}
    for name, origin in exported(PACKAGE).items():
        pages[_page_of(origin)].names[PACKAGE].append(name)
    for file, beside in _BESIDE.items():
        pages[file].names |= {f"{PACKAGE}.{module}": names for module, names in beside.items()}
    modules = [PythonPage(name, f"{PACKAGE}.{name}", {f"{PACKAGE}.{name}": public(name)}) for name in _MODULES]
    return [*pages.values(), *modules, PythonPage("adapters", f"{PACKAGE}.adapters", _adapters())]


def _page_of(module: str) -> str:
    """The page of the longest name in _TOP that is the module's, or that of a package around it."""
    fits = [(place, file) for file, _, places in _TOP for place in places if f"{module}.".startswith(f"{place}.")]
    return max(fits, key=lambda each: len(each[0]))[1]


def public_names() -> set[str]:
    """Dotted names of all that the pages show."""
    return {f"{module}.{name}" for page in python_pages() for module, names in page.names.items() for name in names}


def public(module: str) -> list[str]:
    """The names of a module: those of ``__all__``, else those that it imports under their own names or defines."""
    return list(exported(f"{PACKAGE}.{module}"))


def exported(module: str) -> dict[str, str]:
    """Public names of a module, each with the module that it is imported from, below torch_batchsim; "" for its own."""
    tree = ast.parse(_source(module).read_text())
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for each in node.names:
                if each.name == "*":
                    found |= dict.fromkeys(exported(f"{module}.{node.module}"), node.module or "")
                elif each.asname == each.name or _all(tree):
                    found[each.asname or each.name] = node.module or each.name
        else:
            found |= dict.fromkeys(_defined(node), "")
    chosen = _all(tree)
    return {name: found.get(name, "") for name in chosen or found if chosen or not name.startswith("_")}


def _adapters() -> dict[str, list[str]]:
    files = sorted((ROOT / PACKAGE / "adapters").glob("*.py"))
    modules = [file.stem for file in files if file.stem not in _NO_ADAPTERS and not file.stem.startswith("_")]
    own = {name: exported(f"{PACKAGE}.adapters.{name}") for name in modules}
    shown = {name: [each for each in names if each not in _OF_ALL_ADAPTERS] for name, names in own.items()}
    return {f"{PACKAGE}.adapters.{name}": names for name, names in shown.items()}


def _source(module: str) -> Path:
    """The file of a module; envs/ and train/ lie beside the package."""
    parts = module.split(".")
    for place in (ROOT.joinpath(*parts), ROOT.joinpath(*parts[1:])):
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return file
    raise FileNotFoundError(module)


def _all(tree: ast.Module) -> list[str]:
    """What ``__all__`` lists as text."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(each.value) for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
    return []


def _defined(node: ast.stmt) -> list[str]:
    """Classes, functions and values that a statement of a module defines."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return [node.name]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return [node.targets[0].id]
    return []
