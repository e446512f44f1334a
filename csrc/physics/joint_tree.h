// Joints that share bodies, solved all at once: along trees, from the leaves to the root and back.
//
// One joint after the other, a chain settles slowly, the more so the more its masses differ, and the error of one pass
// feeds the next. A tree can be solved directly in a time that is linear in its joints (Featherstone 1983, "The
// calculation of robot dynamics using articulated-body inertias"; Baraff 1996, "Linear-time dynamics using Lagrange
// multipliers"). The bodies that hang on a body are to it a further inertia, of 6 x 6 numbers, which a joint passes on
// as far as it holds. Each joint has a child, which it holds, and a parent, which holds it. A body without a parent
// hangs on a joint that leaves all free. What acts on an axis (joint_axis.h) is in these equations too.
//
// Joints that would close a loop, and those of bodies with locked axes, are not in a tree: they are solved one after
// the other, before the trees.
#pragma once

#include "physics/islands.h"
#include "physics/joint_axis.h"

inline constexpr u32 rounds_of_all_modes = 4, most_rounds_of_modes = 20;
inline constexpr u32 tree_row = 24;  // of a body: 21 numbers of a symmetric matrix; impulses (6); changes of velocity (6)

// A symmetric 6 x 6 matrix of linear and angular: the answer of an articulated body to a velocity of its centre.
template <class F>
struct Articulated {
    F of[21];
    TBS_METHOD F &at(u32 i, u32 j) { return i >= j ? of[i * (i + 1) / 2 + j] : of[j * (j + 1) / 2 + i]; }
};
template <class F>
struct Twist {
    F of[6];
};
template <class F>
TBS_FUNCTION Twist<F> twist_of(Vec<F> linear, Vec<F> angular) {
    return {{linear.x, linear.y, linear.z, angular.x, angular.y, angular.z}};
}
template <class F>
TBS_FUNCTION F dot(const Twist<F> &a, const Twist<F> &b) {
    F sum = a.of[0] * b.of[0];
    TBS_UNROLL
    for (u32 i = 1; i < 6; ++i) sum = madd(a.of[i], b.of[i], sum);
    return sum;
}

// The six axes of a joint at its anchor, as velocities of a body's centre: a unit along or about an axis.
template <class F>
TBS_FUNCTION void motions_of(const JointBlock &block, u32 lane, Vec<F> arm, Twist<F> (&motion)[6]) {
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) {
        const Vec<F> axis = load_vec<F>(block.axes + 3 * i, lane);
        motion[i] = twist_of(axis, Vec<F>{});
        motion[i + 3] = twist_of(cross(arm, axis), axis);
    }
}
// The same as the velocity of the centre along or about them, at the anchor.
template <class F>
TBS_FUNCTION void measures_of(const JointBlock &block, u32 lane, Vec<F> arm, Twist<F> (&measure)[6]) {
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) {
        const Vec<F> axis = load_vec<F>(block.axes + 3 * i, lane);
        measure[i] = twist_of(axis, cross(arm, axis));
        measure[i + 3] = twist_of(Vec<F>{}, axis);
    }
}

template <class F>
TBS_FUNCTION Vec<F> arm_of(const JointBlock &block, u32 lane, bool child) {
    const auto child_is_b = below(F{}, load<F>(block.side + lane));
    const Vec<F> a = load_vec<F>(block.arm_a, lane), b = load_vec<F>(block.arm_b, lane);
    const Vec<F> x = child ? b : a, y = child ? a : b;
    return {pick(child_is_b, x.x, y.x), pick(child_is_b, x.y, y.y), pick(child_is_b, x.z, y.z)};
}

// Whether row i of a joint is its axis.
template <class F>
TBS_FUNCTION F is_axis(const JointBlock &block, u32 lane, u32 i) {
    return i == 0 ? load<F>(block.slides + lane) : i == 3 ? load<F>(block.turns + lane) : F{};
}
// Whether it is held: by the joint, or as the axis for now.
template <class F>
TBS_FUNCTION F is_held(const JointBlock &block, u32 lane, u32 i) {
    const F own = load<F>(block.rows[i] + lane);
    return i % 3 == 0 ? madd(is_axis<F>(block, lane, i), load<F>(block.hold + lane), own) : own;
}

// The answer of the child and the bodies that hang on it: `held` is the change of their velocity in the rows that the
// joint holds, `given` the impulses on them, push - block.slope * change that on a free axis. Returns all of the
// change, and the impulse of the joint.
template <class F>
TBS_FUNCTION void answer(JointBlock &block, u32 lane, const F (&held)[6], F push, const F (&given)[6], F (&change)[6],
                         F (&impulse)[6]) {
    const auto inertia = [&](u32 i, u32 j) {
        return load<F>(block.articulated[i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i] + lane);
    };
    F holds[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        holds[i] = is_held<F>(block, lane, i);
        F sum = i % 3 == 0 ? madd(push, is_axis<F>(block, lane, i), given[i]) : given[i];
        TBS_UNROLL
        for (u32 j = 0; j < 6; ++j) sum = nmadd(inertia(i, j), held[j], sum);
        change[i] = sum * (splat<F>(1.0f) - holds[i]);
    }
    solve_rows(block.free_factor, block.free_pivot, lane, change);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) change[i] = change[i] + held[i];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        F sum = -given[i];
        TBS_UNROLL
        for (u32 j = 0; j < 6; ++j) sum = madd(inertia(i, j), change[j], sum);
        if (i % 3 == 0) {  // the better conditioned of two ways to the same
            const F slope = load<F>(block.slope + lane), on = is_axis<F>(block, lane, i) * (splat<F>(1.0f) - holds[i]);
            const F free = pick(below(inertia(i, i), slope), sum, nmadd(slope, change[i], push)) * on;
            impulse[i] = madd(sum, holds[i], free);
        } else {
            impulse[i] = sum * holds[i];
        }
    }
}

// The inertia of the child with the bodies that hang on it, and the part that the joint passes on to the parent.
template <class F, class W>
TBS_FUNCTION void gather_inertia(W &w, JointBlock &block, u32 lane) {
    const u32 *child = block.child + lane, *parent = block.parent + lane;
    F low[8], high[8], row[24];
    load_rows([&](u32 i) { return w.mass[child[i]]; }, low);
    load_rows([&](u32 i) { return w.mass[child[i]] + 8; }, high);
    const auto load_tree = [&](const u32 *body) {
        TBS_UNROLL
        for (u32 part = 0; part < 3; ++part) {
            F some[8];
            load_rows([&](u32 i) { return w.tree[body[i]] + 8 * part; }, some);
            TBS_UNROLL
            for (u32 k = 0; k < 8; ++k) row[8 * part + k] = some[k];
        }
    };
    load_tree(child);
    Articulated<F> own;
    TBS_UNROLL
    for (u32 i = 0; i < 21; ++i) own.of[i] = row[i];
    const F mass = inverse_or_zero(low[0]);
    const Inertia<F> turning = inertia_of(Inertia<F>{high[0], high[1], high[2], high[3], high[4], high[5]});
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) own.at(i, i) = own.at(i, i) + mass;
    own.at(3, 3) = own.at(3, 3) + turning.xx, own.at(4, 4) = own.at(4, 4) + turning.yy;
    own.at(5, 5) = own.at(5, 5) + turning.zz, own.at(4, 3) = own.at(4, 3) + turning.xy;
    own.at(5, 3) = own.at(5, 3) + turning.xz, own.at(5, 4) = own.at(5, 4) + turning.yz;

    // In the joint's axes.
    Twist<F> motion[6];
    motions_of(block, lane, arm_of<F>(block, lane, true), motion);
    Articulated<F> at_joint;
    TBS_UNROLL
    for (u32 j = 0; j < 6; ++j) {
        Twist<F> effort;
        TBS_UNROLL
        for (u32 i = 0; i < 6; ++i) {
            effort.of[i] = own.at(i, 0) * motion[j].of[0];
            TBS_UNROLL
            for (u32 k = 1; k < 6; ++k) effort.of[i] = madd(own.at(i, k), motion[j].of[k], effort.of[i]);
        }
        TBS_UNROLL
        for (u32 i = j; i < 6; ++i) {
            at_joint.at(i, j) = dot(motion[i], effort);
            store(block.articulated[i * (i + 1) / 2 + j] + lane, at_joint.at(i, j));
        }
    }
    const F slope = load<F>(block.slope + lane);
    const auto element = [&](u32 i, u32 j) {
        return i == j && i % 3 == 0 ? madd(slope, is_axis<F>(block, lane, i), at_joint.at(i, j)) : at_joint.at(i, j);
    };
    factor_rows(block.free_factor, block.free_pivot, lane, element,
                [&](u32 i) { return splat<F>(1.0f) - is_held<F>(block, lane, i); });

    // The parent's part: rows that are held, and the axis.
    if constexpr (sizeof(F) == sizeof(f32)) {  // lanes of a GPU do not write what several may have
        if (block.hangs[lane] == 0.0f) return;
    }
    Twist<F> measure[6];
    measures_of(block, lane, arm_of<F>(block, lane, false), measure);
    load_tree(parent);
    TBS_UNROLL
    for (u32 j = 0; j < 6; ++j) {
        F held[6] = {}, change[6], impulse[6];
        const F none[6] = {};
        held[j] = is_held<F>(block, lane, j);
        answer(block, lane, held, slope * is_axis<F>(block, lane, j), none, change, impulse);
        Twist<F> effort{};
        TBS_UNROLL
        for (u32 i = 0; i < 6; ++i) {
            TBS_UNROLL
            for (u32 k = 0; k < 6; ++k) effort.of[k] = madd(impulse[i], measure[i].of[k], effort.of[k]);
        }
        TBS_UNROLL
        for (u32 i = 0; i < 6; ++i) {
            F *const line = row + i * (i + 1) / 2;
            TBS_UNROLL
            for (u32 k = 0; k <= i; ++k) line[k] = madd(effort.of[i], measure[j].of[k], line[k]);
        }
    }
    TBS_UNROLL
    for (u32 part = 0; part < 3; ++part) {
        F some[8];
        TBS_UNROLL
        for (u32 k = 0; k < 8; ++k) some[k] = row[8 * part + k];
        store_rows([&](u32 i) { return w.tree[parent[i]] + 8 * part; }, some);
    }
}

// Impulses on the child, in the joint's axes.
template <class F, class W>
TBS_FUNCTION void given_to_child(const W &w, const JointBlock &block, u32 lane, F (&given)[6]) {
    F row[8];
    load_rows([&](u32 i) { return w.tree[block.child[lane + i]] + tree_row; }, row);
    const Twist<F> effort = twist_of(Vec<F>{row[0], row[1], row[2]}, Vec<F>{row[4], row[5], row[6]});
    Twist<F> motion[6];
    motions_of(block, lane, arm_of<F>(block, lane, true), motion);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) given[i] = dot(motion[i], effort);
}

// From the leaves to the root: the change that a joint needs, and its parent's part of it.
template <bool press, class F, class W>
TBS_FUNCTION void pass_to_root(W &w, JointBlock &block, u32 lane, const Pace &pace) {
    const u32 *parent = block.parent + lane;
    const JointBodies<F> m = load_bodies<F>(w, block.a + lane, block.b + lane);
    F wrong[6], given[6], change[6], impulse[6];
    find_wrong<press>(block, lane, pace, m, wrong);
    const F side = load<F>(block.side + lane) * load<F>(block.active + lane);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) wrong[i] = -wrong[i] * load<F>(block.rows[i] + lane) * side;
    F push{};
    if (w.axes_act != 0) {
        const F speed = axis_speed<press, F>(w, block, lane);
        const F short_of = (load<F>(block.aim + lane) - speed) * load<F>(block.hold + lane) * side;
        wrong[0] = madd(short_of, load<F>(block.slides + lane), wrong[0]);
        wrong[3] = madd(short_of, load<F>(block.turns + lane), wrong[3]);
        push = nmadd(load<F>(block.slope + lane), speed, load<F>(block.push + lane)) - load<F>(block.along + lane);
        push = side * push;
    }
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) store(block.wanted[i] + lane, wrong[i]);
    store(block.given + lane, push);
    given_to_child(w, block, lane, given);
    answer(block, lane, wrong, push, given, change, impulse);
    if constexpr (sizeof(F) == sizeof(f32)) {
        if (block.hangs[lane] == 0.0f) return;
    }
    Twist<F> measure[6];
    measures_of(block, lane, arm_of<F>(block, lane, false), measure);
    F row[8];
    load_rows([&](u32 i) { return w.tree[parent[i]] + tree_row; }, row);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        TBS_UNROLL
        for (u32 k = 0; k < 6; ++k) row[k + k / 3] = nmadd(impulse[i], measure[i].of[k], row[k + k / 3]);
    }
    store_rows([&](u32 i) { return w.tree[parent[i]] + tree_row; }, row);
}

// From the root to the leaves: changes of velocity.
template <bool press, class F, class W>
TBS_FUNCTION void pass_to_leaves(W &w, JointBlock &block, u32 lane) {
    const u32 *child = block.child + lane, *parent = block.parent + lane;
    F row[8], held[6], given[6], change[6], impulse[6];
    load_rows([&](u32 i) { return w.tree[parent[i]] + tree_row + 8; }, row);
    const Twist<F> of_parent = twist_of(Vec<F>{row[0], row[1], row[2]}, Vec<F>{row[4], row[5], row[6]});
    Twist<F> measure[6], motion[6];
    measures_of(block, lane, arm_of<F>(block, lane, false), measure);
    F push = load<F>(block.given + lane);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        const F of_row = dot(measure[i], of_parent);
        held[i] = madd(of_row, is_held<F>(block, lane, i), load<F>(block.wanted[i] + lane));
        if (i % 3 == 0) push = madd(of_row * is_axis<F>(block, lane, i), load<F>(block.slope + lane), push);
    }
    given_to_child(w, block, lane, given);
    answer(block, lane, held, push, given, change, impulse);
    motions_of(block, lane, arm_of<F>(block, lane, true), motion);
    Twist<F> more{};
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        TBS_UNROLL
        for (u32 k = 0; k < 6; ++k) more.of[k] = madd(change[i], motion[i].of[k], more.of[k]);
    }
    const F side = load<F>(block.side + lane), none{};
    f32(*const sum)[block_items] = press ? block.impulse : block.late;
    Vec<F> total = load_vec<F>(sum, lane), torque = load_vec<F>(sum + 3, lane);
    const F slides = load<F>(block.slides + lane), turns = load<F>(block.turns + lane);
    const F along = madd(impulse[0], slides, impulse[3] * turns);
    store(block.along + lane, madd(along, side, load<F>(block.along + lane)));
    impulse[0] = nmadd(impulse[0], slides, impulse[0]);
    impulse[3] = nmadd(impulse[3], turns, impulse[3]);
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) {
        const Vec<F> axis = load_vec<F>(block.axes + 3 * i, lane);
        total = add_scaled(total, axis, impulse[i] * side);
        torque = add_scaled(torque, axis, impulse[i + 3] * side);
    }
    store_vec(sum, lane, total);
    store_vec(sum + 3, lane, torque);
    if constexpr (sizeof(F) == sizeof(f32)) {
        if (block.side[lane] == 0.0f) return;
    }
    load_rows([&](u32 i) { return w.velocity[child[i]]; }, row);
    TBS_UNROLL
    for (u32 k = 0; k < 6; ++k) row[k + k / 3] = row[k + k / 3] + more.of[k];
    store_rows([&](u32 i) { return w.velocity[child[i]]; }, row);
    const F changed[8] = {more.of[0], more.of[1], more.of[2], none, more.of[3], more.of[4], more.of[5], none};
    store_rows([&](u32 i) { return w.tree[child[i]] + tree_row + 8; }, changed);
}

// Calls work(F, block, lane) for all joints, children before parents or after them.
template <class Group, class Work>
TBS_FUNCTION void for_children_first(Group &group, const Batches &batches, Work &&work) {
    for (u32 c = 0; c < batches.colours; ++c) for_items(group, batches.batch[c].first, batches.batch[c].count, work);
    const Batch &rest = batches.batch[most_colours];
    if (rest.count == 0) return;
    group.once([&] {
        for (u32 i = rest.first; i < rest.first + rest.count; ++i) work(f32{}, i / block_items, i % block_items);
    });
}
template <class Group, class Work>
TBS_FUNCTION void for_parents_first(Group &group, const Batches &batches, Work &&work) {
    const Batch &rest = batches.batch[most_colours];
    if (rest.count > 0) {
        group.once([&] {
            for (u32 i = rest.first + rest.count; i-- > rest.first;) work(f32{}, i / block_items, i % block_items);
        });
    }
    for (u32 c = batches.colours; c-- > 0;) for_items(group, batches.batch[c].first, batches.batch[c].count, work);
}

// For the frames as they are.
template <class W, class Group>
TBS_FUNCTION void prepare_trees(W &w, Group &group) {
    group.for_each(w.body_count, [&](u32 body) {
        for (u32 k = 0; k < tree_row; ++k) w.tree[body][k] = 0.0f;
    });
    for_children_first(group, w.joint_batches, [&](auto item, u32 block, u32 lane) {
        gather_inertia<decltype(item)>(w, w.joint_blocks[block], lane);
    });
}

// How the axes are taken, by the velocities as they are; at the begin of a substep, when joints do not hold, by those
// before it.
template <bool press, class F, class W>
TBS_FUNCTION void choose_mode(const W &w, JointBlock &block, u32 lane, const Pace &pace, bool begins,
                              F least_mass = F{}) {
    const F zero{}, one = splat<F>(1.0f), side = load<F>(block.side + lane);
    const auto in_tree = below(zero, side * side * (load<F>(block.turns + lane) + load<F>(block.slides + lane)));
    const F own = load<F>(block.axis_mass + lane), mass = greater(own, least_mass);
    const F speed = begins ? load<F>(block.rate + lane) : axis_speed<press, F>(w, block, lane);
    AxisMode<F> mode;
    solve_law(law_of<press, F>(block, lane, pace), mass, nmadd(-mass, speed, -load<F>(block.along + lane)), mode);
    F changed{};
    const auto take = [&](f32 *field, F next) {
        const F before = load<F>(field), now = pick(in_tree, next, zero);
        changed = pick(below(now, before), one, pick(below(before, now), one, changed));
        store(field, now);
    };
    take(block.hold + lane, mode.hold);
    take(block.slope + lane, mode.slope);
    const F factors = changed;
    take(block.aim + lane, mode.aim);
    take(block.push + lane, mode.push);
    store(block.changed + lane, changed + factors);
}

// Solves the equations of trees as their axes are taken.
template <bool press, class W, class Group>
TBS_FUNCTION void solve_trees_once(W &w, Group &group, const Pace &pace) {
    group.for_each(w.body_count, [&](u32 body) {
        for (u32 k = 0; k < 16; ++k) w.tree[body][tree_row + k] = 0.0f;
    });
    for_children_first(group, w.joint_batches, [&](auto item, u32 block, u32 lane) {
        pass_to_root<press, decltype(item)>(w, w.joint_blocks[block], lane, pace);
    });
    for_parents_first(group, w.joint_batches, [&](auto item, u32 block, u32 lane) {
        pass_to_leaves<press, decltype(item)>(w, w.joint_blocks[block], lane);
    });
}

// After this all joints of trees hold.
template <bool press, class W, class Group>
TBS_FUNCTION void solve_trees(W &w, Group &group, const Pace &pace, bool begins = false) {
    if (w.axes_act == 0) return solve_trees_once<press>(w, group, pace);
    const auto block_of = [&](u32 i) -> JointBlock & { return w.joint_blocks[w.joint_item[i] / block_items]; };
    const auto lane_of = [&](u32 i) { return w.joint_item[i] % block_items; };
    const auto tree_of = [&](u32 i) {
        const SolverJoint &joint = w.joints[i];
        return island_of(w.tree_set, is_movable(w, joint.a) ? joint.a : joint.b);
    };
    // Trees settle each by itself, so that none depends on others beside it.
    for (u32 round = 0; round < most_rounds_of_modes; ++round) {
        const bool all = round < rounds_of_all_modes;
        if (all) {
            for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
                choose_mode<press, decltype(item)>(w, w.joint_blocks[block], lane, pace, begins && round == 0);
            });
        }
        group.once([&] {
            u32 *const moves = w.tree_next;  // trees of which a joint has changed
            w.factors_change = w.axes_change = 0;
            for (u32 i = 0; i < w.body_count; ++i) moves[i] = 0;
            for (u32 i = 0; i < w.joint_count; ++i) {
                if (w.in_tree[i] == 0) continue;
                JointBlock &block = block_of(i);
                const u32 lane = lane_of(i), tree = tree_of(i);
                if (!all) {  // they may go round in a circle: one joint after the other comes to an end (Murty 1974)
                    if (moves[tree] != 0) continue;
                    const f32 mass = block.articulated[block.slides[lane] > 0.0f ? 0 : 9][lane];
                    choose_mode<press, f32>(w, block, lane, pace, false, mass);
                }
                if (block.changed[lane] > 0.5f) moves[tree] = w.axes_change = 1;
                if (block.changed[lane] > 1.5f) w.factors_change = 1;
            }
            for (u32 i = 0; i < w.joint_count; ++i) {
                if (w.in_tree[i] == 0) continue;
                block_of(i).active[lane_of(i)] = round == 0 || moves[tree_of(i)] != 0 ? 1.0f : 0.0f;
            }
        });
        if (round > 0 && w.axes_change == 0) return;
        if (w.factors_change != 0) prepare_trees(w, group);
        solve_trees_once<press>(w, group, pace);
    }
}
