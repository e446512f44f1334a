"""What pages see of a moment: scenes of the shown worlds as integers, or their pictures."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any

import numpy as np

from ..declare.environment import Environment
from ..page.pictures import png
from ..page.scenes import Encoder
from ..run.world_state import WorldStates
from ..vector import rendering
from . import tables

_WORK, _REST = 0.0005, 0.0001  # seconds


@dataclass
class Shot:
    """The shown worlds at a moment, copied in the simulation's thread."""

    states: WorldStates
    step: int  # of the batch
    rate: float  # steps a second
    rewards: np.ndarray  # [worlds], those of a world's agents together
    infos: dict[str, np.ndarray]  # [worlds], means of a world's agents
    beside: dict[str, Any]  # for all pages


@dataclass
class Look:
    """What a page shows: worlds, one of them in full, perhaps following a row, and the values of a table."""

    worlds: list[int]
    full: int
    table: str | None = None
    follow: str | None = None  # a table
    row: int = 0


@dataclass
class Known:
    """What a page has got of an encoder: how many styles, layouts and hulls."""

    encoder: Encoder | None = None
    styles: int = 0
    layouts: int = 0
    hulls: int = 0


class Frame:
    """A shot, drawn once for all pages."""

    def __init__(self, shot: Shot, environment: Environment, encoder: Encoder) -> None:
        self.shot, self._encoder = shot, encoder
        self.index = {world: i for i, world in enumerate(shot.states.worlds)}
        steps, episodes = (shot.states.array(f"World.{name}").tolist() for name in ("step", "episode"))
        self._facts = list(zip(steps, episodes, _numbers(shot.rewards), strict=True))
        self._scenes = rendering.has_scene(environment)
        if self._scenes:
            draw = rendering.scene_of(environment)
            scenes = [draw(state) for state in _at_leisure(shot.states)]
            encoded = encoder.encode(scenes)
            data, self._ends = encoded.numbers.astype("<i4", copy=False).tobytes(), [4 * end for end in encoded.ends]
            self._drawn: list[tuple[Any, ...]] = list(zip(encoded.layouts, encoded.sizes, strict=True))
        else:
            files, self._drawn = [], []
            for state in _at_leisure(shot.states):
                picture = np.asarray(rendering.drawn(environment, state, "rgb_array"))
                files.append(png(picture, effort=1))
                self._drawn.append((-1, (picture.shape[1], picture.shape[0])))
            data, self._ends = b"".join(files), np.cumsum([len(file) for file in files]).tolist()
        self._data = memoryview(data)

    def message(self, look: Look, known: Known) -> bytes:
        """For a page: the length of a header, the header in JSON, and the numbers of the worlds that it shows."""
        encoder = self._encoder
        if known.encoder is not encoder:
            known.encoder, known.styles, known.layouts, known.hulls = encoder, 0, 0, 0
        shown, parts = [], []
        for world in dict.fromkeys((*look.worlds, look.full)):
            i = self.index.get(world)
            if i is not None:
                first = self._ends[i - 1] if i else 0
                layout, (width, height) = self._drawn[i]
                shown.append([world, layout, self._ends[i] - first, width, height, *self._facts[i]])
                parts.append(self._data[first : self._ends[i]])
        at = self.index.get(look.full)
        infos = {} if at is None else {name: _numbers(each)[at] for name, each in self.shot.infos.items()}
        header = {
            "kind": "frame", "step": self.shot.step, "rate": round(self.shot.rate, 1), **self.shot.beside,
            "full": look.full, "infos": infos, "worlds": shown,
        }  # fmt: skip
        if look.follow is not None and at is not None:
            header["follow"] = tables.place(self.shot.states, at, look.follow, look.row)
        if self._scenes:
            hulls = list(encoder.hulls.items())
            header |= {
                "units": encoder.units,
                "from": [known.styles, known.layouts],
                "styles": encoder.styles[known.styles :],
                "layouts": encoder.layouts[known.layouts :],
                "hulls": dict(hulls[known.hulls :]),
            }
            known.styles, known.layouts, known.hulls = len(encoder.styles), len(encoder.layouts), len(hulls)
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        return b"".join([struct.pack("<I", len(text)), text, *parts])


def _at_leisure(states: WorldStates) -> Iterator[Mapping[str, np.ndarray]]:
    """All of them, with a rest every half millisecond.

    A thread that waits for Python's lock gets it after 5 ms, or when this one rests: without rests each step of the
    simulation would wait that long while worlds are drawn.
    """
    since = perf_counter()
    for state in states:
        yield state
        if perf_counter() - since > _WORK:
            sleep(_REST)
            since = perf_counter()


def _numbers(values: np.ndarray) -> list[float | None]:
    return [value if abs(value) < 1e300 else None for value in np.asarray(values, np.float64).round(5).tolist()]
