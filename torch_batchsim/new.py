"""Writes the folder of a new environment: ``python -m torch_batchsim.new my_env``.

It has the declaration, the systems in Python (with ``--cpp`` in C++), a model in NumPy, tests that compare systems and
model, a picture and a README. Its tests pass at once.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from .base.names import CPP_KEYWORDS, check_identifier
from .command_line import Parser
from .errors import SchemaError

PROGRAM = "python -m torch_batchsim.new"
TEMPLATE = Path(__file__).resolve().parent / "template"
FILES = ("my_env.py", "model.py", "test_my_env.py", "my_env.png", "README.md")
CPP_FILE = "my_env.h"
_OTHERS = ("model", "gymnasium", "torch_batchsim", "new")


def check_name(name: str) -> str:
    """Return ``name``. Raises ValueError unless a module and an environment can have it."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise ValueError(
            f"the name must be of small letters, digits, single underscores, such as my_env, got {name!r}"
        )
    try:
        check_identifier(class_name(name), "an environment")
        check_identifier(name, "a module")
    except SchemaError as error:
        raise ValueError(str(error)) from None
    if name in CPP_KEYWORDS or name in _OTHERS or name in sys.stdlib_module_names:
        raise ValueError(f"{name!r} is the name of another module; give another name, such as {name}_env")
    found = importlib.util.find_spec(name)
    if found is not None and found.origin is not None:
        raise ValueError(f"{name!r} is the name of an existing module, {found.origin}; give another name")
    return name


def class_name(name: str) -> str:
    """``"MyEnv"`` of ``"my_env"``."""
    return "".join(part.capitalize() for part in name.split("_"))


def write(name: str, folder: Path, cpp: bool = False) -> list[Path]:
    """Write the files of environment ``name`` into ``folder``, and make it if it is missing.

    With ``cpp`` its systems are in C++. Returns the paths of the files. Raises ValueError for a bad name,
    FileExistsError if the folder is not empty, NotADirectoryError if it is a file, before it writes anything.
    """
    check_name(name)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give another folder with --folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"the folder {folder} is not empty; give another one with --folder")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for file in (*FILES, *((CPP_FILE,) if cpp else ())):
        path, source = folder / _named(file, name), TEMPLATE / file
        if source.suffix == ".png":
            path.write_bytes(source.read_bytes())
        else:
            text = source.read_text(encoding="utf-8")
            path.write_text(_named(_of_cpp(text) if cpp else text, name), encoding="utf-8")
        written.append(path)
    return written


def in_cpp(text: str, header: str) -> str:
    """The text of an environment with systems in Python, for the same ones in C++, in ``header``."""
    text = re.sub(r"@system\n(?:.+\n)+\n+", "", text)
    text = re.sub(r"^(    (Episode|World|system),|from torch_batchsim.math .*)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^class \w+\(Environment\):\n", rf'\g<0>    systems = "{header}"\n', text, flags=re.MULTILINE)
    return re.sub(r"TaskGraph\(([a-z_, ]+)\)", lambda found: f"TaskGraph({_quoted(found[1])})", text)


def _of_cpp(text: str) -> str:
    """A file of the template where systems are in C++."""
    systems = f"components, options, task graphs, the picture |\n| `{CPP_FILE}` | the systems, in C++ |"
    text = text.replace("components, systems, options, task graphs, the picture |", systems)
    return in_cpp(text, CPP_FILE).replace("a rule in `my_env.py`", f"a rule in `{CPP_FILE}`")


def _quoted(names: str) -> str:
    return ", ".join(f'"{name}"' for name in names.split(", "))


def _named(text: str, name: str) -> str:
    """The text of the template for an environment of this name."""
    return text.replace("MyEnv", class_name(name)).replace("my_env", name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when the files are written, 1 after an error of the disk, 2 for a mistake in the command."""
    parser = Parser(
        PROGRAM, description="Write a folder with a new environment: declaration, systems, model, tests, README."
    )
    parser.add_argument("name", help="of the module, such as my_env; the class is MyEnv, the id my_env/MyEnv-v0")
    parser.add_argument("--folder", type=Path, metavar="PATH", help="where to write (default: ./NAME)")
    parser.add_argument("--cpp", action="store_true", help="write the systems in C++, not in Python")
    options = parser.parse_args(arguments)
    folder = Path(options.name) if options.folder is None else options.folder
    try:
        written = write(options.name, folder, options.cpp)
    except (ValueError, FileExistsError, NotADirectoryError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    env_id = f"{options.name}:{options.name}/{class_name(options.name)}-v0"
    print("written: " + ", ".join(map(str, written)))
    print(f"next:\n  cd {folder}\n  python -m pytest\n  python -m torch_batchsim.train {env_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
