"""csrc/tbs/random.h: Philox against its published vectors, the draw order against a model, and statistics."""

import ctypes
import itertools
import re

import numpy as np
import pytest
from conftest import HERE, pointer
from support import full_but

f32, f64 = np.float32, np.float64
MASK = 2**32 - 1


class Name(ctypes.Structure):
    _fields_ = [
        ("seed", ctypes.c_uint64),
        *((part, ctypes.c_uint32) for part in ("node", "row", "stream", "episode", "step")),
    ]


NAME = (0x0123456789ABCDEF, 5, 77, 2, 9, 31)


@pytest.fixture(scope="module")
def library(compiler):
    return compiler.library("random_library.cpp", "-O3", "-march=native")[0]


def draw(library, kind, n, *parameters, dtype=f32, name=NAME):
    out = np.empty(n, dtype)
    given = np.array([*parameters, 0], f64)
    library[kind](ctypes.byref(Name(*name)), pointer(given), pointer(out), ctypes.c_int64(n))
    return out


# ---- a model in plain Python ----


def philox(counter, key):
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k0, right & MASK, (left >> 32) ^ d ^ k1, left & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


def words(name):
    """The words of a stream, one after the other."""
    seed, node, row, stream, episode, step = name
    z = (seed + 0x9E3779B97F4A7C15 * (node + 1)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    key = z & MASK, ((z >> 32) + row) & MASK
    for block in itertools.count():
        yield from philox((stream, episode, step, block), key)


@pytest.mark.parametrize(
    "counter, key, result",
    [  # Random123, kat_vectors: philox4x32 10
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([MASK] * 4, [MASK] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_published_vectors(library, counter, key, result):
    out = np.empty(4, np.uint32)
    library.block(pointer(np.array(counter, np.uint32)), pointer(np.array(key, np.uint32)), pointer(out))
    assert " ".join(f"{word:08x}" for word in out) == result
    assert philox(counter, key) == tuple(int(word) for word in out)


@pytest.mark.parametrize("name", [NAME, (0, 0, 0, 0, 0, 0), (2**64 - 1, MASK, MASK, MASK, MASK, MASK)])
def test_words_follow_the_model(library, name):
    expected = list(itertools.islice(words(name), 1001))
    assert draw(library, "bits", 1001, dtype=np.uint32, name=name).tolist() == expected


def test_draw_order_of_a_mixture(library):
    out = np.empty(7, f64)
    library.mixture(ctypes.byref(Name(*NAME)), pointer(out))
    stream = words(NAME)

    def uniform():
        return f64(next(stream) >> 8) * 2.0**-24

    def below(n):
        return ((next(stream) << 32 | next(stream)) * n) >> 64

    assert out[0] == uniform()
    assert out[1] == below(1000)
    assert out[2] == f32(5 * uniform() - 2)
    assert out[3] == below(11) - 5
    assert out[4] == (uniform() < 0.5)
    radius = np.sqrt(-2 * np.log((next(stream) + 0.5) * 2.0**-32))
    assert out[5] == pytest.approx(radius * np.cos(2 * np.pi * uniform()), rel=1e-5)
    assert out[6] == next(stream)


def test_rows_differ_by_their_key_only(library):
    n = 100
    columns = np.empty((4, n), f32)
    library.rows_uniform(ctypes.c_uint64(8), *(pointer(column) for column in columns), ctypes.c_int64(n))
    for row in (0, 1, 99):
        assert (
            columns[:, row] == draw(library, "uniform_between", 4, f32(-0.05), f32(0.05), name=(8, 1, row, 2, 3, 4))
        ).all()


def test_streams_are_distinct(library):
    """Changing any one part of the name gives another stream, and no two of a few thousand begin alike."""
    base = draw(library, "bits", 64, dtype=np.uint32)
    for part in range(6):
        name = list(NAME)
        name[part] += 1
        assert (draw(library, "bits", 64, dtype=np.uint32, name=name) != base).all()
    names = itertools.product(range(5), range(5), range(5), [0], range(5), range(5))
    assert len({draw(library, "bits", 2, dtype=np.uint32, name=name).tobytes() for name in names}) == 5**5


def test_neighbouring_streams_are_uncorrelated(library):
    first = np.array(
        [[draw(library, "uniform", 1, name=(1, 0, row, 0, 0, step))[0] for row in range(100)] for step in range(100)]
    )
    for a, b in ((first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / np.sqrt(a.size)


def test_uniform(library):
    n = 1_000_000
    x = draw(library, "uniform", n).astype(f64)
    assert x.min() >= 0 and x.max() < 1
    assert (x * 2**24 == np.rint(x * 2**24)).all()
    assert abs(x.mean() - 1 / 2) < 4 * np.sqrt(1 / 12 / n)
    assert abs(x.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / n)
    assert chi_square(np.bincount((x * 256).astype(int), minlength=256)) < 4


def chi_square(counts):
    """How many standard deviations the statistic lies above its mean (df, 2 df), for even expectations."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


INTERVALS = [(-0.05, 0.05), (-1, 1), (0, 1e-45), (1, np.nextafter(f32(1), f32(2))), (1, 1 + 2**-22), (3, 3)]
INTERVALS += [(16777215, 16777216), (-16777216, 16777213), (-1e-40, 1e-40), (-1.5e38, 1.5e38), (-0.1, 1e8)]
INTERVALS += [(-1e8, 0.1), (0.1, 0.3)]


@pytest.mark.parametrize("low, high", INTERVALS)
def test_uniform_stays_in_its_interval(library, low, high):
    low, high = f32(low), f32(high)
    x = draw(library, "uniform_between", 300_000, low, high)
    assert (x >= low).all()
    assert (x < high).all() or (low == high and (x == low).all())


def test_uniform_of_few_floats_takes_each_equally_often(library):
    counts = np.unique(draw(library, "uniform_between", 100_000, 1, 1 + 2**-21), return_counts=True)[1]
    assert len(counts) == 4 and chi_square(counts) < 4


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 52, 1000, 2**16 + 1])
def test_below_is_even(library, n):
    x = draw(library, "below", 400_000, n, dtype=np.uint32)
    assert x.max() < n
    if n > 1:
        assert chi_square(np.bincount(x, minlength=n)) < 4


@pytest.mark.parametrize("n", [2**31 + 1, 3 * 2**30, 2**32 - 1])
def test_below_is_even_for_large_n(library, n):
    # A multiply-shift of 32 bits would favour some residues here.
    x = draw(library, "below", 400_000, n, dtype=np.uint32).astype(np.uint64)
    assert x.max() < n
    assert chi_square(np.bincount((x * 3 // n).astype(int), minlength=3)) < 4
    assert chi_square(np.bincount((x % 3).astype(int), minlength=3)) < 4


def test_below_follows_the_model_and_its_edges(library):
    stream = words(NAME)
    n = 2**32 - 5
    expected = [((next(stream) << 32 | next(stream)) * n) >> 64 for _ in range(500)]
    assert draw(library, "below", 500, n, dtype=np.uint32).tolist() == expected
    assert not draw(library, "below", 10, 0, dtype=np.uint32).any()


@pytest.mark.parametrize("low, high", [(-3, 3), (0, 0), (5, 6), (-(2**31), 2**31 - 1), (2**31 - 2, 2**31 - 1)])
def test_integer_includes_both_ends(library, low, high):
    x = draw(library, "integer", 100_000, low, high, dtype=np.int32).astype(np.int64)
    assert x.min() >= low and x.max() <= high
    if high - low < 100:
        assert set(x) == set(range(low, high + 1))
    else:
        assert x.min() < -(2**30) and x.max() > 2**30
        first = next(words(NAME))
        assert x[0] == first - 2**31


@pytest.mark.parametrize("p", [0.0, 0.25, 0.9, 1.0])
def test_chance(library, p):
    n = 400_000
    assert abs(draw(library, "chance", n, p, dtype=np.int32).mean() - p) <= 4 * np.sqrt(p * (1 - p) / n)


def test_normal(library):
    n = 1_000_000
    out = np.empty(2 * n, f32)
    library.normal_pairs(ctypes.byref(Name(*NAME)), pointer(out), ctypes.c_int64(n))
    assert (out[::2] == draw(library, "normal", n)).all()
    for x in (out[::2].astype(f64), out[1::2].astype(f64)):
        assert np.isfinite(x).all() and abs(x).max() < 6.7
        assert abs(x.mean()) < 4 / np.sqrt(n)
        assert abs((x**2).mean() - 1) < 4 * np.sqrt(2 / n)
        assert abs((x**3).mean()) < 4 * np.sqrt(15 / n)
        assert abs((x**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert abs((out[::2].astype(f64) * out[1::2]).mean()) < 4 / np.sqrt(n)


def test_shuffle(library):
    n, length = 60_000, 4
    items = np.tile(np.arange(length, dtype=np.int32), (n, 1))
    library.shuffles(ctypes.byref(Name(*NAME)), pointer(items), length, ctypes.c_int64(n))
    orders, counts = np.unique(items, axis=0, return_counts=True)
    assert sorted(map(tuple, orders.tolist())) == list(itertools.permutations(range(length)))
    assert chi_square(counts) < 4


@pytest.mark.parametrize("before", range(6))
def test_shuffle_takes_two_words_for_each_swap(library, before):
    for length in (*range(12), 31, 50, 64, 65, 66, 67, 130, 200):
        stream = words(NAME)
        for _ in range(before):
            next(stream)
        expected = list(range(length))
        for last in range(length, 1, -1):
            other = (next(stream) << 32 | next(stream)) * last >> 64
            expected[last - 1], expected[other] = expected[other], expected[last - 1]
        items = np.arange(length, dtype=np.int32)
        following = library.shuffle_within(ctypes.byref(Name(*NAME)), before, pointer(items), length)
        assert items.tolist() == expected and following & MASK == next(stream), length


def test_every_build_gives_the_same_bits(compiler, library):
    plain = compiler.library("random_library.cpp", "-O0", "-march=x86-64-v3")[0]
    for kind, dtype in (("bits", np.uint32), ("normal", f32), ("uniform", f32)):
        assert (draw(library, kind, 10_001, dtype=dtype) == draw(plain, kind, 10_001, dtype=dtype)).all()


@pytest.mark.full
@pytest.mark.parametrize("machine", full_but(["x86-64-v3"], ["native", "x86-64-v3"]))
def test_loops_over_rows_vectorise(compiler, machine):
    report = compiler.library("random_library.cpp", "-O3", f"-march={machine}", "-fopt-info-vec-optimized")[1]
    vectorised = set(map(int, re.findall(r"_library\.cpp:(\d+):\d+: optimized: loop vectorized", report)))
    for number, line in enumerate((HERE / "random_library.cpp").read_text().splitlines(), 1):
        if re.search(r"{  // \w+$", line):
            assert number in vectorised, line
