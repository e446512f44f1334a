"""The live page's server, with clients that are no browsers: frames, control, edits; nothing harms a run."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from live_page import LIMIT, Page, running
from support import declare
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hideseek import HideSeek

import torch_batchsim
from torch_batchsim import (
    Archetype,
    Component,
    Control,
    Environment,
    Episode,
    Recorder,
    Recording,
    Reward,
    TaskGraph,
    TorchVectorEnv,
    Viewer,
    World,
    between,
    component,
    f32,
    i32,
    system,
)
from torch_batchsim.declare.policies import policies_of
from torch_batchsim.draw import Scene
from torch_batchsim.page.scenes import Encoder
from torch_batchsim.run.world_state import WorldState, WorldStates
from torch_batchsim.vector import rendering
from torch_batchsim.watch.__main__ import main
from torch_batchsim.watch.counts import REWARD, Counts
from torch_batchsim.watch.messages import Refused
from torch_batchsim.watch.session import Playback, Session

SHOW = '{"kind": "show", "full": 0, "follow": null, "row": 0}'


def test_a_page_is_served_and_steps() -> None:
    with running() as viewer:
        with urllib.request.urlopen(viewer.url) as answer:
            text = answer.read().decode()
        assert "<canvas" in text and "class Solids" in text and "/*" + "DRAWING" not in text
        page, sim = Page(viewer.url), viewer.env.sim
        assert page.hello["title"] == "CartPole" and page.hello["worlds"] == 8 and page.hello["paused"]
        assert viewer.clients == 1 and page.hello["policies"] == ["random", "still"]
        page.send("show", worlds=[1, 5], full=2, table="Cart", follow=None, row=0)
        values = page.text("values")
        frame, numbers = page.frame(lambda frame: [each[0] for each in frame["worlds"]] == [1, 5, 2])
        assert frame["step"] == 0
        for world in (1, 5, 2):  # what the page draws is what pictures draw
            own = Encoder().encode([rendering.scene_of(sim.environment)(WorldState(sim, world))])
            assert np.array_equal(numbers[world], own.numbers)
        styles = [page.styles[i] for i in page.layouts[frame["worlds"][0][1]]]
        assert [style[0] for style in styles] == ["background", "line", "rectangle", "line", "circle"]
        assert values["world"] == 2 and values["names"][0] == "Cart.CartState.x"
        assert float(values["rows"][0][0][0]) == pytest.approx(float(sim.tensor("Cart.CartState.x")[2]), rel=1e-5)
        page.send("step", count=1)
        frame, moved = page.frame(lambda frame: frame["step"] == 1)
        assert not np.array_equal(moved[2], numbers[2]) and frame["worlds"][0][5:8] == [1, 0, 1.0]
        page.send("step", count=7)
        page.frame(lambda frame: frame["step"] == 8)
        assert int(sim.tensor("World.step")[0]) == 8 and viewer.steps == 8


def test_a_run_is_paused_and_slowed_down() -> None:
    with running(speed=None) as viewer:
        page = Page(viewer.url)
        first = page.frame()[0]["step"]
        page.frame(lambda frame: frame["step"] > first)  # at full speed
        page.send("pause", on=True)
        assert page.until(lambda message: message["kind"] == "state")[0]["paused"]
        stands = viewer.steps
        time.sleep(0.05)
        assert viewer.steps == stands
        page.send("speed", value=40.0)
        page.send("pause", on=False)
        page.frame(lambda frame: frame["step"] > stands + 5)
        assert viewer.speed == 40.0
        page.send("speed", value=None)
        assert page.until(lambda message: message["kind"] == "state" and message["speed"] is None)


def test_worlds_are_reset_and_policies_chosen() -> None:
    with running() as viewer:
        page, sim = Page(viewer.url), viewer.env.sim
        page.send("step", count=3)
        page.frame(lambda frame: frame["step"] == 3)
        state = sim.tensor("Cart.CartState").clone()
        page.send("reset", world=4, seed=77)
        assert page.text("done")["text"] == "world 4 begins a new episode with seed 77"
        same = (sim.tensor("Cart.CartState") == state).flatten(1).all(dim=1).tolist()
        assert same == [world != 4 for world in range(8)]
        started = sim.tensor("Cart.CartState")[4].clone()
        assert torch.equal(viewer.session.observations[4], started[0])  # type: ignore[attr-defined]
        page.send("reset", world=None, seed=77)
        page.text("done")
        assert torch.equal(sim.tensor("Cart.CartState")[4], started) and int(sim.tensor("World.step").max()) == 0
        page.send("policy", name="still")
        assert page.text("state")["policy"] == "still"
        page.send("step", count=1)
        page.frame(lambda frame: frame["step"] == 4)
        assert (sim.tensor("Cart.Push.direction") == 0).all()


def test_edits_are_checked_and_written() -> None:
    with running() as viewer:
        page, sim = Page(viewer.url), viewer.env.sim
        place = {"world": 3, "row": 0, "element": 0}
        page.send("edit", **place, name="Cart.CartState.theta", value=0.125)
        assert "theta of row 0 is 0.125" in page.text("done")["text"]
        assert float(sim.tensor("Cart.CartState.theta")[3, 0]) == 0.125
        before = {name: tensor.clone() for name, tensor in sim.memory.columns.items()}
        for change, text in (
            ({"value": 1e39}, "must be from -3.40282e+38 to 3.40282e+38, got 1e+39"),
            ({"name": "Cart.Push.direction", "value": 0.5}, "must be an integer, got 0.5"),
            ({"name": "Cart.Push.direction", "value": 2**31}, "must be from -2.14748e+09 to"),
            ({"name": "Cart.Nothing.x"}, "there is no field Cart.Nothing.x"),
            ({"name": "Cart.CartState"}, "Cart.CartState is no field"),
            ({"row": 1}, "has 1 rows in world 3, got row 1"),
            ({"element": 1}, "has 1 numbers a row, got number 1"),
            ({"world": 8}, "world must be an integer from 0 to 7, got 8"),
            ({"value": "1"}, "value must be a number, got '1'"),
        ):
            message = {"kind": "edit", **place, "name": "Cart.CartState.theta", "value": 1.0, **change}
            assert text in page.refused(json.dumps(message))
        assert all(torch.equal(sim.memory.columns[name], tensor) for name, tensor in before.items())


def test_bad_messages_change_nothing() -> None:
    with running() as viewer:
        page = Page(viewer.url)
        for message, text in (
            ("{", "must be JSON"),
            ("[1]", 'must be an object with its "kind"'),
            ('{"kind": 3}', 'must be an object with its "kind"'),
            (b"\x00\x01", "must be text"),
            ('{"kind": "quit"}', "there is no message of kind 'quit' here"),
            ('{"kind": "step"}', "step takes count, got none"),
            ('{"kind": "step", "count": 1, "more": 2}', "step takes count, got count, more"),
            ('{"kind": "step", "count": true}', "count must be an integer from 1 to 100000, got True"),
            ('{"kind": "step", "count": 1e3}', "count must be an integer"),
            ('{"kind": "speed", "value": 0}', "value must be a number above 0"),
            ('{"kind": "speed", "value": NaN}', "NaN is no number"),
            ('{"kind": "pause", "on": "yes"}', "on must be true or false"),
            ('{"kind": "policy", "name": "best"}', "name must be one of random, still"),
            ('{"kind": "reset", "world": null, "seed": -1}', "seed must be an integer from 0"),
            (SHOW[:-1] + ', "worlds": [8], "table": null}', "worlds must be an integer from 0 to 7"),
            (SHOW[:-1] + ', "worlds": 3, "table": null}', "worlds must be a list"),
            (SHOW[:-1] + ', "worlds": [], "table": "Ship"}', "table must be one of Cart"),
            ('{"kind": "step", "count": ' + "1" * 70_000 + "}", "of 65,536 characters at most"),
            ("[" * 60_000, "must be JSON"),
        ):
            assert text in page.refused(message), message
        assert viewer.steps == 0 and viewer.paused


def test_other_sites_get_nothing() -> None:
    """A page of another site, also one whose name was made to mean this machine."""
    with running() as viewer:
        for headers in ({"Host": "evil.example"}, {"Host": "evil.example:8765"}, {"Origin": "http://evil.example"}):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(urllib.request.Request(viewer.url, headers=headers))
        with pytest.raises(Exception, match="403"):
            Page(viewer.url, origin="http://evil.example")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(viewer.url + "secret")
        Page(viewer.url, origin=viewer.url.rstrip("/"))  # the page itself


def test_two_pages_one_that_leaves_and_a_slow_one() -> None:
    """Nothing waits for them; a page that reads nothing gets the latest frame when it reads again."""
    with running(TorchVectorEnv(CartPole(), 256), speed=None) as viewer:
        first, slow, gone = Page(viewer.url), Page(viewer.url), Page(viewer.url)
        slow.send("show", worlds=list(range(256)), full=0, table=None, follow=None, row=0)
        first.send("show", worlds=[3], full=3, table=None, follow=None, row=0)
        gone.send("step", count=100_000)
        gone.socket.socket.shutdown(socket.SHUT_RDWR)  # in the midst of it
        first.send("pause", on=False)
        seen = 0
        for _ in range(30):
            frame = first.frame(lambda frame: [each[0] for each in frame["worlds"]] == [3])[0]
            assert frame["step"] > seen
            seen = frame["step"]
        assert viewer.clients == 2
        late = slow.frame(lambda frame: len(frame["worlds"]) == 256)[0]["step"]
        assert late <= seen  # what lay in the buffers
        assert slow.frame(lambda frame: frame["step"] >= seen)


@pytest.mark.full
def test_texts_that_always_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a style of its own: a page is told to forget, before memory grows without end."""

    class Counting(CartPole):
        def scene(self, world: Any) -> Scene:
            scene = Scene(60, 10)
            scene.text((0, 5), f"{float(world['Cart.CartState.x'][0]):.6f}", (0, 0, 0))
            return scene

    monkeypatch.setattr("torch_batchsim.page.scenes._MANY", 20)
    with running(TorchVectorEnv(Counting(), 4)) as viewer:
        page, most = Page(viewer.url), 0
        for step in range(1, 20):
            page.send("step", count=1)
            frame = page.frame(lambda frame, step=step: frame["step"] == step)[0]
            most = max(most, len(page.styles))
            x = viewer.env.sim.tensor("Cart.CartState.x")[2, 0]
            background, text = (page.styles[i] for i in page.layouts[frame["worlds"][2][1]])
            assert (background[0], text[2]) == ("background", f"{float(x):.6f}")
        assert most < 40


def test_nobody_looks() -> None:
    """No frame is taken; the loop that steps calls a method and nothing else happens."""
    env = TorchVectorEnv(CartPole(), 4)
    with Viewer(env, 0) as viewer:
        env.reset(seed=0)
        for _ in range(50):
            env.step(env.sample_actions())
            viewer.after_step()
        assert viewer.steps == 50 and viewer.clients == 0 and viewer._server._encoders[0].layouts == []
        page = Page(viewer.url)
        viewer.after_step()
        assert "reset" not in page.hello["can"] and page.hello["worlds"] == 4
    viewer.after_step()  # closed


def test_own_messages_and_overrides() -> None:
    """What human play is made of: a message of its own, and rows of actions that it takes over."""
    with running() as viewer:
        taken: dict[int, int] = {}

        def take(row: int, action: int) -> dict[str, Any]:
            if action > 1:
                raise Refused("actions are 0 and 1")
            taken[row] = action
            return {"kind": "done", "text": f"row {row}"}

        def override(actions: torch.Tensor) -> torch.Tensor:
            for row, action in taken.items():
                actions[row] = action
            return actions

        from torch_batchsim.watch import messages

        viewer.on("human", {"row": messages.whole(0, 7), "action": messages.whole(0, 9)}, take)
        viewer.session.overrides.append(override)  # type: ignore[attr-defined]
        page = Page(viewer.url)
        assert page.refused('{"kind": "human", "row": 2, "action": 5}') == "actions are 0 and 1"
        page.send("policy", name="still")
        page.send("human", row=2, action=1)
        assert page.text("done")["text"] == "row 2"
        page.send("step", count=1)
        page.frame(lambda frame: frame["step"] == 1)
        assert viewer.env.sim.tensor("Cart.Push.direction").flatten().tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


class Place(Component):
    x: f32


class Choice(Component):
    direction: i32 = between(0, 1)


@system
def walk(world: World, place: Place, choice: Choice, reward: Reward) -> None:
    place.x += 1.0 if choice.direction == 1 else -1.0
    reward.value = place.x
    if place.x > 2.5:
        world.fail("far", 7)


class Walk(Environment):
    archetypes = [Archetype("Walker", Place, Choice, Reward, count=1)]
    step, faults = TaskGraph(walk), ("far",)
    observation, action, systems = "Walker.Place", "Walker.Choice.direction", ()

    def scene(self, world: Any) -> Scene:
        scene = Scene(20, 10)
        scene.circle((float(world["Walker.Place.x"][0]), 5), 2, (0, 0, 0))
        return scene


class Age(Component):
    steps: i32


@system
def grow(world: World, age: Age, choice: Choice, reward: Reward, episode: Episode) -> None:
    age.steps += 1
    reward.value = 1.0 if choice.direction == 1 else 0.0
    if age.steps >= 5:
        episode.truncated = True


class Counted(Environment):
    archetypes = [Archetype("Walker", Age, Choice, Reward, count=1)]
    step = TaskGraph(grow)
    observation, action, systems = "Walker.Age", "Walker.Choice.direction", ()
    info = {"age": "Walker.Age"}

    def scene(self, world: Any) -> Scene:
        return Scene(20, 10)


def test_faults_are_told_and_their_worlds_begin_again() -> None:
    with running(TorchVectorEnv(Walk(), 3)) as viewer:
        env = viewer.env
        viewer.session._policy = lambda *_: torch.tensor([0, 1, 0])  # type: ignore[attr-defined]
        page = Page(viewer.url)
        page.frame()
        page.send("step", count=3)
        [fault] = page.text("faults")["faults"]
        assert (fault["world"], fault["step"]) == (1, 2) and "world 1" in fault["text"] and "far" in fault["text"]
        frame = page.frame(lambda frame: frame["step"] == 3)[0]
        assert [world[-4:] for world in frame["worlds"]] == [[0, 3, -6.0, 0], [0, 3, 6.0, 1], [0, 3, -6.0, 0]]
        assert env.sim.tensor("Walker.Place.x").flatten().tolist() == [-3, 0, -3]
        assert Page(viewer.url).hello["faults"] == [fault]  # a page that comes later


@pytest.mark.full
def test_an_authors_mistake_in_a_scene_is_told() -> None:
    class Wrong(CartPole):
        def scene(self, world: Any) -> Any:
            raise RuntimeError("no colour")

    with running(TorchVectorEnv(Wrong(), 2)) as viewer:
        page = Page(viewer.url)
        assert page.text("error")["text"] == "the picture failed: RuntimeError: no colour"
        page.send("point", world=0, x=1.0, y=1.0)
        assert page.text("error")["text"] == "the picture failed: RuntimeError: no colour"
        page.send("step", count=2)
        page.send("pause", on=False)
        assert page.text("state")["paused"] is False


def test_pictures_where_there_is_no_scene() -> None:
    class Drawn(CartPole):
        def render(self, world: Any) -> np.ndarray:
            return np.full((4, 6, 3), int(world["World.step"]), np.uint8)

        scene = torch_batchsim.Environment.scene

    with running(TorchVectorEnv(Drawn(), 2)) as viewer:
        page = Page(viewer.url)
        frame, files = page.frame()
        first, second = frame["worlds"]
        assert (first[:2], second[:2], first[3:5]) == ([0, -1], [1, -1], [6, 4])
        assert files[1].tobytes().startswith(b"\x89PNG")


def test_a_recording_is_played_and_sought(tmp_path: Path) -> None:
    env = TorchVectorEnv(CartPole(), 2)
    with Recorder(env, tmp_path / "a.tbs") as recorder:
        recorder.reset(seed=4)
        for _ in range(40):
            recorder.step(recorder.sample_actions())
    recording = Recording(tmp_path / "a.tbs")
    with Viewer(recording.seek(0), 0, edits=False, speed=500.0) as viewer:
        thread = threading.Thread(target=Playback(viewer, recording).run)
        thread.start()
        page = Page(viewer.url)
        assert page.hello["can"] == ["pause", "step", "speed", "point", "seek"] and page.hello["moments"] == 41
        page.frame(lambda frame: frame["moment"] == 40)  # its end, where it pauses
        page.send("seek", moment=7)
        assert page.frame(lambda frame: frame["moment"] == 7)[0]["worlds"][0][5] == 7
        page.send("step", count=1)
        page.frame(lambda frame: frame["moment"] == 8)
        viewer.close()
        thread.join(LIMIT)


def recorded(path: Path, steps: int, change: int = -1, worlds: int = 4, **options: Any) -> Recording:
    """CartPoles; in world 1 the action of one step is another one."""
    with Recorder(TorchVectorEnv(CartPole(**options), worlds), path) as recorder:
        recorder.reset(seed=4)
        for step in range(steps):
            actions = torch.arange(worlds) % 2 ^ (step // 2 % 2)
            actions[1] ^= step == change
            recorder.step(actions)
    return Recording(path)


def test_two_recordings_are_shown_in_step(tmp_path: Path) -> None:
    one, other = recorded(tmp_path / "a.tbs", 30), recorded(tmp_path / "b.tbs", 20, change=6)
    with Viewer(one.seek(0), 0, edits=False) as viewer:
        viewer.paused = True
        thread = threading.Thread(target=Playback(viewer, one, other).run)
        thread.start()
        page = Page(viewer.url)
        beside = page.hello["beside"]
        assert beside["files"] == ["a.tbs", "b.tbs"] and beside["ends"] == [30, 20] and page.hello["moments"] == 31
        later = {"terminations": 16, "final_obs": 16, "end": 21}
        assert beside["first"] == {"actions": 7, "observations": 7, "state": 7, **later}
        page.send("show", worlds=[0, 1, 2], full=1, table="Cart", follow=None, row=0)
        page.send("seek", moment=6)
        frame = page.frame(lambda frame: frame["moment"] == 6 and frame["full"] == 1)[0]
        assert frame["differs"] == {"0": [], "1": [], "2": []} and frame["other"]["worlds"][0][0] == 1
        page.send("seek", moment=12)
        page.send("differ")
        assert page.text("differ") == {"kind": "differ", "moment": 7, "worlds": [1]}
        values = page.text("values")
        frame = page.frame(lambda frame: frame["moment"] == 7)[0]
        assert frame["differs"] == {"0": [], "1": ["state", "observations"], "2": []}
        speeds = values["rows"][0][1], values["other"][0][1]
        here = (float(each.env().sim.tensor("Cart.CartState.x_dot")[1]) for each in (one, other))
        assert speeds[0] != speeds[1] and [float(each[0]) for each in speeds] == pytest.approx(list(here), rel=1e-5)
        page.send("step", count=1)
        assert page.frame(lambda frame: frame["moment"] == 8)[0]["other"]["worlds"][0][5] == 8
        page.send("seek", moment=25)  # the shorter one waits at its end
        page.frame(lambda frame: frame["moment"] == 25)
        assert (one.moment, other.moment) == (25, 20)
        viewer.close()
        thread.join(LIMIT)


def test_recordings_that_do_not_differ(tmp_path: Path) -> None:
    one, other = recorded(tmp_path / "a.tbs", 3), recorded(tmp_path / "b.tbs", 3)
    assert one.first_differences(other) == {}
    playback = Playback(Viewer(one.seek(0), 0), one, other)
    with playback.viewer, pytest.raises(Refused, match="the recordings do not differ"):
        playback._find()
    other = recorded(tmp_path / "c.tbs", 3, gravity=9.0)
    assert one.first_differences(other) == {"observations": 1, "state": 1}


def test_recordings_that_cannot_be_shown_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "a.tbs", 1)
    recorded(tmp_path / "b.tbs", 1, worlds=3)
    with Recorder(TorchVectorEnv(Walk(), 4), tmp_path / "c.tbs") as recorder:
        recorder.reset(seed=0)
    with Recorder(TorchVectorEnv(CartPole(continuous=True), 4), tmp_path / "d.tbs") as recorder:
        recorder.reset(seed=0)
    for other, text in (
        ("b.tbs", "cannot be shown side by side: the first has 4 worlds, the second has 3 worlds"),
        ("c.tbs", "the first is of torch_batchsim.envs.cartpole.env:CartPole, the second is of"),
        ("d.tbs", "the second has other tables"),
        ("cartpole", "two arguments must be recordings, a.tbs b.tbs, got"),
    ):
        given = str(tmp_path / other) if other.endswith(".tbs") else other
        assert main([str(tmp_path / "a.tbs"), given]) == 2
        assert text in capsys.readouterr().err


def seen(viewer: Viewer, page: Page, worlds: list[int], step: int) -> dict[str, Any]:
    """The first frame of these worlds after this step, of a loop in this thread."""
    found: list[dict[str, Any]] = []

    def look() -> None:
        wanted = lambda frame: [each[0] for each in frame["worlds"]] == worlds and frame["step"] == step  # noqa: E731
        found.append(page.frame(wanted)[0])

    thread = threading.Thread(target=look)
    thread.start()
    while thread.is_alive():
        viewer.wait()
        thread.join(0.01)
    return found[0]


def test_curves_count_every_step() -> None:
    """Also those that no frame shows, and the last one of an episode, whose state is gone."""
    env = TorchVectorEnv(Counted(), 4)
    env.reset(seed=0)
    with Viewer(env, 0) as viewer:
        page = Page(viewer.url)
        page.send("show", worlds=[1, 3], full=3, table=None, follow=None, row=0)
        seen(viewer, page, [1, 3], 0)
        for step in range(2500):  # more than fit into the buffer
            env.step(torch.tensor([0, step % 2, 0, 1]))
            viewer.after_step()
        frame = seen(viewer, page, [1, 3], 2500)
        shown = {world: (total, steps) for world, *_, steps, total, _ in frame["worlds"]}
        assert shown == {1: (1250.0, 2500), 3: (2500.0, 2500)}
        assert frame["infos"] == {"age": 500 * (1 + 2 + 3 + 4 + 5)}  # the 5 is that of the final step
        page.send("show", worlds=[0, 3], full=3, table=None, follow=None, row=0)
        frame = seen(viewer, page, [0, 3], 2500)
        assert [world[-4:] for world in frame["worlds"]] == [[2500, 0, 0.0, 0], [0, 2500, 2500.0, 0]]


@pytest.fixture(params=[True, False], ids=["compiled", "plain"])
def counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By C++, and as on a GPU or where that cannot be compiled."""
    if not request.param:
        monkeypatch.setattr("torch_batchsim.watch.counts._module", lambda: None)


@pytest.mark.parametrize("arguments", [{}, {"output": "numpy"}, {"copy": True}, {"copy": False}], ids=str)
@pytest.mark.usefixtures("counted")
def test_rewards_are_counted_however_they_are_delivered(arguments: dict[str, Any]) -> None:
    """Also where a caller holds or binds outputs, and where torch has moved them since the step."""
    env, worlds = TorchVectorEnv(CartPole(sutton_barto_reward=True), 6, **arguments), [0, 2, 5]
    env.reset(seed=1)
    env.action_space.seed(1)
    counts, wanted, held = Counts(env), np.zeros(6), []
    counts.show(worlds, True)
    for step in range(60):
        if step == 40 and not env.copies:
            env.bind(rewards=torch.zeros(6))
        rewards = env.step(env.sample_actions())[1]
        held.append(rewards)
        wanted += np.asarray(rewards)
        if step == 20 and not arguments:
            rewards.share_memory_()
            rewards[:] += 1  # what is there when it is counted
            wanted += 1
        counts.counter.add()
    _, steps, sums = counts.totals()
    assert steps.tolist() == [60, 60, 60] and (wanted[worlds] < 0).any()
    assert sums[REWARD].tolist() == wanted[worlds].tolist()


_VALUES = {
    "f32": "1 / (n - 3.0f)", "f64": "1e200", "boolean": "n % 2",
    "i8": "-100 - n", "i16": "-30000", "i32": "-n", "i64": "-(i64(1) << 40)",
    "u8": "200 + n", "u16": "60000 + n", "u32": "4000000000u", "u64": "u64(1) << 50",
}  # fmt: skip


@pytest.mark.usefixtures("counted")
def test_infos_of_all_types_are_counted() -> None:
    """Of two agents, who choose different actions; the last ones of an episode too, and what is not finite as 0."""
    made = [component(f"Info_{kind}", value=getattr(torch_batchsim, kind)) for kind in _VALUES]
    arguments = ", ".join(f"Info_{kind} &of_{kind}" for kind in _VALUES)
    lines = "\n    ".join(f"of_{kind}.value = choice.direction ? {value} : 1;" for kind, value in _VALUES.items())
    text = f"""#pragma once
TBS_SYSTEM void tell(World &world, Age &age, const Choice &choice, Reward &reward, {arguments}) {{
    const i32 n = ++age.steps;
    {lines}
    reward.value = n == 2 ? 1.0f / 0.0f : choice.direction ? 0.5f : -2.0f;
}}
TBS_SYSTEM void judge(World &world, Episode &episode) {{ episode.truncated = episode.step >= 5; }}
"""
    infos = {kind: f"Walker.Info_{kind}" for kind in _VALUES}
    names = {"observation": "Walker.Age", "action": "Walker.Choice.direction", "info": infos}
    archetypes = [Archetype("Walker", Age, Choice, Reward, *made, count=2)]
    env = TorchVectorEnv(declare(text, archetypes=archetypes, step=TaskGraph("tell", "judge"), **names)(), num_worlds=4)
    env.reset(seed=0)
    counts, actions = Counts(env), torch.tensor([0, 1, 1, 1, 0, 0, 1, 0])
    wanted = {name: np.zeros(4) for name in (REWARD, *_VALUES)}
    assert counts.infos == list(_VALUES)
    counts.show([1, 3], True)
    for step in range(12):
        if step == 7:
            counts.show([3, 0, 1], False)
            wanted = {name: each * [0, 1, 0, 1] for name, each in wanted.items()}
        _, rewards, *_, found = env.step(actions.roll(step))
        counts.counter.add()
        for name, each in {REWARD: rewards, **{kind: found["final_info"][kind] for kind in _VALUES}}.items():
            numbers = np.asarray(each, np.float64).reshape(4, 2)
            own = np.where(np.isfinite(numbers), numbers, 0)
            wanted[name] += own.sum(axis=1) if name == REWARD else own.mean(axis=1)
    _, steps, sums = counts.totals()
    assert steps.tolist() == [12, 5, 12]
    for name, each in wanted.items():
        assert sums[name].tolist() == pytest.approx(each[[3, 0, 1]].tolist(), rel=1e-12), name


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 cannot be taken: Address already in use"):
            Viewer(TorchVectorEnv(CartPole(), 1), port)
        assert main(["cartpole", "--port", str(port)]) == 2
        assert f"error: port {port} of 127.0.0.1 cannot be taken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["cartpole", "--show", "0"], "--show must be from 1 to 256, got 0"),
        (["cartpole", "--speed", "fast"], "--speed must be full or a number of steps a second, got fast"),
        (["cartpole", "--checkpoint", "missing"], "missing"),
        (["missing.tbs"], "missing.tbs"),
        (["cartpole", "--policy", "best"], "--policy must be one of random, balance, got best"),
    ],
)
def test_mistakes_in_the_command(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert text in error and error.startswith("error: ") and error.count("\n") == 1


def test_a_wrong_control_is_a_mistake_of_the_author(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(CartPole, "controls", (Control("Up", 2),))
    assert main(["cartpole", "--worlds", "1"]) == 2
    assert capsys.readouterr().err == "error: CartPole.controls, 'Up' must be an action of Discrete(2), got 2\n"


@pytest.mark.parametrize(
    ("host", "own", "others"),
    [
        ("127.0.0.1", ("localhost:1", "127.0.0.1:8", "127.0.0.1", "[::1]:8", "LOCALHOST"), ("10.0.0.1:8", "me:8", "")),
        ("0.0.0.0", ("10.0.0.1:8", "[fe80::1]:8", f"{socket.gethostname()}:8"), ("evil.example:8", "evil.example", "")),
    ],
)
def test_names_of_this_machine(host: str, own: tuple[str, ...], others: tuple[str, ...]) -> None:
    """Over ssh another port is forwarded; an address cannot be made to mean another machine, a name can."""
    with Viewer(TorchVectorEnv(CartPole(), 1), 0, host=host) as viewer:
        assert [name for name in own if not viewer._server._is_own(name)] == []
        assert [name for name in others if viewer._server._is_own(name)] == []


def test_cartpole_is_balanced_by_its_policy() -> None:
    for continuous in (False, True):
        env = TorchVectorEnv(CartPole(continuous=continuous), 64)
        act = policies_of(env.environment)["balance"]
        observations, infos = env.reset(seed=0)
        for _ in range(500):
            observations, _, terminations, truncations, infos = env.step(act(observations, infos))
            assert not terminations.any()
        assert truncations.all()


@pytest.mark.full
@pytest.mark.parametrize("flat", [False, True])
def test_seekers_chase_whom_they_see(flat: bool) -> None:
    """More hiders are seen than in random play, as the figure of the game says."""
    seen = {}
    for name in ("chase", "random"):
        env = TorchVectorEnv(HideSeek(preset="walls", flat=flat), num_worlds=64)
        observations, infos = env.reset(seed=0)
        env.action_space.seed(0)
        for _ in range(int(env.environment.parameters.max_episode_steps) - 1):
            policies = policies_of(env.environment)
            actions = policies["chase"](observations, infos) if name == "chase" else env.sample_actions()
            observations, *_, infos = env.step(actions)
        seen[name] = float(infos["hiders_seen"].mean())
    assert seen["chase"] > 1.3 * seen["random"], seen


@pytest.mark.full
@pytest.mark.parametrize("beams", [1, 2, 90])
def test_seekers_chase_with_any_number_of_beams(beams: int) -> None:
    env = TorchVectorEnv(HideSeek(beams=beams), num_worlds=2)
    actions = policies_of(env.environment)["chase"](*env.reset(seed=0))
    assert actions.shape == (2 * 5, 5)
    env.step(actions)


def test_the_first_picture_comes_before_the_policy() -> None:
    """Also while it is still being made; its errors end the run."""
    env, may, made = TorchVectorEnv(CartPole(), 3), threading.Event(), []

    def make() -> Any:
        assert may.wait(LIMIT)
        made.append(torch.is_grad_enabled())
        return lambda *_: torch.zeros(3, dtype=torch.int64)

    def fail() -> Any:
        raise RuntimeError("no policy")

    with Viewer(env, 0) as viewer:
        session = Session(viewer, {"late": make}, 1)
        thread = threading.Thread(target=session.run)
        thread.start()
        page = Page(viewer.url)
        assert page.hello["policy"] == "late"
        assert page.frame()[0]["step"] == 0 and not made
        may.set()
        page.frame(lambda frame: frame["step"] > 3)
        assert made == [False]
        viewer.close()
        thread.join(LIMIT)
    with Viewer(TorchVectorEnv(CartPole(), 3), 0) as viewer, pytest.raises(RuntimeError, match="no policy"):
        Session(viewer, {"late": fail}, 1).run()


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ({"random": print}, "Offers.policies needs texts other than random, checkpoint and '' as names"),
        ({"best": 3}, r"Offers.policies\['best'\] must be a function of observations and infos, got 3"),
        ([print], r"Offers.policies must be a dict of functions by name, got \["),
    ],
)
def test_policies_are_functions_by_name(policies: Any, message: str) -> None:
    class Offers(CartPole):
        pass

    Offers.policies = policies  # type: ignore[assignment]
    with pytest.raises(ValueError, match=message):
        policies_of(Offers())


@pytest.mark.full
def test_the_command_ends_by_ctrl_c_and_plays_a_checkpoint(tmp_path: Path) -> None:
    """It is a process of its own, as users run it."""
    train = ["cartpole", "--total-steps", "2048", "--num-envs", "64", "--run-dir", str(tmp_path / "run")]
    subprocess.run([sys.executable, "-m", "torch_batchsim.train", *train], check=True, capture_output=True)
    command = [sys.executable, "-m", "torch_batchsim.watch", "cartpole", "--checkpoint", str(tmp_path / "run"),
               "--port", "0", "--worlds", "4", "--speed", "full", "--policy", "balance"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        page = Page(process.stdout.readline().split()[0])
        assert page.hello["policies"] == ["balance", "checkpoint", "random"] and page.hello["policy"] == "balance"
        page.send("policy", name="checkpoint")
        assert page.text("state")["policy"] == "checkpoint"
        page.frame(lambda frame: frame["step"] > 10)
        page.send("policy", name="random")
        assert page.text("state")["policy"] == "random"
        page.send("pause", on=True)
        assert page.text("state")["paused"]
        process.send_signal(signal.SIGINT)  # also while it waits
        said, error = process.communicate(timeout=LIMIT)
    finally:
        process.kill()  # where a line above has failed
    assert (process.returncode, said.strip(), error) == (0, "ended", "")


@pytest.mark.parametrize("name", ["cartpole", pytest.param("swarm", marks=pytest.mark.full),
                                  pytest.param("hideseek", marks=pytest.mark.full)])  # fmt: skip
def test_states_copied_together_are_those_of_each_world(name: str) -> None:
    env = gymnasium.make_vec(torch_batchsim.environment_ids()[name], num_worlds=5)
    sim = env.unwrapped.sim
    env.reset(seed=1)
    for step in range(31):
        for worlds in ([4, 1], [1, 2, 3], [2], range(5)) if step % 10 == 0 else ():
            states = WorldStates(sim, worlds)
            assert len(states) == len(worlds) and len(states[0]) == len(states.names)
            for state, world in zip(states, worlds, strict=True):
                own = WorldState(sim, world)
                for each in (*own, "World.step", "World.episode"):
                    assert np.array_equal(state[each], own[each], equal_nan=state[each].dtype.kind == "f"), each
        env.step(env.sample_actions())
    states = WorldStates(sim, [4, 1])
    kept = states[0]["World.step"].copy()
    env.step(env.sample_actions())
    assert states[0]["World.step"] == kept and "Nothing.x" not in states[0]
