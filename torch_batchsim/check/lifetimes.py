"""Checks of the lifetime of worlds: autoreset modes, resets of some, and states saved, loaded and copied."""

from __future__ import annotations

import re

import torch
from gymnasium.vector import AutoresetMode

from ..run.snapshots import assert_same_bits, of_worlds, snapshot
from ..vector.vector_env import TorchVectorEnv
from .lockstep import compared, shown, state_difference, stepped
from .outcomes import Failed, Skipped
from .plays import named
from .policies import Policy
from .subject import Subject

_WORLD_ID = re.compile(r"\bworlds?(\s*\[[^\]]*\])?\s*\.\s*id\b")
_BEFORE = 20  # steps before a reset, a save or a copy
_HIDDEN = (
    "a system depends on something outside the world's state: look for scratch that a system reads before it writes, "
    "and for 'observe' changing columns that it should only read"
)

# The bytes of each step's results by name, of each (world, episode, step).
_Course = dict[tuple[int, int, int], dict[str, bytes]]


def autoreset(subject: Subject) -> str:
    """Each world's episodes are the same in all autoreset modes."""
    courses = {mode: _course(subject, mode) for mode in AutoresetMode}
    expected = courses[AutoresetMode.DISABLED]
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        for key in sorted(expected.keys() & courses[mode].keys(), key=lambda key: (key[2], key[1], key[0])):
            for name, found in courses[mode][key].items():
                if found != expected[key][name]:
                    world, episode, step = key
                    raise Failed(
                        f"{name} differs in step {step} of episode {episode}, world {world}, between the autoreset "
                        f"modes {mode.name} and DISABLED",
                        _HIDDEN + "; 'kept' fields must not count steps or observations",
                    )
    ends = len({key[:2] for key in expected}) - subject.few_worlds
    if not ends:
        raise Skipped(f"no episode ended in {subject.few_steps} steps, so no world was reset by itself")
    return f"the same {ends} episodes with SAME_STEP (final observations too), NEXT_STEP and DISABLED"


def _course(subject: Subject, mode: AutoresetMode) -> _Course:
    env = subject.make(autoreset_mode=mode)
    observations, infos = env.reset(seed=subject.seed)
    policy = Policy(env, env.num_worlds, seed=subject.seed)
    course: _Course = {}
    every = torch.ones(env.num_worlds, dtype=torch.bool)
    _note(course, env, every, named("observation", observations), begins=True)
    waiting = ~every
    for _ in range(subject.few_steps):
        actions = policy(env)
        moment = [env.sim.tensor(f"World.{name}").clone() for name in ("episode", "step")]
        observations, rewards, terminations, truncations, infos = env.step(actions)
        ended = env.ended_worlds()
        results = {"reward": rewards, "termination": terminations, "truncation": truncations}
        parts = {name: tensor.clone() for name, tensor in named("observation", observations).items()}
        last = {name: tensor.clone() for name, tensor in parts.items()}
        if mode is AutoresetMode.SAME_STEP:
            rows = ended.repeat_interleave(env.num_agents)
            for name, tensor in named("observation", infos["final_obs"]).items():
                last[name][rows] = tensor[rows]
        _note(course, env, ~waiting, {**last, **results}, moment=moment)
        if mode is AutoresetMode.SAME_STEP:
            begun = ended
        elif mode is AutoresetMode.NEXT_STEP:
            begun, waiting = waiting, ended
        else:
            begun = ended
            if bool(ended.any()):
                parts = named("observation", env.reset(options={"reset_mask": ended})[0])
        _note(course, env, begun, parts, begins=True)
    return course


def _note(
    course: _Course,
    env: TorchVectorEnv,
    worlds: torch.Tensor,
    parts: dict[str, torch.Tensor],
    *,
    begins: bool = False,
    moment: list[torch.Tensor] | None = None,
) -> None:
    if not bool(worlds.any()):
        return
    episodes, steps = moment or [env.sim.tensor(f"World.{name}") for name in ("episode", "step")]
    arrays = {name: env.by_world(tensor).numpy() for name, tensor in parts.items()}
    for world in worlds.nonzero().flatten().tolist():
        key = world, int(episodes[world]), 0 if begins else int(steps[world]) + 1
        course[key] = {name: array[world].tobytes() for name, array in arrays.items()}


def partial_reset(subject: Subject) -> str:
    """A reset of some worlds changes no other world, and these begin as in a reset of all."""
    some, every = subject.make(), subject.make()
    _played(subject, some)
    every.load_state_dict(some.state_dict())
    mask = torch.arange(some.num_worlds) % 2 == 0
    if some.num_worlds < 2:
        raise Skipped("this check needs two worlds")
    before = of_worlds(snapshot(some.sim, final=False), ~mask)
    seen = named("observation", some.observations)
    seen = {name: some.by_world(tensor).clone()[~mask] for name, tensor in seen.items()}
    observations = named("observation", some.reset(options={"reset_mask": mask})[0])
    every.reset()
    try:
        assert_same_bits(before, of_worlds(snapshot(some.sim, final=False), ~mask))
        for name, tensor in observations.items():
            assert torch.equal(some.by_world(tensor)[~mask], seen[name]), f"{name} differs"
    except AssertionError as error:
        raise Failed(f"a reset of some worlds changed others: {error}", _HIDDEN) from None
    for world in mask.nonzero().flatten().tolist():
        found = state_difference(some, world, every, world)
        if found is not None:
            name, index, a, b = found
            raise Failed(
                f"{name}{index or ''} of world {world} begins with {a} where some worlds are reset, with {b} where all "
                "are",
                _HIDDEN,
            )
    return f"{int(mask.sum())} of {len(mask)} worlds reset, the others stayed as they were to the bit"


def save_and_restore(subject: Subject) -> str:
    """A state goes on alike where it was saved, in another environment, and loaded again."""
    first, second = subject.make(), subject.make()
    policy = _played(subject, first)
    state = first.state_dict()
    second.reset(seed=subject.seed + 1)
    for _ in range(3):
        stepped(second, policy)
    second.load_state_dict(state)
    steps = subject.few_steps
    compared(first, second, policy, steps, sides=("in what was saved", "in what was loaded"), remedy=_HIDDEN)
    first.load_state_dict(state)
    second = subject.make()
    second.load_state_dict(state)
    compared(first, second, policy, steps, sides=("in what was loaded again", "in a new one"), remedy=_HIDDEN)
    return f"a loaded state goes on with the same bits for {steps} steps"


def copies(subject: Subject) -> str:
    """A copied world goes on as its source when both take the same actions."""
    env = subject.make(max(2, subject.few_worlds))
    policy = _played(subject, env)
    half = env.num_worlds // 2
    env.sim.copy_worlds(torch.arange(half), torch.arange(half, 2 * half))
    acting_as = torch.arange(env.num_worlds)
    acting_as[half : 2 * half] = torch.arange(half)
    steps = subject.few_steps
    uses_id = any(_WORLD_ID.search(text) for text in subject.program.files.values())
    for step in range(1, steps + 1):
        for name, tensor in shown(env.step(policy(env, acting_as))).items():
            by_world = env.by_world(tensor)
            wrong = (by_world[:half] != by_world[half : 2 * half]).reshape(half, -1).any(1)
            both_nan = tensor.dtype.is_floating_point and bool(tensor.isnan().any())
            if bool(wrong.any()) and not both_nan:
                if uses_id:
                    raise Skipped("systems read world.id, by which a copy differs from its source")
                world = int(wrong.nonzero()[0])
                raise Failed(
                    f"{name} of a copy differs from its source world {world} "
                    f"{step} steps after the copy",
                    _HIDDEN,
                )
    return f"copied worlds go on as their sources for {steps} steps"


def _played(subject: Subject, env: TorchVectorEnv) -> Policy:
    """Some steps from a reset, so that worlds differ."""
    env.reset(seed=subject.seed)
    policy = Policy(env, env.num_worlds, seed=subject.seed)
    for _ in range(min(subject.few_steps, _BEFORE)):
        stepped(env, policy)
    return policy
