// Rigid bodies as systems: `simulate` takes all bodies of a world through one step. See docs/physics.md.
#pragma once

#include "physics/contact_force.h"
#include "physics/continuous.h"
#include "physics/query.h"
#include "physics/wake.h"

// The stages of a step, in order.

// Gathers bodies and joints, and lists the pairs that may touch. Of a world with an unsound row only the fault is left.
template <class Group>
TBS_FUNCTION void begin_step(World &world, Step &step, Group &group) {
    const Hulls &hulls = world.get<const Hulls>();
    const Settings settings = settings_of(world);
    const bool sound = gather(world, hulls, step, settings, gravity_of(world), group) &&
                       place_parts(world, hulls, step, group) && gather_joints(world, step, group);
    group.once([&] { step.sound = u32(sound); });
    if (!sound) return;
    reach_by_motors(hulls, step, settings, group);
    find_bounds(hulls, step, world.parameters.physics.margin, group);
    find_pairs(world, step, group);
}

// Finds contacts; on a device where bodies touch is known by then (find_touches).
template <class Group>
TBS_FUNCTION void touch_bodies(World &world, Step &step, Group &group) {
    if (step.sound == 0) return;
    const Contacts &kept = world.get<const Contacts>();
    list_contacts(world, step, group);
    wake_changed(step, kept, group);
    wake_jointed(step, kept, group);
}

// The solver works in `solver`, which may be `memory` itself: where nothing is on chip.
template <class Solver, class Memory, class Group>
TBS_FUNCTION void solve_in(World &world, u32 sound, Solver &solver, Memory &memory, Group &group) {
    if (sound == 0) return;
    if constexpr (::std::is_same_v<Solver, Memory>) {
        solve_world(solver, group, settings_of(world));
    } else {
        solver.begin(memory, group);
        solve_world(solver, group, settings_of(world));
        solver.end(memory, group);
    }
}

template <class Group>
TBS_FUNCTION void end_step(World &world, Step &step, Group &group) {
    if (step.sound == 0) return;
    Contacts &kept = world.get<Contacts>();
    stop_fast_bodies(world.get<const Hulls>(), step, group);
    write_contact_forces(world, step, settings_of(world), group);
    keep_contacts(step, kept, group);
    keep_marks(step, kept, group);
    scatter(world, step, group);
    scatter_parts(world, step, group);
    scatter_joints(world, step, kept, group);
}
