"""Infos that are one field of several, or of a singleton: a column of the agents, which a generated system fills.

Outputs are whole columns with the vector environment's rows, so that each is one dense tensor. So such a field gets a
column of its own, written at the end of ``observe``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..declare.columns import Column
from ..declare.declaration import ENGINE_HEADERS
from ..declare.fields import Field, Member, between
from ..declare.roles import Declared
from ..declare.schema import Component
from ..errors import SchemaError
from ..read.cpp_text import Source, read_source
from ..read.systems import Unit
from ..types import FieldType
from .scopes import Scopes
from .tables import Tables

SYSTEM = "deliver_infos"
PATH = ENGINE_HEADERS.resolve() / "generated" / "infos.h"
"""Of the generated text, which is in no file."""
_ROLES = ("info", "critic")


@dataclass(frozen=True)
class Delivery:
    """An info that is copied.

    Attributes:
        role, key: as declared.
        column: in which its fields are; ``fields`` are some or all of these, ``component`` holds copies of them.
    """

    role: str
    key: str
    column: Column
    fields: tuple[Field, ...]
    component: type[Component]


def deliveries(declared: Declared, tables: Tables) -> list[Delivery]:
    """The infos and critics that name one field of several, or a singleton or a field of it.

    Raises SchemaError for a whole singleton with fields of several types.
    """
    found: list[Delivery] = []
    agents = _split(declared.names["action"].get("", ""), tables.columns)
    for role in _ROLES:
        for key, name in declared.names[role].items():
            split = _split(name, tables.columns)
            if split is None or agents is None or split[0].scratch:
                continue
            column, field_name = split
            if not column.singleton and (column.table != agents[0].table or len(column.component.fields) == 1):
                continue
            fields = tuple(f for f in column.component.fields if field_name in ("", f.name))
            if not fields or (not column.singleton and not field_name):
                continue
            if len({field.type.dtype for field in fields}) > 1:
                each = {f.name.replace(".", "_"): f"{column.name}.{f.name}" for f in fields}
                raise SchemaError(
                    f"{declared.title}: {role} {key!r} is {name!r}, whose fields have several types, and must be a "
                    f"dense tensor of one: name its fields, {each}"
                )
            own = f"info_{key}" if key.isidentifier() else f"info_{len(found)}_"
            found.append(Delivery(role, key, column, fields, _component(own, fields)))
    return found


def _split(name: str, columns: Mapping[str, Column]) -> tuple[Column, str] | None:
    """The column of ``"Cart.CartState.x"``, and the name of the field; None for what does not exist."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        column = columns.get(".".join(parts[:end]))
        if column is not None:
            return column, ".".join(parts[end:])
    return None


def _component(name: str, fields: Sequence[Field]) -> type[Component]:
    """A component with copies of fields, and their ranges."""
    members: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    for field in fields:
        own = _own_name(field)
        members["__annotations__"][own] = field.type
        if field.low is not None:
            members[own] = between(field.low, field.high)
    return type(name, (Component,), members)


def _own_name(field: Field) -> str:
    return field.name.replace(".", "_")


def renamed(declared: Declared, found: Sequence[Delivery]) -> Declared:
    """The declaration with the columns of copies in place of what they copy."""
    action = declared.names["action"][""]
    names = {role: dict(keyed) for role, keyed in declared.names.items()}
    for each in found:
        names[each.role][each.key] = f"{action.partition('.')[0]}.{each.component.__name__}"
    return replace(declared, names=names)


def source_of(found: Sequence[Delivery], scopes: Scopes) -> tuple[Unit, Source]:
    """The generated system: it takes each column once."""
    kinds = list(dict.fromkeys(each.column.component for each in found))
    taken = [f"const {scopes.written(kind, '')} &from_{number}" for number, kind in enumerate(kinds)]
    taken += [f"{each.component.__name__} &to_{number}" for number, each in enumerate(found)]
    lines = [f"TBS_SYSTEM void {SYSTEM}({', '.join(['World &world', *taken])}) {{", "    (void)world;"]
    for number, each in enumerate(found):
        origin = kinds.index(each.column.component)
        for field in each.fields:
            lines += _copy(f"from_{origin}", each.column.component.members, field, f"to_{number}.{_own_name(field)}")
    return Unit(PATH), read_source(PATH, "\n".join([*lines, "}", ""]))


def _copy(origin: str, members: Sequence[Member], field: Field, to: str) -> Iterator[str]:
    """The statements that copy a field, an element at a time."""
    front, counts = "    ", []
    for part in field.name.split("."):
        member = next(each for each in members if each.name == part)
        is_field = isinstance(member.type, FieldType)
        extents = member.type.shape if is_field else member.shape
        indices = "".join(f"[i{len(counts) + k}]" for k in range(len(extents)))
        counts += extents
        origin, to = f"{origin}.{part}{indices}", f"{to}{indices}"
        members = () if is_field else member.type.layout.members
    for number, count in enumerate(counts):
        yield f"{front}for (u32 i{number} = 0; i{number} < {count}; ++i{number})"
        front += "    "
    yield f"{front}{to} = {origin};"
