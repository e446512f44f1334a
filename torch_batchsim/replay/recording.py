"""Recordings: read, checked, and computed again."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from ..declare.environment import Environment
from ..errors import BuildWarning, CheckpointError, WorldFault
from ..vector.registration import find_id, make_vec
from ..vector.vector_env import TorchVectorEnv
from .file import RecordingError, read_blocks, unpacked
from .outputs import STATE, checksums, state_checksum
from .recorder import sources, versions

_MOST_KEYFRAMES = 64


class Moment(NamedTuple):
    """A reset or a step."""

    kind: str
    states: tuple[bytes, ...]  # written before it
    event: dict[str, Any]
    data: bytes  # actions, or the options of a reset
    checksums: dict[str, int]

    @property
    def taken(self) -> Any:
        """The actions of a step, and options of a reset, as they can be compared."""
        event = self.event
        if self.kind == "reset":
            return self.kind, self.data
        numbers = np.frombuffer(self.data, event["stored"]).astype(event["dtype"])
        return self.kind, event["shape"], numbers.tobytes()


class Recording:
    """A run that a ``Recorder`` has written: everything is computed again, and compared with what was recorded.

    A moment is a call of ``reset`` or ``step``. The first reset is moment 0, so that with one reset moment ``n`` is
    after step ``n``::

        recording = Recording("hunt.tbs")
        env = recording.seek(100)      # a TorchVectorEnv as it was then
        env.sim.tensor("Agent.physics.Pose.position")
        for moment in recording.play(100):
            observations, rewards, *_ = env.step_results()

    Args:
        path: of the file.
        environment: what ``make_vec`` takes, in place of the recorded class: ``"file.py"``, say.
        device, run: of the environment, as of ``TorchVectorEnv``; they change no result.

    Attributes: ``metadata`` (class, options, versions, worlds), ``moments`` (their number), ``moment`` (the present
    one; -1 before the first).

    Raises RecordingError: of a file that is no recording, damaged, truncated or of another format; and, when it is
    played, of a class that is not found, and of any output that differs, with its name and moment.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        environment: str | type[Environment] | None = None,
        device: str | torch.device = "cpu",
        **run: Any,
    ) -> None:
        self.path = Path(path)
        self._given, self._run = environment, {"device": device, **run}
        self.metadata: dict[str, Any] = {}
        self._moments: list[Moment] = []
        for kind, contents, data in read_blocks(self.path):
            if kind == b"HEAD":
                self.metadata = contents
            elif kind == b"PART":
                self._moments += _moments(contents, data)
        self.moments, self.moment = len(self._moments), -1
        if not self.moments:
            raise RecordingError(f"{self.path} holds no reset")
        self._env: TorchVectorEnv | None = None
        self._keyframes: dict[int, dict[str, Any]] = {}
        self._every = 25

    def env(self) -> TorchVectorEnv:
        """The environment of this recording; always the same one. ``seek`` and ``play`` move it.

        Warns where versions or the environment's files are not those of the recording. Raises RecordingError where the
        class or its options are unknown.
        """
        if self._env is None:
            self._env = self._made()
        return self._env

    def seek(self, moment: int) -> TorchVectorEnv:
        """The environment as it was after a moment: from the nearest state kept, or the start. Negative: from the end.

        Its last results are ``env.step_results()``. The first pass keeps states in memory, 64 at most. Raises
        IndexError, RecordingError.
        """
        if not -self.moments <= moment < self.moments:
            raise IndexError(f"moment must be from 0 to {self.moments - 1}, got {moment}")
        moment %= self.moments
        env = self.env()
        kept = max((at for at in self._keyframes if at <= moment), default=-1)
        if moment < self.moment or self.moment < kept:
            self.moment = kept
            if kept >= 0:
                env.load_state_dict(self._keyframes[kept])
        while self.moment < moment:
            self._advance()
        return env

    def play(self, start: int = 0) -> Iterator[int]:
        """Seek the moments from ``start`` to the last, one after the other; yields their numbers."""
        for moment in range(start, self.moments):
            self.seek(moment)
            yield moment

    def actions(self, moment: int) -> torch.Tensor | None:
        """The actions of a step; None for a reset."""
        kind, _, event, data, _ = self._moments[moment]
        if kind == "reset":
            return None
        array = np.frombuffer(data, event["stored"]).astype(event["dtype"]).reshape(event["shape"])
        return torch.from_numpy(array)

    def seed(self, moment: int) -> int | None:
        """The seed of a reset, None for one that goes on, and for a step."""
        return self._moments[moment].event.get("seed")

    def first_differences(self, other: Recording) -> dict[str, int]:
        """The first moment at which this recording and another one differ in their actions, state, observations and so
        on, by name, as their checksums say; names that never differ are left out. Nothing is computed again.

        The checksums are of all worlds together. Where one recording ends sooner, ``"end"`` is its first moment that is
        missing. Seeds of resets are under ``"seed"``.
        """
        found: dict[str, int] = {}
        for moment, (one, two) in enumerate(zip(self._moments, other._moments, strict=False)):
            pairs = {"actions": (one.taken, two.taken), "seed": (one.event.get("seed"), two.event.get("seed"))}
            names = dict.fromkeys((*one.checksums, *two.checksums))
            pairs |= {name: (one.checksums.get(name, 0), two.checksums.get(name, 0)) for name in names}
            for name, (first, second) in pairs.items():
                if first != second:
                    found.setdefault(name.partition(".")[0], moment)
        if self.moments != other.moments:
            found["end"] = min(self.moments, other.moments)
        return found

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _made(self) -> TorchVectorEnv:
        head, given = self.metadata, self._given
        name = head["environment"]
        try:
            if isinstance(given, str):
                find_id(given)  # which runs a file
            kept = {"autoreset_mode": AutoresetMode(head["autoreset_mode"]), "first_world": head["first_world"]}
            made = make_vec(
                name if given is None else given, num_worlds=head["num_worlds"], **kept, **self._run, **head["options"]
            )
        except (ImportError, ValueError, TypeError, LookupError) as error:
            raise RecordingError(f"{self.path} is of {name}, which cannot be made here: {error}") from error
        for difference in self._differences(made):
            warnings.warn(f"{self.path} {difference}; a difference in outputs will be an error", BuildWarning, 3)
        return made

    def _differences(self, env: TorchVectorEnv) -> list[str]:
        theirs, ours = self.metadata["versions"], versions()
        others = [f"{name} {theirs[name]}, here {ours[name]}" for name in ours if theirs[name] != ours[name]]
        found = [f"was recorded with {', '.join(others)}"] if others else []
        if sources(type(env.environment)) != self.metadata["sources"]:
            found.append(f"was recorded with other files of {type(env.environment).__name__}")
        return found

    def _advance(self) -> None:
        env, number = self.env(), self.moment + 1
        kind, states, event, data, recorded = self._moments[number]
        for written in states:
            present = unpacked(written)
            try:
                env.load_state_dict({**present, "signature": env.state_dict()["signature"]})
            except CheckpointError as error:
                raise RecordingError(f"{self.path}, before moment {number}: {error}") from error
        try:
            if kind == "reset":
                results: tuple[Any, ...] = env.reset(seed=event["seed"], options=unpacked(data) if data else None)
            else:
                actions = self.actions(number)
                assert actions is not None
                context = env.sim.memory.context
                usual, context.autoreset = context.autoreset, event.get("autoreset", context.autoreset)
                try:
                    results = env.step(actions.to(env.device))
                finally:
                    context.autoreset = usual
        except WorldFault as fault:
            if not event.get("fault"):
                raise RecordingError(f"{self.path}, moment {number}: this run has a fault: {fault}") from fault
            results = fault.outputs or (env.observations, env.infos)
        self.moment = number
        state = env.state_dict()
        found = {**checksums(results), STATE: state_checksum(state)}
        wrong = [name for name in recorded if recorded[name] and found.get(name, 0) != recorded[name]]
        wrong.sort(key=lambda name: name == STATE)  # last
        if wrong:
            self.moment = -1  # nothing here is as it was
            self._keyframes.clear()
            reasons = self._differences(env)
            because = f"; it {' and '.join(reasons)}" if reasons else ""
            raise RecordingError(
                f"{self.path}, {kind} at moment {number}: {', '.join(wrong)} differ from what was recorded{because}"
            )
        if number % self._every == 0:
            self._keyframes[number] = state
            if len(self._keyframes) > _MOST_KEYFRAMES:
                self._every *= 2
                self._keyframes = {at: kept for at, kept in self._keyframes.items() if at % self._every == 0}


def _moments(contents: dict[str, Any], data: bytes) -> list[Moment]:
    """Those of a block."""
    names, count = contents["names"], contents["moments"]
    sums = np.frombuffer(data, "<u4", len(names) * count).reshape(len(names), count)
    at = sums.nbytes
    found: list[Moment] = []
    states: list[bytes] = []
    for event in contents["events"]:
        for _ in range(event["times"]):
            size = event.get("bytes", -1)
            if size < 0:
                size = int(np.prod(event["shape"])) * np.dtype(event["stored"]).itemsize
            part = data[at : at + size]
            at += size
            if event["kind"] == "state":
                states.append(part)
                continue
            of_moment = dict(zip(names, sums[:, len(found)].tolist(), strict=True))
            found.append(Moment(event["kind"], tuple(states), event, part, of_moment))
            states = []
    return found
