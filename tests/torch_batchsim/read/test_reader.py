"""The reader of systems refuses what it does not read, and what would not run on every device."""

from __future__ import annotations

import re
from pathlib import Path

import messages
import pytest

from torch_batchsim import SchemaError
from torch_batchsim.read.systems import Reach, System, Unit, read_systems

RUN = "TBS_SYSTEM void run(World &world) {}\n"


def read(folder: Path, text: str, **others: str) -> dict[str, System]:
    (folder / "systems.h").write_text(text)
    for name, other in others.items():
        (folder / f"{name}.h").write_text(other)
    return read_systems(Unit(folder / "systems.h"))


def test_refused_text(tmp_path: Path) -> None:
    messages.refused("reader of systems", lambda line: read(tmp_path, eval(line)))


def test_files_that_include_each_other(tmp_path: Path) -> None:
    says = re.escape("b.h:1: a file includes itself: a.h includes b.h includes a.h")
    with pytest.raises(SchemaError, match=f"^{says}$"):
        read(tmp_path, '#include "a.h"\n', a='#pragma once\n#include "b.h"\n', b='#include "a.h"\n')


def test_a_header_without_a_guard_twice(tmp_path: Path) -> None:
    guarded = "#ifndef B\n#define B\n#endif\n"
    files = {"a": '#pragma once\n#include "b.h"\n', "b": guarded}
    assert set(read(tmp_path, '#include "a.h"\n#include "b.h"\n' + RUN, **files)) == {"run"}
    with pytest.raises(
        SchemaError, match=r'^systems\.h:2: "b.h" is included a second time; begin it with #pragma once'
    ):
        read(tmp_path, '#include "a.h"\n#include "b.h"\n' + RUN, **files | {"b": "constexpr i32 x = 1;\n"})


SOUND = """
#pragma once
/* TBS_SYSTEM void no(World &world) { new int; } */
#define TWICE(x) ((x) + (x))
#define LOOP for (u32 i = 0; \\
                  i < 3; ++i)
using Many = Rows<const Spot>;
enum Kind : u8 { ONE, TWO = 1 << 2, };
enum class Way { up, down };
constexpr i32 COUNT = Constants::count, MORE{3};
static_assert(COUNT >= 0, "so it is");
struct Later;
template <class T, i32 n = 3>
struct Pair {
    static constexpr i32 size = n;
    T first[n], second{};
    TBS_METHOD Pair(T value) : first{value}, second(value) {}
    Pair(const Pair &) = delete;
    TBS_METHOD bool operator==(const Pair &other) const { return second == other.second; }
    TBS_METHOD T operator()(u32 i) const { return first[i]; }
  private:
    u32 bits : 3;
};
namespace detail {
TBS_FUNCTION constexpr u32 half(u32 x) { return x / 2; }
consteval i32 square(i32 x) { return x * x; }
template <class... T> requires (sizeof...(T) > 0)
TBS_FUNCTION auto sum(T... values) -> decltype((values + ...)) { return (values + ...); }
}
#if defined(__CUDA_ARCH__)
TBS_FUNCTION f32 quick(f32 x) { return x; }
#else
TBS_FUNCTION f32 quick(f32 x) { return x * 1'000.0f; }
#endif
TBS_FUNCTION void fill(f32 (&out)[3], f32 (*)(f32), const char *text = "} // \\" new {") { out[0] = '}' + '\\''; }
TBS_SYSTEM void one(World &world, const Spot &spot) {
    static_assert(sizeof(Spot) == 4);
    static constexpr i32 steps[2] = {1, -1};
    constexpr f32 slant = 0.7f;
    const auto near = [&](u32 i) -> bool { return i * spot.x < (slant) * steps[i & 1]; };
    const std::pair<::i32, i32> both{};
    const char *text = R"(a "raw" } string)";
    const i32 free = 3, rows = 2, count = 1;
    if (rows < count && free > (rows)) return;
    for (const Spot &other : world.rows<Stone, Spot const>()) if (near(u32(other.x))) break;
}
TBS_SYSTEM
void two(World &world) {}
"""


def test_what_is_sound_is_read(tmp_path: Path) -> None:
    systems = read(tmp_path, SOUND)
    assert set(systems) == {"one", "two"}
    assert systems["one"].reaches == (Reach("rows", "Stone", "Spot"),)


@pytest.mark.parametrize(
    ("text", "reaches"),
    [
        ("World *w = &world; w->destroy(x); w->random(); w->random(3);", ["destroy()", "random()", "random_item()"]),
        ("world.template rows<grid::Cell, const grid :: Entry>();", ["rows<grid::Cell, const grid::Entry>"]),
        ("PEEK;", ["get<const Clock>"]),
        ("Reader reader{world}; reader.go();", ["find<Stone, const Spot>", "create<Stone>"]),
        ("std::count<i32>(3); rows<Stone, Spot>(); stones.count < 3; warp.count(3);", []),
    ],
)
def test_reaches(text: str, reaches: list[str], tmp_path: Path) -> None:
    helpers = """
    #define PEEK world.get<const Clock>()
    struct Reader {
        World &world;
        TBS_METHOD Reader(World &w) : world(w) { w.create<Stone>(Spot{1}); }
        TBS_METHOD void go() { world.find<Stone, const Spot>(Entity{}); }
    };
    """
    system = read(tmp_path, f"{helpers}\nTBS_SYSTEM void run(World &world) {{ {text} }}")["run"]
    assert [str(reach) for reach in system.reaches] == reaches


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("length(world);", True),
        ("{ f32 length = 1; } const f32 length = systems::length(world);", True),
        ("if (length<3>(world) > 1) return;", True),
        ("apply(world, length); ", True),
        ("apply(world, &length);", True),
        ("f32 length = 2; if (length < 3 && length (2)) apply(world, length);", False),
        ("const auto &length = spot.length; apply(length);", False),
        ("f32 width = 1, length; apply(length, width);", False),
        ("apply(spot.length, spot.length(3)); spot.length = 1;", False),
        ("scale(1);", False),
    ],
)
def test_what_is_a_call(text: str, reached: bool, tmp_path: Path) -> None:
    helpers = """
    TBS_FUNCTION f32 length(World &world) { return world.find<Stone, const Spot>(Entity{})->x; }
    TBS_FUNCTION f32 scale(f32 length) { return apply(length); }
    """
    system = read(tmp_path, f"{helpers}\nTBS_SYSTEM void run(World &world) {{ {text} }}")["run"]
    assert [str(reach) for reach in system.reaches] == ["find<Stone, const Spot>"] * reached


def test_declared_reaches(tmp_path: Path) -> None:
    text = """
    template <class A> TBS_FUNCTION f32 first(World &world) { return world.rows<A, const Spot>()[0].x; }
    TBS_SYSTEM TBS_REACHES(rows<Stone, const Spot>, get<Clock>, create<Stone>, random)
    void run(World &world) { first<Stone>(world); }
    """
    system = read(tmp_path, text)["run"]
    assert system.place == "systems.h:3"
    assert [str(r) for r in system.declared] == ["rows<Stone, const Spot>", "get<Clock>", "create<Stone>", "random()"]
    unclear, *declared = system.reaches
    assert unclear == Reach("rows", "A", "Spot", unclear=True) and tuple(declared) == system.declared


def test_units_have_namespaces(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "grid.h").write_text('#include "cells.h"\n' + RUN.replace("{}", "{ look(world); }"))
    (tmp_path / "cells.h").write_text("TBS_FUNCTION u32 look(World &world) { return world.count<Cell>(); }\n")
    (tmp_path / "systems.h").write_text(RUN.replace("{}", "{ grid::look(world); world.count<Stone>(); }"))
    grid = Unit(tmp_path / "lib" / "grid.h", "grid", (tmp_path,))
    systems = read_systems(grid, Unit(tmp_path / "systems.h"))
    assert set(systems) == {"grid::run", "run"} and systems["grid::run"].namespace == "grid"
    assert systems["grid::run"].reaches == (Reach("count", "Cell", namespace="grid"),)
    assert systems["run"].reaches == (Reach("count", "Stone"), Reach("count", "Cell", namespace="grid"))


def test_a_library_does_not_call_the_authors_functions(tmp_path: Path) -> None:
    ring, own = tmp_path / "ring.h", tmp_path / "own.h"
    ring.write_text(
        "TBS_FUNCTION void put(i32 &x) { x = 1; }\n"
        "TBS_SYSTEM void turn(World &world, Wheel &wheel) { put(wheel.x); miss(wheel.x); }"
    )
    own.write_text(
        "TBS_FUNCTION void put(World &world) { world.create<Item>(); }\n"
        "TBS_FUNCTION void miss(World &world) { world.create<Item>(); }\n"
        "TBS_SYSTEM void act(World &world, Spot &spot) { put(world); }"
    )
    systems = read_systems(Unit(ring, "ring"), Unit(own))
    assert systems["ring::turn"].reaches == () and [reach.kind for reach in systems["act"].reaches] == ["create"]
