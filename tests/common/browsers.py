"""Chromium without a window, for tests of pages."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader --disable-gpu-sandbox "
    "--window-size=1500,900 --remote-debugging-port=0 --remote-allow-origins=*"
).split()
LIMIT = 120.0  # seconds, of what takes one


class Browser:
    """A tab, by the protocol of its developer tools."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._number = socket, 0

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=LIMIT))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def value(self, expression: str) -> Any:
        """Of JavaScript, in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until it is true."""
        end = time.monotonic() + LIMIT
        while not self.value(expression):
            assert time.monotonic() < end, f"never: {expression}\n{self.value('document.body.innerText')}"
            time.sleep(0.05)

    def click(self, selector: str, x: float | None = None, y: float | None = None) -> None:
        """In the middle of an element, or at a place in it."""
        box = self.value(f"(b => [b.x, b.y, b.width, b.height])(document.querySelector({selector!r})"
                         ".getBoundingClientRect())")  # fmt: skip
        place = {"x": box[0] + (box[2] / 2 if x is None else x), "y": box[1] + (box[3] / 2 if y is None else y)}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def type(self, text: str) -> None:
        """Into the element that has the focus, and Enter."""
        self.call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)

    def shot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def browser(url: str, profile: Path) -> Iterator[Browser]:
    from websockets.sync import client  # of an extra that not all tests need

    assert CHROMIUM
    process = subprocess.Popen([CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.PIPE,
                               text=True)  # fmt: skip
    try:
        assert process.stderr
        port = next(found[1] for line in process.stderr if (found := re.search(r"ws://127.0.0.1:(\d+)/", line)))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            [tab, *_] = [each for each in json.loads(answer.read()) if each["type"] == "page"]
        with client.connect(tab["webSocketDebuggerUrl"], max_size=None, compression=None) as socket:
            made = Browser(socket)
            made.call("Page.enable")
            made.call("Page.navigate", url=url)
            yield made
    finally:
        process.terminate()
        process.wait()
