// Joints: rows of any archetype that has a Joint, as the solver takes them.
#pragma once

#include "physics/parts.h"

// Whether a row is a joint: one with two empty entities is unused.
TBS_FUNCTION bool is_used(const Joint &joint) { return (joint.a || joint.b) && joint.broken == 0; }

// A rotation that the solver can make one of length 1.
TBS_FUNCTION bool is_frame(quat q) {
    return is_finite(q) && q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z > 1e-12f;
}
// At least 0, perhaps infinite.
TBS_FUNCTION bool is_amount(f32 x) { return x >= 0.0f; }

inline constexpr u32 nothing_wrong = 31, anchors_apart = 28;  // as numbers of sentences

// Which of its fields is not sound, as wrong_in of sound.h, or nothing_wrong.
TBS_FUNCTION u32 wrong_in(const Joint &joint) {
    const u32 axes = axes_of(joint.kind);
    const bool turns = (axes & joint_turns) != 0, moves = turns || (axes & joint_slides) != 0;
    const bool swings = (axes & joint_swings) != 0, limited = joint.limited != 0;
    const auto is_finite_amount = [](f32 x) { return is_amount(x) && is_finite(x); };
    if (axes == 0) return 0;
    if (joint.a && joint.a == joint.b) return 1;
    if (!is_finite(joint.anchor_a)) return 2;
    if (!is_finite(joint.anchor_b)) return 3;
    if (!is_frame(joint.frame_a)) return 4;
    if (!is_frame(joint.frame_b)) return 5;
    if (!is_finite(joint.lower)) return 6;
    if (!is_finite(joint.upper)) return 7;
    if (limited && joint.lower > joint.upper) return 8;
    if (limited && turns && (joint.lower < -pi || joint.upper > pi)) return 9;
    if (!is_finite(joint.cone) || (limited && swings && !(joint.cone >= 0.0f && joint.cone <= pi))) return 10;
    if (!is_finite(joint.torque)) return 11;
    if (!is_finite_amount(joint.damping)) return 12;
    if (!is_finite_amount(joint.armature)) return 13;
    if (!is_finite_amount(joint.friction)) return 14;
    if (!is_finite_amount(joint.drive_stiffness)) return 15;
    if (!is_finite_amount(joint.drive_damping)) return 16;
    if (!is_finite(joint.drive_target)) return 17;
    if (turns && joint.drive_stiffness > 0.0f && abs(joint.drive_target) > pi) return 18;
    if (!is_finite(joint.drive_rate)) return 19;
    if (!is_amount(joint.drive_limit)) return 20;
    if (!is_amount(joint.break_force)) return 21;
    if (!is_amount(joint.break_torque)) return 22;
    if (!is_finite(joint.linear)) return 23;
    if (!is_finite(joint.angular)) return 24;
    if (!is_finite(joint.along)) return 25;
    if (limited && !moves && !swings) return 26;
    const bool acts = joint.torque != 0.0f || joint.damping > 0.0f || joint.armature > 0.0f || joint.friction > 0.0f ||
                      joint.drive_stiffness > 0.0f || joint.drive_damping > 0.0f;
    return acts && !moves ? 27 : nothing_wrong;
}

// Whether a joint has borne nothing yet: its row has been made, or assigned anew, since the step before.
TBS_FUNCTION bool is_unsolved(const Joint &joint) {
    const f32 sum = length_squared(joint.linear) + length_squared(joint.angular);
    return sum + abs(joint.along) == 0.0f;
}

// Where a body of the step is, or the world.
TBS_FUNCTION Pose pose_before(const Step &step, u32 body) {
    return body == no_body ? world_pose() : Pose{step.at[body].position, step.at[body].rotation};
}

// The same joint, seen from its other body: b's angle or way relative to a is the opposite of a's relative to b.
TBS_FUNCTION void turn(SolverJoint &row) {
    SolverJoint other = row;
    other.a = row.b, other.b = row.a;
    other.anchor_a = row.anchor_b, other.anchor_b = row.anchor_a;
    other.frame_a = row.frame_b, other.frame_b = row.frame_a;
    other.lower = -row.upper, other.upper = -row.lower;
    other.torque = -row.torque;
    other.drive_target = -row.drive_target, other.drive_rate = -row.drive_rate;
    other.linear = -row.linear, other.angular = -row.angular, other.along = -row.along;
    row = other;
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
    mix(u32(joint.kind)), mix(u32(joint.limited)), mix(u32(joint.collide));
    const f32 numbers[] = {joint.lower, joint.upper, joint.cone, joint.torque, joint.damping, joint.armature,
                           joint.friction,
                           joint.drive_stiffness, joint.drive_damping, joint.drive_target, joint.drive_rate,
                           joint.drive_limit, joint.break_force, joint.break_torque};
    for (const f32 number : numbers) mix(to_bits(number));
    return mark;
}

// The solver's joint of a row.
TBS_FUNCTION SolverJoint solver_joint(const Step &step, const Joint &joint, u32 a, u32 b) {
    SolverJoint row;
    row.a = a == no_body ? no_body : step.mover[a];
    row.b = b == no_body ? no_body : step.mover[b];
    row.axes = axes_of(joint.kind);
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
    row.cone = joint.cone;
    row.torque = joint.torque;
    row.damping = joint.damping;
    row.armature = joint.armature;
    row.friction = joint.friction;
    row.drive_stiffness = joint.drive_stiffness;
    row.drive_damping = joint.drive_damping;
    row.drive_target = joint.drive_target;
    row.drive_rate = joint.drive_rate;
    row.drive_limit = joint.drive_limit > 0.0f ? joint.drive_limit : infinity;
    row.break_force = joint.break_force > 0.0f ? joint.break_force : infinity;
    row.break_torque = joint.break_torque > 0.0f ? joint.break_torque : infinity;
    row.linear = joint.linear;
    row.angular = joint.angular;
    row.along = joint.along;
    return row;
}

// A joint that holds nothing.
TBS_FUNCTION SolverJoint no_joint() {
    SolverJoint row{};
    row.b = no_body;
    row.broken = 1;
    return row;
}

// The values of Step::joint_idle.
inline constexpr u32 joint_works = 0, joint_rests = 1, joint_is_wrong = 2;

// Puts a joint into the step as number `place`.
TBS_CALLED Wrong take_joint(Step &step, const Joint &joint, u32 place, f32 widest, f32 time) {
    const u32 a = joint.a ? body_of(step, joint.a) : no_body, b = joint.b ? body_of(step, joint.b) : no_body;
    const bool found_a = a != no_body || !joint.a, found_b = b != no_body || !joint.b;
    u32 sentence = wrong_in(joint);
    const auto is_pushed = [&](u32 body) { return body != no_body && step.pushed[body] != 0; };
    if (found_a && found_b && sentence == nothing_wrong && is_unsolved(joint) && (is_pushed(a) || is_pushed(b)) &&
        !(separation_of(joint, pose_before(step, a), pose_before(step, b)) <= widest))
        sentence = anchors_apart;
    Wrong wrong{};
    if (!found_a || !found_b) {
        wrong = {Fault::joint_to_nothing, found_a ? 1u : 0u, true};
    } else if (sentence != nothing_wrong) {
        wrong = {Fault::bad_joint, sentence, true};
    }
    step.joint_bodies[place] = {a, b};
    step.joint_collides[place] = joint.collide != 0;
    step.joint_mark[place] = mark_of(joint);
    SolverJoint &row = step.solver.joints[place];
    row = solver_joint(step, joint, a, b);
    step.joint_turned[place] = row.a == no_body;
    if (row.a == no_body) turn(row);  // the solver's first body is one that it knows
    // Between bodies that stand there is nothing to hold.
    step.joint_idle[place] = wrong.is ? joint_is_wrong : row.a == no_body ? joint_rests : joint_works;
    step.joint_drive[place] = 0.0f;
    if (step.joint_idle[place] != joint_works) {
        row = no_joint();
    } else if (row.drive_stiffness > 0.0f || row.drive_damping > 0.0f) {
        const f32 left = joint.drive_target - angle_of(joint, pose_before(step, a), pose_before(step, b));
        step.joint_drive[place] = (row.drive_stiffness > 0.0f ? abs(left) : 0.0f) + abs(row.drive_rate) * time;
    }
    return wrong;
}

// Lists the joints that hold something. Returns whether all of them are sound; else it has reported a fault.
template <class Group>
TBS_FUNCTION bool gather_joints(World &world, Step &step, Group &group) {
    u32 joints = 0;
    const f32 widest = world.parameters.physics.joint_gap;
    world.tables<const Joint>([&](auto table, auto rows) {
        joints += group.scan(
            table.count, [&](u32 i) { return is_used(rows[i]) ? 1u : 0u; },
            [&](u32 i, u32 before) {
                if (!is_used(rows[i])) return;
                const Wrong wrong = take_joint(step, rows[i], joints + before, widest, world.parameters.physics.time);
                if (wrong.is) world.fail(wrong.fault, table.place(i, wrong.sentence));
            });
    });
    group.once([&] { step.solver.joint_count = joints; });
    return joints == 0 || !group.any(joints, [&](u32 i) { return step.joint_idle[i] == joint_is_wrong; });
}

// How far motor and drive bring a body about or along a joint's axis in a step, rad or m, if nothing else holds it: as
// the other body gives way, it is less.
TBS_FUNCTION f32 pushed_way(const Step &step, u32 place, u32 body, f32 square_time) {
    if (body == no_body || step.pushed[body] == 0) return 0.0f;
    const SolverJoint &joint = step.solver.joints[place];
    const u32 mover = step.mover[body], lane = mover % block_items;
    const BodyBlock &block = step.solver.body_blocks[mover / block_items];
    const bool turns = (joint.axes & joint_turns) != 0;
    const auto about_axis = [&] {
        const vec3 x = rotate(vec3{1.0f, 0.0f, 0.0f}, joint.a == mover ? joint.frame_a : joint.frame_b);
        const auto &m = block.inverse_inertia;  // xx, yy, zz, xy, xz, yz
        const f32 mixed = m[3][lane] * x.x * x.y + m[4][lane] * x.x * x.z + m[5][lane] * x.y * x.z;
        return fma(2.0f, mixed, m[0][lane] * x.x * x.x + m[1][lane] * x.y * x.y + m[2][lane] * x.z * x.z);
    };
    const f32 light = turns ? about_axis() : block.inverse_mass[lane];
    if (!(light > 0.0f)) return 0.0f;
    const f32 by_one = divide(square_time * light, fma(joint.armature, light, 1.0f));
    const f32 drive = step.joint_drive[place];
    const f32 pull = min(joint.drive_limit, fma(joint.drive_stiffness, drive, joint.drive_damping * abs(joint.drive_rate)));
    const f32 driven = min(pull * by_one, drive);
    const f32 most = joint.limited != 0 ? joint.upper - joint.lower : turns ? pi : infinity;
    return min(fma(abs(joint.torque), by_one, driven), most);
}

// How far a point at one metre from an axis comes by a turn about it.
TBS_FUNCTION f32 chord(f32 turn) { return 2.0f * sin(0.5f * min(turn, pi)); }

// Adds to bodies' reach how far motors and drives bring them from rest, and children with their parents: of a joint's
// two bodies a is the parent.
template <class Group>
TBS_CALLED void reach_by_motors(const Hulls &hulls, Step &step, const Settings &settings, Group &group) {
    constexpr u32 most_rounds = 4;  // of which one is enough where joints of parents come first
    const SolverJoint *const joints = step.solver.joints;
    const u32 count = step.solver.joint_count;
    const auto acts = [&](u32 k) { return joints[k].torque != 0.0f || step.joint_drive[k] > 0.0f; };
    if (count == 0 || !group.any(count, acts)) return;
    // The way from rest, in substeps that each go on with the speed at their end.
    const f32 share = 0.5f + divide(0.5f, f32(settings.substeps)), square_time = share * settings.time * settings.time;
    vec3 *const more = step.way;  // of each body: x how far its centre goes, y how far it turns, z by its children
    group.for_each(step.bodies, [&](u32 i) { more[i] = {}; });
    group.once([&] {
        const auto arm_of = [&](u32 k, bool of_a) {
            return length(of_a != (step.joint_turned[k] != 0) ? joints[k].anchor_a : joints[k].anchor_b);
        };
        for (u32 k = 0; k < count; ++k) {
            const u32 a = step.joint_bodies[k].a;
            const f32 way = pushed_way(step, k, a, square_time);
            if (way == 0.0f) continue;
            const bool turns = (joints[k].axes & joint_turns) != 0;
            more[a].x += turns ? chord(way) * arm_of(k, true) : way;
            more[a].y += turns ? way : 0.0f;
            more[a].z = more[a].y;
        }
        bool changes = true;
        for (u32 round = 0; changes && round < most_rounds; ++round) {
            changes = false;
            for (u32 k = 0; k < count; ++k) {
                const u32 a = step.joint_bodies[k].a, b = step.joint_bodies[k].b;
                if (b == no_body || step.pushed[b] == 0) continue;
                const f32 way = pushed_way(step, k, b, square_time);
                const bool turns = (joints[k].axes & joint_turns) != 0;
                const vec3 parent = a == no_body ? vec3{} : more[a];
                const f32 turn = min(parent.y + (turns ? way : 0.0f) + more[b].z, pi);
                const f32 at_joint = parent.x + (a == no_body ? 0.0f : chord(parent.y) * arm_of(k, true));
                const f32 far = at_joint + chord(turn) * arm_of(k, false) + (turns ? 0.0f : way);
                changes = changes || far > more[b].x || turn > more[b].y;
                more[b].x = max(more[b].x, far);
                more[b].y = max(more[b].y, turn);
            }
        }
    });
    group.for_each(step.bodies, [&](u32 i) {
        if (step.pushed[i] == 0) return;
        const vec3 own = more[owner_of(step, i)];
        f32 radius = radius_of(geometry_of(hulls, step.shape[i]));
        if (is_part(step, i)) radius += length(step.local[has_parts ? i : 0].position);
        const f32 further = fma(chord(own.y), radius, own.x);
        step.reach_around[i] += further;
        step.reach[i] += further;
    });
}

// Whether a joint that lets them not collide connects two bodies, or those of parts.
TBS_FUNCTION bool is_joined(const Step &step, u32 a, u32 b) {
    bool found = false;
    for (u32 i = 0; i < step.solver.joint_count; ++i) {
        const Pair pair = step.joint_bodies[i];
        const u32 x = owner_of(step, a), y = owner_of(step, b);
        const bool these = (pair.a == x && pair.b == y) || (pair.a == y && pair.b == x);
        found = found || (these && step.joint_collides[i] == 0);
    }
    return found;
}

// Bodies that a joint connects do not collide, unless it says so.
template <class Group>
TBS_FUNCTION void part_jointed(Step &step, Group &group) {
    if constexpr (has_parts) {
        if (step.solver.joint_count == 0) return;
        group.for_each(step.bodies, [&](u32 i) {
            for (u32 word = 0; word < (step.bodies + 31) / 32; ++word) {
                for (u32 left = step.near[i][word]; left != 0; left &= left - 1) {
                    const u32 bit = lowest_bit(left);
                    if (is_joined(step, i, 32 * word + bit)) step.near[i][word] &= ~(1u << bit);
                }
            }
        });
        return;
    }
    group.once([&] {
        for (u32 i = 0; i < step.solver.joint_count; ++i) {
            const Pair pair = step.joint_bodies[i];
            if (step.joint_collides[i] != 0 || pair.a == no_body || pair.b == no_body) continue;
            step.near[pair.a][pair.b / 32] &= ~(1u << pair.b % 32);
            step.near[pair.b][pair.a / 32] &= ~(1u << pair.a % 32);
        }
    });
}

// Writes how a joint stands behind the solver.
TBS_CALLED void measure(const Step &step, Pair bodies, Joint &joint) {
    Pose pose[2];
    Velocity velocity[2];
    for (u32 end = 0; end < 2; ++end) {
        const u32 body = end == 0 ? bodies.a : bodies.b, mover = body == no_body ? no_body : step.mover[body];
        pose[end] = pose_before(step, body);
        velocity[end] = {};
        if (mover == no_body) continue;
        const BodyBlock &block = step.solver.body_blocks[mover / block_items];
        const Vec<f32> linear = load_vec<f32>(block.linear, mover % block_items),
                       angular = load_vec<f32>(block.angular, mover % block_items);
        SolverBody row{};
        row.position = pose[end].position, row.rotation = pose[end].rotation;
        row.linear = {linear.x, linear.y, linear.z}, row.angular = {angular.x, angular.y, angular.z};
        take_body(step.solver, mover, row);
        pose[end] = {row.position, row.rotation};
        velocity[end] = {row.linear, row.angular};
    }
    joint.angle = angle_of(joint, pose[0], pose[1]);
    joint.rate = rate_of(joint, pose[0], velocity[0], pose[1], velocity[1]);
    joint.separation = separation_of(joint, pose[0], pose[1]);
}

// Writes back the impulses of joints for the next step, how they stand, and broken ones.
template <class Group>
TBS_FUNCTION void scatter_joints(World &world, const Step &step, Contacts &kept, Group &group) {
    if (Constants::sleep != 0 && step.solver.joint_count > 0)
        group.for_each(step.bodies, [&](u32 i) { kept.held[Constants::sleep == 0 ? 0 : i] = step.held[i]; });
    group.once([&] { kept.joints = i32(step.solver.joint_count); });
    u32 joints = 0;
    world.tables<Joint>([&](auto table, auto rows) {
        joints += group.scan(
            table.count, [&](u32 i) { return is_used(rows[i]) ? 1u : 0u; },
            [&](u32 i, u32 before) {
                if (!is_used(rows[i])) return;
                const u32 place = joints + before;
                measure(step, step.joint_bodies[place], rows[i]);
                SolverJoint row = step.solver.joints[place];
                if (step.joint_idle[place] != joint_works) return;
                if (step.joint_turned[place] != 0) turn(row);
                Joint &joint = rows[i];
                joint.broken = u8(row.broken);
                joint.linear = row.linear;
                joint.angular = row.angular;
                joint.along = row.along;
            });
    });
}
