// Clipping a face of one polyhedron by the sides of a face of another, and points from the result.
//
// All candidates are computed at once, as lanes, without branches: of each edge of the incident face the point where it
// enters the prism over the reference face and the one where it leaves (Cyrus and Beck 1978), and the corners of the
// reference face that lie over the incident one. They are the corners of the clipped polygon, as Sutherland and
// Hodgman's.
#pragma once

#include "physics/manifold.h"

// A face seen from a reference face: u and v along that one, w the height over it. Behind `count` corners the
// first is repeated: edges without a length, which cut nothing off.
template <u32 n>
struct Polygon {
    u32 count;
    f32 u[n], v[n], w[n];
};

// How the height over the reference face changes along the incident one, given its normal in u, v, w.
struct Slope {
    f32 u, v;
    bool opposed;  // the faces look at each other; if not, corners of the reference face are not over the incident one
};
TBS_FUNCTION Slope slope_of(vec3 normal) {
    const bool opposed = normal.z < -0.01f;
    const f32 inverse = divide(-1.0f, opposed ? normal.z : 1.0f);
    return {normal.x * inverse, normal.y * inverse, opposed};
}

// The candidates: as many points where edges of `incident` enter as it has lanes, where they leave, and corners of
// `reference`. The reference polygon is counter-clockwise and the incident one clockwise. `slack`: by how much sides
// may be overstepped, so that faces with sides in common keep their corners whatever the rounding.
template <u32 n>
TBS_CALLED void clip(const Polygon<n> &incident, const Polygon<n> &reference, const Slope &slope, f32 slack,
                       Candidates<3, n> &points) {
    const u32 all = lanes<n>(max(incident.count, reference.count));
    // Of many lanes the memory is that of points which are written later: a GPU's stack should be small.
    constexpr bool in_place = n > 16;
    f32 own[in_place ? 1 : 6][n];
    f32 (&to_u)[n] = in_place ? points.u[2] : own[0], (&to_v)[n] = in_place ? points.v[2] : own[in_place ? 0 : 1];
    f32 (&to_w)[n] = in_place ? points.w[2] : own[in_place ? 0 : 2];  // from a corner to the next one
    f32 (&enter)[n] = in_place ? points.w[0] : own[in_place ? 0 : 3];  // as fractions of the edge
    f32 (&leave)[n] = in_place ? points.w[1] : own[in_place ? 0 : 4];
    f32 (&outside)[n] = in_place ? points.u[0] : own[in_place ? 0 : 5];
    TBS_ROLLED
    for (u32 i = 0; i < all; ++i) {
        const u32 next = (i + 1) % n;
        to_u[i] = incident.u[next] - incident.u[i];
        to_v[i] = incident.v[next] - incident.v[i];
        to_w[i] = incident.w[next] - incident.w[i];
    }
    TBS_ROLLED
    for (u32 i = 0; i < all; ++i) {
        enter[i] = 0.0f;
        leave[i] = 1.5f;                                       // never
    }
    const u32 sides = n == 4 ? 4 : reference.count;
    TBS_ROLLED
    for (u32 k = 0; k < sides; ++k) {
        const u32 after = (k + 1) % n;
        const f32 u = reference.u[k], v = reference.v[k];
        const f32 out_u = reference.v[after] - v, out_v = u - reference.u[after];
        const f32 allowed = slack * (abs(out_u) + abs(out_v));
        TBS_ROLLED
        for (u32 i = 0; i < all; ++i) {
            outside[i] = fma(incident.u[i] - u, out_u, fma(incident.v[i] - v, out_v, -allowed));
        }
        const f32 first = outside[0];
        TBS_ROLLED
        for (u32 i = 0; i < all; ++i) {
            const f32 from = outside[i], to = i + 1 < all ? outside[(i + 1) % n] : first;
            const f32 at = divide(from, from - to);            // not used where it is not a number
            const bool from_out = from > 0.0f, to_out = to > 0.0f;
            enter[i] = from_out ? (to_out ? 2.0f : max(enter[i], at)) : enter[i];
            leave[i] = !from_out && to_out ? min(leave[i], at) : leave[i];
        }
    }
    TBS_ROLLED
    for (u32 i = 0; i < all; ++i) {
        const f32 from = enter[i], to = leave[i];
        points.u[0][i] = fma(from, to_u[i], incident.u[i]);
        points.v[0][i] = fma(from, to_v[i], incident.v[i]);
        points.w[0][i] = from <= min(to, 1.0f) ? fma(from, to_w[i], incident.w[i]) : infinity;
        points.u[1][i] = fma(to, to_u[i], incident.u[i]);
        points.v[1][i] = fma(to, to_v[i], incident.v[i]);
        points.w[1][i] = from <= to && to <= 1.0f ? fma(to, to_w[i], incident.w[i]) : infinity;
    }
    u32 over[n];
    TBS_ROLLED
    for (u32 k = 0; k < all; ++k) over[k] = u32(slope.opposed) & u32(k < reference.count);
    const u32 edges = n == 4 ? 4 : incident.count;
    TBS_ROLLED
    for (u32 i = 0; i < edges; ++i) {
        const f32 u = incident.u[i], v = incident.v[i], along_u = to_u[i], along_v = to_v[i];
        TBS_ROLLED
        for (u32 k = 0; k < all; ++k) {
            over[k] &= u32(fma(along_u, reference.v[k] - v, -(along_v * (reference.u[k] - u))) <= 0.0f);
        }
    }
    TBS_ROLLED
    for (u32 k = 0; k < all; ++k) {
        const f32 u = reference.u[k] - incident.u[0], v = reference.v[k] - incident.v[0];
        points.u[2][k] = reference.u[k];
        points.v[2][k] = reference.v[k];
        points.w[2][k] = over[k] ? fma(slope.u, u, fma(slope.v, v, incident.w[0])) : infinity;
    }
    points.lanes = all;
}
