"""What authors are told of a build: mistakes with their remedies, warnings in one line each."""

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

import pytest
from gymnasium.spaces import Discrete
from support import COMPILED, declare
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


# What a system over `Ball &ball, const Paddle &paddle` does in one line, and what it is told.
MISTAKES = {
    "paddle.column = 3;": "take `Paddle &paddle` without const in `system` to write it",
    "paddle.column += 1;": "take `Paddle &paddle` without const in `system` to write it",
    "world.rows<Game, const Paddle>()[0].column = 3;": "ask for `rows<Game, Paddle>`, without const, to write it: ",
    "shift(paddle);": "take `Paddle &paddle` without const in `system`, or let the function that it is given to take",
    "world.parameters.gust = 1.0f;": "parameters are read only: keep what changes in a component or a singleton",
    "for (Ball &b : world.rows<Game, const Ball>()) ball.row += b.row;": "write `const Ball &` where it is only read",
    "ball.colum = 3;": "`Ball` has no `colum` (did you mean 'column'?); its fields are column, row, speed, at, cells",
    "ball.velocity = 3;": "`Ball` has no `velocity`; its fields are column, row, speed, at, cells",
    "row = 3;": "write `ball.row`",
    "shot.left = 3;": "take `Shot &shot` as a parameter of `system`",
    "ball.row = shot.left;": "take `const Shot &shot` as a parameter of `system`, without const to write it",
    "episode.terminated = true;": "take `Episode &episode` as a parameter of `system`",
    "world.terminate();": "take `Episode &episode` as a parameter, and end the episode by `episode.terminated = true;`",
    "world.truncated = true;": "and end the episode by `episode.truncated = true;`",
    "ball.speed = sinf(ball.speed);": "write `sin(...)` for `sinf`: ",
    "ball.speed = std::exp(ball.speed);": "write `exp(...)` for `std::exp`: ",
    "ball.row = i32(clock());": "systems reach nothing but their world: what they need is a parameter or a",
    "exit(3);": "systems reach nothing but their world",
    "std::sort(ball.cells, ball.cells + 2);": "systems have no standard library, so no std::sort",
    "const char *text = \"low\"; world.check(ball.row > 0, text);": "it takes a condition, and then a message",
    "ball.speed = log10(ball.speed);": "the engine has no `log10`: write `0.30103f * log2(x)`",
    "ball.row = rand();": "draw by `Random &random = world.random();`",
    "ball.speed = sin(0.5 * ball.speed);": "it takes f32: write f32 numbers with an f, `0.5f` for `0.5`",
    "ball.speed = fma(ball.speed, 2.0, 1.0f);": "its arguments are of one type: write f32 numbers with an f",
    "ball.speed = normalized(ball.speed);": "no function `normalized` (did you mean 'normalize'?): include the file",
    "ball.at = 3.0f;": "write `vec3{x, y, z}`: a vec3 is not made from f32",
    "ball.row = ball.at;": "take one component of the vec3, such as `.x`, where i32 is wanted",
    "ball.speed = ball.at[0];": "name the component of the vec3: .x",
    "ball.speed = size(ball.row);": "write `vec3{x, y, z}`: a vec3 is not made from i32",
    'ball.row = "three";': "systems have no strings",
    "return 3;": "a system returns nothing: write results into components",
    "ball.row = world.find<Bullet, const Shot>(Entity{}).left;": "",
    "auto s = world.find<Bullet, const Shot>(Entity{}); ball.row = s.left;": "write `s->` for `s.`, after a test",
    "Shot *s = world.find<Bullet, const Shot>(Entity{});": "write `const Shot*` to read it only",
    "Random random = world.random();": "take the stream by reference, `Random &random = world.random();`",
    "ball.row = world.random().integer();": "call it as `i32 integer(i32, i32)`",
    "world.fail(Fault::lots);": "declare the fault: faults = ('lots', ...) in the environment; it has lost",
    "world.fail(lost);": "write `Fault::lost`",
    "ball.speed = world.parameters.gusst;": "`Parameters` has no `gusst` (did you mean 'gust'?)",
    "ball.speed = gust;": "write `world.parameters.gust`",
    "ball.row = Constants::row;": "`Constants` has no `row` (did you mean 'rows'?); it has rows",
    "ball.row = rows;": "write `Constants::rows`",
    "ball.row = world.constants.rows;": "constants are `Constants::name`",
    "ball.row = world.steps();": "`World` has no `steps` (did you mean 'step'?)",
    "ball.row = world[1].step();": "a system reaches its own world only",
    "ball.row = world.rows<Ball>().count;": "write both types: `world.rows<Archetype, const Component>(...)`",
    "world.create<Bullet>(Paddle{});": "create<Bullet> takes components of it (Shot), and was given Paddle",
    "std::vector<i32> v;": "systems have no standard library, so no std::vector",
    "speed = 3.0f;": "write `ball.speed`",
    "ball.row = later(3);": "move function `later` of line",
    "print(ball.row);": "systems print nothing: note a value by world.log(",
    "ball.row = POT;": "no constant `POT`: declare it in the environment, in constants or parameters",
    "ball.row = random.integer(0, 3);": "take the stream first, `Random &random = world.random();`",
    "ball.row = Paddle.column;": "write `paddle.column`: `Paddle` is a type",
    "ball.row = Paddle::column;": "write `paddle.column`: `Paddle` is a type",
    "ball.row = Constants.rows;": "constants are `Constants::name`",
    "Entity none; if (none == 0) return;": "the empty Entity is `Entity{}`: compare with that",
    "ball.row = i32(ball.speed ^ 2);": "`^` is for bits of integers: write `x * x`, or `pow(x, y)`",
    "ball.speed = ball.speed % 2.0f;": "`%` is for integers: of f32 write `fmod(x, y)`",
    "vec3 place = ball.speed;": "write `vec3{x, y, z}`: a vec3 is not made from f32",
    "f32 cell = ball.cells;": "it is an array of f32: give it one index more",
    "ball.speed = 1f;": "write `1.0f` for `1f`",
    "def f(): pass": "systems are C++, which has no `def`",
    "self.row = 1;": "a system has no `self`: name its parameters",
    "ball.row = i32(ball.at);": "take one component of the vec3, such as `.x`",
    "ball.speed = world.random().rand();": "`Random` has no `rand` (write `uniform()`); it has bits, uniform, bel",
    "ball.speed = world.random().unifrom();": "`Random` has no `unifrom` (did you mean 'uniform'?); it has bits, un",
    "ball.speed = ball.at.lenght();": "`vec3` has no `lenght`: write `length(v)` for `v.lenght()`, since functions of",
    "ball.at.w = 1.0f;": "`vec3` has no `w`; its fields are x, y, z",
    "ball.row = i32(Entity{}.idx);": "`Entity` has no `idx`: it is a handle. `world.find<Archetype, const Component>(",
    "ball.row = i32(world.rows<Game, const Ball>().length);": "`Rows` has no `length` (write `count`); it has ",
    "Bits<8> bits; bits.appendd(1, 2);": "`Bits` has no `appendd` (did you mean 'append'?); it has words, append, ",
    'const char *label = "row"; world.log(label, ball.row);': "write the label itself in the call, `world.log(",
    "ball.row = i32(Row{});": "write `i32(row.index)`: a Row has `index`, and `count`",
    "ball.row = i32(ball);": "name one field of Ball, such as `.column`",
    "Entity none; none = 0;": "the empty Entity is `Entity{}`; others come from `world.create`, `world.entity`",
    "ball.row = world.rows<Game, const Ball>()[Entity{}].row;": "an Entity is not an index: `world.find<Archetype, con",
    "ball.row = world.find<const Shot>(Entity{}).left;": "keep the pointer and test it, `const Place *place = world.f",
    "ball.row = world.rows<Game, const Ball>()[Row{}].row;": "a Row is not an index: write `[row.index]`",
    "world.create<Bullet>({1});": "name the component in front of the braces: `world.create<Bullet>(Shot{...})`",
    "world.destroy(ball);": "destroy takes an Entity: `Entity self` of the system's own row, or `world.entity<",
    'if (ball.speed == "a") ball.row = 1;': "systems have no strings: compare with a number, or a name of an enumera",
    "ball = 1.0f;": "name the field of Ball that is to be written, such as `.column`",
    'world.log("row");': 'it takes a label and a value: `world.log("speed", ball.speed)`',
    "world.log(ball.speed);": 'it takes a label and a value: `world.log("speed", ball.speed)`',
    "episode.done = true;": "take `Episode &episode` as a parameter of `system`",
    "std::cout << 1;": "systems have no std::cout: note a value by world.log(",
    "ball.row = None;": "C++ writes `Entity{}` or `nullptr`",
    "if (ball.row > 1) {} elif (ball.row < 0) {}": "C++ writes `else if`",
    "if (ball.row > 1): ball.row = 1;": "C++ has no `:` behind `if (...)`: write `if (...) { ... }`",
    "ball.row = ball.row ** 2;": "C++ has no operator **: write `x * x`, or `pow(x, y)`",
}
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
    """An environment with all mistakes, a system each, and what is to be told of a line."""
    text, wanted = HELPERS, {3: "no return statement"}
    for number, (line, says) in enumerate(MISTAKES.items()):
        text += f"TBS_SYSTEM void system{number}(World &world, Ball &ball, const Paddle &paddle) {{\n    {line}\n}}\n"
        wanted[text.count("\n") - 1] = says.replace("`system`", f"`system{number}`")
    text += "TBS_FUNCTION i32 later(i32 x) { return x; }\n"
    return environment(folder, text, *(f"system{number}" for number in range(len(MISTAKES)))), wanted


@pytest.mark.skipif("g++" not in jit.cpp_compiler(), reason="the words are g++'s")
def test_mistakes_are_told_with_a_remedy(folder: Path) -> None:
    wrong, wanted = mistaken(folder)
    with pytest.raises(BuildError) as raised:
        Simulator(wrong, 1)
    assert raised.value.log is not None
    told = {}
    for line in error_lines(Program(wrong), raised.value.log.read_text()):
        file, number, text = re.fullmatch(r"(.+?):(\d+): (.*)", line).groups()  # type: ignore[union-attr]
        assert file == "systems.h"
        told[int(number)] = text
    missed = {number: (says, told.get(number)) for number, says in wanted.items() if says not in told.get(number, "")}
    assert not missed
    assert set(told) == set(wanted)
    first, second, *lines = str(raised.value).splitlines()
    assert first == f"systems.h:3: {told[3]}"
    assert second == f"(while compiling the systems of Declared, {folder / 'systems.h'})"
    assert lines[0] == "    3 | TBS_FUNCTION f32 add(f32 a, f32 b) { a + b; }"
    assert lines[-2:] == [f"({len(wanted) - 10} more errors)", f"(all of it: {raised.value.log})"]


@pytest.mark.full
@pytest.mark.skipif("g++" not in jit.cpp_compiler(), reason="the words are g++'s")
def test_the_message_of_the_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "authoring.md").read_text()
    files = dict(re.findall(r"^```\w+ title=(catch\.\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
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
def test_mistakes_are_told_by_nvcc_too(folder: Path) -> None:
    """(g++ comes first in a build, and tells most.)"""
    for line in OF_NVCC:
        text = f"TBS_SYSTEM void system(World &world, Ball &ball, const Paddle &paddle) {{\n    {line}\n}}\n"
        wrong = environment(folder, text, "system")
        program = Program(wrong)
        unit = folder / "unit.cu"
        unit.write_text(generate(program, Target("cuda")))
        command = ["nvcc", "-std=c++20", "-I", str(jit.CSRC), "--dryrun", str(unit)]
        command[command.index("--dryrun")] = "-ptx"
        done = subprocess.run([*command, "-o", str(folder / "unit.ptx")], capture_output=True, text=True, check=False)
        told = error_lines(program, done.stderr)
        assert told and MISTAKES[line] in told[0], (line, told, done.stderr[:800])


# ---- warnings --------------------------------------------------------------------------------------------------------

SUSPICIOUS = {
    "if (ball.row = 3) ball.column = 1;": "`=` assigns: write `==` to compare [-Wparentheses]",
    "ball.speed = 0.5 * ball.speed;": (
        "computes in f64: write `0.5f` for `0.5`, or convert by `f32(x)` [-Wdouble-promotion]"
    ),
    "i32 n = 3;": "unused variable 'n' [-Wunused-variable]",
    "f32 none; ball.speed += none;": "'none' is used uninitialized [-Wuninitialized]",
    "for (i32 world = 0; world < 3; ++world) ball.row = world;": (
        "declaration of 'i32 world' shadows a parameter [-Wshadow=local]"
    ),
    "ball.row == 3;": "statement has no effect [-Wunused-value]",
    "if (ball.row > 3); ball.row = 3;": "the `;` ends the `if`: nothing depends on it [-Wempty-body]",
    "ball.row = 0.5f * ball.speed;": "cuts off the decimals: write `i32(...)` [-Wfloat-conversion]",
    "ball.at = vec3{ball.row, 0, 0};": "narrowing conversion of 'ball.Ball::row' from 'i32' to 'f32' [-Wnarrowing]",
}


def test_warnings_come_once_when_the_file_is_compiled(folder: Path) -> None:
    lines = "".join(f"    {line}\n" for line in SUSPICIOUS)
    text = f"TBS_SYSTEM void run(World &world, Ball &ball, const Paddle &paddle) {{\n{lines}}}\n"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Simulator(environment(folder, text, "run"), 1)
    said = [each for each in said if each.category is BuildWarning]
    unused = "`paddle` is not used: leave it out, or only its name where it chooses the rows of a system"
    wanted = dict(enumerate(SUSPICIOUS.values(), 2)) | {1: f"{unused} [-Wunused-parameter]"}
    assert {each.lineno: str(each.message) for each in said} == wanted
    assert len(said) == len(wanted)
    assert {each.filename for each in said} == {str(folder / "systems.h")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Simulator(environment(folder, text, "run"), 1)  # from the cache
    assert not list((folder / "cache").glob("*.log"))


def test_a_system_that_never_runs_is_told(folder: Path) -> None:
    text = "TBS_SYSTEM void run(World &world, Ball &ball) { ball.row = 3; }\nTBS_SYSTEM void idle(World &world) {}\n"
    says = "^system 'idle' never runs: name it in start, step or observe, or delete it$"
    with pytest.warns(BuildWarning, match=says) as said:
        Program(environment(folder, text, "run"))
    assert [(Path(each.filename).name, each.lineno) for each in said] == [("systems.h", 2)]


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


def test_outputs_that_nobody_writes_are_told(folder: Path) -> None:
    roles = {"observation": "Game.Seen", "action_mask": "Game.Legal", "critic": {"all": "Game.Seen"}}
    with pytest.warns(BuildWarning) as said:
        Program(overlooked(folder, **roles, info={"move": "Game.Paddle", "reward": "Game.Reward"}))
    told = [str(each.message) for each in said if "never runs" not in str(each.message)]
    ends = "is written by no system: its values stay 0 unless Python writes them"
    named = ("observation 'Game.Seen'", "critic 'all', 'Game.Seen',", "action_mask 'Game.Legal'")
    assert told == [f"Declared: {name} {ends}" for name in named]


def test_state_that_changes_in_observe_is_told(folder: Path) -> None:
    """What the next step reads or writes is state; ``Sum``, of which nothing else knows, is none."""
    with pytest.warns(BuildWarning, match="of 'observe'") as said:
        Program(overlooked(folder, "look"))
    told = [str(each.message) for each in said if "never runs" not in str(each.message)]
    assert [text[: text.index(": ")] for text in told] == [
        "system 'look' of 'observe' writes Count, which 'run' of 'step' reads",
        "system 'look' of 'observe' writes Game.Ball, which 'run' of 'step' writes",
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* never runs", BuildWarning)
        warnings.simplefilter("error", BuildWarning, append=True)
        with pytest.raises(BuildWarning, match=r"^systems\.h:3: system 'look' of 'observe' writes Count"):
            Program(overlooked(folder, "look"))
    with pytest.raises(SchemaError, match=r"systems\.h:4: system 'finish' ends the episode, which 'observe' may not"):
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


@pytest.mark.full
@pytest.mark.parametrize("name", COMPILED)
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


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("struct Ball { f32 x; };\n", 1, "Ball is declared again: it is a component"),
        ("\nenum Game { A, B };\n", 2, "Game is declared again: it is an archetype"),
        ("enum class Paddle : u8 { A, B };\n", 1, "Paddle is declared again: it is a component"),
        ("TBS_FUNCTION i32 Shot(i32 x) { return x; }\n", 1, "Shot is declared again: it is a component"),
        ("struct Ball;\nnamespace mine { struct Ball { f32 x; }; }\n", 0, ""),
    ],
)
def test_what_the_engine_declares_is_not_declared_again(folder: Path, text: str, line: int, name: str) -> None:
    given = environment(folder, f"{text}TBS_SYSTEM void run(World &world, Ball &ball) {{ ball.row = 1; }}\n", "run")
    if not line:
        Program(given)
        return
    with pytest.raises(SchemaError) as raised:
        Program(given)
    assert str(raised.value).startswith(f"systems.h:{line}: {name} of Declared, which the engine declares in C++ with")


def test_a_copy_of_a_component_that_is_only_written_is_told(folder: Path) -> None:
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
    with pytest.warns(BuildWarning, match="is a copy") as said:
        Program(environment(folder, text, "run"))
    told = {each.lineno: str(each.message) for each in said}
    assert told == {
        6: "`ball` is a copy, and what is written to it is lost: declare it as `Ball &ball`",
        9: "`paddle` is a copy, and what is written to it is lost: declare it as `Paddle &paddle`",
    }


def test_a_function_that_is_not_defined_is_told_without_other_warnings(folder: Path) -> None:
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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("for (i32 i = 0; i < 3; ++i); { ball.row = 1; }", ":2: this ';' ends the 'for', and what stands in braces"),
        ("if (ball.row > 3); { ball.row = 1; }", ":2: this ';' ends the 'if'"),
        ('world.check("too low", ball.row > 0);', ":2: world.check takes the condition first, and then a message"),
        ("world.check();", ":2: world.check takes the condition first"),
        ('world.check(ball.row > 0, "low", ball.row, 12);', ":2: world.check takes the condition first"),
        ("world.check(ball.row > 0, ball.row, 12);", ":2: world.check takes the condition first"),
        ("ball.speed = ::cos(ball.speed);", ":2: '::cos' in systems: leave out the '::' in front"),
        ("::std::abort();", ":2: '::std' in systems: leave out the '::' in front"),
        ("using namespace std;", ":2: 'using namespace std' in systems"),
        ("assert(ball.row > 0);", ":2: 'assert' in systems: it would end the process; report by world.check("),
        ("extern i32 zz; ball.row = zz;", ":2: 'extern' in systems: what is defined elsewhere is not there"),
    ],
)
def test_what_compiles_and_means_something_else_is_refused(folder: Path, line: str, says: str) -> None:
    legal = "do { ball.row = ::i32(1); } while (ball.row < 1); {}"
    legal += 'world.check(world.rows<Game, const Ball>()[0].row > 0, "low", 3);'
    text = f"TBS_SYSTEM void fall(World &world, Ball &ball) {{\n{line}\n{legal} }}\n"
    with pytest.raises(SchemaError, match=re.escape(says)):
        Program(environment(folder, text, "fall"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "warp.for_each(3, [&](u32 i) { ball.row = i32(warp.sum(3, [&](u32 k) { return k; })); });",
            ":2: warp.sum inside of warp.for_each: all lanes reach an operation together",
        ),
        ("warp.once([&] { warp.once([&] { ball.row = 1; }); });", ":2: warp.once inside of warp.once"),
        ("episode.step = 2u;", ":2: episode.step is written: the engine counts steps; end the episode by"),
        ("++episode.step;", ":2: episode.step is written"),
    ],
)
def test_lanes_do_not_wait_within_an_operation_and_steps_are_counted(folder: Path, line: str, says: str) -> None:
    legal = "warp.for_each(warp.sum(2, [&](u32 k) { return k; }), [&](u32 i) { warp.shared<i32>(); });"
    legal += "f(episode.step == 2);"
    text = f"TBS_SYSTEM void fall(World &world, Ball &ball, Episode &episode, Warp &warp) {{\n{line}\n{legal} }}\n"
    with pytest.raises(SchemaError, match=re.escape(says)):
        Program(environment(folder, text, "fall"))
