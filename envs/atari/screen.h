// From pictures of indices to what agents see: colours, greys, the brighter of two frames, 84 x 84, a stack of those.
//
// A picture has `lines` lines of 160 bytes. `shades` are red, green, blue and grey of its 256 indices, in one palette.
// Sums are integers, so that every executor has the same bits.

#include "eight.h"

constexpr u32 COLUMNS = 160, SMALL = 84;
constexpr u32 GREY = 3;
#ifdef TBS_ON_DEVICE
constexpr bool ALONE = false;
#else
constexpr bool ALONE = true;  // one thread is all lanes
#endif

using Shade = u8[4];

// Both pictures of a step are shown where `first` and `last` differ: the brighter one, channel by channel.
template <class Group>
TBS_FUNCTION void show_rgb(const u8 *first, const u8 *last, const Shade *shades, u32 lines, u8 *to, Group &group) {
    group.for_each(lines * COLUMNS, [&](u32 i) {
        for (u32 channel = 0; channel < 3; ++channel) {
            to[3 * i + channel] = max(shades[first[i]][channel], shades[last[i]][channel]);
        }
    });
}

template <class Group>
TBS_FUNCTION void show_grey(const u8 *first, const u8 *last, const Shade *shades, u32 lines, u8 *to, Group &group) {
    group.for_each(lines * COLUMNS, [&](u32 i) { to[i] = max(shades[first[i]][GREY], shades[last[i]][GREY]); });
}

// 84 x 84 ------------------------------------------------------------------------------------------------------------
// Each small pixel is the mean of the area under it. A column counts by 21ths: a small one covers 40 of them, parts of
// up to three columns. A line counts by 84ths: a small one covers as many as there are lines.

constexpr u32 WIDE = 40, NARROW = 21;  // the pattern of 21 small columns over 40 repeats four times

struct Shrinking {
    u8 greys[256];             // by index
    alignas(8) u8 line[COLUMNS];  // the greys of a line
    u16 sums[COLUMNS + 2];  // of a small row's lines, by their weights; means at the last columns read two too many
    u32 weights[3][COLUMNS];  // of a column and the two behind it in a small one that begins in it, if any does
    u8 means[COLUMNS];      // of these
};

TBS_FUNCTION bool same_lines(const u8 *one, const u8 *other) {
    u8 differ = 0;
    for (u32 i = 0; i < COLUMNS; ++i) differ = u8(differ | (one[i] ^ other[i]));
    return differ == 0;
}

// One thread looks up a colour at a time, so it saves those that are as in the line before, or the same in both
// pictures. On many lanes comparing would cost more.
template <class Group>
TBS_FUNCTION void look_up(Shrinking &work, const u8 *one, const u8 *two, bool begins, Group &group) {
    if (!ALONE) {
        group.for_each(COLUMNS, [&](u32 i) { work.line[i] = max(work.greys[one[i]], work.greys[two[i]]); });
        return;
    }
    const u8 *one_above = begins ? one : one - COLUMNS, *two_above = begins ? two : two - COLUMNS;
    for (u32 first = 0; first < COLUMNS; first += 8) {
        u64 a = load_eight(one + first), b = load_eight(two + first);
        if (!begins && a == load_eight(one_above + first) && b == load_eight(two_above + first)) continue;
        u64 found = 0;
        TBS_UNROLL
        for (u32 i = 0; i < 8; ++i) found |= u64{work.greys[a >> 8 * i & 0xFF]} << (8 * i);
        if (a != b) {
            for (u32 i = 0; i < 8; ++i) work.line[first + i] = max(u8(found >> (8 * i)), work.greys[b >> 8 * i & 0xFF]);
        } else {
            store_eight(work.line + first, found);
        }
    }
}

template <class Group>
TBS_FUNCTION void shrink(const u8 *first, const u8 *last, const Shade *shades, u32 lines, u8 *to, Group &group) {
    Shrinking &work = group.template shared<Shrinking>();
    group.for_each(256, [&](u32 i) { work.greys[i] = shades[i][GREY]; });
    group.for_each(COLUMNS, [&](u32 i) { work.weights[0][i] = work.weights[1][i] = work.weights[2][i] = 0; });
    group.for_each(SMALL, [&](u32 i) {
        const u32 column = WIDE * i / NARROW;
        const u32 one = NARROW - WIDE * i % NARROW, two = min(WIDE - one, NARROW);
        work.weights[0][column] = one;
        work.weights[1][column] = two;
        work.weights[2][column] = WIDE - one - two;
    });
    group.for_each(COLUMNS + 2, [&](u32 i) { work.sums[i] = 0; });
    // A sum is a whole number below 2^22, and so exact. With 0.5 added its quotient is at least 0.00005 away from a
    // whole number, and the two roundings of the product are less than that: its whole part is that of the quotient.
    const u32 whole = WIDE * lines;
    const f32 half = f32(whole / 2) + 0.5f, inverse = 1.0f / f32(whole);

    u32 row = 0, equal_since = 0;            // the small row, and the line since which all are equal
    u32 row_began = 0, last_row_began = 0;  // the first lines of this small row and the one before
    u32 weight = 0;                         // of the line in this small row, which is not yet in the sums
    bool empty = true;                      // no line is in the sums
    auto add = [&] {
        const u16 by = u16(weight), kept = empty ? 0 : 0xFFFF;
        group.for_each(COLUMNS, [&](u32 i) { work.sums[i] = u16((work.sums[i] & kept) + u16(by * work.line[i])); });
        empty = false;
        weight = 0;
    };
    for (u32 y = 0; y < lines; ++y) {
        const u8 *one = first + y * COLUMNS, *two = last + y * COLUMNS;
        const bool again = ALONE && y > 0 && same_lines(one, one - COLUMNS) && same_lines(two, two - COLUMNS);
        if (!again) {
            if (weight > 0) add();
            look_up(work, one, two, y == 0, group);
            equal_since = y;
        }
        const u32 upper = min(SMALL, lines * (row + 1) - SMALL * y);  // the line's weight in this small row
        weight += upper;
        if (SMALL * (y + 1) < lines * (row + 1)) continue;
        u8 *small = to + row * SMALL;
        if (row > 0 && ALONE && equal_since <= last_row_began) {  // as the row before
            group.for_each(SMALL, [&](u32 i) { small[i] = (small - SMALL)[i]; });
        } else {
            add();
            group.for_each(COLUMNS, [&](u32 i) {
                const u16 *sums = work.sums + i;
                const u32 sum = work.weights[0][i] * sums[0] + work.weights[1][i] * sums[1] + work.weights[2][i] * sums[2];
                work.means[i] = u8(i32((f32(i32(sum)) + half) * inverse));
            });
            group.for_each(NARROW, [&](u32 i) {
                const u8 *means = work.means + WIDE * i / NARROW;
                TBS_UNROLL
                for (u32 k = 0; k < SMALL / NARROW; ++k) small[i + NARROW * k] = means[WIDE * k];
            });
        }
        empty = true;
        weight = SMALL - upper;
        last_row_began = row_began;
        row_began = weight > 0 ? y : y + 1;
        ++row;
    }
}

// A stack is a ring of small pictures: each follows the newest one.
template <u32 frames>
TBS_FUNCTION u32 place_after(u32 newest) { return (newest + 1) % frames; }

// At an episode's start OpenAI's and gymnasium's wrappers and EnvPool fill the stack with the first frame; ale-py's own
// batches of environments leave zeros.
template <u32 frames, class Group>
TBS_FUNCTION void begin_stack(u8 *stack, u32 newest, bool fills, Group &group) {
    constexpr u32 size = SMALL * SMALL;
    const u8 *from = stack + newest * size;
    for (u32 frame = 0; frame < frames; ++frame) {
        u8 *to = stack + frame * size;
        if (frame != newest) group.for_each(size, [&](u32 i) { to[i] = fills ? from[i] : 0; });
    }
}

// The oldest first.
template <u32 frames, class Group>
TBS_FUNCTION void show_stack(const u8 *stack, u32 newest, u8 *to, Group &group) {
    constexpr u32 size = SMALL * SMALL;
    u32 from = newest;
    for (u32 frame = 0; frame < frames; ++frame) {
        from = place_after<frames>(from);
        copy_elements<size>(to + frame * size, stack + from * size, group);
    }
}
