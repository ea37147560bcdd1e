"""What a party computes in the clear in SVK-means, and the public parts of a task, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from coterie.clustering import Layout, Task, distinct_rows
from coterie.clustering.vertical import local_distances, local_means
from coterie.protocols.metric import Metric
from coterie.protocols.scaling import relative_tolerance
from coterie.ring import FixedPoint

OWN = np.array([[0, 0], [3, 4], [-1, 2]])
CENTERS = np.array([[0, 0], [3, 0], [-5, 5]])


def test_squared_distances_by_hand():
    np.testing.assert_array_equal(local_distances(OWN, CENTERS), [[0, 9, 50], [25, 16, 65], [5, 20, 25]])


def test_squared_distances_of_the_largest_numbers_are_exact():
    far = 1 << 29
    assert local_distances(np.array([[far]]), np.array([[-far]])).tolist() == [[1 << 60]]


def test_means_by_hand():
    """The sums are (-1, 2) and (3, 4); the third cluster is empty."""
    labels = np.array([0, 1, 0])
    np.testing.assert_array_equal(local_means(OWN, labels, CENTERS), [[0, 1], [3, 4], [-5, 5]])


@pytest.mark.parametrize(
    ("rows", "mean"),
    [([1, 2], 2), ([-1, -2], -1), ([0, 0, 1], 0), ([0, 1, 1], 1), ([0, 0, -1], 0), ([0, -1, -1], -1), ([-7], -7)],
)
def test_means_are_rounded_to_the_nearest_and_halves_upwards(rows, mean):
    labels = np.zeros(len(rows), np.int64)
    assert local_means(np.array(rows)[:, None], labels, np.array([[100]])).tolist() == [[mean]]


def test_distinct_rows_are_distinct_and_follow_the_random_state():
    rows = distinct_rows(np.random.RandomState(4), 6, 6)
    assert sorted(rows) == list(range(6))
    assert rows == distinct_rows(np.random.RandomState(4), 6, 6)
    assert all(isinstance(row, int) for row in rows)


@pytest.mark.parametrize(
    ("tol", "m", "threshold"), [(0, 12, 0), (1, 3, 16), (0.3, 1, 1), (1e-9, 12, 0), (1e30, 12, 2**61 - 1)]
)
def test_the_tolerance_where_columns_are_standardised(tol, m, threshold):
    """Two rows of half 1: the largest scatter, 4, has 3 bits, so weights are 2^(m + 2) over the scatter and squared
    movement is 2^(m + 2) / 2 times that of standardised rows; what exceeds a word is cut."""
    layout, encoding = Layout("horizontal", 2, 1, rows=(1, 1)), FixedPoint((-1.0,), (1.0,), ("x0",), 0)
    task = Task("", 1, layout, encoding, tol=tol, metric=Metric(mantissa=m))
    assert task.threshold == threshold


@pytest.mark.parametrize(
    ("tol", "rows", "half", "scatter"),
    [(0, 5, (3,), 100), (1e-4, 1000, (1 << 16,) * 3, 10**12), (1, 2, (1,), 2), (1e-9, 50, (1 << 20,), 10**10)],
)
def test_the_tolerance_where_they_are_not(tol, rows, half, scatter):
    """The part tol of the columns' mean variance, by a factor of 24 bits: to within 2^-22 of it, and a step."""
    shift, factor, g = relative_tolerance(rows, half, tol)
    found = round(round(scatter / (1 << shift)) * factor / (1 << g))
    exact = tol * scatter / rows / len(half)
    assert abs(found - exact) <= exact * 2**-22 + 1
    assert factor <= 1 << 24
