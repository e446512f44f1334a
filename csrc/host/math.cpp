// The engine's functions over arrays, for Python: torch_batchsim/math/array_calls.py compiles this and calls it with ctypes.
//
// A line here says what one element is made from: TBS_EACH(symbol, what, of the elements `a`, `b`, `c` of arrays of these
// types). Python's side names the same types.
#include "tbs/math.h"
#include "tbs/random.h"
#include "tbs/vector.h"

using namespace tbs;

#define TBS_EXPORTED extern "C" __attribute__((visibility("default")))
#define TBS_EACH_1(symbol, Result, expression, A)                             \
    TBS_EXPORTED void symbol(Result *out, const A *first, i64 n) {            \
        for (i64 i = 0; i < n; ++i) {                                         \
            const A a = first[i];                                             \
            out[i] = expression;                                              \
        }                                                                     \
    }
#define TBS_EACH_2(symbol, Result, expression, A, B)                                      \
    TBS_EXPORTED void symbol(Result *out, const A *first, const B *second, i64 n) {       \
        for (i64 i = 0; i < n; ++i) {                                                     \
            const A a = first[i];                                                         \
            const B b = second[i];                                                        \
            out[i] = expression;                                                          \
        }                                                                                 \
    }
#define TBS_EACH_3(symbol, Result, expression, A, B, C)                                               \
    TBS_EXPORTED void symbol(Result *out, const A *first, const B *second, const C *third, i64 n) {   \
        for (i64 i = 0; i < n; ++i) {                                                                 \
            const A a = first[i];                                                                     \
            const B b = second[i];                                                                    \
            const C c = third[i];                                                                     \
            out[i] = expression;                                                                      \
        }                                                                                             \
    }

#define TBS_UNARY(name) TBS_EACH_1(each_##name, f32, name(a), f32)
#define TBS_PREDICATE(name) TBS_EACH_1(each_##name, bool, name(a), f32)
#define TBS_BINARY(name) TBS_EACH_2(each_##name, f32, name(a, b), f32, f32)
#define TBS_OF_VECTORS(X) X(vec2, 2) X(vec3, 3) X(vec4, 4)

TBS_UNARY(sin) TBS_UNARY(cos) TBS_UNARY(tan) TBS_UNARY(asin) TBS_UNARY(acos) TBS_UNARY(atan) TBS_UNARY(exp)
TBS_UNARY(exp2) TBS_UNARY(log) TBS_UNARY(log2) TBS_UNARY(tanh) TBS_UNARY(sqrt) TBS_UNARY(floor) TBS_UNARY(ceil)
TBS_UNARY(trunc) TBS_UNARY(rint) TBS_UNARY(round) TBS_UNARY(abs)
TBS_PREDICATE(isnan) TBS_PREDICATE(isinf) TBS_PREDICATE(isfinite) TBS_PREDICATE(signbit)
TBS_BINARY(atan2) TBS_BINARY(pow) TBS_BINARY(hypot) TBS_BINARY(fmod) TBS_BINARY(min) TBS_BINARY(max)
TBS_BINARY(copysign) TBS_BINARY(divide)
TBS_EACH_3(each_fma, f32, fma(a, b, c), f32, f32, f32)
TBS_EACH_3(each_clamp, f32, clamp(a, b, c), f32, f32, f32)
TBS_EACH_1(each_to_bits, u32, to_bits(a), f32)
TBS_EACH_1(each_from_bits, f32, from_bits(a), u32)
TBS_EACH_1(each_to_i32, i32, to_i32(a), f32)
TBS_EACH_1(each_to_u32, u32, to_u32(a), f32)

#define TBS_OF_VECTOR(Vector, n)                                                       \
    TBS_EACH_2(each_dot_##n, f32, dot(a, b), Vector, Vector)                           \
    TBS_EACH_1(each_length_##n, f32, length(a), Vector)                                \
    TBS_EACH_1(each_length_squared_##n, f32, length_squared(a), Vector)                \
    TBS_EACH_2(each_distance_##n, f32, distance(a, b), Vector, Vector)                 \
    TBS_EACH_1(each_normalize_##n, Vector, normalize(a), Vector)
TBS_OF_VECTORS(TBS_OF_VECTOR)
TBS_EACH_2(each_cross_2, f32, cross(a, b), vec2, vec2)
TBS_EACH_2(each_cross_3, vec3, cross(a, b), vec3, vec3)
TBS_EACH_2(each_rotate_2, vec2, rotate(a, b), vec2, f32)
TBS_EACH_3(each_rotate_by_sine, vec2, rotate(a, b, c), vec2, f32, f32)
TBS_EACH_2(each_rotate_3, vec3, rotate(a, b), vec3, quat)
TBS_EACH_2(each_dot_quat, f32, dot(a, b), quat, quat)
TBS_EACH_2(each_multiply_quat, quat, a * b, quat, quat)
TBS_EACH_1(each_conjugate, quat, conjugate(a), quat)
TBS_EACH_1(each_normalize_quat, quat, normalize(a), quat)
TBS_EACH_2(each_rotation_about, quat, rotation_about(a, b), vec3, f32)

// ---- random numbers: an array of generators, of which each draws once for each element --------------------------------

TBS_EXPORTED i64 random_size() { return sizeof(Random); }

// The name of a stream: a struct of 32 bytes, as math/draws.py has it.
struct StreamName {
    u64 seed;
    u32 node, row, stream, episode, step, unused;
};

TBS_EXPORTED void random_begin(Random *out, const StreamName *names, i64 n) {
    for (i64 i = 0; i < n; ++i) {
        const StreamName &name = names[i];
        out[i] = Random(name.seed, name.node, name.row, name.stream, name.episode, name.step);
    }
}

#define TBS_DRAW_0(symbol, Result, expression)                         \
    TBS_EXPORTED void symbol(Result *out, Random *streams, i64 n) {    \
        for (i64 i = 0; i < n; ++i) {                                  \
            Random &random = streams[i];                               \
            out[i] = expression;                                       \
        }                                                              \
    }
#define TBS_DRAW_1(symbol, Result, expression, A)                                      \
    TBS_EXPORTED void symbol(Result *out, Random *streams, const A *first, i64 n) {    \
        for (i64 i = 0; i < n; ++i) {                                                  \
            Random &random = streams[i];                                               \
            const A a = first[i];                                                      \
            out[i] = expression;                                                       \
        }                                                                              \
    }
#define TBS_DRAW_2(symbol, Result, expression, A, B)                                                    \
    TBS_EXPORTED void symbol(Result *out, Random *streams, const A *first, const B *second, i64 n) {    \
        for (i64 i = 0; i < n; ++i) {                                                                   \
            Random &random = streams[i];                                                                \
            const A a = first[i];                                                                       \
            const B b = second[i];                                                                      \
            out[i] = expression;                                                                        \
        }                                                                                               \
    }

TBS_DRAW_0(random_bits, u32, random.bits())
TBS_DRAW_0(random_uniform, f32, random.uniform())
TBS_DRAW_2(random_uniform_between, f32, random.uniform(a, b), f32, f32)
TBS_DRAW_1(random_below, u32, random.below(a), u32)
TBS_DRAW_2(random_integer, i32, random.integer(a, b), i32, i32)
TBS_DRAW_1(random_chance, bool, random.chance(a), f32)
TBS_DRAW_0(random_normal, f32, random.normal())

TBS_EXPORTED void random_normal_pair(vec2 *out, Random *streams, i64 n) {
    for (i64 i = 0; i < n; ++i) streams[i].normal_pair(out[i].x, out[i].y);
}

// Puts `count` numbers in the order in which shuffle() puts items.
TBS_EXPORTED void random_shuffle(i64 *places, Random *streams, i64 count, i64 n) {
    for (i64 i = 0; i < n; ++i) streams[i].shuffle(places + i * count, u32(count));
}
