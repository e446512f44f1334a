"""What all tests share: a cache of builds of the run's own, two worker processes or more, and what is left to the full run."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "common"))  # for `support` and `environments`

_MOST_WORKERS = 8  # each takes half a gigabyte, and there are not many more files that take long
_own_cache = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A run of all tests takes a worker for each core; one of single files or tests is a process, unless ``-n`` is given."""
    if hasattr(config, "workerinput") or "PYTEST_XDIST_WORKER" in os.environ:
        return  # a worker takes none of its own
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and config.getoption("numprocesses", None) is None and not config.option.collectonly:
        config.option.numprocesses = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
        config.option.dist = "loadfile"  # files share fixtures


def pytest_configure(config: pytest.Config) -> None:
    """Builds go to ``TORCH_BATCHSIM_CACHE`` or, so that every run compiles what it tests, to a folder that goes with the run.

    Worker processes inherit the variable, and so have one cache.
    """
    config.addinivalue_line("markers", "full: left to the full run, for it takes long: what pytest -m full runs")
    if "TORCH_BATCHSIM_CACHE" not in os.environ:
        config.stash[_own_cache] = os.environ["TORCH_BATCHSIM_CACHE"] = tempfile.mkdtemp(prefix="torch_batchsim_tests_")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _own_cache in config.stash:
        shutil.rmtree(config.stash[_own_cache], ignore_errors=True)
        del os.environ["TORCH_BATCHSIM_CACHE"]


@pytest.fixture(scope="session", autouse=True)
def build_cache() -> Path:
    directory = Path(os.environ["TORCH_BATCHSIM_CACHE"])
    units = directory / "units"  # what tests compile by themselves: emulated devices, sanitized units, other programs
    units.mkdir(parents=True, exist_ok=True)
    os.environ["TORCH_BATCHSIM_TEST_UNITS"] = str(units)
    return directory
