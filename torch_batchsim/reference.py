"""Writes docs/reference.md, the page of all that systems can use, from the headers and their comments.

``python -m torch_batchsim.reference > docs/reference.md``. A name of a header is on the page unless this module
lists it as the engine's own, so that nobody forgets a new one; a test compares page and headers.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .command_line import Parser
from .declare.declaration import ENGINE_HEADERS
from .declare.schema import Component
from .physics import JointKind, Physics
from .rays import Paint, View
from .read.cpp_text import Declaration, Source, read_source
from .read.offered import offered, plain_build

_INTRODUCTION = """# Reference: what systems can use

`python -m torch_batchsim.reference` writes this page from the headers in `csrc/tbs`: change their comments, not the
page. [authoring.md](authoring.md) explains the parts together, [math.md](math.md) accuracy, and `torch_batchsim.math`
has the functions in Python. The last sections are of the libraries [grid](grid.md), [physics](physics.md) and
[rays](rays.md), for environments with them in `libraries`.

Names need neither include nor `tbs::`; those of a library need its name, `physics::box`. `vecN` stands for `vec2`,
`vec3` and `vec4`, `fN` for `f32` and `f64`.
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: a header without the engine's own names. ``hidden``: ``"name"``, or ``"Type::member"``."""

    title: str
    header: str
    hidden: tuple[str, ...] = ()
    macros: tuple[str, ...] = ()
    shown: tuple[str, ...] | None = None  # of a library: its public names, with all members

    @property
    def path(self) -> Path:
        return ENGINE_HEADERS / (self.header if "/" in self.header else f"tbs/{self.header}")

    def shows(self, owner: str, name: str) -> bool:
        if self.shown is not None:
            return (owner or name) in self.shown
        return not {f"{owner}::{name}" if owner else name, owner, name if not owner else ""} & set(self.hidden)


@dataclass(frozen=True)
class LibrarySection:
    """A library: its components, as Python declares them, and its headers."""

    title: str
    introduction: str
    components: tuple[type[Component], ...]
    headers: tuple[Section, ...]


SECTIONS = (
    Section(
        "Words in front of functions, and numbers",
        "platform.h",
        ("on_device",),
        (
            *("TBS_SYSTEM", "TBS_REACHES", "TBS_FUNCTION", "TBS_METHOD", "TBS_CALLED", "TBS_ONE_COPY"),
            "TBS_PRECOMPILED",
            *("TBS_UNROLL", "TBS_NO_UNROLL"),
        ),
    ),
    Section(
        "World, rows, episode",
        "world.h",
        tuple(
            "NodeKey undeclared_access is_declared is_optional TableOf ColumnOf OnlyRow WorkspaceOf has_component "
            "has_all Archetypes ArchetypesWith HoldersOf given_or_zero BasicWorld::BasicWorld BasicWorld::self "
            "WorldTable::world Rows::begin Rows::end NoRows::first".split()
        ),
    ),
    Section(
        "Entities",
        "table.h",
        tuple(
            "Birth first_tick DynamicTable take_next find_birth order_bits accept_added Entity::tag Entity::table "
            "Entity::birth".split()
        ),
    ),
    Section("Several worlds", "worlds.h", ("WorldPack", "BasicWorlds::BasicWorlds")),
    Section(
        "Random numbers",
        "random.h",
        tuple(
            "PhiloxBlock philox mix_key RandomKey repeated Random::Random Random::operator Random::begin_with".split()
        ),
    ),
    Section(
        "Mathematics",
        "math.h",
        tuple(
            "WideFloat Float64 Number only_for_f32_write_a_literal_as_0_5f_or_cast same_signedness "
            "f32_and_f64_arguments_mixed_write_a_literal_as_0_5f_or_cast".split()
        ),
    ),
    Section("Vectors and rotations", "vector.h", ("Vector",)),
    Section(
        "Lanes",
        "lanes.h",
        tuple(
            "Lanes::Lanes Lanes::group_threads Lanes::groups_per_block Lanes::first_lane Lanes::stride Lanes::sync "
            "threads_of_lanes Lanes::lanes".split()
        ),
    ),
    Section("Strings of bits", "bits.h", ("write_word_as_bytes", "sixteen_bits", "four_bytes")),
    Section(
        "Copies",
        "copy.h",
        tuple("Sixteen Eight Four One Pieces pieces_at_once copy_pieces copy_bytes copy_row".split()),
    ),
    Section(
        "Workspace",
        "workspace.h",
        ("thread_workspace", "has_whole_chip", "is_on_chip", "chip_of_group", "spoil_workspace"),
    ),
)
LIBRARIES = (
    LibrarySection(
        "The grid: `grid::`",
        "Systems take `grid::Cells`, which [`Grid`](grid.md) declares.",
        (),
        (Section("", "grid/grid.h", shown=("build", "near", "scan")),),
    ),
    LibrarySection(
        "Rigid bodies: `physics::`",
        "Systems take the components of [`Physics`](physics.md), and `const physics::Hulls &`. Values of `Shape.kind`, "
        "`Motion.kind` and `Joint.kind` have names in Python (`JointKind.HINGE`) and in C++ (`physics::HINGE`).",
        Physics.components,
        (
            Section(
                "",
                "physics/make.h",
                shown=tuple(
                    "sphere capsule box hull plane no_shape LOCK_X dynamic kinematic fixed pose part pose_of "
                    "default_material mass_of_density mass_of Assembly".split()
                )
                + ("frame_of_axis", "joint", "world_pose", *(kind.maker for kind in JointKind))
                + ("angle_of", "rate_of", "separation_of"),
            ),
            Section("", "physics/query.h", shown=("overlaps",)),
        ),
    ),
    LibrarySection(
        "Rays and cameras: `rays::`",
        "Systems take `const rays::Scene &`, which the fragment `Rays.gather` prepares.",
        (View, Paint),
        (
            Section("", "rays/cast.h", shown=("Ray", "Hit", "longest_reach")),
            Section(
                "", "rays/rays.h", shown=tuple("Serial Nearest cast sees cast_all Sight see_all Fan lidar".split())
            ),
            Section("", "rays/look.h", shown=("look",)),
            Section("", "rays/camera.h", shown=("Camera", "Lighting", "Pixel", "looking", "render")),
            Section("", "rays/library.h", shown=("entity_of", "body_of")),
        ),
    ),
)
_NAMES = {
    "BasicWorld": "World",
    "BasicWorlds": "Worlds\\<most>",
    "Lanes": "Warp, Block",
    "WorldTable": "The first argument of the function in world.tables",
}
_WRITTEN = (("BasicWorld<Context>", "World"), ("decltype(Context::parameters)", "Parameters"))  # as authors know them
_WHOLE: dict[str, bool] = {"break_long_words": False, "break_on_hyphens": False}
_FOR_COMPILERS = re.compile(r"requires\(.*?\) (?=bool)|, u32 line = __builtin_LINE\(\)|(?:static )?constexpr ")
_FAMILIES = {"vecN": ("vec2", "vec3", "vec4"), "fN": ("f32", "f64")}
_MARKS = re.compile(r"\b(?:TBS_(?:FUNCTION|METHOD|CALLED|DEVICE)|inline)\s+")


@dataclass
class Entry:
    """Declarations under one comment. ``owner``: the type whose members they are, or ``""``."""

    comment: tuple[str, ...]
    owner: str
    signatures: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # "function", "variable", "type", "other", "macro"
    last_line: int = 0


def entries(section: Section) -> list[Entry]:
    """The entries of a section, in the header's order."""
    text = plain_build(section.path.read_text("utf-8"))
    source, lines = read_source(section.path, text), text.splitlines()
    shown: list[Entry] = []
    for name in section.macros:
        _add_macro(shown, source, lines, name)
    for declaration, owner, name in offered(source):
        if not section.shows(owner, name):
            continue
        line = source.tokens[declaration.first].line
        signature = _signature(source, lines, declaration, text)
        if "__m" in signature or re.search(r"\bWide(?:Condition)?\b", signature):
            continue  # the same for registers of some width
        comment = _comment(lines, line)
        before = shown[-1] if shown else None
        adjacent = before and before.last_line >= line - 1 and "type" not in before.kinds
        is_field = owner and before and before.kinds[-1] == declaration.kind == "variable"
        if before and before.owner == owner and not comment and (adjacent or is_field):
            entry = before
        else:
            shown.append(entry := Entry(comment, owner))
        entry.signatures.append(signature)
        entry.names.append(name)
        entry.kinds.append(declaration.kind)
        entry.last_line = _last_line(source, declaration)
    return shown


def offered_names(section: Section) -> set[str]:
    """All names of a header outside of ``detail`` and ``private``, hidden or not, as ``hidden`` writes them."""
    found = set()
    for _, owner, name in offered(read_source(section.path, plain_build(section.path.read_text("utf-8")))):
        found |= {f"{owner}::{name}" if owner else name}
    return found


def _last_line(source: Source, declaration: Declaration) -> int:
    end = declaration.body[1] if declaration.body else declaration.last
    return source.tokens[min(end, len(source.tokens)) - 1].line


def _comment(lines: Sequence[str], line: int) -> tuple[str, ...]:
    """The lines of the comment above a line, without their slashes."""
    found: list[str] = []
    at = line - 2
    while at >= 0 and lines[at].lstrip().startswith(("//", "#if", "#el")):
        if not lines[at].lstrip().startswith("#"):
            found.append(lines[at].strip()[2:].removeprefix(" "))
        elif found:
            break
        at -= 1
    whole = tuple(reversed(found))
    return () if whole and re.match(r"(?:---- |\(With a mask|-{5})", whole[0]) else whole


def _signature(source: Source, lines: Sequence[str], declaration: Declaration, text: str) -> str:
    """The head of a function or type; the line of a field, constant or alias with its comment."""
    tokens = source.tokens
    begin = tokens[declaration.first].start
    if declaration.kind == "function":
        end = tokens[declaration.last].start if declaration.last < len(tokens) else len(text)
        signature = " ".join(_MARKS.sub("", source.code[begin:end]).rstrip("; \n").split())
        signature = re.sub(r"\[\[.*?\]\] ", "", signature)
    elif declaration.kind == "type":
        stop = next(i for i in range(declaration.first, declaration.last) if tokens[i].text in ("{", ";"))
        signature = " ".join(source.code[begin : tokens[stop].start].split())
    else:
        line = tokens[declaration.first].line
        last = tokens[declaration.last - 1].line
        signature = " ".join(part.strip() for part in lines[line - 1 : last])
        signature = re.sub(r"\s{2,}//", "  //", signature.removeprefix("inline "))
    for engine, author in _WRITTEN:
        signature = signature.replace(engine, author)
    signature = re.sub(r"^template <Float64 T> (.*)$", lambda found: re.sub(r"\bT\b", "f64", found[1]), signature)
    signature = re.sub(r"^template <Vector T> (.*)$", lambda found: re.sub(r"\bT\b", "vecN", found[1]), signature)
    return re.sub(r"\s+const$", "", signature) if declaration.kind == "function" else signature


def _add_macro(shown: list[Entry], source: Source, lines: Sequence[str], name: str) -> None:
    """As an entry, or in the entry before if it has no comment of its own."""
    macro = next(macro for macro in source.macros if macro.name == name)
    comment = _comment(lines, macro.line)
    if comment:
        shown.append(Entry(comment, ""))
    shown[-1].signatures.append(name)
    shown[-1].names.append(name)
    shown[-1].kinds.append("macro")


def _escaped(text: str) -> str:
    """Wrapped text without tags and emphasis of Markdown outside of backticks."""
    pieces = [re.sub(r"([<*])", r"\\\1", piece) if i % 2 == 0 else piece for i, piece in enumerate(text.split("`"))]
    return textwrap.fill("`".join(pieces), 120, **_WHOLE)


def _title(entry: Entry) -> str:
    """``Rows<Component>``: a type with the names of its parameters."""
    found = re.match(r"template <(.*)> (?:struct|class)", entry.signatures[0])
    parameters = [each.split()[-1] for each in found[1].split(",")] if found else []
    return f"{entry.names[0]}\\<{', '.join(parameters)}>" if parameters else entry.names[0]


def _shown(section: Section) -> Iterator[str]:
    """Headings and comments of types as prose; members, and functions between types, as blocks of code."""
    code: list[str] = []
    owner, apart = "", False
    for entry in entries(section):
        is_heading = "type" in entry.kinds and not entry.owner
        if is_heading or entry.owner != owner:
            yield from _block(code)
            code, owner, apart = [], entry.owner, False
        if is_heading:
            yield f"### {_NAMES.get(entry.names[0]) or _title(entry)}\n"
            if entry.comment:
                yield f"{_escaped(' '.join(entry.comment))}\n"
            continue
        lines = _with_comment(entry)
        commented = lines[0].startswith("//")
        code += ["", *lines] if code and (apart or commented) else lines
        apart = commented
    yield from _block(code)


def _block(code: Sequence[str]) -> Iterator[str]:
    if code:
        yield from ("```cpp", *_folded(code), "```", "")


def _folded(code: Sequence[str]) -> list[str]:
    """Functions that exist for all types of a family once, with the family's name."""
    lines = list(code)
    for name, types in _FAMILIES.items():
        for line in lines[:]:
            family = [re.sub(rf"\b{types[0]}\b", each, line) for each in types]
            if len({*family}) == len(types) and {*family} <= {*lines}:
                lines[lines.index(line)] = re.sub(rf"\b{types[0]}\b", name, line)
                lines = [line for line in lines if line not in family]
    return lines


def _with_comment(entry: Entry) -> list[str]:
    """Signatures with their comment: behind one that leaves room for it, else above them."""
    signatures = [line for signature in entry.signatures for line in _lines(_short(signature))]
    if not entry.comment:
        return signatures
    prose = " ".join(line for line in entry.comment if not line.startswith("    "))
    code = [f"// {line}" for line in entry.comment if line.startswith("    ")]
    beside = f"{signatures[0]}  // {prose}"
    if not code and len(signatures) == 1 and len(beside) <= 120 and "//" not in signatures[0]:
        return [beside]
    return [*textwrap.wrap(prose, 120, initial_indent="// ", subsequent_indent="// ", **_WHOLE), *code, *signatures]


def _lines(signature: str) -> list[str]:
    """The lines of a signature: a long one is broken behind its template's head, else between parameters."""
    if len(signature) <= 120:
        return [signature]
    head, _, rest = signature.rpartition("> ") if signature.startswith("template") else ("", "", signature)
    whole = rest.replace(", ", ",\n").replace(" ", "\0").replace("\n", " ")
    wrapped = textwrap.wrap(whole, 120, subsequent_indent="    ", **_WHOLE)
    return [*([f"{head}>"] if head else []), *(line.replace("\0", " ") for line in wrapped)]


def _short(signature: str) -> str:
    """Without words that only a compiler needs, and without a template's head where a call has all of its arguments."""
    signature = _FOR_COMPILERS.sub("", signature)
    found = re.fullmatch(r"template <((?:class \w+(?:, )?)+)> (.*)", signature)
    if found is None:
        return signature
    given = found[2].partition("(")[2]
    names = (each.split()[1] for each in found[1].split(", "))
    return found[2] if all(re.search(rf"\b{name}\b", given) for name in names) else signature


def page() -> str:
    """The whole page."""
    lines = [_INTRODUCTION]
    for section in SECTIONS:
        lines.append(f"## {section.title}\n")
        lines += _shown(section)
    for library in LIBRARIES:
        lines += [f"## {library.title}\n", f"{_escaped(library.introduction)}\n"]
        if library.components:
            text = "\n\n".join(inspect.getsource(component).rstrip() for component in library.components)
            lines += ["```python", text, "```", ""]
        for section in library.headers:
            lines += _shown(section)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Print the page; there are no options."""
    Parser("python -m torch_batchsim.reference", description=__doc__).parse_args()
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
