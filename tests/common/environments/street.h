TBS_SYSTEM void walk(World &world, const Stride &stride, buckets::Body &body) {
    body.x += 0.25f * f32(stride.direction);
    body.weight = 1.0f;
}
