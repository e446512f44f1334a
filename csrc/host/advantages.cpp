// advantages.h on the CPU. A file of its own, for its arithmetic is strict, and that of updates.cpp is not.
#include "host/advantages.h"

extern "C" __attribute__((visibility("default"))) void advantages(const AdvantageSeries *given) {
    const AdvantageSeries series = *given;
    for (std::int64_t t = series.steps - 1; t >= 0; --t) {
        const bool last = t == series.steps - 1;
#pragma GCC ivdep
        for (std::int64_t i = t * series.rows; i < (t + 1) * series.rows; ++i)
            series.advantages[i] = advantage_of(series, i, last ? 0.0f : series.advantages[i + series.rows]);
    }
}
