TBS_SYSTEM void enter(World &world, Place &place) { place.number = 1 + i32(world.random().below(5)); }

TBS_SYSTEM void walk(World &world, Place &place, Pair &pair, const Choice &choice, Reward &reward) {
    const i32 there = place.number + choice.places;
    reward.value = f32(there > 5);
    pair.values[1] = (pair.values[1] + i32(there > 5)) % 3;
    place.number = there > 5 ? there - 5 : there;
}

TBS_SYSTEM void judge(World &world, Episode &episode) {
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void look(World &world, const Place &place, Pair &pair, Marks &marks) {
    pair.values[0] = place.number - 1;
    for (i32 bit = 0; bit < 3; ++bit) marks.values[bit] = i8((place.number >> bit) & 1);
}
