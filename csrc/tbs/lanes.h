// Groups of lanes: a system that takes `Warp &` or `Block &` runs on 32 or 256 lanes for each of its rows.
//
// Every lane runs the system's text; the operations below share out work over items 0 .. n - 1. Between them all lanes
// do the same, so a system writes only its own variables there. On CPU one thread is all lanes. Results are equal to
// the bit, sums of floats included: each operation fixes the lane of each item and the order in which lanes are
// combined, and the CPU follows it: item i belongs to lane i mod `lanes`, and lane l is combined with lane l + lanes/2,
// then l + lanes/4, and so on.
//
// All lanes must reach every operation (not inside of another one, nor under a condition that differs between items).
// It is a barrier: afterwards all lanes see what items have written.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "lineup.h"

namespace tbs {

// The lanes of a row: 32 of a `Warp &warp`, 256 of a `Block &block`. All of them must reach every operation.
template <u32 number_of_lanes>
class Lanes {
  public:
    static constexpr u32 lanes = number_of_lanes;
    static_assert(lanes == 32 || lanes == 256);

    Lanes() = default;
    explicit TBS_METHOD Lanes([[maybe_unused]] Lineup *lineup) {
#ifdef TBS_LANES_ARE_THREADS
        lineup_ = lineup;
#endif
    }
    Lanes(const Lanes &) = delete;

    // Calls body(i) for every item, in any order and at once. The body may write only its item.
    template <class Body>
    TBS_METHOD void for_each(u32 n, Body &&body) {
#ifdef TBS_LANES_ARE_THREADS
        sync();  // a lane may still be reading what the items will write
        TBS_LANE_LOOP
        for (u32 i = first_lane(); i < n; i += stride()) body(i);
        sync();
#else
        for (u32 i = 0; i < n; ++i) body(i);
#endif
    }

    // Calls body() once, on one lane.
    template <class Body>
    TBS_METHOD void once(Body &&body) {
        sync();
        if (first_lane() == 0) body();
        sync();
    }

    // The sum of term(i); 0 without items.
    template <class Term>
    TBS_METHOD auto sum(u32 n, Term &&term) {
        using T = std::decay_t<decltype(term(0u))>;
        static_assert(!std::is_same_v<T, bool>, "sum of conditions: write count, or return a number");
        return combine(n, T{}, term, [](T a, T b) { return T(a + b); });
    }

    // The least of `start` and all term(i).
    template <class T, class Term>
    TBS_METHOD T min(u32 n, T start, Term &&term) {
        return combine(n, start, term, [](T a, T b) { return b < a ? b : a; });
    }

    // The greatest of `start` and all term(i).
    template <class T, class Term>
    TBS_METHOD T max(u32 n, T start, Term &&term) {
        return combine(n, start, term, [](T a, T b) { return a < b ? b : a; });
    }

    // Items with condition(i); whether it holds for any, for all.
    template <class Condition>
    TBS_METHOD u32 count(u32 n, Condition &&condition) {
        return sum(n, [&](u32 i) { return condition(i) ? 1u : 0u; });
    }
    template <class Condition>
    TBS_METHOD bool any(u32 n, Condition &&condition) {
#ifdef TBS_LANES_ARE_THREADS
        if constexpr (lanes == 32) {
            bool found = false;
            TBS_LANE_LOOP
            for (u32 i = first_lane(); i < n; i += lanes) found |= bool(condition(i));
            sync();
            return __any_sync(all_lanes, found) != 0;
        }
#endif
        return count(n, condition) != 0;
    }
    template <class Condition>
    TBS_METHOD bool all(u32 n, Condition &&condition) {
        return !any(n, [&](u32 i) { return !condition(i); });
    }

    // Calls take(i, before) for every item, `before` the sum of term(0) .. term(i - 1); returns the sum of all. Terms
    // are integers.
    template <class Term, class Take>
    TBS_METHOD auto scan(u32 n, Term &&term, Take &&take) {
        using T = std::decay_t<decltype(term(0u))>;
        static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "scan takes integer terms, such as u32");
        T total{};
#ifdef TBS_LANES_ARE_THREADS
        sync();
        TBS_LANE_LOOP
        for (u32 begin = 0; begin < n; begin += lanes) {
            const u32 i = begin + first_lane();
            const T own = i < n ? term(i) : T{};
            T chunk;
            const T before = total + exclusive(own, chunk);
            if (i < n) take(i, before);
            total += chunk;
        }
        sync();
#else
        for (u32 i = 0; i < n; ++i) {
            const T own = term(i);
            take(i, total);
            total += own;
        }
#endif
        return total;
    }

    // Bit i is condition(i), for at most 32 items.
    template <class Condition>
    TBS_METHOD u32 ballot(u32 n, Condition &&condition) {
#ifdef TBS_LANES_ARE_THREADS
        if constexpr (lanes == 32) {
            const bool holds = first_lane() < n && condition(first_lane());
            sync();
            return __ballot_sync(all_lanes, holds);
        }
#endif
        return sum(n < 32 ? n : 32, [&](u32 i) { return condition(i) ? 1u << i : 0u; });
    }

    // value(item) for all lanes, computed by the item's lane.
    template <class Value>
    TBS_METHOD auto broadcast(u32 item, Value &&value) {
        using T = std::decay_t<decltype(value(0u))>;
        T result{};
        if (first_lane() == item % lanes || stride() == 1) result = value(item);
        return from_lane(result, item % lanes);
    }

    // On CUDA warps wait here for each other, to fetch the code that follows once (lineup.h).
    TBS_METHOD void line_up() const {
#ifdef TBS_LANES_ARE_THREADS
        if (lineup_ != nullptr) lineup_->wait();
#endif
    }

    // Memory that all lanes of the group share, written inside operations. Its first value is undefined. Each type T
    // has one.
    template <class T>
    TBS_METHOD T &shared() {
        static_assert(std::is_trivially_copyable_v<T>, "shared<T>: T is a plain struct");
        static_assert(sizeof(T) <= (lanes == 32 ? 3072 : 32768), "shared<T>: at most 3 KiB for a Warp, 32 for a Block");
#if defined(TBS_LANES_ARE_THREADS)
        struct OfBlock {
            alignas(16) unsigned char of_group[groups_per_block][(sizeof(T) + 15) / 16 * 16];
        };
        TBS_SHARED(OfBlock, memory);
        return *reinterpret_cast<T *>(memory.of_group[lanes == 32 ? threadIdx.x / 32 : 0]);
#elif defined(TBS_ON_DEVICE)
        static_assert(sizeof(T) <= own_bytes, "shared<T>: the executor 'per_world' has 4 KiB for a Warp, 16 for a Block");
        return *reinterpret_cast<T *>(own_memory(type_key<T>(), sizeof(T)));
#else
        alignas(16) static thread_local unsigned char memory[sizeof(T)];
        return *reinterpret_cast<T *>(memory);
#endif
    }

#ifdef TBS_LANES_ARE_THREADS
    static constexpr u32 group_threads = lanes;
    static constexpr u32 groups_per_block = lanes == 32 ? 8 : 1;  // at most

    TBS_METHOD u32 first_lane() const { return threadIdx.x % lanes; }
    TBS_METHOD u32 stride() const { return lanes; }

    TBS_METHOD void sync() const {
        if constexpr (lanes == 32) {
            __syncwarp();
        } else {
            __syncthreads();
        }
    }

  private:
    Lineup *lineup_ = nullptr;

    static constexpr unsigned all_lanes = 0xffffffff;

    // What the lanes of a warp have for each other: move(word) is a shuffle. (Those of a block need memory.)
    template <class T, class Move>
    static TBS_METHOD T moved(T value, Move &&move) {
        if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= sizeof(u32)) {
            return move(value);
        } else {
            u32 words[(sizeof(T) + 3) / 4] = {};
            __builtin_memcpy(words, &value, sizeof(T));
            for (u32 &word : words) word = move(word);
            __builtin_memcpy(&value, words, sizeof(T));
            return value;
        }
    }

    // `value` of one lane for all.
    template <class T>
    TBS_METHOD T from_lane(T value, u32 lane) {
        if constexpr (lanes == 32) {
            sync();
            return moved(value, [&](auto word) { return __shfl_sync(all_lanes, word, int(lane)); });
        } else {
            T &slot = shared<Slot<T>>().value;
            if (first_lane() == lane) slot = value;
            sync();
            const T result = slot;
            sync();  // before the slot is used again
            return result;
        }
    }

    template <class T>
    struct Slot {
        T value;
    };

    template <class T>
    struct Partials {
        T of_lane[lanes];
    };

    template <class T, class Term, class Operation>
    TBS_METHOD T combine(u32 n, T start, Term &&term, Operation operation) {
        T own = start;
        const u32 lane = first_lane();
        TBS_LANE_LOOP
        for (u32 i = lane; i < n; i += lanes) own = operation(own, T(term(i)));
        if constexpr (lanes == 32) {
            sync();
            TBS_LANE_LOOP
            for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
                const T other =
                    moved(own, [&](auto word) { return __shfl_xor_sync(all_lanes, word, int(distance)); });
                if (lane < distance) own = operation(own, other);
            }
            return moved(own, [&](auto word) { return __shfl_sync(all_lanes, word, 0); });
        } else {
            Partials<T> &partial = shared<Partials<T>>();
            partial.of_lane[lane] = own;
            sync();
            for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
                if (lane < distance) {
                    partial.of_lane[lane] = operation(partial.of_lane[lane], partial.of_lane[lane + distance]);
                }
                sync();
            }
            const T result = partial.of_lane[0];
            sync();
            return result;
        }
    }

    // The sum of the values of the lanes below this one; `total` is the sum of all.
    template <class T>
    TBS_METHOD T exclusive(T own, T &total) {
        const u32 lane = first_lane();
        if constexpr (lanes == 32) {
            sync();
            T all = own;
            TBS_LANE_LOOP
            for (u32 distance = 1; distance < lanes; distance *= 2) {
                const T below = moved(all, [&](auto word) { return __shfl_up_sync(all_lanes, word, distance); });
                if (lane >= distance) all += below;
            }
            total = moved(all, [&](auto word) { return __shfl_sync(all_lanes, word, int(lanes - 1)); });
            return all - own;
        } else {
            Partials<T> &partial = shared<Partials<T>>();
            partial.of_lane[lane] = own;
            sync();
            for (u32 distance = 1; distance < lanes; distance *= 2) {
                const T below = lane >= distance ? partial.of_lane[lane - distance] : T{};
                sync();
                partial.of_lane[lane] += below;
                sync();
            }
            total = partial.of_lane[lanes - 1];
            const T before = partial.of_lane[lane] - own;
            sync();
            return before;
        }
    }
#else
    static constexpr u32 group_threads = 1;
    static TBS_METHOD u32 first_lane() { return 0; }
    static TBS_METHOD u32 stride() { return 1; }
    static TBS_METHOD void sync() {}

  private:
    template <class T>
    static TBS_METHOD T from_lane(T value, u32) { return value; }

#ifdef TBS_ON_DEVICE
    // Shared memory of one thread on a device, which knows no thread_local: pieces by type, in order of first use.
    static constexpr u32 most_types = 8, own_bytes = lanes == 32 ? 4096 : 16384;
    alignas(16) unsigned char memory_[own_bytes];
    u64 keys_[most_types];
    u32 ends_[most_types];
    u32 held_ = 0;

    template <class T>
    static TBS_METHOD u64 type_key() {
        u64 key = 0xcbf29ce484222325;  // FNV-1a of the type's name
        for (const char *c = __PRETTY_FUNCTION__; *c != 0; ++c) key = (key ^ u64(*c)) * 0x100000001b3;
        return key;
    }

    TBS_METHOD unsigned char *own_memory(u64 key, u32 size) {
        u32 begin = 0;
        for (u32 i = 0; i < held_; begin = ends_[i++]) {
            if (keys_[i] == key) return memory_ + begin;
        }
        const u32 end = begin + (size + 15) / 16 * 16;
        if (held_ == most_types || end > own_bytes) {
            printf("torch_batchsim: a system asks for more shared<T> than the executor 'per_world' has on CUDA: %u types, "
                   "%u bytes\n", most_types, own_bytes);
#ifdef __CUDA_ARCH__
            __trap();
#else
            std::abort();
#endif
        }
        keys_[held_] = key;
        ends_[held_++] = end;
        return memory_ + begin;
    }
#endif

    template <class T, class Term, class Operation>
    static TBS_METHOD T combine(u32 n, T start, Term &&term, Operation operation) {
        if constexpr (std::is_integral_v<T>) {  // in any order the same
            T result = start;
            for (u32 i = 0; i < n; ++i) result = operation(result, T(term(i)));
            return result;
        } else {
            T partial[lanes];
            for (u32 lane = 0; lane < lanes; ++lane) partial[lane] = start;
            for (u32 begin = 0; begin < n; begin += lanes) {
                const u32 width = n - begin < lanes ? n - begin : lanes;
                for (u32 lane = 0; lane < width; ++lane) {
                    partial[lane] = operation(partial[lane], T(term(begin + lane)));
                }
            }
            for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
                for (u32 lane = 0; lane < distance; ++lane) {
                    partial[lane] = operation(partial[lane], partial[lane + distance]);
                }
            }
            return partial[0];
        }
    }
#endif
};

using Warp = Lanes<32>;
using Block = Lanes<256>;

// Threads that run a row of a node on so many lanes.
template <u32 lanes>
constexpr u32 threads_of_lanes = Lanes<lanes>::group_threads;
template <>
inline constexpr u32 threads_of_lanes<1> = 1;

}  // namespace tbs
