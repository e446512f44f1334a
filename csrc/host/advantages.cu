// advantages.h on a GPU, in one kernel: a thread takes a row, from its last step to its first.
#include "host/advantages.h"
#include "tbs/launch.cuh"

using namespace tbs;

namespace {

constexpr u32 threads = 128;  // few rows are to be on many multiprocessors

__global__ void advantages_of_rows(AdvantageSeries series) {
    const i64 row = i64(blockIdx.x) * threads + threadIdx.x;
    if (row >= series.rows) return;
    float later = 0.0f;
    for (i64 t = series.steps - 1; t >= 0; --t) {
        const i64 i = t * series.rows + row;
        later = advantage_of(series, i, later);
        series.advantages[i] = later;
    }
}

}  // namespace

// Returns 0, or -1000 minus a CUDA error.
extern "C" __attribute__((visibility("default"))) i64 advantages(const AdvantageSeries *series, void *stream) {
    const u32 blocks = u32((series->rows + threads - 1) / threads);
    executors::launch(advantages_of_rows, blocks, threads, executors::Stream(stream), *series);
    return executors::last_error();
}
