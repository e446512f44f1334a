"""The paper's experiments: what is measured, cells that fail do not end the rest, figures are written."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from torch_batchsim.envs.hideseek import HideSeek

from torch_batchsim import TorchVectorEnv, testing
from torch_batchsim.bench import paper, paper_report
from torch_batchsim.bench.crowds import CROWDS, make_kitchen
from torch_batchsim.bench.micro import Micro
from torch_batchsim.bench.throughput import Rate
from torch_batchsim.resolve.executors import EXECUTORS

# ---- measuring -------------------------------------------------------------------------------------------------------


@pytest.fixture
def options(tmp_path: Path) -> paper.PaperOptions:
    return paper.PaperOptions(seconds=0.001, runs=3, warm_up_seconds=0.1, tune_seconds=0.1, output=tmp_path / "out")


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a few steps for each run, and not a tenth of a second."""

    def measure(step: Any, actions: Any, worlds: int, seconds: float, runs: int, device: str) -> Rate:
        started = time.perf_counter()
        for i in range(4):
            step(actions[i])
        rate = 4 * worlds / (time.perf_counter() - started)
        return Rate(rate, rate, rate)

    monkeypatch.setattr(paper, "measure", measure)


def micro(agents: int = 3, **arguments: Any) -> TorchVectorEnv:
    return TorchVectorEnv(Micro(agents=agents, work=1), **arguments)


@pytest.mark.full
def test_rates_count_worlds_and_agents(options: paper.PaperOptions) -> None:
    cell = paper.side_by_side({"batch": partial(micro, num_worlds=5)}, options)["batch"]
    assert len(cell["runs"]) == 3
    assert cell["slowest_run"] == min(cell["runs"]) <= cell["world_steps_per_second"] == np.median(cell["runs"])
    assert cell["fastest_run"] == max(cell["runs"])
    assert cell["agents"] == 3 and cell["agent_steps_per_second"] == 3 * cell["world_steps_per_second"]


@pytest.mark.full
def test_tables_have_grown_before_the_first_run() -> None:
    def swarm(worlds: int) -> TorchVectorEnv:
        env = gymnasium.make_vec("torch_batchsim/Swarm-v0", num_worlds=worlds).unwrapped
        env.reset(seed=0)
        return env

    env = swarm(8)
    paper.warm_up(env, testing.random_actions(env), 60.0)
    assert env.sim.layout > 0
    stopped = swarm(500)
    paper.warm_up(stopped, testing.random_actions(stopped), 1e-6)
    assert int(stopped.sim.tensor("World.step").max()) == 1


@pytest.mark.full
def test_runs_are_taken_in_turn(options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = []

    def make(name: str) -> TorchVectorEnv:
        env = micro(num_worlds=2)
        step = env.step
        monkeypatch.setattr(env, "step", lambda actions: (stepped.append(name), step(actions)))
        return env

    paper.side_by_side({name: partial(make, name) for name in "ab"}, options)
    assert "".join(stepped) == "aaaabbbb" * 3


@pytest.mark.full
def test_what_fails_is_text_in_its_cell(options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory() -> TorchVectorEnv:
        raise MemoryError

    def breaks_in_the_second_run() -> TorchVectorEnv:
        env, faults = micro(num_worlds=2), iter([None, RuntimeError("world 1 fell apart\nin two")])

        def check() -> None:
            if error := next(faults):
                raise error

        monkeypatch.setattr(env.sim, "check_faults", check)
        return env

    makers = {"small": no_memory, "broken": breaks_in_the_second_run, "good": partial(micro, num_worlds=2)}
    cells = paper.side_by_side(makers, options)
    assert cells["small"] == {"error": "MemoryError: "}
    assert cells["broken"] == {"error": "RuntimeError: world 1 fell apart\nin two"}
    assert len(cells["good"]["runs"]) == 3


@pytest.mark.full
def test_every_executor_is_measured_at_every_batch_size(options: paper.PaperOptions) -> None:
    options.batch_sizes, made = [8, 2, 8], []

    def make(**arguments: Any) -> TorchVectorEnv:
        made.append((arguments["num_worlds"], arguments["executor"]))
        return micro(**arguments)

    records = paper.measure_batch({"micro": make}, options)
    assert made == [(worlds, executor) for worlds in (2, 8) for executor in EXECUTORS["cpu"]]
    assert [(r["environment"], r["num_worlds"], r["agents"]) for r in records] == [("micro", 2, 3), ("micro", 8, 3)]
    assert all(tuple(r["cells"]) == EXECUTORS["cpu"] for r in records)


@pytest.mark.full
def test_default_batch_sizes_reach_those_of_the_paper(options: paper.PaperOptions) -> None:
    greatest = {name: options.sizes(name)[-1] for name in ("overcooked", "cartpole", "anything")}
    assert greatest == {"overcooked": 16384, "cartpole": 65536, "anything": 4096}
    options.device = "cuda"
    greatest = {name: options.sizes(name)[-1] for name in ("hideseek", "overcooked", "hanabi", "cartpole")}
    assert greatest == {"hideseek": 32768, "overcooked": 65536, "hanabi": 131072, "cartpole": 1048576}
    assert options.sizes("hideseek") == [64, 256, 1024, 4096, 16384, 32768]


@pytest.mark.full
def test_every_executor_is_measured_with_every_number_of_agents(
    options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make(agents: int, **arguments: Any) -> TorchVectorEnv:
        made.append((arguments["num_worlds"], agents, arguments["executor"]))
        return micro(agents, **arguments)

    for name, crowd in CROWDS.items():
        monkeypatch.setitem(CROWDS, name, dataclasses.replace(crowd, make=make))
    options.agents_environments, options.agents, options.agents_batch_sizes = ["overcooked"], [16, 3], [4, 1, 4]
    records = paper.measure_agents(options)
    assert made == [(w, a, executor) for w in (1, 4) for a in (3, 16) for executor in EXECUTORS["cpu"]]
    assert [(r["environment"], r["num_worlds"], r["agents"]) for r in records] == [
        ("overcooked", w, a) for w in (1, 4) for a in (3, 16)
    ]


@pytest.mark.full
def test_default_numbers_of_agents_are_those_of_each_environment(options: paper.PaperOptions) -> None:
    assert options.agents_environments == ["micro", "overcooked", "hideseek"]
    assert options.over_agents("micro") == [(w, a) for w in (16, 128) for a in (1, 4, 16, 64, 256, 1024)]
    options.device = "cuda"
    assert options.over_agents("overcooked") == [(1024, a) for a in (2, 4, 8, 16, 24, 32, 40)]
    assert options.over_agents("hideseek") == [(16384, a) for a in (2, 5, 10, 20, 40)]
    options.agents, options.agents_batch_sizes = [5, 3], [7]
    assert options.over_agents("overcooked") == options.over_agents("micro") == [(7, 3), (7, 5)]


@pytest.mark.full
def test_the_kitchen_has_room_for_40_chefs_and_a_gpu_for_the_kitchens() -> None:
    env = make_kitchen(40, num_worlds=1)
    assert env.num_agents == 40 and env.single_observation_space.shape == (10, 8, 216)
    assert len(EXECUTORS["cuda"]) * 1024 * env.sim.bytes_per_world < 8e9
    [layout] = make_kitchen(2, num_worlds=1).environment.layouts
    (x, y), (other_x, other_y) = layout.starts[:2]
    assert abs(x - other_x) + abs(y - other_y) > 4  # chefs that are few do not start in one corner


@pytest.mark.full
def test_masks_are_honoured_and_drawing_is_told(options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    legal = []

    def make(**arguments: Any) -> TorchVectorEnv:
        env = TorchVectorEnv(Duel(), **arguments)
        step = env.step

        def checked(actions: torch.Tensor) -> Any:
            mask, rows = env.action_mask, torch.arange(env.num_envs)
            legal.append(bool((mask[rows, actions[:, 0]] & mask[rows, 3 + actions[:, 1]]).all()))
            return step(actions)

        monkeypatch.setattr(env, "step", checked)
        return env

    options.batch_sizes = [30]
    records = paper.measure_batch({"duel": make, "micro": micro}, options)
    assert len(legal) == 2 * 3 * 4 and all(legal)
    drawing = {r["environment"]: [cell["us_of_drawing"] for cell in r["cells"].values()] for r in records}
    assert min(drawing["duel"]) > 0 and drawing["micro"] == [0.0, 0.0]
    text = paper_report.tables({"batch": records, "device_type": "cpu"})
    assert "Steps of duel include drawing actions that its masks allow" in text


class _Report:
    gain = 1.5
    chosen = "tiles of 7 worlds"

    def as_dict(self) -> dict[str, float]:
        return {"gain": 1.5}


@pytest.mark.full
def test_tuning_is_compared_with_the_default_executor(
    options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, tuned = [], []

    def make(**arguments: Any) -> TorchVectorEnv:
        made.append(arguments.get("executor"))
        return micro(**arguments)

    def tune(sim: Any, seconds: float = 5.0) -> _Report:
        tuned.append((sim.num_worlds, seconds))
        return _Report()

    monkeypatch.setattr("torch_batchsim.Simulator.tune", tune)
    options.batch_sizes = [2, 6]
    [record] = paper.measure_tune({"micro": make}, options)
    assert made == ["batch", None] and tuned == [(6, 0.1)]
    ratios = np.divide(record["cells"]["tuned"]["runs"], record["cells"]["default"]["runs"])
    assert (record["gain"], record["gain_least"], record["gain_most"]) == (np.median(ratios), min(ratios), max(ratios))
    assert record["report"] == {"gain": 1.5} and record["chosen"] == "tiles of 7 worlds"


@pytest.mark.full
def test_what_tuning_reports_is_kept(options: paper.PaperOptions) -> None:
    options.batch_sizes = [5]
    [record] = paper.measure_tune({"micro": micro}, options)
    assert record["gain_least"] <= record["gain"] <= record["gain_most"]
    assert ", tiles of " in record["chosen"]  # by which executor depends on the machine's mood
    assert json.loads(json.dumps(record["report"]))["candidates"]


@pytest.mark.full
def test_without_tuning_there_is_no_gain(options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(sim: Any, seconds: float = 5.0) -> None:
        raise RuntimeError("no counters")

    monkeypatch.setattr("torch_batchsim.Simulator.tune", tune)
    options.batch_sizes = [2]
    [record] = paper.measure_tune({"micro": micro}, options)
    assert record["cells"]["tuned"] == {"error": "RuntimeError: no counters"} and "gain" not in record
    assert "runs" in record["cells"]["default"]
    text = paper_report.tables({"tune": [record]})
    assert "failed [1]" in text and text.endswith("[1] RuntimeError: no counters")


@pytest.mark.full
def test_the_shortest_of_several_steps_is_traced(
    options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, traced_step = [], paper._traced_step

    def kept(env: TorchVectorEnv, actions: Any) -> Any:
        trace = traced_step(env, actions)
        assert trace.steps == 1
        spans.append(trace.span)
        return trace

    monkeypatch.setattr(paper, "_traced_step", kept)
    options.trace_environment, options.trace_worlds = "micro", 50
    options.output.mkdir()
    [record] = paper.measure_trace(micro, options)
    found = record["cells"]["batch"]
    assert len(spans) == options.runs and found["us"] == min(spans)
    assert "swing" in {task["task"] for task in found["tasks"]}
    assert json.loads(json.dumps(record)) == record
    events = json.loads((options.output / "figure5.json").read_text())
    assert events["otherData"]["steps"] == 1 and (options.output / "figure5.png").is_file()


def test_what_cannot_be_traced_is_told(options: paper.PaperOptions) -> None:
    def no_memory(**arguments: Any) -> TorchVectorEnv:
        raise MemoryError("50 GiB")

    [record] = paper.measure_trace(no_memory, options)
    failed = {"batch": {"error": "MemoryError: 50 GiB"}}
    assert record == {"environment": "hideseek", "num_worlds": 4096, "cells": failed}


@pytest.mark.parametrize("agents, hiders, seekers", [(2, 1, 1), (5, 3, 2), (40, 20, 20)])
def test_hiders_and_seekers_are_as_many(
    agents: int, hiders: int, seekers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(env_id: str, **arguments: Any) -> Any:
        teams = {name: arguments.pop(name) for name in ("hiders", "seekers")}
        HideSeek(**teams)  # which refuses what does not fit
        assert teams == {"hiders": hiders, "seekers": seekers}
        assert (env_id, arguments) == ("torch_batchsim/HideSeek-v0", {"copy": False, "num_worlds": 3})
        return SimpleNamespace(unwrapped="made")

    monkeypatch.setattr(gymnasium, "make_vec", made)
    assert CROWDS["hideseek"].make(agents, num_worlds=3) == "made"


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_all_experiments_end_to_end(
    options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch_batchsim.Simulator.tune", lambda sim, seconds=5.0: _Report())
    sizes = ["--batch-sizes", "2", "4", "--agents", "3", "2000", "--agents-batch-sizes", "2", "--trace-worlds", "8"]
    crowds = ["--agents-environments", "micro", "overcooked", "--trace-environment", "cartpole"]
    small = [*sizes, *crowds, "--runs", "2", "--output", str(options.output)]
    paper.main(["--environments", "cartpole", "micro", *small])
    printed = capsys.readouterr().out
    assert {path.name for path in options.output.iterdir()} == {
        "paper.json", "tables.txt", "figure3.png", "figure4.png", "figure5.png", "figure5.json"
    }  # fmt: skip
    tables = (options.output / "tables.txt").read_text()
    assert tables in printed
    names = ("Table 1", "Table 2", "Figure 3", "Figure 4, micro", "Figure 4, overcooked", "Figure 5")
    assert all(f"{name}." in tables for name in names)
    assert "failed [1]" in tables and "[1] ValueError: option agents must be at most 1024, got 2000" in tables
    assert "failed [2]" in tables and "[2] ValueError: agents must be an integer from 1 to 40, got 2000" in tables
    result = json.loads((options.output / "paper.json").read_text())
    assert "cores" in result["machine"] and "commit" in result["machine"]
    assert [len(result[name]) for name in ("batch", "tune", "agents", "trace")] == [4, 2, 4, 1]
    assert result["tune"][0]["chosen"] == "tiles of 7 worlds" and result["tune"][0]["num_worlds"] == 4
    assert {r["agents"]: "error" in r["cells"]["batch"] for r in result["agents"]} == {3: False, 2000: True}


def test_nothing_measured_is_an_error(options: paper.PaperOptions) -> None:
    arguments = ["--experiments", "agents", "--agents", "2000", "--agents-batch-sizes", "2"]
    with pytest.raises(SystemExit, match="nothing could be measured"):
        paper.main([*arguments, "--output", str(options.output)])
    assert "at most 1024" in (options.output / "tables.txt").read_text()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--agents", "0"], "must be positive"),
        (["--seconds", "0"], "must be positive"),
        (["--warm-up-seconds", "0"], "must be positive"),
        (["--runs", "0"], "must be positive"),
        (["--environments", "cartpol"], "no environment 'cartpol' .*; known are: cartpole, .* \\(and 'micro'\\)"),
        (["--environments", "elsewhere/Maze-v0"], "elsewhere"),
        (["--agents-environments", "cartpole"], "are of micro, overcooked, hideseek, got 'cartpole'"),
        (["--trace-environment", "cartpol"], "no environment 'cartpol'"),
        (["--trace-worlds", "0"], "must be positive"),
        (["--agents-environments"], "--agents-environments needs at least one name"),
        (["--device", "tpu"], "device must be 'cpu', 'cuda' or 'cuda:<index>', got 'tpu'"),
    ],
)
def test_wrong_options_end_in_a_sentence(arguments: list[str], message: str, options: paper.PaperOptions) -> None:
    with pytest.raises(SystemExit, match=message):
        paper.main([*arguments, "--output", str(options.output)])
    assert not options.output.exists()


def test_the_command_line_knows_the_paper() -> None:
    command = [sys.executable, "-m", "torch_batchsim.bench", "paper", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "--agents-batch-sizes" in done.stdout
