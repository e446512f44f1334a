"""The live page of a training: worlds are shown as they are, the training stays the same, signals end a pause."""

from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_page import Page
from torch_batchsim.train.commands import cli
from torch_batchsim.train.run_folder import checkpoint, viewing

import torch_batchsim
from torch_batchsim import Viewer
from torch_batchsim.page.scenes import Encoder
from torch_batchsim.run.world_state import WorldState

ENV = "torch_batchsim/CartPole-v0"
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 2048 --eval-episodes 0 --track none".split()


class Watcher:
    """A client in a thread, which begins with the first viewer that is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: Any) -> None:
        self.seen: list[Any] = []

        class Seen(Viewer):
            def __init__(viewer, *arguments: Any, **keywords: Any) -> None:
                super().__init__(*arguments, **keywords)
                self.viewer, self.page = viewer, Page(viewer.url)
                self.thread = threading.Thread(target=self.run)
                viewer._pause(True)  # until it looks
                viewer._busy = True
                self.thread.start()

        self.look = look
        monkeypatch.setattr(viewing, "Viewer", Seen)

    def run(self) -> None:
        try:
            self.seen.extend(self.look(self))
        finally:
            self.viewer.resume()

    def joined(self) -> list[Any]:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.seen


def test_a_page_sees_the_worlds_of_a_training_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(watcher: Watcher) -> Any:
        page, viewer = watcher.page, watcher.viewer
        yield page.hello
        page.frame(lambda frame: frame["step"] == 1)  # it pauses behind a step
        for count in (3, 20):  # into the second rollout
            at = viewer.steps + count
            page.send("step", count=count)
            header, numbers = page.frame(lambda frame, at=at: frame["step"] == at)
            sim = viewer.env.sim
            scenes = {world: sim.environment.scene(WorldState(sim, world)) for world in (0, 5)}
            own = {world: Encoder().encode([scene]).numbers for world, scene in scenes.items()}
            yield header, [np.array_equal(numbers[world], own[world]) for world in own]
        page.send("pause", on=False)

    assert cli.main(["cartpole", *SMALL, "--run-dir", str(tmp_path / "plain")]) == 0
    watcher = Watcher(monkeypatch, look)
    assert cli.main(["cartpole", *SMALL, "--run-dir", str(tmp_path / "viewed"), "--view", "--port", "0"]) == 0
    hello, *frames = watcher.joined()
    assert hello["title"] == "CartPole" and hello["worlds"] == 8 and not {"edit", "reset", "human"} & set(hello["can"])
    for (header, same), steps in zip(frames, (4, 24), strict=True):
        assert header["step"] == steps and same == [True, True] and header["worlds"][0][7] == 1.0  # a reward
    assert re.search(r"view            http://127\.0\.0\.1:\d+/\n", capsys.readouterr().out)
    ours, theirs = (checkpoint.load(tmp_path / name / "checkpoint.pt", ENV)["trainer"] for name in ("plain", "viewed"))
    for part in (lambda trainer: trainer["groups"][0]["agent"], lambda trainer: trainer["env"]["tensors"]):
        mine, others = part(ours), part(theirs)
        assert all(torch.equal(mine[name], others[name]) for name in mine)
    assert "port" not in (tmp_path / "viewed" / "config.toml").read_text()


def test_a_signal_ends_a_training_that_a_page_has_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(watcher: Watcher) -> Any:
        page = watcher.page
        page.frame(lambda frame: frame["step"] == 1)
        page.send("step", count=5)
        page.frame(lambda frame: frame["step"] == 6)
        os.kill(os.getpid(), signal.SIGTERM)
        yield True

    watcher = Watcher(monkeypatch, look)
    assert cli.main(["cartpole", *SMALL, "--run-dir", str(tmp_path), "--view", "--port", "0"]) == 130
    assert watcher.joined() == [True] and watcher.viewer.closed
    assert checkpoint.load(tmp_path / "checkpoint.pt", ENV)["steps"] == 128  # the iteration under way
    assert "Stopped early" in capsys.readouterr().out


def test_a_view_that_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Viewer(torch_batchsim.make_vec("cartpole", num_envs=2), 0) as viewer:
        port = viewer.url.rpartition(":")[2].rstrip("/")
        assert cli.main(["cartpole", *SMALL, "--run-dir", str(tmp_path / "run"), "--view", "--port", port]) == 2
    assert port in capsys.readouterr().err and not (tmp_path / "run").exists()
    for given, message in (
        (["--port", "9000"], "--port changes nothing without --view, whose page it is of"),
        (["--view", "--eval", "x"], "cannot be read"),
        (["--view", "--capture-rollouts"], "--view and --capture-rollouts exclude each other"),
    ):
        with suppress(SystemExit):
            assert cli.main(["cartpole", *given]) == 2
        assert message in capsys.readouterr().err
