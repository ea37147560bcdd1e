"""Products: every pair of values in every split of a tiny ring, then any words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from coterie.protocols.words import elementwise_product, matrix_product, select_share, square
from coterie.ring import Words
from tests.protocols.tiny import (
    PARTIES,
    WORD,
    every_pair,
    every_split,
    on_shares,
    protocol_settings,
    value_of,
    vectors,
)
from tests.support import compute, splits

#: All pairs of all splits: 65,536 of them at p = 2 and 262,144 at p = 3.
TINY = [(2, 4), (3, 3)]
#: All pairs of values, in random splits.
WIDER = [(2, 6), (3, 5), (5, 4)]


def wrapped(value: int) -> int:
    """A whole number as it comes back from 64-bit words."""
    return (value + 2**63) % 2**64 - 2**63


# -- by hand -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_products_by_hand(p):
    assert compute(p, elementwise_product, [3, -4, 0, 2**40], [5, 6, 7, 2**30])[0].tolist() == [15, -24, 0, 0]
    assert compute(p, square, [3, -4, 0, 2**31])[0].tolist() == [9, 16, 0, 2**62]
    assert compute(p, matrix_product, [[1, 2], [3, -4]], [[5], [6]])[0].tolist() == [[17], [-9]]
    assert compute(p, select_share, [0, 1, 1], [7, 8, -9], [-1, -2, -3])[0].tolist() == [7, -2, -3]


def test_shapes_are_kept_at_every_role():
    x = np.arange(24).reshape(2, 3, 4)
    for protocol in (elementwise_product, lambda me, a, b: square(me, a), lambda me, a, b: select_share(me, a, b, a)):
        _, ran = compute(2, protocol, x, x)
        assert {result.shape for result in ran.results} == {(2, 3, 4)}
    _, ran = compute(2, matrix_product, np.ones((4, 2), int), np.ones((2, 3), int))
    assert {result.shape for result in ran.results} == {(4, 3)}


# -- exhaustively --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "width"), TINY)
def test_every_product_of_every_two_splits(p, width):
    ring = Words(width)
    x, y = every_pair(every_split(ring, p), every_split(ring, p))
    z, _ = on_shares(p, elementwise_product, (ring, x), (ring, y))
    assert (z == value_of(ring, x) * value_of(ring, y) % ring.modulus).all()


@pytest.mark.parametrize(("p", "width"), WIDER)
def test_every_product_in_a_wider_ring(p, width):
    ring = Words(width)
    a, b = np.divmod(np.tile(np.arange(ring.modulus**2), 4), ring.modulus)
    z, _ = on_shares(p, elementwise_product, (ring, splits(ring, a, p, 1)), (ring, splits(ring, b, p, 2)))
    assert (z == a * b % ring.modulus).all()


@pytest.mark.parametrize(("p", "width"), [(2, 4), (2, 6), (3, 4), (3, 5)])
def test_every_square_of_every_split(p, width):
    ring = Words(width)
    x = every_split(ring, p, times=4)
    z, _ = on_shares(p, square, (ring, x))
    assert (z == value_of(ring, x) ** 2 % ring.modulus).all()


@pytest.mark.parametrize(("p", "width"), TINY)
def test_every_matrix_product_of_every_two_splits(p, width):
    """A column of all splits times a row of all splits."""
    ring = Words(width)
    x = every_split(ring, p)
    z, _ = on_shares(p, matrix_product, (ring, [s[:, None] for s in x]), (ring, [s[None, :] for s in x]))
    values = value_of(ring, x)
    assert (z == np.multiply.outer(values, values) % ring.modulus).all()


@pytest.mark.parametrize(("p", "width"), [(2, 4), (3, 4)])
def test_every_selection(p, width):
    """Every split of the bit, every two values."""
    ring = Words(width)
    bits = every_split(ring, p)
    bits = [share[value_of(ring, bits) < 2] for share in bits]
    pairs = np.indices((ring.modulus, ring.modulus)).reshape(2, -1)
    chosen, pair = np.divmod(np.arange(len(bits[0]) * pairs.shape[1]), pairs.shape[1])
    a, b = pairs[:, pair]
    bit = [share[chosen] for share in bits]
    z, _ = on_shares(p, select_share, (ring, bit), (ring, splits(ring, a, p, 1)), (ring, splits(ring, b, p, 2)))
    assert (z == np.where(value_of(ring, bit) == 1, b, a)).all()


# -- at full width -------------------------------------------------------------------------------------------


@given(p=PARTIES, x=vectors(WORD, least=2), y=vectors(WORD, least=2))
@protocol_settings
def test_products_of_any_words(p, x, y):
    size = min(len(x), len(y))
    x, y = x[:size], y[:size]
    assert compute(p, elementwise_product, x, y)[0].tolist() == [wrapped(a * b) for a, b in zip(x, y)]
    assert compute(p, square, x)[0].tolist() == [wrapped(a * a) for a in x]
    inner = sum(a * b for a, b in zip(x, y))
    assert compute(p, matrix_product, [x], [[b] for b in y])[0].tolist() == [[wrapped(inner)]]
    bits = [i % 2 for i in range(size)]
    assert compute(p, select_share, bits, x, y)[0].tolist() == [b if i else a for i, a, b in zip(bits, x, y)]


@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 7, 3), (1, 30, 2)])
def test_matrix_products_of_any_shape(p, shape):
    rng = np.random.default_rng(sum(shape))
    rows, inner, columns = shape
    x = rng.integers(-(2**63), 2**63 - 1, (rows, inner))
    y = rng.integers(-(2**63), 2**63 - 1, (inner, columns))
    expected = [[wrapped(v) for v in row] for row in (x.astype(object) @ y.astype(object)).tolist()]
    assert compute(p, matrix_product, x, y)[0].tolist() == expected
