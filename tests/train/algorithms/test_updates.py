"""The arithmetic of updates in C++ is that of torch, but for the last bits."""

import ctypes
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces
from support import EMULATION, compiled
from torch import nn
from torch_batchsim.train import ActorCritic, PPOConfig
from torch_batchsim.train.algorithms import advantages, updates
from torch_batchsim.train.algorithms.ppo import PPO, Batch
from torch_batchsim.train.base import kernels
from torch_batchsim.train.base.active import zeroed
from torch_batchsim.train.base.ranks import moments
from torch_batchsim.train.policies.distributions import GaussianPolicy
from torch_batchsim.train.policies.perceptron import Perceptron

from torch_batchsim.build import jit

CPU = torch.device("cpu")


def layers(sizes, activation=nn.Tanh, last=False):
    made = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), activation())]
    return nn.Sequential(*(made if last else made[:-1]))


def assert_near(found, wanted, tolerance=2e-5):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= tolerance * (1 + b.abs().max())


# ---- networks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 5, 193, 2000])
@pytest.mark.parametrize(
    ("sizes", "activation", "last"),
    [
        ((4, 64, 64, 2), nn.Tanh, False),
        ((520, 128, 6), nn.Tanh, False),
        ((7, 33, 5), nn.ReLU, True),
        ((1, 1), nn.Tanh, False),
        ((30, 17, 100, 1), nn.ReLU, False),
    ],
)
def test_outputs_and_gradients_are_those_of_torch(sizes, activation, last, rows):
    torch.manual_seed(0)
    network = layers(sizes, activation, last)
    inputs = torch.randn(rows, sizes[0], requires_grad=True)
    outputs = network(inputs)
    gradient = torch.randn_like(outputs)
    wanted = outputs, *torch.autograd.grad(outputs, [inputs, *network.parameters()], gradient)
    outputs = Perceptron(network)(inputs)
    assert_near((outputs, *torch.autograd.grad(outputs, [inputs, *network.parameters()], gradient)), wanted)
    with torch.no_grad():
        assert torch.equal(Perceptron(network)(inputs), outputs)


@pytest.mark.crossed
@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 0.29, 0.31])
@pytest.mark.parametrize("sizes", [(520, 64, 6), (658, 256, 256, 20), (32, 100, 1), (45, 3), (2000, 130, 5)])
def test_inputs_that_are_mostly_zeros(sizes, share):
    """Skipped zeros change nothing, to the bit: rows among others that are all numbers are multiplied whole."""
    torch.manual_seed(0)
    network = Perceptron(layers(sizes))
    few = torch.randn(90, sizes[0]) * (torch.rand(90, sizes[0]) < share)
    many = torch.cat([few, torch.randn(310, sizes[0])])[torch.arange(400).view(2, 200).T.flatten()]  # every other row
    gradient = torch.randn(90, sizes[-1])
    of_many = torch.zeros(400, sizes[-1])
    of_many[:180:2] = gradient
    assert torch.equal(many[:180:2], few)
    found = []
    for inputs, by_outputs in ((few, gradient), (many, of_many)):
        outputs = network(inputs)
        found.append((outputs, *torch.autograd.grad(outputs, network.parameters, by_outputs)))
    (alone, *gradients), (among, *same) = found
    assert torch.equal(alone, among[:180:2])
    assert all(torch.equal(a, b) for a, b in zip(gradients, same, strict=True))
    wanted = few
    for module in network.modules:
        wanted = module(wanted)
    assert_near((alone, *gradients), (wanted, *torch.autograd.grad(wanted, network.parameters, gradient)))


@pytest.mark.parametrize("share", [0.03, 0.9])
@pytest.mark.parametrize("size", [5, 64, 65, 130, 520])
def test_bytes_are_the_floats_to_the_bit(size, share):
    torch.manual_seed(0)
    network = Perceptron(layers((size, 33, 3)))
    whole = torch.randint(0, 256, (300, size + 7), dtype=torch.uint8) * (torch.rand(300, size + 7) < share)
    inputs = whole[:, 3 : size + 3]  # rows with gaps between them
    gradient = torch.randn(300, 3)
    found = []
    for given in (inputs, inputs.float()):
        outputs = network(given)
        found.append((outputs, *torch.autograd.grad(outputs, network.parameters, gradient)))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_torch_computes_where_nothing_compiles(dtype, monkeypatch):
    network = Perceptron(layers((6, 4, 2)))
    inputs = torch.randint(0, 256, (5, 6), dtype=torch.uint8).to(dtype)
    wanted = network(inputs)
    monkeypatch.setattr(kernels, "library", lambda: None)  # no compiler
    assert_near([network(inputs)], [wanted])


def test_zeros_do_not_hide_what_is_not_finite():
    network = Perceptron(layers((64, 8, 2)))
    inputs = torch.zeros(3, 64)
    inputs[0, 5], inputs[1, 63], inputs[2, 7] = torch.nan, torch.inf, -torch.inf
    with torch.no_grad():
        assert torch.equal(network(inputs).isnan(), torch.tensor([[True] * 2, [False] * 2, [False] * 2]))
    inputs[1:, 9] = torch.tensor([torch.nan, torch.inf])
    with torch.no_grad():
        assert network(inputs)[:2].isnan().all()


def test_leading_shapes_and_strides():
    network = layers((3, 8, 2))
    everything = torch.randn(4, 5, 7)
    found = Perceptron(network)(everything[..., 2:5])
    assert_near([found], [network(everything[..., 2:5])])
    turned = everything.transpose(0, 2)[..., :3]
    assert_near([Perceptron(network)(turned)], [network(turned)])
    assert Perceptron(network)(torch.zeros(0, 3)).shape == (0, 2)


def outputs_on_any_number_of_threads(compute, inputs):
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        outputs = compute(inputs)
        found.append((outputs, *torch.autograd.grad(outputs.sin().sum(), compute.parameters)))
    torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    return outputs


def test_a_row_does_not_depend_on_others_nor_anything_on_threads():
    network, inputs = layers((9, 40, 3)), torch.randn(3000, 9)
    compute = Perceptron(network)
    outputs = outputs_on_any_number_of_threads(compute, inputs)
    assert torch.equal(compute(inputs[7:11]), outputs[7:11])


def test_what_is_not_a_number_stays_so():
    inputs = torch.randn(40, 3)
    inputs[5, 1] = torch.nan
    for activation in (nn.Tanh, nn.ReLU):
        outputs = Perceptron(layers((3, 4, 2), activation))(inputs)
        assert outputs[5].isnan().all() and outputs[:5].isfinite().all() and outputs[6:].isfinite().all()
    large = torch.tensor([[torch.inf], [-torch.inf], [1e30], [0.0]])
    assert_near([Perceptron([unit := nn.Linear(1, 1), nn.Tanh()])(large)], [unit(large).tanh()])


def test_tanh_is_near_everywhere():
    unit = nn.Linear(1, 1)
    with torch.no_grad():
        unit.weight.fill_(1), unit.bias.zero_()
    x = torch.linspace(-12, 12, 100_001).unsqueeze(1)
    assert (Perceptron([unit, nn.Tanh()])(x) - x.double().tanh()).abs().max() < 2e-7


def test_several_forwards_before_a_backward():
    network = layers((3, 8, 1))
    compute = Perceptron(network)
    parts = [torch.randn(n, 3) for n in (4, 9, 2)]
    found = torch.autograd.grad(sum(compute(part).sum() for part in parts), list(network.parameters()))
    assert_near(found, torch.autograd.grad(sum(network(part).sum() for part in parts), list(network.parameters())))
    total = compute(parts[0]).sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can be taken once"):
        total.backward()


def test_a_copy_has_parameters_of_its_own():
    config = PPOConfig(hidden_sizes=(8,))
    agent = ActorCritic(spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2), config, CPU)
    inputs = torch.randn(5, 3)
    before, copy = agent.outputs(inputs), deepcopy(agent)
    with torch.no_grad():
        agent.actor.head.bias.add_(1)
        assert torch.equal(copy.outputs(inputs), before)
        assert torch.allclose(agent.outputs(inputs), before + 1, atol=1e-5)


# ---- products in bfloat16 ----------------------------------------------------------------------------------


@pytest.fixture
def bfloat16():
    """Lets products be of factors rounded to bfloat16; whether they are, on this CPU."""
    torch.set_float32_matmul_precision("medium")
    yield kernels.library().has_bfloat16()
    torch.set_float32_matmul_precision("highest")


def rounded(numbers):
    return numbers.bfloat16().double()


@pytest.mark.parametrize("rows", [1, 15, 33, 96, 193])
@pytest.mark.parametrize("share", [1.0, 0.03])
@pytest.mark.parametrize("sizes", [(16, 1), (17, 33), (31, 15), (64, 64), (95, 130), (658, 100)])
def test_a_product_rounds_its_factors_only(bfloat16, sizes, share, rows):
    """Forwards and backwards, of numbers that are mostly zeros too."""
    torch.manual_seed(0)
    unit = nn.Linear(*sizes)
    inputs = torch.randn(rows, sizes[0]) * (torch.rand(rows, sizes[0]) < share)
    inputs.requires_grad_()
    gradient = torch.randn(rows, sizes[1])
    outputs = Perceptron([unit])(inputs)
    found = outputs, *torch.autograd.grad(outputs, [inputs, unit.weight, unit.bias], gradient)
    forwards = rounded if bfloat16 else torch.Tensor.double
    # Few outputs are not worth rounding backwards, nor are the factors of zeros that are skipped.
    skips = share < 0.1 and sizes[0] >= 64
    backwards = forwards if sizes[1] >= 16 else torch.Tensor.double
    by_inputs = backwards(gradient) @ backwards(unit.weight)
    by_weight = (gradient.double() if skips else backwards(gradient)).T @ (forwards if skips else backwards)(inputs)
    wanted = forwards(inputs) @ forwards(unit.weight).T + unit.bias, by_inputs, by_weight, gradient.sum(0)
    assert_near(found, wanted, 1e-5)


@pytest.mark.parametrize("sizes", [(4, 64, 64, 2), (520, 128, 6), (30, 17, 100, 1)])
def test_networks_in_bfloat16_are_near_exact_ones(bfloat16, sizes):
    torch.manual_seed(0)
    network = layers(sizes)
    inputs = torch.randn(2000, sizes[0])
    found = Perceptron(network)(inputs)
    torch.set_float32_matmul_precision("highest")
    wanted = Perceptron(network)(inputs)
    assert_near([found], [wanted], 0.01)
    assert torch.equal(found, wanted) != bfloat16
    gradients = [torch.autograd.grad(each.sin().sum(), list(network.parameters())) for each in (found, wanted)]
    for a, b in zip(*gradients, strict=True):
        assert (a - b).norm() <= 0.03 * b.norm()


def test_in_bfloat16_a_row_does_not_depend_on_others_nor_anything_on_threads(bfloat16):
    network, inputs = layers((90, 40, 3)), torch.randn(1000, 90)
    inputs[::7, 3:] = 0
    compute = Perceptron(network)
    outputs = outputs_on_any_number_of_threads(compute, inputs)
    assert torch.equal(compute(inputs[8:13]), outputs[8:13])
    assert_near([compute(inputs[7:8])], [outputs[7:8]], 1e-6)  # zeros are skipped: another order of sums
    inputs[5, 1] = torch.nan
    assert torch.equal(compute(inputs).isnan().any(1), torch.arange(1000) == 5)


# ---- PPO's loss ------------------------------------------------------------------------------------------

SPACES = [spaces.Discrete(2), spaces.Discrete(20), spaces.MultiDiscrete([2, 3, 7])]
BOXES = [spaces.Box(-1, 1, shape, np.float32) for shape in ((1,), (2, 4), (21,))]


def made_batch(policy, samples, masked, active):
    acts = torch.rand(samples) > 0.3 if active else None
    if isinstance(policy, GaussianPolicy):
        actions, mask = torch.randn(samples, policy.num_means), None
        return _with_inputs(actions.unflatten(1, policy.shape), None, acts)
    actions = torch.stack([torch.randint(0, size, (samples,)) for size in policy.sizes], -1)
    mask = None
    if masked:
        mask, place = torch.rand(samples, policy.num_means) > 0.4, 0
        for i, size in enumerate(policy.sizes):
            mask[torch.arange(samples), place + actions[:, i]] = True
            place += size
        mask = mask if acts is None else mask | ~acts.unsqueeze(-1)
    return _with_inputs(actions[:, 0] if policy.single else actions, mask, acts)


def _with_inputs(actions, mask, acts):
    samples = len(actions)
    inputs, advantages = torch.randn(samples, 5), torch.randn(samples)
    inputs, advantages, actions = (zeroed(each, acts) for each in (inputs, advantages, actions))
    old = torch.randn(samples) * 0.5 - 1
    return Batch(inputs, actions, old, torch.randn(samples), advantages, torch.randn(samples), mask, acts)


def made_sequences(flat, steps, rows, agent):
    """A batch as steps of rows, with ends of episodes at any place and states before the first step."""
    batch = Batch(*(None if field is None else field.unflatten(0, (steps, rows)) for field in flat))
    hidden = torch.randn(2, rows, agent.state_size) / 2
    return batch._replace(ends=torch.rand(steps, rows) < 0.3, actor_hidden=hidden[0], critic_hidden=hidden[1])


@pytest.mark.crossed
@pytest.mark.parametrize("samples", [1, 37, 500])
@pytest.mark.parametrize(("masked", "active"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_loss_and_gradient_are_those_of_torch(space, masked, active, samples):
    torch.manual_seed(samples)
    for settings in ({"norm_adv": samples > 1}, {"norm_adv": False, "ent_coef": 0.0}):
        agent = ActorCritic(spaces.Box(-1, 1, (5,), np.float32), space, PPOConfig(hidden_sizes=(16,), **settings), CPU)
        learner = PPO(agent, samples, PPOConfig(hidden_sizes=(16,), **settings), torch.Generator())
        with torch.no_grad():
            learner.parameters.add_(torch.randn_like(learner.parameters) * 0.5)
        batch = made_batch(agent.policy, samples, masked, active)
        loss, metrics, log_ratio = learner.losses(batch)
        learner.differentiate(loss)
        wanted = [*metrics.values(), log_ratio.detach(), learner.parameters.grad.clone()]
        learner.parameters.grad.fill_(torch.nan)
        found, log_ratio = learner.differentiate_at_once(learner.at_once(batch), torch.arange(samples))
        assert list(found) == list(metrics)
        assert_near([*found.values(), log_ratio, learner.parameters.grad], wanted, 1e-4)


def exact_loss(agent, batch, config):
    """PPO's loss under a Gaussian in float64, by torch.distributions: its parts, log(ratio), and the gradient."""
    exact = deepcopy(agent).double()
    acts = torch.ones(len(batch.inputs), dtype=torch.bool) if batch.active is None else batch.active
    inputs, actions, old, _, advantages, returns = (each[acts].double() for each in batch[:6])
    actor, critic = (nn.Sequential(*each.body, each.head) for each in (exact.actor, exact.critic))
    normal = torch.distributions.Normal(actor(inputs), exact.log_std.exp())
    log_ratio = normal.log_prob(actions.flatten(1)).sum(-1) - old
    if config.norm_adv:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    clipped = log_ratio.exp().clamp(1 - config.clip_coef, 1 + config.clip_coef)
    policy_loss = -torch.min(advantages * log_ratio.exp(), advantages * clipped).mean()
    value_loss = 0.5 * (critic(inputs).squeeze(-1) - returns).square().mean()
    entropy = normal.entropy().sum(-1).mean()
    loss = policy_loss - config.ent_coef * entropy + config.vf_coef * value_loss
    gradient = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(exact.parameters()))])
    return policy_loss, value_loss, entropy, torch.zeros(len(acts)).double().masked_scatter(acts, log_ratio), gradient


@pytest.mark.crossed
@pytest.mark.parametrize("samples", [2, 37, 500])
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("space", BOXES, ids=str)
def test_gradients_under_a_gaussian_are_those_of_float64(space, active, samples):
    """In C++ and in torch; those of the learned deviations too."""
    torch.manual_seed(samples)
    for settings in ({"norm_adv": samples > 2}, {"norm_adv": False, "ent_coef": 0.0}):
        config = PPOConfig(hidden_sizes=(16,), **settings)
        agent = ActorCritic(spaces.Box(-1, 1, (5,), np.float32), space, config, CPU)
        learner = PPO(agent, samples, config, torch.Generator())
        with torch.no_grad():
            learner.parameters.add_(torch.randn_like(learner.parameters) * 0.3)
        batch = made_batch(agent.policy, samples, False, active)
        if active:
            batch.active[0] = True
        present, _ = agent.policy.log_prob_and_entropy(agent.outputs(batch.inputs), batch.actions, None)
        batch = batch._replace(log_probs=present.detach() + torch.randn(samples) * 0.3)
        wanted = [each.detach() for each in exact_loss(agent, batch, config)]
        learner.parameters.grad.fill_(torch.nan)
        metrics, log_ratio = learner.differentiate_at_once(learner.at_once(batch), torch.arange(samples))
        assert_near([*metrics.values(), log_ratio, learner.parameters.grad], wanted)
        assert samples == 2 or agent.log_std.grad.abs().max() > 1e-3  # both samples may be clipped
        assert_near([agent.log_std.grad], [wanted[-1][: agent.log_std.numel()]])  # the first of the parameters
        loss, metrics, log_ratio = learner.losses(batch)
        learner.differentiate(loss)
        assert_near([*metrics.values(), log_ratio.detach(), learner.parameters.grad], wanted)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("space", [SPACES[2], BOXES[1]], ids=str)
def test_a_huge_ratio_is_clipped_and_has_no_gradient(space, at_once):
    config = PPOConfig(hidden_sizes=(16,), norm_adv=False)
    agent = ActorCritic(spaces.Box(-1, 1, (5,), np.float32), space, config, CPU)
    learner = PPO(agent, 40, config, torch.Generator())
    batch = made_batch(agent.policy, 40, False, False)
    present, _ = agent.policy.log_prob_and_entropy(agent.outputs(batch.inputs), batch.actions, None)

    def found(advantage, log_ratio):
        """The loss of the policy and the gradient, where one sample has these."""
        old, advantages = present.detach() + 0.1, batch.advantages.clone()
        old[3], advantages[3] = present[3].detach() - log_ratio, advantage
        given = batch._replace(log_probs=old, advantages=advantages)
        if at_once:
            metrics, _ = learner.differentiate_at_once(learner.at_once(given), torch.arange(40))
        else:
            loss, metrics, _ = learner.losses(given)
            learner.differentiate(loss)
        return metrics["losses/policy_loss"], learner.parameters.grad.clone()

    for advantage in (2.0, 0.0):
        assert_near(found(advantage, 1000.0), found(advantage, 1.0))  # which is clipped too
    loss, gradient = found(-1.0, 1000.0)
    assert 1e36 < loss < torch.inf  # the mean, with one of exp(88)
    assert_near([gradient], found(0.0, 1.0)[1:])


@pytest.mark.parametrize("space", [SPACES[2], BOXES[1]], ids=str)
@pytest.mark.parametrize("memory", ["none", "gru"])
@pytest.mark.parametrize("active", [False, True])
def test_parts_of_processes_sum_up_to_the_gradient_of_one(active, memory, space):
    """Of three processes, one without a sample; with the torch path too."""
    torch.manual_seed(0)
    steps, rows = 6, 10
    config = PPOConfig(hidden_sizes=(16,), memory=memory, memory_size=7)
    agent = ActorCritic(spaces.Box(-1, 1, (5,), np.float32), space, config, CPU)
    learner = PPO(agent, rows, config, torch.Generator())
    batch = made_batch(agent.policy, steps * rows, True, active)
    if memory != "none":
        batch = made_sequences(batch, steps, rows, agent)
    order = torch.randperm(batch.advantages.shape[-1])
    metrics, _ = learner.differentiate_at_once(learner.at_once(batch), order)
    wanted = [*metrics.values(), learner.parameters.grad.clone()]
    sizes = [len(order) - 3, 0, 3]
    parts = list(batch.cut(order, sizes))
    of_all = sum(moments(part.advantages, part.active) for part in parts)

    def by_torch(part):
        loss, metrics, _ = learner.losses(part, of_all)
        learner.differentiate(loss)
        return metrics

    def by_cpp(some):
        learner.parameters.grad.fill_(torch.nan)
        return learner.differentiate_at_once(learner.at_once(batch), some, of_all)[0]

    for compute, given in ((by_cpp, order.split(sizes)), (by_torch, parts)):
        found = [[*compute(some).values(), learner.parameters.grad.clone()] for some in given]
        assert_near([sum(each) for each in zip(*found, strict=True)], wanted, 1e-4)


@pytest.mark.parametrize("share", [0.05, 0.9])
@pytest.mark.parametrize("beside", [0, 3])
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.uint8, 1e-4), (torch.float32, 1e-4), (torch.float32, 1e-2)])
def test_minibatches_are_any_samples_on_any_number_of_threads(kind, tolerance, beside, share, request):
    """Bytes or floats, mostly zeros or not, with inputs that a central critic reads beside those of the actor."""
    torch.manual_seed(0)
    if tolerance > 1e-4:
        request.getfixturevalue("bfloat16")
    size, samples, config = 70, 900, PPOConfig(hidden_sizes=(33, 20), central_critic=beside > 0)
    for_critic = spaces.Dict({"more": spaces.Box(0, 3, (beside,), np.float32)}) if beside else None
    agent = ActorCritic(spaces.Box(0, 3, (size,), np.float32), SPACES[2], config, CPU, for_critic)
    learner = PPO(agent, samples, config, torch.Generator())
    batch = made_batch(agent.policy, samples, True, True)
    inputs = torch.randint(0, 3, (samples, size + beside)) * (torch.rand(samples, size + beside) < share)
    batch = batch._replace(inputs=inputs.to(kind))
    order, found = torch.randperm(samples)[:701], []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        metrics, log_ratio = learner.differentiate_at_once(learner.at_once(batch), order)
        found.append([*metrics.values(), log_ratio, learner.parameters.grad.clone()])
    torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    some = Batch(*(None if field is None else field[order] for field in batch))
    loss, metrics, log_ratio = learner.losses(some._replace(inputs=some.inputs.float()))
    learner.differentiate(loss)
    assert_near(found[0], [*metrics.values(), log_ratio.detach(), learner.parameters.grad], tolerance)


@pytest.mark.parametrize("space", [SPACES[2], BOXES[1]], ids=str)
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("of_several", [False, True])
@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_passes_at_once_are_their_minibatches(memory, space, active, of_several):
    """To the bit, as a process of several (the other has nothing), too."""
    torch.manual_seed(0)
    config = PPOConfig(learning_rate=0.01, hidden_sizes=(16,), memory=memory, memory_size=7)
    rows, agent = 300, ActorCritic(spaces.Box(-1, 1, (5,), np.float32), space, config, CPU)
    batch, passes = made_batch(agent.policy, rows, True, active), 2
    if memory != "none":
        batch, rows = made_sequences(batch, 6, 50, agent), 50
    orders, sizes = [torch.randperm(rows) for _ in range(passes)], [rows // 3, 1, rows - rows // 3 - 1]
    of_each = [None] * passes
    if of_several:
        parts = [batch.cut(order, sizes) for order in orders]
        of_each = [torch.stack([moments(part.advantages, part.active) for part in cut]) for cut in parts]
    found = []
    for at_once in (False, True):
        learner = PPO(deepcopy(agent), rows, config, torch.Generator())
        given = learner.at_once(batch)
        if at_once:
            of_all = torch.cat(of_each) if of_several else None
            shown = learner.passes_at_once(given, torch.cat(orders), sizes * passes, of_all, passes)
        else:
            each = zip(orders, of_each, strict=True)
            shown = [learner.pass_over(batch, given, order, sizes, of_all) for order, of_all in each]
        state = learner.optimizer.state[learner.parameters]
        found.append([shown, learner.parameters, *(state[name] for name in ("step", "exp_avg", "exp_avg_sq"))])
    assert all(torch.equal(a, b) for a, b in zip(found[0][1:], found[1][1:], strict=True))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            torch.testing.assert_close(other[name], value, msg=name)


def test_what_is_not_a_number_reaches_the_loss():
    agent = ActorCritic(spaces.Box(-1, 1, (5,), np.float32), SPACES[0], PPOConfig(), CPU)
    learner = PPO(agent, 8, PPOConfig(), torch.Generator())
    with torch.no_grad():
        agent.actor.head.bias.fill_(torch.nan)
    batch = made_batch(agent.policy, 8, False, False)
    metrics, _ = learner.differentiate_at_once(learner.at_once(batch), torch.arange(8))
    assert metrics["losses/policy_loss"].isnan()


def test_other_networks_are_torchs():
    grid = spaces.Box(-1, 1, (5, 5, 1), np.float32)
    without_layers, encoders = {"memory": "gru", "hidden_sizes": ()}, {"encoders": ("conv",)}
    given = [(BOXES[0], {}), (SPACES[0], without_layers), (SPACES[0], encoders), (SPACES[0], {})]
    fits = []
    for space, settings in given:
        agent = ActorCritic(grid, space, PPOConfig(**settings), CPU)
        learner = PPO(agent, 8, PPOConfig(**settings), torch.Generator())
        batch = made_batch(agent.policy, 8, False, False)
        fits.append(learner.at_once(batch) is not None)
    assert fits == [True, False, False, True]


@pytest.mark.crossed
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (7, 5), (4, 50)])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("space", [SPACES[2], BOXES[2]], ids=str)
def test_minibatches_of_whole_rows_where_networks_remember(space, kind, steps, rows, active):
    """With a central critic, masks, ends of episodes at any place and states before the first step."""
    torch.manual_seed(rows)
    config = PPOConfig(
        memory=kind, memory_size=9, hidden_sizes=(17,), central_critic=True, norm_adv=rows > 1
    )  # fmt: skip
    for_critic = spaces.Dict({"more": spaces.Box(0, 3, (3,), np.float32)})
    agent = ActorCritic(spaces.Box(0, 3, (5,), np.float32), space, config, CPU, for_critic)
    learner = PPO(agent, rows, config, torch.Generator())
    flat = made_batch(agent.policy, steps * rows, True, active)
    flat = flat._replace(inputs=torch.cat([flat.inputs, torch.randn(steps * rows, 3)], 1))
    batch = made_sequences(flat, steps, rows, agent)
    order, found = torch.randperm(rows)[: max(1, rows - 2)], []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        learner.parameters.grad.fill_(torch.nan)
        metrics, log_ratio = learner.differentiate_at_once(learner.at_once(batch), order)
        found.append([*metrics.values(), log_ratio, learner.parameters.grad.clone()])
    torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    cut = (None if field is None else field.index_select(0 if "hidden" in name else 1, order) for name, field in
           batch._asdict().items())  # fmt: skip
    loss, metrics, log_ratio = learner.losses(Batch(*cut))
    learner.differentiate(loss)
    assert_near(found[0], [*metrics.values(), log_ratio.detach().flatten(), learner.parameters.grad], 1e-4)


# ---- advantages --------------------------------------------------------------------------------------------


def rollout(steps, rows):
    torch.manual_seed(steps)
    floats = torch.randn(3, steps, rows + 2)[..., 1:-1].unbind()  # with gaps between their rows
    return [*floats, *(torch.rand(2, steps, rows) < 0.2).unbind()]


def by_torch(series, patch):
    with patch.context() as patched:
        patched.setattr(advantages, "advantages_at_once", lambda *_: None)
        return advantages.generalised_advantages(*series, 0.99, 0.95)


@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (5, 33), (128, 300), (3, 0)])
def test_advantages_are_those_of_torch(steps, rows, monkeypatch):
    series = rollout(steps, rows)
    if rows > 1:
        series[1][2, 3] = torch.nan
    found = updates.advantages_at_once(series, 0.99, 0.95)
    wanted = by_torch(series, monkeypatch)
    assert (found - wanted).nan_to_num(0.0).abs().sum() <= 1e-5 * found.numel()
    assert torch.equal(found.isnan(), wanted.isnan())
    assert found.isnan().any(0).nonzero().flatten().tolist() == ([3] if rows > 1 else [])


@pytest.mark.full
def test_the_kernel_of_advantages_has_the_bits_of_the_cpu(monkeypatch):
    """csrc/host/advantages.cu, run by g++."""
    source = (jit.CSRC / "host" / "advantages.cu").read_text()
    header = (jit.CSRC / "host" / "advantages.h").read_text()
    flags = ["-std=c++20", "-O1", "-ffp-contract=off", "-fPIC", "-shared", f"-I{jit.CSRC}", "-include", str(EMULATION)]
    library = ctypes.CDLL(str(compiled(source, flags, [header])))
    series = rollout(9, 300)

    def compute(given):
        return library.advantages(ctypes.c_void_p(given), None)

    wanted = updates.advantages_at_once(series, 0.99, 0.95)
    monkeypatch.setattr(updates, "advantages_kernel", lambda device: compute)
    assert torch.equal(updates.advantages_at_once(series, 0.99, 0.95), wanted)


def test_other_advantages_are_torchs():
    series = rollout(2, 3)
    assert updates.advantages_at_once([*(each.double() for each in series[:3]), *series[3:]], 1, 1) is None
    assert updates.advantages_at_once([series[0].requires_grad_(), *series[1:]], 1, 1) is None


# ---- the optimiser ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("longest", [0.5, 1e9])
@pytest.mark.parametrize("count", [1, 300, 5003])
def test_steps_of_adam_are_those_of_torch(count, longest):
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, count)) for _ in range(2))
    optimizers = [torch.optim.Adam([each], lr=0.01, eps=1e-5, fused=True) for each in (ours, theirs)]
    for step in range(20):
        gradient = torch.randn(count) * 10.0 ** (step % 3 - 2)
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        norm = updates.Adam(optimizers[0], ours, longest).step()
        wanted = nn.utils.clip_grad_norm_([theirs], longest)
        optimizers[1].step()
        assert_near([norm, ours.grad, ours.detach()], [wanted, theirs.grad, theirs.detach()], 1e-5)
    states = [each.state_dict()["state"][0] for each in optimizers]
    assert states[0].keys() == states[1].keys()
    assert_near(states[0].values(), states[1].values(), 1e-5)
    ours.grad[0] = torch.nan
    assert updates.Adam(optimizers[0], ours, longest).step().isnan() and ours.isnan().all()
