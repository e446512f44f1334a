TBS_SYSTEM void choose(World &world, Cue &cue) { cue.number = world.random().integer(0, Constants::cues - 1); }

TBS_SYSTEM void judge(World &, const Cue &cue, const Answer &answer, Reward &reward, Episode &episode) {
    episode.terminated = i32(episode.step) > Constants::delay;
    reward.value = episode.terminated && answer.number == cue.number ? 1.0f : 0.0f;
}

TBS_SYSTEM void look(World &, const Cue &cue, const Episode &episode, View &view) {
    for (i32 i = 0; i < Constants::cues; i++) view.cue[i] = episode.step == 0 && cue.number == i ? 1.0f : 0.0f;
    view.asked = i32(episode.step) == Constants::delay ? 1.0f : 0.0f;
}
