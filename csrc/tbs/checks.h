// The checked build (TBS_CHECKS): what is wrong in an author's text is a fault of the world in which it happens, with the
// place in the text, and the system is left there. torch_batchsim/findings.py tells what a record means.
#pragma once
#include "fault.h"
#include "platform.h"

#ifdef TBS_CHECKS
#include <source_location>
#include <type_traits>

#if !defined(TBS_ON_DEVICE) && !defined(__CUDACC__)
#define TBS_CHECKS_JUMP  // out of the system; g++ finds what the types here cannot see
#include <csetjmp>
#endif

namespace tbs::checks {

// Where something in the text is: file and function are addresses in this library.
struct Place {
    const char *file = nullptr;
    u32 line = 0, column = 0;
};

TBS_FUNCTION Place place_of(const std::source_location &at) { return {at.file_name(), u32(at.line()), u32(at.column())}; }

#ifdef TBS_CHECKS_JUMP

// What a thread is doing. The loop over rows writes it, a check that fails reads it.
struct Guard {
    std::jmp_buf jump;
    u64 *fault;        // of all worlds
    i32 *fault_flag;
    CheckRecord *records;  // of all worlds
    const u32 *steps;
    u32 node;
    i32 unit = -1;  // which of the worlds that the loop goes through
    i32 world = 0;
    u32 row = 0;
    i64 budget = 0, iterations = 0;  // of loops in the text, for one world
};

inline thread_local Guard *current = nullptr;

// Leaves the system. Of several faults of a world the least stands, as of those that systems report.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail(Found found, const Place &place, i64 value, i64 bound,
                                                        const char *type, i64 other = 0) {
    Guard &guard = *current;
    const u64 word = fault_word(guard.node, guard.row, fault_check, i32(found));
    if (word < guard.fault[guard.world]) {
        guard.fault[guard.world] = word;
        guard.records[guard.world] = {reinterpret_cast<u64>(place.file), reinterpret_cast<u64>(type), value, bound, other,
                                      place.line, place.column, guard.steps[guard.world], 0};
    }
    raise_flag(guard.fault_flag);
    std::longjmp(guard.jump, 1);
}

// Whether a fault of this kind has stopped a world in this call. Its systems wait until the host has told of it.
TBS_FUNCTION bool is_stopped(u64 word) {
    constexpr u32 mask = (1u << fault_code_bits) - 1;
    return word != ~u64{0} && (u32(word >> 32) & mask) == fault_check;
}

// loop(unit) goes through the units from `unit` on; after a fault it goes on behind the unit in which that was.
template <class Loop>
[[gnu::noinline]] void guarded(Guard &guard, const Loop &loop) {
    Guard *const before = current;
    current = &guard;
    setjmp(guard.jump);
    loop(guard.unit + 1);
    current = before;
}

#endif  // TBS_CHECKS_JUMP

// An index, and where it is written.
struct Index {
    i64 value;
    std::source_location at;

    template <class Integer>
    TBS_METHOD Index(Integer integer, std::source_location here = std::source_location::current())
        : value(i64(integer)), at(here) {
        static_assert(std::is_integral_v<Integer> || std::is_enum_v<Integer>, "an index is an integer");
    }
};

// `index` among `count`; otherwise a fault.
template <class Type>
TBS_FUNCTION u32 within(const Index &index, u32 count, Found found) {
    if (u64(index.value) >= count) fail(found, place_of(index.at), index.value, count, __PRETTY_FUNCTION__);
    return u32(index.value);
}

}  // namespace tbs::checks

#endif  // TBS_CHECKS
