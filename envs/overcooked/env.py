"""Overcooked: chefs cook soups together in a kitchen of cells. Equal to Overcooked-AI 1.1.0, step by step.

Source: Carroll et al. (2019), "On the Utility of Learning about Humans for Human-AI Coordination"; rules, layouts and
encoding as in ``OvercookedGridworld`` of the package ``overcooked-ai``. Each chef is an agent, a row of the vector
environment; x goes to the right, y downwards.

| action | Discrete(6)                                                                                       |
|--------|---------------------------------------------------------------------------------------------------|
| 0 .. 3 | move north, south, east, west, or turn there if something is in the way                           |
| 4      | stay                                                                                              |
| 5      | interact with the cell ahead: take, put down, put into a pot, start a pot, fill a dish, serve     |

| observation | [width, height, 5 P + 16] for P chefs, uint8 (``obs_dtype``); seen from the chef, who comes first |
|-------------|---------------------------------------------------------------------------------------------------|
| 0 .. P-1    | the place of each chef: oneself, then the others in order                                         |
| P .. 5P-1   | its direction, four layers each: north, south, east, west                                         |
| 5P + 0 .. 5 | pots, counters, onion, tomato and dish dispensers, serving places                                 |
| 5P + 6, 7   | onions, tomatoes in a pot that does not cook yet                                                  |
| 5P + 8, 9   | onions, tomatoes in a soup that cooks, is ready, is held or lies about                            |
| 5P + 10     | steps until a soup in a pot is ready                                                              |
| 5P + 11     | soups that are ready                                                                              |
| 5P + 12..14 | dishes, onions, tomatoes that lie about or are held                                               |
| 5P + 15     | 1 everywhere in the last 40 steps                                                                 |

Reward of a chef: the pay of all chefs of its world for soups in this step, plus ``Shaping.factor`` times the sum of its
own shaped reward and ``Shaping.shared`` times those of the others. Both numbers are one for all worlds,
``sim.tensor("Shaping.factor")``, and may change between steps.
``infos``, float32 ``[rows]``: ``sparse_reward`` and ``shaped_reward`` of this step, by who earned them, without the
factor; ``sparse_return`` and ``shaped_return``, their sums in this episode; ``team_return``, the sum of the sparse
returns of all chefs of the world.
Start: that of the layout, facing north unless its start_state has another direction; with ``random_start`` in random
free cells; with ``random_objects``, in that share of games, in the midst of a game (``deal_objects`` in systems.h).
End: truncated at ``horizon`` steps.

Options, with their defaults:

- ``layout`` (``"cramped_room"``): name, path of a ``.layout`` file, text, ``Layout``; or a list of these
- ``agents`` (all): chefs, who take the first of the layout's starting places
- ``horizon`` (400): steps of a game
- ``old_dynamics`` (False): only the third ingredient starts a pot
- ``shaping_factor`` (0.0): ``Shaping.factor`` at first; 0 is the reference's reward
- ``shaping_shared`` (0.0): ``Shaping.shared`` at first: the part of the others' shaped rewards that a chef gets; 0 as
  in the reference
- ``random_start`` (False): chefs start in random free cells, all placements equally likely, and look north;
  ``Start.random_places``, its probability, is 1 at first
- ``random_objects`` (0.0): ``Start.random_objects`` at first: the probability that a game begins where others have left
  off: a pot in four has a soup that pays, not yet cooking, cooking or ready; a chef in four holds a dish, an ingredient
  or a soup
- ``obs_dtype`` (``"uint8"``): or ``"float32"``, which soups that cook for more than 255 steps need
- keys of a layout file, except ``grid``, replace the file's: ``cook_time=5``, ``start_all_orders=[...]``, ...
- ``start_player_positions``: a list of ``(x, y)``, in place of those in the grid
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from os import PathLike
from typing import Any
from zlib import crc32

import numpy as np
from gymnasium.spaces import Box, Discrete

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
    component,
    f32,
    i16,
    i32,
    u8,
)
from torch_batchsim.draw import Scene
from torch_batchsim.types import FieldType

from . import picture
from .codes import OUTSIDE, POT, Action, Ground, ItemKind
from .layout import KEYS, Layout, read_layout
from .layout_grid import MOST_PLAYERS
from .layout_recipes import MOST_RECIPES
from .training import SWEEP, TRAINING

LAYOUT_OPTIONS = (*(key for key in KEYS if key != "layout_name"), "start_player_positions")


def _described(layout: Layout) -> str:
    """Its name with a checksum of its rules, so that a saved state is not loaded under others."""
    values = (getattr(layout, field.name) for field in fields(layout))
    parts = (value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode() for value in values)
    return f"{layout.name} ({crc32(b';'.join(parts)):08x})"


class Terrain(Component):  # of the layout
    kind: u8  # 0 floor, 1 pot, 2 counter, 3 onions, 4 tomatoes, 5 dishes, 6 serving place, 7 outside of the layout


class Item(Component):  # in a cell, or in a chef's hands
    kind: u8  # 0 nothing, 1 onion, 2 tomato, 3 dish, 4 soup
    onions: u8  # in a soup
    tomatoes: u8


class Cooking(Component):
    left: i16  # of a soup in a pot: steps until it is ready, -1 if it does not cook yet; else 0


class Place(Component):
    cell: i32  # x * height + y
    facing: i32  # 0 north, 1 south, 2 east, 3 west


class Choice(Component):
    action: i32


class Aim(Component):
    cell: i32  # to which the chef wants to move


class SparseReward(Component):
    value: f32


class ShapedReward(Component):
    value: f32


class SparseReturn(Component):
    value: f32


class ShapedReturn(Component):
    value: f32


class TeamReturn(Component):
    value: f32


class Kitchen(Component):
    layout: i32  # index into the environment's layouts
    timestep: i32  # steps since the start, or since that of a layout's start_state


class Shaping(Component):
    factor: f32  # of shaped rewards
    shared: f32  # a chef's part of the others' shaped rewards


class Start(Component):  # probabilities, of the episodes that begin from now on
    random_places: f32  # of chefs in random free cells
    random_objects: f32  # of soups in pots, and things in hands


class Overcooked(Environment):
    """Args: see ``__init__``; the options of a layout file (``cook_time=10``) override the file's."""

    constants = Constants(
        layout=Option("cramped_room", help="name, path, text or Layout; or a list of these, one drawn per episode"),
        obs_dtype=Option("uint8", choices=("uint8", "float32")),
    )
    parameters = Parameters(
        horizon=Option(400, minimum=1, help="steps"),
        old_dynamics=Option(False, help="a pot starts by itself with the third ingredient, and only then"),
        shaping_factor=Option(0.0, help="of shaped rewards, at first"),
        shaping_shared=Option(0.0, help="a chef's part of the others' shaped rewards, at first"),
        random_start=Option(False, help="chefs start in random free cells: Start.random_places is 1 at first"),
        random_objects=Option(
            0.0,
            minimum=0.0,
            maximum=1.0,
            help="probability of a game in its midst: soups in pots, things in hands; at first",
        ),
    )
    singletons = (Kitchen,)
    start = TaskGraph("open_kitchen", "furnish", "place_chefs", "scatter_chefs", "deal_objects")
    step = TaskGraph("interact", "aim", "walk", "start_full_pots", "cook", "pay", "tick")
    observe = TaskGraph("encode")
    observation, action = "Chef.View", "Chef.Choice"
    step_counters = ("Kitchen.timestep",)
    action_space = Discrete(len(Action))
    controls = (
        Control("Up", int(Action.NORTH), "ArrowUp"), Control("Down", int(Action.SOUTH), "ArrowDown"),
        Control("Left", int(Action.WEST), "ArrowLeft"), Control("Right", int(Action.EAST), "ArrowRight"),
        Control("Use", int(Action.INTERACT), " ", once=True),
    )  # fmt: skip
    idle_action = int(Action.STAY)
    enums = (Ground, ItemKind, Action)
    info = {
        "sparse_reward": "Chef.SparseReward",
        "shaped_reward": "Chef.ShapedReward",
        "sparse_return": "Chef.SparseReturn",
        "shaped_return": "Chef.ShapedReturn",
        "team_return": "Chef.TeamReturn",
    }
    faults = ("no_such_cell", "no_such_direction", "no_such_layout")  # of numbers written into the state
    metadata = {"render_fps": 8, "score": "team_return"}
    training = TRAINING
    sweep = SWEEP

    def __init__(
        self,
        layout: str | PathLike | Layout | Sequence[str | PathLike | Layout] = "cramped_room",
        agents: int | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            layout: one or several, see ``read_layout``. Of several, each episode draws one; smaller ones are padded.
            agents: chefs, the first of the layout's starting places; all of them by default.
            options: as declared by ``constants`` and ``parameters``; and all options of a layout file.

        Raises TypeError or ValueError, which name what was given and what is allowed.
        """
        overrides = {name: options.pop(name) for name in LAYOUT_OPTIONS if name in options}
        several = isinstance(layout, (list, tuple))
        if several and not layout:
            raise ValueError("layout must be one layout or a list of at least one, got an empty list")
        self.layouts = tuple(read_layout(source, **overrides) for source in (layout if several else [layout]))
        super().__init__(layout=", ".join(map(_described, self.layouts)), **options)
        self.agents = self._checked_agents(agents)
        self.width, self.height = (max(one.terrain.shape[axis] for one in self.layouts) for axis in (0, 1))
        self._check_old_dynamics()
        self._check_times()
        self._check_horizon()
        self.add_constants(
            width=self.width,
            height=self.height,
            cells=self.width * self.height,
            agents=self.agents,
            layouts=len(self.layouts),
            recipes=MOST_RECIPES,
        )

    def _checked_agents(self, agents: Any) -> int:
        starts = [(one.name, len(one.starts)) for one in self.layouts]  # texts may have one name
        if agents is None:
            if len({count for _, count in starts}) > 1:
                given = ", ".join(f"{name} {count}" for name, count in starts)
                raise ValueError(
                    f"layouts of one batch must have equally many starting places, or agents must be given; got {given}"
                )
            return starts[0][1]
        if isinstance(agents, bool) or not isinstance(agents, (int, np.integer)) or not 1 <= agents <= MOST_PLAYERS:
            raise ValueError(f"agents must be an integer from 1 to {MOST_PLAYERS}, got {agents!r}")
        for name, count in starts:
            if count < agents:
                raise ValueError(f"agents is {agents}, but layout {name} has {count} starting places")
        return int(agents)

    def _check_old_dynamics(self) -> None:
        for one in self.layouts:
            if self.parameters.old_dynamics and one.max_ingredients < 3:
                raise ValueError(
                    f"old_dynamics starts pots with 3 ingredients, but layout {one.name} has max_num_ingredients "
                    f"{one.max_ingredients}: no soup would ever cook"
                )

    def _check_horizon(self) -> None:
        for one in self.layouts:
            if one.timestep >= self.parameters.horizon:
                raise ValueError(
                    f"layout {one.name} starts at timestep {one.timestep}, but horizon is {self.parameters.horizon}"
                )

    def _check_times(self) -> None:
        """A byte of the observation holds the steps until a soup is ready."""
        for one in self.layouts:
            if self.constants.obs_dtype == "uint8" and one.cook_times.max() > 255:
                raise ValueError(
                    f"layout {one.name} has a soup that cooks for {one.cook_times.max()} steps, but an observation of "
                    "uint8 shows at most 255; choose obs_dtype='float32'"
                )

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        agents = "chefs, the first of the layout's starting places; all by default"
        of_layout = dict.fromkeys(LAYOUT_OPTIONS, "overrides what the layout says")
        return {**super().described_options(), "agents": agents, **of_layout}

    # ---- the declaration ---------------------------------------------------------------------------------------------

    @property
    def _layers(self) -> int:
        return 5 * self.agents + 16

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.width, self.height, self._layers

    @property
    def _element(self) -> FieldType:
        return u8 if self.constants.obs_dtype == "uint8" else f32

    @cached_property
    def archetypes(self) -> list[Archetype]:
        view = component("View", layers=self._element[self._shape])
        earned = SparseReward, ShapedReward, SparseReturn, ShapedReturn, TeamReturn
        chefs = Archetype("Chef", Place, Item, Choice, Aim, *earned, view, Reward, count=self.agents)
        return [Archetype("Cell", Terrain, Item, Cooking, count=self.width * self.height), chefs]

    @property
    def observation_space(self) -> Box:
        high = np.ones(self._shape, np.float32)
        ingredients = max(one.max_ingredients for one in self.layouts)
        high[..., 5 * self.agents + 6 : 5 * self.agents + 10] = ingredients
        high[..., 5 * self.agents + 10] = max(one.cook_times.max() for one in self.layouts)
        return Box(np.zeros_like(high), high, dtype=np.dtype(self.constants.obs_dtype))

    # ---- layouts as a resource -------------------------------------------------------------------------------------

    @cached_property
    def resources(self) -> list[type[Component]]:
        layouts, cells, recipes = len(self.layouts), self.width * self.height, self.layouts[0].values.shape
        tables = component(
            "Layouts",
            background=self._element[layouts, cells, self._layers],  # first: it lies like a view, to be copied widely
            terrain=u8[layouts, cells],
            items=u8[layouts, cells, 3],
            left=i16[layouts, cells],
            cell=i32[layouts, self.agents],
            facing=i32[layouts, self.agents],
            held=u8[layouts, self.agents, 3],
            value=f32[(layouts, *recipes)],
            paid=u8[layouts, MOST_RECIPES, 2],  # onions and tomatoes of the soups that pay
            paid_recipes=i32[layouts],
            cook_time=i16[(layouts, *recipes)],
            placement_reward=f32[layouts],
            dish_reward=f32[layouts],
            soup_reward=f32[layouts],
            most=i32[layouts],
            timestep=i32[layouts],
            last=i32,
        )
        return [tables, Shaping, Start]

    def resource_values(self) -> dict[str, Any]:
        tables = [self._tables(one) for one in self.layouts]
        values = {f"Layouts.{name}": np.stack([table[name] for table in tables]) for name in tables[0]}
        return {
            **values,
            "Layouts.last": len(self.layouts) - 1,
            "Shaping.factor": self.parameters.shaping_factor,
            "Shaping.shared": self.parameters.shaping_shared,
            "Start.random_places": self.parameters.random_start,
            "Start.random_objects": self.parameters.random_objects,
        }

    def _tables(self, layout: Layout) -> dict[str, np.ndarray]:
        """A layout as systems read it, padded to the size of the batch."""
        width, height = layout.terrain.shape
        terrain = np.full((self.width, self.height), OUTSIDE, np.uint8)
        terrain[:width, :height] = layout.terrain
        items = np.zeros((self.width * self.height, 3), np.uint8)
        left = np.zeros(self.width * self.height, np.int16)
        for x, y, kind, onions, tomatoes, steps in layout.items:
            items[x * self.height + y] = kind, onions, tomatoes
            left[x * self.height + y] = steps
        paid = np.argwhere(layout.values > 0)
        return {
            "terrain": terrain.reshape(-1),
            "background": self._background(terrain.reshape(-1)),
            "items": items,
            "left": left,
            "cell": np.array([x * self.height + y for x, y in layout.starts[: self.agents]], np.int32),
            "facing": np.array(layout.facings[: self.agents], np.int32),
            "held": np.array(layout.held[: self.agents], np.uint8),
            "value": layout.values,
            "paid": np.concatenate([paid, np.zeros((MOST_RECIPES - len(paid), 2))]).astype(np.uint8),
            "paid_recipes": np.int32(len(paid)),
            "cook_time": layout.cook_times.astype(np.int16),
            "placement_reward": np.float32(layout.placement_reward),
            "dish_reward": np.float32(layout.dish_reward),
            "soup_reward": np.float32(layout.soup_reward),
            "most": np.int32(layout.max_ingredients),
            "timestep": np.int32(layout.timestep),
        }

    def _background(self, terrain: np.ndarray) -> np.ndarray:
        """The observation of an empty kitchen, ``[cells, layers]``."""
        background = np.zeros((len(terrain), self._layers), np.dtype(self.constants.obs_dtype))
        for kind in range(POT, OUTSIDE):
            background[terrain == kind, 5 * self.agents + kind - POT] = 1
        return background

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        return picture.draw(world, self.layouts[int(world["Kitchen.layout"])], horizon=self.parameters.horizon)
