"""Messages of g++ and nvcc as records, in the author's words: without the engine's namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..base.numbers import SPELLINGS

_FIRST = re.compile(
    r"^(?P<file>.+?)[:(](?P<line>\d+)\)?(?::(?P<column>\d+))?:? *(?:fatal )?(?P<kind>error|warning)(?: #[\w-]+)?: *"
    r"(?P<text>.*)$"
)
_FLAG = re.compile(r" \[(-W[\w=+-]+)\]$")
_QUOTES = str.maketrans("\u2018\u2019", "''")
_WORDS = (
    (re.compile(r"tbs::fence::(?:systems::)?|\btbs::(?!fence)"), ""),  # a library's name stays
    (re.compile(r"(?:using World = )?(?:class |struct )?BasicWorld<(?:\w+::)*Context>"), "World"),
    (re.compile(r"(?:class |struct )?BasicWorlds<(?:\w+::)*Context, *(\d+)u?>"), r"Worlds<\1>"),
    (re.compile(r" \{aka '[^']*'\}| \(aka \"[^\"]*\"\)"), ""),
    (re.compile(r"'(?:struct|class) (?=\w)"), "'"),
    (re.compile(r"'(const )?(?:struct|class) (?=\w)"), r"'\1"),
    (re.compile(r" \[-fpermissive\]$"), ""),
)
_SPELLED = "|".join(sorted(SPELLINGS, key=len, reverse=True))
_NUMBER = re.compile(rf"(?<![\w:-])(?<!long )({_SPELLED})(?![\w-])")


@dataclass(frozen=True)
class Diagnostic:
    """An error or a warning.

    Attributes:
        column: from 1; 0 where the compiler gives only the line.
        flag: ``-Wunused``, for example; empty for errors.
        around: the lines around it: places of inclusion and instantiation, the text, notes.
        before: those in front of it, where g++ lists instantiations; nvcc lists them behind it.
    """

    file: str
    line: int
    column: int
    kind: str
    text: str
    flag: str = ""
    around: str = ""
    before: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def source(self) -> str:
        """The line of its place; empty where the file is missing."""
        try:
            lines = Path(self.file).read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return lines[self.line - 1] if 0 < self.line <= len(lines) else ""

    @property
    def excerpt(self) -> str:
        """The line, and a mark below it."""
        source, front = self.source, f"{self.line:>5} | "
        if not source.strip():
            return ""
        mark = re.sub(r"\S", " ", source[: self.column - 1]) + "^" if self.column else ""
        return f"{front}{source}\n{' ' * 5} | {mark}".rstrip(" |\n")


def plain(text: str) -> str:
    """A compiler's words as an author knows them: ``'Ball'`` for ``'struct tbs::fence::systems::Ball'``."""
    text = text.translate(_QUOTES)
    for pattern, replacement in _WORDS:
        text = pattern.sub(replacement, text)
    return _NUMBER.sub(lambda found: SPELLINGS[found[1]], text)


def diagnostics(log: str) -> Iterator[Diagnostic]:
    """All errors and warnings of a log, in its order."""
    lines = log.splitlines()
    found = [(number, match) for number, line in enumerate(lines) if (match := _FIRST.match(line))]
    for index, (number, match) in enumerate(found):
        begin = found[index - 1][0] + 1 if index else 0
        end = found[index + 1][0] if index + 1 < len(found) else len(lines)
        text = match["text"].translate(_QUOTES)
        flag = _FLAG.search(text)
        yield Diagnostic(
            match["file"],
            int(match["line"]),
            int(match["column"] or 0),
            match["kind"],
            plain(_FLAG.sub("", text)),
            flag[1].replace("-Werror=", "-W") if flag else "",
            "\n".join([*lines[begin:number], *lines[number + 1 : end]]),
            "\n".join(lines[begin:number]),
        )
