// Whether a number in memory is finite, for checked builds: -ffast-math assumes that floats are.
#pragma once
#include "platform.h"

namespace tbs::checks {

// Floats of one type side by side in a component: bytes in front of them, how many, bytes and the bits of infinity of one.
struct Floats {
    u32 offset, count, bytes;
    u64 infinity;
};

// A number of 2, 4 or 8 bytes.
TBS_FUNCTION u64 bits_of(const unsigned char *at, u32 bytes) {
    u64 wide = 0;
    u32 word = 0;
    u16 half = 0;
    if (bytes == 8) __builtin_memcpy(&wide, at, 8);
    if (bytes == 4) __builtin_memcpy(&word, at, 4);
    if (bytes == 2) __builtin_memcpy(&half, at, 2);
    return wide | word | half;
}

// `infinity`: its bits in a float of that type.
TBS_FUNCTION bool is_finite(u64 bits, u64 infinity) { return (bits & infinity) != infinity; }

}  // namespace tbs::checks
