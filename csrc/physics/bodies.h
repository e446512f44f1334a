// Bodies in the solver: from their input to rows that constraints read and write, and through time.
//
// The Jacobians and inertia of contacts are those of the step's begin, so a change of velocity by contacts in one
// substep equals their warm start in the next one: it is kept per body (`carried`) and added as a force is. That saves
// a pass over all contacts in each substep but the first, with the same result.
#pragma once

#include "physics/workspace.h"

inline constexpr u32 midpoint_iterations = 4;
// Contacts take the inertia of the step's begin until it has changed by about this share.
inline constexpr f32 refresh_at = 0.0005f;

struct BodyBlock {
    f32 position[3][block_items], rotation[4][block_items], linear[3][block_items], angular[3][block_items];
    f32 acceleration[3][block_items], force[3][block_items], torque[3][block_items];
    f32 inverse_mass[block_items], inverse_inertia[6][block_items], inertia[6][block_items];
    f32 free_linear[3][block_items], free_angular[3][block_items];  // 0 where locked, else 1
    f32 movable[block_items];                                       // 1: constraints change its velocity
    f32 moving[block_items];                                        // 1: it has one
    f32 spins[block_items];                                         // 1: its axis of rotation wanders
    f32 still[block_items];
    u32 kind[block_items], asleep[block_items], forced[block_items];
};

// The part of a body that constraints read, beside its velocity: two rows of 8.
inline constexpr u32 mass_row = 16;  // inverse mass along x, y, z, 0, position, 0; inverse inertia (6), 0, 0

// The rows of consecutive bodies.
struct RowsFrom {
    f32 *first;
    u32 stride;
    TBS_METHOD f32 *operator()(u32 i) const { return first + u64(i) * stride; }
};

template <class W>
TBS_FUNCTION void put_body(W &w, u32 i, const SolverBody &body) {
    BodyBlock &block = w.body_blocks[i / block_items];
    const u32 lane = i % block_items;
    const bool dynamic = body.kind == body_dynamic, kinematic = body.kind == body_kinematic;
    const auto put = [&](f32(*fields)[block_items], vec3 a) { store_vec<f32>(fields, lane, {a.x, a.y, a.z}); };
    const auto is_free = [&](u32 bit) { return dynamic && (body.locks >> bit & 1) != 0 ? 0.0f : 1.0f; };
    put(block.position, body.position);
    store_rotation<f32>(block.rotation, lane, {body.rotation.w, body.rotation.x, body.rotation.y, body.rotation.z});
    put(block.linear, body.linear);
    put(block.angular, body.angular);
    put(block.acceleration, body.acceleration);
    put(block.force, body.force);
    put(block.torque, body.torque);
    block.inverse_mass[lane] = body.inverse_mass;
    const Symmetric &m = body.inverse_inertia;
    store_inertia<f32>(block.inverse_inertia, lane, {m.xx, m.yy, m.zz, m.xy, m.xz, m.yz});
    put(block.free_linear, {is_free(0), is_free(1), is_free(2)});
    put(block.free_angular, {is_free(3), is_free(4), is_free(5)});
    block.movable[lane] = dynamic ? 1.0f : 0.0f;
    block.moving[lane] = dynamic || kinematic ? 1.0f : 0.0f;
    block.still[lane] = body.still;
    block.kind[lane] = body.kind;
    block.asleep[lane] = 0;
    block.forced[lane] = length_squared(body.force) + length_squared(body.torque) > 0.0f;
}

// Before `solve`: a body that has been put in is not at rest.
template <class W>
TBS_FUNCTION void wake(W &w, u32 i) {
    w.body_blocks[i / block_items].still[i % block_items] = 0.0f;
}

// After `solve`: a body that could move in this step, which may have changed its pose.
template <class W>
TBS_FUNCTION bool is_moving(const W &w, u32 i) {
    return w.body_blocks[i / block_items].moving[i % block_items] != 0.0f;
}

// Pose, velocity, `still` and `asleep` after `solve`.
template <class W>
TBS_FUNCTION void take_body(const W &w, u32 i, SolverBody &body) {
    const BodyBlock &block = w.body_blocks[i / block_items];
    const u32 lane = i % block_items;
    body.still = block.still[lane];
    body.asleep = block.asleep[lane];
    if (block.moving[lane] == 0.0f) {
        if (body.asleep != 0) body.linear = body.angular = {0, 0, 0};
        return;
    }
    const Vec<f32> at = load_vec<f32>(block.position, lane);
    const f32 *moved = w.motion[i];
    body.position = {at.x + moved[0], at.y + moved[1], at.z + moved[2]};
    const Rotation<f32> q = load_rotation<f32>(block.rotation, lane);
    body.rotation = {q.w, q.x, q.y, q.z};
    if (block.movable[lane] == 0.0f) return;
    const f32 *velocity = w.velocity[i];
    body.linear = {velocity[0], velocity[1], velocity[2]};
    body.angular = {velocity[4], velocity[5], velocity[6]};
}

// The inverse of `inertia` among the free axes: the answer to torques about them while the others are held.
template <class F>
TBS_FUNCTION Inertia<F> inverse_where_free(Inertia<F> inertia, Vec<F> free) {
    const F one = splat<F>(1.0f);
    inertia = {pick(below(F{}, free.x), inertia.xx, one),
               pick(below(F{}, free.y), inertia.yy, one),
               pick(below(F{}, free.z), inertia.zz, one),
               inertia.xy * (free.x * free.y),
               inertia.xz * (free.x * free.z),
               inertia.yz * (free.y * free.z)};
    F determinant;
    const Inertia<F> m = inverse(inertia, determinant);
    return {m.xx * free.x,           m.yy * free.y, m.zz * free.z, m.xy * (free.x * free.y), m.xz * (free.x * free.z),
            m.yz * (free.y * free.z)};
}

// The inverse inertia in the world's frame.
template <class F>
TBS_ONE_COPY Inertia<F> world_inertia(const BodyBlock &block, u32 lane, Rotation<F> q) {
    const Vec<F> free = load_vec<F>(block.free_angular, lane);
    const F movable = load<F>(block.movable + lane);
    Inertia<F> m = turned(load_inertia<F>(block.inverse_inertia, lane), q);
    const auto locked = below(free.x * free.y * free.z, splat<F>(0.5f));
    if (holds_for_one(locked)) {
        const Inertia<F> inertia = load_inertia<F>(block.inertia, lane);
        const Inertia<F> held = inverse_where_free(turned(inertia, q), free);
        const auto has_one = below(F{}, inertia.xx);
        const auto choose = [&](F a, F b, F mask) { return pick(locked, pick(has_one, a, b * mask), b); };
        m = {choose(held.xx, m.xx, free.x),          choose(held.yy, m.yy, free.y),
             choose(held.zz, m.zz, free.z),          choose(held.xy, m.xy, free.x * free.y),
             choose(held.xz, m.xz, free.x * free.z), choose(held.yz, m.yz, free.y * free.z)};
    }
    return {m.xx * movable, m.yy * movable, m.zz * movable, m.xy * movable, m.xz * movable, m.yz * movable};
}

// The inertia of an inverse one; zero of zero. It is scaled first, or bodies of 1 mm would overflow.
template <class F>
TBS_ONE_COPY Inertia<F> inertia_of(const Inertia<F> &m) {
    const F trace = m.xx + m.yy + m.zz, one = splat<F>(1.0f);
    const auto some = below(F{}, trace);
    const F scale = pick(some, one / pick(some, trace, one), F{});
    const Inertia<F> unit{m.xx * scale, m.yy * scale, m.zz * scale, m.xy * scale, m.xz * scale, m.yz * scale};
    F determinant;
    const Inertia<F> i = inverse(unit, determinant);
    const auto regular = below(splat<F>(1e-12f), determinant);
    const auto choose = [&](F a) { return pick(regular, a * scale, F{}); };
    return {choose(i.xx), choose(i.yy), choose(i.zz), choose(i.xy), choose(i.xz), choose(i.yz)};
}

// Rows of bodies from their input; h is the time of a substep.
template <class F, class W>
TBS_FUNCTION void prepare_bodies(W &w, u32 block_index, u32 lane, f32 h) {
    BodyBlock &block = w.body_blocks[block_index];
    const u32 first = block_index * block_items + lane;
    const F movable = load<F>(block.movable + lane), moving = load<F>(block.moving + lane);
    const Rotation<F> q = renormalized(load_rotation<F>(block.rotation, lane));
    const Vec<F> free = load_vec<F>(block.free_linear, lane), turns = load_vec<F>(block.free_angular, lane);
    const Inertia<F> inertia = inertia_of(load_inertia<F>(block.inverse_inertia, lane));
    store_inertia(block.inertia, lane, inertia);
    store_rotation(block.rotation, lane, q);
    const F all_free = turns.x * turns.y * turns.z * movable;
    store(block.spins + lane, pick(below(F{}, inertia.xx), all_free, F{}));
    const Inertia<F> m = world_inertia<F>(block, lane, q);
    const F one_mass = load<F>(block.inverse_mass + lane) * movable;
    const Vec<F> mass = scaled(free, one_mass), at = load_vec<F>(block.position, lane);
    // + 0 turns a -0 into +0, which adding zeros keeps
    const Vec<F> linear = add_product(Vec<F>{}, load_vec<F>(block.linear, lane), scaled(free, moving));
    const Vec<F> angular = add_product(Vec<F>{}, load_vec<F>(block.angular, lane), scaled(turns, moving));
    const F time = splat<F>(h);
    const Vec<F> pull = scaled(scaled(load_vec<F>(block.acceleration, lane), movable) * free, time);
    const Vec<F> gain = add_product(pull, scaled(load_vec<F>(block.force, lane), time), mass);
    const Vec<F> turn = times(m, scaled(load_vec<F>(block.torque, lane), time));
    const F zero{};
    store_rows(RowsFrom{w.rotation[first], 8}, {q.w, q.x, q.y, q.z, zero, zero, zero, zero});
    store_rows(RowsFrom{w.velocity[first], 8},
               {linear.x, linear.y, linear.z, zero, angular.x, angular.y, angular.z, zero});
    store_rows(RowsFrom{w.gain[first], 8}, {gain.x, gain.y, gain.z, zero, turn.x, turn.y, turn.z, zero});
    store_rows(RowsFrom{w.motion[first], 8}, {zero, zero, zero, zero, zero, zero, zero, zero});
    store_rows(RowsFrom{w.carried[first], 8}, {zero, zero, zero, zero, zero, zero, zero, zero});
    store_rows(RowsFrom{w.mass[first], mass_row}, {mass.x, mass.y, mass.z, zero, at.x, at.y, at.z, zero});
    store_rows(RowsFrom{w.mass[first] + 8, mass_row}, {m.xx, m.yy, m.zz, m.xy, m.xz, m.yz, zero, zero});
}

// Velocities through a substep's forces, and through the changes by contacts in the substep before.
template <class W, class Group>
TBS_FUNCTION void begin_substep(W &w, Group &group) {
    f32 *velocity = w.velocity[0];
    const f32 *gain = w.gain[0], *carried = w.carried[0];
    group.for_each(8 * w.body_count, [&](u32 i) { velocity[i] += gain[i] + carried[i]; });
}
// Before and after contacts change velocities.
template <class W, class Group>
TBS_FUNCTION void note_velocities(W &w, Group &group) {
    const f32 *velocity = w.velocity[0];
    f32 *before = w.before[0];
    group.for_each(8 * w.body_count, [&](u32 i) { before[i] = velocity[i]; });
}
template <class W, class Group>
TBS_FUNCTION void carry_changes(W &w, Group &group) {
    const f32 *velocity = w.velocity[0], *before = w.before[0];
    f32 *carried = w.carried[0];
    group.for_each(8 * w.body_count, [&](u32 i) { carried[i] += velocity[i] - before[i]; });
}

// A vector of `most` at most.
template <class F>
TBS_FUNCTION void shorten(Vec<F> &v, F most) {
    const F square = dot(v, v);
    const auto longer = below(most * most, square);
    if (holds_for_one(longer)) v = scaled(v, pick(longer, most / root(square), splat<F>(1.0f)));
}

// The inertia of bodies that have turned far. The effect of contacts is kept as a change of velocity: it keeps its
// angular momentum.
template <class F, class W, class Far>
TBS_FUNCTION void refresh_inertia(W &w, const BodyBlock &block, u32 first, u32 lane, Rotation<F> q, Far far) {
    F row[8], kept[8];
    load_rows(RowsFrom{w.mass[first] + 8, mass_row}, row);
    load_rows(RowsFrom{w.carried[first], 8}, kept);
    const Inertia<F> before{row[0], row[1], row[2], row[3], row[4], row[5]}, m = world_inertia<F>(block, lane, q);
    const Vec<F> turn = times(m, times(inertia_of(before), Vec<F>{kept[4], kept[5], kept[6]}));
    const auto choose = [&](F a, F b) { return pick(far, a, b); };
    store_rows(RowsFrom{w.mass[first] + 8, mass_row},
               {choose(m.xx, row[0]), choose(m.yy, row[1]), choose(m.zz, row[2]), choose(m.xy, row[3]),
                choose(m.xz, row[4]), choose(m.yz, row[5]), F{}, F{}});
    store_rows(RowsFrom{w.carried[first], 8},
               {kept[0], kept[1], kept[2], kept[3], choose(turn.x, kept[4]), choose(turn.y, kept[5]),
                choose(turn.z, kept[6]), kept[7]});
}

// Poses through a substep.
//
// A body without torque keeps its angular momentum L and its energy, while its angular velocity changes with its
// rotation. In the body's frame the step turns L to L' about an axis w; where w = inverse inertia (L + L') / 2, the
// energy is the same before and after, for L' - L is across w, whatever the angle: here h |w|. L' is found by fixed-
// point iterations. (With Cayley's map in place of the exponential one it is the implicit midpoint rule of Euler's
// equations, which keeps quadratic invariants: Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.2.1 and
// VII.5.)
template <class F, class W>
TBS_FUNCTION void move_bodies(W &w, u32 block_index, u32 lane, f32 h, bool rows_for_joints) {
    BodyBlock &block = w.body_blocks[block_index];
    const u32 first = block_index * block_items + lane;
    F velocity[8], motion[8];
    load_rows(RowsFrom{w.velocity[first], 8}, velocity);
    load_rows(RowsFrom{w.motion[first], 8}, motion);
    const F time = splat<F>(h), halved = splat<F>(0.5f * h), one = splat<F>(1.0f);
    Vec<F> angular{velocity[4], velocity[5], velocity[6]};
    // a quarter of a turn in a substep at most
    const F most = splat<F>(half_pi) / time;
    shorten(angular, most);
    const Rotation<F> q = load_rotation<F>(block.rotation, lane);
    const auto spins = below(F{}, load<F>(block.spins + lane));
    const Inertia<F> inertia = load_inertia<F>(block.inertia, lane),
                     inverse_inertia = load_inertia<F>(block.inverse_inertia, lane);
    const Vec<F> own = rotate(angular, conjugate(q)), momentum = times(inertia, own);
    Vec<F> middle = own;
    const auto choose = [&](Vec<F> a, Vec<F> b) {
        return Vec<F>{pick(spins, a.x, b.x), pick(spins, a.y, b.y), pick(spins, a.z, b.z)};
    };
    Rotation<F> whole = turn_by(scaled(own, halved));
    Vec<F> end_momentum = rotate(momentum, conjugate(whole));
    TBS_NO_UNROLL
    for (u32 i = 0; i < midpoint_iterations; ++i) {
        middle = choose(times(inverse_inertia, scaled(momentum + end_momentum, splat<F>(0.5f))), own);
        shorten(middle, most);  // for a thin body the iterations may not come to an end
        whole = turn_by(scaled(middle, halved));
        end_momentum = rotate(momentum, conjugate(whole));
    }
    // The rest of the iterations: a turn along the energy's slope corrects it.
    Vec<F> end = times(inverse_inertia, end_momentum);
    const F energy = dot(momentum, own), gained = dot(end_momentum, end) - energy;
    const Vec<F> slope = cross(end_momentum, end);
    const F steep = madd(splat<F>(1e-6f) * energy, energy, dot(slope, slope)),
            some = pick(below(F{}, steep), steep, one);
    Vec<F> back = scaled(slope, gained * splat<F>(0.5f) / some);
    shorten(back, splat<F>(0.2f));  // a small turn, or it is not one: the rotation would lose its length
    const Vec<F> by = choose(scaled(back, splat<F>(0.5f)), Vec<F>{});
    end = choose(times(inverse_inertia, subtract_cross(end_momentum, back, end_momentum)), own);
    // Where they were too few for that too, the body gains no energy.
    const F had = greater(energy, F{}), left = dot(end, times(inertia, end));
    const auto more = below(had * splat<F>(1.0001f), left);
    if (holds_for_one(more)) end = scaled(end, pick(more, root(had / greater(left, splat<F>(1e-30f))), one));
    const Rotation<F> next = renormalized(renormalized(q * whole) * Rotation<F>{one, by.x, by.y, by.z});
    const Vec<F> turned_by = rotate(middle, q), after = rotate(end, next);
    angular = choose(after, angular);
    motion[0] = madd(velocity[0], time, motion[0]);
    motion[1] = madd(velocity[1], time, motion[1]);
    motion[2] = madd(velocity[2], time, motion[2]);
    motion[4] = madd(turned_by.x, time, motion[4]);
    motion[5] = madd(turned_by.y, time, motion[5]);
    motion[6] = madd(turned_by.z, time, motion[6]);
    velocity[4] = angular.x, velocity[5] = angular.y, velocity[6] = angular.z;
    store_rotation(block.rotation, lane, next);
    // How much the inverse inertia has changed through turning: 0 for a ball or a cube.
    const F uneven = (inertia.xx + inertia.yy + inertia.zz) *
                     (inverse_inertia.xx + inverse_inertia.yy + inverse_inertia.zz) * splat<F>(1.0f / 9.0f);
    const Vec<F> turned{motion[4], motion[5], motion[6]};
    const F changed = pick(spins, dot(turned, turned) * (uneven - one), F{});
    const auto far = below(splat<F>(refresh_at), changed);
    motion[7] = pick(far, one, F{});
    store_rows(RowsFrom{w.motion[first], 8}, motion);
    store_rows(RowsFrom{w.velocity[first], 8}, velocity);
    store_rows(RowsFrom{w.before[first], 8}, velocity);
    if (holds_for_one(far)) refresh_inertia<F>(w, block, first, lane, next, far);
    if (rows_for_joints) {  // which are prepared anew in each substep
        const Inertia<F> m = world_inertia<F>(block, lane, next);
        store_rows(RowsFrom{w.mass[first] + 8, mass_row}, {m.xx, m.yy, m.zz, m.xy, m.xz, m.yz, F{}, F{}});
        store_rows(RowsFrom{w.rotation[first], 8}, {next.w, next.x, next.y, next.z, F{}, F{}, F{}, F{}});
    }
}

// How long bodies have been at rest.
template <class W, class Group>
TBS_FUNCTION void count_rest(W &w, Group &group, const Settings &settings) {
    group.for_each(w.body_count, [&](u32 i) {
        BodyBlock &block = w.body_blocks[i / block_items];
        const u32 lane = i % block_items;
        if (block.movable[lane] == 0.0f) return;
        const f32 *v = w.velocity[i];
        const f32 linear = length_squared(vec3{v[0], v[1], v[2]}), angular = length_squared(vec3{v[4], v[5], v[6]});
        const bool still = linear < settings.still_linear * settings.still_linear &&
                           angular < settings.still_angular * settings.still_angular && block.forced[lane] == 0;
        block.still[lane] = still ? block.still[lane] + settings.time : 0.0f;
    });
}
