// What the executors share: the words of the engine and the nodes that it adds around an author's systems.
#pragma once
#include <type_traits>

#include "fault.h"
#include "platform.h"
#include "worlds.h"

namespace tbs {

// A node is one of two kinds. A flat one has `rows_per_world` and run(context, row), row = world * rows_per_world + k:
// its rows may be run in any order, several at once. The other kind is over a dynamic table, or on several lanes, or
// creates and destroys. It has run(context, rows of a world, k[, group of lanes]), `table` (the dynamic table's index, or
// -1), `rows_per_world` (of a fixed table), `lanes`, and `creates`.
template <class... Node>
struct Nodes {};

template <class Node, class = void>
constexpr bool is_flat = true;
template <class Node>
constexpr bool is_flat<Node, std::void_t<decltype(Node::lanes)>> = false;

// Whether a node is in a loop: then run() has the number of the repetition as its last argument.
template <class Node, class = void>
constexpr bool is_repeated = false;
template <class Node>
constexpr bool is_repeated<Node, std::void_t<decltype(Node::is_repeated)>> = true;

// Whether a flat node draws from random(): then it has `random_key`, and run() may have the first block as its last
// argument.
template <class Node, class = void>
constexpr bool draws = false;
template <class Node>
constexpr bool draws<Node, std::void_t<decltype(Node::random_key)>> = true;

// Whether a flat node is run(context, cells, row): what it names of `cells` is a column of the context, or what a thread
// has of it in registers (CUDA, see torch_batchsim/build/cells.py).
template <class Node, class = void>
constexpr bool is_in_cells = false;
template <class Node>
constexpr bool is_in_cells<Node, std::void_t<decltype(Node::in_cells)>> = true;

// A row of a column in registers, which stands for the column: every index means this row.
template <class Value>
struct Cell {
    mutable Value value{};
    bool written = false;

    TBS_METHOD Value &operator[](i32) const { return value; }
};

// Whether a node settles a dynamic table (settle.h).
template <class Node, class = void>
constexpr bool settles = false;
template <class Node>
constexpr bool settles<Node, std::void_t<typename Node::Settled>> = true;

// Whether a node that is not flat is run for several worlds at a time: then it has `worlds`, how many at most, and
// run(context, pack of worlds, group of lanes).
template <class Node, class = void>
constexpr bool takes_worlds = false;
template <class Node>
constexpr bool takes_worlds<Node, std::void_t<decltype(Node::worlds)>> = true;

// The rows of a world for which a node runs. Looked up before the loop over them: for all a compiler knows, the system
// may write their number.
struct NodeRows {
    i32 world;
    i32 first;  // in the columns
    i32 count;
};

template <class Node, class Context>
TBS_FUNCTION NodeRows rows_of(const Context &context, i32 world) {
    if constexpr (Node::table >= 0) {
        return {world, context.tables[Node::table].first[world], context.tables[Node::table].count[world]};
    } else {
        return {world, world * Node::rows_per_world, Node::rows_per_world};
    }
}

namespace executors {

// Among nodes, or runs of them: these are done `times` times, one after the other. Loops may be nested.
template <u32 times, class... Entry>
struct Loop {};

// Runs a flat node for a row, through cells or with the columns of the context; one that draws also with its first block.
template <class Node, class Context, class Cells, class... Drawn>
TBS_FUNCTION void call_node(const Context &context, [[maybe_unused]] const Cells &cells, [[maybe_unused]] u32 repetition,
                            i32 row, const Drawn *...drawn) {
    if constexpr (!is_in_cells<Node>) {
        Node::run(context, row, drawn...);
    } else if constexpr (is_repeated<Node>) {
        Node::run(context, cells, row, repetition, drawn...);
    } else {
        Node::run(context, cells, row, drawn...);
    }
}

template <class Node, class Context, class... Drawn>
TBS_FUNCTION void call_node(const Context &context, u32 repetition, i32 row, const Drawn *...drawn) {
    call_node<Node>(context, context, repetition, row, drawn...);
}

// Runs another node for a row of a world, on a group of lanes if it asks for one.
template <class Node, class Context, class... Group>
TBS_FUNCTION void call_node(const Context &context, [[maybe_unused]] u32 repetition, NodeRows rows, i32 index,
                            Group &...group) {
    if constexpr (is_repeated<Node>) {
        Node::run(context, rows, index, group..., repetition);
    } else {
        Node::run(context, rows, index, group...);
    }
}

// Runs a node for several worlds.
template <class Node, class Context, class Group>
TBS_FUNCTION void call_node(const Context &context, [[maybe_unused]] u32 repetition, const WorldPack<Node::worlds> &pack,
                            Group &group) {
    if constexpr (is_repeated<Node>) {
        Node::run(context, pack, group, repetition);
    } else {
        Node::run(context, pack, group);
    }
}

}  // namespace executors

// Bookkeeping, once per world. ------------------------------------------------------------------------------------

struct CountStep {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &, const Cells &cells, i32 world) {
        cells.step[world] += 1;
        cells.terminated[world] = 0;
        cells.truncated[world] = 0;
    }
};

// `ended` keeps the flags of the last step, for the outputs may be bound elsewhere by the next one.
struct NoteEnd {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &, const Cells &cells, i32 world) {
        const u8 ended = u8(cells.terminated[world] | cells.truncated[world] << 1);
        cells.ended[world] = ended;
    }
};

struct RepeatFlags {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &, const Cells &cells, i32 world) {
        cells.terminated[world] = cells.ended[world] & 1;
        cells.truncated[world] = cells.ended[world] >> 1;
    }
};

struct ClearFlags {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &, const Cells &cells, i32 world) {
        cells.terminated[world] = 0;
        cells.truncated[world] = 0;
    }
};

// Rows of the vector environment: each agent shows the flags of its world, and its own where `own_ends`. Then
// Context::agent_end(cells, row) has these.
template <i32 agents_per_world, bool own_ends = false>
struct DeliverFlags {
    static constexpr i32 rows_per_world = agents_per_world;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &context, const Cells &cells, i32 row) {
        const i32 world = row / agents_per_world;
        u8 terminated = cells.terminated[world], truncated = cells.truncated[world];
        if constexpr (own_ends) {
            const auto end = Context::agent_end(cells, row);
            terminated |= u8(end.terminated);
            truncated |= u8(end.truncated);
        }
        if constexpr (agents_per_world > 1 || own_ends) {
            context.agent_terminated[row] = terminated;
            context.agent_truncated[row] = truncated;
        }
        context.agent_done[row] = terminated | truncated;
    }
};

// Whether an agent ends while its world goes on. After a step with SAME_STEP the flags of worlds that have begun anew
// still show their ends.
template <i32 agents_per_world, class Context, class Cells>
TBS_FUNCTION bool ends_of_its_own(const Context &, const Cells &cells, i32 row) {
    const i32 world = row / agents_per_world;
    const auto end = Context::agent_end(cells, row);
    return (end.terminated | end.truncated) != 0 && (cells.terminated[world] | cells.truncated[world]) == 0;
}

struct BeginEpisode {
    static constexpr i32 rows_per_world = 1;
    static constexpr bool in_cells = true;
    template <class Context, class Cells>
    static TBS_METHOD void run(const Context &, const Cells &cells, i32 world) {
        cells.episode[world] += 1;  // seeding sets it to the last number, so that the first episode is 0
        cells.step[world] = 0;
        cells.ended[world] = 0;
    }
};

// Values that a world holds in all its episodes (Simulator.hold): the bytes of `values` with `mask` set. Both are null
// until something is held. In memory the loop stays one: it seldom runs, and unrolled it would take registers and code
// from the node beside it; in registers, which have no index, it is unrolled.
template <bool in_memory, class Component>
TBS_METHOD void restore_held(Component &place, const Component *values, const Component *mask, i32 row) {
    if (mask == nullptr) return;
    const unsigned char *const from = reinterpret_cast<const unsigned char *>(values + row);
    const unsigned char *const held = reinterpret_cast<const unsigned char *>(mask + row);
    if constexpr (in_memory) {
        unsigned char *const to = reinterpret_cast<unsigned char *>(&place);
#ifdef __CUDACC__
#pragma unroll 1
#endif
        for (u32 i = 0; i < sizeof(Component); ++i) to[i] = (unsigned char)((to[i] & ~held[i]) | (from[i] & held[i]));
    } else {
        Component made = place;
        unsigned char *const to = reinterpret_cast<unsigned char *>(&made);
        for (u32 i = 0; i < sizeof(Component); ++i) to[i] = (unsigned char)((to[i] & ~held[i]) | (from[i] & held[i]));
        place = made;
    }
}

}  // namespace tbs
