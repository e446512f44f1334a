"""The dict in a layout file: the literals of Python that it may hold."""

from __future__ import annotations

import ast
from typing import Any

from .layout_checks import Problem

_ALLOWED = (
    "a layout is a grid or a dict literal; in it may be texts, numbers, None, True, False, lists, tuples, "
    "dicts with texts as keys, and float('inf')"
)


def parse(text: str) -> dict[str, Any]:
    """The dict in a layout file. The reference evaluates the file as Python; here only a literal is allowed."""
    body = text.lstrip()
    lines_before = text[: len(text) - len(body)].count("\n")
    try:
        tree = ast.parse("\n" * lines_before + body, mode="eval").body
    except SyntaxError as error:
        raise Problem(f"line {error.lineno}: {error.msg}; {_ALLOWED}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # zero bytes, lone surrogates, deep nesting
        raise Problem(f"it cannot be parsed ({error}); {_ALLOWED}") from None
    if not isinstance(tree, ast.Dict):
        raise Problem(f"line {tree.lineno}: not a dict; {_ALLOWED}")
    return _literal(tree)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | None):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        items = [_literal(item) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.Dict):
        return _literal_dict(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        number = node.operand if isinstance(node.operand, ast.Constant) else _float_call(node.operand)
        value = number.value if isinstance(number, ast.Constant) else number
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    value = _float_call(node)
    if value is None:
        raise Problem(f"line {node.lineno}, column {node.col_offset + 1}: not allowed here; {_ALLOWED}")
    return value


def _literal_dict(node: ast.Dict) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise Problem(f"line {value.lineno}: a key that is not a text; {_ALLOWED}")
        if key.value in values:
            raise Problem(f"line {key.lineno}: the key {key.value!r} occurs twice")
        values[key.value] = _literal(value)
    return values


def _float_call(node: ast.expr) -> float | None:
    """``float('inf')`` and the like; None for anything else."""
    match node:
        case ast.Call(ast.Name("float"), [ast.Constant(str(text))], []):
            try:
                return float(text)
            except ValueError:
                return None
    return None
