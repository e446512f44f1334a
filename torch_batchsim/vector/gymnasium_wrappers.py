"""Which of gymnasium's vector wrappers need arrays, and what takes their place for tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TypeVar

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper

_Wrapper = TypeVar("_Wrapper", gymnasium.Wrapper, VectorWrapper)

_WHOLE = "its sibling {0}, whose function gets all rows as one tensor ({1})"


def _observation(function: str) -> str:
    return _WHOLE.format("TransformObservation", function)


NEED_ARRAYS = {
    "VectorizeTransformObservation": _observation("lambda obs: 2 * obs"),
    "FlattenObservation": _observation("lambda obs: obs.flatten(1)"),
    "ReshapeObservation": _observation("lambda obs: obs.unflatten(1, shape)"),
    "RescaleObservation": _observation("lambda obs: (obs - low) / (high - low)"),
    "DtypeObservation": _observation("lambda obs: obs.double()"),
    "GrayscaleObservation": _observation("lambda obs: obs.float().mean(-1)"),
    "ResizeObservation": _observation("torch.nn.functional.interpolate"),
    "NormalizeObservation": _observation("a running mean and deviation of yours"),
    "VectorizeTransformAction": _WHOLE.format("TransformAction", "lambda actions: 2 * actions"),
    "ClipAction": _WHOLE.format("TransformAction", "lambda actions: actions.clamp(low, high)"),
    "RescaleAction": _WHOLE.format("TransformAction", "lambda actions: low + (high - low) * actions"),
    "NormalizeReward": _WHOLE.format("TransformReward", "a running deviation of yours"),
    "RecordEpisodeStatistics": "torch_batchsim.EpisodeStatistics",
    "DictInfoToList": "the tensors of infos, whose rows are those of the environment",
}
"""By name in ``gymnasium.wrappers.vector``: what to use with ``output="torch"``. All others take tensors too."""


def check_callers(env: VectorEnv) -> None:
    """Raise TypeError if gymnasium's wrappers that need arrays call ``reset`` of ``env``, which gives tensors.

    A wrapper does not tell its environment that it is there, and otherwise fails within NumPy, or mixes arrays with
    tensors. So the calls that have led here are looked at; to be called from ``reset``.
    """
    for wrapper in resetting_wrappers(env, VectorWrapper):
        name = type(wrapper).__name__
        if any(base.__name__ == "ArrayConversion" for base in type(wrapper).__mro__):
            return  # those further out get what it makes of tensors
        if name in NEED_ARRAYS and type(wrapper).__module__.startswith("gymnasium.wrappers."):
            raise TypeError(
                f"gymnasium's {name} computes with NumPy, and this environment gives tensors: make it with "
                f'output="numpy", or use {NEED_ARRAYS[name]}'
            )


def resetting_wrappers(env: gymnasium.Env | VectorEnv, kind: type[_Wrapper]) -> Iterator[_Wrapper]:
    """Gymnasium's wrappers around ``env`` in whose ``reset`` this call lies, the innermost first.

    To be called from ``reset``, or from what that calls. The locals of other frames are left alone: until Python 3.13 a
    look at them keeps them alive as long as the frame.
    """
    frame, last = sys._getframe(1), None
    while frame is not None and frame.f_code.co_name != "reset":
        frame = frame.f_back
    while frame is not None:
        of_gymnasium = frame.f_globals.get("__name__", "").startswith("gymnasium.")
        if frame.f_code.co_name != "reset" and not of_gymnasium:
            return
        outer = frame.f_locals.get("self") if of_gymnasium else None
        if isinstance(outer, kind) and outer is not last and outer.unwrapped is env:
            yield outer
            last = outer
        frame = frame.f_back
