// The actions of a step of a rollout.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/agent.h"

namespace {

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

// Writes the actions of a step.
void draw(const Drawing &given, i64 step, i64 threads) {
    Perceptron network(given.last_layers());
    network.forwards = given.weights;
    const i64 number_size = given.inputs_are_bytes ? 1 : sizeof(float);
    Inputs inputs{given.inputs + step * given.inputs_step * number_size, given.inputs_row, given.inputs_are_bytes,
                  nullptr};
    if (given.remembering) inputs = remember(given, inputs, step, threads);
    const PolicyGiven &policy = *given.policy;
    const float *const noise = given.noise + step * given.noise_step;
    const i64 rows = given.rows, each = network.outputs, outputs_row = padded(each);
    if (policy.sizes) {
        const bool *const masks = given.masks ? given.masks + step * rows * each : nullptr;
        i64 *const actions = static_cast<i64 *>(given.actions) + step * rows * policy.count;
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
    float *const deviations = buffer.of(each);
    float *const actions = static_cast<float *>(given.actions) + step * rows * each;
    for (i64 d = 0; d < each; ++d) deviations[d] = std::exp(policy.log_stds[d]);
    for_tiles(network, inputs, rows, nullptr, threads, [&](const float *found, i64 first, i64 some) {
        for (i64 r = 0; r < some; ++r)
            for (i64 d = 0; d < each; ++d) {
                const i64 place = (first + r) * each + d;
                actions[place] = found[r * outputs_row + d] + deviations[d] * noise[place];
            }
    });
}

}  // namespace
