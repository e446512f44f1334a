// Random numbers that depend on names only: who draws, in which episode and step. No state is kept anywhere,
// so a world's draws are the same whatever runs beside it, in any order, on CPU and on CUDA.
//
// Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC
// 2011), a keyed bijection of 128-bit counters. One block of it gives four 32-bit words.
//     key     = mix(seed, node), with row added to its high word
//     counter = (stream, episode, step, block), block counting 0, 1, 2, ... within one Random
// Draw order: a Random hands out the words of block 0 first to last, then those of block 1, and so on. Each
// method takes a fixed number of words, whatever it returns; a pair of words may span two blocks.
#pragma once

#include "math.h"
#include "platform.h"

namespace tbs {

struct PhiloxBlock {
    u32 word[4];
};

// The Philox4x32-10 block function of Salmon et al. 2011, tested against the vectors of Random123.
TBS_FUNCTION PhiloxBlock philox(PhiloxBlock counter, u32 key0, u32 key1) {
    u32 a = counter.word[0], b = counter.word[1], c = counter.word[2], d = counter.word[3];
    TBS_UNROLL
    for (int round = 0; round < 10; round++) {
        u64 left = u64(0xD2511F53u) * a, right = u64(0xCD9E8D57u) * c;
        a = u32(right >> 32) ^ b ^ key0;
        b = u32(right);
        c = u32(left >> 32) ^ d ^ key1;
        d = u32(left);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}

// 64 bits from a seed and a node's number: one step of SplitMix64 (Steele, Lea, Flood 2014), a bijection of
// the seed for each node.
TBS_FUNCTION u64 mix_key(u64 seed, u32 node) {
    u64 z = seed + 0x9E3779B97F4A7C15ull * (u64(node) + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// The key of a row's stream, in two words.
struct RandomKey {
    u32 low, high;
    TBS_METHOD RandomKey(u64 seed, u32 node, u32 row) {
        const u64 key = mix_key(seed, node);
        low = u32(key);
        high = u32(key >> 32) + row;
    }
};

// The number of a node in keys, in a repetition of its loops: an odd number of 2^32 apart, so that no two repetitions have
// one key; the first has that of a node without a loop.
TBS_FUNCTION u32 repeated(u32 node, u32 repetition) { return node + repetition * 0x9E3779B9u; }

// The stream of one row in one system, step and episode: `Random &random = world.random();`.
struct Random {
    Random() = default;

    // The stream of one row in one node, step and episode. The first draw computes its first block.
    TBS_METHOD Random(u64 seed, u32 node, u32 row, u32 stream, u32 episode, u32 step)
        : Random(RandomKey(seed, node, row), stream, episode, step) {}

    // Hands out `first`, its first block already computed, before it computes more.
    TBS_METHOD void begin_with(const PhiloxBlock &first) {
        next_ = first;
        block_ = 1;
        left_ = 4;
    }

    // A copy would draw the same numbers again.
    Random(const Random &) = delete;
    Random &operator=(const Random &) = delete;
    Random(Random &&) = default;
    Random &operator=(Random &&) = default;

    // 32 random bits. One word.
    TBS_METHOD u32 bits() {
        if (left_ == 0) {            // known at compile time, unless draws happen in a loop
            next_ = philox({{stream_, episode_, step_, block_}}, key0_, key1_);
            block_++;
            left_ = 4;
        }
        // Words are moved down rather than indexed, so that they stay in registers.
        u32 word = next_.word[0];
        next_.word[0] = next_.word[1];
        next_.word[1] = next_.word[2];
        next_.word[2] = next_.word[3];
        left_--;
        return word;
    }

    // Uniform in [0, 1), a multiple of 2^-24. One word.
    TBS_METHOD f32 uniform() { return f32(i32(bits() >> 8)) * 0x1p-24f; }

    // Uniform in [low, high), low < high with a finite difference; low if they are equal. One word. Where low + u (high
    // - low) rounds up to high or beyond, the result is low, which with evenly spaced floats makes all equally likely.
    TBS_METHOD f32 uniform(f32 low, f32 high) {
        f32 x = fma(uniform(), high - low, low);
        return x < high ? x : low;
    }

    // Uniform in 0 .. n - 1; 0 if n is 0, which a checked build reports. Two words: as 64 bits, times n, shifted down
    // by 64 (Lemire 2019, without rejection, so that callers vectorise). Probabilities differ from 1/n by less than
    // 2^-64.
    TBS_METHOD u32 below(u32 n) { return scaled(n); }

    // Uniform in low .. high, both included. Two words. low > high gives any i32 outside; a checked build reports it.
    TBS_METHOD i32 integer(i32 low, i32 high) {
        return i32(u32(low) + scaled(u64(u32(high) - u32(low)) + 1));
    }

    // True with probability p, a multiple of 2^-24: never for p <= 0, always for p >= 1. One word.
    TBS_METHOD bool chance(f32 p) { return uniform() < p; }

    // Two independent standard normals (Box and Muller 1958), absolute values up to 6.7. Two words.
    TBS_METHOD void normal_pair(f32 &first, f32 &second) {
        // In (0, 1], never 0: the logarithm is finite. All 32 bits, for the sake of the tails.
        u32 word = bits();
        f32 u = fma(f32(word >> 16), 0x1p-16f, fma(f32(word & 0xffffu), 0x1p-32f, 0x1p-33f));
        f32 radius = sqrt(-2.0f * log(u));
        f32 sine, cosine;
        sincos(tau * uniform(), sine, cosine);
        first = radius * cosine;
        second = radius * sine;
    }

    // A standard normal. Two words.
    TBS_METHOD f32 normal() {
        f32 first, second;
        normal_pair(first, second);
        return first;
    }

    // Shuffles n items (Fisher and Yates); orders are equally likely within below()'s bound. Two words for each swap of
    // item n - 1, n - 2, ..., 1 with an item not behind it. A checked build reports n beyond an array's end, but not a
    // pointer's.
    template <class T>
    TBS_METHOD void shuffle(T *items, u32 n) {
        u32 last = n;
#ifndef TBS_ON_DEVICE
        // A CPU computes the blocks of many swaps on vectors, since they take most of a shuffle's time.
        while (last > few_swaps && left_ % 2 == 0) last -= swap_many(items, last);
#endif
        for (; last > 1; last--) swap(items[last - 1], items[below(last)]);
    }

  private:
    TBS_METHOD Random(RandomKey key, u32 stream, u32 episode, u32 step)
        : key0_(key.low), key1_(key.high), stream_(stream), episode_(episode), step_(step), block_(0), left_(0) {}

    // floor(n * bits / 2^64) for n <= 2^32.
    TBS_METHOD u32 scaled(u64 n) {
        const u32 high = bits(), low = bits();
        return scaled(high, low, n);
    }
    static TBS_METHOD u32 scaled(u64 high, u64 low, u64 n) { return u32((high * n + (low * n >> 32)) >> 32); }

    template <class T>
    static TBS_METHOD void swap(T &a, T &b) {
        const T before = a;
        a = b;
        b = before;
    }

#ifndef TBS_ON_DEVICE
    static constexpr u32 few_swaps = 8, vector = 16;

    // The swaps of items last - 1, last - 2, ..., where an even number of words is left of the block before. Returns how many.
    template <class T>
    TBS_METHOD u32 swap_many(T *items, u32 last) {
        constexpr u32 most = 2 * vector;  // blocks
        u32 others[2 * most], third[most], fourth[most];
        const u32 before = left_ == 0 ? 0 : 2 - left_ / 2, first = left_ == 0 ? block_ : block_ - 1;  // swaps of that block
        const u32 swaps = last - 1 < 2 * most - before ? last - 1 : 2 * most - before, blocks = (before + swaps + 1) / 2;
        const u32 item = last + before;
        for (u32 i = 0; i < (blocks + vector - 1) / vector * vector; ++i) {
            const PhiloxBlock drawn = philox({{stream_, episode_, step_, first + i}}, key0_, key1_);
            others[2 * i] = scaled(drawn.word[0], drawn.word[1], item - 2 * i);
            others[2 * i + 1] = scaled(drawn.word[2], drawn.word[3], item - 2 * i - 1);
            third[i] = drawn.word[2];
            fourth[i] = drawn.word[3];
        }
        for (u32 i = 0; i < swaps; ++i) swap(items[last - 1 - i], items[others[before + i]]);
        left_ = (before + swaps) % 2 * 2;
        next_.word[0] = third[blocks - 1];
        next_.word[1] = fourth[blocks - 1];
        block_ = first + blocks;
        return swaps;
    }
#endif

    u32 key0_, key1_;
    u32 stream_, episode_, step_, block_;
    PhiloxBlock next_;
    u32 left_;
};

}  // namespace tbs
