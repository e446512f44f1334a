// The fault channel: one 64-bit word per world that says what went wrong there first.
#pragma once
#include "platform.h"

namespace tbs {

// node (10 bits) | row within the world (14) | code (8) | value (32). The smallest word of a world stands, so that
// the fault that is reported is the same whatever the order of threads: the first system's, of its first row.
constexpr u64 no_fault = ~u64{0};
constexpr u32 max_fault_row = (1u << 14) - 1;

// Codes of the engine's own faults that are reported here; torch_batchsim/program.py lists all of them in this order.
constexpr u32 fault_stale_entity = 2;
constexpr u32 fault_too_many_created = 3;
constexpr u32 fault_hidden_change = 4;
constexpr u32 fault_order_used_twice = 5;

TBS_FUNCTION u64 fault_word(u32 node, u32 row, u32 code, i32 value) {
    const u32 shown_row = row < max_fault_row ? row : max_fault_row;
    return u64{node} << 54 | u64{shown_row} << 40 | u64{code & 0xffu} << 32 | u32(value);
}

// Tells the host something; the flag may lie in host memory that the device can write. Many threads, one value.
TBS_FUNCTION void raise_flag(i32 *flag) {
#ifdef TBS_ON_DEVICE
    *static_cast<volatile i32 *>(flag) = 1;
#else
    __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
#endif
}

// `flag` tells the host that some world has a fault.
TBS_FUNCTION void report_fault(u64 *word_of_world, i32 *flag, u64 word) {
#ifdef TBS_ON_DEVICE
    atomicMin(reinterpret_cast<unsigned long long *>(word_of_world), static_cast<unsigned long long>(word));
#else
    if (word < *word_of_world) *word_of_world = word;  // one thread runs a world
#endif
    raise_flag(flag);
}

}  // namespace tbs
