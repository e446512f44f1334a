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
// one of two such loops and not the other, and what a row gives would depend on the rows beside it. In assembly,
// because g++ 12 takes forms of the intrinsic that overwrite a factor, and then moves most sums of `block` to memory
// and back: half as fast.
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

// sums[r][v] += sum over i of a[r * a_row + i * a_next] b[i * b_next + v], for the vectors v from `first` on.
template <int first, int vectors, int rows, int all>
inline void add_products(Vector (&sums)[rows][all], const float *a, i64 a_row, i64 a_next, const float *b, i64 b_next,
                         i64 count) {
    for (i64 i = 0; i < count; ++i) {
        Vector factors[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) factors[v] = *reinterpret_cast<const Vector *>(b + i * b_next + v * width);
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            const Vector number = a[r * a_row + i * a_next] - Vector{};
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) sums[r][first + v] = fused(number, factors[v], sums[r][first + v]);
        }
    }
}

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
    add_products<0, vectors>(sums, a, a_row, a_next, b, b_next, count);
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

// The same of any number of rows and of columns, which is a multiple of `width`; `rounded`, of factors rounded to
// bfloat16.
inline void product(bool rounded, i64 rows, i64 columns, i64 count, const float *a, i64 a_row, i64 a_next,
                    const float *b, i64 b_next, const float *start, bool add, float *c, i64 c_row) {
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

// Some vectors, in each operation all of them: the next needs what comes out of it, after 4 cycles or more, and far
// ahead in the program, at another vector, processors look too little to fill the time.
#if defined(__AVX512F__)
constexpr int side_by_side = 8;
#else
constexpr int side_by_side = 4;
#endif
#define EACH _Pragma("GCC unroll 8") for (int v = 0; v < count; ++v)

// 2^x for x within -126 and 126, farther numbers taken as these; relative error 2^-21. NaN stays.
template <int count>
inline void exp2_of(Vector (&x)[count]) {
    Vector whole[count], e[count];
#if defined(__AVX512F__)
    // Of a number and NaN these return the second.
    EACH x[v] = _mm512_maskz_max_ps(-1, Vector{} - 126.0f, x[v]);
    EACH x[v] = _mm512_maskz_min_ps(-1, Vector{} + 126.0f, x[v]);
    EACH whole[v] = _mm512_maskz_roundscale_ps(-1, x[v], 0);
#else
    constexpr float magic = 12582912.0f;  // 1.5 * 2^23, which rounds to whole numbers
    EACH x[v] = x[v] < -126.0f ? Vector{} - 126.0f : x[v] > 126.0f ? Vector{} + 126.0f : x[v];
    EACH whole[v] = (x[v] + magic) - magic;
#endif
    EACH x[v] -= whole[v];  // exact
    // tests/oracles/derive_polynomials.py: (2^rest - 1) / rest, relative error 2^-21
    EACH e[v] = x[v] * 0x1.5c648ep-10f + 0x1.3cc5b4p-7f;
    EACH e[v] = e[v] * x[v] + 0x1.c6b44cp-5f;
    EACH e[v] = e[v] * x[v] + 0x1.ebfa3ep-3f;
    EACH e[v] = e[v] * x[v] + 0x1.62e42ep-1f;
    EACH e[v] = e[v] * x[v] + 1.0f;
#if defined(__AVX512F__)
    EACH x[v] = _mm512_maskz_scalef_ps(-1, e[v], whole[v]);
#else
    EACH {
        Whole exponent = (__builtin_convertvector(whole[v], Whole) + 127) << 23;
        x[v] = e[v] * reinterpret_cast<Vector &>(exponent);
    }
#endif
}

// a / b for b from 1 to 2^127, in place of a.
template <int count>
inline void divide(Vector (&a)[count], Vector (&b)[count]) {
#if defined(__AVX512F__)
    Vector near[count];
    EACH near[v] = _mm512_maskz_rcp14_ps(-1, b[v]);
    EACH b[v] = 1.0f - b[v] * near[v];
    EACH a[v] *= near[v];
    EACH a[v] += a[v] * b[v];  // a step of Newton's
#else
    EACH a[v] /= b[v];
#endif
}

// Which of the vectors of `sigmoid_and_tanh_of`: none, all, or the third of each four.
enum Tanh { no_tanh, all_tanh, third_is_tanh };

// Of x 1 / (1 + exp(-x)), or tanh(x) = (1 - e) / (1 + e) with e = exp(-2 x), errors below 2e-7. NaN stays.
template <Tanh which, int count>
inline void sigmoid_and_tanh_of(Vector (&x)[count]) {
    const auto is_tanh = [](int v) { return which == all_tanh || (which == third_is_tanh && v % 4 == 2); };
    Vector below[count];
    EACH x[v] *= is_tanh(v) ? -2.88539008f : -1.44269504f;  // -2 / log(2), -1 / log(2)
    exp2_of(x);
    EACH below[v] = 1.0f + x[v];
    EACH x[v] = is_tanh(v) ? 1.0f - x[v] : Vector{} + 1.0f;
    divide(x, below);
}

// tanh in place of each of the numbers, in whole vectors. The last vectors stand twice among those that are computed
// together, so that no other code may round in its own way.
inline void tanh_of(float *numbers, i64 size) {
    for (i64 first = 0; first < size; first += side_by_side * width) {
        constexpr int count = side_by_side;
        Vector x[count];
        Vector *places[count];
        EACH places[v] = reinterpret_cast<Vector *>(numbers + std::min(first + v * width, size - width));
        EACH x[v] = *places[v];
        sigmoid_and_tanh_of<all_tanh>(x);
        EACH *places[v] = x[v];
    }
}

// ---- matrices ------------------------------------------------------------------------------------------------

// Of a row, which has few numbers: memcpy takes longer to find out how many.
inline void copy(const float *from, i64 count, float *to) {
    i64 i = 0;
    for (; i + width <= count; i += width)
        *reinterpret_cast<Vector *>(to + i) = *reinterpret_cast<const Vector *>(from + i);
#if defined(__AVX512F__)
    if (i < count) _mm512_mask_storeu_ps(to + i, first(count - i), _mm512_maskz_loadu_ps(first(count - i), from + i));
#else
    for (; i < count; ++i) to[i] = from[i];
#endif
}

inline void pad(const float *from, i64 from_row, i64 rows, i64 count, float *to) {
    const i64 row_size = padded(count);
    for (i64 r = 0; r < rows; ++r) {
        copy(from + r * from_row, count, to + r * row_size);
        std::fill(to + r * row_size + count, to + (r + 1) * row_size, 0.0f);
    }
}

// All threads, or one where there are too few products and sums for each: those that share a loop wait for each other,
// some microseconds on a quiet machine, and milliseconds where others want its cores. No number between, for OpenMP
// then ends threads and begins others.
inline i64 useful_threads(i64 threads, i64 operations) {
    constexpr i64 enough = 1 << 20;
    return operations / enough >= threads ? threads : 1;
}

}  // namespace
