"""Pages show what pictures do, without the network, in few bytes; a browser draws them where there is one."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from browsers import CHROMIUM, browser
from PIL import Image
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim
from torch_batchsim import Recorder, Recording, RecordingError, TorchVectorEnv
from torch_batchsim.draw import Canvas, Scene, Sprite
from torch_batchsim.page.scenes import Encoder, Film
from torch_batchsim.physics.hulls import pack
from torch_batchsim.physics.shapes import ShapeKind
from torch_batchsim.rays import Picture
from torch_batchsim.replay.page import TEMPLATE, film, write_page
from torch_batchsim.run.world_state import WorldState
from torch_batchsim.vector import rendering

RED, BLUE = (200, 30, 40), (20, 60, 210)


class Drawn(CartPole):
    """A CartPole with pictures only."""

    def render(self, world: Any) -> np.ndarray:
        picture = np.full((40, 60, 3), 255, np.uint8)
        picture[:, int(30 + 10 * float(world["Cart.CartState.x"][0]))] = RED
        return picture

    scene = torch_batchsim.Environment.scene


def recorded(path: Path, env: Any, steps: int) -> Recording:
    with Recorder(env, path) as recorder:
        recorder.reset(seed=4)
        recorder.action_space.seed(2)
        for _ in range(steps):
            recorder.step(recorder.sample_actions())
    return Recording(path)


def scene_at(recording: Recording, world: int) -> Scene:
    sim = recording.env().sim
    return rendering.scene_of(sim.environment)(WorldState(sim, world))


def decoded(page: Path) -> list[dict[str, Any]]:
    data = re.search(r'<script id="data" type="text/plain">([^<]+)</script>', page.read_text())
    assert data
    return json.loads(gzip.decompress(base64.b64decode(data[1])))["sides"]


def numbers_of(film: dict[str, Any]) -> list[np.ndarray]:
    """Places of each frame, as the page sums them up."""
    found: list[np.ndarray] = []
    for _, same, changes in film["frames"]:
        found.append(found[-1] + np.array(changes) if same else np.array(changes))
    return found


def draw(canvas: Any) -> None:
    canvas.rectangle((3, 4), (20, 30), RED)
    canvas.circle((25.5, 20.25), 9, BLUE)
    canvas.line((0, 0), (40, 35), 2, RED)
    canvas.polygon([(5, 5), (30, 8), (10, 36)], BLUE)
    canvas.text((2, 10), "ab 1", RED, scale=1, align=0.0)
    canvas.stamp(SPRITE, (30, 12))


SPRITE = Sprite(10, 12, lambda canvas: canvas.circle((5, 6), 4, RED))


def test_a_scene_looks_like_its_canvas() -> None:
    canvas, scene = Canvas(40, 36, (250, 250, 240)), Scene(40, 36, (250, 250, 240))
    draw(canvas)
    draw(scene)
    assert np.array_equal(scene.pixels, canvas.pixels) and len(scene.shapes) == 6


def test_styles_are_written_once_and_places_as_differences() -> None:
    made = Film()
    for step in range(5):
        scene = Scene(40, 36)
        draw(scene)
        scene.circle((10 + step, 3), 2, RED)
        scene.circle((float("nan"), 3), 2, RED)  # which a canvas does not draw either
        made.add(scene)
    data = json.loads(json.dumps(made.data))
    assert len(data["layouts"]) == 1 and len(data["styles"]) == 10  # of the sprite three; the background
    assert [frame[:2] for frame in data["frames"]] == [[0, 0]] + 4 * [[0, 1]]
    assert all(np.count_nonzero(changes) == 1 and max(changes) == 16 for *_, changes in data["frames"][1:])
    made.add(scene)
    assert made.data["frames"][-1] == [0, 1, 0]  # nothing has moved


def test_sizes_that_always_change_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that differ little are one style; one that is no number is 0."""
    monkeypatch.setattr("torch_batchsim.page.scenes._MANY", 20)
    encoder = Encoder()
    for step in range(100):
        scene = Scene(40, 36)
        scene.circle((3, 3), 2 + step / 1e6, RED)
        scene.line((1, 2), (3, 4), float("nan"), RED)
        encoder.encode([scene])
        assert len(encoder._known) < 30
    assert encoder.styles == [["background", "#ffffff"], ["circle", "#c81e28", 2.0], ["line", "#c81e28", 0.0]]


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    recording, page = recorded(tmp_path / "a.tbs", TorchVectorEnv(CartPole(), 2), 30), tmp_path / "a.html"
    size = write_page(page, [recording, recording], world=1)
    text = page.read_text()
    assert size == page.stat().st_size < 40_000 and TEMPLATE.stat().st_size < 100_000
    assert not re.search(r"https?:|//cdn|@import|<link|src=", text)
    sides = decoded(page)
    assert len(sides) == 2 and sides[0] == sides[1] and sides[0]["title"] == "CartPole, world 1"
    facts = sides[0]["facts"]
    assert facts[0] == [False, [], False] and facts[1] == [True, [1.0], False] and len(facts) == 31
    for moment, numbers in enumerate(numbers_of(sides[0])):  # a rectangle is the cart
        recording.seek(moment)
        cart = next(shape for shape in scene_at(recording, 1).shapes if shape[0] == "rectangle")
        assert np.abs(numbers[4:8] / 16 - np.ravel(cart[1:3])).max() <= 1 / 32
    with pytest.raises(RecordingError, match="world must be from 0 to 1"):
        write_page(page, [recording], world=2)


def test_without_a_scene_a_page_shows_pictures(tmp_path: Path) -> None:
    side = film(recorded(tmp_path / "a.tbs", TorchVectorEnv(Drawn(), 1), 20), 0)
    assert side["kind"] == "pictures" and (side["width"], side["height"]) == (60, 40)
    assert len(side["frames"]) == 21 and max(side["frames"]) + 1 == len(side["pictures"]) < 21
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(side["pictures"][0]))))
    assert picture.shape == (40, 60, 3) and (picture == RED).all(axis=2).any()


def test_a_world_that_cannot_be_seen_is_refused(tmp_path: Path) -> None:
    class Unseen(CartPole):
        scene, render = torch_batchsim.Environment.scene, torch_batchsim.Environment.render

    globals()["Unseen"] = Unseen
    recording = recorded(tmp_path / "a.tbs", TorchVectorEnv(Unseen(), 1), 2)
    recording._given = Unseen
    with pytest.raises(RecordingError, match=r"Unseen defines neither scene\(\) nor render\(\)"):
        film(recording, 0)
    with pytest.raises(ValueError, match="render_mode must be None"):
        TorchVectorEnv(Unseen(), 1, render_mode="rgb_array")


def test_bodies_of_a_picture_are_a_scene() -> None:
    """Also of an environment that has a ``rays.Picture`` as its ``render``, and no ``scene``."""

    class Pictured(CartPole):
        scene = torch_batchsim.Environment.scene
        render = Picture(eye=(0, -8, 4), target=(0, 0, 1), colours={"Thing": 0x112233})

    assert rendering.has_scene(Pictured()) and not rendering.has_scene(Drawn())
    kinds = [ShapeKind.SPHERE, ShapeKind.CAPSULE, ShapeKind.BOX, ShapeKind.PLANE, ShapeKind.NOTHING]
    count, made = len(kinds), Film()
    for height in (1.0, 1.5):
        world = {
            "Thing.physics.Shape.kind": np.array(kinds), "Thing.physics.Shape.hull": np.zeros(count, np.uint32),
            "Thing.physics.Shape.size": np.full((count, 3), 0.5, np.float32),
            "Thing.physics.Pose.position": np.tile(np.array([0, 0, height], np.float32), (count, 1)),
            "Thing.physics.Pose.rotation": np.tile(np.array([1, 0, 0, 0], np.float32), (count, 1)),
        }  # fmt: skip
        scene = Pictured.render.scene(world)
        scene.text((5, 5), "above", RED)
        scene.layer("marks", shown=False)
        scene.path([(0, 0, 1), (2, 0, 1.5)], 2, BLUE)
        made.add(scene)
    data = json.loads(json.dumps(made.data))
    kinds_there = [style[0] for style in data["styles"]]
    assert kinds_there == ["background", "camera", "sphere", "capsule", "box", "plane", "text", "layer", "path"]
    assert data["styles"][-2:] == [["layer", "marks", False], ["path", "#143cd2", 2, 2.0]]
    assert (numbers_of(data)[0][-6:] / data["metre"]).tolist() == [0, 0, 1, 2, 0, 1.5]
    assert data["styles"][2][1:3] == ["#112233", [0.5, 0.5, 0.5]]
    first, second = numbers_of(data)
    assert (first[:6] / data["metre"]).tolist() == [0, -8, 4, 0, 0, 1]
    assert (first[6:13] / [*3 * [data["metre"]], *4 * [data["turn"]]]).tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert ((second - first) != 0).sum() == 4 and max(second - first) == data["metre"] / 2  # what has moved


def test_hulls_have_their_corners() -> None:
    from torch_batchsim.page.scenes import _polyhedron

    cube = _polyhedron(pack(())[0])
    assert sorted(map(tuple, cube["vertices"])) == [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    for loop in cube["faces"]:
        a, b, c = (np.array(cube["vertices"][i]) for i in loop[:3])
        assert len(loop) == 4 and np.cross(b - a, c - a) @ a > 0  # counter-clockwise from outside


# ---- in a browser ----------------------------------------------------------------------------------------------------

DRIVER = """
<script>(async () => {
  const wait = ms => new Promise(done => setTimeout(done, ms)), said = {};
  while (!document.body.dataset.ready) await wait(20);
  try {
    const shot = () => [...document.querySelectorAll("canvas")].map(c => c.toDataURL()).join();
    const press = key => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
    said.ready = document.body.dataset.ready + " " + document.body.innerText;
    said.length = length;
    const first = shot();
    $("slider").value = AT; $("slider").dispatchEvent(new Event("input"));
    said.moment = moment; said.moved = shot() !== first;
    press("ArrowRight"); press("ArrowLeft"); press("ArrowLeft"); said.stepped = moment; press("ArrowRight");
    const side = sides[0], { film } = side, drawn = document.createElement("canvas");
    await wait(100);  // pictures are decoded
    drawn.width = film.width; drawn.height = film.height;
    const context = drawn.getContext("2d");
    if (side.images) context.drawImage(side.images[film.frames[moment]], 0, 0);
    else side.paint(context, moment, 1);
    said.picture = drawn.toDataURL();
    if (side.isSolid) {
      show();
      const before = shot(), to = { pointerId: 1, clientX: 200, clientY: 200, bubbles: true };
      side.canvas.setPointerCapture = () => {};
      side.canvas.dispatchEvent(new PointerEvent("pointerdown", to));
      side.canvas.dispatchEvent(new PointerEvent("pointermove", { ...to, clientX: 260 }));
      const orbited = shot();
      side.canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300 }));
      said.camera = [before !== orbited, orbited !== shot(), (press("Home"), before === shot())];
    }
    said.layers = [...document.querySelectorAll("#layers button")].map(button => {
      const before = shot(), pressed = () => button.getAttribute("aria-pressed");
      const states = [pressed(), (button.click(), pressed())], changed = shot() !== before;
      button.click();
      return [button.textContent, ...states, changed, shot() === before];
    });
    fps = 10; $("speed").value = "0.5"; $("play").click();  // five moments a second
    said.playing = $("play").textContent;
    const until = performance.now() + 30000;  // a busy machine draws slowly
    while (moment === AT && performance.now() < until) await new Promise(requestAnimationFrame);
    said.played = moment > AT; $("play").click(); said.paused = $("play").textContent;
  } catch (error) { said.error = String(error.stack); }
  const out = document.createElement("pre"); out.id = "said"; out.textContent = JSON.stringify(said);
  document.body.replaceChildren(out);
})();</script></body>"""


def driven(page: Path, moment: int) -> dict[str, Any]:
    """What a browser has seen while a script used the page."""
    driver = page.with_name(f"driven_{page.name}")
    driver.write_text(page.read_text().replace("</body>", DRIVER.replace("AT", str(moment))))
    with browser(driver.as_uri(), page.parent / "profile") as tab:
        tab.wait("document.getElementById('said') !== null")
        said = json.loads(tab.value("document.getElementById('said').textContent"))
    assert "error" not in said, said["error"]
    return said


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: pages are not tried; apt-get install chromium")
@pytest.mark.parametrize("name", [*torch_batchsim.environment_ids(), "drawn"])
def test_a_browser_shows_the_pictures(name: str, tmp_path: Path) -> None:
    """All that stands on the page works, and a moment looks like the environment's picture."""
    if name == "atari":
        pytest.importorskip("ale_py")
    steps, moment = 60, 33
    if name == "drawn":
        env = TorchVectorEnv(Drawn(), 1)
    else:
        env = gymnasium.make_vec(torch_batchsim.environment_ids()[name], num_worlds=1)
    recording, page = recorded(tmp_path / "a.tbs", env, steps), tmp_path / "a.html"
    assert write_page(page, [recording]) < 1_000_000
    said = driven(page, moment)
    assert said["ready"].startswith("yes") and said["length"] == steps + 1
    assert (said["moment"], said["stepped"]) == (moment, moment - 1) and said["moved"]
    assert (said["playing"], said["paused"], said["played"]) == ("Pause", "Play", True)
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(said["picture"].partition(",")[2]))).convert("RGB"))
    recording.seek(moment)
    sim = recording.env().sim
    scene = scene_at(recording, 0) if name not in ("atari", "drawn") else None  # which draw pixels
    picture = scene.pixels if scene is not None else rendering.draw_world(sim, 0, "rgb_array")
    assert isinstance(picture, np.ndarray) and shown.shape == picture.shape
    difference = np.abs(shown.astype(int) - picture.astype(int)).mean()
    solid = name in ("ant", "hideseek")
    most = {"ant": 14, "hideseek": 14, "hanabi": 6}.get(name, 3)  # other shades in 3D; else other letters and edges
    assert difference < most, difference
    if solid:
        assert said["camera"] == [True, True, True]
        names = {"Sight": True, "Lidar": False, "Names": True} if name == "hideseek" else {}
        states = [[layer, str(on).lower(), str(not on).lower(), True, True] for layer, on in names.items()]
        assert said["layers"] == states  # each click shows or hides something, the next as before
        grey = [each.mean(axis=2).ravel() for each in (shown, picture)]
        assert np.corrcoef(*grey)[0, 1] > 0.85


@pytest.mark.full
def test_an_episode_of_hide_and_seek_is_small(tmp_path: Path) -> None:
    env = gymnasium.make_vec("torch_batchsim/HideSeek-v0", num_worlds=1)
    recording, page = recorded(tmp_path / "a.tbs", env, 240), tmp_path / "a.html"
    assert write_page(page, [recording]) < 600_000  # 5 MB are allowed; half of it are cones and beams
    [side] = decoded(page)
    kinds = {style[0] for style in side["styles"]}
    assert {"camera", "box", "plane", "hull", "rectangle", "area", "path", "beams", "label", "layer"} <= kinds
    assert len(side["frames"]) == 241
