// Sixteen rays at once, for vector units: each loop over `r` is one vector instruction after the other.
//
// What a ray meets is the least distance of entering, and of bodies at the same distance the first. That is the same
// in whatever order shapes are looked at, and the boxes by which they are left out are part of where a ray enters
// (cast.h): so packets, single rays and CUDA's lanes give the same bits.
#pragma once

#include "rays/scene.h"

struct alignas(64) Packet {
    static constexpr u32 width = 16;

    f32 x[width], y[width], z[width];                                // origins
    f32 dx[width], dy[width], dz[width];                             // directions
    f32 inverse_x[width], inverse_y[width], inverse_z[width], bound[width];
    f32 reach[width];
    i32 limit[width];                                                // see Prepared
    i32 nearest[width];                                              // of the distance so far, at first the limit
    i32 body[width];                                                 // what is there, or no_body
    u32 mask[width];
    i32 ignored[width], ignored_too[width];

    TBS_METHOD vec3 origin(u32 r) const { return {x[r], y[r], z[r]}; }
    TBS_METHOD vec3 direction(u32 r) const { return {dx[r], dy[r], dz[r]}; }
    TBS_METHOD vec3 inverse(u32 r) const { return {inverse_x[r], inverse_y[r], inverse_z[r]}; }
    TBS_METHOD Ray ray(u32 r) const {
        return {origin(r), direction(r), reach[r], mask[r], ignored[r], ignored_too[r]};
    }
    TBS_METHOD void set(u32 r, const Ray &ray) {
        x[r] = ray.origin.x, y[r] = ray.origin.y, z[r] = ray.origin.z;
        dx[r] = ray.direction.x, dy[r] = ray.direction.y, dz[r] = ray.direction.z;
        reach[r] = ray.reach;
        mask[r] = ray.mask;
        ignored[r] = ray.ignored;
        ignored_too[r] = ray.ignored_too;
    }
    // What follows from what was set.
    TBS_METHOD void prepare_all() {
        TBS_NO_UNROLL
        for (u32 r = 0; r < width; ++r) {
            const Prepared ray = prepare(origin(r), direction(r), reach[r]);
            inverse_x[r] = ray.inverse.x, inverse_y[r] = ray.inverse.y, inverse_z[r] = ray.inverse.z;
            bound[r] = ray.bound;
            limit[r] = nearest[r] = ray.limit;
            body[r] = no_body;
        }
    }
};

// Where the rays of a packet are in the box around a shape, and where they begin, from its centre.
struct alignas(64) Boxes {
    f32 x[Packet::width], y[Packet::width], z[Packet::width];
    i32 enter[Packet::width], leave[Packet::width];

    TBS_METHOD vec3 start(u32 r) const { return {x[r], y[r], z[r]}; }
};

// 0 if ray r looks at the body at a place, else -1. (Not a condition, out of which a compiler may make a branch.)
template <class Scene>
TBS_FUNCTION i32 unseen(const Scene &scene, u64 place, const Packet &packet, u32 r) {
    const i32 body = scene.body[place];
    const bool ignored = (packet.ignored[r] == body) | (packet.ignored_too[r] == body);
    return -i32(ignored | ((packet.mask[r] & scene.groups[place]) == 0));
}

// An aligned box, which is the box around it. They come in the order of bodies, so of those at one distance the first
// stays.
template <bool any, class Scene>
TBS_FUNCTION void meet_box(const Scene &scene, u32 place, Packet &packet) {
    const i32 body = scene.body[place];
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const Span span = box_at(scene, place, from_centre(scene, place, packet.origin(r)), packet.inverse(r));
        const i32 leave = span.leave | unseen(scene, place, packet, r);
        const i32 at = span.enter <= leave ? span.enter : missed, before = packet.nearest[r];
        packet.nearest[r] = any ? (at < packet.limit[r] ? -1 : before) : min(at, before);
        packet.body[r] = at < before ? body : packet.body[r];
    }
}

// Takes a body for those rays that enter it before they leave the box around it.
template <bool any>
TBS_FUNCTION void meet(Packet &packet, i32 body, const Boxes &boxes) {
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const i32 at = boxes.enter[r], before = packet.nearest[r], other = packet.body[r];
        const bool first = (at == before) & (body < other) & (other != no_body);
        const bool met = (at <= boxes.leave[r]) & ((at < before) | first);
        packet.nearest[r] = met ? (any ? -1 : at) : before;
        packet.body[r] = met ? body : other;
    }
}

// Where the rays enter a hull: into boxes.enter and boxes.leave.
template <class Scene>
TBS_FUNCTION void enter_hull(const Scene &scene, u32 place, const Packet &packet, Boxes &boxes) {
    const u32 faces = scene.faces[place];
    for (u32 k = 0; k < faces; ++k) {
        const vec4 face = face_at(scene, place, k);
        TBS_NO_UNROLL
        for (u32 r = 0; r < Packet::width; ++r) {
            const Span span = half_space(face, boxes.start(r), packet.direction(r), packet.bound[r]);
            boxes.enter[r] = max(boxes.enter[r], span.enter);
            boxes.leave[r] = min(boxes.leave[r], span.leave);
        }
    }
}

// Any shape.
template <bool any, class Scene>
TBS_FUNCTION void meet_shape(const Scene &scene, u32 place, Packet &packet) {
    Boxes boxes;
    i32 near = 0;  // 1 if a ray may meet the shape nearer than what it has met
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const vec3 start = from_centre(scene, place, packet.origin(r));
        const Span span = box_at(scene, place, start, packet.inverse(r));
        const i32 leave = min(span.leave, packet.nearest[r]) | unseen(scene, place, packet, r);
        boxes.x[r] = start.x, boxes.y[r] = start.y, boxes.z[r] = start.z;
        boxes.enter[r] = span.enter;
        boxes.leave[r] = leave;
        near |= i32(span.enter <= leave);
    }
    if (near == 0) return;
    const Solid solid = solid_at(scene, place);
    if (solid.kind == physics::BOX) {
        TBS_NO_UNROLL
        for (u32 r = 0; r < Packet::width; ++r) {
            const vec3 start = into_frame(solid, boxes.start(r)), direction = into_frame(solid, packet.direction(r));
            boxes.enter[r] = max(enter_box(start, direction, packet.bound[r]), boxes.enter[r]);
        }
    } else if (solid.kind == physics::SPHERE) {
        TBS_NO_UNROLL
        for (u32 r = 0; r < Packet::width; ++r) {
            boxes.enter[r] = max(enter_sphere(boxes.start(r), packet.direction(r), solid.radius), boxes.enter[r]);
        }
    } else if (solid.kind == physics::CAPSULE) {
        TBS_NO_UNROLL
        for (u32 r = 0; r < Packet::width; ++r) {
            const vec3 start = into_frame(solid, boxes.start(r)), direction = into_frame(solid, packet.direction(r));
            boxes.enter[r] = max(enter_capsule(start, direction, solid.radius, solid.length), boxes.enter[r]);
        }
    } else if (solid.kind == physics::PLANE) {
        TBS_NO_UNROLL
        for (u32 r = 0; r < Packet::width; ++r) {
            const f32 height = dot(solid.z, boxes.start(r)), speed = dot(solid.z, packet.direction(r));
            boxes.enter[r] = max(enter_plane(height, speed), boxes.enter[r]);
        }
    } else if (solid.kind == physics::HULL) {
        enter_hull(scene, place, packet, boxes);
    }
    meet<any>(packet, scene.body[place], boxes);
}

// Finds for each ray what it meets first; if `any`, anything that it meets, in which case `nearest` says nothing.
template <bool any, class Scene>
TBS_FUNCTION void trace(const Scene &scene, Packet &packet) {
    constexpr u32 places = most_bodies<Scene>;
    for (u32 place = 0; place < scene.aligned_count; ++place) meet_box<any>(scene, place, packet);
    for (u32 k = 1; k <= scene.other_count; ++k) meet_shape<any>(scene, places - k, packet);
}

// The same of the shapes at some places.
template <bool any, class Scene>
TBS_FUNCTION void trace(const Scene &scene, const u32 *places, u32 count, Packet &packet) {
    for (u32 k = 0; k < count; ++k) meet_shape<any>(scene, places[k], packet);
}
