"""The stages of the GPU check on a pretended GPU, and that their checks notice what is wrong."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gymnasium.vector import AutoresetMode
from pretended_gpu import NCU, SMALL, Stream

from torch_batchsim import TorchVectorEnv
from torch_batchsim.build.codegen import Target
from torch_batchsim.gpu_check import (
    bits,
    builds,
    choices,
    faults,
    graphs,
    learning,
    lifetimes,
    memory,
    playing,
    speed,
    speed_stages,
    stages,
    streams,
    tools,
)
from torch_batchsim.gpu_check.findings import Findings, Skipped
from torch_batchsim.gpu_check.playing import Make
from torch_batchsim.memory.entities import Entities
from torch_batchsim.resolve.executors import EXECUTORS

pytest_plugins = ["pretended_gpu"]

CPU = playing.maker("cpu")


def expect_passed(found: Findings, skipped: int = 0) -> None:
    failed = [check for check in found.found["checks"] if check["status"] == "failed"]
    assert not failed, "\n".join(f"{check['name']}: {check['traceback']}" for check in failed)
    assert sum(check["status"] == "skipped" for check in found.found["checks"]) == skipped


def test_the_first_stage(pretended: Callable[[str], Findings]) -> None:
    expect_passed(pretended("smoke"))


@pytest.mark.full
@pytest.mark.parametrize("name", ["bits", "long", "large", "faults", "memory", "repeat", "choices"])
def test_stages_of_bits(pretended: Callable[[str], Findings], name: str) -> None:
    expect_passed(pretended(name))


@pytest.mark.full
@pytest.mark.crossed
@pytest.mark.parametrize("executor", EXECUTORS["cuda"][1:])
@pytest.mark.parametrize("name", ["garden", "meadow", "decks"])
def test_other_executors(make_on: Callable[..., Make], name: str, executor: str) -> None:
    for mode in AutoresetMode:
        bits.same_as(CPU, make_on("cuda", executor), name, SMALL[name], 26, mode)


def test_long_builds_are_made_in_the_background(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[tuple[str, ...], float] = {}

    def build(*job: str, seconds: float) -> str:
        limits[job[1:]] = seconds
        return "built"

    monkeypatch.setattr(tools, "run_apart", build)
    expect_passed(pretended("build"))
    assert not {"hideseek", "hunt", "ant", "console", "console_ram"} & {name for name, *_ in limits}
    assert set(limits.values()) == {90.0}
    background = {job for stage in stages.STAGES for job in stage.builds}
    hideseek = {("hideseek", executor) for executor in EXECUTORS["cuda"]}
    assert background == hideseek | {(name, "graph") for name in ("ant", "bodies", "console", "console_ram")}


@pytest.mark.full
def test_builds_in_the_background_give_the_device_no_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """They make what simulators then find in the cache."""
    made, nice = [], []
    monkeypatch.setattr(tools.os, "nice", nice.append)
    monkeypatch.setattr(tools.jit, "load", lambda *given: made.append(given) or SimpleNamespace(build_seconds=3.0))
    for name in ("hideseek", "bodies"):
        tools._RUNS["compile"](name, "megakernel")
    assert nice == [5, 5] and capsys.readouterr().out == 2 * "3.0 s to compile in the background\n"
    for program, target in made:
        assert target == Target("cuda", "megakernel") and program.checks is None and program.log == 0


def test_checks_of_a_long_build_wait_for_it(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The CPU's library too: while none of the builds has ended, the first of them makes it."""
    monkeypatch.setenv(builds.FOLDER, str(tmp_path))
    for executor in EXECUTORS["cuda"]:
        (tmp_path / f"hideseek_{executor}.build").write_text('{"status": "running", "text": ""}')
    (tmp_path / "bodies_graph.build").write_text('{"status": "failed", "text": "ptxas died\\nwith a long text"}')
    (tmp_path / "ant_graph.build").write_text('{"status": "running", "text": ""}')
    monkeypatch.setattr(TorchVectorEnv, "__init__", lambda *_, **__: pytest.fail("it is not to be built"))
    for make in (playing.maker("cpu"), *(playing.maker("cuda", executor) for executor in EXECUTORS["cuda"])):
        for name in ("hideseek", "hunt"):
            with pytest.raises(Skipped, match="no time left: its build is under way"):
                make(name, 3)
    found = Findings(tmp_path / "bodies", time.time() + 60)
    speed_stages.bodies(found)
    checks = {check["name"]: (check["status"], check["text"]) for check in found.found["checks"]}
    assert checks["the build of bodies, graph"] == ("failed", "AssertionError: ptxas died")
    assert checks["8,192 worlds, ant"] == ("skipped", "no time left: its build is under way")
    with pytest.raises(Skipped, match="no time left"):
        tools.sanitize("no tool", "memcheck", "graph", "bodies", 1.0)


def test_too_little_memory_on_chip_is_a_failure(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "bytes a block" in stages._memory_on_chip()
    monkeypatch.setattr(stages, "chip_bytes_of", lambda device: 0)
    with pytest.raises(AssertionError, match="0 bytes a block, wanted"):
        stages._memory_on_chip()


def test_a_refused_cooperative_launch_goes_on_by_tiles(
    make_on: Callable[..., Make], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With another choice from then on, and the report says so. Any other error is an error."""

    class Refused(torch.cuda.CudaError):
        def __init__(self, text: str) -> None:
            RuntimeError.__init__(self, text)

    monkeypatch.setattr(playing, "_by_tiles", False)
    env = make_on("cuda", "graph")("cartpole", 2)
    env.sim.execution.take(replace(env.sim.execution.choice(), together=True))
    monkeypatch.setattr(playing, "TorchVectorEnv", lambda *_, **__: env)
    make, errors = playing.maker("cuda", "graph"), ["too many blocks in cooperative launch (720)"]

    def check() -> str:
        if make("cartpole", 2).sim.execution.choice().together:
            raise Refused(errors[0])
        return "played"

    found = Findings(tmp_path / "found", time.time() + 60)
    found.check("few worlds", check)
    assert found.found["checks"][0]["text"] == "by tiles, because a cooperative launch was refused: played"
    assert found.found["notes"] == [
        "A cooperative launch was refused, so blocks took tiles in turns: "
        "Refused: too many blocks in cooperative launch (720)."
    ]
    assert not playing.goes_on_by_tiles(Refused(errors[0]))  # a second time would be for another reason
    monkeypatch.setattr(playing, "_by_tiles", False)
    assert not playing.goes_on_by_tiles(Refused("an illegal memory access (700)"))


@pytest.mark.full
def test_stages_of_streams_and_graphs(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "growth_in_capture", lambda make: "")  # nothing can be captured here
    expect_passed(pretended("capture"))
    expect_passed(pretended("streams"), skipped=1)  # no second device


@pytest.mark.full
def test_stages_of_lifetimes(pretended: Callable[[str], Findings]) -> None:
    expect_passed(pretended("lifetimes"))


@pytest.mark.full
def test_the_stage_of_learning(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    """Little of it, since emulated steps are slow."""
    monkeypatch.setattr(learning, "CARTPOLE", replace(learning.CARTPOLE, total_steps=3 * 4096))
    monkeypatch.setattr(learning, "KITCHEN", replace(learning.KITCHEN, total_steps=3 * 400, num_envs=4))
    monkeypatch.setattr(learning, "WANTED", 20.0)
    monkeypatch.setattr(learning, "FACTOR", 0.0)
    monkeypatch.setattr(learning, "_WORLDS", 10)
    expect_passed(pretended("learn_overcooked"))
    found = pretended("learn")
    expect_passed(found)
    assert all("12,288 steps" in check["text"] for check in found.found["checks"])
    monkeypatch.setattr(learning, "WANTED", 501.0)
    with pytest.raises(AssertionError, match=r"501; seed 1: .*; seed 2: .*; seed 3"):
        learning.cartpole(CPU, captured=False)


def test_waiting_is_found_out(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "query", lambda self: True)
    make = stages.maker("cuda", "graph")
    with pytest.raises(AssertionError, match="has waited for the device"):
        streams.no_waiting(make, "cartpole", 100)


@pytest.mark.full
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
        graphs.growth_in_capture(make)
    monkeypatch.setattr(Entities, "grow", refuse)
    assert graphs.growth_in_capture(make) == "it cannot be captured"


@pytest.mark.full
@pytest.mark.parametrize("name", ["tune", "trace"])
def test_stages_of_tuning_and_tracing(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in (stages, speed_stages):
        monkeypatch.setattr(module, "maker", lambda device, executor=None: CPU)
    monkeypatch.setattr(stages, "CUDA", EXECUTORS["cuda"])
    monkeypatch.setattr(speed_stages, "_TUNED", {"cartpole": 64})
    found = pretended(name)
    expect_passed(found)
    if name == "tune":
        assert "gain" in found.found["checks"][-1]["text"]
        assert found.found["tables"]["Steps of cartpole"][0]["executor"].startswith("tuned: ")


def recorded() -> list[SimpleNamespace]:
    """Events of eight steps as torch.profiler has them, calls of the host among them."""
    task = "tbs::executors::Task<tbs::{}, (tbs::executors::Phase)1, (tbs::executors::When)0, {}u>"
    nodes = ("Node1_push_cart", "CountStep", "DeliverFlags<1, false>")
    tasks = ", ".join(task.format(node, i) for i, node in enumerate(nodes))
    run = f"tbs::executors::Run<tbs::executors::Cells0, {tasks}>"
    kernel = "void tbs::executors::tile_kernel<tbs::executors::Group<1u, {}>, tbs::Context>(tbs::Context)"
    names = [(kernel.format(run), 10.0, 8), (kernel.format(task.format("KeepFinalRows", 4)), 10.0, 2)]
    names.append(("void at::native::fill", 1.5, 8))
    kinds = torch.autograd.DeviceType
    return [
        SimpleNamespace(name=name, device_type=kind, time_range=SimpleNamespace(elapsed_us=lambda spent=spent: spent))
        for name, spent, times in names
        for kind in (kinds.CUDA, kinds.CPU)
        for _ in range(times)
    ]


@pytest.mark.full
def test_stages_of_figures(
    pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(speed, "compiled_cartpole", lambda: speed.torch_cartpole)
    expect_passed(pretended("build"))
    monkeypatch.setattr(speed_stages, "_ROLLOUTS", (100, 200))
    found = pretended("peers")
    expect_passed(found)
    assert len(found.found["tables"]["Rollouts of CartPole"]) == 6
    monkeypatch.setattr(speed_stages, "_BODIES", (3, 4))
    found = pretended("bodies")
    expect_passed(found)
    assert len(found.found["tables"]["Steps of bodies"]) == len(found.found["tables"]["Steps of ant"]) == 2
    assert found.found["notes"][0].startswith("Goal: 20 M world steps/s")
    monkeypatch.setattr(speed_stages, "_CONSOLES", (3,))
    found = pretended("atari")
    expect_passed(found)
    assert len(found.found["tables"]["Steps of console"]) == len(found.found["tables"]["Steps of console_ram"]) == 1
    for name in ("cartpole", "hanabi", "swarm"):
        found = Findings(tmp_path / name, time.time() + 1000)
        speed_stages._speed(found, name, (3, 4))
        expect_passed(found)
        rows = found.found["tables"][f"Steps of {name}"]
        assert [row["worlds"] for row in rows] == [3, 4]
        assert all(("drawing us" in row) == (name == "hanabi") for row in rows)
    monkeypatch.setattr(speed_stages, "_TIMED", {"cartpole": 3})
    for events in (list, recorded):
        profiled = nullcontext(SimpleNamespace(events=events))
        monkeypatch.setattr(torch.profiler, "profile", lambda activities, profiled=profiled: profiled)
        found = Findings(tmp_path / f"kernels_{events.__name__}", time.time() + 1000)
        speed_stages.kernels(found)
        expect_passed(found, skipped=events is list)  # where there is no CUPTI
    assert found.found["checks"][0]["text"] == "14 us a step in 3 kernels, 71 % of it in push_cart .. DeliverFlags (3)"
    rows = found.found["tables"]["Kernels of cartpole, 3 worlds, graph"]
    assert [(row["kernel"], row["us/step"], row["launches/step"]) for row in rows] == [
        ("push_cart .. DeliverFlags (3)", 10.0, 1.0), ("KeepFinalRows", 2.5, 0.25), ("at::native::fill", 1.5, 1.0)
    ]  # fmt: skip
    late = Findings(tmp_path / "late", time.time() + 5)
    speed_stages._speed(late, "cartpole", (3, 4))
    assert [(check["name"], check["text"]) for check in late.found["checks"]] == [("from 3 worlds on", "no time left")]


def test_stages_of_tools(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, printed in (("compute-sanitizer", "played to the end\nERROR SUMMARY: 0 errors"), ("ncu", NCU)):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
        tool.chmod(0o755)
    monkeypatch.setattr(speed_stages, "find_tool", lambda name: str(tmp_path / name))
    expect_passed(pretended("sanitizers"))
    found = pretended("profile")
    expect_passed(found)
    assert all(len(rows) == 2 for rows in found.found["tables"].values())
    assert next(iter(found.found["tables"])) == "hideseek, 8,192 worlds, graph: kernels of a step"
    # Where the tool knows none of the metrics but the basic ones, these are read.
    last = list(tools.METRICS)[-1]
    refusing = f'#!/bin/sh\ncase "$*" in *{last}*) echo "Failed to find metric {last}"; exit 1;; esac\n'
    (tmp_path / "ncu").write_text(f"{refusing}cat <<'END'\n{NCU}\nEND\n")
    late = Findings(tmp_path / "basic", time.time() + 1000)
    assert tools.profile(late, str(tmp_path / "ncu"), "cartpole", "graph", 8, 30.0) == "2 kernels"
    late = Findings(tmp_path / "late", time.time() + 20)
    speed_stages.sanitizers(late)
    assert {check["text"] for check in late.found["checks"]} == {"no time left"}
    monkeypatch.setattr(speed_stages, "find_tool", lambda name: None)
    for name in ("sanitizers", "profile"):
        with pytest.raises(Skipped, match="not installed"):
            pretended(name)


@pytest.mark.full
def test_programs_under_the_tools_run(pretended: Callable[[str], Findings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.profiler, "profile", nullcontext)
    for games in tools.PLAYED:
        tools.play_all("graph", games)
    tools.profile_step("cartpole", "graph", 8)


# ---- that the checks notice something --------------------------------------------------------------------------------


def spoiled(spoil: Callable[[TorchVectorEnv], None], which: int, after: int) -> Make:
    """Makes environments of which the ``which``-th does something else after so many steps."""
    number = itertools.count()

    def make(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
        env = playing.maker("cpu")(name, worlds, **arguments)
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


@pytest.mark.crossed
@pytest.mark.parametrize(
    "check",
    [
        lambda make: bits.same_as(CPU, make(0), "garden", 20, 20, AutoresetMode.SAME_STEP),
        lambda make: bits.repeatable(make(1), "garden", 20, 20),
        lambda make: bits.batch_size(make(1), "garden", 5, 20, 20),
        lambda make: memory.bound(make(1), "garden", 20, 20),
        lambda make: memory.growth(CPU, make(0), 20, 20),
        lambda make: memory.late_growth(make(1), 20, 20),
        lambda make: memory.state_moves(CPU, make(0, 15), "garden", 20),
        lambda make: memory.copies(make(0, 12)),
    ],
)
@pytest.mark.parametrize("spoil", [other_numbers, other_rows])
def test_checks_notice(check: Callable[..., str], spoil: Callable[[TorchVectorEnv], None]) -> None:
    with pytest.raises(AssertionError, match=r"differs|bytes for"):
        check(lambda which, after=5: spoiled(spoil, which, after))


@pytest.mark.full
def test_unreported_faults_are_noticed() -> None:
    def silent(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
        env = CPU(name, worlds, **arguments)
        env.step = env.check_faults = lambda *_: None
        return env

    for check in (faults.overflow, faults.system_fault):
        with pytest.raises(AssertionError, match="should have a fault"):
            check(silent, silent)


@pytest.mark.parametrize(
    "check",
    [
        lambda make: bits.balanced(CPU, make(0), 20, 510, AutoresetMode.SAME_STEP),
        lambda make: choices.tile(CPU, make(0), "cartpole", 50, 60, 8),
        lambda make: lifetimes.replaced(CPU, make(2), "cartpole", 50),
    ],
)
@pytest.mark.usefixtures("pretended")
def test_checks_of_cartpole_notice(check: Callable[..., str]) -> None:
    def other_pushes(env: TorchVectorEnv) -> None:
        env.sim.tensor("Cart.CartState.x")[1] += 0.5

    with pytest.raises(AssertionError, match="differs"):
        check(lambda which: spoiled(other_pushes, which, 3))


@pytest.mark.usefixtures("pretended")
def test_a_fast_step_before_its_actions_is_noticed() -> None:
    """As on a stream that does not wait for them."""

    def early(name: str, worlds: int) -> TorchVectorEnv:
        env = CPU(name, worlds)
        plainly = env.sim.step_plainly
        env.sim.step_plainly = lambda actions: plainly(torch.zeros_like(actions))
        return env

    with pytest.raises(AssertionError, match=r"step 1: .*differs"):
        streams.fast_step(CPU, early, "cartpole", 50)


@pytest.mark.usefixtures("pretended")
def test_spoiled_captures_and_memory_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(after: int) -> Make:
        """Steps that fail as torch does where something is not permitted."""

        def make(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
            env = stages.maker("cuda", "graph")(name, worlds, **arguments)
            step, taken = env.step, itertools.count(1)

            def refused(actions: torch.Tensor) -> Any:
                if next(taken) > after:
                    raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
                return step(actions)

            env.step = refused
            return env

        return make

    with pytest.raises(AssertionError, match="has spoiled the capture"):
        lifetimes.pending_fault(refusing(7), "cartpole", 20)  # 6 before it, and that with the fault
    with pytest.raises(RuntimeError, match="not permitted"):
        lifetimes.foreign_error(refusing(3), "cartpole", 20)
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *shape, **options: full(*shape, **options).bitwise_not_())
    with pytest.raises(AssertionError, match="bytes of other tensors were written"):
        lifetimes.gone_while_stepping(stages.maker("cuda", "graph"), "cartpole", 20)
