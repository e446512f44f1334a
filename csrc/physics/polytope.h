// Hulls in lanes: their vertices, faces and edges in one frame, scaled and turned, and results of all lanes at once.
#pragma once

#include "physics/manifold.h"

// Room for small hulls (a box, a wedge) and for all: lanes for vertices and faces, powers of two, and for edges; and a
// word with a bit for each face.
struct Small {
    static constexpr u32 vertices = 16, faces = 16, edges = 16, loop = 16;
    using Bits = u32;
};
struct Large {
    static constexpr u32 vertices = 32, faces = 64, edges = 96, loop = 32;
    using Bits = u64;
};

// On a CPU the edges' directions are kept, and all edges are worked on at once. On a GPU, where it is the stack of each
// thread that counts, directions are computed where they are used, and 16 edges are worked on at a time: to the same
// bits.
#ifdef TBS_ON_DEVICE
inline constexpr bool keeps_edges = false;
#else
inline constexpr bool keeps_edges = true;
#endif
template <class Room>
inline constexpr u32 edges_at_once = keeps_edges ? Room::edges : 16;

TBS_FUNCTION bool is_small(const Hull &hull) { return hull.vertices <= 16 && hull.faces <= 16 && hull.edges <= 16; }

// The directions of some edges of a hull, by components.
template <u32 n>
struct Directions {
    f32 x[n], y[n], z[n];
};

// A hull in some frame. Lanes behind the last vertex and face repeat the first, as in Hull.
template <class Room>
struct Polytope {
    f32 x[Room::vertices], y[Room::vertices], z[Room::vertices];
    f32 normal_x[Room::faces], normal_y[Room::faces], normal_z[Room::faces], offset[Room::faces];
    Directions<keeps_edges ? Room::edges : 1> kept;
    vec3 size;    // scale of the hull,
    Matrix turn;  // and then turned
    const Hull *hull;

    TBS_METHOD vec3 vertex(u32 i) const { return {x[i], y[i], z[i]}; }
    TBS_METHOD vec3 normal(u32 i) const { return {normal_x[i], normal_y[i], normal_z[i]}; }
    TBS_METHOD vec3 edge(u32 i) const {
        return keeps_edges ? vec3{kept.x[i], kept.y[i], kept.z[i]} : turn * (hull->edge(i) * size);
    }
    TBS_METHOD vec3 tail(u32 i) const { return vertex(hull->tail[i]); }
    TBS_METHOD u32 corner(u32 face, u32 i) const { return hull->loop[hull->start[face] + i]; }
};

// A hull with a scale: normals go with its inverse.
template <class Room>
TBS_CALLED void scale(const Hull &hull, vec3 size, Polytope<Room> &out) {
    out.hull = &hull;
    out.size = size;
    out.turn = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const u32 vertices = lanes<Room::vertices>(hull.vertices), faces = lanes<Room::faces>(hull.faces);
    TBS_ROLLED
    for (u32 k = 0; k < vertices; ++k) {
        out.x[k] = hull.x[k] * size.x;
        out.y[k] = hull.y[k] * size.y;
        out.z[k] = hull.z[k] * size.z;
    }
    const vec3 inverse{divide(1.0f, size.x), divide(1.0f, size.y), divide(1.0f, size.z)};
    TBS_ROLLED
    for (u32 k = 0; k < faces; ++k) {
        const f32 x = hull.normal_x[k] * inverse.x, y = hull.normal_y[k] * inverse.y, z = hull.normal_z[k] * inverse.z;
        const f32 unit = divide(1.0f, sqrt(fma(z, z, fma(y, y, x * x))));
        out.normal_x[k] = x * unit;
        out.normal_y[k] = y * unit;
        out.normal_z[k] = z * unit;
        out.offset[k] = hull.offset[k] * unit;
    }
    if constexpr (keeps_edges) {
        const u32 edges = lanes<Room::edges>(hull.edges);
        TBS_ROLLED
        for (u32 k = 0; k < edges; ++k) {
            out.kept.x[k] = hull.edge_x[k] * size.x;
            out.kept.y[k] = hull.edge_y[k] * size.y;
            out.kept.z[k] = hull.edge_z[k] * size.z;
        }
    }
}

// Directions or places that a matrix turns, and then a shift.
template <u32 room>
TBS_FUNCTION void turn_all(const Matrix &turn, vec3 shift, u32 count, f32 (&xs)[room], f32 (&ys)[room],
                           f32 (&zs)[room]) {
    TBS_ROLLED
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
    hull.turn = turn;
    if constexpr (keeps_edges) {
        turn_all(turn, {0, 0, 0}, lanes<Room::edges>(hull.hull->edges), hull.kept.x, hull.kept.y, hull.kept.z);
    }
    TBS_ROLLED
    for (u32 k = 0; k < faces; ++k) {
        hull.offset[k] += fma(hull.normal_z[k], centre.z, fma(hull.normal_y[k], centre.y, hull.normal_x[k] * centre.x));
    }
}

// The result of an axis: the distance of two hulls along it, negative where they overlap.
struct Separation {
    f32 value;
    u32 first, second;  // of a face: its number and 0; of two edges: their numbers
};

// The face of one hull from which another, or the points of a segment, are furthest.
template <class Room>
TBS_CALLED Separation best_face(const Polytope<Room> &own, const f32 *x, const f32 *y, const f32 *z, u32 count) {
    f32 height[Room::faces];
    const u32 faces = lanes<Room::faces>(own.hull->faces);
    TBS_ROLLED
    for (u32 k = 0; k < faces; ++k) height[k] = infinity;
    TBS_ROLLED
    for (u32 v = 0; v < count; ++v) {
        const f32 vx = x[v], vy = y[v], vz = z[v];
        TBS_ROLLED
        for (u32 k = 0; k < faces; ++k) {
            height[k] = min(fma(own.normal_z[k], vz, fma(own.normal_y[k], vy, own.normal_x[k] * vx)), height[k]);
        }
    }
    TBS_ROLLED
    for (u32 k = 0; k < faces; ++k) height[k] -= own.offset[k];
    const u32 best = greatest(height, faces);
    return {height[best], best, 0};
}

// The edges of a hull that are worked on at once, from `first` on: how many lanes, and their directions.
template <class Room>
struct EdgeView {
    u32 lanes;
    const f32 *x, *y, *z;
};
template <class Room>
TBS_FUNCTION EdgeView<Room> edges_from(const Polytope<Room> &own, u32 first,
                                       Directions<edges_at_once<Room>> &computed) {
    const Hull &hull = *own.hull;
    if constexpr (keeps_edges) {
        return {lanes<Room::edges>(hull.edges), own.kept.x, own.kept.y, own.kept.z};
    } else {
        TBS_ROLLED
        for (u32 k = 0; k < edges_at_once<Room>; ++k) {
            computed.x[k] = hull.edge_x[first + k] * own.size.x;
            computed.y[k] = hull.edge_y[first + k] * own.size.y;
            computed.z[k] = hull.edge_z[first + k] * own.size.z;
        }
        turn_all(own.turn, {0, 0, 0}, edges_at_once<Room>, computed.x, computed.y, computed.z);
        return {edges_at_once<Room>, computed.x, computed.y, computed.z};
    }
}

// Of edges of one hull, from `first` on, the faces of another against which they go: a bit for each face.
template <class Room>
TBS_CALLED void faces_against(const Polytope<Room> &own, u32 first, const Polytope<Room> &other,
                              typename Room::Bits *against) {
    using Bits = typename Room::Bits;
    Directions<edges_at_once<Room>> computed;
    const EdgeView<Room> edges = edges_from(own, first, computed);
    Bits bits[edges_at_once<Room>];
    TBS_ROLLED
    for (u32 k = 0; k < edges.lanes; ++k) bits[k] = 0;
    TBS_ROLLED
    for (u32 f = 0; f < other.hull->faces; ++f) {
        const vec3 normal = other.normal(f);
        TBS_ROLLED
        for (u32 k = 0; k < edges.lanes; ++k) {
            const f32 along = fma(normal.z, edges.z[k], fma(normal.y, edges.y[k], normal.x * edges.x[k]));
            bits[k] |= Bits(along < 0.0f) << f;
        }
    }
    TBS_ROLLED
    for (u32 k = 0; k < edges.lanes; ++k) against[k] = bits[k];
}

// By how much two hulls are apart along the common normal of two edges that make a face of their Minkowski difference.
template <class Room>
TBS_FUNCTION f32 apart_along_edges(const Polytope<Room> &a, u32 i, const Polytope<Room> &b, u32 j, bool outward) {
    const vec3 to_a = a.edge(i), to_b = b.edge(j), axis = cross(to_a, to_b);
    const f32 square = dot(axis, axis), along = dot(axis, b.tail(j) - a.tail(i));
    // From the left face to the right one about the edge: so the axis goes out of a if b's edge goes along the left
    // normal and against the right one.
    const f32 apart = outward ? along : -along;
    const bool parallel = square <= 1e-6f * dot(to_a, to_a) * dot(to_b, to_b);
    return parallel ? -infinity : divide(apart, sqrt(parallel ? 1.0f : square));
}

// The pair of edges along whose common normal two hulls are furthest apart. Only pairs that make a face of the
// Minkowski difference count: the arcs between the normals of their faces cross on the sphere of directions (Gregorius,
// "The separating axis test between convex polyhedra", GDC 2013). Which they are is a matter of signs, found for 16
// edges at once; they are few. Edges that are parallel to less than a thousandth are left out: then a face is as good.
template <class Room>
TBS_CALLED Separation best_edges(const Polytope<Room> &a, const Polytope<Room> &b) {
    using Bits = typename Room::Bits;
    constexpr u32 at_once = edges_at_once<Room>;
    Bits of_a[at_once], of_b[Room::edges];
    TBS_ROLLED
    for (u32 e = 0; e < b.hull->edges; e += at_once) faces_against(b, e, a, of_b + e);
    Separation best{-infinity, 0, 0};
    TBS_ROLLED
    for (u32 first_a = 0; first_a < a.hull->edges; first_a += at_once) {
        faces_against(a, first_a, b, of_a);
        const u32 all = keeps_edges ? lanes<Room::edges>(a.hull->edges) : at_once;
        const u8 *left = a.hull->left + first_a, *right = a.hull->right + first_a;
        TBS_ROLLED
        for (u32 first = 0; first < b.hull->edges; first += 32) {
            u32 crossing[at_once], outward[at_once];  // a bit for each edge of b
            TBS_ROLLED
            for (u32 k = 0; k < all; ++k) crossing[k] = outward[k] = 0;
            const u32 last = min(b.hull->edges, first + 32);
            TBS_ROLLED
            for (u32 e = first; e < last; ++e) {
                const Bits bits = of_b[e];
                const u32 left_face = b.hull->left[e], right_face = b.hull->right[e];
                TBS_ROLLED
                for (u32 k = 0; k < all; ++k) {
                    const u32 left_a = u32(bits >> left[k]) & 1, right_a = u32(bits >> right[k]) & 1;
                    const u32 left_b = u32(of_a[k] >> left_face) & 1, right_b = u32(of_a[k] >> right_face) & 1;
                    crossing[k] |= ((left_a ^ right_a) & (left_b ^ right_b) & (left_b ^ right_a)) << (e - first);
                    outward[k] |= right_a << (e - first);
                }
            }
            const u32 own = min(a.hull->edges - first_a, at_once);
            TBS_ROLLED
            for (u32 k = 0; k < own; ++k) {
                TBS_ROLLED
                for (u32 bits = crossing[k]; bits != 0; bits &= bits - 1) {
                    const u32 bit = lowest_bit(bits);
                    const f32 value = apart_along_edges(a, first_a + k, b, first + bit, outward[k] >> bit & 1);
                    best = value > best.value ? Separation{value, first_a + k, first + bit} : best;
                }
            }
        }
    }
    return best;
}

// The nearest point of an edge of a hull to a vertex, over all edges and `count` vertices, if it is nearer than
// `square`. Of edges as near as each other but for rounding the first one, as least() takes it.
template <class Room>
TBS_CALLED bool nearest_edge(const Polytope<Room> &hull, const f32 *x, const f32 *y, const f32 *z, u32 count,
                             f32 &square, vec3 &on_edge, vec3 &vertex, u32 &number) {
    constexpr u32 at_once = edges_at_once<Room>;
    constexpr i32 low = Room::edges <= 16 ? 15 : 127;
    i32 nearest = 0x7fffffff;
    u32 edge = 0, of_vertex = 0;
    f32 at = 0.0f, there = infinity;
    TBS_ROLLED
    for (u32 first = 0; first < hull.hull->edges; first += at_once) {
        Directions<at_once> computed;
        const EdgeView<Room> to = edges_from(hull, first, computed);
        f32 from_x[at_once], from_y[at_once], from_z[at_once], inverse[at_once];
        TBS_ROLLED
        for (u32 k = 0; k < to.lanes; ++k) {
            const vec3 tail = hull.tail(first + k);
            from_x[k] = tail.x, from_y[k] = tail.y, from_z[k] = tail.z;
        }
        f32 best[at_once], place[at_once];
        u32 which[at_once];
        TBS_ROLLED
        for (u32 k = 0; k < to.lanes; ++k) {
            const f32 length = dot(vec3{to.x[k], to.y[k], to.z[k]}, vec3{to.x[k], to.y[k], to.z[k]});
            inverse[k] = divide(1.0f, length > 0.0f ? length : 1.0f);
            best[k] = infinity;
            which[k] = 0;
            place[k] = 0.0f;
        }
        TBS_ROLLED
        for (u32 v = 0; v < count; ++v) {
            const f32 vx = x[v], vy = y[v], vz = z[v];
            TBS_ROLLED
            for (u32 k = 0; k < to.lanes; ++k) {
                const f32 px = vx - from_x[k], py = vy - from_y[k], pz = vz - from_z[k];
                const f32 along = fma(pz, to.z[k], fma(py, to.y[k], px * to.x[k]));
                const f32 part = clamp(along * inverse[k], 0.0f, 1.0f);
                const f32 dx = fma(-part, to.x[k], px), dy = fma(-part, to.y[k], py), dz = fma(-part, to.z[k], pz);
                const f32 here = fma(dz, dz, fma(dy, dy, dx * dx));
                const bool better = here < best[k];
                which[k] = better ? v : which[k];
                place[k] = better ? part : place[k];
                best[k] = better ? here : best[k];
            }
        }
        i32 key = 0x7fffffff;
        TBS_ROLLED
        for (u32 k = 0; k < to.lanes; ++k) key = min(key, (ordered(best[k]) & ~low) | i32(first + k));
        if (key >= nearest) continue;
        nearest = key;
        edge = u32(key & low);
        there = best[edge - first], at = place[edge - first], of_vertex = which[edge - first];
    }
    if (!(there < square)) return false;
    square = there;
    vertex = {x[of_vertex], y[of_vertex], z[of_vertex]};
    on_edge = hull.tail(edge) + hull.edge(edge) * at;
    number = of_vertex * 128 + edge;
    return true;
}
