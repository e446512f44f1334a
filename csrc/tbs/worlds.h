// Several worlds in one call of a system: `TBS_SYSTEM void solve(Worlds<4> &worlds, Solver &solver, Warp &warp)`. What one
// world has to do at a time may be too little to fill the lanes of a group, or of a processor's vectors.
#pragma once
#include "world.h"

namespace tbs {

// Worlds that run together: `count` of them, from 1 to `most`.
template <u32 most>
struct WorldPack {
    i32 ids[most] = {};
    u32 count = 0;

    // Without an index known only at run time: the numbers may be in registers.
    TBS_METHOD void add(i32 id) {
        TBS_UNROLL
        for (u32 i = 0; i < most; ++i) ids[i] = i == count ? id : ids[i];
        ++count;
    }
    TBS_METHOD i32 operator[](u32 k) const {
        i32 id = ids[0];
        TBS_UNROLL
        for (u32 i = 1; i < most; ++i) id = i == k ? ids[i] : id;
        return id;
    }
};

// Worlds of one call, at most `most`; on CUDA one in batches of few worlds (team.cuh). Which worlds are together differs
// between executors, tiles and steps: results in one must not depend on the others.
template <class Context, u32 most_worlds>
class BasicWorlds {
  public:
    static constexpr u32 most = most_worlds;
    const u32 count;  // 1 .. most
    const decltype(Context::parameters) &parameters;

    TBS_METHOD BasicWorlds(const Context &context, const WorldPack<most> &pack, const typename Context::Node &node,
                           u32 repetition)
        : count(pack.count), parameters(context.parameters), context_(context), pack_(pack), node_(node),
          repetition_(repetition) {}
    BasicWorlds(const BasicWorlds &) = delete;

#ifdef TBS_CHECKS
    static constexpr bool takes_checked_index = true;
    TBS_METHOD BasicWorld<Context> operator[](checks::Index index) const {
        return BasicWorld<Context>(context_, u32(pack_[checks::world_among(index, count)]), node_, Row{0, 1}, 0, repetition_);
    }
#else
    // World k: `const World world = worlds[k];`.
    TBS_METHOD BasicWorld<Context> operator[](u32 k) const {
        return BasicWorld<Context>(context_, u32(pack_[k]), node_, Row{0, 1}, 0, repetition_);
    }
#endif

    // World::repetition().
    TBS_METHOD u32 repetition() const { return repetition_; }

  private:
    const Context &context_;
    const WorldPack<most> &pack_;
    const typename Context::Node &node_;
    const u32 repetition_;
};

}  // namespace tbs
