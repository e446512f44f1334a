// The arithmetic of updates on the CPU, for Python: train/updates.py compiles this and calls it with ctypes. First a
// multilayer perceptron forwards and backwards, at the end PPO's loss with its gradients.
//
// Rows of inputs pass through all layers in tiles, whose numbers stay in the cache. Every product is one kernel, `block`:
// a few rows times a few vectors, held in registers. Numbers of a row stand in whole vectors, the last filled with zeros,
// so that no kernel has a remainder to think of. Observations of games are mostly zeros: where they are, the first layer's
// products skip these, in the same order and so to the same bits. Sums over rows have an order that does not depend on the number of
// threads: chunks of rows, each its own sums, and these in turn.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace {

using i64 = std::int64_t;

#if defined(__AVX512F__)
constexpr int width = 16, most_rows = 6, most_vectors = 4;  // 24 sums, 4 factors and one number in 32 registers
#else
constexpr int width = 8, most_rows = 6, most_vectors = 2;  // 12, 2 and 1 in 16
#endif
constexpr i64 tile_rows = 192, chunk_rows = 5 * tile_rows;

typedef float Vector __attribute__((vector_size(4 * width), aligned(4), may_alias));
typedef std::int32_t Whole __attribute__((vector_size(4 * width), aligned(4), may_alias));

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
            for (int v = 0; v < vectors; ++v) sums[r][v] += number * factors[v];
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

// The same of any number of rows and of columns, which is a multiple of `width`.
void product(i64 rows, i64 columns, i64 count, const float *a, i64 a_row, i64 a_next, const float *b, i64 b_next,
             const float *start, bool add, float *c, i64 c_row) {
    for (i64 column = 0; column < columns; column += most_vectors * width) {
        const i64 vectors = std::min<i64>(most_vectors, (columns - column) / width);
        for (i64 row = 0; row < rows; row += most_rows) {
            const i64 some = std::min<i64>(most_rows, rows - row);
            blocks[vectors - 1][some - 1](a + row * a_row, a_row, a_next, b + column, b_next, count,
                                          start ? start + column : nullptr, add, c + row * c_row + column, c_row);
        }
    }
}

// ---- products with few numbers that are not zero -----------------------------------------------------------------

// What stands in a tile of inputs beside zeros: of line l (a row, or a column) those from starts[l] to starts[l + 1], each
// with its number and its place in the other direction.
struct Sparse {
    std::vector<std::int32_t> starts, places;
    std::vector<float> numbers;
};

constexpr i64 least_inputs = 4 * width;  // with fewer, to look for zeros takes as long as to multiply by them
constexpr double most_filled = 0.4;

// Inputs of a network, [rows, count] floats or bytes, consecutive rows `row_size` numbers apart.
struct Inputs {
    const void *numbers;
    i64 row_size, bytes;
    template <class Number>
    const Number *row(i64 r) const {
        return static_cast<const Number *>(numbers) + r * row_size;
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

// Of `rows` rows from `first` on, `count` numbers each; false if zeros are too few for it to pay.
template <class Number>
bool find_numbers(const Inputs &inputs, i64 first, i64 rows, i64 count, Sparse &found) {
    if (count < least_inputs) return false;
    const i64 most = static_cast<i64>(most_filled * rows * count);
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
                found.numbers[place++] = row[i];
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
        for (int v = 0; v < vectors; ++v) sums[v] += number * *reinterpret_cast<const Vector *>(from + v * width);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) *reinterpret_cast<Vector *>(c + v * width) = sums[v];
}

using Gather = decltype(&gather<1>);
constexpr i64 most_gathered = 8;
constexpr Gather gathers[most_gathered] = {gather<1>, gather<2>, gather<3>, gather<4>,
                                           gather<5>, gather<6>, gather<7>, gather<8>};

// `product` of a's lines: line l of c from `start`, or from what is there if it is null. Lines of c and b have `columns`
// numbers, whole vectors.
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

// ---- functions -------------------------------------------------------------------------------------------------

// exp(x), relative error below 3e-7; 0 below -87. NaN stays.
Vector exp_of(Vector x) {
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

// (1 - e) / (1 + e) with e = exp(-2 |x|), error below 2e-7. NaN stays.
Vector tanh_of(Vector x) {
    const Whole sign = reinterpret_cast<Whole &>(x) & static_cast<std::int32_t>(0x80000000);
    Whole bits = reinterpret_cast<Whole &>(x) & 0x7fffffff;
    const Vector e = exp_of(-2.0f * reinterpret_cast<Vector &>(bits));
    Vector found = (1.0f - e) / (1.0f + e);
    Whole result = reinterpret_cast<Whole &>(found) | sign;
    return reinterpret_cast<Vector &>(result);
}

enum Activation : i64 { none = 0, tangent = 1, rectified = 2 };

void activate(i64 kind, float *numbers, i64 count) {
    if (kind == none) return;
    for (i64 i = 0; i < count; i += width) {
        Vector &x = *reinterpret_cast<Vector *>(numbers + i);
        x = kind == tangent ? tanh_of(x) : (x <= 0.0f ? Vector{} : x);  // and NaN stays
    }
}

// Gradients of what was activated to those of what was not, given the activated.
void descend(i64 kind, const float *activated, float *gradients, i64 count) {
    if (kind == none) return;
    for (i64 i = 0; i < count; i += width) {
        const Vector h = *reinterpret_cast<const Vector *>(activated + i);
        Vector &g = *reinterpret_cast<Vector *>(gradients + i);
        g = kind == tangent ? g * (1.0f - h * h) : (h > 0.0f ? g : Vector{});
    }
}

// ---- layers ----------------------------------------------------------------------------------------------------

struct Layer {
    i64 inputs, outputs, activation;
    const float *weight, *bias;  // [outputs, inputs], [outputs]
    // Which of its two sizes its gradients have in vectors: the larger, for less of them is filling; but of the first
    // layer, which may skip inputs, the outputs.
    bool along_inputs;
};

struct Buffer {
    std::unique_ptr<float, void (*)(void *)> memory{nullptr, std::free};
    i64 size = 0;
    float *of(i64 count) {
        if (count > size) {
            memory.reset(static_cast<float *>(std::aligned_alloc(64, (4 * count + 63) / 64 * 64)));
            size = count;
        }
        return memory.get();
    }
};

void pad(const float *from, i64 from_row, i64 rows, i64 count, float *to) {
    const i64 row_size = padded(count);
    for (i64 r = 0; r < rows; ++r) {
        std::memcpy(to + r * row_size, from + r * from_row, 4 * count);
        std::fill(to + r * row_size + count, to + (r + 1) * row_size, 0.0f);
    }
}

void transpose(const float *from, i64 rows, i64 columns, float *to) {  // to [columns][padded(rows)]
    const i64 size = padded(rows);
    for (i64 c = 0; c < columns; ++c) {
        for (i64 r = 0; r < rows; ++r) to[c * size + r] = from[r * columns + c];
        std::fill(to + c * size + rows, to + (c + 1) * size, 0.0f);
    }
}

std::vector<Layer> layers_of(i64 count, const i64 *sizes, const i64 *activations, const i64 *addresses) {
    std::vector<Layer> layers(count);
    for (i64 l = 0; l < count; ++l)
        layers[l] = {sizes[l], sizes[l + 1], activations[l], reinterpret_cast<const float *>(addresses[2 * l]),
                     reinterpret_cast<const float *>(addresses[2 * l + 1]), l > 0 && sizes[l] >= sizes[l + 1]};
    return layers;
}

// A tile of inputs as the first layer takes it: null if `sparse` has it now, else floats [rows, count], rows `row_size`
// numbers apart.
const float *read_tile(const Inputs &inputs, i64 first, i64 rows, i64 count, Sparse &sparse, Buffer &floats,
                       i64 &row_size) {
    row_size = inputs.bytes ? count : inputs.row_size;
    if (!inputs.bytes)
        return find_numbers<float>(inputs, first, rows, count, sparse) ? nullptr : inputs.row<float>(first);
    if (find_numbers<std::uint8_t>(inputs, first, rows, count, sparse)) return nullptr;
    float *const to = floats.of(tile_rows * count);
    for (i64 r = 0; r < rows; ++r) {
        const std::uint8_t *const row = inputs.row<std::uint8_t>(first + r);
        for (i64 i = 0; i < count; ++i) to[r * count + i] = row[i];
    }
    return to;
}

// Weights as forwards needs them: [inputs][padded outputs] of each layer, and its bias behind them.
i64 forward_size(const Layer &layer) { return (layer.inputs + 1) * padded(layer.outputs); }

i64 gradient_size(const Layer &layer) {
    const i64 weights = layer.along_inputs ? layer.outputs * padded(layer.inputs) : layer.inputs * padded(layer.outputs);
    return weights + padded(layer.outputs);
}

}  // namespace

#define TBS_EXPORTED extern "C" __attribute__((visibility("default")))

// Numbers that forwards keeps of a row for backwards.
TBS_EXPORTED i64 mlp_kept(i64 count, const i64 *sizes) {
    i64 size = 0;
    for (i64 l = 1; l <= count; ++l) size += padded(sizes[l]);
    return size;
}

// `inputs` [rows, sizes[0]], consecutive rows `inputs_row` numbers apart, bytes or floats, to `outputs` [rows, sizes[count]]. `kept`, if it
// is given, gets the activations of each layer in turn, [rows, padded size] each.
TBS_EXPORTED void mlp_forward(i64 count, const i64 *sizes, const i64 *activations, const i64 *addresses,
                              const void *numbers, i64 inputs_row, i64 bytes, i64 rows, float *outputs, float *kept,
                              i64 threads) {
    const Inputs inputs{numbers, inputs_row, bytes};
    const std::vector<Layer> layers = layers_of(count, sizes, activations, addresses);
    static thread_local Buffer weights_buffer;
    i64 size = 0;
    for (const Layer &layer : layers) size += forward_size(layer);
    float *const weights = weights_buffer.of(size);
    float *place = weights;
    for (const Layer &layer : layers) {
        transpose(layer.weight, layer.outputs, layer.inputs, place);
        pad(layer.bias, 0, 1, layer.outputs, place + layer.inputs * padded(layer.outputs));
        place += forward_size(layer);
    }
    const i64 tiles = (rows + tile_rows - 1) / tile_rows, of_row = mlp_kept(count, sizes);
#pragma omp parallel for num_threads(std::max<i64>(1, std::min(threads, tiles))) schedule(static)
    for (i64 tile = 0; tile < tiles; ++tile) {
        static thread_local Buffer own, floats;
        static thread_local Sparse sparse;
        const i64 first = tile * tile_rows, some = std::min(tile_rows, rows - first);
        float *const all = kept ? kept : own.of(tile_rows * of_row);
        const i64 stored = kept ? rows : some, skipped = kept ? first : 0;  // rows of a layer, and those before these
        float *behind = all;
        i64 in;
        const float *now = read_tile(inputs, first, some, sizes[0], sparse, floats, in), *weight = weights;
        for (const Layer &layer : layers) {
            const i64 out = padded(layer.outputs);
            float *const next = behind + skipped * out;
            behind += stored * out;
            const float *const bias = weight + layer.inputs * out;
            if (now)
                product(some, out, layer.inputs, now, in, 1, weight, out, bias, false, next, out);
            else
                sparse_product(sparse, some, out, weight, bias, next);
            activate(layer.activation, next, some * out);
            weight += forward_size(layer);
            now = next;
            in = out;
        }
        const i64 last = sizes[count];
        for (i64 r = 0; r < some; ++r) std::memcpy(outputs + (first + r) * last, now + r * padded(last), 4 * last);
    }
}

// Of the gradients of the outputs [rows, sizes[count]] those of the parameters, at `gradients` as the addresses of these,
// and of the inputs [rows, sizes[0]], if there is a place for them. Inputs are those of mlp_forward.
TBS_EXPORTED void mlp_backward(i64 count, const i64 *sizes, const i64 *activations, const i64 *addresses,
                               const void *numbers, i64 inputs_row, i64 bytes, i64 rows, const float *kept,
                               const float *of_outputs, float *of_inputs, const i64 *gradients, i64 threads) {
    const Inputs inputs{numbers, inputs_row, bytes};
    const std::vector<Layer> layers = layers_of(count, sizes, activations, addresses);
    static thread_local Buffer weights_buffer, sums_buffer;
    i64 size = 0, sums_size = 0, widest = 0;
    for (const Layer &layer : layers) {
        size += layer.outputs * padded(layer.inputs);
        sums_size += gradient_size(layer);
        widest = std::max({widest, padded(layer.inputs), padded(layer.outputs)});
    }
    float *const weights = weights_buffer.of(size);
    float *place = weights;
    for (const Layer &layer : layers) {
        pad(layer.weight, layer.inputs, layer.outputs, layer.inputs, place);
        place += layer.outputs * padded(layer.inputs);
    }
    const i64 chunks = std::max<i64>(1, (rows + chunk_rows - 1) / chunk_rows);
    float *const sums = sums_buffer.of(chunks * sums_size);
#pragma omp parallel for num_threads(std::max<i64>(1, std::min(threads, chunks))) schedule(static, 1)
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
        static thread_local Buffer own, floats;
        static thread_local Sparse sparse, by_input;
        float *now = own.of(2 * tile_rows * widest), *next = now + tile_rows * widest;
        std::fill(sums + chunk * sums_size, sums + (chunk + 1) * sums_size, 0.0f);
        const i64 end = std::min(rows, (chunk + 1) * chunk_rows);
        for (i64 first = chunk * chunk_rows; first < end; first += tile_rows) {
            const i64 some = std::min(tile_rows, end - first);
            const float *activated = kept + rows * mlp_kept(count, sizes);  // behind those of the layer
            float *sum = sums + (chunk + 1) * sums_size;
            const float *weight = weights + size;
            pad(of_outputs + first * sizes[count], sizes[count], some, sizes[count], now);
            activated -= rows * padded(sizes[count]);
            descend(activations[count - 1], activated + first * padded(sizes[count]), now, some * padded(sizes[count]));
            for (i64 l = count - 1; l >= 0; --l) {
                const Layer &layer = layers[l];
                const i64 in = padded(layer.inputs), out = padded(layer.outputs);
                i64 given_row = in;
                sum -= gradient_size(layer);
                weight -= layer.outputs * in;
                const float *given;
                if (l > 0) {
                    activated -= rows * in;
                    given = activated + first * in;
                } else {
                    given = read_tile(inputs, first, some, layer.inputs, sparse, floats, given_row);
                }
                if (layer.along_inputs) {
                    product(layer.outputs, in, some, now, 1, out, given, in, nullptr, true, sum, in);
                } else if (!given) {
                    turn(sparse, some, layer.inputs, by_input);
                    sparse_product(by_input, layer.inputs, out, now, nullptr, sum);
                } else {
                    product(layer.inputs, out, some, given, 1, given_row, now, out, nullptr, true, sum, out);
                }
                float *const bias = sum + gradient_size(layer) - out;
                for (i64 r = 0; r < some; ++r)
                    for (i64 j = 0; j < out; ++j) bias[j] += now[r * out + j];
                if (l == 0 && !of_inputs) break;
                product(some, in, layer.outputs, now, out, 1, weight, in, nullptr, false, next, in);
                if (l > 0) {
                    descend(layers[l - 1].activation, given, next, some * in);
                } else {
                    for (i64 r = 0; r < some; ++r)
                        std::memcpy(of_inputs + (first + r) * sizes[0], next + r * in, 4 * sizes[0]);
                }
                std::swap(now, next);
            }
        }
    }
    for (i64 chunk = 1; chunk < chunks; ++chunk)
        for (i64 i = 0; i < sums_size; ++i) sums[i] += sums[chunk * sums_size + i];
    const float *sum = sums;
    for (i64 l = 0; l < count; ++l) {
        const Layer &layer = layers[l];
        const i64 in = padded(layer.inputs), out = padded(layer.outputs);
        float *const of_weight = reinterpret_cast<float *>(gradients[2 * l]);
        for (i64 j = 0; j < layer.outputs; ++j)
            for (i64 i = 0; i < layer.inputs; ++i)
                of_weight[j * layer.inputs + i] = layer.along_inputs ? sum[j * in + i] : sum[i * out + j];
        sum += gradient_size(layer);
        std::memcpy(reinterpret_cast<float *>(gradients[2 * l + 1]), sum - out, 4 * layer.outputs);
    }
}

// ---- PPO's loss ------------------------------------------------------------------------------------------------

namespace {

struct Settings {
    float clip, entropy_weight, value_weight, value_scale;
    std::int32_t normalise, clip_values;
};

// Mean and deviation, as of a sample, of the numbers of samples that count.
struct Moments {
    double count = 0, mean = 0, deviation = 1;
    Moments(const float *values, const bool *active, i64 samples, bool needed) {
        for (i64 i = 0; i < samples; ++i) count += !active || active[i];
        if (!needed) return;
        double total = 0, squares = 0;
        for (i64 i = 0; i < samples; ++i) total += !active || active[i] ? values[i] : 0.0f;
        mean = total / std::max(count, 1.0);
        for (i64 i = 0; i < samples; ++i) {
            const double away = values[i] - mean;
            squares += !active || active[i] ? away * away : 0.0;
        }
        deviation = std::sqrt(squares / std::max(count - 1, 1.0)) + 1e-8;
    }
};

}  // namespace

// The loss of samples under a policy of categorical choices, of `sizes` each, whose logits stand side by side: what
// train/ppo.py computes with torch. `mask` and `active` may be null. Writes the gradients of the loss by logits and by
// values, log(ratio) of each sample, and into `means` the losses of policy and values, and the entropy.
TBS_EXPORTED void ppo_loss(i64 samples, i64 choices, const i64 *sizes, const float *logits, const float *values,
                           const i64 *actions, const float *old_log_probs, const float *old_values,
                           const float *advantages, const float *returns, const bool *mask, const bool *active,
                           const Settings *settings, float *of_logits, float *of_values, float *log_ratios, float *means) {
    i64 all = 0;
    for (i64 c = 0; c < choices; ++c) all += sizes[c];
    const Moments moments(advantages, active, samples, settings->normalise);
    const float share = 1.0 / std::max(moments.count, 1.0);
    const float clip = settings->clip, scale = settings->value_scale;
    static thread_local Buffer buffer;
    Vector *const scores = reinterpret_cast<Vector *>(buffer.of((2 * all + choices) * width));  // of logits
    Vector *const chances = scores + all, *const entropies = chances + all;
    double policy_loss = 0, value_loss = 0, entropy_sum = 0;
    for (i64 first = 0; first < samples; first += width) {
        const int some = std::min<i64>(width, samples - first);
        Vector log_prob{}, entropy{};
        i64 place = 0;
        for (i64 c = 0; c < choices; place += sizes[c++]) {
            constexpr float least = -3.402823466e38f;
            Vector most = Vector{} + least;
            for (i64 k = place; k < place + sizes[c]; ++k) {
                for (int s = 0; s < some; ++s) {
                    const i64 i = (first + s) * all + k;
                    scores[k][s] = mask && !mask[i] ? least : logits[i];
                }
                for (int s = some; s < width; ++s) scores[k][s] = 0;
                most = scores[k] > most ? scores[k] : most;
            }
            Vector total{}, own{};
            for (i64 k = place; k < place + sizes[c]; ++k) {
                scores[k] -= most;
                chances[k] = exp_of(scores[k]);
                total += chances[k];
            }
            Vector logarithm{};
            for (int s = 0; s < width; ++s) logarithm[s] = std::log(total[s]);
            for (i64 k = place; k < place + sizes[c]; ++k) {
                scores[k] -= logarithm;
                chances[k] /= total;
                own -= chances[k] == 0.0f ? Vector{} : chances[k] * scores[k];
            }
            for (int s = 0; s < some; ++s) log_prob[s] += scores[place + actions[(first + s) * choices + c]][s];
            entropies[c] = own;
            entropy += own;
        }
        Vector log_ratio{}, advantage{}, value{}, wanted{}, before{};
        Whole counts{};
        for (int s = 0; s < some; ++s) {
            const i64 i = first + s;
            counts[s] = !active || active[i] ? -1 : 0;
            log_ratio[s] = counts[s] ? log_prob[s] - old_log_probs[i] : 0.0f;  // before exp, which may be infinite
            advantage[s] = (advantages[i] - moments.mean) / moments.deviation;
            value[s] = values[i], wanted[s] = returns[i], before[s] = old_values[i];
        }
        const Vector ratio = exp_of(log_ratio);
        const Vector clipped = ratio < 1 - clip ? Vector{} + (1 - clip) : ratio > 1 + clip ? Vector{} + (1 + clip) : ratio;
        const Vector gain = advantage * ratio, least_gain = gain > advantage * clipped ? advantage * clipped : gain;
        const Vector by_log_prob = counts ? (ratio == clipped || gain < advantage * clipped ? -gain * share : Vector{}) : Vector{};
        Vector error = value - wanted, by_value = error;
        error *= error;
        if (settings->clip_values) {
            Vector move = (value - before) / scale;
            const Whole within = (move >= -clip) & (move <= clip);
            move = move < -clip ? Vector{} - clip : move > clip ? Vector{} + clip : move;
            const Vector far = before + move * scale - wanted;
            const Whole farther = far * far > error;
            by_value = farther ? (within ? far : Vector{}) : by_value;
            error = farther ? far * far : error;
        }
        const float weight = settings->value_weight * share / (scale * scale);
        for (int s = 0; s < some; ++s) {
            const i64 i = first + s;
            log_ratios[i] = log_ratio[s];
            of_values[i] = counts[s] ? by_value[s] * weight : 0.0f;
            if (!counts[s]) continue;
            policy_loss -= least_gain[s], value_loss += error[s], entropy_sum += entropy[s];
        }
        place = 0;
        for (i64 c = 0; c < choices; place += sizes[c++])
            for (i64 k = place; k < place + sizes[c]; ++k) {
                const Vector by_entropy = counts ? (chances[k] == 0.0f ? Vector{} : chances[k] * (scores[k] + entropies[c])) : Vector{};
                const Vector found = settings->entropy_weight * share * by_entropy - by_log_prob * chances[k];
                for (int s = 0; s < some; ++s) {
                    const i64 i = first + s;
                    const float chosen = actions[i * choices + c] == k - place ? by_log_prob[s] : 0.0f;
                    of_logits[i * all + k] = mask && !mask[i * all + k] ? 0.0f : found[s] + chosen;
                }
            }
    }
    means[0] = policy_loss * share;
    means[1] = 0.5 * value_loss * share / (scale * scale);
    means[2] = entropy_sum * share;
}
