"""The table of games beside ale-py, and what is said of ROMs that are missing, damaged or another game's."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import messages
import pytest
from support import full_but
from torch_batchsim.envs.atari import games, roms
from torch_batchsim.envs.atari.games import GAMES, Action, Title, game
from torch_batchsim.envs.atari.roms import read_rom

SOME = ("carnival", "centipede", "elevator_action", "lost_luggage", "mr_do", "pitfall2")


@cache
def ale() -> Any:
    """ale-py, silent."""
    module = pytest.importorskip("ale_py", reason="ale-py is not installed: the games are not compared with it")
    module.ALEInterface.setLoggerMode(module.LoggerMode.Error)
    return module


def test_there_are_104_games() -> None:
    assert len(GAMES) == len(Title) == 104
    assert list(GAMES) == sorted(GAMES) == [title.name.lower() for title in Title]
    assert [each.title for each in GAMES.values()] == list(range(104))


@pytest.mark.parametrize("name", full_but(SOME, GAMES))
def test_roms_actions_modes_and_difficulties_are_ale_pys(name: str) -> None:
    module, known = ale(), game(name)
    assert len(read_rom(name)) == known.size
    console = module.ALEInterface()
    console.loadROM(module.roms.get_rom_path(name))
    assert list(known.minimal_actions) == [action.value for action in console.getMinimalActionSet()]
    assert list(known.legal_actions) == [action.value for action in console.getLegalActionSet()]
    assert list(known.modes) == console.getAvailableModes()
    assert list(map(int, known.difficulties.split())) == console.getAvailableDifficulties()
    assert console.getScreenDims() == (known.lines, 160)


def test_starts_are_actions_of_frames() -> None:
    assert game("casino").start_actions == (Action.NOOP,) * 60 + (Action.FIRE,) * 2
    assert game("sir_lancelot").start_actions == (Action.RESET, Action.LEFT)
    assert game("pooyan").before_actions == (Action.SELECT, Action.SELECT, Action.NOOP)
    assert game("pong").before_actions == game("pong").start_actions == ()


def test_games_show_modes_as_numbers_of_their_own() -> None:
    assert [game("frogger").shown_mode(mode) for mode in game("frogger").modes] == [1, 3, 5]
    assert [game("video_checkers").shown_mode(mode) for mode in (1, 9, 11, 19)] == [0x01, 0x09, 0x11, 0x19]
    assert [game("pong").shown_mode(mode) for mode in (0, 1)] == [0, 1]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with ROMs of two games that are ours."""
    for name, data in (("pong", b"\1" * 2048), ("boxing", b"\2" * 2048)):
        (tmp_path / f"{name}.bin").write_bytes(data)
        ours = replace(GAMES[name], md5=roms._md5(data))
        monkeypatch.setitem(games.GAMES, name, ours)
        monkeypatch.setitem(roms._NAMES, ours.md5, name)
    return tmp_path


def test_a_rom_is_found_by_its_path_its_folder_or_another_name(made: Path) -> None:
    data = (made / "pong.bin").read_bytes()
    assert read_rom("pong", made / "pong.bin") == read_rom("pong", str(made)) == data
    (made / "pong.bin").rename(made / "Video Olympics (1977).rom")
    assert read_rom("pong", made) == data


def test_a_rom_is_ale_pys_where_no_path_is_given(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", SimpleNamespace(roms=SimpleNamespace(__file__=made / "__init__.py")))
    assert read_rom("boxing") == (made / "boxing.bin").read_bytes()


def test_messages(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (made / "short.bin").write_bytes(b"\1" * 2047)
    (made / "empty").mkdir()
    monkeypatch.setitem(sys.modules, "ale_py", None)
    calls = {
        "a game that is none": lambda: game("pomg"),
        "a game for two": lambda: game("combat"),
        "no ale-py": lambda: read_rom("pong"),
        "no such file": lambda: read_rom("pong", made / "pong.zip"),
        "a folder without it": lambda: read_rom("pong", made / "empty"),
        "a short ROM": lambda: read_rom("pong", made / "short.bin"),
        "another game's": lambda: read_rom("pong", made / "boxing.bin"),
        "a mode": lambda: game("pong").checked_mode(2),
        "a mode that is no number": lambda: game("pong").checked_mode(True),
        "a difficulty": lambda: game("amidar").checked_difficulty(1),
    }
    found = {}
    for name, call in calls.items():
        with pytest.raises(Exception) as raised:
            call()
        found[name] = f"{type(raised.value).__name__}: {raised.value}"
    messages.compare("games and ROMs of Atari", found)
    assert game("pong").checked_mode(None) == 0 == game("backgammon").checked_difficulty(None)
    assert game("centipede").checked_mode(None) == 22 and game("centipede").checked_mode(86) == 86
