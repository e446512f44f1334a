// Fast bodies: no centre of mass gets through another body, however far a body moves or turns in a step.
//
// Contacts are found once a step, with all within reach, and stop nearly everything. But their points stay in place:
// the surface of a body that turns far within the step moves away from them. So after the step the way of each fast
// body's centre of mass is compared with all others. Where it goes in deep, the body is set back to the place where it
// entered, as with the continuous collision of a core shape (Catto 2013, "Continuous collision", GDC). Its rotation and
// velocity stay: the next step finds an overlap as others are, on the side from which it came. Of two that both give
// way both go back. Of a body with parts the centres of all its shapes are followed.
#pragma once

#include "physics/broad.h"
#include "physics/crossing.h"

// A centre may go in by this share of the lesser inner radius of the two bodies, so that a body that slides along a
// surface, pressed in a little, is not held fast.
inline constexpr f32 deep_share = 0.25f;

// Bodies with parts that turn by less than this in a step, in rad, need no look at their parts.
inline constexpr f32 least_turn = 0.01f;

// Whether any body is fast; of bodies that move by themselves any motion counts, and any turning.
template <class Group>
TBS_FUNCTION bool any_is_fast(Step &step, Group &group) {
    auto &w = step.solver;
    bool found = false;
    const auto is_fast = [&](auto item, u32 block, u32 lane) {
        using F = decltype(item);
        const u32 first = block * block_items + lane;
        F motion[8];
        load_rows(RowsFrom{w.motion[first], 8}, motion);
        const Vec<F> moved{motion[0], motion[1], motion[2]}, turned{motion[4], motion[5], motion[6]};
        const F slow = load<F>(step.slow + first), movable = load<F>(w.body_blocks[block].movable + lane);
        constexpr f32 turn = has_parts ? least_turn : far_turn;  // parts go far by little turns
        const F most = movable * splat<F>(turn * turn);
        return holds_for_one(below(slow * slow, dot(moved, moved))) || holds_for_one(below(most, dot(turned, turned)));
    };
    if constexpr (simd_width > 1 && Group::group_threads == 1) {
        for_items(group, 0, step.movers, [&](auto item, u32 block, u32 lane) { found |= is_fast(item, block, lane); });
    } else {
        found = group.any(step.movers, [&](u32 i) { return is_fast(f32{}, i / block_items, i % block_items); });
    }
    return found;
}

// Whether a body moves that nothing pushes.
TBS_FUNCTION bool carries(const Step &step, u32 body) { return step.reach[body] > 0.0f; }

// Where a body that has a mover is after the step.
TBS_FUNCTION Transform place_moved(const Step &step, u32 body) {
    const u32 mover = step.mover[body];
    const f32 *const moved = step.solver.motion[mover];
    const BodyBlock &block = step.solver.body_blocks[mover / block_items];
    const Rotation<f32> q = load_rotation<f32>(block.rotation, mover % block_items);
    const vec3 before = step.at[owner_of(step, body)].position;
    return place_of(step, body, {before + vec3{moved[0], moved[1], moved[2]}, {q.w, q.x, q.y, q.z}});
}

// The same of any body.
TBS_FUNCTION Transform place_after(const Step &step, u32 body) {
    return carries(step, body) || step.pushed[body] != 0 ? place_moved(step, body) : step.at[body];
}

// The way of a centre as another body sees it, that moves and turns.
struct Chord {
    vec3 from, to;
    quat turned;  // the other's rotation behind the step

    // Where the centre is, from the other body's centre, after this share of it.
    TBS_METHOD vec3 after(f32 share) const { return rotate(from + (to - from) * share, turned); }
};

TBS_FUNCTION Chord chord_of(const Step &step, u32 i, u32 other, vec3 way) {
    const Transform begin = step.at[other];
    Transform end = place_after(step, other);
    if (step.shape[other].kind == SPHERE) end.rotation = begin.rotation;  // it looks the same however it turns
    const vec3 away = step.at[i].position - begin.position, away_after = step.at[i].position - end.position;
    return {rotate(away, conjugate(begin.rotation)), rotate(away_after + way, conjugate(end.rotation)), end.rotation};
}

// After which share of its way body i's centre is in body `other`, that goes deep there; above 1 if it does not.
TBS_CALLED f32 entry_of(const Hulls &hulls, const Step &step, u32 i, u32 other, const Chord &chord) {
    const Geometry shape = geometry_of(hulls, step.shape[other]), own = geometry_of(hulls, step.shape[i]);
    const Crossing crossing = crossing_of(shape, chord.from, chord.to);
    const f32 allowed = deep_share * min(inner_radius(own), inner_radius(shape));
    return crossing.after > max(crossing.before, allowed) ? crossing.enter : no_crossing.enter;
}

// The way of body i's centre, as far as body `other` lets it go, which does not give way.
TBS_FUNCTION vec3 way_before(const Hulls &hulls, const Step &step, u32 i, u32 other, vec3 way) {
    const Chord chord = chord_of(step, i, other, way);
    const f32 share = entry_of(hulls, step, i, other, chord);
    if (share > 1.0f) return way;
    if (!carries(step, other)) return way * share;
    return chord.after(share) - (step.at[i].position - place_after(step, other).position);
}

// The way of the centre of a body, or of a part.
TBS_FUNCTION vec3 way_of(const Step &step, u32 body) {
    if (is_part(step, body)) return place_moved(step, body).position - step.at[body].position;
    const f32 *const motion = step.solver.motion[step.mover[body]];
    return {motion[0], motion[1], motion[2]};
}

TBS_FUNCTION bool turns_far(const Step &step, u32 body) {
    const f32 *const motion = step.solver.motion[step.mover[body]];
    return length_squared(vec3{motion[4], motion[5], motion[6]}) > far_turn * far_turn;
}

// How two bodies that give way come deep into each other.
struct Meeting {
    f32 share;  // of the step until then; above 1 if they do not
    vec3 away;  // of a from b, as the thinner one sees the other: it stays on the side from which it came
};

TBS_CALLED Meeting passage_of(const Hulls &hulls, const Step &step, const Pair &pair) {
    const auto is_fast = [&](u32 body) {
        const f32 slow = step.slow[step.mover[body]];
        return length_squared(way_of(step, body)) > slow * slow || turns_far(step, body);
    };
    if (step.pushed[pair.b] == 0 || !(is_fast(pair.a) || is_fast(pair.b))) return {no_crossing.enter, {}};
    const auto thickness = [&](u32 body) {
        const Geometry shape = geometry_of(hulls, step.shape[body]);
        return shape.kind == SPHERE ? infinity : inner_radius(shape);
    };
    const bool swap = thickness(pair.a) < thickness(pair.b);
    const u32 thin = swap ? pair.a : pair.b, other = swap ? pair.b : pair.a;
    const Chord chord = chord_of(step, other, thin, way_of(step, other));
    f32 share = entry_of(hulls, step, other, thin, chord);
    if (share > 1.0f)
        share = entry_of(hulls, step, thin, other, chord_of(step, thin, other, way_of(step, thin)));
    const vec3 away = chord.after(min(share, 1.0f));
    return {share, swap ? -away : away};
}

// Finds the ways of bodies until they pass through others that give way: their common centre is where it is by then.
template <class Group>
TBS_FUNCTION void part_bodies(const Hulls &hulls, Step &step, Group &group) {
    const bool pass = group.any(step.pairs, [&](u32 p) { return passage_of(hulls, step, step.pair[p]).share <= 1.0f; });
    group.for_each(step.bodies, [&](u32 i) {
        if (step.pushed[i] == 0 || is_part(step, i)) return;
        Meeting first{no_crossing.enter, {}};
        u32 own = i, other = no_body;
        for (u32 p = 0; pass && p < step.pairs; ++p) {
            const Pair pair = step.pair[p];
            const bool is_a = owner_of(step, pair.a) == i;
            if (!is_a && owner_of(step, pair.b) != i) continue;
            const Meeting meeting = passage_of(hulls, step, pair);
            if (!(meeting.share < first.share)) continue;
            own = is_a ? pair.a : pair.b, other = is_a ? pair.b : pair.a;
            first = {meeting.share, is_a ? meeting.away : -meeting.away};
        }
        vec3 way = way_of(step, own);
        const vec3 turned = way - way_of(step, i);  // what a part goes further by the turn of its body, which stays
        if (other != no_body) {
            const auto lightness = [&](u32 body) {
                const u32 mover = step.mover[body];
                return step.solver.body_blocks[mover / block_items].inverse_mass[mover % block_items];
            };
            const vec3 closer = (way - way_of(step, other)) * first.share;
            const vec3 apart = step.at[own].position - step.at[other].position + closer;
            const f32 part = divide(lightness(i), lightness(i) + lightness(other));
            way = way * first.share + (first.away - apart) * part;
        }
        step.way[i] = own == i ? way : way - turned;
    });
}

// Calls visit(other) for bodies that nothing pushes, in order, where their bounds meet those of the way of body i's
// centre.
template <class Visit>
TBS_FUNCTION void for_all_on_way(const Step &step, u32 i, vec3 way, Visit &&visit) {
    const vec3 from = step.at[i].position, to = from + way;
    const Bounds box{{min(from.x, to.x), min(from.y, to.y), min(from.z, to.z)},
                     {max(from.x, to.x), max(from.y, to.y), max(from.z, to.z)}};
    for (u32 word = 0; word < (step.bodies + 31) / 32; ++word) {
        u32 bits = touching(step.boxes, box, 32 * word) & ~step.pushed_bits[word];
        if (32 * word + 32 > step.bodies) bits &= (1u << (step.bodies - 32 * word)) - 1;
        for (; bits != 0; bits &= bits - 1) {
            const u32 other = 32 * word + lowest_bit(bits);
            if (may_collide(step, i, other) && !is_joined(step, i, other)) visit(other);
        }
    }
}

// Sets fast bodies back, after `solve`.
template <class Group>
TBS_FUNCTION void stop_fast_bodies(const Hulls &hulls, Step &step, Group &group) {
    if (!any_is_fast(step, group)) return;
    part_bodies(hulls, step, group);
    const f32 sweep = group.max(step.bodies, 0.0f, [&](u32 i) { return step.pushed[i] == 0 ? step.reach[i] : 0.0f; });
    group.for_each(step.bodies, [&](u32 i) {
        if (step.pushed[i] == 0 || is_part(step, i)) return;
        const u32 mover = step.mover[i];
        f32 *const motion = step.solver.motion[mover];
        const vec3 own = way_of(step, i);
        vec3 way = step.way[i];
        bool fast = max(length(own), length(way)) + sweep > step.slow[mover] || turns_far(step, i);
        if constexpr (has_parts) {
            for (u32 k = 0; k < step.bodies; ++k)
                fast = fast || (step.owner[k] == i && length(way_of(step, k)) > step.slow[mover]);
        }
        if (!fast && way == own) return;
        // The centre of a shape, which also goes by `turned` as the body turns.
        const auto follow = [&](u32 shape, vec3 turned) {
            way += turned;
            // Standing bodies come last: between them and moving ones no place is right, and walls must hold.
            for (u32 round = sweep > 0.0f ? 0 : 1; round < 2; ++round) {
                const vec3 before = way;
                for_all_on_way(step, shape, before, [&](u32 other) {
                    if (carries(step, other) == (round == 0)) way = way_before(hulls, step, shape, other, way);
                });
            }
            way -= turned;
        };
        if (step.shape[i].kind != NOTHING) follow(i, {});
        if constexpr (has_parts) {
            for (u32 k = 0; k < step.bodies; ++k) {
                if (k == i || step.owner[k] != i) continue;
                follow(k, way_of(step, k) - own);
            }
        }
        const BodyBlock &block = step.solver.body_blocks[mover / block_items];
        const Vec<f32> free = load_vec<f32>(block.free_linear, mover % block_items);
        const vec3 back = (way - own) * vec3{free.x, free.y, free.z};
        motion[0] += back.x, motion[1] += back.y, motion[2] += back.z;
    });
}
