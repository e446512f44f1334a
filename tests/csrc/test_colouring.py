"""Colours of constraints: a warp gives them in the order of one thread."""

import ctypes

import numpy as np
import pytest

from torch_batchsim.build import emulation

NOBODY, BATCHES = 0xFFFFFFFF, 17


@pytest.fixture(scope="module")
def agree(compiler):
    function = compiler.library("colouring_library.cpp", "-Og", "-include", emulation.WORDS)[0].agree
    function.restype = ctypes.c_bool
    return function


def coloured(agree, kinds, pairs):
    """Whether both agree, the order, and how many constraints each batch has."""
    kinds, pairs = (np.ascontiguousarray(values, np.uint32) for values in (kinds, pairs))
    items, sizes = np.zeros(len(pairs), np.uint32), np.zeros(BATCHES, np.uint32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (kinds, pairs, items, sizes)]
    same = agree(len(kinds), pointers[0], len(pairs), *pointers[1:])
    return same, items, sizes


@pytest.mark.full
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100, 300])
def test_a_warp_agrees_with_one_thread(agree, count):
    """Few bodies and many: chains of those that wait, and more constraints of a body than there are colours."""
    generator = np.random.default_rng(count)
    most, rest = 0, 0
    for bodies in [1, 2, 3, 7, 20, 60] * 4:
        kinds = generator.choice(3, bodies, p=[0.15, 0.75, 0.1])
        pairs = generator.integers(0, bodies, (count, 2))
        pairs[pairs[:, 0] == pairs[:, 1], 1] = NOBODY
        same, items, sizes = coloured(agree, kinds, pairs)
        assert same
        solved = np.sort(items[items != NOBODY])
        assert np.array_equal(solved, np.arange(len(solved)))  # each has a place of its own
        most, rest = max(most, np.count_nonzero(sizes[:-1])), rest + sizes[-1]
    assert (rest > 0) == (count >= 31) and most >= min(count, 16)


@pytest.mark.full
def test_a_chain_waits_for_its_begin(agree):
    pairs = [(i, i + 1) for i in range(50)]
    same, _, sizes = coloured(agree, [1] * 51, pairs)
    assert same and list(sizes[:3]) == [25, 25, 0]
