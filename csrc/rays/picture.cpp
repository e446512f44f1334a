// Pictures of one world for people: torch_batchsim/rays/picture.py compiles this for a number of bodies and faces
// (TBS_BODIES, TBS_FACES), and calls it.
#include "tbs/lanes.h"
#include "tbs/math.h"
#include "tbs/vector.h"
#include "tbs/wide.h"

using namespace tbs;

namespace tbs::physics {
#include "physics/shapes.h"
}
namespace tbs::rays {
#include "rays/camera.h"
}

#define TBS_EXPORTED extern "C" __attribute__((visibility("default")))

using Scene = rays::SceneOf<TBS_BODIES, TBS_FACES>;

// Arrays [count], as numpy has them.
struct Bodies {
    const i32 *kind;
    const u32 *hull;
    const vec3 *size, *position;
    const quat *rotation;
    const u32 *colour;
    const physics::Hull *hulls;

    rays::Body operator()(u32 i) const {
        const vec3 &p = position[i], &s = size[i];
        const quat q = normalize(quat{rotation[i].w, rotation[i].x, rotation[i].y, rotation[i].z});
        return {{kind[i], {s.x, s.y, s.z}, hulls + hull[i]}, {{p.x, p.y, p.z}, q}, 1, 0, colour[i]};
    }
};

// The camera, its target and the light; fields as in rays/picture.py.
struct View {
    vec3 eye, target, up, light;
    f32 field_of_view, near, far, ambient, tile, contrast;
    u32 width, height, shadows;
    u32 zenith, horizon, ground;
};

TBS_EXPORTED u64 tbs_scene_bytes() { return sizeof(Scene); }

// Writes 0xRRGGBB for each pixel, [height, width].
TBS_EXPORTED void tbs_picture(Scene &scene, const Bodies &bodies, u32 count, const View &view, u32 *pixels) {
    rays::Serial group;
    rays::Filling filling;
    rays::add(scene, filling, count, bodies);
    rays::finish(scene, filling, rays::most_bodies<Scene>);
    scene.count = min(filling.bodies, rays::most_bodies<Scene>);
    const quat rotation = rays::looking(view.target - view.eye, view.up);
    const rays::Camera camera{view.eye,    rotation,  view.field_of_view, view.width,
                              view.height, view.near, view.far};
    rays::Lighting light;
    light.towards = normalize(view.light);
    light.ambient = view.ambient;
    light.tile = view.tile, light.contrast = view.contrast;
    light.shadows = view.shadows != 0;
    light.zenith = view.zenith, light.horizon = view.horizon, light.ground = view.ground;
    rays::render(scene, group, camera, light, [&](u32 i, const rays::Pixel &pixel) { pixels[i] = pixel.colour; });
}
