// Shared by narrow phases: the best of many lanes, and at most four points of many.
#pragma once

#include "physics/shapes.h"

// An integer that is greater where x is greater. A compiler turns the greatest of many integers into vector
// instructions; of floats it must keep the order of comparisons, on account of NaN and -0.
TBS_FUNCTION i32 ordered(f32 x) {
    const i32 bits = i32(to_bits(x));
    return bits ^ ((bits >> 31) & 0x7fffffff);
}

// As many lanes as loops work on: all of a room for few, or whole vectors of a larger one.
template <u32 room>
TBS_FUNCTION u32 lanes(u32 count) {
    return room <= 16 ? room : (count + 15) & ~15u;
}

// The number of the greatest of x[0] to x[count - 1]. The number itself is in the key's lowest bits: values that differ
// by less than room / 2^23 of themselves count as equal, and of those the first is taken, so that rounding does not
// decide.
template <u32 room>
TBS_FUNCTION u32 greatest(const f32 (&x)[room], u32 count = room) {
    static_assert((room & (room - 1)) == 0, "greatest() takes room for a power of two of lanes");
    constexpr i32 low = i32(room - 1);
    i32 best = -0x7fffffff - 1;
    TBS_ROLLED
    for (u32 k = 0; k < count; ++k) best = max(best, (ordered(x[k]) & ~low) | (low - i32(k)));
    return u32(low - (best & low));
}

// The number of the least, likewise.
template <u32 room>
TBS_FUNCTION u32 least(const f32 (&x)[room], u32 count = room) {
    static_assert((room & (room - 1)) == 0, "least() takes room for a power of two of lanes");
    constexpr i32 low = i32(room - 1);
    i32 best = 0x7fffffff;
    TBS_ROLLED
    for (u32 k = 0; k < count; ++k) best = min(best, (ordered(x[k]) & ~low) | i32(k));
    return u32(best & low);
}

// Points over a face: u and v along the face, w the distance from it; infinite without a point. In parts of n lanes;
// the first `lanes` are used.
template <u32 parts, u32 n>
struct Candidates {
    f32 u[parts][n], v[parts][n], w[parts][n];
    u32 lanes;
};

// Which of them make the manifold, and the direction (0 to 3) in which each lies.
struct Chosen {
    u32 count;
    f32 u[4], v[4], w[4];
    u32 slot[4], number[4];  // number: part * n + lane
    u32 corners;             // candidates that lie about as deep as the deepest
};

// Of the width over a face: points that differ less in their depth touch together.
inline constexpr f32 level_depth = 0.01f;

// How far out a point is in a direction along the face, where depth counts as much as distance.
TBS_FUNCTION f32 score(u32 slot, f32 u, f32 v, f32 w) {
    const f32 along = fma(0.75f, v, u), across = fma(-0.75f, u, v);
    return (slot == 0 ? along : slot == 1 ? across : slot == 2 ? -along : -across) - w;
}

// At most four: in each of four directions along the face the outermost, of points above each other the lower one; and
// the deepest of all, unless shapes touch and one of these is as deep but for a tenth of `same`: else the least tilt
// would choose another point in each step. The directions are fixed to the face and are neither its axes nor its
// diagonals, so they distinguish the corners of a square however it is turned, and a point keeps its slot from step to
// step. Points closer than `same` are one.
template <u32 parts, u32 n>
TBS_CALLED void choose(const Candidates<parts, n> &points, f32 margin, f32 same, Chosen &chosen) {
    constexpr i32 low = parts == 1 ? i32(n) - 1 : 4 * i32(n) - 1;
    static_assert(parts <= 4 && (n & (n - 1)) == 0);
    // As greatest() and least() do it, for five questions at once.
    i32 keys[4] = {-0x7fffffff - 1, -0x7fffffff - 1, -0x7fffffff - 1, -0x7fffffff - 1}, lowest = 0x7fffffff;
    const u32 all = n <= 16 ? n : points.lanes;
    TBS_ROLLED
    for (u32 lane = 0; lane < all; ++lane) {
        TBS_UNROLL
        for (u32 part = 0; part < parts; ++part) {
            const f32 u = points.u[part][lane], v = points.v[part][lane], w = points.w[part][lane];
            const f32 along = fma(0.75f, v, u), across = fma(-0.75f, u, v), out = w <= margin ? w : infinity;
            const i32 number = i32(part * n + lane);
            keys[0] = max(keys[0], (ordered(along - out) & ~low) | (low - number));
            keys[1] = max(keys[1], (ordered(across - out) & ~low) | (low - number));
            keys[2] = max(keys[2], (ordered(-along - out) & ~low) | (low - number));
            keys[3] = max(keys[3], (ordered(-across - out) & ~low) | (low - number));
            lowest = min(lowest, (ordered(w) & ~low) | number);
        }
    }
    chosen.count = chosen.corners = 0;
    const auto take = [&](u32 slot, u32 number) {
        chosen.number[slot] = number;
        chosen.u[slot] = points.u[number / n][number % n];
        chosen.v[slot] = points.v[number / n][number % n];
        chosen.w[slot] = points.w[number / n][number % n];
    };
    const u32 deepest = u32(lowest & low);
    const f32 u = points.u[deepest / n][deepest % n], v = points.v[deepest / n][deepest % n];
    const f32 w = points.w[deepest / n][deepest % n];
    if (!(w <= margin)) return;
    u32 nearest = 0;
    f32 loss = infinity;
    const bool touching = w <= 0.01f * same;
    bool found = false;
    TBS_ROLLED
    for (u32 slot = 0; slot < 4; ++slot) {
        take(slot, u32(low - (keys[slot] & low)));
        const f32 less = score(slot, chosen.u[slot], chosen.v[slot], chosen.w[slot]) - score(slot, u, v, w);
        found = found || chosen.number[slot] == deepest || (touching && chosen.w[slot] <= w + 0.1f * same);
        nearest = less < loss ? slot : nearest;
        loss = min(less, loss);
    }
    const f32 width = score(0, chosen.u[0], chosen.v[0], 0.0f) + score(2, chosen.u[2], chosen.v[2], 0.0f);
    const f32 level = fma(level_depth, width, w);
    TBS_ROLLED
    for (u32 lane = 0; lane < all; ++lane) {
        TBS_UNROLL
        for (u32 part = 0; part < parts; ++part) chosen.corners += u32(points.w[part][lane] <= level);
    }
    if (!found) take(nearest, deepest);
    // Leave out repetitions.
    bool keep[4] = {true, true, true, true};
    TBS_ROLLED
    for (u32 slot = 1; slot < 4; ++slot) {
        TBS_ROLLED
        for (u32 other = 0; other < slot; ++other) {
            const f32 apart = abs(chosen.u[slot] - chosen.u[other]) + abs(chosen.v[slot] - chosen.v[other]);
            keep[slot] = keep[slot] & (apart > same);
        }
    }
    u32 count = 0;
    TBS_ROLLED
    for (u32 slot = 0; slot < 4; ++slot) {
        const f32 its_u = chosen.u[slot], its_v = chosen.v[slot], its_w = chosen.w[slot];
        chosen.u[count] = its_u;
        chosen.v[count] = its_v;
        chosen.w[count] = its_w;
        chosen.number[count] = chosen.number[slot];
        chosen.slot[count] = slot;
        count += keep[slot];
    }
    chosen.count = count;
}

// The manifold seen from the other shape.
TBS_ONE_COPY void turn_round(Manifold &manifold) {
    manifold.normal = -manifold.normal;
    TBS_ROLLED
    for (u32 i = 0; i < manifold.count; ++i) {
        Manifold::Point &point = manifold.points[i];
        const vec3 anchor = point.anchor_a;
        point.anchor_a = point.anchor_b;
        point.anchor_b = anchor;
    }
}

TBS_FUNCTION void drop(Manifold &manifold) {
    manifold.normal = {0, 0, 1};
    manifold.count = manifold.corners = 0;
}

// Whether all numbers are finite, so that the search among them succeeds.
TBS_FUNCTION bool all_finite(const Matrix &m, vec3 a, vec3 b, vec3 c) {
    const vec3 sum = m.x + m.y + m.z + a + b + c;
    return abs(sum.x + sum.y + sum.z) < infinity;
}

// A unit vector across a unit vector; the same one always.
TBS_FUNCTION vec3 any_across(vec3 v) {
    const bool steep = abs(v.z) > 0.6f;
    return normalize(cross(v, steep ? vec3{1, 0, 0} : vec3{0, 0, 1}));
}

// Two points of two shapes, in the frame of the one that looks at the other.
struct Nearest {
    vec3 on_own, on_other;
    bool inside;        // of edges: both points are within them, not beyond their ends
};

// Beside numbers of faces, edges (up to 89 of each hull) and vertices (up to 32): all features are below 0xb000.
constexpr u32 face_of_b = 0x100, edge_feature = 0x4000, corner_feature = 0x8000;

TBS_FUNCTION void one_point(vec3 normal, const Nearest &points, f32 separation, u32 feature, Manifold &manifold) {
    manifold.normal = normal;
    manifold.count = 1;
    manifold.points[0] = {points.on_own, points.on_other, separation, feature};
}

// Turns what was found in the frame of a shape to world axes, and anchors of the other shape to its own position, which
// is at `centre` in that frame.
TBS_ONE_COPY void to_world(const Matrix &frame, vec3 centre, Manifold &manifold) {
    manifold.normal = frame * manifold.normal;
    TBS_ROLLED
    for (u32 i = 0; i < manifold.count; ++i) {
        Manifold::Point &point = manifold.points[i];
        point.anchor_a = frame * point.anchor_a;
        point.anchor_b = frame * (point.anchor_b - centre);
    }
}
