// Workspace: memory that a system has for as long as it runs for a world. What is in it at first is not defined.
#pragma once
#include "platform.h"

namespace tbs {

#ifndef TBS_ON_DEVICE
// One for all worlds that a thread takes through a step, which so stays in its cache.
template <class T>
inline T &thread_workspace() {
    alignas(64) static thread_local unsigned char memory[sizeof(T)];
    return *reinterpret_cast<T *>(memory);
}
#endif

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

}  // namespace tbs
