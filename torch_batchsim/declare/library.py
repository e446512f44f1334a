"""Libraries: components and systems in a namespace of their own, for any environment to use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ..base.names import check_identifier, suggestion
from ..errors import SchemaError
from .declaration import Declaration
from .options import RESERVED_OPTIONS, Values
from .schema import ENGINE_TENSORS, AgentEnd, Archetype, Bundle, Component, Reward, check_component

_LISTS = ("components", "singletons", "resources", "workspace")
_TAKEN = (*ENGINE_TENSORS, "systems", "tbs", "std", "fence", "executors")


class Library(Declaration):
    """A library of systems: what it declares lives in a namespace of its own, in C++, in tensor names and in options.

    Subclass it, set the class attributes of a ``Declaration`` and these, and list it in an environment's
    ``libraries``::

        class SpatialGrid(Library):
            name = "grid"
            systems = "grid.h"
            components = (Body,)
            archetypes = (Archetype("Cells", Cell, count=64),)
            parameters = Parameters(cell=Option(0.1, above=0.0))
            body = Bundle(Body, Near)
            build = TaskGraph("clear", "insert")

    - ``name``: the namespace: ``grid::Body`` in C++, ``sim.tensor("Drone.grid.Body.x")``, ``grid=dict(cell=0.2)`` for
      its options, ``world.parameters.grid.cell``, ``"grid.overflow"`` for its faults. A subclass keeps it, and
      stands for the library where it is listed.
    - ``components``: those that archetypes of environments, and of libraries that use this one, may take (those of its
      own ``archetypes``, ``singletons``, ``resources``, ``workspace`` and bundles are there already).
    - ``uses``: the libraries on which it builds, which come with it; its text may name their components, no others.
    - ``precompiled``: headers, by the names under which its texts include them, that builds for CPU compile once for
      all environments, each with the names of the constants that it reads. In front of its functions stands
      ``TBS_PRECOMPILED``; where ``TBS_USES_PRECOMPILED`` is defined it only declares them. They do not reach the world.
    - attributes that are a ``Bundle``: components that belong together, for archetypes to take.
    - attributes that are a ``TaskGraph``: fragments, for task graphs to hold.

    Its systems run over every archetype, of whichever namespace, that has their components. In Python
    ``environment.libraries["grid"]`` is the instance, with its ``parameters`` and ``constants``.
    """

    name: ClassVar[str] = ""
    components: Sequence[type[Component]] = ()
    uses: Sequence[type[Library]] = ()
    precompiled: Mapping[str, Sequence[str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = next((base.name for base in cls.__mro__[1:] if issubclass(base, Library) and base.name), cls.name)
        if cls.name != inherited:
            raise SchemaError(
                f"library {cls.__name__} must keep the name {inherited!r} of its base, because its "
                f"components live there; got {cls.name!r}"
            )
        claim(cls, vars(cls))

    @property
    def title(self) -> str:
        return f"library {self.name}"

    _environment: ClassVar[Any] = None  # of an instance: that of which it is part
    _prepared: ClassVar[bool] = False

    def prepare(self) -> None:
        """Called once, when the environment is complete and before anything is made of it.

        Sets constants that follow from archetypes: ``self.add_constants(bodies=self.most_rows(Pose, Shape))``.
        Libraries are called after those that they use.
        """

    def most_rows(self, *components: type[Component]) -> int:
        """The greatest number of rows that a world can have of all archetypes with these components.

        That is the sum of their counts and limits, those of libraries included; 0 without such archetypes. In C++
        ``World::most_rows<Pose, Shape>()`` is the same. Ask in ``prepare`` or in a property: in ``__init__`` the
        environment is still missing. Raises SchemaError there, for anything but components, and for archetypes that
        depend on their own number.
        """
        if self._environment is None:
            raise SchemaError(
                f"{self.title}: most_rows is known when the environment has been made; ask in prepare() or a property"
            )
        for component in components:
            check_component(component, f"{self.title}: most_rows")
        if not components:
            raise SchemaError(f"{self.title}: most_rows needs components")
        environment = self._environment
        return sum(_most_rows(declared, components) for declared in (environment, *environment.libraries.values()))

    @classmethod
    def option_title(cls, name: str) -> str:
        return f"{cls.name}.{name}"

    def bundles(self) -> dict[str, Bundle]:
        """Its bundles by name in Python, ``"SpatialGrid.body"``."""
        found = (getattr(type(self), name, None) for name in dir(type(self)))
        return {bundle.name: bundle for bundle in found if isinstance(bundle, Bundle)}


def claim(library: type[Library], declared: Mapping[str, Any]) -> None:
    """Give the components that a class declares to its library; a component belongs to the first that declares it.

    It is noted for the first class of the library's name: which of its subclasses is made first must not matter.
    """
    owner = next(base for base in reversed(library.__mro__) if issubclass(base, Library) and base.name == library.name)
    for name, value in declared.items():
        found: Any = value if name in _LISTS else ()
        if name == "archetypes" and isinstance(value, (list, tuple)):
            found = [c for archetype in value for c in getattr(archetype, "components", ())]
        elif isinstance(value, Bundle):
            found = value.components
        for component in found if isinstance(found, (list, tuple)) else ():
            if not (isinstance(component, type) and issubclass(component, Component)):
                continue
            if component.library is None and component not in (Reward, AgentEnd):
                component.library = owner


def library_classes(environment: type) -> dict[str, type[Library]]:
    """The libraries of an environment class by name, those that others use before them.

    A subclass replaces its library, also for others that use that. Raises SchemaError for anything but libraries, for
    two of one name, and for libraries that use each other in a circle.
    """
    chosen: dict[str, type[Library]] = {}
    for library in _reachable(environment, "libraries", set()):
        check_identifier(library.name, f"library {library.__name__}")
        if library.name in (*_TAKEN, *RESERVED_OPTIONS):
            raise SchemaError(
                f"a library cannot be named {library.name!r}, which is a name of the engine's or gymnasium's"
            )
        other = chosen.get(library.name, library)
        if not issubclass(library, other) and not issubclass(other, library):
            raise SchemaError(
                f"two libraries have the name {library.name!r}: {other.__module__}.{other.__qualname__} and "
                f"{library.__module__}.{library.__qualname__}"
            )
        chosen[library.name] = library if issubclass(library, other) else other
    found: dict[str, type[Library]] = {}
    for name in chosen:
        _place(name, (), chosen, found)
    return found


def _reachable(cls: type, attribute: str, seen: set[type]) -> Iterator[type[Library]]:
    """The libraries that a class lists, and those that they use, each once."""
    for library in _listed(cls, attribute):
        if library not in seen:
            seen.add(library)
            yield library
            yield from _reachable(library, "uses", seen)


def _place(
    name: str, path: tuple[str, ...], chosen: Mapping[str, type[Library]], found: dict[str, type[Library]]
) -> None:
    """Put a library into ``found`` behind those that it uses."""
    if name in path:
        raise SchemaError(f"libraries use each other in a circle: {' -> '.join((*path[path.index(name) :], name))}")
    for used in chosen[name].uses:
        _place(used.name, (*path, name), chosen, found)
    found.setdefault(name, chosen[name])


def _listed(cls: type, attribute: str) -> Iterator[type[Library]]:
    listed = getattr(cls, attribute)
    if not isinstance(listed, (list, tuple)):
        raise SchemaError(f"{cls.__name__}: {attribute} must be a tuple of Library classes, got {listed!r}")
    for position, library in enumerate(listed):
        if library in listed[:position]:
            raise SchemaError(f"{cls.__name__}: {attribute} lists {library.__name__} twice")
        if not (isinstance(library, type) and issubclass(library, Library)):
            raise SchemaError(f"{cls.__name__}: {attribute} must be a tuple of Library classes, got {library!r} in it")
        yield library


def made_libraries(
    classes: Mapping[str, type[Library]], options: Mapping[str, Any], given: Mapping[str, Any]
) -> Values:
    """An instance of each library by name, with the options ``given`` for it in place of those of the environment.

    Raises TypeError, ValueError, SchemaError.
    """
    for name in options:
        if name not in classes:
            raise SchemaError(
                f"library_options names {name!r}, not a library of this environment{suggestion(name, classes)}; "
                f"its libraries are {', '.join(classes) or 'none: list the classes, libraries = (Grid,)'}"
            )
    made = {}
    for name, library in classes.items():
        for values in (options.get(name, {}), given.get(name, {})):
            if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
                raise TypeError(
                    f"option {name} must be a dict of the options of library {name}, such as "
                    f"{name}=dict({next(iter(library.option_names()), '')}=...), got {values!r}"
                )
        made[name] = library(**{**options.get(name, {}), **given.get(name, {})})
    for library in made.values():
        library.libraries = Values({name: made[name] for name in library_names(type(library))})
    return Values(made)


def library_names(library: type[Library]) -> tuple[str, ...]:
    """The names of the libraries on which one builds, directly or not."""
    return tuple(dict.fromkeys(used.name for used in _reachable(library, "uses", set())))


def prepare_libraries(libraries: Iterable[Library]) -> None:
    """Call ``prepare`` of those for which it has not been called yet."""
    for library in libraries:
        if not library._prepared:
            library.prepare()
            library._prepared = True


def _most_rows(declared: Declaration, components: tuple[type[Component], ...]) -> int:
    """Rows of the archetypes of one declaration; 0 while these are being made, because they may depend on others."""
    if declared._asked is not None:
        declared._asked.append(components)
        return 0
    declared._asked = asked = []
    try:
        listed = declared.archetypes  # ``Scope`` reports mistakes in it
        archetypes = [a for a in listed if isinstance(a, Archetype)] if isinstance(listed, (list, tuple)) else []
    finally:
        declared._asked = None
    for archetype in archetypes:
        for unanswered in asked:
            if set(unanswered) <= set(archetype.components):
                names = ", ".join(component.__name__ for component in unanswered)
                raise SchemaError(
                    f"{declared.title}: most_rows of {names} is asked for while archetype "
                    f"{archetype.name} is made, which has them itself"
                )
    return sum(a.most_rows for a in archetypes if set(components) <= set(a.components))
