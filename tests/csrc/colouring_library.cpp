// csrc/physics/colouring.h behind a C interface, for test_colouring.py: with the words of CUDA emulated.
#include "tbs/lanes.h"
#include "tbs/math.h"
#include "tbs/vector.h"
#include "tbs/wide.h"

#include <cstring>

namespace tbs::physics {
inline constexpr bool sums_friction = false;
#include "physics/workspace.h"
#include "physics/colouring.h"

struct Bodies {
    static constexpr u32 ground = 64;

    u32 body_count;
    BodyBlock body_blocks[ground];
    u32 used[ground], reached[ground];
};

// Constraint i is between bodies pairs[2 i] and pairs[2 i + 1]. kinds: 0 stands, 1 moves, 2 moves as nothing changes.
// Returns whether a warp gives the order that one thread gives; that order in `items`, its batches in `sizes`.
extern "C" bool agree(u32 bodies, const u32 *kinds, u32 count, const u32 *pairs, u32 *items, u32 *sizes) {
    static Bodies w;
    std::memset(&w, 0x5a, sizeof w);
    w.body_count = bodies;
    for (u32 i = 0; i < bodies; ++i) {
        w.body_blocks[i].movable[0] = kinds[i] == 1;
        w.body_blocks[i].moving[0] = kinds[i] != 0;
    }
    const auto bodies_of = [&](u32 i, u32 &a, u32 &b) {
        a = pairs[2 * i];
        b = pairs[2 * i + 1];
    };
    static u32 others[1024];
    static Batches batches, other_batches;
    std::memset(&batches, 0, sizeof batches);
    std::memset(&other_batches, 0, sizeof other_batches);
    colour_in_order(w, count, items, batches, bodies_of);
    emulated_cuda::run_blocks(1, 32, [&] {
        Lanes<32> warp;
        colour(w, warp, count, others, other_batches, bodies_of);
    });
    for (u32 c = 0; c <= most_colours; ++c) sizes[c] = batches.batch[c].count;
    return std::memcmp(items, others, count * sizeof(u32)) == 0 &&
           std::memcmp(&batches, &other_batches, sizeof batches) == 0;
}
}  // namespace tbs::physics
