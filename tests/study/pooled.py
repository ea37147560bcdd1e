"""What scikit-learn makes of everybody's rows in one place, from the study's own start; for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from coterie.clustering import distinct_rows
from tests.datasets import MARGIN, iterations_of_lloyd, paper_example
from tests.study.walk import Cast

__all__ = ["RANDOM_ROWS", "Pooled", "X", "pooled"]

Floats = NDArray[np.float64]

#: The paper's four blobs, in no order; and a seed from whose rows k-means needs some iterations and no tie decides.
X = paper_example()[np.random.RandomState(7).permutation(400)]
SEED = 9
#: Rows as they are, since scikit-learn is given them so.
RANDOM_ROWS = ("--init", "random", "--seed", SEED, "--scale", "none")


class Pooled:
    """The fit of rows in the study's common order: by party, or by id."""

    def __init__(self, x: Floats, seed: int, k: int = 4) -> None:
        self.x, self.k = x, k
        start = x[list(distinct_rows(np.random.RandomState(seed), len(x), k))]
        for distances, _ in iterations_of_lloyd(x, start):
            nearest, second = np.partition(distances, 1, axis=1)[:, :2].T
            assert (second - nearest).min() > MARGIN, "a tie may decide"
        self.fit = KMeans(k, init=start, n_init=1, algorithm="lloyd").fit(x)

    def nearest(self, rows: Floats, among: Sequence[int] | None = None) -> list[int]:
        """The closest centre of each row, of all or of some."""
        among = list(range(self.k) if among is None else among)
        distances = ((rows[:, None] - self.fit.cluster_centers_[among]) ** 2).sum(axis=2)
        return [among[j] for j in distances.argmin(axis=1)]

    def check_labels(self, found: Sequence[int], rows: Any = slice(None)) -> None:
        np.testing.assert_array_equal(found, self.fit.labels_[rows])

    def check_centers(self, cast: Cast, name: str, columns: dict[str, int], closed: Sequence[int] = ()) -> None:
        """centers.csv: all clusters, and of the columns exactly these. Centres of `closed` clusters are empty."""
        table = cast.centers(name)
        assert [row["cluster"] for row in table] == [str(j) for j in range(self.k)]
        assert list(table[0]) == ["cluster", *(["size"] if "size" in table[0] else []), *columns]
        for j, row in enumerate(table):
            for column, l in columns.items():
                if j in closed:
                    assert row[column] == ""
                else:
                    allowed = 1e-3 * np.ptp(self.x[:, l])
                    assert float(row[column]) == pytest.approx(self.fit.cluster_centers_[j, l], abs=allowed)


@cache
def pooled(rows: int = len(X)) -> Pooled:
    return Pooled(X[:rows], SEED)
