"""Proximal policy optimisation (Schulman et al. 2017), to be read from top to bottom: settings, the storage
of a rollout, advantages, and the training iteration.

Two habits differ from most implementations. The simulator writes observations, rewards and ends of episodes
straight into the slots of the rollout storage (`env.bind_slots`), so that a step copies nothing. And a rollout
only acts: values and log-probabilities come from one batched forward over the whole rollout afterwards.

T is the number of steps in a rollout, N the number of rows (agents of all worlds together), B = T·N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor, nn

from .active import advantages_of_active, counted_ends, mean, std_mean, zeroed
from .finite import FiniteCheck
from .networks import ACTIVATIONS, ActorCritic, Observation


@dataclass(frozen=True)
class Config:
    """The settings of PPO; together with the environment they determine a run on CPU to the bit."""

    seed: int = 1
    """Seed of networks, exploration and environment."""
    total_steps: int = 10_000_000
    """Steps to train for, all rows together; a last rollout that does not fit whole is not begun."""
    num_envs: int = 1024
    """Rows stepped side by side: worlds, times the agents in each."""
    num_steps: int = 32
    """Steps of each row in one rollout."""
    num_minibatches: int = 4
    """Minibatches that a rollout is cut into."""
    update_epochs: int = 4
    """Passes over a rollout."""
    learning_rate: float = 2.5e-4
    """Adam's step size at the start."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate."""
    norm_adv: bool = True
    """Normalise the advantages of each minibatch."""
    clip_coef: float = 0.2
    """How far the probability ratio may move from 1 before the objective is clipped."""
    clip_vloss: bool = False
    """Clip the move of the values by the same coefficient."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus, at first."""
    ent_coef_end: float | None = None
    """That weight at the end, to which it goes in a straight line; the same all along if not given."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """A longer gradient is scaled down to this length."""
    target_kl: float | None = None
    """End the updates of a rollout after an epoch with a larger approximate KL divergence than this."""
    hidden_sizes: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of the actor, and of the critic."""
    activation: Literal["tanh", "relu"] = "tanh"
    """What follows each hidden layer."""
    anneal: str = ""
    """A number of the simulator's, such as Shaping.factor, that goes from 1 (whatever the environment set it to) to 0
    in a straight line; none if empty."""
    anneal_from: float = 0.0
    """The part of the training before which that tensor is 1."""
    anneal_until: float = 0.5
    """The part of the training after which that tensor is 0."""
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    """How exact matrix products are: medium multiplies in bfloat16, about three times as fast where CPU or GPU has
    units for that; see torch.set_float32_matmul_precision."""

    def __post_init__(self) -> None:
        for name in ("total_steps", "num_envs", "num_steps", "num_minibatches", "update_epochs"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("learning_rate", "clip_coef", "max_grad_norm"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "greater than 0")
        _require(0 < self.anneal_until <= 1, "anneal_until", self.anneal_until, "greater than 0 and at most 1")
        _require(0 <= self.anneal_from < self.anneal_until, "anneal_from", self.anneal_from, "from 0 to anneal_until")
        for name in ("gamma", "gae_lambda"):
            _require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        for name in ("ent_coef", "vf_coef"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        # Simulator and torch take 64 bits, and the evaluation adds to the seed.
        _require(0 <= self.seed < 2**63, "seed", self.seed, "from 0 to 2**63 - 1")
        _require(self.target_kl is None or self.target_kl > 0, "target_kl", self.target_kl, "greater than 0")
        end = self.ent_coef_end
        _require(end is None or end >= 0, "ent_coef_end", end, "0 or more")
        _require(self.activation in ACTIVATIONS, "activation", self.activation, f"one of {tuple(ACTIVATIONS)}")
        precisions = ("highest", "high", "medium")
        _require(self.matmul_precision in precisions, "matmul_precision", self.matmul_precision, f"one of {precisions}")
        _require(all(n >= 1 for n in self.hidden_sizes), "hidden_sizes", self.hidden_sizes, "at least 1 each")


def _require(condition: bool, name: str, given: object, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{name} is {given}, but must be {allowed}")


# ---- where a rollout lives -------------------------------------------------------------------------------


def map_leaves(function: Callable[[Tensor], Tensor], observation: Observation) -> Observation:
    """Applies a function to an observation tensor, or to every tensor of a dict observation."""
    if isinstance(observation, dict):
        return {name: function(leaf) for name, leaf in observation.items()}
    return function(observation)


class Storage:
    """One rollout, time first, on the environment's device.

    obs `[T+1, N, ...]` (slot T is where the next rollout begins), final_obs `[T, N, ...]` (valid where an
    episode ended), actions `[T, N, ...]`, rewards float32 and ends of episodes bool `[T, N]`. If the
    environment restricts actions, action_masks bool `[T+1, N, n]`, and if agents come and go, active bool
    `[T+1, N]`; else None.
    """

    def __init__(
        self,
        num_steps: int,
        obs: Observation,
        actions: Tensor,
        action_mask: Tensor | None = None,
        active: Tensor | None = None,
    ) -> None:
        def slots(count: int, like: Tensor) -> Tensor:
            return like.new_zeros(count, *like.shape)

        rows = actions.shape[0]
        self.num_steps = num_steps
        self.obs = map_leaves(lambda leaf: slots(num_steps + 1, leaf), obs)
        self.final_obs = map_leaves(lambda leaf: slots(num_steps, leaf), obs)
        self.actions = slots(num_steps, actions)
        self.rewards = torch.zeros(num_steps, rows, device=actions.device)
        self.terminations = torch.zeros(num_steps, rows, dtype=torch.bool, device=actions.device)
        self.truncations = torch.zeros_like(self.terminations)
        self.action_masks = None if action_mask is None else slots(num_steps + 1, action_mask)
        self.active = None if active is None else slots(num_steps + 1, active)
        # What the policy sees before step t, sliced once: slicing takes longer than a small environment's step.
        self.seen = [map_leaves(lambda leaf, t=t: leaf[t], self.obs) for t in range(num_steps)]

    @property
    def slots(self) -> dict[str, Any]:
        """Where the results of step t go, at index t, under the names of `env.bind_slots`."""
        slots: dict[str, Any] = {
            "observations": map_leaves(lambda leaf: leaf[1:], self.obs),
            "rewards": self.rewards,
            "terminations": self.terminations,
            "truncations": self.truncations,
            "final_obs": self.final_obs,
        }
        if self.action_masks is not None:
            slots["action_mask"] = self.action_masks[1:]
        if self.active is not None:
            slots["active"] = self.active[1:]
        return slots

    def begin(self, obs: Observation, action_mask: Tensor | None, active: Tensor | None) -> None:
        """Lets a rollout begin with what the environment shows."""
        if isinstance(obs, dict):
            for name, leaf in obs.items():
                self.obs[name][0].copy_(leaf)
        else:
            self.obs[0].copy_(obs)
        if self.action_masks is not None:
            self.action_masks[0].copy_(action_mask)
        if self.active is not None:
            self.active[0].copy_(active)


class Batch(NamedTuple):
    """What the updates learn from: inputs are encoded observations float32 `[B, size]`, actions `[B, ...]`,
    action_masks bool `[B, n]`, active bool `[B]`, and the rest float32 `[B]`. Of samples that are not active inputs,
    actions and advantages are zero, and all actions are allowed."""

    inputs: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    action_masks: Tensor | None
    active: Tensor | None

    def minibatches(self, count: int, generator: torch.Generator) -> Iterator[Batch]:
        """Cuts the batch into `count` random parts, shuffled at once because one large gather is cheaper."""
        order = torch.randperm(len(self.inputs), generator=generator, device=self.inputs.device)
        size = len(order) // count
        parts = [[None] * count if field is None else field[order].split(size) for field in self]
        return (Batch(*fields) for fields in zip(*parts, strict=True))


# ---- advantages ------------------------------------------------------------------------------------------


def generalised_advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminations: Tensor,
    truncations: Tensor,
    gamma: float,
    gae_lambda: float,
    active: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016), float32 `[T, N]`, as are the tensors given.

    `next_values[t]` is the value of the observation that step t led to: where an episode ended, of its final
    observation and not of the first one of the next episode. A termination has no future, so its next value
    does not count. A truncation has one that nobody saw, so its next value stands for it. Both end the sum.
    Where agents come and go `active` bool `[T+1, N]` says who acted, see `advantages_of_active`.
    """
    if active is not None:
        series = rewards, values, next_values, terminations, truncations
        return advantages_of_active(*series, gamma, gae_lambda, active)
    deltas = rewards + gamma * torch.where(terminations, 0.0, next_values) - values
    decays = gamma * gae_lambda * ~(terminations | truncations)
    advantages = torch.empty_like(deltas)
    advantage = torch.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        advantage = torch.addcmul(deltas[t], decays[t], advantage, out=advantages[t])
    return advantages


# ---- training --------------------------------------------------------------------------------------------


def flatten_parameters(module: nn.Module) -> nn.Parameter:
    """Moves all parameters, and their gradients, into one vector each; the module keeps views of them.

    Clipping, zeroing and Adam then take a handful of operations instead of a handful for each layer, a good
    part of the time of an update where networks are small.
    """
    parameters = list(module.parameters())
    flat = nn.Parameter(torch.cat([parameter.detach().flatten() for parameter in parameters]))
    flat.grad = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    pieces = zip(parameters, flat.detach().split(sizes), flat.grad.split(sizes), strict=True)
    for parameter, values, gradient in pieces:
        parameter.data = values.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    return flat


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """How exact torch's products of float32 matrices are meanwhile."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def num_agents(env: VectorEnv) -> int:
    """Agents in each world; row r is agent r % num_agents."""
    return getattr(env, "num_agents", 1)


def _require_rows_of_tensors(env: VectorEnv) -> None:
    """Raises ValueError for environments that a trainer of one policy for all rows, in tensors, cannot train."""
    if getattr(env, "possible_agents", None):
        raise ValueError(
            f"the environment is by agent, with a policy for each of {list(env.possible_agents)}, but this PPO trains "
            "one policy for all rows: give it the environment of rows (env.vector_env, or by_agent=False)"
        )
    if getattr(env, "output", "torch") != "torch":
        raise ValueError(f"the environment has output={env.output!r}, but PPO needs output='torch'")
    if not hasattr(env, "bind_slots"):
        raise ValueError(
            f"{type(env).__name__} has no bind_slots(), by which steps write into the storage of a rollout: "
            "PPO needs an environment of torch_batchsim, or one with its interface"
        )


class Trainer:
    """PPO on one vector environment; `iterate()` is one rollout and its updates.

    Nothing in an iteration waits for the device (except, if set, for `target_kl`): metrics are tensors that
    the caller reads when it likes.
    """

    def __init__(self, env: VectorEnv, config: Config) -> None:
        _require_rows_of_tensors(env)
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode is {mode}, but PPO needs {AutoresetMode.SAME_STEP}")
        self.batch_size = config.num_steps * env.num_envs
        if self.batch_size % config.num_minibatches:
            raise ValueError(
                f"num_minibatches is {config.num_minibatches}, but must divide the rollout: "
                f"{config.num_steps} steps x {env.num_envs} rows = {self.batch_size}"
            )
        if config.norm_adv and self.batch_size == config.num_minibatches:
            raise ValueError("minibatches have one sample, but norm_adv needs at least 2")
        if config.total_steps < self.batch_size:
            raise ValueError(f"total_steps is {config.total_steps}, but one rollout has {self.batch_size}")
        self.env, self.config, self.device = env, config, env.device
        self.num_iterations = config.total_steps // self.batch_size
        self.ent_coef = config.ent_coef
        self.iteration = 0

        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        spaces = env.single_observation_space, env.single_action_space
        self.agent = ActorCritic(*spaces, config.hidden_sizes, config.seed, self.device, config.activation)
        self.parameters = flatten_parameters(self.agent)
        self.optimizer = torch.optim.Adam([self.parameters], lr=config.learning_rate, eps=1e-5, fused=True)

        obs, infos = env.reset(seed=config.seed)
        actions = self.agent.policy.empty_actions(env.num_envs)
        self.storage = Storage(config.num_steps, obs, actions, infos.get("action_mask"), infos.get("active"))
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
        self.annealed = self._tensor(config.anneal) if config.anneal else None
        self.finite = FiniteCheck(env, num_agents(env))

    def _tensor(self, name: str) -> Tensor:
        try:
            tensor = self.env.unwrapped.sim.tensor(name)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"anneal is {name!r}, which is no tensor of this environment: {error}") from error
        if tensor.ndim or not tensor.is_floating_point():
            given = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            raise ValueError(f"anneal is {name!r}, which is {given}; it must be one float for all worlds")
        return tensor

    @property
    def global_step(self) -> int:
        """Steps taken so far, all rows together."""
        return self.iteration * self.batch_size

    def iterate(self) -> dict[str, Tensor]:
        """One training iteration; returns metrics under CleanRL's names, each a float32 tensor `[]`.

        Raises NotFinite where something to learn from is NaN or infinite: on CPU before anything is learned from it,
        elsewhere when `check_finite` is called.
        """
        remaining = 1 - self.iteration / self.num_iterations
        if self.config.anneal_lr:
            self.optimizer.param_groups[0]["lr"] = remaining * self.config.learning_rate
        if self.config.ent_coef_end is not None:
            self.ent_coef = remaining * self.config.ent_coef + (1 - remaining) * self.config.ent_coef_end
        if self.annealed is not None:
            first, last = (self.num_iterations * part for part in (self.config.anneal_from, self.config.anneal_until))
            self.annealed.fill_(min(1.0, max(0.0, 1 - (self.iteration - first) / (last - first))))
        with matmul_precision(self.config.matmul_precision):
            self.checked_rollout()
            metrics = self.episode_statistics()
            batch = self.estimate()
            metrics |= self.update(batch)
        losses = {name: metrics[f"losses/{name}"] for name in ("policy_loss", "value_loss", "entropy")}
        learned_from = batch.inputs, batch.returns
        self.finite.look_at_update(self.iteration + 1, self.parameters, self.agent, losses, learned_from)
        self.check_finite(wait=False)
        metrics["charts/learning_rate"] = torch.tensor(self.optimizer.param_groups[0]["lr"])
        self.iteration += 1
        return metrics

    def check_finite(self, wait: bool = True) -> None:
        """Raises NotFinite for the first observation, reward, loss or parameter that was none; waits for the device.

        Unless not to `wait`: then it does so only on CPU.
        """
        if wait or self.device.type == "cpu":
            self.finite.raise_found()

    def checked_rollout(self) -> None:
        """A rollout; raises NotFinite, where that costs no time. A policy that sees NaN may return actions that are
        refused: the cause comes first."""
        storage = self.storage
        try:
            self.rollout()
        finally:
            parts = storage.obs, storage.final_obs, storage.rewards, storage.truncations, storage.active
            self.finite.look_at_rollout(self.iteration + 1, *parts)
            self.check_finite(wait=False)

    @torch.no_grad()
    def rollout(self) -> None:
        """Acts for T steps; the environment fills the storage."""
        storage, agent = self.storage, self.agent
        storage.begin(self.env.observations, self.env.action_mask, self.env.active)
        noise = agent.policy.noise((storage.num_steps, self.env.num_envs), self.generator).unbind()
        masks = storage.action_masks
        acted = self.running[1] > 0  # since the last end of the row
        for t, actions in enumerate(storage.actions.unbind()):
            outputs = agent.outputs(agent.encoder(storage.seen[t]))
            agent.policy.sample(outputs, noise[t], actions, None if masks is None else masks[t])
            self.env.select_slot(t)
            *_, infos = self.env.step(agent.policy.to_env(actions))
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

        def mean_of_latest(latest: Tensor, running: Tensor, amounts: Tensor) -> Tensor:
            done = (amounts * finished).sum(0)
            latest.copy_(torch.where(ended, (running + done) / counts, latest))
            running.mul_(~ended).add_(amounts.sum(0) - done)
            return latest.nanmean()

        metrics = {
            "charts/episodic_return": mean_of_latest(self.latest[0], self.running[0], rewards),
            "charts/episodic_length": mean_of_latest(self.latest[1], self.running[1], steps),
        }
        if self.told:
            means = (self.sums[:-1] / self.sums[-1]).unbind()  # NaN where no episode has ended
            metrics |= dict(zip(self.told, means, strict=True))
            self.sums.zero_()
        agents = num_agents(self.env)
        if agents > 1:
            means = self.latest[0].view(-1, agents).nanmean(0).unbind()
            metrics |= {f"charts/episodic_return/agent_{i}": mean for i, mean in enumerate(means)}
        in_the_first = (self.running[1] > 0) & self.latest[1].isnan()
        self.all_ended |= ~in_the_first.any() & self.latest[1].isfinite().any()
        return {name: torch.where(self.all_ended, value, torch.nan) for name, value in metrics.items()}

    @torch.no_grad()
    def estimate(self) -> Batch:
        """Values, log-probabilities, advantages and returns of the rollout, T and N made one dimension."""
        storage, config, agent = self.storage, self.config, self.agent
        inputs = zeroed(agent.encoder(storage.obs), storage.active)
        values = agent.value(inputs)
        next_values = values[1:]
        if self.device.type != "cpu" or storage.truncations.any():  # elsewhere, to ask would be to wait
            ends = storage.terminations | storage.truncations
            next_values = torch.where(ends, agent.value(agent.encoder(storage.final_obs)), next_values)
        inputs, values = inputs[:-1], values[:-1]
        advantages = generalised_advantages(
            storage.rewards,
            values,
            next_values,
            storage.terminations,
            storage.truncations,
            config.gamma,
            config.gae_lambda,
            storage.active,
        )
        masks = None if storage.action_masks is None else storage.action_masks[:-1]
        active = None if storage.active is None else storage.active[:-1]
        if masks is not None and active is not None:  # the actions made zero would count as forbidden
            masks = masks | ~active.unsqueeze(-1)
        actions = zeroed(storage.actions, active)
        log_probs, _ = agent.policy.log_prob_and_entropy(agent.outputs(inputs), actions, masks)
        fields = (inputs, actions, log_probs, values, advantages, advantages + values, masks, active)
        return Batch(*(None if field is None else field.flatten(0, 1) for field in fields))

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Epochs of minibatch updates. KL and clip fraction are those of each epoch's last minibatch."""
        config = self.config
        clip_fractions = []
        for _ in range(config.update_epochs):
            for minibatch in batch.minibatches(config.num_minibatches, self.generator):
                loss, metrics, log_ratio = self.losses(minibatch)
                self.parameters.grad.zero_()
                loss.backward()
                norm = self.parameters.grad.norm()
                self.parameters.grad.mul_((config.max_grad_norm / (norm + 1e-6)).clamp(max=1))
                self.optimizer.step()
            # The KL estimators of Schulman, "Approximating KL divergence": k1 (old) and k3.
            log_ratio = log_ratio.detach()
            ratio = log_ratio.exp()
            approx_kl = mean(ratio - 1 - log_ratio, minibatch.active)
            clip_fractions.append(mean(((ratio - 1).abs() > config.clip_coef).float(), minibatch.active))
            if config.target_kl is not None and approx_kl > config.target_kl:
                break
        if batch.active is None:
            residual = (batch.returns - batch.values).var() / batch.returns.var()
        else:
            deviations = (std_mean(each, batch.active)[0] for each in (batch.returns - batch.values, batch.returns))
            residual = torch.div(*deviations).square()
        return metrics | {
            "losses/approx_kl": approx_kl,
            "losses/old_approx_kl": -mean(log_ratio, minibatch.active),
            "losses/clipfrac": torch.stack(clip_fractions).mean(),
            "losses/explained_variance": 1 - residual,
            "losses/grad_norm": norm,
        }

    def losses(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """The loss of a minibatch, its parts as metrics, and the log of the probability ratio `[b]`."""
        config, agent = self.config, self.agent
        outputs = agent.outputs(batch.inputs)
        log_probs, entropy = agent.policy.log_prob_and_entropy(outputs, batch.actions, batch.action_masks)
        log_ratio = zeroed(log_probs - batch.log_probs, batch.active)  # before exp, whose gradient may be infinite
        ratio = log_ratio.exp()

        advantages = batch.advantages
        if config.norm_adv:
            std, average = std_mean(advantages, batch.active)
            advantages = (advantages - average) / (std + 1e-8)
        clipped_ratio = ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef)
        policy_loss = -mean(torch.min(advantages * ratio, advantages * clipped_ratio), batch.active)

        values = agent.value(batch.inputs)
        value_error = (values - batch.returns).square()
        if config.clip_vloss:
            clipped = batch.values + (values - batch.values).clamp(-config.clip_coef, config.clip_coef)
            value_error = torch.max(value_error, (clipped - batch.returns).square())
        value_loss = 0.5 * mean(value_error, batch.active)

        entropy = mean(entropy, batch.active)
        loss = policy_loss - self.ent_coef * entropy + config.vf_coef * value_loss
        metrics = {
            "losses/policy_loss": policy_loss.detach(),
            "losses/value_loss": value_loss.detach(),
            "losses/entropy": entropy.detach(),
        }
        return loss, metrics, log_ratio

    # ---- stopping and going on ----

    def begin_new_episodes(self) -> None:
        """After a rollout that a fault cut short: gives up the running episodes, so that the next one can begin."""
        self.env.reset()
        self.running.zero_()

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on: tensors, numbers and strings, nothing else."""
        return {
            "config": asdict(self.config),
            "iteration": self.iteration,
            "agent": self.agent.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "running": self.running,
            "latest": self.latest,
            "all_ended": self.all_ended,
            "env": self.env.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was taken, to the bit on CPU; environment and config must be the same."""
        self.env.load_state_dict(state["env"])
        self.iteration = state["iteration"]
        self.agent.load_state_dict(state["agent"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"].cpu())
        self.running.copy_(state["running"])
        self.latest.copy_(state["latest"])
        self.all_ended.copy_(state["all_ended"])
