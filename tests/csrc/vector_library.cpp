// csrc/tbs/vector.h behind a C interface, for test_vector.py.
#include "tbs/vector.h"

using namespace tbs;

extern "C" void rotate_vec3(const vec3 *v, const quat *q, vec3 *out, i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = rotate(v[i], normalize(q[i]));
}
extern "C" void rotate_vec2(const vec2 *v, const f32 *angle, vec2 *out, i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = rotate(v[i], angle[i]);
}
extern "C" void multiply(const quat *a, const quat *b, quat *out, i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = a[i] * b[i];
}
extern "C" void about(const vec3 *axis, const f32 *angle, quat *out, i64 n) {
    for (i64 i = 0; i < n; i++) out[i] = rotation_about(normalize(axis[i]), angle[i]);
}
extern "C" void cross_dot(const vec3 *a, const vec3 *b, vec4 *out, i64 n) {
    for (i64 i = 0; i < n; i++) {
        vec3 c = cross(a[i], b[i]);
        out[i] = {c.x, c.y, c.z, dot(a[i], b[i])};
    }
}
// What the operators give, by a number for each.
extern "C" void arithmetic(const vec3 *a, const vec3 *b, const f32 *s, vec3 *out) {
    out[0] = *a + *b;
    out[1] = *a - *b;
    out[2] = *a * *b;
    out[3] = *a * *s;
    out[4] = *s * *a;
    out[5] = *a / *s;
    out[6] = -*a;
    out[7] = *a;
    out[7] += *b;
    out[7] *= *s;
    out[7] -= *a;
    out[7] /= *s;
    out[8] = {length(*a), length_squared(*a), distance(*a, *b)};
    out[9] = normalize(vec3{0, 0, 0});
}
