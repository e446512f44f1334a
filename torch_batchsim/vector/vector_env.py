"""The gymnasium vector environment over a simulator: tensors in, tensors out, in the simulator's own memory."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..base.modes import in_plain_torch, not_compiled
from ..base.names import suggestion
from ..declare.environment import Environment, FixedOptions
from ..declare.options import FIXED_ARGUMENTS
from ..declare.run_options import RunKeywords, RunOptions
from ..errors import WorldFault
from ..memory.inputs import checked_device, checked_options, checked_seed
from ..run.actions import ActionInput
from ..run.host_checks import without_choice
from ..run.legal import legal_actions
from ..run.simulator import Simulator
from ..run.trace import Trace
from ..run.tuning import TuneReport
from . import rendering, rows
from .masked_spaces import masked
from .results import Observation, Results, collected, copied, named_outputs
from .step_infos import StepInfos, complete
from .vector_inputs import agents_per_world, checked_reset_mask, number_of_worlds

if TYPE_CHECKING:
    from typing_extensions import Unpack

_OUTPUTS = ("torch", "numpy")
_KEPT = (
    "single_action_space", "single_observation_space", "single_critic_space", "action_space", "observation_space",
    "metadata", "spec", "closed", "_np_random", "_np_random_seed", "has_begun", "_of_rows",
)  # fmt: skip


@not_compiled
class TorchVectorEnv(FixedOptions, VectorEnv):
    """A gymnasium ``VectorEnv`` whose rows are the agents of all worlds.

    Args:
        environment: the declaration, options included.
        num_envs: rows; a multiple of the agents per world. Row ``r`` is agent ``r % num_agents`` of world
            ``r // num_agents``. Or give ``num_worlds`` instead.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        autoreset_mode: a ``gymnasium.vector.AutoresetMode`` or its value; ``SAME_STEP`` by default.
        final_obs: deliver ``infos["final_obs"]`` (``SAME_STEP`` only).
        output: ``"torch"``, or ``"numpy"`` for arrays (CPU only); then each key of infos has gymnasium's mask ``_key``.
        copy: None: ``step`` returns the simulator's memory, in two sets that take turns. A result stays as it is until
            the step after the next one (of ``reset`` until the second reset after it), and as long as the caller holds
            it, a view of it, an array, or a loss that needs it for its gradient: other memory takes its turn then.
            ``True`` returns copies; with ``False`` there is one set only, which every call writes to, and likewise a
            result that is bound is written to whoever holds it.
        render_mode: ``"rgb_array"``, ``"ansi"`` or None; ``metadata["render_modes"]`` has those of the environment.
        render_worlds: ``render`` draws each of the first so many worlds once; None: a picture for each row.
        **run: how its simulator runs: ``executor``, ``num_threads``, ``checks`` and so on, see
            ``declare.run_options.RunOptions``.

    Attributes: ``sim`` (the ``Simulator``; its tensors may be written between steps), ``device``, ``num_worlds``,
    ``num_agents`` (per world), ``autoreset_mode``, ``output``, ``copy`` and ``copies`` (whether results are copies),
    ``delivers_final`` (whether infos have ``final_obs``), ``has_begun`` (whether it has been reset), ``episode_steps``
    (int32 ``[rows]``, read and assigned); and, each None if the environment has none, ``action_mask`` (bool ``[rows,
    n]``), ``active`` (bool ``[rows]``), ``team`` (integers ``[rows]``) and ``single_critic_space`` (a Dict of the infos
    that are for a centralised critic).

    ``step`` returns observations ``[rows, ...]`` (or a dict of them), rewards float32 ``[rows]``, terminations and
    truncations bool ``[rows]`` (of a row's world, or of the agent's own end), and infos: the environment's own,
    ``action_mask``, ``active`` and ``team`` where there are such. With ``SAME_STEP`` each row of ``final_obs`` and
    ``final_info`` holds the row's last values before a new episode began: where ``_final_obs`` is true those of the
    episode that ended, elsewhere those of this step, as they are when it is first read: read it before you change
    observations in place. (Tensors that are bound for them are written where it is true.)
    """

    @in_plain_torch
    def __init__(
        self,
        environment: Environment,
        num_envs: int | None = None,
        *,
        num_worlds: int | None = None,
        device: str | torch.device = "cpu",
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        final_obs: bool = True,
        output: str = "torch",
        copy: bool | None = None,
        render_mode: str | None = None,
        render_worlds: int | None = None,
        **run: Unpack[RunKeywords],
    ) -> None:
        self.closed = True  # until it is whole
        options = RunOptions.of(run, TorchVectorEnv)
        self._arguments = {"final_obs": final_obs, "copy": copy}
        if output not in _OUTPUTS:
            raise ValueError(f"output must be 'torch' or 'numpy', got {output!r}")
        if not isinstance(final_obs, bool):
            raise TypeError(f"final_obs must be True or False, got {final_obs!r}")
        if copy is not None and not isinstance(copy, bool):
            raise TypeError(f"copy must be True, False or None (two sets of outputs that take turns), got {copy!r}")
        agents = agents_per_world(environment)
        rendering.check_render_mode(environment, render_mode)
        worlds = number_of_worlds(num_envs, num_worlds, agents)
        if output == "numpy" and checked_device(device).type != "cpu":
            raise ValueError(f"output='numpy' needs device='cpu', got device={str(device)!r}")
        self.sim = Simulator(
            environment,
            worlds,
            device,
            autoreset=autoreset_mode,
            keep_final=final_obs,
            output_sets=2 if copy is None else 1,
            **options,
        )
        self.environment, self.device = environment, self.sim.device
        self.num_worlds, self.num_agents, self.num_envs = worlds, agents, worlds * agents
        self.autoreset_mode = self.sim.autoreset
        self.render_mode, self.render_worlds = render_mode, rendering.checked_render_worlds(render_worlds)
        rows.check_counters(self.sim.program)
        self.metadata = {
            "render_modes": rendering.render_modes(environment),
            "render_fps": 30,
            **environment.metadata,
            "autoreset_mode": self.autoreset_mode,
        }
        self.single_action_space = deepcopy(self.sim.program.action_space)  # with a random stream of its own
        self.single_observation_space = deepcopy(self.sim.program.observation_space)
        self.single_critic_space = deepcopy(self.sim.program.critic_space)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        if "action_mask" in self.sim.program.info:
            self.single_action_space, self.action_space = map(masked, (self.single_action_space, self.action_space))
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.output, self.copy, self.copies = output, copy, bool(copy)
        self._needs_conversion = self.copies or output == "numpy"
        self.has_begun, self._of_rows = False, {}
        self._actions = ActionInput(self.sim.program, self.sim.memory, rows.OF_A_SINGLE_ROW)
        self.delivers_final = final_obs and self.autoreset_mode is AutoresetMode.SAME_STEP
        self._outputs = self.sim.memory.outputs
        self._fix_options(environment)
        self.closed = False

    # ---- the contract ------------------------------------------------------------------------------------------------

    @in_plain_torch
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin new episodes and return ``(observations, infos)``.

        Args:
            seed: ``None`` goes on with the present seed (the first reset draws one from the system).
            options: ``{"reset_mask": bool tensor or array}`` of shape ``[rows]`` (all agents of a world alike) or
                ``[worlds]`` resets those worlds only. And what the environment has as ``reset_options`` for the
                episodes that begin: tensors, arrays, lists or numbers, for all worlds alike or ``[worlds, ...]``, of
                which rows of other worlds do not count.
        """
        self.check_open()
        options = checked_options(options, ("reset_mask", *self.environment.reset_options))
        mask = checked_reset_mask(options.pop("reset_mask", None), self.num_worlds, self.num_agents, self.device)
        if mask is not None and not self.has_begun:
            raise gymnasium.error.ResetNeeded("the first reset must be of all worlds; call reset() without reset_mask")
        seed = checked_seed(seed)
        try:
            self.sim.reset(mask, seed=seed, options=options)
        except WorldFault:  # the other worlds have begun, and the faulty ones can be reset alone
            self._begin(seed)
            raise
        self._begin(seed)
        results = self._results()
        observations, infos = self.observations, dict(results.infos)
        if self._needs_conversion:
            return self._converted(observations), self._masked(self._converted(infos))
        return observations, infos

    def hold(self, options: Mapping[str, Any] | None, mask: torch.Tensor | np.ndarray | None = None) -> None:
        """Let all later episodes begin with ``options``, those of autoreset too, until others are held.

        Args:
            options: of the environment's ``reset_options``, as for ``reset``; ``None`` releases what is held.
            mask: bool ``[rows]`` or ``[worlds]``: of these worlds only.

        See ``Simulator.hold``. Raises ValueError or TypeError before anything has changed.
        """
        self.check_open()
        self.sim.hold(options, checked_reset_mask(mask, self.num_worlds, self.num_agents, self.device, "mask"))

    def step(
        self, actions: torch.Tensor | np.ndarray
    ) -> tuple[Observation, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advance all worlds by one step.

        Args:
            actions: ``[rows]`` integers (Discrete), ``[rows, k]`` integers (MultiDiscrete) or floats (Box); a torch
                tensor on ``device``, or a numpy array. On CPU a value outside the action space raises ValueError and
                nothing changes; on CUDA it is a fault of its world (``WorldFault``, raised later) and the lowest legal
                value takes its place. Rows that ``active`` marks as inactive may hold anything, NaN too: their
                systems see the legal value nearest to 0 (in a bound action column too). Of an environment with
                ``clips_actions`` any finite value of a Box is taken.
        """
        if not self.has_begun:  # nor has a closed one
            self.check_open()
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        try:
            if not self.sim.step_plainly(actions):
                actions = self._actions.checked(actions)
                illegal = self.sim.act_and_step(actions)
                if illegal >= 0:
                    self._actions.refuse(actions, illegal)
        except WorldFault as fault:
            if fault.stepped:
                fault.outputs = self.step_results()
            raise
        return self.step_results()

    def step_results(self) -> tuple[Observation, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """The results of the last ``step`` or ``reset`` as ``step`` returns them; nothing steps."""
        present = self._outputs.present.results or self._results()
        infos = StepInfos(present.step_infos)  # dicts are the caller's own
        if self.delivers_final:
            infos.results = present
        step = present.step
        if present.has_keys:
            step = dict(step[0]), *step[1:]
        return self._step_converted((*step, infos)) if self._needs_conversion else (*step, infos)

    def render(self) -> tuple[np.ndarray, ...] | tuple[str, ...] | None:
        """A picture uint8 ``[height, width, 3]``, or a text with "ansi", of each row: that of its world.

        With ``render_worlds`` (also an attribute) of each of the first so many worlds. Raises ValueError where it is
        None and there are more than 64 worlds.
        """
        self.check_open()
        if self.render_mode is None:
            modes = " or ".join(f"render_mode={mode!r}" for mode in rendering.render_modes(self.environment))
            remedy = f"make the environment with {modes}" if modes else f"{self.environment.name} has none"
            gymnasium.logger.warn(f"render() without a render_mode; {remedy}")
            return None
        self.check_ready("render()")
        return rendering.frames(self.sim, self.num_agents, self.render_mode, self.render_worlds)

    def render_world(self, world: int) -> np.ndarray | str:
        """A picture ``uint8 [height, width, 3]`` of one world, also without a ``render_mode``; a text with "ansi"."""
        self.check_open()
        self.check_ready("render_world()")
        if not isinstance(world, (int, np.integer)) or not 0 <= world < self.num_worlds:
            raise ValueError(f"world must be an integer from 0 to {self.num_worlds - 1}, got {world!r}")
        return rendering.draw_world(self.sim, world, self.render_mode or "rgb_array")

    def close_extras(self, **kwargs: Any) -> None:
        """Forget that a reset has been: a closed environment refuses everything."""
        self.has_begun = False

    # ---- where outputs go --------------------------------------------------------------------------------------------

    @in_plain_torch
    def bind(
        self,
        *,
        observations: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        rewards: torch.Tensor | None = None,
        terminations: torch.Tensor | None = None,
        truncations: torch.Tensor | None = None,
        final_obs: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        actions: torch.Tensor | None = None,
        **infos: torch.Tensor | None,
    ) -> None:
        """Let outputs go to the given tensors: the next ``step`` or ``reset`` writes there, and returns them.

        Each tensor is contiguous and has the shape, dtype and device of what ``step`` returns. Other keywords are names
        of infos, such as ``action_mask``. Nothing is copied: results of the last call stay where they are until then.
        Only ``actions``, the action column, moves at once. For a rollout with a place for each step see ``bind_slots``.
        """
        self.check_open()
        flags, final = (terminations, truncations), self.delivers_final
        given = named_outputs(self.sim.program, observations, final_obs, rewards, *flags, infos, final)
        if actions is not None:
            given[self.sim.program.action.name] = actions
        self.sim.memory.bind(given)

    @in_plain_torch
    def bind_slots(
        self,
        *,
        observations: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        rewards: torch.Tensor | None = None,
        terminations: torch.Tensor | None = None,
        truncations: torch.Tensor | None = None,
        final_obs: torch.Tensor | Mapping[str, torch.Tensor] | None = None,
        **infos: torch.Tensor | None,
    ) -> None:
        """Prepare slots for outputs: tensors ``[slots, rows, ...]``, contiguous, the same number of slots each.

        ``select_slot(t)`` lets the next ``step`` write to slot ``t`` of all of them; slot 0 is selected at first. State
        does not move, and nothing is copied. Resets do not write to slots. Other keywords are names of infos::

            env.bind_slots(observations=storage.observations[1:], rewards=storage.rewards)
            for t in range(len(storage.rewards)):
                env.select_slot(t)
                env.step(actions)  # writes storage.observations[t + 1] and storage.rewards[t]

        ``unbind`` ends it. Raises TypeError or ValueError before anything has changed: of shapes and dtypes that do
        not fit, of memory that outputs would share, and while other slots are bound.
        """
        self.check_open()
        flags, final = (terminations, truncations), self.delivers_final
        given = named_outputs(self.sim.program, observations, final_obs, rewards, *flags, infos, final)
        self.sim.memory.bind_slots(given)

    def select_slot(self, slot: int) -> None:
        """Let the next ``step`` write to this slot of ``bind_slots``. Raises IndexError."""
        self._outputs.select(slot)

    def unbind(self) -> None:
        """Let all outputs go to the simulator's own memory again, from the next ``step`` or ``reset`` on."""
        self.check_open()
        self._outputs.unbind()

    def __len__(self) -> int:
        """Number of rows."""
        return self.num_envs

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in rows.OF_VEC_ENV]

    # ---- masks and samples -------------------------------------------------------------------------------------------

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
        self.check_ready("action_masks(): until then no mask is known")
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
            self.check_ready("sample_actions(): until then no mask is known")
            self._check_choices(mask)
            numbers = self.action_space.np_random.integers(1, 2**31, tuple(mask.shape), dtype=np.int32)
            drawn = legal_actions(space, mask, torch.from_numpy(numbers).to(mask.device))
        drawn = drawn.to(self.device, None if isinstance(space, Box) else torch.int64)
        return drawn.numpy() if self.output == "numpy" else drawn

    def _check_choices(self, mask: torch.Tensor) -> None:
        """Raise ValueError on CPU where a row that acts has no legal action; a checked build reports a fault."""
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

    # ---- names -------------------------------------------------------------------------------------------------------

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

    # ---- steps of episodes -------------------------------------------------------------------------------------------

    @property
    def episode_steps(self) -> torch.Tensor | np.ndarray:
        """Steps of the episodes under way, int32 ``[rows]``, a copy: 0 where an episode has just begun.

        An array with "numpy".

        Assign integers ``[rows]`` (the agents of a world alike) or ``[worlds]`` to change the counts of all worlds.
        Time limits follow them: an episode of at most ``n`` steps is truncated by the step that makes its count ``n``,
        or by the next one where it is greater. Observations that show the time follow with the next step. A world draws
        its random numbers by its count: where it is set back, it draws the same ones again. Raises TypeError or
        ValueError before anything has changed, and waits for the device on CUDA.
        """
        steps = rows.episode_steps(self.sim, self.num_agents)
        return steps.numpy() if self.output == "numpy" else steps

    @episode_steps.setter
    def episode_steps(self, steps: Any) -> None:
        self.check_ready("episode_steps are written")
        rows.set_episode_steps(self.sim, self.num_agents, steps)

    # ---- attributes by row, as gymnasium.vector.SyncVectorEnv has them -----------------------------------------------

    def get_attr(self, name: str, *indices: NoReturn) -> tuple[Any, ...]:
        """An attribute of each row, as ``gymnasium.vector.SyncVectorEnv.get_attr``: a tuple of ``num_envs``.

        - ``set_attr`` of that name: the given values.
        - An attribute of this environment: of a tensor ``[rows, ...]`` (``"action_mask"``, ``"active"``, ``"team"``,
          ``"episode_steps"``) each row has its entry; ``"action_space"`` and ``"observation_space"`` are those of one
          row; anything else is the same for all rows.
        - An option of the environment (``"max_episode_steps"``), or another attribute of its declaration: the same.

        Methods are called, as ``call`` does. Raises AttributeError for an unknown name.
        """
        rows.refuse_indices("get_attr", indices)
        return self.call(name)

    def has_attr(self, name: str) -> bool:
        """Whether ``get_attr`` knows the name."""
        is_public = not name.startswith("_") and name not in rows.OF_ALL
        return name in self._of_rows or (is_public and rows.is_known(self, name))

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
        found = rows.attribute(self, name)
        return rows.by_row(found(*args, **kwargs) if callable(found) else found, self.num_envs)

    def set_attr(self, name: str, values: list[Any] | tuple[Any, ...] | Any, *indices: NoReturn) -> None:
        """Set an attribute of each row, as ``gymnasium.vector.SyncVectorEnv.set_attr``.

        Args:
            name: ``"episode_steps"``, or a new name, which ``get_attr`` then knows and nothing else does.
            values: a list or tuple with an entry for each row, or one value for all.

        Raises ValueError for another number of values, AttributeError for what cannot be set: options and all other
        attributes, which are those of the whole batch.
        """
        rows.refuse_indices("set_attr", indices)
        values = tuple(values) if isinstance(values, (list, tuple)) else (values,) * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(f"set_attr needs one value, or one for each of {self.num_envs} rows, got {len(values)}")
        if name == "episode_steps":
            self.episode_steps = torch.as_tensor(np.asarray(values))
        elif name in FIXED_ARGUMENTS or rows.is_known(self, name):
            raise AttributeError(
                f"set_attr cannot set {name!r}, which is of the whole batch: options are given when the environment is "
                "made, and state is written through env.unwrapped.sim.tensor(name)"
            )
        else:
            self._of_rows[name] = values

    # ---- beyond the contract -----------------------------------------------------------------------------------------

    def checked_actions(self, actions: Any) -> torch.Tensor:
        """``actions`` as a tensor that ``step`` takes as it is; TypeError or ValueError for shapes, dtypes, devices.

        ``step`` checks whether values are in the action space.
        """
        return self._actions.checked(actions)

    def by_world(self, tensor: torch.Tensor) -> torch.Tensor:
        """``[rows, ...]`` as a view ``[worlds, agents, ...]``."""
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"by_world needs a torch tensor, got {type(tensor).__name__}")
        if tensor.shape[:1] != (self.num_envs,):
            raise ValueError(
                f"by_world needs a tensor with a row for each agent of each world: {self.num_envs}, got shape "
                f"{list(tensor.shape)}"
            )
        return tensor.view(self.num_worlds, self.num_agents, *tensor.shape[1:])

    def ended_worlds(self) -> torch.Tensor | np.ndarray:
        """Worlds whose episode the last step has ended, or that stand still since: bool ``[worlds]``, a copy.

        An array with "numpy".

        With DISABLED it is what ``reset`` takes as ``reset_mask``. Flags of rows say as much only where agents have no
        ends of their own.
        """
        self.check_open()
        ended = self.sim.tensor("World.terminated") | self.sim.tensor("World.truncated")
        return ended.numpy() if self.output == "numpy" else ended

    def check_faults(self) -> None:
        """Raise ``WorldFault`` if systems have reported faults. On CUDA waits for the device."""
        self.check_open()
        self.sim.check_faults()

    def tune(self, seconds: float = 5.0) -> TuneReport:
        """Measure how steps are run best here and run them so, see ``Simulator.tune``. Needs a reset before."""
        self.check_open()
        return self.sim.tune(seconds)

    def tracing(self, capacity: int = 1 << 20) -> AbstractContextManager[Trace]:
        """Write down when each task of each step in the with-block runs, see ``Simulator.tracing``."""
        self.check_open()
        return self.sim.tracing(capacity)

    def state_dict(self) -> dict[str, Any]:
        """All there is to restore this environment exactly."""
        self.check_open()
        return self.sim.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore ``state_dict``. Raises CheckpointError, with nothing changed, if it is not of such an environment."""
        self.check_open()
        self.sim.load_state_dict(state)
        self.has_begun = bool(state["started"])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as its arguments, the state of all worlds, and the random streams of its spaces.

        The copy goes on as this one would. Its outputs are in memory of its own, whatever was bound here. Tensors are
        bytes: torch's pickler of processes would send file descriptors, which can be opened once.
        """
        names = ("output", "autoreset_mode", "render_mode", "render_worlds", "device", "num_worlds")
        run = replace(self.sim.run_options, _library=None, _loader=None)
        arguments = {**self._arguments, **run, **{name: getattr(self, name) for name in names}}
        kept = {name: getattr(self, name) for name in _KEPT}
        return _restored, (type(self), self.environment, arguments, pickle.dumps((self.sim.state_dict(), kept)))

    # ---- inside ------------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ``ClosedEnvironmentError`` after ``close``."""
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError("this environment is closed; make a new one")

    def check_ready(self, what: str) -> None:
        """Raise ``ResetNeeded`` before the first reset; ``what`` needs one."""
        if not self.has_begun:
            raise gymnasium.error.ResetNeeded(f"call reset() before {what}")

    @in_plain_torch
    def _results(self) -> Results:
        """The results of ``reset`` and ``step`` in the present place of outputs; made once for each place."""
        places = self._outputs.present
        if places.copied:
            places.originals = places.originals or collected(self.sim, places, self.delivers_final)
            return copied(places.originals)
        if places.results is None:
            places.results = collected(self.sim, places, self.delivers_final)
            places.watch()
        return places.results

    @property
    def observations(self) -> Observation:
        """Observations of the last ``step`` or ``reset``: ``[rows, ...]`` or a dict of them, without a copy."""
        results = self._results()
        return dict(results.observations) if results.has_keys else results.observations

    @property
    def infos(self) -> dict[str, Any]:
        """Infos as the last ``step`` or ``reset`` returned them, but for final values: tensors, without a copy."""
        return dict(self._results().infos)

    @property
    def action_mask(self) -> torch.Tensor | None:
        """Legal actions, bool ``[rows, n]``, as the last ``step`` or ``reset`` returned, or None without masks."""
        return self._results().infos.get("action_mask")

    @property
    def active(self) -> torch.Tensor | None:
        """Which rows take part, bool ``[rows]``, as the last ``step`` or ``reset`` returned; None if all always do."""
        return self._results().infos.get("active")

    @property
    def team(self) -> torch.Tensor | None:
        """The team of each row, integers ``[rows]``, or None if the environment has no teams."""
        return self._results().infos.get("team")

    def _frames_of_rows(self) -> tuple[Any, ...]:
        self.check_ready("render()")
        if self.render_mode is None:
            raise AttributeError("render needs an environment that is made with a render_mode")
        return rendering.frames(self.sim, self.num_agents, self.render_mode, None)

    def _converted(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._converted(part) for key, part in dict.items(value)}
        if self.output == "numpy":
            array = value.numpy()
            return array.copy() if self.copies else array
        return value.clone()

    def _step_converted(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        present = results[-1].results if self.delivers_final else None
        if self.copies and present is not None:
            complete(present, "final_obs")
            complete(present, "final_info")
            present = None
        *parts, infos = (self._converted(part) for part in results)
        infos = StepInfos(self._masked(infos))
        infos.results = present
        return (*parts, infos)

    def _masked(self, infos: dict[str, Any]) -> dict[str, Any]:
        """As arrays infos have gymnasium's masks too: ``_key`` says in which rows ``key`` is something."""
        if self.output == "numpy":
            every = np.ones(self.num_envs, dtype=bool)
            for key in [key for key in infos if not key.startswith("_") and f"_{key}" not in infos]:
                infos[f"_{key}"] = every
        return infos

    def _begin(self, seed: int | None) -> None:
        super().reset(seed=seed)  # numpy's own generator
        self.has_begun = True


def _restored(
    cls: type[TorchVectorEnv],
    environment: Environment,
    arguments: dict[str, Any],
    contents: bytes,
) -> TorchVectorEnv:
    made = cls(environment, **arguments)
    state, kept = pickle.loads(contents)
    made.sim.load_state_dict(state)
    for name, value in kept.items():
        setattr(made, name, value)
    return made


for _name in rows.OF_VEC_ENV:
    setattr(TorchVectorEnv, _name, rows.OfVecEnv(_name))
