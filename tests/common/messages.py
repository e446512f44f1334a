"""The golden file of messages, tests/messages.txt: a line each, ``given => Error: message``, by subject.

The test of a subject gives each line to the engine and compares its message with that of the file. With
``TBS_WRITE_MESSAGES=1``, and in one process, it writes the messages: review the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "messages.txt"


def given(subject: str) -> dict[str, str]:
    """The lines of a subject: what its test gives to the engine, and the message that it expects."""
    part = FILE.read_text(encoding="utf-8").partition(f"\n== {subject}\n")[2].partition("\n== ")[0]
    assert part, f"{FILE.name} has no subject {subject!r}"
    return dict(line.partition(" => ")[::2] for line in part.splitlines() if line)


def compare(subject: str, found: dict[str, str]) -> None:
    """Compares messages with those of the file, or writes them there."""
    cleaned = [f"{line} => {_cleaned(text)}" for line, text in found.items()]
    if os.environ.get("TBS_WRITE_MESSAGES"):
        head, mark, rest = FILE.read_text(encoding="utf-8").partition(f"\n== {subject}\n")
        rest = "".join(rest.partition("\n== ")[1:])
        FILE.write_text(head + mark + "\n".join(cleaned) + "\n" + rest, encoding="utf-8")
    assert cleaned == [f"{line} => {text}" for line, text in given(subject).items()]


def _cleaned(text: str) -> str:
    """In one line, without folders and addresses of this run."""
    text = re.sub(r"(?<![\w.])/(?:[^\s/:,()'\"`]+/)+", ".../", text)
    return re.sub(r" at 0x[0-9a-f]+", "...", text).replace("\n", " | ")


def refused(subject: str, call: Callable[[str], object], after: Callable[[], object] = lambda: None) -> None:
    """``call`` must raise the error of the file for each line of the subject; ``after`` follows each."""
    found = {}
    for line in given(subject):
        with pytest.raises(Exception) as raised:
            call(line)
        found[line] = f"{type(raised.value).__name__}: {raised.value}"
        after()
    compare(subject, found)
