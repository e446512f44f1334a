import pytest
import torch
from torch_batchsim.train import ActorCritic, evaluate


@pytest.fixture
def agent(toy_env):
    env = toy_env()
    return ActorCritic(env.single_observation_space, env.single_action_space, (8,), 1, env.device)


@pytest.mark.parametrize("deterministic", [True, False])
def test_every_row_counts_with_its_first_episode(toy_env, agent, deterministic):
    evaluation = evaluate(toy_env(), agent, seed=1, deterministic=deterministic)
    lengths = torch.tensor([2.0, 3, 4, 5, 2, 3])  # as ToyEnv says
    assert torch.equal(evaluation.lengths, lengths)
    assert torch.equal(evaluation.returns, lengths * (lengths + 1) / 2)


def test_masks_are_honoured(toy_env, agent):
    evaluate(toy_env(masked=True), agent, seed=1, deterministic=True)
    evaluate(toy_env(masked=True), agent, seed=1, deterministic=False)
