"""Checks(casts=True): numbers that are assigned to what cannot hold them. And what checks put into texts."""

import warnings
from pathlib import Path

import pytest
import torch
from common.support import declare
from gymnasium.spaces import Discrete

from torch_batchsim import (
    Archetype,
    BuildWarning,
    Checks,
    Component,
    Parameters,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    WorldFault,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    vec2,
)
from torch_batchsim.build.device_checks import with_looks
from torch_batchsim.build.inlining import Put
from torch_batchsim.build.instrumented import with_stores
from torch_batchsim.read.cpp_text import read_source
from torch_batchsim.testing import assert_same_bits, snapshot

WORLD, STEP = 3, 2


class Cell(Component):
    small: u8
    marks: u8[4]
    tiny: i8
    half: i16
    word: u16
    count: u32
    cell: i32
    wide: i64
    real: f32
    fine: f64
    at: vec2


class Push(Component):
    force: i32


class See(Component):
    cell: f32


# Each is a line of the system `move`, and what is told of it: of `k`, 300 where the mistake is made, else 3.
LOSSES = {
    "cell.small = k;": "300 does not fit into u8: `cell.small = k;`",
    "cell.marks[k & 3] = u16(k);": "300 does not fit into u8: `cell.marks[k & 3] = u16(k);`",
    "cell.small += k;": "300 does not fit into u8: `cell.small += k;`",
    "cell.small -= k - 3 + cell.small; cell.small -= k - 2 > 1;": "does not fit into u8",
    "cell.tiny = k / 2;": "150 does not fit into i8: `cell.tiny = k / 2;`",
    "cell.half = k * k;": "90000 does not fit into i16: `cell.half = k * k;`",
    "cell.count = 3 - k;": "-297 does not fit into u32: `cell.count = 3 - k;`",
    "const u32 none = -(k > 3); cell.count = none;": "-1 does not fit into u32: `const u32 none = -(k > 3);`",
    "u8 a = k, b = 1; cell.small = a + b;": "300 does not fit into u8: `u8 a = k, b = 1;`",
    "u16 a = 1, b = k * k; cell.small = u8(a + b);": "90000 does not fit into u16: `u16 a = 1, b = k * k;`",
    "cell.cell = cell.wide + i64(k - 3) * 100000000;": "29700000000 does not fit into i32",
    "cell.cell = f32(k) * 0.25f - 0.75f;": "74.25 does not fit into i32: `cell.cell = f32(k) * 0.25f - 0.75f;`",
    "cell.cell = f64(k - 3) * 1e9;": "2.97e+11 does not fit into i32",
    "cell.real = 16777216 + (k - 3) / 297;": "16777217 does not fit into f32",
    "cell.real = k > 3 ? 1e300 : 1.0;": "1e+300 does not fit into f32",
    "for (u8 i = k > 3 ? 250 : 1; i > 3; i++) cell.small = i;": "256 does not fit into u8",
    "cell.small = 0; if (k == 300) --cell.small;": "-1 does not fit into u8: `if (k == 300) --cell.small;`",
    "u8 *p = &cell.small; *p = k;": "300 does not fit into u8: `*p = k;`",
    "cell.marks[0] = cell.marks[1] = k;": "300 does not fit into u8",
    "cell.small = 200; cell.small <<= k > 3;": "400 does not fit into u8: `cell.small <<= k > 3;`",
    "cell.small = 7; cell.small /= k - 300;": "division by zero in i32: `cell.small /= k - 300;`",
    "cell.cell = 2147483600; cell.cell += k;": "2147483600 + 300 does not fit into i32",
    "[&](auto &to) { to = k; }(cell.small);": "300 does not fit into u8",
}

# What is right, or the author's word, or no number.
RIGHT = """\
        cell.small = u8(k * 100);
        cell.at = vec2{1.0f, 2.0f} * 2.0f; cell.at.x += 1; cell.at *= 2.0f;
        cell.fine = cell.real = 0.1; cell.real *= 3;
        constexpr u8 n = 200 + 55; u8 own[n - 250] = {1}; own[1] = n;
        const u8 fixed = 3; u8 more[fixed] = {}; auto other = k; other = -k;
        bool found = k; found = 3; found |= true;
        const i32 *p = &cell.cell, q = *p; i32 *r = nullptr; r = &cell.cell; ++*r; (*r)++; r += 0;
        struct Local { u8 a = 1; i32 b = 2; } local{3}; local.a = 7; local = Local{};
        enum Kind : u8 { A = 1, B = 2 }; Kind kind = B; kind = A; cell.small = kind;
        u32 hash = 1; hash *= 1664525u; hash += 1013904223u; hash <<= 3; hash ^= hash >> 5; cell.count = hash;
        u8 (&marks)[4] = cell.marks; marks[3] = 255; for (u8 &mark : cell.marks) mark = 4;
        for (u32 i = 0, j = 3; i < j; ++i, --j) cell.count += i;
        const auto add = [&, sum = 1](i32 x = 2) { return sum + x; }; cell.wide = add() - 3;
        u8 a{1}, b = 2; (a) = b; k > 3 ? a = 3 : b = 4; if (a = 1; b == 4) b = a; cell.small = max<u8>(a, b);
        do ++cell.cell; while (cell.cell < 0);
        if (k) ++cell.wide; else --cell.wide;
        world.rows<Walker, Cell>()[0].half = -3; ++world.rows<Walker, Cell>()[0].half;
"""

_CASES = "\n".join(f"        case {number}: {{ {line} break; }}" for number, line in enumerate(LOSSES))
TEXT = f"""\
template <int n = 3, class T = u8>
TBS_FUNCTION i32 times(i32 x, u8 by = 2) {{ return x * n * by; }}

TBS_FUNCTION u8 narrow(i32 x) {{ return x; }}

TBS_SYSTEM void move(World &world, Cell &cell, const Push &push, Reward &reward) {{
    const i32 k = world.id == {WORLD} && world.step() == {STEP} ? 300 : 3;
    cell.small = 0;
    switch (world.parameters.mistake) {{
{_CASES}
        case 100: {{
{RIGHT}        }}
        default: break;
    }}
    reward.value = times(push.force);
}}

TBS_SYSTEM void look(World &world, const Cell &cell, See &see) {{
    see.cell = f32(cell.cell) + f32(narrow(4));
}}
"""


def made(mistake: int, checks: object = Checks(casts=True, leftovers=None)) -> TorchVectorEnv:
    cls = declare(
        TEXT,
        archetypes=[Archetype("Walker", Cell, Push, See, Reward, count=1)],
        parameters=Parameters(mistake=-1),
        step=TaskGraph("move"),
        observe=TaskGraph("look"),
        observation="Walker.See",
        action="Walker.Push.force",
        action_space=Discrete(3),
    )
    env = TorchVectorEnv(cls(mistake=mistake), num_worlds=6, num_threads=1, checks=checks)
    env.reset(seed=0)
    return env


def steps(env: TorchVectorEnv, count: int) -> None:
    for _ in range(count):
        env.step(torch.ones(6, dtype=torch.long))


def test_a_number_that_does_not_fit_is_told_with_its_place():
    for number, (line, told) in enumerate(LOSSES.items()):
        env = made(number)
        with pytest.raises(WorldFault) as caught:
            steps(env, 4)
        (fault,) = caught.value.faults
        place = next(i for i, text in enumerate(TEXT.split("\n"), 1) if f"case {number}:" in text)
        assert (fault.world, fault.finding.step, fault.finding.line) == (WORLD, STEP, place), line
        assert told in fault.finding.text, (told, fault.finding.text)
        kinds = {"division by zero": "division", "2147483600 + 300": "sum"}
        assert fault.finding.kind == next((kind for text, kind in kinds.items() if text in told), "cast")


def test_what_fits_is_not_told_and_gives_the_bits_of_an_ordinary_build():
    env, plain = made(100), made(100, checks=False)
    steps(env, 4)
    steps(plain, 4)
    assert_same_bits(snapshot(env.sim), snapshot(plain.sim))
    steps(made(0, checks=True), 4)  # which does not look at casts


def instrumented(text: str, with_them: Put) -> str:
    text = f"{{{text}}}"
    put = with_them(read_source(Path("a.h"), text))
    for place, own in reversed(put):
        text = text[:place] + own + text[place:]
    return text[1:-1]


def test_stores_of_all_kinds_are_found_in_a_text():
    for text, expected in {
        "x = 3;": "TBS_TO x = 3;",
        "a.b[c[1]]->d += 3;": "TBS_TO a.b[c[1]]->d += 3;",
        "f(x).y = z = 1;": "TBS_TO f(x).y = TBS_TO z = 1;",
        "x <<= 1; y >>= 2;": "TBS_TO x <<= 1; TBS_TO y >>= 2;",
        "if (a <= b && c == d && e != f && g >= h) return;": None,
        "const u8 x = a, y = b;": "const u8 x = TBS_INTO(u8)  a, y = TBS_INTO(u8)  b;",
        "for (u8 i = a; i < 3; ++i) c[i] = 1;":
            "for (u8 i = TBS_INTO(u8)  a; i < 3; ++(TBS_TO i)) TBS_TO c[i] = 1;",
        "world.get<Score>().hits++;": "(TBS_TO world.get<Score>().hits)++;",
        "--world.get<Score>().hits;": "--(TBS_TO world.get<Score>().hits);",
        "++i < n; if (a) ++b; if (a) --*b;": "++(TBS_TO i) < n; if (a) ++(TBS_TO b); if (a) --*b;",
        "if (a) *p = 1; **p = *q;": "if (a) TBS_TO *p = 1; TBS_TO **p = *q;",
        "Cell *p = q; auto x = 1; Cell &r = s; unsigned long y = n; f32 (&own)[5] = rows[0]; u8 m[2] = {n, n};": None,
        "enum Kind : u8 { A = 1, B = n }; using X = Y; struct Z { Z &operator=(const Z &) = default; };": None,
        "const auto f = [=, x = y] { return x; };": None,
        "a++ + ++b;": "(TBS_TO a)++ + ++(TBS_TO b);",
    }.items():  # fmt: skip
        assert instrumented(text, with_stores) == (expected or text)


def test_what_a_device_looks_at_is_found_in_a_text():
    for text, expected in {
        "u64 free[cells], reached[cells]; Cell *q[n], *r[n]; const f32 x[n] = {}, y[n] = {}; grid::Rows<2> s[n];": None,
        "void f(const f32 (&a)[n], Cell *b[n], u8 c[n]); struct S { u8 a[n], b[n]; }; auto [a, b] = c;": None,
        "const auto f = [n](i32 x) -> i32 { return x; }; u8 x [[maybe_unused]] = a[3]; delete[] a; a / 2 % 3;": None,
        "x = a[i], y = b[j];": "x = (TBS_LOOK(9) a)[i], y = (TBS_LOOK(19) b)[j];",
        "f(a * b[i], c & d[i], e > g[i], h(k)[i]);":
            "f(a * (TBS_LOOK(11) b)[i], c & (TBS_LOOK(21) d)[i], e > (TBS_LOOK(31) g)[i], (TBS_LOOK(40) h(k))[i]);",
        "return {a * b[i], b[i]};": "return {a * (TBS_LOOK(17) b)[i], (TBS_LOOK(23) b)[i]};",
        "for (; i * b[j] < n;) if (a < b[i] && c > d[i]) x = a * b[i];":
            "for (; i * (TBS_LOOK(16) b)[j] < n;) if (a < (TBS_LOOK(35) b)[i] && c > (TBS_LOOK(47) d)[i]) "
            "x = a * (TBS_LOOK(61) b)[i];",
        "a.b[c[i]][j] = 1;": "(TBS_LOOK(13) (TBS_LOOK(10) a.b)[(TBS_LOOK(9) c)[i]])[j] = 1;",
        "if (p) p->x = world.find<A, B>(e)->y;":
            "if (p) (TBS_LOOK_BEHIND(10) p)->x = (TBS_LOOK_BEHIND(35) world.find<A, B>(e))->y;",
        "x = a / b * c % (d + e); x /= y + 1;":
            "x = a / TBS_BY(8) b * c % TBS_BY(16) (d + e); x /= TBS_BY_ALL(29) y + 1;",
    }.items():  # fmt: skip
        assert instrumented(text, with_looks) == (expected or text)


@pytest.mark.full
def test_the_compiler_warns_of_conversions_at_which_nothing_looks(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BuildWarning)
        made(-1)
    told = {warning.lineno for warning in caught if "-Wconversion" in str(warning.message)}
    assert told == {4}  # where `narrow` returns; at the stores of `move` the checks look
