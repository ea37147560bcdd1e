"""Fits in which rows count for more or less: equal to the oracle bit for bit, and to scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie import SecureKMeans
from coterie.clustering import Layout, make_task, to_whole_weights
from coterie.clustering.weighing import MOST_MASS, exact_sum
from coterie.data.blocks import gather, split
from coterie.errors import InputError
from coterie.parameters import name_parties, prepare_fit
from coterie.ring import FixedPoint
from coterie.row_weights import split_weights
from coterie.runtime.oracle import run_oracle

RANDOM = np.random.RandomState(4)
X = np.concatenate([RANDOM.normal(centre, 1.0, (30, 3)) for centre in ((0, 0, 0), (7, 7, 0), (0, 7, 7))])
X = X[RANDOM.permutation(len(X))]
W = RANDOM.randint(1, 6, len(X)).astype(float)
START = X[[3, 40, 77]]
WAYS = {
    "as it is": {},
    "shared": {"centers": "shared"},
    "standard": {"scale": "standard"},
    "standard, shared": {"scale": "standard", "centers": "shared"},
    "drawn": {"init": "k-means++", "random_state": 3},
    "drawn twice, standard": {"init": "k-means++", "random_state": 3, "n_init": 2, "scale": "standard"},
    "rules": {"least_cluster_size": 3},
    "rules, shared": {"least_cluster_size": 3, "centers": "shared"},
}
CASES = [
    pytest.param(protocol, p, partition, way, marks=() if (protocol, p) == ("onetime", 2) else pytest.mark.slow)
    for protocol in ("onetime", "securenn")
    for p in (2, 3)
    for partition in ("horizontal", "vertical", "mixed")
    for way in WAYS
]


def model_of(way="as it is", **options):
    return SecureKMeans(3, **{"init": START, "scale": None, **WAYS[way], **options})


@pytest.mark.parametrize(("protocol", "p", "partition", "way"), CASES)
def test_equals_the_oracle(protocol, p, partition, way):
    model = model_of(way, protocol=protocol, n_parties=p, partition=partition)
    model.fit(X, sample_weight=W)
    table = gather(split(X, partition, p), partition, name_parties(p))
    prepared = prepare_fit(model, table, row_weights=split_weights(W, table.layout.rows or [len(X)] * p, partition))
    task = prepared.task
    expected = run_oracle(task, table.whole(lambda j: prepared.blocks[j]), W.astype(np.int64))
    if model.centers == "revealed":
        np.testing.assert_array_equal(model._whole_centers, expected.centers)
    np.testing.assert_array_equal(model.labels_, expected.labels)
    assert model.n_iter_ == expected.n_iter
    np.testing.assert_array_equal(model.inertia_, np.nan if expected.inertia is None else expected.inertia)


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
@pytest.mark.parametrize("weights", [W, W / 7, W**3 + 0.25], ids=["whole", "parts", "wide"])
def test_as_scikit_learn(partition, weights):
    model = model_of(partition=partition, n_parties=3).fit(X, sample_weight=weights)
    expected = KMeans(3, init=START, n_init=1).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, atol=1e-3)
    np.testing.assert_allclose(model.inertia_, expected.inertia_, rtol=1e-3)
    assert np.isnan(model.silhouette_)
    assert "largest weight" in {entry.what for entry in model.disclosures_}


def test_a_row_that_weighs_twice_is_there_twice():
    twice = np.arange(len(X)) % 3 == 0
    repeated = model_of().fit(np.concatenate([X, X[twice]]))
    weighed = model_of(bounds=repeated.bounds_).fit(X, sample_weight=1.0 + twice)
    np.testing.assert_allclose(weighed.cluster_centers_, repeated.cluster_centers_, atol=1e-4)
    np.testing.assert_allclose(weighed.inertia_, repeated.inertia_, rtol=1e-4)


def test_rows_of_no_weight_are_not_there():
    none = np.arange(len(X)) % 4 == 0
    without = model_of(bounds=[(-9, 18)] * 3).fit(X[~none])
    weighed = model_of(bounds=[(-9, 18)] * 3).fit(X, sample_weight=np.where(none, 0.0, 2.0))
    np.testing.assert_allclose(weighed.cluster_centers_, without.cluster_centers_, atol=1e-3)


def test_equal_weights_are_none():
    alike, none = model_of().fit(X, sample_weight=np.full(len(X), 2.5)), model_of().fit(X)
    np.testing.assert_array_equal(alike._whole_centers, none._whole_centers)
    assert [entry.what for entry in alike.disclosures_] == [entry.what for entry in none.disclosures_]


def test_light_rows_do_not_hide_a_heavy_one():
    """The attack: a dozen rows that weigh next to nothing around somebody's single one, to have its centre opened."""
    crowd = np.concatenate([RANDOM.normal(0, 0.1, (40, 2)), RANDOM.normal(9, 0.1, (13, 2))])
    weights = np.full(len(crowd), 100.0)
    weights[40:52] = 1.0
    start = np.array([[0.0, 0.0], [9.0, 9.0]])
    options = {"init": start, "least_cluster_size": 5, "contribution": "off", "scale": None}
    assert SecureKMeans(2, **options).fit(crowd).suppressed_.tolist() == [False, False]
    assert SecureKMeans(2, **options).fit(crowd, sample_weight=weights).suppressed_.tolist() == [False, True]


@pytest.mark.parametrize(
    ("weights", "options", "said"),
    [
        (W[:-1], {}, r"shape \(89,\); one for each row is \(90,\)"),
        (np.where(W > 4, np.nan, W), {}, "finite numbers of at least 0"),
        (-W, {}, "finite numbers of at least 0"),
        (0 * W, {}, "all weights in sample_weight are zero"),
        (np.where(W > 4, 0, W), {"least_cluster_size": 2}, "above 0 where a least cluster size holds"),
        (W, {"counts": "revealed"}, "cannot go with counts='revealed'"),
        (W, {"partition": "vertical", "labels": "revealed"}, "cannot go with labels='revealed'"),
        (W, {"least_cluster_size": 2, "sizes": "rounded"}, "cannot go with sizes='rounded'"),
    ],
)
def test_what_is_refused(weights, options, said):
    with pytest.raises(InputError, match=said):
        model_of(**options).fit(X, sample_weight=weights)


def test_no_choice_of_k():
    with pytest.raises(InputError, match="several numbers of clusters"):
        SecureKMeans(range(2, 4)).fit(X, sample_weight=W)


def test_parties_bring_their_own():
    blocks, parts = np.array_split(X, 2), np.array_split(W, 2)
    whole = model_of().fit(X, sample_weight=W)
    brought = model_of(bounds=whole.bounds_).fit_parties(blocks, sample_weight=parts)
    np.testing.assert_array_equal(brought._whole_centers, whole._whole_centers)
    columns = [X[:, :2], X[:, 2:]]
    by_second = model_of(partition="vertical", bounds=whole.bounds_).fit_parties(columns, sample_weight=[None, W])
    np.testing.assert_array_equal(by_second._whole_centers, whole._whole_centers)
    with pytest.raises(InputError, match="P2: sample_weight must be an array of 45 numbers"):
        model_of().fit_parties(blocks, sample_weight=[parts[0], parts[1][:3]])
    with pytest.raises(InputError, match="one party gives the weights and the others None"):
        model_of(partition="vertical").fit_parties(columns, sample_weight=[W, W])
    with pytest.raises(InputError, match="for each block"):
        model_of().fit_parties(blocks, sample_weight=[W])


def test_whole_weights():
    whole, unit = to_whole_weights(np.array([1.0, 3.0, 0.0]), 3)
    assert (whole.tolist(), unit) == ([1, 3, 0], 1.0)
    whole, unit = to_whole_weights(np.array([1e-9, 0.3, 0.1, 0.0]), 1000)
    assert whole.tolist() == [1, (MOST_MASS - 1) // 1000, round((MOST_MASS - 1) // 1000 / 3), 0]
    assert unit * whole[1] == pytest.approx(0.3)
    assert 1000 * whole.max() < MOST_MASS


def test_too_much_mass():
    layout = Layout("horizontal", 1 << 20, 1, rows=(1 << 19, 1 << 19))
    with pytest.raises(InputError, match="less than 16777216 is possible"):
        make_task("onetime", 2, layout, FixedPoint((0.0,), (1.0,), ("x",), 8), most_weight=20, quality=("inertia",))


def test_exact_sums():
    squares = np.array([[(1 << 62) + 1, 3], [(1 << 62) - 1, 5]])
    assert exact_sum(squares) == sum(map(int, squares.ravel()))
    assert exact_sum(squares, np.array([7, 9])) == sum(
        int(v) * w for row, w in zip(squares, (7, 9), strict=True) for v in row
    )
