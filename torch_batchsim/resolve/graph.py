"""The task graphs of an environment as a table and a picture: which node reads and writes which columns, in order."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from .nodes import GRAPHS, Loop, Node
from .program import Program

_ROW, _COLUMN, _SECTION, _MARGIN = 24, 26, 30, 16  # pixels: of a node, a column, the title of a task graph
_LETTER, _BOLD = 6.7, 8.0  # width of a letter, at most about
_STEP = 14  # to the right, for the inside of a task graph or a Repeat
_HEAD = 126  # at least, above the nodes
_INSET = 4  # by which the frame of a Repeat is wider than the frames in it
_SLOPE = 0.87  # of the names of columns: sine of 60 degrees
_COLOURS = {"start": "#e8f1e4", "step": "#e3ecf7", "observe": "#f7efdf"}
_WRITES, _READS, _FLOWS, _LINE, _FRAME = "#1d4f91", "#ffffff", "#1d4f91", "#c5ccd6", "#667"
_ARMS = {"creates": "M-3 0H3M0 -3V3", "destroys": "M-2.5 -2.5L2.5 2.5M-2.5 2.5L2.5 -2.5"}
_BOTH = "creates and destroys"
_KEY = (("writes", "writes"), ("reads", "reads"), ("creates", "creates rows"), ("destroys", "destroys rows"))


@dataclass(frozen=True)
class Access:
    """One node: its system, the table that it runs over (None: once per world), and names of columns.

    The name of a dynamic table among them stands for which rows there are.
    """

    graph: str
    system: str
    table: str | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    creates: tuple[str, ...] = ()  # dynamic tables in which it may create rows
    destroys: tuple[str, ...] = ()
    lanes: int = 1  # that work on each row
    worlds: int = 1  # that it takes at a time
    loops: tuple[Loop, ...] = ()  # the Repeats around it, the outermost first


class Graph:
    """The nodes of all task graphs in the order in which they run. ``str`` gives a table, ``draw`` a picture."""

    def __init__(self, program: Program) -> None:
        self.name = program.name
        self.nodes = [_access(node) for node in program.nodes]

    def __str__(self) -> str:
        lines = []
        for index, node in enumerate(self.nodes):
            for loop in _opened(self.nodes, index):
                lines.append(f"{node.graph:8} {'  ' * node.loops.index(loop)}{loop.times} times:")
            indent = "  " * len(node.loops)
            lines.append(f"{node.graph:8} {indent}{node.system} {_over(node)}")
            lines += [f"         {indent}{text}" for text in _details(node)]
        return "\n".join(lines)

    def dependencies(self) -> list[tuple[int, int]]:
        """Pairs ``(earlier, later)`` of nodes of one graph: the later must wait for the earlier.

        It reads or writes a column that the earlier was the last to write, or writes one that the earlier has read
        since. The pairs leave out dependencies on the next repetition of a ``Repeat``.
        """
        pairs = set()
        for graph in GRAPHS:
            last_writer: dict[str, int] = {}
            readers: dict[str, list[int]] = {}
            for index, node in enumerate(self.nodes):
                if node.graph != graph:
                    continue
                for column in (*node.reads, *node.writes):
                    if column in last_writer:
                        pairs.add((last_writer[column], index))
                for column in node.writes:
                    pairs.update((reader, index) for reader in readers.pop(column, ()))
                    last_writer[column] = index
                for column in node.reads:
                    readers.setdefault(column, []).append(index)
        return sorted(pairs)

    def draw(self, path: str | Path) -> None:
        """Write a picture as SVG: a line for each node, in the order in which they run, and a column for each column.

        A filled mark is a write, an empty one a read; plus and cross are rows that may be created and destroyed. A
        thick line leads from a write down to the nodes that read it or write over it: these wait for it.
        """
        path = Path(path)
        if path.suffix != ".svg":
            raise ValueError(f"the picture is SVG and its name must end in .svg, got {str(path)!r}")
        path.write_text(self._svg(), "utf-8")

    def _svg(self) -> str:
        names, rows, bottom = self._columns(), {}, 0.0
        begin = [_MARGIN + _STEP * (1 + len(node.loops)) for node in self.nodes]
        ends = (x + len(node.system) * _BOLD for x, node in zip(begin, self.nodes, strict=True))
        middle = round(max(ends, default=_MARGIN) + 10)
        left = round(middle + max((len(_over(node)) for node in self.nodes), default=0) * _LETTER + 12)
        longest = max((len(name) for name in names), default=0) * _LETTER
        top = max(_HEAD, round(50 + longest * _SLOPE))
        at = {name: left + _COLUMN * (i + 0.5) for i, name in enumerate(names)}
        right = left + _COLUMN * len(names) + _MARGIN
        parts, y = [], float(top)
        for graph in (graph for graph in GRAPHS if any(node.graph == graph for node in self.nodes)):
            start = y
            y += _SECTION
            for index, node in enumerate(self.nodes):
                if node.graph == graph:
                    y += _ROW * len(_opened(self.nodes, index))  # room for the names of frames
                    rows[index] = y + _ROW / 2
                    y += _ROW
            parts.append(_box(_MARGIN / 2, start, right - _MARGIN, y - start, f'fill="{_COLOURS[graph]}"'))
            parts.append(_text(_MARGIN, start + 20, graph, "bold"))
            bottom, y = y, y + 10
        parts += [_line(_MARGIN, row + _ROW / 2, right - _MARGIN, row + _ROW / 2, "#ffffff") for row in rows.values()]
        parts += [_line(x, top, x, bottom, _LINE) for x in at.values()]
        parts += self._frames(rows, left)
        parts += self._flows(rows, at)
        for index, node in enumerate(self.nodes):
            parts.append(_text(begin[index], rows[index] + 4, node.system, "bold"))
            parts.append(_text(middle, rows[index] + 4, _over(node), "italic"))
            for kind, named in _marks(node).items():
                parts += [_mark(kind, at[name], rows[index], f"{node.system} {kind} {name}") for name in named]
        parts += [_slanted(x, top - 6, name) for name, x in at.items()]
        width = max(right, right - _COLUMN + longest * (1 - _SLOPE**2) ** 0.5) + _MARGIN
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom + _MARGIN:.0f}" '
            'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        )
        key = [
            part
            for i, (kind, text) in enumerate(_KEY)
            for part in (_mark(kind, _MARGIN + 8, 48 + 20 * i, text), _text(_MARGIN + 22, 52 + 20 * i, text))
        ]
        title = _text(_MARGIN, 24, f"{self.name}: task graphs", "bold")
        return "\n".join([head, title, *key, *parts, "</svg>"]) + "\n"

    def _columns(self) -> list[str]:
        """Names of all columns, table by table, in the order in which nodes name them."""
        named = [name for node in self.nodes for name in (*node.reads, *node.writes, *node.creates, *node.destroys)]
        tables = list(dict.fromkeys(name.partition(".")[0] for name in named))
        return sorted(dict.fromkeys(named), key=lambda name: (tables.index(name.partition(".")[0]), "." in name))

    def _flows(self, rows: dict[int, float], at: dict[str, float]) -> list[str]:
        """A thick line from each write of a column to the last node that waits for it."""
        last: dict[tuple[int, str], int] = {}  # of a node that writes, and a column
        for graph in GRAPHS:
            writer: dict[str, int] = {}
            for index, node in enumerate(self.nodes):
                if node.graph != graph:
                    continue
                for name in {*node.reads, *node.writes}:
                    if name in writer:
                        last[writer[name], name] = index
                writer |= dict.fromkeys(node.writes, index)
        ends = sorted((name, first, end) for (first, name), end in last.items())
        return [_line(at[name], rows[first], at[name], rows[end], _FLOWS, 3) for name, first, end in ends]

    def _frames(self, rows: dict[int, float], right: float) -> list[str]:
        """A dashed frame around the nodes of each Repeat."""
        parts = []
        for first, node in enumerate(self.nodes):
            for loop in _opened(self.nodes, first):
                inside = [i for i, other in enumerate(self.nodes) if loop in other.loops]
                depth = node.loops.index(loop)
                top = rows[first] - _ROW / 2 - _ROW * (len(node.loops) - depth)
                x = _MARGIN + _STEP * (depth + 1) - _INSET
                height = rows[inside[-1]] + _ROW / 2 - top - _INSET - 2 * depth
                width = right - x - 6 - _INSET * depth
                style = f'rx="5" fill="none" stroke="{_FRAME}" stroke-dasharray="5 3"'
                parts.append(_box(x, top + _INSET, width, height, style))
                parts.append(_text(x + 8, top + _ROW - 5, f"{loop.times} times", "italic"))
        return parts


def _opened(nodes: list[Access], index: int) -> tuple[Loop, ...]:
    """The loops that begin with a node, the outermost first."""
    before = nodes[index - 1].loops if index else ()
    return tuple(loop for loop in nodes[index].loops if loop not in before)


def _access(node: Node) -> Access:
    table = node.table.name if node.table else None
    reads, writes = _sorted(node.reads), _sorted(node.writes)
    changes = (node.creates, node.destroys)
    return Access(
        node.graph, node.system.name, table, reads, writes, *changes, node.lanes, node.system.worlds, node.loops
    )


def _sorted(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _over(node: Access) -> str:
    where = node.table or ("each world" if node.worlds == 1 else f"{node.worlds} worlds at a time")
    return f"over {where}" + (f", {node.lanes} lanes each" if node.lanes > 1 else "")


def _details(node: Access) -> list[str]:
    changes = {*node.creates, *node.destroys}
    lines = [f"reads {name}" for name in node.reads if name != node.table]
    lines += [f"writes {name}" for name in node.writes if name not in changes]
    lines += [f"creates {name}" for name in node.creates]
    return lines + [f"destroys {name}" for name in node.destroys]


def _marks(node: Access) -> dict[str, tuple[str, ...]]:
    """Names of columns by kind of access, each in one place only."""
    changes = {*node.creates, *node.destroys}
    reads = tuple(name for name in node.reads if name not in {*node.writes, *changes})
    writes = tuple(name for name in node.writes if name not in changes)
    both = {*node.creates} & {*node.destroys}
    creates, destroys = (tuple(name for name in named if name not in both) for named in (node.creates, node.destroys))
    return {"reads": reads, "writes": writes, "creates": creates, "destroys": destroys, _BOTH: tuple(sorted(both))}


def _mark(kind: str, x: float, y: float, title: str) -> str:
    """A sign at a place; its title shows where a pointer rests on it."""
    style = f'stroke="{_WRITES}" stroke-width="2"'
    disc = f'<circle cx="{x:g}" cy="{y:g}" r="6" {style} fill="{_WRITES if kind == "writes" else _READS}"/>'
    arms = "".join(path for name, path in _ARMS.items() if name in kind)
    sign = f'<path transform="translate({x:g} {y:g})" d="{arms}" {style}/>' if arms else ""
    return f"<g><title>{escape(title)}</title>{disc}{sign}</g>"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    attribute = {"bold": ' font-weight="bold"', "italic": ' font-style="italic" fill="#555"', "": ""}[style]
    return f'<text x="{x:g}" y="{y:g}"{attribute}>{escape(text)}</text>'


def _slanted(x: float, y: float, text: str) -> str:
    return f'<text transform="translate({x:g} {y:g}) rotate(-60)">{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, width: int = 1) -> str:
    return f'<path d="M{x:g} {y:g}L{to_x:g} {to_y:g}" stroke="{colour}" stroke-width="{width}"/>'


def _box(x: float, y: float, width: float, height: float, style: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {style}/>'
