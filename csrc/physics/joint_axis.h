// What acts along or about a joint's axis: motor, drive, inertia, damping, dry friction, limits.
//
// Together they give an impulse that never rises with the speed at the substep's end, which they all take: so any
// stiffness and damping are stable (implicit Euler). A spring pulls by the angle that it will have. For one joint the
// speed is found in closed form, the joint's equations held. A tree asks which of the parts are at their greatest
// (AxisMode), takes the others into its equations, and asks again with its solution, until that stays the same:
// Newton's method for equations with corners (Hintermueller, Ito, Kunisch 2002, "The primal-dual active set strategy as
// a semismooth Newton method").
#pragma once

#include "physics/joint_frames.h"

// Impulse = push - slope * speed, within +- most that of the drive, up to +- dry against the motion, and as much as
// keeps the speed within least and greatest.
template <class F>
struct AxisLaw {
    F push, slope, drive_push, drive_slope, most, dry, least, greatest;
};

// How a tree takes it: held at the speed `aim`, or push - slope * speed.
template <class F>
struct AxisMode {
    F hold, aim, slope, push;
};

template <bool press, class F>
TBS_FUNCTION AxisLaw<F> law_of(const JointBlock &block, u32 lane, const Pace &pace) {
    const F zero{}, distance = load<F>(block.distance + lane), back = splat<F>(press ? pace.joint.rate : 0.0f);
    const auto rate = [&](F room) { return room * pick(below(zero, room), splat<F>(pace.per_h), back); };
    return {madd(load<F>(block.armature + lane), load<F>(block.rate + lane), load<F>(block.effort + lane)),
            load<F>(block.drag + lane),
            nmadd(load<F>(block.drive_stiffness + lane), load<F>(block.begun + lane), load<F>(block.drive_push + lane)),
            load<F>(block.drive_drag + lane),
            load<F>(block.most + lane),
            load<F>(block.dry + lane),
            -rate(distance - load<F>(block.lower + lane)),
            rate(load<F>(block.upper + lane) - distance)};
}

// The impulse on an axis of this mass, with the momentum that it would have without one.
template <class F>
TBS_FUNCTION F solve_law(const AxisLaw<F> &law, F mass, F momentum, AxisMode<F> &mode) {
    const F zero{}, one = splat<F>(1.0f);
    const auto within = [](F x, F most) { return greater(lesser(x, most), -most); };
    const auto differ = [&](F x, F y) { return pick(below(x, y), one, pick(below(y, x), one, zero)); };
    // Friction: that which would bring it to rest, as far as it goes.
    const F stopping = -(momentum + law.push + within(law.drive_push, law.most)), dry = within(stopping, law.dry);
    const F sticks = pick(below(zero, law.dry), one - differ(stopping, dry), zero);
    // The drive, then without it where that is too strong.
    const F push = law.push + dry, own = mass + law.slope, all = own + law.drive_slope;
    F speed = (momentum + push + law.drive_push) * inverse_or_zero(all);
    const F wanted = pick(below(own, law.drive_slope), nmadd(-own, speed, -(momentum + push)),
                          nmadd(law.drive_slope, speed, law.drive_push));
    const F drive = within(wanted, law.most), strong = differ(wanted, drive);
    const auto is_strong = below(zero, strong);
    speed = pick(is_strong, (momentum + push + drive) * inverse_or_zero(own), speed);
    speed = speed * (one - sticks);
    // The limits.
    const F aim = lesser(greater(speed, law.least), law.greatest);
    mode.hold = greater(sticks, differ(speed, aim));
    const auto held = below(zero, mode.hold);
    mode.aim = pick(held, aim, zero);
    mode.slope = pick(held, zero, law.slope + pick(is_strong, zero, law.drive_slope));
    mode.push = pick(held, zero, push + pick(is_strong, drive, law.drive_push));
    return pick(held, nmadd(-mass, aim, -momentum), nmadd(law.slope, speed, push + drive));
}

// The speed of b relative to a along or about the axis, from their relative velocity at the anchor; with `press` its
// mean over the substep.
template <bool press, class F>
TBS_FUNCTION F axis_speed(const JointBlock &block, u32 lane, Vec<F> going, Vec<F> turning) {
    const Vec<F> axis = load_vec<F>(block.axes, lane);
    const F turns = load<F>(block.turns + lane), slides = load<F>(block.slides + lane);
    F speed = madd(dot(going, axis), slides, dot(turning, axis) * turns);
    if constexpr (press)
        speed = madd(load<F>(block.beyond[0] + lane), slides, madd(load<F>(block.beyond[3] + lane), turns, speed));
    return speed;
}
template <bool press, class F, class W>
TBS_FUNCTION F axis_speed(const W &w, const JointBlock &block, u32 lane) {
    const JointBodies<F> m = load_bodies<F>(w, block.a + lane, block.b + lane);
    Vec<F> going, turning;
    relative_velocity(m, load_vec<F>(block.arm_a, lane), load_vec<F>(block.arm_b, lane), going, turning);
    return axis_speed<press>(block, lane, going, turning);
}
