// Contact events: rows of Touch for the contacts of this step, for the author's systems behind this one.
#pragma once

#include "physics/physics.h"

TBS_SYSTEM void report(World &world, const Contacts &contacts, Warp &warp) {
    warp.scan(
        u32(contacts.rows), [&](u32 i) { return contacts.total[i] > 0.0f ? 1u : 0u; },
        [&](u32 i, u32) {
            if (!(contacts.total[i] > 0.0f)) return;
            const Entity a = contacts.body[contacts.pair[i][0]], b = contacts.body[contacts.pair[i][1]];
            world.create_at<Touch>(i, Contact{a, b, contacts.position[i], contacts.normal[i], contacts.total[i]});
        });
}
