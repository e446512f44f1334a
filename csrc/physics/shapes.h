// Shapes, their poses, and the result of a narrow phase for two of them.
//
// Lengths are in metres (or any other unit, the same everywhere). A body's frame has its centre of mass as the origin.
#pragma once

// The kinds of shapes, the values of Shape.kind. A pair is collided with the lower kind first.
enum ShapeKind : i32 { SPHERE, CAPSULE, BOX, HULL, PLANE, NOTHING };

inline constexpr u32 most_hull_vertices = 32;
inline constexpr u32 most_hull_faces = 60;   // 2 v - 4, Euler's formula with triangles only
inline constexpr u32 most_hull_edges = 90;   // 3 v - 6

// Where a body is: the place of its centre of mass, and the rotation (a unit quaternion) of its frame.
struct Transform {
    vec3 position;
    quat rotation;
};

// Where what is at `local` in a body's frame is while the body is at `at`.
TBS_FUNCTION Transform placed_in(const Transform &local, const Transform &at) {
    return {at.position + rotate(local.position, at.rotation), normalize(at.rotation * local.rotation)};
}

// A convex polyhedron whose centroid is the origin, as torch_batchsim/physics/hulls.py makes it. Arrays are longer than
// their contents, so that loops over whole vectors stay inside: vertices and faces behind the last one repeat the
// first.
struct Hull {
    f32 x[32], y[32], z[32];                                       // vertices
    f32 normal_x[64], normal_y[64], normal_z[64], offset[64];      // face i: dot(normal, p) <= offset; unit, outward
    u32 vertices, faces, edges;                                    // how many there are
    u8 start[64];                                                  // of face i in loop; its end is start[i + 1]
    u8 loop[192];                                                  // vertices, counter-clockwise seen from outside
    u8 tail[96], head[96];                                         // edge i goes from vertex tail to vertex head ...
    u8 left[96], right[96];                                        // ... between these faces; loop of left: tail, head
    f32 edge_x[96], edge_y[96], edge_z[96];                        // from tail to head

    TBS_METHOD vec3 vertex(u32 i) const { return {x[i], y[i], z[i]}; }
    TBS_METHOD vec3 normal(u32 i) const { return {normal_x[i], normal_y[i], normal_z[i]}; }
    TBS_METHOD vec3 edge(u32 i) const { return {edge_x[i], edge_y[i], edge_z[i]}; }
    TBS_METHOD u32 loop_size(u32 face) const { return u32(start[face + 1]) - start[face]; }
};
static_assert(sizeof(Hull) == 3212, "torch_batchsim/physics/hulls.py packs hulls with this layout");

// A shape in its body's frame. `size`, all that is used of it positive and finite:
//   SPHERE   x the radius
//   CAPSULE  x the radius, y half the length of the segment along z, which may be 0
//   BOX      half the extents
//   HULL     the scale of the hull's vertices along x, y, z
//   PLANE    not used; solid where z <= 0
//   NOTHING  not used; of a body whose parts are its shapes: it touches nothing
// `hull` is read for HULL, and for BOX too: there it is the cube of vertices +-1, which is the first of all hulls, so
// that `size` is its scale.
struct Geometry {
    i32 kind;
    vec3 size;
    const Hull *hull;
};

// The points in which two shapes touch, or come near each other.
struct Manifold {
    struct Point {
        vec3 anchor_a, anchor_b;  // the point of a and of b, in world axes, from the position of a and of b
        f32 separation;           // along the normal, from the point of a to that of b; negative where they overlap
        u32 feature;              // what touches what: the same from step to step, different within a manifold; below 2^16 - 1
    };

    vec3 normal;                  // world axes, unit, from a to b; (0, 0, 1) where count is 0
    u32 count;                    // of points, 0 to 4
    u32 corners;                  // of the face in which the shapes touch; `count` if below that
    Point points[4];
};

// An axis-aligned box. A plane's is infinite.
struct Bounds {
    vec3 low, high;
};

TBS_FUNCTION bool overlap(const Bounds &a, const Bounds &b) {
    return a.low.x <= b.high.x && a.low.y <= b.high.y && a.low.z <= b.high.z &&  //
           b.low.x <= a.high.x && b.low.y <= a.high.y && b.low.z <= a.high.z;
}

// The rows of the matrix of a rotation: component i of rotate(v, q) is about dot(row i, v), and column j the image of
// the unit vector j.
struct Matrix {
    vec3 x, y, z;
};

TBS_FUNCTION Matrix matrix(quat q) {
    const f32 x2 = q.x + q.x, y2 = q.y + q.y, z2 = q.z + q.z;
    const f32 xx = q.x * x2, yy = q.y * y2, zz = q.z * z2;
    const f32 wx = q.w * x2, wy = q.w * y2, wz = q.w * z2;
    return {{1.0f - (yy + zz), fma(q.x, y2, -wz), fma(q.x, z2, wy)},
            {fma(q.x, y2, wz), 1.0f - (xx + zz), fma(q.y, z2, -wx)},
            {fma(q.x, z2, -wy), fma(q.y, z2, wx), 1.0f - (xx + yy)}};
}
TBS_FUNCTION Matrix transpose(const Matrix &m) {
    return {{m.x.x, m.y.x, m.z.x}, {m.x.y, m.y.y, m.z.y}, {m.x.z, m.y.z, m.z.z}};
}
TBS_FUNCTION vec3 operator*(const Matrix &m, vec3 v) { return {dot(m.x, v), dot(m.y, v), dot(m.z, v)}; }
TBS_FUNCTION Matrix operator*(const Matrix &a, const Matrix &b) {
    const Matrix columns = transpose(b);
    return {{dot(a.x, columns.x), dot(a.x, columns.y), dot(a.x, columns.z)},
            {dot(a.y, columns.x), dot(a.y, columns.y), dot(a.y, columns.z)},
            {dot(a.z, columns.x), dot(a.z, columns.y), dot(a.z, columns.z)}};
}
TBS_FUNCTION vec3 absolute(vec3 v) { return {abs(v.x), abs(v.y), abs(v.z)}; }

// The bounds of a shape at a place.
TBS_FUNCTION Bounds bounds(const Geometry &shape, const Transform &at) {
    if (shape.kind == PLANE) return {{-infinity, -infinity, -infinity}, {infinity, infinity, infinity}};
    const Matrix m = matrix(at.rotation);
    vec3 low, high;
    if (shape.kind == HULL) {
        const Hull &hull = *shape.hull;
        const vec3 sx = m.x * shape.size, sy = m.y * shape.size, sz = m.z * shape.size;
        low = {infinity, infinity, infinity};
        high = -low;
        TBS_ROLLED
        for (u32 i = 0; i < hull.vertices; ++i) {
            const vec3 v = hull.vertex(i), p{dot(sx, v), dot(sy, v), dot(sz, v)};
            low = {min(low.x, p.x), min(low.y, p.y), min(low.z, p.z)};
            high = {max(high.x, p.x), max(high.y, p.y), max(high.z, p.z)};
        }
    } else {
        const vec3 column{m.x.z, m.y.z, m.z.z};
        const f32 radius = shape.size.x;
        high = vec3{radius, radius, radius};
        if (shape.kind == CAPSULE) high += absolute(column * shape.size.y);
        if (shape.kind == BOX) {
            high = {dot(absolute(m.x), shape.size), dot(absolute(m.y), shape.size), dot(absolute(m.z), shape.size)};
        }
        low = -high;
    }
    return {at.position + low, at.position + high};
}
