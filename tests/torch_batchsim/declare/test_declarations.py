"""Ranges of fields, structs in components, and shapes and ranges that name constants."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from support import declare

from torch_batchsim import (
    Archetype,
    Component,
    Constant,
    Constants,
    Entity,
    Option,
    Reward,
    SchemaError,
    Simulator,
    Struct,
    TaskGraph,
    TorchVectorEnv,
    between,
    boolean,
    component,
    f32,
    f64,
    i32,
    i64,
    u8,
    vec2,
)
from torch_batchsim.resolve.program import Program
from torch_batchsim.run.world_state import WorldState
from torch_batchsim.testing import snapshot

SIZE = Constant("size")
LEGS = Constant("legs")


class Toe(Struct):
    length: f32[2] = between([0, 1], [1, 2])
    bent: boolean


class Leg(Struct):
    angle: f32
    toes: Toe[3]
    marks: u8[2]
    count: i32


class Body(Component):
    first: u8
    legs: Annotated[Leg, 2, 2]  # Leg[2, 2], as mypy takes it
    spare: Leg


class Pair(Struct):
    x: f32 = between(0, 1)
    y: f32 = between(-1, 0)


class View(Component):
    pairs: Pair[2]
    speed: f32
    height: f32 = between(0, math.inf)


class Push(Component):
    x: i32 = between(0, SIZE - 1)


class Cells(Component):
    walls: u8[SIZE, 2 * SIZE + 1]
    place: i32[SIZE] = between(0, SIZE - 1)


class Given(Component):
    pair: Pair


SYSTEM = """
TBS_FUNCTION f32 sum(const Pair &pair) { return pair.x + pair.y; }

TBS_SYSTEM void mark(World &world, Body &body, Cells &cells, View &view, const Push &push, Row row) {
    body.legs[1][0].angle = f32(push.x) + 0.5f;
    for (i32 i = 0; i < 3; ++i) body.legs[1][0].toes[i].length[1] = f32(10 * row.index + i);
    body.legs[1][0].toes[2].bent = true;
    body.legs[0][1].marks[1] = 7;
    body.spare.count += 1;
    cells.walls[Constants::size - 1][2 * Constants::size] = 9;
    view.pairs[1].y = -0.5f;
    view.height = sum(view.pairs[1]) + sum(world.get<const Given>().pair);
}
"""


def environment(**changes: Any) -> Any:
    attributes: dict[str, Any] = {
        "archetypes": (Archetype("Walker", Body, Cells, View, Push, Reward, count=2),),
        "singletons": (Given,),
        "kept": (Given,),
        "constants": Constants(size=Option(3, minimum=1), legs=4),
        "step": TaskGraph("mark"),
        "observation": "Walker.View",
        "action": "Walker.Push",
    }
    return declare(SYSTEM, **(attributes | changes))


# ---- structs -------------------------------------------------------------------------------------------------------


def test_numbers_of_structs_have_names_and_places() -> None:
    by_name = {part.name: part for part in Body.fields}
    assert list(by_name) == [
        "first", "legs.angle", "legs.toes.length", "legs.toes.bent", "legs.marks", "legs.count",
        "spare.angle", "spare.toes.length", "spare.toes.bent", "spare.marks", "spare.count",
    ]  # fmt: skip
    toes = by_name["legs.toes.length"]
    assert (Toe.layout.size, Leg.layout.size, toes.offset) == (12, 48, 8)
    assert toes.type.tensor_shape == (2, 2, 3, 2) and toes.strides == (96, 48, 12, 4)
    assert toes.low is not None and toes.low.shape == (2, 2, 3, 2) and toes.low[1, 0, 2].tolist() == [0, 1]
    assert [member.name for member in Body.members] == ["first", "legs", "spare"]


def test_structs_are_seen_everywhere() -> None:
    """In C++ and as tensors, in states, snapshots, copies, of one world, by attribute, and written between steps."""
    made = environment()(size=5)
    sim = Simulator(made, 3)
    sim.reset(seed=0)
    sim.tensor("Walker.Push.x")[2] = torch.tensor([3, 4])
    sim.tensor("Given.pair.x")[...] = torch.tensor([1.0, 2.0, 3.0])
    sim.step()
    angles = sim.tensor("Walker.Body.legs.angle")
    assert angles.shape == (3, 2, 2, 2) and not angles.is_contiguous()
    assert angles[2, :, 1, 0].tolist() == [3.5, 4.5] and float(angles.sum()) == 4 * 0.5 + 8
    lengths = sim.tensor("Walker.Body.legs.toes.length")
    assert lengths.shape == (3, 2, 2, 2, 3, 2) and lengths[1, 1, 1, 0, :, 1].tolist() == [10, 11, 12]
    assert sim.tensor("Walker.Body.legs.toes.bent")[0, 0].nonzero().tolist() == [[1, 0, 2]]
    assert sim.tensor("Walker.Body.legs.marks")[0, 0].nonzero().tolist() == [[0, 1, 1]]
    assert sim.tensor("Walker.Cells.walls").shape == (3, 2, 5, 11) and sim.Walker.Cells.walls[0, 0, 4, 10] == 9
    assert sim.tensor("Walker.View.pairs").shape == (3, 2, 2, 2) and sim.Walker.View.pairs.tensor[0, 0, 1, 1] == -0.5
    assert sim.tensor("Walker.View").shape == (3, 2, 6)
    assert sim.tensor("Walker.View.height")[:, 0].tolist() == [0.5, 1.5, 2.5]
    assert WorldState(sim, 2)["Walker.Body.legs.angle"][1, 1, 0] == 4.5 and "Given.pair.x" in list(WorldState(sim, 0))
    sim.Walker.Body.legs.angle = 8
    assert (angles == 8).all() and (sim.tensor("Walker.Body.spare.angle") == 0).all()
    state, before = sim.state_dict(), snapshot(sim)
    sim.step()
    assert (sim.Walker.Body.spare.count == 2).all()
    sim.load_state_dict(state)
    after = snapshot(sim)
    assert all(torch.equal(before[name], after[name]) for name in before)
    sim.copy_worlds([2], [0])
    assert sim.Walker.View.height[0, 0] == 2.5
    for world in range(3):
        sim.reset(torch.arange(3) == world)
    assert sim.tensor("Given.pair.x").tolist() == [3, 2, 3] and (sim.Walker.Body.spare.count == 0).all()


def test_structs_that_are_refused() -> None:
    sim = Program(environment()())
    with pytest.raises(TypeError, match=r"legs has fields of different types.* ask for legs\.angle, "):
        sim.find("Walker.Body.legs")
    with pytest.raises(KeyError, match=r"component Body has no field 'legs\.angel'; it has first, legs\.angle"):
        sim.find("Walker.Body.legs.angel")
    with pytest.raises(SchemaError, match=r"observation 'Walker\.Body\.legs' must|legs has fields of different types"):
        Program(environment(observation="Walker.Body.legs")())
    with pytest.raises(SchemaError, match="pairs is of struct Pair: give the ranges to the fields in it"):
        type("Bad", (Component,), {"__annotations__": {"pairs": Pair[2]}, "pairs": between(0, 1)})
    with pytest.raises(SchemaError, match=r"pairs is of struct Open, which names constants; only components may"):
        component("Bad", pairs=type("Open", (Struct,), {"__annotations__": {"x": f32[SIZE]}}))
    with pytest.raises(SchemaError, match="struct Sub must inherit from Struct only"):
        type("Sub", (Pair,), {"__annotations__": {"x": f32}})
    with pytest.raises(SchemaError, match=r"field Bad\.body has unknown type 'Body' \(a part .*; known types: .*Str"):
        component("Bad", body=Body)
    with pytest.raises(TypeError, match=r"extents of Leg\[\.\.\.\] must be positive integers, got 0"):
        Leg[0]
    other = component("Twice", pair=type("Pair", (Struct,), {"__annotations__": {"z": f32}}))
    with pytest.raises(SchemaError, match="two structs have the name Pair"):
        Program(environment(singletons=(Given, other))())
    named = component("Second", pair=type("Body", (Struct,), {"__annotations__": {"z": f32}}))
    with pytest.raises(SchemaError, match=r"struct Body has a name that is taken in C\+\+"):
        Program(environment(singletons=(Given, named))())
    text = SYSTEM.replace("const Push &push", "const Leg &leg")
    with pytest.raises(SchemaError, match="it is a Struct, which is part of components: take the component"):
        Program(environment(systems=declare(text).systems)())


# ---- ranges --------------------------------------------------------------------------------------------------------


def test_spaces_follow_from_ranges() -> None:
    program = Program(environment()(size=7))
    space = program.observation_space
    assert isinstance(space, Box) and space.dtype == np.float32
    assert space.low.tolist() == [0, -1, 0, -1, -np.inf, 0]
    assert space.high.tolist() == [1, 0, 1, 0, np.inf, np.inf]
    assert program.action_space == Discrete(7)
    keyed = environment(observation={"view": "Walker.View"})()
    assert Program(keyed).observation_space == Dict(view=space)


@pytest.mark.parametrize(
    ("kind", "bounds", "expected"),
    [
        (i32, between(-1, 1), Discrete(3, start=-1)),
        (u8[2], between(0, [3, 4]), MultiDiscrete([4, 5])),
        (i64[2], between([0, -2], [3, 2]), MultiDiscrete([4, 5], start=[0, -2])),
        (f32, between(-0.5, 2), Box(np.float32(-0.5), np.float32(2), ())),
        (vec2, between([0, -1], 1), Box(np.array([0, -1], np.float32), np.ones(2, np.float32))),
    ],
    ids=str,
)
def test_the_action_space_follows_from_ranges(kind: Any, bounds: Any, expected: Any) -> None:
    push = type("Push", (Component,), {"__annotations__": {"x": kind}, "x": bounds})
    text = "TBS_SYSTEM void go(World &world, const Push &push, View &view) { view.speed = 1.0f; }"
    archetypes = (Archetype("Walker", View, push, Reward, count=1),)
    own = {"archetypes": archetypes, "step": TaskGraph("go"), "observation": "Walker.View", "action": "Walker.Push"}
    space = Program(declare(text, **own)()).action_space
    assert space == expected and space.dtype == expected.dtype
    assert Program(declare(text, **own, action_space=expected)()).action_space is expected


def test_actions_are_checked_against_the_range() -> None:
    env = TorchVectorEnv(environment()(size=5), 6)
    env.reset(seed=0)
    assert env.single_action_space == Discrete(5)
    env.step(torch.full((6,), 4))
    with pytest.raises(ValueError, match="action"):
        env.step(torch.full((6,), 5))


def test_a_space_and_a_range_must_agree() -> None:
    low, high = np.array([0, -1, 0, -1, -5, 0], np.float32), np.array([1, 0, 1, 0, 5, np.inf], np.float32)
    own = Program(environment(observation_space=Box(low, high))()).observation_space
    assert own.low[4] == -5  # of which no range says anything
    high[1] = 2
    with pytest.raises(SchemaError, match=r"observation_space\[1\] has the greatest value 2\.0, but .* says 0\.0"):
        Program(environment(observation_space=Box(low, high))())
    with pytest.raises(SchemaError, match=r"action_space has the greatest value 3, but the range .* says 2"):
        Program(environment(action_space=Discrete(4))())
    with pytest.raises(SchemaError, match=r"observation_space\['all'\]\[0\] has the least value"):
        keyed = {"observation": {"all": "Walker.View"}, "observation_space": Dict(all=Box(low - 1, high))}
        Program(environment(**keyed)())


@pytest.mark.parametrize(
    ("kind", "bounds", "message"),
    [
        (boolean, between(0, 1), "is of boolean, which has no range"),
        (Entity, between(0, 1), "is of Entity, which has no range"),
        (u8, between(0, 256), "u8 cannot hold the bound 256"),
        (i32, between(0, 0.5), r"is of i32, whose bounds are integers, got 0\.5"),
        (f32, between(0, "1"), r"is of f32, whose bounds are numbers, got '1'"),
        (f32, between(0, True), r"is of f32, whose bounds are numbers, got True"),
        (f32, between(math.nan, 1), "f32 cannot hold the bound nan"),
        (f32, between(0, 1e39), r"f32 cannot hold the bound 1e\+39"),
        (f32, between(1, 0), "between 1 and 0"),
        (f32[3], between([0, 0], 1), r"has shape \[3\], to which a bound of shape \[2\] does not fit"),
        (f32[3], between([[0], [0, 1]], 1), "a bound must be a number or an array"),
        (f32, 0.5, r"x = 0\.5 means nothing: fields begin at zero.*between\(low, high\)"),
    ],
    ids=str,
)
def test_bad_ranges_are_refused(kind: Any, bounds: Any, message: str) -> None:
    with pytest.raises(SchemaError, match="component Bad: .*" + message):
        type("Bad", (Component,), {"__annotations__": {"x": kind}, "x": bounds})
    with pytest.raises(SchemaError, match="struct Bad: .*" + message):
        type("Bad", (Struct,), {"__annotations__": {"x": kind}, "x": bounds})


def test_wide_integers_keep_their_bounds() -> None:
    wide = type("Wide", (Component,), {"__annotations__": {"x": i64, "y": f64}, "x": between(0, 2**62 + 1)})
    assert wide.fields[0].high is not None and int(wide.fields[0].high) == 2**62 + 1 and wide.fields[1].low is None


# ---- constants -----------------------------------------------------------------------------------------------------


def test_constants_are_those_of_the_options() -> None:
    declared = environment()
    small, large, again = Program(declared(size=2)), Program(declared(size=6)), Program(declared(size=2))
    for program, size in ((small, 2), (large, 6)):
        cells = program.columns["Walker.Cells"].component
        walls, place = cells.fields
        assert (walls.type.tensor_shape, place.type.tensor_shape) == ((size, 2 * size + 1), (size,))
        assert place.high is not None and place.high.tolist() == [size - 1] * size
    assert small.columns["Walker.Cells"].component is again.columns["Walker.Cells"].component
    assert repr(SIZE * (SIZE + 1) // 2) == "(size * (size + 1)) // 2" and repr(-SIZE) == "0 - size"


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((Constant("sise"),), r"names the constant 'sise', which is missing \(did you mean 'size'\?\)"),
        ((SIZE - 3,), r"has the extents \[0\], which must be positive integers"),
        ((SIZE // (SIZE - 3),), r"divides by zero where size is 3"),
        ((Constant("rough"),), r"names the constant 'rough', whose value must be a number, got True"),
        ((SIZE * Constant("scale"),), r"has the extents \[1\.5\], which must be positive integers"),
    ],
    ids=str,
)
def test_constants_that_give_no_shape(shape: tuple[Any, ...], message: str) -> None:
    constants = Constants(size=3, legs=4, rough=True, scale=0.5)
    with pytest.raises(SchemaError, match="component More: x.* " + message):
        Program(environment(constants=constants, singletons=(Given, component("More", x=f32[shape])))())


def test_a_constant_is_missed_where_none_is_declared() -> None:
    says = "component More: x names the constant 'size', which is missing; constants: none"
    with pytest.raises(SchemaError, match=says):
        component("More", x=f32[SIZE]).closed({})
