"""The examples of docs/authoring.md run as they stand there."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest
import torch
from gymnasium.spaces import Discrete

import torch_batchsim
from torch_batchsim import Archetype, Environment, Reward, SchemaError, Simulator, TaskGraph, new
from torch_batchsim.testing import assert_same_bits, random_actions, snapshot

PAGE = Path(__file__).resolve().parents[2] / "docs" / "authoring.md"


def files() -> dict[str, str]:
    """The blocks of the page that have a title; those of one title are parts of one file."""
    found: dict[str, str] = {}
    for name, text in re.findall(r"```\w+ title=(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        found[name] = found.get(name, "") + text + "\n"
    return found


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    found = files()
    assert set(found) == {"catch.py", "catch.h", "play.py", "ships.py", "ring.py", "ring.h", "race.py", "race.h"}
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "play.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "caught 40960 of 40960" in done.stdout


def test_catch_in_cpp_has_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = files()
    in_cpp = new.in_cpp(found["catch.py"], "catch.h")
    for name, text in {"catch.py": found["catch.py"], "catch_in_cpp.py": in_cpp, "catch.h": found["catch.h"]}.items():
        (tmp_path / name).write_text(text)
    states = []
    for name in ("catch", "catch_in_cpp"):
        environment = loaded(name, tmp_path, monkeypatch).Catch
        env = torch_batchsim.make_vec(environment, num_worlds=50, gust=0.3)
        env.reset(seed=0)
        for actions in random_actions(env, 30):
            env.step(actions)
        states.append(snapshot(env.sim))
    assert_same_bits(*states)


def test_the_message_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = files()["catch.py"].replace("ball.column / last", "ball.column / world.constants.columns")
    (tmp_path / "catch.py").write_text(wrong)
    with pytest.raises(SchemaError) as raised:
        Simulator(loaded("catch", tmp_path, monkeypatch).Catch(), 1)
    assert f"```\n{raised.value}\n```" in PAGE.read_text()


def loaded(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of a folder, which the process forgets at the test's end, with the ids that it registers."""
    ids = dict(gymnasium.registry)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", ids)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    del sys.modules[name]
    monkeypatch.setitem(sys.modules, name, module)
    return module


SHIPS = PAGE.parents[1] / "tests" / "types" / "ships.py"


@pytest.mark.parametrize("executor", ["batch", pytest.param("python", marks=pytest.mark.full)])
def test_ships_shoot_and_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str) -> None:
    (tmp_path / "ships.py").write_text(SHIPS.read_text() + files()["ships.py"])
    ships = loaded("ships", tmp_path, monkeypatch)

    class Ships(Environment):
        archetypes = (
            Archetype("Ship", ships.Place, ships.Motion, ships.Choice, ships.View, Reward, count=2),
            Archetype("Bullet", ships.Place, ships.Motion, ships.Shot, capacity=32, limit=512),
            Archetype("Contact", ships.Pair, capacity=64, ephemeral=True),
        )
        step = TaskGraph(ships.shoot, ships.move, ships.age, ships.find_contacts, ships.resolve)
        observation, action = "Ship.View", "Ship.Choice"
        action_space = Discrete(2)

    sim = Simulator(Ships(), 2, executor=executor)
    sim.reset(seed=0)
    sim.Ship.Place.x[:, 1] = 0.5
    sim.Ship.Choice.fire[1, 0] = 1
    for step in range(1, 30):
        sim.step()
        flown = torch.arange(min(step, 19), 0, -1) * 0.1  # the oldest first; the 20th step of its life is not seen
        assert torch.allclose(sim.ragged("Bullet.Place.x").world(1), flown)
        near = int(((flown - 0.5).abs() < 0.1).sum())
        assert sim.ragged("Contact.Pair.target").counts.tolist()[0] == 0
        assert abs(sim.ragged("Contact.Pair.target").counts.tolist()[1] - near) <= 1  # f32 at the edge


def test_the_library_of_the_page_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ring.py", "ring.h", "race.py", "race.h"):
        (tmp_path / name).write_text(files()[name])
    monkeypatch.syspath_prepend(tmp_path)
    try:
        race = importlib.import_module("race")
        env = gymnasium.make_vec("my_project/Race-v0", num_envs=4, ring={"length": 3.0})
        env.reset(seed=0)
        env.unwrapped.sim.Hare.ring.Motion.speed = 5.0
        for _ in range(4):
            observations, rewards, *_ = env.step(torch.tensor([0, 1, 1, 1]))
        assert observations.flatten().tolist() == [4.0, 8.0, 8.0, 8.0]
        assert rewards.tolist() == [1.0, 2.0, 2.0, 2.0]
        sim = env.unwrapped.sim
        assert sim.tensor("Hare.ring.Place.along").flatten().tolist() == [20.0, 20.0]
        assert sim.tensor("Runner.Place.rank").tolist() == [[2, 1], [1, 1]]
        assert sim.tensor("ring.Laps.count").tolist() == [4, 4]
        assert race.Race().libraries.ring.parameters.length == 100.0
    finally:
        gymnasium.registry.pop("my_project/Race-v0", None)
        for name in ("race", "ring"):
            sys.modules.pop(name, None)
