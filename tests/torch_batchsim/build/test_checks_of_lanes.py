"""Checked builds: what lanes share, bits that are put together, and several worlds in one call."""

import re

import pytest
import torch
from common.support import declare
from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Checks, Component, Parameters, Reward, TaskGraph, TorchVectorEnv, WorldFault, i32
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program


class Cell(Component):
    at: i32[8]


class Push(Component):
    force: i32


# Each is what the system `move` does, and what is told of it: `k` is 15 where the mistake is made, else 0.
MISTAKES = {
    "group.for_each(8, [&](u32 i) { cell.at[i + k] = 1; });": "cell.at[15] of i32[8], the index is `i + k`",
    "auto &own = group.shared<Own>(); group.once([&] { own.held[k] = 1; });": "own.held[15] of i32[4]",
    "const i32 t = group.sum(4, [&](u32 i) { return cell.at[i + k]; }); group.once([&] { cell.at[0] = t; });":
        "cell.at[15] of i32[8], the index is `i + k`",
    "group.for_each(8, [&](u32 i) { cell.at[i] = 5 / (k - 15); });": "division by zero in i32",
    "group.for_each(8, [&](u32 i) { for (i32 j = 0; j < 1 + k * 9999; ++j) cell.at[i] = j; });":
        "loops have taken more than 10000 turns",
    "Bits<70> bits; bits.append(5, 60); bits.append(1, 5 + k);": "20 bits behind 60 do not fit into Bits<70>: "
        "`bits.append(1, 5 + k);`",
    "Bits<70> bits; bits.append_thermometer(9, 60 + k);": "75 bits behind 0 do not fit into Bits<70>",
    "Bits<70> bits; bits.append(1, 60); add_five(bits, 5 + k);": "20 bits behind 60 do not fit into Bits<70>",
    "Bits<70> bits; bits.append(u64(7 + k), 3);": "22 has more than 3 bits: `bits.append(u64(7 + k), 3);`",
    "Bits<200> bits; bits.append(1, 50 + k);": "append takes 64 bits at most, got 65",
    "group.once([&] { cell.at[0] = i32(world.random(0).below(u32(15 - k))); });": "below(0): no number is below 0",
    "group.once([&] { cell.at[0] = world.random(0).integer(k, 3); });":
        "integer(15, 3): low is greater than high: `cell.at[0] = world.random(0).integer(k, 3);`",
    "group.once([&] { world.random(1).shuffle(cell.at, k > 0 ? 9 : 8); });": "shuffle of 9 items in an array of 8",
}  # fmt: skip
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
    """What is told on CPU, or by an ``executor`` of CUDA."""
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
@pytest.mark.parametrize("line", MISTAKES)
def test_what_lanes_share_and_bits_are_checked(line):
    system, message = fault_of(list(MISTAKES).index(line))
    place = 3 if "add_five" in line else TEXT[: TEXT.index(line)].count("\n") + 1
    assert system == "move" and message.startswith(f"systems.h:{place}: ") and MISTAKES[line] in message


@pytest.mark.full
def test_an_index_into_worlds_is_checked():
    system, message = fault_of(100)
    place = TEXT[: TEXT.index("worlds[k]")].count("\n") + 1
    assert system == "together" and message.startswith(f"systems.h:{place}: worlds[3] {WORLDS}")


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "per_world"])
def test_on_cuda_the_same_is_told_but_for_loops(executor):
    for number, told in enumerate(MISTAKES.values()):
        if "loops" not in told:
            system, message = fault_of(number, executor)
            # which of the lanes is told of depends on their order
            told, message = (re.sub(r"\d+", "#", text) for text in (told.partition(": `")[0], message))
            assert system == "move" and told in message, message
    system, message = fault_of(100, executor)
    assert system == "together" and f"worlds[3] {WORLDS}" in message
