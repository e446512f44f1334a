// Generalised advantage estimates of a rollout (Schulman et al. 2016), which train/algorithms/advantages.py has in torch.
#pragma once
#include <cstdint>

#if defined(__CUDACC__) || defined(TBS_EMULATED_CUDA)
#define TBS_EITHER __host__ __device__
#else
#define TBS_EITHER
#endif

// As train/algorithms/updates.py has it: all but the numbers are [steps, rows].
struct AdvantageSeries {
    std::int64_t steps, rows;
    const float *rewards, *values, *next_values;
    const bool *terminations, *truncations;
    float *advantages;
    float gamma, decay;  // of rewards, and with that also of what is known of later steps
};

// That of a step of a row, at `i` of the series, given that of the step behind it: rounded as torch's operations are.
TBS_EITHER inline float advantage_of(const AdvantageSeries &series, std::int64_t i, float later) {
    const float future = series.terminations[i] ? 0.0f : series.next_values[i];
    const float delta = series.rewards[i] + series.gamma * future - series.values[i];
    const float decay = series.terminations[i] || series.truncations[i] ? 0.0f : series.decay;
    return __builtin_fmaf(decay, later, delta);
}
