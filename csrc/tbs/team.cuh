// What a team of threads does with the tasks of the schedule (schedule.h): rows shared out among its threads, one after the
// other, on lanes, or listed. Barriers between tasks, and which worlds are a team's, are the executors' (executor_cuda.cuh).
#pragma once
#include "schedule.h"
#include "settle.h"

namespace tbs::executors {

// Threads that run a task together, and the worlds [first, last) for whose rows they do.
struct Team {
    u32 rank, size;
    i32 first, last;
    const i32 *beginning;  // the worlds among these that begin an episode, if they are listed
    u32 beginning_count;
    u32 repetition = 0;  // of the loops in which the team is
    Lineup *lineup = nullptr;
};

// Here a world may be settled by several threads.
template <class Node>
constexpr bool is_elementwise = is_flat<Node> && !settles<Node>;

template <class Context>
TBS_DEVICE bool runs(const Context &context, i32 world, Phase phase) {
    return phase == Phase::all || context.phase[world] == u8(phase);
}

// A flat task for a row, through the cells of its run.
template <class Task, bool listed, class Context, class Cells>
TBS_DEVICE void run_row(const Context &context, Cells &cells, u32 repetition, i32 row) {
    using Node = typename Task::Node;
    if (!is_active(context, Task::when)) return;
    if constexpr (!listed && Task::phase != Phase::all) {
        if (cells.phase[row / Node::rows_per_world] != u8(Task::phase)) return;
    }
    call_node<Node>(context, cells, repetition, row);
    cells.template note<Task::number>(context, row);
}

// Runs of flat nodes: a row's columns are read, gone through by all tasks in registers, and written.
template <bool listed, class Cells, class... Task, class Context>
TBS_DEVICE void run_cells(Run<Cells, Task...>, const Context &context, u32 repetition, i32 row) {
    Cells cells(context, row);
    (run_row<Task, listed>(context, cells, repetition, row), ...);
    cells.store(context, row);
}

template <class R, class Context>
TBS_DEVICE void run_flat(R run, const Context &context, const Team &team) {
    using Leader = typename R::Leader;
    constexpr u32 rows = u32(Leader::Node::rows_per_world);
    if (Leader::phase == Phase::begin && team.beginning != nullptr) {
        for (u32 i = team.rank; i < team.beginning_count * rows; i += team.size) {
            const u32 row = u32(team.beginning[i / rows]) * rows + i % rows;
            run_cells<true>(run, context, team.repetition, i32(row));
        }
    } else {
        for (u32 row = u32(team.first) * rows + team.rank; row < u32(team.last) * rows; row += team.size) {
            run_cells<false>(run, context, team.repetition, i32(row));
        }
    }
}

// Whether the rows of a task are those of worlds that begin an episode, which a tile lists.
template <class Task>
constexpr bool of_listed_worlds() {
    if constexpr (Task::phase != Phase::begin || settles<typename Task::Node>) {
        return false;
    } else if constexpr (is_flat<typename Task::Node>) {
        return true;
    } else {
        return Task::Node::table < 0;
    }
}
template <class Task>
constexpr bool by_list = of_listed_worlds<Task>();

// Runs a node that is not flat for a row, on the group of lanes to which the thread belongs.
template <class Node, class Context>
TBS_DEVICE void run_on_lanes(const Context &context, const Team &team, const NodeRows &rows, i32 index) {
    if constexpr (Node::lanes > 1) {
        Lanes<Node::lanes> group(team.lineup);
        call_node<Node>(context, team.repetition, rows, index, group);
    } else {
        call_node<Node>(context, team.repetition, rows, index);
    }
}

template <class Task, class Context>
TBS_DEVICE void run_listed_rows(const Context &context, const Team &team) {
    using Node = typename Task::Node;
    constexpr u32 threads = threads_of_lanes<Node::lanes>, rows = u32(Node::rows_per_world);
    for (u32 i = team.rank / threads; i < team.beginning_count * rows; i += team.size / threads) {
        const i32 world = team.beginning[i / rows];
        run_on_lanes<Node>(context, team, rows_of<Node>(context, world), i32(i % rows));
    }
}

// A node over a dynamic table, on several lanes, or that creates and destroys. Of a dynamic table the items are the slots
// of the worlds: how many of them are rows is read here.
template <class Task, class Context>
TBS_DEVICE void run_rows(const Context &context, const Team &team) {
    using Node = typename Task::Node;
    u32 first, last;
    if constexpr (Node::table >= 0) {
        const DynamicTable &table = context.tables[Node::table];
        first = u32(table.first[team.first]);
        last = u32(table.first[team.last]);
    } else {
        first = u32(team.first) * u32(Node::rows_per_world);
        last = u32(team.last) * u32(Node::rows_per_world);
    }
    if constexpr (by_list<Task>) {
        if (team.beginning != nullptr) return run_listed_rows<Task>(context, team);
    }
    // The lanes of a group agree on the item, and so stay together.
    constexpr u32 threads = threads_of_lanes<Node::lanes>;
    for (u32 item = first + team.rank / threads; item < last; item += team.size / threads) {
        i32 world;
        if constexpr (Node::table >= 0) {
            world = context.tables[Node::table].world[item];
        } else {
            world = i32(item / u32(Node::rows_per_world));
        }
        const NodeRows rows = rows_of<Node>(context, world);
        const i32 index = i32(item) - rows.first;
        if (index >= rows.count || !runs(context, world, Task::phase)) continue;
        run_on_lanes<Node>(context, team, rows, index);
    }
}

// So many groups of lanes a large device runs at once: where a system takes several worlds, each group takes as few as
// that allows. No result depends on it.
#ifdef TBS_EMULATED_CUDA
inline constexpr i32 one_wave = 3;
#else
inline constexpr i32 one_wave = 128 * 16;
#endif

// The worlds that a group of lanes takes at a time.
template <class Node, class Context>
TBS_FUNCTION u32 worlds_of_group(const Context &context) {
    const u32 fewest = u32((i64{context.num_worlds} + one_wave - 1) / one_wave);
    return fewest < Node::worlds ? fewest : Node::worlds;
}

// A node that takes several worlds: a group of lanes has some of the team's at a time, of those that run.
template <class Task, class Context>
TBS_DEVICE void run_packs(const Context &context, const Team &team) {
    using Node = typename Task::Node;
    constexpr u32 threads = threads_of_lanes<Node::lanes>, most = Node::worlds;
    const bool listed = by_list<Task> && team.beginning != nullptr;
    const u32 first = listed ? 0 : u32(team.first), last = listed ? team.beginning_count : u32(team.last);
#ifdef TBS_CHECKS
    constexpr u32 together = 1;  // so that what is wrong is that of one world
#else
    const u32 groups = team.size / threads, share = (last - first + groups - 1) / groups;
    const u32 together = min(max(share, 1u), worlds_of_group<Node>(context));  // so no group of a tile is idle
#endif
    for (u32 begin = first + team.rank / threads * together; begin < last; begin += team.size / threads * together) {
        WorldPack<most> pack;
        TBS_UNROLL
        for (u32 i = begin; i < begin + together; ++i) {
            const i32 world = i >= last ? -1 : listed ? team.beginning[i] : i32(i);
            if (world >= 0 && (listed || runs(context, world, Task::phase))) pack.add(world);
        }
        if (pack.count == 0) continue;
        Lanes<Node::lanes> group(team.lineup);
        call_node<Node>(context, team.repetition, pack, group);
    }
}

template <class Node, class Group, class Context>
TBS_DEVICE void settle_worlds(const Context &context, const Team &team) {
    // Unsigned: a stride beyond the last world may pass 2^31.
    for (u32 world = u32(team.first) + team.rank / Group::group_threads; world < u32(team.last);
         world += team.size / Group::group_threads) {
        if constexpr (Group::group_threads > 1) {
            Group group;
            Node::run(context, i32(world), group);
        } else {
            Node::run(context, i32(world));
        }
    }
}

// A warp is enough to settle worlds of few rows.
template <class Node, class Context>
TBS_FUNCTION bool settles_by_warp(const Context &context) {
    return context.tables[Node::Settled::table].slots <= i64{512} * context.num_worlds;
}

template <class Cells, class First, class... Rest, class Context>
TBS_DEVICE void run_tasks(Run<Cells, First, Rest...> run, const Context &context, const Team &team) {
    using Node = typename First::Node;
    if constexpr (is_elementwise<Node>) {
        run_flat(run, context, team);
    } else {
        static_assert(sizeof...(Rest) == 0, "a run of several tasks is one of flat nodes");
        if (!is_active(context, First::when)) return;
        if constexpr (takes_worlds<Node>) {
            run_packs<First>(context, team);
        } else if constexpr (!settles<Node>) {
            run_rows<First>(context, team);
        } else if (settles_by_warp<Node>(context)) {
            settle_worlds<Node, Warp>(context, team);
        } else {
            settle_worlds<Node, Block>(context, team);
        }
    }
}

template <class Cells, class... Task, class Context>
TBS_FUNCTION bool any_active(Run<Cells, Task...>, const Context &context) {
    return (is_active(context, Task::when) || ...);
}

template <u32 times, class... Part, class Context>
TBS_FUNCTION bool any_active(Loop<times, Part...>, const Context &context) {
    return (any_active(Part{}, context) || ...);
}

// Calls walk_part(part) for each part of a loop, as often as it says.
template <u32 times, class... Part, class Walk>
TBS_DEVICE void walk_loop(Loop<times, Part...>, u32 &repetition, Walk &&walk_part) {
    const u32 before = repetition;
    TBS_NO_UNROLL
    for (u32 i = 0; i < times; ++i) {
        repetition = before * times + i;
        (walk_part(Part{}), ...);
    }
    repetition = before;
}

}  // namespace tbs::executors
