"""Checkpoint files, from which a run continues or is evaluated.

Torch writes checksums and does not read them. So a checkpoint ends with its own: the CRC-32 of each block, and behind
them how many bytes they cover. Torch loads the file as any other, and does not look at what is behind its end.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import torch

import torch_batchsim
from torch_batchsim import CheckpointError

from ..algorithms import LEARNERS, names_of

NAME = "checkpoint.pt"
BEST = "best.pt"
"""The checkpoint with the best evaluation during the training."""
LATER = "later"
"""The folder in a run's with checkpoints of more steps than the one with which a command went on."""
FORMAT = 3
"""Raised whenever the contents of a checkpoint change their meaning."""
HELP_OF_ENV = "the environment that was trained in, if it is one of your own: module:my_project/Maze-v0 or file.py"
"""Of the option `--env` of commands that take checkpoints only."""


BLOCK = 1 << 16
"""Bytes with a checksum of their own, which says where a file is damaged."""
_SUMS, _END = struct.Struct("<I"), struct.Struct("<QI8s")
_MARK = b"tbs-sums"


class Damaged(CheckpointError):
    """A checkpoint whose bytes are not those that were written."""


class _Summed(io.RawIOBase):
    """Writes to a file and sums up its blocks."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.size, self.sums = file, 0, [0]

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        while left:
            part = left[: BLOCK - self.size % BLOCK]
            self.sums[-1] = zlib.crc32(part, self.sums[-1])
            self.size += len(part)
            if self.size % BLOCK == 0:
                self.sums.append(0)
            left = left[len(part) :]
        return self.file.write(data)

    def end(self) -> bytes:
        """What stands behind all that was written."""
        sums = b"".join(map(_SUMS.pack, self.sums))
        return sums + _END.pack(self.size, zlib.crc32(sums), _MARK)


def _require_whole(path: Path, data: bytes) -> None:
    """Raises Damaged where bytes have changed since they were written."""
    size, of_sums, _ = _END.unpack(data[-_END.size :])
    sums = data[size : -_END.size]
    if len(sums) != _SUMS.size * (size // BLOCK + 1) or zlib.crc32(sums) != of_sums:
        raise Damaged(f"checkpoint {path} is damaged in its checksums, the last of its {len(data):,} bytes")
    for block, (wanted,) in enumerate(_SUMS.iter_unpack(sums)):
        first, end = block * BLOCK, min((block + 1) * BLOCK, size)
        if zlib.crc32(memoryview(data)[first:end]) != wanted:
            raise Damaged(f"checkpoint {path} is damaged in bytes {first:,} to {end - 1:,} of {len(data):,}")


def save(path: Path, contents: dict[str, Any], before: Path | None = None) -> None:
    """Writes a checkpoint so that `path` always holds a whole one, the old or the new. Raises OSError.

    The old one stays as the file `before`, if that is given.
    """
    contents = {"format": FORMAT, "torch_batchsim": torch_batchsim.__version__, **contents}
    temporary = path.with_name(f"{path.name}.tmp")  # one name: what a killed process has left is written over
    try:
        with open(temporary, "wb") as file:
            summed = _Summed(file)
            torch.save(contents, summed)
            file.write(summed.end())
            file.flush()
            os.fsync(file.fileno())
        if before is not None and path.exists():
            _keep(path, before)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch puts its own before the system's
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _keep(path: Path, before: Path) -> None:
    """A second name for a file, which does not lose the first; a copy where the file system has one name for each."""
    before.unlink(missing_ok=True)
    try:
        os.link(path, before)
    except OSError:
        shutil.copyfile(path, before)


class Keeper:
    """Writes the checkpoints of a run into its folder: the newest, the ones before it, and the best.

    Those before are `checkpoint-000000012800.pt`, after so many steps.

    Args:
        keep: how many there are at most, the newest among them, without the best.
        steps: those of the newest, if it is there and whole: a damaged one is not worth keeping.
    """

    def __init__(self, folder: Path, keep: int, steps: int | None) -> None:
        self.folder, self.keep, self.steps = folder, keep, steps

    def save(self, contents: dict[str, Any]) -> None:
        steps = contents["steps"]
        known = self.keep > 1 and self.steps not in (None, steps)
        save(self.folder / NAME, contents, self.folder / f"checkpoint-{self.steps:012}.pt" if known else None)
        self.steps = steps
        earlier = [path for path in kept(self.folder) if path.stem.rpartition("-")[2] < f"{steps:012}"]
        for path in set(kept(self.folder)) - set(earlier[: self.keep - 1]):
            path.unlink(missing_ok=True)

    def save_best(self, contents: dict[str, Any]) -> None:
        save(self.folder / BEST, contents)


def kept(folder: Path) -> list[Path]:
    """The checkpoints before the newest, latest first."""
    return sorted(folder.glob("checkpoint-" + "[0-9]" * 12 + ".pt"), reverse=True)


def set_later_aside(folder: Path, steps: int) -> bool:
    """Moves whole checkpoints of more steps into the folder `later/`, where they stay; whether there were any."""
    later = {path: path.name for path in kept(folder) if path.stem.rpartition("-")[2] > f"{steps:012}"}
    try:
        newest = load(folder / NAME, None)["steps"]
    except CheckpointError:  # missing or damaged: it will be written over
        newest = 0
    if newest > steps:
        later[folder / NAME] = f"checkpoint-{newest:012}.pt"
    if later:
        (folder / LATER).mkdir(exist_ok=True)
    for path, name in later.items():
        os.replace(path, folder / LATER / name)
    return bool(later)


def last_good(folder: Path, env_id: str | None) -> tuple[Path, dict[str, Any]] | None:
    """The newest whole checkpoint of a run and its contents; None where there is none, not even a damaged one.

    Prints what is wrong with newer ones. Raises Damaged where all are damaged, and CheckpointError where one cannot be
    used for another reason.
    """
    damaged = None
    for path in filter(Path.exists, [folder / NAME, *kept(folder), folder / BEST]):
        try:
            return path, load(path, env_id)
        except Damaged as error:
            print(error)
            damaged = error
    if damaged is not None:
        raise Damaged(f"no checkpoint in {folder} is whole; {damaged}")
    return None


def find(path: Path | None, env_id: str | None) -> Path | None:
    """The file that is meant: of a folder its checkpoint, by the word `latest` the newest of this environment in runs/,
    or of any.

    Raises CheckpointError where it is missing.
    """
    if path is None or (path != Path("latest") and not path.is_dir()):
        return path
    if path.is_dir():
        if not (path / NAME).exists() and (inside := sorted(path.glob(f"*/{NAME}"))):
            runs = ", ".join(str(each.parent) for each in inside[:3]) + (", ..." if len(inside) > 3 else "")
            raise CheckpointError(f"{path} has no checkpoint of its own, but one in each of {runs}: name one of them")
        return path / NAME
    paths = [*Path("runs").glob(f"*/{NAME}"), *Path("runs").glob(f"*/seed*/{NAME}")]
    found = sorted(paths, key=lambda each: each.stat().st_mtime, reverse=True)
    for each in found:
        try:
            load(each, env_id)
        except CheckpointError:  # of another environment, or version
            continue
        return each
    raise CheckpointError(f"there is no checkpoint{f' of {env_id}' if env_id else ''} in {Path('runs').absolute()}")


def load(path: Path, env_id: str | None) -> dict[str, Any]:
    """Reads a checkpoint, to the CPU, and runs no code in it. Refuses another environment's than `env_id`, if given."""
    try:
        data = path.read_bytes()
    except OSError as error:
        kind = Damaged if error.errno == errno.EIO else CheckpointError  # of the disk
        raise kind(f"checkpoint {path} cannot be read: {error.strerror}") from error
    contents = _contents(path, data)
    if not isinstance(contents, dict) or "format" not in contents:
        raise CheckpointError(f"{path} is not a checkpoint of torch_batchsim.train")
    if contents["format"] != FORMAT:
        raise CheckpointError(
            f"checkpoint {path} has format {contents['format']}, but this version reads format {FORMAT}"
        )
    if not contents.keys() >= {"env", "env_options", "trainer"}:
        raise CheckpointError(f"{path} is not a checkpoint of torch_batchsim.train")
    config = contents["trainer"].get("config", {})
    algorithm = config.get("algorithm", "ppo")
    known = algorithm in LEARNERS
    if unknown := config.keys() - set(names_of(algorithm)) if known else {f"algorithm {algorithm}"}:
        raise CheckpointError(
            f"checkpoint {path} has settings that torch_batchsim {torch_batchsim.__version__} does not know: "
            f"{', '.join(sorted(unknown))}; torch_batchsim {contents['torch_batchsim']} wrote it"
        )
    if env_id is not None and contents["env"] != env_id:
        raise CheckpointError(f"checkpoint {path} is of {contents['env']}, not of {env_id}")
    return contents


def _contents(path: Path, data: bytes) -> Any:
    has_sums = data[-len(_MARK) :] == _MARK and len(data) >= _END.size
    if has_sums:
        _require_whole(path, data)
    try:
        contents = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever unpickling of a damaged or foreign file comes to
        raise Damaged(f"{path} is not a checkpoint of torch_batchsim.train, or is damaged") from error
    if not has_sums and isinstance(contents, dict) and contents.get("format") == FORMAT:
        raise Damaged(f"checkpoint {path} is damaged at its end: its checksums are missing")
    return contents


def require_same_version(path: Path, contents: dict[str, Any]) -> None:
    """Going on to the bit needs the simulator that wrote the state; evaluating the policy does not."""
    written, running = contents["torch_batchsim"], torch_batchsim.__version__
    if written != running:
        raise CheckpointError(
            f"checkpoint {path} was written by torch_batchsim {written} and only that version can go on with "
            f"it, not {running}; --eval takes it"
        )
