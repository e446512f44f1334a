"""Simulator.tune: the choice of groups, and that it changes only speed."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from pathlib import Path

import pytest
import torch
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ENVIRONMENTS, all_but_hideseek, assert_same_bits, emulated_simulator, full_but, snapshot
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import BuildError, Simulator
from torch_batchsim.build import cache, jit
from torch_batchsim.build.codegen import Target
from torch_batchsim.resolve import executors
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import Group, check_plan, default_plan, fused, step_tasks
from torch_batchsim.run import tuning

TIMES = st.lists(st.floats(0, 10), min_size=1, max_size=6)


def all_plans(count: int, limits: list[int]) -> list[tuple[Group, ...]]:
    plans = []
    for cuts in (c for k in range(count) for c in combinations(range(1, count), k)):
        groups = list(pairwise([0, *cuts, count]))
        for blocks in product(limits, repeat=len(groups)):
            plans.append(tuple(Group(*group, b) for group, b in zip(groups, blocks, strict=True)))
    return plans


@settings(deadline=None)
@given(TIMES, TIMES, st.floats(0, 5))
def test_the_best_groups_are_found(wide: list[float], narrow: list[float], launch: float) -> None:
    count = min(len(wide), len(narrow))
    times = {1: wide[:count], 8: narrow[:count]}
    plan, predicted = tuning.choose_groups(times, launch)

    def cost(groups: tuple[Group, ...]) -> float:
        return sum(launch + sum(times[g.blocks][g.first : g.last]) for g in groups)

    assert predicted == pytest.approx(cost(plan))
    assert cost(plan) <= min(map(cost, all_plans(count, [1, 8]))) + 1e-9
    assert [plan[0].first, plan[-1].last] == [0, count] and all(a.last == b.first for a, b in pairwise(plan))


@pytest.mark.parametrize("name", full_but(["cartpole"], ["cartpole", "duel", "swarm"]))
def test_tuning_changes_nothing_but_speed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / "choice.json")
    sims = [Simulator(ENVIRONMENTS[name](), 200, num_threads=2) for _ in range(2)]
    for sim in sims:
        sim.reset(seed=5)
        for _ in range(20):
            sim.step()
    before = snapshot(sims[0])
    report = sims[0].tune(0.3)
    assert_same_bits(before, snapshot(sims[0]))
    assert report.gain >= 1.0 and report.chosen == sims[0].execution.choice()
    assert report.chosen in [candidate.choice for candidate in report.candidates]
    assert {candidate.choice.executor for candidate in report.candidates} == set(EXECUTORS["cpu"])
    assert report.as_dict()["gain"] == report.gain and str(report.chosen) in str(report)
    for sim in sims:
        for _ in range(20):
            sim.step()
    assert_same_bits(snapshot(sims[0]), snapshot(sims[1]))


@pytest.mark.full
def test_tuning_on_an_emulated_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / "choice.json")
    sim, plain = (emulated_simulator("cartpole", 60, "graph") for _ in range(2))
    for one in (sim, plain):
        one.reset(seed=1)
    report = sim.tune(0.2)
    names = {candidate.choice.executor for candidate in report.candidates}
    assert names == {"graph", "megakernel", "per_world"} and any(c.predicted for c in report.candidates)
    assert len(report.tasks) == len(step_tasks(sim.program))
    for one in (sim, plain):
        for _ in range(30):
            one.step()
    assert_same_bits(snapshot(sim), snapshot(plain))


def test_the_choice_is_kept_with_the_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / f"{sim.num_worlds}.json")
    (jit.cache_directory() / "CartPole_cpu_00000000000000000000.json").touch()
    run = Simulator(CartPole(), 4096, num_threads=1).execution
    choice = tuning.Choice("per_world", 1, 1)
    assert tuning.stored(run) is None
    tuning._store(run, choice)
    assert tuning.stored(run) == choice
    assert Simulator(CartPole(), 4096, num_threads=1).executor == "per_world"
    assert Simulator(CartPole(), 4096, num_threads=1, executor="batch").executor == "batch"
    assert Simulator(CartPole(), 4095, num_threads=1).executor == "batch"
    whole = (tmp_path / "4096.json").read_text()
    damaged = ["", "{", '{"format": 1}', '{"format": 0}', '{"format": 1, "choice": {"plan": 3}}', "[]"]
    damaged += ['{"format": 1, "choice": "x"}', whole.replace("per_world", "graph"), whole.replace("per_world", "none")]
    damaged += [whole.replace('"tile": 1', f'"tile": {tile}') for tile in ("0", "-4", "5000", '"4"', "1.5", "true")]
    damaged += [whole.replace('"threads": 1', f'"threads": {threads}') for threads in ("0", "1.5", "4096")]
    damaged += [whole.replace("null", plan) for plan in ("[]", '[{"first": 0, "last": 2, "blocks": 1}]', '[{"a": 1}]')]
    assert whole not in damaged
    for text in damaged:
        (tmp_path / "4096.json").write_text(text)
        assert tuning.stored(run) is None, text
        assert Simulator(CartPole(), 4096, num_threads=1).executor == "batch"


@pytest.mark.full
def test_what_was_tuned_with_an_executor_that_was_asked_for_is_not_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / "choice.json")
    sim = Simulator(CartPole(), 3001, executor="per_world")
    sim.reset(seed=0)
    sim.tune(0.05)
    assert not (tmp_path / "choice.json").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_tuning_leaves_everything_as_it_was(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = Simulator(CartPole(), 3000, autoreset=AutoresetMode.DISABLED)
    sim.reset(seed=0)
    before, choice, autoreset = snapshot(sim), sim.execution.choice(), sim.memory.context.autoreset
    steps, calls = tuning._Clock.steps, []

    def failing(clock: tuning._Clock, count: int) -> float:
        calls.append(sim.execution.choice())
        if len(calls) == 6:
            raise error
        return steps(clock, count)

    monkeypatch.setattr(tuning._Clock, "steps", failing)
    with pytest.raises(error):
        sim.tune(0.05)
    assert calls[-1] != choice and sim.execution.choice() == choice and sim.memory.context.autoreset == autoreset
    assert_same_bits(before, snapshot(sim))


def test_worlds_go_on_while_they_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / "choice.json")
    sim = Simulator(CartPole(), 500, autoreset=AutoresetMode.DISABLED)
    sim.reset(seed=0)
    ended, steps = [], tuning._Clock.steps

    def watched(clock: tuning._Clock, count: int) -> float:
        spent = steps(clock, count)
        ended.append(sim.memory.columns["ended"].bool().float().mean().item())
        return spent

    monkeypatch.setattr(tuning._Clock, "steps", watched)
    before = snapshot(sim)
    sim.tune(0.05)
    assert max(ended) < 0.5
    assert_same_bits(before, snapshot(sim))


def test_faults_while_measuring_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / "choice.json")
    sim = Simulator(CartPole(), 100)
    sim.reset(seed=0)
    steps = tuning._Clock.steps

    def faulty(clock: tuning._Clock, count: int) -> float:
        sim.memory.columns["fault"][:60] = 5
        return steps(clock, count)

    monkeypatch.setattr(tuning._Clock, "steps", faulty)
    report = sim.tune(0.05)
    assert report.faulty_worlds == 60 and "60 worlds had a fault" in str(report)
    assert not (tmp_path / "choice.json").exists()
    sim.check_faults()  # they were none of the user's


@pytest.mark.full
def test_kernels_that_do_not_compile_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tuning, "_path", lambda sim: tmp_path / "choice.json")
    sim = emulated_simulator("cartpole", 60, "graph")
    sim.reset(seed=1)
    load = sim.execution._load

    def failing(target: Target) -> jit.Library:
        if target.executor == "megakernel":
            raise BuildError("uses too much shared data")
        return load(target)

    monkeypatch.setattr(sim.execution, "_load", failing)
    report = sim.tune(0.1)
    assert {candidate.choice.executor for candidate in report.candidates} == {"graph", "per_world"}


def test_the_file_of_a_choice_depends_on_what_matters() -> None:
    paths = {
        tuning._path(Simulator(CartPole(**options), worlds, num_threads=threads).execution)
        for options, worlds, threads in (({}, 8, 1), ({}, 8, 2), ({}, 9, 1))
    }
    assert len(paths) == 3
    assert tuning._path(Simulator(CartPole(force_mag=3.0), 8, num_threads=1).execution) in paths  # no new build
    assert all(cache._OWN_NAME.fullmatch(path.name) for path in paths)


@pytest.mark.full
def test_refusals() -> None:
    sim = Simulator(CartPole(), 4)
    with pytest.raises(RuntimeError, match="call reset"):
        sim.tune()
    sim.reset(seed=0)
    with sim.tracing(), pytest.raises(RuntimeError, match="traced"):
        sim.tune()
    for seconds in (0, -1.0, float("nan"), float("inf"), "5", True, None):
        with pytest.raises(ValueError, match="seconds must be a positive number"):
            sim.tune(seconds)


def test_plans_that_leave_tasks_out_are_refused() -> None:
    program = Program(CartPole())
    count = len(step_tasks(program))
    check_plan(program, (Group(0, 3), Group(3, count, 8)))
    for plan in ((), (Group(0, count - 1),), (Group(1, count),), (Group(0, 4), Group(3, count)), (Group(0, count, 5),)):
        with pytest.raises(ValueError, match="must"):
            check_plan(program, plan)


@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_default_plans_and_runs_hold_every_task(name: str) -> None:
    program = Program(ENVIRONMENTS[name]())
    tasks = step_tasks(program)
    assert [task.number for task in tasks] == list(range(len(tasks)))
    for executor in EXECUTORS["cuda"]:
        plan = default_plan(program, executors.find("cuda", executor))
        check_plan(program, plan)
        assert executor == "graph" or len(plan) == 1
    runs = fused(tasks)
    assert [task for run in runs for task in run] == tasks
    for run in runs:
        assert len(run) == 1 or len({task.node.rows for task in run}) == 1
        assert len({task.phase == "begin" for task in run}) == 1
        assert len(run) == 1 or run[0].node.rows == 1 or all(task.node.local for task in run)


def test_random_actions_are_legal() -> None:
    sim = Simulator(ENVIRONMENTS["duel"](), 64)
    sim.reset(seed=0)
    clock = tuning._Clock(sim, 1.0)
    nvec = sim.program.action_space.nvec.tolist()
    seen = [set(), set()]
    for i in range(16):
        mask = sim.tensor(clock.mask.name).reshape(-1, sum(nvec)).clone()
        clock._act(i)
        actions = sim.tensor(sim.program.action.name).reshape(-1, 2).long()
        for part, (column, legal) in enumerate(zip(actions.T, mask.split(nvec, dim=1), strict=True)):
            assert (legal.gather(1, column[:, None])[:, 0] | ~legal.any(1)).all()
            seen[part] |= set(column.tolist())
        sim.step()
    assert seen == [set(range(n)) for n in nvec]
    drift = Simulator(ENVIRONMENTS["drift"](), 64)
    drift.reset(seed=0)
    tuning._Clock(drift, 1.0)._act(0)
    drawn = drift.tensor(drift.program.action.name).reshape(-1, 3)
    space = drift.program.action_space
    assert (drawn >= torch.from_numpy(space.low)).all() and (drawn <= torch.from_numpy(space.high)).all()
    assert drawn.std(0).min() > 0.3
