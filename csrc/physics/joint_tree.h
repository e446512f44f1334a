// Joints that share bodies, solved all at once: along trees, from the leaves to the root and back.
//
// One joint after the other, a chain settles slowly, the more so the more its masses differ, and the error of one pass
// feeds the next. A tree can be solved directly in a time that is linear in its joints (Featherstone 1983, "The
// calculation of robot dynamics using articulated-body inertias"; Baraff 1996, "Linear-time dynamics using Lagrange
// multipliers"). The bodies that hang on a body are to it a further inertia, of 6 x 6 numbers, which a joint passes on
// as far as it holds. Each joint has a child, which it holds, and a parent, which holds it. What acts on an axis
// (joint_axis.h) is in these equations too.
//
// Joints that would close a loop, and those of bodies with locked axes, are not in a tree: they are solved one after
// the other, before the trees.
#pragma once

#include "physics/islands.h"
#include "physics/joint_axis.h"

inline constexpr u32 rounds_of_all_modes = 4, most_rounds_of_modes = 20;

// A symmetric 6 x 6 matrix of linear and angular: the answer of an articulated body to a velocity of its centre.
template <class F>
struct Articulated {
    F of[21];
    TBS_METHOD F &at(u32 i, u32 j) { return i >= j ? of[i * (i + 1) / 2 + j] : of[j * (j + 1) / 2 + i]; }
};
// The same for a place at `arm` from there: v = v' + arm x w' takes velocities of the place to those of the centre.
template <class F>
TBS_FUNCTION void move_by(Articulated<F> &m, Vec<F> arm) {
    const auto number = [](const Vec<F> &v, u32 k) { return k == 0 ? v.x : k == 1 ? v.y : v.z; };
    const auto lever = [&](u32 k) { return cross(Vec<F>{m.at(0, k), m.at(1, k), m.at(2, k)}, arm); };
    const Vec<F> before[3] = {lever(3), lever(4), lever(5)}, of_force[3] = {lever(0), lever(1), lever(2)};
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) {
        TBS_UNROLL
        for (u32 k = 0; k < 3; ++k) m.at(k + 3, i) = m.at(k + 3, i) + number(of_force[i], k);
    }
    const Vec<F> after[3] = {lever(3), lever(4), lever(5)};
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) {
        TBS_UNROLL
        for (u32 k = 0; k <= i; ++k)
            m.at(i + 3, k + 3) = m.at(i + 3, k + 3) + (number(before[i], k) + number(after[k], i));
    }
}
// The same in a frame of these axes.
template <class F>
TBS_FUNCTION void turn_into(Articulated<F> &m, const Vec<F> (&axis)[3]) {
    Articulated<F> before = m;
    TBS_UNROLL
    for (u32 part = 0; part < 3; ++part) {  // linear, both, angular
        const u32 down = part == 0 ? 0 : 3, along = part == 2 ? 3 : 0;
        TBS_UNROLL
        for (u32 j = 0; j < 3; ++j) {
            const auto row = [&](u32 i) {
                return dot(Vec<F>{before.at(down + i, along), before.at(down + i, along + 1), before.at(down + i, along + 2)},
                           axis[j]);
            };
            const Vec<F> effort{row(0), row(1), row(2)};
            TBS_UNROLL
            for (u32 i = part == 1 ? 0 : j; i < 3; ++i) m.at(down + i, along + j) = dot(axis[i], effort);
        }
    }
}
// Solves for row k where `free` is 1, with `slope` more on its diagonal (the sweep operator: Dempster 1969, "Elements of
// Continuous Multivariate Analysis"). With all free rows swept, the matrix gives from the efforts on free rows and the
// changes of held ones the efforts on held rows, and minus the changes of free ones. Returns the row's own number.
template <class F>
TBS_FUNCTION F sweep(Articulated<F> &m, u32 k, F free, F slope, F least) {
    const F own = m.at(k, k), whole = own + slope, one = splat<F>(1.0f);
    const auto is_free = below(F{}, free);
    if (!holds_for_one(is_free)) return own;
    const auto sound = below(least, whole * free);
    const F inverse = pick(sound, one / pick(sound, whole, one), F{});
    F line[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) line[i] = m.at(i, k);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        if (i == k) continue;
        const F share = line[i] * inverse;
        TBS_UNROLL
        for (u32 j = 0; j <= i; ++j) {
            if (j != k) m.at(i, j) = nmadd(share, line[j], m.at(i, j));
        }
        m.at(i, k) = pick(is_free, share, line[i]);
    }
    m.at(k, k) = pick(is_free, -inverse, own);
    return own;
}

template <class F>
TBS_FUNCTION Vec<F> in_axes(const Vec<F> (&axis)[3], Vec<F> v) {
    return {dot(axis[0], v), dot(axis[1], v), dot(axis[2], v)};
}
template <class F>
TBS_FUNCTION Vec<F> out_of_axes(const Vec<F> (&axis)[3], F x, F y, F z) {
    return add_scaled(add_scaled(scaled(axis[0], x), axis[1], y), axis[2], z);
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
TBS_FUNCTION void answer(const JointBlock &block, u32 lane, const F (&held)[6], F push, const F (&given)[6],
                         F (&change)[6], F (&impulse)[6]) {
    const auto element = [&](u32 i, u32 j) {
        return load<F>(block.articulated[i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i] + lane);
    };
    const F zero{}, one = splat<F>(1.0f);
    F holds[6], known[6], found[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        holds[i] = is_held<F>(block, lane, i);
        known[i] = pick(below(zero, holds[i]), held[i], given[i]);
    }
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        found[i] = element(i, 0) * known[0];
        TBS_UNROLL
        for (u32 j = 1; j < 6; ++j) found[i] = madd(element(i, j), known[j], found[i]);
    }
    // On the axis: apart, since a steep slope takes nearly all of its push away again.
    F of_axis[2];
    TBS_UNROLL
    for (u32 k = 0; k < 2; ++k) {
        const F on = is_axis<F>(block, lane, 3 * k) * (one - holds[3 * k]);
        of_axis[k] = madd(load<F>(block.slope + lane), found[3 * k], push * load<F>(block.share + lane)) * on;
        TBS_UNROLL
        for (u32 i = 0; i < 6; ++i) found[i] = madd(element(i, 3 * k), push * on, found[i]);
    }
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        const auto is_held_here = below(zero, holds[i]);
        change[i] = pick(is_held_here, held[i], -found[i]);
        impulse[i] = pick(is_held_here, found[i] - given[i], i % 3 == 0 ? of_axis[i / 3] : zero);
    }
}

// The parts of bodies' rows that have matrices.
template <class F, class W>
TBS_FUNCTION void load_matrix(const W &w, const u32 *body, Articulated<F> &m) {
    TBS_UNROLL
    for (u32 part = 0; part < 3; ++part) {
        F some[8];
        load_rows([&](u32 i) { return w.tree[body[i]] + 8 * part; }, some);
        TBS_UNROLL
        for (u32 k = 0; k < 8; ++k) {
            if (8 * part + k < 21) m.of[8 * part + k] = some[k];
        }
    }
}
template <class F, class W>
TBS_FUNCTION void store_matrix(W &w, const u32 *body, const Articulated<F> &m) {
    TBS_UNROLL
    for (u32 part = 0; part < 3; ++part) {
        F some[8] = {};
        TBS_UNROLL
        for (u32 k = 0; k < 8; ++k) {
            if (8 * part + k < 21) some[k] = m.of[8 * part + k];
        }
        store_rows([&](u32 i) { return w.tree[body[i]] + 8 * part; }, some);
    }
}
// The inertia of bodies with those that hang on them.
template <class F, class W>
TBS_FUNCTION void load_inertia(const W &w, const u32 *body, Articulated<F> &m) {
    F low[8], high[8];
    load_matrix(w, body, m);
    load_rows([&](u32 i) { return w.mass[body[i]]; }, low);
    load_rows([&](u32 i) { return w.mass[body[i]] + 8; }, high);
    const F mass = inverse_or_zero(low[0]);
    const Inertia<F> turning = inertia_of(Inertia<F>{high[0], high[1], high[2], high[3], high[4], high[5]});
    TBS_UNROLL
    for (u32 i = 0; i < 3; ++i) m.at(i, i) = m.at(i, i) + mass;
    m.at(3, 3) = m.at(3, 3) + turning.xx, m.at(4, 4) = m.at(4, 4) + turning.yy;
    m.at(5, 5) = m.at(5, 5) + turning.zz, m.at(4, 3) = m.at(4, 3) + turning.xy;
    m.at(5, 3) = m.at(5, 3) + turning.xz, m.at(5, 4) = m.at(5, 4) + turning.yz;
}

// Solves for the bodies on which free trees hang, in the world's frame.
template <class F, class W>
TBS_FUNCTION void prepare_root(W &w, u32 first) {
    Articulated<F> all;
    load_inertia(w, w.root_body + first, all);
    F least[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) least[i] = splat<F>(1e-5f) * all.at(i, i);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) sweep(all, i, splat<F>(1.0f), F{}, least[i]);
    store_matrix(w, w.root_body + first, all);
}
template <class F, class W>
TBS_FUNCTION void move_root(W &w, u32 first) {
    const u32 *const body = w.root_body + first;
    Articulated<F> all;
    load_matrix(w, body, all);
    F given[8], changed[8] = {}, row[8];
    load_rows([&](u32 i) { return w.tree[body[i]] + tree_row; }, given);
    load_rows([&](u32 i) { return w.velocity[body[i]]; }, row);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        F sum{};
        TBS_UNROLL
        for (u32 j = 0; j < 6; ++j) sum = nmadd(all.at(i, j), given[j + j / 3], sum);
        changed[i + i / 3] = sum;
        row[i + i / 3] = row[i + i / 3] + sum;
    }
    store_rows([&](u32 i) { return w.velocity[body[i]]; }, row);
    store_rows([&](u32 i) { return w.tree[body[i]] + tree_row + 8; }, changed);
}

// The inertia of the child with the bodies that hang on it, and in its place the part that the joint passes on to the
// parent.
template <class F, class W>
TBS_FUNCTION void gather_inertia(W &w, JointBlock &block, u32 lane) {
    const u32 *child = block.child + lane;
    Articulated<F> own;
    load_inertia(w, child, own);

    // In the joint's axes.
    const F zero{}, one = splat<F>(1.0f), slope = load<F>(block.slope + lane);
    Vec<F> axis[3];
    load_axes(block, lane, axis);
    move_by(own, arm_of<F>(block, lane, true));
    turn_into(own, axis);
    F holds[6], least[6], on_axis[2];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        holds[i] = is_held<F>(block, lane, i);
        least[i] = splat<F>(1e-5f) * own.at(i, i);
    }
    TBS_UNROLL
    for (u32 k = 0; k < 2; ++k) on_axis[k] = is_axis<F>(block, lane, 3 * k);
    store(block.axis_inertia + lane, madd(own.at(0, 0), on_axis[0], own.at(3, 3) * on_axis[1]));
    F share = zero;
    TBS_UNROLL
    for (u32 n = 0; n < 6; ++n) {  // the axis last
        const u32 i = n < 2 ? n + 1 : n < 4 ? n + 2 : 3 * (n - 4);
        const F more = i % 3 == 0 ? slope * on_axis[i / 3] : zero, without = sweep(own, i, one - holds[i], more, least[i]);
        if (i % 3 == 0) share = madd(without * inverse_or_zero(without + more), on_axis[i / 3], share);
    }
    store(block.share + lane, share);
    TBS_UNROLL
    for (u32 i = 0; i < 21; ++i) store(block.articulated[i] + lane, own.of[i]);

    // The parent's part: rows that are held, and the axis, which the slope joins to it.
    if constexpr (sizeof(F) == sizeof(f32)) {  // lanes of a GPU do not write what several may have
        if (block.hangs[lane] == 0.0f) return;
    }
    F passes[6];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) passes[i] = i % 3 == 0 ? pick(below(zero, holds[i]), one, slope * on_axis[i / 3]) : holds[i];
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) {
        TBS_UNROLL
        for (u32 j = 0; j < i; ++j) own.at(i, j) = own.at(i, j) * (passes[i] * passes[j]);
        own.at(i, i) = pick(below(zero, holds[i]), own.at(i, i), passes[i] * share);
    }
    const Vec<F> back[3] = {{axis[0].x, axis[1].x, axis[2].x},
                            {axis[0].y, axis[1].y, axis[2].y},
                            {axis[0].z, axis[1].z, axis[2].z}};
    turn_into(own, back);
    const Vec<F> arm = arm_of<F>(block, lane, false);
    move_by(own, {-arm.x, -arm.y, -arm.z});
    store_matrix(w, child, own);
}

// Impulses on the child, in the joint's axes.
template <class F, class W>
TBS_FUNCTION void given_to_child(const W &w, const JointBlock &block, u32 lane, const Vec<F> (&axis)[3], F (&given)[6]) {
    F row[8];
    load_rows([&](u32 i) { return w.tree[block.child[lane + i]] + tree_row; }, row);
    const Vec<F> push{row[0], row[1], row[2]}, torque{row[4], row[5], row[6]};
    const Vec<F> linear = in_axes(axis, push);
    const Vec<F> angular = in_axes(axis, add_cross(torque, push, arm_of<F>(block, lane, true)));
    given[0] = linear.x, given[1] = linear.y, given[2] = linear.z;
    given[3] = angular.x, given[4] = angular.y, given[5] = angular.z;
}

// From the leaves to the root: the change that a joint needs, and its parent's part of it, where the child's change will
// be.
template <bool press, class F, class W>
TBS_FUNCTION void pass_to_root(W &w, JointBlock &block, u32 lane, const Pace &pace) {
    const u32 *child = block.child + lane;
    const JointBodies<F> m = load_bodies<F>(w, block.a + lane, block.b + lane);
    Vec<F> axis[3];
    load_axes(block, lane, axis);
    F wrong[6], given[6], change[6], impulse[6];
    find_wrong<press>(block, lane, pace, m, wrong);
    const F side = load<F>(block.side + lane) * load<F>(block.active + lane);
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) wrong[i] = -wrong[i] * load<F>(block.rows[i] + lane) * side;
    F push{};
    if (w.axes_act != 0) {
        const F speed = load<F>(block.speed + lane);
        const F short_of = (load<F>(block.aim + lane) - speed) * load<F>(block.hold + lane) * side;
        wrong[0] = madd(short_of, load<F>(block.slides + lane), wrong[0]);
        wrong[3] = madd(short_of, load<F>(block.turns + lane), wrong[3]);
        push = nmadd(load<F>(block.slope + lane), speed, load<F>(block.push + lane)) - load<F>(block.along + lane);
        push = side * push;
    }
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) store(block.wanted[i] + lane, wrong[i]);
    store(block.given + lane, push);
    given_to_child(w, block, lane, axis, given);
    answer(block, lane, wrong, push, given, change, impulse);
    if constexpr (sizeof(F) == sizeof(f32)) {
        if (block.hangs[lane] == 0.0f) return;
    }
    const Vec<F> linear = out_of_axes(axis, impulse[0], impulse[1], impulse[2]);
    const Vec<F> angular = out_of_axes(axis, impulse[3], impulse[4], impulse[5]);
    const Vec<F> torque = add_cross(angular, arm_of<F>(block, lane, false), linear);
    store_rows([&](u32 i) { return w.tree[child[i]] + tree_row + 8; },
               {-linear.x, -linear.y, -linear.z, F{}, -torque.x, -torque.y, -torque.z, F{}});
}

// From the root to the leaves: changes of velocity.
template <bool press, class F, class W>
TBS_FUNCTION void pass_to_leaves(W &w, JointBlock &block, u32 lane) {
    const u32 *child = block.child + lane, *parent = block.parent + lane;
    F row[8], held[6], given[6], change[6], impulse[6];
    load_rows([&](u32 i) { return w.tree[parent[i]] + tree_row + 8; }, row);
    Vec<F> axis[3];
    load_axes(block, lane, axis);
    const Vec<F> turning{row[4], row[5], row[6]};
    const Vec<F> going = add_cross(Vec<F>{row[0], row[1], row[2]}, turning, arm_of<F>(block, lane, false));
    const Vec<F> linear = in_axes(axis, going), angular = in_axes(axis, turning);
    const F of_parent[6] = {linear.x, linear.y, linear.z, angular.x, angular.y, angular.z};
    const F slides = load<F>(block.slides + lane), turns = load<F>(block.turns + lane);
    const F along_parent = madd(of_parent[0], slides, of_parent[3] * turns);
    const F push = madd(along_parent, load<F>(block.slope + lane), load<F>(block.given + lane));
    TBS_UNROLL
    for (u32 i = 0; i < 6; ++i) held[i] = of_parent[i] + load<F>(block.wanted[i] + lane);  // read where it is held
    given_to_child(w, block, lane, axis, given);
    answer(block, lane, held, push, given, change, impulse);
    const F side = load<F>(block.side + lane), none{};
    f32(*const sum)[block_items] = press ? block.impulse : block.late;
    const F along = madd(impulse[0], slides, impulse[3] * turns);
    const F faster = madd(change[0], slides, change[3] * turns) - along_parent;
    store(block.along + lane, madd(along, side, load<F>(block.along + lane)));
    store(block.speed + lane, madd(faster, side, load<F>(block.speed + lane)));
    impulse[0] = nmadd(impulse[0], slides, impulse[0]);
    impulse[3] = nmadd(impulse[3], turns, impulse[3]);
    const Vec<F> total = scaled(out_of_axes(axis, impulse[0], impulse[1], impulse[2]), side);
    const Vec<F> torque = scaled(out_of_axes(axis, impulse[3], impulse[4], impulse[5]), side);
    store_vec(sum, lane, load_vec<F>(sum, lane) + total);
    store_vec(sum + 3, lane, load_vec<F>(sum + 3, lane) + torque);
    if constexpr (sizeof(F) == sizeof(f32)) {
        if (block.side[lane] == 0.0f) return;
    }
    const Vec<F> turned = out_of_axes(axis, change[3], change[4], change[5]);
    const Vec<F> moved = add_cross(out_of_axes(axis, change[0], change[1], change[2]), arm_of<F>(block, lane, true), turned);
    load_rows([&](u32 i) { return w.velocity[child[i]]; }, row);
    row[0] = row[0] + moved.x, row[1] = row[1] + moved.y, row[2] = row[2] + moved.z;
    row[4] = row[4] + turned.x, row[5] = row[5] + turned.y, row[6] = row[6] + turned.z;
    store_rows([&](u32 i) { return w.velocity[child[i]]; }, row);
    const F changed[8] = {moved.x, moved.y, moved.z, none, turned.x, turned.y, turned.z, none};
    store_rows([&](u32 i) { return w.tree[child[i]] + tree_row + 8; }, changed);
}

// Numbers of a body's row that joints pass on from the child to the parent: from where, to where, how many.
struct PassedOn {
    u32 from, to, count;
};
inline constexpr PassedOn passed_inertia{0, 0, 21}, passed_impulse{tree_row + 8, tree_row, 8};

// Parents of several joints take their parts one after the other, in the order of items.
template <class W, class Group>
TBS_FUNCTION void pass_on(W &w, Group &group, u32 first, u32 count, PassedOn numbers) {
    const auto take = [&](u32 item, u32 begin, u32 end) {
        const JointBlock &block = w.joint_blocks[item / block_items];
        const u32 parent = block.parent[item % block_items];
        if (parent == W::nobody) return;
        const f32 *from = w.tree[block.child[item % block_items]] + numbers.from;
        f32 *to = w.tree[parent] + numbers.to;
        for (u32 k = begin; k < end; ++k) to[k] += from[k];
    };
    if constexpr (Group::group_threads == 1) {
        for (u32 i = first; i < first + count; ++i) take(i, 0, numbers.count);
    } else {
        group.for_each(numbers.count, [&](u32 k) {
            for (u32 i = first; i < first + count; ++i) take(i, k, k + 1);
        });
    }
}

// Calls work(F, block, lane) for all joints, children before parents, which then have the parts of their children; or
// after them.
template <class W, class Group, class Work>
TBS_FUNCTION void for_children_first(W &w, Group &group, PassedOn numbers, Work &&work) {
    const Batches &batches = w.joint_batches;
    const Batch &rest = batches.batch[most_colours];
    TBS_ROLLED
    for (u32 c = 0; c < batches.colours + rest.count; ++c) {
        const bool coloured = c < batches.colours;
        const u32 first = coloured ? batches.batch[c].first : rest.first + (c - batches.colours);
        const u32 count = coloured ? batches.batch[c].count : 1;
        if (on_device || coloured) {
            for_items(group, first, count, work);
        } else {
            work(f32{}, first / block_items, first % block_items);
        }
        pass_on(w, group, first, count, numbers);
    }
}
template <class Group, class Work>
TBS_FUNCTION void for_parents_first(Group &group, const Batches &batches, Work &&work) {
    const Batch &rest = batches.batch[most_colours];
    TBS_ROLLED
    for (u32 k = 0; k < batches.colours + rest.count; ++k) {
        const bool coloured = k >= rest.count;
        const Batch &batch = coloured ? batches.batch[batches.colours - 1 - (k - rest.count)] : rest;
        const u32 first = coloured ? batch.first : rest.first + (rest.count - 1 - k);
        if (on_device || coloured) {
            for_items(group, first, coloured ? batch.count : 1, work);
        } else {
            work(f32{}, first / block_items, first % block_items);
        }
    }
}

// For the frames as they are.
template <class W, class Group>
TBS_ONE_COPY void prepare_trees(W &w, Group &group) {
    group.for_each(w.body_count, [&](u32 body) {
        for (u32 k = 0; k < tree_row; ++k) w.tree[body][k] = 0.0f;
    });
    for_children_first(w, group, passed_inertia, [&](auto item, u32 block, u32 lane) {
        gather_inertia<decltype(item)>(w, w.joint_blocks[block], lane);
    });
    for_items(group, 0, w.root_count, [&](auto item, u32 block, u32 lane) {
        prepare_root<decltype(item)>(w, block * block_items + lane);
    });
}

// How the axes are taken, by the velocities as they are; at the begin of a substep, when joints do not hold, by those
// before it.
template <bool press, class F, class W>
TBS_FUNCTION void choose_mode(const W &w, JointBlock &block, u32 lane, const Pace &pace, bool first, bool begins) {
    const F zero{}, one = splat<F>(1.0f), side = load<F>(block.side + lane);
    const auto in_tree = below(zero, side * side * (load<F>(block.turns + lane) + load<F>(block.slides + lane)));
    const F mass = load<F>(block.axis_inertia + lane);
    if (first) store(block.speed + lane, axis_speed<press, F>(w, block, lane));
    const F speed = load<F>((begins ? block.rate : block.speed) + lane);
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
TBS_ONE_COPY void solve_trees_once(W &w, Group &group, const Pace &pace) {
    group.for_each(w.body_count, [&](u32 body) {
        for (u32 k = 0; k < 16; ++k) w.tree[body][tree_row + k] = 0.0f;
    });
    for_children_first(w, group, passed_impulse, [&](auto item, u32 block, u32 lane) {
        pass_to_root<press, decltype(item)>(w, w.joint_blocks[block], lane, pace);
    });
    for_items(group, 0, w.root_count, [&](auto item, u32 block, u32 lane) {
        move_root<decltype(item)>(w, block * block_items + lane);
    });
    for_parents_first(group, w.joint_batches, [&](auto item, u32 block, u32 lane) {
        pass_to_leaves<press, decltype(item)>(w, w.joint_blocks[block], lane);
    });
}

// Of an item of trees.
template <class W>
TBS_FUNCTION u32 tree_of(W &w, const JointBlock &block, u32 lane) {
    return island_of(w.tree_set, block.child[lane]);
}
template <class W, class Visit>
TBS_FUNCTION void for_tree_joints(W &w, Visit &&visit) {
    for (u32 i = 0; i < w.joint_count; ++i) {
        if (w.in_tree[i] != 0) visit(w.joint_blocks[w.joint_item[i] / block_items], w.joint_item[i] % block_items);
    }
}
// Makes those trees active that have a joint where changed(block, lane, moves) holds; `moves` is 1 where one before it
// in the tree did. Returns whether there are any.
template <class W, class Changed>
TBS_FUNCTION bool keep_active(W &w, Changed &&changed) {
    bool any = false;
    for (u32 i = 0; i < w.body_count; ++i) w.tree_next[i] = 0;
    for_tree_joints(w, [&](JointBlock &block, u32 lane) {
        u32 &moves = w.tree_next[tree_of(w, block, lane)];
        if (changed(block, lane, moves)) moves = 1, any = true;
    });
    for_tree_joints(w, [&](JointBlock &block, u32 lane) {
        block.active[lane] = w.tree_next[tree_of(w, block, lane)] != 0 ? 1.0f : 0.0f;
    });
    return any;
}

// After this all joints of the trees that are active hold.
template <bool press, class W, class Group>
TBS_ONE_COPY void solve_trees(W &w, Group &group, const Pace &pace, bool begins = false) {
    if (w.axes_act == 0) return solve_trees_once<press>(w, group, pace);
    // Trees settle each by itself, so that none depends on others beside it.
    for (u32 round = 0; round < most_rounds_of_modes; ++round) {
        const bool all = round < rounds_of_all_modes;
        if (all) {
            for_batches(group, w.joint_batches, [&](auto item, u32 block, u32 lane, bool) {
                choose_mode<press, decltype(item)>(w, w.joint_blocks[block], lane, pace, round == 0, begins && round == 0);
            });
        }
        group.once([&] {
            w.factors_change = 0;
            const bool any = keep_active(w, [&](JointBlock &block, u32 lane, u32 moves) {
                if (!all) {  // they may go round in a circle: one joint after the other comes to an end (Murty 1974)
                    if (moves != 0) return false;
                    choose_mode<press, f32>(w, block, lane, pace, false, false);
                }
                if (block.changed[lane] > 1.5f) w.factors_change = 1;
                return block.changed[lane] > 0.5f || (round == 0 && block.active[lane] != 0.0f);
            });
            w.axes_change = any ? 1 : 0;
        });
        if (w.axes_change == 0) return;
        if (w.factors_change != 0) prepare_trees(w, group);
        solve_trees_once<press>(w, group, pace);
    }
}
