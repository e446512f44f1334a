// The same for two worlds of few bodies side by side, where that saves fetching instructions (physics.h).
#pragma once

#include "physics/physics.h"

TBS_SYSTEM void simulate(Worlds<2> &worlds, Space &space, Core &core, Warp &warp) {
#ifdef TBS_ON_DEVICE
    step_worlds(worlds, space, core, warp);
#else
    for (u32 k = 0; k < worlds.count; ++k) {
        World world = worlds[k];
        step_worlds(OneWorld{world}, space, core, warp);
    }
#endif
}
