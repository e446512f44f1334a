"""PPO in JAX in one file, to be read from top to bottom and copied, in the manner of PureJaxRL.

    python examples/ppo_jax.py --env-id torch_batchsim/CartPole-v0 --seed 1

It needs jax and tyro (`pip install "torch_batchsim[jax,train]"`). The whole training is one program that `jax.jit`
compiles; it calls the simulator back for each step. T is the number of steps of a rollout, N that of environments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import tyro

from torch_batchsim.adapters.jax import GymnaxEnv


@dataclass(frozen=True)
class Args:
    env_id: str = "torch_batchsim/CartPole-v0"
    """An environment with a Box of floats to see, and one Discrete choice."""
    seed: int = 1
    """Seed of networks, actions and environments."""
    total_steps: int = 200_000
    """Steps of all environments together."""
    num_envs: int = 128
    """Environments that are stepped side by side."""
    num_steps: int = 32
    """Steps of each environment in a rollout."""
    learning_rate: float = 3e-3
    """Adam's step size at first; it falls to 0 in a straight line."""
    gamma: float = 0.98
    """Discount."""
    gae_lambda: float = 0.95
    """Lambda of the generalised advantage estimate."""
    num_minibatches: int = 8
    """Equal parts that a rollout is cut into."""
    update_epochs: int = 4
    """Passes over a rollout."""
    clip_coef: float = 0.2
    """How far the ratio of probabilities may go from 1 before it is clipped."""
    ent_coef: float = 0.01
    """Weight of the entropy."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Longer gradients are scaled to this length."""


class Transition(NamedTuple):
    observation: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    final_value: jax.Array  # of the last observation of an episode, where one has ended
    info: dict[str, Any]


class Adam(NamedTuple):
    count: jax.Array
    mean: Any
    square: Any


def layers(key: jax.Array, sizes: list[int], gain: float) -> list[tuple[jax.Array, jax.Array]]:
    """Weights and biases; ``gain`` is the last layer's."""
    gains = [2**0.5] * (len(sizes) - 2) + [gain]
    keys = jax.random.split(key, len(gains))
    shapes = pairwise(sizes)
    return [
        (jax.nn.initializers.orthogonal(scale)(key, shape), jnp.zeros(shape[1]))
        for key, shape, scale in zip(keys, shapes, gains, strict=True)
    ]


def apply(network: list[tuple[jax.Array, jax.Array]], inputs: jax.Array) -> jax.Array:
    *hidden, (weights, biases) = network
    for w, b in hidden:
        inputs = jnp.tanh(inputs @ w + b)
    return inputs @ weights + biases


def policy(parameters: Any, observations: jax.Array) -> jax.Array:
    """Logarithms of the probabilities of all choices, ``[..., choices]``."""
    return jax.nn.log_softmax(apply(parameters["actor"], observations))


def value(parameters: Any, observations: jax.Array) -> jax.Array:
    return apply(parameters["critic"], observations)[..., 0]


def chosen(log_probs: jax.Array, actions: jax.Array) -> jax.Array:
    return jnp.take_along_axis(log_probs, actions[..., None], -1)[..., 0]


def adam(parameters: Any, gradients: Any, state: Adam, rate: jax.Array, longest: float) -> tuple[Any, Adam]:
    """One step, with the gradients scaled to a length of at most ``longest``."""
    length = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda part: part * jnp.minimum(1, longest / (length + 1e-6)), gradients)
    count = state.count + 1
    mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state.mean, gradients)
    square = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, state.square, gradients)

    def moved(parameter: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        return parameter - rate * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.999**count)) + 1e-5)

    return jax.tree.map(moved, parameters, mean, square), Adam(count, mean, square)


def make_train(args: Args, env: GymnaxEnv, params: None = None) -> Callable[[jax.Array], dict[str, Any]]:
    T, N = args.num_steps, args.num_envs
    num_updates = max(1, args.total_steps // (T * N))
    if T * N % args.num_minibatches:
        raise SystemExit(f"--num-minibatches must divide the {T * N} samples of a rollout, got {args.num_minibatches}")
    size, choices = env.observation_space(params).shape[0], int(env.action_space(params).n)

    def loss(parameters: Any, batch: Transition, advantages: jax.Array, returns: jax.Array) -> jax.Array:
        log_probs = policy(parameters, batch.observation)
        ratio = jnp.exp(chosen(log_probs, batch.action) - batch.log_prob)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = jnp.clip(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
        policy_loss = -jnp.minimum(ratio * advantages, clipped * advantages).mean()
        value_loss = 0.5 * jnp.square(value(parameters, batch.observation) - returns).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return policy_loss + args.vf_coef * value_loss - args.ent_coef * entropy

    def train(key: jax.Array) -> dict[str, Any]:
        key, of_actor, of_critic, of_env = jax.random.split(key, 4)
        parameters = {
            "actor": layers(of_actor, [size, 64, 64, choices], 0.01),
            "critic": layers(of_critic, [size, 64, 64, 1], 1.0),
        }
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        optimizer = Adam(jnp.int32(0), zeros, zeros)
        observation, env_state = env.reset(of_env, params)

        def step(carry: Any, _: None) -> tuple[Any, Transition]:
            parameters, env_state, observation, key = carry
            key, of_action, of_step = jax.random.split(key, 3)
            log_probs = policy(parameters, observation)
            action = jax.random.categorical(of_action, log_probs)
            following, env_state, reward, _, info = env.step(of_step, env_state, action, params)
            final = value(parameters, info["final_obs"])
            before = observation, action, chosen(log_probs, action), value(parameters, observation)
            statistics = {name: info[name] for name in ("returned_episode", "returned_episode_returns")}
            transition = Transition(*before, reward, info["terminated"], info["truncated"], final, statistics)
            return (parameters, env_state, following, key), transition

        def advantages_of(rollout: Transition, last_value: jax.Array) -> jax.Array:
            # A terminated episode has no future. One that was cut off has, and the value of its last observation
            # stands for it.
            def back(carry: Any, transition: Transition) -> tuple[Any, jax.Array]:
                advantage, next_value = carry
                next_value = jnp.where(transition.truncated, transition.final_value, next_value)
                next_value = jnp.where(transition.terminated, 0, next_value)
                goes_on = ~(transition.terminated | transition.truncated)
                delta = transition.reward + args.gamma * next_value - transition.value
                advantage = delta + args.gamma * args.gae_lambda * goes_on * advantage
                return (advantage, transition.value), advantage

            return jax.lax.scan(back, (jnp.zeros(N), last_value), rollout, reverse=True)[1]

        def update(carry: Any, number: jax.Array) -> tuple[Any, dict[str, Any]]:
            parameters, optimizer, env_state, observation, key = carry
            carried = parameters, env_state, observation, key
            (_, env_state, observation, key), rollout = jax.lax.scan(step, carried, None, T)
            advantages = advantages_of(rollout, value(parameters, observation))
            samples = rollout._replace(info=None), advantages, advantages + rollout.value
            samples = jax.tree.map(lambda part: part.reshape(T * N, *part.shape[2:]), samples)
            rate = args.learning_rate * (1 - number / num_updates)

            def minibatch(carry: Any, rows: jax.Array) -> tuple[Any, None]:
                parameters, optimizer = carry
                gradients = jax.grad(loss)(parameters, *jax.tree.map(lambda part: part[rows], samples))
                return adam(parameters, gradients, optimizer, rate, args.max_grad_norm), None

            def epoch(carry: Any, key: jax.Array) -> tuple[Any, None]:
                rows = jax.random.permutation(key, T * N).reshape(args.num_minibatches, -1)
                return jax.lax.scan(minibatch, carry, rows)[0], None

            key, of_epochs = jax.random.split(key)
            keys = jax.random.split(of_epochs, args.update_epochs)
            (parameters, optimizer), _ = jax.lax.scan(epoch, (parameters, optimizer), keys)
            return (parameters, optimizer, env_state, observation, key), rollout.info

        carry = parameters, optimizer, env_state, observation, key
        (parameters, _, env_state, observation, _), metrics = jax.lax.scan(update, carry, jnp.arange(num_updates))
        return {"parameters": parameters, "env_state": env_state, "metrics": metrics}

    return train


def mean_returns(metrics: dict[str, jax.Array]) -> jax.Array:
    """Of the episodes that ended in each update; NaN where none did."""
    ended = metrics["returned_episode"]  # [updates, T, N]
    return jnp.where(ended, metrics["returned_episode_returns"], 0).sum((1, 2)) / ended.sum((1, 2))


if __name__ == "__main__":
    args = tyro.cli(Args)
    env = GymnaxEnv(args.env_id, num_envs=args.num_envs)
    started = time.time()
    train = jax.jit(make_train(args, env))
    out = jax.block_until_ready(train(jax.random.key(args.seed)))
    returns = mean_returns(out["metrics"])
    print("mean return by update:", " ".join(f"{each:.0f}" for each in returns.tolist()))
    print(f"{args.total_steps} steps in {time.time() - started:.1f} s, with the compilation")
    env.close()
