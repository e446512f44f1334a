"""A client of the live page that is no browser, and a session that it looks at."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import TorchVectorEnv, Viewer
from torch_batchsim.watch.frames import COLUMNS
from torch_batchsim.watch.session import Session

client_module = pytest.importorskip("websockets.sync.client")
LIMIT = 60  # seconds, of what takes milliseconds


class Page:
    """A client that sends and receives; frames are read as the page reads them."""

    def __init__(self, url: str, **keywords: Any) -> None:
        connection = client_module.connect(f"ws{url[4:]}socket", max_size=None, compression=None, **keywords)
        self.socket = connection.__enter__()  # the server's end ends it
        self.styles: list[Any] = []
        self.layouts: list[Any] = []
        self.hello = self.text("hello")

    def send(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"kind": kind, **fields}))

    def receive(self) -> tuple[dict[str, Any], dict[int, np.ndarray]]:
        message = self.socket.recv(timeout=LIMIT)
        if isinstance(message, str):
            return json.loads(message), {}
        (length,) = struct.unpack("<I", message[:4])
        header, at, numbers = json.loads(message[4 : 4 + length]), 4 + length, {}
        if "from" in header:
            self.styles[header["from"][0] :], self.layouts[header["from"][1] :] = header["styles"], header["layouts"]
        header["worlds"], at = _table(message, at, header["worlds"])
        for world, layout, size, *_ in header["worlds"]:
            numbers[world] = np.frombuffer(message[at : at + size], "<u1" if layout < 0 else "<i4")
            at += size
        if "other" in header:
            header["other"]["worlds"], at = _table(message, at, 1)
            at += header["other"]["worlds"][0][2]
        assert at == len(message)
        return header, numbers

    def text(self, kind: str) -> dict[str, Any]:
        """The next message of this kind; others are dropped."""
        return self.until(lambda message: message["kind"] == kind)[0]

    def frame(self, wanted: Callable[[dict[str, Any]], bool] = lambda frame: True) -> tuple[dict[str, Any], Any]:
        return self.until(lambda message: message["kind"] == "frame" and wanted(message))

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> tuple[dict[str, Any], Any]:
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            found = self.receive()
            if wanted(found[0]):
                return found
        raise AssertionError("nothing came")

    def refused(self, message: str | bytes) -> str:
        """The answer to a message that is refused."""
        self.socket.send(message)
        return self.text("error")["text"]


def _table(message: bytes, at: int, count: int) -> tuple[list[list[Any]], int]:
    """``COLUMNS`` of each world, and where they end."""
    end = at + 8 * count * len(COLUMNS)
    table = np.frombuffer(message[at:end], "<f8").reshape(count, -1).tolist()
    floats = [COLUMNS.index(name) for name in ("reward", "total")]
    return [[value if i in floats else int(value) for i, value in enumerate(row)] for row in table], end


@contextmanager
def running(env: Any = None, **keywords: Any) -> Iterator[Viewer]:
    """A session in a thread, paused unless a speed is given."""
    env = TorchVectorEnv(CartPole(), 8) if env is None else env
    env.action_space.seed(1)
    paused = "speed" not in keywords
    with Viewer(env, 0, **keywords) as viewer:
        viewer.paused = paused
        session = Session(viewer, {"random": lambda: lambda *_: env.sample_actions(), "still": still(env)}, 3)
        viewer.session = session  # type: ignore[attr-defined]
        thread = threading.Thread(target=session.run)
        thread.start()
        try:
            yield viewer
        finally:
            viewer.close()
            thread.join(LIMIT)
            assert not thread.is_alive()


def still(env: TorchVectorEnv) -> Callable[[], Any]:
    return lambda: lambda *_: torch.zeros(env.num_envs, dtype=torch.int64)
