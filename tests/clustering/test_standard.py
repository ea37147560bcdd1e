"""Fits with `scale="standard"`: equal to the oracle, bit for bit, and to scikit-learn's on standardised columns."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from coterie import SecureKMeans
from coterie.clustering.nearest import nearest_open
from coterie.data import split
from coterie.protocols.plaintext import whole
from coterie.runtime.oracle import run_oracle
from tests.clustering.comparison import added_up, assert_equals_oracle, task_and_table

RANDOM = np.random.RandomState(5)
#: Five far groups of unequal sizes, in columns of very different spread.
MIDDLES = RANDOM.uniform(-9, 9, (5, 5))
UNITS = np.array([1.0, 30.0, 0.02, 1000.0, 4.0])
GROUPS = RANDOM.choice(5, 120, p=[0.3, 0.3, 0.2, 0.1, 0.1])
X = (MIDDLES[GROUPS] + RANDOM.normal(0, 0.8, (120, 5))) * UNITS
NEW = (MIDDLES[RANDOM.choice(5, 30)] + RANDOM.normal(0, 3, (30, 5))) * UNITS
GIVEN = [int(np.flatnonzero(group == GROUPS)[0]) for group in range(4)]
BOUNDS = np.array([-24, 24]) * UNITS[:, None]
FIXED: dict[str, Any] = {"n_clusters": 4, "random_state": 3, "bounds": BOUNDS, "max_iter": 4, "scale": "standard"}
#: Of these, restarts compare objectives, given centres leave the data's hull, and the last two open less.
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "random rows": {"init": "random"},
    "given centres": {"init": 1.3 * X[GIVEN]},
    "several starts": {"n_init": 3},
    "several random starts": {"init": "random", "n_init": 2, "max_iter": 2},
    "weighted columns": {"column_weights": {"x0": 4, "x3": 0.5, "x4": 2}},
    "revealed counts": {"counts": "revealed"},
    "lanes": {"plan": {"block_rows": 32, "lanes": 2}},
    "no tolerance": {"tol": 0, "max_iter": 20},
    "secret scales": {"scales": "secret", "n_init": 2},
    "shared centres": {"centers": "shared", "n_init": 2},
    "a least size": {"least_cluster_size": 15, "contribution": "off", "n_init": 2},
    "rounded": {"least_cluster_size": 3, "sizes": "rounded", "contribution": "off", "resolution": {"x0": 1, "x3": 50}},
}
QUICK = {
    ("onetime", 2, "horizontal", "as it is"), ("onetime", 3, "mixed", "random rows"),
    ("onetime", 2, "mixed", "given centres"), ("onetime", 3, "horizontal", "several starts"),
    ("onetime", 5, "mixed", "several random starts"), ("onetime", 2, "horizontal", "weighted columns"),
    ("onetime", 3, "vertical", "weighted columns"), ("onetime", 5, "horizontal", "revealed counts"),
    ("onetime", 2, "horizontal", "lanes"), ("onetime", 3, "mixed", "no tolerance"),
    ("onetime", 2, "horizontal", "secret scales"), ("onetime", 3, "mixed", "shared centres"),
    ("onetime", 2, "mixed", "a least size"), ("onetime", 3, "horizontal", "rounded"),
    ("onetime", 5, "vertical", "as it is"), ("onetime", 2, "vertical", "shared centres"),
    ("securenn", 3, "horizontal", "as it is"), ("securenn", 2, "mixed", "weighted columns"),
    ("securenn", 2, "vertical", "several starts"),
}  # fmt: skip
CASES = [
    case
    for case in product(("onetime", "securenn"), (2, 3, 5), ("horizontal", "vertical", "mixed"), VARIANTS)
    if case[2:] != ("vertical", "rounded")  # where labels give away sizes, nothing is rounded
]


def assert_equal(model: SecureKMeans, blocks: list[np.ndarray]) -> None:
    """Also the scales, which columns are capped, and what is told of the quality."""
    if model.least_cluster_size > 1:
        expected = run_oracle(*task_and_table(model, blocks))
        assert model.suppressed_.tolist() == expected.suppressed.tolist()
        assert (model.labels_.tolist(), model.inertia_) == (expected.labels.tolist(), expected.inertia)
        opened = ~expected.suppressed
        np.testing.assert_array_equal(model._whole_centers[opened], expected.centers[opened])
    else:
        expected = assert_equals_oracle(model, blocks)
    assert hasattr(model, "capped_") == (expected.capped is not None) == (model.partition != "vertical")
    if model.partition != "vertical":
        np.testing.assert_array_equal(model.capped_, expected.capped)
        np.testing.assert_array_equal(added_up(model, "weights"), whole(expected.kept["weights"]))
    assert (model._weights is None) == (expected.scales is None)
    if expected.scales is not None:
        np.testing.assert_array_equal(model._weights, expected.scales)
    opened = model.n_clusters_ - int(model._closed.sum())
    expected_ch = expected.calinski_harabasz(len(model.labels_), opened)
    assert (model.silhouette_, model.calinski_harabasz_) == (expected.silhouette, expected_ch)


@pytest.mark.parametrize(
    ("protocol", "parties", "partition", "variant"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_every_way_equals_the_oracle(protocol, parties, partition, variant):
    options = {**FIXED, **VARIANTS[variant], "protocol": protocol, "partition": partition}
    blocks = split(X, partition, parties)
    assert_equal(SecureKMeans(**options).fit_parties(blocks), blocks)


def test_the_quick_cases_are_of_the_matrix():
    assert set(CASES) >= QUICK
    assert {case[3] for case in QUICK} == set(VARIANTS)


@pytest.mark.parametrize("protocol", ["onetime", pytest.param("securenn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_svk_means_equals_the_oracle(protocol, init):
    blocks = split(X, "vertical", 3)
    options = {**FIXED, "partition": "vertical", "labels": "revealed", "protocol": protocol, "init": init, "n_init": 2}
    assert_equal(SecureKMeans(**options).fit_parties(blocks), blocks)


def test_the_partition_changes_nothing_where_columns_are_not_split():
    one, other = (SecureKMeans(**FIXED, partition=p, scales="secret").fit(X) for p in ("horizontal", "mixed"))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    assert one.inertia_ == other.inertia_


# -- what it means: standard deviations ------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return SecureKMeans(**FIXED).fit(X)


def test_the_scales_are_the_columns_standard_deviations(model):
    np.testing.assert_allclose(model.scales_, X.std(axis=0), rtol=2e-3)
    assert not model.capped_.any()


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_centres_are_in_data_units_and_distances_are_not(partition):
    model = SecureKMeans(**{**FIXED, "max_iter": 50}, partition=partition).fit(X)
    means = np.stack([X[model.labels_ == j].mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(model.cluster_centers_, means, atol=0.01 * UNITS.max(), rtol=0.01)
    scaler = StandardScaler().fit(X)
    differences = scaler.transform(NEW)[:, None] - scaler.transform(model.cluster_centers_)
    np.testing.assert_allclose(model.transform(NEW), np.sqrt((differences**2).sum(axis=2)), rtol=2e-3)
    assert model.score(X) == pytest.approx(-model.inertia_, rel=1e-3)


def test_weights_of_columns_count_on_top_and_relative_to_the_largest():
    options = {**FIXED, "init": "random", "max_iter": 50}
    weights = np.array([4, 1, 2, 1, 0.5])
    weighted = StandardScaler().fit_transform(X) * np.sqrt(weights / 4)
    for partition in ("horizontal", "vertical", "mixed"):
        model = SecureKMeans(
            **options, partition=partition, column_weights={f"x{l}": w for l, w in enumerate(weights)}
        ).fit(X)
        theirs = KMeans(4, init=weighted[model.init_rows_]).fit(weighted)
        np.testing.assert_array_equal(model.labels_, theirs.labels_)
        assert model.inertia_ == pytest.approx(theirs.inertia_, rel=2e-3)


@pytest.mark.parametrize("scale", [None, "bounds"])
def test_weights_of_columns_that_are_not_standardised(scale):
    weights = np.array([1, 2, 4, 1, 0.5])
    x = X / UNITS
    model = SecureKMeans(
        4, init="random", random_state=0, scale=scale, column_weights={f"x{l}": w for l, w in enumerate(weights)}
    ).fit(x)
    unit = np.ptp(model.bounds_, axis=1) / 2 if scale else 1.0
    weighted = x / unit * np.sqrt(weights / 4)
    theirs = KMeans(4, init=weighted[model.init_rows_]).fit(weighted)
    np.testing.assert_array_equal(model.labels_, theirs.labels_)
    assert model.inertia_ == pytest.approx(theirs.inertia_, rel=2e-3)
    blocks = split(x, "horizontal", 2)
    assert_equals_oracle(model, blocks)


# -- prediction ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"scales": "secret"}, {"centers": "shared"}, {"least_cluster_size": 15, "contribution": "off"}]
)
@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
@pytest.mark.parametrize("protocol", ["onetime", pytest.param("securenn", marks=pytest.mark.slow)])
def test_predictions_agree_with_the_fit(protocol, partition, options):
    model = SecureKMeans(**FIXED, **options, protocol=protocol, partition=partition).fit(X)
    np.testing.assert_array_equal(model.predict_parties(split(X, partition, 2)), model.labels_)
    known = "centers" not in options and ("scales" not in options or partition == "vertical")
    if known:
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        expected = model.predict(NEW)
    else:
        rows = model._encoding.encode(NEW, range(5), "")
        weights = None if partition == "vertical" else added_up(model, "weights")[0]
        expected = nearest_open(rows, added_up(model, "centers"), model._closed, weights)
    np.testing.assert_array_equal(model.predict_parties(split(NEW, partition, 2)), expected)


def test_new_rows_outside_of_the_bounds_are_predicted_where_the_scales_are_known(model):
    far = NEW * 50
    expected = (((far[:, None] - model.cluster_centers_) / model.scales_) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(far), expected)


@pytest.mark.parametrize("options", [{"scales": "secret"}, {"centers": "shared"}])
def test_where_scales_or_centres_are_not_known_prediction_is_joint(options):
    model = SecureKMeans(**{**FIXED, "max_iter": 1}, **options).fit(X)
    assert not hasattr(model, "scales_")
    with pytest.raises(ValueError, match=rf"{next(iter(options))}=.*use predict_parties"):
        model.predict(NEW)


# -- when to stop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [None, "bounds", "standard"])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_the_tolerance_is_relative_to_the_data(scale, partition):
    """Small columns do not stop after one iteration, nor do large ones go on."""
    x = X / UNITS
    found = [
        SecureKMeans(5, init=unit * x[:5], scale=scale, partition=partition, tol=1e-3).fit(unit * x)
        for unit in (2.0**-20, 1.0, 2.0**20)
    ]
    assert {model.n_iter_ for model in found} == {found[1].n_iter_}
    assert found[1].n_iter_ > 2
    for model in found:
        np.testing.assert_array_equal(model.labels_, found[1].labels_)


@pytest.mark.parametrize("tol", [0, 1e-4, 0.01, 0.1])
def test_a_fit_stops_when_scikit_learn_s_does(tol):
    x = X / UNITS
    plain = SecureKMeans(5, init=x[:5], tol=tol).fit(x)
    assert plain.n_iter_ == KMeans(5, init=x[:5], tol=tol).fit(x).n_iter_
    z = StandardScaler().fit_transform(X)
    standard = SecureKMeans(5, init=X[:5], tol=tol, scale="standard").fit(X)
    assert standard.n_iter_ == KMeans(5, init=z[:5], tol=tol).fit(z).n_iter_


# -- columns that hardly vary, and rows far away ---------------------------------------------------------


@pytest.mark.parametrize("partition", ["horizontal", "vertical", "mixed"])
def test_a_column_that_does_not_vary_counts_for_nothing(partition):
    x = np.column_stack([X[:, :2], np.full(len(X), 7.0), X[:, 2:]])
    bounds = np.insert(BOUNDS, 2, (0, 9), axis=0)
    blocks = split(x, partition, 2)
    model = SecureKMeans(**{**FIXED, "bounds": bounds}, partition=partition).fit_parties(blocks)
    assert_equal(model, blocks)
    np.testing.assert_allclose(model.cluster_centers_[:, 2], 7.0, atol=1e-3)
    if partition != "vertical":
        assert model.scales_[2] == 0
        assert not model.capped_.any()
    others = KMeans(4, init=StandardScaler().fit_transform(X)[:4])
    again = SecureKMeans(4, init=x[:4], bounds=bounds, scale="standard", partition=partition).fit(x)
    np.testing.assert_array_equal(again.labels_, others.fit(StandardScaler().fit_transform(X)).labels_)


@pytest.mark.parametrize("partition", ["horizontal", "mixed"])
def test_nothing_but_columns_that_do_not_vary(partition):
    x = np.full((12, 3), -2.25)
    blocks = split(x, partition, 2)
    with pytest.warns(match="distinct clusters"):
        model = SecureKMeans(2, scale="standard", partition=partition, random_state=0).fit_parties(blocks)
    assert model.inertia_ == 0
    assert (model.labels_ == 0).all()
    np.testing.assert_array_equal(model.scales_, 0)


@pytest.mark.parametrize("partition", ["horizontal", "mixed"])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_a_row_at_a_bound(partition, init):
    """Far beyond all others: the column's variance is nearly all its own."""
    x = X.copy()
    x[17, 1] = 10_000
    bounds = BOUNDS.copy()
    bounds[1] = (-10_000, 10_000)
    blocks = split(x, partition, 2)
    model = SecureKMeans(**{**FIXED, "bounds": bounds, "init": init}, partition=partition).fit_parties(blocks)
    assert_equal(model, blocks)
    np.testing.assert_allclose(model.scales_, x.std(axis=0), rtol=2e-3)
    z = StandardScaler().fit_transform(x)
    same = SecureKMeans(4, init=x[[17, 0, 1, 2]], bounds=bounds, scale="standard", partition=partition).fit(x)
    np.testing.assert_array_equal(same.labels_, KMeans(4, init=z[[17, 0, 1, 2]]).fit(z).labels_)


@pytest.mark.parametrize(("partition", "reach"), [("horizontal", 1e8), ("mixed", 1e6)])
def test_a_column_that_varies_too_little_for_its_bounds_is_capped(partition, reach):
    bounds = BOUNDS.copy()
    bounds[3] = (-reach, reach)
    blocks = split(X, partition, 2)
    with pytest.warns(UserWarning, match=r"x3: .*bounds.*tighter") as caught:
        model = SecureKMeans(**{**FIXED, "bounds": bounds}, partition=partition).fit_parties(blocks)
    assert len(caught) == 1
    assert_equal(model, blocks)
    assert model.capped_.tolist() == [False, False, False, True, False]
    assert model.scales_[3] > 2 * X[:, 3].std()  # it counts less than it should


# -- beside scikit-learn ---------------------------------------------------------------------------------

LOADED = {"iris": (load_iris, 3), "wine": (load_wine, 3), "breast cancer": (load_breast_cancer, 2)}
BESIDE = [
    pytest.param(name, parties, partition, marks=() if parties == 2 or name == "iris" else pytest.mark.slow)
    for name, parties, partition in product(LOADED, (2, 3), ("horizontal", "mixed"))
]


def labelled(x, k, parties, partition, seed):
    """Rows that are labelled otherwise than by `StandardScaler` and `KMeans` from the same rows; both models."""
    model = SecureKMeans(
        k, scale="standard", init="random", random_state=seed, n_parties=parties, partition=partition
    ).fit(x)
    z = StandardScaler().fit_transform(x)
    theirs = KMeans(k, init=z[model.init_rows_]).fit(z)
    return int((model.labels_ != theirs.labels_).sum()), model, theirs


@pytest.mark.parametrize(("name", "parties", "partition"), BESIDE)
def test_no_row_is_labelled_otherwise_than_by_scikit_learn(name, parties, partition):
    """Bounds are twice the data's range."""
    load, k = LOADED[name]
    for seed in range(3):
        differ, model, theirs = labelled(load().data, k, parties, partition, seed)
        assert differ == 0
        assert model.inertia_ == pytest.approx(theirs.inertia_, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("partition", ["horizontal", "mixed"])
def test_of_the_digits_at_most_one_row_in_a_hundred_is(parties, partition):
    differ, model, theirs = labelled(load_digits().data, 10, parties, partition, 0)
    assert differ <= 0.01 * len(model.labels_)
    assert model.inertia_ == pytest.approx(theirs.inertia_, rel=0.01)
