// The broad phase of worlds of many bodies: they are sorted into 16 x 16 cells by where they are, and each is compared with the
// bounds of 32 at a time first, then with those of which these touch. Pairs are the same as those of comparing all.
#pragma once

#include "physics/links.h"

inline constexpr u32 cells_across = 16, cells = cells_across * cells_across;  // and one more for bodies that are everywhere

template <u32 words>
TBS_FUNCTION void put_box(Boxes<words> &boxes, u32 i, const Bounds &box) {
    boxes.low_x[i] = box.low.x, boxes.low_y[i] = box.low.y, boxes.low_z[i] = box.low.z;
    boxes.high_x[i] = box.high.x, boxes.high_y[i] = box.high.y, boxes.high_z[i] = box.high.z;
}
template <u32 words>
TBS_FUNCTION Bounds box_of(const Boxes<words> &boxes, u32 i) {
    return {{boxes.low_x[i], boxes.low_y[i], boxes.low_z[i]}, {boxes.high_x[i], boxes.high_y[i], boxes.high_z[i]}};
}

// Bits of the 32 boxes from `first` on that touch another one.
template <u32 words>
TBS_FUNCTION u32 touching(const Boxes<words> &boxes, const Bounds &other, u32 first) {
    const Wide low_x = splat<Wide>(other.low.x), low_y = splat<Wide>(other.low.y), low_z = splat<Wide>(other.low.z);
    const Wide high_x = splat<Wide>(other.high.x), high_y = splat<Wide>(other.high.y), high_z = splat<Wide>(other.high.z);
    u32 apart = 0;
    TBS_ROLLED
    for (u32 k = 0; k < 32; k += simd_width) {
        const u32 j = first + k;
        const u32 some = bits_of(below(load<Wide>(boxes.high_x + j), low_x)) | bits_of(below(high_x, load<Wide>(boxes.low_x + j))) |
                         bits_of(below(load<Wide>(boxes.high_y + j), low_y)) | bits_of(below(high_y, load<Wide>(boxes.low_y + j))) |
                         bits_of(below(load<Wide>(boxes.high_z + j), low_z)) | bits_of(below(high_z, load<Wide>(boxes.low_z + j)));
        apart |= some << k;
    }
    return ~apart;
}

// Whether two bodies whose bounds touch are to be looked at closely.
TBS_FUNCTION bool may_collide(const Step &step, u32 a, u32 b) {
    if (has_parts && owner_of(step, a) == owner_of(step, b)) return false;
    return (step.group[a] & step.mask[b]) != 0 && (step.group[b] & step.mask[a]) != 0;
}

// Finds the cell of each body: of the least area that holds all pushed bodies. Bodies wider than a quarter of it are in
// the last cell, and so are missing ones.
template <class Group>
TBS_FUNCTION void find_cells(Step &step, Group &group) {
    const auto least = [&](const f32 *low) {
        return group.min(step.bodies, infinity, [&](u32 i) { return step.pushed[i] != 0 ? low[i] : infinity; });
    };
    const auto greatest_of = [&](const f32 *high) {
        return group.max(step.bodies, -infinity, [&](u32 i) { return step.pushed[i] != 0 ? high[i] : -infinity; });
    };
    const f32 low_x = least(step.boxes.low_x), low_y = least(step.boxes.low_y);
    const f32 wide_x = greatest_of(step.boxes.high_x) - low_x, wide_y = greatest_of(step.boxes.high_y) - low_y;
    const f32 most = 0.25f * max(wide_x, wide_y);
    const f32 scale_x = divide(f32(cells_across), wide_x), scale_y = divide(f32(cells_across), wide_y);
    const auto number = [&](f32 from, f32 scale) {  // NaN and places far below are in the first
        const f32 at = from * scale;
        return at > 0.0f ? u32(min(at, f32(cells_across - 1))) : 0u;
    };
    group.for_each(step.bodies, [&](u32 i) {
        const Bounds box = box_of(step.boxes, i);
        const bool small = box.high.x - box.low.x < most && box.high.y - box.low.y < most;
        const u32 x = number(0.5f * (box.low.x + box.high.x) - low_x, scale_x);
        const u32 y = number(0.5f * (box.low.y + box.high.y) - low_y, scale_y);
        step.cell[i] = small ? cells_across * y + x : cells;
    });
}

// Sorts bodies by their cells: sorted[place] is a body, or no_body. The last cell begins a word of its own.
template <class Group>
TBS_FUNCTION void sort_bodies(Step &step, Group &group) {
    find_cells(step, group);
    group.once([&] {
        for (u32 c = 0; c <= cells; ++c) step.cell_end[c] = 0;
        for (u32 i = 0; i < step.bodies; ++i) step.cell_end[step.cell[i]] += 1;
        u32 place = 0;
        for (u32 c = 0; c <= cells; ++c) {  // until bodies have been put there, where the cell begins
            if (c == cells) place = (place + 31) / 32 * 32;
            const u32 count = step.cell_end[c];
            step.cell_end[c] = place;
            place += count;
        }
        for (u32 p = 0; p < 32 * sorted_words; ++p) step.sorted[p] = no_body;
        for (u32 i = 0; i < step.bodies; ++i) step.sorted[step.cell_end[step.cell[i]]++] = i;
    });
    const Bounds nowhere{{infinity, infinity, infinity}, {-infinity, -infinity, -infinity}};
    group.for_each(32 * sorted_words, [&](u32 p) {
        put_box(step.sorted_boxes, p, step.sorted[p] == no_body ? nowhere : box_of(step.boxes, step.sorted[p]));
    });
    group.for_each((sorted_words + 31) / 32 * 32, [&](u32 word) {
        Bounds all = nowhere;
        for (u32 p = 32 * word; p < 32 * word + 32 && p < 32 * sorted_words; ++p) {
            const Bounds box = box_of(step.sorted_boxes, p);
            all.low = {min(all.low.x, box.low.x), min(all.low.y, box.low.y), min(all.low.z, box.low.z)};
            all.high = {max(all.high.x, box.high.x), max(all.high.y, box.high.y), max(all.high.z, box.high.z)};
        }
        put_box(step.word_boxes, word, all);
    });
}

// Sets the bits `near` of all bodies; each looks at its own.
template <class Group>
TBS_FUNCTION void compare_near(Step &step, Group &group) {
    const u32 words = (step.bodies + 31) / 32;
    group.for_each(step.bodies, [&](u32 i) {
        for (u32 word = 0; word < words; ++word) step.near[i][word] = 0;
        if (step.pushed[i] == 0) return;
        const Bounds box = box_of(step.boxes, i);
        for (u32 first = 0; first < sorted_words; first += 32) {
            for (u32 some = touching(step.word_boxes, box, first); some != 0; some &= some - 1) {
                const u32 place = 32 * (first + lowest_bit(some));
                for (u32 left = touching(step.sorted_boxes, box, place); left != 0; left &= left - 1) {
                    const u32 j = step.sorted[place + lowest_bit(left)];
                    if (j == no_body || (j <= i && step.pushed[j] != 0) || !may_collide(step, i, j)) continue;
                    step.near[i][j / 32] |= 1u << j % 32;
                }
            }
        }
    });
}
