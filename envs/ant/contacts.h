// With the option `contact_forces`: what presses the feet.
TBS_FUNCTION vec3 felt(World &world, u32 foot) {
    const f32 most = world.parameters.contact_force_range;
    const vec3 force = world.rows<Foot, const physics::ContactForce>()[foot].force;
    return {clamp(force.x, -most, most), clamp(force.y, -most, most), clamp(force.z, -most, most)};
}

TBS_FUNCTION f32 contact_effort(World &world) {
    f32 sum = 0.0f;
    for (u32 i = 0; i < 4; ++i) sum += length_squared(felt(world, i));
    return sum;
}

TBS_FUNCTION void show_contacts(World &world, f32 (&values)[39]) {
    for (u32 i = 0; i < 4; ++i) {
        const vec3 force = felt(world, i);
        values[27 + 3 * i] = force.x;
        values[28 + 3 * i] = force.y;
        values[29 + 3 * i] = force.z;
    }
}
