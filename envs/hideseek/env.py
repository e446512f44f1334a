"""Hide and seek: hiders build themselves shelters out of boxes and ramps, seekers look for them.

Sources: Baker et al. (2020), "Emergent Tool Use From Multi-Agent Autocurricula", arXiv 1909.07528; Shacklett et al.
(2023), "An Extensible, Data-Oriented Architecture for High-Performance, Many-World Simulation", sections 2 and 6.1.
Units: metres, kilograms, seconds; z is up. Each agent is a row of the vector environment: the hiders of a world first,
then its seekers. An agent's forward axis is its y.

Action, MultiDiscrete([11, 11, 11, 2, 2]):

| part | says                                                                                              |
|------|---------------------------------------------------------------------------------------------------|
| 0, 1 | force along its own x and y: (value - 5) * ``force`` newtons                                       |
| 2    | torque about z: (value - 5) * ``torque`` newton metres                                             |
| 3    | 1: grab the box or ramp ahead that nobody holds or has locked; or let go of what it holds           |
| 4    | 1: lock the box or ramp ahead (whoever holds it lets go), or unlock it if its team has locked it    |

The thing ahead is the first on a ray from ``hand_height`` above the agent's centre, ``reach`` long. Hands
are used one agent after the other, in the order of rows, the key before the grip. Locked things do not move.

Observation, float32, in the agent's own frame unless it says otherwise, for A agents:

| part                  | shape     | says                                                                       |
|-----------------------|-----------|----------------------------------------------------------------------------|
| ``self``              | [12]      | position (world's frame, / ``half_size``), velocity (3), yaw (sine, cosine; |
|                       |           | world's frame), 1 for a seeker, 1 if it holds something, share of the steps |
|                       |           | and of the preparation that is left                                        |
| ``agents``            | [A-1, 10] | the others in the order of rows: relative position, velocity, yaw (sine,    |
|                       |           | cosine), seeker, holding                                                   |
| ``boxes``             | [9, 14]   | relative position, velocity, yaw, size (3), locked, by the own team, held   |
| ``ramps``             | [2, 11]   | relative position, velocity, yaw, locked, by the own team, held             |
| ``sees_agents``       | [A-1]     | 1 where in sight: within ``cone_angle`` degrees of forward, and nothing     |
| ``sees_boxes``        | [9]       | before its centre                                                          |
| ``sees_ramps``        | [2]       |                                                                            |
| ``box_exists``        | [9]       | 1 for rows that exist; the others are 0 everywhere                          |
| ``ramp_exists``       | [2]       |                                                                            |
| ``lidar``             | [30]      | beam i at the angle 2 pi i / 30 from forward, to the left: distance /       |
|                       |           | ``lidar_range``, 1 for a miss                                              |

Rows of things out of sight are 0 unless ``see_all``. With ``flat=True`` the observation is one array of all these, in
this order; ``HideSeek.slices`` has their places. A velocity is how far the body has come in the last step over its
time, m/s, so 0 for an agent that pushes against a wall. With ``critic=True`` ``infos`` has the rows of all things, seen
or not, for a centralised critic (``Environment.critic``): ``all_agents``, ``all_boxes``, ``all_ramps``.

Reward: after the preparation, in which all rewards are 0, each hider has 1 if no seeker sees a hider, else -1, seekers
the opposite; less ``outside_penalty`` for an agent outside of the square (its centre at ``half_size`` or beyond).
Preparation: in the first ``preparation_steps`` seekers do nothing.
Speeds: only physics moves bodies; after each step an agent keeps exp(-``drag`` * time of a step) of its speed along
the floor and of its turning, so that it does not glide. Bodies keep at most ``upward_speed`` upwards, so that ramps
throw nothing; they fall freely. An agent whose feet are at most ``climb_height`` below the top of walls, and that
pushes against something which stops it, climbs at ``climb_speed``: so a ramp before a wall leads over it. (With more
speed upwards agents fly off ramps, up to 27 m high. Limits of 2 to 4 m/s let them over walls metres behind a ramp, but
not one at its end, whose friction stops them. Greatest heights of agents by default: 3.6 m in 5,120 random lives, 5.7 m
in 5,120 where all run at ramps, some standing on others; who left over a wall had climbed it.)
End: truncated at ``max_episode_steps``.
Levels: each episode has another one, a function of seed, world and episode: ``min_walls`` to ``max_walls`` walls that
part a room in two, with one door each, and ``min_doors`` to ``max_doors`` more doors in any wall, in random order; then
boxes, at least ``min_long_boxes`` of them elongated, ramps, agents, nowhere on each other. Things without a free place
after ``tries`` tries are left out and counted; an agent then takes the first free place of a lattice.
``reset(options=Level.options([...], environment))`` gives others.

``infos``: ``team`` (0 hiders, 1 seekers), ``preparing`` (whether the next step is of the preparation), and figures of
the episode so far, the same for all agents of a world: ``boxes_moved`` (that are more than 1 m from where they began),
``boxes_locked``, ``ramps_locked`` (by hiders), ``ramps_used`` (steps of seekers half a metre or more above the floor),
``hiders_seen`` (share of the steps after the preparation), ``forts`` (after the last step: share of the hiders that no
seeker can walk to, past walls and locked things; gaps less than half a metre wider than an agent count as closed),
``left_out`` (things without room in the level).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import cos, radians
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import MultiDiscrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Control,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    boolean,
    component,
    f32,
    u32,
)
from torch_batchsim.physics import Force, Joint, Material, Physics
from torch_batchsim.rays import BodyScene, Rays
from torch_batchsim.types import FieldType

from . import picture, plan
from .components import FIGURES, Act, Origin, Side, Tally, Team, TeamNumber, Thing, Travel
from .level import check_levels, level_shapes
from .policies import chase
from .presets import PRESETS
from .training import SWEEP, TRAINING

OUTER_WALLS = 4
MOST_AGENTS = 40


class HideSeek(Environment):
    """Options are those of ``constants`` and ``parameters``; ``physics`` and ``rays`` are those of the libraries.

    The defaults are those of the full game; ``preset`` names games with other defaults.
    """

    libraries = (Physics, Rays)
    enums = (Side,)
    constants = Constants(
        preset=Option("full", choices=tuple(PRESETS), help="a game: the defaults of options"),
        hiders=Option(3, minimum=1, maximum=20, help="agents"),
        seekers=Option(2, minimum=1, maximum=20, help="agents"),
        flat=Option(False, help="one array as observation"),
        critic=Option(False, help="rows of all things, in infos"),
        half_size=Option(18.0, minimum=8.0, maximum=40.0, help="of the square, metres"),
        wall_thickness=Option(0.4, minimum=0.1, maximum=2.0, help="metres"),
        wall_height=Option(2.5, above=0.0, help="metres"),
        max_walls=Option(5, minimum=0, maximum=16, help="that part rooms"),
        max_doors=Option(6, minimum=0, maximum=16, help="beside one for each such wall"),
        narrow_door=Option(0.1, above=0.0, maximum=0.5, help="share of the square's side"),
        wide_door=Option(0.2, above=0.0, maximum=0.5, help="share of the square's side"),
        narrowest_room=Option(5.5, above=0.0, help="metres"),
        box_rows=Option(9, minimum=1, maximum=32, help="of observations, and the most boxes"),
        ramp_rows=Option(2, minimum=1, maximum=16, help="of observations, and the most ramps"),
        cube=Option(1.0, above=0.0, help="half the side of a cube, metres"),
        long_x=Option(4.0, above=0.0, help="half extents of an elongated box, metres"),
        long_y=Option(0.75, above=0.0, help="metres"),
        long_z=Option(1.0, above=0.0, help="metres"),
        ramp_width=Option(2.0, above=0.0, help="metres"),
        ramp_length=Option(3.0, above=0.0, help="metres"),
        ramp_height=Option(2.0, above=0.0, help="metres"),
        agent=Option(1.0, above=0.0, help="half the side of an agent, metres"),
        agent_mass=Option(1.0, above=0.0, help="kg"),
        thing_mass=Option(2.0, above=0.0, help="of boxes and ramps, kg"),
        agent_static=Option(0.01, minimum=0.0, help="friction"),
        agent_dynamic=Option(0.01, minimum=0.0, help="friction"),
        box_static=Option(0.5, minimum=0.0, help="friction"),
        box_dynamic=Option(4.0, minimum=0.0, help="friction"),
        ramp_static=Option(0.5, minimum=0.0, help="friction"),
        ramp_dynamic=Option(1.0, minimum=0.0, help="friction"),
        wall_static=Option(0.5, minimum=0.0, help="friction"),
        wall_dynamic=Option(2.0, minimum=0.0, help="friction"),
        floor_static=Option(0.1, minimum=0.0, help="friction"),
        floor_dynamic=Option(0.1, minimum=0.0, help="friction"),
        hand_height=Option(0.5, help="metres above an agent's centre"),
        beams=Option(30, minimum=1, maximum=360, help="of the lidar"),
        lidar_range=Option(18.0, above=0.0, help="metres"),
        cone_angle=Option(67.5, above=0.0, maximum=180.0, help="degrees to each side of forward"),
        clearance=Option(0.05, minimum=0.0, help="metres between things at the start"),
        tries=Option(64, minimum=1, help="for a free place"),
    )
    parameters = Parameters(
        force=Option(96.0, help="newtons per step of the choice"),
        torque=Option(32.0, help="newton metres per step of the choice"),
        drag=Option(60.0, minimum=0.0, help="of agents, 1/s"),
        upward_speed=Option(0.0, minimum=0.0, help="the most that bodies keep from step to step, m/s"),
        climb_height=Option(0.55, minimum=0.0, help="from an agent's feet to the top of a wall that it climbs, metres"),
        climb_speed=Option(3.5, minimum=0.0, help="m/s"),
        reach=Option(2.5, above=0.0, help="of hands, metres"),
        min_walls=Option(1, minimum=0),
        min_doors=Option(4, minimum=0),
        min_boxes=Option(3, minimum=0),
        max_boxes=Option(8, minimum=0),
        min_long_boxes=Option(3, minimum=0),
        ramps=Option(2, minimum=0),
        preparation_steps=Option(96, minimum=0),
        max_episode_steps=Option(240, minimum=1),
        outside_penalty=Option(10.0),
        see_all=Option(False, help="rows of things out of sight are not 0"),
    )
    action_space = MultiDiscrete([11, 11, 11, 2, 2])
    controls = (
        Control("Ahead", {1: 10}, "ArrowUp"), Control("Back", {1: 0}, "ArrowDown"),
        Control("Turn left", {2: 7}, "ArrowLeft"), Control("Turn right", {2: 3}, "ArrowRight"),
        Control("Left", {0: 0}, "a"), Control("Right", {0: 10}, "d"),
        Control("Grab or let go", {3: 1}, "g", once=True), Control("Lock or unlock", {4: 1}, "l", once=True),
    )  # fmt: skip
    idle_action = (5, 5, 5, 0, 0)
    action, team = "Agent.Act", "Agent.TeamNumber"
    faults = ("no_room",)
    metadata = {
        "render_fps": 30,
        "score": "hiders_seen",
        "figures": tuple(name for name in FIGURES if name not in ("hiders_seen", "preparing")),
    }
    training = TRAINING
    sweep = SWEEP
    start = TaskGraph(
        "build_walls", "raise_walls", "place_boxes", "place_ramps", "place_agents", "dress_agents", "lay_floor",
        Rays.gather, "look_around",
    )  # fmt: skip
    step = TaskGraph(
        Rays.gather, "push", "use_hands",
        "mark_origin", Physics.simulate, "measure_travel", "slow_down", "hold_down",
        Rays.update, "look_around", "pay", "keep_tally", "find_forts", "end_in_time",
    )  # fmt: skip

    @property
    def reset_options(self) -> dict[str, FieldType]:
        return {name: f32[shape] for name, shape in level_shapes(self.constants).items()}

    def __init__(self, camera: str = "above", preset: str = "full", **options: Any) -> None:
        """
        Args:
            preset: a game of ``PRESETS``, whose options are the defaults: ``"full"``; or 1 hider against 1 seeker in a
                small square that is an ``"empty-room"`` or has ``"walls"``.
            camera: of pictures: ``"above"``, a plan with cones of sight; or ``"aside"``, the bodies in perspective.
            options: as declared by ``constants`` and ``parameters``.

        Raises TypeError for unknown options, ValueError for options out of range or in contradiction.
        """
        if camera not in ("above", "aside"):
            raise ValueError(f"camera must be 'above' or 'aside', got {camera!r}")
        usual = PRESETS.get(preset, {}) if isinstance(preset, str) else {}  # the check of options rejects others
        super().__init__(preset=preset, **{**usual, **options})
        self.camera = camera
        c, p = self.constants, self.parameters
        for least, most, low, high in (
            ("min_walls", "max_walls", p.min_walls, c.max_walls),
            ("min_doors", "max_doors", p.min_doors, c.max_doors),
            ("min_boxes", "max_boxes", p.min_boxes, p.max_boxes),
            ("max_boxes", "box_rows", p.max_boxes, c.box_rows),
            ("ramps", "ramp_rows", p.ramps, c.ramp_rows),
        ):
            if low > high:
                raise ValueError(f"{least} must be at most {most}, which is {high}, got {low}")
        agents, side = c.hiders + c.seekers, 2 * c.half_size
        if agents * (2.4 * c.agent) ** 2 > side**2 / 4:
            raise ValueError(
                f"{agents} agents of {2 * c.agent:g} m do not fit a square of {side:g} m: they may take a quarter of it"
            )
        for name in ("narrow_door", "wide_door"):
            width, least, most = getattr(c, name) * side, 2.5 * c.agent, side - 2
            if (c.max_walls or c.max_doors) and not least <= width <= most:
                raise ValueError(
                    f"{name} is {getattr(c, name):g} of {side:g} m, {width:g} m; doors must be {least:g} to {most:g} m "
                    f"wide for agents of {2 * c.agent:g} m"
                )
        self.add_constants(
            agents=agents, pieces=OUTER_WALLS + 2 * c.max_walls + c.max_doors, cone=cos(radians(c.cone_angle)),
        )  # fmt: skip

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        camera = Option("above", choices=("above", "aside"), help="of pictures: a plan, or bodies in perspective")
        return {**super().described_options(), "camera": camera}

    # ---- the declaration ---------------------------------------------------------------------------------------------

    @property
    def systems(self) -> tuple[str, ...]:
        views = "observe_flat.h" if self.constants.flat else "observe_dict.h"
        extra = ("critic.h",) if self.constants.critic else ()
        return ("level.h", "rules.h", "senses.h", "figures.h", views, *extra)

    @property
    def observe(self) -> TaskGraph:
        return TaskGraph("describe", "tell_team", "report", *(("describe_all",) if self.constants.critic else ()))

    @property
    def library_options(self) -> dict[str, dict[str, Any]]:
        c = self.constants
        x, y, z = c.ramp_width / 2, c.ramp_length / 2, c.ramp_height
        low = [(sx * x, sy * y, 0.0) for sx in (-1, 1) for sy in (-1, 1)]
        ramp = np.array([*low, (-x, y, z), (x, y, z)], np.float32)
        movers = c.hiders + c.seekers + c.box_rows + c.ramp_rows
        friction = {"static_friction": c.wall_static, "dynamic_friction": c.wall_dynamic}  # of bodies without Material
        # Things packed into a corner, and agents that push them, have up to four pairs each.
        room = {"contacts": 5 * movers, "kept_contacts": 11 * movers // 4}
        return {"physics": {"hulls": {"ramp": ramp}, **room, **friction}, "rays": {"faces": 5 * c.ramp_rows}}

    @cached_property
    def _rows(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parts of an observation, in order."""
        c = self.constants
        others = c.hiders + c.seekers - 1
        return {
            "self": (12,), "agents": (others, 10), "boxes": (c.box_rows, 14), "ramps": (c.ramp_rows, 11),
            "sees_agents": (others,), "sees_boxes": (c.box_rows,), "sees_ramps": (c.ramp_rows,),
            "box_exists": (c.box_rows,), "ramp_exists": (c.ramp_rows,), "lidar": (c.beams,),
        }  # fmt: skip

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The places of the parts of a flat observation; shapes are those of the dict."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self._rows.values()]).tolist()
        return {name: slice(start, end) for name, start, end in zip(self._rows, [0, *ends], ends, strict=False)}

    @property
    def policies(self) -> dict[str, Callable[..., torch.Tensor]]:
        return {"chase": lambda observations, infos: chase(self._parts(observations))}

    def _parts(self, observations: Any) -> Mapping[str, torch.Tensor]:
        if not self.constants.flat:
            return observations
        return {name: observations[:, self.slices[name]].view(-1, *shape) for name, shape in self._rows.items()}

    @cached_property
    def _views(self) -> dict[str, type[Component]]:
        rows = self._rows
        if self.constants.flat:
            fields = {"own" if name == "self" else name: f32[shape] for name, shape in rows.items()}
            return {"": component("View", **fields)}
        names = {
            "self": ("OwnView", "values"), "agents": ("AgentView", "rows"), "boxes": ("BoxView", "rows"),
            "ramps": ("RampView", "rows"), "sees_agents": ("SeesAgents", "mask"), "sees_boxes": ("SeesBoxes", "mask"),
            "sees_ramps": ("SeesRamps", "mask"), "box_exists": ("BoxExists", "mask"),
            "ramp_exists": ("RampExists", "mask"), "lidar": ("Lidar", "distance"),
        }  # fmt: skip
        return {name: component(kind, **{field: f32[rows[name]]}) for name, (kind, field) in names.items()}

    @cached_property
    def _all_views(self) -> dict[str, type[Component]]:
        if not self.constants.critic:
            return {}
        names = {"agents": "AllAgents", "boxes": "AllBoxes", "ramps": "AllRamps"}
        return {f"all_{name}": component(kind, rows=f32[self._rows[name]]) for name, kind in names.items()}

    @property
    def observation(self) -> str | dict[str, str]:
        if self.constants.flat:
            return "Agent.View"
        return {name: f"Agent.{view.__name__}" for name, view in self._views.items()}

    @property
    def info(self) -> dict[str, str]:
        return {name: f"Agent.{kind.__name__}" for name, kind in FIGURES.items()}

    @property
    def critic(self) -> dict[str, str]:
        return {name: f"Agent.{kind.__name__}" for name, kind in self._all_views.items()}

    @cached_property
    def archetypes(self) -> list[Archetype]:
        c = self.constants
        sight = component(
            "Sight", agents=boolean[c.agents - 1], boxes=boolean[c.box_rows], ramps=boolean[c.ramp_rows]
        )
        lidar = [component("Lidar", distance=f32[c.beams])] if c.flat else []
        outputs = (*self._views.values(), *self._all_views.values(), *FIGURES.values(), TeamNumber)
        body = (Physics.body, Material, Origin, Travel)
        return [
            Archetype("Agent", *body, Force, Joint, Act, Team, sight, *lidar, *outputs, Reward, count=c.agents),
            Archetype("Box", *body, Thing, capacity=c.box_rows),
            Archetype("Ramp", *body, Thing, capacity=c.ramp_rows),
            Archetype("Wall", Physics.static, capacity=c.pieces),
            Archetype("Floor", Physics.static, Material, count=1),
        ]

    @cached_property
    def _given(self) -> type[Component]:
        return component("Given", **self.reset_options, given=boolean)

    @property
    def singletons(self) -> list[type[Component]]:
        return [self._given, Tally, self._ground, self._layout]

    @property
    def kept(self) -> list[type[Component]]:
        return [self._given]

    @cached_property
    def _ground(self) -> type[Component]:
        c = self.constants
        return component("Ground", plots=f32[c.pieces + c.box_rows + c.ramp_rows + c.agents, 6], count=u32)

    @cached_property
    def _layout(self) -> type[Component]:
        c = self.constants
        lines, doors = OUTER_WALLS + c.max_walls, max(c.max_walls + c.max_doors, 1)
        return component(
            "Layout", line=f32[lines, 4], door=f32[doors, 2], door_line=u32[doors], lines=u32, doors=u32,
        )  # fmt: skip

    @property
    def scratch(self) -> list[type[Component]]:
        return [self._ground, self._layout, Force, Origin]

    # ---- levels that are given -------------------------------------------------------------------------------------

    def reset_values(self, options: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> dict[str, Any]:
        missing = [name for name in self.reset_options if name not in options]
        if len(missing) == len(self.reset_options):
            return {}
        if missing:
            raise ValueError(f"a level is all of {', '.join(self.reset_options)}; {', '.join(missing)} is missing")
        check_levels(self, {name: np.asarray(options[name].cpu()) for name in self.reset_options})
        return {**{f"Given.{name}": options[name] for name in self.reset_options}, "Given.given": True}

    # ---- pictures --------------------------------------------------------------------------------------------------

    @cached_property
    def _aside(self) -> Callable[[Mapping[str, np.ndarray], Any], BodyScene]:
        return picture.from_aside(self.constants.half_size)

    def render(self, world: Mapping[str, np.ndarray]) -> np.ndarray:
        """``uint8 [490, 480, 3]`` from above, ``[400, 640, 3]`` from aside; a bar below shows the time."""
        if self.camera == "aside":
            return self.scene(world).pixels
        return picture.from_above(world, self.constants, self._steps(world))

    def scene(self, world: Mapping[str, np.ndarray]) -> BodyScene:
        """From aside, whichever the ``camera``."""
        return picture.with_time(self._aside(world, self.constants), self._steps(world))

    def _steps(self, world: Mapping[str, np.ndarray]) -> tuple[int, int, int]:
        """Done, of the preparation, of an episode."""
        p = self.parameters
        left = float(world["Agent.OwnView.values" if not self.constants.flat else "Agent.View.own"][0][10])
        return round(p.max_episode_steps * (1 - left)), p.preparation_steps, p.max_episode_steps

    def render_text(self, world: Mapping[str, np.ndarray]) -> str:
        """From above, 36 lines of up to 72 characters: see plan.as_text."""
        return plan.as_text(world, self.constants)
