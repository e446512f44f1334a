"""In a browser a human plays short games with keys and buttons, beside policies."""

from __future__ import annotations

from pathlib import Path

from browsers import Browser, browser
from test_watch_in_a_browser import pytestmark, watched  # noqa: F401  # the marks hold here too

KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}


def key(page: Browser, name: str, down: bool) -> None:
    kind = "rawKeyDown" if down else "keyUp"
    page.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=KEYS[name])


def sits_down(page: Browser, agent: int = 0) -> None:
    page.wait("document.body && document.body.dataset.ready === 'yes' && frames > 1")
    page.value(f"$('agent').value = {agent}")
    page.click("#take")
    page.wait("frame.humans && frame.humans.length === 1")


def test_cartpole_is_balanced_by_keys(tmp_path: Path) -> None:
    with watched("cartpole", 4, 4, 20.0) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        sim = viewer.env.sim
        page.wait("document.body && document.body.dataset.ready === 'yes' && frames > 1")
        page.click("#play")
        page.wait("run.paused")
        page.click("#resetOne")
        page.wait("$('notes').innerText.includes('begins a new episode')")
        sits_down(page)
        page.wait("$('turn').textContent === 'Your turn: this world waits'")  # until the first key
        pushed = ""
        for step in range(60):  # random play falls after some 22
            assert int(sim.tensor("World.step")[0]) == step, f"the pole fell after {step} steps"
            x, v, angle, speed = sim.tensor("Cart.CartState")[0, 0].tolist()
            wanted = "ArrowRight" if angle + 0.4 * speed + 0.03 * x + 0.06 * v > 0 else "ArrowLeft"
            if wanted != pushed:
                if pushed:
                    key(page, pushed, False)
                key(page, wanted, True)
                pushed = wanted
            page.value("$('on').click()")
            page.wait(f"worlds.get(0).step === {step + 1}")
        assert page.value("document.querySelector('#buttons .held').textContent") is not None
        page.shot(tmp_path / "cartpole.png")
        key(page, pushed, False)
        page.click("#take")
        page.wait("!frame.humans && $('buttons').firstChild.hidden")


def test_a_chef_is_moved_by_keys(tmp_path: Path) -> None:
    with watched("overcooked", 2, 2, 10.0) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        sim = viewer.env.sim
        sits_down(page, agent=1)
        facing = {"ArrowUp": 0, "ArrowDown": 1, "ArrowRight": 2, "ArrowLeft": 3}
        for name, direction in facing.items():
            key(page, name, True)
            page.wait(f"frame.step > {viewer.steps + 1}")
            key(page, name, False)
            assert int(sim.tensor("Chef.Place.facing")[0, 1]) == direction
        page.shot(tmp_path / "overcooked.png")


def test_hanabi_is_played_by_buttons(tmp_path: Path) -> None:
    with watched("hanabi", 2, 2, 20.0) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        sits_down(page)
        legal = "[...$('buttons').children].map(button => !button.disabled)"
        waits = "drawn === frame && $('turn').textContent === 'Your turn: this world waits'"
        for _ in range(6):  # at a table of one row humans play for both
            page.wait(waits)
            stands, mask = viewer.env.sim.tensor("World.step").tolist(), viewer.env.action_mask[0].tolist()
            shown = page.value("[worlds.get(0).episode, worlds.get(0).step]")
            assert page.value(legal) == mask and page.value("cells.length") == 2 and shown[1] == stands[0]
            assert page.value("film.layouts[worlds.get(0).layout].every(style => film.styles[style])")
            move = next(i for i in (*range(10, 20), *range(5, 10)) if mask[i])  # a hint, or else a card is played
            page.click(f"#buttons button:nth-child({move + 1})")
            page.wait(f"String([worlds.get(0).episode, worlds.get(0).step]) !== '{shown[0]},{shown[1]}' && {waits}")
            [episode, step] = page.value("[worlds.get(0).episode, worlds.get(0).step]")
            assert [episode, step] in ([shown[0], shown[1] + 1], [shown[0] + 1, 0])
        page.shot(tmp_path / "hanabi.png")


def test_a_hider_walks_while_others_do_as_they_like(tmp_path: Path) -> None:
    with watched("hideseek", 2, 2, 15.0) as viewer, browser(viewer.url, tmp_path / "profile") as page:
        place = viewer.env.sim.tensor("Agent.physics.Pose.position")
        sits_down(page)
        page.wait(f"frame.step > {viewer.steps + 1}")
        before = place[0, :3, :2].clone()
        page.wait(f"frame.step > {viewer.steps + 3}")
        rests = float((place[0, 0, :2] - before[0]).norm())
        key(page, "ArrowLeft", True)
        key(page, "ArrowUp", True)
        page.wait(f"frame.step > {viewer.steps + 12}")
        key(page, "ArrowUp", False)
        key(page, "ArrowLeft", False)
        assert rests < 0.3 < float((place[0, 0, :2] - before[0]).norm())
        page.shot(tmp_path / "hideseek.png")
