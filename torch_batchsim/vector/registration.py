"""Registers environments with gymnasium: ``gymnasium.make_vec`` for batches, ``gymnasium.make`` for one world."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Mapping
from operator import attrgetter
from types import ModuleType
from typing import Any, Literal, overload

import gymnasium

from ..base.names import suggestion, told_arguments
from ..declare.environment import Environment
from ..declare.options import SINGLE_ARGUMENTS, VECTOR_ARGUMENTS, Option
from ..declare.run_options import RunOptions
from .agents_env import AgentsVectorEnv
from .agents_single_env import JointEnv, OneAgentEnv, Partner
from .own_modules import environment_classes, is_missing, module_named, told_with_place
from .single_env import SingleEnv
from .vector_env import TorchVectorEnv
from .vector_inputs import agents_per_world

_NO_LIMIT = 2**31 - 1
_registrars: dict[str, str] = {}  # the module that has called `register`, by id
_unlisted: set[str] = set()  # ids
_brought: dict[str, set[str]] = {}  # ids that came with the import of a module, by its name


@told_arguments("register")
def register(
    id: str,
    environment: str | type[Environment],
    *,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
    listed: bool = True,
) -> None:
    """Register an environment class under a gymnasium id, for both ``gymnasium.make_vec`` and ``gymnasium.make``.

    Args:
        id: such as ``"my_project/Maze-v0"``.
        environment: the class, or ``"module:Class"``, which is imported at the first use.
        max_episode_steps: the default of the environment's option of that name, which it must have. ``gymnasium.make``
            then leaves the limit to gymnasium's own ``TimeLimit``. Without, the environment's own limit holds in both.
        reward_threshold: mean return at which the task counts as solved.
        listed: False leaves the id out of lists of environments: it is a variant of one that they have.

    Raises TypeError and ValueError for an id or an environment of another form.
    """
    _check_registered(id, environment)
    if not isinstance(environment, str) and max_episode_steps is not None:
        _limit_option(environment)
    if not isinstance(environment, str) and "<locals>" not in environment.__qualname__:
        environment = _text_of(environment)  # text, so that the spec can be saved
    before = gymnasium.registry.pop(id, None)
    if before is not None and before.kwargs.get("environment") != environment:
        was = before.kwargs.get("environment", before.entry_point)
        warnings.warn(f"{id} was registered as {was}, and is {environment} from now on", UserWarning, stacklevel=3)
    (_unlisted.discard if listed else _unlisted.add)(id)
    _registrars[id] = sys._getframe(2).f_globals.get("__name__", "")  # behind the wrapper
    gymnasium.register(
        id=id,
        entry_point="torch_batchsim.vector.registration:make",
        vector_entry_point="torch_batchsim.vector.registration:make_vec",
        max_episode_steps=max_episode_steps,
        reward_threshold=reward_threshold,
        kwargs={"environment": environment, "time_limit": max_episode_steps is not None},
    )


def _check_registered(id: str, environment: Any) -> None:
    if not isinstance(id, str) or not re.fullmatch(r"[\w:.-]+/[\w:.-]+-v\d+", id):
        raise ValueError(f"id must be of the form 'my_project/Maze-v0', got {id!r}")
    if isinstance(environment, str):
        module, _, name = environment.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
            raise ValueError(f"environment must be a class, or 'module:Class', got {environment!r}")
    elif not (isinstance(environment, type) and issubclass(environment, Environment)):
        if isinstance(environment, Environment):
            got = f"an instance of {environment.name}; give the class: make_vec makes instances with their options"
        else:
            got = repr(environment)
        raise TypeError(f"environment must inherit from Environment, or be 'module:Class', got {got}")


def environment_ids() -> dict[str, str]:
    """The environments that come with torch_batchsim: short name (``"cartpole"``) to the id of its newest version.

    Variants that are registered with ``listed=False`` are left out, such as single games of Atari.
    """
    return {name: id for name, id in _short_names().items() if id not in _unlisted}


def _short_names() -> dict[str, str]:
    specs = [spec for spec in gymnasium.registry.values() if spec.namespace == "torch_batchsim"]
    return {spec.name.lower(): spec.id for spec in sorted(specs, key=lambda spec: (spec.name, spec.version or 0))}


def find_id(name: str) -> str:
    """The id that a user means: one of ours by its short name, any by its id.

    ``"module:id"`` and ``"module:Class"`` import the module first; ``"file.py"``, ``"file.py:Class"`` and
    ``"file.py:id"`` run the file. Without a class or id the file's own class is meant; where it has none, the one that
    it registers, or else imports. Raises ValueError with the known names.
    """
    place, _, env_id = (name, "", "") if name.endswith(".py") else name.rpartition(":")
    if place:
        before = set(gymnasium.registry)
        module = module_named(place, name)
        _brought.setdefault(module.__name__, set(gymnasium.registry) - before)
        return _id_in(module, place, env_id)
    if "/" in name:
        if not _is_registered(name):
            _refuse_path(name)
            raise ValueError(
                f"there is no environment {name!r}{suggestion(name, gymnasium.registry)}; where a module of yours "
                f"registers it, write module:{name}, or file.py:{name}"
            )
        return name
    known = _short_names()
    if name.lower() not in known:
        _refuse_path(name)
        near = suggestion(name.lower(), known)
        own = f"; of module {name} write {name}:my_project/Name-v0, or {name}:Class" if _is_module(name) else ""
        raise ValueError(f"there is no environment {name!r}{near}; known are: {', '.join(environment_ids())}{own}")
    return known[name.lower()]


def _refuse_path(name: str) -> None:
    """Raise ValueError where a name that is not an environment's is that of a file or folder."""
    if name.endswith(".h") or os.path.exists(name):
        raise ValueError(f"{name!r} is not an environment: name the Python file that declares one, such as walk.py")


def _id_in(module: ModuleType, place: str, name: str) -> str:
    """The id ``name``, or the only id of the class of this name; without a name, of the module."""
    if name and _is_registered(name):
        return name
    classes = environment_classes(module)
    groups = _ids_in(module, classes)
    every = list(dict.fromkeys(env_id for group in groups for env_id in group))
    if name:
        groups = [[each for each in group if _is_named(each, name, classes.get(name))] for group in groups]
    found = next(filter(None, groups), [])
    if len(found) == 1:
        return found[0]
    if not every:
        example = name if name in classes else next(iter(classes), "Name")
        raise ValueError(
            f"{place} registers no environment: write torch_batchsim.register(\"my_project/{example}-v0\", {example}) "
            "at its end"
        )
    what = f"registers no {name!r}{suggestion(name, [*every, *_ours()])}" if not found else "registers several"
    raise ValueError(f"{place} {what}; name one of {', '.join(f'{place}:{each}' for each in found or every)}")


def _ids_in(module: ModuleType, classes: Mapping[str, type[Environment]]) -> list[list[str]]:
    """The ids that ``module`` can mean, those first that it means most likely.

    Args:
        classes: as ``environment_classes`` finds them.

    These are the ids of its own classes, those that it registers, those of classes that it imports, and those that came
    with the modules that it imports. A class of its own keeps the last two from being meant.
    """
    ours = _ours()
    own = [each for each in ours if _environment_text(each).startswith(f"{module.__name__}:")]
    registered = [each for each in ours if _registrars.get(each) == module.__name__]
    if any(cls.__module__ == module.__name__ for cls in classes.values()):
        return [own, registered]
    brought = _brought.get(module.__name__, set())
    imported = [each for each in ours if _loaded_class(each) in classes.values()]
    return [own, registered, imported, [each for each in ours if each in brought]]


def _ours() -> list[str]:
    return [spec.id for spec in gymnasium.registry.values() if is_ours(spec)]


def _environment_text(env_id: str) -> str:
    """``"module:Class"`` of a registered environment."""
    environment = gymnasium.registry[env_id].kwargs["environment"]
    return environment if isinstance(environment, str) else _text_of(environment)


def _loaded_class(env_id: str) -> type[Environment] | None:
    """The class of a registered environment; None where its module is not imported."""
    module, _, name = _environment_text(env_id).partition(":")
    environment = gymnasium.registry[env_id].kwargs["environment"]
    return environment if isinstance(environment, type) else getattr(sys.modules.get(module), name, None)


def _is_named(env_id: str, name: str, cls: type[Environment] | None) -> bool:
    """Whether a registered environment is of the class ``name``, or of ``cls``, which a module knows by that name."""
    return _environment_text(env_id).endswith(f":{name}") or (cls is not None and _loaded_class(env_id) is cls)


def _text_of(cls: type[Environment]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_registered(env_id: str) -> bool:
    try:
        gymnasium.spec(env_id)
    except gymnasium.error.Error:
        return False
    return True


def _is_module(name: str) -> bool:
    """Whether there is a module of the user's that could be meant."""
    return name.isidentifier() and name not in sys.stdlib_module_names and importlib.util.find_spec(name) is not None


def option_names(env_id: str) -> tuple[str, ...]:
    """The names of an environment's own options; none where it is unknown, or not made with ``Environment``."""
    cls = _class_of(env_id)
    return cls.option_names() if cls else ()


def training_settings(env_id: str) -> Mapping[str, Mapping[str, Any]]:
    """``Environment.training``; empty where the environment is unknown, or not made with ``Environment``."""
    cls = _class_of(env_id)
    return cls.training if cls else {}


def sweep_ranges(env_id: str) -> Mapping[str, Any]:
    """``Environment.sweep``; empty where the environment is unknown, or not made with ``Environment``."""
    cls = _class_of(env_id)
    return cls.sweep if cls else {}


def _class_of(env_id: str) -> type[Environment] | None:
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error:
        return None
    return _imported(spec.kwargs["environment"]) if is_ours(spec) else None


def is_ours(spec: gymnasium.envs.registration.EnvSpec) -> bool:
    """Whether it was registered by ``register``."""
    return spec.vector_entry_point == f"{__name__}:make_vec"


def environment_class(env_id: str) -> type[Environment]:
    """The class of a registered environment.

    Raises gymnasium's errors for unknown ids, ValueError for ids that another function registered.
    """
    spec = gymnasium.spec(env_id)
    if not is_ours(spec):
        raise ValueError(f"{env_id} was not registered by torch_batchsim.register")
    return _imported(spec.kwargs["environment"])


@overload
def make_vec(
    environment: str | type[Environment],
    num_envs: int | None = None,
    time_limit: bool = False,
    by_agent: Literal[False] = False,
    **kwargs: Any,
) -> TorchVectorEnv: ...


@overload
def make_vec(
    environment: str | type[Environment],
    num_envs: int | None = None,
    time_limit: bool = False,
    *,
    by_agent: Literal[True],
    **kwargs: Any,
) -> AgentsVectorEnv: ...


def make_vec(
    environment: str | type[Environment],
    num_envs: int | None = None,
    time_limit: bool = False,
    by_agent: bool = False,
    **kwargs: Any,
) -> TorchVectorEnv | AgentsVectorEnv:
    """A ``TorchVectorEnv`` of an environment; other keyword arguments are its options or the environment's.

    With ``by_agent=True`` an ``AgentsVectorEnv``, whose ``num_envs`` counts worlds.

    Args:
        environment: a class, ``"module:Class"``, or what ``find_id`` takes: a short name (``"cartpole"``), an id,
            ``"module:id"`` or ``"file.py"``. The registered limit of steps then holds.

    Raises TypeError and ValueError for arguments, gymnasium's errors for unknown ids.
    """
    environment = _of_name(environment, kwargs)
    if not isinstance(by_agent, bool):
        raise TypeError(f"by_agent must be True or False, got {by_agent!r}")
    if time_limit:  # gymnasium has put the registered limit among the arguments
        _limit_option(_imported(environment))
    if by_agent:
        num_envs, kwargs["num_worlds"] = None, _worlds(num_envs, kwargs.get("num_worlds"))
    vector = {name: kwargs.pop(name) for name in VECTOR_ARGUMENTS if name in kwargs}
    declared = _declared(environment, kwargs, ("num_envs", *VECTOR_ARGUMENTS, "by_agent"))
    made = TorchVectorEnv(declared, num_envs, **vector)
    return AgentsVectorEnv(made) if by_agent else made


def _worlds(num_envs: Any, num_worlds: Any) -> Any:
    """The number of worlds where both numbers count them; gymnasium's default of ``num_envs`` is 1."""
    if num_worlds is None:
        return 1 if num_envs is None else num_envs
    if num_envs not in (None, 1, num_worlds):
        raise ValueError(
            f"num_envs={num_envs!r} and num_worlds={num_worlds!r} contradict each other; with by_agent=True both count "
            "worlds: give one of them"
        )
    return num_worlds


def make(
    environment: str | type[Environment],
    render_mode: str | None = None,
    device: str = "cpu",
    time_limit: bool = False,
    as_agent: int | str | None = None,
    partner: Partner | None = None,
    **options: Any,
) -> SingleEnv:
    """One world as a plain ``gymnasium.Env`` with numpy in and out.

    Where a world has several agents, a ``JointEnv``; with ``as_agent`` a ``OneAgentEnv``, where ``partner`` plays the
    others. ``environment`` is what ``make_vec`` takes; ``options`` are the environment's own, and those of a run, see
    ``declare.run_options.RunOptions``.
    """
    cls = _imported(_of_name(environment, options))
    if time_limit:  # gymnasium wraps its TimeLimit around this
        greatest = _limit_option(cls).maximum
        options.setdefault("max_episode_steps", _NO_LIMIT if greatest is None else int(greatest))
    if "num_envs" in options:
        given = f"{environment!r}, num_envs={options['num_envs']!r}"
        raise TypeError(f"make() makes one world, and takes no num_envs: for several use make_vec({given})")
    run = RunOptions.taken_from(options)
    declared = _declared(cls, options, SINGLE_ARGUMENTS)
    if as_agent is None and partner is not None:
        raise ValueError(f"partner plays the agents beside one: give as_agent=0 too, got partner={partner!r}")
    given = {"render_mode": render_mode, "device": device, **run}
    if as_agent is not None:
        made = OneAgentEnv(declared, as_agent, partner, **given)
    else:
        form = SingleEnv if agents_per_world(declared) == 1 else JointEnv
        made = form(declared, **given)
    made.follows_time_limit = time_limit
    return made


# Gymnasium then draws "human" and "rgb_array_list" itself.
make.metadata = {"render_modes": ["rgb_array", "ansi"]}  # type: ignore[attr-defined]


def declared(env_id: str, options: Mapping[str, Any], others: tuple[str, ...] = ()) -> Environment:
    """The declaration of a registered environment, with its limit of steps as ``gymnasium.make_vec`` gives it.

    Args:
        options: the environment's own.
        others: arguments that the caller takes beside them, for the message.

    Raises gymnasium's errors for unknown ids, ValueError for ids that another function registered, TypeError and
    ValueError for options.
    """
    cls, spec = environment_class(env_id), gymnasium.spec(env_id)
    options = dict(options)
    if spec.kwargs["time_limit"]:
        options.setdefault("max_episode_steps", spec.max_episode_steps)
    return _declared(cls, options, others)


def _of_name(environment: str | type[Environment], options: dict[str, Any]) -> str | type[Environment]:
    """The class that is registered under a name; its limit of steps is added to the options."""
    if not isinstance(environment, str):
        return environment
    module, _, name = environment.rpartition(":")
    if module and not module.endswith(".py") and name.replace(".", "").isidentifier():  # module:Class
        return environment
    env_id = find_id(environment)
    cls, spec = environment_class(env_id), gymnasium.spec(env_id)
    if spec.kwargs["time_limit"]:
        options.setdefault("max_episode_steps", spec.max_episode_steps)
    return cls


def _limit_option(cls: type[Environment]) -> Option:
    option = cls.parameters.options.get("max_episode_steps")
    if option is None:
        raise TypeError(f"{cls.__name__} is registered with max_episode_steps, but has no option of that name")
    return option


def _declared(
    environment: str | type[Environment], options: dict[str, Any], others: tuple[str, ...] = ()
) -> Environment:
    cls = _imported(environment)
    cls.check_options(options, others)
    return cls(**options)


def _imported(environment: str | type[Environment]) -> type[Environment]:
    if isinstance(environment, str):
        module, _, name = environment.partition(":")
        with told_with_place():
            try:
                imported = importlib.import_module(module)
            except ModuleNotFoundError as error:
                if not is_missing(error, module):
                    raise
                raise ValueError(f"{environment!r} cannot be made: module {error.name!r} is missing") from error
        try:
            cls = attrgetter(name)(imported)
        except AttributeError:
            own = [each for each, value in vars(imported).items() if isinstance(value, type)]
            near = suggestion(name, own)
            raise ValueError(f"{environment!r} cannot be made: module {module} has no {name!r}{near}") from None
    else:
        cls = environment
    if not (isinstance(cls, type) and issubclass(cls, Environment)):
        raise TypeError(
            "environment must be a class that inherits from Environment, or the name of one, such as 'cartpole', "
            f"'file.py' or 'module:Class', got {cls!r}"
        )
    return cls
