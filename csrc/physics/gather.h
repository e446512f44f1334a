// The bodies of a world while it takes a step: gathered from all archetypes that have a pose and a shape.
//
// Bodies are numbered through all archetypes, in the order of world.tables. Those that have a velocity and a mass are
// movers too: only they are known to the solver, with numbers of their own.
#pragma once

#include "physics/collide.h"
#include "physics/crossing.h"
#include "physics/make.h"
#include "physics/solve_world.h"
#include "physics/sound.h"

inline constexpr u32 most_bodies = u32(Constants::bodies), most_movers = u32(Constants::movers);
inline constexpr u32 most_contacts = u32(Constants::contacts), most_pairs = u32(Constants::pairs);
inline constexpr u32 most_joints = u32(Constants::joints);
inline constexpr bool has_parts = Constants::parts != 0;  // some archetype has Part
inline constexpr u32 parted_bodies = has_parts ? most_bodies : 1;
inline constexpr u32 body_words = (most_bodies + 31) / 32;
// Worlds with room for more bodies than this compare those that are near each other only (broad_sorted.h).
inline constexpr bool sorts_bodies = most_bodies > 256;
inline constexpr u32 sorted_words = sorts_bodies ? body_words + 1 : 1, sorted_cells = sorts_bodies ? 258 : 1;

// Bodies that the step before knew, where some sleep.
inline constexpr u32 marked_bodies = Constants::sleep != 0 ? most_bodies : 1;

// Bounds side by side, to the end of a word of 32.
template <u32 words>
struct Boxes {
    alignas(16) f32 low_x[32 * words], low_y[32 * words], low_z[32 * words];
    alignas(16) f32 high_x[32 * words], high_y[32 * words], high_z[32 * words];
};

// Two bodies that may touch, by their numbers.
struct Pair {
    u32 a, b;  // a is dynamic; where both are, a < b
};

// Where the two touch, as the solver's contact takes it.
struct Touching {
    struct Point {
        vec3 anchors;  // the sum of those of the manifold
        f32 separation;
        u32 feature;
    };
    vec3 normal;
    u16 count, corners;  // of points: 0 where they do not touch
    Point points[4];
};
// A device finds those of all pairs before it lists contacts.
inline constexpr u32 most_touches = on_device ? most_pairs : 1;

// All that a step works on, beside the solver's memory on chip. The library's workspace: nothing in it outlives the step.
struct Step {
    u32 bodies, movers, pairs;
    Transform at[most_bodies];
    Shape shape[most_bodies];
    Material material[most_bodies];
    Entity entity[most_bodies];
    f32 reach[most_bodies];        // how far its surface may come in this step, beyond where it is
    f32 reach_around[most_bodies];  // the part of it that is in any direction
    vec3 ahead[most_bodies];       // the rest, by its force: m
    f32 drift[most_bodies];        // how far its surface goes in the step as it moves now, at most: m
    vec3 way[most_bodies];         // of its centre in the step, as far as it comes before it passes through others: m
    u32 mover[most_bodies];        // its number in the solver, or no_body
    u32 owner[parted_bodies];      // the body whose shape it is: of a part another one, of a body itself
    Transform local[parted_bodies];  // of a part, in the frame of its body
    f32 turn[parted_bodies];       // how far the body may turn in this step: rad
    f32 slow[(most_movers + block_items - 1) / block_items * block_items];  // of movers: how far one that is not fast goes
    u32 pushed[most_bodies];       // 1 where contacts push it: of dynamic bodies
    u32 group[most_bodies], mask[most_bodies];
    u32 before[most_bodies];       // its number in the step before, or no_body
    u32 mark[marked_bodies], mark_of_pose[marked_bodies];  // of an author's values, wake.h
    Boxes<body_words> boxes;
    u32 pushed_bits[body_words];
    u32 near[most_bodies][body_words];  // bit j: bounds touch those of body j, to be looked at by this one
    Boxes<sorted_words> sorted_boxes;  // in the order of the cells in which bodies are
    Boxes<(sorted_words + 31) / 32> word_boxes;  // around 32 of them
    u32 sorted[32 * sorted_words], cell[sorts_bodies ? most_bodies : 1], cell_end[sorted_cells];
    Pair pair[most_pairs];
    Pair joint_bodies[most_joints];
    u32 joint_turned[most_joints], joint_idle[most_joints];  // seen from its other body; not for the solver
    u32 joint_collides[most_joints], joint_mark[most_joints];
    f32 joint_drive[most_joints];  // how far its drive may bring its bodies in this step: rad or m
    u32 held[most_bodies];         // the sum of the marks of all joints that hold it
    Touching touch[most_touches];  // of pairs
    u32 place[most_pairs];         // which contact the pair has become, or no_place
    vec3 pushed_by[sums_friction ? most_bodies : 1];  // by contacts in the whole step, N s
    SolverMemory solver;
    u32 sound;  // 1: the world takes part; else a fault has been reported

    TBS_METHOD Touching &touch_of(u32 i) { return touch[on_device ? i : 0]; }
};
inline constexpr u32 no_place = 0xffffffffu;

TBS_FUNCTION vec3 gravity_of(const World &world) {
    return {world.parameters.physics.gravity_x, world.parameters.physics.gravity_y, world.parameters.physics.gravity_z};
}

TBS_FUNCTION Settings settings_of(const World &world) {
    Settings settings = default_settings();
    settings.time = world.parameters.physics.time;
    settings.substeps = u32(world.parameters.physics.substeps);
    settings.sleep = u32(Constants::sleep);
    settings.restitution_speed = world.parameters.physics.restitution_speed;
    return settings;
}

// The greatest distance of a point of a shape from its origin.
TBS_FUNCTION f32 radius_of(const Geometry &shape) {
    switch (shape.kind) {
        case SPHERE: return shape.size.x;
        case CAPSULE: return shape.size.x + shape.size.y;
        case BOX: return length(shape.size);
        case HULL: {
            f32 most = 0.0f;
            TBS_ROLLED
            for (u32 i = 0; i < shape.hull->vertices; ++i) most = max(most, length_squared(shape.hull->vertex(i) * shape.size));
            return sqrt(most);
        }
        default: return 0.0f;
    }
}

// A body is fast that moves by more than this share of its inner radius in a step (continuous.h).
inline constexpr f32 fast_share = 0.5f;

// A body that turns by more than this in a step, in rad, is fast too, as is one that would but for its contacts: they
// miss it, and it may work its way in slowly.
inline constexpr f32 far_turn = 1.0f;

// The solver's body of a row.
TBS_FUNCTION SolverBody solver_body(const Pose &pose, const Velocity &velocity, const Mass &mass, const Motion &motion,
                                    const Force &force, vec3 gravity) {
    const f32 *const i = mass.inverse_inertia;
    SolverBody body;
    body.position = pose.position;
    body.rotation = pose.rotation;
    body.linear = velocity.linear;
    body.angular = velocity.angular;
    body.acceleration = gravity * motion.gravity;
    body.force = force.force;
    body.torque = force.torque;
    body.inverse_mass = mass.inverse;
    body.inverse_inertia = Symmetric{i[0], i[1], i[2], i[3], i[4], i[5]};
    body.kind = u32(motion.kind);
    body.locks = u32(motion.locks);
    body.still = motion.still;
    return body;
}

// Numbers for a body's pose, and for everything else that an author writes of it but velocity and force: different
// ones hardly ever have the same number.
TBS_FUNCTION u32 mark_of(vec3 v) {
    return to_bits(v.x) * 0x9e3779b1u + to_bits(v.y) * 0x85ebca77u + to_bits(v.z) * 0xc2b2ae3du;
}
TBS_FUNCTION u32 mark_of(vec3 position, quat rotation) {
    return mark_of(position) + to_bits(rotation.w) * 0x27d4eb2fu + 31u * mark_of({rotation.x, rotation.y, rotation.z});
}
TBS_FUNCTION u32 mark_of(const Shape &shape, const Filter &filter, const Motion &motion) {
    return 7u * mark_of(shape.size) + u32(shape.kind) * 0x165667b1u + u32(shape.hull) * 0x2545f491u +
           filter.group * 0x9e3779b1u + filter.mask * 0x85ebca77u + u32(motion.kind) * 0xc2b2ae3du +
           u32(motion.locks) * 0x27d4eb2fu + to_bits(motion.gravity) * 0x1b873593u;
}
TBS_FUNCTION u32 mark_of(const Material &material) {
    return 13u * mark_of(vec3{material.static_friction, material.dynamic_friction, material.restitution});
}
TBS_FUNCTION u32 mark_of(const Mass &mass) {
    const f32 *const m = mass.inverse_inertia;
    return to_bits(mass.inverse) * 0x27d4eb2fu + 17u * mark_of(vec3{m[0], m[1], m[2]}) +
           19u * mark_of(vec3{m[3], m[4], m[5]});
}

// Where a row's components are; nullptr for those that its table lacks.
struct RowPlace {
    const Pose *pose;
    const Shape *shape;
    const Material *material;
    const Filter *filter;
    const Velocity *velocity;
    const Mass *mass;
    const Motion *motion;
    const Force *force;
};
template <class Rows>
TBS_FUNCTION auto place_in(const Rows &rows, u32 i) {
    if constexpr (Rows::there) {
        return &rows[i];
    } else {
        return nullptr;
    }
}

// A row of a body, with defaults for all that its table lacks.
struct BodyRow {
    Pose pose;
    Shape shape;
    Material material;
    Filter filter;
    Velocity velocity;
    Mass mass;
    Motion motion;
    Force force;
};

// The first fault of a row, by the number of its sentence.
struct Wrong {
    Fault fault;
    u32 sentence;
    bool is;
};

// The first fault of a row's components; of a body that moves, also of those with its motion.
TBS_FUNCTION Wrong wrong_in(const BodyRow &row, bool moves, vec3 acceleration) {
    const Velocity &velocity = row.velocity;
    const Force &force = row.force;
    if (!is_finite(row.pose.position) || !is_rotation(row.pose.rotation))
        return {Fault::not_finite, wrong_in(row.pose), true};
    const bool moving = is_finite(velocity.linear) && is_finite(velocity.angular) && is_finite(force.force) &&
                        is_finite(force.torque) && is_finite(acceleration) && is_finite(row.motion.still);
    if (moves && !moving) return {Fault::not_finite, wrong_in(velocity, force, row.motion), true};
    if (!is_shape(row.shape)) return {Fault::bad_shape, wrong_in(row.shape), true};
    const u32 kind = u32(row.motion.kind);
    const bool heavy = is_mass(row.mass) && kind <= body_dynamic && (row.mass.inverse > 0.0f || kind != body_dynamic);
    if (moves && !heavy) return {Fault::bad_mass, wrong_in(row.mass, row.motion), true};
    if (!is_material(row.material)) return {Fault::bad_material, wrong_in(row.material), true};
    return {};
}

// Puts a row into the step as body `body`. `mover`: its number in the solver, or no_body.
TBS_CALLED Wrong take_row(const Hulls &hulls, Step &step, const Settings &settings, vec3 gravity, u32 body, u32 mover,
                          const Material &usual, const RowPlace &from) {
    const bool moves = mover != no_body;
    BodyRow row{from.pose != nullptr ? *from.pose : Pose{{}, {1, 0, 0, 0}}, *from.shape,
                from.material != nullptr ? *from.material : usual,
                from.filter != nullptr ? *from.filter : Filter{1, 0xffffffffu}, {}, {}, {}, {}};
    if (moves) {
        row.velocity = *from.velocity, row.mass = *from.mass, row.motion = *from.motion;
        row.force = from.force != nullptr ? *from.force : Force{};
    }
    const f32 time = settings.time;
    const Filter filter = row.shape.kind == NOTHING ? Filter{0, 0} : row.filter;
    step.at[body] = {row.pose.position, normalize(row.pose.rotation)};
    step.shape[body] = row.shape;
    step.material[body] = row.material;
    step.group[body] = filter.group;
    step.mask[body] = filter.mask;
    step.mover[body] = mover;
    step.pushed[body] = 0;
    step.reach[body] = step.reach_around[body] = step.drift[body] = 0.0f;
    step.ahead[body] = {};
    if constexpr (has_parts) step.turn[body] = 0.0f;
    if constexpr (Constants::sleep != 0) {
        step.mark[body] = mark_of(row.shape, filter, row.motion);
        step.mark[body] += mark_of(row.material) + (moves ? mark_of(row.mass) : 0);
        step.mark_of_pose[body] = mark_of(row.pose.position, row.pose.rotation);
    }
    const SolverBody own = solver_body(row.pose, row.velocity, row.mass, row.motion, row.force, gravity);
    const Wrong wrong = wrong_in(row, moves, own.acceleration);
    if (!moves) return wrong;
    put_body(step.solver, mover, own);
    const bool dynamic = own.kind == body_dynamic;
    step.pushed[body] = dynamic;
    step.slow[mover] = 0.0f;
    if (wrong.is) return wrong;
    const Geometry geometry = geometry_of(hulls, row.shape);
    const f32 spin = length(row.velocity.angular);
    if (dynamic && !(spin * time > far_turn)) step.slow[mover] = fast_share * inner_radius(geometry);
    if (own.kind == body_static) return wrong;
    const f32 *const turns = row.mass.inverse_inertia;  // whose trace is not less than any answer to a torque
    const f32 torque = dynamic ? length(row.force.torque) * (turns[0] + turns[1] + turns[2]) : 0.0f;
    const f32 radius = radius_of(geometry);
    step.drift[body] = time * (length(row.velocity.linear) + spin * radius);
    step.reach_around[body] = step.drift[body] + time * time * (length(gravity) + torque * radius);
    if constexpr (has_parts) step.turn[body] = time * (spin + time * torque);
    // The way from rest, in substeps that each go on with the speed at their end.
    const f32 share = 0.5f + divide(0.5f, f32(settings.substeps));
    if (dynamic) step.ahead[body] = row.force.force * (share * time * time * row.mass.inverse);
    step.reach[body] = step.reach_around[body] + length(step.ahead[body]);
    return wrong;
}

// Fills the step with the bodies of a world. Returns whether all of them are sound; else it has reported a fault.
template <class Group>
TBS_FUNCTION bool gather(World &world, const Hulls &hulls, Step &step, const Settings &settings, vec3 gravity,
                         Group &group) {
    const Material usual = default_material(world);
    u32 movers = 0, bodies = 0;
    bool unsound = false;
    world.tables<const Pose, const Shape, Optional<const Velocity>, Optional<const Mass>, Optional<const Motion>,
                 Optional<const Material>, Optional<const Force>, Optional<const Filter>, Optional<const Part>>(
        [&](auto table, auto poses, auto shapes, auto velocities, auto masses, auto motions, auto materials, auto forces,
            auto filters, auto parts) {
            constexpr bool moves = velocities.there && masses.there && motions.there;
            const u32 first_mover = movers;
            unsound |= group.any(table.count, [&](u32 i) {
                RowPlace from{nullptr, &shapes[i], place_in(materials, i), place_in(filters, i), nullptr, nullptr, nullptr, nullptr};
                if constexpr (!parts.there) from.pose = &poses[i];  // of a part place_parts finds the pose
                if constexpr (moves) {
                    from.velocity = &velocities[i], from.mass = &masses[i], from.motion = &motions[i];
                    from.force = place_in(forces, i);
                }
                const u32 body = table.first + i, mover = moves ? first_mover + i : no_body;
                step.entity[body] = table.entity(i);
                if constexpr (has_parts) step.owner[body] = parts.there ? no_body : body;
                const Wrong wrong = take_row(hulls, step, settings, gravity, body, mover, usual, from);
                if (wrong.is) world.fail(wrong.fault, table.place(i, wrong.sentence));
                return wrong.is;
            });
            bodies = table.first + table.count;
            if (moves) movers += table.count;
        });
    group.once([&] {
        step.bodies = bodies;
        step.movers = movers;
        step.solver.body_count = movers;
    });
    return !unsound;
}

TBS_ONE_COPY void scatter_row(const SolverMemory &solver, u32 mover, Pose &pose, Velocity &velocity, Motion &motion) {
    SolverBody body{};  // of one that stands the solver says nothing
    body.position = pose.position;
    body.rotation = pose.rotation;
    body.linear = velocity.linear;
    body.angular = velocity.angular;
    take_body(solver, mover, body);
    pose = Pose{body.position, body.rotation};
    velocity = Velocity{body.linear, body.angular};
    motion.still = body.still;
}

// Writes poses and velocities back to their rows.
template <class Group>
TBS_FUNCTION void scatter(World &world, const Step &step, Group &group) {
    const SolverMemory &solver = step.solver;
    u32 movers = 0;
    world.tables<Pose, const Shape, Velocity, const Mass, Motion>(
        [&](auto table, auto poses, auto, auto velocities, auto, auto motions) {
            const u32 first_mover = movers;
            group.for_each(table.count,
                           [&](u32 i) { scatter_row(solver, first_mover + i, poses[i], velocities[i], motions[i]); });
            movers += table.count;
        });
}
