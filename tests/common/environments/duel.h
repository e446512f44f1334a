TBS_SYSTEM void enter(World &world, Place &place, Row row) {  // fighters and stones alike
    Random &random = world.random();
    place.cell = i16(random.below(7));
    place.strength = random.uniform(0.0f, 1.0f);
    place.marks[1][2] = u8(row.index);
}

TBS_SYSTEM void blow(World &world, Weather &weather) {
    weather.wind = world.parameters.gusts ? world.random().integer(-1, 1) : 0;
    weather.total += weather.wind;
}

TBS_SYSTEM void move(World &world, Place &place, const Choice &choice, const Weather &weather) {
    const i32 cell = place.cell + choice.move - 1 + weather.wind;
    place.cell = i16(min(max(cell, 0), 6));
    place.strength += world.random().uniform(-0.1f, 0.1f);
    if (place.strength > 100.0f) world.fail(Fault::too_strong, i32(place.strength));
}

TBS_SYSTEM void strike(World &world, const Place &place, const Choice &choice, Reward &reward, Sums &sums, Row row) {
    if (choice.strike == 0) return;
    Rows<const Place> all = world.rows<Fighter, const Place>();
    for (u32 other = 0; other < row.count; ++other) {
        if (other != row.index && all[other].cell == place.cell) {
            reward.value += 1.0f + world.parameters.bonus;
            sums.hits += 1;
        }
    }
}

TBS_SYSTEM void finish(World &world, const Weather &weather, Episode &episode) {
    episode.terminated = abs(weather.total) > 3;
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void look(World &world, const Place &place, SeenSelf &seen, Legal &legal) {
    seen.cell = f32(place.cell);
    seen.strength = place.strength + f32(world.get<const Weather>().total);
    legal.choices[0] = place.cell > 0;
    legal.choices[1] = true;
    legal.choices[2] = place.cell < 6;
    legal.choices[3] = legal.choices[4] = true;
}

TBS_SYSTEM void look_around(World &world, SeenCells &seen) {
    for (u32 cell = 0; cell < 7; ++cell) seen.cells[cell] = 0;
    for (const Place &place : world.rows<Fighter, const Place>()) seen.cells[place.cell] += 1;
    for (const Place &place : world.rows<Stone, const Place>()) seen.cells[place.cell] += 16;
}
