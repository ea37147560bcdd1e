"""SVK-means (paper, Algorithm 6): every party has columns of its own, and labels are revealed.

All but the comparison is local: fast, and it discloses the labels of every iteration to the data
parties. Runs only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coterie.clustering.horizontal import STOP
from coterie.clustering.spread import Spread
from coterie.clustering.task import Task
from coterie.protocols import Family
from coterie.protocols.interface import Ints

__all__ = ["local_distances", "local_means", "svk_means"]

LABELS = "each party updates its own columns by the labels"


def svk_means(
    family: Family,
    task: Task,
    own: Ints | None,
    spread: Spread,
    centers: Ints | None,
    done: int,
    iterated: Callable[[int, Ints | None], None],
) -> tuple[Ints | None, int]:
    """A party's columns of the centres and the number of iterations; `done` and `iterated` as for SHK-means.

    `own` (n, own columns) and `centers` (k, own columns) are None at the helper.
    """
    me, shape = family.me, (task.layout.n, task.clusters)
    me.channel.mark_iteration()
    iteration = done
    for iteration in range(done + 1, task.max_iter + 1):
        me.ledger.iteration = iteration
        me.streams.begin(me.streams.phase + 1)
        # lines 2 to 5: distances, each party its own part; ArgMin; the labels to every data party
        part = None if own is None or centers is None else local_distances(own, centers)
        closest = family.arg_min(family.enter(part, shape))
        labels = family.open(closest, me.world.owners, "labels", LABELS)
        moved = None
        if own is not None and labels is not None and centers is not None:  # lines 6 to 9
            old, centers = centers, local_means(own, labels, centers)
            moved = ((old - centers) ** 2).sum().reshape(1)
        stop = iteration < task.max_iter and family.open_stop_bit(
            family.enter(moved, (1,)) - spread.tolerated, 0, STOP
        )  # line 10
        me.channel.mark_iteration()
        if stop:
            break
        if iteration < task.max_iter:
            iterated(iteration, centers)
    me.ledger.iteration = None
    return centers, iteration


def local_distances(own: Ints, centers: Ints) -> Ints:
    """This party's part of the squared distances (n, k)."""
    out = np.zeros((len(own), len(centers)), np.int64)
    for j, center in enumerate(centers):
        difference = own - center
        out[:, j] = np.einsum("il,il->i", difference, difference)
    return out


def local_means(own: Ints, labels: Ints, centers: Ints) -> Ints:
    """Line 7: the mean of each cluster, rounded to the nearest; an empty one keeps its centre."""
    counts = np.bincount(labels, minlength=len(centers))[:, None]
    sums = np.zeros_like(centers)
    np.add.at(sums, labels, own)
    means = (2 * sums + counts) // np.maximum(2 * counts, 1)
    return np.where(counts == 0, centers, means)
