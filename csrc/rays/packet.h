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
    i32 body[width];                                                 // or no_body
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
    // Values that follow from the others.
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
    // Whether the rays begin at one point, with the same mask and the same body ignored (but for `ignored_too`).
    TBS_METHOD bool is_bundle() const {
        u32 differ = 0;
        TBS_NO_UNROLL
        for (u32 r = 0; r < width; ++r) {
            differ |= to_bits(x[r]) ^ to_bits(x[0]);
            differ |= to_bits(y[r]) ^ to_bits(y[0]);
            differ |= to_bits(z[r]) ^ to_bits(z[0]);
            differ |= (mask[r] ^ mask[0]) | u32(ignored[r] ^ ignored[0]);
        }
        return differ == 0;
    }
};

// ---- which shapes the rays of a bundle may meet --------------------------------------------------------------------

// A bound of the rays of a bundle: a ball around their origins, and a half space.
struct Reached {
    vec3 origin, forward;  // rays go to where `forward` points, unless it is zero
    f32 radius_squared;
    u32 mask;
    i32 ignored;
};

inline constexpr f32 wider = 1.0f + 0x1p-15f;  // more than rounding may take away

TBS_FUNCTION Reached reached(const Packet &packet) {
    const vec3 middle = packet.direction(Packet::width / 2 - 1), slope = size_of(middle);
    i32 backward = 0, farthest = 0;
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const vec3 d = packet.direction(r);
        const f32 reach = as_distance(max(packet.nearest[r], 0)), squared = dot(d, d) * reach * reach;
        farthest = max(farthest, packet.limit[r] > 0 ? as_bits(abs(squared)) : 0);
        backward |= -i32(!(dot(d, middle) >= 0x1p-16f * dot(size_of(d), slope)) & (packet.limit[r] > 0));
    }
    const vec3 forward = backward == 0 ? middle : vec3{0, 0, 0};
    return {packet.origin(0), forward, as_distance(farthest) * wider, packet.mask[0], packet.ignored[0]};
}

// Where a bundle begins, from the centres of 64 shapes.
struct alignas(64) Starts {
    f32 x[64], y[64], z[64];

    TBS_METHOD vec3 operator[](u64 i) const { return {x[i], y[i], z[i]}; }
};

// Of 16 shapes from a place on, those that may be met, as bits; and where the rays begin from there.
template <class Scene>
TBS_FUNCTION u32 may_meet(const Scene &scene, u64 first, const Reached &rays, Starts &starts, u32 part) {
    alignas(64) i32 missing[16];
    const i32 none[16] = {};
    const vec3 slope = size_of(rays.forward);
    TBS_NO_UNROLL
    for (u32 k = 0; k < 16; ++k) {
        const u64 place = first + part + k;
        const vec3 w = from_centre(scene, place, rays.origin), away = size_of(w);
        starts.x[part + k] = w.x, starts.y[part + k] = w.y, starts.z[part + k] = w.z;
        const vec3 half{fma(0x1p-16f, away.x, scene.high_x[place]), fma(0x1p-16f, away.y, scene.high_y[place]),
                        fma(0x1p-16f, away.z, scene.high_z[place])};
        const vec3 gap{max(away.x - half.x, 0.0f), max(away.y - half.y, 0.0f), max(away.z - half.z, 0.0f)};
        const bool behind = dot(slope, half) < dot(rays.forward, w), far = dot(gap, gap) > rays.radius_squared;
        const bool unseen = ((rays.mask & scene.groups[place]) == 0) | (rays.ignored == i32(place));
        missing[k] = behind | far | unseen;
    }
    return bits_not_above(missing, none);
}

// ---- shapes --------------------------------------------------------------------------------------------------------

// Where the rays of a packet are in the box around a shape, and where they begin, from its centre.
struct alignas(64) Boxes {
    f32 x[Packet::width], y[Packet::width], z[Packet::width];
    i32 enter[Packet::width], leave[Packet::width];

    TBS_METHOD vec3 start(u32 r) const { return {x[r], y[r], z[r]}; }
};

// 0 if ray r looks at the body at a place, else -1. (A condition might become a branch.)
template <class Scene>
TBS_FUNCTION i32 unseen(const Scene &scene, u64 place, const Packet &packet, u32 r) {
    const bool ignored = (packet.ignored[r] == i32(place)) | (packet.ignored_too[r] == i32(place));
    return -i32(ignored | ((packet.mask[r] & scene.groups[place]) == 0));
}

// Takes a body that ray r enters at a distance, or misses. Work that does not depend on the bodies before comes first:
// they are a chain, each link of which costs its latency.
template <bool any>
TBS_FUNCTION void meet(Packet &packet, i32 body, u32 r, i32 at) {
    const i32 before = packet.nearest[r];
    packet.nearest[r] = min(before, at);
    if (!any) packet.body[r] = at < before ? body : packet.body[r];
}
// With `any`: rays that have met something look for nothing more.
TBS_FUNCTION void end_met(Packet &packet) {
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const bool met = packet.nearest[r] < packet.limit[r];
        packet.nearest[r] = met ? -1 : packet.nearest[r];
        packet.body[r] = met ? 0 : packet.body[r];
    }
}

// An aligned box, which is the box around it, and a bundle that may meet it. They come in the order of bodies, so of
// those at one distance the first stays.
template <bool any, class Scene>
TBS_FUNCTION void meet_box(const Scene &scene, u64 place, vec3 start, Packet &packet) {
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const Span span = box_at(scene, place, start, packet.inverse(r));
        const i32 leave = span.leave | -i32(packet.ignored_too[r] == i32(place));
        meet<any>(packet, i32(place), r, span.enter <= leave ? span.enter : missed);
    }
}

// Where the rays enter a hull: into boxes.enter and boxes.leave.
template <class Scene>
TBS_FUNCTION void enter_hull(const Scene &scene, u64 place, const Packet &packet, Boxes &boxes) {
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

// Whether a ray of a bundle comes through the box around a shape, nearer than its hit so far.
template <class Scene>
TBS_FUNCTION bool comes_near(const Scene &scene, u64 place, vec3 start, const Packet &packet) {
    alignas(64) i32 enter[Packet::width], leave[Packet::width];
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const Span span = box_at(scene, place, start, packet.inverse(r));
        enter[r] = span.enter;
        leave[r] = min(span.leave, packet.nearest[r]) | -i32(packet.ignored_too[r] == i32(place));
    }
    return bits_not_above(enter, leave) != 0;
}

// Any shape.
template <bool any, class Scene>
TBS_FUNCTION void meet_shape(const Scene &scene, u64 place, Packet &packet) {
    Boxes boxes;
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const vec3 start = from_centre(scene, place, packet.origin(r));
        const Span span = box_at(scene, place, start, packet.inverse(r));
        boxes.x[r] = start.x, boxes.y[r] = start.y, boxes.z[r] = start.z;
        boxes.enter[r] = span.enter;
        boxes.leave[r] = min(span.leave, packet.nearest[r]) | unseen(scene, place, packet, r);
    }
    if (bits_not_above(boxes.enter, boxes.leave) == 0) return;
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
    TBS_NO_UNROLL
    for (u32 r = 0; r < Packet::width; ++r) {
        const i32 at = boxes.enter[r] <= boxes.leave[r] ? boxes.enter[r] : missed, other = packet.body[r];
        // Of bodies at one distance the first: the boxes along the axes were looked at before.
        const bool first = (at == packet.nearest[r]) & (i32(place) < other) & (other != no_body);
        if (!any) packet.body[r] = first ? i32(place) : other;
        meet<any>(packet, i32(place), r, at);
    }
    if (any) end_met(packet);
}

// ---- scenes --------------------------------------------------------------------------------------------------------

// Calls meet(i) for the bits that are set, from the lowest on.
template <class Meet>
TBS_FUNCTION void for_bits(u64 bits, Meet &&meet) {
    for (; bits != 0; bits &= bits - 1) meet(lowest_bit(bits));
}

// Finds the first hit of each ray; if `any`, whether it hits at all: `body` is no_body if not.
template <bool any, class Scene>
TBS_CALLED void trace(const Scene &scene, Packet &packet) {
    if (!packet.is_bundle()) {
        for (u64 place = 0; place < scene.count; ++place) meet_shape<any>(scene, place, packet);
        return;
    }
    const Reached rays = reached(packet);
    for (u64 first = 0; first < scene.count; first += 64) {
        Starts starts;
        u64 boxes = 0, shapes = 0, near = 0;
        for (u32 part = 0; part < 64 && first + part < most_bodies<Scene>; part += 16) {
            const u32 met = may_meet(scene, first, rays, starts, part), aligned = scene.aligned[(first + part) / 16];
            boxes |= u64(met & aligned) << part;
            shapes |= u64(met & ~aligned) << part;
        }
        for_bits(boxes, [&](u32 i) { meet_box<any>(scene, first + i, starts[i], packet); });
        if (any) end_met(packet);
        for_bits(shapes, [&](u32 i) { near |= u64(comes_near(scene, first + i, starts[i], packet)) << i; });
        for_bits(near, [&](u32 i) { meet_shape<any>(scene, first + i, packet); });
    }
}

// The same of the shapes at some places.
template <bool any, class Scene>
TBS_FUNCTION void trace(const Scene &scene, const u32 *places, u32 count, Packet &packet) {
    for (u32 k = 0; k < count; ++k) meet_shape<any>(scene, places[k], packet);
}
