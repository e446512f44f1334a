// The checked build (TBS_CHECKS): a mistake in an author's text is a fault of its world, with the place in the text, and the
// system ends there. torch_batchsim/run/findings.py explains records.
#pragma once
#include "fault.h"
#include "finite.h"
#include "platform.h"

#ifdef TBS_CHECKS
#include <type_traits>

#if !defined(TBS_ON_DEVICE) && !defined(__CUDACC__)
#define TBS_CHECKS_JUMP  // out of the system; g++'s sanitizers find the rest
#include <csetjmp>
#include <source_location>
#endif

#ifdef TBS_CHECKS_JUMP
namespace tbs::checks {

// A place in the text; the name of the file is in this library.
struct Place {
    const char *file = nullptr;
    u32 line = 0, column = 0;
};

TBS_FUNCTION Place place_of(const std::source_location &at) { return {at.file_name(), u32(at.line()), u32(at.column())}; }

// The work of a thread. The loop over rows writes it, a check that fails reads it.
struct Guard {
    std::jmp_buf jump;
    u64 *fault;        // of all worlds
    i32 *fault_flag;
    CheckRecord *records;  // of all worlds
    const u32 *steps;
    u32 node;
    i32 first = 0;  // the unit from which the loop goes on
    i32 unit = -1;  // the unit that the loop has begun: a world, or a row of a flat node
    i32 world = 0;
    u32 row = 0;
    i64 budget = 0, iterations = 0;  // of loops in the text, for one world
    bool some_have_failed = false;
    u32 *marks = nullptr, mark = 0;  // of the rows that a flat node has begun
    void (*find)(const void *) = nullptr;  // sets unit, world and row
    const void *finder = nullptr;
};

// Unset marks for so many rows.
inline void take_marks(Guard &guard, i32 rows) {
    static thread_local u32 *marks = nullptr;  // kept as long as the thread
    static thread_local i32 room = 0;
    static thread_local u32 last = 0;
    if (room < rows) {
        __builtin_free(marks);
        marks = static_cast<u32 *>(__builtin_calloc(std::size_t(rows), sizeof(u32)));
        if (marks == nullptr) __builtin_abort();
        room = rows;
        last = 0;
    }
    if (++last == 0) {
        __builtin_memset(marks, 0, std::size_t(room) * sizeof(u32));
        last = 1;
    }
    guard.marks = marks;
    guard.mark = last;
}

inline thread_local Guard *current = nullptr;

// The least of several faults of a world stays, as with those that systems report.
[[gnu::noinline, gnu::cold]] inline void note(Guard &guard, Found found, const Place &place, i64 value, i64 bound,
                                              const char *type, i64 other = 0) {
    const u64 word = fault_word(guard.node, guard.row, fault_check, i32(found));
    if (word < guard.fault[guard.world]) {
        guard.fault[guard.world] = word;
        guard.records[guard.world] = {reinterpret_cast<u64>(place.file), reinterpret_cast<u64>(type), value, bound, other,
                                      place.line, place.column, guard.steps[guard.world], 0};
    }
    raise_flag(guard.fault_flag);
}

// Leaves the system.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail(Found found, const Place &place, i64 value, i64 bound,
                                                        const char *type, i64 other = 0) {
    current->find(current->finder);
    note(*current, found, place, value, bound, type, other);
    std::longjmp(current->jump, 1);
}

// Stands in front of the body of each loop in a checked text: leaves the system when loops have taken too many turns.
TBS_FUNCTION constexpr bool is_over_budget(const char *file, u32 line) {
    if (std::is_constant_evaluated() || current == nullptr) return false;
    Guard &guard = *current;
    if (++guard.iterations > guard.budget) fail(Found::loop, {file, line, 0}, guard.budget, 0, nullptr);
    return false;
}
#define TBS_LOOP if (::tbs::checks::is_over_budget(__FILE__, __LINE__)) {} else

// Whether a fault of this kind has stopped a world in this call. Its systems wait until the host has raised it.
TBS_FUNCTION bool is_stopped(u64 word) {
    constexpr u32 mask = (1u << fault_code_bits) - 1;
    return word != ~u64{0} && (u32(word >> 32) & mask) == fault_check;
}

// loop(unit) goes through the units from `unit` to the last of so many; after a fault it goes on behind the unit of the fault.
// find() sets that unit: `first`, or one behind it, so that each turn has less to do. g++ moves a check whose result is the
// same for all rows out of their loop, so that it fails before the first of them has begun.
template <class Find, class Loop>
[[gnu::noinline]] void guarded(Guard &guard, i32 units, const Find &find, const Loop &loop) {
    Guard *const before = current;
    current = &guard;
    guard.finder = &find;
    guard.find = [](const void *finder) { (*static_cast<const Find *>(finder))(); };
    if (setjmp(guard.jump) != 0) guard.first = guard.unit + 1;
    if (guard.first < units) loop(guard.first);
    current = before;
}

// Whether 32-bit words side by side are finite floats.
TBS_UNCHECKED inline bool are_finite_words(const unsigned char *at, i64 count) {
    u32 wrong = 0;
    for (i64 i = 0; i < count; ++i) {
        u32 bits;
        __builtin_memcpy(&bits, at + i * 4, 4);
        wrong |= u32((bits & 0x7F800000u) == 0x7F800000u);
    }
    return wrong == 0;
}

template <std::size_t pieces>
TBS_FUNCTION bool are_finite(const unsigned char *row, const Floats (&floats)[pieces]) {
    bool all = true;
    for (const Floats &piece : floats) {
        for (u32 i = 0; i < piece.count; ++i) {
            all &= is_finite(bits_of(row + piece.offset + i * piece.bytes, piece.bytes), piece.infinity);
        }
    }
    return all;
}

// Reports the first number of these rows of a world that is not finite.
template <std::size_t pieces>
[[gnu::noinline, gnu::cold]] void note_not_finite(Guard &guard, i32 world, const unsigned char *rows, i32 count, u32 size,
                                                  u32 column, const Floats (&floats)[pieces]) {
    for (i32 k = 0; k < count; ++k) {
        for (const Floats &piece : floats) {
            for (u32 i = 0; i < piece.count; ++i) {
                const u32 offset = piece.offset + i * piece.bytes;
                const u64 bits = bits_of(rows + i64(k) * size + offset, piece.bytes);
                if (is_finite(bits, piece.infinity)) continue;
                guard.world = world;
                guard.row = u32(k);
                return note(guard, Found::not_finite, {}, i64(bits), i64(column), nullptr, i64(offset));
            }
        }
    }
}

// Looks at the rows of world(0) .. world(count - 1) in a column that a system has written. rows(world, first, number) gives
// them; of fixed tables each world has `per_world`, otherwise that is 0.
template <i32 per_world, class Component, class World, class Rows, std::size_t pieces>
TBS_UNCHECKED inline void verify(Guard &guard, i32 count, const World &world, const Component *column, const Rows &rows, u32 number,
                   const Floats (&floats)[pieces]) {
    constexpr i64 size = sizeof(Component);
    const auto *const bytes = reinterpret_cast<const unsigned char *>(column);
    const bool is_dense = floats[0].bytes == 4 && floats[0].offset == 0 && i64(floats[0].count) * 4 == size;
    if (per_world > 0 && is_dense && count > 0 && world(count - 1) - world(0) == count - 1) {
        if (are_finite_words(bytes + world(0) * size * per_world, i64(count) * per_world * size / 4)) return;
    }
    for (i32 unit = 0; unit < count; ++unit) {
        const i32 own = world(unit);
        i64 first = i64(own) * per_world;
        i32 most = per_world;
        if constexpr (per_world == 0) rows(own, first, most);
        bool all = true;
        for (i32 k = 0; k < most; ++k) all &= are_finite(bytes + (first + k) * size, floats);
        if (all || is_stopped(guard.fault[own])) continue;
        note_not_finite(guard, own, bytes + first * size, most, u32(size), number, floats);
    }
}

// An index, and its place in the text.
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

// Where a function is called, as its last argument.
#define TBS_CALLER , std::source_location caller = std::source_location::current()

// `b`, by which `a` can be divided; otherwise a fault.
template <class T>
TBS_FUNCTION T divisor(T a, T b, const std::source_location &caller) {
    static_assert(std::is_same_v<T, i32> || std::is_same_v<T, i64>);
    constexpr T least = T(std::make_unsigned_t<T>(1) << (8 * sizeof(T) - 1));
    if (b == 0 || (b == T(-1) && a == least)) {
        fail(Found::division, place_of(caller), a, b, sizeof(T) == 4 ? "'int'" : "'long int'");
    }
    return b;
}

// An index into Worlds of so many worlds.
TBS_FUNCTION u32 world_among(const Index &index, u32 count) {
    if (u64(index.value) >= count) fail(Found::world, place_of(index.at), index.value, count, nullptr);
    return u32(index.value);
}

// Rows need no site: Guard has it.
struct Site {};

template <class Context>
TBS_FUNCTION Site site_of(const Context &, u32, u32, u32) {
    return {};
}

template <class Component>
TBS_FUNCTION Component &element(Component *first, u32 count, const Index &index, const Site &) {
    return first[within<Component>(index, count, Found::row)];
}

}  // namespace tbs::checks
#else
#include "checked_device.h"
#endif  // TBS_CHECKS_JUMP

#endif  // TBS_CHECKS
