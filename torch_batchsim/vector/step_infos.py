"""The infos of a step, whose last values are completed when they are read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from torch.utils import _pytree

from ..base.modes import in_plain_torch
from ..base.numbers import where
from .results import Results


class StepInfos(dict):
    """Infos with ``final_obs`` and ``final_info``, of which every row is a row's true last value.

    Worlds write these only in rows whose episode has ended. Whoever reads one of the two entries completes it: other
    rows get the values of this step, and where it is a dict, the reader gets one of its own. Nobody else pays.

    Attributes:
        results: what a step has returned, whose tensors lie in the same memory as the entries. Without, these are
            complete.
    """

    __slots__ = ("_done", "results")

    results: Results | None
    _done: tuple[str, ...]

    def _complete(self, *keys: Any) -> None:
        results, done = getattr(self, "results", None), getattr(self, "_done", ())
        if results is not None:
            for key in keys:
                if key in _FINAL and key in self and key not in done:
                    self._done = done = *done, key
                    entry = super().__getitem__(key)
                    if isinstance(entry, dict) and entry is results.step_infos[key]:
                        self[key] = dict(entry)
                    complete(results, key)

    def __getitem__(self, key: Any) -> Any:
        if key in _FINAL:
            self._complete(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        if key in _FINAL:
            self._complete(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self._complete(key)
        return super().pop(key, *default)

    def popitem(self) -> tuple[Any, Any]:
        self._complete(*_FINAL)
        return super().popitem()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        self._complete(key)
        return super().setdefault(key, default)

    def items(self) -> Any:
        self._complete(*_FINAL)
        return super().items()

    def values(self) -> Any:
        self._complete(*_FINAL)
        return super().values()

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__()  # with a function of its own dict(infos) and {**infos} read entry by entry

    def copy(self) -> dict[Any, Any]:
        return dict(self)

    __copy__ = copy

    def __or__(self, other: Any) -> dict[Any, Any]:
        return dict(self) | other

    def __ror__(self, other: Any) -> dict[Any, Any]:
        return other | dict(self)

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(dict(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), None, None, iter(dict(self).items())  # of which torch.load knows that it runs no code


_FINAL = ("final_obs", "final_info")
_pytree.register_pytree_node(  # torch's maps over trees know classes of their own only
    StepInfos,
    lambda infos: (list(infos.values()), list(infos)),
    lambda values, keys: dict(zip(keys, values, strict=True)),
)


@in_plain_torch
def complete(results: Results, key: str) -> None:
    """Write this step's values into the rows of ``final_obs`` or ``final_info`` whose episode goes on."""
    infos = results.step_infos
    now, last = (results.infos, infos[key]) if key == "final_info" else (results.step[0], infos[key])
    if not isinstance(last, dict):
        now, last = {"": now}, {"": last}
    ended = infos["_final_obs"]
    for name, tensor in last.items():
        if name in now:  # else it is a mask
            rows = ended.view(-1, *[1] * (tensor.dim() - 1))
            tensor.copy_(where(rows, tensor, now[name]))
