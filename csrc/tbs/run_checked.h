// How the CPU executors run an author's node in a checked build: world after world, leaving out those that a fault has stopped.
#pragma once
#include "checks.h"
#include "engine.h"
#ifdef TBS_CHECKS_JUMP
#include "sanitizers.h"
#endif

namespace tbs::executors {

// Whether a node has what the checks ask of it: `checked_number` in fault words, and if it `verifies`,
// verify(context, world, guard) behind it.
template <class Node, class = void>
constexpr bool is_checked = false;
template <class Node>
constexpr bool is_checked<Node, std::void_t<decltype(Node::checked_number)>> = true;

// The worlds from `first` on.
struct WorldsFrom {
    i32 first;

    TBS_METHOD i32 operator()(i32 i) const { return first + i; }
};

#ifdef TBS_CHECKS_JUMP

// The rows of a world, one after the other.
template <class Node, class Context>
inline void run_checked_world(const Context &context, u32 repetition, i32 world, checks::Guard &guard) {
    if constexpr (takes_worlds<Node>) {  // by itself, so that a fault stops no other one
        WorldPack<Node::worlds> pack;
        pack.ids[pack.count++] = world;
        Lanes<Node::lanes> group;
        guard.row = 0;
        call_node<Node>(context, repetition, pack, group);
    } else {
        const NodeRows rows = rows_of<Node>(context, world);
        for (i32 k = 0; k < rows.count; ++k) {
            guard.row = u32(k);
            if constexpr (Node::lanes > 1) {
                Lanes<Node::lanes> group;
                call_node<Node>(context, repetition, rows, k, group);
            } else {
                call_node<Node>(context, repetition, rows, k);
            }
        }
    }
}

// The row of a flat node that is unit `unit` of a loop. Not in run_units: g++ would look for overflow in each row, and make no
// vectors.
template <i32 per_world, class World>
TBS_FUNCTION i32 row_of_unit(const World &world, i32 unit) {
    return world(unit / per_world) * per_world + unit % per_world;
}

template <class Node>
constexpr i32 units_per_world = 1;
template <class Node>
    requires is_flat<Node>
constexpr i32 units_per_world<Node> = Node::rows_per_world;

// Runs a node from unit `unit` on: of a flat node a unit is a row, of others a world. The context is copied for the same
// reason as in run_range. Where a flat node is says an array of marks, which the compiler can write as vectors where a
// system has nothing to check. The function is not TBS_UNCHECKED: g++ leaves out what it has put into texts that are inlined there.
template <class Node, class Context, class World>
[[gnu::noinline, gnu::flatten]] void run_units(const Context &shared, u32 repetition, i32 unit, i32 count, const World &world,
                                               checks::Guard &guard) {
    const Context context = shared;
    if constexpr (is_flat<Node>) {
        constexpr i32 per_world = Node::rows_per_world;
        const World worlds = world;
        u32 *const marks = guard.marks;
        const u32 mark = guard.mark;
        if (guard.some_have_failed || Node::has_loops) {
            for (; unit < count * per_world; ++unit) {
                marks[unit] = mark;
                const i32 own = worlds(unit / per_world);
                if (checks::is_stopped(context.fault[own])) continue;
                if (unit % per_world == 0) guard.iterations = 0;
                call_node<Node>(context, repetition, own * per_world + unit % per_world);
            }
            return;
        }
#pragma GCC ivdep
        for (i32 i = unit; i < count * per_world; ++i) {
            marks[i] = mark;
            call_node<Node>(context, repetition, row_of_unit<per_world>(worlds, i));
        }
    } else {
        for (; unit < count; ++unit) {
            const i32 own = world(unit);
            guard.unit = unit;
            guard.world = own;
            guard.row = 0;
            guard.iterations = 0;
            if (!checks::is_stopped(context.fault[own])) run_checked_world<Node>(context, repetition, own, guard);
        }
    }
}

// Runs a node for world(0) .. world(count - 1).
template <class Node, class Context, class World>
TBS_UNCHECKED inline void run_checked(const Context &context, u32 repetition, i32 count, const World &world) {
    checks::Guard guard{};
    guard.fault = context.fault;
    guard.fault_flag = context.fault_flag;
    guard.records = context.check_records;
    guard.steps = context.step;
    guard.node = Node::checked_number;
    guard.budget = context.loop_budget;
    guard.some_have_failed = *context.fault_flag != 0;
    constexpr i32 per_world = units_per_world<Node>;
    if constexpr (is_flat<Node>) checks::take_marks(guard, count * per_world);
    const auto find = [&] {
        if constexpr (is_flat<Node>) {
            i32 next = guard.first;
            while (next < count * per_world && guard.marks[next] == guard.mark) ++next;
            guard.unit = next - 1;
        }
        const bool has_begun = guard.unit >= guard.first;
        if (has_begun && !is_flat<Node>) return;
        if (!has_begun) guard.unit = guard.first;
        guard.world = world(guard.unit / per_world);
        guard.row = u32(guard.unit % per_world);
    };
    const auto loop = [&](i32 unit) { run_units<Node>(context, repetition, unit, count, world, guard); };
    checks::guarded(guard, count * per_world, find, loop);
    if constexpr (Node::verifies) Node::verify(context, count, world, guard);
}

#else

template <class Node, class Context, class World>
inline void run_checked(const Context &, u32, i32, const World &) {}

#endif

}  // namespace tbs::executors
