// Settling: what brings a dynamic table back in order after a node that creates or destroys rows. See table.h.
#pragma once
#include <algorithm>

#include "lanes.h"
#include "table.h"

namespace tbs {

// The generated code defines for_each_column(context, Archetype *, visitor), which calls visitor(column) for the column
// of each component.

template <class Archetype, class Context>
TBS_FUNCTION void swap_rows(const Context &context, i32 a, i32 b) {
    const auto swap = [a, b](auto *column) {
        const auto kept = column[a];
        column[a] = column[b];
        column[b] = kept;
    };
    swap(context.tables[Archetype::table].birth);
    for_each_column(context, static_cast<Archetype *>(nullptr), swap);
}

// One thread ---------------------------------------------------------------------------------------------------------

// Takes the marked rows out of the first `count` rows of a world; returns how many stay.
template <class Archetype, class Context>
inline u32 take_out_marked(const Context &context, const DynamicTable &table, i32 first, u32 count) {
    constexpr u32 chunk = 256;
    u8 *const doomed = table.doomed + first;
    u32 kept = 0;
    while (kept < count && !doomed[kept]) ++kept;
    for (u32 begin = kept; begin < count; begin += chunk) {
        u32 staying[chunk], stay = 0;
        const u32 end = begin + chunk < count ? begin + chunk : count;
        for (u32 row = begin; row < end; ++row) {
            staying[stay] = row;
            stay += doomed[row] == 0;
            doomed[row] = 0;
        }
        const auto move_up = [&](auto *column) {
            auto *const rows = column + first;
            for (u32 i = 0; i < stay; ++i) rows[kept + i] = rows[staying[i]];
        };
        move_up(table.birth);
        for_each_column(context, static_cast<Archetype *>(nullptr), move_up);
        kept += stay;
    }
    return kept;
}

// Several lanes ------------------------------------------------------------------------------------------------------

// Puts the `added` rows from slot `first` in the order of their birth: a bitonic network of rising comparisons only, so
// that rows beyond the end need not be there.
template <class Archetype, class Context, class Group>
TBS_FUNCTION void sort_added(const Context &context, const DynamicTable &table, i32 first, u32 added, Group &group) {
    const Birth *const birth = table.birth + first;
    const auto exchange = [&](u32 low, u32 high) {
        if (low < high && high < added && birth[high] < birth[low]) {
            swap_rows<Archetype>(context, first + i32(low), first + i32(high));
        }
    };
    for (u32 width = 2; width / 2 < added; width *= 2) {
        group.for_each(added, [&](u32 i) { exchange(i, i ^ (width - 1)); });
        for (u32 distance = width / 4; distance > 0; distance /= 2) {
            group.for_each(added, [&](u32 i) { exchange(i, i ^ distance); });
        }
    }
}

// Chunk by chunk: all lanes read a row, then all write it further up, where every row has been read before.
template <class Archetype, class Context, class Group>
TBS_FUNCTION u32 take_out_marked(const Context &context, const DynamicTable &table, i32 first, u32 count,
                                 Group &group) {
    u8 *const doomed = table.doomed + first;
    u32 kept = 0;
    for (u32 begin = 0; begin < count; begin += Group::lanes) {
        const u32 width = count - begin < Group::lanes ? count - begin : Group::lanes;
        u32 target = no_row;
        const u32 stay = group.scan(width, [&](u32 i) { return doomed[begin + i] ? 0u : 1u; },
                                    [&](u32 i, u32 before) { if (!doomed[begin + i]) target = kept + before; });
        const u32 own = begin + group.first_lane();
        const auto move_up = [&](auto *column) {
            auto *const rows = column + first;
            const auto value = rows[own < count ? own : begin];
            group.sync();
            if (target != no_row) rows[target] = value;
            group.sync();
        };
        if (stay < width || kept < begin) {
            move_up(table.birth);
            for_each_column(context, static_cast<Archetype *>(nullptr), move_up);
        }
        if (own < count) doomed[own] = 0;
        kept += stay;
    }
    return kept;
}

// Node ---------------------------------------------------------------------------------------------------------------

// Follows node `node`, once per world. `sorted`: one thread has created the new rows in order.
template <class Archetype, u32 node, u32 fault_code, bool sorted>
struct Settle {
    static constexpr i32 rows_per_world = 1;
    using Settled = Archetype;  // tells the CUDA executor to run it on several lanes

    template <class Context>
    static inline void run(const Context &context, i32 world) {
        const DynamicTable &table = context.tables[Archetype::table];
        if (table.added[world] == 0 && table.marked[world] == 0) return;
        const i32 first = table.first[world];
        u32 count = u32(table.count[world]);
        const u32 added = accept_added(context, table, u32(world), node, fault_code);
        if (!sorted && !std::is_sorted(table.birth + first + count, table.birth + first + count + added)) {
            Warp warp;
            sort_added<Archetype>(context, table, first + i32(count), added, warp);
        }
        count += added;
        if (table.marked[world]) {
            table.marked[world] = 0;
            count = take_out_marked<Archetype>(context, table, first, count);
        }
        table.count[world] = i32(count);
    }

    template <class Context, class Group>
    static TBS_METHOD void run(const Context &context, i32 world, Group &group) {
        const DynamicTable &table = context.tables[Archetype::table];
        const bool marked = table.marked[world] != 0;
        if (table.added[world] == 0 && !marked) return;
        const i32 first = table.first[world];
        u32 count = u32(table.count[world]);
        Accepted &accepted = group.template shared<Accepted>();
        group.once([&] {
            accepted.rows = accept_added(context, table, u32(world), node, fault_code);
            table.marked[world] = 0;
        });
        const u32 added = accepted.rows;
        sort_added<Archetype>(context, table, first + i32(count), added, group);
        count += added;
        if (marked) count = take_out_marked<Archetype>(context, table, first, count, group);
        group.once([&] { table.count[world] = i32(count); });
    }

  private:
    struct Accepted {
        u32 rows;
    };
};

// Empties tables of a world: all when an episode begins, ephemeral ones before each step.
template <class... Archetype>
struct EmptyTables {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        ((context.tables[Archetype::table].count[world] = 0), ...);
    }
};

// Entities of the episode before become those of another world.
struct BeginEntities {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        const u64 own = mix_key(mix_key(context.seed[world], context.stream[world]), context.episode[world]);
        context.tag[world] = u32(own >> 32);
        context.tick[world] = first_tick;
    }
};

}  // namespace tbs
