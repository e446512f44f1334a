// The trainer's arithmetic on the CPU, for Python: train/base/kernels.py compiles this and calls it with ctypes. First a
// multilayer perceptron forwards and backwards, then the actions of a step of a rollout, the gradient of PPO's loss of a
// minibatch, also of networks with the memory of host/memory.h, sums over processes, Adam, all passes over a batch,
// and statistics of episodes.
//
// Rows of inputs pass through all layers in tiles, whose numbers stay in the cache. Observations of games are mostly
// zeros: where they are, the first layer's products skip these, in the same order and so to the same bits. Sums over rows
// have an order that does not depend on the number of threads: chunks of rows, each its own sums, and these in turn.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "host/neighbours.h"
#include "host/memory.h"
#include "host/vectors.h"

namespace {

constexpr i64 tile_rows = 96, chunk_rows = 2 * tile_rows;

// ---- products with few numbers that are not zero -----------------------------------------------------------------

// What stands in a tile of inputs beside zeros: of line l (a row, or a column) those from starts[l] to starts[l + 1], each
// with its number and its place in the other direction.
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
        for (int v = 0; v < vectors; ++v) sums[v] = fused(number, *reinterpret_cast<const Vector *>(from + v * width), sums[v]);
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

enum Activation : i64 { none = 0, tangent = 1, rectified = 2 };

void activate(i64 kind, float *numbers, i64 count) {
    if (kind == none) return;
    if (kind == tangent) return tanh_of(numbers, count);
    for (i64 i = 0; i < count; i += width) {
        Vector &x = *reinterpret_cast<Vector *>(numbers + i);
        x = x <= 0.0f ? Vector{} : x;  // and NaN stays
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
    // Whether factors are rounded to bfloat16, forwards and backwards: where the units for it are faster, whatever the
    // number of rows, so that a row does not depend on others.
    bool rounded, rounded_backwards;
};

// Weights as forwards needs them: [inputs][padded outputs] of each layer, and its bias behind them.
i64 forward_size(const Layer &layer) { return (layer.inputs + 1) * padded(layer.outputs); }

// And as backwards needs them: [outputs][padded inputs].
i64 backward_size(const Layer &layer) { return layer.outputs * padded(layer.inputs); }

i64 gradient_size(const Layer &layer) {
    const i64 weights = layer.along_inputs ? layer.outputs * padded(layer.inputs) : layer.inputs * padded(layer.outputs);
    return weights + padded(layer.outputs);
}

}  // namespace

// As train/algorithms/updates.py has it.
struct PerceptronGiven {
    i64 count, bfloat16;  // whether products may be of factors rounded to bfloat16
    const i64 *sizes, *activations, *addresses, *gradients;  // the last two of weight and bias of each layer
};

namespace {

struct Perceptron {
    std::vector<Layer> layers;
    i64 inputs, outputs;
    const i64 *gradients;  // addresses, as of the parameters
    i64 kept = 0;          // numbers of a row that forwards leaves for backwards
    i64 forwards_size = 0, backwards_size = 0, gradients_size = 0, widest = 0;
    float *forwards = nullptr, *backwards = nullptr;  // the weights

    explicit Perceptron(const PerceptronGiven &given)
        : layers(given.count), inputs(given.sizes[0]), outputs(given.sizes[given.count]), gradients(given.gradients) {
        for (i64 l = 0; l < given.count; ++l) {
            Layer &layer = layers[l];
            const i64 in = given.sizes[l], out = given.sizes[l + 1];
            const bool rounded = given.bfloat16 && bfloat16::available() && in >= 16;
            layer = {in, out, given.activations[l], reinterpret_cast<const float *>(given.addresses[2 * l]),
                     reinterpret_cast<const float *>(given.addresses[2 * l + 1]), l > 0 && in >= out, rounded,
                     rounded && out >= 16};
            kept += padded(out);
            forwards_size += forward_size(layer);
            backwards_size += backward_size(layer);
            gradients_size += gradient_size(layer);
            widest = std::max({widest, padded(in), padded(out)});
        }
    }

    void lay_forwards(float *place) {
        forwards = place;
        for (const Layer &layer : layers) {
            const i64 out = padded(layer.outputs), size = layer.inputs * out;
            if (out > layer.outputs) std::fill(place, place + size, 0.0f);
            transpose(layer.weight, layer.inputs, layer.outputs, layer.inputs, place, out);
            for (i64 i = 0; i < size && layer.rounded; ++i) place[i] = rounded_to_bfloat16(place[i]);
            pad(layer.bias, 0, 1, layer.outputs, place + size);
            place += forward_size(layer);
        }
    }

    void lay_backwards(float *place) {
        backwards = place;
        for (const Layer &layer : layers) {
            pad(layer.weight, layer.inputs, layer.outputs, layer.inputs, place);
            place += backward_size(layer);
        }
    }
};

// Inputs of some rows, as the first layer takes them.
struct Tile {
    i64 rows, count, row_size;
    const float *numbers;  // [rows, count], consecutive rows `row_size` apart; null if zeros are skipped
    Sparse by_row, by_column;
    bool turned;
    Buffer floats;

    void read(const Inputs &inputs, i64 first, i64 some, const Perceptron &network) {
        rows = some, count = row_size = network.inputs, turned = false;
        const bool rounded = network.layers[0].rounded;
        if (inputs.bytes ? find_numbers<std::uint8_t>(inputs, first, some, count, rounded, by_row)
                         : find_numbers<float>(inputs, first, some, count, rounded, by_row)) {
            numbers = nullptr;
        } else if (!inputs.bytes && !inputs.order) {
            numbers = inputs.row<float>(first), row_size = inputs.row_size;
        } else {
            float *const to = floats.of(tile_rows * count);
            for (i64 r = 0; r < some; ++r) {
                if (inputs.bytes) {
                    const std::uint8_t *const row = inputs.row<std::uint8_t>(first + r);
                    for (i64 i = 0; i < count; ++i) to[r * count + i] = row[i];
                } else {
                    copy(inputs.row<float>(first + r), count, to + r * count);
                }
            }
            numbers = to;
        }
    }
};

// Outputs [tile.rows, padded]. `kept` gets the activations of each layer in turn, [stored, padded size] each, those of
// this tile behind `skipped` rows.
float *forward(const Perceptron &network, const Tile &tile, float *kept, i64 stored, i64 skipped) {
    const float *now = tile.numbers, *weight = network.forwards;
    i64 in = tile.row_size;
    float *next = kept;
    for (const Layer &layer : network.layers) {
        const i64 out = padded(layer.outputs);
        next = kept + skipped * out;
        kept += stored * out;
        const float *const bias = weight + layer.inputs * out;
        if (now)
            product(layer.rounded, tile.rows, out, layer.inputs, now, in, 1, weight, out, bias, false, next, out);
        else
            sparse_product(tile.by_row, tile.rows, out, weight, bias, next);
        activate(layer.activation, next, tile.rows * out);
        weight += forward_size(layer);
        now = next;
        in = out;
    }
    return next;
}

// Adds the gradients of the parameters to `sums`, given those of the outputs in `now`, [tile.rows, padded], and what
// `forward` kept. Of `now` and `next`, [tile.rows, network.widest], both are used up; returned are the gradients of the
// inputs, [tile.rows, padded], if they are `wanted`.
float *backward(const Perceptron &network, Tile &tile, const float *kept, i64 stored, i64 skipped, float *now,
                float *next, float *sums, bool wanted) {
    const std::vector<Layer> &layers = network.layers;
    const i64 count = layers.size(), some = tile.rows;
    const float *activated = kept + stored * (network.kept - padded(network.outputs)) + skipped * padded(network.outputs);
    descend(layers[count - 1].activation, activated, now, some * padded(network.outputs));
    const float *weight = network.backwards + network.backwards_size;
    activated = kept + stored * (network.kept - padded(network.outputs));  // of the layers before
    float *sum = sums + network.gradients_size;
    for (i64 l = count - 1; l >= 0; --l) {
        const Layer &layer = layers[l];
        const i64 in = padded(layer.inputs), out = padded(layer.outputs);
        const bool rounded = layer.rounded_backwards;
        sum -= gradient_size(layer);
        weight -= backward_size(layer);
        const float *given = tile.numbers;
        i64 given_row = tile.row_size;
        if (l > 0) {
            activated -= stored * in;
            given = activated + skipped * in, given_row = in;
        }
        if (layer.along_inputs) {
            product(rounded, layer.outputs, in, some, now, 1, out, given, in, nullptr, true, sum, in);
        } else if (!given) {
            if (!tile.turned) turn(tile.by_row, some, layer.inputs, tile.by_column);
            tile.turned = true;
            sparse_product(tile.by_column, layer.inputs, out, now, nullptr, sum);
        } else {
            product(rounded, layer.inputs, out, some, given, 1, given_row, now, out, nullptr, true, sum, out);
        }
        float *const bias = sum + gradient_size(layer) - out;
        for (i64 r = 0; r < some; ++r)
            for (i64 j = 0; j < out; ++j) bias[j] += now[r * out + j];
        if (l == 0 && !wanted) break;
        product(rounded, some, in, layer.outputs, now, out, 1, weight, in, nullptr, false, next, in);
        if (l > 0) descend(layers[l - 1].activation, given, next, some * in);
        std::swap(now, next);
    }
    return now;
}

// Writes the sum of what chunks have added up, each [network.gradients_size] and consecutive ones `apart`, to where the
// parameters' gradients belong; the sums are used up.
void write_gradients(const Perceptron &network, float *sums, i64 chunks, i64 apart, i64 threads) {
    constexpr i64 part = 1024;
    const i64 parts = (network.gradients_size + part - 1) / part;
    const i64 useful = useful_threads(threads, network.gradients_size * chunks);
#pragma omp parallel for num_threads(useful) schedule(static)
    for (i64 p = 0; p < parts; ++p) {
        const i64 end = std::min(network.gradients_size, (p + 1) * part);
        for (i64 chunk = 1; chunk < chunks; ++chunk)
            for (i64 i = p * part; i < end; ++i) sums[i] += sums[chunk * apart + i];
    }
    for (size_t l = 0; l < network.layers.size(); ++l) {
        const Layer &layer = network.layers[l];
        const i64 in = padded(layer.inputs), out = padded(layer.outputs);
        float *const of_weight = reinterpret_cast<float *>(network.gradients[2 * l]);
        if (!layer.along_inputs) transpose(sums, out, layer.inputs, layer.outputs, of_weight, layer.inputs);
        for (i64 j = 0; j < layer.outputs && layer.along_inputs; ++j)
            copy(sums + j * in, layer.inputs, of_weight + j * layer.inputs);
        sums += gradient_size(layer);
        copy(sums - out, layer.outputs, reinterpret_cast<float *>(network.gradients[2 * l + 1]));
    }
}

i64 chunks_of(i64 rows) { return std::max<i64>(1, (rows + chunk_rows - 1) / chunk_rows); }

}  // namespace

#define TBS_EXPORTED extern "C" __attribute__((visibility("default")))

// Whether products of factors rounded to bfloat16 are faster here.
TBS_EXPORTED bool has_bfloat16() { return bfloat16::available(); }

// Numbers that forwards keeps of a row for backwards.
TBS_EXPORTED i64 mlp_kept(const PerceptronGiven *given) { return Perceptron(*given).kept; }

namespace {

// Takes rows of inputs through a network whose weights are laid, a tile at a time, and calls `use(outputs, first, some)`
// with the outputs of each, [some, padded]. `kept`, if it is given, gets the activations of each layer in turn, [rows,
// padded size] each. No row depends on others: a few rows are divided among all threads.
template <class Use>
void for_tiles(const Perceptron &network, const Inputs &inputs, i64 rows, float *kept, i64 threads, const Use &use) {
    threads = useful_threads(threads, rows * network.forwards_size);
    const i64 size = std::min(tile_rows, std::max<i64>(most_rows, (rows + threads - 1) / threads));
    const i64 tiles = (rows + size - 1) / size;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (i64 index = 0; index < tiles; ++index) {
        static thread_local Buffer own;
        static thread_local Tile tile;
        const i64 first = index * size, some = std::min(size, rows - first);
        tile.read(inputs, first, some, network);
        use(kept ? forward(network, tile, kept, rows, first)
                 : forward(network, tile, own.of(tile_rows * network.kept), some, 0),
            first, some);
    }
}

// `rows` rows of inputs to `outputs` [rows, outputs].
void forward(const PerceptronGiven &given, const Inputs &inputs, i64 rows, float *outputs, float *kept, i64 threads) {
    static thread_local Buffer weights;
    Perceptron network(given);
    network.lay_forwards(weights.of(network.forwards_size));
    const i64 last = network.outputs;
    for_tiles(network, inputs, rows, kept, threads, [&](const float *found, i64 first, i64 some) {
        for (i64 r = 0; r < some; ++r) copy(found + r * padded(last), last, outputs + (first + r) * last);
    });
}

// Of the gradients of the outputs [rows, outputs] those of the parameters, and of the inputs [rows, inputs], if there is
// a place for them.
void backward(const PerceptronGiven &given, const Inputs &inputs, i64 rows, const float *kept, const float *of_outputs,
              float *of_inputs, i64 threads) {
    static thread_local Buffer weights, sums_buffer;
    Perceptron network(given);
    network.lay_backwards(weights.of(network.backwards_size));
    threads = useful_threads(threads, 2 * rows * network.backwards_size);
    const i64 chunks = chunks_of(rows), last = network.outputs, first_size = network.inputs;
    float *const sums = sums_buffer.of(chunks * network.gradients_size);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
        static thread_local Buffer own;
        static thread_local Tile tile;
        float *const now = own.of(2 * tile_rows * network.widest), *const next = now + tile_rows * network.widest;
        float *const sum = sums + chunk * network.gradients_size;
        std::fill(sum, sum + network.gradients_size, 0.0f);
        const i64 end = std::min(rows, (chunk + 1) * chunk_rows);
        for (i64 first = chunk * chunk_rows; first < end; first += tile_rows) {
            const i64 some = std::min(tile_rows, end - first);
            tile.read(inputs, first, some, network);
            pad(of_outputs + first * last, last, some, last, now);
            const float *const found = backward(network, tile, kept, rows, first, now, next, sum, of_inputs);
            for (i64 r = 0; r < some && of_inputs; ++r)
                copy(found + r * padded(first_size), first_size, of_inputs + (first + r) * first_size);
        }
    }
    write_gradients(network, sums, chunks, network.gradients_size, threads);
}

}  // namespace

// `numbers` [rows, inputs], consecutive rows `row_size` apart, bytes or floats.
TBS_EXPORTED void mlp_forward(const PerceptronGiven *given, const void *numbers, i64 row_size, i64 bytes, i64 rows,
                              float *outputs, float *kept, i64 threads) {
    forward(*given, {numbers, row_size, bytes, nullptr}, rows, outputs, kept, threads);
}

TBS_EXPORTED void mlp_backward(const PerceptronGiven *given, const void *numbers, i64 row_size, i64 bytes, i64 rows,
                               const float *kept, const float *of_outputs, float *of_inputs, i64 threads) {
    backward(*given, {numbers, row_size, bytes, nullptr}, rows, kept, of_outputs, of_inputs, threads);
}

// ---- acting ----------------------------------------------------------------------------------------------------

// A policy of `count` categorical choices, of `sizes` each; or, where these are null, a Gaussian in so many dimensions,
// with the logarithms of its standard deviations and the place of their gradient.
struct PolicyGiven {
    i64 count;
    const i64 *sizes;
    const float *log_stds;
    float *of_log_stds;
};

// Hidden layers, a memory and a last layer, as train/policies/memory.py has them; or layers, and nothing else.
struct NetworkGiven {
    const PerceptronGiven *body, *last;
    const memory::CellGiven *cell;
};

// As train/policies/drawing.py has it: steps of a rollout in which a policy acts for `rows` rows. Consecutive steps of
// inputs and noise are so many numbers apart; those of masks, if there are, and of actions have no gaps.
struct Drawing {
    const PerceptronGiven *actor;
    const PolicyGiven *policy;
    i64 rows;
    const unsigned char *inputs;
    i64 inputs_step, inputs_row, inputs_are_bytes;
    const float *noise;  // [rows, logits] of Gumbel's, or [rows, dimensions] of the standard normal distribution
    i64 noise_step;
    const bool *masks;  // [rows, logits]
    void *actions;      // whole numbers [rows, choices], or floats [rows, dimensions]
    float *weights;     // those of `last_layers` as forwards needs them, laid once for all steps
    // Of an actor with a memory, in place of `actor`; its states, which each step replaces; and which rows act, [steps,
    // rows], or null where all do.
    const NetworkGiven *remembering;
    float *state;
    const bool *active;
    const PerceptronGiven &last_layers() const { return remembering ? *remembering->last : *actor; }
};

namespace {

// The first of the largest of `size` logits with noise on them, of the allowed ones.
i64 likeliest(const float *logits, const float *noise, const bool *allowed, i64 size) {
    float most = -__builtin_inff();
    i64 found = 0;
    for (i64 k = 0; k < size; ++k) {
        const float score = logits[k] + noise[k];
        if ((allowed && !allowed[k]) || !(score > most)) continue;
        most = score, found = k;
    }
    return found;
}

// A step of the memory, given the inputs of the network: the inputs of the last layer.
Inputs remember(const Drawing &given, const Inputs &inputs, i64 step, i64 threads) {
    static thread_local Buffer buffer;
    const NetworkGiven &network = *given.remembering;
    const bool is_lstm = network.cell->is_lstm;
    const i64 size = network.cell->size, state_size = (is_lstm ? 2 : 1) * size;
    float *const seen = buffer.of(given.rows * network.cell->inputs);
    forward(*network.body, inputs, given.rows, seen, nullptr, threads);
    const bool *const active = given.active ? given.active + step * given.rows : nullptr;
    const memory::Sequence one{1, given.rows, seen, given.state, nullptr, active};
    float *const cells = is_lstm ? given.state + size : nullptr;
    memory::forward(*network.cell, one, given.state, cells, state_size, nullptr, threads);
    return {given.state, state_size, 0, nullptr, true};
}

}  // namespace

// Numbers of `weights`, and writes them: before the first step.
TBS_EXPORTED i64 weights_to_draw(const PerceptronGiven *last_layers) { return Perceptron(*last_layers).forwards_size; }

TBS_EXPORTED void begin_drawing(const Drawing *given) { Perceptron(given->last_layers()).lay_forwards(given->weights); }

// Writes the actions of a step.
TBS_EXPORTED void draw_actions(const Drawing *given, i64 step, i64 threads) {
    Perceptron network(given->last_layers());
    network.forwards = given->weights;
    const i64 number_size = given->inputs_are_bytes ? 1 : sizeof(float);
    Inputs inputs{given->inputs + step * given->inputs_step * number_size, given->inputs_row, given->inputs_are_bytes,
                  nullptr};
    if (given->remembering) inputs = remember(*given, inputs, step, threads);
    const PolicyGiven &policy = *given->policy;
    const float *const noise = given->noise + step * given->noise_step;
    const i64 rows = given->rows, each = network.outputs, outputs_row = padded(each);
    if (policy.sizes) {
        const bool *const masks = given->masks ? given->masks + step * rows * each : nullptr;
        i64 *const actions = static_cast<i64 *>(given->actions) + step * rows * policy.count;
        for_tiles(network, inputs, rows, nullptr, threads, [&](const float *found, i64 first, i64 some) {
            for (i64 r = 0; r < some; ++r) {
                const i64 begin = (first + r) * each;
                for (i64 c = 0, place = 0; c < policy.count; place += policy.sizes[c++])
                    actions[(first + r) * policy.count + c] =
                        likeliest(found + r * outputs_row + place, noise + begin + place,
                                  masks ? masks + begin + place : nullptr, policy.sizes[c]);
            }
        });
        return;
    }
    static thread_local Buffer buffer;
    float *const deviations = buffer.of(each), *const actions = static_cast<float *>(given->actions) + step * rows * each;
    for (i64 d = 0; d < each; ++d) deviations[d] = std::exp(policy.log_stds[d]);
    for_tiles(network, inputs, rows, nullptr, threads, [&](const float *found, i64 first, i64 some) {
        for (i64 r = 0; r < some; ++r)
            for (i64 d = 0; d < each; ++d) {
                const i64 place = (first + r) * each + d;
                actions[place] = found[r * outputs_row + d] + deviations[d] * noise[place];
            }
    });
}

// ---- PPO's loss ------------------------------------------------------------------------------------------------

// As train/algorithms/updates.py has it.
struct LossSettings {
    float clip, entropy_weight, value_weight;
    std::int32_t normalise;
};

// A minibatch: samples `order` of a batch, whose fields are those of ppo.Batch. `mask` and `active` may be null. Of
// several processes each has a part, and `moments` are those of all: how many samples count, the sum of their
// advantages, and of the squares. A single process has null.
//
// Where networks remember, `order` are rows, of which it has all steps; else `ends` is null.
struct Minibatch {
    const i64 *order;
    i64 samples;
    const void *inputs;
    i64 inputs_row, inputs_are_bytes;
    const void *actions;
    const float *log_probs, *advantages, *returns;
    const bool *mask, *active;
    i64 steps, rows;  // of the batch
    const bool *ends;
    const float *actor_state, *critic_state;
    const double *moments;
    bool counts(i64 i) const { return !active || active[i]; }
};

namespace {

// Mean and deviation, as of a sample, of the advantages of samples that count.
struct Moments {
    double count = 0, mean = 0, deviation = 1;
    Moments(const Minibatch &batch, bool needed) {
        double total = 0, squares = 0;
        if (batch.moments) {
            count = batch.moments[0];
            if (!needed) return;
            mean = batch.moments[1] / std::max(count, 1.0);
            squares = std::max(batch.moments[2] - batch.moments[1] * mean, 0.0);
        } else {
            for (i64 s = 0; s < batch.samples; ++s) count += batch.counts(batch.order[s]);
            if (!needed) return;
            for (i64 s = 0; s < batch.samples; ++s)
                total += batch.counts(batch.order[s]) ? batch.advantages[batch.order[s]] : 0.0f;
            mean = total / std::max(count, 1.0);
            for (i64 s = 0; s < batch.samples; ++s) {
                const double away = batch.advantages[batch.order[s]] - mean;
                squares += batch.counts(batch.order[s]) ? away * away : 0.0;
            }
        }
        deviation = std::sqrt(squares / std::max(count - 1, 1.0)) + 1e-8;
    }
};

struct Sums {
    double policy_loss = 0, value_loss = 0, entropy = 0;
    void write_means(const Moments &moments, float *means) const {
        const double share = 1.0 / std::max(moments.count, 1.0);
        means[0] = policy_loss * share, means[1] = 0.5 * value_loss * share, means[2] = entropy * share;
    }
};

// Some samples, at most `width`, each in one place of vectors: which of the batch, and the outputs of the actor, `row`
// apart.
struct Some {
    const Minibatch &batch;
    const i64 *order;
    int count;
    float *outputs;
    i64 row;
};

// A policy reads outputs of the actor, and then replaces them by their gradients, given that by the log-probability, and
// the weight of the entropy where samples count.

class Categorical {
    const i64 choices, *const sizes;
    i64 all = 0;
    Vector *scores, *chances, *entropies;  // of logits, and of choices

  public:
    explicit Categorical(const PolicyGiven &given) : choices(given.count), sizes(given.sizes) {
        static thread_local Buffer buffer;
        for (i64 c = 0; c < choices; ++c) all += sizes[c];
        scores = reinterpret_cast<Vector *>(buffer.of((2 * all + choices) * width));
        chances = scores + all, entropies = chances + all;
    }

    void read(const Some &some, Vector &log_prob, Vector &entropy) {
        const bool *const mask = some.batch.mask;
        const i64 *const actions = static_cast<const i64 *>(some.batch.actions);
        i64 place = 0;
        for (i64 c = 0; c < choices; place += sizes[c++]) {
            constexpr float least = -3.402823466e38f;
            Vector most = Vector{} + least;
            for (i64 k = place; k < place + sizes[c]; ++k) {
                for (int s = 0; s < some.count; ++s) {
                    const bool allowed = !mask || mask[some.order[s] * all + k];
                    scores[k][s] = allowed ? some.outputs[s * some.row + k] : least;
                }
                for (int s = some.count; s < width; ++s) scores[k][s] = 0;
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
            for (int s = 0; s < some.count; ++s)
                log_prob[s] += scores[place + actions[some.order[s] * choices + c]][s];
            entropies[c] = own;
            entropy += own;
        }
    }

    void write(const Some &some, Whole counts, Vector by_log_prob, float entropy_weight) {
        const bool *const mask = some.batch.mask;
        const i64 *const actions = static_cast<const i64 *>(some.batch.actions);
        i64 place = 0;
        for (i64 c = 0; c < choices; place += sizes[c++])
            for (i64 k = place; k < place + sizes[c]; ++k) {
                const Vector by_entropy = chances[k] == 0.0f ? Vector{} : chances[k] * (scores[k] + entropies[c]);
                const Vector found = counts ? entropy_weight * by_entropy - by_log_prob * chances[k] : Vector{};
                for (int s = 0; s < some.count; ++s) {
                    const float chosen = actions[some.order[s] * choices + c] == k - place ? by_log_prob[s] : 0.0f;
                    const bool allowed = !mask || mask[some.order[s] * all + k];
                    some.outputs[s * some.row + k] = allowed ? found[s] + chosen : 0.0f;
                }
            }
    }
};

class Gaussian {
    const i64 size;
    const float *const log_stds;
    double *const of_log_stds;  // sums
    Vector *z;                  // distances from the mean in standard deviations
    float *inverses;            // of these
    float constant = 0, entropy_of_all = 0;

  public:
    Gaussian(const PolicyGiven &given, double *sums)
        : size(given.count), log_stds(given.log_stds), of_log_stds(sums) {
        static thread_local Buffer buffer;
        constexpr float half_log_two_pi = 0.918938533f;
        float *const place = buffer.of(size * width + padded(size));
        z = reinterpret_cast<Vector *>(place), inverses = place + size * width;
        for (i64 d = 0; d < size; ++d) {
            inverses[d] = std::exp(-log_stds[d]);
            constant -= log_stds[d] + half_log_two_pi;
            entropy_of_all += log_stds[d] + half_log_two_pi + 0.5f;
        }
    }

    void read(const Some &some, Vector &log_prob, Vector &entropy) {
        const float *const actions = static_cast<const float *>(some.batch.actions);
        Vector squares{};
        for (i64 d = 0; d < size; ++d) {
            z[d] = Vector{};
            for (int s = 0; s < some.count; ++s)
                z[d][s] = (actions[some.order[s] * size + d] - some.outputs[s * some.row + d]) * inverses[d];
            squares += z[d] * z[d];
        }
        log_prob = constant - 0.5f * squares;
        entropy = Vector{} + entropy_of_all;
    }

    void write(const Some &some, Whole counts, Vector by_log_prob, float entropy_weight) {
        for (i64 d = 0; d < size; ++d) {
            const Vector by_mean = counts ? by_log_prob * z[d] * inverses[d] : Vector{};
            const Vector by_log_std = counts ? by_log_prob * (z[d] * z[d] - 1.0f) - entropy_weight : Vector{};
            for (int s = 0; s < some.count; ++s) {
                some.outputs[s * some.row + d] = by_mean[s];
                of_log_stds[d] += by_log_std[s];
            }
        }
    }
};

// Log-probabilities of the actions of all samples of a batch, in their order, given the outputs of the actor.
template <class Policy>
void log_probs(Policy policy, const Minibatch &batch, float *outputs, i64 outputs_row, float *found) {
    i64 order[width];
    for (i64 first = 0; first < batch.samples; first += width) {
        const int count = std::min<i64>(width, batch.samples - first);
        for (int s = 0; s < count; ++s) order[s] = first + s;
        Vector log_prob{}, entropy{};
        policy.read({batch, order, count, outputs + first * outputs_row, outputs_row}, log_prob, entropy);
        for (int s = 0; s < count; ++s) found[first + s] = log_prob[s];
    }
}

// The loss of `samples` samples under a policy: what train/algorithms/ppo.py computes with torch. Outputs of actor and
// critic have consecutive rows `outputs_row` and `values_row` apart; their gradients replace them. Writes log(ratio) of
// each sample, and adds to the sums.
template <class Policy>
void loss(Policy policy, const Minibatch &batch, i64 first_sample, i64 samples, const Moments &moments,
          const LossSettings &settings, float *outputs, i64 outputs_row, float *values, i64 values_row,
          float *log_ratios, Sums &sums) {
    constexpr float most = 88.0f;  // whose exp is finite: a sample with more has no gradient
    const float share = 1.0 / std::max(moments.count, 1.0);
    const float clip = settings.clip;
    for (i64 first = 0; first < samples; first += width) {
        const int count = std::min<i64>(width, samples - first);
        const i64 *const order = batch.order + first_sample + first;
        const Some some{batch, order, count, outputs + first * outputs_row, outputs_row};
        Vector log_prob{}, entropy{}, log_ratio{}, advantage{}, value{}, wanted{};
        policy.read(some, log_prob, entropy);
        Whole counts{};
        for (int s = 0; s < count; ++s) {
            const i64 i = order[s];
            counts[s] = batch.counts(i) ? -1 : 0;
            log_ratio[s] = counts[s] ? log_prob[s] - batch.log_probs[i] : 0.0f;  // before exp, which may be infinite
            advantage[s] = (batch.advantages[i] - moments.mean) / moments.deviation;
            value[s] = values[(first + s) * values_row];
            wanted[s] = batch.returns[i];
        }
        const Vector ratio = exp_of(log_ratio > most ? Vector{} + most : log_ratio);
        const Vector clipped = ratio < 1 - clip ? Vector{} + (1 - clip)
                               : ratio > 1 + clip ? Vector{} + (1 + clip)
                                                  : ratio;
        const Vector gain = advantage * ratio, clipped_gain = advantage * clipped;
        const Vector least_gain = gain > clipped_gain ? clipped_gain : gain;
        const Whole learns = counts & ~(log_ratio > most) & ((ratio == clipped) | (gain < clipped_gain));
        const Vector by_log_prob = learns ? -gain * share : Vector{};
        const Vector error = value - wanted;
        const float weight = settings.value_weight * share;
        for (int s = 0; s < count; ++s) {
            log_ratios[first + s] = log_ratio[s];
            values[(first + s) * values_row] = counts[s] ? error[s] * weight : 0.0f;
            if (!counts[s]) continue;
            sums.policy_loss -= least_gain[s], sums.value_loss += error[s] * error[s], sums.entropy += entropy[s];
        }
        policy.write(some, counts, by_log_prob, settings.entropy_weight * share);
    }
}

// The same of either policy; gradients of the logarithms of standard deviations are added to `of_log_stds`.
template <class... Given>
void loss_of(const PolicyGiven &policy, double *of_log_stds, Given &&...given) {
    if (policy.sizes)
        loss(Categorical(policy), given...);
    else
        loss(Gaussian(policy, of_log_stds), given...);
}

i64 log_stds_of(const PolicyGiven &policy) { return policy.sizes ? 0 : policy.count; }

void write_log_stds(const PolicyGiven &policy, const double *sums, i64 chunks) {
    for (i64 d = 0; d < log_stds_of(policy); ++d) {
        double total = 0;
        for (i64 chunk = 0; chunk < chunks; ++chunk) total += sums[chunk * policy.count + d];
        policy.of_log_stds[d] = total;
    }
}

}  // namespace

// Log-probabilities of `samples` actions, given outputs of the actor, consecutive rows `outputs_row` apart.
TBS_EXPORTED void log_probs_of(const PolicyGiven *policy, i64 samples, float *outputs, i64 outputs_row,
                               const void *actions, const bool *mask, float *found) {
    Minibatch batch{};
    batch.samples = samples, batch.actions = actions, batch.mask = mask;
    if (policy->sizes)
        log_probs(Categorical(*policy), batch, outputs, outputs_row, found);
    else
        log_probs(Gaussian(*policy, nullptr), batch, outputs, outputs_row, found);
}

namespace {

// A tile of samples passes forwards through actor and critic, through the loss, and backwards. Returns how many samples
// count.
double gradient_of_samples(const PerceptronGiven &actor_given, const PerceptronGiven &critic_given,
                           const PolicyGiven &policy, const Minibatch &batch, const LossSettings &settings,
                           float *log_ratios, float *means, i64 threads) {
    const Inputs inputs{batch.inputs, batch.inputs_row, batch.inputs_are_bytes, batch.order};
    static thread_local Buffer weights_buffer, sums_buffer;
    Perceptron actor(actor_given), critic(critic_given);
    float *place = weights_buffer.of(actor.forwards_size + actor.backwards_size + critic.forwards_size + critic.backwards_size);
    for (Perceptron *network : {&actor, &critic}) {
        network->lay_forwards(place);
        network->lay_backwards(place + network->forwards_size);
        place += network->forwards_size + network->backwards_size;
    }
    const Moments moments(batch, settings.normalise);
    const i64 samples = batch.samples, chunks = chunks_of(samples);
    threads = useful_threads(threads, 3 * samples * (actor.backwards_size + critic.backwards_size));
    const i64 sums_size = actor.gradients_size + critic.gradients_size, widest = std::max(actor.widest, critic.widest);
    float *const gradients = sums_buffer.of(chunks * sums_size);
    std::vector<Sums> sums(chunks);
    const i64 log_stds = log_stds_of(policy);
    std::vector<double> of_log_stds(chunks * log_stds);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
        static thread_local Buffer own;
        static thread_local Tile read, read_by_critic;
        float *const actor_kept = own.of(tile_rows * (actor.kept + critic.kept + 2 * widest));
        float *const critic_kept = actor_kept + tile_rows * actor.kept;
        float *const now = critic_kept + tile_rows * critic.kept, *const next = now + tile_rows * widest;
        float *const actor_sums = gradients + chunk * sums_size, *const critic_sums = actor_sums + actor.gradients_size;
        std::fill(actor_sums, actor_sums + sums_size, 0.0f);
        const i64 end = std::min(samples, (chunk + 1) * chunk_rows);
        for (i64 first = chunk * chunk_rows; first < end; first += tile_rows) {
            const i64 some = std::min(tile_rows, end - first);
            Tile &of_actor = read, &of_critic = critic.inputs == actor.inputs ? read : read_by_critic;
            of_actor.read(inputs, first, some, actor);
            if (&of_critic != &of_actor) of_critic.read(inputs, first, some, critic);
            float *const outputs = forward(actor, of_actor, actor_kept, some, 0);
            float *const values = forward(critic, of_critic, critic_kept, some, 0);
            // The last layers have no activation: what they say is not needed backwards.
            const i64 outputs_row = padded(actor.outputs), values_row = padded(critic.outputs);
            loss_of(policy, of_log_stds.data() + chunk * log_stds, batch, first, some, moments, settings, outputs,
                    outputs_row, values, values_row, log_ratios + first, sums[chunk]);
            std::memcpy(now, outputs, 4 * some * outputs_row);
            backward(actor, of_actor, actor_kept, some, 0, now, next, actor_sums, false);
            std::memcpy(now, values, 4 * some * values_row);
            backward(critic, of_critic, critic_kept, some, 0, now, next, critic_sums, false);
        }
    }
    write_gradients(actor, gradients, chunks, sums_size, threads);
    write_gradients(critic, gradients + actor.gradients_size, chunks, sums_size, threads);
    write_log_stds(policy, of_log_stds.data(), chunks);
    Sums all;
    for (const Sums &each : sums)
        all.policy_loss += each.policy_loss, all.value_loss += each.value_loss, all.entropy += each.entropy;
    all.write_means(moments, means);
    return moments.count;
}

}  // namespace

// ---- networks that remember ------------------------------------------------------------------------------------

// See memory::kept_size, forward and backward.
TBS_EXPORTED i64 cell_kept(const memory::CellGiven *given, const memory::Sequence *sequence) {
    return memory::kept_size(*given, *sequence);
}

TBS_EXPORTED void cell_forward(const memory::CellGiven *given, const memory::Sequence *sequence, float *outputs,
                               float *cells, i64 outputs_row, float *kept, i64 threads) {
    memory::forward(*given, *sequence, outputs, cells, outputs_row, kept, threads);
}

TBS_EXPORTED void cell_backward(const memory::CellGiven *given, const memory::Sequence *sequence, float *kept,
                                const float *of_outputs, const float *of_cells, float *of_inputs, float *of_state,
                                i64 threads) {
    memory::backward(*given, *sequence, kept, of_outputs, of_cells, of_inputs, of_state, threads);
}

namespace {

// A minibatch of rows: its samples, step after step, and what memories see of them.
struct Rows {
    Minibatch samples;
    memory::Sequence sequence;  // but for inputs and state

    explicit Rows(const Minibatch &given) : samples(given), sequence{given.steps, given.samples, nullptr, nullptr,
                                                                     nullptr, nullptr} {
        static thread_local AlignedBuffer<i64> order_buffer;
        static thread_local AlignedBuffer<bool> ends_buffer, active_buffer;
        samples.samples = given.steps * given.samples;
        i64 *const order = order_buffer.of(samples.samples);
        bool *const ends = ends_buffer.of(samples.samples);
        bool *const active = given.active ? active_buffer.of(samples.samples) : nullptr;
        for (i64 t = 0, place = 0; t < given.steps; ++t)
            for (i64 r = 0; r < given.samples; ++r, ++place) {
                order[place] = t * given.rows + given.order[r];
                ends[place] = given.ends[order[place]];
                if (active) active[place] = given.active[order[place]];
            }
        samples.order = order, sequence.ends = ends, sequence.active = active;
    }
};

// A network passes forwards over such samples, and then backwards. `states` are those of all rows of the batch.
struct Remembering {
    const NetworkGiven &given;
    const Inputs &inputs;
    i64 samples, threads;
    memory::Sequence sequence;
    float *seen, *of_seen, *remembered, *of_remembered, *outputs, *body_kept, *last_kept, *cell_kept, *state;

    Remembering(const NetworkGiven &network, const Inputs &all, const Minibatch &batch, const Rows &rows,
                const float *states, i64 number_of_threads, Buffer &buffer)
        : given(network), inputs(all), samples(rows.samples.samples), threads(number_of_threads),
          sequence(rows.sequence) {
        const Perceptron body(*given.body), last(*given.last);
        const i64 of_seen_size = samples * body.outputs, of_remembered_size = samples * last.inputs;
        const i64 state_size = (given.cell->is_lstm ? 2 : 1) * given.cell->size;
        const i64 sizes[] = {of_seen_size,        of_seen_size,
                             of_remembered_size,  of_remembered_size,
                             samples * last.outputs, samples * body.kept,
                             samples * last.kept, memory::kept_size(*given.cell, sequence),
                             batch.samples * state_size};
        float **const places[] = {&seen,      &of_seen,   &remembered, &of_remembered, &outputs,
                                  &body_kept, &last_kept, &cell_kept,  &state};
        constexpr i64 line = 16;  // of the cache
        i64 total = 0;
        for (const i64 size : sizes) total += (size + line - 1) / line * line;
        float *next = buffer.of(total);
        for (size_t i = 0; i < std::size(sizes); ++i) *places[i] = next, next += (sizes[i] + line - 1) / line * line;
        for (i64 r = 0; r < batch.samples; ++r)
            copy(states + batch.order[r] * state_size, state_size, state + r * state_size);
        sequence.inputs = seen, sequence.state = state;
    }

    // Writes `outputs` [samples, outputs].
    void pass_forwards() {
        ::forward(*given.body, inputs, samples, seen, body_kept, threads);
        memory::forward(*given.cell, sequence, remembered, nullptr, given.cell->size, cell_kept, threads);
        ::forward(*given.last, of(remembered), samples, outputs, last_kept, threads);
    }

    // Writes the gradients of all parameters, given those of the outputs in their place.
    void pass_backwards() {
        ::backward(*given.last, of(remembered), samples, last_kept, outputs, of_remembered, threads);
        memory::backward(*given.cell, sequence, cell_kept, of_remembered, nullptr, of_seen, nullptr, threads);
        ::backward(*given.body, inputs, samples, body_kept, of_seen, nullptr, threads);
    }

    Inputs of(const float *numbers) const { return {numbers, given.cell->size, 0, nullptr, true}; }
};

double gradient_of_rows(const NetworkGiven &actor_given, const NetworkGiven &critic_given, const PolicyGiven &policy,
                        const Minibatch &batch, const LossSettings &settings, float *log_ratios, float *means,
                        i64 threads) {
    static thread_local Buffer actor_buffer, critic_buffer;
    const Rows rows(batch);
    const Minibatch &samples = rows.samples;
    const Inputs inputs{batch.inputs, batch.inputs_row, batch.inputs_are_bytes, samples.order};
    Remembering actor(actor_given, inputs, batch, rows, batch.actor_state, threads, actor_buffer);
    Remembering critic(critic_given, inputs, batch, rows, batch.critic_state, threads, critic_buffer);
    actor.pass_forwards();
    critic.pass_forwards();
    const Moments moments(samples, settings.normalise);
    std::vector<double> of_log_stds(log_stds_of(policy));
    Sums sums;
    loss_of(policy, of_log_stds.data(), samples, i64{0}, samples.samples, moments, settings, actor.outputs,
            actor_given.last->sizes[actor_given.last->count], critic.outputs, i64{1}, log_ratios, sums);
    write_log_stds(policy, of_log_stds.data(), 1);
    critic.pass_backwards();
    actor.pass_backwards();
    sums.write_means(moments, means);
    return moments.count;
}

double gradient(const NetworkGiven &actor, const NetworkGiven &critic, const PolicyGiven &policy,
                const Minibatch &batch, const LossSettings &settings, float *log_ratios, float *means, i64 threads) {
    if (batch.ends)
        return gradient_of_rows(actor, critic, policy, batch, settings, log_ratios, means, threads);
    return gradient_of_samples(*actor.body, *critic.body, policy, batch, settings, log_ratios, means, threads);
}

}  // namespace

// The gradient of PPO's loss of a minibatch. The actor reads the first of the inputs that the critic reads. Writes
// log(ratio) of each sample, and into `means` the losses of policy and values, and the entropy.
TBS_EXPORTED void ppo_gradient(const NetworkGiven *actor, const NetworkGiven *critic, const PolicyGiven *policy,
                               const Minibatch *batch, const LossSettings *settings, float *log_ratios, float *means,
                               i64 threads) {
    gradient(*actor, *critic, *policy, *batch, *settings, log_ratios, means, threads);
}

// ---- several processes ------------------------------------------------------------------------------------------

// Replaces numbers, doubles or floats, by their sums over all processes. Returns a neighbours::Result.
TBS_EXPORTED i64 sum_of_processes(const neighbours::Given *given, void *numbers, i64 count, i64 doubles) {
    return doubles ? neighbours::sum_in_parts(*given, static_cast<double *>(numbers), count)
                   : neighbours::sum_in_parts(*given, static_cast<float *>(numbers), count);
}

// Of an order of the samples of `count` processes, cut into minibatches, the part of process `rank`, as Ranks.order has
// it: sample i is of row i % (rows * count). Writes their numbers among its own, and how many are in each minibatch.
TBS_EXPORTED void part_of_order(const i64 *order, i64 samples, i64 minibatches, i64 rows, i64 rank, i64 count, i64 *own,
                                i64 *sizes) {
    const i64 all = rows * count, size = samples / minibatches;
    // A quotient is a product with 2^64 / all, rounded up: exact for samples and rows below 2^32 (Lemire, Kaser and Kurz
    // 2019). Processors divide such numbers ten times slower.
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
TBS_EXPORTED void moments_of_parts(const float *values, const bool *active, i64 steps, i64 columns, const i64 *order,
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

// ---- the optimiser ---------------------------------------------------------------------------------------------

// As train/algorithms/updates.py has it.
struct AdamSettings {
    float learning_rate, beta1, beta2, epsilon, longest;  // the length to which gradients are cut
};

// A step of Adam (Kingma and Ba 2015) behind a cut of the gradient, after so many `steps`, which are counted. Writes
// the gradient's length before.
TBS_EXPORTED void adam_step(i64 count, float *parameters, float *gradients, float *means, float *squares, float *steps,
                            const AdamSettings *settings, float *length) {
    double total = 0;
    for (i64 first = 0; first < count; first += 256) {
        float part = 0;
        const i64 end = std::min(count, first + 256);
        Vector parts{};
        i64 i = first;
        for (; i + width <= end; i += width) {
            const Vector g = *reinterpret_cast<const Vector *>(gradients + i);
            parts += g * g;
        }
        for (int v = 0; v < width; ++v) part += parts[v];
        for (; i < end; ++i) part += gradients[i] * gradients[i];
        total += part;
    }
    const float norm = *length = std::sqrt(total);
    const double step = *steps += 1;
    const float cut = settings->longest / (norm + 1e-6f), factor = cut > 1 ? 1 : cut;  // NaN stays
    const float rest1 = 1 - settings->beta1, rest2 = 1 - settings->beta2;
    const float rate = settings->learning_rate / (1 - std::pow(double{settings->beta1}, step));
    const float unit = 1 / std::sqrt(1 - std::pow(double{settings->beta2}, step));
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) {
        const float g = gradients[i] * factor;
        gradients[i] = g;
        means[i] += (g - means[i]) * rest1;
        squares[i] += (g * g - squares[i]) * rest2;
        parameters[i] -= rate * means[i] / (std::sqrt(squares[i]) * unit + settings->epsilon);
    }
}

// ---- passes over a batch ---------------------------------------------------------------------------------------

// As train/algorithms/updates.py has it: `passes` of so many minibatches each, of these sizes, one behind the other in the
// order of the batch, and the parameters with what the optimiser keeps of them. Of several processes, `moments` are those
// of each minibatch, and gradients are summed over all; a single process has null for both.
struct Passes {
    i64 passes, minibatches;
    const i64 *sizes;       // [passes, minibatches]
    const double *moments;  // [passes, minibatches, 3]
    const neighbours::Given *processes;
    i64 count;
    float *parameters, *gradients, *means, *squares, *steps;
};

// What a pass shows: of its last minibatch losses of policy and values, entropy, the estimators of the KL divergence k1 and
// k3 (Schulman, "Approximating KL divergence"), and the share of samples with a clipped ratio, all as means, of several
// processes this one's part; and the gradient's length before it was cut.
struct Shown {
    float policy_loss, value_loss, entropy, old_approx_kl, approx_kl, clip_fraction, gradient_norm;
};

// A gradient and a step of the optimiser for each minibatch. Returns a neighbours::Result.
TBS_EXPORTED i64 ppo_passes(const NetworkGiven *actor, const NetworkGiven *critic, const PolicyGiven *policy,
                            const Minibatch *batch, const LossSettings *settings, const Passes *given,
                            const AdamSettings *adam, Shown *shown, i64 threads) {
    static thread_local Buffer buffer;
    Minibatch some = *batch;
    some.samples = 0;
    for (i64 m = 0; m < given->passes * given->minibatches; ++m) {
        some.order += some.samples;
        some.samples = given->sizes[m];
        some.moments = given->moments ? given->moments + 3 * m : nullptr;
        const i64 samples = some.samples * (some.ends ? some.steps : 1);
        float *const log_ratios = buffer.of(samples), *const means = &shown->policy_loss;  // and the two behind it
        const double counted = gradient(*actor, *critic, *policy, some, *settings, log_ratios, means, threads);
        if (given->processes) {
            const i64 result = neighbours::sum_in_parts(*given->processes, given->gradients, given->count);
            if (result != neighbours::done) return result;
        }
        adam_step(given->count, given->parameters, given->gradients, given->means, given->squares, given->steps, adam,
                  &shown->gradient_norm);
        if ((m + 1) % given->minibatches) continue;
        double log_ratio_sum = 0, divergence = 0;
        i64 clipped = 0;
        for (i64 s = 0; s < samples; ++s) {
            const float log_ratio = log_ratios[s], ratio = std::exp(log_ratio);  // 1 where it does not count
            log_ratio_sum += log_ratio;
            divergence += ratio - 1 - log_ratio;
            clipped += std::abs(ratio - 1) > settings->clip;
        }
        const double share = 1.0 / std::max(counted, 1.0);
        shown->old_approx_kl = -log_ratio_sum * share;
        shown->approx_kl = divergence * share;
        shown->clip_fraction = clipped * share;
        ++shown;
    }
    return neighbours::done;
}

// ---- episodes ----------------------------------------------------------------------------------------------------

// As train/rollouts/episodes.py has it: a rollout, [steps, rows] each, `active` or null; and return and length, [2, rows],
// of the running episode of each row, and of the latest that ended.
struct EpisodesGiven {
    i64 steps, rows;
    const float *rewards;
    const bool *terminations, *truncations, *active;
    float *running, *latest;
};

// Follows the episodes through the rollout. Where several of a row end in it, the latest are their mean.
TBS_EXPORTED void follow_episodes(const EpisodesGiven *given) {
    const i64 rows = given->rows;
    for (i64 r = 0; r < rows; ++r) {
        float &running = given->running[r], &length = given->running[rows + r];
        float total = 0, lengths = 0;
        i64 ended = 0;
        for (i64 place = r; place < given->steps * rows; place += rows) {
            if (!given->active || given->active[place]) running += given->rewards[place], length += 1;
            // An agent that has left meets the end of its world as well, which is not another episode.
            if ((given->terminations[place] || given->truncations[place]) && length > 0) {
                total += running, lengths += length, ++ended;
                running = length = 0;
            }
        }
        if (ended) given->latest[r] = total / ended, given->latest[rows + r] = lengths / ended;
    }
}

// ---- checks ------------------------------------------------------------------------------------------------------

TBS_EXPORTED bool all_finite(const float *numbers, i64 count) {
    std::int32_t any = 0;
    for (i64 i = 0; i < count; ++i) {
        std::int32_t bits;
        std::memcpy(&bits, numbers + i, 4);
        any |= (bits & 0x7f800000) == 0x7f800000;
    }
    return !any;
}
