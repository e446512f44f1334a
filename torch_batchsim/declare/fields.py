"""Fields of components and structs: their types, their places in memory, and their ranges."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin

import numpy as np

from ..base.constant import names_in, resolved
from ..base.names import check_identifier, told_arguments
from ..errors import SchemaError
from ..types import FIELD_TYPES, FieldType, boolean, checked_extents

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Range:
    """The bounds of a field, as given to ``between``."""

    low: Any
    high: Any


@told_arguments("between")
def between(low: Any, high: Any) -> Any:
    """The range of a field, both ends included: ``speed: f32 = between(0, 1)``.

    Where the field's component is an observation, the bounds of ``observation_space`` follow from it, and where it is
    the action, ``action_space`` does. Nothing is clipped.

    Args:
        low, high: numbers, or nested lists or arrays that can be broadcast to the field's shape (``vec2 =
            between([0, -1], [1, 1])``); ``inf`` for an open end of a float; a ``Constant``.

    The component raises SchemaError for bounds that its field cannot hold, for low > high, and for fields that are not
    numbers.
    """
    return Range(low, high)


@dataclass(frozen=True)
class Field:
    """Numbers of one type within a component: a field, or a field of a struct in it (``"legs.angle"``).

    Attributes:
        type: its shape includes that of arrays of structs around it: ``legs: Leg[4]`` with ``hip: f32[2]`` in it is
            ``"legs.hip"`` of ``f32[4, 2]``.
        offset: of the first number, in bytes from the start of the component.
        strides: bytes from one index to the next, for each dimension of ``type.tensor_shape``.
        low, high: arrays of ``type.tensor_shape`` where a range is declared, else None; both ends included.
    """

    name: str
    type: FieldType
    offset: int
    strides: tuple[int, ...] = ()
    low: np.ndarray | None = field(default=None, compare=False)
    high: np.ndarray | None = field(default=None, compare=False)

    @property
    def is_dense(self) -> bool:
        """Whether its numbers lie side by side."""
        return self.strides == strides_of(self.type)

    def __str__(self) -> str:
        """Its type, and its places where these do not follow from it."""
        return str(self.type) if self.is_dense else f"{self.type} at {self.offset} by {list(self.strides)}"


def strides_of(kind: FieldType) -> tuple[int, ...]:
    """Bytes from index to index where the numbers lie side by side."""
    strides, step = [], kind.dtype.itemsize
    for extent in reversed(kind.tensor_shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class Struct:
    """A part of components, itself a C++ struct of that name: fields, arrays of them, and further structs.

    ::

        class Leg(Struct):
            angle: f32 = between(-1, 1)
            touches: boolean

        class Body(Component):
            legs: Leg[4]

    In C++ ``body.legs[2].angle``; as tensors ``"Walker.Body.legs.angle"``, ``[worlds, rows, 4]``. mypy takes no
    number in brackets behind a class; its users write ``Annotated[Leg, 4]``.
    """

    layout: ClassVar[Layout]

    if TYPE_CHECKING:  # systems in Python make them: Leg(angle=0.5)

        def __init__(self, **fields: Any) -> None: ...

        # Of an array of them, which checkers take as one: ``legs: Annotated[Leg, 4]``.
        def __getitem__(self, index: Any) -> Self: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __iter__(self) -> Iterator[Self]: ...
        def __len__(self) -> int: ...

    def __init_subclass__(cls) -> None:
        check_identifier(cls.__name__, "a struct")
        if cls.__bases__ != (Struct,):
            raise SchemaError(f"struct {cls.__name__} must inherit from Struct only; list all of its fields in it")
        cls.layout = declared(cls, f"struct {cls.__name__}")

    def __class_getitem__(cls, shape: Any) -> StructArray:
        return StructArray(cls, checked_extents(shape, cls.__name__))



@dataclass(frozen=True)
class StructArray:
    """An array of structs, as the type of a field."""

    struct: type[Struct]
    shape: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.struct.__name__}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Member:
    """A field as declared. ``shape`` is that of the array, ``()`` of a single element."""

    name: str
    type: FieldType | type[Struct]  # of an element, where it is a struct
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Layout:
    """The fields of a class, laid out as C does it.

    Attributes:
        members: as declared, in their order; ``fields``: the numbers in them.
        size, alignment: bytes; the size is a multiple of the alignment.
        constants: names of constants without a value yet; ``members`` are empty until ``closed`` gives these.
    """

    what: str
    given: Mapping[str, tuple[Any, Range | None]] = field(repr=False)
    members: tuple[Member, ...] = ()
    fields: tuple[Field, ...] = ()
    size: int = 0
    alignment: int = 1
    constants: tuple[str, ...] = ()

    def closed(self, values: Mapping[str, Any]) -> Layout:
        """The layout with values of constants. Raises SchemaError for a missing or unfit one."""
        return _laid_out(self.what, self.given, values) if self.constants else self

    def member_at(self, name: str) -> Field | None:
        """A struct in it (``"legs"``) as one field, if all of its fields have one type; None for an unknown name.

        The shape ends in the count of numbers in one struct. Raises TypeError if its fields differ in type.
        """
        own, _, rest = name.partition(".")
        member = next((m for m in self.members if m.name == own and isinstance(m.type, type)), None)
        if member is None or not isinstance(member.type, type):
            return None
        layout = member.type.layout
        if rest:
            inner = layout.member_at(rest)
            return None if inner is None else _within(inner, member)
        types = {part.type.dtype: part.type for part in layout.fields}
        if len(types) > 1:
            names = ", ".join(f"{name}.{part.name}" for part in layout.fields)
            raise TypeError(f"{name} has fields of different types, so it is not one tensor; ask for {names}")
        number = replace(FIELD_TYPES["u8"], dtype=next(iter(types)), shape=(layout.size // next(iter(types)).itemsize,))
        return _within(Field("", number, 0, strides_of(number)), member)


def declared(cls: type, what: str) -> Layout:
    """The layout of the annotations of ``cls``. Removes the ranges among its attributes. Raises SchemaError."""
    try:
        annotations = inspect.get_annotations(cls, eval_str=True)
    except NameError as error:
        raise SchemaError(f"{what}: {error}; {_known_types()}") from None
    given = {}
    for name, annotation in annotations.items():
        check_identifier(name, f"a field of {what}")
        default = vars(cls).get(name)
        if default is not None:
            if not isinstance(default, Range):
                raise SchemaError(
                    f"{what}: {name} = {default!r} means nothing: fields begin at zero, and systems of start write "
                    "other values; the least and the greatest value are given as = between(low, high)"
                )
            delattr(cls, name)
        if get_origin(annotation) is Annotated:  # Annotated[Leg, 4] is Leg[4], for type checkers
            annotation, *extents = get_args(annotation)
            annotation = annotation[tuple(extents)]
        given[name] = boolean if annotation is bool else annotation, default
    for name, value in vars(cls).items():
        if isinstance(value, (FieldType, StructArray)):
            raise SchemaError(f"{what}: {name} = {value} declares no field; write {name}: {value}")
    if not given:
        raise SchemaError(f"{what} has no fields; a field is written as speed: f32")
    return _laid_out(what, given, None)


def _laid_out(what: str, given: Mapping[str, tuple[Any, Range | None]], known: Mapping[str, Any] | None) -> Layout:
    """See ``declared``. Where the values of constants are not ``known`` yet, these stay open."""
    kinds = {name: _kind(what, name, annotation) for name, (annotation, _) in given.items()}
    named = [n for kind, shape in kinds.values() for n in names_in(shape)]
    named += [n for _, bounds in given.values() if bounds is not None for n in names_in([bounds.low, bounds.high])]
    if named and known is None:
        return Layout(what, given, constants=tuple(dict.fromkeys(named)))
    values = known or {}
    members: list[Member] = []
    fields: list[Field] = []
    offset, alignment = 0, 1
    for name, (kind, open_shape) in kinds.items():
        title = f"{what}: {name}"
        shape = resolved(open_shape, values, title)
        for extent in shape:
            if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
                raise SchemaError(f"{title} has the extents {list(shape)}, which must be positive integers")
        bounds = given[name][1]
        if isinstance(kind, FieldType):
            kind = kind if kind.shape == shape else replace(kind, shape=shape)
            size, own_alignment = kind.size, kind.alignment
        else:
            size, own_alignment = kind.layout.size * math.prod(shape), kind.layout.alignment
        offset = round_up(offset, own_alignment)
        member = Member(name, kind, shape, offset)
        members.append(member)
        if isinstance(kind, FieldType):
            low, high = (None, None) if bounds is None else _checked_bounds(title, kind, bounds, values)
            fields.append(Field(name, kind, offset, strides_of(kind), low, high))
        else:
            if bounds is not None:
                raise SchemaError(f"{title} is of struct {kind.__name__}: give the ranges to the fields in it")
            fields += [_within(part, member) for part in kind.layout.fields]
        offset += size
        alignment = max(alignment, own_alignment)
    return Layout(what, given, tuple(members), tuple(fields), round_up(offset, alignment), alignment)


def _instead(annotation: Any) -> str:
    """The remedy for an annotation that is not a type of fields, or nothing."""
    names = {int: "i32", "int": "i32", float: "f32", "float": "f32"}
    if isinstance(annotation, (type, str)) and annotation in names:
        return f" (write {names[annotation]})"
    if isinstance(annotation, type) and any(base.__name__ == "Component" for base in annotation.__mro__):
        return f" (a part of a component is a struct: class {annotation.__name__}(Struct))"
    if isinstance(annotation, list) and len(annotation) == 1:
        return " (an array of three is written as f32[3])"
    return ""


def _kind(what: str, name: str, annotation: Any) -> tuple[FieldType | type[Struct], tuple[Any, ...]]:
    """The type of an element, and the shape of the array, constants in it."""
    if isinstance(annotation, FieldType):
        return annotation, annotation.shape
    array = annotation if isinstance(annotation, StructArray) else StructArray(annotation, ())
    struct = array.struct
    if not (isinstance(struct, type) and issubclass(struct, Struct) and struct is not Struct):
        given = getattr(annotation, "__name__", annotation)
        raise SchemaError(
            f"field {what.partition(' ')[2]}.{name} has unknown type {given!r}{_instead(annotation)}; {_known_types()}"
        )
    if struct.layout.constants:
        raise SchemaError(
            f"{what}: {name} is of struct {struct.__name__}, which names constants; only components may, so make the "
            "arrays and ranges with constants fields of the component"
        )
    return struct, array.shape


def _within(part: Field, member: Member) -> Field:
    """A field of a struct as a field of the component that has an array of the struct."""
    layout = member.type.layout
    steps, step = [], layout.size
    for extent in reversed(member.shape):
        steps.append(step)
        step *= extent
    kind = replace(part.type, shape=member.shape + part.type.shape)
    low, high = (None if end is None else np.broadcast_to(end, kind.tensor_shape) for end in (part.low, part.high))
    name = f"{member.name}.{part.name}".rstrip(".")
    return Field(name, kind, member.offset + part.offset, (*reversed(steps), *part.strides), low, high)


def _checked_bounds(
    what: str, kind: FieldType, bounds: Range, values: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays of the field's dtype and shape."""
    if kind.dtype == boolean.dtype or kind.name == "Entity":
        raise SchemaError(f"{what} is of {kind}, which has no range; numbers have one")
    low, high = (_bound(what, kind, resolved(end, values, what)) for end in (bounds.low, bounds.high))
    if (low > high).any():
        raise SchemaError(
            f"{what} is between {bounds.low!r} and {bounds.high!r}; the first must not be greater"
        )
    return low, high


def _bound(what: str, kind: FieldType, given: Any) -> np.ndarray:
    dtype = np.dtype(str(kind.dtype).removeprefix("torch."))
    try:
        array = np.asarray(given)
    except ValueError:
        raise SchemaError(f"{what}: a bound must be a number or an array, got {given!r}") from None
    if array.dtype.kind not in ("iu" if dtype.kind in "iu" else "iuf"):
        numbers = "integers" if dtype.kind in "iu" else "numbers"
        raise SchemaError(f"{what} is of {kind}, whose bounds are {numbers}, got {given!r}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        fits = int(array.min()) >= limits.min and int(array.max()) <= limits.max
    else:
        limits = np.finfo(dtype)
        fits = bool((np.isinf(array) | (np.abs(array.astype(np.float64)) <= limits.max)).all())  # NaN does not fit
    if not fits:
        raise SchemaError(f"{what}: {kind.name} cannot hold the bound {given!r}")
    try:
        return np.broadcast_to(array.astype(dtype), kind.tensor_shape)
    except ValueError:
        raise SchemaError(
            f"{what} has shape {list(kind.tensor_shape)}, to which a bound of shape {list(array.shape)} does not fit"
        ) from None


def structs_in(members: Iterable[Member]) -> Iterator[type[Struct]]:
    """The structs of the members, each behind its own parts."""
    for member in members:
        if isinstance(member.type, type):
            yield from structs_in(member.type.layout.members)
            yield member.type


def _known_types() -> str:
    return (
        f"known types: {', '.join(FIELD_TYPES)}, classes that inherit from Struct, and arrays of both such as f32[3]"
    )


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
