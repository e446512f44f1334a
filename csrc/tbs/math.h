// Elementary functions that give the same bits under g++ and nvcc, scalar or vectorised, at any -O level.
//
// Why not libm: its scalar, its vector and CUDA's versions all round differently. Here every function is a
// fixed sequence of IEEE operations (+ - * / sqrt fma rint and integer ones), which are exact everywhere,
// without a branch or a table, so that g++ vectorises a plain loop that calls it.
//
// What keeps the bits equal:
//  - no product is added with a bare + or -: where the two meet it is fma(), so nothing is left to contract;
//  - on CUDA fma, / and sqrt are the _rn intrinsics, which -fmad, -prec-div and -prec-sqrt do not change;
//  - the compiler must neither reassociate nor flush subnormals: no -ffast-math, no -ftz=true. For speed
//    give g++ -fno-math-errno -fno-trapping-math, which change no result.
// Only the sign and payload of a NaN may differ between processors.
//
// Accuracy and ranges are measured: docs/math.md. "1 ulp" is one unit in the last place of the f32 result.
// Coefficients come from tests/oracles/derive_polynomials.py (minimax fits by the Remez exchange). sin, cos
// and sincos are pure f32, the hot ones. The rest is evaluated in f64, which makes it short and nearly
// correctly rounded; mind that a GPU without fast f64 pays for them.
//
// Arguments: integers convert to f32. An f64 argument is a compile error for the functions that exist in f32
// only: write 0.5f, or say f32(x). sqrt, abs, fma, rounding, min, max, clamp and the like exist for f64 too.
#pragma once

#include <concepts>
#include <type_traits>

#include "platform.h"

namespace tbs {

inline constexpr f32 pi = 0x1.921fb6p+1f;
inline constexpr f32 half_pi = 0x1.921fb6p+0f;
inline constexpr f32 tau = 0x1.921fb6p+2f;           // 2 pi, one turn
inline constexpr f32 infinity = __builtin_huge_valf();
inline constexpr f32 largest = 0x1.fffffep+127f;     // the largest finite f32
inline constexpr f32 epsilon = 0x1p-23f;             // the distance from 1 to the next f32

template <class T>
concept WideFloat = std::is_floating_point_v<T> && !std::is_same_v<T, f32>;
template <class T>
concept Float64 = std::is_same_v<T, f64>;
template <class T>
concept Number = std::is_arithmetic_v<T>;

// The return types of deleted functions: they stand in the compiler's message.
struct only_for_f32_write_a_literal_as_0_5f_or_cast {};
struct f32_and_f64_arguments_mixed_write_a_literal_as_0_5f_or_cast {};

// Declares `name` for wider floats as deleted, so that an f64 argument fails instead of being rounded
// silently.
#define TBS_F32_ONLY(name)            \
    template <class... T>             \
        requires(WideFloat<T> || ...) \
    only_for_f32_write_a_literal_as_0_5f_or_cast name(T...) = delete
// The same for a mixture of f32 and f64, where both exist.
#define TBS_ONE_FLOAT_TYPE(name)                                  \
    template <class... T>                                         \
        requires((WideFloat<T> || ...) && !(WideFloat<T> && ...)) \
    f32_and_f64_arguments_mixed_write_a_literal_as_0_5f_or_cast name(T...) = delete

// ---- bits -----------------------------------------------------------------------------------------------

// The bits of a float, and back.
TBS_FUNCTION u32 to_bits(f32 x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    return __builtin_bit_cast(u32, x);
#endif
}
TBS_FUNCTION f32 from_bits(u32 bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    return __builtin_bit_cast(f32, bits);
#endif
}
TBS_FUNCTION u64 to_bits64(f64 x) {
#if defined(__CUDA_ARCH__)
    return u64(__double_as_longlong(x));
#else
    return __builtin_bit_cast(u64, x);
#endif
}
TBS_FUNCTION f64 from_bits64(u64 bits) {
#if defined(__CUDA_ARCH__)
    return __longlong_as_double(i64(bits));
#else
    return __builtin_bit_cast(f64, bits);
#endif
}

// Is x a NaN? Looks at the bits, so that fast_math cannot assume the answer.
TBS_FUNCTION bool isnan(f32 x) { return (to_bits(x) & 0x7fffffffu) > 0x7f800000u; }
template <Float64 T>
TBS_FUNCTION bool isnan(T x) { return (to_bits64(x) & ~(1ull << 63)) > 0x7ffull << 52; }
// Is x infinite?
TBS_FUNCTION bool isinf(f32 x) { return (to_bits(x) & 0x7fffffffu) == 0x7f800000u; }
template <Float64 T>
TBS_FUNCTION bool isinf(T x) { return (to_bits64(x) & ~(1ull << 63)) == 0x7ffull << 52; }
// Is x neither infinite nor NaN?
TBS_FUNCTION bool isfinite(f32 x) { return (to_bits(x) & 0x7fffffffu) < 0x7f800000u; }
template <Float64 T>
TBS_FUNCTION bool isfinite(T x) { return (to_bits64(x) & ~(1ull << 63)) < 0x7ffull << 52; }
// Is the sign bit set? True for -0 too.
TBS_FUNCTION bool signbit(f32 x) { return to_bits(x) >> 31; }
template <Float64 T>
TBS_FUNCTION bool signbit(T x) { return to_bits64(x) >> 63; }

// x without its sign, exact: abs(-0) is +0.
TBS_FUNCTION f32 abs(f32 x) { return from_bits(to_bits(x) & 0x7fffffffu); }
template <Float64 T>
TBS_FUNCTION T abs(T x) { return from_bits64(to_bits64(x) & ~(1ull << 63)); }
template <std::signed_integral T>
TBS_FUNCTION T abs(T x) { return x < 0 ? T(-x) : x; }
// `size` with the sign of `sign`, exact.
TBS_FUNCTION f32 copysign(f32 size, f32 sign) {
    return from_bits((to_bits(size) & 0x7fffffffu) | (to_bits(sign) & 0x80000000u));
}
template <Float64 T>
TBS_FUNCTION T copysign(T size, T sign) {
    return from_bits64((to_bits64(size) & ~(1ull << 63)) | (to_bits64(sign) & 1ull << 63));
}
TBS_ONE_FLOAT_TYPE(copysign);

// ---- exact or correctly rounded operations --------------------------------------------------------------

// a * b + c, rounded once (IEEE).
TBS_FUNCTION f32 fma(f32 a, f32 b, f32 c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}
template <Float64 T>
TBS_FUNCTION T fma(T a, T b, T c) {
#if defined(__CUDA_ARCH__)
    return __fma_rn(a, b, c);
#else
    return __builtin_fma(a, b, c);
#endif
}
TBS_ONE_FLOAT_TYPE(fma);

// The square root, correctly rounded (IEEE): -0 of -0, NaN below.
TBS_FUNCTION f32 sqrt(f32 x) {
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}
template <Float64 T>
TBS_FUNCTION T sqrt(T x) {
#if defined(__CUDA_ARCH__)
    return __dsqrt_rn(x);
#else
    return __builtin_sqrt(x);
#endif
}

// a / b, correctly rounded even under -prec-div or fast_math.
TBS_FUNCTION f32 divide(f32 a, f32 b) {
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}
template <Float64 T>
TBS_FUNCTION T divide(T a, T b) {
#if defined(__CUDA_ARCH__)
    return __ddiv_rn(a, b);
#else
    return a / b;
#endif
}
TBS_ONE_FLOAT_TYPE(divide);

#if defined(__CUDA_ARCH__)
#define TBS_BUILTIN(name) ::name
#else
#define TBS_BUILTIN(name) __builtin_##name
#endif
// To an integer: down, up, towards zero, to nearest with ties to even. Exact; keeps the sign of zero.
TBS_FUNCTION f32 floor(f32 x) { return TBS_BUILTIN(floorf)(x); }
TBS_FUNCTION f32 ceil(f32 x) { return TBS_BUILTIN(ceilf)(x); }
TBS_FUNCTION f32 trunc(f32 x) { return TBS_BUILTIN(truncf)(x); }
TBS_FUNCTION f32 rint(f32 x) { return TBS_BUILTIN(rintf)(x); }
template <Float64 T>
TBS_FUNCTION T floor(T x) { return TBS_BUILTIN(floor)(x); }
template <Float64 T>
TBS_FUNCTION T ceil(T x) { return TBS_BUILTIN(ceil)(x); }
template <Float64 T>
TBS_FUNCTION T trunc(T x) { return TBS_BUILTIN(trunc)(x); }
template <Float64 T>
TBS_FUNCTION T rint(T x) { return TBS_BUILTIN(rint)(x); }
#undef TBS_BUILTIN
// To the nearest integer, ties away from zero, exact. rint() is cheaper.
TBS_FUNCTION f32 round(f32 x) {
    f32 whole = trunc(x);
    return copysign(whole + (abs(x - whole) >= 0.5f ? copysign(1.0f, x) : 0.0f), x);
}
template <Float64 T>
TBS_FUNCTION T round(T x) {
    f64 whole = trunc(x);
    return copysign(whole + (abs(x - whole) >= 0.5 ? copysign(1.0, x) : 0.0), x);
}

template <class A, class B>
inline constexpr bool same_signedness =
    std::is_floating_point_v<A> || std::is_floating_point_v<B> || std::is_signed_v<A> == std::is_signed_v<B>;

namespace detail {

// nvcc makes min.f32 of `b < a ? b : a` with a zero, of which -0 is then less than +0, and its assembler .SAT of
// max(0, min(1, x)), which is 0 for a NaN. setp and selp are kept, or become an instruction with the same results;
// compared with other signs the assembler does not see a minimum.
template <class T>
TBS_FUNCTION T lesser(T a, T b) { return b < a ? b : a; }
template <class T>
TBS_FUNCTION T greater(T a, T b) { return a < b ? b : a; }
#if defined(__CUDA_ARCH__)
TBS_FUNCTION f32 lesser(f32 a, f32 b) {
    f32 found;
    asm("{.reg .pred p; setp.gt.f32 p, %3, %4; selp.f32 %0, %2, %1, p;}"
        : "=f"(found) : "f"(a), "f"(b), "f"(-b), "f"(-a));
    return found;
}
TBS_FUNCTION f32 greater(f32 a, f32 b) {
    f32 found;
    asm("{.reg .pred p; setp.lt.f32 p, %1, %2; selp.f32 %0, %2, %1, p;}" : "=f"(found) : "f"(a), "f"(b));
    return found;
}
TBS_FUNCTION f64 lesser(f64 a, f64 b) {
    f64 found;
    asm("{.reg .pred p; setp.lt.f64 p, %2, %1; selp.f64 %0, %2, %1, p;}" : "=d"(found) : "d"(a), "d"(b));
    return found;
}
TBS_FUNCTION f64 greater(f64 a, f64 b) {
    f64 found;
    asm("{.reg .pred p; setp.lt.f64 p, %1, %2; selp.f64 %0, %2, %1, p;}" : "=d"(found) : "d"(a), "d"(b));
    return found;
}
#endif

}  // namespace detail

// In the common type of both: min(x, 0) of an f32 x is an f32. As std::min: the first one if they are equal (-0 and +0
// are) or one is a NaN.
template <Number A, Number B>
TBS_FUNCTION auto min(A a, B b) {
    static_assert(same_signedness<A, B>, "tbs::min: one argument is signed, the other is not: cast one");
    using T = std::common_type_t<A, B>;
    return detail::lesser(T(a), T(b));
}
template <Number A, Number B>
TBS_FUNCTION auto max(A a, B b) {
    static_assert(same_signedness<A, B>, "tbs::max: one argument is signed, the other is not: cast one");
    using T = std::common_type_t<A, B>;
    return detail::greater(T(a), T(b));
}
// x limited to [low, high], low <= high. A NaN x stays a NaN.
template <Number X, Number Low, Number High>
TBS_FUNCTION auto clamp(X x, Low low, High high) { return min(max(x, low), high); }

// The integer towards zero; beyond the range its nearest end, 0 of a NaN. i32(x) is undefined there.
TBS_FUNCTION i32 to_i32(f32 x) {
#if defined(__CUDA_ARCH__)
    return __float2int_rz(x);
#else
    const bool fits = abs(x) < 0x1p31f;
    const i32 whole = i32(fits ? x : 0.0f), beyond = x < 0 ? -0x7fffffff - 1 : x > 0 ? 0x7fffffff : 0;
    return fits ? whole : beyond;
#endif
}
// The same as u32.
TBS_FUNCTION u32 to_u32(f32 x) {
#if defined(__CUDA_ARCH__)
    return __float2uint_rz(x);
#else
    const bool fits = x > 0 && x < 0x1p32f;
    const u32 whole = u32(fits ? x : 0.0f);
    return x >= 0x1p32f ? 0xffffffffu : whole;
#endif
}
TBS_F32_ONLY(to_i32);
TBS_F32_ONLY(to_u32);

// ---- helpers of this header -----------------------------------------------------------------------------

namespace detail {

// c0 + x (c1 + x (c2 + ...)), one fma for each step (Horner).
template <class T>
TBS_FUNCTION T polynomial(T, T c0) { return c0; }
template <class T, class... C>
TBS_FUNCTION T polynomial(T x, T c0, C... rest) { return fma(polynomial(x, rest...), x, c0); }

TBS_FUNCTION f32 nan() { return from_bits(0x7fc00000u); }

// Adding 1.5 * 2^(mantissa bits) rounds to an integer and leaves that integer in the low bits of the sum.
// Unlike a conversion to int it has no undefined case, and AVX2 has it for 64 bits.
inline constexpr f32 integer_shift = 0x1.8p+23f;
inline constexpr f64 integer_shift64 = 0x1.8p+52;

inline constexpr f64 ln2 = 0x1.62e42fefa39efp-1;
inline constexpr f64 log2e = 0x1.71547652b82fep+0;
inline constexpr f64 pi64 = 0x1.921fb54442d18p+1;

}  // namespace detail

// ---- sine, cosine, tangent ------------------------------------------------------------------------------

// The largest argument of sin, cos, sincos and tan: 2^20 rad. Beyond it they give NaN, because neighbouring f32 lie
// 1/16 rad or more apart. Wrap angles that keep growing.
inline constexpr f32 largest_angle = 0x1p+20f;

namespace detail {

// x = quadrant * pi/2 + r + tail, for x >= 0, with |r| < 0.82 and |tail| <= ulp(r)/2.
struct ReducedAngle {
    f32 r, tail;
    u32 quadrant;      // only its low two bits mean something
};

// Reduction by three parts of pi/2 (Cody and Waite 1980). With |quadrant| < 2^20 the first subtraction is
// exact (both terms are multiples of 2^-23, or of less where x is small, and the difference is below 1); the
// second is kept as a sum of two floats (Knuth's TwoSum), since it can cancel when x is close to a multiple
// of pi/2.
TBS_FUNCTION ReducedAngle reduce_angle(f32 x) {
    x = x <= largest_angle ? x : nan();
    f32 shifted = fma(x, 0x1.45f306p-1f, integer_shift);
    f32 k = shifted - integer_shift;
    f32 a = fma(k, -0x1.921fb6p+0f, x);
    f32 b = fma(k, 0x1.777a5cp-25f, -0.0f);      // a bare product might be contracted into the sums below
    f32 tail = fma(k, 0x1.ee59dap-50f, fma(k, 0x1.777a5cp-25f, -b));
    f32 r = a + b;
    f32 b_in_r = r - a;
    tail = ((a - (r - b_in_r)) + (b - b_in_r)) + tail;
    return {r, tail, to_bits(shifted)};
}

}  // namespace detail

// Sine and cosine of x in radians; error below 0.95 ulp; NaN beyond largest_angle.
TBS_FUNCTION void sincos(f32 x, f32 &sine, f32 &cosine) {
    auto [r, tail, quadrant] = detail::reduce_angle(abs(x));
    f32 t = r * r;
    // sin(r + tail) = r + (tail + r^3 p(r^2))
    f32 p = detail::polynomial(t, -0x1.55554p-3f, 0x1.11054p-7f, -0x1.989cb8p-13f);
    f32 s = r + fma(p, r * t, tail);
    // cos(r + tail) = 1 - r^2/2 (kept as a sum of two floats) - r tail + r^4 q(r^2)
    f32 q = detail::polynomial(t, 0x1.55554cp-5f, -0x1.6c0ca6p-10f, 0x1.99e98p-16f);
    f32 minus_half_r = -0.5f * r;
    f32 head = fma(minus_half_r, r, 1.0f);
    f32 rest = fma(minus_half_r, r, 1.0f - head);
    f32 c = head + fma(q * t, t, fma(-r, tail, rest));
    bool swap = quadrant & 1;
    sine = from_bits(to_bits(swap ? c : s) ^ (quadrant & 2) << 30 ^ (to_bits(x) & 0x80000000u));
    cosine = from_bits(to_bits(swap ? s : c) ^ ((quadrant + 1) & 2) << 30);
}

// The sine of x in radians; error below 0.95 ulp; NaN beyond largest_angle.
TBS_FUNCTION f32 sin(f32 x) {
    f32 sine, cosine;
    sincos(x, sine, cosine);
    return sine;
}
// The cosine of x in radians; error below 0.95 ulp; NaN beyond largest_angle.
TBS_FUNCTION f32 cos(f32 x) {
    f32 sine, cosine;
    sincos(x, sine, cosine);
    return cosine;
}
TBS_F32_ONLY(sincos);
TBS_F32_ONLY(sin);
TBS_F32_ONLY(cos);

// The tangent of x in radians; error below 0.51 ulp; NaN beyond largest_angle.
TBS_FUNCTION f32 tan(f32 x) {
    auto [head, tail, quadrant] = detail::reduce_angle(abs(x));
    f64 r = f64(head) + f64(tail);
    f64 t = r * r;
    f64 p = detail::polynomial(t, -0x1.5555554a74357p-3, 0x1.111105f047226p-7, -0x1.a00d347bce645p-13,
                               0x1.6c417ee2f2381p-19);
    f64 s = fma(p * t, r, r);
    f64 c = detail::polynomial(t, 1.0, -0x1.ffffffffe79f9p-2, 0x1.5555554211caep-5, -0x1.6c16afe2d7e03p-10,
                               0x1.a00cb3985a043p-16, -0x1.23677921ed75fp-22);
    bool swap = quadrant & 1;
    f32 result = f32(divide(swap ? -c : s, swap ? s : c));
    return from_bits(to_bits(result) ^ (to_bits(x) & 0x80000000u));
}
TBS_F32_ONLY(tan);

// ---- inverse trigonometric functions --------------------------------------------------------------------

namespace detail {

// The angle of the point (x, y) in [0, pi], y >= 0; relative error 2^-35. The argument of the arctangent is
// brought to [0, 1] by swapping x and y.
TBS_FUNCTION f64 angle_of(f64 y, f64 x) {
    f64 size = abs(x);
    bool steep = size < y;
    f64 shorter = steep ? size : y, longer = steep ? y : size;
    f64 z = divide(shorter, longer);
    z = shorter == longer ? (longer > 0 ? 1.0 : 0.0) : z;      // also where both are zero, or both infinite
    f64 t = z * z;
    f64 p = polynomial(t, -0x1.5555554244adap-2, 0x1.99998b1db14f0p-3, -0x1.2490a02c50fb3p-3,
                       0x1.c6ee612954d23p-4, -0x1.72ef36d99b8ebp-4, 0x1.33dd75d11e4fep-4,
                       -0x1.f0cbed62f575dp-5, 0x1.6a2b406c4c4eep-5, -0x1.b2266ab3c2749p-6,
                       0x1.7f4a22923a1bbp-7, -0x1.adbb31697bd5ap-9, 0x1.c30f88dad3874p-12);
    f64 angle = fma(p * t, z, z);
    angle = steep ? 0.5 * pi64 - angle : angle;
    angle = signbit(x) ? pi64 - angle : angle;
    return isnan(x) || isnan(y) ? x + y : angle;
}

}  // namespace detail

// The angle of the point (x, y) in [-pi, pi]; error below 0.51 ulp. Zeros and infinities as in C.
TBS_FUNCTION f32 atan2(f32 y, f32 x) { return copysign(f32(detail::angle_of(abs(f64(y)), f64(x))), y); }
// The inverse tangent, in [-pi/2, pi/2]; error below 0.51 ulp.
TBS_FUNCTION f32 atan(f32 x) { return atan2(x, 1.0f); }
// The inverse sine, in [-pi/2, pi/2]; error below 0.51 ulp; NaN if |x| > 1.
TBS_FUNCTION f32 asin(f32 x) {
    f64 size = abs(f64(x));
    return copysign(f32(detail::angle_of(size, sqrt(fma(-size, size, 1.0)))), x);
}
// The inverse cosine, in [0, pi]; error below 0.51 ulp; NaN if |x| > 1.
TBS_FUNCTION f32 acos(f32 x) { return f32(detail::angle_of(sqrt(fma(-f64(x), f64(x), 1.0)), f64(x))); }
TBS_F32_ONLY(atan2);
TBS_F32_ONLY(atan);
TBS_F32_ONLY(asin);
TBS_F32_ONLY(acos);

// ---- exponential and logarithm --------------------------------------------------------------------------

namespace detail {

// 2^k with k = shifted - integer_shift64, |k| < 1023: the integer in the low bits becomes the exponent.
TBS_FUNCTION f64 power_of_two(f64 shifted) { return from_bits64((to_bits64(shifted) + 1023) << 52); }

// exp(r) - 1 for |r| <= ln(2)/2; relative error 2^-34.
TBS_FUNCTION f64 small_expm1(f64 r) {
    f64 p = polynomial(r, 0x1.00000008f8ec3p-1, 0x1.5555556743e2ep-3, 0x1.55552fec90b3cp-5,
                       0x1.1110c652e1ad5p-7, 0x1.6c648c3702482p-10, 0x1.a1514363ab016p-13,
                       0x1.4432053b516b2p-16);
    return fma(p * r, r, r);
}

// exp(x) = scale + scale * rest, for |x| < 700.
struct Exponential {
    f64 scale, rest;
};
TBS_FUNCTION Exponential exp_of(f64 x) {
    f64 shifted = fma(x, log2e, integer_shift64);
    f64 r = fma(shifted - integer_shift64, -ln2, x);
    return {power_of_two(shifted), small_expm1(r)};
}

// 2^x for |x| < 1000; relative error 2^-34.
TBS_FUNCTION f64 exp2_of(f64 x) {
    f64 k = rint(x);
    f64 r = (x - k) * ln2;
    f64 scale = power_of_two(k + integer_shift64);
    return fma(small_expm1(r), scale, scale);
}

// log(x) = exponent * ln(2) + rest, for normal x > 0; relative error 2^-40. x = 2^exponent (1 + f) with 1 +
// f in [sqrt(1/2), sqrt(2)), so that nothing cancels near 1.
struct Logarithm {
    f64 exponent, rest;
};
TBS_FUNCTION Logarithm log_of(f64 x) {
    u64 bits = to_bits64(x);
    u64 above = bits - 0x3fe6a09e667f3bcdull;                  // the bits of sqrt(1/2)
    f64 exponent = i32(u32(above >> 32)) >> 20;
    f64 f = from_bits64(bits - (above & 0xfff0000000000000ull)) - 1.0;
    f64 p = polynomial(f, -0x1.ffffffff6e5fbp-2, 0x1.55555554e03f9p-2, -0x1.0000009f8cc09p-2,
                       0x1.99999b5ca9d72p-3, -0x1.5554f1dc84e90p-3, 0x1.24917fb4cc69cp-3,
                       -0x1.000d05426d9cfp-3, 0x1.c7624879030f0p-4, -0x1.980e73d6d5d46p-4,
                       0x1.6eda34184d5a1p-4, -0x1.5dab32c943a6bp-4, 0x1.6cc7283e08ccbp-4,
                       -0x1.3bfc604de0a12p-4, 0x1.0e05d54c4bf0ep-5);
    return {exponent, fma(p * f, f, f)};
}

// The logarithm of x, given its value computed as for a positive finite x.
TBS_FUNCTION f32 log_special(f32 x, f64 value) {
    f32 result = x == infinity ? infinity : f32(value);
    return x > 0 ? result : x == 0 ? -infinity : nan();
}

}  // namespace detail

// e^x; error below 0.51 ulp, subnormal results too.
TBS_FUNCTION f32 exp(f32 x) {
    auto [scale, rest] = detail::exp_of(clamp(f64(x), -104.0, 89.0));  // beyond, it is 0 or infinity already
    return f32(fma(rest, scale, scale));
}
// 2^x; error below 0.51 ulp, exact for integers.
TBS_FUNCTION f32 exp2(f32 x) { return f32(detail::exp2_of(clamp(f64(x), -151.0, 129.0))); }
// The natural logarithm; error below 0.51 ulp; log(0) is -infinity, below NaN.
TBS_FUNCTION f32 log(f32 x) {
    auto [exponent, rest] = detail::log_of(f64(x));
    return detail::log_special(x, fma(exponent, detail::ln2, rest));
}
// The logarithm to base 2; error below 0.51 ulp, exact for powers of two.
TBS_FUNCTION f32 log2(f32 x) {
    auto [exponent, rest] = detail::log_of(f64(x));
    return detail::log_special(x, fma(rest, detail::log2e, exponent));
}
// x to the power y; error below 0.51 ulp. Special cases as in C: pow(x, 0) and pow(1, y) are 1 even for a NaN; a
// negative x needs an integer y.
TBS_FUNCTION f32 pow(f32 x, f32 y) {
    f32 size = abs(x);
    auto [exponent, rest] = detail::log_of(f64(size));
    f64 logarithm = fma(rest, detail::log2e, exponent);
    logarithm = size == 0 ? -f64(infinity) : size == infinity ? f64(infinity) : logarithm;
    f32 result = f32(detail::exp2_of(clamp(f64(y) * logarithm, -151.0, 129.0)));
    bool whole = trunc(y) == y;
    bool odd = whole && trunc(0.5f * y) != 0.5f * y;
    result = signbit(x) && odd ? -result : result;
    result = x < 0 && size != infinity && !whole ? detail::nan() : result;
    result = isnan(x) || isnan(y) ? detail::nan() : result;
    return y == 0 || x == 1 || (x == -1 && isinf(y)) ? 1.0f : result;
}
// The hyperbolic tangent; error below 0.51 ulp.
TBS_FUNCTION f32 tanh(f32 x) {  // with e = exp(2 |x|) - 1 it is e / (e + 2)
    auto [scale, rest] = detail::exp_of(min(2.0 * abs(f64(x)), 20.0));  // tanh(10) rounds to 1
    f64 e = fma(rest, scale, scale - 1.0);
    return copysign(f32(divide(e, e + 2.0)), x);
}
TBS_F32_ONLY(exp);
TBS_F32_ONLY(exp2);
TBS_F32_ONLY(log);
TBS_F32_ONLY(log2);
TBS_F32_ONLY(pow);
TBS_F32_ONLY(tanh);

// ---- others ---------------------------------------------------------------------------------------------

// sqrt(x^2 + y^2) without overflow on the way; error below 0.51 ulp; infinite if one is, even beside a NaN.
TBS_FUNCTION f32 hypot(f32 x, f32 y) {
    f32 length = f32(sqrt(fma(f64(x), f64(x), f64(y) * f64(y))));
    return isinf(x) || isinf(y) ? infinity : length;
}
// The remainder of x / y with the sign of x, exact while |x / y| < 2^28; NaN beyond, and for y = 0.
TBS_FUNCTION f32 fmod(f32 x, f32 y) {
    f64 dividend = abs(f64(x)), divisor = abs(f64(y));
    f64 quotient = divide(dividend, divisor);
    f64 remainder = fma(-trunc(quotient), divisor, dividend);
    remainder = divisor == f64(infinity) ? dividend : remainder;
    return quotient < 0x1p28 ? copysign(f32(remainder), x) : detail::nan();
}
TBS_F32_ONLY(hypot);
TBS_F32_ONLY(fmod);

#undef TBS_F32_ONLY
#undef TBS_ONE_FLOAT_TYPE

}  // namespace tbs
