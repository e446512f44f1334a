"""Hanabi for on-policy's ``HanabiRunner``: all games in one batch in place of a process for each.

In ``onpolicy/scripts/train/train_hanabi_forward.py`` the imports of ``HanabiEnv`` and of its vector environments go,
and ``make_train_env`` and ``make_eval_env`` become::

    envs = HanabiGames(all_args, all_args.n_rollout_threads, all_args.seed)
    eval_envs = HanabiGames(all_args, all_args.n_eval_rollout_threads, all_args.seed + 1) if all_args.use_eval else None
"""

from argparse import Namespace
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

import torch_batchsim

Shown = tuple[np.ndarray, np.ndarray, np.ndarray]


class HanabiGames:
    """``count`` games as on-policy's ``ChooseSubprocVecEnv`` of ``HanabiEnv`` has them, in float32.

    Args:
        args: on-policy's: ``hanabi_name``, ``num_agents`` and ``use_obs_instead_of_state``, which must be false.
        count: games.
        seed: of the first reset.

    Attributes: ``action_space``, ``observation_space`` and ``share_observation_space``, a list with an entry for each
    player; observations are lists of their length, as on-policy takes them.

    Observations are those of the player whose turn it is, with the turn as one-hot vector behind them; those of the
    critic begin with the player's own hand.
    """

    def __init__(self, args: Namespace, count: int, seed: int) -> None:
        if args.use_obs_instead_of_state:
            raise ValueError("use_obs_instead_of_state needs the observations of all players, which are not made here")
        self.players, self._count, self._seed = args.num_agents, count, seed
        self._env = torch_batchsim.make_vec(
            "hanabi", count, preset=args.hanabi_name, players=args.num_agents, critic=True, obs_dtype="float32",
            autoreset_mode="Disabled", output="numpy",
        )  # fmt: skip
        bits = self._env.single_observation_space.shape[0] + self.players
        own = int(np.prod(self._env.single_critic_space["own_hand"].shape))
        self.action_space = [Discrete(int(self._env.single_action_space.n))] * self.players
        self.observation_space = [[bits]] * self.players
        self.share_observation_space = [[own + bits]] * self.players

    def reset(self, choose: np.ndarray) -> Shown:
        """New games where ``choose`` is true: observations, those of the critic, legal moves ``[games, ...]``.

        The other rows are 0. The first reset must be of all.
        """
        if not self._env.has_begun:
            return self._shown(*self._env.reset(seed=self._seed), np.ones(self._count, bool))
        if not choose.any():
            return self._shown(self._env.observations.numpy(), self._infos(), choose)
        return self._shown(*self._env.reset(options={"reset_mask": choose}), choose)

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Moves ``[games, 1]``, -1 in games that have ended: they stand still, and are done with None.

        Returns observations, those of the critic, rewards ``[games, players, 1]``, dones ``[games]`` (objects), infos
        with the ``score`` and legal moves.
        """
        moves = actions.reshape(self._count).astype(np.int64)
        acts = moves >= 0
        observations, rewards, terminations, truncations, infos = self._env.step(np.maximum(moves, 0))
        obs, share_obs, legal = self._shown(observations, infos, acts)
        dones = np.where(acts, terminations | truncations, None)
        rewards = np.repeat((rewards * acts)[:, None, None], self.players, axis=1)
        scores = infos["score"].reshape(self._count)
        return obs, share_obs, rewards, dones, [{"score": int(score)} for score in scores], legal

    def close(self) -> None:
        """Close all games."""
        self._env.close()

    def _infos(self) -> dict[str, Any]:
        return {name: value.numpy() for name, value in self._env.infos.items()}

    def _shown(self, observations: np.ndarray, infos: dict[str, Any], rows: np.ndarray) -> Shown:
        mover = self._env.sim.tensor("Table.mover").flatten().numpy()
        turn = np.eye(self.players, dtype=np.float32)[mover]
        obs = np.concatenate((observations, turn), axis=1)
        own = infos["own_hand"].reshape(self._count, -1).astype(np.float32)
        shown = obs, np.concatenate((own, obs), axis=1), infos["action_mask"].astype(np.float32)
        return tuple(part * rows[:, None].astype(np.float32) for part in shown)
