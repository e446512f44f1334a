// From pictures of indices to what agents see: colours, greys, the brighter of two frames, 84 x 84, a stack of those.
//
// A picture has `lines` lines of 160 bytes. `shades` are red, green, blue and grey of its 256 indices, in one palette.
// All is arithmetic of integers, so that every executor has the same bits.

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
// Each small pixel is the mean of the area under it. A column counts by 21ths: a small one covers 40 of them, so that
// the pattern of 21 small columns over 40 repeats four times. Columns are kept by their place in the pattern, the four
// that have it side by side, and processed together. A line counts by 84ths: a small one covers as many as there are
// lines.

constexpr u32 REPEATS = 4, WIDE = 40, NARROW = 21;

struct Shrinking {
    u8 greys[256];                // by index
    u8 line[COLUMNS];             // the greys of a line
    u16 sums[COLUMNS + REPEATS];  // of a small row's lines, by their weights; the last small column reads one too many
    u32 weights[3][NARROW];       // of the columns under a small one
};

TBS_FUNCTION bool same_lines(const u8 *one, const u8 *other) {
    u8 differ = 0;
    for (u32 i = 0; i < COLUMNS; ++i) differ = u8(differ | (one[i] ^ other[i]));
    return differ == 0;
}

template <class Group>
TBS_FUNCTION void shrink(const u8 *first, const u8 *last, const Shade *shades, u32 lines, u8 *to, Group &group) {
    Shrinking &work = group.template shared<Shrinking>();
    group.for_each(256, [&](u32 i) { work.greys[i] = shades[i][GREY]; });
    group.for_each(NARROW, [&](u32 i) {
        const u32 one = NARROW - WIDE * i % NARROW, two = min(WIDE - one, NARROW);
        work.weights[0][i] = one;
        work.weights[1][i] = two;
        work.weights[2][i] = WIDE - one - two;
    });
    group.for_each(COLUMNS + REPEATS, [&](u32 i) { work.sums[i] = 0; });
    // A quotient of less than 2^22 by 40 times the lines, less than 2^14, is exact by this factor of 2^36 over that.
    const u32 whole = WIDE * lines;
    const u64 factor = ((u64{1} << 36) + whole - 1) / whole;

    u32 row = 0, equal_since = 0;            // the small row, and the line since which all are equal
    u32 row_began = 0, last_row_began = 0;  // the first lines of this small row and the one before
    for (u32 y = 0; y < lines; ++y) {
        const u8 *one = first + y * COLUMNS, *two = last + y * COLUMNS;
        // One thread looks up a colour at a time, so it saves those of lines that are as the last one, or the same in
        // both pictures. On many lanes comparing would cost more.
        const bool again = ALONE && y > 0 && same_lines(one, one - COLUMNS) && same_lines(two, two - COLUMNS);
        if (!again) {
            equal_since = y;
            if (ALONE && same_lines(one, two)) {
                group.for_each(WIDE, [&](u32 i) {
                    for (u32 k = 0; k < REPEATS; ++k) work.line[REPEATS * i + k] = work.greys[one[i + WIDE * k]];
                });
            } else {
                group.for_each(WIDE, [&](u32 i) {
                    for (u32 k = 0; k < REPEATS; ++k) {
                        const u32 column = i + WIDE * k;
                        work.line[REPEATS * i + k] = max(work.greys[one[column]], work.greys[two[column]]);
                    }
                });
            }
        }
        const u32 upper = min(SMALL, lines * (row + 1) - SMALL * y);  // the line's weight in this small row
        group.for_each(COLUMNS, [&](u32 i) { work.sums[i] = u16(work.sums[i] + u16(upper) * work.line[i]); });
        if (SMALL * (y + 1) < lines * (row + 1)) continue;
        u8 *small = to + row * SMALL;
        if (row > 0 && ALONE && equal_since <= last_row_began) {  // as the row before
            group.for_each(SMALL, [&](u32 i) { small[i] = (small - SMALL)[i]; });
        } else {
            group.for_each(NARROW, [&](u32 i) {
                const u16 *sums = work.sums + REPEATS * (WIDE * i / NARROW);
                const u32 left = work.weights[0][i], middle = work.weights[1][i], right = work.weights[2][i];
                u32 means[REPEATS];
                for (u32 k = 0; k < REPEATS; ++k) {
                    const u32 sum = left * sums[k] + middle * sums[REPEATS + k] + right * sums[2 * REPEATS + k];
                    means[k] = u32((sum + whole / 2) * factor >> 36);
                }
                for (u32 k = 0; k < REPEATS; ++k) small[i + NARROW * k] = u8(means[k]);
            });
        }
        const u32 lower = SMALL - upper;
        group.for_each(COLUMNS, [&](u32 i) { work.sums[i] = u16(u16(lower) * work.line[i]); });
        last_row_began = row_began;
        row_began = lower > 0 ? y : y + 1;
        ++row;
    }
}

// A stack, the oldest first. `shift_stack` makes room for the newest, the place at `stack + (frames - 1) * 84 * 84`.
template <u32 frames, class Group>
TBS_FUNCTION void shift_stack(u8 *stack, Group &group) {
    constexpr u32 size = SMALL * SMALL;
    for (u32 frame = 0; frame + 1 < frames; ++frame) {
        u8 *to = stack + frame * size;
        group.for_each(size, [&](u32 i) { to[i] = to[size + i]; });
    }
}

// At an episode's start OpenAI's and gymnasium's wrappers and EnvPool fill the stack with the first frame; ale-py's own
// batches of environments leave zeros.
template <u32 frames, class Group>
TBS_FUNCTION void fill_stack(u8 *stack, Group &group) {
    constexpr u32 size = SMALL * SMALL;
    const u8 *newest = stack + (frames - 1) * size;
    group.for_each((frames - 1) * size, [&](u32 i) { stack[i] = newest[i % size]; });
}
