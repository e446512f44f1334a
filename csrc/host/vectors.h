// Vectors of floats on the CPU, and what networks make of them: products of matrices, exp and tanh.
//
// Every product is one kernel, `block`: a few rows times a few vectors, held in registers. Numbers of a row stand in
// whole vectors, the last filled with zeros, so that no kernel has a remainder to think of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "host/bfloat16.h"
#include "host/buffer.h"
#include "host/transpose.h"

namespace {

using i64 = std::int64_t;
using Buffer = AlignedBuffer<float>;

#if defined(__AVX512F__)
constexpr int width = 16, most_rows = 6, most_vectors = 4;  // 24 sums, 4 factors and one number in 32 registers
#else
constexpr int width = 8, most_rows = 6, most_vectors = 2;  // 12, 2 and 1 in 16
#endif

typedef float Vector __attribute__((vector_size(4 * width), aligned(4), may_alias));
typedef std::int32_t Whole __attribute__((vector_size(4 * width), aligned(4), may_alias));

// a * b + c, rounded once where the processor can. Written out, because compilers for some processors (AMD's Zen) fuse
// one of two such loops and not the other, and what a row gives would depend on the rows beside it. In assembly, because
// g++ 12 takes forms of the intrinsic that overwrite a factor, and then moves most sums of `block` to memory and back:
// half as fast.
inline Vector fused(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
    asm("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "vm"(b));
    return c;
#elif defined(__FMA__)
    asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "xm"(b));
    return c;
#else
    return a * b + c;
#endif
}

constexpr i64 padded(i64 n) { return (n + width - 1) / width * width; }

// ---- products --------------------------------------------------------------------------------------------------

// c[r][v] = start[v] (or c[r][v], with add) + sum over i of a[r * a_row + i * a_next] b[i * b_next + v].
template <int rows, int vectors>
void block(const float *a, i64 a_row, i64 a_next, const float *b, i64 b_next, i64 count, const float *start, bool add,
           float *c, i64 c_row) {
    Vector sums[rows][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            const float *from = add ? c + r * c_row : start;
            sums[r][v] = from ? *reinterpret_cast<const Vector *>(from + v * width) : Vector{};
        }
    for (i64 i = 0; i < count; ++i) {
        Vector factors[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) factors[v] = *reinterpret_cast<const Vector *>(b + i * b_next + v * width);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            const Vector number = a[r * a_row + i * a_next] - Vector{};
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sums[r][v] = fused(number, factors[v], sums[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vector *>(c + r * c_row + v * width) = sums[r][v];
}

using Block = decltype(&block<1, 1>);
#define ROWS(vectors)                                                                                          \
    {                                                                                                          \
        block<1, vectors>, block<2, vectors>, block<3, vectors>, block<4, vectors>, block<5, vectors>,         \
            block<6, vectors>                                                                                  \
    }
constexpr Block blocks[most_vectors][most_rows] = {
    ROWS(1),
    ROWS(2),
#if defined(__AVX512F__)
    ROWS(3),
    ROWS(4),
#endif
};
#undef ROWS

// The same of any number of rows and of columns, which is a multiple of `width`; `rounded`, of factors rounded to bfloat16.
inline void product(bool rounded, i64 rows, i64 columns, i64 count, const float *a, i64 a_row, i64 a_next, const float *b,
                    i64 b_next, const float *start, bool add, float *c, i64 c_row) {
    if (rounded) {
        for (i64 row = 0; row < rows && !add; ++row)
            for (i64 column = 0; column < columns; ++column) c[row * c_row + column] = start ? start[column] : 0.0f;
        bfloat16::add_product(rows, columns, count, a, a_row, a_next, b, b_next, c, c_row);
        return;
    }
    for (i64 column = 0; column < columns; column += most_vectors * width) {
        const i64 vectors = std::min<i64>(most_vectors, (columns - column) / width);
        for (i64 row = 0; row < rows; row += most_rows) {
            const i64 some = std::min<i64>(most_rows, rows - row);
            blocks[vectors - 1][some - 1](a + row * a_row, a_row, a_next, b + column, b_next, count,
                                          start ? start + column : nullptr, add, c + row * c_row + column, c_row);
        }
    }
}

// ---- functions -------------------------------------------------------------------------------------------------

// exp(x), relative error below 3e-7; 0 below -87. NaN stays.
inline Vector exp_of(Vector x) {
    constexpr float magic = 12582912.0f;  // 1.5 * 2^23, which rounds to whole numbers
    const Vector y = x < -87.0f ? Vector{} - 87.0f : x > 88.0f ? Vector{} + 88.0f : x;
    const Vector power = (y * 1.44269504f + magic) - magic;
    const Vector rest = (y - power * 0.693145752f) - power * 1.42860677e-6f;  // the logarithm of 2 in two parts
    Vector e = rest * (1.0f / 5040) + 1.0f / 720;
    e = e * rest + 1.0f / 120;
    e = e * rest + 1.0f / 24;
    e = e * rest + 1.0f / 6;
    e = e * rest + 0.5f;
    e = e * rest + 1.0f;
    e = e * rest + 1.0f;
    Whole exponent = (__builtin_convertvector(power, Whole) + 127) << 23;
    e = e * reinterpret_cast<Vector &>(exponent);
    return x < -87.0f ? Vector{} : x > 88.0f ? Vector{} + __builtin_inff() : e;
}

// 2^x for x within -126 and 126, farther numbers taken as these; relative error 2^-21. NaN stays.
inline Vector exp2_of(Vector x) {
#if defined(__AVX512F__)
    // Of a number and NaN these return the second.
    const Vector y = _mm512_maskz_min_ps(-1, Vector{} + 126.0f, _mm512_maskz_max_ps(-1, Vector{} - 126.0f, x));
    const Vector whole = _mm512_maskz_roundscale_ps(-1, y, 0);
#else
    constexpr float magic = 12582912.0f;  // 1.5 * 2^23, which rounds to whole numbers
    const Vector y = x < -126.0f ? Vector{} - 126.0f : x > 126.0f ? Vector{} + 126.0f : x;
    const Vector whole = (y + magic) - magic;
#endif
    const Vector rest = y - whole;  // exact
    // tests/oracles/derive_polynomials.py: (2^rest - 1) / rest, relative error 2^-21
    Vector e = rest * 0x1.5c648ep-10f + 0x1.3cc5b4p-7f;
    e = e * rest + 0x1.c6b44cp-5f;
    e = e * rest + 0x1.ebfa3ep-3f;
    e = e * rest + 0x1.62e42ep-1f;
    e = e * rest + 1.0f;
#if defined(__AVX512F__)
    return _mm512_maskz_scalef_ps(-1, e, whole);
#else
    Whole exponent = (__builtin_convertvector(whole, Whole) + 127) << 23;
    return e * reinterpret_cast<Vector &>(exponent);
#endif
}

// a / b for b from 1 to 2^127.
inline Vector ratio_of(Vector a, Vector b) {
#if defined(__AVX512F__)
    const Vector near = _mm512_maskz_rcp14_ps(-1, b), ratio = a * near;
    return ratio + ratio * (1.0f - b * near);  // a step of Newton's
#else
    return a / b;
#endif
}

// 1 / (1 + exp(-x)), error below 2e-7. NaN stays.
inline Vector sigmoid_of(Vector x) { return ratio_of(Vector{} + 1.0f, 1.0f + exp2_of(x * -1.44269504f)); }

// (1 - e) / (1 + e) with e = exp(-2 x), error below 2e-7. NaN stays.
inline Vector tanh_of(Vector x) {
    const Vector e = exp2_of(x * -2.88539008f);  // -2 / log(2)
    return ratio_of(1.0f - e, 1.0f + e);
}

// ---- matrices ------------------------------------------------------------------------------------------------

inline void pad(const float *from, i64 from_row, i64 rows, i64 count, float *to) {
    const i64 row_size = padded(count);
    for (i64 r = 0; r < rows; ++r) {
        std::memcpy(to + r * row_size, from + r * from_row, 4 * count);
        std::fill(to + r * row_size + count, to + (r + 1) * row_size, 0.0f);
    }
}

// All threads, or one where there are too few products and sums for each: those that share a loop wait for each other,
// some microseconds on a quiet machine, and milliseconds where others want its cores. No number between, for OpenMP then
// ends threads and begins others.
inline i64 useful_threads(i64 threads, i64 operations) {
    constexpr i64 enough = 1 << 20;
    return operations / enough >= threads ? threads : 1;
}

}  // namespace
