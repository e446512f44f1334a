"""The checked build: mistakes of authors, each with the place, the expression, the number and what was allowed."""

import pickle
import re

import messages
import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare, full_but

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Checks,
    Component,
    Entity,
    Fault,
    GroupedEnv,
    Parameters,
    Reward,
    Simulator,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    f32,
    i32,
    u8,
)
from torch_batchsim.build import emulation
from torch_batchsim.build.checked import flags
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.declare.checks import checked_checks
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, first_worlds, of_worlds, snapshot

WORLD, STEP = 3, 2  # where and when the mistake is made


class Maze(Component):
    walls: u8[15]
    grid: i32[3, 4]
    cell: i32
    speed: f32
    target: Entity


class Push(Component):
    force: i32


class See(Component):
    cell: f32
    speed: f32


class Place(Component):
    x: i32


class Prices(Component):
    price: f32[5]


# Lines of the system `move`: `k` is 15 where the mistake is made, else 0; `n` is -1 there, else 1.
MISTAKES = list(messages.given("checked builds"))

_CASES = "\n".join(f"        case {number}: {{ {line} break; }}" for number, line in enumerate(MISTAKES))
TEXT = f"""\
TBS_FUNCTION i32 helped(Maze &maze, i32 at) {{
    return maze.walls[at];
}}
#define WALL_OF(of, at) of.walls[at]
#define WALL(at) i32(WALL_OF(maze, at))
#define SUM(at) (maze.walls[at] + maze.walls[0])

TBS_SYSTEM void begin(World &world, Maze &maze) {{
    for (i32 i = 0; i < 3; ++i) world.create<Bullet>(Place{{i}});
}}

TBS_SYSTEM void move(World &world, Maze &maze, const Push &push, Reward &reward) {{
    const bool wrong = world.id == {WORLD} && world.step() == {STEP};
    const i32 k = wrong ? 15 : 0, n = wrong ? -1 : 1;
    maze.cell = i32(world.step());
    switch (world.parameters.mistake) {{
{_CASES}
        default: break;
    }}
    maze.speed = f32(push.force) + world.random().uniform();
    reward.value = 1.0f;
}}

TBS_SYSTEM void look(World &world, const Maze &maze, See &see) {{
    see.cell = f32(maze.cell);
    see.speed = maze.speed;
}}
"""
FIRST_LINE = TEXT[: TEXT.index("        case 0:")].count("\n") + 1


def maze(text: str = TEXT, **attributes: object) -> type[torch_batchsim.Environment]:
    declared = {
        "archetypes": [
            Archetype("Walker", Maze, Push, See, Reward, count=1),
            Archetype("Bullet", Place, capacity=4),
        ],
        "resources": [Prices],
        "parameters": Parameters(mistake=-1, least=0),
        "start": TaskGraph("begin"),
        "step": TaskGraph("move"),
        "observe": TaskGraph("look"),
        "observation": "Walker.See",
        "action": "Walker.Push.force",
        "action_space": Discrete(3),
    }
    return declare(text, **(declared | attributes))


def made(mistake: int = -1, worlds: int = 6, text: str = TEXT, checks: object = True, **options: object):
    env = TorchVectorEnv(maze(text)(mistake=mistake), num_worlds=worlds, checks=checks, **options)
    env.reset(seed=0)
    return env


def steps(env, count: int) -> None:
    for _ in range(count):
        env.step(torch.ones(env.num_envs, dtype=torch.long))


def fault_of(env, count: int = 4) -> Fault:
    with pytest.raises(WorldFault) as caught:
        steps(env, count)
    assert caught.value.mask.nonzero().flatten().tolist() == [WORLD]
    return caught.value.faults[0]


def test_a_mistake_is_reported_with_its_place():
    found = {}
    for number, line in enumerate(MISTAKES):
        fault = fault_of(made(number))
        finding, message = fault.finding, str(fault)
        place = f"systems.h:{2 if 'helped' in line else FIRST_LINE + number}: "
        assert (finding.step, fault.world, fault.row, fault.system) == (STEP, WORLD, 0, "move")
        assert message.startswith(place) and place.startswith(f"systems.h:{finding.line}")
        assert finding.file.endswith("/systems.h")
        found[line] = message.removeprefix(place)
    messages.compare("checked builds", found)


@pytest.mark.parametrize("executor", full_but(["batch"], ["batch", "per_world"]))
@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_other_worlds_go_on_with_the_same_bits_and_the_faulty_one_begins_anew(executor, mode):
    options = {"executor": executor, "autoreset_mode": mode, "num_threads": 1}
    env, plain = made(0, **options), made(0, checks=False, **options)
    fault_of(env, STEP)
    steps(plain, STEP)
    others = torch.arange(6) != WORLD
    assert_same_bits(of_worlds(snapshot(env.sim), others), of_worlds(snapshot(plain.sim), others))
    mask = ~others
    for each in (env, plain):
        each.reset(options={"reset_mask": mask})
    steps(env, 1)
    steps(plain, 1)
    assert_same_bits(snapshot(env.sim), snapshot(plain.sim))


def test_sound_systems_have_no_fault_and_bits_are_those_of_an_ordinary_build():
    env, plain = made(worlds=100), made(worlds=7, checks=False)
    steps(env, 5)
    steps(plain, 5)
    assert_same_bits(first_worlds(env.sim, 7), snapshot(plain.sim))


LATER = """\
TBS_SYSTEM void begin(World &world) {}

TBS_SYSTEM void move(World &world, Maze &maze, const Push &push, Reward &reward) {
    const bool wrong = world.id == 3 && world.step() == 2;
    if (world.parameters.mistake == 0) maze.speed = 1.0f / (wrong ? 0.0f : 1.0f);
    i32 turns = 0;
    if (world.parameters.mistake == 1) while (wrong || turns < 2) ++turns;
    if (world.parameters.mistake == 2) do { ++turns; } while (wrong);
    if (world.parameters.mistake == 3)
        for (i32 i = 0; i < (wrong ? 20 : 3); ++i) maze.walls[i] = 1;
    else
        maze.cell = turns;
    reward.value = f32(push.force);
}

TBS_SYSTEM void look(World &world, const Maze &maze, See &see) {
    see.cell = f32(maze.cell);
    see.speed = world.parameters.mistake == 4 && world.id == 3 && world.step() == 2 ? sqrt(-1.0f - maze.speed) : 0.0f;
}
"""


@pytest.mark.parametrize(
    ("mistake", "place", "says"),
    [
        (0, "systems.h:3", "inf in Walker.Maze.speed (world 3, row 0, step 2, system 'move')"),
        (1, "systems.h:7", "loops have taken more than 1000 turns in one system"),
        (2, "systems.h:8", "loops have taken more than 1000 turns in one system"),
        (3, "systems.h:10", "maze.walls[15] of u8[15], the index is `i`: it has 0 to 14 (world 3"),
        (4, "systems.h:16", "nan in Walker.See.speed (world 3, row 0, step 2, system 'look')"),
    ],
)
def test_numbers_that_are_not_finite_and_endless_loops_are_reported(mistake, place, says):
    message = str(fault_of(made(mistake, text=LATER, checks=Checks(loops=1000))))
    assert message.startswith(f"{place}: ") and says in message


SAME = """\
TBS_SYSTEM void begin(World &world) {}
TBS_SYSTEM void move(World &world, Maze &maze, Reward &) { maze.cell = world.parameters.least - 1; }
TBS_SYSTEM void look(World &world, const Maze &maze, See &see) { see = {f32(maze.cell), 0.0f}; }
"""


def test_a_mistake_that_is_the_same_for_all_rows_is_a_fault_of_each_world():
    """The compiler looks for it once, before the first of the rows."""
    env = TorchVectorEnv(maze(SAME)(least=-(2**31)), num_worlds=3, checks=True)
    env.reset(seed=0)
    with pytest.raises(WorldFault) as caught:
        steps(env, 1)
    found = [(fault.world, fault.row, fault.system) for fault in caught.value.faults]
    assert found == [(world, 0, "move") for world in range(3)]
    assert str(caught.value).startswith("systems.h:2: -2147483648 - 1 does not fit into i32")


def test_a_group_a_single_world_and_a_pickled_fault_report_the_same():
    cls = maze()
    grouped = GroupedEnv(cls(mistake=0), num_worlds=6, groups=2, num_threads=1, checks=True)
    assert all(env.sim.program.checks == Checks() for env in grouped.environments)
    grouped.close()
    fault = fault_of(made(0))
    error = WorldFault([fault], torch.ones(1, dtype=torch.bool))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_checks_are_asked_for_by_argument_or_variable(monkeypatch):
    for text, expected in {
        "": None, "0": None, "off": None, "1": Checks(), "true": Checks(), "nan=0": Checks(nan=False),
        "nan=0,loops=1000": Checks(nan=False, loops=1000), "loops=none": Checks(loops=None),
    }.items():  # fmt: skip
        monkeypatch.setenv("TBS_CHECKS", text)
        assert checked_checks(None) == expected
        assert checked_checks(False) is None and checked_checks(True) == Checks()
    for text in ("yes please", "loops=-1", "nan", "speed=1", "loops=0"):
        monkeypatch.setenv("TBS_CHECKS", text)
        with pytest.raises(ValueError, match="loops"):
            checked_checks(None)
    with pytest.raises(TypeError, match=re.escape("checks must be True, False or torch_batchsim.Checks(...), got 1")):
        made(checks=1)
    with pytest.raises(TypeError, match="nan must be True or False"):
        Checks(nan=1)
    with pytest.raises(ValueError, match="device"):
        made(device="meta")


def test_an_ordinary_unit_knows_nothing_of_checks():
    program = Program(maze()())
    assert "heck" not in generate(program, Target()).replace("check_actions", "")
    assert flags(program) == [] and any("null" in flag for flag in flags(Program(maze()(), Checks())))


# What only g++ finds; it reads macros too.
NOT_ON_CUDA = ("2147483640", "1000000000", "-(k == 15", "1u << (k + 20)", "8 >> (n", "f32(k) *", "WALL", "SUM")
EXECUTORS = ["graph", *(pytest.param(name, marks=pytest.mark.full) for name in ("megakernel", "per_world"))]


def emulated_fault(environment, executor: str, checks: Checks) -> tuple[Simulator, Fault]:
    """What the CUDA executor finds in two steps, and the simulator then."""
    sim = Simulator(environment, 6, checks=checks, _library=emulation.load(Program(environment, checks), executor))
    sim.reset(seed=0)
    sim.step()
    sim.step()
    with pytest.raises(WorldFault) as caught:
        sim.check_faults()
    (fault,) = caught.value.faults
    assert (fault.world, fault.row, fault.finding.step) == (WORLD, 0, STEP)
    return sim, fault


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_checked_build_of_cuda_reports_the_same(executor):
    for number, (line, message) in enumerate(messages.given("checked builds").items()):
        if any(part in line for part in NOT_ON_CUDA):
            continue
        sim, fault = emulated_fault(maze()(mistake=number), executor, Checks())
        place = 2 if "helped" in line else FIRST_LINE + number
        assert str(fault) == f"systems.h:{place}: {message}"
        assert not sim.tensor("Prices.price").any()  # resources are as they were


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "per_world"])
def test_a_checked_build_of_cuda_ends_loops_and_reports_nan(executor):
    says = ["inf in Walker.Maze.speed", *["loops have taken more than 1000 turns"] * 2, "walls[15] of u8[15]", "nan in"]
    for mistake, message in enumerate(says):
        _, fault = emulated_fault(maze(LATER)(mistake=mistake), executor, Checks(loops=1000))
        assert message in str(fault), str(fault)


CUDA_TEXT = f"""\
TBS_SYSTEM void begin(World &world, Maze &maze) {{
    for (i32 i = 0; i < 3; ++i) world.create<Bullet>(Place{{i}});
}}

TBS_SYSTEM void move(World &world, Maze &maze, const Push &push, Reward &reward) {{
    const bool wrong = world.id == {WORLD} && world.step() == {STEP};
    if (world.parameters.mistake == 0) world.rows<Walker, Maze>()[wrong ? 15 : 0].cell = i32(world.step());
    if (world.parameters.mistake == 1) world.rows<Bullet, Place>()[wrong ? -1 : 2].x = 7;
    for (i32 i = 0; i < 3; ++i) maze.grid[0][i] += world.rows<Bullet, const Place>()[i].x;
    reward.value = 1.0f;
}}

TBS_SYSTEM void look(World &world, const Maze &maze, See &see) {{
    see.cell = f32(maze.cell);
}}
"""


@pytest.mark.full
@pytest.mark.parametrize("executor", ["graph", "per_world"])
def test_a_missing_row_touches_no_other_row_on_cuda(executor):
    sim, fault = emulated_fault(maze(CUDA_TEXT)(mistake=0), executor, Checks())
    assert "world.rows<Walker, Maze>()[15] of 1 row of Maze" in str(fault)
    cells = sim.tensor("Walker.Maze.cell").flatten().tolist()
    assert cells == [1 if world == WORLD else STEP for world in range(6)]
    sim, fault = emulated_fault(maze(CUDA_TEXT)(mistake=1), executor, Checks())
    assert "world.rows<Bullet, Place>()[-1] of 3 rows of Place" in str(fault)
    sums = sim.tensor("Walker.Maze.grid").reshape(6, 3, 4)[:, 0, :3].tolist()
    assert sums == [[0, 2, 14]] * 6
