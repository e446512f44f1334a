"""Where ROMs are found: in the user's ale-py, or at a path. None comes with torch_batchsim."""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path

from .games import GAMES, Facts, game

_NAMES = {each.md5: each.name for each in GAMES.values()}
_SUFFIXES = (".bin", ".a26", ".rom")


def read_rom(name: str, path: str | PathLike[str] | None = None) -> bytes:
    """The ROM of a game.

    Args:
        name: of the game, as in ``GAMES``.
        path: the ROM's file, or a folder that has it under any name; by default the installed ale-py's.

    Raises ``ValueError`` where there is no such game, or the file is damaged or another game's; ``FileNotFoundError``
    where there is no file; ``ImportError`` without ale-py.
    """
    wanted = game(name)
    found = _of_ale_py(wanted) if path is None else Path(path)
    if found.is_dir():
        found = _in_folder(wanted, found)
    if not found.is_file():
        raise FileNotFoundError(f"{found} does not exist, where the ROM of {name} was to be")
    return _checked(wanted, found)


def _of_ale_py(wanted: Facts) -> Path:
    try:
        from ale_py import roms
    except ImportError as error:
        raise ImportError(
            f"the ROM of {wanted.name} is read from ale-py, which is not installed: pip install ale-py, or give rom=, "
            "the path of the ROM or of a folder of ROMs"
        ) from error
    return Path(roms.__file__).parent / f"{wanted.name}.bin"


def _in_folder(wanted: Facts, folder: Path) -> Path:
    for suffix in _SUFFIXES:
        named = folder / f"{wanted.name}{suffix}"
        if named.is_file():
            return named
    for other in sorted(folder.iterdir()):
        if other.is_file() and other.stat().st_size == wanted.size and _md5(other.read_bytes()) == wanted.md5:
            return other
    raise FileNotFoundError(f"{folder} has no {wanted.name}.bin, and no other file with the MD5 {wanted.md5}")


def _checked(wanted: Facts, path: Path) -> bytes:
    data = path.read_bytes()
    md5 = _md5(data)
    if md5 == wanted.md5:
        return data
    if md5 in _NAMES:
        raise ValueError(f"{path} is the ROM of {_NAMES[md5]}, not of {wanted.name}")
    raise ValueError(
        f"{path} is not the ROM of {wanted.name}, or damaged: it has {len(data)} bytes and the MD5 {md5}, "
        f"not {wanted.size} and {wanted.md5}"
    )


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
