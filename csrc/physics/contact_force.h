// The component ContactForce: how contacts push bodies, for archetypes that have it.
#pragma once

#include "physics/narrow.h"

// N s on the second body of a contact in the whole step. A contact that has not been solved is of bodies that sleep,
// which it holds as it did in their last substep, or bears nothing.
TBS_FUNCTION vec3 impulse_of(const SolverMemory &solver, u32 place, u32 substeps) {
    const SolverContact &contact = solver.contacts[place];
    if (solver.contact_item[place] != not_solved) return contact.normal * contact.total + contact.friction_sum();
    f32 pushed = 0.0f;
    for (u32 k = 0; k < contact.count; ++k) pushed += contact.points[k].impulse;
    return (contact.normal * pushed + contact.friction) * f32(substeps);
}

// Sums the impulses of the step up for each body, its parts included, and for each part, in the order of contacts, and
// writes the forces to their rows. Behind the solver, before keep_contacts forgets contacts that bear nothing any more.
template <class Group>
TBS_FUNCTION void write_contact_forces(World &world, Step &step, const Settings &settings, Group &group) {
    if constexpr (sums_friction) {
        group.for_each(step.bodies, [&](u32 i) { step.pushed_by[i] = {}; });
        group.once([&] {
            for (u32 i = 0; i < step.pairs; ++i) {
                if (step.place[i] == no_place) continue;
                const vec3 impulse = impulse_of(step.solver, step.place[i], settings.substeps);
                step.pushed_by[step.pair[i].a] -= impulse;
                step.pushed_by[step.pair[i].b] += impulse;
                const u32 a = step.pair[i].a, b = step.pair[i].b;
                if (is_part(step, a)) step.pushed_by[owner_of(step, a)] -= impulse;
                if (is_part(step, b)) step.pushed_by[owner_of(step, b)] += impulse;
            }
        });
        world.tables<const Pose, const Shape, Optional<ContactForce>>([&](auto table, auto, auto, auto forces) {
            if constexpr (forces.there) {
                group.for_each(table.count, [&](u32 i) {
                    forces[i].force = step.pushed_by[table.first + i] / settings.time;
                });
            }
        });
    }
}
