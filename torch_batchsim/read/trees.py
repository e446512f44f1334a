"""Questions about the trees of bodies: what a statement names, writes, leaves."""

from __future__ import annotations

from collections.abc import Iterator

from .bodies import Expression, Statement, Variable


def without_brackets(text: str) -> str:
    """``a + b`` of ``(a + b)``."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1] if text.startswith("(") else text


def integer_of(text: str) -> int | None:
    lowered = text.lower().replace("'", "").rstrip("ul")
    try:
        return int(lowered, 0)
    except ValueError:
        return None


def combined_ranges(operator: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int | None, int | None]:
    if operator == "+":
        return a[0] + b[0], a[1] + b[1]
    if operator == "-":
        return a[0] - b[1], a[1] - b[0]
    if operator == "*":
        products = [x * y for x in a for y in b]
        return min(products), max(products)
    if b[0] != b[1] or b[0] <= 0 or a[0] < 0:
        return None, None
    if operator == "/":
        return a[0] // b[0], a[1] // b[0]
    return (a[0] % b[0], a[1] % b[0]) if a[1] - a[0] + a[0] % b[0] < b[0] else (0, b[0] - 1)


def all_expressions(s: Statement) -> Iterator[Expression]:
    """All expressions in a statement and its parts, lambdas included."""
    waiting: list[Expression] = [e for v in s.variables for e in (*v.extents, *([v.given] if v.given else ()))]
    waiting += [e for e in (s.condition, s.step) if e is not None]
    while waiting:
        e = waiting.pop()
        yield e
        waiting += e.parts
        if e.lambda_ is not None:
            yield from all_expressions(e.lambda_.body)
    for part in s.parts:
        yield from all_expressions(part)


def names_in(e: Expression) -> set[str]:
    found = {e.text} if e.kind == "name" else set()
    return found.union(*(names_in(part) for part in e.parts))


def asked_methods(e: Expression) -> set[str]:
    """The methods that a condition calls."""
    own = {e.parts[0].text} if e.kind == "call" and e.parts[0].kind == "member" else set()
    own |= {"rows"} if e.kind == "member" and e.text == "count" else set()
    return own.union(*(asked_methods(part) for part in e.parts))


def may_leave(s: Statement, nothing: bool = False) -> bool:
    """Whether a statement may leave the loop around it: by break, return, or in a way that is not understood.

    Args:
        nothing: only a return without a value counts, as it does in a lambda.
    """
    if s.kind == "unknown" or (s.kind == "break" and not nothing):
        return True
    if s.kind == "return":
        return s.condition is None or not nothing
    if s.kind == "continue":
        return not nothing
    return any(may_leave(part, nothing) for part in s.parts)


def indices_of(e: Expression) -> Iterator[Expression]:
    while e.kind in ("member", "index", "group"):
        if e.kind == "index":
            yield e.parts[1]
        e = e.parts[0]


def may_change(s: Statement, name: str, part: str) -> bool:
    """Whether a statement may change a variable: it assigns it, steps it, hands it over, or takes its address.

    Args:
        part: a field of it; then any place with a last field of this name counts, since two names may mean one place.
    """
    if s.kind == "unknown":
        return True
    if any(_changed_by(e, name, part) for e in all_expressions(s)):
        return True
    return any(
        name in variable.names
        or (variable.given is not None and variable.mark == "&" and first_name(variable.given) == name)
        for variable in declared_in(s)
    )


def _changed_by(e: Expression, name: str, part: str) -> bool:
    if e.kind in ("assign", "step"):
        target = e.parts[0]
        named = {first_name(target)} if first_name(target) else names_in(target)  # (a ? b : c) = 1
        fields = fields_of_place(target)
        return part in fields if part and fields else name in named
    if e.kind == "unary":
        return e.text == "&" and first_name(e.parts[0]) == name
    if e.kind == "lambda" and e.lambda_ is not None:
        return any(name in capture or capture in "&=" for capture in e.lambda_.captures)
    if e.kind != "call" or not e.parts:
        return False
    called = e.parts[0]
    handed = any(first_name(argument) == name for argument in e.parts[1:])
    return handed or (called.kind == "member" and first_name(called.parts[0]) == name)


def declared_in(s: Statement) -> Iterator[Variable]:
    yield from s.variables
    for part in s.parts:
        yield from declared_in(part)


def calls_others(s: Statement) -> bool:
    """Whether a statement calls anything but functions of numbers, which could write by the world."""
    return any(
        e.kind == "call"
        and (
            not e.parts
            or e.parts[0].kind != "name"
            or bool(e.parts[0].arguments)
            or "world" in map(first_name, e.parts[1:])
        )
        for e in all_expressions(s)
    )


def root_of(e: Expression) -> Expression:
    """The first part of a place: ``ball`` of ``ball.at.x``."""
    while e.kind in ("member", "index", "group"):
        e = e.parts[0]
    return e


def first_name(e: Expression) -> str:
    root = root_of(e)
    return root.text if root.kind == "name" else ""


def fields_of_place(e: Expression) -> list[str]:
    """``["x", "at"]`` of ``ball.at.x``: the fields behind the root, the last one first, without indices."""
    found = []
    while e.kind in ("member", "index", "group"):
        if e.kind == "member":
            found.append(e.text)
        e = e.parts[0]
    return found
