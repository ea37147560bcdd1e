"""Sampling: in range, uniform (chi-square at fixed seeds), and what rejection rejects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from coterie.ring import OddWords, Prime, Words, sample_permutations
from tests.ring.sources import ScriptedBytes, SeededBytes

COUNT = 60_000
RINGS = [Words(1), Words(4), Words(64), OddWords(2), OddWords(4), OddWords(64), Prime(2), Prime(5), Prime(67)]


def assert_uniform(values: np.ndarray, kinds: int) -> None:
    counts = np.bincount(values.astype(np.int64).ravel(), minlength=kinds)
    assert len(counts) == kinds
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("ring", [r for r in RINGS if r.modulus < 256], ids=repr)
def test_every_element_of_a_small_ring_is_as_likely(ring):
    assert_uniform(ring.sample(SeededBytes(1), (COUNT,)), ring.modulus)


@pytest.mark.parametrize("ring", [Words(64), Words(63), OddWords(64), OddWords(63)], ids=repr)
@pytest.mark.parametrize("shift", [0, 27, 59])
def test_every_part_of_a_wide_element_is_uniform(ring, shift):
    values = ring.sample(SeededBytes(2), (COUNT,))
    assert (values < ring.modulus).all()
    assert_uniform((values >> np.uint64(shift)) & np.uint64(15), 16)


@pytest.mark.parametrize("q", [3, 5, 67])
def test_nonzero_elements_are_uniform_and_not_zero(q):
    values = Prime(q).sample_nonzero(SeededBytes(3), (COUNT,))
    assert values.min() == 1
    assert_uniform(values - 1, q - 1)


@pytest.mark.parametrize("ring", RINGS, ids=repr)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 4), (5, 0)])
def test_samples_have_the_shape_and_type_asked_for(ring, shape):
    values = ring.sample(SeededBytes(4), shape)
    assert values.shape == shape
    assert values.dtype == ring.dtype


@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_the_same_bytes_give_the_same_elements(ring):
    first, again, other = (ring.sample(SeededBytes(seed), (200,)) for seed in (5, 5, 6))
    assert (first == again).all()
    assert (first != other).any()


def test_odd_words_reject_the_modulus_itself():
    """2^w - 1 stands for 0; taking it for 0 would make 0 twice as likely."""
    script = b"\xff" * 8 + bytes([3] + [0] * 7) + b"\xff" * 16 + bytes([9] + [0] * 7)
    assert OddWords(64).sample(ScriptedBytes(script), (2,)).tolist() == [3, 9]


@pytest.mark.parametrize(("q", "nonzero"), [(67, False), (67, True), (5, False)])
def test_a_prime_field_rejects_the_incomplete_last_multiple(q, nonzero):
    """Of the 2^32 words for four elements, those that would favour some of them; a spare word is taken instead."""
    base = (q - nonzero) ** 4
    bad = next(word for word in range(2**32) if word * base % 2**32 >= 2**32 - 2**32 % base)
    script = np.array([7 * 2**28, bad, *[0] * 16], np.uint32).tobytes()  # two words, and 16 that are spare
    sample = Prime(q).sample_nonzero if nonzero else Prime(q).sample
    first, rejected = sample(ScriptedBytes(script), (8,)).reshape(2, 4).tolist()
    digits = [(7 * base >> 4) // (q - nonzero) ** place % (q - nonzero) + nonzero for place in (3, 2, 1, 0)]
    assert (first, rejected) == (digits, [int(nonzero)] * 4)


def test_words_are_read_until_none_is_rejected():
    """More of them than there are spare words: what comes next is taken."""
    bad = next(word for word in range(2**32) if word * 67**4 % 2**32 >= 2**32 - 2**32 % 67**4)
    script = np.array([bad] * (1 + 16 + 16 + 3), np.uint32).tobytes() + bytes(64)
    assert Prime(67).sample(ScriptedBytes(script), (3,)).tolist() == [0, 0, 0]


# -- permutations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 6, 17, 64, 128])
def test_permutations_are_permutations(length):
    rows = sample_permutations(SeededBytes(7), 500, length)
    assert rows.shape == (500, length)
    assert (np.sort(rows, axis=1) == np.arange(length)).all()


def test_no_permutations_at_all():
    assert sample_permutations(SeededBytes(7), 0, 6).shape == (0, 6)


@pytest.mark.parametrize("length", [2, 3, 4])
def test_every_permutation_is_as_likely(length):
    number = {order: i for i, order in enumerate(itertools.permutations(range(length)))}
    rows = sample_permutations(SeededBytes(8), 24_000, length)
    assert_uniform(np.array([number[tuple(row)] for row in rows.tolist()]), len(number))


def test_successive_permutations_are_independent():
    number = {order: i for i, order in enumerate(itertools.permutations(range(3)))}
    numbers = np.array([number[tuple(row)] for row in sample_permutations(SeededBytes(9), 40_000, 3).tolist()])
    assert_uniform(6 * numbers[0::2] + numbers[1::2], 36)


@pytest.mark.parametrize("length", [64, 128])
def test_every_place_of_a_long_permutation_is_uniform(length):
    rows = sample_permutations(SeededBytes(10), 20_000, length)
    for place in (0, 1, length // 2, length - 1):
        assert_uniform(rows[:, place], length)
