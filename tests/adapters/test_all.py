"""All adapters: their environment is given in the same way, and they refuse the same by one clear sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import pytest
from libraries_of_others import adapter as part_of
from support import COMPILED

from torch_batchsim.adapters.records import ADAPTERS, CARTPOLE, OVERCOOKED, Adapter, Interface
from torch_batchsim.bench import adapters as bench
from torch_batchsim.vector.vector_env import TorchVectorEnv

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # of Tianshou's few loops
CLOSED = {"tianshou": AssertionError}  # the library's own; all others raise gymnasium's


class Made(NamedTuple):
    """A class of an adapter. Without ``bare`` it is given the options with which CartPole fits it."""

    record: Adapter
    interface: Interface
    bare: bool = False

    def __str__(self) -> str:
        return self.interface.name

    def make(self, env: Any, **options: Any) -> Any:
        """One of this environment."""
        arguments = {**({} if self.bare else self.record.options), **options}
        cls = getattr(self.record.load(), self.interface.name)
        if not self.interface.config:
            return cls(env=env, **arguments)
        return cls({"env": env, **({"num_envs": 1} if "num_worlds" not in self.interface.fixed else {}), **arguments})


MADE = [
    Made(record, interface)
    for record in ADAPTERS.values()
    for interface in record.interfaces
    if interface.name != "PettingZooAECEnv"  # whose agents take turns: CartPole's do not
]


@pytest.fixture(params=MADE, ids=str)
def adapter(request: pytest.FixtureRequest) -> Made:
    """Each whose library is installed."""
    part_of(request.param.record.module, "play")
    return request.param


@pytest.fixture(params=ADAPTERS.values(), ids=str)
def record(request: pytest.FixtureRequest) -> Adapter:
    """Likewise."""
    part_of(request.param.module, "play")
    return request.param


def refusal(make: Callable[[], Any], *errors: type[Exception]) -> str:
    """The sentence of the error, which is one line that another library has not changed."""
    with pytest.raises(errors) as caught:
        make()
    message = str(caught.value)
    assert type(caught.value) in errors and "\n" not in message and not message.endswith(".")
    return message


def test_short_names_ids_and_declared_environments_are_taken(adapter: Made) -> None:
    declared, bare = COMPILED["cartpole"](**adapter.record.options), adapter._replace(bare=True)
    for made in (adapter.make("cartpole"), adapter.make(CARTPOLE, max_episode_steps=7), bare.make(declared)):
        assert type(made.vector_env) is TorchVectorEnv
        assert made.vector_env.environment.name == "CartPole" and made.vector_env.num_worlds == 1
        made.close()


def test_environments_that_are_made_already(adapter: Made) -> None:
    """Some adapters take them, and no options beside; the others report that they make their own."""
    made, bare = gymnasium.make_vec(CARTPOLE, num_envs=2, **adapter.record.options), adapter._replace(bare=True)
    if adapter.interface.takes_made:
        assert bare.make(made).vector_env is made
        message = refusal(lambda: bare.make(made, device="cpu"), TypeError)
        assert "made already" in message and message.endswith("got device")
        others = gymnasium.make_vec("CartPole-v1", vectorization_mode="sync")
        assert "a declared environment or a TorchVectorEnv" in refusal(lambda: bare.make(others), TypeError)
    else:
        assert "needs an id or a declared environment, got TorchVectorEnv(" in refusal(
            lambda: bare.make(made), TypeError
        )
    by_agent = gymnasium.make_vec(OVERCOOKED, num_worlds=1, by_agent=True)
    assert "needs an id" in refusal(lambda: bare.make(by_agent), TypeError)


def test_foreign_ids_are_refused(adapter: Made) -> None:
    message = refusal(lambda: adapter.make("CartPole-v1"), ValueError)
    near = "there is no environment 'CartPole-v1' (did you mean 'cartpole'?)"
    assert message.startswith(f"{near}; known are: ant, atari, cartpole, cartpolecontinuous, hanabi")
    message = refusal(lambda: adapter.make("phys2d/CartPole-v1"), ValueError)
    assert message == "phys2d/CartPole-v1 was not registered by torch_batchsim.register"
    message = refusal(lambda: adapter.make("torch_batchsim/Foo-v0"), ValueError)
    assert message.startswith("there is no environment 'torch_batchsim/Foo-v0' (did you mean 'torch_batchsim/")


def refused_arguments(interface: Interface) -> set[str]:
    """Arguments of the vector environment that its user cannot give."""
    names = {"by_agent", *interface.fixed}
    if interface.counts or "num_worlds" in interface.fixed:
        names |= {"num_envs", "num_worlds"}
    return names - {"num_envs"} if interface.config else names  # which RLlib gives to all


def test_arguments_that_it_decides_are_refused(adapter: Made) -> None:
    for argument in refused_arguments(adapter.interface):
        message = refusal(lambda argument=argument: adapter.make(CARTPOLE, **{argument: "other"}), TypeError)
        assert message.startswith(f"{adapter} takes no {argument}: ") and message.endswith(", got 'other'")


def test_unknown_options_are_refused(adapter: Made) -> None:
    message = refusal(lambda: adapter.make(CARTPOLE, max_episode_step=7), TypeError)
    assert message.startswith("CartPole got an unexpected keyword argument 'max_episode_step' (did you mean")
    allowed = message.partition("it has: ")[2].split(", ")
    assert "max_episode_steps" in allowed and "render_mode" in allowed
    assert not refused_arguments(adapter.interface) & {*allowed}
    bare = adapter._replace(bare=True)
    message = refusal(lambda: bare.make(COMPILED["cartpole"](), max_episode_steps=7), TypeError)
    assert message == "options go with an id, got the declared CartPole and max_episode_steps"


def test_a_closed_environment_says_so(record: Adapter) -> None:
    env, step, actions = record.load().play(record.environment, record.rows or 2, **record.options)
    step(env, actions[0])
    env.close()
    with pytest.raises(CLOSED.get(record.module, gymnasium.error.ClosedEnvironmentError)):
        step(env, actions[0])


@pytest.mark.parametrize("name", bench.CONTENDERS)
def test_the_benchmark_measures_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for record in ADAPTERS.values():
        if name.startswith(record.library):
            part_of(record.module, "play")
    short = ["--num-envs", "8", "--seconds", "0.01", "--runs", "1", "--json", str(tmp_path / "figures.json")]
    bench.main([name, *short])
    assert name in capsys.readouterr().out


def test_envpool_says_the_same() -> None:
    """Its arguments are EnvPool's; what it makes is not one vector environment."""
    from torch_batchsim.adapters import envpool

    assert "there is no environment 'CartPole-v1'" in refusal(lambda: envpool.make("CartPole-v1"), ValueError)
    message = refusal(lambda: envpool.make("phys2d/CartPole-v1"), ValueError)
    assert message == "phys2d/CartPole-v1 was not registered by torch_batchsim.register"
    for unknown in ({"by_agent": True}, {"autoreset_mode": "Disabled"}, {"max_episode_step": 7}):
        message = refusal(lambda unknown=unknown: envpool.make("cartpole", **unknown), TypeError)
        assert message.startswith(f"CartPole got an unexpected keyword argument {next(iter(unknown))!r}")
