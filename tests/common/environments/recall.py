"""A cue at the begin of an episode, nothing for a while, and then the question which it was: needs a memory."""

from __future__ import annotations

from torch_batchsim import (
    Archetype,
    Component,
    Constant,
    Constants,
    Environment,
    Option,
    Reward,
    TaskGraph,
    between,
    f32,
    i32,
)

CUES = Constant("cues")


class Cue(Component):
    number: i32


class Answer(Component):
    number: i32 = between(0, CUES - 1)


class View(Component):
    cue: f32[CUES] = between(0, 1)  # which it is, in the first step only
    asked: f32 = between(0, 1)  # in the last step


class Recall(Environment):
    systems = "recall.h"
    archetypes = [Archetype("Pupil", Cue, Answer, View, Reward, count=1)]
    constants = Constants(
        cues=Option(3, minimum=2, help="of which one is shown"),
        delay=Option(20, minimum=1, help="steps from the cue to the question"),
    )
    start = TaskGraph("choose")
    step = TaskGraph("judge")
    observe = TaskGraph("look")
    observation, action = "Pupil.View", "Pupil.Answer"
