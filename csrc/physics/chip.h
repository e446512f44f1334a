// Blocks of one item, as lanes of a GPU work on them: in memory on chip as far as there is room.
//
// That memory has 32 banks of 4 bytes, and gives a warp 128 bytes at once if no two lanes want others of one bank. Where
// each lane moves 16 bytes, 8 of them are served together; they are in banks of their own where items lie an odd number of
// 16 bytes apart.
#pragma once

#include "physics/workspace.h"

TBS_FUNCTION constexpr u32 lesser_of(u32 a, u64 b) { return u64(a) < b ? a : u32(b); }

// Bytes to which blocks and rows are aligned, so that no vector lies in two lines of a cache.
inline constexpr u32 whole_vectors = simd_width > 1 ? 64 : 16;

// Words behind a block, so that the next one begins an odd number of 16 bytes further.
template <class Block>
inline constexpr u32 words_behind = ((sizeof(Block) + 15) / 16 | 1) * 4 - sizeof(Block) / 4;

template <class Block, u32 words>
struct alignas(16) SpreadBy : Block {
    u32 behind[words];
};
template <class Block>
struct alignas(16) SpreadBy<Block, 0> : Block {};

template <class Block>
using Spread = SpreadBy<Block, words_behind<Block>>;

// The first `on_chip` blocks are here, the others elsewhere.
template <class Block, u32 on_chip>
struct PartOnChip {
    Spread<Block> *others;
    Spread<Block> first[on_chip > 0 ? on_chip : 1];

    TBS_METHOD Block &operator[](u32 i) {
        return *in_vectors(i < on_chip ? first + i : others + (i - on_chip));
    }
    TBS_METHOD const Block &operator[](u32 i) const {
        return *in_vectors(i < on_chip ? first + i : others + (i - on_chip));
    }
};
