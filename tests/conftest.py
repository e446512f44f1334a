"""What all tests share: worker processes, a cache of builds, and what the fast run leaves to the full one."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "common"))  # for `support` and `environments`
sys.path.append(str(Path(__file__).parents[1] / "examples" / "experiments"))
from libraries_of_others import NOT_BUILT, SKIPPED

# pip leaves bytecode to the first import (README.md): else each process of a run parses torch and all tests anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
pytest.register_assert_rewrite("pretended_gpu")  # a plugin, which is imported before it is one

_MOST_WORKERS = 8  # each takes half a gigabyte, and there are not many more files that take long
# Files that take half a minute of a core and more in the full run, or 12 s in the fast one, the longest first: a worker
# that begins one of them when all others are done would leave a core idle.
_LONGEST = (
    "test_executors", "test_compiled", "test_gpu_check_stages", "test_races", "test_rllib", "test_physics_scenes",
    "test_hideseek_levels", "test_hideseek_model", "test_jax", "test_skrl", "test_pufferlib", "test_torchrl",
    "test_stable_baselines3", "test_check", "test_sanitizers", "test_atari_and_ale", "test_rules", "test_log",
    "test_collide", "test_overcooked", "test_bench_physics", "test_interrupts", "test_messages", "test_physics",
    "test_vector_env", "test_hanabi", "test_train_cli", "test_central_critic", "test_contract", "test_processes",
    "test_restarts", "test_rsl_rl", "test_rl_zoo3", "test_jit", "test_bad_input", "test_math",
    "test_checked_environments", "test_solver", "test_tuning", "test_chaos", "test_physics_fast", "test_rays",
    "test_examples", "test_workspace", "test_entities", "test_stopped_trainings", "test_ranks", "test_debug_builds",
    "test_gpu_slot", "test_logs", "test_swarm", "test_paper", "test_physics_parts", "test_recipes", "test_threads",
    "test_physics_contact_force", "test_blocks", "test_site",
)  # fmt: skip
_own_cache = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A run without paths takes a worker for each core; single files or tests run in one process. ``-n`` goes first."""
    if hasattr(config, "workerinput") or "PYTEST_XDIST_WORKER" in os.environ:
        return  # a worker takes none of its own
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # which takes the files with the most tests first
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and config.getoption("numprocesses", None) is None and not config.option.collectonly:
        config.option.numprocesses = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
        config.option.dist = "loadfile"  # files share fixtures


def pytest_configure(config: pytest.Config) -> None:
    """Builds go to ``TORCH_BATCHSIM_CACHE``, else to a folder that is removed: every run compiles what it tests.

    Worker processes inherit the variable, so that they share the cache.
    """
    # Draws of the fast run are few, and the same each time; the full one looks for new ones, where a test has no number
    # of its own. Nothing is left in the checkout.
    fast = not config.option.markexpr
    settings.register_profile("torch_batchsim", max_examples=30 if fast else 200, derandomize=fast, database=None)
    settings.load_profile("torch_batchsim")
    gc.set_threshold(20_000, 20, 20)  # tests make many objects and few circles; the rest of gc takes seconds of a run
    os.environ.setdefault("TBS_DEBUG", "quick")  # half of the time is compilers'; test_executors.py has ordinary builds
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs do, and all that they start
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("GOMP_SPINCOUNT", "4000")  # as torch_batchsim does, for workers that import torch before it
    os.environ.setdefault("TBS_TESTS_SEED", str(date.today().toordinal()))  # the same for all workers
    if "TORCH_BATCHSIM_CACHE" not in os.environ:
        config.stash[_own_cache] = os.environ["TORCH_BATCHSIM_CACHE"] = tempfile.mkdtemp(prefix="torch_batchsim_tests_")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``-m``, what is marked ``full`` is left out, but for tests whose id (``file::test``) was given.

    Workers take the longest files first, then those with the most tests.
    """
    _sample_crossed(config, items)
    if not config.option.markexpr:
        _leave_out_full(config, items)
    if hasattr(config, "workerinput"):
        tests = Counter(item.path for item in items)
        rank = {name: i for i, name in enumerate(_LONGEST)}
        items.sort(key=lambda item: (rank.get(item.path.stem, len(rank)), -tests[item.path], item.path))


def _sample_crossed(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the parameters of a test marked ``crossed``, keep combinations in which each value occurs, drawn by a seed.

    The fast run draws by a fixed seed, and leaves the other combinations to the full run. Of tests that are ``full``,
    the full run draws others each day, as ``TBS_TESTS_SEED`` has it; ``TBS_TESTS_SEED=all`` keeps all.
    """
    seed = os.environ["TBS_TESTS_SEED"]
    combined = defaultdict(list)
    for item in items:
        if item.get_closest_marker("crossed"):
            # A fast test may have parameters that are full.
            combined[item.nodeid.partition("[")[0], item.get_closest_marker("full") is not None].append(item)
    left_out = set()
    for (name, full), tests in combined.items():
        drawn = random.Random(f"{name} {seed if full else 0}")
        drawn.shuffle(tests)
        seen: set[tuple[str, str]] = set()
        for test in tests:
            values = {(key, repr(value)) for key, value in test.callspec.params.items()}
            if values <= seen:
                if full and seed != "all":
                    left_out.add(test)
                elif not full:
                    test.add_marker(pytest.mark.full)
            seen |= values
    asked_for = any("::" in argument for argument in config.args)
    if left_out and not asked_for:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _leave_out_full(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked_for = [argument.partition("::")[2] for argument in config.args if "::" in argument]
    kept, left_out = [], []
    for item in items:
        named = any(item.nodeid.partition("::")[2].startswith(name) for name in asked_for)
        (left_out if item.get_closest_marker("full") and not named else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report which adapters, and whether the site, have not been tested."""
    skipped = {report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()) if report.longrepr}
    for reason in sorted(reason for reason in skipped if SKIPPED in reason or NOT_BUILT in reason):
        terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _own_cache in config.stash:
        shutil.rmtree(config.stash[_own_cache], ignore_errors=True)
        del os.environ["TORCH_BATCHSIM_CACHE"]


@pytest.fixture(scope="session", autouse=True)
def build_cache() -> Path:
    directory = Path(os.environ["TORCH_BATCHSIM_CACHE"])
    units = directory / "units"  # what tests compile by themselves: emulated devices, sanitized units, other programs
    units.mkdir(parents=True, exist_ok=True)
    os.environ["TORCH_BATCHSIM_TEST_UNITS"] = str(units)
    return directory
