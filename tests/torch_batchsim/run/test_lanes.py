"""Systems on several lanes: results by definition, and the same bits on the CPU and in the emulated CUDA unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from environments.herd import Herd
from support import assert_same_bits, emulated_cuda, snapshot

from torch_batchsim import Simulator
from torch_batchsim.build import jit

SIZES = (0, 1, 2, 31, 32, 33, 64, 100, 255, 256, 257, 500, 680)


@pytest.fixture(scope="module")
def library() -> jit.Library:
    return emulated_cuda("herd")


def herd(library: jit.Library | None = None) -> Simulator:
    sim = Simulator(Herd(), len(SIZES), _library=library)
    sim.reset(seed=4)
    return sim


def lane_sum(values: np.ndarray, lanes: int) -> np.float32:
    """As csrc/tbs/lanes.h says: item i to lane i mod lanes, then lane l with lane l + lanes/2, lanes/4, ..."""
    partial = np.zeros(lanes, np.float32)
    for i, value in enumerate(values):
        partial[i % lanes] += value
    while lanes > 1:
        lanes //= 2
        partial = partial[:lanes] + partial[lanes : 2 * lanes]
    return partial[0]


def test_operations_give_what_they_say() -> None:
    sim = herd()
    sim.Keeper.Choice.born[:, 0] = torch.tensor(SIZES)
    sim.step()
    # The systems before `cull` saw the herd that was born; a second simulator without culls would be the same.
    for world, size in enumerate(SIZES):
        order = np.argsort([(i * 7919) % 8191 for i in range(size)], kind="stable")
        wool = sim.ragged("Sheep.Wool.number").world(world).numpy()
        assert np.array_equal(wool, [i for i in order if (i + 1) % 3 != 0])
        before = sim.ragged("Sheep.Wool.before").world(world).numpy()
        sums = np.cumsum(wool) - wool
        assert np.array_equal(before, sums + sums[-1:] if size else [])
        assert sim.tensor("WarpSums.total")[world] == wool.sum()


@pytest.mark.parametrize("lanes", [32, 256])
def test_reductions_are_combined_in_the_order_that_is_documented(lanes: int) -> None:
    sim, sums = herd(), "WarpSums" if lanes == 32 else "BlockSums"
    generator = np.random.default_rng(lanes)
    weights = [generator.normal(size=size).astype(np.float32) for size in SIZES]
    for world, own in enumerate(weights):
        numbers = torch.arange(len(own)) * 3  # none is culled in step 1
        sim.create("Sheep", [world] * len(own), {"Wool.weight": torch.from_numpy(own), "Wool.number": numbers})
    sim.step()
    for world, own in enumerate(weights):
        got = {name: sim.tensor(f"{sums}.{name}")[world].item() for name in ("sum", "least", "most", "odd", "ballot")}
        assert np.float32(got["sum"]) == lane_sum(own, lanes), world
        assert got["least"] == min([2.0, *own.tolist()])
        assert got["most"] == max([-2.0, *own.tolist()])
        assert got["odd"] == sum(3 * i % 2 for i in range(len(own)))
        assert got["ballot"] & 0xFFFFFFFF == sum(1 << i for i in range(min(32, len(own))) if own[i] > 0)
        assert sim.tensor(f"{sums}.any")[world].item() == bool((own > np.float32(0.99)).any())
        assert sim.tensor(f"{sums}.all")[world].item() == bool((own > np.float32(-0.99)).all())
        assert sim.tensor(f"{sums}.told")[world].item() == (own[len(own) * 2 // 3] if len(own) else 0.0)


@pytest.mark.full
def test_emulated_cuda_agrees(library: jit.Library) -> None:
    """Herds are sorted and compacted by blocks there: on average they have room for more than 512 rows."""
    cpu, cuda = herd(), herd(library)
    most = 0
    for step in range(6):
        for sim in (cpu, cuda):
            sim.Keeper.Choice.born[:, 0] = torch.tensor(SIZES).roll(step) // (1 + step)
            sim.step()
            sim.check_faults()
        assert_same_bits(snapshot(cpu), snapshot(cuda))
        most = max(most, int(cpu.ragged("Sheep.Wool.weight").counts.max()))
    assert most > 400 and cpu.layout > 0  # more than a block has lanes, and some herds have grown
