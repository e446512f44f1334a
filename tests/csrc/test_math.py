"""csrc/tbs/math.h: accuracy in ulp, special values, and the same bits from every build."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HEADERS, HERE, call
from support import full_but

f32, f64 = np.float32, np.float64
LARGEST_ANGLE = 2.0**20

# The bounds of docs/math.md, in ulp.
BINARY = ["atan2", "pow", "hypot"]
UNARY = ["sin", "cos", "tan", "asin", "acos", "atan", "exp", "exp2", "log", "log2", "tanh"]
BOUND = {name: 0.95 if name in ("sin", "cos") else 0.51 for name in UNARY + BINARY}
REFERENCE = {name: getattr(np, name) for name in BOUND if hasattr(np, name)}
REFERENCE |= {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "pow": np.power}
REFERENCE |= {"fmod": np.fmod, "copysign": np.copysign}
EXACT = ["sqrt", "floor", "ceil", "trunc", "rint", "round", "abs", "isnan", "isinf", "isfinite", "signbit"]
CONVERSIONS = ["to_i32", "to_u32"]
EXACT_BINARY = ["fmod", "min", "max", "copysign", "divide"]
SPECIAL = [0, 1e-45, 1e-40, 2.0**-126, 1e-9, 0.25, 0.5, 0.75, 1, np.nextafter(f32(1), f32(2)), 1.5, 2, 2.5, 3, 3.5, 4]
SPECIAL += [88, 89, 103, 104, 127, 128, 149, 150, 151, 2**22 + 1, 2**23 + 1, 2**24 - 1, 2**24, 1e9, 1e30]
SPECIAL = np.array([*SPECIAL, np.finfo(f32).max, np.inf, np.nan], f32)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def library(compiler):
    return compiler.library("math_library.cpp", "-O3", "-march=native")[0]


def every(stride):
    """f32 values through all bit patterns."""
    return np.arange(0, 2**32, stride, dtype=np.uint64).astype(np.uint32).view(f32)


def around(values, steps):
    """Every f32 within so many steps of the given ones."""
    bits = np.asarray(values, f32).view(np.int32)
    return (bits[:, None] + np.arange(-steps, steps + 1, dtype=np.int32)).ravel().view(f32)


def ulp_error(got, exact):
    """|got - exact| in units of the last place of an f32 of exact's size."""
    error = np.abs(got - exact) / np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 24, -149))
    overflow = np.isinf(got) & (np.abs(exact) >= (2 - 2.0**-24) * 2.0**127) & (np.sign(got) == np.sign(exact))
    error = np.where(overflow | (np.isnan(exact) & np.isnan(got)), 0, error)
    return np.where(np.isnan(error), np.inf, error)


def reference(name, *arguments):
    wide = [argument.astype(f64) for argument in arguments]
    exact = REFERENCE[name](*wide)
    if name in ("sin", "cos", "tan"):
        exact = np.where(np.abs(wide[0]) <= LARGEST_ANGLE, exact, np.nan)
    return exact


def assert_accurate(library, name, *arguments):
    error = ulp_error(call(library[f"loop_{name}"], *arguments), reference(name, *arguments))
    worst = np.argmax(error)
    print(f"{name}: {error[worst]:.4f} ulp at {[float(argument[worst]).hex() for argument in arguments]}")
    assert error[worst] <= BOUND[name]


def same(a, b):
    """The same bits, whatever the sign and payload of a NaN."""
    return (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))


@pytest.mark.parametrize("name", UNARY)
def test_accuracy_over_all_floats(library, name):
    assert_accurate(library, name, every(1999))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_accuracy_near_every_multiple_of_half_pi(library, name):
    multiples = np.arange(1, int(LARGEST_ANGLE / (np.pi / 2)) + 1) * (np.pi / 2)
    assert_accurate(library, name, around(multiples, 2))
    assert_accurate(library, name, around(multiples[:64], 5000))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_accuracy_near_odd_multiples_of_quarter_pi(library, name):
    # Where the quadrant changes, and rounding may choose either side.
    multiples = np.arange(1, int(LARGEST_ANGLE / (np.pi / 2)) - 1) * (np.pi / 2) + np.pi / 4
    assert_accurate(library, name, around(multiples, 2))


@pytest.mark.parametrize(
    "name, points",
    [
        ("exp", [-104, -103.97, -103.28, -87.34, 0.3466, 88.72, 89]),
        ("exp2", [-151, -150, -149, -126, -0.5, 0.5, 1, 127, 128]),
        ("log", [2.0**-149, 2.0**-126, 0.70710678, 1, 1.41421356, 2]),
        ("log2", [2.0**-149, 2.0**-126, 0.70710678, 1, 1.41421356, 2]),
        ("asin", [0.70710678, 1, -1]),
        ("acos", [0.70710678, 1, -1]),
        ("atan", [1, -1]),
        ("tanh", [0.1733, 0.3466, 9.01, 10]),
    ],
)
def test_accuracy_around_hard_points(library, name, points):
    assert_accurate(library, name, around(points, 30000))


def pairs(kind, count=1_500_000):
    random = np.random.default_rng(7)
    if kind == "all bits":
        x, y = random.integers(0, 2**32, (2, count), dtype=np.uint32).view(f32)
    elif kind == "moderate":
        x, y = np.exp(random.normal(0, 3, (2, count))).astype(f32)
        y *= random.choice([-1, 1], count).astype(f32)
    else:
        x = random.choice(around([1], 20000), count)
        y = (random.choice([-1, 1], count) * np.exp(random.uniform(0, 22, count))).astype(f32)
    return x, y


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["all bits", "moderate", "near 1"])
@pytest.mark.parametrize("name", BINARY)
def test_accuracy_of_two_arguments(library, name, kind):
    assert_accurate(library, name, *pairs(kind))


def test_sincos_is_sin_and_cos(library):
    x = np.concatenate([every(20011), SPECIAL])
    sine, cosine = call(library["loop_sincos"], x, outputs=(f32, f32))
    assert same(sine, call(library["loop_sin"], x)).all()
    assert same(cosine, call(library["loop_cos"], x)).all()


def half_away(x):
    return np.trunc(x.astype(f64) + np.copysign(0.5, x)).astype(f32)


@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(library, name):
    x = np.concatenate([every(1999), SPECIAL, around(np.arange(-1000, 1000) / 2, 3)])
    exact = half_away if name == "round" else getattr(np, name)
    assert same(call(library[f"loop_{name}"], x), exact(x).astype(f32)).all()


@pytest.mark.parametrize("name", UNARY)
def test_special_values(library, name):
    """Zeros, infinities, NaNs and their signs as in C99, appendix F, which numpy follows too."""
    got = call(library[f"loop_{name}"], SPECIAL)
    exact = reference(name, SPECIAL)
    special = ~np.isfinite(exact) | (exact == 0)
    assert same(got, exact.astype(f32))[special].all()
    assert (ulp_error(got, exact) <= BOUND[name]).all()


@pytest.mark.parametrize("name", [*BINARY, "copysign", "fmod"])
def test_special_values_of_two_arguments(library, name):
    x, y = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    got, exact = call(library[f"loop_{name}"], x, y), reference(name, x, y)
    if name == "fmod":  # documented: NaN where the quotient is large
        exact = np.where((np.abs(x.astype(f64) / y) >= 2**28) & np.isfinite(x), np.nan, exact)
    special = ~np.isfinite(exact) | (exact == 0)
    wrong = ~same(got, exact.astype(f32)) & special
    assert not wrong.any(), [x[wrong], y[wrong], got[wrong], exact[wrong]]
    assert (ulp_error(got, exact) <= BOUND.get(name, 0)).all()


INF, NAN = np.inf, np.nan
# Of each function: arguments, and the value.
NAMED = {
    "pow": [(0.0, -1.0, INF), (-0.0, -1.0, -INF), (-0.0, -2.0, INF), (-0.0, 3.0, -0.0), (-0.0, 2.5, 0.0),
        (-1.0, INF, 1), (1.0, NAN, 1), (NAN, 0.0, 1), (-2.0, 0.5, NAN), (0.5, -INF, INF), (-INF, -3.0, -0.0),
        (-INF, 3.0, -INF), (-2.0, 3.0, -8), (-2.0, 2.0, 4)],
    "atan2": [(0.0, -0.0, 3.1415927), (-0.0, -0.0, -3.1415927), (-0.0, 0.0, -0.0), (0.0, -1.0, 3.1415927),
        (1.0, 0.0, 1.5707964), (INF, -INF, 2.3561945)],
    "hypot": [(INF, NAN, INF), (2.0**126, -0.75 * 2.0**126, 1.25 * 2.0**126)],
    "fmod": [(5.5, 2.0, 1.5), (-5.5, 2.0, -1.5), (-4.0, 2.0, -0.0), (5.0, INF, 5), (5.0, 0.0, NAN), (INF, 2.0, NAN)],
    "min": [(1.0, 2.0, 1), (NAN, 2.0, NAN), (2.0, NAN, 2), (-0.0, 0.0, -0.0)],
    "max": [(1.0, 2.0, 2), (NAN, 2.0, NAN), (2.0, NAN, 2), (0.0, -0.0, 0.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (1.0, 0.0)],
    "exp": [(-INF, 0.0), (INF, INF)],
    "sin": [(-0.0, -0.0), (2.0**20 + 0.125, NAN)],
    "tan": [(-0.0, -0.0)],
    "tanh": [(-0.0, -0.0), (-INF, -1)],
    "acos": [(1.0, 0.0)],
    "sqrt": [(-0.0, -0.0)],
    "cos": [(INF, NAN)],
    "asin": [(1.0000001, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_named_special_values(library, name):
    *arguments, expected = np.array(NAMED[name], f32).T
    got = call(library[f"loop_{name}"], *arguments)
    assert same(got, expected).all(), got


def test_fmod_is_exact(library):
    for x, y in (pairs("moderate"), pairs("all bits")):
        expected = np.where(np.abs(x.astype(f64) / y) < 2**28, np.fmod(x, y), f32("nan"))
        assert same(call(library["loop_fmod"], x, y), expected).all()


def test_powers_of_two_are_exact(library):
    exponent = np.arange(-149, 128, dtype=f32)
    power = np.ldexp(1.0, exponent.astype(int)).astype(f32)
    assert (call(library["loop_exp2"], exponent) == power).all()
    assert (call(library["loop_log2"], power) == exponent).all()


REPORT = "-fopt-info-vec-optimized"  # also of a build whose bits are compared, so that both tests have one
BUILDS = {
    "O0": ["-O0", "-march=native"],
    "AVX2": ["-O3", "-march=x86-64-v3", REPORT],
    "512 bits": ["-O3", "-march=native", "-mprefer-vector-width=512"],
    "contracted": ["-O3", "-march=native", "-ffp-contract=fast"],
}


@pytest.fixture(scope="module", params=full_but(["O0"], BUILDS))
def other_build(compiler, request):
    return compiler.library("math_library.cpp", *BUILDS[request.param])[0]


def bit_points(name):
    if name in BINARY + EXACT_BINARY:
        grid = [grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL)]
        sources = pairs("moderate", 50_000), pairs("all bits", 50_000), grid
        return [np.concatenate(parts) for parts in zip(*sources, strict=True)]
    return [np.concatenate([every(40009), SPECIAL, around(np.arange(1, 2000) * (np.pi / 2), 3)])]


@pytest.mark.parametrize("name", UNARY + EXACT + CONVERSIONS + BINARY + EXACT_BINARY)
def test_one_element_at_a_time_gives_the_same_bits(library, name):
    points = bit_points(name)
    assert same(call(library[f"loop_{name}"], *points), call(library[f"each_{name}"], *points)).all()


@pytest.mark.parametrize("name", UNARY + EXACT + CONVERSIONS + BINARY + EXACT_BINARY)
def test_every_build_gives_the_same_bits(library, other_build, name):
    points = bit_points(name)
    assert same(call(library[f"loop_{name}"], *points), call(other_build[f"loop_{name}"], *points)).all()
    assert same(call(library[f"loop_{name}"], *points), call(other_build[f"each_{name}"], *points)).all()


@pytest.mark.full
@pytest.mark.parametrize("machine", ["native", "x86-64-v3"])
def test_loops_vectorise(compiler, machine):
    report = compiler.library("math_library.cpp", "-O3", f"-march={machine}", REPORT)[1]
    vectorised = set(map(int, re.findall(r"math_library\.cpp:(\d+):\d+: optimized: loop vectorized", report)))
    source = (HERE / "math_library.cpp").read_text().splitlines()
    for number, line in enumerate(source, 1):
        name = re.match(r"(?:UNARY|PREDICATE|CONVERSION|BINARY)\((\w+)\)", line)
        if name:
            assert number in vectorised, name[1]


@pytest.mark.full
def test_nvcc_flags_change_nothing(compiler):
    """nvcc makes the same instructions, whatever -fmad and the precision of division and root are."""
    calls = [f"y[i] += tbs::{name}(x[i]);" for name in UNARY + EXACT + CONVERSIONS] + [
        f"y[i] += tbs::{name}(x[i], x[i + 1]);" for name in BINARY + EXACT_BINARY
    ]
    text = """
        #include "tbs/math.h"
        __global__ void functions(const float *x, float *y) { int i = threadIdx.x; CALLS }
        __global__ void control(const float *x, float *y) { *y = x[0] * x[1] + x[2] / x[3]; }
    """.replace("CALLS", " ".join(calls))
    strict = compiler.machine_code(text, "-fmad=false")
    loose = compiler.machine_code(text, "-fmad=true", "-prec-div=false", "-prec-sqrt=false")
    assert {name for name in strict if strict[name] != loose[name]} == {".text._Z7controlPKfPf"}
    assert ".text._Z9functionsPKfPf" in strict


@pytest.mark.full
def test_coefficients_are_the_derived_ones(capsys):
    sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))
    try:
        import derive_polynomials
    finally:
        sys.path.pop(0)
    derive_polynomials.main()
    literal = r"-?0x1\.?[0-9a-f]*p[-+]\d+"
    derived = {abs(float.fromhex(text)) for text in re.findall(literal, capsys.readouterr().out)}
    # hexadecimal literals with many digits; the short ones are powers of two and the like
    used = [text for text in re.findall(literal, (HEADERS / "tbs/math.h").read_text()) if len(text) > 12]
    pi_and_friends = {f64(f32(np.pi)), f64(f32(2 * np.pi)), np.pi, f64(np.finfo(f32).max)}
    assert len(used) > 50
    for text in used:
        assert abs(float.fromhex(text)) in derived | pi_and_friends, text
