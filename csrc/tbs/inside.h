// Runs one node at a time for the worlds of a mask: what Simulator.run and its likes call. A unit of its own (TBS_INSIDE),
// built when it is first needed, so that others have no code for it. It is made of the words of the executors `per_world`.
#pragma once
#include "engine.h"

#ifdef TBS_ALONE
#include "executor_cuda.cuh"
#else
#include "executor_cpu.h"
#endif

namespace tbs::executors {

#ifdef TBS_ALONE
template <class Node, class Context>
TBS_DEVICE void run_inside(const Context &context, u32 repetition, i32 world) {
    if constexpr (is_elementwise<Node>) {
        const i32 row = world * Node::rows_per_world;
        for (i32 k = 0; k < Node::rows_per_world; ++k) call_node<Node>(context, repetition, row + k);
    } else {
        using Only = executors::Task<Node, Phase::all, When::always, 0>;
        run_tasks(Run<NoCells, Only>{}, context, Team{0, 1, world, world + 1, nullptr, 0, repetition});
    }
}
#else
#define TBS_DEVICE inline
template <class Node, class Context>
inline void run_inside(const Context &context, u32 repetition, i32 world) {
    if constexpr (is_checked<Node>) {
        run_checked<Node>(context, repetition, 1, [&](i32) { return world; });
    } else if constexpr (is_flat<Node>) {
        const i32 row = world * Node::rows_per_world;
        for (i32 k = 0; k < Node::rows_per_world; ++k) call_node<Node>(context, repetition, row + k);
    } else {
        run_world<Node>(context, repetition, world);
    }
}
#endif

// Runs node `number` of the list for a world.
template <class Context, class... Node>
TBS_DEVICE void run_inside(Nodes<Node...>, const Context &context, u32 number, u32 repetition, i32 world) {
    u32 place = 0;
    ((place++ == number ? run_inside<Node>(context, repetition, world) : void()), ...);
}

#ifdef TBS_ALONE
template <class List, class Context>
__global__ void __launch_bounds__(block_threads)
inside_kernel(const __grid_constant__ Context context, const u32 number, const u32 repetition, const u8 *const mask) {
    const i32 world = i32(blockIdx.x * blockDim.x + threadIdx.x);
    if (world < context.num_worlds && mask[world] != 0) run_inside(List{}, context, number, repetition, world);
}

template <class List, class Context>
i64 run_masked(const Context &context, u32 number, u32 repetition, const u8 *mask, Stream stream) {
    const u32 blocks = (u32(context.num_worlds) + block_threads - 1) / block_threads;
    launch(inside_kernel<List, Context>, blocks, block_threads, stream, context, number, repetition, mask);
    return cuda_result(last_error());
}
#else
#undef TBS_DEVICE
template <class List, class Context>
i64 run_masked(const Context &context, u32 number, u32 repetition, const u8 *mask) {
    auto tile = [&](i32 index, u32 thread) {
        const i32 first = index * context.tile;
        const i32 last = min(first + context.tile, context.num_worlds);
        run_watched(context, thread, first, last, [&](const Context &own) {
            own.place->task = number;
            own.place->repetition = repetition;
            for (i32 world = first; world < last; ++world) {
                own.place->world = world;
                if (mask[world] != 0) run_inside(List{}, own, number, repetition, world);
            }
        });
    };
    const Watching watching(context.watch);
    const i32 tiles = (context.num_worlds + context.tile - 1) / context.tile;
    for_each(context.share_out, tile, tiles, Threads{context.num_threads, context.team});
    return context.watch != nullptr && context.watch->stop != 0 ? step_stopped : step_done;
}
#endif

}  // namespace tbs::executors
