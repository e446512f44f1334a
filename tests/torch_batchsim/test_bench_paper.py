"""The paper's experiments: Micro computes what it says, cells that fail do not end the rest, figures are written."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from support import assert_same_bits, compiled, random_actions, snapshot

from torch_batchsim import TorchVectorEnv, jit, testing
from torch_batchsim.bench import charts, paper
from torch_batchsim.bench.crowds import CROWDS, make_kitchen
from torch_batchsim.bench.micro import Micro
from torch_batchsim.bench.throughput import Rate
from torch_batchsim.executors import EXECUTORS

f32 = np.float32
Sincos = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

# ---- Micro -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sincos() -> Sincos:
    """The engine's sine and cosine for numpy, to the bit; numpy's own round differently."""
    source = (
        '#include "tbs/math.h"\n'
        'extern "C" void sincos_of(const float *x, float *sine, float *cosine, long n) {\n'
        "    for (long i = 0; i < n; ++i) tbs::sincos(x[i], sine[i], cosine[i]);\n"
        "}\n"
    )
    flags = ["-std=c++20", "-ffp-contract=off", "-fPIC", "-shared", f"-I{jit.CSRC}"]
    function = ctypes.CDLL(str(compiled(source, flags, jit._engine_sources()))).sincos_of

    def call(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.ascontiguousarray(x)
        sine, cosine = np.empty_like(x), np.empty_like(x)
        function(*(array.ctypes.data_as(ctypes.c_void_p) for array in (x, sine, cosine)), ctypes.c_long(x.size))
        for got, exact in ((sine, np.sin(x.astype(np.float64))), (cosine, np.cos(x.astype(np.float64)))):
            np.testing.assert_allclose(got, exact, rtol=0, atol=2**-24)
        return sine, cosine

    return call


def swing(pendulums: np.ndarray, actions: np.ndarray, work: int, sincos: Sincos) -> np.ndarray:
    """The model of a step: ``pendulums`` ``[rows, 2]`` are angles and speeds."""
    angle, speed = pendulums.T
    dt, torque = f32(0.05) / f32(work), f32(0.5) * (actions - 1).astype(f32)
    for _ in range(work):
        speed = speed + dt * (sincos(angle)[0] + torque - f32(0.1) * speed)
        angle = angle + dt * speed
    return np.stack([angle, speed], axis=1)


def observe(pendulums: np.ndarray, sincos: Sincos) -> np.ndarray:
    return np.stack([*sincos(pendulums[:, 0]), pendulums[:, 1]], axis=1)


VARIANTS = [("cpu", executor, threads) for executor in EXECUTORS["cpu"] for threads in (1, 2)]
if torch.cuda.is_available():
    VARIANTS += [("cuda", executor, None) for executor in EXECUTORS["cuda"]]


@pytest.mark.full
@pytest.mark.parametrize("agents, worlds", [(1, 2500), (3, 900), (16, 250), (200, 30)])  # enough for two threads
def test_micro_is_its_model_on_every_executor(agents: int, worlds: int, sincos: Sincos) -> None:
    work, length, ends = 9, 5, []
    for device, executor, threads in VARIANTS:
        env = TorchVectorEnv(
            Micro(agents=agents, work=work, max_episode_steps=length),
            num_worlds=worlds, device=device, executor=executor, num_threads=threads,
        )  # fmt: skip
        generator = np.random.default_rng(3)

        def pendulums(env: TorchVectorEnv = env) -> np.ndarray:
            return env.sim.tensor("Agent.Pendulum").reshape(-1, 2).cpu().numpy().copy()

        observations, _ = env.reset(seed=4)
        state = check_start(pendulums(), observations, sincos)
        for step in range(1, 13):
            actions = random_actions(env, generator)
            observations, rewards, terminations, truncations, infos = env.step(actions.to(device))
            state = swing(state, actions.numpy(), work, sincos)
            np.testing.assert_array_equal(rewards.cpu(), sincos(state[:, 0])[1])
            assert not terminations.any()
            if step % length:
                assert not truncations.any()
                np.testing.assert_array_equal(pendulums(), state)
                np.testing.assert_array_equal(observations.cpu(), observe(state, sincos))
            else:
                assert truncations.all()
                np.testing.assert_array_equal(infos["final_obs"].cpu(), observe(state, sincos))
                state = check_start(pendulums(), observations, sincos)
        ends.append({name: tensor.cpu() for name, tensor in snapshot(env.sim).items()})
    for end in ends[1:]:
        assert_same_bits(ends[0], end)


def check_start(pendulums: np.ndarray, observations: torch.Tensor, sincos: Sincos) -> np.ndarray:
    angle, speed = pendulums.T
    assert (abs(angle - np.pi) <= 0.5).all() and angle.std() > 0.2 and (speed == 0).all()
    np.testing.assert_array_equal(observations.cpu(), observe(pendulums, sincos))
    return pendulums


@pytest.mark.full
def test_work_does_not_change_what_a_step_is(sincos: Sincos) -> None:
    """More small steps are a finer integration of the same motion."""
    start = np.array([[3.0, 0.0], [2.5, 1.0]], f32)
    coarse, fine = start, start
    for _ in range(20):
        coarse = swing(coarse, np.array([0, 2]), 8, sincos)
        fine = swing(fine, np.array([0, 2]), 512, sincos)
    np.testing.assert_allclose(coarse, fine, atol=0.01)
    assert abs(fine - start).max() > 0.3


@pytest.mark.parametrize("agents", [0, 1025])
def test_micro_refuses_other_numbers_of_agents(agents: int) -> None:
    with pytest.raises(ValueError, match=f"option agents must be at .*, got {agents}"):
        Micro(agents=agents)


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
    assert options.agents_environments == ["micro", "overcooked"]
    assert options.over_agents("micro") == [(w, a) for w in (16, 128) for a in (1, 4, 16, 64, 256, 1024)]
    options.device = "cuda"
    assert options.over_agents("overcooked") == [(1024, a) for a in (2, 4, 8, 16, 24, 32, 40)]
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
    text = paper.tables({"batch": records, "device_type": "cpu"})
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
    text = paper.tables({"tune": [record]})
    assert "failed [1]" in text and text.endswith("[1] RuntimeError: no counters")


# ---- showing ---------------------------------------------------------------------------------------------------------


def cell(rate: float, agents: int = 1) -> paper.Cell:
    return {
        "agents": agents, "world_steps_per_second": rate, "agent_steps_per_second": rate * agents,
        "slowest_run": 0.9 * rate, "fastest_run": 1.1 * rate, "runs": [rate],
    }  # fmt: skip


def sweep(name: str, agents: int | None, *cells: tuple[int, paper.Cell, paper.Cell]) -> list[paper.Record]:
    return [
        {"environment": name, "num_worlds": worlds, "agents": agents, "cells": {"batch": batch, "per_world": other}}
        for worlds, batch, other in cells
    ]


FAILED = {"error": "MemoryError: no 3 GiB\nhere"}
BATCH = [
    *sweep("cartpole", 1, (64, cell(2e6), cell(1e6)), (1024, cell(3e8), FAILED), (4096, cell(2e8), cell(5e5))),
    *sweep("maze", None, (64, FAILED, {"error": "OSError: "})),
]


def lines_of(text: str, start: str) -> list[list[str]]:
    """The cells of the table that follows the line that begins with ``start``."""
    block = text[text.index(start) :].split("\n\n")[0]
    return [[part.strip() for part in line.split("  ") if part.strip()] for line in block.splitlines()]


def test_table_1_shows_peaks_beside_the_papers() -> None:
    text = paper.tables({"batch": BATCH, "device_type": "cpu"})
    rows = {line[0]: line[1:] for line in lines_of(text, "Table 1") if len(line) > 1}
    assert rows["executor"] == ["cartpole", "maze", "hideseek", "overcooked", "hanabi"]
    assert rows["batch"] == ["300.0 M @ 1K", "failed [1]", "-", "-", "-"]
    assert rows["per_world"] == ["1.0 M @ 64", "failed [2]", "-", "-", "-"]
    assert rows["paper BATCH-ECS-GPU"] == ["3.4 G", "-", "1.9 M", "40.0 M", "21.0 M"]
    assert rows["paper ECS-CPU"] == ["28.0 M", "-", "160.0 k", "1.2 M", "4.1 M"]
    assert "the paper's own figures, on other hardware: GeForce RTX 4090" in text
    assert text.endswith("[1] MemoryError: no 3 GiB\n[2] OSError: ")


def test_figures_3_and_4_as_tables() -> None:
    rows = lines_of(paper.tables({"batch": BATCH, "device_type": "cpu"}), "Figure 3")
    assert rows[1] == ["environment", "worlds", "agents", "batch", "per_world"]
    assert rows[4:] == [
        ["cartpole", "1K", "1", "300.0 M", "failed [1]"],
        ["cartpole", "4K", "1", "200.0 M", "500.0 k"],
        ["maze", "64", "-", "failed [1]", "failed [2]"],
    ]
    few, many = sweep("micro", 16, (128, cell(2e3, 16), FAILED)), sweep("overcooked", 40, (16, FAILED, cell(1e3, 40)))
    text = paper.tables({"agents": [*few, *many]})
    rows = lines_of(text, "Figure 4, micro.")
    assert rows[2] == ["worlds", "agents", "batch worlds", "batch agents", "per_world worlds", "per_world agents"]
    assert rows[4:] == [["128", "16", "2.0 k", "32.0 k", "failed [1]", "failed [1]"]]
    rows = lines_of(text, "Figure 4, overcooked.")
    assert rows[4:] == [["16", "40", "failed [1]", "failed [1]", "1.0 k", "40.0 k"]]
    assert "drawing" not in text


def test_table_2_shows_gains_beside_the_papers() -> None:
    record = {"environment": "maze", "num_worlds": 64, "cells": {"default": cell(1e6), "tuned": cell(2e6)}}
    rows = lines_of(paper.tables({"tune": [record | {"gain": 1.98, "chosen": "tiles of 7 worlds"}]}), "Table 2")
    assert rows[-2:] == [
        ["maze", "64", "1.0 M", "2.0 M", "1.98", "tiles of 7 worlds"],
        ["paper hideseek", "32K", "1.4 M", "1.9 M", "1.35", "-"],
    ]


def test_panels_hold_what_did_not_fail() -> None:
    cartpole, maze = paper.batch_panels(BATCH)
    assert cartpole.title == "cartpole" and [line.label for line in cartpole.lines] == ["batch", "per_world"]
    assert [point[:2] for point in cartpole.lines[1].points] == [(64, 1e6), (4096, 5e5)]
    assert not any(line.points for line in maze.lines)
    few, many = sweep("micro", 16, (16, cell(2e3, 16), FAILED), (128, cell(1e3, 16), cell(3e3, 16)))
    agents, worlds, *others = paper.agents_panels([few, many, *sweep("overcooked", 2, (16, cell(1e3, 2), FAILED))])
    assert (agents.title, worlds.title) == ("micro: steps of agents", "micro: steps of worlds")
    assert [panel.title for panel in others] == ["overcooked: steps of agents", "overcooked: steps of worlds"]
    assert [len(line.points) for panel in others for line in panel.lines] == [1, 0, 1, 0]
    assert [line.label for line in agents.lines] == [
        "batch, 16 worlds", "per_world, 16 worlds", "batch, 128 worlds", "per_world, 128 worlds"
    ]  # fmt: skip
    assert [(line.colour, line.style) for line in agents.lines] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert agents.lines[0].points == [(16, 32e3, pytest.approx(28.8e3), pytest.approx(35.2e3))]
    assert worlds.lines[3].points == [(16, 3e3, pytest.approx(2.7e3), pytest.approx(3.3e3))]


def test_charts_are_pictures(tmp_path: Path) -> None:
    import matplotlib.image

    panels = [*paper.batch_panels(BATCH)] * 2
    charts.draw(panels, "a title", tmp_path / "chart.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "chart.png").shape
    assert (height, width) == (120 * 8, 120 * 15)  # two rows of three columns
    assert [charts.in_k(n) for n in (1, 1000, 1024, 1536, 2**20)] == ["1", "1000", "1K", "1536", "1024K"]


@pytest.mark.full
def test_all_experiments_end_to_end(
    options: paper.PaperOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch_batchsim.Simulator.tune", lambda sim, seconds=5.0: _Report())
    sizes = ["--batch-sizes", "2", "4", "--agents", "3", "2000", "--agents-batch-sizes", "2"]
    paper.main(["--environments", "cartpole", "micro", "--runs", "2", *sizes, "--output", str(options.output)])
    printed = capsys.readouterr().out
    assert {path.name for path in options.output.iterdir()} == {
        "paper.json", "tables.txt", "figure3.png", "figure4.png"
    }  # fmt: skip
    tables = (options.output / "tables.txt").read_text()
    assert tables in printed
    names = ("Table 1", "Table 2", "Figure 3", "Figure 4, micro", "Figure 4, overcooked")
    assert all(f"{name}." in tables for name in names)
    assert "failed [1]" in tables and "[1] ValueError: option agents must be at most 1024, got 2000" in tables
    assert "failed [2]" in tables and "[2] ValueError: agents must be an integer from 1 to 40, got 2000" in tables
    result = json.loads((options.output / "paper.json").read_text())
    assert "cores" in result["machine"] and "commit" in result["machine"]
    assert [len(result[name]) for name in ("batch", "tune", "agents")] == [4, 2, 4]
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
        (["--environments", "cartpol"], "no environment 'cartpol'; known are: cartpole, .* \\(and 'micro'\\)"),
        (["--environments", "elsewhere/Maze-v0"], "elsewhere"),
        (["--agents-environments", "cartpole"], "--agents-environments are of micro, overcooked, got 'cartpole'"),
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
