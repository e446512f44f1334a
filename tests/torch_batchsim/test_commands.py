"""``python -m torch_batchsim`` lists the commands, and commands refuse with status 2."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import gymnasium
import pytest
import tyro

import torch_batchsim
from torch_batchsim import types
from torch_batchsim.__main__ import COMMANDS, main
from torch_batchsim.command_line import VERSIONS, UsageError, option_help, parsed

ROOT = Path(__file__).resolve().parents[2]


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    printed = capsys.readouterr().out
    for name, text in COMMANDS.items():
        assert f"python -m torch_batchsim.{name} " in printed and text in printed
        assert importlib.util.find_spec(f"torch_batchsim.{name}") is not None
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and torch_batchsim.__version__ in capsys.readouterr().out


@dataclasses.dataclass
class Settings:
    """What it does."""

    name: tyro.conf.Positional[str]
    """A name, which is described in two lines; and
    more."""
    count: int | None = None
    """How many, at
    most."""
    sizes: list[int] | None = None
    kind: Literal["a", "b"] = "a"

    def __post_init__(self) -> None:
        if self.count == 0:
            raise ValueError("count is 0, but must be positive")


@pytest.mark.parametrize(
    "given, says",
    [
        ([], "an argument is missing, NAME: A name, which is described in two lines"),
        (["x", "--count", "many"], "--count takes INT, got 'many'"),
        (["x", "--sizes", "3", "y"], "--sizes takes [INT [INT ...]], got '3', 'y'"),
        (["x", "--count", "0"], "count is 0, but must be positive"),
        (["x", "--kind", "c"], "invalid choice 'c' for argument '--kind'. Expected one of ('a', 'b')"),
        (["x", "y"], "there is no option or argument y"),
    ],
)
def test_mistakes_in_options_are_one_line(given: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as ended:
        parsed(Settings, "run", given)
    assert ended.value.code == 2 and capsys.readouterr().err == f"error: {says}; run --help lists all\n"


def test_help_does_not_keep_the_ends_of_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed(Settings, "run", ["x", "--count", "3"]) == Settings("x", 3)
    with pytest.raises(SystemExit) as ended:
        parsed(Settings, "run", ["--help"])
    assert ended.value.code == 0 and "How many, at most." in capsys.readouterr().out


@pytest.mark.parametrize(
    "given, says",
    [("tarin", "there is no command 'tarin' (did you mean 'train'?)"), ("train", "python -m torch_batchsim.train")],
)
def test_a_wrong_command_is_refused(given: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as ended:
        main([given])
    assert ended.value.code == 2 and says in capsys.readouterr().err


def test_every_package_that_is_a_command_is_listed() -> None:
    packages = {path.parent for path in (ROOT / "torch_batchsim").glob("*/__main__.py")}
    assert {folder.name for folder in packages} <= set(COMMANDS)


def test_options_of_environments_are_described(capsys: pytest.CaptureFixture[str]) -> None:
    listed = option_help("torch_batchsim/CartPole-v0", ["tau"])
    assert "--continuous {true,false}" in listed and "default false" in listed
    assert "--masscart FLOAT > 0" in listed and "kg" in listed and "--env-option tau=FLOAT > 0" in listed
    assert option_help("CartPole-v1") == ""
    for name in ("overcooked", "hanabi", "hideseek"):
        assert "--" in option_help(torch_batchsim.find_id(name))
    assert "--camera {above,aside}" in listed + option_help("torch_batchsim/HideSeek-v0")


# ---- short names and types -------------------------------------------------------------------------------------------


def test_environments_are_made_by_short_names() -> None:
    env = torch_batchsim.make_vec("cartpole", num_envs=3)
    other = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=3)
    assert env.num_envs == 3 and env.sim.environment.parameters == other.unwrapped.sim.environment.parameters
    assert torch_batchsim.make("torch_batchsim/CartPole-v0").observation_space == other.single_observation_space
    for make in (torch_batchsim.make_vec, torch_batchsim.make):
        with pytest.raises(ValueError, match=r"there is no environment 'pole' .*; known are: ant, atari, cartpole"):
            make("pole")
        with pytest.raises(TypeError, match=r"'forc_mag' \(did you mean 'force_mag'\?\)"):
            make("cartpole", forc_mag=3.0)


def test_checkers_know_every_field_type() -> None:
    """A type that is new in the table has its lines in the stubs and in the package: a failure shows their text."""
    ordered = sorted(types.FIELD_TYPES, key=lambda name: re.sub(r"\d+", lambda digits: digits[0].zfill(3), name))
    imports = "".join(f"    from .field_names import {name} as {name}\n" for name in ordered)
    classes = "".join(f"    class {name}(_Field): ...\n" for name in types.FIELD_TYPES)
    names = "".join(f"{name}: Any\n" for name in types.FIELD_TYPES)
    for file, lines in {"types": f"if MYPY:\n{imports}else:\n{classes}\n", "field_names": f"\n{names}"}.items():
        stub = (ROOT / "torch_batchsim" / f"{file}.pyi").read_text()
        assert lines in stub, f"{file}.pyi lacks:\n{lines}"
    assert set(types.FIELD_TYPES) <= set(torch_batchsim.__all__)


# ---- pages -----------------------------------------------------------------------------------------------------------


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs" / "README.md").read_text())
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")


def test_the_example_of_cartpoles_page_runs() -> None:
    exec(re.search(r"```python\n(.*?)```", (ROOT / "docs" / "cartpole.md").read_text(), re.DOTALL)[1], {})


@pytest.mark.full
def test_the_tutorial_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    for name, text in re.findall(r"```\w+ title=(\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "play.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_citation_has_the_version() -> None:
    assert f"version: {torch_batchsim.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("command", ["check.cli", "gallery", "new", "record", "replay.__main__"])
def test_commands_print_their_version(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"torch_batchsim.{command}").main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"{VERSIONS}\n"
