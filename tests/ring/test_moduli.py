"""The rings against Python's integers: every pair of a tiny ring, edges at every width, any value at full width."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ring import OddWords, Prime, Ring, Words

TINY = [*map(Words, range(1, 6)), *map(OddWords, range(2, 6)), *map(Prime, (2, 3, 5, 7, 67, 127))]
FULL = [Words(64), OddWords(64)]
ANY = [Words(1), Words(7), Words(63), Words(64), OddWords(5), OddWords(64), Prime(67)]
hypothesis = settings(deadline=None, derandomize=True, max_examples=60)


def multiplies(ring: Ring) -> bool:
    """Z_(2^w - 1) takes the factors 0 and 1 only; it has a test of its own."""
    return not isinstance(ring, OddWords)


def edges(ring: Ring) -> list[int]:
    m = ring.modulus
    return sorted({v % m for v in (0, 1, 2, m // 2 - 1, m // 2, m // 2 + 1, -3, -2, -1)})


def pairs(values: list[int], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return a.ravel(), b.ravel()


def check_pairs(ring: Ring, values: list[int]) -> None:
    a, b = pairs(values, ring.dtype)
    x, y = a.astype(object), b.astype(object)
    operations = [(ring.add, operator.add), (ring.sub, operator.sub)]
    operations += [(ring.mul, operator.mul)] if multiplies(ring) else []
    for ours, pythons in operations:
        got = ours(a, b)
        assert got.dtype == ring.dtype
        assert (got == pythons(x, y) % ring.modulus).all()
    assert (ring.neg(a) == -x % ring.modulus).all()


def test_words_by_hand():
    ring = Words(4)
    a, b = ring.encode([15, 9, 0]), ring.encode([1, 9, 1])
    assert ring.add(a, b).tolist() == [0, 2, 1]
    assert ring.sub(a, b).tolist() == [14, 0, 15]
    assert ring.mul(a, b).tolist() == [15, 1, 0]
    assert ring.signed(a).tolist() == [-1, -7, 0]


def test_bits_add_by_xor():
    a, b = pairs([0, 1], np.dtype(np.uint8))
    assert (Words(1).add(a, b) == a ^ b).all()
    assert (Words(1).sub(a, b) == a ^ b).all()
    assert Words(1).sum(np.ones((300, 2), np.uint8), 0).tolist() == [0, 0]


def test_the_largest_odd_words_by_hand():
    ring = OddWords(64)
    top, almost = 2**64 - 2, 2**64 - 3
    a, b = np.array([top, top, almost, 0], np.uint64), np.array([top, 1, 1, 1], np.uint64)
    assert ring.add(a, b).tolist() == [2**64 - 3, 0, top, 1]
    assert ring.sub(a, b).tolist() == [0, almost, 2**64 - 4, top]
    assert ring.encode([2**64 - 1, -1, 2**64]).tolist() == [0, top, 1]


@pytest.mark.parametrize("ring", TINY, ids=repr)
def test_every_pair_of_a_tiny_ring(ring):
    check_pairs(ring, list(range(ring.modulus)))


@pytest.mark.parametrize("kind", [Words, OddWords])
def test_edges_at_every_width(kind):
    for width in range(2, 65):
        check_pairs(kind(width), edges(kind(width)))


@pytest.mark.parametrize("ring", FULL, ids=repr)
@given(data=st.data())
@hypothesis
def test_any_values_at_full_width(ring, data):
    element = st.integers(0, ring.modulus - 1)
    check_pairs(ring, data.draw(st.lists(element, min_size=1, max_size=8)) + edges(ring))


@pytest.mark.parametrize("width", [3, 64])
def test_odd_words_take_public_factors_0_and_1(width):
    ring = OddWords(width)
    a = np.array(edges(ring), np.uint64)
    assert (ring.mul(a, ring.encode(np.ones(a.shape, int))) == a).all()
    assert not ring.mul(a, ring.zeros(a.shape)).any()


@pytest.mark.parametrize("ring", ANY, ids=repr)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sum_over_an_axis(ring, axis):
    values = np.random.default_rng(1).integers(0, ring.modulus, (5, 3, 4), np.uint64)
    got = ring.sum(values.astype(ring.dtype), axis)
    assert got.dtype == ring.dtype
    assert (got == values.astype(object).sum(axis=axis) % ring.modulus).all()


@pytest.mark.parametrize("ring", ANY, ids=repr)
def test_sum_of_many_largest_values(ring):
    largest = np.full((1000, 2), ring.modulus - 1, ring.dtype)
    assert ring.sum(largest, 0).tolist() == [-1000 % ring.modulus] * 2


@pytest.mark.parametrize("ring", ANY, ids=repr)
def test_operations_broadcast(ring):
    a, b = ring.encode(np.arange(6).reshape(3, 2)), ring.encode([4, 5])
    assert ring.add(a, b).shape == ring.sub(a, b).shape == ring.mul(a, ring.encode([0, 1])).shape == (3, 2)


# -- encoding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring", ANY, ids=repr)
@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, bool, object])
def test_encode_takes_whole_numbers_of_any_type(ring, kind):
    values = np.array([0, 1, 1, 0]).astype(kind)
    assert ring.encode(values).dtype == ring.dtype
    assert (ring.encode(values) == values.astype(object) % ring.modulus).all()


@pytest.mark.parametrize("ring", ANY, ids=repr)
@given(values=st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=5))
@hypothesis
def test_encode_is_the_remainder(ring, values):
    assert ring.encode(values).tolist() == [v % ring.modulus for v in values]


@pytest.mark.parametrize("ring", [Words(8), Words(64), OddWords(64)], ids=repr)
@pytest.mark.parametrize("other", [0, 1, -1])
def test_encode_of_a_list_of_large_and_small_numbers(ring, other):
    """NumPy makes floating point of such a list, which does not hold 64 bits."""
    values = [2**64 - 2, 2**63 + 1, other]
    assert ring.encode(values).tolist() == [v % ring.modulus for v in values]


@pytest.mark.parametrize("ring", ANY, ids=repr)
def test_encode_of_unsigned_words(ring):
    values = np.array([0, 1, 2**63, 2**64 - 2, 2**64 - 1], np.uint64)
    assert (ring.encode(values) == values.astype(object) % ring.modulus).all()


@pytest.mark.parametrize("ring", ANY, ids=repr)
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int8])
def test_encode_of_numpy_scalars(ring, kind):
    value = kind(5) if kind is np.uint64 else kind(-5)
    assert ring.encode(value) == ring.encode([value])[0] == int(value) % ring.modulus


def test_encode_of_a_scalar_is_a_scalar():
    assert Words(64).encode(-1) == np.uint64(2**64 - 1)
    assert Words(64).encode(-1).shape == ()


@pytest.mark.parametrize("width", range(1, 65))
def test_signed_undoes_encode(width):
    half = 1 << (width - 1)
    values = np.array([-half, -(half // 2), -1, 0, half // 2 if width > 1 else 0, half - 1], np.int64)
    assert Words(width).signed(Words(width).encode(values)).tolist() == values.tolist()


def test_signed_covers_the_whole_tiny_ring():
    assert Words(4).signed(np.arange(16, dtype=np.uint64)).tolist() == [*range(8), *range(-8, 0)]


# -- matrix products -----------------------------------------------------------------------------------------


def product(ring: Words, a: np.ndarray, b: np.ndarray) -> list:
    return (a.astype(object) @ b.astype(object) % ring.modulus).tolist()


def test_matmul_by_hand():
    a, b = np.array([[1, 2], [3, 15]], np.uint64), np.array([[5, 0], [6, 15]], np.uint64)
    assert Words(4).matmul(a, b).tolist() == [[1, 14], [9, 1]]


@pytest.mark.parametrize("width", [2, 5, 31, 32, 33, 63, 64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 2), (2, 50, 7), (0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_matmul_matches_python(width, shape):
    rng, ring = np.random.default_rng(width), Words(width)
    rows, inner, columns = shape
    a = rng.integers(0, ring.modulus, (rows, inner), np.uint64)
    b = rng.integers(0, ring.modulus, (inner, columns), np.uint64)
    got = ring.matmul(a, b)
    assert got.shape == (rows, columns)
    assert got.tolist() == (product(ring, a, b) if inner else np.zeros((rows, columns), int).tolist())


def test_matmul_takes_strided_and_read_only_matrices():
    ring = Words(64)
    a = np.random.default_rng(3).integers(0, 2**64, (6, 8), np.uint64)
    a.flags.writeable = False
    assert ring.matmul(a.T, a).tolist() == product(ring, a.T, a)
    assert ring.matmul(a[:, ::2], a[:4, ::3]).tolist() == product(ring, a[:, ::2], a[:4, ::3])


def test_matmul_of_the_largest_values():
    ring = Words(64)
    a = np.full((2, 9), 2**64 - 1, np.uint64)
    assert ring.matmul(a, a.T).tolist() == [[9, 9], [9, 9]]
