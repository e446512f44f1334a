// The narrow phase: where and how deep two shapes touch.
//
// Every pair is worked on in the frame of one of the two, so that places far from the origin lose nothing but what the
// difference of positions has lost.
#pragma once

#include "physics/collide_box.h"
#include "physics/collide_hull.h"
#include "physics/collide_plane.h"
#include "physics/collide_round.h"
#include "physics/collide_segment.h"

// The shapes in the order of their kinds, by which each pair of kinds is one function.
TBS_FUNCTION void collide_ordered(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                                  f32 margin, Manifold &manifold) {
    if (b.kind >= PLANE) {
        if (b.kind == NOTHING) return;
        if (a.kind == BOX) return collide_box_plane(a, at_a, at_b, margin, manifold);
        if (a.kind == HULL) return collide_hull_plane(a, at_a, at_b, margin, manifold);
        if (a.kind == PLANE) return;
        return collide_round_plane(a, at_a, at_b, margin, manifold);
    }
    if (a.kind == BOX && b.kind == BOX) return collide_boxes(a, at_a, b, at_b, margin, manifold);
    if (a.kind >= BOX) return collide_hulls(a, at_a, b, at_b, margin, manifold);
    if (a.kind == SPHERE && b.kind == BOX) return collide_sphere_box(a, at_a, b, at_b, margin, manifold);
    if (b.kind >= BOX) return collide_round_hull(a, at_a, b, at_b, margin, manifold);
    if (b.kind == SPHERE) return collide_spheres(a, at_a, b, at_b, margin, manifold);
    if (a.kind == SPHERE) return collide_sphere_capsule(a, at_a, b, at_b, margin, manifold);
    return collide_capsules(a, at_a, b, at_b, margin, manifold);
}

// Where two shapes touch, or are no further apart than `margin`, which is at least 0. At most four points; each says
// how far the shapes are apart there, and none is further than the margin. Where they are apart, the least separation
// is their distance; where they overlap, it is the least depth by which moving one along the normal parts them (of
// round shapes: where their cores are apart), within 0.2 % of the smallest extent, by which a face is preferred to an
// edge, and a face of a to one of b. A unit normal and finite points come out for all sizes that Geometry allows and
// all poses that are finite; planes do not touch each other.
//
// Of shapes of different kinds collide(b, ..., a, ...) is the same manifold seen from the other side to the bit. Of
// shapes of one kind it is another manifold of the same contact.
#ifdef TBS_USES_PRECOMPILED
TBS_PRECOMPILED void collide(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                             f32 margin, Manifold &manifold);
#else
TBS_PRECOMPILED void collide(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                             f32 margin, Manifold &manifold) {
    const bool ordered = a.kind <= b.kind;
    drop(manifold);
    collide_ordered(ordered ? a : b, ordered ? at_a : at_b, ordered ? b : a, ordered ? at_b : at_a, margin, manifold);
    if (manifold.count == 0) {
        drop(manifold);
    } else if (!ordered) {
        turn_round(manifold);
    }
}
#endif

TBS_FUNCTION Manifold collide(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                              f32 margin) {
    Manifold manifold;
    collide(a, at_a, b, at_b, margin, manifold);
    return manifold;
}
