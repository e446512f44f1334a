"""Torch's global modes, which callers switch on and the engine's own memory does not follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])


@contextmanager
def plain_torch() -> Iterator[None]:
    """No inference mode, default device, function mode or dispatch mode (such as ``FakeTensorMode``).

    What is made here outlives the caller's mode: tensors of an evaluation under ``torch.inference_mode()`` would fail
    in the training after it.
    """
    gradients = torch.is_grad_enabled()  # which leaving inference mode turns on
    with (
        torch.inference_mode(False),
        torch.set_grad_enabled(gradients),
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
    ):
        yield


@contextmanager
def training_modes() -> Iterator[None]:
    """As ``plain_torch``; besides gradients are on, autocast is off, and new parameters are float32."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with plain_torch(), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            if torch.cuda.is_available():
                with torch.autocast("cuda", enabled=False):
                    yield
            else:
                yield
    finally:
        torch.set_default_dtype(dtype)


def _running_in(context: Callable[[], AbstractContextManager[None]]) -> Callable[[_Function], _Function]:
    """A decorator, as a context manager of ``contextlib`` is, but with code of ours: see ``not_compiled``."""

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def running(*args: Any, **kwargs: Any) -> Any:
            with context():
                return function(*args, **kwargs)

        return running  # type: ignore[return-value]

    return decorate


in_plain_torch = _running_in(plain_torch)
in_training_modes = _running_in(training_modes)


_Class = TypeVar("_Class", bound=type)
_dynamo = torch._C._dynamo.eval_frame
_SKIP_ALL = _dynamo._FrameExecStrategy(_dynamo._FrameAction.SKIP, _dynamo._FrameAction.SKIP)


def not_compiled(cls: _Class) -> _Class:
    """Let ``torch.compile`` break its graph at the methods of a class, and run them and all that they call as they are.

    What ``torch.compiler.disable`` does, without the import of the compiler and without a wrapper around each step.
    """
    for found in list(vars(cls).values()):
        parts = (found.fget, found.fset) if isinstance(found, property) else (getattr(found, "__func__", found),)
        for function in parts:
            if hasattr(function, "__code__"):
                function._torchdynamo_disable = True  # it is not inlined
                function._torchdynamo_disable_msg = "it steps in C++"
                _dynamo.set_code_exec_strategy(function.__code__, _SKIP_ALL)
    return cls
