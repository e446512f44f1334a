// Small vectors and quaternions of f32, stored as consecutive floats.
//
// Sums of products are written with fma, in a fixed order, so that they are rounded alike everywhere.
#pragma once

#include "math.h"
#include "platform.h"

namespace tbs {

// Two, three or four numbers: `vec3{1.0f, 2.0f, 3.0f}`.
struct vec2 {
    f32 x, y;
};

struct vec3 {
    f32 x, y, z;
};

struct vec4 {
    f32 x, y, z, w;
};

// A rotation as a unit quaternion, w the real part; {1, 0, 0, 0} turns nothing.
struct quat {
    f32 w, x, y, z;
};

static_assert(sizeof(vec2) == 8 && sizeof(vec3) == 12 && sizeof(vec4) == 16 && sizeof(quat) == 16);

// By components, or by one number.
TBS_FUNCTION bool operator==(vec2 a, vec2 b) { return a.x == b.x && a.y == b.y; }
TBS_FUNCTION vec2 operator-(vec2 a) { return {-a.x, -a.y}; }
TBS_FUNCTION vec2 operator+(vec2 a, vec2 b) { return {a.x + b.x, a.y + b.y}; }
TBS_FUNCTION vec2 operator-(vec2 a, vec2 b) { return {a.x - b.x, a.y - b.y}; }
TBS_FUNCTION vec2 operator*(vec2 a, vec2 b) { return {a.x * b.x, a.y * b.y}; }
TBS_FUNCTION vec2 operator*(vec2 a, f32 s) { return {a.x * s, a.y * s}; }
TBS_FUNCTION vec2 operator*(f32 s, vec2 a) { return a * s; }
TBS_FUNCTION vec2 operator/(vec2 a, f32 s) { return {divide(a.x, s), divide(a.y, s)}; }

TBS_FUNCTION bool operator==(vec3 a, vec3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; }
TBS_FUNCTION vec3 operator-(vec3 a) { return {-a.x, -a.y, -a.z}; }
TBS_FUNCTION vec3 operator+(vec3 a, vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
TBS_FUNCTION vec3 operator-(vec3 a, vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
TBS_FUNCTION vec3 operator*(vec3 a, vec3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
TBS_FUNCTION vec3 operator*(vec3 a, f32 s) { return {a.x * s, a.y * s, a.z * s}; }
TBS_FUNCTION vec3 operator*(f32 s, vec3 a) { return a * s; }
TBS_FUNCTION vec3 operator/(vec3 a, f32 s) { return {divide(a.x, s), divide(a.y, s), divide(a.z, s)}; }

TBS_FUNCTION bool operator==(vec4 a, vec4 b) {
    return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}
TBS_FUNCTION vec4 operator-(vec4 a) { return {-a.x, -a.y, -a.z, -a.w}; }
TBS_FUNCTION vec4 operator+(vec4 a, vec4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
TBS_FUNCTION vec4 operator-(vec4 a, vec4 b) { return {a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w}; }
TBS_FUNCTION vec4 operator*(vec4 a, vec4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
TBS_FUNCTION vec4 operator*(vec4 a, f32 s) { return {a.x * s, a.y * s, a.z * s, a.w * s}; }
TBS_FUNCTION vec4 operator*(f32 s, vec4 a) { return a * s; }
TBS_FUNCTION vec4 operator/(vec4 a, f32 s) {
    return {divide(a.x, s), divide(a.y, s), divide(a.z, s), divide(a.w, s)};
}

template <class T>
concept Vector = std::is_same_v<T, vec2> || std::is_same_v<T, vec3> || std::is_same_v<T, vec4>;

template <Vector T>
TBS_FUNCTION T &operator+=(T &a, T b) { return a = a + b; }
template <Vector T>
TBS_FUNCTION T &operator-=(T &a, T b) { return a = a - b; }
template <Vector T>
TBS_FUNCTION T &operator*=(T &a, f32 s) { return a = a * s; }
template <Vector T>
TBS_FUNCTION T &operator/=(T &a, f32 s) { return a = a / s; }

// The scalar product.
TBS_FUNCTION f32 dot(vec2 a, vec2 b) { return fma(a.y, b.y, a.x * b.x); }
TBS_FUNCTION f32 dot(vec3 a, vec3 b) { return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x)); }
TBS_FUNCTION f32 dot(vec4 a, vec4 b) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, a.x * b.x)));
}
TBS_FUNCTION f32 dot(quat a, quat b) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, a.x * b.x)));
}

// The vector product; of vec2 its z component, the signed area from a to b.
TBS_FUNCTION f32 cross(vec2 a, vec2 b) { return fma(a.x, b.y, -(a.y * b.x)); }
TBS_FUNCTION vec3 cross(vec3 a, vec3 b) {
    return {fma(a.y, b.z, -(a.z * b.y)), fma(a.z, b.x, -(a.x * b.z)), fma(a.x, b.y, -(a.y * b.x))};
}

// The Euclidean length, and its square, which needs no root. The squares must not overflow.
template <Vector T>
TBS_FUNCTION f32 length_squared(T a) { return dot(a, a); }
template <Vector T>
TBS_FUNCTION f32 length(T a) { return sqrt(dot(a, a)); }
// The length of a - b.
template <Vector T>
TBS_FUNCTION f32 distance(T a, T b) { return length(a - b); }
// a / length(a); zero stays zero.
template <Vector T>
TBS_FUNCTION T normalize(T a) {
    f32 size = length(a);
    return a / (size > 0 ? size : 1.0f);
}

// a turned counter-clockwise by an angle in radians, or by its sine and cosine.
TBS_FUNCTION vec2 rotate(vec2 a, f32 sine, f32 cosine) {
    return {fma(a.x, cosine, -(a.y * sine)), fma(a.x, sine, a.y * cosine)};
}
TBS_FUNCTION vec2 rotate(vec2 a, f32 angle) {
    f32 sine, cosine;
    sincos(angle, sine, cosine);
    return rotate(a, sine, cosine);
}

TBS_FUNCTION bool operator==(quat a, quat b) {
    return a.w == b.w && a.x == b.x && a.y == b.y && a.z == b.z;
}

// The Hamilton product: rotation b, then rotation a.
TBS_FUNCTION quat operator*(quat a, quat b) {
    return {fma(-a.z, b.z, fma(-a.y, b.y, fma(-a.x, b.x, a.w * b.w))),
            fma(-a.z, b.y, fma(a.y, b.z, fma(a.x, b.w, a.w * b.x))),
            fma(a.z, b.x, fma(a.y, b.w, fma(-a.x, b.z, a.w * b.y))),
            fma(a.z, b.w, fma(-a.y, b.x, fma(a.x, b.y, a.w * b.z)))};
}
// The opposite of a unit quaternion.
TBS_FUNCTION quat conjugate(quat q) { return {q.w, -q.x, -q.y, -q.z}; }
// A unit quaternion; zero becomes no rotation.
TBS_FUNCTION quat normalize(quat q) {
    f32 size = sqrt(dot(q, q));
    if (!(size > 0)) return {1, 0, 0, 0};
    return {divide(q.w, size), divide(q.x, size), divide(q.y, size), divide(q.z, size)};
}
// The rotation by an angle in radians about a unit axis, counter-clockwise seen from its tip.
TBS_FUNCTION quat rotation_about(vec3 axis, f32 angle) {
    f32 sine, cosine;
    sincos(0.5f * angle, sine, cosine);
    return {cosine, axis.x * sine, axis.y * sine, axis.z * sine};
}
// a turned by a unit quaternion.
TBS_FUNCTION vec3 rotate(vec3 a, quat q) {
    vec3 v{q.x, q.y, q.z};
    vec3 t = 2.0f * cross(v, a);
    vec3 u = cross(v, t);
    return {fma(q.w, t.x, a.x) + u.x, fma(q.w, t.y, a.y) + u.y, fma(q.w, t.z, a.z) + u.z};
}

}  // namespace tbs
