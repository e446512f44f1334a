// Islands: bodies that touch or are joined, directly or through others. One whose bodies have all been still for long
// enough falls asleep: nothing in it moves, and none of its contacts and joints is solved. It wakes when something
// awake touches it or may touch it within the step, or one of its bodies is not still any more: by a force, by a motor,
// by a velocity that it has been given, or by whoever sets `still` to 0.
//
// Contacts of bodies asleep must go on being put in as they are, or the body that wakes first falls through the others.
#pragma once

#include "physics/bodies.h"

// The body that stands for i's island: the first one in it.
TBS_ONE_COPY u32 island_of(u32 *island, u32 i) {
    while (island[i] != i) i = island[i] = island[island[i]];
    return i;
}
TBS_FUNCTION void join(u32 *island, u32 a, u32 b) {
    const u32 x = island_of(island, a), y = island_of(island, b);
    island[x < y ? y : x] = x < y ? x : y;
}

// Do they touch, or will they within the step? Speculative contacts of bodies that rest side by side do not count.
TBS_FUNCTION bool touches(const SolverContact &contact, f32 reach) {
    for (u32 k = 0; k < contact.count; ++k) {
        if (contact.points[k].impulse > 0.0f || contact.points[k].separation < reach) return true;
    }
    return false;
}

// Is a body as slow as one at rest?
TBS_FUNCTION bool is_slow(const BodyBlock &block, u32 lane, const Settings &settings) {
    const Vec<f32> linear = load_vec<f32>(block.linear, lane), angular = load_vec<f32>(block.angular, lane);
    return dot(linear, linear) < settings.still_linear * settings.still_linear &&
           dot(angular, angular) < settings.still_angular * settings.still_angular;
}

// Does a motor push? What it moves may be slower than one at rest, and must not stop for that, as under a Force.
TBS_FUNCTION bool drives(const SolverJoint &joint) {
    return joint.torque != 0.0f || (joint.drive_rate != 0.0f && joint.drive_damping != 0.0f);
}

// Marks bodies that are asleep: they neither move nor can be moved.
template <class W, class Group>
TBS_FUNCTION void find_sleepers(W &w, Group &group, const Settings &settings) {
    const auto block_of = [&](u32 i) -> BodyBlock & { return w.body_blocks[i / block_items]; };
    const auto is_dynamic = [&](u32 i) { return i != no_body && block_of(i).kind[i % block_items] == body_dynamic; };
    const auto speed_of = [&](u32 i) {
        const auto of = [&](const f32(*v)[block_items]) {
            return dot(load_vec<f32>(v, i % block_items), load_vec<f32>(v, i % block_items));
        };
        return i == no_body || block_of(i).kind[i % block_items] == body_static
                   ? 0.0f
                   : root(of(block_of(i).linear)) + root(of(block_of(i).angular));
    };
    group.once([&] {
        u32 *const island = w.used;
        f32(*const speed)[8] = w.gain;  // of the fastest body of an island, at the body that stands for it
        for (u32 i = 0; i < w.body_count; ++i) {
            island[i] = i;
            BodyBlock &block = block_of(i);
            const u32 lane = i % block_items;
            if (block.forced[lane] != 0 || !is_slow(block, lane, settings)) block.still[lane] = 0.0f;
            const Vec<f32> push = load_vec<f32>(block.force, lane);
            speed[i][0] = fma(root(dot(push, push)) * block.inverse_mass[lane], settings.time, speed_of(i));
        }
        bool changed = false;
        const auto connect = [&](u32 a, u32 b) {
            if (is_dynamic(a) && is_dynamic(b)) {
                const u32 x = island_of(island, a), y = island_of(island, b);
                if (x == y) return;
                join(island, x, y);
                speed[x < y ? x : y][0] = greater(speed[x][0], speed[y][0]);
                changed = true;
                return;
            }
            // a body that touches a moving kinematic one is not still
            const u32 moved = is_dynamic(a) ? a : b, by = is_dynamic(a) ? b : a;
            if (!is_dynamic(moved) || !(speed_of(by) > 0.0f)) return;
            block_of(moved).still[moved % block_items] = 0.0f;
            f32 &own = speed[island_of(island, moved)][0];
            changed = changed || speed_of(by) > own;
            own = greater(own, speed_of(by));
        };
        for (u32 i = 0; i < w.joint_count; ++i) {
            const SolverJoint &joint = w.joints[i];
            if (joint.broken != 0) continue;
            if (drives(joint)) {
                if (is_dynamic(joint.a)) block_of(joint.a).still[joint.a % block_items] = 0.0f;
                if (is_dynamic(joint.b)) block_of(joint.b).still[joint.b % block_items] = 0.0f;
            }
            connect(joint.a, joint.b);
        }
        // What hits an island may come out of it with all its speed: so islands reach as far as their fastest bodies,
        // and from one to the next, until nothing changes. Else the second of a row of sleepers would be a wall.
        const auto most_of = [&](u32 i) { return is_dynamic(i) ? speed[island_of(island, i)][0] : speed_of(i); };
        do {
            changed = false;
            for (u32 i = 0; i < w.contact_count; ++i) {
                const SolverContact &contact = w.contacts[i];
                const f32 most = most_of(contact.a) + most_of(contact.b);
                if (touches(contact, settings.slop + most * settings.time)) connect(contact.a, contact.b);
            }
        } while (changed);
        // An island is as still as the least still of its bodies; written at the body that stands for it.
        const auto still_of = [&](u32 i) -> f32 & { return w.gain[i][1]; };
        for (u32 i = 0; i < w.body_count; ++i) still_of(i) = infinity;
        for (u32 i = 0; i < w.body_count; ++i) {
            const u32 of = island_of(island, i);
            if (is_dynamic(i)) still_of(of) = lesser(still_of(of), block_of(i).still[i % block_items]);
        }
        for (u32 i = 0; i < w.body_count; ++i) {
            if (!is_dynamic(i) || !(still_of(island_of(island, i)) >= settings.time_to_sleep)) continue;
            BodyBlock &block = block_of(i);
            block.asleep[i % block_items] = 1;
            block.movable[i % block_items] = block.moving[i % block_items] = 0.0f;
        }
    });
}
