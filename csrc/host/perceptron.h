// A multilayer perceptron forwards and backwards.
//
// Rows of inputs pass through all layers in tiles, whose numbers stay in the cache. Sums over rows have an order that
// does not depend on the number of threads: chunks of rows, each its own sums, and these in turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "host/sparse.h"
#include "host/vectors.h"

namespace {

constexpr i64 tile_rows = 96, chunk_rows = 2 * tile_rows;

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
    const i64 in = layer.inputs, out = layer.outputs;
    return (layer.along_inputs ? out * padded(in) : in * padded(out)) + padded(out);
}

// As train/algorithms/updates.py has it.
struct PerceptronGiven {
    i64 count, bfloat16;  // whether products may be of factors rounded to bfloat16
    const i64 *sizes, *activations, *addresses, *gradients;  // the last two of weight and bias of each layer
};

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
    const i64 last = padded(network.outputs);
    const float *activated = kept + stored * (network.kept - last);  // in the end of the layers before
    descend(layers[count - 1].activation, activated + skipped * last, now, some * last);
    const float *weight = network.backwards + network.backwards_size;
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

// Takes rows of inputs through a network whose weights are laid, a tile at a time, and calls `use(outputs, first,
// some)` with the outputs of each, [some, padded]. `kept`, if it is given, gets the activations of each layer in
// turn, [rows, padded size] each. No row depends on others: a few rows are divided among all threads.
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

// Of the gradients of the outputs [rows, outputs] those of the parameters, and of the inputs [rows, inputs], if there
// is a place for them.
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
