"""The facts of this machine: ``python -m torch_batchsim.gpu_check.machine`` prints them as JSON."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import torch

from ..bench.report import machine_facts
from ..build import jit
from ..errors import BuildError
from ..resolve.chip import chip_bytes_of
from ..run import step_call


def missing() -> list[str]:
    """A sentence for each requirement of a GPU check that this machine lacks."""
    lacks = []
    if torch.version.cuda is None:
        lacks.append(f"torch {torch.__version__} is a build without CUDA")
    elif not torch.cuda.is_available():
        lacks.append("torch finds no NVIDIA GPU with its driver")
    return lacks + jit.missing_tools(cuda=True)


def facts() -> dict[str, object]:
    """Processor, GPU, versions, commit, date, and NVIDIA's tools."""
    found: dict[str, object] = {}
    on_cuda = torch.version.cuda is not None and torch.cuda.is_available()
    if on_cuda:
        torch.zeros(1, device="cuda")  # on a cold machine this reads much from disk, which no stage then waits for
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "GPU": f"{torch.cuda.device_count()} x {properties.name}",
            "compute capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "GPU memory, GiB": round(properties.total_memory / 2**30, 1),
            "memory on chip, bytes a block": chip_bytes_of(torch.device("cuda", 0)),
            "driver": _version(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        }
    host = machine_facts("cpu")
    found |= {"processor": host.pop("device"), **host}
    found["torch's CUDA"] = torch.version.cuda or "none"
    found["step in C++"] = step_call.obstacle_in_torch() or "yes"
    try:
        found["nvcc"] = _version([jit.cuda_compiler(), "--version"])
    except BuildError:
        found["nvcc"] = "none"
    for tool in ("compute-sanitizer", "ncu"):
        path = find_tool(tool)
        found[tool] = _version([path, "--version"]) if path else "none"
    return found


def find_tool(name: str) -> str | None:
    """Path of one of the CUDA toolkit's tools."""
    try:
        beside = str(Path(jit.cuda_compiler()).parent)
    except BuildError:
        beside = None
    return shutil.which(name) or shutil.which(name, path=beside) or shutil.which(name, path="/usr/local/cuda/bin")


def _version(command: list[str]) -> str:
    """The line of a tool's output with its version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    versions = [line for line in lines if "ersion" in line or "release" in line]
    return (versions[-1:] + lines + ["unknown"])[0]


if __name__ == "__main__":
    print(json.dumps({"missing": missing(), "machine": facts()}))
