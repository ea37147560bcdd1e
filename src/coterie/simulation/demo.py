"""The paper's example, computed: the points, what each party concludes alone, and the secure runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.clustering import distinct_rows
from coterie.errors import ProtocolError
from coterie.estimator import SecureKMeans
from coterie.protocols import FAMILIES as KNOWN
from coterie.protocols import load_family
from coterie.report.example import Example, Floats, Found, Ints, K, Pooled, SecureRun
from coterie.simulation.rounds import CLUSTERS, FAMILIES, Progress, count_rounds

__all__ = ["STEPS", "compute_example", "make_example", "make_points"]

MEANS = ((5.0, 3.0), (5.0, -5.0), (-5.0, 5.0), (-3.0, -5.0))
#: How many of the 100 points of each blob are Alice's; the others are Bob's. Of the last one she has none.
ALICES = (96, 84, 20, 0)
#: What the columns' agreed ranges are: every point lies inside.
BOUNDS = ((-10.0, 10.0), (-10.0, 10.0))
#: What is clustered securely: a name, and the options. With both families.
WAYS: tuple[tuple[str, dict[str, str]], ...] = (
    ("SHK-means by rows", {"partition": "horizontal"}),
    ("SHK-means by rows, sizes revealed", {"partition": "horizontal", "counts": "revealed"}),
    ("SHK-means by columns", {"partition": "vertical"}),
    ("SVK-means by columns", {"partition": "vertical", "labels": "revealed"}),
)
#: For the public choice of starting rows: from these, k-means finds the four blobs.
SEED = 3
#: The number of steps: what each concludes alone, kernels, the secure runs, rounds of three algorithms, the page.
STEPS = 1 + len(FAMILIES) + len(WAYS) * len(FAMILIES) + 3 * len(FAMILIES) * len(CLUSTERS) + 1


def compute_example(
    step: Progress,
    ways: Sequence[tuple[str, dict[str, str]]] = WAYS,
    families: Sequence[str] = FAMILIES,
    clusters: Sequence[int] = CLUSTERS,
) -> Example:
    """Everything that the page shows."""
    step("what Alice concludes alone")
    points, blob, bobs = make_points()
    example = make_example(points, blob, bobs, distinct_rows(np.random.RandomState(SEED), len(points), K))
    for family in families:
        step(f"loading the kernels of {family} (the first time, they are compiled)")
        load_family(KNOWN[family])  # or the first run would seem to take as long as that
        for name, options in ways:
            step(f"{name}, {family}, three processes over TLS")
            example.runs.append(_run_securely(example, name, family, options))
    example.counted = list(count_rounds(step, clusters))
    return example


def make_points(seed: int = 0) -> tuple[Floats, Ints, NDArray[np.bool_]]:
    """400 points, the blob of each, and which are Bob's: Alice's 200 first, either's in random order."""
    random = np.random.RandomState(seed)
    blobs = [random.normal(mean, 1.0, (100, 2)) for mean in MEANS]
    alices = np.concatenate([blob[:count] for blob, count in zip(blobs, ALICES, strict=True)])
    bobs = np.concatenate([blob[count:] for blob, count in zip(blobs, ALICES, strict=True)])
    blob = np.concatenate([np.repeat(np.arange(K), ALICES), np.repeat(np.arange(K), 100 - np.array(ALICES))])
    split = len(alices)
    order = np.concatenate([random.permutation(split), split + random.permutation(len(bobs))])
    points = np.concatenate([alices, bobs])[order]
    return points, blob[order], np.arange(len(points)) >= split


def make_example(points: Floats, blob: Ints, bobs: NDArray[np.bool_], start: Sequence[int]) -> Example:
    """All that needs no secure run."""
    own, landed = cluster_alone(points[~bobs], points[bobs])
    by_rows = Found(np.concatenate([own.labels, landed]), own.centers)  # Alice's rows come first
    by_columns, tested = cluster_alone(points[:, :1], points[:, 1:])
    return Example(points, blob, bobs, cluster_pooled(points, start), by_rows, by_columns, tested, start)


def cluster_pooled(points: Floats, start: Sequence[int]) -> Pooled:
    """k-means by scikit-learn with all points in one place, from the rows that the secure runs start from."""
    from sklearn.cluster import KMeans

    rows = points[list(start)]
    model = KMeans(len(rows), init=rows, n_init=1, algorithm="lloyd", tol=0).fit(points)
    return Pooled(model.labels_.astype(np.int64), model.cluster_centers_, int(model.n_iter_))


def cluster_alone(own: Floats, others: Floats) -> tuple[Found, Ints]:
    """The best of ten starts of k-means on one's own rows, and where the others' rows land in it."""
    from sklearn.cluster import KMeans

    model = KMeans(K, n_init=10, random_state=0).fit(own)
    return Found(model.labels_.astype(np.int64), model.cluster_centers_), model.predict(others).astype(np.int64)


def _run_securely(example: Example, name: str, family: str, options: dict[str, str]) -> SecureRun:
    points, bobs = example.points, example.bobs
    by_rows = options["partition"] == "horizontal"
    blocks = [points[~bobs], points[bobs]] if by_rows else [points[:, :1], points[:, 1:]]
    fixed: dict[str, Any] = {"transport": "tls", "random_state": SEED, "tol": 0, "bounds": BOUNDS, **options}
    model = SecureKMeans(K, protocol=family, init="random", **fixed)
    began = time.monotonic()
    model.fit_parties(blocks)
    seconds = time.monotonic() - began
    if tuple(model.init_rows_) != tuple(example.start):
        raise ProtocolError("the runs of the demo did not start from the same rows")
    found = Found(model.labels_.astype("int64"), model.cluster_centers_)
    return SecureRun(
        name,
        family,
        options["partition"],
        found,
        model.n_iter_,
        seconds,
        model.traffic_,
        model.disclosures_,
    )
