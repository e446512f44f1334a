"""A checked build: a row that acts and has no legal action is a fault; masks of others may be anything."""

import pytest
import torch
from gymnasium.spaces import MultiDiscrete
from support import declare

from torch_batchsim import (
    Archetype,
    Component,
    Parameters,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    boolean,
    f32,
    u8,
)

WORLD, AGENT, STEP = 2, 1, 3


class Choice(Component):
    parts: u8[2]


class Mask(Component):
    allowed: boolean[5]


class Awake(Component):
    value: boolean


class See(Component):
    value: f32


TEXT = """
TBS_SYSTEM void act(World &, const Choice &, Reward &reward) { reward.value = 1.0f; }

TBS_SYSTEM void judge(World &world, Episode &episode) {
    if (world.step() >= u32(world.parameters.last)) episode.terminated = true;
}

TBS_SYSTEM void look(World &world, Mask &mask, Awake &awake, See &see, Row row) {
    see.value = 0.0f;
    const bool none = i32(world.id) == world.parameters.world && row.index == 1 && world.step() == 3u;
    for (i32 k = 0; k < 5; ++k) mask.allowed[k] = k < 2 || !none;
    awake.value = !(none && world.parameters.asleep != 0);
}
"""


def made(world, asleep=0, last=1000):
    environment = declare(
        TEXT,
        name="Masked",
        archetypes=[Archetype("Agent", Choice, Mask, Awake, See, Reward, count=2)],
        parameters=Parameters(world=world, asleep=asleep, last=last),
        step=TaskGraph("act", "judge"),
        observe=TaskGraph("look"),
        action="Agent.Choice",
        action_space=MultiDiscrete([2, 3]),
        action_mask="Agent.Mask",
        active="Agent.Awake",
        observation="Agent.See",
    )
    return TorchVectorEnv(environment(), num_worlds=4, checks=True)


@pytest.mark.parametrize("asleep", [0, 1])
def test_a_row_that_acts_without_a_legal_action_is_a_fault(asleep):
    env = made(world=WORLD, asleep=asleep)
    env.reset(seed=0)
    for _ in range(STEP - 1):
        env.step(env.sample_actions())
    if asleep:
        env.step(env.sample_actions())
        return
    with pytest.raises(WorldFault) as caught:
        env.step(env.sample_actions())
    fault = caught.value.faults[0]
    assert (fault.world, fault.row, fault.system, fault.finding.kind) == (WORLD, AGENT, "look", "no_choice")
    text = "Agent.Mask, the action_mask, allows nothing in part 1 of the action: a row that acts needs at least one "
    place = f"legal action (world {WORLD}, row {AGENT}, step {STEP}, system 'look')"
    assert text + place in str(caught.value)
    assert torch.equal(caught.value.mask, torch.arange(4) == WORLD)
    env.step(env.sample_actions())  # others go on, and this one by its next mask


def test_a_world_that_has_ended_may_have_any_mask():
    environment = made(world=WORLD, last=STEP).environment
    env = TorchVectorEnv(environment, num_worlds=4, checks=True, autoreset_mode="Disabled")
    env.reset(seed=0)
    for _ in range(STEP + 2):
        env.step(env.sample_actions())
