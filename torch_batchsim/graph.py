"""The task graphs of an environment as a thing to look at: who reads and writes what, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from .program import GRAPHS, Loop, Node, Program

_BOX_WIDTH, _LINE, _GAP, _LANE = 250, 16, 26, 330  # pixels
_INSET = 5  # by which a frame is wider than what is in it
_COLOURS = {"start": "#e8f1e4", "step": "#e3ecf7", "observe": "#f7efdf"}


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
    loops: tuple[Loop, ...] = ()  # the Repeats in which it is, the outermost first


class Graph:
    """The nodes of all task graphs in the order in which they run. ``str`` gives a table, ``draw`` a picture."""

    def __init__(self, program: Program) -> None:
        self.name = program.environment.name
        self.nodes = [_access(node) for graph in GRAPHS for node in program.graphs[graph]]

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
        """Pairs ``(earlier, later)`` of nodes of one graph of which the later must wait for the earlier.

        It reads or writes what the earlier has written last, or writes what the earlier has read since. What the next
        repetition of a ``Repeat`` waits for is not among them.
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
        """Write a picture as SVG: a lane for each task graph, a box for each node, an arrow for each dependency."""
        path = Path(path)
        if path.suffix != ".svg":
            raise ValueError(f"the picture is SVG and its name must end in .svg, got {str(path)!r}")
        path.write_text(self._svg())

    def _svg(self) -> str:
        parts, boxes, height = [], {}, 0
        lanes = [graph for graph in GRAPHS if any(node.graph == graph for node in self.nodes)]
        for lane, graph in enumerate(lanes):
            x, y = 20 + lane * _LANE, 60
            parts.append(_text(x, 44, graph, "bold"))
            for index, node in enumerate(self.nodes):
                if node.graph != graph:
                    continue
                details = _details(node)
                box_height = _LINE * (2 + len(details)) + 12
                y += _LINE * len(_opened(self.nodes, index))  # room for the names of frames
                boxes[index] = (x, y, box_height)
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{box_height}" rx="6" '
                    f'fill="{_COLOURS[graph]}" stroke="#667"/>'
                )
                lines = [(node.system, "bold"), (_over(node), "italic")]
                lines += [(text, "") for text in details]
                parts += [_text(x + 10, y + _LINE * (i + 1) + 2, *line) for i, line in enumerate(lines)]
                y += box_height + _GAP
            height = max(height, y)
        parts += self._frames(boxes)
        for earlier, later in self.dependencies():
            parts.append(_arrow(boxes[earlier], boxes[later]))
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{40 + len(lanes) * _LANE}" height="{height + 10}" '
            'font-family="sans-serif" font-size="12">'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#445"/></marker></defs><rect width="100%" height="100%" fill="white"/>'
        )
        return "\n".join([head, _text(20, 22, f"{self.name}: task graphs", "bold"), *parts, "</svg>"]) + "\n"

    def _frames(self, boxes: dict[int, tuple[int, int, int]]) -> list[str]:
        """A dashed frame around the boxes of each Repeat."""
        parts = []
        for first, node in enumerate(self.nodes):
            for loop in _opened(self.nodes, first):
                inside = [i for i, other in enumerate(self.nodes) if loop in other.loops]
                nested = max(len(self.nodes[i].loops) for i in inside) - node.loops.index(loop)
                titles = _LINE * (len(node.loops) - node.loops.index(loop))
                (x, top, _), (_, last, height) = boxes[inside[0]], boxes[inside[-1]]
                x, y, inset = x - _INSET * nested, top - titles - _INSET // 2, _INSET * nested
                parts.append(
                    f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH + 2 * inset}" height="{last + height - y + inset}" '
                    'rx="6" fill="none" stroke="#667" stroke-dasharray="5 3"/>'
                )
                parts.append(_text(x + 10, y + _LINE - 3, f"{loop.times} times", "italic"))
        return parts


def _opened(nodes: list[Access], index: int) -> tuple[Loop, ...]:
    """The loops of which a node is the first, the outermost first."""
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


def _text(x: int, y: int, text: str, style: str = "") -> str:
    attribute = {"bold": ' font-weight="bold"', "italic": ' font-style="italic"', "": ""}[style]
    return f'<text x="{x}" y="{y}"{attribute}>{escape(text)}</text>'


def _arrow(earlier: tuple[int, int, int], later: tuple[int, int, int]) -> str:
    """Straight down to the next box; to one further down in a bow beside those between."""
    x, bottom = earlier[0] + _BOX_WIDTH // 2, earlier[1] + earlier[2]
    line = 'fill="none" stroke="#445" marker-end="url(#tip)"/>'
    if later[1] - bottom <= _GAP:
        return f'<path d="M{x} {bottom}L{x} {later[1]}" {line}'
    edge = earlier[0] + _BOX_WIDTH
    start, end = bottom - 10, later[1] + 10
    bow = edge + min(50, 16 + (end - start) // 12)
    return f'<path d="M{edge} {start}C{bow} {start} {bow} {end} {edge} {end}" {line}'
