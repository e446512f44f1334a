"""One source, many runs: the same worlds and actions give the same bits, whatever runs them."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from support import (
    COMPILED,
    ENVIRONMENTS,
    IN_PYTHON,
    all_tests,
    assert_same_bits,
    baseline,
    emulated_cuda,
    ended_worlds,
    first_worlds,
    full_but,
    of_today,
    random_actions,
    snapshot,
    spoil,
)

from torch_batchsim import Simulator, TorchVectorEnv
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target
from torch_batchsim.read.systems import Unit, read_systems
from torch_batchsim.resolve import executors
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import BLOCKS, Group, possible_cuts, step_tasks

MODES = list(AutoresetMode)
FEW = full_but(["cartpole", "zoo", "duel", "melee"], ENVIRONMENTS)  # of which other tests have builds too


def run(
    name: str,
    worlds: int,
    steps: int,
    mode: AutoresetMode,
    rows: int | None = None,
    together: bool | None = None,
    tile: int | None = None,
    **kwargs: object,
) -> TorchVectorEnv:
    """Step with actions that depend on seed and row alone; ended worlds are reset by mask under DISABLED."""
    env = TorchVectorEnv(COMPILED[name](), num_worlds=worlds, autoreset_mode=mode, **kwargs)
    if together is not None:
        env.sim.memory.context.together = int(together)
    if tile is not None:
        env.sim.memory.context.tile = tile
    full = TorchVectorEnv(COMPILED[name](), num_worlds=rows or worlds)
    spoil(env.sim)
    env.reset(seed=7)
    generator = np.random.default_rng(1)
    for step in range(steps):
        spoil(env.sim)
        actions = random_actions(full, generator)[: env.num_envs]
        env.step(actions)
        ended = ended_worlds(env)
        if mode is AutoresetMode.DISABLED and step % 3 == 0 and ended.any():
            env.reset(options={"reset_mask": ended})
    return env


@pytest.mark.full
@pytest.mark.crossed  # environments of today, and each mode with some of them
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", of_today(ENVIRONMENTS, 6))  # all in two days
def test_threads_and_emulated_cuda_agree(name: str, mode: AutoresetMode) -> None:
    # Several tiles, the last one incomplete.
    worlds = {"cartpole": 1500, "yard": 150, "zoo": 70, "swarm": 60, "forge": 60, "hideseek": 2}.get(name, 700)
    steps = 13 if name == "hideseek" else 40  # a round and the beginning of the next: emulated bodies are slow
    one = run(name, worlds, steps, mode, num_threads=1)
    two = run(name, worlds, steps, mode, num_threads=2)
    cuda = run(name, worlds, steps, mode, _library=emulated_cuda(name))
    assert_same_bits(snapshot(one.sim), snapshot(two.sim))
    assert_same_bits(snapshot(one.sim), snapshot(cuda.sim))
    assert one.sim.tensor("World.episode").float().mean() > 0.5  # or nothing has been shown about resets


@pytest.mark.parametrize("name", ["cartpole", *of_today([*ENVIRONMENTS, *IN_PYTHON][1:], 8)])  # all in two days
def test_every_executor_gives_the_same_bits(name: str) -> None:
    """The megakernel's blocks claim tiles, or go through the tasks together, in an adversarial order.

    The full run has half of the environments each day, with every executor, in one mode.
    """
    worlds = {"cartpole": 300, "yard": 40, "zoo": 40, "swarm": 40, "forge": 30, "hideseek": 2}.get(name, 150)
    worlds = 8 if name in IN_PYTHON else worlds
    steps = 13 if name == "hideseek" else 30
    megakernel, alone = (emulated_cuda(name, executor) for executor in ("megakernel", "per_world"))
    modes = MODES[:1] if name == "hideseek" else MODES
    if name != "cartpole" and not all_tests():
        modes = [modes[(int(os.environ["TBS_TESTS_SEED"]) + len(name)) % len(modes)]]
    for mode in modes:
        batch = snapshot(run(name, worlds, steps, mode).sim)
        others = {
            "per_world": run(name, worlds, steps, mode, executor="per_world", num_threads=2),
            "megakernel, tiles": run(name, worlds, steps, mode, together=False, tile=7, _library=megakernel),
            "megakernel, together": run(name, worlds, steps, mode, together=True, _library=megakernel),
            "per_world, CUDA": run(name, worlds, steps, mode, _library=alone),
        }
        if name in IN_PYTHON:
            others["python"] = run(name, worlds, steps, mode, executor="python")
        for env in others.values():
            assert_same_bits(batch, snapshot(env.sim))


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_step_as_python_begins_and_ends_episodes_as_others_do(mode: AutoresetMode) -> None:
    compiled, python = (run("cartpole_in_python", 6, 30, mode, executor=name) for name in ("batch", "python"))
    assert_same_bits(snapshot(compiled.sim), snapshot(python.sim))
    assert compiled.sim.tensor("World.episode").max() > 0


@pytest.mark.full
def test_the_megakernels_blocks_may_interleave_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes, unit = (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP), emulated_cuda("zoo", "megakernel").path
    expected = [snapshot(run("zoo", 30, 20, mode).sim) for mode in modes]  # of the CPU
    for seed in range(2, 5 if all_tests() else 4):
        monkeypatch.setenv("TBS_EMULATION_SEED", str(seed))  # which a unit reads once: hence a copy for each
        copy = jit.Library(Path(shutil.copy(unit, tmp_path / f"seed_{seed}.so")), Target("cuda", "megakernel"))
        for mode, batch in zip(modes, expected, strict=True):
            for together in (False, True):
                env = run("zoo", 30, 20, mode, tile=4, together=together, _library=copy)
                assert_same_bits(batch, snapshot(env.sim), f"seed {seed}, together {together}: ")


@pytest.mark.parametrize("name", of_today(["cartpole", "zoo", "forge"], 1))
def test_every_grouping_gives_the_same_bits(name: str) -> None:
    """Cut into kernels anywhere but within a Repeat, with tiles of any size."""
    first, *places, last = possible_cuts(step_tasks(Program(ENVIRONMENTS[name]())))
    generator = np.random.default_rng(3)
    expected = {mode: snapshot(run(name, 50, 25, mode).sim) for mode in MODES}
    for cuts in (places, sorted(generator.choice(places, len(places) // 2, replace=False).tolist())):
        ends = [first, *cuts, last]
        plan = tuple(Group(*pair, blocks=int(generator.choice(BLOCKS))) for pair in pairwise(ends))
        library = emulated_cuda(name, "graph", plan)
        for mode in MODES:
            env = run(name, 50, 25, mode, tile=int(generator.integers(1, 50)), _library=library)
            assert_same_bits(expected[mode], snapshot(env.sim))


@pytest.mark.parametrize("name", ["cartpole", *of_today([*ENVIRONMENTS][1:], 4)])
def test_an_ordinary_build_gives_the_bits_of_a_quick_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all optimisations, vectors among them, as users have it; all other tests have quick ones."""
    worlds, steps = (6, 26) if name == "hideseek" else (500, 40)
    assert os.environ["TBS_DEBUG"] == "quick"
    quick = run(name, worlds, steps, AutoresetMode.SAME_STEP)
    monkeypatch.delenv("TBS_DEBUG")
    ordinary = [run(name, worlds, steps, AutoresetMode.SAME_STEP, num_threads=n, executor="batch") for n in (1, 2)]
    for env in ordinary:
        assert env.sim.execution.library.path != quick.sim.execution.library.path
        assert_same_bits(snapshot(quick.sim), snapshot(env.sim))


# Yard has rigid bodies too, and a smaller unit than hide and seek.
@pytest.mark.parametrize("name", ["cartpole", *of_today(sorted({*ENVIRONMENTS} - {"hideseek", "cartpole"}), 3)])
def test_another_processor_gives_the_same_bits(name: str) -> None:
    native = run(name, 500, 40, AutoresetMode.SAME_STEP)
    least = run(name, 500, 40, AutoresetMode.SAME_STEP, _library=baseline(name))
    assert_same_bits(snapshot(native.sim), snapshot(least.sim))


# Of hide and seek, test_hideseek_model.py compares fewer.
@pytest.mark.parametrize("name", full_but(["cartpole", "duel"], sorted({*ENVIRONMENTS} - {"hideseek"})))
def test_worlds_do_not_depend_on_their_number(name: str) -> None:
    few = run(name, 64, 60, AutoresetMode.SAME_STEP, rows=3000)
    many = run(name, 3000, 60, AutoresetMode.SAME_STEP)
    assert_same_bits(first_worlds(few.sim, 64), first_worlds(many.sim, 64))


def test_first_worlds_are_the_same_among_16384() -> None:
    few = run("cartpole", 64, 30, AutoresetMode.SAME_STEP, rows=16384)
    many = run("cartpole", 16384, 30, AutoresetMode.SAME_STEP)
    assert_same_bits(first_worlds(few.sim, 64), first_worlds(many.sim, 64))


@pytest.mark.parametrize("name", FEW)
def test_same_seed_same_bits(name: str) -> None:
    assert_same_bits(
        snapshot(run(name, 100, 50, AutoresetMode.SAME_STEP).sim),
        snapshot(run(name, 100, 50, AutoresetMode.SAME_STEP).sim),
    )


def test_an_episode_does_not_depend_on_what_ran_before() -> None:
    """World state is zero when an episode begins: a reset in the midst and a fresh simulator agree."""
    used = run("duel", 40, 17, AutoresetMode.SAME_STEP)
    fresh = TorchVectorEnv(ENVIRONMENTS["duel"](), num_worlds=40)
    used.reset(seed=11)
    fresh.reset(seed=11)
    left, right = snapshot(used.sim), snapshot(fresh.sim)
    kept = {key for key in left if key.startswith("final_") or "Choice" in key}
    assert_same_bits(*({k: t for k, t in s.items() if k not in kept} for s in (left, right)))


@pytest.mark.parametrize("name", FEW)
def test_same_step_and_next_step_play_the_same_episodes(name: str) -> None:
    """Rewards of the first two episodes of every world agree between modes when actions depend on the step alone."""

    def episodes(mode: AutoresetMode) -> dict[int, list[list[float]]]:
        env = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=30, autoreset_mode=mode)
        env.reset(seed=5)
        played: list[list[list[float]]] = [[[]] for _ in range(30)]
        skip = torch.zeros(30, dtype=torch.bool)
        steps = torch.zeros(30, dtype=torch.int64)
        table = torch.stack([random_actions(env, np.random.default_rng(9)) for _ in range(600)])
        table = env.by_world(table[0])[None].expand(600, *env.by_world(table[0]).shape).clone()
        rolled = torch.stack([table[k].roll(k, 0) for k in range(600)])
        for _ in range(120):
            index = steps.clamp(max=599)
            actions = rolled[index, torch.arange(30)].reshape(-1, *env._actions.shape[1:])
            _, rewards, *_ = env.step(actions)
            ended = ended_worlds(env)
            for world in range(30):
                if not skip[world]:
                    played[world][-1].append(env.by_world(rewards)[world].sum().item())
                if ended[world]:
                    played[world].append([])
            steps = torch.where(skip | ended, 0, steps + 1)
            skip = ended if mode is AutoresetMode.NEXT_STEP else skip
        return {world: play[:2] for world, play in enumerate(played) if len(play) > 2}

    same, following = episodes(AutoresetMode.SAME_STEP), episodes(AutoresetMode.NEXT_STEP)
    assert len(following) > 10
    assert {world: same[world] for world in following} == following


def test_a_parameter_may_be_named_like_a_system(tmp_path: Path) -> None:
    text = """
    TBS_SYSTEM void place(World &world, Spot &spot) { spot.x = world.random().uniform(); }
    TBS_SYSTEM void score(World &world, Spot &place, Warp &warp) { warp.once([&] { place.x = 1.0f; }); }
    TBS_SYSTEM void again(World &world, Spot &spot) { place(world, spot); }
    """
    source = tmp_path / "systems.h"
    source.write_text(text)
    systems = read_systems(Unit(source))
    assert systems["score"].reaches == () and systems["again"].kinds("random")


def test_an_executor_is_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is added to the table can be chosen, is built, and gives the size of its tiles."""
    batch = executors.find("cpu", "batch")
    mine = replace(batch, name="mine", default_tile=lambda load: load.worlds // load.agents - 1)
    monkeypatch.setattr(executors, "RECORDS", (*executors.RECORDS, mine))
    sim = Simulator(ENVIRONMENTS["duel"](), 8, executor="mine")
    assert sim.executor == "mine" and sim.execution.choice().tile == 3
    known = "'batch', 'per_world', 'python', 'mine'"
    with pytest.raises(ValueError, match=f"executor must be one of {known} on cpu, got 'your'"):
        Simulator(ENVIRONMENTS["duel"](), 8, executor="your")
