"""The whole-number arithmetic of the oracle, against fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocols import Problem
from coterie.protocols.numerics import QUOTIENT_BITS, quotient_means, reciprocal_means, reciprocals, truncated
from tests.protocols.problems import Clusters, clusters

numerics = settings(deadline=None, derandomize=True, max_examples=100)
HALF = Fraction(1, 2)


def rounded(value: Fraction) -> int:
    """To the nearest, halves upwards."""
    return floor(value + HALF)


def cells(case: Clusters):
    """Every cell of the centres: column, sum, count, old centre."""
    for j, count in enumerate(case.counts.tolist()):
        for l in range(case.problem.columns):
            yield l, int(case.sums[j, l]), count, int(case.old[j, l])


# -- by hand -------------------------------------------------------------------------------------------------


def test_truncation_by_hand():
    assert truncated(np.array([5, 6, 7, -5, -6, -7]), 2).tolist() == [1, 2, 2, -1, -1, -2]
    assert truncated(np.array([5, -6]), 0).tolist() == [5, -6]


def test_reciprocals_by_hand():
    """2^4 / 1, / 3 = 5.3, / 32 = 0.5 up, / 33 down; none for an empty cluster."""
    assert reciprocals(np.array([0, 1, 3, 32, 33]), 4).tolist() == [0, 16, 5, 1, 0]


def test_means_by_hand():
    """Steps of 1: 7 / 2 = 3.5 up, -7 / 2 up to -3; the empty cluster keeps its centre."""
    problem = Problem(rows=10, clusters=3, half=(100,))
    sums, counts, old = np.array([[7], [-7], [0]]), np.array([2, 2, 0]), np.array([[1], [2], [-77]])
    assert problem.quotient_steps(QUOTIENT_BITS).tolist() == [1]
    assert quotient_means(problem, sums, counts, old).tolist() == [[4], [-3], [-77]]
    assert reciprocal_means(problem, sums, counts, old).tolist() == [[4], [-3], [-77]]


def test_a_problems_bits_by_hand():
    """Largest squared distance 4 (3^2 + 4^2) = 100; 61 - 3; nothing to shift."""
    problem = Problem(rows=10, clusters=2, half=(3, 4))
    assert (problem.columns, problem.distance_bits, problem.reciprocal_bits, problem.objective_shift) == (2, 7, 58, 0)
    large = Problem(rows=2**20, clusters=2, half=(2**20,))
    assert (large.distance_bits, large.reciprocal_bits, large.objective_shift) == (43, 40, 43 + 21 + 1 - 61)


# -- against fractions ---------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**62), 2**62 - 2**61 - 1), min_size=1), st.integers(0, 62))
@numerics
def test_truncation_is_the_nearest_halves_up(values, g):
    assert truncated(np.array(values), g).tolist() == [rounded(Fraction(v, 1 << g)) for v in values]


@given(st.lists(st.integers(0, 2**40), min_size=1), st.integers(1, 60))
@numerics
def test_reciprocals_are_the_nearest_halves_up(counts, g):
    expected = [rounded(Fraction(1 << g, t)) if t else 0 for t in counts]
    assert reciprocals(np.array(counts), g).tolist() == expected


@given(clusters())
@numerics
def test_quotient_means_are_the_nearest_on_the_grid(case):
    steps = case.problem.quotient_steps(QUOTIENT_BITS).tolist()
    got = quotient_means(case.problem, case.sums, case.counts, case.old).ravel().tolist()
    for mean, (l, total, count, old) in zip(got, cells(case), strict=True):
        if count == 0:
            assert mean == old
            continue
        step, edge = steps[l], steps[l] << (QUOTIENT_BITS - 1)
        assert mean == rounded((Fraction(total, count) + edge) / step) * step - edge
        assert abs(mean - Fraction(total, count)) <= Fraction(step, 2)


@given(clusters())
@numerics
def test_reciprocal_means_are_those_of_rounded_reciprocals(case):
    g = case.problem.reciprocal_bits
    got = reciprocal_means(case.problem, case.sums, case.counts, case.old).ravel().tolist()
    for mean, (_, total, count, old) in zip(got, cells(case), strict=True):
        if count == 0:
            assert mean == old
            continue
        reciprocal = rounded(Fraction(1 << g, count))
        assert mean == rounded(Fraction(total * reciprocal, 1 << g))
        assert abs(mean - Fraction(total, count)) <= 1


@pytest.mark.parametrize("half", [1, 2, 511, 32767, 32768, 65535, 2**20, 2**29 - 1])
def test_quotient_steps_span_the_range_and_no_mean_reaches_the_last_edge(half):
    (step,) = Problem(1, 1, (half,)).quotient_steps(QUOTIENT_BITS).tolist()
    edge = step << (QUOTIENT_BITS - 1)
    assert edge >= half
    assert 2 * (half + edge) + step < step << (QUOTIENT_BITS + 1)
    assert step == 1 or (step - 1) * ((1 << QUOTIENT_BITS) - 1) <= 2 * half
