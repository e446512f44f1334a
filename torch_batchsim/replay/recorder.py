"""The wrapper that writes a recording while an environment runs."""

from __future__ import annotations

import json
import os
import platform
import sys
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from .._version import __version__
from ..base.modes import in_plain_torch, not_compiled
from ..declare.environment import Environment
from ..errors import WorldFault
from ..vector.grouped_env import GroupedEnv
from ..vector.vector_env import TorchVectorEnv
from ..vector.wrappers import TorchVectorWrapper
from .file import FORMAT, MAGIC, RecordingError, packed, write_block
from .outputs import STATE, checksums, state_checksum

_MOST_MOMENTS, _MOST_BYTES = 1024, 1 << 22  # in a block


@not_compiled
class Recorder(TorchVectorWrapper):
    """Writes all that a run takes from outside to a file, from which ``Recording`` computes it again::

        with Recorder(gymnasium.make_vec("torch_batchsim/HideSeek-v0", num_worlds=4), "hunt.tbs") as env:
            env.reset(seed=0)
            for _ in range(240):
                env.step(env.sample_actions())

    The file has the environment's class and options, versions, seeds, masks and options of resets, and actions; what
    has been written into the state between steps (``sim.tensor``, ``hold``, ``load_state_dict`` and so on) as a whole
    state; and checksums of all outputs and of the state after each step, 4 bytes each. Each step
    copies the state twice to find what was written. ``close`` or the end of a with-block ends the file.

    Args:
        env: a ``TorchVectorEnv`` without wrappers; wrappers go around the recorder. It may have begun.
        path: of the file, which is replaced.

    Of a ``GroupedEnv`` one group is recorded: see ``of_group``.

    Raises TypeError for other environments, RecordingError for options that JSON does not express, OSError.
    """

    def __init__(self, env: VectorEnv, path: str | os.PathLike[str]) -> None:
        if isinstance(env, GroupedEnv):
            raise TypeError("groups of a GroupedEnv step at times of their own: record one by Recorder.of_group(env, "
                            "group, path)")  # fmt: skip
        if not isinstance(env, TorchVectorEnv):
            raise TypeError(f"Recorder needs a TorchVectorEnv without wrappers, got {env!r}; put wrappers around it")
        super().__init__(env)
        self._own, self._autoreset = env, int(env.sim.memory.context.autoreset)
        self.path, self.moments = Path(path), 0
        head = {
            **source_of(env.environment), "num_worlds": env.num_worlds, "first_world": env.sim.first_world,
            "autoreset_mode": env.autoreset_mode.value, "versions": versions(),
        }  # fmt: skip
        self._file = self.path.open("wb")
        self._file.write(MAGIC + str(FORMAT).encode() + b"\n")
        write_block(self._file, b"HEAD", head)
        self._events: list[dict[str, Any]] = []
        self._data: list[bytes] = []
        self._names: list[str] = []
        self._sums: list[list[int]] = []
        self._state = -1  # the checksum after the last moment
        self._group: Any = None  # the GroupedEnv that has the environment as a group, and that group's number
        if env.has_begun:
            self._note_state(env.state_dict())

    @classmethod
    def of_group(cls, env: GroupedEnv, group: int, path: str | os.PathLike[str]) -> Recorder:
        """Record one group of a ``GroupedEnv`` from here on, while it does not step; ``end`` ends the file.

        The recording is of a ``TorchVectorEnv`` with the group's worlds and their numbers. A step of some of its worlds
        is recorded with the whole state before and after it, and worlds that begin an episode in it by a reset. Raises
        as ``Recorder``, and ValueError for another group.
        """
        if not isinstance(env, GroupedEnv):
            raise TypeError(f"of_group needs a GroupedEnv, got {env!r}")
        env._check_usable()
        env._check_idle(group)
        recorder = cls(env.environments[group], path)
        recorder._group = env, group
        recorder._take_place(recorder)
        return recorder

    def _take_place(self, environment: VectorEnv) -> None:
        """Let an environment be the recorded group of its ``GroupedEnv``."""
        grouped, group = self._group
        grouped.environments = (*grouped.environments[:group], environment, *grouped.environments[group + 1 :])

    @in_plain_torch
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; the first one without a seed takes one from the system here."""
        if not self._own.has_begun and seed is None:
            seed = int.from_bytes(os.urandom(4), "little")
        self._find_writing()
        event: dict[str, Any] = {"kind": "reset", "seed": None if seed is None else int(seed)}
        given = packed(_plain(options)) if options else b""
        try:
            results = self._own.reset(seed=seed, options=options)
        except WorldFault:
            event["fault"] = True
            self._note(event, given, (self._own.observations, self._own.infos))
            raise
        self._note(event, given, results)
        return results

    @in_plain_torch
    def step(self, actions: Any) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step the environment."""
        if self._file.closed:
            return self._own.step(actions)
        self._find_writing()
        taken = np.empty(0)
        if self._own.has_begun:  # else step raises
            taken = self._own.checked_actions(actions).detach().cpu().numpy().copy()
        event: dict[str, Any] = {"kind": "step"}
        if (present := int(self._own.sim.memory.context.autoreset)) != self._autoreset:  # some worlds stand still
            event["autoreset"] = present
        try:
            results = self._own.step(actions)
        except WorldFault as fault:
            if fault.outputs is not None:
                event["fault"] = True
                self._note(event, taken, fault.outputs)
            raise
        self._note(event, taken, results)
        return results

    def close(self, **kwargs: Any) -> None:
        """End the file and close the environment."""
        self.end()
        super().close(**kwargs)

    def end(self) -> None:
        """End the file; the environment goes on, unrecorded."""
        if self._file.closed:
            return
        self._flush()
        write_block(self._file, b"ENDS", {"moments": self.moments})
        self._file.close()
        if self._group is not None:
            self._take_place(self._own)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _find_writing(self) -> None:
        """Note the state if it is not as the last moment left it."""
        if self._file.closed or not self._own.has_begun:
            return
        state = self._own.state_dict()
        if state_checksum(state) != self._state:
            self._note_state(state)

    def _note_state(self, state: dict[str, Any]) -> None:
        kept = packed({name: part for name, part in state.items() if name != "signature"})
        self._add({"kind": "state", "bytes": len(kept)}, kept)
        self._state = state_checksum(state)

    def _note(self, event: dict[str, Any], given: bytes | np.ndarray, results: tuple[Any, ...]) -> None:
        if self._file.closed:
            return
        self._state = state_checksum(self._own.state_dict())
        sums = {**checksums(results), STATE: self._state}
        self._names += [name for name in sums if name not in self._names]
        self._sums.append([sums.get(name, 0) for name in self._names])
        if isinstance(given, bytes):
            event["bytes"] = len(given)
        else:
            narrow = _narrow(given)
            event |= {"dtype": str(given.dtype), "stored": str(narrow.dtype), "shape": list(given.shape)}
            given = narrow.tobytes()
        self.moments += 1
        self._add(event, given)

    def _add(self, event: dict[str, Any], data: bytes) -> None:
        last = self._events[-1] if self._events else {}
        if event == {key: value for key, value in last.items() if key != "times"} and event["kind"] == "step":
            last["times"] += 1
        else:
            self._events.append({**event, "times": 1})
        self._data.append(data)
        if len(self._sums) >= _MOST_MOMENTS or sum(map(len, self._data)) >= _MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        sums = np.zeros((len(self._names), len(self._sums)), "<u4")
        for i, row in enumerate(self._sums):
            sums[: len(row), i] = row
        contents = {"events": self._events, "names": self._names, "moments": len(self._sums)}
        write_block(self._file, b"PART", contents, sums.tobytes() + b"".join(self._data))
        self._events, self._data, self._sums = [], [], []


def versions() -> dict[str, str]:
    """Of what computes."""
    return {"torch_batchsim": __version__, "torch": torch.__version__, "python": platform.python_version()}


def source_of(environment: Environment) -> dict[str, Any]:
    """Class, options and a checksum of the environment's own files. Raises RecordingError."""
    cls = type(environment)
    arguments, options = environment._arguments  # type: ignore[attr-defined]  # set by __new__
    if arguments:
        raise RecordingError(f"a recording needs options by name: make {cls.__name__} without positional arguments")
    for name, value in options.items():
        if _of_json(value) is None and value is not None:
            raise RecordingError(
                f"a recording cannot hold the option {name} of {cls.__name__}, of type {type(value).__name__}: give "
                "numbers, texts, lists or dicts"
            )
    name = f"{cls.__module__}:{cls.__qualname__}"
    return {"environment": name, "options": _of_json(options), "sources": sources(cls)}


def sources(cls: type[Environment]) -> int:
    """A checksum of the files of the environment's package, or of its module and header."""
    total = 0
    for path in sorted(_files(cls)):
        total = zlib.crc32(path.name.encode() + path.read_bytes(), total)
    return total


def _files(cls: type[Environment]) -> set[Path]:
    module = Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")
    if not module.is_file():
        return set()
    folder = module.parent
    if not (folder / "__init__.py").is_file():
        return {module, *(path for path in [folder / str(cls.systems)] if path.is_file())}
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix in (".py", ".h", ".layout", ".txt")}


def _of_json(value: Any) -> Any:
    """A value as JSON gives it back; None where it does not."""
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        value = value.tolist()
    try:
        return json.loads(json.dumps(value, default=lambda part: part.tolist()))
    except (TypeError, ValueError, AttributeError):
        return None


def _plain(value: Any) -> Any:
    """Options of a reset, with tensors in place of arrays."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    return value.item() if isinstance(value, np.generic) else value


def _narrow(actions: np.ndarray) -> np.ndarray:
    """Integers in as few bytes as hold them."""
    if actions.dtype.kind not in "iu" or actions.size == 0:
        return actions
    low, high = int(actions.min()), int(actions.max())
    fits = (kind for kind in (np.uint8, np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low
            and high <= np.iinfo(kind).max)  # fmt: skip
    return actions.astype(next(fits, actions.dtype))
