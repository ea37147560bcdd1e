"""From the same start, the same clusters as scikit-learn: every data set, partition, division and transport."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.cluster import KMeans

from coterie import SecureKMeans
from coterie.protocols import FAMILIES
from tests.datasets import MARGIN, STARTS, DataSet, data_set, iterations_of_lloyd
from tests.support import one_column_decides

PARTIES = (2, 3, 5, 8)
#: How the data lie, and what the parties may learn: SHK-means with both divisions everywhere, and SVK-means.
WAYS = [
    *((*way, "private") for way in product(("horizontal", "vertical", "mixed"), ("secret", "revealed"))),
    ("vertical", "secret", "revealed"),
]


class Case(NamedTuple):
    protocol: str
    name: str
    parties: int
    partition: str
    counts: str
    labels: str
    transport: str

    @property
    def exists(self) -> bool:
        """Columns cannot be split over more parties than there are."""
        return self.partition != "vertical" or data_set(self.name).x.shape[1] >= self.parties


#: For every protocol family, every data set, number of parties, partition, division and transport at least once.
QUICK = {
    Case("securenn", "paper", 2, "horizontal", "secret", "private", "memory"),
    Case("securenn", "paper", 5, "mixed", "revealed", "private", "memory"),
    Case("securenn", "iris", 3, "vertical", "secret", "private", "memory"),
    Case("securenn", "iris", 2, "horizontal", "revealed", "private", "tls"),
    Case("securenn", "wine", 3, "mixed", "secret", "private", "memory"),
    Case("securenn", "wine", 5, "vertical", "revealed", "private", "memory"),
    Case("securenn", "breast cancer", 2, "horizontal", "revealed", "private", "memory"),
    Case("securenn", "breast cancer", 3, "vertical", "secret", "revealed", "memory"),
    Case("securenn", "digits", 2, "vertical", "secret", "revealed", "memory"),
    Case("securenn", "paper", 8, "horizontal", "revealed", "private", "memory"),
    Case("onetime", "wine", 8, "horizontal", "secret", "private", "memory"),
    Case("onetime", "paper", 3, "horizontal", "secret", "private", "memory"),
    Case("onetime", "iris", 5, "mixed", "secret", "private", "memory"),
    Case("onetime", "wine", 2, "vertical", "secret", "revealed", "memory"),
    Case("onetime", "breast cancer", 3, "horizontal", "secret", "private", "tls"),
    Case("onetime", "digits", 2, "vertical", "revealed", "private", "memory"),
    Case("falcon", "wine", 8, "horizontal", "secret", "private", "memory"),
    Case("falcon", "paper", 5, "mixed", "revealed", "private", "memory"),
    Case("falcon", "iris", 3, "mixed", "secret", "private", "memory"),
    Case("falcon", "digits", 2, "vertical", "secret", "revealed", "memory"),
    Case("falcon", "breast cancer", 3, "horizontal", "secret", "private", "tls"),
}
MATRIX = [
    case
    for protocol, name, parties, way, transport in product(FAMILIES, STARTS, PARTIES, WAYS, ("memory", "tls"))
    if (case := Case(protocol, name, parties, *way, transport)).exists
]


@cache
def by_scikit_learn(name: str) -> KMeans:
    data = data_set(name)
    return KMeans(data.k, init=data.start, n_init=1, algorithm="lloyd").fit(data.x)


def by_coterie(case: Case, data: DataSet) -> SecureKMeans:
    return SecureKMeans(
        data.k,
        protocol=case.protocol,
        init=data.start,
        n_parties=case.parties,
        partition=case.partition,
        counts=case.counts,
        labels=case.labels,
        transport=case.transport,
    ).fit(data.x)


@pytest.mark.parametrize("name", STARTS)
def test_no_cluster_runs_empty_and_no_tie_decides_from_the_starts(name):
    data = data_set(name)
    iterations = iterations_of_lloyd(data.x, data.start)
    for distances, _ in iterations:
        nearest, second = np.partition(distances, 1, axis=1)[:, :2].T
        assert (second - nearest).min() > MARGIN
    np.testing.assert_array_equal(by_scikit_learn(name).labels_, iterations[-1][1])


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if c in QUICK else pytest.mark.slow, id="-".join(map(str, c))) for c in MATRIX],
)
@one_column_decides
def test_same_clusters_as_scikit_learn(case):
    data, plain = data_set(case.name), by_scikit_learn(case.name)
    secure = by_coterie(case, data)
    np.testing.assert_array_equal(secure.labels_, plain.labels_)
    off = np.abs(secure.cluster_centers_ - plain.cluster_centers_).max(axis=0)
    assert (off <= 1e-3 * np.ptp(data.x, axis=0)).all()
    assert secure.inertia_ == pytest.approx(plain.inertia_, rel=1e-3)
    assert secure.n_iter_ < secure.max_iter


def test_the_quick_cases_are_of_the_matrix_and_cover_its_sides():
    assert set(MATRIX) >= QUICK
    for protocol in FAMILIES:
        quick, whole = ([case for case in cases if case.protocol == protocol] for cases in (QUICK, MATRIX))
        for field in Case._fields:
            assert {getattr(c, field) for c in quick} == {getattr(c, field) for c in whole}, field


@pytest.mark.parametrize("parties", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_same_clusters_as_scikit_learn_on_a_hundred_thousand_rows(parties):
    random = np.random.RandomState(5)
    middles = random.uniform(-10, 10, (8, 8))
    x = middles[random.randint(0, 8, 100_000)] + random.normal(size=(100_000, 8))
    start = x[:8]
    plain = KMeans(8, init=start, n_init=1, algorithm="lloyd").fit(x)
    secure = SecureKMeans(8, init=start, n_parties=parties).fit(x)
    np.testing.assert_array_equal(secure.labels_, plain.labels_)
    assert np.abs(secure.cluster_centers_ - plain.cluster_centers_).max() < 1e-3
