"""torch_batchsim.math: the same bits as systems compute, and clear errors for all that is not float32."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import (
    Archetype,
    Component,
    Repeat,
    Reward,
    Simulator,
    TaskGraph,
    boolean,
    component,
    f32,
    i32,
    quat,
    u32,
    vec2,
    vec3,
    vec4,
)
from torch_batchsim import math as engine
from torch_batchsim.build import jit

ROWS = 6000
SEED = 2**63 + 5

# Name here; what a system writes; what is called, of the columns of Given by name.
NUMBERS = {
    name: (f"{name}(given.a)", lambda g, name=name: getattr(engine, name)(g["a"]))
    for name in (
        "sin cos tan asin acos atan exp exp2 log log2 tanh sqrt floor ceil trunc rint round abs isnan isinf isfinite "
        "signbit to_bits to_i32 to_u32"
    ).split()
} | {
    name: (f"{name}(given.a, given.b)", lambda g, name=name: getattr(engine, name)(g["a"], g["b"]))
    for name in "atan2 pow hypot fmod min max copysign divide".split()
}
OTHERS = {
    "fma": ("fma(given.a, given.b, given.c)", lambda g: engine.fma(g["a"], g["b"], g["c"])),
    "clamp": ("clamp(given.a, given.b, given.c)", lambda g: engine.clamp(g["a"], g["b"], g["c"])),
    "from_bits": ("from_bits(to_bits(given.a) ^ 1u)", lambda g: engine.from_bits(engine.to_bits(g["a"]) ^ 1)),
    "literal": ("pow(given.a, 3) + 0.1f", lambda g: engine.pow(g["a"], 3) + 0.1),
}
VECTORS = {
    f"{name}_{n}": (
        f"{name}(given.v{n}, given.w{n})",
        lambda g, name=name, n=n: getattr(engine, name)(g[f"v{n}"], g[f"w{n}"]),
    )
    for name, widths in {"dot": (2, 3, 4), "distance": (2, 3, 4), "cross": (2, 3)}.items()
    for n in widths
} | {
    f"{name}_{n}": (f"{name}(given.v{n})", lambda g, name=name, n=n: getattr(engine, name)(g[f"v{n}"]))
    for name in ("length", "length_squared", "normalize")
    for n in (2, 3, 4)
}
ROTATIONS = {
    "rotate_2": ("rotate(given.v2, given.a)", lambda g: engine.rotate(g["v2"], g["a"])),
    "rotate_by_sine": ("rotate(given.v2, given.a, given.b)", lambda g: engine.rotate(g["v2"], g["a"], g["b"])),
    "rotate_3": ("rotate(given.v3, given.p)", lambda g: engine.rotate(g["v3"], g["p"])),
    "dot_quat": ("dot(given.p, given.q)", lambda g: engine.dot_quat(g["p"], g["q"])),
    "multiply_quat": ("given.p * given.q", lambda g: engine.multiply_quat(g["p"], g["q"])),
    "conjugate": ("conjugate(given.p)", lambda g: engine.conjugate(g["p"])),
    "normalize_quat": ("normalize(given.p)", lambda g: engine.normalize_quat(g["p"])),
    "rotation_about": ("rotation_about(given.v3, given.a)", lambda g: engine.rotation_about(g["v3"], g["a"])),
}
ALL = NUMBERS | OTHERS | VECTORS | ROTATIONS
WIDE = {"cross_3": vec3, "rotate_2": vec2, "rotate_by_sine": vec2, "rotate_3": vec3}
WIDE |= dict.fromkeys(("multiply_quat", "conjugate", "normalize_quat", "rotation_about"), quat)
WIDE |= {f"normalize_{n}": kind for n, kind in ((2, vec2), (3, vec3), (4, vec4))}
TYPES = dict.fromkeys(ALL, f32) | WIDE | dict.fromkeys(("isnan", "isinf", "isfinite", "signbit"), boolean)
TYPES |= {"to_bits": u32, "to_i32": i32, "to_u32": u32}


class Given(Component):
    a: f32
    b: f32
    c: f32
    v2: vec2
    w2: vec2
    v3: vec3
    w3: vec3
    v4: vec4
    w4: vec4
    p: quat
    q: quat


class Drawn(Component):
    bits: u32
    uniform: f32
    between: f32
    below: u32
    integer: i32
    chance: boolean
    normal: f32
    first: f32
    second: f32
    items: i32[7]
    own: f32


class Choice(Component):
    kind: i32


DRAWS = """
    drawn.bits = random.bits();
    drawn.uniform = random.uniform();
    drawn.between = random.uniform(-2.0f, 0.1f);
    drawn.below = random.below(1000);
    drawn.integer = random.integer(-5, 5);
    drawn.chance = random.chance(0.3f);
    drawn.normal = random.normal();
    random.normal_pair(drawn.first, drawn.second);
    for (i32 i = 0; i < 7; ++i) drawn.items[i] = i;
    random.shuffle(drawn.items, 7);
"""


def specials() -> np.ndarray:
    positive = [0, 1e-45, 1e-40, 2.0**-126, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 88, 104, 150, 2**20, 2**23 + 1, 1e30]
    positive += [np.inf, np.nan]
    return np.array(positive + [-x for x in positive], np.float32)


def values() -> np.ndarray:
    """[ROWS, fields]: every pair of special values, then random bits, then moderate numbers."""
    generator = np.random.default_rng(1)
    width = 29
    table = generator.normal(size=(ROWS, width)).astype(np.float32)
    table[:2500] = generator.integers(0, 2**32, (2500, width), dtype=np.uint32).view(np.float32)
    pairs = np.stack(np.meshgrid(specials(), specials()), -1).reshape(-1, 2)
    table[: len(pairs), :2] = pairs
    table[: len(pairs), 2:] = generator.choice(specials(), (len(pairs), width - 2))
    return table


class Results:
    """Inputs and results of a system."""

    def __init__(self) -> None:
        fields = component("Result", **TYPES)
        lines = "\n".join(f"    result.{name} = {expression};" for name, (expression, _) in ALL.items())
        text = (
            f"TBS_SYSTEM void compute(World &world, const Given &given, Result &result) {{\n{lines}\n}}\n"
            "TBS_SYSTEM void draw(World &world, Drawn &drawn) {\n    Random &random = world.random();\n" + DRAWS + "}\n"
            "TBS_SYSTEM void draw_item(World &world, Drawn &drawn, Warp &warp) {\n"
            "    warp.once([&] { Random random = world.random(3); drawn.own = random.uniform(); });\n}\n"
        )
        environment = declare(
            text,
            archetypes=(
                Archetype("Case", Given, fields, count=ROWS),
                Archetype("Player", Choice, Drawn, Reward, count=2),
            ),
            step=TaskGraph("compute", Repeat(2, "draw"), "draw_item"),
            observation="Player.Choice.kind",
            action="Player.Choice.kind",
            action_space=Discrete(2),
        )()
        self.sim = Simulator(environment, 3)
        self.sim.reset(seed=SEED)
        self.sim.reset()  # episode 1
        given = values()
        first = 0
        for field in fields_of(Given):
            tensor = self.sim.tensor(f"Case.Given.{field}")
            width = tensor.shape[-1] if tensor.dim() > 2 else 1
            tensor[0] = torch.from_numpy(given[:, first : first + width].reshape(tensor.shape[1:]))
            first += width
        assert first == given.shape[1]
        self.sim.step()
        self.sim.step()
        self.given = {field: self.sim.tensor(f"Case.Given.{field}")[0].numpy() for field in fields_of(Given)}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.sim.tensor(f"Case.Result.{name}")[0].numpy()

    def drawn(self, name: str) -> np.ndarray:
        return self.sim.tensor(f"Player.Drawn.{name}").numpy()


def fields_of(kind: type[Component]) -> list[str]:
    return list(inspect.get_annotations(kind))


@pytest.fixture(scope="module")
def results() -> Results:
    return Results()


def assert_bits(name: str, ours: Any, systems: Any) -> None:
    ours, systems = np.asarray(ours), np.asarray(systems)
    assert ours.dtype == systems.dtype or systems.dtype.kind in "iu", name
    assert ours.shape == systems.shape, name
    if ours.dtype == np.float32:  # the payload of a NaN is not promised
        nan = np.isnan(ours)
        assert (nan == np.isnan(systems)).all(), name
        ours, systems = (np.where(nan, 0, x.view(np.int32)) for x in (ours, np.ascontiguousarray(systems)))
    assert (ours == systems).all(), (name, np.flatnonzero(ours != systems)[:5])


def test_the_bits_are_those_of_a_system(results: Results) -> None:
    for name, (_, call) in ALL.items():
        assert_bits(name, call(results.given), results[name])
    tensors = {name: torch.from_numpy(array.copy()) for name, array in results.given.items()}
    for name in ("sin", "pow", "cross_3", "rotate_3", "isnan"):
        out = ALL[name][1](tensors)
        assert isinstance(out, torch.Tensor)
        assert_bits(name, out.numpy(), results[name])
    sine, cosine = engine.sincos(results.given["a"])
    assert_bits("sincos", sine, results["sin"])
    assert_bits("sincos", cosine, results["cos"])


def test_random_numbers_are_those_that_a_system_draws(results: Results) -> None:
    world, row = np.arange(3)[:, None], np.arange(2)
    where = {"table": "Player", "world": world, "row": row, "episode": 1, "step": 2}
    random = engine.Random(SEED, "step", "draw", repetition=1, **where)
    assert random.shape == (3, 2)
    assert_bits("bits", random.bits(), results.drawn("bits").view(np.uint32))
    assert_bits("uniform", random.uniform(), results.drawn("uniform"))
    assert_bits("between", random.uniform(-2.0, 0.1), results.drawn("between"))
    assert_bits("below", random.below(1000), results.drawn("below"))
    assert_bits("integer", random.integer(-5, 5), results.drawn("integer"))
    assert_bits("chance", random.chance(0.3), results.drawn("chance"))
    assert_bits("normal", random.normal(), results.drawn("normal"))
    first, second = random.normal_pair()
    assert_bits("normal_pair", first, results.drawn("first"))
    assert_bits("normal_pair", second, results.drawn("second"))
    items = np.broadcast_to(np.arange(7), (3, 2, 7))
    assert_bits("shuffle", random.shuffle(items), results.drawn("items"))
    assert_bits("item", engine.Random(SEED, "step", "draw_item", item=3, **where).uniform(), results.drawn("own"))
    one = engine.Random(SEED, "step", "draw", "Player", world=2, row=1, episode=1, step=2, repetition=1)
    assert one.bits() == results.drawn("bits").view(np.uint32)[2, 1]


def test_every_function_of_the_headers_is_here() -> None:
    """All that math.h and vector.h offer to systems, constants included."""
    offered = set()
    for header in ("math.h", "vector.h"):
        text = (jit.CSRC / "tbs" / header).read_text()
        text = re.sub(r"namespace detail \{.*?\}  // namespace detail", "", text, flags=re.DOTALL)
        offered |= set(re.findall(r"^TBS_FUNCTION \w+ &?(\w+)\(", text, re.MULTILINE))
        offered |= set(re.findall(r"^inline constexpr f32 (\w+)", text, re.MULTILINE))
    missing = {name for name in offered if not hasattr(engine, name)} - {"operator", "to_bits64", "from_bits64"}
    assert not missing
    text = (jit.CSRC / "tbs" / "math.h").read_text()
    for name in ("pi", "half_pi", "tau", "largest", "epsilon", "largest_angle"):
        literal = re.search(rf"constexpr f32 {name} = (\S+)f;", text)
        assert literal
        assert getattr(engine, name) == float.fromhex(literal[1]), name


def test_arguments_broadcast() -> None:
    x = np.linspace(0, 1, 4, dtype=np.float32)
    assert engine.pow(x[:, None], x[::-2]).shape == (4, 2)
    assert isinstance(engine.sin(1), np.float32)
    assert engine.sin(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert engine.rotate(np.ones((5, 1, 3), np.float32), np.ones((2, 4), np.float32)).shape == (5, 2, 3)
    out = engine.max(torch.tensor([1.0, -1.0]), 0)
    assert out.tolist() == [1, 0]
    assert engine.Random(0, "start", "deal").uniform().shape == ()


@pytest.mark.parametrize(
    ("error", "says", "call"),
    [
        (TypeError, r"sin takes float32, got float64; cast it where", lambda: engine.sin(np.zeros(3))),
        (TypeError, r"sin takes float32, got float64", lambda: engine.sin(np.float64(0.5))),
        (TypeError, r"pow takes float32, got int64", lambda: engine.pow(torch.zeros(3), torch.arange(3))),
        (TypeError, r"cos takes float32, got bfloat16", lambda: engine.cos(torch.zeros(3, dtype=torch.bfloat16))),
        (TypeError, r"cos takes arrays .* got list", lambda: engine.cos([1.0])),
        (TypeError, r"from_bits takes arrays .* got float", lambda: engine.from_bits(1.0)),
        (TypeError, r"atan2 got tensors and arrays", lambda: engine.atan2(torch.zeros(3), np.zeros(3, "f4"))),
        (ValueError, r"exp has no gradient", lambda: engine.exp(torch.zeros(3, requires_grad=True))),
        (ValueError, r"hypot .*\[3\] and \[2\]", lambda: engine.hypot(np.zeros(3, "f4"), np.zeros(2, "f4"))),
        (ValueError, r"length takes vectors .*\[5\]", lambda: engine.length(np.zeros(5, "f4"))),
        (ValueError, r"rotate takes .* got \[3\]", lambda: engine.rotate(np.zeros(3, "f4"), np.zeros(3, "f4"))),
        (TypeError, r"rotate takes \(a \[..., 2\], angle\)", lambda: engine.rotate(np.zeros(3, "f4"))),
        (ValueError, r"graph is 'start', 'step' or 'observe'", lambda: engine.Random(0, "steps", "fall")),
        (ValueError, r"world is an integer from 0", lambda: engine.Random(0, "step", "fall", world=-1)),
        (ValueError, r"below takes integers that fit uint32", lambda: engine.Random(0, "step", "fall").below(-1)),
        (TypeError, r"uniform takes no argument, or both", lambda: engine.Random(0, "step", "fall").uniform(1.0)),
        (ValueError, r"shuffle .*3, 4", lambda: engine.Random(0, "step", "a", row=[0, 1]).shuffle(np.ones((3, 4)))),
    ],
)
def test_refusals(error: type[Exception], says: str, call: Any) -> None:
    with pytest.raises(error, match=says):
        call()


def test_a_misspelt_function_is_suggested() -> None:
    with pytest.raises(AttributeError, match=r"torch_batchsim\.math has no 'normalise' \(did you mean 'normalize'\?\)"):
        engine.normalise  # noqa: B018


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "math.md").read_text()
    names: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], names)
    assert names["turned"].shape == (2, 2)
    assert names["push"].dtype == np.int32
