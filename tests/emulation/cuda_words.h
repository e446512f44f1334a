// Test only: gives g++ the CUDA words that the engine's elementwise kernels use, so that the CUDA units run on any
// machine, thread after thread. Include it before everything else.
#pragma once

#define TBS_EMULATED_CUDA 1
#define __global__

namespace emulated_cuda {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

template <class Body>
void run_grid(unsigned blocks, unsigned threads, Body body);

}  // namespace emulated_cuda

inline thread_local emulated_cuda::Index blockIdx, threadIdx, blockDim, gridDim;

template <class Body>
void emulated_cuda::run_grid(unsigned blocks, unsigned threads, Body body) {
    gridDim.x = blocks;
    blockDim.x = threads;
    // Backwards: an order that differs from the CPU executor's, so that a result that hangs on order shows.
    for (unsigned block = blocks; block-- > 0;) {
        for (unsigned thread = threads; thread-- > 0;) {
            blockIdx.x = block;
            threadIdx.x = thread;
            body();
        }
    }
}
