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
TBS_FUNCTION Shape plane() { return {PLANE, 0, {1.0f, 1.0f, 1.0f}}; }

// Locks of the world's axes: LOCK_X | LOCK_TURN_Z.
inline constexpr i32 LOCK_X = 1, LOCK_Y = 2, LOCK_Z = 4, LOCK_TURN_X = 8, LOCK_TURN_Y = 16, LOCK_TURN_Z = 32;

TBS_FUNCTION Motion dynamic(i32 locks = 0) { return {DYNAMIC, locks, 1.0f, 0.0f}; }
TBS_FUNCTION Motion kinematic() { return {KINEMATIC, 0, 0.0f, 0.0f}; }
TBS_FUNCTION Motion fixed() { return {STATIC, 0, 0.0f, 0.0f}; }

TBS_FUNCTION Pose pose(vec3 position, quat rotation = {1.0f, 0.0f, 0.0f, 0.0f}) { return {position, rotation}; }

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

// The mass of a shape of uniform density in kg/m^3. `simulate` rejects the mass of a plane, and of a density that is
// not positive.
TBS_FUNCTION Mass mass_of_density(const Hulls &hulls, const Shape &shape, f32 density) {
    const Moments m = moments_of(hulls, shape);
    const f32 xx = m.yy + m.zz, yy = m.xx + m.zz, zz = m.xx + m.yy, xy = -m.xy, xz = -m.xz, yz = -m.yz;
    const f32 a = yy * zz - yz * yz, b = xz * yz - xy * zz, c = xy * yz - xz * yy;  // cofactors
    const f32 scale = divide(1.0f, (xx * a + xy * b + xz * c) * density);
    return {divide(1.0f, m.volume * density),
            {scale * a, scale * (xx * zz - xz * xz), scale * (xx * yy - xy * xy), scale * b, scale * c,
             scale * (xy * xz - xx * yz)}};
}

// The mass of a shape of uniform density, by its kg.
TBS_FUNCTION Mass mass_of(const Hulls &hulls, const Shape &shape, f32 kilograms) {
    return mass_of_density(hulls, shape, divide(kilograms, moments_of(hulls, shape).volume));
}

// An empty entity stands for the world. Anchors and axes are in the frame of their body, or the world's.
TBS_FUNCTION quat frame_of_axis(vec3 axis) {  // turns x to the axis; 0, a fault of joints, if that has no direction
    if (!(length_squared(axis) > 0.0f)) return {0.0f, 0.0f, 0.0f, 0.0f};
    const vec3 to = normalize(axis), x{1.0f, 0.0f, 0.0f};
    const f32 w = 1.0f + dot(x, to);
    if (!(w > 1e-6f)) return {0.0f, 0.0f, 0.0f, 1.0f};
    const vec3 turn = cross(x, to);
    return normalize(quat{w, turn.x, turn.y, turn.z});
}

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

// Joints of bodies a and b; an empty entity is the world. Anchors and axes are in the bodies' frames, or the world's. A
// ball turns about all axes, a hinge about its axis; a slider moves along it.
TBS_FUNCTION Joint ball(Entity a, vec3 anchor_a, Entity b, vec3 anchor_b) {
    return joint(BALL, a, anchor_a, {1, 0, 0, 0}, b, anchor_b, {1, 0, 0, 0});
}
TBS_FUNCTION Joint hinge(Entity a, vec3 anchor_a, vec3 axis_a, Entity b, vec3 anchor_b, vec3 axis_b) {
    return joint(HINGE, a, anchor_a, frame_of_axis(axis_a), b, anchor_b, frame_of_axis(axis_b));
}
TBS_FUNCTION Joint slider(Entity a, vec3 anchor_a, vec3 axis_a, Entity b, vec3 anchor_b, vec3 axis_b) {
    return joint(SLIDER, a, anchor_a, frame_of_axis(axis_a), b, anchor_b, frame_of_axis(axis_b));
}
// Holds two bodies at their present poses.
TBS_FUNCTION Joint weld(Entity a, const Pose &at_a, Entity b, const Pose &at_b) {
    const quat back = conjugate(at_a.rotation);
    return joint(FIXED, a, rotate(at_b.position - at_a.position, back), back * at_b.rotation, b, {0, 0, 0}, {1, 0, 0, 0});
}
