// A pool of worker threads that share out the tiles of one step. Each library has one, whose threads sleep when idle.
#pragma once
#include <cstdint>

namespace tbs {

using TileFunction = void (*)(void *argument, std::int32_t tile);

// Runs function(argument, tile) for every tile in [0, tile_count) on up to `threads` threads, the caller among them,
// and returns when all have run. Tiles are claimed one by one, so a worker that wakes late delays nobody.
// A second caller while a run is under way, and any caller with one thread or one tile, runs all tiles itself.
void run_tiles(TileFunction function, void *argument, std::int32_t tile_count, std::int32_t threads);

}  // namespace tbs
