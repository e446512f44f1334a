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

// The stages have some 46,000 instructions and more on a GPU, 0.7 MB: between them warps line up.
TBS_SYSTEM void simulate(World &world, Space &space, Core &core, Contacts &contacts, const Hulls &hulls, Warp &warp) {
    Step &step = begin_step(space, core, warp);
    const Settings settings = settings_of(world);
    if (!gather(world, hulls, step, settings, gravity_of(world), warp)) return;  // the fault has been reported
    if (!place_parts(world, hulls, step, warp)) return;
    if (!gather_joints(world, step, warp)) return;
    reach_by_motors(hulls, step, settings, warp);
    const f32 margin = world.parameters.physics.margin;
    warp.line_up();
    find_bounds(hulls, step, margin, warp);
    warp.line_up();
    find_pairs(world, step, warp);
    warp.line_up();
    find_contacts(world, hulls, contacts, step, margin, settings, warp);
    warp.line_up();
    wake_changed(step, contacts, warp);
    warp.line_up();
    wake_jointed(step, contacts, warp);
    warp.line_up();
    solve_world(*step.solver, warp, settings);
    warp.line_up();
    stop_fast_bodies(hulls, step, warp);
    write_contact_forces(world, step, settings, warp);
    warp.line_up();
    keep_contacts(step, contacts, warp);
    warp.line_up();
    keep_marks(step, contacts, warp);
    warp.line_up();
    scatter(world, step, warp);
    scatter_parts(world, step, warp);
    warp.line_up();
    scatter_joints(world, step, contacts, warp);
}
