"""What the command runs: an environment that policies play, or a recording."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import sleep
from typing import Any

import numpy as np
import torch

from ..errors import WorldFault
from ..gallery import Policy
from ..replay import Recording
from ..run.world_state import WorldStates
from ..vector.partial_step import begin_anew, step_around
from . import messages
from .beside import check_pair, differences
from .messages import Refused
from .play import Play
from .viewer import MOST_SHOWN, Viewer

_LOOK = 0.01  # seconds


class Session:
    """Steps an environment while a viewer shows it; pages may reset worlds, choose the policy, and play for agents.

    Args:
        viewer: of a ``TorchVectorEnv``.
        policies: by name, each a function that makes it when it is chosen first. The first one plays at first.
        seed: of the first reset.
        turn_seconds: how long a world waits for a human, see ``Play``.

    Attributes: ``play``, the humans; ``overrides``: functions that take the actions of the batch and change rows of
    them, at first that of ``play``; ``observations``, ``infos``: the present ones.
    """

    def __init__(
        self, viewer: Viewer, policies: Mapping[str, Callable[[], Policy]], seed: int, turn_seconds: float | None = None
    ) -> None:
        self.viewer, self.env, self.policies = viewer, viewer.env, dict(policies)
        self.play = Play(viewer, turn_seconds)
        self.overrides: list[Callable[[Any], Any]] = [self.play.override]
        self._made: dict[str, Policy] = {}
        self._policy: Policy | None = None  # of checkpoints it is made when the first picture is shown
        self.observations, self.infos = self.env.reset(seed=seed)
        self.play.ready(self.infos)
        viewer.about |= {"policies": list(self.policies), "policy": next(iter(self.policies)), "seed": seed}
        world, seeds = messages.whole(0, self.env.num_worlds - 1), messages.whole(0, 2**63 - 1)
        viewer.on("reset", {"world": messages.optional(world), "seed": messages.optional(seeds)}, self._reset)
        viewer.on("policy", {"name": messages.one_of(self.policies)}, self._choose)

    def run(self) -> None:
        """Until the viewer is closed."""
        self.viewer.wait()
        self._make_first()
        while not self.viewer.closed:
            if self.play.ready(self.infos):
                self.step()
                self.viewer.after_step()
            elif held := self.play.held():  # humans have to choose, while other worlds go on
                self.step(held)
                self.viewer.after_step()
            else:
                sleep(_LOOK)
                self.viewer.attend()

    def step(self, held: Collection[int] = ()) -> None:
        """One step of all worlds that are not ``held``. Faulty ones begin a new episode, and pages show the fault."""
        if self._policy is None:
            self._policy = self._policy_of(self.viewer.about["policy"])
        infos = self.infos
        if held:  # whose rows a policy with a memory does not take for another step
            stands = torch.zeros(self.env.num_worlds, dtype=torch.bool, device=self.env.device)
            stands[list(held)] = True
            acts = ~stands.repeat_interleave(self.env.num_agents)
            infos = {**infos, "active": acts & infos["active"] if "active" in infos else acts}
        actions = self._policy(self.observations, infos)
        for override in self.overrides:
            actions = override(actions)
        if held:
            behind = partial(self._behind, held)
            self.observations, self.infos = step_around(self.env, actions, stands, behind)
        else:
            try:
                self.observations, *_, self.infos = self.env.step(actions)
            except WorldFault as fault:
                self._behind((), fault)
                self.observations, self.infos = begin_anew(self.env, fault.mask, self.viewer.note_fault)
        self.play.ready(self.infos)  # so that pages learn what is legal now

    def _behind(self, held: Collection[int], fault: WorldFault | None) -> None:
        if fault is not None:
            self.viewer.note_fault(fault)
        if fault is None or fault.stepped:
            self.viewer.count(held)
        else:
            self.viewer.skip()

    def _make_first(self) -> None:
        """Make the first policy in another thread, while pages look and send messages: to load one takes long."""
        errors: list[BaseException] = []

        def make() -> None:
            try:
                with torch.no_grad():
                    self._made[name] = self.policies[name]()
            except BaseException as error:
                errors.append(error)

        name = self.viewer.about["policy"]
        if name in self._made:  # a page has chosen it
            return
        thread = threading.Thread(target=make, daemon=True)
        thread.start()
        while thread.is_alive() and not self.viewer.closed:
            thread.join(_LOOK)
            self.viewer.look()
        thread.join()
        if errors:
            raise errors[0]

    def _choose(self, name: str) -> None:
        self._policy = self._policy_of(name)
        self.viewer.about["policy"] = name
        self.viewer.tell({"policy": name})

    def _policy_of(self, name: str) -> Policy:
        if name not in self._made:
            self._made[name] = self.policies[name]()
        return self._made[name]

    def _reset(self, world: int | None, seed: int | None) -> dict[str, Any]:
        options = None
        if world is not None:
            mask = np.zeros(self.env.num_worlds, bool)
            mask[world] = True
            options = {"reset_mask": mask}
        self.observations, self.infos = self.env.reset(seed=seed, options=options)
        which = "all worlds begin" if world is None else f"world {world} begins"
        return {"kind": "done", "text": f"{which} a new episode" + ("" if seed is None else f" with seed {seed}")}


class Playback:
    """Plays a recording while a viewer shows it, or two in step; pages may seek.

    Args:
        viewer: of the environment of ``recording``.
        other: shown beside, world by world; its length may be another one: it waits at its last moment. Pages may seek
            the first moment at which the two differ.

    Raises RecordingError for an ``other`` of another environment, number of worlds or size of tables.
    """

    def __init__(self, viewer: Viewer, recording: Recording, other: Recording | None = None) -> None:
        self.viewer, self.recording, self.other, self.moment = viewer, recording, other, 0
        self.moments = recording.moments
        if other is not None:
            check_pair(recording, other)
            self.moments = max(recording.moments, other.moments)
            first = recording.first_differences(other)
            self._first = min(first.values(), default=None)
            viewer.other = other.seek(0)
            viewer.about["beside"] = {
                "files": [recording.path.name, other.path.name], "ends": [recording.moments - 1, other.moments - 1],
                "first": first,
            }  # fmt: skip
            viewer.on("differ", {}, self._find)
        viewer.about["moments"] = self.moments
        viewer.on("seek", {"moment": messages.whole(0, self.moments - 1)}, self._seek)
        self._seek(0)

    def run(self) -> None:
        """Until the viewer is closed; at its end the recording is paused."""
        self.viewer.wait()
        while not self.viewer.closed:
            if self.moment + 1 < self.moments:
                self._seek(self.moment + 1)
                at_step = self.moment < self.recording.moments and self.recording.actions(self.moment) is not None
                if not at_step:
                    self.viewer.skip()
            else:
                self.viewer.pause()
                self.viewer.skip()
            self.viewer.after_step()

    def _seek(self, moment: int) -> None:
        self.moment = moment
        for each in (self.recording, self.other):
            if each is not None:
                each.seek(min(moment, each.moments - 1))
        self.viewer.beside["moment"] = moment

    def _find(self) -> dict[str, Any]:
        """Seek the first difference. The answer names the worlds that differ there."""
        if self._first is None:
            raise Refused("the recordings do not differ")
        assert self.other is not None
        self._seek(self._first)
        self.viewer.pause()
        envs = self.recording.env(), self.other.env()
        states = [WorldStates(env.sim, range(env.num_worlds)) for env in envs]
        found = differences(*envs, *states)
        return {"kind": "differ", "moment": self._first, "worlds": list(found)[:MOST_SHOWN]}
