// Settling: what brings a dynamic table back in order after a node that creates or destroys rows. See table.h.
#pragma once
#include "lanes.h"
#include "table.h"
#include "x86.h"

namespace tbs {

// `Table` is the generated description of a dynamic table. Table::for_each_column(context, visitor) calls visitor(column)
// for the column of each component. Calls are qualified where arguments are of an author's types: no function of the
// author's is to be found by them.

template <class Table, class Context>
TBS_FUNCTION void swap_rows(const Context &context, i32 a, i32 b) {
    const auto swap = [a, b](auto *column) {
        const auto kept = column[a];
        column[a] = column[b];
        column[b] = kept;
    };
    swap(context.tables[Table::table].birth);
    Table::for_each_column(context, swap);
}

// One thread ---------------------------------------------------------------------------------------------------------

#if TBS_AVX512 && !defined(TBS_ON_DEVICE)
// Moves the rows of a column that stay (bit i of `staying`, of the 16 from `from`) up to `to`, as 32-bit words. Each
// vector is read before its place is written, which is not behind it.
template <u32 words>
inline void compress_words(u32 *to, const u32 *from, u32 staying) {
    static_assert(words <= 4);
    constexpr u64 first_of_row = words == 1 ? 0xffff : words == 2 ? 0x55555555 : words == 3 ? 0x249249249249 : 0x1111111111111111;
    const u64 staying_words = x86::deposited(staying, first_of_row) * ((1u << words) - 1);
    for (u32 vector = 0; vector < words; ++vector) {
        const u32 mask = u32(staying_words >> 16 * vector) & 0xffff;
        const u32 count = u32(__builtin_popcount(mask));
        x86::store(to, (1u << count) - 1, x86::compressed(mask, x86::load(mask, from + 16 * vector)));
        to += count;
    }
}

template <class Row>
constexpr bool compressible = sizeof(Row) % 4 == 0 && alignof(Row) >= 4 && sizeof(Row) <= 16;

constexpr u32 settle_chunk = 16;

// Bits of the rows that are not doomed, of `width` rows from `doomed`; clears their marks.
inline u32 take_marks(u32 *doomed, u32 width) {
    const u32 valid = (1u << width) - 1;
    const x86::Words marks = x86::load(valid, doomed);
    x86::store(doomed, valid, x86::Words{});
    return valid & ~x86::non_zero(marks);
}
#else
template <class Row>
constexpr bool compressible = false;

constexpr u32 settle_chunk = 32;

TBS_FUNCTION u32 take_marks(u32 *doomed, u32 width) {
    u32 staying = 0;
    for (u32 i = 0; i < width; ++i) {
        staying |= u32(doomed[i] == 0) << i;
        doomed[i] = 0;
    }
    return staying;
}

template <u32 words>
TBS_FUNCTION void compress_words(u32 *, const u32 *, u32) {}
#endif

TBS_FUNCTION constexpr u32 all_of(u32 width) { return width < 32 ? (1u << width) - 1 : ~0u; }

template <class Row>
TBS_FUNCTION void compress_rows(Row *to, const Row *from, u32 staying) {
    if constexpr (compressible<Row>) {
        compress_words<sizeof(Row) / 4>(reinterpret_cast<u32 *>(to), reinterpret_cast<const u32 *>(from), staying);
    } else {
        for (; staying != 0; staying &= staying - 1) *to++ = from[lowest_bit(staying)];
    }
}

// Takes the marked rows out of the first `count` rows of a world; returns how many stay.
template <class Table, class Context>
TBS_FUNCTION u32 take_out_marked(const Context &context, const DynamicTable &table, i32 first, u32 count) {
    u32 *const doomed = table.doomed + first;
    u32 kept = 0;
    for (u32 begin = 0; begin < count; begin += settle_chunk) {
        const u32 width = count - begin < settle_chunk ? count - begin : settle_chunk;
        const u32 staying = take_marks(doomed + begin, width);
        if (staying != all_of(width) || kept != begin) {
            const auto move_up = [&](auto *column) {
                tbs::compress_rows(column + first + kept, column + first + begin, staying);
            };
            move_up(table.birth);
            Table::for_each_column(context, move_up);
        }
        kept += count_bits(staying);
    }
    return kept;
}

// Several lanes ------------------------------------------------------------------------------------------------------

// Puts the `added` rows from slot `first` in the order of their birth: a bitonic network of rising comparisons only, so
// that rows beyond the end need not be there.
template <class Table, class Context, class Group>
TBS_FUNCTION void sort_added(const Context &context, const DynamicTable &table, i32 first, u32 added, Group &group) {
    const Birth *const birth = table.birth + first;
    const auto exchange = [&](u32 low, u32 high) {
        if (low < high && high < added && birth[high] < birth[low]) {
            swap_rows<Table>(context, first + i32(low), first + i32(high));
        }
    };
    if (group.all(added < 2 ? 0 : added - 1, [&](u32 i) { return birth[i] < birth[i + 1]; })) return;
    for (u32 width = 2; width / 2 < added; width *= 2) {
        group.for_each(added, [&](u32 i) { exchange(i, i ^ (width - 1)); });
        for (u32 distance = width / 4; distance > 0; distance /= 2) {
            group.for_each(added, [&](u32 i) { exchange(i, i ^ distance); });
        }
    }
}

// Chunk by chunk: all lanes read a row, then all write it further up, where every row has been read before.
template <class Table, class Context, class Group>
TBS_FUNCTION u32 take_out_marked(const Context &context, const DynamicTable &table, i32 first, u32 count,
                                 Group &group) {
    u32 *const doomed = table.doomed + first;
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
            Table::for_each_column(context, move_up);
        }
        if (own < count) doomed[own] = 0;
        kept += stay;
    }
    return kept;
}

// Node ---------------------------------------------------------------------------------------------------------------

// Follows node `node`, once per world. `creates`, `destroys`: what that node may do; `sorted`: one thread has created its
// rows in order.
template <class Table, u32 node, u32 fault_code, bool creates, bool destroys, bool sorted>
struct Settle {
    static constexpr i32 rows_per_world = 1;
    using Settled = Table;  // so that the CUDA executors may run it on several lanes

    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        const DynamicTable &table = context.tables[Table::table];
        const i32 first = table.first[world];
        u32 count = u32(table.count[world]);
        if (creates && table.added[world] != 0) {
            const u32 added = accept_added(context, table, u32(world), node, fault_code);
            if (!sorted) {
                Warp lanes;
                count += keep_distinct(context, table, world, count, added, lanes);
            } else {
                count += added;
            }
        }
        if (destroys) count = take_out_marked<Table>(context, table, first, count);
        table.count[world] = i32(count);
    }

    template <class Context, class Group>
    static TBS_METHOD void run(const Context &context, i32 world, Group &group) {
        const DynamicTable &table = context.tables[Table::table];
        const i32 first = table.first[world];
        u32 count = u32(table.count[world]);
        if (creates && table.added[world] != 0) {
            Accepted &accepted = group.template shared<Accepted>();
            group.once([&] { accepted.rows = accept_added(context, table, u32(world), node, fault_code); });
            count += keep_distinct(context, table, world, count, accepted.rows, group);
        }
        if (destroys) count = take_out_marked<Table>(context, table, first, count, group);
        group.once([&] { table.count[world] = i32(count); });
    }

  private:
    struct Accepted {
        u32 rows;
    };

    // Sorts the new rows; returns how many there are, 0 if two have the same birth: a system on several lanes has used
    // an order twice, and which of the two is meant would depend on the order of threads.
    template <class Context, class Group>
    static TBS_METHOD u32 keep_distinct(const Context &context, const DynamicTable &table, i32 world, u32 count,
                                        u32 added, Group &group) {
        sort_added<Table>(context, table, table.first[world] + i32(count), added, group);
        if (sorted || added < 2) return added;
        const Birth *const births = table.birth + table.first[world] + count;
        const u32 twice = group.count(added - 1, [&](u32 i) { return births[i] == births[i + 1]; });
        if (twice == 0) return added;
        group.once([&] {
            const u64 word = fault_word(node, 0, fault_order_used_twice, i32(twice));
            report_fault(&context.fault[world], context.fault_flag, word);
        });
        return 0;
    }
};

// Empties tables of a world: all when an episode begins, ephemeral ones before each step.
template <class... Table>
struct EmptyTables {
    static constexpr i32 rows_per_world = 1;
    template <class Context>
    static TBS_METHOD void run(const Context &context, i32 world) {
        ((context.tables[Table::table].count[world] = 0), ...);
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
