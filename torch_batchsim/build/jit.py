"""Builds an environment's library when it is first needed, and keeps it in a cache keyed by content."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import MappingProxyType, ModuleType

import torch

from ..base import openmp
from ..declare.declaration import ENGINE_HEADERS as CSRC
from ..errors import BuildError
from ..resolve.program import Program
from . import checked, compiler, toolkit
from .cache import (
    WARNINGS,
    build_folder,
    build_lock,
    cache_directory,
    cannot_load,
    cannot_write,
    is_kept,
    keep,
    link,
    note_use,
    remove_unused,
)
from .codegen import ABI_VERSION, Target, generate
from .precompiled import object_texts, uses_precompiled

# Value-safe only: results do not depend on these, but vectorisation does (no errno, no traps).
CPU_FLAGS = (
    "-O3 -march=native -std=c++20 -fno-math-errno -fno-trapping-math -fvisibility=hidden "
    "-Wall -Wextra -Wno-unused-parameter -Wno-unknown-pragmas"
).split()
if os.uname().machine == "x86_64":
    CPU_FLAGS.append("-mprefer-vector-width=512")  # g++ takes half of it unasked; whole, CartPole gains 15 %
# nvcc warns of a call of a host function from a kernel, and then leaves the whole system out: an error here.
CUDA_FLAGS = (
    "-O3 -std=c++20 --extra-device-vectorization -Werror cross-execution-space-call -Xcompiler -fvisibility=hidden"
).split()
MODULE_FLAGS = "-O2 -std=c++17 -fvisibility=hidden -Wall -Wextra".split()  # of modules for Python
# Other builds, chosen by TBS_DEBUG; value-safe too. For gdb each system is a function (csrc/tbs/platform.h), and
# variables live as long as their scopes; for perf the code is that of ordinary builds, with lines and frames. A quick
# one, for tests, takes the compiler half the time; as for gdb, the compiler does not check hidden reaches of systems.
DEBUG_FLAGS = {
    "gdb": "-Og -g -fno-omit-frame-pointer -fno-ipa-sra -DTBS_FRAMES".split(),
    "perf": "-g -fno-omit-frame-pointer".split(),
    "quick": "-Og -DTBS_FRAMES".split(),
}
_STRICT_MATH = {"cpu": ["-ffp-contract=off"], "cuda": "-fmad=false -prec-div=true -prec-sqrt=true -ftz=false".split()}
_FAST_MATH = {"cpu": ["-ffast-math"], "cuda": ["--use_fast_math"]}
# What every simulator on CPU needs of csrc/host, and the headers of ours that these include.
_MODULES = {
    "step_call": (),
    "interrupts": ("tbs/platform.h", "tbs/watch.h"),
    "crew": ("host/waiting.h", "tbs/platform.h", "tbs/threads.h"),
}
_one_build = threading.Lock()  # of this process: torch's builder changes the environment of the whole process
_OF_CPP = {"gcc": "g++", "cc": "c++", "clang": "clang++"}
_LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")  # before a compiler's name in CXX
_C_COMPILER = re.compile(r"(.*-)?(gcc|cc|clang)(-[\d.]+)?")
_hidden: dict[str, str | None] = {}  # variables as they are without these changes, for other threads


def _nothing(log: str) -> bool:
    """Ignore the log of a build."""
    return False


def _explained(program: Program, log: str) -> str:
    from .compile_errors import explain  # imported late: a warm start has no use for its many patterns

    return explain(program, log)


def _warn(program: Program, log: str) -> bool:
    from .compile_errors import warn

    return warn(program, log)


class LoadedLibrary:
    """A library of this version of the engine in this process: the part that all kinds share.

    Raises BuildError where it cannot be loaded, or is another version's.
    """

    def __init__(self, path: Path, target: Target) -> None:
        self.path, self.target = path, replace(target, executor=target.executor_name)
        try:
            self._handle = ctypes.CDLL(str(path))
        except OSError as error:
            raise cannot_load(path, error) from None
        if self._handle.tbs_abi_version() != ABI_VERSION:
            raise BuildError(f"the cached library {path} is of another version of torch_batchsim; delete it")
        self.context_size = ctypes.c_size_t(self._handle.tbs_context_size()).value

    def _function(self, name: str, *arguments: type) -> ctypes._CFuncPtr:  # type: ignore[name-defined]
        function = getattr(self._handle, name)
        function.argtypes, function.restype = list(arguments), ctypes.c_int64
        return function


class InsideLibrary(LoadedLibrary):
    """A loaded library that runs one node at a time (``Target.inside``)."""

    def __init__(self, path: Path, target: Target) -> None:
        super().__init__(path, target)
        pointer, number = ctypes.c_void_p, ctypes.c_uint32
        self.run_node = self._function("tbs_run_node", pointer, pointer, number, number, pointer, pointer)


class Library(LoadedLibrary):
    """A loaded library: one executor. ``build_seconds`` is the time that compiling took, 0.0 from the cache."""

    def __init__(self, path: Path, target: Target, build_seconds: float = 0.0) -> None:
        super().__init__(path, target)
        self.build_seconds = build_seconds
        handle, pointer = self._handle, ctypes.c_void_p
        self.handle = handle
        self.step = self._function("tbs_step", *[pointer] * 4)
        self.reset = self._function("tbs_reset", *[pointer] * 5)
        arguments = (pointer, pointer, pointer, pointer, ctypes.c_int, pointer)
        self.act_and_step = self._function("tbs_act_and_step", *arguments)
        self.act_and_step_address = ctypes.cast(handle.tbs_act_and_step, pointer).value
        self.open = handle.tbs_open
        self.open.argtypes, self.open.restype = [], pointer
        self.registers = self._function("tbs_registers", pointer)
        self.close = handle.tbs_close
        self.close.argtypes, self.close.restype = [pointer], None


def compiler_flags(device_type: str, fast_math: bool = False) -> list[str]:
    """Options of g++ or nvcc, beside those that ``torch.utils.cpp_extension`` adds."""
    mathematics = _FAST_MATH if fast_math else _STRICT_MATH
    return [*(CUDA_FLAGS if device_type == "cuda" else CPU_FLAGS), *mathematics[device_type]]


def debug_flags() -> list[str]:
    """Further options of g++ for the build that ``TBS_DEBUG`` names (docs/debugging_tools.md).

    Raises ValueError for any other value.
    """
    tool = os.environ.get("TBS_DEBUG", "")
    if tool and tool not in DEBUG_FLAGS:
        *others, last = map(repr, DEBUG_FLAGS)
        raise ValueError(f"TBS_DEBUG must be {', '.join(others)} or {last}, or unset, got {tool!r}")
    return DEBUG_FLAGS.get(tool, [])


def load(program: Program, target: Target) -> Library:
    """The library of ``program`` for ``target``, compiled if the cache does not hold it.

    Raises:
        BuildError: no compiler, a cache that cannot be written, or systems that do not compile (their line first).

    Each warning of the compiler about the author's files becomes a ``BuildWarning``, also where the cache has the
    library.
    """
    return Library(*_library(program, target))


def load_inside(program: Program, target: Target) -> InsideLibrary:
    """The same of a target that is ``inside``."""
    path, target, _ = _library(program, target)
    return InsideLibrary(path, target)


def _library(program: Program, target: Target) -> tuple[Path, Target, float]:
    """The path of the library, its target, and the seconds of its build."""
    source = generate(program, target)
    flags = [] if target.cuda else [shlex.quote(argument) for argument in cpp_arguments()]
    flags += compiler_flags(target.device, program.environment.fast_math)
    flags += [] if target.cuda else checked.flags(program)
    flags += [] if target.cuda else debug_flags()  # behind -O3, of which the last counts
    name, alias = library_names(program, source, flags, target.cuda)
    if not is_kept(cache_directory() / f"{name}.so"):
        _compile_modules()
        if target.cuda:  # only g++ checks libm's names and reaches of systems (csrc/tbs/world.h)
            cpu = load(program, Target()).path
            with contextlib.suppress(OSError):  # most have no warnings
                noted = cpu.resolve().with_suffix(WARNINGS).read_bytes()
                (cache_directory() / f"{name}{WARNINGS}").write_bytes(noted)
    elif target.cuda:
        _heed_kept(cache_directory() / f"{name}.so", partial(_warn, program))
    heed = _nothing if target.cuda or target.inside else partial(_warn, program)  # g++ has reported it already
    objects = object_texts(program) if uses_precompiled(program, target.cuda) else {}
    library, seconds = _built(name, alias, source, flags, target.cuda, partial(_explained, program), heed, objects)
    return library, target, seconds


def load_module(stem: str, *headers: Path) -> ModuleType:
    """The Python module of ``csrc/host/<stem>.cpp``, compiled if the cache does not hold it.

    Its name is that of the file, ``torch_batchsim.csrc.host.step_call``, which no other module takes. ``headers`` are
    folders of another library's that it includes.

    Raises:
        BuildError: it does not compile: without Python's headers, say.
        ImportError: it cannot be loaded.
    """
    name, path = f"torch_batchsim.csrc.host.{stem}", _module(stem, *headers)
    loader = ExtensionFileLoader(name, str(path))
    module = module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    loader.exec_module(module)
    return module


def load_plain(stem: str) -> ctypes.CDLL:
    """``csrc/host/<stem>.cpp``, which needs nothing of Python, compiled if the cache does not hold it.

    Raises:
        BuildError: it does not compile, or cannot be loaded.
    """
    path = _module(stem)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise cannot_load(path, error) from None


def _compile_modules() -> None:
    """Compile the missing modules on threads, while the calling one compiles an environment, which takes as long."""
    sysconfig.get_config_vars()  # read once, which threads must not do at the same time
    for stem in _MODULES if not openmp.forks else ():
        with contextlib.suppress(RuntimeError):  # no more threads
            threading.Thread(target=_module_or_nothing, args=(stem,), name=f"compiles {stem}").start()


def _module_or_nothing(stem: str) -> None:
    with contextlib.suppress(BuildError):  # load_module raises it again
        _module(stem)


def _module(stem: str, *headers: Path) -> Path:
    """The compiled module. g++ is called directly: torch's builder takes longer, and one build at a time."""
    source = CSRC / "host" / f"{stem}.cpp"
    folders = [sysconfig.get_path("include"), Path(torch.__file__).parent / "include", CSRC]
    flags = [*cpp_arguments(), *MODULE_FLAGS, "-fPIC", "-shared", *(f"-I{folder}" for folder in folders)]
    flags += [part for folder in headers for part in ("-isystem", str(folder))]  # whose warnings nobody here can mend
    included = [*(CSRC / header for header in _MODULES.get(stem, ())), *_headers_in(headers)]
    texts = [path.read_text("utf-8") for path in (source, *included)]
    parts = [*texts, *flags, EXTENSION_SUFFIXES[0], torch.__version__, processor()]
    directory, (name, alias) = cache_directory(), _names(f"{stem}_cpu", parts, [cpp_compiler])
    path = directory / f"{name}.so"
    if is_kept(path):
        note_use(path)
        return path
    cpp = cpp_compiler()
    try:
        with build_lock(directory, name) as locked, build_folder(directory, name, locked) as folder:
            if not path.is_file():  # another thread or process was faster
                part = folder / path.name
                command = [cpp, *flags, str(source), "-o", str(part)]
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
                if done.returncode != 0:
                    raise BuildError(done.stderr)
                keep(part, path)
                link(directory / f"{alias}.so", path)
    except OSError as error:
        raise cannot_write(directory, error) from None
    return path


def _headers_in(folders: Sequence[Path]) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.h"))


def load_shared(source: Path, *flags: str) -> ctypes.CDLL:
    """A C++ or CUDA file of ours (``.cpp``, ``.cu``) as a shared library with vector code for this machine, or for its
    devices, compiled if the cache does not hold it.

    Raises:
        BuildError: it does not compile, or cannot be loaded.
    """
    cuda = source.suffix == ".cu"
    device = "cuda" if cuda else "cpu"
    headers = sorted(path for folder in CSRC.iterdir() for path in (*folder.glob("*.h"), *folder.glob("*.cuh")))
    text = source.read_text("utf-8")
    every = [*compiler_flags(device), *([] if cuda else debug_flags()), *flags]
    texts = [text, *every, *(path.read_text("utf-8") for path in headers)]
    compilers = [cpp_compiler, *([cuda_compiler] if cuda else [])]
    devices = [str(_cuda_capabilities())] if cuda else []
    parts = [*texts, torch.__version__, processor(), *devices]
    path, _ = _built(*_names(f"{source.stem}_{device}", parts, compilers), text, every, cuda, lambda log: log)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise cannot_load(path, error) from None


def _built(
    name: str,
    alias: str,
    source: str,
    flags: list[str],
    cuda: bool,
    explain: Callable[[str], str],
    heed: Callable[[str], bool] = _nothing,
    objects: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Path, float]:
    """The shared library of a name in the cache, and the seconds that it took to compile it, 0.0 if it was there.

    Raises BuildError with the text that ``explain`` makes of the compiler's log. ``heed`` gets the messages of a build
    that succeeds, and says whether to keep them: then it gets them whenever the cache has the library. ``objects`` are
    texts of object files to link, see ``object_texts``.
    """
    directory = cache_directory()
    library = directory / f"{name}.so"
    if is_kept(library):
        note_use(library)
        _heed_kept(library, heed)
        return library, 0.0
    with _one_build, build_lock(directory, name) as locked:
        if library.is_file():  # another process was faster
            _heed_kept(library, heed)
            return library, 0.0
        started = time.perf_counter()
        remove_unused(directory)
        with _locked_objects(directory, objects, flags) as linked, build_folder(directory, name, locked) as folder:
            try:
                _build(explain, source, flags, cuda, directory, name, folder, heed, linked)
            except OSError as error:
                raise cannot_write(directory, error) from None
        link(directory / f"{alias}.so", library)
        return library, time.perf_counter() - started


@contextlib.contextmanager
def _locked_objects(directory: Path, texts: Mapping[str, str], flags: list[str]) -> Iterator[dict[Path, str]]:
    """The paths of object files in the cache, with their texts, while the caller holds locks of those that are missing.

    Then he compiles these, with ``flags``: two environments that are built at once need them at the same time.
    """
    objects = {}
    for stem, text in texts.items():
        parts = [text, *flags, torch.__version__, processor(), *_engine_sources()]
        objects[directory / f"{_names(f'{stem}_cpu', parts, [cpp_compiler])[0]}.o"] = text
    with contextlib.ExitStack() as locks:
        for path in sorted(objects):  # in one order, or two builders could wait for each other
            if is_kept(path):
                note_use(path)
            else:
                locks.enter_context(build_lock(directory, path.stem))
        yield objects


def library_names(program: Program, source: str, flags: list[str], cuda: bool) -> tuple[str, str]:
    """The names in the cache, see ``_names``, of the library that these compile to."""
    parts = [source, *flags, torch.__version__, processor()]
    if cuda:
        capabilities = _cuda_capabilities()
        variables = ["CC", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"]
        variables += [] if capabilities else ["TORCH_CUDA_ARCH_LIST"]  # see architecture_flags
        parts += [str(capabilities), *(os.environ.get(variable, "") for variable in variables)]
    compilers = [cpp_compiler, *([cuda_compiler] if cuda else [])]
    parts += _engine_sources()  # texts of libraries and of the author are part of ``source``
    return _names(f"{program.environment.name}_{'cuda' if cuda else 'cpu'}", parts, compilers)


def _names(start: str, parts: list[str], compilers: Sequence[Callable[[], str]]) -> tuple[str, str]:
    """The name of a library in the cache, and that of the link to it by which a machine without compilers finds it."""
    alias = f"{start}_{digest([*parts, 'by any compiler'])}"
    try:
        return f"{start}_{digest([*parts, *(compiler_identity(find()) for find in compilers)])}", alias
    except BuildError:  # raised again where there is no such library
        return alias, alias


def digest(parts: list[str]) -> str:
    """A hash of texts, for the name of a file in the cache."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part.encode())
        hashed.update(b"\0")
    return hashed.hexdigest()[:20]


def program_sources(program: Program) -> list[str]:
    """The texts that a build is made from, beside the generated one: the engine's, the libraries', the author's."""
    return [*_engine_sources(), *(text for _, text in sorted(program.files.items()))]


@cache
def _engine_sources() -> tuple[str, ...]:
    """Without the headers of libraries under csrc/, which count where they are used."""
    paths = sorted((CSRC / "tbs").rglob("*"))
    return tuple(path.read_text("utf-8") for path in paths if path.suffix in (".h", ".cuh", ".cpp", ".cu"))


@cache
def processor() -> str:
    """The instruction sets of this machine: ``-march=native`` code must not be shared with a lesser one."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return os.uname().machine
    return "\n".join(
        sorted({line for line in text.splitlines() if line.startswith(("flags", "Features", "model name"))})
    )


def cpp_compiler() -> str:
    """The C++ compiler's path: ``$CXX``, else g++ (``torch.utils.cpp_extension`` by itself would take ``c++``).

    Of a compiler for C, such as gcc, that for C++ beside it: gcc links no library of C++. See ``cpp_arguments``.
    """
    command = _words_of_cxx()[0]
    path = shutil.which(command, path=_variable("PATH"))
    if path is None:
        raise BuildError(
            f"no C++ compiler: {command!r} is not on PATH; apt install g++ (11 or later) brings it, or set CXX to one"
        )
    of_c = _C_COMPILER.fullmatch(Path(path).name)
    if of_c is None:
        return path
    name = f"{of_c[1] or ''}{_OF_CPP[of_c[2]]}{of_c[3] or ''}"
    beside = shutil.which(str(Path(path).with_name(name))) or shutil.which(name, path=_variable("PATH"))
    if beside is None:
        raise BuildError(f"CXX={command!r} compiles C, and {name} is not on PATH: set CXX to a compiler for C++")
    return beside


def cpp_arguments() -> list[str]:
    """What follows the compiler in ``$CXX``, such as ``-m64``. A launcher before it, such as ccache, is left out."""
    return _words_of_cxx()[1:]


def _words_of_cxx() -> list[str]:
    given = (_variable("CXX") or "").strip()
    words = [given]  # a path may have spaces
    if given and shutil.which(given, path=_variable("PATH")) is None:
        with contextlib.suppress(ValueError):  # of quotes that do not end
            words = shlex.split(given)
        while len(words) > 1 and Path(words[0]).name in _LAUNCHERS:
            words.pop(0)
    return words if given else ["g++" if sys.platform != "darwin" else "clang++"]


def _variable(name: str) -> str | None:
    """A variable of the environment, as it is outside of torch's builder."""
    hidden = dict(_hidden)
    return hidden[name] if name in hidden else os.environ.get(name)


def cuda_compiler() -> str:
    """The path of nvcc: in ``$CUDA_HOME``, else on PATH, else where its packages put it."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    path = shutil.which("nvcc", path=str(Path(home) / "bin") if home else _variable("PATH")) or shutil.which(
        "nvcc", path="/usr/local/cuda/bin"
    )
    if path is None:
        package = f"cuda-toolkit-{(torch.version.cuda or '13.0').replace('.', '-')}"
        raise BuildError(
            f"no CUDA compiler: nvcc is neither in CUDA_HOME nor on PATH; apt install {package} from NVIDIA's "
            "repository brings it"
        )
    return path


def missing_tools(cuda: bool) -> list[str]:
    """A sentence for each tool of a build that this machine lacks, with the package that brings it."""
    lacks: list[str] = []
    for find in (cpp_compiler, *([cuda_compiler, _cuda_runtime] if cuda else []), _ninja):
        try:
            find()
        except BuildError as error:
            lacks += [str(error)] if str(error) not in lacks else []
    return lacks


def _cuda_runtime() -> Path:
    return toolkit.runtime(cuda_compiler(), cpp_compiler())


@cache
def compiler_identity(path: str) -> str:
    """Path, size and time of the binary: as specific as its version, without the cost of running it."""
    resolved = Path(path).resolve()
    status = resolved.stat()
    return f"{resolved} {status.st_size} {status.st_mtime_ns}"


def architecture_flags(capabilities: Sequence[tuple[int, int]], known: Sequence[int]) -> list[str]:
    """Options by which nvcc compiles for these devices, and torch ignores ``TORCH_CUDA_ARCH_LIST``.

    Args:
        capabilities: of this machine's devices; empty: torch chooses.
        known: architectures of nvcc, such as 90 for 9.0. A later device gets PTX of the last one before it,
            which the driver compiles.
    """
    flags = []
    for major, minor in capabilities:
        number = 10 * major + minor
        before = max((one for one in known if one <= number), default=number)
        kind = "sm" if before == number else "compute"
        flags.append(f"-gencode=arch=compute_{before},code={kind}_{before}")
    return flags


def _known_architectures() -> list[int]:
    """Those that nvcc lists; empty if it lists none."""
    command = [cuda_compiler(), "--list-gpu-arch"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return sorted(int(number) for number in re.findall(r"\bcompute_(\d+)\b", listed))


def _cuda_capabilities() -> list[tuple[int, int]]:
    """Of the devices at hand, each once."""
    return sorted({torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())})


def _build(
    explain: Callable[[str], str],
    source: str,
    flags: list[str],
    cuda: bool,
    directory: Path,
    name: str,
    folder: Path,
    heed: Callable[[str], bool] = _nothing,
    objects: Mapping[Path, str] = MappingProxyType({}),
) -> None:
    """Compile in ``folder``, also those of ``objects`` that the cache lacks, and keep all of it there."""
    unit = folder / f"generated.{'cu' if cuda else 'cpp'}"
    unit.write_text(source, "utf-8")
    sources, linked = [unit], []
    for path, text in objects.items():
        copy = folder / path.name
        if is_kept(path):
            shutil.copyfile(path, copy)  # to a folder whose path build tools take
            linked.append(str(copy))
        else:
            sources.append(copy.with_suffix(".cpp"))
            sources[-1].write_text(text, "utf-8")
    if cuda:
        flags = [*flags, *architecture_flags(_cuda_capabilities(), _known_architectures())]
    failure = _compile(name, sources, flags, cuda, folder, linked)
    for path in sources[1:]:  # also where the author's systems do not compile
        if path.with_suffix(".o").is_file():
            keep(path.with_suffix(".o"), directory / f"{path.stem}.o")
    log = compiler.read_log(folder)
    built = next(folder.glob("*.so"), None)  # torch appends a version to a name that it has seen before
    if built is not None and failure is not None and "failed to map segment" in failure:
        raise cannot_load(directory / f"{name}.so", OSError(failure))
    if failure is not None or built is None:
        messages = compiler.messages(log)
        if not messages:  # torch has failed, not the compiler
            messages = failure or "the compiler left no library"
            log += messages
        if full := next((line for line in messages.splitlines() if os.strerror(errno.ENOSPC) in line), None):
            raise BuildError(f"the disk is full, of the build cache {directory} or of {tempfile.gettempdir()}: {full}")
        kept_log = directory / f"{name}.log"
        with contextlib.suppress(OSError):  # of another user, who shares the cache
            kept_log.write_text(log, "utf-8")
        raise BuildError(f"{explain(messages)}\n(all of it: {kept_log})", kept_log)
    library = directory / f"{name}.so"
    said = compiler.messages(log)
    if heed(said):  # before the library is kept: where the warning is an error, it comes again
        noted = folder / "warnings"
        noted.write_text(said, "utf-8")
        keep(noted, library.with_suffix(WARNINGS))
    keep(built, library)


def _heed_kept(library: Path, heed: Callable[[str], bool]) -> None:
    """Give ``heed`` the warnings with which a library was compiled."""
    noted = library.resolve().with_suffix(WARNINGS)  # the library may be a link
    with contextlib.suppress(OSError):  # most have none
        said = noted.read_text("utf-8")
        note_use(noted)
        heed(said)


def _compile(
    name: str, sources: list[Path], flags: list[str], cuda: bool, folder: Path, linked: list[str]
) -> str | None:
    """Run ``torch.utils.cpp_extension.load``; torch's message if it failed, else None. ``folder`` then has the log.

    ``linked`` are paths of object files.
    """
    _ninja()
    from torch.utils import cpp_extension  # imported late: it takes half a second that a warm start has no use for

    changes = {"MAX_JOBS": os.environ.get("MAX_JOBS", "3"), "NINJA_STATUS": "[%f/%t] "}  # ninja refuses odd ones
    changes |= compiler.logged("CXX", cpp_compiler(), folder)  # the one that the key names
    if cuda and "PYTORCH_NVCC" not in os.environ:
        changes |= compiler.logged("PYTORCH_NVCC", cuda_compiler(), folder)
    changes["PATH"] = os.pathsep.join([changes["PATH"], *_ninja_folders()])
    previous = {variable: os.environ.get(variable) for variable in changes}
    home = cpp_extension.CUDA_HOME
    if cuda:
        linked = [*linked, *toolkit.linker_flags(cuda_compiler(), cpp_compiler(), folder)]
        cpp_extension.CUDA_HOME = str(toolkit.home(cuda_compiler()))  # found when torch's module was imported
    _hidden.update(previous)
    os.environ.update(changes)
    try:
        cpp_extension.load(
            name=name,
            sources=[str(path) for path in sources],
            extra_cflags=[] if cuda else flags,
            extra_cuda_cflags=flags if cuda else [],
            extra_ldflags=linked,
            extra_include_paths=[str(CSRC)],
            build_directory=str(folder),
            with_cuda=cuda,
            is_python_module=False,
        )
    except RuntimeError as error:
        return str(error)
    except (OSError, subprocess.CalledProcessError) as error:
        return str(error.__cause__ or error)  # the cause of torch's "Could not load this library" has the reason
    finally:
        for variable, value in previous.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value
        _hidden.clear()
        cpp_extension.CUDA_HOME = home
    return None


def _ninja() -> str:
    path = shutil.which("ninja", path=_path_with_ninja())
    if path is None:
        raise BuildError("ninja, with which torch builds, is not on PATH: pip install ninja brings it")
    return path


def _path_with_ninja() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), *_ninja_folders()])


def _ninja_folders() -> list[str]:
    """Where pip puts ninja: not on PATH when Python is called by its path from outside the environment."""
    folders = [sysconfig.get_path("scripts")]
    try:
        import ninja

        folders.append(ninja.BIN_DIR)
    except ImportError:
        pass
    return folders
