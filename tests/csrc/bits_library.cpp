// csrc/tbs/bits.h behind a C interface, for test_bits.py.
#include "tbs/bits.h"

using namespace tbs;

namespace {
struct OneLane {  // of a group of so many
    u32 lane, lanes;

    template <class Body>
    void for_each(u32 n, Body &&body) {
        for (u32 i = lane; i < n; i += lanes) body(i);
    }

    template <class Body>
    void once(Body &&body) {
        if (lane == 0) body();
    }
};

// What the library is asked to do.
struct Call {
    const u64 *values;
    const u32 *counts;  // of each append; where `thermometer` is, `values` has the ones
    i64 appends;
    u64 *words;
    u8 *bytes;
    bool *bools;
    f32 *floats;
    u8 *packed;
    u32 lanes;
    bool thermometer;
};

template <u32 size>
void run(const Call &call) {
    Bits<size> bits;
    for (i64 i = 0; i < call.appends; ++i) {
        if (call.thermometer) {
            bits.append_thermometer(u32(call.values[i]), call.counts[i]);
        } else {
            bits.append(call.values[i], call.counts[i]);
        }
    }
    auto &words = *reinterpret_cast<u64(*)[Bits<size>::words]>(call.words);
    bits.store(words);
    for (u32 lane = 0; lane < call.lanes; ++lane) {
        OneLane group{lane, call.lanes};
        write_bits<size>(words, *reinterpret_cast<u8(*)[size]>(call.bytes), group);
        write_bits<size>(words, *reinterpret_cast<bool(*)[size]>(call.bools), group);
        write_bits<size>(words, *reinterpret_cast<f32(*)[size]>(call.floats), group);
        write_packed_bits<size>(words, *reinterpret_cast<u8(*)[(size + 7) / 8]>(call.packed), group);
    }
}

template <u32... sizes>
void run_of(u32 size, const Call &call) {
    ((sizes == size ? run<sizes>(call) : void()), ...);
}
}  // namespace

extern "C" void run_bits(u32 size, const Call *call) { run_of<SIZES>(size, *call); }  // those that the test says

// As systems use it: all counts are known when it is compiled.
extern "C" void known_counts(const u64 *values, u8 *bytes) {
    Bits<3 + 25 * 5 + 40 + 64> bits;
    bits.append(values[0], 3);
    TBS_UNROLL
    for (u32 i = 0; i < 25; ++i) bits.append(values[1 + i], 5);
    bits.append_thermometer(u32(values[26]), 40);
    bits.append(values[27], 64);
    u64 words[bits.words];
    bits.store(words);
    OneLane alone{0, 1};
    write_bits<232>(words, *reinterpret_cast<u8(*)[232]>(bytes), alone);
}

// copy_elements of csrc/tbs/copy.h.
namespace {
template <u32 threads>
struct LaneOf : OneLane {
    static constexpr u32 group_threads = threads;
    u32 first_lane() const { return lane; }
    void sync() const {}
};
template <u32 size, u32 threads>
void copy_on(u8 *to, const u8 *from) {
    for (u32 lane = 0; lane < threads; ++lane) {
        LaneOf<threads> group{{lane, threads}};
        copy_elements<size>(to, from, group);
    }
}
template <u32 size>
void copy(u8 *to, const u8 *from, u32 lanes) {
    lanes == 1 ? copy_on<size, 1>(to, from) : copy_on<size, 32>(to, from);
}
}  // namespace
extern "C" void copy_77(u8 *to, const u8 *from, u32 lanes) { copy<77>(to, from, lanes); }
extern "C" void copy_3001(u8 *to, const u8 *from, u32 lanes) { copy<3001>(to, from, lanes); }
