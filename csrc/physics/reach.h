// What is hit within a step goes on with a part of the speed of what hits it, and what hangs on a body goes with it. So
// bodies near fast ones reach further than by themselves: contacts are looked for as far as they may come.
#pragma once

#include "physics/broad_sorted.h"

// Rounds in which reach spreads, each to the next bodies.
inline constexpr u32 most_spreading_rounds = 16;

// The bounds of a body with its reach.
TBS_FUNCTION Bounds reached(const Hulls &hulls, const Step &step, u32 i, f32 margin) {
    const f32 more = margin + step.reach[i];
    Bounds box = bounds(geometry_of(hulls, step.shape[i]), step.at[i]);
    box.low = box.low - vec3{more, more, more};
    box.high = box.high + vec3{more, more, more};
    return box;
}

TBS_FUNCTION f32 inverse_mass_of(const Step &step, u32 body) {
    const u32 mover = step.mover[body];
    if (step.pushed[body] == 0) return 0.0f;
    return step.solver->body_blocks[mover / block_items].inverse_mass[mover % block_items];
}

// How far body i may come in the step if `by` hits it: momentum is kept, and the greater restitution decides.
TBS_FUNCTION f32 thrown_by(const Step &step, u32 i, u32 by) {
    const f32 own = inverse_mass_of(step, i), other = inverse_mass_of(step, by);
    const f32 bounce = max(step.material[i].restitution, step.material[by].restitution);
    return step.reach[by] * (1.0f + bounce) * divide(own, own + other);
}

// How far a body's surface may come in the step by a joint's motor, in m: neither faster than its target nor with more
// than its greatest force or torque. `time` in s.
TBS_FUNCTION f32 driven_by(const Hulls &hulls, const Step &step, u32 i, u32 other, const SolverJoint &joint, f32 time) {
    const bool turns = (joint.axes & joint_turns) != 0, slides = (joint.axes & joint_slides) != 0;
    if (joint.drive == drive_none || joint.broken != 0 || !(turns || slides)) return 0.0f;
    const u32 mover = step.mover[i];
    const BodyBlock &block = step.solver->body_blocks[mover / block_items];
    const auto inertia = block.inverse_inertia;
    const u32 lane = mover % block_items;
    const f32 response = turns ? inertia[0][lane] + inertia[1][lane] + inertia[2][lane] : block.inverse_mass[lane];
    if (!(response > 0.0f)) return 0.0f;
    const f32 by_force = time * time * joint.greatest * response;
    const vec3 anchor = joint.a == mover ? joint.anchor_a : joint.anchor_b;
    f32 most = time * abs(joint.target);
    if (joint.drive == drive_position) {  // from where it is to the target
        const vec3 apart = other == no_body ? vec3{} : step.at[other].position - step.at[i].position;
        most = turns ? tau : abs(joint.target) + length(apart) + length(joint.anchor_a) + length(joint.anchor_b);
    }
    return min(by_force, most) * (turns ? length(anchor) + radius_of(geometry_of(hulls, step.shape[i])) : 1.0f);
}

// Lets the reach of bodies grow by the motors of their joints.
template <class Group>
TBS_FUNCTION void add_motors(const Hulls &hulls, Step &step, f32 time, Group &group) {
    if (step.solver->joint_count == 0) return;
    group.for_each(step.bodies, [&](u32 i) {
        if (step.pushed[i] == 0) return;
        for (u32 k = 0; k < step.solver->joint_count; ++k) {
            const Pair pair = step.joint_bodies[k];
            if (pair.a != i && pair.b != i) continue;
            step.reach[i] += driven_by(hulls, step, i, pair.a == i ? pair.b : pair.a, step.solver->joints[k], time);
        }
    });
}

// Lets the reach of bodies grow by those that may hit them, and by joints, until it grows by no more than half of the
// margin. Those whose reach has grown are looked at once more.
template <class Group>
TBS_FUNCTION void spread_reach(const Hulls &hulls, Step &step, f32 margin, Group &group) {
    const u32 words = (step.bodies + 31) / 32;
    const f32 least = group.min(step.bodies, infinity, [&](u32 i) { return step.pushed[i] != 0 ? step.reach[i] : infinity; });
    group.for_each(step.bodies, [&](u32 i) { step.thrown[i] = step.reach[i] > least + 0.5f * margin ? step.reach[i] : 0.0f; });
    for (u32 round = 0; round < most_spreading_rounds; ++round) {
        if (!group.any(step.bodies, [&](u32 i) { return step.thrown[i] > 0.0f; })) return;
        group.for_each(words, [&](u32 word) {
            u32 bits = 0;
            for (u32 k = 0; k < 32 && 32 * word + k < step.bodies; ++k) bits |= u32(step.thrown[32 * word + k] > 0.0f) << k;
            step.far_bits[word] = bits;
        });
        group.for_each(step.bodies, [&](u32 i) {
            if (!(step.thrown[i] > 0.0f)) return;
            for (u32 word = 0; word < words; ++word) step.near[i][word] = touching(step.boxes, box_of(step.boxes, i), 32 * word);
        });
        group.for_each(step.bodies, [&](u32 i) {
            f32 most = 0.0f;
            if (step.pushed[i] != 0) {
                for (u32 word = 0; word < words; ++word) {
                    for (u32 left = step.far_bits[word]; left != 0; left &= left - 1) {
                        const u32 by = 32 * word + lowest_bit(left);
                        const bool hits = by != i && (step.near[by][i / 32] >> i % 32 & 1) != 0 && may_collide(step, i, by);
                        if (hits) most = max(most, thrown_by(step, i, by));
                    }
                }
                for (u32 k = 0; k < step.solver->joint_count; ++k) {
                    const Pair pair = step.joint_bodies[k];
                    if (pair.a != i && pair.b != i) continue;
                    const u32 other = pair.a == i ? pair.b : pair.a;
                    if (other != no_body) most = max(most, step.reach[other]);
                }
            }
            step.thrown[i] = most > step.reach[i] + 0.5f * margin ? most : 0.0f;
        });
        group.for_each(step.bodies, [&](u32 i) {
            if (!(step.thrown[i] > 0.0f)) return;
            step.reach[i] = step.thrown[i];
            put_box(step.boxes, i, reached(hulls, step, i, margin));
        });
    }
}
