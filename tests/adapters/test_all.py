"""All adapters: their environment is given in the same way, and they refuse the same by one clear sentence."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import pytest
from libraries_of_others import REQUIRED, SKIPPED
from support import COMPILED

from torch_batchsim.vector.vector_env import TorchVectorEnv

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # of Tianshou's few loops
CARTPOLE, OVERCOOKED = "torch_batchsim/CartPole-v0", "torch_batchsim/Overcooked-v0"


class Adapter(NamedTuple):
    """How to make one.

    ``cls`` of ``module`` takes the environment as ``env``, or in the dict ``config``. ``fixed`` is what it decides.
    """

    library: str
    module: str
    cls: str
    fixed: dict[str, Any]
    takes_made: bool = False
    needs: dict[str, Any] = {}
    config: bool = False

    def __str__(self) -> str:
        return self.cls

    def make(self, env: Any, **options: Any) -> Any:
        """One of this environment."""
        made = getattr(importlib.import_module(f"torch_batchsim.adapters.{self.module}"), self.cls)
        arguments = {**self.needs, **options}
        return made({"env": env, **arguments}) if self.config else made(env=env, **arguments)


SAME_STEP, DISABLED = {"autoreset_mode": "NextStep"}, {"autoreset_mode": "NextStep", "copy": True, "device": "cuda"}
ONE_WORLD = {**DISABLED, "num_worlds": 2, "num_envs": 2, "num_threads": 2, "output": "numpy"}
ADAPTERS = [
    Adapter("stable_baselines3", "stable_baselines3", "StableBaselinesVecEnv", SAME_STEP, True),
    Adapter("torchrl", "torchrl", "TorchRLEnv", {"output": "numpy"}, True),
    Adapter("skrl", "skrl", "SkrlEnv", {**SAME_STEP, "output": "numpy"}, True),
    Adapter("skrl", "skrl", "SkrlMultiAgentEnv", {**SAME_STEP, "output": "numpy"}, True),
    Adapter("rsl_rl", "rsl_rl", "RslRlEnv", {**SAME_STEP, "output": "numpy"}, True, {"continuous": True}),
    Adapter("rl_games", "rl_games", "RlGamesEnv", {**SAME_STEP, "output": "numpy", "num_worlds": 2, "num_envs": 2}),
    Adapter("tianshou", "tianshou", "TianshouVectorEnv", {**DISABLED, "output": "numpy"}),
    Adapter("pufferlib", "pufferlib", "PufferLibEnv", {**DISABLED, "output": "numpy", "final_obs": True}),
    Adapter("ray.rllib", "rllib", "RLlibVectorEnv", {**DISABLED, "output": "torch"}, False, {"num_envs": 1}, True),
    Adapter("ray.rllib", "rllib", "RLlibMultiAgentEnv", {**DISABLED, "num_worlds": 2}, False, {}, True),
    Adapter("pettingzoo", "pettingzoo", "PettingZooParallelEnv", ONE_WORLD),
    Adapter("pettingzoo", "pettingzoo", "parallel_env", ONE_WORLD),
    Adapter("dm_env", "dm_env", "DmEnvironment", ONE_WORLD),
]


@pytest.fixture(params=ADAPTERS, ids=str)
def adapter(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    """Each whose library is installed; all, where none may be left out."""
    try:
        importlib.import_module(request.param.library)
    except ModuleNotFoundError:
        if REQUIRED:
            raise
        pytest.skip(f"{SKIPPED}: test_all.py needs {request.param.library}; see .ci/test_adapters")
    return request.param


def refusal(make: Callable[[], Any], *errors: type[Exception]) -> str:
    """The sentence of the error, which is one line that another library has not changed."""
    with pytest.raises(errors) as caught:
        make()
    said = str(caught.value)
    assert type(caught.value) in errors and "\n" not in said and not said.endswith(".")
    return said


def test_short_names_ids_and_declared_environments_are_taken(adapter: Adapter) -> None:
    declared = COMPILED["cartpole"](**{name: True for name in adapter.needs if name == "continuous"})
    needs = adapter._replace(needs={name: value for name, value in adapter.needs.items() if name != "continuous"})
    for made in (adapter.make("cartpole"), adapter.make(CARTPOLE, max_episode_steps=7), needs.make(declared)):
        assert type(made.vector_env) is TorchVectorEnv
        assert made.vector_env.environment.name == "CartPole" and made.vector_env.num_worlds == 1
        made.close()


def test_environments_that_are_made_already(adapter: Adapter) -> None:
    """Some adapters take them, and no options beside; the others say that they make their own."""
    made = gymnasium.make_vec(CARTPOLE, num_envs=2, **{name: True for name in adapter.needs if name == "continuous"})
    bare = adapter._replace(needs={} if adapter.takes_made else adapter.needs)
    if adapter.takes_made:
        assert bare.make(made).vector_env is made
        said = refusal(lambda: bare.make(made, device="cpu"), TypeError)
        assert said.endswith("got an environment that is made already, and options for it: device")
        others = gymnasium.make_vec("CartPole-v1", vectorization_mode="sync")
        assert "a declared environment or a TorchVectorEnv" in refusal(lambda: bare.make(others), TypeError)
    else:
        assert "needs an id or a declared environment, got TorchVectorEnv(" in refusal(
            lambda: bare.make(made), TypeError
        )
    by_agent = gymnasium.make_vec(OVERCOOKED, num_worlds=1, by_agent=True)
    assert "needs an id" in refusal(lambda: bare.make(by_agent), TypeError)


def test_foreign_ids_are_refused(adapter: Adapter) -> None:
    said = refusal(lambda: adapter.make("CartPole-v1"), ValueError)
    near = "there is no environment 'CartPole-v1' (did you mean 'cartpole'?)"
    assert said.startswith(f"{near}; known are: cartpole, hanabi")
    said = refusal(lambda: adapter.make("phys2d/CartPole-v1"), ValueError)
    assert said == "phys2d/CartPole-v1 was not registered by torch_batchsim.register"
    said = refusal(lambda: adapter.make("torch_batchsim/Foo-v0"), ValueError)
    assert said.startswith("there is no environment 'torch_batchsim/Foo-v0' (did you mean 'torch_batchsim/")


def test_arguments_that_it_decides_are_refused(adapter: Adapter) -> None:
    name = "PettingZooParallelEnv" if adapter.cls == "parallel_env" else adapter.cls
    for argument, value in {"by_agent": True, **adapter.fixed}.items():
        said = refusal(lambda argument=argument, value=value: adapter.make(CARTPOLE, **{argument: value}), TypeError)
        assert said.startswith(f"{name} takes no {argument}: ") and said.endswith(f", got {value!r}")


def test_unknown_options_are_refused(adapter: Adapter) -> None:
    said = refusal(lambda: adapter.make(CARTPOLE, max_episode_step=7), TypeError)
    assert said.startswith("CartPole got an unexpected keyword argument 'max_episode_step' (did you mean")
    allowed = said.partition("it has: ")[2].split(", ")
    assert "max_episode_steps" in allowed and "render_mode" in allowed
    assert not {"by_agent", *adapter.fixed} & {*allowed}
    options = adapter._replace(needs={k: v for k, v in adapter.needs.items() if k != "continuous"})
    said = refusal(lambda: options.make(COMPILED["cartpole"](), max_episode_steps=7), TypeError)
    assert said == "options go with an id; CartPole has been declared with its own, got max_episode_steps too"


def test_envpool_says_the_same() -> None:
    """Its arguments are EnvPool's; what it makes is not one vector environment."""
    from torch_batchsim.adapters import envpool

    assert "there is no environment 'CartPole-v1'" in refusal(lambda: envpool.make("CartPole-v1"), ValueError)
    said = refusal(lambda: envpool.make("phys2d/CartPole-v1"), ValueError)
    assert said == "phys2d/CartPole-v1 was not registered by torch_batchsim.register"
    for unknown in ({"by_agent": True}, {"autoreset_mode": "Disabled"}, {"max_episode_step": 7}):
        said = refusal(lambda unknown=unknown: envpool.make("cartpole", **unknown), TypeError)
        assert said.startswith(f"CartPole got an unexpected keyword argument {next(iter(unknown))!r}")
