"""The compiled loops, by hand and over all inputs of a few bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocols.securenn import kernels as comparison
from coterie.ring import kernels

Q = 67


def bytes_of(values) -> np.ndarray:
    """As it would come off the wire: contiguous and read-only."""
    array = np.array(values, np.uint8)
    array.flags.writeable = False
    return array


def words_of(values) -> np.ndarray:
    array = np.array(values, np.uint64)
    array.flags.writeable = False
    return array


# -- bits_minus ----------------------------------------------------------------------------------------------


def test_bits_minus_by_hand():
    """5 = 101 and 2 = 010, lowest bit first, less the shares of two holders."""
    shares = bytes_of([[[1, 0, 5], [66, 66, 0]], [[0, 3, 66], [66, 66, 1]]])
    out = np.empty((2, 3), np.uint8)
    kernels.bits_minus(words_of([5, 2]), shares, Q, out)
    assert out.tolist() == [[0, 64, 64], [2, 3, 66]]


def test_bits_minus_at_64_bits():
    x = words_of([0, 1, 2**63, 2**64 - 2, 2**64 - 1])
    shares = np.random.default_rng(0).integers(0, Q, (4, 5, 64), np.uint8)
    out = np.empty((5, 64), np.uint8)
    kernels.bits_minus(x, shares, Q, out)
    bits = (out.astype(int) + shares.sum(axis=0, dtype=int)) % Q
    assert [sum(int(b) << i for i, b in enumerate(row)) for row in bits] == x.tolist()
    assert set(np.unique(bits)) == {0, 1}


# -- any_zero and sums ---------------------------------------------------------------------------------------


def test_any_zero_by_hand():
    one = [[1, 2, 3], [0, 1, 1], [66, 33, 1]]
    two = [[1, 65, 3], [1, 1, 1], [66, 33, 2]]
    out = np.empty(3, np.uint8)
    comparison.any_zero(bytes_of([one, two]), Q, out)
    assert out.tolist() == [1, 0, 0]


def test_any_zero_over_all_sums_of_three():
    messages = bytes_of(list(itertools.product(range(5), repeat=3))).T.copy()[:, :, None]
    out = np.empty(125, np.uint8)
    comparison.any_zero(messages, 5, out)
    assert (out == (messages.sum(axis=0, dtype=int)[:, 0] % 5 == 0)).all()


def test_sum_below_by_hand():
    out = np.empty(3, np.uint8)
    kernels.sum_below(bytes_of([[66, 1, 0], [66, 66, 0], [66, 5, 0]]), Q, out)
    assert out.tolist() == [64, 5, 0]


# -- sampling ------------------------------------------------------------------------------------------------


def test_sample_below_goes_on_where_it_stopped():
    out = np.zeros(4, np.uint8)
    assert kernels.sample_below(bytes_of([7, 250, 12]), out, 0, 250, 10, 1) == 2
    assert kernels.sample_below(bytes_of([255, 249, 30, 99]), out, 2, 250, 10, 1) == 4
    assert out.tolist() == [8, 3, 10, 1]


def test_fisher_yates_by_hand():
    """Of 0 1 2: place 2 swaps with 7 mod 3 = 1, place 1 with 3 mod 2 = 1."""
    out = np.zeros((1, 3), np.uint8)
    assert kernels.permutations(bytes_of([255, 7, 3] + [0] * 21), out, 0) == 1
    assert out.tolist() == [[0, 2, 1]]


def test_a_permutation_is_left_undone_if_bytes_may_run_out():
    out = np.zeros((2, 3), np.uint8)
    assert kernels.permutations(bytes_of([0] * 24), out, 0) == 1
    assert kernels.permutations(bytes_of([0] * 23), out, 1) == 1
    assert kernels.permutations(bytes_of([255] * 24), out, 1) == 1


# -- blinded_comparison --------------------------------------------------------------------------------------


def compared(x, r, mode, length, scalars=None, order=None, zero=None) -> np.ndarray:
    """The message of a party that holds all of x by itself; unblinded unless told otherwise."""
    shape = (len(x), length)
    bits = bytes_of([[(int(v) >> b) & 1 for b in range(length)] for v in x])
    scalars = np.ones(shape, np.uint8) if scalars is None else scalars
    order = np.tile(np.arange(length, dtype=np.uint8), (len(x), 1)) if order is None else order
    zero = np.zeros(shape, np.uint8) if zero is None else zero
    out = np.empty(shape, np.uint8)
    comparison.blinded_comparison(bits, words_of(r), bytes_of(mode), scalars, order, zero, 1, Q, out)
    return out


def test_comparison_by_hand():
    """x = 101, r = 011, beta = 0: c_2 = 0 - 1 + 1 = 0, c_1 = 1 - 0 + 1 + w_2 = 3, c_0 = 1 - 1 + 1 + w_1 + w_2 = 3.

    beta = 1, t = 100: c_2 = 1 - 1 + 1 = 1, c_1 = 0 - 0 + 1 + 0 = 1, c_0 = 1 - 0 + 1 + 0 = 2: no zero, x > r.
    """
    assert compared([5, 5], [3, 3], [0, 1], 3).tolist() == [[3, 3, 0], [2, 1, 1]]


def test_submissions_that_are_settled_beforehand():
    assert compared([5, 5], [3, 3], [2, 3], 3).tolist() == [[0, 1, 1], [1, 1, 1]]


def test_scalars_order_and_zero_shares_by_hand():
    """c = 3, 3, 0 times 2, 5, 9 is 6, 15, 0; bit i goes to place order[i], plus its zero share."""
    scalars, order, zero = bytes_of([[2, 5, 9]]), bytes_of([[1, 2, 0]]), bytes_of([[10, 60, 66]])
    assert compared([5], [3], [0], 3, scalars, order, zero).tolist() == [[66, 16, 8]]
    assert compared([5], [3], [2], 3, scalars, order, zero).tolist() == [[8, 10, 65]]


def test_parties_messages_add_up_to_the_whole_one():
    """A party's own message is linear in its share, and P1 alone adds what is public."""
    rng, length, count = np.random.default_rng(4), 6, 500
    x, r = rng.integers(0, 64, (2, count), np.uint64)
    mode = rng.integers(0, 4, count, np.uint8)
    mode[(mode == 1) & (r == 63)] = 2
    bits = ((x[:, None] >> np.arange(length, dtype=np.uint64)) & np.uint64(1)).astype(np.uint8)
    scalars = rng.integers(1, Q, (count, length), np.uint8)
    order = np.argsort(rng.random((count, length))).astype(np.uint8)
    zero = np.zeros((count, length), np.uint8)
    shares = rng.integers(0, Q, (3, count, length), np.uint8)
    shares[2] = (bits.astype(int) - shares[0] - shares[1]) % Q
    messages = np.empty_like(shares)
    for j in range(3):
        comparison.blinded_comparison(shares[j], r, mode, scalars, order, zero, int(j == 0), Q, messages[j])
    assert (messages.sum(axis=0, dtype=int) % Q == compared(x, r, mode, length, scalars, order)).all()


@pytest.mark.parametrize("length", [1, 2, 4])
def test_one_zero_just_if_the_answer_is_1(length):
    """For every x and r: beta = 0 finds x > r, beta = 1 finds x <= r."""
    both = list(itertools.product(range(1 << length), repeat=2))
    x, r = np.array(both, np.uint64).T
    assert ((compared(x, r, [0] * len(x), length) == 0).sum(axis=1) == (x > r)).all()
    inside = r < (1 << length) - 1
    x, r = x[inside], r[inside]
    assert ((compared(x, r, [1] * len(x), length) == 0).sum(axis=1) == (x <= r)).all()


WORD = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]))


@given(st.lists(st.tuples(WORD, WORD, st.integers(-2, 2)), min_size=1, max_size=20))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_one_zero_just_if_the_answer_is_1_at_64_bits(cases):
    """Z_67 is large enough: sums of up to 63 differing bits do not come round to zero."""
    x = [a for a, _, _ in cases] * 2
    r = [b for _, b, _ in cases] + [min(max(a + near, 0), 2**64 - 1) for a, _, near in cases]
    assert (compared(x, r, [0] * len(x), 64) == 0).sum(axis=1).tolist() == [int(a > b) for a, b in zip(x, r)]
    inside = [(a, b) for a, b in zip(x, r) if b < 2**64 - 1]
    if inside:
        x, r = zip(*inside)
        assert (compared(x, r, [1] * len(x), 64) == 0).sum(axis=1).tolist() == [int(a <= b) for a, b in inside]


# -- odd words -----------------------------------------------------------------------------------------------


def test_odd_sums_do_not_overflow_at_64_bits():
    m = np.uint64(2**64 - 1)
    top, one = np.uint64(2**64 - 2), np.uint64(1)
    assert kernels.odd_add(top, top, m) == 2**64 - 3
    assert kernels.odd_add(top, one, m) == 0
    assert kernels.odd_sub(np.uint64(0), top, m) == 1
