"""What closed formulas, or ordinary differential equations solved in float64, say of rigid bodies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torch_batchsim.bench.scenes import Body, matrices


def inertia(body: Body) -> np.ndarray:
    """``[3, 3]``: of a uniform solid about its centre of mass, in its own frame; a hull must be a prism along x."""
    (x, y, z), m = body.shape.size, body.mass
    if body.shape.kind == "sphere":
        return 0.4 * m * x * x * np.eye(3)
    if body.shape.kind == "box":
        return m / 3 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    if body.shape.kind == "capsule":  # a cylinder and two half spheres
        cylinder, ball = math.pi * x * x * 2 * z, 4 / 3 * math.pi * x**3
        density = m / (cylinder + ball)
        across = cylinder * (z * z / 3 + x * x / 4) + ball * (0.4 * x * x + z * z + 0.75 * x * z)
        along = cylinder * x * x / 2 + ball * 0.4 * x * x
        return density * np.diag([across, across, along])
    corners = body.shape.corners()
    assert body.shape.kind == "hull" and len(corners) == 6, "only boxes, balls, capsules and triangular prisms"
    second = corners.T @ corners / 24  # of a triangle: a twelfth of the sum over its corners
    second[0, 0] = np.mean(corners[:, 0] ** 2) / 3
    return m * (np.trace(second) * np.eye(3) - second)


def integrated(rate: Callable[[np.ndarray], np.ndarray], start: Any, seconds: float, steps: int = 1000) -> np.ndarray:
    """The solution of ``state' = rate(state)`` after ``seconds``, by Runge and Kutta's classical method."""
    return trajectory(rate, start, seconds, steps)[-1]


def trajectory(rate: Callable[[np.ndarray], np.ndarray], start: Any, seconds: float, steps: int) -> np.ndarray:
    """``[steps + 1, ...]``: the same on the way."""
    state, h = np.asarray(start, np.float64), seconds / steps
    states = [state]
    for _ in range(steps):
        a = rate(state)
        b = rate(state + h / 2 * a)
        c = rate(state + h / 2 * b)
        state = state + h / 6 * (a + 2 * b + 2 * c + rate(state + h * c))
        states.append(state)
    return np.stack(states)


def free_rotation(own_inertia: np.ndarray, spin: Any, seconds: float, steps: int = 1000) -> np.ndarray:
    """Angular velocities ``[steps + 1, 3]`` in the body's frame, without torque (Euler's equations)."""
    inverse = np.linalg.inv(own_inertia)
    return trajectory(lambda w: inverse @ -np.cross(w, own_inertia @ w), spin, seconds, steps)


def elliptic_quarter_turn(amplitude: float) -> float:
    """K(sin(amplitude / 2)), so that a pendulum's period is 4 K sqrt(I / (m g d)); by the arithmetic-geometric mean."""
    a, b = 1.0, math.cos(amplitude / 2)
    for _ in range(30):
        a, b = (a + b) / 2, math.sqrt(a * b)
    return math.pi / (2 * a)


def tilts(rotations: np.ndarray) -> np.ndarray:
    """Angles ``[...]`` between the bodies' z axes and the world's."""
    return np.arccos(np.clip(matrices(rotations)[..., 2, 2], -1, 1))


def spread_over(corners: np.ndarray, across: int = 60) -> np.ndarray:
    """Places ``[places, 2]``, evenly over a convex polygon whose corners ``[n, 2]`` go round counter-clockwise."""
    low, high = corners.min(0), corners.max(0)
    shares = (np.arange(across) + 0.5) / across
    grid = np.stack(np.meshgrid(*(low[:, None] + shares * (high - low)[:, None])), -1).reshape(-1, 2)
    along, away = np.roll(corners, -1, 0) - corners, grid[:, None] - corners
    return grid[(along[:, 0] * away[..., 1] - along[:, 1] * away[..., 0] >= 0).all(1)]


def slowed_by_friction(
    corners: np.ndarray, deceleration: float, velocity: Any, spin: float, step: float = 1e-3
) -> np.ndarray:
    """A plate that slides and spins on a plane, under even pressure, until it rests.

    Args:
        corners: ``[n, 2]`` of the convex plate, about its middle, counter-clockwise, m.
        deceleration: of one that slides only, m/s^2.
        velocity, spin: at the start, m/s and rad/s.
        step: of the integration, s.

    Returns:
        ``[steps, 6]``: place, angle, velocity, spin after each step.
    """
    places, rows = spread_over(corners), []
    place, angle, velocity = np.zeros(2), 0.0, np.array(velocity, np.float64)
    moment = (places**2).sum(1).mean()  # of 1 kg
    while np.hypot(*velocity) > 0.003 or abs(spin) > 0.01:
        x, y = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) @ places.T
        slip = velocity[:, None] + spin * np.array([-y, x])
        push = -deceleration * slip / np.sqrt((slip**2).sum(0) + 1e-10)
        velocity = velocity + step * push.mean(1)
        spin += step * (x * push[1] - y * push[0]).mean() / moment
        place, angle = place + step * velocity, angle + step * spin
        rows.append((*place, angle, *velocity, spin))
    return np.array(rows)
