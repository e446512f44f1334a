"""Faults of one world are reported, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..errors import WorldFault
from ..run.simulator import Simulator
from ..testing import Tensors, assert_same_bits, random_actions
from ..vector.vector_env import TorchVectorEnv
from .playing import SEED, Make, copied, expect, expect_same_story, fault_of


def bad_action(make: Make, names: Sequence[str] = ("cartpole", "meadow")) -> str:
    """An action outside its space is a fault of that world, reported later; the lowest legal one takes its place."""
    wrong_actions = (("cartpole", 2, 300), ("cartpole", -1, 300), ("meadow", 1.5, 9), ("meadow", np.nan, 9))
    for name, bad, worlds in (each for each in wrong_actions if each[0] in names):
        env, other = make(name, worlds), make(name, worlds)
        env.reset(seed=SEED)
        other.reset(seed=SEED)
        batches = random_actions(env, 4)
        world = worlds // 2
        wrong, lowest = batches[1].clone(), batches[1].clone()
        wrong.view(worlds, -1)[world, 0] = bad
        lowest.view(worlds, -1)[world, 0] = 0 if name == "cartpole" else -1
        for taken, meant in zip((batches[0], wrong), (batches[0], lowest), strict=True):
            assert_same_bits(copied(other.step(meant)), copied(env.step(taken)), f"{name}, {bad}: ")
        fault = fault_of(env)
        first = fault.faults[0]
        found = (first.world, first.system, first.row, first.cause)
        expect(found == (world, "check_actions", 0, "bad_action"), str(first))
        expect(int(fault.mask.sum()) == 1, f"{int(fault.mask.sum())} faulty worlds for 1")
        for batch in batches[2:]:
            assert_same_bits(copied(other.step(batch)), copied(env.step(batch)), f"{name}, {bad}, later: ")
        env.check_faults()  # reported once
    return "above, below, NaN; the other worlds go on, and the fault is reported once"


def fault_of_step(env: TorchVectorEnv, batch: torch.Tensor) -> WorldFault:
    """The fault that a step raises at once, as on CPU, or that a look after it raises."""
    try:
        env.step(batch)
        return fault_of(env)
    except WorldFault as raised:
        return raised


def checked_build(reference: Make, make: Make) -> str:
    """A checked build reports a number that is not finite, as on CPU."""

    def report(make_one: Make) -> str:
        env = make_one("cartpole", 70, checks=True)
        env.reset(seed=SEED)
        env.sim.tensor("Cart.CartState.theta")[41] = float("nan")
        (finding,) = fault_of_step(env, random_actions(env, 1)[0]).faults
        return str(finding)

    expected, found = report(reference), report(make)
    expect(expected == found, f"{expected} on CPU, {found}")
    return found


def system_fault(reference: Make, make: Make) -> str:
    """A system reports two worlds; only these are then reset."""

    def story(make_one: Make) -> tuple[str, list[Tensors], Simulator]:
        env = make_one("meadow", 12)
        env.reset(seed=SEED)
        batches = random_actions(env, 4)
        env.sim.tensor("Gardener.Hand.skill")[3, 1] = float("nan")
        env.sim.tensor("Gardener.Hand.skill")[7, 0] = 3e6
        fault = fault_of_step(env, batches[0])
        return reported_on_both(fault), after_reset(env, fault, batches[1:]), env.sim

    return expect_same_story(reference, make, story)


def overflow(reference: Make, make: Make) -> str:
    """A world that needs more rows than its limit has a fault; the others are unchanged."""

    def story(make_one: Make) -> tuple[str, list[Tensors], Simulator]:
        env = make_one("meadow", 6)
        env.reset(seed=SEED)
        batches = random_actions(env, 4)
        env.step(batches[0])
        stems = env.sim.ragged("Plant.Stem.extra")
        stems.values[int(stems.first[4])] = 1000
        fault = fault_of_step(env, batches[1])
        expect("table_full" in str(fault.faults), str(fault.faults))
        faulty = fault.mask.tolist()
        expect(faulty == [world == 4 for world in range(6)], f"faulty worlds {faulty}")
        return reported_on_both(fault), after_reset(env, fault, batches[2:]), env.sim

    return expect_same_story(reference, make, story)


def reported_on_both(fault: WorldFault) -> str:
    """The reports of faults but for the step, which CUDA does not know."""
    return str([replace(each, step=None) for each in fault.faults])


def after_reset(env: TorchVectorEnv, fault: WorldFault, batches: Sequence[torch.Tensor]) -> list[Tensors]:
    """The results of steps after a reset of the faulty worlds, which have no fault any more."""
    env.reset(options={"reset_mask": fault.mask})
    returned = [copied(env.step(batch)) for batch in batches]
    env.check_faults()
    return returned
