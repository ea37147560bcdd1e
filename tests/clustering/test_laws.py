"""What a result may not depend on, and what it must follow."""

from __future__ import annotations

import numpy as np
import pytest

from coterie import SecureKMeans
from coterie.data import split
from coterie.protocols import FAMILIES
from tests.clustering.comparison import WAYS, assert_equals_oracle, way_name

RANDOM = np.random.RandomState(3)
X = RANDOM.uniform(-1, 1, (23, 5))
SPLITS = [(p, partition) for p in (2, 3, 5) for partition in ("horizontal", "vertical", "mixed")]


def fitted(x=X, **options):
    return SecureKMeans(**{"n_clusters": 4, "random_state": 0, "counts": "revealed", **options}).fit(x)


def assert_same(one, other):
    """Labels, centres, inertia, iterations and, where they are public, starting rows: the same bits."""
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    public = one.init == "random" or one.labels == "revealed"
    assert [hasattr(model, "init_rows_") for model in (one, other)] == [public, public]
    if public:
        np.testing.assert_array_equal(one.init_rows_, other.init_rows_)
    assert (one.n_iter_, one.inertia_) == (other.n_iter_, other.inertia_)


@pytest.fixture(scope="module")
def reference():
    return fitted()


@pytest.fixture(scope="module")
def random_reference():
    return fitted(init="random")


@pytest.mark.parametrize(("parties", "partition"), SPLITS)
def test_the_result_does_not_depend_on_who_holds_what(reference, parties, partition):
    assert_same(fitted(n_parties=parties, partition=partition), reference)


@pytest.mark.parametrize(("parties", "partition"), SPLITS)
def test_nor_does_it_from_random_rows(random_reference, parties, partition):
    assert_same(fitted(n_parties=parties, partition=partition, init="random"), random_reference)


@pytest.mark.parametrize("parties", [2, 5])
def test_svk_means_does_not_depend_on_who_holds_what(parties):
    options = {"partition": "vertical", "labels": "revealed"}
    assert_same(fitted(n_parties=parties, **options), fitted(n_parties=3, **options))


def test_nor_does_it_where_the_counts_stay_secret():
    assert_same(
        fitted(counts="secret", max_iter=2), fitted(counts="secret", max_iter=2, n_parties=3, partition="mixed")
    )


@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_the_inertia_of_wide_data_does_not_depend_on_the_parties(centers):
    """Sums of squares that exceed a word are cut; where, must not depend on who holds what."""
    wide = X * 50_000
    inertias = {fitted(wide, centers=centers, n_parties=p, partition=s, max_iter=2).inertia_ for p, s in SPLITS}
    assert len(inertias) == 1


@pytest.mark.parametrize("rows", [1, 7, 10_000])
def test_the_result_does_not_depend_on_the_blocks(reference, rows):
    assert_same(fitted(plan={"block_rows": rows}), reference)


@pytest.mark.parametrize("protocol", FAMILIES)
@pytest.mark.parametrize("lanes", [0, 1, 3])
def test_the_result_does_not_depend_on_the_lanes(reference, protocol, lanes):
    assert_same(fitted(protocol=protocol, plan={"block_rows": 5, "lanes": lanes}), reference)


def test_nothing_depends_on_the_transport(reference):
    memory, tls = (fitted(transport=transport, n_parties=3, partition="mixed") for transport in ("memory", "tls"))
    assert_same(tls, reference)
    np.testing.assert_array_equal(tls.counts_, memory.counts_)
    assert tls.disclosures_ == memory.disclosures_
    assert tls.traffic_ == memory.traffic_


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_permuted_rows_have_permuted_labels(way):
    order = RANDOM.permutation(len(X))
    options = {**way, "n_clusters": 4, "init": X[:4], "max_iter": 3}
    straight, permuted = SecureKMeans(**options).fit(X), SecureKMeans(**options).fit(X[order])
    np.testing.assert_array_equal(permuted.labels_, straight.labels_[order])
    np.testing.assert_array_equal(permuted.cluster_centers_, straight.cluster_centers_)
    assert permuted.inertia_ == straight.inertia_


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_permuted_columns_have_permuted_centres(way):
    options = {**way, "n_clusters": 3, "max_iter": 2}
    straight = SecureKMeans(**options, init=X[:3]).fit(X)
    mirrored = SecureKMeans(**options, init=X[:3, ::-1]).fit(X[:, ::-1])
    np.testing.assert_array_equal(mirrored.labels_, straight.labels_)
    np.testing.assert_array_equal(mirrored.cluster_centers_, straight.cluster_centers_[:, ::-1])


def test_blocks_fitted_by_party_and_a_table_that_is_split_are_the_same(reference):
    options = {"n_clusters": 4, "random_state": 0, "counts": "revealed", "partition": "mixed"}
    assert_same(SecureKMeans(**options).fit_parties(split(X, "mixed", 3)), reference)


def test_random_rows_are_the_same_start_as_their_values(random_reference):
    given = SecureKMeans(4, init=X[random_reference.init_rows_], counts="revealed").fit(X)
    np.testing.assert_array_equal(given.labels_, random_reference.labels_)
    np.testing.assert_array_equal(given.cluster_centers_, random_reference.cluster_centers_)


@pytest.mark.parametrize("way", WAYS, ids=way_name)
@pytest.mark.parametrize("centers", ["revealed", "shared"])
def test_inertia_is_the_squared_distance_to_the_means(way, centers):
    model = SecureKMeans(3, random_state=0, centers=centers, **way).fit(X)
    means = np.stack([X[model.labels_ == j].mean(axis=0) for j in range(3)])
    assert model.inertia_ == pytest.approx(((X - means[model.labels_]) ** 2).sum(), rel=1e-3)


@pytest.mark.parametrize("way", WAYS, ids=way_name)
def test_labels_belong_to_the_final_centres(way):
    """Even where the run ends before it has converged."""
    model = SecureKMeans(4, random_state=0, max_iter=1, **way).fit(X)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    np.testing.assert_array_equal(model.labels_, distances.argmin(axis=1))


@pytest.mark.parametrize("way", [WAYS[0], WAYS[1], WAYS[-1]], ids=way_name)
def test_the_winner_of_several_restarts_is_the_best_of_them(way):
    best = SecureKMeans(4, init="random", random_state=5, n_init=3, max_iter=3, **way).fit(X)
    singles = [SecureKMeans(4, init=X[rows], max_iter=3, **way).fit(X) for rows in best.init_rows_]
    winner = min(singles, key=lambda single: single.inertia_)
    np.testing.assert_array_equal(best.labels_, winner.labels_)
    np.testing.assert_array_equal(best.cluster_centers_, winner.cluster_centers_)
    assert best.inertia_ == winner.inertia_
    assert best.n_iter_ == max(single.n_iter_ for single in singles)


@pytest.mark.slow
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_a_million_rows_equal_the_oracle(partition):
    """Blocks on lanes; sums of twenty bits more than a row's."""
    x = np.random.RandomState(1).uniform(-1, 1, (1_000_000, 2))
    model = SecureKMeans(4, partition=partition, max_iter=3, tol=0, bounds=[(-1, 1)] * 2, init=x[:4]).fit(x)
    assert_equals_oracle(model, split(x, partition, 2))
