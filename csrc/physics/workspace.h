// The rigid-body solver's workspace: bodies, contacts and joints of one world, or of several.
//
// How a step goes (solver.h has `solve`):
//
//     Workspace<64, 256, 16> &w;                           // room for 64 bodies, 256 contacts, 16 joints
//     w.body_count = n;      put_body(w, i, body)          for i < n, from any lane: it writes body i
//     w.contact_count = m;   w.contacts[k] = contact       for k < m
//     w.joint_count = j;     w.joints[k] = joint           for k < j
//     solve(w, group, settings);                           // moves the bodies through settings.time
//     take_body(w, i, body);                               // new pose, velocity, rest; other fields of `body` stay
//     w.contacts[k], w.joints[k]                           // new impulses, `broken`
//
// Write counts inside of group.once. Impulses of contacts and joints, and preloads, are results, from which the next
// step starts: copy them to the contact of the same pair, impulses of points by `take_impulses`. Static and
// kinematic bodies are bodies like others, but static ones may be left out: a contact or joint whose `b` is
// `no_body` is with the ground, which does not move. Contacts between two bodies that are not dynamic are ignored.
//
// Order matters for bits: bodies, contacts and joints in the same order give the same bits, on any device and for any
// group. Several worlds may share one workspace: put the bodies of one behind those of the other, and so contacts and
// joints. Constraints never connect them, and each world's bits are those that it has on its own.
//
// Who includes it defines `sums_friction`: whether the sums of friction over the step are results too.
#pragma once

inline constexpr u32 no_body = 0xffffffffu;
inline constexpr u32 points_per_contact = 4;

// The values of SolverBody::kind.
inline constexpr u32 body_static = 0;     // never moves
inline constexpr u32 body_kinematic = 1;  // moves with its velocity, which nothing changes
inline constexpr u32 body_dynamic = 2;

// A symmetric 3 x 3 matrix.
struct Symmetric {
    f32 xx, yy, zz, xy, xz, yz;
};

// A body as it is put in and taken out. Vectors are in the world's frame.
struct SolverBody {
    vec3 position;              // of the centre of mass, m
    quat rotation;              // from the body's frame to the world's
    vec3 linear, angular;       // velocity, m/s and rad/s
    vec3 acceleration;          // gravity, m/s^2
    vec3 force, torque;         // applied during the whole step, N and N m; the torque about the centre of mass
    f32 inverse_mass;           // 1/kg; 0: cannot be moved
    Symmetric inverse_inertia;  // 1/(kg m^2), about the centre of mass, in the body's frame
    u32 kind;                   // body_static, body_kinematic, body_dynamic
    u32 locks;                  // bits 0, 1, 2: does not move along the world's x, y, z; 3, 4, 5: nor turn about them
    f32 still;                  // s at rest; 0 wakes it
    u32 asleep;                 // result: its island is asleep: all in it have been still for settings.time_to_sleep
};

struct ContactPoint {
    vec3 anchor;      // midway between the two surfaces, in the world's frame from the position of a: far from the
                      // origin a point would be less exact
    f32 separation;   // m along the normal, negative where they overlap
    f32 impulse;      // N s along the normal in the last substep
    u32 feature;      // the same in the next step: for take_impulses
};

// The sum of a contact's friction over the step, where it is wanted.
template <bool wanted>
struct FrictionOfStep {
    vec3 summed;  // result: N s on b
    TBS_METHOD vec3 friction_sum() const { return summed; }
    TBS_METHOD void set_friction_sum(vec3 value) { summed = value; }
};
template <>
struct FrictionOfStep<false> {
    TBS_METHOD vec3 friction_sum() const { return {}; }
    TBS_METHOD void set_friction_sum(vec3) {}
};

// A contact of two bodies, with 1 to 4 points in one plane.
struct SolverContact : FrictionOfStep<sums_friction> {
    u32 a, b;                              // bodies; b may be no_body
    u32 count;                             // of points
    u32 corners;                           // of the face in which the bodies touch; `count` if below that
    f32 static_friction, dynamic_friction; // greatest tangential per normal force: at rest, while sliding; 0 or more
    f32 restitution;                       // 0 .. 1
    vec3 normal;                           // unit, from a to b
    vec3 friction;                         // N s of friction on b in the last substep
    f32 twist;                             // N m s of friction about the normal on b in the last substep
    f32 preload;                           // m by which springs are pressed in before bodies overlap
    f32 total;                             // result: N s along the normal in the whole step, of all points
    ContactPoint points[points_per_contact];
};

// Gives a contact's points the impulses that it had, by features. The impulses of points that are gone push at new ones,
// in equal shares: as a disc spins, other points of its rim bear the load, and one without would shift the middle.
template <class FeatureOf, class ImpulseOf>
TBS_FUNCTION void take_impulses(SolverContact &contact, FeatureOf &&feature, ImpulseOf &&impulse) {
    f32 gone = 0.0f;
    u32 stay = 0, staying = 0;  // bit k: point k has been there; how many have
    TBS_ROLLED
    for (u32 j = 0; j < points_per_contact; ++j) {
        bool stays = false;
        TBS_ROLLED
        for (u32 k = 0; k < contact.count; ++k) {
            if (contact.points[k].feature != feature(j)) continue;
            contact.points[k].impulse = impulse(j);
            staying += 1 - (stay >> k & 1);
            stay |= 1u << k;
            stays = true;
        }
        if (!stays) gone += impulse(j);
    }
    if (staying == contact.count) return;
    const f32 share = divide(gone, f32(contact.count - staying));
    TBS_ROLLED
    for (u32 k = 0; k < contact.count; ++k) {
        if ((stay >> k & 1) == 0) contact.points[k].impulse = share;
    }
}

// Bits of SolverJoint::axes. Frames are at the anchors; their x axis is the joint's axis. Bits 0 to 5: the joint holds
// the motion along x, y, z, the rotation about x, y, z. The axis of one further bit, if any, is driven and limited.
inline constexpr u32 joint_turns = 1u << 6;   // about x
inline constexpr u32 joint_slides = 1u << 7;  // along x
inline constexpr u32 joint_swings = 1u << 8;  // of x: only limited

// N m and rad of a joint that turns or swings, N and m of one that slides: of b relative to a, or on b.
struct SolverJoint {
    u32 a, b;                      // bodies; b may be no_body: then anchor and frame of b are in the world
    u32 axes, limited;             // limited: 1 if `lower` and `upper`, or `cone`, hold
    u32 broken;                    // result: 1 more than the breaking force or torque was needed; it does nothing now
    vec3 anchor_a, anchor_b;       // in the bodies' frames, from their centres of mass, m
    quat frame_a, frame_b;         // from the joint's frame to the bodies'
    f32 lower, upper, cone;        // of the angle (within +- pi) or way; the greatest angle between the x axes
    f32 torque;                    // of a motor
    f32 damping, armature, friction;
    f32 drive_stiffness, drive_damping, drive_target, drive_rate, drive_limit;  // limit: infinity if there is none
    f32 break_force, break_torque; // N, N m; infinity: never. The greatest of substeps, with `along`
    vec3 linear, angular;          // N s, N m s on b in the last substep, without those along or about the axis
    f32 along;                     // N s or N m s along or about it
};

struct Settings {
    f32 time;                          // of the step, s
    u32 substeps;                      // 1 or more
    f32 contact_hertz, contact_damping;  // of the springs that push overlaps out; at most a fifth of a substep's rate
    f32 joint_hertz, joint_damping;    // the same for joints that have drifted
    f32 push_out_speed;                // m/s, the greatest with which overlaps are pushed out
    f32 slop;                          // m of overlap that nothing pushes out
    f32 restitution_speed;             // m/s; slower impacts do not bounce
    u32 sleep;                         // 1: islands at rest fall asleep
    f32 time_to_sleep;                 // s
    f32 still_linear, still_angular;   // m/s, rad/s: slower is at rest
};

TBS_FUNCTION Settings default_settings() {
    return {1.0f / 30.0f, 4, infinity, 7.0f, 60.0f, 5.0f, 3.0f, 0.0f, 1.0f, 0, 0.5f, 0.05f, 0.05f};
}
