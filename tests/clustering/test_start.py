"""Fits that start by k-means++: from the rows that it draws in the clear, and equal to the oracle, bit for bit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.data import split
from coterie.protocols.sampling import Sampling, plus_plus, public_draws
from coterie.runtime.oracle import run_oracle
from tests.clustering.comparison import assert_equals_oracle, task_and_table

RANDOM = np.random.RandomState(11)
#: Six far groups of unequal sizes, in no order: several groups of rows to draw from, the last one partial.
MIDDLES = RANDOM.uniform(-9, 9, (6, 5))
X = MIDDLES[RANDOM.choice(6, 150, p=[0.3, 0.3, 0.2, 0.1, 0.06, 0.04])] + RANDOM.normal(0, 0.5, (150, 5))
FIXED: dict[str, Any] = {"n_clusters": 4, "random_state": 3, "bounds": [(-12, 12)] * 5, "max_iter": 4}
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "several starts": {"n_init": 3},
    "shared centres": {"centers": "shared"},
    "revealed counts": {"counts": "revealed"},
    "a least size": {"least_cluster_size": 12, "contribution": "off", "n_init": 2},
    "rounded": {"least_cluster_size": 3, "sizes": "rounded", "contribution": "off"},
    "blocks": {"plan": {"block_rows": 64, "lanes": 0}},
    "lanes": {"plan": {"block_rows": 64, "lanes": 2}, "n_init": 2},
    "scaled": {"scale": "bounds"},
}
QUICK = {
    ("onetime", 2, "vertical", "as it is"), ("onetime", 5, "mixed", "several starts"),
    ("onetime", 3, "horizontal", "shared centres"), ("onetime", 2, "mixed", "revealed counts"),
    ("onetime", 2, "horizontal", "a least size"), ("onetime", 3, "vertical", "rounded"),
    ("onetime", 3, "mixed", "blocks"), ("onetime", 2, "horizontal", "lanes"), ("onetime", 5, "vertical", "scaled"),
    ("securenn", 3, "mixed", "as it is"), ("securenn", 2, "horizontal", "several starts"),
    ("securenn", 2, "vertical", "lanes"), ("securenn", 5, "horizontal", "a least size"),
}  # fmt: skip
CASES = list(product(("onetime", "securenn"), (2, 3, 5), ("horizontal", "vertical", "mixed"), VARIANTS))


def drawn_by(model: SecureKMeans, x: np.ndarray) -> list[list[int]]:
    """What k-means++ draws for each start, in the clear."""
    task, table = task_and_table(model, split(x, model.partition, 2))
    layout = Sampling.of(task.problem)
    return [plus_plus(layout, table, *public_draws(seed, len(x), task.clusters)) for seed in task.seeds]


@pytest.mark.parametrize(
    ("protocol", "parties", "partition", "variant"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_every_way_equals_the_oracle(protocol, parties, partition, variant):
    options = {**FIXED, **VARIANTS[variant], "protocol": protocol, "partition": partition}
    blocks = split(X, partition, parties)
    model = SecureKMeans(**options).fit_parties(blocks)
    if "least_cluster_size" in options:
        expected = run_oracle(*task_and_table(model, blocks))
        assert model.suppressed_.tolist() == expected.suppressed.tolist()
        assert (model.labels_.tolist(), model.inertia_) == (expected.labels.tolist(), expected.inertia)
    else:
        assert_equals_oracle(model, blocks)
    assert not hasattr(model, "init_rows_")


def test_the_quick_cases_are_of_the_matrix():
    assert set(CASES) >= QUICK
    assert {case[3] for case in QUICK} == set(VARIANTS)


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
def test_a_fit_starts_from_the_rows_that_are_drawn_in_the_clear(protocol):
    """Given centres that are these rows lead to the same bits."""
    model = SecureKMeans(**FIXED, protocol=protocol).fit(X)
    (rows,) = drawn_by(model, X)
    given = SecureKMeans(**{**FIXED, "init": X[rows]}, protocol=protocol).fit(X)
    np.testing.assert_array_equal(given.labels_, model.labels_)
    np.testing.assert_array_equal(given.cluster_centers_, model.cluster_centers_)
    assert (given.n_iter_, given.inertia_) == (model.n_iter_, model.inertia_)


@pytest.mark.parametrize("protocol", ["onetime", "securenn"])
@pytest.mark.parametrize("parties", [2, 5])
@pytest.mark.parametrize("restarts", [1, 3])
def test_svk_means_opens_the_rows_that_it_starts_from(protocol, parties, restarts):
    options = {**FIXED, "protocol": protocol, "partition": "vertical", "labels": "revealed", "n_init": restarts}
    blocks = split(X, "vertical", parties)
    model = SecureKMeans(**options).fit_parties(blocks)
    assert_equals_oracle(model, blocks)
    drawn = drawn_by(model, X)
    assert model.init_rows_.tolist() == (drawn if restarts > 1 else drawn[0])
    assert [entry.restart for entry in model.disclosures_ if entry.what == "start rows"] == list(range(restarts))


def test_of_several_starts_the_best_is_opened():
    options = {**FIXED, "n_clusters": 9, "max_iter": 1}
    model = SecureKMeans(**options, n_init=3).fit(X)
    singles = [SecureKMeans(**options, init=X[rows]).fit(X).inertia_ for rows in drawn_by(model, X)]
    assert len(set(singles)) > 1
    assert model.inertia_ == min(singles)


def test_rows_are_drawn_where_random_rows_would_miss_groups():
    """Five fits each."""

    def found(init):
        models = [SecureKMeans(6, init=init, random_state=seed, bounds=[(-12, 12)] * 5).fit(X) for seed in range(5)]
        least = ((X - X.mean(axis=0)) ** 2).sum()
        return np.median([model.inertia_ / least for model in models])

    assert found("k-means++") < 0.5 * found("random")
