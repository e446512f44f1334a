"""Checked builds: what lanes share, bits that are put together, and several worlds in one call."""

import re

import messages
import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import Archetype, Checks, Component, Parameters, Reward, TaskGraph, TorchVectorEnv, WorldFault, i32
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program


class Cell(Component):
    at: i32[8]


class Push(Component):
    force: i32


# Lines of the system `move`: `k` is 15 where the mistake is made, else 0.
MISTAKES = list(messages.given("checked builds: lanes and bits"))
WORLDS = "of 1 world, the index is `k` (checked builds give one at a time)"
_CASES = "\n".join(f"        case {number}: {{ {line} break; }}" for number, line in enumerate(MISTAKES))
TEXT = f"""\
struct Own {{ i32 held[4]; }};
template <u32 size>
TBS_FUNCTION void add_five(Bits<size> &bits, u32 count) {{ bits.append(5, count); }}

TBS_SYSTEM void begin(World &world) {{}}

TBS_SYSTEM void move(World &world, Cell &cell, const Push &push, Reward &reward, Warp &group) {{
    const i32 k = world.id == 1 && world.step() == 2 ? 15 : 0;
    switch (world.parameters.mistake) {{
{_CASES}
        default: break;
    }}
    group.once([&] {{ reward.value = f32(push.force); }});
}}

TBS_SYSTEM void together(Worlds<4> &worlds, Warp &group) {{
    const u32 k = worlds.parameters.mistake == 100 && worlds[0].id == 1 && worlds[0].step() == 2 ? 3 : 0;
    group.once([&] {{ worlds[k].rows<Walker, Cell>()[0].at[7] = 1; }});
}}
"""


def fault_of(mistake: int, executor: str = "") -> tuple[str, str]:
    """The system and the message of the fault on CPU, or with an ``executor`` of CUDA."""
    walkers = declare(
        TEXT,
        archetypes=[Archetype("Walker", Cell, Push, Reward, count=1)],
        parameters=Parameters(mistake=-1),
        start=TaskGraph("begin"),
        step=TaskGraph("move", "together"),
        observation="Walker.Cell",
        action="Walker.Push.force",
        action_space=Discrete(3),
    )
    environment, checks = walkers(mistake=mistake), Checks(loops=10_000)
    library = emulation.load(Program(environment, checks), executor) if executor else None
    env = TorchVectorEnv(environment, num_worlds=3, checks=checks, _library=library)
    env.reset(seed=0)
    actions = torch.ones(3, dtype=torch.long)
    env.step(actions)
    with pytest.raises(WorldFault) as caught:
        env.step(actions)
        env.sim.check_faults()
    (fault,) = caught.value.faults
    assert (fault.world, fault.row, fault.finding.step) == (1, 0, 2)
    env.step(actions)
    return fault.system, str(fault)


@pytest.mark.full
def test_what_lanes_share_and_bits_are_checked():
    found = {}
    for number, line in enumerate(MISTAKES):
        system, message = fault_of(number)
        place = 3 if "add_five" in line else TEXT[: TEXT.index(line)].count("\n") + 1
        assert system == "move" and message.startswith(f"systems.h:{place}: ")
        found[line] = message.partition(": ")[2]
    messages.compare("checked builds: lanes and bits", found)


@pytest.mark.full
def test_an_index_into_worlds_is_checked():
    system, message = fault_of(100)
    place = TEXT[: TEXT.index("worlds[k]")].count("\n") + 1
    assert system == "together" and message.startswith(f"systems.h:{place}: worlds[3] {WORLDS}")


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "per_world"])
def test_cuda_reports_the_same_except_for_loops(executor):
    for number, expected in enumerate(messages.given("checked builds: lanes and bits").values()):
        if "loops" not in expected:
            system, message = fault_of(number, executor)
            # the lane that is reported depends on their order
            expected, message = (re.sub(r"\d+", "#", text) for text in (expected.partition(": `")[0], message))
            assert system == "move" and expected.partition(" (world")[0] in message, message
    system, message = fault_of(100, executor)
    assert system == "together" and f"worlds[3] {WORLDS}" in message
