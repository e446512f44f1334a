"""Builds go to a cache of the test run's own, so that every run compiles what it tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "common"))  # for `support` and `environments`
pytest.register_assert_rewrite("pretended_gpu")  # a plugin, which is imported before it is one


@pytest.fixture(scope="session", autouse=True)
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("TORCH_BATCHSIM_TEST_CACHE")  # to keep builds while working on tests
    directory = Path(given) if given else tmp_path_factory.mktemp("build_cache")
    os.environ["TORCH_BATCHSIM_CACHE"] = str(directory)
    units = directory / "units"  # what tests compile by themselves: emulated devices, sanitized units, other programs
    units.mkdir(parents=True, exist_ok=True)
    os.environ["TORCH_BATCHSIM_TEST_UNITS"] = str(units)
    return directory
