"""The thread pool runs every tile exactly once, under ThreadSanitizer too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["-O2"], id="optimised"),
        # Its runtime cannot follow threads into a forked child.
        pytest.param(["-O1", "-g", "-fsanitize=thread", "-DWITHOUT_FORK"], id="thread-sanitizer"),
        pytest.param(["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"], id="address-sanitizer"),
    ],
)
def test_every_tile_runs_once(flags: list[str], tmp_path: Path) -> None:
    program = tmp_path / "pool"
    sources = [str(ROOT / "tests/csrc/pool_program.cpp"), str(ROOT / "csrc/runtime/pool.cpp")]
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-pthread", f"-I{ROOT / 'csrc'}", *flags, *sources, "-o"]
    subprocess.run([*command, str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and done.stdout == "sound\n", done.stdout + done.stderr
