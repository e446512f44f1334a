// The system that takes all bodies of a world through one step.
#pragma once

#include "physics/physics.h"

TBS_SYSTEM void simulate(World &world, Space &space, Core &core, Warp &warp) {
    step_worlds(OneWorld{world}, space, core, warp);
}
