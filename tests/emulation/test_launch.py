"""What csrc/tbs/launch.cuh asks of the CUDA runtime, which tests/emulation/runtime stands in for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CSRC = HERE.parent.parent / "csrc"


def built(folder: Path, header: str = "") -> Path:
    """The program; with ``header`` in place of launch.cuh."""
    if header:
        (folder / "tbs").mkdir()
        (folder / "tbs" / "launch.cuh").write_text(header)
        (folder / "tbs" / "platform.h").write_text((CSRC / "tbs" / "platform.h").read_text())
    command = ["g++", "-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    command += [f"-I{folder}", f"-I{CSRC}", f"-I{HERE / 'runtime'}", str(HERE / "launch_program.cpp")]
    subprocess.run([*command, "-o", str(folder / "program")], check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("launch"))


SCENARIOS = ("replays", "others_errors", "own_errors", "lifetimes", "without_graphs", "memory_on_chip")


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_launches(program: Path, scenario: str) -> None:
    done = subprocess.run([program, scenario], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.full
def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    """Without a relaxed mode, a user's capture would end where a simulator goes away."""
    text = (CSRC / "tbs" / "launch.cuh").read_text()
    relaxed = "cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;"
    assert text.count(relaxed) == 1
    program = built(tmp_path, text.replace(relaxed, relaxed.replace("Relaxed;", "Global;")))
    done = subprocess.run([program, "lifetimes"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "alive.empty()" in done.stdout
