// The gradient of PPO's loss of a minibatch, of samples or, where networks remember, of rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "host/agent.h"
#include "host/loss.h"

namespace {

// A tile of samples passes forwards through actor and critic, through the loss, and backwards. Returns how many samples
// count.
double gradient_of_samples(const PerceptronGiven &actor_given, const PerceptronGiven &critic_given,
                           const PolicyGiven &policy, const Minibatch &batch, const LossSettings &settings,
                           float *log_ratios, float *means, i64 threads) {
    const Inputs inputs{batch.inputs, batch.inputs_row, batch.inputs_are_bytes, batch.order};
    static thread_local Buffer weights_buffer, sums_buffer;
    Perceptron actor(actor_given), critic(critic_given);
    float *place = weights_buffer.of(actor.forwards_size + actor.backwards_size + critic.forwards_size +
                                     critic.backwards_size);
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

// A minibatch of rows: its samples, step after step, and what memories see of them.
struct Rows {
    Minibatch samples;
    memory::Sequence sequence;  // but for inputs and state

    explicit Rows(const Minibatch &given)
        : samples(given), sequence{given.steps, given.samples, nullptr, nullptr, nullptr, nullptr} {
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
