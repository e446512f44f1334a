// Rays against all shapes of a world: nearest hits, lidar, lines of sight.
#pragma once

#include "rays/packet.h"

// A group of one lane, for systems without Warp.
struct Serial {
    static constexpr u32 group_threads = 1;
    template <class Body>
    TBS_METHOD void for_each(u32 n, Body &&body) const {
        for (u32 i = 0; i < n; ++i) body(i);
    }
    template <class Body>
    TBS_METHOD void once(Body &&body) const { body(); }
};

// Whether a group's rays are traced in packets: where one thread does them all, on a processor with vector units.
// And how many shapes a single ray looks at together.
#ifdef TBS_ON_DEVICE
template <class Group>
inline constexpr bool in_packets = false;
inline constexpr u32 find_step = 1;
#else
template <class Group>
inline constexpr bool in_packets = Group::group_threads == 1;
inline constexpr u32 find_step = 16;
#endif

// The best hit of a ray: bits of the distance, and the body.
struct Found {
    i32 nearest, body;
};

// The shape at a place against the best so far, for a ray that comes through the box around it.
template <class Scene>
TBS_FUNCTION void look_at(const Scene &scene, u64 place, const Prepared &ray, Found &found) {
    const vec3 start = from_centre(scene, place, ray.origin);
    const auto face = [&](u32 k) { return face_at(scene, place, k); };
    const Span box = box_at(scene, place, start, ray.inverse);
    const i32 at = enter(solid_at(scene, place), ray, start, box, scene.faces[place], face);
    if (at < found.nearest) found = {at, i32(place)};
}

// Whether a ray comes through the box around the shape at a place, and looks at it.
template <class Scene>
TBS_FUNCTION bool is_near(const Scene &scene, u64 place, const Ray &ray, const Prepared &prepared, i32 nearest) {
    const Span box = box_at(scene, place, from_centre(scene, place, ray.origin), prepared.inverse);
    const bool ignored = (ray.ignored == i32(place)) | (ray.ignored_too == i32(place));
    return (box.enter <= min(box.leave, nearest)) & ((ray.mask & scene.groups[place]) != 0) & !ignored;
}

// One ray against all shapes. With `any` it stops at the first that it finds.
template <bool any, class Scene>
TBS_FUNCTION Found find(const Scene &scene, const Ray &ray) {
    const Prepared prepared = prepare(ray.origin, ray.direction, ray.reach);
    Found found{prepared.limit, no_body};
    for (u32 first = 0; first < scene.count && !(any && found.body != no_body); first += find_step) {
        u32 near = 0;
        for (u32 k = 0; k < find_step; ++k) {
            near |= u32(is_near(scene, u64(first) + k, ray, prepared, found.nearest)) << k;
        }
        for (; near != 0; near &= near - 1) look_at(scene, first + lowest_bit(near), prepared, found);
    }
    return found;
}

// The result of a ray's best hit.
template <class Scene>
TBS_FUNCTION Hit hit_of(const Scene &scene, const Ray &ray, Found found) {
    if (found.body == no_body) return {ray.reach, -1, {0, 0, 0}};
    const u64 place = u64(found.body);
    const f32 distance = as_distance(found.nearest);
    const auto face = [&](u32 k) { return face_at(scene, place, k); };
    const Prepared prepared = prepare(ray.origin, ray.direction, ray.reach);
    return {distance, found.body, normal_at(solid_at(scene, place), prepared, distance, scene.faces[place], face)};
}

// A hit without its normal: one costs as much as a shape or two.
struct Nearest {
    f32 distance;
    i32 body;
};
TBS_FUNCTION Nearest nearest_of(const Ray &ray, Found found) {
    if (found.body == no_body) return {ray.reach, -1};
    return {as_distance(found.nearest), found.body};
}
template <class Scene>
TBS_FUNCTION void put_result(const Scene &scene, const Ray &ray, Found found, Hit &result) {
    result = hit_of(scene, ray, found);
}
template <class Scene>
TBS_FUNCTION void put_result(const Scene &, const Ray &ray, Found found, Nearest &result) {
    result = nearest_of(ray, found);
}

// ---- called by systems ---------------------------------------------------------------------------------------------

// The first body on a ray.
template <class Scene>
TBS_FUNCTION Hit cast(const Scene &scene, const Ray &ray) { return hit_of(scene, ray, find<false>(scene, ray)); }
template <class Scene>
TBS_FUNCTION Hit cast(const Scene &scene, vec3 origin, vec3 direction, f32 reach, u32 mask = ~0u, i32 ignored = -1) {
    return cast(scene, Ray{origin, direction, reach, mask, ignored});
}

// Whether the line between two points is free, bodies a and b ignored.
template <class Scene>
TBS_FUNCTION bool sees(const Scene &scene, vec3 from, vec3 to, i32 a = -1, i32 b = -1, u32 mask = ~0u) {
    return find<true>(scene, Ray{from, to - from, 1.0f, mask, a, b}).body == no_body;
}

// Traces rays 0 .. n - 1, `make(i)` each: calls take(i, ray, found).
template <bool any, class Scene, class Group, class Make, class Take>
TBS_FUNCTION void trace_all(const Scene &scene, Group &group, u32 n, const Make &make, const Take &take) {
    if constexpr (in_packets<Group>) {
        const u32 packets = (n + Packet::width - 1) / Packet::width, even = (n + packets - 1) / max(packets, 1u);
        for (u32 first = 0; first < n; first += even) {
            const u32 live = min(n - first, even);
            Packet packet;
            for (u32 r = 0; r < Packet::width; ++r) packet.set(r, make(min(first + r, n - 1)));
            packet.prepare_all();
            trace<any>(scene, packet);
            for (u32 r = 0; r < live; ++r) take(first + r, packet.ray(r), Found{packet.nearest[r], packet.body[r]});
        }
    } else {
        group.for_each(n, [&](u32 i) {
            const Ray ray = make(i);
            take(i, ray, find<any>(scene, ray));
        });
    }
}

// Calls take(i, hit) for each of n rays `ray(i)`: on CPU sixteen at a time, on CUDA by the group's lanes. Results equal
// those of `cast`; cast_all<Nearest> leaves out normals.
template <class Result = Hit, class Scene, class Group, class Make, class Take>
TBS_FUNCTION void cast_all(const Scene &scene, Group &group, u32 n, Make &&ray, Take &&take) {
    struct Taker {  // not a lambda, which a compiler may leave as a call for each ray
        const Scene &scene;
        Take &take;
        TBS_METHOD void operator()(u32 i, const Ray &ray, Found found) const {
            Result result;
            put_result(scene, ray, found, result);
            take(i, result);
        }
    };
    trace_all<false>(scene, group, n, ray, Taker{scene, take});
}

// A line between two points, bodies a and b ignored.
struct Sight {
    vec3 from, to;
    i32 a = -1, b = -1;
    u32 mask = ~0u;
};
// Calls take(i, clear) for each of n lines `sight(i)`, clear as `sees` returns it.
template <class Scene, class Group, class Make, class Take>
TBS_FUNCTION void see_all(const Scene &scene, Group &group, u32 n, Make &&sight, Take &&take) {
    struct Maker {
        Make &sight;
        TBS_METHOD Ray operator()(u32 i) const {
            const Sight one = sight(i);
            return {one.from, one.to - one.from, 1.0f, one.mask, one.a, one.b};
        }
    };
    struct Taker {
        Take &take;
        TBS_METHOD void operator()(u32 i, const Ray &, Found found) const { take(i, found.body == no_body); }
    };
    trace_all<true>(scene, group, n, Maker{sight}, Taker{take});
}

// Beams about an axis of a body's frame: beam i at the angle `first + i * step` from `forward` (unit, at a right angle
// to the unit `axis`), counter-clockwise seen from the axis's tip.
struct Fan {
    vec3 origin;
    quat rotation;                   // of the frame of axis and forward
    f32 reach;
    u32 mask = ~0u;
    i32 ignored = -1;
    vec3 axis{0, 0, 1}, forward{0, 1, 0};
    f32 first = 0.0f, step = 0.0f;   // radians; step 0: n beams around a whole turn
};
// Its beams.
struct Beams {
    Fan fan;
    vec3 forward, aside;
    f32 step;

    TBS_METHOD Ray operator()(u32 i) const {
        f32 sine, cosine;
        sincos(fma(f32(i), step, fan.first), sine, cosine);
        const vec3 direction{fma(forward.x, cosine, aside.x * sine), fma(forward.y, cosine, aside.y * sine),
                             fma(forward.z, cosine, aside.z * sine)};
        return {fan.origin, direction, fan.reach, fan.mask, fan.ignored};
    }
};
// The beams of a fan of n.
TBS_FUNCTION Beams beams_of(const Fan &fan, u32 n) {
    const f32 step = fan.step == 0.0f ? divide(tau, f32(n)) : fan.step;
    return {fan, rotate(fan.forward, fan.rotation), rotate(cross(fan.axis, fan.forward), fan.rotation), step};
}
// A lidar: take(i, hit) for each of n beams, distances in metres.
template <class Result = Hit, class Scene, class Group, class Take>
TBS_FUNCTION void lidar(const Scene &scene, Group &group, u32 n, const Fan &fan, Take &&take) {
    cast_all<Result>(scene, group, n, beams_of(fan, n), take);
}
