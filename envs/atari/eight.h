// Eight columns of a line as a number, the first one lowest. Lines, and places in them, are multiples of eight bytes.
#pragma once

TBS_FUNCTION u64 load_eight(const u8 *from) { return *static_cast<const u64 *>(static_cast<const void *>(from)); }

TBS_FUNCTION void store_eight(u8 *to, u64 bytes) { *static_cast<u64 *>(static_cast<void *>(to)) = bytes; }
