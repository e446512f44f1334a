"""What systems in Python may contain: compiled and run as Python, on the same inputs, with the same bits."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Constant,
    Constants,
    Entity,
    Environment,
    Episode,
    Option,
    Parameters,
    Reward,
    Row,
    Struct,
    TaskGraph,
    Warp,
    World,
    boolean,
    f32,
    f64,
    function,
    i8,
    i32,
    i64,
    no_row,
    quat,
    system,
    u8,
    u16,
    u32,
    u64,
    vec2,
    vec3,
    zeros,
)
from torch_batchsim.build import emulation
from torch_batchsim.math import (
    atan2,
    clamp,
    cos,
    cross,
    dot,
    exp,
    floor,
    fma,
    fmod,
    from_bits,
    isnan,
    length,
    log,
    normalize,
    pow,
    rotate,
    rotation_about,
    sin,
    sincos,
    sqrt,
    tanh,
    to_bits,
    to_i32,
)  # fmt: skip
from torch_batchsim.resolve.executors import EXECUTORS
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, snapshot

SIZE = Constant("size")
TABLE = (3, 1, 4, 1, 5, 9, 2, 6)
WEIGHTS = ((0.5, -1.5), (0.1, 3.0))
GRAVITY = 9.81
MASK = 0xFF00FF


class Kind(enum.IntEnum):
    WALL = 1
    FLOOR = 7


class Leg(Struct):
    angle: f32
    joints: f32[2]


class Given(Component):
    a: i32
    b: i32
    c: u32
    d: u32
    x: f32
    y: f32
    s: i64
    t: u64
    small: u8
    tiny: i8
    flag: boolean
    z: f64


class Vectors(Component):
    p: vec3
    q: vec3
    r: vec2
    turn: quat


class Found(Component):
    ints: i32[24]
    words: u32[12]
    longs: i64[6]
    floats: f32[24]
    flags: boolean[12]
    bytes: u8[6]
    halves: u16[4]
    doubles: f64[4]


class Turned(Component):
    p: vec3
    q: vec3
    r: vec2
    turn: quat
    floats: f32[8]


class Body(Component):
    legs: Leg[3]
    grid: i32[3, SIZE]
    total: f32


class Counted(Component):
    ints: i32[8]
    floats: f32[8]
    flags: boolean[2]


class Total(Component):
    sum: f32
    count: i32


class Clock(Component):
    ticks: i32
    last: Entity


class Bullet(Component):
    age: i32
    speed: f32


class Act(Component):
    choice: i32


@system
def integers(world: World, given: Given, found: Found):
    a, b = given.a, given.b
    found.ints[0] = a + b
    found.ints[1] = a - b
    found.ints[2] = a * b
    found.ints[3] = -a
    if b != 0 and not (a == -2147483648 and b == -1):
        found.ints[4] = a // b
        found.ints[5] = a % b
    found.ints[6] = a & b | MASK
    found.ints[7] = a ^ ~b
    found.ints[8] = a << 3
    found.ints[9] = a >> 5
    found.ints[10] = min(a, b, 7)
    found.ints[11] = max(a, b)
    found.ints[12] = abs(a)
    found.ints[13] = clamp(a, -5, 5)
    found.ints[14] = given.small + given.tiny
    found.ints[15] = given.flag + 3
    found.ints[16] = a if a > b else b
    found.ints[17] = 7 // 2 - 7 % 4 + (-7) // 2
    found.ints[18] = Kind.FLOOR + Kind.WALL
    found.ints[19] = TABLE[a & 7]
    found.ints[20] = i32(given.c)
    found.ints[21] = to_i32(given.x)
    found.ints[22] = i32(given.y)
    found.ints[23] = len(TABLE) + world.constants.size


@system
def naturals(world: World, given: Given, found: Found):
    c, d = given.c, given.d
    found.words[0] = c + d
    found.words[1] = c - d
    found.words[2] = c * d
    found.words[3] = c // (d | 1)
    found.words[4] = c % (d | 1)
    found.words[5] = c >> (d & 31)
    found.words[6] = c << (d & 31)
    found.words[7] = ~c
    found.words[8] = u32(given.a) + 1
    found.words[9] = to_bits(given.x)
    found.words[10] = min(c, d)
    found.words[11] = world.id * 3 + world.step()
    found.longs[0] = given.s + given.a
    found.longs[1] = given.s * given.s
    found.longs[2] = -given.s
    found.longs[3] = given.s // 7
    found.longs[4] = given.s % -7
    found.longs[5] = i64(given.t >> 3)
    found.bytes[0] = given.small + 200
    found.bytes[1] = u8(given.a)
    found.bytes[2] += 250
    found.bytes[3] = given.a
    found.halves[0] = given.c
    found.halves[1] = u16(given.small * 300)


@system
def floats(world: World, given: Given, found: Found):
    x, y = given.x, given.y
    found.floats[0] = x + y
    found.floats[1] = x - y
    found.floats[2] = x * y
    found.floats[3] = x / y
    found.floats[4] = -x
    found.floats[5] = x * 0.1 + y * GRAVITY
    found.floats[6] = given.a * x
    found.floats[7] = given.c / y
    found.floats[8] = f32(given.s)
    found.floats[9] = f32(given.t)
    found.floats[10] = sqrt(abs(x)) + sin(y) * cos(x)
    found.floats[11] = exp(clamp(x, -5.0, 5.0)) - log(abs(y) + 1)
    found.floats[12] = pow(abs(x), 0.5) + atan2(x, y) + tanh(y)
    found.floats[13] = min(x, y) + max(x, 0)
    found.floats[14] = floor(x) + fmod(x, 3)
    found.floats[15] = fma(x, y, 1.0)
    found.floats[16] = from_bits(given.c) if given.c < 2139095040 else 0.0
    found.floats[17] = (x + y) * (x - y) / 3
    found.floats[18] = WEIGHTS[1][0] * x + WEIGHTS[0][1]
    found.floats[19] = world.parameters.gust * x
    s, c = sincos(x)
    found.floats[20] = s + 2 * c
    found.floats[21] = math.pi * x
    found.floats[22] = 1 if x > y else 0.25
    found.floats[23] = 1e30 * 1e30
    found.doubles[0] = given.z * 3 + x
    found.doubles[1] = given.z / given.y
    found.doubles[2] = f64(given.a) * 0.1
    found.doubles[3] = -given.z


@system
def conditions(world: World, given: Given, found: Found):
    found.flags[0] = given.a < given.b
    found.flags[1] = given.x <= given.y and given.flag
    found.flags[2] = not given.flag or given.c == given.d
    found.flags[3] = 0 <= given.a < 100
    found.flags[4] = given.x != given.x
    found.flags[5] = isnan(given.x) | (given.y > 0)
    found.flags[6] = bool(given.a) and given.small > given.tiny
    found.flags[7] = given.a == given.x
    found.flags[8] = given.flag == (given.a > 0)
    found.flags[9] = given.s > given.a
    found.flags[10] = True
    found.flags[11] = given.flag ^ (given.b > 0)


@system
def control(world: World, given: Given, body: Body, row: Row):
    total = 0.0
    for i in range(3):
        for j in range(world.constants.size):
            body.grid[i, j] = i * 10 + j
            if body.grid[i, j] == 12:
                continue
            if body.grid[i, j] > 21:
                break
            total += body.grid[i, j] * 0.5
    n = given.a & 15
    steps = 0
    while n != 1 and steps < 40:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        if n == 0:
            break
        steps += 1
    if steps > 10:
        kind = 1
    elif steps > 5:
        kind = 2
    else:
        kind = 3
    for i in range(10, 0, -3):
        total += i
    for leg in body.legs:
        leg.angle += 0.5 * kind
        for joint in leg.joints:
            total += joint
        leg.joints[1] = leg.angle
    first = body.legs[1]
    first.joints[0] = total
    low, high = 1, 2
    low, high = high, low
    value: f32 = 0
    value += low * 10 + high
    body.total = total + steps + kind + value + row.index


@function
def mixed(x: f32, n: i32) -> f32:
    """Early returns, and another function."""
    if n < 0:
        return twice(x)
    return x - n


@function
def twice(x: f32) -> f32:
    return x + x


@function
def grow(leg: Leg, by: f32):
    leg.angle = leg.angle * by


@function
def is_even(n: i32) -> bool:
    return n % 2 == 0


@system
def calls(world: World, given: Given, body: Body, found: Found):
    found.floats[0] += mixed(given.x, n=given.a)
    found.flags[0] = is_even(given.b)
    grow(body.legs[2], 1.5)
    fresh = Leg(angle=given.x)
    body.legs[0] = fresh
    body.legs[0].joints[0] = fresh.angle


@function
def sorted_by_insertion(values: i32[8]) -> int:
    """Changes what it gets, and counts its moves."""
    moves = 0
    for i in range(1, len(values)):
        now, at = values[i], i
        while at > 0 and values[max(at - 1, 0)] > now:
            values[at] = values[at - 1]
            at -= 1
            moves += 1
        values[at] = now
    return moves


@function
def sum_of(row: f32[SIZE], points: vec3[2], legs: Leg[2]) -> float:
    total = points[1].y + legs[1].joints[0]
    for x in row:
        total += x
    return total


@system
def arrays(world: World, given: Given, counted: Counted):
    drawn = zeros(i32, 8)
    for i in range(8):
        drawn[i] = (given.a >> i) % 100 - TABLE[i]
    moves = sorted_by_insertion(drawn)
    for i in range(8):
        counted.ints[i] = drawn[i] + moves
        bits = zeros(u8, SIZE, 2 * SIZE - 1, 2)  # zero in every round
        bits[i & 3, i // 2, i & 1] += given.small + 200
        counted.flags[0] = bits[0, 0, 1] == 0
        plane = bits[i & 3]
        counted.ints[i] += plane[i // 2, i & 1]
    rows = zeros(f32, 3, world.constants.size)
    points = zeros(vec3, 2)
    legs = zeros(Leg, 2)
    words = zeros(i64, 2)
    seen = zeros(boolean, 3)
    names = zeros(Entity, 2)
    counted.flags[1] = names[0] == names[1]
    for i in range(3):
        for j in range(SIZE):
            rows[i, j] = given.x * i - given.y * j
        seen[i] = rows[i, 1] > 0
    points[1] = vec3(given.x, given.y, 1)
    points[1].y += 2
    points[0] = points[1] * 2.0
    first = legs[1]
    first.joints[0] = given.a
    grow(legs[1], 0.5)
    words[0] = given.s * 3
    words[1] += words[0] - given.a
    counted.floats[0] = sum_of(rows[2], points, legs)
    counted.floats[1] = rows[1, 3] if seen[1] else points[0].x
    counted.floats[2] = f32(words[1])
    for point in points:
        counted.floats[3] += point.z
    for leg in legs:
        leg.angle += 1
        counted.floats[4] += leg.angle
    cells = counted.floats
    cells[5] = len(rows) + len(points)


@system
def vectors(world: World, given: Given, v: Vectors, turned: Turned):
    p = v.p + v.q * 2 - v.p / 3.0
    p.x = p.x + 1
    turned.p = p
    turned.q = cross(v.p, v.q) * 0.5 + -v.q
    turned.r = vec2(v.r.y, given.a) * v.r
    turned.turn = normalize(v.turn) * rotation_about(vec3(0, 0, 1), given.x)
    turned.q.z = dot(v.p, v.q) + length(v.r)
    turned.p += rotate(v.p, normalize(v.turn))
    turned.floats[0] = v.p.x * v.q.y
    turned.floats[1] = 1 if v.p == v.q else 2


@system
def draws(world: World, turned: Turned):
    turned.floats[2] = world.random.uniform()
    turned.floats[3] = world.random.uniform(-2, 3.5)
    turned.floats[4] = world.random.normal()
    turned.floats[5] = world.random.integer(-3, 9)
    turned.floats[6] = world.random.below(5)
    if world.random.chance(0.5):
        turned.floats[7] = 1


@system
def others(world: World, total: Total, warp: Warp):
    given = world.rows("Case", Given)

    def place(i: int):
        world.rows("Case", Found)[i].words[11] += u32(i)

    warp.for_each(given.count, place)
    sum = warp.sum(given.count, lambda i: given[i].x if not isnan(given[i].x) else 0.0)
    count = warp.count(given.count, lambda i: given[i].a > 0)

    def write():
        total.sum = sum
        total.count = i32(count)

    warp.once(write)


@system
def shoot(world: World, clock: Clock):
    clock.ticks += 1
    if clock.ticks % 3 == 0:
        clock.last = world.create("Shot", Bullet(age=clock.ticks, speed=0.5 * clock.ticks))
    for bullet in world.rows("Shot", Bullet):
        bullet.age += 1
    oldest = world.find(Bullet, clock.last)
    if oldest is not None:
        oldest.speed = oldest.speed * 0.75
    if clock.ticks > 8 and world.count("Shot") > 1:
        world.destroy(world.entity("Shot", 0))
    if world.index_of("Shot", Entity()) != no_row or clock.last == Entity():
        clock.ticks = -100
    if world.get(Clock).ticks == 1000:
        world.fail("too_late", clock.ticks)


@system
def judge(world: World, episode: Episode):
    episode.truncated = episode.step >= 20


@system
def pay(world: World, reward: Reward):
    reward.value = f32(world.step())


SYSTEMS = (integers, naturals, floats, conditions, control, calls, arrays, vectors, draws, others, shoot, judge, pay)


class Cases(Environment):
    archetypes = [
        Archetype("Case", Given, Vectors, Found, Turned, Counted, Body, Act, Reward, count=5),
        Archetype("Shot", Bullet, capacity=12),
    ]
    singletons = [Total, Clock]
    constants = Constants(size=Option(4, minimum=2))
    parameters = Parameters(gust=0.3)
    faults = ("too_late",)
    step = TaskGraph(*SYSTEMS)
    observation, action = "Case.Turned", "Case.Act"
    action_space = Discrete(3)


WORLDS = 40
EDGES = {
    "i4": [0, 1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 255, 256, -128, 1000],
    "u4": [0, 1, 2, 31, 32, 255, 2**31, 2**32 - 1, 2**31 - 1],
    "i8": [0, 1, -1, 7, -7, 2**63 - 1, -(2**63), 2**53 + 1, 2**62 + 12345678901],
    "u8": [0, 1, 8, 2**64 - 1, 2**63, 2**53 + 1, 2**40 + 2**15 + 1],
    "f4": [0.0, -0.0, 1.0, -1.5, 0.1, 3.4e38, -3.4e38, 1e-45, 1e-38, math.inf, -math.inf, math.nan, 16777217.0, 2**31],
}


def drawn(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Edge values among random ones."""
    if dtype == np.bool_:
        return generator.random(shape) < 0.5
    if dtype.kind == "f":
        values = (generator.normal(size=shape) * 10 ** generator.uniform(-3, 3, shape)).astype(dtype)
        edges = np.array(EDGES["f4"], dtype)
    else:
        info = np.iinfo(dtype)
        wide = generator.integers(info.min, info.max, shape, dtype, endpoint=True)
        near = generator.integers(max(info.min, -20), 20, shape).astype(dtype)
        values = np.where(generator.random(shape) < 0.5, wide, near)
        name = f"{dtype.kind}{dtype.itemsize}"
        edges = np.array([e for e in EDGES.get(name, [0, 1, info.min, info.max]) if info.min <= e <= info.max], dtype)
    return np.where(generator.random(shape) < 0.4, generator.choice(edges, shape), values)


def fill(simulators: list[torch_batchsim.Simulator], seed: int) -> None:
    generator = np.random.default_rng(seed)
    first = simulators[0]
    for component, fields in (("Given", Given.fields), ("Vectors", Vectors.fields)):
        for field in fields:
            name = f"Case.{component}.{field.name}"
            own = first.tensor(name)
            dtype = np.dtype(str(field.type.dtype).removeprefix("torch."))
            values = drawn(generator, tuple(own.shape), dtype)
            for simulator in simulators:
                simulator.tensor(name).copy_(torch.from_numpy(values.copy()).to(own.dtype))


def step(simulators: list[torch_batchsim.Simulator], steps: int, seed: int) -> None:
    """Step all with the same inputs, and compare all state and outputs to the bit."""
    for simulator in simulators:
        simulator.reset(seed=seed)
    for number in range(steps):
        fill(simulators, seed + number)
        for simulator in simulators:
            simulator.step()
        expected = snapshot(simulators[0])
        for other in simulators[1:]:
            assert_same_bits(expected, snapshot(other))


def simulator(executor: str | None = None, **options: object) -> torch_batchsim.Simulator:
    return torch_batchsim.Simulator(Cases(), WORLDS, executor=executor, **options)


@pytest.mark.filterwarnings("ignore::torch_batchsim.BuildWarning")
def test_python_and_compiled_agree_to_the_bit() -> None:
    step([simulator("batch"), simulator("python")], 12, seed=0)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::torch_batchsim.BuildWarning")
def test_all_executors_agree_on_many_numbers() -> None:
    program = Program(Cases())
    emulated = [
        torch_batchsim.Simulator(Cases(), WORLDS, _library=emulation.load(program, name))
        for name in EXECUTORS["cuda"]
    ]
    step([simulator("batch"), simulator("python"), simulator("per_world"), *emulated], 60, 100)
