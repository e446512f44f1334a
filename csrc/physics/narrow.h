// Contacts: where bodies touch as the solver takes it, and their impulses, which a world keeps for the next step.
#pragma once

#include "physics/touch.h"

inline constexpr u32 no_feature = 0xffffu, most_kept = u32(Constants::kept_contacts);

TBS_FUNCTION u32 key_of(u32 a, u32 b) { return a << 16 | b; }

// Which contact of the step before was that of two bodies, by their numbers then; no_place if none.
TBS_FUNCTION u32 kept_contact(const Contacts &kept, u32 a, u32 b) {
    if (a == no_body || b == no_body) return no_place;
    const u32 key = key_of(a, b);  // in ascending order: pairs are listed so, and bodies keep their order
    const auto key_at = [&](u32 row) { return key_of(kept.pair[row][0], kept.pair[row][1]); };
    u32 low = 0, high = u32(kept.rows);
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (key_at(middle) < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < u32(kept.rows) && key_at(low) == key ? low : no_place;
}

// A row's handle in 8 bytes, among those of an episode. The birth is enough, except for rows of several tables with one
// order of create_at, and for fixed tables, which count from 0 in each.
TBS_FUNCTION u64 mark_of(Entity entity) {
    return (u64(entity.birth.tick) << 32 | entity.birth.order) ^ u64(entity.table) * 0x9e3779b97f4a7c15ull;
}

// Looks up which number each body had in the step before: rows of dynamic archetypes move up where others are destroyed, so
// that it is near its number now.
template <class Group>
TBS_FUNCTION void find_numbers_before(const Contacts &kept, Step &step, Group &group) {
    const u32 bodies = u32(kept.bodies);
    group.for_each(step.bodies, [&](u32 i) {
        const u64 mark = mark_of(step.entity[i]);
        u32 before = no_body;
        for (u32 away = 0; before == no_body && (i + away < bodies || away <= i); ++away) {
            if (i + away < bodies && kept.mark[i + away] == mark) before = i + away;
            if (away <= i && i - away < bodies && kept.mark[i - away] == mark) before = i - away;
        }
        step.before[i] = before;
    });
}

// Two surfaces together: the geometric mean of both.
TBS_FUNCTION f32 together(f32 a, f32 b) { return sqrt(a * b); }

// The solver's contact of a pair, with the impulses of the step before.
TBS_FUNCTION void set_contact(const Contacts &kept, const Step &step, const Pair &pair, const Touching &touch,
                              SolverContact &contact) {
    const u32 a = pair.a, b = pair.b;
    const Material &own = step.material[a], &other = step.material[b];
    contact.a = step.mover[a];
    contact.b = step.mover[b];
    contact.count = touch.count;
    contact.corners = touch.corners;
    contact.static_friction = together(own.static_friction, other.static_friction);
    contact.dynamic_friction = together(own.dynamic_friction, other.dynamic_friction);
    contact.restitution = max(own.restitution, other.restitution);
    contact.normal = touch.normal;
    contact.friction = {};
    contact.twist = 0.0f;
    contact.preload = 0.0f;
    contact.total = 0.0f;
    const vec3 apart = step.at[owner_of(step, b)].position - step.at[owner_of(step, a)].position;
    const u32 before = kept_contact(kept, step.before[pair.a], step.before[pair.b]);
    if (before != no_place) {
        const f32 *const friction = kept.friction[before];
        contact.friction = {friction[0], friction[1], friction[2]};
        contact.twist = friction[3];
        contact.preload = kept.preload[before];
    }
    TBS_ROLLED
    for (u32 k = 0; k < points_per_contact; ++k) {
        const Touching::Point &from = touch.points[k < touch.count ? k : 0];
        ContactPoint &point = contact.points[k];
        point.anchor = 0.5f * (apart + from.anchors);
        point.separation = from.separation;
        point.feature = from.feature;
        point.impulse = 0.0f;
    }
    if (before == no_place) return;
    take_impulses(contact, [&](u32 j) { return u32(kept.feature[before][j]); },
                  [&](u32 j) { return kept.impulse[before][j]; });
}

// Lists the contacts of all pairs, in their order. More than there is room for are the fault `contacts`.
template <class Group>
TBS_FUNCTION void list_contacts(World &world, Step &step, Group &group) {
    const Contacts &kept = world.get<const Contacts>();
    const Hulls &hulls = world.get<const Hulls>();
    const Settings settings = settings_of(world);
    const f32 margin = world.parameters.physics.margin;
    find_numbers_before(kept, step, group);
    SolverMemory &solver = step.solver;
    const u32 found = group.scan(
        step.pairs,
        [&](u32 i) {
            if constexpr (!on_device) find_touch(hulls, step, i, margin, settings, step.touch_of(i));
            return step.touch_of(i).count > 0 ? 1u : 0u;
        },
        [&](u32 i, u32 before) {
            const bool fits = step.touch_of(i).count > 0 && before < most_contacts;
            step.place[i] = fits ? before : no_place;
            if (fits) set_contact(kept, step, step.pair[i], step.touch_of(i), solver.contacts[before]);
        });
    if (found > most_contacts) world.fail(Fault::contacts, i32(found));
    group.once([&] { solver.contact_count = min(found, most_contacts); });
}

// Whether the next step would start from anything that a contact has. One that bears nothing may as well be a new one.
TBS_FUNCTION bool bears(const SolverContact &contact) {
    f32 sum = abs(contact.friction.x) + abs(contact.friction.y) + abs(contact.friction.z) + abs(contact.twist);
    sum += abs(contact.preload) + (Constants::events > 0 ? contact.total : 0.0f);
    TBS_ROLLED
    for (u32 k = 0; k < contact.count; ++k) sum += abs(contact.points[k].impulse);
    return sum > 0.0f;
}

// Keeps a contact's impulses as a row. `Kept` is Contacts, which has the fields of events only where these are on.
template <class Kept>
TBS_FUNCTION void keep_contact(const Step &step, const Pair &pair, const SolverContact &contact, Kept &kept, u32 row) {
    kept.pair[row][0] = pair.a;
    kept.pair[row][1] = pair.b;
    f32 *const friction = kept.friction[row];
    friction[0] = contact.friction.x, friction[1] = contact.friction.y, friction[2] = contact.friction.z;
    friction[3] = contact.twist;
    kept.preload[row] = contact.preload;
    TBS_ROLLED
    for (u32 k = 0; k < points_per_contact; ++k) {
        kept.feature[row][k] = k < contact.count ? contact.points[k].feature : no_feature;
        kept.impulse[row][k] = k < contact.count ? contact.points[k].impulse : 0.0f;
    }
    if constexpr (Constants::events > 0) {
        kept.total[row] = contact.total;
        kept.normal[row] = contact.normal;
        vec3 sum{};
        TBS_ROLLED
        for (u32 k = 0; k < contact.count; ++k) sum += contact.points[k].anchor;
        kept.position[row] = step.at[owner_of(step, pair.a)].position + sum / f32(contact.count);
    }
}

// Keeps the impulses of as many contacts as fit. The others begin the next step without.
template <class Kept, class Group>
TBS_FUNCTION void keep_contacts(Step &step, Kept &kept, Group &group) {
    const SolverMemory &solver = step.solver;
    const u32 rows = group.scan(
        step.pairs,
        [&](u32 i) {
            u32 &place = step.place[i];
            if (place != no_place && !bears(solver.contacts[place])) place = no_place;
            return place != no_place ? 1u : 0u;
        },
        [&](u32 i, u32 row) {
            const u32 place = step.place[i];
            if (place != no_place && row < most_kept) keep_contact(step, step.pair[i], solver.contacts[place], kept, row);
        });
    group.for_each(step.bodies, [&](u32 i) {
        kept.mark[i] = mark_of(step.entity[i]);
        if constexpr (Constants::events > 0) kept.body[i] = step.entity[owner_of(step, i)];
    });
    group.once([&] {
        kept.count = i32(solver.contact_count);
        kept.rows = i32(min(rows, most_kept));
        kept.bodies = i32(step.bodies);
    });
}
