"""The just-in-time build: what is kept, what is built anew, and what happens when building goes wrong."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from support import declare
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import (
    Archetype,
    BuildError,
    Checks,
    Component,
    Constants,
    Environment,
    Library,
    Option,
    Parameters,
    Reward,
    SchemaError,
    Simulator,
    TaskGraph,
    f32,
    i32,
)
from torch_batchsim.base import shared
from torch_batchsim.build import jit
from torch_batchsim.build.cache import build_folder
from torch_batchsim.build.checked import flags
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.build.structs import component_struct, cpp_namespace, layout_checks
from torch_batchsim.resolve.program import Program
from torch_batchsim.types import FIELD_TYPES

SYSTEMS = """// the first line
TBS_SYSTEM void walk(World &world, Spot &spot, const Step &step, Reward &reward) {
    spot.x += f32(step.towards);
    reward.value = spot.x;
}
"""
PLACE = "reward.value = spot.x;"  # in line 4


class Spot(Component):
    x: f32


class Step(Component):
    towards: i32


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache. (Others: test_cache.py.)"""
    directory = tmp_path / "cache"
    monkeypatch.setenv("TORCH_BATCHSIM_CACHE", str(directory))
    return directory


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For an environment whose systems are built quickly, that is without optimisation."""
    monkeypatch.setattr(jit, "CPU_FLAGS", [flag.replace("-O3", "-O0") for flag in jit.CPU_FLAGS])
    folder = tmp_path / "my environment é"
    folder.mkdir()
    return folder


def walk(folder: Path, text: str = SYSTEMS, **changes: Any) -> Environment:
    attributes = {
        "archetypes": (Archetype("Walker", Spot, Step, Reward, count=1),),
        "step": TaskGraph("walk"),
        "observation": "Walker.Spot",
        "action": "Walker.Step.towards",
        "action_space": Discrete(2),
    }
    return declare(text, folder, **(attributes | changes))()


def reward_of_a_step(environment: Environment) -> tuple[float, float]:
    """Reward of a step to the right, and ``build_seconds``."""
    sim = Simulator(environment, 1)
    sim.reset(seed=0)
    sim.Walker.Step.towards.fill_(1)
    sim.step()
    return sim.Walker.Reward.value.item(), sim.execution.library.build_seconds


def names(cache: Path) -> list[str]:
    """Without locks, and without what all environments share: modules and a header."""
    shared = ("step_call", "interrupts", "crew", "standard")
    found = [path for path in cache.iterdir() if path.suffix != ".lock" and not path.name.startswith(shared)]
    return sorted(path.name for path in found if not path.is_symlink())


def key_of(program: Program, source: str, flags: list[str], cuda: bool) -> str:
    return jit.library_names(program, source, flags, cuda)[0]


def build_unit(directory: Path, cuda: bool = False) -> None:
    with build_folder(directory, "unit") as folder:
        jit._build(str, "", [], cuda, directory, "unit", folder)


# ---- object files of libraries -------------------------------------------------------------------------------------

HEAVY = """#pragma once
#ifdef TBS_USES_PRECOMPILED
TBS_PRECOMPILED f32 scaled(f32 x);
#else
TBS_PRECOMPILED f32 scaled(f32 x) { return f32(Constants::factor) * x; }
#endif
"""


def heavy(folder: Path, precompiled: Any, factor: int = 3, more: str = "") -> Environment:
    """An environment with a library that has ``precompiled`` headers, and ``more`` text of its own."""
    (folder / "heavy.h").write_text(HEAVY)
    (folder / "library.h").write_text('#include "heavy.h"\n')
    attributes = {"name": "weights", "systems": str(folder / "library.h"), "precompiled": precompiled}
    library = type("Weights", (Library,), {**attributes, "constants": Constants(factor=Option(3))})
    text = SYSTEMS.replace("f32(step.towards)", "weights::scaled(f32(step.towards))")
    return walk(folder, text + more, libraries=(library,), library_options={"weights": {"factor": factor}})


def test_a_librarys_header_is_compiled_once_for_all_environments(cache: Path, folder: Path) -> None:
    precompiled = {"heavy.h": ("factor",)}

    def objects() -> set[int]:
        return {path.stat().st_ino for path in cache.glob("weights_heavy_cpu_*.o")}

    assert reward_of_a_step(heavy(folder, precompiled))[0] == 3
    first = objects()
    reward, seconds = reward_of_a_step(heavy(folder, precompiled, more="// another environment\n"))
    assert reward == 3 and seconds > 0 and objects() == first and len(first) == 1
    assert reward_of_a_step(heavy(folder, precompiled, factor=5))[0] == 5
    assert objects() > first and len(objects()) == 2


def test_an_object_file_outlives_systems_that_do_not_compile(cache: Path, folder: Path) -> None:
    wrong = "TBS_SYSTEM void walk_on(World &world) { nowhere(); }\n"
    with pytest.raises(BuildError):
        Simulator(heavy(folder, {"heavy.h": ("factor",)}, more=wrong), 1)
    assert len(list(cache.glob("weights_heavy_cpu_*.o"))) == 1


def test_a_checked_build_has_the_header_in_its_unit(cache: Path, folder: Path) -> None:
    sim = Simulator(heavy(folder, {"heavy.h": ("factor",)}), 1, checks=True)
    sim.reset(seed=0)
    sim.Walker.Step.towards.fill_(1)
    sim.step()
    assert sim.Walker.Reward.value.item() == 3 and not list(cache.glob("*.o"))


@pytest.mark.parametrize(
    ("precompiled", "message"),
    [
        ("heavy.h", "precompiled must be a dict from headers"),
        ({"heavy.h": "factor"}, "precompiled must be a dict from headers"),
        ({"heavy.h": ("facto",)}, "'heavy.h' reads 'facto', not a constant (did you mean 'factor'?)"),
        ({"havy.h": ()}, "no text of the library includes 'havy.h' (did you mean 'heavy.h'?)"),
    ],
)
def test_precompiled_names_headers_and_constants(precompiled: Any, message: str, cache: Path, folder: Path) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)):
        Simulator(heavy(folder, precompiled), 1)


# ---- the cache -----------------------------------------------------------------------------------------------------


def test_a_build_is_kept_until_the_systems_change(cache: Path, folder: Path) -> None:
    variables, left = dict(os.environ), old_files(cache)
    (folder / "speed.h").write_text("constexpr f32 speed = 2.0f;\n")
    text = '#include "speed.h"\n' + SYSTEMS.replace("f32(step.towards)", "speed * f32(step.towards)")
    reward, seconds = reward_of_a_step(walk(folder, text))
    assert reward == 2 and 0 < seconds < 60
    assert {str(path.relative_to(cache)) for path in cache.rglob("*") if path.stat().st_mtime < 1000} == left
    assert reward_of_a_step(walk(folder, text)) == (2, 0.0)
    (built,) = {*names(cache)} - {path.partition("/")[0] for path in left}  # the library, and no folder of the build
    assert re.fullmatch(r"Declared_cpu_[0-9a-f]{20}\.so", built)
    (folder / "speed.h").write_text("constexpr f32 speed = 3.0f;\n")
    reward, seconds = reward_of_a_step(walk(folder, text))
    assert reward == 3 and seconds > 0
    (folder / "speed.h").write_text("constexpr f32 speed = 2.0f;\n")
    assert reward_of_a_step(walk(folder, text)) == (2, 0.0)  # the old text, the old library
    assert dict(os.environ) == variables  # a build leaves no trace in the process


def old_files(cache: Path) -> set[str]:
    """Puts old files into the cache, which may be a home directory; returns those that the next build must leave."""
    own = "Walk_cpu_0123456789abcdef0123"
    (cache / "thesis").mkdir(parents=True)
    (cache / f"{own}.build.x1_y").mkdir()
    kept = {"thesis/chapter.tex", "old.so", "keep_cpu_1.so"}
    for name in kept | {f"{own}.so", f"{own}.lock", f"{own}.build.x1_y/generated.cpp", f"{own}.h.gch"}:
        (cache / name).write_text("x")
    for path in (cache, *cache.rglob("*")):
        os.utime(path, (0, 0))
    return kept | {"thesis"}


def test_the_key_holds_all_that_matters_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(environment: Environment, cuda: bool = False) -> str:
        program = Program(environment)
        return key_of(program, generate(program, Target("cuda" if cuda else "cpu")), jit.CPU_FLAGS, cuda)

    def options(gravity: float, cells: int) -> Environment:
        return walk(folder, parameters=Parameters(gravity=gravity), constants=Constants(cells=cells))

    own = key(walk(folder))
    assert key(walk(folder)) == own
    assert key(options(1.0, 3)) == key(options(2.0, 3))  # parameters are read at run time
    assert key(options(1.0, 3)) != key(options(1.0, 4))  # constants are compiled
    assert key(walk(folder, faults=("lost",))) != own
    assert key(walk(folder, SYSTEMS + " ")) != own
    walk(folder)
    program = Program(walk(folder))
    source = generate(program, Target())
    seen = {own, key_of(program, source, [*jit.CPU_FLAGS, "-O1"], False), key_of(program, source + " ", [], False)}
    changes: list[tuple[Any, str, Any]] = [
        (torch, "__version__", "9.9"),
        (jit, "processor", lambda: "another"),
        (jit, "compiler_identity", lambda path: "another"),
        (jit, "_engine_sources", lambda: ("another",)),
    ]
    for module, attribute, value in changes:
        with monkeypatch.context() as patch:
            patch.setattr(module, attribute, value)
            seen.add(key(walk(folder)))
    assert len(seen) == 7
    assert key(walk(folder)) == own


def test_fast_math_is_a_library_of_its_own(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def build(program: Program, source: str, flags: list[str], *_: Any) -> None:
        asked.append(flags)
        raise BuildError("enough")

    monkeypatch.setattr(jit, "_build", build)
    for fast in (False, True):
        with pytest.raises(BuildError, match="enough"):
            Simulator(walk(folder, fast_math=fast), 1)
    strict, relaxed = asked
    assert "-ffp-contract=off" in strict
    assert "-ffast-math" not in strict
    assert "-ffast-math" in relaxed
    assert len(list(cache.glob("Declared*.lock"))) == 2


def test_a_library_that_is_broken_is_named(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(report: Any, source: str, flags: list[str], cuda: bool, directory: Path, name: str, *_: Any) -> None:
        (directory / f"{name}.so").write_bytes(b"\x7fELF")

    monkeypatch.setattr(jit, "_build", build)
    for _ in range(2):
        with pytest.raises(BuildError, match=rf"cannot load the cached library {re.escape(str(cache))}.*\.so: .*"):
            Simulator(walk(folder), 1)


# ---- errors --------------------------------------------------------------------------------------------------------


def test_an_error_leads_with_the_line_of_an_included_file(cache: Path, folder: Path) -> None:
    """(The words of errors: test_messages.py.)"""
    (folder / "helpers.h").write_text("\n\nTBS_FUNCTION f32 twice(f32 x) { return 2.0f * y; }\n")
    with pytest.raises(BuildError) as raised:
        Simulator(walk(folder, '#include "helpers.h"\n' + SYSTEMS), 1)
    first, second, *_ = str(raised.value).splitlines()
    assert first.startswith("helpers.h:3: ") and second.endswith(f", {folder / 'helpers.h'})")
    assert raised.value.log is not None and names(cache) == [raised.value.log.name]


def test_a_failure_of_torchs_builder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_compile", lambda *_: "CUDA_HOME is not set")
    with pytest.raises(BuildError, match="CUDA_HOME is not set") as raised:
        build_unit(tmp_path)
    assert raised.value.log == tmp_path / "unit.log"
    assert raised.value.log.read_text() == "CUDA_HOME is not set"


# ---- processes -----------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
import torch
from torch_batchsim import TorchVectorEnv
from torch_batchsim.envs.cartpole import CartPole
env = TorchVectorEnv(CartPole(), 3)
env.reset(seed=5)
print(env.sim.execution.library.build_seconds, env.step(torch.tensor([0, 1, 0]))[0].tolist(), sep=";")
"""


def other_process(cache: Path, **variables: str) -> subprocess.Popen:
    """A process that makes a CartPole with that cache and steps it once."""
    import torch_batchsim

    here = [str(Path(torch_batchsim.__file__).parent.parent)]
    environment = {**os.environ, "TORCH_BATCHSIM_CACHE": str(cache), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(path=here)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=cache.parent,
    )


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen]]:
    """Those that a test has started; what still runs at its end is ended."""
    started: list[subprocess.Popen] = []
    yield started
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.full
def test_two_processes_that_build_at_once(cache: Path, processes: list[subprocess.Popen]) -> None:
    processes += [other_process(cache), other_process(cache)]
    outcomes = []
    for process in processes:
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        outcomes.append(output.strip().split(";"))
    assert sorted(float(seconds) > 0 for seconds, _ in outcomes) == [False, True]  # one of them has built
    assert outcomes[0][1] == outcomes[1][1]
    assert len(names(cache)) == 1


@pytest.mark.full
@pytest.mark.parametrize("alone", [True, False], ids=["the builder", "the builder and its compiler"])
def test_a_build_that_was_killed(alone: bool, cache: Path, processes: list[subprocess.Popen]) -> None:
    """The next builder recovers, whether the compiler of the dead one still runs or not."""
    processes.append(other_process(cache))
    deadline = time.monotonic() + 60
    while not list(cache.glob("*.build.*/build.ninja")):
        assert processes[0].poll() is None, processes[0].communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    if alone:
        processes[0].kill()
    else:
        os.killpg(processes[0].pid, signal.SIGKILL)
    processes[0].wait()
    assert list(cache.glob("*.build.*"))
    assert not list(cache.glob("*.so"))
    sim = Simulator(CartPole(), 3)
    assert sim.execution.library.build_seconds > 0
    assert len(names(cache)) == 1
    if alone:
        with suppress(ProcessLookupError):
            os.killpg(processes[0].pid, signal.SIGKILL)
    else:
        assert len(names(cache)) == 1  # nothing is left of the other
    sim.reset(seed=0)
    sim.step()


# ---- tools ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def path_without_ninja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with everything that is on the present one but ninja."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for tool in Path(directory).glob("*") if Path(directory).is_dir() else ():
            link = tools / tool.name
            if not tool.name.startswith("ninja") and not link.exists():
                link.symlink_to(tool)
    monkeypatch.setenv("PATH", str(tools))
    return tools


@pytest.mark.full
def test_ninja_is_found_where_pip_puts_it(path_without_ninja: Path, cache: Path, folder: Path) -> None:
    assert reward_of_a_step(walk(folder))[0] == 1
    assert os.environ["PATH"] == str(path_without_ninja)


def test_no_ninja_at_all(path_without_ninja: Path, cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_ninja_folders", list)
    with pytest.raises(BuildError, match=r"^ninja.* pip install ninja brings it$"):
        Simulator(walk(folder), 1)
    assert names(cache) == []


def test_cuda_units_are_for_the_devices_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any TORCH_CUDA_ARCH_LIST: flags of ours keep torch from adding its own."""
    from torch.utils import cpp_extension

    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "7.5")
    flags = jit.architecture_flags([(8, 6), (9, 0), (12, 0)], known=[75, 80, 86, 90, 100])
    assert flags == [
        "-gencode=arch=compute_86,code=sm_86", "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_100,code=compute_100",
    ]  # fmt: skip
    assert jit.architecture_flags([(9, 0)], known=[]) == ["-gencode=arch=compute_90,code=sm_90"]
    assert cpp_extension._get_cuda_arch_flags([*jit.compiler_flags("cuda"), *flags]) == []
    assert jit.architecture_flags([], known=[90]) == []
    assert "75" in cpp_extension._get_cuda_arch_flags(jit.compiler_flags("cuda"))[0]


def test_a_cuda_build_is_for_the_devices_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[list[str]] = []

    def compile_nothing(name: str, units: list[Path], flags: list[str], cuda: bool, folder: Path, _: list[str]) -> None:
        builds.append(flags)
        (folder / f"{name}.so").touch()

    monkeypatch.setattr(jit, "_compile", compile_nothing)
    monkeypatch.setattr(jit, "_known_architectures", lambda: [80, 90])
    monkeypatch.setattr(jit, "cuda_compiler", lambda: sys.executable)
    capabilities: list[tuple[int, int]] = [(9, 0)]
    monkeypatch.setattr(jit, "_cuda_capabilities", lambda: capabilities)
    program, keys = Program(CartPole()), []
    for listed in ("8.0", "9.0"):
        monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", listed)
        build_unit(tmp_path, cuda=True)
        keys.append(key_of(program, "", [], True))
    assert builds == [["-gencode=arch=compute_90,code=sm_90"]] * 2 and keys[0] == keys[1]
    capabilities.clear()  # then torch heeds the list
    keys.append(key_of(program, "", [], True))
    build_unit(tmp_path)
    assert builds[2] == [] and keys[2] != keys[1]


# ---- generated structs ---------------------------------------------------------------------------------------------

field_types = st.builds(
    lambda kind, shape: kind[shape] if shape else kind,
    st.sampled_from(list(FIELD_TYPES.values())),
    st.one_of(st.none(), st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)),
)
components = st.lists(field_types, min_size=1, max_size=9)

_C_TYPES = {
    torch.float32: ctypes.c_float, torch.float64: ctypes.c_double, torch.bool: ctypes.c_bool,
    torch.int8: ctypes.c_int8, torch.int16: ctypes.c_int16, torch.int32: ctypes.c_int32, torch.int64: ctypes.c_int64,
    torch.uint8: ctypes.c_uint8, torch.uint16: ctypes.c_uint16, torch.uint32: ctypes.c_uint32,
    torch.uint64: ctypes.c_uint64,
}  # fmt: skip


def component_of(types: list[Any], name: str = "Random_1") -> type[Component]:
    return type(name, (Component,), {"__annotations__": {f"field_{i}": t for i, t in enumerate(types)}})


@settings(deadline=None)
@given(components)
def test_layouts_are_those_of_c(types: list[Any]) -> None:
    component = component_of(types)
    fields = []
    for field in component.fields:
        c_type = _C_TYPES[field.type.dtype]
        for extent in reversed(field.type.tensor_shape):
            c_type *= extent
        fields.append((field.name, c_type))
    structure = type("Structure", (ctypes.Structure,), {"_fields_": fields})
    assert component.size == ctypes.sizeof(structure)
    natural = ctypes.alignment(structure)
    assert component.alignment % natural == 0 and component.size % component.alignment == 0
    assert component.alignment == 16 or component.size % (2 * component.alignment) != 0  # none is larger
    for field in component.fields:
        assert field.offset == getattr(structure, field.name).offset
        assert field.type.size == getattr(structure, field.name).size


@pytest.mark.full
@settings(deadline=None, max_examples=2)
@given(st.lists(components, min_size=40, max_size=60))
def test_the_compiler_agrees_with_the_layouts(tmp_path_factory: pytest.TempPathFactory, many: list[list[Any]]) -> None:
    """The static_asserts of generated structs, for many of them in one unit."""
    unit = tmp_path_factory.mktemp("layouts") / "unit.cpp"
    lines = [*shared.definitions("cpu"), '#include "tbs/tbs.h"', "#include <cstddef>"]
    lines.append("namespace tbs {")
    for index, types in enumerate(many):
        component = component_of(types, f"Component{index}")
        lines += [f"namespace {cpp_namespace('').removeprefix('tbs::')} {{", *component_struct(component), "}"]
        lines += layout_checks(component)
    unit.write_text("\n".join([*lines, "}"]))
    assert unit.read_text().count("offsetof") == sum(map(len, many))
    command = [jit.cpp_compiler(), "-std=c++20", "-fsyntax-only", f"-I{jit.CSRC}", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_type_of_field_is_read_and_written_by_systems_and_tensors(folder: Path) -> None:
    """A component with a field of every type, scalar and array, filled in C++ and read as tensors."""
    annotations = {"pad": FIELD_TYPES["u8"]}
    for name, kind in FIELD_TYPES.items():
        annotations |= {f"one_{name}": kind, f"many_{name}": kind[2, 3]}
    everything = type("Everything", (Component,), {"__annotations__": annotations})
    lines = []
    for index, (name, kind) in enumerate(FIELD_TYPES.items()):
        c_type, value = kind.c_type, "true" if name == "boolean" else f"{index + 1}"
        parts: Sequence[str] = {2: "xy", 3: "xyz", 4: "xyzw"}.get(len(kind.element_shape) and kind.element_shape[0], "")
        parts = {"quat": "wxyz", "Entity": ("tag", "table", "birth.tick", "birth.order")}.get(name, parts)
        if parts:
            for place in (f"all.one_{name}", f"all.many_{name}[1][2]"):
                lines += [f"{place}.{part} = {value} + {k};" for k, part in enumerate(parts)]
        else:
            lines += [f"all.one_{name} = {c_type}({value});", f"all.many_{name}[1][2] = {c_type}({value});"]
    system = "TBS_SYSTEM void fill(World &world, Everything &all, Row row) {\n    if (row.index == 0) return;\n"
    text = SYSTEMS + system + "\n".join(lines) + "\n}\n"
    environment = walk(
        folder,
        text,
        archetypes=(Archetype("Walker", Spot, Step, Reward, count=1), Archetype("Thing", everything, count=2)),
        step=TaskGraph("walk", "fill"),
    )
    sim = Simulator(environment, 3)
    sim.reset(seed=0)
    sim.step()
    for index, (name, kind) in enumerate(FIELD_TYPES.items()):
        one, many = sim.tensor(f"Thing.Everything.one_{name}"), sim.tensor(f"Thing.Everything.many_{name}")
        assert one.dtype == many.dtype == kind.dtype
        assert one.shape == (3, 2, *kind.element_shape)
        assert many.shape == (3, 2, 2, 3, *kind.element_shape)
        expected = np.arange(kind.element_shape[0]) + index + 1 if kind.element_shape else np.array(index + 1)
        expected = expected.astype(one.numpy().dtype)
        for world in range(3):
            assert np.array_equal(one[world, 1].numpy(), expected), name
            assert np.array_equal(many[world, 1, 1, 2].numpy(), expected), name
        assert not one[:, 0].numpy().any()
        assert np.count_nonzero(many.numpy()) == 3 * max(1, expected.size), name
    assert not sim.tensor("Thing.Everything.pad").any()


def test_units_include_what_they_need_and_no_heavy_header(folder: Path) -> None:
    """<algorithm>, <atomic>, <cmath> and <immintrin.h> would take g++ longer than all of the engine, in each unit."""
    command = [jit.cpp_compiler(), *jit.compiler_flags("cpu"), f"-I{jit.CSRC}", "-x", "c++", "-"]
    for checks, log in product((None, Checks()), (0, 64)):
        program = Program(walk(folder), checks, log=log)
        unit = generate(program, Target())
        subprocess.run([*command, *flags(program), "-fsyntax-only"], input=unit, text=True, check=True)
        if checks is None and not log:
            named = subprocess.run([*command, "-M"], input=unit, capture_output=True, text=True, check=True).stdout
            headers = {word.rpartition("/")[2] for word in named.split()}
            assert {"tbs.h", "platform.h"} <= headers
            assert not headers & {"algorithm", "atomic", "cmath", "immintrin.h", "mutex", "string", "vector"}


@pytest.mark.parametrize(("text", "needed"), [("f32 x = madd(1, 2, 3);", True), ("vec3 x = cross({}, {});", False)])
def test_vector_registers_come_with_texts_that_name_them(text: str, needed: bool, folder: Path) -> None:
    environment = walk(folder, f"TBS_FUNCTION void named() {{ {text} (void)x; }}\n{SYSTEMS}")
    assert ('#include "tbs/wide.h"' in generate(Program(environment), Target())) is needed


@pytest.mark.full
def test_threads_of_one_process_build_at_once(cache: Path, folder: Path) -> None:
    before = dict(os.environ)
    environments = [walk(folder)]
    for i in range(3):
        (folder / str(i)).mkdir()
        environments.append(walk(folder / str(i), SYSTEMS.replace(PLACE, f"reward.value = spot.x + {i}.0f;")))
    with ThreadPoolExecutor(4) as pool:
        rewards = list(pool.map(reward_of_a_step, environments))
    assert len({reward for reward, _ in rewards}) == 3  # one of the four is as the first
    assert dict(os.environ) == before
