"""Systems and functions written in Python: the decorators, and the types that their parameters have."""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from pathlib import Path
from types import CodeType
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from ..errors import SchemaError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class FunctionSource:
    """Where a function stands: its tree has the file's line numbers; ``lines`` are those of the function."""

    path: Path
    tree: ast.FunctionDef
    lines: tuple[str, ...]

    def line(self, number: int) -> str:
        """The text of a line of the file, if the function has it."""
        place = number - self.first
        return self.lines[place].rstrip("\n") if 0 <= place < len(self.lines) else ""

    @property
    def first(self) -> int:
        """The line of its first decorator."""
        return min([self.tree.lineno, *(each.lineno for each in self.tree.decorator_list)])


class PythonFunction(Generic[_Parameters, _Result]):
    """A function that is translated to C++: ``@function``, or ``@system`` for one that task graphs name.

    Called in Python it runs as it stands there.
    """

    kind = "function"

    def __init__(self, function: Callable[_Parameters, _Result]) -> None:
        if not inspect.isfunction(function):
            raise SchemaError(f"@{self.kind} stands in front of a function, got {function!r}")
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def source(self) -> FunctionSource:
        """Its text. Raises SchemaError where Python has none, as of a function typed at a prompt."""
        try:
            lines, first = inspect.getsourcelines(self.function)
            path = inspect.getsourcefile(self.function) or self.function.__code__.co_filename
        except (OSError, TypeError):
            raise SchemaError(
                f"@{self.kind} {self.name}: Python has no source text of it; write it into a file or a notebook"
            ) from None
        text = textwrap.dedent("".join(lines))
        tree = ast.parse("\n" * (first - 1) + text).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise SchemaError(f"{Path(path).name}:{first}: @{self.kind} stands in front of a function with 'def'")
        if len(tree.decorator_list) > 1:
            raise SchemaError(
                f"{Path(path).name}:{first}: '{self.name}' has another decorator beside @{self.kind}; leave it out"
            )
        try:
            same = _is_code_of(text, self.function.__code__)
        except SyntaxError:  # by itself it is not valid
            raise SchemaError(
                f"{Path(path).name}:{first}: '{self.name}' changes variables of the function around it (nonlocal); "
                "state lies in components"
            ) from None
        if not same:
            raise SchemaError(
                f"{Path(path).name}:{first}: the text of '{self.name}' is another one than that which runs: the file "
                "has changed since Python read it; import it again in a new process"
            )
        return FunctionSource(Path(path), tree, tuple(lines))

    @cached_property
    def annotations(self) -> dict[str, Any]:
        """The types of parameters, and of the result as ``"return"``.

        A name that the module does not have stays a text: a component that the environment makes by ``component(...)``.
        """
        try:
            return dict(inspect.get_annotations(self.function, eval_str=True))
        except Exception:
            given = inspect.get_annotations(self.function)
            return {name: self._evaluated(each) for name, each in given.items()}

    def _evaluated(self, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        try:
            return eval(given, self.function.__globals__)
        except Exception as error:
            if isinstance(error, NameError) and given.isidentifier():
                return given
            place = f"{self.source.path.name}:{self.source.tree.lineno}"
            raise SchemaError(f"{place}: a type in the signature of '{self.name}': {error}") from None

    @property
    def names(self) -> Mapping[str, Any]:
        """The names that it can see outside of itself, as they are now."""
        closed = self.function.__closure__ or ()
        cells = {}
        for name, cell in zip(self.function.__code__.co_freevars, closed, strict=True):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        return {**self.function.__globals__, **cells}


def _is_code_of(text: str, code: CodeType) -> bool:
    """Whether a function's code is that of its text."""
    flags = code.co_flags & __future__.annotations.compiler_flag
    module = compile(text, "", "exec", flags, dont_inherit=True)
    made = next(each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == code.co_name)
    return _content(made) == _content(code)


def _content(code: CodeType) -> tuple[Any, ...]:
    inner = tuple(_content(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return inner, code.co_varnames


class PythonSystem(PythonFunction[_Parameters, _Result]):
    """A system written in Python, which task graphs take: ``step = TaskGraph(move, judge)``."""

    kind = "system"


def system(function: Callable[_Parameters, _Result]) -> PythonSystem[_Parameters, _Result]:
    """Make a system of a function: ``@system def fall(world: World, ball: Ball): ...``.

    Parameters are ``world: World`` first, then in any order components, singletons, ``episode: Episode``, ``row: Row``
    and ``me: Entity``. Whether it writes a component follows from its text.
    """
    return PythonSystem(function)


def function(function: Callable[_Parameters, _Result]) -> PythonFunction[_Parameters, _Result]:
    """Make a function that systems can call; its parameters have types: ``@function def twice(x: f32): ...``."""
    return PythonFunction(function)


no_row = -1
"""What ``world.index_of`` returns where the archetype has no such row."""


def zeros(kind: Any, *extents: Any) -> Any:
    """A local array of a system or function, zero at first: ``counts = zeros(i32, 5)``, ``walls = zeros(u8, SIZE, 2)``.

    ``kind`` is a type of fields, a struct or a component; extents are numbers, or constants of the environment. A
    function takes it as ``counts: i32[5]``. Where Python calls a function directly, an array of numbers is NumPy's.
    """
    return np.zeros(extents, str(kind.dtype).removeprefix("torch."))


class Bits:
    """A string of ``size`` bits in a system or function, all 0 at first: ``bits = Bits(143)``.

    One system appends to it and stores it, another one writes it out by ``write_bits``, on many lanes. A function takes
    it as ``bits: Bits``.
    """

    def __init__(self, size: Any) -> None:
        self._size, self._used, self._value = int(size), 0, 0

    def append(self, value: int, count: int) -> None:
        """Append the lowest ``count`` bits of ``value``, 64 at most; its others must be 0."""
        if not 0 <= count <= 64 or self._used + count > self._size:
            raise IndexError(f"{count} bits behind {self._used} of Bits({self._size})")
        if value >> count:
            raise ValueError(f"{value} has more than {count} bits")
        self._value |= value << self._used
        self._used += count

    def append_thermometer(self, ones: int, count: int) -> None:
        """Append ``count`` bits: ``ones`` ones, then zeros."""
        if not 0 <= count <= self._size - self._used:
            raise IndexError(f"{count} bits behind {self._used} of Bits({self._size})")
        self._value |= (1 << max(min(ones, count), 0)) - 1 << self._used
        self._used += count

    def store(self, words: Any) -> None:
        """Write it to an array ``u64[-(-size // 64)]``, the first bit as the lowest of the first."""
        for i in range(len(words)):
            words[i] = self._value >> 64 * i & (1 << 64) - 1


def write_bits(words: Any, out: Any, lanes: Lanes) -> None:
    """Write the bits of ``words: u64[-(-n // 64)]``, one to an element of ``out``, n numbers or booleans."""
    for i in range(len(out)):
        out[i] = int(words[i // 64]) >> i % 64 & 1


def write_packed_bits(words: Any, out: Any, lanes: Lanes) -> None:
    """The same with eight bits to an element, lowest first."""
    for i in range(len(out)):
        out[i] = int(words[i // 8]) >> 8 * (i % 8) & 255


def copy_elements(to: Any, source: Any, lanes: Lanes) -> None:
    """Copy an array into another one of its type, on all lanes."""
    for i in range(len(to)):
        to[i] = source[i]


_Component = TypeVar("_Component")
_Number = TypeVar("_Number", bool, int, float)


class Rows(Generic[_Component]):
    """The world's rows in a column of an archetype."""

    count: int

    def __getitem__(self, index: int) -> _Component: ...  # type: ignore[empty-body]
    def __len__(self) -> int: ...  # type: ignore[empty-body]
    def __iter__(self) -> Iterator[_Component]: ...  # type: ignore[empty-body]


class World:
    """What a system sees of its world."""

    id: int
    parameters: Any
    constants: Any
    random: Random

    def random_of(self, item: int) -> Random: ...  # type: ignore[empty-body]
    def rows(self, archetype: Any, component: type[_Component]) -> Rows[_Component]: ...  # type: ignore[empty-body]
    def get(self, singleton: type[_Component]) -> _Component: ...  # type: ignore[empty-body]
    @overload
    def find(self, component: type[_Component], entity: Any, /) -> _Component | None: ...
    @overload
    def find(self, archetype: Any, component: type[_Component], entity: Any, /) -> _Component | None: ...
    def find(self, *args: Any) -> Any: ...
    def count(self, archetype: Any) -> int: ...  # type: ignore[empty-body]
    def index_of(self, archetype: Any, entity: Any) -> int: ...  # type: ignore[empty-body]
    def entity(self, archetype: Any, index: int) -> Any: ...
    def create(self, archetype: Any, *components: Any) -> Any: ...
    def create_at(self, archetype: Any, order: int, *components: Any) -> Any: ...
    def destroy(self, entity: Any) -> None: ...
    def alive(self, entity: Any) -> bool: ...  # type: ignore[empty-body]
    def check(self, condition: bool, message: str | float = 0, value: float = 0) -> bool: ...  # type: ignore[empty-body]
    def log(self, label: str, value: Any) -> None: ...
    def step(self) -> int: ...  # type: ignore[empty-body]
    def episode(self) -> int: ...  # type: ignore[empty-body]
    def repetition(self) -> int: ...  # type: ignore[empty-body]
    def tables(self, *components: Any) -> Iterator[Any]: ...  # type: ignore[empty-body]
    def most_rows(self, *components: Any) -> int: ...  # type: ignore[empty-body]
    def fail(self, fault: str, value: int = 0) -> None: ...


@dataclass(frozen=True)
class SeveralWorlds:
    """``Worlds[4]``."""

    most: int


MYPY = False  # which mypy takes as True; types.pyi says why
if MYPY:
    from ..field_names import Worlds as Worlds
else:

    class Worlds:
        """Several worlds at a time, in place of ``World``: a system takes ``worlds: Worlds[4]``."""

        count: int
        parameters: Any
        constants: Any

        def __class_getitem__(cls, most: int) -> Any:
            return SeveralWorlds(most)

        def __getitem__(self, k: int) -> World: ...  # type: ignore[empty-body]
        def repetition(self) -> int: ...  # type: ignore[empty-body]


class Episode:
    """The episode of a world; a system sets a flag to end it."""

    step: int
    terminated: bool
    truncated: bool


class Row:
    """The row that a system runs on: its index among ``count`` rows of this table in the world."""

    index: int
    count: int


class Random:
    """The random stream of a row in this system and step."""

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float: ...  # type: ignore[empty-body]
    def below(self, n: int) -> int: ...  # type: ignore[empty-body]
    def integer(self, low: int, high: int) -> int: ...  # type: ignore[empty-body]
    def chance(self, probability: float) -> bool: ...  # type: ignore[empty-body]
    def normal(self) -> float: ...  # type: ignore[empty-body]
    def bits(self) -> int: ...  # type: ignore[empty-body]
    def shuffle(self, items: Any, n: int) -> None: ...


class Lanes:
    """The threads that work on a row together. Their operations take a function of an item's number."""

    def for_each(self, n: int, body: Callable[[int], Any]) -> None: ...
    def once(self, body: Callable[[], Any]) -> None: ...
    def sum(self, n: int, term: Callable[[int], _Number]) -> _Number: ...  # type: ignore[empty-body]
    def min(self, n: int, start: _Number, term: Callable[[int], _Number]) -> _Number: ...  # type: ignore[empty-body]
    def max(self, n: int, start: _Number, term: Callable[[int], _Number]) -> _Number: ...  # type: ignore[empty-body]
    def count(self, n: int, condition: Callable[[int], bool]) -> int: ...  # type: ignore[empty-body]
    def any(self, n: int, condition: Callable[[int], bool]) -> bool: ...  # type: ignore[empty-body]
    def all(self, n: int, condition: Callable[[int], bool]) -> bool: ...  # type: ignore[empty-body]
    def ballot(self, n: int, condition: Callable[[int], bool]) -> int: ...  # type: ignore[empty-body]
    def broadcast(self, item: int, value: Callable[[int], _Number]) -> _Number: ...  # type: ignore[empty-body]
    def scan(  # type: ignore[empty-body]
        self, n: int, term: Callable[[int], int], take: Callable[[int, int], Any]
    ) -> int: ...
    def shared(self, kind: type[_Component]) -> _Component: ...  # type: ignore[empty-body]


class Warp(Lanes):
    """32 lanes."""


class Block(Lanes):
    """256 lanes."""
