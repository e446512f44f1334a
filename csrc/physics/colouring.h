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

// One after the other.
template <class W, class Bodies>
TBS_FUNCTION void colour_in_order(W &w, u32 count, u32 *item, Batches &batches, Bodies &&bodies_of) {
    u32 *const used = w.used;
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

#ifdef TBS_LANES_ARE_THREADS
// On the lanes of a warp, 32 constraints at a time: each waits for those before it that reach one of its bodies.
template <class W, class Group, class Bodies>
TBS_FUNCTION void colour_on_lanes(W &w, Group &group, u32 count, u32 *item, Batches &batches, Bodies &&bodies_of) {
    static_assert(Group::group_threads == 32 && simd_width == 1);
    const u32 lane = group.first_lane(), before = (1u << lane) - 1;  // bits of the lanes before this one
    group.for_each(w.body_count, [&](u32 i) { w.used[i] = 0; });
    group.for_each(most_colours + 1, [&](u32 c) { batches.batch[c] = {0, 0, 1}; });
    TBS_ROLLED
    for (u32 movable = 1; movable <= 2; ++movable) {
        TBS_ROLLED
        for (u32 begin = 0; begin < count; begin += 32) {
            group.for_each(w.body_count, [&](u32 i) { w.reached[i] = 0; });
            u32 a = 0, b = 0;
            bool waits = false, with_ground = false;
            group.for_each(count - begin < 32 ? count - begin : 32, [&](u32 k) {
                bodies_of(begin + k, a, b);
                const bool moves_a = is_movable(w, a), moves_b = is_movable(w, b);
                if (!moves_a && !moves_b) item[begin + k] = not_solved;
                waits = u32(moves_a) + u32(moves_b) == movable;
                if (!waits) return;
                with_ground = movable == 1 && row_of(w, moves_a ? b : a) == W::ground;
                if (!moves_a) a = b;
                if (!moves_b) b = a;
                atomicOr(&w.reached[a], 1u << k);
                atomicOr(&w.reached[b], 1u << k);
            });
            const u32 first = waits ? (w.reached[a] | w.reached[b]) & before : 0;
            for (u32 waiting = group.ballot(32, [&](u32) { return waits; }); waiting != 0;) {
                const bool ready = waits && (first & waiting) == 0;
                if (ready) {
                    const u32 open = ~(w.used[a] | w.used[b]) & ((1u << most_colours) - 1), lowest = open & (0u - open);
                    const u32 c = open != 0 ? lowest_bit(open) : most_colours;
                    w.used[a] |= lowest;
                    if (b != a) w.used[b] |= lowest;
                    item[begin + lane] = c;
                    atomicAdd(&batches.batch[c].count, 1u);
                    if (!with_ground) atomicAnd(&batches.batch[c].with_ground, 0u);
                    waits = false;
                }
                waiting &= ~group.ballot(32, [&](u32) { return ready; });
            }
        }
    }
    const u32 some = group.ballot(most_colours + 1, [&](u32 c) { return batches.batch[c].count != 0; });
    u32 next = 0;  // place, of the colour with the lane's number
    const u32 end = group.scan(most_colours + 1, [&](u32 c) { return batches.batch[c].count; }, [&](u32 c, u32 sum) {
        batches.batch[c].first = next = sum;
    });
    group.once([&] {
        batches.colours = 0;
        for (u32 left = some & ((1u << most_colours) - 1); left != 0; left >>= 1) batches.colours += 1;
        batches.end = end;
    });
    TBS_ROLLED
    for (u32 begin = 0; begin < count; begin += 32) {
        const u32 i = begin + lane, own = i < count ? item[i] : not_solved;
        for (u32 left = some; left != 0; left &= left - 1) {
            const u32 c = lowest_bit(left), alike = group.ballot(32, [&](u32) { return own == c; });
            const u32 place = group.broadcast(c, [&](u32) { return next; });
            if (own == c) item[i] = place + count_bits(alike & before);
            if (lane == c) next += count_bits(alike);
        }
    }
}
#endif

// Puts `count` constraints into batches: item[i] is the place of constraint i, or not_solved. Constraints with one
// movable body come first in the order, and so have the lowest colours, which are solved last: a body that does not
// give way has the last word. bodies_of(i, a, b) writes the bodies.
template <class W, class Group, class Bodies>
TBS_FUNCTION void colour(W &w, Group &group, u32 count, u32 *item, Batches &batches, Bodies &&bodies_of) {
#ifdef TBS_LANES_ARE_THREADS
    colour_on_lanes(w, group, count, item, batches, bodies_of);
#else
    group.once([&] { colour_in_order(w, count, item, batches, bodies_of); });
#endif
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
    const Batch &rest = batches.batch[most_colours];
    if constexpr (on_device) {  // the rest as batches of one: so there is one copy of `work`
        TBS_ROLLED
        for (u32 k = 0; k < batches.colours + rest.count; ++k) {
            const bool coloured = k < batches.colours;
            const Batch &batch = coloured ? batches.batch[batches.colours - 1 - k] : rest;
            const bool with_ground = coloured && batch.with_ground != 0;
            for_items(group, coloured ? batch.first : rest.first + (k - batches.colours), coloured ? batch.count : 1,
                      [&](auto kind, u32 block, u32 lane) { work(kind, block, lane, with_ground); });
        }
    } else {
        for (u32 c = batches.colours; c-- > 0;) {
            const Batch &batch = batches.batch[c];
            for_items(group, batch.first, batch.count,
                      [&](auto kind, u32 block, u32 lane) { work(kind, block, lane, batch.with_ground != 0); });
        }
        for (u32 i = rest.first; i < rest.first + rest.count; ++i) work(f32{}, i / block_items, i % block_items, false);
    }
}

// Calls work(with_ground), which a CPU's compiler knows: a std::bool_constant there. A device has one copy for both.
template <class Work>
TBS_FUNCTION void by_ground(bool with_ground, Work &&work) {
    if constexpr (on_device) {
        work(with_ground);
    } else if (with_ground) {
        work(::std::true_type{});
    } else {
        work(::std::false_type{});
    }
}
