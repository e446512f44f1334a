// The shapes of a world, made ready for rays: structures of arrays, in the order of bodies.
//
// `Scene` is any struct with the fields of SceneOf (torch_batchsim/rays/library.py declares one), with N places, a multiple of
// 16, and room for P faces of hulls. On CPU places behind the last body hold what nothing sees.
#pragma once

#include "rays/cast.h"

template <u32 N, u32 P>
struct SceneOf {
    u32 count;                                      // bodies
    u32 aligned[N / 16];                            // on CPU, bit i of word j: place 16 j + i is a box along the axes
    f32 x[N], y[N], z[N];                           // centre of the axis-aligned box around a shape: its position
    f32 low_x[N], low_y[N], low_z[N];               // its lower corner from there: less than 0
    f32 high_x[N], high_y[N], high_z[N];            // the upper one, a little more
    u32 groups[N];                                  // bits of the groups to which it belongs; 0: nothing sees it
    i32 kind[N];                                    // see Solid
    f32 radius[N], length[N], frame[9][N];
    u32 first_face[N], faces[N];                    // of hulls; else 0
    f32 face[P][4];                                 // in world axes about the body's position
    i32 archetype[N];                               // for cameras: any number
    u32 colour[N];                                  // 0xRRGGBB
};

template <class Scene>
inline constexpr u32 most_bodies = u32(sizeof(Scene::x) / sizeof(f32));
template <class Scene>
inline constexpr u32 most_faces = u32(sizeof(Scene::face) / (4 * sizeof(f32)));

// A body as an author gives it to a scene.
struct Body {
    physics::Geometry shape;
    physics::Transform at;  // its rotation may have any length
    u32 groups;
    i32 archetype;
    u32 colour;
};

// The shape at a place, and a face of it. (A compiler takes sums of u64 for neighbours in memory; those of u32 could
// begin again at 0.)
template <class Scene>
TBS_FUNCTION Solid solid_at(const Scene &scene, u64 place) {
    const auto &m = scene.frame;
    return {{scene.x[place], scene.y[place], scene.z[place]},
            {-scene.low_x[place], -scene.low_y[place], -scene.low_z[place]},
            {m[0][place], m[1][place], m[2][place]},
            {m[3][place], m[4][place], m[5][place]},
            {m[6][place], m[7][place], m[8][place]},
            scene.radius[place], scene.length[place], scene.kind[place]};
}
template <class Scene>
TBS_FUNCTION vec4 face_at(const Scene &scene, u64 place, u32 face) {
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
    return slabs(start, {scene.low_x[place], scene.low_y[place], scene.low_z[place]},
                 {scene.high_x[place], scene.high_y[place], scene.high_z[place]}, inverse);
}

// ---- filling -------------------------------------------------------------------------------------------------------
// Bodies are first written to their places, one by one; then the places are prepared, in vectors.

// Writes a body as it was given: the rotation to the frame, the size to the upper corner. A hull is prepared at once.
template <class Scene>
TBS_FUNCTION void put(Scene &scene, u64 i, const Body &body) {
    const vec3 &p = body.at.position, &s = body.shape.size;
    const quat &q = body.at.rotation;
    scene.x[i] = p.x, scene.y[i] = p.y, scene.z[i] = p.z;
    scene.high_x[i] = s.x, scene.high_y[i] = s.y, scene.high_z[i] = s.z;
    scene.frame[0][i] = q.w, scene.frame[1][i] = q.x, scene.frame[2][i] = q.y, scene.frame[3][i] = q.z;
    scene.kind[i] = body.shape.kind;
    scene.groups[i] = body.groups;
    scene.first_face[i] = scene.faces[i] = 0;
    scene.archetype[i] = body.archetype;
    scene.colour[i] = body.colour;
}

template <class Scene>
TBS_FUNCTION void put_solid(Scene &scene, u64 i, const Solid &solid, u32 groups) {
    const vec3 h = solid.half;
    scene.low_x[i] = -h.x, scene.low_y[i] = -h.y, scene.low_z[i] = -h.z;
    scene.high_x[i] = h.x * more, scene.high_y[i] = h.y * more, scene.high_z[i] = h.z * more;
    const vec3 rows[3] = {solid.x, solid.y, solid.z};
    TBS_UNROLL
    for (u32 k = 0; k < 3; ++k) {
        scene.frame[3 * k][i] = rows[k].x, scene.frame[3 * k + 1][i] = rows[k].y, scene.frame[3 * k + 2][i] = rows[k].z;
    }
    scene.radius[i] = solid.radius;
    scene.length[i] = solid.length;
    scene.kind[i] = solid.kind;
    scene.groups[i] = solid.kind == Solid::nothing ? 0 : groups;
}

template <class Scene>
TBS_FUNCTION void make_ready(Scene &scene, u64 i) {
    const auto &m = scene.frame;
    const quat rotation{m[0][i], m[1][i], m[2][i], m[3][i]};
    const vec3 size{scene.high_x[i], scene.high_y[i], scene.high_z[i]};
    const Solid solid = solid_of(scene.kind[i], size, {scene.x[i], scene.y[i], scene.z[i]}, rotation);
    put_solid(scene, i, solid, scene.groups[i]);
}

// How many bodies and faces of hulls a scene was given so far, those included that have no room.
struct Filling {
    u32 bodies = 0, faces = 0;
};

// Of a hull: half the extents where others have their size, and how many faces it has.
template <class Scene>
TBS_FUNCTION void put_hull(Scene &scene, u64 i, const Body &body) {
    const vec3 half = half_extents(body.shape, body.at.rotation);
    scene.high_x[i] = half.x, scene.high_y[i] = half.y, scene.high_z[i] = half.z;
    scene.faces[i] = half.x > 0 ? body.shape.hull->faces : 0;
}
template <class Scene>
TBS_FUNCTION void put_face(Scene &scene, u32 place, const Body &body, u32 face) {
    const vec4 plane = plane_of(body.shape, body.at, face);
    f32(&out)[4] = scene.face[place];
    out[0] = plane.x, out[1] = plane.y, out[2] = plane.z, out[3] = plane.w;
}
// Where the faces of a hull begin; true if there is room for them. A hull without is seen by nothing.
template <class Scene>
TBS_FUNCTION bool place_faces(Scene &scene, u64 i, u32 first) {
    scene.first_face[i] = first;
    const bool fits = first + scene.faces[i] <= most_faces<Scene>;
    if (!fits) scene.groups[i] = 0;
    return fits;
}

// Adds `count` bodies, body i as `describe(i)` returns it, behind those that one thread has added to a scene. Leaves
// out and counts bodies without room.
template <class Scene, class Describe>
TBS_FUNCTION void add(Scene &scene, Filling &filling, u32 count, Describe &&describe) {
    static_assert(most_bodies<Scene> % 16 == 0, "a scene has places for a multiple of 16 bodies");
    constexpr u32 places = most_bodies<Scene>;
    const u32 begin = min(filling.bodies, places), held = min(count, places - begin);
    const u64 first = begin;
    for (u32 i = 0; i < held; ++i) {
        const Body body = describe(i);
        put(scene, first + i, body);
        if (body.shape.kind != physics::HULL) continue;
        put_hull(scene, first + i, body);
        if (place_faces(scene, first + i, filling.faces)) {
            for (u32 k = 0; k < scene.faces[first + i]; ++k) put_face(scene, filling.faces + k, body, k);
        }
        filling.faces += scene.faces[first + i];
    }
    filling.bodies += count;
}

template <class Scene>
TBS_FUNCTION void note_aligned(Scene &scene, u64 word) {
    u32 bits = 0;
    for (u32 i = 0; i < 16; ++i) bits |= u32(scene.kind[16 * word + i] == Solid::aligned_box) << i;
    scene.aligned[word] = bits;
}

// Prepares the bodies that one thread has added, in places before `end`, a multiple of 16. What is behind them is seen
// by nothing.
template <class Scene>
TBS_CALLED void finish(Scene &scene, const Filling &filling, u32 end) {
    const physics::Geometry none{Solid::nothing, {0, 0, 0}, nullptr};
    for (u64 i = filling.bodies; i < end; ++i) put(scene, i, {none, {{0, 0, 0}, {1, 0, 0, 0}}, 0, 0, 0});
    TBS_NO_UNROLL
    for (u64 i = 0; i < end; ++i) make_ready(scene, i);
    for (u32 i = 0; i < end / 16; ++i) note_aligned(scene, i);
}

// Fills the first `count` places by the lanes of a group, at most all: body i as `describe(i, first)` returns it. Of a
// hull each of the lanes that make its faces asks again, with `first` false. Returns how many faces of hulls these
// bodies have. Places behind them, and `aligned`, are left as they are: they are for packets, and lanes trace single
// rays.
template <class Scene, class Group, class Describe>
TBS_FUNCTION u32 fill(Scene &scene, Group &group, u32 count, Describe &&describe) {
    group.for_each(count, [&](u32 i) {
        const Body body = describe(i, true);
        const bool is_hull = body.shape.kind == physics::HULL;
        const vec3 p = body.at.position, size = is_hull ? half_extents(body.shape, body.at.rotation) : body.shape.size;
        put_solid(scene, i, solid_of(body.shape.kind, size, p, body.at.rotation), body.groups);
        scene.x[i] = p.x, scene.y[i] = p.y, scene.z[i] = p.z;
        scene.first_face[i] = 0;
        scene.faces[i] = is_hull && size.x > 0 ? body.shape.hull->faces : 0;
        scene.archetype[i] = body.archetype;
        scene.colour[i] = body.colour;
    });
    // Faces side by side: each first finds the place of its body where it will be, `count` if not all have room.
    const auto faces_of = [&](u32 i) { return scene.faces[i]; };
    const u32 faces = group.scan(count, faces_of, [&](u32 i, u32 first) {
        if (faces_of(i) == 0) return;
        const u32 place = place_faces(scene, i, first) ? i : count;
        for (u32 f = first; f < min(first + faces_of(i), most_faces<Scene>); ++f) scene.face[f][0] = from_bits(place);
    });
    group.for_each(min(faces, most_faces<Scene>), [&](u32 f) {
        const u32 place = to_bits(scene.face[f][0]);
        if (place == count) return;
        put_face(scene, f, describe(place, false), f - scene.first_face[place]);
    });
    return faces;
}
