"""The same bits on every device, in every run, for every number of worlds and every type of actions."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium.vector import AutoresetMode

from ..envs.hideseek import Level
from ..run.simulator import Simulator
from ..testing import Tensors, assert_same_bits, of_worlds, random_actions
from .environments import GROWING
from .playing import SEED, Make, copied, expect, expect_same_steps, expect_same_story, play, snapshot

_BALANCE = (0.1, 0.3, 1.0, 1.0)  # weights of CartPole's state, by which a push keeps the pole up


def same_as(
    reference: Make, make: Make, name: str, worlds: int, steps: int, mode: AutoresetMode, **arguments: Any
) -> str:
    """The results of all steps, and the state after them."""
    arguments |= {"autoreset_mode": mode}
    first, second = reference(name, worlds, **arguments), make(name, worlds, **arguments)
    wait = name in GROWING
    expect_same_steps(play(first, steps, wait=wait), play(second, steps, wait=wait))
    assert_same_bits(snapshot(first.sim), snapshot(second.sim), "after all steps: ")
    episodes = int(first.sim.tensor("World.episode").sum()) + worlds
    return f"{worlds} worlds, {steps} steps, {episodes} episodes"


def balanced(reference: Make, make: Make, worlds: int, steps: int, mode: AutoresetMode) -> str:
    """CartPole by a policy that keeps the pole up, so that episodes are truncated at their limit."""
    first, second = (each("cartpole", worlds, autoreset_mode=mode) for each in (reference, make))
    observations, _ = first.reset(seed=SEED)
    second.reset(seed=SEED)
    weights, truncated = torch.tensor(_BALANCE), 0
    for step in range(1, steps + 1):
        actions = (observations @ weights > 0).long()
        expected, found = copied(first.step(actions)), copied(second.step(actions.to(second.device)))
        assert_same_bits(expected, found, f"step {step}: ")
        observations, truncated = expected["observations"], truncated + int(expected["truncations"].sum())
    second.check_faults()
    assert_same_bits(snapshot(first.sim), snapshot(second.sim), "at the end: ")
    expect(truncated >= worlds // 2, f"{truncated} truncations in {worlds} worlds are too few for this check")
    return f"{worlds} worlds, {steps} steps, {truncated} truncations"


def repeatable(make: Make, name: str, worlds: int, steps: int) -> str:
    """Twice the same run, the second time in memory that other simulators have used."""
    wait = name in GROWING
    first = make(name, worlds)
    expected, held = play(first, steps, wait=wait), snapshot(first.sim)
    second = make(name, worlds)
    play(second, 3, wait=wait)
    expect_same_steps(expected, play(second, steps, wait=wait))
    expected_end, found_end = (
        {name: tensor for name, tensor in state.items() if not name.endswith((" rooms", " crowded"))}
        for state in (held, snapshot(second.sim))
    )
    assert_same_bits(expected_end, found_end, "at the end: ")
    return f"{worlds} worlds, {steps} steps"


def batch_size(make: Make, name: str, few: int, many: int, steps: int) -> str:
    """A world gives the same bits in a large and in a small number of worlds."""
    small, large = make(name, few), make(name, many)
    wait = name in GROWING
    expected = play(small, steps, wait=wait, most_worlds=many)
    found = play(large, steps, wait=wait, most_worlds=many)
    expect_same_steps(expected, [{key: part[: small.num_envs] for key, part in step.items()} for step in found])
    assert_same_bits(snapshot(small.sim), of_worlds(snapshot(large.sim), torch.arange(many) < few))
    return f"the first {few} of {many} worlds, {steps} steps"


def action_types(make: Make) -> str:
    """Actions of every type that the environment takes."""
    types = {
        "cartpole": (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        "meadow": (torch.float32, torch.float64),
    }
    for name, dtypes in types.items():
        results = []
        for dtype in dtypes:
            env = make(name, 50)
            env.reset(seed=SEED)
            # Halves, so that the narrow types hold them exactly.
            batches = [a if a.dtype == torch.int64 else (2 * a).round() / 2 for a in random_actions(env, 5)]
            results.append([copied(env.step(actions.to(dtype))) for actions in batches])
        for dtype, found in zip(dtypes[1:], results[1:], strict=True):
            try:
                expect_same_steps(results[0], found)
            except AssertionError as error:
                raise AssertionError(f"{name}, {dtype} beside {dtypes[0]}: {error}") from None
    return ", ".join(str(dtype).removeprefix("torch.") for dtypes in types.values() for dtype in dtypes)


def together(make: Make) -> str:
    """Three simulators in turns give the same bits as each by itself."""
    names = (("cartpole", 700), ("meadow", 20), ("cartpole", 33))
    apart = [play(make(name, worlds), 10) for name, worlds in names]
    envs = [make(name, worlds) for name, worlds in names]
    for env in envs:
        env.reset(seed=SEED)
    turns = [[] for _ in envs]
    for batches in zip(*(random_actions(env, 10) for env in envs), strict=True):
        for env, batch, returned in zip(envs, batches, turns, strict=True):
            returned.append(copied(env.step(batch)))
    for expected, found in zip(apart, turns, strict=True):
        expect_same_steps(expected, found)
    for _ in range(20):  # memory that is freed while the device is at work
        env = make("cartpole", 5000)
        env.reset(seed=SEED)
        env.step(random_actions(env, 1)[0])
        del env
    expect_same_steps(apart[0], play(make("cartpole", 700), 10))
    return "3 in turns, 20 that came and went"


def given_levels(reference: Make, make: Make) -> str:
    """A level that is given to a reset of some worlds, for the next episode only."""

    def story(make_one: Make) -> tuple[str, list[Tensors], Simulator]:
        env = make_one("hunt", 9)
        env.reset(seed=SEED)
        mask = torch.arange(9, device=env.device) % 2 == 0
        agents = [(3.0 * i, -9.0, 0.3 * i) for i in range(5)]
        things = {"walls": [(0.0, 6.0, 4.0, 0.2)], "boxes": [(0.0, -3.0, 0.3, True)], "ramps": [(6.0, 9.0, 1.0)]}
        level = Level(**things, agents=agents)
        env.reset(options={"reset_mask": mask, **Level.options([level] * 9, env.environment)})
        places = env.sim.tensor("Agent.physics.Pose.position")[mask, :, :2]
        given = torch.tensor(agents, device=env.device)[:, :2].expand_as(places)
        expect(torch.equal(places, given), "agents do not stand at the level's places")
        returned = [copied(env.step(batch)) for batch in random_actions(env, 20)]
        env.check_faults()
        return "5 of 9 worlds, 20 steps", returned, env.sim

    return expect_same_story(reference, make, story)


def given_decks(reference: Make, make: Make) -> str:
    """Decks and first players that are given to a reset of some worlds, for the next episode only."""

    def story(make_one: Make) -> tuple[str, list[Tensors], Simulator]:
        env = make_one("decks", 9)
        env.reset(seed=SEED)
        mask = torch.arange(9, device=env.device) % 2 == 0
        decks, players = env.sim.tensor("Deck.cards").flip(1), torch.arange(9, device=env.device) % 3
        env.reset(options={"reset_mask": mask, "deck": decks, "start_player": players})
        expect(torch.equal(env.sim.tensor("Deck.cards")[mask], decks[mask]), "the decks are not those that were given")
        returned = [copied(env.step(batch)) for batch in random_actions(env, 60)]
        env.check_faults()
        return "5 of 9 worlds, 60 steps", returned, env.sim

    return expect_same_story(reference, make, story)
