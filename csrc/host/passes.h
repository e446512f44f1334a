// Passes over a batch: for each minibatch a gradient, its sum over processes, and a step of Adam.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/gradients.h"
#include "host/neighbours.h"

namespace {

// As train/algorithms/updates.py has it.
struct AdamSettings {
    float learning_rate, beta1, beta2, epsilon, longest;  // the length to which gradients are cut
};

// A step of Adam (Kingma and Ba 2015) behind a cut of the gradient, after so many `steps`, which are counted. Writes
// the gradient's length before.
void step_of_adam(i64 count, float *parameters, float *gradients, float *means, float *squares, float *steps,
                  const AdamSettings &settings, float &length) {
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
    const float norm = length = std::sqrt(total);
    const double step = *steps += 1;
    const float cut = settings.longest / (norm + 1e-6f), factor = cut > 1 ? 1 : cut;  // NaN stays
    const float rest1 = 1 - settings.beta1, rest2 = 1 - settings.beta2;
    const float rate = settings.learning_rate / (1 - std::pow(double{settings.beta1}, step));
    const float unit = 1 / std::sqrt(1 - std::pow(double{settings.beta2}, step));
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) {
        const float g = gradients[i] * factor;
        gradients[i] = g;
        means[i] += (g - means[i]) * rest1;
        squares[i] += (g * g - squares[i]) * rest2;
        parameters[i] -= rate * means[i] / (std::sqrt(squares[i]) * unit + settings.epsilon);
    }
}

// As train/algorithms/updates.py has it: `passes` of so many minibatches each, of these sizes, one behind the other
// in the order of the batch, and the parameters with what the optimiser keeps of them. Of several processes,
// `moments` are those of each minibatch, and gradients are summed over all; a single process has null for both.
struct Passes {
    i64 passes, minibatches;
    const i64 *sizes;       // [passes, minibatches]
    const double *moments;  // [passes, minibatches, 3]
    const neighbours::Given *processes;
    i64 count;
    float *parameters, *gradients, *means, *squares, *steps;
};

// What a pass shows: of its last minibatch losses of policy and values, entropy, the estimators of the KL divergence
// k1 and k3 (Schulman, "Approximating KL divergence"), and the share of samples with a clipped ratio, all as means,
// of several processes this one's part; and the gradient's length before it was cut.
struct Shown {
    float policy_loss, value_loss, entropy, old_approx_kl, approx_kl, clip_fraction, gradient_norm;
};

// A gradient and a step of the optimiser for each minibatch.
neighbours::Result take_passes(const NetworkGiven &actor, const NetworkGiven &critic, const PolicyGiven &policy,
                               const Minibatch &batch, const LossSettings &settings, const Passes &given,
                               const AdamSettings &adam, Shown *shown, i64 threads) {
    static thread_local Buffer buffer;
    Minibatch some = batch;
    some.samples = 0;
    for (i64 m = 0; m < given.passes * given.minibatches; ++m) {
        some.order += some.samples;
        some.samples = given.sizes[m];
        some.moments = given.moments ? given.moments + 3 * m : nullptr;
        const i64 samples = some.samples * (some.ends ? some.steps : 1);
        float *const log_ratios = buffer.of(samples), *const means = &shown->policy_loss;  // and the two behind it
        const double counted = gradient(actor, critic, policy, some, settings, log_ratios, means, threads);
        if (given.processes) {
            const neighbours::Result result = neighbours::sum_in_parts(*given.processes, given.gradients, given.count);
            if (result != neighbours::done) return result;
        }
        step_of_adam(given.count, given.parameters, given.gradients, given.means, given.squares, given.steps, adam,
                     shown->gradient_norm);
        if ((m + 1) % given.minibatches) continue;
        double log_ratio_sum = 0, divergence = 0;
        i64 clipped = 0;
        for (i64 s = 0; s < samples; ++s) {
            const float log_ratio = log_ratios[s], ratio = std::exp(log_ratio);  // 1 where it does not count
            log_ratio_sum += log_ratio;
            divergence += ratio - 1 - log_ratio;
            clipped += std::abs(ratio - 1) > settings.clip;
        }
        const double share = 1.0 / std::max(counted, 1.0);
        shown->old_approx_kl = -log_ratio_sum * share;
        shown->approx_kl = divergence * share;
        shown->clip_fraction = clipped * share;
        ++shown;
    }
    return neighbours::done;
}

}  // namespace
