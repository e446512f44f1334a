// What several eyes of a world see, side by side on the lanes of a group: beams of their lidars, and lines of sight.
//
// Seen along the world's z axis, the directions around an eye are parted in sectors. A lane finds those in which the
// box around one shape lies, from one eye; then each ray looks only at shapes in its sector. So a shape costs a few
// instructions for each eye, and not for each ray. Sectors leave out no shape whose box a ray meets as `box_at`
// computes it: numbers are widened by more than rounding may take away. Where that would not be enough (along z, or at
// extreme distances) shapes are in all sectors, and rays look at all. So no answer differs from that of `cast`.
#pragma once

#include "rays/rays.h"

inline constexpr u32 sectors = 30;                             // bits of a word, and two more:
inline constexpr u32 all_sectors = (1u << sectors) - 1;
inline constexpr u32 is_there = 1u << 30;                      // of places with a shape
inline constexpr u32 in_reach = 1u << 31;                      // the box is not beyond the reach of the eye's beams

// The place of a direction among the sectors, which grows with its angle from 0 to `sectors`.
TBS_FUNCTION f32 turn_of(f32 x, f32 y) {
    constexpr f32 quarter = f32(sectors) / 4.0f;
    const f32 share = divide(x, abs(x) + abs(y)) * quarter;
    return y >= 0.0f ? quarter - share : fma(3.0f, quarter, share);
}
// Whether a direction has a place among the sectors, with little rounding.
TBS_FUNCTION bool has_turn(f32 x, f32 y) {
    const f32 size = abs(x) + abs(y);
    return (size >= 0x1p-40f) & (size <= 0x1p60f);
}

// An eye: rays begin at it, and most are no longer than its reach.
struct Eye {
    vec3 origin;
    f32 reach_squared;
};
inline constexpr f32 wider_reach = 1.0f + 0x1p-8f, wide_reach = 1.0f + 0x1p-9f;

// The sectors in which the box around a shape lies.
template <class Scene>
TBS_FUNCTION u32 sectors_at(const Scene &scene, u64 place, const Eye &eye) {
    const vec3 start = from_centre(scene, place, eye.origin), away = size_of(start);
    const vec3 high{scene.high_x[place], scene.high_y[place], scene.high_z[place]};
    const vec3 half{fma(0x1p-16f, away.x + high.x, high.x), fma(0x1p-16f, away.y + high.y, high.y),
                    fma(0x1p-16f, away.z + high.z, high.z)};
    const vec3 gap{max(away.x - half.x, 0.0f), max(away.y - half.y, 0.0f), max(away.z - half.z, 0.0f)};
    const u32 bits = (scene.groups[place] == 0 ? 0 : is_there) |
                     (dot(gap, gap) > eye.reach_squared * wider_reach ? 0 : in_reach);
    // Sides of the box from the eye, and the corners at which it begins and ends, counter-clockwise.
    const f32 left = -start.x - half.x, right = half.x - start.x, below = -start.y - half.y, above = half.y - start.y;
    const bool west = right < 0.0f, east = left > 0.0f, south = above < 0.0f, north = below > 0.0f;
    const f32 first_x = north | (west & !south) ? right : left, first_y = east | (north & !west) ? below : above;
    const f32 last_x = north | (east & !south) ? left : right, last_y = east | (south & !west) ? above : below;
    const bool around = !(west | east | south | north);
    if (around | !has_turn(first_x, first_y) | !has_turn(last_x, last_y)) return bits | all_sectors;
    constexpr f32 margin = 0x1p-10f, whole = f32(sectors);
    const i32 begin = i32(turn_of(first_x, first_y) + (whole - margin)), end = i32(turn_of(last_x, last_y) + margin);
    const u32 first = u32(begin >= i32(sectors) ? begin - i32(sectors) : begin), last = u32(end) % sectors;
    const u32 from = ~0u << first, to = (2u << last) - 1;
    return bits | ((first <= last ? from & to : from | to) & all_sectors);
}

// The bits that the word of a shape has if a ray of an eye may meet it.
TBS_FUNCTION u32 wanted_of(const Ray &ray, const Eye &eye) {
    const vec3 d = ray.direction, o = ray.origin;
    const bool begins = (o.x == eye.origin.x) & (o.y == eye.origin.y) & (o.z == eye.origin.z);
    const bool turned = has_turn(d.x, d.y) & (abs(d.x) + abs(d.y) >= 0x1p-20f * abs(d.z));
    const f32 length_squared = dot(d, d), squared = length_squared * ray.reach * ray.reach;
    const bool precise = (length_squared >= 0x1p-80f) & (squared >= 0x1p-100f);
    const u32 near = begins & precise & (squared <= eye.reach_squared * wide_reach) ? in_reach : 0;
    const u32 sector = begins & turned ? 1u << min(u32(i32(turned ? turn_of(d.x, d.y) : 0.0f)), sectors - 1) : 0;
    return is_there | near | sector;
}

// What a group has on chip: for some eyes a word for each place, and which shapes are of which kind.
template <u32 places>
struct Sectors {
    static constexpr u32 words = (places + 31) / 32, eyes = 1024 / (128 * words) > 0 ? 1024 / (128 * words) : 1;
    struct Kinds {
        u32 aligned, boxes, hulls, planes;
    };
    alignas(16) u32 of[eyes][32 * words];
    Kinds kinds[words];
};

// A shape of one kind against the best so far; of bodies at one distance the first.
template <class Scene>
TBS_FUNCTION void look_at(const Scene &scene, u64 place, i32 kind, const Prepared &ray, Found &found) {
    const vec3 start = from_centre(scene, place, ray.origin);
    const auto face = [&](u32 k) { return face_at(scene, place, k); };
    Solid solid = solid_at(scene, place);
    solid.kind = kind;
    const i32 at = enter(solid, ray, start, box_at(scene, place, start, ray.inverse), scene.faces[place], face);
    if (at < found.nearest || (at == found.nearest && i32(place) < found.body)) found = {at, i32(place)};
}

// The best hit of a ray among shapes that have all `wanted` bits in their words; with `any` perhaps another one. Its
// body is -1 if there is none.
template <class Scene, class Sectors>
TBS_FUNCTION Found find_among(const Scene &scene, const Sectors &chip, const u32 *words, u32 wanted, const Ray &ray,
                              bool any) {
    const Prepared prepared = prepare(ray.origin, ray.direction, ray.reach);
    Found found{prepared.limit, -1};
    for (u32 first = 0; first < scene.count && !(any && found.body >= 0); first += 32) {
        u32 rest = 0;
        TBS_UNROLL
        for (u32 k = 0; k < 32; ++k) rest |= (wanted & ~words[first + k]) == 0 ? 1u << k : 0;
        const u32 ignored = u32(ray.ignored) - first, ignored_too = u32(ray.ignored_too) - first;
        rest &= ~((ignored < 32 ? 1u << ignored : 0) | (ignored_too < 32 ? 1u << ignored_too : 0));
        const typename Sectors::Kinds kinds = chip.kinds[first / 32];
        // The boxes around shapes, which are all of most: planes are in all of them.
        u32 near = rest & kinds.planes;
        for (rest &= ~kinds.planes; rest != 0; rest &= rest - 1) {
            const u64 place = first + lowest_bit(rest);
            const u32 bit = rest & (0 - rest);
            const Span box = box_at(scene, place, from_centre(scene, place, ray.origin), prepared.inverse);
            const bool meets = (box.enter <= min(box.leave, found.nearest)) & ((ray.mask & scene.groups[place]) != 0);
            const bool aligned = (kinds.aligned & bit) != 0;
            if (meets & aligned & (box.enter < found.nearest)) found = {box.enter, i32(place)};
            near |= meets & !aligned ? bit : 0;
        }
        const auto look_at_all = [&](u32 bits, i32 kind) {
            for (; bits != 0; bits &= bits - 1) look_at(scene, first + lowest_bit(bits), kind, prepared, found);
        };
        look_at_all(near & kinds.boxes, physics::BOX);
        look_at_all(near & kinds.hulls, physics::HULL);
        for (u32 bits = near & kinds.planes; bits != 0; bits &= bits - 1) {
            const u64 place = first + lowest_bit(bits);
            if ((ray.mask & scene.groups[place]) != 0) look_at(scene, place, physics::PLANE, prepared, found);
        }
        for (u32 bits = near & ~(kinds.boxes | kinds.hulls | kinds.planes); bits != 0; bits &= bits - 1) {
            const u64 place = first + lowest_bit(bits);
            look_at(scene, place, scene.kind[place], prepared, found);
        }
    }
    return found;
}

// Calls take_hit(e, i, hit) for beam i of fan(e), and take_clear(e, i, clear) for each Sight line(e, i): results of
// `lidar` and `see_all`; look<Nearest> leaves out normals. On a GPU lines that begin elsewhere than the fan cost more.
template <class Result = Hit, class Scene, class Group, class FanOf, class TakeHit, class LineOf, class TakeClear>
TBS_FUNCTION void look(const Scene &scene, Group &group, u32 eyes, u32 beams, FanOf &&fan, TakeHit &&take_hit,
                       u32 lines, LineOf &&line, TakeClear &&take_clear) {
    using Sectors = Sectors<most_bodies<Scene>>;
    if constexpr (Group::group_threads == 1 || sizeof(Sectors) > 3072) {
        for (u32 e = 0; e < eyes; ++e) {
            lidar<Result>(scene, group, beams, fan(e), [&](u32 i, const Result &hit) { take_hit(e, i, hit); });
            const auto take = [&](u32 i, bool clear) { take_clear(e, i, clear); };
            see_all(scene, group, lines, [&](u32 i) { return line(e, i); }, take);
        }
    } else {
        Sectors &chip = group.template shared<Sectors>();
        TBS_NO_UNROLL
        for (u32 w = 0; 32 * w < scene.count; ++w) {
            const u32 held = min(scene.count - 32 * w, 32u);
            const auto are = [&](i32 kind) {
                return group.ballot(held, [&](u32 k) { return scene.kind[32 * w + k] == kind; });
            };
            const typename Sectors::Kinds kinds{are(Solid::aligned_box), are(physics::BOX), are(physics::HULL),
                                                are(physics::PLANE)};
            group.once([&] { chip.kinds[w] = kinds; });
        }
        const auto eye_of = [&](u32 e) {
            const Fan one = fan(e);
            const f32 reach = min(one.reach, longest_reach);
            return Eye{one.origin, reach * reach};
        };
        for (u32 before = 0; before < eyes; before += Sectors::eyes) {
            const u32 held = min(eyes - before, Sectors::eyes), places = (scene.count + 31) / 32 * 32;
            TBS_NO_UNROLL
            for (u32 e = 0; e < held; ++e) {
                const Eye eye = eye_of(before + e);
                group.for_each(places, [&](u32 i) { chip.of[e][i] = i < scene.count ? sectors_at(scene, i, eye) : 0; });
            }
            group.for_each(held * (beams + lines), [&](u32 i) {
                const bool is_beam = i < held * beams;
                const u32 of_kind = is_beam ? i : i - held * beams, each = is_beam ? beams : lines;
                const u32 e = of_kind / each, k = of_kind - e * each, number = before + e;
                const Fan one = fan(number);
                Ray ray;
                if (is_beam) {
                    ray = beams_of(one, beams)(k);
                } else {
                    const Sight sight = line(number, k);
                    ray = {sight.from, sight.to - sight.from, 1.0f, sight.mask, sight.a, sight.b};
                }
                Found found = find_among(scene, chip, chip.of[e], wanted_of(ray, eye_of(number)), ray, !is_beam);
                if (is_beam) {
                    if (found.body < 0) found.body = no_body;
                    Result result;
                    put_result(scene, ray, found, result);
                    take_hit(number, k, result);
                } else {
                    take_clear(number, k, found.body < 0);
                }
            });
        }
    }
}
