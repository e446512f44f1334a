"""PettingZoo: one world as a ``ParallelEnv``, or an ``AECEnv`` where agents take turns; NumPy in and out.

>>> from torch_batchsim.adapters.pettingzoo import env, parallel_env
>>> kitchen = parallel_env("torch_batchsim/Overcooked-v0", layout="cramped_room")
>>> game = env("torch_batchsim/Hanabi-v0", players=3)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete

from ..base.extras import needed
from ..declare.environment import Environment
from ..declare.spaces import for_each, masks_of, one_after_another, space_of_masks
from ..memory.inputs import checked_count
from ..vector.vector_env import TorchVectorEnv
from ..vector.vector_inputs import agent_names
from .one_world import OneWorld, actions_of, mapped, takes_turns, unknown_agent, with_turns
from .records import ADAPTERS, Interface, Played

RECORD = ADAPTERS["pettingzoo"]
RECORD.require()

from pettingzoo import AECEnv, ParallelEnv  # noqa: E402
from pettingzoo.utils.conversions import parallel_to_aec  # noqa: E402


def parallel_env(
    env: str | Environment, *, render_mode: str | None = None, max_cycles: int | None = None, **options: Any
) -> PettingZooParallelEnv:
    """All agents of a world act at once, as those that ``parallel_env`` of PettingZoo's modules makes.

    Args:
        env: an id such as ``"torch_batchsim/Overcooked-v0"``, or a declared environment.
        render_mode: one of the environment's, or ``"human"``: each step prints the text, or shows the picture.
        max_cycles: steps after which all agents are truncated, beside the environment's own limit.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own. If it has ``turns``, that is
            ``"all"`` by default: all players are agents.
    """
    return PettingZooParallelEnv(env, render_mode=render_mode, max_cycles=max_cycles, **options)


def env(
    env: str | Environment, *, render_mode: str | None = None, max_cycles: int | None = None, **options: Any
) -> AECEnv:
    """Agents act one after another, as in what ``env`` of PettingZoo's modules makes; arguments as ``parallel_env``.

    Where agents take turns in the environment itself (``turns="all"``) an ``PettingZooAECEnv``, else PettingZoo's own
    conversion of the parallel environment.
    """
    arguments = {"render_mode": render_mode, "max_cycles": max_cycles, **options}
    chosen = env.constants if isinstance(env, Environment) else with_turns(env, options)
    if takes_turns(env) and chosen["turns"] == "all":
        return PettingZooAECEnv(env, **arguments)
    return parallel_to_aec(parallel_env(env, **arguments))


class _OfAgents:
    """The parts of both kinds of environments: agents, their spaces, observations, infos, state and pictures.

    Where the environment has masks of actions, an observation is ``{"observation": ..., "action_mask": int8 [n]}``, for
    ``action_space(agent).sample(mask)``; of a ``MultiDiscrete`` a tuple of masks.
    """

    _interface: Interface

    def __init__(
        self, env: str | Environment, render_mode: str | None = None, max_cycles: int | None = None, **options: Any
    ) -> None:
        self.max_cycles = None if max_cycles is None else checked_count(max_cycles, "max_cycles")
        options = with_turns(env, options)
        human = render_mode == "human"
        self._world = world = OneWorld(env, self._interface, render_mode=None if human else render_mode, **options)
        vector = world.vector
        modes = vector.metadata["render_modes"]
        if human:
            if not modes:
                name = vector.environment.name
                raise ValueError(f"render_mode must be None because {name} has no pictures, got 'human'")
            vector.render_mode = "ansi" if "ansi" in modes else "rgb_array"
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {
            "name": f"{vector.environment.name.lower()}_v{vector.spec.version or 0 if vector.spec else 0}",
            "render_modes": [*modes, "human"] if modes else [],
            "render_fps": vector.metadata["render_fps"],
            "is_parallelizable": isinstance(self, ParallelEnv),
        }
        self.possible_agents = agent_names(world.agents)
        self.agents: list[str] = []
        self._number = {agent: i for i, agent in enumerate(self.possible_agents)}
        self._masked = vector.environment.action_mask is not None
        self.action_spaces = for_each(self.possible_agents, self._space_of_actions())
        self.observation_spaces = for_each(self.possible_agents, self._space_of_observations())
        self.state_space = one_after_another(world.observation_space, world.agents)
        self._steps = 0
        self._window: Any = None

    @property
    def vector_env(self) -> TorchVectorEnv:
        """The vector environment of one world, whose ``sim`` has the state."""
        return self._world.vector

    def _space_of_actions(self) -> gymnasium.Space:
        return self._world.action_space

    def _space_of_observations(self) -> gymnasium.Space:
        space = self._world.observation_space
        if not self._masked:
            return space
        return Dict({"observation": space, "action_mask": space_of_masks(self._space_of_actions())})

    # ---- the contract ----------------------------------------------------------------------------------------------

    def action_space(self, agent: str) -> gymnasium.Space:
        """Of one agent, with a random stream of its own; the same object each time. ValueError for unknown names."""
        return self.action_spaces[self._checked(agent)]

    def observation_space(self, agent: str) -> gymnasium.Space:
        """Of one agent, with a random stream of its own; the same object each time. ValueError for unknown names."""
        return self.observation_spaces[self._checked(agent)]

    def state(self) -> np.ndarray:
        """The observations of all possible agents one after the other, ``[n]``, without masks.

        Parts of an observation that is a dict follow each other by key, and are float32 if their dtypes differ.
        """
        self._check_ready("state")
        seen = self._world.observations
        parts = [seen[key] for key in sorted(seen)] if isinstance(seen, dict) else [seen]
        rows = [part.reshape(len(part), -1) for part in parts]
        return np.concatenate(rows, axis=1, dtype=self.state_space.dtype).reshape(-1)

    def render(self) -> np.ndarray | str | None:
        """A picture ``uint8 [height, width, 3]``, a text, or None with ``"human"``: shown or printed."""
        self._check_ready("render")
        drawn = self._world.render()
        if self.render_mode != "human":
            return drawn
        if isinstance(drawn, str):
            print(drawn)
        elif drawn is not None:
            self._show(drawn)
        return None

    def close(self) -> None:
        """Close the world, and the window if there is one."""
        if self._window is not None:
            from matplotlib import pyplot

            pyplot.close(self._window.figure)
            self._window = None
        self._world.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_window": None}

    def _checked(self, agent: Any) -> str:
        if agent not in self.possible_agents:
            raise unknown_agent(agent, self.possible_agents)
        return agent

    def _check_ready(self, call: str) -> None:
        self._world.vector.check_open()
        if self._world.observations is None:
            raise gymnasium.error.ResetNeeded(f"call reset() before {call}()")

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Reset the world. Unknown options only warn, because PettingZoo's checkers give some."""
        known = self._world.vector.environment.reset_options
        for name in options or {}:
            if name not in known:
                text = f"reset has no option {name!r}, and ignores it; it has: {', '.join(known) or 'no options'}"
                warnings.warn(text, UserWarning, stacklevel=4)
        self._world.reset(seed, {name: value for name, value in (options or {}).items() if name in known})
        self._steps = 0

    def _observations(self) -> list[Any]:
        """Of each possible agent, copied."""
        seen = self._world.observations
        rows = _rows_of_dict(seen, self._world.agents) if isinstance(seen, dict) else list(seen.copy())
        if not self._masked:
            return rows
        masks = masks_of(self._world.action_mask.astype(np.int8), self._space_of_actions())
        return [{"observation": row, "action_mask": mask} for row, mask in zip(rows, masks, strict=True)]

    def _infos(self, numbers: Iterable[int]) -> list[dict[str, Any]]:
        """Of these agents, copied: numbers, or arrays."""
        named = {name: a.tolist() if a.ndim == 1 else list(a.copy()) for name, a in self._world.infos.items()}
        return [{name: rows[i] for name, rows in named.items()} for i in numbers]

    def _out_of_time(self) -> bool:
        return self.max_cycles is not None and self._steps >= self.max_cycles

    def _show(self, picture: np.ndarray) -> None:
        needed("matplotlib")
        from matplotlib import pyplot

        if self._window is None:
            pyplot.ion()
            axes = pyplot.figure().add_subplot()
            axes.set_axis_off()
            self._window = axes.imshow(picture)
        self._window.set_data(picture)
        self._window.figure.canvas.draw_idle()
        self._window.figure.canvas.flush_events()


class PettingZooParallelEnv(_OfAgents, ParallelEnv):
    """A world whose agents act at once, see ``parallel_env``.

    ``agents`` holds those that act next. Who has an end of its own, or becomes inactive (terminated then), leaves it,
    and comes back with the next episode only, since PettingZoo's agents do not revive. Who is not there at the start
    and comes later enters it. When nobody is left, steps return empty dicts until ``reset``.
    """

    _interface = RECORD.interface("PettingZooParallelEnv")

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode and return ``(observations, infos)`` of all ``agents``."""
        self._begin(seed, options)
        active = self._world.active
        self._set_agents(range(self._world.agents) if active is None else np.flatnonzero(active).tolist())
        self._been = set(self._live)
        return self._by_agent(self._observations()), dict(zip(self.agents, self._infos(self._live), strict=True))

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Advance the world, and return the results of those in ``agents``, and of those that have come.

        ``actions`` has an entry for each of ``agents``: a number, array or list of the shape of its space, of integers
        unless that is a Box. Those of agents that have left are ignored. Raises TypeError or ValueError for others,
        before anything changes.
        """
        self._check_ready("step")
        if not self.agents:
            return {}, {}, {}, {}, {}
        self._act(actions)
        world = self._world
        world.step()
        self._steps += 1
        if world.active is not None and len(self._been) < world.agents:
            self._let_in(world.active)
        terminations, truncations = world.terminations.tolist(), world.truncations.tolist()
        if world.active is not None:
            for i in self._live:
                terminations[i] |= not (world.active[i] or truncations[i])
        if self._out_of_time():
            truncations = [True] * len(truncations)
        of_all = self._observations(), world.rewards.tolist(), terminations, truncations
        results = tuple(self._by_agent(part) for part in of_all)
        infos = dict(zip(self.agents, self._infos(self._live), strict=True))
        remaining = [i for i in self._live if not (terminations[i] or truncations[i])]
        if len(remaining) < len(self._live):
            self._set_agents(remaining)
        if self.render_mode == "human":
            self.render()
        return *results, infos

    def _set_agents(self, numbers: Iterable[int]) -> None:
        self._live = list(numbers)
        self.agents = [self.possible_agents[i] for i in self._live]

    def _let_in(self, active: np.ndarray) -> None:
        come = [i for i in np.flatnonzero(active).tolist() if i not in self._been]
        if come:
            self._been.update(come)
            self._set_agents(sorted((*self._live, *come)))

    def _by_agent(self, of_all: list[Any]) -> dict[str, Any]:
        if len(self._live) == len(of_all):
            return dict(zip(self.agents, of_all, strict=True))
        return {agent: of_all[i] for agent, i in zip(self.agents, self._live, strict=True)}

    def _act(self, actions: Mapping[str, Any]) -> None:
        """Write them where the world reads them. Raises TypeError or ValueError before that."""
        given, rows = actions_of(self.agents, actions, self._world.action_space, self._number), self._world.actions
        if len(self._live) < len(rows):
            rows[:] = self._world.any_actions()
            rows[self._live] = given
        else:
            rows[:] = given


class PettingZooAECEnv(_OfAgents, AECEnv):
    """A world whose agents take turns, one row each, see ``env``.

    The environment's masks define the turn: all others may only take the last action of the space, the no-op. Here they
    do not act, and spaces and masks lack that action. In ``max_cycles`` cycles each agent has so many turns.
    """

    _interface = RECORD.interface("PettingZooAECEnv")

    def __init__(
        self, env: str | Environment, render_mode: str | None = None, max_cycles: int | None = None, **options: Any
    ) -> None:
        super().__init__(env, render_mode, max_cycles, **options)
        space = self._world.action_space
        if not self._masked or not isinstance(space, Discrete):
            name = self._world.vector.environment.name
            raise ValueError(f"agents take turns by masks of a Discrete action space, which {name} lacks")
        self._no_op = int(space.start + space.n - 1)

    def _space_of_actions(self) -> gymnasium.Space:
        space = self._world.action_space
        return Discrete(space.n - 1, start=space.start) if isinstance(space, Discrete) else space

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begin an episode."""
        self._begin(seed, options)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = dict(zip(self.agents, self._infos(range(len(self.agents))), strict=True))
        self._skip_agent_selection = None
        self.agent_selection = self._whose_turn()

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The observation and results of the agent that acts next, see ``pettingzoo.AECEnv.last``."""
        self._check_ready("last")
        return super().last(observe)

    def observe(self, agent: str) -> Any:
        """``{"observation": ..., "action_mask": int8 [n]}``, a copy; agents that wait have no legal action."""
        self._check_ready("observe")
        i, world = self._number[self._checked(agent)], self._world
        mask = world.action_mask[i, :-1].astype(np.int8)
        return {"observation": mapped(lambda rows: rows[i].copy(), world.observations), "action_mask": mask}

    def step(self, action: Any) -> None:
        """Let ``agent_selection`` act; None if it has come to its end. Raises ValueError, and WorldFault."""
        self._check_ready("step")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not self.action_spaces[agent].contains(action):
            raise ValueError(f"the action of {agent} must be in {self.action_spaces[agent]}, got {action!r}")
        world = self._world
        world.actions[:] = self._no_op
        world.actions[self._number[agent]] = action
        world.step()
        self._steps += 1
        self._cumulative_rewards[agent] = 0.0
        self._note_results()
        self._accumulate_rewards()
        if not world.ended:
            self.agent_selection = self._whose_turn()
        self._deads_step_first()
        if self.render_mode == "human":
            self.render()

    def _note_results(self) -> None:
        world, numbers = self._world, [self._number[agent] for agent in self.agents]
        out_of_time = self._out_of_time()
        for of_agents, rows in (
            (self.rewards, world.rewards.tolist()),
            (self.terminations, world.terminations.tolist()),
            (self.truncations, [out_of_time or flag for flag in world.truncations.tolist()]),
            (self.infos, self._infos(range(world.agents))),
        ):
            of_agents.update((agent, rows[i]) for agent, i in zip(self.agents, numbers, strict=True))

    def _out_of_time(self) -> bool:
        return self.max_cycles is not None and self._steps >= self.max_cycles * self._world.agents

    def _whose_turn(self) -> str:
        free = np.flatnonzero(~self._world.action_mask[:, -1])
        if len(free) != 1:
            name = self._world.vector.environment.name
            raise ValueError(
                f"one agent must have other actions than the no-op, the last one; in {name} {len(free)} have: they do "
                "not take turns, so use parallel_env"
            )
        return self.possible_agents[free[0]]


def _rows_of_dict(seen: dict[str, np.ndarray], agents: int) -> list[dict[str, np.ndarray]]:
    copied = {key: part.copy() for key, part in seen.items()}
    return [{key: part[i] for key, part in copied.items()} for i in range(agents)]


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """One world of two agents or more, which begins anew when it has ended."""
    env = parallel_env(environment, **options)
    env.reset(seed=0)
    most = [space.n - 1 for space in env.action_spaces.values()]
    numbers = [[i % (n + 1) if j % 2 == 0 else n - i % (n + 1) for j, n in enumerate(most)] for i in range(16)]
    return Played(env, _stepped, [dict(zip(env.possible_agents, each, strict=True)) for each in numbers])


def _stepped(env: PettingZooParallelEnv, actions: dict[str, int]) -> tuple[Any, ...]:
    results = env.step(actions)
    if not env.agents:
        env.reset()
    return results
