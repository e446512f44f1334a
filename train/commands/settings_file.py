"""Settings of a training as a TOML file: read by `--config`, and written into the folder of every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from torch_batchsim.command_line import suggestion

from ..algorithms import LEARNERS, names_of
from ..base import toml
from ..base.errors import UsageError
from ..run_folder import disk
from .options import Options

NOT_SETTINGS = tuple("config settings env_option resume eval process_timeout run_dir summary video".split())
NOT_SETTINGS += ("video_every", "record", "view", "port", "show", "max_hours")
"""Options of the command line that are no settings of the learning, and never in a file."""


def read(path: Path, env_names: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings in a file, by the names of their options, and the options of the environment in its table `env`.

    Of the folder of a run it is its `config.toml`. `env_names`: those options.

    Raises UsageError for a file that cannot be read, and for names that are not settings.
    """
    path = path / "config.toml" if path.is_dir() else path
    found = toml.read(path)
    env_options = found.pop("env", {})
    if not isinstance(env_options, dict):
        raise UsageError(f"settings {path}: env is a table, [env], of options of the environment")
    known = [*names_of(), *(each.name for each in fields(Options))]
    known = [name for name in known if name not in NOT_SETTINGS]
    for name in found:
        if name in env_names:
            raise UsageError(f"settings {path}: {name!r} is an option of the environment: write it below [env]")
        if name not in known:
            raise UsageError(f"settings {path}: unknown setting {name!r}{suggestion(name, known)}")
    hints = {**get_type_hints(Options), **hints_of()} | {"algorithm": str}
    return {name: checked(f"settings {path}", name, value, hints[name]) for name, value in found.items()}, env_options


def hints_of() -> dict[str, Any]:
    """The types of all algorithms' settings."""
    return {name: hint for each in LEARNERS.values() for name, hint in get_type_hints(each.settings).items()}


def applied(settings: Mapping[str, Any], to: Options) -> Options:
    """The options with settings of a file in place of their own. Raises UsageError for values that are refused."""
    own = {each.name for each in fields(Options)}
    others = [name for name in settings if name not in own and not hasattr(to.config, name)]
    if others:
        raise UsageError(f"the algorithm {to.config.algorithm} has no setting {others[0]!r}")
    try:
        config = replace(to.config, **{name: value for name, value in settings.items() if name not in own})
        return replace(to, config=config, **{name: value for name, value in settings.items() if name in own})
    except ValueError as error:
        raise UsageError(str(error)) from error


def checked(where: str, name: str, value: Any, hint: Any) -> Any:
    """The value as its option has it. Raises UsageError for one of another type, which begins with `where`."""
    for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        origin, inner = get_origin(kind), get_args(kind)
        if origin is Annotated:
            kind, origin, inner = inner[0], get_origin(inner[0]), get_args(inner[0])
        if origin is Literal and value in inner:
            return value
        if origin is tuple and isinstance(value, list):
            try:
                return tuple(checked(where, name, each, inner[0]) for each in value)
            except UsageError:  # of an element
                break
        if kind is float and type(value) is int:
            return float(value)
        if kind is Path and type(value) is str:
            return Path(value)
        if isinstance(kind, type) and type(value) is kind:
            return value
    raise UsageError(f"{where}: {name} must be {_in_words(hint)}, got {value!r}")


_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a text", Path: "a path"}
_SEVERAL = {int: "integers", float: "numbers", str: "texts"}


def _in_words(hint: Any) -> str:
    """The values of a type, as TOML has them."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(each) for each in inner if each is not type(None))
    if origin is Annotated:
        return _in_words(inner[0])
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        return f"a list of {_SEVERAL[inner[0]]}"
    return _WORDS[hint]


def write(path: Path, env_id: str, options: Options, env_options: Mapping[str, Any]) -> None:
    """All settings of a run, so that `--config` with this file runs it again."""
    others = {each.name: getattr(options, each.name) for each in fields(Options) if each.name not in NOT_SETTINGS}
    lines = [f"# {env_id}: python -m torch_batchsim.train {env_id} --config {path.name}"]
    lines += toml.lines({**asdict(options.config), **others})
    if env_options:
        lines += ["", "[env]", *toml.lines(env_options)]
    disk.write_text(path, "\n".join(lines) + "\n")
