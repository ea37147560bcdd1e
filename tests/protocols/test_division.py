"""Long division: every quotient of a tiny ring, then words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocols import Problem, SecureNN
from coterie.protocols.interface import WORDS
from coterie.ring import Words
from coterie.sharing import stack
from tests.protocols.steps import divide
from tests.protocols.tiny import PARTIES, every_pair, every_split, on_shares, only, protocol_settings, value_of
from tests.support import compute, splits


def division(bits: int, digit: int = 1):
    """Quotients in the first row, [y == 0] in the second."""
    return lambda me, x, y: stack(divide(me, x, y, bits, digit))


def permitted(ring: Words, bits: int, x: np.ndarray, y: np.ndarray, digit: int = 1) -> np.ndarray:
    """0 <= x < 2^bits y, all below L/4; and every x where y = 0, whose quotient means nothing."""
    quarter, lowest = ring.modulus // 4, (bits - 1) // digit * digit  # the lowest bit of the first digit
    largest = ((1 << (bits - lowest)) - 1) << lowest
    return (x < quarter) & (y * np.uint64(largest) < quarter) & ((x < y << np.uint64(bits)) | (y == 0))


@pytest.mark.parametrize("p", [2, 3, 5])
def test_division_by_hand(p):
    got, _ = compute(p, division(4), [100, 0, 15, 14, 7, 0], [7, 7, 1, 1, 7, 0])
    assert got[0, :5].tolist() == [14, 0, 15, 14, 1]
    assert got[1].tolist() == [0, 0, 0, 0, 0, 1]


def test_a_divisor_of_zero_is_flagged_whatever_is_divided():
    got, _ = compute(2, division(3), [0, 1, 5, 1000, 0], [0, 0, 0, 0, 1])
    assert got[1].tolist() == [1, 1, 1, 1, 0]


def check_division(p: int, ring: Words, bits: int, x: list[np.ndarray], y: list[np.ndarray], digit: int = 1) -> None:
    inside = permitted(ring, bits, value_of(ring, x), value_of(ring, y), digit)
    x, y = only(x, inside), only(y, inside)
    got, _ = on_shares(p, division(bits, digit), (ring, x), (ring, y))
    a, b = value_of(ring, x), value_of(ring, y)
    assert (got[1] == (b == 0)).all()
    assert (got[0] == a // np.maximum(b, 1))[b > 0].all()


@pytest.mark.parametrize(("p", "width"), [(2, 4), (2, 5), (2, 6), (3, 4), (3, 5)])
@pytest.mark.parametrize("bits", [1, 2, 3])
def test_every_quotient(p, width, bits):
    """Every two values, in 64 random splits."""
    ring = Words(width)
    a, b = np.indices((ring.modulus // 4, ring.modulus)).reshape(2, -1).repeat(64, axis=1)
    check_division(p, ring, bits, splits(ring, a, p, 1), splits(ring, b, p, 2))


@pytest.mark.parametrize(("p", "width"), [(2, 5), (2, 7), (3, 6)])
@pytest.mark.parametrize(("bits", "digit"), [(2, 2), (3, 2), (4, 2), (3, 3), (4, 3), (4, 4), (3, 5)])
def test_every_quotient_digit_by_digit(p, width, bits, digit):
    """Also where the first digit has fewer bits than the others."""
    ring = Words(width)
    a, b = np.indices((ring.modulus // 4, ring.modulus)).reshape(2, -1).repeat(8, axis=1)
    check_division(p, ring, bits, splits(ring, a, p, 1), splits(ring, b, p, 2), digit)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "width", "bits"), [(2, 5, 1), (2, 5, 2), (2, 5, 3), (2, 6, 2)])
def test_every_quotient_of_every_two_splits(p, width, bits):
    ring = Words(width)
    some = every_split(ring, p)
    some = only(some, value_of(ring, some) < ring.modulus // 4)
    check_division(p, ring, bits, *every_pair(some, some))


@given(
    p=PARTIES,
    bits=st.sampled_from([1, 13, 16]),
    digit=st.sampled_from([1, 2, 4]),
    cases=st.lists(st.tuples(st.integers(0, 2**46 - 1), st.fractions(0, 1)), min_size=1, max_size=8),
)
@protocol_settings
def test_quotients_of_any_words(p, bits, digit, cases):
    """Divisors up to the limit; dividends from zero to the last below 2^bits y."""
    y = [d for d, _ in cases] * 3
    x = [int(f * max((d << bits) - 1, 0)) for d, f in cases]
    x += [max((d << bits) - 1, 0) for d, _ in cases] + [d for d, _ in cases]
    got, _ = compute(p, division(bits, digit), x, y)
    assert got[1].tolist() == [int(d == 0) for d in y]
    assert [q for q, d in zip(got[0].tolist(), y) if d] == [n // d for n, d in zip(x, y) if d]


# -- how many bits at a time -----------------------------------------------------------------------------------


def digit_of(problem: Problem, ring: Words = WORDS) -> int:
    return SecureNN(None, problem, ring).digit_of(problem.clusters * problem.columns)


def test_few_sums_are_divided_several_bits_at_a_time():
    """A step makes at most 1024 comparisons: 64 sums times 16, 256 times 4."""
    found = {k: digit_of(Problem(1000, k, (1 << 16,))) for k in (1, 64, 65, 256, 257, 5000)}
    assert found == {1: 4, 64: 4, 65: 2, 256: 2, 257: 1, 5000: 1}


def test_multiples_that_would_not_fit_are_not_taken():
    """y = 2 s t, s = 1: its multiples stay below 2^62 up to 2^45 rows, and below L/4 of a smaller ring."""
    assert digit_of(Problem(2**45 - 1, 1, (9,))) == 4
    assert digit_of(Problem(2**45, 1, (9,))) == 1
    assert digit_of(Problem(2**41, 1, (9,), most_weight=16)) == 1
    assert digit_of(Problem(8, 1, (9,)), Words(22)) == 1
    assert digit_of(Problem(8, 1, (9,)), Words(23)) == 4
