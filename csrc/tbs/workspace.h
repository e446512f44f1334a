// Workspace: memory of a system while it runs for a world. Its first value is undefined.
#pragma once
#include <type_traits>

#include "platform.h"

namespace tbs {

// The memory of a resource, such as `words: u32[n]`, as a struct that Python has packed: memory_as<Table>(resource).
template <class T, class Component>
TBS_FUNCTION const T &memory_as(const Component &component) {
    static_assert(std::is_trivially_copyable_v<T>, "memory_as<T>: T is a plain struct");
    static_assert(sizeof(T) <= sizeof(Component), "memory_as<T>: the component has less memory than T takes");
    static_assert(alignof(T) <= alignof(Component), "memory_as<T>: T is aligned to more than the component");
    return *reinterpret_cast<const T *>(&component);
}

#ifndef TBS_ON_DEVICE
// One for all worlds that a thread takes through a step, which so stays in its cache. The compiler must not know that
// its place follows from the thread: it would ask for that place again and again, by a call each time.
template <class T>
inline T &thread_workspace() {
    alignas(64) static thread_local unsigned char memory[sizeof(T)];
    unsigned char *place = memory;
    asm("" : "+r"(place));
    return *reinterpret_cast<T *>(place);
}
#endif

// Whether devices of an architecture have as much on chip as any block takes. Their code then knows that workspace is
// there: it reads it by shorter addresses than memory.
constexpr bool has_whole_chip(u32 architecture) {
    return architecture == 800 || architecture == 870 || (architecture >= 900 && architecture < 1200);
}

// Whether the group of lanes that a thread is in has `bytes` on chip: not where a block may not have so much (`most`), nor
// where one thread is all lanes.
template <u32 lanes, u32 bytes>
TBS_FUNCTION bool is_on_chip([[maybe_unused]] i32 most) {
#if !defined(TBS_LANES_ARE_THREADS)
    return false;
#elif defined(__CUDA_ARCH__)
    return has_whole_chip(__CUDA_ARCH__) || blockDim.x / lanes * bytes <= u32(most);
#else
    return blockDim.x / lanes * bytes <= u32(most);
#endif
}

// That memory, side by side with those of the other groups of the block.
template <u32 lanes, u32 bytes>
TBS_FUNCTION unsigned char *chip_of_group() {
#if !defined(TBS_LANES_ARE_THREADS)
    return nullptr;
#elif defined(TBS_EMULATED_CUDA)
    static char key;
    void *const memory = emulated_cuda::block_memory(&key, blockDim.x / lanes * bytes);
    return static_cast<unsigned char *>(memory) + threadIdx.x / lanes * bytes;
#else
    extern __shared__ uint4 chip_of_block[];  // as much as the launch says
    return reinterpret_cast<unsigned char *>(chip_of_block) + threadIdx.x / lanes * bytes;
#endif
}

// Called before each system that has workspace: the tests fill it with bytes that are others in each place and run, so that
// nothing is taken from the world or the system before.
template <class T, class... Group>
TBS_FUNCTION void spoil_workspace([[maybe_unused]] T &memory, [[maybe_unused]] Group &...group) {
#ifdef TBS_SPOIL_WORKSPACE
    unsigned char *const bytes = reinterpret_cast<unsigned char *>(&memory);
    const u64 place = reinterpret_cast<std::uintptr_t>(bytes) / 16;
    const auto spoil = [&](u32 i) { bytes[i] = static_cast<unsigned char>((place + i) * 0x9E3779B97F4A7C15u >> 56); };
    if constexpr (sizeof...(Group) > 0) {
        (group.for_each(u32(sizeof(T)), spoil), ...);
    } else {
        for (u32 i = 0; i < u32(sizeof(T)); ++i) spoil(i);
    }
#endif
}

// Workspace as the author's struct: workspace_as<Solver>(space, group). On a device it is the component's memory, which
// must be large enough; on CPU the component only declares it.
template <class T, class Component, class... Group>
TBS_FUNCTION T &workspace_as([[maybe_unused]] Component &component, [[maybe_unused]] Group &...group) {
    static_assert(std::is_trivially_copyable_v<T>, "workspace_as<T>: T is a plain struct");
#ifdef TBS_ON_DEVICE
    static_assert(sizeof(T) <= sizeof(Component), "workspace_as<T>: the component has less memory than T takes");
    static_assert(alignof(T) <= alignof(Component), "workspace_as<T>: T is aligned to more than the component");
    return *reinterpret_cast<T *>(&component);
#else
    T &memory = thread_workspace<T>();
    spoil_workspace(memory, group...);
    return memory;
#endif
}

}  // namespace tbs
