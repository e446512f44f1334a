"""Statements of systems in Python as C++, each on the line that it has in the Python file."""

from __future__ import annotations

import ast
import copy
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..base.constant import resolved
from ..base.names import CPP_KEYWORDS, suggestion
from ..base.numbers import CPP_WORDS
from ..declare.fields import StructArray
from ..declare.python_systems import Bits, Block, Episode, PythonSystem, Row, SeveralWorlds, Warp, World, zeros
from ..errors import SchemaError
from ..types import FieldType
from .calls import items_of
from .expressions import MISSING, SEVERAL, Value, Variable
from .kinds import (
    ENTITY,
    F32,
    OF_PYTHON,
    STREAM,
    VOID,
    Array,
    BitString,
    Kind,
    Maybe,
    Number,
    Opaque,
    Record,
    Rows,
    Vector,
    of_field,
)
from .objects import Objects
from .surroundings import Signature

_ENGINE = {World: "World", Episode: "Episode", Row: "Row", Warp: "Warp", Block: "Block"}
_OF_EXTENTS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


class Statements(Objects):
    """Translates one function: ``lines`` are the texts by line of the file."""

    def translated(self) -> Signature:
        """One pass over the function. Repeat it until ``written`` stays as it is."""
        tree = self.source.tree
        self.lines: dict[int, list[str]] = {}
        self.trees: list[ast.stmt] = []  # of the present block, for Python
        self.check_name(tree, tree.name)
        parameters = self.parameters()
        taken = {arg.arg for arg in tree.args.args}
        self.blocks = _blocks_of_names(tree.body, taken)
        self.hoists = any(first is None for owned in self.blocks.values() for first in owned.values())
        self.results: list[tuple[ast.Return, Value | None]] = []
        ends = self.block(tree.body)
        arguments = ast.arguments([], [ast.arg(name) for name, _ in parameters], None, [], [], None, [])
        own_tree = ast.FunctionDef(tree.name, arguments, self.trees or [ast.Pass()], [])
        self.tree: ast.stmt = (
            own_tree if not self.with_trees else ast.fix_missing_locations(ast.copy_location(own_tree, tree))
        )
        result = self.result(ends)
        is_system = isinstance(self.function, PythonSystem)
        if is_system and result is not None:
            raise self.refuse(
                self.results[0][0], f"system {tree.name} returns a value; it writes results into components"
            )
        head = "TBS_SYSTEM void" if is_system else f"TBS_FUNCTION {result.cpp if result else 'void'}"
        body = " ".join(text for texts in self.lines.values() for text in texts)
        taken_texts = [
            text if re.search(rf"\b{name}\b", body) else re.sub(rf"\b{name}\b(?=[)\[]*)$", "", text).rstrip()
            for name, text in parameters
        ]
        sizes = [f"u32 {name}_size" for name, _ in parameters if isinstance(self.variables[name].kind, BitString)]
        head = f"template <{', '.join(sizes)}> {head}" if sizes else head
        signature = f"{head} {tree.name}({', '.join(taken_texts)})"
        tables = "".join(f" {text}" for text in self.tables.values())
        self.lines.setdefault(tree.lineno, []).insert(0, f"{signature} {{{tables}")
        self.lines.setdefault(max(tree.end_lineno or tree.lineno, *self.lines), []).append("}")
        self.head = signature
        self.named_head = f"{head} {tree.name}({', '.join(text for _, text in parameters)})"
        writes = frozenset(place for place in self.written.places if isinstance(place, str))
        kinds = tuple((name, self.variables[name].kind) for name, _ in parameters)
        return Signature(tree.name, kinds, writes, result, self.function)

    def result(self, falls_through: bool) -> Kind | None:
        """The type of the function's value; None without one."""
        values = [(node, value) for node, value in self.results if value is not None]
        if not values:
            return None
        if falls_through or len(values) < len(self.results):
            raise self.refuse(self.source.tree, f"{self.function.name} returns a value on some paths only")
        given = self.function.annotations.get("return")
        if getattr(given, "__origin__", given) is tuple:
            raise self.refuse(self.source.tree, "a function returns one value; write more into an array that it takes")
        declared = self.of_annotation(self.source.tree, given)
        kind = declared or values[0][1].kind
        for node, value in values:
            if value.kind != kind and declared is None:
                raise self.refuse(node, f"returns {value.kind}, but {kind} before; write its type: -> f32")
        return kind

    # ---- parameters --------------------------------------------------------------------------------------------------

    def parameters(self) -> list[tuple[str, str]]:
        """Names and texts of the parameters, which become variables."""
        arguments = self.source.tree.args
        others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults, arguments.vararg, arguments.kwarg)
        if any(others):
            raise self.refuse(self.source.tree, "parameters are names with types, without * and defaults")
        found = []
        for argument in arguments.args:
            self.check_name(argument, argument.arg)
            given = self.function.annotations.get(argument.arg)
            if given is None:
                raise self.refuse(
                    argument, f"{argument.arg} has no type; write {self.likely(argument.arg)}"
                )
            found.append((argument.arg, self.parameter(argument, given)))
        first = self.function.annotations.get(found[0][0]) if found else None
        if isinstance(self.function, PythonSystem) and first is not World and not isinstance(first, SeveralWorlds):
            raise self.refuse(self.source.tree, f"system {self.function.name} takes world: World first")
        return found

    def likely(self, name: str) -> str:
        kind = {"world": "World", "episode": "Episode", "row": "Row"}.get(name)
        if kind is None and not isinstance(self.function, PythonSystem):
            return f"{name}: int, {name}: float or the name of a component"
        return f"{name}: {kind or 'Component'}"

    def parameter(self, node: ast.arg, given: Any) -> str:
        name = node.arg
        kind: Kind
        if given in _ENGINE:
            kind = Opaque(_ENGINE[given])
            text = f"Row {name}" if given is Row else f"{_ENGINE[given]} &{name}"
            if given is Episode and name not in self.written.places:
                text = f"const {text}"
            self.declare(Variable(name, kind, name, place=name, fixed="a parameter"))
            return text
        if isinstance(given, SeveralWorlds):
            self.declare(Variable(name, Opaque("Worlds", given.most), name, place=name, fixed="a parameter"))
            return f"Worlds<{given.most}> &{name}"
        if given is Bits and not isinstance(self.function, PythonSystem):
            self.declare(Variable(name, BitString("Bits", 0), name, place=name, fixed="a parameter"))
            return f"{'' if name in self.written.places else 'const '}Bits<{name}_size> &{name}"
        number = self.of_annotation(node, given)
        if number is not None:
            kind = number
        elif isinstance(given, StructArray) and (struct := self.around.record(given.struct)) is not None:
            kind = Array(struct.cpp, struct, self.resolved(node, given.shape))
        else:
            record = self.around.record(given) if isinstance(given, type) else None
            record = self.around.named(given) if isinstance(given, str) else record
            if record is None:
                shown = getattr(given, "__name__", given)
                hint = suggestion(str(shown), [cpp for cpp, _ in self.around.components.values()])
                raise self.refuse(
                    node,
                    f"{name} is of {shown}, which is no component of the environment{hint}; parameters are World, "
                    "components, Episode, Row, Entity"
                    + ("" if isinstance(self.function, PythonSystem) else ", numbers"),
                )
            kind = record
        fixed = {Record: "a component; assign to its fields", Array: "an array; write its elements"}.get(type(kind), "")
        self.declare(Variable(name, kind, name, place=name, fixed=fixed))
        front = "" if name in self.written.places else "const "
        if isinstance(kind, Record):
            return f"{front}{kind.cpp} &{name}"
        if isinstance(kind, Array):
            return f"{front}{kind.cpp} (&{name}){kind.extents}"
        return f"{kind.cpp} {name}"

    def check_name(self, node: ast.AST, name: str) -> None:
        wrong = name in CPP_KEYWORDS or name in CPP_WORDS or name.startswith(("TBS_", "table_")) or "__" in name
        taken = [cpp for cpp, _ in self.around.components.values()] + list(self.around.archetypes.values())
        if name in taken:
            raise self.refuse(node, f"{name!r} is a component or an archetype; take another name")
        if wrong or name in ("World", "Constants", "Fault", "Random", "infinity"):
            raise self.refuse(node, f"{name!r} is a name of C++ or of the engine; take another one")

    def declare(self, variable: Variable) -> None:
        self.variables[variable.name] = variable
        self.assigned.add(variable.name)

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def emit(self, node: ast.AST, text: str) -> None:
        self.lines.setdefault(node.lineno, []).append(text)  # type: ignore[attr-defined]

    def keep(self, node: ast.AST, tree: ast.stmt) -> None:
        """Add a statement in Python, at the place of a node."""
        if not self.with_trees:
            return
        tree = ast.copy_location(tree, node)  # type: ignore[type-var]
        tree.end_lineno, tree.end_col_offset = tree.lineno, tree.col_offset
        self.trees.append(ast.fix_missing_locations(tree))

    def inner(self, body: Sequence[ast.stmt]) -> tuple[bool, list[ast.stmt]]:
        """A block within this one: whether its end is reached, and its statements in Python."""
        outer, self.trees = self.trees, []
        falls = self.block(body)
        trees, self.trees = self.trees, outer
        return falls, trees or [ast.Pass()]

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Translate statements; whether the end is reached."""
        owned = self.blocks.get(id(body[0]), {}) if body else {}
        own = [name for name in owned if name not in self.variables]
        for name in own:
            kind = self.written.kinds.get(name)
            # first assigned in a block
            if owned[name] is None and kind is not None and not isinstance(kind, (Array, BitString)):
                self.variables[name] = Variable(name, kind, name, place=name)
                self.emit(body[0], f"{kind.cpp} {name};")
        falls_through = True
        for number, statement in enumerate(body):
            if not falls_through:
                raise self.refuse(statement, "this is never reached")
            falls_through = self.statement(statement)
            if number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                falls_through = True
        for name in own:
            self.variables.pop(name, None)
            self.assigned.discard(name)
        return falls_through

    def statement(self, node: ast.stmt) -> bool:
        """Translate a statement; whether the next one is reached."""
        method = getattr(self, f"_{type(node).__name__}_statement", None)
        if method is None:
            raise self.refuse(node, _refused(node))
        self.whole = getattr(node, "value", getattr(node, "test", None))
        if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Name):
            self.whole = None  # the target is read beside the value
        result = method(node)
        return True if result is None else result

    def _Pass_statement(self, node: ast.Pass) -> None:
        self.keep(node, ast.Pass())

    def _Expr_statement(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        if not isinstance(node.value, ast.Call):
            raise self.refuse(node, "the value of this expression is not used")
        if isinstance(node.value.func, ast.Name) and self.static(node.value.func) in (print, breakpoint):
            self.keep(node, copy.deepcopy(node))  # for the Python executor only
            return
        value = self.value(node.value)
        self.emit(node, f"{value.text};")
        self.keep(node, ast.Expr(value.tree))

    def _Return_statement(self, node: ast.Return) -> bool:
        value = None if node.value is None else self.value(node.value)
        if value is not None and not (isinstance(value.kind, (Number, Vector)) or value.kind == ENTITY):
            raise self.refuse(node, f"a function cannot return {value.kind}; it returns numbers and vectors")
        self.results.append((node, value))
        if value is None:
            self.emit(node, "return;")
            self.keep(node, ast.Return(None))
            return False
        wanted = self.of_annotation(self.source.tree, self.function.annotations.get("return")) or value.kind
        stored = self.stored_as(node, wanted, value)
        self.emit(node, f"return {stored.text};")
        self.keep(node, ast.Return(stored.tree))
        return False

    def _Break_statement(self, node: ast.Break) -> bool:
        self.emit(node, "break;")
        self.keep(node, ast.Break())
        return False

    def _Continue_statement(self, node: ast.Continue) -> bool:
        self.emit(node, "continue;")
        self.keep(node, ast.Continue())
        return False

    def _If_statement(self, node: ast.If) -> bool:
        test = self.condition(node.test)
        self.emit(node, f"if ({test.text}) {{")
        before = set(self.assigned)
        falls, body = self.inner(node.body)
        other: list[ast.stmt] = []
        after_body = self.assigned if falls else None
        self.assigned = set(before)
        end = node.body[-1]
        other_falls = True
        if node.orelse:
            self.lines.setdefault(node.orelse[0].lineno, []).append("} else {")
            other_falls, other = self.inner(node.orelse)
            end = node.orelse[-1]
        self.lines.setdefault(end.end_lineno or end.lineno, []).append("}")
        after_else = self.assigned if other_falls else None
        self.keep(node, ast.If(test.tree, body, other))
        both = [each for each in (after_body, after_else) if each is not None]
        self.assigned = set.intersection(*both) if both else before
        return bool(both)

    def loop(self, node: ast.While | ast.For, head: str, body: Sequence[ast.stmt], end: str = "}") -> list[ast.stmt]:
        """Translate a loop's body; the statements in Python."""
        if node.orelse:
            raise self.refuse(node, "a loop has no else in systems; note in a variable whether it broke off")
        self.emit(node, f"{head} {{")
        before = set(self.assigned)
        _, trees = self.inner(body)
        self.assigned = before
        last = body[-1]
        self.lines.setdefault(last.end_lineno or last.lineno, []).append(end)
        return trees

    def _While_statement(self, node: ast.While) -> bool:
        test = self.condition(node.test)
        self.keep(node, ast.While(test.tree, self.loop(node, f"while ({test.text})", node.body), []))
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return not endless or any(isinstance(inner, ast.Break) for inner in _own_statements(node.body))

    def _For_statement(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Call) and self.static(node.iter.func) is range:
            self.for_range(node, node.iter)
            return
        if isinstance(node.iter, ast.Call) and self.static(node.iter.func) is enumerate:
            raise self.refuse(node, "systems have no enumerate; write for i in range(len(...))")
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr == "tables" and self.is_world(called.value):
            assert isinstance(node.iter, ast.Call)
            self.for_tables(node, node.iter)
            return
        if not isinstance(node.target, ast.Name):
            raise self.refuse(node.target, "a loop has one variable")
        over = self.value(node.iter)
        if not isinstance(over.kind, (Rows, Array)):
            raise self.refuse(node.iter, f"loops run over range(...), rows and arrays, got {over.kind}")
        element = over.kind.element
        if isinstance(over.kind, Array) and len(over.kind.shape) > 1:
            raise self.refuse(node.iter, f"{over.kind} has several indices; loop over range(...) of each")
        name = node.target.id
        self.own_loop_variable(node, name)
        written = over.place in self.written.places
        if isinstance(element, Record):
            variable = Variable(name, element, name, place=over.place, fixed="a row; assign to its fields")
            head = f"for ({'' if written else 'const '}{element.cpp} &{name} : {over.text})"
        else:
            variable = Variable(name, element, name, fixed="the variable of a loop; take another name")
            head = f"for (const {element.cpp} {name} : {over.text})"
        copies = not isinstance(element, (Record, Number))  # vectors and handles are values
        over_tree = self.python(node, "map(copied, _0)", over) if copies else over.tree
        self.with_loop_variable(node, variable, head, over_tree)

    def is_world(self, node: ast.expr) -> bool:
        return self.static(node) is MISSING and self.value(node).kind.cpp == "World"

    def for_tables(self, node: ast.For, call: ast.Call) -> None:
        """``for table, places in world.tables(Place)``: a function in C++, which is compiled for each archetype."""
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else []
        names = [each.id for each in targets if isinstance(each, ast.Name)]
        if call.keywords or not call.args or len(set(names)) != len(targets) or len(targets) != len(call.args) + 1:
            raise self.refuse(node, "write for table, places, winds in world.tables(Place, Wind | None)")
        for inner in _own_statements(node.body):
            if isinstance(inner, (ast.Break, ast.Continue)):
                raise self.refuse(inner, "world.tables goes through all archetypes: use if")
        if any(isinstance(inner, ast.Return) for inner in _outside_of_functions(node.body)):
            raise self.refuse(node, "no return within a loop over world.tables: it goes through all archetypes")
        for name in names:
            self.own_loop_variable(node, name)
        places = [(name, (node.lineno, node.col_offset, name)) for name in names[1:]]
        world, taken, over, kind = self.tables_of(call, places)
        used = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        autos = ", ".join(f"auto {name}" if name in used else "auto" for name in names)
        self.declare(Variable(names[0], Opaque("WorldTable", (world, ", ".join(taken))), names[0], fixed="a table"))
        for (name, place), each in zip(places, kind.elements, strict=True):
            self.declare(Variable(name, each, name, place=place, fixed="rows; take another name"))
        head = f"{world.text}.tables<{', '.join(taken)}>([&]({autos})"
        trees = self.loop(node, head, node.body, "});")
        target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
        self.keep(node, ast.For(target, over.tree, trees, []))
        for name in names:
            del self.variables[name]
            self.assigned.discard(name)

    def for_range(self, node: ast.For, call: ast.Call) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.refuse(node.target, "a loop over range has one variable")
        values = self.arguments(call, 1, 3, "range")
        step: int | float | bool = 1
        if len(values) == 3:
            literal = values[2].literal
            if literal is None or not isinstance(literal, int) or literal == 0:
                raise self.refuse(call.args[2], "the step of a range must be a number in the text, not 0")
            step = literal
        for value, argument in zip(values, call.args, strict=True):
            if not isinstance(value.kind, Number) or not value.kind.is_integer:
                raise self.refuse(argument, f"range takes integers, got {value.kind}")
        begin = self.integer(0, call) if len(values) == 1 else values[0]
        end = values[0] if len(values) == 1 else values[1]
        begin, end = self.joined(call, begin, end)
        kind = begin.kind
        if step < 0 and kind.is_unsigned:  # type: ignore[attr-defined]
            raise self.refuse(call, f"a range of {kind} cannot count down; convert by i32(...)")
        name = node.target.id
        self.own_loop_variable(node, name)
        fixed = end.literal is not None or end.text.startswith("Constants::")
        last = end.text if fixed else f"{name}_end"
        declared = f"{kind.cpp} {name} = {begin.text}" + ("" if fixed else f", {last} = {end.text}")
        mark = "<" if step > 0 else ">"
        forward = f"++{name}" if step == 1 else f"--{name}" if step == -1 else f"{name} += {step}"
        variable = Variable(name, kind, name, fixed="the variable of a loop; take another name")
        head = f"for ({declared}; {name} {mark} {last}; {forward})"
        if fixed and (begin.literal is not None or begin.text.startswith("Constants::")) and self.touches_bits(node):
            head = f"TBS_UNROLL {head}"  # so that the places of bits are constants
        step_tree = self.python(node, str(step))
        self.with_loop_variable(node, variable, head, self.python(call, "range(_0, _1, _2)", begin, end, step_tree))

    def touches_bits(self, node: ast.For) -> bool:
        names = {name for name, variable in self.variables.items() if isinstance(variable.kind, BitString)}
        return any(isinstance(n, ast.Name) and n.id in names for s in node.body for n in ast.walk(s))

    def own_loop_variable(self, node: ast.For, name: str) -> None:
        self.check_name(node.target, name)
        if name in self.variables:
            raise self.refuse(node.target, f"{name!r} has a value already; take another name in the loop")

    def with_loop_variable(self, node: ast.For, variable: Variable, head: str, over: ast.expr) -> None:
        self.variables[variable.name] = variable
        self.assigned.add(variable.name)
        trees = self.loop(node, head, node.body)
        self.keep(node, ast.For(ast.Name(variable.name, ast.Store()), over, trees, []))
        del self.variables[variable.name]
        self.assigned.discard(variable.name)

    def _FunctionDef_statement(self, node: ast.FunctionDef) -> None:
        """A function within a system, for operations of several lanes."""
        arguments = [each.arg for each in node.args.args]
        others = (node.args.posonlyargs, node.args.kwonlyargs, node.args.defaults, node.args.vararg, node.args.kwarg)
        if node.decorator_list or any(others) or len(arguments) > 2:
            raise self.refuse(
                node, "a function within a system is for lanes: it takes the number of an item, or nothing"
            )
        if any(isinstance(inner, (ast.Nonlocal, ast.Global)) for inner in ast.walk(node)):
            raise self.refuse(node, "all lanes run this at once: it writes components, not variables outside of it")
        before = set(self.assigned), dict(self.variables), self.results, self.blocks
        outer, self.outside = self.outside, {variable.place for variable in self.variables.values()}
        for name in arguments:
            self.check_name(node, name)
        self.declare_items(arguments)
        own = {n.id for s in node.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in own & set(before[1]):
            raise self.refuse(node, f"{name!r} is a variable outside of {node.name} too; take another name")
        self.results, self.blocks = [], _blocks_of_names(node.body, set(arguments))
        taken = items_of(arguments)
        self.emit(node, f"const auto {node.name} = [&]({taken}) {{")
        falls, trees = self.inner(node.body)
        values = [value for _, value in self.results if value is not None]
        if values and (falls or len(values) < len(self.results)):
            raise self.refuse(node, f"{node.name} returns a value on some paths only")
        self.lines.setdefault(node.body[-1].end_lineno or node.lineno, []).append("};")
        own_arguments = ast.arguments([], [ast.arg(name) for name in arguments], None, [], [], None, [])
        self.keep(node, ast.FunctionDef(node.name, own_arguments, trees, []))
        self.assigned, self.variables, self.results, self.blocks = before
        self.outside = outer
        self.bodies[node.name] = len(arguments), values[0].kind if values else VOID

    # ---- assignments -------------------------------------------------------------------------------------------------

    def _Assign_statement(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.refuse(node, "one assignment at a time")
        (target,) = node.targets
        if isinstance(target, (ast.Tuple, ast.List)):
            self.assign_parts(node, target.elts)
            return
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Call) and self.is_zeros(node.value):
            self.make_array(node, target, node.value)
        elif isinstance(target, ast.Name) and isinstance(node.value, ast.Call) and self.static(node.value.func) is Bits:
            self.make_bits(node, target, node.value)
        elif isinstance(target, ast.Name):
            self.assign_name(node, target, self.value(node.value), None)
        else:
            self.store(node, target, self.value(node.value))

    def assign_parts(self, node: ast.Assign, targets: Sequence[ast.expr]) -> None:
        """``a, b = b, a``: all values are computed first."""
        call, own = node.value, f"{node.lineno}_{node.col_offset}"
        values = []
        if (
            isinstance(call, ast.Call)
            and getattr(self.static(call.func), "__name__", "") == "sincos"
            and len(targets) == 2
        ):
            (angle,) = (self.real_of(each, call) for each in self.arguments(call, 1, 1, "sincos"))
            names = [f"sine_{own}", f"cosine_{own}"]
            self.emit(node, f"f32 {', '.join(names)}; sincos({angle.text}, {', '.join(names)});")
            for each, name in zip(("sin", "cos"), names, strict=True):
                part = self.engine(node, f"{each}({{0}})", [angle], F32)
                values.append(Value(F32, name, self.python(node, name)))
                self.keep(node, ast.Assign([ast.Name(name, ast.Store())], part.tree))
        elif isinstance(call, ast.Tuple) and len(call.elts) == len(targets):
            for number, each in enumerate(call.elts):
                value = self.value(each)
                if isinstance(value.kind, (Rows, Maybe)) or value.kind.cpp in ("parameters", "constants"):
                    # of the engine, which no assignment here changes
                    values.append(value)
                    continue
                if not isinstance(value.kind, (Number, Vector)):
                    raise self.refuse(each, f"numbers, vectors and rows are assigned together, got {value.kind}")
                value = self.stored_as(each, value.kind, value)
                name = f"part_{own}_{number}"
                self.emit(node, f"const {value.kind.cpp} {name} = {value.text};")
                self.keep(node, ast.Assign([ast.Name(name, ast.Store())], value.tree))
                values.append(Value(value.kind, name, self.python(node, name)))
        else:
            if isinstance(self.value(call).kind, Vector):
                shown = ast.unparse(call)
                raise self.refuse(node, f"a vector is not unpacked: write {shown}.x, {shown}.y in place of {shown}")
            raise self.refuse(node, f"{len(targets)} variables take as many values with commas between")
        for target, value in zip(targets, values, strict=True):
            if isinstance(target, ast.Name):
                self.assign_name(node, target, value, None)
            else:
                self.store(node, target, value)

    def _AnnAssign_statement(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            raise self.refuse(node, "write name: type = value")
        kind = self.of_annotation(node.annotation, self.static(node.annotation))
        if not isinstance(kind, (Number, Vector)):
            raise self.refuse(node.annotation, f"{ast.unparse(node.annotation)} is no type of numbers or vectors")
        self.assign_name(node, node.target, self.value(node.value), kind)

    def assign_name(self, node: ast.stmt, target: ast.Name, value: Value, wanted: Kind | None) -> None:
        name = target.id
        variable = self.variables.get(name)
        if variable is not None and variable.fixed:
            raise self.refuse(target, f"{name!r} is {variable.fixed}")
        if variable is not None:
            if wanted is not None and wanted != variable.kind:
                raise self.refuse(target, f"{name!r} is {variable.kind} already")
            if isinstance(variable.kind, Array):
                raise self.refuse(target, f"{name!r} is an array already; write its elements, or take another name")
            if isinstance(variable.kind, (Record, Rows, Maybe)):
                raise self.refuse(target, f"{name!r} is a row already; take another name, or keep an index")
            self.name_value(node, name, "", self.stored(node, name, variable.kind, value))
            self.assigned.add(name)
            self.written.kinds[name] = variable.kind
            return
        self.check_name(target, name)
        if isinstance(value.kind, Opaque) and self.name_object(node, name, value, value.kind):
            return
        kind = value.kind if isinstance(value.kind, Array) else wanted or self.written.kinds.get(name) or value.kind
        if isinstance(kind, Opaque) or kind.cpp == "void":
            raise self.refuse(node, f"{kind} cannot be assigned to a name; use it where it stands")
        self.written.kinds[name] = kind
        if isinstance(kind, (Record, Rows, Maybe, Array)):
            self.assign_row(node, name, value)
            return
        self.name_value(node, name, f"{kind.cpp} ", self.stored(node, name, kind, value))
        self.declare(Variable(name, kind, name, place=(name, target.lineno, target.col_offset)))

    def name_object(self, node: ast.stmt, name: str, value: Value, kind: Opaque) -> bool:
        """A name for options, a world of several, or random numbers; whether it can have one."""
        fixed, text, now = "an object of the engine; take another name", value.text, kind
        if kind.cpp == "parameters":
            self.keep(node, ast.Assign([ast.Name(name, ast.Store())], value.tree))
        elif kind.cpp == "World" and kind.values == SEVERAL:
            self.emit(node, f"World {name} = {value.text};")
            self.keep(node, ast.Assign([ast.Name(name, ast.Store())], value.tree))
            text = name
        elif kind.cpp == "Random" and kind.values[1] is not None:
            world, item = kind.values
            made = self.engine(node, "{w}.random({0})", [item], STREAM, world)
            self.emit(node, f"auto {name} = {made.text};")
            self.keep(node, ast.Assign([ast.Name(name, ast.Store())], made.tree))
            self.declare(Variable(name, STREAM, name, place=(name, node.lineno), fixed=fixed))
            return True
        elif kind.cpp not in ("constants", "Random"):
            return False
        self.declare(Variable(name, now, text, fixed=fixed))
        return True

    def make_bits(self, node: ast.Assign, target: ast.Name, call: ast.Call) -> None:
        """``bits = Bits(143)``."""
        name = target.id
        if name in self.variables:
            raise self.refuse(target, f"{name!r} has a value already; take another name for the bits")
        if not any(owned.get(name) is node for owned in self.blocks.values()):
            raise self.refuse(target, f"the bits {name!r} are used outside of this block too: make them before")
        self.check_name(target, name)
        if len(call.args) != 1 or call.keywords:
            raise self.refuse(call, f"write {name} = Bits(143)")
        size = self.extent(call.args[0])
        kind = BitString(f"Bits<{size}>", size)
        self.written.kinds[name] = kind
        self.emit(node, f"{kind.cpp} {name};")
        self.keep(node, ast.Assign([ast.Name(name, ast.Store())], self.python(call, f"made_bits({size})")))
        self.declare(Variable(name, kind, name, (name, target.lineno, target.col_offset), "bits; take another name"))

    def name_value(self, node: ast.stmt, name: str, front: str, value: Value) -> None:
        self.emit(node, f"{front}{name} = {value.text};")
        self.keep(node, ast.Assign([ast.Name(name, ast.Store())], value.tree))

    def stored(self, node: ast.stmt, name: str, kind: Kind, value: Value) -> Value:
        if isinstance(kind, Number) and isinstance(value.kind, Number) and kind.is_integer and value.kind.is_float:
            raise self.refuse(node, f"{name!r} is {kind} and would lose decimals: write {name}: float = ... at first")
        return self.stored_as(node, kind, value)

    def assign_row(self, node: ast.stmt, name: str, value: Value) -> None:
        """A name for a row: no copy, as in Python."""
        written = value.place in self.written.places
        front = "" if written else "const "
        kind = value.kind
        text = {
            Rows: f"const Rows<{front}{kind.cpp}> {name} = {value.text};",
            Maybe: f"{front}{kind.cpp} *{name} = {value.text};",
            Record: f"{front}{kind.cpp} &{name} = {value.text};",
            Array: f"{front}{kind.cpp} (&{name}){getattr(kind, 'extents', '')} = {value.text};",
        }[type(kind)]
        if isinstance(kind, Record) and value.place is None:
            text = f"{kind.cpp} {name} = {value.text};"
        self.emit(node, text)
        self.keep(node, ast.Assign([ast.Name(name, ast.Store())], value.tree))
        own = value.place if value.place is not None or isinstance(kind, Array) else (name, node.lineno)
        self.declare(Variable(name, kind, name, place=own, fixed="a row; take another name"))

    def is_zeros(self, node: ast.Call) -> bool:
        return self.static(node.func) is zeros

    def make_array(self, node: ast.Assign, target: ast.Name, call: ast.Call) -> None:
        """``counts = zeros(i32, 5)``: a local array."""
        name = target.id
        if name in self.variables:
            raise self.refuse(target, f"{name!r} has a value already; take another name for the array")
        if not any(owned.get(name) is node for owned in self.blocks.values()):
            raise self.refuse(target, f"the array {name!r} is used outside of this block too: make it before")
        self.check_name(target, name)
        if len(call.args) < 2 or call.keywords:
            raise self.refuse(call, f"write {name} = zeros(i32, 5), or zeros(i32, 5, 3)")
        given, element = self.static(call.args[0]), None
        if given is not MISSING:
            element = self.around.made(given) or self.of_annotation(call, given)
        if element is None or isinstance(element, Array):
            shown = ast.unparse(call.args[0])
            raise self.refuse(call.args[0], f"{shown} is no type of elements; write zeros(i32, 5, 3)")
        kind = Array(element.cpp, element, tuple(self.extent(each) for each in call.args[1:]))
        self.written.kinds[name] = kind
        self.emit(node, f"{kind.cpp} {name}{kind.extents} = {{}};")
        made = self.python(call, f"record_{self.thunks.record(kind)}()")
        self.keep(node, ast.Assign([ast.Name(name, ast.Store())], made))
        self.declare(Variable(name, kind, name, (name, target.lineno, target.col_offset)))

    def resolved(self, node: ast.AST, given: Any) -> Any:
        """A number in place of a constant."""
        try:
            return resolved(given, self.around.constants, "it")
        except SchemaError as error:
            raise self.refuse(node, str(error)) from None

    def of_annotation(self, node: ast.AST, given: Any) -> Kind | None:
        """The kind of a number, a vector or an array of these that an annotation names; None for anything else."""
        if isinstance(given, FieldType):
            return of_field(given, self.resolved(node, given.shape))
        return OF_PYTHON.get(given) if isinstance(given, type) else None

    def extent(self, node: ast.expr) -> int:
        """The extent of a local array: a number, or constants of the module or the environment."""
        found: Any = MISSING
        if isinstance(node, ast.BinOp) and type(node.op) in _OF_EXTENTS:
            found = _OF_EXTENTS[type(node.op)](self.extent(node.left), self.extent(node.right))
        elif isinstance(node, ast.Constant):
            found = node.value
        elif self.static(node) is not MISSING:
            found = self.resolved(node, self.static(node))
        elif isinstance(node, ast.Attribute) and self.value(node.value).text == "Constants":
            found = self.value(node) and self.around.constants[node.attr]
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise self.refuse(node, "an extent is a number from 1 on, or a constant of the module or the environment")
        return int(found)

    def _AugAssign_statement(self, node: ast.AugAssign) -> None:
        target = node.target
        self.check_repeatable(target)
        now = self.value(target)
        if isinstance(target, ast.Name):
            variable = self.variables[target.id]
            if variable.fixed:
                raise self.refuse(target, f"{target.id!r} is {variable.fixed}")
        result = self.operation(node, node.op, now, self.value(node.value))
        if isinstance(target, ast.Name):
            self.name_value(node, target.id, "", self.stored(node, target.id, now.kind, result))
            return
        self.store(node, target, result)

    def store(self, node: ast.stmt, target: ast.expr, value: Value) -> None:
        """Write a field, an element, or a part of a vector."""
        if not isinstance(target, (ast.Attribute, ast.Subscript)):
            raise self.refuse(target, f"{ast.unparse(target)} cannot be assigned to")
        to = self.value(target)
        self.note_write(target, to)
        if isinstance(to.kind, (Record, Array)) and to.kind != value.kind:
            raise self.refuse(target, f"{ast.unparse(target)} is {to.kind}; write its elements")
        if isinstance(to.kind, Array):
            raise self.refuse(target, f"{ast.unparse(target)} is {to.kind}; write its elements")
        stored = self.stored_as(node, to.kind, value)
        self.emit(node, f"{to.text} = {stored.text};")
        if not self.with_trees:
            return
        place: ast.expr = copy.copy(to.tree)
        place.ctx = ast.Store()  # type: ignore[attr-defined]
        self.keep(node, ast.Assign([place], stored.tree))


def _outside_of_functions(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a block and of blocks in it, without those of functions."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef):
            yield from _outside_of_functions(n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.stmt))


def _own_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a loop, without those of loops in it."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.For, ast.While)):
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    yield from _own_statements([inner])


def _blocks_of_names(body: Sequence[ast.stmt], taken: set[str]) -> dict[int, dict[str, ast.stmt | None]]:
    """By the first statement of each block: the names that belong to it, the smallest block with all of their uses.

    The value is the statement of this block that first assigns the name, None if a block within does.
    """
    owners: dict[int, dict[str, ast.stmt | None]] = {}
    places: dict[str, list[tuple[tuple[int, ...], ast.stmt, bool]]] = {}
    firsts: dict[tuple[int, ...], ast.stmt] = {}

    loops = set()

    def visit(statements: Sequence[ast.stmt], path: tuple[int, ...]) -> None:
        if not statements:
            return
        firsts[path] = statements[0]
        for statement in statements:
            if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
                loops.add(statement.target.id)
            own: list[ast.AST] = [statement]
            while own:
                node = own.pop(0)
                if isinstance(node, ast.Name):
                    places.setdefault(node.id, []).append((path, statement, isinstance(node.ctx, ast.Store)))
                for name, value in ast.iter_fields(node):
                    if node is statement and name in ("body", "orelse") and isinstance(value, list):
                        visit(value, (*path, id(value)))
                    else:
                        own += [
                            each
                            for each in (value if isinstance(value, list) else [value])
                            if isinstance(each, ast.AST)
                        ]

    visit(body, ())
    for name, uses in places.items():
        if name in taken or name in loops or not any(store for _, _, store in uses):
            continue
        path = uses[0][0]
        for other, _, _ in uses:
            while other[: len(path)] != path:
                path = path[:-1]
        first_path, statement, _ = uses[0]
        direct = first_path == path and isinstance(statement, (ast.Assign, ast.AnnAssign))
        owners.setdefault(id(firsts[path]), {})[name] = statement if direct else None
    return owners


def written_names(tree: ast.FunctionDef) -> set[str]:
    """The names in front of a dot or index that is assigned to."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            inner: ast.expr = node
            while isinstance(inner, (ast.Attribute, ast.Subscript)):
                inner = inner.value
            if isinstance(inner, ast.Name):
                found.add(inner.id)
    return found


def _refused(node: ast.stmt) -> str:
    instead = {
        "With": "with; write what it does in the system", "AsyncFor": "async; write for",
        "Raise": "raise; report by world.fail", "Try": "try; test with if before, and report by world.fail",
        "Assert": "assert; report by world.fail", "Import": "import; import in the module",
        "Delete": "del; a row of the world is destroyed by world.destroy",
        "ImportFrom": "import; import in the module", "Global": "global; state lies in components",
        "Nonlocal": "nonlocal; state lies in components",
        "FunctionDef": "a function within a system; write a @function",
        "ClassDef": "a class", "Match": "match; write if and elif",
    }.get(type(node).__name__, type(node).__name__)  # fmt: skip
    return f"systems cannot have {instead}"
