// Bits and Random in a checked build. Authors' texts find these types before those of tbs (poison.h says how names are found).
#pragma once
#include "bits.h"
#include "checks.h"
#include "random.h"

#ifdef TBS_CHECKS

namespace tbs::fence {

// Where something is called: the default of a last parameter.
struct Call {
#ifdef TBS_CHECKS_JUMP
    std::source_location at;

    static TBS_METHOD constexpr Call current(std::source_location at = std::source_location::current()) { return {at}; }

    TBS_METHOD void fail(Found found, i64 value, i64 bound, i64 other = 0) const {
        checks::fail(found, checks::place_of(at), value, bound, nullptr, other);
    }
#else
    const char *file;
    u32 line;

    static TBS_METHOD constexpr Call current(const char *file = __builtin_FILE(), u32 line = __builtin_LINE()) {
        return {file, line};
    }

    // The caller goes on with what does no harm.
    TBS_METHOD void fail(Found found, i64 value, i64 bound, i64 other = 0) const {
        checks::note(checks::running_of_thread()->site, found, checks::Spot{file, line, 0}, value, bound, other, 0);
    }
#endif
};

template <u32 size>
class Bits : public tbs::Bits<size> {
  public:
    TBS_METHOD void append(u64 value, u32 count, const Call &call = Call::current()) {
        if (count > 64 || u64{used_} + count > size) return call.fail(Found::bits, count, size, used_);
        if (count < 64 && value >> count != 0) return call.fail(Found::bits_of_value, i64(value), size, count);
        tbs::Bits<size>::append(value, count);
        used_ += count;
    }

    TBS_METHOD void append_thermometer(u32 ones, u32 count, const Call &call = Call::current()) {
        if (u64{used_} + count > size) return call.fail(Found::bits, count, size, used_);
        tbs::Bits<size>::append_thermometer(ones, count);
        used_ += count;
    }

  private:
    u32 used_ = 0;
};

// What is drawn where a call is wrong takes as many words as ever.
struct Random : tbs::Random {
    using tbs::Random::Random;

    TBS_METHOD u32 below(u32 n, const Call &call = Call::current()) {
        if (n == 0) call.fail(Found::below, 0, 0);
        return tbs::Random::below(n);
    }

    TBS_METHOD i32 integer(i32 low, i32 high, const Call &call = Call::current()) {
        if (low <= high) return tbs::Random::integer(low, high);
        call.fail(Found::integer, low, high);
        return tbs::Random::integer(low, low);
    }

    template <class T, u32 size>
    TBS_METHOD void shuffle(T (&items)[size], u32 n, const Call &call = Call::current()) {
        if (n > size) call.fail(Found::shuffle, n, size);
        tbs::Random::shuffle(static_cast<T *>(items), n < size ? n : size);
    }
    template <class Pointer>
    TBS_METHOD void shuffle(Pointer items, u32 n) { tbs::Random::shuffle(items, n); }
};

}  // namespace tbs::fence

#endif  // TBS_CHECKS
