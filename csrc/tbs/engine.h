// What the executors share: the words of the engine and the nodes that it adds around an author's systems.
#pragma once
#include "platform.h"
#include "fault.h"

namespace tbs {

template <class... Node>
struct Nodes {};

enum class Autoreset : i32 { disabled = 0, next_step = 1, same_step = 2 };

// Bookkeeping, once per world. ------------------------------------------------------------------------------------

struct CountStep {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        context.step[world] += 1;
        context.terminated[world] = 0;
        context.truncated[world] = 0;
    }
};

// `ended` keeps the flags of the last step, for the outputs may be bound elsewhere by the next one.
struct NoteEnd {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        const u8 ended = u8(context.terminated[world] | context.truncated[world] << 1);
        context.ended[world] = ended;
    }
};

struct RepeatFlags {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        context.terminated[world] = context.ended[world] & 1;
        context.truncated[world] = context.ended[world] >> 1;
    }
};

struct ClearFlags {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        context.terminated[world] = 0;
        context.truncated[world] = 0;
    }
};

// Rows of the vector environment: each agent shows the flags of its world.
template <i32 agents_per_world>
struct DeliverFlags {
    static constexpr i32 rows_per_world = agents_per_world;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 row) {
        const i32 world = row / agents_per_world;
        const u8 terminated = context.terminated[world], truncated = context.truncated[world];
        if constexpr (agents_per_world > 1) {
            context.agent_terminated[row] = terminated;
            context.agent_truncated[row] = truncated;
        }
        context.agent_done[row] = terminated | truncated;
    }
};

struct BeginEpisode {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        context.episode[world] += 1;  // seeding sets it to the last number, so that the first episode is 0
        context.step[world] = 0;
        context.ended[world] = 0;
    }
};

}  // namespace tbs
