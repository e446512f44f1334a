// Joints as constraints: up to six soft equations solved at once, a motor and two limits along or about the axis.
//
// Both bodies are pushed at the same place, the anchor of b, so a joint that has drifted keeps angular momentum. Frames
// and effective masses are computed anew in each substep, unlike those of contacts, since pendulums turn fast.
#pragma once

#include "physics/contacts.h"

struct JointBlock {
    u32 a[block_items], b[block_items];
    f32 anchor_a[3][block_items], anchor_b[3][block_items], frame_a[4][block_items], frame_b[4][block_items];
    f32 apart[3][block_items];                    // from a to b when the step began
    f32 rows[6][block_items];                     // 1: held; along and about x, y, z
    f32 turns[block_items], slides[block_items];  // 1: has an axis about which, along which motor and limits act
    f32 way[block_items];                         // angle when the step began, and since
    f32 lower[block_items], upper[block_items], limited[block_items];
    f32 target[block_items], most[block_items], motor_rate[block_items], motor_mass[block_items],
        motor_loss[block_items];
    f32 works[block_items];  // 0: broken
    // In a substep:
    f32 axes[9][block_items], arm_a[3][block_items], arm_b[3][block_items], error[6][block_items],
        distance[block_items];
    f32 factor[15][block_items], pivot[6][block_items];
    f32 axis_mass[block_items],
        by_axis[6][block_items];  // with the equations held; what a unit impulse takes to hold them
    f32 impulse[6][block_items];  // in the world's frame: linear, angular
    f32 motor[block_items], low[block_items], high[block_items];
    f32 force_squared[block_items], torque_squared[block_items];  // impulses: the greatest of all substeps
};

template <class W>
TBS_FUNCTION Rotation<f32> load_row_rotation(const W &w, u32 row) {
    const f32 *q = w.rotation[row];
    return {q[0], q[1], q[2], q[3]};
}
TBS_FUNCTION Rotation<f32> rotation_of(quat q) { return {q.w, q.x, q.y, q.z}; }

// Writes what belongs to a joint into its place.
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
    const bool hinge = joint.kind == joint_hinge, slider = joint.kind == joint_slider, ball = joint.kind == joint_ball;
    const f32 works = joint.broken != 0 ? 0.0f : 1.0f;
    const f32 held[6] = {slider ? 0.0f : 1.0f, 1.0f, 1.0f, hinge || ball ? 0.0f : 1.0f, ball ? 0.0f : 1.0f,
                         ball ? 0.0f : 1.0f};
    for (u32 i = 0; i < 6; ++i) block.rows[i][lane] = works * held[i];
    block.works[lane] = works;
    block.turns[lane] = hinge ? works : 0.0f;
    block.slides[lane] = slider ? works : 0.0f;
    block.limited[lane] = joint.limited != 0 && (hinge || slider) ? works : 0.0f;
    block.lower[lane] = joint.lower;
    block.upper[lane] = joint.upper;
    const bool spring = joint.drive == drive_position && joint.hertz > 0.0f;
    const bool driven = (spring || joint.drive == drive_velocity) && (hinge || slider) && joint.broken == 0;
    const Soft s = spring ? soft(joint.hertz, joint.damping, pace.h) : Soft{0.0f, 1.0f, 0.0f};
    block.target[lane] = joint.target;
    block.most[lane] = driven ? joint.greatest * pace.h : 0.0f;
    block.motor_rate[lane] = spring ? s.rate : 0.0f;
    block.motor_mass[lane] = s.mass;
    block.motor_loss[lane] = s.impulse;
    put(block.impulse, joint.linear);
    put(block.impulse + 3, joint.angular);
    block.motor[lane] = driven ? joint.motor : 0.0f;
    block.low[lane] = joint.low;
    block.high[lane] = joint.high;
    block.force_squared[lane] = block.torque_squared[lane] = 0.0f;
    // The angle: measured once a step, then carried on by velocities.
    block.way[lane] = 0.0f;
    if (hinge) {
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
    for (u32 i = 0; i < 6; ++i) block.rows[i][lane] = block.impulse[i][lane] = 0.0f;
    block.turns[lane] = block.slides[lane] = block.way[lane] = block.limited[lane] = block.works[lane] = 0.0f;
    block.lower[lane] = block.upper[lane] = block.target[lane] = block.most[lane] = block.motor_rate[lane] = 0.0f;
    block.motor_mass[lane] = block.motor_loss[lane] = block.motor[lane] = block.low[lane] = block.high[lane] = 0.0f;
    block.force_squared[lane] = block.torque_squared[lane] = 0.0f;
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
    if constexpr (sizeof(F) == sizeof(f32)) {  // lanes of a GPU leave alone what several may have: it does not give way
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

// Turns the right side of the equations into their solution.
template <class F>
TBS_FUNCTION void solve_equations(const JointBlock &block, u32 lane, F (&x)[6]) {
    const auto factor = [&](u32 i, u32 j) { return load<F>(block.factor[below_diagonal(i, j)] + lane); };
    for (u32 i = 1; i < 6; ++i) {
        for (u32 j = 0; j < i; ++j) x[i] = nmadd(factor(i, j), x[j], x[i]);
    }
    for (u32 k = 0; k < 6; ++k) {
        const u32 i = 5 - k;
        x[i] = x[i] * load<F>(block.pivot[i] + lane);
        for (u32 j = i + 1; j < 6; ++j) x[i] = nmadd(factor(j, i), x[j], x[i]);
    }
}

// Frames, errors and effective masses of a substep, and the impulses of the one before.
template <class F, class W>
TBS_FUNCTION void begin_joint(W &w, JointBlock &block, u32 lane) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const F zero{}, one = splat<F>(1.0f), two = splat<F>(2.0f);
    F motion_a[8], motion_b[8], turn_a[8], turn_b[8];
    load_rows([&](u32 i) { return w.motion[a[i]]; }, motion_a);
    load_rows([&](u32 i) { return w.motion[b[i]]; }, motion_b);
    load_rows([&](u32 i) { return w.rotation[a[i]]; }, turn_a);
    load_rows([&](u32 i) { return w.rotation[b[i]]; }, turn_b);
    JointBodies<F> m = load_bodies<F>(w, a, b);
    const Rotation<F> q_a{turn_a[0], turn_a[1], turn_a[2], turn_a[3]}, q_b{turn_b[0], turn_b[1], turn_b[2], turn_b[3]};
    const Rotation<F> at_a = q_a * load_rotation<F>(block.frame_a, lane),
                      at_b = q_b * load_rotation<F>(block.frame_b, lane);
    const Vec<F> axis[3] = {rotate(Vec<F>{one, zero, zero}, at_a), rotate(Vec<F>{zero, one, zero}, at_a),
                            rotate(Vec<F>{zero, zero, one}, at_a)};
    const Vec<F> to_a = rotate(load_vec<F>(block.anchor_a, lane), q_a),
                 arm_b = rotate(load_vec<F>(block.anchor_b, lane), q_b);
    const Vec<F> moved{motion_b[0] - motion_a[0], motion_b[1] - motion_a[1], motion_b[2] - motion_a[2]};
    const Vec<F> arm_a = load_vec<F>(block.apart, lane) + moved + arm_b, gap = arm_a - to_a;
    const F turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);

    const Rotation<F> q = conjugate(at_a) * at_b;
    const F sign = pick(below(q.w, zero), -two, two);
    const auto hinge = below(zero, turns);
    const F error[6] = {dot(gap, axis[0]),
                        dot(gap, axis[1]),
                        dot(gap, axis[2]),
                        q.x * sign,
                        pick(hinge, madd(q.w, q.y, -(q.x * q.z)) * two, q.y * sign),
                        pick(hinge, madd(q.w, q.z, q.x * q.y) * two, q.z * sign)};
    const Vec<F> turned{motion_b[4] - motion_a[4], motion_b[5] - motion_a[5], motion_b[6] - motion_a[6]};
    store(block.distance + lane, pick(hinge, load<F>(block.way + lane) + dot(turned, axis[0]), error[0]));

    // Rows of the effective mass: what a unit impulse along (0 .. 2) or about (3 .. 5) an axis changes.
    Vec<F> lever_a[6], lever_b[6], by_a[6], by_b[6];
    F held[6], matrix[6][6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        held[i] = load<F>(block.rows[i] + lane);
        lever_a[i] = i < 3 ? cross(arm_a, axis[i % 3]) : axis[i % 3];
        lever_b[i] = i < 3 ? cross(arm_b, axis[i % 3]) : axis[i % 3];
        by_a[i] = times(m.inertia_a, lever_a[i]);
        by_b[i] = times(m.inertia_b, lever_b[i]);
        TBS_UNROLL
        for (u32 j = 0; j <= i; ++j) {
            F k = dot(lever_a[i], by_a[j]) + dot(lever_b[i], by_b[j]);
            if (i < 3) k = k + dot((m.mass_a + m.mass_b) * axis[i % 3], axis[j % 3]);
            matrix[i][j] = k;
        }
    }
    F axis_on[6];  // the row of the axis
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        axis_on[i] = madd(i < 1 ? matrix[0][i] : matrix[i][0], slides, (i < 3 ? matrix[3][i] : matrix[i][3]) * turns);
    }
    const F axis_alone = madd(axis_on[0], slides, axis_on[3] * turns);
    // Cholesky without roots: L D L^T, rows that are free taken out, and those that say what others say (Golub and Van
    // Loan, Matrix Computations, 4.1.2).
    F scaled_row[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        F rest = matrix[i][i];
        TBS_UNROLL
        for (u32 j = 0; j < i; ++j) {
            F sum = matrix[i][j] * (held[i] * held[j]);
            TBS_UNROLL
            for (u32 k = 0; k < j; ++k) sum = nmadd(scaled_row[k], matrix[j][k], sum);
            scaled_row[j] = sum;
            matrix[i][j] = sum * load<F>(block.pivot[j] + lane);
            rest = nmadd(sum, matrix[i][j], rest);
            store(block.factor[below_diagonal(i, j)] + lane, matrix[i][j]);
        }
        const auto sound = below(splat<F>(1e-5f) * matrix[i][i], rest * held[i]);
        store(block.pivot[i] + lane, pick(sound, one / pick(sound, rest, one), zero));
    }
    F held_by[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) held_by[i] = axis_on[i] * held[i];
    solve_equations<F>(block, lane, held_by);
    F axis_rest = axis_alone;
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        axis_rest = nmadd(axis_on[i] * held[i], held_by[i], axis_rest);
        store(block.by_axis[i] + lane, held_by[i]);
        store(block.error[i] + lane, error[i]);
    }
    const auto can_move = below(splat<F>(1e-5f) * axis_alone, axis_rest);
    store(block.axis_mass + lane, pick(can_move, one / pick(can_move, axis_rest, one), zero));
    for (u32 i = 0; i < 3; ++i) store_vec(block.axes + 3 * i, lane, axis[i]);
    store_vec(block.arm_a, lane, arm_a);
    store_vec(block.arm_b, lane, arm_b);

    // What the substep before took, without what the axis does not hold now that it has turned.
    Vec<F> push = load_vec<F>(block.impulse, lane), torque = load_vec<F>(block.impulse + 3, lane);
    const F works = load<F>(block.works + lane);
    push = scaled(add_scaled(push, axis[0], -(slides * dot(push, axis[0]))), works);
    torque = scaled(add_scaled(torque, axis[0], -(turns * dot(torque, axis[0]))), works);
    store_vec(block.impulse, lane, push);
    store_vec(block.impulse + 3, lane, torque);
    const F along = load<F>(block.motor + lane) + load<F>(block.low + lane) - load<F>(block.high + lane);
    push_apart(m, arm_a, arm_b, add_scaled(push, axis[0], slides * along), add_scaled(torque, axis[0], turns * along));
    store_velocities(w, a, b, m);
}

// Changes the velocities of a joint's bodies; with `press` what has drifted is pulled back.
template <bool press, class F, class W>
TBS_FUNCTION void solve_joint(W &w, JointBlock &block, u32 lane, const Pace &pace) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const F zero{}, one = splat<F>(1.0f);
    JointBodies<F> m = load_bodies<F>(w, a, b);
    const Vec<F> axis[3] = {load_vec<F>(block.axes, lane), load_vec<F>(block.axes + 3, lane),
                            load_vec<F>(block.axes + 6, lane)};
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = load_vec<F>(block.arm_b, lane);
    const F turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);
    const auto relative = [&](Vec<F> &going, Vec<F> &turning) {
        turning = m.angular_b - m.angular_a;
        going = subtract_cross(add_cross(m.linear_b - m.linear_a, m.angular_b, arm_b), m.angular_a, arm_a);
    };
    Vec<F> going, turning;

    // The equations.
    relative(going, turning);
    Vec<F> push = load_vec<F>(block.impulse, lane), torque = load_vec<F>(block.impulse + 3, lane);
    F x[6] = {dot(going, axis[0]),   dot(going, axis[1]),   dot(going, axis[2]),
              dot(turning, axis[0]), dot(turning, axis[1]), dot(turning, axis[2])};
    for (u32 i = 0; i < 6; ++i) {
        if constexpr (press) x[i] = madd(splat<F>(pace.joint.rate), load<F>(block.error[i] + lane), x[i]);
        x[i] = -x[i] * load<F>(block.rows[i] + lane);
    }
    solve_equations<F>(block, lane, x);
    const auto along_axes = [&](u32 i) {
        return add_scaled(add_scaled(scaled(axis[0], x[i]), axis[1], x[i + 1]), axis[2], x[i + 2]);
    };
    Vec<F> more = along_axes(0), twist = along_axes(3);
    if constexpr (press) {
        const F share = splat<F>(pace.joint.mass), loss = splat<F>(-pace.joint.impulse);
        more = add_scaled(scaled(more, share), push, loss);
        twist = add_scaled(scaled(twist, share), torque, loss);
    }
    push_apart(m, arm_a, arm_b, more, twist);
    push = push + more;
    torque = torque + twist;

    // Motor and limits: one number, the speed along or about the axis. What they push, the equations answer at once.
    relative(going, turning);
    const F mass = load<F>(block.axis_mass + lane), distance = load<F>(block.distance + lane);
    const F by_impulse = inverse_or_zero(mass);
    F speed = madd(dot(going, axis[0]), slides, dot(turning, axis[0]) * turns), change{};
    const auto take = [&](f32 *impulse, F next, F direction) {
        const F step = (next - load<F>(impulse)) * direction;
        store(impulse, next);
        change = change + step;
        speed = madd(step, by_impulse, speed);
    };
    {
        const F rate = load<F>(block.motor_rate + lane), target = load<F>(block.target + lane),
                before = load<F>(block.motor + lane);
        const F wrong = speed + pick(below(zero, rate), rate * (distance - target), -target);
        const F wanted = nmadd(load<F>(block.motor_loss + lane), before,
                               nmadd(mass * load<F>(block.motor_mass + lane), wrong, before));
        const F most = load<F>(block.most + lane);
        take(block.motor + lane, greater(lesser(wanted, most), -most), one);
    }
    const auto limit = [&](f32 *impulse, F room, F direction) {
        const F before = load<F>(impulse);
        const auto open = below(zero, room);
        const F share = press ? pick(open, one, splat<F>(pace.joint.mass)) : one;
        const F loss = press ? pick(open, zero, splat<F>(pace.joint.impulse)) : zero;
        const F rate = pick(open, splat<F>(pace.per_h), press ? splat<F>(pace.joint.rate) : zero);
        const F next = nmadd(loss, before, nmadd(mass * share, madd(speed, direction, room * rate), before));
        take(impulse, greater(next, zero) * load<F>(block.limited + lane), direction);
    };
    limit(block.low + lane, distance - load<F>(block.lower + lane), one);
    limit(block.high + lane, load<F>(block.upper + lane) - distance, -one);
    for (u32 i = 0; i < 6; ++i) x[i] = -change * load<F>(block.by_axis[i] + lane);
    more = along_axes(0), twist = along_axes(3);
    push = push + more;
    torque = torque + twist;
    push_apart(m, arm_a, arm_b, add_scaled(more, axis[0], slides * change), add_scaled(twist, axis[0], turns * change));
    store_vec(block.impulse, lane, push);
    store_vec(block.impulse + 3, lane, torque);
    if constexpr (!press) {
        store(block.force_squared + lane, greater(load<F>(block.force_squared + lane), dot(push, push)));
        store(block.torque_squared + lane, greater(load<F>(block.torque_squared + lane), dot(torque, torque)));
    }
    store_velocities(w, a, b, m);
}

template <class W, class Group>
TBS_FUNCTION void prepare_joints(W &w, Group &group, const Pace &pace) {
    group.once([&] {
        colour(w, w.joint_count, w.joint_item, w.used, w.joint_batches, [&](u32 i, u32 &a, u32 &b) {
            a = w.joints[i].a;
            b = w.joints[i].b;
        });
    });
    group.for_each(w.joint_count, [&](u32 i) {
        const u32 item = w.joint_item[i];
        if (item != not_solved)
            place_joint(w, w.joints[i], pace, w.joint_blocks[item / block_items], item % block_items);
    });
    if constexpr (simd_width > 1) {
        for (u32 c = 0; c < w.joint_batches.colours; ++c) {
            const Batch &batch = w.joint_batches.batch[c];
            for (u32 i = batch.first + batch.count; i % simd_width != 0; ++i)
                place_no_joint(w, w.joint_blocks[i / block_items], i % block_items);
        }
    }
}
template <class W, class Group>
TBS_FUNCTION void begin_joints(W &w, Group &group) {
    for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
        begin_joint<decltype(item)>(w, w.joint_blocks[block], lane);
    });
}
template <bool press, class W, class Group>
TBS_FUNCTION void joint_pass(W &w, Group &group, const Pace &pace) {
    for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
        solve_joint<press, decltype(item)>(w, w.joint_blocks[block], lane, pace);
    });
}

// Impulses for the step to come, and what has broken.
template <class W, class Group>
TBS_FUNCTION void report_joints(W &w, Group &group, const Pace &pace) {
    group.for_each(w.joint_count, [&](u32 i) {
        const u32 item = w.joint_item[i];
        if (item == not_solved) return;
        const JointBlock &block = w.joint_blocks[item / block_items];
        const u32 lane = item % block_items;
        SolverJoint &joint = w.joints[i];
        joint.linear = {block.impulse[0][lane], block.impulse[1][lane], block.impulse[2][lane]};
        joint.angular = {block.impulse[3][lane], block.impulse[4][lane], block.impulse[5][lane]};
        joint.motor = block.motor[lane];
        joint.low = block.low[lane];
        joint.high = block.high[lane];
        const f32 force = joint.break_force * pace.h, torque = joint.break_torque * pace.h;
        if (block.force_squared[lane] > force * force || block.torque_squared[lane] > torque * torque) joint.broken = 1;
    });
}
