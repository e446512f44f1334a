"""Imports authors' modules and runs their files; an error names the file and line of theirs that failed."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType

from ..base.names import suggestion
from ..declare.environment import Environment
from ..errors import SchemaError

_SAYS_ITSELF = (NameError, AttributeError, ImportError, TypeError, ValueError, SyntaxError)  # without its kind in front


def module_named(place: str, name: str) -> ModuleType:
    """The module ``place`` of ``name``, imported, or run where it is a file.

    Raises ValueError where it cannot be, with file and line where its text is at fault.
    """
    if place.endswith(".py"):
        return _module_of_file(Path(place))
    with told_with_place():
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if not is_missing(error, place):
                raise
            raise ValueError(f"module {place!r} of {name!r} cannot be imported: {error}") from error


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles the text of a file, and leaves byte code of earlier runs aside.

    Python takes byte code as current by size and second of the file, and an edit of one digit may have both unchanged.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _module_of_file(path: Path) -> ModuleType:
    """Run a Python file as a module of its name, with its folder in the path. Raises ValueError where it is missing."""
    if not path.is_file():
        near = suggestion(path.name, [each.name for each in path.parent.glob("*.py")])
        raise ValueError(f"there is no file {path}{near}")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) and Path(loaded.__file__).resolve() == path.resolve():
        return loaded
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for modules beside it
    spec = importlib.util.spec_from_loader(path.stem, _SourceLoader(path.stem, str(path.resolve())))
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        with told_with_place():
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]  # or it would be taken for the whole one
        raise
    return module


def environment_classes(module: ModuleType) -> dict[str, type[Environment]]:
    """The classes of environments that a module defines, by their names in it; where it defines none, that it imports.

    Those of a package that it imports as a whole are not among them.
    """
    found = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Environment) and value is not Environment
    }
    own = {name: value for name, value in found.items() if value.__module__ == module.__name__}
    return own or found


def is_missing(error: ModuleNotFoundError, module: str) -> bool:
    """Whether ``module`` itself, or a package that it is in, is missing, rather than one that it imports."""
    return error.name is not None and f"{module}.".startswith(f"{error.name}.")


@contextmanager
def told_with_place() -> Iterator[None]:
    """Let an error in the text of an author's module be a ValueError, or a SchemaError, with file and line in front."""
    try:
        yield
    except Exception as error:
        place = _place(error)
        if place is None:
            raise
        kind = SchemaError if isinstance(error, SchemaError) else ValueError
        raise kind(f"{place}: {_said(error)}") from error


def _place(error: Exception) -> str | None:
    """``game.py:33``: the last line of the author's that was reached; None where none was."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    installed = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = {*installed, str(Path(__file__).resolve().parents[1])}
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_within(frame.filename, others)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else None


def _is_within(file: str, folders: Iterable[str]) -> bool:
    return file.startswith("<") or any(file.startswith(f"{folder}/") for folder in folders)


def _said(error: Exception) -> str:
    """The message of an error, with the nearest name: Python adds that only when it prints a traceback."""
    if isinstance(error, SyntaxError):
        return error.msg
    text = str(error) if isinstance(error, _SAYS_ITSELF) else f"{type(error).__name__}: {error}"
    near = suggestion(error.name, _names(error)) if getattr(error, "name", None) else ""
    missing = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", text)
    if missing:
        text, near = missing[0], suggestion(missing[1], dir(sys.modules.get(missing[2])))
    return f"{text}{near}"


def _names(error: Exception) -> list[str]:
    """The names that there were instead."""
    if isinstance(error, AttributeError):
        return dir(error.obj)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not isinstance(error, NameError) or not frames:
        return []
    return [*frames[-1].f_locals, *frames[-1].f_globals, *vars(builtins)]
