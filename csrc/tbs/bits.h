// Strings of bits, for observations of zeros and ones: put together in registers, written out at once.
#pragma once
#include "lanes.h"
#include "platform.h"
#if defined(__AVX512F__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

namespace tbs {

// `size` bits, appended one after the other. Where loops around `append` have constant counts and TBS_UNROLL, a compiler
// knows all places, and what is left are shifts by constants.
template <u32 size>
class Bits {
    static_assert(size > 0, "Bits<size>: there is at least one bit");

  public:
    static constexpr u32 words = (size + 63) / 64;

    // Appends the lowest `count` bits of `value`, 64 at most, whose other bits must be 0. What would be more than `size`
    // bits in all is left out.
    TBS_METHOD void append(u64 value, u32 count) {
        if (count == 0 || used_ + count > size) return;
        const u32 word = used_ / 64, place = used_ % 64;
        if (place == 0) {
            words_[word] = value;
        } else {
            words_[word] |= value << place;
            if (place + count > 64) words_[word + 1] = value >> (64 - place);
        }
        used_ += count;
    }

    // As many leading ones as `ones` says among `count` bits.
    TBS_METHOD void append_thermometer(u32 ones, u32 count) {
        TBS_UNROLL
        for (u32 begin = 0; begin < count; begin += 32) {
            const u32 width = count - begin < 32 ? count - begin : 32;
            const u32 here = ones <= begin ? 0 : ones - begin < width ? ones - begin : width;
            append((u64{1} << here) - 1, width);
        }
    }

    // Writes `words` words, the first bit as the lowest of the first. What has not been appended is 0.
    template <u32 extent>
    TBS_METHOD void store(u64 (&out)[extent]) const {
        static_assert(extent == words, "Bits<size>::store needs an array u64[(size + 63) / 64]");
        TBS_UNROLL
        for (u32 i = 0; i < words; ++i) out[i] = words_[i];
    }

  private:
    u64 words_[words + 1] = {};  // one more than is used, which a compiler cannot always know
    u32 used_ = 0;
};

// One byte, or as many as are left, of 0 or 1 for each bit of a word.
TBS_FUNCTION void write_word_as_bytes(u64 word, u8 *out, u32 count) {
#if defined(__AVX512F__) && defined(__AVX512BW__) && !defined(__CUDACC__)
    _mm512_mask_storeu_epi8(out, ~u64{0} >> (64 - count), _mm512_maskz_set1_epi8(word, 1));
#else
    u32 i = 0;
    for (; i + 8 <= count; i += 8) {
        // A copy of the eight bits in each byte, of which byte k keeps bit k; then whether there is one.
        const u64 one_each = (word >> i & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
        const u64 bytes = (one_each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
        __builtin_memcpy(out + i, &bytes, 8);
    }
    for (; i < count; ++i) out[i] = word >> i & 1;
#endif
}

// Writes `size` bits from (size + 63) / 64 words, one to an element: a byte or a float that is 0 or 1, or a bool. Shared
// out among the lanes of `group`.
template <u32 size, u32 words_extent, class Element, u32 extent, class Group>
TBS_FUNCTION void write_bits(const u64 (&words)[words_extent], Element (&out)[extent], Group &group) {
    static_assert(words_extent == (size + 63) / 64, "write_bits<size> reads an array u64[(size + 63) / 64]");
    static_assert(extent == size, "write_bits<size> writes an array of `size` elements");
#ifndef TBS_ON_DEVICE
    if constexpr (sizeof(Element) == 1) {
        u8 *const bytes = reinterpret_cast<u8 *>(out);
        TBS_UNROLL
        for (u32 begin = 0; begin < size; begin += 64) {
            write_word_as_bytes(words[begin / 64], bytes + begin, size - begin < 64 ? size - begin : 64);
        }
        return;
    }
#endif
    group.for_each(size, [&](u32 i) { out[i] = Element(words[i / 64] >> i % 64 & 1); });
}

// The same, eight bits to an element, lowest first; bits behind the last one are 0.
template <u32 size, u32 words_extent, class Element, u32 extent, class Group>
TBS_FUNCTION void write_packed_bits(const u64 (&words)[words_extent], Element (&out)[extent], Group &group) {
    static_assert(words_extent == (size + 63) / 64, "write_packed_bits<size> reads an array u64[(size + 63) / 64]");
    static_assert(extent == (size + 7) / 8, "write_packed_bits<size> writes an array of (size + 7) / 8 elements");
    group.for_each((size + 7) / 8, [&](u32 i) { out[i] = Element(words[i / 8] >> 8 * (i % 8) & 255); });
}

}  // namespace tbs
