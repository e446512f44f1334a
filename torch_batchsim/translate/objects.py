"""Systems in Python: strings of bits, several worlds at a time, all archetypes, and memory and copies of lanes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..base.names import suggestion
from ..declare.python_systems import Bits, copy_elements, write_bits, write_packed_bits
from .calls import SHARED, Calls
from .expressions import Value
from .kinds import (
    BOOL,
    ENTITY,
    I32,
    STREAM,
    U32,
    U64,
    VOID,
    Array,
    BitString,
    Number,
    Opaque,
    Rows,
    RowsOfSome,
    Tables,
)

_WRITERS = (write_bits, write_packed_bits, copy_elements)


class Objects(Calls):
    """Translates what these objects can be asked."""

    def call_of_object(self, node: ast.Call, given: Any) -> Value:
        if given is Bits:
            raise self.refuse(node, "give the bits a name first: bits = Bits(143)")
        if given in _WRITERS:
            return self.on_lanes(node, given)
        return super().call_of_object(node, given)

    def method(self, node: ast.Call, owner: Value, name: str) -> Value:
        kind = owner.kind
        if isinstance(kind, BitString):
            return self.of_bits(node, owner, kind, name)
        if kind.cpp == "Worlds" and name == "repetition":
            self.arguments(node, 0, 0, "worlds.repetition")
            return self.engine_of_worlds(node, owner)
        if kind.cpp == "WorldTable":
            return self.of_table(node, owner, name)
        if kind == STREAM:
            return self.draw(node, owner, name)
        return super().method(node, owner, name)

    # ---- bits --------------------------------------------------------------------------------------------------------

    def of_bits(self, node: ast.Call, owner: Value, kind: BitString, name: str) -> Value:
        forms = {"append": ("value", "count"), "append_thermometer": ("ones", "count"), "store": ("words",)}
        if name not in forms:
            raise self.refuse(node, f"Bits have no {name!r}{suggestion(name, forms)}; they have {', '.join(forms)}")
        values = self.arguments(node, len(forms[name]), None, f"{name}({', '.join(forms[name])})")
        if name == "store":
            (words,) = values
            if not kind.size:
                raise self.refuse(node, "a function takes Bits of any size: store them where they were made")
            self.check_words(node, words, kind.size)
            self.note_write(node.args[0], words)
        else:
            self.note_write(node.func, owner)
            for each, value in zip(node.args, values, strict=True):
                if not isinstance(value.kind, Number) or value.kind.is_float:
                    raise self.refuse(each, f"{name} takes integers, got {value.kind}")
            first, count = values
            if name == "append":
                first = self.stored_as(node.args[0], U64, first)
            else:  # fewer than none are none
                first = self.stored_as(node.args[0], I32, first)
                text = first.text if (first.literal or -1) >= 0 else f"max({first.text}, 0)"
                first = replace(first, text=f"u32({text})", atom=True)
            values = [first, self.stored_as(node.args[1], U32, count)]
        names = ", ".join(f"_{number}" for number in range(1, len(values) + 1))
        text = f"{owner.text}.{name}({', '.join(value.text for value in values)})"
        return Value(VOID, text, self.python(node, f"_0.{name}({names})", owner, *values))

    def check_words(self, node: ast.AST, words: Value, size: int) -> None:
        count = -(-size // 64)
        if not isinstance(words.kind, Array) or words.kind.element != U64 or words.kind.shape != (count,):
            raise self.refuse(node, f"{size} bits lie in words: u64[{count}], got {words.kind}")

    def on_lanes(self, node: ast.Call, given: Callable[..., Any]) -> Value:
        """``write_bits(words, out, warp)``, ``copy_elements(to, source, warp)``."""
        name = given.__name__
        first, second, lanes = self.arguments(node, 3, None, name)
        if lanes.kind.cpp not in ("Warp", "Block"):
            raise self.refuse(node, f"{name} takes warp or block last, got {lanes.kind}")
        if given is copy_elements:
            if not isinstance(first.kind, Array) or first.kind != second.kind:
                raise self.refuse(node, f"{name} takes two arrays of one type, got {first.kind} and {second.kind}")
            self.note_write(node.args[0], first)
            count, start = 1, "[0]" * len(first.kind.shape)
            for extent in first.kind.shape:
                count *= extent
            places = [f"&{value.inner}{start}" for value in (first, second)]
        else:
            out = second.kind
            if not isinstance(out, Array) or not isinstance(out.element, Number) or len(out.shape) != 1:
                raise self.refuse(node, f"{name} writes an array with one index of numbers or booleans, got {out}")
            count = out.shape[0] * (8 if given is write_packed_bits else 1)
            self.check_words(node, first, count)
            self.note_write(node.args[1], second)
            places = [first.text, second.text]
        text = f"{name}<{count}>({', '.join([*places, lanes.text])})"
        return Value(VOID, text, self.python(node, f"lanes_{name}(_0, _1)", first, second))

    # ---- several worlds ----------------------------------------------------------------------------------------------

    def engine_of_worlds(self, node: ast.Call, owner: Value) -> Value:
        first = replace(owner, kind=Opaque("World"), tree=self.python(node, "_0[0]", owner))
        return self.engine(node, f"i32({owner.text}.repetition())", [], I32, first, in_thunk="i32({w}.repetition())")

    # ---- all archetypes ----------------------------------------------------------------------------------------------

    def tables_of(self, node: ast.Call, targets: list[tuple[str, Any]]) -> tuple[Value, list[str], Value, Tables]:
        """The world, the components as C++ names them, and what Python loops over, of ``world.tables(...)``.

        Args:
            targets: names of the rows, with the places that say whether they are written.
        """
        assert isinstance(node.func, ast.Attribute)
        owner, taken, elements = self.value(node.func.value), [], []
        for each, (_, place) in zip(node.args, targets, strict=True):
            lacking = isinstance(each, ast.BinOp) and isinstance(each.op, ast.BitOr) and _is_none(each.right)
            kind = self.component(each.left if lacking else each)  # type: ignore[attr-defined]
            text = kind.cpp if place in self.written.places else f"const {kind.cpp}"
            taken.append(f"Optional<{text}>" if lacking else text)
            elements.append((RowsOfSome if lacking else Rows)(kind.cpp, kind))
        if all(isinstance(each, RowsOfSome) for each in elements):
            raise self.refuse(node, "one component at least stands without | None")
        kind = Tables("tables", tuple(elements))
        form = f"{{w}}.tables<{', '.join(taken)}>({{{{visit}}}})"
        loop = self.engine(node, form, [], kind, owner, in_thunk=form.replace("{{visit}}", "{visit}"))
        return owner, taken, loop, kind

    def of_table(self, node: ast.Call, owner: Value, name: str) -> Value:
        """``table.entity(i)``, ``table.index_of(entity)``, ``table.place(i, k)``."""
        world, taken = owner.kind.values  # type: ignore[attr-defined]
        number = Value(I32, f"i32({owner.text}.number)", self.python(node, "_0.number", owner))
        if name == "place":
            values = self.arguments(node, 1, 2, "table.place")
            values = [self.stored_as(each, U32, value) for each, value in zip(node.args, values, strict=True)]
            values = [*values, *[self.to(U32, self.integer(0, node), node)] * (2 - len(values))]
            form = f"{owner.text}.place({{0}}, {{1}})"
            return self.engine(node, form, [*values, number], I32, world, in_thunk="fault_place(u32({2}), {0}, {1})")
        if name == "entity":
            self.wanted(node, "table.entity(index)", 1)
            value = self.stored_as(node.args[0], U32, self.value(node.args[0]))
            result, start, text = ENTITY, "Entity{}", f"{owner.text}.entity({{0}})"
        elif name == "index_of":
            self.wanted(node, "table.index_of(entity)", 1)
            value = self.entity(node.args[0])
            result, start, text = I32, "-1", f"i32({owner.text}.index_of({{0}}))"
        else:
            known = ("first", "count", "number", "entity", "index_of", "place")
            raise self.refuse(node, f"a table has no {name!r}{suggestion(name, known)}; it has {', '.join(known)}")
        one = text.replace(owner.text, "table", 1)
        found = f"auto found = {result.cpp}({start});" if result == I32 else "Entity found{};"
        in_thunk = (
            f"[&] {{ {found} {{w}}.tables<{taken}>([&](auto table, auto...) "
            f"{{ if (i32(table.number) == {{1}}) found = {one}; }}); return found; }}()"
        )
        return self.engine(node, text, [value, number], result, world, in_thunk=in_thunk)

    def of_most_rows(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, "world.most_rows(Component, ...)", 1, 16)
        names = ", ".join(self.component(each).cpp for each in node.args)
        return self.engine(node, f"i32(World::most_rows<{names}>())", [], I32, owner)

    # ---- random numbers ----------------------------------------------------------------------------------------------

    def draw(self, node: ast.Call, owner: Value, name: str) -> Value:
        if name == "shuffle":
            return self.shuffle(node, owner)
        if owner.kind == STREAM:
            self.note_stream(node, owner)
        return super().draw(node, owner, name)

    def note_stream(self, node: ast.AST, owner: Value) -> None:
        if owner.place in self.outside:
            raise self.refuse(node, "all lanes run this at once: take world.random_of(i) in it")

    def shuffle(self, node: ast.Call, owner: Value) -> Value:
        items, n = self.arguments(node, 2, None, "shuffle(items, n)")
        if not isinstance(items.kind, Array) or len(items.kind.shape) != 1:
            raise self.refuse(node, f"shuffle takes an array with one index, got {items.kind}")
        self.note_write(node.args[0], items)
        extent = items.kind.shape[0]
        count = self.stored_as(node.args[1], U32, n)
        count = replace(count, tree=self.python(node, f"within(_0, {extent + 1})", count))
        plain = f"const_cast<{items.kind.cpp} *>({{0}})"
        if owner.kind == STREAM:
            self.note_stream(node, owner)
            in_thunk = f"const_cast<Random &>({{2}}).shuffle({plain}, {{1}})"
            return self.engine(node, "{2}.shuffle({0}, {1})", [items, count, owner], VOID, in_thunk=in_thunk)
        world, item = owner.kind.values  # type: ignore[attr-defined]
        given = "" if item is None else "{2}"
        values = [items, count, *([] if item is None else [item])]
        form = f"{{w}}.random({given}).shuffle"
        return self.engine(
            node, f"{form}({{0}}, {{1}})", values, VOID, world, in_thunk=f"{form}({plain}, {{1}})"
        )

    # ---- lanes -------------------------------------------------------------------------------------------------------

    def of_lanes(self, node: ast.Call, owner: Value, name: str) -> Value:
        if name == "shared":
            return self.shared(node, owner)
        if name not in ("ballot", "broadcast", "scan"):
            return super().of_lanes(node, owner, name)
        forms = {"ballot": ("n", "condition"), "broadcast": ("item", "value"), "scan": ("n", "term", "take")}[name]
        if len(node.args) != len(forms) or node.keywords:
            raise self.refuse(node, f"write {owner.text}.{name}({', '.join(forms)})")
        count = self.stored_as(node.args[0], U32, self.value(node.args[0]))
        body = self.operation_body(node.args[1], ("item",))
        parts = [count, body]
        result = U32 if name == "ballot" else body.kind
        if name == "ballot" and body.kind != BOOL:
            raise self.refuse(node.args[1], f"ballot takes a condition, got {body.kind}")
        if name == "broadcast" and not isinstance(body.kind, Number):
            raise self.refuse(node.args[1], f"broadcast takes a number, got {body.kind}")
        if name == "scan":
            if body.kind != I32:
                raise self.refuse(node.args[1], f"scan takes terms of i32, got {body.kind}; convert by i32(...)")
            parts.append(self.operation_body(node.args[2], ("item", "before")))
        names = ", ".join(f"_{number}" for number in range(len(parts)))
        tree = self.python(node, f"lanes_{name}({names})", *parts)
        return Value(result, f"{owner.text}.{name}({', '.join(part.text for part in parts)})", tree)

    def shared(self, node: ast.Call, owner: Value) -> Value:
        self.wanted(node, f"{owner.text}.shared(Struct)", 1)
        given = self.static(node.args[0])
        kind = self.around.made(given)
        if kind is None:
            raise self.refuse(node, f"{ast.unparse(node.args[0])} is no struct or component of the environment")
        place = (SHARED, node.lineno, node.col_offset)
        number = self.thunks.record(kind)
        tree = self.python(node, f"_0.shared(record_{number})", owner)
        return Value(kind, f"{owner.text}.shared<{kind.cpp}>()", tree, place=place)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
