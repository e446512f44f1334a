// The fault channel: one 64-bit word per world, its first fault.
#pragma once
#include "platform.h"

namespace tbs {

// Codes and limits that Python shares with these headers are in torch_batchsim/base/shared.py; the generated unit
// defines them in front of these headers: fault_bad_action, ..., fault_node_bits, ..., ElementType, Autoreset,
// executors::max_tile, ...

// node | row within the world | code | value (32 bits). The smallest word of a world wins, so that the reported fault
// does not depend on the order of threads: the first system's, of its first row.
TBS_FUNCTION u64 fault_word(u32 node, u32 row, u32 code, i32 value) {
    static_assert(fault_node_bits + fault_row_bits + fault_code_bits == 32);
    constexpr u32 max_row = (1u << fault_row_bits) - 1, code_mask = (1u << fault_code_bits) - 1;
    const u32 where = (node << fault_row_bits | (row < max_row ? row : max_row)) << fault_code_bits | (code & code_mask);
    return u64{where} << 32 | u32(value);
}

// The value of a fault that is about a row: its table by its number in handles, the row in it, and what of the row. The
// first row's first part is the least.
TBS_FUNCTION i32 fault_place(u32 table, u32 row, u32 part) {
    constexpr u32 most_row = (1u << place_row_bits) - 1, part_mask = (1u << place_part_bits) - 1;
    const u32 place = (table << place_row_bits | (row < most_row ? row : most_row)) << place_part_bits;
    return i32(place | (part & part_mask));
}

// Signals the host; the flag may lie in host memory that the device can write. Many threads, one value.
TBS_FUNCTION void raise_flag(i32 *flag) {
#ifdef TBS_ON_DEVICE
    *static_cast<volatile i32 *>(flag) = 1;
#else
    __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
#endif
}

// Writes a fault; `flag` signals the host that some world has one.
TBS_FUNCTION void report_fault(u64 *word_of_world, i32 *flag, u64 word) {
#ifdef TBS_ON_DEVICE
    atomicMin(reinterpret_cast<unsigned long long *>(word_of_world), static_cast<unsigned long long>(word));
#else
    if (word < *word_of_world) *word_of_world = word;  // one thread runs a world
#endif
    raise_flag(flag);
}

}  // namespace tbs
