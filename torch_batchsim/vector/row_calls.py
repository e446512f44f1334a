"""What trainers ask of a vector environment beyond ``reset`` and ``step``: masks, samples, attributes by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv

from ..base.names import suggestion
from ..run.host_checks import without_choice
from ..run.legal import legal_actions
from . import rendering
from .episode_steps import read, write

_OF_ONE_ROW = {"action_space": "single_action_space", "observation_space": "single_observation_space"}
_OF_ALL = (
    "reset", "step", "close", "close_extras", "bind", "bind_slots", "select_slot", "unbind", "load_state_dict", "tune",
    "tracing", "set_attr", "get_attr", "call",
)  # fmt: skip


class RowCalls(VectorEnv):
    """A part of ``TorchVectorEnv``: what it is asked for beside ``reset`` and ``step``."""

    def __len__(self) -> int:
        """Number of rows."""
        return self.num_envs

    # ---- masks and samples -----------------------------------------------------------------------------------------

    def action_masks(self) -> torch.Tensor | np.ndarray:
        """Legal actions as the last ``step`` or ``reset`` returned them, bool ``[rows, n]``; an array with "numpy".

        Of a MultiDiscrete action the choices of all parts stand side by side. Raises AttributeError where the
        environment has no masks: every action of the action space is legal there. Raises ResetNeeded before the first
        reset.
        """
        self.check_open()
        mask = self.action_mask
        if mask is None:
            raise AttributeError(
                f"{self.environment.name} has no action masks: every action of {self.single_action_space} is legal"
            )
        self.check_ready("action_masks(): nothing says yet which actions are legal")
        if self.copies:
            mask = mask.clone()
        return mask.numpy() if self.output == "numpy" else mask

    def get_action_masks(self) -> torch.Tensor | np.ndarray:
        """``action_masks``, by the name that rl_games asks for."""
        return self.action_masks()

    def sample_actions(self) -> torch.Tensor | np.ndarray:
        """Random actions of all rows that are legal now, ``[rows, ...]``; an array with "numpy".

        Every legal choice is equally likely, in each part of a MultiDiscrete action; without masks the draw is that of
        ``action_space.sample()``. Inactive rows get actions too. ``action_space.seed(seed)`` seeds the draws: they are
        the same on each device, and go on from call to call. Raises ResetNeeded before the first reset, where there are
        masks; on CPU ValueError where the mask of a row that acts allows nothing. On CUDA, where nothing waits for the
        device, and in a checked build, which reports a fault, such a row gets any action.
        """
        self.check_open()
        space, mask = self.single_action_space, self.action_mask
        if mask is None:
            drawn = torch.from_numpy(np.asarray(self.action_space.sample()))
        else:
            self.check_ready("sample_actions(): nothing says yet which actions are legal")
            self._check_choices(mask)
            numbers = self.action_space.np_random.integers(1, 2**31, tuple(mask.shape), dtype=np.int32)
            drawn = legal_actions(space, mask, torch.from_numpy(numbers).to(mask.device))
        drawn = drawn.to(self.device, None if isinstance(space, Box) else torch.int64)
        return drawn.numpy() if self.output == "numpy" else drawn

    def _check_choices(self, mask: torch.Tensor) -> None:
        """Raise ValueError on CPU where a row that acts has no legal action; a checked build has told it as a fault."""
        if self.device.type != "cpu" or self.sim.program.checks:
            return
        if isinstance(self.single_action_space, Discrete) and mask.any(1).all():
            return
        bad = without_choice(self.sim.program, self.sim.memory, mask, self.active)
        if bad:
            part, row = bad[0]
            world, agent = divmod(row, self.num_agents)
            of = f"world {world}" + (f", agent {agent}" if self.num_agents > 1 else "")
            which = f" in part {part}" if self.single_action_space.shape else ""
            raise ValueError(
                f"{of} has no legal action{which}: the mask of a row that acts must allow one; make it inactive, or "
                "end its episode"
            )

    # ---- names -----------------------------------------------------------------------------------------------------

    def observation_name(self, index: Sequence[int], key: str = "") -> str:
        """The field at an index of one row's observation: ``"Cart.CartState.theta"``, ``"Ship.View.drones[3, 1]"``.

        Args:
            index: into the observation of a row, or into the part of a dict that ``key`` names.

        Raises KeyError for a part that the observation does not have, ValueError for an index that it does not have.
        """
        columns = self.sim.program.observations
        if key not in columns:
            parts = "it is one Box, without parts" if "" in columns else f"its parts are {', '.join(columns)}"
            raise KeyError(f"the observation has no part {key!r}{suggestion(key, columns)}; {parts}")
        shape = columns[key].value_shape
        numbers = list(index) if isinstance(index, Iterable) else []
        if len(numbers) != len(shape) or not all(0 <= i < n for i, n in zip(numbers, shape, strict=True)):
            raise ValueError(
                f"index must have a number for each dimension of the observation's shape {list(shape)}, such as "
                f"{[0] * len(shape)}, got {index!r}"
            )
        return columns[key].element_name(index)

    # ---- steps of episodes -----------------------------------------------------------------------------------------

    @property
    def episode_steps(self) -> torch.Tensor | np.ndarray:
        """Steps of the episodes under way, int32 ``[rows]``, a copy: 0 where an episode has just begun.

        An array with "numpy".

        Assign integers ``[rows]`` (the agents of a world alike) or ``[worlds]`` to change the counts of all worlds.
        Time limits follow them: an episode of at most ``n`` steps is truncated by the step that makes its count ``n``,
        or by the next one where it is greater. Observations that tell the time follow with the next step. A world draws
        its random numbers by its count: where it is set back, it draws the same ones again. Raises TypeError or
        ValueError before anything has changed, and waits for the device on CUDA.
        """
        steps = read(self.sim, self.num_agents)
        return steps.numpy() if self.output == "numpy" else steps

    @episode_steps.setter
    def episode_steps(self, steps: Any) -> None:
        self.check_ready("episode_steps are written")
        write(self.sim, self.num_agents, steps)

    # ---- attributes by row, as gymnasium.vector.SyncVectorEnv has them ---------------------------------------------

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each row, as ``gymnasium.vector.SyncVectorEnv.get_attr``: a tuple of ``num_envs``.

        - ``set_attr`` of that name: what it was given.
        - An attribute of this environment: of a tensor ``[rows, ...]`` (``"action_mask"``, ``"active"``, ``"team"``,
          ``"episode_steps"``) each row has its entry; ``"action_space"`` and ``"observation_space"`` are those of one
          row; anything else is the same for all rows.
        - An option of the environment (``"max_episode_steps"``), or another attribute of its declaration: the same.

        Methods are called, as ``call`` does. Raises AttributeError for an unknown name.
        """
        return self.call(name)

    def has_attr(self, name: str) -> bool:
        """Whether ``get_attr`` knows the name."""
        return name in self._of_rows or (self._is_known(name) and not name.startswith("_") and name not in _OF_ALL)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method for each row, as ``gymnasium.vector.SyncVectorEnv.call``: a tuple of ``num_envs`` results.

        ``"render"`` gives each row the picture of its world. Other methods of this environment or of its declaration
        are called once: a tensor or array ``[rows, ...]`` that comes back is split, and all rows get anything else.
        Raises AttributeError for an unknown name, one that begins with ``_``, and what changes all rows: ``reset``,
        ``step``, ``close``, ``bind`` and the like.
        """
        if name in self._of_rows:
            return self._of_rows[name]
        if name == "render":
            return self._frames_of_rows()
        found = self._attribute(name)
        return self._split(found(*args, **kwargs) if callable(found) else found)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any) -> None:
        """Set an attribute of each row, as ``gymnasium.vector.SyncVectorEnv.set_attr``.

        Args:
            name: ``"episode_steps"``, or a new name, which ``get_attr`` then knows and nothing else does.
            values: a list or tuple with an entry for each row, or one value for all.

        Raises ValueError for another number of values, AttributeError for what cannot be set: options and all other
        attributes, which are those of the whole batch.
        """
        values = tuple(values) if isinstance(values, (list, tuple)) else (values,) * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"set_attr needs one value, or one for each of {self.num_envs} rows, got {len(values)}")
        if name == "episode_steps":
            self.episode_steps = torch.as_tensor(np.asarray(values))
        elif self._is_known(name):
            raise AttributeError(
                f"set_attr cannot set {name!r}, which is of the whole batch: options are given when the environment is "
                "made, and state is written through env.unwrapped.sim.tensor(name)"
            )
        else:
            self._of_rows[name] = values

    def _frames_of_rows(self) -> tuple[Any, ...]:
        self.check_ready("render()")
        if self.render_mode is None:
            raise AttributeError("render needs an environment that is made with a render_mode")
        return rendering.frames(self.sim, self.num_agents, self.render_mode, None)

    def _is_known(self, name: str) -> bool:
        declaration = self.environment
        options = {**declaration.constants, **declaration.parameters}
        return hasattr(self, name) or name in options or hasattr(declaration, name)

    def _attribute(self, name: str) -> Any:
        if name in _OF_ALL:
            some = 'reset(options={"reset_mask": mask}) resets some of them'
            remedy = some if name == "reset" else f"call env.{name}"
            raise AttributeError(f"{name}() is of all rows together; {remedy}")
        if name.startswith("_"):
            raise AttributeError(f"{name!r} is private; get_attr and call know public names only")
        declaration = self.environment
        if hasattr(self, _OF_ONE_ROW.get(name, name)):
            return getattr(self, _OF_ONE_ROW.get(name, name))
        for options in (declaration.constants, declaration.parameters):
            if name in options:
                return options[name]
        if hasattr(declaration, name):
            return getattr(declaration, name)
        raise AttributeError(f"neither {type(self).__name__} nor {declaration.name} has an attribute {name!r}")

    def _split(self, result: Any) -> tuple[Any, ...]:
        rows = self.num_envs
        if isinstance(result, dict) and result and all(_is_of_rows(part, rows) for part in result.values()):
            return tuple({key: part[row] for key, part in result.items()} for row in range(rows))
        return tuple(result) if _is_of_rows(result, rows) else (result,) * rows


def _is_of_rows(value: Any, rows: int) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray)) and tuple(value.shape[:1]) == (rows,)
