"""What a system in Python can name besides its own variables: components, options, faults, functions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..declare.fields import Layout, Struct
from ..declare.python_systems import FunctionSource, PythonFunction
from ..declare.schema import Archetype, Component
from ..errors import SchemaError
from ..types import FieldType
from .kinds import Array, Kind, Record, of_field


def refusal(source: FunctionSource, node: ast.AST, message: str) -> SchemaError:
    """The error about a part of a function that systems cannot have: file, line, message, the line itself."""
    line, column = getattr(node, "lineno", source.tree.lineno), getattr(node, "col_offset", 0)
    text = source.line(line)
    indent = len(source.lines[0]) - len(source.lines[0].lstrip())  # a tree of dedented text counts from there
    mark = f"\n{' ' * (7 + column + indent)} ^" if text else ""
    shown = f"\n{line:>5} | {text}{mark}" if text else ""
    return SchemaError(f"{source.path.name}:{line}: {message}{shown}")


@dataclass(frozen=True)
class Surroundings:
    """The declarations of a scope as its systems see them.

    Attributes:
        namespace: of the library, ``""`` of the author.
        components: by module and qualified name of the author's class: the name in C++, and the class with its values
            of constants.
        archetypes: names in C++ by names.
        constants, parameters: values by name. Of libraries that the scope sees: ``libraries``.
        faults: names, those of the engine too.
        structs: those that systems make; their scope declares them.
    """

    namespace: str
    components: Mapping[tuple[str, str], tuple[str, type[Component]]]
    archetypes: Mapping[str, str]
    constants: Mapping[str, Any]
    parameters: Mapping[str, Any]
    libraries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    faults: Sequence[str] = ()
    structs: dict[type[Struct], None] = field(default_factory=dict)

    def named(self, name: str) -> Record | None:
        """The kind of a component that the module of a system does not have, by its name in C++."""
        for written, closed in self.components.values():
            if written == name:
                return Record(written, closed, _members(closed.members))
        return None

    def record(self, cls: type) -> Record | None:
        """The kind of a component or struct; None where the environment does not have it."""
        key = getattr(cls, "__module__", ""), getattr(cls, "__qualname__", "")
        if key in self.components:
            name, closed = self.components[key]
            return Record(name, closed, _members(closed.members))
        if isinstance(cls, type) and issubclass(cls, Struct) and cls is not Struct:
            layout: Layout = cls.layout
            return Record(cls.__name__, cls, _members(layout.members))
        return None

    def made(self, given: Any) -> Record | None:
        """The kind of a component or struct of which a system makes arrays or shared memory."""
        kind = self.record(given) if isinstance(given, type) else None
        if kind is not None and issubclass(kind.of, Struct):
            self.structs[kind.of] = None
        return kind

    def archetype(self, given: Any) -> str | None:
        """The name in C++ of an archetype that is given as an object or by its name."""
        return self.archetypes.get(given.name if isinstance(given, Archetype) else given)


def _members(members: Sequence[Any]) -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for member in members:
        if isinstance(member.type, FieldType):
            found[member.name] = of_field(member.type)
            continue
        element = Record(member.type.__name__, member.type, _members(member.type.layout.members))
        found[member.name] = Array(element.cpp, element, tuple(member.shape)) if member.shape else element
    return found


@dataclass
class Written:
    """What the passes over a function have found so far: places are (line, column) of the tree.

    Attributes:
        places: parameters by name, variables and calls by place, whose memory the function writes.
        kinds: of local variables by name.
    """

    places: set[Any] = field(default_factory=set)
    kinds: dict[str, Kind] = field(default_factory=dict)


@dataclass(frozen=True)
class Signature:
    """A translated function: the kinds of its parameters, those that it writes, and its result."""

    name: str
    parameters: tuple[tuple[str, Kind], ...]
    writes: frozenset[str]
    result: Kind | None
    of: PythonFunction[Any, Any]
