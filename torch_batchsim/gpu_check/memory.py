"""The user's memory, tables that grow, changes from the host, and states that move between devices."""

from __future__ import annotations

import torch

from ..errors import WorldFault
from ..testing import Tensors, assert_same_bits, random_actions
from ..vector.vector_env import TorchVectorEnv
from .environments import GROWING
from .playing import SEED, Make, copied, expect, expect_same_steps, filled, flat, play, snapshot

_SLOTS = 4  # few, so that they come again


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


def growth(reference: Make, make: Make, worlds: int, steps: int) -> str:
    """Tables that grow between steps hold the same rows in the same rooms."""
    first, second = reference("garden", worlds), make("garden", worlds)
    expect_same_steps(play(first, steps, wait=True), play(second, steps, wait=True))
    assert_same_bits(snapshot(first.sim), snapshot(second.sim), "at the end: ")
    rooms = second.sim.ragged("Plant.Stem.age").first.diff()
    expect(second.sim.layout > 0 and int(rooms.max()) > 16, "no table has grown, so this check is void")
    expect(second.sim.layout == first.sim.layout, f"{second.sim.layout} growths for {first.sim.layout}")
    return f"{second.sim.layout} growths, up to {int(rooms.max())} rows of room"


def late_growth(make: Make, worlds: int, steps: int) -> str:
    """The same without waiting: the host may see growth late, but no row is lost while room is left."""
    patient, hasty = make("garden", worlds), make("garden", worlds)
    expected = play(patient, steps, wait=True)
    try:
        found = play(hasty, steps)
    except WorldFault as fault:
        expect(all(f.cause == "table_full" for f in fault.faults), str(fault))
        return f"a world ran out of room before the host looked, and reported it: {fault.faults[0].table} is full"
    expect_same_steps(expected, found)
    return f"{hasty.sim.layout} growths, the same rows"


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
    """Copied worlds go on as their sources, others do not change, and a copy that is seeded anew differs."""
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
    expect(not torch.equal(hands[5], hands[3]), "worlds that were seeded anew are still alike")
    return "3 of 40 worlds, 8 steps"


def _worlds(env: TorchVectorEnv, results: Tensors, worlds: list[int]) -> Tensors:
    return {name: env.by_world(tensor)[worlds] for name, tensor in results.items()}
