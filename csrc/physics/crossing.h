// Where a point that goes along a straight line enters a shape, and how deep it gets: in the shape's frame.
#pragma once

#include "physics/manifold.h"

// A way from one point to another, as it crosses a shape.
struct Crossing {
    f32 enter;   // the share of the way at which it enters, 0 where it begins inside; above 1 where it stays outside
    f32 before;  // how deep it is at the begin and at the end, behind the face by which it enters or, where it begins
    f32 after;   // inside, behind the nearest face: metres, negative in front of it
};
inline constexpr Crossing no_crossing{2.0f, 0.0f, 0.0f};

// A ball of this radius about a shape's origin lies within the shape. (The greatest such ball, but for hulls that are
// scaled differently along their axes.)
TBS_ONE_COPY f32 inner_radius(const Geometry &shape) {
    const vec3 s = shape.size;
    switch (shape.kind) {
        case SPHERE:
        case CAPSULE: return s.x;
        case BOX: return min(s.x, min(s.y, s.z));
        case HULL: {
            i32 least = i32(to_bits(infinity));  // offsets are positive, and so ordered as their bits are
            const u32 faces = lanes<64>(shape.hull->faces);
            TBS_ROLLED
            for (u32 k = 0; k < faces; ++k) least = min(least, i32(to_bits(shape.hull->offset[k])));
            return min(s.x, min(s.y, s.z)) * from_bits(u32(least));
        }
        default: return infinity;
    }
}

// A convex shape is where a point is behind all of its faces (Cyrus and Beck 1978, "Generalized two- and three-
// dimensional clipping").
struct Passage {
    f32 enter = -1.0f, leave = 1.0f, before = -infinity, after = 0.0f;

    // One more face, and how far in front of it the way begins and ends.
    TBS_METHOD void face(f32 from, f32 to) {
        if (from > 0.0f && to > 0.0f) {
            leave = -2.0f;
        } else if (from > 0.0f) {
            const f32 at = divide(from, from - to);
            if (at <= enter) return;
            enter = at, before = from, after = to;
        } else {
            if (to > 0.0f) leave = min(leave, divide(from, from - to));
            if (enter >= 0.0f || from <= before) return;
            before = from, after = to;
        }
    }
    TBS_METHOD Crossing crossing() const {
        if (!(enter <= leave)) return no_crossing;
        return {max(enter, 0.0f), -before, -after};
    }
};

TBS_FUNCTION Crossing cross_box(vec3 half, vec3 from, vec3 to) {
    Passage passage;
    passage.face(from.x - half.x, to.x - half.x);
    passage.face(-from.x - half.x, -to.x - half.x);
    passage.face(from.y - half.y, to.y - half.y);
    passage.face(-from.y - half.y, -to.y - half.y);
    passage.face(from.z - half.z, to.z - half.z);
    passage.face(-from.z - half.z, -to.z - half.z);
    return passage.crossing();
}

TBS_FUNCTION Crossing cross_hull(const Hull &hull, vec3 scale, vec3 from, vec3 to) {
    Passage passage;
    const vec3 inverse{divide(1.0f, scale.x), divide(1.0f, scale.y), divide(1.0f, scale.z)};
    TBS_ROLLED
    for (u32 k = 0; k < hull.faces; ++k) {
        const vec3 normal = hull.normal(k) * inverse;
        const f32 unit = divide(1.0f, length(normal)), offset = hull.offset[k];
        passage.face((dot(normal, from) - offset) * unit, (dot(normal, to) - offset) * unit);
    }
    return passage.crossing();
}

// The share of a way at which a point that is at `place` comes into a ball about the origin; above 1 if it does not.
TBS_FUNCTION f32 enter_ball(vec3 place, vec3 way, f32 radius) {
    const f32 a = dot(way, way), b = -dot(place, way);
    // The distance of centre and line from their difference: b * b - a * c would cancel for small balls far away.
    const vec3 aside = place + way * divide(b, a);
    const f32 rest = radius * radius - dot(aside, aside);
    if (!(b > 0.0f && rest >= 0.0f)) return no_crossing.enter;
    return divide(dot(place, place) - radius * radius, b + sqrt(a * rest));
}

// A capsule along z; a sphere is one without a length. The infinite pipe first: where that is entered beyond an end,
// what counts is the ball at that end.
TBS_FUNCTION Crossing cross_capsule(f32 radius, f32 half, vec3 from, vec3 to) {
    const auto core = [&](vec3 p) { return vec3{0.0f, 0.0f, clamp(p.z, -half, half)}; };
    const auto seen = [&](f32 enter, vec3 at) {  // the plane through the surface below `at` is the face
        const f32 size = length(at - core(at));
        const vec3 normal = size > 0.0f ? (at - core(at)) / size : vec3{1.0f, 0.0f, 0.0f};
        return Crossing{enter, radius - dot(normal, from - core(at)), radius - dot(normal, to - core(at))};
    };
    if (length_squared(from - core(from)) <= radius * radius) return seen(0.0f, from);
    const vec3 way = to - from;
    const vec2 place{from.x, from.y}, aside{way.x, way.y};
    const f32 a = dot(aside, aside), b = -dot(place, aside), c = dot(place, place) - radius * radius;
    f32 enter = 0.0f;
    if (c > 0.0f) {
        const f32 area = cross(place, aside), rest = fma(radius * radius, a, -(area * area));
        if (!(b > 0.0f && rest >= 0.0f)) return no_crossing;
        enter = divide(c, b + sqrt(rest));
    }
    const f32 height = fma(enter, way.z, from.z);
    if (abs(height) > half || c <= 0.0f) {
        const f32 end = copysign(half, height);
        enter = enter_ball({from.x, from.y, from.z - end}, way, radius);
    }
    return enter <= 1.0f ? seen(enter, from + way * enter) : no_crossing;
}

TBS_FUNCTION Crossing crossing_of(const Geometry &shape, vec3 from, vec3 to) {
    switch (shape.kind) {
        case SPHERE: return cross_capsule(shape.size.x, 0.0f, from, to);
        case CAPSULE: return cross_capsule(shape.size.x, shape.size.y, from, to);
        case BOX: return cross_box(shape.size, from, to);
        case HULL: return cross_hull(*shape.hull, shape.size, from, to);
        default: {
            Passage passage;
            passage.face(from.z, to.z);
            return passage.crossing();
        }
    }
}
