"""The rules of hide and seek in NumPy and float64: what agents do, reach, see, are told and paid, not how bodies move.

Written from the docstring of envs/hideseek/env.py. Each function takes the ``State`` of some worlds and tells what must
come of it. Shapes as in hideseek_state.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hideseek_state import (
    Array,
    Bodies,
    Solids,
    State,
    entered,
    into_frame,
    matrices,
    out_of_frame,
    sine_and_cosine,
    solids_of,
)

NOBODY, HIDERS, SEEKERS = 0, 1, 2
STATIC, DYNAMIC = 0, 2  # kinds of motion


# ---- what agents do --------------------------------------------------------------------------------------------------


def may_act(state: State) -> Array:
    """``[W, A]``: seekers do nothing in the steps of the preparation."""
    prepared = state.step >= state.environment.parameters.preparation_steps
    return ~state.seeker[None] | prepared[:, None]


def forces(state: State, actions: Array) -> tuple[Array, Array]:
    """Force and torque on each agent ``[W, A, 3]``, world's frame, from the choices ``[W, A, 5]``."""
    p = state.environment.parameters
    amount = (actions[..., :3] - 5.0) * may_act(state)[..., None] * (p.force, p.force, p.torque)
    along = amount * (1, 1, 0)
    return out_of_frame(state.agents.rotation, along), amount * (0, 0, 1)


@dataclass
class Hands:
    """What is of the things when all hands have been used."""

    locked: Array  # [W, T]
    holder: Array  # [W, T]
    grip: Array  # [W, A]
    motion: Array  # [W, T]
    uses: dict[str, int]


def thing_ahead(state: State, solids: Solids, world: int, agent: int) -> int:
    """Which thing an agent's hand meets, or -1."""
    c, p = state.environment.constants, state.environment.parameters
    eye = state.agents.position[world, agent] + (0, 0, c.hand_height)
    forward = matrices(state.agents.rotation[world, agent])[:, 1]
    at = entered(solids, eye[None, None], forward[None, None], slice(world, world + 1))[0, 0]
    at[agent] = np.inf
    first = int(at.argmin())
    agents, things = state.agents.there.shape[1], state.locked.shape[1]
    return first - agents if at[first] <= p.reach and agents <= first < agents + things else -1


def use_hands(state: State, actions: Array, grown: float = 0.0) -> Hands:
    """Agents one after the other: the key before the grip."""
    solids = solids_of(state, grown)
    hands = Hands(
        state.locked.copy(), state.holder.copy(), state.grip.copy(), state.things.motion.copy(),
        dict.fromkeys(("locks", "unlocks", "grabs", "lets go", "nothing", "not mine", "taken", "torn"), 0),
    )  # fmt: skip
    allowed = may_act(state)
    for world, agent in np.argwhere(allowed & (actions[..., 3:] == 1).any(-1)):
        grabs, locks = actions[world, agent, 3:] == 1
        ahead = thing_ahead(state, solids, world, agent)
        if locks:
            _turn_key(hands, world, ahead, SEEKERS if state.seeker[agent] else HIDERS)
        if grabs:
            _use_grip(hands, world, agent, ahead)
    return hands


def _turn_key(hands: Hands, world: int, thing: int, side: int) -> None:
    uses = hands.uses
    if thing < 0:
        uses["nothing"] += 1
    elif hands.locked[world, thing] == NOBODY:
        uses["locks"] += 1
        uses["torn"] += int(hands.holder[world, thing] > 0)
        hands.locked[world, thing], hands.motion[world, thing] = side, STATIC
        hands.holder[world, thing] = 0
        hands.grip[world, hands.grip[world] == thing] = -1
    elif hands.locked[world, thing] == side:
        uses["unlocks"] += 1
        hands.locked[world, thing], hands.motion[world, thing] = NOBODY, DYNAMIC
    else:
        uses["not mine"] += 1


def _use_grip(hands: Hands, world: int, agent: int, thing: int) -> None:
    uses = hands.uses
    if hands.grip[world, agent] >= 0:
        uses["lets go"] += 1
        hands.holder[world, hands.grip[world, agent]] = 0
        hands.grip[world, agent] = -1
    elif thing < 0:
        uses["nothing"] += 1
    elif hands.locked[world, thing] != NOBODY or hands.holder[world, thing] > 0:
        uses["taken"] += 1
    else:
        uses["grabs"] += 1
        hands.holder[world, thing], hands.grip[world, agent] = agent + 1, thing


# ---- what agents see -------------------------------------------------------------------------------------------------


def others(agents: int) -> Array:
    """``[A, A - 1]``: the other agents in the order of rows."""
    return np.array([[k for k in range(agents) if k != i] for i in range(agents)], int).reshape(agents, agents - 1)


def sight(state: State, grown: float = 0.0, widened: float = 0.0) -> Array:
    """Which of the other agents and the things each agent sees: bool ``[W, A, A - 1 + T]``.

    ``grown``: see ``solids_of``; ``widened``: by how many degrees the cone is made wider, to each side.
    """
    agents, things = state.agents.there.shape[1], state.things
    cone = np.radians(state.environment.constants.cone_angle + widened)
    solids = solids_of(state, grown)
    eyes, turn = state.agents.position, matrices(state.agents.rotation)
    seen = np.zeros((state.worlds, agents, agents - 1 + things.there.shape[1]), bool)
    for i, rest in enumerate(others(agents)):
        targets = np.concatenate([state.agents.position[:, rest], things.position], 1)
        bodies = np.concatenate([rest, agents + np.arange(things.there.shape[1])])
        way = targets - eyes[:, i, None]
        at = entered(solids, np.broadcast_to(eyes[:, i, None], way.shape), way)
        at[:, :, i] = np.inf
        at[:, np.arange(len(bodies)), bodies] = np.inf  # what is looked at does not hide itself
        angle = np.arccos(np.clip((way @ turn[:, i, :, 1, None])[..., 0] / np.linalg.norm(way, axis=-1), -1, 1))
        there = np.concatenate([np.ones((state.worlds, agents - 1), bool), things.there], 1)
        seen[:, i] = there & (angle <= cone) & ~(at <= 1).any(-1)
    return seen


def lidar(state: State, grown: float = 0.0) -> Array:
    """``[W, A, beams]``: shares of the range."""
    c = state.environment.constants
    solids = solids_of(state, grown)
    angle = 2 * np.pi * np.arange(c.beams) / c.beams
    beams = np.stack([-np.sin(angle), np.cos(angle), 0 * angle], -1)  # to the left of forward
    result = np.ones((state.worlds, state.agents.there.shape[1], c.beams))
    for i in range(result.shape[1]):
        directions = beams @ np.swapaxes(matrices(state.agents.rotation[:, i]), -1, -2)
        origins = np.broadcast_to(state.agents.position[:, i, None], directions.shape)
        at = entered(solids, origins, directions)
        at[:, :, i] = np.inf
        result[:, i] = np.minimum(at.min(-1), c.lidar_range) / c.lidar_range
    return result


# ---- what they are told and paid -------------------------------------------------------------------------------------


def hider_is_seen(state: State, seen: Array) -> Array:
    """``[W]``: whether any seeker sees any hider."""
    return seen[:, state.hiders :, : state.hiders].any((1, 2))  # hiders come first in the rows of seekers


def rewards(state: State, seen: Array) -> Array:
    """``[W, A]`` of the step that has led to a state."""
    c, p = state.environment.constants, state.environment.parameters
    result = np.where(hider_is_seen(state, seen)[:, None] == state.seeker[None], 1.0, -1.0)
    outside = (np.abs(state.agents.position[..., :2]) >= c.half_size).any(-1)
    result = result - p.outside_penalty * outside
    return result * (state.step > p.preparation_steps)[:, None]


def _seen_from(state: State, i: int, bodies: Bodies) -> Array:
    """Relative position, velocity and yaw of bodies, in agent i's frame: ``[W, n, 8]``."""
    own = state.agents.rotation[:, i, None]
    turn = np.swapaxes(matrices(own), -1, -2) @ matrices(bodies.rotation)
    place = into_frame(own, bodies.position - state.agents.position[:, i, None])
    return np.concatenate([place, into_frame(own, bodies.velocity), sine_and_cosine(turn)], -1)


def _own_rows(state: State) -> Array:
    c, p = state.environment.constants, state.environment.parameters
    agents = state.agents
    rows = np.zeros((*agents.there.shape, 12))
    rows[..., :3] = agents.position / c.half_size
    rows[..., 3:6] = into_frame(agents.rotation, agents.velocity)
    rows[..., 6:8] = sine_and_cosine(matrices(agents.rotation))
    rows[..., 8], rows[..., 9] = state.seeker, state.grip >= 0
    rows[..., 10] = np.maximum(1 - state.step / p.max_episode_steps, 0)[:, None]
    if p.preparation_steps > 0:
        rows[..., 11] = np.maximum(1 - state.step / p.preparation_steps, 0)[:, None]
    return rows


def all_rows(state: State) -> dict[str, Array]:
    """``agents`` ``[W, A, A - 1, 10]``, ``boxes`` and ``ramps``, seen or not; 0 where there is none."""
    count, boxes = state.agents.there.shape[1], state.boxes.there.shape[1]
    found: dict[str, list[Array]] = {"agents": [], "boxes": [], "ramps": []}
    for i, rest in enumerate(others(count)):
        a = state.agents
        near = Bodies(a.there[:, rest], a.position[:, rest], a.rotation[:, rest], a.velocity[:, rest])
        seeker = np.broadcast_to(state.seeker[rest], near.there.shape)
        found["agents"].append(
            np.concatenate([_seen_from(state, i, near), np.stack([seeker, state.grip[:, rest] >= 0], -1)], -1)
        )
        side = SEEKERS if state.seeker[i] else HIDERS
        status = np.stack([state.locked != NOBODY, state.locked == side, state.holder > 0], -1)
        rows = np.concatenate([_seen_from(state, i, state.boxes), 2 * state.boxes.size, status[:, :boxes]], -1)
        found["boxes"].append(rows * state.boxes.there[..., None])
        rows = np.concatenate([_seen_from(state, i, state.ramps), status[:, boxes:]], -1)
        found["ramps"].append(rows * state.ramps.there[..., None])
    return {name: np.stack(rows, 1) for name, rows in found.items()}


def observation(state: State, seen: Array, distances: Array) -> dict[str, Array]:
    """All parts of the observation ``[W, A, ...]``, with what is seen, and lidar, given."""
    agents, boxes = state.agents.there.shape[1], state.boxes.there.shape[1]
    masks = dict(zip(("agents", "boxes", "ramps"), np.split(seen, [agents - 1, agents - 1 + boxes], -1), strict=True))
    rows = all_rows(state)
    if not state.environment.parameters.see_all:
        rows = {name: values * masks[name][..., None] for name, values in rows.items()}

    def exists(bodies: Bodies) -> Array:
        return np.repeat(bodies.there[:, None], agents, 1)

    return {
        "self": _own_rows(state), **rows, **{f"sees_{name}": mask for name, mask in masks.items()},
        "box_exists": exists(state.boxes), "ramp_exists": exists(state.ramps), "lidar": distances,
    }  # fmt: skip


# ---- figures ---------------------------------------------------------------------------------------------------------


class Figures:
    """Those of an episode that has just begun, kept from step to step."""

    def __init__(self, state: State) -> None:
        self.start = state.boxes.position[..., :2].copy()
        self.climbs, self.seen = np.zeros(state.worlds), np.zeros(state.worlds)

    def after(self, state: State, seen: Array) -> dict[str, Array]:
        """Of each world, ``[W]``; without ``forts`` and ``left_out``."""
        p, boxes = state.environment.parameters, state.boxes.there.shape[1]
        self.climbs += (state.agents.position[:, state.hiders :, 2] - state.environment.constants.agent >= 0.5).sum(1)
        judged = state.step - p.preparation_steps
        self.seen += hider_is_seen(state, seen) & (judged > 0)
        moved = np.linalg.norm(state.boxes.position[..., :2] - self.start, axis=-1) > 1
        return {
            "boxes_moved": (moved & state.boxes.there).sum(1),
            "boxes_locked": (state.locked[:, :boxes] != NOBODY).sum(1),
            "ramps_locked": (state.locked[:, boxes:] == HIDERS).sum(1),
            "ramps_used": self.climbs,
            "hiders_seen": np.where(judged > 0, self.seen / np.maximum(judged, 1), 0),
            "preparing": state.step < p.preparation_steps,
        }


def flood(free: Array, seeds: Array) -> Array:
    """Cells ``[n, m]`` that can be reached from seeds through free ones, side by side."""
    reached = np.zeros_like(free)
    stack = [(int(i), int(j)) for i, j in np.argwhere(seeds & free)]
    for cell in stack:
        reached[cell] = True
    while stack:
        i, j = stack.pop()
        for u, v in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if 0 <= u < free.shape[0] and 0 <= v < free.shape[1] and free[u, v] and not reached[u, v]:
                reached[u, v] = True
                stack.append((u, v))
    return reached


def free_places(x: Array, y: Array, rectangles: Array, room: float) -> Array:
    """Where a point is clear of turned rectangles (x, y, yaw, half_x, half_y) made larger by ``room`` on each side."""
    free = np.ones(x.shape, bool)
    for middle_x, middle_y, yaw, half_x, half_y in rectangles:
        dx, dy = x - middle_x, y - middle_y
        along, aside = dx * np.cos(yaw) + dy * np.sin(yaw), dy * np.cos(yaw) - dx * np.sin(yaw)
        free &= (np.abs(along) >= half_x + room) | (np.abs(aside) >= half_y + room)
    return free


def _obstacles(state: State, world: int) -> Array:
    """Walls and locked things, as turned rectangles; of a ramp the one below it."""
    c, boxes = state.environment.constants, state.boxes.there.shape[1]

    locked = {"boxes": state.locked[world, :boxes] > 0, "ramps": state.locked[world, boxes:] > 0}

    def rows() -> Iterator[tuple[float, ...]]:
        for name in ("walls", "boxes", "ramps"):
            bodies = getattr(state, name)
            for i in np.flatnonzero(bodies.there[world] & locked.get(name, True)):
                turn, place = matrices(bodies.rotation[world, i]), bodies.position[world, i]
                half = bodies.size[world, i]
                if name == "ramps":
                    place = place - turn @ (0, c.ramp_length / 6, c.ramp_height / 3)
                    half = np.array([c.ramp_width / 2, c.ramp_length / 2])
                sine, cosine = sine_and_cosine(turn)
                yield place[0], place[1], np.arctan2(sine, cosine), half[0], half[1]

    return np.array([*rows()]).reshape(-1, 5)


def enclosed(state: State, world: int, cell: float = 0.25) -> tuple[int, int]:
    """How many hiders surely are, and may be, where no seeker can walk to.

    Whoever is cut off from seekers that are thinner than an agent surely is; whoever a fatter one reaches is not.
    Between the two it is a matter of the lattice on which it is looked for.
    """
    c = state.environment.constants
    axis = np.arange(-c.half_size - 2.5, c.half_size + 2.5, cell) + cell / 2
    x, y = np.meshgrid(axis, axis, indexing="ij")
    rectangles = _obstacles(state, world)
    places = np.clip(state.agents.position[world], axis[0], axis[-1])  # who is farther outside walks around everything
    hiders, seekers = places[: state.hiders], places[state.hiders :]

    def within(points: Array, distance: float) -> Array:
        return (np.hypot(x[..., None] - points[:, 0], y[..., None] - points[:, 1]) <= distance).any(-1)

    def reached(room: float, near: float) -> list[bool]:
        cells = flood(free_places(x, y, rectangles, room), within(seekers, near))
        return [bool((cells & within(hider[None], near)).any()) for hider in hiders]

    return sum(not yes for yes in reached(0.75 * c.agent, 1.3)), sum(not yes for yes in reached(1.3 * c.agent, c.agent))
