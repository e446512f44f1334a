// Where a ray enters a shape.
//
// Shapes are closed sets: their surface belongs to them, so a ray that only touches hits. A ray is the points origin +
// t * direction with 0 <= t <= reach, and it hits a shape at the least t whose point is in it: 0 if the origin is. So t
// counts in lengths of the direction, which need not be 1. A direction of length 0 asks whether the origin is inside.
//
// Distances are compared as integers: of f32 that are not negative the bits are ordered as the numbers are, of others
// they are negative. So a minimum is one instruction that vectorises, and a negative number says "not at all".
#pragma once

// A ray, and the bodies that it ignores.
struct Ray {
    vec3 origin, direction;
    f32 reach;                        // infinity is allowed; a negative one meets nothing
    u32 mask = ~0u;                   // groups of bodies (physics.Filter)
    i32 ignored = -1, ignored_too = -1;  // bodies
};

// The first body on a ray. Without one: body -1, distance the ray's reach, normal zero.
struct Hit {
    f32 distance;                     // in lengths of the direction
    i32 body;
    vec3 normal;                      // unit; opposite to a ray that begins inside
};

inline constexpr i32 no_body = 0x7fffffff;       // in the place of a body, above all others
inline constexpr i32 missed = 0x7f800000;        // bits of infinity
inline constexpr f32 longest_reach = 0x1p+69f;   // less than the distances below
inline constexpr f32 unbounded = 0x1p+100f;      // half extent of a plane

// Distances of entering and leaving, as bits.
struct Span {
    i32 enter, leave;
};

TBS_FUNCTION i32 as_bits(f32 distance) { return i32(to_bits(distance)); }
TBS_FUNCTION f32 as_distance(i32 bits) { return from_bits(u32(bits)); }
TBS_FUNCTION vec3 size_of(vec3 v) { return {abs(v.x), abs(v.y), abs(v.z)}; }

// A bound of 1 / d for directions whose largest component is `extent`: a power of two, so that a ray along a plane
// stays in it to the bit, and 2^60 times a change, so that the ray leaves slabs that it runs along far beyond any
// reach.
TBS_FUNCTION f32 steepest(f32 extent) {
    const u32 exponent = max(to_bits(extent), to_bits(0x1p-40f)) & 0x7f800000u;
    return from_bits(((60u + 2u * 127u) << 23) - exponent);
}
TBS_FUNCTION f32 steepest(vec3 direction) {
    const vec3 size = size_of(direction);
    return steepest(max(max(size.x, size.y), size.z));
}
TBS_FUNCTION f32 inverse(f32 d, f32 bound) { return copysign(min(abs(divide(1.0f, d)), bound), d); }

// A ray prepared for shapes. It meets shapes that it enters at less than `limit`: the bits of its reach, and 1; or -1
// if a number is not finite or the reach is below 0.
struct Prepared {
    vec3 origin, direction, inverse;
    f32 bound;
    i32 limit;
};

TBS_FUNCTION bool is_finite(vec3 v) { return isfinite(v.x) & isfinite(v.y) & isfinite(v.z); }

TBS_FUNCTION Prepared prepare(vec3 origin, vec3 direction, f32 reach) {
    const f32 bound = steepest(direction);
    const bool sane = is_finite(origin) & is_finite(direction) & (reach >= 0.0f);
    const vec3 i{inverse(direction.x, bound), inverse(direction.y, bound), inverse(direction.z, bound)};
    return {origin, direction, i, bound, sane ? as_bits(min(reach, longest_reach)) + 1 : -1};
}

// Where a ray is between two parallel planes, if its origin is at `place` and they at `low` and -low. `high` is a
// little more than -low, so that touching is in.
TBS_FUNCTION Span slab(f32 place, f32 low, f32 high, f32 inverse) {
    const f32 middle = place * inverse, size = abs(inverse);
    return {as_bits(fma(low, size, -middle)), as_bits(fma(high, size, -middle))};
}
TBS_FUNCTION Span both(Span a, Span b) { return {max(a.enter, b.enter), min(a.leave, b.leave)}; }
// Where it is in the box from `low` to `high`; from 0 on.
TBS_FUNCTION Span slabs(vec3 place, vec3 low, vec3 high, vec3 inverse) {
    const Span s = both(both(slab(place.x, low.x, high.x, inverse.x), slab(place.y, low.y, high.y, inverse.y)),
                        slab(place.z, low.z, high.z, inverse.z));
    return {max(s.enter, 0), s.leave};
}
inline constexpr f32 more = 1.0f + epsilon;

// A shape at its place, made ready for rays.
struct Solid {
    vec3 centre, half;   // an axis-aligned box around it
    vec3 x, y, z;        // rows of a matrix that takes world axes into a frame of the shape: the one in which a box
                         // is the cube +-1; the own one of a capsule or plane
    f32 radius, length;  // of spheres and capsules; half of a capsule's segment
    i32 kind;            // a physics::ShapeKind; or one of these:
    static constexpr i32 aligned_box = 5;  // a box along the axes, which is the box around it
    static constexpr i32 nothing = 6;      // without a place or a size
};

TBS_FUNCTION vec3 into_frame(const Solid &solid, vec3 v) { return {dot(solid.x, v), dot(solid.y, v), dot(solid.z, v)}; }
// The transposed matrix: of a normal in the frame, its direction in world axes.
TBS_FUNCTION vec3 out_of_frame(const Solid &solid, vec3 n) {
    return {dot(vec3{solid.x.x, solid.y.x, solid.z.x}, n), dot(vec3{solid.x.y, solid.y.y, solid.z.y}, n),
            dot(vec3{solid.x.z, solid.y.z, solid.z.z}, n)};
}

TBS_FUNCTION bool has_size(i32 kind, vec3 s) {
    const bool x = (s.x > 0) & (s.x <= largest), y = (s.y > 0) & (s.y <= largest), z = (s.z > 0) & (s.z <= largest);
    const bool round = (kind == physics::SPHERE) | ((kind == physics::CAPSULE) & (y | (s.y == 0)));
    const bool edged = ((kind == physics::BOX) | (kind == physics::HULL)) & y & z;
    return (x & (round | edged)) | (kind == physics::PLANE);
}

// A rotation of length 1; zero becomes no rotation.
TBS_FUNCTION quat unit(quat q) {
    const f32 size = sqrt(dot(q, q));
    const bool zero = !(size > 0);
    const f32 i = divide(1.0f, zero ? 1.0f : size);
    return {zero ? 1.0f : q.w * i, zero ? 0.0f : q.x * i, zero ? 0.0f : q.y * i, zero ? 0.0f : q.z * i};
}

// Half the extents of a hull along world axes, the same to both sides of its place; 0 if its scale is not one.
TBS_FUNCTION vec3 half_extents(const physics::Geometry &shape, quat rotation) {
    const physics::Hull &hull = *shape.hull;
    const physics::Matrix m = physics::matrix(unit(rotation));
    const vec3 s = shape.size, sx = m.x * s, sy = m.y * s, sz = m.z * s;
    vec3 half{0, 0, 0};
    if (!has_size(shape.kind, s)) return half;
    for (u32 i = 0; i < hull.vertices; ++i) {
        const vec3 v = hull.vertex(i);
        half = {max(half.x, abs(dot(sx, v))), max(half.y, abs(dot(sy, v))), max(half.z, abs(dot(sz, v)))};
    }
    return half;
}

// A shape at a place, without branches, for loops over shapes. `s` is its size, or of a hull its half extents. A box
// lies along the axes if it is not turned, or turned about one by half a turn.
TBS_FUNCTION Solid solid_of(i32 kind, vec3 s, vec3 position, quat rotation) {
    const physics::Matrix m = physics::matrix(unit(rotation)), t = physics::transpose(m);
    const bool is_box = kind == physics::BOX;
    const bool straight = (m.x.y == 0) & (m.x.z == 0) & (m.y.x == 0) & (m.y.z == 0) & (m.z.x == 0) & (m.z.y == 0);
    const bool finite = is_finite(position) & is_finite({rotation.x, rotation.y, rotation.z}) & isfinite(rotation.w);
    const bool sound = finite & has_size(kind, s), aligned = is_box & straight;
    const f32 length = kind == physics::CAPSULE ? s.y : 0.0f;
    const auto half_of = [&](vec3 row, f32 along, f32 size) {
        const f32 box = dot(size_of(row), s), round = fma(abs(along), length, s.x);
        const f32 edged = is_box ? box : size;
        const f32 half = (kind == physics::SPHERE) | (kind == physics::CAPSULE) ? round : edged;
        // More than rounding may take away. An aligned box has its half extents to the bit.
        return kind == physics::PLANE ? unbounded : half * (aligned ? 1.0f : 1.0f + 0x1p-16f);
    };
    const auto scaled = [&](vec3 row, f32 size) { return row * (is_box ? divide(1.0f, size) : 1.0f); };
    return {position,
            {half_of(m.x, t.z.x, s.x), half_of(m.y, t.z.y, s.y), half_of(m.z, t.z.z, s.z)},
            scaled(t.x, s.x), scaled(t.y, s.y), scaled(t.z, s.z),
            s.x, s.y,
            !sound ? Solid::nothing : aligned ? Solid::aligned_box : kind};
}

// A face of a hull in world axes about its place: dot(normal, p) <= w.
TBS_FUNCTION vec4 plane_of(const physics::Geometry &shape, const physics::Transform &at, u32 face) {
    const physics::Hull &hull = *shape.hull;
    const vec3 n = hull.normal(face), s = shape.size;
    const vec3 g = physics::matrix(unit(at.rotation)) * vec3{divide(n.x, s.x), divide(n.y, s.y), divide(n.z, s.z)};
    const f32 size = length(g);
    return {divide(g.x, size), divide(g.y, size), divide(g.z, size), divide(hull.offset[face], size)};
}

// ---- where a ray enters, for each kind: bits of a distance that is not negative, or `missed` -----------------------
// `place` is where the ray's origin is, from the shape's centre. Without branches, for loops over rays.

TBS_FUNCTION i32 enter_sphere(vec3 place, vec3 direction, f32 radius) {
    const f32 a = dot(direction, direction), b = -dot(place, direction), r2 = radius * radius;
    const f32 c = dot(place, place) - r2;
    // The distance of centre and line from their difference, not from b * b - a * c, which cancels for small spheres
    // far away (Haines et al. 2019, "Precision improvements for ray/sphere intersection").
    const f32 along = divide(b, a);
    const vec3 d = direction, aside{fma(along, d.x, place.x), fma(along, d.y, place.y), fma(along, d.z, place.z)};
    const f32 rest = r2 - dot(aside, aside);
    const f32 t = divide(c, b + sqrt(a * rest));
    const i32 outside = (b > 0.0f) & (rest >= 0.0f) ? as_bits(t) : missed;
    return c <= 0.0f ? 0 : outside;
}

// In a frame whose z axis is the capsule's. The infinite cylinder first; where that is entered beyond an end, the
// sphere of that end counts.
TBS_FUNCTION i32 enter_capsule(vec3 place, vec3 direction, f32 radius, f32 length) {
    const vec2 p{place.x, place.y}, d{direction.x, direction.y};
    const f32 a = dot(d, d), b = -dot(p, d), r2 = radius * radius, c = dot(p, p) - r2, area = cross(p, d);
    const f32 rest = fma(-area, area, r2 * a);
    const bool inside = c <= 0.0f, meets = inside | ((b > 0.0f) & (rest >= 0.0f));
    const f32 t = inside ? 0.0f : divide(c, b + sqrt(rest));
    const f32 height = fma(t, direction.z, place.z);
    const vec3 from_end{place.x, place.y, place.z - copysign(length, height)};
    const i32 side = abs(height) <= length ? as_bits(t) : enter_sphere(from_end, direction, radius);
    return meets ? side : missed;
}

// In the frame in which the box is the cube +-1.
TBS_FUNCTION i32 enter_box(vec3 place, vec3 direction, f32 bound) {
    const vec3 i{inverse(direction.x, bound), inverse(direction.y, bound), inverse(direction.z, bound)};
    const Span span = slabs(place, {-1, -1, -1}, {more, more, more}, i);
    return span.enter <= span.leave ? span.enter : missed;
}

// A face of a hull as a half space, in world axes: where the ray is in it.
TBS_FUNCTION Span half_space(vec4 plane, vec3 place, vec3 direction, f32 bound) {
    const vec3 normal{plane.x, plane.y, plane.z};
    const f32 speed = dot(normal, direction), i = inverse(speed, bound), height = dot(normal, place);
    const bool enters = speed < 0.0f;
    // How far behind the face the origin lies; for leaving a little more, so that touching is in.
    const f32 t = fma(plane.w, enters ? 1.0f : 1.0f + 2.0f * epsilon, -height) * (enters ? i : abs(i));
    return {enters ? as_bits(t) : as_bits(-infinity), enters ? missed : as_bits(t)};
}

// In a frame whose z axis is the plane's normal.
TBS_FUNCTION i32 enter_plane(f32 height, f32 speed) {
    const i32 outside = speed < 0.0f ? as_bits(divide(-height, speed)) : missed;
    return height <= 0.0f ? 0 : outside;
}

// Where a ray enters a shape, if it does so between `span.enter` and `span.leave`, those of the box around it. The box
// takes part in the answer, so that code that leaves out shapes by their boxes changes no bit of it. `plane(i)` are the
// `faces` of a hull.
template <class Plane>
TBS_FUNCTION i32 enter(const Solid &solid, const Prepared &ray, vec3 place, Span span, u32 faces, Plane &&plane) {
    i32 found = missed;
    if (solid.kind == Solid::aligned_box) {
        found = 0;
    } else if (solid.kind == physics::BOX) {
        found = enter_box(into_frame(solid, place), into_frame(solid, ray.direction), ray.bound);
    } else if (solid.kind == physics::SPHERE) {
        found = enter_sphere(place, ray.direction, solid.radius);
    } else if (solid.kind == physics::CAPSULE) {
        found = enter_capsule(into_frame(solid, place), into_frame(solid, ray.direction), solid.radius, solid.length);
    } else if (solid.kind == physics::PLANE) {
        found = enter_plane(dot(solid.z, place), dot(solid.z, ray.direction));
    } else if (solid.kind == physics::HULL) {
        Span within{0, missed};
        for (u32 i = 0; i < faces; ++i) within = both(within, half_space(plane(i), place, ray.direction, ray.bound));
        found = within.enter <= within.leave ? within.enter : missed;
    }
    found = max(found, span.enter);
    return found <= span.leave ? found : missed;
}

// The normal where a ray has entered a shape at a distance.
template <class Plane>
TBS_FUNCTION vec3 normal_at(const Solid &solid, const Prepared &ray, f32 distance, u32 faces, Plane &&plane) {
    if (distance == 0.0f) return -normalize(ray.direction * steepest(ray.direction) * 0x1p-60f);
    const vec3 place = ray.origin - solid.centre, p = into_frame(solid, place), d = into_frame(solid, ray.direction);
    switch (solid.kind) {
        case physics::SPHERE: return normalize(ray.direction * distance + place);
        case physics::CAPSULE: {
            const vec3 hit = d * distance + p;
            return normalize(out_of_frame(solid, {hit.x, hit.y, hit.z - clamp(hit.z, -solid.length, solid.length)}));
        }
        case physics::PLANE: return solid.z;
        case physics::BOX:
        case Solid::aligned_box: {
            const vec3 i{inverse(d.x, ray.bound), inverse(d.y, ray.bound), inverse(d.z, ray.bound)};
            const f32 x = as_distance(slab(p.x, -1, more, i.x).enter), y = as_distance(slab(p.y, -1, more, i.y).enter);
            const f32 z = as_distance(slab(p.z, -1, more, i.z).enter);
            const bool first = x >= y && x >= z, second = !first && y >= z;
            const vec3 n{first ? -copysign(1.0f, d.x) : 0.0f, second ? -copysign(1.0f, d.y) : 0.0f,
                         first || second ? 0.0f : -copysign(1.0f, d.z)};
            return normalize(out_of_frame(solid, n));
        }
        default: {
            f32 latest = -infinity;
            vec4 face{0, 0, 0, 0};
            for (u32 i = 0; i < faces; ++i) {
                const vec4 one = plane(i);
                const f32 at = as_distance(half_space(one, place, ray.direction, ray.bound).enter);
                if (at > latest) face = one;
                latest = max(latest, at);
            }
            return {face.x, face.y, face.z};
        }
    }
}

// The hit of a ray on one shape, which is body 0.
TBS_FUNCTION Hit cast(const physics::Geometry &shape, const physics::Transform &at, vec3 origin, vec3 direction,
                      f32 reach) {
    const bool is_hull = shape.kind == physics::HULL;
    const vec3 size = is_hull ? half_extents(shape, at.rotation) : shape.size;
    const Solid solid = solid_of(shape.kind, size, at.position, at.rotation);
    const Prepared ray = prepare(origin, direction, reach);
    const auto plane = [&](u32 face) { return plane_of(shape, at, face); };
    const u32 faces = is_hull ? shape.hull->faces : 0;
    const vec3 place = origin - solid.centre;
    const Span box = slabs(place, -solid.half, solid.half * more, ray.inverse);
    const i32 found = enter(solid, ray, place, box, faces, plane);
    if (found >= ray.limit) return {reach, -1, {0, 0, 0}};
    const f32 distance = as_distance(found);
    return {distance, 0, normal_at(solid, ray, distance, faces, plane)};
}
