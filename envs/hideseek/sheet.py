"""``python -m torch_batchsim.envs.hideseek.sheet levels.png``: a contact sheet of 64 levels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from torch_batchsim import TorchVectorEnv

from .env import HideSeek

ROWS, COLUMNS, GAP = 8, 8, 4  # pictures; pixels between them


def sheet(seed: int = 0) -> np.ndarray:
    """``uint8 [height, width, 3]``: the levels with which the first 64 worlds begin, from above, each half as large."""
    env = TorchVectorEnv(HideSeek(), num_worlds=ROWS * COLUMNS)
    env.reset(seed=seed)
    small = [_halved(env.render_world(world)) for world in range(ROWS * COLUMNS)]
    height, width = small[0].shape[:2]
    whole = np.full((ROWS * (height + GAP) - GAP, COLUMNS * (width + GAP) - GAP, 3), 255, np.uint8)
    for i, picture in enumerate(small):
        y, x = i // COLUMNS * (height + GAP), i % COLUMNS * (width + GAP)
        whole[y : y + height, x : x + width] = picture
    return whole


def _halved(picture: np.ndarray) -> np.ndarray:
    squares = picture[: len(picture) // 2 * 2].reshape(len(picture) // 2, 2, picture.shape[1] // 2, 2, 3)
    return squares.mean((1, 3)).astype(np.uint8)


if __name__ == "__main__":
    Image.fromarray(sheet()).quantize(64).save(Path(sys.argv[1]), optimize=True)
