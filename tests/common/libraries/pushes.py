"""A library that pushes the bodies of another one to and fro."""

from typing import Any

from torch_batchsim import Bundle, Component, Library, Parameters, Repeat, TaskGraph, f32

from .buckets import Buckets


class Push(Component):
    by: f32


class Wind(Component):
    strength: f32  # drawn where it is 0; kept, so that it may be given


class Pushes(Library):
    name = "pushes"
    systems = ("pushes.h", "wind.h")
    uses = (Buckets,)
    singletons = (Wind,)
    kept = (Wind,)
    parameters = Parameters(gain=1.0)
    pushed = Bundle(Push, Buckets.body)
    begin = TaskGraph("draw_wind", Buckets.build)
    advance = Repeat(2, "push", Buckets.build)

    def __init__(self, pattern: tuple[float, ...] = (1.0, -1.0), **options: Any) -> None:
        super().__init__(**options)
        self.add_constants(beats=len(pattern), first=float(pattern[0]), last=float(pattern[-1]))

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        return (*super().option_names(), "pattern")
