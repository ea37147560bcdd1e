"""Fixed point: what goes in comes out, what does not fit is refused by name."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import InputError
from coterie.protocols import Problem
from coterie.ring import FixedPoint, fractional_bits, widen

hypothesis = settings(deadline=None, derandomize=True, max_examples=100)
NAMES = ("age", "income", "score")


def fixed(low, high, f: int, scaled: bool = False) -> FixedPoint:
    return FixedPoint(tuple(map(float, low)), tuple(map(float, high)), NAMES[: len(low)], f, scaled)


def bits(low, high, rows: int = 100, clusters: int = 3, scaled: bool = False, wanted: int | None = None) -> int:
    return fractional_bits(low, high, NAMES[: len(low)], rows, clusters, scaled, wanted)


def by_hand() -> FixedPoint:
    """Columns 0..4 and -1..1 at quarters: centred by 2 and 0, at most 8 and 4 quarters away."""
    return fixed([0, -1], [4, 1], f=2)


# -- encoding ------------------------------------------------------------------------------------------------


def test_encoding_by_hand():
    encoded = by_hand().encode([[0, -1], [4, 1], [1, 0.5], [2.1, 0.2]], [0, 1])
    assert encoded.tolist() == [[-8, -4], [8, 4], [-4, 2], [0, 1]]
    assert encoded.dtype == np.int64
    assert by_hand().half.tolist() == [8, 4]
    assert by_hand().decode(encoded).tolist() == [[0, -1], [4, 1], [1, 0.5], [2, 0.25]]


def test_columns_are_picked_by_number():
    assert by_hand().encode([[0.5], [-1]], [1]).tolist() == [[2], [-4]]
    assert by_hand().decode([[2], [-4]], [1]).tolist() == [[0.5], [-1]]
    assert by_hand().encode([[0.5, 0]], [1, 0]).tolist() == [[2, -8]]


def test_a_range_that_is_no_multiple_of_the_step_keeps_its_ends():
    encoding = fixed([0], [1.1], f=1)
    assert encoding.half.tolist() == [2]
    assert np.abs(encoding.encode([[0], [1.1]], [0])).max() <= 2


def test_cells_that_are_not_held_become_zero():
    assert by_hand().encode([[np.nan, 1], [4, np.nan]], [0, 1]).tolist() == [[0, 4], [8, 0]]


def test_scaled_columns_all_reach_equally_far():
    encoding = fixed([0, -1000], [4, 1000], f=3, scaled=True)
    assert encoding.half.tolist() == [8, 8]
    encoded = encoding.encode([[4, -1000], [2, 500]], [0, 1])
    assert encoded.tolist() == [[8, -8], [0, 4]]
    assert encoding.decode(encoded).tolist() == [[4, -1000], [2, 500]]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("value", [0.0, 7.25, -1e9])
def test_a_constant_column_is_kept(scaled, value):
    encoding = fixed([value, 0], [value, 1], f=10, scaled=scaled)
    assert encoding.half[0] == 1
    encoded = encoding.encode([[value, 0.5]], [0, 1])
    assert encoded[0, 0] == 0
    assert encoding.decode(encoded)[0, 0] == value


def test_negative_f_by_hand():
    encoding = fixed([0], [1600], f=-3)
    assert encoding.half.tolist() == [100]
    assert encoding.encode([[0], [800], [807], [1600]], [0]).tolist() == [[-100], [0], [1], [100]]
    assert encoding.decode([[1]]).tolist() == [[808]]


BOUND = st.floats(-1e12, 1e12)


@given(BOUND, BOUND, st.lists(st.floats(0, 1), min_size=1, max_size=10), st.integers(-20, 20), st.booleans())
@hypothesis
def test_round_trip_is_within_half_a_step(one, other, where, f, scaled):
    low, high = min(one, other), max(one, other)
    encoding = fixed([low], [high], f if not scaled else abs(f), scaled)
    rows = np.clip(low + np.array(where) * (high - low), low, high)[:, None]
    encoded = encoding.encode(rows, [0])
    assert (np.abs(encoded) <= encoding.half).all()
    step = 2.0**-encoding.f * encoding.unit[0]
    rounding = 8 * np.finfo(float).eps * max(abs(low), abs(high))
    assert np.abs(encoding.decode(encoded) - rows).max() <= step / 2 + rounding


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinities_are_refused_by_column(bad):
    with pytest.raises(InputError, match=r"^alice: column 'income' holds an infinity"):
        by_hand().encode([[1, 0], [1, bad]], [0, 1], "alice: ")


@pytest.mark.parametrize("bad", [np.nextafter(1, 2), -1.0001, 1e300])
def test_values_out_of_range_are_refused_by_column(bad):
    with pytest.raises(InputError, match=r"column 'income' .*outside.*widen the bounds.*\[-1, 1\]"):
        by_hand().encode([[bad]], [1])


def test_an_error_does_not_show_the_data():
    with pytest.raises(InputError) as caught:
        by_hand().encode([[31337.0, 0]], [0, 1])
    assert "31337" not in str(caught.value)
    assert "'age'" in str(caught.value)


def test_the_ends_of_the_range_are_inside():
    encoding = fixed([-0.1], [0.3], f=16)
    assert np.abs(encoding.encode([[-0.1], [0.3]], [0])).max() <= encoding.half[0]


# -- squares -------------------------------------------------------------------------------------------------


def test_distance_bits_by_hand():
    """The corners are (16, 8) apart: 320 takes nine bits."""
    assert by_hand().distance_bits == 9


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=3), st.integers(0, 16))
@hypothesis
def test_distance_bits_are_those_of_the_problem(highs, f):
    encoding = fixed([0] * len(highs), highs, f)
    assert encoding.distance_bits == Problem(1, 1, tuple(map(int, encoding.half))).distance_bits


def test_squares_come_back_in_data_units():
    assert by_hand().squared(48) == 3.0
    assert by_hand().squared(3, extra_bits=4) == 3.0
    assert fixed([0], [1600], f=-3).squared(2) == 128.0
    assert by_hand().squared(1 << 100) == 2.0**96


# -- ranges --------------------------------------------------------------------------------------------------


def test_widen_by_hand():
    low, high = widen(np.array([0.0, 5.0, 0.0, -300.0]), np.array([4.0, 5.0, 0.0, -300.0]))
    assert low.tolist() == [-2, 2.5, -0.5, -450]
    assert high.tolist() == [6, 7.5, 0.5, -150]


@given(BOUND, BOUND)
@hypothesis
def test_widened_ranges_contain_the_range_and_have_a_width(one, other):
    low, high = np.array([min(one, other)]), np.array([max(one, other)])
    wide_low, wide_high = widen(low, high)
    assert wide_low <= low <= high <= wide_high
    assert wide_low < wide_high


# -- precision -----------------------------------------------------------------------------------------------


def test_precision_by_hand():
    """Half-range 1: 16 bits. Half-range 2^20 and 127 rows: (60 - 40 - 7) // 2 = 6 bits. 2^-4: four bits more."""
    assert bits([-1], [1]) == 16
    assert bits([-(2.0**20)], [2.0**20], rows=127) == 6
    assert bits([-(2.0**-4)], [2.0**-4]) == 20
    assert bits([-(2.0**30)], [2.0**30], rows=127) == -4


def fits(half: list[float], f: int, rows: int, clusters: int) -> bool:
    """Both limits, in exact arithmetic: rows times the widest column, and clusters times a distance."""
    grown = [Fraction(h) * Fraction(2) ** f for h in half]
    b = math.ceil(math.log2(max(half)))
    within_rows = 2 * (b + f) + rows.bit_length() <= 60
    return within_rows and 4 * sum(g * g for g in grown) * 2 ** clusters.bit_length() <= 2**60


RANGE = st.floats(1e-3, 1e7)


@given(st.lists(RANGE, min_size=1, max_size=3), st.integers(1, 10**9), st.integers(1, 1000))
@hypothesis
def test_precision_is_the_most_that_fits(high, rows, clusters):
    half = [h / 2 for h in high]
    try:
        f = bits([0] * len(high), high, rows, clusters)
    except InputError:
        return
    ceiling = 16 - min(math.ceil(math.log2(max(half))), 0)
    assert f <= ceiling
    assert fits(half, f, rows, clusters)
    assert f == ceiling or not fits(half, f + 1, rows, clusters)


@given(st.lists(RANGE, min_size=1, max_size=3), st.integers(1, 10**9), st.integers(1, 1000), st.booleans())
@hypothesis
def test_what_fits_keeps_every_protocol_in_its_range(high, rows, clusters, scaled):
    """Movement and comparisons below 2^62; cluster sums in the division, too."""
    low = [0.0] * len(high)
    try:
        f = bits(low, high, rows, clusters, scaled)
    except InputError:
        return
    encoding = fixed(low, high, f, scaled)
    half = [int(h) for h in encoding.half]
    problem = Problem(rows, clusters, tuple(half))
    movement = clusters * 4 * sum(h * h for h in half)
    assert movement < 2**61
    assert max(problem.quotient_steps(16).tolist()) * rows << 17 < 2**62
    g = problem.reciprocal_bits
    assert max(half) * ((1 << g) + rows) + (1 << g - 1) < 2**62


def test_a_narrow_column_beside_a_huge_one_is_refused_with_a_remedy():
    with pytest.raises(InputError, match=r"column 'age' would be resolved into only \d+ steps.*scale=\"bounds\""):
        bits([0, 0], [1, 1e9])
    assert bits([0, 0], [1, 1e9], scaled=True) == 16


def test_constant_columns_do_not_count_as_narrow():
    assert bits([5, 0, 3], [5, 1e9, 3]) == bits([0], [1e9])
    assert bits([5], [5]) == 16


def test_precision_that_was_asked_for():
    assert bits([-1], [1], wanted=12) == 12
    with pytest.raises(InputError, match=r"column 'age'.*more fractional_bits"):
        bits([-1], [1], wanted=8)


@pytest.mark.parametrize("high", [1.0, 1e6, 1e12])
def test_too_much_precision_is_refused_and_the_limit_named(high):
    with pytest.raises(InputError, match=r"fractional_bits=40 does not fit.*at most -?\d+") as caught:
        bits([0], [high], wanted=40)
    most = int(str(caught.value).rsplit(" ", 1)[1])
    assert bits([0], [high], wanted=most) == most
    with pytest.raises(InputError):
        bits([0], [high], wanted=most + 1)


@pytest.mark.parametrize("rows", [10, 10**6, 10**9])
@pytest.mark.parametrize("clusters", [2, 1000])
def test_more_rows_or_clusters_never_gain_precision(rows, clusters):
    assert bits([0], [1e6], rows=10 * rows) <= bits([0], [1e6], rows=rows)
    assert bits([0], [1e6], clusters=10 * clusters) <= bits([0], [1e6], clusters=clusters)


@pytest.mark.parametrize("reach", [1e-308, 1e-306, 1e-200, 1e200, 1.7e308])
def test_ranges_at_the_ends_of_floating_point_work_or_are_refused_by_name(reach):
    try:
        encoding = fixed([-reach], [reach], bits([-reach], [reach]))
    except InputError as refusal:
        assert "'age'" in str(refusal)
        return
    assert encoding.decode(encoding.encode([[reach], [-reach / 2]], [0])) == pytest.approx(
        np.array([[reach], [-reach / 2]]), rel=1e-3, abs=0
    )
