// Joints as constraints: up to six soft equations solved at once, and what acts along or about the axis (joint_axis.h).
//
// Both bodies are pushed at the same place, the anchor of b, so a joint that has drifted keeps angular momentum. The
// passes of a substep are in joint_passes.h.
#pragma once

#include "physics/contacts.h"

inline constexpr f32 no_limit = 1e9f;
inline constexpr u32 tree_row = 24;  // of a body: 21 numbers of a symmetric matrix; impulses (6); changes of velocity (6)

struct JointBlock {
    u32 a[block_items], b[block_items];
    f32 anchor_a[3][block_items], anchor_b[3][block_items], frame_a[4][block_items], frame_b[4][block_items];
    f32 apart[3][block_items];                    // from a to b when the step began
    f32 rows[6][block_items];                     // 1: held; along and about x, y, z
    f32 turns[block_items], slides[block_items];  // 1: has an axis about which, along which something acts
    f32 way[block_items];                         // angle when the step began
    f32 cone_sine[block_items], cone_cosine[block_items];  // of a limited ball; else both are 0
    // Of a substep: of motor, inertia, damping, drive, dry friction (see AxisLaw).
    f32 lower[block_items], upper[block_items], effort[block_items], armature[block_items], drag[block_items];
    f32 drive_push[block_items], drive_stiffness[block_items], drive_drag[block_items], most[block_items];
    f32 dry[block_items];
    f32 works[block_items];  // 0: broken
    // In a substep:
    f32 axes[9][block_items], arm_a[3][block_items], arm_b[3][block_items], error[6][block_items];
    f32 beyond[6][block_items];  // their change by motion in the substep beyond that of velocities, per second
    f32 distance[block_items], begun[block_items];  // angle or way, now and when the substep began
    f32 rate[block_items];                          // when it began
    f32 strays[block_items];                             // 1: `beyond` still changes from round to round
    f32 factor[15][block_items], pivot[6][block_items];
    f32 axis_mass[block_items],
        by_axis[6][block_items];  // with the equations held; impulses that hold them against a unit impulse
    f32 impulse[6][block_items], late[6][block_items];  // world's frame: linear, angular; before and after moving
    f32 along[block_items];  // impulse along or about the axis
    f32 force_squared[block_items], torque_squared[block_items];  // impulses: the greatest of all substeps
    // In a tree: rows of the bodies; 1: the child is b, -1: it is a, 0: the joint is in none; 1: the parent gives way.
    u32 child[block_items], parent[block_items];
    f32 side[block_items], hangs[block_items];
    f32 soft[block_items];  // 1: gives way, or joints that contradict each other would never come to an end
    f32 hold[block_items], aim[block_items], slope[block_items], push[block_items];  // see AxisMode
    f32 active[block_items];   // 1: its tree is to be solved, 0: it has been
    f32 changed[block_items];  // 2: its equations did, 1: only their right side
    f32 articulated[21][block_items];  // swept, see joint_tree.h
    f32 axis_inertia[block_items], share[block_items], speed[block_items];
    f32 wanted[6][block_items], given[block_items];
};

template <class W>
TBS_FUNCTION Rotation<f32> load_row_rotation(const W &w, u32 row) {
    const f32 *q = w.rotation[row];
    return {q[0], q[1], q[2], q[3]};
}
TBS_FUNCTION Rotation<f32> rotation_of(quat q) { return {q.w, q.x, q.y, q.z}; }

// Does anything act along or about its axis?
TBS_FUNCTION bool acts_on_axis(const SolverJoint &joint) {
    if (joint.broken != 0) return false;
    if ((joint.axes & joint_swings) != 0) return joint.limited != 0;
    return (joint.axes & (joint_turns | joint_slides)) != 0 &&
           (joint.limited != 0 || joint.torque != 0.0f || joint.damping > 0.0f || joint.armature > 0.0f ||
            joint.friction > 0.0f || joint.drive_stiffness > 0.0f || joint.drive_damping > 0.0f);
}

// Before anything is known of the axis.
TBS_FUNCTION void begin_mode(JointBlock &block, u32 lane) {
    block.hold[lane] = block.aim[lane] = block.push[lane] = 0.0f;
    block.slope[lane] = block.drag[lane] + block.drive_drag[lane];
    block.changed[lane] = 0.0f;
    block.active[lane] = 1.0f;
}

// Writes a joint into its place.
template <class W>
TBS_FUNCTION void place_joint(W &w, const SolverJoint &joint, const Pace &pace, JointBlock &block, u32 lane) {
    const auto put = [&](f32(*fields)[block_items], vec3 a) { store_vec<f32>(fields, lane, {a.x, a.y, a.z}); };
    const auto row = [&](u32 body) { return body == no_body ? W::ground : body; };
    const u32 a = row(joint.a), b = row(joint.b);
    const f32 *at_a = w.mass[a] + 4, *at_b = w.mass[b] + 4;
    block.a[lane] = a, block.b[lane] = b;
    put(block.anchor_a, joint.anchor_a);
    put(block.anchor_b, joint.anchor_b);
    store_rotation(block.frame_a, lane, rotation_of(joint.frame_a));
    store_rotation(block.frame_b, lane, rotation_of(joint.frame_b));
    put(block.apart, {at_b[0] - at_a[0], at_b[1] - at_a[1], at_b[2] - at_a[2]});
    const bool turns = (joint.axes & joint_turns) != 0, slides = (joint.axes & joint_slides) != 0;
    const bool swings = (joint.axes & joint_swings) != 0 && joint.limited != 0;
    const f32 works = joint.broken != 0 ? 0.0f : 1.0f, h = pace.h;
    for (u32 i = 0; i < 6; ++i) block.rows[i][lane] = (joint.axes >> i & 1) != 0 ? works : 0.0f;
    block.works[lane] = works;
    block.turns[lane] = turns || swings ? works : 0.0f;
    block.slides[lane] = slides ? works : 0.0f;
    // An angle beyond the cone is measured by the sine of the rest, which is 0 at the limit.
    block.cone_sine[lane] = swings ? sin(joint.cone) : 0.0f;
    block.cone_cosine[lane] = swings ? cos(joint.cone) : 0.0f;
    const bool limited = joint.limited != 0 && (turns || slides), acts = (turns || slides) && joint.broken == 0;
    block.lower[lane] = limited ? joint.lower : -no_limit;
    block.upper[lane] = limited ? joint.upper : swings ? 0.0f : no_limit;
    const f32 stiffness = acts ? joint.drive_stiffness * h : 0.0f, damping = acts ? joint.drive_damping * h : 0.0f;
    block.effort[lane] = acts ? joint.torque * h : 0.0f;
    block.armature[lane] = acts ? joint.armature : 0.0f;
    block.drag[lane] = acts ? fma(joint.damping, h, joint.armature) : 0.0f;
    block.drive_push[lane] = fma(stiffness, joint.drive_target, damping * joint.drive_rate);
    block.drive_stiffness[lane] = stiffness;
    block.drive_drag[lane] = fma(stiffness, h, damping);
    block.most[lane] = acts ? joint.drive_limit * h : 0.0f;
    block.dry[lane] = acts ? joint.friction * h : 0.0f;
    put(block.impulse, joint.linear);
    put(block.impulse + 3, joint.angular);
    block.along[lane] = acts_on_axis(joint) ? joint.along * works : 0.0f;
    block.force_squared[lane] = block.torque_squared[lane] = 0.0f;
    block.child[lane] = W::ground;
    block.parent[lane] = W::nobody;
    block.side[lane] = block.hangs[lane] = block.soft[lane] = 0.0f;
    begin_mode(block, lane);
    // The angle: measured once a step, then carried on by velocities.
    block.way[lane] = 0.0f;
    if (turns) {
        const Rotation<f32> q_a = load_row_rotation(w, a) * rotation_of(joint.frame_a);
        const Rotation<f32> q = conjugate(q_a) * (load_row_rotation(w, b) * rotation_of(joint.frame_b));
        const f32 sign = q.w < 0.0f ? -1.0f : 1.0f;
        block.way[lane] = 2.0f * atan2(sign * q.x, sign * q.w);
    }
}
template <class W>
TBS_FUNCTION void place_no_joint(W &, JointBlock &block, u32 lane) {
    block.a[lane] = block.b[lane] = W::ground;
    for (u32 i = 0; i < 3; ++i) block.anchor_a[i][lane] = block.anchor_b[i][lane] = block.apart[i][lane] = 0.0f;
    store_rotation<f32>(block.frame_a, lane, {1, 0, 0, 0});
    store_rotation<f32>(block.frame_b, lane, {1, 0, 0, 0});
    for (u32 i = 0; i < 6; ++i) block.rows[i][lane] = block.impulse[i][lane] = block.late[i][lane] = 0.0f;
    block.turns[lane] = block.slides[lane] = block.way[lane] = block.works[lane] = block.along[lane] = 0.0f;
    block.cone_sine[lane] = block.cone_cosine[lane] = block.lower[lane] = block.upper[lane] = block.effort[lane] = 0.0f;
    block.armature[lane] = block.drag[lane] = block.drive_push[lane] = block.drive_stiffness[lane] = 0.0f;
    block.drive_drag[lane] = block.most[lane] = block.dry[lane] = block.rate[lane] = 0.0f;
    block.force_squared[lane] = block.torque_squared[lane] = 0.0f;
    block.child[lane] = W::ground;
    block.parent[lane] = W::nobody;
    block.side[lane] = block.hangs[lane] = block.soft[lane] = 0.0f;
    begin_mode(block, lane);
}

template <class F>
struct JointBodies {
    Vec<F> linear_a, angular_a, linear_b, angular_b, mass_a, mass_b;
    Inertia<F> inertia_a, inertia_b;
};
template <class F, class W>
TBS_FUNCTION JointBodies<F> load_bodies(const W &w, const u32 *a, const u32 *b) {
    F va[8], vb[8], ma[8], mb[8], ia[8], ib[8];
    load_rows([&](u32 i) { return w.velocity[a[i]]; }, va);
    load_rows([&](u32 i) { return w.velocity[b[i]]; }, vb);
    load_rows([&](u32 i) { return w.mass[a[i]]; }, ma);
    load_rows([&](u32 i) { return w.mass[b[i]]; }, mb);
    load_rows([&](u32 i) { return w.mass[a[i]] + 8; }, ia);
    load_rows([&](u32 i) { return w.mass[b[i]] + 8; }, ib);
    return {{va[0], va[1], va[2]},
            {va[4], va[5], va[6]},
            {vb[0], vb[1], vb[2]},
            {vb[4], vb[5], vb[6]},
            {ma[0], ma[1], ma[2]},
            {mb[0], mb[1], mb[2]},
            {ia[0], ia[1], ia[2], ia[3], ia[4], ia[5]},
            {ib[0], ib[1], ib[2], ib[3], ib[4], ib[5]}};
}
template <class F, class Row>
TBS_FUNCTION void store_velocity(Row &&row, Vec<F> linear, Vec<F> angular, Vec<F> mass, const Inertia<F> &inertia) {
    if constexpr (sizeof(F) == sizeof(f32)) {  // lanes of a GPU do not write a body that does not give way: several may have it
        if (!(mass.x + mass.y + mass.z + inertia.xx + inertia.yy + inertia.zz > 0.0f)) return;
    }
    store_rows(row, {linear.x, linear.y, linear.z, F{}, angular.x, angular.y, angular.z, F{}});
}
template <class F, class W>
TBS_FUNCTION void store_velocities(W &w, const u32 *a, const u32 *b, const JointBodies<F> &m) {
    store_velocity([&](u32 i) { return w.velocity[a[i]]; }, m.linear_a, m.angular_a, m.mass_a, m.inertia_a);
    store_velocity([&](u32 i) { return w.velocity[b[i]]; }, m.linear_b, m.angular_b, m.mass_b, m.inertia_b);
}

// An impulse and a torque at the anchor, on b; the opposite on a.
template <class F>
TBS_FUNCTION void push_apart(JointBodies<F> &m, Vec<F> arm_a, Vec<F> arm_b, Vec<F> push, Vec<F> torque) {
    m.linear_a = subtract_product(m.linear_a, m.mass_a, push);
    m.angular_a = subtract_times(m.angular_a, m.inertia_a, add_cross(torque, arm_a, push));
    m.linear_b = add_product(m.linear_b, m.mass_b, push);
    m.angular_b = add_times(m.angular_b, m.inertia_b, add_cross(torque, arm_b, push));
}

// Where element (i, j), i > j, of a lower triangle is.
TBS_FUNCTION constexpr u32 below_diagonal(u32 i, u32 j) { return i * (i - 1) / 2 + j; }

// Cholesky without roots: L D L^T, without rows that are not held or depend on others (Golub and Van Loan, Matrix
// Computations, 4.1.2). `element` is that of the lower triangle, held(i) is 1 or 0.
template <class Element, class Held>
TBS_FUNCTION void factor_rows(f32 (*factor)[block_items], f32 (*pivot)[block_items], u32 lane, Element &&element,
                              Held &&held) {
    using F = decltype(element(0, 0));
    F row[6], part[6][6], holds[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        holds[i] = held(i);
        F rest = element(i, i);
        TBS_UNROLL
        for (u32 j = 0; j < i; ++j) {
            F sum = element(i, j) * (holds[i] * holds[j]);
            TBS_UNROLL
            for (u32 k = 0; k < j; ++k) sum = nmadd(row[k], part[j][k], sum);
            row[j] = sum;
            part[i][j] = sum * load<F>(pivot[j] + lane);
            rest = nmadd(sum, part[i][j], rest);
            store(factor[below_diagonal(i, j)] + lane, part[i][j]);
        }
        const auto sound = below(splat<F>(1e-5f) * element(i, i), rest * holds[i]);
        const F one = splat<F>(1.0f);
        store(pivot[i] + lane, pick(sound, one / pick(sound, rest, one), F{}));
    }
}

// Turns the right side of the equations of rows that are held into their solution.
template <class F>
TBS_FUNCTION void solve_rows(const f32 (*factors)[block_items], const f32 (*pivot)[block_items], u32 lane, F (&x)[6]) {
    const auto factor = [&](u32 i, u32 j) { return load<F>(factors[below_diagonal(i, j)] + lane); };
    TBS_UNROLL
    for (u32 i = 1; i < 6; ++i) {
        TBS_UNROLL
        for (u32 j = 0; j < i; ++j) x[i] = nmadd(factor(i, j), x[j], x[i]);
    }
    TBS_UNROLL
    for (u32 k = 0; k < 6; ++k) {
        const u32 i = 5 - k;
        x[i] = x[i] * load<F>(pivot[i] + lane);
        TBS_UNROLL
        for (u32 j = i + 1; j < 6; ++j) x[i] = nmadd(factor(j, i), x[j], x[i]);
    }
}

// Writes impulses for the next step, and breaks joints.
template <class W, class Group>
TBS_FUNCTION void report_joints(W &w, Group &group, const Pace &pace) {
    group.for_each(w.joint_count, [&](u32 i) {
        const u32 item = w.joint_item[i];
        if (item == not_solved) return;
        const JointBlock &block = w.joint_blocks[item / block_items];
        const u32 lane = item % block_items;
        SolverJoint &joint = w.joints[i];
        const auto take = [&](const f32(*fields)[block_items]) {
            return vec3{fields[0][lane], fields[1][lane], fields[2][lane]};
        };
        joint.linear = take(block.impulse) + take(block.late);
        joint.angular = take(block.impulse + 3) + take(block.late + 3);
        joint.along = block.along[lane];
        const f32 force = joint.break_force * pace.h, torque = joint.break_torque * pace.h;
        if (block.force_squared[lane] > force * force || block.torque_squared[lane] > torque * torque) joint.broken = 1;
    });
}
