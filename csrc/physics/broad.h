// The broad phase: which bodies may touch in this step, by their bounds.
//
// Every body that moves is compared with all others, 32 at a time as bits of a word: on a CPU that is some 60 instructions
// of vectors for 32 bodies, and no order has to be kept. Worlds with room for more than 256 bodies sort them first.
#pragma once

#include "physics/broad_sorted.h"

// The bounds of all bodies with their reach, to the end of the last word.
template <class Group>
TBS_FUNCTION void find_bounds(const Hulls &hulls, Step &step, f32 margin, Group &group) {
    group.for_each(32 * ((step.bodies + 31) / 32), [&](u32 i) {
        Bounds box{};
        if (i < step.bodies) {
            const f32 more = margin + step.reach[i];
            box = bounds(geometry_of(hulls, step.shape[i]), step.at[i]);
            box.low = box.low - vec3{more, more, more};
            box.high = box.high + vec3{more, more, more};
        }
        put_box(step.boxes, i, box);
    });
}

// Sets the bits `near` of all bodies.
template <class Group>
TBS_FUNCTION void compare_all(Step &step, Group &group) {
    const u32 words = (step.bodies + 31) / 32;
    group.for_each(words, [&](u32 word) {
        u32 bits = 0;
        TBS_ROLLED
        for (u32 k = 0; k < 32 && 32 * word + k < step.bodies; ++k) bits |= step.pushed[32 * word + k] << k;
        step.pushed_bits[word] = bits;
    });
    group.for_each(step.bodies, [&](u32 i) {
        for (u32 word = 0; word < words; ++word) {
            step.near[i][word] = 0;
            if (step.pushed[i] == 0) continue;
            u32 bits = touching(step.boxes, box_of(step.boxes, i), 32 * word);
            if (32 * word + 32 > step.bodies) bits &= (1u << (step.bodies - 32 * word)) - 1;
            const u32 up_to_own = 32 * word + 31 <= i ? ~0u : 32 * word <= i ? (2u << (i - 32 * word)) - 1 : 0u;
            bits &= ~(step.pushed_bits[word] & up_to_own);
            for (u32 left = bits; left != 0; left &= left - 1) {
                const u32 bit = lowest_bit(left);
                if (!may_collide(step, i, 32 * word + bit)) bits &= ~(1u << bit);
            }
            step.near[i][word] = bits;
        }
    });
}

// Lists the pairs, by the number of a, then of b. Body a is one that is pushed; of two such the lower one. More pairs than there
// is room for are the fault `pairs`.
template <class Group>
TBS_FUNCTION void find_pairs(World &world, Step &step, Group &group) {
    const u32 words = (step.bodies + 31) / 32;
    if constexpr (sorts_bodies) {
        sort_bodies(step, group);
        compare_near(step, group);
    } else {
        compare_all(step, group);
    }
    part_jointed(step, group);
    const u32 found = group.scan(
        step.bodies,
        [&](u32 i) {
            u32 count = 0;
            for (u32 word = 0; word < words; ++word) count += count_bits(step.near[i][word]);
            return count;
        },
        [&](u32 i, u32 before) {
            for (u32 word = 0; word < words; ++word) {
                for (u32 left = step.near[i][word]; left != 0; left &= left - 1) {
                    if (before < most_pairs) step.pair[before] = {i, 32 * word + lowest_bit(left)};
                    ++before;
                }
            }
        });
    if (found > most_pairs) world.fail(Fault::pairs, i32(found));
    group.once([&] { step.pairs = min(found, most_pairs); });
}
