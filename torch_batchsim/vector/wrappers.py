"""Wrappers for vector environments that keep everything in torch tensors on the device."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import torch
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from ..base.modes import in_plain_torch, not_compiled
from ..errors import WorldFault
from .vector_env import TorchVectorEnv

_ASSIGNED = ("episode_steps", "render_worlds")  # attributes that TorchVectorEnv lets users assign
_STATISTICS = "episode_statistics"  # in a state_dict
_NOTED = ("ended", "stood", "active")  # there, of the last step


class TorchVectorWrapper(VectorWrapper):
    """A gymnasium ``VectorWrapper`` that passes on whatever its environment has beyond gymnasium's interface.

    So ``env.device``, ``env.sim``, ``env.bind(...)``, ``env.by_world(...)``, ``env.action_mask``, ``env.num_worlds``
    and all the rest of ``TorchVectorEnv`` mean the same with and without the wrapper, and ``episode_steps`` and
    ``render_worlds`` can be assigned. Override ``reset`` and ``step`` in a subclass.
    """

    def __getattr__(self, name: str) -> Any:
        env = self.__dict__.get("env")
        if env is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(env, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ASSIGNED and hasattr(self.__dict__.get("env"), name):
            setattr(self.env, name, value)
        else:
            super().__setattr__(name, value)

    def __len__(self) -> int:
        """Number of rows."""
        return self.num_envs


@not_compiled
class EpisodeStatistics(TorchVectorWrapper):
    """Adds ``infos["episode"] = {"r", "l"}`` (return and length of the episode) and the mask ``infos["_episode"]``.

    As ``gymnasium.wrappers.vector.RecordEpisodeStatistics``, without its clock, but for torch tensors and without ever
    waiting for the device: ``infos`` has the keys in every step, and their rows are valid where the mask is true (zero
    elsewhere). ``episode_returns`` (float32) and ``episode_lengths`` (int32) of shape ``[rows]`` are of the episodes
    under way; ``totals()`` sums the finished ones. With DISABLED a world that stands still after its end counts once.
    ``state_dict()`` has all of these beside the environment's.

    An agent's episode goes to its own end, or to its world's. Rows count only while ``infos["active"]`` (if there is
    such) is true: an agent that has left does not end once more with its world, and one that was never there has no
    episode.
    """

    @in_plain_torch
    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        if getattr(env.unwrapped, "output", "torch") != "torch":
            raise TypeError(
                "EpisodeStatistics needs output='torch', got an environment with output='numpy'; "
                "gymnasium.wrappers.vector.RecordEpisodeStatistics does the same for numpy arrays"
            )
        device = getattr(env.unwrapped, "device", torch.device("cpu"))
        self._autoreset_mode = env.metadata["autoreset_mode"]
        self.episode_returns = torch.zeros(self.num_envs, device=device)
        self.episode_lengths = torch.zeros(self.num_envs, dtype=torch.int32, device=device)
        self._ended = torch.zeros(self.num_envs, dtype=torch.bool, device=device)  # rows, in the last step
        self._stood = torch.zeros_like(self._ended)  # rows of worlds that had ended after the last step
        self._active: torch.Tensor | None = None  # before the next step
        self._totals = torch.zeros(3, dtype=torch.float64, device=device)

    def __setattr__(self, name: str, value: Any) -> None:
        own = getattr(self.__dict__.get("env"), "unwrapped", None)
        if isinstance(own, TorchVectorEnv):
            own.check_attribute(name, value)
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """The environment, and the statistics as bytes."""
        own = {name: value for name, value in self.__dict__.items() if isinstance(value, torch.Tensor)}
        others = {name: value for name, value in self.__dict__.items() if name not in own}
        return {**others, _STATISTICS: pickle.dumps(own)}

    @in_plain_torch
    def __setstate__(self, state: dict[str, Any]) -> None:
        statistics = pickle.loads(state[_STATISTICS])
        self.__dict__.update({**{name: value for name, value in state.items() if name != _STATISTICS}, **statistics})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and the statistics of the rows that it resets."""
        result = self.env.reset(seed=seed, options=options)
        self._forget(options)
        self._note_active(result[1])
        return result

    @in_plain_torch
    def _forget(self, options: dict[str, Any] | None) -> None:
        mask = (options or {}).get("reset_mask")
        if mask is None:
            fresh = torch.ones_like(self._ended)
        else:
            mask = torch.as_tensor(mask, device=self._ended.device)
            fresh = mask.repeat_interleave(self.num_envs // mask.numel())
        for tensor in (self.episode_returns, self.episode_lengths, self._ended, self._stood):
            tensor.masked_fill_(fresh, 0)

    def step(self, actions: Any) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Step the environment and add the statistics of the episodes that end with this step."""
        try:
            return self._count(*self.env.step(actions))
        except WorldFault as fault:
            if fault.outputs is not None:  # the worlds have stepped all the same
                fault.outputs = self._count(*fault.outputs)
            raise

    @in_plain_torch
    def _count(
        self,
        observations: Any,
        rewards: torch.Tensor,
        terminations: torch.Tensor,
        truncations: torch.Tensor,
        infos: dict[str, Any],
    ) -> tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        if "episode" in infos:
            raise ValueError("infos has an 'episode' already; is the environment wrapped twice?")
        ended, counted = terminations | truncations, self._active
        if self._autoreset_mode is not AutoresetMode.SAME_STEP:
            # The step after a world's end begins a new episode (NEXT_STEP) or changes nothing (DISABLED); it counts for
            # none.
            self._begin_episodes(self._ended)
            counted = ~self._stood if counted is None else counted & ~self._stood
            self._ended, self._stood = ended, self._rows_of_ended_worlds(ended)
        if counted is None:
            self.episode_returns += rewards
            self.episode_lengths += 1
        else:
            self.episode_returns += torch.where(counted, rewards, 0)
            self.episode_lengths += counted
            ended = ended & (self.episode_lengths > 0)
        returns = torch.where(ended, self.episode_returns, 0)
        lengths = torch.where(ended, self.episode_lengths, 0)
        infos["episode"], infos["_episode"] = {"r": returns, "l": lengths}, ended.clone()
        sums = torch.stack((returns.sum(dtype=torch.float64), lengths.sum().double(), ended.sum().double()))
        self._totals += sums
        if self._autoreset_mode is AutoresetMode.SAME_STEP:
            self._begin_episodes(ended)
        self._note_active(infos)
        return observations, rewards, terminations, truncations, infos

    def _begin_episodes(self, rows: torch.Tensor) -> None:
        self.episode_returns.masked_fill_(rows, 0)
        self.episode_lengths.masked_fill_(rows, 0)

    def _note_active(self, infos: dict[str, Any]) -> None:
        """A copy, because the next step overwrites it."""
        self._active = _cloned(infos.get("active"))

    def _rows_of_ended_worlds(self, ended: torch.Tensor) -> torch.Tensor:
        """``ended``, but for agents that have ended while their worlds go on."""
        own = self.env.unwrapped
        if not isinstance(own, TorchVectorEnv) or own.sim.program.agent_end is None:
            return ended
        return own.ended_worlds().repeat_interleave(own.num_agents)

    def state_dict(self) -> dict[str, Any]:
        """The environment's, and the statistics as ``"episode_statistics"``; the bare environment loads it too."""
        return {**self.env.state_dict(), _STATISTICS: self._counts()}

    @in_plain_torch
    def _counts(self) -> dict[str, torch.Tensor | None]:
        noted = dict(zip(_NOTED, (self._ended, self._stood, self._active), strict=True))
        counts = {"returns": self.episode_returns, "lengths": self.episode_lengths, "totals": self._totals, **noted}
        return {name: _cloned(tensor) for name, tensor in counts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore ``state_dict``; of a state without statistics the episodes under way count from 0 on.

        Raises CheckpointError, with nothing changed, if it is not of such an environment.
        """
        self.env.load_state_dict(state)
        self._load(state.get(_STATISTICS))

    @in_plain_torch
    def _load(self, kept: Mapping[str, Any] | None) -> None:
        if kept is None:
            self._begin_episodes(torch.ones_like(self._ended))
            own = self.env.unwrapped
            self._ended = own.ended_worlds().repeat_interleave(own.num_agents)
            self._stood, self._active = self._ended, _cloned(own.active)
        else:
            self.episode_returns.copy_(kept["returns"])
            self.episode_lengths.copy_(kept["lengths"])
            self._totals.copy_(kept["totals"])
            device = self._totals.device
            self._ended, self._stood, self._active = (_cloned(kept[name], device) for name in _NOTED)

    @in_plain_torch
    def totals(self, *, clear: bool = True) -> tuple[float, float, int]:
        """``(mean return, mean length, number)`` of the episodes finished since the last call. Waits for the device.

        Each call starts anew: two in a row give ``(nan, nan, 0)`` the second time. Nothing else does: a ``reset`` drops
        the episodes under way, and keeps what is finished; a copy goes on from the same sums.

        Args:
            clear: False leaves the sums as they are for the next call.
        """
        returns, lengths, count = self._totals.tolist()
        if clear:
            self._totals.zero_()
        return (returns / count, lengths / count, int(count)) if count else (float("nan"), float("nan"), 0)


def _cloned(tensor: torch.Tensor | None, device: torch.device | None = None) -> torch.Tensor | None:
    return None if tensor is None else tensor.to(device or tensor.device, copy=True)
