// Whether a number in memory is finite, for checked builds: -ffast-math may assume of a float that it is.
#pragma once
#include "platform.h"

namespace tbs::checks {

TBS_FUNCTION bool is_finite(const unsigned char *at, u32 bytes) {
    if (bytes == 8) {
        u64 bits;
        __builtin_memcpy(&bits, at, 8);
        return (bits & 0x7FF0000000000000u) != 0x7FF0000000000000u;
    }
    u32 bits;
    __builtin_memcpy(&bits, at, 4);
    return (bits & 0x7F800000u) != 0x7F800000u;
}

}  // namespace tbs::checks
