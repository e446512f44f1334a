"""csrc/tbs/poison.h: calls that a system may make, and errors that name the replacement of others."""

import pytest

PROGRAM = """
#include "tbs/platform.h"
#include "tbs/math.h"
#include "tbs/random.h"
#include "tbs/vector.h"
struct Cart { float x, v; int n; double wide; };
#include "tbs/poison.h"
TBS_BEGIN_SYSTEMS(systems)
constexpr f32 y0 = 0.5f, gamma = 2;
TBS_SYSTEM void push(Cart &cart, Random &random, vec3 *around) {
    STATEMENT;
    (void)cart, (void)random, (void)around;
}
TBS_END_SYSTEMS
TBS_FUNCTION void call(Cart &cart, tbs::vec3 *around) {
    tbs::Random random(1, 2, 3, 4, 5, 6);
    tbs::fence::systems::push(cart, random, around);
}
"""
KERNEL = "__global__ void kernel(Cart *cart, tbs::vec3 *around) { call(cart[threadIdx.x], around); }\n"

ALLOWED = [
    "cart.x = sin(cart.x) + cos(1) + tbs::tan(cart.v) + exp(-cart.x) + log(2) + pow(cart.x, 2)",
    "cart.x = sqrt(cart.x) + floor(cart.v) + fma(cart.x, cart.v, 1.0f) + hypot(cart.x, cart.v)",
    "cart.x = rint(cart.x) + atan2(cart.x, 1)",
    "cart.x = abs(cart.x) + abs(cart.n) + max(cart.x, 0) + min(cart.x, 0.5f) + clamp(cart.x, -1, 1)",
    "cart.wide = sqrt(cart.wide) + abs(cart.wide) + floor(0.5) + max(cart.wide, cart.x) + fma(1.0, 2.0, 3.0)",
    "cart.x = tan(y0) + asin(y0) + acos(y0) + atan(gamma) + exp2(y0) + log2(gamma) + tanh(y0) + round(y0)",
    "cart.n = isnan(cart.x) + isfinite(cart.v) + isinf(cart.wide) + signbit(cart.x)",
    "sincos(cart.x, cart.x, cart.v); cart.x = fmod(cart.x, tau) + ceil(pi) + trunc(y0) + copysign(1, cart.v)",
    "cart.x = random.normal() + random.uniform(-1, 1) + random.integer(1, 6) + random.chance(y0)",
    "random.shuffle(around, random.below(3))",
    "*around = rotate(*around, rotation_about({0, 0, 1}, cart.x)) + cross(*around, {1, 2, 3})",
    "float sinf = 1; cart.x = sinf + float(u32(3))",
]
FORBIDDEN = [
    ("cart.x = sinf(cart.x)", "use_tbs_sin"),
    ("cart.x = powf(cart.x, 2)", "use_tbs_pow"),
    ("cart.x = std::sin(cart.x)", "use_tbs_sin"),
    ("cart.x = std::sqrt(cart.x)", "use_tbs_sqrt"),
    ("cart.x = std::max(cart.x, 0.0f)", "use_tbs_max"),
    ("cart.x = std::expf(cart.x)", "use_tbs_exp"),
    ("cart.x = fabs(cart.x)", "use_tbs_abs"),
    ("cart.x = fminf(cart.x, 1)", "use_tbs_min"),
    ("cart.x = sinh(cart.x)", "namespace_tbs_lacks_this_function"),
    ("cart.n = rand()", "use_world_random"),
    ("cart.n = std::rand()", "use_world_random"),
    ("cart.x = sin(cart.wide)", "only_for_f32"),
    ("cart.x = exp(0.5 * cart.x)", "only_for_f32"),
    ("cart.x = pow(cart.x, 2.0)", "only_for_f32"),
    ("cart.x = fma(cart.x, 2.0, 1.0f)", "f32_and_f64_arguments_mixed"),
    ("cart.n = max(1u, cart.n)", "one argument is signed, the other is not"),
    ("Random copy = random", "deleted"),
]
FORBIDDEN_GXX = [
    ("cart.x = ::sin(cart.x)", "tbs::sin"),
    ("cart.x = ::exp(cart.wide)", "tbs::exp"),
    ("cart.x = ::sqrtf(cart.x)", "tbs::sqrt"),
    ("cart.x = ::atan2(cart.x, cart.v)", "tbs::atan2"),
    ("cart.n = ::rand()", "world.random()"),
]


def program(*statements):
    return PROGRAM.replace("STATEMENT", ";\n    ".join(statements))


def test_systems_may_call_the_engine(compiler):
    result = compiler.gxx(program(*ALLOWED))
    assert result.returncode == 0 and not result.stderr, result.stderr


def test_errors_of_forbidden_calls_name_the_replacement(compiler):
    statements, texts = zip(*FORBIDDEN, *FORBIDDEN_GXX, strict=True)
    result = compiler.gxx(program(*statements))
    assert result.returncode != 0
    first = PROGRAM[: PROGRAM.index("STATEMENT")].count("\n") + 1
    for line, text in enumerate(texts, first):
        assert f"text.cpp:{line}:" in result.stderr and text in result.stderr, (statements[line - first], text)


@pytest.mark.full
def test_nvcc_accepts_the_headers(compiler):
    result = compiler.nvcc(program(*ALLOWED) + KERNEL)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.full
def test_forbidden_calls_under_nvcc(compiler):
    for statement, text in (FORBIDDEN[0], FORBIDDEN[2], FORBIDDEN[9], FORBIDDEN[11]):
        result = compiler.nvcc(program(statement) + KERNEL)
        assert result.returncode != 0
        assert "deleted function" in result.stderr + result.stdout
        assert "only_for" in text or text in result.stderr + result.stdout
