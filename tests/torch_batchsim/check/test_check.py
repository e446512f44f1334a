"""torch_batchsim.check: each check finds the environment that is broken for it, and sound ones pass."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from environments.walk import Broken, Walk
from gymnasium.spaces import Box
from support import ENVIRONMENTS, declare, of_today

from torch_batchsim import Archetype, Checks, Component, Reward, TaskGraph, TorchVectorEnv, check, f32
from torch_batchsim.check import CHECKS, Report, cli, contract, stale, subject
from torch_batchsim.check.outcomes import Failed
from torch_batchsim.check.plays import parts_of
from torch_batchsim.check.progress import Progress
from torch_batchsim.declare.run_options import RunOptions
from torch_batchsim.resolve.program import Program
from torch_batchsim.run.snapshots import of_worlds
from torch_batchsim.testing import CheckFailed, assert_same_bits, check_env, snapshot

SIZE = {"worlds": 32, "steps": 300}
# A mistake, the check that finds it, how that ends, and words of its sentence.
FOUND = [
    ("FAILS", "faults", "failed", r"with random actions, in step \d+: walk\.h:\d+: world \d+: system 'walk' .*too_far"),
    ("BOUNDS", "bounds", "failed", r"observation is -1\.\d+, its space has -1 to 2 \(world \d+, element \[0\]; with"),
    ("NOT_A_NUMBER", "finite", "failed", r"observation is -?nan \(world \d+, element \[0\]; with random actions, in"),
    ("ILLEGAL", "masks", "failed", r"no action is legal \(world \d+;"),
    ("ENDLESS", "episodes", "failed", r"16 of 16 episodes went on after max_episode_steps = 20 steps"),
    ("AT_ONCE", "episodes", "failed", r"each of \d+ episodes ended in its first step"),
    ("NO_REWARD", "rewards", "warning", r"the reward was 0 in all 300 steps of 32 rows"),
    ("SAME_REWARD", "rewards", "warning", r"the reward was 1 in every step, and no episode's return differs"),
    ("STILL", "observations", "failed", r"observation never changed within an episode in 300 steps"),
    ("DEAD", "actions", "warning", r"other actions changed no observation, reward or end in 40 steps"),
    ("LOOKING", "stale", "failed", r"observation of world \d+, which has ended and stands still, changed|twice"),
    ("HOLES", "leftovers", "failed", r"observation differs in step 1, world 0.*: \S+ once, \S+ the next time, with"),
    ("SCRATCH", "leftovers", "failed", r"observation differs in step 1, world \d+, element \[1\]"),
    ("ADDRESS", "seeds", "failed", r"observation differs in step 1, world 0, element \[0\]: .* with the same seed"),
    ("SEEDLESS", "seeds", "warning", r"another seed gives the same episodes"),
    ("WORKSPACE", "threads", "failed", r"observation differs in step \d+, world \d+, element \[1\]: .* on two"),
    ("WORKSPACE", "batch", "failed", r"observation differs in step 1, world 5, element \[1\]: .* in a part of 5"),
    ("WORKSPACE", "executors", "failed", r"differs in step 1, world 0.* (batch|checked|CPU)"),
    ("WORKSPACE", "autoreset", "failed", r"observation differs in step \d+ of episode \d+, world \d+, between the"),
    ("SCRATCH", "state", "failed", r"observation differs in step 1, world \d+.* in what was saved"),
    ("SCRATCH", "copies", "failed", r"observation of a copy differs from its source world \d+ \d+ steps after"),
]  # fmt: skip
FAST = {"faults", "bounds", "masks", "observations", "actions", "leftovers", "batch", "state"}


def run_checks(
    environment: Any, options: dict[str, Any] | None = None, only: tuple[str, ...] = (), **more: Any
) -> Report:
    return check.run_checks(subject.Subject(subject.declaration(environment, options or {}), **more), only)


@cache
def checked(broken: str, check: str) -> Report:
    return run_checks(Walk, {"broken": int(Broken[broken])}, only=(check,), **SIZE)


@pytest.mark.parametrize(
    ("broken", "check", "status", "words"),
    [each if each[1] in FAST else pytest.param(*each, marks=pytest.mark.full) for each in FOUND],
)
def test_each_check_finds_its_mistake(broken: str, check: str, status: str, words: str) -> None:
    outcome = checked(broken, check).outcome(check)
    assert (outcome.status, bool(re.search(words, outcome.says))) == (status, True), outcome
    assert outcome.remedy


def test_every_check_has_something_to_find() -> None:
    """Those that are not in the list have tests of their own, below."""
    elsewhere = {"build", "spaces", "refused", "partial", "reference"}
    assert {found[1] for found in FOUND} | elsewhere == {check.name for check in CHECKS}


@pytest.mark.full
def test_a_sound_environment_passes() -> None:
    report = check_env(Walk, skip=("executors",), **SIZE)
    assert not report.warnings and report.summary == "20 passed, 1 skipped"
    assert [outcome.name for outcome in report.outcomes] == [c.name for c in CHECKS if c.name != "executors"]
    table = str(report)
    assert table.startswith("Walk: 32 worlds, 300 steps, seed 0\n\npassed   build ")
    assert all(len(line) <= 120 for line in table.splitlines())


NEIGHBOUR = "    if (world.id % 16 != 15 && world.id % 5 != 4) (&place)[1].time = 99;  // never beyond the last world\n"


@pytest.mark.full
def test_a_write_into_another_world_is_found() -> None:
    """By a pointer, which nothing refuses."""
    text = Path(Walk().sources[0]).read_text().replace("Place &place) {\n", "Place &place) {\n" + NEIGHBOUR, 1)
    broken = type("Neighbour", (Walk,), {"systems": declare(text).systems})
    report = run_checks(broken, only=("partial", "copies"), **SIZE)
    found = report.outcome("partial")
    assert found.status == "failed"
    assert found.says.startswith("a reset of some worlds changed others: column_Walker_Place differs")
    assert "world.id" in report.outcome("copies").says or report.outcome("copies").status == "passed"


# ---- what is stale by its declaration; nothing is compiled -----------------------------------------------------------

SYSTEMS = """
TBS_SYSTEM void begin(World &world, Ball &ball) { ball.height = 1.0f; }
TBS_SYSTEM void fall(World &world, Ball &ball, const Push &push) { ball.height -= push.up[0]; }
TBS_SYSTEM void look(World &world, const Ball &ball, View &view) { view.height = ball.height; }
TBS_SYSTEM void judge(World &world, const Ball &ball, Reward &reward) { reward.value = ball.height; }
"""


class Ball(Component):
    height: f32


class Push(Component):
    up: f32[1]


class View(Component):
    height: f32


def falling(start: TaskGraph, step: TaskGraph, observe: TaskGraph, text: str = SYSTEMS, **more: Any) -> Any:
    archetypes = [Archetype("Game", Ball, Push, View, Reward, count=1)]
    spaces = {"action_space": Box(-1.0, 1.0, (1,), np.float32), "action": "Game.Push", "observation": "Game.View"}
    graphs = {"start": start, "step": step, "observe": observe}
    return declare(text, archetypes=archetypes, **spaces, **graphs, **more)


def by_declaration(*graphs: TaskGraph) -> str:
    try:
        stale._by_declaration(Program(falling(*graphs)()))
    except Failed as wrong:
        return wrong.says
    return ""


def test_an_observation_of_the_state_before_is_found() -> None:
    begin, nothing = TaskGraph("begin"), TaskGraph()
    assert not by_declaration(begin, TaskGraph("fall", "judge"), TaskGraph("look"))
    assert not by_declaration(TaskGraph("begin", "look"), TaskGraph("fall", "look", "judge"), nothing)
    assert by_declaration(TaskGraph("begin", "look"), TaskGraph("look", "fall", "judge"), nothing) == (
        "Game.View is written by system 'look' from Game.Ball, which 'fall' changes later in the step: the "
        "output belongs to the earlier state"
    )
    assert by_declaration(begin, TaskGraph("fall", "look", "judge"), nothing) == (
        "Game.View is written by 'look' in 'step' only: after a reset it is all zero"
    )


def test_an_environment_that_cannot_be_built_fails_one_check() -> None:
    graphs = TaskGraph("begin"), TaskGraph("fal", "judge"), TaskGraph("look")
    report = run_checks(falling(*graphs), **SIZE)
    assert report.outcome("build").status == "failed" and "'fal'" in report.outcome("build").says
    assert {outcome.status for outcome in report.outcomes[1:]} == {"skipped"}


@pytest.mark.full
def test_a_compilers_error_fails_with_the_line() -> None:
    graphs = TaskGraph("begin"), TaskGraph("fall", "judge"), TaskGraph("look")
    report = run_checks(falling(*graphs, text=SYSTEMS.replace("ball.height = 1", "bal.height = 1")), **SIZE)
    assert re.search(r"systems\.h:2.*bal", report.outcome("build").says)


@pytest.mark.full
def test_an_action_that_is_not_clipped_is_found() -> None:
    graphs = TaskGraph("begin"), TaskGraph("fall", "judge"), TaskGraph("look")
    limits = {"observation_space": Box(-100.0, 100.0, (), np.float32)}
    wrong = run_checks(falling(*graphs, clips_actions=True, **limits), only=("refused",), **SIZE).outcome("refused")
    assert wrong.status == "failed" and "after an action of -1e+30 observation is not within its space" in wrong.says
    clipped = SYSTEMS.replace("-= push.up[0]", "-= clamp(push.up[0], -1.0f, 1.0f)")
    sound = run_checks(falling(*graphs, clipped, clips_actions=True, **limits), only=("refused",), **SIZE)
    assert sound.outcome("refused").status == "passed"


CROWDED = SYSTEMS.replace("= 1.0f; }", "= 1.0f; for (u32 i = 0; i < 3; ++i) world.create<Drop>(); }")


def test_growth_that_a_table_is_due_is_no_change_of_a_world() -> None:
    """Of a table filled to three quarters, which a rejected action, or a reset of other worlds, lets grow."""
    tables = [Archetype("Game", Ball, Push, View, Reward, count=1), Archetype("Drop", Push, capacity=4, limit=64)]
    crowded = declare(
        CROWDED,
        archetypes=tables,
        action_space=Box(-1.0, 1.0, (1,), np.float32),
        action="Game.Push",
        observation="Game.View",
        start=TaskGraph("begin"),
        step=TaskGraph("fall", "judge"),
        observe=TaskGraph("look"),
    )
    refused = run_checks(crowded, only=("refused",), **SIZE).outcome("refused")
    assert refused.status == "passed", refused
    env = TorchVectorEnv(crowded(), num_envs=2, checks=True)
    env.reset(seed=0)
    before = snapshot(env.sim)
    assert env.sim.memory.tables["Drop"].rooms.tolist() == [4, 4]
    env.reset(options={"reset_mask": torch.tensor([True, False])})
    assert env.sim.memory.tables["Drop"].rooms.tolist() == [8, 8]
    second = torch.tensor([False, True])
    assert_same_bits(of_worlds(before, second), of_worlds(snapshot(env.sim), second))


class Several(Component):
    height: f32
    still: f32[2]


def test_elements_that_stand_still_are_named_by_their_fields() -> None:
    text = SYSTEMS.replace("View &view) {", "Several &view) { view.still[0] = view.still[1] = 1.0f;")
    text += "TBS_SYSTEM void end(World &world, Episode &episode) { episode.truncated = episode.step >= 9; }\n"
    several = declare(
        text,
        archetypes=[Archetype("Game", Ball, Push, Several, Reward, count=1)],
        action="Game.Push",
        observation="Game.Several",
        action_space=Box(-1.0, 1.0, (1,), np.float32),
        start=TaskGraph("begin"),
        step=TaskGraph("fall", "judge", "end"),
        observe=TaskGraph("look"),
    )
    found = run_checks(several, only=("observations",), worlds=4, steps=40).outcome("observations")
    assert "2 of 3 elements of observation never did: 1 (still[0]), 2 (still[1])" in found.says


def test_a_space_that_says_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine refuses such declarations; a wrapper, or a bug of the engine, may still deliver them."""
    double = Box(-1.0, 2.0, (2,), np.float64)
    monkeypatch.setattr(contract, "parts_of", lambda space: dict.fromkeys(parts_of(space), double))
    found = run_checks(Walk, only=("spaces",), **SIZE).outcome("spaces")
    assert found.status == "failed" and "torch.float32 of shape [16, 2], its space has float64" in found.says


def test_an_error_in_python_has_its_line() -> None:
    def wrong() -> Any:
        raise KeyError("level")

    found = run_checks(Walk, only=("reference",), reference=wrong, **SIZE).outcome("reference")
    assert found.status == "failed"
    assert re.fullmatch(r"test_check\.py:\d+, in wrong: KeyError: 'level'", found.says)


# ---- beside a reference ----------------------------------------------------------------------------------------------


class Model:
    """Walk in Python. ``slip``: by how much its moves are wrong."""

    slip = 0.0

    def reset(self, state: Any) -> None:
        self.x, self.time, self.step_number = float(state["Walker.Place.x"][0]), int(state["Walker.Place.time"][0]), 0

    def step(self, action: Any) -> tuple[Any, float, bool, None]:
        self.x = float(np.clip(self.x + (int(action) - 1) * (0.25 + self.slip), -2, 2))
        self.time += 1
        seen = np.array([self.x / 2, self.time % 16 / 16], np.float32)
        return seen, self.x, abs(self.x) > 1.5, None  # the limit of steps is no part of the state that it is given

    def state(self) -> dict[str, Any]:
        return {"Walker.Place.x": np.array([self.x]), "Walker.Place.time": np.array([self.time])}


class Wrong(Model):
    slip = 0.01


class Late(Model):
    def step(self, action: Any) -> Any:
        outcome = super().step(action)
        self.time += 1
        return outcome


def test_a_reference_is_compared_step_by_step() -> None:
    sound = run_checks(Walk, only=("reference",), reference=Model, **SIZE).outcome("reference")
    assert sound.status == "passed" and sound.says.startswith("300 steps of 4 worlds agree with Model")
    wrong = run_checks(Walk, only=("reference",), reference=Wrong, **SIZE).outcome("reference")
    assert wrong.status == "failed"
    assert re.match(r"observation\[0\] differs first in step \d+ \(step \d+ of the episode\), world \d: ", wrong.says)
    late = run_checks(Walk, only=("reference",), reference=Late, **SIZE).outcome("reference")
    assert late.says.startswith("state Walker.Place.time[0] differs first in step 1 (step 1 of the episode), world 0: ")


# ---- what is given, and what comes back ------------------------------------------------------------------------------


def test_check_env_raises_one_error_with_all_failures() -> None:
    with pytest.raises(CheckFailed, match="Walk: 32 worlds, 300 steps, seed 0: 2 checks failed") as raised:
        check_env(Walk, broken=int(Broken.SCRATCH), only=("state", "leftovers", "bounds"), **SIZE)
    assert [outcome.name for outcome in raised.value.report.failed] == ["leftovers", "state"]
    assert "remedy: " in str(raised.value)
    assert pickle.loads(pickle.dumps(raised.value)).report == raised.value.report


def test_names_of_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import environments.walk as module

    assert subject.declaration("cartpole", {"gravity": 9.0}).parameters.gravity == 9.0
    assert type(subject.declaration("environments.walk:Walk", {})) is Walk
    assert subject.declaration(f"{module.__file__}:Walk", {"broken": 3}).name == "Walk"
    assert subject.declaration(str(module.__file__), {}).name == "Walk"
    wrong = {
        "environments.walk:Wlk": r"no environment 'Wlk' \(did you mean 'Walk'\?\)",
        "environments.wlk:Walk": "cannot be imported",
        f"{tmp_path}/walk.py": "there is no file",
        "cartpol": "there is no environment 'cartpol'",
    }
    for name, words in wrong.items():
        with pytest.raises(ValueError, match=words):
            subject.declaration(name, {})
    with pytest.raises(TypeError, match="did you mean 'gravity'"):
        subject.declaration("cartpole", {"gravty": 9.0})
    misspelt = {"skip": ("bound",)}, "'bound', which is not a check"
    for names, words in ({"only": "bounds"}, "sequence of names"), misspelt:
        with pytest.raises((TypeError, ValueError), match=words):
            check_env(Walk, **names)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    some = ["environments.walk:Walk", "--worlds", "32", "--steps", "300", "--only", "bounds,episodes"]
    assert cli.main([*some, "--verbose"]) == 0
    said = capsys.readouterr()
    assert said.out.endswith("2 passed\n") and said.err == "bounds (1 of 2)\nepisodes (2 of 2)\n"
    assert cli.main([*some, "--env-option", f"broken={int(Broken.BOUNDS)}"]) == 1
    assert "failed   bounds    observation is -1." in capsys.readouterr().out
    assert cli.main([*some, "--broken", str(int(Broken.BOUNDS)), "--max-episode-steps=9"]) == 1
    assert cli.main([*some[:-1], "reference", "--reference", "test_check:Model"]) == 0
    for wrong in ([], ["nothing"], [*some, "--steps", "0"], [*some, "--brokn", "1"], [*some, "y"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(wrong)
        assert ended.value.code == 2
    capsys.readouterr()
    assert cli.main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [check.name for check in CHECKS]


def test_a_terminal_shows_which_check_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("torch_batchsim.check.progress._EVERY", 0.001)
    stream = Terminal()
    progress = Progress(stream)
    progress.begin("bounds", 2, 14)
    until = time.monotonic() + 60
    while "bounds (2 of 14), " not in stream.getvalue() and time.monotonic() < until:
        time.sleep(0.001)
    progress.end()
    assert stream.getvalue().endswith(" s\r\x1b[K")
    Progress(quiet := io.StringIO()).begin("bounds", 1, 14)  # a file
    assert quiet.getvalue() == ""


@pytest.mark.full
def test_cartpole_by_the_command() -> None:
    command = [sys.executable, "-m", "torch_batchsim.check", "cartpole", "--steps", "500"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 passed, 2 skipped" in done.stdout


@pytest.mark.parametrize("name", of_today(sorted({*ENVIRONMENTS} - {"cartpole", "duel", "drift"}), 3))  # zoo has all
def test_own_environments_pass(name: str) -> None:
    """Melee's absent fighters see infinity on purpose."""
    small = {"worlds": 4, "steps": 60} if name == "hideseek" else {"worlds": 16, "steps": 400}
    checks = Checks(nan=name != "melee")
    check_env(ENVIRONMENTS[name](), skip=("executors",) if name == "hideseek" else (), checks=checks, **small)


@pytest.mark.full
def test_the_page(tmp_path: Path) -> None:
    """Its examples run beside that of authoring.md, and its list has all checks."""
    docs = Path(__file__).resolve().parents[3] / "docs"
    for page in ("authoring.md", "checking.md"):
        for name, text in re.findall(r"```\w+ title=(\S+)\n(.*?)```", (docs / page).read_text(), re.DOTALL):
            if "catch" in name:
                (tmp_path / name).write_text(text)
    reference = ["-m", "torch_batchsim.check", "catch.py", "--only", "reference", "--reference", "catch_model:Model"]
    for command, words in (["-m", "pytest", "-q", "test_catch.py"], "1 passed"), (reference, "1 passed"):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and words in done.stdout, done.stdout + done.stderr


def test_the_page_names_all_checks() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "checking.md").read_text()
    assert re.findall(r"^- `(\w+)`: ", page, re.MULTILINE) == [check.name for check in CHECKS]


@pytest.mark.full
def test_checks_of_the_checked_build_are_chosen() -> None:
    for checks, error in (("nan", TypeError), (False, ValueError)):
        with pytest.raises(error, match=r"checks must be .*torch_batchsim\.Checks"):
            check_env("cartpole", checks=checks)
    checked = subject.Subject(Walk(), run=RunOptions(checks=Checks(nan=False))).make(checked=True)
    assert checked.sim.program.checks == Checks(nan=False, bounds=False)  # `bounds` is a check of its own


@pytest.mark.parametrize(
    ("given", "near"), [("--onyl build", "--only"), ("--only bonds", "'bounds'"), ("--checks nna=0", "'nan'")]
)
def test_a_misspelt_option_of_the_command_is_suggested(
    given: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["cartpole", *given.split()])
    printed = capsys.readouterr().err
    assert ended.value.code == 2 and printed.startswith("error: ") and f"(did you mean {near}?)" in printed
