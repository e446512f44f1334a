"""Compares an environment with another implementation of it step by step, such as its original in NumPy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from ..memory.inputs import checked_count
from ..run.legal import batches_of_actions
from ..run.simulator import Simulator
from ..run.world_state import WorldState
from .differences import Arrays, Comparison, Difference, Mismatch

Actions = Sequence[Any] | Callable[[Any, dict[str, Any]], Any]
PutState = Callable[[Any, int, WorldState], None]
_DRAWN = 64  # batches of random actions at a time
_HISTORY = 3  # steps in a message


def compare(
    env: VectorEnv,
    reference_env: VectorEnv | gymnasium.Env,
    *,
    steps: int = 1000,
    seed: int = 0,
    actions: Actions | None = None,
    state: PutState | None = None,
    before_each_step: bool = False,
    infos: Sequence[str] = (),
    ignore: Sequence[str] = (),
    atol: float = 1e-5,
    rtol: float = 1e-5,
    tolerances: Mapping[str, float] | None = None,
) -> Comparison:
    """Step both by the same actions, and compare observations, rewards and flags until something differs.

    Args:
        env: of ``gymnasium.make_vec``, wrapped or not.
        reference_env: a vector environment with as many rows and the same autoreset mode
            (``metadata["autoreset_mode"]``), or, where ``env`` has one row, a single environment, which is then reset
            as ``env`` resets itself.
        steps: their number; ``actions`` may end earlier.
        seed: of the first reset, given to both.
        actions: a sequence of batches ``[rows, ...]``; or a function of the observations and infos that ``env`` has
            returned last, which returns one. By default random legal ones.
        state: called as ``state(reference_env, world, values)``; puts the state of a world of ``env`` into the
            reference, where an episode has begun. The first observations of an episode are not compared then. Without
            it episodes must begin alike.
        before_each_step: call ``state`` for all worlds before each step, so that differences do not grow.
        infos: names of infos to compare, which both have.
        ignore: names that are not compared, as in ``Difference.name``; that of an observation also means the final one.
        atol, rtol: two numbers agree where ``|found - expected| <= atol + rtol * |expected|``, if one is floating;
            others must be equal. NaN equals NaN.
        tolerances: ``atol`` by name in place of the two, with an ``rtol`` of 0; for integers too.

    Rows that were inactive before a step are not compared. Returns a summary. Raises ``Mismatch``, an
    AssertionError, with the first difference; TypeError or ValueError where the two do not fit together.
    """
    if before_each_step and state is None:
        raise ValueError("before_each_step needs state, which puts the state of a world into the reference")
    _check_arguments(state, infos, ignore, {"atol": atol, "rtol": rtol}, tolerances)
    steps = checked_count(steps, "steps")
    if actions is not None and not callable(actions):
        steps = min(steps, checked_count(len(actions), "the number of actions"))
    sides = _Sides(env, reference_env)
    check = _Check(sides, tuple(infos), tuple(ignore), (atol, rtol), dict(tolerances or {}))
    batches = _batches(sides.own, actions, seed)
    shown = sides.reset(seed)
    begun = np.ones(sides.worlds, bool)
    check.beginning(shown, begun, compared=state is None)
    sides.put(state, begun)
    for _ in range(steps):
        batch = next(batches)(*shown.ours)
        if before_each_step:
            sides.put(state, ~sides.waiting)
        shown = sides.step(batch)
        check.outcome(_array(batch), shown)
        begun, shown = sides.begin(shown)
        check.beginning(shown, begun, compared=state is None)
        sides.put(state, begun)
    return check.summary()


def _check_arguments(
    state: Any, infos: Any, ignore: Any, tolerances: Mapping[str, Any], by_name: Mapping[str, Any] | None
) -> None:
    """Raise TypeError or ValueError for wrong arguments, before the first step."""
    if state is not None and not callable(state):
        raise TypeError(f"state must be a function of (reference_env, world, values), got {state!r}")
    for what, names in (("infos", infos), ("ignore", ignore)):
        if isinstance(names, str):
            raise TypeError(f"{what} must be a sequence of names, got {names!r}; write ({names!r},)")
    if by_name is not None and not isinstance(by_name, Mapping):
        raise TypeError(f"tolerances must be a dict of numbers by name, got {by_name!r}")
    for what, value in (*tolerances.items(), *((f"tolerances[{name!r}]", v) for name, v in (by_name or {}).items())):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value < np.inf:
            raise ValueError(f"{what} must be a finite number from 0 on, got {value!r}")


class _Shown(NamedTuple):
    """The results of both: observations and infos, and rewards and flags of a step."""

    ours: tuple[Any, dict[str, Any]]
    theirs: tuple[Any, dict[str, Any]]
    our_outcome: Arrays = {}
    their_outcome: Arrays = {}


class _Checked(gymnasium.Wrapper):
    """Raises ValueError for observations whose shapes differ from the space's, by which SyncVectorEnv copies."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        return self._checked(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, *results = self.env.step(action)
        return self._checked(observation), *results

    def _checked(self, observation: Any) -> Any:
        shown = _named("observation", observation)
        for name, shape in _shapes("observation", self.observation_space).items():
            if name not in shown or (shape is not None and shown[name].shape != shape):
                found = f"shape {list(shown[name].shape)}" if name in shown else "nothing"
                raise ValueError(
                    f"reference_env returns {found} as {name}, and its observation_space has shape {list(shape or ())}"
                )
        return observation


class _Sides:
    """The two, in step.

    Attributes: ``own``, the unwrapped environment; ``mode``, of both; ``waiting``, bool ``[worlds]``: the worlds that
    the next step resets (NEXT_STEP).
    """

    def __init__(self, env: VectorEnv, reference: VectorEnv | gymnasium.Env) -> None:
        self.env, self.own, self._given = env, getattr(env, "unwrapped", env), reference
        if not isinstance(getattr(self.own, "sim", None), Simulator) or not isinstance(env, VectorEnv):
            raise TypeError(f"env must be a vector environment of torch_batchsim, got {env!r}")
        self.mode: AutoresetMode = self.own.autoreset_mode
        self.worlds, self.agents = self.own.num_worlds, self.own.num_agents
        self.waiting = np.zeros(self.worlds, bool)
        self._reference = reference if isinstance(reference, VectorEnv) else self._of_one(reference)
        mode = self._reference.metadata.get("autoreset_mode")
        if self._reference.num_envs != env.num_envs:
            raise ValueError(f"reference_env has {self._reference.num_envs} rows, env has {env.num_envs}")
        if mode != self.mode:
            raise ValueError(
                f"env resets itself with {self.mode.name}, reference_env with {getattr(mode, 'name', mode)} "
                "(metadata['autoreset_mode']); make env with the same autoreset_mode"
            )

    def _of_one(self, reference: gymnasium.Env) -> VectorEnv:
        if not isinstance(reference, gymnasium.Env):
            raise TypeError(
                f"reference_env must be a gymnasium environment, a vector or a single one, got {reference!r}"
            )
        if self.env.num_envs != 1:
            raise ValueError(
                f"a single reference_env has one row, env has {self.env.num_envs}; give a vector environment"
            )
        return SyncVectorEnv([lambda: _Checked(reference)], autoreset_mode=self.mode)

    def reset(self, seed: int) -> _Shown:
        return _Shown(self.env.reset(seed=seed), self._reference.reset(seed=seed))

    def step(self, batch: Any) -> _Shown:
        space = getattr(self._reference, "action_space", None)
        ours = self.env.step(batch)
        actions = _array(batch)
        theirs = self._reference.step(actions.astype(getattr(space, "dtype", None) or actions.dtype))
        outcomes = [
            {"termination": _array(terminations), "truncation": _array(truncations), "reward": _array(rewards)}
            for _, rewards, terminations, truncations, _ in (ours, theirs)
        ]
        return _Shown((ours[0], ours[4]), (theirs[0], theirs[4]), *outcomes)

    def ended(self) -> np.ndarray:
        """Worlds whose episode the last step has ended: bool ``[worlds]``."""
        return _array(self.own.ended_worlds())

    def begin(self, shown: _Shown) -> tuple[np.ndarray, _Shown]:
        """The worlds that have begun an episode since the last step, and the results with their first observations."""
        ended = self.ended()
        if self.mode is AutoresetMode.NEXT_STEP:
            begun, self.waiting = self.waiting, ended
            return begun, shown
        if self.mode is AutoresetMode.DISABLED and ended.any():
            mask = ended.repeat(self.agents)
            shown = _Shown(*(side.reset(options={"reset_mask": mask.copy()}) for side in (self.env, self._reference)))
        return ended, shown

    def put(self, state: PutState | None, worlds: np.ndarray) -> None:
        """Put our state of these worlds, bool ``[worlds]``, into the reference."""
        if state is not None:
            for world in np.flatnonzero(worlds).tolist():
                state(self._given, world, WorldState(self.own.sim, world))


class _Check:
    """Compares the results of the two sides, and counts."""

    def __init__(
        self,
        sides: _Sides,
        infos: tuple[str, ...],
        ignore: tuple[str, ...],
        tolerance: tuple[float, float],
        tolerances: dict[str, float],
    ) -> None:
        self._sides, self._infos, self._ignore = sides, infos, frozenset(ignore)
        _check_names(sides.own.single_observation_space, infos, (*ignore, *tolerances))
        self._tolerance, self._tolerances = tolerance, tolerances
        self._step = self._episodes = 0
        self._episode_step = np.zeros(sides.worlds, int)
        self._seen: Arrays = {}  # observations before the step
        self._active = np.ones(sides.worlds * sides.agents, bool)
        self._action: np.ndarray | None = None
        self._before: deque[tuple[int, np.ndarray, np.ndarray]] = deque(maxlen=_HISTORY)
        self._largest: dict[str, float] = {}
        self._found: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}

    def outcome(self, batch: np.ndarray, shown: _Shown) -> None:
        """Compare the results of a step."""
        self._step, self._action = self._step + 1, batch
        self._episode_step += ~self._sides.waiting
        self._before.append((self._step, batch, shown.our_outcome["reward"]))
        rows = np.flatnonzero(self._active)
        for name in ("termination", "truncation"):
            self._compare(name, shown.their_outcome[name], shown.our_outcome[name], rows)
        self._raise()
        self._compare("reward", shown.their_outcome["reward"], shown.our_outcome["reward"], rows)
        begun = self._sides.waiting.repeat(self._sides.agents)
        if self._sides.mode is AutoresetMode.SAME_STEP:
            begun = begun | self._sides.ended().repeat(self._sides.agents)
            self._finals(shown)
        self._observed(shown, np.flatnonzero(self._active & ~begun))
        self._raise()

    def beginning(self, shown: _Shown, worlds: np.ndarray, *, compared: bool) -> None:
        """Compare the first observations of ``worlds``, bool ``[worlds]``, and keep those of all."""
        self._episodes += int(worlds.sum()) if self._step else 0
        self._episode_step[worlds] = 0
        if "active" in shown.ours[1]:
            self._active = _array(shown.ours[1]["active"])
        if compared and worlds.any():
            self._observed(shown, np.flatnonzero(worlds.repeat(self._sides.agents) & self._active))
            self._raise("episodes begin differently: state=... puts the state of env into reference_env")
        elif self._step == 0:
            self._observed(shown, np.zeros(0, int))  # names and shapes
        self._seen = {**self._seen, **_named("observation", shown.ours[0])}

    def summary(self) -> Comparison:
        return Comparison(self._step, len(self._active), self._episodes, self._largest)

    def _observed(self, shown: _Shown, rows: np.ndarray) -> None:
        ours, theirs = (_named("observation", side[0]) for side in (shown.ours, shown.theirs))
        _check_parts(ours, theirs)
        for name, found in ours.items():
            self._compare(name, theirs[name], found, rows)
        for name in self._infos:
            found, expected = (_array(_given(side[1], name)) for side in (shown.ours, shown.theirs))
            there = shown.theirs[1].get(f"_{name}", np.ones(len(expected), bool))
            self._compare(f"info.{name}", expected, found, rows[there[rows]])

    def _finals(self, shown: _Shown) -> None:
        """Compare final observations (SAME_STEP)."""
        flags = shown.our_outcome["termination"] | shown.our_outcome["truncation"]
        rows = np.flatnonzero(flags & self._active)
        if len(rows) and not {"final_observation", "observation"} & self._ignore:
            ours, theirs = (_named("final_observation", _given(side[1], "final_obs"), rows) for side in shown[:2])
            _check_parts(ours, theirs)
            for name, found in ours.items():
                self._compare(name, theirs[name], found, rows, packed=True)

    def _compare(
        self, name: str, expected: np.ndarray, found: np.ndarray, rows: np.ndarray, *, packed: bool = False
    ) -> None:
        """Record where these rows differ; ``packed`` arrays hold only these rows."""
        of_steps = name.removeprefix("final_")
        if {name, of_steps} & self._ignore:
            return
        for side, array in (("env", found), ("reference_env", expected)):
            if array.dtype.kind not in "biuf":
                raise TypeError(f"{name} must be an array of numbers or bools, got dtype {array.dtype} in {side}")
        if expected.shape != found.shape:
            raise ValueError(f"{name} has shape {list(found.shape)} in env, {list(expected.shape)} in reference_env")
        if not packed:
            expected, found = expected[rows], found[rows]
        wrong = expected != found
        own = self._tolerances.get(name, self._tolerances.get(of_steps))
        if own is not None or "f" in expected.dtype.kind + found.dtype.kind:
            atol, rtol = self._tolerance if own is None else (own, 0.0)
            wrong = ~np.isclose(found, expected, rtol, atol, equal_nan=True)
        if found.size and found.dtype.kind != "b":
            with np.errstate(invalid="ignore"):
                differences = np.abs(found.astype(float) - expected.astype(float))
            largest = float(np.max(differences, initial=0.0, where=np.isfinite(differences)))
            self._largest[name] = max(self._largest.get(name, 0.0), largest)
        if wrong.any():
            self._found[name] = rows, expected, found, wrong

    def _raise(self, hint: str = "") -> None:
        """Raise Mismatch if the comparisons since the last call have found differences."""
        if not self._found:
            return
        name, (rows, expected, found, wrong) = next(iter(self._found.items()))
        place = tuple(np.argwhere(wrong)[0].tolist())
        row = int(rows[place[0]])
        if expected.dtype.kind != found.dtype.kind:
            dtypes = f"{name} has dtype {found.dtype} in env, {expected.dtype} in reference_env"
            hint = f"{dtypes}; {hint}" if hint else dtypes
        world, agent = divmod(row, self._sides.agents)
        raise Mismatch(
            Difference(
                name=name,
                step=self._step,
                episode_step=int(self._episode_step[world]),
                world=world,
                agent=agent if self._sides.agents > 1 else None,
                row=row,
                element=place[1:],
                expected=expected[place].item(),
                found=found[place].item(),
                action=None if self._action is None else self._action[row].tolist(),
                seen={name: rows[row] for name, rows in self._seen.items()},
                others={n: len(np.unique(np.argwhere(w)[:, 0])) for n, (_, _, _, w) in self._found.items()},
                before=tuple(
                    f"step {step}: action {actions[row].tolist()}, reward {rewards[row]:g}"
                    for step, actions, rewards in list(self._before)[:-1]
                ),
                hint=hint,
            )
        )


def _batches(own: Any, actions: Actions | None, seed: int) -> Iterator[Callable[[Any, dict[str, Any]], Any]]:
    """A function of ``env``'s last observations and infos that returns the actions, for each step."""
    if callable(actions):
        while True:
            yield actions
    if actions is not None:
        for batch in actions:
            yield lambda *_, batch=batch: batch
        return
    mask = None if own.action_mask is None else lambda: own.action_mask
    for drawn in count():
        batches = batches_of_actions(
            own.single_action_space, own.num_envs, _DRAWN, mask=mask, device=own.device, seed=seed + drawn
        )
        yield from (lambda *_, i=i, batches=batches: batches[i] for i in range(_DRAWN))


def _check_names(space: gymnasium.Space, infos: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError for names that are not compared."""
    observations = [f"observation.{key}" for key in space] if isinstance(space, gymnasium.spaces.Dict) else []
    seen = [f"{final}{name}" for name in ("observation", *observations) for final in ("", "final_")]
    known = ["reward", "termination", "truncation", *seen, *(f"info.{name}" for name in infos)]
    for name in names:
        if name not in known:
            raise ValueError(f"names that are compared are {', '.join(known)}, got {name!r}")


def _check_parts(ours: Arrays, theirs: Arrays) -> None:
    """Raise ValueError where the names of the two sides' arrays differ."""
    if ours.keys() != theirs.keys():
        one, other = (", ".join(sorted(set(a) - set(b))) or "nothing more" for a, b in ((ours, theirs), (theirs, ours)))
        raise ValueError(f"observations have other parts: only env has {one}, only reference_env {other}")


def _shapes(name: str, space: gymnasium.Space) -> dict[str, tuple[int, ...] | None]:
    """The shapes of observations, by name as ``_named`` gives them; None where the space has no shape."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: shape for part in space for key, shape in _shapes(f"{name}.{part}", space[part]).items()}
    return {name: space.shape}


def _array(value: Any) -> np.ndarray:
    """A copy. Raises TypeError for values that are no array."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    try:
        return np.array(value)
    except ValueError:
        raise TypeError(f"reference_env returns {type(value).__name__} with parts of several shapes") from None


def _named(name: str, value: Any, rows: np.ndarray | None = None) -> Arrays:
    """An observation's arrays by name ``observation.key``, of all rows or of ``rows``."""
    if isinstance(value, np.ndarray) and value.dtype == object and rows is not None:  # gymnasium's final_obs
        parts = [_named(name, value[row]) for row in rows]
        return {key: np.stack([part[key] for part in parts]) for key in parts[0]}
    if isinstance(value, Mapping):
        return {key: array for part in value for key, array in _named(f"{name}.{part}", value[part], rows).items()}
    array = _array(value)
    return {name: array if rows is None else array[rows]}


def _given(infos: Mapping[str, Any], name: str) -> Any:
    if name not in infos:
        raise ValueError(f"info {name!r} is missing on one side, which has {', '.join(map(str, infos)) or 'no infos'}")
    return infos[name]
