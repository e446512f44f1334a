"""Many-world simulation for reinforcement learning: an entity-component-system in torch tensors.

Importing this registers the environments with gymnasium::

    import gymnasium, torch_batchsim
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=1024, device="cpu")
"""

from pathlib import Path as _Path

from ._version import __version__

# In a source checkout envs/, train/ and csrc/ lie beside this folder; installed, they lie in it (see setup.py).
_checkout = _Path(__file__).resolve().parent.parent
if (_checkout / "setup.py").is_file() and (_checkout / "csrc" / "tbs").is_dir():
    __path__.append(str(_checkout))

from .base import openmp  # noqa: E402

openmp.wait_briefly()  # before anything imports torch

import gc as _gc  # noqa: E402

_collects = _gc.isenabled()
_gc.disable()  # the modules of torch stay: to look for garbage among them takes a tenth of its import
try:
    import torch as _torch  # noqa: F401
finally:
    if _collects:
        _gc.enable()

from .base import extras  # noqa: E402

extras.check_gymnasium()

from . import math as math  # noqa: E402
from .base.constant import Constant  # noqa: E402
from .declare.checks import Checks  # noqa: E402
from .declare.controls import Control  # noqa: E402
from .declare.environment import Environment  # noqa: E402
from .declare.fields import Struct, between  # noqa: E402
from .declare.library import Library  # noqa: E402
from .declare.options import Constants, Option, Parameters  # noqa: E402
from .declare.python_systems import (  # noqa: E402
    Bits,
    Block,
    Episode,
    Random,
    Row,
    Rows,
    Warp,
    World,
    Worlds,
    copy_elements,
    function,
    no_row,
    system,
    write_bits,
    write_packed_bits,
    zeros,
)
from .declare.schema import AgentEnd, Archetype, Bundle, Component, Repeat, Reward, TaskGraph, component  # noqa: E402
from .envs.atari.games import GAMES as _GAMES  # noqa: E402
from .envs.atari.games import class_name as _class_name  # noqa: E402
from .errors import (  # noqa: E402
    BuildError,
    BuildWarning,
    CheckpointError,
    Fault,
    Finding,
    GroupFault,
    SchemaError,
    StepInterrupted,
    StepTimeout,
    SystemCrash,
    WorldFault,
)
from .replay import Recorder, Recording, RecordingError  # noqa: E402
from .run.simulator import Simulator  # noqa: E402
from .run.trace import Trace  # noqa: E402
from .run.tuning import TuneReport  # noqa: E402
from .types import (  # noqa: E402
    Entity,
    boolean,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    quat,
    u8,
    u16,
    u32,
    u64,
    vec2,
    vec3,
    vec4,
)
from .vector.agents_env import AgentsVectorEnv  # noqa: E402
from .vector.grouped_env import GroupedEnv  # noqa: E402
from .vector.registration import (  # noqa: E402
    environment_ids,
    find_id,
    make,
    make_vec,
    option_names,
    register,
    sweep_ranges,
    training_settings,
)
from .vector.vector_env import TorchVectorEnv  # noqa: E402
from .vector.wrappers import EpisodeStatistics, TorchVectorWrapper  # noqa: E402
from .watch import Viewer  # noqa: E402

__all__ = [
    "AgentEnd",
    "AgentsVectorEnv",
    "Archetype",
    "Bits",
    "Block",
    "BuildError",
    "BuildWarning",
    "Bundle",
    "CheckpointError",
    "Checks",
    "Component",
    "Constant",
    "Constants",
    "Control",
    "Entity",
    "Environment",
    "Episode",
    "EpisodeStatistics",
    "Fault",
    "Finding",
    "GroupFault",
    "GroupedEnv",
    "Library",
    "Option",
    "Parameters",
    "Random",
    "Recorder",
    "Recording",
    "RecordingError",
    "Repeat",
    "Reward",
    "Row",
    "Rows",
    "SchemaError",
    "Simulator",
    "StepInterrupted",
    "StepTimeout",
    "Struct",
    "SystemCrash",
    "TaskGraph",
    "TorchVectorEnv",
    "TorchVectorWrapper",
    "Trace",
    "TuneReport",
    "Viewer",
    "Warp",
    "World",
    "WorldFault",
    "Worlds",
    "__version__",
    "between",
    "boolean",
    "component",
    "copy_elements",
    "environment_ids",
    "f32",
    "f64",
    "find_id",
    "function",
    "i8",
    "i16",
    "i32",
    "i64",
    "make",
    "make_vec",
    "no_row",
    "option_names",
    "quat",
    "register",
    "sweep_ranges",
    "system",
    "training_settings",
    "u8",
    "u16",
    "u32",
    "u64",
    "vec2",
    "vec3",
    "vec4",
    "write_bits",
    "write_packed_bits",
    "zeros",
]

register(
    "torch_batchsim/CartPole-v0", "torch_batchsim.envs.cartpole:CartPole", max_episode_steps=500, reward_threshold=475
)
register(
    "torch_batchsim/CartPoleContinuous-v0",
    "torch_batchsim.envs.cartpole:CartPoleContinuous",
    max_episode_steps=500,
    reward_threshold=475,
)
register("torch_batchsim/Swarm-v0", "torch_batchsim.envs.swarm:Swarm", max_episode_steps=300)
register("torch_batchsim/Overcooked-v0", "torch_batchsim.envs.overcooked:Overcooked")
register("torch_batchsim/HideSeek-v0", "torch_batchsim.envs.hideseek:HideSeek", max_episode_steps=240)
register("torch_batchsim/Hanabi-v0", "torch_batchsim.envs.hanabi:Hanabi")
register("torch_batchsim/Ant-v0", "torch_batchsim.envs.ant:Ant", max_episode_steps=1000)
register("torch_batchsim/TagContinuous-v0", "torch_batchsim.envs.tag:TagContinuous")
register("torch_batchsim/TagGrid-v0", "torch_batchsim.envs.tag:TagGrid")
for _game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"):
    register(f"torch_batchsim/MinAtar-{_game}-v0", f"torch_batchsim.envs.minatar:{_game}", max_episode_steps=5000)
register("torch_batchsim/Atari-v0", "torch_batchsim.envs.atari:Atari")
for _game in map(_class_name, _GAMES):
    register(f"torch_batchsim/{_game}-v0", f"torch_batchsim.envs.atari:{_game}", listed=False)
