// The arms of contacts between bodies that move past each other: far within a step where they are fast.
#pragma once

#include "physics/contacts.h"

// Masses take the present arms when these have changed by this share since the step began.
inline constexpr f32 arm_changed_at = 0.05f;

// The effect of contacts is kept as a change of velocity (bodies.h). Where their arms grow by `longer`, impulses with
// the old arms differ from the same with the new ones: without the difference, taking an impulse back would leave a
// part of it. Two balls that pass each other at 100 m/s would gain a hundred thousand times their energy.
template <class F, class W>
TBS_FUNCTION void carry_with_new_arms(W &w, const ContactBlock &block, u32 lane, const Frame<F> &f, Vec<F> longer) {
    const auto some = below(F{}, dot(longer, longer));
    if (!holds_for_one(some)) return;
    const u32 *a = block.a + lane, *b = block.b + lane;
    F normal{};
    for (u32 k = 0; k < 4; ++k) normal = normal + load<F>(block.impulse[k] + lane);
    const Vec<F> push = add_scaled(add_scaled(scaled(f.normal, normal), f.first, load<F>(block.friction[0] + lane)),
                                   f.second, load<F>(block.friction[1] + lane));
    const Vec<F> torque = cross(longer, push);
    F row[8];
    const auto turn = [&](const u32 *body, const f32(*inertia)[block_items]) {
        load_rows([&](u32 i) { return w.carried[body[i]]; }, row);
        const Vec<F> next = subtract_times(Vec<F>{row[4], row[5], row[6]}, load_inertia<F>(inertia, lane), torque);
        store_rows([&](u32 i) { return w.carried[body[i]]; },
                   {row[0], row[1], row[2], row[3], pick(some, next.x, row[4]), pick(some, next.y, row[5]),
                    pick(some, next.z, row[6]), row[7]});
    };
    turn(a, block.inertia_a);
    if (sizeof(F) == sizeof(f32) && block.share[lane] == 0.0f) return;  // as in solve_contact
    turn(b, block.inertia_b);
}
