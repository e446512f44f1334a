// Integers as systems in Python have them: sums that begin again at the other end, quotients rounded down.
#pragma once
#include "checks.h"
#include "platform.h"

#include <type_traits>

namespace tbs {

// a + b, a - b, a * b of i32 or i64, beyond the ends modulo 2^32 or 2^64; C++ leaves that undefined.
template <class T>
TBS_FUNCTION T wrapped_add(T a, T b) { return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b)); }
template <class T>
TBS_FUNCTION T wrapped_subtract(T a, T b) { return T(std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b)); }
template <class T>
TBS_FUNCTION T wrapped_multiply(T a, T b) { return T(std::make_unsigned_t<T>(a) * std::make_unsigned_t<T>(b)); }

// In a checked build they have the place in an author's text that calls them.
#ifdef TBS_CHECKS
#define TBS_DIVISOR(a, b) checks::divisor(a, b, caller)
#else
#define TBS_CALLER
#define TBS_DIVISOR(a, b) b
#endif

// The greatest integer that is not above a / b, and what is left of a then, which has the sign of b: Python's // and %.
// C++ rounds towards zero. b is not 0, and a / b within the range.
template <class T>
TBS_FUNCTION T floor_divide(T a, T b TBS_CALLER) {
    const T by = TBS_DIVISOR(a, b), quotient = a / by;
    return quotient - T((a % by != 0) & ((a < 0) != (by < 0)));
}
template <class T>
TBS_FUNCTION T floor_modulo(T a, T b TBS_CALLER) {
    const T by = TBS_DIVISOR(a, b), rest = a % by;
    return rest + ((rest != 0) & ((a < 0) != (by < 0)) ? by : T(0));
}

}  // namespace tbs
