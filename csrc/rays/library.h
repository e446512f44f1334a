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

TBS_SYSTEM void gather(World &world, Scene &scene, const physics::Hulls &hulls, Warp &warp) {
    Filling filling = clear(scene, warp);
    world.tables<const physics::Pose, const physics::Shape, Optional<const physics::Filter>, Optional<const Paint>>(
        [&](auto table, auto poses, auto shapes, auto filters, auto paints) {
            add(scene, filling, table.count, warp, [&](u32 i) {
                const u32 groups = filters.value_or(i, physics::Filter{1, 0}).group;
                const u32 colour = paints.value_or(i, Paint{palette(table.number)}).colour;
                return body_of_row(hulls, poses[i], shapes[i], groups, table.number, colour);
            });
            warp.for_each(table.count, [&](u32 i) { scene.entity[table.first + i] = table.entity(i); });
        });
    finish(scene, filling, warp);
    warp.once([&] {
        if (filling.faces > most_faces<Scene>) world.fail(Fault::faces, i32(filling.faces));
    });
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
