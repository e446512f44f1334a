// The rigid-body solver: takes all bodies of a workspace through one step. workspace.h says what goes in and out.
#pragma once

#include "physics/contact_passes.h"
#include "physics/islands.h"
#include "physics/joints.h"

// All bodies, contacts and joints, and what `solve` keeps between its phases: plain memory, without pointers. The
// arguments are how many there is room for.
template <u32 most_bodies, u32 most_contacts, u32 most_joints>
struct Workspace {
    static constexpr u32 room_for_bodies = most_bodies, room_for_contacts = most_contacts,
                         room_for_joints = most_joints;
    static constexpr u32 body_blocks_held = (most_bodies + block_items - 1) / block_items;
    static constexpr u32 ground = body_blocks_held * block_items;         // a row of zeros
    static constexpr u32 of_colours = simd_width > 1 ? most_colours : 0;  // each may fill its last block in part

    u32 body_count, contact_count, joint_count;
    SolverContact contacts[most_contacts];
    SolverJoint joints[most_joints];

    BodyBlock body_blocks[body_blocks_held];
    f32 velocity[ground + 1][8], motion[ground + 1][8], mass[ground + 1][mass_row];
    f32 rotation[ground + 1][8], gain[ground + 1][8], carried[ground + 1][8], before[ground + 1][8];
    f32 island_still[ground];
    u32 used[ground], contact_item[most_contacts], joint_item[most_joints];
    Batches contact_batches, joint_batches;
    ContactBlock contact_blocks[(most_contacts + block_items - 1) / block_items + of_colours + 1];
    JointBlock joint_blocks[(most_joints + block_items - 1) / block_items + of_colours + 1];
};

TBS_FUNCTION Pace pace_of(const Settings &settings) {
    const f32 h = divide(settings.time, f32(settings.substeps)), per_h = divide(1.0f, h);
    return {h,
            per_h,
            soft(lesser(settings.contact_hertz, 0.25f * per_h), settings.contact_damping, h),
            soft(lesser(settings.joint_hertz, 0.5f * per_h), settings.joint_damping, h),
            settings.push_out_speed,
            settings.slop,
            settings.restitution_speed};
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
        for (u32 i = 0; i < 8; ++i) {
            w.velocity[W::ground][i] = w.motion[W::ground][i] = w.rotation[W::ground][i] = 0.0f;
            w.mass[W::ground][i] = w.mass[W::ground][i + 8] = 0.0f;
        }
        w.rotation[W::ground][0] = 1.0f;
    });
    for_items(group, 0, w.body_count,
              [&](auto item, u32 block, u32 lane) { prepare_bodies<decltype(item)>(w, block, lane, h); });
}

// Moves all bodies through settings.time.
template <class W, class Group>
TBS_CALLED void solve(W &w, Group &group, const Settings &settings) {
    const Pace pace = pace_of(settings);
    const bool joined = w.joint_count > 0;
    if (settings.sleep != 0) find_sleepers(w, group, settings);
    const bool moves = group.any(w.body_count, [&](u32 i) {
        return w.body_blocks[i / block_items].moving[i % block_items] != 0.0f;
    });
    prepare_all_bodies(w, group, pace.h);
    prepare_contacts(w, group);
    if (!moves) return;  // all are asleep
    if (joined) prepare_joints(w, group, pace);
    const bool bounces = group.any(w.contact_count, [&](u32 i) { return w.contacts[i].restitution > 0.0f; });
    for (u32 substep = 0; substep < settings.substeps; ++substep) {
        begin_substep(w, group);
        if (joined) {
            begin_joints(w, group);
            joint_pass<true>(w, group, pace);
        }
        note_velocities(w, group);
        if (substep == 0) contact_pass<pass_warm>(w, group, pace);
        contact_pass<pass_press>(w, group, pace);
        carry_changes(w, group);
        for_items(group, 0, w.body_count,
                  [&](auto item, u32 block, u32 lane) { move_bodies<decltype(item)>(w, block, lane, pace.h, joined); });
        if (joined) {
            joint_pass<false>(w, group, pace);
            note_velocities(w, group);
        }
        contact_pass<pass_relax>(w, group, pace);
        carry_changes(w, group);
    }
    if (bounces) contact_pass<pass_bounce>(w, group, pace);
    report_contacts(w, group);
    if (joined) report_joints(w, group, pace);
    count_rest(w, group, settings);
}
