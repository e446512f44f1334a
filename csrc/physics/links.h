// Joints: rows of any archetype that has a Joint, as the solver takes them.
#pragma once

#include "physics/gather.h"

static_assert(u32(FREE) == drive_none && u32(TO_VELOCITY) == drive_velocity && u32(TO_POSITION) == drive_position);

// The number of the body with a handle, or no_body.
TBS_FUNCTION u32 body_of(const Step &step, Entity entity) {
    u32 found = no_body;
    for (u32 i = 0; i < step.bodies; ++i) found = step.entity[i] == entity ? i : found;
    return found;
}

// Whether a row is a joint: one with two empty entities is unused.
TBS_FUNCTION bool is_used(const Joint &joint) { return (joint.a || joint.b) && joint.broken == 0; }

TBS_FUNCTION bool is_sound(const Joint &joint) {
    return is_finite(joint.anchor_a) && is_finite(joint.anchor_b) && is_finite(joint.frame_a) && is_finite(joint.frame_b) &&
           is_finite(joint.lower) && is_finite(joint.upper) && is_finite(joint.target) && !(joint.greatest < 0.0f) &&
           axes_of(joint.kind) != 0 && u32(joint.drive) <= drive_position;
}

// Which of its fields is not sound, as wrong_in of sound.h.
TBS_FUNCTION u32 wrong_in(const Joint &joint) {
    if (axes_of(joint.kind) == 0) return 0;
    if (u32(joint.drive) > drive_position) return 1;
    if (!is_finite(joint.anchor_a) || !is_finite(joint.anchor_b)) return 2;
    if (!is_finite(joint.frame_a) || !is_finite(joint.frame_b)) return 3;
    if (!is_finite(joint.lower) || !is_finite(joint.upper)) return 4;
    return is_finite(joint.target) ? 6 : 5;
}

// The same joint, seen from its other body: b's angle or way relative to a is the opposite of a's relative to b.
TBS_FUNCTION void turn(SolverJoint &row) {
    row = {row.b, row.a, row.axes, row.drive, row.limited, row.broken, row.anchor_b, row.anchor_a, row.frame_b, row.frame_a,
           -row.upper, -row.lower, -row.target, row.greatest, row.hertz, row.damping, row.break_force, row.break_torque,
           -row.linear, -row.angular, -row.motor, row.high, row.low};
}

// A number for all that an author says of a joint: two that say the same have the same one, others hardly ever.
TBS_FUNCTION u32 mark_of(const Joint &joint) {
    u32 mark = 1;
    const auto mix = [&](u32 word) {
        mark = (mark ^ word) * 0x9e3779b1u;
        mark ^= mark >> 15;
    };
    const auto mix_vector = [&](vec3 v) { mix(to_bits(v.x)), mix(to_bits(v.y)), mix(to_bits(v.z)); };
    const auto mix_rotation = [&](quat q) { mix(to_bits(q.w)), mix_vector({q.x, q.y, q.z}); };
    const auto mix_entity = [&](Entity entity) {
        mix(entity.table), mix(entity.birth.tick), mix(entity.birth.order);
    };
    mix_entity(joint.a), mix_entity(joint.b);
    mix_vector(joint.anchor_a), mix_vector(joint.anchor_b);
    mix_rotation(joint.frame_a), mix_rotation(joint.frame_b);
    mix(u32(joint.kind)), mix(u32(joint.drive)), mix(u32(joint.limited)), mix(u32(joint.collide));
    const f32 numbers[] = {joint.lower, joint.upper, joint.target, joint.greatest, joint.hertz, joint.damping};
    for (const f32 number : numbers) mix(to_bits(number));
    return mark;
}

// The solver's joint of a row.
TBS_FUNCTION SolverJoint solver_joint(const Step &step, const Joint &joint, u32 a, u32 b) {
    SolverJoint row;
    row.a = a == no_body ? no_body : step.mover[a];
    row.b = b == no_body ? no_body : step.mover[b];
    row.axes = axes_of(joint.kind);
    row.drive = u32(joint.drive);
    row.limited = u32(joint.limited);
    row.broken = 0;
    // The solver knows standing bodies as the world: anchors there are places.
    const auto anchor = [&](u32 body, u32 mover, vec3 local) {
        return body == no_body || mover != no_body ? local : step.at[body].position + rotate(local, step.at[body].rotation);
    };
    const auto frame = [&](u32 body, u32 mover, quat local) {
        return body == no_body || mover != no_body ? local : step.at[body].rotation * local;
    };
    row.anchor_a = anchor(a, row.a, joint.anchor_a);
    row.anchor_b = anchor(b, row.b, joint.anchor_b);
    row.frame_a = normalize(frame(a, row.a, joint.frame_a));
    row.frame_b = normalize(frame(b, row.b, joint.frame_b));
    row.lower = joint.lower;
    row.upper = joint.upper;
    row.target = joint.target;
    row.greatest = joint.greatest;
    row.hertz = joint.hertz;
    row.damping = joint.damping;
    row.break_force = joint.break_force > 0.0f ? joint.break_force : infinity;
    row.break_torque = joint.break_torque > 0.0f ? joint.break_torque : infinity;
    row.linear = joint.linear;
    row.angular = joint.angular;
    row.motor = joint.motor;
    row.low = joint.low;
    row.high = joint.high;
    return row;
}

// A joint that holds nothing.
TBS_FUNCTION SolverJoint no_joint() {
    SolverJoint row{};
    row.b = no_body;
    row.broken = 1;
    return row;
}

// Lists the joints that hold something. A joint to a missing body, or with undefined numbers, is a fault.
template <class Group>
TBS_FUNCTION void gather_joints(World &world, Step &step, Group &group) {
    u32 joints = 0;
    world.tables<const Joint>([&](auto table, auto rows) {
        joints += group.scan(
            table.count, [&](u32 i) { return is_used(rows[i]) ? 1u : 0u; },
            [&](u32 i, u32 before) {
                const Joint &joint = rows[i];
                if (!is_used(joint)) return;
                const u32 a = joint.a ? body_of(step, joint.a) : no_body, b = joint.b ? body_of(step, joint.b) : no_body;
                const bool there = (a != no_body || !joint.a) && (b != no_body || !joint.b);
                if (!there) world.fail(Fault::joint_to_nothing, table.place(i, a != no_body || !joint.a ? 1 : 0));
                if (!is_sound(joint)) world.fail(Fault::bad_joint, table.place(i, wrong_in(joint)));
                const u32 place = joints + before;
                step.joint_bodies[place] = {a, b};
                step.joint_collides[place] = joint.collide != 0;
                step.joint_mark[place] = mark_of(joint);
                SolverJoint &row = step.solver->joints[place];
                row = solver_joint(step, joint, a, b);
                step.joint_turned[place] = row.a == no_body;
                if (row.a == no_body) turn(row);  // the solver's first body is one that it knows
                // Between bodies that stand there is nothing to hold.
                step.joint_idle[place] = !there || !is_sound(joint) || row.a == no_body;
                if (step.joint_idle[place] != 0) row = no_joint();
            });
    });
    group.once([&] { step.solver->joint_count = joints; });
}

// Bodies that a joint connects do not collide, unless it says so.
template <class Group>
TBS_FUNCTION void part_jointed(Step &step, Group &group) {
    group.once([&] {
        for (u32 i = 0; i < step.solver->joint_count; ++i) {
            const Pair pair = step.joint_bodies[i];
            if (step.joint_collides[i] != 0 || pair.a == no_body || pair.b == no_body) continue;
            step.near[pair.a][pair.b / 32] &= ~(1u << pair.b % 32);
            step.near[pair.b][pair.a / 32] &= ~(1u << pair.a % 32);
        }
    });
}

// Writes back the impulses of joints for the next step, and broken ones.
template <class Group>
TBS_FUNCTION void scatter_joints(World &world, const Step &step, Contacts &kept, Group &group) {
    if (Constants::sleep != 0 && step.solver->joint_count > 0)
        group.for_each(step.bodies, [&](u32 i) { kept.held[Constants::sleep == 0 ? 0 : i] = step.held[i]; });
    group.once([&] { kept.joints = i32(step.solver->joint_count); });
    u32 joints = 0;
    world.tables<Joint>([&](auto table, auto rows) {
        joints += group.scan(
            table.count, [&](u32 i) { return is_used(rows[i]) ? 1u : 0u; },
            [&](u32 i, u32 before) {
                if (!is_used(rows[i])) return;
                const u32 place = joints + before;
                SolverJoint row = step.solver->joints[place];
                if (step.joint_idle[place] != 0) return;
                if (step.joint_turned[place] != 0) turn(row);
                Joint &joint = rows[i];
                joint.broken = i32(row.broken);
                joint.linear = row.linear;
                joint.angular = row.angular;
                joint.motor = row.motor;
                joint.low = row.low;
                joint.high = row.high;
            });
    });
}
