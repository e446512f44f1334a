// Pinhole cameras: depth, segmentation and shaded colour of the first body on a ray through each pixel.
//
// A camera looks along its own y axis, x to the right and z up: with the rotation of a body whose forward axis is y it
// is that body's eye. Row 0 is at the top. Depths are along the optical axis, as depth buffers have them, not along the
// ray.
#pragma once

#include "rays/rays.h"

struct Camera {
    vec3 position;
    quat rotation;
    f32 field_of_view;   // from bottom to top, radians, less than pi
    u32 width, height;   // pixels; they are square
    f32 near, far;       // visible depths; near may be 0
    u32 mask = ~0u;      // see Ray
    i32 ignored = -1;
};

TBS_FUNCTION bool is_sound(const Camera &camera) {
    const quat q = camera.rotation;
    return is_finite(camera.position) && is_finite({q.x, q.y, q.z}) && isfinite(q.w) && camera.field_of_view > 0.0f &&
           camera.field_of_view < pi && camera.near >= 0.0f && camera.far > camera.near && isfinite(camera.far);
}

// Which of its fields is not sound: the number of a sentence of torch_batchsim/rays/library.py.
TBS_FUNCTION u32 wrong_in(const Camera &camera) {
    const quat q = camera.rotation;
    if (!is_finite(camera.position)) return 0;
    if (!is_finite({q.x, q.y, q.z}) || !isfinite(q.w)) return 1;
    return camera.field_of_view > 0.0f && camera.field_of_view < pi ? 3 : 2;
}

// Colours are 0xRRGGBB.
struct Lighting {
    vec3 towards{0.36f, -0.48f, 0.8f};  // the light, unit
    f32 ambient = 0.5f;                 // share of light from everywhere
    bool shadows = false;               // costs a second ray for each pixel
    f32 tile = 1.0f;                    // side of squares on planes
    f32 contrast = 0.2f;                // how much darker every other square is
    u32 zenith = 0x5b8fd0, horizon = 0xdfe9f2, ground = 0xa8a49c;  // without a body
    f32 haze = 1.0f;                    // share of the horizon's colour at `far`
};

struct Pixel {
    f32 depth;       // `far` without a body
    i32 body;        // its place in the scene, or -1
    i32 archetype;   // or -1
    u32 colour;      // 0xRRGGBB
};

// The rotation of a camera that looks along `forward`, its x axis level with the ground under `up`. Neither needs
// length 1 or a right angle; where they are parallel, x is any.
TBS_FUNCTION quat looking(vec3 forward, vec3 up = {0, 0, 1}) {
    const vec3 y = normalize(forward);
    vec3 x = cross(y, up);
    const bool parallel = !(length_squared(x) > 1e-12f * length_squared(up));
    if (parallel) x = cross(y, abs(y.x) < 0.5f ? vec3{1, 0, 0} : vec3{0, 1, 0});
    x = normalize(x);
    const vec3 z = cross(x, y);
    // From the matrix of columns x, y, z; the largest part first (Shepperd 1978).
    const f32 w2 = x.x + y.y + z.z;
    quat q;
    if (w2 >= max(max(x.x, y.y), z.z)) {
        q = {1.0f + w2, y.z - z.y, z.x - x.z, x.y - y.x};
    } else if (x.x >= max(y.y, z.z)) {
        q = {y.z - z.y, 1.0f + x.x - y.y - z.z, x.y + y.x, z.x + x.z};
    } else if (y.y >= z.z) {
        q = {z.x - x.z, x.y + y.x, 1.0f - x.x + y.y - z.z, y.z + z.y};
    } else {
        q = {x.y - y.x, z.x + x.z, y.z + z.y, 1.0f - x.x - y.y + z.z};
    }
    return normalize(q);
}

// A camera made ready: where the middle of the picture is, and how far from one pixel to the next, at depth 1.
struct Lens {
    vec3 origin, right, forward, up;
    f32 pixel, left, top;  // size of a pixel; places of the edges

    // At the corner between pixels; half a pixel more for the middle of one.
    TBS_METHOD f32 across(f32 column) const { return fma(column, pixel, left); }
    TBS_METHOD f32 above(f32 row) const { return fma(-row, pixel, top); }
    TBS_METHOD vec3 direction(u32 column, u32 row) const {
        const f32 u = across(f32(column) + 0.5f), v = above(f32(row) + 0.5f);
        return {fma(right.x, u, fma(up.x, v, forward.x)), fma(right.y, u, fma(up.y, v, forward.y)),
                fma(right.z, u, fma(up.z, v, forward.z))};
    }
};
TBS_FUNCTION Lens lens_of(const Camera &camera) {
    const quat q = normalize(camera.rotation);
    const f32 top = tan(0.5f * camera.field_of_view), pixel = divide(2.0f * top, f32(camera.height));
    return {camera.position, rotate(vec3{1, 0, 0}, q), rotate(vec3{0, 1, 0}, q), rotate(vec3{0, 0, 1}, q),
            pixel, -0.5f * pixel * f32(camera.width), top};
}
TBS_FUNCTION vec3 point_on(vec3 origin, vec3 direction, f32 t) {
    return {fma(direction.x, t, origin.x), fma(direction.y, t, origin.y), fma(direction.z, t, origin.z)};
}
// Rays begin where the near plane is.
TBS_FUNCTION Ray ray_through(const Camera &camera, const Lens &lens, u32 column, u32 row) {
    const vec3 d = lens.direction(column, row);
    return {point_on(lens.origin, d, camera.near), d, camera.far - camera.near, camera.mask, camera.ignored};
}

// ---- colours -------------------------------------------------------------------------------------------------------

TBS_FUNCTION vec3 unpack(u32 colour) { return {f32(colour >> 16 & 255), f32(colour >> 8 & 255), f32(colour & 255)}; }
TBS_FUNCTION u32 pack(vec3 c) {
    const auto part = [](f32 x) { return u32(to_i32(rint(clamp(x, 0.0f, 255.0f)))); };
    return part(c.x) << 16 | part(c.y) << 8 | part(c.z);
}
TBS_FUNCTION vec3 mix(vec3 a, vec3 b, f32 share) {
    return {fma(b.x - a.x, share, a.x), fma(b.y - a.y, share, a.y), fma(b.z - a.z, share, a.z)};
}

TBS_FUNCTION vec3 sky(const Lighting &light, vec3 direction) {
    const f32 height = divide(direction.z, length(direction));
    const vec3 horizon = unpack(light.horizon);
    return height >= 0.0f ? mix(horizon, unpack(light.zenith), sqrt(height))
                          : mix(horizon, unpack(light.ground), -height);
}

// The part of a surface that a pixel shows.
struct Surface {
    vec3 point, normal;
};
template <class Scene>
TBS_FUNCTION Surface surface_of(const Scene &scene, const Ray &ray, Found found) {
    const Hit hit = hit_of(scene, ray, found);
    return {point_on(ray.origin, ray.direction, hit.distance), hit.normal};
}

// Of planes: every other square is darker, less so where squares are not much larger than pixels.
template <class Scene>
TBS_FUNCTION vec3 paint(const Scene &scene, u32 i, vec3 point, f32 footprint, const Lighting &light) {
    const vec3 base = unpack(scene.colour[i]);
    const Solid solid = solid_at(scene, i);
    if (solid.kind != physics::PLANE) return base;
    const vec3 p = into_frame(solid, point - solid.centre);
    const f32 squares = floor(divide(p.x, light.tile)) + floor(divide(p.y, light.tile));
    const f32 odd = fma(-2.0f, floor(0.5f * squares), squares);
    const f32 share = clamp(1.5f - divide(2.0f * footprint, light.tile), 0.0f, 1.0f);
    return base * (1.0f - light.contrast * (0.5f + (odd - 0.5f) * share));
}

template <class Scene>
TBS_FUNCTION u32 shade(const Scene &scene, const Camera &camera, const Lens &lens, const Lighting &light,
                       const Ray &ray, const Surface &surface, i32 body, f32 depth, bool lit) {
    if (body == no_body) return pack(sky(light, ray.direction));
    const vec3 n = surface.normal;
    const f32 size = length(ray.direction), slant = max(abs(dot(n, ray.direction)), 0.01f * size);
    const f32 footprint = divide(depth * lens.pixel * size, slant);  // how long a pixel is on the surface
    const vec3 base = paint(scene, u32(body), surface.point, footprint, light);
    const f32 direct = lit ? max(dot(n, light.towards), 0.0f) : 0.0f;
    const f32 from_sky = fma(0.25f, n.z, 0.75f);  // surfaces that face up get more of the light from everywhere
    const f32 bright = fma(1.0f - light.ambient, direct, light.ambient * from_sky);
    const f32 far = divide(depth, camera.far);
    return pack(mix(base * bright, unpack(light.horizon), light.haze * far * far));
}

template <class Scene>
TBS_FUNCTION Pixel pixel_of(const Scene &scene, const Camera &camera, const Lens &lens, const Lighting &light,
                            const Ray &ray, const Surface &surface, Found found, bool lit) {
    const bool something = found.body != no_body;
    const f32 depth = something ? camera.near + as_distance(found.nearest) : camera.far;
    return {depth, something ? found.body : -1, something ? scene.archetype[found.body] : -1,
            shade(scene, camera, lens, light, ray, surface, found.body, depth, lit)};
}
// The ray from a surface to the light. A body is convex and cannot shade a side that faces the light.
TBS_FUNCTION Ray to_light(const Camera &camera, const Lighting &light, const Surface &surface, Found found) {
    const bool dark = found.body == no_body || !(dot(surface.normal, light.towards) > 0.0f);
    return {surface.point, light.towards, dark ? -1.0f : longest_reach, camera.mask, found.body, camera.ignored};
}

// ---- tiles: squares of pixels that look for shapes together --------------------------------------------------------

inline constexpr u32 tile_side = 8;  // pixels: four packets of two rows

// The places of the shapes that may be seen through the pixels between two columns and two rows; returns how many.
template <class Scene>
TBS_FUNCTION u32 through_window(const Scene &scene, const Camera &camera, const Lens &lens, u32 column, u32 row,
                                u32 (&places)[most_bodies<Scene>]) {
    const f32 west = lens.across(f32(column)), east = lens.across(f32(column + tile_side));
    const f32 north = lens.above(f32(row)), south = lens.above(f32(row + tile_side));
    // Planes through the camera, with visible bodies on their positive side.
    const vec3 planes[4] = {lens.right - lens.forward * west, lens.forward * east - lens.right,
                            lens.forward * north - lens.up, lens.up - lens.forward * south};
    u32 count = 0;
    for (u32 first = 0; first < most_bodies<Scene>; first += 16) {
        u32 seen = 0;
        for (u32 k = 0; k < 16; ++k) {
            const u64 place = u64(first) + k;
            const vec3 w = -from_centre(scene, place, lens.origin), size = size_of(w);
            const vec3 half{fma(0x1p-16f, size.x, scene.high_x[place]), fma(0x1p-16f, size.y, scene.high_y[place]),
                            fma(0x1p-16f, size.z, scene.high_z[place])};  // more than rounding can make of it
            bool outside = dot(lens.forward, w) + dot(size_of(lens.forward), half) < camera.near;
            outside |= dot(lens.forward, w) - dot(size_of(lens.forward), half) > camera.far;
            TBS_UNROLL
            for (u32 p = 0; p < 4; ++p) outside |= dot(planes[p], w) + dot(size_of(planes[p]), half) < 0.0f;
            seen |= u32(!outside & ((scene.groups[place] & camera.mask) != 0)) << k;
        }
        for (; seen != 0; seen &= seen - 1) places[count++] = first + lowest_bit(seen);
    }
    return count;
}

// The pixels of a packet: two rows of eight. Calls take(index, pixel) for those in the picture.
template <class Scene, class Take>
TBS_FUNCTION void draw_packet(const Scene &scene, const u32 *places, u32 count, const Camera &camera, const Lens &lens,
                              const Lighting &light, u32 column, u32 row, Take &&take) {
    const auto column_of = [&](u32 r) { return column + r % tile_side; };
    const auto row_of = [&](u32 r) { return row + r / tile_side; };
    const auto in_picture = [&](u32 r) { return column_of(r) < camera.width && row_of(r) < camera.height; };
    Packet packet;
    for (u32 r = 0; r < Packet::width; ++r) {
        Ray ray = ray_through(camera, lens, column_of(r), row_of(r));
        ray.reach = in_picture(r) ? ray.reach : -1.0f;
        packet.set(r, ray);
    }
    packet.prepare_all();
    trace<false>(scene, places, count, packet);

    Surface surfaces[Packet::width];
    Packet shadows;
    for (u32 r = 0; r < Packet::width; ++r) {
        const Found found{packet.nearest[r], packet.body[r]};
        surfaces[r] = surface_of(scene, ray_through(camera, lens, column_of(r), row_of(r)), found);
        shadows.set(r, to_light(camera, light, surfaces[r], found));
    }
    if (light.shadows) {
        shadows.prepare_all();
        trace<true>(scene, shadows);
    }
    for (u32 r = 0; r < Packet::width; ++r) {
        if (!in_picture(r)) continue;
        const Found found{packet.nearest[r], packet.body[r]};
        const bool lit = !light.shadows || shadows.body[r] == no_body;
        const Ray ray = ray_through(camera, lens, column_of(r), row_of(r));
        const Pixel pixel = pixel_of(scene, camera, lens, light, ray, surfaces[r], found, lit);
        take(row_of(r) * camera.width + column_of(r), pixel);
    }
}

// Calls take(row * width + column, pixel) for every pixel of a picture.
template <class Scene, class Group, class Take>
TBS_FUNCTION void render(const Scene &scene, Group &group, const Camera &camera, const Lighting &light, Take &&take) {
    const Lens lens = lens_of(camera);
    if constexpr (in_packets<Group>) {
        u32 places[most_bodies<Scene>];
        for (u32 row = 0; row < camera.height; row += tile_side) {
            for (u32 column = 0; column < camera.width; column += tile_side) {
                const u32 count = through_window(scene, camera, lens, column, row, places);
                for (u32 rows = 0; rows < tile_side; rows += Packet::width / tile_side) {
                    if (row + rows >= camera.height) break;
                    draw_packet(scene, places, count, camera, lens, light, column, row + rows, take);
                }
            }
        }
    } else {
        group.for_each(camera.width * camera.height, [&](u32 i) {
            const Ray ray = ray_through(camera, lens, i % camera.width, i / camera.width);
            const Found found = find<false>(scene, ray);
            const Surface surface = surface_of(scene, ray, found);
            const Ray back = to_light(camera, light, surface, found);
            const bool lit = !light.shadows || find<true>(scene, back).body == no_body;
            take(i, pixel_of(scene, camera, lens, light, ray, surface, found, lit));
        });
    }
}
