// The bodies of a world while it takes a step: gathered from all archetypes that have a pose and a shape.
//
// Bodies are numbered through all archetypes, in the order of world.tables. Those that have a velocity and a mass are
// movers too: only they are known to the solver, with numbers of their own.
#pragma once

#include "physics/collide.h"
#include "physics/crossing.h"
#include "physics/make.h"

inline constexpr bool sums_friction = Constants::contact_forces != 0;  // asked for by archetypes with ContactForce

#include "physics/solver.h"
#include "physics/sound.h"

inline constexpr u32 most_bodies = u32(Constants::bodies), most_movers = u32(Constants::movers);
inline constexpr u32 most_contacts = u32(Constants::contacts), most_pairs = u32(Constants::pairs);
inline constexpr u32 most_joints = u32(Constants::joints);
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

// The solver's memory: on a device in `Core`, which is on chip if it is small enough.
using Solver = Workspace<most_movers, most_contacts, most_joints, has_chip ? u32(sizeof(Core)) : 0>;

// All else that a step works on. Both are the library's workspace: nothing in them outlives the step.
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
    u32 held[most_bodies];         // the sum of the marks of all joints that hold it
    Manifold manifold[Warp::lanes];  // of the pair that a lane looks at
    u32 place[most_pairs];         // which contact the pair has become, or no_place
    vec3 pushed_by[sums_friction ? most_bodies : 1];  // by contacts in the whole step, N s
    Solver *solver;
    Solver::Beside beside_solver;
};
inline constexpr u32 no_place = 0xffffffffu;

// The step in the library's workspace.
template <class Group>
TBS_FUNCTION Step &begin_step(Space &space, Core &core, Group &group) {
    Step &step = workspace_as<Step>(space, group);
    Solver &solver = workspace_as<Solver>(core, group);
    group.once([&] {
        step.solver = &solver;
        solver.put_beside(step.beside_solver);
    });
    return step;
}

// The greatest distance of a point of a shape from its origin.
TBS_FUNCTION f32 radius_of(const Geometry &shape) {
    switch (shape.kind) {
        case SPHERE: return shape.size.x;
        case CAPSULE: return shape.size.x + shape.size.y;
        case BOX: return length(shape.size);
        case HULL: {
            f32 most = 0.0f;
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

// Fills the step with the bodies of a world. Returns whether all of them are sound; else it has reported a fault.
template <class Group>
TBS_FUNCTION bool gather(World &world, const Hulls &hulls, Step &step, const Settings &settings, vec3 gravity,
                         Group &group) {
    Solver &solver = *step.solver;
    const f32 time = settings.time;
    const Material usual = default_material(world);
    u32 movers = 0, bodies = 0, unsound = 0;
    world.tables<const Pose, const Shape, Optional<const Velocity>, Optional<const Mass>, Optional<const Motion>,
                 Optional<const Material>, Optional<const Force>, Optional<const Filter>>(
        [&](auto table, auto poses, auto shapes, auto velocities, auto masses, auto motions, auto materials, auto forces,
            auto filters) {
            constexpr bool moves = velocities.there && masses.there && motions.there;
            const u32 first_mover = movers;
            unsound += group.count(table.count, [&](u32 i) {
                const u32 body = table.first + i;
                const Pose pose = poses[i];
                const Shape shape = shapes[i];
                const bool finite = is_finite(pose.position) && is_rotation(pose.rotation);
                const bool fits = is_shape(shape);
                bool sound = finite && fits;
                if (!finite) world.fail(Fault::not_finite, table.place(i, wrong_in(pose)));
                if (!fits) world.fail(Fault::bad_shape, table.place(i, wrong_in(shape)));
                step.at[body] = {pose.position, normalize(pose.rotation)};
                step.shape[body] = shape;
                step.material[body] = materials.value_or(i, usual);
                if constexpr (materials.there) {
                    if (!is_material(step.material[body])) {
                        world.fail(Fault::bad_material, table.place(i, wrong_in(step.material[body])));
                        sound = false;
                    }
                }
                step.entity[body] = table.entity(i);
                const Filter filter = filters.value_or(i, Filter{1, 0xffffffffu});
                step.group[body] = filter.group;
                step.mask[body] = filter.mask;
                step.mover[body] = moves ? first_mover + i : no_body;
                step.pushed[body] = 0;
                step.reach[body] = step.reach_around[body] = step.drift[body] = 0.0f;
                step.ahead[body] = {};
                if constexpr (Constants::sleep != 0) {
                    step.mark[body] = mark_of(shape, filter, moves ? Motion(motions[i]) : Motion{});
                    step.mark[body] += mark_of(step.material[body]) + (moves ? mark_of(Mass(masses[i])) : 0);
                    step.mark_of_pose[body] = mark_of(pose.position, pose.rotation);
                }
                if (moves) {
                    const Velocity velocity = velocities[i];
                    const Mass mass = masses[i];
                    const Motion motion = motions[i];
                    const Force force = forces.value_or(i, Force{});
                    const SolverBody own = solver_body(pose, velocity, mass, motion, force, gravity);
                    const bool moving = is_finite(velocity.linear) && is_finite(velocity.angular) &&
                                        is_finite(force.force) && is_finite(force.torque) &&
                                        is_finite(own.acceleration) && is_finite(own.still);
                    const bool heavy = is_mass(mass) && u32(motion.kind) <= body_dynamic &&
                                       (mass.inverse > 0.0f || u32(motion.kind) != body_dynamic);
                    if (!moving) world.fail(Fault::not_finite, table.place(i, wrong_in(velocity, force, motion)));
                    if (!heavy) world.fail(Fault::bad_mass, table.place(i, wrong_in(mass, motion)));
                    sound = sound && moving && heavy;
                    put_body(solver, first_mover + i, own);
                    const Geometry geometry = geometry_of(hulls, shape);
                    step.pushed[body] = own.kind == body_dynamic;
                    const bool far = length(velocity.angular) * time > far_turn;
                    step.slow[first_mover + i] =
                        fits && own.kind == body_dynamic && !far ? fast_share * inner_radius(geometry) : 0.0f;
                    if (sound && own.kind != body_static) {
                        const f32 *const turns = mass.inverse_inertia;  // whose trace is not less than any answer to a torque
                        const f32 torque = length(force.torque) * (turns[0] + turns[1] + turns[2]);
                        const bool dynamic = own.kind == body_dynamic;
                        const f32 radius = radius_of(geometry);
                        step.drift[body] = time * (length(velocity.linear) + length(velocity.angular) * radius);
                        const f32 gain = time * (length(gravity) + (dynamic ? torque * radius : 0.0f));
                        step.reach_around[body] = step.drift[body] + time * gain;
                        // The way from rest, in substeps that each go on with the speed at their end.
                        const f32 share = 0.5f + divide(0.5f, f32(settings.substeps));
                        step.ahead[body] =
                            dynamic ? force.force * (share * time * time * mass.inverse) : vec3{};
                        step.reach[body] = step.reach_around[body] + length(step.ahead[body]);
                    }
                }
                return !sound;
            });
            bodies = table.first + table.count;
            if (moves) movers += table.count;
        });
    group.once([&] {
        step.bodies = bodies;
        step.movers = movers;
        solver.body_count = movers;
    });
    return unsound == 0;
}

// Writes poses and velocities back to their rows.
template <class Group>
TBS_FUNCTION void scatter(World &world, const Step &step, Group &group) {
    const Solver &solver = *step.solver;
    u32 movers = 0;
    world.tables<Pose, const Shape, Velocity, const Mass, Motion>(
        [&](auto table, auto poses, auto, auto velocities, auto, auto motions) {
            const u32 first_mover = movers;
            group.for_each(table.count, [&](u32 i) {
                SolverBody body{};  // of one that stands the solver says nothing
                body.position = poses[i].position;
                body.rotation = poses[i].rotation;
                body.linear = velocities[i].linear;
                body.angular = velocities[i].angular;
                take_body(solver, first_mover + i, body);
                poses[i] = Pose{body.position, body.rotation};
                velocities[i] = Velocity{body.linear, body.angular};
                motions[i].still = body.still;
            });
            movers += table.count;
        });
}
