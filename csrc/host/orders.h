// The part that one of several processes has of the minibatches of all.
#pragma once

#include <cstdint>

namespace orders {

using i64 = std::int64_t;

// Of an order of the samples of `count` processes, cut into minibatches, the part of process `rank`, as Ranks.order has
// it: sample i is of row i % (rows * count). Writes their numbers among its own, and how many are in each minibatch.
inline void part_of(const i64 *order, i64 samples, i64 minibatches, i64 rows, i64 rank, i64 count, i64 *own,
                    i64 *sizes) {
    const i64 all = rows * count, size = samples / minibatches;
    // A quotient is a product with 2^64 / all, rounded up: exact for samples and rows below 2^32 (Lemire, Kaser and
    // Kurz 2019). Processors divide such numbers ten times slower.
    const unsigned __int128 inverse = ~std::uint64_t{0} / all + 1;
    for (i64 minibatch = 0; minibatch < minibatches; ++minibatch) {
        const i64 *const begin = own;
        for (i64 i = minibatch * size; i < (minibatch + 1) * size; ++i) {
            const i64 step = static_cast<i64>(inverse * static_cast<std::uint64_t>(order[i]) >> 64);
            const i64 row = order[i] - step * all - rank * rows;
            *own = step * rows + row;
            own += static_cast<std::uint64_t>(row) < static_cast<std::uint64_t>(rows);
        }
        sizes[minibatch] = own - begin;
    }
}

// Of each minibatch of the order: how many of the `values` count, their sum, and the sum of squares. There are `steps`
// of each of `columns` values, of which the order has columns.
inline void moments_of(const float *values, const bool *active, i64 steps, i64 columns, const i64 *order,
                       i64 minibatches, const i64 *sizes, double *moments) {
    for (i64 minibatch = 0; minibatch < minibatches; order += sizes[minibatch++], moments += 3) {
        double count = 0, total = 0, squares = 0;
        for (i64 t = 0; t < steps; ++t)
            for (i64 i = 0; i < sizes[minibatch]; ++i) {
                const i64 place = t * columns + order[i];
                const double value = !active || active[place] ? values[place] : 0.0f;
                count += !active || active[place], total += value, squares += value * value;
            }
        moments[0] = count, moments[1] = total, moments[2] = squares;
    }
}

}  // namespace orders
