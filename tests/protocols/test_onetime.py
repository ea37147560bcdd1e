"""The primitives of `onetime`: exhaustively on tiny rings, then at full width."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

from coterie.protocols.numerics import reciprocals
from coterie.protocols.onetime.bits import BitFactor, bit_products, products_of
from coterie.protocols.onetime.blinded import blind, compare, go_on_with
from coterie.protocols.onetime.centers import mask_centers, movement
from coterie.protocols.onetime.labelling import all_pairs, bracket, one_hot, select_words, tournament
from coterie.protocols.onetime.means import lift, mean_times_power, open_places, reciprocal_table, truncate
from coterie.protocols.onetime.sign import signs_of_differences, tree_of
from coterie.ring import Words
from tests.support import compute, given, run, splits, total

PARTIES = [2, 3]


def padded(values, multiple=64):
    """Repeat a vector until its length is a multiple of 64."""
    values = np.asarray(values)
    return np.resize(values, -(-len(values) // multiple) * multiple)


def xor(results):
    out = results[1]
    for result in results[2:]:
        out = out ^ result
    return out


def unpacked(words):
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little").reshape(*words.shape[:-1], -1)


def packed(bits):
    clear = np.ascontiguousarray(bits, np.uint8)
    return np.ascontiguousarray(np.packbits(clear, axis=-1, bitorder="little")).view(np.uint64)


def xor_splits(bits, p, seed=0):
    rng = np.random.default_rng(seed)
    words = packed(bits)
    shares = [rng.integers(0, 2**64, words.shape, dtype=np.uint64) for _ in range(p - 1)]
    last = words
    for share in shares:
        last = last ^ share
    return [*shares, last]


def mine(me, shares):
    return None if me.deals else shares[me.rank - 1].copy()


# -- signs -------------------------------------------------------------------------------------------------------------


def signs(p, left, right, width, shares_of_left=None, seed=0):
    """[right < left], by the protocol, for equally long vectors."""
    ring, n = Words(width), len(left)
    parts = splits(ring, np.stack([left, right]), p, seed)
    if shares_of_left is not None:
        parts = shares_of_left
    one, zero = np.array([1]), np.array([0])
    ran = run(p, lambda me: signs_of_differences(me, mine(me, parts), zero, one, n, width), seed)
    return unpacked(xor(ran.results))[0], ran


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("width", [4, 8])
def test_signs_are_right_for_all_differences(p, width):
    half = 1 << (width - 1)
    values = padded(np.tile(np.arange(-half, half), 8))
    out, _ = signs(p, np.zeros_like(values), values, width)
    assert (out == (values < 0)).all()


@pytest.mark.parametrize("p", PARTIES)
def test_signs_are_right_for_all_splits_of_a_tiny_ring(p):
    ring = Words(4)
    grid = np.array(list(product(range(16), repeat=p)), np.uint64).T  # all shares of the difference
    columns = padded(np.arange(grid.shape[1]))
    shares = [np.stack([np.zeros(len(columns), np.uint64), grid[j][columns]]) for j in range(p)]
    values = ring.signed(ring.reduce(grid.sum(axis=0)))[columns]
    out, _ = signs(p, np.zeros(len(columns)), values, 4, shares_of_left=shares)
    assert (out == (values < 0)).all()


@settings(deadline=None, derandomize=True, max_examples=15)
@hypothesis_given(st.data())
def test_signs_at_full_width(data):
    width = data.draw(st.sampled_from([12, 20, 32, 44, 52, 64]))
    quarter = 1 << (width - 2)
    edge = st.sampled_from([0, 1, -1, quarter - 1, -quarter])
    numbers = st.lists(edge | st.integers(-quarter, quarter - 1), min_size=64, max_size=64)
    left, right = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    out, ran = signs(2, left, right, width, seed=data.draw(st.integers(0, 1000)))
    assert (out == (right < left)).all()
    assert ran.traffic.rounds == 1 + len(tree_of(width // 4))


def test_a_sign_takes_three_rounds_at_most():
    assert [1 + len(tree_of(width // 4)) for width in (4, 16, 20, 64)] == [1, 2, 3, 3]


# -- products of bits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
def test_products_of_bits_for_all_values_and_complements(p, size):
    values = np.array(list(product([0, 1], repeat=size)), np.uint8).T
    columns = padded(np.arange(values.shape[1]))
    bits = values[:, columns]
    signs_of = [tuple(flags) for flags in product([False, True], repeat=min(size, 3))]
    terms = tuple(tuple(BitFactor(i, flags[i] if i < len(flags) else False) for i in range(size)) for flags in signs_of)
    shares = xor_splits(bits, p)
    words = shares[0].shape[1]
    ran = run(p, lambda me: bit_products(me, mine(me, shares), words, products_of(size, terms), "test")())
    out = unpacked(xor(ran.results))
    for t, term in enumerate(terms):
        expected = np.prod([bits[i] ^ negated for i, negated in term], axis=0)
        assert (out[t] == expected).all()
    assert ran.traffic.rounds == 1


@pytest.mark.parametrize("p", PARTIES)
def test_selection_for_all_words_of_a_tiny_ring(p):
    width, ring = 4, Words(4)
    bit, z = (np.array(column) for column in zip(*product([0, 1], range(16)), strict=True))
    bit, z = padded(np.tile(bit, 4)), padded(np.tile(z, 4))
    b, words = xor_splits(bit[None], p), splits(ring, np.stack([0 * z, z]), p)
    zero, one = np.array([0]), np.array([1])
    ran = run(p, lambda me: select_words(me, mine(me, b), mine(me, words), zero, one, len(z), width)())
    out = ring.reduce(np.sum(ran.results[1:], axis=0, dtype=np.uint64))
    assert (out[0] == bit * z).all()
    assert ran.traffic.rounds == 1


# -- scores with noise -------------------------------------------------------------------------------------------------


def compared(p, grid, width):
    """<z_1 < z_0> of scores whose shares are given (p, 2, n), what was opened, and the noise of the scores."""
    n, pair = grid.shape[2], (np.array([0]), np.array([1]))

    def role(me):
        z = blind(me, mine(me, list(grid)), 2, n, width)
        signs, opened = compare(me, z, *pair, *pair, n, width)
        return (signs, z.noise()) if me.deals else (signs, opened.c)

    return run(p, role).results


@pytest.mark.parametrize("p", PARTIES)
def test_scores_with_noise_compare_right_for_all_splits_of_a_tiny_ring(p):
    ring = Words(4)
    shares = np.array(list(product(range(16), repeat=p)), np.uint64).T
    columns = padded(np.arange(shares.shape[1]))
    grid = np.stack([np.zeros((p, len(columns)), np.uint64), shares[:, columns]], axis=1)
    values = ring.signed(ring.reduce(shares.sum(axis=0)))[columns]
    (_, noise), *found = compared(p, grid, 4)
    assert (unpacked(xor([None, *(signs for signs, _ in found)]))[0] == (values < 0)).all()
    for _, c in found:  # everybody sees the difference, with the noise of both
        assert (c[0] == ring.encode(values + ring.signed(ring.reduce(noise[1] - noise[0])))).all()


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("sizes", [(2, 1), (3,), (2, 2)])
def test_winners_scores_for_all_bits_and_words_of_a_tiny_ring(p, sizes):
    """Groups of so many nodes; what is not chosen stays out, whatever it is; the noise is the helper's to know."""
    ring, starts = Words(4), np.cumsum([0, *sizes[:-1]])
    first = np.array([a for a, size in zip(starts, sizes, strict=True) for _ in range(size - 1)])
    other = np.array([a + i for a, size in zip(starts, sizes, strict=True) for i in range(1, size)])
    drawn = np.random.default_rng(len(sizes)).integers(0, 16, (sum(sizes), 256))
    drawn[0], drawn[1] = np.repeat(np.arange(16), 16), np.tile(np.arange(16), 16)
    cases = [(bits, drawn) for bits in product([0, 1], repeat=len(other))]
    values = np.concatenate([scores for _, scores in cases], axis=1)
    bits = np.concatenate([np.repeat(np.array(b)[:, None], 256, axis=1) for b, _ in cases], axis=1)
    n, words, picks = values.shape[1], splits(ring, values, p), xor_splits(bits, p)

    def role(me):
        z = blind(me, mine(me, words), len(values), n, 4)
        _, opened = compare(me, z, first, other, first, other, n, 4)
        new = go_on_with(me, z, opened, mine(me, picks), np.searchsorted(starts, first), other, starts, n, 4)()
        return new.noise() if me.deals else new.share

    noise, *shares = run(p, role).results
    found = ring.reduce(np.sum(shares, axis=0, dtype=np.uint64) - noise)
    expected = values[starts].astype(np.int64)
    for t, (a, b) in enumerate(zip(first, other, strict=True)):
        expected[np.searchsorted(starts, a)] += bits[t] * (values[b] - values[a]).astype(np.int64)
    assert (found == ring.encode(expected)).all()


# -- labels ------------------------------------------------------------------------------------------------------------


def schedules(k):
    yield tournament(k)
    yield all_pairs(k)
    if k > 4:
        yield (4,) * (1 + (k > 4) + (k > 16))
        yield (3, *tournament(-(-k // 3)))


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 13])
def test_labels_are_the_same_for_every_schedule_ties_to_the_lowest(p, k):
    ring, n = Words(8), 640
    scores = np.random.default_rng(k).integers(-4, 4, (k, n))  # few values, so that ties abound
    shares = splits(ring, scores, p)
    for schedule in schedules(k):
        ran = run(p, lambda me, schedule=schedule: one_hot(me, blind(me, mine(me, shares), k, n, 8), k, n, 8, schedule))
        hot = unpacked(xor(ran.results))
        assert (hot.sum(axis=0) == 1).all()
        assert (hot.argmax(axis=0) == scores.argmin(axis=0)).all()


def test_a_schedule_must_find_one_winner():
    with pytest.raises(ValueError, match="one winner"):
        bracket(8, (2, 2))


def test_a_tournament_has_k_minus_one_comparisons_and_all_pairs_have_all():
    assert sum(len(level.left) for level in bracket(13, tournament(13))) == 12
    assert sum(len(level.left) for level in bracket(13, all_pairs(13))) == 78


# -- truncation, lifting, means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", PARTIES)
@pytest.mark.parametrize("width", [5, 6])
def test_truncation_for_all_values_and_shifts(p, width):
    quarter = 1 << (width - 2)
    for g in range(width - 2):
        half = (1 << g) >> 1
        x = np.tile(np.arange(-quarter, quarter - half), 40)
        out, ran = compute(p, lambda me, x, g=g: truncate(me, x, g), x, width=width, seed=g)
        assert (out == (x + half) >> g).all()
        assert ran.traffic.rounds == (2 if g else 0)


@settings(deadline=None, derandomize=True, max_examples=15)
@hypothesis_given(
    st.lists(st.integers(-(2**62), 2**62 - 2**60) | st.sampled_from([0, -1, 1]), min_size=3), st.integers(1, 60)
)
def test_truncation_at_full_width(x, g):
    out, _ = compute(3, lambda me, x: truncate(me, x, g), np.array(x))
    assert out.tolist() == [(v + (1 << (g - 1))) >> g for v in x]


@pytest.mark.parametrize("p", PARTIES)
def test_lifting_for_all_values_of_a_tiny_ring(p):
    narrow, wide = Words(5), Words(9)
    x = np.tile(np.arange(-8, 8), 50)
    shares = splits(narrow, x, p)
    ran = run(p, lambda me: lift(me, given(me, narrow, shares), wide))
    assert (wide.signed(total(wide, ran.results)) == x).all()


@pytest.mark.parametrize("p", PARTIES)
def test_the_reciprocal_of_every_count_is_looked_up(p):
    rows, g = 100, 20
    counts = np.arange(rows + 1)
    ring, table = Words(7), reciprocal_table(rows, g)
    shares = splits(ring, counts, p)
    ran = run(p, lambda me: open_places(me, given(me, ring, shares), rows, lambda: table)())
    expected = reciprocals(counts, g)
    expected[0] = 1 << (g + 1)  # the flag
    assert (xor(ran.results) == expected.astype(np.uint64)).all()
    assert ran.traffic.rounds == 1


@pytest.mark.parametrize("p", PARTIES)
def test_means_are_exact_for_small_sums_empty_clusters_included(p):
    """y = T q + 2^g [t = 0] C_old, over all T of a small range and all q of g + 1 bits."""
    g, narrow, wide = 3, Words(7), Words(16)
    cases = [(t, q) for t in range(-20, 20) for q in range(1 << (g + 1))]
    sums = np.array([t for t, _ in cases])[:, None]
    flag = np.arange(len(cases)) % 3 == 0
    bits = np.array([q for _, q in cases], np.uint64) | (flag.astype(np.uint64) << np.uint64(g + 1))
    old = np.random.default_rng(0).integers(-9, 9, (len(cases), 1))
    rng = np.random.default_rng(1)
    q_shares = [rng.integers(0, 2 ** (g + 2), len(cases), dtype=np.uint64) for _ in range(p - 1)]
    q_shares.append(bits ^ np.bitwise_xor.reduce(q_shares))
    sum_shares, old_shares = splits(narrow, sums, p), splits(Words(64), old, p)

    def role(me):
        centers = given(me, Words(64), old_shares)
        mask_centers(me, centers)
        return mean_times_power(me, given(me, narrow, sum_shares), mine(me, q_shares), centers, g, wide)

    ran = run(p, role)
    expected = sums * np.array([q for _, q in cases])[:, None] + (flag[:, None] * old << g)
    assert (wide.signed(total(wide, ran.results)) == expected).all()


@pytest.mark.parametrize("p", PARTIES)
def test_movement_is_the_total_squared_distance(p):
    rng = np.random.default_rng(0)
    old, new = rng.integers(-(2**20), 2**20, (2, 5, 3))
    shares = [splits(Words(64), c, p, seed) for seed, c in enumerate((old, new))]

    def role(me):
        both = [given(me, Words(64), s) for s in shares]
        for centers in both:
            mask_centers(me, centers)
        return movement(me, *both)

    ran = run(p, role)
    assert total(Words(64), ran.results)[0] == ((old - new) ** 2).sum()
    assert ran.traffic.rounds == 2  # both masks
