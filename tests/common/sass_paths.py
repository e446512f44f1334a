"""Instructions that a warp executes in a kernel: those of its SASS times how often their loops run.

`python tests/common/sass_paths.py unit.cubin look_around` prints the loops of the first kernel with that in its name.
`... look_around 0-a80=1 860-a50=1.1` counts: of an instruction the smallest range around its address (hexadecimal) says
how often it runs; 0 for those in no range, and for slow paths of divisions and roots.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import sass

Instruction = tuple[int, str]  # address, text


def instructions(cubin: Path, name: str) -> list[Instruction]:
    """Of the first kernel whose name has a part; raises StopIteration without one."""
    parts = sass.disassembled(cubin).split("Function : ")[1:]
    part = next(part for part in parts if name in part.split(None, 1)[0])
    found = re.findall(r"/\*([0-9a-f]{4,})\*/\s+([^;]*?)\s*;", part)
    return [(int(address, 16), text) for address, text in found if text != "NOP"]


def _target(text: str) -> int | None:
    found = re.search(r"\b(?:BRA|BSSY|CALL)\S*\s.*?0x([0-9a-f]+)", text)
    return int(found[1], 16) if found else None


def loops(code: list[Instruction]) -> dict[int, int]:
    """Last addresses of loops by the first."""
    found: dict[int, int] = {}
    for address, text in code:
        target = _target(text)
        if "BRA" in text and target is not None and target < address:
            found[target] = max(address, found.get(target, 0))
    return found


def slow(code: list[Instruction]) -> set[int]:
    """Addresses in basic blocks that call a slow path."""
    begins = {_target(text) for _, text in code}
    blocks: list[list[Instruction]] = [[]]
    for address, text in code:
        if address in begins:
            blocks.append([])
        blocks[-1].append((address, text))
        if re.search(r"\b(?:BRA|EXIT|RET|BRX)\b", text):
            blocks.append([])
    return {address for block in blocks if any("CALL" in text for _, text in block) for address, _ in block}


def executed(code: list[Instruction], trips: dict[tuple[int, int], float]) -> float:
    """The sum over instructions, by how often ranges of addresses run."""
    left_out, total = slow(code), 0.0
    for address, _ in code:
        around = [(last - first, often) for (first, last), often in trips.items() if first <= address <= last]
        if around and address not in left_out:
            total += min(around)[1]
    return total


def main() -> None:
    """The command."""
    code = instructions(Path(sys.argv[1]), sys.argv[2])
    trips = {}
    for argument in sys.argv[3:]:
        places, often = argument.split("=")
        first, last = (int(place, 16) for place in places.split("-"))
        trips[first, last] = float(often)
    if trips:
        print(round(executed(code, trips)))
        return
    for first, last in sorted(loops(code).items()):
        print(f"{first:x}-{last:x}: {sum(first <= address <= last for address, _ in code)} instructions")


if __name__ == "__main__":
    main()
