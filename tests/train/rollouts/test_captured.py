"""Rollouts as one CUDA graph, with a stand-in for the graph: what is left out, and that nothing else changes."""

from types import SimpleNamespace

import pytest
import torch
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.overcooked import Overcooked
from torch_batchsim.envs.swarm import Swarm
from torch_batchsim.train import PPOConfig, Trainer
from torch_batchsim.train.rollouts import captured

from torch_batchsim import Fault, TorchVectorEnv, WorldFault

SETTINGS = {"num_steps": 8, "num_minibatches": 2, "total_steps": 16 * 8 * 6, "hidden_sizes": (8,)}


def made(environment, capture, **changes):
    env = TorchVectorEnv(environment, num_envs=16)
    return Trainer(env, PPOConfig(**SETTINGS | {"num_envs": 16, "capture_rollouts": capture} | changes))


@pytest.fixture
def graphs(monkeypatch):
    """The functions that were captured, each with how often it was replayed."""
    found = []

    def capture(function, generator):
        found.append(0)

        def replay():
            found[-1] += 1
            function()

        return SimpleNamespace(replay=replay)

    monkeypatch.setattr(captured, "DEVICE", "cpu")
    monkeypatch.setattr(captured, "capture", capture)
    return found


@pytest.mark.parametrize("environment", [CartPole, Overcooked])
def test_rollouts_are_captured_once_and_replayed(environment, graphs):
    plain, replayed = made(environment(), False), made(environment(), True)
    for _ in range(plain.num_iterations):
        metrics = plain.iterate(), replayed.iterate()
    assert graphs == [plain.num_iterations - captured.WARM_UPS]
    parameters = [each.groups[0].learner.parameters for each in (plain, replayed)]
    assert torch.equal(*parameters)
    same = (name for name in metrics[0] if not name.startswith("time/"))
    assert all(torch.equal(*(each[name].nan_to_num() for each in metrics)) for name in same)


def test_faults_in_a_replay_are_raised(graphs):
    trainer = made(Overcooked(), True)
    for _ in range(3):
        trainer.iterate()
    fault = WorldFault([Fault(1, "cook", 0, "bad", 3)], torch.arange(8) == 1)

    def check_faults():
        raise fault

    trainer.env.check_faults = check_faults
    with pytest.raises(WorldFault):
        trainer.check_finite()


def test_what_cannot_be_captured(graphs, monkeypatch):
    for changes, why in (({"memory": "gru"}, "memory is 'gru'"), ({"past_share": 0.5}, "past_share is 0.5")):
        with pytest.raises(ValueError, match=f"capture_rollouts is on, but {why}"):
            made(CartPole(), True, **changes)
    with pytest.raises(ValueError, match="tables of this environment may grow"):
        made(Swarm(), True)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="the device is cpu: only cuda has CUDA graphs"):
        made(CartPole(), True)
