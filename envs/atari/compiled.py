"""ROMs as C++: the instructions that are found in one become blocks with constant operands.

The text is made from the user's ROM and lies in the user's build cache. Only ``console/processor.h`` has what an
instruction does: a block names instructions, one after the other. Compiled code is entered and left by the place of the
next instruction in the ROM, so that its results are the interpreter's, whatever was found. The interpreter runs code in
RAM, and what was not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_BRK, _JSR, _RTI, _RTS, _JMP, _JMP_INDIRECT = 0x00, 0x20, 0x40, 0x60, 0x4C, 0x6C
_BRANCHES = {0x10, 0x30, 0x50, 0x70, 0x90, 0xB0, 0xD0, 0xF0}
_LEAVES = {_RTI, _RTS, _JMP, _JMP_INDIRECT}
_ENDS = _BRANCHES | _LEAVES | {_BRK, _JSR}
_HALTS = {0x02, 0x12, 0x22, 0x32, 0x42, 0x52, 0x62, 0x72, 0x92, 0xB2, 0xD2, 0xF2}
_STORES = {*range(0x81, 0x88), *range(0x8C, 0x90), *range(0x91, 0x98), 0x99, *range(0x9B, 0xA0)} - {0x82, 0x92}
_CHANGES = {
    row << 5 | mode
    for row in (0, 1, 2, 3, 6, 7)
    for mode in (0x03, 0x06, 0x07, 0x0E, 0x0F, 0x13, 0x16, 0x17, 0x1B, 0x1E, 0x1F)
}
_WRITES = _STORES | _CHANGES | {_BRK, _JSR, 0x08, 0x48}  # any of them may end the frame
# Undocumented ones that do nothing, and BRK: in data rather than code.
_ODD = _HALTS | set(bytes.fromhex("00040C141A1C343A3C44545A5C64747A7C8082899C9EC2D4DADCE2F4FAFC"))
_USUAL = {code for code in range(256) if code & 3 != 3} - _ODD
_LEAST = 3  # instructions that read as code


def _length(opcode: int) -> int:
    """Bytes of an instruction, as console/processor.h has them."""
    low, group = opcode & 0x1F, opcode & 0x0F
    if opcode in (_BRK, _RTI, _RTS) or opcode in _HALTS or group in (0x08, 0x0A):
        return 1
    return 3 if opcode == _JSR or group >= 0x0C or low in (0x19, 0x1B) else 2


Slices = tuple[int, ...]
"""Numbers of 1 KiB of the ROM that the four windows show."""


@dataclass(frozen=True)
class Plugged:
    """How a cartridge shows its ROM: console/cartridge.h in Python."""

    mapper: str  # 4K, F8, F6, E0, FE, DPC
    extra_ram: bool = False

    @property
    def plain(self) -> tuple[int, int]:
        """The addresses, of 4 KiB, that only read the ROM."""
        ends = {"E0": 0xFE0, "F6": 0xFF6, "F8": 0xFF8, "DPC": 0xFC0}
        return 0x100 if self.extra_ram else 0x80 if self.mapper == "DPC" else 0, ends.get(self.mapper, 0x1000)

    @property
    def window(self) -> int:
        return 0x400 if self.mapper == "E0" else 0x1000

    @property
    def begin(self) -> int:
        """Where code begins in a window."""
        return (self.plain[0] + 0xFF) & 0xF00

    @property
    def end(self) -> int:
        """Where it ends in every window: ``find_code`` fetches two bytes more."""
        return (self.plain[1] - 1) % self.window - 1

    @property
    def first_slices(self) -> Slices:
        first = 4 if self.mapper in ("E0", "F8", "DPC") else 0
        return tuple(range(first, first + 4))

    @property
    def all_slices(self) -> list[Slices]:
        if self.mapper == "E0":  # code of a slice mostly stays in it, whatever window that is
            return [(i, i, i, 7) for i in range(8)]
        banks = {"F8": 2, "F6": 4, "DPC": 2}.get(self.mapper, 1)
        return [tuple(range(4 * bank, 4 * bank + 4)) for bank in range(banks)]

    @property
    def spots(self) -> range:
        """Addresses, of 4 KiB, that move windows."""
        two = range(0xFF8, 0xFFA)
        spots = {"F8": two, "DPC": two, "F6": range(0xFF6, 0xFFA), "E0": range(0xFE0, 0xFF8)}
        return spots.get(self.mapper, range(0))

    def switched(self, slices: Slices, address: int) -> Slices:
        """After an access."""
        if not address & 0x1000 or address & 0xFFF not in self.spots:
            return slices
        number = (address & 0xFFF) - self.spots[0]
        if self.mapper == "E0":
            return (*slices[: number >> 3], number & 7, *slices[(number >> 3) + 1 :])
        return tuple(range(4 * number, 4 * number + 4))

    def place(self, pc: int, slices: Slices) -> int | None:
        """The offset into the ROM of an instruction, where compiled code may have it."""
        if not pc & 0x1000 or not self.begin <= pc % self.window < self.end:
            return None
        if self.mapper == "FE":
            return (0 if pc & 0x2000 else 0x1000) + (pc & 0xFFF)
        return (slices[pc >> 10 & 3] << 10) + (pc & 0x3FF)

    def beside(self, place: int, pc: int) -> int:
        """The offset of an address in the same window as a place."""
        return place - place % self.window + pc % self.window

    def near(self, pc: int, other: int) -> bool:
        """Whether two addresses are in one window."""
        return pc // self.window == other // self.window


@dataclass(frozen=True)
class Instruction:
    pc: int  # a guess in code that only indirect jumps reach; its place within the window is sure
    code: bytes
    slices: Slices  # that the windows are thought to show

    @property
    def opcode(self) -> int:
        return self.code[0]

    @property
    def after(self) -> int:
        return (self.pc + _length(self.opcode)) & 0xFFFF

    @property
    def operand(self) -> int:
        """The address of three bytes, or where a branch goes."""
        if self.opcode in _BRANCHES:
            return (self.pc + 2 + self.code[1] - (self.code[1] >> 7 << 8)) & 0xFFFF
        return self.code[1] | self.code[2] << 8


@dataclass
class CompiledRom:
    """The instructions that are found in a ROM, and their C++.

    ``code``: instructions by their place in the ROM. ``leaders``: where blocks begin, ``entries``: those of them at
    which compiled code is entered.
    """

    rom: bytes
    plugged: Plugged
    code: dict[int, Instruction] = field(default_factory=dict)
    leaders: set[int] = field(default_factory=set)
    entries: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        first = self.plugged.first_slices
        self._trace(self._vector(0xFFC, first), first)
        for slices in self.plugged.all_slices:
            self._sweep(slices)
        for place, one in self.code.items():
            if one.opcode in (_JMP, _JSR):
                self.leaders.add(self.plugged.beside(place, one.operand))
        self.leaders &= set(self.code)
        self.entries &= self.leaders

    # What is found ----------------------------------------------------------------------------------------------------

    def _vector(self, low: int, slices: Slices) -> int:
        place = low if self.plugged.mapper == "FE" else slices[3] << 10 | low & 0x3FF
        return self.rom[place] | self.rom[place + 1] << 8

    def _trace(self, pc: int, slices: Slices) -> None:
        """Finds what is reached from an address, as far as the operands say."""
        waiting = [(pc, slices, True)]
        while waiting:
            pc, slices, enters = waiting.pop()
            place = self.plugged.place(pc, slices)
            if place is None:
                continue
            self.leaders.add(place)
            if enters:
                self.entries.add(place)
            while place is not None and place not in self.code and self.rom[place] not in _HALTS:
                self.code[place] = one = Instruction(pc, self.rom[place : place + 3], slices)
                waiting += self._goes_to(one)
                if one.opcode in _ENDS or self._may_switch(one):
                    break
                pc = one.after
                place = self.plugged.place(pc, slices)

    def _goes_to(self, one: Instruction) -> Iterator[tuple[int, Slices, bool]]:
        """Addresses, what windows show there, and whether compiled code is entered there."""
        slices = one.slices
        if one.opcode in _BRANCHES:
            yield one.operand, slices, not self.plugged.near(one.pc, one.operand)
            yield one.after, slices, False
        elif one.opcode in (_JMP, _JSR):
            yield one.operand, slices, not self.plugged.near(one.pc, one.operand)
            if one.opcode == _JSR:
                yield one.after, slices, True
        elif one.opcode == _BRK:
            yield self._vector(0xFFE, slices), slices, True
            yield one.pc + 2, slices, True
        elif one.opcode in (0x84, 0x85, 0x86) and one.code[1] & 0xBF == 0:  # VSYNC: the next frame begins behind it
            yield one.after, slices, True
        elif self._may_switch(one):
            yield one.after, self.plugged.switched(slices, one.operand) if _length(one.opcode) == 3 else slices, True

    def _may_switch(self, one: Instruction) -> bool:
        """Whether it may access a hot spot."""
        spots = self.plugged.spots
        if one.opcode in _ENDS or not spots:
            return False
        if _length(one.opcode) < 3:
            return one.opcode & 0x0F in (1, 3)  # by a pointer
        reach = range(one.operand, one.operand + (256 if one.opcode & 0x10 else 1))
        return any(address & 0x1000 and address & 0xFFF in spots for address in reach)

    def _sweep(self, slices: Slices) -> None:
        """Finds code that only indirect jumps reach: what nothing has reached, and reads as code."""
        known = [one.pc & 0xF000 for one in self.code.values() if one.slices == slices]
        pc, size = max(known, key=known.count, default=0xF000), 0x1000
        if self.rom[:0x800] == self.rom[0x800:0x1000]:  # 2 KiB, of which one half is used
            pc, size = pc | self._vector(0xFFC, slices) & 0x800, 0x800
        reached = self._bytes()
        end = pc + size
        while pc < end:
            place = self.plugged.place(pc, slices)
            length = 0 if place is None or place in reached else self._reads_as_code(pc, slices)
            if length:
                self._trace(pc, slices)
                reached = self._bytes()
            pc += max(length, 1)

    def _bytes(self) -> set[int]:
        return {place + i for place, one in self.code.items() for i in range(_length(one.opcode))}

    def _reads_as_code(self, pc: int, slices: Slices) -> int:
        """The bytes of instructions up to a jump, or up to known code, if all are usual; else 0."""
        start = pc
        for count in range(len(self.rom)):
            place = self.plugged.place(pc, slices)
            if place is None:
                return 0
            if place in self.code:
                return pc - start if count >= _LEAST else 0
            one = Instruction(pc, self.rom[place : place + 3], slices)
            if one.opcode not in _USUAL:
                return 0
            if one.opcode in _BRANCHES | {_JMP, _JSR}:
                target = self.plugged.place(one.operand, slices)
                if target is None or self.rom[target] not in _USUAL:
                    return 0
            pc = one.after
            if one.opcode in _LEAVES:
                return pc - start if count + 1 >= _LEAST else 0
        return 0

    # Its C++ ----------------------------------------------------------------------------------------------------------

    def lines(self, name: str) -> Iterator[str]:
        """A function for each bank of 4 KiB, and one that calls them until a frame is over."""
        first, end = self.plugged.plain
        banked = self.plugged.mapper not in ("E0", "FE")
        numbers = {place: number for number, place in enumerate(sorted(self.entries), 1)}
        yield f"struct {name}_cartridge {{"
        yield f"    static constexpr bool KNOWN = true, BANKED = {str(banked).lower()};"
        yield f"    static constexpr u32 PLAIN_FIRST = {first}, PLAIN_COUNT = {end - first};"
        yield "    TBS_METHOD static bool constant(u32 number) { return __builtin_constant_p(number); }"
        yield "};"
        table = ",".join(str(numbers.get(place, 0)) for place in range(len(self.rom)))
        yield f"static constexpr u16 {name}_entries[{len(self.rom)}] = {{{table}}};"
        parts = sorted({self._part(place) for place in self.leaders}) or [0]
        for part in parts:
            yield from self._part_lines(name, part, numbers)
        yield "template <template <class> class Processor, class Machine>"
        yield f"TBS_FUNCTION void {name}(Machine &machine, i32 left) {{"
        yield "    while (left >= 0) {"
        yield f"        switch (place_of_code(machine) >> {self._part_bits}) {{"
        for part in parts[:-1]:
            yield f"            case {part}: left = {name}_{part}<Processor>(machine, left); break;"
        yield f"            default: left = {name}_{parts[-1]}<Processor>(machine, left);"
        yield "        }"
        yield "    }"
        yield "}"

    @property
    def _part_bits(self) -> int:
        """Places of a function have the higher bits in common. Of E0 it is one, since windows call each other often."""
        return 16 if self.plugged.mapper == "E0" else 12

    def _part(self, place: int) -> int:
        return place >> self._part_bits

    def _part_lines(self, name: str, part: int, numbers: dict[int, int]) -> Iterator[str]:
        yield "template <template <class> class Processor, class Machine>"
        yield f"TBS_CALLED i32 {name}_{part}(Machine &machine, i32 left) {{"
        yield f"    Processor<{name}_cartridge> p(machine, left);"
        yield "dispatch:"
        yield "    if (p.finds_code()) {"
        yield f"        switch (p.entry({name}_entries)) {{"
        yield "            case 0: break;"
        for place, number in numbers.items():
            if self._part(place) == part:
                yield f"            case {number}: goto at_{place:x};"
        yield "            default: goto out;  // in another bank"
        yield "        }"
        yield "    }"
        yield "    p.store();"
        yield f"    p.left = interpret(machine, p.left, p.bytes, {name}_entries);"
        yield "    if (p.left < 0) return p.left;"
        yield "    p.load();"
        yield "    goto dispatch;"
        yield "rest:"
        yield "    p.store();"
        yield "    return interpret(machine, p.left, 0, nullptr);"
        yield "out:"
        yield "    p.store();"
        yield "    return p.left;"
        for place in sorted(self.leaders):
            if self._part(place) == part:
                yield from self._block_lines(place)
        yield "}"

    def _block(self, place: int) -> list[tuple[int, Instruction]]:
        """Places and instructions up to the next leader, or one that may not go on behind it."""
        found = []
        while True:
            one = self.code[place]
            found.append((place, one))
            if one.opcode in _ENDS or self._may_switch(one) or not self.plugged.near(one.pc, one.after):
                return found
            place = self.plugged.beside(place, one.after)
            if place not in self.code or place in self.leaders:
                return found

    def _block_lines(self, place: int) -> Iterator[str]:
        block, window, begin = self._block(place), self.plugged.window, self.plugged.begin
        yield f"at_{place:x}:"
        yield f"    p.place = {place % window - begin}; p.bank = {place & ~0xFFF};"
        yield f"    if (p.left < {len(block)}) goto rest;"
        yield f"    p.left -= {len(block)};"
        for place, one in block:
            number = int.from_bytes(one.code, "little")
            yield (
                f"    p.bytes = {number:#x}; p.place = {place % window - begin}; p.template perform<{one.opcode:#x}>();"
            )
            if one.opcode in _WRITES:
                yield "    if (p.left < 0) goto out;"
        place, last = block[-1]
        if last.opcode in _BRANCHES:
            # Not by its target, whose address wraps around at the end of memory.
            yield f"    if (p.place == {place % window - begin + 2}) {self._goto(place, last, last.after)}"
            yield f"    {self._goto(place, last, last.operand)}"
        elif last.opcode in (_JMP, _JSR):
            yield f"    p.jump({last.operand});"
            target = self.plugged.beside(place, last.operand)
            if target in self.leaders:
                yield f"    if (p.place < {window - begin}) goto at_{target:x};"
            yield "    goto dispatch;"
        elif last.opcode in _ENDS:
            yield "    goto dispatch;"
        else:
            if self._may_switch(last):
                yield "    if (machine.code_size == 0) goto dispatch;"
            yield f"    {self._goto(place, last, last.after)}"

    def _goto(self, place: int, one: Instruction, pc: int) -> str:
        target = self.plugged.beside(place, pc)
        known = self.plugged.near(one.pc, pc) and target in self.leaders
        return f"goto at_{target:x};" if known else "goto dispatch;"


def definitions(roms: Sequence[bytes], plugged: Sequence[Plugged]) -> str:
    """C++ in front of console/processor.h, which calls ``run_compiled``: of each game. CUDA has none of it."""
    numbers: dict[tuple[bytes, Plugged], int] = {}
    cases = []
    for game, own in enumerate(zip(roms, plugged, strict=True)):
        number = numbers.setdefault(own, len(numbers))
        cases.append(f"        case {game}: return program_{number}<Processor>(machine, left);")
    programs = [CompiledRom(*own) for own in numbers]
    heads = "template <template <class> class Processor, class Machine>"
    lines = [
        "#if !defined(__CUDACC__) && !defined(TBS_ON_DEVICE)",
        "#define ATARI_COMPILED",
        "template <class Machine> i32 interpret(Machine &, i32, u32, const u16 *);",
        "template <class Machine> u32 place_of_code(Machine &);",
        *(line for i, program in enumerate(programs) for line in program.lines(f"program_{i}")),
        heads,
        "TBS_FUNCTION void run_compiled(Machine &machine, i32 left) {",
        "    switch (machine.which) {",
        *cases,
        "    }",
        "}",
        "#endif",
    ]
    return "\n".join(lines)
