"""Pictures of hide and seek: a plan from above, and the view of a camera aside.

From above hiders are blue, seekers red, each with its cone of sight, which ends at the first body, and a line to each
agent of the other team that it sees. Boxes are brown, ramps are ochre with stripes towards the high side; locked things
have a frame of their team's colour, held ones a white dot and a line to the holder. Agents that have fallen out of the
square are drawn at its edge. A bar below shows the time, the preparation in grey. From aside agents have a white brow;
locked things are darker, with a block of their team's colour on top.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from torch_batchsim.draw import Canvas, Colour, Point, Scene, mixed
from torch_batchsim.physics import rotated
from torch_batchsim.rays import BodyScene, Picture

SIZE, BAR, MARGIN = 480, 10, 1.2  # pixels, pixels, metres around the square
FLOOR, OUTSIDE, WALL = (232, 230, 224), (178, 184, 180), (92, 96, 110)
BOX, RAMP, RAMP_STRIPE, LOCKED_EDGE = (176, 124, 74), (222, 178, 86), (188, 140, 54), 5
TEAMS: dict[int, Colour] = {1: (52, 104, 204), 2: (206, 58, 50)}  # by Side
PREPARING, PLAYING, WHITE, DARK = (150, 150, 158), (74, 150, 92), (255, 255, 255), (40, 40, 46)
CONE_SHARE = 0.16  # of a cone's colour in the floor's
CONE_LENGTH = 9.0  # metres
BEAMS = 720  # directions in which cones are cut
LOCK = 0.4  # metres, half the side of a lock's block
RIM = 33  # places along the end of a cone that is seen from aside


def from_above(world: Mapping[str, np.ndarray], constants: Any, steps: tuple[int, int, int]) -> np.ndarray:
    """A picture ``uint8 [SIZE + BAR, SIZE, 3]``. ``steps``: done, of the preparation, of an episode."""
    half = constants.half_size + MARGIN
    scale = SIZE / (2 * half)
    canvas = Canvas(SIZE, SIZE + BAR, OUTSIDE)

    def at(position: np.ndarray) -> Point:
        return float(SIZE / 2 + position[0] * scale), float(SIZE / 2 - position[1] * scale)

    def corners(pose: tuple[np.ndarray, np.ndarray], points: list[tuple[float, float, float]]) -> list[Point]:
        position, rotation = pose
        return [at(position + rotated(rotation, point)) for point in points]

    edge = constants.half_size
    canvas.rectangle(at(np.array((-edge, -edge))), at(np.array((edge, edge))), FLOOR)
    _cones(canvas, world, constants, at, scale)
    for place, size in zip(world["Wall.physics.Pose.position"], world["Wall.physics.Shape.size"], strict=True):
        canvas.rectangle(at(place - size), at(place + size), WALL)
    for kind, outline in (("Ramp", None), ("Box", "size")):
        poses = zip(world[f"{kind}.physics.Pose.position"], world[f"{kind}.physics.Pose.rotation"], strict=True)
        for i, pose in enumerate(poses):
            if outline is None:
                points = _ramp(canvas, constants, pose, corners)
            else:
                x, y, z = map(float, world["Box.physics.Shape.size"][i])
                points = _hull(np.array([p for sz in (-z, z) for p in corners(pose, _square(x, y, sz))]))
                canvas.polygon(points, BOX)
            team = int(world[f"{kind}.Thing.locked"][i])
            frame = TEAMS.get(team, DARK)
            for start, end in zip(points, points[1:] + points[:1], strict=True):
                canvas.line(start, end, LOCKED_EDGE if team else 1.5, frame)
            holder = int(world[f"{kind}.Thing.holder"][i])
            if holder:
                canvas.line(at(pose[0]), at(world["Agent.physics.Pose.position"][holder - 1]), 2, WHITE)
                canvas.circle(at(pose[0]), 4, WHITE)
    _agents(canvas, world, constants, at, corners)
    _time(canvas, steps, SIZE, SIZE)
    return canvas.pixels


def from_aside(half: float) -> Callable[[Mapping[str, np.ndarray], Any], BodyScene]:
    """A camera that looks down into a square of this half size: a function of a world and the constants."""
    see = Picture(
        eye=(0.0, -1.75 * half, 1.85 * half), target=(0.0, -0.13 * half, 0.0), width=640, height=390, field_of_view=0.8,
        tile=half / 6, colours={"Agent": _agent_colours, "Box": _thing_colours("Box", BOX), "Wall": number_of(WALL),
                                "Ramp": _thing_colours("Ramp", RAMP), "Floor": number_of(FLOOR),
                                "Mark": lambda world: world["Mark.colour"]},
    )  # fmt: skip

    def scene(world: Mapping[str, np.ndarray], constants: Any) -> BodyScene:
        # A ChainMap, of which nothing is written, reads no columns that the picture does not need.
        all_of_it: Any = ChainMap(_marks(world, constants), world)  # type: ignore[arg-type]
        return _with_sight(see.scene(all_of_it), world, constants)

    return scene


def _marks(world: Mapping[str, np.ndarray], constants: Any) -> dict[str, np.ndarray]:
    """Bodies of the picture: a white brow of each agent, and a block of a team's colour on each thing it has locked."""
    size, rows = constants.agent, []
    poses = world["Agent.physics.Pose.position"], world["Agent.physics.Pose.rotation"]
    for place, rotation in zip(*poses, strict=True):
        at = place + rotated(rotation, (0.0, 0.82 * size, 0.75 * size))
        rows.append((at, rotation, (0.8 * size, 0.25 * size, 0.3 * size), number_of(WHITE)))
    for table in ("Box", "Ramp"):
        columns = ("physics.Pose.position", "physics.Pose.rotation", "physics.Shape.size", "Thing.locked")
        for place, rotation, half, side in zip(*(world[f"{table}.{name}"] for name in columns), strict=True):
            if int(side) in TEAMS:
                top = constants.ramp_height / 3 if table == "Ramp" else float(half[2])  # over the centre of mass
                at = place + rotated(rotation, (0.0, 0.0, top + LOCK / 2))
                rows.append((at, rotation, (LOCK, LOCK, LOCK), number_of(TEAMS[int(side)])))
    position, rotation, half, colour = (np.array(column) for column in zip(*rows, strict=True))
    boxes = np.full(len(rows), world["Agent.physics.Shape.kind"][0])  # as agents are
    return {
        "Mark.physics.Pose.position": position, "Mark.physics.Pose.rotation": rotation, "Mark.physics.Shape.size": half,
        "Mark.physics.Shape.kind": boxes, "Mark.physics.Shape.hull": 0 * colour,
        "Mark.colour": colour,
    }  # fmt: skip


def _with_sight(scene: BodyScene, world: Mapping[str, np.ndarray], constants: Any) -> BodyScene:
    """The scene with cones of sight, a line to each agent of the other team in sight, names, and beams of the lidar."""
    places, rotations, sides = (world[f"Agent.{name}"] for name in (
        "physics.Pose.position", "physics.Pose.rotation", "Team.side"))  # fmt: skip
    colours = [TEAMS[int(side)] for side in sides]
    solids, half = solids_of(world, constants), np.arccos(constants.cone)
    scene.layer("Sight")
    for i, place in enumerate(places):
        forward = rotated(rotations[i], (0, 1, 0))
        angles = np.arctan2(forward[1], forward[0]) + np.linspace(-half, half, RIM)
        ways = np.minimum(clear_ways(solids, place, angles, i), CONE_LENGTH)
        rim = place + np.stack([ways * np.cos(angles), ways * np.sin(angles), 0 * ways], -1)
        scene.area([place, *rim], colours[i], CONE_SHARE)
    for i, j in _seen(world):
        scene.path([places[i], places[j]], 2.0, colours[i])
    scene.layer("Lidar", shown=False)
    turns = 2 * np.pi * np.arange(constants.beams) / constants.beams
    for i, ways in enumerate(constants.lidar_range * world["Agent.Lidar.distance"]):
        left, forward = rotated(rotations[i], (-1, 0, 0)), rotated(rotations[i], (0, 1, 0))
        ends = places[i] + np.outer(ways * np.sin(turns), left) + np.outer(ways * np.cos(turns), forward)
        scene.beams([places[i], *ends], 1.0, colours[i])
    scene.layer("Names")
    for i, side in enumerate(sides):
        name = f"{'HS'[int(side) - 1]}{i + 1 if i < constants.hiders else i + 1 - constants.hiders}"
        scene.label(places[i] + (0.0, 0.0, 1.9 * constants.agent), name, DARK)
    scene.layer()
    return scene


def _seen(world: Mapping[str, np.ndarray]) -> Iterator[tuple[int, int]]:
    """Agents, each with one of the other team that it sees."""
    sides = world["Agent.Team.side"]
    for i, sees in enumerate(world["Agent.Sight.agents"]):
        for j, other in enumerate(np.delete(np.arange(len(sides)), i)):
            if sees[j] and sides[i] != sides[other]:
                yield i, int(other)


def with_time(scene: BodyScene, steps: tuple[int, int, int]) -> BodyScene:
    """The scene with the bar of time below it."""
    scene.height += BAR
    _time(scene, steps, scene.width, scene.height - BAR)
    return scene


def number_of(colour: Colour) -> int:
    """0xRRGGBB."""
    return colour[0] << 16 | colour[1] << 8 | colour[2]


def _agent_colours(world: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.array([number_of(TEAMS[int(side)]) for side in world["Agent.Team.side"]])


def _thing_colours(kind: str, own: Colour) -> Any:
    """Their own colour, darker where they are locked."""
    free, locked = number_of(own), number_of(mixed(own, DARK, 0.35))

    def colours(world: Mapping[str, np.ndarray]) -> np.ndarray:
        sides = world[f"{kind}.Thing.locked"]
        return np.where((sides >= min(TEAMS)) & (sides <= max(TEAMS)), locked, free)

    return colours


def _square(x: float, y: float, z: float = 0.0) -> list[tuple[float, float, float]]:
    return [(-x, -y, z), (x, -y, z), (x, y, z), (-x, y, z)]


def _hull(points: np.ndarray) -> list[Point]:
    """The convex hull of points in the plane (Andrew 1979, monotone chain)."""
    ordered = sorted(map(tuple, points.tolist()))

    def chain(some: list[Point]) -> list[Point]:
        kept: list[Point] = []
        for p in some:
            while len(kept) > 1 and not _turns_left(kept[-2], kept[-1], p):
                kept.pop()
            kept.append(p)
        return kept[:-1]

    return chain(ordered) + chain(ordered[::-1])


def _ramp(canvas: Canvas, constants: Any, pose: Any, corners: Any) -> list[Point]:
    # A wedge's body is at its centroid: see put_ramp in level.h.
    x, y, z = constants.ramp_width / 2, constants.ramp_length / 2, constants.ramp_height
    off_y, off_z = constants.ramp_length / 6, z / 3
    points = corners(pose, [(px, py - off_y, pz - off_z) for px, py, pz in
                            ((-x, -y, 0), (x, -y, 0), (x, y, z), (-x, y, z), (x, y, 0), (-x, y, 0))])  # fmt: skip
    outline = _hull(np.array(points))
    canvas.polygon(outline, RAMP)
    for share in (0.35, 0.6, 0.85):
        left = np.add(points[0], share * np.subtract(points[3], points[0]))
        right = np.add(points[1], share * np.subtract(points[2], points[1]))
        canvas.line(tuple(left), tuple(right), 1.5 + 4 * share, RAMP_STRIPE)
    return outline


def _cones(canvas: Canvas, world: Mapping[str, np.ndarray], constants: Any, at: Any, scale: float) -> None:
    """What lies in each agent's cone before the first body that a level ray from its eye meets."""
    y, x = np.mgrid[: canvas.pixels.shape[0], : canvas.pixels.shape[1]]
    columns = ("physics.Pose.position", "physics.Pose.rotation", "Team.side")
    solids, beams = solids_of(world, constants), 2 * np.pi * np.arange(BEAMS) / BEAMS
    for i, (position, rotation, side) in enumerate(zip(*(world[f"Agent.{name}"] for name in columns), strict=True)):
        if not np.isfinite([*position, *rotation]).all():
            continue
        centre, forward = at(position), rotated(rotation, (0, 1, 0))
        dx, dy = (x - centre[0]) / scale, (centre[1] - y) / scale
        distance = np.hypot(dx, dy) + 1e-6
        inside = (dx * forward[0] + dy * forward[1] >= constants.cone * distance) & (distance < CONE_LENGTH)
        nearest = np.rint(np.arctan2(dy[inside], dx[inside]) / (2 * np.pi) * BEAMS).astype(int) % BEAMS
        inside[inside] = distance[inside] < clear_ways(solids, position, beams, i)[nearest]
        fade = CONE_SHARE * (1 - distance[inside] / CONE_LENGTH)[:, None]
        canvas.pixels[inside] = (1 - fade) * canvas.pixels[inside] + fade * np.array(TEAMS[int(side)])


def solids_of(world: Mapping[str, np.ndarray], constants: Any) -> tuple[np.ndarray, np.ndarray]:
    """Agents, then all other bodies, each as the points p with normal . p <= offset for all its faces: normals
    ``[bodies, 6, 3]`` and offsets ``[bodies, 6]``."""
    box = np.concatenate([np.eye(3), -np.eye(3)])
    width, length, height = constants.ramp_width, constants.ramp_length, constants.ramp_height
    slope = np.array((0.0, -height, length)) / np.hypot(height, length)
    wedge = np.array([box[0], box[3], box[1], box[5], slope, slope])  # about its centroid, a third from high and low
    offsets = [width / 2, width / 2, length / 3, height / 3, *2 * [slope @ (0.0, length / 3, height * 2 / 3)]]
    found = []
    for table in ("Agent", "Wall", "Box", "Ramp"):
        names = ("physics.Pose.position", "physics.Pose.rotation", "physics.Shape.size")
        for position, rotation, size in zip(*(world[f"{table}.{name}"] for name in names), strict=True):
            axes = np.array([rotated(rotation, axis) for axis in ((1, 0, 0), (0, 1, 0), (0, 0, 1))])
            normals = (wedge if table == "Ramp" else box) @ axes
            found.append((normals, (offsets if table == "Ramp" else np.tile(size, 2)) + normals @ position))
    return np.array([normals for normals, _ in found]), np.array([offset for _, offset in found])


def clear_ways(solids: tuple[np.ndarray, np.ndarray], eye: np.ndarray, angle: np.ndarray, own: int) -> np.ndarray:
    """How far level rays at angles from x come from an eye to the first body but its own (Cyrus and Beck 1978: a ray is
    in a convex body from the last face that it enters by to the first that it leaves by)."""
    speed = solids[0] @ np.array([np.cos(angle), np.sin(angle), 0 * angle])  # [bodies, 6, beams]
    height = (solids[0] @ np.asarray(eye, float) - solids[1])[..., None]
    level = np.abs(speed) < 1e-9
    meets = -height / np.where(level, 1.0, speed)
    enters = np.where(level, np.where(height > 0, np.inf, -np.inf), np.where(speed < 0, meets, -np.inf)).max(1)
    leaves = np.where(level | (speed < 0), np.inf, meets).min(1)
    enters = np.where(np.maximum(enters, 0.0) <= leaves, np.maximum(enters, 0.0), np.inf)
    return np.delete(enters, own, 0).min(0, initial=np.inf)


def _agents(canvas: Canvas, world: Mapping[str, np.ndarray], constants: Any, at: Any, corners: Any) -> None:
    places, sides = world["Agent.physics.Pose.position"], world["Agent.Team.side"]
    edge = constants.half_size + MARGIN / 2
    shown = [np.clip(np.nan_to_num(place), -edge, edge) for place in places]
    for i, j in _seen(world):
        canvas.line(at(shown[i]), at(shown[j]), 1.2, TEAMS[int(sides[i])])
    size = constants.agent
    for i, place in enumerate(shown):
        pose = place, world["Agent.physics.Pose.rotation"][i]
        colour = TEAMS[int(sides[i])]
        canvas.polygon(corners(pose, _square(size, size)), colour)
        nose = [(-0.45 * size, 0.35 * size, 0.0), (0.45 * size, 0.35 * size, 0.0), (0.0, 0.9 * size, 0.0)]
        canvas.polygon(corners(pose, nose), WHITE)


def _time(canvas: Canvas | Scene, steps: tuple[int, int, int], width: int, top: int) -> None:
    done, first, total = steps
    canvas.rectangle((0, top), (width, top + BAR), DARK)
    end = width * min(done / total, 1.0)
    split = min(width * first / total, end)
    canvas.rectangle((0, top + 2), (split, top + BAR - 2), PREPARING)
    canvas.rectangle((split, top + 2), (end, top + BAR - 2), PLAYING)


def _turns_left(a: Point, b: Point, c: Point) -> bool:
    return (b[0] - a[0]) * (c[1] - b[1]) > (b[1] - a[1]) * (c[0] - b[0])
