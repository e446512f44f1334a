"""What systems in Python cannot contain: the message names file and line, and says what to write."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import pytest

from torch_batchsim import Environment, SchemaError, TaskGraph
from torch_batchsim.resolve.program import Program

HEAD = """\
from gymnasium.spaces import Discrete
import math
import numpy as np
from torch_batchsim import *
from torch_batchsim import physics
from torch_batchsim.math import sin, dot

LEVELS = [1, 2, 3]
SIZE = Constant("size")

class Ball(Component):
    column: i32
    speed: f32
    place: vec3
    cells: u8[4]

class Other(Component):
    x: f32

class Act(Component):
    choice: i32

def plain(x):
    return x

@function
def twice(x: f32) -> f32:
    return 2 * x

@function
def first(values: i32[2]) -> f32:
    return f32(values[0])

@function
def raised(values: i32[3]) -> f32:
    values[0] += 1
    return f32(values[0])

@function
def endless(n: i32) -> i32:
    return endless(n - 1)

@system
def other(world: World, ball: Ball):
    ball.column = 1

"""
TAIL = """

class Case(Environment):
    archetypes = [Archetype("Game", Ball, Act, Reward, count=1)]
    constants = Constants(rows=10)
    parameters = Parameters(gust=0.5)
    faults = ("broken",)
    step = TaskGraph(bad)
    observation, action = "Game.Act", "Game.Act"
    action_space = Discrete(3)
"""
SYSTEM = "@system\ndef bad(world: World, ball: Ball, episode: Episode):\n    "
_numbers = itertools.count()


def declared(text: str, folder: Path) -> type[Environment]:
    path = folder / "game.py"
    path.write_text(HEAD + text + TAIL)
    spec = importlib.util.spec_from_file_location(f"game_{next(_numbers)}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Case


BODIES = {
    "ball.row = 1": "Ball has no field 'row'; its fields are column, speed, place, cells",
    "ball.colum = 1": r"Ball has no field 'colum' \(did you mean 'column'\?\)",
    "ball.column = 1.5": "1.5 is stored as i32; convert by i32",
    "ball.column = ball.speed": "f32 is stored as i32; convert by i32",
    "ball.column = ball.speed > 0 and 3": "'and' and 'or' take booleans here, got i32",
    "ball.speed = ball.column / 2": r"/ of integers: write f32\(a\) / f32\(b\), or a // b",
    "ball.speed = ball.speed // 2": r"// and % take integers; write floor\(a / b\)",
    "ball.speed = ball.speed ** 2": r"\*\* is not in systems: write x \* x, or pow\(x, y\)",
    "ball.column = u32(3) - ball.column": r"u32 meets i32: convert one, by i32\(...\) or u32\(...\)",
    "ball = 3": "'ball' is a component; assign to its fields",
    "x = ball.column\n    x = 1.5": "'x' is i32 and would lose decimals",
    "if ball.column > 1:\n        x = 1\n    ball.column = x": "'x' may be without a value here",
    "ball.column = x": "'x' is not defined",
    "ball.column = LEVELS[0]": "LEVELS is a list, which may change later; make it a tuple",
    "ball.column = SIZE": r"Constant\('size'\) is not among the constants of the environment",
    "ball.column = world.constants.rowz": r"world.constants.rowz does not exist \(did you mean 'rows'\?\)",
    "ball.speed = world.parameters.wind": "world.parameters.wind does not exist",
    "ball.speed = math.sin(ball.speed)": "math.sin is not in systems; take sin of torch_batchsim.math",
    "ball.speed = np.sqrt(ball.speed)": "np.sqrt is not in systems",
    "world.check(ball.column < 3, ball.column, 'late')": r"write world.check\(condition\), and behind the condition a",
    "ball.speed = physics.plane().size.x": "physics has no 'plane'; functions of a library's header are for",
    "ball.speed = plain(1.0)": "plain is a function of Python: put @function in front of it",
    "ball.column = endless(3)": "functions cannot call themselves: bad -> endless -> endless",
    "other(world, ball)": "other is a system, which task graphs run",
    "ball.speed = twice(1.0, 2.0)": "twice takes x, got",
    "ball.speed = twice(ball.place)": "vec3 cannot be stored as f32",
    "ball.cells[4] = 1": "the index is 4, but there are 4 elements",
    "ball.cells[-1] = 1": "the index is -1: systems count from the front",
    "ball.cells[0:2] = 1": "systems have no slices",
    "ball.cells[0] = 256": "256 does not fit into u8",
    "ball.place.w = 1": "vec3 has no 'w'; it has x, y, z",
    "world.fail('borken')": r"'borken' is not among faults = \(...\) of the environment \(did you mean 'broken'\?\)",
    "world.rows('Gam', Ball)": r"'Gam' is not an archetype \(did you mean 'Game'\?\)",
    "for o in world.rows('Game', Other):\n        pass": "Other is not a component of the environment",
    "for i in range(3):\n        i += 1": "'i' is the variable of a loop; take another name",
    "for i in [1, 2]:\n        pass": "systems cannot have a list",
    "for i, b in enumerate(ball.cells):\n        pass": r"write for i in range\(len\(...\)\)",
    "x = [i for i in range(3)]": "systems cannot have a list; use an array field, or a loop",
    "x = {1: 2}": "systems cannot have a dict",
    "try:\n        pass\n    except ValueError:\n        pass": "systems cannot have try",
    "assert ball.column": "systems cannot have assert; report by world.fail",
    "raise ValueError": "systems cannot have raise; report by world.fail",
    "import os": "systems cannot have import; import in the module",
    "with world:\n        pass": "systems cannot have with",
    "return 3": "system bad returns a value; it writes results into components",
    "return\n    ball.column = 1": "this is never reached",
    "ball.column == 1": "the value of this expression is not used",
    "ball.column = 'a'": "'a' is not a number",
    "x = f'{ball}'": "systems cannot have a text",
    "ball.column = ball.column if world.id else 1.5": "f32 is stored as i32",
    "ball.column = 1 if ball.place else 2": "a condition must be a boolean or a number, got vec3",
    "while True:\n        ball.column += 1\n    else:\n        pass": "a loop has no else",
    "x = 99999999999999999999": "does not fit into 64 bits",
    "ball.column = 1 // 0": "zero",
    "float = 3": "'float' is a name of C\\+\\+ or of the engine",
    "ball.speed = dot(ball.speed, 1)": "dot takes",
    "ball.place = ball.place + 1": "vec3 and i32 have no \\+",
    "world.stop()": "a world has no 'stop'",
    "world.random.gauss()": "world.random has no 'gauss'",
    "a = b = 1": "one assignment at a time",
    "episode.done = True": "episode.done does not exist",
    "a = zeros(i32, 2)\n    a[2] = 1": "the index is 2, but there are 2 elements",
    "a = zeros(i32, 0)": "an extent is a number from 1 on, or a constant of the module or the environment",
    "a = zeros(i32, ball.column)": "an extent is a number from 1 on, or a constant of the module",
    "a = zeros(i32, SIZE)": "names the constant 'size', which is missing; constants: rows",
    "a = zeros(int, 2, 3, kind=2)": r"write a = zeros\(i32, 5\), or zeros\(i32, 5, 3\)",
    "a = zeros(str, 2)": r"str is no type of elements; write zeros\(i32, 5, 3\)",
    "a = zeros(i32, 2)\n    a = zeros(i32, 2)": "'a' has a value already; take another name for the array",
    "a = zeros(i32, 2)\n    a = ball.column": "'a' is an array already; write its elements",
    "a = zeros(i32, 2)\n    a[0] = 0.5": "0.5 is stored as i32",
    "a = zeros(i32, 2)\n    ball.cells = a": "ball.cells is u8\\[4\\]; write its elements",
    "if ball.column > 1:\n        a = zeros(i32, 2)\n    ball.column = a[0]": "'a' is used outside of this block",
    "ball.column = zeros(i32, 2)[0]": "give the array a name first",
    "a = zeros(i32, 2)\n    def write(i: int):\n        a[i] = 1": "it writes components, not variables outside of it",
    "p = ball.place\n    def write(i: int):\n        p.x = 1": "it writes components, not variables outside of it",
    "a = zeros(i32, 3)\n    ball.speed = first(a)": r"first takes i32\[2\] as values, got i32\[3\]",
    "a = zeros(i32, 3)\n    ball.speed = 1 + raised(a)": "raised writes what it gets, so its place counts",
    "a = zeros(i32, 3)\n    ball.speed += raised(a)": "raised writes what it gets, so its place counts",
    "x: str = 3": "str is no type of numbers or vectors",
    "if ball.speed in (1.0, 2.0):\n        pass": "'in' compares integers, got f32",
    "if ball.column in ball.cells:\n        pass": r"'in' takes \(1, 2\), or a tuple of the module",
    "if ball.column in LEVELS:\n        pass": "'in' takes",
    "if world.random.below(3) in (1, 2):\n        pass": "this would be called twice; assign it to a variable first",
    "p = world.parameters\n    p = world.constants": "'p' is an object of the engine; take another name",
    "bits = Bits(ball.column)": "an extent is a number from 1 on, or a constant of the module or the environment",
    "bits = Bits(70)\n    bits.store(ball.cells)": r"70 bits lie in words: u64\[2\], got u8\[4\]",
    "bits = Bits(70)\n    bits.append(ball.speed, 3)": "append takes integers, got f32",
    "bits = Bits(70)\n    bits.add(1, 3)": r"Bits have no 'add'.*; they have append, append_thermometer, store",
    "bits = Bits(70)\n    bits = Bits(3)": "'bits' has a value already; take another name for the bits",
    "if ball.column > 1:\n        bits = Bits(9)\n    bits.append(1, 1)": "are used outside of this block",
    "write_bits(ball.cells, ball.cells, world)": "write_bits takes warp or block last, got World",
    "world.tables(Ball)": "loop over it: for table, places in world.tables",
    "for table in world.tables(Ball):\n        pass": "write for table, places, winds in world.tables",
    "for table, balls in world.tables(Ball | None):\n        pass": "one component at least stands without | None",
    "for table, balls in world.tables(Ball):\n        break": "world.tables goes through all archetypes: use if",
    "for table, balls in world.tables(Ball):\n        if table.count > 3:\n            return": "no return within",
    "for table, balls in world.tables(Ball):\n        ball.column = table.rows": "table.rows does not exist",
    "for table, balls in world.tables(Ball):\n        balls[0].row = 1": "Ball has no field 'row'",
    "world.random.shuffle(ball.column, 3)": "shuffle takes an array with one index, got i32",
}


@pytest.mark.parametrize(("body", "message"), BODIES.items())
def test_bodies(body: str, message: str, tmp_path: Path) -> None:
    environment = declared(SYSTEM + body, tmp_path)
    line = (HEAD + SYSTEM).count("\n") + 1
    with pytest.raises(SchemaError, match=message) as raised:
        Program(environment())
    assert any(str(raised.value).startswith(f"game.py:{line + k}: ") for k in range(4)) or "functions cannot" in message


SIGNATURES = {
    "@system\ndef bad(ball: Ball):\n    pass": "system bad takes world: World first",
    "@system\ndef bad(world: World, bits: Bits):\n    pass": "bits is of Bits, which is no component",
    "@system\ndef bad(worlds: Worlds[4], warp: Warp):\n    x = worlds[0].random.uniform()": "take worlds.k..random_of",
    "@system\ndef bad(worlds: Worlds[4]):\n    pass": "takes several worlds on one lane; take Warp & or Block &",
    "@system\ndef bad(worlds: Worlds[40], warp: Warp):\n    pass": "takes 40 worlds at a time",
    "@system\ndef bad(world: World, warp: Warp):\n    a = warp.shared(Act)\n    a.choice = 1": "write shared memory in",
    "@system\ndef bad(world: World, w: Warp):\n    a = w.scan(3, lambda i: 0.5, lambda i, b: b)": "scan takes terms of",
    "@system\ndef bad(world: World, ball):\n    pass": "ball has no type",
    "@system\ndef bad(world: World, other: Other):\n    pass": "other is of Other, which is no component of the",
    "@system\ndef bad(world: World, ball: Ball = 3):\n    pass": "parameters are names with types, without",
    "@system\ndef bad(world: World, *balls: Ball):\n    pass": "parameters are names with types, without",
    "@system\ndef bad(world: World, ball: Ball, ball2: Ball):\n    pass": "takes Ball twice",
    "@system\ndef unsigned(world: World):\n    pass\nbad = unsigned": "'unsigned' is a name of C\\+\\+",
    "@function\ndef half(x: f32) -> f32:\n    if x > 1:\n        return x\n\n"
    + SYSTEM + "ball.speed = half(1.0)": "half returns a value on some paths only",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), SIGNATURES.items())
def test_signatures(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=message):
        Program(declared(text, tmp_path)())


def test_all_refused_systems_are_in_one_message(tmp_path: Path) -> None:
    text = """\
@function
def half(x: f32) -> f32:
    return x ** 2

@system
def one(world: World, ball: Ball):
    ball.speed = half(1.0)
    ball.row = 1

@system
def two(world: World, ball: Ball):
    ball.place.x = half(2.0)

@system
def three(world: World, bal: "Bal"):
    bal.column = 1

@system
def bad(world: World, ball: Ball):
    ball.column = 1.5
"""
    environment = declared(text, tmp_path)
    names = environment.step.items[0].function.__globals__
    environment.step = TaskGraph(*(names[name] for name in ("one", "two", "three", "bad")))
    with pytest.raises(SchemaError) as raised:
        Program(environment())
    first = HEAD.count("\n")
    places = [line for line in str(raised.value).split("\n") if line.startswith("game.py")]
    assert places == [
        f"game.py:{first + 3}: ** is not in systems: write x * x, or pow(x, y)",
        f"game.py:{first + 15}: bal is of Bal, which is no component of the environment (did you mean 'Ball'?); "
        "parameters are World, components, Episode, Row, Entity",
        f"game.py:{first + 20}: 1.5 is stored as i32; convert by i32(...)",
    ]
    assert f"{first + 3:>5} |     return x ** 2" in str(raised.value)


def test_a_system_stands_in_front_of_a_function() -> None:
    from torch_batchsim import system

    with pytest.raises(SchemaError, match="@system stands in front of a function, got 3"):
        system(3)  # type: ignore[arg-type]


def test_without_source_text() -> None:
    names: dict[str, object] = {}
    text = "from torch_batchsim import *\n@system\ndef go(world: World):\n    pass\n"
    exec(compile(text, "<typed>", "exec"), names)
    with pytest.raises(SchemaError, match="go: Python has no source text of it"):
        names["go"].source  # type: ignore[attr-defined]  # noqa: B018


def test_a_file_that_changes_while_it_runs(tmp_path: Path) -> None:
    environment = declared(SYSTEM + "ball.column = 1", tmp_path)
    path = tmp_path / "game.py"
    path.write_text(path.read_text().replace("    ball.column = 1\n\nclass Case", "    ball.column = 2\n\nclass Case"))
    with pytest.raises(SchemaError, match="the file has changed since Python read it"):
        Program(environment())


def test_constants_of_a_module_are_read_when_an_environment_is_made(tmp_path: Path) -> None:
    environment = declared("LIMIT = 5\n" + SYSTEM + "ball.column = LIMIT", tmp_path)
    first = Program(environment()).files[(tmp_path / "game.py").resolve()]
    environment.step.items[0].function.__globals__["LIMIT"] = 6
    second = Program(environment()).files[(tmp_path / "game.py").resolve()]
    assert "ball.column = 5;" in first and "ball.column = 6;" in second
