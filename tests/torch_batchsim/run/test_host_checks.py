"""A checked build: masks that allow nothing, actions against masks, observations outside of their space."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from support import declare

from torch_batchsim import (
    Archetype,
    Checks,
    Component,
    GroupedEnv,
    Parameters,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    boolean,
    f32,
    i64,
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


def made(world, asleep=0, last=1000, checks=True, **roles):
    return TorchVectorEnv(masked(world, asleep, last, **roles), num_worlds=4, checks=checks)


def masked(world, asleep=0, last=1000, **roles):
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
        **roles,
    )
    return environment()


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


# ---- actions against masks -------------------------------------------------------------------------------------------

FORBIDDEN = torch.zeros(8, 2, dtype=torch.int64)
FORBIDDEN[2 * WORLD + AGENT, 1] = 1


def at_the_mask(**arguments):
    """In a step after which agent 1 of world 2 must not choose anything but 0 and 2 in the second part."""
    env = made(WORLD, **arguments)
    env.reset(seed=0)
    mask = env.sim.memory.rows_of("output.Agent.Mask", env.sim.memory.outputs.present)
    mask[2 * WORLD + AGENT, 3] = False
    return env


@pytest.mark.parametrize("kind", [torch.Tensor.clone, torch.Tensor.numpy, torch.Tensor.int])
def test_an_action_against_the_mask_is_rejected_before_any_world_steps(kind):
    env = at_the_mask()
    message = r"^action 1 of world 2, agent 1, element 1 is against the row's action_mask, which allows 0, 2; no world"
    for step in (env.step, lambda actions: env.sim.inside_step(actions).__enter__()):
        with pytest.raises(ValueError, match=message):
            step(kind(FORBIDDEN))
    assert (env.sim.tensor("World.step") == 0).all()
    env.step(FORBIDDEN * 2)


@pytest.mark.parametrize("arguments", [{"judges_illegal_actions": True}, {"checks": Checks(bounds=False)}])
def test_it_passes_where_the_rules_judge_it_or_nobody_asks(arguments):
    at_the_mask(**arguments).step(FORBIDDEN)


def test_it_passes_where_nothing_reads_it():
    env = at_the_mask()
    awake = env.sim.memory.rows_of("output.Agent.Awake", env.sim.memory.outputs.present)
    awake[2 * WORLD + AGENT] = False
    env.step(FORBIDDEN)


def test_an_action_without_any_choice_is_the_fault_of_the_mask():
    env = at_the_mask()
    env.sim.memory.rows_of("output.Agent.Mask", env.sim.memory.outputs.present)[2 * WORLD + AGENT, 2:] = False
    env.step(FORBIDDEN)


def test_groups_number_their_worlds_from_the_first_of_all():
    env = GroupedEnv(masked(0, last=1000), num_worlds=4, groups=2, checks=True)
    env.async_reset(seed=0)
    while (batch := env.recv()).group != 1:
        pass
    outputs = env.environments[1].sim.memory
    outputs.rows_of("output.Agent.Mask", outputs.outputs.present)[1, 3] = False
    with pytest.raises(ValueError, match=r"action 1 of world 2, agent 1, element 1 is against"):
        env.step(batch.group, torch.tensor([[0, 0], [0, 1], [0, 0], [0, 0]]))


# ---- observations outside of their space -----------------------------------------------------------------------------

SEEN = """
TBS_SYSTEM void act(World &, const Choice &, Reward &reward) { reward.value = 1.0f; }

TBS_SYSTEM void judge(World &world, Episode &episode) {
    if (world.step() >= u32(world.parameters.last)) episode.terminated = true;
}

TBS_SYSTEM void look(World &world, Far &far, Near &near, Kind &kind, Awake &awake, Row row) {
    const bool here = i32(world.id) == world.parameters.world && row.index == 1 && world.step() == 3u;
    for (i32 k = 0; k < 2; ++k) far.value[k] = 1.0f;
    near.cells[0] = near.cells[1] = 7;
    kind.value = 4;
    awake.value = !(here && world.parameters.asleep != 0);
    if (!here) return;
    if (world.parameters.which == 0) far.value[1] = 1.5f;
    if (world.parameters.which == 1) near.cells[0] = 8;
    if (world.parameters.which == 2) kind.value = 1;
}
"""
PLACES = {
    0: r"Agent.Far.value\[1\] is 1.5.*, but observation_space\['far'\] allows -1 to 1 ",
    1: r"Agent.Near.cells\[0\] is 8.*, but observation_space\['near'\] allows 0 to 7 ",
    2: r"Agent.Kind.value is 1.*, but observation_space\['kind'\] allows 2 to 5 ",
}


class Far(Component):
    value: f32[2]


class Near(Component):
    cells: u8[2]


class Kind(Component):
    value: i64


def seeing(which, *, asleep=0, last=1000, checks=True, **arguments):
    spaces = {"far": Box(-1, 1, (2,)), "near": Box(0, 7, (2,), np.uint8), "kind": Discrete(4, start=2)}
    environment = declare(
        SEEN,
        name="Seeing",
        archetypes=[Archetype("Agent", Choice, Far, Near, Kind, Awake, Reward, count=2)],
        parameters=Parameters(world=WORLD, asleep=asleep, last=last, which=which),
        step=TaskGraph("act", "judge"),
        observe=TaskGraph("look"),
        action="Agent.Choice",
        action_space=MultiDiscrete([2, 3]),
        active="Agent.Awake",
        observation={"far": "Agent.Far", "near": "Agent.Near", "kind": "Agent.Kind"},
        observation_space=Dict(spaces),
    )
    env = TorchVectorEnv(environment(), num_worlds=4, checks=checks, **arguments)
    env.reset(seed=0)
    return env


def steps(env, count):
    for _ in range(count):
        env.step(torch.zeros(8, 2, dtype=torch.int64))


@pytest.mark.crossed
@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
@pytest.mark.parametrize("which", PLACES)
def test_an_observation_outside_of_its_space_is_a_fault(which, mode):
    env = seeing(which, autoreset_mode=mode)
    steps(env, STEP - 1)
    with pytest.raises(WorldFault, match=PLACES[which]) as caught:
        steps(env, 1)
    fault = caught.value.faults[0]
    assert (fault.world, fault.row, fault.system, fault.finding.kind) == (WORLD, AGENT, "look", "bounds")
    assert fault.finding.step == STEP
    assert len(caught.value.faults) == 1
    steps(env, 3)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_so_is_the_last_one_of_an_episode_and_it_is_reported_once(mode):
    env = seeing(0, last=STEP, autoreset_mode=mode)
    steps(env, STEP - 1)
    with pytest.raises(WorldFault, match=PLACES[0]) as caught:
        steps(env, 1)
    assert ("in the last observation of an episode" in str(caught.value)) == (mode == "SameStep")
    steps(env, 1)


def test_rows_that_are_not_active_and_plain_builds_are_not_looked_at():
    for env in (seeing(0, asleep=1), seeing(0, checks=False), seeing(0, checks=Checks(bounds=False))):
        steps(env, STEP + 1)
