"""The emulated megakernel in a process of its own, whose TBS_EMULATION_SEED is drawn once; prints what came of it."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from gymnasium.vector import AutoresetMode

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "common")]

from support import snapshot  # noqa: E402
from test_executors import run  # noqa: E402

from torch_batchsim.build import jit  # noqa: E402
from torch_batchsim.build.codegen import Target  # noqa: E402


def main(name: str, library: str | None = None) -> None:
    digest = hashlib.sha256()
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        for together in (False, True) if library else (None,):
            kwargs = {}
            if library:
                kwargs = {"_library": jit.Library(Path(library), Target("cuda", "megakernel")), "together": together}
            state = snapshot(run(name, 30, 20, mode, tile=4 if library else None, **kwargs).sim)
            if together is not True:
                for key in sorted(state):
                    digest.update(key.encode() + state[key].contiguous().numpy().tobytes())
                kept = state
            assert all((state[key] == kept[key]).all() for key in kept), f"{mode}: together differs from tiles"
    print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
