// Contacts: the narrow phase's manifolds as the solver takes them, and their impulses, which a world keeps for the next step.
#pragma once

#include "physics/broad.h"

inline constexpr u32 no_feature = 0xffffffffu;

// Which contact of the step before was that of two bodies, by their numbers then; no_place if none.
TBS_FUNCTION u32 kept_contact(const Contacts &kept, u32 a, u32 b) {
    if (a == no_body || b == no_body) return no_place;
    const u32 key = a << 16 | b;  // in ascending order: pairs are listed so, and bodies keep their order
    u32 low = 0, high = u32(kept.count);
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (kept.pair[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < u32(kept.count) && kept.pair[low] == key ? low : no_place;
}

// Looks up which number each body had in the step before: rows of dynamic archetypes move up where others are destroyed, so
// that it is near its number now.
template <class Group>
TBS_FUNCTION void find_numbers_before(const Contacts &kept, Step &step, Group &group) {
    const u32 bodies = u32(kept.bodies);
    group.for_each(step.bodies, [&](u32 i) {
        const Entity entity = step.entity[i];
        u32 before = no_body;
        for (u32 away = 0; before == no_body && (i + away < bodies || away <= i); ++away) {
            if (i + away < bodies && kept.body[i + away] == entity) before = i + away;
            if (away <= i && i - away < bodies && kept.body[i - away] == entity) before = i - away;
        }
        step.before[i] = before;
    });
}

// Two surfaces together: the geometric mean of what they have.
TBS_FUNCTION f32 together(f32 a, f32 b) { return sqrt(a * b); }

// The solver's contact of a pair, with the impulses of the step before.
TBS_FUNCTION void set_contact(const Contacts &kept, const Step &step, const Pair &pair, const Manifold &manifold,
                              SolverContact &contact) {
    const u32 a = pair.a, b = pair.b;
    const Material &own = step.material[a], &other = step.material[b];
    contact.a = step.mover[a];
    contact.b = step.mover[b];
    contact.count = manifold.count;
    contact.static_friction = together(own.static_friction, other.static_friction);
    contact.dynamic_friction = together(own.dynamic_friction, other.dynamic_friction);
    contact.restitution = max(own.restitution, other.restitution);
    contact.normal = manifold.normal;
    contact.friction = {};
    contact.twist = 0.0f;
    contact.preload = 0.0f;
    contact.total = 0.0f;
    const vec3 apart = step.at[b].position - step.at[a].position;
    const u32 before = kept_contact(kept, step.before[pair.a], step.before[pair.b]);
    if (before != no_place) {
        const f32 *const friction = kept.friction[before];
        contact.friction = {friction[0], friction[1], friction[2]};
        contact.twist = friction[3];
        contact.preload = kept.preload[before];
    }
    for (u32 k = 0; k < points_per_contact; ++k) {
        const Manifold::Point &from = manifold.points[k < manifold.count ? k : 0];
        ContactPoint &point = contact.points[k];
        point.anchor = 0.5f * (apart + (from.anchor_a + from.anchor_b));
        point.separation = from.separation;
        point.feature = from.feature;
        point.impulse = 0.0f;
        if (before != no_place && k < manifold.count) {
            for (u32 j = 0; j < points_per_contact; ++j) {
                if (kept.feature[before][j] == from.feature) point.impulse = kept.impulse[before][j];
            }
        }
    }
}

// The narrow phase: contacts of all pairs, in their order. More than there is room for are the fault `contacts`.
template <class Group>
TBS_FUNCTION void find_contacts(World &world, const Hulls &hulls, const Contacts &kept, Step &step, f32 margin, Group &group) {
    find_numbers_before(kept, step, group);
    Solver &solver = *step.solver;
    const auto manifold_of = [&](u32 i) -> Manifold & { return step.manifold[i % Group::lanes]; };
    const u32 found = group.scan(
        step.pairs,
        [&](u32 i) {
            const u32 a = step.pair[i].a, b = step.pair[i].b;
            collide(geometry_of(hulls, step.shape[a]), step.at[a], geometry_of(hulls, step.shape[b]), step.at[b],
                    margin + step.reach[a] + step.reach[b], manifold_of(i));
            return manifold_of(i).count > 0 ? 1u : 0u;
        },
        [&](u32 i, u32 before) {
            const bool fits = manifold_of(i).count > 0 && before < most_contacts;
            step.place[i] = fits ? before : no_place;
            if (fits) set_contact(kept, step, step.pair[i], manifold_of(i), solver.contacts[before]);
        });
    if (found > most_contacts) world.fail(Fault::contacts, i32(found));
    group.once([&] { solver.contact_count = min(found, most_contacts); });
}

// Keeps the impulses.
template <class Group>
TBS_FUNCTION void keep_contacts(const Step &step, Contacts &kept, Group &group) {
    const Solver &solver = *step.solver;
    group.for_each(step.pairs, [&](u32 i) {
        const u32 place = step.place[i];
        if (place == no_place) return;
        const SolverContact &contact = solver.contacts[place];
        kept.pair[place] = step.pair[i].a << 16 | step.pair[i].b;
        f32 *const friction = kept.friction[place];
        friction[0] = contact.friction.x, friction[1] = contact.friction.y, friction[2] = contact.friction.z;
        friction[3] = contact.twist;
        kept.preload[place] = contact.preload;
        if (Constants::events > 0) {
            const u32 told = Constants::events > 0 ? place : 0;
            kept.total[told] = contact.total;
            kept.normal[told] = contact.normal;
            const vec3 from = step.at[step.pair[i].a].position;
            vec3 sum{};
            for (u32 k = 0; k < contact.count; ++k) sum += contact.points[k].anchor;
            kept.position[told] = from + sum / f32(contact.count);
        }
        for (u32 k = 0; k < points_per_contact; ++k) {
            kept.feature[place][k] = k < contact.count ? contact.points[k].feature : no_feature;
            kept.impulse[place][k] = k < contact.count ? contact.points[k].impulse : 0.0f;
        }
    });
    group.for_each(step.bodies, [&](u32 i) { kept.body[i] = step.entity[i]; });
    group.once([&] {
        kept.count = i32(solver.contact_count);
        kept.bodies = i32(step.bodies);
    });
}
