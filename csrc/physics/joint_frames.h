// The poses of joints, and their motion in a substep.
//
// A joint holds positions, but the solver finds velocities. With velocities only a body would leave its circle along
// the tangent, and lose sin^2 of the angle of a substep of its energy when it is turned back. So the pass before bodies
// move aims at the joint's pose at the end of the substep, rotations taken as they are, by impulses along the axes of
// its begin; the pass after they have moved takes the rest off the velocities, along the axes of the end. That is
// RATTLE (Andersen 1983), which is symplectic and symmetric, and so neither gains nor loses energy in the long run
// (Hairer, Lubich, Wanner, Geometric Numerical Integration, VII.1.4).
#pragma once

#include "physics/joints.h"

// A body that turns by more than this in a substep, in rad, is not looked ahead of all the way, and then not at all: a
// joint may have no solution there. So the fastest lose energy, and none gains. A change of the turn by the joints counts
// as this many times as much: a light chain that whips with a mass of 100 times its own at the end would gain energy.
inline constexpr f32 trusted_to = 0.2f, trusted_until = 0.4f, change_counts = 8.0f;
// The third round is for joints that look ahead differs by more than this from the second, m/s or rad/s.
inline constexpr f32 least_stray = 1e-4f;

// The effect of the motion of two bodies on the place of b's anchor and on the turn of b, both seen from a, in a
// substep: beyond the effect of velocities (m, rad; world's frame of the substep's begin).
template <class F>
struct Beyond {
    Vec<F> place, axis, turn;  // of the anchor; of the joint's axis; all of the turn
};

// r turned by u, for |u| up to half pi, without r + u x r.
template <class F>
TBS_FUNCTION Vec<F> bend(Vec<F> u, Vec<F> r) {
    const F y = dot(u, u);
    F sine = madd(y, splat<F>(1.0f / 362880), splat<F>(-1.0f / 5040));
    F cosine = madd(y, splat<F>(-1.0f / 40320), splat<F>(1.0f / 720));
    sine = madd(y, madd(y, sine, splat<F>(1.0f / 120)), splat<F>(-1.0f / 6)) * y;  // sin(|u|) / |u| - 1
    cosine = madd(y, madd(y, cosine, splat<F>(-1.0f / 24)), splat<F>(0.5f));       // (1 - cos(|u|)) / |u|^2
    const Vec<F> across = cross(u, r);
    return add_scaled(scaled(across, sine), cross(u, across), cosine);
}

// The way of a point of b, seen from a, beyond the effect of velocities. It is at arm_a, seen from a's place, and b's
// place moves by `way` relative to a's; u are the turns of both, `more` the parts beyond those of velocities.
template <class F>
TBS_FUNCTION Vec<F> carried_beyond(Vec<F> u_a, Vec<F> u_b, Vec<F> more_a, Vec<F> more_b, Vec<F> arm_a, Vec<F> arm_b,
                                   Vec<F> way) {
    const Vec<F> bent = bend(u_b, arm_b), moved = add_cross(way + bent, u_b, arm_b);
    const Vec<F> minus{-u_a.x, -u_a.y, -u_a.z};
    const Vec<F> turned_back = subtract_cross(bend(minus, arm_a + moved), u_a, moved);
    return subtract_cross(add_cross(bent + turned_back, more_b, arm_b), more_a, arm_a);
}

// The turn of a body in a substep; `more`: beyond its velocity, since its axis wanders (move_bodies).
template <class F>
TBS_FUNCTION Vec<F> turn_of(Vec<F> angular, const Inertia<F> &inverse_inertia, f32 h, Vec<F> &more) {
    const F time = splat<F>(h);
    Vec<F> u = scaled(angular, time);
    const Vec<F> wander = times(inverse_inertia, cross(times(inertia_of(inverse_inertia), angular), angular));
    Vec<F> whole = add_scaled(u, wander, splat<F>(0.5f * h * h));
    shorten(whole, splat<F>(half_pi));
    more = whole - u;
    return whole;
}

// Of bodies, into the rows of trees: the turn in a substep, the part of it beyond velocities, and the turn that counts
// against looking ahead. w.before has the velocities before the joints' impulses.
template <class F, class W>
TBS_FUNCTION void turn_bodies(W &w, u32 first, f32 h) {
    F velocity[8], before[8], inertia[8];
    load_rows(RowsFrom{w.velocity[first], 8}, velocity);
    load_rows(RowsFrom{w.before[first], 8}, before);
    load_rows(RowsFrom{w.mass[first] + 8, mass_row}, inertia);
    const Vec<F> angular{velocity[4], velocity[5], velocity[6]};
    const Vec<F> change{angular.x - before[4], angular.y - before[5], angular.z - before[6]};
    Vec<F> more;
    const Vec<F> turn = turn_of(
        angular, Inertia<F>{inertia[0], inertia[1], inertia[2], inertia[3], inertia[4], inertia[5]}, h, more);
    const F counts = madd(root(dot(change, change)), splat<F>(change_counts), root(dot(angular, angular))) * splat<F>(h);
    store_rows([&](u32 i) { return w.tree[first + i] + tree_row; },
               {turn.x, turn.y, turn.z, counts, more.x, more.y, more.z, F{}});
}

template <class F>
TBS_FUNCTION Beyond<F> find_beyond(Vec<F> u_a, Vec<F> more_a, Vec<F> u_b, Vec<F> more_b, Vec<F> arm_a, Vec<F> arm_b,
                                   Vec<F> axis, Vec<F> way) {
    return {carried_beyond(u_a, u_b, more_a, more_b, arm_a, arm_b, way),
            carried_beyond(u_a, u_b, more_a, more_b, axis, axis, Vec<F>{}),
            // of one turn after the other (Baker, Campbell, Hausdorff)
            add_scaled(more_b - more_a, cross(u_a, u_b), splat<F>(-0.5f))};
}

// The effective mass of the equations, and of the axis with the equations held.
template <class F>
TBS_FUNCTION void find_masses(const JointBodies<F> &m, JointBlock &block, u32 lane, const Vec<F> (&axis)[3],
                              Vec<F> arm_a, Vec<F> arm_b) {
    const F zero{}, one = splat<F>(1.0f);
    const F turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);
    // Rows: the change by a unit impulse along (0 .. 2) or about (3 .. 5) an axis.
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
    factor_rows(block.factor, block.pivot, lane, [&](u32 i, u32 j) { return matrix[i][j]; }, [&](u32 i) { return held[i]; });
    F held_by[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) held_by[i] = axis_on[i] * held[i];
    solve_rows(block.factor, block.pivot, lane, held_by);
    F axis_rest = axis_alone;
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        axis_rest = nmadd(axis_on[i] * held[i], held_by[i], axis_rest);
        store(block.by_axis[i] + lane, held_by[i]);
    }
    const auto can_move = below(splat<F>(1e-5f) * axis_alone, axis_rest);
    store(block.axis_mass + lane, pick(can_move, one / pick(can_move, axis_rest, one), zero));
}

template <class F>
TBS_FUNCTION auto is_hinge(const JointBlock &block, u32 lane) {
    return below(F{}, load<F>(block.turns + lane) * load<F>(block.rows[4] + lane));
}

// Frames, errors and, for joints that are solved one by one, effective masses, for the poses as they are.
template <class F, class W>
TBS_FUNCTION void find_frame(const W &w, JointBlock &block, u32 lane, bool one_by_one) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const F zero{}, one = splat<F>(1.0f), two = splat<F>(2.0f);
    F motion_a[8], motion_b[8], turn_a[8], turn_b[8];
    load_rows([&](u32 i) { return w.motion[a[i]]; }, motion_a);
    load_rows([&](u32 i) { return w.motion[b[i]]; }, motion_b);
    load_rows([&](u32 i) { return w.rotation[a[i]]; }, turn_a);
    load_rows([&](u32 i) { return w.rotation[b[i]]; }, turn_b);
    const Rotation<F> q_a{turn_a[0], turn_a[1], turn_a[2], turn_a[3]}, q_b{turn_b[0], turn_b[1], turn_b[2], turn_b[3]};
    const Rotation<F> at_a = q_a * load_rotation<F>(block.frame_a, lane),
                      at_b = q_b * load_rotation<F>(block.frame_b, lane);
    const Rotation<F> q = conjugate(at_a) * at_b;
    // The x axis of a limited ball is that about which x of b has swung.
    const F cone_sine = load<F>(block.cone_sine + lane), cone_cosine = load<F>(block.cone_cosine + lane);
    const auto swings = below(zero, madd(cone_sine, cone_sine, cone_cosine * cone_cosine));
    Vec<F> first{one, zero, zero}, second{zero, one, zero}, third{zero, zero, one};
    F swing{};
    if (holds_for_one(swings)) {
        const F y = madd(q.w, q.z, q.x * q.y) * two, z = madd(q.x, q.z, -(q.w * q.y)) * two;
        const F cosine = nmadd(two, madd(q.y, q.y, q.z * q.z), one), sine = root(madd(y, y, z * z));
        const auto some = below(splat<F>(1e-6f), sine);
        const F per = one / pick(some, sine, one), ny = pick(some, -(z * per), one), nz = pick(some, y * per, zero);
        const F over = madd(sine, cone_cosine, -(cosine * cone_sine));
        const F near = madd(cosine, cone_cosine, sine * cone_sine);
        swing = pick(below(near, zero), pick(below(over, zero), -one, one), over);
        const auto choose = [&](F x, F y) { return pick(swings, x, y); };
        first = {choose(zero, one), choose(ny, zero), choose(nz, zero)};
        second = {zero, choose(-nz, one), choose(ny, zero)};
        third = {choose(one, zero), zero, choose(zero, one)};
    }
    const Vec<F> axis[3] = {rotate(first, at_a), rotate(second, at_a), rotate(third, at_a)};
    const Vec<F> to_a = rotate(load_vec<F>(block.anchor_a, lane), q_a),
                 arm_b = rotate(load_vec<F>(block.anchor_b, lane), q_b);
    const Vec<F> moved{motion_b[0] - motion_a[0], motion_b[1] - motion_a[1], motion_b[2] - motion_a[2]};
    const Vec<F> arm_a = load_vec<F>(block.apart, lane) + moved + arm_b, gap = arm_a - to_a;

    const F sign = pick(below(q.w, zero), -two, two);
    const auto hinge = is_hinge<F>(block, lane);
    const F error[6] = {dot(gap, axis[0]),
                        dot(gap, axis[1]),
                        dot(gap, axis[2]),
                        q.x * sign,
                        pick(hinge, madd(q.w, q.y, -(q.x * q.z)) * two, q.y * sign),
                        pick(hinge, madd(q.w, q.z, q.x * q.y) * two, q.z * sign)};
    for (u32 i = 0; i < 6; ++i) store(block.error[i] + lane, error[i]);
    const Vec<F> turned{motion_b[4] - motion_a[4], motion_b[5] - motion_a[5], motion_b[6] - motion_a[6]};
    store(block.distance + lane,
          pick(hinge, load<F>(block.way + lane) + dot(turned, axis[0]), pick(swings, swing, error[0])));

    if (one_by_one) find_masses(load_bodies<F>(w, a, b), block, lane, axis, arm_a, arm_b);
    for (u32 i = 0; i < 3; ++i) store_vec(block.axes + 3 * i, lane, axis[i]);
    store_vec(block.arm_a, lane, arm_a);
    store_vec(block.arm_b, lane, arm_b);
    store(block.active + lane, one);
}

template <class F>
TBS_FUNCTION void load_axes(const JointBlock &block, u32 lane, Vec<F> (&axis)[3]) {
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) axis[i] = load_vec<F>(block.axes + 3 * i, lane);
}
// The velocity of b relative to a, at the anchor.
template <class F>
TBS_FUNCTION void relative_velocity(const JointBodies<F> &m, Vec<F> arm_a, Vec<F> arm_b, Vec<F> &going,
                                    Vec<F> &turning) {
    turning = m.angular_b - m.angular_a;
    going = subtract_cross(add_cross(m.linear_b - m.linear_a, m.angular_b, arm_b), m.angular_a, arm_a);
}

// By how much the equations are wrong, as velocities along and about the axes; with `press` at the substep's end.
template <bool press, class F>
TBS_FUNCTION void find_wrong(const JointBlock &block, u32 lane, const Pace &pace, const JointBodies<F> &m, F (&wrong)[6]) {
    Vec<F> going, turning;
    relative_velocity(m, load_vec<F>(block.arm_a, lane), load_vec<F>(block.arm_b, lane), going, turning);
    for (u32 i = 0; i < 6; ++i) {
        wrong[i] = dot(i < 3 ? going : turning, load_vec<F>(block.axes + 3 * (i % 3), lane));
        if constexpr (press) {
            const F drift = load<F>(block.error[i] + lane), beyond = load<F>(block.beyond[i] + lane);
            wrong[i] = madd(splat<F>(pace.joint.rate), drift, wrong[i] + beyond);
        }
    }
}

// How far motion goes beyond velocities.
template <class F, class W>
TBS_FUNCTION void look_ahead(const W &w, JointBlock &block, u32 lane, const Pace &pace) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const F zero{}, one = splat<F>(1.0f);
    F velocity_a[8], velocity_b[8], turn_a[8], turn_b[8];
    load_rows([&](u32 i) { return w.velocity[a[i]]; }, velocity_a);
    load_rows([&](u32 i) { return w.velocity[b[i]]; }, velocity_b);
    load_rows([&](u32 i) { return w.tree[a[i]] + tree_row; }, turn_a);
    load_rows([&](u32 i) { return w.tree[b[i]] + tree_row; }, turn_b);
    Vec<F> axis[3];
    load_axes(block, lane, axis);
    const Vec<F> going{velocity_b[0] - velocity_a[0], velocity_b[1] - velocity_a[1], velocity_b[2] - velocity_a[2]};
    const Beyond<F> s = find_beyond(
        {turn_a[0], turn_a[1], turn_a[2]}, {turn_a[4], turn_a[5], turn_a[6]}, {turn_b[0], turn_b[1], turn_b[2]},
        {turn_b[4], turn_b[5], turn_b[6]}, load_vec<F>(block.arm_a, lane), load_vec<F>(block.arm_b, lane), axis[0],
        scaled(going, splat<F>(pace.h)));
    const auto hinge = is_hinge<F>(block, lane);
    const F trust = (splat<F>(trusted_until) - greater(turn_a[3], turn_b[3])) * splat<F>(1.0f / (trusted_until - trusted_to));
    const F scale = splat<F>(pace.per_h) * greater(lesser(trust, one), zero) * (one - load<F>(block.soft + lane));
    const F beyond[6] = {dot(s.place, axis[0]),
                         dot(s.place, axis[1]),
                         dot(s.place, axis[2]),
                         dot(s.turn, axis[0]),
                         pick(hinge, -dot(s.axis, axis[2]), dot(s.turn, axis[1])),
                         pick(hinge, dot(s.axis, axis[1]), dot(s.turn, axis[2]))};
    F stray = zero;
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        const F next = beyond[i] * scale, more = next - load<F>(block.beyond[i] + lane);
        stray = greater(stray, more * more);
        store(block.beyond[i] + lane, next);
    }
    store(block.active + lane, one);
    store(block.strays + lane, pick(below(splat<F>(least_stray * least_stray), stray), one, zero));
}
