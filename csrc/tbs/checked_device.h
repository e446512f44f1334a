// The checks of a device, which has no way out of a system: it notes what is wrong, and the system goes on with what does no
// harm to other worlds. torch_batchsim/build/device_checks.py puts the macros into an author's text.
#pragma once
#include "fault.h"
#include "finite.h"
#include "platform.h"

#include <type_traits>
#ifdef TBS_EMULATED_CUDA
#include <vector>
#endif

namespace tbs::checks {

// Where a device records an error.
struct Site {
    u64 *fault;  // of the world, as the others
    i32 *fault_flag;
    CheckRecord *record;
    unsigned char *spare;  // in place of a missing row
    u32 node, row, step, spare_bytes;
};

template <class Context>
TBS_FUNCTION Site site_of(const Context &context, u32 node, u32 row, u32 world) {
    constexpr u32 bytes = Context::check_spare_bytes;
    unsigned char *const spare = context.check_spare + u64{world} * bytes;
    return {&context.fault[world], context.fault_flag, &context.check_records[world], spare, node, row, context.step[world], bytes};
}

// A place in a text; column 0 where it is not known.
struct Spot {
    const char *file;
    u32 line, column;
};

// The host cannot read texts of a device: it knows a file by this number (torch_batchsim/run/findings.py).
TBS_FUNCTION u64 file_number(const char *file) {
    u64 number = 0xCBF29CE484222325u;
    for (; *file != 0; ++file) number = (number ^ u8(*file)) * 0x100000001B3u;
    return number;
}

// Of what one row does wrong in a system the first stands.
TBS_CALLED void note(const Site &site, Found found, const Spot &at, i64 value, i64 bound, i64 other, u64 type) {
    const u64 word = fault_word(site.node, site.row, fault_check, i32(found));
    if (word >> 32 < *site.fault >> 32) {
        const u64 file = at.file == nullptr ? 0 : file_number(at.file);
        *site.record = {file, type, value, bound, other, at.line, at.column, site.step, 1};
        report_fault(site.fault, site.fault_flag, word);
    }
}

// What a thread is doing. The function that calls a system has it, texts find it.
struct Running {
    Site site;
    i64 budget, turns;  // of loops in the text, for one row

    TBS_METHOD Running(const Site &its, i64 most);
    Running(const Running &) = delete;
};

TBS_FUNCTION Running *&running_of_thread() {
#if defined(TBS_EMULATED_CUDA)
    static thread_local std::vector<Running *> threads;
    const std::size_t own = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (threads.size() <= own) threads.resize(own + 1);
    return threads[own];
#elif defined(TBS_ON_DEVICE)
    struct OfBlock {
        Running *threads[executors::block_threads];
    };
    TBS_SHARED(OfBlock, memory);
    return memory.threads[threadIdx.x];
#else
    static Running *none = nullptr;  // no host runs a system
    return none;
#endif
}

TBS_METHOD Running::Running(const Site &its, i64 most) : site(its), budget(most), turns(0) { running_of_thread() = this; }

TBS_CALLED void report(Found found, const Spot &at, i64 value, i64 bound, u64 type) {
    note(running_of_thread()->site, found, at, value, bound, 0, type);
}

// Numbers of types: the generated unit has them (torch_batchsim/build/structs.py).
template <class Type>
constexpr u64 type_number = 255;
template <class Type>
constexpr u64 type_number<const Type> = type_number<Type>;

// The number of the elements' type, and behind it the extents, 14 bits each.
template <class Type>
constexpr u64 array_number() {
    u64 number = type_number<std::remove_all_extents_t<Type>>;
    constexpr std::size_t extents[] = {std::extent_v<Type, 0>, std::extent_v<Type, 1>, std::extent_v<Type, 2>, std::extent_v<Type, 3>};
    for (u32 i = 0; i < 4; ++i) number |= u64(extents[i] & 0x3FFF) << (8 + 14 * i);
    return number;
}

// An index, and where it is written.
struct Index {
    i64 value;
    Spot at;

    template <class Integer>
    TBS_METHOD Index(Integer integer, const char *file = __builtin_FILE(), u32 line = __builtin_LINE(), u32 column = 0)
        : value(i64(integer)), at{file, line, column} {
        static_assert(std::is_integral_v<Integer> || std::is_enum_v<Integer>, "an index is an integer");
    }
};

// The world of `count` that an index into Worlds means; the first for an index outside.
TBS_FUNCTION u32 world_among(const Index &index, u32 count) {
    if (u64(index.value) < count) return u32(index.value);
    report(Found::world, index.at, index.value, count, 0);
    return 0;
}

// A row; for an index outside, bytes of the world that belong to no row.
template <class Component>
TBS_FUNCTION Component &element(Component *first, u32 count, const Index &index, const Site &site) {
    if (u64(index.value) < count) return first[index.value];
    note(site, Found::row, index.at, index.value, count, 0, type_number<Component>);
    return *reinterpret_cast<Component *>(site.spare);
}

// Looks at floats side by side in a component.
template <class Component>
TBS_FUNCTION void verify_floats(const Site &site, const Component &component, u32 column, Floats floats) {
    const auto *const begin = reinterpret_cast<const unsigned char *>(&component);
    for (u32 i = 0; i < floats.count; ++i, floats.offset += floats.bytes) {
        const u64 bits = bits_of(begin + floats.offset, floats.bytes);
        if (is_finite(bits, floats.infinity)) continue;
        return note(site, Found::not_finite, {nullptr, 0, 0}, i64(bits), i64(column), i64(floats.offset), 0);
    }
}

// Loops -----------------------------------------------------------------------------------------------------------------

// Stands in front of the body of each loop: true when the loops of a row have taken too many turns. All of them end then.
TBS_CALLED bool count_turn(const Spot &at) {
    Running &running = *running_of_thread();
    if (++running.turns <= running.budget) return false;
    note(running.site, Found::loop, at, running.budget, 0, 0, 0);
    return true;
}

TBS_FUNCTION constexpr bool is_over_budget(const char *file, u32 line) {
    return !std::is_constant_evaluated() && count_turn({file, line, 0});
}
#define TBS_LOOP if (::tbs::checks::is_over_budget(__FILE__, __LINE__)) break; else

// Arrays, rows and pointers ---------------------------------------------------------------------------------------------

// An array; an index outside gives the first element.
template <class Element, std::size_t extent>
struct Array {
    Element *first;
    Spot at;

    template <class Integer>
    TBS_METHOD constexpr Element &operator[](Integer index) const {
        if (u64(i64(index)) < extent) return first[index];
        if (!std::is_constant_evaluated()) report(Found::index, at, i64(index), extent, array_number<Element[extent]>());
        return first[0];
    }
};

// Rows, whose place in the text is known to the column.
template <class Component>
struct RowsAt {
    Component *first;
    u32 count;
    Site site;
    Spot at;

    template <class Integer>
    TBS_METHOD Component &operator[](Integer index) const {
        return element(first, count, Index(index, at.file, at.line, at.column), site);
    }
};

// What checks its indices itself.
template <class Base>
struct With {
    Base &base;
    Spot at;

    template <class Integer>
    TBS_METHOD decltype(auto) operator[](Integer index) const {
        return base[Index(index, at.file, at.line, at.column)];
    }
};

// In front of what has an index or an arrow behind it, in brackets: it binds closer than what may stand there.
struct Look {
    Spot at;

    template <class Base>
    TBS_METHOD constexpr decltype(auto) operator->*(Base &&base) const {
        using Type = std::remove_reference_t<Base>;
        if constexpr (std::is_bounded_array_v<Type>) {
            return Array<std::remove_extent_t<Type>, std::extent_v<Type>>{base, at};
        } else if constexpr (requires { base.site.record; base.first; base.count; }) {
            return RowsAt<std::remove_reference_t<decltype(*base.first)>>{base.first, base.count, base.site, at};
        } else if constexpr (requires { Type::takes_checked_index; }) {
            return With<Type>{base, at};
        } else {
            return static_cast<Base &&>(base);
        }
    }
};

struct LookBehind {
    Spot at;

    template <class Base>
    TBS_METHOD constexpr decltype(auto) operator->*(Base &&base) const {
        if constexpr (std::is_pointer_v<std::remove_reference_t<Base>>) {
            using Pointer = std::decay_t<Base>;
            if (std::is_constant_evaluated() || base != nullptr) return Pointer(base);
            report(Found::null, at, 0, 0, 0);
            const Site &site = running_of_thread()->site;
            const bool fits = sizeof(*base) <= site.spare_bytes;
            return fits ? reinterpret_cast<Pointer>(site.spare) : Pointer(base);
        } else {
            return static_cast<Base &&>(base);
        }
    }
};

// Quotients -------------------------------------------------------------------------------------------------------------

// A divisor. The result of an undefined quotient is the dividend, of a remainder 0. Numbers are passed by value: a
// device has no address of a constant.
template <class Number>
struct Divisor {
    Number number;
    Spot at;

    template <class Left>
    TBS_METHOD constexpr bool divides(Left left) const {
        constexpr bool integers = (std::is_integral_v<Left> || std::is_enum_v<Left>) && (std::is_integral_v<Number> || std::is_enum_v<Number>);
        if constexpr (integers) {
            using Result = decltype(left / number);
            constexpr bool has_sign = std::is_signed_v<Result>;
            constexpr Result least = has_sign ? Result(u64{1} << (sizeof(Result) * 8 - 1)) : Result(0);
            const bool wraps = has_sign && Result(left) == least && Result(number) == Result(-1);
            if (Result(number) != 0 && !wraps) return true;
            if (!std::is_constant_evaluated()) report(Found::division, at, i64(left), i64(number), type_number<Result>);
            return false;
        }
        return true;
    }
};

template <class Left, class Number>
TBS_FUNCTION constexpr auto operator/(Left left, Divisor<Number> by) -> decltype(left / by.number) {
    return by.divides(left) ? left / by.number : decltype(left / by.number)(left);
}

template <class Left, class Number>
TBS_FUNCTION constexpr auto operator%(Left left, Divisor<Number> by) -> decltype(left % by.number) {
    return by.divides(left) ? left % by.number : decltype(left % by.number)(0);
}

template <class Left, class Number>
TBS_FUNCTION constexpr Left &operator/=(Left &left, Divisor<Number> by) {
    if (by.divides(left)) left /= by.number;
    return left;
}

template <class Left, class Number>
TBS_FUNCTION constexpr Left &operator%=(Left &left, Divisor<Number> by) {
    if (by.divides(left)) left %= by.number;
    return left;
}

// Where a function is called, as its last argument; and `b`, by which `a` can be divided, or 1.
#define TBS_CALLER , checks::Spot caller = {__builtin_FILE(), u32(__builtin_LINE()), 0}
template <class Number>
TBS_FUNCTION Number divisor(Number a, Number b, const Spot &caller) {
    return Divisor<Number>{b, caller}.divides(a) ? b : Number(1);
}

// In front of what is divided by; and with `=`, which binds looser, behind `/=` and `%=`.
struct By {
    Spot at;

    template <class Number>
    TBS_METHOD constexpr Divisor<Number> operator->*(Number number) const {
        return {number, at};
    }
    template <class Number>
    TBS_METHOD constexpr Divisor<Number> operator=(Number number) const {
        return {number, at};
    }
};

#define TBS_SPOT(column) {__FILE__, __LINE__, column}
#define TBS_LOOK(column) ::tbs::checks::Look{TBS_SPOT(column)} ->*
#define TBS_LOOK_BEHIND(column) ::tbs::checks::LookBehind{TBS_SPOT(column)} ->*
#define TBS_BY(column) ::tbs::checks::By{TBS_SPOT(column)} ->*
#define TBS_BY_ALL(column) ::tbs::checks::By{TBS_SPOT(column)} =

}  // namespace tbs::checks
