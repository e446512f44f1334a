"""Linear layers with activations between them as one operation of autograd, computed by ``csrc/host/perceptron.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..base.kernels import ADDRESS, NUMBER, can_compute, fields, library, threads

_ACTIVATIONS = {nn.Tanh: 1, nn.ReLU: 2}


class _Given(ctypes.Structure):
    """The record of a perceptron for C++."""

    _fields_ = fields(NUMBER, "count bfloat16") + fields(ADDRESS, "sizes activations addresses gradients")


class Perceptron:
    """Calls linear layers, each with an activation behind it or none, as one: float32 or uint8
    `[..., inputs]` to float32 `[..., outputs]`.

    The result is torch's but for the last bits. It does not depend on the number of torch's threads, and outputs of a
    row do not depend on other rows. Where torch's products may be of bfloat16
    (`torch.set_float32_matmul_precision("medium")`), those of layers with 16 inputs and more are, if the CPU has matrix
    units for it (Intel's AMX); sums are float32. torch itself computes on other devices than the CPU, and where it
    compiles or exports.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.modules = list(modules)
        self.linears = [each for each in self.modules if isinstance(each, nn.Linear)]
        activations = [
            _ACTIVATIONS.get(type(follows), 0)
            for each, follows in zip_longest(self.modules, self.modules[1:])
            if isinstance(each, nn.Linear)
        ]
        self.count, self.inputs, self.outputs = len(self.linears), 0, 0
        if self.linears:
            self.inputs, self.outputs = self.linears[0].in_features, self.linears[-1].out_features
        sizes = [self.inputs, *(each.out_features for each in self.linears)]
        self._sizes, self._activations = (NUMBER * (self.count + 1))(*sizes), (NUMBER * self.count)(*activations)
        self._addresses, self._gradients = (NUMBER * (2 * self.count))(), (NUMBER * (2 * self.count))()
        arrays = self._sizes, self._activations, self._addresses
        self._given = _Given(self.count, False, *map(ctypes.addressof, arrays))
        self._given.gradients = ctypes.addressof(self._gradients)
        self.given = ctypes.addressof(self._given)
        # In torch's modules an attribute is looked up in three dicts, one after the other.
        self._owners = [each._parameters for each in self.linears]
        self.free: list[Tensor] = []  # kept by a forward, read by its backward: new memory would be paged in

    def __call__(self, inputs: Tensor) -> Tensor:
        if not self.count or inputs.shape[-1] != self.inputs or not can_compute(inputs):
            inputs = inputs.float()
            for module in self.modules:
                inputs = module(inputs)
            return inputs
        if not torch.is_grad_enabled():
            return self.forward(inputs, None)
        return _Layers.apply(inputs, self, *self.parameters)  # type: ignore[no-any-return]

    @property
    def parameters(self) -> list[Tensor]:
        return [each[name] for each in self._owners for name in ("weight", "bias")]

    def forward(self, inputs: Tensor, kept: Tensor | None) -> Tensor:
        """Outputs; writes the values that `backward` reads into `kept`, a vector for all rows, if given."""
        rows = self._rows(inputs)
        outputs = torch.empty(*inputs.shape[:-1], self.outputs)
        places = outputs.data_ptr(), None if kept is None else kept.data_ptr()
        library().mlp_forward(self.found(), *_placed(rows), *places, threads())  # type: ignore[union-attr]
        return outputs

    def backward(
        self, inputs: Tensor, kept: Tensor, of_outputs: Tensor, of_inputs: Tensor | None, gradients: Sequence[Tensor]
    ) -> None:
        """Writes the gradients of all parameters, and of the inputs if there is a place, given those of the outputs."""
        rows, of_outputs = self._rows(inputs), of_outputs.contiguous()
        place = None if of_inputs is None else of_inputs.data_ptr()
        places = *_placed(rows), kept.data_ptr(), of_outputs.data_ptr(), place
        library().mlp_backward(self.found(gradients), *places, threads())  # type: ignore[union-attr]
        self.free[:] = [kept]

    def _rows(self, inputs: Tensor) -> Tensor:
        """Inputs `[rows, inputs]`, each row without gaps."""
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, self.inputs)
        return rows if rows.stride(1) == 1 or self.inputs == 1 else rows.contiguous()

    def room(self, rows: int) -> Tensor:
        """Room for the values that a forward of so many rows keeps, float32 `[n]`."""
        size = rows * library().mlp_kept(self.given)  # type: ignore[union-attr]
        if self.free and len(self.free[-1]) >= size:
            return self.free.pop()
        return torch.empty(size)

    def found(self, gradients: Sequence[Tensor] = ()) -> int:
        """The address of the record for C++, with the present places of parameters and gradients."""
        self._given.bfloat16 = torch.get_float32_matmul_precision() == "medium"
        self._addresses[:] = [part.data_ptr() for part in self.parameters]
        if gradients:
            self._gradients[:] = [part.data_ptr() for part in gradients]
        return self.given

    def __deepcopy__(self, memo: dict[int, Any]) -> Perceptron:
        return Perceptron(memo.get(id(each), each) for each in self.modules)


def _placed(rows: Tensor) -> tuple[int, int, int, int]:
    """Inputs, as both functions of C++ take them."""
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
