"""Many seeds of the bundled trainer on a cluster of Ray: a task each, on one core, anywhere.

    python train_ray.py cartpole --seeds 20 --folder /shared/cartpole --total-steps 100000

Where a machine is lost, or a signal stops a training, Ray begins its task again, elsewhere too, and that goes on from
the last checkpoint. So the folder must be one that all machines share. Run the script again to go on with the rest.
All other options are those of `python -m torch_batchsim.train`. For GPUs write `num_gpus=1` and `--device cuda`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import ray


class Stopped(Exception):
    """A signal has stopped the training, which has saved its state."""


@ray.remote(num_cpus=1, max_retries=-1, retry_exceptions=[Stopped])
def train(environment: str, seed: int, folder: Path, options: list[str]) -> dict[str, Any]:
    """The summary of one training. A process of its own dies without the worker when a system crashes."""
    command = [sys.executable, "-m", "torch_batchsim.train", environment, *options, "--threads", "1"]
    command += ["--seed", str(seed), "--run-dir", str(folder), "--resume", "auto"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode in (130, -15):
        raise Stopped(f"seed {seed}")
    if done.returncode:
        raise RuntimeError(f"seed {seed}: {done.stderr.strip()}")
    return json.loads((folder / "summary.json").read_text())


def _mean(summary: dict[str, Any]) -> float:
    return summary[f"eval_{summary['measure']}_mean"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=Path, required=True)
    given, options = parser.parse_known_args(arguments)
    folder = given.folder.resolve()
    ray.init(ignore_reinit_error=True)  # on the head of a cluster; else a cluster of this machine
    tasks = {
        train.remote(given.environment, seed, folder / f"seed{seed}", options): seed
        for seed in range(1, given.seeds + 1)
    }
    summaries, waiting, failed = [], list(tasks), 0
    while waiting:
        (ended,), waiting = ray.wait(waiting)
        try:
            summary = ray.get(ended)
        except ray.exceptions.RayError as error:
            failed += 1
            print(f"seed {tasks[ended]} failed: {error}", file=sys.stderr)
            continue
        summaries.append(summary)
        measure, seconds = summary["measure"], summary["train_seconds"]
        print(f"seed {tasks[ended]}: mean {measure} {_mean(summary):.2f}, {seconds:.1f} s", flush=True)
    if summaries:
        means = [_mean(each) for each in summaries]
        print(f"{len(means)} seeds: least {min(means):.2f}, median {statistics.median(means):.2f}")
        (folder / "summaries.json").write_text(json.dumps(summaries, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
