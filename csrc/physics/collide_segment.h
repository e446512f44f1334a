// Spheres and capsules against hulls and boxes: a segment, which may be a point, against a polyhedron, then the radius.
#pragma once

#include "physics/collide_hull.h"

// A capsule's core in the frame of the hull: from one end to the other.
struct Segment {
    f32 x[2], y[2], z[2];
    vec3 unit;      // its direction; zero for a point
    f32 length;

    TBS_METHOD vec3 end(u32 i) const { return {x[i], y[i], z[i]}; }
};

// The edge of the hull along whose common normal with the segment the two are furthest apart; only edges whose faces
// lie to both sides of the segment's direction count (see best_edges).
template <class Room>
TBS_FUNCTION Separation best_edge(const Polytope<Room> &hull, const Segment &segment) {
    using Bits = typename Room::Bits;
    Bits against = 0;
    TBS_ROLLED
    for (u32 f = 0; f < hull.hull->faces; ++f) against |= Bits(dot(hull.normal(f), segment.unit) < 0.0f) << f;
    Separation best{-infinity, 0, 0};
    TBS_ROLLED
    for (u32 k = 0; k < hull.hull->edges; ++k) {
        const u32 left = u32(against >> hull.hull->left[k]) & 1, right = u32(against >> hull.hull->right[k]) & 1;
        if (left == right) continue;
        const vec3 to = hull.edge(k), axis = cross(to, segment.unit);
        const f32 square = dot(axis, axis), along = dot(axis, segment.end(0) - hull.tail(k));
        const bool parallel = square <= 1e-6f * dot(to, to);
        const f32 value = parallel ? -infinity : divide(right ? along : -along, sqrt(parallel ? 1.0f : square));
        best = value > best.value ? Separation{value, k, 0} : best;
    }
    return best;
}

// The part of the segment over a face: fractions of its length.
struct Span {
    f32 low, high;
};
template <class Room>
TBS_FUNCTION Span over_face(const Polytope<Room> &hull, u32 face, const Segment &segment, f32 slack) {
    const vec3 normal = hull.normal(face);
    const u32 count = hull.hull->loop_size(face);
    Span span{0.0f, 1.0f};
    vec3 corner = hull.vertex(hull.corner(face, count - 1));
    TBS_ROLLED
    for (u32 k = 0; k < count; ++k) {
        const vec3 next = hull.vertex(hull.corner(face, k)), out = cross(next - corner, normal);
        const f32 allowed = slack * (abs(out.x) + abs(out.y) + abs(out.z));
        const f32 from = dot(segment.end(0) - corner, out) - allowed, to = dot(segment.end(1) - corner, out) - allowed;
        const f32 at = divide(from, from - to);
        if (from > 0.0f) span.low = to > 0.0f ? 2.0f : max(span.low, at);
        if (from <= 0.0f && to > 0.0f) span.high = min(span.high, at);
        corner = next;
    }
    return span;
}

// A contact in the making, in the frame of the hull; the manifold's a is the capsule.
struct RoundContact {
    const Segment &segment;
    f32 radius, margin;
    vec3 outward;               // from the hull
    Manifold &manifold;

    // A point of the segment that is `height` above the hull's surface along `outward`.
    TBS_METHOD void add(vec3 core, f32 height, u32 feature) {
        if (height - radius > margin) return;
        manifold.normal = -outward;
        const vec3 own = core - outward * radius, other = core - outward * height;
        manifold.points[manifold.count++] = {own, other, height - radius, feature};
    }
};

// Points over a face; returns the least height of the core.
template <class Room>
TBS_FUNCTION f32 add_face(const Polytope<Room> &hull, u32 face, f32 size, RoundContact &contact) {
    const Segment &segment = contact.segment;
    const Span span = over_face(hull, face, segment, 1e-5f * size);
    if (!(span.low <= span.high)) return infinity;
    contact.outward = hull.normal(face);
    const auto at = [&](f32 part) { return segment.end(0) + segment.unit * (segment.length * part); };
    const vec3 first = at(span.low), last = at(span.high);
    const f32 offset = hull.offset[face];
    const f32 low = dot(contact.outward, first) - offset, high = dot(contact.outward, last) - offset;
    contact.add(first, low, 4 * face);
    if ((span.high - span.low) * segment.length > 1e-3f * contact.radius) contact.add(last, high, 4 * face + 1);
    return min(low, high);
}

// The edge through a point of the hull that is nearly parallel to the segment, or none.
template <class Room>
TBS_FUNCTION bool parallel_edge(const Polytope<Room> &hull, const Segment &segment, vec3 point, f32 size, u32 &found) {
    f32 least_square = 1e-6f * size * size;
    bool any = false;
    TBS_ROLLED
    for (u32 k = 0; k < hull.hull->edges; ++k) {
        const vec3 to = hull.edge(k), from = point - hull.tail(k), crossed = cross(to, segment.unit);
        const f32 square = dot(to, to);
        if (dot(crossed, crossed) >= 0.01f * square) continue;
        const vec3 off = from - to * clamp(divide(dot(to, from), square), 0.0f, 1.0f);
        const bool nearer = dot(off, off) < least_square;
        found = nearer ? k : found;
        least_square = nearer ? dot(off, off) : least_square;
        any = any || nearer;
    }
    return any;
}

// The point of hull and segment where they are nearest; and where an edge lies along the segment, both ends of the line
// in which they touch.
template <class Room>
TBS_FUNCTION void add_edge(const Polytope<Room> &hull, vec3 on_hull, vec3 on_segment, f32 height, u32 feature, f32 size,
                           RoundContact &contact) {
    const Segment &segment = contact.segment;
    u32 k = 0;
    if (segment.length > 1e-3f * contact.radius && parallel_edge(hull, segment, on_hull, size, k)) {
        const vec3 tail = hull.tail(k), to = hull.edge(k), start = segment.end(0);
        const f32 first = dot(tail - start, segment.unit), last = dot(tail + to - start, segment.unit);
        const f32 low = max(min(first, last), 0.0f), high = min(max(first, last), segment.length);
        if (high - low > 1e-3f * contact.radius) {
            TBS_ROLLED
            for (u32 end = 0; end < 2; ++end) {
                const vec3 core = start + segment.unit * (end ? high : low);
                const vec3 place = tail + to * clamp(divide(dot(core - tail, to), dot(to, to)), 0.0f, 1.0f);
                contact.add(core, dot(core - place, contact.outward), edge_feature + 2 * k + end);
            }
            const u32 count = contact.manifold.count;
            TBS_ROLLED
            for (u32 end = 0; end < count; ++end) {
                if (contact.manifold.points[end].separation <= height - contact.radius + 1e-3f * size) return;
            }
        }
    }
    contact.add(on_segment, height, feature);
}

template <class Room>
TBS_CALLED void collide_segment(const Segment &segment, f32 radius, const Geometry &shape, f32 margin,
                                  Manifold &manifold) {
    Polytope<Room> hull;
    scale(*shape.hull, shape.size, hull);
    const f32 reach = radius + margin;
    const Separation face = best_face(hull, segment.x, segment.y, segment.z, 2);
    if (face.value > reach) return;
    const Separation edge = best_edge(hull, segment);
    if (edge.value > reach) return;

    const f32 size = extent_of(shape), bias = 2e-3f * size, best = max(face.value, edge.value);
    const bool apart = best > 1e-5f * size;
    const f32 tolerance = fma(2e-5f, abs(best), 1e-5f * size);
    const bool by_edge = edge.value > face.value + (apart ? tolerance : bias);
    RoundContact contact{segment, radius, margin, {0, 0, 1}, manifold};
    if (!by_edge) {
        const f32 lowest = add_face(hull, face.first, size, contact);
        if (lowest <= reach && (!apart || lowest <= best + tolerance)) return;
        drop(manifold);
    }
    const vec3 start = segment.end(0);
    if (edge.value >= best - (apart ? tolerance : bias)) {
        const vec3 tail = hull.tail(edge.first), to = hull.edge(edge.first), along = segment.unit * segment.length;
        const Lines lines = nearest_on_lines(tail, to, start, along);
        if (!apart || lines.inside) {
            const u32 left = hull.hull->left[edge.first], right = hull.hull->right[edge.first];
            const bool inward = dot(lines.normal, hull.normal(left) + hull.normal(right)) < 0.0f;
            contact.outward = inward ? -lines.normal : lines.normal;
            return add_edge(hull, tail + to * lines.at_a, start + along * lines.at_b, edge.value,
                            edge_feature + 0x200 + edge.first, size, contact);
        }
    }
    if (apart) {
        // An end of the segment and an edge, or a vertex and the segment.
        f32 square = infinity;
        vec3 on_hull{}, on_segment{};
        u32 number = 0;
        nearest_edge(hull, segment.x, segment.y, segment.z, 2, square, on_hull, on_segment, number);
        f32 squares[Room::vertices], place[Room::vertices];
        TBS_ROLLED
        for (u32 k = 0; k < Room::vertices; ++k) {
            const u32 v = k < hull.hull->vertices ? k : 0;
            const vec3 from = hull.vertex(v) - start;
            place[k] = clamp(dot(from, segment.unit), 0.0f, segment.length);
            const vec3 off = from - segment.unit * place[k];
            squares[k] = dot(off, off);
        }
        const u32 v = least(squares);
        if (squares[v] < square) {
            on_hull = hull.vertex(v);
            on_segment = start + segment.unit * place[v];
            square = squares[v];
            number = 0x1000 + v;
        }
        if (square > reach * reach) return;
        const f32 distance = sqrt(square);
        contact.outward = (on_segment - on_hull) / distance;
        return add_edge(hull, on_hull, on_segment, distance, corner_feature + number, size, contact);
    }
    // Not over the face in whose direction the core comes out first: its deepest end.
    contact.outward = hull.normal(face.first);
    const f32 first = dot(contact.outward, start), last = dot(contact.outward, segment.end(1));
    contact.add(first <= last ? start : segment.end(1), face.value, corner_feature + (first <= last ? 0x2000 : 0x2001));
}

// a is a sphere or a capsule, b a hull or a box.
TBS_FUNCTION void collide_round_hull(const Geometry &a, const Transform &at_a, const Geometry &b,
                                         const Transform &at_b, f32 margin, Manifold &manifold) {
    const Matrix frame = matrix(at_b.rotation), columns = transpose(frame);
    const vec3 offset = columns * (at_a.position - at_b.position);
    const f32 half = a.kind == CAPSULE ? a.size.y : 0.0f;
    const vec3 unit = half > 0.0f ? columns * rotate(vec3{0, 0, 1}, at_a.rotation) : vec3{0, 0, 0};
    const vec3 first = offset - unit * half, last = offset + unit * half;
    const Segment segment{{first.x, last.x}, {first.y, last.y}, {first.z, last.z}, unit, 2.0f * half};
    if (!all_finite(frame, first, last, b.size)) return;
    if (is_small(*b.hull)) {
        collide_segment<Small>(segment, a.size.x, b, margin, manifold);
    } else {
        collide_segment<Large>(segment, a.size.x, b, margin, manifold);
    }
    if (manifold.count == 0) return;
    manifold.normal = frame * manifold.normal;
    TBS_ROLLED
    for (u32 k = 0; k < manifold.count; ++k) {
        Manifold::Point &point = manifold.points[k];
        point.anchor_a = frame * (point.anchor_a - offset);
        point.anchor_b = frame * point.anchor_b;
    }
}
