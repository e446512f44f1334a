"""Builds for gdb and perf: what they are, and the sessions of docs/debugging_tools.md where the tools are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target
from torch_batchsim.resolve.program import Program

DOCS = Path(__file__).resolve().parents[3] / "docs"


def blocks(page: str) -> dict[str, str]:
    return dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))


def test_an_unknown_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBS_DEBUG", "valgrind")
    with pytest.raises(ValueError, match="'gdb', 'perf' or 'quick', or unset, got 'valgrind'"):
        jit.load(Program(CartPole()), Target())


@pytest.mark.parametrize("tool", ["gdb", "perf"])
def test_debug_builds_are_libraries_of_their_own(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()

    def built(name: str, alias: str, source: str, flags: list[str], *rest: object) -> tuple[Path, float]:
        names.add(name)
        assert ("-g" in flags) == ("TBS_DEBUG" in os.environ)
        assert "-g" not in jit.compiler_flags("cpu")
        raise RuntimeError("not built here")

    monkeypatch.setattr(jit, "_built", built)
    for value in ("", tool):
        if value:
            monkeypatch.setenv("TBS_DEBUG", value)
        else:
            monkeypatch.delenv("TBS_DEBUG", raising=False)
        with pytest.raises(RuntimeError, match="not built here"):
            jit.load(Program(CartPole()), Target())
    assert len(names) == 2


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of both pages."""
    authoring, tools = blocks("authoring.md"), blocks("debugging_tools.md")
    for name, text in {"catch.py": authoring["catch.py"], **tools}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.full
@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_the_session_of_gdb(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBS_DEBUG", "gdb")
    subprocess.run([sys.executable, "one_step.py"], check=True)
    python = os.path.realpath(sys.executable) if sys.prefix == sys.base_prefix else sys.executable
    command = ["gdb", "--batch", "-x", "session.gdb", "--args", python, "one_step.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("processes may not be traced here")
    said = done.stdout
    line = (example / "catch.py").read_text().splitlines()[45]
    assert re.search(r"Breakpoint 1, tbs::\S*::fall \(world=.*, ball=.*\) at .*catch\.py:46", said), said + done.stderr
    assert f"46\t{line}" in said
    assert re.search(r"#0  .*fall .*catch\.py:46", said)
    assert re.search(r"\$1 = .*Ball.* \{column = \d, row = 0\}", said)
    assert "$2 = 3" in said
    assert "exited normally" in said


@pytest.mark.full
@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_the_session_of_perf(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBS_DEBUG", "perf")
    text = (example / "one_step.py").read_text().replace("8", "4096")
    (example / "many_steps.py").write_text(f"{text}for _ in range(20_000):\n    env.step(torch.ones(4096).long())\n")
    subprocess.run([sys.executable, "many_steps.py"], check=True)
    record = ["perf", "record", "-o", "perf.data", "-e", "cpu-clock", "-g", sys.executable, "many_steps.py"]
    recorded = subprocess.run(record, capture_output=True, text=True, check=False)
    if recorded.returncode:
        pytest.skip(f"perf may not record here: {recorded.stderr[-200:]}")
    report = ["perf", "report", "--no-children", "-g", "none", "--stdio", "-i", "perf.data"]
    said = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    assert re.search(r"run_range<tbs::Node\d_fall", said), said[:3000]
