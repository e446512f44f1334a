// csrc/tbs/math.h behind a C interface, for test_math.py: each function as a plain loop, which must
// vectorise, and called for one element at a time. One function per line: a test finds it in g++'s report.
#include "tbs/math.h"

using namespace tbs;

#define UNARY_AS(name, expression)                                                     \
    extern "C" void loop_##name(const f32 *__restrict x, f32 *__restrict y, i64 n) {   \
        for (i64 i = 0; i < n; i++) y[i] = [](f32 x) { return expression; }(x[i]);     \
    }                                                                                  \
    __attribute__((noipa)) static f32 one_##name(f32 x) { return expression; }         \
    extern "C" void each_##name(const f32 *x, f32 *y, i64 n) {                         \
        for (i64 i = 0; i < n; i++) y[i] = one_##name(x[i]);                           \
    }
#define UNARY(name) UNARY_AS(name, tbs::name(x))
#define PREDICATE(name) UNARY_AS(name, (tbs::name(x) ? 1.0f : 0.0f))
#define CONVERSION(name) UNARY_AS(name, from_bits(u32(tbs::name(x))))
#define BINARY(name)                                                                            \
    extern "C" void loop_##name(const f32 *__restrict a, const f32 *__restrict b,               \
                                f32 *__restrict y, i64 n) {                                     \
        for (i64 i = 0; i < n; i++) y[i] = tbs::name(a[i], b[i]);                               \
    }                                                                                           \
    __attribute__((noipa)) static f32 one_##name(f32 a, f32 b) { return tbs::name(a, b); }      \
    extern "C" void each_##name(const f32 *a, const f32 *b, f32 *y, i64 n) {                    \
        for (i64 i = 0; i < n; i++) y[i] = one_##name(a[i], b[i]);                              \
    }

UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(exp)
UNARY(exp2)
UNARY(log)
UNARY(log2)
UNARY(tanh)
UNARY(sqrt)
UNARY(floor)
UNARY(ceil)
UNARY(trunc)
UNARY(rint)
UNARY(round)
UNARY(abs)
PREDICATE(isnan)
PREDICATE(isinf)
PREDICATE(isfinite)
PREDICATE(signbit)
CONVERSION(to_i32)
CONVERSION(to_u32)
BINARY(atan2)
BINARY(pow)
BINARY(hypot)
BINARY(fmod)
BINARY(min)
BINARY(max)
BINARY(copysign)
BINARY(divide)

extern "C" void loop_sincos(const f32 *__restrict x, f32 *__restrict s, f32 *__restrict c, i64 n) {
    for (i64 i = 0; i < n; i++) sincos(x[i], s[i], c[i]);
}

// What arguments of mixed types give.
static_assert(std::is_same_v<decltype(sin(1)), f32>);
static_assert(std::is_same_v<decltype(pow(1.0f, 2)), f32>);
static_assert(std::is_same_v<decltype(sqrt(2)), f32> && std::is_same_v<decltype(sqrt(2.0)), f64>);
static_assert(std::is_same_v<decltype(floor(1.0)), f64> && std::is_same_v<decltype(round(1.0)), f64>);
static_assert(std::is_same_v<decltype(fma(1.0, 2.0, 3.0)), f64>);
static_assert(std::is_same_v<decltype(max(1.0f, 0)), f32> && std::is_same_v<decltype(max(1, 2)), i32>);
static_assert(std::is_same_v<decltype(min(1.0f, 0.5)), f64>);
static_assert(std::is_same_v<decltype(clamp(1.0f, 0, 1)), f32>);
static_assert(std::is_same_v<decltype(abs(-1)), i32> && std::is_same_v<decltype(abs(-1.0f)), f32>);
