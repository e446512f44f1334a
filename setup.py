"""Installs all floors as one package: envs/, train/ and csrc/ become torch_batchsim.envs, .train and .csrc.

An editable install is the checkout on Python's path (pyproject.toml: compat), where torch_batchsim finds them itself.
"""

from pathlib import Path

from setuptools import find_packages, setup

CSRC = Path(__file__).parent / "csrc"
HEADERS = [".".join(p.relative_to(CSRC).parts) for p in sorted(CSRC.rglob("*")) if p.is_dir()]  # libraries' too


def under(folder: str) -> list[str]:
    """``folder`` and its subpackages, named below torch_batchsim."""
    return [f"torch_batchsim.{name}" for name in (folder, *(f"{folder}.{p}" for p in find_packages(folder)))]


setup(
    packages=[
        "torch_batchsim",
        *(f"torch_batchsim.{package}" for package in find_packages("torch_batchsim")),
        "torch_batchsim.template",  # files for torch_batchsim.new, which are not imported
        *under("envs"),
        "torch_batchsim.envs.atari.console",  # headers
        "torch_batchsim.envs.overcooked.layouts",  # data files; a folder with an importable name is a package
        *under("train"),
        "torch_batchsim.csrc",
        *(f"torch_batchsim.csrc.{part}" for part in HEADERS),
    ],
    package_dir={
        "torch_batchsim": "torch_batchsim",
        "torch_batchsim.envs": "envs",
        "torch_batchsim.train": "train",
        "torch_batchsim.csrc": "csrc",
    },
    package_data={
        "torch_batchsim": ["py.typed", "*.pyi"],
        "torch_batchsim.bench": ["*.h", "*.cpp"],
        "torch_batchsim.gpu_check": ["*.h"],
        "torch_batchsim.page": ["*.css", "*.js"],
        "torch_batchsim.replay": ["*.html"],
        "torch_batchsim.watch": ["*.html"],
        "torch_batchsim.template": ["*"],
        **{package: ["*.h"] for package in (*under("envs"), "torch_batchsim.envs.atari.console")},
        "torch_batchsim.envs.overcooked.layouts": ["*"],
        **{
            ".".join(["torch_batchsim.csrc", *part]): ["*.h", "*.cuh", "*.cpp", "*.cu"]
            for part in ([], *([part] for part in HEADERS))
        },
    },
)
