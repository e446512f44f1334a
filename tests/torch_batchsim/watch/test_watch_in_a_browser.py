"""A browser shows the live page: what it draws moves, and all that stands on it works."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import gymnasium
import pytest
from browsers import CHROMIUM, LIMIT, browser
from live_page import running

import torch_batchsim
from torch_batchsim import Viewer
from torch_batchsim.watch.session import Playback

pytest.importorskip("websockets")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: pages are not tried; apt-get install chromium"),
]


def watched(name: str, worlds: int, shown: int, speed: float | None) -> AbstractContextManager[Viewer]:
    """An environment that runs in a thread with random actions."""
    env = gymnasium.make_vec(torch_batchsim.environment_ids()[name], num_worlds=worlds)
    return running(env, shown=shown, speed=speed)


def test_a_browser_watches_cartpole(tmp_path: Path) -> None:
    with watched("cartpole", 64, 16, 20.0) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        sim = viewer.env.sim
        page.wait("document.body && document.body.dataset.ready === 'yes' && frames > 3")
        assert page.value("cells.length") == 16 and page.value("document.title") == "CartPole - watch"
        for canvas in ("grid", "full"):  # moves
            before = page.value(f"$('{canvas}').toDataURL()")
            page.wait(f"frames > {page.value('frames')} + 3")
            assert page.value(f"$('{canvas}').toDataURL()") != before
        page.click("#play")
        page.wait("run.paused")
        page.wait("$('play').textContent === 'Play'")
        assert viewer.paused
        stands = viewer.steps
        page.wait(f"frame.step === {stands}")
        page.click("#on")
        page.wait(f"frame.step === {stands + 1}")
        assert viewer.steps == stands + 1
        world, x, y, *_ = page.value("cells[6]")  # a click shows a world in full
        page.click("#grid", x + 5, y + 5)
        page.wait(f"full === {world} && $('name').textContent === 'CartPole, world {world}'")
        page.wait(f"values && values.world === {world}")
        page.wait("document.querySelector('#values b') !== null")
        page.click("#values b")  # the cart's place
        page.wait("document.activeElement.tagName === 'INPUT'")
        page.type("1.5")
        page.wait("values.rows[0][0][0] === '1.5'")
        assert float(sim.tensor("Cart.CartState.x")[world]) == 1.5
        x = page.value("fullPainter.film.pixel && worlds.get(full).width / 2 * (1 + 1.5 / 2.4)")
        box = page.value("(b => [b.width / worlds.get(full).width, b.height / worlds.get(full).height])"
                         "($('full').getBoundingClientRect())")  # fmt: skip
        page.click("#full", x * box[0], 305 * box[1])  # the cart
        page.wait("picked && picked.table === 'Cart' && document.querySelector('#values .picked') !== null")
        page.value("$('seed').value = '5'")
        page.click("#resetOne")
        page.wait(f"$('notes').innerText.includes('world {world} begins a new episode with seed 5')")
        assert int(sim.tensor("World.step")[world]) == 0 and int(sim.tensor("World.step").sum()) > 0
        page.value("$('speed').value = 'full'; $('speed').dispatchEvent(new Event('change'))")
        page.value("$('count').value = '64'; $('count').dispatchEvent(new Event('change'))")
        page.click("#play")
        page.wait("!run.paused && cells.length === 64 && frame.rate > 100")
        page.wait("curves.get(full).mean > 1 && $('curves').innerText.includes('steps')")
        assert viewer.speed is None and page.value("drawn !== null && curves.get(full).reward.length > 3")
        page.shot(tmp_path / "cartpole.png")
        viewer.close()
        page.wait("$('notes').innerText.includes('has ended')")


def test_a_browser_seeks_in_a_recording(tmp_path: Path) -> None:
    env = torch_batchsim.make_vec("swarm", num_worlds=4)
    env.action_space.seed(1)
    with torch_batchsim.Recorder(env, tmp_path / "a.tbs") as recorder:
        recorder.reset(seed=4)
        for _ in range(120):
            recorder.step(recorder.sample_actions())
    recording = torch_batchsim.Recording(tmp_path / "a.tbs")
    with Viewer(recording.seek(0), 0, shown=4, edits=False, speed=60.0) as viewer:
        thread = threading.Thread(target=Playback(viewer, recording).run)
        thread.start()
        try:
            with browser(viewer.url, tmp_path / "profile") as page:
                page.wait("document.body && document.body.dataset.ready === 'yes' && frame && frame.moment === 120")
                assert page.value("[$('time').hidden, $('resets').hidden, $('slider').max]") == [False, True, "120"]
                before = page.value("$('full').toDataURL()")
                page.value("$('slider').value = 33; $('slider').dispatchEvent(new Event('input'))")
                page.wait("frame.moment === 33 && $('moment').textContent === '33 / 120'")
                assert page.value("$('full').toDataURL()") != before and recording.moment == 33
                page.click("#on")
                page.wait("frame.moment === 34")
                page.click("#play")  # to the end, where it pauses
                page.wait("frame.moment === 120 && run.paused")
                page.shot(tmp_path / "recording.png")
        finally:
            viewer.close()
            thread.join(LIMIT)


def test_a_browser_finds_the_first_difference_of_two_recordings(tmp_path: Path) -> None:
    recordings = []
    for name, steps, change in (("a", 60, -1), ("b", 50, 12)):
        with torch_batchsim.Recorder(torch_batchsim.make_vec("cartpole", num_envs=4), tmp_path / f"{name}.tbs") as env:
            env.reset(seed=4)
            env.action_space.seed(1)
            for step in range(steps):
                actions = env.sample_actions()
                actions[2] ^= step == change
                env.step(actions)
        recordings.append(torch_batchsim.Recording(tmp_path / f"{name}.tbs"))
    with Viewer(recordings[0].seek(0), 0, shown=4, edits=False, speed=60.0) as viewer:
        thread = threading.Thread(target=Playback(viewer, *recordings).run)
        thread.start()
        try:
            with browser(viewer.url, tmp_path / "profile") as page:
                page.wait("document.body && document.body.dataset.ready === 'yes' && frame && frame.moment === 60")
                assert page.value("[$('two').hidden, $('differ').disabled, $('differ').textContent.slice(0, 28)]") == [
                    False, False, "First difference: actions 13"]  # fmt: skip
                page.wait("$('name2').textContent === 'b.tbs, world 0 \u00b7 ended at 50'")
                page.click("#differ")
                page.wait("frame.moment === 13 && full === 2 && other.world === 2")
                page.wait("$('facts2').textContent === 'state, observations differ \u00b7 step 13'")
                page.wait("document.querySelectorAll('#values td.apart').length > 0")
                page.value("send({ kind: 'seek', moment: 18 })")
                page.wait("drawn.moment === 18")
                one, two = (page.value(f"$('{canvas}').toDataURL()") for canvas in ("full", "full2"))
                assert one != two
                page.value("send({ kind: 'seek', moment: 12 })")
                page.wait("$('facts2').textContent === 'as the first \u00b7 step 12' && drawn.moment === 12")
                one, two = (page.value(f"$('{canvas}').toDataURL()") for canvas in ("full", "full2"))
                assert one == two
                page.shot(tmp_path / "pair.png")
        finally:
            viewer.close()
            thread.join(LIMIT)


@pytest.mark.parametrize("name", [each for each in torch_batchsim.environment_ids() if each != "cartpole"])
def test_a_browser_watches_every_environment(name: str, tmp_path: Path) -> None:
    """All are drawn, each 3D world of a grid by one context of WebGL; the pointer turns the camera."""
    if name == "atari":
        pytest.importorskip("ale_py")
    with watched(name, 16, 16, 20.0) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        page.wait("document.body && document.body.dataset.ready === 'yes' && frames > 3")
        assert page.value("cells.length") == 16
        before = page.value("$('grid').toDataURL()")
        page.wait(f"$('grid').toDataURL() !== {before!r}")
        assert page.value("$('notes').innerText") == ""
        if name in ("ant", "hideseek"):
            page.value("send({ kind: 'pause', on: true })")
            page.wait("run.paused && frame.step === drawn.step")
            before = page.value("$('full').toDataURL()")
            page.value("orbit.around += 0.5; again()")
            page.wait(f"$('full').toDataURL() !== {before!r}")
            page.click("#home")
            page.wait("orbit.around === 0")
            before = page.value("$('full').toDataURL()")
            row = page.value("$('follow').options[1].value")
            page.value(f"$('follow').value = {row!r}; $('follow').dispatchEvent(new Event('change'))")
            page.wait("Boolean(frame.follow)")
            table, _ = row.split()
            place = viewer.env.sim.tensor(f"{table}.physics.Pose.position").reshape(16, -1, 3)[0, 0]
            assert page.value("frame.follow") == pytest.approx(place.tolist(), abs=1e-4)
            page.wait(f"$('full').toDataURL() !== {before!r}")
            on_it = page.value("((space, seen, box) => space.at(space.seen(frame.follow))"
                               ".map((v, i) => i ? v * box.height / seen.height : v * box.width / seen.width))("
                               "new Spaces(fullPainter.camera, orbit), worlds.get(full), "
                               "$('full').getBoundingClientRect())")  # fmt: skip
            page.click("#full", *on_it)
            page.wait("document.querySelector('#values .picked') !== null")
            assert page.value("`${picked.table} ${picked.row}`") == row == f"{page.value('values.table')} 0"
        page.shot(tmp_path / f"{name}.png")


@pytest.mark.parametrize(("name", "table"), [("minatar-seaquest", "Game"), ("atari", "Console")])
def test_a_click_on_a_picture_finds_its_row(name: str, table: str, tmp_path: Path) -> None:
    with watched(name, 4, 4, None) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        page.wait("document.body && document.body.dataset.ready === 'yes' && frames > 2")
        page.click("#play")
        page.wait("run.paused")
        page.wait(f"frame.step === {viewer.steps}")
        if name == "atari":
            page.click("#full")
        else:
            place = page.value("(b => [b.width / 160, b.height / 160])($('full').getBoundingClientRect())")
            y, x, _ = viewer.env.sim.tensor("Game.View.cells")[0, 0].nonzero()[0].tolist()
            page.click("#full", (16 * x + 8) * place[0], (16 * y + 8) * place[1])
        page.wait(f"picked && picked.table === '{table}' && $('table').value === '{table}'")
        page.wait("document.querySelector('#values .picked') !== null")
        page.shot(tmp_path / f"{name}.png")
