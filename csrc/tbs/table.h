// Tables whose rows come and go, and the handles of their rows.
//
// All worlds share one table. Each world has a slice of its slots, with room for more rows than it has; its rows lie at
// the front of the slice, oldest first. A system that creates appends behind them, a system that destroys marks; before
// the next system runs, the engine settles each world that has changed: new rows are put in the order of their birth,
// marked ones are taken out, and the others move up. So between systems a world's rows are contiguous, and a system
// sees the rows that there were when it began.
#pragma once
#include "fault.h"
#include "platform.h"

namespace tbs {

// When a row was created. Births of a world are ordered as one thread would have created them, which is the order of
// its rows on every executor: by tick, which goes up whenever new rows of a table are settled in the world, then by
// order, the creating row's share of 2^32 numbers plus what that row had created before.
struct Birth {
    u32 tick;
    u32 order;

    TBS_METHOD bool operator<(Birth other) const {
        return tick != other.tick ? tick < other.tick : order < other.order;
    }
    TBS_METHOD bool operator==(Birth other) const { return tick == other.tick && order == other.order; }
};

// The handle of a row. It stays valid when rows move, and never means another row of its episode.
struct Entity {
    u32 tag;    // of world and episode: a hash of seed, stream and episode
    u32 table;  // from 1; 0: no entity
    Birth birth;

    TBS_METHOD bool operator==(Entity other) const {
        return tag == other.tag && table == other.table && birth == other.birth;
    }
    TBS_METHOD bool operator!=(Entity other) const { return !(*this == other); }
    TBS_METHOD explicit operator bool() const { return table != 0; }
};

// The result of index_of without a row.
constexpr u32 no_row = ~u32{0};
constexpr u32 first_tick = 1;  // rows of fixed archetypes have tick 0

struct DynamicTable {
    i32 slots;     // in all worlds
    i32 limit;     // of rows in one world, to which the host lets its slice grow
    i32 *first;    // [worlds + 1] the slice of a world: from its first slot to the next world's
    i32 *count;    // [worlds] rows
    u32 *added;    // [worlds] rows that systems have tried to create since the world was settled
    i32 *crowded;  // [worlds] rows wanted where that passes the high-water mark, else 0; for the host
    i32 *world;    // [slots] whose slot it is
    Birth *birth;  // [slots]
    u32 *doomed;   // [slots] the mark of rows to be taken out; as wide as most fields, for the sake of vectors

    TBS_METHOD u32 room(u32 of_world) const { return u32(first[of_world + 1] - first[of_world]); }
};

// Adds 1 and returns what was before. On a device several threads may run rows of one world.
TBS_FUNCTION u32 take_next(u32 *counter) {
#ifdef TBS_ON_DEVICE
    return atomicAdd(counter, 1u);
#else
    return (*counter)++;
#endif
}

// The row of `birth` among the rows of a world, which are sorted by it, or no_row.
TBS_FUNCTION u32 find_birth(const DynamicTable &table, u32 world, Birth birth) {
    const Birth *const births = table.birth + table.first[world];
    const u32 count = u32(table.count[world]);
    u32 low = 0;
    for (u32 length = count; length > 0;) {
        const u32 half = length / 2;
        const bool after = births[low + half] < birth;
        low = after ? low + half + 1 : low;
        length = after ? length - half - 1 : half;
    }
    return low < count && births[low] == birth ? low : no_row;
}

// The bits of an order that count what one of `rows` rows creates in one node; the bits above are the row.
TBS_FUNCTION u32 order_bits(u32 rows) {
    u32 bits = 32;
    for (u32 most = rows - 1; most > 0; most >>= 1) --bits;
    return bits;
}

// Settling a world begins with the number of new rows to keep, and a report if they are too many. Then it keeps none of
// them: which ones found room would depend on the order of threads.
template <class Context>
TBS_FUNCTION u32 accept_added(const Context &context, const DynamicTable &table, u32 world, u32 node, u32 fault_code) {
    const u32 added = table.added[world], count = u32(table.count[world]), room = table.room(world);
    table.added[world] = 0;
    if (added == 0) return 0;
    const u32 tick = context.tick[world] + 1;
    const bool fits = added <= room - count;
    if (!fits) report_fault(&context.fault[world], context.fault_flag, fault_word(node, 0, fault_code, i32(room)));
    if (tick == 0) {
        report_fault(&context.fault[world], context.fault_flag, fault_word(node, 0, fault_too_many_created, 0));
        return 0;
    }
    context.tick[world] = tick;
    if (count + added >= room - room / 4 && i32(room) < table.limit) {
        const u32 most = u32(table.limit), wanted = added < most ? count + added : most;
        if (i32(wanted) > table.crowded[world]) table.crowded[world] = i32(wanted);
        raise_flag(context.crowded_flag);
    }
    return fits ? added : 0;
}

}  // namespace tbs
