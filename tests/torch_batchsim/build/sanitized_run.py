"""Run by test_sanitizers.py in a process of its own: every environment and mode in a sanitized CPU library."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from gymnasium.vector import AutoresetMode

sys.path.insert(0, str(Path(__file__).parents[2] / "common"))
import torch_batchsim

# isort: split
from support import COMPILED, ended_worlds, random_actions, sanitized


def main(name: str, folder: str) -> None:
    if name == "control":  # a system that writes before the first row: the sanitizer must see it
        source = Path(folder) / "control.h"
        text = COMPILED["drift"]().sources[0].read_text()
        source.write_text(text.replace("trail.last =", "(&trail)[world.id == 0 ? -1 : 0].last ="))
        COMPILED[name] = type("Control", (COMPILED["drift"],), {"systems": str(source)})
    library = sanitized(name)
    for mode in AutoresetMode:
        for worlds in (1, 4) if name in ("shelf", "stool", "hideseek") else (1, 65, 300):  # rigid bodies take long
            env = torch_batchsim.TorchVectorEnv(
                COMPILED[name](), num_worlds=worlds, autoreset_mode=mode, num_threads=2, _library=library
            )
            env.reset(seed=1)
            generator = np.random.default_rng(0)
            for step in range(15):
                env.step(random_actions(env, generator))
                if mode is AutoresetMode.DISABLED and step % 4 == 0:
                    env.reset(options={"reset_mask": ended_worlds(env)})
    print("sound")


if __name__ == "__main__":
    main(*sys.argv[1:])
