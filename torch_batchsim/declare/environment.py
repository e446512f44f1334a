"""The declaration of an environment."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium
import numpy as np
import torch

from ..errors import SchemaError
from ..types import FieldType
from .controls import Control
from .declaration import MYPY, Declaration
from .library import library_classes, made_libraries
from .options import FIXED_ARGUMENTS
from .policies import ScriptedPolicy
from .schema import TaskGraph

if TYPE_CHECKING:
    from ..draw import Scene

_Declared = TypeVar("_Declared", bound="Environment")


class Environment(Declaration):
    """The declaration of one environment. Subclass it, set the class attributes, and write ``systems.h`` beside it.

    Class attributes are those of a ``Declaration`` and these (what depends on options may be a property):

    - ``libraries``: tuple of ``Library`` classes. Their options are given as ``grid=dict(cell=0.2)``; an instance has
      them as ``self.libraries["grid"]`` (or ``self.libraries.grid``), together with those that they use.
    - ``library_options``: defaults of this environment for them: ``{"grid": {"cell": 0.3}}``.
    - ``start``: task graph for worlds that begin an episode (their state is zero before it, but for ``kept``).
    - ``step``: task graph of a step.
    - ``observe``: task graph that writes observations wholly from the state; runs after ``step`` and after ``start``.
    - ``reset_options``: what ``reset(options={...})`` takes for the episodes that it begins, by name: the type of its
      value in one world (``{"deck": u8[52]}``), see ``reset_values``; or the field of a ``kept`` singleton to which it
      goes (``{"deck": "Deck.cards"}``).
    - ``observation``: a column such as ``"Cart.CartState"``, or a dict of them; ``action``: a column.
      Their archetype is the agents' one: each of its rows is a row of the vector environment.
    - ``info``: dict of name to column, delivered in ``infos``; there too ``critic``, a dict of columns that a
      centralised critic reads beside the observation; and, if they are not None: ``action_mask``
      (booleans, one a choice), ``active`` (one boolean a row: where it is false, the row may be given any action and is
      not trained on) and ``team`` (one integer a row). ``torch_batchsim.declare.roles`` describes all roles of columns.
    - ``step_counters``: names of integer fields of singletons that count the steps of an episode too, such as
      ``"Kitchen.timestep"``: where a user writes ``env.episode_steps``, they move with ``World.step``.
    - ``action_space``, ``observation_space``: of one agent. Both follow from ranges (``between``) of their
      columns' fields; an action space is required where these have none.
    - ``clips_actions``: systems clip actions to the Box of ``action_space`` themselves, as physics does where a motor
      has no more force: any finite number may then be given.
    - ``judges_illegal_actions``: systems deal with actions that ``action_mask`` forbids, by a fault or a penalty, say:
      a checked build, which otherwise raises ValueError, lets them pass.
    - ``fast_math``: compile with relaxed floating point; results are then no longer the same everywhere.
    - ``metadata``: may hold ``render_fps``, and ``score``: the name of an info, one number a row, that counts at the
      end of an episode in place of the rewards (which may hold shaping), and ``figures``: names of such infos that
      trainers log, also as they are at the end of an episode.
    - ``controls``: what a human presses who plays on the live page, each a ``Control``; by default a button for each
      choice of a discrete space.
    - ``idle_action``: what the agent does while nothing is pressed: an action, or ``"repeat"``: as last. By default its
      world waits for the human.
    - ``policies``: scripted policies that the live page offers, by name: functions of the observations and infos of all
      rows, as ``step`` returns them (tensors), that return the actions of all rows; see
      ``torch_batchsim.declare.policies``.
    - ``training``: settings with which the bundled trainer learns it, by name as on its command line
      (``{"learning_rate": 1e-3, "threads": 1}``), under ``""`` those that hold in general, and others under an option
      that makes another task of it, as ``"preset=small"``, or under ``"algorithm=a2c"``.
    - ``sweep``: what such settings may be when the trainer searches for good ones: ``(low, high)``, ``(low, high,
      "log")`` or a list of choices for each.
    """

    systems: str | Sequence[str] = "systems.h"
    libraries: Any = ()
    library_options: Mapping[str, Mapping[str, Any]] = {}
    reset_options: Mapping[str, FieldType | str] = {}
    # As in ``Declaration``.
    if MYPY:

        @property
        def start(self) -> TaskGraph: ...

        @property
        def step(self) -> TaskGraph: ...

        @property
        def observe(self) -> TaskGraph: ...

        @property
        def action_space(self) -> gymnasium.Space | None: ...

        @property
        def observation_space(self) -> gymnasium.Space | None: ...

        @property
        def observation(self) -> str | Mapping[str, str]: ...

        @property
        def controls(self) -> Sequence[Control]: ...

        @property
        def idle_action(self) -> Any: ...

        @property
        def policies(self) -> Mapping[str, ScriptedPolicy]: ...

    elif TYPE_CHECKING:
        start: Any
        step: Any
        observe: Any
        action_space: Any
        observation_space: Any
        observation: Any
        controls: Any
        idle_action: Any
        policies: Any
    else:
        start: TaskGraph = TaskGraph()
        step: TaskGraph = TaskGraph()
        observe: TaskGraph = TaskGraph()
        action_space: gymnasium.Space | None = None
        observation_space: gymnasium.Space | None = None
        observation: str | Mapping[str, str] = ""
        controls: Sequence[Control] = ()
        idle_action: Any = None
        policies: Mapping[str, ScriptedPolicy] = {}
    action: str = ""
    clips_actions: bool = False
    judges_illegal_actions: bool = False
    info: Mapping[str, str] = {}
    critic: Mapping[str, str] = {}
    action_mask: str | None = None
    active: str | None = None
    team: str | None = None
    step_counters: Sequence[str] = ()
    fast_math: bool = False
    metadata: Mapping[str, Any] = {}
    training: Mapping[str, Mapping[str, Any]] = {}
    sweep: Mapping[str, Any] = {}

    def __new__(cls: type[_Declared], *args: Any, **options: Any) -> _Declared:
        _check_call(cls, options)
        made = super().__new__(cls)
        made._arguments = args, options
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied by its arguments: everything else follows from these. The class must be importable."""
        args, options = self._arguments
        return _made, (type(self), args, options)

    def __init__(self, **options: Any) -> None:
        """Args: values for the options that ``parameters`` and ``constants`` declare, and a dict for each library.

        Raises TypeError, ValueError; SchemaError where the libraries do not go together.
        """
        super().__init__(**options)
        self.libraries = made_libraries(library_classes(type(self)), self.library_options, options)
        for library in self.libraries.values():
            library._environment = self

    @property
    def _needs_header(self) -> bool:
        """Without ``systems`` of its own, an environment with systems in Python has a header only if one lies there."""
        declared = [cls for cls in type(self).__mro__ if cls not in (Environment, Declaration)]
        own = any("systems" in vars(cls) for cls in declared)
        graphs = (getattr(self, name) for name in ("start", "step", "observe"))
        if own or not any(isinstance(graph, TaskGraph) and graph.has_python_systems for graph in graphs):
            return True
        try:
            return any((folder / Environment.systems).is_file() for folder in self._beside("systems"))
        except SchemaError:  # a class of a notebook
            return False

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises AttributeError for an option, unless it has that value."""
        for options in (self.__dict__.get("constants", {}), self.__dict__.get("parameters", {})):
            if name in options and not np.array_equal(options[name], value):
                raise fixed_option(name, value, self.name)
        super().__setattr__(name, value)

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        """Keyword arguments, those of the class's own ``__init__`` too; of a library a dict of its own."""
        own, libraries = super().described_options(), library_classes(cls)
        for name in own:
            if name in libraries:
                raise SchemaError(f"{cls.__name__} has an option and a library of the name {name!r}; rename the option")
        of_libraries = {name: library.described_options() for name, library in libraries.items()}
        return {**dict.fromkeys(_own_arguments(cls)[0], ""), **own, **of_libraries}

    @classmethod
    def option_hint(cls, name: str, known: Iterable[str]) -> str:
        for library in library_classes(cls).values():
            if name in library.option_names():
                return f" (it is of library {library.name}: give {library.name}=dict({name}=...))"
        return super().option_hint(name, known)

    @property
    def name(self) -> str:
        return type(self).__name__

    def reset_values(self, options: Mapping[str, torch.Tensor], worlds: torch.Tensor) -> Mapping[str, Any]:
        """What ``reset`` writes into ``kept`` singletons before ``start`` runs, by name of component or field.

        Args:
            options: those of ``reset_options`` that were given, on the simulator's device, ``[k, ...]``: a row for each
                world that begins an episode.
            worlds: int64 ``[k]``, their numbers, for messages.

        Not needed where all ``reset_options`` name fields. Returns numbers or tensors that can be broadcast to
        ``[k, ...]``, of other fields or in place of those. Raises TypeError or ValueError, which name
        what was given and what is allowed; nothing has changed then.
        """
        if all(isinstance(option, str) for option in self.reset_options.values()):
            return {}
        raise NotImplementedError(f"{self.name} has reset_options, but does not define reset_values()")

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        """Describe a world as shapes, which pictures, videos and replays draw; see ``torch_batchsim.draw.Scene``.

        ``world`` maps ``"Cart.CartState.x"`` to ``[rows, ...]``, a singleton's or resource's field to ``[...]``, and
        ``"World.step"`` to the steps of the episode under way. Where there are bodies of the library physics,
        ``render = torch_batchsim.rays.Picture(...)`` is all that is needed.
        """
        raise NotImplementedError(f"{self.name} has no picture: it does not define scene()")

    def scene_for(self, world: Mapping[str, np.ndarray], agents: Collection[int]) -> Scene:
        """``scene`` as these agents see it: the live page shows it while humans play for them. By default all of it.

        ``agents``: rows of this world, from 0. Write it where agents do not see all that is in a picture.
        """
        return self.scene(world)

    def render(self, world: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a world, as ``scene`` gets it, as ``uint8 [height, width, 3]``: by default its ``scene``.

        Write it in place of ``scene`` for what shapes do not express; replays then show these pictures.
        """
        if type(self).scene is Environment.scene:
            raise NotImplementedError(f"{self.name} has no picture: it does not define render()")
        return self.scene(world).pixels

    def render_text(self, world: Mapping[str, np.ndarray]) -> str:
        """Describe a world in plain text, some lines of it; ``world`` as ``render`` gets it."""
        raise NotImplementedError(f"{self.name} has no text: it does not define render_text()")


def _own_arguments(cls: type[Environment]) -> tuple[list[str], bool]:
    """Parameters of the class's own ``__init__``, and whether it takes others by ``**options``."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return named, any(each.kind is each.VAR_KEYWORD for each in parameters)


class FixedOptions:
    """Of what runs an environment: its options are read as attributes. To set them, or the arguments with which it was
    made, would do nothing, and is refused.

    The options are attributes of the instance: a ``__getattr__`` of its class would slow all attributes that a step
    reads.
    """

    _fixed: tuple[str, Collection[str]] = "", ()  # the environment's name, and those of its options

    def _fix_options(self, environment: Environment, readable: bool = True) -> None:
        """Refuse to set them from now on, except those that have the name of an attribute."""
        options = {
            name: value
            for name, value in {**environment.constants, **environment.parameters}.items()
            if name not in self.__dict__ and not hasattr(type(self), name)
        }
        self._fixed = environment.name, frozenset(options)
        if readable:
            self.__dict__.update(options)

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises AttributeError for an option."""
        self.check_attribute(name, value)
        super().__setattr__(name, value)

    def check_attribute(self, name: str, value: Any) -> None:
        """Raise AttributeError for an argument, and for an option unless it has the name of an attribute."""
        if name in FIXED_ARGUMENTS and self._fixed[0]:
            raise AttributeError(
                f"{name} cannot be set: it is given when the environment is made, such as {name}={value!r}"
            )
        if name in self._fixed[1]:
            raise fixed_option(name, value, self._fixed[0])


def fixed_option(name: str, value: Any, environment: str) -> AttributeError:
    """The error for an option that somebody sets."""
    return AttributeError(
        f"{name} is an option of {environment} and cannot be set: options are given when the environment is made, such "
        f"as {name}={value!r}, and state is written through env.unwrapped.sim.tensor(name)"
    )


def _check_call(cls: type[Environment], options: Mapping[str, Any]) -> None:
    """Raise TypeError for an option that the class's own ``__init__`` does not take."""
    named, takes_others = _own_arguments(cls)
    lost = [name for name in options if name not in named]
    if takes_others or not lost:
        return
    cls.check_options(lost)
    raise TypeError(
        f"{cls.__name__}.__init__ does not take the option {lost[0]!r}: write def __init__(self, "
        f"{''.join(f'{name}, ' for name in named)}**options), and call super().__init__(**options) in it"
    )


def _made(cls: type[Environment], args: tuple[Any, ...], options: dict[str, Any]) -> Environment:
    return cls(*args, **options)


def check_instance(given: Any) -> None:
    """Raise TypeError unless it is an ``Environment``; SchemaError if its ``__init__`` leaves out that of the base."""
    if not isinstance(given, Environment):
        raise TypeError(f"environment must be an instance of Environment, got {given!r}{_instance_hint(given)}")
    if "libraries" not in vars(given):
        raise SchemaError(f"{given.name}.__init__ does not call super().__init__(**options): call it first")


def _instance_hint(given: Any) -> str:
    """The remedy for a value in place of an instance of ``Environment``, or nothing."""
    if isinstance(given, type) and issubclass(given, Environment):
        return f"; make one of the class: {given.__name__}()"
    if isinstance(given, str):
        return f"; of a name, torch_batchsim.make_vec({given!r}, num_envs=...) makes a vector environment"
    return ""
