// The solver for the worlds of an environment: its workspace, and a step as a function that is compiled by itself.
#pragma once

inline constexpr bool sums_friction = Constants::contact_forces != 0;  // asked for by archetypes with ContactForce

#include "physics/solver.h"

// On a CPU the room is one of a few, so that environments share the compiled solver
// (torch_batchsim/physics/library.py).
#ifdef TBS_ON_DEVICE
using Solver = Workspace<u32(Constants::movers), u32(Constants::contacts), u32(Constants::joints),
                         u32(sizeof(Core)) / 16 * 16>;
#else
using Solver = Workspace<u32(Constants::room_of_movers), u32(Constants::room_of_contacts),
                         u32(Constants::room_of_joints)>;
#endif
using SolverMemory = Solver::Beside;

// Moves all bodies of a world through settings.time.
#ifdef TBS_USES_PRECOMPILED
TBS_PRECOMPILED void solve_world(Solver &solver, Warp &warp, const Settings &settings);
#elif defined(TBS_ON_DEVICE)  // inlined, where it is known that the solver is on chip
TBS_FUNCTION void solve_world(Solver &solver, Warp &warp, const Settings &settings) { solve(solver, warp, settings); }
#else
TBS_PRECOMPILED void solve_world(Solver &solver, Warp &warp, const Settings &settings) {
    solve(solver, warp, settings);
}
#endif
