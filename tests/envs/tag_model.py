"""Both environments of tag in NumPy, one world each, with the same bits; WarpDrive's classes by the same methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torch_batchsim.math import cos, sin

F = np.float32
Step = tuple[np.ndarray, np.ndarray, bool]  # observations, rewards, whether the episode is over


class GridModel:
    def __init__(self, start: dict[str, np.ndarray], o: dict[str, Any]):
        self.start, self.o, self.agents = start, o, o["num_taggers"] + 1

    def reset(self) -> np.ndarray:
        self.time, self.cells = 0, np.stack([self.start["x"], self.start["y"]], 1)
        return self.look()

    def step(self, actions: np.ndarray) -> Step:
        o, self.time = self.o, self.time + 1
        wanted = self.cells + np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])[actions]
        self.cells = wanted.clip(0, o["grid_length"])
        stopped = (wanted != self.cells).any(1)
        tagged = bool((self.cells[:-1] == self.cells[-1]).all(1).any())
        rewards = np.where(stopped, F(-o["wall_hit_penalty"]), F(0))
        step = o["step_cost_for_tagger"]
        rewards[:-1] += F(o["tag_reward_for_tagger"] if tagged else -step)
        rewards[-1] += F(-o["tag_penalty_for_runner"] if tagged else step)
        return self.look(), rewards, tagged or self.time == o["episode_length"]

    def look(self) -> np.ndarray:
        o, n, places = self.o, self.agents, self.cells.astype(F) / F(self.o["grid_length"])
        time, types = F(self.time) / F(o["episode_length"]), np.arange(n) == n - 1
        if o["use_full_observation"]:
            rows = [np.concatenate([places[:, 0], places[:, 1], types, np.arange(n) == i, [time]]) for i in range(n)]
            return np.array(rows, F)
        seen = np.full(n, n - 1)
        seen[-1] = ((self.cells[:-1] - self.cells[-1]) ** 2).sum(1).argmin()
        return np.column_stack([places, places[seen], types, np.full(n, time)]).astype(F)


class ContinuousModel:
    def __init__(self, start: dict[str, np.ndarray], o: dict[str, Any]):
        self.start, self.o, self.agents = start, o, o["num_taggers"] + o["num_runners"]
        self.tagger = np.arange(self.agents) < o["num_taggers"]
        skill = np.where(self.tagger, F(o["skill_level_tagger"]), F(o["skill_level_runner"]))
        self.limit = F(o["max_speed"]) * skill
        self.levels = [
            np.insert(np.linspace(F(o[f"min_{name}"]), F(o[f"max_{name}"]), o[f"num_{name}_levels"]), 0, 0).astype(F)
            for name in ("acceleration", "turn")
        ]

    def reset(self) -> np.ndarray:
        self.time, self.playing = 0, np.ones(self.agents, bool)
        self.x, self.y, self.heading = (self.start[name].astype(F) for name in ("x", "y", "heading"))
        self.speed, self.acceleration = np.zeros(self.agents, F), np.zeros(self.agents, F)
        return self.look()

    def step(self, actions: np.ndarray) -> Step:
        o, playing, length = self.o, self.playing.copy(), F(self.o["grid_length"])
        self.time += 1
        turned = np.fmod(self.heading + self.levels[1][actions[:, 1]], F(2 * np.pi))
        turned = np.where(turned < 0, turned + F(2 * np.pi), turned)
        acceleration = self.acceleration + self.levels[0][actions[:, 0]]
        speed = (self.speed + acceleration).clip(0, self.limit)
        inside = (speed > 0) & (speed < self.limit)
        self.heading, self.speed = np.where(playing, turned, F(0)), np.where(playing, speed, F(0))
        self.acceleration = np.where(playing & inside, acceleration, F(0))
        x, y = self.x + self.speed * cos(self.heading), self.y + self.speed * sin(self.heading)
        self.x, self.y = x.clip(0, length), y.clip(0, length)
        seen = self.look()
        rewards = np.where((x != self.x) | (y != self.y), F(o["edge_hit_penalty"]), F(0))
        rewards += np.where(self.tagger, F(o["step_penalty_for_tagger"]), F(o["step_reward_for_runner"]))
        rewards = np.where(playing, rewards, F(0))
        distances, count = self.distances(), o["num_taggers"]
        for runner in np.flatnonzero(playing & ~self.tagger):
            nearest = distances[runner, :count].argmin()
            if distances[runner, nearest] < F(o["tagging_distance"]) * length:
                rewards[runner] += F(o["tag_penalty_for_runner"])
                rewards[nearest] += F(o["tag_reward_for_tagger"])
                self.playing[runner] = not o["runner_exits_game_after_tagged"]
        last = self.time == o["episode_length"]
        rewards[self.playing & ~self.tagger & last] += F(o["end_of_game_reward_for_runner"])
        return seen, rewards, bool(last or not self.playing[count:].any())

    def distances(self) -> np.ndarray:
        x, y = self.x[:, None] - self.x, self.y[:, None] - self.y
        return np.sqrt(x * x + y * y)

    def look(self) -> np.ndarray:
        """Called before the tags of a step."""
        o, n = self.o, self.agents
        diagonal, speed = F(o["grid_length"]) * F(2**0.5), F(o["max_speed"])
        features = (
            (self.x, diagonal), (self.y, diagonal), (self.speed, speed), (self.acceleration, speed),
            (self.heading, F(2 * np.pi)),
        )  # fmt: skip
        full, distances = o["use_full_observation"], self.distances()
        m = n - 1 if full else o["num_other_agents_observed"]
        rows = np.zeros((n, 7 * m + 1), F)
        for i in range(n):
            others = np.array([j for j in range(n) if j != i and (full or self.playing[j])], int)
            if not full:
                others = others[np.argsort(distances[i, others], kind="stable")[:m]]
            view = rows[i, :-1].reshape(7, m)[:, : len(others)]
            if self.playing[i]:
                view[:5] = [(values[others] - values[i]) / unit for values, unit in features]
                rows[i, -1] = F(self.time) / F(o["episode_length"])
            if full or self.playing[i]:
                view[5:] = self.tagger[others], self.playing[others]
        return rows


class WarpDrive:
    """An environment of WarpDrive, in NumPy, with taggers first. Skips the test where it is not installed."""

    def __init__(self, kind: str, start: dict[str, np.ndarray], options: dict[str, Any]):
        names = {"x": "starting_location_x", "y": "starting_location_y", "heading": "starting_directions"}
        given = {names[name]: values.astype(float) for name, values in start.items()}
        module = {"grid": "tag_gridworld", "continuous": "tag_continuous"}[kind]
        cls = {"grid": "TagGridWorld", "continuous": "TagContinuous"}[kind]
        pytest.importorskip("gym")
        made = getattr(pytest.importorskip(f"example_envs.{module}.{module}"), cls)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np.random, "choice", lambda values, count, replace: values[:count])  # who is a tagger
            self.env = made(**given, **options)

    def reset(self) -> np.ndarray:
        return _rows(self.env.reset())

    def step(self, actions: np.ndarray) -> Step:
        seen, rewards, done, _ = self.env.step(dict(enumerate(actions)))
        return _rows(seen), _rows(rewards), bool(done["__all__"])


def _rows(by_agent: dict[int, Any]) -> np.ndarray:
    return np.array([by_agent[i] for i in range(len(by_agent))])
