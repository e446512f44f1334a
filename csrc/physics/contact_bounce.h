// Restitution: impacts are found before a substep, and thrown back behind it.
//
// The impulses that stopped the points of a contact push them again, all by the same share. So velocities from before
// the impact are thrown back as a whole: Poisson's hypothesis; with a restitution of 1 and without friction a
// reflection, which keeps the energy (Moreau 1988, "Unilateral contact and dry friction in finite freedom dynamics").
// If each point had to leave as fast as it came, corners that are hit one after the other, each one faster because the
// one before has stopped, would add energy.
#pragma once

#include "physics/contact_arms.h"

// Points that still come nearer with more than this share of the speed at which they came are stopped in the next substep.
inline constexpr f32 still_coming = 0.05f;

// Notes the speed with which points would meet in the substep to come, until they are thrown back. A velocity is that
// of half a substep ago, seen from the pose: where bodies fall with a, v^2 / 2 + a s + a h v / 2 stays as it is
// (semi-implicit Euler). So the speed at the impact is that of half a substep later, more by 2 a s in its square, and
// the speed of return is again more by a h / 2: with a restitution of 1 a ball rises to its first height.
template <class F, class W, class Ground>
TBS_FUNCTION void note_approach(W &w, ContactBlock &block, u32 lane, const Pace &pace, Ground with_ground) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const Frame<F> f = load_frame<F>(block, lane);
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = load_vec<F>(block.arm_b, lane);
    F row_a[8], row_b[8] = {};
    // The speed at which b comes nearer at the middle, by velocities or by the changes added to them.
    const auto nearing = [&](const f32(*rows)[8]) {
        load_rows([&](u32 i) { return rows[a[i]]; }, row_a);
        if (!with_ground) load_rows([&](u32 i) { return rows[b[i]]; }, row_b);
        const Vec<F> way{row_a[0] - row_b[0], row_a[1] - row_b[1], row_a[2] - row_b[2]};
        const Vec<F> turn_a{row_a[4], row_a[5], row_a[6]}, turn_b{row_b[4], row_b[5], row_b[6]};
        return dot(subtract_cross(add_cross(way, turn_a, arm_a), turn_b, arm_b), f.normal);
    };
    const auto size_of = [](const F (&row)[8]) { return root(madd(row[0], row[0], madd(row[1], row[1], row[2] * row[2]))); };
    const F gain = nearing(w.gain), most_held = size_of(row_a) + size_of(row_b), carried = nearing(w.carried);
    // A body at rest is held by the impulses of forces; an impact of the substep before does not count.
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

// The places of points (contacts.h), and their pushes: of contacts that may bounce.
template <class F>
struct Impact {
    F x[4], y[4], pushed[4];  // m, m, N s
    F came;                   // J: the speed at which each came, times its push
    F fastest;                // m/s, of pushed ones
};
template <class F>
TBS_FUNCTION Impact<F> impact_of(const ContactBlock &block, u32 lane, const Pace &pace) {
    const F zero{}, fall = load<F>(block.fall + lane), bounce = load<F>(block.bounce + lane);
    Impact<F> impact{};
    for (u32 k = 0; k < 4; ++k) {
        impact.x[k] = load<F>(block.along_first[k] + lane), impact.y[k] = load<F>(block.along_second[k] + lane);
        const F pushed = load<F>(block.total[k] + lane), met = load<F>(block.approach[k] + lane);
        // as fast as it was where it is: a point that has been stopped just above the other surface
        const F gap = greater(load<F>(block.separation[k] + lane), zero);
        const F here = root(greater(nmadd(splat<F>(2.0f * pace.per_h) * fall, gap, met * met), zero));
        const F came = pick(below(met, zero), met, madd(splat<F>(0.5f), fall, here));
        const auto counts = below(zero, pushed * bounce);
        impact.pushed[k] = pushed;
        impact.came = madd(pushed, came, impact.came);
        impact.fastest = greater(impact.fastest, pick(counts, came, zero));
    }
    return impact;
}

// The share of the pushes to add; `leaves` is the speed at which each point leaves now, times its push.
//
// Points leave with `bounce` times the speed at which they came, in the mean, so the load of a contact beside its
// impact does not count. Where bodies have turned since then, pushes and speeds do not fit: the lesser counts. The
// effect of forces within a substep is in speeds only.
template <class F>
TBS_FUNCTION F share_to_add(const ContactBlock &block, u32 lane, const Impact<F> &impact, F pushed, F leaves) {
    const F zero{}, bounce = load<F>(block.bounce + lane), more = load<F>(block.fall + lane) * pushed;
    F square{};  // how fast the pushes would make the points leave by themselves, times the pushes
    for (u32 k = 0; k < 4; ++k) {
        const F own = inverse_or_zero(load<F>(block.mass[k] + lane));
        square = madd(impact.pushed[k] * impact.pushed[k], own, square);
        for (u32 j = 0; j < k; ++j) {
            const F both = (impact.pushed[j] + impact.pushed[j]) * impact.pushed[k];
            square = madd(both, load<F>(block.between[j == 0 ? k - 1 : j + k] + lane), square);
        }
    }
    const F came = lesser(impact.came, square - leaves + greater(more, zero));
    const F back = madd(bounce, came, splat<F>(0.5f) * nmadd(bounce, more, more));
    return greater((back - leaves) * inverse_or_zero(square), zero);
}

// An impulse on b at a contact, and the opposite one on a: along its axes at its middle, and the torque about them.
template <class F>
struct ContactImpulse {
    F normal, first, second, about_normal, about_first, about_second;
};

// Adds an impulse to rows of velocities.
template <class F, class Ground>
TBS_FUNCTION void add_impulse(f32 (*rows)[8], const ContactBlock &block, u32 lane, const Frame<F> &f,
                              const ContactImpulse<F> &impulse, Ground with_ground) {
    const auto in_world = [&](F n, F first, F second) {
        return add_scaled(add_scaled(scaled(f.normal, n), f.first, first), f.second, second);
    };
    const Vec<F> push = in_world(impulse.normal, impulse.first, impulse.second);
    const Vec<F> torque = in_world(impulse.about_normal, impulse.about_first, impulse.about_second);
    F row[8];
    const auto add = [&](const u32 *body, const f32(*mass)[block_items], const f32(*inertia)[block_items], Vec<F> arm,
                         Vec<F> by, Vec<F> turn) {
        load_rows([&](u32 i) { return rows[body[i]]; }, row);
        const Vec<F> linear = add_product(Vec<F>{row[0], row[1], row[2]}, load_vec<F>(mass, lane), by);
        const Vec<F> angular = add_times(Vec<F>{row[4], row[5], row[6]}, load_inertia<F>(inertia, lane),
                                         add_cross(turn, arm, by));
        store_rows([&](u32 i) { return rows[body[i]]; },
                   {linear.x, linear.y, linear.z, row[3], angular.x, angular.y, angular.z, row[7]});
    };
    const Vec<F> none{};
    add(block.a + lane, block.mass_a, block.inertia_a, load_vec<F>(block.arm_a, lane), none - push, none - torque);
    if (!with_ground) {
        if (sizeof(F) == sizeof(f32) && block.share[lane] == 0.0f) return;  // as in solve_contact
        add(block.b + lane, block.mass_b, block.inertia_b, load_vec<F>(block.arm_b, lane), push, torque);
    }
}

// The sum over the points of the speed at which each leaves, times its push.
template <class F, class W, class Ground>
TBS_FUNCTION F leaving(W &w, const ContactBlock &block, u32 lane, const Frame<F> &f, const Impact<F> &impact,
                       Ground with_ground) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = load_vec<F>(block.arm_b, lane);
    F row_a[8], row_b[8] = {}, sum{};
    load_rows([&](u32 i) { return w.velocity[a[i]]; }, row_a);
    if (!with_ground) load_rows([&](u32 i) { return w.velocity[b[i]]; }, row_b);
    const Vec<F> turn_a{row_a[4], row_a[5], row_a[6]}, turn_b{row_b[4], row_b[5], row_b[6]}, turning = turn_b - turn_a;
    const Vec<F> way{row_b[0] - row_a[0], row_b[1] - row_a[1], row_b[2] - row_a[2]};
    const F along = dot(subtract_cross(add_cross(way, turn_b, arm_b), turn_a, arm_a), f.normal);
    const F about_1 = dot(turning, f.first), about_2 = dot(turning, f.second);
    for (u32 k = 0; k < 4; ++k)
        sum = madd(impact.pushed[k], madd(impact.y[k], about_1, nmadd(impact.x[k], about_2, along)), sum);
    return sum;
}

// Throws bodies back at the end of a substep, where they have come to their stop. Their impact is over: nothing of what it did
// is to be repeated in the next substep, as it would be by `carried` (bodies.h) and by impulses that are kept.
template <class F, class W, class Ground>
TBS_FUNCTION void bounce_contact(W &w, ContactBlock &block, u32 lane, const Pace &pace, Ground with_ground) {
    const Impact<F> impact = impact_of<F>(block, lane, pace);
    const F zero{}, one = splat<F>(1.0f), done = load<F>(block.done + lane);
    const F pushed = (impact.pushed[0] + impact.pushed[1]) + (impact.pushed[2] + impact.pushed[3]);
    const auto hit = below(splat<F>(pace.restitution_speed), impact.fastest);
    if (!holds_for_one(hit)) {
        store(block.done + lane, done + pushed);
        for (u32 k = 0; k < 4; ++k) store(block.total[k] + lane, zero);
        return;
    }
    const Frame<F> f = load_frame<F>(block, lane);
    const F leaves = leaving<F>(w, block, lane, f, impact, with_ground);
    const auto comes = below(leaves, splat<F>(pace.left > 0 ? -still_coming : -no_point) * impact.came);
    const F thrown = pick(hit, pick(comes, zero, one), zero), waits = pick(hit, one - thrown, zero), kept = one - thrown;
    const F share = share_to_add(block, lane, impact, pushed, leaves) * thrown;
    ContactImpulse<F> added{}, undone{};
    for (u32 k = 0; k < 4; ++k) {
        const F impulse = load<F>(block.impulse[k] + lane), add = share * impact.pushed[k], undo = -(thrown * impulse);
        added.normal = added.normal + add;
        added.about_first = madd(impact.y[k], add, added.about_first);
        added.about_second = nmadd(impact.x[k], add, added.about_second);
        undone.normal = undone.normal + undo;
        undone.about_first = madd(impact.y[k], undo, undone.about_first);
        undone.about_second = nmadd(impact.x[k], undo, undone.about_second);
        store(block.impulse[k] + lane, kept * impulse);
        store(block.total[k] + lane, waits * impact.pushed[k]);
    }
    store(block.done + lane, done + madd(kept - waits, pushed, thrown * (pushed + added.normal)));
    const auto undo = [&](f32 *of) {
        const F impulse = load<F>(of + lane);
        store(of + lane, kept * impulse);
        return -(thrown * impulse);
    };
    undone.first = undo(block.friction[0]);
    undone.second = undo(block.friction[1]);
    undone.about_normal = undo(block.twist) * load<F>(block.lever + lane);
    add_impulse(w.velocity, block, lane, f, added, with_ground);
    add_impulse(w.carried, block, lane, f, undone, with_ground);
}

template <class W, class Group>
TBS_FUNCTION void note_approaches(W &w, Group &group, const Pace &pace) {
    for_batches(group, w.contact_batches, [&](auto item, u32 block, u32 lane, bool with_ground) {
        by_ground(with_ground, [&](auto ground) {
            note_approach<decltype(item)>(w, w.contact_blocks[block], lane, pace, ground);
        });
    });
}
template <class W, class Group>
TBS_FUNCTION void bounce_contacts(W &w, Group &group, const Pace &pace) {
    for_batches(group, w.contact_batches, [&](auto item, u32 block, u32 lane, bool with_ground) {
        by_ground(with_ground, [&](auto ground) {
            bounce_contact<decltype(item)>(w, w.contact_blocks[block], lane, pace, ground);
        });
    });
}
