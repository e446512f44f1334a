"""The exceptions of torch_batchsim. Wrong arguments raise ``TypeError`` or ``ValueError``; these are the rest."""

from __future__ import annotations

import inspect
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import torch

P = ParamSpec("P")
_one_parser = threading.Lock()  # two threads of Python 3.11 that parse at the same time may raise SystemError


class SchemaError(ValueError):
    """An environment's declaration contradicts itself or its systems."""


class BuildError(RuntimeError):
    """The systems could not be compiled; the message opens with the author's file and line, and what to do.

    Attributes:
        log: the file with all that was called and said, where a compiler was called; else None.
    """

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


def class_place(cls: type) -> tuple[str, int] | None:
    """File and line of a class, for messages; None where it was not written as one."""
    try:
        path = inspect.getsourcefile(cls)
        with _one_parser:
            return (path, inspect.getsourcelines(cls)[1]) if path else None
    except (OSError, TypeError):
        return None


_HAS_PLACE = re.compile(r"[\w.-]+\.\w+:\d+: ")  # of a message


def _placed(error: Exception, declaration: type) -> Exception:
    """The error with file and line of the declaration's class in front, where it is of one and has no place."""
    place = class_place(declaration) if isinstance(error, SchemaError) and not _HAS_PLACE.match(str(error)) else None
    if place is None:
        return error
    made = type(error)(f"{Path(place[0]).name}:{place[1]}: {error}")
    made.__cause__ = error.__cause__
    return made


def raised_briefly(function: Callable[P, None]) -> Callable[P, None]:
    """Let errors of an author's declaration or systems begin here: frames of the engine's say nothing about these.

    Args:
        function: a constructor whose first argument is ``environment``.
    """

    @wraps(function)
    def called(*arguments: P.args, **keywords: P.kwargs) -> None:
        try:
            function(*arguments, **keywords)
        except (SchemaError, BuildError) as error:
            environment = arguments[1] if len(arguments) > 1 else keywords.get("environment")
            raise _placed(error, type(environment)).with_traceback(None) from error.__cause__

    return called


class BuildWarning(UserWarning):
    """Legal text in an author's files that is hardly meant: a compiler's warnings, when the file is compiled,
    systems that never run, outputs that nobody writes, and state that changes in ``observe``."""


_warned_before: dict[str, dict[Any, Any]] = {}  # by file: the registries by which Python reports a warning once


def warn_at(text: str, path: str, line: int) -> None:
    """Issue a ``BuildWarning`` for a line of an author's file, once. Where warnings are errors, its text has the place,
    which Python puts in front of warnings only."""
    try:
        warnings.warn_explicit(text, BuildWarning, path, line, registry=_warned_before.setdefault(path, {}))
    except BuildWarning:
        raise BuildWarning(f"{Path(path).name}:{line}: {text}") from None


class CheckpointError(ValueError):
    """A state belongs to another environment, number of worlds or version; nothing was changed."""


class UnalignedMemory(ValueError):
    """Memory for ``bind`` begins where rows cannot be read and written as vectors; nothing was changed."""


class MissingExtra(ImportError):
    """A package is not installed that an extra brings; the message names the command."""


class StepInterrupted(KeyboardInterrupt):
    """Ctrl-C in the midst of a step: names system and worlds. All worlds need a reset, or a state that is loaded."""


class StepTimeout(TimeoutError):
    """A step took longer than the watchdog allows: names system and worlds. They need a reset, or a state."""


class SystemCrash(RuntimeError):
    """A system divided an integer by zero or reached memory that is not there: names system and worlds."""


# The engine's own faults about entities.
_EXPLAINED = {
    "stale_entity": "stale_entity: it destroys what is no row of a dynamic table of this world (destroyed before, of "
    "another world or episode, or no entity); ask alive() first where that may be",
    "too_many_created": "too_many_created: one row creates more than its share of the 2**32 rows that all rows of a "
    "world can create in one system",
    "undeclared_access": "undeclared_access: it reads, writes, creates, destroys or draws what the engine has not "
    "read in its text; declare that by TBS_SYSTEM TBS_REACHES(...) void name(...)",
    "order_used_twice": "order_used_twice: create_at was called with one order for several rows; none of them was kept",
}


@dataclass(frozen=True)
class Finding:
    """What ``world.check`` or a checked build has found: its place in an author's text, the step, and a sentence.

    Attributes:
        kind: ``"check"``, or a name of ``torch_batchsim.base.shared.Found``: ``"index"``, ``"division"``, ...
        file, line, column: the place, from 1; of what has none in a text, the system's.
        value, bound: of an index, and how many there are; else what ``text`` says, None where there is nothing to say.
        text: ``walls[15] of u8[15]``.
        step: of the episode.
    """

    kind: str
    file: str
    line: int
    column: int
    value: int | float | None
    bound: int | None
    text: str
    step: int

    @property
    def place(self) -> str:
        """``maze.h:41``."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class Fault:
    """What went wrong in one world: the world, the system that reported it and the row within the world.

    ``finding`` is what a checked build has found; the cause is then its kind. ``step`` is that of the world's episode,
    0 where this began; None where it is not known: on CUDA, which raises later, and where the next episode has begun.
    """

    world: int
    system: str
    row: int
    cause: str
    value: int
    table: str | None = None  # "table_full": that is full, the value its capacity; else that of the row in ``value``
    finding: Finding | None = None
    place: str = ""  # "maze.h:41": the call in the author's text where only one can be it, else where the system begins
    step: int | None = None
    text: str = ""  # the sentence that a library or environment declares: "Ground[0].physics.Pose.rotation is 0"

    def __str__(self) -> str:
        if self.finding is not None:
            return self._said
        place = f"{self.place}: " if self.place else ""
        when = f"in step {self.step} of its episode" if self.step else "as its episode began"
        return f"{place}{self._said}" + (f", {when}" if self.step is not None else "")

    @property
    def _said(self) -> str:
        if self.finding is not None:
            where = f"world {self.world}, row {self.row}, step {self.finding.step}, system '{self.system}'"
            return f"{self.finding.place}: {self.finding.text} ({where})"
        if self.text:
            at = f" at row {self.row}" if self.table is None and self.row else ""
            return f"world {self.world}: system '{self.system}' failed{at}: {self.text} ({self.cause})"
        if self.table is not None:
            return (
                f"world {self.world}: table {self.table} is full: system '{self.system}' created more rows than its "
                f"capacity of {self.value} in this world leaves room for, and none of them was kept (between steps a "
                "world gets more room, up to the archetype's limit)"
            )
        if self.cause in _EXPLAINED:
            return f"world {self.world}: system '{self.system}' failed at row {self.row}: {_EXPLAINED[self.cause]}"
        return f"world {self.world}: system '{self.system}' failed at row {self.row}: {self.cause} (value {self.value})"


class WorldFault(RuntimeError):
    """Systems reported faults. The other worlds have stepped as always; those in ``mask`` need a reset.

    Attributes:
        faults: the least fault (by order of systems, then row) of each faulty world, at most 16 of them.
        mask: bool tensor ``[worlds]``, true for every faulty world; ready for ``reset`` (mask rows are worlds).
        stepped: whether the call that raises this has stepped the worlds.
        outputs: what ``step`` of a vector environment would have returned, for the sake of the other worlds; None where
            the fault is of an earlier step (CUDA) or where no vector environment was stepped.
    """

    outputs: tuple[Any, ...] | None = None

    def __init__(self, faults: list[Fault], mask: torch.Tensor, stepped: bool = False) -> None:
        self.faults = faults
        self.mask = mask
        self.stepped = stepped
        count = int(mask.sum())
        more = f" (and {count - 1} more world{'s' * (count > 2)})" if count > 1 else ""
        super().__init__(f"{faults[0]}{more}; reset the faulty worlds alone with the mask in this error's .mask")

    def __reduce__(self) -> tuple[Any, ...]:
        """With all attributes, so that it comes whole out of a worker process.

        Tensors are bytes: torch's pickler of processes would send file descriptors, which can be opened once.
        """
        return _restored, (type(self), pickle.dumps(((self.faults, self.mask, self.stepped), self.__dict__)))


def _restored(cls: type[WorldFault], contents: bytes) -> WorldFault:
    arguments, attributes = pickle.loads(contents)
    made = cls(*arguments)
    made.__dict__.update(attributes)
    return made


class GroupFault(WorldFault):
    """Systems reported faults in worlds of one group of a ``GroupedEnv``. The other groups go on.

    Worlds are numbered as in the whole batch, and ``mask`` has an entry for each of them, ready for ``async_reset``.

    Attributes:
        group: its number.
        outputs: the ``Batch`` of the step, for the sake of the group's other worlds; None as in ``WorldFault``.
    """

    def __init__(self, faults: list[Fault], mask: torch.Tensor, stepped: bool = False, group: int = 0) -> None:
        super().__init__(faults, mask, stepped)
        self.group = group
        self.args = (f"group {group}: {self.args[0]}",)

    def __reduce__(self) -> tuple[Any, ...]:
        """With all attributes, as ``WorldFault``."""
        arguments = self.faults, self.mask, self.stepped, self.group
        return _restored, (type(self), pickle.dumps((arguments, self.__dict__)))
