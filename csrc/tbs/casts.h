// Stores of a checked build with TBS_CHECKS_CASTS: a number that what it is assigned to cannot hold is a fault.
// torch_batchsim/instrumented.py puts the macros into an author's text.
#pragma once
#include "checks.h"

#if defined(TBS_CHECKS_JUMP) && defined(TBS_CHECKS_CASTS)
#include <limits>

namespace tbs::checks {

// Whether an integer has at most so many digits from its first one to its last.
TBS_FUNCTION constexpr bool has_digits(u64 magnitude, int digits) {
    return magnitude == 0 || 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= digits;
}

// Whether `Number` can hold the value. A float may be rounded to a shorter one, which keeps what is finite.
template <class Number, class Value>
TBS_FUNCTION constexpr bool holds(Value value) {
    using Limits = std::numeric_limits<Number>;
    if constexpr (std::is_same_v<Number, Value> || std::is_same_v<Number, bool>) {
        return true;
    } else if constexpr (std::is_floating_point_v<Value> && std::is_floating_point_v<Number>) {
        const bool finite = value - value == 0;
        return !finite || (value <= Value(Limits::max()) && value >= Value(Limits::lowest())) || sizeof(Number) > sizeof(Value);
    } else if constexpr (std::is_floating_point_v<Value>) {
        const bool within = value >= Value(Limits::min()) && value < Value(Limits::max() / 2 + 1) * 2;
        return within && Value(Number(value)) == value;
    } else if constexpr (std::is_floating_point_v<Number>) {
        return has_digits(value < 0 ? u64{0} - u64(value) : u64(value), Limits::digits);
    } else {
        return Value(Number(value)) == value && (Number(value) < 0) == (value < 0);
    }
}

// The number of a type in _NUMBERS of torch_batchsim/findings.py.
template <class Number>
constexpr i64 number_of_type = std::is_floating_point_v<Number> ? (sizeof(Number) == 8 ? 9 : 8)
                               : (std::is_unsigned_v<Number> ? 4 : 0) + __builtin_ctz(sizeof(Number));

enum class Kind : i64 { signed_integer, unsigned_integer, real };

template <class Number, class Value>
[[noreturn, gnu::noinline, gnu::cold]] void fail_to_hold(Value value, const std::source_location &at) {
    Kind kind = std::is_unsigned_v<Value> ? Kind::unsigned_integer : Kind::signed_integer;
    i64 bits;
    if constexpr (std::is_floating_point_v<Value>) {
        kind = Kind::real;
        const f64 wide = f64(value);
        __builtin_memcpy(&bits, &wide, 8);
    } else {
        bits = i64(value);
    }
    fail(Found::cast, place_of(at), bits, number_of_type<Number>, nullptr, i64(kind));
}

// The value as `Number`; a fault where that cannot hold it. What is no number is converted as C++ has it.
template <class Number, class Value>
TBS_FUNCTION constexpr Number held(const Value &value, const std::source_location &at) {
    if constexpr (std::is_arithmetic_v<Value>) {
        if (!holds<Number>(value) && !std::is_constant_evaluated() && current != nullptr) fail_to_hold<Number>(value, at);
        return static_cast<Number>(value);
    } else if constexpr (std::is_enum_v<Value> && std::is_convertible_v<Value, Number>) {
        return held<Number>(std::underlying_type_t<Value>(value), at);
    } else {
        return value;
    }
}

// A number that is assigned to. What g++ finds in a sum, a quotient or a shift is looked for here, where it does not look.
template <class Number>
struct Store {
    Number &number;
    std::source_location at;

    template <class Value>
    constexpr Number &operator=(const Value &value) const {
        number = held<Number>(value, at);
        return number;
    }

    constexpr Number &operator++() const { return *this += 1; }
    constexpr Number &operator--() const { return *this -= 1; }
    constexpr Number operator++(int) const {
        const Number before = number;
        *this += 1;
        return before;
    }
    constexpr Number operator--(int) const {
        const Number before = number;
        *this -= 1;
        return before;
    }

#define TBS_SUM(operation, builtin, what)                                                                                  \
    template <class Value>                                                                                                 \
    constexpr Number &operator operation##=(const Value &value) const {                                                    \
        using Result = decltype(number operation value);                                                                   \
        if constexpr (std::is_integral_v<Result> && std::is_signed_v<Result>) {                                            \
            Result result = 0;                                                                                             \
            if (builtin(Result(number), Result(value), &result)) wrong<Result>(Found::what, i64(number), i64(value));      \
            return *this = result;                                                                                         \
        } else {                                                                                                           \
            return *this = number operation value;                                                                         \
        }                                                                                                                  \
    }
    TBS_SUM(+, __builtin_add_overflow, sum)
    TBS_SUM(-, __builtin_sub_overflow, difference)
    TBS_SUM(*, __builtin_mul_overflow, product)
#undef TBS_SUM

#define TBS_QUOTIENT(operation)                                                                                            \
    template <class Value>                                                                                                 \
    constexpr Number &operator operation##=(const Value &value) const {                                                    \
        using Result = decltype(number operation value);                                                                   \
        if constexpr (std::is_integral_v<Result>) {                                                                        \
            const bool is_least = std::is_signed_v<Result> && Result(number) == std::numeric_limits<Result>::min();        \
            const bool is_wrong = value == 0 || (is_least && std::is_signed_v<Value> && value == Value(-1));               \
            if (is_wrong) wrong<Result>(Found::division, i64(number), i64(value));                                         \
        }                                                                                                                  \
        return *this = number operation value;                                                                             \
    }
    TBS_QUOTIENT(/)
    TBS_QUOTIENT(%)
#undef TBS_QUOTIENT

#define TBS_SHIFT(operation)                                                                                               \
    template <class Value>                                                                                                 \
    constexpr Number &operator operation##=(const Value &value) const {                                                    \
        using Result = decltype(number operation value);                                                                   \
        if (u64(value) >= sizeof(Result) * 8) wrong<Result>(Found::shift, i64(number), i64(value));                        \
        return *this = number operation value;                                                                             \
    }
    TBS_SHIFT(<<)
    TBS_SHIFT(>>)
#undef TBS_SHIFT

#define TBS_BITWISE(operation)                                          \
    template <class Value>                                              \
    constexpr Number &operator operation##=(const Value &value) const { \
        return *this = number operation value;                          \
    }
    TBS_BITWISE(&)
    TBS_BITWISE(|)
    TBS_BITWISE(^)
#undef TBS_BITWISE

  private:
    template <class Result>
    constexpr void wrong(Found found, i64 left, i64 right) const {
        constexpr bool wide = sizeof(Result) == 8, no_sign = std::is_unsigned_v<Result>;
        const char *const type = wide ? (no_sign ? "'long unsigned int'" : "'long int'") : no_sign ? "'unsigned int'" : "'int'";
        if (!std::is_constant_evaluated() && current != nullptr) fail(found, place_of(at), left, right, type);
    }
};

// In front of what is assigned to, which it leaves as it is unless that is a number: it binds closer than an assignment.
struct To {
    std::source_location at;

    constexpr To(std::source_location here = std::source_location::current()) : at(here) {}

    template <class Place>
    TBS_METHOD constexpr decltype(auto) operator->*(Place &&place) const {
        using Number = std::remove_reference_t<Place>;
        constexpr bool is_number = std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool> && !std::is_const_v<Number>;
        if constexpr (is_number && std::is_lvalue_reference_v<Place>) {
            return Store<Number>{place, at};
        } else {
            return static_cast<Place &&>(place);
        }
    }
};

// In front of what initialises a number, by an assignment, which binds looser than all that may stand there.
template <class Number>
struct Into {
    std::source_location at;

    constexpr Into(std::source_location here = std::source_location::current()) : at(here) {}

    template <class Value>
    TBS_METHOD constexpr Number operator=(const Value &value) const {
        return held<Number>(value, at);
    }
};

#define TBS_TO ::tbs::checks::To() ->*
#define TBS_INTO(type) ::tbs::checks::Into<type>() =

}  // namespace tbs::checks

#elif defined(TBS_CHECKS_CASTS)
#define TBS_TO
#define TBS_INTO(type)
#endif
