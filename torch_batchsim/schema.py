"""What an author declares: components, archetypes, parameters, task graphs, and the environment that holds them."""

from __future__ import annotations

import difflib
import inspect
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch

from .errors import SchemaError
from .types import FIELD_TYPES, FieldType, boolean, f32

MAX_ROWS = 2**31 - 2**13  # of one table in all worlds: row numbers are 32-bit, with room to round up to a whole tile
MAX_REPETITIONS = 2**31 - 1  # of a system in one task graph: their numbers are 32-bit

CPP_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t "
    "while xor xor_eq".split()
)
AUTHOR_STRUCTS = ("Constants", "Fault", "Parameters")  # written beside the author's components, in their namespace
ENGINE_TENSORS = ("World", "Agents", "final")  # what names of the engine's own tensors begin with: "World.step"


def check_identifier(name: str, what: str) -> str:
    """Return ``name`` if C++ and Python can both use it, else raise ``SchemaError``."""
    usable = isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and "__" not in name
    if not usable or name in CPP_KEYWORDS or keyword.iskeyword(name) or name.startswith("TBS_"):
        raise SchemaError(
            f"{what} cannot be named {name!r}: a name is letters, digits and single underscores, no keyword, and does "
            "not begin with TBS_"
        )
    return name


@dataclass(frozen=True)
class Field:
    """One field of a component. ``offset`` is in bytes from the start of the struct."""

    name: str
    type: FieldType
    offset: int


class Component:
    """Base of all components: a class whose annotations are the fields of a C++ struct of the same name.

    ::

        class CartState(Component):
            x: f32
            history: f32[4]
    """

    fields: ClassVar[tuple[Field, ...]] = ()
    size: ClassVar[int] = 0  # bytes, padding included, as in C
    alignment: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        check_identifier(cls.__name__, "a component")
        if cls.__bases__ != (Component,):
            raise SchemaError(
                f"component {cls.__name__} must inherit from Component alone; list all of its fields in it"
            )
        try:
            annotations = inspect.get_annotations(cls, eval_str=True)
        except NameError as error:
            raise SchemaError(f"component {cls.__name__}: {error}; {_known_types()}") from None
        fields, offset, alignment = [], 0, 1
        for name, annotation in annotations.items():
            check_identifier(name, f"a field of component {cls.__name__}")
            field_type = boolean if annotation is bool else annotation
            if not isinstance(field_type, FieldType):
                raise SchemaError(
                    f"field {cls.__name__}.{name} has unknown type {getattr(annotation, '__name__', annotation)!r}; "
                    + _known_types()
                )
            offset = _round_up(offset, field_type.alignment)
            fields.append(Field(name, field_type, offset))
            offset += field_type.size
            alignment = max(alignment, field_type.alignment)
        if not fields:
            raise SchemaError(f"component {cls.__name__} has no fields")
        cls.fields, cls.alignment, cls.size = tuple(fields), alignment, _round_up(offset, alignment)


def _known_types() -> str:
    return f"known types: {', '.join(FIELD_TYPES)}, and arrays of them such as f32[3]"


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


class Reward(Component):
    """The reward of a row in this step. The engine sets it to zero before every step."""

    value: f32


class AgentEnd(Component):
    """Whether the episode of a row, an agent, ends with this step while its world may go on.

    The engine sets both to false before every step; systems of ``step`` set them. The row's flags are these or its
    world's.
    """

    terminated: boolean
    truncated: boolean  # cut short by a limit


class Archetype:
    """A set of components and the table of all entities that have them.

    A fixed archetype has ``count`` rows in every world: row ``world * count + i`` belongs to ``world``. Of a dynamic
    one (``capacity``) systems create and destroy rows; every world has its own number of them.

    Args:
        name: of the table, e.g. ``"Cart"``; tensors are named ``"Cart.CartState.x"``.
        components: component classes; each becomes a column.
        count: rows per world.
        capacity: rows for which every world has room at first.
        limit: rows in one world up to which its room grows, between steps, by doubling when three quarters are used;
            ``capacity`` by default, so that nothing grows.
        ephemeral: rows last until the next step begins (events, candidate pairs).
        scratch: all columns are memory that systems use within a step, see ``Environment.scratch``. With ``capacity``
            the rows last until the next step begins, and the room does not grow.

    Raises SchemaError unless one of ``count`` and ``capacity`` is given, from 1 to ``MAX_ROWS``, and limit >= capacity.
    """

    def __init__(
        self,
        name: str,
        *components: type[Component],
        count: int | None = None,
        capacity: int | None = None,
        limit: int | None = None,
        ephemeral: bool = False,
        scratch: bool = False,
    ) -> None:
        self.name = check_identifier(name, "an archetype")
        if not components:
            raise SchemaError(f"archetype {name} has no components")
        for component in components:
            check_component(component, f"archetype {name}")
        if len(set(components)) != len(components):
            raise SchemaError(f"archetype {name} names a component twice")
        if (count is None) == (capacity is None):
            raise SchemaError(
                f"archetype {name} needs either count (rows that every world always has) or capacity (rows come and go)"
            )
        if count is not None:
            self._check_rows("count", count)
            if limit is not None or ephemeral:
                raise SchemaError(f"archetype {name}: limit and ephemeral go with capacity, not with count")
        else:
            self._check_rows("capacity", capacity)
            limit = capacity if limit is None else limit
            self._check_rows("limit", limit)
            if limit < capacity:
                raise SchemaError(f"archetype {name}: limit must be at least capacity, got {limit} and {capacity}")
        for what, given in (("ephemeral", ephemeral), ("scratch", scratch)):
            if not isinstance(given, bool):
                raise SchemaError(f"archetype {name}: {what} must be True or False, got {given!r}")
        if scratch and (ephemeral or limit != capacity):
            raise SchemaError(
                f"archetype {name}: scratch excludes ephemeral, which its rows are anyway, and limit, for how far a "
                "table has grown would have to be saved"
            )
        self.components = components
        self.count, self.capacity, self.limit = count, capacity, limit
        self.ephemeral, self.scratch = ephemeral, scratch

    def _check_rows(self, what: str, rows: Any) -> None:
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MAX_ROWS:
            raise SchemaError(
                f"archetype {self.name}: {what} must be an integer from 1 to {MAX_ROWS} (rows have 32-bit numbers), "
                f"got {rows!r}"
            )

    @property
    def dynamic(self) -> bool:
        return self.capacity is not None

    @property
    def alone(self) -> bool:
        """Whether a world has at most one row, so that no two rows of a world run at once."""
        return (self.limit if self.dynamic else self.count) == 1


def component(name: str, **fields: FieldType) -> type[Component]:
    """A component class made by call, for fields that depend on options: ``component("Cells", content=u8[rows])``."""
    return type(name, (Component,), {"__annotations__": fields, "__module__": __name__})


def check_component(component: Any, where: str) -> None:
    if not (isinstance(component, type) and issubclass(component, Component) and component is not Component):
        raise SchemaError(f"{where}: {component!r} is no component class")


class Repeat:
    """A part of a task graph that runs ``times`` times, one after the other: ``Repeat(4, "collide", "solve")``.

    It is a loop, so its code does not grow with ``times``. ``world.repetition()`` says which time it is, from 0; random
    streams differ between repetitions. Repeats may be nested.

    Args:
        times: from 1 to ``MAX_REPETITIONS``, those of repeats around it and within it multiplied.
        items: names of systems and further ``Repeat``s, at least one.

    Raises SchemaError for anything else.
    """

    def __init__(self, times: int, *items: str | Repeat) -> None:
        if isinstance(times, bool) or not isinstance(times, int) or not 1 <= times <= MAX_REPETITIONS:
            raise SchemaError(
                f"Repeat needs the number of repetitions first, an integer from 1 to {MAX_REPETITIONS}, got {times!r}"
            )
        if not items:
            raise SchemaError(f"Repeat({times}) repeats nothing; name systems behind the number")
        _check_items(items, "Repeat")
        self.times, self.items = times, items
        self.total: int = times * max((item.total for item in items if isinstance(item, Repeat)), default=1)
        if self.total > MAX_REPETITIONS:
            raise SchemaError(f"nested Repeats run a system {self.total} times; {MAX_REPETITIONS} are allowed")


class TaskGraph:
    """Systems by name, in the order in which they run, and ``Repeat``s of them."""

    def __init__(self, *items: str | Repeat) -> None:
        _check_items(items, "a task graph")
        self.items = items


def _check_items(items: Iterable[Any], what: str) -> None:
    for item in items:
        if not isinstance(item, (str, Repeat)):
            raise SchemaError(f"{what} lists systems by name, and Repeat(times, ...) of them, got {item!r}")


@dataclass(frozen=True)
class Option:
    """A default together with what is allowed, for ``Parameters`` and ``Constants``.

    Args:
        default: its type (bool, int, float or str) is the option's type.
        minimum, maximum: both allowed themselves.
        above: values must be greater than this.
        choices: the allowed values.
        help: one line with the unit.
    """

    default: bool | int | float | str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    choices: tuple[Any, ...] | None = None
    help: str = ""

    def checked(self, name: str, value: Any) -> Any:
        """Return ``value`` as the option's type, or raise ``TypeError`` or ``ValueError``."""
        kind = type(self.default)
        if isinstance(value, np.generic):
            value = value.item()
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            raise TypeError(f"option {name} must be {_article(kind)}, got {value!r}")
        if kind is float and not abs(value) <= float(np.finfo(np.float32).max):
            raise ValueError(f"option {name} must be finite as a 32-bit float, got {value!r}")
        if kind is int and not -(2**31) <= value < 2**31:
            raise ValueError(f"option {name} must fit 32 bits, got {value!r}")
        if self.choices is not None and value not in self.choices:
            raise ValueError(f"option {name} must be one of {', '.join(map(repr, self.choices))}, got {value!r}")
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"option {name} must be at least {self.minimum}, got {value!r}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"option {name} must be at most {self.maximum}, got {value!r}")
        if self.above is not None and np.float32(value) <= self.above:
            raise ValueError(f"option {name} must be greater than {self.above}, got {value!r}")
        return value


def _article(kind: type) -> str:
    return {bool: "True or False", int: "an integer", float: "a number", str: "a string"}[kind]


# Keyword arguments of gymnasium.make_vec and gymnasium.make, and of the vector environment.
VECTOR_ARGUMENTS = (
    "num_worlds", "device", "autoreset_mode", "final_obs", "output", "copy", "render_mode", "num_threads",
    "executor",
)  # fmt: skip
RESERVED_OPTIONS = (
    *VECTOR_ARGUMENTS, "id", "num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "disable_env_checker",
    "environment", "time_limit",
)  # fmt: skip


class _Options:
    def __init__(self, **options: bool | int | float | str | Option) -> None:
        self.options = {}
        for name, value in options.items():
            check_identifier(name, "an option")
            if name in RESERVED_OPTIONS:
                raise SchemaError(
                    f"an option cannot be named {name!r}, which gymnasium or the vector environment takes"
                )
            option = value if isinstance(value, Option) else Option(value)
            if type(option.default) not in self.kinds:
                kinds = ", ".join(kind.__name__ for kind in self.kinds)
                raise SchemaError(f"option {name} has default {option.default!r}; its type must be one of {kinds}")
            option.checked(name, option.default)
            self.options[name] = option

    kinds: ClassVar[tuple[type, ...]] = (bool, int, float)


class Parameters(_Options):
    """Keyword options that systems read at run time as ``world.parameters.name`` (bool, i32 or f32)."""


class Constants(_Options):
    """Keyword options that are fixed when the systems are compiled: ``Constants::name`` in C++.

    Use them for what shapes the data (players, cells); each combination is compiled once. A ``str`` is for Python only.
    """

    kinds: ClassVar[tuple[type, ...]] = (bool, int, float, str)


class Environment:
    """The declaration of one environment. Subclass it, set the class attributes, and write ``systems.h`` beside it.

    Class attributes (what depends on options may be a property that reads ``self.constants`` or ``self.parameters``):

    - ``systems``: the C++ header with the systems, relative to the file of the class.
    - ``archetypes``: list of ``Archetype``; ``singletons``: list of components with one row per world; ``resources``:
      list of components that there are once for all worlds, which systems only read (see ``resource_values``).
    - ``parameters``, ``constants``: the keyword options.
    - ``start``: task graph for worlds that begin an episode (their state is zero before it, but for ``kept``).
    - ``scratch``: those of the components (singletons, or of archetypes) whose columns are memory that systems use
      within one task graph: it holds anything when that begins, is not zeroed for a new episode, and is not part
      of a state.
    - ``kept``: those of the singletons that a new episode finds as they were, so that they can be written before it.
    - ``reset_options``: names of what ``reset(options={...})`` takes for the episodes that it begins, see
      ``reset_values``.
    - ``step``: task graph of a step.
    - ``observe``: task graph that writes observations wholly from the state; runs after ``step`` and after ``start``.
    - ``observation``: a column such as ``"Cart.CartState"``, or a dict of them; ``action``: a column.
      Their archetype is the agents' one: each of its rows is a row of the vector environment.
    - ``info``: dict of name to column, delivered in ``infos``; and there too, if they are not None: ``action_mask``
      (booleans, one a choice), ``active`` (one boolean a row: where it is false, the row may be given any action and is
      not trained on) and ``team`` (one integer a row). ``torch_batchsim.roles`` describes all roles of columns.
    - ``action_space``, ``observation_space``: of one agent. The action space is required.
    - ``enums``: ``enum.IntEnum`` classes that systems use too: ``Ground.POT`` is ``Ground::POT`` or ``POT`` in C++.
    - ``faults``: names of what systems report by ``world.fail(Fault::name, value)``.
    - ``fast_math``: compile with relaxed floating point; results are then no longer the same everywhere.
    - ``metadata``: may hold ``render_fps``, and ``score``: the name of an info, one number a row, that counts at the
      end of an episode in place of the rewards (which may hold shaping).
    """

    systems: str = "systems.h"
    archetypes: Sequence[Archetype] = ()
    singletons: Sequence[type[Component]] = ()
    resources: Sequence[type[Component]] = ()
    scratch: Sequence[type[Component]] = ()
    kept: Sequence[type[Component]] = ()
    reset_options: Sequence[str] = ()
    parameters: Any = Parameters()
    constants: Any = Constants()
    start: TaskGraph = TaskGraph()
    step: TaskGraph = TaskGraph()
    observe: TaskGraph = TaskGraph()
    observation: str | Mapping[str, str] = ""
    action: str = ""
    action_space: gymnasium.Space | None = None
    observation_space: gymnasium.Space | None = None
    info: Mapping[str, str] = {}
    action_mask: str | None = None
    active: str | None = None
    team: str | None = None
    enums: Sequence[type[IntEnum]] = ()
    faults: Sequence[str] = ()
    fast_math: bool = False
    metadata: Mapping[str, Any] = {}

    def __init__(self, **options: Any) -> None:
        """Args: values for the options that ``parameters`` and ``constants`` declare. Raises TypeError, ValueError."""
        cls = type(self)
        cls.check_options(options)
        known = {**cls.constants.options, **cls.parameters.options}
        values = {name: option.checked(name, options.get(name, option.default)) for name, option in known.items()}
        self.constants = Values({name: values[name] for name in cls.constants.options})
        self.parameters = Values({name: values[name] for name in cls.parameters.options})

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Keyword arguments. A class whose ``__init__`` takes more than the declared options extends this."""
        return (*cls.constants.options, *cls.parameters.options)

    @classmethod
    def check_options(cls, given: Iterable[str], others: tuple[str, ...] = ()) -> None:
        """Raise TypeError for a name that is no option; the message names ``others`` too, which the caller takes."""
        known = cls.option_names()
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(name, (*known, *others), n=1)
                suggestion = f" (did you mean {close[0]!r}?)" if close else ""
                raise TypeError(
                    f"{cls.__name__} has no option {name!r}{suggestion}; it has: "
                    f"{', '.join((*known, *others)) or 'none'}"
                )

    def add_constants(self, **values: bool | int | float) -> None:
        """Constants for the systems that follow from options, such as the size of a level: ``Constants::width``."""
        for name, value in values.items():
            check_identifier(name, "a constant")
            if name in self.constants:
                raise SchemaError(f"constant {name} is there already")
            Option(value).checked(name, value)
        self.constants = Values({**self.constants, **values})

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def source(self) -> Path:
        """The header with the systems."""
        if Path(self.systems).is_absolute():
            return Path(self.systems)
        try:
            return Path(inspect.getfile(type(self))).parent / self.systems
        except (OSError, TypeError):
            raise SchemaError(
                f"{self.name} is not in a file, so give 'systems' as an absolute path, got {self.systems!r}"
            ) from None

    def resource_values(self) -> Mapping[str, Any]:
        """What resources hold at first, by name of component or field: ``{"Levels.walls": array}``; the rest is zero.

        Values are numbers, arrays or tensors that can be broadcast to the shape that ``sim.tensor(name)`` has.
        """
        return {}

    def reset_values(self, options: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> Mapping[str, Any]:
        """What ``reset`` writes into ``kept`` singletons before ``start`` runs, by name of component or field.

        Args:
            options: those of ``reset_options`` that were given, on the simulator's device, ``[k, ...]``: a row for each
                world that begins an episode.
            worlds: int64 ``[k]``, their numbers, for messages.

        Returns numbers or tensors that can be broadcast to ``[k, ...]``. Raises TypeError or ValueError, which name
        what was given and what is allowed; nothing has changed then.
        """
        raise NotImplementedError(f"{self.name} has reset_options, but does not define reset_values()")

    def render(self, world: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a world as ``uint8 [height, width, 3]``.

        ``world`` maps ``"Cart.CartState.x"`` to ``[rows, ...]``, a singleton's or resource's field to ``[...]``.
        """
        raise NotImplementedError(f"{self.name} has no picture: it does not define render()")

    def render_text(self, world: Mapping[str, np.ndarray]) -> str:
        """Describe a world in plain text, some lines of it; ``world`` as ``render`` gets it."""
        raise NotImplementedError(f"{self.name} has no text: it does not define render_text()")


class Values(dict):
    """The checked values of options, as attributes too. They do not change: compiled systems have their own copy."""

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise TypeError("options are given when the environment is made and do not change")

    __setitem__ = __setattr__ = __delitem__ = update = clear = pop = popitem = setdefault = _refuse

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def homogeneous_dtype(component: type[Component]) -> torch.dtype | None:
    """The one dtype of all fields, if there is one and no padding, so that a column is one dense tensor; else None."""
    dtypes = {field.type.dtype for field in component.fields}
    return dtypes.pop() if len(dtypes) == 1 else None
