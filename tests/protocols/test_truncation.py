"""Dealt truncation: exact, for every value, split and number of bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocols.securenn.truncation import truncate
from coterie.ring import Words
from tests.protocols.tiny import PARTIES, every_split, numbers, on_shares, only, protocol_settings, value_of
from tests.support import compute


def rounded(x: int, g: int) -> int:
    """round(x / 2^g), halves upwards, in exact arithmetic."""
    return (Fraction(x, 1 << g) + Fraction(1, 2)).__floor__()


def truncation(g: int):
    return lambda me, x: truncate(me, x, g)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_truncation_by_hand(p):
    """By 4: 7 / 4 and 6 / 4 go to 2, 5 / 4 to 1, and -6 / 4 = -1.5 upwards to -1."""
    x = [7, 6, 5, 0, -1, -2, -3, -6, -7, 400]
    assert compute(p, truncation(2), x)[0].tolist() == [2, 2, 1, 0, 0, 0, -1, -1, -2, 100]


def check_truncation(p: int, width: int, g: int, times: int) -> None:
    ring = Words(width)
    x = every_split(ring, p, times)
    signed = ring.signed(value_of(ring, x))
    quarter = ring.modulus // 4
    inside = (signed >= -quarter) & (signed < quarter - (1 << g >> 1))
    assert inside.any()
    got, _ = on_shares(p, truncation(g), (ring, only(x, inside)))
    expected = {v: rounded(v, g) for v in range(-quarter, quarter)}
    assert ring.signed(got).tolist() == [expected[v] for v in signed[inside].tolist()]


@pytest.mark.parametrize(
    ("p", "width", "g", "times"),
    [(p, width, g, times) for p, width, times in ((2, 4, 16), (2, 6, 4), (3, 4, 4)) for g in range(width - 1)],
)
def test_truncation_of_every_split(p, width, g, times):
    check_truncation(p, width, g, times)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "width", "g", "times"),
    [(p, width, g, times) for p, width, times in ((2, 6, 128), (3, 5, 16), (3, 6, 2)) for g in range(1, width - 1)],
)
def test_truncation_of_every_split_many_times(p, width, g, times):
    check_truncation(p, width, g, times)


@given(p=PARTIES, g=st.integers(0, 62), data=st.data())
@protocol_settings
def test_truncation_of_any_number(p, g, data):
    low, high = -(2**62), 2**62 - (1 << g >> 1) - 1
    half = 1 << g >> 1
    element = numbers(low, high, half, half - 1, -half, -half - 1, 3 * half)
    x = data.draw(st.lists(element, min_size=1, max_size=16))
    assert compute(p, truncation(g), x)[0].tolist() == [rounded(v, g) for v in x]


def test_no_bits_cost_nothing():
    got, ran = compute(2, truncation(0), [5, -6])
    assert got.tolist() == [5, -6]
    assert ran.traffic.messages == 0


def test_truncation_keeps_the_shape():
    x = np.arange(-6, 6).reshape(2, 3, 2)
    got, ran = compute(2, truncation(1), x)
    assert (got == (x + 1) // 2).all()
    assert ran.results[0].shape == (2, 3, 2)


def test_truncation_is_the_same_whatever_the_masks():
    """Exact, not off by a random unit: no seed changes anything."""
    x = np.random.default_rng(0).integers(-(2**61), 2**61, 200)
    assert len({compute(p, truncation(20), x, seed=seed)[0].tobytes() for seed in range(5) for p in (2, 3)}) == 1
