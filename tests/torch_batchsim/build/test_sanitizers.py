"""The generated CPU units under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ENVIRONMENTS, of_today

pytestmark = pytest.mark.full


def _runtime(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def _run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{_runtime('libasan.so')} {_runtime('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    }
    script = Path(__file__).with_name("sanitized_run.py")
    command = [sys.executable, str(script), name, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("name", of_today([*ENVIRONMENTS, "shelf", "stool"], 4))
def test_no_bad_access_and_no_undefined_behaviour(name: str, tmp_path: Path) -> None:
    done = _run(name, tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("sound\n"), done.stderr[-3000:]


def test_a_bad_access_is_seen(tmp_path: Path) -> None:
    done = _run("control", tmp_path)
    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr and "control.h" in done.stderr, done.stderr[-3000:]
