"""csrc/tbs/vector.h against numpy in float64."""

import numpy as np
import pytest
from conftest import pointer

f32, f64 = np.float32, np.float64
N = 1000


@pytest.fixture(scope="module")
def library(compiler):
    return compiler.library("vector_library.cpp", "-O3", "-march=native")[0]


@pytest.fixture
def normal():
    random = np.random.default_rng(3)
    return lambda *shape: random.normal(size=shape).astype(f32)


def call(function, *inputs, width):
    out = np.empty((len(inputs[0]), width), f32)
    function(*(pointer(array) for array in [*inputs, out]), len(out))
    return out


def unit(a):
    return a / np.linalg.norm(a.astype(f64), axis=1, keepdims=True)


def matrix(q):
    w, x, y, z = unit(q).T
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)


def test_arithmetic(library, normal):
    a, b, s = normal(3), normal(3), normal(1)
    out = np.empty((10, 3), f32)
    library.arithmetic(*(pointer(array) for array in (a, b, s, out)))
    expected = [a + b, a - b, a * b, a * s, a * s, a / s, -a, ((a + b) * s - a) / s]
    assert (out[:8] == expected).all()
    np.testing.assert_allclose(out[8], [np.linalg.norm(a), a @ a, np.linalg.norm(a - b)], rtol=1e-6)
    assert (out[9] == 0).all()


def test_cross_and_dot(library, normal):
    a, b = normal(N, 3), normal(N, 3)
    out = call(library.cross_dot, a, b, width=4)
    np.testing.assert_allclose(out[:, :3], np.cross(a.astype(f64), b), atol=2e-6)
    np.testing.assert_allclose(out[:, 3], (a.astype(f64) * b).sum(1), atol=2e-6)


def test_rotation_of_the_plane_is_counter_clockwise(library, normal):
    v, angle = normal(N, 2), normal(N)
    out = call(library.rotate_vec2, v, angle, width=2)
    expected = (v[:, 0] + 1j * v[:, 1]) * np.exp(1j * angle.astype(f64))
    np.testing.assert_allclose(out[:, 0] + 1j * out[:, 1], expected, atol=1e-6)


def test_rotation_by_a_quaternion(library, normal):
    v, q = normal(N, 3), normal(N, 4)
    out = call(library.rotate_vec3, v, q, width=3)
    np.testing.assert_allclose(out, np.einsum("nij,nj->ni", matrix(q), v), atol=4e-6)


def test_product_is_one_rotation_after_the_other(library, normal):
    a, b = normal(N, 4), normal(N, 4)
    product = call(library.multiply, a, b, width=4)
    np.testing.assert_allclose(matrix(product), matrix(a) @ matrix(b), atol=4e-6)


def test_rotation_about_an_axis(library, normal):
    axis, angle = normal(N, 3), 3 * normal(N)
    q = call(library.about, axis, angle, width=4)
    expected = np.hstack([np.cos(angle / 2)[:, None], unit(axis) * np.sin(angle / 2)[:, None]])
    np.testing.assert_allclose(q, expected, atol=1e-6)
    quarter = call(library.about, np.array([[0, 0, 1]], f32), np.array([np.pi / 2], f32), width=4)
    turned = call(library.rotate_vec3, np.array([[1, 0, 0]], f32), quarter, width=3)
    np.testing.assert_allclose(turned, [[0, 1, 0]], atol=1e-6)


def test_zero_quaternion_normalizes_to_no_rotation(library):
    v = np.array([[1, 2, 3]], f32)
    assert (call(library.rotate_vec3, v, np.zeros((1, 4), f32), width=3) == v).all()
