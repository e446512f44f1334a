"""Swarm: each step against a model in plain Python, each rule in a scene set by hand, and tables that never overflow.

A second simulator, which runs the step only as far as that system, gives the model the random drones that come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from support import full_but
from torch_batchsim.envs.swarm import Swarm

from torch_batchsim import Simulator, TaskGraph, TorchVectorEnv

F = np.float32
ZERO = F(0)
S = F(0.70710678)
MOVES = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
FIRES = [(F(1), F(0)), (S, S), (F(0), F(1)), (-S, S), (F(-1), F(0)), (-S, -S), (F(0), F(-1)), (S, -S)]
Handle = tuple[int, ...]


class UntilSpawn:
    """A Swarm whose step ends after ``spawn_drones``. Its name and tables are Swarm's, so it takes Swarm's states."""

    def __new__(cls, **options: Any) -> Swarm:
        attributes = {"step": TaskGraph("steer", "spawn_drones"), "systems": str(Swarm().sources[0])}
        return type("Swarm", (Swarm,), attributes)(**options)


# ---- the model -----------------------------------------------------------------------------------------------------


@dataclass
class Thing:
    """A ship, drone or bullet."""

    handle: Handle
    x: F
    y: F
    u: F = ZERO
    v: F = ZERO
    left: int = 1  # hull, or steps to live
    wait: int = 0
    owner: Handle = ()
    target: Handle = ()


@dataclass
class World:
    ships: list[Thing]
    drones: list[Thing]
    bullets: list[Thing]


def handles_of(tensor: torch.Tensor) -> list[Handle]:
    return [tuple(row) for row in tensor.numpy().view(np.uint32).tolist()]


def ship_handles(sim: Simulator, world: int) -> list[Handle]:
    """Built by hand: the tag of the world from a drone that is made for this, then archetype, tick 0 and row."""
    made = sim.create("Drone", [world])
    handles = made.repeat(sim.environment.constants.ships, 1)
    handles[:, 1:] = torch.tensor([[4, 0, i] for i in range(len(handles))])
    sim.destroy([world], made)
    assert sim.find([world] * len(handles), handles).tolist() == list(range(len(handles)))
    return handles_of(handles)


def exported(sim: Simulator, w: int, ships: list[Handle]) -> World:
    def rows(table: str, handles: list[Handle], get: Any) -> list[Thing]:
        columns = [get(f"{table}.{name}").numpy() for name in ("Place.x", "Place.y", "Motion.x", "Motion.y")]
        things = [Thing(h, *(F(c[i]) for c in columns)) for i, h in enumerate(handles)]
        for name, attribute in (("Hull.left", "left"), ("Shot.left", "left"), ("Gun.wait", "wait")):
            if f"{table}.{name.split('.')[0]}" in sim.program.columns:
                for thing, value in zip(things, get(f"{table}.{name}").tolist(), strict=True):
                    setattr(thing, attribute, value)
        for name, attribute in (("Mind.target", "target"), ("Shot.owner", "owner")):
            if f"{table}.{name.split('.')[0]}" in sim.program.columns:
                for thing, value in zip(things, handles_of(get(f"{table}.{name}").contiguous()), strict=True):
                    setattr(thing, attribute, value)
        return things

    dynamic = {t: handles_of(sim.entities(t).world(w)) for t in ("Drone", "Bullet")}
    return World(
        rows("Ship", ships, lambda name: sim.tensor(name)[w]),
        *(rows(t, dynamic[t], lambda name: sim.ragged(name).world(w)) for t in ("Drone", "Bullet")),
    )


def near(thing: Thing, other: Thing, reach: F) -> bool:
    return abs(other.x - thing.x) <= reach and abs(other.y - thing.y) <= reach


def square(x: F, y: F) -> F:
    return x * x + y * y


def clamp(x: F, low: float, high: float) -> F:
    return min(max(x, F(low)), F(high))


def hits(bullet: Thing, target: Thing, radius: F) -> bool:
    """Whether the bullet's way of this step, as the target sees it, touches the target."""
    x, y, u, v = bullet.x - target.x, bullet.y - target.y, bullet.u - target.u, bullet.v - target.v
    ago = clamp((x * u + y * v) / max(square(u, v), F(1e-12)), 0, 1)
    return square(x - ago * u, y - ago * v) <= radius * radius


def advance(world: World, spawned: list[Thing], actions: list[tuple[int, int]], step: int, env: Swarm) -> tuple:
    """One step of the model; returns kills and hits of each ship, drones killed and rammed, and whether all is over."""
    p = {name: F(value) if isinstance(value, float) else value for name, value in env.parameters.items()}
    ships, drones, bullets = world.ships, world.drones, world.bullets
    kills, taken = [0] * len(ships), [0] * len(ships)
    for ship, (move, fire) in zip(ships, actions, strict=True):
        ship.u = ship.v = F(0)
        if ship.left == 0:
            continue
        x, y = MOVES[move]
        ship.u = clamp(ship.x + p["ship_speed"] * F(x), -1, 1) - ship.x
        ship.v = clamp(ship.y + p["ship_speed"] * F(y), -1, 1) - ship.y
        ship.wait = max(ship.wait - 1, 0)
        if fire and ship.wait == 0:
            ship.wait = p["reload"]
            u, v = (p["bullet_speed"] * part for part in FIRES[fire - 1])
            bullets.append(Thing((), ship.x, ship.y, u, v, p["bullet_life"], owner=ship.handle))
    drones += spawned
    living = [ship for ship in ships if ship.left > 0]
    for i, drone in enumerate(drones):
        ship = min(living, key=lambda s: square(s.x - drone.x, s.y - drone.y))  # the first of the least
        drone.target = ship.handle
        x, y = ship.x - drone.x, ship.y - drone.y
        distance = max(np.sqrt(square(x, y)), F(1e-6))
        speed = min(p["drone_speed"], distance)
        drone.u, drone.v = speed * (x / distance), speed * (y / distance)
        if i % p["drone_reload"] == step % p["drone_reload"]:
            u, v = p["bullet_speed"] * (x / distance), p["bullet_speed"] * (y / distance)
            bullets.append(Thing((), drone.x, drone.y, u, v, p["bullet_life"], owner=drone.handle))
    for thing in ships + drones + bullets:
        thing.x, thing.y = thing.x + thing.u, thing.y + thing.v
    for bullet in bullets:
        bullet.left -= 1
    bullets[:] = [b for b in bullets if b.left > 0 and abs(b.x) <= 1 and abs(b.y) <= 1]

    reach = p["radius"] + p["bullet_speed"] + max(p["ship_speed"], p["drone_speed"])
    own = {ship.handle: i for i, ship in enumerate(ships)}
    pairs = []
    for bullet in bullets:
        targets = drones if bullet.owner in own else [s for s in ships if s.left > 0]
        pairs += [(bullet, t) for t in targets if near(bullet, t, reach)][:8]
    killed = 0
    for bullet, target in [pair for pair in pairs if hits(*pair, p["radius"])]:
        if bullet.left == 0 or target.left == 0:
            continue
        if bullet.owner in own:
            killed += 1
            kills[own[bullet.owner]] += ships[own[bullet.owner]].left > 0
        else:
            taken[own[target.handle]] += 1
        target.left -= 1
        bullet.left = 0
    bullets[:] = [b for b in bullets if b.left > 0]
    drones[:] = [d for d in drones if d.left > 0]

    rams = set()
    for i, ship in enumerate(ships):
        if ship.left > 0:
            reach = F(2) * p["radius"]
            touching = {d.handle for d in drones if square(d.x - ship.x, d.y - ship.y) <= reach * reach}
            number = min(len(touching), ship.left)
            ship.left -= number
            taken[i] += number
            rams |= touching
    drones[:] = [d for d in drones if d.handle not in rams]
    return kills, taken, killed, len(rams), all(s.left == 0 for s in ships)


def seen(world: World, ship: Thing, env: Swarm) -> np.ndarray:
    p = {name: F(value) for name, value in env.parameters.items()}
    own = {s.handle for s in world.ships}
    view = [ship.x, ship.y, clamp(ship.u / p["ship_speed"], -1, 1), clamp(ship.v / p["ship_speed"], -1, 1)]
    view += [F(ship.wait) / p["reload"], F(ship.left) / p["hull"]]
    hostile = [b for b in world.bullets if b.owner not in own]
    for things, speed in ((world.drones, p["drone_speed"]), (hostile, p["bullet_speed"])):
        nearest = sorted(things, key=lambda t: square(t.x - ship.x, t.y - ship.y))[:5]
        for t in nearest:
            view += [F(1), clamp(t.x - ship.x, -2, 2), clamp(t.y - ship.y, -2, 2)]
            view += [clamp(t.u / speed, -1, 1), clamp(t.v / speed, -1, 1)]
        view += [F(0)] * (5 * (5 - len(nearest)))
    return np.array(view, F)


def contents(things: list[Thing], attributes: str) -> list[tuple]:
    return [tuple(getattr(thing, a) for a in attributes.split()) for thing in things]


LIVELY = {"spawn_rate": 0.8, "drone_speed": 0.03, "drone_reload": 16, "reload": 2, "hull": 3}


@pytest.mark.parametrize(
    ("ships", "options", "steps"),
    full_but(
        [3],
        [
            (1, {}, 160),
            (3, LIVELY, 60),
            (2, {**LIVELY, "bullet_speed": 0.3, "ship_speed": 0.2, "bullet_life": 4, "radius": 0.08}, 60),
        ],
    ),
    ids=["defaults", "lively", "fast"],
)
def test_every_step_is_the_models(ships: int, options: dict[str, Any], steps: int) -> None:
    worlds = 4
    env = TorchVectorEnv(Swarm(ships=ships, **options), num_worlds=worlds, autoreset_mode=AutoresetMode.DISABLED)
    sim, until_spawn = env.sim, Simulator(UntilSpawn(ships=ships, **options), worlds, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=3)
    own = [ship_handles(sim, w) for w in range(worlds)]
    generator = np.random.default_rng(5)
    ends = np.zeros(4, int)
    for _ in range(steps):
        before = [exported(sim, w, own[w]) for w in range(worlds)]
        actions = np.stack([generator.integers(0, 5, env.num_envs), generator.integers(0, 9, env.num_envs)], 1)
        until_spawn.load_state_dict(sim.state_dict())
        until_spawn.Ship.Choice.tensor[:] = env.by_world(torch.from_numpy(actions))
        until_spawn.step()
        observations, rewards, terminations, _, infos = env.step(torch.from_numpy(actions))
        score, rewards = env.by_world(infos["score"]).tolist(), env.by_world(rewards).tolist()
        for w, world in enumerate(before):
            spawned = exported(until_spawn, w, own[w]).drones[len(world.drones) :]
            assert all(max(abs(d.x), abs(d.y)) == 1 for d in spawned)  # at the border
            drones, places = len(world.drones) + len(spawned), [(s.x, s.y) for s in world.ships if s.left == 0]
            chosen = env.by_world(torch.from_numpy(actions))[w].tolist()
            kills, taken, killed, rammed, over = advance(
                world, spawned, chosen, int(sim.tensor("World.step")[w]), env.environment
            )
            after = exported(sim, w, own[w])
            assert contents(after.ships, "x y u v left wait") == contents(world.ships, "x y u v left wait")
            assert contents(after.drones, "handle x y u v left target") == contents(
                world.drones, "handle x y u v left target"
            )
            assert contents(after.bullets, "x y u v left owner") == contents(world.bullets, "x y u v left owner")
            old = [(b, a.handle) for b, a in zip(world.bullets, after.bullets, strict=True) if b.handle]
            assert all(bullet.handle == handle for bullet, handle in old)  # handles stay
            assert len(after.drones) == drones - killed - rammed
            assert score[w] == [list(pair) for pair in zip(kills, taken, strict=True)]
            assert rewards[w] == [k - t for k, t in zip(kills, taken, strict=True)]
            assert bool(terminations[w * ships]) == over
            assert [(s.x, s.y) for s in after.ships if (s.x, s.y) in places] == places  # wrecks do not move
            for ship, view in zip(after.ships, env.by_world(observations)[w].numpy(), strict=True):
                assert np.array_equal(view, seen(after, ship, env.environment))
            ends += [sum(kills), sum(taken), rammed, over]
        ended = env.by_world(terminations)[:, 0].clone()
        if ended.any():
            env.reset(options={"reset_mask": ended})
            own = [ship_handles(sim, w) for w in range(worlds)]
    assert (ends >= [3, 10, 5, 1]).all(), ends  # or little has been shown


# ---- scenes --------------------------------------------------------------------------------------------------------


class Scene:
    """One world without drones and bullets of its own accord; ships lie still at the given places, others are wrecks.

    All have three ships, as other tests: one build.
    """

    def __init__(self, *ships: tuple[float, float], **options: Any) -> None:
        environment = Swarm(ships=3, **{"spawn_rate": 0.0, "spawn_growth": 0.0, **options})
        self.env = TorchVectorEnv(environment, num_worlds=1, autoreset_mode=AutoresetMode.DISABLED)
        self.env.reset(seed=0)
        self.sim = self.env.sim
        for i, (x, y) in enumerate(ships):
            self.sim.Ship.Place.tensor[0, i] = torch.tensor([x, y])
        self.count = len(ships)
        self.sim.Ship.Hull.left[0, self.count :] = 0
        handles = np.array(ship_handles(self.sim, 0), np.uint32).view(np.int32)
        self.ships = list(torch.from_numpy(handles))

    def drone(self, x: float, y: float) -> torch.Tensor:
        return self.sim.create("Drone", [0], {"Place.x": x, "Place.y": y, "Hull.left": 1})

    def bullet(self, x: float, y: float, u: float, v: float, owner: torch.Tensor, left: int = 10) -> torch.Tensor:
        values = {"Place.x": x, "Place.y": y, "Motion.x": u, "Motion.y": v, "Shot.left": left, "Shot.owner": owner}
        return self.sim.create("Bullet", [0], values)

    def step(self, *actions: tuple[int, int]) -> list[float]:
        """Rewards of a step; ships without an action do nothing."""
        chosen = [*actions, *[(0, 0)] * (len(self.ships) - len(actions))]
        _, rewards, terminations, _, self.infos = self.env.step(torch.tensor(chosen))
        self.over = bool(terminations[0])
        return rewards.tolist()[: self.count]

    def lives(self, *handles: torch.Tensor) -> list[bool]:
        return [bool(self.sim.find([0], handle) >= 0) for handle in handles]

    def hulls(self) -> list[int]:
        return self.sim.tensor("Ship.Hull.left")[0].tolist()[: self.count]


@pytest.mark.full
def test_of_two_bullets_in_one_drone_the_older_one_counts() -> None:
    scene = Scene((-0.9, -0.9), (0.9, -0.9))
    drone = scene.drone(0.0, 0.5)
    older = scene.bullet(0.06, 0.5, -0.06, 0.0, scene.ships[1])
    younger = scene.bullet(-0.06, 0.5, 0.06, 0.0, scene.ships[0])
    assert scene.step() == [0, 1]
    assert scene.lives(drone, older, younger) == [False, False, True]


@pytest.mark.full
@pytest.mark.parametrize(("beside", "hit"), [(7, True), (8, False)])
def test_a_bullet_is_compared_with_the_eight_oldest_in_reach(beside: int, hit: bool) -> None:
    scene = Scene((-0.9, -0.9), drone_speed=1e-6)
    for _ in range(beside):
        scene.drone(0.0, 0.6)  # in reach, but not hit
    scene.drone(0.0, 0.5)
    scene.bullet(-0.06, 0.5, 0.06, 0.0, scene.ships[0])
    assert scene.step() == [float(hit)]


def test_the_bullet_of_a_wreck_still_destroys_but_earns_nothing() -> None:
    scene = Scene((-0.9, -0.9), (0.9, -0.9))
    drone, bullet = scene.drone(0.0, 0.5), scene.bullet(-0.06, 0.5, 0.06, 0.0, scene.ships[0])
    scene.sim.Ship.Hull.left[0, 0] = 0
    assert scene.step() == [0, 0]
    assert scene.lives(drone, bullet) == [False, False]


@pytest.mark.parametrize("owner", ["alive", "gone", "nobody"])
def test_the_bullet_of_a_drone_hits_ships_alone_whether_the_drone_lives_or_not(owner: str) -> None:
    scene = Scene((0.0, 0.0))
    bystander, drone = scene.drone(-0.2, 0.0), scene.drone(0.9, 0.9)
    handle = torch.zeros(1, 4, dtype=torch.int32) if owner == "nobody" else drone
    bullet = scene.bullet(-0.2, 0.0, 0.06, 0.0, handle)
    if owner == "gone":
        scene.sim.destroy([0], drone)
    rewards = [scene.step()[0] for _ in range(3)]
    assert rewards == [0, 0, -1]  # at 0.2 - 3 * 0.06 = 0.02; it was beyond the radius of 0.05 before
    assert scene.lives(bystander, bullet) == [True, False]
    assert scene.hulls() == [4]


def test_a_drone_that_touches_two_ships_costs_both_and_is_gone_once() -> None:
    scene = Scene((-0.05, 0.0), (0.05, 0.0))
    drone = scene.drone(0.0, 0.01)
    assert scene.step() == [-1, -1]
    assert scene.hulls() == [4, 4]
    assert scene.lives(drone) == [False]


def test_a_wreck_does_nothing_and_drones_chase_who_lives() -> None:
    scene = Scene((0.0, 0.0), (0.0, 0.9), hull=1)
    near_by = scene.drone(0.0, -0.05)
    assert scene.step() == [-1, 0]
    assert not scene.over
    drone = scene.drone(0.3, 0.0)
    before = scene.sim.Ship.Place.tensor[0, 0].clone()
    for _ in range(3):
        assert scene.step((2, 1)) == [0, 0]
    assert torch.equal(scene.sim.Ship.Place.tensor[0, 0], before)
    assert scene.sim.ragged("Bullet.Shot.left").counts.tolist() == [0]
    assert scene.lives(near_by, drone) == [False, True]
    assert torch.equal(scene.sim.ragged("Drone.Mind.target").world(0)[0], scene.ships[1])


# ---- drones that come, and room for all ----------------------------------------------------------------------------


@pytest.mark.full
def test_drones_come_at_the_given_rate() -> None:
    env = TorchVectorEnv(Swarm(spawn_rate=0.3, spawn_growth=0.2, hull=1000), num_worlds=4000)
    env.reset(seed=0)
    before = torch.zeros(4000)
    for step in range(4):
        env.step(torch.zeros(4000, 2, dtype=torch.int64))
        counts = env.sim.entities("Drone").counts.float()
        rate = 0.3 + 0.2 * step
        assert set((counts - before).tolist()) == {0.0, 1.0}
        assert (counts - before).mean().item() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 4000) ** 0.5)
        before = counts.clone()


@pytest.mark.full
@pytest.mark.parametrize(("drones", "growths"), full_but([128], [(16, 0), (50, 2), (128, 3)]))
def test_no_more_come_than_there_may_be(drones: int, growths: int) -> None:
    env = TorchVectorEnv(Swarm(drones=drones, spawn_rate=1e9, hull=1000, drone_speed=1e-4), num_worlds=3)
    env.reset(seed=0)
    counts = []
    for _ in range(40):
        env.step(torch.zeros(3, 2, dtype=torch.int64))
        counts.append(env.sim.entities("Drone").counts.tolist())
    assert counts[:4] == [[4] * 3, [8] * 3, [12] * 3, [16] * 3]
    assert counts[-1] == [drones] * 3
    assert len({len(env.sim.tensor("Drone.Mind.target"))}) == 1
    assert len(env.sim.tensor("Drone.Mind.target")) == 3 * min(drones, 16 * 2**growths)


CROWDED = {"ships": 8, "reload": 1, "bullet_life": 32, "drone_reload": 16, "spawn_rate": 1e9, "hull": 10**6}


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "worlds", "steps", "least"),
    [
        ({}, 200, 600, (16, 16, 1)),
        pytest.param({"ships": 8, "hull": 20}, 20, 300, (17, 30, 10), marks=pytest.mark.full),
        *(
            pytest.param({**CROWDED, **options}, 6, 150, least, marks=pytest.mark.full)
            for options, least in (
                ({"bullet_speed": 0.02, "drone_speed": 1e-3}, (128, 384, 50)),
                ({"bullet_speed": 1e-3, "drone_speed": 0.05, "ship_speed": 1e-3, "radius": 0.5}, (4, 1, 1)),
            )
        ),
    ],
    ids=["defaults", "eight ships", "most bullets", "greatest reach"],
)
def test_no_table_overflows_in_random_play(
    options: dict[str, Any], worlds: int, steps: int, least: tuple[int, int, int]
) -> None:
    """An overflow would be a WorldFault. What is there stays in the arena, and who is chased is a ship."""
    env = TorchVectorEnv(Swarm(**options), num_worlds=worlds)
    env.reset(seed=0)
    sim, generator = env.sim, torch.Generator().manual_seed(0)
    greatest = np.zeros(3, int)
    for step in range(steps):
        actions = [torch.randint(0, n, (env.num_envs,), generator=generator) for n in (5, 9)]
        _, rewards, _, _, infos = env.step(torch.stack(actions, 1))
        ended = infos["_final_info"] if "_final_info" in infos else torch.zeros(env.num_envs, dtype=torch.bool)
        score = infos["score"].clone()
        score[ended] = infos["final_info"]["score"][ended]
        assert torch.equal(rewards, (score[:, 0] - score[:, 1]).float())
        counts = [sim.entities(table).counts for table in ("Drone", "Bullet", "Contact")]
        greatest = np.maximum(greatest, [int(c.max()) for c in counts])
        if step % 20 == 0:
            for table in ("Drone", "Bullet"):
                places, _ = sim.ragged(f"{table}.Place").packed()
                assert (places.abs() <= 1.0001).all()
            targets, offsets = sim.ragged("Drone.Mind.target").packed()
            of = torch.arange(worlds).repeat_interleave(offsets.diff())
            assert (sim.find(of, targets) >= 0).all()
    assert (greatest >= least).all(), greatest
    assert sim.layout > 0 or "radius" in options  # tables have grown


# ---- options, registration, picture --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ships": 0}, "ships must be at least 1, got 0"),
        ({"ships": 9}, "ships must be at most 8, got 9"),
        ({"drones": 129}, "drones must be at most 128"),
        ({"bullet_life": 33}, "bullet_life must be at most 32"),
        ({"drone_reload": 15}, "drone_reload must be at least 16"),
        ({"spawn_rate": -0.1}, "spawn_rate must be at least 0"),
        ({"drone_speed": 0.0}, "drone_speed must be greater than 0"),
        ({"hull": 0}, "hull must be at least 1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Swarm(**options)


def test_it_is_registered_and_rows_are_ships() -> None:
    assert gymnasium.spec("torch_batchsim/Swarm-v0").max_episode_steps == 300
    env = gymnasium.make_vec("torch_batchsim/Swarm-v0", num_envs=6, ships=3, max_episode_steps=2)
    observations, _ = env.reset(seed=0)
    assert observations.shape == (6, 56)
    assert env.single_observation_space.shape == (56,)
    assert env.single_action_space == gymnasium.spaces.MultiDiscrete([5, 9])
    actions = torch.zeros(6, 2, dtype=torch.int64)
    assert not env.step(actions)[3].any()
    assert env.step(actions)[3].all()
    single = gymnasium.make("torch_batchsim/Swarm-v0")
    observation, _ = single.reset(seed=0)
    assert single.observation_space.contains(observation)
    single.close()


def test_the_picture_shows_who_is_where() -> None:
    env = TorchVectorEnv(Swarm(), num_worlds=2, render_mode="rgb_array")
    env.reset(seed=0)
    env.sim.Ship.Place.tensor[:, 0] = torch.tensor([[0.5, 0.5], [-0.5, -0.5]])
    env.sim.create("Drone", [1, 1], {"Place.x": torch.tensor([0.5, 0.8]), "Hull.left": 1})
    first, second = (picture.astype(int) for picture in env.render())
    assert first.shape == (428, 400, 3)
    for picture, x, y in ((first, 0.5, 0.5), (second, -0.5, -0.5)):
        blue = np.argwhere(np.abs(picture - (90, 190, 255)).sum(-1) < 20)
        assert blue.mean(0) == pytest.approx([228 - y * 400 / 2.2, 200 + x * 400 / 2.2], abs=1.0)
    red = [np.abs(picture - (214, 76, 72)).sum(-1) < 20 for picture in (first, second)]
    assert red[0].sum() == 0
    assert np.argwhere(red[1])[:, 1].mean() == pytest.approx(200 + 0.65 * 400 / 2.2, abs=1.0)


@pytest.mark.full
def test_the_picture_shows_heading_hull_score_and_step() -> None:
    env = TorchVectorEnv(Swarm(), num_worlds=1, render_mode="rgb_array")

    def picture(**changes: list) -> np.ndarray:
        env.reset(seed=0)
        for name, value in ({"Place.x": 0.0, "Place.y": 0.0} | changes).items():
            env.sim.tensor(f"Ship.{name}")[:] = value
        return env.render()[0].astype(int)

    def is_like(colour: tuple[int, int, int], pixels: np.ndarray) -> np.ndarray:
        return np.abs(pixels - colour).sum(-1) < 30

    still, right = picture(), picture(**{"Motion.x": 0.03})
    radius = 0.05 * 400 / 2.2
    ahead = (228, round(200 + 1.3 * radius))
    assert is_like((90, 190, 255), right[ahead]) and not is_like((90, 190, 255), still[ahead])
    full, half = (is_like((110, 220, 130), picture(**{"Hull.left": left})).sum() for left in (5, 2))
    assert half == pytest.approx(0.4 * full, rel=0.1)
    tallied = picture(**{"Tally.kills": 7, "Tally.hits": 2})
    assert (tallied[:28, :200] != still[:28, :200]).any() and (tallied[:, 200:] == still[:, 200:]).all()  # the score
    env.episode_steps = torch.tensor([17])
    assert (env.render()[0][:28, 200:] != still[:28, 200:]).any()  # the step
    assert env.render()[0][28:].astype(int) == pytest.approx(tallied[28:])
    env.reset(seed=0)
    rewards = torch.zeros(1)
    for _ in range(200):
        _, reward, *_ = env.step(torch.tensor([[2, 1 + _ % 8]]))
        rewards += reward
        if env.sim.tensor("World.step")[0] == 0:
            break
        assert (env.sim.tensor("Ship.Tally.kills") - env.sim.tensor("Ship.Tally.hits")).item() == rewards.item()
    assert rewards < 0
