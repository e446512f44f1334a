"""Swarm's systems in Python, but two that call the grid, a library in C++."""

from __future__ import annotations

from pathlib import Path

from torch_batchsim.envs.swarm.env import (
    Choice,
    Gun,
    Hull,
    Mind,
    Motion,
    Pair,
    Place,
    Score,
    Shot,
    Swarm,
    Tally,
    View,
)

from torch_batchsim import Entity, Episode, Reward, Row, TaskGraph, Warp, World, f32, function, i32, no_row, system
from torch_batchsim.math import clamp, sqrt, to_i32


@function
def squared_distance(x: float, y: float) -> float:
    return x * x + y * y


@system
def place_ships(world: World, place: Place, hull: Hull, gun: Gun) -> None:
    place.x = world.random.uniform(-0.5, 0.5)
    place.y = world.random.uniform(-0.5, 0.5)
    hull.left = world.parameters.hull


@function
def eastward(direction: int) -> float:
    length = 1.0 if direction % 4 == 0 else 0.0 if direction % 4 == 2 else 0.70710678
    return -length if 3 <= direction <= 5 else length


@system
def steer(
    world: World, place: Place, hull: Hull, choice: Choice, motion: Motion, gun: Gun, score: Score, me: Entity
) -> None:
    score.kills, score.hits = 0, 0
    motion.x, motion.y = 0.0, 0.0
    if hull.left == 0:
        return
    speed = world.parameters.ship_speed
    motion.x = clamp(place.x + speed * (f32(choice.move == 2) - f32(choice.move == 1)), -1, 1) - place.x
    motion.y = clamp(place.y + speed * (f32(choice.move == 4) - f32(choice.move == 3)), -1, 1) - place.y
    gun.wait = max(gun.wait - 1, 0)
    if choice.fire == 0 or gun.wait > 0:
        return
    gun.wait = world.parameters.reload
    direction, fast = choice.fire - 1, world.parameters.bullet_speed
    flight = Motion(x=fast * eastward(direction), y=fast * eastward((direction + 6) % 8))
    world.create("Bullet", place, flight, Shot(owner=me, left=world.parameters.bullet_life))


@system
def spawn_drones(world: World) -> None:
    rate = world.parameters.spawn_rate + world.parameters.spawn_growth * f32(world.step() - 1)
    room = world.constants.drones - world.count("Drone")
    for _ in range(min(to_i32(min(rate, 4.0) + world.random.uniform()), min(4, room))):
        along = world.random.uniform(-1, 1)
        side = 1.0 if world.random.chance(0.5) else -1.0
        if world.random.chance(0.5):
            world.create("Drone", Place(x=along, y=side), Hull(left=1))
        else:
            world.create("Drone", Place(x=side, y=along), Hull(left=1))


@system
def choose_target(world: World, place: Place, mind: Mind) -> None:
    ships, hulls = world.rows("Ship", Place), world.rows("Ship", Hull)
    mind.target = Entity()
    least = 1e30
    for i in range(ships.count):
        distance = squared_distance(ships[i].x - place.x, ships[i].y - place.y)
        if hulls[i].left == 0 or not distance < least:
            continue
        least = distance
        mind.target = world.entity("Ship", i)


@system
def chase(world: World, place: Place, mind: Mind, motion: Motion, row: Row, me: Entity) -> None:
    ship = world.find("Ship", Place, mind.target)
    motion.x, motion.y = 0.0, 0.0
    if ship is None:
        return
    x, y = ship.x - place.x, ship.y - place.y
    distance = max(sqrt(squared_distance(x, y)), 1e-6)
    speed = min(world.parameters.drone_speed, distance)
    motion.x, motion.y = speed * (x / distance), speed * (y / distance)
    reload = world.parameters.drone_reload
    if row.index % reload != world.step() % reload:
        return
    fast = world.parameters.bullet_speed
    flight = Motion(x=fast * (x / distance), y=fast * (y / distance))
    world.create("Bullet", place, flight, Shot(owner=me, left=world.parameters.bullet_life))


@system
def move(world: World, place: Place, motion: Motion) -> None:
    place.x += motion.x
    place.y += motion.y


@system
def expire(world: World, place: Place, shot: Shot, me: Entity) -> None:
    shot.left -= 1
    if shot.left <= 0 or abs(place.x) > 1 or abs(place.y) > 1:
        world.destroy(me)


@system
def resolve(world: World, pair: Pair) -> None:
    at = world.index_of("Drone", pair.target)
    if at != no_row:
        place_x, place_y = world.rows("Drone", Place)[at].x, world.rows("Drone", Place)[at].y
        drift_x, drift_y = world.rows("Drone", Motion)[at].x, world.rows("Drone", Motion)[at].y
    else:
        ship = world.index_of("Ship", pair.target)
        place_x, place_y = world.rows("Ship", Place)[ship].x, world.rows("Ship", Place)[ship].y
        drift_x, drift_y = world.rows("Ship", Motion)[ship].x, world.rows("Ship", Motion)[ship].y
    bullet, flight = world.find("Bullet", Place, pair.bullet), world.find("Bullet", Motion, pair.bullet)
    x, y = bullet.x - place_x, bullet.y - place_y
    u, v = flight.x - drift_x, flight.y - drift_y
    ago = clamp((x * u + y * v) / max(squared_distance(u, v), 1e-12), 0, 1)
    radius = world.parameters.radius
    pair.hit = squared_distance(x - ago * u, y - ago * v) <= radius * radius


@system
def strike(world: World) -> None:
    for pair in world.rows("Contact", Pair):
        if pair.hit == 0:
            continue
        shot, drone = world.find("Bullet", Shot, pair.bullet), world.find("Drone", Hull, pair.target)
        if drone is not None:
            if shot.left == 0 or drone.left == 0:
                continue
            owner = world.index_of("Ship", shot.owner)
            if world.rows("Ship", Hull)[owner].left > 0:
                world.rows("Ship", Score)[owner].kills += 1
            world.destroy(pair.target)
            drone.left -= 1
        else:
            ship = world.find("Ship", Hull, pair.target)
            if shot.left == 0 or ship.left == 0:
                continue
            world.find("Ship", Score, pair.target).hits += 1
            ship.left -= 1
        shot.left = 0
        world.destroy(pair.bullet)


@function
def touches(drone: Place, place: Place, reach: float) -> bool:
    return squared_distance(drone.x - place.x, drone.y - place.y) <= reach * reach


@system
def ram(world: World, place: Place, hull: Hull, score: Score, warp: Warp) -> None:
    drones = world.rows("Drone", Place)
    reach = 2 * world.parameters.radius
    if hull.left == 0:
        return
    hits = min(i32(warp.count(drones.count, lambda i: touches(drones[i], place, reach))), hull.left)

    def destroy(i: int) -> None:
        if touches(drones[i], place, reach):
            world.destroy(world.entity("Drone", i))

    def count() -> None:
        hull.left -= hits
        score.hits += hits

    warp.for_each(drones.count, destroy)
    warp.once(count)


@system
def pay(world: World, score: Score, tally: Tally, reward: Reward) -> None:
    reward.value = f32(score.kills - score.hits)
    tally.kills += score.kills
    tally.hits += score.hits


@system
def judge(world: World, episode: Episode) -> None:
    over = True
    for hull in world.rows("Ship", Hull):
        over = over and hull.left == 0
    episode.terminated = over
    episode.truncated = episode.step >= world.parameters.max_episode_steps


@function
def keep_nearest(seen: f32[5, 5], x: float, y: float, u: float, v: float) -> None:
    distance = squared_distance(x, y)
    k = 5
    while k > 0:
        nearer = seen[k - 1]
        if nearer[0] != 0 and not distance < squared_distance(nearer[1], nearer[2]):
            break
        if k < 5:
            for j in range(5):
                seen[k, j] = nearer[j]
        k -= 1
    if k == 5:
        return
    own = seen[k]
    own[0] = 1
    own[1], own[2] = clamp(x, -2, 2), clamp(y, -2, 2)
    own[3], own[4] = clamp(u, -1, 1), clamp(v, -1, 1)


@system
def look(world: World, place: Place, motion: Motion, gun: Gun, hull: Hull, view: View) -> None:
    view.place[0], view.place[1] = place.x, place.y
    view.velocity[0] = clamp(motion.x / world.parameters.ship_speed, -1, 1)
    view.velocity[1] = clamp(motion.y / world.parameters.ship_speed, -1, 1)
    view.wait = f32(gun.wait) / f32(world.parameters.reload)
    view.hull = f32(hull.left) / f32(world.parameters.hull)
    for i in range(5):
        for j in range(5):
            view.drones[i, j], view.bullets[i, j] = 0.0, 0.0
    drones, chases = world.rows("Drone", Place), world.rows("Drone", Motion)
    chase_speed = world.parameters.drone_speed
    for i in range(drones.count):
        x, y = drones[i].x - place.x, drones[i].y - place.y
        keep_nearest(view.drones, x, y, chases[i].x / chase_speed, chases[i].y / chase_speed)
    bullets, flights, shots = world.rows("Bullet", Place), world.rows("Bullet", Motion), world.rows("Bullet", Shot)
    fast = world.parameters.bullet_speed
    for i in range(bullets.count):
        if world.index_of("Ship", shots[i].owner) != no_row:
            continue
        x, y = bullets[i].x - place.x, bullets[i].y - place.y
        keep_nearest(view.bullets, x, y, flights[i].x / fast, flights[i].y / fast)


class PythonSwarm(Swarm):
    systems = str(Path(__file__).with_name("swarm_grid.h"))
    start = TaskGraph(place_ships)
    step = TaskGraph(
        steer, spawn_drones, choose_target, chase, move, expire,
        "sort_drones", "find_contacts", resolve, strike, ram, pay, judge,
    )  # fmt: skip
    observe = TaskGraph(look)
