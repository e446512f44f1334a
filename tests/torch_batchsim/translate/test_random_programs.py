"""Programs drawn from a grammar of what systems in Python may contain agree to the bit, compiled and as Python."""

from __future__ import annotations

import importlib.util
import linecache
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from support import of_today

import torch_batchsim
from torch_batchsim import SchemaError
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import assert_same_bits, snapshot

HEAD = """\
import enum

from gymnasium.spaces import Discrete
from torch_batchsim import *
from torch_batchsim.math import clamp, cos, cross, dot, floor, fma, isnan, length, sqrt

TABLE = (3, -1, 4, 1, -5, 9, 2, 6)

class Ground(enum.IntEnum):
    WALL = 1
    POT = 7
    FAR = -20

class Leg(Struct):
    angle: f32
    turns: i32[2]
    foot: vec3

class Given(Component):
    a: i32
    b: i32
    c: u32
    d: u32
    x: f32
    y: f32
    small: u8
    flag: boolean

class Act(Component):
    choice: i32

@function
def early(x: float, n: int) -> float:
    if n < 3:
        return x + n
    for i in range(n & 3):
        if x > i:
            return x - i
    return 0.5

@function
def walked(leg: Leg, by: vec3, n: int) -> vec3:
    leg.turns[n & 1] += n
    if n == Ground.POT:
        return by
    leg.foot = leg.foot * 0.5 + by
    while n > 0:
        n = n // 4 - 1
        leg.angle += 1.5
        if leg.angle > 9:
            break
    return leg.foot

@function
def folded(values: i32[4], weights: f32[4]) -> float:
    total = 0.0
    for i in range(len(values)):
        total += weights[i] * (values[i] & 255)
        values[i] = values[i] * 3 + i
    return total

"""
SYSTEM = """\
class Found{number}(Component):
    ints: i32[4]
    words: u32[4]
    floats: f32[4]
    flags: boolean[4]
    bytes: u8[4]
    legs: Leg[2]

@system
def system_{number}(world: World, given: Given, found: Found{number}) -> None:
{body}

"""
TAIL = """\
class Drawn(Environment):
    archetypes = [Archetype("Case", Given, {found}, Act, Reward, count=4)]
    step = TaskGraph({systems})
    observation, action = "Case.Act", "Case.Act"
    action_space = Discrete(3)
"""
FIELDS = {"i32": ("given.a", "given.b"), "u32": ("given.c", "given.d"), "f32": ("given.x", "given.y")}
OUTPUTS = {"i32": "found.ints", "u32": "found.words", "f32": "found.floats", "bool": "found.flags"}
VECTORS = ("found.legs[0].foot", "found.legs[1].foot", "own[given.small & 1].foot", "first.foot")
ARRAYS = {"whole": "i32", "real": "f32"}  # local ones
LITERALS = {
    "i32": ("0", "1", "-1", "7", "-13", "1000", "2147483647", "-2147483648", "TABLE[2]", "Ground.FAR"),
    "u32": ("u32(0)", "u32(1)", "u32(5)", "u32(31)", "u32(255)"),
    "f32": ("0.0", "1.0", "-0.5", "0.1", "3.5e3", "1e-3", "2", "16777217.0", "1e38"),
    "bool": ("True", "given.flag"),
}


class Writer:
    """Writes one system, and keeps what its variables are."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.variables: dict[str, list[str]] = {kind: [] for kind in LITERALS}
        self.loops: list[str] = []
        self.count = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def body(self) -> str:
        for name, kind in ARRAYS.items():
            self.write(1, f"{name} = zeros({kind}, 4)")
        self.write(1, "own = zeros(Leg, 2)")
        self.write(1, "first = found.legs[given.a & 1]")
        if self.random.random() < 0.3:
            self.write(1, f"if {self.expression('bool', 2)}:")
            self.write(2, "return")
        for _ in range(self.random.randint(4, 9)):
            self.statement(1, 3)
        for kind, place in OUTPUTS.items():
            self.write(1, f"{place}[0] = {self.expression(kind, 3)}")
        self.write(1, f"found.bytes[1] += {self.expression('i32', 2)}")
        return "\n".join(self.lines)

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def kind(self) -> str:
        return self.pick("i32", "i32", "u32", "f32", "f32", "bool")

    def statement(self, depth: int, left: int) -> None:
        made = self.random.random()
        kind = self.kind()
        if made < 0.3:
            name = f"v{self.count}"
            self.count += 1
            typed = {"i32": ": int", "u32": ": u32", "f32": ": float", "bool": ": bool"}[kind]
            self.write(depth, f"{name}{typed} = {self.expression(kind, left)}")
            if depth == 1:
                self.variables[kind].append(name)
        elif made < 0.45 and self.variables[kind]:
            name = self.pick(*self.variables[kind])
            mark = {"bool": "^", "f32": self.pick("+", "-", "*")}.get(kind, self.pick("+", "-", "*", "&", "|", "^"))
            self.write(depth, f"{name} {mark}= {self.expression(kind, left)}")
        elif made < 0.55:
            array = self.pick(OUTPUTS[kind], *(name for name, own in ARRAYS.items() if own == kind))
            place = f"{array}[{self.pick('1', '2', 'given.c & 3', 'given.small & 3', *self.loops)}]"
            self.write(depth, f"{place} = {self.expression(kind, left)}")
        elif made < 0.6 and len(self.variables["i32"]) > 1:
            first, second = self.random.sample(self.variables["i32"], 2)
            self.write(depth, f"{first}, {second} = {self.expression('i32', 2)}, {first}")
        elif made < 0.65 and self.variables["f32"]:
            self.write(depth, f"{self.pick(*self.variables['f32'])} = folded(whole, real)")
        elif made < 0.69:
            self.legs(depth)
        elif depth > 3:
            self.write(depth, f"found.words[3] = {self.expression('u32', 2)}")
        elif made < 0.8:
            self.write(depth, f"if {self.expression('bool', left)}:")
            self.block(depth, left)
            if self.random.random() < 0.4:
                self.write(depth, f"elif {self.expression('bool', 2)}:")
                self.block(depth, left)
            if self.random.random() < 0.6:
                self.write(depth, "else:")
                self.block(depth, left)
        else:
            self.loop(depth, left)

    def legs(self, depth: int) -> None:
        """A statement about structs and vectors."""
        place, leg = self.pick(*VECTORS), self.pick("found.legs[0]", "own[1]", "first")
        real, whole = self.expression("f32", 1), self.expression("i32", 1)
        form = self.pick(
            f"{place} = {self.vector(2)}", f"{place}.{self.pick(*'xyz')} = {real}", f"{leg}.angle += {real}",
            f"{place} = walked({leg}, {self.vector(1)}, {whole})", f"{leg}.turns[given.b & 1] = {whole}",
        )  # fmt: skip
        self.write(depth, form)

    def vector(self, left: int) -> str:
        plain = [*VECTORS, "vec3(given.x, 0.5, given.y)"]
        if left <= 0:
            return self.pick(*plain)
        a, b, x = self.vector(left - 1), self.vector(left - 1), self.expression("f32", left - 1)
        return self.pick(f"({a} + {b})", f"({a} - {b})", f"({a} * {x})", f"cross({a}, {b})", f"(-{a})")

    def block(self, depth: int, left: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth + 1, left - 1)

    def loop(self, depth: int, left: int) -> None:
        name = f"k{self.count}"
        self.count += 1
        form = self.pick("4", "1, 4", "3, -1, -1", "0, 4, 2", "given.small & 3", "while")
        if form == "while":
            self.write(depth, f"{name} = -1")
            self.write(depth, f"while {name} < 3 and {self.expression('bool', 1)}:")
            self.write(depth + 1, f"{name} += 1")
        else:
            self.write(depth, f"for {name} in range({form}):")
        self.loops.append(name)
        self.block(depth, left)
        if self.random.random() < 0.4:
            self.write(depth + 1, f"if {self.expression('bool', 1)}:")
            self.write(depth + 2, self.pick("break", "continue"))
        self.block(depth, left)
        self.loops.pop()

    def integer(self, left: int) -> str:
        """Without a call, because it is written once and computed several times."""
        while "early(" in (text := self.expression("i32", left)):
            pass
        return text

    def expression(self, kind: str, left: int) -> str:
        plain = [*LITERALS[kind], *FIELDS.get(kind, ()), *self.variables[kind]]
        if kind == "i32":
            plain += [*self.loops, "given.small", "whole[given.small & 3]"]
        if kind == "f32":
            plain += ["real[given.a & 3]"]
        if left <= 0 or self.random.random() < 0.15:
            return self.pick(*plain)
        a, b = (self.expression(kind, left - 1) for _ in range(2))
        if kind == "bool":
            other = self.pick("i32", "u32", "f32", "f32")
            c, d, e = (self.expression(other, left - 1) for _ in range(3))
            mark, more = self.pick("<", "<=", ">", ">=", "==", "!="), self.pick("<", "<=")
            return self.pick(
                f"({c} {mark} {d})", f"({c} {more} {d} {more} {e})", f"({a} and {b})", f"({a} or {b})", f"(not {a})",
                f"isnan({self.expression('f32', left - 1)})", f"({a} ^ {b})",
                f"({self.integer(left - 1)} {self.pick('in', 'not in')} ({self.integer(0)}, 7, Ground.POT))",
            )  # fmt: skip
        condition = self.expression("bool", left - 1)
        shared = [f"({a} {self.pick('+', '-', '*')} {b})", f"({a} if {condition} else {b})", f"min({a}, {b})"]
        shared += [f"max({a}, {b})", f"clamp({a}, {self.pick('0', '1')}, {self.pick('5', '9')})"]
        if kind == "f32":
            n = self.expression("i32", left - 1)
            own = [f"({a} / {b})", f"(-{a})", f"abs({a})", f"sqrt(abs({a}))", f"floor({a})", f"fma({a}, {b}, 1.0)"]
            own += [f"f32({n})", f"({a} * {n})", f"early({a}, {n})", f"cos(clamp({a}, -9.0, 9.0))"]
            own += [f"f32({self.expression('u32', left - 1)})", f"dot({self.vector(1)}, {self.vector(0)})"]
            own += [f"length({self.vector(1)})", f"{self.vector(0)}.{self.pick(*'xyz')}"]
            return self.pick(*shared, *own)
        shift, divisor = self.pick("1", "7", "31"), self.pick("3", "7", "10")
        own = [f"({a} {self.pick('&', '|', '^')} {b})", f"({a} << {shift})", f"({a} >> {shift})", f"(~{a})"]
        own += [f"({a} // {divisor})", f"({a} % {divisor})"]
        if kind == "i32":
            own += [f"(-{a})", f"({a} % -{divisor})", f"i32({self.expression('f32', left - 1)})", f"TABLE[{a} & 7]"]
            own += [f"i32({self.expression('u32', left - 1)})", f"({condition} + {a})", f"({a} // (({b} & 7) + 1))"]
        else:
            own += [f"u32({self.expression('i32', left - 1)})", f"({a} // ({b} | 1))"]
        return self.pick(*shared, *own)


def loaded(text: str, path: Path) -> type[torch_batchsim.Environment]:
    path.write_text(text)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Drawn


def written(seed: int, systems: int, folder: Path) -> type[torch_batchsim.Environment]:
    """An environment of drawn systems. Those that are refused, as for a number that does not fit, are drawn anew."""
    seeds = [1000 * seed + k for k in range(systems)]
    found, run = (", ".join(f"{what}{k}" for k in range(systems)) for what in ("Found", "system_"))
    for turn in range(20 * systems):
        parts = [SYSTEM.format(number=k, body=Writer(own).body()) for k, own in enumerate(seeds)]
        text = HEAD + "".join(parts) + TAIL.format(found=found, systems=run)
        drawn = loaded(text, folder / f"drawn_{seed}_{turn}.py")
        try:
            Program(drawn())
        except SchemaError as error:
            line = int(str(error).split(":")[1])
            ends = [(HEAD + "".join(parts[: k + 1])).count("\n") for k in range(systems)]
            seeds[next(k for k, end in enumerate(ends) if line <= end)] += 1_000_000
        else:
            return drawn
    raise AssertionError("nothing that is allowed was drawn")


def fill(simulators: list[torch_batchsim.Simulator], generator: np.random.Generator) -> None:
    edges = {
        "f": [0.0, -0.0, 1.0, -1.0, 1e30, -3e38, 1e-40, np.inf, -np.inf, np.nan, 0.1, 2.5],
        "i": [0, 1, -1, 7, -7, 2**31 - 1, -(2**31)],
        "u": [0, 1, 3, 255, 2**32 - 1, 2**31],
    }
    for name in "abcdxy":
        tensor = simulators[0].tensor(f"Case.Given.{name}")
        dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))
        values = generator.choice(np.array(edges[dtype.kind]).astype(dtype), tuple(tensor.shape))
        near = (generator.normal(size=tuple(tensor.shape)) * 20).astype(np.int64 if dtype.kind != "f" else dtype)
        values = np.where(generator.random(tuple(tensor.shape)) < 0.5, values, near.astype(dtype))
        for simulator in simulators:
            simulator.tensor(f"Case.Given.{name}").copy_(torch.from_numpy(values.copy()).to(tensor.dtype))
    for name, most in (("small", 256), ("flag", 2)):
        drawn = torch.from_numpy(generator.integers(0, most, tuple(simulators[0].tensor(f"Case.Given.{name}").shape)))
        for simulator in simulators:
            simulator.tensor(f"Case.Given.{name}").copy_(drawn)


def agree(seed: int, systems: int, steps: int, folder: Path, cuda: bool = False) -> None:
    environment = written(seed, systems, folder)
    simulators = [torch_batchsim.Simulator(environment(), 8, executor=name) for name in ("batch", "python")]
    if cuda:
        library = emulation.load(Program(environment()), "graph")
        simulators.append(torch_batchsim.Simulator(environment(), 8, _library=library))
    generator = np.random.default_rng(seed)
    for simulator in simulators:
        simulator.reset(seed=0)
    for _ in range(steps):
        fill(simulators, generator)
        for simulator in simulators:
            simulator.step()
        expected = snapshot(simulators[0])
        for other in simulators[1:]:
            assert_same_bits(expected, snapshot(other), f"seed {seed}: ")


pytestmark = pytest.mark.filterwarnings("ignore::torch_batchsim.BuildWarning")


def test_a_few(tmp_path: Path) -> None:
    agree(0, 2, 6, tmp_path)


@pytest.mark.parametrize("seed", of_today(range(1, 9), 3))
def test_many(seed: int, tmp_path: Path) -> None:
    agree(seed, 25, 12, tmp_path, cuda=seed % 4 == 0)
