"""Installs the four floors as one package: envs/, train/ and csrc/ become torch_batchsim.envs, .train and .csrc."""

from setuptools import find_packages, setup


def under(folder: str) -> list[str]:
    """``folder`` and its subpackages, named below torch_batchsim."""
    return [f"torch_batchsim.{name}" for name in (folder, *(f"{folder}.{p}" for p in find_packages(folder)))]


setup(
    packages=[
        "torch_batchsim",
        "torch_batchsim.bench",
        "torch_batchsim.gpu_check",
        *under("envs"),
        *under("train"),
        "torch_batchsim.csrc",
        "torch_batchsim.csrc.tbs",
    ],
    package_dir={
        "torch_batchsim": "torch_batchsim",
        "torch_batchsim.envs": "envs",
        "torch_batchsim.train": "train",
        "torch_batchsim.csrc": "csrc",
    },
    package_data={
        "torch_batchsim": ["py.typed"],
        "torch_batchsim.bench": ["*.h", "*.cpp"],
        "torch_batchsim.gpu_check": ["*.h"],
        **{package: ["*.h"] for package in under("envs")},
        "torch_batchsim.envs.overcooked": ["*.h", "layouts/*"],
        **{f"torch_batchsim.csrc{part}": ["*.h", "*.cuh", "*.cpp", "*.cu"] for part in ("", ".tbs")},
    },
)
