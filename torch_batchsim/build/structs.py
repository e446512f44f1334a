"""Writes the C++ structs of declarations, each scope's in a namespace of its own, and names them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import Any

from ..base import shared
from ..base.numbers import NUMBERS
from ..base.shared import BUILTIN_FAULTS
from ..declare.fields import Layout, Member
from ..declare.roles import ENGINE_COMPONENTS
from ..declare.schema import Archetype, Component
from ..read.systems import System
from ..resolve.program import Program
from ..resolve.scopes import Scope, namespace_of
from ..types import FIELD_TYPES, FieldType

AUTHOR_NAMESPACE = "systems"  # within tbs::fence, see csrc/tbs/poison.h

_OPTION_NUMBERS = {bool: NUMBERS["boolean"], int: NUMBERS["i32"], float: NUMBERS["f32"]}
_OPTION_CTYPES = {bool: ctypes.c_bool, int: ctypes.c_int32, float: ctypes.c_float}


def cpp_namespace(scope: str) -> str:
    """The namespace of a library's text and structs, or with ``""`` of the author's: both find the engine's names."""
    return f"tbs::fence::{scope or AUTHOR_NAMESPACE}"


def cpp_name(declared: type[Component] | Archetype) -> str:
    """The name of a component or an archetype in the engine's code, which no name of the author's can hide."""
    if declared in ENGINE_COMPONENTS.values():
        return f"tbs::{declared.__name__}"
    return f"{cpp_namespace(namespace_of(declared))}::{_own_name(declared)}"


def cpp_function(system: System) -> str:
    return f"{cpp_namespace(system.namespace)}::{system.name.rpartition('.')[2]}"


def _own_name(declared: type[Component] | Archetype) -> str:
    return declared.name.rpartition(".")[2] if isinstance(declared, Archetype) else declared.__name__


def parameters_structure(program: Program) -> type[ctypes.Structure]:
    """The ``ctypes`` twin of the author's ``Parameters``, with those of each library as a structure in it."""
    fields = _parameter_types(program.scopes.author)
    for name, scope in program.scopes.libraries.items():
        own = _parameter_types(scope)
        if own:
            fields.append((name, type(f"{name}_Parameters", (ctypes.Structure,), {"_fields_": own})))
    return type("Parameters", (ctypes.Structure,), {"_fields_": fields or [("none", ctypes.c_int32)]})


def _parameter_types(scope: Scope) -> list[tuple[str, type]]:
    return [(name, _OPTION_CTYPES[type(value)]) for name, value in scope.parameters.items()]


def scope_structs(program: Program, scope: Scope) -> Iterator[str]:
    """The declarations of one scope: constants, faults, components, tags of archetypes, the author's parameters."""
    namespace = cpp_namespace(scope.name)
    yield f"namespace {namespace} {{"
    yield from constants(scope.constants)
    yield from _faults(program, scope)
    yield from _enums(scope)
    yield scope.declaration.definitions
    if not scope.name:
        yield from _parameters(program)
    for struct in scope.structs:
        yield f"struct {struct.__name__} {{"
        yield from (f"    {_declaration(member)};" for member in struct.layout.members)
        yield "};"
        yield from _checks(struct.__name__, struct.layout)
    for component in scope.all_components:
        if component not in ENGINE_COMPONENTS.values() and namespace_of(component) == scope.name:
            yield from component_struct(component)
    for archetype in scope.archetypes:
        yield f"struct {_own_name(archetype)} {{}};"
    yield f"}}  // namespace {namespace}"


_MOST_NUMBERED = 254


def numbered_types(program: Program) -> list[tuple[str, str]]:
    """Types that a device reports by their number: the names in authors' texts and in the engine's C++."""
    own = [("char", "char"), ("i64", "long long"), ("u64", "unsigned long long")]
    own += [(kind.c_type, _c_type(kind.c_type)) for kind in FIELD_TYPES.values()]
    for scope in program.scopes:
        structs = [(struct.__name__, f"{cpp_namespace(scope.name)}::{struct.__name__}") for struct in scope.structs]
        own += structs
    own += [(component.__name__, cpp_name(component)) for component in program.components]
    return list({cpp: (name, cpp) for name, cpp in own}.values())[:_MOST_NUMBERED]


def type_numbers(program: Program) -> Iterator[str]:
    """C++ that gives a device the numbers of types."""
    yield "namespace tbs::checks {"
    for number, (_, cpp) in enumerate(numbered_types(program)):
        yield f"template <> inline constexpr u64 type_number<{cpp}> = {number};"
    yield "}  // namespace tbs::checks"


def constants(values: Mapping[str, Any]) -> Iterator[str]:
    """The struct with the constants of a scope."""
    yield "struct Constants {"
    for name, value in values.items():
        if not isinstance(value, str):
            yield f"    static constexpr {_option_type(value)} {name} = {_literal(value)};"
    yield "};"


def _faults(program: Program, scope: Scope) -> Iterator[str]:
    own = (f"{name} = {program.faults.index(scope.prefix + name)}" for name in scope.faults)
    yield f"enum class Fault : ::tbs::u32 {{ {', '.join([*BUILTIN_FAULTS, *own])} }};"


def _enums(scope: Scope) -> Iterator[str]:
    """Enumerations; of one byte where that holds them, as their columns are."""
    for given in scope.enums:
        codes = {name: int(member) for name, member in given.__members__.items()}
        c_type = "u8" if all(0 <= code < 256 for code in codes.values()) else "i32"
        yield shared.enumeration(given.__name__, codes, _c_type(c_type), scoped=False)


def _option_type(value: bool | int | float) -> str:
    return _c_type(_OPTION_NUMBERS[type(value)].c_type)


def _literal(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Rounded to 32 bits here, because nvcc warns of a number that it rounds.
    return f"{ctypes.c_float(value).value.hex()}f" if isinstance(value, float) else f"({value})"


def _parameters(program: Program) -> Iterator[str]:
    yield "struct Parameters {"
    own = program.scopes.author.parameters
    for name, value in own.items():
        yield f"    {_option_type(value)} {name};"
    for name, scope in program.scopes.libraries.items():
        members = "".join(f" {_option_type(value)} {key};" for key, value in scope.parameters.items())
        if members:
            yield f"    struct {{{members} }} {name};"
    if not program.parameters:
        yield "    ::tbs::i32 none;"
    yield "};"


def component_struct(component: type[Component]) -> Iterator[str]:
    yield f"struct alignas({component.alignment}) {component.__name__} {{"
    yield from (f"    {_declaration(member)};" for member in component.members)
    yield "};"


def layout_checks(component: type[Component]) -> Iterator[str]:
    name = cpp_name(component)
    yield f"static_assert(sizeof({name}) == {component.size} && alignof({name}) == {component.alignment});"
    yield from (f"static_assert(offsetof({name}, {member.name}) == {member.offset});" for member in component.members)


def _checks(name: str, layout: Layout) -> Iterator[str]:
    """That a struct in components lies as ``fields`` has laid it out."""
    yield f"static_assert(sizeof({name}) == {layout.size} && alignof({name}) == {layout.alignment});"
    yield from (f"static_assert(offsetof({name}, {member.name}) == {member.offset});" for member in layout.members)


def _declaration(member: Member) -> str:
    kind = member.type
    c_type = _c_type(kind.c_type) if isinstance(kind, FieldType) else kind.__name__
    return f"{c_type} {member.name}" + "".join(f"[{extent}]" for extent in member.shape)


def _c_type(name: str) -> str:
    """A type of the engine's, as seen from the author's namespace."""
    return name if name == "bool" else f"::tbs::{name}"
