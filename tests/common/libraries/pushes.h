#pragma once

// Bodies in company are pushed further.
TBS_SYSTEM void push(World &world, buckets::Body &body, const Push &push, const buckets::Near &near) {
    const f32 pattern = world.step() % u32(Constants::beats) == 0 ? Constants::first : Constants::last;
    const f32 by = push.by * pattern * world.get<const Wind>().strength * world.parameters.pushes.gain;
    const f32 end = world.parameters.buckets.width * f32(buckets::Constants::cells);
    body.x = clamp(body.x + by * f32(near.count) + 0.01f * world.random().uniform(), 0.0f, end * 0.999f);
}
