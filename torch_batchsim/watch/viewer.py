"""Shows worlds of a running batch on a page, and lets the page pause, step and change them."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np

from ..declare.environment import Environment
from ..errors import WorldFault
from ..run.world_state import WorldState, WorldStates
from ..vector import rendering
from ..vector.vector_env import TorchVectorEnv
from . import messages, tables
from .beside import differences
from .counts import Counts
from .frames import Other, Shot, Tally
from .messages import Check, Refused
from .server import Client, Server

_INTERVAL = 1 / 20  # seconds from a frame to the next
MOST_SHOWN = 256  # worlds
_MOST_FAULTS = 50  # remembered for pages that come later

Act = Callable[..., "dict[str, Any] | None"]


class Viewer:
    """A page at ``url`` that shows worlds of ``env`` while it runs; call ``after_step`` once after each step::

        viewer = torch_batchsim.Viewer(env)
        print(viewer.url)
        observations, infos = env.reset(seed=0)
        while True:
            observations, *_ = env.step(policy(observations))
            viewer.after_step()

    Nothing waits for a page: at most 20 times a second ``after_step`` copies the state of the worlds that are shown,
    and a thread of the server draws them. While nobody looks it takes less than a microsecond. It returns late while a
    page has paused the run or slowed it down.

    Args:
        env: a ``TorchVectorEnv``, with or without wrappers. It may not have begun.
        port: of the server; None: the first free one from 8765 on, 0: any.
        host: the address to listen at. Anyone who reaches another one than this machine's own may look and edit.
        shown: how many worlds a page shows at first.
        speed: steps a second; None: as fast as it goes.
        edits: whether a page may write into the state.

    Attributes: ``url``; ``paused``, ``speed``; ``closed``; ``clients``, the number of pages.

    Raises TypeError for another environment, MissingExtra without websockets, OSError for a port in use.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        port: int | None = None,
        *,
        host: str = "127.0.0.1",
        shown: int = 16,
        speed: float | None = None,
        edits: bool = True,
    ) -> None:
        own = env.unwrapped
        if not isinstance(own, TorchVectorEnv):
            raise TypeError(f"Viewer needs a TorchVectorEnv, got {env!r}")
        self.env, self.paused, self.speed, self.closed = own, False, speed, False
        self._counts = Counts(own)
        self._counter = self._counts.counter
        self.beside: dict[str, Any] = {}  # what each frame has for all pages
        self.about: dict[str, Any] = {}  # what a page gets at first
        self.tables = tables.tables(own.sim.program)
        self._faults: deque[dict[str, Any]] = deque(maxlen=_MOST_FAULTS)
        self._steps_left = 0
        self._changed = threading.Condition()
        self._commands: deque[tuple[Client, str, dict[str, Any]]] = deque()
        self._counter.busy = speed is not None
        self._stale = True  # whether a frame would show something new
        self._shot_at = 0.0  # when the last frame was due
        self._next = 0.0  # when the next step may follow, at a speed
        self._since = perf_counter(), 0
        self._stood = 0.0  # seconds that the run was paused
        self._faulty = Counter[int]()  # faults by world
        self.other: TorchVectorEnv | None = None  # shown beside, world by world
        self._acts: dict[str, tuple[Mapping[str, Check], Act]] = {}
        world = messages.whole(0, own.num_worlds - 1)
        self.on("pause", {"on": messages.flag}, self._pause)
        self.on("step", {"count": messages.whole(1, 100_000)}, self._step)
        self.on("speed", {"value": messages.optional(messages.positive(1e6))}, self._take_speed)
        if edits:
            place = {"row": messages.whole(0, 2**31), "element": messages.whole(0, 2**31)}
            fields = {"world": world, "name": messages.text, **place, "value": messages.number}
            self.on("edit", fields, self._edit)
        self._followed = tables.followed(own.sim.program)
        if self._followed:
            self.on("pick", {"world": world, "eye": messages.point, "way": messages.direction}, self._pick)
        pixel = messages.within(0.0, 1e5)
        self.on("point", {"world": world, "x": pixel, "y": pixel}, self._point)
        shows = {
            "worlds": messages.several(world, MOST_SHOWN), "full": world,
            "table": messages.optional(messages.one_of(self.tables)),
            "follow": messages.optional(messages.one_of(self._followed)), "row": messages.whole(0, 2**31),
        }  # fmt: skip
        first = list(range(min(shown, own.num_worlds, MOST_SHOWN)))
        self._server = Server(self, host, port, shows, first)
        self.url = self._server.url

    # ---- for the loop that steps -------------------------------------------------------------------------------------

    def after_step(self) -> None:
        """To be called once after each step, in the thread that steps."""
        if self._counter():
            self._stale = True
            self._attend()

    def wait(self) -> None:
        """Let pages see the state before the first step, and wait while the run is paused.

        A page that came while ``on`` and ``about`` were still called hears all of it now.
        """
        self._server.greet()
        self.attend()

    def look(self) -> None:
        """Let pages that have come see the state; their messages wait."""
        if self._stale and perf_counter() >= self._counter.due:
            self._shoot()

    def attend(self) -> None:
        """Do what pages ask for and show them the state, where the loop waits for something else than a step."""
        self._stale = True
        self._attend()

    def pause(self) -> None:
        """Pause the run, as a page does."""
        before = self.state()
        self._pause(True)
        self._counter.busy = True
        if self.state() != before:
            self.tell(self.state())

    def resume(self) -> None:
        """Let the run go on as fast as it goes. It may be called anywhere, also by a handler of a signal."""
        self._pause(False)
        self._take_speed(None)
        with self._changed:
            self._changed.notify_all()

    def tell(self, facts: dict[str, Any]) -> None:
        """Let all pages know of a change of the run, such as another policy."""
        self._server.broadcast({"kind": "state", **facts})

    def count(self, held: Collection[int] = ()) -> None:
        """Count the rewards of a step before something else than ``after_step`` follows it, such as a reset.

        ``held``: worlds that took no part in it, while those that ended have not begun anew.
        """
        if self._counter.counting and not self._counter.counted:
            if held:
                self._counts.add_around(held)
            else:
                self._counter.add()
        self._counter.counted = True

    def skip(self) -> None:
        """Count no rewards where ``after_step`` follows something else than a step."""
        self._counter.counted = True

    def clock(self) -> float:
        """Seconds since some moment, without those in which the run was paused."""
        return perf_counter() - self._stood

    def note_fault(self, fault: WorldFault) -> None:
        """Tell pages of a fault that a step has raised."""
        noted = [{"world": each.world, "step": self.steps, "text": str(each)} for each in fault.faults]
        self._faults.extend(noted)
        self._faulty.update(each.world for each in fault.faults)
        self._server.broadcast({"kind": "faults", "faults": noted})

    def on(self, kind: str, fields: Mapping[str, Check], act: Act) -> None:
        """Let ``act`` be called with the checked fields of each message of this kind, in the thread that steps.

        It may raise ``Refused``, of which the page is told, and return what the page gets as an answer.
        """
        self._acts[kind] = fields, act

    @property
    def steps(self) -> int:
        """How often ``after_step`` was called."""
        return self._counter.steps

    @property
    def clients(self) -> int:
        """The number of pages that are open."""
        return len(self._server.clients)

    def close(self) -> None:
        """End the server; the environment goes on. Calls of ``after_step`` do nothing from then on."""
        self.closed, self._counter.busy, self._counter.due = True, False, math.inf
        self._server.close()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- for the server's thread -------------------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """What a page gets at first."""
        env = self.env
        return {
            "kind": "hello", "title": env.environment.name, "worlds": env.num_worlds, "agents": env.num_agents,
            "fps": float(env.metadata.get("render_fps", 30)), "can": list(self._acts), "tables": list(self.tables),
            "follows": self._followed,
            "faults": list(self._faults), "most": MOST_SHOWN, **self.about, **self.state(),
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        """What pages show of the run."""
        return {"paused": self.paused, "speed": self.speed}

    def take(self, client: Client, kind: str, given: dict[str, Any]) -> None:
        """Check a message and keep it for the simulation's thread. Raises Refused."""
        if kind not in self._acts:
            raise Refused(f"there is no message of kind {kind!r} here; there are {', '.join(self._acts)}")
        fields = messages.checked(kind, given, self._acts[kind][0])
        if len(self._commands) > 1000:
            raise Refused("more messages wait than the run can take; try again")
        with self._changed:
            self._commands.append((client, kind, fields))
            self._counter.busy = True
            self._changed.notify_all()

    def may_shoot(self, wanted: bool, changed: bool = False) -> None:
        """The last frame is drawn. ``wanted``: pages look; ``changed``: they want to see something else, at once."""
        with self._changed:
            self._counter.counting = self._counter.counting and wanted
            self._counter.due = math.inf if self.closed or not wanted else 0.0 if changed else self._shot_at + _INTERVAL
            self._stale = self._stale or changed
            self._changed.notify_all()

    # ---- in the simulation's thread ----------------------------------------------------------------------------------

    def _attend(self) -> None:
        """Do what pages ask for, take a frame if it is due, and wait as long as the run is paused or slowed down."""
        while not self.closed:
            while self._commands:
                self._act(*self._commands.popleft())
            now = perf_counter()
            if self._stale and now >= self._counter.due:
                self._shoot()
            with self._changed:
                if self._commands or self.closed:
                    continue
                self._counter.busy = self.paused or self.speed is not None
                until: float | None = self._counter.due if self._stale and self._counter.due < math.inf else None
                if self.paused:
                    if self._steps_left:
                        self._steps_left -= 1
                        return
                elif self.speed is None or now >= self._next:
                    self._next = max(self._next + 1 / self.speed, now) if self.speed else now
                    return
                else:
                    until = self._next
                paused = self.paused
                self._changed.wait(None if until is None else max(until - now, 0.0))
                self._stood += perf_counter() - now if paused else 0.0

    def _act(self, client: Client, kind: str, fields: dict[str, Any]) -> None:
        before = self.state()
        try:
            answer = self._acts[kind][1](**fields)
            self._stale = True
        except Refused as refused:
            answer = {"kind": "error", "text": str(refused)}
        if answer:
            self._server.post(client, answer)
        if self.state() != before:
            self.tell(self.state())

    def _shoot(self) -> None:
        """Copy the shown worlds and hand them to the server."""
        self._counter.due, self._stale = math.inf, False
        worlds = self._server.wanted
        if not worlds:
            return
        states = WorldStates(self.env.sim, worlds)
        now, (before, steps) = perf_counter(), self._since
        planned = self._shot_at + _INTERVAL
        self._shot_at = planned if now - planned < _INTERVAL else now  # a step that was late makes no later frame late
        rate = (self.steps - steps) / max(now - before, 1e-9)
        if now - before > 0.5:
            self._since = now, self.steps
        with self._changed:
            self._counts.show(worlds, anew=not self._counter.counting)
            self._counter.counting = bool(self._server.wanted)
        tally = Tally(*self._counts.totals(), [self._faulty.get(world, 0) for world in worlds])
        other = None if self.other is None else self._beside(states)
        self._server.offer(Shot(states, self.steps, rate, _rewards(self.env, states), tally, dict(self.beside), other))

    def _beside(self, states: WorldStates) -> Other:
        assert self.other is not None
        others = WorldStates(self.other.sim, states.worlds)
        return Other(others, _rewards(self.other, others), differences(self.env, self.other, states, others))

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _pause(self, on: bool) -> None:
        self.paused, self._steps_left, self._next = on, 0, 0.0

    def _step(self, count: int) -> None:
        self.paused, self._steps_left = True, self._steps_left + count

    def _take_speed(self, value: float | None) -> None:
        self.speed, self._next = value, 0.0

    def _edit(self, world: int, name: str, row: int, element: int, value: bool | int | float) -> dict[str, Any]:
        tables.write(self.env.sim, world, name, row, element, value)
        return {"kind": "done", "text": f"world {world}: {name} of row {row} is {value}"}

    def _pick(self, world: int, eye: list[float], way: list[float]) -> dict[str, Any]:
        found = tables.hit(self.env.sim, world, eye, way)
        if found is None:
            raise Refused("no body is there")
        return {"kind": "picked", "world": world, "table": found[0], "row": found[1]}

    def _point(self, world: int, x: float, y: float) -> dict[str, Any]:
        environment, state = self.env.environment, WorldState(self.env.sim, world)
        if not rendering.has_scene(environment):
            return {"kind": "picked", "world": world, "table": self._only_row(), "row": 0}
        seats = [seat["agent"] for seat in self.beside.get("humans", ()) if seat["world"] == world]
        try:
            hides = seats and type(environment).scene_for is not Environment.scene_for
            scene = environment.scene_for(state, seats) if hides else rendering.scene_of(environment)(state)
        except Exception as error:  # an author's: the run goes on
            raise Refused(f"the picture failed: {type(error).__name__}: {error}") from error
        if not scene.has_rows:
            raise Refused(f"{environment.name}.scene() does not say to which rows its shapes belong: see Scene.row")
        found = scene.hit(x, y)
        if found is None:
            raise Refused("no shape of a row is there")
        if found[0] not in self.tables:
            raise Refused(f"the scene names a table {found[0]!r}; there are {', '.join(self.tables)}")
        return {"kind": "picked", "world": world, "table": found[0], "row": found[1]}

    def _only_row(self) -> str:
        """The table of the one row that a world has, to which its picture belongs. Raises Refused for others."""
        [first, *others] = self.env.sim.program.archetypes
        if others or first.count != 1:
            name = self.env.environment.name
            raise Refused(f"{name} has pictures without shapes, which belong to no row: see Scene.row")
        return first.name


def _rewards(env: TorchVectorEnv, states: WorldStates) -> np.ndarray:
    return states.array(env.sim.program.reward.name).reshape(len(states.worlds), -1).sum(axis=1)
