"""CartPole: balance a pole on a cart by pushing the cart left or right. Equal to Gymnasium's CartPole-v1 (Euler).

Source: Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve difficult learning control
problems"; equations of motion as corrected by Florian (2005), as in ``gymnasium.envs.classic_control.cartpole``.

| action      | Discrete(2)                     |
|-------------|---------------------------------|
| 0           | push the cart to the left       |
| 1           | push the cart to the right      |

With ``continuous=True`` the action is a share of the force, Box(-1, 1, [1]): -1 and 1 are the two pushes above, to the
bit; values outside count as -1 or 1. Gymnasium has no such CartPole; it serves algorithms of continuous actions.
``torch_batchsim/CartPoleContinuous-v0`` is the same by an id, for scripts that take nothing else.

| observation | float32 [4]                     | unit  | range of a world that goes on            |
|-------------|---------------------------------|-------|------------------------------------------|
| 0           | position of the cart            | m     | -x_threshold .. x_threshold              |
| 1           | velocity of the cart            | m/s   | any                                      |
| 2           | angle of the pole, 0 is upright | rad   | -theta_threshold_radians .. +            |
| 3           | angular velocity of the pole    | rad/s | any                                      |

Reward: 1 for every step, the last included; with ``sutton_barto_reward`` 0, and -1 when the pole falls.
Start: all four uniform in [-0.05, 0.05).
End: terminated when position or angle leave their range; truncated at ``max_episode_steps`` steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Control,
    Environment,
    Option,
    Parameters,
    Reward,
    TaskGraph,
    component,
    f32,
    i32,
)  # fmt: skip
from torch_batchsim.draw import Scene

from .training import SWEEP, TRAINING


class CartState(Component):
    x: f32  # m
    x_dot: f32  # m/s
    theta: f32  # rad, 0 is upright
    theta_dot: f32  # rad/s


class Push(Component):
    direction: i32  # 0 left, 1 right


_CONTINUOUS = "actions are shares of the force, -1 to 1"


class CartPole(Environment):
    constants = Constants(continuous=Option(False, help=_CONTINUOUS))
    parameters = Parameters(
        gravity=Option(9.8, help="m/s^2"),
        masscart=Option(1.0, above=0.0, help="kg"),
        masspole=Option(0.1, above=0.0, help="kg"),
        length=Option(0.5, above=0.0, help="m, half the pole's length"),
        force_mag=Option(10.0, help="N"),
        tau=Option(0.02, above=0.0, help="s between two steps"),
        theta_threshold_radians=Option(12 * 2 * math.pi / 360, above=0.0, help="rad"),
        x_threshold=Option(2.4, above=0.0, help="m"),
        max_episode_steps=Option(500, minimum=1),
        sutton_barto_reward=Option(False, help="0 for every step and -1 for a fall, in place of 1 for every step"),
    )
    start = TaskGraph("start_episode")
    step = TaskGraph("push_cart", "judge")
    observation, action = "Cart.CartState", "Cart.Push.direction"
    clips_actions = True  # with continuous actions
    idle_action = "repeat"  # a cart is always pushed
    metadata = {"render_fps": 50}
    training = TRAINING
    sweep = SWEEP

    @property
    def archetypes(self) -> list[Archetype]:
        push = component("Push", direction=f32[1]) if self.constants.continuous else Push  # -1 left .. 1 right
        return [Archetype("Cart", CartState, push, Reward, count=1)]

    @property
    def action_space(self) -> Discrete | Box:
        return Box(-1.0, 1.0, (1,), np.float32) if self.constants.continuous else Discrete(2)

    @property
    def controls(self) -> list[Control]:
        left, right = ({0: -1.0}, {0: 1.0}) if self.constants.continuous else (0, 1)
        return [Control("Left", left, "ArrowLeft"), Control("Right", right, "ArrowRight")]

    @property
    def policies(self) -> dict[str, Callable[..., torch.Tensor]]:
        return {"balance": self._balance}

    def _balance(self, observations: torch.Tensor, infos: Mapping[str, Any]) -> torch.Tensor:
        """Push to where the pole falls, and a little to where the cart is too far out: a state feedback by hand."""
        x, x_dot, theta, theta_dot = observations.unbind(1)
        right = theta + 0.4 * theta_dot + 0.03 * x + 0.06 * x_dot > 0
        return torch.where(right, 1.0, -1.0)[:, None] if self.constants.continuous else right.long()

    @property
    def observation_space(self) -> Box:
        # Twice the thresholds, so that the observation that ends an episode is within the space.
        limits = (2 * self.parameters.x_threshold, np.inf, 2 * self.parameters.theta_threshold_radians, np.inf)
        high = np.array(limits, np.float32)
        return Box(-high, high, dtype=np.float32)

    def scene(self, world: Mapping[str, np.ndarray]) -> Scene:
        x, theta = float(world["Cart.CartState.x"][0]), float(world["Cart.CartState.theta"][0])
        scene = Scene(width=600, height=400, background=(255, 255, 255))
        scale = 600 / (2 * self.parameters.x_threshold)  # pixels per metre
        cart_x, cart_y = 300 + x * scale, 300
        scene.line((0, cart_y), (600, cart_y), 1, (0, 0, 0))
        scene.row("Cart")
        scene.rectangle((cart_x - 25, cart_y - 15), (cart_x + 25, cart_y + 15), (0, 0, 0))
        axle = (cart_x, cart_y - 7.5)
        if not math.isfinite(theta):  # a state that somebody has written: a cart without a pole
            return scene
        reach = 2 * self.parameters.length * scale
        tip = (axle[0] + reach * math.sin(theta), axle[1] - reach * math.cos(theta))
        scene.line(axle, tip, 10, (202, 152, 101))
        scene.circle(axle, 5, (129, 132, 203))
        return scene


class CartPoleContinuous(CartPole):
    """``CartPole(continuous=True)``."""

    constants = Constants(continuous=Option(True, choices=(True,), help=_CONTINUOUS))
