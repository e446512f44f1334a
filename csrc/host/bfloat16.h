// Products of matrices whose numbers are rounded to bfloat16 and whose sums are float32, by the matrix units of a CPU
// (Intel's AMX). They make 16 times as many products a cycle as vectors of float32 do; half of the time of a product of
// 64 x 64 goes to rounding and ordering what they take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "host/buffer.h"
#include "host/transpose.h"

#if defined(__linux__) && defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AVX512BF16__)
#define TBS_BFLOAT16 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define TBS_BFLOAT16 0
#endif

namespace bfloat16 {

using i64 = std::int64_t;

#if TBS_BFLOAT16

// Whether this process may use the units: the kernel keeps their registers only for processes that ask.
inline bool available() {
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    static const bool granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    return granted;
}

// A register of the units has 16 lines of 16 words of 32 bits; a word of a factor is a pair of bfloat16, which belong to
// consecutive numbers of the sum.
constexpr i64 lines = 16, pairs = 16, step = 2 * pairs;

// Word v: even[v] in its lower half, odd[v] in its upper one.
inline __m512i paired(__m512 even, __m512 odd) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5,
                                           20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

// The pair of lines 2 * pair and 2 * pair + 1 of b, `count` lines `next` apart, some columns of them; zeros beyond.
inline __m512i pair_of_lines(const float *b, i64 next, i64 count, i64 pair, __mmask16 columns) {
    const float *const even = b + 2 * pair * next;
    return paired(_mm512_maskz_loadu_ps(2 * pair < count ? columns : 0, even),
                  _mm512_maskz_loadu_ps(2 * pair + 1 < count ? columns : 0, even + next));
}

// a as the units take it: [rows, filled up to 16][steps][16] words. Number (r, i) is a[r * a_row + i * a_next]; one of the
// two distances is 1. Lines that fill up hold anything: no sum of another line has a part of them.
inline void lay_lines(i64 rows, i64 count, const float *a, i64 a_row, i64 a_next, std::uint32_t *to) {
    const i64 steps = (count + step - 1) / step, line = steps * pairs;
    if (a_next == 1) {
        for (i64 r = 0; r < rows; ++r)
            for (i64 s = 0; s < steps; ++s) {
                const float *const from = a + r * a_row + s * step;
                const i64 left = count - s * step;
                const __m512 low = _mm512_maskz_loadu_ps(first(left), from);
                const __m512 high = _mm512_maskz_loadu_ps(first(left - 16), from + 16);
                _mm512_store_si512(to + r * line + s * pairs, (__m512i)_mm512_cvtne2ps_pbh(high, low));
            }
        return;
    }
    for (i64 row = 0; row < rows; row += lines)
        for (i64 s = 0; s < steps; ++s) {
            __m512i words[16];
            for (int p = 0; p < 16; ++p) words[p] = pair_of_lines(a + row, a_next, count, s * pairs + p, first(rows - row));
            transpose(words);
            for (int r = 0; r < 16; ++r) _mm512_store_si512(to + (row + r) * line + s * pairs, words[r]);
        }
}

// b [count, columns], lines `next` apart, as the units take it: [pairs of lines, filled up with zeros][columns] words.
inline void lay_pairs(i64 count, i64 columns, const float *b, i64 next, std::uint32_t *to) {
    const i64 all = (count + step - 1) / step * pairs;
    for (i64 pair = 0; pair < all; ++pair)
        for (i64 column = 0; column < columns; column += 16)
            _mm512_store_si512(to + pair * columns + column, pair_of_lines(b + column, next, count, pair, 0xffff));
}

// Adds to c, lines `c_row` numbers apart, the product of 16 * down lines of a and 16 * right columns of b.
template <int down, int right>
void add_product(i64 steps, const std::uint32_t *a, const std::uint32_t *b, i64 columns, float *c, i64 c_row) {
    const i64 line = steps * pairs;
    asm volatile("" ::: "memory");  // the compiler does not know that the loads read
    _tile_loadd(0, c, 4 * c_row);
    if constexpr (right > 1) _tile_loadd(1, c + 16, 4 * c_row);
    if constexpr (down > 1) _tile_loadd(2, c + lines * c_row, 4 * c_row);
    if constexpr (down > 1 && right > 1) _tile_loadd(3, c + lines * c_row + 16, 4 * c_row);
    for (i64 s = 0; s < steps; ++s) {
        const std::uint32_t *const of_a = a + s * pairs, *const of_b = b + s * pairs * columns;
        _tile_loadd(4, of_a, 4 * line);
        _tile_loadd(6, of_b, 4 * columns);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (right > 1) {
            _tile_loadd(7, of_b + 16, 4 * columns);
            _tile_dpbf16ps(1, 4, 7);
        }
        if constexpr (down > 1) {
            _tile_loadd(5, of_a + lines * line, 4 * line);
            _tile_dpbf16ps(2, 5, 6);
        }
        if constexpr (down > 1 && right > 1) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, 4 * c_row);
    if constexpr (right > 1) _tile_stored(1, c + 16, 4 * c_row);
    if constexpr (down > 1) _tile_stored(2, c + lines * c_row, 4 * c_row);
    if constexpr (down > 1 && right > 1) _tile_stored(3, c + lines * c_row + 16, 4 * c_row);
}

// c[r][v] += sum over i of a[r * a_row + i * a_next] b[i * b_next + v]; columns are a multiple of 16.
inline void add_product(i64 rows, i64 columns, i64 count, const float *a, i64 a_row, i64 a_next, const float *b, i64 b_next,
                        float *c, i64 c_row) {
    struct alignas(64) Shape {
        std::uint8_t palette = 1, start = 0, reserved[14] = {};
        std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t of_lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static const Shape shape;
    static thread_local AlignedBuffer<std::uint32_t> buffer;
    const i64 steps = (count + step - 1) / step, padded_rows = (rows + lines - 1) / lines * lines;
    std::uint32_t *const of_a = buffer.of((padded_rows + columns) * steps * pairs + lines * columns);
    std::uint32_t *const of_b = of_a + padded_rows * steps * pairs;
    float *const rest = reinterpret_cast<float *>(of_b + columns * steps * pairs);
    lay_lines(rows, count, a, a_row, a_next, of_a);
    lay_pairs(count, columns, b, b_next, of_b);
    _tile_loadconfig(&shape);
    for (i64 row = 0; row < rows;) {
        const i64 left = rows - row, line = steps * pairs;
        const bool whole = left >= lines;
        float *const to = whole ? c + row * c_row : rest;  // a register is stored whole
        const i64 to_row = whole ? c_row : columns;
        for (i64 r = 0; r < left && !whole; ++r) std::copy_n(c + (row + r) * c_row, columns, rest + r * columns);
        const bool two = left >= 2 * lines;
        for (i64 column = 0; column < columns; column += 32) {
            const bool both = columns - column >= 32;
            const auto add = two ? (both ? add_product<2, 2> : add_product<2, 1>) : (both ? add_product<1, 2> : add_product<1, 1>);
            add(steps, of_a + row * line, of_b + column, columns, to + column, to_row);
        }
        for (i64 r = 0; r < left && !whole; ++r) std::copy_n(rest + r * columns, columns, c + (row + r) * c_row);
        row += two ? 2 * lines : lines;
    }
    _tile_release();
}

#else

inline bool available() { return false; }
inline void add_product(i64, i64, i64, const float *, i64, i64, const float *, i64, float *, i64) {}

#endif

}  // namespace bfloat16
