// Parts: further shapes of bodies. A part is a body of the step like others, with the mover of the body to which it
// belongs; where it is follows from that body.
#pragma once

#include "physics/gather.h"

TBS_FUNCTION u32 owner_of(const Step &step, u32 body) { return has_parts ? step.owner[has_parts ? body : 0] : body; }
TBS_FUNCTION bool is_part(const Step &step, u32 body) { return has_parts && owner_of(step, body) != body; }

// The number of the body with a handle, which is no part; or no_body.
TBS_FUNCTION u32 body_of(const Step &step, Entity entity) {
    u32 found = no_body;
    for (u32 i = 0; i < step.bodies; ++i) found = step.entity[i] == entity ? i : found;
    return found != no_body && is_part(step, found) ? no_body : found;
}

// Where a body or part is while the body to which it belongs is at `at`.
TBS_FUNCTION Transform place_of(const Step &step, u32 body, const Transform &at) {
    if (!is_part(step, body)) return at;
    return placed_in(step.local[has_parts ? body : 0], at);
}

// Calls visit(table, poses, parts) for the tables of parts; `table.first` is the number of their first row in the step.
template <class Visit>
TBS_FUNCTION void for_parts(World &world, Visit &&visit) {
    world.tables<Pose, const Shape, Optional<const Part>>([&](auto table, auto poses, auto, auto parts) {
        if constexpr (parts.there) visit(table, poses, parts);
    });
}

// A number for all that an author says of a part beside its shape.
TBS_FUNCTION u32 mark_of(const Part &part) {
    const Entity body = part.body;
    return mark_of(part.position, part.rotation) + body.table * 0x9e3779b1u + body.birth.tick * 0x85ebca77u +
           body.birth.order * 0xc2b2ae3du;
}

// Puts parts in their places, behind `gather`. Returns whether all of them have one; else it has reported a fault.
template <class Group>
TBS_FUNCTION bool place_parts(World &world, const Hulls &hulls, Step &step, Group &group) {
    if constexpr (has_parts) {
        u32 unsound = 0;
        u32 *const owner = step.held;  // until nobody looks for bodies any more
        for_parts(world, [&](auto table, auto, auto parts) {
            group.for_each(table.count, [&](u32 i) { owner[table.first + i] = body_of(step, parts[i].body); });
        });
        for_parts(world, [&](auto table, auto, auto parts) {
            unsound += group.count(table.count, [&](u32 i) {
                const Part part = parts[i];
                const u32 own = table.first + i, body = owner[own];
                const bool finite = is_finite(part.position) && is_rotation(part.rotation), there = body != no_body;
                if (!finite) world.fail(Fault::not_finite, table.place(i, wrong_in(part)));
                if (!there) world.fail(Fault::part_of_nothing, table.place(i, 0));
                if (!finite || !there) return true;
                step.owner[own] = body;
                step.local[own] = {part.position, normalize(part.rotation)};
                step.at[own] = place_of(step, own, step.at[body]);
                step.mover[own] = step.mover[body];
                step.pushed[own] = step.pushed[body];
                step.ahead[own] = step.ahead[body];
                const f32 further = length(part.position) + radius_of(geometry_of(hulls, step.shape[own])) -
                                    radius_of(geometry_of(hulls, step.shape[body]));
                step.drift[own] = fma(step.turn[body], max(further, 0.0f), step.drift[body]);
                step.reach_around[own] = max(fma(step.turn[body], further, step.reach_around[body]), 0.0f);
                step.reach[own] = step.reach_around[own] + length(step.ahead[own]);
                if constexpr (Constants::sleep != 0) {
                    step.mark[own] += mark_of(part);
                    step.mark_of_pose[own] = 0;  // that of its body says it
                }
                return false;
            });
        });
        if (unsound > 0) return false;
        group.once([&] {
            for (u32 i = 0; i < step.bodies; ++i) {
                if (!is_part(step, i)) continue;
                // A body is not the same any more when a part has come, changed or gone.
                if constexpr (Constants::sleep != 0) step.mark[step.owner[i]] += step.mark[i];
                if (step.pushed[i] == 0) continue;
                f32 &slow = step.slow[step.mover[i]];
                slow = min(slow, fast_share * inner_radius(geometry_of(hulls, step.shape[i])));
            }
        });
    }
    return true;
}

// Writes the poses of parts to their rows, behind the solver.
template <class Group>
TBS_FUNCTION void scatter_parts(World &world, const Step &step, Group &group) {
    if constexpr (has_parts) {
        for_parts(world, [&](auto table, auto poses, auto) {
            group.for_each(table.count, [&](u32 i) {
                const u32 own = table.first + i, mover = step.mover[own];
                const Transform before = step.at[step.owner[own]];
                SolverBody body{};  // of one that stands the solver says nothing
                body.position = before.position;
                body.rotation = before.rotation;
                if (mover != no_body) take_body(step.solver, mover, body);
                const Transform at = place_of(step, own, {body.position, body.rotation});
                poses[i] = Pose{at.position, at.rotation};
            });
        });
    }
}
