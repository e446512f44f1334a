// Warps of a block that go through a long system together. A warp executes each instruction of such a system once or a
// few times, from more code than a multiprocessor's cache of instructions holds: warps that are apart fetch all of it, each
// for itself. Warps that wait for each other between stages fetch it once: Lanes::line_up, which
// worlds may call differently often, and which changes no result.
#pragma once
#include "platform.h"

namespace tbs {

// A barrier in shared memory (an mbarrier), from which a warp may leave for good. No result depends on it.
class Lineup {
  public:
    // All threads of a block call this once.
    TBS_METHOD void begin([[maybe_unused]] u32 warps) {
#ifdef TBS_HAS_MBARRIER
        if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()), "r"(warps) : "memory");
        __syncthreads();
#endif
    }

    // Waits until each warp has come or left. Every warp may call it as often as it likes.
    TBS_ONE_COPY void wait() {
#ifdef TBS_HAS_MBARRIER
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            asm volatile(
                "{ .reg .pred done; .reg .b64 phase; mbarrier.arrive.shared.b64 phase, [%0];\n"
                "again: mbarrier.test_wait.shared.b64 done, [%0], phase; @!done bra again; }" ::"r"(address())
                : "memory");
        }
        __syncwarp();
#endif
    }

    // The warp has ended: no other waits for it.
    TBS_METHOD void leave() {
#ifdef TBS_HAS_MBARRIER
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            asm volatile("{ .reg .b64 phase; mbarrier.arrive_drop.shared.b64 phase, [%0]; }" ::"r"(address()) : "memory");
        }
#endif
    }

  private:
#ifdef TBS_HAS_MBARRIER
    __device__ u32 address() { return u32(__cvta_generic_to_shared(&barrier_)); }
#endif
    [[maybe_unused]] u64 barrier_;
};

}  // namespace tbs
