"""A PPO in JAX on gymnax's CartPole, of which a whole iteration, simulation and updates, is one jitted function, as in
PureJaxRL: ``trainers.py`` measures it beside ours."""

from __future__ import annotations

from typing import Any

import gymnax
import jax
import jax.numpy as jnp
import optax
from torch_batchsim.train import Config


class JaxPPO:
    """``iterate`` is one rollout and its updates; the first call compiles them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.env, self.params = gymnax.make("CartPole-v1")
        clip = optax.clip_by_global_norm(config.max_grad_norm)
        self.optimizer = optax.chain(clip, optax.adam(config.learning_rate, eps=1e-5))
        self.key = jax.random.key(0)
        keys = jax.random.split(self.key, config.num_envs)
        seen, world = jax.vmap(self.env.reset, (0, None))(keys, self.params)
        sizes = {"actor": 2, "critic": 1}
        weights = {name: network(jax.random.fold_in(self.key, n), config, n) for name, n in sizes.items()}
        self.state = {"weights": weights, "moments": self.optimizer.init(weights), "seen": seen, "world": world}
        self.iteration = jax.jit(self._iteration)

    def iterate(self) -> None:
        """Rolls out, and updates."""
        self.state, self.key = jax.block_until_ready(self.iteration(self.state, self.key))

    def _iteration(self, state: Any, key: Any) -> tuple[Any, Any]:
        size = self.config.num_envs * self.config.num_steps
        (state, key), rollout = jax.lax.scan(self._step, (state, key), None, self.config.num_steps)
        advantage = self._advantages(rollout, forward(state["weights"]["critic"], state["seen"])[..., 0])
        batch = {name: rollout[name] for name in ("seen", "action", "log_prob")}
        batch |= {"advantage": advantage, "wanted": advantage + rollout["value"]}
        batch = jax.tree.map(lambda each: each.reshape(size, *each.shape[2:]), batch)
        learned = state["weights"], state["moments"]
        (learned, key, _), _ = jax.lax.scan(self._epoch, (learned, key, batch), None, self.config.update_epochs)
        return {**state, "weights": learned[0], "moments": learned[1]}, key

    def _step(self, carry: Any, _: None) -> tuple[Any, Any]:
        state, key = carry
        key, act_key, env_key = jax.random.split(key, 3)
        seen, weights = state["seen"], state["weights"]
        logits = forward(weights["actor"], seen)
        action = jax.random.categorical(act_key, logits)
        value = forward(weights["critic"], seen)[..., 0]
        keys, step = jax.random.split(env_key, self.config.num_envs), jax.vmap(self.env.step, (0, 0, 0, None))
        after, world, reward, done, _ = step(keys, state["world"], action, self.params)
        taken = {"seen": seen, "action": action, "log_prob": log_prob(logits, action), "value": value}
        return ({**state, "seen": after, "world": world}, key), {**taken, "reward": reward, "done": done}

    def _advantages(self, rollout: Any, last: Any) -> Any:
        config = self.config

        def back(carry: Any, each: Any) -> tuple[Any, Any]:
            advantage, following = carry
            going_on = 1.0 - each["done"]
            delta = each["reward"] + config.gamma * following * going_on - each["value"]
            advantage = delta + config.gamma * config.gae_lambda * going_on * advantage
            return (advantage, each["value"]), advantage

        return jax.lax.scan(back, (jnp.zeros_like(last), last), rollout, reverse=True)[1]

    def _epoch(self, carry: Any, _: None) -> tuple[Any, None]:
        learned, key, batch = carry
        key, own = jax.random.split(key)
        order = jax.random.permutation(own, len(batch["action"]))
        count = self.config.num_minibatches
        parts = jax.tree.map(lambda each: each[order].reshape(count, -1, *each.shape[1:]), batch)
        learned, _ = jax.lax.scan(self._minibatch, learned, parts)
        return (learned, key, batch), None

    def _minibatch(self, carry: Any, part: Any) -> tuple[Any, None]:
        weights, moments = carry
        updates, moments = self.optimizer.update(jax.grad(self._loss)(weights, part), moments, weights)
        return (optax.apply_updates(weights, updates), moments), None

    def _loss(self, weights: Any, part: Any) -> Any:
        config = self.config
        logits, value = forward(weights["actor"], part["seen"]), forward(weights["critic"], part["seen"])[..., 0]
        log_probs = jax.nn.log_softmax(logits)
        ratio = jnp.exp(log_prob(logits, part["action"]) - part["log_prob"])
        advantage = part["advantage"]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = jnp.clip(ratio, 1 - config.clip_coef, 1 + config.clip_coef)
        policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()
        value_loss = 0.5 * jnp.square(value - part["wanted"]).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return policy_loss - config.ent_coef * entropy + config.vf_coef * value_loss


def network(key: Any, config: Config, outputs: int) -> list[tuple[Any, Any]]:
    """Weights and biases of its layers."""
    sizes = (4, *config.hidden_sizes, outputs)
    init = jax.nn.initializers.orthogonal(2**0.5)
    keys = jax.random.split(key, len(sizes) - 1)
    return [(init(k, (a, b)), jnp.zeros(b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def forward(layers: Any, inputs: Any) -> Any:
    """Hidden layers of tanh units, and a linear one."""
    for weight, bias in layers[:-1]:
        inputs = jnp.tanh(inputs @ weight + bias)
    weight, bias = layers[-1]
    return inputs @ weight + bias


def log_prob(logits: Any, action: Any) -> Any:
    """Of the actions that were taken."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]
