"""A thread that serves the page, and sends and receives its messages."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import socket
import threading
from collections import deque
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from ..base.extras import needed
from ..page import whole
from ..page.scenes import Encoder
from . import tables
from .frames import Frame, Known, Look, Shot
from .messages import MOST_BYTES, Check, Refused, checked, parsed

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from ..declare.columns import Column
    from ..declare.fields import Field
    from ..vector.vector_env import TorchVectorEnv


FIRST_PORT, _PORTS = 8765, 100
_VALUES_EVERY = 0.2  # seconds
_MOST_WAITING = 256  # texts
_OWN_NAMES = {"localhost", "127.0.0.1", "::1"}


class Watched(Protocol):
    """What the server needs of a viewer."""

    env: TorchVectorEnv
    other: TorchVectorEnv | None
    paused: bool
    tables: dict[str, list[tuple[str, Column, Field]]]

    def hello(self) -> dict[str, Any]:
        """What a page gets at first."""

    def take(self, client: Client, kind: str, given: dict[str, Any]) -> None:
        """Check a message and keep it for the simulation's thread. Raises Refused."""

    def may_shoot(self, wanted: bool, changed: bool = False) -> None:
        """The last frame is drawn. ``wanted``: pages look; ``changed``: they want to see something else, at once."""


class Client:
    """A page: what it shows, and what waits for it. Of frames only the latest waits."""

    def __init__(self, connection: ServerConnection, worlds: list[int]) -> None:
        self.connection = connection
        self.look = Look(worlds, worlds[0])
        self.texts: deque[str] = deque(maxlen=_MOST_WAITING)
        self.frame: Frame | None = None
        self.known = Known(), Known()
        self.ready = asyncio.Event()
        self.values_at = 0.0

    def post(self, message: dict[str, Any]) -> None:
        """Let a message wait."""
        self.texts.append(json.dumps(message, separators=(",", ":")))
        self.ready.set()

    async def send(self) -> None:
        """Send what waits, as fast as the page takes it."""
        while True:
            await self.ready.wait()
            self.ready.clear()
            while self.texts:
                await self.connection.send(self.texts.popleft())
            frame, self.frame = self.frame, None
            if frame is not None:
                await self.connection.send(frame.message(self.look, self.known))


class Server:
    """Listens from the beginning; ``close`` ends it.

    Attributes: ``url``; ``wanted``, the worlds that any page shows; ``clients``.
    """

    def __init__(
        self, viewer: Watched, host: str, port: int | None, shows: Mapping[str, Check], first: list[int]
    ) -> None:
        needed("websockets", extra="view")
        self.wanted: tuple[int, ...] = ()
        self.clients: set[Client] = set()
        self._viewer, self._shows, self._first = viewer, shows, first
        self._host, self._socket = host, _listening(host, port)
        port = self._socket.getsockname()[1]
        shown = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        self._encoders, self._page = [Encoder(), Encoder()], whole(Path(__file__).with_name("page.html")).encode()
        self._told = ""
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="torch_batchsim.watch", daemon=True)
        self._thread.start()

    # ---- called in the simulation's thread ---------------------------------------------------------------------------

    def offer(self, shot: Shot) -> None:
        """Draw a moment and send it."""
        self._call(self._draw, shot)

    def post(self, client: Client, message: dict[str, Any]) -> None:
        """Send a message to one page."""
        self._call(client.post, message)

    def greet(self) -> None:
        """Let all pages begin anew, with what the viewer says of itself now."""
        self._call(self._greet, self.hello())

    def hello(self) -> dict[str, Any]:
        """What a page gets at first."""
        return {**self._viewer.hello(), "shown": len(self._first)}

    def broadcast(self, message: dict[str, Any]) -> None:
        """Send a message to all pages."""
        self._call(self._broadcast, message)

    def close(self) -> None:
        """End the thread."""
        self._call(self._end.set)
        self._thread.join(timeout=5)

    def _call(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    # ---- in its own thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        import logging

        from websockets.asyncio.server import serve

        quiet = logging.getLogger("torch_batchsim.watch")
        quiet.setLevel(logging.CRITICAL)  # of clients that break off
        async with serve(
            self._meet, sock=self._socket, process_request=self._answer, max_size=16 * MOST_BYTES, compression=None,
            close_timeout=1, logger=quiet,
        ):  # fmt: skip
            await self._end.wait()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The page; None lets a connection be made. Pages of other sites get nothing.

        A name that resolves to this machine makes a browser send other sites' requests here: hence the Host is checked.
        """
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if not self._is_own(host):
            return connection.respond(403, f"This page is not served under the name {host!r}.\n")
        if origin is not None and origin.partition("://")[2] != host:
            return connection.respond(403, f"Pages of {origin!r} may not connect.\n")
        path = request.path.partition("?")[0]
        if path == "/socket":
            return None
        if path != "/":
            return connection.respond(404, "There is one page, at /.\n")
        headers = Headers(
            {
                "Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(self._page)),
                "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
                "Content-Security-Policy": "frame-ancestors 'none'", "Connection": "close",
            }
        )  # fmt: skip
        return Response(200, "OK", headers, self._page)

    def _is_own(self, host: str) -> bool:
        """Whether a Host header names this machine: by an address, or by a name of its own or that it was given."""
        name = host.partition("]")[0][1:] if host.startswith("[") else host.rpartition(":")[0] or host
        name = name.lower()
        if name in _OWN_NAMES or name == self._host.lower():
            return True
        if self._host in _OWN_NAMES:
            return False
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())

    async def _meet(self, connection: ServerConnection) -> None:
        """Serve one page until it leaves."""
        from websockets.exceptions import ConnectionClosed

        client = Client(connection, self._first)
        client.post(self.hello())
        self.clients.add(client)
        self._want()
        sending = asyncio.create_task(client.send())
        try:
            async for message in connection:
                self._receive(client, message)
        except ConnectionClosed:
            pass
        finally:
            self.clients.discard(client)
            self._want()
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                await sending

    def _receive(self, client: Client, message: str | bytes) -> None:
        try:
            kind, given = parsed(message)
            if kind != "show":
                self._viewer.take(client, kind, given)
                return
            fields = checked(kind, given, self._shows)
        except Refused as refused:
            client.post({"kind": "error", "text": str(refused)})
            return
        client.look = Look(**fields)
        client.values_at = 0.0
        self._want()

    def _want(self) -> None:
        """Take up what pages show."""
        looks = [client.look for client in self.clients]
        self.wanted = tuple(sorted({world for look in looks for world in (*look.worlds, look.full)}))
        self._viewer.may_shoot(bool(self.wanted), changed=True)

    def _draw(self, shot: Shot) -> None:
        start = perf_counter()
        self._encoders = [Encoder() if encoder.is_full else encoder for encoder in self._encoders]
        environments = [env.environment for env in (self._viewer.env, self._viewer.other) if env is not None]
        try:
            frame = Frame(shot, environments, self._encoders, {client.look.full for client in self.clients})
        except Exception as error:  # of scene(), an author's: the run goes on
            text = f"the picture failed: {type(error).__name__}: {error}"
            if text != self._told:
                self._told = text
                self._broadcast({"kind": "error", "text": text})
        else:
            for client in self.clients:
                client.frame = frame
                self._add_values(client, frame, start)
                client.ready.set()
        self._viewer.may_shoot(bool(self.wanted))

    def _add_values(self, client: Client, frame: Frame, now: float) -> None:
        index = frame.index.get(client.look.full)
        soon = now < client.values_at and not self._viewer.paused  # a paused run gives no later frame
        if client.look.table is None or index is None or soon or len(client.texts) > 4:
            return
        client.values_at = now + _VALUES_EVERY
        fields, other = self._viewer.tables[client.look.table], frame.shot.other
        shown = tables.values(frame.shot.states, index, fields)
        if other is not None:
            shown["other"] = tables.values(other.states, index, fields)["rows"]
        client.post({"kind": "values", "world": client.look.full, "table": client.look.table, **shown})

    def _greet(self, hello: dict[str, Any]) -> None:
        for client in self.clients:
            client.known = Known(), Known()  # a page forgets the styles that it had
            client.post(hello)

    def _broadcast(self, message: dict[str, Any]) -> None:
        for client in self.clients:
            client.post(message)


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket at the port, or at the first free one. Raises OSError, whose text is a sentence."""
    make = partial(_bound, host)
    if port is not None:
        return make(port)
    for each in range(FIRST_PORT, FIRST_PORT + _PORTS):
        with contextlib.suppress(OSError):
            return make(each)
    return make(0)


def _bound(host: str, port: int) -> socket.socket:
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(f"there is no address {host!r}: {error.strerror or error}") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(16)
    except OSError as error:
        made.close()
        raise OSError(f"port {port} of {host} cannot be taken: {error.strerror or error}") from None
    return made
