"""Work that is shared out to threads is done exactly once, under ThreadSanitizer too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.full
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["-O2", "-lgomp"], id="optimised"),
        pytest.param(["-O1", "-g", "-fsanitize=thread", "-DSTAND_IN"], id="thread-sanitizer", marks=pytest.mark.full),
        pytest.param(
            ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", "-lgomp"],
            id="sanitizers",
            marks=pytest.mark.full,
        ),
    ],
)
def test_every_piece_runs_once(flags: list[str], tmp_path: Path) -> None:
    program, source = tmp_path / "shared_work", ROOT / "tests/csrc/shared_work_program.cpp"
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-pthread", f"-I{ROOT / 'csrc'}", str(source), *flags, "-o"]
    subprocess.run([*command, str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0 and done.stdout == "sound\n", done.stdout + done.stderr
