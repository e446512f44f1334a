// The shapes of a world, made ready for rays: structures of arrays.
//
// Each body has a place in the arrays: boxes along the axes have places 0, 1, ... in the order of bodies, all other
// shapes the places N - 1, N - 2, ... So loops over either are loops over neighbours, sixteen at a time.
//
// `Scene` is any struct with these fields (torch_batchsim/rays.py declares one), with N places, a multiple of 16, and
// room for P faces of hulls:
//   u32 count, aligned_count, other_count;          bodies; those along the axes, and others
//   i32 body[N]; u32 place_of[N];                   which body is at a place; the place of a body
//   f32 x[N], y[N], z[N];                           centre of the axis-aligned box around a shape: the body's position
//   f32 half_x[N], half_y[N], half_z[N];            half extents of that box
//   f32 reach_x[N], reach_y[N], reach_z[N];         the same, a little more
//   u32 groups[N];                                  bits of the groups to which it belongs; 0: nothing sees it
//   i32 kind[N]; f32 radius[N], length[N];          see Solid
//   f32 frame[N][9];
//   u32 first_face[N], faces[N]; f32 face[P][4];    faces of hulls, in world axes about the body's position
//   i32 archetype[N]; u32 colour[N];                by body, for cameras: any number; 0xRRGGBB
#pragma once

#include "rays/cast.h"

template <class Scene>
inline constexpr u32 most_bodies = u32(sizeof(Scene::x) / sizeof(f32));
template <class Scene>
inline constexpr u32 most_faces = u32(sizeof(Scene::face) / (4 * sizeof(f32)));

// What a scene is told of a body.
struct Body {
    physics::Geometry shape;
    physics::Transform at;
    u32 groups;
    i32 archetype;
    u32 colour;
};

// The shape at a place, and a face of it.
template <class Scene>
TBS_FUNCTION Solid solid_at(const Scene &scene, u32 place) {
    const f32(&m)[9] = scene.frame[place];
    return {{scene.x[place], scene.y[place], scene.z[place]},
            {scene.half_x[place], scene.half_y[place], scene.half_z[place]},
            {m[0], m[1], m[2]}, {m[3], m[4], m[5]}, {m[6], m[7], m[8]},
            scene.radius[place], scene.length[place], scene.kind[place]};
}
template <class Scene>
TBS_FUNCTION vec4 face_at(const Scene &scene, u32 place, u32 face) {
    const f32(&p)[4] = scene.face[scene.first_face[place] + face];
    return {p[0], p[1], p[2], p[3]};
}
// Where a point is, from the centre of the shape at a place; and where a ray that begins there is in the box around it.
template <class Scene>
TBS_FUNCTION vec3 from_centre(const Scene &scene, u64 place, vec3 point) {
    return {point.x - scene.x[place], point.y - scene.y[place], point.z - scene.z[place]};
}
template <class Scene>
TBS_FUNCTION Span box_at(const Scene &scene, u64 place, vec3 start, vec3 inverse) {
    return slabs(start, {scene.half_x[place], scene.half_y[place], scene.half_z[place]},
                 {scene.reach_x[place], scene.reach_y[place], scene.reach_z[place]}, inverse);
}

template <class Scene>
TBS_FUNCTION void put(Scene &scene, u32 i, u32 place, const Solid &solid, const Body &body) {
    const vec3 c = solid.centre, h = solid.half, reach = h * more;
    scene.x[place] = c.x, scene.y[place] = c.y, scene.z[place] = c.z;
    scene.half_x[place] = h.x, scene.half_y[place] = h.y, scene.half_z[place] = h.z;
    scene.reach_x[place] = reach.x, scene.reach_y[place] = reach.y, scene.reach_z[place] = reach.z;
    f32(&m)[9] = scene.frame[place];
    m[0] = solid.x.x, m[1] = solid.x.y, m[2] = solid.x.z;
    m[3] = solid.y.x, m[4] = solid.y.y, m[5] = solid.y.z;
    m[6] = solid.z.x, m[7] = solid.z.y, m[8] = solid.z.z;
    scene.radius[place] = solid.radius;
    scene.length[place] = solid.length;
    scene.kind[place] = solid.kind;
    scene.groups[place] = solid.kind == Solid::nothing ? 0 : body.groups;
    scene.faces[place] = solid.kind == physics::HULL ? body.shape.hull->faces : 0;
    scene.body[place] = i32(i);
    scene.place_of[i] = place;
    scene.archetype[i] = body.archetype;
    scene.colour[i] = body.colour;
}

template <class Scene>
TBS_FUNCTION void put_face(Scene &scene, u32 at, vec4 plane) {
    f32(&out)[4] = scene.face[at];
    out[0] = plane.x, out[1] = plane.y, out[2] = plane.z, out[3] = plane.w;
}

// How many bodies, boxes along the axes and faces of hulls a scene was given so far, those included that have no room.
struct Filling {
    u32 bodies = 0, aligned = 0, faces = 0;
};

// A scene without bodies. All lanes of `group` call this and what follows.
template <class Scene, class Group>
TBS_FUNCTION Filling clear(Scene &scene, Group &group) {
    static_assert(most_bodies<Scene> % 16 == 0, "a scene has places for a multiple of 16 bodies");
    group.for_each(most_bodies<Scene>, [&](u32 place) {
        scene.groups[place] = 0;  // of a place without body
        scene.body[place] = no_body;
    });
    return {};
}

// Adds `count` bodies, each of which `describe(i)` tells, behind those that there are. What has no room is left out,
// and counted. A hull without room for its faces is seen by nothing.
template <class Scene, class Group, class Describe>
TBS_FUNCTION void add(Scene &scene, Filling &filling, u32 count, Group &group, Describe &&describe) {
    constexpr u32 places = most_bodies<Scene>;
    const u32 first = filling.bodies, held = min(count, places - min(first, places));
    const auto place_for = [&](u32 i, i32 kind, u32 aligned) {
        return kind == Solid::aligned_box ? aligned : places - 1 - (first + i - aligned);
    };
    const auto put_faces = [&](u32 place, u32 at, const Body &body) {
        const u32 faces = scene.faces[place];
        scene.first_face[place] = at;
        if (at + faces > most_faces<Scene>) {
            scene.groups[place] = 0;
            return;
        }
        for (u32 k = 0; k < faces; ++k) put_face(scene, at + k, plane_of(body.shape, body.at, k));
    };
    if constexpr (Group::group_threads == 1) {
        for (u32 i = 0; i < held; ++i) {
            const Body body = describe(i);
            const Solid solid = solid_of(body.shape, body.at);
            const u32 place = place_for(i, solid.kind, filling.aligned);
            put(scene, first + i, place, solid, body);
            if (solid.kind == physics::HULL) put_faces(place, filling.faces, body);
            filling.aligned += solid.kind == Solid::aligned_box;
            filling.faces += scene.faces[place];
        }
    } else {
        const u32 aligned = filling.aligned, faces = filling.faces;
        const auto is_aligned = [&](u32 i) {
            const Body body = describe(i);
            return has_place(body.shape, body.at) && along_axes(body.shape, body.at);
        };
        filling.aligned += group.scan(held, [&](u32 i) { return is_aligned(i) ? 1u : 0u; }, [&](u32 i, u32 before) {
            const Body body = describe(i);
            const Solid solid = solid_of(body.shape, body.at);
            put(scene, first + i, place_for(i, solid.kind, aligned + before), solid, body);
        });
        const auto faces_of = [&](u32 i) { return scene.faces[scene.place_of[first + i]]; };
        filling.faces += group.scan(held, faces_of, [&](u32 i, u32 before) {
            if (faces_of(i) > 0) put_faces(scene.place_of[first + i], faces + before, describe(i));
        });
    }
    filling.bodies += count;
}

template <class Scene, class Group>
TBS_FUNCTION void finish(Scene &scene, const Filling &filling, Group &group) {
    group.once([&] {
        scene.count = min(filling.bodies, most_bodies<Scene>);
        scene.aligned_count = filling.aligned;
        scene.other_count = scene.count - filling.aligned;
    });
}
