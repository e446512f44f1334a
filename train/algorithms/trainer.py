"""A training: rollouts of an environment, and the updates behind each.

The simulator writes observations, rewards and ends of episodes straight into the slots of the rollout storage
(`env.bind_slots`), so that a step copies nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from torch_batchsim.base.modes import in_training_modes

from ..base.config import Config
from ..base.kernels import matmul_precision
from ..base.ranks import ALONE, Ranks, joined_state, part_of_state, to_cpu
from ..policies.networks import ActorCritic, Player
from ..rollouts import captured
from ..rollouts.acting import Acting, Agents, acting, rows_of_teams
from ..rollouts.annealing import Annealing
from ..rollouts.clock import Clock
from ..rollouts.environment import critic_space_of, num_agents, require_parts, require_trainable
from ..rollouts.episodes import Episodes
from ..rollouts.finite import FiniteCheck
from ..rollouts.league import League
from ..rollouts.rollout import Storage, map_leaves
from . import learner_of
from .learner import Learner

LOSSES = ("losses/policy_loss", "losses/value_loss", "losses/entropy")
"""Metrics of updates that must be finite."""


@dataclass
class Group:
    """A policy that learns from the rows that it acts for."""

    acting: Acting
    learner: Learner

    @property
    def agent(self) -> ActorCritic:
        return self.acting.player.agent

    @property
    def player(self) -> Player:
        return self.acting.player

    @property
    def suffix(self) -> str:
        """The suffix of the names of its metrics."""
        return "" if self.acting.team is None else f"/team_{self.acting.team}"

    def estimate(self, storage: Storage) -> Any:
        """The batch of its part of a rollout."""
        return self.learner.estimate(storage.of(self.acting.rows), self.player.before)

    def note(self, storage: Storage) -> None:
        """Behind the updates: adds the observations to the moments that normalise the next ones."""
        if self.agent.observations is not None:
            seen = storage.of(self.acting.rows)
            both = seen.obs, seen.critic_obs
            shown = (None if each is None else map_leaves(lambda leaf: leaf[:-1], each) for each in both)
            self.agent.note(*shown, seen.acted, self.learner.ranks)

    def forget(self) -> None:
        """Before new episodes in all worlds."""
        self.player.forget()
        self.learner.forget()

    def state_dict(self) -> dict[str, Any]:
        """All that its next iteration depends on, but for the generator."""
        return {"team": self.acting.team, "hidden": self.player.hidden, **self.learner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.player.hidden = state["hidden"].to(self.player.hidden.device, copy=True)
        self.learner.load_state_dict(state)


class Trainer:
    """Trains by one algorithm on one vector environment; `iterate()` is one rollout and its updates.

    With several processes (`ranks`) each has a Trainer with its part of the worlds; `config` and metrics count the rows
    and worlds of all. All call the same methods, in the same order.

    Nothing in an iteration waits for the device (except, if set, for `target_kl`): metrics are tensors that
    the caller reads when it likes.

    Raises ValueError for settings that do not fit the environment.
    """

    @in_training_modes
    def __init__(self, env: VectorEnv, config: Config, ranks: Ranks = ALONE) -> None:
        require_trainable(env)
        learner_of(config.algorithm)
        require_parts(env, config, ranks)
        if config.capture_rollouts:
            captured.require(env, config, env.device)
        self.ranks = ranks
        self.batch_size = config.num_steps * env.num_envs * ranks.count
        if config.total_steps < self.batch_size:
            raise ValueError(f"total_steps is {config.total_steps}, but one rollout has {self.batch_size}")
        self.env, self.config, self.device = env, config, env.device
        self.num_iterations = config.total_steps // self.batch_size
        self.iteration = 0

        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        first = self._actor_critic(config)
        obs, infos = env.reset(seed=config.seed)
        agents: Agents = first
        if config.policies == "teams":
            seeds = enumerate(rows_of_teams(infos.get("team")), start=config.seed)
            agents = {team: self._actor_critic(replace(config, seed=seed)) for seed, team in seeds}
        everyone = acting(agents, env.num_envs, infos.get("team"))
        self.league = None
        if config.past_share:
            self.league = League(everyone, infos.get("team"), num_agents(env), config)
            pairs = zip(everyone, self.league.own, strict=True)
            everyone = [Acting(each.team, rows, Player(each.agent, len(rows))) for each, rows in pairs]
        self.groups = [self._group(each) for each in everyone]
        if not ranks.same([(each.team, None if each.rows is None else each.rows.tolist()) for each in everyone]):
            raise ValueError(f"the worlds of the {ranks.count} processes have different teams, but must have the same")
        critic_obs = {name: infos[name] for name in critic_space_of(env)} if config.central_critic else None
        for each in everyone:
            shown = (None if part is None else map_leaves(each.part, part) for part in (obs, critic_obs))
            each.agent.note(*shown, each.part(infos.get("active")), ranks)
        restricted = infos.get("action_mask"), infos.get("active")
        actions = first.policy.empty_actions(env.num_envs)
        self.storage = Storage(config.num_steps, obs, actions, *restricted, critic_obs)
        env.bind_slots(**self.storage.slots)
        self.episodes, self.annealing = Episodes(env, ranks), Annealing(env, config)
        self.finite = FiniteCheck(env, num_agents(env), ranks.rank * env.num_envs // num_agents(env))
        self.clock = Clock(self.device)
        self.captured = captured.CapturedRollout(self.rollout, self.generator) if config.capture_rollouts else None

    def _actor_critic(self, config: Config) -> ActorCritic:
        spaces = self.env.single_observation_space, self.env.single_action_space
        return ActorCritic(*spaces, config, self.device, critic_space_of(self.env))

    def _group(self, each: Acting) -> Group:
        """A learner for the rows of a policy."""
        rows, kind = self.env.num_envs if each.rows is None else len(each.rows), learner_of(self.config.algorithm)
        kind.require_fit(self.config, rows * self.ranks.count, each.team)
        return Group(each, kind(each.agent, rows, self.config, self.generator, self.ranks))

    @property
    def global_step(self) -> int:
        """Steps taken so far, all rows together."""
        return self.iteration * self.batch_size

    @in_training_modes
    def iterate(self) -> dict[str, Tensor]:
        """One training iteration; returns metrics under CleanRL's names, each a float32 tensor `[]`.

        Raises NotFinite where something to learn from is NaN or infinite, and NoLegalAction where a mask allows a row
        nothing: on CPU before anything is learned from it, elsewhere when `check_finite` is called.
        """
        self.clock.begin()
        remaining = 1 - self.iteration / self.num_iterations
        for group in self.groups:
            group.learner.begin(remaining)
        self.annealing.begin(self.iteration, self.num_iterations)
        if self.league is not None:
            self.league.begin(self.iteration, [group.agent for group in self.groups])
        with matmul_precision(self.config.matmul_precision):
            with self.ranks.together():
                self.checked_rollout()
            metrics = self.episodes.statistics(self.storage)
            for group in self.groups:
                metrics |= self.learned(group)
        self.check_finite(wait=False)
        self.clock.lap("update")
        metrics |= self.clock.shares()
        metrics["charts/learning_rate"] = torch.tensor(self.groups[0].learner.optimizer.param_groups[0]["lr"])
        self.iteration += 1
        return metrics

    def learned(self, group: Group) -> dict[str, Tensor]:
        """The metrics of a group's updates."""
        batch, learner = group.estimate(self.storage), group.learner
        metrics = learner.update(batch)
        group.note(self.storage)
        losses = {name.removeprefix("losses/"): metrics[name] for name in LOSSES if name in metrics}
        learned_from = batch.inputs, batch.returns
        self.finite.look_at_update(self.iteration + 1, learner.parameters, learner.agent, losses, learned_from)
        return {f"{name}{group.suffix}": value for name, value in metrics.items()}

    def check_finite(self, wait: bool = True) -> None:
        """Raises NotFinite for the first observation, reward, loss or parameter that is not finite, and WorldFault for
        faults in captured rollouts. Waits for the device; without `wait` it only looks on the CPU.
        """
        if wait or self.device.type == "cpu":
            self.finite.raise_found()
        if wait and self.config.capture_rollouts:  # else steps raise them
            self.env.check_faults()

    def checked_rollout(self) -> None:
        """A rollout; raises NotFinite, where that costs no time. A policy that sees NaN may return actions that are
        refused: the cause comes first."""
        storage = self.storage
        try:
            if self.captured is None:
                self.rollout()
            else:
                self.captured()
                self.clock.lap("simulation")  # and policy: a graph is timed as a whole
        finally:
            self.finite.look_at_rollout(self.iteration + 1, storage)
            self.check_finite(wait=False)

    @torch.no_grad()
    def rollout(self) -> None:
        """Acts for T steps; the environment fills the storage."""
        storage, everyone = self.storage, [group.acting for group in self.groups]
        everyone += [] if self.league is None else self.league.acting
        policy = everyone[0].agent.policy
        shown = {} if storage.critic_obs is None else self.env.infos
        storage.begin(self.env.observations, self.env.action_mask, self.env.active, shown)
        drawers = []
        for each in everyone:  # noise of the rows of all processes, so that it does not depend on how many these are
            rows = self.env.num_envs if each.rows is None else len(each.rows)
            of_all = policy.noise((storage.num_steps, rows * self.ranks.count), self.generator)
            drawers.append(each.drawer(storage, self.ranks.part(of_all, 1)))
        lap = self.clock.lap
        self.episodes.begin()
        for t, actions in enumerate(storage.actions.unbind()):
            for draw in drawers:
                draw(t)
            self.env.select_slot(t)
            given = policy.to_env(actions)
            lap("policy")
            *_, infos = self.env.step(given)
            storage.note_ends(t, infos)
            lap("simulation")
            if self.config.memory != "none":
                for each in everyone:
                    each.ended(storage.terminations[t] | storage.truncations[t])
            self.episodes.note(infos, None if storage.active is None else storage.active[t])

    @property
    def agents(self) -> Agents:
        """The policy, or those of the teams by their numbers, for `evaluate`."""
        if self.config.policies == "shared":
            return self.groups[0].agent
        return {group.acting.team: group.agent for group in self.groups}

    # ---- stopping and going on ----

    @in_training_modes
    def begin_new_episodes(self) -> None:
        """After a rollout that a fault cut short: gives up the running episodes, so that the next one can begin."""
        self.env.reset()
        for each in (self.episodes, *self.groups, *([] if self.league is None else [self.league])):
            each.forget()

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on: tensors, numbers and strings, nothing else.

        Of several processes the first gets the state of all worlds, as one process would have it; the others get their
        own.
        """
        state = {
            "config": asdict(self.config),
            "iteration": self.iteration,
            "groups": [group.state_dict() for group in self.groups],
            "league": {} if self.league is None else self.league.state_dict(),
            "generator": self.generator.get_state(),
            **self.episodes.state_dict(),
            "env": self.env.state_dict(),
        }
        if self.ranks.count == 1:
            return state
        states = self.ranks.gathered(to_cpu(state))
        return state if states is None else joined_state(self.env, states)

    @in_training_modes
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was taken, to the bit on CPU; environment and config must be the same.

        It may have been taken with another number of processes, which then changes the order of sums.
        """
        if self.ranks.count > 1:
            state = part_of_state(self.env, self.ranks, state)
        self.env.load_state_dict(state["env"])
        self.iteration = state["iteration"]
        for group, own in zip(self.groups, state["groups"], strict=True):
            group.load_state_dict(own)
        if self.league is not None:
            self.league.load_state_dict(state["league"])
        self.generator.set_state(state["generator"].cpu())
        self.episodes.load_state_dict(state)
