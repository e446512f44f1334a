"""What a checked build has found, in words: the expression of the author's text, the number, and what was allowed."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import numpy as np
import torch

from ..base.numbers import NUMBERS, SPELLINGS
from ..base.shared import Found
from ..build.checked import column_as_written
from ..build.structs import numbered_types
from ..declare.columns import Column
from ..declare.fields import Field
from ..declare.roles import choices
from ..declare.spaces import bounds
from ..errors import Finding
from ..read.macros import call_at, expanded, macros_of
from ..resolve.nodes import Node
from ..resolve.program import Program
from .host_checks import FINAL

_NO_ROW = 2**32 - 1  # csrc/tbs/table.h
_OPENING = {")": "(", "]": "[", ">": "<", "}": "{"}
_CALLS = (Found.bits, Found.bits_of_value, Found.below, Found.integer, Found.shuffle)  # csrc/tbs/checked_types.h
_OPERATORS = {Found.sum: "+", Found.difference: "-", Found.product: "*"}


def finding(program: Program, node: Node, found: Found, record: np.void) -> Finding:
    """The record of a world (``tbs::CheckRecord``) and the node in which it was made."""
    by_number = bool(record["by_number"])
    file = _numbered(program, int(record["file"])) if by_number else _string(record["file"])
    line, column = int(record["line"]), int(record["column"])
    if not file:
        file, _, number = node.system.place.rpartition(":")
        line = int(number) if number.isdigit() else 0
    whole = program.files.get(Path(file), "")
    if whole and not by_number and column and program.checks is not None:
        source = next(source for _, source in program.sources if source.path == Path(file))
        column = column_as_written(program, source, line, column)
    end = _offset(whole, line, column)
    if by_number and whole and column == 0 and found in _CALLS:
        end = _offset(whole, line, _first_column(whole, line))
    number = int(record["type"])
    kind = _numbered_type(program, found, number) if by_number else _string(number)
    value, bound = int(record["value"]), int(record["bound"])
    said: int | float
    if found in (Found.unwritten, Found.leftover):
        text, said = _leftover(program, found, value, bound, int(record["other"])), 0
    elif found is Found.no_choice:
        text, said = _no_choice(program, value), 0
    elif found is Found.bounds:
        text, said = _out_of_bounds(program, list(program.columns.values())[bound], value, int(record["other"]))
    elif found is Found.not_finite:
        text, said = _not_finite(list(program.columns.values())[bound], value, int(record["other"]))
    else:
        shown, place, by = _through_macro(program, found, whole, end)
        text, said = _sentence(found, shown, place, kind, value, bound, int(record["other"]))
        text += by
        if by_number and whole and found is Found.row and column == 0:
            text += f": `{_statement(whole, _offset(whole, line, _first_column(whole, line)))}`"
    return Finding(found.name, file, line, column, said, bound, text, int(record["step"]))


def failed_check(program: Program, node: Node, code: int, bits: int, step: int) -> Finding:
    """A ``world.check`` that failed: ``code`` counts from ``Program.first_check_code``, ``bits`` are of the value."""
    value = float(np.uint32(bits).view(np.float32)) if code % 2 else int(np.uint32(bits).view(np.int32))
    if code < 2:
        name, _, line = node.system.place.rpartition(":")
        return Finding("check", name, int(line), 1, value, None, f"a check failed, value {value:g}", step)
    named = program.check_sites[code // 2 - 1]
    own = node.system.place.rpartition(":")[0]
    alike = [site for site in program.check_sites if site.line <= named.line <= site.last_line]
    site = next((site for site in alike if site.path.name == own), named)  # lines are enough to separate checks
    text = f"check failed: `{site.condition}`" + (f": {site.message}" if site.message else "")
    if site.value:
        text += f", {value:g}" if site.value == f"{value:g}" else f", `{site.value}` is {value:g}"
    shown = value if site.value else None
    return Finding("check", str(site.path), site.line, site.column, shown, None, text, step)


def _sentence(
    found: Found, whole: str, end: int, kind: str, value: int, bound: int, other: int
) -> tuple[str, int | float]:
    """What to say, and the number that it is about."""
    name = type_name(kind)
    if found is Found.index:
        base, index = subscript(whole, end)
        return f"{base or 'array'}[{value}] of {name}{_written(index, value)}{_allowed(name, value)}", value
    if found is Found.row:
        base, index = subscript(whole, end)
        rows = f"{bound} row{'s' * (bound != 1)}{_component(kind)}"
        return f"{base or 'rows'}[{value}] of {rows}{_written(index, value)}", value
    if found is Found.world:
        base, index = subscript(whole, end)
        few = f"{bound} world{'s' * (bound != 1)}{_written(index, value)} (checked builds give one at a time)"
        return f"{base or 'worlds'}[{value}] of {few}", value
    line = _statement(whole, end)
    if found is Found.bits:
        if other + value <= bound:
            return f"append takes 64 bits at most, got {value}: `{line}`", value
        return f"{value} bits behind {other} do not fit into Bits<{bound}>: `{line}`", value
    if found is Found.bits_of_value:
        return f"{value % 2**64} has more than {other} bits: `{line}`", value % 2**64
    if found is Found.below:
        return f"below(0): no number is below 0: `{line}`", value
    if found is Found.integer:
        return f"integer({value}, {bound}): low is greater than high: `{line}`", value
    if found is Found.shuffle:
        return f"shuffle of {value} items in an array of {bound}: `{line}`", value
    if found in _OPERATORS:
        return f"{value} {_OPERATORS[found]} {_operand(bound)} does not fit into {name}: `{line}`", value
    if found is Found.negation:
        return f"-({value}) does not fit into {name}: `{line}`", value
    if found is Found.division:
        if bound == 0:
            by = _divisor(whole, end)
            return f"division by zero in {name}{f', by `{by}`' if by else ''}: `{line}`", value
        return f"{value} / {_operand(bound)} does not fit into {name}: `{line}`", value
    if found is Found.shift:
        width = 8 * NUMBERS[name].dtype.itemsize if name in NUMBERS else 32
        return f"{value} shifted by {bound} bits; {name} has {width}: `{line}`", bound
    if found is Found.float_cast:
        number = _float(value)
        return f"{number:g} does not fit into {name}: `{line}`", number
    if found is Found.null:
        return f"a null pointer is used, such as find() gives for a row that there is not: `{line}`", 0
    if found is Found.no_return:
        return "a function that returns a value ends without return", 0
    if found is Found.loop:
        return (
            f"loops have taken more than {value} turns in one system, the most that Checks(loops={value}) allows: "
            "correct the condition that ends them, or allow more",
            value,
        )
    raise AssertionError(found)


def _float(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def takers(program: Program, column: Column) -> list[Node]:
    """Nodes that may read what is in a column before it is written, those that only read it in front."""
    graphs = ("step", "start", "observe") if column.scratch else ("observe",)
    nodes = (node for graph in graphs for node in program.graphs[graph])
    taking = [node for node in nodes if column.name in node.reads | node.writes]
    return sorted(taking, key=lambda node: column.name not in node.reads)


def _leftover(program: Program, found: Found, depends: int, number: int, offset: int) -> str:
    """``'observe' leaves Ball.See.speed[2] unwritten``: an element of column ``number``, on which one ``depends``."""
    columns = list(program.columns.values())
    column = columns[number]
    field, index = next(
        (field, index) for field in column.component.fields if (index := _index_at(field, offset)) is not None
    )
    place = f"[{', '.join(map(str, index))}]" if index else ""
    name = f"{column.name}.{field.name}{place}"
    if found is Found.unwritten:
        return f"'observe' leaves {name} unwritten, which it must write every time: the column holds anything before"
    systems = ", ".join(dict.fromkeys(f"'{node.system.name}'" for node in takers(program, column)))
    what = "is scratch and" if column.scratch else "holds anything before 'observe' and"
    behind = f"; {columns[depends].name} depends on it" if depends >= 0 else ""
    return f"{name} {what} is read before it is written, by one of {systems}{behind}"


def _no_choice(program: Program, part: int) -> str:
    """``Player.Legal (action_mask) allows nothing``."""
    of_part = f" in part {part} of the action" if len(choices(program.action_space).reshape(-1)) > 1 else ""
    name = program.info["action_mask"].name
    return f"{name}, the action_mask, allows nothing{of_part}: a row that acts needs at least one legal action"


def _out_of_bounds(program: Program, column: Column, bits: int, element: int) -> tuple[str, float]:
    """``Ball.See.speed[2] is 1.25, but observation_space allows 0 to 1``."""
    value = _float(bits)
    key = next(key for key, own in program.observations.items() if own is column)
    space = program.observation_space[key] if key else program.observation_space
    index = np.unravel_index(element % FINAL, column.value_shape)
    low, high = (np.broadcast_to(end, column.value_shape)[index] for end in bounds(space))
    part = f"[{key!r}]" if key else ""
    when = " in the last observation of an episode" if element >= FINAL else ""
    name = column.element_name([int(i) for i in index])
    return f"{name} is {value:.9g}{when}, but observation_space{part} allows {low:.9g} to {high:.9g}", value


def _not_finite(column: Column, bits: int, offset: int) -> tuple[str, float]:
    """``nan in Ball.Motion.speed[2]``."""
    for field in column.component.fields:
        index = _index_at(field, offset)
        if index is not None and field.type.dtype.is_floating_point:
            dtype = field.type.dtype
            number = torch.tensor([bits]).view(torch.uint8)[: dtype.itemsize].view(dtype).item()
            place = f"[{', '.join(map(str, index))}]" if index else ""
            return f"{number} in {column.name}.{field.name}{place}", number
    raise AssertionError(offset)


def _index_at(field: Field, offset: int) -> tuple[int, ...] | None:
    """Which number of a field lies at an offset of its component."""
    for index in np.ndindex(field.type.tensor_shape):
        if field.offset + sum(i * step for i, step in zip(index, field.strides, strict=True)) == offset:
            return index
    return None


def _operand(value: int) -> str:
    return f"({value})" if value < 0 else str(value)


def _written(index: str, value: int) -> str:
    """What the text has as the index, unless it is the number itself."""
    return "" if not index or index == str(value) else f", the index is `{index}`"


def _allowed(name: str, value: int) -> str:
    """Which indices an array has, and what to do about ``no_row``."""
    extent = re.search(r"\[(\d+)", name)
    if value == _NO_ROW:
        return ": this is no_row, of a row that there is not: test it first"
    return f": it has 0 to {int(extent[1]) - 1}" if extent else ""


def _component(kind: str) -> str:
    found = re.search(r"Type = (?:const )?(?:[\w]+::)*(\w+)", kind)
    return f" of {found[1]}" if found else ""


def type_name(kind: str) -> str:
    """A type as authors write it: ``u8[15]`` of g++'s ``'unsigned char [15]'``."""
    base, bracket, extents = kind.strip("'").partition(" [")
    base = base.removeprefix("const ").removeprefix("struct ").rpartition("::")[2]
    return SPELLINGS.get(base, base) + (f"[{extents}" if bracket else "").replace("][", ", ")


def subscript(whole: str, end: int) -> tuple[str, str]:
    """``("maze.walls", "x + 1")`` of the text that has the closing bracket of ``maze.walls[x + 1]`` at ``end``."""
    if not 0 <= end < len(whole) or whole[end] != "]":
        return "", ""
    opening = _matching(whole, end)
    start = _postfix_start(whole, opening)
    squeeze = re.compile(r"\s+")
    return squeeze.sub(" ", whole[start:opening]).strip(), squeeze.sub(" ", whole[opening + 1 : end]).strip()


def _through_macro(program: Program, found: Found, whole: str, end: int) -> tuple[str, int, str]:
    """A text in which the subscript stands and where it ends, and what to say: other ones where a macro has it.

    A compiler reports the place where the macro is used. A line with several subscripts is shown as it is written.
    """
    if found not in (Found.index, Found.row, Found.world) or not 0 <= end < len(whole) or whole[end] == "]":
        return whole, end, ""
    macros = macros_of(source for _, source in program.sources)
    call = call_at(macros, whole, end)
    text = expanded(macros, call)
    named = {subscript(text, i): i for i, mark in enumerate(text) if mark == "]"}
    if not call or len(named) != 1:
        return whole, end, f": `{_statement(whole, end)}`" if call else ""
    return text, next(iter(named.values())), f", in `{call}`"


def _matching(whole: str, end: int) -> int:
    """Where the bracket is opened that is closed at ``end``."""
    closing, opening = whole[end], _OPENING[whole[end]]
    depth = 0
    for i in range(end, -1, -1):
        depth += (whole[i] == closing) - (whole[i] == opening)
        if depth == 0:
            return i
    return end


def _postfix_start(whole: str, end: int) -> int:
    """Where the operand of a subscript begins: names, members, calls and subscripts before ``end``."""
    start = end
    while start > 0:
        before = whole[:start].rstrip()
        if not before:
            break
        last = before[-1]
        goes_on = start == end or whole[start] in ".[(<-:"
        closes = last == ">" and before[-2:] != "->" and whole[start] == "("
        if (last in ")]" and goes_on) or closes:
            opened = _matching(whole, len(before) - 1)
            if opened == len(before) - 1:
                break
            start = opened
        elif (name := re.search(r"\w+$", before)) and goes_on:
            if name[0] in ("return", "case", "else", "in"):
                break
            start = name.start()
        elif before.endswith(("->", "::")):
            start = len(before) - 2
        elif last == "." and not before[-2:-1].isdigit():
            start = len(before) - 1
        else:
            break
    return start


def _offset(whole: str, line: int, column: int) -> int:
    lines = whole.split("\n")
    if not 1 <= line <= len(lines) or column < 1:
        return -1
    text = lines[line - 1].encode()[: column - 1].decode(errors="ignore")
    return sum(len(one) + 1 for one in lines[: line - 1]) + len(text)


def _divisor(whole: str, end: int) -> str:
    """``(x - 1)`` of ``5 / (x - 1)``, whose operator is at ``end``; empty where that is not known."""
    if end < 0:
        return ""
    if assigned := re.compile(r"[/%]=([^;{}]*)").match(whole, end):
        return " ".join(assigned[1].split())
    found = re.compile(r"[/%]\s*(?=[\w(])").match(whole, end)
    if not found:
        return ""
    stop = found.end()
    while stop < len(whole):
        if whole[stop] in "([":
            depth, at = 0, stop
            while at < len(whole):
                depth += (whole[at] in "([") - (whole[at] in ")]")
                at += 1
                if depth == 0:
                    break
            stop = at
        elif member := re.compile(r"\w+|\.\w+|->\w+|::").match(whole, stop):
            stop = member.end()
        else:
            break
    return " ".join(whole[found.end() : stop].split())


def _block_before(whole: str, end: int) -> int:
    """The last brace in front of a place that is of a block, and not of a value such as ``Entity{}``; -1 if none is."""
    at = end
    while (at := max(whole.rfind("{", 0, at), whole.rfind("}", 0, at))) >= 0:
        opened = _matching(whole, at) if whole[at] == "}" else at
        if not re.search(r"\w$", whole[:opened]) or re.search(r"\b(?:else|do|try)$", whole[:opened]):
            return at
        at = opened
    return -1


def _statement(whole: str, end: int) -> str:
    """The statement of a place, as far as it is on its line."""
    if not 0 <= end < len(whole):
        return ""
    begin = max(whole.rfind("\n", 0, end), whole.rfind(";", 0, end), _block_before(whole, end)) + 1
    stop = re.compile(r"[\n{}]|;").search(whole, end)
    text = whole[begin : stop.end() if stop else None].partition("//")[0].strip(" \t\n")
    return text.strip("{} \t") if text.count("{") != text.count("}") else text


def _numbered(program: Program, number: int) -> str:
    """The file that ``file_number`` in csrc/tbs/checks.h gives this number."""
    for path in program.files:
        own = 0xCBF29CE484222325
        for byte in str(path).encode():
            own = (own ^ byte) * 0x100000001B3 % 2**64
        if own == number:
            return str(path)
    return ""


def _numbered_type(program: Program, found: Found, number: int) -> str:
    """The type that csrc/tbs/checked_device.h gives this number, in the words of g++."""
    types, own = numbered_types(program), number & 255
    name = types[own][0] if own < len(types) else ""
    extents = [number >> shift & 0x3FFF for shift in range(8, 64, 14)]
    if found is Found.row:
        return f"Type = {name}" if name else ""
    return f"{name or 'a struct'} {''.join(f'[{extent}]' for extent in extents if extent)}".strip()


def _first_column(whole: str, line: int) -> int:
    """Of the first character of a line that is no blank."""
    text = whole.split("\n")[line - 1]
    return len(text) - len(text.lstrip()) + 1


def _string(address: int) -> str:
    """Text of the library, which stays loaded as long as the process runs."""
    return ctypes.string_at(int(address)).decode(errors="replace") if address else ""
