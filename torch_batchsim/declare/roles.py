"""Roles of columns in the vector environment: action, observation, reward and others.

``ROLES`` is their table. A new role is an entry there, an attribute of ``Environment``, and code that uses its column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from ..errors import SchemaError
from .columns import Column, limits, numpy_dtype
from .environment import Environment
from .fields import Field
from .schema import AgentEnd, Archetype, Component, Reward
from .spaces import bounds

MOST_CHOICES = 2**24  # in one part of an action that follows from a range

Find = Callable[[str, str], tuple[Column, Field | None]]  # by a name and its use


@dataclass(frozen=True)
class Role:
    """A role, in words that documentation and errors share, and the requirements on its column."""

    name: str  # the attribute of Environment that names a column
    meaning: str
    delivered: str  # where users find it
    holds: str
    forms: tuple[type, ...] = (str,)  # of the attribute: a name, or a dict of names
    dtypes: tuple[torch.dtype, ...] = ()  # allowed ones; empty for all
    scalar: bool = False  # one value a row
    required: bool = False
    info: bool = False  # delivered in infos under its name
    component: type[Component] | None = None  # the engine's own: an archetype has it, no attribute names it


ROLES = (
    Role(
        "action",
        "what the agent does in the next step",
        "`step(actions)`",
        "f32, i32, i64 or u8 that fit `action_space`",
        dtypes=(torch.float32, torch.int32, torch.int64, torch.uint8),
        required=True,
    ),
    Role(
        "observation",
        "what the agent sees",
        "what `reset` and `step` return, `final_obs`",
        "numbers that fit `observation_space`; or a dict of such columns",
        forms=(str, Mapping),
        required=True,
    ),
    Role(
        "info",
        "facts beside the observation",
        "`infos`, `final_info`",
        "a dict of columns of any numbers",
        forms=(Mapping,),
    ),
    Role(
        "critic",
        "what a centralised critic reads beside the observation, and the policy does not",
        "`infos`, `final_info`; `single_critic_space` has its spaces",
        "a dict of columns of any numbers, under names that neither `observation` nor `info` has",
        forms=(Mapping,),
    ),
    Role(
        "action_mask",
        "which choices are legal",
        '`infos["action_mask"]`, `env.action_mask`',
        "booleans, one for each choice of a discrete `action_space`",
        dtypes=(torch.bool,),
        info=True,
    ),
    Role(
        "active",
        "whether the agent takes part: where it is false, the row may be given any action and is not trained on",
        '`infos["active"]`, `env.active`',
        "one boolean a row",
        dtypes=(torch.bool,),
        scalar=True,
        info=True,
    ),
    Role(
        "team",
        "which team the agent is of",
        '`infos["team"]`, `env.team`',
        "one integer a row (i8, u8, i16, i32 or i64)",
        dtypes=(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64),
        scalar=True,
        info=True,
    ),
    Role(
        "reward",
        "the reward of this step; zero before it",
        "what `step` returns",
        "the component `Reward`",
        component=Reward,
        required=True,
    ),
    Role(
        "end",
        "whether the agent's own episode ends with this step while its world may go on; false before it",
        "flags that `step` returns, together with those of the world",
        "the component `AgentEnd`",
        component=AgentEnd,
    ),
)

ENGINE_COMPONENTS = {role.component.__name__: role.component for role in ROLES if role.component}
INFO_ROLES = tuple(role.name for role in ROLES if role.info)  # which are keys of infos too
_INFO_KEYS = (*INFO_ROLES, "episode", "final_info", "final_obs")
_FORMS = {(str,): "a name", (str, Mapping): "a name or a dict", (Mapping,): "a dict"}


@dataclass(frozen=True)
class Roles:
    """The columns that have roles, and the spaces of one agent."""

    agents: Archetype
    action: Column
    observations: dict[str, Column]  # by key of the observation space; "" if that is not a dict
    info: dict[str, Column]  # by key of infos, those of ``critic`` included
    critic: dict[str, Column]
    reward: Column
    end: Column | None
    action_space: gymnasium.Space
    observation_space: gymnasium.Space
    critic_space: gymnasium.spaces.Dict | None  # None where nothing is for a critic only


@dataclass(frozen=True)
class Declared:
    """The attributes of an environment that are about roles.

    Attributes:
        names: of columns, by role and key; the key is ``""`` unless the attribute is a dict.
        averaged: the infos that ``metadata`` names, each behind ``"score"`` or ``"figure"``.
    """

    title: str
    names: dict[str, dict[str, str]]
    action_space: Any
    observation_space: gymnasium.Space | None
    averaged: tuple[tuple[str, Any], ...]


def declared_roles(environment: Environment) -> Declared:
    """Read the attributes about roles. Raises SchemaError for one of a wrong type."""
    names: dict[str, dict[str, str]] = {}
    for role in ROLES:
        if role.component:
            continue
        given = getattr(environment, role.name)
        if given is None and role.required:
            raise SchemaError(f"{environment.name}: {role.name} must be {_FORMS[role.forms]}, got None")
        if not isinstance(given, role.forms) and not (given is None and role.forms == (str,)):
            write = _as_name(environment, role, given)
            raise SchemaError(
                f"{environment.name}: {role.name} must be {_FORMS[role.forms]}, got {given!r}{write}"
            )
        for key, name in given.items() if isinstance(given, Mapping) else ():
            if not isinstance(key, str):
                raise SchemaError(f"{environment.name}: the keys of {role.name} must be names, got {key!r}")
            if not isinstance(name, str):
                raise SchemaError(f"{environment.name}: {role.name} {key!r} must be the name of a column, got {name!r}")
        names[role.name] = {"": given} if given and isinstance(given, str) else dict(given or {})
    for name in ("fast_math", "clips_actions", "judges_illegal_actions"):
        if not isinstance(getattr(environment, name), bool):
            raise SchemaError(f"{environment.name}: {name} must be True or False, got {getattr(environment, name)!r}")
    space = environment.observation_space
    if space is not None and not isinstance(space, gymnasium.Space):
        raise SchemaError(
            f"{environment.name}: observation_space must be a space, such as gymnasium.spaces.Box(-1, 1, (4,)), "
            f"or None, got {space!r}"
        )
    for role in ("info", "critic"):
        for key in names[role]:
            if key in _INFO_KEYS or key.startswith("_"):
                raise SchemaError(f"{environment.name}: {role} {key!r} is a name of gymnasium's or the engine's own")
    for other in ("info", "observation"):
        for key in names["critic"]:
            if key in names[other]:
                raise SchemaError(f"{environment.name}: critic {key!r} is a name of {other} too: choose another one")
    score, figures = environment.metadata.get("score"), environment.metadata.get("figures", ())
    averaged = [("score", score)] if score is not None else []
    averaged += [("figure", name) for name in figures]
    return Declared(environment.name, names, environment.action_space, space, tuple(averaged))


def _as_name(environment: Environment, role: Role, given: Any) -> str:
    """How a column is named, where a component was given; how several are named by keys, where a list was."""
    if isinstance(given, type) and issubclass(given, Component):
        having = [each.name for each in environment.archetypes if given in each.components]  # which are read before
        return f"; write {f'{having[0]}.{given.__name__}'!r}" if having else ""
    if Mapping not in role.forms or not isinstance(given, (list, tuple)) or not all(isinstance(n, str) for n in given):
        return ""
    return f"; write {({name.rpartition('.')[2].lower(): name for name in given})}"


def resolve(
    declared: Declared, archetypes: Sequence[Archetype], columns: Mapping[str, Column], find: Find
) -> Roles:
    """Find the columns of all roles. Raises SchemaError for a missing one, and for one that does not fit its role."""
    for name, what in (("action", "what agents do"), ("observation", "what agents see")):
        if not declared.names[name]:
            listed = ", ".join(each for each in columns if not columns[each].singleton)
            raise SchemaError(
                f"{declared.title} has no {name!r}: name the column of {what}, {name} = 'Archetype.Component', or a "
                f"field of it; columns: {listed}"
            )
    agents = _agents(declared, archetypes, find)
    found: dict[str, dict[str, Column]] = {}
    for role in ROLES:
        if role.component:
            found[role.name] = _own_component(declared, role, agents, archetypes, columns)
        else:
            named = declared.names[role.name].items()
            found[role.name] = {key: _column(declared, role, name, agents, find) for key, name in named}
    for column in (column for keyed in found.values() for column in keyed.values()):
        if column.scratch:
            raise SchemaError(
                f"{declared.title}: {column.name} is scratch, which holds anything between steps; what is an action, "
                "an observation, an info or a reward cannot be"
            )
    end, team = found["end"].get(""), found["team"].get("")
    if end is not None and end in found["observation"].values():
        raise SchemaError(f"{declared.title}: {end.name} cannot be an observation: it says how a step has ended")
    if team is not None and team in (end, found["action"][""]):
        raise SchemaError(f"{declared.title}: {team.name} cannot be the team, because it has another role already")
    info = found["info"] | found["critic"]
    info |= {role.name: found[role.name][""] for role in ROLES if role.info and found[role.name]}
    action = found["action"][""]
    action_space = _action_space(declared, action)
    _check_mask(declared, action_space, info.get("action_mask"))
    _check_score(declared, info)
    return Roles(
        agents,
        action,
        found["observation"],
        info,
        found["critic"],
        found["reward"][""],
        end,
        action_space,
        _observation_space(declared, found["observation"]),
        gymnasium.spaces.Dict(_boxes(found["critic"])) if found["critic"] else None,
    )


def check_agents(declared: Declared, archetypes: Sequence[Archetype]) -> None:
    """Raise SchemaError where the action is of rows that come and go: before systems are matched, which would say
    something else."""
    for agents in archetypes:
        action = declared.names["action"].get("", "")
        if agents.dynamic and action.startswith(f"{agents.name}."):
            raise SchemaError(
                f"action {action!r} is of {agents.name}, whose rows come and go; agents are rows of "
                "the vector environment and need an archetype with count="
            )


def _agents(declared: Declared, archetypes: Sequence[Archetype], find: Find) -> Archetype:
    """The archetype of the action."""
    name = declared.names["action"][""]
    action = _dense(declared, ROLES[0], name, find)
    if action.singleton:
        raise SchemaError(f"action {name!r} must be a column of the agents' archetype, not a singleton")
    return next(archetype for archetype in archetypes if archetype.name == action.table)


def _dense(declared: Declared, role: Role, name: str, find: Find, agents: Archetype | None = None) -> Column:
    try:
        column, selected = find(name, role.name)
    except (KeyError, TypeError) as error:
        raise SchemaError(f"{declared.title}: {error.args[0]}") from None
    if agents is not None and column.table != agents.name:
        raise SchemaError(
            f"{declared.title}: {role.name} {name!r} must be of the agents' archetype {agents.name}, because it says "
            f"of each agent {role.meaning}"
        )
    if selected is not None and len(column.component.fields) > 1:
        raise SchemaError(
            f"{declared.title}: {role.name} {name!r} is one of the {len(column.component.fields)} fields of "
            f"{column.name}, and must be a whole component, so that it is a dense tensor: {_whole(column)}give the "
            "field a component of its own"
        )
    if column.dtype is None:
        fields = ", ".join(f"{each.name}: {each.type}" for each in column.component.fields)
        remedy = ", or name several in a dict, {'key': 'column', ...}" if Mapping in role.forms else ""
        raise SchemaError(
            f"{declared.title}: {role.name} {name!r} has fields of several types ({fields}), and must have one, so "
            f"that it is a dense tensor: make a component of each type{remedy}"
        )
    return column


def _whole(column: Column) -> str:
    """The advice to name the whole column, where that is a dense tensor."""
    return f"write {column.name!r}, or " if column.dtype is not None else ""


def _column(declared: Declared, role: Role, name: str, agents: Archetype, find: Find) -> Column:
    column = _dense(declared, role, name, find, agents)
    if (role.dtypes and column.dtype not in role.dtypes) or (role.scalar and column.value_shape):
        shape = f" of shape {list(column.value_shape)}" if column.value_shape else ""
        raise SchemaError(
            f"{declared.title}: {role.name} {name!r} must hold {role.holds.replace('`', '')}, got "
            f"{numpy_dtype(column.dtype)}{shape} per agent"
        )
    return column


def _own_component(
    declared: Declared,
    role: Role,
    agents: Archetype,
    archetypes: Sequence[Archetype],
    columns: Mapping[str, Column],
) -> dict[str, Column]:
    """The column of a component of the engine's, which only the agents' archetype may have."""
    name = role.component.__name__
    for column in columns.values():
        if column.component is role.component and column.table != agents.name:
            holder = "a singleton or resource" if column.singleton else column.table
            raise SchemaError(
                f"{declared.title}: {holder} has the component {name}, but only the archetype with the actions, "
                f"{agents.name}, may have it"
            )
    if role.component in agents.components:
        return {"": columns[f"{agents.name}.{name}"]}
    if role.required:
        raise SchemaError(f"archetype {agents.name} has the actions and so must have the component {name}")
    return {}


# ---- spaces, masks, scores -----------------------------------------------------------------------------------------


def _action_space(declared: Declared, action: Column) -> gymnasium.Space:
    low, high, said = limits(action)
    space = declared.action_space
    if space is None and said.all():
        return _space_between(declared, action, low, high)
    if not isinstance(space, (Discrete, MultiDiscrete, Box)):
        if space is None:
            raise SchemaError(_without_ranges(declared, action))
        raise SchemaError(f"{declared.title}: action_space must be Discrete, MultiDiscrete or Box, got {space!r}")
    if space.shape != action.value_shape or isinstance(space, Box) != action.dtype.is_floating_point:
        raise SchemaError(
            f"{declared.title}: action_space {space} does not fit column {action.name}, "
            f"which holds {action.dtype} of shape {list(action.value_shape)} per agent"
        )
    _check_agreement(declared, "action_space", space, action)
    if not isinstance(space, Box):
        kept = np.iinfo(numpy_dtype(action.dtype))
        if int(np.min(space.start)) < kept.min or int(np.max(space.start + choices(space))) - 1 > kept.max:
            raise SchemaError(
                f"{declared.title}: action_space {space} has values that column {action.name} of "
                f"{action.dtype} cannot hold"
            )
    return space


def _without_ranges(declared: Declared, action: Column) -> str:
    """What to write where neither the fields of an action nor ``action_space`` say which actions there are."""
    fields = [field for field in action.component.fields if field.low is None]
    names = " and ".join(f"{action.component.__name__}.{field.name}" for field in fields)
    low, high = ("-1.0", "1.0") if action.dtype.is_floating_point else ("0", "1")
    example = f"{fields[0].name}: {fields[0].type} = between({low}, {high})"
    needed = "need ranges" if fields[1:] else "needs a range"
    return (
        f"{declared.title}: {names} of action {declared.names['action']['']!r} {needed}, such as `{example}`; or give "
        "action_space, a Discrete, MultiDiscrete or Box"
    )


def _space_between(declared: Declared, action: Column, low: np.ndarray, high: np.ndarray) -> gymnasium.Space:
    """The action space that follows from ranges."""
    if action.dtype.is_floating_point:
        return Box(low, high, dtype=numpy_dtype(action.dtype).type)
    if int(np.max(high.astype(np.int64) - low)) >= MOST_CHOICES:
        raise SchemaError(
            f"{declared.title}: the ranges of {action.name} make more than {MOST_CHOICES} choices of an action"
        )
    if not action.value_shape:
        return Discrete(int(high) - int(low) + 1, start=int(low))
    return MultiDiscrete(high.astype(np.int64) - low + 1, start=low.astype(np.int64))


def _observation_space(declared: Declared, observations: Mapping[str, Column]) -> gymnasium.Space:
    given = declared.observation_space
    if given is None:
        boxes = _boxes(observations)
        return boxes[""] if "" in boxes else gymnasium.spaces.Dict(boxes)
    parts = given.spaces if isinstance(given, gymnasium.spaces.Dict) else {"": given}
    if set(parts) != set(observations):
        raise SchemaError(f"{declared.title}: observation_space must have the keys {sorted(observations)}")
    for key, column in observations.items():
        dtype = numpy_dtype(column.dtype)
        if parts[key].shape != column.value_shape or parts[key].dtype != dtype:
            raise SchemaError(
                f"{declared.title}: observation_space {parts[key]} does not fit column {column.name}, "
                f"which holds {dtype} of shape {list(column.value_shape)} per agent"
            )
        _check_agreement(declared, f"observation_space{f'[{key!r}]' if key else ''}", parts[key], column)
    return given


def _boxes(columns: Mapping[str, Column]) -> dict[str, Box]:
    """The spaces that follow from the ranges of fields."""
    boxes = {}
    for key, column in columns.items():
        low, high, _ = limits(column)
        boxes[key] = Box(low, high, dtype=numpy_dtype(column.dtype).type)
    return boxes


def _check_agreement(declared: Declared, what: str, space: gymnasium.Space, column: Column) -> None:
    """Raise SchemaError where a space says something else than the ranges of the column's fields."""
    _, _, said = limits(column)
    for end, own, range_of in zip(("least", "greatest"), bounds(space), limits(column)[:2], strict=True):
        own = np.broadcast_to(own, said.shape)
        differs = said & (own != range_of)
        if differs.any():
            place = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differs)))
            at = f"[{', '.join(map(str, place))}]" if said.shape else ""
            raise SchemaError(
                f"{declared.title}: {what}{at} has the {end} value {np.atleast_1d(own)[place]}, but the range of the "
                f"field in {column.name} says {np.atleast_1d(range_of)[place]}: leave one of them out"
            )


def choices(space: Discrete | MultiDiscrete) -> np.ndarray:
    """Number of choices in each part of an action."""
    return np.asarray(space.nvec if isinstance(space, MultiDiscrete) else space.n)


def _check_mask(declared: Declared, action_space: gymnasium.Space, mask: Column | None) -> None:
    if mask is None:
        return
    if not isinstance(action_space, (Discrete, MultiDiscrete)):
        raise SchemaError(f"{declared.title}: action_mask needs a Discrete or MultiDiscrete action_space")
    count = int(choices(action_space).sum())
    if mask.value_shape != (count,):
        raise SchemaError(
            f"action_mask {mask.name!r} must have one boolean for each choice of action_space "
            f"{action_space}, that is {count}, got shape {list(mask.value_shape)}"
        )


def _check_score(declared: Declared, info: Mapping[str, Column]) -> None:
    """That the score and the figures, which trainers average over episodes, are numbers of rows."""
    for what, name in declared.averaged:
        if name not in info or info[name].value_shape != ():
            scalars = [name for name, column in info.items() if column.value_shape == ()]
            raise SchemaError(
                f"{declared.title}: metadata names the {what} {name!r}, which must be an info with one number a row; "
                f"of these there are: {', '.join(scalars) or 'none'}"
            )
