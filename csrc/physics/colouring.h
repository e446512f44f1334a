// Colours for constraints: those of one colour have no movable body in common, so they can be worked on at once.
//
// Greedy, in order: each takes the lowest colour that neither of its bodies has yet. So a constraint's colour depends
// on those before it that reach its bodies, and not on other worlds in the same workspace. Constraints without a colour
// are worked on one after the other at the end of each pass.
#pragma once

#include "physics/bodies.h"

inline constexpr u32 most_colours = 16;
inline constexpr u32 not_solved = 0xffffffffu;  // neither body can be moved

// Constraints of one colour: items first .. first + count - 1 of the blocks.
struct Batch {
    u32 first, count;
    u32 with_ground;  // 1: all are with something that does not move
};

struct Batches {
    Batch batch[most_colours + 1];  // the last one's are worked on one by one
    u32 colours;                    // how many there are
    u32 end;                        // of all items
};

// The row of a body that does not move: where constraints find zeros.
template <class W>
TBS_FUNCTION u32 row_of(const W &w, u32 body) {
    if (body == no_body) return W::ground;
    return w.body_blocks[body / block_items].moving[body % block_items] != 0.0f ? body : W::ground;
}
template <class W>
TBS_FUNCTION bool is_movable(const W &w, u32 body) {
    return body != no_body && w.body_blocks[body / block_items].movable[body % block_items] != 0.0f;
}

// Puts `count` constraints into batches: item[i] is the place of constraint i, or not_solved. Constraints with one
// movable body come first in the order, and so have the lowest colours, which are solved last: a body that does not
// give way has the last word. bodies_of(i, a, b) writes the bodies; used[] is memory, a word for each body.
template <class W, class Bodies>
TBS_FUNCTION void colour(const W &w, u32 count, u32 *item, u32 *used, Batches &batches, Bodies &&bodies_of) {
    u32 size[most_colours + 1] = {}, next[most_colours + 1];
    bool with_ground[most_colours + 1];
    for (u32 c = 0; c <= most_colours; ++c) with_ground[c] = true;
    for (u32 i = 0; i < w.body_count; ++i) used[i] = 0;
    for (u32 movable = 1; movable <= 2; ++movable) {
        for (u32 i = 0; i < count; ++i) {
            u32 a, b;
            bodies_of(i, a, b);
            const bool moves_a = is_movable(w, a), moves_b = is_movable(w, b);
            if (movable == 1 && !moves_a && !moves_b) item[i] = not_solved;
            if (u32(moves_a) + u32(moves_b) != movable) continue;
            const u32 taken = (moves_a ? used[a] : 0) | (moves_b ? used[b] : 0);
            const u32 open = ~taken & ((1u << most_colours) - 1), c = open != 0 ? lowest_bit(open) : most_colours;
            if (moves_a) used[a] |= open & (0u - open);
            if (moves_b) used[b] |= open & (0u - open);
            with_ground[c] = with_ground[c] && movable == 1 && row_of(w, moves_a ? b : a) == W::ground;
            item[i] = c;
            size[c] += 1;
        }
    }
    u32 first = 0;
    batches.colours = 0;
    for (u32 c = 0; c <= most_colours; ++c) {
        batches.batch[c] = {first, size[c], with_ground[c] ? 1u : 0u};
        next[c] = first;
        if (c < most_colours && size[c] > 0) batches.colours = c + 1;
        first += c < most_colours ? (size[c] + simd_width - 1) / simd_width * simd_width : size[c];
    }
    batches.end = first;
    for (u32 i = 0; i < count; ++i) {
        if (item[i] != not_solved) item[i] = next[item[i]]++;
    }
}

// Calls work(F, block, lane) for items first .. first + count - 1, `simd_width` of them at a time where a register
// holds more than one, including the items behind the last one in its register.
template <class Group, class Work>
TBS_FUNCTION void for_items(Group &group, u32 first, u32 count, Work &&work) {
    if constexpr (simd_width > 1 && Group::group_threads == 1) {
        for (u32 i = first; i < first + count; i += simd_width) work(Wide{}, i / block_items, i % block_items);
    } else {
        group.for_each(count, [&](u32 i) { work(f32{}, (first + i) / block_items, (first + i) % block_items); });
    }
}

// The same for all items of batches, the highest colour first. The last argument of `work` is whether all are with the
// ground.
template <class Group, class Work>
TBS_FUNCTION void for_batches(Group &group, const Batches &batches, Work &&work) {
    for (u32 c = batches.colours; c-- > 0;) {
        const Batch &batch = batches.batch[c];
        for_items(group, batch.first, batch.count,
                  [&](auto kind, u32 block, u32 lane) { work(kind, block, lane, batch.with_ground != 0); });
    }
    const Batch &rest = batches.batch[most_colours];
    if (rest.count == 0) return;
    group.once([&] {
        for (u32 i = rest.first; i < rest.first + rest.count; ++i) work(f32{}, i / block_items, i % block_items, false);
    });
}
