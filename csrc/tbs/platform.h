// The words that let one source be compiled by g++ (CPU) and by nvcc (CUDA), and the fixed-width types.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define TBS_HD __host__ __device__
#else
#define TBS_HD
#endif

// Code that runs on a device, or under g++ as if it did: threads of one world run at once.
#if defined(__CUDA_ARCH__) || defined(TBS_EMULATED_CUDA)
#define TBS_ON_DEVICE
#endif

// Where the lanes of a group are threads of their own. With TBS_ALONE one thread is all of them, on a device too.
#if defined(TBS_ON_DEVICE) && !defined(TBS_ALONE)
#define TBS_LANES_ARE_THREADS
#endif

// Barriers in shared memory that a thread can leave for good: of devices since compute capability 8.0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TBS_HAS_MBARRIER
#endif

// A variable that the threads of a block share; its first value is undefined. (Under emulation several blocks may be
// alive in one thread.)
#ifdef TBS_EMULATED_CUDA
#define TBS_SHARED(Type, name) \
    static char name##_key; \
    Type &name = *static_cast<Type *>(emulated_cuda::block_memory(&name##_key, sizeof(Type)))
#else
#define TBS_SHARED(Type, name) \
    alignas(16) __shared__ unsigned char name##_bytes[sizeof(Type)]; \
    Type &name = *reinterpret_cast<Type *>(name##_bytes)
#endif

// In a checked build, functions whose arithmetic and indices g++ does not check: the engine's. In front of a checked text the
// generated unit defines it as nothing.
#if defined(TBS_CHECKS) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define TBS_UNCHECKED __attribute__((no_sanitize("undefined")))
#else
#define TBS_UNCHECKED
#endif

// Everything is forced inline: a loop over rows is vectorised only when no call is left in it, and a system's
// registers are counted in the kernel that runs it. Not so in a build for a debugger (TBS_DEBUG=gdb), where each system is a
// function with a frame of its own.
#ifdef TBS_FRAMES
#define TBS_INLINE TBS_HD inline TBS_UNCHECKED
#define TBS_FLATTEN
#else
#define TBS_INLINE TBS_HD inline TBS_UNCHECKED __attribute__((always_inline))
#define TBS_FLATTEN __attribute__((flatten))
#endif
// In front of a free function or function template of the engine, and of a helper that a system calls.
#define TBS_FUNCTION TBS_INLINE
// In front of a function that only kernels call.
#if defined(__CUDACC__) || defined(TBS_EMULATED_CUDA)
#define TBS_DEVICE __device__ inline __attribute__((always_inline))
#endif
// In front of a free function whose inlining would cost compilers and caches more than a call: a call, on every device. It
// does not reach the world, because reaches of systems are checked where all is inlined.
#if defined(__CUDACC__)
#define TBS_CALLED TBS_HD inline __noinline__
#else
#define TBS_CALLED TBS_HD inline TBS_UNCHECKED __attribute__((noinline))
#endif
// In front of a function with several callers in a long system: a device fetches one copy; on a CPU it is inline.
#if defined(__CUDACC__)
#define TBS_ONE_COPY TBS_HD inline __noinline__
#else
#define TBS_ONE_COPY TBS_INLINE
#endif
// In front of a free function of a library's `precompiled` header, which only declares it where TBS_USES_PRECOMPILED is
// defined: an object file has it, compiled once for all environments.
#if defined(TBS_USES_PRECOMPILED) || defined(TBS_PRECOMPILES)
#define TBS_PRECOMPILED
#else
#define TBS_PRECOMPILED TBS_CALLED
#endif
// In front of a member function.
#define TBS_METHOD TBS_INLINE
// What an author writes in front of a system: `TBS_SYSTEM void push_cart(World &world, CartState &cart)`.
#ifdef TBS_FRAMES
#define TBS_SYSTEM TBS_HD static inline TBS_UNCHECKED __attribute__((noinline))
#else
#define TBS_SYSTEM TBS_HD static inline TBS_UNCHECKED __attribute__((always_inline))
#endif

// Behind TBS_SYSTEM, for reaches that the reader of the text cannot see, such as those of a template over an archetype:
// `TBS_SYSTEM TBS_REACHES(rows<Stone, const Place>, create<Bullet>, random) void aim(World &world)`.
#define TBS_REACHES(...)

// A constant in a function whose address is taken. nvcc lacks static ones on a device.
#if defined(__CUDACC__)
#define TBS_CONSTANT constexpr
#else
#define TBS_CONSTANT static constexpr
#endif

// In front of a loop with a constant count that is to be unrolled, and of one that is not.
#if defined(__CUDACC__)
#define TBS_UNROLL _Pragma("unroll")
#define TBS_NO_UNROLL _Pragma("unroll 1")
#else
#define TBS_UNROLL _Pragma("GCC unroll 64")
#define TBS_NO_UNROLL _Pragma("GCC unroll 1")
#endif
// In front of a loop that a device does not unroll; with the second a CPU does.
#if defined(__CUDACC__)
#define TBS_ROLLED TBS_NO_UNROLL
#define TBS_UNROLL_ON_CPU TBS_NO_UNROLL
#else
#define TBS_ROLLED
#define TBS_UNROLL_ON_CPU TBS_UNROLL
#endif
// In front of the loops of lanes.h: rolled in units whose code a device waits for, TBS_ROLLS_LANES. Elsewhere unrolled loops
// have several loads under way.
#ifdef TBS_ROLLS_LANES
#define TBS_LANE_LOOP TBS_ROLLED
#else
#define TBS_LANE_LOOP
#endif

namespace tbs {

// torch_batchsim/base/numbers.py has the table of numbers. A generated unit repeats these: a difference does not compile.

// Numbers of a fixed width. A literal such as 0.5 is an f64: write 0.5f.
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using f32 = float;
using f64 = double;

#ifdef TBS_ON_DEVICE
inline constexpr bool on_device = true;
#else
inline constexpr bool on_device = false;
#endif

// The number of set bits.
TBS_FUNCTION u32 count_bits(u32 bits) {
#ifdef __CUDA_ARCH__
    return u32(__popc(bits));
#else
    return u32(__builtin_popcount(bits));
#endif
}

// The place of the lowest set bit; at least one is set.
TBS_FUNCTION u32 lowest_bit(u32 bits) {
#ifdef __CUDA_ARCH__
    return u32(__ffs(int(bits)) - 1);
#else
    return u32(__builtin_ctz(bits));
#endif
}
TBS_FUNCTION u32 lowest_bit(u64 bits) {
#ifdef __CUDA_ARCH__
    return u32(__ffsll((long long)bits) - 1);
#else
    return u32(__builtin_ctzll(bits));
#endif
}

static_assert(sizeof(f32) == 4 && sizeof(f64) == 8, "tbs needs IEEE binary32 and binary64");

}  // namespace tbs
