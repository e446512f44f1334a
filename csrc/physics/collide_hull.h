// Hulls against hulls (boxes among them), as boxes against boxes: separating axes, and where none has the distance, the
// nearest vertices and edges.
#pragma once

#include "physics/clip.h"
#include "physics/polytope.h"

// A length to measure tolerances by: about the smallest extent.
TBS_FUNCTION f32 extent_of(const Geometry &shape) {
    return min(shape.size.x, min(shape.size.y, shape.size.z)) * length(shape.hull->vertex(0));
}

// Two unit vectors along a face, which turn with its hull, counter-clockwise with its normal.
struct FaceAxes {
    vec3 origin, u, v, normal;

    TBS_METHOD vec3 seen(vec3 point) const {
        const vec3 from = point - origin;
        return {dot(from, u), dot(from, v), dot(from, normal)};
    }
    TBS_METHOD vec3 back(f32 a, f32 b) const { return origin + u * a + v * b; }
};
template <class Room>
TBS_FUNCTION FaceAxes face_axes(const Polytope<Room> &hull, u32 face) {
    const vec3 normal = hull.normal(face), origin = hull.vertex(hull.corner(face, 0));
    const vec3 along = hull.vertex(hull.corner(face, 1)) - origin;
    const vec3 u = normalize(along - normal * dot(along, normal));
    return {origin, u, cross(normal, u), normal};
}

// The loop of a face, seen from a face.
template <u32 n, class Room>
TBS_FUNCTION void polygon_of(const Polytope<Room> &hull, u32 face, const FaceAxes &axes, Polygon<n> &out) {
    const u32 count = hull.hull->loop_size(face);
    out.count = count;
    TBS_ROLLED
    for (u32 k = 0; k < n; ++k) {
        const vec3 seen = axes.seen(hull.vertex(hull.corner(face, k < count ? k : 0)));
        out.u[k] = seen.x;
        out.v[k] = seen.y;
        out.w[k] = seen.z;
    }
}

// The face of a hull that looks most against a direction, of those in which the vertex lies that is furthest against
// it.
template <class Room>
TBS_FUNCTION u32 opposed_face(const Polytope<Room> &hull, vec3 direction, f32 size) {
    const u32 vertices = lanes<Room::vertices>(hull.hull->vertices), faces = lanes<Room::faces>(hull.hull->faces);
    f32 height[Room::vertices];
    TBS_ROLLED
    for (u32 k = 0; k < vertices; ++k) {
        height[k] = fma(hull.z[k], direction.z, fma(hull.y[k], direction.y, hull.x[k] * direction.x));
    }
    const vec3 deepest = hull.vertex(least(height, vertices));
    f32 facing[Room::faces];
    TBS_ROLLED
    for (u32 k = 0; k < faces; ++k) {
        const vec3 normal = hull.normal(k);
        facing[k] = dot(normal, deepest) > hull.offset[k] - 1e-4f * size ? dot(normal, direction) : infinity;
    }
    return least(facing, faces);
}

// The points over face `face` of `own`, where n corners are enough for both faces; returns their least separation.
template <u32 n, class Room>
TBS_CALLED f32 clip_faces(const Polytope<Room> &own, u32 face, const Polytope<Room> &other, u32 incident_face,
                            f32 margin, f32 size, Manifold &manifold) {
    const FaceAxes axes = face_axes(own, face);
    Polygon<n> reference, incident;
    polygon_of(own, face, axes, reference);
    polygon_of(other, incident_face, axes, incident);
    const vec3 normal = other.normal(incident_face);
    const Slope slope = slope_of({dot(normal, axes.u), dot(normal, axes.v), dot(normal, axes.normal)});
    Candidates<3, n> points;
    clip(incident, reference, slope, 1e-5f * size, points);
    Chosen chosen;
    choose(points, margin, 1e-3f * size, chosen);
    manifold.normal = axes.normal;
    manifold.count = chosen.count;
    manifold.corners = chosen.corners;
    f32 lowest = infinity;
    TBS_ROLLED
    for (u32 k = 0; k < chosen.count; ++k) {
        const vec3 on_own = axes.back(chosen.u[k], chosen.v[k]);
        manifold.points[k] = {on_own, on_own + axes.normal * chosen.w[k], chosen.w[k], 4 * face + chosen.slot[k]};
        lowest = min(chosen.w[k], lowest);
    }
    return lowest;
}

template <class Room>
TBS_CALLED f32 clip_hulls(const Polytope<Room> &own, u32 face, const Polytope<Room> &other, f32 margin, f32 size,
                            Manifold &manifold) {
    const u32 incident = opposed_face(other, own.normal(face), size);
    if (own.hull->loop_size(face) <= 4 && other.hull->loop_size(incident) <= 4) {
        return clip_faces<4>(own, face, other, incident, margin, size, manifold);
    }
    return clip_faces<Room::loop>(own, face, other, incident, margin, size, manifold);
}

// Two lines from points `from` and `to`, each along a direction to its end; a normal to both, and where they are
// nearest to each other, kept within the ends.
struct Lines {
    vec3 normal;   // unit; its sign is that of the cross product
    f32 at_a, at_b;
    bool inside;   // nothing had to be kept within
};
TBS_FUNCTION Lines nearest_on_lines(vec3 from, vec3 along_a, vec3 to, vec3 along_b) {
    const vec3 crossed = cross(along_a, along_b), gap = to - from;
    const f32 square = dot(crossed, crossed), aa = dot(along_a, along_a), ab = dot(along_a, along_b);
    const f32 on_a = dot(gap, along_a), on_b = dot(gap, along_b);
    const f32 free_b = divide(fma(ab, on_a, -(aa * on_b)), square), free_a = divide(fma(free_b, ab, on_a), aa);
    const f32 at_b = clamp(free_b, 0.0f, 1.0f), at_a = clamp(divide(fma(at_b, ab, on_a), aa), 0.0f, 1.0f);
    const bool inside = free_a >= -1e-4f && free_a <= 1.0001f && free_b >= -1e-4f && free_b <= 1.0001f;
    return {crossed / sqrt(square), at_a, at_b, inside};
}

// Where two edges are nearest to each other, and the unit normal from a to b.
template <class Room>
TBS_FUNCTION Nearest nearest_on_edges(const Polytope<Room> &a, u32 i, const Polytope<Room> &b, u32 j, vec3 &normal) {
    const vec3 from = a.tail(i), to = b.tail(j);
    const Lines lines = nearest_on_lines(from, a.edge(i), to, b.edge(j));
    const bool inward = dot(lines.normal, a.normal(a.hull->left[i]) + a.normal(a.hull->right[i])) < 0.0f;
    normal = inward ? -lines.normal : lines.normal;
    return {from + a.edge(i) * lines.at_a, to + b.edge(j) * lines.at_b, lines.inside};
}

// One point: the vertex of the other hull that is deepest below a face.
template <class Room>
TBS_CALLED void deepest_vertex(const Polytope<Room> &own, const Separation &face, const Polytope<Room> &other,
                                 Manifold &manifold) {
    const vec3 normal = own.normal(face.first);
    u32 best = 0;
    TBS_ROLLED
    for (u32 k = 1; k < other.hull->vertices; ++k) {
        best = dot(normal, other.vertex(k)) < dot(normal, other.vertex(best)) ? k : best;
    }
    const vec3 on_other = other.vertex(best);
    one_point(normal, {on_other - normal * face.value, on_other, true}, face.value, corner_feature + best, manifold);
}

// The nearest vertex of one hull to an edge of the other, and the place on that edge. Hulls that are apart have this
// distance, or that of a vertex from a face or of two edges within their ends, which an axis finds.
template <class Room>
TBS_CALLED Nearest nearest_vertex(const Polytope<Room> &a, const Polytope<Room> &b, u32 &number) {
    f32 square = infinity;
    Nearest nearest{};
    nearest_edge(a, b.x, b.y, b.z, b.hull->vertices, square, nearest.on_own, nearest.on_other, number);
    if (nearest_edge(b, a.x, a.y, a.z, a.hull->vertices, square, nearest.on_other, nearest.on_own, number)) {
        number += 0x1000;
    }
    return nearest;
}

template <class Room>
TBS_CALLED void collide_polytopes(const Geometry &a, const Geometry &b, const Matrix &turn, vec3 centre, f32 margin,
                                    Manifold &manifold) {
    Polytope<Room> hull_a, hull_b;
    scale(*a.hull, a.size, hull_a);
    scale(*b.hull, b.size, hull_b);
    place(turn, centre, hull_b);
    const Separation face_a = best_face(hull_a, hull_b.x, hull_b.y, hull_b.z, b.hull->vertices);
    if (face_a.value > margin) return;
    const Separation face_b = best_face(hull_b, hull_a.x, hull_a.y, hull_a.z, a.hull->vertices);
    if (face_b.value > margin) return;
    const Separation edges = best_edges(hull_a, hull_b);
    if (edges.value > margin) return;

    const f32 size = min(extent_of(a), extent_of(b)), bias = 2e-3f * size;
    const f32 best_of_faces = max(face_a.value, face_b.value), best = max(best_of_faces, edges.value);
    const bool apart = best > 0.0f;
    const f32 tolerance = fma(2e-5f, abs(best), 1e-5f * size);
    const bool by_edges = edges.value > best_of_faces + (apart ? tolerance : bias);
    const bool b_first = face_b.value > face_a.value + bias;
    const auto by_b = [&](bool turned) {
        if (!turned) return;
        TBS_ROLLED
        for (u32 k = 0; k < manifold.count; ++k) manifold.points[k].feature += face_of_b;
        turn_round(manifold);
    };
    if (!by_edges) {
        TBS_NO_UNROLL
        for (u32 attempt = 0; attempt < 2; ++attempt) {
            const bool b_looks = b_first != (attempt == 1);
            const Separation &face = b_looks ? face_b : face_a;
            if (face.value < best_of_faces - bias) continue;
            const Polytope<Room> &own = b_looks ? hull_b : hull_a, &other = b_looks ? hull_a : hull_b;
            const f32 lowest = clip_hulls(own, face.first, other, margin, size, manifold);
            if (manifold.count == 0 || (apart && lowest > best + tolerance)) continue;  // as in collide_boxes
            return by_b(b_looks);
        }
    }
    if (edges.value >= best - (apart ? tolerance : bias)) {
        vec3 normal;
        const Nearest nearest = nearest_on_edges(hull_a, edges.first, hull_b, edges.second, normal);
        if (!apart || nearest.inside) {
            return one_point(normal, nearest, edges.value, edge_feature + 128 * edges.first + edges.second, manifold);
        }
    }
    if (apart) {
        u32 number = 0;
        const Nearest nearest = nearest_vertex(hull_a, hull_b, number);
        const vec3 across = nearest.on_other - nearest.on_own;
        const f32 distance = length(across);
        if (distance > margin) {
            return drop(manifold);
        }
        if (distance > 1e-4f * size) {
            return one_point(across / distance, nearest, distance, corner_feature + number, manifold);
        }
    }
    deepest_vertex(b_first ? hull_b : hull_a, b_first ? face_b : face_a, b_first ? hull_a : hull_b, manifold);
    by_b(b_first);
}

TBS_FUNCTION void collide_hulls(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                                    f32 margin, Manifold &manifold) {
    const Matrix frame = matrix(at_a.rotation), columns = transpose(frame);
    const Matrix turn = columns * matrix(at_b.rotation);
    const vec3 centre = columns * (at_b.position - at_a.position);
    if (!all_finite(turn, centre, a.size, b.size)) return;
    if (is_small(*a.hull) && is_small(*b.hull)) {
        collide_polytopes<Small>(a, b, turn, centre, margin, manifold);
    } else {
        collide_polytopes<Large>(a, b, turn, centre, margin, manifold);
    }
    if (manifold.count > 0) to_world(frame, centre, manifold);
}
