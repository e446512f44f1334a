// LSTM and GRU over sequences on the CPU, forwards and backwards.
//
// Rows do not depend on each other: a chunk of them passes through all steps, and its numbers stay in the cache of one
// core. What does not depend on the state is one product for all steps: that with the inputs forwards, gradients of
// weights and inputs backwards. A step has one product with the state, and one pass for all between products. Sums over
// rows are those of chunks, in turn, whatever the number of threads.
//
// A sample is a step of a row, its line four parts: of an LSTM the gates in, keep, new, out (i, f, g, o of torch), of a
// GRU the part of the new state that the state gives, and the gates reset, keep (z of torch), new. So what inputs give
// and what the state gives are consecutive parts, in both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "host/vectors.h"

namespace memory {

// As train/policies/memory.py has them.
struct CellGiven {
    i64 is_lstm, inputs, size;
    const i64 *addresses, *gradients;  // of input: weight, bias; of hidden: weight, bias
};

// Inputs [steps, rows, inputs]; the state before the first step [rows, size], of an LSTM [rows, 2 * size]. The state is
// zero behind a step that ends an episode, [steps, rows], and waits where a row is not active, [steps, rows]. Both may
// be null.
struct Sequence {
    i64 steps, rows;
    const float *inputs, *state;
    const bool *ends, *active;
};

constexpr i64 chunk_rows = 24, tile_samples = 96, parts = 4;

inline Vector load(const float *from) { return *reinterpret_cast<const Vector *>(from); }
inline void store(float *to, Vector numbers) { *reinterpret_cast<Vector *>(to) = numbers; }

// 1 / (1 + exp(-x)), error below 2e-7.
inline Vector sigmoid_of(Vector x) { return 0.5f + 0.5f * tanh_of(0.5f * x); }

// The size of lines: an odd number of vectors, since in lines a power of 2 apart a column is in few sets of the cache.
constexpr i64 line_of(i64 columns) { return columns / width % 2 ? columns : columns + width; }

struct Cell {
    bool is_lstm;
    i64 inputs, size, part, gates;  // `part` is the size in whole vectors
    i64 first_of_input, input_columns, hidden_columns;
    i64 line, input_line, hidden_line;
    const CellGiven &given;
    // Weights as forwards needs them: [inputs][input_line], [size][hidden_line], [line]
    float *of_input = nullptr, *of_hidden = nullptr, *bias = nullptr;
    // And as backwards needs them: [input_columns][padded inputs], [hidden_columns][part].
    float *input_back = nullptr, *hidden_back = nullptr;

    explicit Cell(const CellGiven &cell)
        : is_lstm(cell.is_lstm), inputs(cell.inputs), size(cell.size), part(padded(size)), gates(is_lstm ? 4 : 3),
          first_of_input(is_lstm ? 0 : part), input_columns(gates * part), hidden_columns(gates * part),
          line(line_of(parts * part)), input_line(line_of(input_columns)), hidden_line(line_of(hidden_columns)),
          given(cell) {}

    // The column of a gate of torch among those of inputs, and among those of the state.
    i64 input_column(i64 gate) const { return gate * part; }
    i64 hidden_column(i64 gate) const { return (is_lstm ? gate : (gate + 1) % 3) * part; }
    const float *parameter(i64 i) const { return reinterpret_cast<const float *>(given.addresses[i]); }
    float *gradient(i64 i) const { return reinterpret_cast<float *>(given.gradients[i]); }

    i64 forwards_size() const { return inputs * input_line + size * hidden_line + line; }
    i64 backwards_size() const { return input_columns * padded(inputs) + hidden_columns * part; }
    // What a chunk keeps: lines of samples, states before each step and behind the last, and tanh of an LSTM's cells.
    i64 kept(i64 steps, i64 rows) const {
        return steps * rows * (line + (is_lstm ? part : 0)) + (steps + 1) * rows * (is_lstm ? 2 : 1) * part;
    }

    void lay_forwards(float *place) {
        std::fill(place, place + forwards_size(), 0.0f);
        of_input = place, of_hidden = of_input + inputs * input_line, bias = of_hidden + size * hidden_line;
        for (i64 gate = 0; gate < gates; ++gate) {
            const i64 column = input_column(gate), hidden = hidden_column(gate);
            transpose(parameter(0) + gate * size * inputs, inputs, size, inputs, of_input + column, input_line);
            transpose(parameter(2) + gate * size * size, size, size, size, of_hidden + hidden, hidden_line);
            for (i64 j = 0; j < size; ++j) {
                bias[first_of_input + column + j] += parameter(1)[gate * size + j];
                bias[hidden + j] += parameter(3)[gate * size + j];
            }
        }
    }

    void lay_backwards(float *place) {
        const i64 in = padded(inputs);
        std::fill(place, place + backwards_size(), 0.0f);
        input_back = place, hidden_back = place + input_columns * in;
        for (i64 gate = 0; gate < gates; ++gate) {
            pad(parameter(0) + gate * size * inputs, inputs, size, inputs, input_back + input_column(gate) * in);
            pad(parameter(2) + gate * size * size, size, size, size, hidden_back + hidden_column(gate) * part);
        }
    }
};

// Rows `first` to `first + rows` of a sequence, and what is kept of them.
struct Chunk {
    i64 steps, first, rows, samples;
    float *lines, *hidden, *cells, *tangents;

    Chunk(const Cell &cell, const Sequence &given, i64 index, float *place)
        : steps(given.steps), first(index * chunk_rows), rows(std::min(chunk_rows, given.rows - first)),
          samples(steps * rows), lines(place), hidden(lines + samples * cell.line),
          cells(hidden + (steps + 1) * rows * cell.part), tangents(cells + (steps + 1) * rows * cell.part) {}

    i64 among_all(const Sequence &given, i64 sample) const {
        return sample / rows * given.rows + first + sample % rows;
    }

    // Its inputs [samples, inputs], which are copied into a buffer unless they are consecutive.
    const float *inputs(const Cell &cell, const Sequence &given, Buffer &buffer) const {
        const i64 size = cell.inputs;
        if (rows == given.rows || steps == 1) return given.inputs + first * size;
        float *const to = buffer.of(samples * size);
        for (i64 t = 0; t < steps; ++t)
            std::memcpy(to + t * rows * size, given.inputs + (t * given.rows + first) * size, 4 * rows * size);
        return to;
    }
};

// ---- forwards --------------------------------------------------------------------------------------------------

// A step of a row: its line, the state before it, and the one behind it; gates stay in the line.
inline void step_lstm(i64 part, float *line, const float *cell, float *hidden_next, float *cell_next, float *tangent) {
    for (i64 j = 0; j < part; j += width) {
        const Vector in = sigmoid_of(load(line + j)), keep = sigmoid_of(load(line + part + j));
        const Vector fresh = tanh_of(load(line + 2 * part + j)), out = sigmoid_of(load(line + 3 * part + j));
        const Vector next = keep * load(cell + j) + in * fresh, of_next = tanh_of(next);
        store(line + j, in), store(line + part + j, keep);
        store(line + 2 * part + j, fresh), store(line + 3 * part + j, out);
        store(cell_next + j, next), store(tangent + j, of_next), store(hidden_next + j, out * of_next);
    }
}

inline void step_gru(i64 part, float *line, const float *hidden, float *hidden_next) {
    for (i64 j = 0; j < part; j += width) {
        const Vector reset = sigmoid_of(load(line + part + j)), keep = sigmoid_of(load(line + 2 * part + j));
        const Vector fresh = tanh_of(load(line + 3 * part + j) + reset * load(line + j));
        store(line + part + j, reset), store(line + 2 * part + j, keep), store(line + 3 * part + j, fresh);
        store(hidden_next + j, fresh + keep * (load(hidden + j) - fresh));
    }
}

inline void forward(const Cell &cell, const Sequence &given, const Chunk &chunk, float *outputs, float *cells,
                    i64 outputs_row) {
    static thread_local Buffer buffer;
    const i64 part = cell.part, size = cell.size, rows = chunk.rows, state_size = (cell.is_lstm ? 2 : 1) * size;
    product(false, chunk.samples, cell.input_columns, cell.inputs, chunk.inputs(cell, given, buffer), cell.inputs, 1,
            cell.of_input, cell.input_line, cell.bias + cell.first_of_input, false, chunk.lines + cell.first_of_input,
            cell.line);
    for (i64 s = 0; s < chunk.samples && cell.first_of_input; ++s)
        std::memcpy(chunk.lines + s * cell.line, cell.bias, 4 * cell.first_of_input);
    pad(given.state + chunk.first * state_size, state_size, rows, size, chunk.hidden);
    if (cell.is_lstm) pad(given.state + chunk.first * state_size + size, state_size, rows, size, chunk.cells);
    for (i64 t = 0; t < chunk.steps; ++t) {
        float *const lines = chunk.lines + t * rows * cell.line;
        product(false, rows, cell.hidden_columns, size, chunk.hidden + t * rows * part, part, 1, cell.of_hidden,
                cell.hidden_line, nullptr, true, lines, cell.line);
        for (i64 r = 0; r < rows; ++r) {
            const i64 sample = t * rows + r, place = t * given.rows + chunk.first + r;
            const float *const hidden = chunk.hidden + sample * part, *const own = chunk.cells + sample * part;
            float *const hidden_next = chunk.hidden + (sample + rows) * part;
            float *const cell_next = chunk.cells + (sample + rows) * part;
            if (given.active && !given.active[place]) {
                std::memcpy(hidden_next, hidden, 4 * part);
                if (cell.is_lstm) std::memcpy(cell_next, own, 4 * part);
            } else if (cell.is_lstm) {
                step_lstm(part, lines + r * cell.line, own, hidden_next, cell_next, chunk.tangents + sample * part);
            } else {
                step_gru(part, lines + r * cell.line, hidden, hidden_next);
            }
            std::memcpy(outputs + place * outputs_row, hidden_next, 4 * size);
            if (cells) std::memcpy(cells + place * outputs_row, cell_next, 4 * size);
            if (given.ends && given.ends[place]) {
                std::fill(hidden_next, hidden_next + part, 0.0f);
                if (cell.is_lstm) std::fill(cell_next, cell_next + part, 0.0f);
            }
        }
    }
}

// ---- backwards -------------------------------------------------------------------------------------------------

// A step of a row: gradients of what stood in its line before the gates replace them. Those of the state behind it,
// `of_hidden` and `of_cell`, become those of the state before it, but for what comes through the line.
inline void back_lstm(i64 part, float *line, const float *cell, const float *tangent, float *of_hidden,
                      float *of_cell) {
    for (i64 j = 0; j < part; j += width) {
        const Vector in = load(line + j), keep = load(line + part + j), fresh = load(line + 2 * part + j);
        const Vector out = load(line + 3 * part + j), by = load(of_hidden + j), tanh = load(tangent + j);
        const Vector by_cell = load(of_cell + j) + by * out * (1.0f - tanh * tanh);
        store(line + j, by_cell * fresh * in * (1.0f - in));
        store(line + part + j, by_cell * load(cell + j) * keep * (1.0f - keep));
        store(line + 2 * part + j, by_cell * in * (1.0f - fresh * fresh));
        store(line + 3 * part + j, by * tanh * out * (1.0f - out));
        store(of_cell + j, by_cell * keep), store(of_hidden + j, Vector{});
    }
}

inline void back_gru(i64 part, float *line, const float *hidden, float *of_hidden) {
    for (i64 j = 0; j < part; j += width) {
        const Vector given = load(line + j), reset = load(line + part + j), keep = load(line + 2 * part + j);
        const Vector fresh = load(line + 3 * part + j), by = load(of_hidden + j);
        const Vector by_fresh = by * (1.0f - keep) * (1.0f - fresh * fresh);
        store(line + j, by_fresh * reset);
        store(line + part + j, by_fresh * given * reset * (1.0f - reset));
        store(line + 2 * part + j, by * (load(hidden + j) - fresh) * keep * (1.0f - keep));
        store(line + 3 * part + j, by_fresh);
        store(of_hidden + j, by * keep);
    }
}

// `sums` are laid as weights and bias are forwards.
inline void backward(const Cell &cell, const Sequence &given, const Chunk &chunk, const float *of_outputs,
                     const float *of_cells, float *of_inputs, float *of_state, float *sums) {
    static thread_local Buffer buffer, copied;
    const i64 part = cell.part, size = cell.size, rows = chunk.rows, in = padded(cell.inputs);
    float *const of_hidden = buffer.of(2 * rows * part + tile_samples * in), *const of_cell = of_hidden + rows * part;
    std::fill(of_hidden, of_hidden + 2 * rows * part, 0.0f);
    for (i64 t = chunk.steps - 1; t >= 0; --t) {
        float *const lines = chunk.lines + t * rows * cell.line;
        for (i64 r = 0; r < rows; ++r) {
            const i64 sample = t * rows + r, place = t * given.rows + chunk.first + r;
            float *const hidden = of_hidden + r * part, *const own = of_cell + r * part;
            float *const line = lines + r * cell.line;
            if (given.ends && given.ends[place]) {
                std::fill(hidden, hidden + part, 0.0f);
                std::fill(own, own + part, 0.0f);
            }
            for (i64 j = 0; j < size && of_outputs; ++j) hidden[j] += of_outputs[place * size + j];
            for (i64 j = 0; j < size && of_cells; ++j) own[j] += of_cells[place * size + j];
            if (given.active && !given.active[place])
                std::fill(line, line + parts * part, 0.0f);
            else if (cell.is_lstm)
                back_lstm(part, line, chunk.cells + sample * part, chunk.tangents + sample * part, hidden, own);
            else
                back_gru(part, line, chunk.hidden + sample * part, hidden);
        }
        if (t > 0 || of_state)
            product(false, rows, part, cell.hidden_columns, lines, cell.line, 1, cell.hidden_back, part, nullptr, true,
                    of_hidden, part);
    }
    const i64 state_size = (cell.is_lstm ? 2 : 1) * size;
    for (i64 r = 0; r < rows && of_state; ++r) {
        float *const to = of_state + (chunk.first + r) * state_size;
        std::memcpy(to, of_hidden + r * part, 4 * size);
        if (cell.is_lstm) std::memcpy(to + size, of_cell + r * part, 4 * size);
    }
    std::fill(sums, sums + cell.forwards_size(), 0.0f);
    float *const by_hidden = sums + cell.inputs * cell.input_line, *const by_bias = by_hidden + size * cell.hidden_line;
    float *const found = of_cell + rows * part;
    const float *const inputs = chunk.inputs(cell, given, copied);
    for (i64 first = 0; first < chunk.samples; first += tile_samples) {
        const i64 some = std::min(tile_samples, chunk.samples - first);
        const float *const lines = chunk.lines + first * cell.line, *const of_gates = lines + cell.first_of_input;
        product(false, cell.inputs, cell.input_columns, some, inputs + first * cell.inputs, 1, cell.inputs, of_gates,
                cell.line, nullptr, true, sums, cell.input_line);
        product(false, size, cell.hidden_columns, some, chunk.hidden + first * part, 1, part, lines, cell.line, nullptr,
                true, by_hidden, cell.hidden_line);
        for (i64 s = 0; s < some; ++s)
            for (i64 j = 0; j < parts * part; ++j) by_bias[j] += lines[s * cell.line + j];
        if (!of_inputs) continue;
        product(false, some, in, cell.input_columns, of_gates, cell.line, 1, cell.input_back, in, nullptr, false, found,
                in);
        for (i64 s = 0; s < some; ++s)
            std::memcpy(of_inputs + chunk.among_all(given, first + s) * cell.inputs, found + s * in, 4 * cell.inputs);
    }
}

inline i64 chunks_of(const Sequence &given) { return (given.rows + chunk_rows - 1) / chunk_rows; }

// Numbers that forwards keeps of a sequence for backwards.
inline i64 kept_size(const CellGiven &given, const Sequence &sequence) {
    return chunks_of(sequence) * Cell(given).kept(sequence.steps, chunk_rows);
}

// Writes the states behind each step, as they were before an end makes them zero: to `outputs` [steps, rows, size], and
// the cells of an LSTM to `cells`, if given; consecutive rows are `outputs_row` apart. `kept`, if given, gets what
// backwards needs.
inline void forward(const CellGiven &given, const Sequence &sequence, float *outputs, float *cells, i64 outputs_row,
                    float *kept, i64 threads) {
    static thread_local Buffer weights;
    Cell cell(given);
    cell.lay_forwards(weights.of(cell.forwards_size()));
    threads = useful_threads(threads, sequence.steps * sequence.rows * cell.forwards_size());
    const i64 chunks = chunks_of(sequence), size = cell.kept(sequence.steps, chunk_rows);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (i64 index = 0; index < chunks; ++index) {
        static thread_local Buffer own;
        const Chunk chunk(cell, sequence, index, kept ? kept + index * size : own.of(size));
        forward(cell, sequence, chunk, outputs, cells, outputs_row);
    }
}

// Gradients of all parameters, of the inputs [steps, rows, inputs], and of the first state, [rows, size] or
// [rows, 2 * size], where there is a place; given those of outputs and of cells, [steps, rows, size], null where
// zero. `kept`, which is used up, and the sequence are those of forward.
inline void backward(const CellGiven &given, const Sequence &sequence, float *kept, const float *of_outputs,
                     const float *of_cells, float *of_inputs, float *of_state, i64 threads) {
    static thread_local Buffer weights, sums_buffer;
    Cell cell(given);
    cell.lay_backwards(weights.of(cell.backwards_size()));
    threads = useful_threads(threads, 2 * sequence.steps * sequence.rows * cell.backwards_size());
    const i64 chunks = std::max<i64>(1, chunks_of(sequence)), size = cell.kept(sequence.steps, chunk_rows);
    const i64 sums_size = cell.forwards_size();
    float *const sums = sums_buffer.of(chunks * sums_size);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (i64 index = 0; index < chunks; ++index) {
        const Chunk chunk(cell, sequence, index, kept + index * size);
        backward(cell, sequence, chunk, of_outputs, of_cells, of_inputs, of_state, sums + index * sums_size);
    }
    for (i64 chunk = 1; chunk < chunks; ++chunk)
        for (i64 i = 0; i < sums_size; ++i) sums[i] += sums[chunk * sums_size + i];
    const float *const by_hidden = sums + cell.inputs * cell.input_line;
    const float *const by_bias = by_hidden + cell.size * cell.hidden_line;
    for (i64 gate = 0; gate < cell.gates; ++gate) {
        const i64 column = cell.input_column(gate), hidden = cell.hidden_column(gate), row = gate * cell.size;
        float *const of_input = cell.gradient(0) + row * cell.inputs;
        float *const of_hidden = cell.gradient(2) + row * cell.size;
        transpose(sums + column, cell.input_line, cell.inputs, cell.size, of_input, cell.inputs);
        transpose(by_hidden + hidden, cell.hidden_line, cell.size, cell.size, of_hidden, cell.size);
        std::memcpy(cell.gradient(1) + row, by_bias + cell.first_of_input + column, 4 * cell.size);
        std::memcpy(cell.gradient(3) + row, by_bias + hidden, 4 * cell.size);
    }
}

}  // namespace memory
