"""Poses in Python."""

import numpy as np
import pytest

from torch_batchsim.bench.scenes import matrices
from torch_batchsim.physics.poses import rotated


def test_a_vector_is_turned_as_by_the_matrix() -> None:
    random = np.random.default_rng(3)
    rotations = random.normal(size=(20, 4))
    rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
    for rotation, vector, matrix in zip(rotations, random.normal(size=(20, 3)), matrices(rotations), strict=True):
        assert rotated(rotation, vector) == pytest.approx(matrix @ vector, abs=1e-12)
        assert rotated(rotation.tolist(), tuple(vector.tolist())).tolist() == rotated(rotation, vector).tolist()
    assert rotated((1.0, 0.0, 0.0, 0.0), (1, 2, 3)).tolist() == [1.0, 2.0, 3.0]
