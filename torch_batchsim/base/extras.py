"""Packages that only some functions and the commands need: imported when these run, and not before.

And whether gymnasium is one that the package can be imported with.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping

from ..errors import MissingExtra

_INSTALLED_AS = {"PIL": "pillow", "imageio_ffmpeg": "imageio-ffmpeg"}


def needed(*modules: str, extra: str = "train", packages: Mapping[str, str] = _INSTALLED_AS) -> None:
    """Raise MissingExtra unless these modules can be imported. ``extra`` installs them.

    ``packages``: their names for pip, where these differ from the modules'.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise  # the module exists, and one that it imports is missing
            name = packages.get(module, module)
            command = f"pip install 'torch_batchsim[{extra}]'"
            raise MissingExtra(f"this needs {name}, which is not installed: {command} brings it", name=module) from None


def check_gymnasium() -> None:
    """Raise ImportError for a gymnasium older than 1.1, whose vector environments are others."""
    import gymnasium.vector

    if not hasattr(gymnasium.vector, "AutoresetMode"):
        raise ImportError(
            f"torch_batchsim needs gymnasium 1.1 or later, found {gymnasium.__version__}; a script that pins it can "
            "step the worlds in another Python: examples/recipes/other_pins.py"
        )


def command_needs(*modules: str, extra: str = "train") -> None:
    """End a command with one sentence and status 2 unless these modules can be imported."""
    if os.environ.get("MPLBACKEND", "").startswith("module://"):  # of a notebook, in which this is no cell
        os.environ["MPLBACKEND"] = "agg"
    try:
        needed(*modules, extra=extra)
    except MissingExtra as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
