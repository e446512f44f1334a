"""The GPU check without a GPU: its runner with made-up stages, its checks on the emulated CUDA units."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from pretended_gpu import NCU

import torch_batchsim
from torch_batchsim.gpu_check import __main__ as command
from torch_batchsim.gpu_check import builds, machine, playing, processes, report, runner, speed, stages, tools
from torch_batchsim.gpu_check.environments import CHECKED, ENVIRONMENTS
from torch_batchsim.gpu_check.findings import Findings, Skipped
from torch_batchsim.testing import random_actions

CPU = playing.maker("cpu")

# ---- the runner ------------------------------------------------------------------------------------------------------

MADE_UP = """
import ctypes, os, subprocess, sys, time
from torch_batchsim.gpu_check.builds import require
from torch_batchsim.gpu_check.findings import SPOILED, Findings, Skipped, Stage

def good():
    return "a remark"

def bad():
    raise ValueError("what is wrong\\nand more of it")

def not_here():
    raise Skipped("there is one GPU")

def crash():
    ctypes.string_at(0)

def leave():
    print("a last word", flush=True)
    os._exit(7)

def spoil():
    os._exit(SPOILED)

def hang():
    time.sleep(600)

def slow():
    time.sleep(0.6)

def all_kinds(found):
    found.row("figures", worlds=1024, speed=12345.678, what="a|b")
    found.note("A note.")
    for name, check in (
        ("good", good), ("bad", bad), ("not here", not_here), ("crash", crash), ("leave", leave), ("spoil", spoil),
        ("good again", good),
    ):
        found.check(name, check)
    found.row("figures", worlds=8, speed=None, what="c")
    found.check("last", good)

def hangs(found):
    found.check("before", good)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "a child of the made-up stage"])
    found.check("the long one", hang)
    found.check("after", good)

def hangs_in_a_check(found):
    found.check_seconds = 1.0
    found.check("the long one", hang)
    found.check("after", good)
    found.check("another long one", hang)
    found.check("never", good)

def raises(found):
    found.check("before", good)
    raise KeyError("outside")

def dies(found):
    found.check("before", good)
    os._exit(9)

def dies_late(found):
    import atexit
    found.check("before", good)
    atexit.register(lambda: os.kill(os.getpid(), 11))

def stays(found):
    import threading
    found.check("before", good)
    threading.Thread(target=hang).start()

def goes_on(found):
    found.check("good", good)
    found.check("bad", bad)

def skips(found):
    raise Skipped("no tool")

def takes_time(found):
    for i in range(20):
        found.check(f"slow {i}", slow)

def goes_well(found):
    found.check("fine", good)

def figures(found):
    found.row("speeds", worlds=1024, speed=12345.678, what="a|b")
    found.row("speeds", worlds=8, speed=None, what="c")
    found.note("A note.")

def needs_builds(found):
    for name in ("quick", "late", "bad"):
        found.check(name, require, name, "graph")

def needs_one(found):
    found.check("late", require, "late", "graph")

def skipped_checks(found):
    found.check("not here", not_here)

JOBS = tuple((name, "graph") for name in ("quick", "late", "bad"))
STAGES = [
    Stage("kinds", "All kinds of checks.", all_kinds, 60, 1),
    Stage("hangs", "A check hangs.", hangs, 4, 1),
    Stage("stuck", "A check hangs and says where.", hangs_in_a_check, 60, 1),
    Stage("raises", "The stage itself fails.", raises, 60, 1),
    Stage("dies", "Its process ends outside of checks.", dies, 60, 1),
    Stage("late", "Its process crashes at the end.", dies_late, 60, 1),
    Stage("stays", "Its process does not end.", stays, 4, 1),
    Stage("skips", "It cannot be done.", skips, 60, 1),
    Stage("time", "It takes time.", takes_time, 60, 1),
    Stage("well", "It goes well.", goes_well, 60, 1),
    Stage("figures", "No checks.", figures, 60, 1),
    Stage("pair", "Only a skipped check.", skipped_checks, 60, 1),
    Stage("gate", "Nothing goes on behind it.", raises, 60, 1, gate=("before",)),
    Stage("open", "A check fails that is not needed.", goes_on, 60, 1, gate=("good",)),
    Stage("shut", "Nothing goes on behind it.", goes_on, 60, 1, gate=("bad",)),
    Stage("all", "Some builds.", needs_builds, 60, 1, builds=JOBS),
    Stage("one", "Nothing without a build.", needs_one, 60, 1, builds=JOBS[1:2], after_builds=True),
]
"""

# For processes that need neither torch nor the engine, which would take seconds to be imported.
BARE_PACKAGE = f"""
import sys, types
if "made_up_stages" in sys.orig_argv:
    package = types.ModuleType("torch_batchsim")
    package.__path__ = [{str(Path(torch_batchsim.__file__).parent)!r}]
    sys.modules["torch_batchsim"] = package
"""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The made-up stages as a module that processes find too."""
    folder = tmp_path_factory.mktemp("made_up")
    (folder / "made_up_stages.py").write_text(MADE_UP)
    (folder / "sitecustomize.py").write_text(BARE_PACKAGE)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), before]))
    sys.path.insert(0, str(folder))
    import made_up_stages

    yield made_up_stages
    sys.path.remove(str(folder))
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="module")
def results(made_up: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Results of all the made-up stages but one, by name."""
    folder = tmp_path_factory.mktemp("stages")
    chosen = [stage for stage in made_up.STAGES if stage.name not in ("time", "gate", "open", "shut", "all", "one")]
    reported: list[dict[str, Any]] = []
    found = runner.run_stages(chosen, "made_up_stages", folder, time.monotonic() + 300, reported.append)
    assert reported == found
    assert list(folder.iterdir()) == []  # nothing is left behind
    return {result["name"]: result for result in found}


def checks_of(result: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in result["checks"]}


@pytest.mark.full
def test_crashes_do_not_hide_the_rest(results: dict[str, Any]) -> None:
    result = results["kinds"]
    assert result["status"] == "failed"
    assert checks_of(result) == {
        "good": "passed", "bad": "failed", "not here": "skipped", "crash": "failed", "leave": "failed",
        "spoil": "failed", "good again": "passed", "last": "passed",
    }  # fmt: skip
    by_name = {check["name"]: check for check in result["checks"]}
    assert by_name["good"]["text"] == "a remark"
    assert by_name["bad"]["text"] == "ValueError: what is wrong"
    assert "and more of it" in by_name["bad"]["traceback"]
    assert by_name["not here"]["text"] == "there is one GPU"
    assert "SIGSEGV" in by_name["crash"]["text"] and "in crash" in by_name["crash"]["traceback"]
    assert by_name["leave"]["text"] == "the process ended with exit status 7"
    assert "a last word" in by_name["leave"]["traceback"]
    assert result["traceback"] == "" and result["notes"] == ["A note."] and len(result["tables"]["figures"]) == 2


@pytest.mark.full
def test_a_hanging_check_is_ended_with_its_children(results: dict[str, Any]) -> None:
    result = results["hangs"]
    assert 4 <= result["seconds"] < 15
    assert checks_of(result) == {"before": "passed", "the long one": "failed"}
    assert result["checks"][1]["text"] == "no end after 4 s"
    assert result["status"] == "failed" and "had not ended after its 4 s" in result["traceback"]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(b"a child of the made-up stage" in command for command in commands)


@pytest.mark.full
def test_a_check_that_takes_too_long_says_where_it_is(results: dict[str, Any]) -> None:
    result = results["stuck"]
    assert checks_of(result) == {"the long one": "failed", "after": "passed", "another long one": "failed"}
    assert "2 of its checks did not end" in result["traceback"]
    assert "not ended after the time" in result["checks"][0]["text"]
    assert "in hang" in result["checks"][0]["traceback"]


@pytest.mark.full
def test_failures_outside_of_checks(results: dict[str, Any]) -> None:
    for name, says in (("raises", "KeyError: 'outside'"), ("dies", "exit status 9"), ("late", "SIGSEGV")):
        assert results[name]["status"] == "failed" and checks_of(results[name]) == {"before": "passed"}
        assert says in results[name]["traceback"]
    assert "after its last check" in results["late"]["traceback"]
    assert results["stays"]["status"] == "failed" and "did not end" in results["stays"]["traceback"]
    skipped = results["skips"]
    assert (skipped["status"], skipped["reason"], skipped["checks"]) == ("skipped", "no tool", [])
    assert results["well"]["status"] == "passed" and results["well"]["traceback"] == ""
    assert results["pair"]["status"] == "skipped"


def test_a_spoiled_process_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that sticks to the CUDA context ends the process after the check that has met it."""
    from torch_batchsim.gpu_check import findings

    ended: list[int] = []
    monkeypatch.setattr(findings, "_spoils", lambda error: True)
    monkeypatch.setattr(findings.os, "_exit", ended.append)
    found = Findings(tmp_path / "found", time.time() + 60)
    found.check("good", lambda: None)
    assert ended == []
    found.check("bad", lambda: 1 / 0)
    assert ended == [findings.SPOILED]
    again = Findings(tmp_path / "found", time.time() + 60)
    again.check("bad", lambda: pytest.fail("it was done before"))
    again.check("more", lambda: "text")
    assert [check["name"] for check in again.found["checks"]] == ["good", "bad", "more"]


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"machine": {"GPU": "1 x Made Up", "step in C++": "yes"}, "missing": []}
    monkeypatch.setattr(command, "_facts", lambda seconds: facts)


def run_command(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = command.main(["--output", str(folder), *arguments], "made_up_stages")
    page = (folder / "report.md").read_text()
    return status, json.loads((folder / "report.json").read_text()), page


def test_report_and_exit_status(made_up: Any, with_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    status, found, page = run_command(tmp_path / "a", "--stages", "raises,figures")
    assert status == 1 and found["status"] == "failed"
    assert [stage["name"] for stage in found["stages"]] == ["raises", "figures"]
    assert found["machine"]["GPU"] == "1 x Made Up" and found["format"] == report.FORMAT
    assert found["stages"][1]["tables"]["speeds"][0] == {"worlds": 1024, "speed": 12345.678, "what": "a|b"}
    for part in (
        "| raises | **failed** | 1 passed |", "| GPU | 1 x Made Up |", "| 1,024 | 12,346 | a\\|b |", "| 8 |  | c |",
        "Checks have failed", "): before: a remark", "KeyError: 'outside'", "A note.",
    ):  # fmt: skip
        assert part in page
    printed = capsys.readouterr().out
    assert printed.startswith("step in C++: yes\n") and "failed   raises" in printed and "passed   figures" in printed
    status, found, page = run_command(tmp_path / "b", "--stages", "figures,skips")
    assert status == 0 and found["status"] == "passed" and "All checks have passed" in page


def test_stages_run_in_the_order_that_is_asked_for(made_up: Any, with_gpu: None, tmp_path: Path) -> None:
    """A stage that has no more than the seconds behind its name goes on another time; a failed gate ends the run,
    but for checks without which the others can go on."""
    status, found, _ = run_command(tmp_path / "a", "--stages", "figures,time:1,well")
    assert status == 0 and [stage["name"] for stage in found["stages"]] == ["figures", "time", "well"]
    assert found["stages"][1]["reason"] == "no time left for the rest" and found["next"].endswith("--stages time")
    status, found, _ = run_command(tmp_path / "b", "--stages", "open,figures,gate,well")
    assert status == 1 and [stage["name"] for stage in found["stages"]] == ["open", "figures", "gate"]
    status, found, _ = run_command(tmp_path / "c", "--stages", "shut,well")
    assert status == 1 and [stage["name"] for stage in found["stages"]] == ["shut"]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Commands of the shell in place of builds. Returns the file whose presence ends "late"."""
    gate = tmp_path / "gate"
    shell = {
        "quick": "echo compiled", "late": f"until [ -e {gate} ]; do sleep 0.05; done; echo compiled late",
        "bad": "echo 'line 3: no'; exit 4", "endless": "sleep 600.75",
    }  # fmt: skip
    monkeypatch.setattr(builds.os, "cpu_count", lambda: 16)  # all at once
    monkeypatch.setattr(builds, "tool", lambda run, name, executor: ["sh", "-c", shell[name]])
    return gate


def test_builds_in_the_background(commands: Path, tmp_path: Path) -> None:
    jobs = [(name, "graph") for name in ("quick", "bad", "endless")]
    with closing(builds.Builds(jobs, tmp_path)) as made:
        while made.ended(jobs[:2]) < 2:
            assert made.wait(made.all_ended(), time.monotonic() + 30)
        assert builds.require("quick", "graph") == "compiled" and builds.require("another", "graph") == ""
        assert builds.require("quick", None) == ""
        with pytest.raises(AssertionError, match=r"exit status 4: line 3: no\n"):
            builds.require("bad", "graph")
        for executor in ("graph", None):
            with pytest.raises(Skipped, match="no time left: its build is under way"):
                builds.require("endless", executor)
        assert not made.wait(2, time.monotonic() + 0.05) and made.ended([*jobs, ("another", "graph")]) == 3
    assert list(tmp_path.iterdir()) == [] and builds.require("endless", "graph") == ""
    assert not any(b"600.75" in path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))


def test_a_missing_build_holds_up_no_other_stage(made_up: Any, commands: Path, tmp_path: Path) -> None:
    """The first goes on behind the last, with the checks that it has left."""
    folder = tmp_path / "stages"
    folder.mkdir()
    chosen = [next(stage for stage in made_up.STAGES if stage.name == name) for name in ("all", "one", "well")]
    reported: list[tuple[str, dict[str, str]]] = []

    def report(result: dict[str, Any]) -> None:
        reported.append((result["name"], checks_of(result)))
        if result["name"] == "well":
            commands.touch()

    def run(number: int, seconds: float) -> list[dict[str, Any]]:
        with closing(builds.Builds(made_up.JOBS, folder)) as made:
            while made.all_ended() < 2:
                assert made.wait(made.all_ended(), time.monotonic() + 30)
            until = time.monotonic() + seconds
            return runner.run_stages(chosen[number:], "made_up_stages", folder, until, report, builds=made)

    found = run(0, 60)
    first = {"quick": "passed", "late": "skipped", "bad": "failed"}
    last = {"quick": "passed", "bad": "failed", "late": "passed"}
    assert reported[:2] == [("all", first), ("well", {"fine": "passed"})]
    assert sorted(reported[2:]) == [("all", last), ("one", {"late": "passed"})]
    assert [result["checks"][-1]["text"] for result in found if result["name"] == "all"] == ["compiled late"]
    # And where it never ends, the stages say that their time has run out.
    commands.unlink()
    chosen.pop()
    assert [(result["status"], result["reason"]) for result in run(1, 1.5)] == [("skipped", "no time left")]


@pytest.mark.full
def test_stages_beyond_the_budget_are_skipped(made_up: Any, with_gpu: None, tmp_path: Path) -> None:
    status, found, _ = run_command(tmp_path, "--stages", "time,well", "--budget", "11")  # 5 s are kept back
    cut, none = found["stages"]
    assert status == 0 and cut["status"] == "passed" and cut["reason"] == "no time left for the rest"
    assert cut["checks"][-1]["text"] == "no time left to finish it"
    assert set(checks_of(cut).values()) == {"passed", "skipped"}
    assert (none["status"], none["reason"], none["seconds"]) == ("skipped", "no time left", 0.0)


@pytest.mark.full
def test_a_second_command_goes_on(
    made_up: Any, with_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first prints what is next: stages without time, and of a cut one the checks that were not done."""
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", "")
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "")
    given = ["--stages", "raises,time,figures", "--cache", str(tmp_path / "builds")]
    status, cut, page = run_command(tmp_path, *given, "--budget", "11")
    following = cut["next"]
    assert status == 1 and following in page and following in capsys.readouterr().out
    assert os.environ["TORCH_BATCHSIM_CACHE"] == str(tmp_path / "builds") and (tmp_path / "builds").is_dir()
    arguments = shlex.split(following)[3:]
    wanted = f"--continue --budget 11 --output {tmp_path} --cache {tmp_path / 'builds'} --stages time,figures"
    assert arguments == wanted.split()
    _, other, _ = run_command(tmp_path, "--continue", "--stages", "figures", "--budget", "60")
    assert [stage["name"] for stage in other["stages"]] == ["raises", "time", "figures"]  # the cut one stays
    assert other["stages"][1] == cut["stages"][1] and other["next"].endswith("--stages time")
    status, whole, _ = run_command(tmp_path, *arguments, "--budget", "60")
    assert status == 1 and whole["next"] == ""
    assert [stage["name"] for stage in whole["stages"]] == ["raises", "figures", "time"]
    done, checks = checks_of(cut["stages"][1]), checks_of(whole["stages"][2])
    assert checks == {f"slow {i}": "passed" for i in range(20)}
    assert 0 < list(done.values()).count("passed") < 20
    again = [check for check in whole["stages"][2]["checks"] if check in cut["stages"][1]["checks"]]
    assert len(again) == list(done.values()).count("passed")  # with the seconds of then
    monkeypatch.setattr(command, "_facts", lambda seconds: {"machine": {"GPU": "another"}, "missing": []})
    with pytest.raises(SystemExit, match="of another GPU"):
        run_command(tmp_path, "--continue")


def test_listing_and_bad_arguments(made_up: Any, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command.main(["--list"], "made_up_stages") == 0
    assert "kinds" in capsys.readouterr().out
    for arguments, says in (
        (["--stages", "knids"], "got 'knids'"),
        (["--stages", "kinds:-4"], "a number of seconds, got 'kinds:-4'"),
        (["--budget", "0"], "positive"),
    ):
        with pytest.raises(SystemExit, match=says):
            command.main([*arguments, "--output", str(tmp_path)], "made_up_stages")


@pytest.mark.full
@pytest.mark.skipif(not machine.missing(), reason="there is a GPU")
def test_without_a_gpu(tmp_path: Path) -> None:
    """Nothing is run, and the report says why."""
    done = subprocess.run(
        [sys.executable, "-m", "torch_batchsim.gpu_check", "--output", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["status"] == "no device" and found["missing"] == machine.missing() and found["stages"] == []
    assert found["machine"]["torch"] == torch.__version__
    page = (tmp_path / "report.md").read_text()
    assert "No check has run" in page and found["missing"][0] in page


def test_a_machine_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command.sys, "executable", "/bin/false")
    assert command.main(["--output", str(tmp_path)]) == 2
    assert "the look at the machine failed" in (tmp_path / "report.md").read_text()


def test_a_process_is_ended_with_its_children() -> None:
    program = "import subprocess, time; subprocess.run(['sleep', '600.25']); time.sleep(60); print('never')"
    started = time.monotonic()
    status, printed = processes.run_limited([sys.executable, "-u", "-c", f"print('begun'); {program}"], 2.0)
    assert (status, printed) == (None, "begun\n") and time.monotonic() - started < 10
    assert not any(b"600.25" in path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert processes.run_limited(["sh", "-c", "echo out; echo error >&2; exit 3"], 10.0) == (3, "out\nerror\n")


def test_only_a_process_of_its_own_is_ended_by_a_long_check(tmp_path: Path) -> None:
    """A check that takes too long would end the whole run of the tests."""
    found = Findings(tmp_path / "found", time.time() + 60)
    found.check_seconds = 0.05
    found.check("long", time.sleep, 0.2)
    assert found.found["checks"][0]["status"] == "passed"


@pytest.mark.full
def test_needs_no_more_than_it_says() -> None:
    """A GPU machine may have no more than torch, numpy and gymnasium."""
    modules = ", ".join(f"torch_batchsim.gpu_check.{name}" for name in ("__main__", "machine", "stages"))
    others = ("matplotlib", "tyro", "tensorboard", "tqdm.auto", "pytest", "hypothesis")
    program = f"import sys, {modules}; print(*(name for name in {others} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.full
def test_the_machine_is_described_without_git_and_other_tools() -> None:
    """Each missing part of a build has a line, with the command that brings it; git is not needed."""
    command = [sys.executable, "-m", "torch_batchsim.gpu_check.machine"]
    environment = os.environ | {"PATH": "", "CUDA_HOME": "", "CUDA_PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    assert found["machine"]["commit"] == "unknown" and found["machine"]["torch"] == torch.__version__
    lacks = [sentence for sentence in found["missing"] if sentence.startswith("no C++ compiler")]
    assert len(lacks) == 1 and "apt install g++" in lacks[0]
    assert not any("\n" in sentence for sentence in found["missing"])
    assert found["machine"]["step in C++"] == "yes"


# ---- what the tools say ----------------------------------------------------------------------------------------------


def test_ncu_is_read() -> None:
    first, second = tools.kernels(NCU)
    assert first["kernel"] == "run<Node1, Context>" and first["blocks"] == "(64, 1, 1)"
    assert first["us"] == pytest.approx(4.512) and first["MB read"] == pytest.approx(1.5)
    assert first["registers"] is None and second["registers"] == 40 and second["MB read"] is None
    assert list(first) == list(second)
    assert "| settle<8> |" in report.table([first, second])
    assert tools.kernels("==ERROR== ERR_NVGPUCTRPERM - no permission\n") == []


def test_sanitizers_are_judged() -> None:
    ours = "========= Invalid __global__ read of size 4 bytes at void tbs::node_kernel<tbs::Node1>(Context)+0x1b0"
    theirs = "========= Race reported between at::native::sort(...)"
    summary = "========= ERROR SUMMARY: 1 error"
    played = "played to the end"
    assert tools.judge_sanitizer(0, f"{played}\n========= ERROR SUMMARY: 0 errors") == "ERROR SUMMARY: 0 errors"
    assert "elsewhere" in tools.judge_sanitizer(87, f"{theirs}\n{played}\n{summary}")
    for status, printed in ((87, f"{ours}\n{played}\n{summary}"), (1, ours), (-11, "nothing"), (0, "no last word")):
        with pytest.raises(AssertionError):
            tools.judge_sanitizer(status, printed)
    with pytest.raises(AssertionError, match="Failed to import"):  # our own words
        tools.judge_sanitizer(1, "RuntimeError: Failed to import")
    with pytest.raises(Skipped, match="Device not supported"):
        tools.judge_sanitizer(1, "========= Error: Device not supported.")


def test_stages_are_distinct_and_begin() -> None:
    names = [stage.name for stage in stages.STAGES]
    assert len(set(names)) == len(names) and all(stage.least < stage.seconds for stage in stages.STAGES)
    assert set(CHECKED) < set(ENVIRONMENTS)


@pytest.mark.full
def test_legal_actions_do_not_depend_on_the_number_of_worlds() -> None:
    small, large = CPU("decks", 5), CPU("decks", 20)
    batches = [random_actions(env, 40, most_worlds=20) for env in (small, large)]
    for env in (small, large):
        env.reset(seed=playing.SEED)
    for step, (few, many) in enumerate(zip(*batches, strict=True)):
        assert torch.equal(few, many[:15]), step
        assert bool(large.action_mask[torch.arange(60), many].all())
        small.step(few)
        large.step(many)
    assert step == 39


# ---- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_bytes_of_a_step_are_those_of_its_columns() -> None:
    sim = CPU("cartpole", 100).sim
    # Read and written: the state, 16 bytes. Delivered: the observation, 16. Read: the push, 4. Written: the reward, 4.
    # Read and written by the engine: step 4, and phase, ended, terminated, truncated, done 1 each.
    assert speed.bytes_of_step(sim) == 100 * (3 * 16 + 4 + 4 + 2 * 9)


def test_measured_worlds_end_at_different_steps() -> None:
    """Also those of HideSeek, whose levels are the costliest to make: else all would end in one step, or none."""
    env = CPU("cartpole", 500)
    env.reset(seed=3)
    speed.spread_episodes(env)
    steps = env.episode_steps
    assert int(steps.min()) < 25 and int(steps.max()) > 475 and len(steps.unique()) > 250
    assert ENVIRONMENTS["hideseek"]().parameters["max_episode_steps"] == 240  # the name by which the limit is found


def test_the_peer_is_the_same_cartpole() -> None:
    env = CPU("cartpole", 500)
    observations, _ = env.reset(seed=3)
    state, steps = observations.clone(), torch.zeros(500, dtype=torch.int32)
    ended = 0
    for actions in random_actions(env, 40):
        observations, rewards, terminations, truncations, infos = env.step(actions)
        state, steps, *flags, last = speed.torch_cartpole(state, steps, actions)
        done = terminations | truncations
        torch.testing.assert_close(last[~done], observations[~done], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(last[done], infos["final_obs"][done], atol=1e-5, rtol=1e-5)
        assert all(torch.equal(a, b) for a, b in zip(flags, (rewards, terminations, truncations), strict=True))
        assert bool((state[done].abs() <= 0.05).all()) and bool((steps[done] == 0).all())
        state = observations.clone()
        ended += int(done.sum())
    assert ended > 100
