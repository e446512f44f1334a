// The rigid-body solver: takes all bodies of a workspace through one step. workspace.h has its inputs and outputs.
#pragma once

#include "physics/chip.h"
#include "physics/contact_bounce.h"
#include "physics/contact_passes.h"
#include "physics/islands.h"
#include "physics/joint_forest.h"

// Blocks of `items` constraints: each colour may fill its last block in part.
TBS_FUNCTION constexpr u32 blocks_for(u32 items) {
    return (items + block_items - 1) / block_items + (simd_width > 1 ? most_colours : 0) + 1;
}

// Data of bodies, and colours of constraints.
template <u32 most_bodies>
struct BodySpace {
    static constexpr u32 body_blocks_held = (most_bodies + block_items - 1) / block_items;
    static constexpr u32 ground = body_blocks_held * block_items;  // a row of zeros
    static constexpr u32 nobody = ground + 1;                      // a row that nothing reads

    u32 body_count, contact_count, joint_count;
    u32 joints_share_bodies, root_count, tree_count;  // of joints, see joint_forest.h
    u32 beside_trees, axes_act;                       // 1: some are in rings; something acts on the axes of some
    u32 axes_change, factors_change;                  // of trees, see joint_tree.h
    alignas(whole_vectors) f32 velocity[ground + 1][8], motion[ground + 1][8], mass[ground + 1][mass_row];
    f32 rotation[ground + 1][8], gain[ground + 1][8], carried[ground + 1][8], before[ground + 1][8];
    u32 used[ground], reached[ground];  // see colouring.h
    Batches contact_batches, joint_batches;
};

using TreeRow = f32[tree_row + 16];

// Trees of joints, which joint_forest.h keeps.
template <u32 most_bodies, u32 most_joints>
struct ForestSpace {
    static constexpr u32 rows = (most_bodies + block_items - 1) / block_items * block_items;

    u32 in_tree[most_joints], in_loop[most_joints], tree_order[most_joints], root_body[most_joints + block_items];
    u32 tree_set[rows], tree_next[rows], tree_middle[rows];
    alignas(whole_vectors) TreeRow tree[rows + 2];
};

// All bodies, contacts and joints, and the data of `solve` between its phases: plain memory, without pointers. The
// arguments are the room.
template <u32 most_bodies, u32 most_contacts, u32 most_joints>
struct PlainWorkspace : BodySpace<most_bodies>, ForestSpace<most_bodies, most_joints> {
    alignas(whole_vectors) BodyBlock body_blocks[BodySpace<most_bodies>::body_blocks_held];
    SolverContact contacts[most_contacts];
    SolverJoint joints[most_joints];
    u32 contact_item[most_contacts], joint_item[most_joints];
    alignas(whole_vectors) ContactBlock contact_blocks[blocks_for(most_contacts)];
    alignas(whole_vectors) JointBlock joint_blocks[blocks_for(most_joints)];

    using Beside = PlainWorkspace;  // what others than `solve` see
};

// The same in two parts. The first one, of `chip_bytes`, which a device has on chip, has what constraints read and write
// while `solve` runs: rows of bodies, and as many of the joints and contacts as fit, joints first, which take at most half
// of the room beside rows. The second one, in memory, has the others, data that a substep or a step reads once, and all
// that is put in and taken out.
template <u32 most_bodies, u32 most_contacts, u32 most_joints, u32 chip_bytes>
struct SplitWorkspace : BodySpace<most_bodies> {
    using Bodies = BodySpace<most_bodies>;
    using Contact = Spread<ContactBlock>;
    using Joint = Spread<JointBlock>;
    static constexpr u32 pointers = 16 * sizeof(void *) + 16;
    static constexpr u32 left = chip_bytes > sizeof(Bodies) + pointers ? chip_bytes - sizeof(Bodies) - pointers : 0;
    static constexpr u32 joints_on_chip = lesser_of(most_joints, left / 2 / sizeof(Joint));
    static constexpr u32 contacts_on_chip =
        lesser_of(most_contacts, (left - joints_on_chip * sizeof(Joint)) / sizeof(Contact));

    struct Beside : ForestSpace<most_bodies, most_joints> {
        u32 body_count, contact_count, joint_count;
        alignas(16) f32 velocity[Bodies::ground][8], motion[Bodies::ground][8];  // results
        BodyBlock body_blocks[Bodies::body_blocks_held];
        SolverContact contacts[most_contacts];
        SolverJoint joints[most_joints];
        u32 contact_item[most_contacts], joint_item[most_joints];
        Contact contact_blocks[most_contacts - contacts_on_chip + 1];
        Joint joint_blocks[most_joints - joints_on_chip + 1];
    };

    BodyBlock *body_blocks;
    SolverContact *contacts;
    SolverJoint *joints;
    u32 *contact_item, *joint_item;
    u32 *in_tree, *in_loop, *root_body, *tree_order, *tree_set, *tree_next, *tree_middle;
    TreeRow *tree;
    PartOnChip<ContactBlock, contacts_on_chip> contact_blocks;
    PartOnChip<JointBlock, joints_on_chip> joint_blocks;

    // Before `solve`: takes what has been put in.
    template <class Group>
    TBS_METHOD void begin(Beside &beside, Group &group) {
        group.once([&] {
            Bodies::body_count = beside.body_count;
            Bodies::contact_count = beside.contact_count;
            Bodies::joint_count = beside.joint_count;
            body_blocks = beside.body_blocks;
            contacts = beside.contacts;
            joints = beside.joints;
            contact_item = beside.contact_item;
            joint_item = beside.joint_item;
            contact_blocks.others = beside.contact_blocks;
            joint_blocks.others = beside.joint_blocks;
            in_tree = beside.in_tree;
            in_loop = beside.in_loop;
            root_body = beside.root_body;
            tree_order = beside.tree_order;
            tree_set = beside.tree_set;
            tree_next = beside.tree_next;
            tree_middle = beside.tree_middle;
            tree = beside.tree;
        });
    }

    // Behind `solve`: leaves the results that are on chip.
    template <class Group>
    TBS_METHOD void end(Beside &beside, Group &group) const {
        f32 *const velocity = beside.velocity[0], *const motion = beside.motion[0];
        group.for_each(8 * Bodies::body_count, [&](u32 i) {
            velocity[i] = Bodies::velocity[0][i];
            motion[i] = Bodies::motion[0][i];
        });
    }
};

template <u32 most_bodies, u32 most_contacts, u32 most_joints, u32 chip_bytes = 0>
using Workspace = ::std::conditional_t<chip_bytes == 0, PlainWorkspace<most_bodies, most_contacts, most_joints>,
                                     SplitWorkspace<most_bodies, most_contacts, most_joints, chip_bytes>>;

TBS_FUNCTION Pace pace_of(const Settings &settings) {
    const f32 h = divide(settings.time, f32(settings.substeps)), per_h = divide(1.0f, h);
    const f32 contact_hertz = lesser(settings.contact_hertz, most_contact_rate * per_h), omega = tau * contact_hertz;
    return {h,
            per_h,
            soft(contact_hertz, settings.contact_damping, h),
            soft(lesser(settings.joint_hertz, 0.5f * per_h), settings.joint_damping, h),
            settings.push_out_speed,
            settings.restitution_speed,
            settings.slop,
            h * omega * omega,
            lesser(preload_rate * settings.time, 1.0f),
            settings.substeps};
}

// Rows for all bodies, and for the ground.
template <class W, class Group>
TBS_FUNCTION void prepare_all_bodies(W &w, Group &group, f32 h) {
    const u32 used = (w.body_count + block_items - 1) / block_items * block_items;
    group.for_each(used - w.body_count, [&](u32 i) {
        SolverBody nothing{};
        nothing.rotation = {1, 0, 0, 0};
        put_body(w, w.body_count + i, nothing);
    });
    group.once([&] {
        TBS_ROLLED
        for (u32 i = 0; i < 8; ++i) {
            w.velocity[W::ground][i] = w.motion[W::ground][i] = w.rotation[W::ground][i] = 0.0f;
            w.gain[W::ground][i] = w.carried[W::ground][i] = 0.0f;
            w.mass[W::ground][i] = w.mass[W::ground][i + 8] = 0.0f;
        }
        w.rotation[W::ground][0] = 1.0f;
    });
    for_items(group, 0, w.body_count,
              [&](auto item, u32 block, u32 lane) { prepare_bodies<decltype(item)>(w, block, lane, h); });
}

// Moves all bodies through settings.time.
template <class W, class Group>
TBS_FUNCTION void solve(W &w, Group &group, const Settings &settings) {
    Pace pace = pace_of(settings);
    const bool joined = w.joint_count > 0;
    if (settings.sleep != 0) find_sleepers(w, group, settings);
    const bool moves = group.any(w.body_count, [&](u32 i) {
        return w.body_blocks[i / block_items].moving[i % block_items] != 0.0f;
    });
    prepare_all_bodies(w, group, pace.h);
    group.line_up();
    prepare_contacts(w, group, pace);
    if (!moves) return;  // all are asleep
    if (joined) {
        prepare_joints(w, group, pace);
        begin_joints(w, group);
    }
    const bool bounces = group.any(w.contact_count, [&](u32 i) { return w.contacts[i].restitution > 0.0f; });
    for (u32 substep = 0; substep < settings.substeps; ++substep) {
        pace.left = settings.substeps - 1 - substep;
        if (bounces) note_approaches(w, group, pace);
        group.line_up();
        begin_substep(w, group);
        for (u32 pass = substep == 0 ? pass_warm : pass_press; pass <= pass_relax; ++pass) {  // in one place: fetched once
            if (pass == pass_relax) {
                for_items(group, 0, w.body_count, [&](auto item, u32 block, u32 lane) {
                    move_bodies<decltype(item)>(w, block, lane, pace.h, joined);
                });
                group.line_up();
            }
            if (joined && pass == pass_press) press_joints(w, group, pace);
            if (joined && pass == pass_relax) relax_joints(w, group, pace);
            // Joints answer to what contacts will push: to the warm start. Without them it and the press are one change.
            if (joined || (pass == pass_press && substep > 0) || pass == pass_warm) note_velocities(w, group);
            group.line_up();
            contact_pass(w, group, pace, pass);
            if (joined || pass != pass_warm) carry_changes(w, group);
        }
        if (bounces) bounce_contacts(w, group, pace);
    }
    group.line_up();
    report_contacts(w, group);
    if (joined) report_joints(w, group, pace);
    count_rest(w, group, settings);
}
