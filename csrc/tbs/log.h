// Records of world.log. Only builds for it (TBS_LOG) have code; LogRecord is in torch_batchsim/base/shared.py.
#pragma once
#include "vector.h"

#include <type_traits>

namespace tbs {

constexpr u32 log_label_bytes = 32;  // the end included

template <class Value>
constexpr bool is_logged_vector = std::is_same_v<Value, vec2> || std::is_same_v<Value, vec3> ||
                                  std::is_same_v<Value, vec4> || std::is_same_v<Value, quat>;
template <class Value>
constexpr bool is_loggable = std::is_arithmetic_v<Value> || std::is_enum_v<Value> || is_logged_vector<Value>;

#ifdef TBS_LOG
template <class Value>
TBS_FUNCTION void write_logged(LogRecord &record, const Value &value) {
    if constexpr (is_logged_vector<Value>) {
        record.kind = u32(LogKind::f32);
        record.count = u32(sizeof(Value) / sizeof(f32));
        f32 parts[sizeof(Value) / sizeof(f32)];
        __builtin_memcpy(parts, &value, sizeof value);
        for (u32 i = 0; i < record.count; ++i) __builtin_memcpy(&record.values[i], &parts[i], sizeof(f32));
    } else {
        record.count = 1;
        if constexpr (std::is_same_v<Value, f32>) {
            record.kind = u32(LogKind::f32);
            __builtin_memcpy(&record.values[0], &value, sizeof value);
        } else if constexpr (std::is_floating_point_v<Value>) {
            const f64 wide = f64(value);
            record.kind = u32(LogKind::f64);
            __builtin_memcpy(&record.values[0], &wide, sizeof wide);
        } else if constexpr (std::is_same_v<Value, bool>) {
            record.kind = u32(LogKind::boolean);
            record.values[0] = u64(value);
        } else {
            record.kind = u32(std::is_unsigned_v<Value> ? LogKind::u64 : LogKind::i64);
            record.values[0] = u64(i64(value));
        }
    }
}
#endif

}  // namespace tbs
