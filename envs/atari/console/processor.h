// The 6507. Time counts by instruction: its cycles are over before its operand is read or its result written.
#pragma once

// The modes of an operation that reads: those of ORA, AND, EOR, ADC, LDA, CMP, SBC.
#define ATARI_READS(base, operation)                              \
    case base + 0x01: operation(indirect_x()); break;             \
    case base + 0x05: operation(zero_page()); break;              \
    case base + 0x09: operation(immediate()); break;              \
    case base + 0x0D: operation(absolute()); break;               \
    case base + 0x11: operation(indirect_y()); break;             \
    case base + 0x15: operation(zero_page_by(x)); break;          \
    case base + 0x19: operation(absolute_by(y)); break;           \
    case base + 0x1D: operation(absolute_by(x)); break;

// An operation that reads a byte at `address`, where `bus` is on the bus, and writes it back.
#define ATARI_CHANGE(cycles, bytes, address, operation)           \
    {                                                             \
        takes(cycles, bytes);                                     \
        const u32 where = address;                                \
        put(where, operation(at(where, where >> 8)));             \
        break;                                                    \
    }

// The modes of ASL, ROL, LSR, ROR, DEC, INC.
#define ATARI_CHANGES(base, operation)                                                               \
    case base + 0x06:                                                                                \
        takes(5, 2);                                                                                 \
        put_zero_page(low(), operation(at_zero_page(low())));                                            \
        break;                                                                                       \
    case base + 0x0E: ATARI_CHANGE(6, 3, word(), operation)                                          \
    case base + 0x16:                                                                                \
        takes(6, 2);                                                                                 \
        put_zero_page(low() + x, operation(at_zero_page((low() + x) & 0xFF)));                           \
        break;                                                                                       \
    case base + 0x1E: ATARI_CHANGE(7, 3, word_by(x), operation)

// The modes of the undocumented ones that read and write.
#define ATARI_DOUBLES(base, operation)                                                               \
    case base + 0x03: ATARI_CHANGE(8, 2, pointer_by_x(), operation)                                  \
    case base + 0x07:                                                                                \
        takes(5, 2);                                                                                 \
        put_zero_page(low(), operation(at_zero_page(low())));                                            \
        break;                                                                                       \
    case base + 0x0F: ATARI_CHANGE(6, 3, word(), operation)                                          \
    case base + 0x13: ATARI_CHANGE(8, 2, indirect_y_address(), operation)                            \
    case base + 0x17:                                                                                \
        takes(6, 2);                                                                                 \
        put_zero_page(low() + x, operation(at_zero_page((low() + x) & 0xFF)));                           \
        break;                                                                                       \
    case base + 0x1B: ATARI_CHANGE(7, 3, word_by(y), operation)                                      \
    case base + 0x1F: ATARI_CHANGE(7, 3, word_by(x), operation)

#define ATARI_WRITE(cycles, bytes, address, value)                \
    {                                                             \
        takes(cycles, bytes);                                     \
        const u32 where = address;                                \
        put(where, value);                                        \
        break;                                                    \
    }

#define ATARI_WRITE_ZERO_PAGE(cycles, address, value)             \
    {                                                             \
        takes(cycles, 2);                                         \
        put_zero_page(address, value);                            \
        break;                                                    \
    }

// An instruction of one byte.
#define ATARI_PLAIN(does)                                         \
    {                                                             \
        takes(2, 1);                                              \
        does;                                                     \
        break;                                                    \
    }

// Bytes of an instruction.
TBS_FUNCTION u32 length_of(u32 opcode) {
    const u32 low = opcode & 0x1F, group = opcode & 0x0F;
    if (opcode == 0x20) return 3;
    if (opcode == 0x00 || opcode == 0x40 || opcode == 0x60) return 1;
    if (group >= 0x0C || low == 0x19 || low == 0x1B) return 3;
    if (group == 0x08 || group == 0x0A) return 1;
    if (group == 0x02 && opcode != 0x82 && opcode != 0xA2 && opcode != 0xC2 && opcode != 0xE2) return 1;
    return 2;
}

constexpr i32 STOPPED = -1000000;  // instructions left after the end of a frame

// Where instructions around `pc` lie in the ROM. False where fetching three bytes there could have effects.
TBS_CALLED bool find_code(Machine &machine, u32 pc) {
    const bool split = machine.facts.mapper == MAPPER_E0;  // into windows of their own
    const u32 size = split ? 0x400 : 0x1000, page = pc & (0x10000 - size);
    const u32 first = split ? 0 : (machine.plain_first + 0xFF) & 0xF00;
    const u32 end = min(size, machine.plain_first + machine.plain_count - (page & 0xFFF)) - 2;
    const u32 at = pc - page;
    if (!(pc & 0x1000) || at < first || at >= end) return false;
    machine.code_first = page + first;
    machine.code_size = end - first;
    machine.code = machine.rom + machine.windows[page >> 10 & 11] + first;
    return true;
}

// What a processor knows of its cartridge before it runs.
struct AnyCartridge {
    static constexpr bool KNOWN = false;
    TBS_METHOD static bool constant(u32) { return false; }
};

template <class Known>
struct Processor {
    Machine &machine;
    i32 cycle;
    u32 first;  // machine.code_first
    u32 bank;  // where the ROM has the 4 KiB that are seen, of a known cartridge whose windows move together
    u32 place;  // of the instruction: its address less code_first; that of the next one once it runs
    u32 a, x, y, sp;
    u32 result;  // its lowest 8 bits are 0: the flag Z is set; bit 7 or 8 is not: the flag N
    u32 carry, overflow, decimal, interrupt;
    u32 bytes;  // of the instruction, the lowest first
    i32 left;   // instructions that the frame may still have

    TBS_METHOD Processor(Machine &of, i32 most) : machine(of), bank(0), bytes(0), left(most) { load(); }

    TBS_METHOD void load() {
        const Cpu &cpu = machine.cpu;
        cycle = cpu.cycle;
        first = machine.code_first;
        place = cpu.pc - first;
        a = cpu.a;
        x = cpu.x;
        y = cpu.y;
        sp = cpu.sp;
        set_flags(cpu.flags);
    }

    TBS_METHOD void store() {
        Cpu &cpu = machine.cpu;
        cpu.cycle = cycle;
        cpu.pc = u16(pc());
        cpu.a = u8(a);
        cpu.x = u8(x);
        cpu.y = u8(y);
        cpu.sp = u8(sp);
        cpu.flags = u8(flags());
    }

    // Flags --------------------------------------------------------------------------------------------------------
    TBS_METHOD u32 flags() const {
        const u32 zero = zeroed(), negative = negated();
        return negative << 7 | overflow << 6 | 0x30 | decimal << 3 | interrupt << 2 | zero << 1 | carry;
    }
    TBS_METHOD void set_flags(u32 byte) {
        result = (byte & 0x80) << 1 | (~byte & 2);
        overflow = byte >> 6 & 1;
        decimal = byte >> 3 & 1;
        interrupt = byte >> 2 & 1;
        carry = byte & 1;
    }
    TBS_METHOD bool zeroed() const { return (result & 0xFF) == 0; }
    TBS_METHOD bool negated() const { return result & 0x180; }
    TBS_METHOD u32 judged(u32 byte) {
        result = byte;
        return byte;
    }

    // Operands -----------------------------------------------------------------------------------------------------
    TBS_METHOD u32 opcode() const { return bytes & 0xFF; }
    TBS_METHOD u32 low() const { return bytes >> 8 & 0xFF; }
    TBS_METHOD u32 high() const { return bytes >> 16 & 0xFF; }
    TBS_METHOD u32 word() const { return bytes >> 8 & 0xFFFF; }
    TBS_METHOD u32 pc() const { return (first + place) & 0xFFFF; }
    TBS_METHOD void takes(i32 cycles, u32 bytes) {
        cycle += cycles;
        place += bytes;
    }
    TBS_METHOD u32 at(u32 address, u32 bus) {
        if constexpr (Known::KNOWN) {
            if (address & 0x1000 && (address & 0xFFF) - Known::PLAIN_FIRST < Known::PLAIN_COUNT) [[likely]] {
                return Known::BANKED ? machine.rom[bank + (address & 0xFFF)] : rom_byte(machine, address);
            }
            if (Known::constant(address)) return read_other(machine, address, u8(bus), cycle);
            return read_device(machine, address, u8(bus), cycle);
        }
        return read(machine, address, bus, cycle);
    }
    TBS_METHOD u32 at_zero_page(u32 address) { return read_zero_page(machine, address, low(), cycle); }
    TBS_METHOD u32 immediate() {
        takes(2, 2);
        return low();
    }
    TBS_METHOD u32 zero_page() {
        takes(3, 2);
        return at_zero_page(low());
    }
    TBS_METHOD u32 zero_page_by(u32 index) {
        takes(4, 2);
        return at_zero_page((low() + index) & 0xFF);
    }
    TBS_METHOD u32 absolute() {
        takes(4, 3);
        return at(word(), high());
    }
    TBS_METHOD u32 absolute_by(u32 index) {
        const u32 address = word() + index;
        takes(4 + i32{(low() + index) > 0xFF}, 3);
        return at(address & 0xFFFF, high());
    }
    // A pointer in page zero; one at 0xFF has its high byte at 0x100.
    TBS_METHOD u32 pointer(u32 where) {
        const u32 first = at_zero_page(where);
        if (where == 0xFF) [[unlikely]] return first | u32{read_device(machine, 0x100, u8(first), cycle)} << 8;
        return first | u32{read_zero_page(machine, where + 1, first, cycle)} << 8;
    }
    TBS_METHOD u32 pointer_by_x() { return pointer((low() + x) & 0xFF); }
    TBS_METHOD u32 indirect_x() {
        takes(6, 2);
        const u32 address = pointer_by_x();
        return at(address, address >> 8);
    }
    TBS_METHOD u32 indirect_y() {
        takes(5, 2);
        const u32 base = pointer(low());
        cycle += (base & 0xFF) + y > 0xFF;
        return at((base + y) & 0xFFFF, base >> 8);
    }
    TBS_METHOD u32 indirect_y_address() { return (pointer(low()) + y) & 0xFFFF; }
    TBS_METHOD u32 word_by(u32 index) const { return (word() + index) & 0xFFFF; }

    TBS_METHOD void put(u32 address, u32 value) {
        if (address & 0x1080) {
            write_device(machine, address, u8(value), cycle);
        } else {
            put_tia(address, value, true);
        }
    }
    TBS_METHOD void put_zero_page(u32 address, u32 value, bool after_read = true) {
        address &= 0xFF;
        if (address & 0x80) [[unlikely]] {
            machine.ram.bytes[address - 0x80] = u8(value);
        } else {
            put_tia(address, value, after_read);
        }
    }
    TBS_METHOD void put_tia(u32 address, u32 value, bool after_read) {
        const u32 number = address & 0x3F;
        if (cycle >= machine.cycle_limit) [[unlikely]] {
            hold_until(machine, 3 * cycle);  // writes that change nothing else let the beam wait
            machine.over = true;
            left = STOPPED;
        }
        if (number == WSYNC) {
            if (after_read) cycle = next_line(machine, cycle);
        } else {
            if (Known::KNOWN && Known::constant(number)) {
                write_register(machine, number, u8(value), cycle);
            } else {
                write_tia(machine, number, u8(value), cycle);
            }
            if (number == VSYNC && machine.over) [[unlikely]] left = STOPPED;
        }
    }

    // Stack --------------------------------------------------------------------------------------------------------
    TBS_METHOD void push(u32 value, bool after_read) {
        put_zero_page(sp, value, after_read);
        sp = (sp - 1) & 0xFF;
    }
    TBS_METHOD u32 pull(u32 bus) {
        sp = (sp + 1) & 0xFF;
        return read_zero_page(machine, sp, bus, cycle);
    }
    // The first byte of an instruction: the one below it has been read before.
    TBS_METHOD u32 pull() { return pull(sp & 0x80 ? machine.ram.bytes[sp & 0x7F] : opcode()); }

    // Operations ---------------------------------------------------------------------------------------------------
    TBS_METHOD void lda(u32 m) { a = judged(m); }
    TBS_METHOD void ldx(u32 m) { x = judged(m); }
    TBS_METHOD void ldy(u32 m) { y = judged(m); }
    TBS_METHOD void lax(u32 m) { a = x = judged(m); }
    TBS_METHOD void ora(u32 m) { a = judged(a | m); }
    TBS_METHOD void land(u32 m) { a = judged(a & m); }
    TBS_METHOD void eor(u32 m) { a = judged(a ^ m); }
    TBS_METHOD void nop(u32) {}
    TBS_METHOD void compare(u32 with, u32 m) {
        carry = with >= m;
        judged((with - m) & 0xFF);
    }
    TBS_METHOD void cmp(u32 m) { compare(a, m); }
    TBS_METHOD void cpx(u32 m) { compare(x, m); }
    TBS_METHOD void cpy(u32 m) { compare(y, m); }
    TBS_METHOD void bit(u32 m) {
        overflow = m >> 6 & 1;
        result = (m & 0x80) << 1 | (a & m);
    }
    TBS_METHOD static constexpr u32 decimal_of(u32 byte) { return 10 * (byte >> 4) + (byte & 15); }
    TBS_METHOD static constexpr u32 bcd_of(u32 number) { return number / 10 << 4 | number % 10; }
    TBS_METHOD void adc(u32 m) {
        const u32 before = a;
        if (decimal) {
            const u32 sum = decimal_of(a) + decimal_of(m) + carry;
            carry = sum > 99;
            a = bcd_of((sum & 0xFF) % 100);
        } else {
            const u32 sum = a + m + carry;
            carry = sum >> 8;
            a = sum & 0xFF;
        }
        overflow = ((before ^ a) & (a ^ m)) >> 7;
        judged(a);
    }
    TBS_METHOD void sbc(u32 m) {
        const u32 before = a;
        if (decimal) {
            i32 difference = i32(decimal_of(a)) - i32(decimal_of(m)) - i32(1 - carry);
            if (difference < 0) difference += 100;
            // Digits above 9 may leave it negative; then the reference reads the number of a byte instead.
            a = difference < 0 ? decimal_of(u32(256 + difference)) : bcd_of(u32(difference) % 100);
            carry = before >= m + 1 - carry;
            overflow = ((before ^ a) & (a ^ m)) >> 7;
        } else {
            const u32 sum = a + (m ^ 0xFF) + carry;
            carry = sum >> 8;
            a = sum & 0xFF;
            overflow = ((before ^ m) & (before ^ a)) >> 7 & 1;
        }
        judged(a);
    }
    TBS_METHOD u32 asl(u32 m) {
        carry = m >> 7;
        return judged(m << 1 & 0xFF);
    }
    TBS_METHOD u32 lsr(u32 m) {
        carry = m & 1;
        return judged(m >> 1);
    }
    TBS_METHOD u32 rol(u32 m) {
        const u32 byte = (m << 1 & 0xFF) | carry;
        carry = m >> 7;
        return judged(byte);
    }
    TBS_METHOD u32 ror(u32 m) {
        const u32 byte = m >> 1 | carry << 7;
        carry = m & 1;
        return judged(byte);
    }
    TBS_METHOD u32 inc(u32 m) { return judged((m + 1) & 0xFF); }
    TBS_METHOD u32 dec(u32 m) { return judged((m - 1) & 0xFF); }
    // Undocumented ones: two operations in one.
    TBS_METHOD u32 slo(u32 m) {
        const u32 byte = asl(m);
        ora(byte);
        return byte;
    }
    TBS_METHOD u32 rla(u32 m) {
        const u32 byte = rol(m);
        land(byte);
        return byte;
    }
    TBS_METHOD u32 sre(u32 m) {
        const u32 byte = lsr(m);
        eor(byte);
        return byte;
    }
    TBS_METHOD u32 rra(u32 m) {
        const u32 byte = ror(m);
        adc(byte);
        return byte;
    }
    TBS_METHOD u32 dcp(u32 m) {
        const u32 byte = (m - 1) & 0xFF;
        cmp(byte);
        return byte;
    }
    TBS_METHOD u32 isb(u32 m) {
        const u32 byte = (m + 1) & 0xFF;
        sbc(byte);
        return byte;
    }
    TBS_METHOD void anc(u32 m) {
        land(m);
        carry = a >> 7;
    }
    TBS_METHOD void alr(u32 m) { a = lsr(a & m); }
    TBS_METHOD void arr(u32 m) {
        const u32 both = a & m;
        a = judged(both >> 1 | carry << 7);
        if (!decimal) {
            carry = a >> 6 & 1;
            overflow = (a >> 6 ^ a >> 5) & 1;
            return;
        }
        overflow = (both ^ a) >> 6 & 1;
        if ((both & 15) + (both & 1) > 5) a = (a & 0xF0) | ((a + 6) & 15);
        carry = both + (both & 0x10) > 0x5F;
        if (carry) a = (a + 0x60) & 0xFF;
    }
    TBS_METHOD void sbx(u32 m) {
        const u32 both = a & x;
        carry = both >= m;
        x = judged((both - m) & 0xFF);
    }
    TBS_METHOD void las(u32 m) { a = x = sp = judged(m & sp); }
    TBS_METHOD void ane(u32 m) { a = judged((a | 0xEE) & x & m); }
    TBS_METHOD void lxa(u32 m) { a = x = judged((a | 0xEE) & m); }

    // Jumps --------------------------------------------------------------------------------------------------------
    TBS_METHOD void jump(u32 target) { place = target - first; }
    TBS_METHOD void branch(bool taken) {
        takes(2, 2);
        if (!taken) return;
        const u32 target = place + low() - (low() >> 7 << 8);
        cycle += 1 + i32{((target ^ place) & 0xFF00) != 0};
        place = target;
    }

    // LDA, LDX or LDY INTIM, BNE back: all turns but the last of this loop, which waits for the timer, are skipped.
    TBS_METHOD void skip_waiting() {
        if (place >= machine.code_size) return;
        const u8 *code = machine.code + place;
        if (code[0] < 0xAC || code[0] > 0xAE || code[1] != 0x84 || code[2] != 0x02) return;
        const Riot &riot = machine.riot;
        const i32 turn = 7 + i32{((place + 5) ^ place) >> 8 != 0};
        const i32 since = cycle + 3 - riot.set, expiry = (i32(riot.value) - 1) << riot.shift;  // of the next read
        if (since < 0 || since >= expiry) return;
        const i32 turns = min((expiry - since + turn - 1) / turn, left / 2);
        cycle += turn * turns;
        left -= 2 * turns;
    }

    // Fetches the instruction; through the bus where reading has effects.
    TBS_METHOD void fetch() {
        if (place >= machine.code_size) [[unlikely]] {
            const u32 address = pc();
            const bool found = find_code(machine, address);
            first = machine.code_first;
            place = address - first;
            if (!found) return fetch_over_bus(address);
        }
        const u8 *code = machine.code + place;
        bytes = code[0] | u32{code[1]} << 8 | u32{code[2]} << 16 | u32{code[3]} << 24;  // one load
    }
    TBS_METHOD void fetch_over_bus(u32 pc) {
        const u32 first = at(pc, high()), length = length_of(first);
        const u32 second = length > 1 ? at((pc + 1) & 0xFFFF, first) : first;
        // JSR reads its third byte after its pushes.
        const u32 third = length > 2 && first != 0x20 ? at((pc + 2) & 0xFFFF, second) : second;
        bytes = first | second << 8 | third << 16;
    }

    // The instruction, whose opcode may be known.
    template <u32 known = 256>
    TBS_METHOD void perform() {
        switch (known < 256 ? known : opcode()) {
            ATARI_READS(0x00, ora)
            ATARI_READS(0x20, land)
            ATARI_READS(0x40, eor)
            ATARI_READS(0x60, adc)
            ATARI_READS(0xA0, lda)
            ATARI_READS(0xC0, cmp)
            ATARI_READS(0xE0, sbc)
            ATARI_CHANGES(0x00, asl)
            ATARI_CHANGES(0x20, rol)
            ATARI_CHANGES(0x40, lsr)
            ATARI_CHANGES(0x60, ror)
            ATARI_CHANGES(0xC0, dec)
            ATARI_CHANGES(0xE0, inc)
            ATARI_DOUBLES(0x00, slo)
            ATARI_DOUBLES(0x20, rla)
            ATARI_DOUBLES(0x40, sre)
            ATARI_DOUBLES(0x60, rra)
            ATARI_DOUBLES(0xC0, dcp)
            ATARI_DOUBLES(0xE0, isb)

            // Stores
            case 0x81: ATARI_WRITE(6, 2, pointer_by_x(), a)
            case 0x84: ATARI_WRITE_ZERO_PAGE(3, low(), y)
            case 0x85: ATARI_WRITE_ZERO_PAGE(3, low(), a)
            case 0x86: ATARI_WRITE_ZERO_PAGE(3, low(), x)
            case 0x87: ATARI_WRITE_ZERO_PAGE(3, low(), a & x)
            case 0x83: ATARI_WRITE(6, 2, pointer_by_x(), a & x)
            case 0x8C: ATARI_WRITE(4, 3, word(), y)
            case 0x8D: ATARI_WRITE(4, 3, word(), a)
            case 0x8E: ATARI_WRITE(4, 3, word(), x)
            case 0x8F: ATARI_WRITE(4, 3, word(), a & x)
            case 0x91: ATARI_WRITE(6, 2, indirect_y_address(), a)
            case 0x94: ATARI_WRITE_ZERO_PAGE(4, low() + x, y)
            case 0x95: ATARI_WRITE_ZERO_PAGE(4, low() + x, a)
            case 0x96: ATARI_WRITE_ZERO_PAGE(4, low() + y, x)
            case 0x97: ATARI_WRITE_ZERO_PAGE(4, low() + y, a & x)
            case 0x99: ATARI_WRITE(5, 3, word_by(y), a)
            case 0x9D: ATARI_WRITE(5, 3, word_by(x), a)
            case 0x93: ATARI_WRITE(6, 2, indirect_y_address(), a & x & ((where >> 8) + 1))
            case 0x9B:
                sp = a & x;
                ATARI_WRITE(5, 3, word_by(y), sp & ((where >> 8) + 1))
            case 0x9C: ATARI_WRITE(5, 3, word_by(x), y & ((where >> 8) + 1))
            case 0x9E: ATARI_WRITE(5, 3, word_by(y), x & ((where >> 8) + 1))
            case 0x9F: ATARI_WRITE(5, 3, word_by(y), a & x & ((where >> 8) + 1))

            // Loads and comparisons of index registers
            case 0xA0: ldy(immediate()); break;
            case 0xA4: ldy(zero_page()); break;
            case 0xAC: ldy(absolute()); break;
            case 0xB4: ldy(zero_page_by(x)); break;
            case 0xBC: ldy(absolute_by(x)); break;
            case 0xA2: ldx(immediate()); break;
            case 0xA6: ldx(zero_page()); break;
            case 0xAE: ldx(absolute()); break;
            case 0xB6: ldx(zero_page_by(y)); break;
            case 0xBE: ldx(absolute_by(y)); break;
            case 0xA3: lax(indirect_x()); break;
            case 0xA7: lax(zero_page()); break;
            case 0xAF: lax(absolute()); break;
            case 0xB3: lax(indirect_y()); break;
            case 0xB7: lax(zero_page_by(y)); break;
            case 0xBF: lax(absolute_by(y)); break;
            case 0xC0: cpy(immediate()); break;
            case 0xC4: cpy(zero_page()); break;
            case 0xCC: cpy(absolute()); break;
            case 0xE0: cpx(immediate()); break;
            case 0xE4: cpx(zero_page()); break;
            case 0xEC: cpx(absolute()); break;
            case 0x24: bit(zero_page()); break;
            case 0x2C: bit(absolute()); break;

            // The accumulator and single registers
            case 0x0A: ATARI_PLAIN(a = asl(a))
            case 0x2A: ATARI_PLAIN(a = rol(a))
            case 0x4A: ATARI_PLAIN(a = lsr(a))
            case 0x6A: ATARI_PLAIN(a = ror(a))
            case 0x88: ATARI_PLAIN(y = dec(y))
            case 0xC8: ATARI_PLAIN(y = inc(y))
            case 0xCA: ATARI_PLAIN(x = dec(x))
            case 0xE8: ATARI_PLAIN(x = inc(x))
            case 0x8A: ATARI_PLAIN(lda(x))
            case 0x98: ATARI_PLAIN(lda(y))
            case 0xA8: ATARI_PLAIN(ldy(a))
            case 0xAA: ATARI_PLAIN(ldx(a))
            case 0xBA: ATARI_PLAIN(ldx(sp))
            case 0x9A: ATARI_PLAIN(sp = x)
            case 0x18: ATARI_PLAIN(carry = 0)
            case 0x38: ATARI_PLAIN(carry = 1)
            case 0x58: ATARI_PLAIN(interrupt = 0)
            case 0x78: ATARI_PLAIN(interrupt = 1)
            case 0xB8: ATARI_PLAIN(overflow = 0)
            case 0xD8: ATARI_PLAIN(decimal = 0)
            case 0xF8: ATARI_PLAIN(decimal = 1)

            // Undocumented ones with an immediate operand
            case 0x0B:
            case 0x2B: anc(immediate()); break;
            case 0x4B: alr(immediate()); break;
            case 0x6B: arr(immediate()); break;
            case 0x8B: ane(immediate()); break;
            case 0xAB: lxa(immediate()); break;
            case 0xCB: sbx(immediate()); break;
            case 0xEB: sbc(immediate()); break;
            case 0xBB: las(absolute_by(y)); break;

            // Branches and jumps
            case 0x10: branch(!negated()); break;
            case 0x30: branch(negated()); break;
            case 0x50: branch(!overflow); break;
            case 0x70: branch(overflow); break;
            case 0x90: branch(!carry); break;
            case 0xB0: branch(carry); break;
            case 0xD0:
                branch(!zeroed());
                if (low() == 0xFB && !zeroed()) skip_waiting();
                break;
            case 0xF0: branch(zeroed()); break;
            case 0x4C:
                takes(3, 0);
                jump(word());
                break;
            case 0x6C: {
                takes(5, 0);
                const u32 where = word(), first = at(where, high());
                jump(first | at((where & 0xFF00) | ((where + 1) & 0xFF), first) << 8);
                break;
            }
            case 0x20: {
                takes(6, 2);
                const u32 last = pc();
                push(last >> 8, true);
                push(last & 0xFF, false);
                // Code that is known lies in plain ROM.
                jump(low() | (Known::KNOWN ? high() : at(last, last & 0xFF)) << 8);
                break;
            }
            case 0x60: {
                takes(6, 0);
                const u32 first = pull();
                jump((first | pull(first) << 8) + 1);
                break;
            }
            case 0x40: {
                takes(6, 0);
                const u32 byte = pull();
                set_flags(byte);
                const u32 first = pull(byte);
                jump(first | pull(first) << 8);
                break;
            }
            case 0x00: {
                takes(7, 2);
                push(pc() >> 8, true);
                push(pc() & 0xFF, false);
                push(flags(), false);
                interrupt = 1;
                const u32 first = at(0xFFFE, flags());
                jump(first | at(0xFFFF, first) << 8);
                break;
            }

            // Stack
            case 0x08:
                takes(3, 1);
                push(flags(), true);
                break;
            case 0x28:
                takes(4, 1);
                set_flags(pull());
                break;
            case 0x48:
                takes(3, 1);
                push(a, true);
                break;
            case 0x68:
                takes(4, 1);
                lda(pull());
                break;

            // Those that do nothing read their operand
            case 0x1A:
            case 0x3A:
            case 0x5A:
            case 0x7A:
            case 0xDA:
            case 0xEA:
            case 0xFA: takes(2, 1); break;
            case 0x80:
            case 0x82:
            case 0x89:
            case 0xC2:
            case 0xE2: nop(immediate()); break;
            case 0x04:
            case 0x44:
            case 0x64: nop(zero_page()); break;
            case 0x14:
            case 0x34:
            case 0x54:
            case 0x74:
            case 0xD4:
            case 0xF4: nop(zero_page_by(x)); break;
            case 0x0C: nop(absolute()); break;
            case 0x1C:
            case 0x3C:
            case 0x5C:
            case 0x7C:
            case 0xDC:
            case 0xFC: nop(absolute_by(x)); break;

            default:  // halts
                machine.jam = u8(bytes);
                machine.over = true;
                left = STOPPED;
                break;
        }
    }

    // Whether the next instruction lies where compiled code may have it.
    TBS_METHOD bool finds_code() {
        if (place < machine.code_size) return true;
        const u32 address = pc();
        const bool found = find_code(machine, address);
        first = machine.code_first;
        place = address - first;
        return found;
    }
    // The number of an entry of compiled code, 0 elsewhere.
    TBS_METHOD u32 entry(const u16 *entries) const { return entries[machine.code - machine.rom + place]; }

    // Until an entry of the compiled program, if there is one.
    TBS_METHOD void run([[maybe_unused]] const u16 *entries) {
        while (--left >= 0) {
            fetch();
#ifdef ATARI_COMPILED  // by compiled.py
            if (entries && place < machine.code_size && entry(entries)) {
                ++left;
                break;
            }
#endif
            perform();
        }
    }
};

// `bytes` are those of the instruction before: the bus still has them. Returns how many instructions are left.
TBS_CALLED i32 interpret(Machine &machine, i32 left, u32 bytes, const u16 *entries) {
    Processor<AnyCartridge> processor(machine, left);
    processor.bytes = bytes;
    processor.run(entries);
    processor.store();
    return processor.left;
}

// The offset into the ROM of the next instruction; 0 where it lies elsewhere.
TBS_FUNCTION u32 place_of_code(Machine &machine) {
    const u32 pc = machine.cpu.pc;
    if (((pc - machine.code_first) & 0xFFFF) >= machine.code_size && !find_code(machine, pc)) return 0;
    return u32(machine.code - machine.rom) + ((pc - machine.code_first) & 0xFFFF);
}

// Runs instructions until the frame is over.
TBS_CALLED void execute(Machine &machine) {
#ifdef ATARI_COMPILED
    run_compiled<Processor>(machine, MOST_INSTRUCTIONS);
#else
    interpret(machine, MOST_INSTRUCTIONS, 0, nullptr);
#endif
}
