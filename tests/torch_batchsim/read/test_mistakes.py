"""Text that compiles and hardly does what it says: each kind of mistake, and what is like it and right."""

from __future__ import annotations

import warnings

import messages
import pytest
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import (
    Archetype,
    BuildWarning,
    Component,
    Constants,
    Entity,
    Parameters,
    Reward,
    SchemaError,
    Struct,
    TaskGraph,
    between,
    f32,
    i32,
    u8,
    vec3,
)
from torch_batchsim.physics import Physics, Pose
from torch_batchsim.rays import Rays
from torch_batchsim.resolve.program import Program


class Leg(Struct):
    angle: f32
    steps: i32


class Ball(Component):
    column: i32
    row: i32
    speed: f32
    at: vec3
    cells: f32[4]
    small: u8[3]
    legs: Leg[4]


class Move(Component):
    direction: i32 = between(0, 2)


class Shot(Component):
    left: i32
    owner: Entity


class Stone(Component):
    x: f32
    n: i32


class Sum(Component):
    all: i32
    part: f32


class Sight(Component):
    metres: f32[8]


FRONT = """constexpr i32 width = 7;
struct Pair { f32 a; i32 b; };
#define BOTH(s) s.x = 3.0f; sum.part += s.x
TBS_FUNCTION f32 same(f32 x) { return x; }
TBS_FUNCTION Stone &first(World &world) { return world.rows<Rock, Stone>()[0]; }
TBS_FUNCTION void add(Sum &sum, f32 x) { sum.part += x; }
TBS_FUNCTION void add_at(Sum &sum, u32 i) { if (i == 0) sum.all += 1; }
TBS_FUNCTION void put(Stone &stone, f32 x) { stone.x = x; }
TBS_FUNCTION void spawn(World &world) { world.create<Bullet>(Shot{}); world.get<Sum>().all += 1; }
"""


def program(line: str, front: str = FRONT) -> Program:
    """Of a system with one line; a function in front of it stands in front of ``##``."""
    function, _, body = line.rpartition(" ## ")
    lanes = ", Warp &warp" if "warp." in body else ", Block &block" if "block." in body else ""
    written = "(World &world, Ball &ball, Sum &sum" if not lanes else f"(World &world, Ball &ball, Sum &sum{lanes}"
    rows = "const Rows<Stone> rows = world.rows<Rock, Stone>(); " if "rows[" in body or "rows.c" in body else ""
    made = declare(
        f"{front}{function}\nTBS_SYSTEM void run{written}) {{\n{rows}{body}\n}}\n",
        archetypes=(
            Archetype("Game", Ball, Move, Reward, count=1),
            Archetype("Bullet", Shot, capacity=4),
            Archetype("Rock", Stone, count=6),
        ),
        singletons=(Sum,),
        parameters=Parameters(gust=0.5, most=3),
        constants=Constants(rows=10),
        step=TaskGraph("run"),
        observation="Game.Move",
        action="Game.Move",
        action_space=Discrete(3),
    )
    return Program(made())


def said(line: str) -> str:
    """The warning about a line, or the error; empty for none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            program(line)
        except SchemaError as error:
            return f"SchemaError: {error}"
    return " | ".join(f"line {w.lineno - FRONT.count(chr(10))}: {w.message}" for w in caught)


def test_types_of_methods_of_the_world() -> None:
    """Wrong ones are reported before a compiler answers with its templates."""
    messages.refused("types of methods of World", program)


KINDS = ("lost copies", "cut quotients", "items that meet", "indices out of range", "endless loops")


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_are_reported(kind: str) -> None:
    messages.compare(kind, {line: said(line) for line in messages.given(kind)})
    assert all(messages.given(kind).values())


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_is_like_a_mistake_is_not_reported(kind: str) -> None:
    assert {line: said(line) for line in RIGHT[kind]} == dict.fromkeys(RIGHT[kind], "")


def test_text_that_is_no_cpp_is_left_to_the_compiler() -> None:
    for line in ("switch (ball.row) { case 3; break; }", "switch (ball.row) { default }", "do { sum.all = 1; }"):
        assert said(line) == ""


RIGHT = {
    "lost copies": [
        "Stone s = rows[0]; put(s, 1.0f); sum.part = s.x;",
        "const auto show = [&](auto stone) { sum.part = stone.x; }; show(rows[0]);",
        "Stone s; s = rows[0]; sum.part = s.x;",
        "world.tables<Stone>([&](auto t, auto s) { for (u32 i = 0; i < t.count; ++i) s[i].x = 1.0f; });",
        "Stone best{}; for (const Stone &s : rows) if (s.x > best.x) best = s; first(world) = best;  // rows.count",
        "for (Stone stone : world.rows<Rock, Stone>()) sum.part += stone.x;",
        "Stone s = first(world); s.x += 1; world.rows<Rock, Stone>()[1] = s;",
        "Stone s{}; s.x = 1; s.n = 2; world.rows<Rock, Stone>()[1] = s;",
        "Stone s = first(world); for (u32 i = 0; i < 3; ++i) { sum.part += s.x; s.x *= 2.0f; }",
        "Stone s = first(world); for (u32 i = 0; i < 3; ++i) { if (s.n > 3) sum.all = 1; s.n += 1; }",
        "i32 n = sum.all; while (n > 0) { n /= 2; sum.part += 1.0f; }",
        "auto all = world.rows<Rock, Stone>(); all[0].x = 1;",
        "Stone *p = world.find<Rock, Stone>(Entity{}); if (p) p->x = 1;",
        "auto &s = first(world); s.x = 1; auto &[x, n] = s; x = 2; n = 3;",
        "Sum before = sum; sum.all += 1; sum.part = f32(before.all);",
        "Sum s = sum; auto show = [&] { return s.all; }; s.all = 3; sum.all = show();",
        "i32 k = sum.all; if (k-- > 0) sum.all = 3;",
        "Stone s = first(world); Stone &r = s; s.x = 1; sum.part = r.x;",
        "Stone s = first(world); BOTH(s);",
        "vec3 at = ball.at; at.x += 1.0f; ball.at = at;",
        "Leg leg = ball.legs[0]; leg.angle += 1.0f; ball.legs[1] = leg;",
        "i32 a = sum.all, b = 3; (a > b ? a : b) += 1; sum.all = a + b;",
        "for (Stone &s : world.rows<Rock, Stone>()) s.x = 1.0f;",
        "TBS_FUNCTION Stone grown(Stone s) { s.x += 1; return s; } ## first(world) = grown(first(world));",
        "TBS_FUNCTION u32 bits(u32 x) { u32 n = 0; while (x) { x /= 2; ++n; } return n; } ## sum.all = i32(bits(3));",
    ],
    "cut quotients": [
        "ball.speed = sqrt(f32(ball.row / 2));",
        "ball.row = max(ball.row / 2, 1);",
        "ball.speed = f32(ball.row / 2);",
        "ball.speed = static_cast<f32>(ball.row / 2);",
        "ball.speed = (f32)(ball.row / 2);",
        "ball.speed = ball.speed / 2;",
        "ball.speed = f32(ball.row) / 2;",
        "ball.row = ball.row / 2;",
        "ball.speed = 8 / 2;",
        "ball.speed = ball.cells[ball.row / 3];",
        "ball.speed = ball.at.x / ball.row;",
        "auto q = ball.row / 2; ball.column = q;",
        "ball.speed = f32((ball.row + 1) / 2 * 2);",
        "if (ball.row / 2 < ball.column) ball.row = 1;",
        "ball.speed = 1 / ball.speed;",
        "ball.speed = floor(ball.speed / 2);",
        "ball.speed = same(f32(ball.row / 2));",
        "ball.at = ball.at / 2;",
        "Pair p{1.0f, ball.row / 2}; ball.speed = p.a;",
    ],
    "items that meet": [
        "warp.for_each(rows.count, [&](u32 i) { rows[i].x = 1.0f; });",
        "warp.for_each(rows.count, [&](u32 i) { Stone &s = rows[i]; s.x += 1.0f; s.n = 2; });",
        "warp.for_each(2, [&](u32 i) { for (u32 k = 3 * i; k < 3 * i + 3; ++k) rows[k].x = f32(i); });",
        "const f32 t = warp.sum(rows.count, [&](u32 i) { return rows[i].x; }); warp.once([&] { sum.part = t; });",
        "warp.for_each(rows.count, [&](u32 i) { if (i == 0) sum.all = 1; rows[i].n = 1; });",
        "warp.for_each(6, [&](u32 i) { f32 t = 0; for (u32 k = 0; k < 6; ++k) t += rows[k].x; rows[i].x = t; });",
        "warp.scan(6, [&](u32 i) { return i; }, [&](u32 i, u32 before) { rows[before % 6].n = i32(i); });",
        "warp.for_each(6, [&](u32 i) { const u32 other = (i + 1) % 6; rows[other].n = 3; });",
        "world.tables<Stone>([&](auto t, auto s) { warp.for_each(t.count, [&](u32 i) { s[i].x += 1.0f; }); });",
        "warp.once([&] { for (Stone &s : world.rows<Rock, Stone>()) s.x = 1; sum.all = 2; });",
        "u32 n = 0; for (u32 k = 0; k < 3; ++k) n += k; warp.once([&] { sum.all = i32(n); });",
        "warp.for_each(6, [&](u32 i) { Stone s = rows[i]; s.n = 3; rows[i] = s; });",
        "warp.for_each(6, [&](u32 i) { u32 place; place = i / 2; rows[place * 2].n = 1; });",
        "warp.for_each(6, [&](u32 i) { put(rows[i], 2.0f); add_at(sum, i); });",
        "warp.for_each(1, [&](u32 i) { sum.all = 1; });",
        "warp.for_each(6, [&](u32 i) { u32 k = 0; while (ball.cells[k] < f32(i)) ++k; rows[k].n = 1; });",
        "warp.for_each(6, [&](u32 i) { auto bump = [&](Stone &s) { s.x += 1.0f; }; bump(rows[i]); });",
        "template <class Group> TBS_FUNCTION void grow(World &world, Group &group) { "
        "const Rows<Stone> rows = world.rows<Rock, Stone>(); "
        "group.for_each(6, [&](u32 i) { auto bump = [&](Stone &s) { s.x += 1.0f; }; bump(rows[i]); }); "
        "} ## grow(world, warp);",
    ],
    "indices out of range": [
        "ball.cells[3] = 1.0f; ball.legs[3].steps = 1;",
        "for (i32 i = 3; i >= 0; --i) ball.cells[i] = 1.0f;",
        "if (ball.row < 0) ball.cells[ball.row] = 1;",
        "rows[5].x = 1.0f;",
        "for (u32 i = 0; i < 4; ++i) ball.cells[i] = 1.0f;",
        "for (u32 i = 0; i < 8; ++i) { if (i < 4) ball.cells[i] = 1.0f; }",
        "for (u32 i = 0; i < 8; ++i) { if (i >= 4) break; ball.cells[i] = 1.0f; }",
        "for (u32 i = 0; i < 8; ++i) { if (ball.row > 3) break; ball.cells[i] = 1.0f; }",
        "for (u32 i = 0; i < 8; ++i) { ball.cells[i] = 1.0f; i += 3; }",
        "for (u32 i = 0; i < 8; ++i) ball.cells[i / 2] = 1.0f;",
        "for (u32 i = 0; i < 8; ++i) ball.cells[i % 4] = 1.0f;",
        "for (u32 i = 0; i < 8; ++i) ball.row += i < 4 ? i32(ball.cells[i]) : 0;",
        "for (u32 i = 0; i < 8; ++i) ball.row += i < 4 && ball.cells[i] > 0.0f;",
        "for (u32 i = 1; i < 5; ++i) ball.cells[i - 1] = 1.0f;",
        "warp.for_each(4, [&](u32 i) { ball.cells[i] = 1.0f; });",
        "warp.for_each(8, [&](u32 i) { if (i >= 4) return; ball.cells[i] = 1.0f; });",
        "world.random().shuffle(ball.cells, 4);",
        "for (u32 i = 0; i < 8; ++i) { const bool inside = i < 4; if (inside) ball.cells[i] = 1.0f; }",
        "for (u32 i = 0; i < 4; ++i) { const u32 next = i + 1; if (next < 4) ball.cells[i] = ball.cells[i + 1]; }",
        "for (u32 i = 0; i < 8; ++i) ball.cells[i - i / 4 * 4] = 1.0f;",
        "if (Constants::rows > 20) ball.cells[7] = 1.0f;",
        "if constexpr (Constants::rows > 20) { if (ball.row > 0) ball.cells[7] = 1.0f; }",
        "if (Constants::rows > 20 && ball.row > 0) ball.cells[7] = 1.0f;",
        "if (Constants::rows < 20) return; ball.cells[7] = 1.0f;",
        "if (Constants::rows > 20) warp.once([&] { ball.cells[7] = 1.0f; });",
    ],
    "endless loops": [
        "while (sum.all < 5) sum.all += 1;",
        "while (true) { sum.all += 1; if (sum.all > 5) break; }",
        "for (;;) { sum.all += 1; if (sum.all > 5) return; }",
        "i32 k = 0; while (k < 5) k += 1;",
        "Random &random = world.random(); while (random.chance(0.5f)) sum.all += 1;",
        "Random &random = world.random(); f32 x; do { x = random.uniform(); } while (x > 0.5f); sum.part = x;",
        "for (u32 i = world.count<Bullet>(); i < 5; ++i) world.create<Bullet>(Shot{});",
        "u32 a = 3, b = 5; while (a != b) { if (a < b) ++a; else ++b; }",
        "auto grow = [&] { sum.all += 1; }; while (sum.all < 5) grow();",
        "while (sum.all < 5) { Sum &s = sum; s.all += 1; }",
        "while (sum.all < 5) add(sum, 1.0f);",
        "while (sum.all < 5) spawn(world);",
        "while (sum.all < 5) ++world.get<Sum>().all;",
        "i32 left = 3, right = 2; while (left + right > 0) { (left > 0 ? left : right) -= 1; }",
        "bool done = false; while (!done) { sum.all += 1; done = sum.all > 3; }",
        "i32 &left = sum.all; while (sum.all > 0) left -= 1;",
        "i32 *left = &sum.all; while (sum.all > 0) *left -= 1;",
        "auto &[all, part] = sum; while (sum.all < 5) all += 1;",
        "i32 &left = rows[0].n; Stone &s = rows[0]; while (s.n > 0) --left;",
        "i32 k = 0; i32 &same = k; while (k < 5) ++same;",
    ],
}  # fmt: skip


def lidar(beams: str, extra: str = "") -> Program:
    text = f"""
TBS_SYSTEM void look(World &world, const physics::Pose &pose, Sight &sight, const rays::Scene &scene, Warp &warp) {{
    const rays::Fan fan{{.origin = pose.position, .rotation = pose.rotation, .reach = 10.0f}};
    const auto take = [&](u32 i, const rays::Hit &hit) {{ {extra}sight.metres[i] = hit.distance; }};
    rays::lidar(scene, warp, {beams}, fan, take);
}}
"""
    made = declare(
        text,
        libraries=(Physics, Rays),
        archetypes=(Archetype("Robot", Move, Sight, Pose, Reward, count=1),),
        constants=Constants(beams=16),
        step=TaskGraph(Rays.gather, "look"),
        observation="Robot.Sight",
        action="Robot.Move",
    )
    return Program(made())


@pytest.mark.full
def test_a_lidar_fills_no_field_that_is_too_short() -> None:
    for beams, last in (("16", 15), ("9", 8), ("u32(Constants::beams)", 15), ("2 * 8", 15)):
        says = rf"systems\.h:4: `sight.metres` has 8 elements, and `i` runs from 0 to {last}: `sight.metres\[i\]` lies"
        with pytest.raises(SchemaError, match=says):
            lidar(beams)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BuildWarning)
        lidar("8")
        lidar("16", "if (i < 8) ")
