// PPO's loss, given what networks return, and its gradient: what train/algorithms/ppo.py computes with torch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/agent.h"

namespace {

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

// A policy reads outputs of the actor, and then replaces them by their gradients, given that by the log-probability,
// and the weight of the entropy where samples count.

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
