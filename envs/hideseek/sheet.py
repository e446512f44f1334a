"""``python -m torch_batchsim.envs.hideseek.sheet levels.png``: a contact sheet of 64 levels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from torch_batchsim import TorchVectorEnv
from torch_batchsim.draw import tiled

from .env import HideSeek

LEVELS, COLUMNS = 64, 8


def sheet(seed: int = 0) -> np.ndarray:
    """``uint8 [height, width, 3]``: the levels with which the first 64 worlds begin, from above, each half as large."""
    env = TorchVectorEnv(HideSeek(), num_worlds=LEVELS)
    env.reset(seed=seed)
    return tiled([_halved(env.render_world(world)) for world in range(LEVELS)], COLUMNS)


def _halved(picture: np.ndarray) -> np.ndarray:
    squares = picture.reshape(len(picture) // 2, 2, picture.shape[1] // 2, 2, 3)
    return squares.mean((1, 3)).astype(np.uint8)


if __name__ == "__main__":
    from PIL import Image  # of the extra train, which only this command needs

    if len(sys.argv) != 2:
        print("error: give a file: python -m torch_batchsim.envs.hideseek.sheet levels.png", file=sys.stderr)
        raise SystemExit(2)
    Image.fromarray(sheet()).quantize(64).save(Path(sys.argv[1]), optimize=True)
