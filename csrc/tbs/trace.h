// What a traced build (TBS_TRACE) writes down: which task ran when, and on which thread or multiprocessor. Other builds
// have no code for it.
#pragma once
#include "platform.h"

#ifdef TBS_TRACE
#include <chrono>
#ifndef TBS_EMULATED_CUDA
#include "threads.h"
#endif
#endif

namespace tbs::executors {

// torch_batchsim/base/shared.py has the same fields.
struct TraceRecord {
    u16 task;          // in the order of the schedule
    u16 unit;          // the thread, or the multiprocessor
    u32 tile;          // of worlds, or the block
    u64 begin, end;    // ticks of the unit's own clock
    u64 global_begin;  // nanoseconds of a clock that all units share
};

struct TraceBuffer {
    TraceRecord *records;
    u32 *taken;  // records asked for so far, those beyond the capacity included
    u32 capacity;
};

#ifdef TBS_TRACE
#if defined(__CUDA_ARCH__)
TBS_FUNCTION u64 unit_clock() { return u64(clock64()); }
TBS_FUNCTION u64 global_clock() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}
TBS_FUNCTION u32 unit_number() {
    u32 multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    return multiprocessor;
}
TBS_FUNCTION u32 take_record(u32 *taken) { return atomicAdd(taken, 1u); }
#else
inline u64 global_clock() {
    return u64(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                   .count());
}
inline u64 unit_clock() { return global_clock(); }
#ifdef TBS_EMULATED_CUDA
inline u32 unit_number() { return blockIdx.x % 4; }
#else
inline thread_local u32 thread_number = 0;
inline u32 unit_number() { return thread_number; }
#endif
inline u32 take_record(u32 *taken) { return __atomic_fetch_add(taken, 1u, __ATOMIC_RELAXED); }
#endif
#endif

// Notes the number of the calling thread, for spans on CPU.
inline void note_thread([[maybe_unused]] u32 number) {
#if defined(TBS_TRACE) && !defined(TBS_EMULATED_CUDA) && !defined(__CUDACC__)
    thread_number = number;
#endif
}

// From its beginning to `end()` one task on one unit.
class TraceSpan {
  public:
#ifdef TBS_TRACE
    TBS_METHOD explicit TraceSpan(bool writes) : writes_(writes) {
        if (writes_) {
            global_begin_ = global_clock();
#ifdef __CUDA_ARCH__
            begin_ = unit_clock();
#else
            begin_ = global_begin_;  // the same clock
#endif
        }
    }
    TBS_METHOD void end(const TraceBuffer &buffer, u32 task, u32 tile) const {
        if (!writes_ || buffer.records == nullptr) return;
        const u64 now = unit_clock();
        const u32 place = take_record(buffer.taken);
        if (place < buffer.capacity) {
            buffer.records[place] = {u16(task), u16(unit_number()), tile, begin_, now, global_begin_};
        }
    }

  private:
    u64 begin_ = 0, global_begin_ = 0;
    bool writes_;
#else
    TBS_METHOD explicit TraceSpan(bool) {}
    TBS_METHOD void end(const TraceBuffer &, u32, u32) const {}
#endif
};

}  // namespace tbs::executors
