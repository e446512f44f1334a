"""Checkpoint files, from which a run continues or is evaluated."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import torch

import torch_batchsim
from torch_batchsim import CheckpointError

from ..algorithms import LEARNERS, names_of

NAME = "checkpoint.pt"
FORMAT = 2
"""Raised whenever the contents of a checkpoint change their meaning."""
HELP_OF_ENV = "the environment that was trained in, if it is one of your own: module:my_project/Maze-v0 or file.py"
"""Of the option `--env` of commands that take checkpoints only."""


def save(path: Path, contents: dict[str, Any]) -> None:
    """Writes a checkpoint so that `path` always holds a whole one, the old or the new. Raises OSError."""
    contents = {"format": FORMAT, "torch_batchsim": torch_batchsim.__version__, **contents}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            torch.save(contents, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch puts its own before the system's
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


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
        with open(path, "rb") as file:
            contents = torch.load(io.BytesIO(file.read()), map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error.strerror}") from error
    except Exception as error:  # whatever unpickling of a damaged or foreign file comes to
        raise CheckpointError(f"{path} is not a checkpoint of torch_batchsim.train, or is damaged") from error
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


def require_same_version(path: Path, contents: dict[str, Any]) -> None:
    """Going on to the bit needs the simulator that wrote the state; evaluating the policy does not."""
    written, running = contents["torch_batchsim"], torch_batchsim.__version__
    if written != running:
        raise CheckpointError(
            f"checkpoint {path} was written by torch_batchsim {written} and only that version can go on with "
            f"it, not {running}; --eval takes it"
        )
