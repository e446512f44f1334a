// Shapes against a plane: which of their points are below it or near it.
#pragma once

#include "physics/manifold.h"

// A plane seen from another shape: its normal in world axes, and how high that shape's position is over it.
struct PlaneView {
    Matrix frame;          // of the plane
    vec3 normal, offset;   // offset: from the shape's position to the plane's
    f32 height;
};

TBS_FUNCTION PlaneView plane_view(const Transform &at_a, const Transform &plane) {
    const Matrix frame = matrix(plane.rotation);
    const vec3 normal{frame.x.z, frame.y.z, frame.z.z}, offset = plane.position - at_a.position;
    return {frame, normal, offset, -dot(normal, offset)};
}

// One more point: `anchor` of the shape, `height` over the plane.
TBS_FUNCTION void add_plane_point(const PlaneView &plane, vec3 anchor, f32 height, u32 feature, Manifold &manifold) {
    manifold.points[manifold.count++] = {anchor, anchor - plane.normal * height - plane.offset, height, feature};
}

// A sphere is a capsule without length here.
TBS_FUNCTION void collide_round_plane(const Geometry &a, const Transform &at_a, const Transform &at_b, f32 margin,
                                      Manifold &manifold) {
    const PlaneView plane = plane_view(at_a, at_b);
    const f32 radius = a.size.x, half = a.kind == CAPSULE ? a.size.y : 0.0f;
    const vec3 axis = rotate(vec3{0, 0, half}, at_a.rotation), down = plane.normal * -radius;
    const f32 rise = dot(axis, plane.normal), low = plane.height - radius;
    manifold.normal = -plane.normal;
    if (half <= 1e-3f * radius) {
        if (low <= margin) add_plane_point(plane, down, low, 0, manifold);
    } else {
        if (low - rise <= margin) add_plane_point(plane, down - axis, low - rise, 0, manifold);
        if (low + rise <= margin) add_plane_point(plane, down + axis, low + rise, 1, manifold);
    }
    return;
}

// The corners of the face that looks most downwards; the deepest corner is one of them.
TBS_FUNCTION void collide_box_plane(const Geometry &a, const Transform &at_a, const Transform &at_b, f32 margin,
                                    Manifold &manifold) {
    const PlaneView plane = plane_view(at_a, at_b);
    const Matrix frame = matrix(at_a.rotation), columns = transpose(frame);
    const f32 x = dot(columns.x, plane.normal), y = dot(columns.y, plane.normal), z = dot(columns.z, plane.normal);
    const bool by_x = abs(x) >= abs(y) && abs(x) >= abs(z), by_y = !by_x && abs(y) >= abs(z);
    const u32 i = by_x ? 0 : by_y ? 1 : 2, i1 = by_x ? 1 : by_y ? 2 : 0, i2 = by_x ? 2 : by_y ? 0 : 1;
    const auto picked = [&](const auto &of_x, const auto &of_y, const auto &of_z) {
        return by_x ? of_x : by_y ? of_y : of_z;
    };
    // Half the box along the face's axis, and along the two others; and how much each rises.
    const vec3 half_x = columns.x * a.size.x, half_y = columns.y * a.size.y, half_z = columns.z * a.size.z;
    const f32 rise_x = x * a.size.x, rise_y = y * a.size.y, rise_z = z * a.size.z;
    const vec3 axis = picked(half_x, half_y, half_z), p = picked(half_y, half_z, half_x);
    const vec3 q = picked(half_z, half_x, half_y);
    const f32 rise = picked(rise_x, rise_y, rise_z), rise_p = picked(rise_y, rise_z, rise_x);
    const f32 rise_q = picked(rise_z, rise_x, rise_y);
    const bool up = rise < 0.0f;
    const f32 height = plane.height - abs(rise);
    if (height - abs(rise_p) - abs(rise_q) > margin) return;
    manifold.normal = -plane.normal;
    const vec3 centre = up ? axis : -axis;
    TBS_UNROLL_ON_CPU
    for (u32 k = 0; k < 4; ++k) {
        const vec3 part = k & 1 ? centre + p : centre - p;
        const f32 part_low = k & 1 ? height + rise_p : height - rise_p;
        const f32 low = k & 2 ? part_low + rise_q : part_low - rise_q;
        if (low > margin) continue;
        const u32 corner = (up ? 1u << i : 0) + (k & 1 ? 1u << i1 : 0) + (k & 2 ? 1u << i2 : 0);
        add_plane_point(plane, k & 2 ? part + q : part - q, low, corner, manifold);
    }
}

// Vertices up to the n-th: 16 or 32, for vectors.
template <u32 n>
TBS_CALLED void collide_vertices_plane(const Geometry &a, const Transform &at_a, const Transform &at_b, f32 margin,
                                       Manifold &manifold) {
    const PlaneView plane = plane_view(at_a, at_b);
    const Matrix frame = matrix(at_a.rotation), seen = transpose(plane.frame) * frame;
    const Hull &hull = *a.hull;
    const vec3 along = seen.x * a.size, across = seen.y * a.size, up = seen.z * a.size;
    Candidates<1, n> points;
    points.lanes = n;
    TBS_ROLLED
    for (u32 k = 0; k < n; ++k) {
        const vec3 vertex = hull.vertex(k);
        points.u[0][k] = dot(along, vertex);
        points.v[0][k] = dot(across, vertex);
        points.w[0][k] = k < hull.vertices ? plane.height + dot(up, vertex) : infinity;
    }
    const f32 extent = min(a.size.x, min(a.size.y, a.size.z)) * length(hull.vertex(0));
    Chosen chosen;
    choose(points, margin, 1e-5f * extent, chosen);
    manifold.normal = -plane.normal;
    manifold.corners = chosen.corners;
    TBS_ROLLED
    for (u32 k = 0; k < chosen.count; ++k) {
        const u32 vertex = chosen.number[k];
        add_plane_point(plane, frame * (hull.vertex(vertex) * a.size), chosen.w[k], vertex, manifold);
    }
}

TBS_FUNCTION void collide_hull_plane(const Geometry &a, const Transform &at_a, const Transform &at_b, f32 margin,
                                     Manifold &manifold) {
    if (a.hull->vertices <= 16) return collide_vertices_plane<16>(a, at_a, at_b, margin, manifold);
    collide_vertices_plane<32>(a, at_a, at_b, margin, manifold);
}
