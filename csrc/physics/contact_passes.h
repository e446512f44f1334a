// Passes over contacts: warm start, push out, relax.
#pragma once

#include "physics/contact_arms.h"

// The inertia of bodies that have turned far, and the changes by impulses: both of one pose and of the present arms, or
// a solved contact would add energy. `turned` is above 0 where one of the two has turned, or where the arms have
// changed much.
template <class F, class W, class Ground>
TBS_FUNCTION void refresh_masses(W &w, ContactBlock &block, u32 lane, const Frame<F> &f, F turned, Vec<F> arm_a,
                                 Vec<F> arm_b, Ground with_ground) {
    const auto some = below(F{}, turned);
    if (!holds_for_one(some)) return;
    F m[8], n[8] = {};
    load_rows([&](u32 i) { return w.mass[block.a[lane + i]] + 8; }, m);
    if (!with_ground) load_rows([&](u32 i) { return w.mass[block.b[lane + i]] + 8; }, n);
    const auto refreshed = [&](const F (&row)[8], f32 (*fields)[block_items]) {
        const Inertia<F> old = load_inertia<F>(fields, lane);
        const Inertia<F> now{pick(some, row[0], old.xx), pick(some, row[1], old.yy), pick(some, row[2], old.zz),
                             pick(some, row[3], old.xy), pick(some, row[4], old.xz), pick(some, row[5], old.yz)};
        store_inertia<F>(fields, lane, now);
        return now;
    };
    const Inertia<F> inertia_a = refreshed(m, block.inertia_a);
    const Inertia<F> inertia_b = with_ground ? Inertia<F>{} : refreshed(n, block.inertia_b);
    if constexpr (on_device) {
        prepare_masses<F>(block, lane, with_ground);
    } else {
        const Vec<F> both = load_vec<F>(block.mass_a, lane) + load_vec<F>(block.mass_b, lane);
        prepare_masses<F>(block, lane, f, both, inertia_a, inertia_b, arm_a, arm_b, some);
    }
}

// As far as the bodies have moved: separations, inertia, and where they push each other. This is one place in the world
// for both, half way between where the point would be with one and with the other: so angular momentum is kept.
template <class F, class W, class Ground>
TBS_FUNCTION void follow_bodies(W &w, ContactBlock &block, u32 lane, const F (&x)[4], const F (&y)[4], Vec<F> &arm_a,
                                Vec<F> &arm_b, Ground with_ground) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    F row_a[8], row_b[8] = {};
    load_rows([&](u32 i) { return w.motion[a[i]]; }, row_a);
    if (!with_ground) load_rows([&](u32 i) { return w.motion[b[i]]; }, row_b);
    const Vec<F> turned_a{row_a[4], row_a[5], row_a[6]}, turned_b{row_b[4], row_b[5], row_b[6]},
        turned = turned_b - turned_a;
    const Vec<F> away{row_b[0] - row_a[0], row_b[1] - row_a[1], row_b[2] - row_a[2]};
    const F share = load<F>(block.share + lane);
    const Vec<F> gone_before = scaled(load_vec<F>(block.gone, lane), share);
    const Vec<F> at_begin_a = arm_a - gone_before, at_begin_b = arm_b + gone_before;
    const Vec<F> moved = subtract_cross(add_cross(away, turned_b, at_begin_b), turned_a, at_begin_a);
    const Frame<F> f = load_frame<F>(block, lane);
    const F along = dot(moved, f.normal), about_1 = dot(turned, f.first), about_2 = dot(turned, f.second);
    for (u32 k = 0; k < 4; ++k) {
        store(block.separation[k] + lane,
              load<F>(block.start[k] + lane) + madd(y[k], about_1, nmadd(x[k], about_2, along)));
    }
    F changed = row_a[7] + row_b[7];
    Vec<F> longer{};
    if (!with_ground) {
        const Vec<F> gone = scaled(away, share);
        const F shorter = lesser(dot(at_begin_a, at_begin_a), dot(at_begin_b, at_begin_b));
        const auto far = below(splat<F>(arm_changed_at * arm_changed_at) * shorter, dot(gone, gone));
        changed = pick(far, splat<F>(1.0f), changed);
        longer = gone - gone_before;
        longer = {pick(far, longer.x, F{}), pick(far, longer.y, F{}), pick(far, longer.z, F{})};
        arm_a = at_begin_a + gone, arm_b = at_begin_b - gone;
        store_vec(block.gone, lane, away);
        store_vec(block.arm_a, lane, arm_a);
        store_vec(block.arm_b, lane, arm_b);
    }
    refresh_masses<F>(w, block, lane, f, changed, arm_a, arm_b, with_ground);
    if (!with_ground) carry_with_new_arms<F>(w, block, lane, f, longer);
}

// The next impulse of a point, `speed` being that of the bodies away from each other there.
template <u32 pass, class F>
TBS_FUNCTION F next_impulse(const ContactBlock &block, u32 lane, const Pace &pace, u32 k, F speed, F impulse) {
    const F zero{}, one = splat<F>(1.0f), mass = load<F>(block.mass[k] + lane);
    const F separation = load<F>(block.separation[k] + lane), until_touch = separation * splat<F>(pace.per_h);
    const auto open = below(zero, separation);  // then the surfaces may come as near as to touch
    if constexpr (pass == pass_relax) {
        return greater(nmadd(mass, speed + pick(open, until_touch, zero), impulse), zero);
    }
    const F overlap = lesser(separation + splat<F>(pace.slop), zero) - load<F>(block.preload + lane);
    const F push = greater(overlap * splat<F>(pace.contact.rate), splat<F>(-pace.push_out_speed));
    const F bias = pick(open, until_touch, push), share = pick(open, one, splat<F>(pace.contact.mass));
    const F loss = pick(open, zero, splat<F>(pace.contact.impulse));
    return greater(nmadd(loss, impulse, nmadd(mass * share, speed + bias, impulse)), zero);
}

// The points, one after the other, and in the other order where the pass relaxes: so the effect of the order cancels,
// or stacks would lean.
template <u32 pass, class F>
TBS_FUNCTION void solve_points(ContactBlock &block, u32 lane, const Pace &pace, F (&speed)[4], F (&impulse)[4],
                               F (&change)[4]) {
    constexpr bool reversed = pass == pass_relax;
    TBS_UNROLL
    for (u32 i = 0; i < 4; ++i) {
        const u32 k = reversed ? 3 - i : i;
        const F next = next_impulse<pass>(block, lane, pace, k, speed[k], impulse[k]);
        change[k] = next - impulse[k];
        impulse[k] = next;
        store(block.impulse[k] + lane, next);
        for (u32 j = reversed ? 0 : k + 1; j < (reversed ? k : 4); ++j) {
            const u32 low = j < k ? j : k, high = j < k ? k : j, pair = low == 0 ? high - 1 : low + high;
            speed[j] = madd(load<F>(block.between[pair] + lane), change[k], speed[j]);
        }
        if constexpr (reversed) store(block.total[k] + lane, load<F>(block.total[k] + lane) + next);
    }
}

// The slip that the turning of b adds at the place where a is by now: where b does not give way, arms are those of the
// step's begin (follow_bodies). With `press` at the middle of a's way in the substep: the midpoint rule keeps a rider
// of a turntable on its circle, where the velocity of the begin would lead along the tangent.
template <class F, class Pass>
TBS_FUNCTION void add_slip_on_turning(const ContactBlock &block, u32 lane, const Pace &pace, const Frame<F> &f,
                                      Vec<F> way, Vec<F> angular_b, Vec<F> &slip, Pass pass) {
    const auto turntable = below(F{}, (splat<F>(0.25f) - load<F>(block.share + lane)) * dot(angular_b, angular_b));
    if (!holds_for_one(turntable)) return;
    Vec<F> moved = scaled(load_vec<F>(block.gone, lane), splat<F>(-1.0f));
    if (pass == pass_press) moved = add_scaled(moved, way, splat<F>(-0.5f * pace.h));
    const Vec<F> more = cross(angular_b, moved);
    slip.x = pick(turntable, slip.x + dot(more, f.first), slip.x);
    slip.y = pick(turntable, slip.y + dot(more, f.second), slip.y);
}

// Friction and twist: the impulses that would stop the slip (along first and second, about the normal at the lever) at
// once. Beyond the limit of friction, which holds for the three as one vector, as much against the slip as sliding
// allows: so a body that slides and spins stops both at the same time (Howe and Cutkosky 1996).
template <class F>
TBS_FUNCTION void solve_friction(ContactBlock &block, u32 lane, const F (&impulse)[4], const F (&change)[4],
                                 Vec<F> slip, F &change_1, F &change_2, F &change_3) {
    for (u32 k = 0; k < 4; ++k) {
        slip.x = madd(load<F>(block.on_first[k] + lane), change[k], slip.x);
        slip.y = madd(load<F>(block.on_second[k] + lane), change[k], slip.y);
        slip.z = madd(load<F>(block.on_twist[k] + lane), change[k], slip.z);
    }
    const F pressure = (impulse[0] + impulse[1]) + (impulse[2] + impulse[3]);
    const F keep = pressure * load<F>(block.keep + lane), slide = pressure * load<F>(block.slide + lane);
    const F before_1 = load<F>(block.friction[0] + lane), before_2 = load<F>(block.friction[1] + lane);
    const F before_3 = load<F>(block.twist + lane);
    const F s11 = load<F>(block.stick[0] + lane), s12 = load<F>(block.stick[1] + lane);
    const F stop_1 = nmadd(s12, slip.y, nmadd(s11, slip.x, before_1));
    const F stop_2 = nmadd(load<F>(block.stick[2] + lane), slip.y, nmadd(s12, slip.x, before_2));
    const F turn = madd(load<F>(block.first_on_twist + lane), stop_1 - before_1,
                        madd(load<F>(block.second_on_twist + lane), stop_2 - before_2, slip.z));
    const F stop_3 = nmadd(load<F>(block.twist_mass + lane), turn, before_3);
    // The stopping impulse is not against the slip where the effective mass differs between directions; a step by one
    // number for all comes to be.
    const F step = load<F>(block.slip + lane);
    const F against_1 = nmadd(step, slip.x, before_1), against_2 = nmadd(step, slip.y, before_2);
    const F against_3 = nmadd(step, slip.z, before_3);
    const F size = root(madd(against_3, against_3, madd(against_1, against_1, against_2 * against_2)));
    // Never more than the step: stretched to the limit of sliding, it would add energy.
    const F scale = slide / greater(greater(size, slide), splat<F>(1e-30f));
    const auto slides = below(keep * keep, madd(stop_3, stop_3, madd(stop_1, stop_1, stop_2 * stop_2)));
    const F next_1 = pick(slides, against_1 * scale, stop_1), next_2 = pick(slides, against_2 * scale, stop_2);
    const F next_3 = pick(slides, against_3 * scale, stop_3);
    change_1 = next_1 - before_1, change_2 = next_2 - before_2, change_3 = next_3 - before_3;
    store(block.friction[0] + lane, next_1);
    store(block.friction[1] + lane, next_2);
    store(block.twist + lane, next_3);
}

// Changes the velocities of the bodies of contacts.
template <class F, class W, class Pass, class Ground>
TBS_FUNCTION void solve_contact(W &w, ContactBlock &block, u32 lane, const Pace &pace, Pass pass, Ground with_ground) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    const F zero{};
    const Frame<F> f = load_frame<F>(block, lane);
    Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = with_ground ? Vec<F>{} : load_vec<F>(block.arm_b, lane);
    F row_a[8], row_b[8] = {};
    F x[4], y[4], impulse[4], change[4];
    for (u32 k = 0; k < 4; ++k) {
        x[k] = load<F>(block.along_first[k] + lane);
        y[k] = load<F>(block.along_second[k] + lane);
        impulse[k] = load<F>(block.impulse[k] + lane);
    }
    if (pass == pass_relax) follow_bodies<F>(w, block, lane, x, y, arm_a, arm_b, with_ground);
    load_rows([&](u32 i) { return w.velocity[a[i]]; }, row_a);
    if (!with_ground) load_rows([&](u32 i) { return w.velocity[b[i]]; }, row_b);
    Vec<F> linear_a{row_a[0], row_a[1], row_a[2]}, angular_a{row_a[4], row_a[5], row_a[6]};
    Vec<F> linear_b{row_b[0], row_b[1], row_b[2]}, angular_b{row_b[4], row_b[5], row_b[6]};
    F change_1 = load<F>(block.friction[0] + lane), change_2 = load<F>(block.friction[1] + lane);
    F change_3 = load<F>(block.twist + lane);
    const F lever = load<F>(block.lever + lane);
    if (pass == pass_warm) {
        for (u32 k = 0; k < 4; ++k) change[k] = impulse[k];
    } else {
        const Vec<F> turning = angular_b - angular_a;
        const Vec<F> going = subtract_cross(add_cross(linear_b - linear_a, angular_b, arm_b), angular_a, arm_a);
        const F along = dot(going, f.normal), about_1 = dot(turning, f.first), about_2 = dot(turning, f.second);
        F speed[4];
        for (u32 k = 0; k < 4; ++k) speed[k] = madd(y[k], about_1, nmadd(x[k], about_2, along));
        if (pass == pass_relax) {
            solve_points<pass_relax>(block, lane, pace, speed, impulse, change);
        } else {
            solve_points<pass_press>(block, lane, pace, speed, impulse, change);
        }
        Vec<F> slip{dot(going, f.first), dot(going, f.second), dot(turning, f.normal) * lever};
        if (!with_ground)
            add_slip_on_turning<F>(block, lane, pace, f, linear_b - linear_a, angular_b, slip, pass);
        solve_friction(block, lane, impulse, change, slip, change_1, change_2, change_3);
        if (pass == pass_relax)
            block.add_to_sums<F>(lane, load<F>(block.friction[0] + lane), load<F>(block.friction[1] + lane));
    }

    const F normal = (change[0] + change[1]) + (change[2] + change[3]);
    F torque_1{}, torque_2{};
    for (u32 k = 0; k < 4; ++k) {
        torque_1 = madd(y[k], change[k], torque_1);
        torque_2 = nmadd(x[k], change[k], torque_2);
    }
    const Vec<F> push = add_scaled(add_scaled(scaled(f.normal, normal), f.first, change_1), f.second, change_2);
    const Vec<F> twist = scaled(f.normal, change_3 * lever);
    const Vec<F> torque = add_scaled(add_scaled(twist, f.first, torque_1), f.second, torque_2);
    linear_a = subtract_product(linear_a, load_vec<F>(block.mass_a, lane), push);
    angular_a = subtract_times(angular_a, load_inertia<F>(block.inertia_a, lane), add_cross(torque, arm_a, push));
    store_rows([&](u32 i) { return w.velocity[a[i]]; },
               {linear_a.x, linear_a.y, linear_a.z, zero, angular_a.x, angular_a.y, angular_a.z, zero});
    if (!with_ground) {
        // Lanes of a GPU do not write a body that several of them may have: one that does not give way.
        if (sizeof(F) == sizeof(f32) && block.share[lane] == 0.0f) return;
        linear_b = add_product(linear_b, load_vec<F>(block.mass_b, lane), push);
        angular_b = add_times(angular_b, load_inertia<F>(block.inertia_b, lane), add_cross(torque, arm_b, push));
        store_rows([&](u32 i) { return w.velocity[b[i]]; },
                   {linear_b.x, linear_b.y, linear_b.z, zero, angular_b.x, angular_b.y, angular_b.z, zero});
    }
}

// A CPU has code of its own for each pass, with the ground and without.
template <class W, class Group>
TBS_FUNCTION void contact_pass(W &w, Group &group, const Pace &pace, u32 pass) {
    const auto run = [&](auto known_pass) {
        for_batches(group, w.contact_batches, [&](auto item, u32 block, u32 lane, bool with_ground) {
            by_ground(with_ground, [&](auto ground) {
                solve_contact<decltype(item)>(w, w.contact_blocks[block], lane, pace, known_pass, ground);
            });
        });
    };
    if constexpr (on_device) {
        run(pass);
    } else if (pass == pass_warm) {
        run(::std::integral_constant<u32, pass_warm>{});
    } else if (pass == pass_press) {
        run(::std::integral_constant<u32, pass_press>{});
    } else {
        run(::std::integral_constant<u32, pass_relax>{});
    }
}
