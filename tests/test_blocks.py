"""Every Python block of docs/ and of the README is run by a test, or listed with the reason why none can."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import pytest
from torch_batchsim.train.commands.arguments import settled

from torch_batchsim import environment_ids
from torch_batchsim.__main__ import COMMANDS  # the package registers its ids, which tests copy

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^ *```python\b.*\n((?:.*\n)*?) *```$", re.MULTILINE)


def blocks(page: str) -> list[str]:
    """The Python blocks of a page."""
    return PYTHON.findall((ROOT / page).read_text())


# ---- what other tests run: the blocks of a page by number, and the test ----------------------------------------------

ELSEWHERE = {
    "docs/agents.md": {(0, 1, 2): "torch_batchsim/vector/test_agents_env.py::test_examples_on_the_page"},
    "docs/atari.md": {(0,): "envs/atari/test_atari_and_ale.py::test_the_example_of_the_page_runs"},
    "docs/authoring.md": {
        (0, 1): "torch_batchsim/test_authoring_page.py::test_the_example_of_the_page_runs",
        (9, 10): "torch_batchsim/test_authoring_page.py::test_ships_shoot_and_are_found",
        (13, 14): "torch_batchsim/test_authoring_page.py::test_the_library_of_the_page_is_used",
        (16,): "torch_batchsim/check/test_compare.py::test_the_example_of_the_page",
    },
    "docs/cartpole.md": {(0,): "torch_batchsim/test_commands.py::test_the_example_of_cartpoles_page_runs"},
    "docs/checking.md": {(0, 1): "torch_batchsim/check/test_check.py::test_the_page"},
    "docs/debugging.md": {
        (0, 1, 2): "torch_batchsim/run/test_inside.py::test_the_example_of_the_page_runs",
        (3,): "torch_batchsim/run/test_logs.py::test_the_page_shows_it",
    },
    "docs/debugging_tools.md": {(0,): "torch_batchsim/build/test_debug_builds.py::test_the_session_of_gdb"},
    "docs/executors.md": {(1,): "torch_batchsim/vector/test_grouped_env.py::test_the_page"},
    "docs/grid.md": {(0,): "torch_batchsim/test_grid.py::test_the_example_of_the_page_runs"},
    "docs/hideseek.md": {(0, 1): "envs/test_hideseek_levels.py::test_the_code_of_the_page_runs"},
    "docs/math.md": {(0,): "torch_batchsim/math/test_math_of_arrays.py::test_the_example_of_the_page_runs"},
    "docs/physics.md": {(0, 1): "torch_batchsim/physics/test_physics_page.py::test_the_tower_of_the_page_falls"},
    "docs/rays.md": {
        (0, 1): "torch_batchsim/rays/test_rays.py::test_the_example_of_the_page_runs",
        (2,): "torch_batchsim/rays/test_picture.py::test_the_tower_draws_itself",
    },
    "docs/replays.md": {(0,): "torch_batchsim/replay/test_recordings.py::test_the_page_runs"},
    "docs/training.md": {
        (0,): "train/test_training_page.py::test_the_example_on_the_page_runs",
        (1,): "train/test_export.py::test_a_process_without_the_package_runs_it",
    },
    "docs/tutorial.md": {(0, 1): "torch_batchsim/test_commands.py::test_the_tutorial_runs"},
    "docs/wrappers.md": {(0,): "torch_batchsim/vector/test_gymnasium_wrappers.py::test_the_example_on_the_page"},
}
SCRIPTS = "docs/use_with.md"  # a script under each heading, which tests run by `run_script("heading")`

# ---- what runs nowhere -----------------------------------------------------------------------------------------------

NOT_RUN = {
    ("docs/executors.md", 4): "a capture needs a GPU; torch_batchsim.gpu_check has such captures",
    ("docs/recipes.md", 0): "a line of a script for another Python; tests/examples/test_recipes.py runs the function",
}

# ---- what runs here --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Blocks of a page that run one behind the other, between lines that make what they use, and what must hold."""

    page: str
    numbers: tuple[int, ...]
    holds: str
    before: str = ""
    changes: tuple[tuple[str, str], ...] = ()
    full: bool = False

    @property
    def text(self) -> str:
        code = "\n".join(blocks(self.page)[number] for number in self.numbers)
        for old, new in self.changes:
            assert old in code
            code = code.replace(old, new)
        return "\n".join([HEAD, textwrap.dedent(self.before), code, textwrap.dedent(self.holds)])


HEAD = """
from functools import cached_property
import gymnasium
import numpy as np
import torch
import torch_batchsim
from gymnasium.spaces import Box, Discrete
from torch_batchsim import *
from torch_batchsim.math import clamp
"""
REST = ("    ...\n", "class Game(Environment):\n")  # where the page leaves out the head of an environment

CASES = (
    Case("README.md", (0,), "assert observations.shape == (16384, 4) and env.unwrapped.sim"),
    Case("docs/ant.md", (0,), "assert observations.shape == (1024, 39)", full=True),
    Case(
        "docs/minatar.md", (0,),
        "assert observations.shape == (1024, 10, 10, 4) and set(observations.unique().tolist()) == {0, 1}", full=True,
    ),
    Case(
        "docs/overcooked.md", (0, 1),
        """
        assert observations.shape == (8192, 5, 5, 26) and observations.dtype == torch.uint8
        assert factor.numel() == 1 and env.unwrapped.num_agents == 4
        """,
        full=True,
    ),
    Case(
        "docs/hanabi.md", (0, 1),
        """
        assert legal.shape == (4096, 20) and legal.gather(1, actions[:, None]).all()
        assert observations.shape == (4096, 658) and decks.sort(1).values.unique(dim=0).shape == (1, 50)
        """,
        full=True,
    ),
    Case("docs/swarm.md", (0,), "assert observations.shape == (1024, 56) and len(bullets.counts) == 256", full=True),
    Case(
        "docs/tag.md", (0,),
        """
        assert observations.shape == (10500, 71) and infos["team"].view(100, 105).sum(1).eq(100).all()
        env.reset(seed=1)
        """,
        full=True,
    ),
    Case(
        "docs/watch.md", (0,),
        """
        leaning = torch.tensor([[0.0, 0.0, 0.1, 0.0], [0.0, 0.0, -0.1, 0.0]])
        assert Leaning().policies["lean"](leaning, {}).tolist() == [1, 0]
        """,
    ),
    Case("docs/watch.md", (1,), "assert [control.once for control in controls] == [False, True]"),
    Case("docs/watch.md", (2,), "assert viewer.steps == 1000 and viewer.closed", changes=(("(env) ", "(env, 0) "),)),
    Case("docs/executors.md", (0,), 'assert env.unwrapped.sim.executor == "per_world"'),
    Case(
        "docs/executors.md", (2, 3),
        """
        assert report.gain > 0 and "step" in str(trace)
        from pathlib import Path
        assert Path("trace.png").stat().st_size and Path("trace.json").stat().st_size
        """,
        before="""
        env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=64)
        actions = torch.zeros(64, dtype=torch.int64)
        """,
        changes=(("seconds=5.0", "seconds=0.05"),),
        full=True,
    ),
    Case(
        "docs/python_systems.md", (0,),
        """
        class Line(Environment):
            parameters = Parameters(wind=1.0)
            archetypes = [Archetype("Walker", Place, Choice, Reward, count=1)]
            step = TaskGraph(move)
            observation, action, action_space = "Walker.Place", "Walker.Choice", Discrete(3)
            observation_space = Box(-2, 2, (), np.float32)

        sim = Simulator(Line(), 2)
        sim.reset(seed=0)
        sim.tensor("Walker.Choice.direction")[1] = 2
        sim.step()
        assert torch.allclose(sim.tensor("Walker.Place.x").flatten(), torch.tensor([0.0, 0.2]))
        """,
        before="""
        class Place(Component):
            x: f32

        class Choice(Component):
            direction: i32
        """,
    ),
    Case("docs/authoring.md", (2,), "assert Body.size == 4 * (4 + 2 * 4 + 4)"),
    Case(
        "docs/authoring.md", (3,),
        'assert Windy(wind=2.0).resource_values() == {"Levels.height": heights, "Wind.speed": 2.0}',
        before="""
        heights = [1, 2]

        class Windy(Environment):
            systems = ()
            parameters = Parameters(wind=1.0)
        """,
    ),
    Case(
        "docs/authoring.md", (4,),
        """
        made = Climb([[0, 1], [2, 3], [4, 5]])
        assert made.constants.levels == 3 and made.resource_values()["Levels.height"].shape == (3, 2)
        assert made.resources[0].size == 3 * 2 * 4
        """,
        changes=(("    parameters = ", "    systems = ()\n    parameters = "),),
    ),
    Case("docs/authoring.md", (5,), 'assert Cells.closed({"rows": 3, "columns": 4}).size == 3 * 9 + 1 + 4'),
    Case(
        "docs/authoring.md", (6,),
        """
        assert Game.kept == Game.singletons == [Deck]
        assert Game().reset_values({"deck": 1}, None) == {"Deck.given": True} and Game().reset_values({}, None) == {}
        """,
        changes=(REST, ("    singletons", "    systems = ()\n    singletons")),
    ),
    Case(
        "docs/authoring.md", (7,),
        """
        class Fight(Environment):
            archetypes = [Archetype("Fighter", Health, View, Present, Nothing, AgentEnd, Reward, count=2)]
            step, observe = TaskGraph(hurt), TaskGraph(look)
            observation, action, active = "Fighter.View", "Fighter.Nothing", "Fighter.Present"
            observation_space, action_space = Box(0, 9, (), np.float32), Discrete(2)

        sim = Simulator(Fight(), 1)
        sim.reset(seed=0)
        sim.tensor("Fighter.Health.points")[:] = torch.tensor([1, 3])
        sim.tensor("Fighter.Health.wounds")[:] = 1
        sim.step()
        assert sim.tensor("Fighter.Present.yes").flatten().tolist() == [False, True]
        assert sim.tensor("Fighter.AgentEnd.terminated").flatten().tolist() == [True, False]
        assert sim.tensor("Fighter.Reward.value").flatten().tolist() == [-1, 0]
        """,
        before="""
        class Health(Component):
            points: i32
            wounds: i32

        class View(Component):
            points: f32

        class Present(Component):
            yes: boolean

        class Nothing(Component):
            nothing: i32
        """,
    ),
    Case(
        "docs/authoring.md", (8,),
        """
        assert [each.name for each in Game.archetypes] == ["Ship", "Bullet", "Contact"]
        assert Game.archetypes[2].ephemeral and Game.archetypes[1].limit == 512
        """,
        before="""
        class Place(Component):
            x: f32

        class Motion(Component):
            x: f32

        class Choice(Component):
            fire: i32

        class View(Component):
            bullets: i32

        shoot, move, age, find_contacts, resolve = "shoot move age find_contacts resolve".split()
        """,
        changes=(REST,),
    ),
    Case(
        "docs/authoring.md", (11,),
        """
        class Yard(Environment):
            archetypes = [Archetype("Scale", Load, Nothing, Reward, count=1), Archetype("Box", Crate, count=40)]
            step = TaskGraph(weigh)
            observation, action, action_space = "Scale.Load", "Scale.Nothing", Discrete(2)
            observation_space = Box(0, np.inf, (), np.float32)

        sim = Simulator(Yard(), 2)
        sim.reset(seed=0)
        sim.tensor("Box.Crate.weight")[1] = torch.arange(40.0).view(sim.tensor("Box.Crate.weight")[1].shape)
        sim.step()
        assert sim.tensor("Scale.Load.weight").flatten().tolist() == [0, 780]
        """,
        before="""
        class Load(Component):
            weight: f32

        class Crate(Component):
            weight: f32

        class Nothing(Component):
            nothing: i32
        """,
    ),
    Case(
        "docs/authoring.md", (12,),
        """
        class Game(Environment):
            systems = ()
            libraries = (Sheets,)
            archetypes = [Archetype("Thing", Place, Motion, Reward, count=7), Archetype("Wall", Place, count=2)]
            step = TaskGraph(move)
            observation, action, action_space = "Thing.Place", "Thing.Motion", Discrete(2)
            observation_space = Box(-1, 1, (), np.float32)

        sim = Simulator(Game(), 1)
        library = sim.program.environment.libraries["sheets"]
        assert library.constants.most == 7 and library.workspace[0].size == 7 * 4
        """,
        before="""
        class Place(Component):
            x: f32

        class Motion(Component):
            x: i32

        @system
        def move(world: World, place: Place, motion: Motion) -> None:
            place.x = motion.x

        class Sheets(Library):
            name = "sheets"
            systems = ()
        """,
    ),
    Case(
        "docs/authoring.md", (15,), "assert snapshot(few.sim)",
        before="from torch_batchsim.envs.cartpole import CartPole as Game", full=True,
    ),
    Case("docs/reference.md", (0,), "assert Pose.size"),
    Case("docs/reference.md", (1,), "assert View.size"),
)  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.full] if case.full else [], id=f"{case.page}-{case.numbers}")
        for case in CASES
    ],
)
def test_blocks_run(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"blocks_{Path(case.page).stem}_{case.numbers[0]}"
    (tmp_path / f"{name}.py").write_text(case.text)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    try:
        importlib.import_module(name)
    finally:
        sys.modules.pop(name, None)


# ---- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_of_pages_exist(path: Path) -> None:
    """Blocks for a shell are not run: they train, measure, or show arguments. .ci/run runs those of the README."""
    shell = "".join(re.findall(r"^ *```sh\n((?:.*\n)*?) *```$", path.read_text(), re.MULTILINE))
    commands = set(re.findall(r"python -m torch_batchsim\.(\w+(?:\.\w+)*)", shell))
    assert commands <= set(COMMANDS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_trainer_takes_the_options_of_pages(path: Path) -> None:
    """Of all its commands in blocks and in sentences that name a bundled environment."""
    text, ids = re.sub(r"\\\n +", "", path.read_text()), environment_ids()
    for command in re.findall(r"python -m torch_batchsim\.train ([a-z]+[^`#&\n]*(?:\n[^`#&\n]*(?=`))?)", text):
        name, *options = shlex.split(command)
        if name in {*ids, *ids.values()} and not {"--help", "--resume"} & {*options}:
            assert settled(name, options, "train")[0] == ids.get(name, name)


# ---- nothing is forgotten --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_is_run_by_one_test(path: Path) -> None:
    page = path.relative_to(ROOT).as_posix()
    if page == SCRIPTS:
        return
    elsewhere = [number for numbers in ELSEWHERE.get(page, {}) for number in numbers]
    here = [number for case in CASES if case.page == page for number in case.numbers]
    nowhere = [number for name, number in NOT_RUN if name == page]
    assert sorted(elsewhere + here + nowhere) == list(range(len(blocks(page)))), f"a block of {page} is run by no test"


@pytest.mark.parametrize("page", ELSEWHERE)
def test_the_tests_that_are_named_read_the_page(page: str) -> None:
    for test in ELSEWHERE[page].values():
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^def {name}\(", text, re.MULTILINE), test
        assert Path(page).name in text, f"{file} does not read {page}"


def test_each_script_for_another_library_is_run() -> None:
    page = (ROOT / SCRIPTS).read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for section in page.split("\n## ")[1:]:
        heading = section.partition("\n")[0]
        count = len(PYTHON.findall(section))
        assert count <= 1, f"{heading} has several blocks: name each here"
        assert not count or f'run_script("{heading}"' in tests, f"the script under {heading} is run by no test"
