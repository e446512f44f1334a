"""The GPU check without a GPU: its runner with made-up stages, its checks on the emulated CUDA units."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import support
import torch
from gymnasium.vector import AutoresetMode

from torch_batchsim import TorchVectorEnv
from torch_batchsim.entities import Entities
from torch_batchsim.executors import EXECUTORS
from torch_batchsim.gpu_check import __main__ as command
from torch_batchsim.gpu_check import checks, cuda_checks, machine, report, runner, speed, stages, tools
from torch_batchsim.gpu_check.checks import Make
from torch_batchsim.gpu_check.environments import CHECKED, ENVIRONMENTS
from torch_batchsim.gpu_check.findings import Findings, Skipped
from torch_batchsim.testing import random_actions

pytestmark = pytest.mark.full  # test_gpu_findings.py is in the fast run
CPU = checks.maker("cpu")

# ---- the runner ------------------------------------------------------------------------------------------------------

MADE_UP = """
import ctypes, os, subprocess, sys, time
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

def skipped_checks(found):
    found.check("not here", not_here)

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
]
"""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The made-up stages as a module that processes find too."""
    folder = tmp_path_factory.mktemp("made_up")
    (folder / "made_up_stages.py").write_text(MADE_UP)
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
    """What comes of all the made-up stages but one, by name."""
    folder = tmp_path_factory.mktemp("stages")
    chosen = [stage for stage in made_up.STAGES if stage.name != "time"]
    told: list[dict[str, Any]] = []
    found = runner.run_stages(chosen, "made_up_stages", folder, time.monotonic() + 300, told.append)
    assert told == found
    assert list(folder.iterdir()) == []  # nothing is left behind
    return {result["name"]: result for result in found}


def checks_of(result: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in result["checks"]}


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


def test_a_hanging_check_is_ended_with_its_children(results: dict[str, Any]) -> None:
    result = results["hangs"]
    assert 4 <= result["seconds"] < 15
    assert checks_of(result) == {"before": "passed", "the long one": "failed"}
    assert result["checks"][1]["text"] == "no end after 4 s"
    assert result["status"] == "failed" and "had not ended after its 4 s" in result["traceback"]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(b"a child of the made-up stage" in command for command in commands)


def test_a_check_that_takes_too_long_says_where_it_is(results: dict[str, Any]) -> None:
    result = results["stuck"]
    assert checks_of(result) == {"the long one": "failed", "after": "passed"}
    assert "not ended after the time" in result["checks"][0]["text"]
    assert "in hang" in result["checks"][0]["traceback"]


def test_failures_outside_of_checks(results: dict[str, Any]) -> None:
    for name, told in (("raises", "KeyError: 'outside'"), ("dies", "exit status 9"), ("late", "SIGSEGV")):
        assert results[name]["status"] == "failed" and checks_of(results[name]) == {"before": "passed"}
        assert told in results[name]["traceback"]
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
    facts = {"machine": {"GPU": "1 x Made Up"}, "missing": []}
    monkeypatch.setattr(command, "_facts", lambda: facts)


def run_command(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = command.main(["--output", str(folder), *arguments], "made_up_stages")
    page = (folder / "report.md").read_text()
    return status, json.loads((folder / "report.json").read_text()), page


def test_report_and_exit_status(made_up: Any, with_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    status, found, page = run_command(tmp_path / "a", "--stages", "raises,figures")
    assert status == 1 and found["status"] == "failed"
    assert [stage["name"] for stage in found["stages"]] == ["raises", "figures"]
    assert found["machine"] == {"GPU": "1 x Made Up"} and found["format"] == report.FORMAT
    assert found["stages"][1]["tables"]["speeds"][0] == {"worlds": 1024, "speed": 12345.678, "what": "a|b"}
    for part in (
        "| raises | **failed** | 1 passed |", "| GPU | 1 x Made Up |", "| 1,024 | 12,346 | a\\|b |", "| 8 |  | c |",
        "Something has failed", "): before: a remark", "KeyError: 'outside'", "A note.",
    ):  # fmt: skip
        assert part in page
    printed = capsys.readouterr().out
    assert "failed   raises" in printed and "passed   figures" in printed
    status, found, page = run_command(tmp_path / "b", "--stages", "figures,skips")
    assert status == 0 and found["status"] == "passed" and "Everything that was checked has passed" in page


def test_what_does_not_fit_is_skipped(made_up: Any, with_gpu: None, tmp_path: Path) -> None:
    status, found, _ = run_command(tmp_path, "--stages", "time,well", "--minutes", "0.18")  # 5 s are kept back
    cut, none = found["stages"]
    assert status == 0 and cut["status"] == "passed" and cut["reason"] == "no time left for the rest"
    assert cut["checks"][-1]["text"] == "no time left to finish it"
    assert set(checks_of(cut).values()) == {"passed", "skipped"}
    assert (none["status"], none["reason"], none["seconds"]) == ("skipped", "no time left", 0.0)


def test_listing_and_bad_arguments(made_up: Any, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command.main(["--list"], "made_up_stages") == 0
    assert "kinds" in capsys.readouterr().out
    for arguments, told in ((["--stages", "knids"], "no stage 'knids'"), (["--minutes", "0"], "positive")):
        with pytest.raises(SystemExit, match=told):
            command.main([*arguments, "--output", str(tmp_path)], "made_up_stages")


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
    assert "Nothing was checked" in page and found["missing"][0] in page


def test_a_machine_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command.sys, "executable", "/bin/false")
    assert command.main(["--output", str(tmp_path)]) == 2
    assert "the machine could not be asked" in (tmp_path / "report.md").read_text()


def test_needs_no_more_than_it_says() -> None:
    """A GPU machine may have no more than torch, numpy and gymnasium."""
    modules = ", ".join(f"torch_batchsim.gpu_check.{name}" for name in ("__main__", "machine", "stages"))
    others = ("matplotlib", "tyro", "tensorboard", "tqdm.auto", "pytest", "hypothesis")
    program = f"import sys, {modules}; print(*(name for name in {others} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# ---- what the tools say ----------------------------------------------------------------------------------------------

NCU = """==PROF== Connected to process 4242 (/usr/bin/python3)
==PROF== Profiling "node_kernel" - 0: 0%....50%....100% - 1 pass
"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","void tbs::run<tbs::Node1, tbs::Context>(int)","(256, 1, 1)","(64, 1, 1)","gpu__time_duration.sum","nsecond","4,512"
"0","void tbs::run<tbs::Node1, tbs::Context>(int)","(256, 1, 1)","(64, 1, 1)","dram__bytes_read.sum","byte","1,500,000"
"1","void tbs::settle<8>(int)","(256, 1, 1)","(8, 1, 1)","launch__registers_per_thread","register/thread","40"
"1","void tbs::settle<8>(int)","(256, 1, 1)","(8, 1, 1)","dram__bytes_read.sum","byte","n/a"
"""


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
    for status, said in ((87, f"{ours}\n{played}\n{summary}"), (1, ours), (-11, "nothing"), (0, "no last word")):
        with pytest.raises(AssertionError):
            tools.judge_sanitizer(status, said)
    with pytest.raises(AssertionError, match="Failed to import"):  # our own words
        tools.judge_sanitizer(1, "RuntimeError: Failed to import")
    with pytest.raises(Skipped, match="Device not supported"):
        tools.judge_sanitizer(1, "========= Error: Device not supported.")


def test_stages_are_distinct_and_begin() -> None:
    names = [stage.name for stage in stages.STAGES]
    assert len(set(names)) == len(names) and all(stage.least < stage.seconds for stage in stages.STAGES)
    assert set(CHECKED) < set(ENVIRONMENTS)


def test_legal_actions_do_not_depend_on_the_number_of_worlds() -> None:
    small, large = CPU("decks", 5), CPU("decks", 20)
    batches = [random_actions(env, 40, most_worlds=20) for env in (small, large)]
    for env in (small, large):
        env.reset(seed=checks.SEED)
    for step, (few, many) in enumerate(zip(*batches, strict=True)):
        assert torch.equal(few, many[:15]), step
        assert bool(large.action_mask[torch.arange(60), many].all())
        small.step(few)
        large.step(many)
    assert step == 39


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_the_bytes_of_a_step_are_those_of_its_columns() -> None:
    sim = checks.maker("cpu")("cartpole", 100).sim
    # Read and written: the state, 16 bytes. Delivered: the observation, 16. Read: the push, 4. Written: the reward, 4.
    # Read and written by the engine: step 4, and phase, ended, terminated, truncated, done 1 each.
    assert speed.bytes_of_step(sim) == 100 * (3 * 16 + 4 + 4 + 2 * 9)


def test_the_peer_is_the_same_cartpole() -> None:
    env = checks.maker("cpu")("cartpole", 500)
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


# ---- the stages, with emulated CUDA units and a pretended device -----------------------------------------------------

support.COMPILED.update({f"checked_{name}": make for name, make in ENVIRONMENTS.items()})
SMALL = {"cartpole": 300, "kitchens": 5, "hanabi": 5, "decks": 5, "skirmish": 5, "garden": 5, "meadow": 2}


class Stream:
    """In place of torch's streams and events: everything is done when it is called."""

    cuda_stream = None

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def record(self) -> None:
        self.recorded = time.perf_counter()

    def query(self) -> bool:
        return False  # the device is asleep

    def elapsed_time(self, end: Stream) -> float:
        return 1e3 * (end.recorded - self.recorded)  # ms


class InOrder:
    """In place of a pool of threads."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> InOrder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


def pretended_capture(function: Callable[[], Any], warm_ups: int = 3) -> tuple[Any, Any]:
    for _ in range(warm_ups):
        returned = function()
    return SimpleNamespace(replay=function), returned


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulated")


@pytest.fixture(scope="module")
def make_on() -> Callable[..., Make]:
    """In place of ``checks.maker``: CUDA's executors are emulated."""

    def maker(device: str, executor: str | None = None) -> Make:
        def make(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
            if device == "cpu":
                arguments |= {"executor": executor}
            else:
                arguments |= {"_library": support.emulated_cuda(f"checked_{name}", executor or "graph")}
            return TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=worlds, **arguments)

        return make

    return maker


@pytest.fixture
def pretended(units: Path, make_on: Callable[..., Make], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Findings]:
    """Runs a stage here, with one of the executors of CUDA."""
    for module in (stages, cuda_checks, tools):
        monkeypatch.setattr(module, "maker", make_on)
        if hasattr(module, "ThreadPoolExecutor"):
            monkeypatch.setattr(module, "ThreadPoolExecutor", InOrder)
    monkeypatch.setattr(tools, "run_apart", lambda run, *arguments: tools._RUNS[run](*arguments))
    monkeypatch.setattr(stages, "CUDA", ("graph",))
    monkeypatch.setattr(stages, "_SIZES", SMALL)
    monkeypatch.setattr(stages, "_FEW", 2)
    monkeypatch.setattr(stages, "_LONG", 60)
    monkeypatch.setattr(stages, "_TUNE_SECONDS", 0.2)
    monkeypatch.setattr(speed, "DEVICE", "cpu")
    monkeypatch.setattr(speed, "copy_bandwidth", lambda: 1e12)
    for module in (cuda_checks, speed):
        monkeypatch.setattr(module, "capture", pretended_capture)
    stream = Stream()
    stand_ins = {
        "Stream": Stream, "Event": Stream, "current_stream": lambda device=None: stream, "synchronize": lambda *_: None,
        "stream": lambda stream: nullcontext(), "_sleep": lambda cycles: None, "device_count": lambda: 1,
        "set_sync_debug_mode": lambda mode: None, "mem_get_info": lambda: (0, 0),
        "memory_stats": lambda: {"allocation.all.allocated": 0},
    }  # fmt: skip
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    cuda_checks.cycles_of.cache_clear()

    def run(name: str) -> Findings:
        found = Findings(units / f"{name}.findings", time.time() + 1000)
        next(stage for stage in stages.STAGES if stage.name == name).run(found)
        return found

    return run


def expect_passed(found: Findings, skipped: int = 0) -> None:
    failed = [check for check in found.found["checks"] if check["status"] == "failed"]
    assert not failed, "\n".join(f"{check['name']}: {check['traceback']}" for check in failed)
    assert sum(check["status"] == "skipped" for check in found.found["checks"]) == skipped


@pytest.mark.parametrize("name", ["bits", "faults", "memory", "repeat"])
def test_stages_of_bits(pretended: Callable[[str], Findings], name: str) -> None:
    expect_passed(pretended(name))


@pytest.mark.parametrize("executor", EXECUTORS["cuda"][1:])
@pytest.mark.parametrize("name", ["garden", "meadow", "decks"])
def test_other_executors(make_on: Callable[..., Make], name: str, executor: str) -> None:
    for mode in AutoresetMode:
        checks.same_as(CPU, make_on("cuda", executor), name, SMALL[name], 26, mode)


def test_stages_of_streams_and_graphs(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_checks, "growth_in_capture", lambda make: "")  # nothing can be captured here
    expect_passed(pretended("capture"))
    expect_passed(pretended("streams"), skipped=1)  # no second device


def test_waiting_is_found_out(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "query", lambda self: True)
    make = stages.maker("cuda", "graph")
    with pytest.raises(AssertionError, match="has waited for the device"):
        cuda_checks.no_waiting(make, "cartpole", 100)


def test_growth_in_a_capture(make_on: Callable[..., Make], monkeypatch: pytest.MonkeyPatch) -> None:
    capturing = []

    @contextmanager
    def graph(_: object) -> Iterator[None]:
        capturing.append(True)
        try:
            yield
        finally:
            capturing.clear()

    grow = Entities.grow

    def refuse(entities: Entities) -> None:
        if capturing:
            raise RuntimeError("it cannot be captured")
        grow(entities)

    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    make = make_on("cuda", "graph")
    with pytest.raises(AssertionError, match="was captured"):
        cuda_checks.growth_in_capture(make)
    monkeypatch.setattr(Entities, "grow", refuse)
    assert cuda_checks.growth_in_capture(make) == "it cannot be captured"


@pytest.mark.parametrize("name", ["tune", "trace"])
def test_stages_of_tuning_and_tracing(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(stages, "maker", lambda device, executor=None: CPU)
    monkeypatch.setattr(stages, "CUDA", EXECUTORS["cuda"])
    expect_passed(pretended(name))
    if name == "tune":
        found = Findings(tmp_path / "found", time.time() + 1000)
        assert "gain" in stages._measure_tuned(found, "cartpole", 64, 1e12)
        assert found.found["tables"]["Steps of cartpole"][0]["executor"] == "tuned: batch"


def test_stages_of_figures(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stages, "_measure_tuned", lambda *_: "")
    for kind in ("_TRACED", "_TUNED"):  # which an emulated library cannot be
        monkeypatch.setattr(stages, kind, ())
    monkeypatch.setattr(speed, "compiled_cartpole", lambda: speed.torch_cartpole)
    expect_passed(pretended("build"))
    monkeypatch.setattr(stages, "_ROLLOUTS", (100, 200))
    found = pretended("peers")
    expect_passed(found)
    assert len(found.found["tables"]["Rollouts of CartPole"]) == 6
    for name in ("cartpole", "hanabi", "swarm"):
        found = Findings(tmp_path / name, time.time() + 1000)
        stages._speed(found, name, (3, 4), tuned=(3,))
        expect_passed(found)
        rows = found.found["tables"][f"Steps of {name}"]
        assert [row["worlds"] for row in rows] == [3, 4]
        assert all(("drawing us" in row) == (name == "hanabi") for row in rows)
    late = Findings(tmp_path / "late", time.time() + 5)
    stages._speed(late, "cartpole", (3, 4), tuned=())
    assert late.found["checks"] == [] and late.found["notes"][-1] == "From 3 worlds on: no time left."


def test_stages_of_tools(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, said in (("compute-sanitizer", "played to the end\nERROR SUMMARY: 0 errors"), ("ncu", NCU)):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        tool.chmod(0o755)
    monkeypatch.setattr(stages, "find_tool", lambda name: str(tmp_path / name))
    expect_passed(pretended("sanitizers"))
    found = pretended("profile")
    expect_passed(found)
    assert all(len(rows) == 2 for rows in found.found["tables"].values())
    monkeypatch.setattr(stages, "find_tool", lambda name: None)
    for name in ("sanitizers", "profile"):
        with pytest.raises(Skipped, match="not installed"):
            pretended(name)


def test_what_the_tools_look_at(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.profiler, "profile", nullcontext)
    tools.play_all("graph")
    tools.profile_steps("cartpole", "graph", 8)


# ---- that the checks notice something --------------------------------------------------------------------------------


def spoiled(spoil: Callable[[TorchVectorEnv], None], which: int, after: int) -> Make:
    """Makes environments of which the ``which``-th does something else after so many steps."""
    number = itertools.count()

    def make(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
        env = checks.maker("cpu")(name, worlds, **arguments)
        if next(number) == which:
            step, taken = env.step, itertools.count(1)

            def wrong_step(actions: torch.Tensor) -> Any:
                results = step(actions)
                if next(taken) == after:
                    spoil(env)
                return results

            env.step = wrong_step
        return env

    return make


def other_numbers(env: TorchVectorEnv) -> None:
    """World 1 draws other random numbers from now on."""
    mask = torch.zeros(env.num_worlds, dtype=torch.bool)
    mask[1] = True
    env.sim.reseed(5, mask)


def other_rows(env: TorchVectorEnv) -> None:
    env.sim.ragged("Plant.Stem.height").values[0] += 1


@pytest.mark.parametrize(
    "check",
    [
        lambda make: checks.same_as(CPU, make(0), "garden", 20, 20, AutoresetMode.SAME_STEP),
        lambda make: checks.repeatable(make(1), "garden", 20, 20),
        lambda make: checks.batch_size(make(1), "garden", 5, 20, 20),
        lambda make: checks.bound(make(1), "garden", 20, 20),
        lambda make: checks.growth(CPU, make(0), 20, 20),
        lambda make: checks.late_growth(make(1), 20, 20),
        lambda make: checks.state_moves(CPU, make(0, 15), "garden", 20),
        lambda make: checks.copies(make(0, 12)),
    ],
)
@pytest.mark.parametrize("spoil", [other_numbers, other_rows])
def test_checks_notice(check: Callable[..., str], spoil: Callable[[TorchVectorEnv], None]) -> None:
    with pytest.raises(AssertionError, match=r"differs|bytes for"):
        check(lambda which, after=5: spoiled(spoil, which, after))


def test_faults_that_are_not_told_are_noticed() -> None:
    def silent(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
        env = CPU(name, worlds, **arguments)
        env.step = env.check_faults = lambda *_: None
        return env

    for check in (checks.overflow, checks.system_fault):
        with pytest.raises(AssertionError, match="no world has a fault"):
            check(silent, silent)
