"""The arithmetic of updates on the CPU, computed by ``csrc/host/updates.cpp``: linear layers with activations between
them as one operation of autograd, the gradient of PPO's loss of a minibatch, advantages, and Adam. Advantages are one
kernel on CUDA too (``csrc/host/advantages.cu``).

torch takes an operation, a pass over memory and a node of its graph for each layer, its bias and its activation, for
each term of the loss, and for the gradients of each. Networks that learn from a simulator are small: most of an
update's time goes there.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from torch_batchsim.base import openmp
from torch_batchsim.build import jit
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
    inputs = [_ADDRESS, _NUMBER, _NUMBER, _NUMBER]
    library.mlp_kept.argtypes, library.mlp_kept.restype = [_ADDRESS], _NUMBER
    library.mlp_forward.argtypes = [_ADDRESS, *inputs, _ADDRESS, _ADDRESS, _NUMBER]
    library.mlp_backward.argtypes = [_ADDRESS, *inputs, *[_ADDRESS] * 3, _NUMBER]
    library.ppo_gradient.argtypes = [_ADDRESS, _ADDRESS, _NUMBER, *[_ADDRESS] * 5, _NUMBER]
    library.mlp_forward.restype = library.mlp_backward.restype = library.ppo_gradient.restype = None
    library.adam_step.argtypes = [_NUMBER, *[_ADDRESS] * 4, _NUMBER, _ADDRESS]
    library.adam_step.restype = ctypes.c_float
    return library


@cache
def _advantages(device_type: str) -> Any:
    """The compiled function of rollouts on such a device; None, with a warning, where it cannot be compiled."""
    cuda = device_type == "cuda"
    try:
        library = jit.load_shared(jit.CSRC / "host" / f"advantages.{'cu' if cuda else 'cpp'}")
    except (BuildError, OSError) as error:
        text = f"trainings take longer, for what computes advantages on {device_type} could not be compiled: {error}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        return None
    function = library.advantages
    function.argtypes, function.restype = [_ADDRESS] * (1 + cuda), _NUMBER if cuda else None
    return function


def prepare(device: torch.device) -> None:
    """Compiles what updates on `device` will need, if the cache does not hold it: before a training's clock runs."""
    if device.type == "cpu":
        _library()
    if device.type in ("cpu", "cuda"):
        _advantages(device.type)


def can_compute(*tensors: Tensor) -> bool:
    """Whether what is here takes these in place of torch: float32 or uint8 on the CPU, and nothing is compiled or
    exported."""
    plain = all(each.device.type == "cpu" and each.dtype in (torch.float32, torch.uint8) for each in tensors)
    return plain and not torch.compiler.is_compiling() and _library() is not None


def _threads() -> int:
    """How many take part: torch's, but for a child of a fork, in which only the thread that forked is left."""
    return 1 if openmp.forked else torch.get_num_threads()


# ---- networks --------------------------------------------------------------------------------------------


class _Given(ctypes.Structure):
    """What C++ is given of a perceptron."""

    _fields_ = [
        ("count", _NUMBER),
        ("bfloat16", _NUMBER),
        ("sizes", _ADDRESS),
        ("activations", _ADDRESS),
        ("addresses", _ADDRESS),
        ("gradients", _ADDRESS),
    ]


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
        self._addresses, self._gradients = (_NUMBER * (2 * self.count))(), (_NUMBER * (2 * self.count))()
        arrays = self._sizes, self._activations, self._addresses
        self._given = _Given(self.count, False, *map(ctypes.addressof, arrays))
        self._given.gradients = ctypes.addressof(self._gradients)
        self.given = ctypes.addressof(self._given)
        # In torch's modules an attribute is looked up in three dicts, one after the other.
        self._owners = [each._parameters for each in self.linears]
        self.free: list[Tensor] = []  # what a forward kept and its backward has read: new memory would be paged in

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
        """Outputs; writes what `backward` reads into `kept`, a vector for all rows, if it is given."""
        rows = self._rows(inputs)
        outputs = torch.empty(*inputs.shape[:-1], self.outputs)
        places = outputs.data_ptr(), None if kept is None else kept.data_ptr()
        _library().mlp_forward(self.found(), *_told(rows), *places, _threads())  # type: ignore[union-attr]
        return outputs

    def backward(
        self, inputs: Tensor, kept: Tensor, of_outputs: Tensor, of_inputs: Tensor | None, gradients: Sequence[Tensor]
    ) -> None:
        """Writes the gradients of all parameters, and of the inputs if there is a place, given those of the outputs."""
        rows, of_outputs = self._rows(inputs), of_outputs.contiguous()
        place = None if of_inputs is None else of_inputs.data_ptr()
        told = *_told(rows), kept.data_ptr(), of_outputs.data_ptr(), place
        _library().mlp_backward(self.found(gradients), *told, _threads())  # type: ignore[union-attr]
        self.free[:] = [kept]

    def _rows(self, inputs: Tensor) -> Tensor:
        """Inputs `[rows, inputs]`, each row without gaps."""
        rows = inputs if inputs.dim() == 2 else inputs.reshape(-1, self.inputs)
        return rows if rows.stride(1) == 1 or self.inputs == 1 else rows.contiguous()

    def room(self, rows: int) -> Tensor:
        """For what a forward of so many rows keeps, float32 `[n]`."""
        size = rows * _library().mlp_kept(self.given)  # type: ignore[union-attr]
        if self.free and len(self.free[-1]) >= size:
            return self.free.pop()
        return torch.empty(size)

    def found(self, gradients: Sequence[Tensor] = ()) -> int:
        """The address of what C++ is given: where the parameters are now, and places for their gradients."""
        self._given.bfloat16 = torch.get_float32_matmul_precision() == "medium"
        self._addresses[:] = [part.data_ptr() for part in self.parameters]
        if gradients:
            self._gradients[:] = [part.data_ptr() for part in gradients]
        return self.given

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
    """What PPO's loss depends on beside its samples. Values are the critic's outputs in units of `value_scale`, above
    `value_mean`."""

    _fields_ = [
        ("clip", ctypes.c_float),
        ("entropy_weight", ctypes.c_float),
        ("value_weight", ctypes.c_float),
        ("value_scale", ctypes.c_float),
        ("value_mean", ctypes.c_float),
        ("normalise", ctypes.c_int32),
        ("clip_values", ctypes.c_int32),
    ]


class Minibatches:
    """Those of a batch, `ppo.Batch`, under a policy of categorical choices, of `sizes` each. Nothing is copied."""

    def __init__(self, batch: Any, sizes: list[int]) -> None:
        inputs = batch.inputs if batch.inputs.stride(1) == 1 else batch.inputs.contiguous()
        of_samples = batch.actions, batch.log_probs, batch.values, batch.advantages, batch.returns
        others = *of_samples, batch.action_masks, batch.active
        self._kept = [inputs, *(None if each is None else each.contiguous() for each in others)]
        places = [None if each is None else each.data_ptr() for each in self._kept]
        self._given = _Minibatch(None, 0, places[0], inputs.stride(0), inputs.dtype == torch.uint8, *places[1:])
        self._choices, self._sizes = len(sizes), (_NUMBER * len(sizes))(*sizes)

    def gradient(
        self, order: Tensor, actor: Perceptron, critic: Perceptron, settings: LossSettings
    ) -> tuple[Tensor, Tensor]:
        """PPO's loss of the samples `order`, int64 `[B]`, as `PPO.losses` has it.

        Writes the gradients of all parameters, over those that there are. Returns the mean losses of policy and values
        and the entropy, float32 `[3]`; and log(ratio) `[B]`. The actor reads the first of the inputs.
        """
        self._given.order, self._given.samples = order.data_ptr(), len(order)
        log_ratios, means = torch.empty(len(order)), torch.empty(3)
        networks = (each.found([part.grad for part in each.parameters]) for each in (actor, critic))
        given = ctypes.addressof(self._sizes), ctypes.addressof(self._given), ctypes.addressof(settings)
        places = log_ratios.data_ptr(), means.data_ptr()
        _library().ppo_gradient(*networks, self._choices, *given, *places, _threads())  # type: ignore[union-attr]
        return means, log_ratios


class _Minibatch(ctypes.Structure):
    """What C++ is given of a minibatch."""

    _fields_ = [
        ("order", _ADDRESS),
        ("samples", _NUMBER),
        ("inputs", _ADDRESS),
        ("inputs_row", _NUMBER),
        ("inputs_are_bytes", _NUMBER),
        ("actions", _ADDRESS),
        ("log_probs", _ADDRESS),
        ("values", _ADDRESS),
        ("advantages", _ADDRESS),
        ("returns", _ADDRESS),
        ("mask", _ADDRESS),
        ("active", _ADDRESS),
    ]


# ---- advantages --------------------------------------------------------------------------------------------


class _AdvantageSeries(ctypes.Structure):
    """What C++ is given of a rollout."""

    _fields_ = [
        ("steps", _NUMBER),
        ("rows", _NUMBER),
        ("rewards", _ADDRESS),
        ("values", _ADDRESS),
        ("next_values", _ADDRESS),
        ("terminations", _ADDRESS),
        ("truncations", _ADDRESS),
        ("advantages", _ADDRESS),
        ("gamma", ctypes.c_float),
        ("decay", ctypes.c_float),
    ]


def advantages_at_once(series: Sequence[Tensor], gamma: float, gae_lambda: float) -> Tensor | None:
    """What `generalised_advantages` says of rewards, values, next values, terminations and truncations `[T, N]`, in one
    pass, or one kernel; None where it has to be computed by torch."""
    device = series[0].device
    floats, flags = series[:3], series[3:]
    plain = all(each.dtype == torch.float32 for each in floats) and all(each.dtype == torch.bool for each in flags)
    if not plain or any(each.device != device or each.requires_grad for each in series):
        return None
    compute = _advantages(device.type) if device.type in ("cpu", "cuda") else None
    if compute is None or torch.compiler.is_compiling():
        return None
    found = torch.empty(series[0].shape, device=device)
    dense = [each.contiguous() for each in series]
    places = (each.data_ptr() for each in (*dense, found))
    given = _AdvantageSeries(*found.shape, *places, gamma, gamma * gae_lambda)
    if device.type == "cpu":
        compute(ctypes.addressof(given))
        return found
    with torch.cuda.device(device):
        result = compute(ctypes.addressof(given), torch.cuda.current_stream().cuda_stream)
    if result != 0:
        raise torch.cuda.CudaError(-1000 - result)
    return found


# ---- the optimiser ---------------------------------------------------------------------------------------


class _AdamSettings(ctypes.Structure):
    """What a step of Adam depends on."""

    _fields_ = [(name, ctypes.c_float) for name in ("learning_rate", "beta1", "beta2", "epsilon", "longest")]


def adam_step(optimizer: torch.optim.Adam, parameters: Tensor, longest: float) -> Tensor:
    """Cuts the gradient of a vector of parameters to a length, and takes a step of the optimiser, on its state.

    Returns the length of the gradient before, float32 `[]`.
    """
    state, (group,) = optimizer.state[parameters], optimizer.param_groups
    if not state:  # as torch's own first step makes it
        state["step"] = torch.zeros(())
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameters), torch.zeros_like(parameters)
    state["step"] += 1
    settings = _AdamSettings(group["lr"], *group["betas"], group["eps"], longest)
    vectors = parameters, parameters.grad, state["exp_avg"], state["exp_avg_sq"]
    places = (each.data_ptr() for each in vectors)
    step = int(state["step"]), ctypes.addressof(settings)
    return torch.tensor(_library().adam_step(parameters.numel(), *places, *step))  # type: ignore[union-attr]
