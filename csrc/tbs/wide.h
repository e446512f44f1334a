// Floats of several items at once: `F` is f32 (one item: a lane of a GPU), or a vector register of 8 or 16.
//
// Code for an F does the same IEEE operations on every item, so an item's bits depend neither on F nor on its
// neighbours. Names differ from those of tbs/math.h, whose functions take one f32.
#pragma once

#ifdef TBS_EMULATED_CUDA
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#endif

#include "math.h"
#include "platform.h"

// Items in the machine's widest registers; 1 on CUDA and its emulation.
#if defined(TBS_WIDTH)
#elif defined(__CUDACC__) || defined(TBS_ON_DEVICE)
#define TBS_WIDTH 1
#elif defined(__AVX512F__)
#define TBS_WIDTH 16
#elif defined(__AVX2__) && defined(__FMA__)
#define TBS_WIDTH 8
#else
#define TBS_WIDTH 1
#endif

#if TBS_WIDTH == 16
#include "wide_x86.h"
#elif TBS_WIDTH == 8
#include <immintrin.h>
#endif

namespace tbs {

// Numbers in a register, `Wide`. It is 1, and `Wide` an f32, on devices and processors without vector registers.
inline constexpr u32 simd_width = TBS_WIDTH;
// Items of a block: the inner length of an array of structures of arrays.
inline constexpr u32 block_items = simd_width;

// a * b + c and c - a * b, rounded once; min and max as in tbs; a where the condition holds, else b.
TBS_FUNCTION f32 madd(f32 a, f32 b, f32 c) { return fma(a, b, c); }
TBS_FUNCTION f32 nmadd(f32 a, f32 b, f32 c) { return fma(-a, b, c); }
TBS_FUNCTION f32 lesser(f32 a, f32 b) { return min(a, b); }
TBS_FUNCTION f32 greater(f32 a, f32 b) { return max(a, b); }
TBS_FUNCTION f32 root(f32 a) { return sqrt(a); }
TBS_FUNCTION bool below(f32 a, f32 b) { return a < b; }
TBS_FUNCTION f32 pick(bool condition, f32 a, f32 b) { return condition ? a : b; }
TBS_FUNCTION bool holds_for_one(bool condition) { return condition; }
TBS_FUNCTION u32 bits_of(bool condition) { return condition; }  // bit i: whether it holds for item i

#if TBS_WIDTH == 16
using Wide = x86::Sixteen;
using WideCondition = x86::Mask;
TBS_FUNCTION Wide madd(Wide a, Wide b, Wide c) { return x86::fused(a, b, c); }
TBS_FUNCTION Wide nmadd(Wide a, Wide b, Wide c) { return x86::fused_negative(a, b, c); }
TBS_FUNCTION Wide lesser(Wide a, Wide b) { return x86::min(b, a); }
TBS_FUNCTION Wide greater(Wide a, Wide b) { return x86::max(b, a); }
TBS_FUNCTION Wide root(Wide a) { return x86::sqrt(a); }
TBS_FUNCTION WideCondition below(Wide a, Wide b) { return x86::less(a, b); }
TBS_FUNCTION Wide pick(WideCondition condition, Wide a, Wide b) { return x86::blend(condition, b, a); }
TBS_FUNCTION bool holds_for_one(WideCondition condition) { return condition != 0; }
TBS_FUNCTION u32 bits_of(WideCondition condition) { return condition; }
#elif TBS_WIDTH == 8
using Wide = __m256;
struct WideCondition {
    __m256 bits;
};
TBS_FUNCTION Wide madd(Wide a, Wide b, Wide c) { return _mm256_fmadd_ps(a, b, c); }
TBS_FUNCTION Wide nmadd(Wide a, Wide b, Wide c) { return _mm256_fnmadd_ps(a, b, c); }
TBS_FUNCTION Wide lesser(Wide a, Wide b) { return _mm256_min_ps(b, a); }
TBS_FUNCTION Wide greater(Wide a, Wide b) { return _mm256_max_ps(b, a); }
TBS_FUNCTION Wide root(Wide a) { return _mm256_sqrt_ps(a); }
TBS_FUNCTION WideCondition below(Wide a, Wide b) { return {_mm256_cmp_ps(a, b, _CMP_LT_OQ)}; }
TBS_FUNCTION Wide pick(WideCondition condition, Wide a, Wide b) { return _mm256_blendv_ps(b, a, condition.bits); }
TBS_FUNCTION bool holds_for_one(WideCondition condition) { return _mm256_movemask_ps(condition.bits) != 0; }
TBS_FUNCTION u32 bits_of(WideCondition condition) { return u32(_mm256_movemask_ps(condition.bits)); }
#else
using Wide = f32;
#endif

// Bit i is a[i] <= b[i], of 16 integers.
TBS_FUNCTION u32 bits_not_above(const i32 (&a)[16], const i32 (&b)[16]) {
#if TBS_WIDTH == 16
    x86::Ints x, y;
    __builtin_memcpy(&x, a, sizeof(x));
    __builtin_memcpy(&y, b, sizeof(y));
    return x86::not_above(x, y);
#elif TBS_WIDTH == 8
    const auto above = [&](u32 first) {
        const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(a + first));
        const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(b + first));
        return u32(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(x, y))));
    };
    return (above(0) | above(8) << 8) ^ 0xffff;
#else
    u32 bits = 0;
    for (u32 i = 0; i < 16; ++i) bits |= u32(a[i] <= b[i]) << i;
    return bits;
#endif
}

// One number in all items.
template <class F>
TBS_FUNCTION F splat(f32 value) {
#if TBS_WIDTH == 16
    if constexpr (sizeof(F) == 64) return value - F{};  // also of -0
#elif TBS_WIDTH == 8
    if constexpr (sizeof(F) == 32) return _mm256_set1_ps(value);
#endif
    if constexpr (sizeof(F) == 4) return value;
}

// The items of a field from a lane on.
template <class F>
TBS_FUNCTION F load(const f32 *from) {
    if constexpr (sizeof(F) == sizeof(f32)) {
        return *from;  // nvcc would copy its bytes one by one
    } else {
        F items;
        __builtin_memcpy(&items, from, sizeof(F));
        return items;
    }
}
template <class F>
TBS_FUNCTION void store(f32 *to, F items) {
    if constexpr (sizeof(F) == sizeof(f32)) {
        *to = items;
    } else {
        __builtin_memcpy(to, &items, sizeof(F));
    }
}

// ---- rows -----------------------------------------------------------------------------------------------------------
// A row is 8 floats of one body. Items that work on bodies of their own read rows and turn them into 8 F, and back:
// gathers and scatters take 3.5 times as long (docs/physics_solver.md).

// The same pointer, to what is aligned to 16 bytes: so that a device moves it as vectors. At any other address a GPU ends
// with "misaligned address", and a CPU does not: so the emulation of CUDA looks at the address.
template <class T>
TBS_FUNCTION T *in_vectors(T *place) {
#ifdef TBS_EMULATED_CUDA
    if (reinterpret_cast<std::uintptr_t>(place) % 16 != 0) {
        std::fprintf(stderr, "in_vectors: address %p is not aligned to 16 bytes\n", static_cast<const void *>(place));
        std::abort();
    }
#endif
    return static_cast<T *>(__builtin_assume_aligned(place, 16));
}

// What row(i) points to, for each item i. (Rows are aligned to 16 bytes.)
template <class Row>
TBS_FUNCTION void load_rows(Row &&row, f32 (&fields)[8]) {
    const f32 *from = in_vectors(row(0));
    for (u32 k = 0; k < 8; ++k) fields[k] = from[k];
}
template <class Row>
TBS_FUNCTION void store_rows(Row &&row, const f32 (&fields)[8]) {
    f32 *to = in_vectors(row(0));
    for (u32 k = 0; k < 8; ++k) to[k] = fields[k];
}

#if TBS_WIDTH == 16
// In each 128-bit part, item i of register k and item k of register i change places.
TBS_FUNCTION void turn_parts(Wide &a, Wide &b, Wide &c, Wide &d) {
    const x86::Pairs low_ab = x86::low(a, b), high_ab = x86::high(a, b);
    const x86::Pairs low_cd = x86::low(c, d), high_cd = x86::high(c, d);
    a = x86::low(low_ab, low_cd);
    b = x86::high(low_ab, low_cd);
    c = x86::low(high_ab, high_cd);
    d = x86::high(high_ab, high_cd);
}
// Parts 0, 2 of a and of b in turns; parts 1, 3.
TBS_FUNCTION void weave_parts(Wide a, Wide b, Wide &even, Wide &odd) {
    const auto x = x86::Pairs(a), y = x86::Pairs(b);
    even = Wide(x86::chosen(x, x86::Places{0, 1, 8, 9, 4, 5, 12, 13}, y));
    odd = Wide(x86::chosen(x, x86::Places{2, 3, 10, 11, 6, 7, 14, 15}, y));
}
template <class Row>
TBS_FUNCTION void load_rows(Row &&row, Wide (&fields)[8]) {
    Wide r[8];  // rows i and i + 8
    TBS_UNROLL
    for (u32 i = 0; i < 8; ++i) r[i] = x86::joined(load<x86::Eight>(row(i)), load<x86::Eight>(row(i + 8)));
    turn_parts(r[0], r[1], r[2], r[3]);
    turn_parts(r[4], r[5], r[6], r[7]);
    TBS_UNROLL
    for (u32 k = 0; k < 4; ++k) weave_parts(r[k], r[k + 4], fields[k], fields[k + 4]);
}
template <class Row>
TBS_FUNCTION void store_rows(Row &&row, const Wide (&fields)[8]) {
    Wide r[8];
    TBS_UNROLL
    for (u32 k = 0; k < 4; ++k) weave_parts(fields[k], fields[k + 4], r[k], r[k + 4]);
    turn_parts(r[0], r[1], r[2], r[3]);
    turn_parts(r[4], r[5], r[6], r[7]);
    TBS_UNROLL
    for (u32 i = 0; i < 8; ++i) {
        store(row(i), x86::half_of<0>(r[i]));
        store(row(i + 8), x86::half_of<1>(r[i]));
    }
}
#elif TBS_WIDTH == 8
// In each 128-bit part, item i of register k and item k of register i change places.
TBS_FUNCTION void turn_parts(__m256 &a, __m256 &b, __m256 &c, __m256 &d) {
    const __m256d low_ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)),
                  high_ab = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    const __m256d low_cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)),
                  high_cd = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    a = _mm256_castpd_ps(_mm256_unpacklo_pd(low_ab, low_cd));
    b = _mm256_castpd_ps(_mm256_unpackhi_pd(low_ab, low_cd));
    c = _mm256_castpd_ps(_mm256_unpacklo_pd(high_ab, high_cd));
    d = _mm256_castpd_ps(_mm256_unpackhi_pd(high_ab, high_cd));
}
template <class Row>
TBS_FUNCTION void load_rows(Row &&row, __m256 (&fields)[8]) {
    __m256 r[8];
    TBS_UNROLL
    for (u32 i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(row(i));
    turn_parts(r[0], r[1], r[2], r[3]);
    turn_parts(r[4], r[5], r[6], r[7]);
    TBS_UNROLL
    for (u32 k = 0; k < 4; ++k) {
        fields[k] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x20);
        fields[k + 4] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x31);
    }
}
template <class Row>
TBS_FUNCTION void store_rows(Row &&row, const __m256 (&fields)[8]) {
    __m256 r[8];
    TBS_UNROLL
    for (u32 k = 0; k < 4; ++k) {
        r[k] = _mm256_permute2f128_ps(fields[k], fields[k + 4], 0x20);
        r[k + 4] = _mm256_permute2f128_ps(fields[k], fields[k + 4], 0x31);
    }
    turn_parts(r[0], r[1], r[2], r[3]);
    turn_parts(r[4], r[5], r[6], r[7]);
    TBS_UNROLL
    for (u32 i = 0; i < 8; ++i) _mm256_storeu_ps(row(i), r[i]);
}
#endif

// ---- vectors, rotations, matrices of several items
// --------------------------------------------------------------------

template <class F>
struct Vec {
    F x, y, z;
};
template <class F>
struct Rotation {
    F w, x, y, z;
};
template <class F>
struct Inertia {  // symmetric
    F xx, yy, zz, xy, xz, yz;
};

template <class F>
TBS_FUNCTION Vec<F> operator+(Vec<F> a, Vec<F> b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class F>
TBS_FUNCTION Vec<F> operator-(Vec<F> a, Vec<F> b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class F>
TBS_FUNCTION Vec<F> operator*(Vec<F> a, Vec<F> b) {
    return {a.x * b.x, a.y * b.y, a.z * b.z};
}
template <class F>
TBS_FUNCTION Vec<F> scaled(Vec<F> a, F s) {
    return {a.x * s, a.y * s, a.z * s};
}
// c + a s, c + a b by components, c - a b.
template <class F>
TBS_FUNCTION Vec<F> add_scaled(Vec<F> c, Vec<F> a, F s) {
    return {madd(a.x, s, c.x), madd(a.y, s, c.y), madd(a.z, s, c.z)};
}
template <class F>
TBS_FUNCTION Vec<F> add_product(Vec<F> c, Vec<F> a, Vec<F> b) {
    return {madd(a.x, b.x, c.x), madd(a.y, b.y, c.y), madd(a.z, b.z, c.z)};
}
template <class F>
TBS_FUNCTION Vec<F> subtract_product(Vec<F> c, Vec<F> a, Vec<F> b) {
    return {nmadd(a.x, b.x, c.x), nmadd(a.y, b.y, c.y), nmadd(a.z, b.z, c.z)};
}
// The scalar and the vector product.
template <class F>
TBS_FUNCTION F dot(Vec<F> a, Vec<F> b) {
    return madd(a.z, b.z, madd(a.y, b.y, a.x * b.x));
}
template <class F>
TBS_FUNCTION Vec<F> cross(Vec<F> a, Vec<F> b) {
    return {madd(a.y, b.z, -(a.z * b.y)), madd(a.z, b.x, -(a.x * b.z)), madd(a.x, b.y, -(a.y * b.x))};
}
// c + a x b, c - a x b.
template <class F>
TBS_FUNCTION Vec<F> add_cross(Vec<F> c, Vec<F> a, Vec<F> b) {
    return {madd(a.y, b.z, nmadd(a.z, b.y, c.x)), madd(a.z, b.x, nmadd(a.x, b.z, c.y)),
            madd(a.x, b.y, nmadd(a.y, b.x, c.z))};
}
template <class F>
TBS_FUNCTION Vec<F> subtract_cross(Vec<F> c, Vec<F> a, Vec<F> b) {
    return add_cross(c, b, a);
}

template <class F>
TBS_FUNCTION Vec<F> times(const Inertia<F> &m, Vec<F> a) {
    return {madd(m.xz, a.z, madd(m.xy, a.y, m.xx * a.x)), madd(m.yz, a.z, madd(m.yy, a.y, m.xy * a.x)),
            madd(m.zz, a.z, madd(m.yz, a.y, m.xz * a.x))};
}
// c + m a, c - m a.
template <class F>
TBS_FUNCTION Vec<F> add_times(Vec<F> c, const Inertia<F> &m, Vec<F> a) {
    return {madd(m.xz, a.z, madd(m.xy, a.y, madd(m.xx, a.x, c.x))),
            madd(m.yz, a.z, madd(m.yy, a.y, madd(m.xy, a.x, c.y))),
            madd(m.zz, a.z, madd(m.yz, a.y, madd(m.xz, a.x, c.z)))};
}
template <class F>
TBS_FUNCTION Vec<F> subtract_times(Vec<F> c, const Inertia<F> &m, Vec<F> a) {
    return {nmadd(m.xz, a.z, nmadd(m.xy, a.y, nmadd(m.xx, a.x, c.x))),
            nmadd(m.yz, a.z, nmadd(m.yy, a.y, nmadd(m.xy, a.x, c.y))),
            nmadd(m.zz, a.z, nmadd(m.yz, a.y, nmadd(m.xz, a.x, c.z)))};
}
// The inverse; `determinant` is m's. Not finite where that is 0.
template <class F>
TBS_FUNCTION Inertia<F> inverse(const Inertia<F> &m, F &determinant) {
    const F xx = madd(m.yy, m.zz, -(m.yz * m.yz)), xy = madd(m.xz, m.yz, -(m.xy * m.zz)),
            xz = madd(m.xy, m.yz, -(m.xz * m.yy));
    determinant = madd(m.xz, xz, madd(m.xy, xy, m.xx * xx));
    const F scale = splat<F>(1.0f) / determinant;
    return {xx * scale, madd(m.xx, m.zz, -(m.xz * m.xz)) * scale, madd(m.xx, m.yy, -(m.xy * m.xy)) * scale, xy * scale,
            xz * scale, madd(m.xy, m.xz, -(m.xx * m.yz)) * scale};
}

template <class F>
TBS_FUNCTION Rotation<F> operator*(Rotation<F> a, Rotation<F> b) {
    return {nmadd(a.z, b.z, nmadd(a.y, b.y, nmadd(a.x, b.x, a.w * b.w))),
            nmadd(a.z, b.y, madd(a.y, b.z, madd(a.x, b.w, a.w * b.x))),
            madd(a.z, b.x, madd(a.y, b.w, nmadd(a.x, b.z, a.w * b.y))),
            madd(a.z, b.w, nmadd(a.y, b.x, madd(a.x, b.y, a.w * b.z)))};
}
template <class F>
TBS_FUNCTION Rotation<F> conjugate(Rotation<F> q) {
    return {q.w, -q.x, -q.y, -q.z};
}
// a turned by q.
template <class F>
TBS_FUNCTION Vec<F> rotate(Vec<F> a, Rotation<F> q) {
    const Vec<F> v{q.x, q.y, q.z}, half = cross(v, a), t = half + half;
    return add_cross(add_scaled(a, t, q.w), v, t);
}
// Of a length near 1: one step of Newton's method to a unit.
template <class F>
TBS_FUNCTION Rotation<F> renormalized(Rotation<F> q) {
    const F square = madd(q.w, q.w, madd(q.z, q.z, madd(q.y, q.y, q.x * q.x)));
    const F scale = nmadd(splat<F>(0.5f), square, splat<F>(1.5f));
    return {q.w * scale, q.x * scale, q.y * scale, q.z * scale};
}
// The rotation by the rotation vector 2 v, |v| up to pi/4; error 3e-8.
template <class F>
TBS_FUNCTION Rotation<F> turn_by(Vec<F> v) {
    const F y = dot(v, v), one = splat<F>(1.0f);
    F sine = madd(y, splat<F>(1.0f / 362880), splat<F>(-1.0f / 5040)),
      cosine = madd(y, splat<F>(1.0f / 40320), splat<F>(-1.0f / 720));
    sine = madd(y, madd(y, madd(y, sine, splat<F>(1.0f / 120)), splat<F>(-1.0f / 6)), one);
    cosine = madd(y, madd(y, madd(y, cosine, splat<F>(1.0f / 24)), splat<F>(-0.5f)), one);
    return {cosine, v.x * sine, v.y * sine, v.z * sine};
}
// The matrix of a body's frame in the world's.
template <class F>
TBS_FUNCTION Inertia<F> turned(const Inertia<F> &m, Rotation<F> q) {
    const F one = splat<F>(1.0f), two = splat<F>(2.0f);
    const F x = q.x * two, y = q.y * two, z = q.z * two;
    const Vec<F> r0{nmadd(y, q.y, nmadd(z, q.z, one)), madd(x, q.y, -(z * q.w)), madd(x, q.z, y * q.w)};
    const Vec<F> r1{madd(x, q.y, z * q.w), nmadd(x, q.x, nmadd(z, q.z, one)), madd(y, q.z, -(x * q.w))};
    const Vec<F> r2{madd(x, q.z, -(y * q.w)), madd(y, q.z, x * q.w), nmadd(x, q.x, nmadd(y, q.y, one))};
    const Vec<F> m0 = times(m, r0), m1 = times(m, r1), m2 = times(m, r2);
    return {dot(r0, m0), dot(r1, m1), dot(r2, m2), dot(r0, m1), dot(r0, m2), dot(r1, m2)};
}

// From and to fields side by side, at a lane.
template <class F>
TBS_FUNCTION Vec<F> load_vec(const f32 (*fields)[block_items], u32 lane) {
    return {load<F>(fields[0] + lane), load<F>(fields[1] + lane), load<F>(fields[2] + lane)};
}
template <class F>
TBS_FUNCTION void store_vec(f32 (*fields)[block_items], u32 lane, Vec<F> a) {
    store(fields[0] + lane, a.x);
    store(fields[1] + lane, a.y);
    store(fields[2] + lane, a.z);
}
template <class F>
TBS_FUNCTION Inertia<F> load_inertia(const f32 (*fields)[block_items], u32 lane) {
    return {load<F>(fields[0] + lane), load<F>(fields[1] + lane), load<F>(fields[2] + lane),
            load<F>(fields[3] + lane), load<F>(fields[4] + lane), load<F>(fields[5] + lane)};
}
template <class F>
TBS_FUNCTION void store_inertia(f32 (*fields)[block_items], u32 lane, const Inertia<F> &m) {
    store(fields[0] + lane, m.xx);
    store(fields[1] + lane, m.yy);
    store(fields[2] + lane, m.zz);
    store(fields[3] + lane, m.xy);
    store(fields[4] + lane, m.xz);
    store(fields[5] + lane, m.yz);
}
template <class F>
TBS_FUNCTION Rotation<F> load_rotation(const f32 (*fields)[block_items], u32 lane) {
    return {load<F>(fields[0] + lane), load<F>(fields[1] + lane), load<F>(fields[2] + lane), load<F>(fields[3] + lane)};
}
template <class F>
TBS_FUNCTION void store_rotation(f32 (*fields)[block_items], u32 lane, Rotation<F> q) {
    store(fields[0] + lane, q.w);
    store(fields[1] + lane, q.x);
    store(fields[2] + lane, q.y);
    store(fields[3] + lane, q.z);
}

}  // namespace tbs
