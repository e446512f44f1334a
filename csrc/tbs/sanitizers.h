// What g++ calls where it has been asked to check a text (-fsanitize=...): functions of ours in place of a library that
// ends the process. The records that they are given are g++'s.
#pragma once
#include <cstring>

#include "checks.h"

namespace tbs::checks {

struct SourceLocation {
    const char *file;
    u32 line, column;
};

struct TypeDescriptor {
    u16 kind, info;  // 0: an integer; its sign is bit 0 of info, and bits 1.. are the logarithm of its width
    char name[1];    // in quotes
};

struct IndexData {
    SourceLocation place;
    const TypeDescriptor *array, *index;
};

struct ArithmeticData {
    SourceLocation place;
    const TypeDescriptor *type;
};

struct ConversionData {  // of shifts too
    SourceLocation place;
    const TypeDescriptor *from, *to;
};

struct PointerData {
    SourceLocation place;
    const TypeDescriptor *type;
    u8 alignment, use;
};

struct PlaceData {
    SourceLocation place;
};

// The number that a handle stands for: the number itself, or where it is.
inline i64 value_of(const TypeDescriptor *type, std::uintptr_t handle) {
    if (type->kind != 0) return 0;
    const u32 bits = 1u << (type->info >> 1);
    if (bits > 64) return i64(*reinterpret_cast<const u64 *>(handle));
    if (bits == 64) return i64(handle);
    return (type->info & 1) != 0 ? i64(handle << (64 - bits)) >> (64 - bits) : i64(handle & ((u64{1} << bits) - 1));
}

// Whether a place is in a text that is checked: the author's, or that of a library that does not come with the engine.
inline bool is_checked(const SourceLocation &place) {
    const bool of_engine = std::strncmp(place.file, TBS_CHECKS_ENGINE, sizeof(TBS_CHECKS_ENGINE) - 1) == 0;
    return current != nullptr && !of_engine && std::strchr(place.file, '/') != nullptr;
}

inline void found(Found what, const SourceLocation &place, i64 value, i64 bound, const char *type, i64 other = 0) {
    if (is_checked(place)) fail(what, {place.file, place.line, place.column}, value, bound, type, other);
}

inline void found(Found what, const ArithmeticData *data, std::uintptr_t left, std::uintptr_t right) {
    found(what, data->place, value_of(data->type, left), value_of(data->type, right), data->type->name);
}

}  // namespace tbs::checks

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
#define TBS_HANDLER(name) extern "C" [[gnu::used, gnu::noinline, gnu::cold]] void __ubsan_handle_##name
TBS_HANDLER(out_of_bounds)(void *given, void *index) {
    using namespace tbs::checks;
    const auto *const data = static_cast<const IndexData *>(given);
    const tbs::i64 value = value_of(data->index, reinterpret_cast<std::uintptr_t>(index));
    found(tbs::Found::index, data->place, value, 0, data->array->name);
}
#define TBS_ARITHMETIC(name, what)                                                                              \
    TBS_HANDLER(name)(void *data, void *left, void *right) {                                                    \
        tbs::checks::found(tbs::Found::what, static_cast<const tbs::checks::ArithmeticData *>(data),            \
                           reinterpret_cast<std::uintptr_t>(left), reinterpret_cast<std::uintptr_t>(right));    \
    }
TBS_ARITHMETIC(add_overflow, sum)
TBS_ARITHMETIC(sub_overflow, difference)
TBS_ARITHMETIC(mul_overflow, product)
TBS_ARITHMETIC(divrem_overflow, division)
#undef TBS_ARITHMETIC
TBS_HANDLER(negate_overflow)(void *given, void *value) {
    const auto *const data = static_cast<const tbs::checks::ArithmeticData *>(given);
    tbs::checks::found(tbs::Found::negation, data, reinterpret_cast<std::uintptr_t>(value), 0);
}
TBS_HANDLER(shift_out_of_bounds)(void *given, void *left, void *right) {
    using namespace tbs::checks;
    const auto *const data = static_cast<const ConversionData *>(given);
    const tbs::i64 value = value_of(data->from, reinterpret_cast<std::uintptr_t>(left));
    const tbs::i64 places = value_of(data->to, reinterpret_cast<std::uintptr_t>(right));
    found(tbs::Found::shift, data->place, value, places, data->from->name);
}
TBS_HANDLER(float_cast_overflow)(void *given, void *value) {
    using namespace tbs::checks;
    const auto *const data = static_cast<const ConversionData *>(given);
    const auto handle = reinterpret_cast<std::uintptr_t>(value);
    double number = 0;  // a float as it is in the handle, a double too
    if ((data->from->info & 0xFFFF) == 32) {
        float narrow;
        std::memcpy(&narrow, &handle, sizeof(narrow));
        number = double(narrow);
    } else {
        std::memcpy(&number, &handle, sizeof(number));
    }
    tbs::i64 bits;
    std::memcpy(&bits, &number, sizeof(bits));
    found(tbs::Found::float_cast, data->place, bits, 0, data->to->name);
}
TBS_HANDLER(type_mismatch_v1)(void *given, void *pointer) {
    const auto *const data = static_cast<const tbs::checks::PointerData *>(given);
    if (pointer == nullptr) tbs::checks::found(tbs::Found::null, data->place, 0, 0, data->type->name);
}
TBS_HANDLER(missing_return)(void *given) {
    tbs::checks::found(tbs::Found::no_return, static_cast<const tbs::checks::PlaceData *>(given)->place, 0, 0, nullptr);
    __builtin_trap();
}
#undef TBS_HANDLER
#pragma GCC diagnostic pop
