// Strings of bits, for observations of zeros and ones: put together in registers, written out at once.
#pragma once
#include <utility>

#include "copy.h"
#include "lanes.h"
#include "platform.h"
#include "x86.h"

namespace tbs {

// `size` bits. Where loops around `append` have constant counts and TBS_UNROLL, shifts have constants.
template <u32 size>
class Bits {
    static_assert(size > 0, "Bits<size>: there is at least one bit");

  public:
    static constexpr u32 words = (size + 63) / 64;

    // Appends the lowest `count` bits of `value`, 64 at most; its other bits must be 0. Drops bits beyond `size`.
    TBS_METHOD void append(u64 value, u32 count) {
        if (count == 0 || used_ + count > size) return;
#ifdef TBS_ON_DEVICE
        add(value, std::make_integer_sequence<u32, words>{});
        used_ += count;
#else
        const u32 word = used_ / 64, place = used_ % 64;
        if (place == 0) {
            words_[word] = value;
        } else {
            words_[word] |= value << place;
            if (place + count > 64) words_[word + 1] = value >> (64 - place);
        }
        used_ += count;
#endif
    }

    // Appends `count` bits: `ones` ones, then zeros.
    TBS_METHOD void append_thermometer(u32 ones, u32 count) {
        TBS_UNROLL
        for (u32 begin = 0; begin < count; begin += 32) {
            const u32 width = count - begin < 32 ? count - begin : 32;
            const u32 here = ones <= begin ? 0 : ones - begin < width ? ones - begin : width;
            append((u64{1} << here) - 1, width);
        }
    }

    // Writes `words` words, the first bit as the lowest of the first; 0 where none was appended.
    template <u32 extent>
    TBS_METHOD void store(u64 (&out)[extent]) const {
        static_assert(extent == words, "Bits<size>::store needs an array u64[(size + 63) / 64]");
        TBS_UNROLL
        for (u32 i = 0; i < words; ++i) out[i] = words_[i];
    }

  private:
#ifdef TBS_ON_DEVICE
    // Each word with a number of its own in the text, so that it is a register before any loop has been unrolled.
    template <u32... number>
    TBS_METHOD void add(u64 value, std::integer_sequence<u32, number...>) {
        ((words_[number] |= within(value, i32(used_) - i32(64 * number))), ...);
    }

    // What of a value that begins at bit `place` of a word is in the word.
    static TBS_METHOD u64 within(u64 value, i32 place) {
        return place <= -64 || place >= 64 ? 0 : place >= 0 ? value << place : value >> -place;
    }
#endif

    u64 words_[words + 1] = {};  // one more than is used, which a compiler cannot always know
    u32 used_ = 0;
};

// One byte, or as many as are left, of 0 or 1 for each bit of a word.
TBS_FUNCTION void write_word_as_bytes(u64 word, u8 *out, u32 count) {
#if TBS_AVX512
    x86::store_bits(out, word, count);
#else
    u32 i = 0;
    for (; i + 8 <= count; i += 8) {
        // A copy of the eight bits in each byte; byte k keeps bit k, and then whether it is set.
        const u64 one_each = (word >> i & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
        const u64 bytes = (one_each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
        __builtin_memcpy(out + i, &bytes, 8);
    }
    for (; i < count; ++i) out[i] = word >> i & 1;
#endif
}

// Bits [first, first + 16) of a string that has all of them.
template <u32 extent>
TBS_FUNCTION u32 sixteen_bits(const u64 (&words)[extent], u32 first) {
    const u32 place = first % 64;
    u64 bits = words[first / 64] >> place;
    if (place > 48) bits |= words[first / 64 + 1] << (64 - place);
    return u32(bits & 0xffff);
}

// A byte of 0 or 1 for each of four bits.
TBS_FUNCTION u32 four_bytes(u32 bits) { return (bits & 15) * 0x204081u & 0x1010101u; }

// Writes `size` bits, one to an element (a bool, a byte or float that is 0 or 1), on the lanes of `group`.
template <u32 size, u32 words_extent, class Element, u32 extent, class Group>
TBS_FUNCTION void write_bits(const u64 (&words)[words_extent], Element (&out)[extent], Group &group) {
    static_assert(words_extent == (size + 63) / 64, "write_bits<size> reads an array u64[(size + 63) / 64]");
    static_assert(extent == size, "write_bits<size> writes an array of `size` elements");
    const auto element = [&](u32 i) { out[i] = Element(words[i / 64] >> i % 64 & 1); };
    if constexpr (sizeof(Element) == 1) {
        u8 *const bytes = reinterpret_cast<u8 *>(out);
#ifndef TBS_ON_DEVICE
        TBS_UNROLL
        for (u32 begin = 0; begin < size; begin += 64) {
            write_word_as_bytes(words[begin / 64], bytes + begin, size - begin < 64 ? size - begin : 64);
        }
        return;
#endif
        if constexpr (size >= 128) {  // else a lane has an element or a few
            const Pieces<Sixteen> pieces(bytes, size);
            group.for_each(pieces.wholes, [&](u32 i) {
                const u32 bits = sixteen_bits(words, pieces.whole(i));
                *reinterpret_cast<Sixteen *>(bytes + pieces.whole(i)) =
                    Sixteen{four_bytes(bits), four_bytes(bits >> 4), four_bytes(bits >> 8), four_bytes(bits >> 12)};
            });
            group.for_each(pieces.edges(size), [&](u32 i) { element(pieces.edge(i)); });
            return;
        }
    }
    group.for_each(size, element);
}

// The same with eight bits to an element, lowest first; bits behind the last one are 0.
template <u32 size, u32 words_extent, class Element, u32 extent, class Group>
TBS_FUNCTION void write_packed_bits(const u64 (&words)[words_extent], Element (&out)[extent], Group &group) {
    static_assert(words_extent == (size + 63) / 64, "write_packed_bits<size> reads an array u64[(size + 63) / 64]");
    static_assert(extent == (size + 7) / 8, "write_packed_bits<size> writes an array of (size + 7) / 8 elements");
    group.for_each((size + 7) / 8, [&](u32 i) { out[i] = Element(words[i / 8] >> 8 * (i % 8) & 255); });
}

}  // namespace tbs
