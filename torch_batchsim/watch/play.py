"""Humans who take agents over, on the page, beside policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode

from ..declare.controls import REPEAT, Control, Controls, composed, controls_of
from . import messages
from .messages import Refused
from .viewer import Viewer

Seat = tuple[int, int]  # world and agent


@dataclass
class Hands:
    """What a human presses: controls that are held, and those that were pressed since the last step."""

    held: list[int] = field(default_factory=list)
    pressed: list[int] = field(default_factory=list)
    last: Any = None
    waits: bool = False
    since: float | None = None  # the viewer's clock when the run began to wait


class Play:
    """Takes rows of the actions from humans. ``ready`` before each step; ``override`` takes the policy's actions.

    Pages send ``human`` to take or leave an agent, and ``press``. Without a page all agents are left. A world in which
    a human has to choose is ``held``, while others go on.

    Args:
        turn_seconds: so long at most; then the policy takes this step for the human. None: as long as it takes.
    """

    def __init__(self, viewer: Viewer, turn_seconds: float | None = None) -> None:
        self.turn_seconds = turn_seconds
        self.viewer, self.env, self.hands = viewer, viewer.env, dict[Seat, Hands]()
        self.space = self.env.single_action_space
        self.controls: Controls = controls_of(self.env.environment, self.space)
        self._choices: dict[int, Any] = {}  # by row, of the next step
        self._infos: Mapping[str, Any] = {}
        if not self.controls.each:
            return
        world, agent = messages.whole(0, self.env.num_worlds - 1), messages.whole(0, self.env.num_agents - 1)
        seat = {"world": world, "agent": agent, "on": messages.flag}
        viewer.on("human", seat, self._take)
        viewer.on("press", {**seat, "control": messages.whole(0, len(self.controls.each) - 1)}, self._press)
        viewer.about["controls"] = [{"label": each.label, "key": each.key} for each in self.controls.each]

    def ready(self, infos: Mapping[str, Any]) -> bool:
        """Whether each human who has to choose has chosen, or their time is over.

        Pages learn what is legal, and who is awaited.
        """
        self._choices, self._infos, shown = {}, infos, list[dict[str, Any]]()
        if not self.hands:
            return True
        if not self.viewer.clients:
            self.hands.clear()
        for (world, agent), hands in self.hands.items():
            row = world * self.env.num_agents + agent
            active, legal = infos.get("active"), self._legal(infos, row)
            acts = active is None or bool(active[row])
            choice = self._choice(hands, legal) if acts else None
            hands.waits, left = acts and choice is None, None
            if hands.waits and self.turn_seconds is not None:
                now = self.viewer.clock()
                hands.since = now if hands.since is None else hands.since
                left = hands.since + self.turn_seconds - now
                hands.waits = left > 0
            if choice is not None:
                self._choices[row] = choice
            elif not acts:
                hands.pressed = []
            usable = [legal is None or bool(legal[self._place(each)]) for each in self.controls.each]
            shown.append({"world": world, "agent": agent, "waits": hands.waits, "legal": usable})
            if hands.waits and left is not None:
                shown[-1]["left"] = round(left, 1)
        self.viewer.beside["humans"] = shown
        return not any(hands.waits for hands in self.hands.values())

    def override(self, actions: Any) -> Any:
        """The actions, with those of humans in their rows."""
        held = set(self.held())
        for (world, _), hands in self.hands.items():
            hands.since = hands.since if world in held else None
        if not self._choices:
            return actions
        actions = actions.clone() if isinstance(actions, torch.Tensor) else np.array(actions)
        for row, choice in self._choices.items():
            if row // self.env.num_agents in held:  # beside another human who has to choose: it is kept
                continue
            actions[row] = torch.as_tensor(choice).to(actions) if isinstance(actions, torch.Tensor) else choice
            hands = self.hands[divmod(row, self.env.num_agents)]
            hands.pressed, hands.last = [], choice
        return actions

    def held(self) -> list[int]:
        """The worlds that wait for a human, if others can go on without them."""
        worlds = sorted({world for (world, _), hands in self.hands.items() if hands.waits})
        others = len(worlds) < self.env.num_worlds and self.env.autoreset_mode is AutoresetMode.SAME_STEP
        return worlds if others else []

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _take(self, world: int, agent: int, on: bool) -> dict[str, Any]:
        if on:
            self.hands.setdefault((world, agent), Hands())
        else:
            self.hands.pop((world, agent), None)
            if not self.hands:
                self.viewer.beside.pop("humans", None)
        self.ready(self._infos)  # while the run is paused nothing else lets pages know
        who = "a human plays" if on else "the policy plays"
        return {"kind": "done", "text": f"{who} agent {agent} of world {world}"}

    def _press(self, world: int, agent: int, on: bool, control: int) -> None:
        hands = self.hands.get((world, agent))
        if hands is None:
            raise Refused(f"no human plays agent {agent} of world {world}")
        if control in hands.held:
            hands.held.remove(control)
        if on:
            hands.held.append(control)
            hands.pressed.append(control)
        self.ready(self._infos)

    def _legal(self, infos: Mapping[str, Any], row: int) -> Any:
        """Which actions of a Discrete space are legal, bool ``[actions]``; None without masks."""
        mask = infos.get("action_mask")
        return None if mask is None or not isinstance(self.space, Discrete) else np.asarray(mask[row].cpu())

    def _place(self, control: Control) -> Any:
        return control.action - int(self.space.start)  # type: ignore[operator, attr-defined]

    def _choice(self, hands: Hands, legal: Any) -> Any:
        """What a human does in the next step; None: nothing yet, and the world waits."""
        each, idle = self.controls
        waits = idle is None  # then one press is one step
        lasting = [i for i in hands.held if not waits and not each[i].once]
        pressed = [each[i] for i in dict.fromkeys((*lasting, *hands.pressed))]
        if not isinstance(self.space, Discrete):
            if not pressed and (waits or (idle == REPEAT and hands.last is None)):
                return None
            return hands.last if not pressed and isinstance(idle, str) else composed(pressed, idle, self.space)
        wanted = [control.action for control in reversed(pressed)]
        wanted += [] if waits else [hands.last if idle == REPEAT else idle]
        first = int(self.space.start)
        if legal is not None and legal.sum() == 1:  # nothing to choose
            return first + int(legal.argmax())
        fitting = [one for one in wanted if one is not None and (legal is None or legal[one - first])]  # type: ignore[operator]
        if waits and pressed and not fitting:
            hands.pressed = []  # not legal
        return fitting[0] if fitting else None
