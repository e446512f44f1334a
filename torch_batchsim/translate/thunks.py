"""Calls of the engine that the Python executor makes through the compiled library, so that their bits are its."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .kinds import ENTITY, STREAM, VOID, Array, Kind, Maybe, Number, Record, Rows, Tables, Vector

STREAM_BYTES = 256  # as much as Python keeps for a Random


@dataclass(frozen=True)
class Thunk:
    """A call: ``template`` has ``{0}``, ``{1}`` for the arguments, ``{w}`` for the world, ``{l}`` for the lanes.

    Its names are those of a ``namespace``, ``""`` for the author's.
    """

    namespace: str
    template: str
    takes: tuple[Kind, ...]
    gives: Kind

    def text(self, number: int) -> str:
        """The C++ function: it gets the world (or lanes), addresses of arguments, and the address of the result."""
        lines = []
        names = []
        for place, kind in enumerate(self.takes):
            if isinstance(kind, Array):
                lines.append(f"const {kind.cpp} *a{place} = static_cast<const {kind.cpp} *>(a[{place}]);")
            else:
                lines.append(f"const {kind.cpp} &a{place} = *static_cast<const {kind.cpp} *>(a[{place}]);")
            names.append(f"a{place}")
        call = self.template
        for place, name in enumerate(names):
            call = call.replace(f"{{{place}}}", name)
        call = call.replace("{w}", "(*static_cast<World *>(w))").replace("{l}", "(*static_cast<Warp *>(w))")
        call = call.replace("{{", "{").replace("}}", "}")
        if self.gives == VOID:
            lines.append(f"{call};")
        elif isinstance(self.gives, Tables):  # how many, and three numbers of each and the places of its rows
            lines.append("u64 *out = static_cast<u64 *>(r) + 1;")
            call = call.replace("{visit}", "[&](auto table, auto... rows) { *out++ = table.number; "
                                "*out++ = table.first; *out++ = table.count; "
                                "((*out++ = rows.there ? reinterpret_cast<u64>(rows.first) : 0), ...); }")
            lines.append(f"{call}; *static_cast<u64 *>(r) = u64(out - static_cast<u64 *>(r) - 1);")
        elif self.gives == STREAM:
            lines.append(f"const Random stream = {call}; static_assert(sizeof stream <= {STREAM_BYTES});")
            lines.append("__builtin_memcpy(r, &stream, sizeof stream);")
        elif isinstance(self.gives, Rows):
            lines.append(f"const auto rows = {call}; auto *out = static_cast<u64 *>(r);")
            lines.append("out[0] = reinterpret_cast<u64>(rows.first); out[1] = rows.count;")
        elif isinstance(self.gives, (Maybe, Record)):
            mark = "" if isinstance(self.gives, Maybe) else "&"
            lines.append(f"*static_cast<u64 *>(r) = reinterpret_cast<u64>({mark}{call});")
        else:
            assert isinstance(self.gives, (Number, Vector)) or self.gives == ENTITY
            lines.append(f"*static_cast<{self.gives.cpp} *>(r) = {call};")
        parameters = "[[maybe_unused]] void *w, [[maybe_unused]] void *const *a, [[maybe_unused]] void *r"
        return f"TBS_CALLED void thunk_{number}({parameters}) {{ {' '.join(lines)} }}"


@dataclass
class Thunks:
    """All of a program; a record is a component, struct, array or handle that Python makes."""

    numbers: dict[Thunk, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    kinds: list[Kind] = field(default_factory=list)

    def number(self, thunk: Thunk) -> int:
        return self.numbers.setdefault(thunk, len(self.numbers))

    def record(self, kind: Kind) -> int:
        if str(kind) not in self.records:
            self.records[str(kind)] = len(self.kinds)
            self.kinds.append(kind)
        return self.records[str(kind)]

    def texts(self, namespace: str) -> Iterator[str]:
        for thunk, number in self.numbers.items():
            if thunk.namespace == namespace:
                yield thunk.text(number)
