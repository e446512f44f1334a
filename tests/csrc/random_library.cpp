// csrc/tbs/random.h behind a C interface, for test_random.py.
#include "tbs/random.h"

using namespace tbs;

extern "C" void block(const u32 *counter, const u32 *key, u32 *words) {
    PhiloxBlock result = philox({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
    for (int i = 0; i < 4; i++) words[i] = result.word[i];
}

// n draws of one stream; for each kind of draw.
struct Name {
    u64 seed;
    u32 node, row, stream, episode, step;
};
#define OPEN Random random(name->seed, name->node, name->row, name->stream, name->episode, name->step)
#define DRAWS(function, type, draw)                                                  \
    extern "C" void function(const Name *name, const f64 *p, type *out, i64 n) {     \
        (void)p;                                                                     \
        OPEN;                                                                        \
        for (i64 i = 0; i < n; i++) out[i] = draw;                                   \
    }
DRAWS(bits, u32, random.bits())
DRAWS(uniform, f32, random.uniform())
DRAWS(uniform_between, f32, random.uniform(f32(p[0]), f32(p[1])))
DRAWS(below, u32, random.below(u32(p[0])))
DRAWS(integer, i32, random.integer(i32(p[0]), i32(p[1])))
DRAWS(chance, i32, random.chance(f32(p[0])))
DRAWS(normal, f32, random.normal())

extern "C" void normal_pairs(const Name *name, f32 *out, i64 n) {
    OPEN;
    for (i64 i = 0; i < n; i++) random.normal_pair(out[2 * i], out[2 * i + 1]);
}

extern "C" void shuffles(const Name *name, i32 *items, i32 length, i64 n) {
    OPEN;
    for (i64 i = 0; i < n; i++) random.shuffle(items + i * length, u32(length));
}

// Shuffles after `before` words of the stream, and returns the word that comes next.
extern "C" u32 shuffle_within(const Name *name, i32 before, i32 *items, i32 length) {
    OPEN;
    for (i32 i = 0; i < before; i++) random.bits();
    random.shuffle(items, u32(length));
    return random.bits();
}

// One of everything, in this order: a test follows the draw order with its own model.
extern "C" void mixture(const Name *name, f64 *out) {
    OPEN;
    out[0] = random.uniform();
    out[1] = random.below(1000);
    out[2] = random.uniform(-2, 3);
    out[3] = random.integer(-5, 5);
    out[4] = random.chance(0.5f);
    out[5] = random.normal();
    out[6] = random.bits();
}

// Rows of a table, each with its own stream: the loops that have to vectorise.
extern "C" void rows_uniform(u64 seed, f32 *__restrict a, f32 *__restrict b, f32 *__restrict c,
                             f32 *__restrict d, i64 n) {
    for (i64 i = 0; i < n; i++) {  // uniform
        Random random(seed, 1, u32(i), 2, 3, 4);
        a[i] = random.uniform(-0.05f, 0.05f);
        b[i] = random.uniform(-0.05f, 0.05f);
        c[i] = random.uniform(-0.05f, 0.05f);
        d[i] = random.uniform(-0.05f, 0.05f);
    }
}
extern "C" void rows_normal(u64 seed, f32 *__restrict a, i64 n) {
    for (i64 i = 0; i < n; i++) {  // normal
        Random random(seed, 1, u32(i), 2, 3, 4);
        a[i] = random.normal();
    }
}
extern "C" void rows_below(u64 seed, u32 *__restrict a, i64 n) {
    for (i64 i = 0; i < n; i++) {  // below
        Random random(seed, 1, u32(i), 2, 3, 4);
        a[i] = random.below(6);
    }
}
