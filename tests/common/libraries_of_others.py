"""For tests of adapters: those without their library are skipped loudly, or fail where it must be there."""

from __future__ import annotations

import importlib
import os
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SKIPPED = "adapter not tested"
NOT_BUILT = "site not built"
REQUIRED = os.environ.get("TORCH_BATCHSIM_ADAPTERS") == "required"  # no test may be skipped
PAGE = Path(__file__).parents[2] / "docs" / "use_with.md"


def library(test_file: str, *modules: str) -> tuple[ModuleType, ...]:
    """Import what a test file needs, given as ``__file__``; skip the file where it is not installed.

    Raises ModuleNotFoundError where ``TORCH_BATCHSIM_ADAPTERS`` is "required", as ``.ci/test_adapters`` sets it.
    """
    imported = []
    for module in modules:
        try:
            imported.append(importlib.import_module(module))
        except ModuleNotFoundError:
            if REQUIRED:
                raise
            name = Path(test_file).name
            pytest.skip(f"{SKIPPED}: {name} needs {module}; see .ci/test_adapters", allow_module_level=True)
    return tuple(imported)


def adapter(module: str, name: str) -> Any:
    """What makes an adapter; without its library the test is skipped, or fails where that must be there."""
    from torch_batchsim.errors import MissingExtra  # imported late: pytest's first process has no use for torch

    try:
        return getattr(importlib.import_module(f"torch_batchsim.adapters.{module}"), name)
    except MissingExtra as error:
        if REQUIRED:
            raise
        pytest.skip(f"{SKIPPED}: {error}")


def script_of(heading: str, number: int = 0) -> str:
    """A script of docs/use_with.md: Python block ``number`` under the heading ``## heading``."""
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert section, f"docs/use_with.md has no section {heading!r}"
    return re.findall(r"```python\n(.*?)```", section[1], re.DOTALL)[number]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Of torch's: a second one takes half as much again of a core for networks as small as these."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_example(name: str) -> dict[str, object]:
    """Run a script of examples/adapters/ with one thread, and return its names."""
    with _one_thread():
        return runpy.run_path(str(PAGE.parents[1] / "examples" / "adapters" / f"{name}.py"), run_name="__main__")


def run_script(heading: str, number: int = 0) -> dict[str, object]:
    """Run it with one thread, and return its names."""
    names: dict[str, object] = {"__name__": "__main__"}
    with _one_thread():
        exec(compile(script_of(heading, number), f"{PAGE} ({heading})", "exec"), names)
    return names
