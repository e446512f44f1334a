"""Text that compiles and hardly does what its author means: lost copies, cut quotients, items that meet, endless loops.

The finder walks each function of a text once. Where it does not know a type or a name it reports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..base.shared import LANES
from .bodies import Expression, Lambda, Statement, Variable, parsed_body, parsed_fields, parsed_parameters
from .cpp_text import Declaration, Source
from .kinds import (
    ENDS,
    FLOATS,
    INTEGERS,
    SAME_AS_ARGUMENTS,
    VECTORS,
    Kind,
    Kinds,
    Known,
    Signature,
    path_of,
    variable_kind,
)
from .trees import (
    all_expressions,
    asked_methods,
    calls_others,
    combined_ranges,
    declared_in,
    fields_of_place,
    first_name,
    indices_of,
    integer_of,
    may_change,
    may_leave,
    names_in,
    root_of,
    without_brackets,
)

_EACH = ("for_each", "sum", "min", "max", "count", "any", "all", "scan", "ballot")  # operations over items
_ONE = ("once", "broadcast")  # on one lane
_OVER_ITEMS = {"lidar": 2, "cast_all": 2, "see_all": 2, "render": None}  # functions of rays: where their count is
_STEADY = ("count", "rows", "alive", "step", "episode", "repetition", "find", "get", "index_of", "entity")
_DEFERRED = ("count", "rows", "alive", "index_of")  # of World: they change between systems
_QUOTIENT_PARTS = ("+", "-", "*")


@dataclass(frozen=True)
class Mistake:
    """A mistake in a line.

    Attributes:
        certain: no text could mean this, so that it is an error; else a warning.
        name: of the variable of a lost copy.
    """

    line: int
    text: str
    certain: bool = False
    name: str = ""


@dataclass(eq=False)
class _Use:
    """A use of a copy: where, what of it (``""``: all), and the loops around it."""

    at: int
    part: str
    loops: tuple[int, ...]
    inner: bool  # in a lambda within the variable's function
    token: int = 0


@dataclass(eq=False)
class _Local:
    """A variable in scope.

    Attributes:
        holds: it holds its value itself; else what is written to it is written elsewhere.
        copied: of what: ``""`` for no copy.
        depends: on the item of the operation around it.
        low, high: of an integer, where its text gives them.
        lanes: how many operations are around its declaration.
    """

    variable: Variable
    name: str
    kind: Kind | None
    holds: bool
    copied: str = ""
    loops: tuple[int, ...] = ()
    lambdas: int = 0
    depends: bool = False
    low: int | None = None
    high: int | None = None
    lanes: int = 0
    escapes: bool = False
    reads: list[_Use] = field(default_factory=list)
    writes: list[_Use] = field(default_factory=list)


class Functions(Mapping[str, Sequence[Signature]]):
    """The functions of files by name, with ``ring::`` in front too where a library has them. Each is read when it is
    asked for.

    Args:
        files: with their namespaces and declarations.
    """

    def __init__(self, files: Sequence[tuple[str, Source, Sequence[Declaration]]]) -> None:
        self._found: dict[str, list[tuple[Source, Declaration]]] = {}
        self._read: dict[str, Sequence[Signature]] = {}
        for namespace, source, declared in files:
            for declaration in declared:
                if declaration.kind == "function" and declaration.name >= 0:
                    name = source.tokens[declaration.name].text
                    self._found.setdefault(name, []).append((source, declaration))
                    if namespace:
                        self._found.setdefault(f"{namespace}::{name}", []).append((source, declaration))

    def __getitem__(self, name: str) -> Sequence[Signature]:
        if name not in self._read:
            self._read[name] = [made for each in self._found[name] if (made := _signature(*each)) is not None]
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _signature(source: Source, declaration: Declaration) -> Signature | None:
    opened = declaration.name + 1
    if opened >= len(source.tokens) or source.tokens[opened].text != "(":
        return None
    words = [token.text for token in source.tokens[declaration.first : declaration.name]]
    words = [word for word in words if not word.startswith("TBS_") and word not in ("inline", "static", "constexpr")]
    return Signature(" ".join(words), "&" in words, tuple(parsed_parameters(source, opened)))


def constants(source: Source, declared: Sequence[Declaration]) -> Iterator[Variable]:
    """The variables of a file outside of functions."""
    for declaration in declared:
        if declaration.kind == "variable" and declaration.where != "struct":
            yield from parsed_fields(source, declaration.first, declaration.last)


def structs(source: Source, declared: Sequence[Declaration], known: Known) -> Iterator[tuple[str, dict[str, Kind]]]:
    """The structs of a file with their fields, as far as their types are known."""
    tokens, end, fields = source.tokens, -1, {}
    for declaration in declared:
        if declaration.kind == "type" and tokens[declaration.first].text == "struct" and declaration.where != "struct":
            fields, end = {}, declaration.last
            yield tokens[declaration.first + 1].text, fields
        elif declaration.kind == "variable" and declaration.where == "struct" and declaration.last <= end:
            for variable in parsed_fields(source, declaration.first, declaration.last):
                extents = tuple(integer_of(each.text) if each.kind == "number" else None for each in variable.extents)
                kind = variable_kind(variable, known, None, extents)
                if kind is not None and "&" not in variable.mark:
                    fields[variable.names[0]] = kind


def _plain(result: str) -> str:
    return result.replace("const ", "").replace(" :: ", "::").replace(" &", "")


def _is_field(target: Expression) -> bool:
    """Whether a place is a field of a variable, not an element."""
    while target.kind in ("member", "group") and target.parts[0].kind != "name":
        target = target.parts[0]
    return target.kind == "member"


def mistakes(source: Source, declared: Sequence[Declaration], known: Known) -> Iterator[Mistake]:
    """The mistakes in the functions of a file."""
    for declaration in declared:
        body = declaration.body if declaration.kind == "function" else None
        if body and source.tokens[body[0]].text == "{" and source.tokens[declaration.name + 1].text == "(":
            yield from _Finder(source, known, declaration, body).found


class _Finder:
    def __init__(self, source: Source, known: Known, declaration: Declaration, body: tuple[int, int]) -> None:
        self.source, self.tokens, self.known = source, source.tokens, known
        self.found: list[Mistake] = []
        self.scopes: list[dict[str, _Local]] = [{}]
        self.kinds = Kinds(known, self._kind_of_local)
        self.loops: tuple[int, ...] = ()
        self.lambdas = 0
        self.conditions: list[Expression] = []  # of branches around here, and of those that left the block
        self.heads: list[Expression] = []  # conditions of loops around here
        self.lanes = 0  # operations around here
        self.items: list[tuple[str, bool]] = []  # of each: the name of its item, and whether many items run at once
        self.given: tuple[_Local, str] | None = None  # what the statement assigns, and which part
        words = [t.text for t in self.tokens[declaration.first : declaration.name]]
        self.result = words[-1] if words else ""
        self.generic = bool(declaration.types)
        self.is_system = "TBS_SYSTEM" in words
        used = {token.text for token in self.tokens[body[0] : body[1]]} & known.macros.keys()
        self.hidden = frozenset(used).union(*(known.macros[name] for name in used))
        for variable in known.constants:
            self._variable(variable)
        parameters = parsed_parameters(source, declaration.name + 1)
        self.on_lanes = self.is_system and any(each.type in LANES for each in parameters)
        for variable in parameters:
            self._declare(variable, None)
        self._statement(parsed_body(source, *body))
        self._close()

    # ---- names -----------------------------------------------------------------------------------------------------

    def _local(self, name: str) -> _Local | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def _kind_of_local(self, name: str) -> Kind | None:
        local = self._local(name)
        return None if local is None else local.kind or Kind("")

    def _declare(self, variable: Variable, given: Kind | None) -> None:
        """Put a variable into scope. ``given`` is the type of its first value, of an element where it takes each."""
        extents = tuple(self._constant(extent) for extent in variable.extents)
        kind = variable_kind(variable, self.known, given, extents)
        if variable.bound and given is not None:
            self._declare_bound(variable, given)
            return
        name = variable.names[0] if variable.names else ""
        holds = "&" not in variable.mark and (kind is None or kind.is_plain) and "*" not in variable.mark
        local = _Local(variable, name, kind, holds, "", self.loops, self.lambdas, lanes=self.lanes)
        local.depends = variable.given is not None and self._depends(variable.given)
        if holds and not variable.const and kind is not None and not kind.extents and not kind.pointer:
            local.copied = self._copied(variable, kind)
        elif variable.parameter and variable.type == "auto" and not variable.mark and not variable.const:
            local.copied = "argument"  # if its fields are written, see _write
        if kind is not None and kind.is_integer and variable.given is not None and variable.const:
            local.low = local.high = self._constant(variable.given)
        if name:
            self.scopes[-1][name] = local

    def _declare_bound(self, variable: Variable, given: Kind) -> None:
        of_vector = dict.fromkeys(VECTORS.get(given.name, ()), Kind("f32"))
        fields = list((self.known.members(given.name) or of_vector).values())
        copied = ""
        if not variable.mark and not variable.const and given.is_plain and variable.given is not None:
            copied = self._origin(variable.given) if not variable.each else "row"
        for number, name in enumerate(variable.names):
            kind = fields[number] if number < len(fields) else None
            holds = not variable.mark and not (kind is not None and kind.extents)
            of = copied if holds else ""
            local = _Local(variable, name, kind, holds, of, self.loops, self.lambdas, lanes=self.lanes)
            local.depends = variable.given is not None and self._depends(variable.given)
            self.scopes[-1][name] = local

    def _copied(self, variable: Variable, kind: Kind) -> str:
        """Of what a variable is a copy: a parameter's argument, or an existing value; empty for a value of its own."""
        is_number = kind.name in INTEGERS or kind.name in FLOATS or kind.name in ("bool", *VECTORS)
        if not (is_number or kind.name in ENDS or self.known.members(kind.name) is not None):
            return ""
        if variable.parameter:
            return "argument"
        if variable.given is None:
            return ""
        return "row" if variable.each else self._origin(variable.given)

    def _origin(self, e: Expression) -> str:
        """The text of an expression that is a place in memory, ``"rows[i]"``; empty for a new value."""
        while e.kind == "group":
            e = e.parts[0]
        if e.kind == "name":
            local = self._local(e.text)
            return e.text if local is not None and not (local.holds and local.variable.const) else ""
        if e.kind in ("member", "index"):
            return self._text(e) if self._origin(e.parts[0]) else ""
        if e.kind == "choice":
            return self._text(e) if all(self._origin(part) for part in e.parts[1:]) else ""
        if e.kind == "braces" and len(e.parts) == 1 and self.kinds.of(e.parts[0]) == self.kinds.of(e):
            return self._origin(e.parts[0])  # Ball{ball}
        if e.kind == "unary" and e.text == "*":
            return self._text(e)
        if e.kind == "call" and e.parts[0].kind == "member" and e.parts[0].text in ("get", "rows", "find"):
            return self._text(e)
        if e.kind == "call" and e.parts[0].kind == "name":
            found = self.known.functions.get(e.parts[0].text, ())
            is_place = all(each.reference or self.known.members(_plain(each.result)) is not None for each in found)
            return self._text(e) if found and is_place else ""
        return ""

    def _text(self, e: Expression) -> str:
        return self.source.text(e.first, e.last)

    def _close(self) -> None:
        """End a scope: what is written to copies in it and not used behind that is lost."""
        for local in self.scopes.pop().values():
            if local.copied and not local.escapes and local.name not in self.hidden:
                self._lost(local)

    def _lost(self, local: _Local) -> None:
        for write in local.writes:
            again = set(write.loops) - set(local.loops)
            if not any(
                read.inner
                or ((not read.part or not write.part or read.part == write.part)
                    and (read.at > write.at or again & set(read.loops)))
                for read in local.reads
            ):  # fmt: skip
                self._report(self.tokens[write.token].line, self._copy_text(local), name=local.name)
                return

    def _copy_text(self, local: _Local) -> str:
        variable = local.variable
        written = f"auto &[{', '.join(variable.names)}]" if variable.bound else f"{variable.type} &{local.name}"
        given = variable.given
        if given is not None and given.kind == "call" and given.parts and given.parts[0].kind == "name":
            found = self.known.functions.get(given.parts[0].text, ())
            if found and not all(each.reference for each in found):
                written = f"{written}`, and let `{given.parts[0].text}` return `{_plain(found[0].result)} &"
        if self.source.path.suffix == ".py":
            return f"`{local.name}` is a copy, and what is written to it is lost: write to the field that it comes from"
        return f"`{local.name}` is a copy, and what is written to it is lost: declare it as `{written}`"

    def _report(self, line: int, text: str, certain: bool = False, name: str = "") -> None:
        made = Mistake(line, text, certain, name)
        if made not in self.found:
            self.found.append(made)

    # ---- statements ------------------------------------------------------------------------------------------------

    def _statement(self, s: Statement) -> None:
        if s.kind == "block":
            self.scopes.append({})
            conditions = self.conditions
            for part in s.parts:
                self._statement(part)
            self.conditions = conditions
            self._close()
        elif s.kind == "declaration":
            for variable in s.variables:
                self._variable(variable)
        elif s.kind == "expression" and s.condition is not None:
            self._top(s.condition)
        elif s.kind in ("if", "switch"):
            self._if(s)
        elif s.kind == "loop":
            self._loop(s)
        elif s.kind == "return" and s.condition is not None:
            result = Kind(self.result) if self.result in FLOATS else None
            self._converted(s.condition, result)
            self._read(s.condition)
        elif s.kind == "unknown":
            self._unknown(s)

    def _unknown(self, s: Statement) -> None:
        """A statement that is not understood may use every name in it."""
        for index in range(s.first, s.last):
            local = self._local(self.tokens[index].text) if self.tokens[index].is_word else None
            if local is not None:
                local.escapes = True
                local.depends = local.depends or bool(self.items)
                local.low = local.high = None

    def _variable(self, variable: Variable) -> None:
        given = None
        if variable.given is not None:
            self._read(variable.given)
            given = self.kinds.of(variable.given)
            kind = variable_kind(variable, self.known, None, ())
            if kind is not None and variable.given.kind != "braces":
                self._converted(variable.given, kind if not variable.extents else None)
            elif variable.given.kind == "braces":
                self._braces(variable.given, kind.element if kind is not None and variable.extents else kind, variable)
            if "&" in variable.mark:
                self._escape(variable.given)
            if variable.each:
                given = given.element if given is not None and (given.rows or given.extents) else None
        self._declare(variable, given)

    def _escape(self, e: Expression) -> None:
        """Another name for a place: later writes to that show here."""
        root = root_of(e)
        local = self._local(root.text) if root.kind == "name" else None
        if local is not None:
            local.escapes = True

    def _if(self, s: Statement) -> None:
        self.scopes.append({})
        before = self.conditions
        for variable in s.variables:
            self._variable(variable)
        leaves = any(may_leave(part) for part in s.parts)
        if s.condition is not None:
            self._read(s.condition)
            self.conditions = [*before, s.condition]
            if leaves:
                for name in names_in(s.condition):
                    local = self._local(name)
                    if local is not None and not local.variable.const:
                        local.low = local.high = None
        for part in s.parts:
            self._statement(part)
        if not (leaves and s.condition is not None and self._is_of_options(s.condition)):
            self.conditions = before
        self._close()

    def _loop(self, s: Statement) -> None:
        self.scopes.append({})
        number = s.first
        each = [variable for variable in s.variables if variable.each]
        if not each:
            for variable in s.variables:
                self._variable(variable)
        before, self.loops = self.loops, (*self.loops, number)
        for variable in each:
            self._variable(variable)
        self._range_of(s)
        if self.items:
            for variable in s.variables:
                local = self._local(variable.names[0])
                heads = [e for e in (s.condition, s.step) if e is not None]
                if local is not None and any(self._depends(e) for e in heads):
                    local.depends = True
        if s.condition is not None and s.word != "do":
            self._read(s.condition)
        heads, self.heads = self.heads, [*self.heads, *([s.condition] if s.condition is not None else ())]
        for part in s.parts:
            self._statement(part)
        self.heads = heads
        if s.condition is not None and s.word == "do":
            self._read(s.condition)
        if s.step is not None:
            self._top(s.step)
        self._endless(s)
        self.loops = before
        self._close()

    def _top(self, e: Expression) -> None:
        """An expression whose value nobody uses."""
        if e.kind == "other" and e.text == ",":
            for part in e.parts:
                self._top(part)
        elif e.kind == "assign":
            self._assign(e)
        elif e.kind == "step":
            self._write(e.parts[0], e)
        else:
            changed = self._changed_only(e)
            self._read(e)
            if changed is not None:
                local = self._local(changed.text)
                local.reads.pop()  # the argument itself
                local.writes.append(_Use(e.last, "", self.loops, self.lambdas > local.lambdas, changed.first))

    def _changed_only(self, e: Expression) -> Expression | None:
        """The variable that a call of a function without a result changes, where it can change nothing else."""
        if e.kind != "call" or e.parts[0].kind != "name":
            return None
        found, arguments = self.known.functions.get(e.parts[0].text, ()), e.parts[1:]
        if len(found) != 1 or found[0].result != "void" or len(found[0].parameters) != len(arguments):
            return None
        taken = list(zip(found[0].parameters, arguments, strict=True))
        changed = [given for parameter, given in taken if parameter.mark and not parameter.const]
        if len(changed) != 1 or changed[0].kind != "name" or any(given.kind == "lambda" for given in arguments):
            return None
        local = self._local(changed[0].text)
        return changed[0] if local is not None and local.copied and local.holds and local.kind is not None else None

    # ---- expressions -----------------------------------------------------------------------------------------------

    def _use(self, local: _Local, e: Expression, part: str) -> _Use:
        return _Use(e.first, part, self.loops, self.lambdas > local.lambdas, e.first)

    def _assign(self, e: Expression) -> None:
        target, value = e.parts
        root = root_of(target)
        local = self._local(root.text) if root.kind == "name" else None
        before = self.given
        chain = fields_of_place(target)
        self.given = (local, chain[-1] if chain else "") if local is not None else None
        self._read(value)
        self.given = before
        kind = self.kinds.of(target)
        if value.kind == "braces":
            self._braces(value, kind)
        elif e.text in ("=", "+=", "-=", "*=", "/="):
            self._converted(value, kind)
        if local is not None and local.holds and local.lanes == self.lanes and self._depends(value):
            local.depends = True
        self._write(target, e)

    def _write(self, target: Expression, whole: Expression) -> None:
        root = root_of(target)
        local = self._local(root.text) if root.kind == "name" else None
        self._indices(target)
        if local is not None:
            chain = fields_of_place(target)
            use = self._use(local, target, chain[-1] if chain else "")
            use.at = whole.last  # behind what it assigns
            of_value = local.holds and (local.kind is not None or _is_field(target))
            (local.writes if of_value else local.reads).append(use)
            if not chain and whole.kind == "assign" and not local.copied and local.variable.given is None:
                self._copied_later(local, whole)
            if not chain and target.kind == "name":
                local.low = local.high = None
                if local.holds and local.lanes == self.lanes and any(map(self._depends, self.heads)):
                    local.depends = True  # so often as the item says
        elif root.kind != "name":
            self._read(root)
        self._meets(target, root, local, whole)

    def _copied_later(self, local: _Local, e: Expression) -> None:
        """``Ball copy; copy = rows[i];``"""
        kind = local.kind
        is_component = kind is not None and kind.is_plain and self.known.members(kind.name) is not None
        if is_component and not kind.extents and e.text == "=" and local.holds and not local.variable.parameter:
            local.copied = self._origin(e.parts[1])

    def _indices(self, e: Expression) -> None:
        """Read the indices in a place, and look whether they fit."""
        while e.kind in ("member", "index", "group"):
            if e.kind == "index":
                self._read(e.parts[1])
                self._within(e)
            e = e.parts[0]

    def _read(self, e: Expression) -> None:
        if e.kind in ("name", "member", "index"):
            self._read_place(e)
        elif e.kind == "assign":
            self._assign(e)
            self._read_place(e.parts[0])
        elif e.kind == "step":
            self._write(e.parts[0], e)
            root = root_of(e.parts[0])
            local = self._local(root.text) if root.kind == "name" else None
            if local is not None:
                use = self._use(local, e, "")
                use.at = e.last + 1
                local.reads.append(use)
        elif e.kind == "lambda" and e.lambda_ is not None:
            self._lambda(e.lambda_, None)
        elif e.kind == "call":
            self._call(e)
        elif e.kind == "choice":
            self._read(e.parts[0])
            before, self.conditions = self.conditions, [*self.conditions, e.parts[0]]
            self._mixed(e.parts[1], e.parts[2])
            self._read(e.parts[1])
            self._read(e.parts[2])
            self.conditions = before
        elif e.kind == "binary":
            self._binary(e)
        else:
            if e.kind == "unary" and e.text == "&":
                self._escape(e.parts[0])
            if e.kind == "braces":
                self._braces(e, Kind(e.text) if e.text else None)
            for part in e.parts:
                self._read(part)

    def _binary(self, e: Expression) -> None:
        self._read(e.parts[0])
        if e.text in ("&&", "and", "||", "or"):
            before, self.conditions = self.conditions, [*self.conditions, e.parts[0]]
            self._read(e.parts[1])
            self.conditions = before
            return
        if e.text not in ("<<", ">>"):
            self._mixed(e.parts[0], e.parts[1])
        self._read(e.parts[1])

    def _mixed(self, a: Expression, b: Expression) -> None:
        """An integer beside a float becomes one."""
        kinds = self.kinds.of(a), self.kinds.of(b)
        for one, kind in ((a, kinds[1]), (b, kinds[0])):
            if kind is not None and not kind.extents and kind.is_plain and (kind.is_float or kind.name in VECTORS):
                self._converted(one, Kind("f32"))

    def _read_place(self, e: Expression) -> None:
        self._indices(e)
        root = root_of(e)
        if root.kind != "name":
            if root is not e:
                self._read(root)
            return
        local = self._local(root.text)
        if local is None:
            return
        chain = fields_of_place(e)
        part = chain[-1] if chain else ""
        if self.given is not None and self.given[0] is local and self.given[1] == part:
            return  # x = x + 1 reads it only to write it
        local.reads.append(self._use(local, e, part))

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _call(self, e: Expression) -> None:
        function, arguments = e.parts[0] if e.parts else None, e.parts[1:]
        if function is None:
            return
        if function.kind == "member":
            self._indices(function.parts[0])
            root = root_of(function.parts[0])
            local = self._local(root.text) if root.kind == "name" else None
            if local is not None:
                local.reads.append(self._use(local, function, ""))
            elif root.kind != "name":
                self._read(root)
            self._known_array(function, arguments)
        elif function.kind != "name":
            self._read(function)
        else:
            self._known_array(function, arguments)
        for argument, becomes_float in zip(arguments, self.kinds.float_arguments(e), strict=True):
            if becomes_float:
                self._converted(argument, Kind("f32"))
        operation = self._operation(function, arguments)
        depends = bool(self.items) and any(self._depends(a) for a in arguments if a.kind != "lambda")
        for number, argument in enumerate(arguments):
            given = self._lambda_of(argument)
            if given is not None and operation is not None:
                again = argument.kind == "name"
                if again:
                    self._read(argument)
                self._lambda(given, operation)
            elif argument.kind == "lambda" and argument.lambda_ is not None:
                self._lambda(argument.lambda_, ("tables", None) if self._is_tables(function) else None)
            else:
                self._read(argument)
                self._hand_over(function, number, argument, arguments, depends)

    def _is_tables(self, function: Expression) -> bool:
        return function.kind == "member" and function.text == "tables"

    def _lambda_of(self, e: Expression) -> Lambda | None:
        """The lambda that is an argument, or the variable that holds one."""
        if e.kind == "lambda":
            return e.lambda_
        local = self._local(e.text) if e.kind == "name" else None
        given = local.variable.given if local is not None else None
        return given.lambda_ if given is not None and given.kind == "lambda" else None

    def _operation(self, function: Expression, arguments: Sequence[Expression]) -> tuple[str, Expression | None] | None:
        """Of a call over items: ``"each"`` or ``"one"``, and the number of items; None for any other call."""
        if function.kind == "member" and function.parts[0].kind == "name":
            local = self._local(function.parts[0].text)
            if local is None or local.variable.type not in (*LANES, "Group"):
                return None
            if function.text in _EACH:
                return "each", arguments[0] if arguments else None
            return ("one", None) if function.text in _ONE else None
        name = function.text.rpartition("::")[2] if function.kind == "name" else ""
        if name in _OVER_ITEMS and "::" in function.text:
            place = _OVER_ITEMS[name]
            return "each", arguments[place] if place is not None and place < len(arguments) else None
        return None

    def _hand_over(
        self, function: Expression, number: int, argument: Expression, arguments: Sequence[Expression], depends: bool
    ) -> None:
        """An argument that a function may write."""
        root = root_of(argument)
        local = self._local(root.text) if root.kind == "name" else None
        if local is not None:
            local.low = local.high = None if not local.variable.const else local.low
            if depends and argument.kind == "name" and local.holds and local.lanes == self.lanes:
                local.depends = True
        found = self.known.functions.get(function.text, ()) if function.kind == "name" else ()
        if not found or not self.items or depends:
            return
        taken = [each.parameters[number] for each in found if number < len(each.parameters)]
        if len(taken) != len(found) or not all("&" in each.mark and not each.const for each in taken):
            return
        kind = self.kinds.of(argument)
        if kind is not None and (kind.is_float or kind.is_integer or self.known.members(kind.name) is not None):
            self._meets(argument, root, local, argument)

    def _lambda(self, given: Lambda, operation: tuple[str, Expression | None] | None) -> None:
        before = self.loops, self.conditions, self.items, self.lanes, self.result, self.heads
        self.loops, self.lambdas = (*self.loops, given.body.first), self.lambdas + 1
        self.result = given.result
        self.scopes.append({})
        for variable in given.made:
            self._variable(variable)
        for name in given.captures if given.mutable else ():
            local = self._local(name)
            if local is not None and local.kind is not None:
                made = Variable(local.kind.name, [name], local.variable.at, given=Expression("name", 0, 0, name))
                self._declare(made, local.kind)
        if operation is not None and operation[0] != "tables":
            self.conditions = [each for each in self.conditions if self._is_of_options(each)]
            self.lanes += 1
        for number, variable in enumerate(given.parameters):
            self._declare(variable, None)
            local = self._local(variable.names[0]) if variable.names and variable.names[0] else None
            if local is not None and operation is not None and operation[0] == "each":
                local.depends = True
                if number == 0:
                    self._set_range(local, operation[1], given.body)
        if operation is not None and operation[0] != "tables":
            item = given.parameters[0].names[0] if given.parameters and given.parameters[0].names else ""
            many = operation[0] == "each" and (operation[1] is None or self._constant(operation[1]) != 1)
            self.items = [*self.items, (item, many and not self._chooses(given.body, item))]
        elif operation is None and (self.on_lanes or self.items):
            self.items = [*self.items, ("", False)]  # who runs it, and on which items, is not known
        self._statement(given.body)
        self._close()
        self.lambdas -= 1
        self.loops, self.conditions, self.items, self.lanes, self.result, self.heads = before

    def _chooses(self, body: Statement, item: str) -> bool:
        """Whether a text compares its item itself, as in ``if (i == 0)``, so that one item may be the only writer."""
        words = [token.text for token in self.tokens[body.first : body.last]]
        for i, word in enumerate(words):
            if word == item and item:
                if words[i + 1 : i + 3] in (["=", "="], ["!", "="]) or words[i - 2 : i] in (["=", "="], ["!", "="]):
                    return True
                if i and words[i - 1] == "!":
                    return True
        return False

    # ---- integer division ------------------------------------------------------------------------------------------

    def _converted(self, e: Expression, to: Kind | None) -> None:
        """An expression that becomes a float without a cast: a quotient of integers in it has lost its remainder."""
        if to is None or not (to.is_float or (to.name in VECTORS and to.is_plain)):
            return
        kind = self.kinds.of(e)
        if kind is None or not kind.is_integer:
            return
        division = self._quotient(e)
        if division is not None:
            left, right = (self._text(part) for part in division.parts)
            line = self.tokens[division.first].line
            kind_of = to.name if to.is_float else "f32"
            floats = (f"{text}.0f" if text.isdigit() and kind_of == "f32" else f"{kind_of}({without_brackets(text)})"
                      for text in (left, right))  # fmt: skip
            self._report(
                line,
                f"`{left} / {right}` divides integers, and drops the remainder before it becomes {kind_of}: write "
                f"`{' / '.join(floats)}`, or `{kind_of}({left} / {right})` where whole "
                "numbers are meant",
            )

    def _quotient(self, e: Expression) -> Expression | None:
        """The division in an integer expression that gives its value, not an index or argument in it."""
        if e.kind == "group" or (e.kind == "unary" and e.text in ("-", "+")):
            return self._quotient(e.parts[0])
        if e.kind == "choice":
            return self._quotient(e.parts[1]) or self._quotient(e.parts[2])
        if e.kind == "call" and e.parts[0].kind == "name" and e.parts[0].text in SAME_AS_ARGUMENTS:
            return next((found for part in e.parts[1:] if (found := self._quotient(part)) is not None), None)
        if e.kind != "binary":
            return None
        if e.text == "/":
            top, by = (self._constant(part, literal=True) for part in e.parts)
            exact = top is not None and by not in (None, 0) and top % by == 0
            return None if exact or by == 1 else e
        if e.text in _QUOTIENT_PARTS:
            return self._quotient(e.parts[0]) or self._quotient(e.parts[1])
        return None

    def _braces(self, e: Expression, kind: Kind | None, variable: Variable | None = None) -> None:
        """The values of ``Stone{a, b}``, each for its field."""
        if kind is None:
            return
        if (kind.is_float or kind.is_integer) and not (variable is not None and variable.extents):
            fields = {"": kind}
        elif variable is not None and variable.extents:
            for part in e.parts:
                self._converted(part, kind)
            return
        elif kind.name in VECTORS:
            fields = dict.fromkeys(VECTORS[kind.name], Kind("f32"))
        else:
            fields = dict(self.known.members(kind.name) or {})
        for (_, each), part in zip(fields.items(), e.parts, strict=False):
            named = part.kind == "other" and part.text in fields and bool(part.parts)
            self._converted(part.parts[0] if named else part, fields[part.text] if named else each)

    # ---- items that meet -------------------------------------------------------------------------------------------

    def _depends(self, e: Expression) -> bool:
        """Whether an expression depends on the item of the operation around it."""
        if not self.items:
            return False
        if e.kind == "lambda":
            return e.lambda_ is not None and any(
                local.depends
                for token in self.tokens[e.first : e.last]
                if token.is_word and (local := self._local(token.text)) is not None
            )
        if e.kind == "name":
            local = self._local(e.text)
            return local is not None and local.depends
        return any(self._depends(part) for part in e.parts)

    def _meets(self, target: Expression, root: Expression, local: _Local | None, whole: Expression) -> None:
        """Report a write of one item of an operation to what other items write too."""
        written = self._text(whole)
        if not self.items:
            if self.on_lanes and local is not None and self._is_elsewhere(local):
                self._report(
                    self.tokens[whole.first].line,
                    f"`{written}`: all lanes run this, outside of operations, and write the same place: write it "
                    "inside of one, such as once([&] { ... }) or for_each(n, [&](u32 i) { ... })",
                )
            return
        item, at_once = self.items[-1]
        if not at_once or self._depends(target):
            return
        if local is not None and local.lanes == self.lanes and (local.holds or local.kind is None):
            return  # a variable of this item
        if local is None and root.kind == "name":
            return  # a member, or a name that is not known
        which = f"`{item}`" if item else "the item"
        self._report(
            self.tokens[whole.first].line,
            f"`{written}`: every item writes this place, at the same time as others: index it by {which}, add up by "
            "sum(n, ...), or write it in once([&] { ... })",
        )

    def _is_elsewhere(self, local: _Local) -> bool:
        """Whether a variable of a system on lanes names memory that all lanes share."""
        if local.variable.parameter or local.kind is None or local.holds:
            return False
        given = local.variable.given
        if given is None:
            return False
        root = root_of(given)
        other = self._local(root.text) if root.kind == "name" else None
        if other is not None:
            return other is not local and (self._is_elsewhere(other) or other.variable.parameter)
        return root.kind == "call"

    # ---- indices ---------------------------------------------------------------------------------------------------

    def _constant(self, e: Expression, literal: bool = False) -> int | None:
        """The value of an integer that the text gives; ``literal``: by numbers only, not by constants of options."""
        low, high = self._interval(e, literal)
        return low if low == high else None

    def _interval(self, e: Expression, literal: bool = False) -> tuple[int | None, int | None]:
        """The least and greatest value of an integer that a text gives; None where it does not."""
        nothing = (None, None)
        if e.kind == "number":
            return (value, value) if (value := integer_of(e.text)) is not None else nothing
        if e.kind == "group" or (e.kind == "cast" and len(e.parts) == 1 and e.text in INTEGERS):
            return self._interval(e.parts[0], literal)
        if e.kind == "name":
            local = self._local(e.text)
            if local is not None:
                return local.low, local.high
            value = None if literal else self.known.number(e.text)
            return (value, value) if isinstance(value, int) and not isinstance(value, bool) else nothing
        if e.kind == "unary" and e.text == "-":
            low, high = self._interval(e.parts[0], literal)
            return (-high, -low) if low is not None and high is not None else nothing
        if e.kind != "binary" or e.text not in ("+", "-", "*", "/", "%"):
            return nothing
        a, b = self._interval(e.parts[0], literal), self._interval(e.parts[1], literal)
        if None in a or None in b or (a[0] != a[1] and b[0] != b[1] and names_in(e.parts[0]) & names_in(e.parts[1])):
            return nothing  # in `i - i / 4 * 4` both sides change together
        return combined_ranges(e.text, a, b)  # type: ignore[arg-type]

    def _set_range(self, local: _Local, count: Expression | None, body: Statement) -> None:
        """Of the item of an operation, by the number of items."""
        high = self._constant(count) if count is not None else None
        if high is None or high < 1 or may_leave(body, nothing=True):
            return
        if self._changes(local.name, body.first, body.last):
            return
        local.low, local.high = 0, high - 1

    def _range_of(self, s: Statement) -> None:
        """Of the variable of ``for (u32 i = 0; i < 16; ++i)``."""
        if s.word != "for" or len(s.variables) != 1 or s.condition is None or s.step is None or not s.parts:
            return
        variable, condition = s.variables[0], s.condition
        local = self._local(variable.names[0]) if variable.names else None
        if local is None or variable.given is None or variable.each or variable.mark:
            return
        local.low = local.high = None
        way = self._way(s.step, local.name)
        if condition.kind != "binary" or way == 0 or self._text(condition.parts[0]) != local.name:
            return
        begin, end = self._constant(variable.given), self._constant(condition.parts[1])
        body = s.parts[-1]
        if begin is None or end is None or self._changes(local.name, body.first, body.last) or may_leave(body):
            return
        if way > 0 and condition.text in ("<", "<=", "!="):
            low, high = begin, end if condition.text == "<=" else end - 1
        elif way < 0 and condition.text in (">", ">=", "!="):
            low, high = end if condition.text == ">=" else end + 1, begin
        else:
            return
        if low <= high:
            local.low, local.high = low, high

    def _way(self, step: Expression, name: str) -> int:
        """1 where a loop counts up by one, -1 where it counts down, 0 for anything else."""
        by_one = step.kind == "assign" and self._constant(step.parts[1]) == 1
        if self._text(step.parts[0]) != name if step.parts else True:
            return 0
        if step.kind == "step":
            return 1 if step.text == "++" else -1
        return {"+=": 1, "-=": -1}.get(step.text, 0) if by_one else 0

    def _changes(self, name: str, first: int, last: int) -> bool:
        """Whether a text may write a variable."""
        texts = [token.text for token in self.tokens[first - 2 : last + 2]]
        for i, text in enumerate(texts[2:-2], start=2):
            if text == name and (
                (texts[i + 1] == "=" and texts[i + 2] != "=")
                or (texts[i + 1] in "+-*/%&|^" and texts[i + 2] in ("=", texts[i + 1]) and texts[i + 1] not in "*&|/%^")
                or (texts[i + 1] in "*/%&|^" and texts[i + 2] == "=")
                or (texts[i - 1] in "+-" and texts[i - 2] == texts[i - 1])
                or (texts[i - 1] == "&" and texts[i - 2] in ("(", ",", "="))
            ):
                return True
        return False

    def _within(self, e: Expression) -> None:
        """Report an index whose text gives values that an array lacks."""
        base = self.kinds.of(e.parts[0])
        extent = base.extents[0] if base is not None and base.extents else None
        if extent is None:
            return
        low, high = self._interval(e.parts[1])
        if low is None or high is None or (low >= 0 and high < extent):
            return
        names = names_in(e.parts[1])
        if any(names & self._asked_of(each) or self._is_of_options(each) for each in self.conditions):
            return  # the text asks before it takes the element
        runs = f"from {low} to {high}" if low != high else f"{low}"
        what = f"`{self._text(e.parts[0])}` has {extent} {'rows' if base is not None and base.rows else 'elements'}"
        if low == high and not names:
            text = f"{what}, from 0 to {extent - 1}: `{self._text(e)}` lies outside of it"
            self._report(self.tokens[e.first].line, text, certain=not self.conditions)
            return
        self._report(
            self.tokens[e.first].line,
            f"{what}, and `{self._text(e.parts[1])}` runs {runs}: `{self._text(e)}` lies outside of it",
            certain=not self.conditions,
        )

    def _asked_of(self, condition: Expression) -> set[str]:
        """The names in a condition, and those in the first values of its variables: of ``const bool near = i < 4``."""
        names = names_in(condition)
        given = (local.variable.given for name in names if (local := self._local(name)) is not None)
        return names.union(*(names_in(each) for each in given if each is not None))

    def _is_of_options(self, condition: Expression) -> bool:
        """Whether constants decide a condition, or a part of it: with other options it may be another one."""
        if condition.kind == "group" or (condition.kind == "binary" and condition.text in ("&&", "and", "||", "or")):
            return any(self._is_of_options(part) for part in condition.parts)
        return bool(names_in(condition)) and self._is_known(condition)

    def _is_known(self, e: Expression) -> bool:
        """Whether numbers and constants give the value of an expression."""
        if e.kind == "name":
            local = self._local(e.text)
            return self.known.number(e.text) is not None if local is None else self._constant(e) is not None
        return e.kind == "number" or (
            e.kind in ("group", "unary", "binary", "cast") and all(self._is_known(part) for part in e.parts)
        )

    def _known_array(self, function: Expression, arguments: Sequence[Expression]) -> None:
        """Report a count of elements that an array lacks: of ``shuffle`` and ``copy_elements``."""
        name = function.text.rpartition("::")[2]
        if name == "shuffle" and function.kind == "member" and len(arguments) == 2:
            count, arrays = self._constant(arguments[1]), arguments[:1]
        elif name == "copy_elements" and function.arguments and len(arguments) >= 2:
            text = function.arguments[0]
            value = integer_of(text) if text[:1].isdigit() else self.known.number(text.replace(" ", ""))
            count, arrays = (value if isinstance(value, int) else None), arguments[:2]
        else:
            return
        for array in arrays:
            kind = self.kinds.of(array)
            extent = kind.extents[0] if kind is not None and len(kind.extents) == 1 and not kind.rows else None
            if count is not None and extent is not None and count > extent:
                self._report(
                    self.tokens[function.first].line,
                    f"`{self._text(array)}` has {extent} elements, and {name} takes {count} of them",
                    certain=not self.conditions,
                )

    # ---- endless loops ---------------------------------------------------------------------------------------------

    def _endless(self, s: Statement) -> None:
        """Report a loop whose condition nothing in it changes, and that nothing leaves."""
        if any(variable.each for variable in s.variables) or any(may_leave(part) for part in s.parts):
            return
        first, last = s.first, s.last
        words = {token.text for token in self.tokens[first:last] if token.is_word}
        if words & self.hidden or not s.parts:
            return
        if any(e.kind == "call" and self._local(first_name(e.parts[0]) if e.parts and e.parts[0].kind == "name" else "")
               for part in s.parts for e in all_expressions(part)):  # fmt: skip
            return  # a lambda may write whatever it names
        line = self.tokens[first].line
        if s.condition is None or (self.kinds.of(s.condition) is None and s.condition.kind == "number"):
            self._report(line, f"this '{s.word}' has no end: nothing in it leaves it by break or return")
            return
        inside = (*s.parts, *([Statement("expression", 0, 0, condition=s.step)] if s.step is not None else ()))
        if not self._steady(s.condition, inside):
            return
        asked = sorted(asked_methods(s.condition))
        if any(name in _DEFERRED for name in asked):
            self._report(
                line,
                f"this '{s.word}' has no end: create and destroy apply from the next system on, so that "
                f"`{self._text(s.condition)}` does not change while it runs; count in a variable of your own",
                certain=True,
            )
        else:
            self._report(
                line,
                f"this '{s.word}' has no end where it begins: nothing in it changes `{self._text(s.condition)}`",
            )

    def _steady(self, e: Expression, inside: Sequence[Statement]) -> bool:
        """Whether an expression keeps its value while the statements run."""
        if e.kind in ("number", "other"):
            return e.kind == "number" or not e.parts
        if e.kind == "name":
            local = self._local(e.text)
            if local is None:
                return e.text in ("true", "false", "nullptr", "no_row") or self.known.number(e.text) is not None
            if local.kind is None or local.escapes:
                return False
            return not any(may_change(part, e.text, "") for part in inside)
        if e.kind == "member":
            return self._steady_member(e, inside)
        if e.kind == "call":
            function = e.parts[0]
            if function.kind != "member" or not self.kinds.is_world(function.parts[0]) or function.text not in _STEADY:
                return False
            return all(self._steady(part, inside) for part in e.parts[1:])
        if e.kind in ("group", "unary", "binary", "cast", "index"):
            return e.text != "*" and all(self._steady(part, inside) for part in e.parts)
        return False

    def _steady_member(self, e: Expression, inside: Sequence[Statement]) -> bool:
        if ".parameters." in f".{path_of(e)}":
            return True
        root = root_of(e)
        if root.kind == "call":
            return e.text == "count" and self._steady(root, inside)
        local = self._local(root.text) if root.kind == "name" else None
        if local is None or local.kind is None:
            return False
        if local.kind.rows and e.text == "count":
            return not any(may_change(part, root.text, "") for part in inside)
        if local.kind.name == "World":
            return False
        if not all(self._steady(index, inside) for index in indices_of(e)) or self._writes_elsewhere(inside):
            return False
        return not any(may_change(part, root.text, e.text) or calls_others(part) for part in inside)

    def _writes_elsewhere(self, inside: Sequence[Statement]) -> bool:
        """Whether statements write by a reference or pointer itself, ``left -= 1``, which may mean any place."""
        own = {name for part in inside for each in declared_in(part) if not each.mark for name in each.names}
        for e in (e for part in inside for e in all_expressions(part) if e.kind in ("assign", "step")):
            target = e.parts[0]
            while target.kind == "group":
                target = target.parts[0]
            if target.kind == "unary" and target.text == "*":
                return True
            local = self._local(target.text) if target.kind == "name" else None
            if local is not None and not local.holds and target.text not in own:
                return True
        return False
