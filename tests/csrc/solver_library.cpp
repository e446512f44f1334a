// csrc/physics/solver.h behind a C interface, for test_solver.py: scenes of shapes, with the narrow phase of
// csrc/physics/collide.h for all pairs. In a namespace of its own, as the engine compiles it.
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tbs/lanes.h"
#include "tbs/math.h"
#include "tbs/vector.h"
#include "tbs/wide.h"

namespace tbs::physics {
#include "physics/collide.h"
#include "physics/meeting.h"
inline constexpr bool sums_friction = false;
#include "physics/solver.h"

inline constexpr u32 most_bodies = 128, most_contacts = 512, most_joints = 32;
using Space = Workspace<most_bodies, most_contacts, most_joints>;

struct Shape {
    i32 kind, world;  // shapes of different worlds do not meet
    vec3 size;
    f32 static_friction, dynamic_friction, restitution;
};

// What is kept of contacts from step to step.
struct Kept {
    u32 count;
    SolverContact contacts[most_contacts];
};

// A group as a Warp on one thread, but that runs items of for_each in another order, one at a time: what lanes at the
// same time may not notice.
struct Shuffled {
    static constexpr u32 group_threads = 2;
    u32 step = 7;

    template <class SolverBody>
    TBS_METHOD void for_each(u32 n, SolverBody &&body) {
        step = step % 11 + 3;
        while (n > 1 && gcd(step, n) != 1) ++step;
        for (u32 i = 0, k = n / 2; i < n; ++i, k = (k + step) % n) body(k);
    }
    static u32 gcd(u32 a, u32 b) { return b == 0 ? a : gcd(b, a % b); }
    template <class SolverBody>
    TBS_METHOD void once(SolverBody &&body) {
        body();
    }
    template <class Condition>
    TBS_METHOD bool any(u32 n, Condition &&condition) {
        bool found = false;
        for (u32 i = 0; i < n; ++i) found = found || condition(i);
        return found;
    }
    void line_up() {}
};

// collide() for the shapes of these scenes, the kind of the first not above that of the second: less to compile.
inline Manifold manifold_of(const Geometry &a, const Transform &at_a, const Geometry &b, const Transform &at_b,
                            f32 margin) {
    Manifold m;
    drop(m);
    if (b.kind == PLANE) {
        if (a.kind == BOX) collide_box_plane(a, at_a, at_b, margin, m);
        if (a.kind == SPHERE) collide_round_plane(a, at_a, at_b, margin, m);
    } else if (b.kind == BOX) {
        if (a.kind == BOX) collide_boxes(a, at_a, b, at_b, margin, m);
        if (a.kind == SPHERE) collide_sphere_box(a, at_a, b, at_b, margin, m);
    } else {
        collide_spheres(a, at_a, b, at_b, margin, m);
    }
    return m;
}

// The contact of two shapes, the kind of the first not above that of the second, with the impulses that it had.
__attribute__((noinline)) bool find_contact(const SolverBody *bodies, const Shape *shapes, const Hull *hulls, u32 a, u32 b,
                                            f32 margin, f32 ahead, const Kept &kept, SolverContact &out) {
    const auto geometry = [&](u32 i) { return Geometry{shapes[i].kind, shapes[i].size, hulls}; };
    const auto place = [&](u32 i) { return Transform{bodies[i].position, bodies[i].rotation}; };
    const auto drift = [&](u32 i) {
        const bool gives_way = bodies[i].kind == body_dynamic, is_ball = shapes[i].kind == SPHERE;
        return drift_of(bodies[i].linear, bodies[i].angular, ahead, gives_way, is_ball);
    };
    Manifold m = manifold_of(geometry(a), place(a), geometry(b), place(b), margin);
    meet(inner_radius(geometry(a)), place(a), drift(a), geometry(b), place(b), drift(b), m,
         [&](const Transform &at_a, const Transform &at_b, Manifold &met) {
             met = manifold_of(geometry(a), at_a, geometry(b), at_b, margin);
         });
    if (m.count == 0) return false;
    out = {};
    out.a = a, out.b = b, out.count = m.count, out.corners = m.corners, out.normal = m.normal;
    out.static_friction = sqrt(shapes[a].static_friction * shapes[b].static_friction);
    out.dynamic_friction = sqrt(shapes[a].dynamic_friction * shapes[b].dynamic_friction);
    out.restitution = max(shapes[a].restitution, shapes[b].restitution);
    const SolverContact *before = nullptr;
    for (u32 i = 0; i < kept.count; ++i) {
        if (kept.contacts[i].a == a && kept.contacts[i].b == b) before = &kept.contacts[i];
    }
    const vec3 apart = bodies[b].position - bodies[a].position;
    for (u32 k = 0; k < m.count; ++k) {
        ContactPoint &point = out.points[k];
        point.anchor = 0.5f * (m.points[k].anchor_a + (apart + m.points[k].anchor_b));
        point.separation = m.points[k].separation;
        point.feature = m.points[k].feature;
    }
    if (before == nullptr) return true;
    take_impulses(out, [&](u32 j) { return j < before->count ? before->points[j].feature : 0xffffu; },
                  [&](u32 j) { return j < before->count ? before->points[j].impulse : 0.0f; });
    out.friction = before->friction, out.twist = before->twist, out.preload = before->preload;
    return true;
}

template <class Solve>
inline void run(Space &w, SolverBody *bodies, const Shape *shapes, u32 n, SolverJoint *joints, u32 joint_count, Kept &kept,
                const Hull *hulls, const Settings &settings, f32 margin, Solve &&solve_all) {
    w.body_count = n;
    for (u32 i = 0; i < n; ++i) put_body(w, i, bodies[i]);
    u32 found = 0;
    for (u32 first = 0; first < n; ++first) {
        for (u32 second = first + 1; second < n; ++second) {
            const bool ordered = shapes[first].kind <= shapes[second].kind;
            const u32 a = ordered ? first : second, b = ordered ? second : first;
            const bool moves = bodies[a].kind == body_dynamic || bodies[b].kind == body_dynamic;
            if (!moves || shapes[a].world != shapes[b].world || found == most_contacts) continue;
            const f32 speed = length(bodies[a].linear) + length(bodies[b].linear);
            const f32 ahead = settings.time + divide(settings.time, f32(settings.substeps));
            const f32 most = margin + speed * settings.time;
            if (find_contact(bodies, shapes, hulls, a, b, most, ahead, kept, w.contacts[found])) ++found;
        }
    }
    w.contact_count = found;
    w.joint_count = joint_count;
    for (u32 i = 0; i < joint_count; ++i) w.joints[i] = joints[i];
    solve_all();
    for (u32 i = 0; i < n; ++i) take_body(w, i, bodies[i]);
    kept.count = found;
    for (u32 i = 0; i < found; ++i) kept.contacts[i] = w.contacts[i];
    for (u32 i = 0; i < joint_count; ++i) joints[i] = w.joints[i];
}
}  // namespace tbs::physics

using namespace tbs;
using namespace tbs::physics;

static thread_local Space space;

extern "C" u32 sizes(u32 i) {
    const u32 all[] = {sizeof(SolverBody),     sizeof(Shape),   sizeof(SolverJoint), sizeof(Kept),
                       sizeof(Settings), sizeof(SolverContact), simd_width,    sizeof(Space)};
    return all[i];
}
extern "C" void defaults(Settings *settings) { *settings = default_settings(); }

// `steps` steps of `n` bodies, which are written to `record` [steps, n] after each, if it is there.
extern "C" void simulate(SolverBody *bodies, const Shape *shapes, u32 n, SolverJoint *joints, u32 joint_count, Kept *kept,
                         const Hull *hulls, const Settings *settings, f32 margin, u32 steps, u32 shuffled,
                         SolverBody *record) {
    (void)shuffled;
    const auto solve_all = [&] {
#ifdef TBS_EMULATED_CUDA  // 32 lanes at once
        emulated_cuda::run_blocks(1, 32, [&] {
            Warp group;
            solve(space, group, *settings);
        });
#else
        if (shuffled != 0) {
            Shuffled group;
            solve(space, group, *settings);
        } else {
            Warp group;
            solve(space, group, *settings);
        }
#endif
    };
    for (u32 i = 0; i < steps; ++i) {
        run(space, bodies, shapes, n, joints, joint_count, *kept, hulls, *settings, margin, solve_all);
        if (record != nullptr) {
            for (u32 k = 0; k < n; ++k) record[u64(i) * n + k] = bodies[k];
        }
    }
}
