// Boxes against boxes: the separating axis test with its fifteen axes (Gottschalk, Lin, Manocha 1996), and the distance
// of corners from boxes where no axis has it.
#pragma once

#include "physics/clip.h"

// A box seen from another, in whose frame it lies: row i of m has the components of its axes along axis i.
struct BoxPair {
    f32 m[3][4];
    f32 centre[3];
    f32 half[3], half_other[3];  // of the box that looks, and of the one that is seen
};

TBS_FUNCTION u32 after(u32 axis) { return axis == 2 ? 0 : axis + 1; }
TBS_FUNCTION u32 before(u32 axis) { return axis == 0 ? 2 : axis - 1; }

// The same pair seen from the other box.
TBS_FUNCTION BoxPair seen_from_other(const BoxPair &pair) {
    BoxPair other;
    TBS_ROLLED
    for (u32 i = 0; i < 3; ++i) {
        TBS_ROLLED
        for (u32 j = 0; j < 3; ++j) other.m[i][j] = pair.m[j][i];
        other.m[i][3] = 0.0f;
        other.centre[i] = -fma(pair.m[2][i], pair.centre[2],
                               fma(pair.m[1][i], pair.centre[1], pair.m[0][i] * pair.centre[0]));
        other.half[i] = pair.half_other[i];
        other.half_other[i] = pair.half[i];
    }
    return other;
}

// The result of an axis: the distance of the boxes along it, negative where they overlap.
struct Axis {
    f32 separation;
    u32 first, second;  // of a face: its axis and 0; of two edges: their axes in the two boxes
};

// The best face of the box that looks; not a number if anything is not.
TBS_CALLED Axis best_face(const BoxPair &pair) {
    Axis best{-infinity, 0, 0};
    f32 sum = 0.0f;
    TBS_ROLLED
    for (u32 i = 0; i < 3; ++i) {
        const f32 reach = fma(abs(pair.m[i][2]), pair.half_other[2],
                              fma(abs(pair.m[i][1]), pair.half_other[1],
                                  fma(abs(pair.m[i][0]), pair.half_other[0], pair.half[i])));
        const f32 separation = abs(pair.centre[i]) - reach;
        const bool better = separation > best.separation;
        best.first = better ? i : best.first;
        best.separation = better ? separation : best.separation;
        sum += separation;
    }
    best.separation = isnan(sum) ? sum : best.separation;
    return best;
}

// The best of the nine axes across an edge of each. Edges that are parallel to less than a thousandth are left out:
// then a face is as good.
TBS_CALLED Axis best_edges(const BoxPair &pair) {
    f32 separation[3][3];
    i32 best = -0x7fffffff - 1;                                // as greatest() does it, but in registers
    TBS_UNROLL_ON_CPU
    for (u32 i = 0; i < 3; ++i) {
        const u32 i1 = after(i), i2 = before(i);
        TBS_UNROLL
        for (u32 j = 0; j < 3; ++j) {
            const u32 j1 = after(j), j2 = before(j);
            const f32 p = pair.m[i1][j], q = pair.m[i2][j];    // the axis is (0, -q, p) along i, i1, i2
            const f32 square = fma(p, p, q * q);
            const f32 distance = abs(fma(pair.centre[i2], p, -(pair.centre[i1] * q)));
            const f32 own = fma(pair.half[i1], abs(q), pair.half[i2] * abs(p));
            const f32 others = fma(pair.half_other[j1], abs(pair.m[i][j2]), pair.half_other[j2] * abs(pair.m[i][j1]));
            const bool crossing = square > 1e-6f;
            const f32 apart = divide(distance - own - others, sqrt(crossing ? square : 1.0f));
            separation[i][j] = crossing ? apart : -infinity;
            best = max(best, (ordered(separation[i][j]) & ~15) | i32(15 - (4 * i + j)));
        }
    }
    const u32 number = u32(15 - (best & 15)), first = number / 4, second = number % 4;
    return {separation[first][second], first, second};
}

TBS_FUNCTION f32 limit(f32 x, f32 size) { return clamp(x, -size, size); }

// Where the edges of two axes are nearest to each other, and the normal from the box that looks to the other one.
TBS_FUNCTION Nearest nearest_on_edges(const BoxPair &pair, const Axis &axis, vec3 &normal) {
    const u32 i = axis.first, i1 = after(i), i2 = before(i), j = axis.second;
    const f32 p = pair.m[i1][j], q = pair.m[i2][j];
    const f32 side = fma(pair.centre[i2], p, -(pair.centre[i1] * q)) < 0.0f ? -1.0f : 1.0f;
    const f32 inverse = divide(side, sqrt(fma(p, p, q * q)));
    f32 n[3], own[3], other[3], along[3];
    n[i] = 0.0f;
    n[i1] = -q * inverse;
    n[i2] = p * inverse;
    TBS_ROLLED
    for (u32 k = 0; k < 3; ++k) {
        own[k] = k == i ? 0.0f : copysign(pair.half[k], n[k]);
        other[k] = pair.centre[k];
        along[k] = pair.m[k][j];
    }
    TBS_ROLLED
    for (u32 k = 0; k < 3; ++k) {
        const f32 facing = fma(n[2], pair.m[2][k], fma(n[1], pair.m[1][k], n[0] * pair.m[0][k]));
        const f32 step = k == j ? 0.0f : copysign(pair.half_other[k], -facing);
        TBS_ROLLED
        for (u32 c = 0; c < 3; ++c) other[c] = fma(step, pair.m[c][k], other[c]);
    }
    // Points own + s e_i and other + r along: their difference is perpendicular to both edges.
    const f32 square = fma(p, p, q * q), c = along[i];
    const f32 gap_i = other[i] - own[i];
    const f32 across = fma(other[i1] - own[i1], p, (other[i2] - own[i2]) * q);
    const f32 r_free = -divide(across, square);
    const f32 r = limit(r_free, pair.half_other[j]);
    const f32 s_free = fma(r_free, c, gap_i);
    const f32 s = limit(fma(r, c, gap_i), pair.half[i]);
    own[i] = s;
    TBS_ROLLED
    for (u32 k = 0; k < 3; ++k) other[k] = fma(r, along[k], other[k]);
    normal = {n[0], n[1], n[2]};
    return {{own[0], own[1], own[2]},
            {other[0], other[1], other[2]},
            abs(r_free) <= 1.0001f * pair.half_other[j] && abs(s_free) <= 1.0001f * pair.half[i]};
}

// The corner of either box that is nearest to the other box, and that box's nearest point. Boxes that are apart have
// this distance, or that of two edges within their ends, which an axis finds.
TBS_CALLED Nearest nearest_corner(const BoxPair &pair, const BoxPair &other, u32 &number) {
    f32 square[16], x[16], y[16], z[16], px[16], py[16], pz[16];
    TBS_ROLLED
    for (u32 k = 0; k < 16; ++k) {
        const BoxPair &view = k < 8 ? pair : other;
        const f32 a = k & 1 ? view.half_other[0] : -view.half_other[0];
        const f32 b = k & 2 ? view.half_other[1] : -view.half_other[1];
        const f32 c = k & 4 ? view.half_other[2] : -view.half_other[2];
        x[k] = fma(view.m[0][2], c, fma(view.m[0][1], b, fma(view.m[0][0], a, view.centre[0])));
        y[k] = fma(view.m[1][2], c, fma(view.m[1][1], b, fma(view.m[1][0], a, view.centre[1])));
        z[k] = fma(view.m[2][2], c, fma(view.m[2][1], b, fma(view.m[2][0], a, view.centre[2])));
        px[k] = limit(x[k], view.half[0]);
        py[k] = limit(y[k], view.half[1]);
        pz[k] = limit(z[k], view.half[2]);
        const f32 dx = x[k] - px[k], dy = y[k] - py[k], dz = z[k] - pz[k];
        square[k] = fma(dz, dz, fma(dy, dy, dx * dx));
    }
    const u32 k = number = least(square);
    const vec3 corner{x[k], y[k], z[k]}, point{px[k], py[k], pz[k]};
    if (k < 8) return {point, corner, true};
    const auto turned = [&](vec3 v) {
        return vec3{fma(pair.m[0][2], v.z, fma(pair.m[0][1], v.y, fma(pair.m[0][0], v.x, pair.centre[0]))),
                    fma(pair.m[1][2], v.z, fma(pair.m[1][1], v.y, fma(pair.m[1][0], v.x, pair.centre[1]))),
                    fma(pair.m[2][2], v.z, fma(pair.m[2][1], v.y, fma(pair.m[2][0], v.x, pair.centre[2])))};
    };
    return {turned(corner), turned(point), true};
}

// The points over a face of the box that looks, of axis i, turned to world axes; returns their least separation.
// `columns`: the axes of that box in the world, `offset` from its position to that of the other.
TBS_CALLED f32 clip_face(const BoxPair &pair, u32 i, f32 margin, f32 size, const vec3 (&columns)[3], vec3 offset,
                           bool b_looks, Manifold &manifold) {
    const u32 i1 = after(i), i2 = before(i);
    const f32 side = pair.centre[i] < 0.0f ? -1.0f : 1.0f;
    // The face of the other box that looks most against the normal.
    const f32 c0 = abs(pair.m[i][0]), c1 = abs(pair.m[i][1]), c2 = abs(pair.m[i][2]);
    const u32 j = c0 >= c1 ? (c0 >= c2 ? 0 : 2) : (c1 >= c2 ? 1 : 2);
    const u32 j1 = after(j), j2 = before(j);
    const f32 facing = side * pair.m[i][j] > 0.0f ? -1.0f : 1.0f;
    const auto seen = [&](u32 column, f32 factor) {            // a column of m in u, v, w
        const f32 flipped = side * factor;
        return vec3{pair.m[i1][column] * factor, pair.m[i2][column] * flipped, pair.m[i][column] * flipped};
    };
    const vec3 normal = seen(j, facing);
    const vec3 centre = vec3{pair.centre[i1], side * pair.centre[i2], fma(side, pair.centre[i], -pair.half[i])} +
                        normal * pair.half_other[j];
    const vec3 p = seen(j1, pair.half_other[j1]), q = seen(j2, facing * pair.half_other[j2]);
    const vec3 sum = p + q, difference = p - q;
    const f32 hu = pair.half[i1], hv = pair.half[i2];
    const Polygon<4> incident{4,
                              {centre.x + sum.x, centre.x - difference.x, centre.x - sum.x, centre.x + difference.x},
                              {centre.y + sum.y, centre.y - difference.y, centre.y - sum.y, centre.y + difference.y},
                              {centre.z + sum.z, centre.z - difference.z, centre.z - sum.z, centre.z + difference.z}};
    const Polygon<4> reference{4, {hu, -hu, -hu, hu}, {hv, hv, -hv, -hv}, {0, 0, 0, 0}};
    Candidates<3, 4> points;
    clip(incident, reference, slope_of(normal), 1e-5f * size, points);
    Chosen chosen;
    choose(points, margin, 1e-3f * size, chosen);
    const vec3 up = columns[i] * side, along_u = columns[i1], along_v = columns[i2] * side, base = up * pair.half[i];
    const u32 face = 8 * i + (side > 0.0f ? 4 : 0) + (b_looks ? face_of_b : 0);
    f32 lowest = infinity;
    manifold.count = chosen.count;
    manifold.corners = chosen.corners;
    manifold.normal = b_looks ? -up : up;
    TBS_ROLLED
    for (u32 k = 0; k < chosen.count; ++k) {
        const f32 height = chosen.w[k];
        const vec3 own = base + along_u * chosen.u[k] + along_v * chosen.v[k], other = own + up * height - offset;
        Manifold::Point &point = manifold.points[k];
        point.anchor_a = b_looks ? other : own;
        point.anchor_b = b_looks ? own : other;
        point.separation = height;
        point.feature = face + chosen.slot[k];
        lowest = min(height, lowest);
    }
    return lowest;
}

// Turns the manifold to world axes; `b_looks`: the boxes were seen from b.
TBS_FUNCTION void finish(const BoxPair &view, bool b_looks, const Matrix &frame, Manifold &manifold) {
    to_world(frame, {view.centre[0], view.centre[1], view.centre[2]}, manifold);
    if (!b_looks) return;
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k) manifold.points[k].feature += face_of_b;
    turn_round(manifold);
}

TBS_FUNCTION BoxPair box_pair(const Geometry &a, const Matrix &frame_a, const Geometry &b, const Matrix &frame_b,
                              vec3 offset) {
    const Matrix columns = transpose(frame_a), m = columns * frame_b;
    const vec3 centre = columns * offset;
    return {{{m.x.x, m.x.y, m.x.z, 0}, {m.y.x, m.y.y, m.y.z, 0}, {m.z.x, m.z.y, m.z.z, 0}},
            {centre.x, centre.y, centre.z},
            {a.size.x, a.size.y, a.size.z},
            {b.size.x, b.size.y, b.size.z}};
}

// One point: the corner of the other box that is deepest below a face.
TBS_CALLED void deepest_corner(const BoxPair &pair, const Axis &face, Manifold &manifold) {
    const u32 i = face.first;
    const f32 side = pair.centre[i] < 0.0f ? -1.0f : 1.0f;
    f32 corner[3], n[3] = {0, 0, 0};
    n[i] = side;
    TBS_ROLLED
    for (u32 c = 0; c < 3; ++c) corner[c] = pair.centre[c];
    u32 number = 0;
    TBS_ROLLED
    for (u32 k = 0; k < 3; ++k) {
        const bool up = side * pair.m[i][k] < 0.0f;
        const f32 step = up ? pair.half_other[k] : -pair.half_other[k];
        TBS_ROLLED
        for (u32 c = 0; c < 3; ++c) corner[c] = fma(step, pair.m[c][k], corner[c]);
        number += up ? 1u << k : 0;
    }
    const vec3 normal{n[0], n[1], n[2]}, on_other{corner[0], corner[1], corner[2]};
    one_point(normal, {on_other - normal * face.separation, on_other, true}, face.separation, corner_feature + number,
              manifold);
}

TBS_CALLED void collide_boxes(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                                    f32 margin, Manifold &manifold) {
    const Matrix frame_a = matrix(at_a.rotation), frame_b = matrix(at_b.rotation);
    const vec3 offset = at_b.position - at_a.position;
    const BoxPair from_a = box_pair(a, frame_a, b, frame_b, offset);
    const Axis face_a = best_face(from_a);
    if (!(face_a.separation <= margin)) return;
    const BoxPair from_b = seen_from_other(from_a);
    const Axis face_b = best_face(from_b);
    if (!(face_b.separation <= margin)) return;
    const Axis edges = best_edges(from_a);
    if (edges.separation > margin) return;

    const f32 size = min(min(min(a.size.x, a.size.y), a.size.z), min(min(b.size.x, b.size.y), b.size.z));
    const f32 bias = 2e-3f * size;                             // so that rounding does not decide between equals
    const f32 best_of_faces = max(face_a.separation, face_b.separation);
    const f32 best = max(best_of_faces, edges.separation);
    const bool apart = best > 0.0f;
    const f32 tolerance = fma(2e-5f, abs(best), 1e-5f * size);
    const bool by_edges = edges.separation > best_of_faces + (apart ? tolerance : bias);
    const bool b_first = face_b.separation > face_a.separation + bias;
    if (!by_edges) {
        TBS_NO_UNROLL
        for (u32 attempt = 0; attempt < 2; ++attempt) {
            const bool b_looks = b_first != (attempt == 1);
            const BoxPair &view = b_looks ? from_b : from_a;
            const Axis &face = b_looks ? face_b : face_a;
            if (face.separation < best_of_faces - bias) continue;
            const Matrix &frame = b_looks ? frame_b : frame_a;
            const Matrix axes = transpose(frame);
            const vec3 columns[3] = {axes.x, axes.y, axes.z};
            const vec3 towards = b_looks ? -offset : offset;
            const f32 lowest = clip_face(view, face.first, margin, size, columns, towards, b_looks, manifold);
            // For boxes that are apart an axis gives a least distance: a point at that height over the face proves that
            // it is the distance.
            if (manifold.count != 0 && !(apart && lowest > best + tolerance)) return;
        }
    }
    if (edges.separation >= best - (apart ? tolerance : bias)) {
        vec3 normal;
        const Nearest nearest = nearest_on_edges(from_a, edges, normal);
        if (!apart || nearest.inside) {
            const u32 feature = edge_feature + 4 * edges.first + edges.second;
            one_point(normal, nearest, edges.separation, feature, manifold);
            finish(from_a, false, frame_a, manifold);
            return;
        }
    }
    if (apart) {
        u32 corner;
        const Nearest nearest = nearest_corner(from_a, from_b, corner);
        const vec3 across = nearest.on_other - nearest.on_own;
        const f32 distance = length(across);
        if (distance > margin) return drop(manifold);
        if (distance > 1e-4f * size) {  // less than that says nothing about a direction
            one_point(across / distance, nearest, distance, corner_feature + corner, manifold);
            finish(from_a, false, frame_a, manifold);
            return;
        }
    }
    const BoxPair &view = b_first ? from_b : from_a;
    deepest_corner(view, b_first ? face_b : face_a, manifold);
    finish(view, b_first, b_first ? frame_b : frame_a, manifold);
    return;
}
