"""The secure result beside scikit-learn's on the pooled data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.sampling import Sampling, plus_plus, public_draws
from coterie.simulation.run import Simulation

__all__ = ["Called", "Comparison", "compare_with_sklearn"]


class Called(NamedTuple):
    """scikit-learn as a user would call it, and how that compares: the inertia of its clusters and of these, in its
    units, and the adjusted Rand index between them (1: the same, 0: by chance)."""

    how: str
    theirs: float
    ours: float
    rand: float

    def describe(self) -> str:
        return f"inertia {self.ours:.6g} here, {self.theirs:.6g} there; adjusted Rand index {self.rand:.3f}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """scikit-learn's centres in data units, its labels, inertia and iterations, from the same start, and how long it
    took. `emptied`: whether a cluster lost all its rows on the way. `called`: from starts of scikit-learn's own."""

    centers: NDArray[np.float64]
    labels: NDArray[Any]
    inertia: float
    n_iter: int
    seconds: float
    emptied: bool
    called: list[Called]

    def describe(self, run: Simulation, rows: NDArray[Any], columns: Sequence[int]) -> dict[str, str]:
        """How far these rows' labels and these columns' centres agree with the secure ones, in open clusters."""
        iterations = f"{run.whole.n_iter} here, {self.n_iter} there"
        if run.choices:
            iterations = f"at most {run.whole.n_iter} here, over all numbers of clusters; {self.n_iter} there"
        if not run.open.any():
            return {"labels and centres": "nothing to compare: all clusters are closed", "iterations": iterations}
        differ, count = self.count_differing(run, rows)
        off, l = self.find_largest(run, columns)
        encoding = run.task.encoding
        span = run.spans[l]
        why = " (borders, where rounding to fixed point decides; a slow run may also stop a little apart)"
        if run.task.grid:
            why = " (borders, where rounding decides)"
        if self.emptied:
            why = (
                " (a cluster lost all its rows on the way: here it keeps its centre, scikit-learn moves it to the row "
                "that lies furthest from its own)"
            )
        labels = (
            f"all {count:,} identical, from the same start" if not differ else f"{differ:,} of {count:,} differ{why}"
        )
        center = f"{off:.2g}, in column {encoding.names[l]} (range {span:,.4g})"
        found = run.whole.inertia
        inertia = f"{'not opened' if found is None else format(found, '.8g')} here, {self.inertia:.8g} there"
        merged = ""
        if not run.open.all():
            merged = "; here rows of closed clusters are labelled by the nearest open centre"
            labels += f"; {int(rows.sum()) - count:,} rows that scikit-learn puts into closed clusters are left out"
            center += ", of open clusters"
            if found is None:  # it would be that of all clusters, as numbers of clusters are compared by it
                inertia += " (with those of other numbers of clusters, it would tell of closed clusters)"
            else:
                inertia += " (here all rows count to the nearest open centre)"
        if run.task.grid:
            center += "; opened centres are rounded"
        return {
            "labels": labels,
            "largest difference of a centre": center,
            "inertia": inertia,
            "iterations": iterations,
            **{f"with {one.how}": one.describe() + merged for one in self.called if rows.all()},
        }

    def count_differing(self, run: Simulation, rows: NDArray[Any]) -> tuple[int, int]:
        """Of these rows, those that scikit-learn puts into an open cluster: how many labels differ, of how many."""
        assert run.whole.labels is not None
        compared = rows & run.open[self.labels]
        return int((run.whole.labels != self.labels)[compared].sum()), int(compared.sum())

    def find_largest(self, run: Simulation, columns: Sequence[int]) -> tuple[float, int]:
        """The largest difference between open centres relative to the column's range: how much, and the column."""
        encoding = run.task.encoding
        assert run.whole.centers is not None
        off = np.abs(encoding.decode(run.whole.centers) - self.centers)[run.open].max(axis=0, initial=0.0)
        span = run.spans
        l = columns[int(np.argmax((off / np.where(span > 0, span, 1.0))[list(columns)]))]
        return float(off[l]), l


def _units(run: Simulation) -> NDArray[np.float64]:
    """What the columns are divided by."""
    if run.task.metric is None:
        return run.task.encoding.unit
    deviations = run.data.values.std(axis=0)
    return np.where(deviations > 0, deviations, 1.0)


def _starts(run: Simulation) -> Sequence[Sequence[int]]:
    """The rows that each start began from; what k-means++ has drawn in secret follows from the whole data."""
    task = run.task
    if task.starts:
        return task.starts
    table = task.encoding.encode(run.data.values, range(task.layout.d))
    sampling = Sampling.of(task.problem)
    draws = [public_draws(seed, len(table), task.clusters) for seed in task.seeds]
    return [plus_plus(sampling, table, *drawn, weights=run.whole.scales) for drawn in draws]


def compare_with_sklearn(run: Simulation) -> Comparison:
    """Cluster the pooled data with scikit-learn, from the same start and with the same rule for stopping."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    task = run.task
    unit = _units(run)
    x = run.data.values / unit
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            KMeans(
                task.clusters, init=x[list(start)], n_init=1, max_iter=task.max_iter, tol=task.tol, algorithm="lloyd"
            ).fit(x)
            for start in _starts(run)
        ]
    seconds = time.perf_counter() - started
    best = min(fits, key=lambda fit: fit.inertia_)
    most = max(fit.n_iter_ for fit in fits)
    centers = np.asarray(best.cluster_centers_) * unit
    emptied = any(_loses_a_cluster(x, x[list(start)], task.max_iter) for start in _starts(run))
    called = _as_users_call_it(run)
    return Comparison(centers, best.labels_, float(best.inertia_), int(most), seconds, emptied, called)


def _as_users_call_it(run: Simulation) -> list[Called]:
    """With its defaults, on the columns as they are and standardised."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score
    from sklearn.preprocessing import StandardScaler

    values, labels, found = run.data.values, run.whole.labels, []
    assert labels is not None
    ways = {"its defaults": values, "its defaults, standardised": StandardScaler().fit_transform(values)}
    for how, x in ways.items():
        fit = KMeans(run.task.clusters, random_state=0).fit(x)
        rand = float(adjusted_rand_score(fit.labels_, labels))
        found.append(Called(how, float(fit.inertia_), _inertia(x, labels), rand))
    return found


def _inertia(x: NDArray[np.float64], labels: NDArray[Any]) -> float:
    """Of these clusters, around their means."""
    return float(sum(((x[labels == j] - x[labels == j].mean(axis=0)) ** 2).sum() for j in np.unique(labels)))


def _loses_a_cluster(x: NDArray[np.float64], centers: NDArray[np.float64], max_iter: int) -> bool:
    """Does Lloyd's algorithm, from there, come to a cluster without rows?"""
    labels = None
    for _ in range(max_iter):
        before, labels = labels, np.stack([((x - c) ** 2).sum(axis=1) for c in centers]).argmin(axis=0)
        counts = np.bincount(labels, minlength=len(centers))
        if (counts == 0).any():
            return True
        if before is not None and (before == labels).all():
            return False
        centers = np.stack([x[labels == j].mean(axis=0) for j in range(len(centers))])
    return False
