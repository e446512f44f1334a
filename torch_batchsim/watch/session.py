"""What the command runs: an environment that policies play, or a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import sleep
from typing import Any

import numpy as np

from ..errors import WorldFault
from ..replay import Recording
from . import messages
from .play import Play
from .viewer import Viewer

_LOOK = 0.01  # seconds
Policy = Callable[[Any, dict[str, Any]], Any]
"""Observations and infos of the whole batch to its actions."""


class Session:
    """Steps an environment while a viewer shows it; pages may reset worlds, choose the policy, and play for agents.

    Args:
        viewer: of a ``TorchVectorEnv``.
        policies: by name, each a function that makes it when it is chosen first. The first one plays at first.
        seed: of the first reset.

    Attributes: ``play``, the humans; ``overrides``: functions that take the actions of the batch and change rows of
    them, at first that of ``play``; ``observations``, ``infos``: the present ones.
    """

    def __init__(self, viewer: Viewer, policies: Mapping[str, Callable[[], Policy]], seed: int) -> None:
        self.viewer, self.env, self.policies = viewer, viewer.env, dict(policies)
        self.play = Play(viewer)
        self.overrides: list[Callable[[Any], Any]] = [self.play.override]
        self._made: dict[str, Policy] = {}
        self._choose(next(iter(self.policies)))
        self.observations, self.infos = self.env.reset(seed=seed)
        self.play.ready(self.infos)
        viewer.about |= {"policies": list(self.policies), "seed": seed}
        world, seeds = messages.whole(0, self.env.num_worlds - 1), messages.whole(0, 2**63 - 1)
        viewer.on("reset", {"world": messages.optional(world), "seed": messages.optional(seeds)}, self._reset)
        viewer.on("policy", {"name": messages.one_of(self.policies)}, self._choose)

    def run(self) -> None:
        """Until the viewer is closed."""
        self.viewer.wait()
        while not self.viewer.closed:
            if self.play.ready(self.infos):
                self.step()
                self.viewer.after_step()
            else:  # a human has to choose
                sleep(_LOOK)
                self.viewer.wait()

    def step(self) -> None:
        """One step. Faulty worlds begin a new episode, and pages are told."""
        actions = self._policy(self.observations, self.infos)
        for override in self.overrides:
            actions = override(actions)
        try:
            self.observations, *_, self.infos = self.env.step(actions)
        except WorldFault as fault:
            self.viewer.note_fault(fault)
            self.observations, self.infos = self.env.reset(options={"reset_mask": fault.mask})
        self.play.ready(self.infos)  # so that pages learn what is legal now

    def _choose(self, name: str) -> None:
        if name not in self._made:
            self._made[name] = self.policies[name]()
        self._policy = self._made[name]
        self.viewer.about["policy"] = name
        self.viewer.tell({"policy": name})

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
    """Plays a recording while a viewer shows it; pages may seek."""

    def __init__(self, viewer: Viewer, recording: Recording) -> None:
        self.viewer, self.recording = viewer, recording
        viewer.about["moments"] = recording.moments
        viewer.on("seek", {"moment": messages.whole(0, recording.moments - 1)}, self._seek)
        self._seek(0)

    def run(self) -> None:
        """Until the viewer is closed; at its end the recording is paused."""
        self.viewer.wait()
        while not self.viewer.closed:
            moment = self.recording.moment + 1
            if moment < self.recording.moments:
                self._seek(moment)
            else:
                self.viewer.pause()
            self.viewer.after_step()

    def _seek(self, moment: int) -> None:
        self.recording.seek(moment)
        self.viewer.beside["moment"] = moment
