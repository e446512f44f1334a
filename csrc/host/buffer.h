// Memory that is kept from one call to the next, since new memory would be paged in.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

// Numbers on a line of the cache, which are not kept when more are asked for.
template <class Number>
struct AlignedBuffer {
    std::unique_ptr<Number, void (*)(void *)> memory{nullptr, std::free};
    std::int64_t size = 0;
    Number *of(std::int64_t count) {
        if (count > size) {
            const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(Number));
            memory.reset(static_cast<Number *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
            size = count;
        }
        return memory.get();
    }
};
