"""Systems of bundled environments in Python (tests/common/python_systems) have the bits of those in C++."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from python_systems.cartpole import PythonCartPole
from python_systems.overcooked import PythonOvercooked
from python_systems.swarm import PythonSwarm
from torch_batchsim.envs.cartpole.env import CartPole
from torch_batchsim.envs.overcooked.env import Overcooked
from torch_batchsim.envs.swarm.env import Swarm

import torch_batchsim
from torch_batchsim.build import emulation
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, random_actions, snapshot

OLD = {"horizon": 100, "old_dynamics": True, "random_start": True, "random_objects": 0.5}
PAIRS: dict[str, tuple[type[torch_batchsim.Environment], type[torch_batchsim.Environment], dict[str, Any]]] = {
    "cartpole": (CartPole, PythonCartPole, {}),
    "cartpole_rewards": (CartPole, PythonCartPole, {"sutton_barto_reward": True, "max_episode_steps": 20}),
    "overcooked": (Overcooked, PythonOvercooked, {"horizon": 60, "random_objects": 0.5, "shaping_factor": 1.0}),
    "old_overcooked": (Overcooked, PythonOvercooked, {"layout": "asymmetric_advantages", **OLD}),
    "swarm": (Swarm, PythonSwarm, {"ships": 2, "spawn_rate": 0.5}),
}


def agree(name: str, steps: int, worlds: int, **python: Any) -> None:
    """Step both, and compare all state and outputs."""
    in_cpp, in_python, options = PAIRS[name]
    envs = [torch_batchsim.make_vec(in_cpp, num_worlds=worlds, **options)]
    envs.append(torch_batchsim.make_vec(in_python, num_worlds=worlds, **options, **python))
    for env in envs:
        env.reset(seed=5)
    ended = 0
    for number, actions in enumerate(random_actions(envs[0], steps, seed=1)):
        results = [env.step(actions) for env in envs]
        for one, other in zip(results[0][:4], results[1][:4], strict=True):
            assert torch.equal(one, other)
        ended += int(results[0][2].sum() + results[0][3].sum())
        if number % 16 == 0 or number == steps - 1:
            assert_same_bits(snapshot(envs[0].sim), snapshot(envs[1].sim))
    assert ended > 0


@pytest.mark.parametrize(
    "name", [name if name == "cartpole" else pytest.param(name, marks=pytest.mark.full) for name in PAIRS]
)
def test_compiled(name: str) -> None:
    agree(name, 320, 50)


@pytest.mark.full
@pytest.mark.parametrize("name", PAIRS)
def test_run_as_python(name: str) -> None:
    agree(name, 310, 3, executor="python")


@pytest.mark.crossed
@pytest.mark.full
@pytest.mark.parametrize("name", ["cartpole", "overcooked", "swarm"])
@pytest.mark.parametrize("executor", EXECUTORS["cuda"])
def test_emulated_cuda(name: str, executor: str) -> None:
    in_cpp, in_python, options = PAIRS[name]
    library = emulation.load(Program(in_python(**options)), executor)
    simulators = [
        torch_batchsim.Simulator(in_cpp(**options), 40),
        torch_batchsim.Simulator(in_python(**options), 40, _library=library),
    ]
    generator = torch.Generator().manual_seed(0)
    for simulator in simulators:
        simulator.reset(seed=5)
    for _ in range(320):
        columns = [simulator.tensor(simulator.program.action.name) for simulator in simulators]
        columns[0].random_(0, 2, generator=generator)
        columns[1].copy_(columns[0])
        for simulator in simulators:
            simulator.step()
        assert_same_bits(snapshot(simulators[0]), snapshot(simulators[1]))
