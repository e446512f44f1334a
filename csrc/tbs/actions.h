// Actions as they come from outside: their element types (ElementType, see fault.h), and what the action space allows.
#pragma once
#include "platform.h"

namespace tbs {

// What is allowed in one element of an action, both ends included. Integers are exact in a double.
struct ActionBounds {
    f64 low;
    f64 high;
};

template <class Source>
TBS_FUNCTION bool action_is_legal(Source value, ActionBounds bounds) {
    if constexpr (Source(0.5) == Source(0)) {
        // Integers, whose bounds are integers too: one unsigned comparison, which vectorises well.
        return u64(i64(value)) - u64(i64(bounds.low)) <= u64(i64(bounds.high)) - u64(i64(bounds.low));
    } else {
        return f64(value) >= bounds.low && f64(value) <= bounds.high;  // false for NaN
    }
}

// What the action column holds for agents that take no part: of the legal values that nearest to 0.
TBS_FUNCTION f64 idle_action(ActionBounds bounds) {
    return bounds.low > 0.0 ? bounds.low : bounds.high < 0.0 ? bounds.high : 0.0;
}

// Names the first type for which a source and a column type may meet: integers go to integers, floats to floats.
template <class Source, class Column>
constexpr bool action_types_fit = (Source(0.5) == Source(0)) == (Column(0.5) == Column(0));

// Calls visitor.template visit<Source>() for the element type of the given code.
template <class Visitor>
auto with_element_type(ElementType type, Visitor &&visitor) {
    switch (type) {
        case ElementType::u8: return visitor.template visit<u8>();
        case ElementType::i8: return visitor.template visit<i8>();
        case ElementType::i16: return visitor.template visit<i16>();
        case ElementType::i32: return visitor.template visit<i32>();
        case ElementType::i64: return visitor.template visit<i64>();
        case ElementType::boolean: return visitor.template visit<u8>();
        case ElementType::f32: return visitor.template visit<f32>();
        default: return visitor.template visit<f64>();
    }
}

}  // namespace tbs
