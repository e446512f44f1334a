"""The declarations of a program, read once: the author's, and each library's in a namespace of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from string import Formatter
from types import SimpleNamespace
from typing import Any

from ..base.names import check_identifier, suggestion
from ..base.shared import BUILTIN_FAULTS, LANES, PLACE_PART_BITS
from ..declare.declaration import ENGINE_HEADERS, Declaration
from ..declare.environment import Environment
from ..declare.fields import Struct, structs_in
from ..declare.library import Library, claim, library_names, prepare_libraries
from ..declare.roles import ENGINE_COMPONENTS
from ..declare.schema import AUTHOR_STRUCTS, ENGINE_TENSORS, Archetype, Component, check_component
from ..errors import SchemaError
from ..read.systems import BY_VALUE, Unit

ENGINE_PARAMETERS = (*BY_VALUE, *LANES, "Episode")
# Names that components and archetypes cannot have, because they have a meaning already: in signatures, in the author's
# namespace, or in front of tensors.
RESERVED_NAMES = frozenset((*ENGINE_PARAMETERS, "World", *AUTHOR_STRUCTS, *ENGINE_TENSORS))

_ENGINE_NAME = re.compile(
    r"\b(?:struct|class|namespace|using)\s+(?P<type>\w+)|^\s*TBS_(?:FUNCTION|DEVICE)\b[^(;{]*?(?P<function>\w+)\s*\("
    r"|\bX\((?P<libm>\w+)|\bconstexpr\s+[\w:]+\s+(?P<constant>\w+)\s*=",
    re.MULTILINE,
)


def qualified_name(component: type[Component]) -> str:
    """As in names of tensors: ``"CartState"``, or ``"grid.Body"`` of a library."""
    library = component.library
    return f"{library.name}.{component.__name__}" if library is not None else component.__name__


def column_name(archetype: Archetype, component: type[Component]) -> str:
    """``"Cart.CartState"``, ``"Drone.grid.Body"``; a library's components in its own tables need no prefix."""
    name = qualified_name(component)
    return f"{archetype.name}.{component.__name__ if namespace_of(archetype) == namespace_of(component) else name}"


def namespace_of(declared: Archetype | type[Component]) -> str:
    """The name of its library, ``""`` for the author's and the engine's own."""
    name = declared.name if isinstance(declared, Archetype) else qualified_name(declared)
    return name.rpartition(".")[0]


@dataclass
class Scope:
    """What the author (``name`` is ``""``) or a library declares, read once; archetypes are named as in ``tensor``.

    ``units`` are its texts; ``constants`` and ``parameters`` are values by name.
    """

    name: str
    declaration: Declaration
    visible: tuple[str, ...]  # libraries that its text may name
    libraries: Mapping[str, Library]
    archetypes: list[Archetype] = field(init=False)
    components: list[type[Component]] = field(init=False)  # for archetypes of others
    singletons: list[type[Component]] = field(init=False)
    resources: list[type[Component]] = field(init=False)
    scratch: list[type[Component]] = field(init=False)
    workspace: list[type[Component]] = field(init=False)
    lasting: list[type[Component]] = field(init=False)
    kept: list[type[Component]] = field(init=False)
    enums: list[type[IntEnum]] = field(init=False)
    faults: list[str] = field(init=False)
    fault_texts: dict[str, tuple[str, ...]] = field(init=False)  # by name, those that are declared
    precompiled: dict[str, dict[str, bool | int | float]] = field(init=False)  # constants by header

    def __post_init__(self) -> None:
        declaration = self.declaration
        self.title = declaration.title
        self.prefix = f"{self.name}." if self.name else ""  # of names in Python
        self.constants, self.parameters = declaration.constants, declaration.parameters
        for what in ("archetypes", "singletons", "resources", "scratch", "workspace", "lasting", "kept", "enums"):
            setattr(self, what, self._listed(what))
        for archetype in self.archetypes:
            if not isinstance(archetype, Archetype):
                raise SchemaError(f"{self.title}: archetypes must be Archetype(...) each, got {archetype!r}")
        self.components = self._listed("components") if isinstance(declaration, Library) else []
        for what in ("components", "singletons", "resources", "scratch", "workspace", "lasting", "kept"):
            for component in getattr(self, what):
                check_component(component, f"{self.title}: {what}")
        if isinstance(declaration, Library):
            lists = ("components", "singletons", "resources", "workspace", "archetypes")
            claim(type(declaration), {what: getattr(self, what) for what in lists})
            for bundle in declaration.bundles().values():
                self.components += [c for c in bundle.components if c not in self.components]
            self.archetypes = [archetype.within(self.name) for archetype in self.archetypes]
        for what in ("components", "singletons", "resources", "scratch", "workspace", "lasting", "kept"):
            setattr(self, what, [self._closed(component) for component in getattr(self, what)])
        self.archetypes = [archetype.of(map(self._closed, archetype.components)) for archetype in self.archetypes]
        self.faults, self.fault_texts = self._faults()
        self.precompiled = self._precompiled()

    def _precompiled(self) -> dict[str, dict[str, bool | int | float]]:
        given = self.declaration.precompiled if isinstance(self.declaration, Library) else {}
        form = "a dict from headers to tuples of names of constants, {'heavy.h': ('size',)}"
        if not isinstance(given, Mapping) or any(isinstance(names, str) for names in given.values()):
            raise SchemaError(f"{self.title}: precompiled must be {form}, got {given!r}")
        for header, names in given.items():
            for name in names:
                if name not in self.constants:
                    near = suggestion(name, self.constants)
                    raise SchemaError(f"{self.title}: precompiled: {header!r} reads {name!r}, not a constant{near}")
        return {header: {name: self.constants[name] for name in names} for header, names in given.items()}

    def _closed(self, component: type[Component]) -> type[Component]:
        """The component with the values of the constants that it names, those of its own library or of this scope."""
        owner = self.libraries.get(component.library.name) if component.library is not None else None
        return component.closed(owner.constants if owner else self.constants)

    def _faults(self) -> tuple[list[str], dict[str, tuple[str, ...]]]:
        given = self.declaration.faults
        if not isinstance(given, Mapping):
            return self._listed("faults"), {}
        texts = {}
        for name, text in given.items():
            each = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, (list, tuple)) else ()
            texts[name] = each
            if not each or len(each) > 1 << PLACE_PART_BITS or not all(isinstance(one, str) for one in each):
                raise SchemaError(
                    f"{self.title}: faults: {name!r} needs a sentence, or 1 to {1 << PLACE_PART_BITS} of them, got "
                    f"{given[name]!r}"
                )
            for one in each:
                self._check_text(name, one)
        return list(texts), texts

    def _check_text(self, name: str, text: str) -> None:
        """Raise SchemaError for a sentence of a fault with a name in braces that nothing gives."""
        in_tables = (c for archetype in self.archetypes for c in archetype.components)
        components = dict.fromkeys((*self.components, *in_tables))
        fields = [f"{component.__name__}.{field.name}" for component in components for field in component.fields]
        options = {**self.constants, **self.parameters}
        known = ["row", "value", *options, *fields]
        try:
            named = named_in(text)
        except ValueError as error:
            raise SchemaError(f"{self.title}: faults: {name!r}: {error} in {text!r}") from None
        for field_name in named:
            if field_name not in known:
                raise SchemaError(
                    f"{self.title}: faults: {name!r} names {{{field_name}}} in {text!r}"
                    f"{suggestion(field_name, known)}; it may name {', '.join(known[: len(known) - len(fields)])}, "
                    f"and {{Component.field}} of the row"
                )
        try:
            filled(text, {**options, "row": "", "value": 0}, lambda field_name: "")
        except (ValueError, TypeError) as error:
            raise SchemaError(f"{self.title}: faults: {name!r}: {error} in {text!r}") from None

    def _listed(self, what: str) -> list[Any]:
        value = getattr(self.declaration, what)
        if not isinstance(value, (list, tuple)):
            one = value.__name__ if isinstance(value, type) else repr(value)
            write = f"; write {what} = [{one}]" if isinstance(value, (type, str, Archetype)) else ""
            raise SchemaError(f"{self.title}: {what} must be a list or tuple, got {value!r}{write}")
        return list(value)

    @cached_property
    def units(self) -> list[Unit]:
        """Its headers. Raises SchemaError for a file or a folder that does not exist."""
        folders = self.declaration.include_folders
        return [Unit(source, self.name, folders) for source in self.declaration.sources]

    def is_of(self, library: type[Library]) -> bool:
        """Whether it is the scope of a library."""
        return isinstance(self.declaration, library)

    @cached_property
    def structs(self) -> list[type[Struct]]:
        """Those in its own components, each once and behind its parts. Raises SchemaError for two of one name."""
        own = (component for component in self.all_components if namespace_of(component) == self.name)
        found = list(dict.fromkeys(struct for component in own for struct in structs_in(component.members)))
        self._check_structs(found)
        return found

    def take_structs(self, of_systems: Iterable[type[Struct]]) -> None:
        """Add those that only systems in Python make."""
        for struct in of_systems:
            parts = (*structs_in(struct.layout.members), struct)
            self.structs.extend(each for each in dict.fromkeys(parts) if each not in self.structs)
        self._check_structs(self.structs)

    def _check_structs(self, found: Sequence[type[Struct]]) -> None:
        for struct in found:
            if any(other.__name__ == struct.__name__ for other in found if other is not struct):
                raise SchemaError(f"{self.title}: two structs have the name {struct.__name__}")

    @property
    def all_components(self) -> dict[type[Component], None]:
        """All of its lists and tables, each once."""
        in_tables = (c for archetype in self.archetypes for c in archetype.components)
        return dict.fromkeys((*self.components, *in_tables, *self.singletons, *self.resources, *self.workspace))


def named_in(text: str) -> list[str]:
    """The names in braces in a sentence of a fault. Raises ValueError for braces without an end."""
    return [name for _, name, _, _ in Formatter().parse(text) if name is not None]


def filled(text: str, values: Mapping[str, Any], value_of: Callable[[str], str]) -> str:
    """A sentence of a fault with its ``values``; ``value_of`` gives those of fields, ``{Component.field}``."""
    rows: dict[str, SimpleNamespace] = {}
    for name in named_in(text):
        component, dot, field_name = name.partition(".")
        if dot:
            setattr(rows.setdefault(component, SimpleNamespace()), field_name, value_of(name))
    return text.format_map({**values, **rows})


class Scopes:
    """The scopes of an environment, and the meanings of names in their texts.

    Attributes: ``author``, ``libraries`` by name, used ones first. Raises SchemaError for names that clash.

    Args:
        added: further components of the author's archetypes, by their names.
    """

    def __init__(self, environment: Environment, added: Mapping[str, Sequence[type[Component]]] | None = None) -> None:
        libraries: dict[str, Library] = environment.libraries
        prepare_libraries(libraries.values())
        self.libraries = {
            name: Scope(name, library, library_names(type(library)), libraries) for name, library in libraries.items()
        }
        self.author = Scope("", environment, tuple(libraries), libraries)
        self.author.archetypes = [
            archetype.of((*archetype.components, *(added or {}).get(archetype.name, ())))
            for archetype in self.author.archetypes
        ]
        for scope in self:
            for component in scope.all_components:
                self._check_owner(scope, component)
        self._meanings: dict[tuple[str, str], Archetype | type[Component]] = {}
        for scope in self:
            names = [archetype.name for archetype in scope.archetypes]
            for declared in (*scope.archetypes, *scope.all_components):
                name = declared.name if isinstance(declared, Archetype) else qualified_name(declared)
                namespace, _, last = name.rpartition(".")
                if last in RESERVED_NAMES:
                    raise SchemaError(
                        f"{scope.title}: a component or an archetype cannot be named {last}, a name "
                        f"of the engine; such names are {', '.join(sorted(RESERVED_NAMES))}"
                    )
                if ENGINE_COMPONENTS.get(last, declared) is not declared:
                    raise SchemaError(
                        f"{scope.title}: {last} is the engine's component; take torch_batchsim.{last}"
                    )
                if self._meanings.setdefault((namespace, last), declared) is not declared or names.count(name) > 1:
                    raise SchemaError(
                        f"{scope.title}: the name {name} is used twice among archetypes and components"
                    )
        for scope in self:
            self._check_enums(scope)
            _check_faults(scope)
        for name in libraries:
            self._check_name(name)

    def __iter__(self) -> Iterator[Scope]:
        """In the order in which their texts are compiled: libraries that others use first, the author's last."""
        yield from self.libraries.values()
        yield self.author

    def of(self, namespace: str) -> Scope:
        """The scope of a namespace, ``""`` for the author's."""
        return self.libraries[namespace] if namespace else self.author

    def _check_owner(self, scope: Scope, component: type[Component]) -> None:
        owner: Any = component.library
        if owner is None or scope.is_of(owner):
            return
        if not any(self.libraries[name].is_of(owner) for name in scope.visible):
            where = "uses" if scope.name else "libraries"
            raise SchemaError(
                f"{scope.title} has the component {component.__name__} of library {owner.name}, which it "
                f"does not name: add {owner.__name__} to {where}"
            )

    def _check_enums(self, scope: Scope) -> None:
        """Names of enumerations and their values must differ from those of components and archetypes in C++."""
        title = scope.title
        taken = {*RESERVED_NAMES, *ENGINE_COMPONENTS, *(name for owner, name in self._meanings if owner == scope.name)}
        for struct in scope.structs:
            if struct.__name__ in taken:
                raise SchemaError(
                    f"{title}: struct {struct.__name__} has a name that is taken in C++; rename one of them"
                )
            taken.add(struct.__name__)
        for given in scope.enums:
            if not (isinstance(given, type) and issubclass(given, IntEnum)) or not given.__members__:
                raise SchemaError(f"{title}: enums must be IntEnum classes with values, got {given!r}")
            for name in (given.__name__, *given.__members__):
                check_identifier(name, f"enumeration {given.__name__} or a value of it")
                if name in taken:
                    raise SchemaError(
                        f"{title}: enumeration {given.__name__} gives C++ the name {name}, which is taken "
                        "there; rename it"
                    )
                taken.add(name)
            for name, value in given.__members__.items():
                if not -(2**31) <= value < 2**31:
                    raise SchemaError(f"{given.__name__}.{name} is {int(value)}, which 32 bits with a sign cannot hold")

    def _check_name(self, name: str) -> None:
        taken = next((key for key in self._meanings if key[1] == name), None)
        if taken is not None:
            kind = "an archetype" if isinstance(self._meanings[taken], Archetype) else "a component"
            owner = self.of(taken[0]).title
            raise SchemaError(f"the library {name!r} has the name of {kind} of {owner}; rename one of them")
        if name in _engine_names():
            raise SchemaError(f"a library cannot be named {name!r}, which is a name of the engine's own")

    def meaning(self, text: str, namespace: str) -> Archetype | type[Component] | None:
        """The archetype or component that ``"Body"`` or ``"grid::Body"`` means in a namespace's text, else None."""
        prefix, _, name = text.rpartition("::")
        if prefix and prefix != namespace and prefix not in self.of(namespace).visible:
            return None
        found = self._meanings.get((prefix or namespace, name))
        return ENGINE_COMPONENTS.get(text.removeprefix("tbs::")) if found is None else found

    def is_declared(self, name: str, namespace: str) -> bool:
        """Whether a component, struct, archetype, enumeration or value of one has this name in a namespace."""
        enums = self.of(namespace).enums
        others = [struct.__name__ for struct in self.of(namespace).structs]
        others += [given for enum in enums for given in (enum.__name__, *enum.__members__)]
        return (namespace, name) in self._meanings or name in others

    def known(self, namespace: str, kind: type) -> list[str]:
        """All components, or archetypes, that the text of a namespace may name, as it does."""
        visible, engine = (namespace, *self.of(namespace).visible), tuple(ENGINE_COMPONENTS.values())
        return sorted(
            self.written(declared, namespace)
            for (owner, _), declared in self._meanings.items()
            if isinstance(declared, Archetype) == (kind is Archetype) and (owner in visible or declared in engine)
        )

    def bundles_with(self, components: list[type[Component]]) -> str:
        """The end of a message about components that no archetype has: the bundles that would bring them."""
        missing = [component for component in components if component.library is not None]
        named = {
            name: missing_of
            for scope in self.libraries.values()
            for name, bundle in scope.declaration.bundles().items()
            if (missing_of := [component for component in missing if component in bundle.components])
        }
        best = max(map(len, named.values()), default=0)
        names = [name for name, found in named.items() if len(found) == best]
        return f"; add the bundle {' or '.join(names)} to an archetype" if names else ""

    def visible_from(self, namespace: str) -> list[Archetype | type[Component]]:
        """Archetypes and components that the text of a namespace may name."""
        visible = (namespace, *self.of(namespace).visible)
        engine: list[Archetype | type[Component]] = list(ENGINE_COMPONENTS.values())
        return [*(declared for (owner, _), declared in self._meanings.items() if owner in visible), *engine]

    def written(self, declared: Archetype | type[Component], namespace: str) -> str:
        """Its name in the text of a namespace."""
        own = namespace_of(declared)
        name = declared.name.rpartition(".")[2] if isinstance(declared, Archetype) else declared.__name__
        return f"{own}::{name}" if own and own != namespace else name

    def hint(self, text: str, namespace: str, known: list[str]) -> str:
        """The end of a message about a name without a meaning in a namespace's text; ``known`` are names with one."""
        last = text.rpartition("::")[2]
        for scope, name in self._meanings:
            if name == last and scope and scope != namespace and scope not in self.of(namespace).visible:
                return f"; it is of library {scope}, which library {namespace} does not use: add it to uses"
        if any(struct.__name__ == last for struct in self.of(namespace).structs):
            return "; it is a Struct, which is part of components: take the component"
        others = [name for name in known if name.rpartition("::")[2] == last]
        return suggestion(others[0], others) if others else suggestion(text, known)


def _check_faults(scope: Scope) -> None:
    for name in scope.faults:
        check_identifier(name, "a fault")
        if name in BUILTIN_FAULTS:
            raise SchemaError(f"faults of {scope.title}: {name!r} is a fault of the engine's own; rename it")
        if scope.faults.count(name) > 1:
            raise SchemaError(f"faults of {scope.title} name {name!r} twice; leave one out")


@cache
def _engine_names() -> frozenset[str]:
    """Names in the engine's namespace that a library of the same name would hide from all systems."""
    found = set()
    for path in (ENGINE_HEADERS / "tbs").iterdir():
        for match in _ENGINE_NAME.finditer(path.read_text("utf-8")):
            found.update(name for name in match.groups() if name)
    return frozenset(found)
