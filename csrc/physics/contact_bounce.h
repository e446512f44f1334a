// Restitution: impacts are found before a substep, and thrown back behind it.
//
// What has pushed the points of a contact together to a stop pushes them again, `share` times. So the velocities from before
// the impact are thrown back as a whole (Poisson's hypothesis; for a restitution of 1 and no friction a reflection, which
// keeps the energy: Moreau 1988). If each point was to leave as fast as it came by itself, corners that are hit one after
// the other, each faster since the one before has stopped, would add energy.
#pragma once

#include "physics/contact_arms.h"

// A contact whose points still come nearer by more than this share of what has been taken of their speed is not at its
// stop: the substep behind this one brings it there.
inline constexpr f32 still_coming = 0.05f;

// Notes the speed with which points would meet in the substep to come, until they are thrown back. A velocity is that of half
// a substep ago, seen from the pose: where bodies fall with a, v^2 / 2 + a s + a h v / 2 stays as it is (semi-implicit
// Euler). So the speed at the impact is that of half a substep later, more by 2 a s in its square, and what comes back is
// to be again more by a h / 2: with a restitution of 1 a ball rises to where it was.
template <bool with_ground, class F, class W>
TBS_FUNCTION void note_approach(W &w, ContactBlock &block, u32 lane, const Pace &pace) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const Frame<F> f = load_frame<F>(block, lane);
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = load_vec<F>(block.arm_b, lane);
    F row_a[8], row_b[8] = {};
    // How fast b comes nearer at the middle, by velocities or by what is added to them.
    const auto nearing = [&](const f32(*rows)[8]) {
        load_rows([&](u32 i) { return rows[a[i]]; }, row_a);
        if constexpr (!with_ground) load_rows([&](u32 i) { return rows[b[i]]; }, row_b);
        const Vec<F> way{row_a[0] - row_b[0], row_a[1] - row_b[1], row_a[2] - row_b[2]};
        const Vec<F> turn_a{row_a[4], row_a[5], row_a[6]}, turn_b{row_b[4], row_b[5], row_b[6]};
        return dot(subtract_cross(add_cross(way, turn_a, arm_a), turn_b, arm_b), f.normal);
    };
    const auto size_of = [](const F (&row)[8]) { return root(madd(row[0], row[0], madd(row[1], row[1], row[2] * row[2]))); };
    const F gain = nearing(w.gain), most_held = size_of(row_a) + size_of(row_b), carried = nearing(w.carried);
    // What holds a body that rests takes as much as forces give; an impact of the substep before does not count.
    const F fall = gain + greater(lesser(carried, most_held), -most_held);
    const F along = nearing(w.velocity);
    const Vec<F> turn{row_a[4] - row_b[4], row_a[5] - row_b[5], row_a[6] - row_b[6]};
    const F about_1 = dot(turn, f.first), about_2 = dot(turn, f.second);
    const F zero{}, half = splat<F>(0.5f), slope = splat<F>(2.0f * pace.per_h) * fall;
    F pushed{};
    for (u32 k = 0; k < 4; ++k) pushed = pushed + load<F>(block.total[k] + lane);
    const auto known = below(zero, pushed);
    for (u32 k = 0; k < 4; ++k) {
        const F x = load<F>(block.along_first[k] + lane), y = load<F>(block.along_second[k] + lane);
        const F speed = madd(y, about_1, nmadd(x, about_2, along));
        const F now = madd(half, fall, greater(speed, zero)), most = now + greater(fall + fall, zero);
        const F gap = greater(load<F>(block.separation[k] + lane), zero);
        const F met = lesser(root(greater(madd(slope, gap, now * now), zero)), most);
        const F comes = pick(below(speed, zero), speed, met);
        store(block.approach[k] + lane, pick(known, load<F>(block.approach[k] + lane), comes));
    }
    store(block.fall + lane, pick(known, load<F>(block.fall + lane), fall));
}

// What an impact is made of: sums over the points, weighted by what has pushed them.
template <class F>
struct Impact {
    F pushed[4];                      // N s
    F came, leaves, square, fastest;  // J: speeds before and now, what the pushes would do by themselves; m/s
};

// Without `leaves`.
template <class F>
TBS_FUNCTION Impact<F> impact_of(const ContactBlock &block, u32 lane, const Pace &pace) {
    const F zero{}, fall = load<F>(block.fall + lane), bounce = load<F>(block.bounce + lane);
    Impact<F> impact{};
    for (u32 k = 0; k < 4; ++k) {
        const F pushed = load<F>(block.total[k] + lane), met = load<F>(block.approach[k] + lane);
        // as fast as it was where it is: a point that has been stopped just above the other surface
        const F gap = greater(load<F>(block.separation[k] + lane), zero);
        const F here = root(greater(nmadd(splat<F>(2.0f * pace.per_h) * fall, gap, met * met), zero));
        const F came = pick(below(met, zero), met, madd(splat<F>(0.5f), fall, here));
        const F of_those = pick(below(zero, pushed * bounce), came, zero);
        impact.pushed[k] = pushed;
        impact.came = madd(pushed, came, impact.came);
        impact.fastest = greater(impact.fastest, of_those);
    }
    return impact;
}

// Throws bodies back at the end of a substep.
template <bool with_ground, class F, class W>
TBS_FUNCTION void bounce_contact(W &w, ContactBlock &block, u32 lane, const Pace &pace) {
    const F zero{};
    Impact<F> impact = impact_of<F>(block, lane, pace);
    const auto hit = below(splat<F>(pace.restitution_speed), impact.fastest);
    const F pushed = (impact.pushed[0] + impact.pushed[1]) + (impact.pushed[2] + impact.pushed[3]);
    if (!holds_for_one(hit)) {
        store(block.done + lane, load<F>(block.done + lane) + pushed);
        for (u32 k = 0; k < 4; ++k) store(block.total[k] + lane, zero);
        return;
    }
    const u32 *a = block.a + lane, *b = block.b + lane;
    const Frame<F> f = load_frame<F>(block, lane);
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = with_ground ? Vec<F>{} : load_vec<F>(block.arm_b, lane);
    F row_a[8], row_b[8] = {}, x[4], y[4];
    load_rows([&](u32 i) { return w.velocity[a[i]]; }, row_a);
    if constexpr (!with_ground) load_rows([&](u32 i) { return w.velocity[b[i]]; }, row_b);
    const Vec<F> turn_a{row_a[4], row_a[5], row_a[6]}, turn_b{row_b[4], row_b[5], row_b[6]}, turning = turn_b - turn_a;
    const Vec<F> way{row_b[0] - row_a[0], row_b[1] - row_a[1], row_b[2] - row_a[2]};
    const F along = dot(subtract_cross(add_cross(way, turn_b, arm_b), turn_a, arm_a), f.normal);
    const F about_1 = dot(turning, f.first), about_2 = dot(turning, f.second);
    for (u32 k = 0; k < 4; ++k) {
        x[k] = load<F>(block.along_first[k] + lane), y[k] = load<F>(block.along_second[k] + lane);
        impact.leaves = madd(impact.pushed[k], madd(y[k], about_1, nmadd(x[k], about_2, along)), impact.leaves);
        const F own = inverse_or_zero(load<F>(block.mass[k] + lane));
        impact.square = madd(impact.pushed[k] * impact.pushed[k], own, impact.square);
        for (u32 j = 0; j < k; ++j) {
            const F both = (impact.pushed[j] + impact.pushed[j]) * impact.pushed[k];
            impact.square = madd(both, load<F>(block.between[j == 0 ? k - 1 : j + k] + lane), impact.square);
        }
    }
    // They are to leave with `bounce` times the speed at which they came, in the mean; what a contact bears beside its impact
    // does not count then. Where bodies have turned, pushes and speeds do not fit: the lesser of both counts. What forces add
    // within a substep is in speeds only.
    const F bounce = load<F>(block.bounce + lane), more = load<F>(block.fall + lane) * pushed;
    const F came = lesser(impact.came, impact.square - impact.leaves + greater(more, zero));
    const F back = madd(bounce, came, splat<F>(0.5f) * nmadd(bounce, more, more));
    const F share = greater((back - impact.leaves) * inverse_or_zero(impact.square), zero);
    const F patience = splat<F>(pace.left > 0 ? -still_coming : -infinity);
    const auto comes = below(impact.leaves, patience * greater(impact.came, zero));
    const F thrown = pick(hit, pick(comes, zero, splat<F>(1.0f)), zero), stays = pick(hit, pick(comes, splat<F>(1.0f), zero), zero);

    // An impact is over: what it did is not repeated in the next substep.
    F normal{}, torque_1{}, torque_2{}, taken{}, taken_1{}, taken_2{};
    for (u32 k = 0; k < 4; ++k) {
        const F change = thrown * share * impact.pushed[k], impulse = load<F>(block.impulse[k] + lane), take = thrown * impulse;
        normal = normal + change, torque_1 = madd(y[k], change, torque_1), torque_2 = nmadd(x[k], change, torque_2);
        taken = taken + take, taken_1 = madd(y[k], take, taken_1), taken_2 = nmadd(x[k], take, taken_2);
        store(block.impulse[k] + lane, impulse - take);
        store(block.total[k] + lane, stays * impact.pushed[k]);
    }
    store(block.done + lane, load<F>(block.done + lane) + nmadd(stays, pushed, pushed + normal));
    const F friction_1 = load<F>(block.friction[0] + lane), friction_2 = load<F>(block.friction[1] + lane);
    const F twist = load<F>(block.twist + lane), kept = splat<F>(1.0f) - thrown;
    store(block.friction[0] + lane, friction_1 * kept);
    store(block.friction[1] + lane, friction_2 * kept);
    store(block.twist + lane, twist * kept);

    const Vec<F> push = scaled(f.normal, normal), torque = add_scaled(scaled(f.first, torque_1), f.second, torque_2);
    const Vec<F> taken_push = add_scaled(add_scaled(scaled(f.normal, taken), f.first, friction_1 * thrown), f.second, friction_2 * thrown);
    const Vec<F> taken_torque = add_scaled(add_scaled(scaled(f.normal, twist * thrown), f.first, taken_1), f.second, taken_2);
    const auto change = [&](f32(*rows)[8], const u32 *body, const f32(*mass)[block_items], const f32(*inertia)[block_items], Vec<F> arm, Vec<F> by, Vec<F> turn) {
        F row[8];
        load_rows([&](u32 i) { return rows[body[i]]; }, row);
        const Vec<F> linear = subtract_product(Vec<F>{row[0], row[1], row[2]}, load_vec<F>(mass, lane), by);
        const Vec<F> angular = subtract_times(Vec<F>{row[4], row[5], row[6]}, load_inertia<F>(inertia, lane), add_cross(turn, arm, by));
        store_rows([&](u32 i) { return rows[body[i]]; },
                   {linear.x, linear.y, linear.z, row[3], angular.x, angular.y, angular.z, row[7]});
    };
    change(w.velocity, a, block.mass_a, block.inertia_a, arm_a, push, torque);
    change(w.carried, a, block.mass_a, block.inertia_a, arm_a, Vec<F>{} - taken_push, Vec<F>{} - taken_torque);
    if constexpr (!with_ground) {
        if (sizeof(F) == sizeof(f32) && block.share[lane] == 0.0f) return;  // as in solve_contact
        change(w.velocity, b, block.mass_b, block.inertia_b, arm_b, Vec<F>{} - push, Vec<F>{} - torque);
        change(w.carried, b, block.mass_b, block.inertia_b, arm_b, taken_push, taken_torque);
    }
}

template <class W, class Group>
TBS_FUNCTION void note_approaches(W &w, Group &group, const Pace &pace) {
    for_batches(group, w.contact_batches, [&](auto item, u32 block, u32 lane, bool with_ground) {
        using F = decltype(item);
        if (with_ground) {
            note_approach<true, F>(w, w.contact_blocks[block], lane, pace);
        } else {
            note_approach<false, F>(w, w.contact_blocks[block], lane, pace);
        }
    });
}
template <class W, class Group>
TBS_FUNCTION void bounce_contacts(W &w, Group &group, const Pace &pace) {
    for_batches(group, w.contact_batches, [&](auto item, u32 block, u32 lane, bool with_ground) {
        using F = decltype(item);
        if (with_ground) {
            bounce_contact<true, F>(w, w.contact_blocks[block], lane, pace);
        } else {
            bounce_contact<false, F>(w, w.contact_blocks[block], lane, pace);
        }
    });
}
