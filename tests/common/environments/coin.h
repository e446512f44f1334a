TBS_SYSTEM void toss(World &world, Coin &coin) { coin.side = world.random().integer(0, 1) ? 1.0f : -1.0f; }

TBS_SYSTEM void pay(World &, const Coin &coin, Row row, Reward &reward) {
    reward.value = row.index == 0 ? coin.side : -coin.side;
}

TBS_SYSTEM void finish(World &, Episode &episode) { episode.truncated = i32(episode.step) > Constants::steps; }

TBS_SYSTEM void look(World &, const Coin &coin, const Guess &guess, Row row, View &view, Truth &truth) {
    view.first = row.index == 0 ? 1.0f : 0.0f;
    view.guess = f32(guess.side);
    truth.side = coin.side;
}
