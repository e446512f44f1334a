// Where two moving shapes meet within a step. A contact is a plane during the whole step (contacts.h), so the plane must
// be the one at which they meet, and not the one between them at its begin: else a ball stops at the edge of the next
// tile of a level floor, and what flies past a corner is turned away from it.
//
// Conservative advancement (Mirtich 1996, "Impulse-based dynamic simulation of rigid body systems"): the bodies go on as
// they move now, until they are a little way in along the present normal. The normal of the shapes there is better. If
// they overlap less in another direction there, as with the level top of a tile, it is that one.
#pragma once

#include "physics/crossing.h"

// A body's way and its turn (along its axis) while nothing pushes it, in a step and the substep behind it, for which the
// last pass of the step looks ahead: m and rad.
struct Drift {
    vec3 way{}, turn{};
    bool gives_way = false;  // to impulses
};

// The drift of a body with these velocities in so many seconds. A ball looks the same however it turns.
TBS_FUNCTION Drift drift_of(vec3 linear, vec3 angular, f32 time, bool gives_way, bool is_ball) {
    return {linear * time, is_ball ? vec3{} : angular * time, gives_way};
}

// Shapes meet when they are this share of the lesser inner radius inside of each other: more than springs give way.
inline constexpr f32 meeting_share = 0.01f;
// In a step they must come nearer by this share of that depth, or they stay as they are.
inline constexpr f32 least_approach = 0.02f;
inline constexpr u32 meeting_rounds = 8;
inline constexpr f32 turn_in_round = 0.15f;  // rad: points of bodies that turn go straight on only so far
// A body that turns by more than this keeps the contacts of the begin, in rad: where it meets others depends on when, and
// points that stay in place in the step (contacts.h) are no longer those of its surface.
inline constexpr f32 most_turn = 0.5f;

TBS_FUNCTION Transform drifted(const Transform &at, const Drift &drift, f32 share, vec3 further) {
    const f32 angle = length(drift.turn) * share;
    const quat turn = angle > 0.0f ? rotation_about(normalize(drift.turn), angle) : quat{1, 0, 0, 0};
    return {at.position + drift.way * share + further, normalize(turn * at.rotation)};
}

// How much nearer points of two shapes come along a normal in the whole time.
struct Closing {
    f32 way;
    vec3 by_a, by_b;  // of anchors, as the bodies turn

    TBS_METHOD f32 of(const Manifold::Point &point) const {
        return way + dot(by_a, point.anchor_a) - dot(by_b, point.anchor_b);
    }
};
TBS_FUNCTION Closing closing_along(vec3 normal, const Drift &a, const Drift &b) {
    return {dot(a.way - b.way, normal), cross(normal, a.turn), cross(normal, b.turn)};
}

// What of a meeting is not for every pair: most end in `meet`.
template <class Collide>
TBS_CALLED void advance(f32 depth, const Transform &at_a, const Drift &drift_a, const Transform &at_b,
                        const Drift &drift_b, Manifold &manifold, Collide &&collide_at) {
    if (max(length_squared(drift_a.turn), length_squared(drift_b.turn)) > most_turn * most_turn) return;
    f32 share = 0.0f;
    vec3 further{};
    const f32 turning = length(drift_a.turn) + length(drift_b.turn);
    const f32 longest = turning > 0.0f ? divide(turn_in_round, turning) : infinity;
    TBS_ROLLED
    for (u32 round = 0; round < meeting_rounds && share < 1.0f; ++round) {
        const Closing nearer = closing_along(manifold.normal, drift_a, drift_b);
        f32 first = infinity, approach = 0.0f;
        bool have_met = false;
        TBS_ROLLED
        for (u32 k = 0; k < manifold.count; ++k) {
            const f32 closing = nearer.of(manifold.points[k]), apart = manifold.points[k].separation;
            if (!(closing > least_approach * depth && apart < closing * (1.0f - share))) continue;
            have_met = have_met || apart < -0.5f * depth;
            const f32 until = divide(apart + depth, closing);
            if (until < first) first = until, approach = closing;
        }
        if (have_met) break;
        if (first == infinity && (manifold.count == 0 || !(longest < 1.0f - share))) break;
        if (longest < first) first = longest, approach = 0.0f;
        // Beyond the end of the time only along the normal: the way aside would lead elsewhere.
        const f32 beyond = max(share + first - 1.0f, 0.0f);
        share = min(share + first, 1.0f);
        further = manifold.normal * (beyond * approach);
        collide_at(drifted(at_a, drift_a, share, further), drifted(at_b, drift_b, share, {}), manifold);
    }
    if (share == 0.0f) return;
    // The solver moves the place where the bodies push each other half of the way with each, and not with one that does
    // not give way: it must come to be right when they meet.
    const vec3 left = drift_b.gives_way ? vec3{} : (drift_b.way - drift_a.way) * share - further;
    const Closing nearer = closing_along(manifold.normal, drift_a, drift_b);
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k) {
        Manifold::Point &point = manifold.points[k];
        // Where they part again they have been as near as they come.
        point.separation += max(fma(nearer.of(point), share, dot(further, manifold.normal)), 0.0f);
        point.anchor_b += left;
    }
}

// Replaces a manifold at the begin of a step by the one at which the shapes meet within it, as seen from the begin:
// points are where they are then, and separations what they are then along the new normal. Without points where they
// pass each other. Leaves it as it is where they do not meet.
//
// `inner_a` is the inner radius of a; `collide_at(at_a, at_b, manifold)` is the narrow phase. Anchors, and what is at
// `at_a` and `at_b`, are from the centres of mass.
template <class Collide>
TBS_FUNCTION void meet(f32 inner_a, const Transform &at_a, const Drift &drift_a, const Geometry &b,
                       const Transform &at_b, const Drift &drift_b, Manifold &manifold, Collide &&collide_at) {
    const Closing nearer = closing_along(manifold.normal, drift_a, drift_b);
    const f32 least = least_approach * meeting_share * inner_a;
    bool comes = false;
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k)
        comes |= nearer.of(manifold.points[k]) > max(least, manifold.points[k].separation);
    if (!comes) return;
    const f32 depth = meeting_share * min(inner_a, inner_radius(b));
    advance(depth, at_a, drift_a, at_b, drift_b, manifold, collide_at);
}
