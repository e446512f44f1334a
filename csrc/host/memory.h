// LSTM and GRU over sequences on the CPU, forwards and backwards.
//
// Rows do not depend on each other: a chunk of them passes through all steps. `width` units are computed at a time:
// what inputs and state give to their gates, then the gates, while these numbers stay in the nearest cache; weights lie
// in the order in which they are read. Backwards, gradients of weights and inputs are products of some steps together.
// Sums over rows are those of chunks, in turn, whatever the number of threads.
//
// A sample is a step of a row. Its line has for each `width` units four vectors: of an LSTM the gates in, keep, new,
// out (i, f, g, o of torch), of a GRU the part of the new state that the state gives, and the gates reset, keep (z of
// torch), new. So what inputs give and what the state gives are consecutive vectors, in both.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

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

constexpr i64 chunk_rows = 24, tile_samples = 96, parts = 4, units_line = parts * width;

inline Vector load(const float *from) { return *reinterpret_cast<const Vector *>(from); }
inline void store(float *to, Vector numbers) { *reinterpret_cast<Vector *>(to) = numbers; }

// In whole vectors, since g++ takes halves of them, and a load of both waits until they are in the cache.
inline void add(const float *numbers, i64 count, float *to) {
    i64 j = 0;
    for (; j + width <= count; j += width) store(to + j, load(to + j) + load(numbers + j));
    for (; j < count; ++j) to[j] += numbers[j];
}

// The size of lines: an odd number of vectors, since in lines a power of 2 apart a column is in few sets of the cache.
constexpr i64 line_of(i64 columns) { return columns / width % 2 ? columns : columns + width; }

struct Cell {
    bool is_lstm;
    i64 inputs, size, part, gates, groups;  // `part` is the size in whole vectors, `groups` how many
    i64 columns, first_of_input;            // of a group's vectors those that inputs give, and as many the state
    i64 line;
    const CellGiven &given;
    // Of each group, weights as forwards needs them: [inputs][columns], [size][columns], [units_line]
    float *of_input = nullptr, *of_hidden = nullptr, *bias = nullptr;
    // And as backwards needs them: [columns][padded inputs], [columns][part].
    float *input_back = nullptr, *hidden_back = nullptr;

    explicit Cell(const CellGiven &cell)
        : is_lstm(cell.is_lstm), inputs(cell.inputs), size(cell.size), part(padded(size)), gates(is_lstm ? 4 : 3),
          groups(part / width), columns(gates * width), first_of_input(is_lstm ? 0 : width),
          line(line_of(parts * part)), given(cell) {}

    const float *parameter(i64 i) const { return reinterpret_cast<const float *>(given.addresses[i]); }
    float *gradient(i64 i) const { return reinterpret_cast<float *>(given.gradients[i]); }

    i64 forwards_size() const { return groups * ((inputs + size) * columns + units_line); }
    i64 backwards_size() const { return groups * columns * (padded(inputs) + part); }
    // What a chunk keeps: lines of samples, states before each step and behind the last, and tanh of an LSTM's cells.
    i64 kept(i64 steps, i64 rows) const {
        return steps * rows * (line + (is_lstm ? part : 0)) + (steps + 1) * rows * (is_lstm ? 2 : 1) * part;
    }

    // Calls with each gate of each group: its first row in torch's matrices, its number of units, the group, and its
    // first column among what inputs, and what the state gives.
    template <class Function>
    void for_each_gate(Function function) const {
        for (i64 group = 0; group < groups; ++group)
            for (i64 gate = 0; gate < gates; ++gate)
                function(gate * size + group * width, std::min<i64>(width, size - group * width), group, gate * width,
                         (is_lstm ? gate : (gate + 1) % 3) * width);
    }

    void lay_forwards(float *place) {
        of_input = place, of_hidden = of_input + groups * inputs * columns, bias = of_hidden + groups * size * columns;
        std::fill(part > size ? place : bias, place + forwards_size(), 0.0f);
        for_each_gate([&](i64 row, i64 units, i64 group, i64 column, i64 hidden) {
            float *const input_weights = of_input + group * inputs * columns + column;
            float *const hidden_weights = of_hidden + group * size * columns + hidden;
            transpose(parameter(0) + row * inputs, inputs, units, inputs, input_weights, columns);
            transpose(parameter(2) + row * size, size, units, size, hidden_weights, columns);
            for (i64 j = 0; j < units; ++j) {
                bias[group * units_line + first_of_input + column + j] += parameter(1)[row + j];
                bias[group * units_line + hidden + j] += parameter(3)[row + j];
            }
        });
    }

    void lay_backwards(float *place) {
        const i64 in = padded(inputs);
        input_back = place, hidden_back = place + groups * columns * in;
        if (part > size) std::fill(place, place + backwards_size(), 0.0f);
        for_each_gate([&](i64 row, i64 units, i64 group, i64 column, i64 hidden) {
            pad(parameter(0) + row * inputs, inputs, units, inputs, input_back + (group * columns + column) * in);
            pad(parameter(2) + row * size, size, units, size, hidden_back + (group * columns + hidden) * part);
        });
    }
};

// Rows `first` to `first + rows` of a sequence, and what is kept of them: of all steps, or, where no backwards follows,
// of one step after the other in the same place.
struct Chunk {
    i64 steps, first, rows, laid;
    float *lines, *hidden, *cells, *tangents;

    Chunk(const Cell &cell, const Sequence &given, i64 index, i64 steps_kept, float *place)
        : steps(given.steps), first(index * chunk_rows), rows(std::min(chunk_rows, given.rows - first)),
          laid(steps_kept), lines(place), hidden(lines + laid * rows * cell.line),
          cells(hidden + (laid + 1) * rows * cell.part), tangents(cells + (laid + 1) * rows * cell.part) {}

    i64 sample(i64 t) const { return t % laid * rows; }        // the first of step t
    i64 state(i64 t) const { return t % (laid + 1) * rows; }   // that of the first row before step t
    i64 place(const Sequence &given, i64 t) const { return t * given.rows + first; }  // of the first row among all
};

// ---- forwards --------------------------------------------------------------------------------------------------

// Inputs and states of some rows, and weights and bias of a group.
struct GateGiven {
    const float *inputs;
    i64 inputs_count;
    const float *of_input, *hidden;
    i64 hidden_row, size;
    const float *of_hidden, *bias;
};

// What inputs and states give to the gates, both in one block of registers.
template <bool is_lstm, int rows>
void gates_of_block(const GateGiven &given, i64 row, float *lines, i64 line) {
    constexpr int gates = is_lstm ? 4 : 3, first_of_input = is_lstm ? 0 : 1;
    Vector sums[rows][parts];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < parts; ++v) sums[r][v] = load(given.bias + v * width);
    add_products<first_of_input, gates>(sums, given.inputs + row * given.inputs_count, given.inputs_count, 1,
                                        given.of_input, gates * width, given.inputs_count);
    add_products<0, gates>(sums, given.hidden + row * given.hidden_row, given.hidden_row, 1, given.of_hidden,
                           gates * width, given.size);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < parts; ++v) store(lines + (row + r) * line + v * width, sums[r][v]);
}

template <bool is_lstm>
void gates_of(i64 rows, const GateGiven &given, float *lines, i64 line) {
    constexpr int most = most_rows * most_vectors / parts;
    static constexpr auto of_rows = []<int... some>(std::integer_sequence<int, some...>) {
        return std::array{&gates_of_block<is_lstm, 1 + some>...};
    }(std::make_integer_sequence<int, most>{});
    for (i64 row = 0; row < rows; row += most) of_rows[std::min<i64>(most, rows - row) - 1](given, row, lines, line);
}

// A step of `width` units of some rows, whose lines are `line` numbers apart, and whose states `part`: the states
// behind it; gates stay in the line. The last row stands twice among those that are computed together: see tanh_of.
inline void step_lstm(i64 rows, i64 line, float *lines, i64 part, const float *cells, float *hidden_next,
                      float *cells_next, float *tangents) {
    constexpr int count = side_by_side;
    const auto row = [&](i64 r) { return std::min(r, rows - 1); };
    Vector x[count];
    for (i64 r = 0; r < rows; r += count / parts) {
        EACH x[v] = load(lines + row(r + v / parts) * line + v % parts * width);
        sigmoid_and_tanh_of<third_is_tanh>(x);
        EACH store(lines + row(r + v / parts) * line + v % parts * width, x[v]);
    }
    for (i64 r = 0; r < rows; r += count) {
        EACH {
            const float *const gates = lines + row(r + v) * line;
            const Vector in = load(gates), keep = load(gates + width), fresh = load(gates + 2 * width);
            x[v] = keep * load(cells + row(r + v) * part) + in * fresh;
            store(cells_next + row(r + v) * part, x[v]);
        }
        sigmoid_and_tanh_of<all_tanh>(x);
        EACH {
            store(tangents + row(r + v) * part, x[v]);
            store(hidden_next + row(r + v) * part, load(lines + row(r + v) * line + 3 * width) * x[v]);
        }
    }
}

inline void step_gru(i64 rows, i64 line, float *lines, i64 part, const float *hidden, float *hidden_next) {
    constexpr int count = side_by_side;
    const auto row = [&](i64 r) { return std::min(r, rows - 1); };
    Vector x[count];
    for (i64 r = 0; r < rows; r += count / 2) {
        EACH x[v] = load(lines + row(r + v / 2) * line + (1 + v % 2) * width);
        sigmoid_and_tanh_of<no_tanh>(x);
        EACH store(lines + row(r + v / 2) * line + (1 + v % 2) * width, x[v]);
    }
    for (i64 r = 0; r < rows; r += count) {
        EACH {
            const float *const gates = lines + row(r + v) * line;
            x[v] = load(gates + 3 * width) + load(gates + width) * load(gates);
        }
        sigmoid_and_tanh_of<all_tanh>(x);
        EACH {
            float *const gates = lines + row(r + v) * line;
            const Vector before = load(hidden + row(r + v) * part);
            store(hidden_next + row(r + v) * part, x[v] + load(gates + 2 * width) * (before - x[v]));
        }
        // Behind what reads this place: a row may stand there twice.
        EACH store(lines + row(r + v) * line + 3 * width, x[v]);
    }
}

inline void forward(const Cell &cell, const Sequence &given, const Chunk &chunk, float *outputs, float *cells,
                    i64 outputs_row) {
    const i64 part = cell.part, size = cell.size, rows = chunk.rows, state_size = (cell.is_lstm ? 2 : 1) * size;
    const i64 columns = cell.columns, inputs = cell.inputs, line = cell.line;
    pad(given.state + chunk.first * state_size, state_size, rows, size, chunk.hidden);
    if (cell.is_lstm) pad(given.state + chunk.first * state_size + size, state_size, rows, size, chunk.cells);
    for (i64 t = 0; t < chunk.steps; ++t) {
        const i64 first = chunk.place(given, t);
        const i64 before = chunk.state(t) * part, behind = chunk.state(t + 1) * part;
        const float *const hidden = chunk.hidden + before, *const own = chunk.cells + before;
        float *const hidden_next = chunk.hidden + behind, *const own_next = chunk.cells + behind;
        const i64 sample = chunk.sample(t);
        for (i64 group = 0; group < cell.groups; ++group) {
            float *const lines = chunk.lines + sample * line + group * units_line;
            const GateGiven gates{given.inputs + first * inputs, inputs, cell.of_input + group * inputs * columns,
                                  hidden,  part,   size, cell.of_hidden + group * size * columns,
                                  cell.bias + group * units_line};
            if (cell.is_lstm)
                gates_of<true>(rows, gates, lines, line);
            else
                gates_of<false>(rows, gates, lines, line);
            const i64 unit = group * width;
            if (cell.is_lstm)
                step_lstm(rows, line, lines, part, own + unit, hidden_next + unit, own_next + unit,
                          chunk.tangents + sample * part + unit);
            else
                step_gru(rows, line, lines, part, hidden + unit, hidden_next + unit);
        }
        for (i64 r = 0; r < rows; ++r) {
            const i64 place = first + r, state = r * part;
            if (given.active && !given.active[place]) {
                copy(hidden + state, part, hidden_next + state);
                if (cell.is_lstm) copy(own + state, part, own_next + state);
            }
            copy(hidden_next + state, size, outputs + place * outputs_row);
            if (cells) copy(own_next + state, size, cells + place * outputs_row);
            if (given.ends && given.ends[place]) {
                std::fill(hidden_next + state, hidden_next + state + part, 0.0f);
                if (cell.is_lstm) std::fill(own_next + state, own_next + state + part, 0.0f);
            }
        }
    }
}

// ---- backwards -------------------------------------------------------------------------------------------------

// A step of a row: gradients of what stood in its line before the gates replace them. Those of the state behind it,
// `of_hidden` and `of_cell`, become those of the state before it, but for what comes through the line.
inline void back_lstm(i64 part, float *line, const float *cell, const float *tangent, float *of_hidden,
                      float *of_cell) {
    for (i64 j = 0; j < part; j += width, line += units_line) {
        const Vector in = load(line), keep = load(line + width), fresh = load(line + 2 * width);
        const Vector out = load(line + 3 * width), by = load(of_hidden + j), tanh = load(tangent + j);
        const Vector by_cell = load(of_cell + j) + by * out * (1.0f - tanh * tanh);
        store(line, by_cell * fresh * in * (1.0f - in));
        store(line + width, by_cell * load(cell + j) * keep * (1.0f - keep));
        store(line + 2 * width, by_cell * in * (1.0f - fresh * fresh));
        store(line + 3 * width, by * tanh * out * (1.0f - out));
        store(of_cell + j, by_cell * keep), store(of_hidden + j, Vector{});
    }
}

inline void back_gru(i64 part, float *line, const float *hidden, float *of_hidden) {
    for (i64 j = 0; j < part; j += width, line += units_line) {
        const Vector given = load(line), reset = load(line + width), keep = load(line + 2 * width);
        const Vector fresh = load(line + 3 * width), by = load(of_hidden + j);
        const Vector by_fresh = by * (1.0f - keep) * (1.0f - fresh * fresh);
        store(line, by_fresh * reset);
        store(line + width, by_fresh * given * reset * (1.0f - reset));
        store(line + 2 * width, by * (load(hidden + j) - fresh) * keep * (1.0f - keep));
        store(line + 3 * width, by_fresh);
        store(of_hidden + j, by * keep);
    }
}

// Some steps from t on: adds the gradients of weights and bias to `sums`, which are laid as these are forwards, and
// writes those of inputs. The lines are those of back_lstm or back_gru.
inline void back_samples(const Cell &cell, const Sequence &given, const Chunk &chunk, i64 t, i64 steps,
                         float *of_inputs, float *sums) {
    static thread_local Buffer buffer;
    const i64 part = cell.part, size = cell.size, count = cell.inputs, in = padded(count), columns = cell.columns;
    const i64 some = steps * chunk.rows, line = cell.line;
    float *const found = buffer.of(some * (in + count)), *const copied = found + some * in;
    const float *inputs = given.inputs + chunk.place(given, t) * count;
    if (chunk.rows < given.rows && steps > 1) {
        for (i64 step = 0; step < steps; ++step)
            std::memcpy(copied + step * chunk.rows * count, inputs + step * given.rows * count, 4 * chunk.rows * count);
        inputs = copied;
    }
    float *by_input = sums, *by_hidden = sums + cell.groups * count * columns;
    float *by_bias = by_hidden + cell.groups * size * columns;
    for (i64 group = 0; group < cell.groups; ++group) {
        const float *const lines = chunk.lines + chunk.sample(t) * line + group * units_line;
        const float *const of_input = lines + cell.first_of_input;
        product(false, count, columns, some, inputs, 1, count, of_input, line, nullptr, true, by_input, columns);
        product(false, size, columns, some, chunk.hidden + chunk.state(t) * part, 1, part, lines, line, nullptr, true,
                by_hidden, columns);
        Vector biases[parts];
#pragma GCC unroll 8
        for (int v = 0; v < parts; ++v) biases[v] = load(by_bias + v * width);
        for (i64 s = 0; s < some; ++s)
#pragma GCC unroll 8
            for (int v = 0; v < parts; ++v) biases[v] += load(lines + s * line + v * width);
#pragma GCC unroll 8
        for (int v = 0; v < parts; ++v) store(by_bias + v * width, biases[v]);
        by_input += count * columns, by_hidden += size * columns, by_bias += units_line;
        if (of_inputs)
            product(false, some, in, columns, of_input, line, 1, cell.input_back + group * columns * in, in, nullptr,
                    group > 0, found, in);
    }
    for (i64 s = 0; s < some && of_inputs; ++s)
        copy(found + s * in, count, of_inputs + (chunk.place(given, t + s / chunk.rows) + s % chunk.rows) * count);
}

inline void backward(const Cell &cell, const Sequence &given, const Chunk &chunk, const float *of_outputs,
                     const float *of_cells, float *of_inputs, float *of_state, float *sums) {
    static thread_local Buffer buffer;
    const i64 part = cell.part, size = cell.size, rows = chunk.rows;
    // The steps whose lines are multiplied together, while they are in the cache. A minibatch may have no rows here.
    const i64 steps = std::max<i64>(1, tile_samples / std::max<i64>(1, rows));
    float *const of_hidden = buffer.of(2 * rows * part), *const of_cell = of_hidden + rows * part;
    std::fill(of_hidden, of_hidden + 2 * rows * part, 0.0f);
    std::fill(sums, sums + cell.forwards_size(), 0.0f);
    i64 waiting = 0;
    for (i64 t = chunk.steps - 1; t >= 0; --t) {
        const i64 sample = chunk.sample(t), state = chunk.state(t);  // divisions, some 50 cycles each
        float *const lines = chunk.lines + sample * cell.line;
        for (i64 r = 0; r < rows; ++r) {
            const i64 place = chunk.place(given, t) + r, before = (state + r) * part;
            float *const hidden = of_hidden + r * part, *const own = of_cell + r * part;
            float *const line = lines + r * cell.line;
            if (given.ends && given.ends[place]) {
                std::fill(hidden, hidden + part, 0.0f);
                std::fill(own, own + part, 0.0f);
            }
            if (of_outputs) add(of_outputs + place * size, size, hidden);
            if (of_cells) add(of_cells + place * size, size, own);
            if (given.active && !given.active[place])
                std::fill(line, line + parts * part, 0.0f);
            else if (cell.is_lstm)
                back_lstm(part, line, chunk.cells + before, chunk.tangents + (sample + r) * part, hidden, own);
            else
                back_gru(part, line, chunk.hidden + before, hidden);
        }
        for (i64 group = 0; group < cell.groups && (t > 0 || of_state); ++group)
            product(false, rows, part, cell.columns, lines + group * units_line, cell.line, 1,
                    cell.hidden_back + group * cell.columns * part, part, nullptr, true, of_hidden, part);
        if (++waiting == steps || t == 0)
            back_samples(cell, given, chunk, t, std::exchange(waiting, 0), of_inputs, sums);
    }
    const i64 state_size = (cell.is_lstm ? 2 : 1) * size;
    for (i64 r = 0; r < rows && of_state; ++r) {
        float *const to = of_state + (chunk.first + r) * state_size;
        copy(of_hidden + r * part, size, to);
        if (cell.is_lstm) copy(of_cell + r * part, size, to + size);
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
    const i64 chunks = chunks_of(sequence), laid = kept ? sequence.steps : 1, size = cell.kept(laid, chunk_rows);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (i64 index = 0; index < chunks; ++index) {
        static thread_local Buffer own;
        const Chunk chunk(cell, sequence, index, laid, kept ? kept + index * size : own.of(size));
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
        const Chunk chunk(cell, sequence, index, sequence.steps, kept + index * size);
        backward(cell, sequence, chunk, of_outputs, of_cells, of_inputs, of_state, sums + index * sums_size);
    }
    for (i64 chunk = 1; chunk < chunks; ++chunk)
        for (i64 i = 0; i < sums_size; ++i) sums[i] += sums[chunk * sums_size + i];
    const float *const by_hidden = sums + cell.groups * cell.inputs * cell.columns;
    const float *const by_bias = by_hidden + cell.groups * cell.size * cell.columns;
    cell.for_each_gate([&](i64 row, i64 units, i64 group, i64 column, i64 hidden) {
        const float *const of_input = sums + group * cell.inputs * cell.columns + column;
        const float *const of_hidden = by_hidden + group * cell.size * cell.columns + hidden;
        const float *const of_bias = by_bias + group * units_line;
        transpose(of_input, cell.columns, cell.inputs, units, cell.gradient(0) + row * cell.inputs, cell.inputs);
        transpose(of_hidden, cell.columns, cell.size, units, cell.gradient(2) + row * cell.size, cell.size);
        copy(of_bias + cell.first_of_input + column, units, cell.gradient(1) + row);
        copy(of_bias + hidden, units, cell.gradient(3) + row);
    });
}

}  // namespace memory
