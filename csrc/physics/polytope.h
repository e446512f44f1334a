// Hulls in lanes: their vertices, faces and edges in one frame, scaled and turned, and what all lanes say at once.
#pragma once

#include "physics/manifold.h"

// Room for small hulls (a box, a wedge) and for all: lanes for vertices, faces and edges, powers of two; and a word
// with a bit for each face.
struct Small {
    static constexpr u32 vertices = 16, faces = 16, edges = 16, loop = 16;
    using Bits = u32;
};
struct Large {
    static constexpr u32 vertices = 32, faces = 64, edges = 128, loop = 32;
    using Bits = u64;
};

TBS_FUNCTION bool is_small(const Hull &hull) { return hull.vertices <= 16 && hull.faces <= 16 && hull.edges <= 16; }

// A hull in some frame. Lanes behind the last vertex and face repeat the first, as in Hull.
template <class Room>
struct Polytope {
    f32 x[Room::vertices], y[Room::vertices], z[Room::vertices];
    f32 normal_x[Room::faces], normal_y[Room::faces], normal_z[Room::faces], offset[Room::faces];
    f32 edge_x[Room::edges], edge_y[Room::edges], edge_z[Room::edges];
    const Hull *hull;

    TBS_METHOD vec3 vertex(u32 i) const { return {x[i], y[i], z[i]}; }
    TBS_METHOD vec3 normal(u32 i) const { return {normal_x[i], normal_y[i], normal_z[i]}; }
    TBS_METHOD vec3 edge(u32 i) const { return {edge_x[i], edge_y[i], edge_z[i]}; }
    TBS_METHOD vec3 tail(u32 i) const { return vertex(hull->tail[i]); }
    TBS_METHOD u32 corner(u32 face, u32 i) const { return hull->loop[hull->start[face] + i]; }
};

// A hull with a scale: normals go with its inverse.
template <class Room>
TBS_CALLED void scale(const Hull &hull, vec3 size, Polytope<Room> &out) {
    out.hull = &hull;
    const u32 vertices = lanes<Room::vertices>(hull.vertices), faces = lanes<Room::faces>(hull.faces);
    const u32 edges = lanes<Room::edges>(hull.edges);
    for (u32 k = 0; k < vertices; ++k) {
        out.x[k] = hull.x[k] * size.x;
        out.y[k] = hull.y[k] * size.y;
        out.z[k] = hull.z[k] * size.z;
    }
    const vec3 inverse{divide(1.0f, size.x), divide(1.0f, size.y), divide(1.0f, size.z)};
    for (u32 k = 0; k < faces; ++k) {
        const f32 x = hull.normal_x[k] * inverse.x, y = hull.normal_y[k] * inverse.y, z = hull.normal_z[k] * inverse.z;
        const f32 unit = divide(1.0f, sqrt(fma(z, z, fma(y, y, x * x))));
        out.normal_x[k] = x * unit;
        out.normal_y[k] = y * unit;
        out.normal_z[k] = z * unit;
        out.offset[k] = hull.offset[k] * unit;
    }
    for (u32 k = 0; k < edges; ++k) {
        out.edge_x[k] = hull.edge_x[k] * size.x;
        out.edge_y[k] = hull.edge_y[k] * size.y;
        out.edge_z[k] = hull.edge_z[k] * size.z;
    }
}

// Directions or places that a matrix turns, and then a shift.
template <u32 room>
TBS_FUNCTION void turn_all(const Matrix &turn, vec3 shift, u32 count, f32 (&xs)[room], f32 (&ys)[room],
                           f32 (&zs)[room]) {
    for (u32 k = 0; k < count; ++k) {
        const f32 x = xs[k], y = ys[k], z = zs[k];
        xs[k] = fma(turn.x.z, z, fma(turn.x.y, y, fma(turn.x.x, x, shift.x)));
        ys[k] = fma(turn.y.z, z, fma(turn.y.y, y, fma(turn.y.x, x, shift.y)));
        zs[k] = fma(turn.z.z, z, fma(turn.z.y, y, fma(turn.z.x, x, shift.z)));
    }
}

// The same hull seen from another frame, in which its own has the axes `turn` and the origin `centre`.
template <class Room>
TBS_CALLED void place(const Matrix &turn, vec3 centre, Polytope<Room> &hull) {
    const u32 faces = lanes<Room::faces>(hull.hull->faces);
    turn_all(turn, centre, lanes<Room::vertices>(hull.hull->vertices), hull.x, hull.y, hull.z);
    turn_all(turn, {0, 0, 0}, faces, hull.normal_x, hull.normal_y, hull.normal_z);
    turn_all(turn, {0, 0, 0}, lanes<Room::edges>(hull.hull->edges), hull.edge_x, hull.edge_y, hull.edge_z);
    for (u32 k = 0; k < faces; ++k) {
        hull.offset[k] += fma(hull.normal_z[k], centre.z, fma(hull.normal_y[k], centre.y, hull.normal_x[k] * centre.x));
    }
}

// What an axis says: by how much two hulls are apart along it, negative where they overlap.
struct Separation {
    f32 value;
    u32 first, second;  // of a face: its number and 0; of two edges: their numbers
};

// The face of one hull from which another, or the points of a segment, are furthest.
template <class Room>
TBS_CALLED Separation best_face(const Polytope<Room> &own, const f32 *x, const f32 *y, const f32 *z, u32 count) {
    f32 height[Room::faces];
    const u32 faces = lanes<Room::faces>(own.hull->faces);
    for (u32 k = 0; k < faces; ++k) height[k] = infinity;
    for (u32 v = 0; v < count; ++v) {
        const f32 vx = x[v], vy = y[v], vz = z[v];
        for (u32 k = 0; k < faces; ++k) {
            height[k] = min(fma(own.normal_z[k], vz, fma(own.normal_y[k], vy, own.normal_x[k] * vx)), height[k]);
        }
    }
    for (u32 k = 0; k < faces; ++k) height[k] -= own.offset[k];
    const u32 best = greatest(height, faces);
    return {height[best], best, 0};
}

// Of each edge of one hull the faces of another against which it goes: a bit for each face.
template <class Room>
TBS_CALLED void faces_against(const Polytope<Room> &edges, const Polytope<Room> &faces,
                                typename Room::Bits (&against)[Room::edges]) {
    using Bits = typename Room::Bits;
    const u32 all = lanes<Room::edges>(edges.hull->edges);
    for (u32 k = 0; k < all; ++k) against[k] = 0;
    for (u32 f = 0; f < faces.hull->faces; ++f) {
        const vec3 normal = faces.normal(f);
        for (u32 k = 0; k < all; ++k) {
            const f32 along =
                fma(normal.z, edges.edge_z[k], fma(normal.y, edges.edge_y[k], normal.x * edges.edge_x[k]));
            against[k] |= Bits(along < 0.0f) << f;
        }
    }
}

// The pair of edges along whose common normal two hulls are furthest apart. Only pairs that make a face of the
// Minkowski difference count: the arcs between the normals of their faces cross on the sphere of directions (Gregorius,
// "The separating axis test between convex polyhedra", GDC 2013). Which they are is a matter of signs, found for 16
// edges at once; they are few. Edges that are parallel to less than a thousandth are left out: then a face is as good.
template <class Room>
TBS_CALLED Separation best_edges(const Polytope<Room> &a, const Polytope<Room> &b) {
    using Bits = typename Room::Bits;
    Bits of_a[Room::edges], of_b[Room::edges];
    faces_against(a, b, of_a);
    faces_against(b, a, of_b);
    Separation best{-infinity, 0, 0};
    const u32 all = lanes<Room::edges>(a.hull->edges);
    for (u32 first = 0; first < b.hull->edges; first += 32) {
        u32 crossing[Room::edges], outward[Room::edges];        // a bit for each edge of b
        for (u32 k = 0; k < all; ++k) crossing[k] = outward[k] = 0;
        const u32 last = min(b.hull->edges, first + 32);
        for (u32 e = first; e < last; ++e) {
            const Bits bits = of_b[e];
            const u32 left_face = b.hull->left[e], right_face = b.hull->right[e];
            for (u32 k = 0; k < all; ++k) {
                const u32 left_a = u32(bits >> a.hull->left[k]) & 1, right_a = u32(bits >> a.hull->right[k]) & 1;
                const u32 left_b = u32(of_a[k] >> left_face) & 1, right_b = u32(of_a[k] >> right_face) & 1;
                crossing[k] |= ((left_a ^ right_a) & (left_b ^ right_b) & (left_b ^ right_a)) << (e - first);
                outward[k] |= right_a << (e - first);
            }
        }
        for (u32 k = 0; k < a.hull->edges; ++k) {
            for (u32 bits = crossing[k]; bits != 0; bits &= bits - 1) {
                const u32 bit = lowest_bit(bits), e = first + bit;
                const vec3 to_a = a.edge(k), to_b = b.edge(e), axis = cross(to_a, to_b);
                const f32 square = dot(axis, axis), along = dot(axis, b.tail(e) - a.tail(k));
                // From the left face to the right one about the edge: so the axis goes out of a if b's edge goes along
                // the left normal and against the right one.
                const f32 apart = outward[k] >> bit & 1 ? along : -along;
                const bool parallel = square <= 1e-6f * dot(to_a, to_a) * dot(to_b, to_b);
                const f32 value = parallel ? -infinity : divide(apart, sqrt(parallel ? 1.0f : square));
                best = value > best.value ? Separation{value, k, e} : best;
            }
        }
    }
    return best;
}

// Edges as they are used to find the nearest one.
template <class Room>
struct Edges {
    u32 count;
    f32 x[Room::edges], y[Room::edges], z[Room::edges], inverse[Room::edges];  // tails, and 1 / length^2
};

template <class Room>
TBS_CALLED void find_edges(const Polytope<Room> &hull, Edges<Room> &out) {
    out.count = hull.hull->edges;
    const u32 all = lanes<Room::edges>(out.count);
    for (u32 k = 0; k < all; ++k) {
        const u32 tail = hull.hull->tail[k];
        out.x[k] = hull.x[tail];
        out.y[k] = hull.y[tail];
        out.z[k] = hull.z[tail];
    }
    for (u32 k = 0; k < all; ++k) {
        const vec3 to = hull.edge(k);
        const f32 square = dot(to, to);
        out.inverse[k] = divide(1.0f, square > 0.0f ? square : 1.0f);
    }
}

// The nearest point of an edge of a hull to a vertex, over all edges and `count` vertices, if it is nearer than
// `square`.
template <class Room>
TBS_CALLED bool nearest_edge(const Polytope<Room> &hull, const Edges<Room> &edges, const f32 *x, const f32 *y,
                               const f32 *z, u32 count, f32 &square, vec3 &on_edge, vec3 &vertex, u32 &number) {
    constexpr u32 room = Room::edges;
    f32 best[room], place[room];
    u32 which[room];
    const u32 all = lanes<room>(edges.count);
    for (u32 k = 0; k < all; ++k) {
        best[k] = infinity;
        which[k] = 0;
        place[k] = 0.0f;
    }
    for (u32 v = 0; v < count; ++v) {
        const f32 vx = x[v], vy = y[v], vz = z[v];
        for (u32 k = 0; k < all; ++k) {
            const f32 px = vx - edges.x[k], py = vy - edges.y[k], pz = vz - edges.z[k];
            const f32 along = fma(pz, hull.edge_z[k], fma(py, hull.edge_y[k], px * hull.edge_x[k]));
            const f32 at = clamp(along * edges.inverse[k], 0.0f, 1.0f);
            const f32 dx = fma(-at, hull.edge_x[k], px), dy = fma(-at, hull.edge_y[k], py);
            const f32 dz = fma(-at, hull.edge_z[k], pz), here = fma(dz, dz, fma(dy, dy, dx * dx));
            const bool better = here < best[k];
            which[k] = better ? v : which[k];
            place[k] = better ? at : place[k];
            best[k] = better ? here : best[k];
        }
    }
    const u32 k = least(best, all);
    if (!(best[k] < square)) return false;
    square = best[k];
    vertex = {x[which[k]], y[which[k]], z[which[k]]};
    on_edge = hull.tail(k) + hull.edge(k) * place[k];
    number = which[k] * 128 + k;
    return true;
}
