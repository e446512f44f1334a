// The trainer's arithmetic on the CPU, for Python: train/base/kernels.py compiles this and calls it with ctypes.
#include <cstdint>
#include <cstring>

#include "host/acting.h"
#include "host/agent.h"
#include "host/episodes.h"
#include "host/gradients.h"
#include "host/loss.h"
#include "host/memory.h"
#include "host/neighbours.h"
#include "host/orders.h"
#include "host/passes.h"
#include "host/perceptron.h"

#define TBS_EXPORTED extern "C" __attribute__((visibility("default")))

// ---- networks --------------------------------------------------------------------------------------------------

// Whether products of factors rounded to bfloat16 are faster here.
TBS_EXPORTED bool has_bfloat16() { return bfloat16::available(); }

// Numbers that forwards keeps of a row for backwards.
TBS_EXPORTED i64 mlp_kept(const PerceptronGiven *given) { return Perceptron(*given).kept; }

// `numbers` [rows, inputs], consecutive rows `row_size` apart, bytes or floats.
TBS_EXPORTED void mlp_forward(const PerceptronGiven *given, const void *numbers, i64 row_size, i64 bytes, i64 rows,
                              float *outputs, float *kept, i64 threads) {
    forward(*given, {numbers, row_size, bytes, nullptr}, rows, outputs, kept, threads);
}

TBS_EXPORTED void mlp_backward(const PerceptronGiven *given, const void *numbers, i64 row_size, i64 bytes, i64 rows,
                               const float *kept, const float *of_outputs, float *of_inputs, i64 threads) {
    backward(*given, {numbers, row_size, bytes, nullptr}, rows, kept, of_outputs, of_inputs, threads);
}

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

// ---- acting ----------------------------------------------------------------------------------------------------

// Numbers of `weights`, and writes them: before the first step.
TBS_EXPORTED i64 weights_to_draw(const PerceptronGiven *last_layers) { return Perceptron(*last_layers).forwards_size; }

TBS_EXPORTED void begin_drawing(const Drawing *given) { Perceptron(given->last_layers()).lay_forwards(given->weights); }

TBS_EXPORTED void draw_actions(const Drawing *given, i64 step, i64 threads) { draw(*given, step, threads); }

// ---- learning --------------------------------------------------------------------------------------------------

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

// The gradient of PPO's loss of a minibatch. The actor reads the first of the inputs that the critic reads. Writes
// log(ratio) of each sample, and into `means` the losses of policy and values, and the entropy.
TBS_EXPORTED void ppo_gradient(const NetworkGiven *actor, const NetworkGiven *critic, const PolicyGiven *policy,
                               const Minibatch *batch, const LossSettings *settings, float *log_ratios, float *means,
                               i64 threads) {
    gradient(*actor, *critic, *policy, *batch, *settings, log_ratios, means, threads);
}

// See step_of_adam.
TBS_EXPORTED void adam_step(i64 count, float *parameters, float *gradients, float *means, float *squares, float *steps,
                            const AdamSettings *settings, float *length) {
    step_of_adam(count, parameters, gradients, means, squares, steps, *settings, *length);
}

// See take_passes.
TBS_EXPORTED i64 ppo_passes(const NetworkGiven *actor, const NetworkGiven *critic, const PolicyGiven *policy,
                            const Minibatch *batch, const LossSettings *settings, const Passes *given,
                            const AdamSettings *adam, Shown *shown, i64 threads) {
    return take_passes(*actor, *critic, *policy, *batch, *settings, *given, *adam, shown, threads);
}

// ---- several processes ------------------------------------------------------------------------------------------

// Replaces numbers, doubles or floats, by their sums over all processes. Returns a neighbours::Result.
TBS_EXPORTED i64 sum_of_processes(const neighbours::Given *given, void *numbers, i64 count, i64 doubles) {
    return doubles ? neighbours::sum_in_parts(*given, static_cast<double *>(numbers), count)
                   : neighbours::sum_in_parts(*given, static_cast<float *>(numbers), count);
}

// See orders.h.
TBS_EXPORTED void part_of_order(const i64 *order, i64 samples, i64 minibatches, i64 rows, i64 rank, i64 count, i64 *own,
                                i64 *sizes) {
    orders::part_of(order, samples, minibatches, rows, rank, count, own, sizes);
}

TBS_EXPORTED void moments_of_parts(const float *values, const bool *active, i64 steps, i64 columns, const i64 *order,
                                   i64 minibatches, const i64 *sizes, double *moments) {
    orders::moments_of(values, active, steps, columns, order, minibatches, sizes, moments);
}

// ---- rollouts --------------------------------------------------------------------------------------------------

TBS_EXPORTED void follow_episodes(const episodes::Given *given) { episodes::follow(*given); }

TBS_EXPORTED bool all_finite(const float *numbers, i64 count) {
    std::int32_t any = 0;
    for (i64 i = 0; i < count; ++i) {
        std::int32_t bits;
        std::memcpy(&bits, numbers + i, 4);
        any |= (bits & 0x7f800000) == 0x7f800000;
    }
    return !any;
}
