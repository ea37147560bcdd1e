"""ShareConvert, ComputeMSB and DReLU: every value in every split, then any words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.protocols.securenn.sign import compute_msb, drelu, share_convert
from coterie.ring import OddWords, Words
from tests.protocols.tiny import (
    PARTIES,
    every_split,
    numbers,
    on_shares,
    only,
    protocol_settings,
    value_of,
    vectors,
)
from tests.support import compute, splits

#: Every split several times over, so that the common r of ShareConvert is 0 and L - 1 in many of them.
TINY = [(2, 4, 32), (2, 5, 16), (2, 6, 8), (3, 4, 8)]
QUARTER = 2**62


def words_of(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


# -- ShareConvert --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_conversion_by_hand(p):
    values = [0, 1, 2, 2**63, 2**64 - 2]
    y, ran = on_shares(p, share_convert, (Words(64), splits(Words(64), words_of(values), p)))
    assert y.tolist() == values
    assert {result.ring for result in ran.results} == {OddWords(64)}


def check_conversion(p: int, width: int, times: int) -> None:
    ring = Words(width)
    x = every_split(ring, p, times)
    x = only(x, value_of(ring, x) != ring.modulus - 1)
    y, _ = on_shares(p, share_convert, (ring, x))
    assert (y == value_of(ring, x)).all()


@pytest.mark.parametrize(("p", "width", "times"), TINY)
def test_conversion_of_every_split(p, width, times):
    check_conversion(p, width, times)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "width", "times"), [(2, 6, 256), (3, 5, 32), (3, 6, 4), (4, 4, 8)])
def test_conversion_of_every_split_many_times(p, width, times):
    check_conversion(p, width, times)


@pytest.mark.parametrize("p", [2, 3])
def test_conversion_of_shares_at_the_ends_of_the_word(p):
    ends = [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    x = [np.array(share, np.uint64) for share in zip(*itertools.product(ends, repeat=p))]
    x = only(x, value_of(Words(64), x) != np.uint64(2**64 - 1))
    y, _ = on_shares(p, share_convert, (Words(64), x))
    assert (y == value_of(Words(64), x)).all()


@given(p=PARTIES, values=vectors(numbers(0, 2**64 - 2, 2**63 - 1, 2**63)), seed=st.integers(0, 99))
@protocol_settings
def test_conversion_of_any_word(p, values, seed):
    y, _ = on_shares(p, share_convert, (Words(64), splits(Words(64), words_of(values), p, seed)), seed=seed)
    assert y.tolist() == values


# -- ComputeMSB ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_top_bits_by_hand(p):
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 2]
    bit, ran = on_shares(p, compute_msb, (OddWords(64), splits(OddWords(64), words_of(values), p)))
    assert bit.tolist() == [0, 0, 0, 1, 1]
    assert {result.ring for result in ran.results} == {Words(64)}


def check_top_bits(p: int, width: int, times: int) -> None:
    ring = OddWords(width)
    a = every_split(ring, p, times)
    bit, _ = on_shares(p, compute_msb, (ring, a))
    assert (bit == value_of(ring, a) >> np.uint64(width - 1)).all()


@pytest.mark.parametrize(("p", "width", "times"), TINY)
def test_top_bit_of_every_split(p, width, times):
    check_top_bits(p, width, times)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "width", "times"), [(2, 6, 256), (3, 5, 32), (3, 6, 4), (4, 4, 8)])
def test_top_bit_of_every_split_many_times(p, width, times):
    check_top_bits(p, width, times)


@given(p=PARTIES, values=vectors(numbers(0, 2**64 - 2, 2**63 - 1, 2**63)), seed=st.integers(0, 99))
@protocol_settings
def test_top_bit_of_any_word(p, values, seed):
    bit, _ = on_shares(p, compute_msb, (OddWords(64), splits(OddWords(64), words_of(values), p, seed)), seed=seed)
    assert bit.tolist() == [v >> 63 for v in values]


# -- DReLU ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 5])
def test_signs_by_hand(p):
    values = [0, 1, -1, 5, -5, QUARTER - 1, -QUARTER]
    assert compute(p, drelu, values)[0].tolist() == [1, 1, 0, 1, 0, 1, 0]


def check_signs(p: int, width: int, times: int) -> None:
    ring = Words(width)
    a = every_split(ring, p, times)
    signed = ring.signed(value_of(ring, a))
    inside = (signed >= -ring.modulus // 4) & (signed < ring.modulus // 4)
    positive, _ = on_shares(p, drelu, (ring, only(a, inside)))
    assert (positive == (signed[inside] >= 0)).all()


@pytest.mark.parametrize(("p", "width", "times"), TINY)
def test_sign_of_every_split(p, width, times):
    check_signs(p, width, times)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "width", "times"), [(2, 6, 256), (3, 5, 32), (3, 6, 4), (4, 4, 8)])
def test_sign_of_every_split_many_times(p, width, times):
    check_signs(p, width, times)


@given(p=PARTIES, values=vectors(numbers(-QUARTER, QUARTER - 1)), seed=st.integers(0, 99))
@protocol_settings
def test_sign_of_any_number(p, values, seed):
    assert compute(p, drelu, values, seed=seed)[0].tolist() == [int(v >= 0) for v in values]


@pytest.mark.parametrize("p", [2, 3])
def test_signs_keep_the_shape(p):
    values = np.arange(-6, 6).reshape(2, 3, 2)
    got, ran = compute(p, drelu, values)
    assert (got == (values >= 0)).all()
    assert ran.results[0].shape == (2, 3, 2)


def test_sign_of_nothing():
    assert compute(2, drelu, np.zeros((0, 3), np.int64))[0].shape == (0, 3)


# -- DReLU of few bits -----------------------------------------------------------------------------------------


def check_narrow_signs(p: int, width: int, bits: int, times: int) -> None:
    """Every number of so many bits, in every split over a wider ring."""
    ring = Words(width)
    a = every_split(ring, p, times)
    signed = ring.signed(value_of(ring, a))
    inside = (signed >= -(1 << bits)) & (signed < 1 << bits)
    positive, ran = on_shares(p, lambda me, x: drelu(me, x, bits), (ring, only(a, inside)))
    assert (positive == (signed[inside] >= 0)).all()
    assert {result.ring for result in ran.results} == {ring}


@pytest.mark.parametrize(
    ("p", "width", "bits", "times"), [(2, 6, 0, 16), (2, 6, 1, 16), (2, 6, 3, 8), (2, 7, 2, 8), (3, 5, 1, 4)]
)
def test_sign_of_few_bits_in_every_split(p, width, bits, times):
    check_narrow_signs(p, width, bits, times)


@pytest.mark.parametrize("bits", [4, 5, 9, 100])
def test_a_bound_that_says_nothing_changes_nothing(bits):
    """Of numbers in a ring of six bits, which lie in a quarter of it anyway."""
    check_narrow_signs(2, 6, min(bits, 4), 4)
    values = [-16, -1, 0, 15]
    got, ran = compute(2, lambda me, x: drelu(me, x, bits), values, width=6)
    assert got.tolist() == [0, 0, 1, 1]
    assert ran.recordings[0].received[-1].array.shape == (4, 6)


@given(p=PARTIES, bits=st.sampled_from([1, 8, 37, 61]), data=st.data(), seed=st.integers(0, 99))
@protocol_settings
def test_sign_of_any_number_of_few_bits(p, bits, data, seed):
    values = data.draw(vectors(numbers(-(1 << bits), (1 << bits) - 1)))
    got, ran = compute(p, lambda me, x: drelu(me, x, bits), values, seed=seed)
    assert got.tolist() == [int(v >= 0) for v in values]
    compared = [frame.array.shape for frame in ran.recordings[0].received if frame.array.dtype == np.uint8]
    assert compared == [(len(values), bits + 2)] * (2 * p)


def test_a_number_beyond_its_bound_gets_a_wrong_sign():
    """The bound is a promise: nobody could check it."""
    assert compute(2, lambda me, x: drelu(me, x, 3), [7, 8, -8, -9])[0].tolist() == [1, 0, 0, 1]
