// The step and the reset as lists of tasks: what the CUDA executors walk. torch_batchsim/resolve/schedule.py writes the lists.
#pragma once
#include "actions.h"
#include "engine.h"

namespace tbs::executors {

// Which worlds a task runs for, by the world's entry in context.phase.
enum class Phase : u8 { rest = 0, live = 1, begin = 2, all = 255 };

// In which runs of the schedule a task has a part: the same for all worlds.
enum class When : u8 {
    always,
    acts,        // actions were given
    same_step,   // Autoreset::same_step
    keeps_final, // ... and final values are kept
    apart,       // the other modes: worlds that have ended do not step
    begins,      // worlds may begin an episode: not with Autoreset::disabled
};

// `number`: its place in the schedule, for traces.
template <class N, Phase its_phase, When its_when, u32 its_number>
struct Task {
    using Node = N;
    static constexpr Phase phase = its_phase;
    static constexpr When when = its_when;
    static constexpr u32 number = its_number;
};

// Tasks that a thread runs one after the other for the same row, with no barrier between. `Cells`: what it has in registers
// meanwhile; of one task that is not flat, NoCells.
struct NoCells {};
template <class Cells, class First, class... Rest>
struct Run {
    using Leader = First;
};

// Runs, and loops of them (engine.h), in one kernel. `blocks_per_multiprocessor`: the least number of blocks that must
// fit on a multiprocessor at a time, which bounds the registers of a thread.
enum class Shape : u8 {
    tile,    // a block takes a tile of worlds through all runs
    spread,  // the rows of all worlds are spread over all blocks; one run only, in no loop
};
template <u32 blocks, Shape its_shape, class... R>
struct Group {
    static constexpr u32 blocks_per_multiprocessor = blocks;
    static constexpr Shape shape = its_shape;
};

template <class... G>
struct Groups {};

template <class Context>
TBS_FUNCTION bool is_active(const Context &context, When when) {
    const bool same_step = context.autoreset == Autoreset::same_step;
    switch (when) {
        case When::acts: return context.action_source != nullptr;
        case When::same_step: return same_step;
        case When::keeps_final: return same_step && context.keep_final != 0;
        case When::apart: return !same_step;
        case When::begins: return context.autoreset != Autoreset::disabled;
        default: return true;
    }
}

// Nodes that only these executors need. ----------------------------------------------------------------------------

// Chooses what each world does in this step, before it.
struct ChoosePhase {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &context, const Cells &cells, i32 world) {
        const bool apart = context.autoreset != Autoreset::same_step && cells.ended[world] != 0;
        const Phase otherwise = context.autoreset == Autoreset::next_step ? Phase::begin : Phase::rest;
        cells.phase[world] = u8(apart ? otherwise : Phase::live);
    }
};

// After it: with SAME_STEP the worlds that have ended begin anew at once.
struct ChooseBeginAfterStep {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &, const Cells &cells, i32 world) {
        cells.phase[world] = u8(cells.ended[world] != 0 ? Phase::begin : Phase::live);
    }
};

// What each world does in a reset.
struct ChooseMasked {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &context, const Cells &cells, i32 world) {
        cells.phase[world] = u8(context.mask[world] ? Phase::begin : Phase::rest);
    }
};

// Casts an agent's actions into their column. An illegal one is a fault of its world and counts as the lowest legal one:
// systems see legal actions only. Those of agents that take no part may be anything, and are not taken over.
template <class Element, i32 agents_per_world, u32 fault_node>
struct WriteActions {
    static constexpr i32 rows_per_world = agents_per_world;
    static constexpr bool in_cells = true;

    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &context, const Cells &cells, i32 row) {
        switch (ElementType(context.action_type)) {
            case ElementType::u8: return write<u8>(context, cells, row);
            case ElementType::i8: return write<i8>(context, cells, row);
            case ElementType::i16: return write<i16>(context, cells, row);
            case ElementType::i32: return write<i32>(context, cells, row);
            case ElementType::i64: return write<i64>(context, cells, row);
            case ElementType::boolean: return write<u8>(context, cells, row);
            case ElementType::f32: return write<f32>(context, cells, row);
            case ElementType::f64: return write<f64>(context, cells, row);
        }
    }

  private:
    template <class Source, class Context, class Cells>
    static TBS_METHOD void write(const Context &context, const Cells &cells, i32 row) {
        if constexpr (action_types_fit<Source, Element>) {  // other types are refused by the host before
            const Source *const source = static_cast<const Source *>(context.action_source);
            if constexpr (Context::agents_may_be_inactive) {
                if (!Context::agent_is_active(context, row)) return idle(context, cells, row);
            }
            Element *const taken = Context::action_of(context, cells, row);
            for_each_element<Context>([&](u32 i) {
                const Source value = source[i64(row) * Context::action_width + i];
                const ActionBounds bounds = context.action_bounds[i];
                const bool legal = action_is_legal(value, bounds);
                if (!legal) {
                    report_fault(&context.fault[row / agents_per_world], context.fault_flag,
                                 fault_word(fault_node, u32(row % agents_per_world), fault_bad_action, i32(value)));
                }
                taken[i] = legal ? Element(value) : Element(bounds.low);
            });
        }
    }

    template <class Context, class Cells>
    static TBS_METHOD void idle(const Context &context, const Cells &cells, i32 row) {
        Element *const taken = Context::action_of(context, cells, row);
        for_each_element<Context>([&](u32 i) { taken[i] = Element(idle_action(context.action_bounds[i])); });
    }

    // Unrolled where the elements may be in a cell: registers have no index.
    template <class Context, class Body>
    static TBS_METHOD void for_each_element(Body &&body) {
        if constexpr (Context::action_width <= 16) {
            TBS_UNROLL
            for (u32 i = 0; i < Context::action_width; ++i) body(i);
        } else {
            for (u32 i = 0; i < Context::action_width; ++i) body(i);
        }
    }
};

}  // namespace tbs::executors
