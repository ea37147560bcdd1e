"""Kernels of `onetime` on more numbers than one pass of their loops takes, beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.protocols.onetime.kernels import differences, masked_difference, spread, two_products, two_sums

LENGTHS = (1, 511, 513, 1025, 3000)


@pytest.fixture
def random():
    return np.random.default_rng(6)


@pytest.fixture
def words(random):
    return lambda *shape: random.integers(0, 1 << 64, shape, dtype=np.uint64)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("first", [0, 5])
def test_two_sums(words, n, held, first):
    x, h, e, u, out = words(3, n + 7), words(4, n), words(3, n + 7), words(4, n), words(4, 3)
    run = slice(first, first + n)
    expected = out + u @ e[:, run].T + (h @ x[:, run].T if held else np.uint64(0))
    two_sums(x if held else x[:0], h, e, u, first, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("held", [True, False])
def test_two_products(words, n, held):
    x, f, e, b, out = words(3, n), words(4, 3), words(3, n), words(4, 3), words(4, n)
    expected = out + b @ e + (f @ x if held else np.uint64(0))
    two_products(x if held else x[:0], f, e, b, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", LENGTHS)
def test_spread(random, words, n):
    factors, values, groups, out = words(2, 5), words(3, n), random.integers(0, 5, n), np.zeros((2, 3, n), np.uint64)
    places = random.permutation(n)
    spread(factors, values, groups, places, out)
    expected = np.zeros_like(out)
    expected[:, :, places] = factors[:, None, groups] * values[None]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("width", [8, 33, 64])
def test_differences(words, width):
    z, mask = words(3, 70), np.uint64((1 << width) - 1)
    left, right, out = np.array([0, 2]), np.array([1, 0]), np.empty(140, np.uint64)
    differences(z, left, right, mask, out)
    assert (out.reshape(2, 70) == ((z[right] - z[left]) & mask)).all()


@pytest.mark.parametrize("width", [4, 40, 64])
def test_masked_difference(words, width):
    mask, left, right = np.uint64((1 << width) - 1), np.array([0, 2, 1]), np.array([1, 0, 2])
    z, r, out = words(3, 700), words(3 * 700), np.zeros(3 * 700, np.uint64)
    masked_difference(z, left, right, r, mask, out)
    np.testing.assert_array_equal(out, ((z[right] - z[left]).reshape(-1) + r) & mask)
