// Rows of many bytes, moved by the lanes of a group 16 bytes at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lanes.h"
#include "platform.h"

namespace tbs {

// What a thread of a device loads or stores at once.
struct __attribute__((aligned(16), may_alias)) Sixteen {
    u32 part[4];
};
struct __attribute__((aligned(8), may_alias)) Eight {
    u32 part[2];
};
struct __attribute__((aligned(4), may_alias)) Four {
    u32 part[1];
};
struct __attribute__((may_alias)) One {
    u8 part[1];
};

// How `size` bytes from an address lie: `head` of them, then `wholes` pieces that are aligned, then the rest.
template <class Piece>
struct Pieces {
    static constexpr u32 width = sizeof(Piece);
    u32 head, wholes;

    TBS_METHOD Pieces(const void *begin, u32 size) {
        const u32 before = u32(-reinterpret_cast<std::uintptr_t>(begin) & (width - 1));
        head = before < size ? before : size;
        wholes = (size - head) / width;
    }

    TBS_METHOD u32 whole(u32 i) const { return head + width * i; }
    // Bytes that are in no whole, and their places.
    TBS_METHOD u32 edges(u32 size) const { return size - width * wholes; }
    TBS_METHOD u32 edge(u32 i) const { return i < head ? i : i + width * wholes; }
};

// Pieces that a lane loads before it stores the first: for all a compiler knows, a store may change what is loaded next. One
// where all tasks of a step are in one kernel, which would keep the others outside of registers.
#ifdef TBS_ONE_KERNEL
inline constexpr u32 pieces_at_once = 1;
#else
inline constexpr u32 pieces_at_once = 4;
#endif

template <class Piece, u32 size, class Group>
TBS_FUNCTION void copy_pieces(u8 *to, const u8 *from, Group &group) {
    constexpr u32 threads = Group::group_threads, rounds = (size / u32(sizeof(Piece)) + threads - 1) / threads;
    constexpr u32 most = sizeof(Piece) > 1 ? pieces_at_once : 1, together = rounds < 1 ? 1 : rounds < most ? rounds : most;
    const Pieces<Piece> pieces(to, size);
    group.sync();
    TBS_ROLLED
    for (u32 first = group.first_lane(); first < pieces.wholes; first += threads * together) {
        const Piece *const source = reinterpret_cast<const Piece *>(from + pieces.whole(first));
        Piece *const target = reinterpret_cast<Piece *>(to + pieces.whole(first));
        Piece held[together];
        TBS_UNROLL
        for (u32 k = 0; k < together; ++k) {
            if (first + threads * k < pieces.wholes) held[k] = source[threads * k];
        }
        TBS_UNROLL
        for (u32 k = 0; k < together; ++k) {
            if (first + threads * k < pieces.wholes) target[threads * k] = held[k];
        }
    }
    TBS_ROLLED
    for (u32 i = group.first_lane(); i < pieces.edges(size); i += threads) to[pieces.edge(i)] = from[pieces.edge(i)];
    group.sync();
}

// Copies `size` bytes that share no memory with the others, shared out among the lanes of `group`. On a device
// sixteen, eight or four at a time, where both sides lie alike with respect to that.
template <u32 size, class Group>
TBS_FUNCTION void copy_bytes(void *to, const void *from, Group &group) {
#ifdef TBS_ON_DEVICE
    u8 *const target = static_cast<u8 *>(to);
    const u8 *const source = static_cast<const u8 *>(from);
    const auto apart = reinterpret_cast<std::uintptr_t>(target) ^ reinterpret_cast<std::uintptr_t>(source);
    if (apart % 16 == 0) return copy_pieces<Sixteen, size>(target, source, group);
    if (apart % 8 == 0) return copy_pieces<Eight, size>(target, source, group);
    if (apart % 4 == 0) return copy_pieces<Four, size>(target, source, group);
    copy_pieces<One, size>(target, source, group);
#else
    group.once([&] { __builtin_memcpy(to, from, size); });
#endif
}

// Copies `count` elements, all that `group` copies at once.
template <u32 count, class Element, class Group>
TBS_FUNCTION void copy_elements(Element *to, const Element *from, Group &group) {
    static_assert(std::is_trivially_copyable_v<Element>, "copy_elements<count> copies plain elements");
    copy_bytes<count * u32(sizeof(Element))>(to, from, group);
}

template <class Row, class Group>
TBS_FUNCTION void copy_row(Row &to, const Row &from, Group &group) {
    copy_bytes<u32(sizeof(Row))>(&to, &from, group);
}

}  // namespace tbs
