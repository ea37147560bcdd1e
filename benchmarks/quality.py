"""How good the clusters are: the default start and stop, beside scikit-learn's defaults, over many seeds.

    python benchmarks/quality.py                 # 400 seeds each, by the oracle; some minutes a data set
    python benchmarks/quality.py --seeds 40 iris wine

A run is bad if its inertia is more than 5 % above the best that either has found. Ours are those of the plaintext
oracle, which secure runs equal bit for bit; with --secure, some are run by the protocol, and compared with it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from coterie import SecureKMeans
from coterie.data import gather, split
from coterie.parameters import name_parties, prepare_fit
from coterie.runtime.oracle import run_oracle

Floats = NDArray[np.float64]
ABOVE = 1.05


def paper() -> tuple[Floats, int]:
    """The four blobs of the paper's example."""
    from coterie.simulation.demo import make_points

    return make_points()[0], 4


def blobs(n: int, d: int, k: int, spread: float, seed: int) -> tuple[Floats, int]:
    rows, _ = datasets.make_blobs(n, d, centers=k, cluster_std=spread, center_box=(-10, 10), random_state=seed)
    return rows, k


def unequal() -> tuple[Floats, int]:
    """Three large clusters, and five small ones far from them."""
    random = np.random.RandomState(8)
    means = [(0, 0), (0, 6), (6, 0), (40, 40), (40, 46), (46, 40), (46, 46), (43, 43)]
    sizes = [500, 500, 500, 40, 40, 40, 40, 40]
    return np.concatenate([random.normal(m, 1, (s, 2)) for m, s in zip(means, sizes, strict=True)]), 8


SETS: dict[str, Callable[[], tuple[Floats, int]]] = {
    "paper": paper,
    "iris": lambda: (datasets.load_iris().data, 3),
    "wine": lambda: (datasets.load_wine().data, 3),
    "breast cancer, standardised": lambda: (StandardScaler().fit_transform(datasets.load_breast_cancer().data), 2),
    "digits": lambda: (datasets.load_digits().data.astype(np.float64), 10),
    "eight blobs": lambda: blobs(800, 2, 8, 0.5, 1),
    "unequal sizes": unequal,
    "thirty clusters": lambda: blobs(1500, 2, 30, 0.4, 2),
    "fifty columns": lambda: blobs(600, 50, 12, 1.0, 3),
}


def ours(rows: Floats, k: int, seed: int, **options: Any) -> float:
    """The inertia of a fit with default options, by the oracle."""
    model = SecureKMeans(k, random_state=seed, **options)
    prepared = prepare_fit(model, gather(split(rows, "horizontal", 2), "horizontal", name_parties(2)))
    inertia = run_oracle(prepared.task, np.concatenate(prepared.blocks)).inertia
    assert inertia is not None
    return inertia


def theirs(rows: Floats, k: int, seed: int) -> float:
    return float(KMeans(k, random_state=seed).fit(rows).inertia_)


def bad(inertias: Floats, best: float) -> float:
    return float((inertias > ABOVE * best).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}")
    parser.add_argument("--seeds", type=int, default=400)
    parser.add_argument("--secure", type=int, default=0, help="how many to run by the protocol, too")
    given = parser.parse_args()
    print("| data | rows x columns, k | more than 5 % above the best | worst | secure runs equal |")
    print("|---|---|---|---|---|")
    for name in given.sets or SETS:
        rows, k = SETS[name]()
        mine = np.array([ours(rows, k, seed) for seed in range(given.seeds)])
        other = np.array([theirs(rows, k, seed) for seed in range(given.seeds)])
        best = min(mine.min(), other.min())
        ours_bad, theirs_bad = bad(mine, best), bad(other, best)
        error = math.sqrt((ours_bad * (1 - ours_bad) + theirs_bad * (1 - theirs_bad)) / given.seeds)
        fine = ours_bad - theirs_bad <= 0.02 + 2 * error
        equal = sum(SecureKMeans(k, random_state=seed).fit(rows).inertia_ == mine[seed] for seed in range(given.secure))
        print(
            f"| {name} | {rows.shape[0]:,} x {rows.shape[1]}, {k} | {ours_bad:.1%}, scikit-learn {theirs_bad:.1%}"
            f"{'' if fine else ' (worse)'} | {mine.max() / best:.3f}, {other.max() / best:.3f} | {equal} of "
            f"{given.secure} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
