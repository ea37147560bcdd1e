"""What follows from how far the data spread, by small cases that once went wrong."""

from __future__ import annotations

import warnings

import numpy as np

from coterie import SecureKMeans

MIDDLES = [(0, 0), (8, 0), (0, 80)]
RANDOM = np.random.RandomState(0)
X = np.concatenate([RANDOM.normal(middle, (1, 10), (30, 2)) for middle in MIDDLES])
BOUNDS = [(-10, 20), (-100, 200)]


def test_scales_are_standard_deviations_whatever_columns_count_for():
    options = {"scale": "standard", "bounds": BOUNDS, "quality": (), "random_state": 0}
    model = SecureKMeans(3, column_weights={"x0": 0.25}, **options).fit(X)
    assert np.allclose(model.scales_, X.std(axis=0), rtol=1e-3)


def test_a_number_is_chosen_without_a_tolerance_and_without_telling_quality():
    """The scatter is needed for the choice alone."""
    options = {"tol": 0, "quality": (), "scale": "bounds", "bounds": BOUNDS, "random_state": 0}
    model = SecureKMeans((2, 3, 4), measures="secret", **options).fit(X)
    assert model.n_clusters_ == 3


def test_one_column_of_a_patchwork_does_not_outweigh_columns_that_a_party_does_not_hold():
    owner = np.full(X.shape, 1)
    owner[60:, 0] = 2
    blocks = [np.where(owner == party, X * [10, 1], np.nan) for party in (1, 2)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SecureKMeans(3, partition="mixed", max_iter=1, random_state=0).fit_parties(blocks)
    assert [str(warning.message) for warning in said] == []
