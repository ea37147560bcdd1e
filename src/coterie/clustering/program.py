"""A whole fit or prediction, as every role runs it: rows in, restarts, the winner out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from coterie.clustering.allowed import allow
from coterie.clustering.choosing import Choosing
from coterie.clustering.opening import called, open_first, open_labels
from coterie.clustering.restarts import Run
from coterie.clustering.rules import Rules, rules_of
from coterie.clustering.spread import Held, hold_spread, measure_spread, restore_spread
from coterie.clustering.task import Outcome, Point, Task, Watch
from coterie.clustering.weighing import place_weights
from coterie.protocols import Family
from coterie.protocols.interface import Ints
from coterie.sharing import Shared

__all__ = ["fit", "predict"]

NOBODY = Watch()


class _Keeping(Watch):
    """Adds to every point where a fit can be taken up again what this role holds of the spread."""

    def __init__(self, watch: Watch, held: Callable[[], Held | None]) -> None:
        self.watch, self.held = watch, held

    def iterated(self, point: Callable[[], Point]) -> None:
        self.watch.iterated(lambda: self._with_spread(point()))

    def finished(self, point: Callable[[], Point]) -> None:
        self.watch.finished(lambda: self._with_spread(point()))

    def _with_spread(self, point: Point) -> Point:
        return msgspec.structs.replace(point, spread=self.held())


def fit(
    family: Family,
    task: Task,
    block: Ints | None,
    watch: Watch = NOBODY,
    resume: Point | None = None,
    rules: Rules | None = None,
    row_weights: Ints | None = None,
) -> Outcome:
    """Cluster. `block` is what this party holds, encoded; None at the helper. `resume`: from there on. `rules`: what
    may be opened, where that does not follow from the task's own layout. `row_weights`: of the rows that this party
    weighs; in a private task, at the helper, 1 for those that count and 0 for the others."""
    family.begin()
    allow(family.me, task)
    own = None if block is None else task.layout.place(family.me.rank, block)
    if rules is None and task.least > 1:
        rules = rules_of(task)
    given = place_weights(family.me, task, row_weights)
    rows = family.table(own, task.layout, given)
    spread = measure_spread(family, task, own) if resume is None else restore_spread(family, task, resume.spread)
    watch, point = _Keeping(watch, lambda: hold_spread(family, spread)), resume or Point(0, 0)
    if task.choices:
        return Choosing(family, task, own, watch, rules, rows, spread).outcome(point)
    return Run(family, task, own, watch, rules, rows, spread, row_weights=row_weights).outcome(point)


def predict(
    family: Family,
    task: Task,
    block: Ints | None,
    centers: Shared,
    closed: NDArray[np.bool_] | None = None,
    weights: Shared | None = None,
) -> Outcome:
    """Label new rows that are shared like the data; each party learns the labels of its own rows. `closed`: which
    clusters have no centre of their own, where `task.least` says that there may be such; None at the helper.
    `weights` (1, d) of columns, where they were standardised."""
    family.begin()
    allow(family.me, task, "predict")
    own = None if block is None else task.layout.place(family.me.rank, block)
    rows = family.table(own, task.layout)
    names = None
    if task.least > 1:
        if closed is None:
            closed = np.zeros(task.clusters, np.bool_)
        slots = open_first(closed)
        centers = centers[slots]
        names = called(slots, bool(closed.all()))
    labels = family.label(rows, centers, weights=weights)
    out = Outcome(kept={"labels": labels})
    open_labels(family, task, labels, names, out)
    return out
