import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import (
    Categorical,
    Normal,
    kl_divergence,
)
from torch_batchsim.train import ActorCritic, PPOConfig
from torch_batchsim.train.policies.distributions import (
    CategoricalPolicy,
    GaussianPolicy,
)
from torch_batchsim.train.policies.encoders import Encoder

CPU = torch.device("cpu")


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(1)


def test_encoder_flattens_scales_and_concatenates():
    space = spaces.Dict(
        a=spaces.Box(0, 255, (2, 2), np.uint8),
        b=spaces.Box(0, 9, (1,), np.uint8),
        c=spaces.Box(-1, 1, (), np.float32),
    )
    observation = {
        "c": torch.tensor([0.5, -0.5]),
        "b": torch.tensor([[7], [8]], dtype=torch.uint8),
        "a": torch.tensor([[[0, 255], [51, 0]], [[255, 0], [0, 0]]], dtype=torch.uint8),
    }
    encoder = Encoder(space)
    expected = torch.tensor([[0, 1, 0.2, 0, 7, 0.5], [1, 0, 0, 0, 8, -0.5]])
    assert encoder.size == 6
    torch.testing.assert_close(encoder(observation), expected)
    longer = {name: leaf.expand(3, *leaf.shape) for name, leaf in observation.items()}
    torch.testing.assert_close(encoder(longer), expected.expand(3, 2, 6))


def test_encoder_does_not_copy_vectors():
    observation = torch.zeros(5, 4)
    encoded = Encoder(spaces.Box(-1, 1, (4,), np.float32))(observation)
    assert encoded.data_ptr() == observation.data_ptr()


def test_categorical_agrees_with_torch_distributions(generator):
    policy = CategoricalPolicy(spaces.MultiDiscrete([2, 3]), CPU)
    outputs = torch.randn(7, 5, generator=generator)
    actions = torch.stack([torch.arange(7) % 2, torch.arange(7) % 3], -1)
    log_prob, entropy = policy.log_prob_and_entropy(outputs, actions, None)
    first, second = Categorical(logits=outputs[:, :2]), Categorical(logits=outputs[:, 2:])
    torch.testing.assert_close(log_prob, first.log_prob(actions[:, 0]) + second.log_prob(actions[:, 1]))
    torch.testing.assert_close(entropy, first.entropy() + second.entropy())


def test_categorical_samples_follow_the_probabilities(generator):
    policy = CategoricalPolicy(spaces.Discrete(3), CPU)
    probabilities = torch.tensor([0.1, 0.3, 0.6])
    actions = policy.empty_actions(50_000)
    noise = policy.noise((50_000,), generator)
    policy.sample(probabilities.log().expand(50_000, 3), noise, actions, None)
    drawn = Categorical(torch.bincount(actions, minlength=3) / 50_000)
    assert kl_divergence(drawn, Categorical(probabilities)) < 1e-3


def test_masked_actions_are_never_chosen_and_have_no_probability(generator):
    policy = CategoricalPolicy(spaces.Discrete(3), CPU)
    outputs = torch.tensor([50.0, 0.0, 0.0]).repeat(1000, 1)
    mask = torch.tensor([False, True, True]).repeat(1000, 1)
    actions = policy.empty_actions(1000)
    noise = policy.noise((1000,), generator)
    noise[:, 0] = torch.inf  # the worst that can be drawn
    policy.sample(outputs, noise, actions, mask)
    assert set(actions.tolist()) == {1, 2}
    policy.mode(outputs, actions, mask)
    assert set(actions.tolist()) == {1}
    outputs.requires_grad_()
    log_prob, entropy = policy.log_prob_and_entropy(outputs, actions, mask)
    torch.testing.assert_close(log_prob.exp(), torch.full((1000,), 0.5))
    torch.testing.assert_close(entropy, torch.full((1000,), 2.0).log())
    (log_prob + entropy).sum().backward()
    assert outputs.grad.isfinite().all()
    assert not outputs.grad[:, 0].any()


def test_gaussian_agrees_with_torch_distributions(generator):
    policy = GaussianPolicy(spaces.Box(-1, 1, (2, 2), np.float32), CPU)
    outputs = torch.randn(7, 8, generator=generator)
    actions = policy.empty_actions(7)
    policy.sample(outputs, policy.noise((7,), generator), actions, None)
    normal = Normal(outputs[:, :4], outputs[:, 4:].exp())
    log_prob, entropy = policy.log_prob_and_entropy(outputs, actions, None)
    torch.testing.assert_close(log_prob, normal.log_prob(actions.flatten(1)).sum(-1))
    torch.testing.assert_close(entropy, normal.entropy().sum(-1))
    assert policy.to_env(actions).abs().max() <= 1
    policy.mode(outputs, actions, None)
    assert torch.equal(actions.flatten(1), outputs[:, :4])


def test_the_activation_follows_each_hidden_layer():
    box, discrete = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(3)
    for name, function in (("tanh", torch.tanh), ("relu", torch.relu)):
        config, inputs = PPOConfig(hidden_sizes=(8, 8), activation=name), torch.randn(5, 4)
        agent = ActorCritic(box, discrete, config, CPU)
        for network, outputs in ((agent.actor, agent.outputs(inputs)), (agent.critic, agent.value(inputs)[:, None])):
            first, second, last = (layer for layer in network.modules() if isinstance(layer, torch.nn.Linear))
            torch.testing.assert_close(outputs, last(function(second(function(first(inputs))))))


def test_a_seed_means_the_same_networks_and_leaves_the_global_generator_alone():
    def networks(seed: int, action_space: gymnasium.Space) -> ActorCritic:
        config = PPOConfig(seed=seed, hidden_sizes=(8,))
        return ActorCritic(spaces.Box(-1, 1, (4,), np.float32), action_space, config, CPU)

    before = torch.get_rng_state()
    a, b, c = (networks(seed, spaces.Discrete(2)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["actor.body.0.weight"], c["actor.body.0.weight"])
    assert torch.equal(before, torch.get_rng_state())
    assert networks(1, spaces.Box(-1, 1, (3,), np.float32)).outputs(torch.zeros(5, 4)).shape == (5, 6)
