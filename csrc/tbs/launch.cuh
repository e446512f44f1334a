// Starts kernels through a function, not through <<< >>>, so that g++ can compile the same units for tests
// (tests/emulation/cuda_words.h then stands in for the CUDA runtime).
#pragma once
#include "platform.h"

namespace tbs {

#ifdef TBS_EMULATED_CUDA
using Stream = void *;

template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), u32 blocks, u32 threads, Stream, const Argument &...arguments) {
    emulated_cuda::run_grid(blocks, threads, [&] { kernel(Parameter(arguments)...); });
}

// For kernels with barriers: the threads of a block are fibers.
template <class... Parameter, class... Argument>
void launch_together(void (*kernel)(Parameter...), u32 blocks, u32 threads, Stream, const Argument &...arguments) {
    emulated_cuda::run_blocks(blocks, threads, [&] { kernel(Parameter(arguments)...); });
}

inline i64 last_error() { return 0; }

struct DeviceGuard {
    explicit DeviceGuard(i32) {}
};
#else
using Stream = cudaStream_t;

template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), u32 blocks, u32 threads, Stream stream, const Argument &...arguments) {
    if (blocks > 0) kernel<<<blocks, threads, 0, stream>>>(Parameter(arguments)...);
}

template <class... Parameter, class... Argument>
void launch_together(void (*kernel)(Parameter...), u32 blocks, u32 threads, Stream stream,
                     const Argument &...arguments) {
    launch(kernel, blocks, threads, stream, arguments...);
}

// 0, or -1000 minus the CUDA error of the launches so far.
inline i64 last_error() {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? 0 : -1000 - i64(error);
}

// Makes a device the current one while it lives: kernels must be launched on the device of their stream.
class DeviceGuard {
  public:
    explicit DeviceGuard(i32 device) {
        cudaGetDevice(&previous_);
        changed_ = previous_ != device;
        if (changed_) cudaSetDevice(device);
    }
    ~DeviceGuard() {
        if (changed_) cudaSetDevice(previous_);
    }
    DeviceGuard(const DeviceGuard &) = delete;

  private:
    int previous_ = 0;
    bool changed_ = false;
};
#endif

}  // namespace tbs
