"""One record for each adapter: its library, the classes that users make, and how it is compared.

A new adapter is a module here with a function ``play``, its record below, its extra in pyproject.toml, a section of
docs/use_with.md, an entry of docs/ecosystem.md and a test file. The module takes the arguments that it decides and the
error for a missing library from the record; ``bench adapters``, the tests of all adapters and ``.ci/test_adapters``
take the rest. ``python -m torch_batchsim.adapters.records`` prints the versions that tests run, as pip's requirements.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from gymnasium.vector import AutoresetMode

from ..base.extras import needed

CARTPOLE, OVERCOOKED = "torch_batchsim/CartPole-v0", "torch_batchsim/Overcooked-v0"


class Played(NamedTuple):
    """An environment behind an adapter, after its reset with seed 0, and how to step it.

    ``step(env, actions[i])`` steps ``env`` or a copy of it, and returns the results.
    """

    env: Any
    step: Callable[[Any, Any], Any]
    actions: Sequence[Any]


@dataclass(frozen=True)
class Interface:
    """A class of an adapter that users make.

    Attributes:
        name: of the class, in its module.
        fixed: arguments of ``TorchVectorEnv`` that it decides. Users cannot give them, and an environment that is made
            already must have them.
        takes_made, takes_wrapped: whether ``env`` may be a ``TorchVectorEnv``, and one with wrappers around it.
        needs_final: with SAME_STEP the environment must deliver ``infos["final_obs"]``.
        counts: the argument that is the number of worlds, where the library names it; ``num_envs`` and ``num_worlds``
            are refused then.
        config: arguments come in one dict.
    """

    name: str
    fixed: Mapping[str, Any]
    takes_made: bool = False
    takes_wrapped: bool = False
    needs_final: bool = False
    counts: str | None = None
    config: bool = False


@dataclass(frozen=True)
class Adapter:
    """The adapter to one library.

    Attributes:
        library: as docs/ecosystem.md names it.
        module: of this package. Its ``play(environment, num_envs, **options)`` returns a ``Played``.
        imports: modules of the library without which it cannot be imported, each with the name of its package.
        extra: of torch_batchsim, which brings them; "" for none.
        tested: packages with the versions that the tests run.
        interfaces: classes that take their environment as all adapters do.
        environment, options: with which it is compared; of ``num_envs`` rows, or of ``rows`` where that is given.
        bare: further arguments of the vector environment that it is compared with.
    """

    library: str
    module: str
    imports: Mapping[str, str]
    extra: str
    tested: Mapping[str, str]
    interfaces: tuple[Interface, ...]
    environment: str = CARTPOLE
    options: Mapping[str, Any] = field(default_factory=dict)
    bare: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None

    def __str__(self) -> str:
        return self.module

    def interface(self, name: str) -> Interface:
        """That of a class."""
        return next(interface for interface in self.interfaces if interface.name == name)

    def require(self) -> None:
        """Raise MissingExtra where the library is missing."""
        needed(*self.imports, extra=self.extra, packages=self.imports)

    def installed(self) -> bool:
        """Whether the library is; does not import it."""
        return all(importlib.util.find_spec(name.partition(".")[0]) for name in self.imports)

    def load(self) -> ModuleType:
        """The adapter's module. Raises MissingExtra."""
        return importlib.import_module(f".{self.module}", __package__)


def _fixed(mode: AutoresetMode, **others: Any) -> Mapping[str, Any]:
    return {"autoreset_mode": mode, **others}


# Tensors stay in torch, and the library leaves autoreset to the environment.
_SAME_STEP = _fixed(AutoresetMode.SAME_STEP, output="torch")
_ONE_WORLD = _fixed(
    AutoresetMode.DISABLED, num_worlds=1, num_threads=1, copy=False, device="cpu", output="torch"
)  # seen through NumPy arrays
_NUMPY = {"output": "numpy"}

_RECORDS = (
    Adapter(
        "TorchRL", "torchrl", {"tensordict": "tensordict", "torchrl": "torchrl"}, "torchrl",
        {"torchrl": "0.14.1", "tensordict": "0.14.3"},
        (Interface("TorchRLEnv", {"output": "torch"}, takes_made=True, needs_final=True),),
    ),
    Adapter(
        "PettingZoo", "pettingzoo", {"pettingzoo": "pettingzoo"}, "pettingzoo",
        {"pettingzoo": "1.27.0", "supersuit": "3.11.0"},
        (Interface("PettingZooParallelEnv", _ONE_WORLD), Interface("PettingZooAECEnv", _ONE_WORLD)),
        environment=OVERCOOKED, bare=_NUMPY, rows=2,
    ),
    Adapter(
        "dm_env", "dm_env", {"dm_env": "dm-env"}, "dm-env", {"dm-env": "1.6"},
        (Interface("DmEnvironment", _ONE_WORLD),), bare=_NUMPY, rows=1,
    ),
    Adapter(
        "Stable-Baselines3", "stable_baselines3", {"stable_baselines3": "stable-baselines3"}, "stable-baselines3",
        {"stable-baselines3": "2.9.2", "sb3-contrib": "2.9.2"},
        (
            Interface(
                "StableBaselinesVecEnv", _fixed(AutoresetMode.SAME_STEP),
                takes_made=True, takes_wrapped=True, needs_final=True,
            ),
        ),
        bare=_NUMPY,
    ),
    Adapter(
        "rl_games", "rl_games", {"rl_games": "rl-games"}, "rl-games", {"rl-games": "1.6.5"},
        (Interface("RlGamesEnv", _SAME_STEP, counts="num_actors"),),
    ),
    Adapter(
        "rsl_rl", "rsl_rl", {"rsl_rl": "rsl-rl-lib", "tensordict": "tensordict"}, "rsl-rl", {"rsl-rl-lib": "5.5.1"},
        (Interface("RslRlEnv", _SAME_STEP, takes_made=True, takes_wrapped=True),), options={"continuous": True},
    ),
    Adapter(
        "skrl", "skrl", {"skrl": "skrl"}, "skrl", {"skrl": "2.1.1"},
        (
            Interface("SkrlEnv", _SAME_STEP, takes_made=True, takes_wrapped=True),
            Interface("SkrlMultiAgentEnv", _SAME_STEP, takes_made=True, takes_wrapped=True),
        ),
    ),
    Adapter(
        "EnvPool", "envpool", {}, "", {"envpool": "1.2.5"}, (),  # the library only to compare: it is not needed
        bare={**_NUMPY, "copy": True, "autoreset_mode": "NextStep"},
    ),
    Adapter(
        "RLlib", "rllib", {"ray": "ray[rllib]", "ray.rllib": "ray[rllib]"}, "rllib", {"ray": "2.60.0"},
        (
            Interface(
                "RLlibVectorEnv", _fixed(AutoresetMode.NEXT_STEP, copy=True, device="cpu", output="numpy"), config=True
            ),
            Interface("RLlibMultiAgentEnv", _ONE_WORLD, config=True),
        ),
        bare=_NUMPY,
    ),
    Adapter(
        "Tianshou", "tianshou", {"tianshou": "tianshou"}, "tianshou", {"tianshou": "2.0.1"},
        # With one set of outputs they stay where they are, and the adapter copies only the rows of a call.
        (Interface("TianshouVectorEnv", _fixed(AutoresetMode.DISABLED, copy=False, device="cpu", output="torch")),),
        bare=_NUMPY,
    ),
    Adapter(
        "PufferLib", "pufferlib", {"pufferlib": "pufferlib-core"}, "pufferlib", {"pufferlib-core": "3.0.19"},
        (
            Interface(
                "PufferLibEnv",
                _fixed(AutoresetMode.SAME_STEP, copy=False, device="cpu", final_obs=False, output="torch"),
            ),
        ),
        bare=_NUMPY,
    ),
    Adapter(
        "JAX", "jax", {"jax": "jax"}, "jax", {"jax": "0.10.2"},
        # A step never writes to memory that arrays of JAX have, which are immutable.
        (
            Interface("JaxEnv", {"output": "torch", "copy": None}, takes_made=True),
            Interface("GymnaxEnv", _fixed(AutoresetMode.SAME_STEP, output="torch", copy=None), takes_made=True),
        ),
    ),
)  # fmt: skip
ADAPTERS = {record.module: record for record in _RECORDS}

if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for record in _RECORDS for name, version in record.tested.items()))
