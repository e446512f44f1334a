"""Pages that replay recordings, in one file without the network."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..page import whole
from ..page.pictures import png
from ..page.scenes import Film
from ..run.world_state import WorldState
from ..vector import rendering
from .recording import Recording, RecordingError

MARK = "/*DATA*/"
TEMPLATE = Path(__file__).with_name("page.html")


def write_page(path: Path, recordings: Sequence[Recording], world: int = 0) -> int:
    """Write the page of a world of each recording, side by side; returns its bytes. Raises RecordingError, OSError."""
    contents = {"sides": [film(recording, world) for recording in recordings]}
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False).encode()
    data = base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()
    page = whole(TEMPLATE).replace(MARK, data)
    path.write_text(page)
    return len(page.encode())


def film(recording: Recording, world: int) -> dict[str, Any]:
    """The moments of a world, as page.html reads them: shapes, or pictures of environments without a scene."""
    env = recording.env()
    check_world(recording, world)
    scenes = rendering.has_scene(env.environment)
    if not scenes and "rgb_array" not in rendering.render_modes(env.environment):
        raise RecordingError(f"{env.environment.name} defines neither scene() nor render(): there is nothing to see")
    shapes, pictures = Film(), _Pictures()
    first, facts = world * env.num_agents, []
    rows = slice(first, first + env.num_agents)
    for moment in recording.play():
        if scenes:
            shapes.add(rendering.scene_of(env.environment)(WorldState(env.sim, world)))
        else:
            picture = rendering.draw_world(env.sim, world, "rgb_array")
            assert isinstance(picture, np.ndarray)
            pictures.add(picture)
        is_step = recording.actions(moment) is not None
        rewards = env.step_results()[1][rows].tolist() if is_step else []
        ended = is_step and bool(env.ended_worlds()[world])
        facts.append([is_step, _rounded(rewards), ended])
    title = f"{env.environment.name}, world {world}"
    fps = float(env.metadata.get("render_fps", 30))
    drawn = shapes.data if scenes else pictures.data
    return {"title": title, "file": recording.path.name, "fps": fps, "facts": facts, **drawn}


def check_world(recording: Recording, world: int) -> None:
    """Raise RecordingError for a world that the recording does not have."""
    worlds = recording.metadata["num_worlds"]
    if not 0 <= world < worlds:
        raise RecordingError(f"world must be from 0 to {worlds - 1} in {recording.path}, got {world}")


class _Pictures:
    """PNGs, each once."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._frames: list[int] = []
        self._size = 0, 0

    def add(self, picture: np.ndarray) -> None:
        self._size = picture.shape[1], picture.shape[0]
        self._frames.append(self._known.setdefault(png(picture), len(self._known)))

    @property
    def data(self) -> dict[str, Any]:
        pictures = [base64.b64encode(file).decode() for file in self._known]
        return {"kind": "pictures", "width": self._size[0], "height": self._size[1], "frames": self._frames,
                "pictures": pictures}  # fmt: skip


def _rounded(values: list[float]) -> list[float | None]:
    return [round(value, 4) if np.isfinite(value) else None for value in values]
