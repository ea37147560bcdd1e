"""What is public about weights of columns: tables and widths by hand, and bounds over all that encodings allow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocols import Problem
from coterie.protocols.metric import FACTOR_BITS, MANTISSA, Metric, mantissas, standard_precision
from coterie.protocols.sampling import DRAW_BITS, Sampling
from coterie.protocols.scaling import relative_tolerance
from tests.protocols.scales import nearest, scatter_of, weight_of
from tests.protocols.tiny import numbers

LARGEST = (30, 10**6, 8)


# -- the table -------------------------------------------------------------------------------------------------------


def test_mantissas_by_hand():
    assert mantissas(2).tolist() == [4, 4, 4, 4, 4, 3, 2, 2]  # 16 / 4.5 = 3.6, 16 / 5.5 = 2.9, 2.46, 2.13
    assert mantissas(MANTISSA)[[0, 4095, 4096, 4097, 8191]].tolist() == [4096, 4096, 4096, 4095, 2048]


@pytest.mark.parametrize("bits", [1, 2, 3, 8, 12])
def test_every_mantissa_is_the_inverse_to_the_nearest(bits):
    table = mantissas(bits)
    assert len(table) == 2 << bits
    expected = [
        1 << bits if v < 1 << bits else nearest(Fraction(1 << 2 * bits) / (v + Fraction(1, 2)))
        for v in range(2 << bits)
    ]
    assert table.tolist() == expected
    assert max(expected) < 1 << (bits + 1)


# -- precision -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "rows", "clusters", "inside", "expected"),
    [
        (2, 1, 1, True, (16, 24)),
        (4, 150, 3, True, (16, 24)),
        (30, 569, 2, True, (16, 24)),
        (*LARGEST, True, (13, 12)),
        (*LARGEST, False, (13, 12)),
        (30, 10**7, 8, True, (13, 12)),
        (64, 1797, 10, False, (12, 12)),
    ],
)
def test_precision_does_not_change(columns, rows, clusters, inside, expected):
    """Results depend on it. At the limits it is what the specification says: f = 13."""
    f, metric = standard_precision(columns, rows, clusters, inside)
    assert (f, metric.octaves) == expected
    assert (metric.mantissa, metric.inside) == (MANTISSA, inside)


def test_the_width_at_the_limits():
    f, metric = standard_precision(*LARGEST, True)
    problem = Problem(10**6, 8, (1 << f,) * 30, metric=metric)
    assert metric.top(problem.rows, 1 << f) == 46
    assert metric.scale(problem.rows, 1 << f) == 57
    assert problem.distance_bits + (8).bit_length() <= 61


PRECISIONS = st.tuples(
    st.sampled_from([1, 2, 30, 64, 500]) | st.integers(1, 200),
    st.sampled_from([1, 2, 3, 10**6, 2**20, 2**24]) | st.integers(1, 2**24),
    st.sampled_from([1, 2, 8, 64]) | st.integers(1, 300),
    st.booleans(),
)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(PRECISIONS)
def test_it_fits_and_one_bit_more_would_not(wanted):
    columns, rows, clusters, inside = wanted
    f, metric = standard_precision(columns, rows, clusters, inside)
    problem = Problem(rows, clusters, (1 << f,) * columns, metric=metric)
    assert problem.distance_bits + clusters.bit_length() <= 61 or f == 0
    assert metric.top(rows, 1 << f) <= 61  # a scatter times its power of two has so many bits
    if f < min(16, (60 - rows.bit_length()) // 2):
        finer = (1 << (f + 1),) * columns
        assert metric.distance_bits(rows, finer) + clusters.bit_length() > 61
    assert metric.octaves == 12 or f >= 13
    assert inside or metric.octaves == 12


@settings(deadline=None, derandomize=True, max_examples=300)
@given(PRECISIONS)
def test_nothing_of_a_weighted_start_or_silhouette_reaches_a_quarter_of_a_word(wanted):
    columns, rows, clusters, inside = wanted
    f, metric = standard_precision(columns, rows, clusters, inside)
    if f < 9:  # refused
        return
    problem = Problem(rows, clusters, (1 << f,) * columns, metric=metric)
    layout = Sampling.of(problem)
    assert layout.bits + layout.weight_shift == problem.distance_bits
    assert layout.weight_shift <= MANTISSA - 3
    far = (1 << layout.bits) - 1
    group = far * layout.size
    assert group < 1 << 62
    for most, shift, count in ((group, layout.group_shift, layout.groups), (far, layout.row_shift, layout.size)):
        assert ((most + (1 << shift >> 1) >> shift) + 1) * count << DRAW_BITS < 1 << 62
    if clusters > 1:
        assert far + (2 << layout.bits + 1) < 1 << 62  # a centre that is a row's own, and a copy


# -- weights, in the clear -------------------------------------------------------------------------------------------


@st.composite
def columns_of_scatter(draw):
    """Rows and encodings as they come, and a scatter that a column can have."""
    rows = draw(st.sampled_from([1, 2, 3, 150, 10**6]) | st.integers(1, 10**6))
    f, metric = standard_precision(draw(st.integers(1, 30)), rows, draw(st.integers(1, 8)), draw(st.booleans()))
    most = rows << 2 * f
    edges = [1 << b for b in range(most.bit_length())]
    return rows, 1 << f, metric, draw(numbers(0, most, *edges, *(e - 1 for e in edges)))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(columns_of_scatter())
def test_a_weight_is_the_inverse_of_the_scatter_to_eleven_bits(drawn):
    rows, half, metric, scatter = drawn
    weight, capped = weight_of(scatter, rows, half, metric)
    if scatter == 0:
        assert (weight, capped) == (0, 0)
        return
    exact = Fraction(1 << metric.scale(rows, half), scatter)
    if capped:
        assert weight == 1 << (metric.mantissa + metric.octaves) < exact
    else:
        assert abs(weight / exact - 1) < Fraction(3, 2 << MANTISSA)  # half a step of the smallest mantissa, and of V


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.data())
def test_between_rows_no_weighted_distance_exceeds_its_bits(data):
    """All columns as bad as they come: two rows far from each other, and the others between them or all on one."""
    rows = data.draw(st.sampled_from([2, 3, 5, 40]))
    columns = data.draw(st.sampled_from([1, 2, 30]))
    f, metric = standard_precision(columns, rows, data.draw(st.integers(1, 8)), True)
    half, reciprocal = 1 << f, 61 - (1 << f).bit_length()
    low, high = (data.draw(numbers(-half, half, 0, 1)) for _ in range(2))
    others = data.draw(st.sampled_from([low, high, (low + high) // 2]))
    scatter = scatter_of([low, high, *[others] * (rows - 2)], reciprocal)
    weight, _ = weight_of(scatter, rows, half, metric)
    assert (columns * weight * (high - low) ** 2).bit_length() <= metric.distance_bits(rows, (half,) * columns)


@pytest.mark.parametrize("inside", [True, False])
def test_anywhere_in_range_no_weighted_distance_exceeds_its_bits(inside):
    """Where rows and centres may lie anywhere, not only between the rows that weights are made of."""
    f, metric = standard_precision(30, 10**6, 8, inside)
    half = 1 << f
    largest = max(weight_of(w, 10**6, half, metric)[0] for w in (0, 1, 2, 100, 10**6 << 2 * f))
    assert largest == 1 << (metric.mantissa + metric.octaves)
    outside = Metric(octaves=metric.octaves, inside=False)
    assert (30 * largest * (2 * half) ** 2).bit_length() <= outside.distance_bits(10**6, (half,) * 30)


# -- factors and tolerances ------------------------------------------------------------------------------------------


def test_the_mean_of_factors():
    assert Metric().mean_factor == 1
    assert Metric(factors=(1 << FACTOR_BITS, 1 << 11)).mean_factor == 0.75


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    st.sampled_from([1, 2, 150, 10**6, 2**24]),
    st.lists(numbers(1, 1 << 16, 1 << 16), min_size=1, max_size=30),
    st.sampled_from([0.0, 1e-12, 1e-4, 1e-3, 0.5, 1.0, 1e3, 1e6]),
)
def test_the_tolerance_is_a_part_of_the_mean_variance_and_fits(rows, half, tol):
    shift, factor, g = relative_tolerance(rows, tuple(half), tol)
    exact = Fraction(tol) / (rows * len(half))
    most = rows * sum(h * h for h in half) + 3 * rows * len(half)
    assert (most >> shift) * factor + (1 << g >> 1) < 1 << 62
    assert 0 <= g <= 60
    assert 0 <= factor <= 1 << 24
    if 1e-12 < tol < 1:
        assert abs(Fraction(factor, 1 << g) / (1 << shift) / exact - 1) < Fraction(1, 1 << 20)
    if tol == 0:
        assert factor == 0


def test_a_tolerance_by_hand():
    """Ten rows, one column of -4..4: nothing is shifted away first."""
    shift, factor, g = relative_tolerance(10, (4,), 0.5)
    assert shift == 0
    assert factor / 2**g == pytest.approx(0.05, rel=1e-6)
    assert np.log2(factor) > 23
