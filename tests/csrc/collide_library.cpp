// csrc/physics/collide.h behind a C interface, for test_collide.py: in a namespace of its own, as the engine compiles
// it.
#include "tbs/vector.h"

namespace tbs::physics {
#include "physics/collide.h"
#include "body.h"
}  // namespace tbs::physics

using namespace tbs;
using namespace tbs::physics;

static_assert(sizeof(Body) == 48 && sizeof(Manifold) == 20 + 4 * 32);

extern "C" void collide_pairs(const Body *a, const Body *b, const f32 *margin, const Hull *hulls, Manifold *out,
                              i64 n) {
    for (i64 i = 0; i < n; i++) {
        collide(geometry(a[i], hulls), a[i].at, geometry(b[i], hulls), b[i].at, margin[i], out[i]);
    }
}
extern "C" i64 size_of_hull() { return sizeof(Hull); }
extern "C" void bounds_of(const Body *bodies, const Hull *hulls, Bounds *out, i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = bounds(geometry(bodies[i], hulls), bodies[i].at);
}
