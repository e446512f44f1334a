// Rays as systems: `gather` prepares a world's bodies, `draw` draws the pictures of its cameras. See docs/rays.md.
#pragma once

#include "rays/camera.h"
#include "rays/look.h"

// A colour for each archetype without Paint.
TBS_FUNCTION u32 palette(u32 archetype) {
    constexpr u32 colours[8] = {0xd9a441, 0x4c78a8, 0xc44e52, 0x59a14f, 0x9c6ade, 0x8c6d4f, 0x3fa7a0, 0xb0b4b8};
    return colours[archetype % 8];
}

// A row as a scene takes it. By its parts: of whole structs a compiler makes copies. A HULL without a hull's number is
// not a shape.
TBS_FUNCTION Body body_of_row(const physics::Hulls &hulls, const physics::Pose &pose, const physics::Shape &shape,
                              u32 groups, u32 archetype, u32 colour) {
    const vec3 &p = pose.position, &s = shape.size;
    const quat &q = pose.rotation;
    const bool is_hull = shape.kind == physics::HULL, known = shape.hull >= 0 && shape.hull < physics::Constants::hulls;
    const physics::Hull &hull = physics::hull_in(hulls, is_hull && known ? u32(shape.hull) : 0);
    const i32 kind = is_hull && !known ? Solid::nothing : shape.kind;
    return {{kind, {s.x, s.y, s.z}, &hull}, {{p.x, p.y, p.z}, {q.w, q.x, q.y, q.z}}, groups, i32(archetype), colour};
}

// How many bodies a world has; and the place behind the last that physics may move, with a velocity or as a part.
struct Places {
    u32 all = 0, moving = 0;
};
TBS_FUNCTION Places places_in(World &world) {
    Places places;
    world.tables<const physics::Pose, const physics::Shape, Optional<const physics::Velocity>,
                 Optional<const physics::Part>>([&](auto table, auto, auto, auto velocities, auto parts) {
        places.all = table.first + table.count;
        if (velocities.there || parts.there) places.moving = places.all;
    });
    return places;
}

// The body at a place, for lanes: each finds its row among the tables, then all do the same. Its handle, too, if
// `entity` is not null.
TBS_FUNCTION Body body_at(World &world, const physics::Hulls &hulls, u32 place, Entity *entity) {
    const physics::Pose *pose = nullptr;
    const physics::Shape *shape = nullptr;
    u32 groups = 0, archetype = 0, colour = 0;
    world.tables<const physics::Pose, const physics::Shape, Optional<const physics::Filter>, Optional<const Paint>>(
        [&](auto table, auto poses, auto shapes, auto filters, auto paints) {
            const u32 i = place - table.first;
            if (i >= table.count) return;
            pose = &poses[i];
            shape = &shapes[i];
            groups = filters.value_or(i, physics::Filter{1, 0}).group;
            archetype = table.number;
            colour = paints.value_or(i, Paint{palette(table.number)}).colour;
            if (entity != nullptr) *entity = table.entity(i);
        });
    return body_of_row(hulls, *pose, *shape, groups, archetype, colour);
}

// Puts the bodies in the first places of a scene, at least `wanted` of them.
TBS_FUNCTION void gather_first(World &world, Scene &scene, const physics::Hulls &hulls, Warp &warp, u32 all, u32 wanted,
                               bool with_handles) {
    constexpr u32 places = most_bodies<Scene>;
    u32 faces = 0;
    if constexpr (Warp::group_threads == 1) {
        const u32 end = min((wanted + 15) / 16 * 16, places);  // what vectors prepare together
        Filling filling;
        world.tables<const physics::Pose, const physics::Shape, Optional<const physics::Filter>, Optional<const Paint>>(
            [&](auto table, auto poses, auto shapes, auto filters, auto paints) {
                const u32 count = table.first < end ? min(table.count, end - table.first) : 0;
                add(scene, filling, count, [&](u32 i) {
                    const u32 groups = filters.value_or(i, physics::Filter{1, 0}).group;
                    const u32 colour = paints.value_or(i, Paint{palette(table.number)}).colour;
                    return body_of_row(hulls, poses[i], shapes[i], groups, table.number, colour);
                });
                if (!with_handles) return;
                for (u32 i = 0; i < count; ++i) scene.entity[table.first + i] = table.entity(i);
            });
        finish(scene, filling, end);
        faces = filling.faces;
    } else {
        faces = fill(scene, warp, min(wanted, places), [&](u32 i, bool first) {
            return body_at(world, hulls, i, first && with_handles ? &scene.entity[i] : nullptr);
        });
    }
    warp.once([&] {
        scene.count = min(all, places);
        scene.bodies = all;
        if (faces > most_faces<Scene>) world.fail(Fault::faces, i32(faces));
    });
}

TBS_SYSTEM void gather(World &world, Scene &scene, Gathered &gathered, const physics::Hulls &hulls, Warp &warp) {
    constexpr u32 places = most_bodies<Scene>;
    const u32 all = places_in(world).all;
    gather_first(world, scene, hulls, warp, all, Warp::group_threads == 1 ? places : all, true);
    warp.once([&] { gathered.done = true; });
}

// Gathers again what may have moved. Where there are more or fewer bodies than before, it gathers all.
TBS_SYSTEM void update(World &world, Scene &scene, const Gathered &, const physics::Hulls &hulls, Warp &warp) {
    constexpr u32 places = most_bodies<Scene>;
    const Places there = places_in(world);
    const bool same = scene.bodies == there.all;
    const u32 whole = Warp::group_threads == 1 ? places : there.all;
    gather_first(world, scene, hulls, warp, there.all, same ? there.moving : whole, !same);
}

// The entity of a body, such as Hit.body, empty for -1; the body of an entity, or -1.
TBS_FUNCTION Entity entity_of(const Scene &scene, i32 body) { return body < 0 ? Entity{} : scene.entity[body]; }
TBS_FUNCTION i32 body_of(const Scene &scene, Entity entity) {
    for (u32 i = 0; i < scene.count; ++i) {
        if (scene.entity[i] == entity) return i32(i);
    }
    return -1;
}

// The camera of a row: where the row's body is, if it has a pose.
TBS_FUNCTION Camera camera_of(const View &view, physics::Pose pose, i32 body) {
    const quat turn = normalize(pose.rotation);
    return {pose.position + rotate(view.position, turn), turn * normalize(view.rotation), view.field_of_view,
            u32(Constants::width), u32(Constants::height), view.near, view.far, view.mask == 0 ? ~0u : view.mask, body};
}

TBS_SYSTEM void draw(World &world, const Scene &scene, Warp &warp) {
    Lighting light;
    light.shadows = Constants::shadows;
    world.tables<const View, Optional<const physics::Pose>, Optional<Depth>, Optional<Segmentation>, Optional<Picture>>(
        [&](auto table, auto views, auto poses, auto depths, auto segments, auto pictures) {
            for (u32 row = 0; row < table.count; ++row) {
                const physics::Pose pose = poses.value_or(row, physics::Pose{{0, 0, 0}, {1, 0, 0, 0}});
                const Camera camera = camera_of(views[row], pose, body_of(scene, table.entity(row)));
                warp.once([&] {
                    if (!is_sound(camera)) world.fail(Fault::view, table.place(row, wrong_in(camera)));
                });
                render(scene, warp, camera, light, [&](u32 i, const Pixel &pixel) {
                    const u32 y = i / camera.width, x = i % camera.width;
                    if (depths.there) depths[row].metres[y][x] = pixel.depth;
                    if (segments.there) {
                        segments[row].body[y][x] = pixel.body;
                        segments[row].archetype[y][x] = pixel.archetype;
                    }
                    if (pictures.there) {
                        for (u32 part = 0; part < 3; ++part) {
                            pictures[row].pixels[y][x][part] = u8(pixel.colour >> (16 - 8 * part));
                        }
                    }
                });
            }
        });
}
