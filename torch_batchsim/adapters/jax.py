"""JAX: arrays in, arrays out, without copies; and steps within ``jit``, as by EnvPool's ``xla`` and gymnax's functions.

>>> from torch_batchsim.adapters.jax import JaxEnv
>>> env = JaxEnv("torch_batchsim/CartPole-v0", num_envs=64)
>>> observations, infos = env.reset(seed=0)
>>> handle, recv, send, step = env.xla()
>>> def turn(carry, _):
...     handle, observations = carry
...     handle, (observations, rewards, *_) = step(handle, policy(observations))
...     return (handle, observations), rewards
>>> rollout = jax.jit(lambda carry: jax.lax.scan(turn, carry, length=100))
>>> (handle, observations), rewards = rollout((handle, observations))

A compiled program calls the engine back. What it passes as the handle makes the order of the calls, so that ``scan``,
``fori_loop``, ``while_loop`` and ``cond`` need nothing else.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import Space
from gymnasium.vector import VectorEnv

from ..build.jit import load_module
from ..declare.environment import Environment
from ..errors import WorldFault
from ..testing import random_actions
from ..vector.vector_env import TorchVectorEnv
from .episodes import stepped
from .records import ADAPTERS, Interface, Played
from .source import vector_env

RECORD = ADAPTERS["jax"]
RECORD.require()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import io_callback  # noqa: E402

_TARGET = "torch_batchsim_call"
_HANDLE = jax.ShapeDtypeStruct((), np.uint32)


class _Shared:
    """The parts that both environments have: how they are made, called back and closed."""

    _interface: Interface

    def __init__(self, env: str | Environment | VectorEnv, num_envs: int | None = None, **options: Any) -> None:
        self.vector_env: TorchVectorEnv = vector_env(env, self._interface, options, num_envs)
        self.fault: WorldFault | None = None
        self._calls = _Calls(self.vector_env, self)

    @property
    def num_envs(self) -> int:
        """Rows: agents of all worlds."""
        return self.vector_env.num_envs

    @property
    def num_agents(self) -> int:
        """Of a world."""
        return self.vector_env.num_agents

    @property
    def num_worlds(self) -> int:
        """Worlds, each with ``num_agents`` rows that follow each other."""
        return self.vector_env.num_worlds

    def close(self) -> None:
        """Close the vector environment; steps and resets raise from then on, within ``jit`` too.

        An environment that compiled programs step is kept until then, because they may do so at any time.
        """
        self.vector_env.close()
        self._calls.forget()

    def __getstate__(self) -> dict[str, Any]:
        """Without the calls of compiled programs, which go to the original."""
        return {name: value for name, value in vars(self).items() if name not in ("_calls", "fault")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.fault = None
        self._calls = _Calls(self.vector_env, self)


class JaxEnv(_Shared):
    """A vector environment whose actions and results are arrays of JAX: by DLPack, or within ``jit`` by ``xla``.

    Args:
        env: an id, a declared environment, or a ``TorchVectorEnv``.
        num_envs: rows, where it is made here; ``num_worlds`` may be given instead.
        seed: of the first ``reset``, unless that has its own.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own.

    Attributes: ``vector_env`` (the ``TorchVectorEnv``), ``num_envs`` (rows), ``num_agents``, ``num_worlds``,
    ``single_observation_space``, ``single_action_space``, and ``fault``: the ``WorldFault`` that the last call within
    ``jit`` raised, with the ``mask`` of its worlds and the ``outputs`` of the others, or None.

    ``reset`` and ``step`` return what the vector environment's do, as arrays in the same memory. JAX copies an array
    only where it must: 64-bit numbers without ``jax_enable_x64`` (which it narrows to 32 bits, so that greater integers
    wrap), and memory that is bound at an address that is no multiple of 64 bytes. A step never overwrites an array that
    is held, or that a computation of JAX has yet to read, unless it is bound (``vector_env.bind``).
    """

    _interface = RECORD.interface("JaxEnv")

    def __init__(
        self,
        env: str | Environment | VectorEnv,
        num_envs: int | None = None,
        *,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(env, num_envs, **options)
        self._seed = seed

    @property
    def single_observation_space(self) -> Space:
        """Of a row."""
        return self.vector_env.single_observation_space

    @property
    def single_action_space(self) -> Space:
        """Of a row."""
        return self.vector_env.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """``(observations, infos)``, see ``TorchVectorEnv.reset``; masks and values of ``options`` may be of JAX."""
        if options is not None:
            options = {name: _tensor(value) for name, value in dict(options).items()}
        results = self.vector_env.reset(seed=self._seed if seed is None else seed, options=options)
        self._seed = None
        if not (options or {}).keys() & {"reset_mask"}:
            self._calls.begin()
        return _arrays(results)

    def step(self, actions: Any) -> tuple[Any, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """``(observations, rewards, terminations, truncations, infos)``, see ``TorchVectorEnv.step``.

        Args:
            actions: ``[rows, ...]`` of JAX on the environment's device, which are read without a copy; or a tensor, or
                an array of NumPy.

        Raises TypeError within ``jit``, where ``xla`` steps; TypeError, ValueError and ``WorldFault`` as there.
        """
        actions = _tensor(actions)
        self._calls.note_step()
        return stepped(self.vector_env, actions, lambda *results: _arrays(results))

    def xla(self) -> tuple[jax.Array, Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
        """``(handle, recv, send, step)`` for programs that ``jax.jit`` compiles, as EnvPool's.

        - ``step(handle, actions)`` returns ``(handle, (observations, rewards, terminations, truncations, infos))``;
        - ``send(handle, actions)`` steps and returns the handle; ``recv(handle)`` returns those results afterwards.

        A handle, uint32 ``[]``, is used once: each call needs that of the call before. After a ``reset`` of all worlds
        it is that of an ``xla()`` before any step; after a ``step`` outside that of a new ``xla()``. Programs run on
        one device. Actions are ``[rows, ...]``. Results are copied into XLA's memory.

        While JAX traces, actions of other shapes and dtypes raise TypeError or ValueError, ``jax.vmap`` raises
        NotImplementedError, since rows are the batch, and derivatives raise TypeError: ``jax.lax.stop_gradient`` goes
        around real-valued actions. While a program runs, all errors are ``jax.errors.JaxRuntimeError``, with the
        engine's message, and the handle stays the same.
        """
        step, send, recv = (getattr(self._calls, name) for name in ("step", "send", "recv"))
        return self._calls.handle, recv, send, step

    def render(self) -> Any:
        """As the vector environment does."""
        return self.vector_env.render()


class GymnaxState(NamedTuple):
    """What ``GymnaxEnv`` carries from step to step: the handle, and statistics ``[rows]`` as of PureJaxRL's wrapper."""

    env_state: jax.Array
    episode_returns: jax.Array
    episode_lengths: jax.Array
    returned_episode_returns: jax.Array
    returned_episode_lengths: jax.Array
    timestep: jax.Array
    active: jax.Array


class GymnaxEnv(_Shared):
    """gymnax's functions ``reset`` and ``step`` over all rows at once, for scripts like PureJaxRL's, within ``jit``.

    It takes the place of ``LogWrapper(gymnax.make(...)[0])`` under ``jax.vmap``: calls lose their ``jax.vmap``. The
    state only names the engine's present one, so each is used once; a ``reset`` makes older ones invalid.

    Args: as of ``JaxEnv``, but ``seed``: keys are the seeds. A ``TorchVectorEnv`` needs SAME_STEP.

    Attributes: ``vector_env``, ``num_envs`` (rows), ``num_agents``, ``num_worlds``, ``fault``, as of ``JaxEnv``;
    ``default_params``, None.
    """

    _interface = RECORD.interface("GymnaxEnv")
    default_params = None

    def reset(self, key: jax.Array, params: None = None) -> tuple[Any, GymnaxState]:
        """``(observations, state)`` of new episodes in all worlds.

        Args:
            key: of ``jax.random``, or several, the first of which is the seed of all worlds: its first two numbers.
        """
        handle, (observations, infos) = self._calls.reset(_seed_of(key))
        none, zeros = jnp.zeros(self.num_envs, np.int32), jnp.zeros(self.num_envs, np.float32)
        return observations, GymnaxState(handle, zeros, none, zeros, none, jnp.int32(0), self._active(infos))

    def step(
        self, key: Any, state: GymnaxState, action: Any, params: None = None
    ) -> tuple[Any, GymnaxState, jax.Array, jax.Array, dict[str, Any]]:
        """``(observations, state, reward, done, info)``, whose first dimension is the rows.

        Episodes begin anew in the step that ends them: observations are then the first of the next one. ``info`` has
        the vector environment's infos, ``terminated`` and ``truncated``, and PureJaxRL's ``returned_episode``,
        ``returned_episode_returns``, ``returned_episode_lengths`` and ``timestep``. ``key`` counts for nothing: worlds
        draw by the seed of their reset.
        """
        handle, results = self._calls.step(state.env_state, action)
        observations, reward, terminated, truncated, infos = results
        done = terminated | truncated
        returns = state.episode_returns + jnp.where(state.active, reward, 0)
        lengths = state.episode_lengths + state.active
        ended = done & (lengths > 0)  # an idle row has no episode, and its world may end
        state = GymnaxState(
            handle,
            jnp.where(ended, 0, returns),
            jnp.where(ended, 0, lengths),
            jnp.where(ended, returns, state.returned_episode_returns),
            jnp.where(ended, lengths, state.returned_episode_lengths),
            state.timestep + 1,
            self._active(infos),
        )
        log = {"returned_episode": ended, "terminated": terminated, "truncated": truncated, "timestep": state.timestep}
        log |= {name: getattr(state, name) for name in ("returned_episode_returns", "returned_episode_lengths")}
        return observations, state, reward, done, {**infos, **log}

    def observation_space(self, params: None = None) -> Space:
        """Of a row."""
        return self.vector_env.single_observation_space

    def action_space(self, params: None = None) -> Space:
        """Of a row."""
        return self.vector_env.single_action_space

    def _active(self, infos: Mapping[str, Any]) -> jax.Array:
        return infos["active"] if "active" in infos else jnp.ones(self.num_envs, bool)


# ---- arrays outside of jit -------------------------------------------------------------------------------------------


def _array(tensor: torch.Tensor) -> jax.Array:
    return jax.dlpack.from_dlpack(tensor)


def _arrays(results: Any) -> Any:
    """Tuples and dicts of tensors as such of arrays."""
    if isinstance(results, Mapping):
        return {name: _arrays(part) for name, part in results.items()}
    return tuple(map(_arrays, results)) if isinstance(results, tuple) else _array(results)


def _tensor(value: Any) -> Any:
    """A tensor in the memory of an array of JAX; anything else as it is."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError("step() and reset() are for arrays; within jit take the functions of xla(), or a GymnaxEnv")
    return torch.from_dlpack(value) if isinstance(value, jax.Array) else value


# ---- calls from compiled programs ------------------------------------------------------------------------------------

_numbers = count(1)
_in_programs: dict[int, _Calls] = {}  # which may run at any time, also when nobody else refers to the environment


class _Calls:
    """The engine's side of compiled programs, which name it by its number.

    Args:
        env: what steps.
        noted: whose ``fault`` is set.
    """

    def __init__(self, env: TorchVectorEnv, noted: _Shared) -> None:
        self._env, self._noted = env, weakref.ref(noted)
        self._number, self._programs = next(_numbers), []
        self._made = 0  # the handle that the next call needs
        self._one = threading.Lock()
        self._shape = env.action_space.shape
        self._of_step, self._of_reset = self._shapes()

    def forget(self) -> None:
        """Let programs raise from now on."""
        _in_programs.pop(self._number, None)

    # ---- while JAX traces --------------------------------------------------------------------------------------------

    @property
    def handle(self) -> jax.Array:
        """That the next call needs."""
        return jnp.uint32(self._made)

    def step(self, handle: Any, actions: Any) -> tuple[jax.Array, Any]:
        """A call of ``xla``'s ``step``."""
        actions, dtype = self._checked(actions)
        handle, results = self._call(("step", dtype), (_checked_handle(handle), actions), self._of_step)
        return handle, _completed(results)

    def send(self, handle: Any, actions: Any) -> jax.Array:
        """A call of ``xla``'s ``send``."""
        actions, dtype = self._checked(actions)
        return self._call(("send", dtype), (_checked_handle(handle), actions), ())[0]

    def recv(self, handle: Any) -> tuple[jax.Array, Any]:
        """A call of ``xla``'s ``recv``."""
        handle, results = self._call(("recv", None), (_checked_handle(handle),), self._of_step)
        return handle, _completed(results)

    def reset(self, seed: Any) -> tuple[jax.Array, Any]:
        """New episodes of all worlds, with the seed ``uint32 [2]``."""
        return self._call(("reset", None), (seed,), self._of_reset)

    def _shapes(self) -> tuple[Any, Any]:
        observations, *others, infos = self._env.step_results()
        step = _leafwise(_specification, (observations, *others, dict(infos)))
        return step, _leafwise(_specification, (observations, self._env.infos))

    def _checked(self, actions: Any) -> tuple[jax.Array, np.dtype]:
        """Raises TypeError or ValueError for shapes and dtypes, as an ordinary step does."""
        actions = jnp.asarray(actions)
        if actions.dtype == jnp.bfloat16:  # which NumPy lacks
            actions = actions.astype(jnp.float32)
        dtype = getattr(torch, actions.dtype.name, None)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"actions must be numbers that torch has too, got {actions.dtype.name}")
        self._env.checked_actions(torch.empty(actions.shape, dtype=dtype, device=self._env.device))
        return actions, np.dtype(actions.dtype)

    def _call(self, program: Any, operands: tuple[Any, ...], shapes: Any) -> tuple[jax.Array, Any]:
        self._env.check_open()
        _in_programs[self._number] = self
        if program not in self._programs:
            self._programs.append(program)
        numbers = {"environment": self._number, "call": self._programs.index(program)}
        leaves, structure = jax.tree.flatten((_HANDLE, shapes))
        leaves = [jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)) for leaf in leaves]
        by_xla = partial(_by_xla, tuple(leaves), numbers)
        by_host = partial(_by_host, tuple(leaves), numbers)
        made = _alone(lambda *given: jax.lax.platform_dependent(*given, cpu=by_xla, default=by_host))(*operands)
        return jax.tree.unflatten(structure, made)

    # ---- while a program runs ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Let the handle of the beginning be the next one: a reset was made outside of a program."""
        self._made = 0

    def note_step(self) -> None:
        """A step outside of a program: one that is under way or comes with an older handle raises."""
        self._made = (self._made + 1) % 2**32

    def answer(self, call: int, given: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """Do what a program asks for: read the memory ``given``, and write into that which is ``made``."""
        (kind, dtype), own = self._programs[call], made[1:]
        if not self._one.acquire(blocking=False):
            raise RuntimeError("another program is in a step of this environment; each call needs the handle before")
        try:
            if kind != "reset":
                self._check_handle(int.from_bytes(given[0], "little"))
            if kind == "reset":
                high, low = (int.from_bytes(given[0][place : place + 4], "little") for place in (0, 4))
                results = self._env.reset(seed=high << 32 | low)
            elif kind == "recv":
                self._env.check_open()
                results = self._env.step_results()
            else:
                actions = torch.from_numpy(np.frombuffer(given[1], dtype).reshape(self._shape))
                results = self._step(actions.to(self._env.device))
            self.note_step()
            made[0][:] = self._made.to_bytes(4, "little")
            if own:
                for array, place in zip(_numbers_in(results), own, strict=True):
                    wide = len(place) == array.nbytes
                    dtype = array.dtype if wide else jax.dtypes.canonicalize_dtype(array.dtype)
                    np.copyto(np.frombuffer(place, dtype).reshape(array.shape), array, casting="unsafe")
        finally:
            self._one.release()

    def _step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        noted = self._noted()
        if noted is not None:
            noted.fault = None
        try:
            return self._env.step(actions)
        except WorldFault as fault:
            if noted is not None:
                noted.fault = fault
            raise

    def _check_handle(self, handle: int) -> None:
        if handle != self._made:
            raise ValueError(
                f"this is handle {handle}, and the environment is at {self._made}: each call needs the handle that the "
                "call before returned, once, on one device"
            )


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``jax.vmap`` and derivatives of a call raise errors that name the remedy."""
    batched = jax.custom_batching.custom_vmap(function)

    @batched.def_vmap
    def refuse(size: int, in_batched: Any, *operands: Any) -> Any:
        raise NotImplementedError("jax.vmap cannot batch steps and resets: the rows of the environment are the batch")

    differentiable = jax.custom_jvp(batched)

    @differentiable.defjvp
    def refuse_too(primals: Any, tangents: Any) -> Any:
        raise TypeError("steps have no derivatives: put jax.lax.stop_gradient around actions")

    return differentiable


def _by_xla(leaves: tuple[Any, ...], numbers: Mapping[str, int], *operands: Any) -> Any:
    """In a program for the CPU: a call of C++, with the memory of XLA."""
    _register()
    attributes = {name: np.int64(number) for name, number in numbers.items()}
    return tuple(jax.ffi.ffi_call(_TARGET, leaves, has_side_effect=True)(*operands, **attributes))


def _by_host(leaves: tuple[Any, ...], numbers: Mapping[str, int], *operands: Any) -> Any:
    """In a program for another device: JAX's callback, for which it moves arrays to the host and back."""

    def callback(*operands: Any) -> Any:
        given = tuple(memoryview(bytearray(np.asarray(operand).tobytes())) for operand in operands)
        made = [np.empty(leaf.shape, leaf.dtype) for leaf in leaves]
        places = tuple(memoryview(array.reshape(-1).view(np.uint8)) for array in made)
        error = _called(numbers["environment"], numbers["call"], given, places)
        if error is not None:
            raise RuntimeError(error)
        return tuple(made)

    return tuple(io_callback(callback, leaves, *operands))


def _called(environment: int, call: int, given: tuple[Any, ...], made: tuple[Any, ...]) -> str | None:
    """What compiled programs call: None, or the text of an error."""
    calls = _in_programs.get(environment)
    if calls is None:
        return "ClosedEnvironmentError: the environment of this program is closed; make a new one"
    try:
        calls.answer(call, given, made)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


@cache
def _register() -> None:
    module = load_module("jax_call", Path(jax.ffi.include_dir()))
    jax.ffi.register_ffi_target(_TARGET, module.handler_for(_called), platform="cpu")


def _numbers_in(results: Any) -> Iterator[np.ndarray]:
    """Arrays of tuples and dicts of tensors, in JAX's order; final values as they lie, see ``_completed``."""
    if isinstance(results, tuple):
        for part in results:
            yield from _numbers_in(part)
    elif isinstance(results, dict):
        for _, part in sorted(dict.items(results)):
            yield from _numbers_in(part)
    else:
        yield results.numpy(force=True)  # from CUDA a copy


def _completed(results: Any) -> Any:
    """Results of a step whose final values are each row's last ones: this step's where no episode has ended.

    Outside of ``jit`` the vector environment does so. Within, JAX leaves it out where nobody reads them.
    """
    observations, rewards, terminated, truncated, infos = results
    for name, now in (("final_obs", observations), ("final_info", infos)):
        if name in infos:
            infos = {**infos, name: _where(infos[f"_{name}"], infos[name], now)}
    return observations, rewards, terminated, truncated, infos


def _where(ended: jax.Array, last: Any, now: Any) -> Any:
    if isinstance(last, dict):  # in which an entry without a present value is a mask
        return {key: _where(ended, part, now[key]) if key in now else part for key, part in last.items()}
    return jnp.where(ended.reshape(-1, *[1] * (last.ndim - 1)), last, now)


def _leafwise(function: Callable[[torch.Tensor], Any], results: Any) -> Any:
    """Of tuples and dicts of tensors."""
    if isinstance(results, Mapping):
        return {name: _leafwise(function, part) for name, part in results.items()}
    if isinstance(results, tuple):
        return tuple(_leafwise(function, part) for part in results)
    return function(results)


def _specification(tensor: torch.Tensor) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(tensor.shape), np.dtype(str(tensor.dtype).removeprefix("torch.")))


def _checked_handle(handle: Any) -> Any:
    handle = jnp.asarray(handle)
    if handle.shape != () or handle.dtype != np.uint32:
        raise TypeError(f"a handle is uint32 [], got {handle.dtype.name} {list(handle.shape)}; xla() returns the first")
    return handle


def _seed_of(key: Any) -> jax.Array:
    """The first two numbers of the first key."""
    numbers = jax.random.key_data(key) if jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key) else key
    numbers = jnp.asarray(numbers)
    if numbers.dtype != np.uint32 or numbers.ndim == 0 or numbers.size < 2:
        raise TypeError(f"key must be of jax.random, got {numbers.dtype.name} {list(numbers.shape)}")
    return numbers.reshape(-1)[:2]


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions, outside of ``jit``."""
    env = JaxEnv(environment, num_envs, seed=0, **options)
    env.reset()
    return Played(env, JaxEnv.step, [_array(actions) for actions in random_actions(env.vector_env)])
