"""The systems of Python files as one text of C++ for each file, line by line beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..declare.python_systems import PythonFunction, PythonSystem
from ..errors import SchemaError
from .kinds import Opaque
from .statements import Statements, written_names
from .surroundings import Signature, Surroundings, Written, refusal
from .thunks import Thunks


class Translation:
    """Systems of one scope, and the functions that they call.

    Args:
        with_trees: also as trees of Python, which the Python executor runs: ``trees`` and ``constants`` by function.

    Attributes:
        refusals: the first one of each system or function that cannot be translated.
    """

    def __init__(
        self,
        systems: Iterable[PythonSystem[Any, Any]],
        around: Surroundings,
        thunks: Thunks,
        with_trees: bool = False,
    ) -> None:
        self.around, self.thunks, self.with_trees = around, thunks, with_trees
        self.trees: dict[PythonFunction[Any, Any], ast.stmt] = {}
        self.constants: dict[PythonFunction[Any, Any], dict[str, Any]] = {}
        self.signatures: dict[PythonFunction[Any, Any], Signature] = {}
        self.lines: dict[Path, dict[int, list[str]]] = {}
        self.all_heads: dict[PythonFunction[Any, Any], str] = {}  # with the names of all parameters
        self.heads: dict[Path, list[str]] = {}
        self.called: dict[Path, dict[Path, None]] = {}  # files by those whose functions call theirs
        self._open: list[PythonFunction[Any, Any]] = []
        self.refusals: dict[str, SchemaError] = {}  # by message: a function may be called from several places
        for each in dict.fromkeys(systems):
            try:
                self.signature_of(each)
            except SchemaError as error:
                self.refusals.setdefault(str(error), error)
                self._open.clear()

    def signature_of(self, function: PythonFunction[Any, Any]) -> Signature:
        """Translate a function, once. Raises SchemaError for recursion."""
        if self._open:
            self.called.setdefault(self._open[-1].source.path, {})[function.source.path] = None
        if function in self.signatures:
            return self.signatures[function]
        if function in self._open:
            names = " -> ".join(each.name for each in (*self._open, function))
            raise refusal(function.source, function.source.tree, f"functions cannot call themselves: {names}")
        for other in self.signatures:
            if other.name == function.name:
                raise refusal(
                    function.source,
                    function.source.tree,
                    f"{function.name} is also the name of a function in {other.source.path.name}:"
                    f"{other.source.tree.lineno}; rename one",
                )
        self._open.append(function)
        written = Written(set(written_names(function.source.tree)))  # a good guess saves passes
        while True:
            before = set(written.places), dict(written.kinds)
            statements = Statements(function, self.around, written, self.signature_of, self.thunks, self.with_trees)
            signature = statements.translated()
            if written.places == before[0] and (written.kinds == before[1] or not statements.hoists):
                break
        self._open.pop()
        path = function.source.path
        lines = self.lines.setdefault(path, {})
        for line, texts in statements.lines.items():
            lines.setdefault(line, []).extend(texts)
        if not isinstance(function, PythonSystem):
            self.heads.setdefault(path, []).append(f"{statements.head};")
        self.signatures[function] = signature
        self.all_heads[function] = statements.named_head
        self.trees[function], self.constants[function] = statements.tree, statements.constants
        return signature

    def texts(self) -> dict[Path, str]:
        """The text of each file; files with functions that others call come first."""
        found: dict[Path, str] = {}

        def add(path: Path) -> None:
            if path in found:
                return
            found[path] = ""  # where files call each other
            for other in self.called.get(path, ()):
                add(other)
            del found[path]
            lines = self.lines[path]
            first = " ".join(self.heads.get(path, ()))
            rows = [" ".join(lines.get(number, ())) for number in range(1, max(lines) + 1)]
            rows[0] = f"{first} {rows[0]}".strip()
            found[path] = "\n".join(rows) + "\n"

        for path in self.lines:
            add(path)
        return found

    def call_of(self, system: PythonSystem[Any, Any], number: int) -> str:
        """The system in C++ as a call of Python, with the addresses of its parameters, or of what is compiled."""
        head = self.all_heads[system]
        signature = self.signatures[system]
        world, *names = (name for name, _ in signature.parameters)
        if signature.parameters[0][1].cpp == "Worlds":
            return self._call_of_several(system, number)
        compiled = f"if (python_world >= 0 && python_world != {world}.id) {{ TBS_compiled::{system.name}("
        compiled += f"{', '.join([world, *names])}); return; }}"
        taken = ", ".join(f"const_cast<void *>(static_cast<const void *>(&{name}))" for name in names)
        addresses = f"void *TBS_given[] = {{{taken or 'nullptr'}}};"
        return f"{head} {{ {compiled} {addresses} python_system({number}, &{world}, TBS_given); }}"

    def _call_of_several(self, system: PythonSystem[Any, Any], number: int) -> str:
        """The same of a system that takes several worlds: Python gets the first one, and with them all.

        The first addresses are those of a world each, then that of their number.
        """
        head, (first, *others) = self.all_heads[system], self.signatures[system].parameters
        worlds, kind = first
        assert isinstance(kind, Opaque)
        names = [name for name, _ in others]
        made = [f"World TBS_world_{k} = {worlds}[{k} < {worlds}.count ? {k} : 0];" for k in range(kind.values)]
        ids = " && ".join(f"python_world != TBS_world_{k}.id" for k in range(kind.values))
        call = f"TBS_compiled::{system.name}({', '.join([worlds, *names])})"
        given = [f"&TBS_world_{k}" for k in range(kind.values)]
        given += [f"const_cast<void *>(static_cast<const void *>(&{name}))" for name in (f"{worlds}.count", *names)]
        body = f"{' '.join(made)} if (python_world >= 0 && {ids}) {{ {call}; return; }} "
        body += f"void *TBS_given[] = {{{', '.join(given)}}};"
        return f"{head} {{ {body} python_system({number}, &TBS_world_0, TBS_given); }}"
