#pragma once

TBS_SYSTEM void draw_wind(World &world, Wind &wind) {
    if (wind.strength == 0.0f) wind.strength = world.random().uniform(0.5f, 1.0f);
}
