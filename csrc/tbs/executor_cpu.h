// The CPU executors: threads take tiles of worlds through the whole step while a tile is hot in cache (Batch), or world
// after world (PerWorld).
#pragma once
#include "actions.h"
#include "engine.h"
#include "run_checked.h"
#include "settle.h"
#include "threads.h"
#include "trace.h"
#include "watch.h"
#include "x86.h"

namespace tbs::executors {

// Nodes ----------------------------------------------------------------------------------------------------------

// Runs a node for all rows of one world.
template <class Node, class Context>
inline void run_rows_of_world(const Context &context, u32 repetition, i32 world) {
    const NodeRows rows = rows_of<Node>(context, world);
    if constexpr (Node::lanes > 1) {
        for (i32 k = 0; k < rows.count; ++k) {
            Lanes<Node::lanes> group;
            call_node<Node>(context, repetition, rows, k, group);
        }
    } else if constexpr (Node::creates) {  // one after the other: the order of creation
        for (i32 k = 0; k < rows.count; ++k) call_node<Node>(context, repetition, rows, k);
    } else {
#pragma GCC ivdep
        for (i32 k = 0; k < rows.count; ++k) call_node<Node>(context, repetition, rows, k);
    }
}

// Runs a node that takes several worlds for world(0) .. world(count - 1).
template <class Node, class Context, class World>
inline void run_worlds(const Context &context, u32 repetition, i32 count, const World &world) {
    for (i32 begin = 0; begin < count; begin += i32(Node::worlds)) {
        WorldPack<Node::worlds> pack;
        for (i32 i = begin; i < count && i < begin + i32(Node::worlds); ++i) pack.ids[pack.count++] = world(i);
        Lanes<Node::lanes> group;
        call_node<Node>(context, repetition, pack, group);
    }
}

template <class Node, class Context>
inline void run_world(const Context &context, u32 repetition, i32 world) {
    if constexpr (takes_worlds<Node>) {
        run_worlds<Node>(context, repetition, 1, [&](i32) { return world; });
    } else {
        run_rows_of_world<Node>(context, repetition, world);
    }
}

// Runs a node for all rows of the worlds [first, last). The context is copied so that the compiler knows that
// no store into a column changes a pointer or a parameter; rows are independent by the contract of systems.
template <class Node, class Context>
[[gnu::noinline]] TBS_FLATTEN void run_range(const Context &shared, u32 repetition, i32 first, i32 last) {
    const Context context = shared;
    if constexpr (is_checked<Node>) {
        run_checked<Node>(context, repetition, last - first, WorldsFrom{first});
    } else if constexpr (is_flat<Node>) {
        const i32 end = last * Node::rows_per_world;
#pragma GCC ivdep
        for (i32 row = first * Node::rows_per_world; row < end; ++row) call_node<Node>(context, repetition, row);
    } else if constexpr (takes_worlds<Node>) {
        run_worlds<Node>(context, repetition, last - first, [&](i32 i) { return first + i; });
    } else {
        WatchPlace &place = *context.place;
        for (i32 world = first; world < last; ++world) {
            place.world = world;
            run_world<Node>(context, repetition, world);
        }
        place.world = -1;
    }
}

// The first random blocks of row `row` of some worlds, computed together. The loop goes on to a multiple of `vector`, so
// that no world is left for one without vectors.
struct FirstBlocks {
    static constexpr i32 most = 64, vector = 16;
    alignas(64) u64 seed[most] = {};
    alignas(64) u32 stream[most] = {}, episode[most] = {}, step[most] = {};
    alignas(64) PhiloxBlock block[most];

    template <class Context>
    inline void draw(const Context &context, u32 node, u32 row, const i32 *worlds, i32 count) {
        for (i32 i = 0; i < count; ++i) {
            seed[i] = context.seed[worlds[i]];
            stream[i] = context.stream[worlds[i]];
            episode[i] = context.episode[worlds[i]];
            step[i] = context.step[worlds[i]];
        }
        const i32 end = (count + vector - 1) / vector * vector;
        for (i32 i = 0; i < end; ++i) {
            const RandomKey key(seed[i], node, row);
            block[i] = philox({{stream[i], episode[i], step[i], 0}}, key.low, key.high);
        }
    }
};

// A node that draws, for a list of worlds: row after row it would wait for each round of its generator. For a few worlds
// that is shorter than a vector of which they fill a part.
template <class Node, class Context>
inline void run_drawing(const Context &context, u32 repetition, const i32 *worlds, i32 count) {
    constexpr i32 few = 4;
    if (count < few) {
        for (i32 i = 0; i < count; ++i) {
            const i32 row = worlds[i] * Node::rows_per_world;
            for (i32 k = 0; k < Node::rows_per_world; ++k) call_node<Node>(context, repetition, row + k);
        }
        return;
    }
    const u32 node = repeated(Node::random_key, repetition);
    FirstBlocks drawn;
    for (i32 begin = 0; begin < count; begin += drawn.most) {
        const i32 *const some = worlds + begin;
        const i32 end = min(count - begin, drawn.most);
        for (i32 k = 0; k < Node::rows_per_world; ++k) {
            drawn.draw(context, node, u32(k), some, end);
#pragma GCC ivdep
            for (i32 i = 0; i < end; ++i) {
                call_node<Node>(context, repetition, some[i] * Node::rows_per_world + k, &drawn.block[i]);
            }
        }
    }
}

// The same as run_range for a list of worlds.
template <class Node, class Context>
[[gnu::noinline]] TBS_FLATTEN void run_list(const Context &shared, u32 repetition, const i32 *worlds, i32 count) {
    const Context context = shared;
    if constexpr (is_checked<Node>) {
        run_checked<Node>(context, repetition, count, [worlds](i32 i) { return worlds[i]; });
    } else if constexpr (draws<Node>) {
        run_drawing<Node>(context, repetition, worlds, count);
    } else if constexpr (is_flat<Node>) {
#pragma GCC ivdep
        for (i32 i = 0; i < count; ++i) {
            const i32 row = worlds[i] * Node::rows_per_world;
            for (i32 k = 0; k < Node::rows_per_world; ++k) call_node<Node>(context, repetition, row + k);
        }
    } else if constexpr (takes_worlds<Node>) {
        run_worlds<Node>(context, repetition, count, [&](i32 i) { return worlds[i]; });
    } else {
        WatchPlace &place = *context.place;
        for (i32 i = 0; i < count; ++i) {
            place.world = worlds[i];
            run_world<Node>(context, repetition, worlds[i]);
        }
        place.world = -1;
    }
}

// Calls run_node.operator()<Node>(repetition) for each node, those of a loop again and again, and in traced builds writes
// down how long it took. `task`: the number of the next node.
template <class Context, class Function>
struct NodeWalk {
    const Context &context;
    const Function &run_node;
    u32 task;
    const u32 tile;

    template <class Node>
    inline void visit(const Node *, u32 repetition) {
        const TraceSpan span(true);
        context.place->task = task;
        if constexpr (is_repeated<Node>) context.place->repetition = repetition;
        run_node.template operator()<Node>(repetition);
        span.end(context.trace, task++, tile);
    }

    template <u32 times, class... Entry>
    inline void visit(const Loop<times, Entry...> *, u32 before) {
        const u32 first = task;
        TBS_NO_UNROLL
        for (u32 i = 0; i < times; ++i) {
            task = first;
            (visit(static_cast<const Entry *>(nullptr), before * times + i), ...);
        }
    }
};

template <class Context, class Function, class... Entry>
inline void for_each_node(Nodes<Entry...>, const Context &context, u32 task, u32 tile, const Function &run_node) {
    [[maybe_unused]] NodeWalk<Context, Function> walk{context, run_node, task, tile};
    (walk.visit(static_cast<const Entry *>(nullptr), 0), ...);
}

template <class List, class Context>
void run_all(List nodes, u32 task, const Context &context, i32 first, i32 last) {
    const auto run_node = [&]<class Node>(u32 repetition) { run_range<Node>(context, repetition, first, last); };
    for_each_node(nodes, context, task, u32(first / context.tile), run_node);
}

template <class List, class Context, class Function>
inline void run_listed(List nodes, u32 task, const Context &context, const i32 *worlds, i32 count, const Function &run_node) {
    if (count == 0) return;
    context.place->count = count;
    context.place->list = worlds;
    for_each_node(nodes, context, task, u32(worlds[0] / context.tile), run_node);
    context.place->list = nullptr;
}

template <class List, class Context>
void run_all(List nodes, u32 task, const Context &context, const i32 *worlds, i32 count) {
    const auto run_node = [&]<class Node>(u32 repetition) { run_list<Node>(context, repetition, worlds, count); };
    run_listed(nodes, task, context, worlds, count, run_node);
}

// The same for nodes that run_all runs for ranges too: neighbours in the list are a range, so that nothing is compiled twice.
template <class List, class Context>
void run_all_by_ranges(List nodes, u32 task, const Context &context, const i32 *worlds, i32 count) {
    const auto run_node = [&]<class Node>(u32 repetition) {
        for (i32 i = 0; i < count;) {
            const i32 first = worlds[i];
            i32 last = first;
            while (i < count && worlds[i] == last) ++i, ++last;
            run_range<Node>(context, repetition, first, last);
        }
    };
    run_listed(nodes, task, context, worlds, count, run_node);
}

// Tiles ----------------------------------------------------------------------------------------------------------

// Writes the indices of the worlds in [first, last) whose flag is set to `list`, which has room for 16 more than there
// are; returns how many. A branch on each flag would be mispredicted for most worlds that end.
inline i32 list_flagged(const u8 *flags, i32 first, i32 last, i32 *list) {
    i32 count = 0;
    i32 world = first;
#if TBS_AVX512
    const x86::Words lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (; world + 16 <= last; world += 16) {
        const u32 set = x86::non_zero_bytes(flags + world);
        x86::store(list + count, 0xffff, x86::compressed(set, lanes + world));
        count += __builtin_popcount(set);
    }
#endif
    for (; world + 8 <= last; world += 8) {
        u64 eight;
        __builtin_memcpy(&eight, flags + world, 8);
        if (eight == 0) continue;
        for (i32 k = 0; k < 8; ++k) {
            list[count] = world + k;
            count += flags[world + k] != 0;
        }
    }
    for (; world < last; ++world) {
        list[count] = world;
        count += flags[world] != 0;
    }
    return count;
}

template <class Context>
inline bool keeps_final(const Context &context) {
    return context.autoreset == Autoreset::same_step && context.keep_final != 0;
}

// How worlds are taken through a step and a reset. `Number` has the numbers of tasks in the schedule, for traces.

template <class Program>
struct Batch {
    using Context = typename Program::Context;
    using Number = typename Program::Number;

    // Lets the listed worlds begin an episode.
    static void begin(const Context &context, const i32 *worlds, i32 count) {
        run_all(typename Program::Begin{}, Number::begin, context, worlds, count);
        run_all(typename Program::Start{}, Number::start, context, worlds, count);
    }

    // A step of worlds [first, last) whose episodes are under way.
    static void advance(const Context &context, i32 first, i32 last) {
        run_all(typename Program::BeforeStep{}, Number::before_step, context, first, last);
        run_all(typename Program::Step{}, Number::step, context, first, last);
        run_all(typename Program::AfterStep{}, Number::after_step, context, first, last);
    }

    static void step_same_step(const Context &context, i32 first, i32 last) {
        i32 worlds[max_tile + 16];
        advance(context, first, last);
        const i32 count = list_flagged(context.ended, first, last, worlds);
        if (count == 0) return;
        if (context.keep_final) {
            run_all_by_ranges(typename Program::Observe{}, Number::observe_final, context, worlds, count);
            run_all(typename Program::KeepFinal{}, Number::keep_final, context, worlds, count);
        }
        begin(context, worlds, count);
    }

    // NEXT_STEP and DISABLED: worlds whose episode has ended do not step; they begin anew, or stay as they are.
    static void step_apart(const Context &context, i32 first, i32 last) {
        i32 worlds[max_tile + 16];
        const i32 count = list_flagged(context.ended, first, last, worlds);
        i32 live = first;
        for (i32 i = 0; i <= count; ++i) {
            const i32 ended = i < count ? worlds[i] : last;
            if (live < ended) advance(context, live, ended);
            live = ended + 1;
        }
        if (count == 0) return;
        run_all(typename Program::Hold{}, Number::hold, context, worlds, count);
        if (context.autoreset == Autoreset::next_step) {
            run_all(typename Program::ClearOutputs{}, Number::clear_outputs, context, worlds, count);
            begin(context, worlds, count);
        }
    }

    static void step(const Context &context, i32 first, i32 last) {
        if (context.autoreset == Autoreset::same_step) {
            step_same_step(context, first, last);
        } else {
            step_apart(context, first, last);
        }
        run_all(typename Program::Observe{}, Number::observe, context, first, last);
        if (keeps_final(context)) run_all(typename Program::KeepOwnFinal{}, Number::keep_own_final, context, first, last);
        run_all(typename Program::Deliver{}, Number::deliver, context, first, last);
    }

    static void reset(const Context &context, const u8 *mask, i32 first, i32 last) {
        i32 worlds[max_tile + 16];
        const i32 count = list_flagged(mask, first, last, worlds);
        run_all(typename Program::ClearOutputs{}, Number::clear_outputs, context, worlds, count);
        begin(context, worlds, count);
        run_all_by_ranges(typename Program::Observe{}, Number::observe, context, worlds, count);
        run_all_by_ranges(typename Program::Deliver{}, Number::deliver, context, worlds, count);
    }
};

// The whole graph for one world, then for the next: the paper's ECS-CPU, a baseline. Here too a world's nodes are one
// function for the compiler, and columns are those of all worlds; what it lacks is work on many worlds at a time.
template <class Program>
struct PerWorld {
    using Context = typename Program::Context;
    using Number = typename Program::Number;

    template <class List>
    static inline void run(List nodes, u32 task, const Context &context, i32 world) {
        const auto run_node = [&]<class Node>(u32 repetition) {
            if constexpr (is_checked<Node>) {
                run_checked<Node>(context, repetition, 1, [world](i32) { return world; });
            } else if constexpr (is_flat<Node>) {
                const i32 row = world * Node::rows_per_world;
                for (i32 k = 0; k < Node::rows_per_world; ++k) call_node<Node>(context, repetition, row + k);
            } else {
                run_world<Node>(context, repetition, world);
            }
        };
        for_each_node(nodes, context, task, u32(world), run_node);
    }

    static inline void begin(const Context &context, i32 world) {
        run(typename Program::Begin{}, Number::begin, context, world);
        run(typename Program::Start{}, Number::start, context, world);
    }

    static inline void deliver(const Context &context, i32 world) {
        run(typename Program::Deliver{}, Number::deliver, context, world);
    }

    static inline void observe(const Context &context, i32 world) {
        run(typename Program::Observe{}, Number::observe, context, world);
    }

    static void step_world(const Context &context, i32 world) {
        context.place->world = world;
        const bool same_step = context.autoreset == Autoreset::same_step;
        if (same_step || context.ended[world] == 0) {
            run(typename Program::BeforeStep{}, Number::before_step, context, world);
            run(typename Program::Step{}, Number::step, context, world);
            run(typename Program::AfterStep{}, Number::after_step, context, world);
            if (same_step && context.ended[world] != 0) {
                if (context.keep_final) {
                    run(typename Program::Observe{}, Number::observe_final, context, world);
                    run(typename Program::KeepFinal{}, Number::keep_final, context, world);
                }
                begin(context, world);
            }
        } else {
            run(typename Program::Hold{}, Number::hold, context, world);
            if (context.autoreset == Autoreset::next_step) {
                run(typename Program::ClearOutputs{}, Number::clear_outputs, context, world);
                begin(context, world);
            }
        }
        observe(context, world);
        if (keeps_final(context)) run(typename Program::KeepOwnFinal{}, Number::keep_own_final, context, world);
        deliver(context, world);
    }

    static void step(const Context &context, i32 first, i32 last) {
        for (i32 world = first; world < last; ++world) step_world(context, world);
    }

    static void reset(const Context &context, const u8 *mask, i32 first, i32 last) {
        for (i32 world = first; world < last; ++world) {
            if (!mask[world]) continue;
            context.place->world = world;
            run(typename Program::ClearOutputs{}, Number::clear_outputs, context, world);
            begin(context, world);
            observe(context, world);
            deliver(context, world);
        }
    }
};

template <class Program, template <class> class Worlds>
struct CpuExecutor {
    using Context = typename Program::Context;

    static Threads threads(const Context &context) { return {context.num_threads, context.team}; }

    // Runs a tile, whatever the function's type: what goes around it is compiled once, not for each function.
    struct TileWork {
        void (*call)(void *function, const Context &own, i32 first, i32 last);
        void *function;
    };

    // Calls function(context, first, last) for every tile of all worlds, with a context of the thread's own.
    template <class Function>
    static inline void for_tiles(const Context &context, Function &function) {
        run_tiles(context, {[](void *called, const Context &own, i32 first, i32 last) {
                                (*static_cast<Function *>(called))(own, first, last);
                            },
                            &function});
    }

    static void run_tiles(const Context &context, TileWork work) {
        const Watching watching(context.watch);
        auto tile = [&](i32 index, u32 thread) {
            note_thread(thread);
            const i32 first = index * context.tile, last = min(first + context.tile, context.num_worlds);
            run_watched(context, thread, first, last,
                        [&](const Context &own) { work.call(work.function, own, first, last); });
        };
        for_each(context.share_out, tile, (context.num_worlds + context.tile - 1) / context.tile, threads(context));
    }

    static bool was_stopped(const Context &context) { return context.watch != nullptr && context.watch->stop != 0; }

    // What a call returns that has gone through all worlds, or was stopped.
    static i64 result(const Context &context) {
        if (was_stopped(context)) return step_stopped;
        return *context.fault_flag ? step_faults : step_done;
    }

    static i64 step(const Context &context) {
        auto tile = [](const Context &own, i32 first, i32 last) { Worlds<Program>::step(own, first, last); };
        for_tiles(context, tile);
        return result(context);
    }

    static i64 reset(const Context &context, const u8 *mask) {
        auto tile = [&](const Context &own, i32 first, i32 last) { Worlds<Program>::reset(own, mask, first, last); };
        for_tiles(context, tile);
        return result(context);
    }

    // Actions ----------------------------------------------------------------------------------------------------

    // Whether the agent's action counts: those that take no part may do anything.
    static inline bool acts([[maybe_unused]] const Context &context, [[maybe_unused]] i64 row) {
        if constexpr (Context::agents_may_be_inactive) {
            return Context::agent_is_active(context, i32(row));
        } else {
            return true;
        }
    }

    // Number of illegal elements is counted, not branched on, so that the loop vectorises.
    template <class Source>
    [[gnu::noinline]] static bool all_legal(const Context &context, const Source *source, i64 first, i64 last) {
        const i64 width = context.action_width;
        u64 illegal = 0;
        if (width == 1) {
            const ActionBounds bounds = context.action_bounds[0];
            for (i64 i = first; i < last; ++i) {
                illegal |= u64(!action_is_legal(source[i], bounds) & acts(context, i));
            }
        } else {
            for (i64 i = first; i < last; ++i) {
                illegal |= u64(!action_is_legal(source[i], context.action_bounds[i % width]) & acts(context, i / width));
            }
        }
        return illegal == 0;
    }

    // Checks all actions. Returns the index of the first element that is not allowed, -1 if all are.
    template <class Source>
    static i64 find_illegal(const Context &context, const Source *source) {
        constexpr i64 block = 4096;
        const i64 count = i64(context.num_worlds) * Program::agents_per_world * context.action_width;
        i64 refused = count;  // start of the first block with an illegal element
        auto check = [&](i32 index, u32) {
            const i64 first = index * block;
            if (all_legal(context, source, first, min(first + block, count))) return;
            i64 seen = __atomic_load_n(&refused, __ATOMIC_SEQ_CST);
            while (first < seen && !__atomic_compare_exchange_n(&refused, &seen, first, true, __ATOMIC_SEQ_CST,
                                                                __ATOMIC_SEQ_CST)) {}
        };
        // Below this many blocks waking a thread costs more than it saves.
        const i32 blocks = i32((count + block - 1) / block);
        for_each(context.share_out, check, blocks, blocks < 4 ? Threads{1, 1} : threads(context));
        i64 element = refused;
        if (element == count) return -1;
        while (all_legal(context, source, element, element + 1)) ++element;
        return element;
    }

    // Writes the actions of rows [first, last) into their column, for agents that take no part an idle one.
    template <class Source>
    static void write_or_idle(const Context &context, const Source *source, i64 first, i64 last) {
        using Column = typename Context::ActionElement;
        Column *const column = Context::action_column(context);
        const i64 width = context.action_width;
        for (i64 i = 0; i < width; ++i) {
            const Column idle = Column(idle_action(context.action_bounds[i]));
#pragma GCC ivdep
            for (i64 row = first; row < last; ++row) {
                const i64 element = row * width + i;
                column[element] = acts(context, row) ? Column(source[element]) : idle;
            }
        }
    }

    // Checks all actions and, only if all are legal, steps: each tile first writes its actions into the column.
    struct ActAndStep {
        const Context &context;
        const void *source_pointer;

        template <class Source>
        i64 visit() const {
            using Column = typename Context::ActionElement;
            if constexpr (action_types_fit<Source, Column>) {
                const Source *const source = static_cast<const Source *>(source_pointer);
                Column *const column = Context::action_column(context);
                const i64 illegal = find_illegal(context, source);
                if (illegal >= 0) return illegal;
                const bool in_place = source_pointer == static_cast<const void *>(column);
                const i64 per_world = i64(Program::agents_per_world) * context.action_width;
                auto tile = [&](const Context &own, i32 first, i32 last) {
                    if constexpr (Context::agents_may_be_inactive) {
                        const TraceSpan span(true);
                        const i64 agents = Program::agents_per_world;
                        write_or_idle(context, source, first * agents, last * agents);
                        span.end(context.trace, Program::Number::write_actions, u32(first / context.tile));
                    } else if (!in_place) {
                        const TraceSpan span(true);
#pragma GCC ivdep
                        for (i64 i = first * per_world; i < last * per_world; ++i) column[i] = Column(source[i]);
                        span.end(context.trace, Program::Number::write_actions, u32(first / context.tile));
                    }
                    Worlds<Program>::step(own, first, last);
                };
                for_tiles(context, tile);
                return result(context);
            }
            return step_closer_look;  // the host refuses such types before
        }
    };

    static i64 act_and_step(const Context &context, const void *source, i32 type) {
        return with_element_type(ElementType(type), ActAndStep{context, source});
    }
};

}  // namespace tbs::executors
