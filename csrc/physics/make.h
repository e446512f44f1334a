// Functions for authors' systems that make parts of bodies: shapes, masses, materials, joints.
#pragma once

#include "physics/shapes.h"

// All hulls, as torch_batchsim/physics/hulls.py packs them: the cube first, which is that of boxes.
struct HullTable {
    Hull hull[Constants::hulls];
};

TBS_FUNCTION const Hull &hull_in(const Hulls &hulls, u32 number) { return memory_as<HullTable>(hulls).hull[number]; }

// A shape as the narrow phase takes it.
TBS_FUNCTION Geometry geometry_of(const Hulls &hulls, const Shape &shape) {
    const u32 number = shape.kind == HULL ? u32(shape.hull) : 0;
    return {shape.kind, shape.size, &hull_in(hulls, number)};
}

// Shapes. Lengths in metres; see shapes.h.
TBS_FUNCTION Shape sphere(f32 radius) { return {SPHERE, 0, {radius, 0.0f, 0.0f}}; }
TBS_FUNCTION Shape capsule(f32 radius, f32 half_length) { return {CAPSULE, 0, {radius, half_length, 0.0f}}; }
TBS_FUNCTION Shape box(vec3 half_extents) { return {BOX, 0, half_extents}; }
TBS_FUNCTION Shape hull(i32 number, vec3 scale = {1.0f, 1.0f, 1.0f}) { return {HULL, number, scale}; }
TBS_FUNCTION Shape no_shape() { return {NOTHING, 0, {0.0f, 0.0f, 0.0f}}; }
TBS_FUNCTION Shape plane() { return {PLANE, 0, {1.0f, 1.0f, 1.0f}}; }

// Locks of the world's axes: LOCK_X | LOCK_TURN_Z.
inline constexpr i32 LOCK_X = 1, LOCK_Y = 2, LOCK_Z = 4, LOCK_TURN_X = 8, LOCK_TURN_Y = 16, LOCK_TURN_Z = 32;

TBS_FUNCTION Motion dynamic(i32 locks = 0) { return {DYNAMIC, locks, 1.0f, 0.0f}; }
TBS_FUNCTION Motion kinematic() { return {KINEMATIC, 0, 0.0f, 0.0f}; }
TBS_FUNCTION Motion fixed() { return {STATIC, 0, 0.0f, 0.0f}; }

TBS_FUNCTION Pose pose(vec3 position, quat rotation = {1.0f, 0.0f, 0.0f, 0.0f}) { return {position, rotation}; }

// A part of a body, at a place in its frame, and the pose that it has there.
TBS_FUNCTION Part part(Entity body, vec3 position, quat rotation = {1.0f, 0.0f, 0.0f, 0.0f}) {
    return {body, position, rotation};
}
TBS_FUNCTION Pose pose_of(const Part &part, const Pose &body) {
    const Transform at = placed_in({part.position, part.rotation}, {body.position, body.rotation});
    return {at.position, at.rotation};
}

TBS_FUNCTION Material default_material(const World &world) {
    const auto &given = world.parameters.physics;
    return {given.static_friction, given.dynamic_friction, given.restitution};
}

// Volume, and the integrals of xx, yy, zz, xy, xz, yz over it, from which mass and inertia follow.
struct Moments {
    f32 volume, xx, yy, zz, xy, xz, yz;
};

TBS_FUNCTION Moments moments_of(const Hulls &hulls, const Shape &shape) {
    const vec3 s = shape.size;
    switch (shape.kind) {
        case SPHERE: {
            const f32 volume = 4.0f / 3.0f * pi * s.x * s.x * s.x, xx = volume * s.x * s.x * 0.2f;
            return {volume, xx, xx, xx, 0.0f, 0.0f, 0.0f};
        }
        case CAPSULE: {  // a cylinder, and a ball in two halves half a length away
            const f32 r2 = s.x * s.x, round = 4.0f / 3.0f * pi * r2 * s.x, pipe = 2.0f * pi * r2 * s.y;
            const f32 xx = pipe * r2 * 0.25f + round * r2 * 0.2f;
            const f32 zz = pipe * s.y * s.y / 3.0f + round * (0.2f * r2 + s.y * s.y + 0.75f * s.x * s.y);
            return {round + pipe, xx, xx, zz, 0.0f, 0.0f, 0.0f};
        }
        case BOX: {
            const f32 volume = 8.0f * s.x * s.y * s.z, third = volume / 3.0f;
            return {volume, third * s.x * s.x, third * s.y * s.y, third * s.z * s.z, 0.0f, 0.0f, 0.0f};
        }
        case HULL: {
            const f32 *const m = hulls.moments[shape.hull];
            const f32 v = s.x * s.y * s.z;
            return {v * m[0], v * s.x * s.x * m[1], v * s.y * s.y * m[2], v * s.z * s.z * m[3],
                    v * s.x * s.y * m[4], v * s.x * s.z * m[5], v * s.y * s.z * m[6]};
        }
        default: return {};
    }
}

// The mass of a solid with these moments, of so many kg/m^3.
TBS_CALLED Mass mass_of_moments(const Moments &m, f32 density) {
    const f32 xx = m.yy + m.zz, yy = m.xx + m.zz, zz = m.xx + m.yy, xy = -m.xy, xz = -m.xz, yz = -m.yz;
    const f32 a = yy * zz - yz * yz, b = xz * yz - xy * zz, c = xy * yz - xz * yy;  // cofactors
    const f32 scale = divide(1.0f, (xx * a + xy * b + xz * c) * density);
    return {divide(1.0f, m.volume * density),
            {scale * a, scale * (xx * zz - xz * xz), scale * (xx * yy - xy * xy), scale * b, scale * c,
             scale * (xy * xz - xx * yz)}};
}

// The mass of a shape of uniform density in kg/m^3. `simulate` rejects the mass of a plane, and of a density that is
// not positive.
TBS_FUNCTION Mass mass_of_density(const Hulls &hulls, const Shape &shape, f32 density) {
    return mass_of_moments(moments_of(hulls, shape), density);
}

// The mass of a shape of uniform density, by its kg.
TBS_FUNCTION Mass mass_of(const Hulls &hulls, const Shape &shape, f32 kilograms) {
    return mass_of_density(hulls, shape, divide(kilograms, moments_of(hulls, shape).volume));
}

// Sums shapes of uniform density up to one body. Places are in any frame, in which `centre` is that of mass.
struct Assembly {
    f32 kilograms = 0.0f;
    vec3 centre{0.0f, 0.0f, 0.0f};
    Moments moments{};  // about the centre, of mass

    TBS_METHOD void add(const Hulls &hulls, const Shape &shape, f32 kg, vec3 position,
                        quat rotation = {1.0f, 0.0f, 0.0f, 0.0f}) {
        const Moments own = moments_of(hulls, shape);
        const f32 density = divide(kg, own.volume), all = kilograms + kg;
        const Matrix turn = matrix(normalize(rotation));
        const Matrix straight{{own.xx, own.xy, own.xz}, {own.xy, own.yy, own.yz}, {own.xz, own.yz, own.zz}};
        const Matrix turned = turn * straight * transpose(turn);
        const vec3 apart = position - centre, pull = apart * divide(kilograms * kg, all);
        moments.volume = kilograms = all;
        moments.xx += fma(turned.x.x, density, pull.x * apart.x);
        moments.yy += fma(turned.y.y, density, pull.y * apart.y);
        moments.zz += fma(turned.z.z, density, pull.z * apart.z);
        moments.xy += fma(turned.x.y, density, pull.x * apart.y);
        moments.xz += fma(turned.x.z, density, pull.x * apart.z);
        moments.yz += fma(turned.y.z, density, pull.y * apart.z);
        centre += apart * divide(kg, all);
    }
    TBS_METHOD Mass mass() const { return mass_of_moments(moments, 1.0f); }
};

TBS_FUNCTION quat frame_of_axis(vec3 axis) {  // turns x to the axis; 0, a fault of joints, if that has no direction
    if (!(length_squared(axis) > 0.0f)) return {0.0f, 0.0f, 0.0f, 0.0f};
    const vec3 to = normalize(axis), x{1.0f, 0.0f, 0.0f};
    const f32 w = 1.0f + dot(x, to);
    if (!(w > 1e-6f)) return {0.0f, 0.0f, 0.0f, 1.0f};
    const vec3 turn = cross(x, to);
    return normalize(quat{w, turn.x, turn.y, turn.z});
}

// A joint of bodies a and b, with anchors and frames in theirs, or in the world's: at 0 where both frames coincide.
TBS_FUNCTION Joint joint(i32 kind, Entity a, vec3 anchor_a, quat frame_a, Entity b, vec3 anchor_b, quat frame_b) {
    Joint made{};
    made.a = a;
    made.b = b;
    made.kind = kind;
    made.anchor_a = anchor_a;
    made.anchor_b = anchor_b;
    made.frame_a = frame_a;
    made.frame_b = frame_b;
    return made;
}

// The same, at 0 as the bodies stand: anchor and frame are the world's.
TBS_CALLED Joint joint_here(i32 kind, Entity a, const Pose &at_a, Entity b, const Pose &at_b, vec3 anchor,
                              quat frame) {
    const quat back_a = conjugate(at_a.rotation), back_b = conjugate(at_b.rotation);
    const vec3 anchor_a = rotate(anchor - at_a.position, back_a), anchor_b = rotate(anchor - at_b.position, back_b);
    return joint(kind, a, anchor_a, back_a * frame, b, anchor_b, back_b * frame);
}

// Where an empty entity stands, which is the world.
TBS_FUNCTION Pose world_pose() { return {{0.0f, 0.0f, 0.0f}, {1.0f, 0.0f, 0.0f, 0.0f}}; }

// Joints of two bodies as they stand, where they are at 0; anchor and axis are the world's. A ball's limit is a cone
// about its axis.
TBS_FUNCTION Joint hinge(Entity a, const Pose &at_a, Entity b, const Pose &at_b, vec3 anchor, vec3 axis) {
    return joint_here(HINGE, a, at_a, b, at_b, anchor, frame_of_axis(axis));
}
TBS_FUNCTION Joint slider(Entity a, const Pose &at_a, Entity b, const Pose &at_b, vec3 anchor, vec3 axis) {
    return joint_here(SLIDER, a, at_a, b, at_b, anchor, frame_of_axis(axis));
}
TBS_FUNCTION Joint ball(Entity a, const Pose &at_a, Entity b, const Pose &at_b, vec3 anchor,
                        vec3 axis = {1.0f, 0.0f, 0.0f}) {
    return joint_here(BALL, a, at_a, b, at_b, anchor, frame_of_axis(axis));
}
TBS_FUNCTION Joint weld(Entity a, const Pose &at_a, Entity b, const Pose &at_b) {
    const quat back = conjugate(at_a.rotation);
    return joint(FIXED, a, rotate(at_b.position - at_a.position, back), back * at_b.rotation, b, {0, 0, 0}, {1, 0, 0, 0});
}

// How a joint stands between two poses: in the frame of a, the anchor of b and the rotation of b.
TBS_ONE_COPY Pose stand_of(const Joint &joint, const Pose &at_a, const Pose &at_b) {
    const quat frame = at_a.rotation * normalize(joint.frame_a), back = conjugate(frame);
    const vec3 arm_a = rotate(joint.anchor_a, at_a.rotation), arm_b = rotate(joint.anchor_b, at_b.rotation);
    const vec3 gap = at_b.position + arm_b - at_a.position - arm_a;
    return {rotate(gap, back), back * (at_b.rotation * normalize(joint.frame_b))};
}

// The column Joint.angle, of bodies at these poses.
TBS_FUNCTION f32 angle_of(const Joint &joint, const Pose &at_a, const Pose &at_b) {
    const Pose stand = stand_of(joint, at_a, at_b);
    const quat q = stand.rotation;
    if (joint.kind == SLIDER) return stand.position.x;
    if (joint.kind == HINGE) return 2.0f * atan2(q.w < 0.0f ? -q.x : q.x, abs(q.w));
    if (joint.kind != BALL) return 0.0f;
    return 2.0f * atan2(sqrt(q.y * q.y + q.z * q.z), sqrt(q.w * q.w + q.x * q.x));
}

// The column Joint.rate.
TBS_FUNCTION f32 rate_of(const Joint &joint, const Pose &at_a, const Velocity &of_a, const Pose &at_b,
                         const Velocity &of_b) {
    const vec3 x{1.0f, 0.0f, 0.0f}, turning = of_b.angular - of_a.angular;
    const vec3 axis = rotate(x, at_a.rotation * normalize(joint.frame_a));
    if (joint.kind == HINGE) return dot(turning, axis);
    if (joint.kind == SLIDER) {
        const vec3 arm = rotate(joint.anchor_b, at_b.rotation), from_a = at_b.position + arm - at_a.position;
        return dot(of_b.linear + cross(of_b.angular, arm) - of_a.linear - cross(of_a.angular, from_a), axis);
    }
    const vec3 about = cross(axis, rotate(x, at_b.rotation * normalize(joint.frame_b)));
    const f32 sine = length(about);
    return joint.kind == BALL && sine > 1e-6f ? divide(dot(turning, about), sine) : 0.0f;
}

// The column Joint.separation.
TBS_FUNCTION f32 separation_of(const Joint &joint, const Pose &at_a, const Pose &at_b) {
    const vec3 gap = stand_of(joint, at_a, at_b).position;
    return length(vec3{joint.kind == SLIDER ? 0.0f : gap.x, gap.y, gap.z});
}
