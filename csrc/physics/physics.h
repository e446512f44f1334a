// Rigid bodies as systems: `simulate` takes all bodies of a world through one step. See docs/physics.md.
#pragma once

#include "physics/contact_force.h"
#include "physics/continuous.h"
#include "physics/query.h"
#include "physics/wake.h"

TBS_FUNCTION vec3 gravity_of(const World &world) {
    return {world.parameters.physics.gravity_x, world.parameters.physics.gravity_y, world.parameters.physics.gravity_z};
}

TBS_FUNCTION Settings settings_of(const World &world) {
    Settings settings = default_settings();
    settings.time = world.parameters.physics.time;
    settings.substeps = u32(world.parameters.physics.substeps);
    settings.sleep = u32(Constants::sleep);
    settings.restitution_speed = world.parameters.physics.restitution_speed;
    return settings;
}

// A world as Worlds<n> has it.
struct OneWorld {
    static constexpr u32 count = 1;
    World &world;

    TBS_METHOD World &operator[](u32) const { return world; }
};

// Gathers a world's bodies and joints. Returns whether all of them are sound; else it has reported a fault.
template <class Group>
TBS_FUNCTION bool take_world(World &world, const Hulls &hulls, Step &step, const Settings &settings, Group &group) {
    if (!gather(world, hulls, step, settings, gravity_of(world), group)) return false;
    if (!place_parts(world, hulls, step, group)) return false;
    return gather_joints(world, step, group);
}

// Takes worlds through a step. The stages have some 50,000 instructions on a GPU, 0.8 MB: between them warps line up, and
// all worlds of a warp go through one before the next.
template <class Pack, class Group>
TBS_FUNCTION void step_worlds(const Pack &worlds, Space &space, Core &core, Group &group) {
    Solvers &solvers = workspace_as<Solvers>(core, group);
    Step &first = workspace_as<Step>(space, group);
    // On a device each world has a row of this workspace (torch_batchsim/physics/library.py); a CPU takes one at a time.
    const auto step_of = [&](u32 k) -> Step & {
        if (worlds_together == 1 || k == 0) return first;
        return workspace_as<Step>((&space)[i64{worlds[k].id} - i64{worlds[0].id}], group);
    };
    const Hulls &hulls = worlds[0].template get<const Hulls>();
    const Settings settings = settings_of(worlds[0]);
    const f32 margin = worlds[0].parameters.physics.margin;
    u32 sound = 0;  // bit k: world k takes part
    TBS_NO_UNROLL
    for (u32 k = 0; k < worlds.count; ++k) {
        auto &&world = worlds[k];
        Step &step = step_of(k);
        begin_step(step, solvers.of[k], group);
        sound |= u32(take_world(world, hulls, step, settings, group)) << k;
    }
    if (sound == 0) return;
    const auto for_each_world = [&](auto &&stage) {
        group.line_up();
        TBS_NO_UNROLL
        for (u32 k = 0; k < worlds.count; ++k) {
            if ((sound >> k & 1) == 0) continue;
            auto &&world = worlds[k];
            stage(world, step_of(k));
        }
    };
    for_each_world([&](World &, Step &step) {
        reach_by_motors(hulls, step, settings, group);
        find_bounds(hulls, step, margin, group);
    });
    for_each_world([&](World &world, Step &step) { find_pairs(world, step, group); });
    for_each_world([&](World &world, Step &step) {
        find_contacts(world, hulls, world.get<Contacts>(), step, margin, settings, group);
    });
    for_each_world([&](World &world, Step &step) { wake_changed(step, world.get<Contacts>(), group); });
    for_each_world([&](World &world, Step &step) { wake_jointed(step, world.get<Contacts>(), group); });
    for_each_world([&](World &, Step &step) { solve_world(*step.solver, group, settings); });
    for_each_world([&](World &world, Step &step) {
        stop_fast_bodies(hulls, step, group);
        write_contact_forces(world, step, settings, group);
    });
    for_each_world([&](World &world, Step &step) { keep_contacts(step, world.get<Contacts>(), group); });
    for_each_world([&](World &world, Step &step) { keep_marks(step, world.get<Contacts>(), group); });
    for_each_world([&](World &world, Step &step) {
        scatter(world, step, group);
        scatter_parts(world, step, group);
    });
    for_each_world([&](World &world, Step &step) { scatter_joints(world, step, world.get<Contacts>(), group); });
}
