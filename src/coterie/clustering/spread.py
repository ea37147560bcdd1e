"""How far the data spread, worked out in secret before the first iteration: weights of columns, and when to stop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coterie.clustering.task import Task
from coterie.protocols import Family
from coterie.protocols.interface import Ints
from coterie.sharing import Shared

__all__ = ["Spread", "measure_spread"]


class Spread(NamedTuple):
    """`tolerated` (1,): the total squared movement at which to stop. `scatter` (d,): in each column the sum of squared
    distances to the mean, where it is needed. Where columns are standardised, `weights` (1, d) of their squared
    distances, `capped` (d,): 1 where a column varies too little for the weight it should have, and `squares` (d,), the
    sums of all rows' squares."""

    tolerated: Shared
    scatter: Shared | None = None
    weights: Shared | None = None
    capped: Shared | None = None
    squares: Shared | None = None


def measure_spread(family: Family, task: Task, own: Ints | None) -> Spread:
    """`own` (n, d): what this party holds, zero elsewhere; None where it holds nothing."""
    if task.metric is not None:
        scatter, squares = family.scatter(own)
        weights, capped = family.column_weights(scatter)
        return Spread(family.public(np.array([task.threshold])), scatter, weights, capped, squares)
    chooses = task.choices and task.choose == "calinski-harabasz"
    if task.tol == 0 and "calinski-harabasz" not in task.quality and not chooses:
        return Spread(family.public(np.zeros(1, np.int64)))
    scatter, _ = family.scatter(own)
    return Spread(family.tolerated(scatter, task.tol), scatter)
