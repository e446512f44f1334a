"""Networks that remember earlier steps of an episode."""

import pytest
import torch
from environments.recall import Recall
from gymnasium import spaces
from torch import nn
from torch_batchsim.train import ActorCritic, PPOConfig, Trainer, evaluate
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
    for batch in trainer.groups[0].estimate(trainer.storage).minibatches(3, trainer.generator):
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
