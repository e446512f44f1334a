"""The GPU check in the time of a lent machine: .ci/gpu_slot, with a stand-in for Python, and in a bare tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest
import torch

import torch_batchsim
from torch_batchsim.build import jit
from torch_batchsim.gpu_check import stages

ROOT = Path(__file__).resolve().parents[3]
COMMON = ROOT / "tests" / "common"
PARTS = ("csrc", "envs", "torch_batchsim", "train")
STAGES = {stage.name: stage for stage in stages.STAGES}

# Says what it is called with; the GPU check writes a report, and takes a minute if FOREVER is set.
PYTHON = """#!/bin/bash
echo "python $*" >> "$CALLS"
case "$*" in
*"time.sleep(600)"*) exec sleep 600.125;;
*"pip download"*) touch runs/gpu_slot/wheels/some.whl;;
*torch_batchsim.gpu_check*)
    echo "$TORCH_BATCHSIM_COMMIT $HOME $PYTHONPATH" >> "$CALLS"
    [[ "$*" =~ --output\\ ([^ ]+) ]] && folder=${BASH_REMATCH[1]}
    printf '"commit": "%s",\\n' "$TORCH_BATCHSIM_COMMIT" >> "$folder/report.json"
    echo 'Goal: all of it' > "$folder/report.md"
    [ -z "$FOREVER" ] || sleep 60.125
    exit ${STATUS:-0};;
esac
"""


class Slot:
    """A small tree with the script, and what it is called with."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.calls, self.out, self.kept = (folder / name for name in ("tree", "calls", "out", "kept"))
        for part in PARTS:
            (self.tree / part).mkdir(parents=True)
            (self.tree / part / "file.h").write_text(part)
        shutil.copytree(ROOT / ".ci", self.tree / ".ci")
        tools = folder / "bin"
        tools.mkdir()
        for name, text in (("python3", PYTHON), ("git", "#!/bin/sh\necho 0123456789ab\n")):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.environment = {
            "PATH": f"{tools}:/usr/bin:/bin", "CALLS": str(self.calls), "OUT": str(self.out), "PYTHONPATH": "/mine",
            "TORCH_BATCHSIM_SLOT": str(self.kept),
        }  # fmt: skip

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", str(self.tree / ".ci" / "gpu_slot"), *arguments]
        self.calls.write_text("")
        environment = self.environment | variables
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)

    def checked(self) -> tuple[list[str], str, float, list[str]]:
        """Of the last call of the GPU check: its stages, the commit, the budget, and all other arguments."""
        lines = self.calls.read_text().splitlines()
        number = next(i for i, line in enumerate(lines) if "gpu_check" in line)
        arguments = lines[number].split()
        names = arguments.pop(arguments.index("--stages") + 1).split(",")
        budget = float(arguments.pop(arguments.index("--budget") + 1))
        # The process that holds the device is called at the same time.
        said = next(line for line in lines[number + 1 :] if not line.startswith("python "))
        return names, said.split()[0], budget, arguments


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def test_both_calls_keep_to_their_time(slot: Slot) -> None:
    """And name stages that there are; the first begins with whether it works at all."""
    done = slot.run("prepare")
    assert done.returncode == 0 and "some.whl" in done.stdout, done.stderr
    (slot.tree / "runs" / "gpu_slot" / "wheels" / "some.whl").unlink()  # which is none
    wanted: set[str] = set()
    for word, most in (("first", 440), ("second", 230)):
        done = slot.run(word)
        assert done.returncode == 0, done.stdout + done.stderr
        names, commit, budget, arguments = slot.checked()
        assert most - 20 < budget < most and "--continue" in arguments and commit == "0123456789ab"
        assert {name.partition(":")[0] for name in names} <= set(STAGES)
        wanted |= {name.partition(":")[0] for name in names}
        assert f"--cache {slot.kept}/builds" in slot.calls.read_text()
        assert f"{slot.kept} {slot.tree}:{slot.kept}/site:/mine" in slot.calls.read_text()  # HOME, PYTHONPATH
        assert (slot.out / "report.md").read_text() == "Goal: all of it\n"
        assert "Goal: all of it" in done.stdout and "Goal: all of it" in (slot.out / "run.log").read_text()
        if word == "first":
            assert names[0] == "smoke" and STAGES["smoke"].gate
            assert set(names) >= {"hideseek", "bits", "bodies", "games"}
    assert wanted >= {"cartpole", "overcooked", "hanabi", "streams", "learn", "profile", "capture", "lifetimes"}
    assert {name.partition(":")[0] for name in wanted} >= {"atari", "kernels", "faults", "sanitizers"}
    assert not any(b"600.125" in path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))


def test_a_report_of_other_sources_is_left_behind(slot: Slot) -> None:
    slot.run("prepare")
    (slot.tree / "runs" / "gpu_slot" / "wheels" / "some.whl").unlink()
    assert slot.run("first", STATUS="1").returncode == 1
    slot.run("second")
    report = slot.kept / "report" / "report.json"
    assert report.read_text() == '"commit": "0123456789ab",\n' * 2  # it went on with the first's
    (slot.tree / "csrc" / "file.h").write_text("mended")
    slot.run("second")
    commit = slot.checked()[1]
    assert re.fullmatch(r"0123456789ab\+[0-9a-f]{12}", commit) and report.read_text() == f'"commit": "{commit}",\n'
    slot.run("second", TORCH_BATCHSIM_COMMIT="fedc")
    assert slot.checked()[1] == "fedc"
    shutil.rmtree(slot.tree / "runs")
    slot.run("second")
    assert slot.checked()[1] == "0123456789ab"  # what git says
    wrong = slot.run("third")
    assert wrong.returncode == 2 and "gpu_slot prepare" in wrong.stderr and wrong.stdout == ""


@pytest.mark.full
def test_a_killed_call_leaves_its_report(slot: Slot) -> None:
    command = ["bash", str(slot.tree / ".ci" / "gpu_slot"), "first"]
    process = subprocess.Popen(
        command, env=slot.environment | {"FOREVER": "yes"}, start_new_session=True, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (slot.out / "report.md").is_file():
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (slot.out / "report.json").is_file() and "== " in (slot.out / "run.log").read_text()


# ---- a bare tree -----------------------------------------------------------------------------------------------------

# Loaded by each process of Python: a pretended device, on which "smoke" runs, with real builds for the CPU and of
# emulated units. "build" finds CartPole's in a process of its own; the other stages say that they have begun.
PRETENDED = """
import os, sys, types

text = " ".join(sys.orig_argv)
if "gpu_check.tools compile" in text:
    print("4.5 s to compile", flush=True)
    os._exit(0)
if "gpu_check.machine" in text or "device=" in text:
    import torch

    zeros = torch.zeros
    torch.zeros = lambda *shape, device=None, **options: zeros(*shape, **options)
if "gpu_check.machine" in text:
    from torch_batchsim.build import jit

    missing_tools = jit.missing_tools
    jit.missing_tools = lambda cuda: missing_tools(cuda=False)
    torch.version.cuda, torch.cuda.is_available, torch.cuda.device_count = "13.0", lambda: True, lambda: 1
    torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(
        name="Made Up", major=9, minor=0, multi_processor_count=4, total_memory=2**36,
        shared_memory_per_block_optin=232_448,
    )
if "gpu_check.findings" in text and " smoke " in text:
    sys.path.append(COMMON)
    import pytest, pretended_gpu

    pretended_gpu.pretend(pytest.MonkeyPatch())
elif "gpu_check.findings" in text:  # they import neither torch nor the engine, which would take seconds
    package = sys.modules["torch_batchsim"] = types.ModuleType("torch_batchsim")
    package.__path__ = [os.path.join(os.environ["PYTHONPATH"].split(":")[0], "torch_batchsim")]
    from torch_batchsim.gpu_check import builds, findings, processes

    def build(name):
        return processes.run_limited(processes.tool("build", name, "cpu", "batch"), 200.0)[1]

    def run(found):
        if name == "build":
            found.check("CartPole", build, "cartpole")
        if name in ("hideseek", "capture"):
            found.check("HideSeek", builds.require, "hideseek", "graph")
        found.check("began", lambda: "by a stand-in")

    name = sys.orig_argv[4]
    stages = sys.modules["torch_batchsim.gpu_check.stages"] = types.ModuleType("stages")
    stages.STAGES = [findings.Stage(name, "", run, 60.0)]
"""
TOOLS = (
    "bash cat cp cut dirname find grep head kill ls mkdir rm sed sha256sum sh sleep sort tail tee timeout xargs "
    "g++ as ld uname"
).split()


def bare_python(folder: Path) -> Path:
    """An interpreter that has neither gymnasium nor this package, and ninja where PATH does not lead."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    left_out = ("gymnasium", "farama", "torch_batchsim", "__editable__", "ninja", "cloudpickle", "__pycache__")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.lower().startswith(left_out):
            (site / entry.name).symlink_to(entry)
    ninja = shutil.which("ninja", path=jit._path_with_ninja())
    assert ninja is not None
    if not (folder / "bin" / "ninja").exists():
        (folder / "bin" / "ninja").symlink_to(ninja)
    return folder / "bin" / "python3"


def wheel(folder: Path) -> None:
    """What is installed here of gymnasium, and of what it imports, as a wheel."""
    site = Path(sysconfig.get_path("purelib"))
    with zipfile.ZipFile(folder / "gymnasium-0-py3-none-any.whl", "w") as file:
        for name in ("gymnasium", "farama_notifications"):
            for path in [*site.glob(f"{name}/**/*"), *site.glob(f"{name}-*.dist-info/*")]:
                if path.is_file() and path.suffix != ".pyc":
                    file.write(path, path.relative_to(site))


@pytest.mark.full
def test_in_a_bare_tree(tmp_path: Path) -> None:
    """No git, no ninja on PATH, no HOME, no pip; gymnasium only from a wheel."""
    tree, tools, stand_in, out = (tmp_path / name for name in ("tree", "bin", "stand_in", "out"))
    for part in (*PARTS, ".ci"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.py", tree)
    brought = tree / "runs" / "gpu_slot" / "wheels"
    brought.mkdir(parents=True)
    wheel(brought)
    for folder in (tools, stand_in):
        folder.mkdir()
    (stand_in / "sitecustomize.py").write_text(PRETENDED.replace("COMMON", repr(str(COMMON))))
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing"))
    python = bare_python(tmp_path / "python")
    (tools / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (tools / "python3").chmod(0o755)
    environment = {
        "PATH": str(tools), "PYTHONPATH": str(stand_in), "OUT": str(out), "TBS_DEBUG": "quick",
        "TORCH_BATCHSIM_SLOT": str(tmp_path / "kept"), "TORCH_BATCHSIM_TEST_UNITS": os.environ["TORCH_BATCHSIM_CACHE"],
    }  # fmt: skip
    for word in ("first", "second"):
        done = subprocess.run(
            ["bash", ".ci/gpu_slot", word], cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert "passed; written to" in said and torch.__version__ in said
        assert (out / "run.log").is_file()
    found = json.loads((out / "report.json").read_text())
    assert found["machine"]["commit"] == "unknown" and found["machine"]["GPU"] == "1 x Made Up"
    results = {stage["name"]: stage for stage in found["stages"]}
    assert {stage["status"] for stage in results.values()} == {"passed"}
    assert {"smoke", "build", "hideseek", "bodies", "bits", "learn", "profile", "capture", "faults"} <= set(results)
    assert [check["name"] for check in results["smoke"]["checks"]][:2] == ["memory on chip", "a build"]
    assert results["build"]["checks"][0]["text"].startswith("from the build cache")
    assert len(list((tmp_path / "kept" / "builds").glob("CartPole_cpu_*.so"))) > 0
    assert results["hideseek"]["checks"][0]["text"] == "4.5 s to compile"
    assert torch_batchsim.__version__ == found["machine"]["torch_batchsim"]
