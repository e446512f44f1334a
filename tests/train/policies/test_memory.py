"""Networks that remember earlier steps of an episode."""

from copy import deepcopy

import pytest
import torch
from environments.recall import Recall
from gymnasium import spaces
from torch import nn
from torch_batchsim.train import ActorCritic, PPOConfig, Trainer, evaluate
from torch_batchsim.train.base.ranks import ALONE
from torch_batchsim.train.policies.networks import Cell, Past, Player
from training import assert_goes_on_to_the_bit, melee_trainer

from torch_batchsim import TorchVectorEnv

CPU = torch.device("cpu")
SPACES = spaces.Box(-1, 1, (3,)), spaces.Discrete(4)
SMALL = {"num_envs": 6, "num_steps": 8, "num_minibatches": 2, "total_steps": 480, "hidden_sizes": (16,)}
KINDS = pytest.mark.parametrize("kind", ["lstm", "gru"])


@KINDS
def test_cells_are_those_of_torch(kind):
    made = Cell(kind, 3, 5, torch.Generator().manual_seed(1))
    theirs = (nn.LSTMCell if kind == "lstm" else nn.GRUCell)(3, 5)
    with torch.no_grad():
        for name, layer in (("ih", made.of_input), ("hh", made.of_hidden)):
            layer.bias.uniform_(-1, 1)
            getattr(theirs, f"weight_{name}").copy_(layer.weight)
            getattr(theirs, f"bias_{name}").copy_(layer.bias)
    inputs, state = torch.randn(7, 3), torch.randn(7, made.state_size)
    found = made(made.of_input(inputs), state)
    expected = theirs(inputs, state.chunk(2, -1)) if kind == "lstm" else (theirs(inputs, state),)
    torch.testing.assert_close(found, torch.cat(expected, -1))


# ---- in C++ ----------------------------------------------------------------------------------------------


def with_gradients(cell, inputs, past, by):
    """Outputs, cells of an LSTM, and the gradients of all that can have one."""
    inputs, hidden = inputs.clone().requires_grad_(), past.hidden.clone().requires_grad_()
    found = cell.sequence(inputs, past._replace(hidden=hidden))
    wanted = [inputs, hidden, *cell.parts]
    return [*found, *torch.autograd.grad(found, wanted, [each.to(inputs.dtype) for each in by])]


def assert_close_in_float64(cell, inputs, past, by):
    """What C++ computes in float32 is what torch's autograd of the plain formula computes in float64."""
    found = with_gradients(cell, inputs, past, by)
    wanted = with_gradients(deepcopy(cell).double(), inputs.double(), past._replace(hidden=past.hidden.double()), by)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == torch.float32 and b.dtype == torch.float64
        assert (a - b).abs().max() <= 3e-6 * (1 + b.abs().max())


@pytest.mark.crossed
@KINDS
@pytest.mark.parametrize("comes_and_goes", [False, True])
@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (1, 7), (9, 1), (12, 25), (5, 61)])
@pytest.mark.parametrize(("inputs", "size"), [(3, 5), (32, 64), (17, 33)])
def test_sequences_and_gradients_are_those_of_the_formula(kind, inputs, size, steps, rows, comes_and_goes):
    generator = torch.Generator().manual_seed(steps + rows)
    cell = Cell(kind, inputs, size, generator)
    for layer in (cell.of_input, cell.of_hidden):
        nn.init.uniform_(layer.bias, -1, 1, generator)
    given = torch.randn(steps, rows, inputs, generator=generator)
    hidden = torch.randn(rows, cell.state_size, generator=generator)
    ends, active = (torch.rand(steps, rows, generator=generator) < share for share in (0.3, 0.7))
    by = torch.randn(2 if kind == "lstm" else 1, steps, rows, size, generator=generator).unbind()
    assert_close_in_float64(cell, given, Past(hidden, ends, active if comes_and_goes else None), by)


@KINDS
def test_sequences_are_those_of_torch(kind):
    size, inputs, hidden = 20, torch.randn(30, 40, 7), torch.zeros(40, 40 if kind == "lstm" else 20)
    cell = Cell(kind, 7, size, torch.Generator().manual_seed(1))
    theirs = (nn.LSTM if kind == "lstm" else nn.GRU)(7, size)
    parts = [each.detach() for each in cell.parts]
    for name, part in zip(("weight_ih", "bias_ih", "weight_hh", "bias_hh"), parts, strict=True):
        getattr(theirs, f"{name}_l0").data.copy_(part)
    torch.testing.assert_close(cell.sequence(inputs, Past(hidden, None, None))[0], theirs(inputs)[0])


@KINDS
def test_gradients_of_the_formula_are_differences(kind):
    cell = Cell(kind, 3, 4, torch.Generator().manual_seed(1)).double()
    inputs, ends, active = series(steps=4, rows=3)
    hidden = torch.randn(3, cell.state_size, dtype=torch.float64, requires_grad=True)
    function = lambda given, state: cell.sequence(given, Past(state, ends, active))  # noqa: E731
    assert torch.autograd.gradcheck(function, (inputs.double().requires_grad_(), hidden))


@KINDS
def test_bits_do_not_depend_on_threads_nor_those_of_a_row_on_others(kind):
    cell = Cell(kind, 40, 48, torch.Generator().manual_seed(1))
    inputs, hidden, ends = torch.randn(20, 150, 40), torch.randn(150, cell.state_size), torch.rand(20, 150) < 0.1
    by = torch.randn(2 if kind == "lstm" else 1, 20, 150, 48).unbind()
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(with_gradients(cell, inputs, Past(hidden, ends, None), by))
    torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    few = slice(13, 31)
    apart = with_gradients(cell, inputs[:, few], Past(hidden[few], ends[:, few], None), [each[:, few] for each in by])
    count = len(by) + 1  # and the gradient of the inputs
    assert all(torch.equal(a, b[:, few]) for a, b in zip(apart[:count], found[0][:count], strict=True))
    with torch.no_grad():
        state = hidden
        for t in range(20):
            behind = cell.step(inputs[t], state)
            assert torch.equal(behind[:, :48], found[0][0][t])
            state = torch.where(ends[t].unsqueeze(-1), 0.0, behind)


@KINDS
def test_states_far_out_and_what_is_not_a_number(kind):
    cell = Cell(kind, 2, 3, torch.Generator().manual_seed(1))
    inputs = torch.tensor([[[1e30, -1e30], [torch.nan, 0.0], [0.5, 0.5]]])
    found = cell.sequence(inputs, Past(torch.zeros(3, cell.state_size), None, None))[0][0]
    assert found[0].isfinite().all() and found[1].isnan().all() and found[2].isfinite().all()


def test_names_of_parameters_are_those_of_older_checkpoints():
    names = {f"of_{of}.{part}" for of in ("input", "hidden") for part in ("weight", "bias")}
    assert set(Cell("gru", 2, 3, torch.Generator()).state_dict()) == names
    made = agent("lstm").state_dict()
    assert {f"actor.cell.{name}" for name in names} | {"actor.head.weight", "critic.body.0.bias"} <= set(made)
    assert len(made) == 2 * (2 + 4 + 2)


# ---- in a network ----------------------------------------------------------------------------------------


def agent(kind, **settings):
    return ActorCritic(*SPACES, PPOConfig(memory=kind, memory_size=5, hidden_sizes=(8,), **settings), CPU)


def series(steps=9, rows=6, seed=1):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(steps, rows, 3, generator=generator)
    ends, active = (torch.rand(steps, rows, generator=generator) < share for share in (0.3, 0.7))
    return inputs, ends, active


@KINDS
@pytest.mark.parametrize("comes_and_goes", [False, True])
def test_a_sequence_is_its_steps(kind, comes_and_goes):
    made, (inputs, ends, active) = agent(kind), series()
    active = active if comes_and_goes else None
    player, outputs = Player(made, 6), []
    player.hidden = torch.randn(6, made.state_size)
    player.begin()
    for t in range(9):
        outputs.append(player.outputs(inputs[t], None if active is None else active[t]))
        player.ended(ends[t])
    together = made.outputs(inputs, Past(player.before, ends, active))
    counted = torch.ones(9, 6, dtype=torch.bool) if active is None else active
    torch.testing.assert_close(together[counted], torch.stack(outputs)[counted])


@KINDS
def test_nothing_is_remembered_beyond_an_end(kind):
    made, (inputs, ends, _) = agent(kind), series()
    ends[3] = True
    first = made.outputs(inputs, Past(torch.randn(6, made.state_size), ends, None))
    second = made.outputs(inputs, Past(torch.randn(6, made.state_size), ends, None))
    assert torch.equal(first[4:], second[4:]) and not torch.allclose(first[:1], second[:1])
    apart = made.outputs(inputs[4:], Past(made.hidden(6), ends[4:], None))
    torch.testing.assert_close(first[4:], apart)


@KINDS
def test_who_waits_remembers_and_what_it_sees_does_not_count(kind):
    made, (inputs, ends, active) = agent(kind), series()
    active[2:5], ends[2:5] = False, False
    past = Past(made.hidden(6), ends, active)
    seen = torch.where(active.unsqueeze(-1), inputs, 0.0)
    other = seen.clone()
    other[3] = 7.0
    assert torch.equal(made.outputs(seen, past)[5:], made.outputs(other, past)[5:])
    without = [t for t in range(9) if not 2 <= t < 5]
    shorter = made.outputs(seen[without], Past(made.hidden(6), ends[without], active[without]))
    torch.testing.assert_close(made.outputs(seen, past)[5:], shorter[2:])


@KINDS
def test_before_any_update_the_updates_see_what_acted(toy_env, kind):
    """Log-probabilities of minibatches, computed anew from the states before the rollout, are those of the rollout."""
    trainer = Trainer(toy_env(masked=True), PPOConfig(**SMALL, memory=kind, memory_size=5))
    trainer.rollout()
    trainer.rollout()  # from states that are not zero
    assert trainer.groups[0].player.before.any()
    seen = []
    for batch in trainer.groups[0].estimate(trainer.storage).cut(*ALONE.order(6, 6, 3, trainer.generator)):
        assert batch.inputs.shape[:2] == (8, 2) and batch.actor_hidden.shape == batch.critic_hidden.shape
        agent = trainer.groups[0].agent
        outputs = agent.outputs(batch.inputs, batch.actor_past)
        log_probs, _ = agent.policy.log_prob_and_entropy(outputs, batch.actions, batch.action_masks)
        torch.testing.assert_close(log_probs, batch.log_probs)
        values = agent.value(batch.inputs, batch.critic_past)
        torch.testing.assert_close(values, batch.values)
        seen.append(batch.inputs)
    rows = torch.cat(seen, 1)
    assert sorted(rows[0].flatten().tolist()) == sorted(trainer.storage.obs[0].flatten().tolist())


@KINDS
def test_values_behind_an_end_are_those_of_the_final_observation(toy_env, kind):
    """The critic remembers the whole episode when it sees its final observation."""
    trainer = Trainer(toy_env(), PPOConfig(**SMALL, memory=kind, memory_size=5, gae_lambda=0.0, gamma=0.9))
    trainer.rollout()
    storage, agent = trainer.storage, trainer.groups[0].agent
    batch, critic = trainer.groups[0].estimate(storage), agent.critic
    for row in range(6):
        hidden = trainer.groups[0].agent.hidden(1)
        for t in range(8):
            value, hidden = critic.step(storage.obs[t, row][None], hidden)
            terminated, truncated = storage.terminations[t, row], storage.truncations[t, row]
            if truncated:
                next_value = critic.step(storage.final_obs[t, row][None], hidden)[0].item()
            else:
                next_value = critic.step(storage.obs[t + 1, row][None], hidden)[0].item()
            expected = storage.rewards[t, row] + 0.9 * next_value * (not terminated) - value.item()
            assert batch.advantages[t, row].item() == pytest.approx(expected.item(), abs=1e-5)
            hidden = hidden * (not (terminated or truncated))


@KINDS
def test_a_training_resumes_to_the_bit_where_agents_come_and_go(kind):
    made = assert_goes_on_to_the_bit(lambda: melee_trainer(memory=kind, memory_size=8))
    made.begin_new_episodes()
    assert not made.groups[0].player.hidden.any() and not made.groups[0].learner.critic_hidden.any()


def test_minibatches_are_of_whole_rows(toy_env):
    with pytest.raises(ValueError, match="num_minibatches is 4, but must divide the 6 rows where memory is 'gru'"):
        Trainer(toy_env(), PPOConfig(**SMALL | {"num_minibatches": 4}, memory="gru"))
    with pytest.raises(ValueError, match=r"memory is rnn, but must be one of \('none', 'lstm', 'gru'\)"):
        PPOConfig(memory="rnn")


# ---- a task that needs it --------------------------------------------------------------------------------


def recalled(kind, iterations):
    """How often a cue of 3 is known after 20 steps."""
    config = PPOConfig(
        memory=kind, memory_size=32, hidden_sizes=(32,), num_envs=128, num_steps=21, num_minibatches=4,
        total_steps=21 * 128 * iterations, learning_rate=1e-2,
    )  # fmt: skip
    trainer = Trainer(TorchVectorEnv(Recall(), num_envs=128), config)
    for _ in range(iterations):
        trainer.iterate()
    return evaluate(TorchVectorEnv(Recall(), num_envs=300), trainer.groups[0].agent, seed=7).returns.mean()


@pytest.mark.full
@pytest.mark.parametrize(("kind", "iterations"), [("lstm", 30), ("gru", 30)])
def test_a_memory_recalls_a_cue_after_20_steps(kind, iterations):
    assert recalled(kind, iterations) > 0.95


def test_without_a_memory_it_is_guessed():
    assert recalled("none", 30) < 0.5
