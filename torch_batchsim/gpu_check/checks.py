"""Checks of an executor that need no GPU to be run: what makes the environments decides where they run.

``Make`` is such a maker: ``make("swarm", worlds, **arguments of TorchVectorEnv)``. A check raises if it fails; what it
returns is a remark for the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

from .. import testing
from ..errors import WorldFault
from ..simulator import Simulator
from ..testing import Tensors, assert_same_bits, ended_worlds, of_worlds, random_actions
from ..vector_env import TorchVectorEnv
from .environments import ENVIRONMENTS, GROWING

Make = Callable[..., TorchVectorEnv]

MODES = tuple(AutoresetMode)
SEED = 7
_SLOTS = 4  # few, so that they come again


def maker(device: str, executor: str | None = None) -> Make:
    """Makes environments of this package on ``device``, run by ``executor``."""

    def make(name: str, worlds: int, **arguments: Any) -> TorchVectorEnv:
        return TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=worlds, device=device, executor=executor, **arguments)

    return make


# ---- playing and comparing -------------------------------------------------------------------------------------------


def flat(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors in what ``step`` returned, with names."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}" if name else key)
    else:
        yield name, value


def copied(results: tuple[Any, ...]) -> Tensors:
    """Copies of what ``step`` returned, by name; of final values those rows that mean something, the others as 0."""
    names = ("observations", "rewards", "terminations", "truncations", "infos")
    held = {name: tensor.clone() for name, tensor in flat(dict(zip(names, results, strict=True)))}
    for name in held:
        if name.startswith("infos.final"):
            ended = held["infos._final_obs"].view(-1, *[1] * (held[name].dim() - 1))
            held[name] = torch.where(ended, held[name], 0)
    return held


def play(env: TorchVectorEnv, steps: int, *, wait: bool = False, most_worlds: int | None = None) -> list[Tensors]:
    """Reset, take random steps, and return copies of what each has returned.

    Nothing waits for the device until the end, so that what does not keep to the order of the stream shows; but for
    ``wait``, which tables that may grow need: when the host sees that one is crowded is then the same on all devices.
    """
    batches = random_actions(env, steps, most_worlds=most_worlds)
    env.reset(seed=SEED)
    returned = []
    for step, actions in enumerate(batches):
        results = env.step(actions)
        returned.append(copied(results))
        if env.autoreset_mode is AutoresetMode.DISABLED and step % 3 == 0:
            env.reset(options={"reset_mask": ended_worlds(env)})
        if wait:
            env.check_faults()
    env.check_faults()
    return returned


def snapshot(sim: Simulator) -> Tensors:
    """What worlds hold, final values aside, which mean something in ended rows only."""
    return testing.snapshot(sim, final=False)


def expect_same_steps(expected: list[Tensors], found: list[Tensors]) -> None:
    """Raise AssertionError with the first step whose results differ."""
    for step, (a, b) in enumerate(zip(expected, found, strict=True), start=1):
        assert_same_bits(a, b, f"step {step}: ")


def expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)


def fault_of(env: TorchVectorEnv) -> WorldFault:
    """The fault that the device has met; AssertionError if it has met none."""
    try:
        env.check_faults()
    except WorldFault as fault:
        return fault
    raise AssertionError("no world has a fault, though one should have")


# ---- the same bits ---------------------------------------------------------------------------------------------------


def same_as(reference: Make, make: Make, name: str, worlds: int, steps: int, mode: AutoresetMode) -> str:
    """What all steps return, and the state after them."""
    arguments = {"autoreset_mode": mode}
    first, second = reference(name, worlds, **arguments), make(name, worlds, **arguments)
    wait = name in GROWING
    expect_same_steps(play(first, steps, wait=wait), play(second, steps, wait=wait))
    assert_same_bits(snapshot(first.sim), snapshot(second.sim), "after all steps: ")
    episodes = int(first.sim.tensor("World.episode").sum()) + worlds
    return f"{worlds} worlds, {steps} steps, {episodes} episodes"


def repeatable(make: Make, name: str, worlds: int, steps: int) -> str:
    """Twice the same run, the second time over a memory that others have used."""
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
    """A world does the same beside others and alone."""
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


# ---- memory ----------------------------------------------------------------------------------------------------------


def bound(make: Make, name: str, worlds: int, steps: int) -> str:
    """Observations, rewards and flags written into the slots of a rollout, several times; actions read in place."""
    plain, env = make(name, worlds), make(name, worlds)
    expected = play(plain, steps, wait=name in GROWING)
    observations, _ = env.reset(seed=SEED)
    batches = random_actions(env, steps)
    actions = torch.zeros(batches[0].shape, dtype=env.sim.program.action.dtype, device=env.device)
    env.bind(actions=actions)
    rewards = torch.full((_SLOTS, env.num_envs), torch.nan, device=env.device)
    flags = torch.ones(2, _SLOTS, env.num_envs, dtype=torch.bool, device=env.device)
    kept = [filled(observations) for _ in range(_SLOTS)]
    for step, batch in enumerate(batches):
        t = step % _SLOTS
        slot = {"observations": kept[t], "rewards": rewards[t], "terminations": flags[0, t], "truncations": flags[1, t]}
        env.bind(**slot)
        env.step(actions.copy_(batch))
        if name in GROWING:
            env.check_faults()
        written = dict(flat(slot))
        assert_same_bits(written, {part: expected[step][part] for part in written}, f"step {step + 1}: ")
    env.check_faults()
    assert_same_bits(snapshot(plain.sim), snapshot(env.sim), "at the end: ")
    return f"{worlds} worlds, {steps} steps into {_SLOTS} slots"


def filled(value: Any) -> Any:
    """Memory for what ``value`` holds, with something else in it."""
    if isinstance(value, Mapping):
        return {key: filled(part) for key, part in value.items()}
    return torch.full_like(value, 77)


def growth(reference: Make, make: Make, worlds: int, steps: int) -> str:
    """Tables that get more room on the way: the same rows in the same rooms."""
    first, second = reference("garden", worlds), make("garden", worlds)
    expect_same_steps(play(first, steps, wait=True), play(second, steps, wait=True))
    assert_same_bits(snapshot(first.sim), snapshot(second.sim), "at the end: ")
    rooms = second.sim.ragged("Plant.Stem.age").first.diff()
    expect(second.sim.layout > 0 and int(rooms.max()) > 16, "no table has grown, so nothing was shown")
    expect(second.sim.layout == first.sim.layout, f"{second.sim.layout} growths for {first.sim.layout}")
    return f"{second.sim.layout} growths, up to {int(rooms.max())} rows of room"


def late_growth(make: Make, worlds: int, steps: int) -> str:
    """The same without waiting: the host may see late what grows, but no row is lost where room is left."""
    patient, hasty = make("garden", worlds), make("garden", worlds)
    expected = play(patient, steps, wait=True)
    try:
        found = play(hasty, steps)
    except WorldFault as fault:
        expect(all(f.cause == "table_full" for f in fault.faults), str(fault))
        return f"a world ran out of room before the host looked, and said so: {fault.faults[0].table} is full"
    expect_same_steps(expected, found)
    return f"{hasty.sim.layout} growths, the same rows"


def overflow(reference: Make, make: Make) -> str:
    """A world that wants more rows than its limit has a fault; the others do not notice."""
    results = []
    for maker_ in (reference, make):
        env = maker_("meadow", 6)
        env.reset(seed=SEED)
        batches = random_actions(env, 4)
        env.step(batches[0])
        stems = env.sim.ragged("Plant.Stem.extra")
        stems.values[int(stems.first[4])] = 1000
        try:
            env.step(batches[1])
            fault = fault_of(env)
        except WorldFault as raised:  # at once on CPU
            fault = raised
        env.reset(options={"reset_mask": fault.mask})
        returned = [copied(env.step(batch)) for batch in batches[2:]]
        env.check_faults()
        results.append((str(fault.faults), fault.mask.cpu(), returned, snapshot(env.sim)))
    expect(results[0][0] == results[1][0], f"faults {results[1][0]} for {results[0][0]}")
    expect("table_full" in results[0][0], results[0][0])
    expect(results[1][1].tolist() == [world == 4 for world in range(6)], f"faulty worlds {results[1][1].tolist()}")
    expect_same_steps(results[0][2], results[1][2])
    assert_same_bits(results[0][3], results[1][3], "at the end: ")
    return results[1][0]


def host_changes(reference: Make, make: Make) -> str:
    """Rows created, found, read and destroyed between steps."""
    results = []
    for maker_ in (reference, make):
        env = maker_("garden", 5)
        env.reset(seed=SEED)
        sim, read = env.sim, {}
        worlds = torch.tensor([0, 3, 3, 1] * 8, device=env.device)
        handles = sim.create("Plant", worlds, {"Stem.height": torch.arange(32.0, device=env.device), "Stem.age": 3})
        read["handles"], read["found"] = handles, sim.find(worlds, handles)
        sim.destroy(worlds[::3], handles[::3])
        read["found later"] = sim.find(worlds, handles)
        for batch in random_actions(env, 3):
            env.step(batch)
            env.check_faults()
        ragged = sim.ragged("Plant.Stem.height")
        read["packed"], read["offsets"] = ragged.packed()
        read["padded"], read["mask"] = ragged.padded()
        read["entities"] = sim.entities("Plant").packed()[0]
        read["of world 3"] = ragged.world(3).clone()
        results.append((read, snapshot(sim)))
    assert_same_bits(results[0][0], results[1][0])
    assert_same_bits(results[0][1], results[1][1], "at the end: ")
    return "create, find, destroy, ragged, entities"


# ---- faults ----------------------------------------------------------------------------------------------------------


def bad_action(make: Make) -> str:
    """An action outside its space is a fault of that world, reported later; the lowest legal one takes its place."""
    for name, bad, worlds in (("cartpole", 2, 300), ("cartpole", -1, 300), ("meadow", 1.5, 9), ("meadow", np.nan, 9)):
        env, other = make(name, worlds), make(name, worlds)
        env.reset(seed=SEED)
        other.reset(seed=SEED)
        batches = random_actions(env, 4)
        world = worlds // 2
        wrong, lowest = batches[1].clone(), batches[1].clone()
        wrong.view(worlds, -1)[world, 0] = bad
        lowest.view(worlds, -1)[world, 0] = 0 if name == "cartpole" else -1
        for taken, meant in zip((batches[0], wrong), (batches[0], lowest), strict=True):
            assert_same_bits(copied(other.step(meant)), copied(env.step(taken)), f"{name}, {bad}: ")
        fault = fault_of(env)
        told = fault.faults[0]
        expect((told.world, told.system, told.row, told.cause) == (world, "check_actions", 0, "bad_action"), str(told))
        expect(int(fault.mask.sum()) == 1, f"{int(fault.mask.sum())} faulty worlds for 1")
        for batch in batches[2:]:
            assert_same_bits(copied(other.step(batch)), copied(env.step(batch)), f"{name}, {bad}, later: ")
        env.check_faults()  # told once
    return "above, below, NaN; the other worlds go on, and the fault is told once"


def system_fault(reference: Make, make: Make) -> str:
    """What a system reports of two worlds; these are then reset alone."""
    results = []
    for maker_ in (reference, make):
        env = maker_("meadow", 12)
        env.reset(seed=SEED)
        batches = random_actions(env, 4)
        env.sim.tensor("Gardener.Hand.skill")[3, 1] = float("nan")
        env.sim.tensor("Gardener.Hand.skill")[7, 0] = 3e6
        try:
            env.step(batches[0])
            fault = fault_of(env)
        except WorldFault as raised:
            fault = raised
        env.reset(options={"reset_mask": fault.mask})
        returned = [copied(env.step(batch)) for batch in batches[1:]]
        env.check_faults()
        results.append((str(fault.faults), returned, snapshot(env.sim)))
    expect(results[0][0] == results[1][0], f"faults {results[1][0]} for {results[0][0]}")
    expect_same_steps(results[0][1], results[1][1])
    assert_same_bits(results[0][2], results[1][2], "at the end: ")
    return results[1][0]


# ---- state -----------------------------------------------------------------------------------------------------------


def state_moves(reference: Make, make: Make, name: str, worlds: int) -> str:
    """A state saved on either device and loaded on the other goes on with the same bits."""
    wait = name in GROWING
    for source, target in ((make, reference), (reference, make)):
        one, other = source(name, worlds), target(name, worlds)
        play(one, 12, wait=wait)
        other.reset(seed=1)
        other.load_state_dict(one.state_dict())
        assert_same_bits(snapshot(one.sim), snapshot(other.sim), "loaded: ")
        for mine, theirs in zip(random_actions(one, 12), random_actions(other, 12), strict=True):
            assert_same_bits(copied(one.step(mine)), copied(other.step(theirs)))
            if wait:
                one.check_faults()
                other.check_faults()
        assert_same_bits(snapshot(one.sim), snapshot(other.sim), "at the end: ")
    return f"{worlds} worlds, both ways, 12 steps each"


def copies(make: Make) -> str:
    """Copied worlds do the same from then on, and others do not change; a copy that is seeded anew goes its own way."""
    env, plain = make("garden", 40), make("garden", 40)
    for one in (env, plain):
        play(one, 9, wait=True)
    sources, targets = [3, 3, 17], [5, 30, 0]
    env.sim.copy_worlds(sources, targets)
    others = [world for world in range(40) if world not in targets]
    for batch in random_actions(env, 8):
        env.by_world(batch)[targets] = env.by_world(batch)[sources]
        found, expected = copied(env.step(batch)), copied(plain.step(batch))
        for one in (env, plain):
            one.check_faults()
        assert_same_bits(_worlds(env, found, sources), _worlds(env, found, targets), "copies: ")
        assert_same_bits(_worlds(plain, expected, others), _worlds(env, found, others), "other worlds: ")
    mask = torch.zeros(40, dtype=torch.bool, device=env.device)
    mask[[3, 5]] = True
    env.reset(seed=11, options={"reset_mask": mask})
    hands = env.sim.tensor("Gardener.Hand.at")
    expect(not torch.equal(hands[5], hands[3]), "worlds that were seeded anew still do the same")
    return "3 of 40 worlds, 8 steps"


def _worlds(env: TorchVectorEnv, results: Tensors, worlds: list[int]) -> Tensors:
    return {name: env.by_world(tensor)[worlds] for name, tensor in results.items()}


def together(make: Make) -> str:
    """Three simulators in turns do what each does alone."""
    names = (("cartpole", 700), ("meadow", 20), ("cartpole", 33))
    alone = [play(make(name, worlds), 10) for name, worlds in names]
    envs = [make(name, worlds) for name, worlds in names]
    for env in envs:
        env.reset(seed=SEED)
    turns = [[] for _ in envs]
    for batches in zip(*(random_actions(env, 10) for env in envs), strict=True):
        for env, batch, returned in zip(envs, batches, turns, strict=True):
            returned.append(copied(env.step(batch)))
    for expected, found in zip(alone, turns, strict=True):
        expect_same_steps(expected, found)
    for _ in range(20):  # memory that goes while the device is at work
        env = make("cartpole", 5000)
        env.reset(seed=SEED)
        env.step(random_actions(env, 1)[0])
        del env
    expect_same_steps(alone[0], play(make("cartpole", 700), 10))
    return "3 in turns, 20 that came and went"


def given_decks(reference: Make, make: Make) -> str:
    """Decks and players to begin that are given to a reset of some worlds, and to the next episode only."""
    results = []
    for maker_ in (reference, make):
        env = maker_("decks", 9)
        env.reset(seed=SEED)
        mask = torch.arange(9, device=env.device) % 2 == 0
        decks, players = env.sim.tensor("Deck.cards").flip(1), torch.arange(9, device=env.device) % 3
        env.reset(options={"reset_mask": mask, "deck": decks, "start_player": players})
        expect(torch.equal(env.sim.tensor("Deck.cards")[mask], decks[mask]), "the decks are not those that were given")
        returned = [copied(env.step(batch)) for batch in random_actions(env, 60)]
        env.check_faults()
        results.append((returned, snapshot(env.sim)))
    expect_same_steps(results[0][0], results[1][0])
    assert_same_bits(results[0][1], results[1][1], "at the end: ")
    return "5 of 9 worlds, 60 steps"


# ---- tuning and tracing ----------------------------------------------------------------------------------------------


def tuned(make: Make, name: str, worlds: int, seconds: float) -> str:
    """Tuning changes no bit, of the present state or of what comes, and can be read."""
    plain, env = make(name, worlds), make(name, worlds)
    expected = play(plain, 6)
    play(env, 6)
    held = snapshot(env.sim)
    report = env.sim.tune(seconds)
    assert_same_bits(held, snapshot(env.sim), "after tune(): ")
    expect_same_steps(expected, play(env, 6))
    assert_same_bits(snapshot(plain.sim), snapshot(env.sim), "at the end: ")
    json.dumps(report.as_dict())
    expect(report.gain > 0, f"gain {report.gain}")
    expect(len(str(report)) > 0, "the report has no text")
    return f"gain {report.gain:.2f}, then by {env.sim.executor}\n{report}"


def traced(make: Make, name: str, worlds: int, steps: int = 3) -> str:
    """Tracing changes no bit, and its records can be what has happened."""
    plain, env = make(name, worlds), make(name, worlds)
    wait = name in GROWING
    play(plain, steps, wait=wait)
    batches = random_actions(env, steps)
    env.reset(seed=SEED)
    with env.sim.tracing() as trace:
        for batch in batches:
            env.step(batch)
            if wait:
                env.check_faults()
    assert_same_bits(snapshot(plain.sim), snapshot(env.sim), "traced: ")
    expect(trace.steps == steps and trace.dropped == 0, f"{trace.steps} steps, {trace.dropped} records dropped")
    seen = {trace.tasks[task].name for task in np.unique(trace.records["task"])}
    systems = {node.system.name for node in env.sim.program.graphs["step"]}
    expect(systems <= seen, f"no record of {', '.join(sorted(systems - seen))}")
    took = trace.records["end"].astype(np.int64) - trace.records["begin"].astype(np.int64)
    expect(bool((took >= 0).all()) and bool((took > 0).any()), "records end before they begin, or take no time")
    expect(0 < trace.span < 60e6, f"a span of {trace.span} us")
    expect(0 < trace.busy <= 1.05, f"busy for {trace.busy} of the time")
    expect_same_steps(play(plain, 4, wait=wait), play(env, 4, wait=wait))
    told = f"{len(trace.records)} records, {trace.span:.0f} us, {100 * trace.busy:.0f} % busy, {len(trace.units)} units"
    return f"{told}\n{trace}"
