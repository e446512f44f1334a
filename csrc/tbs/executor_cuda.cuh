// The CUDA executors: groups of tasks, a persistent megakernel, or a thread for each world. All walk the schedule of
// schedule.h on the caller's stream; nothing is read back and nothing is allocated on the device, so a step may be captured
// into a CUDA graph.
//
// Worlds do not depend on each other, so no barrier of the whole grid is needed between tasks: a block takes a tile of
// worlds through all tasks of a kernel, with barriers of its own between them.
#pragma once
#include <cstring>

#include "launch.cuh"
#include "team.cuh"
#include "trace.h"

namespace tbs::executors {

// To the byte, padding included: contexts are compared as bytes.
template <class Context>
Context copy_of(const Context &given) {
    Context context;
    std::memcpy(static_cast<void *>(&context), &given, sizeof given);
    return context;
}

#ifndef TBS_ALONE
// Tiles ----------------------------------------------------------------------------------------------------------

struct TileMemory {
    u32 claimed;
    u32 beginning_count;
    i32 beginning[max_tile];
};

template <class Context>
TBS_DEVICE Team team_of_tile(const Context &context, u32 tile) {
    const i32 first = i32(tile) * context.tile;
    const i32 last = first + context.tile < context.num_worlds ? first + context.tile : context.num_worlds;
    return {threadIdx.x, blockDim.x, first, last, nullptr, 0};
}

template <class Context>
TBS_DEVICE Team team_of_grid(const Context &context) {
    return {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, 0, context.num_worlds, nullptr, 0};
}

// Where a block is in the schedule. The team of a run is made out for each anew, so that between runs next to nothing is in
// registers, of which rows in the midst of a megakernel want all. `claims`: its tile is the one that it has claimed, not
// that of its number.
template <bool claims>
struct Place {
    bool together = false;  // all blocks go through the tasks with each other
    bool listed = false;    // the worlds of the tile that begin an episode are
    u32 repetition = 0;     // of the loops in which the block is
};

template <bool claims, class Context>
TBS_DEVICE Team team_at(const Place<claims> &place, const Context &context, const TileMemory &memory) {
    Team team = claims && place.together ? team_of_grid(context)
                                         : team_of_tile(context, claims ? memory.claimed : blockIdx.x);
    team.repetition = place.repetition;
    return team;
}

// Lists the worlds of a tile that begin an episode, so that the few of them fill warps: without, nearly every warp would
// go through `start` for the one or two of its worlds that do.
template <class Context>
TBS_DEVICE void list_beginning(const Context &context, const Team &team, TileMemory &memory) {
    if (team.rank == 0) memory.beginning_count = 0;
    __syncthreads();
    for (i32 world = team.first + i32(team.rank); world < team.last; world += i32(team.size)) {
        if (context.phase[world] == u8(Phase::begin)) {
            memory.beginning[atomicAdd(&memory.beginning_count, 1u)] = world;  // in any order
        }
    }
    __syncthreads();
}

// Barrier of the block, or of the grid where all blocks go through the tasks together.
TBS_DEVICE void sync(bool together) {
    if (together) {
        sync_grid();
    } else {
        __syncthreads();
    }
}

template <class Cells, class... Task, bool claims, class Context>
TBS_DEVICE void walk_part(Run<Cells, Task...> run, const Context &context, Place<claims> &place, TileMemory &memory) {
    if (!any_active(run, context)) return;
    using Leader = typename Run<Cells, Task...>::Leader;
    Team team = team_at(place, context, memory);
    if constexpr (by_list<Leader>) {
        if (!place.together) {
            if (!place.listed) list_beginning(context, team, memory);
            place.listed = true;
            team.beginning = memory.beginning;
            team.beginning_count = memory.beginning_count;
        }
    }
    const TraceSpan span(threadIdx.x == 0);
    run_tasks(run, context, team);
    sync(place.together);
    span.end(context.trace, Leader::number, place.together ? blockIdx.x : u32(team.first / context.tile));
}

template <u32 times, class... Part, bool claims, class Context>
TBS_DEVICE void walk_part(Loop<times, Part...> loop, const Context &context, Place<claims> &place, TileMemory &memory) {
    if (!any_active(loop, context)) return;
    walk_loop(loop, place.repetition, [&](auto part) { walk_part(part, context, place, memory); });
}

template <u32 blocks, Shape shape, class... R, bool claims, class Context>
TBS_DEVICE void walk(Group<blocks, shape, R...>, const Context &context, Place<claims> place, TileMemory &memory) {
    (walk_part(R{}, context, place, memory), ...);
}

template <class Group, class Context>
__global__ void __launch_bounds__(block_threads, Group::blocks_per_multiprocessor)
tile_kernel(const __grid_constant__ Context context) {
    TBS_SHARED(TileMemory, memory);
    walk(Group{}, context, Place<false>{}, memory);
}

// How a run that is spread is launched. Systems on lanes, which are long as a rule, have room for 16 warps on a
// multiprocessor: 128 registers a thread. Workspace on chip has as much room there, if it is no more than 14 KB a warp
// (torch_batchsim/base/shared.py); then the warps of a block can go through a long system together (lineup.h).
template <class Node>
struct Spread {
    static constexpr u32 threads = block_threads, blocks = 0;
    static constexpr bool lines_up = false;
};
template <class Node>
    requires(!settles<Node> && Node::lanes > 1)
struct Spread<Node> {
    static constexpr u32 threads = block_threads, blocks = 2;
    static constexpr bool lines_up = Node::lanes == 32 && requires { requires Node::chip_bytes > 0; };
};
template <class G>
struct SpreadOf;
template <u32 its_blocks, Shape shape, class Cells, class First, class... Rest>
struct SpreadOf<Group<its_blocks, shape, Run<Cells, First, Rest...>>> {
    using Of = Spread<typename First::Node>;
    static constexpr u32 threads = Of::threads;
    static constexpr u32 blocks = its_blocks > Of::blocks ? its_blocks : Of::blocks;

    // Fewer warps where a block has less on chip.
    template <class Context>
    static u32 threads_on(const Context &context) {
        if constexpr (Of::lines_up) {
            const u32 fit = u32(context.chip_bytes) / First::Node::chip_bytes;
            if (fit > 0 && fit < threads / 32) return fit * 32;
        }
        return threads;
    }
};

// One run, without barriers unless it is on several lanes.
template <u32 blocks, Shape shape, class R, class Context>
TBS_DEVICE void run_spread(Group<blocks, shape, R>, const Context &context) {
    const TraceSpan span(threadIdx.x == 0);
    Team team = team_of_grid(context);
    if constexpr (Spread<typename R::Leader::Node>::lines_up) {
        TBS_SHARED(Lineup, lineup);
        lineup.begin(blockDim.x / 32);
        team.lineup = &lineup;
        run_tasks(R{}, context, team);
        lineup.leave();
    } else {
        run_tasks(R{}, context, team);
    }
#ifdef TBS_TRACE
    __syncthreads();
#endif
    span.end(context.trace, R::Leader::number, blockIdx.x);
}

template <class Group, class Context>
__global__ void __launch_bounds__(SpreadOf<Group>::threads, SpreadOf<Group>::blocks)
spread_kernel(const __grid_constant__ Context context) {
    run_spread(Group{}, context);
}

// Persistent blocks that claim tiles from a counter and take each through the whole schedule. Where there are fewer
// worlds than blocks, all blocks go through the tasks together, each with a share of the rows, as in the paper (5.3).
template <class Group, class Context>
__global__ void __launch_bounds__(block_threads, Group::blocks_per_multiprocessor)
mega_kernel(const __grid_constant__ Context context, const bool together) {
    TBS_SHARED(TileMemory, memory);
    for (bool goes_on = true; goes_on; goes_on = !together) {  // one call of walk: its code is all of the program's
        if (!together) {
            if (threadIdx.x == 0) memory.claimed = atomicAdd(&context.queue[0], 1u);
            __syncthreads();
            const u32 tile = memory.claimed;
            if (tile * u32(context.tile) >= u32(context.num_worlds)) break;
        }
        // Ends with a barrier, before the next claim overwrites this one.
        walk(Group{}, context, Place<true>{together}, memory);
    }
    if (together) return;
    // The last block to leave readies the counters for the next launch.
    if (threadIdx.x == 0 && atomicAdd(&context.queue[1], 1u) == gridDim.x - 1) {
        atomicExch(&context.queue[0], 0u);
        atomicExch(&context.queue[1], 0u);
    }
}

// Threads loop over what is beyond: numbers of threads are 32 bits, and more than these are on no device at once.
inline u32 blocks_for(i64 threads, u32 threads_of_block) {
    const i64 most = i64{1} << 30;
    return u32(((threads < most ? threads : most) + threads_of_block - 1) / threads_of_block);
}

// Whether all code of this unit takes workspace on chip for granted. On another device than it was compiled for, with
// less on chip, its launches then fail.
constexpr bool needs_whole_chip() {
    bool all = false;
#ifdef __CUDA_ARCH_LIST__
    all = true;
    for (const u32 architecture : {__CUDA_ARCH_LIST__}) all = all && has_whole_chip(architecture);
#endif
    return all;
}

// Bytes on chip of a block of so many threads for the workspace of a task, of the largest of several: 0 where it has none
// there, or may not have so much.
template <class Task, class Context>
u32 chip_of(Task, const Context &context, u32 threads) {
    if constexpr (requires { Task::Node::chip_bytes; }) {
        const u32 bytes = threads / Task::Node::lanes * Task::Node::chip_bytes;
        return needs_whole_chip() || bytes <= u32(context.chip_bytes) ? bytes : 0;
    } else {
        return 0;
    }
}
template <class Context, class... Part>
u32 most_chip_of(const Context &context, u32 threads, Part... parts) {
    u32 most = 0;
    for (const u32 bytes : {chip_of(parts, context, threads)...}) most = bytes > most ? bytes : most;
    return most;
}
template <class Cells, class... Task, class Context>
u32 chip_of(Run<Cells, Task...>, const Context &context, u32 threads) {
    return most_chip_of(context, threads, Task{}...);
}
template <u32 times, class... Part, class Context>
u32 chip_of(Loop<times, Part...>, const Context &context, u32 threads) {
    return most_chip_of(context, threads, Part{}...);
}
template <u32 blocks, Shape shape, class... R, class Context>
u32 chip_of(Group<blocks, shape, R...>, const Context &context, u32 threads) {
    return most_chip_of(context, threads, R{}...);
}

// Threads that a run can use.
template <class Cells, class First, class... Rest, class Context>
i64 threads_of(Run<Cells, First, Rest...>, const Context &context) {
    using Node = typename First::Node;
    i64 items = i64(context.num_worlds) * Node::rows_per_world;
    if constexpr (settles<Node>) {
        return items * (settles_by_warp<Node>(context) ? 32 : 256);
    } else if constexpr (is_flat<Node>) {
        return items;
    } else {
        if constexpr (Node::table >= 0) items = context.tables[Node::table].slots;
        if constexpr (takes_worlds<Node>) items = (items + worlds_of_group<Node>(context) - 1) / worlds_of_group<Node>(context);
        return items * Node::lanes;
    }
}

template <u32 blocks, Shape shape, class... R, class Context>
bool any_active(Group<blocks, shape, R...>, const Context &context) {
    return (any_active(R{}, context) || ...);
}

template <class G, class Context>
constexpr auto kernel_of_group() {
    if constexpr (G::shape == Shape::tile) {
        return tile_kernel<G, Context>;
    } else {
        return spread_kernel<G, Context>;
    }
}

template <u32 blocks, Shape shape, class... R, class Context>
void launch_group(Group<blocks, shape, R...> group, const Context &context, ChipAllowance &allowance, Stream stream) {
    if (!any_active(group, context)) return;
    const auto kernel = kernel_of_group<Group<blocks, shape, R...>, Context>();
    u32 count, threads = block_threads;
    if constexpr (shape == Shape::tile) {
        count = u32((context.num_worlds + context.tile - 1) / context.tile);
    } else {
        static_assert(sizeof...(R) == 1, "only one run can be spread: there is no barrier of the grid");
        threads = SpreadOf<Group<blocks, shape, R...>>::threads_on(context);
        count = blocks_for((threads_of(R{}, context) + ...), threads);
    }
    const u32 chip = chip_of(group, context, threads);
    allowance.allow(kernel, chip);
    launch_together(kernel, count, threads, chip, stream, context);
}

template <class... G, class Context>
void launch_groups(Groups<G...>, [[maybe_unused]] const Context &context, [[maybe_unused]] ChipAllowance &allowance,
                   [[maybe_unused]] Stream stream) {
    (launch_group(G{}, context, allowance, stream), ...);
}

// A kernel for each group. Repeated steps are replayed as one CUDA graph, but for the first kernel: only that reads the
// actions, which lie elsewhere in each step.
template <class Program>
struct GraphExecutor {
    using Context = typename Program::Context;
    using StepGroups = typename Program::StepGroups;
    template <class G>
    static constexpr auto kernel_of() { return kernel_of_group<G, Context>(); }

    GraphCache cache;
    ChipAllowance allowance;

    i64 step(const Context &context, Stream stream) {
        return run(StepGroups{}, context, stream);
    }

    template <class First, class... Rest>
    i64 run(Groups<First, Rest...>, const Context &context, Stream stream) {
        launch_group(First{}, context, allowance, stream);
        if constexpr (sizeof...(Rest) == 1) launch_groups(Groups<Rest...>{}, context, allowance, stream);
        if constexpr (sizeof...(Rest) > 1) {
            Context others = copy_of(context);
            others.action_source = nullptr;
            others.action_type = 0;
            const auto launches = [&](Stream on) { launch_groups(Groups<Rest...>{}, others, allowance, on); };
            return cache.run(&others, sizeof others, stream, launches);
        }
        return last_error();
    }

    i64 reset(const Context &context, Stream stream) {
        launch_groups(typename Program::ResetGroups{}, context, allowance, stream);
        return last_error();
    }
};

template <class Program>
struct MegakernelExecutor {
    using Context = typename Program::Context;
    using StepGroups = typename Program::StepGroups;
    template <class G>
    static constexpr auto kernel_of() { return mega_kernel<G, Context>; }

    template <class G>
    i64 run(Groups<G>, Resident &resident, const Context &context, Stream stream) {
        const auto kernel = mega_kernel<G, Context>;
        const u32 chip = chip_of(G{}, context, block_threads);
        allowance.allow(kernel, chip);
        const u32 most = resident.blocks(kernel, block_threads, chip, context.device);
        const u32 tiles = u32((context.num_worlds + context.tile - 1) / context.tile);
        const bool together = context.together != 0;
        launch_resident(kernel, together || most < tiles ? most : tiles, block_threads, chip, together, stream,
                        context, together);
        return last_error();
    }

    i64 step(const Context &context, Stream stream) {
        return run(StepGroups{}, of_step, context, stream);
    }
    i64 reset(const Context &context, Stream stream) {
        return run(typename Program::ResetGroups{}, of_reset, context, stream);
    }

    Resident of_step, of_reset;
    ChipAllowance allowance;
};
#else
// One thread for each world runs everything: the paper's ECS-GPU. Groups of lanes are that one thread.
template <class Cells, class... Task, class Context>
TBS_DEVICE void walk_part(Run<Cells, Task...> run, const Context &context, Team &team) {
    if (!any_active(run, context)) return;
    const TraceSpan span(threadIdx.x % 32 == 0);
    run_tasks(run, context, team);
    span.end(context.trace, Run<Cells, Task...>::Leader::number, blockIdx.x);
}

template <u32 times, class... Part, class Context>
TBS_DEVICE void walk_part(Loop<times, Part...> loop, const Context &context, Team &team) {
    if (!any_active(loop, context)) return;
    walk_loop(loop, team.repetition, [&](auto part) { walk_part(part, context, team); });
}

template <u32 blocks, Shape shape, class... R, class Context>
TBS_DEVICE void walk_alone(Group<blocks, shape, R...>, const Context &context, Team team) {
    (walk_part(R{}, context, team), ...);
}

template <class Group, class Context>
__global__ void __launch_bounds__(block_threads, Group::blocks_per_multiprocessor)
world_kernel(const __grid_constant__ Context context) {
    const i32 world = i32(blockIdx.x * blockDim.x + threadIdx.x);
    if (world < context.num_worlds) walk_alone(Group{}, context, {0, 1, world, world + 1, nullptr, 0});
}

template <class Program>
struct PerWorldExecutor {
    using Context = typename Program::Context;
    using StepGroups = typename Program::StepGroups;
    template <class G>
    static constexpr auto kernel_of() { return world_kernel<G, Context>; }

    template <class G>
    i64 run(Groups<G>, const Context &context, Stream stream) {
        const u32 blocks = (u32(context.num_worlds) + block_threads - 1) / block_threads;
        launch(world_kernel<G, Context>, blocks, block_threads, stream, context);
        return last_error();
    }

    i64 step(const Context &context, Stream stream) { return run(StepGroups{}, context, stream); }
    i64 reset(const Context &context, Stream stream) { return run(typename Program::ResetGroups{}, context, stream); }
};
#endif

// Registers of a thread in the largest of the kernels of some groups.
template <class Executor, class... G>
u32 registers_of(Groups<G...>) {
    u32 most = 0;
    for (const u32 registers : {registers_of_kernel(Executor::template kernel_of<G>())...}) {
        most = registers > most ? registers : most;
    }
    return most;
}

inline i64 cuda_result(i64 error) { return error == 0 ? step_done : step_cuda_error - error; }

// What the C interface calls: the calls of the executor with their arguments in the context.
template <class Executor, class Context>
struct CudaCalls {
    Executor executor;

    static i64 registers() { return registers_of<Executor>(typename Executor::StepGroups{}); }

    i64 step(const Context &context, Stream stream) { return cuda_result(executor.step(context, stream)); }

    i64 reset(const Context &given, const u8 *mask, Stream stream) {
        Context context = copy_of(given);
        context.mask = mask;
        return cuda_result(executor.reset(context, stream));
    }

    i64 act_and_step(const Context &given, const void *source, i32 type, Stream stream) {
        Context context = copy_of(given);
        context.action_source = source;
        context.action_type = type;
        return cuda_result(executor.step(context, stream));
    }
};

}  // namespace tbs::executors
