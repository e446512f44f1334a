// A uniform grid over the rows of a table: which of them lie near a place, in their order.
//
// Rows are kept as strings of bits, one for each column and one for each line of cells: row i is bit i in the string of
// the column and of the line in which it lies. The rows in the cells that a box touches are then those of its columns
// and of its lines: a few words or-ed and and-ed, and their bits are the rows in ascending order. Nothing is sorted or
// counted, lanes build words of their own without atomics, and no cell can be full.
//
// Beyond the numbers that the options allow the grid is only slower: rows that it does not hold are near everything.
#pragma once

// The column or line of a coordinate. Where one coordinate is greater than another, so is its cell or it is the same,
// rounding included: so no row of a box is missed. Coordinates outside, and NaN, belong to a cell at the edge.
TBS_FUNCTION u32 cell_of(f32 coordinate, f32 edge, u32 cells) {
    const f32 place = (coordinate - edge) * Constants::cells_per_unit;
    if (!(place > 0.0f)) return 0;
    return place < f32(cells) ? u32(place) : cells - 1;
}

// Puts `count` rows into the grid, row i at place(i) with fields x and y. Call it before `near`, in a system that takes
// Warp & or Block & once per world; again when rows have moved, come or gone.
template <class Group, class Place>
TBS_FUNCTION void build(Cells &cells, u32 count, Group &group, Place &&place) {
    const u32 all = (count + 31) / 32, most = u32(Constants::words);
    const u32 words = count < u32(Constants::least) ? 0 : all < most ? all : most;
    group.once([&] {
        cells.count = count;
        cells.words = words;
    });
    const auto column_of = [&](u32 i) { return cell_of(place(i).x, Constants::left, u32(Constants::columns)); };
    const auto line_of = [&](u32 i) { return cell_of(place(i).y, Constants::bottom, u32(Constants::lines)); };
    if constexpr (Group::group_threads == 1) {
        for (u32 word = 0; word < words; ++word) {
            for (u32 c = 0; c < u32(Constants::columns); ++c) cells.column[word][c] = 0;
            for (u32 l = 0; l < u32(Constants::lines); ++l) cells.line[word][l] = 0;
        }
        for (u32 i = 0; i < count && i < 32 * words; ++i) {
            cells.column[i / 32][column_of(i)] |= 1u << i % 32;
            cells.line[i / 32][line_of(i)] |= 1u << i % 32;
        }
    } else {
        // Each lane looks at all rows of a word, as the others do at the same time, for the column or line of its item.
        const u32 columns = u32(Constants::columns), strings = columns + u32(Constants::lines);
        group.for_each(words * strings, [&](u32 item) {
            const u32 word = item / strings, string = item % strings, first = 32 * word;
            u32 bits = 0;
            for (u32 k = 0; k < 32 && first + k < count; ++k) {
                const u32 own = string < columns ? column_of(first + k) : columns + line_of(first + k);
                bits |= u32(own == string) << k;
            }
            (string < columns ? cells.column[word][string] : cells.line[word][string - columns]) = bits;
        });
    }
}

// The rows in the cells that a box touches, in ascending order: `for (const u32 i : near(...))`.
struct Near {
    const Cells &cells;
    u32 count, words;                              // rows there are; words of rows that the grid holds
    u32 left, right, bottom, top;                  // the cells of the box, these included

    // Bit k is whether row 32 * word + k is among them.
    TBS_METHOD u32 bits(u32 word) const {
        if (word >= words) return 32 * word + 32 <= count ? ~0u : (1u << (count - 32 * word)) - 1;
        u32 in_columns = 0, in_lines = 0;
        for (u32 c = left; c <= right; ++c) in_columns |= cells.column[word][c];
        for (u32 l = bottom; l <= top; ++l) in_lines |= cells.line[word][l];
        return in_columns & in_lines;
    }

    struct End {};
    struct Iterator {
        const Near &near;
        u32 first, left;  // the row of bit 0; bits of rows to come

        TBS_METHOD u32 operator*() const { return first + lowest_bit(left); }
        TBS_METHOD bool operator!=(End) const { return left != 0; }
        TBS_METHOD void operator++() {
            left &= left - 1;
            skip();
        }
        // Goes to the next word with rows.
        TBS_METHOD void skip() {
            while (left == 0 && first + 32 < near.count) {
                first += 32;
                left = near.bits(first / 32);
            }
        }
    };
    TBS_METHOD Iterator begin() const {
        Iterator found{*this, 0, count > 0 ? bits(0) : 0};
        found.skip();
        return found;
    }
    TBS_METHOD End end() const { return End{}; }
};

// All rows with abs(x' - x) <= reach && abs(y' - y) <= reach, or dx * dx + dy * dy <= reach * reach, in f32, and some
// others: test each. If `count`, the present number of rows, differs from that of `build`, it is the fault `stale`, and
// all rows are near.
TBS_FUNCTION Near near(World &world, const Cells &cells, u32 count, f32 x, f32 y, f32 reach) {
    const bool stale = count != cells.count;
    if (stale) world.fail(Fault::stale, i32(count));
    const f32 size = abs(reach), r = size * 1.000001f + 1e-18f;  // more than the rounding of such tests
    const bool all = stale || !(size < 1e18f);                     // whose square is finite
    if (all || cells.words == 0) return {cells, count, 0, 0, 0, 0, 0};
    const u32 columns = u32(Constants::columns), lines = u32(Constants::lines);
    return {cells, count, cells.words,
            cell_of(x - r, Constants::left, columns), cell_of(x + r, Constants::left, columns),
            cell_of(y - r, Constants::bottom, lines), cell_of(y + r, Constants::bottom, lines)};
}

// For systems on several lanes: calls take(i, before) for each row of `near` with condition(i), `before` the number of
// such rows before it; returns their number. All lanes must reach it.
template <class Group, class Condition, class Take>
TBS_FUNCTION u32 scan(const Near &near, Group &group, Condition &&condition, Take &&take) {
    u32 found = 0;
    if constexpr (Group::group_threads == 1) {
        if (near.words == 0) {  // few rows: as fast as without a grid
            for (u32 i = 0; i < near.count; ++i) {
                if (condition(i)) take(i, found++);
            }
            return found;
        }
        for (const u32 i : near) {
            if (condition(i)) take(i, found++);
        }
    } else {
        for (u32 first = 0; first < near.count; first += 32) {
            const u32 bits = near.bits(first / 32);
            if (bits == 0) continue;  // on all lanes
            const auto is_one = [&](u32 k) { return (bits >> k & 1) != 0 && condition(first + k); };
            found += group.scan(
                32, [&](u32 k) { return is_one(k) ? 1u : 0u; },
                [&](u32 k, u32 before) {
                    if (is_one(k)) take(first + k, found + before);
                });
        }
    }
    return found;
}
