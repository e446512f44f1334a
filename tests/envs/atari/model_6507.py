"""A model of the 6507 in Python, an instruction at a time, from the table of its opcodes."""

from __future__ import annotations

from dataclasses import dataclass, field

# Of each opcode, eight in a line: mnemonic and mode. JAM halts.
TABLE = """
BRK.imp ORA.izx JAM.imp SLO.izx NOP.zp ORA.zp ASL.zp SLO.zp
PHP.imp ORA.imm ASL.acc ANC.imm NOP.abs ORA.abs ASL.abs SLO.abs
BPL.rel ORA.izy JAM.imp SLO.izy NOP.zpx ORA.zpx ASL.zpx SLO.zpx
CLC.imp ORA.aby NOP.imp SLO.aby NOP.abx ORA.abx ASL.abx SLO.abx
JSR.abs AND.izx JAM.imp RLA.izx BIT.zp AND.zp ROL.zp RLA.zp
PLP.imp AND.imm ROL.acc ANC.imm BIT.abs AND.abs ROL.abs RLA.abs
BMI.rel AND.izy JAM.imp RLA.izy NOP.zpx AND.zpx ROL.zpx RLA.zpx
SEC.imp AND.aby NOP.imp RLA.aby NOP.abx AND.abx ROL.abx RLA.abx
RTI.imp EOR.izx JAM.imp SRE.izx NOP.zp EOR.zp LSR.zp SRE.zp
PHA.imp EOR.imm LSR.acc ALR.imm JMP.abs EOR.abs LSR.abs SRE.abs
BVC.rel EOR.izy JAM.imp SRE.izy NOP.zpx EOR.zpx LSR.zpx SRE.zpx
CLI.imp EOR.aby NOP.imp SRE.aby NOP.abx EOR.abx LSR.abx SRE.abx
RTS.imp ADC.izx JAM.imp RRA.izx NOP.zp ADC.zp ROR.zp RRA.zp
PLA.imp ADC.imm ROR.acc ARR.imm JMP.ind ADC.abs ROR.abs RRA.abs
BVS.rel ADC.izy JAM.imp RRA.izy NOP.zpx ADC.zpx ROR.zpx RRA.zpx
SEI.imp ADC.aby NOP.imp RRA.aby NOP.abx ADC.abx ROR.abx RRA.abx
NOP.imm STA.izx NOP.imm SAX.izx STY.zp STA.zp STX.zp SAX.zp
DEY.imp NOP.imm TXA.imp ANE.imm STY.abs STA.abs STX.abs SAX.abs
BCC.rel STA.izy JAM.imp SHA.izy STY.zpx STA.zpx STX.zpy SAX.zpy
TYA.imp STA.aby TXS.imp SHS.aby SHY.abx STA.abx SHX.aby SHA.aby
LDY.imm LDA.izx LDX.imm LAX.izx LDY.zp LDA.zp LDX.zp LAX.zp
TAY.imp LDA.imm TAX.imp LXA.imm LDY.abs LDA.abs LDX.abs LAX.abs
BCS.rel LDA.izy JAM.imp LAX.izy LDY.zpx LDA.zpx LDX.zpy LAX.zpy
CLV.imp LDA.aby TSX.imp LAS.aby LDY.abx LDA.abx LDX.aby LAX.aby
CPY.imm CMP.izx NOP.imm DCP.izx CPY.zp CMP.zp DEC.zp DCP.zp
INY.imp CMP.imm DEX.imp SBX.imm CPY.abs CMP.abs DEC.abs DCP.abs
BNE.rel CMP.izy JAM.imp DCP.izy NOP.zpx CMP.zpx DEC.zpx DCP.zpx
CLD.imp CMP.aby NOP.imp DCP.aby NOP.abx CMP.abx DEC.abx DCP.abx
CPX.imm SBC.izx NOP.imm ISB.izx CPX.zp SBC.zp INC.zp ISB.zp
INX.imp SBC.imm NOP.imp SBC.imm CPX.abs SBC.abs INC.abs ISB.abs
BEQ.rel SBC.izy JAM.imp ISB.izy NOP.zpx SBC.zpx INC.zpx ISB.zpx
SED.imp SBC.aby NOP.imp ISB.aby NOP.abx SBC.abx INC.abx ISB.abx
"""
OPCODES = [tuple(word.split(".")) for word in TABLE.split()]
LENGTHS = {"imp": 1, "acc": 1, "imm": 2, "zp": 2, "zpx": 2, "zpy": 2, "izx": 2, "izy": 2, "rel": 2}  # else 3
CHANGES = "ASL ROL LSR ROR DEC INC SLO RLA SRE RRA DCP ISB".split()
STORES = "STA STX STY SAX SHA SHX SHY SHS".split()
CYCLES = {
    "imm": 2, "zp": 3, "zpx": 4, "zpy": 4, "abs": 4, "abx": 4, "aby": 4, "izx": 6, "izy": 5, "imp": 2,
    "acc": 2, "rel": 2,
}  # fmt: skip
OTHER_CYCLES = {"BRK": 7, "RTI": 6, "RTS": 6, "PHP": 3, "PHA": 3, "PLP": 4, "PLA": 4, "JSR": 6}


@dataclass
class Model:
    a: int
    x: int
    y: int
    sp: int
    flags: int
    pc: int
    memory: dict[int, int]  # of RAM by its address 0x80 .. 0xFF, and of the ROM by 0xF000 ...
    cycle: int = 0
    crossed: bool = field(default=False)

    def read(self, address: int) -> int:
        if address & 0x1000:
            return self.memory[0xF000 | address & 0xFFF]
        return self.memory[address & 0x3FF if address & 0x200 else address & 0xFF]

    def write(self, address: int, byte: int) -> None:
        if address & 0x1000:
            return  # the ROM stays
        if not address & 0x80 or address & 0x200:
            raise KeyError(address)  # the TIA, the RIOT
        self.memory[address & 0xFF] = byte

    def flag(self, bit: int, value: object) -> None:
        self.flags = (self.flags & ~bit) | (bit if value else 0)

    def judge(self, byte: int) -> int:
        self.flag(0x80, byte & 0x80)
        self.flag(0x02, byte == 0)
        return byte

    def push(self, byte: int) -> None:
        self.write(self.sp, byte)
        self.sp = (self.sp - 1) & 0xFF

    def pull(self) -> int:
        self.sp = (self.sp + 1) & 0xFF
        return self.read(self.sp)

    def address(self, mode: str) -> int:
        low, word = self.read(self.pc + 1), self.read(self.pc + 1) | self.read(self.pc + 2) << 8
        if mode in ("zp", "zpx", "zpy"):
            return (low + {"zp": 0, "zpx": self.x, "zpy": self.y}[mode]) & 0xFF
        if mode == "izx":
            at = (low + self.x) & 0xFF
            return self.read(at) | self.read(at + 1) << 8
        base = self.read(low) | self.read(low + 1) << 8 if mode == "izy" else word
        index = {"abs": 0, "abx": self.x, "aby": self.y, "izy": self.y}[mode]
        self.crossed = (base ^ (base + index)) & 0xFF00 != 0
        return (base + index) & 0xFFFF

    def step(self) -> None:
        name, mode = OPCODES[self.read(self.pc)]
        at = self.address(mode) if mode not in ("imp", "acc", "imm", "rel", "ind") and name not in ("JSR", "JMP") else 0
        after = self.pc + LENGTHS.get(mode, 3)
        self.cycle += OTHER_CYCLES.get(name, CYCLES.get(mode, 5))
        if name == "JMP":
            self.cycle = 3 if mode == "abs" else 5
        if name in CHANGES and mode != "acc":
            self.cycle += 2 if mode in ("zp", "zpx", "abs", "izx") else 3
        elif name in STORES:
            self.cycle += mode in ("abx", "aby", "izy")
        else:
            self.cycle += mode in ("abx", "aby", "izy") and self.crossed
        operand = self.pc + 1 if mode == "imm" else at
        self.pc = after
        self.perform(name, mode, operand)

    def perform(self, name: str, mode: str, at: int) -> None:
        if mode == "rel":
            return self.branch(name, self.read(self.pc - 1))
        if name in CHANGES:
            byte = self.a if mode == "acc" else self.read(at)
            changed = self.change(name, byte)
            if mode == "acc":
                self.a = changed
            else:
                self.write(at, changed)
            return None
        if name in STORES:
            high = (at >> 8) + 1
            if name == "SHS":
                self.sp = self.a & self.x
            byte = {
                "STA": self.a, "STX": self.x, "STY": self.y, "SAX": self.a & self.x, "SHA": self.a & self.x & high,
                "SHX": self.x & high, "SHY": self.y & high, "SHS": self.a & self.x & high,
            }[name]  # fmt: skip
            return self.write(at, byte & 0xFF)
        if name in ("JMP", "JSR"):
            target = self.read(self.pc - 2) | self.read(self.pc - 1) << 8
            if mode == "ind":
                target = self.read(target) | self.read((target & 0xFF00) | ((target + 1) & 0xFF)) << 8
            if name == "JSR":
                self.push((self.pc - 1) >> 8)
                self.push((self.pc - 1) & 0xFF)
            self.pc = target
            return None
        if mode == "imp":
            return self.single(name)
        return self.take(name, self.read(at))

    def branch(self, name: str, offset: int) -> None:
        bit, value = {
            "BPL": (0x80, 0), "BMI": (0x80, 1), "BVC": (0x40, 0), "BVS": (0x40, 1), "BCC": (1, 0), "BCS": (1, 1),
            "BNE": (2, 0), "BEQ": (2, 1),
        }[name]  # fmt: skip
        if bool(self.flags & bit) == bool(value):
            target = (self.pc + offset - 256 * (offset > 127)) & 0xFFFF
            self.cycle += 1 + ((target ^ self.pc) & 0xFF00 != 0)
            self.pc = target

    def change(self, name: str, byte: int) -> int:
        carry = self.flags & 1
        if name in ("ASL", "SLO", "ROL", "RLA"):
            result = (byte << 1 | (carry if name in ("ROL", "RLA") else 0)) & 0xFF
            self.flag(1, byte & 0x80)
        elif name in ("LSR", "SRE", "ROR", "RRA"):
            result = byte >> 1 | (carry << 7 if name in ("ROR", "RRA") else 0)
            self.flag(1, byte & 1)
        else:
            result = (byte + (1 if name in ("INC", "ISB") else -1)) & 0xFF
        self.judge(result)
        second = {"SLO": "ORA", "RLA": "AND", "SRE": "EOR", "RRA": "ADC", "DCP": "CMP", "ISB": "SBC"}.get(name)
        if second:
            self.take(second, result)
        return result

    def add(self, byte: int) -> None:
        before, carry = self.a, self.flags & 1
        if self.flags & 8:
            total = sum(10 * (number >> 4) + (number & 15) for number in (before, byte)) + carry
            self.flag(1, total > 99)
            rest = (total & 0xFF) % 100
            self.a = rest // 10 << 4 | rest % 10
        else:
            self.flag(1, before + byte + carry > 255)
            self.a = (before + byte + carry) & 0xFF
        self.flag(0x40, (before ^ self.a) & (self.a ^ byte) & 0x80)
        self.judge(self.a)

    def subtract(self, byte: int) -> None:
        before, borrow = self.a, 1 - (self.flags & 1)
        if not self.flags & 8:
            return self.add(byte ^ 0xFF)
        rest = 10 * (before >> 4) + (before & 15) - 10 * (byte >> 4) - (byte & 15) - borrow
        rest = rest + 100 if rest < 0 else rest
        if rest < 0:  # of digits above 9: as the reference
            self.a = 10 * (256 + rest >> 4) + (256 + rest & 15)
        else:
            self.a = rest % 100 // 10 << 4 | rest % 10
        self.flag(1, before >= byte + borrow)
        self.flag(0x40, (before ^ self.a) & (self.a ^ byte) & 0x80)
        self.judge(self.a)
        return None

    def take(self, name: str, byte: int) -> None:
        if name in ("LDA", "LAX", "LDX", "LDY"):
            self.judge(byte)
            self.a = byte if name in ("LDA", "LAX") else self.a
            self.x = byte if name in ("LDX", "LAX") else self.x
            self.y = byte if name == "LDY" else self.y
        elif name in ("ORA", "AND", "EOR", "ANC"):
            self.a = self.judge({"ORA": self.a | byte, "EOR": self.a ^ byte}.get(name, self.a & byte))
            if name == "ANC":
                self.flag(1, self.a & 0x80)
        elif name in ("CMP", "CPX", "CPY"):
            register = {"CMP": self.a, "CPX": self.x, "CPY": self.y}[name]
            self.flag(1, register >= byte)
            self.judge((register - byte) & 0xFF)
        elif name == "ADC":
            self.add(byte)
        elif name == "SBC":
            self.subtract(byte)
        elif name == "BIT":
            self.flags = (self.flags & 0x3F) | (byte & 0xC0)
            self.flag(2, self.a & byte == 0)
        elif name == "ALR":
            self.a = self.change("LSR", self.a & byte)
        elif name == "ARR":
            self.rotate_both(byte)
        elif name == "SBX":
            self.flag(1, self.a & self.x >= byte)
            self.x = self.judge(((self.a & self.x) - byte) & 0xFF)
        elif name == "LAS":
            self.a = self.x = self.sp = self.judge(byte & self.sp)
        elif name in ("ANE", "LXA"):
            self.a = self.judge((self.a | 0xEE) & byte & (self.x if name == "ANE" else 0xFF))
            self.x = self.a if name == "LXA" else self.x
        else:
            assert name == "NOP", name

    def rotate_both(self, byte: int) -> None:
        both = self.a & byte
        self.a = self.judge(both >> 1 | (self.flags & 1) << 7)
        if not self.flags & 8:
            self.flag(1, self.a & 0x40)
            self.flag(0x40, (self.a >> 6 ^ self.a >> 5) & 1)
            return
        self.flag(0x40, (both ^ self.a) & 0x40)
        if (both & 15) + (both & 1) > 5:
            self.a = (self.a & 0xF0) | ((self.a + 6) & 15)
        self.flag(1, both + (both & 0x10) > 0x5F)
        if self.flags & 1:
            self.a = (self.a + 0x60) & 0xFF

    def single(self, name: str) -> None:
        if name in ("PHA", "PHP"):
            self.push(self.a if name == "PHA" else self.flags | 0x30)
        elif name == "PLA":
            self.a = self.judge(self.pull())
        elif name == "PLP":
            self.flags = self.pull() | 0x30
        elif name == "RTS":
            self.pc = (self.pull() | self.pull() << 8) + 1
        elif name == "RTI":
            self.flags = self.pull() | 0x30
            self.pc = self.pull() | self.pull() << 8
        elif name == "BRK":
            self.push((self.pc + 1) >> 8)
            self.push((self.pc + 1) & 0xFF)
            self.push(self.flags | 0x30)
            self.flag(4, True)
            self.pc = self.read(0xFFFE) | self.read(0xFFFF) << 8
        elif name in ("TXA", "TYA"):
            self.a = self.judge(self.x if name == "TXA" else self.y)
        elif name in ("TAX", "TSX", "INX", "DEX"):
            self.x = self.judge({"TAX": self.a, "TSX": self.sp, "INX": self.x + 1, "DEX": self.x - 1}[name] & 0xFF)
        elif name in ("TAY", "INY", "DEY"):
            self.y = self.judge({"TAY": self.a, "INY": self.y + 1, "DEY": self.y - 1}[name] & 0xFF)
        elif name == "TXS":
            self.sp = self.x
        elif name != "NOP":
            bit = {"C": 1, "I": 4, "D": 8, "V": 0x40}[name[2]]
            self.flag(bit, name.startswith("SE"))
