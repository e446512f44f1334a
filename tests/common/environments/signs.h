TBS_SYSTEM void act(World &world, const Choice &choice, const Single &single, const Push &push, SeenSign &sign,
                    SeenDigits &digits, SeenBits &bits, SeenLevel &level, Reward &reward, Episode &episode) {
    sign.value = choice.dials[0][0] + single.sign;
    digits.values[0] = 1 + abs(i32(sign.value));
    digits.values[1] = choice.dials[1][1];
    bits.values[0] = bits.values[1] = sign.value > 0;
    bits.values[2] = 1;
    level.value = push.force[0];
    reward.value = f32(100 * sign.value + 10 * choice.dials[0][1] + choice.dials[1][0]);
    episode.truncated = episode.step >= 9;
}

TBS_SYSTEM void begin(World &world, SeenDigits &digits) { digits.values[0] = 1; }
