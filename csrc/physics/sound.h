// What makes a body sound, and which of its fields is not: `wrong_in` gives the number of the sentence that
// torch_batchsim/physics/library.py declares for the fault.
#pragma once

#include "physics/make.h"

TBS_FUNCTION bool is_finite(f32 x) { return abs(x) < infinity; }
TBS_FUNCTION bool is_finite(vec3 v) { return is_finite(abs(v.x) + abs(v.y) + abs(v.z)); }
TBS_FUNCTION bool is_finite(quat q) { return is_finite(abs(q.w) + abs(q.x) + abs(q.y) + abs(q.z)); }

// Whether a shape is one: a known kind, of finite positive size.
TBS_FUNCTION bool is_shape(const Shape &shape) {
    const vec3 s = shape.size;
    if (!is_finite(s)) return false;
    switch (shape.kind) {
        case SPHERE: return s.x > 0.0f;
        case CAPSULE: return s.x > 0.0f && s.y >= 0.0f;
        case BOX: return s.x > 0.0f && s.y > 0.0f && s.z > 0.0f;
        case HULL: return s.x > 0.0f && s.y > 0.0f && s.z > 0.0f && shape.hull >= 0 && shape.hull < Constants::hulls;
        case PLANE:
        case NOTHING: return true;
        default: return false;
    }
}

TBS_FUNCTION bool is_mass(const Mass &mass) {
    bool finite = is_finite(mass.inverse) && mass.inverse >= 0.0f;
    for (u32 i = 0; i < 6; ++i) finite = finite && is_finite(mass.inverse_inertia[i]);
    for (u32 i = 0; i < 3; ++i) finite = finite && mass.inverse_inertia[i] >= 0.0f;
    const f32 *const m = mass.inverse_inertia;  // xx, yy, zz, xy, xz, yz
    return finite && !(m[3] * m[3] > m[0] * m[1] || m[4] * m[4] > m[0] * m[2] || m[5] * m[5] > m[1] * m[2]);
}

TBS_FUNCTION bool is_material(const Material &material) {
    return is_finite(material.static_friction) && material.static_friction >= 0.0f &&
           is_finite(material.dynamic_friction) && material.dynamic_friction >= 0.0f &&
           material.restitution >= 0.0f && material.restitution <= 1.0f;
}

// Whether a rotation is close to unit length; an unwritten one is 0, and turns nothing.
TBS_FUNCTION bool is_rotation(quat q) {
    const f32 square = q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z;
    return square > 0.5f && square < 2.0f;
}

TBS_FUNCTION u32 wrong_in(const Pose &pose) {
    const quat q = pose.rotation;
    if (!is_finite(pose.position)) return 0;
    return q.w == 0.0f && q.x == 0.0f && q.y == 0.0f && q.z == 0.0f ? 1 : 2;
}

TBS_FUNCTION u32 wrong_in(const Part &part) {
    return 9 + wrong_in(Pose{part.position, part.rotation});
}

TBS_FUNCTION u32 wrong_in(const Velocity &velocity, const Force &force, const Motion &motion) {
    if (!is_finite(velocity.linear)) return 3;
    if (!is_finite(velocity.angular)) return 4;
    if (!is_finite(force.force)) return 5;
    if (!is_finite(force.torque)) return 6;
    return is_finite(motion.still) ? 7 : 8;
}

TBS_FUNCTION u32 wrong_in(const Shape &shape) {
    const vec3 s = shape.size;
    if (u32(shape.kind) > u32(NOTHING)) return 1;
    if (s.x == 0.0f && s.y == 0.0f && s.z == 0.0f) return 0;
    const bool positive = is_finite(s) && s.x > 0.0f && s.y > 0.0f && s.z > 0.0f;
    return shape.kind == HULL && positive ? 3 : 2;
}

TBS_FUNCTION u32 wrong_in(const Mass &mass, const Motion &motion) {
    if (u32(motion.kind) > body_dynamic) return 3;
    if (!is_finite(mass.inverse) || mass.inverse < 0.0f) return 1;
    return mass.inverse == 0.0f && u32(motion.kind) == body_dynamic ? 0 : 2;
}

TBS_FUNCTION u32 wrong_in(const Material &material) {
    const f32 fixed = material.static_friction, moving = material.dynamic_friction;
    if (!is_finite(fixed) || !(fixed >= 0.0f)) return 0;
    return !is_finite(moving) || !(moving >= 0.0f) ? 1 : 2;
}
