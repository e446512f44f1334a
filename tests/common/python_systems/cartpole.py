"""CartPole's systems in Python."""

from __future__ import annotations

from torch_batchsim.envs.cartpole.env import CartPole, CartState, Push

from torch_batchsim import Episode, Reward, TaskGraph, World, system
from torch_batchsim.math import sincos


@system
def push_cart(world: World, cart: CartState, push: Push) -> None:
    inverse_mass = 1.0 / (world.parameters.masscart + world.parameters.masspole)
    pole_moment = world.parameters.masspole * world.parameters.length
    force = world.parameters.force_mag if push.direction == 1 else -world.parameters.force_mag
    sin_theta, cos_theta = sincos(cart.theta)

    swing = (force + pole_moment * (cart.theta_dot * cart.theta_dot) * sin_theta) * inverse_mass
    theta_acceleration = (world.parameters.gravity * sin_theta - cos_theta * swing) / (
        world.parameters.length * (4 / 3 - world.parameters.masspole * (cos_theta * cos_theta) * inverse_mass)
    )
    x_acceleration = swing - pole_moment * theta_acceleration * cos_theta * inverse_mass

    cart.x += world.parameters.tau * cart.x_dot
    cart.x_dot += world.parameters.tau * x_acceleration
    cart.theta += world.parameters.tau * cart.theta_dot
    cart.theta_dot += world.parameters.tau * theta_acceleration


@system
def judge(world: World, cart: CartState, reward: Reward, episode: Episode) -> None:
    far = abs(cart.x) > world.parameters.x_threshold
    fell = far | (abs(cart.theta) > world.parameters.theta_threshold_radians)
    episode.terminated = fell
    episode.truncated = episode.step >= world.parameters.max_episode_steps
    reward.value = (-1.0 if fell else 0.0) if world.parameters.sutton_barto_reward else 1.0


@system
def start_episode(world: World, cart: CartState) -> None:
    cart.x = world.random.uniform(-0.05, 0.05)
    cart.x_dot = world.random.uniform(-0.05, 0.05)
    cart.theta = world.random.uniform(-0.05, 0.05)
    cart.theta_dot = world.random.uniform(-0.05, 0.05)


class PythonCartPole(CartPole):
    systems = ()
    start = TaskGraph(start_episode)
    step = TaskGraph(push_cart, judge)
