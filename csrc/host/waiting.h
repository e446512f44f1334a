// What threads and processes need that wait for each other.
#pragma once

#include <time.h>

#include <cstdint>

namespace waiting {

// In ns, by a clock that only goes on.
inline std::uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::uint64_t(time.tv_sec) * 1'000'000'000 + std::uint64_t(time.tv_nsec);
}

// Between two looks at a word that another thread writes.
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace waiting
