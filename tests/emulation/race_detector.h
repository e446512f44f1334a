// What the emulation (cuda_words.h, before which this is included) tells the race detector of race_detector.cpp. Reads
// and writes come to it from the compiler: units are compiled with -fsanitize=thread, and linked with the detector in
// place of ThreadSanitizer's library.
#pragma once
#include <cstddef>

#define TBS_EMULATION_WATCHED 1

extern "C" {
// Says whether what runs next is the emulation, whose accesses are nobody's, or the kernel; returns what was said
// before. A call, across which a compiler moves no access.
bool tbs_race_set_inside(bool inside);
void tbs_race_begin_launch(unsigned blocks, unsigned threads, unsigned blocks_alive);
void tbs_race_begin_blocks(const unsigned *indices);
void tbs_race_run_thread(unsigned thread, const char *stack, std::size_t bytes);
void tbs_race_barrier(const unsigned *threads, std::size_t count);
void tbs_race_atomic(const void *address, std::size_t size);
void tbs_race_fence(bool of_device);
void tbs_race_block_memory(unsigned block, const void *memory, std::size_t size);
}

namespace emulated_cuda::watch {

constexpr bool on = true;

// While one lives, what runs is the emulation itself, or again the kernel.
template <bool inside>
class Scope {
  public:
    Scope() : before_(tbs_race_set_inside(inside)) {}
    ~Scope() { tbs_race_set_inside(before_); }
    Scope(const Scope &) = delete;

  private:
    bool before_;
};
using Inside = Scope<true>;
using Outside = Scope<false>;

// `blocks_alive`: how many are there at once. Threads are numbered among those of the blocks alive.
inline void begin_launch(unsigned blocks, unsigned threads, unsigned blocks_alive) {
    tbs_race_begin_launch(blocks, threads, blocks_alive);
}
// Other blocks take the place of those before: `indices` of as many as are alive.
inline void begin_blocks(const unsigned *indices) { tbs_race_begin_blocks(indices); }
// Goes on with a thread, whose own stack this is.
inline void run_thread(unsigned thread, const char *stack, std::size_t bytes) { tbs_race_run_thread(thread, stack, bytes); }
// These threads have waited for each other, and see what each did before.
inline void barrier(const unsigned *threads, std::size_t count) { tbs_race_barrier(threads, count); }
// Always inlined into the kernel, for the detector takes the place of the call for that of the access.
__attribute__((always_inline)) inline void atomic(const void *address, std::size_t size) {
    tbs_race_atomic(address, size);
}
inline void fence(bool of_device) { tbs_race_fence(of_device); }
// Memory that is fresh: nobody has used it.
inline void block_memory(unsigned block, const void *memory, std::size_t size) {
    tbs_race_block_memory(block, memory, size);
}

}  // namespace emulated_cuda::watch
