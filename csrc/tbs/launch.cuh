// Starts kernels through functions, not through <<< >>>, so that g++ can compile the same units for tests
// (csrc/emulation/cuda_words.h then stands in for the CUDA runtime; tests/emulation/runtime/ does so for this header only).
#pragma once
#include "platform.h"

#ifndef TBS_EMULATED_CUDA
#include <cooperative_groups.h>

#include <iterator>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#endif

namespace tbs::executors {

#ifdef TBS_EMULATED_CUDA
using Stream = void *;

template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), u32 blocks, u32 threads, Stream, const Argument &...arguments) {
    emulated_cuda::run_grid(blocks, threads, [&] { kernel(Parameter(arguments)...); });
}

// For kernels with barriers: the threads of a block are fibers.
template <class... Parameter, class... Argument>
void launch_together(void (*kernel)(Parameter...), u32 blocks, u32 threads, u32, Stream, const Argument &...arguments) {
    emulated_cuda::run_blocks(blocks, threads, [&] { kernel(Parameter(arguments)...); });
}

// For kernels whose blocks must all be there at once.
template <class... Parameter, class... Argument>
void launch_resident(void (*kernel)(Parameter...), u32 blocks, u32 threads, u32, bool, Stream,
                     const Argument &...arguments) {
    emulated_cuda::run_cooperative(blocks, threads, [&] { kernel(Parameter(arguments)...); });
}

inline void sync_grid() { emulated_cuda::grid_sync(); }

template <class Kernel>
u32 registers_of_kernel(Kernel) { return 0; }

class Resident {
  public:
    template <class Kernel>
    u32 blocks(Kernel, u32, u32, i32) const { return 3; }
};

class ChipAllowance {
  public:
    template <class Kernel>
    void allow(Kernel, u32) {}
};

class GraphCache {
  public:
    template <class Launches>
    i64 run(const void *, std::size_t, Stream stream, Launches &&launches) {
        launches(stream);
        return 0;
    }
};

inline i64 last_error() { return 0; }

struct DeviceGuard {
    explicit DeviceGuard(i32) {}
};
#else
using Stream = cudaStream_t;

// Whether a call of the CUDA runtime succeeded. After an error the runtime would report it to the next caller, of
// another library too: this call clears it.
inline bool went_well(cudaError_t error) {
    if (error == cudaSuccess) return true;
    cudaGetLastError();
    return false;
}

// The first error of this thread's launches since last_error() was called. cudaGetLastError may report another
// library's launch.
inline thread_local cudaError_t launch_error = cudaSuccess;

inline void note_launch(cudaError_t error) {
    if (!went_well(error) && launch_error == cudaSuccess) launch_error = error;
}

// The CUDA error of the launches so far, which is then forgotten; 0 if all went well.
inline i64 last_error() { return i64(std::exchange(launch_error, cudaSuccess)); }

// `chip`: bytes on chip for a block, beside its __shared__ variables. `cooperative`: the kernel has barriers of the grid, so
// all blocks must be on the device at once or the launch fails.
template <class... Parameter, class... Argument>
void launch_resident(void (*kernel)(Parameter...), u32 blocks, u32 threads, u32 chip, bool cooperative, Stream stream,
                     const Argument &...arguments) {
    static_assert((std::is_same_v<Parameter, Argument> && ...), "arguments are passed by their addresses");
    if (blocks == 0) return;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t configuration{};
    configuration.gridDim = dim3(blocks);
    configuration.blockDim = dim3(threads);
    configuration.dynamicSmemBytes = chip;
    configuration.stream = stream;
    configuration.attrs = &attribute;
    configuration.numAttrs = cooperative ? 1 : 0;
    void *addresses[] = {const_cast<Argument *>(&arguments)...};
    note_launch(cudaLaunchKernelExC(&configuration, reinterpret_cast<const void *>(kernel), addresses));
}

template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), u32 blocks, u32 threads, Stream stream, const Argument &...arguments) {
    launch_resident(kernel, blocks, threads, 0, false, stream, arguments...);
}

template <class... Parameter, class... Argument>
void launch_together(void (*kernel)(Parameter...), u32 blocks, u32 threads, u32 chip, Stream stream,
                     const Argument &...arguments) {
    launch_resident(kernel, blocks, threads, chip, false, stream, arguments...);
}

__device__ __forceinline__ void sync_grid() { cooperative_groups::this_grid().sync(); }

// Makes a device the current one while it lives: kernels must be launched on the device of their stream.
class DeviceGuard {
  public:
    explicit DeviceGuard(i32 device) {
        changed_ = went_well(cudaGetDevice(&previous_)) && previous_ != device;
        if (changed_) went_well(cudaSetDevice(device));
    }
    ~DeviceGuard() {
        if (changed_) went_well(cudaSetDevice(previous_));
    }
    DeviceGuard(const DeviceGuard &) = delete;

  private:
    int previous_ = 0;
    bool changed_ = false;
};

// While it lives, this thread may make calls that are forbidden during anybody's capture of a stream, and would end it:
// making and destroying streams and graphs, loading a kernel. They do not concern the captured stream.
class RelaxedCapture {
  public:
    RelaxedCapture() { exchanged_ = went_well(cudaThreadExchangeStreamCaptureMode(&mode_)); }
    ~RelaxedCapture() {
        if (exchanged_) went_well(cudaThreadExchangeStreamCaptureMode(&mode_));
    }
    RelaxedCapture(const RelaxedCapture &) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool exchanged_ = false;
};

template <class Kernel>
u32 registers_of_kernel(Kernel kernel) {
    const RelaxedCapture relaxed;
    cudaFuncAttributes attributes{};
    const bool known = went_well(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel)));
    return known ? u32(attributes.numRegs) : 0;
}

// Kernels that may use more than 48 KiB on chip. A device is asked once for each, because it takes longer than a
// launch.
class ChipAllowance {
  public:
    template <class Kernel>
    void allow(Kernel kernel, u32 chip) {
        const void *const address = reinterpret_cast<const void *>(kernel);
        if (chip == 0 || !allowed_.insert(address).second) return;
        const RelaxedCapture relaxed;
        note_launch(cudaFuncSetAttribute(address, cudaFuncAttributeMaxDynamicSharedMemorySize, int(chip)));
        // What is not taken for blocks is the first-level cache: as many blocks as fit are more than it gives.
        note_launch(cudaFuncSetAttribute(address, cudaFuncAttributePreferredSharedMemoryCarveout,
                                         cudaSharedmemCarveoutMaxShared));
    }

  private:
    std::unordered_set<const void *> allowed_;
};

// How many blocks of a kernel are on a device at once. Asked once: the answer takes longer than a launch.
class Resident {
  public:
    template <class Kernel>
    u32 blocks(Kernel kernel, u32 threads, u32 chip, i32 device) {
        if (blocks_ == 0) {
            const RelaxedCapture relaxed;
            int each = 0, multiprocessors = 0;
            went_well(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, reinterpret_cast<const void *>(kernel),
                                                                    int(threads), chip));
            went_well(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
            blocks_ = each > 0 && multiprocessors > 0 ? u32(each) * u32(multiprocessors) : 1;  // or the launch will fail
        }
        return blocks_;
    }

  private:
    u32 blocks_ = 0;
};

// Replays launches whose arguments have been seen before as one CUDA graph: then a step costs the host one call. Steps
// whose arguments change (bind) are launched one by one at first; where the same ones come back, as the slots of a rollout
// buffer do, there is soon a graph for each. While the caller captures, launches go into the caller's own graph.
class GraphCache {
  public:
    GraphCache() = default;
    GraphCache(const GraphCache &) = delete;
    // At any time: while somebody captures, from another thread, with another device current.
    ~GraphCache() {
        if (capturing_ == nullptr) return;  // nothing has been recorded, nor the device learned
        const DeviceGuard guard(device_);
        clear();
        const RelaxedCapture relaxed;
        if (capturing_ != nullptr) went_well(cudaStreamDestroy(capturing_));
    }

    template <class Launches>
    i64 run(const void *arguments, std::size_t size, Stream stream, Launches &&launches) {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        if (!went_well(cudaStreamIsCapturing(stream, &status)) || status != cudaStreamCaptureStatusNone) {
            launches(stream);
            return last_error();
        }
        std::string key(static_cast<const char *>(arguments), size);
        const auto found = entries_.find(key);
        if (found == entries_.end()) {
            if (entries_.size() >= most) make_room();
            entries_.emplace(std::move(key), Entry{});
            launches(stream);
            return last_error();
        }
        Entry &entry = found->second;
        if (entry.graph == nullptr && !entry.failed) entry.failed = !went_well(record(entry.graph, launches));
        if (entry.failed) {  // for want of memory, say: it goes without
            launches(stream);
        } else {
            note_launch(cudaGraphLaunch(entry.graph, stream));
        }
        return last_error();
    }

  private:
    static constexpr std::size_t most = 2048;
    struct Entry {
        cudaGraphExec_t graph = nullptr;
        bool failed = false;
    };

    // Captured on a stream of our own: torch's default stream cannot be captured.
    template <class Launches>
    cudaError_t record(cudaGraphExec_t &executable, Launches &&launches) {
        const RelaxedCapture relaxed;
        cudaError_t failed = cudaGetDevice(&device_);
        if (failed == cudaSuccess && capturing_ == nullptr) {
            failed = cudaStreamCreateWithFlags(&capturing_, cudaStreamNonBlocking);
        }
        if (failed == cudaSuccess) failed = cudaStreamBeginCapture(capturing_, cudaStreamCaptureModeRelaxed);
        if (failed != cudaSuccess) return failed;
        const cudaError_t before = launch_error;
        launches(capturing_);
        launch_error = before;  // the end of the capture reports an error too
        cudaGraph_t graph = nullptr;
        failed = cudaStreamEndCapture(capturing_, &graph);
        if (failed == cudaSuccess) failed = cudaGraphInstantiateWithFlags(&executable, graph, 0);
        if (failed != cudaSuccess) executable = nullptr;
        if (graph != nullptr) went_well(cudaGraphDestroy(graph));
        return failed;
    }

    // Forgets arguments that have come once only; if that is not enough, all.
    void make_room() {
        for (auto entry = entries_.begin(); entry != entries_.end();) {
            entry = entry->second.graph == nullptr ? entries_.erase(entry) : std::next(entry);
        }
        if (entries_.size() >= most / 2) clear();
    }

    // A graph under way is freed when it is done.
    void clear() {
        const RelaxedCapture relaxed;
        for (auto &[arguments, entry] : entries_) {
            if (entry.graph != nullptr) went_well(cudaGraphExecDestroy(entry.graph));
        }
        entries_.clear();
    }

    std::unordered_map<std::string, Entry> entries_;
    Stream capturing_ = nullptr;
    int device_ = 0;  // of the stream and the graphs
};
#endif

}  // namespace tbs::executors
