"""`falcon`, primitive by primitive: over all share splits of tiny rings and in every role, then at full width."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from coterie.protocols import Problem
from coterie.protocols.falcon.adder import digits
from coterie.protocols.falcon.bits import SLICED, multiply_rows, select, to_words
from coterie.protocols.falcon.comparing import floor, low_bits, signs
from coterie.protocols.falcon.entering import enter, open_to
from coterie.protocols.falcon.labelling import brackets, comparisons, one_hot_least
from coterie.protocols.falcon.lookup import entries, one_hot
from coterie.protocols.falcon.scoring import mean, reciprocal, row_scores
from coterie.protocols.falcon.servers import Trio, cross, reshare, run_step, run_steps
from coterie.protocols.numerics import reciprocal_means
from coterie.protocols.onetime.labelling import schedules
from coterie.ring import Words
from coterie.runtime.threads import run_threads
from coterie.transport import World
from tests.protocols.tiny import numbers, protocol_settings
from tests.protocols.trio import (
    THREE,
    Given,
    bits_of,
    clear_bits,
    compute,
    every_split,
    run_trio,
    split,
    value_of,
)
from tests.support import SeededEntropy

every_turn = pytest.mark.parametrize("turn", range(3))


def log2_up(count: int) -> int:
    return math.ceil(math.log2(count)) if count > 1 else 0


# -- over all share splits -------------------------------------------------------------------------------------------


def times(trio, x, y):
    return reshare(trio, x.ring, x.shape, None if trio.role is None else cross(x, y, x.ring.mul))


def test_every_product():
    """All pairs of share splits of Z_4."""
    one = every_split(2)
    x = Given(one.ring, [np.repeat(share, 64) for share in one.shares])
    y = Given(one.ring, [np.tile(share, 64) for share in one.shares])
    assert (
        compute(times, x, y) == one.ring.signed(one.ring.mul(*(one.ring.encode(value_of(v)) for v in (x, y))))
    ).all()


def test_every_product_of_bits():
    splits = np.indices((2,) * 6).reshape(6, -1).astype(np.uint8)
    rows = [np.concatenate([bits_of([splits[i]]).shares[0], bits_of([splits[3 + i]]).shares[0]]) for i in range(3)]
    found = compute(lambda t, x: multiply_rows(t, x, np.array([0]), np.array([1])), Given(SLICED, rows))
    expected = (splits[0] ^ splits[1] ^ splits[2]) & (splits[3] ^ splits[4] ^ splits[5])
    assert (clear_bits(found, 64)[0] == expected).all()


@every_turn
@pytest.mark.parametrize("width", [2, 3, 4, 5, 6])
def test_every_sign(width, turn):
    """Of odd and even numbers of low bits, all 2^(3 w) splits; each in a place of its own stretch of key."""
    x = every_split(width)
    for seed in range(2):
        found = clear_bits(compute(signs, x, turn=turn, seed=seed), len(x.shares[0]))[0]
        assert (found == (value_of(x) < 0)).all()


@every_turn
@pytest.mark.parametrize(("width", "g"), [(4, 1), (4, 2), (5, 1), (5, 2), (5, 3)])
def test_every_rounding(width, turn, g):
    x, quarter = every_split(width), 1 << (width - 2)
    found, values = compute(lambda t, v: floor(t, v, g), x, turn=turn), value_of(x)
    wanted = (values >= -quarter) & (values < quarter - (1 << (g - 1)))
    assert wanted.any()
    assert (found == (values + (1 << (g - 1))) >> g)[wanted].all()


@every_turn
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_low_bit(turn, count):
    x = every_split(4)
    found = clear_bits(compute(lambda t, v: low_bits(t, v, count), x, turn=turn), len(x.shares[0]))
    assert (found == (value_of(x) >> np.arange(count)[:, None] & 1)).all()


@every_turn
def test_every_bit_as_a_word(turn):
    splits = np.tile(np.indices((2,) * 3).reshape(3, -1), 8).astype(np.uint8)
    found = compute(lambda t, h: to_words(t, h, Words(4)), bits_of(list(splits)), turn=turn)
    assert (found[0] == splits[0] ^ splits[1] ^ splits[2]).all()


@every_turn
def test_every_selection(turn):
    """All splits of a bit with all splits of Z_8."""
    x = every_split(3)
    count = len(x.shares[0])
    h = np.repeat(np.indices((2,) * 3).reshape(3, -1), count, axis=1).astype(np.uint8)
    words = Given(x.ring, [np.tile(share, 8) for share in x.shares])
    found = compute(select, bits_of(list(h)), words, turn=turn)
    assert (found == np.where(h[0] ^ h[1] ^ h[2], value_of(words), 0)).all()


@every_turn
@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_every_place_of_a_table(turn, bits):
    x = every_split(4)
    table = np.random.RandomState(bits).randint(0, 32, 1 << bits).astype(np.uint64)

    def work(trio, index):
        hot = yield from one_hot(trio, index, bits)
        return entries(trio, hot, table, 5)

    found = run_trio(work, x, turn=turn).results
    clear = np.bitwise_xor.reduce([one.shares[0] for one in found])
    expected = table[value_of(x) & ((1 << bits) - 1)]
    assert ((clear << np.arange(5)).sum(1) == expected).all()


@pytest.mark.parametrize("bits", [6, 7, 8, 9, 11, 13, 14, 17, 20, 25])
def test_places_of_large_tables(bits):
    """One-hot bits of halves of 64 places or more are words of them."""
    places = np.unique(np.r_[0, 1, 63, 64, (1 << bits) - 1, np.random.RandomState(bits).randint(0, 1 << bits, 4)])
    places = places[places < 1 << bits]
    found = run_trio(lambda t, x: one_hot(t, x, bits), split(64, places)).results
    clear = clear_bits(np.bitwise_xor.reduce([one.shares[0] for one in found]), 1 << bits)
    assert (clear.sum(1) == 1).all()
    assert (clear.argmax(1) == places).all()


@every_turn
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_every_order_of_scores(turn, k):
    """All scores of 0 to 2, so that all ties and all orders occur, by all schedules."""
    scores = np.indices((3,) * k).reshape(k, -1)
    padded = np.zeros((k, -(-scores.shape[1] // 64) * 64), np.int64)
    padded[:, : scores.shape[1]] = scores
    for schedule in schedules(k):
        found = compute(lambda t, z, s=schedule: one_hot_least(t, z, s), split(4, padded), turn=turn)
        clear = clear_bits(found, padded.shape[1])
        assert (clear == np.eye(k, dtype=int)[padded.argmin(0)].T).all()


@pytest.mark.parametrize("k", range(1, 18))
def test_every_schedule_finds_the_first_of_the_least(k):
    scores = np.random.RandomState(k).randint(0, max(2, k // 2), (k, 128))
    for schedule in schedules(k):
        found = compute(lambda t, z, s=schedule: one_hot_least(t, z, s), split(9, scores, k))
        assert (clear_bits(found, 128) == np.eye(k, dtype=int)[scores.argmin(0)].T).all()


# -- at full width ----------------------------------------------------------------------------------------------------

whole = st.lists(numbers(-(1 << 62), (1 << 62) - 1), min_size=64, max_size=64)


@protocol_settings
@drawn(whole, st.integers(0, 2))
def test_signs_of_words(values, turn):
    found = compute(signs, split(64, np.array(values), values[0] & 0xFF), turn=turn)
    assert clear_bits(found, 64)[0].tolist() == [int(v < 0) for v in values]


@protocol_settings
@drawn(whole, st.integers(1, 61), st.integers(0, 2))
def test_words_rounded(values, g, turn):
    kept = np.array([min(v, (1 << 62) - (1 << (g - 1)) - 1) for v in values])
    found = compute(lambda t, x: floor(t, x, g), split(64, kept, g), turn=turn)
    assert found.tolist() == [(int(v) + (1 << (g - 1))) >> g for v in kept]


@protocol_settings
@drawn(st.integers(3, 64), st.data())
def test_signs_at_every_width(width, data):
    edge = 1 << (width - 1)
    values = data.draw(st.lists(numbers(-edge, edge - 1), min_size=64, max_size=64))
    found = compute(signs, split(width, np.array(values), width))
    assert clear_bits(found, 64)[0].tolist() == [int(v < 0) for v in values]


@protocol_settings
@drawn(whole, st.lists(st.booleans(), min_size=64, max_size=64))
def test_words_selected(values, chosen):
    h = np.array(chosen, np.uint8)
    shares = [h ^ np.uint8(1), np.arange(64, dtype=np.uint8) & 1, (np.arange(64, dtype=np.uint8) & 1) ^ np.uint8(1)]
    found = compute(select, bits_of(shares), split(64, np.array(values), 5))
    assert found.tolist() == [v if c else 0 for v, c in zip(values, chosen, strict=True)]


def test_scores_are_those_of_rows_and_centres():
    rng = np.random.default_rng(2)
    x, c = rng.integers(-(1 << 20), 1 << 20, (70, 3)), rng.integers(-(1 << 20), 1 << 20, (5, 3))
    found = compute(lambda t, a, b: row_scores(t, a, b, 48), split(64, x), split(64, c, 1))
    assert (found[:, :70] == ((c**2).sum(1)[:, None] - 2 * c @ x.T)).all()
    assert (found[:, 70:] == (c**2).sum(1)[:, None]).all()


def test_means_are_those_of_the_oracle():
    problem = Problem(300, 4, (1 << 16,) * 2)
    counts, rng = np.array([300, 0, 1, 77]), np.random.default_rng(4)
    sums = rng.integers(-(1 << 16), 1 << 16, (4, 2)) * counts[:, None]
    old = rng.integers(-(1 << 16), 1 << 16, (4, 2))

    def work(trio, sums, counts, old):
        by = yield from reciprocal(trio, counts, problem.mass, problem.reciprocal_bits)
        return (yield from mean(trio, sums, by, old, problem.reciprocal_bits))

    found = compute(work, split(64, sums), split(64, counts, 1), split(64, old, 2))
    assert (found == reciprocal_means(problem, sums, counts, old)).all()


# -- in and out -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [THREE, World(("", "A", "B", "C", "D", "E"), serving=(2, 5, 3))], ids=["two", "five"])
def test_what_anybody_enters_comes_out_at_anybody(world):
    values = np.arange(-50, 50)

    def role(me):
        trio = Trio(me)
        steps = [enter(trio, Words(64), j, 100, values * j if me.rank == j else None) for j in world.owners]
        return [run_step(me, open_to(trio, secret, [rank])) for secret in run_steps(me, *steps) for rank in world.ranks]

    results = run_threads(world, role, entropy=lambda rank: SeededEntropy(1, rank))
    for rank, found in zip(world.ranks, results, strict=True):
        expected = iter(found)
        for owner in world.owners:
            for to in world.ranks:
                one = next(expected)
                assert (one is None) == (to != rank)
                assert one is None or (one.view(np.int64) == values * owner).all()


# -- costs ------------------------------------------------------------------------------------------------------------


def bytes_sent(ran) -> int:
    """By all servers together."""
    return sum(frame.array.nbytes for one in ran.recordings for frame in one.sent)


@every_turn
@pytest.mark.parametrize(("width", "bits"), [(36, 209), (44, 261), (64, 391), (37, 211)])
def test_a_sign_costs_what_is_declared(width, bits, turn):
    ran = run_trio(signs, split(width, np.zeros(64)), turn=turn)
    t = width - 1
    delta, depth = t // 2, log2_up((t + 1) // 2)
    declared = 3 * t + delta + 3 * (2 * delta - depth) - (0 if t % 2 else 8)
    assert bytes_sent(ran) == 8 * declared == 8 * bits
    assert ran.traffic.rounds == 2 + depth


ROUNDS = {
    "product": (lambda t, x: times(t, x, x), 1),
    "sign": (signs, 2 + 5),
    "rounding by 42": (lambda t, x: floor(t, x, 42), 10),
    "rounding by 1": (lambda t, x: floor(t, x, 1), 10),
    "32 low bits": (lambda t, x: low_bits(t, x, 32), 7),
    "14 low bits": (lambda t, x: low_bits(t, x, 14), 6),
    "one-hot bits of 14": (lambda t, x: one_hot(t, x, 14), 6 + 4),
}


@every_turn
@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_are_those_declared(name, turn):
    """As the longest chain of messages, which may be one shorter where nobody waits for it."""
    work, rounds = ROUNDS[name]
    taken = run_trio(work, split(64, np.arange(64)), turn=turn).traffic.rounds
    assert rounds - 1 <= taken <= rounds


def test_a_bit_becomes_a_word_for_three_and_is_selected_for_four():
    h, x = bits_of([np.zeros(64, np.uint8)] * 3), split(64, np.arange(64))
    words = run_trio(lambda t, b: to_words(t, b, Words(64)), h)
    chosen = run_trio(select, h, x)
    assert (bytes_sent(words), bytes_sent(chosen)) == (8 * 64 * 3, 8 * 64 * 4)
    assert (words.traffic.rounds, chosen.traffic.rounds) == (2, 2)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 16])
def test_a_schedule_compares_as_often_as_it_says(k):
    for schedule in schedules(k):
        assert comparisons(k, schedule) == sum(level.pairs.shape[1] for level in brackets(k, schedule))
        assert comparisons(k, (k,)) == k * (k - 1) // 2
    assert comparisons(k, (2,) * log2_up(k)) == k - 1


def test_trees_of_digits_have_the_lowest_bit_alone_where_there_is_one():
    assert digits(0, 5).sizes.tolist() == [1, 2, 2]
    assert digits(0, 4, 7).lows.tolist() == [0, 2, 4, 5]
