// Passes over joints: warm start, press, relax. Each of the last two gives about half of the impulse that holds a body
// on its circle, and starts from its own in the substep before.
#pragma once

#include "physics/joint_tree.h"

inline constexpr u32 rounds_of_trees = 3, rounds_of_joints = 2;

// Keeps of the impulses of the substep before: those along the axes, and those of soft joints without the part that the
// turned axis does not hold. Joints that are solved exactly need none.
template <class F>
TBS_FUNCTION void keep_impulse(JointBlock &block, u32 lane) {
    store(block.begun + lane, load<F>(block.distance + lane));
    const Vec<F> axis = load_vec<F>(block.axes, lane);
    const F turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);
    const F kept = load<F>(block.works + lane) * load<F>(block.soft + lane);
    Vec<F> push = load_vec<F>(block.impulse, lane), torque = load_vec<F>(block.impulse + 3, lane);
    push = scaled(add_scaled(push, axis, -(slides * dot(push, axis))), kept);
    torque = scaled(add_scaled(torque, axis, -(turns * dot(torque, axis))), kept);
    store_vec(block.impulse, lane, push);
    store_vec(block.impulse + 3, lane, torque);
    store_vec(block.late, lane, Vec<F>{});
    store_vec(block.late + 3, lane, Vec<F>{});
}
// Gives them to the bodies.
template <class F, class W>
TBS_FUNCTION void give_again(W &w, JointBlock &block, u32 lane) {
    const Vec<F> axis = load_vec<F>(block.axes, lane);
    const F along = load<F>(block.along + lane), turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);
    JointBodies<F> m = load_bodies<F>(w, block.a + lane, block.b + lane);
    push_apart(m, load_vec<F>(block.arm_a, lane), load_vec<F>(block.arm_b, lane),
               add_scaled(load_vec<F>(block.impulse, lane), axis, slides * along),
               add_scaled(load_vec<F>(block.impulse + 3, lane), axis, turns * along));
    store_velocities(w, block.a + lane, block.b + lane, m);
}

// Changes the velocities of a joint's bodies; with `press` so that it holds when they have moved, and drift is pulled
// back.
template <bool press, class F, class W>
TBS_FUNCTION void solve_joint(W &w, JointBlock &block, u32 lane, const Pace &pace) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    JointBodies<F> m = load_bodies<F>(w, a, b);
    const Vec<F> axis[3] = {load_vec<F>(block.axes, lane), load_vec<F>(block.axes + 3, lane),
                            load_vec<F>(block.axes + 6, lane)};
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = load_vec<F>(block.arm_b, lane);
    const F turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);
    f32(*const impulse)[block_items] = press ? block.impulse : block.late;

    // The equations.
    F x[6];
    find_wrong<press>(block, lane, pace, m, x);
    for (u32 i = 0; i < 6; ++i) x[i] = -x[i] * load<F>(block.rows[i] + lane);
    solve_rows(block.factor, block.pivot, lane, x);
    const auto along_axes = [&](u32 i) {
        return add_scaled(add_scaled(scaled(axis[0], x[i]), axis[1], x[i + 1]), axis[2], x[i + 2]);
    };
    Vec<F> push = load_vec<F>(impulse, lane), torque = load_vec<F>(impulse + 3, lane);
    Vec<F> more = along_axes(0), twist = along_axes(3);
    if constexpr (press) {
        const F gives_way = load<F>(block.soft + lane), one = splat<F>(1.0f);
        const F share = madd(gives_way, splat<F>(pace.joint.mass) - one, one), loss = gives_way * splat<F>(-pace.joint.impulse);
        more = add_scaled(scaled(more, share), push, loss);
        twist = add_scaled(scaled(twist, share), torque, loss);
    }
    push_apart(m, arm_a, arm_b, more, twist);
    push = push + more;
    torque = torque + twist;

    // The axis. The equations answer its push at once.
    if (w.axes_act != 0) {
        Vec<F> going, turning;
        relative_velocity(m, arm_a, arm_b, going, turning);
        const F speed = axis_speed<press>(block, lane, going, turning), before = load<F>(block.along + lane);
        const F mass = load<F>(block.axis_mass + lane);
        AxisMode<F> mode;
        const F along = solve_law(law_of<press, F>(block, lane, pace), mass, nmadd(-mass, speed, -before), mode);
        const F change = (along - before) * pick(below(F{}, mass), splat<F>(1.0f), F{});
        store(block.along + lane, before + change);
        for (u32 i = 0; i < 6; ++i) x[i] = -change * load<F>(block.by_axis[i] + lane);
        more = along_axes(0), twist = along_axes(3);
        push = push + more;
        torque = torque + twist;
        push_apart(m, arm_a, arm_b, add_scaled(more, axis[0], slides * change),
                   add_scaled(twist, axis[0], turns * change));
    }
    store_vec(impulse, lane, push);
    store_vec(impulse + 3, lane, torque);
    store(block.active + lane, splat<F>(1.0f));
    store_velocities(w, a, b, m);
}

// The rate of the axis before anything but the joint's own impulses changes it.
template <class F, class W>
TBS_FUNCTION void note_rate(const W &w, JointBlock &block, u32 lane) {
    if (w.axes_act != 0) store(block.rate + lane, axis_speed<false, F>(w, block, lane));
}

// The greatest force and torque among the substeps: all that the joint transmits, also along and about its axis.
template <class F>
TBS_FUNCTION void note_force(JointBlock &block, u32 lane) {
    const Vec<F> axis = load_vec<F>(block.axes, lane);
    const F along = load<F>(block.along + lane);
    Vec<F> push = load_vec<F>(block.impulse, lane) + load_vec<F>(block.late, lane);
    Vec<F> torque = load_vec<F>(block.impulse + 3, lane) + load_vec<F>(block.late + 3, lane);
    push = add_scaled(push, axis, load<F>(block.slides + lane) * along);
    torque = add_scaled(torque, axis, load<F>(block.turns + lane) * along);
    store(block.force_squared + lane, greater(load<F>(block.force_squared + lane), dot(push, push)));
    store(block.torque_squared + lane, greater(load<F>(block.torque_squared + lane), dot(torque, torque)));
}

// Whether joints are solved one by one: all, or those of rings beside trees.
template <class W>
TBS_FUNCTION bool solves_one_by_one(const W &w) {
    return w.joints_share_bodies == 0 || w.beside_trees != 0;
}

template <class W, class Group>
TBS_ONE_COPY void find_frames(W &w, Group &group) {
    const bool one_by_one = solves_one_by_one(w);
    for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
        find_frame<decltype(item)>(w, w.joint_blocks[block], lane, one_by_one);
    });
}

// Where bodies are when the step begins.
template <class W, class Group>
TBS_FUNCTION void begin_joints(W &w, Group &group) {
    find_frames(w, group);
    for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
        note_rate<decltype(item)>(w, w.joint_blocks[block], lane);
    });
    if (w.joints_share_bodies != 0) prepare_trees(w, group);
}

// Before bodies move. Their motion depends on the solution, so it is done in rounds, until they agree.
template <class W, class Group>
TBS_FUNCTION void press_joints(W &w, Group &group, const Pace &pace) {
    const bool shared = w.joints_share_bodies != 0, one_by_one = solves_one_by_one(w);
    note_velocities(w, group);
    for (u32 round = 0; round < (shared ? rounds_of_trees : rounds_of_joints); ++round) {
        for_items(group, 0, w.body_count, [&](auto item, u32 block, u32 lane) {
            turn_bodies<decltype(item)>(w, block * block_items + lane, pace.h);
        });
        for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
            look_ahead<decltype(item)>(w, w.joint_blocks[block], lane, pace);
        });
        if (round == 0) {
            for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
                keep_impulse<decltype(item)>(w.joint_blocks[block], lane);
            });
            if (one_by_one) {
                for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
                    give_again<decltype(item)>(w, w.joint_blocks[block], lane);
                });
            } else if (w.axes_act != 0) {  // joints of one colour may share a body
                group.once([&] {
                    for_tree_joints(w, [&](JointBlock &block, u32 lane) {
                        if (block.along[lane] != 0.0f) give_again<f32>(w, block, lane);
                    });
                });
            }
            if (shared && one_by_one) solve_trees<true>(w, group, pace, true);
        } else if (round > 1 && !one_by_one) {  // the second one also takes off what rounding left
            group.once([&] {
                w.axes_change = keep_active(w, [&](JointBlock &block, u32 lane, u32) { return block.strays[lane] != 0.0f; });
            });
            if (w.axes_change == 0) return;
        }
        if (one_by_one) {
            for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
                solve_joint<true, decltype(item)>(w, w.joint_blocks[block], lane, pace);
            });
        }
        if (shared) solve_trees<true>(w, group, pace, round == 0 && !one_by_one);
    }
}

// When they have moved.
template <class W, class Group>
TBS_FUNCTION void relax_joints(W &w, Group &group, const Pace &pace) {
    const bool shared = w.joints_share_bodies != 0, one_by_one = solves_one_by_one(w);
    find_frames(w, group);
    if (shared) {
        prepare_trees(w, group);
        solve_trees<false>(w, group, pace);
    }
    if (one_by_one) {
        for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
            solve_joint<false, decltype(item)>(w, w.joint_blocks[block], lane, pace);
        });
        if (shared) solve_trees<false>(w, group, pace);
    }
    for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
        note_force<decltype(item)>(w.joint_blocks[block], lane);
        note_rate<decltype(item)>(w, w.joint_blocks[block], lane);
    });
}
