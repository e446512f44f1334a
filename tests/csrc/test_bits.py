"""csrc/tbs/bits.h against numpy."""

import ctypes

import numpy as np
import pytest
from conftest import pointer
from support import full_but

pytestmark = pytest.mark.full  # observations of bits, in tests/envs/test_hanabi.py, are in the fast run
LARGEST = 300
SIZES = [1, 2, 7, 8, 9, 31, 32, 33, 62, 63, 64, 65, 127, 128, 129, 192, 207, 257, LARGEST]


class Call(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("appends", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        ("bytes", ctypes.c_void_p),
        ("bools", ctypes.c_void_p),
        ("floats", ctypes.c_void_p),
        ("packed", ctypes.c_void_p),
        ("lanes", ctypes.c_uint32),
        ("thermometer", ctypes.c_bool),
    ]


# As for a processor with AVX-512 (if this one has it), for any, and as for a device.
_MACHINES = {"native": [], "x86-64": [], "device": ["-DTBS_ON_DEVICE", "-DTBS_ALONE"]}


@pytest.fixture(scope="module", params=full_but(["native"], _MACHINES))
def library(compiler, request):
    machine = "x86-64" if request.param == "device" else request.param
    flags = f"-DSIZES={str(SIZES)[1:-1]}", "-Og", f"-march={machine}", *_MACHINES[request.param]
    library, said = compiler.library("bits_library.cpp", *flags)
    assert said == ""
    return library


def run(library, size, values, counts, lanes=1, thermometer=False):
    """Bits as they come out in all ways: words, bytes, bools, floats, packed."""
    values, counts = np.asarray(values, np.uint64), np.asarray(counts, np.uint32)
    rooms = {np.uint64: -(-size // 64), np.uint8: size, np.bool: size, np.float32: size, "packed": -(-size // 8)}
    outputs = [np.full(64 + n, 1, np.uint8 if t == "packed" else t) for t, n in rooms.items()]  # more than is needed
    for output in outputs:
        output.view(np.uint8)[...] = 77
    arrays = [pointer(array) for array in outputs]
    call = Call(pointer(values), pointer(counts), len(counts), *arrays, lanes, thermometer)
    library.run_bits(ctypes.c_uint32(size), ctypes.byref(call))
    for output, room in zip(outputs, rooms.values(), strict=True):
        assert (output[room:].view(np.uint8) == 77).all(), "written behind the end"
    words, bytes_, bools, floats, packed = (o[:room] for o, room in zip(outputs, rooms.values(), strict=True))
    for eights in (words.view(np.uint8), packed):
        unpacked = np.unpackbits(eights, bitorder="little")
        assert not unpacked[size:].any(), "bits behind the last one"
        assert (bytes_ == unpacked[:size]).all()
    assert (bytes_ == bools.view(np.uint8)).all() and (bytes_ == floats).all()
    return bytes_


def bits_of(values, counts):
    """The same in numpy, uint8 ``[sum of counts]``."""
    eights = np.array([values], "<u8").T.copy().view(np.uint8)
    bits = np.unpackbits(eights, axis=1, bitorder="little")
    return bits[np.arange(64) < np.reshape(counts, (-1, 1))]


def random_counts(generator, size):
    """Counts 0 .. 64 that add up to ``size``."""
    counts, left, most = [], size, generator.integers(1, 65)
    while left:
        counts.append(int(min(left, generator.integers(0, most + 1))))
        left -= counts[-1]
    return counts


def random_values(generator, counts):
    kinds = generator.integers(0, 4, len(counts))  # some have no bits, or all
    masks = [(1 << count) - 1 for count in counts]
    numbers = generator.integers(0, 2**64, len(counts), np.uint64).tolist()
    return [(0, m, v & m, v & m)[k] for k, m, v in zip(kinds, masks, numbers, strict=True)]


def test_bits_come_out_in_the_order_of_appends(library):
    generator = np.random.default_rng(0)
    for size in SIZES:
        for _ in range(30):
            counts = random_counts(generator, size)
            values = random_values(generator, counts)
            lanes = generator.choice([1, 32])
            assert (run(library, size, values, counts, lanes) == bits_of(values, counts)).all(), (size, counts)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64])
def test_counts_that_fill_words_just_so(library, count):
    counts = [count] * max(size // count for size in SIZES if size % count == 0)
    for values in ([(1 << count) - 1] * len(counts), [1 << count - 1] * len(counts), [1] * len(counts)):
        assert (run(library, sum(counts), values, counts) == bits_of(values, counts)).all()


def test_nothing_to_append(library):
    assert (run(library, 65, [0, 1, 0, 2**64 - 1, 0], [0, 1, 0, 64, 0]) == 1).all()


def test_what_is_not_appended_is_zero(library):
    for size in (size for size in SIZES if size > 70):
        bits = run(library, size, [2**64 - 1, 3], [64, 2])
        assert bits[:66].all() and not bits[66:].any()


def test_what_there_is_no_room_for_is_left_out(library):
    for size in (size for size in SIZES if size > 64):
        bits = run(library, size, [0, 2**64 - 1, 2**64 - 1, 1], [size - 64, 64, 64, 1])
        assert not bits[: size - 64].any() and bits[size - 64 :].all()


def test_thermometers(library):
    generator = np.random.default_rng(1)
    for size in SIZES:
        counts = np.array([size]) if size % 3 == 0 else np.array([size // 3, size - size // 3])
        for ones in (counts * 0, counts, counts + 7, generator.integers(0, counts + 1)):
            expected = np.concatenate([np.arange(c) < o for c, o in zip(counts, ones, strict=True)])
            assert (run(library, size, ones, counts, thermometer=True) == expected).all(), (size, ones)


def test_counts_that_are_known_when_compiled(library):
    generator = np.random.default_rng(2)
    counts = [3, *[5] * 25]
    for _ in range(50):
        values = [*random_values(generator, counts), int(generator.integers(0, 42)), *random_values(generator, [64])]
        ones = [v % 2 for v in (np.arange(40) < values[26]).astype(int)]
        out = np.empty(232, np.uint8)
        library.known_counts(pointer(np.array(values, np.uint64)), pointer(out))
        expected = [*bits_of(values[:26], counts), *ones, *bits_of(values[27:], [64])]
        assert out.tolist() == expected


@pytest.mark.parametrize("size", [77, 3001])
def test_copies_from_anywhere_to_anywhere(library, size):
    """Whatever the places are with respect to 16 bytes; nothing behind or before is touched. A lane takes up to four
    pieces at a time: of 77 bytes it has one, of 3,001 several times four."""
    source = np.random.default_rng(0).integers(0, 256, size + 51, np.uint8)
    copy = library[f"copy_{size}"]
    for lanes in (1, 32):
        for to in range(17):
            for start in range(17):
                target = np.full(size + 51, 77, np.uint8)
                copy(pointer(target[to:]), pointer(source[start:]), ctypes.c_uint32(lanes))
                assert (target[to : to + size] == source[start : start + size]).all()
                assert (target[:to] == 77).all() and (target[to + size :] == 77).all()
