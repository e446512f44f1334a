// Test only: in place of CUDA's own header of this name and of its runtime, so that csrc/tbs/launch.cuh is compiled by g++
// as for a device (without TBS_EMULATED_CUDA) and its calls are seen. `fake` keeps the rules that launch.cuh relies on:
// an error stays until somebody takes it; while anybody captures, a thread whose mode is not relaxed may not make or destroy
// streams and graphs, and ends that capture if it tries; what is made on one device is not destroyed on another.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#define __device__
#define __forceinline__ inline

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorInvalidConfiguration = 9, cudaErrorForbidden = 900 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };
enum cudaLaunchAttributeID { cudaLaunchAttributeCooperative };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
constexpr int cudaSharedmemCarveoutMaxShared = 100;
constexpr unsigned cudaStreamNonBlocking = 1;

struct dim3 {
    unsigned x, y = 1, z = 1;
    dim3(unsigned blocks = 1) : x(blocks) {}
};
struct Resource {
    int device;
};
using cudaStream_t = Resource *;
using cudaGraph_t = Resource *;
using cudaGraphExec_t = Resource *;
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int cooperative;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    std::size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};
struct cudaFuncAttributes {
    std::size_t sharedSizeBytes = 0;
    int numRegs;
};

namespace fake {

inline int device = 0;
inline cudaError_t pending = cudaSuccess;           // what cudaGetLastError tells
inline cudaError_t next_launch = cudaSuccess;       // of our own next launch
inline cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
inline bool somebody_captures = false, capture_ended = false;
inline std::set<cudaStream_t> captured;             // streams
inline std::set<Resource *> alive;                  // streams, graphs
inline std::map<int, int> made, destroyed;          // by device
inline std::vector<std::string> calls;
inline std::vector<std::vector<void *>> arguments;  // of launches: the addresses
inline std::size_t allowed = 48 * 1024;             // bytes on chip of a block of the kernel

inline cudaError_t returned(cudaError_t error) {
    if (error != cudaSuccess) pending = error;
    return error;
}

inline bool forbidden() {
    if (!somebody_captures || mode == cudaStreamCaptureModeRelaxed) return false;
    capture_ended = true;
    return true;
}

inline cudaError_t make(Resource *&resource) {
    if (forbidden()) return returned(cudaErrorForbidden);
    alive.insert(resource = new Resource{device});
    ++made[device];
    return cudaSuccess;
}

inline cudaError_t destroy(Resource *resource) {
    if (forbidden()) return returned(cudaErrorForbidden);
    if (resource->device != device || alive.erase(resource) == 0) return returned(cudaErrorInvalidValue);
    ++destroyed[device];
    delete resource;
    return cudaSuccess;
}

}  // namespace fake

inline cudaError_t cudaGetLastError() {
    const cudaError_t error = fake::pending;
    fake::pending = cudaSuccess;
    return error;
}
inline cudaError_t cudaGetDevice(int *device) {
    *device = fake::device;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
    fake::device = device;
    return cudaSuccess;
}
inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
    const cudaStreamCaptureMode before = fake::mode;
    fake::mode = *mode;
    *mode = before;
    return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = fake::captured.count(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return fake::make(*stream); }
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return fake::destroy(stream); }
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    fake::captured.insert(stream);
    return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    fake::captured.erase(stream);
    return fake::make(*graph);
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t, unsigned long long) {
    return fake::make(*executable);
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return fake::destroy(graph); }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return fake::destroy(executable); }
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
    fake::calls.push_back("replay");
    const cudaError_t error = fake::next_launch;
    fake::next_launch = cudaSuccess;
    return fake::returned(error);
}
inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *configuration, const void *, void **arguments) {
    fake::calls.push_back(configuration->numAttrs > 0 ? "cooperative" : "launch");
    fake::arguments.push_back(std::vector<void *>(arguments, arguments + 2));
    const cudaError_t error = fake::next_launch;
    fake::next_launch = cudaSuccess;
    return fake::returned(configuration->dynamicSmemBytes > fake::allowed ? cudaErrorInvalidValue : error);
}
inline cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute attribute, int value) {
    if (fake::forbidden()) return fake::returned(cudaErrorForbidden);
    fake::calls.push_back("attribute");
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value > 227 * 1024) return fake::returned(cudaErrorInvalidValue);
    fake::allowed = std::size_t(value);
    return cudaSuccess;
}
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *) { return fake::returned(cudaErrorInvalidValue); }
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int, std::size_t chip) {
    *blocks = chip <= 113 * 1024 ? 2 : 1;
    return fake::forbidden() ? fake::returned(cudaErrorForbidden) : cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    *value = 132;
    return cudaSuccess;
}

namespace cooperative_groups {
struct Grid {
    void sync() {}
};
inline Grid this_grid() { return {}; }
}  // namespace cooperative_groups
