import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import (
    AffineTransform,
    Categorical,
    Normal,
    TanhTransform,
    TransformedDistribution,
    kl_divergence,
)
from torch_batchsim.train import ActorCritic, Config
from torch_batchsim.train.policies.distributions import (
    CategoricalPolicy,
    GaussianPolicy,
    SquashedPolicy,
    make_policy,
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
        config, inputs = Config(hidden_sizes=(8, 8), activation=name), torch.randn(5, 4)
        agent = ActorCritic(box, discrete, config, CPU)
        for network, outputs in ((agent.actor, agent.outputs(inputs)), (agent.critic, agent.value(inputs)[:, None])):
            first, second, last = (layer for layer in network.modules() if isinstance(layer, torch.nn.Linear))
            torch.testing.assert_close(outputs, last(function(second(function(first(inputs))))))


def test_a_seed_means_the_same_networks_and_leaves_the_global_generator_alone():
    def networks(seed: int, action_space: gymnasium.Space) -> ActorCritic:
        config = Config(seed=seed, hidden_sizes=(8,))
        return ActorCritic(spaces.Box(-1, 1, (4,), np.float32), action_space, config, CPU)

    before = torch.get_rng_state()
    a, b, c = (networks(seed, spaces.Discrete(2)).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["actor.body.0.weight"], c["actor.body.0.weight"])
    assert torch.equal(before, torch.get_rng_state())
    assert networks(1, spaces.Box(-1, 1, (3,), np.float32)).outputs(torch.zeros(5, 4)).shape == (5, 6)


# ---- squashed actions ------------------------------------------------------------------------------------

BOUNDED = spaces.Box(np.array([-2.0, 0.5], np.float32), np.array([2.0, 0.75], np.float32))


def test_squashed_actions_have_the_density_of_what_the_environment_gets(generator):
    policy = SquashedPolicy(BOUNDED, CPU)
    outputs = torch.randn(50, 4, generator=generator)
    actions = policy.empty_actions(50)
    policy.sample(outputs, policy.noise((50,), generator), actions, None)
    actions.clamp_(-3, 3)  # where torch, which inverts the tanh, still can
    low, high = policy.low, policy.high
    stretch = [TanhTransform(cache_size=1), AffineTransform((high + low) / 2, (high - low) / 2)]
    squashed = TransformedDistribution(Normal(outputs[:, :2], outputs[:, 2:].exp()), stretch)
    log_prob, _ = policy.log_prob_and_entropy(outputs, actions, None)
    given = squashed.transforms[1](squashed.transforms[0](actions))
    torch.testing.assert_close(log_prob, squashed.log_prob(given).sum(-1), rtol=1e-3, atol=1e-3)
    assert ((policy.to_env(actions) >= low) & (policy.to_env(actions) <= high)).all()
    torch.testing.assert_close(policy.to_env(actions), given)


def test_the_entropy_of_squashed_actions_is_the_mean_of_their_surprise(generator):
    policy = SquashedPolicy(BOUNDED, CPU)
    outputs = torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, -2.0, -1.0, 0.5], [0.3, 0.0, -3.0, 0.7]])
    for row in outputs:
        many = row.expand(200_000, 4)
        actions = policy.empty_actions(200_000)
        policy.sample(many, policy.noise((200_000,), generator), actions, None)
        log_prob, entropy = policy.log_prob_and_entropy(many, actions, None)
        assert entropy[0].item() == pytest.approx(-log_prob.mean().item(), abs=0.02)


def test_far_out_squashed_actions_stay_finite():
    policy = SquashedPolicy(BOUNDED, CPU)
    outputs = torch.tensor([[50.0, -50.0, 1.0, 1.0]], requires_grad=True)
    log_prob, entropy = policy.log_prob_and_entropy(outputs, torch.tensor([[60.0, -70.0]]), None)
    (log_prob + entropy).sum().backward()
    assert log_prob.isfinite().all() and entropy.isfinite().all() and outputs.grad.isfinite().all()
    assert policy.to_env(torch.tensor([[60.0, -70.0]])).tolist() == [[2.0, 0.5]]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, 1.0, (2,)), "squash needs an action space with finite bounds"),
        (spaces.Box(1.0, 1.0, (2,)), "squash needs bounds that differ"),
    ],
)
def test_squashing_needs_bounds(space, message):
    with pytest.raises(ValueError, match=message):
        make_policy(space, CPU, squash=True)


def test_uniform_squashed_actions_fill_the_bounds(generator):
    policy = SquashedPolicy(BOUNDED, CPU)
    actions = policy.empty_actions(20_000)
    policy.uniform(generator, actions, None)
    shares = (policy.to_env(actions) - policy.low) / (policy.high - policy.low)
    assert (shares.mean(0) - 0.5).abs().max() < 0.01 and (shares.var(0) - 1 / 12).abs().max() < 0.003
