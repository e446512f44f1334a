"""The arithmetic of updates on the CPU, computed by ``csrc/host/updates.cpp``: linear layers with activations between
them as one operation of autograd, and PPO's loss with its gradients.

torch takes an operation, a pass over memory and a node of its graph for each layer, its bias and its activation, for
each term of the loss, and for the gradients of each. Networks that learn from a simulator are small: most of an
update's time goes there.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from torch_batchsim import jit, openmp
from torch_batchsim.errors import BuildError

_ACTIVATIONS = {nn.Tanh: 1, nn.ReLU: 2}
_ADDRESS, _NUMBER = ctypes.c_void_p, ctypes.c_int64


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled functions; None, with a warning, where they cannot be compiled."""
    try:
        openmp.share()
        library = jit.load_shared(jit.CSRC / "host" / "updates.cpp", "-ffp-contract=fast", "-fopenmp")
    except (BuildError, OSError) as error:
        text = f"trainings on the CPU take longer, for the products of their networks could not be compiled: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        return None
    layers, inputs = [_NUMBER, _ADDRESS, _ADDRESS, _ADDRESS], [_ADDRESS, _NUMBER, _NUMBER, _NUMBER]
    library.mlp_kept.argtypes, library.mlp_kept.restype = [_NUMBER, _ADDRESS], _NUMBER
    library.mlp_forward.argtypes = [*layers, *inputs, _ADDRESS, _ADDRESS, _NUMBER]
    library.mlp_forward.restype = library.mlp_backward.restype = None
    library.mlp_backward.argtypes = [*layers, *inputs, *[_ADDRESS] * 4, _NUMBER]
    library.ppo_loss.argtypes, library.ppo_loss.restype = [_NUMBER, _NUMBER, *[_ADDRESS] * 15], None
    return library


def prepare(device: torch.device) -> None:
    """Compiles what updates on `device` will need, if the cache does not hold it: before a training's clock runs."""
    if device.type == "cpu":
        _library()


def can_compute(*tensors: Tensor) -> bool:
    """Whether what is here takes these in place of torch: float32 or uint8 on the CPU, and nothing is compiled or
    exported."""
    plain = all(each.device.type == "cpu" and each.dtype in (torch.float32, torch.uint8) for each in tensors)
    return plain and not torch.compiler.is_compiling() and _library() is not None


def _threads() -> int:
    """How many take part: torch's, but for a child of a fork, in which only the thread that forked is left."""
    return 1 if openmp.forked else torch.get_num_threads()


# ---- networks --------------------------------------------------------------------------------------------


class Perceptron:
    """Calls linear layers, each with an activation behind it or none, as one: float32 or uint8
    `[..., inputs]` to float32 `[..., outputs]`.

    The result is torch's but for the last bits. It does not depend on the number of torch's threads, and outputs of a
    row do not depend on other rows. torch itself computes on other devices than the CPU, where products may be less
    exact than float32 (`torch.set_float32_matmul_precision`), and where it compiles or exports.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.modules = list(modules)
        self.linears = [each for each in self.modules if isinstance(each, nn.Linear)]
        behind = [*self.modules[1:], None]
        activations = [
            _ACTIVATIONS.get(type(follows), 0)
            for each, follows in zip(self.modules, behind, strict=True)
            if isinstance(each, nn.Linear)
        ]
        self.count, self.inputs, self.outputs = len(self.linears), 0, 0
        if self.linears:
            self.inputs, self.outputs = self.linears[0].in_features, self.linears[-1].out_features
        sizes = [self.inputs, *(each.out_features for each in self.linears)]
        self._sizes, self._activations = (_NUMBER * (self.count + 1))(*sizes), (_NUMBER * self.count)(*activations)
        self._places: tuple[int, ...] = ()
        self._addresses = (_NUMBER * (2 * self.count))()
        self.free: list[Tensor] = []  # what a forward kept and its backward has read: new memory would be paged in

    def __call__(self, inputs: Tensor) -> Tensor:
        if not self.is_exact or inputs.shape[-1] != self.inputs or not can_compute(inputs):
            inputs = inputs.float()
            for module in self.modules:
                inputs = module(inputs)
            return inputs
        if not torch.is_grad_enabled():
            return self.forward(inputs, None)
        return _Layers.apply(inputs, self, *self.parameters)  # type: ignore[no-any-return]

    @property
    def is_exact(self) -> bool:
        """Whether there are layers, and products are to be those of float32."""
        return self.count > 0 and torch.get_float32_matmul_precision() == "highest"

    @property
    def parameters(self) -> list[Tensor]:
        return [part for each in self.linears for part in (each.weight, each.bias)]

    def forward(self, inputs: Tensor, kept: Tensor | None) -> Tensor:
        """Outputs; writes what `backward` reads into `kept`, a vector for all rows, if it is given."""
        rows = self._rows(inputs)
        outputs = torch.empty(len(rows), self.outputs)
        places = outputs.data_ptr(), None if kept is None else kept.data_ptr()
        _library().mlp_forward(*self._layers(), *_told(rows), *places, _threads())  # type: ignore[union-attr]
        return outputs.view(*inputs.shape[:-1], self.outputs)

    def backward(
        self, inputs: Tensor, kept: Tensor, of_outputs: Tensor, of_inputs: Tensor | None, gradients: Iterable[Tensor]
    ) -> None:
        """Writes the gradients of all parameters, and of the inputs if there is a place, given those of the outputs."""
        rows, of_outputs = self._rows(inputs), of_outputs.contiguous()
        place = None if of_inputs is None else of_inputs.data_ptr()
        places = (_NUMBER * (2 * self.count))(*(part.data_ptr() for part in gradients))
        told = *_told(rows), kept.data_ptr(), of_outputs.data_ptr(), place, ctypes.addressof(places)
        _library().mlp_backward(*self._layers(), *told, _threads())  # type: ignore[union-attr]
        self.free[:] = [kept]

    def _rows(self, inputs: Tensor) -> Tensor:
        """Inputs `[rows, inputs]`, each row without gaps."""
        rows = inputs.reshape(-1, self.inputs)
        return rows if rows.stride(1) == 1 or self.inputs == 1 else rows.contiguous()

    def room(self, rows: int) -> Tensor:
        """For what a forward of so many rows keeps, float32 `[n]`."""
        size = rows * _library().mlp_kept(self.count, ctypes.addressof(self._sizes))  # type: ignore[union-attr]
        if self.free and len(self.free[-1]) >= size:
            return self.free.pop()
        return torch.empty(size)

    def _layers(self) -> tuple[int, int, int, int]:
        """What both functions take of the layers. Parameters may have moved since the last call."""
        places = tuple(part.data_ptr() for part in self.parameters)
        if places != self._places:
            self._addresses[:], self._places = places, places
        told = (ctypes.addressof(each) for each in (self._sizes, self._activations, self._addresses))
        return (self.count, *told)  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, Any]) -> Perceptron:
        return Perceptron(memo.get(id(each), each) for each in self.modules)


def _told(rows: Tensor) -> tuple[int, int, int, int]:
    """What both functions take of inputs."""
    return rows.data_ptr(), rows.stride(0), rows.dtype == torch.uint8, len(rows)


class _Layers(torch.autograd.Function):
    """Inputs, who computes, and its parameters, to outputs."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, layers: Perceptron, *parameters: Tensor) -> Tensor:
        ctx.layers = layers
        ctx.save_for_backward(inputs)
        ctx.kept = layers.room(inputs.numel() // layers.inputs)
        return layers.forward(inputs, ctx.kept)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_outputs: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.kept is None:
            raise RuntimeError("gradients of a network of torch_batchsim.train can be taken once")
        (inputs,) = ctx.saved_tensors
        of_inputs = torch.empty(inputs.shape) if ctx.needs_input_grad[0] else None
        gradients = [torch.empty_like(part) for part in ctx.layers.parameters]
        ctx.layers.backward(inputs, ctx.kept, of_outputs, of_inputs, gradients)
        ctx.kept = None
        return (of_inputs, None, *gradients)


# ---- PPO's loss ------------------------------------------------------------------------------------------


class LossSettings(ctypes.Structure):
    """What PPO's loss depends on beside its samples: `value_scale` is the unit in which the critic learns."""

    _fields_ = [
        ("clip", ctypes.c_float),
        ("entropy_weight", ctypes.c_float),
        ("value_weight", ctypes.c_float),
        ("value_scale", ctypes.c_float),
        ("normalise", ctypes.c_int32),
        ("clip_values", ctypes.c_int32),
    ]


def categorical_loss(
    logits: Tensor, values: Tensor, sizes: list[int], settings: LossSettings, batch: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """PPO's loss of a batch under a policy of categorical choices, of `sizes` each, as `PPO.losses` has it.

    Takes logits float32 `[B, sum of sizes]` and values float32 `[B]`. Returns the mean losses of policy and values
    and the entropy, float32 `[3]`; log(ratio) `[B]`; and the gradients of the loss by logits and by values.
    """
    of_logits, of_values = torch.empty_like(logits), torch.empty_like(values)
    log_ratios, means = torch.empty_like(values), torch.empty(3)
    told = batch.actions, batch.log_probs, batch.values, batch.advantages, batch.returns
    given = [each if each is None else each.contiguous() for each in (*told, batch.action_masks, batch.active)]
    _library().ppo_loss(  # type: ignore[union-attr]
        values.numel(), len(sizes), (_NUMBER * len(sizes))(*sizes), logits.data_ptr(), values.data_ptr(),
        *(None if each is None else each.data_ptr() for each in given), ctypes.addressof(settings),
        *(each.data_ptr() for each in (of_logits, of_values, log_ratios, means)),
    )  # fmt: skip
    return means, log_ratios, of_logits, of_values
