"""What nvcc makes of the kernels: none keeps anything in memory of its own, nor moves more than it has to."""

from __future__ import annotations

import pytest
import sass
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.envs.swarm import Swarm

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sass.nvcc() is None, reason="no nvcc"),
    pytest.mark.skipif(
        sass.cuobjdump() is None, reason="neither the toolkit's cuobjdump and nvdisasm nor their wheels"
    ),
]

# By a node that a kernel of a step runs: global loads and stores in its text. A tenth more than nvcc 13.0 makes of them,
# for other versions choose otherwise.
LIMITS = {
    CartPole: {"push_cart": (30, 36)},
    Overcooked: {},
    Hanabi: {},
    Swarm: {},
}


@pytest.mark.parametrize("environment", LIMITS, ids=lambda e: e.__name__)
def test_no_hot_kernel_grows(environment: type) -> None:
    found = [kernel for kernel in sass.kernels(environment(), "graph") if not kernel.resets]
    assert {kernel.nodes: kernel.stack for kernel in found if kernel.stack} == {}
    assert all(kernel.count(name) == 0 for kernel in found for name in ("LDL", "STL"))
    for node, (loads, stores) in LIMITS[environment].items():
        kernels = [kernel for kernel in found if node in kernel.nodes]
        assert kernels, f"no kernel runs {node}"
        for kernel in kernels:
            assert kernel.count("LDG") <= loads and kernel.count("STG") <= stores, kernel.nodes
