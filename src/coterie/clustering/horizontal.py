"""SHK-means (paper, Algorithm 5): Lloyd's algorithm on data that nobody holds whole.

Rows, columns or a patchwork of cells: the data enter as one shared table, so every partition runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.clustering.spread import Spread
from coterie.clustering.task import Task
from coterie.protocols import Family
from coterie.protocols.interface import Ints
from coterie.sharing import Secret, Shared

__all__ = ["shk_means"]

COUNTS = "the division takes the counts in the clear"
STOP = "everybody must know whether to go on"


def shk_means(
    family: Family,
    task: Task,
    rows: Secret,
    spread: Spread,
    centers: Shared,
    done: int,
    iterated: Callable[[int, Shared], None],
) -> tuple[Shared, Secret, Secret, int]:
    """Centres, the labels that they are the means of, labels for those centres, and the number of iterations, from the
    given start or, where so many iterations are `done`, from the centres they led to. `iterated` is told of each that
    another follows.

    The paper labels (line 2) at the top of the loop and tests (line 9) at its end. Here the labels are
    made at the end, while the test runs beside them: then they belong to the final centres when the loop stops.
    Where rows are matched in private there is no test: when the centres come to rest depends on who matches, however
    few do.
    """
    me, weights = family.me, spread.weights
    made = labels = family.label(rows, centers, counted=True, weights=weights)
    labels.settle()
    me.channel.mark_iteration()
    iteration = done
    for iteration in range(done + 1, task.max_iter + 1):
        me.ledger.iteration = iteration
        me.streams.begin(me.streams.phase + 1)
        old, made, centers = centers, labels, new_centers(family, task, rows, labels, centers)
        labels, stop = family.label(rows, centers, counted=True, weights=weights), False
        if iteration < task.max_iter and not task.private:
            stop = family.open_stop_bit(family.movement(old, centers, weights) - spread.tolerated, 0, STOP)
        labels.settle()
        me.channel.mark_iteration()
        if stop:
            break
        if iteration < task.max_iter:
            iterated(iteration, centers)
    me.ledger.iteration = None
    return centers, made, labels, iteration


def new_centers(family: Family, task: Task, rows: Secret, labels: Secret, old: Shared) -> Shared:
    """Lines 3 to 5: the mean of each cluster, with the counts secret or revealed."""
    if task.counts == "secret":
        return family.new_centers(rows, labels, old)
    sums, counts = family.sums(rows, labels)
    return family.means_of_public_counts(sums, open_counts(family, counts, family.me.world.servers), old)


def open_counts(family: Family, counts: Shared, to: Sequence[int]) -> Ints | None:
    return family.open(counts, to, "counts", COUNTS)
