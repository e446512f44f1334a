TBS_SYSTEM void enter(World &world, Body &body, Row row) {
    Random &random = world.random();
    body.points = 1 + i32(random.below(3));
    if (row.index == 3 && random.chance(0.5f)) body.points = 0;
    body.absent = body.points > 0 ? 0 : 2;
}

// Who has left strikes nobody: the engine has put the idle action, to rest, into its place.
TBS_SYSTEM void strike(World &world, Body &body, const Choice &choice, Row row) {
    const Rows<const Choice> choices = world.rows<Fighter, const Choice>();
    body.wounds = 0;
    for (u32 i = 0; i < row.count; ++i) {
        body.wounds += i32(choices[i].strike > 0 && (i + u32(choices[i].strike)) % row.count == row.index);
    }
    body.rests = choice.strike == 0 ? body.rests + 1 : 0;
}

TBS_SYSTEM void leave(World &world, Body &body, Reward &reward, AgentEnd &end) {
    if (body.points <= 0) {
        body.absent += 1;
        return;
    }
    reward.value = -f32(body.wounds);
    body.points -= body.wounds;
    end.terminated = body.points <= 0;
    end.truncated = !end.terminated && body.rests == 3;
    if (end.truncated) body.points = 0;
    body.absent = i32(end.terminated || end.truncated);
}

TBS_SYSTEM void judge(World &world, Episode &episode) {
    i32 left[2] = {0, 0};
    const Rows<const Body> bodies = world.rows<Fighter, const Body>();
    for (u32 i = 0; i < bodies.count; ++i) left[i % 2] += i32(bodies[i].points > 0);
    episode.terminated = left[0] == 0 || left[1] == 0;
    episode.truncated = episode.step >= u32(world.parameters.max_episode_steps);
}

TBS_SYSTEM void look(World &world, const Body &body, View &view, Standing &standing, Side &side, Row row) {
    standing.here = body.points > 0;
    side.team = i8(row.index % 2);
    const f32 infinity = 2.0f * 3.0e38f;
    view.values[0] = body.absent < 2 ? f32(body.points) : infinity;
    view.values[1] = body.absent < 2 ? f32(body.rests) : -infinity;
    view.values[2] = f32(row.index);
    view.values[3] = f32(body.wounds);
}
