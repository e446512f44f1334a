// Bits in a checked build. Authors' texts find this type before tbs::Bits (poison.h says how names are found).
#pragma once
#include "bits.h"
#include "checks.h"

#ifdef TBS_CHECKS

namespace tbs::fence {

template <u32 size>
class Bits : public tbs::Bits<size> {
  public:
#ifdef TBS_CHECKS_JUMP
    using Place = std::source_location;
#else
    struct Place {
        const char *file;
        u32 line;

        static TBS_METHOD constexpr Place current(const char *file = __builtin_FILE(), u32 line = __builtin_LINE()) {
            return {file, line};
        }
    };
#endif

    TBS_METHOD void append(u64 value, u32 count, const Place &place = Place::current()) {
        if (count > 64 || u64{used_} + count > size) return fail(Found::bits, place, count);
        if (count < 64 && value >> count != 0) return fail(Found::bits_of_value, place, i64(value), count);
        tbs::Bits<size>::append(value, count);
        used_ += count;
    }

    TBS_METHOD void append_thermometer(u32 ones, u32 count, const Place &place = Place::current()) {
        if (u64{used_} + count > size) return fail(Found::bits, place, count);
        tbs::Bits<size>::append_thermometer(ones, count);
        used_ += count;
    }

  private:
    TBS_METHOD void fail(Found found, const Place &place, i64 value, u32 other = 0) const {
        const u32 more = found == Found::bits ? used_ : other;
#ifdef TBS_CHECKS_JUMP
        checks::fail(found, checks::place_of(place), value, size, nullptr, more);
#else  // nothing is appended
        checks::note(checks::running_of_thread()->site, found, checks::Spot{place.file, place.line, 0}, value, size, more, 0);
#endif
    }

    u32 used_ = 0;
};

}  // namespace tbs::fence

#endif  // TBS_CHECKS
