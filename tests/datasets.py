"""The data sets on which Coterie is compared with scikit-learn, and the rows to start from.

From these starts no cluster runs empty and no exact tie decides: over all iterations, every row's second
closest centre is farther than its closest by at least `MARGIN`, in squared distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]

MARGIN = 0.03
STARTS = {
    "paper": (146, 297, 225, 32),
    "iris": (128, 41, 97),
    "wine": (173, 30, 66),
    "breast cancer": (501, 529),
    "digits": (1001, 1405, 1747, 1118, 1673, 32, 1745, 856, 1735, 1488),
}


@dataclass(frozen=True)
class DataSet:
    """Rows (n, d), and k of them as the centres to start from."""

    x: Floats
    start: Floats

    @property
    def k(self) -> int:
        return len(self.start)


@cache
def data_set(name: str) -> DataSet:
    x = {
        "paper": paper_example,
        "iris": lambda: load_iris().data,
        "wine": lambda: StandardScaler().fit_transform(load_wine().data),
        "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
        "digits": lambda: load_digits().data,
    }[name]()
    return DataSet(x, x[list(STARTS[name])])


def paper_example() -> Floats:
    """The paper's example: four blobs of 100 points each, of unit variance."""
    random = np.random.RandomState(0)
    return np.concatenate([random.normal(middle, 1, (100, 2)) for middle in ((5, 3), (5, -5), (-5, 5), (-3, -5))])


def iterations_of_lloyd(x: Floats, centers: Floats) -> list[tuple[Floats, NDArray[np.intp]]]:
    """Squared distances (n, k) and labels of every iteration of Lloyd's algorithm, to its fixed point."""
    seen: list[tuple[Floats, NDArray[np.intp]]] = []
    while len(seen) < 2 or (seen[-1][1] != seen[-2][1]).any():
        distances = ((x[:, None] - centers) ** 2).sum(axis=2)
        labels = distances.argmin(axis=1)
        seen.append((distances, labels))
        assert len(np.unique(labels)) == len(centers), "a cluster runs empty"
        centers = np.stack([x[labels == j].mean(axis=0) for j in range(len(centers))])
    return seen
