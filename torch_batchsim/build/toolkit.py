"""The CUDA toolkit of an nvcc: the folder that torch's builder calls CUDA_HOME, and the runtime that it links."""

from __future__ import annotations

import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import torch

from ..errors import BuildError

_LINE = re.compile(r"^#\$ (TOP|LIBRARIES)=(.*)$", re.MULTILINE)
_MAPPED = re.compile(r"^\S+ \S+ 0+ \S+ \S+\s+(/.*/libcudart[^/]*\.so[.\d]*)$", re.MULTILINE)


@cache
def home(nvcc: str) -> Path:
    """The folder of the toolkit. torch takes what is above nvcc, which may be a script that calls another nvcc."""
    top = _said(nvcc).get("TOP")
    return Path(top).resolve() if top else Path(nvcc).resolve().parent.parent


def runtime(nvcc: str, cpp: str) -> Path:
    """The library to link as ``cudart``: the toolkit's, else the compiler's, else the one that torch has loaded.

    pip's packages of nvcc have no ``libcudart.so``, by which the linker looks for it.

    Raises:
        BuildError: there is none.
    """
    own = home(nvcc)
    named = [part[2:] for part in shlex.split(_said(nvcc).get("LIBRARIES", "")) if part.startswith("-L")]
    for folder in (*named, own / "lib64", own / "lib"):
        if (path := Path(folder) / "libcudart.so").is_file():
            return path
    listed = subprocess.run([cpp, "-print-file-name=libcudart.so"], capture_output=True, text=True, check=False)
    if (path := Path(listed.stdout.strip())).is_absolute() and path.is_file():
        return path
    if loaded := _loaded():
        return loaded
    package = f"cuda-cudart-dev-{(torch.version.cuda or '13.0').replace('.', '-')}"
    raise BuildError(
        f"no CUDA runtime to link: {own} of {nvcc} has no libcudart.so, and torch has loaded none; apt install "
        f"{package} from NVIDIA's repository brings it"
    )


def linker_flags(nvcc: str, cpp: str, folder: Path) -> list[str]:
    """Options by which the linker finds ``-lcudart`` in a folder that this makes in ``folder``.

    Raises:
        BuildError: there is none.
    """
    linked = folder / "linked"
    linked.mkdir()
    (linked / "libcudart.so").symlink_to(runtime(nvcc, cpp).resolve())
    return [f"-L{linked}"]


@cache
def _said(nvcc: str) -> dict[str, str]:
    """``TOP`` and ``LIBRARIES``, with which nvcc works; empty where it does not print them."""
    try:
        done = subprocess.run([nvcc, "--dryrun", "unit.cu"], capture_output=True, text=True, check=False)
    except OSError:  # not a program
        return {}
    return {name: value.strip() for name, value in _LINE.findall(done.stderr)}


def _loaded() -> Path | None:
    """The CUDA runtime of this process, which torch's builds with CUDA load."""
    try:
        mapped = Path("/proc/self/maps").read_text("utf-8", "replace")
    except OSError:
        return None
    return next((Path(path) for path in _MAPPED.findall(mapped)), None)
