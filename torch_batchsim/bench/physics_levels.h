// Agents that are pushed about: see levels.py.

// A force along the agent's own x and y and a torque about z, drawn anew when the last ones have lasted long enough; and
// the drag that keeps speeds in bounds.
TBS_SYSTEM void push(World &world, Push &push, const physics::Pose &pose, const physics::Velocity &velocity,
                     physics::Force &force, Row row) {
    Random &random = world.random();
    const bool pushed = i32(row.index) < world.parameters.pushed;
    if (push.steps == 0) {
        push.x = Constants::force * random.uniform(-1.0f, 1.0f);
        push.y = Constants::force * random.uniform(-1.0f, 1.0f);
        push.turn = Constants::torque * random.uniform(-1.0f, 1.0f);
        push.steps = Constants::hold;
    }
    push.steps -= 1;
    const vec3 own = pushed ? vec3{push.x, push.y, 0.0f} : vec3{0.0f, 0.0f, 0.0f};
    force.force = rotate(own, pose.rotation) - Constants::drag * velocity.linear;
    force.torque = vec3{0.0f, 0.0f, pushed ? push.turn : 0.0f} - Constants::turning_drag * velocity.angular;
}

TBS_SYSTEM void look(World &world, const physics::Pose &pose, View &view) { view.height = pose.position.z; }
