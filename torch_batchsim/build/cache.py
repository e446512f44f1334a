"""The folder of compiled libraries: where it is, its locks, folders for builds, and what goes out of use."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..errors import BuildError

_KEEP_DAYS = 30
WARNINGS = ".warnings"  # the suffix of a library's file of compilers' warnings
_OWN_NAME = re.compile(
    r"\w+_(cpu|cuda)_[0-9a-f]{20}(\.s?o(\.part)?|\.lock|\.json|\.log|\.warnings(\.part)?|\.units|\.build\.\w+|\.h(\.gch|\.part)?)"
)
# Characters that ninja, make, the shell and every locale take as they are.
_PLAIN = re.compile(r"[\w./+@%,=-]+", re.ASCII)
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # some network file systems


def cache_directory() -> Path:
    """``$TORCH_BATCHSIM_CACHE``, else ``torch_batchsim`` in the user's cache directory; absolute.

    A relative path counts from the working directory of the first call. Raises BuildError where the user has no home.
    """
    given = os.environ.get("TORCH_BATCHSIM_CACHE")
    try:
        if given:
            return _absolute(given)
        return _absolute(os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")) / "torch_batchsim"
    except RuntimeError as error:
        raise BuildError(f"there is no place for a build cache: {error}; set TORCH_BATCHSIM_CACHE") from None


@cache
def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()


def is_kept(library: Path) -> bool:
    """Whether the cache has a library. Raises BuildError where one may not look, or the path is too long."""
    try:
        return library.is_file()
    except OSError as error:
        raise cannot_write(library.parent, error) from None


def cannot_write(directory: Path, error: OSError) -> BuildError:
    """The error for a cache that cannot be written."""
    return BuildError(
        f"cannot write to the build cache {directory}: {error.strerror}; "
        "make it writable or set TORCH_BATCHSIM_CACHE to a directory that is"
    )


def cannot_load(library: Path, error: OSError) -> BuildError:
    """The error for a library that the system does not load."""
    remedy = "delete it"
    if "failed to map segment" in str(error):
        remedy = "its file system may forbid to run code (noexec): set TORCH_BATCHSIM_CACHE to a directory of another"
    return BuildError(f"cannot load the cached library {library}: {error}; {remedy}")


@contextlib.contextmanager
def build_lock(directory: Path, name: str) -> Iterator[bool]:
    """One builder at a time for one library. The kernel drops the lock of a process that dies.

    Yields whether there is a lock: without one several may build, each in a folder of its own, and the last one stays.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = _lock_file(directory / f"{name}.lock")
    except OSError as error:
        raise cannot_write(directory, error) from None
    try:
        locked = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            locked = False
        try:
            yield locked
        finally:
            if locked:
                fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has the open file too
    finally:
        os.close(lock)


def _lock_file(path: Path) -> int:
    """An open file; of another user too, who shares the cache."""
    for flags in (os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            return os.open(path, flags)
    made = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(OSError):
        os.fchmod(made, 0o666)
    return made


@contextlib.contextmanager
def build_folder(directory: Path, name: str, locked: bool = True) -> Iterator[Path]:
    """A folder for one build, removed behind it: in the cache, or elsewhere where its path is not for build tools.

    ``locked``: the caller holds the lock of ``name``, so that folders of builders that were killed can go.
    """
    for left_over in directory.glob(f"{name}.build.*") if locked else ():
        shutil.rmtree(left_over, ignore_errors=True)
    plain = _PLAIN.fullmatch(str(directory)) is not None
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}.build.", dir=directory if plain else None))
    except OSError as error:
        raise cannot_write(directory, error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(made: Path, library: Path) -> None:
    """Move a library that was built into the cache, so that a half-written one is never seen."""
    part = library.with_name(f"{library.name}.part")
    try:
        if made.parent.parent == library.parent:
            os.replace(made, library)
        else:
            shutil.copyfile(made, part)
            part.chmod(0o755)
            os.replace(part, library)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise cannot_write(library.parent, error) from None


def note_use(library: Path) -> None:
    """Keep a file of the cache from being removed as unused."""
    with contextlib.suppress(OSError):  # a cache that is read-only is as good
        os.utime(library)
        if library.is_symlink():
            os.utime(library, follow_symlinks=False)


def link(alias: Path, library: Path) -> None:
    """Let ``alias`` be another name of a library of the same folder."""
    if alias == library:
        return
    with tempfile.TemporaryDirectory(prefix=f"{alias.stem}.build.", dir=alias.parent) as folder:
        made = Path(folder) / alias.name
        with contextlib.suppress(OSError):  # a file system without links: only machines with compilers find it
            made.symlink_to(library.name)
            os.replace(made, alias)


def remove_unused(directory: Path) -> None:
    """Remove unused old files: libraries and locks of edited systems, folders of killed builds.

    Only files with names of ours: the directory is the user's choice and may hold anything.
    """
    oldest = time.time() - _KEEP_DAYS * 86400
    for path in directory.iterdir():
        with contextlib.suppress(OSError):
            if _OWN_NAME.fullmatch(path.name) and path.lstat().st_mtime < oldest:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
