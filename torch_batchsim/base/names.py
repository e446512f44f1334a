"""Names that authors give, and what is said about a misspelt one."""

from __future__ import annotations

import difflib
import inspect
import keyword
import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from ..errors import SchemaError

Function = TypeVar("Function", bound=Callable[..., Any])

CPP_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class "
    "compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline "
    "int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t "
    "while xor xor_eq".split()
)


def check_identifier(name: str, what: str) -> str:
    """Return ``name`` if C++ and Python can both use it, else raise ``SchemaError``."""
    usable = isinstance(name, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and "__" not in name
    if not usable or name in CPP_KEYWORDS or keyword.iskeyword(name) or name.startswith("TBS_"):
        raise SchemaError(
            f"{what} cannot be named {name!r}: a name is letters, digits and single underscores, no keyword of "
            "C++ or Python, and does not begin with TBS_"
        )
    return name


def near_miss(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` misspells, or of which it is the singular or plural; None where none is near."""
    names = list(known)
    same = [other for other in names if _singular(other) == _singular(name) or is_mistyped(name, other)]
    return same[0] if same else nearest(name, names, 0.85)


def is_mistyped(name: str, other: str) -> bool:
    """Whether one letter too many, missing, wrong, or swapped with the next makes ``other``, of four letters or more,
    of ``name``."""
    if name == other or len(other) < 4 or abs(len(name) - len(other)) > 1:
        return False
    same = next((i for i, pair in enumerate(zip(name, other)) if pair[0] != pair[1]), min(len(name), len(other)))  # noqa: B905
    left, right = name[same:], other[same:]
    swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
    return swapped or left[1:] == right[1:] or left[1:] == right or left == right[1:]


def _singular(name: str) -> str:
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def told_arguments(title: str) -> Callable[[Function], Function]:
    """A decorator: calls whose arguments do not fit raise a TypeError that names the nearest and all that are taken."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_POSITIONAL]
        known = [each.name for each in parameters if each.name != "self"]

        @wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in known:
                    near = suggestion(name, known)
                    raise TypeError(f"{title} has no argument {name!r}{near}; it takes: {', '.join(known)}")
            try:
                signature.bind(*arguments, **keywords)
            except TypeError as error:
                raise TypeError(f"{title}: {error}; it takes: {', '.join(known)}") from None
            return function(*arguments, **keywords)

        return called  # type: ignore[return-value]

    return decorate


def suggestion(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'gravity'?)"``: the nearest of the known names, or nothing where none is near."""
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that is most like ``name``; None where none is as like as ``likeness``, from 0 to 1."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)), None)
