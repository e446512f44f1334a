"""Tiles, plans, tuning and tracing change no bit."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..resolve.schedule import BLOCKS, Group, possible_cuts, step_tasks
from ..testing import assert_same_bits, random_actions
from ..vector.vector_env import TorchVectorEnv
from .environments import GROWING
from .playing import SEED, Make, expect, expect_same_steps, play, snapshot


def tile(reference: Make, make: Make, name: str, worlds: int, steps: int, size: int) -> str:
    """Tiles of ``size`` worlds, the last one not full."""
    env = make(name, worlds)
    env.sim.execution.take(replace(env.sim.execution.choice(), tile=size, together=False))
    return _same(reference, env, name, steps)


def plan(reference: Make, make: Make, name: str, worlds: int, steps: int, number: int) -> str:
    """The step cut into kernels: at all places for ``number`` 0, else at random ones."""
    env = make(name, worlds)
    first, *places, last = possible_cuts(step_tasks(env.sim.program))
    generator = np.random.default_rng(number)
    if number:
        places = sorted(generator.choice(places, max(1, len(places) // 2), replace=False).tolist())
    groups = pairwise([first, *places, last])
    cut = tuple(Group(*ends, blocks=int(generator.choice(BLOCKS))) for ends in groups)
    env.sim.execution.take(replace(env.sim.execution.choice(), plan=cut))
    return f"{len(cut)} kernels, {_same(reference, env, name, steps)}"


def _same(reference: Make, second: TorchVectorEnv, name: str, steps: int) -> str:
    first, wait = reference(name, second.num_worlds), name in GROWING
    expect_same_steps(play(first, steps, wait=wait), play(second, steps, wait=wait))
    assert_same_bits(snapshot(first.sim), snapshot(second.sim), "at the end: ")
    return f"{first.num_worlds} worlds, {steps} steps"


def tuned(make: Make, name: str, worlds: int, seconds: float) -> str:
    """Tuning changes no bit, of the present state or of later steps, and its report is text."""
    plain, env = make(name, worlds), make(name, worlds)
    expected = play(plain, 6)
    play(env, 6)
    held = snapshot(env.sim)
    report = env.sim.tune(seconds)
    assert_same_bits(held, snapshot(env.sim), "after tune(): ")
    expect_same_steps(expected, play(env, 6))
    assert_same_bits(snapshot(plain.sim), snapshot(env.sim), "at the end: ")
    json.dumps(report.as_dict())
    expect(report.gain > 0, f"gain {report.gain}")
    expect(len(str(report)) > 0, "the report has no text")
    return f"gain {report.gain:.2f}, then by {env.sim.executor}\n{report}"


def traced(make: Make, name: str, worlds: int, steps: int = 3) -> str:
    """Tracing changes no bit, and its records are plausible."""
    plain, env = make(name, worlds), make(name, worlds)
    wait = name in GROWING
    play(plain, steps, wait=wait)
    batches = random_actions(env, steps)
    env.reset(seed=SEED)
    with env.sim.tracing() as trace:
        for batch in batches:
            env.step(batch)
            if wait:
                env.check_faults()
    assert_same_bits(snapshot(plain.sim), snapshot(env.sim), "traced: ")
    expect(trace.steps == steps and trace.dropped == 0, f"{trace.steps} steps, {trace.dropped} records dropped")
    seen = {trace.tasks[task].name for task in np.unique(trace.records["task"])}
    systems = {node.system.name for node in env.sim.program.graphs["step"]}
    expect(systems <= seen, f"no record of {', '.join(sorted(systems - seen))}")
    took = trace.records["end"].astype(np.int64) - trace.records["begin"].astype(np.int64)
    expect(bool((took >= 0).all()) and bool((took > 0).any()), "records end before they begin, or take no time")
    expect(0 < trace.span < 60e6, f"a span of {trace.span} us")
    expect(0 < trace.busy <= 1.05, f"busy for {trace.busy} of the time")
    expect_same_steps(play(plain, 4, wait=wait), play(env, 4, wait=wait))
    records = f"{len(trace.records)} records, {trace.span:.0f} us, {100 * trace.busy:.0f} % busy"
    return f"{records}, {len(trace.units)} units\n{trace}"
