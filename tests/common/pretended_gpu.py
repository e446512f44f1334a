"""A pretended GPU: emulated CUDA units, and stand-ins for ``torch.cuda``, for the stages of the GPU check."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import support
import torch
from torch_batchsim.train.rollouts import captured

from torch_batchsim import Checks, TorchVectorEnv
from torch_batchsim.bench.physics_levels import make_levels
from torch_batchsim.build import emulation
from torch_batchsim.build.codegen import Target
from torch_batchsim.build.jit import Library
from torch_batchsim.gpu_check import (
    builds,
    environments,
    graphs,
    large,
    lifetimes,
    speed,
    speed_stages,
    stages,
    streams,
    tools,
)
from torch_batchsim.gpu_check.environments import ENVIRONMENTS
from torch_batchsim.gpu_check.findings import Findings
from torch_batchsim.gpu_check.playing import Make
from torch_batchsim.resolve.program import Program
from torch_batchsim.run.simulator import Simulator

for name in ("hideseek", "hunt"):  # with the options of that build which other tests have
    ENVIRONMENTS[name] = partial(ENVIRONMENTS[name], critic=True)
support.COMPILED.update({f"checked_{name}": make for name, make in ENVIRONMENTS.items()})
support.COMPILED["checked_bodies"] = environments.COMPILED["bodies"]
PROPERTIES = SimpleNamespace(
    name="Made Up", major=9, minor=0, multi_processor_count=4, total_memory=2**36, shared_memory_per_block_optin=232_448
)
SMALL = {**dict.fromkeys(ENVIRONMENTS, 5), "cartpole": 300, "overcooked": 6, "meadow": 2, "hideseek": 3}
SMALL.update({"hunt": 1, "console": 1})


NCU = """==PROF== Connected to process 4242 (/usr/bin/python3)
==PROF== Profiling "node_kernel" - 0: 0%....50%....100% - 1 pass
"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","void tbs::run<tbs::Node1, tbs::Context>(int)","(256, 1, 1)","(64, 1, 1)","gpu__time_duration.sum","nsecond","4,512"
"0","void tbs::run<tbs::Node1, tbs::Context>(int)","(256, 1, 1)","(64, 1, 1)","dram__bytes_read.sum","byte","1,500,000"
"1","void tbs::settle<8>(int)","(256, 1, 1)","(8, 1, 1)","launch__registers_per_thread","register/thread","40"
"1","void tbs::settle<8>(int)","(256, 1, 1)","(8, 1, 1)","dram__bytes_read.sum","byte","n/a"
"""


class Stream:
    """In place of torch's streams and events: everything is done when it is called."""

    cuda_stream = None

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def wait_event(self, event: Stream) -> None:
        pass

    def synchronize(self) -> None:
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


def pretended_capture(function: Callable[[], Any], warm_ups: int = 3, generators: Any = ()) -> tuple[Any, Any]:
    returned = None
    for _ in range(warm_ups):
        returned = function()
    return SimpleNamespace(replay=function), returned


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulated")


def emulated_maker(device: str, executor: str | None = None) -> Make:
    """In place of ``playing.maker``: CUDA's executors are emulated."""

    def make(name: str, worlds: int | None, **arguments: Any) -> TorchVectorEnv:
        def load(target: Target) -> Library:
            return support.emulated_cuda(f"checked_{name}", target.executor_name, target.plan, target.traced)

        builds.require(name, executor)
        if device == "cpu":
            arguments |= {"executor": executor}
        else:
            library = support.emulated_cuda(f"checked_{name}", executor or "graph")
            if arguments.get("checks"):
                library = emulation.load(Program(ENVIRONMENTS[name](), Checks()), executor or "graph")
            arguments |= {"_library": library, "_loader": load}
        return TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=worlds, **arguments)

    return make


@pytest.fixture(scope="module")
def make_on() -> Callable[..., Make]:
    return emulated_maker


def emulated_bodies(*_: Any, executor: str, **__: Any) -> Simulator:
    """In place of ``make_levels`` on a device."""
    scenes, library = environments.BODIES, support.emulated_cuda("checked_bodies", executor)
    return make_levels(scenes, 2, 5, sleep=False, rays=False, _library=library)


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process' stages run on a pretended GPU, with one of the executors of CUDA."""
    for module in (stages, speed_stages, streams, tools):
        monkeypatch.setattr(module, "maker", emulated_maker)
        if hasattr(module, "ThreadPoolExecutor"):
            monkeypatch.setattr(module, "ThreadPoolExecutor", InOrder)
    monkeypatch.setattr(tools, "run_apart", lambda run, *arguments, seconds: tools._RUNS[run](*arguments))
    for module in (stages, speed_stages):
        monkeypatch.setattr(module, "CUDA", ("graph",))
    monkeypatch.setattr(stages, "_SIZES", SMALL)
    monkeypatch.setattr(stages, "_FEW", 2)
    monkeypatch.setattr(stages, "_LONG", 60)
    monkeypatch.setattr(stages, "_ROUND", 12)
    monkeypatch.setattr(stages, "_MANY", 400)
    monkeypatch.setattr(stages, "_LIMITS", (10_000,))
    monkeypatch.setattr(large, "_EDGE", 2)
    monkeypatch.setattr(stages, "_PLANS", {"cartpole": 2})
    for module in (stages, speed_stages):
        monkeypatch.setattr(module, "_TUNE_SECONDS", 0.2)
    monkeypatch.setattr(speed, "DEVICE", "cpu")
    monkeypatch.setattr(speed, "copy_bandwidth", lambda: 1e12)
    monkeypatch.setattr(speed, "make_levels", emulated_bodies)
    monkeypatch.setattr(speed, "SETTLING", 2)
    monkeypatch.setattr(speed, "_GROWING", 3)
    monkeypatch.setattr(speed, "_ENQUEUED", 2)
    measure = speed.measure
    few = lambda step, batches, worlds, seconds, *more: measure(step, batches, worlds, 0.01, *more)  # noqa: E731
    monkeypatch.setattr(speed, "measure", few)  # figures of an emulated device mean nothing
    for module in (graphs, lifetimes, speed):
        monkeypatch.setattr(module, "capture", pretended_capture)
    monkeypatch.setattr(captured, "DEVICE", "cpu")
    monkeypatch.setattr(captured, "capture", lambda function, generator: SimpleNamespace(replay=function))
    stream = Stream()
    stand_ins = {
        "Stream": Stream, "Event": Stream, "current_stream": lambda device=None: stream, "synchronize": lambda *_: None,
        "stream": lambda stream: nullcontext(), "_sleep": lambda cycles: None, "device_count": lambda: 1,
        "set_sync_debug_mode": lambda mode: None, "mem_get_info": lambda: (2**40, 2**40),
        "cudart": lambda: SimpleNamespace(cudaHostUnregister=lambda address: 1),
        "memory_stats": lambda: {"allocation.all.allocated": 0}, "get_device_properties": lambda _: PROPERTIES,
    }  # fmt: skip
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    streams.cycles_of.cache_clear()


@pytest.fixture
def pretended(units: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Findings]:
    """Runs a stage here."""
    pretend(monkeypatch)

    def run(name: str) -> Findings:
        found = Findings(units / f"{name}.findings", time.time() + 1000)
        next(stage for stage in stages.STAGES if stage.name == name).run(found)
        return found

    return run
