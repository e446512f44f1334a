"""Trainings that one process or several can do: `python rank_worker.py FOLDER CASE...` is one of several.

In the case "nan" process 1 meets NaN: FOLDER/nan-RANK.txt is the message of each process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from environments.melee import Melee
from environments.recall import Recall
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.train import NotFinite, Trainer
from torch_batchsim.train.algorithms import config_of
from torch_batchsim.train.base import ranks

from torch_batchsim import Environment, TorchVectorEnv

ROLLOUTS = 4
LOADED_AFTER = 2  # of them, where a case goes on from a state
SMALL = {"num_steps": 12, "num_minibatches": 4, "hidden_sizes": (8,), "total_steps": 1_000_000, "anneal_lr": False}
CASES: dict[str, tuple[Callable[[], Environment], int, dict[str, Any]]] = {
    "ppo": (CartPole, 8, {}),
    "box": (partial(CartPole, continuous=True), 8, {"norm_obs": True}),
    "few": (CartPole, 4, {"num_minibatches": 24, "target_kl": 0.02}),  # of two samples, at times of one process
    "scaled": (CartPole, 8, {"norm_obs": True, "norm_reward": True}),
    "a2c": (CartPole, 8, {"algorithm": "a2c", "norm_obs": True}),
    "gru": (Recall, 8, {"memory": "gru", "memory_size": 8}),
    "by_torch": (Recall, 8, {"memory": "gru", "memory_size": 8, "hidden_sizes": (), "target_kl": 0.02}),
    "teams": (Melee, 4, {"policies": "teams", "norm_obs": True}),  # whose fighters come and go
    "a2c_teams": (Melee, 4, {"algorithm": "a2c", "policies": "teams"}),
}


def trainer(case: str, own: ranks.Ranks = ranks.ALONE) -> Trainer:
    environment, worlds, settings = CASES[case]
    part = worlds // own.count
    env = TorchVectorEnv(environment(), num_worlds=part, first_world=own.rank * part)
    return Trainer(env, config_of(SMALL | settings | {"num_envs": env.num_envs * own.count}), own)


def trained(made: Trainer, rollouts: int) -> dict[str, Any]:
    """The state afterwards, of all worlds, and the last metrics."""
    for _ in range(rollouts):
        metrics = made.iterate()
    return {"state": made.state_dict(), "metrics": {n: v for n, v in metrics.items() if not n.startswith("time/")}}


def of_several(count: int, folder: Path, cases: Sequence[str]) -> None:
    """Trains in `count` processes; FOLDER/CASE.pt is what `trained` returns, and FOLDER/CASE-loaded.pt after going on
    from FOLDER/CASE-state.pt, where that is."""
    processes = started(count, [__file__, str(folder), *cases])
    try:
        assert [process.wait(timeout=120) for process in processes] == [0] * count
    finally:
        for process in processes:
            process.kill()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def started(count: int, arguments: Sequence[str], **settings: Any) -> list[subprocess.Popen[str]]:
    """Processes of Python that can meet, with the environment variables that torchrun gives them."""
    port = free_port()
    found = os.pathsep.join(path or "." for path in sys.path)  # as this process finds modules
    names = {"PYTHONPATH": found, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    names |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **names, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            text=True,
            **settings,
        )
        for rank in range(count)
    ]


def meets_nan(made: Trainer, folder: Path) -> None:
    """In the first rollout, in process 1; all then do what follows a fault."""
    rollout = made.rollout

    def spoiled() -> None:
        rollout()
        if made.ranks.rank == 1:
            made.storage.rewards[3, 1] = torch.nan

    made.rollout = spoiled
    try:
        made.iterate()
    except (NotFinite, ranks.RankFailed) as error:
        (folder / f"nan-{made.ranks.rank}.txt").write_text(f"{type(error).__name__}: {error}")
    made.begin_new_episodes()
    made.state_dict()


if __name__ == "__main__":
    torch.set_num_threads(1)
    own = ranks.join(torch.device("cpu"), 60)
    folder = Path(sys.argv[1])
    for case in sys.argv[2:]:
        if case == "nan":
            meets_nan(trainer("ppo", own), folder)
            continue
        found = trained(trainer(case, own), ROLLOUTS)
        if own.first:
            torch.save(found, folder / f"{case}.pt")
        state = folder / f"{case}-state.pt"
        if state.exists():
            made = trainer(case, own)
            made.load_state_dict(torch.load(state))
            found = trained(made, ROLLOUTS - LOADED_AFTER)
            if own.first:
                torch.save(found, folder / f"{case}-loaded.pt")
