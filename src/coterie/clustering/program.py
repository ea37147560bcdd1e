"""A whole fit or prediction, as every role runs it: rows in, restarts, the winner out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coterie.clustering.horizontal import open_counts, shk_means
from coterie.clustering.task import Outcome, Point, Task, Watch
from coterie.clustering.vertical import svk_means
from coterie.protocols import Family
from coterie.protocols.interface import Ints, Part
from coterie.sharing import Secret, open_wide

__all__ = ["fit", "predict"]

RESULT = "the result of the study"
SMALL = "clusters below the least size stay closed"
NOBODY = Watch()


def fit(family: Family, task: Task, block: Ints | None, watch: Watch = NOBODY, resume: Point | None = None) -> Outcome:
    """Cluster. `block` is what this party holds, encoded; None at the helper. `resume`: from there on."""
    own = None if block is None else task.layout.place(family.me.rank, block)
    run = _Run(family, task, own, watch)
    outcome = run.outcome(resume or Point(0, 0))
    if task.counts == "revealed" and task.labels == "private":
        outcome.counts = open_counts(family, family.counts(outcome.kept["labels"]))
    return outcome


class _Run:
    """The restarts of a fit, of which the best is opened. Of the others nothing is learnt but their stop bits and,
    where these are revealed, their counts or labels; which one won follows from no opening but those."""

    def __init__(self, family: Family, task: Task, own: Ints | None, watch: Watch) -> None:
        self.family, self.task, self.own, self.watch = family, task, own, watch
        self.me, self.n, self.k, self.d = family.me, task.layout.n, task.clusters, task.layout.d
        self.rows = family.table(own, task.layout)

    def restart(self, point: Point, best: Secret | None) -> tuple[Secret, Secret, int]:
        """Centres (k, d), one-hot labels (n, k) for them, and iterations, from a start or where it was left."""
        return (self._svk_means if self.task.labels == "revealed" else self._shk_means)(point, best)

    def _shk_means(self, point: Point, best: Secret | None) -> tuple[Secret, Secret, int]:
        family, task = self.family, self.task
        if point.iteration:
            centers = family.restore(point.centers, (self.k, self.d))
        elif task.starts:
            centers = family.pick(self.rows, task.starts[point.start])
        else:
            centers = family.public(np.array(task.centers_given, np.int64))

        def iterated(iteration: int, centers: Secret) -> None:
            self.watch.iterated(lambda: self._point(point, iteration, self._held(centers), best))

        return shk_means(family, task, self.rows, centers, point.iteration, iterated)

    def _svk_means(self, point: Point, best: Secret | None) -> tuple[Secret, Secret, int]:
        own = centers = whole = None
        columns = self.task.layout.own_columns(self.me.rank) if self.own is not None else []
        if self.own is not None:
            own = self.own[:, columns]
            given = np.array(self.task.centers_given, np.int64)
            if point.centers is not None:
                centers = point.centers["own"].view(np.int64)
            else:
                centers = own[list(self.task.starts[point.start])] if self.task.starts else given[:, columns]

        def iterated(iteration: int, centers: Ints | None) -> None:
            held = None if centers is None else {"own": centers.view(np.uint64)}
            self.watch.iterated(lambda: self._point(point, iteration, held, best))

        centers, n_iter = svk_means(self.family, self.task, own, centers, point.iteration, iterated)
        if centers is not None:
            whole = np.zeros((self.k, self.d), np.int64)
            whole[:, columns] = centers
        shared = self.family.contribute(whole, (self.k, self.d))
        return shared, self.family.label(self.rows, shared), n_iter

    def _held(self, value: Secret) -> dict[str, NDArray[np.uint64]] | None:
        return None if self.me.is_helper else self.family.export(value)

    def _point(
        self, begun: Point, iteration: int, centers: dict[str, NDArray[np.uint64]] | None, best: Secret | None
    ) -> Point:
        return Point(begun.start, iteration, begun.most, centers, None if best is None else self._held(best))

    def outcome(self, point: Point) -> Outcome:
        family, restarts = self.family, max(len(self.task.starts), 1)
        best: tuple[Secret, Secret, Secret] | None = None  # objective, centres, labels
        if point.start:
            centers = family.restore(point.best, (self.k, self.d))
            labels = family.label(self.rows, centers)
            best = self._objective(labels, centers), centers, labels
        n_iter = point.most
        for start in range(point.start, restarts):
            self.me.ledger.restart = start
            if start > point.start:
                point = Point(start, 0, n_iter)
                self.me.channel.start_over()
                self.me.streams.begin(self.me.streams.phase + 1)
            centers, labels, iterations = self.restart(point, best[1] if best else None)
            n_iter = max(n_iter, iterations)
            if restarts > 1:
                new = self._objective(labels, centers), centers, labels
                best = new if best is None else self._better(best, new)
                _, centers, labels = best
        self.me.streams.begin(self.me.streams.phase + 1)
        return self._open(centers, labels, n_iter)

    def _better(
        self, old: tuple[Secret, Secret, Secret], new: tuple[Secret, Secret, Secret]
    ) -> tuple[Secret, Secret, Secret]:
        objective, centers, labels = self.family.choose(old[0], new[0], list(zip(old, new, strict=True)))
        return objective, centers, labels

    def _objective(self, labels: Secret, centers: Secret) -> Secret:
        sums, counts = self.family.sums(self.rows, labels)
        return self.family.objective(sums, counts, centers)

    def _open(self, centers: Secret, labels: Secret, n_iter: int) -> Outcome:
        family, me, task = self.family, self.me, self.task
        out = Outcome(n_iter=n_iter, kept={"centers": centers, "labels": labels})
        if task.least > 1:
            few = family.open(
                family.at_most(family.counts(labels), task.least - 1), me.world.data_ranks, "suppression bits", SMALL
            )
            out.suppressed = None if few is None else few.astype(np.bool_)
        if task.centers == "revealed":
            _open_centers(family, task, centers, out)
        called = None if out.suppressed is None else np.where(out.suppressed, 0, np.arange(1, self.k + 1))
        open_labels(family, task, labels, called, out)
        if task.centers == "revealed":
            total = open_wide(me, self._own_inertia(out), "inertia", RESULT)
            if total is not None:
                out.inertia = task.encoding.squared(total)
        else:
            out.inertia = self._shared_inertia(labels, centers, out)
        return out

    def _own_inertia(self, out: Outcome) -> int:
        """The squared distances of own cells to the centres that this party has learnt; exact."""
        if self.own is None or out.rows is None or out.labels is None or out.centers is None:
            return 0
        known = out.labels >= 0
        rows = np.flatnonzero(out.rows)[known]
        held = self.task.layout.own_cells(self.me.rank)[rows]
        centers = np.zeros((self.k, self.d), np.int64)
        centers[:, out.center_columns] = out.centers
        difference = np.where(held, self.own[rows] - centers[out.labels[known]], 0)
        return _exact_sum(difference * difference)

    def _shared_inertia(self, labels: Secret, centers: Secret, out: Outcome) -> float | None:
        """The inertia of centres that stay shared: their objective plus all squares, which each party adds up for
        its own cells. What the shift cuts off is added up first, so that it does not matter who holds which."""
        family, shift = self.family, self.task.problem.objective_shift
        high = low = None
        if self.own is not None and out.rows is not None and out.labels is not None:
            own = self.own[np.flatnonzero(out.rows)[out.labels >= 0]]  # of other rows it holds no cells
            squares = _exact_sum(own * own)
            high, low = (np.array([part], np.int64) for part in divmod(squares, 1 << shift))
        rest = family.truncate(family.contribute(low, (1,)), shift)
        sums, counts = family.sums(self.rows, labels)
        if self.task.least > 1:
            kept = None if out.suppressed is None else (~out.suppressed).astype(np.int64)
            sums, counts = family.keep(sums, kept), family.keep(counts, kept)
        objective = family.objective(sums, counts, centers)
        total = family.add(family.add(objective, family.contribute(high, (1,))), rest)
        opened = family.open(total, self.me.world.data_ranks, "inertia", RESULT)
        return None if opened is None else self.task.encoding.squared(int(opened[0]), shift)


def predict(family: Family, task: Task, block: Ints | None, centers: Secret, called: Ints | None = None) -> Outcome:
    """Label new rows that are shared like the data; each party learns the labels of its own rows. `called`: what each
    cluster's label is to be plus 1, where `task.least` says that some clusters may be closed."""
    own = None if block is None else task.layout.place(family.me.rank, block)
    rows = family.table(own, task.layout)
    labels = family.label(rows, centers)
    out = Outcome(kept={"labels": labels})
    open_labels(family, task, labels, called, out)
    return out


def open_labels(family: Family, task: Task, labels: Secret, called: Ints | None, out: Outcome) -> None:
    """The label of each row, to the parties that hold cells of it; -1 in suppressed clusters."""
    me, layout, first = family.me, task.layout, 0
    if task.least > 1:
        called, first = np.arange(1, task.clusters + 1) if called is None else called, 1
    index = family.index(labels, called)
    known = np.zeros(layout.n, np.bool_)
    found = np.zeros(layout.n, np.int64)
    groups = layout.label_groups(me.world.p)
    parts = [Part(rows, holders, f"{len(rows)} rows") for rows, holders in groups]
    for (rows, _), opened in zip(groups, family.open_parts(index, parts, "labels", RESULT), strict=True):
        if opened is not None:
            known[rows], found[rows] = True, opened - first
    if not me.is_helper:
        out.rows, out.labels = known, found[known]


def _open_centers(family: Family, task: Task, centers: Secret, out: Outcome) -> None:
    """Columns of the centres to those who may know them; suppressed clusters stay closed (zero here)."""
    me, layout = family.me, task.layout
    groups, names = layout.center_groups(me.world.p), task.encoding.names
    kept = np.arange(task.clusters) if out.suppressed is None else np.flatnonzero(~out.suppressed)
    parts = [Part(np.ix_(kept, np.array(columns)), to, ", ".join(names[l] for l in columns)) for columns, to in groups]
    for (columns, _), opened in zip(groups, family.open_parts(centers, parts, "centers", RESULT), strict=True):
        if opened is not None:
            out.center_columns, out.centers = columns, np.zeros((task.clusters, len(columns)), np.int64)
            out.centers[kept] = opened


def _exact_sum(squares: Ints) -> int:
    """The sum of non-negative 63-bit numbers, of which there may be more than 64 bits hold."""
    high, low = squares >> 31, squares & ((1 << 31) - 1)
    return (int(high.sum()) << 31) + int(low.sum())
