// The systems of MyEnv.

TBS_SYSTEM void place(World &world, Place &place, Goal &goal) {
    Random &random = world.random();
    place.column = random.integer(0, Constants::size - 1);
    place.row = random.integer(0, Constants::size - 1);
    // Another cell than the walker's: 1 to size * size - 1 cells further on.
    const i32 cells = Constants::size * Constants::size;
    const i32 walker = place.row * Constants::size + place.column;
    const i32 cell = (walker + random.integer(1, cells - 1)) % cells;
    goal.column = cell % Constants::size;
    goal.row = cell / Constants::size;
}

TBS_SYSTEM void move(World &, Place &place, const Move &move) {
    const i32 right = (move.direction == 1) - (move.direction == 0);
    const i32 down = (move.direction == 3) - (move.direction == 2);
    place.column = clamp(place.column + right, 0, Constants::size - 1);
    place.row = clamp(place.row + down, 0, Constants::size - 1);
}

TBS_SYSTEM void judge(World &world, const Place &place, const Goal &goal, Reward &reward, Episode &episode) {
    episode.terminated = place.column == goal.column && place.row == goal.row;
    episode.truncated = !episode.terminated && i32(episode.step) >= world.parameters.max_episode_steps;
    reward.value = episode.terminated ? 1.0f : -world.parameters.step_cost;
}

TBS_SYSTEM void look(World &, const Place &place, const Goal &goal, View &view) {
    const f32 last = f32(Constants::size - 1);
    view.column = f32(place.column) / last;
    view.row = f32(place.row) / last;
    view.goal_column = f32(goal.column) / last;
    view.goal_row = f32(goal.row) / last;
}
