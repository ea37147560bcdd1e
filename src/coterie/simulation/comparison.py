"""The secure result beside scikit-learn's on the pooled data."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.protocols.sampling import Sampling, plus_plus, public_draws
from coterie.simulation.run import Simulation

__all__ = ["Comparison", "compare_with_sklearn"]


@dataclass(frozen=True, repr=False)
class Comparison:
    """scikit-learn's centres in data units, its labels, inertia and iterations, and how long it took."""

    centers: NDArray[np.float64]
    labels: NDArray[Any]
    inertia: float
    n_iter: int
    seconds: float

    def describe(self, run: Simulation, rows: NDArray[Any], columns: Sequence[int]) -> dict[str, str]:
        """How far these rows' labels and these columns' centres agree with the secure ones, in open clusters."""
        iterations = f"{run.whole.n_iter} here, {self.n_iter} there"
        if not run.open.any():
            return {"labels and centres": "nothing to compare: all clusters are closed", "iterations": iterations}
        differ, count = self.count_differing(run, rows)
        off, l = self.find_largest(run, columns)
        encoding = run.task.encoding
        span = np.subtract(encoding.high, encoding.low)[l]
        why = " (borders, where rounding to fixed point decides; a slow run may also stop a little apart)"
        if run.task.grid:
            why = " (borders, where rounding decides)"
        labels = f"all {count:,} identical" if not differ else f"{differ:,} of {count:,} differ{why}"
        center = f"{off:.2g}, in column {encoding.names[l]} (range {span:,.4g})"
        inertia = f"{run.whole.inertia:.8g} here, {self.inertia:.8g} there"
        if not run.open.all():
            labels += f"; {int(rows.sum()) - count:,} rows that scikit-learn puts into closed clusters are left out"
            center += ", of open clusters"
            inertia += " (here all rows count to the nearest open centre)"
        if run.task.grid:
            center += "; opened centres are rounded"
        return {
            "labels": labels,
            "largest difference of a centre": center,
            "inertia": inertia,
            "iterations": iterations,
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
        span = np.subtract(encoding.high, encoding.low)
        l = columns[int(np.argmax((off / np.where(span > 0, span, 1.0))[list(columns)]))]
        return float(off[l]), l


def _starts(run: Simulation) -> Sequence[Sequence[int]]:
    """The rows that each start began from; what k-means++ has drawn in secret follows from the whole data."""
    task = run.task
    if task.starts:
        return task.starts
    table = task.encoding.encode(run.data.values, range(task.layout.d))
    sampling = Sampling.of(task.problem)
    return [plus_plus(sampling, table, *public_draws(seed, len(table), task.clusters)) for seed in task.seeds]


def compare_with_sklearn(run: Simulation) -> Comparison:
    """Cluster the pooled data with scikit-learn, from the same start and with the same rule for stopping."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    task = run.task
    x = run.data.values / task.encoding.unit
    spread = float(x.var(axis=0).mean())  # scikit-learn's tolerance is relative to this
    tol = task.tol / spread if spread > 0 else 0.0
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            KMeans(
                task.clusters, init=x[list(start)], n_init=1, max_iter=task.max_iter, tol=tol, algorithm="lloyd"
            ).fit(x)
            for start in _starts(run)
        ]
    seconds = time.perf_counter() - started
    best = min(fits, key=lambda fit: fit.inertia_)
    most = max(fit.n_iter_ for fit in fits)
    centers = np.asarray(best.cluster_centers_) * task.encoding.unit
    return Comparison(centers, best.labels_, float(best.inertia_), int(most), seconds)
