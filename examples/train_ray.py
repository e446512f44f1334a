"""Trainings with several seeds on a Ray cluster, each a task of the bundled trainer, which gets all other options.

    python train_ray.py cartpole --seeds 20 --folder /shared/runs/cartpole --num-envs 1024

Ray starts a task again when its machine is lost; `--resume auto` then goes on from the checkpoint, so the folder must
be on a disk that all machines share. A training that ends with an error is not started again: Ray raises its last
lines.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import ray


def train(environment: str, seed: int, folder: str, threads: int, options: list[str]) -> dict[str, object]:
    """Train one seed and return the contents of its `summary.json`."""
    run = Path(folder) / f"seed-{seed}"
    run.mkdir(parents=True, exist_ok=True)
    summary = run / "summary.json"
    command = [sys.executable, "-m", "torch_batchsim.train", environment, *options, f"--seed={seed}"]
    command += [f"--threads={threads}", f"--run-dir={run}", f"--summary={summary}", "--resume=auto"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (run / "output.txt").write_text(ended.stdout)
    if ended.returncode:
        raise RuntimeError(f"seed {seed} ended with status {ended.returncode}:\n{ended.stdout[-2000:]}")
    return json.loads(summary.read_text())


def main() -> None:
    """Start a task for each seed and print scores as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", help="as for torch_batchsim.train")
    parser.add_argument("--seeds", type=int, default=5, help="seeds from 1 on")
    parser.add_argument("--folder", default="runs/ray", help="the runs' folder, on a disk that all machines share")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of a training, which Ray reserves")
    arguments, options = parser.parse_known_args()

    ray.init(log_to_driver=False)
    task = ray.remote(num_cpus=arguments.threads, max_retries=10)(train)
    folder = str(Path(arguments.folder).resolve())
    waiting = {
        task.remote(arguments.environment, seed, folder, arguments.threads, options): seed
        for seed in range(1, arguments.seeds + 1)
    }
    failed = False
    while waiting:
        (done,), _ = ray.wait(list(waiting))
        seed = waiting.pop(done)
        try:
            summary = ray.get(done)
        except ray.exceptions.RayError as error:
            failed = True
            print(f"seed {seed}: {error}", file=sys.stderr)
        else:
            measure = summary["measure"]
            print(f"seed {seed}: {measure} {summary[f'eval_{measure}_mean']:.1f} after {summary['steps']:,} steps")
    sys.exit(failed)


if __name__ == "__main__":
    main()
