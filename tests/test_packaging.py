"""What pip installs is whole: every Python module and every C++ file, and nothing at the top but torch_batchsim."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.full
def test_a_wheel_holds_everything_and_setuptools_does_not_warn(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="70")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-v",  # or pip hides what setuptools says
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        str(ROOT),
    ]
    said = subprocess.run(command, check=True, text=True, capture_output=True)
    told = (said.stdout + said.stderr).splitlines()
    of_setuptools = [line for line in told if not line.lstrip().startswith("WARNING: ")]  # that is how pip warns
    assert not [line for line in of_setuptools if re.search("warning|deprecat", line, re.IGNORECASE)]
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = set(wheel.namelist())
    expected = {"torch_batchsim/py.typed", "torch_batchsim/types.pyi", "torch_batchsim/field_names.pyi"}
    for folder, prefix in (("torch_batchsim", ""), ("envs", "envs/"), ("train", "train/"), ("csrc", "csrc/")):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".h", ".cuh", ".cpp", ".cu", ".layout") or path.name == "LICENSE":
                expected.add(f"torch_batchsim/{prefix}{path.relative_to(ROOT / folder)}")
    assert expected <= packed
    assert {name.split("/")[0].split("-")[0] for name in packed} == {"torch_batchsim"}


@pytest.mark.full
def test_the_oldest_python_has_whatever_is_imported_from_typing() -> None:
    assert 'requires-python = ">=3.10"' in (ROOT / "pyproject.toml").read_text()
    later = {"Self", "Never", "LiteralString", "Required", "NotRequired", "Unpack", "TypeVarTuple", "override"}
    later |= {"assert_never", "assert_type", "reveal_type", "dataclass_transform", "ReadOnly", "TypeIs"}
    for folder in ("torch_batchsim", "envs", "train", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module == "typing":
                    assert not later & {alias.name for alias in node.names}, path


def test_integrators_install_little() -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.match(r"[\w-]+", entry)[0] for entry in project["dependencies"]}
    assert names == {"torch", "numpy", "gymnasium", "ninja"}
    assert "torch_batchsim[train]" in project["optional-dependencies"]["test"]
    readme = (ROOT / "README.md").read_text()
    first = next(line for line in readme.splitlines() if "pip install" in line)
    assert "-e '.[train]'" in first and "torch_batchsim.train" in first
