"""Bodies of several shapes in the physics library, and the same bodies in MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from torch_batchsim import Archetype, Simulator
from torch_batchsim.bench.mujoco_scenes import mujoco
from torch_batchsim.bench.physics_worlds import Stage, columns, component_of, hull_names, physics_options, room_for
from torch_batchsim.bench.scenes import Body, Material, Quaternion, Scene, Shape, Vector, matrices
from torch_batchsim.physics import ContactForce
from torch_batchsim.physics import Material as MaterialOfRow
from torch_batchsim.physics.hulls import convex_hull
from torch_batchsim.physics.shapes import ShapeKind, mass_properties

NO_TURN: Quaternion = (1.0, 0.0, 0.0, 0.0)
NOTHING = Shape("nothing", (0.0, 0.0, 0.0))  # type: ignore[arg-type]
PLACES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


class PartStage(Stage):
    """Bodies feel their contacts, and so do their parts."""

    @property
    def archetypes(self) -> list[Archetype]:
        felt = [a.of((*a.components, ContactForce)) if a.name == "Mover" else a for a in super().archetypes]
        limbs = Archetype("Limb", self.libraries.physics.part, MaterialOfRow, ContactForce, capacity=32)
        return [*felt, limbs]


@dataclass(frozen=True)
class Piece:
    """A shape with its mass, at a place in any frame that all pieces of a body share."""

    shape: Shape
    position: Vector
    rotation: Quaternion = NO_TURN
    mass: float = 1.0


@dataclass(frozen=True)
class Compound:
    """A body of pieces; pose and velocities as in ``Body``. ``own`` is the piece at the centre, if any."""

    name: str
    pieces: tuple[Piece, ...]
    position: Vector = (0.0, 0.0, 0.0)
    rotation: Quaternion = NO_TURN
    linear: Vector = (0.0, 0.0, 0.0)
    angular: Vector = (0.0, 0.0, 0.0)
    kind: str = "dynamic"
    material: Material = field(default_factory=Material)
    own: int | None = None

    @property
    def mass(self) -> float:
        return sum(piece.mass for piece in self.pieces)

    @property
    def centre(self) -> np.ndarray:
        return sum(piece.mass * np.array(piece.position) for piece in self.pieces) / self.mass

    @property
    def inertia(self) -> np.ndarray:
        """``[3, 3]`` about the centre of mass, in the body's frame."""
        total = np.zeros((3, 3))
        for piece in self.pieces:
            mass, inertia = mass_properties(
                ShapeKind[piece.shape.kind.upper()], size_of(piece.shape), 1.0,
                convex_hull(piece.shape.vertices) if piece.shape.kind == "hull" else None,
            )  # fmt: skip
            turn, arm = matrices(piece.rotation), np.array(piece.position) - self.centre
            total += turn @ (inertia * piece.mass / mass) @ turn.T
            total += piece.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
        return total

    def body(self) -> Body:
        """The row of the body itself, but for the mass."""
        shape = NOTHING if self.own is None else self.pieces[self.own].shape
        return Body(
            self.name, shape, self.position, self.rotation, self.linear, self.angular, kind="kinematic",
            material=self.material,
        )  # fmt: skip


def size_of(shape: Shape) -> Vector:
    return (shape.size[0], shape.size[2], 0.0) if shape.kind == "capsule" else shape.size


class PartRun:
    """Worlds that all begin with the same compounds and plain bodies.

    Args:
        scene: options of ``Scene``.
        room: for so many bodies that move, or more.
        options: of ``Simulator``.
    """

    def __init__(
        self, *things: Compound | Body, worlds: int = 1, scene: dict[str, Any] | None = None, room: int = 8,
        **options: Any,
    ) -> None:  # fmt: skip
        self.things = things
        self.movers = [thing for thing in things if thing.kind != "static"]
        plain = tuple(thing for thing in things if isinstance(thing, Body))
        pieces = [piece for thing in things if isinstance(thing, Compound) for piece in thing.pieces]
        shapes = tuple(Body(f"of_{i}", piece.shape) for i, piece in enumerate(pieces))
        self.scene = Scene("parts", plain, **(scene or {}))
        every = Scene("every", (*plain, *shapes))
        names = hull_names([every])
        hulls = {name: points for points, name in names.items()}
        environment = PartStage(
            movers=room_for(len(self.movers), room), physics=physics_options(self.scene) | {"hulls": hulls}
        )
        self.numbers = {points: environment.libraries.physics.constants[name] for points, name in names.items()}
        self.sim = Simulator(environment, worlds, **options)
        self.sim.reset(seed=0)
        self.bodies: dict[str, torch.Tensor] = {}
        self.limbs: dict[tuple[str, int], torch.Tensor] = {}
        for thing in things:
            self.add(thing)

    def add(self, thing: Compound | Body) -> None:
        if isinstance(thing, Body):
            table = "Wall" if thing.kind == "static" else "Mover"
            self.bodies[thing.name] = self._create(table, columns([thing], self.numbers))
            return
        values = columns([thing.body()], self.numbers)
        if thing.kind == "dynamic":
            inverse = np.linalg.inv(thing.inertia)
            values["Mass.inverse"] = np.array([1 / thing.mass], np.float32)
            values["Mass.inverse_inertia"] = np.array([[inverse[place] for place in PLACES]], np.float32)
            values["Motion.kind"] = np.array([2], np.int32)
        self.bodies[thing.name] = self._create("Wall" if thing.kind == "static" else "Mover", values)
        for i in range(len(thing.pieces)):
            if i != thing.own:
                self.attach(thing, i)

    def attach(self, thing: Compound, i: int) -> None:
        piece = thing.pieces[i]
        values = columns([Body("part", piece.shape, kind="static", material=thing.material)], self.numbers)
        values["Part.position"] = np.float32(np.array([piece.position]) - thing.centre)
        values["Part.rotation"] = np.array([piece.rotation], np.float32)
        self.limbs[thing.name, i] = self._create("Limb", values, {"Part.body": self.bodies[thing.name]})

    def destroy(self, handle: torch.Tensor) -> None:
        self.sim.destroy(torch.arange(self.sim.num_worlds), handle)

    def join(self, kind: int, **values: torch.Tensor) -> torch.Tensor:
        """A joint with fields as they are given, frames along the bodies' axes."""
        worlds, frame = self.sim.num_worlds, torch.tensor([[1.0, 0, 0, 0]])
        values |= {"frame_a": frame, "frame_b": frame}
        values["kind"] = torch.tensor([kind], dtype=torch.int32)
        given = {f"physics.Joint.{name}": value.expand(worlds, *value.shape[1:]) for name, value in values.items()}
        return self.sim.create("Link", torch.arange(self.sim.num_worlds), given)

    def _create(
        self, table: str, values: dict[str, np.ndarray], more: dict[str, torch.Tensor] | None = None
    ) -> torch.Tensor:
        worlds, there = self.sim.num_worlds, self.sim.program.columns
        given = {
            f"physics.{name}": torch.from_numpy(np.repeat(array, worlds, axis=0))
            for name, array in values.items()
            if f"{table}.physics.{component_of(name)}" in there
        }
        given |= {f"physics.{name}": tensor for name, tensor in (more or {}).items()}
        return self.sim.create(table, torch.arange(worlds), given)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.sim.step()
        self.sim.check_faults()

    def of(self, column: str, name: str, world: int = 0) -> np.ndarray:
        """A field of a body that is not static."""
        row = [thing.name for thing in self.movers].index(name)
        return self.sim.ragged(f"Mover.physics.{column}").world(world)[row].double().numpy()

    def limb(self, column: str, row: int, world: int = 0) -> np.ndarray:
        """A field of a part."""
        return self.sim.ragged(f"Limb.physics.{column}").world(world)[row].double().numpy()

    def write(self, column: str, name: str, value: Any, table: str = "Mover") -> None:
        row = [thing.name for thing in self.movers].index(name) if table == "Mover" else int(name)
        rows = self.sim.ragged(f"{table}.physics.{column}")
        for world in range(self.sim.num_worlds):
            rows.world(world)[row] = torch.as_tensor(value, dtype=rows.values.dtype)


class MuJoCoParts:
    """The same bodies in MuJoCo, contacts as stiff as its steps of 0.2 ms allow."""

    def __init__(self, *things: Compound | Body, gravity: Vector = (0.0, 0.0, -9.81), timestep: float = 2e-4) -> None:
        self._mujoco = mujoco()
        text = "".join(_compound(t) if isinstance(t, Compound) else _plane(t) for t in things)
        self.model = self._mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{timestep}" gravity="{_numbers(gravity)}" cone="elliptic" impratio="100"/>'
            f'<default><geom solref="{2 * timestep} 1" solimp="0.99 0.999 0.0001 0.5 2"/></default>'
            f"<worldbody>{text}</worldbody></mujoco>"
        )
        self.data = self._mujoco.MjData(self.model)
        for thing in things:
            if isinstance(thing, Compound) and thing.kind == "dynamic":
                spin = matrices(thing.rotation).T @ np.array(thing.angular)
                self.data.joint(thing.name).qvel[:] = (*thing.linear, *spin)
        self.timestep = timestep

    def step(self, seconds: float) -> None:
        for _ in range(round(seconds / self.timestep)):
            self._mujoco.mj_step(self.model, self.data)

    def pose(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Of the centre of mass."""
        self._mujoco.mj_kinematics(self.model, self.data)
        i = self.model.body(name).id
        return self.data.xpos[i].copy(), self.data.xquat[i].copy()


def _numbers(values: Sequence[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def _plane(body: Body) -> str:
    assert body.shape.kind == "plane"
    return f'<geom type="plane" size="0 0 1" friction="{body.material.static_friction} 0 0"/>'


def _compound(thing: Compound) -> str:
    sizes = {"sphere": slice(0, 1), "box": slice(0, 3), "capsule": slice(0, 3, 2)}
    geoms = "".join(
        f'<geom type="{p.shape.kind}" size="{_numbers(p.shape.size[sizes[p.shape.kind]])}" mass="{p.mass}" '
        f'pos="{_numbers(np.array(p.position) - thing.centre)}" quat="{_numbers(p.rotation)}" '
        f'friction="{thing.material.static_friction} 0 0"/>'
        for p in thing.pieces
    )
    free = f'<freejoint name="{thing.name}"/>' if thing.kind == "dynamic" else ""
    return (
        f'<body name="{thing.name}" pos="{_numbers(thing.position)}" quat="{_numbers(thing.rotation)}">'
        f"{free}{geoms}</body>"
    )
