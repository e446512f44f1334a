// csrc/physics/crossing.h behind a C interface, for test_crossing.py: in a namespace of its own, as the engine compiles
// it.
#include "tbs/vector.h"

namespace tbs::physics {
#include "physics/crossing.h"
#include "body.h"
}  // namespace tbs::physics

using namespace tbs;
using namespace tbs::physics;

static_assert(sizeof(Body) == 48 && sizeof(Crossing) == 12);

extern "C" void crossings(const Body *bodies, const vec3 *from, const vec3 *to, const Hull *hulls, Crossing *out,
                          i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = crossing_of(geometry(bodies[i], hulls), from[i], to[i]);
}
extern "C" void inner_radii(const Body *bodies, const Hull *hulls, f32 *out, i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = inner_radius(geometry(bodies[i], hulls));
}
