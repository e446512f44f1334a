"""What an environment and a library have in common: tables, options, and headers with systems."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.names import check_identifier, is_mistyped, near_miss, nearest, suggestion
from ..errors import SchemaError
from .options import Constants, Option, Parameters, Values
from .schema import Archetype, Component, TaskGraph

MYPY = False  # which mypy takes as True
ENGINE_HEADERS = Path(next(p for p in (Path(d) / "csrc" for d in __import__("torch_batchsim").__path__) if p.is_dir()))


class Declaration:
    """Base of ``Environment`` and ``Library``. Subclass one of these, and set the class attributes:

    - ``systems``: the C++ header with the systems, or a tuple of several: beside the file of the class that names them,
      in a folder of ``include`` or in the engine's own, or absolute.
    - ``include``: folders in which ``#include "folder/header.h"`` is looked up, after the folder of the including
      file and before the engine's own (other declarations do not look there); relative to the file of the class that
      names them, or absolute.
    - ``archetypes``: list of ``Archetype``; ``singletons``: list of components with one row per world; ``resources``:
      list of components that there are once for all worlds, which systems only read (see ``resource_values``).
    - ``scratch``: those of the components (singletons, or of archetypes) whose columns are memory that systems use
      within one task graph: it holds anything when that begins, is not zeroed for a new episode, and is not part
      of a state.
    - ``workspace``: list of components that systems take by reference as memory of their own: it lasts for as long as a
      system runs for a world, and holds anything when that begins. A thread has one of each on CPU, a world on CUDA.
    - ``lasting``: those of ``workspace`` that on CUDA last until the task graph ends: a system finds there what an
      earlier one has left for its world. On CPU none lasts.
    - ``kept``: those of the singletons that a new episode finds as they were, so that they can be written before it.
    - ``parameters``, ``constants``: the keyword options.
    - ``enums``: ``enum.IntEnum`` classes that systems use too: ``Ground.POT`` is ``Ground::POT`` or ``POT`` in C++.
    - ``definitions``: C++ behind the enumerations, which a table in Python generates.
    - ``faults``: names of what systems report by ``world.fail(Fault::name, value)``; or a dict from these to sentences,
      with ``{row}`` for the row that a system runs on, or that ``world.fail(Fault::name, table.place(i))`` gives,
      ``{value}`` for the value, ``{Speed.along}`` for what a field of the row holds when the fault is raised, and names
      of options. Of several sentences, ``table.place(i, k)`` chooses the k-th.

    What depends on options may be a property that reads ``self.constants`` or ``self.parameters``.
    """

    systems: str | Sequence[str] = ()
    include: Sequence[str] = ()
    # A subclass may have a property in place of a value. mypy accepts that of a property, pyright of Any.
    if MYPY:

        @property
        def archetypes(self) -> Sequence[Archetype]: ...

        @property
        def singletons(self) -> Sequence[type[Component]]: ...

        @property
        def resources(self) -> Sequence[type[Component]]: ...

        @property
        def scratch(self) -> Sequence[type[Component]]: ...

        @property
        def workspace(self) -> Sequence[type[Component]]: ...

        @property
        def lasting(self) -> Sequence[type[Component]]: ...

        @property
        def kept(self) -> Sequence[type[Component]]: ...

    elif TYPE_CHECKING:
        archetypes: Any
        singletons: Any
        resources: Any
        scratch: Any
        workspace: Any
        lasting: Any
        kept: Any
    else:
        archetypes: Sequence[Archetype] = ()
        singletons: Sequence[type[Component]] = ()
        resources: Sequence[type[Component]] = ()
        scratch: Sequence[type[Component]] = ()
        workspace: Sequence[type[Component]] = ()
        lasting: Sequence[type[Component]] = ()
        kept: Sequence[type[Component]] = ()
    enums: Sequence[type[IntEnum]] = ()
    definitions: str = ""
    faults: Sequence[str] | Mapping[str, str | Sequence[str]] = ()
    parameters: Any = Parameters()
    constants: Any = Constants()
    _asked = None  # of an instance whose archetypes are being made to be counted, see Library.most_rows

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Declaration not in cls.__bases__:
            _check_attributes(cls)

    def __init__(self, **options: Any) -> None:
        """Args: values for the options that ``parameters`` and ``constants`` declare. Raises TypeError, ValueError."""
        cls = type(self)
        cls.check_options(options)
        known = {**cls.constants.options, **cls.parameters.options}
        values = {
            name: option.checked(cls.option_title(name), options.get(name, option.default))
            for name, option in known.items()
        }
        self.constants = Values({name: values[name] for name in cls.constants.options})
        self.parameters = Values({name: values[name] for name in cls.parameters.options})

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Keyword arguments."""
        return tuple(cls.described_options())

    @classmethod
    def described_options(cls) -> dict[str, Any]:
        """Keyword arguments, each with its ``Option``, or with a line about its values.

        A class whose ``__init__`` takes more than the declared options extends this.
        """
        return {**cls.constants.options, **cls.parameters.options}

    @classmethod
    def check_options(cls, given: Iterable[str], others: tuple[str, ...] = ()) -> None:
        """Raise TypeError for a name that is not an option; the message lists ``others`` too, options of the caller."""
        known = (*cls.option_names(), *others)
        for name in given:
            if name not in known:
                hint, has = cls.option_hint(name, known), ", ".join(known) or "none"
                raise TypeError(f"{cls.__name__} got an unexpected keyword argument {name!r}{hint}; it has: {has}")

    @classmethod
    def option_title(cls, name: str) -> str:
        """How messages call an option."""
        return name

    @classmethod
    def option_hint(cls, name: str, known: Iterable[str]) -> str:
        """What messages say behind a name that is not among the ``known`` options."""
        return suggestion(name, known)

    def add_constants(self, **values: bool | int | float) -> None:
        """Constants for the systems that follow from options, such as the size of a level: ``Constants::width``."""
        for name, value in values.items():
            check_identifier(name, "a constant")
            if name in self.constants:
                raise SchemaError(f"{self.title}: add_constants adds {name!r}, which is a constant already; rename it")
            Option(value).checked(name, value)
        self.constants = Values({**self.constants, **values})

    @property
    def title(self) -> str:
        """How messages call it."""
        return type(self).__name__

    @property
    def sources(self) -> tuple[Path, ...]:
        """The headers with the systems. Raises SchemaError where one is not found."""
        if not self._needs_header:
            return ()
        names = (self.systems,) if isinstance(self.systems, (str, Path)) else self.systems
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, (str, Path)) for name in names):
            raise SchemaError(f"{self.title}: systems must be a file's name or a tuple of them, got {names!r}")
        return tuple(self._source(name) for name in names)

    @property
    def _needs_header(self) -> bool:
        """Whether the headers that ``systems`` names must be there."""
        return True

    def _source(self, name: str) -> Path:
        if isinstance(name, str) and ("TBS_" in name or "\n" in name):
            raise SchemaError(f"{self.title}: systems is the name of a header, such as 'systems.h', got text of C++")
        if Path(name).is_absolute():
            folders: tuple[Path, ...] = (Path(),)
        else:
            folders = (*self._beside("systems"), *self.include_folders, ENGINE_HEADERS)
        found = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if found is None:
            missing = folders[0] / name
            near = suggestion(missing.name, [path.name for path in missing.parent.glob("*.h")])
            wrong = "is a folder" if missing.is_dir() else f"does not exist{near}"
            raise SchemaError(f"the systems' file {missing} {wrong}: {self.title} has systems = {str(name)!r}")
        return found

    @property
    def include_folders(self) -> tuple[Path, ...]:
        """The folders of ``include``, absolute. Raises SchemaError for a missing folder."""
        if not isinstance(self.include, (list, tuple)):
            raise SchemaError(f"{self.title}: include must be a tuple of folders, got {self.include!r}")
        folders = []
        for name in self.include:
            folder = Path(name) if Path(name).is_absolute() else self._beside("include")[0] / name
            if not folder.is_dir():
                raise SchemaError(f"{self.title}: the folder {folder} of include does not exist")
            folders.append(folder.resolve())
        return tuple(folders)

    def _beside(self, attribute: str) -> list[Path]:
        """The folder of the class that sets ``attribute``; where none does, of all that could."""
        classes = [cls for cls in type(self).__mro__ if issubclass(cls, Declaration) and cls is not Declaration]
        own = [cls for cls in classes if Declaration not in cls.__bases__]
        setters = [cls for cls in own if attribute in vars(cls)]
        try:
            return [Path(inspect.getfile(cls)).parent for cls in (setters[:1] or own)]
        except (OSError, TypeError):
            raise SchemaError(
                f"{self.title} is not in a file, so give {attribute!r} as an absolute path, got "
                f"{getattr(self, attribute)!r}"
            ) from None

    def resource_values(self) -> Mapping[str, Any]:
        """What resources hold at first, by name of component or field: ``{"Levels.walls": array}``; the rest is zero.

        Values are numbers, arrays or tensors that can be broadcast to the shape that ``sim.tensor(name)`` has.
        """
        return {}


_METADATA = ("render_fps", "render_modes", "score", "figures")
_LIMIT = (
    "a limit of steps is a parameter, parameters = Parameters(max_episode_steps=Option(200, minimum=1)), and a system "
    "ends the episode: episode.truncated = episode.step >= u32(world.parameters.max_episode_steps)"
)
_AGENTS = "the agents are the rows of their archetype: Archetype(..., count=3)"
_WORLDS = "the number of worlds is given where the environment is made: make_vec(..., num_envs=4096)"
# Attributes of other libraries' environments, and their counterparts here.
_SET_ELSEWHERE = {
    **dict.fromkeys(("agents", "num_agents", "n_agents", "possible_agents", "agent_count"), _AGENTS),
    **dict.fromkeys(("num_envs", "num_worlds", "worlds", "batch_size"), _WORLDS),
    **dict.fromkeys(("max_episode_steps", "max_steps", "episode_length", "time_limit", "horizon"), _LIMIT),
    **dict.fromkeys(
        ("reward", "rewards", "reward_range"),
        "the reward is the component Reward, which stands in the agents' archetype and which a system writes",
    ),
    **dict.fromkeys(
        ("end", "done", "dones", "terminated", "truncated", "termination"),
        "systems end episodes by Episode &episode, and those of one agent by the component AgentEnd in its archetype",
    ),
    "seed": "the seed is given to env.reset(seed=...)",
    "device": "the device is given where the environment is made: make_vec(..., device=\"cuda\")",
    "reset": "the systems that begin an episode are named in start: start = TaskGraph(...)",
    "options": "options are declared in parameters = Parameters(...) and constants = Constants(...)",
}


def _check_kinds(cls: type[Declaration]) -> None:
    """Reject attributes of a wrong type, unless they are properties."""
    for name, form, kinds in (
        ("metadata", "a dict", (Mapping,)),
        ("training", "a dict", (Mapping,)),
        ("sweep", "a dict", (Mapping,)),
        ("library_options", "a dict of dicts, by name of library", (Mapping,)),
        ("name", "a string", (str,)),
    ):
        given = getattr(cls, name, None)
        if hasattr(cls, name) and not hasattr(given, "__get__") and not isinstance(given, kinds):
            raise SchemaError(f"{cls.__name__}: {name} must be {form}, got {given!r}")


def _check_mapping(cls: type[Declaration], name: str) -> None:
    """Check ``metadata`` and ``training`` of an environment, unless they are properties."""
    given = getattr(cls, name, {})
    if hasattr(given, "__get__"):
        return
    flat = next((key for key, value in given.items() if not isinstance(value, Mapping)), None)
    if name == "metadata":
        for key in given:
            near = near_miss(key, _METADATA) if isinstance(key, str) and key not in _METADATA else None
            if near is not None:
                raise SchemaError(
                    f"{cls.__name__}: metadata has {key!r}, which nobody reads (did you mean {near!r}?); if it is "
                    "something of your own, rename it"
                )
    if name == "training" and flat is not None:
        raise SchemaError(
            f"{cls.__name__}: training holds settings under the option that they are for, \"\" for all: "
            f"training = {{\"\": {{{flat!r}: {given[flat]!r}}}}}"
        )


def _misspelt_beside(cls: type[Declaration], name: str, others: Iterable[str]) -> str | None:
    """Which of the attributes that the class sets ``name`` misspells: it holds the same kind of value."""
    kind = type(getattr(cls, name))
    return next((o for o in others if is_mistyped(name, o) and type(getattr(cls, o)) is kind), None)


def _check_methods(cls: type[Declaration], kind: type[Declaration]) -> None:
    """Reject methods that only the other kind of declaration has, and values in place of methods of this one."""
    others = {name: other for other in Declaration.__subclasses__() if other is not kind for name in vars(other)}
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        if value is None:  # as where a class does without a method of its base
            continue
        if callable(getattr(kind, name, None)) and not callable(value) and not hasattr(value, "__get__"):
            raise SchemaError(f"{cls.__name__}: {name} must be a method, got {value!r}")
        if callable(value) and name in others and not hasattr(kind, name) and callable(vars(others[name])[name]):
            raise SchemaError(
                f"{cls.__name__} defines {name}(), a method of {others[name].__name__} that is not called of "
                f"{kind.__name__}; if it is something of your own, rename it"
            )


def _check_attributes(cls: type[Declaration]) -> None:
    """Reject attributes without an effect that look like ones with an effect; all others are the author's own.

    Those are, of the public attributes that are not callable, the ones of the other kind of declaration, near
    misses of an attribute that the class leaves unset, and misspelt ones beside a right one. Raises SchemaError.
    """
    kind = next(base for base in cls.__mro__ if Declaration in base.__bases__)
    known = {*inspect.get_annotations(Declaration), *inspect.get_annotations(kind)}
    others = {name: other for other in Declaration.__subclasses__() for name in inspect.get_annotations(other)}
    authors = [base for base in cls.__mro__ if base not in kind.__mro__]
    unset = known.difference(*map(vars, authors))
    for name, of in (("constants", Constants), ("parameters", Parameters)):
        if not isinstance(getattr(cls, name), of):
            raise SchemaError(
                f"{cls.__name__}: {name} must be {of.__name__}(...), such as {name} = {of.__name__}(size=9), got "
                f"{getattr(cls, name)!r}"
            )
    twice = next((name for name in cls.parameters.options if name in cls.constants.options), None)
    if twice is not None:
        raise SchemaError(f"{cls.__name__}: option {twice!r} is among constants and parameters; leave one of them out")
    _check_kinds(cls)
    for name in ("metadata", "training"):
        _check_mapping(cls, name)
    _check_methods(cls, kind)
    for name, value in vars(cls).items():
        own = isinstance(value, (classmethod, staticmethod)) or callable(value) or hasattr(kind, name)
        if name.startswith("_") or name in known or own:
            continue
        if name in _SET_ELSEWHERE and "step" in known and not hasattr(value, "__get__"):
            raise SchemaError(
                f"{cls.__name__} sets {name!r}, which the engine does not read: {_SET_ELSEWHERE[name]}; if it is "
                "something of your own, rename it"
            )
        if name in others:
            raise SchemaError(
                f"{cls.__name__} sets {name!r}, which is an attribute of {others[name].__name__}, not of "
                f"{kind.__name__}{suggestion(name, unset)}; if it is something of your own, rename it"
            )
        near = near_miss(name, sorted(unset)) or _misspelt_beside(cls, name, sorted(known - unset))
        if near is None and isinstance(value, str) and "." in value:  # the name of a column
            near = next((other for other in sorted(unset) if name in other.split("_")), None)
        if near is None and isinstance(value, TaskGraph):
            near = nearest(name, sorted(unset & {"start", "step", "observe"}))
        if near is not None:
            raise SchemaError(
                f"{cls.__name__} sets {name!r}, which {kind.__name__} does not have (did you mean {near!r}?); if it is "
                "something of your own, rename it"
            )
