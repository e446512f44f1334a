// The CUDA executor: one kernel per node on the caller's stream. Nothing is read back and nothing is allocated, so a
// step may be captured into a CUDA graph.
#pragma once
#include "actions.h"
#include "engine.h"
#include "launch.cuh"
#include "settle.h"

namespace tbs {

// Which worlds a kernel runs for, by the world's entry in context.phase.
enum class Phase : u8 { rest = 0, live = 1, begin = 2, all = 255 };

template <class Context>
TBS_METHOD bool runs(const Context &context, i32 world, Phase phase) {
    return phase == Phase::all || context.phase[world] == u8(phase);
}

// Thread `row` of a flat node.
template <class Node, class Context>
__global__ void node_kernel(const Context context, const Phase phase) {
    const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    const i64 world = row / Node::rows_per_world;
    if (world < context.num_worlds && runs(context, i32(world), phase)) Node::run(context, i32(row));
}

// What item `item` of a node that is not flat stands for: row `index` of `rows`, if it `runs`. Of a dynamic table the
// items are its slots: how many rows each world has is known on the device alone.
struct NodeItem {
    NodeRows rows;
    i32 index;
    bool runs;
};

template <class Node, class Context>
TBS_METHOD NodeItem item_of(const Context &context, i64 item, Phase phase) {
    i64 world;
    if constexpr (Node::table >= 0) {
        const DynamicTable &table = context.tables[Node::table];
        if (item >= table.slots) return {};
        world = table.world[item];
    } else {
        world = item / Node::rows_per_world;
        if (world >= context.num_worlds) return {};
    }
    const NodeRows rows = rows_of<Node>(context, i32(world));
    const i32 index = i32(item - rows.first);
    return {rows, index, index < rows.count && runs(context, rows.world, phase)};
}

template <class Node, class Context>
__global__ void row_kernel(const Context context, const Phase phase) {
    const NodeItem item = item_of<Node>(context, i64(blockIdx.x) * blockDim.x + threadIdx.x, phase);
    if (item.runs) Node::run(context, item.rows, item.index);
}

// The lanes of a group agree on the row, and so leave together.
template <class Node, class Context>
__global__ void lanes_kernel(const Context context, const Phase phase) {
    using Group = Lanes<Node::lanes>;
    const i64 thread = i64(blockIdx.x) * Group::threads_per_block + threadIdx.x;
    const NodeItem item = item_of<Node>(context, thread / Group::lanes, phase);
    if (!item.runs) return;
    Group group;
    Node::run(context, item.rows, item.index, group);
}

template <class Node, class Group, class Context>
__global__ void settle_kernel(const Context context) {
    const i64 world = (i64(blockIdx.x) * Group::threads_per_block + threadIdx.x) / Group::lanes;
    if (world >= context.num_worlds) return;
    Group group;
    Node::run(context, i32(world), group);
}

// Chooses what each world does in this step, before it.
struct ChoosePhase {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        const bool apart = context.autoreset != Autoreset::same_step && context.ended[world] != 0;
        const Phase otherwise = context.autoreset == Autoreset::next_step ? Phase::begin : Phase::rest;
        context.phase[world] = u8(apart ? otherwise : Phase::live);
    }
};

// After it: with SAME_STEP the worlds that have ended begin anew at once.
struct ChooseBeginAfterStep {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        if (context.autoreset == Autoreset::same_step) {
            context.phase[world] = u8(context.ended[world] != 0 ? Phase::begin : Phase::live);
        }
    }
};

template <class Context>
__global__ void choose_masked_kernel(const Context context, const u8 *mask) {
    const i32 world = i32(blockIdx.x * blockDim.x + threadIdx.x);
    if (world < context.num_worlds) context.phase[world] = u8(mask[world] ? Phase::begin : Phase::rest);
}

// An illegal action is a fault of its world and counts as the lowest legal one: systems see legal actions only.
template <class Program, class Source, class Context>
__global__ void action_kernel(const Context context, const Source *source) {
    const i32 row = i32(blockIdx.x * blockDim.x + threadIdx.x);
    const i32 world = row / Program::agents_per_world;
    if (world >= context.num_worlds) return;
    using Column = typename Program::ActionElement;
    Column *const column = reinterpret_cast<Column *>(Program::action_column(context));
    for (i32 i = 0; i < context.action_width; ++i) {
        const i64 element = i64(row) * context.action_width + i;
        const Source value = source[element];
        const ActionBounds bounds = context.action_bounds[i];
        const bool legal = action_is_legal(value, bounds);
        if (!legal) {
            report_fault(&context.fault[world], context.fault_flag,
                         fault_word(Program::action_node, u32(row % Program::agents_per_world), 0, i32(value)));
        }
        column[element] = legal ? Column(value) : Column(bounds.low);
    }
}

template <class Program>
struct CudaExecutor {
    using Context = typename Program::Context;
    static constexpr u32 block = 256;

    static u32 blocks(i64 rows) { return u32((rows + block - 1) / block); }

    template <class Node>
    static void run(const Context &context, Phase phase, Stream stream) {
        if constexpr (settles<Node>) {
            // A warp is enough for worlds of few rows.
            const i64 slots = context.tables[Node::Settled::table].slots;
            if (slots <= i64{512} * context.num_worlds) {
                settle<Node, Warp>(context, stream);
            } else {
                settle<Node, Block>(context, stream);
            }
        } else if constexpr (is_flat<Node>) {
            const i64 rows = i64(context.num_worlds) * Node::rows_per_world;
            launch(node_kernel<Node, Context>, blocks(rows), block, stream, context, phase);
        } else {
            i64 items = i64(context.num_worlds) * Node::rows_per_world;
            if constexpr (Node::table >= 0) items = context.tables[Node::table].slots;
            if constexpr (Node::lanes > 1) {
                launch_together(lanes_kernel<Node, Context>, blocks(items * Node::lanes), block, stream, context,
                                phase);
            } else {
                launch(row_kernel<Node, Context>, blocks(items), block, stream, context, phase);
            }
        }
    }

    template <class Node, class Group>
    static void settle(const Context &context, Stream stream) {
        launch_together(settle_kernel<Node, Group, Context>, blocks(i64(context.num_worlds) * Group::lanes), block,
                        stream, context);
    }

    template <class... Node>
    static void run_all(Nodes<Node...>, const Context &context, [[maybe_unused]] Phase phase,
                        [[maybe_unused]] Stream stream) {
        (run<Node>(context, phase, stream), ...);
    }

    static void begin(const Context &context, Stream stream) {
        run_all(typename Program::Begin{}, context, Phase::begin, stream);
        run_all(typename Program::Start{}, context, Phase::begin, stream);
    }

    static i64 step(const Context &context, Stream stream) {
        const bool same_step = context.autoreset == Autoreset::same_step;
        run_all(Nodes<ChoosePhase>{}, context, Phase::all, stream);
        run_all(typename Program::BeforeStep{}, context, Phase::live, stream);
        run_all(typename Program::Step{}, context, Phase::live, stream);
        run_all(typename Program::AfterStep{}, context, Phase::live, stream);
        if (same_step) {
            run_all(Nodes<ChooseBeginAfterStep>{}, context, Phase::all, stream);
            if (context.keep_final) {
                run_all(typename Program::Observe{}, context, Phase::begin, stream);
                run_all(typename Program::KeepFinal{}, context, Phase::begin, stream);
            }
        } else {
            run_all(typename Program::Hold{}, context, Phase::rest, stream);
            run_all(typename Program::ClearOutputs{}, context, Phase::begin, stream);
        }
        if (context.autoreset != Autoreset::disabled) begin(context, stream);
        run_all(typename Program::Observe{}, context, Phase::all, stream);
        run_all(typename Program::Deliver{}, context, Phase::all, stream);
        return last_error();
    }

    static i64 reset(const Context &context, const u8 *mask, Stream stream) {
        launch(choose_masked_kernel<Context>, blocks(context.num_worlds), block, stream, context, mask);
        run_all(typename Program::ClearOutputs{}, context, Phase::begin, stream);
        begin(context, stream);
        run_all(typename Program::Observe{}, context, Phase::begin, stream);
        run_all(typename Program::Deliver{}, context, Phase::begin, stream);
        return last_error();
    }

    struct WriteActions {
        const Context &context;
        const void *source;
        Stream stream;

        template <class Source>
        void visit() const {
            if constexpr (action_types_fit<Source, typename Program::ActionElement>) {
                const i64 rows = i64(context.num_worlds) * Program::agents_per_world;
                launch(action_kernel<Program, Source, Context>, blocks(rows), block, stream, context,
                       static_cast<const Source *>(source));
            }  // other types are refused by the host before
        }
    };

    static i64 act_and_step(const Context &context, const void *source, i32 type, Stream stream) {
        with_element_type(ElementType(type), WriteActions{context, source, stream});
        const i64 error = step(context, stream);
        return error != 0 ? error : -1;
    }
};

}  // namespace tbs
