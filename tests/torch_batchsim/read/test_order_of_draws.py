"""Expressions that draw or create twice in an order that C++ leaves open are rejected, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_batchsim import SchemaError
from torch_batchsim.read.cpp_text import declarations, read_source
from torch_batchsim.read.order_of_draws import check_order

OPEN = """
turn(random.uniform(), random.uniform());
x = random.uniform() - random.normal();
x = random.uniform() == random.uniform();
x = slope[random.below(3)] * slope[random.below(3)];
world.create<Plant>(Stem{0.1f * random.uniform(), 0}, Kin{self, random.below(3)});
x = world.random().uniform() - world.random().uniform();
x = random.uniform() - world.random().uniform();
if (random.uniform() < random.uniform()) x = 1;
x = noise(random) - noise(random, 2);
turn(noise(random), random.uniform());
turn(random.uniform(), noise(random));
turn(c ? random.uniform() : 2, random.normal());
link(world.create<Plant>(Stem{}), world.create<Plant>(Stem{}));
x = Spot{random.uniform(), 1}.x - random.uniform();
for (u32 i = 0; i < 3; ++i) x += turn(random.normal(), random.normal());
if (c == random.below(3) - random.below(2)) x = 1;
x = static_cast<f32>(random.below(3)) - static_cast<f32>(random.below(3));
x = pick<f32, 3>(random) - random.uniform();
random.uniform(random.uniform(), random.uniform());
turn(c && random.chance(0.5f), random.uniform());
x = random.below(3) & random.below(3);
x = random.bits() << 8 | random.bits();
x = noise(world.random()) - noise(world.random());
Random own = world.random(1); x = own.uniform() - own.uniform();
auto &other = world.random(); x = other.uniform() * 2 + other.uniform();
""".strip().splitlines()

DEFINED = """
f32 a = random.uniform(), b = random.uniform();
x = Spot{random.uniform(), random.uniform()};
const f32 both[2] = {random.uniform(), random.normal()};
x = random.uniform(); y = random.uniform();
x = c ? random.uniform() : random.normal();
if (random.chance(0.5f) && random.chance(0.2f)) x = 1;
if (random.chance(0.1f)) { x = random.uniform(); } else x = random.normal();
if (random.chance(0.1f)) x = random.uniform(); else x = random.normal();
for (u32 i = random.below(3); i < random.below(9); ++i) x = random.normal();
while (random.chance(0.5f)) x = random.uniform();
do { x = random.uniform(); } while (random.chance(0.2f));
switch (random.below(3)) { case 0: x = random.uniform(); break; default: x = random.normal(); }
block.scan(n, [&](u32 i) { return random.below(2); }, [&](u32 i, u32 before) { x = random.uniform(); });
slope[random.below(3)] = random.uniform();
slope[random.below(3)] += random.uniform();
x = cut(walls, random.below(3), random);
x = cut(random, random.below(3));
x = turn(noise(random));
Random own = world.random(1), other = world.random(2); x = own.uniform() - other.uniform();
const Entity first = world.create<Plant>(Stem{}), second = world.create<Plant>(Stem{});
random.normal_pair(x, y);
const auto angle = random.uniform(0, tau); turn(cos(angle), sin(angle));
auto spot = pick(random); x = spot.x * spot.x + spot.y * spot.y;
auto &slot = items[random.below(3)]; turn(slot, slot);
auto n = world.parameters.random; x = f(n) * f(n);
if (random.chance(0.1f)) move(random);
if (random.chance(0.1f)) random.normal_pair(x, y);
while (random.chance(0.1f)) random.bits();
for (auto &item : pick(random)) hit(item, random);
if (random.chance(0.1f)) world.create<Plant>(Stem{random.uniform()});
x = random.below(1 + random.below(3));
world.create<Plant>(Kin{world.create<Plant>(Stem{}), 0});
x = board[random.below(8)][random.below(8)];
make(random).turn(random.uniform());
x = random.chance(0.5f) and random.chance(0.5f);
turn([&](u32 i) -> u32 { return random.below(i); }, [&](u32 i) mutable { return random.below(i); });
turn(random.chance(0.5f) && pick<f32, 3>(random));
turn(Spot{random.uniform(), random.uniform()}, 3);
x = worlds[0].random().uniform() + worlds[1].random().uniform();
world.create<Plant>(Stem{random.uniform(), random.uniform()}, Kin{self, 0});
""".strip().splitlines()


def check(statement: str) -> None:
    text = f"TBS_SYSTEM void sow(World &world) {{\n    Random &random = world.random();\n    {statement}\n}}\n"
    source = read_source(Path("systems.h"), text)
    check_order(source, list(declarations(source)))


@pytest.mark.parametrize("statement", OPEN)
def test_an_open_order_is_rejected(statement: str) -> None:
    kind = "rows are created" if statement.startswith("link") else "numbers are drawn"
    with pytest.raises(SchemaError, match=rf"^systems\.h:3: two {kind} in one expression"):
        check(statement)


def test_streams_of_parameters_are_not_one() -> None:
    text = "TBS_FUNCTION f32 turn(Random &one, Random &other) {{\n    return one.uniform() - {}.uniform();\n}}\n"
    for name in ("one", "other"):
        source = read_source(Path("systems.h"), text.format(name))
        if name == "other":
            check_order(source, list(declarations(source)))
            continue
        with pytest.raises(SchemaError, match=r"^systems\.h:2: two numbers"):
            check_order(source, list(declarations(source)))


def test_both_lines_are_named() -> None:
    with pytest.raises(SchemaError, match=r"^systems\.h:3 and line 4: "):
        check("turn(random.uniform(),\n random.uniform());")


@pytest.mark.parametrize("statement", DEFINED)
def test_a_defined_order_is_accepted(statement: str) -> None:
    check(statement)
