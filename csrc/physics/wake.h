// Wakes sleeping bodies after an author's changes since the step before. The solver wakes bodies that are pushed.
#pragma once

#include "physics/narrow.h"

// Wakes the bodies whose joints are not those of the step before: where one has been made, removed or changed.
template <class Group>
TBS_FUNCTION void wake_jointed(Step &step, const Contacts &kept, Group &group) {
    if (Constants::sleep == 0 || (step.solver.joint_count == 0 && kept.joints == 0)) return;
    group.for_each(step.bodies, [&](u32 i) { step.held[i] = 0; });
    group.once([&] {
        for (u32 i = 0; i < step.solver.joint_count; ++i) {
            const Pair pair = step.joint_bodies[i];
            if (pair.a != no_body) step.held[pair.a] += step.joint_mark[i];
            if (pair.b != no_body) step.held[pair.b] += step.joint_mark[i];
        }
    });
    group.for_each(step.bodies, [&](u32 i) {
        const u32 before = step.before[i], mover = step.mover[i];
        const u32 was = kept.joints == 0 || before == no_body ? 0 : kept.held[Constants::sleep == 0 ? 0 : before];
        if (mover != no_body && step.held[i] != was) wake(step.solver, mover);
    });
}

// Wakes bodies that an author has moved or changed since the step before (all but velocity and force, by which the
// solver wakes them), and bodies that touch or have touched these, a new body, or a destroyed one: they may have rested
// on it.
template <class Group>
TBS_FUNCTION void wake_changed(Step &step, const Contacts &kept, Group &group) {
    if constexpr (Constants::sleep == 0) return;
    const auto is_new = [&](u32 i) { return step.before[i] == no_body; };
    const auto is_same = [&](u32 i) {
        const auto is_own_same = [&](u32 k) {
            return !is_new(k) && kept.given[step.before[k]] == step.mark[k] + step.mark_of_pose[k];
        };
        return is_own_same(i) && (!is_part(step, i) || is_own_same(owner_of(step, i)));
    };
    const u32 known = group.count(step.bodies, [&](u32 i) { return !is_new(i); });
    if (known == u32(kept.bodies) && !group.any(step.bodies, [&](u32 i) { return !is_same(i); })) return;
    group.once([&] {
        const auto wake_one = [&](u32 i) {
            if (step.mover[i] != no_body && !is_new(i)) wake(step.solver, step.mover[i]);
        };
        const auto wake_both = [&](u32 a, u32 b) {
            if (b != no_body && (a == no_body || !is_same(a))) wake_one(b);
            if (a != no_body && (b == no_body || !is_same(b))) wake_one(a);
        };
        for (u32 i = 0; i < step.bodies; ++i) {
            if (!is_same(i)) wake_one(i);
        }
        for (u32 i = 0; i < step.pairs; ++i) {
            if (step.place[i] != no_place) wake_both(step.pair[i].a, step.pair[i].b);
        }
        u32 *now = step.held;  // the numbers that bodies of the step before have in this one
        for (u32 i = 0; i < u32(kept.bodies); ++i) now[i] = no_body;
        for (u32 i = 0; i < step.bodies; ++i) {
            if (!is_new(i)) now[step.before[i]] = i;
        }
        for (u32 i = 0; i < u32(kept.rows); ++i) wake_both(now[kept.pair[i][0]], now[kept.pair[i][1]]);
    });
}

// Keeps the marks of bodies, behind the solver.
template <class Group>
TBS_FUNCTION void keep_marks(const Step &step, Contacts &kept, Group &group) {
    if constexpr (Constants::sleep == 0) return;
    group.for_each(step.bodies, [&](u32 i) {
        u32 mark_of_place = step.mark_of_pose[i];
        if (step.mover[i] != no_body && !is_part(step, i) && is_moving(step.solver, step.mover[i])) {
            SolverBody body{};
            take_body(step.solver, step.mover[i], body);
            mark_of_place = mark_of(body.position, body.rotation);
        }
        kept.given[i] = step.mark[i] + mark_of_place;
    });
}
