// Queries of authors' systems: bodies that a shape at a place overlaps.
#pragma once

#include "physics/collide.h"
#include "physics/make.h"

// Calls found(entity, depth) for each body, and each part of one, that overlaps a shape at a place, in the order of
// world.tables; depth in metres, 0 where they touch. `mask`: groups (Filter); what has no Filter is of group 1.
template <class Found>
TBS_FUNCTION void overlaps(const World &world, const Hulls &hulls, const Shape &shape, vec3 position, quat rotation, u32 mask,
                           Found &&found) {
    const Geometry own = geometry_of(hulls, shape);
    const Transform at{position, rotation};
    const Bounds box = bounds(own, at);
    world.tables<const Pose, const Shape, Optional<const Filter>>([&](auto table, auto poses, auto shapes, auto filters) {
        for (u32 i = 0; i < table.count; ++i) {
            if ((filters.value_or(i, Filter{1, 0}).group & mask) == 0) continue;
            const Geometry other = geometry_of(hulls, shapes[i]);
            const Transform there{poses[i].position, poses[i].rotation};
            if (!overlap(box, bounds(other, there))) continue;
            const Manifold manifold = collide(own, at, other, there, 0.0f);
            if (manifold.count == 0) continue;
            f32 depth = 0.0f;
            for (u32 k = 0; k < manifold.count; ++k) depth = max(depth, -manifold.points[k].separation);
            found(table.entity(i), depth);
        }
    });
}
