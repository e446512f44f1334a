// How the CPU executors run an author's node in a checked build: world after world, leaving out those that a fault has stopped.
#pragma once
#include "checks.h"
#include "engine.h"
#ifdef TBS_CHECKS_JUMP
#include "sanitizers.h"
#endif

namespace tbs::executors {

// Whether a node has what the checks ask of it: `number` in fault words, and verify(context, world, row).
template <class Node, class = void>
constexpr bool is_checked = false;
template <class Node>
constexpr bool is_checked<Node, std::void_t<decltype(Node::checked_number)>> = true;

#ifdef TBS_CHECKS_JUMP

// The rows of a world, one after the other.
template <class Node, class Context>
inline void run_checked_world(const Context &context, u32 repetition, i32 world, checks::Guard &guard) {
    if constexpr (is_flat<Node>) {
        for (i32 k = 0; k < Node::rows_per_world; ++k) {
            guard.row = u32(k);
            call_node<Node>(context, repetition, world * Node::rows_per_world + k);
        }
    } else if constexpr (takes_worlds<Node>) {  // by itself, so that a fault stops no other one
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

// Runs a node for world(0) .. world(count - 1).
template <class Node, class Context, class World>
inline void run_checked(const Context &context, u32 repetition, i32 count, const World &world) {
    checks::Guard guard{};
    guard.fault = context.fault;
    guard.fault_flag = context.fault_flag;
    guard.records = context.check_records;
    guard.steps = context.step;
    guard.node = Node::checked_number;
    guard.budget = context.loop_budget;
    const auto rows = [&] [[gnu::noinline, gnu::flatten]] (i32 unit) {
        for (; unit < count; ++unit) {
            const i32 own = world(unit);
            if (checks::is_stopped(context.fault[own])) continue;
            guard.unit = unit;
            guard.world = own;
            guard.iterations = 0;
            run_checked_world<Node>(context, repetition, own, guard);
        }
    };
    checks::guarded(guard, rows);
    Node::verify(context, count, world, guard);
}

#else

template <class Node, class Context, class World>
inline void run_checked(const Context &, u32, i32, const World &) {}

#endif

}  // namespace tbs::executors
