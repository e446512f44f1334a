"""Checksums of what a moment returns, and of the state of all worlds."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

STATE = "state"


def checksum(value: torch.Tensor | np.ndarray, before: int = 0) -> int:
    """CRC-32 of the bytes."""
    array = value.detach().cpu().contiguous().numpy() if isinstance(value, torch.Tensor) else value
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, before)


def checksums(results: tuple[Any, ...]) -> dict[str, int]:
    """By the names of outputs, of what ``reset`` or ``step`` has returned; of final values those of rows that have
    ended."""
    observations, *others, infos = results
    named = {"observations": observations}
    named |= dict(zip(("rewards", "terminations", "truncations"), others, strict=False))
    named |= {key: value for key, value in dict.items(infos) if not key.startswith(("_", "final_"))}
    for name in ("final_obs", "final_info"):
        if name in infos and (ended := dict.__getitem__(infos, f"_{name}")).any():
            final = dict.__getitem__(infos, name)  # not by infos[name], which completes it in the caller's memory
            rows = final.items() if isinstance(final, Mapping) else [("", final)]
            named[name] = {key: value[ended] for key, value in rows if not key.startswith("_")}
            named[name] = named[name] if isinstance(final, Mapping) else named[name][""]
    return {name: checksum(value) for name, value in _flat(named)}


def state_checksum(state: Mapping[str, Any]) -> int:
    """Of a ``state_dict``."""
    kept = {name: state[name] for name in ("tensors", "tables")}
    kept["held"] = {name: held for name, held in state["held"].items() if held.any()}  # memory for it, or none: alike
    total = 0
    for name, value in sorted(_flat(kept)):
        total = checksum(value, zlib.crc32(name.encode(), total))
    return total


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, (torch.Tensor, np.ndarray)):
            yield prefix + name, value
