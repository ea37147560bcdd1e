"""The compiled loops, by hand and over all inputs of a few bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocols.securenn import kernels as comparison
from coterie.ring import kernels, odd

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


@pytest.mark.parametrize("parties", [1, 2, 5, 100])
@pytest.mark.parametrize("length", [1, 7, 39, 64])
def test_any_zero_is_the_plain_sum(parties, length):
    messages = np.random.default_rng(length).integers(0, Q, (parties, 300, length), np.uint8)
    out = np.empty(300, np.uint8)
    comparison.any_zero(messages, Q, out)
    assert (out == (messages.sum(axis=0, dtype=int) % Q == 0).any(axis=1)).all()


def test_any_zero_of_the_largest_bytes():
    """Whatever a party may send."""
    for parties in (1, 2, 200):
        messages, out = np.full((parties, 1, 3), 255, np.uint8), np.empty(1, np.uint8)
        comparison.any_zero(messages, Q, out)
        assert out[0] == (255 * parties % Q == 0)


def test_sum_below_by_hand():
    out = np.empty(3, np.uint8)
    kernels.sum_below(bytes_of([[66, 1, 0], [66, 66, 0], [66, 5, 0]]), Q, out)
    assert out.tolist() == [64, 5, 0]


# -- sampling ------------------------------------------------------------------------------------------------


def singles_of(values) -> np.ndarray:
    return np.array(values, np.uint32)


def halves_of(values) -> np.ndarray:
    return np.array(values, np.uint16)


def word_of(digits: tuple[int, ...], base: int) -> int:
    """The first word of 32 bits that has these digits."""
    number = 0
    for digit in digits:
        number = number * base + digit
    return -(-(number << 32) // base**4)


def test_sample_below_by_hand():
    """The word 0 has the digits 0, 0, 0, 0; an offset is added to each."""
    words = singles_of([0, word_of((1, 2, 3, 4), 67), word_of((66, 0, 66, 0), 67)])
    assert kernels.sample_below(words, singles_of([]), 0, 67, 1) == 3
    assert words.view(np.uint8).tolist() == [1, 1, 1, 1, 2, 3, 4, 5, 67, 1, 67, 1]


@pytest.mark.parametrize("base", [1, 2, 3, 5, 66, 67, 128])
def test_as_many_words_have_any_four_digits(base):
    """Those that follow each other from the first one on, floor(2^32 / base^4) of them; the one after is rejected, or
    has the next digits. Counted at the ends, and at some in between."""
    each, spare = 2**32 // base**4, singles_of([0] * 8)
    rng = np.random.default_rng(base)
    numbers = {0, base**4 - 1, *rng.integers(0, base**4, 200).tolist()}
    for number in numbers:
        digits = [number // base**place % base for place in (3, 2, 1, 0)]
        first = -(-(number << 32) // base**4)
        ends = singles_of([first, first + each - 1])
        assert kernels.sample_below(ends, singles_of([]), 0, base, 0) == 2
        assert ends.view(np.uint8).tolist() == digits * 2
        after = first + each
        if after < 2**32 and after * base**4 < (number + 1) << 32:
            assert kernels.sample_below(singles_of([after]), singles_of([]), 0, base, 0) == 0
            last = singles_of([after])
            assert kernels.sample_below(last, spare, 0, base, 0) == 1
            assert last.tolist() == [0]


def rejected_word(base: int) -> int:
    """The first that lies in the incomplete multiple."""
    return next(w for w in range(2**32) if w * base**4 % 2**32 >= 2**32 - 2**32 % base**4)


def test_a_rejected_word_is_replaced_by_the_next_spare_one_that_is_not():
    bad, good = rejected_word(67), word_of((9, 8, 7, 6), 67)
    words = singles_of([0, bad, 0])
    assert kernels.sample_below(words, singles_of([bad, bad, good, 0]), 0, 67, 0) == 3
    assert words.view(np.uint8).reshape(3, 4).tolist() == [[0] * 4, [9, 8, 7, 6], [0] * 4]


def test_sample_below_goes_on_where_it_stopped():
    """512 words at a time: those before are digits already, and stay."""
    bad, good = rejected_word(67), word_of((1, 2, 3, 4), 67)
    words = singles_of([good] * 512 + [0, bad, good, bad])
    done = kernels.sample_below(words, singles_of([good]), 0, 67, 0)
    assert done == 512
    assert kernels.sample_below(words, singles_of([good]), done, 67, 0) == 516
    assert words[:512].view(np.uint8).tolist() == [1, 2, 3, 4] * 512
    assert words[512:].view(np.uint8).tolist() == [0] * 4 + [1, 2, 3, 4] * 3


def test_fisher_yates_by_hand():
    """Inside out: 1 takes the place of 0, which moves on; of three places, 2 takes the last, and stays there."""
    out = np.zeros((1, 3), np.uint8)
    assert kernels.permutations(halves_of([0, 0xFFFF]), out, 0) == 1
    assert out.tolist() == [[1, 0, 2]]


@pytest.mark.parametrize("choices", [2, 3, 7, 64])
def test_every_choice_is_as_likely(choices):
    """Over all numbers of 16 bits: the last step of a permutation puts its own number anywhere alike."""
    one = np.zeros(choices - 1, np.uint16)
    found = np.zeros(choices, np.int64)
    for number in range(1 << 16):
        one[-1] = number
        out = np.zeros((1, choices), np.uint8)
        if kernels.permutations(one, out, 0):
            found[out[0].tolist().index(choices - 1)] += 1
    assert set(found.tolist()) == {(1 << 16) // choices}


def test_a_permutation_is_left_undone_if_numbers_run_out():
    out = np.zeros((2, 3), np.uint8)
    assert kernels.permutations(halves_of([0] * 3), out, 0) == 1
    assert kernels.permutations(halves_of([0] * 1), out, 1) == 1
    assert kernels.permutations(halves_of([0, 0x5555]), out, 1) == 1  # rejected: 3 * 0x5555 = 2^16 - 1
    assert kernels.permutations(halves_of([0, 0x5555, 0]), out, 1) == 2


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


def plainly_blinded(x, r, mode, scalars, order, zero, lead, q) -> np.ndarray:
    """The message as PrivateCompare has it, without a trick."""
    message = np.zeros(x.shape, np.int64)
    for i, shares in enumerate(x.astype(int).tolist()):
        length, kind = len(shares), int(mode[i])
        bits = [(int(r[i]) + (kind == 1)) >> b & 1 for b in range(length)]
        w = [lead - share if bit else share for share, bit in zip(shares, bits)]
        for b in range(length):
            c = lead * (bits[b] + 1) - shares[b] if kind == 0 else lead * (1 - bits[b]) + shares[b]
            c = c + sum(w[b + 1 :]) if kind < 2 else lead * int(b > 0 or kind == 3)
            message[i, order[i, b]] = (int(scalars[i, b]) * c + int(zero[i, b])) % q
    return message


@pytest.mark.parametrize("lead", [0, 1])
def test_every_message_of_two_bits_over_a_field_of_five(lead):
    """All shares, comparands and modes, and with each of them scalars, places and shares of zero of its own."""
    q, cases = 5, list(itertools.product(range(5), range(5), range(4), range(4)))
    rng, count = np.random.default_rng(lead), len(cases)
    *x, r, mode = np.array(cases).T
    shares = bytes_of(np.stack(x, axis=1))
    scalars, zero = bytes_of(rng.integers(1, q, (count, 2))), bytes_of(rng.integers(0, q, (count, 2)))
    order, out = bytes_of(np.argsort(rng.random((count, 2)))), np.empty((count, 2), np.uint8)
    comparison.blinded_comparison(shares, words_of(r), bytes_of(mode), scalars, order, zero, lead, q, out)
    assert (out == plainly_blinded(shares, r, mode, scalars, order, zero, lead, q)).all()


@pytest.mark.parametrize("length", [*range(1, 10), 15, 16, 17, 31, 33, 38, 62, 63, 64])
def test_any_message_is_the_plain_one(length):
    rng, count = np.random.default_rng(length), 40
    shares, zero = (bytes_of(rng.integers(0, Q, (count, length))) for _ in range(2))
    scalars = bytes_of(rng.integers(1, Q, (count, length)))
    order = bytes_of(np.argsort(rng.random((count, length))))
    r = rng.integers(0, 2**length, count, np.uint64)
    mode, out = bytes_of(rng.integers(0, 4, count)), np.empty((count, length), np.uint8)
    for lead in (0, 1):
        comparison.blinded_comparison(shares, words_of(r), mode, scalars, order, zero, lead, Q, out)
        assert (out == plainly_blinded(shares, r, mode, scalars, order, zero, lead, Q)).all()


@pytest.mark.parametrize(("share", "comparand"), [(0, 0), (66, 0), (0, 2**64 - 2), (66, 2**64 - 2)])
def test_the_largest_sums_of_a_message_are_reduced(share, comparand):
    shape = (2, 64)
    shares, zero, scalars = (np.full(shape, value, np.uint8) for value in (share, 66, 66))
    order, out = np.tile(np.arange(64, dtype=np.uint8), (2, 1)), np.empty(shape, np.uint8)
    r, mode = words_of([comparand] * 2), bytes_of([0, 1])
    for lead in (0, 1):
        comparison.blinded_comparison(shares, r, mode, scalars, order, zero, lead, Q, out)
        assert (out == plainly_blinded(shares, r, mode, scalars, order, zero, lead, Q)).all()


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
    assert odd.odd_add(top, top, m) == 2**64 - 3
    assert odd.odd_add(top, one, m) == 0
    assert odd.odd_sub(np.uint64(0), top, m) == 1
