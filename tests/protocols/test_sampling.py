"""k-means++ in the clear: places against a direct computation, shares of draws over all random numbers, and bounds."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from coterie.clustering import make_encoding
from coterie.errors import InputError
from coterie.protocols import Problem, sampling
from coterie.protocols.onetime.seeding import distance_width
from coterie.protocols.sampling import DRAW_BITS, Sampling, plus_plus, public_draws, trials

HALF = 1 << 19
FULL = 1 << DRAW_BITS


# -- public numbers --------------------------------------------------------------------------------------------------


def test_the_numbers_that_a_seed_stands_for_do_not_change():
    first, numbers = public_draws(bytes(range(16)), 1000, 4)
    assert first == 999
    assert numbers.tolist() == [
        [[766769, 702168], [158936, 253960], [453712, 970444]],
        [[78886, 917395], [32641, 68830], [252549, 576458]],
        [[1039863, 312573], [410774, 541883], [590108, 712675]],
    ]
    assert public_draws(bytes(16), 7, 2)[1].tolist() == [[[507856, 67595], [473842, 855090]]]


def test_numbers_follow_from_the_seed_and_are_as_many_as_draws():
    for k in (1, 2, 3, 8, 100):
        first, numbers = public_draws(b"a seed", 50, k)
        assert numbers.shape == (k - 1, trials(k), 2)
        assert 0 <= first < 50
        assert ((numbers >= 0) & (numbers < FULL)).all()
    one, same, other = (public_draws(seed, 50, 5) for seed in (b"one", b"one", b"other"))
    assert (one[0], one[1].tolist()) == (same[0], same[1].tolist())
    assert one[1].tolist() != other[1].tolist()
    many = public_draws(b"one", 50, 300)[1]
    assert len(np.unique(many)) > 0.99 * many.size


def test_the_first_row_may_be_any():
    assert {public_draws(bytes([i]), 7, 3)[0] for i in range(100)} == set(range(7))


def test_as_many_candidates_as_scikit_learn_has():
    assert [trials(k) for k in (1, 2, 3, 7, 8, 20, 21, 1000)] == [2, 2, 3, 3, 4, 4, 5, 8]


# -- a draw ----------------------------------------------------------------------------------------------------------


def place(weights, number):
    return sampling._place(np.array(weights), number)


def test_places_by_hand():
    """Weights of a quarter, a half and a quarter."""
    quarter = FULL // 4
    assert [place([1, 2, 1], u) for u in (0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter, FULL - 1)] == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    assert place([5], FULL - 1) == 0
    assert place([1, 2**40], 0) == 0
    assert place([2**40, 1], FULL - 1) == 0  # less than a millionth: never drawn from the end


@pytest.mark.parametrize("bits", [3, 6, 9])
def test_over_all_numbers_a_place_is_drawn_by_its_weight(monkeypatch, bits):
    """To within one number of 2^bits."""
    monkeypatch.setattr(sampling, "DRAW_BITS", bits)
    random = np.random.RandomState(bits)
    for count in (1, 2, 3, 17):
        for weights in (random.randint(1, 9, count), 1 << random.randint(0, 30, count), np.ones(count, np.int64)):
            drawn = np.bincount([place(weights, u) for u in range(1 << bits)], minlength=count)
            exact = [Fraction(int(w) << bits, int(weights.sum())) for w in weights]
            assert all(abs(found - wanted) < 1 for found, wanted in zip(drawn.tolist(), exact, strict=True))


def draws_of(layout):
    """Of rows that count alike."""
    return sampling._Draws(layout, np.ones(layout.rows, np.int64), False)


def test_over_all_pairs_of_numbers_a_row_is_drawn_by_its_distance(monkeypatch):
    """Both levels: a row's share is its group's times its own in the group, each to within one of 2^7 numbers."""
    bits = 7
    monkeypatch.setattr(sampling, "DRAW_BITS", bits)
    nearest = np.random.RandomState(1).randint(0, 50, 21)
    layout = Sampling(21, 8, 6, 0, 0, 0)  # the last group has 5 rows
    draws = draws_of(layout)
    weights = draws.of_groups(nearest)
    drawn = np.zeros(21)
    for u, v in product(range(1 << bits), repeat=2):
        drawn[draws.draw(weights, nearest, u, v)] += 1
    for i in range(21):
        group = range(i // 8 * 8, min(i // 8 * 8 + 8, 21))
        inner = Fraction(int(nearest[i]) + 1, sum(int(nearest[j]) + 1 for j in group))
        outer = Fraction(int(weights[i // 8]), int(weights.sum()))
        assert abs(drawn[i] - inner * outer * 4**bits) < (inner + outer) * 2**bits + 1


def test_where_all_rows_are_alike_every_row_can_be_drawn():
    layout = Sampling.of(Problem(64, 3, (HALF,)))
    drawn = [
        draws_of(layout).draw(np.ones(4, np.int64), np.zeros(64, np.int64), int(u), int(v))
        for u, v in public_draws(b"alike", 64, 2000)[1].reshape(-1, 2)
    ]
    assert set(drawn) == set(range(64))
    assert np.bincount(drawn).max() < 4 * np.bincount(drawn).mean()


# -- the whole -------------------------------------------------------------------------------------------------------


def directly(layout, table, first, numbers):
    """Row by row, in Python's numbers."""
    rows = [[int(v) for v in row] for row in table]
    groups = [range(at, min(at + layout.size, len(rows))) for at in range(0, len(rows), layout.size)]

    def distance(i, j):
        return sum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True))

    def rounded(value, shift):
        return (2 * value + (1 << shift)) >> (shift + 1)

    def weights_of(nearest):
        return [rounded(sum(nearest[i] for i in group), layout.group_shift) + 1 for group in groups]

    def drawn(weights, number):
        total, upto = sum(weights), 0
        for at, weight in enumerate(weights):
            upto += weight
            if Fraction(number, FULL) < Fraction(upto, total):
                return at
        raise AssertionError("a number of 1 or more")

    chosen = [first]
    for pairs in numbers.tolist():
        nearest = [min(distance(i, j) for j in chosen) for i in range(len(rows))]
        found = []
        for u, v in pairs:
            group = groups[drawn(weights_of(nearest), u)]
            row = group[drawn([rounded(nearest[i], layout.row_shift) + 1 for i in group], v)]
            left = sum(weights_of([min(near, distance(i, row)) for i, near in enumerate(nearest)]))
            found.append((left, row))
        chosen.append(min(found, key=lambda one: one[0])[1])
    return chosen


CASES = {
    "one row": (1, 1, HALF),
    "one cluster": (20, 1, HALF),
    "two clusters": (20, 2, HALF),
    "a cluster for every row": (9, 9, HALF),
    "one group": (16, 4, HALF),
    "one group and a row": (17, 4, HALF),
    "whole groups": (96, 4, HALF),
    "the last group is partial": (75, 5, HALF),
    "nothing is dropped": (75, 5, 100),
    "much is dropped": (75, 5, 1 << 26),
    "groups of less than sixteen": (75, 4, 1 << 28),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rows_are_those_of_a_direct_computation(case):
    n, k, half = CASES[case]
    layout = Sampling.of(Problem(n, k, (half, half)))
    for seed in range(8):
        random = np.random.RandomState(seed)
        reach = half if seed % 2 else max(half >> 12, 2)  # ties and distances of 0 abound
        table = random.randint(-reach, reach + 1, (n, 2))
        first, numbers = public_draws(bytes([seed]), n, k)
        assert plus_plus(layout, table, first, numbers) == directly(layout, table, first, numbers)


@pytest.mark.parametrize("n", [1, 16, 40])
def test_where_all_rows_are_alike_the_first_candidate_stays(n):
    layout, table = Sampling.of(Problem(n, n, (9,))), np.full((n, 1), 3)
    first, numbers = public_draws(b"alike", n, n)
    weights, nearest = np.ones(layout.groups, np.int64), np.zeros(n, np.int64)
    expected = [draws_of(layout).draw(weights, nearest, int(u), int(v)) for u, v in numbers[:, 0]]
    assert plus_plus(layout, table, first, numbers) == [first, *expected]


def test_far_groups_of_rows_get_a_centre_each():
    """By a random start, one in eleven would."""
    middles = np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) * 100_000
    table = np.repeat(middles, 30, axis=0) + np.random.RandomState(0).randint(-9, 9, (120, 2))
    layout = Sampling.of(Problem(120, 4, (1 << 17, 1 << 17)))
    for seed in range(50):
        chosen = plus_plus(layout, table, *public_draws(bytes([seed]), 120, 4))
        assert sorted(row // 30 for row in chosen) == [0, 1, 2, 3]


# -- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "half", "size", "groups", "in_last"),
    [(1, 1, 16, 1, 1), (16, 1, 16, 1, 16), (17, 1, 16, 2, 1), (1000, 1, 32, 32, 8), (10**6, 1, 1024, 977, 576)],
)
def test_groups_by_hand(n, half, size, groups, in_last):
    layout = Sampling.of(Problem(n, 2, (half,)))
    assert (layout.size, layout.groups, layout.in_last) == (size, groups, in_last)
    assert (layout.group_shift, layout.row_shift) == (0, 0)


@pytest.mark.parametrize(
    ("n", "half", "expected"),
    [
        (1000, (1 << 16,) * 2, (32, 7, 1)),
        (10**6, (1 << 16,) * 8, (1024, 18, 8)),
        (2**24, (1 << 17,), (4096, 22, 9)),
        (100, (1 << 27,), (8, 24, 20)),
        (100, (1 << 28,), (2, 26, 20)),
        (100, (1 << 29,), (1, 28, 21)),
    ],
)
def test_shifts_do_not_change(n, half, expected):
    """Results depend on them."""
    layout = Sampling.of(Problem(n, 2, half))
    assert (layout.size, layout.group_shift, layout.row_shift) == expected


@st.composite
def problems(draw):
    """As the encoding makes them, by default or as precise as it allows: up to 2^24 rows, wide and narrow columns."""
    rows = draw(st.sampled_from([1, 2, 15, 16, 17, 2**20, 2**24 - 1, 2**24]) | st.integers(1, 2**24))
    k = draw(st.sampled_from([1, 2, 64, 4096]) | st.integers(1, 4096))
    d = draw(st.sampled_from([1, 2, 30, 1000]))
    reach = np.linspace(1, draw(st.floats(1, 20)), d) * 2.0 ** draw(st.integers(-20, 20))
    scaled, names = draw(st.booleans()), [f"x{l}" for l in range(d)]

    def encoded(wanted):
        return make_encoding(names, (-reach).tolist(), reach.tolist(), rows, k, scaled=scaled, wanted=wanted)

    try:
        encoding = encoded(None)
    except InputError:  # columns of too few steps
        reject()
    precise = draw(st.booleans())
    while precise:
        try:
            encoding = encoded(encoding.f + 1)
        except InputError:
            precise = False
    return Problem(rows, k, tuple(int(h) for h in encoding.half))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(problems())
def test_nothing_reaches_a_quarter_of_a_word(problem):
    """All rows as far apart as they can be, the largest numbers: compared values stay below 2^62, sums of a group
    below a quarter of the ring that they live in."""
    layout = Sampling.of(problem)
    assert layout.groups * layout.size >= problem.rows > (layout.groups - 1) * layout.size
    assert 1 <= layout.in_last <= layout.size
    far = 4 * sum(h * h for h in problem.half)
    group = far * layout.size
    assert group < 1 << 62

    def rounded(value, shift):
        return (value + (1 << shift >> 1)) >> shift

    for weight, count in (
        (rounded(group, layout.group_shift) + 1, layout.groups),
        (rounded(far, layout.row_shift) + 1, layout.size),
    ):
        assert weight * count << DRAW_BITS < 1 << 62
    v = distance_width(layout)
    assert group < 1 << (v - 2)
    assert v <= 64


@settings(deadline=None, derandomize=True, max_examples=100)
@given(problems())
def test_no_more_is_dropped_than_must_be(problem):
    """A step of a group's weight is at most a 2^-18th of all; where less than 36 bits hold a distance, none of a row's
    is dropped."""
    layout = Sampling.of(problem)
    most = 4 * sum(h * h for h in problem.half) * layout.size * layout.groups
    assert layout.group_shift == 0 or 1 << layout.group_shift <= most >> (60 - 2 * DRAW_BITS)
    if problem.distance_bits + layout.size.bit_length() + DRAW_BITS <= 61:
        assert layout.row_shift == 0
