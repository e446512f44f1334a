"""What is in worlds of hide and seek, read from a simulator, and rays against it, in NumPy and float64.

Shapes: W worlds, A agents, T things (boxes first, then ramps; rows that do not exist included), B bodies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch_batchsim.envs.hideseek import HideSeek

from torch_batchsim import Simulator

Array = np.ndarray
MOST_FACES = 6
STEP = 1 / 30  # seconds
_FIELDS = {"Agent": "agents", "Box": "boxes", "Ramp": "ramps"}


@dataclass
class Bodies:
    """Rows of an archetype, ``[W, n, ...]``; ``there`` marks those that exist."""

    there: Array
    position: Array
    rotation: Array  # w, x, y, z
    velocity: Array = field(default_factory=lambda: np.zeros(0))  # m/s
    size: Array = field(default_factory=lambda: np.zeros(0))  # half extents of boxes
    motion: Array = field(default_factory=lambda: np.zeros(0))


@dataclass
class State:
    """Some worlds between two steps."""

    environment: HideSeek
    step: Array  # [W], 0 after a reset
    agents: Bodies
    boxes: Bodies
    ramps: Bodies
    walls: Bodies
    locked: Array  # [W, T], by which side
    holder: Array  # [W, T], 1 + an agent, or 0
    grip: Array  # [W, A], the thing that an agent's joint holds, or -1
    solids: dict[float, Solids] = field(default_factory=dict)  # those that have been asked for, see solids_of

    @property
    def worlds(self) -> int:
        return len(self.step)

    @property
    def hiders(self) -> int:
        return self.environment.constants.hiders

    @property
    def seeker(self) -> Array:  # [A]
        return np.arange(self.agents.there.shape[1]) >= self.hiders

    @property
    def things(self) -> Bodies:
        boxes, ramps = self.boxes, self.ramps
        names = ("there", "position", "rotation", "velocity", "motion")
        return Bodies(**{name: np.concatenate([getattr(boxes, name), getattr(ramps, name)], 1) for name in names})


def read(sim: Simulator, before: State | None = None) -> State:
    """What is there now, copied; velocities are how far bodies have come since ``before``, a step ago, or 0."""
    agents = sim.tensor("Agent.physics.Pose.position").shape[1]

    def bodies(table: str, rows: int | None) -> Bodies:  # None: those of which every world has the same number
        def column(name: str) -> tuple[Array, Array]:
            if rows is None:
                values = sim.tensor(f"{table}.{name}").numpy()
                return values.astype(np.float64), np.ones(values.shape[:2], bool)
            values, there = sim.ragged(f"{table}.{name}").padded(rows)
            return values.numpy().astype(np.float64), there.numpy().copy()

        position, there = column("physics.Pose.position")
        size, _ = column("physics.Shape.size")
        made = Bodies(there, position, column("physics.Pose.rotation")[0], size=size)
        if table != "Wall":
            made.velocity = (position - getattr(before, _FIELDS[table]).position) / STEP if before else 0 * position
            made.motion = column("physics.Motion.kind")[0].astype(int)
        return made

    c = sim.environment.constants
    rooms = {"Box": c.box_rows, "Ramp": c.ramp_rows}
    things = {
        name: [sim.ragged(f"{table}.Thing.{name}").padded(room)[0].numpy() for table, room in rooms.items()]
        for name in ("locked", "holder")
    }
    locked, holder = (np.concatenate(things[name], 1) for name in ("locked", "holder"))
    handles = np.concatenate([sim.entities(table).padded(room)[0].numpy() for table, room in rooms.items()], 1)
    held = sim.tensor("Agent.physics.Joint.b").numpy()
    same = (held[:, :, None] == handles[:, None]).all(-1) & held.any(-1)[:, :, None]
    assert (same.any(-1) == held.any(-1)).all(), "a joint holds what is neither a box nor a ramp"
    return State(
        sim.environment, sim.tensor("World.step").numpy().astype(int), bodies("Agent", None), bodies("Box", c.box_rows),
        bodies("Ramp", c.ramp_rows), bodies("Wall", c.pieces), locked, holder,
        np.where(same.any(-1), same.argmax(-1), -1).reshape(-1, agents),
    )  # fmt: skip


# ---- turning -------------------------------------------------------------------------------------------------------


def matrices(rotation: Array) -> Array:
    """Rotation matrices ``[..., 3, 3]`` of quaternions (w, x, y, z), which take the body's frame to the world's."""
    size = np.sqrt((rotation * rotation).sum(-1, keepdims=True))
    w, x, y, z = np.moveaxis(rotation / np.maximum(size, 1e-30), -1, 0)
    made = np.empty((*rotation.shape[:-1], 3, 3))
    made[..., 0, 0], made[..., 1, 1], made[..., 2, 2] = y * y + z * z, x * x + z * z, x * x + y * y
    made[..., 0, 1], made[..., 0, 2], made[..., 1, 2] = w * z - x * y, -x * z - w * y, w * x - y * z
    made[..., 1, 0], made[..., 2, 0], made[..., 2, 1] = -x * y - w * z, w * y - x * z, -y * z - w * x
    made *= -2
    made[..., [0, 1, 2], [0, 1, 2]] += 1
    return made


def into_frame(rotation: Array, vectors: Array) -> Array:
    """World vectors ``[..., 3]`` in the frames of bodies."""
    return np.einsum("...ji,...j->...i", matrices(rotation), vectors)


def out_of_frame(rotation: Array, vectors: Array) -> Array:
    return np.einsum("...ij,...j->...i", matrices(rotation), vectors)


def sine_and_cosine(turn: Array) -> Array:
    """Of the yaw of rotation matrices ``[..., 3, 3]``: of where the x axis points to, seen from above."""
    x, y = turn[..., 0, 0], turn[..., 1, 0]
    size = np.hypot(x, y)
    upright = size < 1e-6
    size = np.where(upright, 1.0, size)
    return np.stack([np.where(upright, 0.0, y / size), np.where(upright, 1.0, x / size)], -1)


# ---- solids: all shapes as what lies behind some planes -------------------------------------------------------------


def wedge_faces(width: float, length: float, height: float) -> tuple[Array, Array]:
    """Normals ``[5, 3]`` and offsets of a ramp about its centroid: it rises along y."""
    slope = np.array([0.0, -height, length]) / np.hypot(length, height)
    corner = np.array([0.0, -length * 2 / 3, -height / 3])  # of the low edge
    normals = np.array([(-1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, -1), slope], float)
    return normals, np.array([width / 2, width / 2, length / 3, height / 3, slope @ corner])


@dataclass
class Solids:
    """Agents, boxes, ramps, walls and the floor, in this order: points with normal . p <= offset for all faces."""

    there: Array  # [W, B]
    normal: Array  # [W, B, 6, 3]
    offset: Array  # [W, B, 6]


def solids_of(state: State, grown: float = 0.0) -> Solids:
    """``grown``: by how many metres each shape is made larger, to all sides."""
    if grown in state.solids:
        return state.solids[grown]
    c = state.environment.constants
    parts = []
    for bodies, kind in ((state.agents, "box"), (state.boxes, "box"), (state.ramps, "ramp"), (state.walls, "box")):
        n = bodies.there.shape[1]
        normals, offsets = np.zeros((state.worlds, n, MOST_FACES, 3)), np.ones((state.worlds, n, MOST_FACES))
        if kind == "ramp":
            normals[:, :, :5], offsets[:, :, :5] = wedge_faces(c.ramp_width, c.ramp_length, c.ramp_height)
        else:
            normals[:] = np.concatenate([np.eye(3), -np.eye(3)])
            offsets[:] = np.concatenate([bodies.size, bodies.size], -1)
        normals = normals @ np.swapaxes(matrices(bodies.rotation), -1, -2)
        offsets = offsets + np.einsum("...fi,...i->...f", normals, bodies.position) + grown
        parts.append((bodies.there, normals, offsets))
    normals, offsets = np.zeros((state.worlds, 1, MOST_FACES, 3)), np.ones((state.worlds, 1, MOST_FACES))
    normals[:, :, 0, 2], offsets[:, :, 0] = 1.0, grown
    parts.append((np.ones((state.worlds, 1), bool), normals, offsets))
    state.solids[grown] = Solids(*(np.concatenate(columns, 1) for columns in zip(*parts, strict=True)))
    return state.solids[grown]


def entered(solids: Solids, origins: Array, directions: Array, world: int | slice = slice(None)) -> Array:
    """At which length of their directions rays ``[W, R, 3]`` enter bodies: ``[W, R, B]``, infinite where they do not.

    Cyrus and Beck (1978): a ray is in a convex body from the last face that it comes through to the first that it
    leaves by. It is in at 0 where it begins inside.
    """
    worlds, bodies = solids.there[world].shape
    normals = solids.normal[world].reshape(worlds, -1, 3).swapaxes(-1, -2)
    rays = origins.shape[1]
    speed = (directions @ normals).reshape(worlds, rays, bodies, MOST_FACES)
    height = (origins @ normals).reshape(worlds, rays, bodies, MOST_FACES) - solids.offset[world][:, None]
    parallel = np.abs(speed) < 1e-12
    at = -height / np.where(parallel, 1.0, speed)
    into = np.where(parallel, np.where(height > 0, np.inf, -np.inf), np.where(speed < 0, at, -np.inf)).max(-1)
    out = np.where(parallel | (speed < 0), np.inf, at).min(-1)
    into = np.maximum(into, 0.0)
    return np.where((into <= out) & solids.there[world][:, None], into, np.inf)
