// Contacts as constraints: soft in the normal direction (Catto 2023, "Solver2D": soft step), friction at the middle.
//
// A contact is seen in a frame of its own: the normal and two tangents, at the middle of its points. The bodies'
// relative velocity there is six numbers, and their change by an impulse at a point stays the same during a step. So
// the 4 normal impulses, the friction and the twist about the normal are solved one after the other (Gauss and Seidel)
// by few numbers, and bodies are read and written once.
#pragma once

#include "physics/colouring.h"

// The sums of friction over the step, along first and second: N s, where they are wanted.
template <bool wanted>
struct FrictionSums {
    f32 slid[2][block_items];

    template <class F>
    TBS_METHOD void begin_sums(u32 lane) {
        store(slid[0] + lane, F{});
        store(slid[1] + lane, F{});
    }
    template <class F>
    TBS_METHOD void add_to_sums(u32 lane, F first, F second) {
        store(slid[0] + lane, load<F>(slid[0] + lane) + first);
        store(slid[1] + lane, load<F>(slid[1] + lane) + second);
    }
    TBS_METHOD vec3 sum(u32 lane, const Vec<f32> &first, const Vec<f32> &second) const {
        const Vec<f32> all = add_scaled(scaled(first, slid[0][lane]), second, slid[1][lane]);
        return {all.x, all.y, all.z};
    }
};
template <>
struct FrictionSums<false> {
    template <class F>
    TBS_METHOD void begin_sums(u32) {}
    template <class F>
    TBS_METHOD void add_to_sums(u32, F, F) {}
    TBS_METHOD vec3 sum(u32, const Vec<f32> &, const Vec<f32> &) const { return {}; }
};

struct ContactBlock : FrictionSums<sums_friction> {
    u32 a[block_items], b[block_items];                                        // rows of bodies
    f32 normal[3][block_items], first[3][block_items], second[3][block_items];  // the frame
    f32 mass_a[3][block_items], mass_b[3][block_items];                         // inverse ones
    f32 inertia_a[6][block_items], inertia_b[6][block_items];
    f32 arm_a[3][block_items], arm_b[3][block_items];  // to the middle
    // How much of the way of b relative to a the middle goes with each, and the way that it has gone.
    f32 share[block_items], gone[3][block_items];
    f32 along_first[4][block_items], along_second[4][block_items];  // points, from the middle
    // The effective mass of a point; the changes by its impulse at others (01, 02, 03, 12, 13, 23) and of the friction.
    f32 mass[4][block_items], between[6][block_items];
    f32 on_first[4][block_items], on_second[4][block_items], on_twist[4][block_items];
    // The twist acts at a lever, so that it is a speed and an impulse like friction. Effective masses: of friction, 11,
    // 12, 22; of both, the least; of the twist.
    f32 stick[3][block_items], slip[block_items];
    f32 first_on_twist[block_items], second_on_twist[block_items], twist_mass[block_items];
    f32 lever[block_items], keep[block_items], slide[block_items], bounce[block_items];
    f32 preload[block_items];  // m by which springs are pressed in before bodies overlap
    f32 start[4][block_items], separation[4][block_items];
    f32 approach[4][block_items], fall[block_items];  // speed at the impact; its gain by forces in a substep
    f32 impulse[4][block_items], friction[2][block_items], twist[block_items];
    // N s of points: in the step, or since it was known whether they bounce; and of all of them before that.
    f32 total[4][block_items], done[block_items];
};

// The numbers of a spring-damper under implicit integration (Catto 2011, "Soft constraints").
struct Soft {
    f32 rate, mass, impulse;  // 1/s; shares
};
TBS_FUNCTION Soft soft(f32 hertz, f32 damping, f32 h) {
    if (!(hertz > 0.0f)) return {0.0f, 1.0f, 0.0f};
    const f32 omega = tau * hertz, a1 = fma(h, omega, 2.0f * damping), a2 = h * omega * a1,
              a3 = divide(1.0f, 1.0f + a2);
    return {divide(omega, a1), a2 * a3, a3};
}

// Constants of passes over contacts and joints.
struct Pace {
    f32 h, per_h;  // s of a substep
    Soft contact, joint;
    f32 push_out_speed, restitution_speed;
    f32 slop, stiffness, preload;  // m; N s in a substep for each m and kg; share of the way to the wanted one in a step
    u32 left;                      // substeps of the step behind this one
};

inline constexpr f32 no_point = 1e9f;  // the separation of missing points

// A load would press the springs of a contact in by load / stiffness: 100 times as far under 100 times the weight. So
// they are preloaded, towards this share of the load, at this rate. The same for all points of a contact: with a
// preload of its own for each, bodies would rock. A slow one: impulses take time to come down through a stack.
inline constexpr f32 preload_share = 0.95f, preload_rate = 2.0f;  // 1/s
// Of the rate of substeps: the frequency of the stiffest springs. One pass over contacts in a substep answers a load as
// a spring would (each one pushes against motion anew); a stiffer one oscillates.
inline constexpr f32 most_contact_rate = 0.2f;

// The mean distance from the middle of an even pressure over a face with so many corners, in shares of that of the
// corners: the lever of friction about the normal. 1/2 along a line, 2/3 in a disc; of regular polygons within 1 %, of
// triangles within 5 % and of rectangles within 8 %.
TBS_FUNCTION f32 lever_of_face(u32 corners) {
    const f32 n = f32(corners);
    return corners < 3 ? 0.5f : 2.0f / 3.0f - divide(2.0f, n * n);
}

// Writes a contact into its place, from where prepare_contact goes on: so that the first body can be moved, and points
// are seen from it.
template <class W>
TBS_FUNCTION void place_contact(W &w, const SolverContact &contact, ContactBlock &block, u32 lane) {
    const bool flip = !is_movable(w, contact.a);
    const u32 a = flip ? contact.b : contact.a, b = flip ? contact.a : contact.b;
    const f32 sign = flip ? -1.0f : 1.0f;
    block.a[lane] = a;
    block.b[lane] = row_of(w, b);
    vec3 from{0, 0, 0};  // of the anchors, seen from body a
    if (flip) {
        const f32 *at = w.mass[a] + 4, *other = w.mass[b] + 4;
        from = {other[0] - at[0], other[1] - at[1], other[2] - at[2]};
    }
    store_vec<f32>(block.normal, lane, {sign * contact.normal.x, sign * contact.normal.y, sign * contact.normal.z});
    store_vec<f32>(block.arm_b, lane,
                   {sign * contact.friction.x, sign * contact.friction.y, sign * contact.friction.z});
    block.twist[lane] = contact.twist;
    block.slide[lane] = contact.dynamic_friction;
    block.keep[lane] = greater(contact.static_friction, contact.dynamic_friction);
    block.bounce[lane] = contact.restitution;
    block.preload[lane] = contact.preload;
    block.lever[lane] = lever_of_face(contact.corners < contact.count ? contact.count : contact.corners);
    TBS_ROLLED
    for (u32 k = 0; k < points_per_contact; ++k) {
        const ContactPoint &point = contact.points[k];
        const bool some = k < contact.count;
        block.on_first[k][lane] = some ? from.x + point.anchor.x : 0.0f;
        block.on_second[k][lane] = some ? from.y + point.anchor.y : 0.0f;
        block.on_twist[k][lane] = some ? from.z + point.anchor.z : 0.0f;
        block.start[k][lane] = some ? point.separation : no_point;
        block.impulse[k][lane] = some ? point.impulse : 0.0f;
    }
}
// A place without a contact.
template <class W>
TBS_FUNCTION void place_nothing(W &, ContactBlock &block, u32 lane) {
    block.a[lane] = block.b[lane] = W::ground;
    store_vec<f32>(block.normal, lane, {});
    store_vec<f32>(block.arm_b, lane, {});
    block.twist[lane] = block.slide[lane] = block.keep[lane] = block.bounce[lane] = 0.0f;
    block.preload[lane] = block.lever[lane] = 0.0f;
    for (u32 k = 0; k < points_per_contact; ++k) {
        block.on_first[k][lane] = block.on_second[k][lane] = block.on_twist[k][lane] = block.impulse[k][lane] = 0.0f;
        block.start[k][lane] = no_point;
    }
}

template <class F>
struct Frame {
    Vec<F> normal, first, second;  // right-handed: first x second = normal
};
template <class F>
TBS_FUNCTION Frame<F> load_frame(const ContactBlock &block, u32 lane) {
    return {load_vec<F>(block.normal, lane), load_vec<F>(block.first, lane), load_vec<F>(block.second, lane)};
}
// Tangents of a normal without a branch (Duff et al. 2017, "Building an orthonormal basis, revisited").
template <class F>
TBS_FUNCTION Frame<F> frame_of(Vec<F> n) {
    const F one = splat<F>(1.0f), sign = pick(below(n.z, F{}), -one, one), a = -one / (sign + n.z), b = n.x * n.y * a;
    return {n, {madd(sign * n.x * n.x, a, one), sign * b, -(sign * n.x)}, {b, madd(n.y * n.y, a, sign), -n.y}};
}

// 1 / a, and 0 where a is not above 0.
template <class F>
TBS_ONE_COPY F inverse_or_zero(F a) {
    const auto some = below(F{}, a);
    return pick(some, splat<F>(1.0f) / pick(some, a, splat<F>(1.0f)), F{});
}

// Velocities relative to the contact's frame that a unit impulse along each of its axes causes by turning one body.
template <class F>
struct Response {
    F nn, n1, n2, s11, s12, s22;  // of impulses along normal, first, second at the middle
    F n_tn, n_t1, n_t2, s1_tn, s1_t1, s1_t2, s2_tn, s2_t1, s2_t2;  // of these on turning about normal, first, second
    F tnn, tn1, tn2, t11, t12, t22;                                // of torques
};
template <class F>
TBS_FUNCTION Response<F> response(const Frame<F> &f, const Inertia<F> &inertia, Vec<F> arm) {
    const Vec<F> mn = times(inertia, f.normal), m1 = times(inertia, f.first), m2 = times(inertia, f.second);
    Response<F> r;
    r.tnn = dot(f.normal, mn), r.tn1 = dot(f.normal, m1), r.tn2 = dot(f.normal, m2);
    r.t11 = dot(f.first, m1), r.t12 = dot(f.first, m2), r.t22 = dot(f.second, m2);
    const F n = dot(arm, f.normal), x = dot(arm, f.first), y = dot(arm, f.second);
    // the arm crossed with normal, first, second: (y, -x) in (first, second); (-y, n) in (normal, second); (x, -n) in
    // (normal, first)
    r.n_tn = madd(y, r.tn1, -(x * r.tn2)), r.n_t1 = madd(y, r.t11, -(x * r.t12)), r.n_t2 = madd(y, r.t12, -(x * r.t22));
    r.s1_tn = madd(n, r.tn2, -(y * r.tnn)), r.s1_t1 = madd(n, r.t12, -(y * r.tn1)),
    r.s1_t2 = madd(n, r.t22, -(y * r.tn2));
    r.s2_tn = madd(x, r.tnn, -(n * r.tn1)), r.s2_t1 = madd(x, r.tn1, -(n * r.t11)),
    r.s2_t2 = madd(x, r.tn2, -(n * r.t12));
    r.nn = madd(y, r.n_t1, -(x * r.n_t2)), r.n1 = madd(y, r.s1_t1, -(x * r.s1_t2)),
    r.n2 = madd(y, r.s2_t1, -(x * r.s2_t2));
    r.s11 = madd(n, r.s1_t2, -(y * r.s1_tn)), r.s12 = madd(n, r.s2_t2, -(y * r.s2_tn)),
    r.s22 = madd(x, r.s2_tn, -(n * r.s2_t1));
    return r;
}

// Of the arm to the middle: a shorter lever is due to rounding.
inline constexpr f32 least_lever = 1e-5f;

// The changes by impulses: of bodies of these masses and inertia, with these arms. Only where `some`.
template <class F, class Some>
TBS_FUNCTION void prepare_masses(ContactBlock &block, u32 lane, const Frame<F> &f, Vec<F> both,
                                 const Inertia<F> &inertia_a, const Inertia<F> &inertia_b, Vec<F> arm_a,
                                 Vec<F> arm_b, Some some) {
    const F zero{};
    const auto put = [&](f32 *to, F value) { store(to, pick(some, value, load<F>(to))); };
    const auto x = [&](u32 k) { return load<F>(block.along_first[k] + lane); };
    const auto y = [&](u32 k) { return load<F>(block.along_second[k] + lane); };
    const Response<F> ra = response(f, inertia_a, arm_a), rb = response(f, inertia_b, arm_b);
    const Vec<F> mn = both * f.normal, m1 = both * f.first, m2 = both * f.second;
    const F nn = ra.nn + rb.nn + dot(f.normal, mn), n1 = ra.n1 + rb.n1 + dot(f.first, mn),
            n2 = ra.n2 + rb.n2 + dot(f.second, mn);
    const F s11 = ra.s11 + rb.s11 + dot(f.first, m1), s12 = ra.s12 + rb.s12 + dot(f.second, m1);
    const F s22 = ra.s22 + rb.s22 + dot(f.second, m2);
    const F n_tn = ra.n_tn + rb.n_tn, n_t1 = ra.n_t1 + rb.n_t1, n_t2 = ra.n_t2 + rb.n_t2;
    const F s1_t1 = ra.s1_t1 + rb.s1_t1, s1_t2 = ra.s1_t2 + rb.s1_t2, s2_t1 = ra.s2_t1 + rb.s2_t1,
            s2_t2 = ra.s2_t2 + rb.s2_t2;
    const F tn1 = ra.tn1 + rb.tn1, tn2 = ra.tn2 + rb.tn2, t11 = ra.t11 + rb.t11, t12 = ra.t12 + rb.t12,
            t22 = ra.t22 + rb.t22;
    const F lever = load<F>(block.lever + lane);
    u32 pair = 0;
    TBS_ROLLED
    for (u32 k = 0; k < 4; ++k) {
        const F turn_1 = madd(y(k), t11, nmadd(x(k), t12, n_t1)), turn_2 = madd(y(k), t12, nmadd(x(k), t22, n_t2));
        const F along = madd(y(k), n_t1, nmadd(x(k), n_t2, nn));
        const auto there = below(load<F>(block.start[k] + lane), splat<F>(no_point));
        put(block.mass[k] + lane, pick(there, inverse_or_zero(madd(y(k), turn_1, nmadd(x(k), turn_2, along))), zero));
        TBS_ROLLED
        for (u32 j = k + 1; j < 4; ++j)
            put(block.between[pair++] + lane, madd(y(j), turn_1, nmadd(x(j), turn_2, along)));
        put(block.on_first[k] + lane, madd(y(k), s1_t1, nmadd(x(k), s1_t2, n1)));
        put(block.on_second[k] + lane, madd(y(k), s2_t1, nmadd(x(k), s2_t2, n2)));
        put(block.on_twist[k] + lane, madd(y(k), tn1, nmadd(x(k), tn2, n_tn)) * lever);
    }
    const F determinant = inverse_or_zero(madd(s11, s22, -(s12 * s12)));
    put(block.stick[0] + lane, s22 * determinant);
    put(block.stick[1] + lane, -(s12 * determinant));
    put(block.stick[2] + lane, s11 * determinant);
    const F half = splat<F>(0.5f), unequal = half * (s11 - s22);
    const F most = madd(half, s11 + s22, root(madd(unequal, unequal, s12 * s12)));
    const F s13 = (ra.s1_tn + rb.s1_tn) * lever, s23 = (ra.s2_tn + rb.s2_tn) * lever;
    const F s33 = (ra.tnn + rb.tnn) * lever * lever, apart = half * (most - s33);
    const F across = root(madd(apart, apart, madd(s13, s13, s23 * s23)));  // so that none of the three answers more
    put(block.slip + lane, inverse_or_zero(madd(half, most + s33, across)));
    put(block.first_on_twist + lane, s13);
    put(block.second_on_twist + lane, s23);
    put(block.twist_mass + lane, inverse_or_zero(s33));
}

// The same on a device, of what is in the block.
template <class F>
TBS_ONE_COPY void prepare_masses(ContactBlock &block, u32 lane, bool with_ground) {
    const Vec<F> both = load_vec<F>(block.mass_a, lane) + load_vec<F>(block.mass_b, lane);
    const Vec<F> arm_a = load_vec<F>(block.arm_a, lane), arm_b = with_ground ? Vec<F>{} : load_vec<F>(block.arm_b, lane);
    prepare_masses<F>(block, lane, load_frame<F>(block, lane), both, load_inertia<F>(block.inertia_a, lane),
                      load_inertia<F>(block.inertia_b, lane), arm_a, arm_b, true);
}

// Frames, arms and effective masses of contacts, once a step.
template <class F, class W>
TBS_FUNCTION void prepare_contact(W &w, ContactBlock &block, u32 lane, const Pace &pace) {
    const u32 *a = block.a + lane, *b = block.b + lane;
    F low_a[8], high_a[8], low_b[8], high_b[8];
    load_rows([&](u32 i) { return w.mass[a[i]]; }, low_a);
    load_rows([&](u32 i) { return w.mass[a[i]] + 8; }, high_a);
    load_rows([&](u32 i) { return w.mass[b[i]]; }, low_b);
    load_rows([&](u32 i) { return w.mass[b[i]] + 8; }, high_b);
    const Vec<F> mass_a{low_a[0], low_a[1], low_a[2]}, mass_b{low_b[0], low_b[1], low_b[2]};
    const Inertia<F> inertia_a{high_a[0], high_a[1], high_a[2], high_a[3], high_a[4], high_a[5]};
    const Inertia<F> inertia_b{high_b[0], high_b[1], high_b[2], high_b[3], high_b[4], high_b[5]};
    const Vec<F> apart{low_b[4] - low_a[4], low_b[5] - low_a[5], low_b[6] - low_a[6]};
    const Frame<F> f = frame_of(load_vec<F>(block.normal, lane));

    // The middle: weighted by impulses, which is where the pressure is; else by points.
    const F one = splat<F>(1.0f), zero{};
    Vec<F> point[4], middle{};
    F weight[4], sum{}, impulses{};
    for (u32 k = 0; k < 4; ++k) impulses = impulses + load<F>(block.impulse[k] + lane);
    const auto pressed = below(zero, impulses);
    for (u32 k = 0; k < 4; ++k) {
        point[k] = {load<F>(block.on_first[k] + lane), load<F>(block.on_second[k] + lane),
                    load<F>(block.on_twist[k] + lane)};
        const F there = pick(below(load<F>(block.start[k] + lane), splat<F>(no_point)), one, zero);
        weight[k] = pick(pressed, load<F>(block.impulse[k] + lane), there);
        sum = sum + weight[k];
        middle = add_scaled(middle, point[k], weight[k]);
    }
    const F share = inverse_or_zero(sum);
    const Vec<F> arm_a = scaled(middle, share), arm_b = arm_a - apart;

    // A point at (x, y) pushed along the normal turns by (y, -x) about (first, second).
    F x[4], y[4], lever{};
    for (u32 k = 0; k < 4; ++k) {
        const Vec<F> from = point[k] - arm_a;
        const auto there = below(load<F>(block.start[k] + lane), splat<F>(no_point));
        x[k] = pick(there, dot(from, f.first), zero);
        y[k] = pick(there, dot(from, f.second), zero);
        lever = madd(weight[k], root(madd(x[k], x[k], y[k] * y[k])), lever);
        store(block.along_first[k] + lane, x[k]);
        store(block.along_second[k] + lane, y[k]);
    }
    lever = lever * share * load<F>(block.lever + lane);
    const F shortest = splat<F>(least_lever * least_lever) * dot(arm_a, arm_a);
    lever = pick(below(shortest, lever * lever), lever, zero);
    store(block.lever + lane, lever);
    store(block.twist + lane, load<F>(block.twist + lane) * inverse_or_zero(lever));
    if constexpr (!on_device)
        prepare_masses<F>(block, lane, f, mass_a + mass_b, inertia_a, inertia_b, arm_a, arm_b, below(zero, one));

    const Vec<F> friction = load_vec<F>(block.arm_b, lane);  // where place_contact put it
    store(block.friction[0] + lane, dot(friction, f.first));
    store(block.friction[1] + lane, dot(friction, f.second));
    store_vec(block.first, lane, f.first);
    store_vec(block.second, lane, f.second);
    store_vec(block.mass_a, lane, mass_a);
    store_vec(block.mass_b, lane, mass_b);
    store_inertia(block.inertia_a, lane, inertia_a);
    store_inertia(block.inertia_b, lane, inertia_b);
    store_vec(block.arm_a, lane, arm_a);
    store_vec(block.arm_b, lane, arm_b);
    if constexpr (on_device) prepare_masses<F>(block, lane, false);
    store_vec(block.gone, lane, Vec<F>{});
    const F gives_way = mass_b.x + mass_b.y + mass_b.z + inertia_b.xx + inertia_b.yy + inertia_b.zz;
    store(block.share + lane, pick(below(zero, gives_way), splat<F>(0.5f), zero));

    const F no_spring = splat<F>(no_point), preload = load<F>(block.preload + lane);
    store(block.done + lane, zero);
    block.begin_sums<F>(lane);
    F pressed_in = no_spring;  // the spring that the last step pressed in least
    for (u32 k = 0; k < 4; ++k) {
        const F stiffness = load<F>(block.mass[k] + lane) * splat<F>(pace.stiffness);
        const auto there = below(zero, stiffness);
        const F own = load<F>(block.impulse[k] + lane) / pick(there, stiffness, one);
        pressed_in = pick(there, lesser(own, pressed_in), pressed_in);
        store(block.total[k] + lane, zero);
        store(block.separation[k] + lane, load<F>(block.start[k] + lane));
    }
    const F wanted = pick(below(pressed_in, no_spring), pressed_in * splat<F>(preload_share), preload);
    store(block.preload + lane, madd(splat<F>(pace.preload), wanted - preload, preload));
}

// A pass over contacts.
inline constexpr u32 pass_warm = 0;    // applies the impulses of the step before
inline constexpr u32 pass_press = 1;   // pushes overlaps out
inline constexpr u32 pass_relax = 2;   // takes back the speed that pushing out has left

// Batches, frames and masses of contacts.
template <class W, class Group>
TBS_FUNCTION void prepare_contacts(W &w, Group &group, const Pace &pace) {
    colour(w, group, w.contact_count, w.contact_item, w.contact_batches, [&](u32 i, u32 &a, u32 &b) {
        a = w.contacts[i].a;
        b = w.contacts[i].b;
    });
    group.for_each(w.contact_count, [&](u32 i) {
        const u32 item = w.contact_item[i];
        if (item == not_solved) {
            w.contacts[i].total = 0.0f;
        } else {
            place_contact(w, w.contacts[i], w.contact_blocks[item / block_items], item % block_items);
        }
    });
    if constexpr (simd_width > 1) {
        for (u32 c = 0; c < w.contact_batches.colours; ++c) {
            const Batch &batch = w.contact_batches.batch[c];
            for (u32 i = batch.first + batch.count; i % simd_width != 0; ++i)
                place_nothing(w, w.contact_blocks[i / block_items], i % block_items);
        }
        const u32 end = w.contact_batches.end;
        for (u32 i = end; i % simd_width != 0; ++i)
            place_nothing(w, w.contact_blocks[i / block_items], i % block_items);
    }
    for_items(group, 0, w.contact_batches.end, [&](auto item, u32 block, u32 lane) {
        prepare_contact<decltype(item)>(w, w.contact_blocks[block], lane, pace);
    });
}

// Impulses for the step to come, and for whoever wants to know.
template <class W, class Group>
TBS_FUNCTION void report_contacts(W &w, Group &group) {
    group.for_each(w.contact_count, [&](u32 i) {
        const u32 item = w.contact_item[i];
        if (item == not_solved) return;
        const ContactBlock &block = w.contact_blocks[item / block_items];
        const u32 lane = item % block_items;
        SolverContact &contact = w.contacts[i];
        const f32 sign = is_movable(w, contact.a) ? 1.0f : -1.0f;  // as in place_contact
        const f32 first = sign * block.friction[0][lane], second = sign * block.friction[1][lane];
        const Frame<f32> f = load_frame<f32>(block, lane);
        const Vec<f32> friction = add_scaled(scaled(f.first, first), f.second, second);
        contact.friction = {friction.x, friction.y, friction.z};
        contact.set_friction_sum(sign * block.sum(lane, f.first, f.second));
        contact.twist = block.twist[lane] * block.lever[lane];
        contact.preload = block.preload[lane];
        contact.total = block.done[lane];
        TBS_ROLLED
        for (u32 k = 0; k < points_per_contact; ++k) {
            if (k < contact.count) contact.points[k].impulse = block.impulse[k][lane];
            contact.total += block.total[k][lane];
        }
    });
}
