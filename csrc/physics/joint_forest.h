// Trees of joints that are solved at once, and batches of joints.
//
// A joint of a tree has a colour above those of all joints that hang on its child: so colours upwards meet children before
// parents. Joints of one colour may share their parent, unless joints are solved one by one beside trees. Joints without
// a colour are worked on one after the other, in the same order.
#pragma once

#include "physics/joint_passes.h"

// The end of a joint as trees see it.
inline constexpr u32 set_hangs = 1, set_has_loop = 2;  // of a set of bodies
inline constexpr u32 end_stands = 0, end_moves = 1, end_is_locked = 2;

template <class W>
TBS_FUNCTION u32 kind_of_end(const W &w, u32 body) {
    if (!is_movable(w, body)) return end_stands;
    const BodyBlock &block = w.body_blocks[body / block_items];
    const u32 lane = body % block_items;
    f32 free = block.inverse_mass[lane] > 0.0f && block.inertia[0][lane] > 0.0f ? 1.0f : 0.0f;
    for (u32 i = 0; i < 3; ++i) free *= block.free_linear[i][lane] * block.free_angular[i][lane];
    return free > 0.0f ? end_moves : end_is_locked;
}

// Finds the joints in trees: those that close no loop. Standing bodies are one with the ground; w.tree_next[root] != 0
// if a set of bodies hangs on it. Returns whether any two joints share a body.
template <class W>
TBS_FUNCTION bool choose_tree_joints(W &w) {
    bool shared = false;
    for (u32 i = 0; i < w.body_count; ++i) {
        w.tree_set[i] = i;
        w.tree_next[i] = w.used[i] = 0;
    }
    for (u32 i = 0; i < w.joint_count; ++i) {
        const SolverJoint &joint = w.joints[i];
        const u32 a = kind_of_end(w, joint.a), b = kind_of_end(w, joint.b);
        const auto use = [&](u32 body) {
            shared = shared || w.used[body] != 0;
            w.used[body] = 1;
        };
        if (a != end_stands) use(joint.a);
        if (b != end_stands) use(joint.b);
        w.in_tree[i] = 0;
        if ((a == end_stands && b == end_stands) || joint.broken != 0) continue;
        if (a == end_is_locked || b == end_is_locked) {
            if (a == end_moves) w.tree_next[island_of(w.tree_set, joint.a)] |= set_has_loop;
            if (b == end_moves) w.tree_next[island_of(w.tree_set, joint.b)] |= set_has_loop;
            continue;
        }
        if (a == end_moves && b == end_moves) {
            const u32 x = island_of(w.tree_set, joint.a), y = island_of(w.tree_set, joint.b);
            const u32 both = w.tree_next[x] | w.tree_next[y], loop = x == y || (w.tree_next[x] & w.tree_next[y] & set_hangs) != 0;
            w.tree_next[x] = w.tree_next[y] = both | (loop ? set_has_loop : 0);
            if (loop) continue;
            join(w.tree_set, x, y);
        } else {
            u32 &hangs = w.tree_next[island_of(w.tree_set, a == end_moves ? joint.a : joint.b)];
            const bool loop = (hangs & set_hangs) != 0;
            hangs |= loop ? set_hangs | set_has_loop : set_hangs;
            if (loop) continue;
        }
        w.in_tree[i] = 1;
    }
    w.beside_trees = 0;
    for (u32 i = 0; i < w.joint_count; ++i) {
        const auto loops = [&](u32 body) {
            const u32 kind = kind_of_end(w, body);
            return kind == end_is_locked || (kind == end_moves && (w.tree_next[island_of(w.tree_set, body)] & set_has_loop) != 0);
        };
        w.in_loop[i] = shared && (loops(w.joints[i].a) || loops(w.joints[i].b));
        if (w.in_loop[i] != 0) w.beside_trees = 1;
    }
    return shared;
}

// Finds the body in the middle of each set of bodies in a tree, w.tree_middle[set]: as a root it makes the tree as flat
// as can be, so that most joints have each colour. It is the one that stays when the outermost joints are taken off
// again and again.
template <class W>
TBS_FUNCTION void find_middles(W &w) {
    constexpr u32 inside = 1, outermost = 2, taken_off = 3;  // of w.in_tree
    u32 *const joints_of = w.used;
    const auto for_joints = [&](u32 state, auto &&visit) {
        for (u32 i = 0; i < w.joint_count; ++i) {
            const u32 a = w.joints[i].a, b = w.joints[i].b;
            if (w.in_tree[i] == state && is_movable(w, a) && is_movable(w, b)) visit(i, a, b);
        }
    };
    for (u32 i = 0; i < w.body_count; ++i) joints_of[i] = 0;
    for_joints(inside, [&](u32, u32 a, u32 b) { ++joints_of[a], ++joints_of[b]; });
    for (bool more = true; more;) {
        more = false;
        for_joints(inside, [&](u32 i, u32 a, u32 b) {
            if (joints_of[a] != 1 && joints_of[b] != 1) return;
            w.in_tree[i] = outermost;
            w.tree_middle[island_of(w.tree_set, a)] = joints_of[a] != 1 ? a : b;
            more = true;
        });
        for_joints(outermost, [&](u32 i, u32 a, u32 b) {
            --joints_of[a], --joints_of[b];
            w.in_tree[i] = taken_off;
        });
    }
    for_joints(taken_off, [&](u32 i, u32, u32) { w.in_tree[i] = inside; });
}

// Lists joints of trees in w.tree_order, parents before children: joint i as 2 i + 1 where its child is b, else 2 i; and
// the bodies on which free trees hang in w.root_body. Returns the number of joints.
template <class W>
TBS_FUNCTION u32 order_trees(W &w) {
    u32 count = 0;
    find_middles(w);
    w.root_count = 0;
    for (u32 i = 0; i < w.body_count; ++i) w.used[i] = 0;  // 1: has its place
    for (u32 i = 0; i < w.joint_count; ++i) {
        const SolverJoint &joint = w.joints[i];
        if (w.in_tree[i] == 0) continue;
        const bool moves_a = is_movable(w, joint.a), moves_b = is_movable(w, joint.b);
        if (moves_a != moves_b) {
            w.used[moves_b ? joint.b : joint.a] = 1;
            w.tree_order[count++] = 2 * i + (moves_b ? 1 : 0);
        } else {
            const u32 set = island_of(w.tree_set, joint.a), root = w.tree_middle[set];
            if ((w.tree_next[set] & set_hangs) != 0 || w.used[root] != 0) continue;
            w.used[root] = 1;
            w.root_body[w.root_count++] = root;
        }
    }
    if constexpr (simd_width > 1) {
        for (u32 i = w.root_count; i % simd_width != 0; ++i) w.root_body[i] = W::ground;
    }
    for (u32 before = ~0u; before != count;) {
        before = count;
        for (u32 i = 0; i < w.joint_count; ++i) {
            const u32 a = w.joints[i].a, b = w.joints[i].b;
            if (w.in_tree[i] == 0 || !is_movable(w, a) || !is_movable(w, b) || w.used[a] == w.used[b]) continue;
            w.tree_order[count++] = 2 * i + (w.used[a] != 0 ? 1 : 0);
            w.used[a] = w.used[b] = 1;
        }
    }
    return count;
}

// Batches of joints, some of which share bodies: those of trees from the leaves on, then the others where there is
// room.
template <class W>
TBS_FUNCTION void colour_trees(W &w) {
    const u32 count = w.tree_count = order_trees(w);
    Batches &batches = w.joint_batches;
    u32 size[most_colours + 1] = {}, next[most_colours + 1];
    for (u32 i = 0; i < w.body_count; ++i) w.tree_next[i] = w.used[i] = 0;
    const auto end_of = [&](u32 entry, bool child) {
        const SolverJoint &joint = w.joints[entry / 2];
        return (entry % 2 != 0) == child ? joint.b : joint.a;
    };
    const auto item_of = [&](u32 entry) -> u32 & { return w.joint_item[entry / 2]; };
    for (u32 k = count; k-- > 0;) {  // item_of() holds colours for now
        const u32 child = end_of(w.tree_order[k], true), parent = end_of(w.tree_order[k], false);
        const bool hangs = is_movable(w, parent);
        const bool above = hangs && w.tree_next[parent] > w.tree_next[child];
        const u32 level = above && w.beside_trees != 0 ? w.tree_next[parent] : w.tree_next[child];
        const u32 colour = level < most_colours ? level : most_colours, bit = level < most_colours ? 1u << level : 0u;
        w.used[child] |= bit;
        if (hangs) {
            if (level + 1 > w.tree_next[parent]) w.tree_next[parent] = level + 1;
            w.used[parent] |= bit;
        }
        item_of(w.tree_order[k]) = colour;
        size[colour] += 1;
    }
    for (u32 i = 0; i < w.joint_count; ++i) {
        if (w.in_tree[i] != 0) continue;
        const u32 a = w.joints[i].a, b = w.joints[i].b;
        const bool moves_a = is_movable(w, a), moves_b = is_movable(w, b);
        w.joint_item[i] = not_solved;
        if (!moves_a && !moves_b) continue;
        const u32 open = ~((moves_a ? w.used[a] : 0) | (moves_b ? w.used[b] : 0)) & ((1u << most_colours) - 1);
        if (moves_a) w.used[a] |= open & (0u - open);
        if (moves_b) w.used[b] |= open & (0u - open);
        w.joint_item[i] = open != 0 ? lowest_bit(open) : most_colours;
        size[w.joint_item[i]] += 1;
    }
    u32 first = 0;
    batches.colours = 0;
    for (u32 c = 0; c <= most_colours; ++c) {
        batches.batch[c] = {first, size[c], 0};
        next[c] = first;
        if (c < most_colours && size[c] > 0) batches.colours = c + 1;
        first += c < most_colours ? (size[c] + simd_width - 1) / simd_width * simd_width : size[c];
    }
    batches.end = first;
    for (u32 k = count; k-- > 0;) item_of(w.tree_order[k]) = next[item_of(w.tree_order[k])]++;
    for (u32 i = 0; i < w.joint_count; ++i) {
        if (w.in_tree[i] == 0 && w.joint_item[i] != not_solved) w.joint_item[i] = next[w.joint_item[i]]++;
    }
}

// Writes which end of a joint is the child.
template <class W>
TBS_FUNCTION void place_in_tree(W &w, u32 entry) {
    const u32 item = w.joint_item[entry / 2];
    JointBlock &block = w.joint_blocks[item / block_items];
    const u32 lane = item % block_items;
    const bool child_is_b = entry % 2 != 0;
    const u32 parent = child_is_b ? block.a[lane] : block.b[lane];
    const bool hangs = parent != W::ground && is_movable(w, parent);
    block.side[lane] = child_is_b ? 1.0f : -1.0f;
    block.hangs[lane] = hangs ? 1.0f : 0.0f;
    block.child[lane] = child_is_b ? block.b[lane] : block.a[lane];
    block.parent[lane] = hangs ? parent : W::nobody;
}

template <class W, class Group>
TBS_FUNCTION void prepare_joints(W &w, Group &group, const Pace &pace) {
    group.once([&] {
        w.axes_act = 0;
        for (u32 i = 0; i < w.joint_count; ++i) w.axes_act |= acts_on_axis(w.joints[i]) ? 1 : 0;
        w.joints_share_bodies = choose_tree_joints(w);
        w.root_count = 0;
        w.tree_count = 0;
        if (w.joints_share_bodies != 0) colour_trees(w);
        for (u32 k = 0; k < tree_row + 16; ++k) w.tree[W::ground][k] = w.tree[W::nobody][k] = 0.0f;
    });
    if (w.joints_share_bodies == 0) {
        colour(w, group, w.joint_count, w.joint_item, w.joint_batches, [&](u32 i, u32 &a, u32 &b) {
            a = w.joints[i].a;
            b = w.joints[i].b;
        });
    }
    group.for_each(w.joint_count, [&](u32 i) {
        const u32 item = w.joint_item[i];
        if (item == not_solved) return;
        place_joint(w, w.joints[i], pace, w.joint_blocks[item / block_items], item % block_items);
        w.joint_blocks[item / block_items].soft[item % block_items] = w.in_loop[i] != 0 ? 1.0f : 0.0f;
    });
    if constexpr (simd_width > 1) {
        for (u32 c = 0; c < w.joint_batches.colours; ++c) {
            const Batch &batch = w.joint_batches.batch[c];
            for (u32 i = batch.first + batch.count; i % simd_width != 0; ++i)
                place_no_joint(w, w.joint_blocks[i / block_items], i % block_items);
        }
    }
    if (w.joints_share_bodies != 0) group.for_each(w.tree_count, [&](u32 i) { place_in_tree(w, w.tree_order[i]); });
}
