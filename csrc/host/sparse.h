// Products with inputs that are mostly zeros, as observations of games are: these are skipped, in the same order and
// so to the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "host/vectors.h"

namespace {

// What stands in a tile of inputs beside zeros: of line l (a row, or a column) those from starts[l] to starts[l + 1],
// each with its number and its place in the other direction.
struct Sparse {
    std::vector<std::int32_t> starts, places;
    std::vector<float> numbers;
};

constexpr i64 least_inputs = 4 * width;  // with fewer, to look for zeros takes as long as to multiply by them
// The share of other numbers up to which zeros are skipped, and that where the alternative are the units for bfloat16.
constexpr double most_filled = 0.3, most_filled_if_rounded = 0.1;

// Inputs of a network, [rows, count] floats or bytes, consecutive rows `row_size` numbers apart; rows `order` of them,
// if it is given. Where they are `dense`, zeros need not be looked for.
struct Inputs {
    const void *numbers;
    i64 row_size, bytes;
    const i64 *order;
    bool dense = false;
    template <class Number>
    const Number *row(i64 r) const {
        return static_cast<const Number *>(numbers) + (order ? order[r] : r) * row_size;
    }
};

// Which of the first `some` numbers, at most 64, are not zero, a bit each.
std::uint64_t not_zero(const float *numbers, i64 some) {
    std::uint64_t bits = 0;
    i64 i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= some; i += 16)
        bits |= std::uint64_t{_mm512_cmp_ps_mask(_mm512_loadu_ps(numbers + i), _mm512_setzero_ps(), _CMP_NEQ_UQ)} << i;
#elif defined(__AVX__)
    for (; i + 8 <= some; i += 8) {
        const __m256 differs = _mm256_cmp_ps(_mm256_loadu_ps(numbers + i), _mm256_setzero_ps(), _CMP_NEQ_UQ);
        bits |= std::uint64_t(_mm256_movemask_ps(differs)) << i;
    }
#endif
    for (; i < some; ++i) bits |= std::uint64_t{numbers[i] != 0.0f} << i;
    return bits;
}

std::uint64_t not_zero(const std::uint8_t *numbers, i64 some) {
#if defined(__AVX512BW__)
    if (some == 64) {
        const __m512i all = _mm512_loadu_si512(numbers);
        return _mm512_test_epi8_mask(all, all);
    }
#elif defined(__AVX2__)
    if (some == 64) {
        const __m256i *const halves = reinterpret_cast<const __m256i *>(numbers);
        const auto zeros = [&](int half) -> std::uint64_t {
            const __m256i same = _mm256_cmpeq_epi8(_mm256_loadu_si256(halves + half), _mm256_setzero_si256());
            return static_cast<std::uint32_t>(_mm256_movemask_epi8(same));
        };
        return ~(zeros(0) | zeros(1) << 32);
    }
#endif
    std::uint64_t bits = 0, eight[8] = {};
    std::memcpy(eight, numbers, some);
    constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7f, gathered = 0x0102040810204080;
    for (int i = 0; i < 8; ++i) {
        const std::uint64_t highest = (((eight[i] & low) + low) | eight[i]) & ~low;  // bits of bytes that are not zero
        bits |= ((highest >> 7) * gathered >> 56) << 8 * i;
    }
    return bits;
}

// A number in bfloat16, the nearest, of two the even one.
float rounded_to_bfloat16(float number) {
    std::uint32_t bits;
    std::memcpy(&bits, &number, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    float found;
    std::memcpy(&found, &bits, 4);
    return number == number ? found : number;
}

// Of `rows` rows from `first` on, `count` numbers each, `rounded` or as they are; false if zeros are too few for it to
// pay. Bytes are numbers of bfloat16.
template <class Number>
bool find_numbers(const Inputs &inputs, i64 first, i64 rows, i64 count, bool rounded, Sparse &found) {
    if (inputs.dense || count < least_inputs) return false;
    const i64 most = static_cast<i64>((rounded ? most_filled_if_rounded : most_filled) * rows * count);
    found.starts.resize(rows + 1);
    found.places.resize(most + count);
    found.numbers.resize(most + count);
    i64 place = 0;
    for (i64 r = 0; r < rows; ++r) {
        const Number *const row = inputs.row<Number>(first + r);
        found.starts[r] = place;
        for (i64 column = 0; column < count; column += 64) {
            const std::uint64_t bits = not_zero(row + column, std::min<i64>(64, count - column));
            for (std::uint64_t left = bits; left; left &= left - 1) {
                const i64 i = column + __builtin_ctzll(left);
                found.places[place] = i;
                found.numbers[place++] = rounded ? rounded_to_bfloat16(row[i]) : row[i];
            }
        }
        if (place > most) return false;
    }
    found.starts[rows] = place;
    return true;
}

// From the numbers of each row to those of each of `count` columns, rows in order.
void turn(const Sparse &by_row, i64 rows, i64 count, Sparse &by_column) {
    by_column.starts.assign(count + 2, 0);
    by_column.places.resize(by_row.starts[rows]);
    by_column.numbers.resize(by_row.starts[rows]);
    std::int32_t *const next = by_column.starts.data() + 1;  // where a column begins, and in the end where it ends
    for (std::int32_t k = 0; k < by_row.starts[rows]; ++k) next[by_row.places[k] + 1] += 1;
    for (i64 column = 0; column < count; ++column) next[column + 1] += next[column];
    for (i64 row = 0; row < rows; ++row)
        for (std::int32_t k = by_row.starts[row]; k < by_row.starts[row + 1]; ++k) {
            const std::int32_t place = next[by_row.places[k]]++;
            by_column.places[place] = row;
            by_column.numbers[place] = by_row.numbers[k];
        }
}

// c[v] = start[v] + sum over k of numbers[k] b[places[k] * b_next + v].
template <int vectors>
void gather(const float *numbers, const std::int32_t *places, i64 count, const float *b, i64 b_next, const float *start,
            float *c) {
    Vector sums[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[v] = *reinterpret_cast<const Vector *>(start + v * width);
    for (i64 k = 0; k < count; ++k) {
        const Vector number = numbers[k] - Vector{};
        const float *const from = b + places[k] * b_next;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v)
            sums[v] = fused(number, *reinterpret_cast<const Vector *>(from + v * width), sums[v]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vector *>(c + v * width) = sums[v];
}

using Gather = decltype(&gather<1>);
constexpr i64 most_gathered = 8;
constexpr Gather gathers[most_gathered] = {gather<1>, gather<2>, gather<3>, gather<4>,
                                           gather<5>, gather<6>, gather<7>, gather<8>};

// `product` of a's lines: line l of c from `start`, or from what is there if it is null. Lines of c and b have
// `columns` numbers, whole vectors.
void sparse_product(const Sparse &a, i64 lines, i64 columns, const float *b, const float *start, float *c) {
    for (i64 column = 0; column < columns; column += most_gathered * width) {
        const Gather some = gathers[std::min<i64>(most_gathered, (columns - column) / width) - 1];
        for (i64 line = 0; line < lines; ++line) {
            const std::int32_t first = a.starts[line];
            float *const to = c + line * columns + column;
            some(a.numbers.data() + first, a.places.data() + first, a.starts[line + 1] - first, b + column, columns,
                 start ? start + column : to, to);
        }
    }
}

}  // namespace
