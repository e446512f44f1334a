// What an agent sees: the RAM.
#pragma once

TBS_SYSTEM void look_at_ram(World &world, const Ram &ram, View &view) {
    for (u32 i = 0; i < 128; ++i) view.bytes[i] = ram.bytes[i];
}
