"""Two recordings of one environment, world by world: whether they go together, and which worlds differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..replay import Recording, RecordingError
from ..run.world_state import WORLD_FIELDS, WorldStates
from ..vector.vector_env import TorchVectorEnv


def check_pair(one: Recording, other: Recording) -> None:
    """Raise RecordingError unless both are of one environment, with as many worlds and the same tables."""
    both = f"{one.path} and {other.path} cannot be shown side by side"
    for name, what in (("environment", "is of {}"), ("num_worlds", "has {} worlds")):
        first, second = (each.metadata[name] for each in (one, other))
        if first != second:
            raise RecordingError(f"{both}: the first {what.format(first)}, the second {what.format(second)}")
    first, second = (_tables(each.env()) for each in (one, other))
    if first != second:
        named = sorted({name for name, _ in {*first.items()} ^ {*second.items()}})
        raise RecordingError(f"{both}: the second has other tables, {', '.join(named[:5])}: their options differ")


def differences(
    env: TorchVectorEnv, other: TorchVectorEnv, states: WorldStates, others: WorldStates
) -> dict[int, list[str]]:
    """By world, which of "state" and "observations" differ in any bit; worlds that are equal are left out."""
    worlds = states.worlds
    in_state = np.zeros(len(worlds), bool)
    for name in (*WORLD_FIELDS, *states.names):
        in_state |= _apart(states, others, name)
    seen = _observed(env, worlds), _observed(other, worlds)
    in_seen = np.zeros(len(worlds), bool)
    for one, two in zip(*seen, strict=True):
        in_seen |= (one != two).any(axis=1)
    found = {}
    for world, differs, observed in zip(worlds, in_state.tolist(), in_seen.tolist(), strict=True):
        if differs or observed:
            found[world] = ["state"] * differs + ["observations"] * observed
    return found


def _tables(env: TorchVectorEnv) -> dict[str, tuple[Any, ...]]:
    """Rows and fields of a world's columns, and shapes of observations."""
    found: dict[str, tuple[Any, ...]] = {}
    for column in env.sim.program.columns.values():
        if not column.resource:
            fields = ((field.name, str(field.type)) for field in column.component.fields)
            found[column.name] = 0 if column.dynamic else column.rows_per_world, *fields
    return found | {f"observation {key}": column.value_shape for key, column in env.sim.program.observations.items()}


def _apart(states: WorldStates, others: WorldStates, name: str) -> np.ndarray:
    """In which worlds a field differs, bool ``[worlds]``."""
    count = len(states.worlds)
    kind, one, two = states.kind(name), states.array(name), others.array(name)
    if not kind:
        return np.zeros(count, bool)  # shared by all worlds
    if kind == "world":
        return (_bytes(one, count) != _bytes(two, count)).any(axis=1)
    parts = ((states.part(name, i), others.part(name, i)) for i in range(count))
    return np.array([a.shape != b.shape or a.tobytes() != b.tobytes() for a, b in parts], bool)


def _observed(env: TorchVectorEnv, worlds: Sequence[int]) -> list[np.ndarray]:
    """The bytes of each part of the observations of these worlds."""
    found, places = env.observations, torch.tensor(worlds, device=env.device)
    parts: list[Any] = list(found.values()) if isinstance(found, dict) else [found]
    chosen = (env.by_world(part).index_select(0, places).cpu().numpy() for part in parts)
    return [_bytes(part, len(worlds)) for part in chosen]


def _bytes(values: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(values).reshape(count, -1).view(np.uint8)
