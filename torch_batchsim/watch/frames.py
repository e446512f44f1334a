"""What pages see of a moment: scenes of the shown worlds as integers, or their pictures."""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from .counts import REWARD

COLUMNS = (
    "world", "layout", "bytes", "width", "height", "step", "episode", "reward", "first", "steps", "total", "faults"
)  # fmt: skip
"""What a frame has of each world: ``layout`` is -1 for a picture; the last four are as of ``Tally``."""
_WORK, _REST = 0.0005, 0.0001  # seconds


@dataclass
class Tally:
    """What has been counted of the shown worlds, whether frames showed it or not, each ``[worlds]``."""

    firsts: np.ndarray  # steps that had been taken when a world was shown first, from which on it is counted
    steps: np.ndarray
    sums: dict[str, np.ndarray]  # of rewards and infos, over these steps
    faults: list[int]  # since the beginning of the run


@dataclass
class Shot:
    """The shown worlds at a moment, copied in the simulation's thread."""

    states: WorldStates
    step: int  # of the batch
    rate: float  # steps a second
    rewards: np.ndarray  # [worlds], those of a world's agents together
    tally: Tally
    beside: dict[str, Any]  # for all pages
    other: Other | None = None


@dataclass
class Other:
    """The same worlds of another environment at the same moment, to be shown beside them."""

    states: WorldStates
    rewards: np.ndarray
    differs: dict[int, list[str]]  # by world: what does, of "state" and "observations"; equal worlds are left out


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


class Side:
    """The drawn worlds of one environment.

    ``only``: the others are not drawn; ``humans``: by world, the agents for which humans play.
    """

    def __init__(
        self, states: WorldStates, rewards: np.ndarray, environment: Environment, encoder: Encoder,
        only: Collection[int] | None = None, humans: Mapping[int, list[int]] | None = None,
    ) -> None:  # fmt: skip
        self.encoder, self.scenes = encoder, rendering.has_scene(environment)
        drawn = [(i, world) for i, world in enumerate(states.worlds) if only is None or world in only]
        self.index = {world: i for i, (_, world) in enumerate(drawn)}
        which = iter(states) if only is None else (states[i] for i, _ in drawn)
        self.table = np.zeros((len(drawn), len(COLUMNS)))
        if self.scenes:
            draw = rendering.scene_of(environment)
            seats = dict(humans or {}) if type(environment).scene_for is not Environment.scene_for else {}
            scenes = (
                environment.scene_for(state, seats[world]) if world in seats else draw(state)
                for state, (_, world) in zip(_at_leisure(which), drawn, strict=True)
            )  # fmt: skip
            encoded = encoder.encode(list(scenes))
            data, self._ends = encoded.numbers.astype("<i4", copy=False).tobytes(), [4 * end for end in encoded.ends]
            layouts, sizes = encoded.layouts, encoded.sizes
        else:
            files, layouts, sizes = [], [-1] * len(drawn), []
            for state in _at_leisure(which):
                picture = np.asarray(rendering.drawn(environment, state, "rgb_array"))
                files.append(png(picture, effort=1))
                sizes.append((picture.shape[1], picture.shape[0]))
            data, self._ends = b"".join(files), np.cumsum([len(file) for file in files]).tolist()
        self._data = memoryview(data)
        if drawn:
            places = [i for i, _ in drawn]
            steps, episodes = (states.array(f"World.{name}")[places] for name in ("step", "episode"))
            shown = np.array([world for _, world in drawn]), np.array(layouts), np.diff(self._ends, prepend=0)
            columns = *shown, *np.array(sizes).T, steps, episodes, rewards[places]
            for i, values in enumerate(columns):
                self.table[:, i] = values

    def data(self, i: int) -> memoryview:
        """What a world in row ``i`` of the table is drawn from."""
        return self._data[self._ends[i - 1] if i else 0 : self._ends[i]]

    def news(self, known: Known) -> dict[str, Any]:
        """What a page has not yet got of the encoder."""
        if not self.scenes:
            return {}
        encoder = self.encoder
        if known.encoder is not encoder:
            known.encoder, known.styles, known.layouts, known.hulls = encoder, 0, 0, 0
        hulls = list(encoder.hulls.items())
        news = {
            "units": encoder.units,
            "from": [known.styles, known.layouts],
            "styles": encoder.styles[known.styles :],
            "layouts": encoder.layouts[known.layouts :],
            "hulls": dict(hulls[known.hulls :]),
        }
        known.styles, known.layouts, known.hulls = len(encoder.styles), len(encoder.layouts), len(hulls)
        return news


class Frame:
    """A shot, drawn once for all pages: all its worlds, and of another environment's those that are shown in full."""

    def __init__(
        self, shot: Shot, environments: Sequence[Environment], encoders: Sequence[Encoder], fulls: Collection[int] = ()
    ) -> None:
        self.shot = shot
        self.index = {world: i for i, world in enumerate(shot.states.worlds)}
        humans: dict[int, list[int]] = {}
        for seat in shot.beside.get("humans", ()):
            humans.setdefault(seat["world"], []).append(seat["agent"])
        self.sides = [Side(shot.states, shot.rewards, environments[0], encoders[0], humans=humans)]
        tally = shot.tally
        counted = tally.firsts, tally.steps, tally.sums[REWARD], np.array(tally.faults)
        for i, values in enumerate(counted, len(COLUMNS) - len(counted)):
            self.sides[0].table[:, i] = values
        if shot.other is not None:
            other = shot.other
            self.sides.append(Side(other.states, other.rewards, environments[1], encoders[1], fulls))

    def message(self, look: Look, known: Sequence[Known]) -> bytes:
        """For a page: the length of a header, the header in JSON, ``COLUMNS`` of the worlds that it shows, their data.

        The numbers of ``COLUMNS`` are float64 ``[worlds, columns]``, of which the header has the number of rows.
        """
        side, tally = self.sides[0], self.shot.tally
        shown = [world for world in dict.fromkeys((*look.worlds, look.full)) if world in side.index]
        places = [side.index[world] for world in shown]
        at = self.index.get(look.full)
        sums = {} if at is None else {name: each[at] for name, each in tally.sums.items() if name != REWARD}
        infos = {name: float(np.nan_to_num(value)) for name, value in sums.items()}
        header = {
            "kind": "frame", "step": self.shot.step, "rate": round(self.shot.rate, 1), **self.shot.beside,
            "full": look.full, "infos": infos, "worlds": len(shown),
        }  # fmt: skip
        if look.follow is not None and at is not None:
            header["follow"] = tables.place(self.shot.states, at, look.follow, look.row)
        header |= side.news(known[0])
        parts: list[bytes | memoryview] = [side.table[places].astype("<f8", copy=False).tobytes()]
        parts += map(side.data, places)
        if self.shot.other is not None:
            other = self.sides[1]
            header["differs"] = {world: self.shot.other.differs.get(world, []) for world in shown}
            if (found := other.index.get(look.full)) is not None:
                header["other"] = other.news(known[1])
                parts += [other.table[found].astype("<f8", copy=False).tobytes(), other.data(found)]
        text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-len(text) % 4)
        return b"".join([struct.pack("<I", len(text)), text, *parts])


def _at_leisure(states: Iterable[Mapping[str, np.ndarray]]) -> Iterator[Mapping[str, np.ndarray]]:
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
