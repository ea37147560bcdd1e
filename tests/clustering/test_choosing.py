"""Several numbers of clusters in one fit, and what is told of how good clusters are: equal to the oracle, bit for bit,
and what scikit-learn says of the same clusterings."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import calinski_harabasz_score, silhouette_score
from sklearn.preprocessing import StandardScaler

from coterie import SecureKMeans
from coterie.clustering import QUALITY, Outcome, Point, Watch, fit, put_together
from coterie.data import split
from coterie.errors import InputError
from coterie.protocols import FAMILIES
from coterie.runtime.oracle import run_oracle
from coterie.runtime.threads import run_threads
from tests.clustering.comparison import assert_equals_oracle, task_and_table
from tests.support import SeededEntropy

X, TRUTH = make_blobs(120, 3, centers=4, cluster_std=0.9, random_state=3)
FIXED: dict[str, Any] = {"n_clusters": range(2, 6), "random_state": 0, "bounds": [(-25, 25)] * 3}
EXACT: dict[str, Any] = {"tol": 0, "max_iter": 100}
CHOOSE = ("calinski-harabasz", "silhouette")
MEASURES = ("revealed", "secret")


def told(value: float | None) -> float:
    """As the estimator has it: NaN for what is not told."""
    return math.nan if value is None else value


def assert_same_choice(model: SecureKMeans, expected: Outcome) -> None:
    assert model.n_clusters_ == expected.chosen
    assert model.k_measures_ == expected.k_measures
    opened = model.n_clusters_ - int(model._closed.sum())
    quality = (expected.inertia, expected.silhouette, expected.calinski_harabasz(len(model.labels_), opened))
    np.testing.assert_array_equal(
        (model.inertia_, model.silhouette_, model.calinski_harabasz_), [told(one) for one in quality]
    )


VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "two numbers": {"n_clusters": [3, 5]},
    "random rows": {"init": "random"},
    "several starts": {"n_init": 2, "n_clusters": [3, 4]},
    "standardised": {"scale": "standard"},
    "weighted columns": {"scale": "standard", "column_weights": {"x0": 3}, "n_clusters": [3, 4]},
    "secret scales": {"scale": "standard", "scales": "secret", "n_clusters": [3, 4]},
    "shared centres": {"centers": "shared"},
    "revealed counts": {"counts": "revealed", "n_clusters": [3, 4]},
    "lanes": {"plan": {"block_rows": 32, "lanes": 2}, "n_clusters": [4, 5]},
    "a least size": {"least_cluster_size": 12, "contribution": "off"},
}
QUICK = {
    ("onetime", "horizontal", "as it is", "calinski-harabasz", "revealed"),
    ("onetime", "mixed", "as it is", "silhouette", "secret"),
    ("onetime", "vertical", "two numbers", "calinski-harabasz", "secret"),
    ("onetime", "mixed", "random rows", "calinski-harabasz", "revealed"),
    ("onetime", "vertical", "several starts", "silhouette", "revealed"),
    ("onetime", "horizontal", "standardised", "calinski-harabasz", "secret"),
    ("onetime", "mixed", "weighted columns", "calinski-harabasz", "revealed"),
    ("onetime", "horizontal", "secret scales", "silhouette", "revealed"),
    ("onetime", "vertical", "shared centres", "silhouette", "revealed"),
    ("onetime", "mixed", "shared centres", "calinski-harabasz", "secret"),
    ("onetime", "horizontal", "revealed counts", "calinski-harabasz", "revealed"),
    ("onetime", "horizontal", "lanes", "silhouette", "secret"),
    ("onetime", "horizontal", "a least size", "calinski-harabasz", "revealed"),
    ("onetime", "mixed", "a least size", "silhouette", "secret"),
    ("securenn", "horizontal", "two numbers", "calinski-harabasz", "secret"),
    ("securenn", "mixed", "two numbers", "silhouette", "revealed"),
}
CASES = list(product(("onetime", "securenn"), ("horizontal", "vertical", "mixed"), VARIANTS, CHOOSE, MEASURES))


@pytest.mark.parametrize(
    ("protocol", "partition", "variant", "choose", "measures"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_every_way_equals_the_oracle(protocol, partition, variant, choose, measures):
    options = {**FIXED, "max_iter": 3, **VARIANTS[variant], "protocol": protocol, "partition": partition}
    blocks = split(X, partition, 2)
    model = SecureKMeans(**options, choose=choose, measures=measures).fit_parties(blocks)
    if "least_cluster_size" in options:
        expected = run_oracle(*task_and_table(model, blocks))
        assert model.suppressed_.tolist() == expected.suppressed.tolist()
        assert model.labels_.tolist() == expected.labels.tolist()
    else:
        expected = assert_equals_oracle(model, blocks)
    assert_same_choice(model, expected)
    assert bool(model.k_measures_) == (measures == "revealed")


def test_the_quick_cases_are_of_the_matrix():
    assert set(CASES) >= QUICK
    assert {case[2] for case in QUICK} == set(VARIANTS)


@pytest.mark.parametrize("parties", [3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("choose", CHOOSE)
def test_more_parties_choose_the_same(parties, choose):
    blocks = split(X, "horizontal", parties)
    model = SecureKMeans(**FIXED, max_iter=2, choose=choose).fit_parties(blocks)
    assert_same_choice(model, assert_equals_oracle(model, blocks))


@pytest.mark.parametrize("choose", CHOOSE)
def test_svk_means_chooses(choose):
    blocks = split(X, "vertical", 2)
    model = SecureKMeans(**FIXED, partition="vertical", labels="revealed", choose=choose).fit_parties(blocks)
    assert_same_choice(model, assert_equals_oracle(model, blocks))


# -- which is chosen -------------------------------------------------------------------------------------


def clusterings(model: SecureKMeans, x: np.ndarray) -> dict[int, Outcome]:
    """What the fit finds with each number of clusters by itself, in the clear."""
    task, table = task_and_table(model, split(x, model.partition, 2))
    return {k: run_oracle(task.choice(i), table) for i, k in enumerate(task.choices)}


def simplified_silhouette(x: np.ndarray, centers: np.ndarray, labels: np.ndarray) -> float:
    """1 - a / b for the distances to a row's own centre and to the closest other."""
    distances = np.sqrt(((x[:, None] - centers) ** 2).sum(axis=2))
    own = distances[np.arange(len(x)), labels].copy()
    distances[np.arange(len(x)), labels] = np.inf
    return float((1 - own / distances.min(axis=1)).mean())


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("measures", MEASURES)
def test_calinski_harabasz_chooses_what_scikit_learn_s_does(scale, measures):
    x = X * [1, 2, 1]
    model = SecureKMeans(range(2, 8), random_state=1, scale=scale, measures=measures, **EXACT).fit(x)
    z = x if scale is None else StandardScaler().fit_transform(x)
    scores = {k: calinski_harabasz_score(z, one.labels) for k, one in clusterings(model, x).items()}
    assert model.n_clusters_ == max(scores, key=scores.get) == 4
    if measures == "revealed":
        assert model.k_measures_ == pytest.approx(scores, rel=2e-3)
        assert max(model.k_measures_, key=model.k_measures_.get) == 4
    assert len(model.cluster_centers_) == len(np.unique(model.labels_)) == 4


@pytest.mark.parametrize("measures", MEASURES)
def test_the_silhouette_chooses_what_scikit_learn_s_does(measures):
    """Ours is simplified, to centres instead of all rows, and each row's to an eighth."""
    model = SecureKMeans(range(2, 7), random_state=1, choose="silhouette", measures=measures, **EXACT).fit(X)
    found = clusterings(model, X)
    scores = {k: silhouette_score(X, one.labels) for k, one in found.items()}
    assert model.n_clusters_ == max(scores, key=scores.get) == 4
    if measures == "revealed":
        decode = model._encoding.decode
        simplified = {k: simplified_silhouette(X, decode(one.centers), one.labels) for k, one in found.items()}
        assert model.k_measures_ == pytest.approx(simplified, abs=0.02)


def test_what_is_chosen_is_a_fit_with_that_number():
    """Labels, centres and inertia are those that the chosen number comes to by itself."""
    model = SecureKMeans(**FIXED, **EXACT, n_init=2, choose="silhouette").fit(X)
    alone = clusterings(model, X)[model.n_clusters_]
    np.testing.assert_array_equal(model.labels_, alone.labels)
    np.testing.assert_array_equal(model._whole_centers, alone.centers)
    assert (model.inertia_, model.silhouette_) == (alone.inertia, alone.silhouette)
    assert model.silhouette_ == model.k_measures_[model.n_clusters_]


def test_numbers_are_tried_in_order_and_once():
    model = SecureKMeans(**{**FIXED, "n_clusters": [5, 2, 4, 2]}, max_iter=1).fit(X)
    assert list(model.k_measures_) == [2, 4, 5]


@pytest.mark.parametrize("choose", CHOOSE)
def test_of_numbers_that_are_alike_the_first_is_chosen(choose):
    """Three distinct rows: more clusters change nothing."""
    x = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], (10, 1))
    model = SecureKMeans(range(2, 6), random_state=0, choose=choose).fit(x)
    assert model.n_clusters_ == 3
    assert model.inertia_ == 0


@pytest.mark.parametrize(("choose", "measures"), list(product(CHOOSE, MEASURES)))
def test_nothing_is_opened_of_the_others_but_their_measures(choose, measures):
    model = SecureKMeans(**FIXED, max_iter=2, quality=(), choose=choose, measures=measures).fit(X)
    final = [entry.what for entry in model.disclosures_ if entry.iteration is None and entry.what != "bounds"]
    assert sorted({*final}) == sorted(
        {"chosen k", "centers", "labels"} | ({"measures of k"} if measures == "revealed" else set())
    )
    assert final.count("centers") == final.count("chosen k") == 1
    chosen = next(entry for entry in model.disclosures_ if entry.what == "chosen k")
    assert set(chosen.to) == {"P0", "P1", "P2"}
    if measures == "revealed":
        entry = next(entry for entry in model.disclosures_ if entry.what == "measures of k")
        assert set(entry.to) == {"P1", "P2"}


def test_a_model_with_a_chosen_number_predicts():
    for partition, options in product(("horizontal", "vertical"), ({}, {"centers": "shared"}, {"scale": "standard"})):
        model = SecureKMeans(**FIXED, **options, max_iter=2, partition=partition).fit(X)
        np.testing.assert_array_equal(model.predict_parties(split(X, partition, 2)), model.labels_)
        assert model.get_feature_names_out().shape == (model.n_clusters_,)


def test_one_number_is_no_choice():
    model = SecureKMeans(3, random_state=0, max_iter=1).fit(X)
    assert (model.n_clusters_, model.k_measures_) == (3, {})
    assert "chosen k" not in {entry.what for entry in model.disclosures_}


@pytest.mark.slow
@pytest.mark.parametrize("choose", CHOOSE)
def test_over_tls_the_choice_is_the_same(choose):
    options = {**FIXED, "max_iter": 2, "choose": choose, "scale": "standard"}
    here, there = (SecureKMeans(**options, transport=transport).fit(X) for transport in ("memory", "tls"))
    assert (here.n_clusters_, here.k_measures_) == (there.n_clusters_, there.k_measures_)
    np.testing.assert_array_equal(here.labels_, there.labels_)
    assert (here.inertia_, here.silhouette_, here.calinski_harabasz_) == (
        there.inertia_,
        there.silhouette_,
        there.calinski_harabasz_,
    )


# -- how good clusters are -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"scale": "standard"}, {"partition": "vertical"}, {"centers": "shared"}])
def test_quality_is_what_scikit_learn_says(options):
    x = X * [1, 1.4, 1]
    model = SecureKMeans(4, random_state=0, **EXACT, **options).fit(x)
    z = StandardScaler().fit_transform(x) if "scale" in options else x
    means = np.stack([z[model.labels_ == j].mean(axis=0) for j in range(4)])
    assert model.inertia_ == pytest.approx(((z - means[model.labels_]) ** 2).sum(), rel=1e-3)
    assert model.calinski_harabasz_ == pytest.approx(calinski_harabasz_score(z, model.labels_), rel=1e-3)
    assert model.silhouette_ == pytest.approx(simplified_silhouette(z, means, model.labels_), abs=0.02)
    assert model.silhouette_ == pytest.approx(silhouette_score(z, model.labels_), abs=0.1)


SUBSETS = [subset for size in range(4) for subset in combinations(QUALITY, size)]


@pytest.mark.parametrize("quality", SUBSETS, ids="+".join)
@pytest.mark.parametrize("options", [{}, {"scale": "standard", "centers": "shared"}])
def test_all_that_is_told_of_quality_is_optional(quality, options):
    """Calinski-Harabasz takes the inertia along; what was not asked for is NaN, and not opened."""
    model = SecureKMeans(3, random_state=0, quality=quality, max_iter=2, **options).fit(X)
    by_inertia = {"inertia", "calinski-harabasz"} & {*quality}
    expected = {
        "inertia": bool(by_inertia),
        "scatter": "calinski-harabasz" in quality,
        "silhouette": "silhouette" in quality,
    }
    opened = {entry.what for entry in model.disclosures_}
    assert {what: what in opened for what in expected} == expected
    assert math.isnan(model.inertia_) != expected["inertia"]
    assert math.isnan(model.calinski_harabasz_) != expected["scatter"]
    assert math.isnan(model.silhouette_) != expected["silhouette"]
    full = SecureKMeans(3, random_state=0, max_iter=2, **options).fit(X)
    np.testing.assert_array_equal(model.labels_, full.labels_)
    for name in ("inertia_", "calinski_harabasz_", "silhouette_"):
        assert math.isnan(getattr(model, name)) or getattr(model, name) == getattr(full, name)


def test_one_cluster_has_an_inertia_and_nothing_else():
    model = SecureKMeans(1, random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(((X - X.mean(axis=0)) ** 2).sum(), rel=1e-3)
    assert math.isnan(model.silhouette_)
    assert math.isnan(model.calinski_harabasz_)


def test_where_all_clusters_are_closed_nothing_is_told():
    model = SecureKMeans(4, random_state=0, least_cluster_size=100, contribution="off", bounds=[(-25, 25)] * 3).fit(X)
    assert model.suppressed_.all()
    assert np.isnan([model.inertia_, model.silhouette_, model.calinski_harabasz_]).all()


# -- taken up again --------------------------------------------------------------------------------------


class Points(Watch):
    """Keeps every point at which a fit can be taken up again, the last one included."""

    def __init__(self) -> None:
        self.kept: list[Point] = []

    def iterated(self, point) -> None:
        self.kept.append(point())

    finished = iterated


def run(model: SecureKMeans, seed: int, resume: list[Point] | None = None) -> tuple[Outcome, list[list[Point]]]:
    """The outcome of all parties together, and the points by rank."""
    blocks = split(X, model.partition, 2)
    task, _ = task_and_table(model, blocks)
    world = FAMILIES[model.protocol].world(("P1", "P2"))

    def role(me) -> tuple[Outcome, list[Point]]:
        block = None
        if me.owns:
            block = task.encoding.encode(blocks[me.rank - 1], task.layout.own_columns(me.rank), "")
        watch = Points()
        point = None if resume is None else resume[me.rank]
        return fit(FAMILIES[model.protocol](me, task.problem), task, block, watch, point), watch.kept

    found = run_threads(world, role, entropy=lambda rank: SeededEntropy(seed, rank), lanes=task.lanes)
    return put_together(task, [outcome for outcome, _ in found]), [points for _, points in found]


RESUMED: dict[str, dict[str, Any]] = {
    "opened": {"n_clusters": [2, 3, 4], "max_iter": 3},
    "in secret": {"n_clusters": [2, 4], "max_iter": 2, "measures": "secret", "partition": "mixed"},
    "by the silhouette": {
        "n_clusters": [2, 3],
        "max_iter": 2,
        "n_init": 2,
        "choose": "silhouette",
        "scale": "standard",
        "least_cluster_size": 12,
        "contribution": "off",
    },
    "SVK-means": {"n_clusters": [2, 3], "max_iter": 2, "partition": "vertical", "labels": "revealed"},
}


@pytest.mark.parametrize("protocol", ["onetime", pytest.param("securenn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", RESUMED)
def test_a_fit_that_is_taken_up_again_anywhere_ends_alike(protocol, name):
    model = SecureKMeans(**{**FIXED, "tol": 0, **RESUMED[name], "protocol": protocol})
    whole, points = run(model, 0)
    starts = [point.start for point in points[1]]
    assert starts == sorted(starts)
    assert starts[-1] == len(model.n_clusters) * model.n_init
    for at in range(len(starts)):
        again, _ = run(model, 1 + at, [kept[at] for kept in points])
        np.testing.assert_array_equal(again.labels, whole.labels)
        np.testing.assert_array_equal(again.centers, whole.centers)
        for field in ("chosen", "k_measures", "n_iter", "inertia", "silhouette", "scatter"):
            assert getattr(again, field) == getattr(whole, field), field


@pytest.mark.parametrize("wanted", [range(2, 10**30), (k for k in (2, 3))], ids=["too many", "a generator"])
def test_numbers_of_clusters_that_cannot_be_tried(wanted):
    with pytest.raises(InputError, match="n_clusters must be a whole number, or a range, list or tuple of at most 100"):
        SecureKMeans(wanted).fit(X)


def test_one_start_of_the_chosen_number_has_one_row_for_each_cluster():
    model = SecureKMeans((2, 3), init="random", random_state=0).fit(X)
    assert model.init_rows_.shape == (model.n_clusters_,)
