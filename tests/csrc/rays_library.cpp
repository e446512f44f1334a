// csrc/rays behind a C interface, for test_ray_casts.py and others.
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
#include "rays/look.h"
}

using rays::Found;
using rays::Hit;
using rays::Ray;

constexpr u32 N = 64, P = 512;

using Scene = rays::SceneOf<N, P>;

struct Bodies {  // arrays [count]
    const i32 *kind, *hull;
    const vec3 *size, *position;
    const quat *rotation;
    const u32 *groups, *colour;
    const i32 *archetype;
    const physics::Hull *hulls;

    // By their parts: of whole structs a compiler makes copies.
    physics::Geometry shape(u32 i) const { return {kind[i], {size[i].x, size[i].y, size[i].z}, hulls + hull[i]}; }
    physics::Transform at(u32 i) const {
        const vec3 &p = position[i];
        const quat &q = rotation[i];
        return {{p.x, p.y, p.z}, {q.w, q.x, q.y, q.z}};
    }
    rays::Body body(u32 i) const { return {shape(i), at(i), groups[i], archetype[i], colour[i]}; }
};

// A group whose items are worked on one by one, as CUDA's lanes do.
struct Single {
    static constexpr u32 group_threads = 32;
    template <class Body>
    void for_each(u32 n, Body &&body) const {
        for (u32 i = n; i-- > 0;) body(i);
    }
    template <class Body>
    void once(Body &&body) const { body(); }
    template <class Condition>
    u32 ballot(u32 n, Condition &&condition) const {
        u32 bits = 0;
        for (u32 i = 0; i < n; ++i) bits |= condition(i) ? 1u << i : 0;
        return bits;
    }
    template <class T>
    T &shared() const {
        static T memory;
        return memory;
    }
    template <class Term, class Take>
    u32 scan(u32 n, Term &&term, Take &&take) const {
        u32 sum = 0;
        for (u32 i = 0; i < n; ++i) sum += term(i);
        u32 after = sum;
        for (u32 i = n; i-- > 0;) take(i, after -= term(i));
        return sum;
    }
};

extern "C" u32 scene_bytes() { return sizeof(Scene); }
extern "C" u32 hull_bytes() { return sizeof(physics::Hull); }

// Ray i against body i.
extern "C" void cast_each(const Bodies *bodies, const vec3 *origin, const vec3 *direction, const f32 *reach, Hit *out,
                          u32 n) {
    for (u32 i = 0; i < n; ++i) out[i] = rays::cast(bodies->shape(i), bodies->at(i), origin[i], direction[i], reach[i]);
}
// Every ray against every body, by single casts: what scenes have to give.
extern "C" void cast_by_force(const Bodies *bodies, u32 count, const Ray *ray, Hit *out, u32 n) {
    for (u32 r = 0; r < n; ++r) {
        Hit best{ray[r].reach, -1, {0, 0, 0}};
        for (u32 i = 0; i < count; ++i) {
            const bool seen = (bodies->groups[i] & ray[r].mask) != 0 && ray[r].ignored != i32(i) &&
                              ray[r].ignored_too != i32(i);
            const Hit hit = rays::cast(bodies->shape(i), bodies->at(i), ray[r].origin, ray[r].direction, ray[r].reach);
            if (!seen || hit.body < 0 || (best.body >= 0 && hit.distance >= best.distance)) continue;
            best = hit;
            best.body = i32(i);
        }
        out[r] = best;
    }
}
// Half of the bodies, then the rest; by lanes all at once.
extern "C" void fill(Scene *scene, const Bodies *bodies, u32 count, u32 by_lanes, u32 *wanted) {
    const u32 half = count / 2, held = count < N ? count : N;
    if (by_lanes) {
        const Single lanes;
        wanted[0] = count;
        wanted[1] = rays::fill(*scene, lanes, held, [&](u32 i, bool) { return bodies->body(i); });
    } else {
        rays::Filling filling;
        rays::add(*scene, filling, half, [&](u32 i) { return bodies->body(i); });
        rays::add(*scene, filling, count - half, [&](u32 i) { return bodies->body(half + i); });
        rays::finish(*scene, filling, N);
        wanted[0] = filling.bodies;
        wanted[1] = filling.faces;
    }
    scene->count = held;
}
extern "C" void cast_singly(const Scene *scene, const Ray *ray, Hit *out, u32 n) {
    for (u32 i = 0; i < n; ++i) out[i] = rays::cast(*scene, ray[i]);
}
extern "C" void cast_in_packets(const Scene *scene, const Ray *ray, Hit *out, u32 n) {
    Warp warp;
    rays::cast_all(*scene, warp, n, [&](u32 i) { return ray[i]; }, [&](u32 i, const Hit &hit) { out[i] = hit; });
}
extern "C" void cast_by_lanes(const Scene *scene, const Ray *ray, Hit *out, u32 n) {
    Single lanes;
    rays::cast_all(*scene, lanes, n, [&](u32 i) { return ray[i]; }, [&](u32 i, const Hit &hit) { out[i] = hit; });
}
extern "C" void see(const Scene *scene, const rays::Sight *sight, u8 *singly, u8 *in_packets, u8 *by_lanes, u32 n) {
    Warp warp;
    Single lanes;
    const auto one = [&](u32 i) { return sight[i]; };
    for (u32 i = 0; i < n; ++i) {
        singly[i] = rays::sees(*scene, sight[i].from, sight[i].to, sight[i].a, sight[i].b, sight[i].mask);
    }
    rays::see_all(*scene, warp, n, one, [&](u32 i, bool clear) { in_packets[i] = clear; });
    rays::see_all(*scene, lanes, n, one, [&](u32 i, bool clear) { by_lanes[i] = clear; });
}
extern "C" void lidar(const Scene *scene, const rays::Fan *fan, Hit *in_packets, Hit *by_lanes, u32 n) {
    rays::Serial serial;
    Single lanes;
    rays::lidar(*scene, serial, n, *fan, [&](u32 i, const Hit &hit) { in_packets[i] = hit; });
    rays::lidar(*scene, lanes, n, *fan, [&](u32 i, const Hit &hit) { by_lanes[i] = hit; });
}
// hits [eyes, beams], clear [eyes, lines]
extern "C" void look(const Scene *scene, const rays::Fan *fan, u32 eyes, u32 beams, const rays::Sight *sight, u32 lines,
                     Hit *hits, u8 *clear, u32 by_lanes) {
    const auto work = [&](auto &&group) {
        rays::look(
            *scene, group, eyes, beams, [&](u32 e) { return fan[e]; },
            [&](u32 e, u32 i, const Hit &hit) { hits[e * beams + i] = hit; }, lines,
            [&](u32 e, u32 i) { return sight[e * lines + i]; },
            [&](u32 e, u32 i, bool free) { clear[e * lines + i] = free; });
    };
    by_lanes ? work(Single{}) : work(rays::Serial{});
}
// The word of a shape for an eye, and the bits that a ray wants.
extern "C" void sector_words(const Scene *scene, const Ray *ray, const f32 *reach, u32 *words, u32 *wanted, u32 n) {
    for (u32 i = 0; i < n; ++i) {
        const rays::Eye eye{ray[i].origin, reach[i] * reach[i]};
        wanted[i] = rays::wanted_of(ray[i], eye);
        for (u32 k = 0; k < scene->count; ++k) words[i * scene->count + k] = rays::sectors_at(*scene, k, eye);
    }
}
extern "C" void look_along(const vec3 *forward, const vec3 *up, quat *out, u32 n) {
    for (u32 i = 0; i < n; ++i) out[i] = rays::looking(forward[i], up[i]);
}
// rays::Pixel [height, width]
extern "C" void draw(const Scene *scene, const rays::Camera *camera, u32 shadows, rays::Pixel *in_tiles,
                     rays::Pixel *by_lanes) {
    rays::Serial serial;
    Single lanes;
    rays::Lighting light;
    light.shadows = shadows != 0;
    rays::render(*scene, serial, *camera, light, [&](u32 i, const rays::Pixel &pixel) { in_tiles[i] = pixel; });
    rays::render(*scene, lanes, *camera, light, [&](u32 i, const rays::Pixel &pixel) { by_lanes[i] = pixel; });
}
