// The narrow phase: where the two bodies of a pair touch, or come to touch in this step.
#pragma once

#include "physics/broad.h"
#include "physics/meeting.h"

// Anchors of parts from the centres of mass of their bodies, which are at `of_a` and `of_b`.
TBS_FUNCTION void see_from_centres(const Transform &of_a, const Transform &at_a, const Transform &of_b,
                                   const Transform &at_b, Manifold &manifold) {
    const vec3 arm_a = at_a.position - of_a.position, arm_b = at_b.position - of_b.position;
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k) {
        manifold.points[k].anchor_a += arm_a;
        manifold.points[k].anchor_b += arm_b;
    }
}

// The drift of a body in so many seconds.
TBS_FUNCTION Drift drift_of(const Step &step, u32 body, f32 time) {
    const u32 mover = step.mover[body];
    if (mover == no_body) return {};
    const BodyBlock &block = step.solver.body_blocks[mover / block_items];
    const auto speed = [&](const f32(*v)[block_items]) {
        const Vec<f32> loaded = load_vec<f32>(v, mover % block_items);
        return vec3{loaded.x, loaded.y, loaded.z};
    };
    const bool is_ball = step.shape[body].kind == SPHERE && !is_part(step, body);
    return drift_of(speed(block.linear), speed(block.angular), time, step.pushed[body] != 0, is_ball);
}

// Whether two bodies may come to touch in the step: what is only ahead of one reaches nothing behind it.
TBS_FUNCTION bool is_within_reach(const Step &step, u32 a, u32 b, f32 margin, const Manifold &manifold) {
    f32 least = infinity;
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k) least = min(least, manifold.points[k].separation);
    const auto reach = [&](u32 body, vec3 towards) {
        return dot(step.ahead[body], towards) > 0.0f ? step.reach[body] : step.reach_around[body];
    };
    return least <= margin + reach(a, manifold.normal) + reach(b, -manifold.normal);
}

// Whether the bodies of pair i touch; the manifold where they do.
TBS_FUNCTION bool find_manifold(const Hulls &hulls, const Step &step, u32 i, f32 margin, const Settings &settings,
                                Manifold &manifold) {
    const u32 a = step.pair[i].a, b = step.pair[i].b;
    const Geometry own = geometry_of(hulls, step.shape[a]), other = geometry_of(hulls, step.shape[b]);
    const f32 most = margin + step.reach[a] + step.reach[b];
    // Of faces of two of one kind that of the first one counts. It is what does not give way: a box that has sunk in
    // askew, because a new contact has no preload, would slide as down its own slope.
    const bool other_first = step.pushed[b] == 0 && own.kind == other.kind;
    const auto touch = [&](const Transform &at_a, const Transform &at_b, Manifold &found) {
        collide(other_first ? other : own, other_first ? at_b : at_a, other_first ? own : other,
                other_first ? at_a : at_b, most, found);
        if (other_first && found.count > 0) turn_round(found);
    };
    touch(step.at[a], step.at[b], manifold);
    if (manifold.count == 0) return false;
    const Transform &at_own = step.at[owner_of(step, a)], &at_other = step.at[owner_of(step, b)];
    if constexpr (has_parts) see_from_centres(at_own, step.at[a], at_other, step.at[b], manifold);
    const bool have_forces = step.reach[a] + step.reach[b] > step.reach_around[a] + step.reach_around[b];
    if (have_forces && !is_within_reach(step, a, b, margin, manifold)) return false;
    // Known already of a body of one shape that does not turn far: it is pushed.
    const f32 slow = has_parts ? 0.0f : step.slow[step.mover[a]];
    const f32 inner = slow > 0.0f ? slow * (1.0f / fast_share) : inner_radius(own);
    if (step.drift[a] + step.drift[b] <= least_approach * meeting_share * inner) return true;  // as most pairs
    const f32 ahead = settings.time + divide(settings.time, f32(settings.substeps));
    meet(inner, at_own, drift_of(step, a, ahead), other, at_other, drift_of(step, b, ahead), manifold,
         [&](const Transform &of_a, const Transform &of_b, Manifold &met) {
             const Transform at_a = place_of(step, a, of_a), at_b = place_of(step, b, of_b);
             touch(at_a, at_b, met);
             if constexpr (has_parts) see_from_centres(of_a, at_a, of_b, at_b, met);
         });
    return manifold.count > 0;
}

// Where the bodies of pair i touch.
TBS_FUNCTION void find_touch(const Hulls &hulls, const Step &step, u32 i, f32 margin, const Settings &settings,
                             Touching &touch) {
    Manifold manifold;
    if (!find_manifold(hulls, step, i, margin, settings, manifold)) manifold.count = 0;
    touch.normal = manifold.normal;
    touch.count = u16(manifold.count);
    touch.corners = u16(manifold.corners);
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k) {
        const Manifold::Point &from = manifold.points[k];
        touch.points[k] = {from.anchor_a + from.anchor_b, from.separation, from.feature};
    }
}

// Pairs of one kind go through the same code, as far as shapes decide (collide.h); all round ones are one kind.
inline constexpr u32 pair_kinds = 6;
TBS_FUNCTION u32 kind_of_pair(const Step &step, const Pair &pair) {
    const u32 a = u32(step.shape[pair.a].kind), b = u32(step.shape[pair.b].kind), low = min(a, b), high = max(a, b);
    if (high == PLANE) return low == BOX ? 0 : low == HULL ? 1 : 2;
    return low == BOX && high == BOX ? 3 : low >= BOX ? 4 : 5;
}

// Pairs of several worlds, so many at a time, in the order of their kinds.
inline constexpr u32 pairs_in_order = 256;
template <u32 most_worlds>
struct PairOrder {
    i32 row[most_worlds];        // of a world in Space, from the first one's
    u32 begin[most_worlds + 1];  // where pairs of a world begin among those of all
    u16 place[pairs_in_order];
    u8 kind[pairs_in_order];
};

// Finds where the bodies of all pairs of several worlds touch. Lanes of a warp that work on pairs of several kinds go
// through the code of each, and a world has few pairs of a kind: so those of all worlds are taken kind by kind.
// `step_at(row)` is the step of a world.
template <class Worlds, class StepAt, class Group>
TBS_FUNCTION void find_touches(const Worlds &worlds, StepAt &&step_at, Group &group) {
    const World world = worlds[0];
    const Hulls &hulls = world.get<const Hulls>();
    const Settings settings = settings_of(world);
    const f32 margin = world.parameters.physics.margin;
    using Order = PairOrder<Worlds::most>;
    Order &order = group.template shared<Order>();
    group.once([&] {
        u32 pairs = 0;
        for (u32 k = 0; k < worlds.count; ++k) {
            order.row[k] = worlds[k].id - world.id;
            order.begin[k] = pairs;
            const Step &step = step_at(order.row[k]);
            pairs += step.sound != 0 ? step.pairs : 0;
        }
        order.begin[worlds.count] = pairs;
    });
    const u32 all = order.begin[worlds.count];
    const auto world_of = [&](u32 pair) {
        u32 k = 0;
        while (pair >= order.begin[k + 1]) ++k;
        return k;
    };
    for (u32 first = 0; first < all; first += pairs_in_order) {
        const u32 count = min(all - first, pairs_in_order);
        group.for_each(count, [&](u32 i) {
            const u32 k = world_of(first + i);
            const Step &step = step_at(order.row[k]);
            order.kind[i] = u8(kind_of_pair(step, step.pair[first + i - order.begin[k]]));
        });
        u32 listed = 0;
        for (u32 kind = 0; kind < pair_kinds; ++kind) {
            const auto is = [&](u32 i) { return order.kind[i] == kind ? 1u : 0u; };
            listed += group.scan(count, is, [&](u32 i, u32 before) {
                if (is(i) != 0) order.place[listed + before] = u16(i);
            });
        }
        group.for_each(count, [&](u32 i) {
            const u32 pair = first + order.place[i], k = world_of(pair), own = pair - order.begin[k];
            Step &step = step_at(order.row[k]);
            find_touch(hulls, step, own, margin, settings, step.touch_of(own));
        });
    }
}
