"""Messages of a build for authors: errors with their remedies, warnings in one line each; see tests/messages.txt."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import messages
import pytest
from gymnasium.spaces import Discrete
from support import COMPILED, declare, of_today
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.cartpole.env import CartState

from torch_batchsim import (
    Archetype,
    BuildError,
    BuildWarning,
    Component,
    Constants,
    Entity,
    Environment,
    Parameters,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    boolean,
    f32,
    i32,
    new,
    vec3,
)
from torch_batchsim.build import jit
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.build.compile_errors import error_lines, explain, warn
from torch_batchsim.resolve.program import Program


class Ball(Component):
    column: i32
    row: i32
    speed: f32
    at: vec3
    cells: f32[4]


class Paddle(Component):
    column: i32


class Shot(Component):
    left: i32
    owner: Entity


class Seen(Component):
    speed: f32


class Legal(Component):
    moves: boolean[3]


class Count(Component):
    steps: i32


class Sum(Component):
    all: i32


PARAMETERS = "(World &world, Ball &ball, const Paddle &paddle)"
HELPERS = """TBS_FUNCTION void shift(Paddle &paddle) { paddle.column += 1; }
TBS_FUNCTION f32 size(vec3 a) { return length(a); }
TBS_FUNCTION f32 add(f32 a, f32 b) { a + b; }
"""


def environment(folder: Path, text: str, *systems: str) -> Environment:
    return declare(
        text,
        folder,
        archetypes=(Archetype("Game", Ball, Paddle, Reward, count=1), Archetype("Bullet", Shot, capacity=4)),
        parameters=Parameters(gust=0.5),
        constants=Constants(rows=10),
        faults=("lost",),
        step=TaskGraph(*systems),
        observation="Game.Paddle",
        action="Game.Paddle.column",
        action_space=Discrete(3),
    )()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jit, "CPU_FLAGS", [flag.replace("-O3", "-O0") for flag in jit.CPU_FLAGS])
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def mistaken(folder: Path) -> tuple[Environment, dict[int, str]]:
    """An environment with all mistakes, a system each, and the mistake in a line."""
    text, lines = HELPERS, {3: "f32 add(f32 a, f32 b) { a + b; }"}
    for line in messages.given("compile errors"):
        if line not in lines.values():
            text += f"TBS_SYSTEM void system{len(lines)}{PARAMETERS} {{\n    {line}\n}}\n"
            lines[text.count("\n") - 1] = line
    text += "TBS_FUNCTION i32 later(i32 x) { return x; }\n"
    return environment(folder, text, *(f"system{number}" for number in range(1, len(lines)))), lines


@pytest.mark.skipif("g++" not in jit.cpp_compiler(), reason="the words are g++'s")
def test_compile_errors_have_remedies(folder: Path) -> None:
    wrong, lines = mistaken(folder)
    with pytest.raises(BuildError) as raised:
        Simulator(wrong, 1)
    log = raised.value.log
    assert log is not None and "-std=c++20" in log.read_text()
    found = {}
    for error in error_lines(Program(wrong), log.read_text()):
        number, text = re.fullmatch(r"systems\.h:(\d+): (.*)", error).groups()  # type: ignore[union-attr]
        remedy, given, _ = text.partition(" (the compiler: ")
        found[int(number)] = re.sub(r"`system\d+`|line \d+", "...", remedy) if given else "(the compiler)"
    assert found.keys() == lines.keys()
    messages.compare("compile errors", {line: found[number] for number, line in lines.items()})
    first, second, excerpt, *_, more, all_of_it = str(raised.value).splitlines()
    assert first.startswith("systems.h:3: ")
    assert second == f"(while compiling the systems of Declared, {folder / 'systems.h'})"
    assert excerpt == "    3 | TBS_FUNCTION f32 add(f32 a, f32 b) { a + b; }"
    assert [more, all_of_it] == [f"({len(found) - 10} more errors)", f"(all of it: {log})"]
    assert "csrc" not in str(raised.value)  # neither the command nor lines of the engine


@pytest.mark.full
@pytest.mark.skipif("g++" not in jit.cpp_compiler(), reason="the words are g++'s")
def test_the_message_of_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "authoring.md").read_text()
    files = dict(re.findall(r"^```\w+ title=(catch\.\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    files["catch.py"] = new.in_cpp(files["catch.py"], "catch.h")
    text = files["catch.h"].replace("view.ball_row = ", "view.bal_row = ")
    files["catch.h"] = text.replace("    reward.value = ", "    paddle.column = 0;\n    reward.value = ")
    for name, content in files.items():
        (folder / name).write_text(content)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "catch", raising=False)
    catch = importlib.import_module("catch")
    with pytest.raises(BuildError) as raised:
        Simulator(catch.Catch(), 1)
    monkeypatch.delitem(sys.modules, "catch")
    shown = re.sub(r"(/[^/\n:]+)+/(?=catch\.h|Catch_cpu)", ".../", str(raised.value))
    key = re.compile(r"_[0-9a-f]{20}\.log")
    assert " ".join(key.sub("", shown).split()) in " ".join(key.sub("", page).split())


# ---- nvcc ------------------------------------------------------------------------------------------------------------

OF_NVCC = (
    "paddle.column = 3;",
    "ball.colum = 3;",
    "world.fail(lost);",
    "ball.speed = sinf(ball.speed);",
    "world.create<Bullet>(Paddle{});",
)


@pytest.mark.full
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_errors_of_nvcc_have_remedies(folder: Path) -> None:
    """(A build runs g++ first, which reports most.)"""
    for line in OF_NVCC:
        text = f"TBS_SYSTEM void system{PARAMETERS} {{\n    {line}\n}}\n"
        program = Program(environment(folder, text, "system"))
        unit = folder / "unit.cu"
        unit.write_text(generate(program, Target("cuda")))
        command = ["nvcc", "-std=c++20", "-I", str(jit.CSRC), "-ptx", str(unit), "-o", str(folder / "unit.ptx")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = error_lines(program, done.stderr)[0].replace("`system`", "...")
        assert messages.given("compile errors")[line].partition(": ")[0] in found, (line, found, done.stderr[:800])


# ---- warnings --------------------------------------------------------------------------------------------------------


def test_warnings_come_again_with_a_build_from_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["paddle is not used", *list(messages.given("compiler warnings"))[1:]]
    body = "".join(f"    {line}\n" for line in lines[1:])
    text = f"TBS_SYSTEM void run(World &world, Ball &ball, const Paddle &paddle) {{\n{body}}}\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Simulator(environment(folder, text, "run"), 1)
    caught = [each for each in caught if each.category is BuildWarning]
    found = {each.lineno: str(each.message) for each in caught}
    messages.compare("compiler warnings", {line: found.get(number, "") for number, line in enumerate(lines, 1)})
    assert len(caught) == len(lines) and {each.filename for each in caught} == {str(folder / "systems.h")}
    monkeypatch.setattr(jit, "_build", None)  # from the cache
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        Simulator(environment(folder, text, "run"), 1)
    again = [each for each in again if each.category is BuildWarning]
    assert [(w.lineno, str(w.message)) for w in again] == [(w.lineno, str(w.message)) for w in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("error", BuildWarning)
        with pytest.raises(BuildWarning, match=r"^systems\.h:2: `=` assigns"):
            Simulator(environment(folder, text, "run"), 1)
    assert not list((folder / "cache").glob("*.log"))


def test_warnings_from_the_cache_come_once_in_a_process(folder: Path) -> None:
    """As those of any other file: Python's filter "default" reports each line once."""
    text = "TBS_SYSTEM void run(World &world, Ball &ball) {\n    i32 unused = 3;\n    ball.row = 1;\n}\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            Simulator(environment(folder, text, "run"), 1)
    assert [each.lineno for each in caught if each.category is BuildWarning] == [2]
    clean = text.replace("    i32 unused = 3;\n", "")
    Simulator(environment(folder, clean, "run"), 1)
    assert len(list((folder / "cache").glob("*.warnings"))) == 1  # only beside libraries with warnings


def warned(made: Environment) -> dict[str, str]:
    """The warnings of a declaration, by their lines in the text, or in order where they name none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Program(made)
    found = [(Path(each.filename).name, each) for each in caught if each.category is BuildWarning]
    return {f"{n} {f}:{w.lineno}" if f == "systems.h" else f"{n}": str(w.message) for n, (f, w) in enumerate(found)}


OVERSIGHTS = """
TBS_SYSTEM void run(World &world, Ball &ball, const Count &count) { ball.row = count.steps; }
TBS_SYSTEM void look(World &world, Ball &ball, Count &count, Sum &sum) { ball.row += 1; count.steps += 1; sum.all = 1; }
TBS_SYSTEM void finish(World &world, Episode &episode) { episode.truncated = true; }
"""


def overlooked(folder: Path, *observe: str, **roles: Any) -> Environment:
    return declare(
        OVERSIGHTS,
        folder,
        archetypes=(Archetype("Game", Ball, Paddle, Seen, Legal, Reward, count=1),),
        singletons=(Count, Sum),
        step=TaskGraph("run"),
        observe=TaskGraph(*observe),
        action="Game.Paddle",
        action_space=Discrete(3),
        **({"observation": "Game.Paddle"} | roles),
    )()


def test_warnings_of_declarations(folder: Path) -> None:
    """Of outputs that no system writes, and of state that changes in ``observe``: what the next step reads or writes.

    ``Sum``, which nothing else uses, is none.
    """
    roles = {"observation": "Game.Seen", "action_mask": "Game.Legal", "critic": {"all": "Game.Seen"}}
    roles["info"] = {"move": "Game.Paddle", "reward": "Game.Reward"}
    messages.compare("warnings of outputs", warned(overlooked(folder, **roles)))
    messages.compare("warnings of state", warned(overlooked(folder, "look")))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* never runs", BuildWarning)
        warnings.simplefilter("error", BuildWarning, append=True)
        with pytest.raises(BuildWarning, match=r"^systems\.h:3: system 'look' of 'observe' writes Count"):
            Program(overlooked(folder, "look"))
    with pytest.raises(SchemaError, match=r"systems\.h:4: system 'finish' ends the episode"):
        Program(overlooked(folder, "finish"))


def test_errors_of_a_declaration_name_its_class() -> None:
    class Doubled(CartPole):
        singletons = (CartState,)

    _, line = inspect.getsourcelines(Doubled)
    says = rf"^{Path(__file__).name}:{line}: component CartState is a singleton and in an archetype"
    for made in (lambda: Simulator(Doubled(), 1), lambda: Simulator(environment=Doubled(), num_worlds=1)):
        with pytest.raises(SchemaError, match=says):
            made()


def test_errors_of_authors_do_not_show_the_engines_frames(folder: Path) -> None:
    with pytest.raises(SchemaError) as raised:
        Simulator(environment(folder, "TBS_SYSTEM void run(World &world, Ball ball) {}\n", "run"), 1)
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][1:] == ["called"]


@pytest.mark.parametrize("name", of_today(COMPILED, 6))
def test_environments_of_ours_have_no_warnings(name: str, tmp_path: Path) -> None:
    program = Program(COMPILED[name]())
    unit = tmp_path / "unit.cpp"
    unit.write_text(generate(program, Target()))
    flags = [flag for flag in jit.compiler_flags("cpu") if flag != "-O3"]
    command = [jit.cpp_compiler(), *flags, "-fsyntax-only", f"-I{jit.CSRC}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", BuildWarning)
        warn(program, done.stderr)


@pytest.mark.full
def test_a_warning_that_is_an_error_comes_again(folder: Path) -> None:
    text = "TBS_SYSTEM void run(World &world, Ball &ball) {\n    ball.row == 3;\n}\n"
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error", BuildWarning)
            with pytest.raises(BuildWarning, match=r"^systems\.h:2: statement has no effect"):
                Simulator(environment(folder, text, "run"), 1)


def test_names_of_the_engine_are_not_declared_again(folder: Path) -> None:
    def declared(text: str) -> None:
        text += "TBS_SYSTEM void run(World &world, Ball &ball) { ball.row = 1; }\n"
        Program(environment(folder, text, "run"))

    declared("struct Ball;\nnamespace mine { struct Ball { f32 x; }; }\n")
    messages.refused("names declared again", lambda line: declared(eval(line)))


def test_a_copy_of_a_component_that_is_only_written_is_warned_of(folder: Path) -> None:
    text = """TBS_FUNCTION void shift(World &world, Ball ball) {
    if (ball.row > 0) return;
}
TBS_FUNCTION void lost(Ball ball, f32 by) {
    if (by > 0.0f)
        ball.speed = ball.speed + by;
    else ++ball.row;
}
TBS_FUNCTION f32 kept(Ball ball, Paddle paddle) { ball.row = 3; paddle.column += 1; return f32(ball.row); }
TBS_FUNCTION void made(World &world, Shot shot) { shot.left = 3; world.create<Bullet>(shot); }
TBS_SYSTEM void run(World &world, Ball &ball) { ball.row = 1; }
"""
    messages.compare("warnings of copies", warned(environment(folder, text, "run")))


def test_a_function_that_is_not_defined_is_reported_without_other_warnings(folder: Path) -> None:
    """A method that is not inlined: the linker misses it."""
    text = "struct A {\n    TBS_CALLED i32 twice() const;\n};\n"
    text += "TBS_SYSTEM void run(World &world, Ball &ball) { i32 unused = 3; ball.row = A{}.twice(); }\n"
    program = Program(environment(folder, text, "run"))
    place = folder / "systems.h"
    log = (
        f"{place}:4:53: warning: unused variable 'unused' [-Wunused-variable]\n    4 | TBS_SYSTEM void run\n"
        f"{place}:2:20: warning: inline function 'tbs::i32 tbs::fence::systems::A::twice() const' used but never "
        "defined\n    2 |     TBS_CALLED i32 twice() const;\n"
    )
    assert explain(program, log).splitlines() == [
        "systems.h:2: function `A::twice` is declared and not defined: write its body where it is declared",
        "(while compiling the systems of Declared)",
    ]


def test_text_that_compiles_and_means_something_else_is_refused(folder: Path) -> None:
    legal = "do { ball.row = ::i32(1); } while (ball.row < 1); {}"
    legal += 'world.check(world.rows<Game, const Ball>()[0].row > 0, "low", 3); f(episode.step == 2);'
    legal += "warp.for_each(warp.sum(2, [&](u32 k) { return k; }), [&](u32 i) { warp.shared<i32>(); });"

    def declared(line: str) -> None:
        text = f"(World &world, Ball &ball, Episode &episode, Warp &warp) {{\n{line}\n{legal} }}\n"
        Program(environment(folder, f"TBS_SYSTEM void fall{text}", "fall"))

    messages.refused("text that compiles and means something else", declared)


WITHOUT_ENDS = {  # texts of a system, and the line whose `;` is missing
    "i32 x = 3\n    ball.row = x;": 1,
    "ball.row = 3\n\n    // and another\n    ball.column = 2;": 1,
    "i32 n\n    n = 3; ball.row = n;": 1,
    "Random &random = world.random()\n    ball.row = random.integer(0, 3);": 1,
    "const i32 a = 1,\n    const i32 b = 2; ball.row = a + b;": 1,
    "if (ball.row > 3)\n    ball.row = 3\n    else\n    ball.row = 2;": 2,
    "switch (ball.row) {\n    case 1: ball.row = 2; break\n    case 2: ball.row = 3;\n    }": 2,
    "ball.row = 1;\n    return": 2,
    "const auto twice = [&](i32 x) { return 2 * x; }\n    ball.row = twice(2);": 1,
    "do { ball.row += 1; } while (ball.row < 3)\n    ball.column = 1;": 1,
    "ball.row = 2; const i32 a = 4 ball.row = a;": 1,
}


@pytest.mark.skipif("g++" not in jit.cpp_compiler(), reason="the words are g++'s")
def test_a_missing_semicolon_is_reported_in_its_line(folder: Path) -> None:
    text, lines = "", []
    for number, (body, line) in enumerate(WITHOUT_ENDS.items()):
        lines.append(text.count("\n") + 1 + line)
        text += f"TBS_SYSTEM void system{number}{PARAMETERS} {{\n    {body}\n}}\n"
    with pytest.raises(BuildError) as raised:
        Simulator(environment(folder, text, *(f"system{number}" for number in range(len(lines)))), 1)
    assert raised.value.log is not None
    found = error_lines(Program(environment(folder, text, "system0")), raised.value.log.read_text())
    missing = [each for each in found if "a `;` is missing" in each or "write `;` where" in each]
    assert [int(each.split(":")[1]) for each in missing] == lines
    ends = [text.splitlines()[line - 1].rstrip() for line in lines[:-1]]
    for each, end in zip(missing, ends, strict=False):
        behind = re.search(r"behind `(.+?)`", each)
        assert end.endswith(behind[1] if behind else ",")


@pytest.mark.parametrize(
    ("front", "says"),
    [
        ("struct Step { i32 x; }", r"systems\.h:1: a ';' is missing behind '}'"),
        ("enum Kind { A, B }", r"systems\.h:1: a ';' is missing behind '}'"),
        ("constexpr i32 n = 3", r"systems\.h:1: a ';' is missing behind '3'"),
        ("constexpr f32 a = 3.0f * 2.0f\n", r"systems\.h:1: a ';' is missing behind '2.0f'"),
        ("using Number = i32", r"systems\.h:1: a ';' is missing behind 'i32'"),
        ("struct A {\n    i32 x;\n}\nstruct B { i32 y; };", r"systems\.h:3: a ';' is missing behind '}', .* 'struct'"),
        ("TBS_FUNCTION i32 twice(i32 x)", r"systems\.h:1: a ';' or a body, \{ \.\.\. \}, is missing behind '\)'"),
    ],
)
def test_a_missing_semicolon_outside_of_functions_is_reported_in_its_line(folder: Path, front: str, says: str) -> None:
    text = f"{front}\nTBS_SYSTEM void run(World &world, Ball &ball) {{ ball.row = 1; }}\n"
    with pytest.raises(SchemaError, match=f"^{says}"):
        Program(environment(folder, text, "run"))


def test_declarations_that_need_no_semicolon(folder: Path) -> None:
    text = """#define NUMBER(name, value) constexpr i32 name = value;
NUMBER(three, 3)
#define TEN constexpr i32 ten = 10;
TEN
[[nodiscard]]
TBS_FUNCTION i32 nine() { return 9; }
template <class T>
TBS_FUNCTION T same(T a) { return a; }
namespace own {
TBS_FUNCTION i32 four() { return 4; }
}
struct Step {
    i32 x = 0;
    TBS_METHOD i32 y() const {
        return x;
    }
    TBS_METHOD i32 z() const { return x; }
};
template <class T>
    requires(sizeof(T) == 4)
TBS_FUNCTION i32 size(T) { return 4; }
TBS_SYSTEM void run(World &world, Ball &ball) {
    if (ball.row > 3) { ball.row = 1; }
    constexpr i32 table[2] = {1, 2};
    ball.row = table[0] + own::four() + same(three) + size(1) + Step{}.y() + ten + nine();
}
"""
    Program(environment(folder, text, "run"))
