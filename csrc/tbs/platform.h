// The words that let one source be compiled by g++ (CPU) and by nvcc (CUDA), and the fixed-width types.
#pragma once

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

// Everything is forced inline: a loop over rows is vectorised only when no call is left in it, and a system's
// registers are counted in the kernel that runs it.
#define TBS_INLINE TBS_HD inline __attribute__((always_inline))
// In front of a free function or function template of the engine, and of a helper that a system calls.
#define TBS_FUNCTION TBS_INLINE
// In front of a member function.
#define TBS_METHOD TBS_INLINE
// What an author writes in front of a system: `TBS_SYSTEM void push_cart(World &world, CartState &cart)`.
#define TBS_SYSTEM TBS_HD static inline __attribute__((always_inline))

// In front of a loop with a constant count that is to be unrolled.
#if defined(__CUDACC__)
#define TBS_UNROLL _Pragma("unroll")
#else
#define TBS_UNROLL _Pragma("GCC unroll 64")
#endif

namespace tbs {

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

static_assert(sizeof(f32) == 4 && sizeof(f64) == 8, "tbs needs IEEE binary32 and binary64");

}  // namespace tbs
