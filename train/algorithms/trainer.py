"""A training: rollouts of an environment, and what is learned from each.

The simulator writes observations, rewards and ends of episodes straight into the slots of the rollout storage
(`env.bind_slots`), so that a step copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from ..base.active import counted_ends, zeroed
from ..base.config import Config
from ..base.ranks import ALONE, Ranks, joined_state, part_of_state, to_cpu
from ..policies.networks import ActorCritic, Player
from ..rollouts import captured
from ..rollouts.acting import Acting, Agents, acting, rows_of_teams
from ..rollouts.clock import Clock
from ..rollouts.environment import critic_space_of, num_agents, require_trainable
from ..rollouts.finite import FiniteCheck
from ..rollouts.league import League
from ..rollouts.rollout import Storage, map_leaves
from . import learner_of
from .group import Group

LOSSES = ("losses/policy_loss", "losses/value_loss", "losses/entropy")
"""Metrics of updates that must be finite."""


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """How exact torch's products of float32 matrices are meanwhile."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _require_parts(env: VectorEnv, config: Config, ranks: Ranks) -> None:
    """Raises ValueError where several processes cannot train this together."""
    if ranks.count == 1:
        return
    if config.past_share:
        raise ValueError(
            f"past_share is {config.past_share}, but with {ranks.count} processes it must be 0: past policies play in "
            "the last worlds, which would leave the last process nothing to learn from"
        )
    sim = getattr(env.unwrapped, "sim", None)
    if not hasattr(sim, "join_states"):
        raise ValueError(
            f"{ranks.count} processes train environments of torch_batchsim only, and {type(env).__name__} has no "
            "first_world"
        )
    sizes = (env.num_envs, sim.num_worlds)
    if not ranks.same(sizes):
        raise ValueError(f"{sizes[0]} rows are not those of each of {ranks.count} processes: all have as many")
    if sim.first_world != ranks.rank * sim.num_worlds:
        raise ValueError(
            f"first_world is {sim.first_world}, but of process {ranks.rank} with {sim.num_worlds} worlds it must be "
            f"{ranks.rank * sim.num_worlds}"
        )


def _sum_and_count(values: Tensor) -> tuple[Tensor, Tensor]:
    """Of what is not NaN, float32 `[]` each."""
    return values.nansum(), values.isfinite().sum().float()


class Trainer:
    """PPO or A2C on one vector environment; `iterate()` is one rollout and its updates.

    With several processes (`ranks`) each has a Trainer with its part of the worlds; what is said of rows and worlds in
    `config` and in metrics is of all of them. All call the same methods, in the same order.

    Nothing in an iteration waits for the device (except, if set, for `target_kl`): metrics are tensors that
    the caller reads when it likes.

    Raises ValueError for settings that do not fit the environment.
    """

    def __init__(self, env: VectorEnv, config: Config, ranks: Ranks = ALONE) -> None:
        require_trainable(env)
        kind = learner_of(config.algorithm)
        _require_parts(env, config, ranks)
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
        spaces = env.single_observation_space, env.single_action_space
        for_critic = critic_space_of(env)
        first = ActorCritic(*spaces, config, self.device, for_critic)

        obs, infos = env.reset(seed=config.seed)
        agents: Agents = first
        if config.policies == "teams":
            seeds = enumerate(rows_of_teams(infos.get("team")), start=config.seed)
            settings = {team: replace(config, seed=seed) for seed, team in seeds}
            agents = {team: ActorCritic(*spaces, own, self.device, for_critic) for team, own in settings.items()}
        everyone = acting(agents, env.num_envs, infos.get("team"))
        self.league = None
        if config.past_share:
            self.league = League(everyone, infos.get("team"), num_agents(env), config)
            pairs = zip(everyone, self.league.own, strict=True)
            everyone = [Acting(each.team, rows, Player(each.agent, len(rows))) for each, rows in pairs]
        self.groups = []
        for each in everyone:
            rows = env.num_envs if each.rows is None else len(each.rows)
            kind.require_fit(config, rows * ranks.count, each.team)
            learner = kind(each.agent, rows, config, self.generator, ranks)
            self.groups.append(Group(each, learner))
        if not ranks.same([(each.team, None if each.rows is None else each.rows.tolist()) for each in everyone]):
            raise ValueError(f"the worlds of the {ranks.count} processes have different teams, but must have the same")
        critic_obs = {name: infos[name] for name in for_critic} if config.central_critic else None
        for each in everyone:
            shown = (None if part is None else map_leaves(each.part, part) for part in (obs, critic_obs))
            each.agent.note(*shown, each.part(infos.get("active")), ranks)
        actions = first.policy.empty_actions(env.num_envs)
        restricted = infos.get("action_mask"), infos.get("active")
        self.storage = Storage(config.num_steps, obs, actions, *restricted, critic_obs)
        env.bind_slots(**self.storage.slots)
        # Return and length, of the episode that is running and of the latest that ended (NaN: none has).
        self.running = torch.zeros(2, env.num_envs, device=self.device)
        self.latest = torch.full_like(self.running, torch.nan)
        # Whether every row that takes part has ended an episode: before, only short ones have, and there is no mean.
        self.all_ended = torch.zeros((), dtype=torch.bool, device=self.device)
        # Metrics that are infos at the end of an episode; in this rollout the sum of each, and last how many ended.
        score = env.metadata.get("score")  # which counts in place of the rewards
        self.told = {"charts/score": score} if score else {}
        self.told |= {f"figures/{name}": name for name in env.metadata.get("figures", ())}
        self.sums = torch.zeros(len(self.told) + 1, device=self.device)
        self.annealed = [self._tensor(name) for name in config.anneal]
        self.finite = FiniteCheck(env, num_agents(env), ranks.rank * env.num_envs // num_agents(env))
        self.clock = Clock(self.device)
        self.captured = captured.CapturedRollout(self.rollout, self.generator) if config.capture_rollouts else None

    def _tensor(self, name: str) -> Tensor:
        try:
            tensor = self.env.unwrapped.sim.tensor(name)
        except (AttributeError, KeyError, TypeError) as error:
            text = f"anneal names {name!r}, which is not a tensor of this environment: {error.args[0]}"
            raise ValueError(text) from error
        if tensor.ndim or not tensor.is_floating_point():
            given = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            raise ValueError(f"anneal names {name!r}, which is {given}; it must be one float for all worlds")
        return tensor

    @property
    def global_step(self) -> int:
        """Steps taken so far, all rows together."""
        return self.iteration * self.batch_size

    def iterate(self) -> dict[str, Tensor]:
        """One training iteration; returns metrics under CleanRL's names, each a float32 tensor `[]`.

        Raises NotFinite where something to learn from is NaN or infinite, and NoLegalAction where a mask allows a row
        nothing: on CPU before anything is learned from it, elsewhere when `check_finite` is called.
        """
        self.clock.begin()
        remaining = 1 - self.iteration / self.num_iterations
        for group in self.groups:
            group.learner.begin(remaining)
        first, last = (self.num_iterations * part for part in (self.config.anneal_from, self.config.anneal_until))
        for number in self.annealed:
            number.fill_(min(1.0, max(0.0, 1 - (self.iteration - first) / (last - first))))
        if self.league is not None:
            self.league.begin(self.iteration, [group.agent for group in self.groups])
        with matmul_precision(self.config.matmul_precision):
            with self.ranks.together():
                self.checked_rollout()
            metrics = self.episode_statistics()
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
        """Raises NotFinite for the first observation, reward, loss or parameter that was none, and WorldFault for
        faults in captured rollouts; waits for the device.

        Unless not to `wait`: then it does so only on CPU.
        """
        if wait or self.device.type == "cpu":
            self.finite.raise_found()
        if wait and self.config.capture_rollouts:  # else steps tell of them
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
                self.clock.lap("simulation")  # and policy: nothing in a graph can be told apart
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
        for each in everyone:
            each.player.begin()
        noise = []  # of the rows of all processes, so that it does not depend on how many these are
        for each in everyone:
            rows = self.env.num_envs if each.rows is None else len(each.rows)
            of_all = policy.noise((storage.num_steps, rows * self.ranks.count), self.generator)
            noise.append(self.ranks.part(of_all, 1).unbind())
        masks, lap = storage.action_masks, self.clock.lap
        acted = self.running[1] > 0  # since the last end of the row
        for t, actions in enumerate(storage.actions.unbind()):
            for each, noises in zip(everyone, noise, strict=True):
                outputs = each.outputs(storage.seen[t], None if storage.active is None else storage.active[t])
                each.sample(outputs, noises[t], actions, None if masks is None else masks[t])
            self.env.select_slot(t)
            given = policy.to_env(actions)
            lap("policy")
            *_, infos = self.env.step(given)
            storage.note_ends(t, infos)
            lap("simulation")
            if self.config.memory != "none":
                for each in everyone:
                    each.ended(storage.terminations[t] | storage.truncations[t])
            if self.told:
                ended = infos["_final_info"]
                if storage.active is not None:  # an agent that has left meets the end of its world as well
                    acted = acted | storage.active[t]
                    ended, acted = ended & acted, acted & ~ended
                numbers = torch.stack([infos["final_info"][name].float() for name in self.told.values()])
                self.sums[:-1] += torch.where(ended, numbers, 0.0).sum(1)
                self.sums[-1] += ended.sum()

    @torch.no_grad()
    def episode_statistics(self) -> dict[str, Tensor]:
        """Return and length of the latest episodes, as a mean over rows: short episodes do not count more.

        All are NaN until every row that has taken part has ended an episode: the first to end are the short ones.
        What a row got up to its last end belongs to finished episodes, the rest to the one still running.
        Where worlds have several agents, each has its own mean as well: in a zero-sum game that of all rows is 0.
        Steps in which a row is inactive do not count, nor an end after such steps only.
        """
        ends = self.storage.terminations | self.storage.truncations
        rewards, steps = self.storage.rewards, torch.ones_like(self.storage.rewards)
        if self.storage.active is not None:
            active = self.storage.active[:-1]
            ends = counted_ends(ends, active, self.running[1])
            rewards, steps = zeroed(rewards, active), steps * active
        finished = ends.flip(0).cummax(0).values.flip(0)
        counts, ended = ends.sum(0), finished[0]

        def take_latest(latest: Tensor, running: Tensor, amounts: Tensor) -> None:
            done = (amounts * finished).sum(0)
            latest.copy_(torch.where(ended, (running + done) / counts, latest))
            running.mul_(~ended).add_(amounts.sum(0) - done)

        take_latest(self.latest[0], self.running[0], rewards)
        take_latest(self.latest[1], self.running[1], steps)
        parts = {  # of each mean a sum, and over how many
            "charts/episodic_return": _sum_and_count(self.latest[0]),
            "charts/episodic_length": _sum_and_count(self.latest[1]),
        }
        parts |= {name: (total, self.sums[-1]) for name, total in zip(self.told, self.sums[:-1], strict=True)}
        agents = num_agents(self.env)
        if agents > 1:
            latest = self.latest[0].view(-1, agents).unbind(1)
            parts |= {f"charts/episodic_return/agent_{i}": _sum_and_count(own) for i, own in enumerate(latest)}
        in_the_first = (self.running[1] > 0) & self.latest[1].isnan()
        have_ended = self.latest[1].isfinite().sum().float(), in_the_first.sum().float()  # and who has yet to
        totals = self.ranks.sum(torch.stack([torch.stack(pair) for pair in (*parts.values(), have_ended)]))
        self.sums.zero_()
        self.all_ended |= (totals[-1, 0] > 0) & (totals[-1, 1] == 0)
        means = totals[:-1, 0] / totals[:-1, 1]  # NaN where no episode has ended
        return dict(zip(parts, torch.where(self.all_ended, means, torch.nan).unbind(), strict=True))

    @property
    def agents(self) -> Agents:
        """What `evaluate` takes: the policy, or those of the teams by their numbers."""
        if self.config.policies == "shared":
            return self.groups[0].agent
        return {group.acting.team: group.agent for group in self.groups}

    # ---- stopping and going on ----

    def begin_new_episodes(self) -> None:
        """After a rollout that a fault cut short: gives up the running episodes, so that the next one can begin."""
        self.env.reset()
        self.running.zero_()
        for each in (*self.groups, *([] if self.league is None else [self.league])):
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
            "running": self.running,
            "latest": self.latest,
            "all_ended": self.all_ended,
            "env": self.env.state_dict(),
        }
        if self.ranks.count == 1:
            return state
        states = self.ranks.gathered(to_cpu(state))
        return state if states is None else joined_state(self.env, states)

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
        self.running.copy_(state["running"])
        self.latest.copy_(state["latest"])
        self.all_ended.copy_(state["all_ended"])
