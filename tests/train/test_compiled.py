"""Updates that torch.compile has compiled are those of torch, but for the last bits."""

import gymnasium
import pytest
import torch
from torch_batchsim.train import Config, Trainer

CASES = {
    "ppo": {"ent_coef_end": 0.0, "norm_returns": True},  # numbers that change from update to update
    "memory": {"memory": "gru", "memory_size": 8, "num_steps": 3},
    "a2c": {"algorithm": "a2c"},
}


def trained(env_id, compiled, settings):
    sizes = {"num_envs": 16, "num_steps": 8, "num_minibatches": 2, "hidden_sizes": (8,), "total_steps": 4096}
    env = gymnasium.make_vec(env_id, num_envs=16)
    trainer = Trainer(env, Config(**sizes | settings, compile_updates=compiled))
    metrics = [trainer.iterate() for _ in range(4)]
    return trainer.groups[0].learner.parameters.detach(), metrics


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_compiled_updates_are_those_of_torch(case):
    (found, told), (wanted, expected) = (trained("torch_batchsim/CartPole-v0", on, CASES[case]) for on in (True, False))
    assert (found - wanted).abs().max() < 1e-3
    for ours, theirs in zip(told, expected, strict=True):
        for name in ("losses/policy_loss", "losses/value_loss", "losses/entropy"):
            assert torch.allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-4), name


def test_updates_are_compiled_only_if_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function: asked.append(function) or function)
    trained("torch_batchsim/CartPole-v0", False, {})
    assert not asked
    trained("torch_batchsim/CartPole-v0", True, {})
    assert len(asked) == 1 and asked[0].__name__ == "losses"
