// The systems that take all bodies of a world through one step. On a CPU the first one does all of it, in memory that stays
// in the thread's cache. On a device each does its part for all worlds: the code of a part stays in a multiprocessor's
// cache of instructions (128 KB), in which the whole does not fit. Space lasts from one to the next.
#pragma once

#include "physics/physics.h"

TBS_SYSTEM void simulate(World &world, Space &space, Warp &warp) {
    Step &step = workspace_as<Step>(space, warp);
    begin_step(world, step, warp);
    if constexpr (!on_device) {
        touch_bodies(world, step, warp);
        solve_in(world, step.sound, step.solver, step.solver, warp);
        end_step(world, step, warp);
    }
}

TBS_SYSTEM void simulate_touches(Worlds<8> &worlds, Space &space, Warp &warp) {
    if constexpr (on_device) {
        find_touches(worlds, [&](i32 row) -> Step & { return workspace_as<Step>((&space)[row], warp); }, warp);
    }
}

TBS_SYSTEM void simulate_contacts(World &world, Space &space, Warp &warp) {
    if constexpr (on_device) touch_bodies(world, workspace_as<Step>(space, warp), warp);
}

TBS_SYSTEM void simulate_motion(World &world, Space &space, Core &core, Warp &warp) {
    if constexpr (on_device) {
        Step &step = workspace_as<Step>(space, warp);
        solve_in(world, step.sound, workspace_as<Solver>(core, warp), step.solver, warp);
    }
}

TBS_SYSTEM void simulate_results(World &world, Space &space, Warp &warp) {
    if constexpr (on_device) end_step(world, workspace_as<Step>(space, warp), warp);
}
