"""Actions of a rollout that C++ draws, and their log-probabilities, are those of torch."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch_batchsim.train import ActorCritic, PPOConfig
from torch_batchsim.train.policies.drawing import drawing, log_probs
from torch_batchsim.train.policies.networks import Player

CPU = torch.device("cpu")
STEPS, ROWS = 3, 200
NUMBERS, BYTES = spaces.Box(-1, 1, (2, 5), np.float32), spaces.Box(0, 3, (70,), np.uint8)
CHOICES = spaces.Discrete(3), spaces.MultiDiscrete([2, 4]), spaces.Box(-1, 1, (2, 2), np.float32)


def made(seen, space, **settings):
    torch.manual_seed(0)
    agent = ActorCritic(seen, space, PPOConfig(hidden_sizes=(33,), **settings), CPU)
    for parameter in agent.parameters():  # the last layer of an untrained actor says nearly nothing
        torch.nn.init.normal_(parameter, std=0.5)
    obs = torch.randint(0, 4, (STEPS + 1, ROWS, *seen.shape)) * (torch.rand(STEPS + 1, ROWS, *seen.shape) < 0.2)
    obs = obs.to(torch.uint8) if seen.dtype == np.uint8 else torch.randn(obs.shape)
    noise = agent.policy.noise((STEPS, 3 * ROWS), torch.Generator().manual_seed(1))[:, ROWS : 2 * ROWS]
    masks = None if space == CHOICES[2] else torch.rand(STEPS + 1, ROWS, agent.policy.num_outputs) < 0.6
    return agent, obs, noise, masks


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("space", CHOICES, ids=str)
@pytest.mark.parametrize("seen", [NUMBERS, BYTES], ids=["numbers", "bytes"])
def test_actions_and_log_probabilities(seen, space, masked):
    """On any number of threads; of an action that is not allowed, and of a row without any, too."""
    agent, obs, noise, masks = made(seen, space)
    masks = masks if masked else None
    with torch.no_grad():
        outputs = agent.outputs(agent.encode(obs[:-1]))
    wanted = torch.zeros(STEPS, *agent.policy.empty_actions(ROWS).shape, dtype=agent.policy.empty_actions(1).dtype)
    for t in range(STEPS):
        agent.policy.sample(outputs[t], noise[t], wanted[t], None if masks is None else masks[t])
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        actions = torch.zeros_like(wanted)
        at_once = drawing(agent, obs, noise, masks, actions, agent.hidden(ROWS), None)
        for t in range(STEPS):
            at_once.draw(t)
        torch.testing.assert_close(actions, wanted)
    torch.set_num_threads(1)
    allowed = None if masks is None else masks[:-1]
    some = wanted if space == CHOICES[2] else torch.zeros_like(wanted)
    for acted in (wanted, some):
        present, _ = agent.policy.log_prob_and_entropy(outputs, acted, allowed)
        torch.testing.assert_close(log_probs(agent, outputs, acted, allowed), present)


@pytest.mark.crossed
@pytest.mark.parametrize("comes_and_goes", [False, True])
@pytest.mark.parametrize("space", CHOICES, ids=str)
@pytest.mark.parametrize("seen", [NUMBERS, BYTES], ids=["numbers", "bytes"])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_actions_of_a_memory(kind, seen, space, comes_and_goes):
    """On any number of threads; episodes end between steps, and rows that do not act keep their state."""
    agent, obs, noise, masks = made(seen, space, memory=kind, memory_size=21)
    ends, active = torch.rand(STEPS, ROWS) < 0.2, torch.rand(STEPS + 1, ROWS) < (0.7 if comes_and_goes else 1.0)
    wanted = torch.zeros(STEPS, *agent.policy.empty_actions(ROWS).shape, dtype=agent.policy.empty_actions(1).dtype)
    first = torch.randn(ROWS, agent.state_size)

    def played(step):
        player = Player(agent, ROWS)
        player.hidden = first
        player.begin()
        actions = torch.zeros_like(wanted)
        with torch.no_grad():
            draw = step(player, actions)
            for t in range(STEPS):
                draw(t)
                player.ended(ends[t])
        assert player.before is first
        return actions, player.hidden

    def by_torch(player, actions):
        def draw(t):
            outputs = player.outputs(obs[t], active[t])
            agent.policy.sample(outputs, noise[t], actions[t], None if masks is None else masks[t])

        return draw

    def at_once(player, actions):
        return drawing(agent, obs, noise, masks, actions, player.hidden, active if comes_and_goes else None).draw

    wanted, states = played(by_torch)
    before = first.clone()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        actions, found = played(at_once)
        assert torch.equal(found, states) and torch.equal(first, before)
        torch.testing.assert_close(actions[active[:-1]], wanted[active[:-1]])
    torch.set_num_threads(1)


def test_other_policies_are_torchs():
    both = spaces.Dict({"a": NUMBERS, "b": NUMBERS})
    picture, double = spaces.Box(0, 255, (9,), np.uint8), spaces.Box(-1, 1, (4,), np.float64)
    given = [(NUMBERS, {"norm_obs": True}), (both, {}), (picture, {}), (double, {})]
    for seen, settings in given:
        agent = ActorCritic(seen, CHOICES[0], PPOConfig(**settings), CPU)
        obs = {name: torch.zeros(2, 4, 10) for name in "ab"} if seen == both else torch.zeros(2, 4, *seen.shape)
        obs = obs.to(torch.uint8) if seen == picture else obs.double() if seen == double else obs
        noise, actions = torch.zeros(1, 4, 3), torch.zeros(1, 4, dtype=torch.int64)
        assert drawing(agent, obs, noise, None, actions, agent.hidden(4), None) is None
