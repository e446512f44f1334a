"""Python and C++ have one list of what they share, and a difference does not compile."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from environments.zoo import Zoo

from torch_batchsim.base import shared
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program


def compiled(tmp_path: Path) -> str:
    """The messages of g++ about a unit."""
    unit = tmp_path / "unit.cpp"
    unit.write_text(generate(Program(Zoo()), Target()))
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{jit.CSRC}", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.full
def test_a_record_that_differs_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Swapped(ctypes.Structure):
        _fields_ = [("limit", ctypes.c_int32), ("slots", ctypes.c_int32), *shared.DynamicTable._fields_[2:]]

    monkeypatch.setitem(shared._RECORDS, "DynamicTable", Swapped)
    errors = [line for line in compiled(tmp_path).splitlines() if "error:" in line]
    assert len(errors) == 2 and all("static assertion failed" in line for line in errors)


def test_fault_words_are_taken_apart() -> None:
    assert shared.fault_parts(3 << 54 | 5 << 40 | 2 << 32 | 7) == (3, 5, 2, 7)
    assert shared.fault_parts(-1) == (1023, 16383, 255, 2**32 - 1)
