"""The picture of a world of Swarm: places, headings, hulls, score and step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from torch_batchsim.draw import Colour, Point, Scene

SIZE, HEADER = 400, 28  # pixels: the arena with its margin, the line of text above it
SCALE = SIZE / 2.2  # pixels per half width
DARK, HEADER_COLOUR, WALL, TEXT, GREY = (18, 20, 32), (34, 38, 58), (90, 95, 120), (225, 228, 240), (120, 125, 145)
SHIP, DRONE, OWN_BULLET, DRONE_BULLET = (90, 190, 255), (214, 76, 72), (190, 230, 255), (255, 190, 90)
HULL, LOST = (110, 220, 130), (70, 74, 96)
_BAR = 5  # pixels: the height of the bar of hull
_MOST_PIECES = 10  # of the bar; a greater hull has a bar of one piece


def place(x: float, y: float) -> Point:
    """The pixel of a place in half widths."""
    return float(SIZE / 2 + x * SCALE), float(HEADER + SIZE / 2 - y * SCALE)


def draw(world: Mapping[str, np.ndarray], radius: float, hull: int, last_step: int) -> Scene:
    """`SIZE` by `HEADER + SIZE` pixels.

    Args:
        world: as `scene` gets it.
        radius: of ships and drones, half widths.
        hull: of a ship at first.
        last_step: of an episode.
    """
    scene, step = Scene(SIZE, HEADER + SIZE, background=DARK), int(world["World.step"])
    corners = [place(-1, -1), place(1, -1), place(1, 1), place(-1, 1)]
    for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
        scene.line(start, end, 2, WALL)
    for row, (at, heading) in enumerate(_headed(world, "Drone")):
        scene.row("Drone", row)
        _disc(scene, at, radius * SCALE, heading, DRONE)
    fire = world["Ship.Choice.fire"] if step else np.zeros_like(world["Ship.Choice.fire"])  # no action yet
    ships = zip(_headed(world, "Ship"), fire.tolist(), world["Ship.Hull.left"].tolist(), strict=True)
    for row, ((at, heading), shot, left) in enumerate(ships):
        scene.row("Ship", row)
        if shot and left:  # where the gun points
            angle = (shot - 1) * math.pi / 4
            reach = 1.9 * radius * SCALE
            scene.line(at, (at[0] + reach * math.cos(angle), at[1] - reach * math.sin(angle)), 3, OWN_BULLET)
        _disc(scene, at, radius * SCALE, heading if left else None, SHIP if left else LOST)
        if left:
            _bar(scene, (at[0], at[1] + radius * SCALE + 6), radius * SCALE, left, hull)
    tables = world["Bullet.Shot.owner"][:, 1]  # a handle's archetype: 1 is the first dynamic one
    for row, (x, y, table) in enumerate(zip(world["Bullet.Place.x"], world["Bullet.Place.y"], tables, strict=True)):
        scene.row("Bullet", row)
        scene.circle(place(x, y), 2.5, DRONE_BULLET if table == 1 else OWN_BULLET)
    scene.row()
    score = int(world["Ship.Tally.kills"].sum() - world["Ship.Tally.hits"].sum())
    scene.rectangle((0, 0), (SIZE, HEADER), HEADER_COLOUR)
    scene.text((10, HEADER / 2), f"score {score}", TEXT, scale=2)
    scene.text((SIZE - 10, HEADER / 2), f"step {step}/{last_step}", TEXT, scale=2, align=1.0)
    return scene


def _headed(world: Mapping[str, np.ndarray], table: str) -> Iterator[tuple[Point, Point | None]]:
    """Each row's pixel, and the direction of its motion in the picture, None at rest."""
    columns = (world[f"{table}.{name}"].tolist() for name in ("Place.x", "Place.y", "Motion.x", "Motion.y"))
    for x, y, u, v in zip(*columns, strict=True):
        speed = math.hypot(u, v)
        yield place(x, y), (u / speed, -v / speed) if 0 < speed < math.inf else None


def _disc(scene: Scene, at: Point, radius: float, heading: Point | None, colour: Colour) -> None:
    """A disc with a nose in its direction."""
    if heading is not None:
        (x, y), (u, v) = at, heading
        tip, side = (x + 1.6 * radius * u, y + 1.6 * radius * v), 0.78 * radius
        x, y = x + 0.62 * radius * u, y + 0.62 * radius * v
        scene.polygon([tip, (x - side * v, y + side * u), (x + side * v, y - side * u)], colour)
    scene.circle(at, radius, colour)


def _bar(scene: Scene, top: Point, half: float, left: int, hull: int) -> None:
    """The hull left, a piece for each point."""
    half = max(half, 12.0)
    pieces = hull if hull <= _MOST_PIECES else 1
    for piece in range(pieces):
        start, end = (top[0] + half * (2 * (piece + i) / pieces - 1) for i in (0, 1))
        share = min(1.0, max(0.0, left / hull * pieces - piece))
        end -= 1 if pieces > 1 else 0
        scene.rectangle((start, top[1]), (end, top[1] + _BAR), LOST)
        if share:
            scene.rectangle((start, top[1]), (start + share * (end - start), top[1] + _BAR), HULL)
