// Spheres and capsules: a point or a segment with a radius.
#pragma once

#include "physics/manifold.h"

// One more point of two round shapes, whose cores have the points `core_a` and `core_b`, both from the position of a.
TBS_FUNCTION void add_round_point(vec3 core_a, f32 radius_a, vec3 core_b, f32 radius_b, vec3 offset, u32 feature,
                                  Manifold &manifold) {
    const vec3 normal = manifold.normal;
    Manifold::Point &point = manifold.points[manifold.count++];
    point.anchor_a = core_a + normal * radius_a;
    point.anchor_b = core_b - normal * radius_b - offset;
    point.separation = dot(core_b - core_a, normal) - radius_a - radius_b;
    point.feature = feature;
}

// The direction of a vector, or `instead` where it has none.
TBS_FUNCTION vec3 direction_or(vec3 v, vec3 instead) {
    const f32 square = dot(v, v);
    return square > 1e-30f ? v / sqrt(square) : instead;
}

TBS_FUNCTION void collide_points(vec3 core_a, f32 radius_a, vec3 core_b, f32 radius_b, vec3 offset, vec3 instead,
                                     f32 margin, Manifold &manifold) {
    const vec3 across = core_b - core_a;
    const f32 reach = radius_a + radius_b + margin;
    if (dot(across, across) > reach * reach) return;
    const f32 square = dot(across, across), near = 1e-5f * (radius_a + radius_b);
    manifold.normal = square > near * near ? across / sqrt(square) : instead;
    add_round_point(core_a, radius_a, core_b, radius_b, offset, 0, manifold);
    return;
}

TBS_FUNCTION void collide_spheres(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                                      f32 margin, Manifold &manifold) {
    const vec3 offset = at_b.position - at_a.position;
    collide_points({0, 0, 0}, a.size.x, offset, b.size.x, offset, {0, 0, 1}, margin, manifold);
}

// The half of a capsule's segment, from its middle.
TBS_FUNCTION vec3 arm(const Geometry &capsule, const Transform &at) {
    return rotate(vec3{0, 0, capsule.size.y}, at.rotation);
}

TBS_FUNCTION void collide_sphere_capsule(const Geometry &a, const Transform &at_a, const Geometry &b,
                                             const Transform &at_b, f32 margin, Manifold &manifold) {
    const vec3 offset = at_b.position - at_a.position, axis = rotate(vec3{0, 0, 1}, at_b.rotation);
    const f32 along = clamp(-dot(offset, axis), -b.size.y, b.size.y);
    const vec3 core = offset + axis * along;
    collide_points({0, 0, 0}, a.size.x, core, b.size.x, offset, any_across(axis), margin, manifold);
}

// 1 / x, or 0 for a length that is nothing.
TBS_FUNCTION f32 inverse_of_square(f32 x) { return x > 1e-30f ? divide(1.0f, x) : 0.0f; }

// Two segments, from a middle by an arm to both sides: s arm_a and offset + r arm_b with s and r from -1 to 1.
struct Segments {
    vec3 arm_a, arm_b, offset;
    f32 square_a, square_b, product, on_a, on_b;  // dots of the arms, and of the offset with each

    TBS_METHOD f32 nearest_on_a(f32 r) const {
        return clamp(fma(r, product, on_a) * inverse_of_square(square_a), -1.0f, 1.0f);
    }
    TBS_METHOD f32 nearest_on_b(f32 s) const {
        return clamp(fma(s, product, -on_b) * inverse_of_square(square_b), -1.0f, 1.0f);
    }
    TBS_METHOD vec3 across(f32 s, f32 r) const { return offset + arm_b * r - arm_a * s; }
};

TBS_CALLED void collide_capsules(const Geometry &a, const Transform &at_a, const Geometry &b,
                                       const Transform &at_b, f32 margin, Manifold &manifold) {
    const vec3 offset = at_b.position - at_a.position, arm_a = arm(a, at_a), arm_b = arm(b, at_b);
    const Segments two{arm_a,           arm_b,           offset,          dot(arm_a, arm_a), dot(arm_b, arm_b),
                       dot(arm_a, arm_b), dot(arm_a, offset), dot(arm_b, offset)};
    const vec3 crossed = cross(arm_a, arm_b);
    const f32 determinant = dot(crossed, crossed), squares = two.square_a * two.square_b;
    // Where the lines are nearest, kept within b, then within a, then within b (Ericson 2005, section 5.1.9).
    const bool crossing = determinant > 1e-6f * squares;
    const f32 free = fma(two.product, two.on_a, -(two.square_a * two.on_b));
    f32 r = crossing ? clamp(divide(free, crossing ? determinant : 1.0f), -1.0f, 1.0f) : 0.0f;
    const f32 s = two.nearest_on_a(r);
    r = two.nearest_on_b(s);

    const vec3 across = two.across(s, r);
    const f32 reach = a.size.x + b.size.x + margin, square = dot(across, across);
    if (square > reach * reach) return;
    // Across both, where they are nearest between their ends: that is exact even if they are as good as in one place.
    // If they lie in one line and touch, across that.
    const bool inner = determinant > 1e-4f * squares && abs(s) < 1.0f && abs(r) < 1.0f;
    const f32 core = 1e-5f * (a.size.x + b.size.x);
    const vec3 longer = two.square_a > two.square_b ? arm_a : arm_b;
    const vec3 aside = any_across(direction_or(longer, {0, 0, 1}));
    const vec3 sideways = inner ? crossed / sqrt(determinant) : aside;
    const bool by_distance = !inner && square > core * core;
    manifold.normal = by_distance ? across / sqrt(square) : dot(sideways, across) < 0.0f ? -sideways : sideways;

    // Nearly parallel ones touch in a line: at its ends too.
    const f32 lowest = dot(across, manifold.normal);
    bool between = true;
    if (determinant < 0.01f * squares) {
        const f32 inverse = inverse_of_square(two.square_a), slant = two.product * inverse, middle = two.on_a * inverse;
        const f32 low = max(middle - abs(slant), -1.0f), high = min(middle + abs(slant), 1.0f);
        for (u32 end = 0; end < 2 && low < high; ++end) {
            const f32 own = end ? high : low, other = two.nearest_on_b(own);
            const f32 height = dot(two.across(own, other), manifold.normal);
            if (height > reach) continue;
            between = between && height > lowest + 1e-3f * (a.size.x + b.size.x);
            add_round_point(arm_a * own, a.size.x, offset + arm_b * other, b.size.x, offset, 1 + end, manifold);
        }
    }
    if (between) add_round_point(arm_a * s, a.size.x, offset + arm_b * r, b.size.x, offset, 0, manifold);
    return;
}

TBS_CALLED void collide_sphere_box(const Geometry &a, const Transform &at_a, const Geometry &b,
                                         const Transform &at_b, f32 margin, Manifold &manifold) {
    const Matrix frame = matrix(at_b.rotation);
    const vec3 offset = at_b.position - at_a.position, centre = transpose(frame) * -offset, half = b.size;
    const vec3 point{clamp(centre.x, -half.x, half.x), clamp(centre.y, -half.y, half.y),
                     clamp(centre.z, -half.z, half.z)};
    const vec3 out = centre - point;
    const f32 radius = a.size.x, reach = radius + margin, square = dot(out, out);
    if (square > reach * reach) return;
    // The nearest face, for a centre inside of the box, or so near to it that its direction says nothing.
    const f32 x = abs(centre.x) - half.x, y = abs(centre.y) - half.y, z = abs(centre.z) - half.z;
    const bool by_x = x >= y && x >= z, by_y = !by_x && y >= z, by_z = !by_x && !by_y;
    const vec3 face{by_x ? copysign(1.0f, centre.x) : 0.0f, by_y ? copysign(1.0f, centre.y) : 0.0f,
                    by_z ? copysign(1.0f, centre.z) : 0.0f};
    const f32 near = 1e-5f * radius;
    const bool outside = square > near * near;
    const vec3 outward = outside ? out / sqrt(outside ? square : 1.0f) : face;
    const f32 height = outside ? dot(out, outward) : max(x, max(y, z));
    manifold.normal = frame * -outward;
    manifold.count = 1;
    manifold.points[0] = {manifold.normal * radius, frame * (centre - outward * height), height - radius, 0};
    return;
}
